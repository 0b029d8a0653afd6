"""The streams of hflush for asyncio: the same calls, awaited.

    async with hflush.aio.create("hdfs://nn:8020/logs/app.log") as out:
        await out.write(record)
        await out.hsync()

Whatever may wait runs in a thread of the loop's default executor, so the loop goes on meanwhile. A
small ``write`` runs at once where it does not have to wait. As with threads, calls of several tasks
on one stream are fine: writes happen in the order of their calls, and what waits for the store
(``hflush``, ``hsync``, ``persist``) does not hold up the writes of others.

A call that is cancelled when it has begun ends its stream, as an exception that leaves a ``with``
block does: it aborts where abort is a capability, and otherwise closes. Whether what was under way
has happened is in doubt. Cancelling returns when the stream has ended; cancelling once more leaves
that to its thread. A stream that is read ends at once; the read has its thread until the store has
answered, or its timeouts are over. A stream belongs to one event loop.

Notes
-----
Source: the streams' own promises, docs/semantics.md; asyncio's rules of cancellation.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, TypeVar

from . import _core, opening
from .errors import attach
from .handling import marks
from .output import FSDataOutputStream
from .streams import FSDataInputStream

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Generator, Iterable, Sequence
    from concurrent.futures import Executor
    from types import TracebackType
    from typing import Any, Literal, TypeAlias, overload

    from typing_extensions import Buffer, Self, Unpack

    from .keywords import AnyArguments, AppendArguments, CreateArguments, OpenArguments
    from .namespace import Conf
    from .paths import StrPath
    from .statistics import IOStatistics
    from .status import StreamEvent
    from .write_only import AbortResult

    File: TypeAlias = FSDataOutputStream | FSDataInputStream | io.TextIOWrapper

__all__ = [
    "AsyncInputStream",
    "AsyncOutputStream",
    "AsyncTextStream",
    "Opening",
    "append",
    "create",
    "open",
]

T = TypeVar("T")
B = TypeVar("B", bound="FSDataOutputStream | FSDataInputStream")
F = TypeVar("F", bound="FSDataOutputStream | FSDataInputStream | io.TextIOWrapper")


async def _in_thread(
    function: Callable[..., T], /, *args: Any, executor: Executor | None = None
) -> T:
    """Call `function` in a thread; cancelled, it stops waiting for it."""
    call = functools.partial(contextvars.copy_context().run, _called, function, *args)
    result = asyncio.get_running_loop().run_in_executor(executor, call)
    result.add_done_callback(_taken)  # also if it comes when the call is cancelled
    return await asyncio.shield(result)


async def _in_own_thread(function: Callable[..., T], /, *args: Any) -> T:
    """Call what ends a stream: the threads of the loop may all wait for streams."""
    own = ThreadPoolExecutor(1)
    try:
        return await _in_thread(function, *args, executor=own)
    finally:
        own.shutdown(wait=False)


def _called(function: Callable[..., T], /, *args: Any) -> T:
    try:
        return function(*args)
    except StopIteration as end:  # of an iterable of the caller's: no future takes it
        raise RuntimeError("the call raised StopIteration") from end


def _taken(result: asyncio.Future[Any]) -> None:
    """Have the loop not report that a failure was not looked at."""
    if not result.cancelled():
        result.exception()


def _end(file: File, error: BaseException) -> None:
    """End a stream because of `error`; wait for a close that is under way, and for no read."""
    out: Any = getattr(file, "buffer", file)
    if isinstance(out, FSDataInputStream):
        out.raw.close()  # its own close() would wait
        return
    file.__exit__(type(error), error, error.__traceback__)
    if out.closed:
        try:
            out.close()
        except Exception as failure:  # the cancellation stays the primary one
            attach(error, failure)


def _close_handling(file: File, error: BaseException) -> None:
    """Close, as the task does that is handling `error`."""
    traceback = error.__traceback__
    try:
        raise error
    except type(error):
        error.__traceback__ = traceback
        file.close()


class _Async(Generic[F]):
    """A stream of hflush, and the turn of those calls of it that come one after another."""

    __slots__ = ("_calls", "_file", "_turn")

    def __init__(self, file: F) -> None:
        self._file = file
        self._turn = asyncio.Lock()
        self._calls = 0  # that have the turn, or wait for it

    async def _in_turn(self, function: Callable[..., T], /, *args: Any) -> T:
        self._calls += 1
        try:
            async with self._turn:
                return await self._beside(function, *args)
        finally:
            self._calls -= 1

    async def _beside(self, function: Callable[..., T], /, *args: Any) -> T:
        """Call at once, also while another call has the turn."""
        try:
            return await _in_thread(function, *args)
        except asyncio.CancelledError as error:
            with contextlib.suppress(asyncio.CancelledError):
                await _in_own_thread(_end, self._file, error)
            raise

    async def close(self) -> None:
        """End the stream as its ``close`` does: see :meth:`hflush.FSDataOutputStream.close`."""
        error = sys.exc_info()[1]
        if error is None:
            await self._beside(self._file.close)
        else:
            await self._beside(_close_handling, self._file, error)

    async def __aenter__(self) -> Self:
        self._file.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()  # who says that there is no exception may not know of it
        else:
            await self._beside(self._file.__exit__, kind, error, traceback)

    @property
    def closed(self) -> bool:
        """Whether the stream is no longer open, for any reason."""
        return self._file.closed

    @property
    def name(self) -> str:
        """The name under which :func:`open` finds the file."""
        return self._file.name

    @property
    def mode(self) -> str:
        """The mode it was opened with."""
        return self._file.mode

    def __repr__(self) -> str:
        return f"<hflush.aio.{type(self).__name__} of {self._file!r}>"


class _Binary(_Async[B]):
    """A stream of bytes: what it answers at once."""

    __slots__ = ()

    def tell(self) -> int:
        """Return the position in bytes; of output the length of the file."""
        return self._file.tell()

    def get_pos(self) -> int:
        """Return the position in bytes: Hadoop's name for :meth:`tell`."""
        return self._file.get_pos()

    def has_capability(self, name: str, /) -> bool:
        """Return whether the stream has a capability of :mod:`hflush.capabilities`."""
        return self._file.has_capability(name)

    def io_statistics(self) -> IOStatistics:
        """Return what this stream did, also after close."""
        return self._file.io_statistics()


