"""Cleaning up after writers that were killed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .committer import WEEK_S, Committer
from .staging import FINAL
from .strays import sweep_strays

if TYPE_CHECKING:
    from ...namespace import Conf

__all__ = ["Vacuumed", "vacuum"]


@dataclass(frozen=True)
class Vacuumed:
    """What :func:`vacuum` did.

    Attributes
    ----------
    rolled_forward : int or None
        The number of the commit that it carried out.
    given_up : int or None
        The number of the commit that it took back instead.
    swept : int
        Staging directories that it removed, or uploads that it aborted.
    strays : int
        Files of a streaming query that it removed: of killed attempts, and those that the log has
        dropped by the option ``retention``.
    """

    rolled_forward: int | None
    swept: int
    strays: int
    given_up: int | None = None


def vacuum(
    url: str, conf: Conf = None, *, older_than: float = WEEK_S, give_up: int | None = None
) -> Vacuumed:
    """Carry out the commit that a killed writer has declared, and remove what others left.

    Parameters
    ----------
    url : str
        The directory that was written to.
    conf : mapping, optional
        As for :meth:`hflush.FileSystem.get`.
    older_than : float
        In seconds: what has changed since is left alone, as its writer may be at work; on S3 the
        age of an upload counts from its beginning, and uploads of other programs go, too. No job
        may take longer. A streaming query may: files that it can still commit stay.
    give_up : int, optional
        The number of the declared commit that is to be taken back if it cannot be carried out: its
        files that are visible go, and what is staged of it, and nothing else. No other process
        may write there meanwhile.

    Raises
    ------
    ValueError
        `older_than` is negative; or a file of the log of commits or batches is damaged. Or
        `give_up` is no commit that waits, or has removed files already, or all of its own are
        there: then nothing of it was taken back.
    FileNotFoundError
        There is no such directory; or a declared commit has lost files (LostFilesError).
    NotADirectoryError, IsADirectoryError
        It is a file; or in it a file is where a directory has to be, or a directory where a file
        has to be.
    OSError
        The store refuses; or nothing says that the commit cannot be carried out: it is not given up
        for a failure that may pass.
    """
    if not older_than >= 0:
        raise ValueError(f"older_than={older_than} must not be negative")
    committer = Committer(url, conf)
    committer.check_directories()
    before = committer.log.look()
    rolled = before.next_number if before.unfinished is not None else None
    if give_up is not None:
        committer.waiting(give_up)
    try:
        committer.roll_forward()
    except (FileNotFoundError, *FINAL):  # any other failure may pass, or what failed may be done
        if give_up is None:
            raise
        committer.give_up(give_up)
        rolled = None
    else:
        give_up = None
    swept = committer.sweep(older_than)
    return Vacuumed(rolled, swept, sweep_strays(committer, conf, older_than), give_up)
