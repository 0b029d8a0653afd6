"""The intents and records of a destination: the directory ``_hflush/commits`` in it.

``N.intent`` is written by the process that wins the number, ``N.record`` by the one that has
carried it out. Both appear whole or not at all (:mod:`hflush.checkpoint`). The latest record stays
for ever; what is older is removed by the next commit.
"""

from __future__ import annotations

import contextlib
import errno
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ... import paths
from ...checkpoint import CheckpointFileManager
from ...checkpoint.compaction import number_of
from ...errors import is_undecided, means_file_there
from .access import share
from .machine import Seen
from .records import Intent, Job, Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...namespace import Conf
    from ...status import FileStatus

__all__ = ["CommitLog", "create_once"]

_INTENT, _RECORD = ".intent", ".record"

_UNDECIDED = 3  # how often a file is written that the store decides against, and that is not there

T = TypeVar("T")


class _Listed(NamedTuple):
    """The numbers that the directory shows."""

    intents: set[int]
    records: set[int]

    @property
    def last(self) -> int:
        """The number of the latest record, or -1."""
        return max(self.records, default=-1)


class CommitLog:
    """The intents and records of one destination. Thread-safe; caches nothing.

    Parameters
    ----------
    path : str
        The directory: it need not exist.
    conf : mapping, optional
        As for :meth:`hflush.FileSystem.get`.
    """

    def __init__(self, path: str, conf: Conf = None) -> None:
        self._manager = CheckpointFileManager._of_one_winner(path, conf)
        self.path = self._manager.path

    def look(self) -> Seen:
        """Return the latest record, and the intent after it.

        Raises
        ------
        ValueError
            A file is not what this version writes; the message names it.
        IsADirectoryError, NotADirectoryError
            A directory has the name of an intent or a record, or a file that of the log.
        """
        while True:
            listed = self._list()
            last = None
            if listed.records:
                last = self._read(listed.last, _RECORD, Record.from_bytes)
                if last is None:
                    continue  # a later one has taken its place
            following = listed.last + 1
            unfinished = None
            if following in listed.intents:
                unfinished = self._read(following, _INTENT, Intent.from_bytes)
                if unfinished is None or self._list().last != listed.last:
                    continue  # the one that was listed has been finished meanwhile
            return Seen(last, unfinished)

    def declare(self, number: int, intent: Intent) -> bool:
        """Write an intent; False if the number is taken. The first one needs :meth:`make`."""
        return self._write(number, _INTENT, intent.to_bytes())

    def make(self) -> bool:
        """Make the directory, on disk; whether it was not there.

        An intent has to be there before anything of it is published.
        """
        is_first = not self._manager.exists(self.path)
        self._manager.mkdirs(self.path)
        control = paths.parent(self.path)
        if is_first:
            share(self._manager.filesystem, [self.path], paths.parent(control))
        for directory in (control, self.path):
            self._manager.filesystem._sync_entry(directory)
        return is_first

    def unmake(self) -> None:
        """Remove the directory, if nothing is in it."""
        with contextlib.suppress(OSError):
            self._manager.filesystem.delete(self.path)

    def withdraw(self, number: int) -> None:
        """Remove an intent that is void."""
        self._manager.delete(self._path(number, _INTENT))

    def finish(self, record: Record) -> None:
        """Write a record, unless it is there."""
        self._write(record.number, _RECORD, record.to_bytes())

    def clean(self, number: int) -> None:
        """Remove the intents up to a number that has its record, and all older records."""
        listed = self._list()
        for older in sorted(n for n in listed.intents if n <= number):
            self._manager.delete(self._path(older, _INTENT))
        for older in sorted(n for n in listed.records if n < number):
            self._manager.delete(self._path(older, _RECORD))

    def has_open(self, job: Job) -> bool:
        """Whether an intent of a job waits to be carried out."""
        unfinished = self.look().unfinished
        return unfinished is not None and unfinished.job.id == job.id

    def sweep(self, older_than: float) -> None:
        """Remove what is over: older pairs, void intents, and temporary files of that age.

        Also the directory, if it has that age and nothing is in it: its job has declared nothing,
        and queries take it for one that has written.
        """
        last = self._list().last
        is_over = last < 0 and self._unchanged_s() >= older_than
        if last >= 0:
            self.clean(last)
        for status in self._statuses():
            path = self._manager.filesystem._store_path(status)
            age = time.time() - status.modification_time_ns / 1e9
            if paths.basename(path).endswith(".tmp") and age >= older_than:
                self._manager.delete(path)
        if is_over:
            self.unmake()

    def _unchanged_s(self) -> float:
        """Return for how many seconds nothing has come or gone; 0 where the store does not know."""
        try:
            status = self._manager.filesystem.get_file_status(self.path)
        except FileNotFoundError:
            return 0.0
        modified = status.modification_time_ns  # 0 on S3
        return time.time() - modified / 1e9 if modified else 0.0

    def _list(self) -> _Listed:
        statuses = self._statuses()
        names = [paths.basename(status.path) for status in statuses]
        listed = _Listed(_numbers(names, _INTENT), _numbers(names, _RECORD))
        if any(not status.is_file for status in statuses):
            self._refuse_odd(statuses)
        return listed

    def _refuse_odd(self, statuses: list[FileStatus]) -> None:
        """Refuse a directory or a broken link whose name is that of an intent or a record.

        It cannot be read, and its number cannot be taken: to look again would never end.
        """
        for status in statuses:
            name = [paths.basename(status.path)]
            if not status.is_file and (_numbers(name, _INTENT) or _numbers(name, _RECORD)):
                raise IsADirectoryError(
                    errno.EISDIR,
                    "commits: this is no file, but has the name of an intent or a record, which "
                    "only hflush writes. Move it away",
                    self._manager.filesystem.make_qualified(status.path),
                )

    def _statuses(self) -> list[FileStatus]:
        try:
            found = self._manager.list(self.path)
        except FileNotFoundError:
            return []
        if len(found) == 1 and self._manager.filesystem._store_path(found[0]) == self.path:
            raise NotADirectoryError(  # the listing of a file is the file
                errno.ENOTDIR,
                "commits: this is a file, where the directory of intents and records has to be. "
                "Move it away",
                self._manager.filesystem.make_qualified(self.path),
            )
        return found

    def _read(self, number: int, suffix: str, parse: Callable[[bytes], T]) -> T | None:
        path = self._path(number, suffix)
        try:
            with self._manager.open(path) as stream:
                content = stream.read()
        except FileNotFoundError:
            return None
        try:
            return parse(content)
        except ValueError as odd:
            name = self._manager.filesystem.make_qualified(path)
            raise ValueError(f"{name}: {odd}") from None

    def _write(self, number: int, suffix: str, content: bytes) -> bool:
        self._manager.mkdirs(self.path)
        return create_once(self._manager, self._path(number, suffix), content)

    def _path(self, number: int, suffix: str) -> str:
        return paths.child(self.path, f"{number}{suffix}")


def create_once(
    manager: CheckpointFileManager, path: str, content: bytes, *, anew: bool = False
) -> bool:
    """Write a whole file, unless one is there; return whether it was written. `anew`: replace it.

    Raises
    ------
    OSError
        The store refuses; or there is a directory.
    """
    for left in reversed(range(_UNDECIDED)):
        try:
            with manager.create_atomic(path, overwrite_if_possible=anew) as stream:
                stream.write(content)
        except OSError as refusal:  # noqa: PERF203
            if means_file_there(refusal):
                return False
            if not left or not is_undecided(refusal):
                raise
        else:
            break
    return True


def _numbers(names: list[str], suffix: str) -> set[int]:
    numbers = (number_of(name.removesuffix(suffix)) for name in names if name.endswith(suffix))
    return {number for number in numbers if number is not None}
