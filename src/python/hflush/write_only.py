"""The io interface of every output stream, and how it ends: published, aborted or dropped."""

from __future__ import annotations

import errno
import os
import sys
import warnings

from . import _core
from ._core import take_pending
from .capabilities import ABORTABLE
from .errors import NotPublishedWarning, StreamClosedError, attach, note, unsupported
from .handling import finaliser_calls, marks, newer
from .options import ON_EXCEPTION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, ModuleType, TracebackType
    from typing import Any, NoReturn, Protocol

    from typing_extensions import Buffer, Self

    from .handling import Marks

    class Owner(Protocol):
        """What a stream asks of the file system that made it."""

        store_name: str
        _discards_dropped: bool

        def _release(self, stream: Any) -> None: ...
        def _persists(self, stream: Any) -> bool: ...
        def _persist(self, stream: Any) -> bytes: ...


__all__ = ["AbortResult", "WriteOnly", "end", "leave_block", "report", "view_of"]


class AbortResult:
    """What :meth:`FSDataOutputStream.abort` did.

    Attributes
    ----------
    already_closed : bool
        The stream was closed or aborted before, so nothing was left to do.
    cleanup_exception : OSError or None
        The failure to remove temporary data. Nothing is published in that case either.
    """

    __module__ = "hflush.streams"
    __slots__ = ("already_closed", "cleanup_exception")

    def __init__(self, already_closed: bool, cleanup_exception: OSError | None = None) -> None:
        self.already_closed = already_closed
        self.cleanup_exception = cleanup_exception

    def __repr__(self) -> str:
        return (
            f"AbortResult(already_closed={self.already_closed}, "
            f"cleanup_exception={self.cleanup_exception!r})"
        )


def view_of(data: Buffer) -> memoryview:
    """Return a view of what a stream would write.

    Raises
    ------
    TypeError, BufferError
        A stream would refuse it.
    """
    try:
        view = memoryview(data)
    except ValueError:  # numpy's times: no view has their type
        view = memoryview(b"".join([data]))
    if not view.c_contiguous:
        raise BufferError("the buffer must be C-contiguous")
    return view


def refused(operation: str) -> Callable[..., NoReturn]:
    """Return a method of io that output streams refuse."""

    def refuse(self: WriteOnly, *_: object) -> NoReturn:
        """Raise io.UnsupportedOperation."""
        take_pending()  # an exception that is pending: this one replaces it
        name = f"{operation} on an output stream"
        raise unsupported(name, self._owner.store_name, self._error_path)

    return refuse


def leave_block(out: WriteOnly, close: Callable[[], None], error: BaseException | None) -> None:
    """End a ``with`` block over `out`: publish, or abort if `error` left it and `out` can."""
    if error is None:
        close()
        return
    if out.has_capability(ABORTABLE):
        _withdraw(out, error)
        return
    try:
        close()
    except Exception as failure:  # the block's own exception stays the primary one
        attach(error, failure)


def end(
    out: WriteOnly,
    pending: BaseException | None,
    older: Marks | None,
    publish: Callable[[], None],
    abandon: Callable[[], bool],
) -> None:
    """Run close() of `out`: publish, unless an exception or a finaliser calls it.

    Parameters
    ----------
    out : WriteOnly
        The stream.
    pending : BaseException or None
        The exception that was pending when close() was called, by code in C.
    older : tuple of dict or None
        The marks of exceptions that do not count; None if none counts.
    publish, abandon : callable
        What to do; `abandon` returns whether there was anything to abandon.
    """
    error = pending
    if pending is None and sys.exc_info()[1] is not None:
        error = newer(older)
    if error is None:
        if older is not None and _can_abort(out) and finaliser_calls():
            if abandon():
                report(out, "closed by a finaliser, not published")
        else:
            publish()
        return
    if older is not None and _can_abort(out) and _withdraw(out, error):
        note(
            error,
            f"not published: {out.name}: close() was called because of this exception; "
            f"{ON_EXCEPTION}=publish publishes all the same",
        )
        raise error
    publish()  # as files do; or wait for the thread that closes it
    if pending is not None:
        raise pending


