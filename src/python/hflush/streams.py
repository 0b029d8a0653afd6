"""The streams: what is written to and read from open files."""

from __future__ import annotations

import errno
import io
import operator
import os
import sys
import threading
import time
import warnings

from . import _core
from ._core import take_pending
from .builder import ON_EXCEPTION, whole
from .capabilities import (
    ABORTABLE,
    HSYNC,
    IOSTATISTICS,
    PREADBYTEBUFFER,
    READ_VECTORED,
    READBYTEBUFFER,
    UNBUFFER,
    canonical,
)
from .errors import (
    EndOfFileError,
    NotPublishedWarning,
    SeekError,
    StreamClosedError,
    attach,
    note,
    unsupported,
)
from .handling import finaliser_calls, marks, newer
from .statistics import IOStatistics, live

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Executor, Future
    from types import ModuleType, TracebackType
    from typing import NoReturn, TypeAlias

    from typing_extensions import Buffer, Self

    from .checkpoint import CancellableFSDataOutputStream
    from .filesystem import FileSystem
    from .handling import Marks

    AnyOutput: TypeAlias = "FSDataOutputStream | CancellableFSDataOutputStream"
    NativeFile: TypeAlias = "_core.InputFile | _core.HdfsInputFile | _core.S3InputFile"

__all__ = ["AbortResult", "FSDataInputStream", "FSDataOutputStream"]


class AbortResult:
    """What :meth:`FSDataOutputStream.abort` did.

    Attributes
    ----------
    already_closed : bool
        The stream was closed or aborted before, so nothing was left to do.
    cleanup_exception : OSError or None
        What went wrong while removing temporary data. Nothing is published all the same.
    """

    __slots__ = ("already_closed", "cleanup_exception")

    def __init__(self, already_closed: bool, cleanup_exception: OSError | None = None) -> None:
        self.already_closed = already_closed
        self.cleanup_exception = cleanup_exception

    def __repr__(self) -> str:
        return (
            f"AbortResult(already_closed={self.already_closed}, "
            f"cleanup_exception={self.cleanup_exception!r})"
        )


def refused(operation: str) -> Callable[..., NoReturn]:
    """Return a method that no output stream has, as io has them all."""

    def refuse(self: FSDataOutputStream, *_: object) -> NoReturn:
        """Raise io.UnsupportedOperation."""
        take_pending()  # one more refusal, of a program that goes on after the first
        name = f"{operation} on an output stream"
        raise unsupported(name, self._filesystem.store_name, self._error_path)

    return refuse


def leave_block(out: AnyOutput, close: Callable[[], None], error: BaseException | None) -> None:
    """End a ``with`` block over `out`: publish, or abort if `error` left it and `out` can."""
    if error is None:
        close()
        return
    if out.has_capability(ABORTABLE):
        _withdraw(out, error)
        return
    try:
        close()
    except Exception as failure:  # what the block raised stays the primary exception
        attach(error, failure)


def end(
    out: AnyOutput,
    pending: BaseException | None,
    older: Marks | None,
    publish: Callable[[], None],
    abandon: Callable[[], bool],
) -> None:
    """Do what close() of `out` is to do: publish, unless an exception or a finaliser calls it.

    Parameters
    ----------
    out : FSDataOutputStream or CancellableFSDataOutputStream
        The stream.
    pending : BaseException or None
        What was pending when close() was called: the caller is no Python program.
    older : tuple of dict or None
        The marks of exceptions that mean nothing; None if none means anything.
    publish, abandon : callable
        What to do; abandon returns whether there was anything to be.
    """
    error = newer(older) if pending is None else pending
    looks = older is not None and not out.closed
    if error is None:
        if looks and finaliser_calls() and out.has_capability(ABORTABLE):
            if abandon():
                report(out, "closed by a finaliser, not published")
        else:
            publish()
        return
    if looks and out.has_capability(ABORTABLE) and _withdraw(out, error):
        note(
            error,
            f"not published: {out.name}: close() was called because of this exception; "
            f"{ON_EXCEPTION}=publish publishes all the same",
        )
        raise error
    publish()  # what files do; or a wait for whoever closes it
    if pending is not None:
        raise pending


