"""Files of HDFS that are written on from a token: see :mod:`hflush.tokens`.

A file is recognised by its id, and its cluster by the pool that its blocks are in. The dead
writer's lease is recovered, which closes its file behind all that it had acknowledged; then
the file is cut to the token's point, and appended to.
"""

from __future__ import annotations

import errno
import time

from ..errors import LeaseHeldError
from ..tokens import Token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..status import FileStatus

__all__ = [
    "CUT_S",
    "STATE",
    "WAIT_S",
    "check_file",
    "check_length",
    "check_pool",
    "closed_at",
]

STATE = {"file_id": int, "pool": str}

# For how long DataNodes may take to let go of a dead writer's block, or to shorten one. Those that
# are restarting, or dead and not known as such yet, take minutes.
WAIT_S = 300.0
# For how long they are left to shorten one before the lease is recovered. A recovery that begins
# meanwhile takes the block out of their hands: where one of them has shortened its replica by then
# and another has not, the replicas never come to one length again, and the file stays open.
CUT_S = 60.0
# The same where it only looks as if one were being shortened: the one who asked for it has died.
CUT_BY_ANOTHER_S = 5.0
_PAUSE_S = 0.2


def check_pool(token: Token, pool: str) -> None:
    """Refuse a file of another cluster.

    Parameters
    ----------
    token : Token
        With a state that was checked.
    pool : str
        The block pool of the file's last block; empty if it has no block.

    Raises
    ------
    ValueError
        It is not the token's.
    """
    expected = token.state["pool"]
    if pool and expected and pool != expected:
        raise ValueError(
            f"{token!r} belongs to another cluster: its block pool is {expected}, not {pool}"
        )


def check_file(token: Token, status: FileStatus) -> None:
    """Refuse a file that has replaced the token's.

    Raises
    ------
    StaleTokenError
        The status of what is at the path is of another file.
    """
    if status.file_id != (token.state["file_id"],):
        raise token.stale("the path names another file")


def check_length(token: Token, status: FileStatus) -> None:
    """Refuse a closed file that lacks bytes of the token's.

    Raises
    ------
    StaleTokenError
        It was cut.
    """
    if status.length < token.length:
        raise token.stale(f"the file has {status.length} bytes only")


def closed_at(
    length: int,
    *,
    path: str,
    close: Callable[[], bool],
    look: Callable[[], FileStatus],
    cut: Callable[[], bool],
    is_closed: Callable[[], bool],
    may_be_cut: bool,
) -> None:
    """Close a file at `length` bytes, even if another client is writing it; wait until that is so.

    Parameters
    ----------
    length : int
        At most what it has.
    path : str
        For messages.
    close
        Recovers the lease, and waits; whether the file is closed, or was since.
    look
        Returns the status, and raises if that is not the file that is meant.
    cut
        Asks for the truncation; whether it is done at once.
    is_closed
        Whether the file is closed.
    may_be_cut : bool
        Whether it had more bytes: if it is open it may be on its way to `length` already.

    Raises
    ------
    TimeoutError
        The DataNodes did not finish a recovery in time.
    """
    deadline = time.monotonic() + WAIT_S
    if may_be_cut:
        _wait(is_closed, CUT_BY_ANOTHER_S)
    while True:
        if not close():
            message = f"resume: the writer's last block is not recovered after {WAIT_S:.0f} s"
            raise TimeoutError(errno.ETIMEDOUT, message, path)
        if look().length == length and is_closed():  # not opened again by another one
            return
        try:
            if not cut():
                _wait(is_closed, CUT_S)
        except LeaseHeldError:  # another one resumes it at the same time
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)


def _wait(is_closed: Callable[[], bool], limit: float) -> None:
    """Wait until a file is closed whose last block is being shortened, but not for ever."""
    deadline = time.monotonic() + limit
    while not is_closed() and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
