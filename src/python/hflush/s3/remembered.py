"""What was seen of a bucket lately, so that it need not be asked again: bounded in time and number.

Nothing here asks a store. What others do to the bucket meanwhile is not noticed: an entry says what
was so, not what is.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["RememberedPaths"]

_MOST = 4096


class RememberedPaths:
    """Paths of which something was seen; those seen longest ago go first.

    Thread-safe, also for a signal handler that runs in the middle of a call.

    Parameters
    ----------
    seconds : float
        For how long; 0: nothing is remembered.
    most : int
        How many at most.
    clock : callable
        Seconds, of a clock that does not go back.
    """

    def __init__(
        self, seconds: float, most: int = _MOST, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._lock = threading.RLock()
        # Until when, in the order of that.
        self._until: dict[str, float] = {}
        self._forgotten = 0  # how often something was: what was seen before that may not be so
        _all.add(self)

    def __len__(self) -> int:
        return len(self._until)

    def missing(self, wanted: Iterable[str]) -> list[str]:
        """Return those of some paths of which nothing is known (any more)."""
        now = self._clock()
        until = self._until
        return [path for path in wanted if until.get(path, now) <= now]

    @property
    def moment(self) -> int:
        """A mark in the course of what is forgotten, taken before one looks."""
        return self._forgotten

    def add(self, seen: Iterable[str], since: int | None = None) -> None:
        """Remember paths from now on, unless anything was forgotten since that moment."""
        if not self._seconds:
            return
        with self._lock:
            if since is not None and since != self._forgotten:
                return
            end = self._clock() + self._seconds
            for path in seen:
                self._until.pop(path, None)
                self._until[path] = end
            beyond = max(len(self._until) - self._most, 0)
            for path in list(islice(self._until, beyond)):
                self._until.pop(path, None)

    def discard(self, path: str) -> None:
        """Forget a path."""
        with self._lock:
            self._forgotten += 1
            self._until.pop(path, None)

    def is_fresh(self, path: str) -> bool:
        """Whether a path will be known for at least half of the time from now on."""
        now = self._clock()
        return self._until.get(path, now) > now + self._seconds / 2

    def forget(self, path: str) -> None:
        """Forget a path and all below it."""
        below = path.rstrip("/") + "/"
        with self._lock:
            self._forgotten += 1
            for known in list(self._until):
                if known == path or known.startswith(below):
                    self._until.pop(known, None)


_all: weakref.WeakSet[RememberedPaths] = weakref.WeakSet()


def _free_locks() -> None:
    for remembered in list(_all):
        remembered._lock = threading.RLock()


# In a child, the thread that held the lock does not exist.
os.register_at_fork(after_in_child=_free_locks)