def _withdraw(out: AnyOutput, error: BaseException) -> bool:
    """Abort `out` because of `error`; return whether there was anything to abort."""
    try:
        result = out.abort()
    except Exception as failure:  # `error` stays the primary exception
        attach(error, failure)
        return True
    if result.cleanup_exception is not None:
        attach(error, result.cleanup_exception)
    if result.already_closed:
        return False
    if not isinstance(error, (Exception, KeyboardInterrupt)):
        report(out, f"ended by {type(error).__name__}, not published")
    return True


def report(
    out: AnyOutput,
    what: str,
    _warn: Callable[..., None] = warnings.warn,
    _category: type[Warning] = NotPublishedWarning,
    _unraisable: Callable[[BaseException, object], None] = _core.write_unraisable,
    _modules: dict[str, ModuleType] = sys.modules,
) -> None:
    """Say that bytes were dropped, where no exception will: never raises.

    The module may be half gone when this is called, so it brings with it what it needs.
    """
    message = f"{what}: {out!r}"
    try:
        logging = _modules.get("logging")
        if logging is not None and (log := logging.getLogger(__name__)).hasHandlers():
            log.error(message)
        _warn(message, _category, stacklevel=3, source=out)
    except Exception as failure:
        _unraisable(failure, out)


if TYPE_CHECKING:
    from typing import BinaryIO as FileObject  # io.BufferedIOBase.register() says it at run time
else:
    FileObject = object


