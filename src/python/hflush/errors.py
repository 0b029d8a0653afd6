"""The failures hflush reports.

Everything that goes wrong with a store is an :class:`OSError` with ``errno`` and ``filename``;
where users of Python's ``io`` expect another class for the same event (``ValueError`` on a closed
stream), one object is both. What a store cannot do at all is :class:`io.UnsupportedOperation`.
An exception that a Hadoop server answered with keeps its Java class name as ``remote_class``.
Wrong arguments are ``TypeError``, ``ValueError`` and ``IndexError`` and change nothing.

Every class is made as ``cls(errno, message, filename)``, in the native core as well as here.
"""

from __future__ import annotations

import errno
import io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .status import FailedNode, StreamEvent

__all__ = [
    "ChecksumError",
    "ConcurrentWriterError",
    "CorruptLogError",
    "EndOfFileError",
    "FileLeaseHeldError",
    "InternalError",
    "InvalidPathError",
    "InvalidPathHandleError",
    "LeaseHeldError",
    "LeaseLostError",
    "NotAFileError",
    "NotDurableError",
    "NotPublishedWarning",
    "ParentNotDirectoryError",
    "PathIsDirectoryError",
    "PipelineError",
    "PreconditionFailedError",
    "SeekError",
    "StreamClosedError",
    "UnsupportedFileSystemError",
]


class StreamClosedError(OSError, ValueError):
    """The stream is not open any more (``EBADF``): closed, failed or aborted.

    Names the path and the state.
    """


class PathIsDirectoryError(IsADirectoryError, FileExistsError):
    """A file was to be created where a directory is (``EISDIR``)."""


class NotAFileError(IsADirectoryError, FileNotFoundError):
    """A file was to be opened where a directory is (``EISDIR``)."""


class ParentNotDirectoryError(NotADirectoryError, FileExistsError):
    """An ancestor of the path is a file (``ENOTDIR``)."""


class InvalidPathError(OSError, ValueError):
    """The name itself is not allowed (``EINVAL``); the store was not asked."""


class InvalidPathHandleError(OSError):
    """What a path handle stood for is gone or has changed (``ESTALE``)."""


class StaleTokenError(OSError):
    """The file that a token of ``persist()`` stands for is gone or has changed (``ESTALE``)."""


class SeekError(OSError, ValueError, EOFError):
    """A position that cannot be sought (``EINVAL``); the position of the stream is unchanged."""


class EndOfFileError(OSError, EOFError):
    """The file ends before the bytes that were asked for (``ENODATA``)."""


class ChecksumError(OSError):
    """Stored bytes do not match their checksum (``EIO``).

    Attributes
    ----------
    path : str
        The file; the same as ``filename``.
    position : int
        Offset in bytes of the first byte of the chunk that failed, or -1 if no chunk is to blame.
    expected, actual : int
        The stored and the computed checksum, as unsigned 32-bit numbers.
    """

    position: int = -1
    expected: int = 0
    actual: int = 0

    @property
    def path(self) -> str:
        """The file, as in ``filename``."""
        return str(self.filename)


class UnsupportedFileSystemError(OSError):
    """No file system is known for the URL's scheme (``EPROTONOSUPPORT``)."""


class LeaseHeldError(OSError):
    """Another client is writing the file, or its lease is being recovered (``EBUSY``)."""


class FileLeaseHeldError(LeaseHeldError, FileExistsError):
    """A file to be created anew exists, and another client is writing it (``EBUSY``)."""


class LeaseLostError(OSError):
    """The file is no longer this client's to write (``ESTALE``)."""


class PipelineError(OSError):
    """The servers that were to hold the bytes failed, one after another (``EIO``, ``ETIMEDOUT``).

    What was acknowledged (by ``hflush`` or ``hsync``) is kept; the message names the last failure.

    Attributes
    ----------
    failed_nodes : tuple of hflush.status.FailedNode
        All of this stream's, oldest first; the last 64 of more.
    block : str
        The block that was being written, ``blk_<id>_<generation stamp>``; empty if there was none.
    generation_stamps : tuple of int
        Of all its pipelines, oldest first: also of those that were not built.
    acknowledged : int
        Bytes of the file that every server of the pipeline had acknowledged.
    history : list of hflush.status.StreamEvent
        What happened last, oldest first: at most 64 lines. Other failures of a stream on HDFS have
        it, too.
    """

    failed_nodes: tuple[FailedNode, ...] = ()
    block: str = ""
    generation_stamps: tuple[int, ...] = ()
    acknowledged: int = 0
    history: Sequence[StreamEvent] = ()


