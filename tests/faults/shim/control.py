"""The controls of the fault shim that this process was started below (LD_PRELOAD).

    faults.watch(directory)                     follow the files below it, forget rules and log
    faults.fail("sync", errno.EIO, limit=1)     the first fsync or fdatasync fails
    faults.fail("write", errno.EINTR, every=3)  every third write call is interrupted
    faults.short("write", 7)                    a write call takes at most 7 bytes
    faults.budget(100_000)                      the disk is full after so many bytes
    with faults.gate("sync") as gate:           syncs wait for gate.release(), or the block's end
        gate.wait_for(1)
    faults.kill("rename", skip=1)               the process dies on its second rename
    faults.calls("write", "sync")               the log: the calls in the order of completion

Operations: open, close, read, write, sync, truncate, rename, link, unlink, mkdir, chmod, lock, one
function of them ("renameat2"), or "*".
"""

from __future__ import annotations

import ctypes
import errno
import os
from fnmatch import fnmatch
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from faults.shim.library import shim_library

if TYPE_CHECKING:
    from typing_extensions import Self

FAIL, SHORT, BUDGET, GATE, KILL = range(5)
DEADLINE_MS = 20_000
CAPACITY = 131_072


def named(value: object) -> str | None:
    """An errno's name, as a test's parameter id."""
    return errno.errorcode.get(value) if isinstance(value, int) else None


class Call(NamedTuple):
    """One finished call on a followed file."""

    operation: str
    function: str
    path: str
    is_directory: bool
    offset: int
    length: int
    result: int
    error: int
    thread: int
    began: int
    ended: int

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


class _Event(ctypes.Structure):
    _fields_ = (
        ("began", ctypes.c_long),
        ("ended", ctypes.c_long),
        ("offset", ctypes.c_long),
        ("length", ctypes.c_long),
        ("result", ctypes.c_long),
        ("error", ctypes.c_int),
        ("fd", ctypes.c_int),
        ("is_directory", ctypes.c_int),
        ("thread", ctypes.c_int),
        ("operation", ctypes.c_char * 16),
        ("function", ctypes.c_char * 24),
        ("path", ctypes.c_char * 256),
    )


class Rule:
    """A rule in force until the next `watch`."""

    def __init__(self, library: ctypes.CDLL, number: int) -> None:
        self._library = library
        self._number = number

    @property
    def applied(self) -> int:
        """How many calls it was applied to."""
        return int(self._library.fault_applied(self._number))


class Gate(Rule):
    """A rule at which calls wait. Leaving its `with` block opens it, for good."""

    def wait_for(self, count: int) -> None:
        """Return when `count` calls stand at the gate."""
        waiting = self._library.fault_await(self._number, count, DEADLINE_MS)
        assert waiting >= count, f"{waiting} of {count} calls came to the gate"

    def release(self) -> None:
        self._library.fault_release(self._number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class Faults:
    """The shim in this process."""

    def __init__(self) -> None:
        library = os.fspath(shim_library())
        assert library in os.environ.get("LD_PRELOAD", ""), (
            "this process does not run below the fault shim"
        )
        self._library = ctypes.CDLL(library)
        long, text = ctypes.c_long, ctypes.c_char_p
        self._library.fault_rule.argtypes = (
            text,
            text,
            ctypes.c_int,
            ctypes.c_int,
            long,
            long,
            long,
            long,
        )
        self._library.fault_watch.argtypes = (text,)
        self._library.fault_await.argtypes = (ctypes.c_int, long, long)
        for name in ("fault_applied", "fault_await", "fault_event_count", "fault_events"):
            getattr(self._library, name).restype = long
        self._library.fault_events.argtypes = (long, long, ctypes.POINTER(_Event))

    def watch(self, directory: str | os.PathLike[str]) -> None:
        self._library.fault_watch(os.fsencode(directory))

    def stop(self) -> None:
        self.watch("")

    def fail(
        self,
        operation: str,
        error: int,
        path: str = "*",
        *,
        skip: int = 0,
        every: int = 1,
        limit: int = 0,
    ) -> Rule:
        """After `skip` calls, one in `every` fails with `error`, `limit` times (0: always)."""
        return Rule(self._library, self._add(operation, path, FAIL, error, 0, skip, every, limit))

    def short(
        self, operation: str, size: int, path: str = "*", *, skip: int = 0, every: int = 1
    ) -> Rule:
        """A call transfers at most `size` bytes."""
        return Rule(self._library, self._add(operation, path, SHORT, 0, size, skip, every, 0))

    def budget(self, size: int, path: str = "*", error: int = errno.ENOSPC) -> Rule:
        """Room for `size` more bytes: the write that crosses it is short, the next one fails."""
        return Rule(self._library, self._add("write", path, BUDGET, error, size, 0, 1, 0))

    def gate(
        self, operation: str, path: str = "*", *, error: int = 0, skip: int = 0, limit: int = 0
    ) -> Gate:
        """Calls wait; once released they proceed, or fail with `error`."""
        return Gate(self._library, self._add(operation, path, GATE, error, 0, skip, 1, limit))

    def kill(self, operation: str, path: str = "*", *, skip: int = 0) -> Rule:
        """After `skip` such calls the process is killed on the next, before it takes effect."""
        return Rule(self._library, self._add(operation, path, KILL, 0, 0, skip, 1, 0))

    def calls(self, *operations: str, path: str = "*", since: int = 0) -> list[Call]:
        """The finished calls of these operations (none: all), from log position `since` on."""
        total = self.position
        assert total <= CAPACITY, f"the log holds {CAPACITY} of {total} calls"
        events = (_Event * max(total - since, 1))()
        count = self._library.fault_events(since, total - since, events)
        calls = [
            Call(
                event.operation.decode(),
                event.function.decode(),
                os.fsdecode(event.path),
                bool(event.is_directory),
                event.offset,
                event.length,
                event.result,
                event.error,
                event.thread,
                event.began,
                event.ended,
            )
            for event in events[:count]
        ]
        return [
            call
            for call in calls
            if (not operations or call.operation in operations) and fnmatch(call.path, path)
        ]

    @property
    def position(self) -> int:
        """The log position: how many calls have finished since `watch`."""
        return int(self._library.fault_event_count())

    def _add(self, operation: str, path: str, *values: int) -> int:
        number = int(self._library.fault_rule(operation.encode(), os.fsencode(path), *values))
        assert number >= 0, "too many rules"
        return number
