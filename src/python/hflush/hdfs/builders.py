"""The builder of files of HDFS, which knows more options than that of other stores."""

from __future__ import annotations

from ..builders import FileBuilder
from ..options import CreateFlag, as_name, as_names
from .options import EC_POLICY, FAVORED_NODES, STORAGE_POLICY, UPDATE_LENGTH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

__all__ = ["HdfsFileBuilder"]


class HdfsFileBuilder(FileBuilder):
    """Collects how a file of HDFS is to be created or appended to: what FileBuilder does, and more.

    Notes
    -----
    Ask with :meth:`opt` and :meth:`must` where the file may be on another store.
    Source: Hadoop's HdfsDataOutputStreamBuilder; contract BUILDER-12.
    """

    __module__ = "hflush.hdfs"

    def _flag(self, flag: CreateFlag) -> Self:
        self._flags |= flag
        return self

    def sync_block(self) -> Self:
        """Put each block on the disks of its data nodes when it is complete, also the last one."""
        return self._flag(CreateFlag.SYNC_BLOCK)

    def update_length(self) -> Self:
        """Let hsync also bring the length that status and listings tell up to date."""
        return self._ask(UPDATE_LENGTH, True)

    def lazy_persist(self) -> Self:
        """Keep the file in the memory of a data node first."""
        return self._flag(CreateFlag.LAZY_PERSIST)

    def new_block(self) -> Self:
        """Begin a block when appending, instead of filling up the last one."""
        return self._flag(CreateFlag.NEW_BLOCK)

    def no_local_write(self) -> Self:
        """Keep no replica on this host, if there are others."""
        return self._flag(CreateFlag.NO_LOCAL_WRITE)

    def ignore_client_locality(self) -> Self:
        """Choose data nodes as if this host were none of them."""
        return self._flag(CreateFlag.IGNORE_CLIENT_LOCALITY)

    def replicate(self) -> Self:
        """Keep replicas also in a directory whose files are erasure-coded."""
        return self._flag(CreateFlag.SHOULD_REPLICATE)

    def favored_nodes(self, nodes: Sequence[str]) -> Self:
        """Let these data nodes, ``host:port`` each, keep the replicas if they can."""
        return self._ask(FAVORED_NODES, as_names(nodes))

    def storage_policy(self, name: str) -> Self:
        """Set the storage policy by name: ``HOT``, ``ALL_SSD``, …."""
        return self._ask(STORAGE_POLICY, as_name(name))

    def ec_policy(self, name: str) -> Self:
        """Set the erasure coding policy by name.

        Only ``replication``, which is none, can be written: :meth:`build` refuses any other with
        ``io.UnsupportedOperation``.
        """
        return self._ask(EC_POLICY, as_name(name))