class WriteOnly(FileObject):
    """What io asks of every file object, answered for one that is only written to."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def closed(self) -> bool: ...
        @property
        def path(self) -> str: ...

    @property
    def _error_path(self) -> str:
        """How errors name the file."""
        return self.path

    def writable(self) -> bool:
        """Return True."""
        return True

    def readable(self) -> bool:
        """Return False."""
        return False

    def seekable(self) -> bool:
        """Return False: what is written is never changed or removed."""
        return False

    def isatty(self) -> bool:
        """Return False; :class:`hflush.StreamClosedError` after close, as io raises ValueError."""
        if self.closed:
            raise StreamClosedError(errno.EBADF, "isatty: stream is closed", self._error_path)
        return False

    fileno = refused("fileno")  # a descriptor would bypass the stream
    seek = refused("seek")
    truncate = refused("truncate")
    detach = refused("detach")
    read = refused("read")
    read1 = refused("read1")
    readinto = refused("readinto")
    readinto1 = refused("readinto1")
    readline = refused("readline")
    readlines = refused("readlines")
    __iter__ = refused("iteration")
    __next__ = refused("iteration")


class FSDataOutputStream(_core.OutputStream, WriteOnly):
    """An output stream that says when its bytes are visible, durable and published.

    Made by :func:`hflush.create`, :func:`hflush.append`, :func:`hflush.open` and the methods of
    :class:`hflush.FileSystem`; several threads may use one at once. Registered with
    :class:`io.BufferedIOBase`: text wrappers, ``csv``, ``zipfile``, pandas, pyarrow and numpy write
    to it.

    ``write(b, off=0, len=None)`` appends ``b[off:off + len]``, in order, and returns how many bytes
    that were: all of them. `b` is any C-contiguous bytes-like object, counted in bytes, and may be
    reused on return. Concurrent writes interleave whole. No visibility and no durability is
    promised. It raises TypeError for str, None and int; IndexError for bounds outside `b`;
    BufferError for views that are not contiguous; :class:`StreamClosedError`; and the failure of
    anything that went on in the background.

    Notes
    -----
    Leaving a ``with`` block by an exception aborts where abort is a capability and otherwise
    closes; the exception stays the primary one. So does a :meth:`close` that somebody else calls
    because of an exception. A stream that is garbage-collected while open, or whose wrapper is, is
    abandoned with a :class:`hflush.NotPublishedWarning`: nothing more is published. A stream opened
    before a fork raises in the child.
    Source: Hadoop's output stream specification; docs/semantics.md.

    Examples
    --------
    >>> import hflush, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "journal")
    >>> with hflush.create(path) as out:
    ...     _ = out.write(b"record")
    ...     out.hsync()
    """

    __slots__ = ("_filesystem", "_mode", "_name", "_older", "_opened_as")

    # The core makes the object without __init__; the file system that asked for it binds it.
    _filesystem: FileSystem
    _mode: str
    _name: str
    _opened_as: object  # of a façade that has names of its own for files: hflush.fsspec
    # The exceptions that close() does not look at; None: at none.
    _older: Marks | None

    def _bind(self, filesystem: FileSystem, name: str, mode: str, older: Marks | None) -> None:
        self._filesystem = filesystem
        self._name = name
        self._mode = mode
        self._older = older

    # --- writing: write() itself is the core's, a call between would cost more than it does ---

    def write_byte(self, value: int, /) -> None:
        """Append one byte: the low 8 bits of `value`. Otherwise as ``write``."""
        super().write_byte(value)

    # flush() is the core's, too: a library may call it while an exception is pending.

    def hflush(self) -> None:
        """Make every byte whose write has returned visible to new readers anywhere.

        Returns when the store has acknowledged. Durability is not promised. Do not call it for
        every line or record, unless in a write-ahead log: each call waits for the store, and
        ``op_hflush`` of :meth:`io_statistics` shows how often.

        Raises
        ------
        io.UnsupportedOperation
            The store cannot (``has_capability("hsync")`` is False); the stream stays open.
        StreamClosedError
            The stream is not open.
        OSError
            The store failed, and so has the stream. TimeoutError and InterruptedError leave it
            open.

        Notes
        -----
        Source: Hadoop's Syncable; contract HFLUSH-1 to HFLUSH-16.
        """
        super().hflush()

    def hsync(self) -> None:
        """Make every byte whose write has returned visible, and put it on disk: all of them.

        Concurrent calls share one sync. Do not call it for every line or record, unless in a
        write-ahead log: each call waits for a disk, and ``op_hsync`` of :meth:`io_statistics`
        shows how often.

        Raises
        ------
        io.UnsupportedOperation, StreamClosedError, OSError
            As :meth:`hflush`. After a failed sync nothing reports the same bytes as durable. On
            HDFS a stream stays open if no DataNode can sync an earlier block now; call again.

        Notes
        -----
        Source: Hadoop's Syncable; contract HSYNC-1 to HSYNC-17.
        """
        super().hsync()

    def set_drop_behind(self, value: bool | None, /) -> None:
        """Drop cached pages behind the writer (True), keep them (False), or do the default (None).

        Raises
        ------
        io.UnsupportedOperation
            The store cannot (``has_capability("dropbehind")`` is False); the stream stays open.
        TypeError
            Neither bool nor None.
        """
        if value is not None and not isinstance(value, bool):
            raise TypeError(f"value must be bool or None, not {type(value).__name__}")
        super().set_drop_behind(value)

    # --- ending ---

    def close(self) -> None:
        """Publish: the one attempt. A second call is a no-op.

        On return the bytes are visible to all. They are durable only after :meth:`hsync` or with
        ``sync_on_close``. It may take long and it may fail, and the stream is closed either way.

        Where abort is a capability, a call that is made while an exception is being handled which
        is newer than the stream (or than the ``with`` block over it) aborts instead, and raises
        that exception again. ``hflush.close.on-exception``, set to ``publish``, switches that off.

        Raises
        ------
        OSError
            The first failure, with path; other failures are attached as notes.
        BaseException
            The exception that is being handled, with a note that nothing was published.

        Notes
        -----
        Source: Hadoop's output stream specification; contract CLOSE-1 to CLOSE-26.
        """
        pending = take_pending()  # before anything else: whatever looks would find it
        end(self, pending, self._older, self._publish, self._abandon)

    def _publish(self) -> None:
        """Close, whatever is being handled."""
        try:
            super().close()
        finally:
            self._filesystem._release(self)

    def abort(self) -> AbortResult:
        """Publish nothing more: what is at the path stays as it is.

        Returns
        -------
        AbortResult
            Whether there was nothing left to abort, and what failed while cleaning up.

        Raises
        ------
        io.UnsupportedOperation
            Output of this store appears before close, so it cannot be taken back
            (``has_capability("fs.capability.outputstream.abortable")`` is False). The stream stays
            open.

        Notes
        -----
        Source: Hadoop's Abortable specification.
        """
        already_closed, cleanup_exception = self._abort()
        self._filesystem._release(self)
        return AbortResult(already_closed, cleanup_exception)

    def __enter__(self) -> Self:
        if self.closed:
            raise StreamClosedError(errno.EBADF, f"stream is {self._state}", self._error_path)
        self._enter()
        return self

    def _enter(self) -> None:
        """Begin a ``with`` block: what is being handled around it is no reason to abort."""
        if self._older is not None:
            self._older = marks()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        leave_block(self, self.close, error)

    def __del__(self, _report: Callable[..., None] = report) -> None:
        if self._abandon():
            _report(self, "never closed, not published")

    def _dealloc_warn(self, _source: object, _report: Callable[..., None] = report) -> None:
        """Say that a wrapper is collected, which would close next: io asks for that."""
        if self._abandon():
            _report(self, "never closed, not published")

    # --- what it is ---

    def tell(self) -> int:
        """Return how many bytes the file has: at append those it had, plus what was written.

        Also after close.
        """
        return super().tell()

    def get_pos(self) -> int:
        """Return the position in bytes: Hadoop's name for :meth:`tell`."""
        return super().get_pos()

    def has_capability(self, name: str, /) -> bool:
        """Return whether this stream really can, by a name of :mod:`hflush.capabilities`.

        Without regard to case; unknown names are False, a closed stream answers, too.
        Source: Hadoop's StreamCapabilities; contract CAP-1 to CAP-12.

        Raises
        ------
        TypeError
            `name` is no str.
        """
        return super().has_capability(canonical(name))

    @property
    def closed(self) -> bool:
        """Whether the stream is not open any more, for whatever reason."""
        return super().closed

    @property
    def name(self) -> str:
        """The name under which :func:`hflush.open` finds the file: a plain path if it is local."""
        return self._name

    @property
    def path(self) -> str:
        """The absolute path in the store, as in ``filename`` of errors."""
        return self._path

    @property
    def mode(self) -> str:
        """``"wb"``, ``"xb"`` or ``"ab"``."""
        return self._mode

    def io_statistics(self) -> IOStatistics:
        """Return what this stream did, also after close: see :mod:`hflush.statistics`."""
        return live(self._flat_statistics)

    def _flat_statistics(self) -> dict[str, int]:
        flat = self._statistics()
        for name, count in self._own_statistics().items():
            flat[name] = flat.get(name, 0) + count
        return flat

    def _own_statistics(self) -> dict[str, int]:
        """Return what is counted here, and not by the core."""
        return {}

    def __repr__(self) -> str:
        return (
            f"<hflush.{type(self).__name__} name={self._name!r} mode={self._mode!r} {self._state}>"
        )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "an open stream cannot be pickled or copied: pickle its FileSystem and path"
        )

    def writelines(self, lines: Iterable[Buffer], /) -> None:
        """Write each of `lines`, as they are; other threads may write between them."""
        for line in lines:
            self.write(line)