class PreconditionFailedError(OSError):
    """The file changed since it was looked at, so a conditional write was refused (``ESTALE``)."""


class ConcurrentWriterError(FileExistsError):
    """Another writer stored the same batch first (``EEXIST``)."""


class CorruptLogError(OSError):
    """A file of a log of batches is damaged, cut off, or of a newer version (``EIO``).

    Names the file, and the line with what is wrong on it.
    """


class NotDurableError(OSError):
    """The file is complete at its path, but its name may be lost if the machine fails now."""


class NotPublishedWarning(RuntimeWarning):
    """The bytes written to a stream are dropped, and no exception reports it.

    The stream was never closed, or not by a program that had completed the file: a finaliser closed
    it, or an exception that Python ends quietly (GeneratorExit, SystemExit). Python shows this
    warning unless it is filtered; a ResourceWarning is hidden. It is logged, too, where
    logging is set up, as an error of the logger ``hflush.streams``.
    """


class InternalError(RuntimeError):
    """A broken invariant of hflush itself. Please report it, with the message and the version."""


def unsupported(operation: str, store: str, path: str | None = None) -> io.UnsupportedOperation:
    """Return the refusal of an operation that `store` does not have (``ENOTSUP``)."""
    return io.UnsupportedOperation(errno.ENOTSUP, f"{operation} is not supported by {store}", path)


def invalid_path(path: str, reason: str) -> InvalidPathError:
    """Return the refusal of a name, with the reason."""
    reason, shown = without_passwords(reason), without_passwords(path)
    return InvalidPathError(errno.EINVAL, f"invalid path: {reason}", shown)


# A URL of S3 may have lost a colon or slashes. Of another store a port may be meant, and an @ of
# the path. A password goes to the last @ before a slash, or has a slash.
_PASSWORD = r"(?i)(\bs3[an]?(?::/{0,2}|//)|://(?![^\s/@:]*:\d+/))[^\s/@:]*:(?:[^\s/]*@|[^\s@]*@)"


def without_passwords(text: str) -> str:
    """Return a message in which no URL has a user with a password."""
    if "@" not in text:
        return text
    import re

    return re.sub(_PASSWORD, r"\1…@", text)


def means_nothing_there(failure: OSError) -> bool:
    """Whether the look at a path found nothing: no such name, below a file, or links in a circle.

    ``ELOOP`` that a server answered with is none: HDFS reports a link so, which is not followed.
    """
    if isinstance(failure, (FileNotFoundError, NotADirectoryError)):
        return True
    return failure.errno == errno.ELOOP and not hasattr(failure, "remote_class")


def means_file_there(failure: BaseException) -> bool:
    """Whether a file is where one should have been made: no directory, and no file above it."""
    in_the_way = (PathIsDirectoryError, ParentNotDirectoryError)
    return isinstance(failure, FileExistsError) and not isinstance(failure, in_the_way)


def is_undecided(failure: BaseException) -> bool:
    """Whether an S3 store has not decided who makes an object, and there is none: try again."""
    remote = getattr(failure, "remote_class", "")
    return remote == "ConditionalRequestConflict" and not isinstance(failure, FileExistsError)


def attach(error: BaseException, also: BaseException) -> None:
    """Add a note to `error`, which is about to propagate: `also` has failed, too."""
    note(error, f"also failed: {type(also).__name__}: {also}")


def note(error: BaseException, text: str) -> None:
    """Add a note to an exception, which tracebacks show after its message."""
    add_note: Callable[[str], None] | None = getattr(error, "add_note", None)
    if add_note is not None:
        add_note(text)
    else:  # Python 3.10 has no add_note and shows no notes; programs find them here, too
        error.__dict__.setdefault("__notes__", []).append(text)
