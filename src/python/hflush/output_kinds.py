"""Kinds of output streams: extra behaviour, as classes that :func:`stream_type` combines.

A kind has no slots, so that any kinds can be combined: it names its fields, and the combined type
has them.
"""

from __future__ import annotations

import errno
import threading
import time
import warnings

from .capabilities import HSYNC
from .errors import StreamClosedError
from .output import FSDataOutputStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, ClassVar, TypeVar

    from typing_extensions import Buffer

    from .handling import Marks
    from .write_only import Owner

    S = TypeVar("S", bound=FSDataOutputStream)

__all__ = [
    "DowngradedOutputStream",
    "ReportingOutputStream",
    "UnbufferedOutputStream",
    "stream_type",
]

_REPORT_INTERVAL_S = 0.05


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
    """Calls the program's `progress` now and then, also while a call waits for a store.

    That is before a write, and after what may be repeated. It is called without any lock held, by
    the thread that uses the stream, about 20 times a second at most. An exception of `progress`
    ends the call; the stream is as after an interrupt.
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ("_next", "_progress")
    _next: float
    _progress: Callable[[], None]

    def _report_to(self, progress: Callable[[], None]) -> None:
        self._progress = progress
        self._next = 0.0

    def _report(self) -> None:
        """Call `progress` if it is due. The core calls this while a call waits."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _REPORT_INTERVAL_S
            self._progress()

    def write(self, b: Buffer, off: int = 0, len: int | None = None) -> int:
        """Report and append: what was appended is not followed by an exception."""
        self._report()
        return super().write(b, off, len)

    def hflush(self) -> None:
        """Make visible and report."""
        super().hflush()
        self._report()

    def hsync(self, end_block: bool = False) -> None:
        """Make durable and report."""
        super().hsync(end_block)
        self._report()


class DowngradedOutputStream(FSDataOutputStream):
    """Turns hflush and hsync into counted flushes where the store has neither.

    Only ``hflush.syncable.downgrade`` makes such streams; it is off by default. The first
    downgraded call of a stream warns.
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ("_downgraded", "_lock")
    _downgraded: dict[str, int]
    _lock: threading.RLock

    def _bind(self, owner: Owner, name: str, mode: str, older: Marks | None) -> None:
        super()._bind(owner, name, mode, older)
        self._downgraded = {"op_hflush": 0, "op_hsync": 0}
        self._lock = threading.RLock()

    def hflush(self) -> None:
        """Flush and count, where the store cannot hflush."""
        if self.has_capability(HSYNC):
            super().hflush()
        else:
            self._downgrade("hflush")

    def hsync(self, end_block: bool = False) -> None:
        """Flush and count, where the store cannot hsync; the end of a block is refused there."""
        if end_block or self.has_capability(HSYNC):
            super().hsync(end_block)
        else:
            self._downgrade("hsync")

    def _downgrade(self, operation: str) -> None:
        if self.closed:
            message = f"{operation}: stream is {self._condition}"
            raise StreamClosedError(errno.EBADF, message, self._error_path)
        does = self._do_instead()
        with self._lock:
            first = not any(self._downgraded.values())
            self._downgraded[f"op_{operation}"] += 1
        if first:
            warnings.warn(f"{operation} {does}", RuntimeWarning, stacklevel=3)

    def _do_instead(self) -> str:
        """Do what a downgraded call does, and return words for it."""
        self.flush()
        return (
            f"is only a flush on {self._owner.store_name}, as hflush.syncable.downgrade asks: "
            "nothing is made visible or durable"
        )

    def _own_statistics(self) -> dict[str, int]:
        return self._downgraded


_types: dict[tuple[type, ...], Any] = {(): FSDataOutputStream}


def stream_type(base: type[S], kinds: Sequence[type[FSDataOutputStream]]) -> type[S]:
    """Return the subclass of `base` that combines `kinds`.

    Methods of the first kind come first. Each combination has one type.
    """
    chosen = (*(() if base is FSDataOutputStream else (base,)), *kinds)
    if chosen not in _types:
        fields = [field for kind in chosen for field in getattr(kind, "_fields", ())]
        own = {"__slots__": tuple(fields), "__doc__": chosen[0].__doc__}
        _types[chosen] = type(_name(chosen), chosen, own)
    made: type[S] = _types[chosen]
    return made


def _name(kinds: tuple[type, ...]) -> str:
    """Return ``UnbufferedReportingOutputStream`` and the like; ``Atomic`` comes first."""
    names = [kind.__name__ for kind in kinds if not kind.__name__.startswith("_")]
    words = [name.removesuffix("OutputStream") for name in names]
    words.sort(key="Atomic".__ne__)
    return f"{''.join(words)}OutputStream"
