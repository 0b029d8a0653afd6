"""fsspec's interface of open files, on top of hflush's streams."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import threading
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .. import capabilities
from ..errors import StreamClosedError, attach
from ..streams import FSDataInputStream, FSDataOutputStream
from ..write_only import WriteOnly, leave_block, view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]
    from typing_extensions import Buffer

    from ..write_only import AbortResult, Owner

    AnyStream = TypeVar("AnyStream", FSDataInputStream, FSDataOutputStream)
    _Result = TypeVar("_Result")

__all__ = ["DISCARDED", "CompressedOutput", "FsspecFile", "OutputOver", "as_fsspec_file"]

DISCARDED = "not published"  # the state of a file that its transaction has dropped
_PIECE_BYTES = 1 << 16  # what is smaller is not compressed by itself

_METHODS = {
    capabilities.DROPBEHIND: "set_drop_behind",
    capabilities.END_BLOCK: "hsync",
    capabilities.HFLUSH: "hflush",
    capabilities.HSYNC: "hsync",
    capabilities.IOSTATISTICS: "io_statistics",
    capabilities.PERSIST: "persist",
}


class FsspecFile:
    """The attributes that files of fsspec have, for streams of hflush.

    Attributes are read-only. `path` is the name in the fsspec file system, not the path in a store.
    """

    __slots__ = ()

    # Set by as_fsspec_file.
    _opened_as: tuple[AbstractFileSystem, str, int | None, Mapping[str, Any]]

    @property
    def fs(self) -> AbstractFileSystem:
        """The fsspec file system."""
        return self._opened_as[0]

    @property
    def path(self) -> str:
        """The name in the fsspec file system."""
        return self._opened_as[1]

    @property
    def full_name(self) -> str:
        """The same as a URL."""
        return str(self.fs.unstrip_protocol(self.path))

    @property
    def size(self) -> int | None:
        """The length of a file when it was opened for reading; None for one that is written."""
        return self._opened_as[2]

    @property
    def loc(self) -> int:
        """The position in bytes."""
        return cast("io.BufferedIOBase", self).tell()

    @property
    def blocksize(self) -> int:
        """How much fsspec's own loops read at once."""
        return int(self.fs.blocksize)

    @property
    def details(self) -> dict[str, Any]:
        """The store's present answer for the path: as ``fs.info``."""
        details: dict[str, Any] = self.fs.info(self.path)
        return details

    def __reduce_ex__(self, _: Any) -> Any:
        """Send a file that is read, as fsspec's are: it is opened again, at the same position."""
        if not isinstance(self, FSDataInputStream):
            raise TypeError("an open stream that is written cannot be pickled or copied")
        fs, name, _, options = self._opened_as
        return _opened_again, (fs, name, options, self.tell())


def _opened_again(
    fs: AbstractFileSystem, name: str, options: Mapping[str, Any], position: int
) -> FSDataInputStream:
    stream: FSDataInputStream = fs.open(name, "rb", **options)
    stream.seek(position)
    return stream


def as_fsspec_file(
    stream: AnyStream, fs: AbstractFileSystem, name: str, options: Mapping[str, Any]
) -> AnyStream:
    """Give a stream, opened with `options`, the attributes of fsspec's files; return it."""
    size = stream.raw.file.length() if isinstance(stream, FSDataInputStream) else None
    stream._opened_as = (fs, name, size, options)
    stream.__class__ = _with_attributes(type(stream))  # type: ignore[arg-type]  # is hashable
    return stream


@cache
def _with_attributes(kind: type) -> type:
    own = {"__slots__": (), "__doc__": kind.__doc__, "__module__": kind.__module__}
    return type(kind.__name__, (FsspecFile, kind), own)


class OutputOver(WriteOnly):
    """An output over an output stream, whose name, mode and capabilities it has."""

    _stream: FSDataOutputStream

    def writelines(self, lines: Iterable[Buffer], /) -> None:
        """Write each of `lines`, unchanged."""
        for line in lines:
            self.write(line)

    def has_capability(self, name: str, /) -> bool:
        """Return what the stream below answers; False of a call that there is not here."""
        method = _METHODS.get(capabilities.canonical(name))
        return (method is None or hasattr(self, method)) and self._stream.has_capability(name)

    @property
    def name(self) -> str:
        """The name under which :func:`hflush.open` will find the file."""
        return self._stream.name

    @property
    def mode(self) -> str:
        """``"wb"`` or ``"xb"``."""
        return self._stream.mode

    @property
    def _owner(self) -> Owner:
        return self._stream._owner

    def _has_refused(self, failure: BaseException) -> bool:
        return self._stream._has_refused(failure)


io.BufferedIOBase.register(OutputOver)  # type: ignore[type-abstract]


class _Below:
    """What a compressor writes to: an output stream, or nothing once that has been dropped.

    The end of a compressor writes what it has left, also when it is collected.
    """

    def __init__(self, stream: FSDataOutputStream) -> None:
        self._stream = stream
        self.is_dropped = False

    def write(self, b: Buffer, /) -> int:
        return memoryview(b).nbytes if self.is_dropped else self._stream.write(b)

    def flush(self) -> None:
        """Do nothing: CompressedOutput flushes the stream."""

    def __getattr__(self, name: str) -> Any:  # its name, for one
        return getattr(self._stream, name)


_process = object()  # stands for this process: os.getpid() would cost more than a small write


def _begin_child() -> None:
    global _process  # noqa: PLW0603
    _process = object()


os.register_at_fork(after_in_child=_begin_child)