class AsyncOutputStream(_Binary[FSDataOutputStream]):
    """:class:`hflush.FSDataOutputStream` for asyncio: made by :func:`create` and :func:`append`.

    What is not described here is as there, and raises as there.
    """

    __slots__ = ("_is_direct",)

    def __init__(self, file: FSDataOutputStream) -> None:
        super().__init__(file)
        self._is_direct = type(file).write is _core.OutputStream.write

    async def write(self, b: Buffer, off: int = 0, len: int | None = None) -> int:
        """Append ``b[off:off + len]``; return how many bytes: all of them.

        `b` may be reused when the call has returned. It returns without a turn of the event loop
        where it does not have to wait: a task that writes for long lets others run by
        ``asyncio.sleep(0)``.
        """
        if self._calls == 0 and self._is_direct and off == 0 and len is None:
            written = self._file._try_write(b)
            if written is not None:
                return written
        return await self._in_turn(self._file.write, b, off, len)

    async def write_byte(self, value: int, /) -> None:
        """Append one byte: the low 8 bits of `value`."""
        await self._in_turn(self._file.write_byte, value)

    async def writelines(self, lines: Iterable[Buffer], /) -> None:
        """Write each of `lines`, unchanged; no other task's call comes between them."""
        await self._in_turn(self._file.writelines, lines)

    async def flush(self) -> None:
        """Hand on what is buffered; promises nothing."""
        await self._beside(self._file.flush)

    async def hflush(self) -> None:
        """Make every byte whose write has returned visible to new readers anywhere."""
        await self._beside(self._file.hflush)

    async def hsync(self, end_block: bool = False) -> None:
        """Make every byte whose write has returned visible, and put it on disk."""
        await self._beside(self._file.hsync, end_block)

    async def persist(self) -> bytes:
        """Make every byte whose write has returned recoverable; return a token for them."""
        return await self._beside(self._file.persist)

    async def abort(self) -> AbortResult:
        """Publish nothing more: the path keeps its content."""
        return await _in_own_thread(self._file.abort)

    def set_drop_behind(self, value: bool | None, /) -> None:
        """Drop cached pages behind the writer, keep them, or do the default."""
        self._file.set_drop_behind(value)

    @property
    def path(self) -> str:
        """The absolute path in the store."""
        return self._file.path

    def history(self) -> list[StreamEvent]:
        """Return what happened to this stream last, oldest first, also after close."""
        return self._file.history()


