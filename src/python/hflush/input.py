"""FSDataInputStream: a file opened for reading, of every store."""

from __future__ import annotations

import errno
import io
import operator
import os
import threading

from .capabilities import (
    IOSTATISTICS,
    PREADBYTEBUFFER,
    READ_VECTORED,
    READBYTEBUFFER,
    UNBUFFER,
    canonical,
)
from .errors import EndOfFileError, SeekError, StreamClosedError
from .options import whole
from .statistics import IOStatistics, live

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor, Future
    from typing import NoReturn, Protocol

    from typing_extensions import Buffer, Self

    from . import _core

    class Rules(Protocol):
        """What a stream needs of the file system that opened it."""

        def _fixed_options(self) -> Mapping[str, object]: ...


__all__ = ["FSDataInputStream"]


class _Counters:
    """Counts that several threads add to, and the place where the next read begins."""

    __slots__ = ("_counts", "_lock", "place")

    def __init__(self, *names: str) -> None:
        self._counts = dict.fromkeys(names, 0)
        self._lock = threading.RLock()
        self.place = 0

    def add(self, **counts: int) -> None:
        with self._lock:
            for name, count in counts.items():
                self._counts[name] += count

    def returned(self, count: int, moved: int = 0) -> None:
        """Count bytes returned to a caller; quick, as every line is counted."""
        with self._lock:
            self._counts["stream_read_bytes"] += count
            self.place += moved

    def snapshot(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)


