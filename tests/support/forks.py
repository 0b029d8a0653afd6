"""Work in a forked child of this process."""

from __future__ import annotations

import os
import signal
import traceback
import warnings
from collections.abc import Callable

from support.waiting import DEADLINE_S, wait_until


def in_child(work: Callable[[], None]) -> None:
    """Do the work in a forked child; AssertionError unless it ends well there, and in time."""
    with warnings.catch_warnings():
        # PySpark's daemon forks; so do these tests.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert _status(child) == 0, "the child failed; its traceback is on stderr"


def _status(child: int) -> int:
    """Wait for a child; its exit status."""
    ended = (0, 0)

    def has_ended() -> bool:
        nonlocal ended
        ended = os.waitpid(child, os.WNOHANG)
        return ended[0] == child

    try:
        wait_until(has_ended, "the child has ended", DEADLINE_S)
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    return os.waitstatus_to_exitcode(ended[1])