class CompressedOutput(OutputOver):
    """A compressor over an output stream: closing it ends both, and raises the failure of either.

    A compressor leaves the stream below open; closing that stream publishes the file. Several
    threads may write.
    """

    def __init__(
        self, codec: io.BufferedIOBase, below: _Below, stream: FSDataOutputStream, position: int
    ) -> None:
        self._codec = codec
        self._below = below
        self._stream = stream
        self._position = position
        self._held = bytearray()  # of small writes, as text makes, for one call of the compressor
        # Of the compressor: the same thread comes again in a handler of a signal alone.
        self._lock = threading.RLock()
        self._is_inside = False
        self._process = _process  # in a child of a fork a lock that is held stays so
        self._failure: BaseException | None = None  # of a call, which the compressor never repeats
        self._is_ended = False  # nothing of the compressor is still to be written

    def write(self, b: Buffer, /) -> int:
        """Compress bytes; returns how many were taken: all."""
        # What cannot be written leaves no hole.
        return self._in_turn("write", self._take, b if type(b) is bytes else view_of(b))

    def _take(self, data: bytes | memoryview) -> int:
        if self._is_ended:
            message = f"write: the stream is {self._condition}"
            raise StreamClosedError(errno.EBADF, message, self._error_path)
        size = len(data) if type(data) is bytes else cast("memoryview", data).nbytes
        if len(self._held) + size < _PIECE_BYTES:
            self._held += data
        else:
            self._compress_held()
            self._codec.write(data)
        self._position += size
        return size

    def _compress_held(self) -> None:
        held, self._held = self._held, bytearray()
        if held:
            self._codec.write(held)

    def flush(self) -> None:
        """Hand on what the compressor gives; promises nothing."""
        self._in_turn("flush", self._flush_codec)
        if not self._below.is_dropped:
            self._stream.flush()

    def _flush_codec(self) -> None:
        self._compress_held()
        self._codec.flush()

    def _in_turn(self, operation: str, call: Callable[..., _Result], *args: object) -> _Result:
        """Call the compressor; refuse a signal handler of a thread within it: it is half done."""
        if self._process is not _process:
            message = f"{operation}: the stream was opened before fork, by another process"
            raise StreamClosedError(errno.EBADF, message, self._error_path)
        with self._lock:
            if self._is_inside:
                name = self._error_path
                raise RuntimeError(f"{operation}: reentrant call, within a call of it: '{name}'")
            self._is_inside = True
            try:
                return call(*args)
            except BaseException as failure:
                self._failure = failure
                raise
            finally:
                self._is_inside = False

    def tell(self) -> int:
        """Return how long the file was, plus how many bytes were written, before compression."""
        return self._position

    def close(self) -> None:
        """End the compressed data, and publish. A second call is a no-op.

        Raises
        ------
        OSError
            The first failure. If the compressor has failed, the stream is aborted where it can be.
        StreamClosedError
            The stream below was closed before.
        """
        if self._is_discarded:
            self._drop_codec()
        elif not self._is_ended and self._process is _process:  # else the parent ends it
            self._in_turn("close", self._end)
        self._stream.close()

    def _end(self) -> None:
        if self._is_ended:  # by another thread
            return
        try:
            self._check_whole()
            self._compress_held()
            self._codec.close()
        except BaseException as failure:
            self._below.is_dropped = True
            leave_block(self._stream, self._stream.close, failure)
            raise
        finally:
            self._is_ended = True

    def _check_whole(self) -> None:
        """Refuse to end data in which a failed write has left a hole, or which cannot be ended."""
        if self._failure is not None and self._stream._condition == "open":
            message = "close: the compressed data may have a hole, as a write of them failed"
            raise OSError(errno.EIO, message, self._error_path) from self._failure
        if self._stream.closed and self._stream._condition != "failed":
            message = "close: the stream was closed before the compressed data had ended"
            raise StreamClosedError(errno.EBADF, message, self._error_path)

    def abort(self) -> AbortResult:
        """Publish nothing, where the stream below can be aborted."""
        result = self._stream.abort()
        self._drop_codec()
        return result

    @property
    def closed(self) -> bool:
        """Whether nothing can be written any more."""
        return self._is_discarded or (self._is_ended and self._stream.closed)

    @property
    def _is_discarded(self) -> bool:
        return self._stream._condition == DISCARDED

    @property
    def path(self) -> str:
        """The path of the stream below."""
        return self._stream.path

    @property
    def _aside(self) -> Any:
        return self._stream._aside  # type: ignore[attr-defined]  # of an atomic stream

    @property
    def _condition(self) -> str:
        return self._stream._condition

    def _abandon(self) -> bool:
        was_open = self._stream._abandon()
        self._drop_codec()
        return was_open

    def _drop_codec(self) -> None:
        self._below.is_dropped = self._is_ended = True
        if self._is_inside:  # what the thread there has left is dropped
            return
        with contextlib.suppress(Exception):  # the stream has ended, and says what there is to say
            self._codec.close()

    def _enter(self) -> None:
        """Begin a ``with`` block, of a text wrapper too."""
        self._stream._enter()

    def __repr__(self) -> str:
        return f"<hflush.fsspec.{type(self).__name__} over {self._stream!r}>"


def compressed(
    stream: FSDataOutputStream, compress: Callable[..., io.BufferedIOBase], mode: str
) -> CompressedOutput:
    """Return a compressor over a stream; if that fails, the stream is ended."""
    try:
        below, position = _Below(stream), stream.tell()  # a compressor may write at once
        return CompressedOutput(compress(below, mode=mode), below, stream, position)
    except BaseException as failure:
        try:
            leave_block(stream, stream.close, failure)
        except OSError as also:
            attach(failure, also)
        raise
