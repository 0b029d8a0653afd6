"""hflush for universal_pathlib: paths of ``hflushfile``, ``hflushhdfs`` and ``hflushs3`` URLs.

The classes are registered by entry point; nothing needs to be imported. The names have no plus,
which universal_pathlib takes for the end of a protocol.

    UPath("hflushhdfs://nn:8020/logs") / "day.log"
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fsspec import get_filesystem_class  # type: ignore[import-untyped]
from upath import UPath
from upath._flavour import WrappedFileSystemFlavour
from upath.implementations.cloud import CloudPath

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["HflushFilePath", "HflushHdfsPath", "HflushS3Path"]

_WITH_ANCHOR = ("hflushhdfs", "hflushs3", "hflushs3a")
# A host or bucket stays where it is when a path that begins with a slash is joined to it.
WrappedFileSystemFlavour.protocol_config["netloc_is_anchor"].update(_WITH_ANCHOR)
for _name in ("hflushfile", *_WITH_ANCHOR):
    get_filesystem_class(_name)  # universal_pathlib takes the rules for names of what is loaded


class _Sendable(UPath):
    """A path whose pickle holds secrets only where its file system's does.

    A copy within the process keeps them.
    """

    __slots__ = ()

    def __reduce__(self) -> Any:
        make, (cls, args, options) = super().__reduce__()  # type: ignore[no-untyped-call]
        return make, (cls, args, self.fs._sent(options))

    def __copy__(self) -> Self:
        make, arguments = super().__reduce__()  # type: ignore[no-untyped-call]
        copied: Self = make(*arguments)
        return copied

    def __deepcopy__(self, _: object) -> Self:
        return self.__copy__()


class HflushFilePath(_Sendable):
    """A local path, through :class:`hflush.fsspec.HflushFileSystem`."""

    __slots__ = ()


class HflushHdfsPath(_Sendable):
    """A path of HDFS, through :class:`hflush.fsspec.HflushHdfsFileSystem`; the host stays in it."""

    __slots__ = ()


class HflushS3Path(_Sendable, CloudPath):
    """A path of S3, through :class:`hflush.fsspec.HflushS3FileSystem`: the bucket is its anchor."""

    __slots__ = ()
