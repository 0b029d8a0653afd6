"""Capability names, and the interfaces that streams have.

Ask ``stream.has_capability(name)`` of a stream and ``fs.has_path_capability(path, name)`` of a file
system. The presence of a method or an interface proves nothing: every output stream has ``hflush``,
``hsync``, ``set_drop_behind`` and ``abort``, and raises :class:`io.UnsupportedOperation` from those
that its store cannot do. Names compare without regard to case.

Source: Hadoop's StreamCapabilities and CommonPathCapabilities.
"""

from __future__ import annotations

from abc import ABC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future
    from typing import Protocol as _Interface
    from typing import runtime_checkable

__all__ = [
    "ABORTABLE",
    "APPEND",
    "BULK_DELETE",
    "CHECKSUMS",
    "CONCAT",
    "CREATE_IN_CLOSE",
    "DELAYED_COMPLETION",
    "DROPBEHIND",
    "END_BLOCK",
    "ETAGS_AVAILABLE",
    "ETAGS_PRESERVED_IN_RENAME",
    "HFLUSH",
    "HSYNC",
    "IOSTATISTICS",
    "LEASE_RECOVERABLE",
    "MULTIPART_UPLOADER",
    "PATH_HANDLES",
    "PERMISSIONS",
    "PERSIST",
    "PREADBYTEBUFFER",
    "READAHEAD",
    "READBYTEBUFFER",
    "READ_VECTORED",
    "SYMLINKS",
    "TRUNCATE",
    "UNBUFFER",
    "Abortable",
    "CanSetDropBehind",
    "CanUnbuffer",
    "PositionedReadable",
    "Seekable",
    "StreamCapabilities",
    "Syncable",
]

# Of streams.
HSYNC = "hsync"
HFLUSH = (
    "hflush"  # deprecated by Hadoop: always the same answer as HSYNC, which is the one to ask for
)
DROPBEHIND = "dropbehind"
END_BLOCK = "fs.hdfs.capability.end.block"  # hsync can end the block that holds the newest byte
IOSTATISTICS = "iostatistics"
UNBUFFER = "in:unbuffer"
READ_VECTORED = "in:readvectored"
READAHEAD = "in:readahead"
READBYTEBUFFER = "in:readbytebuffer"  # readinto
PREADBYTEBUFFER = "in:preadbytebuffer"  # pread_into

# Of streams and of paths.
PERSIST = "fs.capability.outputstream.persist"  # persist(), hflush.resume, hflush.commit
ABORTABLE = "fs.capability.outputstream.abortable"
CREATE_IN_CLOSE = "fs.option.create.in.close"  # nothing is at the path before close
DELAYED_COMPLETION = "fs.s3a.capability.magic.output.stream"  # close can hand publication over

# Of paths.
APPEND = "fs.capability.paths.append"
CHECKSUMS = "fs.capability.paths.checksums"
CONCAT = "fs.capability.paths.concat"
PATH_HANDLES = "fs.capability.paths.pathhandles"
PERMISSIONS = "fs.capability.paths.permissions"
SYMLINKS = "fs.capability.paths.symlinks"
TRUNCATE = "fs.capability.paths.truncate"
BULK_DELETE = "fs.capability.bulk.delete"
ETAGS_AVAILABLE = "fs.capability.etags.available"
ETAGS_PRESERVED_IN_RENAME = "fs.capability.etags.preserved.in.rename"
LEASE_RECOVERABLE = "fs.capability.lease.recoverable"
MULTIPART_UPLOADER = "fs.capability.multipart.uploader"

# Older spellings that mean the same (contract A-19).
_ALIASES = {
    "fs.capability.append": APPEND,
    "fs.capability.truncate": TRUNCATE,
    "fs.capability.concat": CONCAT,
    "fs.capability.abortable": ABORTABLE,
    "fs.capability.etags.preserved": ETAGS_PRESERVED_IN_RENAME,
}


def canonical(name: str) -> str:
    """Return the spelling that is compared: lower case by ASCII rules, aliases resolved.

    Raises
    ------
    TypeError
        If `name` is not a str.
    """
    if not isinstance(name, str):
        raise TypeError(f"a capability's name must be str, not {type(name).__name__}")
    lowered = name.lower() if name.isascii() else name
    return _ALIASES.get(lowered, lowered)


if not TYPE_CHECKING:

    def _attribute(cls, name):
        """Return what a class or its nearest base defines, None if nothing."""
        return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)

    class _Interface(ABC):  # noqa: B024
        """A runtime-checkable protocol without the cost of importing ``typing``."""

        __slots__ = ()

        @classmethod
        def __subclasshook__(cls, other):
            if _Interface not in cls.__bases__:  # a class of a program's, which has an interface
                return NotImplemented
            names = [name for name in vars(cls) if not name.startswith("_")]
            return all(_attribute(other, name) is not None for name in names)

    def runtime_checkable(interface):
        return interface


@runtime_checkable
class Syncable(_Interface):
    """Something whose bytes can be made visible and durable.

    Ask for :data:`HSYNC` whether they really can.
    """

    def hflush(self) -> None:
        """Make every byte written so far visible to new readers."""

    def hsync(self) -> None:
        """Make every byte written so far visible, and put it on disk."""


@runtime_checkable
class StreamCapabilities(_Interface):
    """Something that says what it can do."""

    def has_capability(self, name: str, /) -> bool:
        """Return whether the stream has the capability `name`; False for unknown names."""
        ...


@runtime_checkable
class CanSetDropBehind(_Interface):
    """Something whose use of the operating system's cache can be advised.

    Ask for :data:`DROPBEHIND` whether it really can.
    """

    def set_drop_behind(self, value: bool | None, /) -> None:
        """Drop cached pages behind the writer (True), keep them (False), or the default (None)."""


@runtime_checkable
class Abortable(_Interface):
    """Something whose output can be thrown away.

    Ask for :data:`ABORTABLE` whether it really can.
    """

    def abort(self) -> object:
        """Publish nothing more, and return what happened."""
        ...


@runtime_checkable
class Seekable(_Interface):
    """Something with a position that can be moved; ask ``seekable()`` whether it really can."""

    def seek(self, target: int, whence: int = 0, /) -> int:
        """Move the position, and return the new one."""
        ...

    def get_pos(self) -> int:
        """Return the position in bytes."""
        ...


@runtime_checkable
class PositionedReadable(_Interface):
    """Something that is read at any position, without using or moving one of its own."""

    def pread(self, position: int, length: int) -> bytes:
        """Return up to `length` bytes at a position."""
        ...

    def read_fully(self, position: int, length: int) -> bytes:
        """Return exactly `length` bytes at a position."""
        ...

    def read_vectored(self, ranges: Sequence[tuple[int, int]]) -> list[Future[bytes]]:
        """Read several ranges at once."""
        ...


@runtime_checkable
class CanUnbuffer(_Interface):
    """Something that reads ahead and can drop what it read.

    Ask for :data:`UNBUFFER` whether it really can.
    """

    def unbuffer(self) -> None:
        """Drop what was read ahead; the position stays."""
