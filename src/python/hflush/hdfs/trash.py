"""The trash of HDFS: within an encryption zone, or a tree of snapshots that keeps what is in it."""

from __future__ import annotations

import logging

from .. import paths
from ..trash import TRASH, Trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .. import _core
    from ..files import Files
    from ..paths import StrPath

__all__ = ["HdfsTrash", "zone_of"]

# What a NameNode says that has dfs.namenode.snapshot.deletion.ordered.
_REFUSED = "not under the same snapshot root"
_SNAPSHOTS = ".snapshot"

_log = logging.getLogger(__name__)


def zone_of(client: _core.HdfsClient, directory: str) -> str | None:
    """Return the root of the encryption zone that a directory is in; None if it is in none.

    As Hadoop's client: also if the server does not say so, which is logged.
    """
    try:
        return client.encryption_zone(directory)
    except OSError as refusal:
        _log.warning("trash: not known whether %s is in an encryption zone: %s", directory, refusal)
        return None


class HdfsTrash(Trash):
    """The trash of a user; `root` is not where things go that stay below their snapshots."""

    def __init__(self, filesystem: Files, root: str, interval: float, user: str) -> None:
        super().__init__(filesystem, root, interval)
        self._user = user

    def move(self, path: StrPath) -> bool:
        """Move a file or a directory to the trash: see :meth:`hflush.trash.Trash.move`."""
        try:
            return super().move(path)
        except OSError as refusal:
            root = self._root_within(path) if _REFUSED in str(refusal) else None
            if root is None:
                raise
        return Trash(self._filesystem, root, self._interval_s / 60).move(path)

    def _root_within(self, path: StrPath) -> str | None:
        """Return the trash of the tree that a path is in, which may have snapshots."""
        directory = self._filesystem._resolve(path)
        while directory != "/":
            directory = paths.parent(directory)
            if self._filesystem.exists(paths.child(directory, _SNAPSHOTS)):
                return paths.child(paths.child(directory, TRASH), self._user)
        return None