def _can_abort(out: WriteOnly) -> bool:
    return not out.closed and out.has_capability(ABORTABLE)


def _withdraw(out: WriteOnly, error: BaseException) -> bool:
    """Abort `out` because of `error`; return whether there was anything to abort."""
    try:
        result = out._withdraw()
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
    out: WriteOnly,
    what: str,
    _warn: Callable[..., None] = warnings.warn_explicit,
    _category: type[Warning] = NotPublishedWarning,
    _unraisable: Callable[[BaseException, object], None] = _core.write_unraisable,
    _modules: dict[str, ModuleType] = sys.modules,
    _frame: Callable[[], FrameType | None] = sys._getframe,
    _package: str = os.path.join(os.path.dirname(__file__), ""),  # noqa: PTH118, PTH120
) -> None:
    """Warn that bytes were dropped, where no exception can say so. Never raises.

    Each loss is shown, also one that is like an earlier one: that takes a registry of its own.

    At exit the module may be half gone, so the defaults hold everything that is needed.
    """
    try:
        message = f"{what}: {out!r}"
        logging = _modules.get("logging")
        if logging is not None and (log := logging.getLogger("hflush.streams")).hasHandlers():
            log.error(message)
        caller = _frame()
        while caller is not None and caller.f_code.co_filename.startswith(_package):
            caller = caller.f_back
        file, line, module = "sys", 1, "sys"  # as warnings.warn has it
        if caller is not None:
            file = caller.f_code.co_filename
            line = (
                caller.f_lineno or caller.f_code.co_firstlineno
            )  # what ends a block may have none
            module = caller.f_globals.get("__name__", file)
        _warn(message, _category, file, line, module, registry={}, source=out)
    except Exception as failure:
        _unraisable(failure, out)


if TYPE_CHECKING:
    from typing import BinaryIO as FileObject  # io.BufferedIOBase.register() says it at run time
else:
    FileObject = object


class WriteOnly(FileObject):
    """The base of every output stream: a file object for io that is only written to, ended once."""

    __slots__ = ()

    # Marks of the exceptions that close() ignores; None: it ignores all.
    _older: Marks | None

    if TYPE_CHECKING:

        @property
        def closed(self) -> bool: ...  # noqa: D102
        @property
        def path(self) -> str: ...  # noqa: D102
        @property
        def _owner(self) -> Owner: ...
        def abort(self) -> AbortResult: ...  # noqa: D102
        def has_capability(self, name: str, /) -> bool: ...  # noqa: D102
        def _abandon(self) -> bool: ...

    def _withdraw(self) -> AbortResult:
        """Abort unasked: what was persisted stays, where that makes a difference."""
        return self.abort()

    # --- ending ---

    def __enter__(self) -> Self:
        if self.closed:
            message = f"stream is {self._condition}"
            raise StreamClosedError(errno.EBADF, message, self._error_path)
        self._enter()
        return self

    def _enter(self) -> None:
        """Begin a ``with`` block: exceptions handled around it are not a reason to abort."""
        if self._older is not None:
            self._older = marks()  # type: ignore[misc]  # a slot, or an attribute, of each class

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        leave_block(self, self.close, error)

    def _dealloc_warn(self, _source: object, _report: Callable[..., None] = report) -> None:
        """Warn that a wrapper is being collected, which would close next: io calls this."""
        if self._abandon():
            _report(self, "never closed, not published")

    # --- what it is ---

    @property
    def _condition(self) -> str:
        """The state of a stream that is not open."""
        return "closed"

    @property
    def _error_path(self) -> str:
        """The name of the file in errors."""
        return self.path

    def writable(self) -> bool:
        """Return True."""
        return True

    def readable(self) -> bool:
        """Return False."""
        return False

    def seekable(self) -> bool:
        """Return False: written bytes are never changed or removed."""
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