class AsyncInputStream(_Binary[FSDataInputStream]):
    """:class:`hflush.FSDataInputStream` for asyncio: made by :func:`open`.

    ``async for`` takes its lines, each by a thread: where there are many, read larger pieces.
    """

    __slots__ = ()

    async def read(self, size: int | None = -1, /) -> bytes:
        """Read `size` bytes, fewer only at the end; all that is left if it is None or negative."""
        return await self._in_turn(self._file.read, size)

    async def read1(self, size: int = -1, /) -> bytes:
        """Read what is there, at most `size` bytes."""
        return await self._in_turn(self._file.read1, size)

    async def readinto(self, buffer: Buffer, /) -> int:
        """Fill `buffer`; return the number of bytes, less than its size only at the end.

        Cancelled it is left as it was: a thread that goes on has memory of its own.
        """
        with memoryview(buffer) as whole, whole.cast("B") as view:
            if view.readonly:
                raise TypeError("readinto: the buffer can only be read")
            data = await self._in_turn(self._file.read, len(view))
            view[: len(data)] = data
        return len(data)

    async def readline(self, size: int | None = -1, /) -> bytes:
        """Read a line, or `size` bytes of it."""
        return await self._in_turn(self._file.readline, size)

    async def readlines(self, hint: int = -1, /) -> list[bytes]:
        """Read lines: all, or as many as hold `hint` bytes."""
        return await self._in_turn(self._file.readlines, hint)

    async def seek(self, target: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to a position in bytes, and return it."""
        return await self._in_turn(self._file.seek, target, whence)

    async def pread(self, position: int, length: int) -> bytes:
        """Read at `position`, which moves nothing; fewer bytes only at the end."""
        return await self._beside(self._file.pread, position, length)

    async def read_fully(self, position: int, length: int) -> bytes:
        """Read exactly `length` bytes at `position`, or raise :class:`hflush.EndOfFileError`."""
        return await self._beside(self._file.read_fully, position, length)

    async def read_vectored(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several ranges, each ``(offset, length)``, side by side; return them in order."""
        return await self._beside(self._read_ranges, ranges)

    def _read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [one.result() for one in self._file.read_vectored(ranges)]

    async def unbuffer(self) -> None:
        """Release buffers and connections; the next read makes them anew."""
        await self._in_turn(self._file.unbuffer)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line


class AsyncTextStream(_Async["io.TextIOWrapper"]):
    """Text over a stream of hflush, for asyncio: made by :func:`open` in text mode."""

    __slots__ = ()

    async def write(self, text: str, /) -> int:
        """Append text; return the number of characters."""
        return await self._in_turn(self._file.write, text)

    async def writelines(self, lines: Iterable[str], /) -> None:
        """Write each of `lines`, unchanged."""
        await self._in_turn(self._file.writelines, lines)

    async def flush(self) -> None:
        """Hand on what is buffered; promises nothing."""
        await self._in_turn(self._file.flush)

    async def hflush(self) -> None:
        """Make all text whose write has returned visible to new readers anywhere."""
        await self._in_turn(self._sync, "hflush")

    async def hsync(self) -> None:
        """Make all text whose write has returned visible, and put it on disk."""
        await self._in_turn(self._sync, "hsync")

    def _sync(self, how: Literal["hflush", "hsync"]) -> None:
        self._file.flush()
        getattr(self._file.buffer, how)()

    async def read(self, size: int | None = -1, /) -> str:
        """Read `size` characters, fewer only at the end; all that is left if negative."""
        return await self._in_turn(self._file.read, size)

    async def readline(self, size: int = -1, /) -> str:
        """Read a line, or `size` characters of it."""
        return await self._in_turn(self._file.readline, size)

    async def readlines(self, hint: int = -1, /) -> list[str]:
        """Read lines: all, or as many as hold `hint` characters."""
        return await self._in_turn(self._file.readlines, hint)

    async def seek(self, cookie: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to a place that :meth:`tell` has returned."""
        return await self._in_turn(self._file.seek, cookie, whence)

    async def tell(self) -> int:
        """Return the place, for :meth:`seek`."""
        return await self._in_turn(self._file.tell)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line


class _Handover(Generic[F]):
    """A file between the thread that opens it and the task that wants it, unless cancelled."""

    def __init__(self, opens: Callable[[], F]) -> None:
        self._opens = opens
        self._lock = threading.Lock()
        self._file: F | None = None
        self._error: BaseException | None = None  # for which it is no longer wanted

    def open(self) -> F:
        """Open it, in a thread, and end it if it is no longer wanted by then."""
        with self._lock:
            error = self._error
        if error is not None:
            raise error
        file = self._opens()
        with self._lock:
            self._file = file
            error = self._error
        if error is not None:
            _end(file, error)
        return file

    def cancel(self, error: BaseException) -> F | None:
        """Return what is open, for the caller to end; what will be is ended by its thread."""
        with self._lock:
            self._error = error
            return self._file


class Opening(Generic[T]):
    """What :func:`create`, :func:`append` and :func:`open` return: to be awaited, or entered.

    Nothing happens before that.
    """

    __slots__ = ("_kind", "_opened", "_opens")

    def __init__(self, opens: Callable[[], Any], kind: Callable[[Any], T]) -> None:
        self._opens = opens
        self._kind = kind
        self._opened: Any = None

    def __await__(self) -> Generator[Any, None, T]:
        return self._open().__await__()

    async def _open(self) -> T:
        known = marks()  # of exceptions that this task handles: they are older than the stream
        handover = _Handover(self._opens)
        try:
            file = await _in_thread(handover.open)
        except asyncio.CancelledError as error:
            opened = handover.cancel(error)
            if opened is not None:
                with contextlib.suppress(asyncio.CancelledError):
                    await _in_own_thread(_end, opened, error)
            raise
        out = getattr(file, "buffer", file)
        if getattr(out, "_older", None) is not None:
            out._older = known
        return self._kind(file)

    async def __aenter__(self) -> T:
        self._opened = await self._open()
        entered: T = await self._opened.__aenter__()
        return entered

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._opened.__aexit__(kind, error, traceback)


def create(
    url: StrPath, *, overwrite: bool = True, conf: Conf = None, **options: Unpack[CreateArguments]
) -> Opening[AsyncOutputStream]:
    """Create a file, as :func:`hflush.create`: ``await`` it, or use it by ``async with``.

    Returns
    -------
    Opening
        Of an :class:`AsyncOutputStream`. Awaiting it raises what :func:`hflush.create` raises; if
        that is cancelled, what is opened all the same is ended by the thread that does it: until
        then another attempt should not overwrite.
    """
    return Opening(
        functools.partial(opening.create, url, overwrite=overwrite, conf=conf, **options),
        AsyncOutputStream,
    )


def append(
    url: StrPath, *, conf: Conf = None, **options: Unpack[AppendArguments]
) -> Opening[AsyncOutputStream]:
    """Open a file to write at its end, as :func:`hflush.append`; otherwise as :func:`create`."""
    return Opening(functools.partial(opening.append, url, conf=conf, **options), AsyncOutputStream)


if TYPE_CHECKING:

    @overload
    def open(
        url: StrPath,
        mode: opening.BinaryWriteMode,
        buffering: int = -1,
        *,
        conf: Conf = None,
        **options: Unpack[CreateArguments],
    ) -> Opening[AsyncOutputStream]: ...
    @overload
    def open(
        url: StrPath,
        mode: opening.BinaryReadMode,
        buffering: int = -1,
        *,
        conf: Conf = None,
        **options: Unpack[OpenArguments],
    ) -> Opening[AsyncInputStream]: ...
    @overload
    def open(
        url: StrPath,
        mode: opening.TextMode = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *,
        conf: Conf = None,
        **options: Unpack[AnyArguments],
    ) -> Opening[AsyncTextStream]: ...
    @overload
    def open(
        url: StrPath,
        mode: str,
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *,
        conf: Conf = None,
        **options: Unpack[AnyArguments],
    ) -> Opening[AsyncOutputStream | AsyncInputStream | AsyncTextStream]: ...


def open(
    url: StrPath,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    *,
    conf: Conf = None,
    **options: Any,
) -> Opening[Any]:
    """Open a file of any store with the modes of the built-in ``open()``, as :func:`hflush.open`.

    Returns
    -------
    Opening
        Of an :class:`AsyncOutputStream` for ``wb``, ``xb`` and ``ab``, of an
        :class:`AsyncInputStream` for ``rb``, of an :class:`AsyncTextStream` for text.
    """
    opens = functools.partial(
        opening.open, url, mode, buffering, encoding, errors, newline, conf=conf, **options
    )
    return Opening(opens, _kind_of)


def _kind_of(file: File) -> AsyncOutputStream | AsyncInputStream | AsyncTextStream:
    if isinstance(file, FSDataOutputStream):
        return AsyncOutputStream(file)
    if isinstance(file, FSDataInputStream):
        return AsyncInputStream(file)
    return AsyncTextStream(file)
