"""Threads for several calls at once, also while the process ends."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Workers"]

P = ParamSpec("P")
T = TypeVar("T")


class Workers(ThreadPoolExecutor):
    """Threads that make calls; at exit, when no pool takes any more, the caller makes them."""

    def submit(self, call: Callable[P, T], /, *args: P.args, **named: P.kwargs) -> Future[T]:
        """Begin a call; at exit, end it."""
        try:
            return super().submit(call, *args, **named)
        except RuntimeError as refusal:
            if not str(refusal).startswith("cannot schedule"):  # for want of threads: it is queued
                raise
        done: Future[T] = Future()
        try:
            done.set_result(call(*args, **named))
        except Exception as failure:
            done.set_exception(failure)
        return done
