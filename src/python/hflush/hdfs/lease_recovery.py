"""Files whose writer is gone: :meth:`hflush.FileSystem.recover_lease`, with ``wait`` and without.

The NameNode closes the file when a DataNode has brought the replicas of its last block to one
length: usually one heartbeat later, or as long as it takes until a DataNode with a replica is back.
Another writer may open it again at once, between two looks, and must not lose it.
"""

from __future__ import annotations

import errno
import time
from typing import NamedTuple

from ..errors import LeaseHeldError
from ..status import LeaseRecovery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Schedule", "Step", "begin", "is_away", "passes", "recover"]

POLL_S = 1.0
FIRST_REPEAT_S = 10.0
LONGEST_REPEAT_S = 60.0
_AWAY = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EAGAIN)  # the last: a name's lookup
_PASSING = ("StandbyException", "RetriableException", "SafeModeException")


class Step(NamedTuple):
    """What is next, and when."""

    action: str  # "look" whether the file is closed, "ask" for recovery again, or "stop"
    at: float


class Schedule:
    """When to look and when to ask again. No clock, no I/O.

    Looking is cheap. Each question may begin a recovery anew, under another generation stamp, so it
    comes after ten seconds, and then half as often each time up to once a minute.
    """

    def __init__(self, now: float, wait: float) -> None:
        self._deadline = now + wait
        self._ask_at = now + FIRST_REPEAT_S
        self._pause = FIRST_REPEAT_S

    def next(self, now: float) -> Step:
        """Return the step after one that ended `now`."""
        if now >= self._deadline:
            return Step("stop", now)
        at = min(now + POLL_S, self._deadline)
        if at < self._ask_at:
            return Step("look", at)
        self._pause = min(2 * self._pause, LONGEST_REPEAT_S)
        self._ask_at = at + self._pause
        return Step("ask", at)


def passes(failure: OSError) -> bool:
    """Whether a NameNode may answer otherwise later: it is away, starting, or not ready yet."""
    remote = getattr(failure, "remote_class", "")
    return remote.endswith(_PASSING) or isinstance(failure, LeaseHeldError) or is_away(failure)


def is_away(failure: OSError) -> bool:
    """Whether no NameNode has answered: the call may have been carried out."""
    away = isinstance(failure, (ConnectionError, TimeoutError)) or failure.errno in _AWAY
    return away and not getattr(failure, "remote_class", "")


def begin(
    *, ask: Callable[[], bool], look: Callable[[], bool], version: Callable[[], object]
) -> bool:
    """Ask for recovery without a wait; whether the file is closed, or was since.

    Where no NameNode has answered it asks once more, if nothing has changed: a late repeat would
    take the file from its next writer. The parameters are those of :func:`recover`.
    """
    before = version()
    try:
        return ask()
    except OSError as failure:
        if not is_away(failure):
            raise
    return look() or version() != before or ask()


def recover(
    path: str,
    wait: float,
    progress: Callable[[LeaseRecovery], object] | None,
    *,
    ask: Callable[[], bool],
    look: Callable[[], bool],
    version: Callable[[], object],
    describe: Callable[[], str],
) -> bool:
    """Ask for recovery, and wait until the file is closed; whether it is, or was since.

    Parameters
    ----------
    path : str
        For `progress`.
    wait : float
        Seconds.
    progress : callable, optional
        Called before each pause.
    ask, look
        ``recoverLease`` and ``isFileClosed``: whether the file is closed.
    version
        What is another value once the file was closed, or replaced.
    describe
        What the NameNode waits for.
    """
    began = time.monotonic()
    schedule = Schedule(began, wait)
    step = Step("ask", began)
    asked = 0
    before: object = None  # not known yet
    failure: OSError | None = None
    while step.action != "stop":
        time.sleep(max(0.0, step.at - time.monotonic()))
        failure, waits_for = None, ""
        try:
            asked += step.action == "ask"
            if step.action == "look" and look():
                return True
            found = version()
            if before is not None and found != before:
                return True
            before = found
            if step.action == "ask" and ask():
                return True
            if progress is not None:  # it costs a call, for which the file must be readable
                waits_for = describe()
        except OSError as error:
            if not passes(error):
                raise
            failure = error
            waits_for = f"the NameNode: {error}"
        now = time.monotonic()
        step = schedule.next(now)
        if progress is not None and step.action != "stop":
            progress(LeaseRecovery(path, waits_for, now - began, asked))
    if failure is not None:
        raise failure
    return False