io.BufferedIOBase.register(FSDataOutputStream)


class UnbufferedOutputStream(FSDataOutputStream):
    """Hands every write to the next layer before it returns, as ``open(..., buffering=0)`` does."""

    __slots__ = ()

    def write(self, b: Buffer, off: int = 0, len: int | None = None) -> int:
        """Append and flush."""
        written = super().write(b, off, len)
        self.flush()
        return written

    def write_byte(self, value: int, /) -> None:
        """Append and flush."""
        super().write_byte(value)
        self.flush()


class ReportingOutputStream(FSDataOutputStream):
    """Calls the program's `progress` now and then: after a call, and while one waits for a store.

    It is called without any lock held, by the thread that uses the stream, about 20 times a second
    at most. What it raises ends the call; the stream is as after an interrupt.
    """

    __slots__ = ("_next", "_progress")
    _next: float
    _progress: Callable[[], None]

    def _report_to(self, progress: Callable[[], None]) -> None:
        self._progress = progress
        self._next = 0.0

    def _report(self) -> None:
        """Call it if it is due. The core does so while a call waits."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _REPORT_INTERVAL_S
            self._progress()

    def write(self, b: Buffer, off: int = 0, len: int | None = None) -> int:
        """Append and report."""
        written = super().write(b, off, len)
        self._report()
        return written

    def hflush(self) -> None:
        """Make visible and report."""
        super().hflush()
        self._report()

    def hsync(self) -> None:
        """Make durable and report."""
        super().hsync()
        self._report()


_REPORT_INTERVAL_S = 0.05


class UnbufferedReportingOutputStream(UnbufferedOutputStream, ReportingOutputStream):
    """Both."""

    __slots__ = ()


class DowngradedOutputStream(FSDataOutputStream):
    """Turns hflush and hsync into counted flushes where the store has neither.

    Only ``hflush.syncable.downgrade`` makes such streams; it is off by default. The first
    downgraded call of a stream warns.
    """

    __slots__ = ("_downgraded", "_lock")
    _downgraded: dict[str, int]
    _lock: threading.Lock

    def _bind(self, filesystem: FileSystem, name: str, mode: str, older: Marks | None) -> None:
        super()._bind(filesystem, name, mode, older)
        self._downgraded = {"op_hflush": 0, "op_hsync": 0}
        self._lock = threading.Lock()

    def hflush(self) -> None:
        """Flush and count, where the store cannot hflush."""
        if self.has_capability(HSYNC):
            super().hflush()
        else:
            self._downgrade("hflush")

    def hsync(self) -> None:
        """Flush and count, where the store cannot hsync."""
        if self.has_capability(HSYNC):
            super().hsync()
        else:
            self._downgrade("hsync")

    def _downgrade(self, operation: str) -> None:
        if self.closed:
            raise StreamClosedError(
                errno.EBADF, f"{operation}: stream is {self._state}", self._error_path
            )
        self.flush()
        with self._lock:
            first = not any(self._downgraded.values())
            self._downgraded[f"op_{operation}"] += 1
        if first:
            warnings.warn(
                f"{operation} is only a flush on {self._filesystem.store_name}, as "
                "hflush.syncable.downgrade asks: nothing is made visible or durable",
                RuntimeWarning,
                stacklevel=3,
            )

    def _own_statistics(self) -> dict[str, int]:
        return self._downgraded


class UnbufferedDowngradedOutputStream(UnbufferedOutputStream, DowngradedOutputStream):
    """Both."""

    __slots__ = ()


# --- reading -------------------------------------------------------------------------------------


class _Counters:
    """Counts that several threads add to."""

    __slots__ = ("_counts", "_lock")

    def __init__(self, *names: str) -> None:
        self._counts = dict.fromkeys(names, 0)
        self._lock = threading.Lock()

    def add(self, **counts: int) -> None:
        with self._lock:
            for name, count in counts.items():
                self._counts[name] += count

    def returned(self, count: int) -> None:
        """Count bytes that a caller got: with every line, so quickly."""
        with self._lock:
            self._counts["stream_read_bytes"] += count

    def snapshot(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)


class _Source(io.RawIOBase):
    """The bytes of one open file, with a position, for io.BufferedReader to buffer.

    Owned by its FSDataInputStream, whose lock is held in every call but pread.
    """

    mode = "rb"

    def __init__(self, file: NativeFile, name: str, path: str, bounded: bool) -> None:
        self.file = file
        self.name = name
        self.path = path
        self._bounded = bounded  # a position past the end cannot be sought
        self._position = 0
        self.counters = _Counters(
            "stream_read_bytes",
            "stream_read_total_bytes",
            "stream_read_operations",
            "stream_read_exceptions",
            "stream_read_seek_operations",
        )

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        if not isinstance(self.file, _core.InputFile) or self.file.verified:
            raise unsupported("fileno", "a stream that is not a plain local file", self.path)
        return self.file.fileno()

    def close(self) -> None:
        if not self.closed:
            self.file.close()
            super().close()

    def readinto(self, buffer: Buffer, /) -> int:
        count = self.pread_into(self._position, buffer)
        self._position += count
        return count

    def pread_into(self, position: int, buffer: Buffer) -> int:
        return self._counted(lambda: self.file.read_into(position, buffer))

    def readall(self) -> bytes:
        parts: list[bytes] = []
        while True:  # once more after the expected end: a file being written may have grown
            remaining = max(self.file.length() - self._position, io.DEFAULT_BUFFER_SIZE)
            part = self.pread(self._position, remaining)
            if not part:
                return parts[0] if len(parts) == 1 else b"".join(parts)
            self._position += len(part)
            parts.append(part)

    def pread(self, position: int, length: int) -> bytes:
        data = b""

        def read() -> int:
            nonlocal data
            data = self.file.read(position, length)
            return len(data)

        self._counted(read)
        return data

    def _counted(self, read: Callable[[], int]) -> int:
        try:
            count = read()
        except OSError:
            self.counters.add(stream_read_exceptions=1)
            raise
        self.counters.add(stream_read_total_bytes=count, stream_read_operations=1)
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._position = self.target(offset, whence, self._position)
        self.counters.add(stream_read_seek_operations=1)
        return self._position

    def tell(self) -> int:
        return self._position

    def target(self, offset: int, whence: int, position: int) -> int:
        """Return the position that a seek means, if it can be sought."""
        if whence == os.SEEK_CUR:
            offset += position
        elif whence == os.SEEK_END:
            offset += self.file.length()
        elif whence != os.SEEK_SET:
            raise ValueError(f"invalid whence ({whence}, should be 0, 1 or 2)")
        if offset < 0:
            raise SeekError(errno.EINVAL, f"cannot seek to negative position {offset}", self.path)
        if self._bounded and offset > self.file.length():
            message = f"cannot seek to {offset}, past the end at {self.file.length()}"
            raise SeekError(errno.EINVAL, message, self.path)
        return offset


class FSDataInputStream(io.BufferedReader):
    """A file opened for reading, verified where checksums are kept.

    Made by :func:`hflush.open` and :meth:`hflush.FileSystem.open`. All that
    :class:`io.BufferedReader` does works; :meth:`pread`, :meth:`read_fully` and
    :meth:`read_vectored` neither use nor move the position and may run in several threads at once.

    Notes
    -----
    Bytes that do not match their checksum raise :class:`hflush.ChecksumError`. A closed stream
    raises :class:`hflush.StreamClosedError` from every read; seeking it is harmless.
    Source: Hadoop's input stream specification; contract READ-1 to READ-21.
    """

    raw: _Source
    _opened_as: object  # as of FSDataOutputStream

    def __init__(
        self,
        filesystem: FileSystem,
        file: NativeFile,
        name: str,
        path: str,
        *,
        buffer_size: int,
        seeks_past_end: bool,
    ) -> None:
        self._filesystem = filesystem
        super().__init__(_Source(file, name, path, not seeks_past_end), buffer_size)

    @property
    def path(self) -> str:
        """The absolute path in the store, as in ``filename`` of errors."""
        return self.raw.path

    # --- io.BufferedReader, with the errors of the contract ---

    def read(self, size: int | None = -1, /) -> bytes:
        """Return up to `size` bytes, all that is left for -1 or None, ``b""`` at the end."""
        try:
            return self._got_bytes(super().read(size))
        except ValueError as error:
            raise self._translated(error) from None

    def read1(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes with at most one read of the store."""
        try:
            return self._got_bytes(super().read1(size))
        except ValueError as error:
            raise self._translated(error) from None

    def readinto(self, buffer: Buffer, off: int = 0, len: int | None = None, /) -> int:
        """Fill ``buffer[off:off + len]``, counted in bytes, and return how many were read.

        Raises
        ------
        TypeError
            `buffer` is no writable buffer.
        IndexError
            `off` or `len` is negative, or they leave the buffer.
        """
        try:
            return self._got(super().readinto(_window(buffer, off, len)))
        except ValueError as error:
            raise self._translated(error) from None

    def readinto1(self, buffer: Buffer, /) -> int:
        """Fill `buffer` with at most one read of the store, and return how many bytes were read."""
        try:
            return self._got(super().readinto1(buffer))
        except ValueError as error:
            raise self._translated(error) from None

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return the next line with its end, at most `size` bytes of it."""
        try:
            return self._got_bytes(super().readline(size))
        except ValueError as error:
            raise self._translated(error) from None

    def peek(self, size: int = 0, /) -> bytes:
        """Return buffered bytes without moving the position."""
        try:
            return super().peek(size)
        except ValueError as error:
            raise self._translated(error) from None

    def tell(self) -> int:
        """Return the position in bytes."""
        self._check_open()
        return super().tell()

    def get_pos(self) -> int:
        """Return the position in bytes: Hadoop's name for :meth:`tell`."""
        return self.tell()

    def seek(self, target: int, whence: int = os.SEEK_SET, /) -> int:
        """Move the position.

        Returns
        -------
        int
            The new position in bytes. On a closed stream nothing happens and `target` is returned,
            where the store declares ``supports-seek-on-closed-file``.

        Raises
        ------
        SeekError
            The position is negative, or past the end where the store refuses that
            (``rejects-seek-past-eof``). The position is unchanged.
        StreamClosedError
            The stream is closed, and the store does not declare that.
        """
        if self.closed:
            if self._filesystem._fixed_options()["supports-seek-on-closed-file"]:
                return target
            raise self._closed_error("seek")
        position = super().tell() if whence == os.SEEK_CUR else 0
        return super().seek(self.raw.target(target, whence, position))

    def flush(self) -> None:
        """Do nothing, also on a closed stream: there is nothing to hand on."""

    def isatty(self) -> bool:
        """Return False."""
        return False

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __iter__(self) -> Self:
        self._check_open()
        return self

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<hflush.FSDataInputStream name={self.name!r} {state}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "an open stream cannot be pickled or copied: pickle its FileSystem and path"
        )

    # --- positioned reads ---

    def pread(self, position: int, length: int) -> bytes:
        """Read at a position, without using or moving the stream's own.

        Parameters
        ----------
        position : int
            Offset in the file in bytes, 0 or more.
        length : int
            How many bytes, 0 or more.

        Returns
        -------
        bytes
            What is there: fewer than `length` bytes only at the end of the file.

        Raises
        ------
        SeekError
            `position` is negative.
        IndexError
            `length` is negative.
        StreamClosedError, ChecksumError, OSError
            The stream is closed; stored bytes are damaged; the store fails.

        Notes
        -----
        Thread-safe. Source: Hadoop's PositionedReadable; contract READ-10, READ-11.
        """
        position, length = self._checked_position(position), whole("length", length)
        if length < 0:
            raise IndexError(f"cannot read {length} bytes")
        if position > _LAST_POSITION:
            return b""
        return self._got_bytes(self.raw.pread(position, min(length, _LAST_POSITION)))

    def pread_into(self, position: int, buffer: Buffer) -> int:
        """Fill `buffer` from a position, without using or moving the stream's own.

        Parameters
        ----------
        position : int
            Offset in the file in bytes, 0 or more.
        buffer : writable bytes-like
            What the bytes go to, without a copy between.

        Returns
        -------
        int
            How many bytes: fewer than there is room for only at the end of the file.

        Raises
        ------
        SeekError, TypeError
            `position` is negative; `buffer` is no writable buffer.
        StreamClosedError, ChecksumError, OSError
            As :meth:`pread`.

        Notes
        -----
        Thread-safe. Source: Hadoop's ByteBufferPositionedReadable.
        """
        position = self._checked_position(position)
        return self._got(0 if position > _LAST_POSITION else self.raw.pread_into(position, buffer))

    def _checked_position(self, position: int) -> int:
        self._check_open()
        position = whole("position", position)
        if position < 0:
            message = f"cannot read at negative position {position}"
            raise SeekError(errno.EINVAL, message, self.raw.path)
        return position

    def read_fully(self, position: int, length: int) -> bytes:
        """Read exactly `length` bytes at `position`; otherwise as :meth:`pread`.

        Raises
        ------
        EndOfFileError
            The file ends before that. It is an :class:`EOFError`.
        """
        data = self.pread(position, length)
        if len(data) < length:
            message = f"{length} bytes at {position} were asked for, and there are {len(data)}"
            raise EndOfFileError(errno.ENODATA, message, self.raw.path)
        return data

    def read_vectored(self, ranges: Sequence[tuple[int, int]]) -> list[Future[bytes]]:
        """Read several ranges at once, in background threads.

        Parameters
        ----------
        ranges : sequence of (int, int)
            Offsets and lengths in bytes, in any order.

        Returns
        -------
        list of concurrent.futures.Future
            One per range, in the given order; each result is what :meth:`read_fully` returns. A
            range past the end fails in its future, or in the call where the store declares
            ``vector-io-early-eof-check``.

        Raises
        ------
        TypeError
            `ranges` or an element is no sequence of that kind.
        ValueError
            A length is negative, or ranges overlap where the store does not declare
            ``vector-io-overlapping-ranges``.
        EndOfFileError
            An offset is negative.

        Notes
        -----
        Source: Hadoop's input stream specification, readVectored; contract READ-21.
        """
        self._check_open()
        checked = [self._checked_range(one) for one in ranges]
        options = self._filesystem._fixed_options()
        if not options["vector-io-overlapping-ranges"]:
            _refuse_overlaps(checked)
        if options["vector-io-early-eof-check"]:
            for offset, length in checked:
                self._check_end(offset, length)
        if not checked:
            return []
        executor = _vector_readers()
        return [executor.submit(self.read_fully, offset, length) for offset, length in checked]

    def _checked_range(self, one: tuple[int, int]) -> tuple[int, int]:
        try:
            offset, length = map(operator.index, one)
        except (TypeError, ValueError):
            raise TypeError(f"a range must be (offset, length), not {one!r}") from None
        if length < 0:
            raise ValueError(f"range with a negative length: {one!r}")
        if offset < 0:
            message = f"range with a negative offset: {one!r}"
            raise EndOfFileError(errno.EINVAL, message, self.raw.path)
        return offset, length

    def _check_end(self, offset: int, length: int) -> None:
        end = self.raw.file.length()
        if offset + length > end:
            message = f"range ({offset}, {length}) leaves the file, which ends at {end}"
            raise EndOfFileError(errno.ENODATA, message, self.raw.path)

    # --- the rest ---

    def unbuffer(self) -> None:
        """Drop what was read ahead; the position stays. A no-op on a closed stream."""
        if not self.closed:
            position = super().tell()
            super().seek(0, os.SEEK_END)  # the only seek that always empties the buffer
            super().seek(position)

    def has_capability(self, name: str, /) -> bool:
        """Return whether this stream has a capability, without regard to case; also if closed."""
        return canonical(name) in _INPUT_CAPABILITIES

    def io_statistics(self) -> IOStatistics:
        """Return what this stream did, also after close: see :mod:`hflush.statistics`.

        ``stream_read_bytes`` counts the bytes that callers of any kind of read got,
        ``stream_read_total_bytes`` those fetched from the store for it, those read ahead included;
        seeking does neither.
        """
        return live(self._flat_statistics)

    def _got(self, count: int) -> int:
        self.raw.counters.returned(count)
        return count

    def _got_bytes(self, data: bytes) -> bytes:
        self.raw.counters.returned(len(data))
        return data

    def _flat_statistics(self) -> dict[str, int]:
        return self.raw.counters.snapshot()

    def _check_open(self) -> None:
        if self.closed:
            raise self._closed_error()

    def _closed_error(self, operation: str = "read") -> StreamClosedError:
        return StreamClosedError(errno.EBADF, f"{operation}: stream is closed", self.raw.path)

    def _translated(self, error: ValueError) -> ValueError:
        """Return io's own complaint about a closed file as ours, and anything else as it is."""
        return self._closed_error() if self.closed and type(error) is ValueError else error


