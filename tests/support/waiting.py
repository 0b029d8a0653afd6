"""Waiting for a fact instead of sleeping."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# A test that passes never waits for one. HFLUSH_TEST_PATIENCE is for slow machines.
PATIENCE = float(os.environ.get("HFLUSH_TEST_PATIENCE") or 1)
DEADLINE_S = 60.0 * PATIENCE
LONG_S = 10 * DEADLINE_S  # a timeout of the product that nobody is to wait for


def wait_until(predicate: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Return as soon as `predicate()` is true; AssertionError naming `what` after the deadline."""
    end = time.monotonic() + deadline_s
    while not predicate():
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}"
        time.sleep(0.001)


@contextmanager
def soon() -> Iterator[None]:
    """A block that ends before the deadline: what it must not wait for takes longer."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < DEADLINE_S


class Task(threading.Thread):
    """A thread, started at once, whose result or exception goes to the caller of join()."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        super().__init__(daemon=True)
        self._function = function
        self._args = args
        self._value: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._value = self._function(*self._args)
        except BaseException as error:
            self.error = error

    def result(self, deadline_s: float = DEADLINE_S) -> Any:
        """Join; return what the function returned or raise what it raised."""
        self.join(deadline_s)
        assert not self.is_alive(), f"{self._function} still runs after {deadline_s} s"
        if self.error is not None:
            raise self.error
        return self._value


def together(*functions: Callable[[], Any]) -> list[Any]:
    """Run the functions in threads released by one barrier; return their results."""
    barrier = threading.Barrier(len(functions))

    def behind_barrier(function: Callable[[], Any]) -> Any:
        barrier.wait()
        return function()

    tasks = [Task(behind_barrier, function) for function in functions]
    return [task.result() for task in tasks]