class _Source(io.RawIOBase):
    """The bytes of one open file, with a position, for io.BufferedReader to buffer.

    Owned by its FSDataInputStream, whose lock is held in every call but pread.
    """

    mode = "rb"

    def __init__(self, file: _core.InputFile, name: str, path: str, bounded: bool) -> None:
        self.file = file
        self.name = name
        self.path = path
        self._bounded = bounded  # a position past the end cannot be sought
        self._own_position = 0
        self._descriptor: int | None = None  # that was asked for: its offset is the position
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

    @property
    def _position(self) -> int:
        """Where the next read begins; who has been given the descriptor may have moved it."""
        if self._descriptor is None:
            return self._own_position
        return os.lseek(self._descriptor, 0, os.SEEK_CUR)

    @_position.setter
    def _position(self, position: int) -> None:
        self._own_position = position
        if self._descriptor is not None:
            os.lseek(self._descriptor, position, os.SEEK_SET)

    def fileno(self) -> int:
        descriptor = self.file.fileno()
        if self._descriptor is None:
            os.lseek(descriptor, self._own_position, os.SEEK_SET)
            self._descriptor = descriptor
        return descriptor

    def close(self) -> None:
        if not self.closed:
            self._descriptor = None
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
    raises :class:`hflush.StreamClosedError` from every read; seeking it is harmless. A read that
    fails or is interrupted leaves the position where it was.
    Source: Hadoop's input stream specification; contract READ-1 to READ-21.
    """

    __module__ = "hflush.streams"

    raw: _Source
    _opened_as: object  # as in FSDataOutputStream

    def __init__(
        self,
        rules: Rules,
        file: _core.InputFile,
        name: str,
        path: str,
        *,
        buffer_size: int,
        seeks_past_end: bool,
    ) -> None:
        self._rules = rules
        super().__init__(_Source(file, name, path, not seeks_past_end), buffer_size)

    @property
    def path(self) -> str:
        """The absolute path in the store, as in ``filename`` of errors."""
        return self.raw.path

    # --- io.BufferedReader, with the errors of the contract ---

    def read(self, size: int | None = -1, /) -> bytes:
        """Return up to `size` bytes, all that is left for -1 or None, ``b""`` at the end."""
        try:
            return self._took_bytes(super().read(size))
        except ValueError as error:
            raise self._translated(error) from None
        except BaseException:
            self._go_back()
            raise

    def read1(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes with at most one read of the store."""
        try:
            return self._took_bytes(super().read1(size))
        except ValueError as error:
            raise self._translated(error) from None
        except BaseException:
            self._go_back()
            raise

    def readinto(self, buffer: Buffer, off: int = 0, len: int | None = None, /) -> int:
        """Fill ``buffer[off:off + len]``, counted in bytes, and return how many were read.

        Raises
        ------
        TypeError
            `buffer` is not a writable buffer.
        IndexError
            `off` or `len` is negative, or the range is outside the buffer.
        """
        try:
            return self._took(super().readinto(_window(buffer, off, len)))
        except ValueError as error:
            raise self._translated(error) from None
        except BaseException:
            self._go_back()
            raise

    def readinto1(self, buffer: Buffer, /) -> int:
        """Fill `buffer` with at most one read of the store, and return how many bytes were read."""
        try:
            return self._took(super().readinto1(buffer))
        except ValueError as error:
            raise self._translated(error) from None
        except BaseException:
            self._go_back()
            raise

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return the next line with its end, at most `size` bytes of it."""
        try:
            return self._took_bytes(super().readline(size))
        except ValueError as error:
            raise self._translated(error) from None
        except BaseException:
            self._go_back()
            raise

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
            if self._rules._fixed_options()["supports-seek-on-closed-file"]:
                return target
            raise self._closed_error("seek")
        position = super().tell() if whence == os.SEEK_CUR else 0
        place = super().seek(self.raw.target(target, whence, position))
        self.raw.counters.place = place
        return place

    def close(self) -> None:
        """Release the file. A second call is a no-op, which waits for no read in another thread."""
        if not self.closed:
            super().close()

    def flush(self) -> None:
        """Do nothing, also on a closed stream: there is nothing to hand on."""

    def isatty(self) -> bool:
        """Return False."""
        return False

    def detach(self) -> _Source:
        """Return what reads from the store, without a buffer; this stream is done with then."""
        self._check_open()
        return super().detach()  # type: ignore[return-value]

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
            The bytes: fewer than `length` only at the end of the file.

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
            Where the bytes go, without a copy in between.

        Returns
        -------
        int
            How many bytes: fewer than there is room for only at the end of the file.

        Raises
        ------
        SeekError, TypeError
            `position` is negative; `buffer` is not a writable buffer.
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
            message = f"the file has only {len(data)} of {length} bytes at {position}"
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
            `ranges` or an element is not a sequence of that kind.
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
        options = self._rules._fixed_options()
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
            message = f"range ({offset}, {length}) is not in the file, which ends at {end}"
            raise EndOfFileError(errno.ENODATA, message, self.raw.path)

    # --- the rest ---

    def unbuffer(self) -> None:
        """Drop what was read ahead and release connections; the position stays.

        A no-op on a closed stream.
        """
        if not self.closed:
            position = super().tell()
            super().seek(0, os.SEEK_END)  # the only seek that always empties the buffer
            super().seek(position)
            self.raw.file.unbuffer()

    def has_capability(self, name: str, /) -> bool:
        """Return whether this stream has a capability, without regard to case; also if closed."""
        return canonical(name) in _INPUT_CAPABILITIES

    def io_statistics(self) -> IOStatistics:
        """Return what this stream did, also after close: see :mod:`hflush.statistics`.

        ``stream_read_bytes`` counts the bytes that reads of any kind returned,
        ``stream_read_total_bytes`` those fetched from the store, read-ahead included; seeking
        counts as neither.
        """
        return live(self._flat_statistics)

    def _got(self, count: int) -> int:
        self.raw.counters.returned(count)
        return count

    def _got_bytes(self, data: bytes) -> bytes:
        self.raw.counters.returned(len(data))
        return data

    def _took(self, count: int) -> int:
        """Note how many bytes a read returns from the stream's position on."""
        self.raw.counters.returned(count, count)
        return count

    def _took_bytes(self, data: bytes) -> bytes:
        count = len(data)
        self.raw.counters.returned(count, count)
        return data

    def _go_back(self) -> None:
        """After a read that failed: what io had of it by then is not lost."""
        place = self.raw.counters.place
        if self.closed or super().tell() == place:
            return
        try:
            super().seek(place)
        except RuntimeError:  # a signal handler reads: the call that it came into goes on
            return

    def _flat_statistics(self) -> dict[str, int]:
        return {**self.raw.file.statistics(), **self.raw.counters.snapshot()}

    def _check_open(self) -> None:
        if self.closed:
            raise self._closed_error()

    def _closed_error(self, operation: str = "read") -> StreamClosedError:
        return StreamClosedError(errno.EBADF, f"{operation}: stream is closed", self.raw.path)

    def _translated(self, error: ValueError) -> ValueError:
        """Return io's error about a closed file as StreamClosedError, and any other unchanged."""
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
        raise IndexError(f"off={off}, len={length} is outside a buffer of {view.nbytes} bytes")
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
        from .workers import Workers

        executor = Workers(max_workers=4, thread_name_prefix="hflush-read")
        executor = _readers.setdefault(os.getpid(), executor)
    return executor