_LAST_POSITION = (1 << 63) - 1  # no file has a byte there
_INPUT_CAPABILITIES = frozenset(
    (IOSTATISTICS, PREADBYTEBUFFER, READBYTEBUFFER, READ_VECTORED, UNBUFFER)
)


def _window(buffer: Buffer, off: int, length: int | None) -> Buffer:
    if off == 0 and length is None:
        return buffer
    view = memoryview(buffer).cast("B")
    wanted = view.nbytes - off if length is None else length
    if off < 0 or wanted < 0 or off + wanted > view.nbytes:
        raise IndexError(f"off={off}, len={length} leave a buffer of {view.nbytes} bytes")
    return view[off : off + wanted]


def _refuse_overlaps(ranges: Sequence[tuple[int, int]]) -> None:
    end = 0
    for offset, length in sorted(ranges):
        if offset < end:
            raise ValueError(f"range ({offset}, {length}) overlaps another that ends at {end}")
        end = offset + length


# The threads that serve vectored reads, by process: made at the first use, again in a child.
_readers: dict[int, Executor] = {}


def _vector_readers() -> Executor:
    executor = _readers.get(os.getpid())
    if executor is None:
        from concurrent.futures import ThreadPoolExecutor

        executor = ThreadPoolExecutor(max_workers=4, thread_name_prefix="hflush-read")
        executor = _readers.setdefault(os.getpid(), executor)
    return executor
