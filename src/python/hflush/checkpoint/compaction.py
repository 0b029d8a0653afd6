"""When Spark's file logs are compacted, which files a reader needs, and which are done with.

Pure. In a log with compact interval I, batches I-1, 2I-1, … are stored as ``N.compact``: the
entries of all batches up to N, in place of a file ``N``. What is below the last one is not needed
any more.

The interval is a property of the directory, not of the configuration: a log goes on with the
interval that its compact files show, whatever is configured now. Source: Spark's
CompactibleFileStreamLog.
"""

from __future__ import annotations

from itertools import filterfalse, islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = [
    "SUFFIX",
    "Batches",
    "absent",
    "batch_id_of",
    "fitting_interval_of",
    "interval_of",
    "number_of",
]

SUFFIX = ".compact"
_MAX_ABSENT = 1000


def absent(wanted: range, ids: Iterable[int]) -> list[int]:
    """Return those of a range that are not among some ids: the first 1,000 of more.

    A file that is called by a date and time is a batch far above all others.
    """
    return list(islice(filterfalse(set(ids).__contains__, wanted), _MAX_ABSENT))


def number_of(name: str) -> int | None:
    """Return the number that a name is, or None: with leading zeros it is another name."""
    is_number = name.isascii() and name.isdecimal() and name == str(int(name))
    return int(name) if is_number else None


def batch_id_of(name: str) -> int | None:
    """Return the id of the batch that a file of this name is, or None if it is not one's."""
    return number_of(name.removesuffix(SUFFIX))


def interval_of(compacted: Iterable[int], configured: int) -> int:
    """Return the compact interval that Spark takes a directory to have.

    Parameters
    ----------
    compacted : iterable of int
        The ids of its compact files.
    configured : int
        The interval that is asked for; it counts if there are none. If there is one, the interval
        is the smallest divisor of its id + 1 that is not below this and leaves room for another
        such file before it, else its id + 1. Two or more show the interval.
    """
    last = sorted(compacted)[-2:]
    if len(last) == 2:
        return last[1] - last[0]
    if not last:
        return configured
    batches = last[0] + 1
    half = batches // 2
    return _divisor(batches, range(configured, half + 1) if configured < half else range(0))


def fitting_interval_of(compacted: Iterable[int], configured: int, latest: int) -> int:
    """Return the same where Spark can go on, else the next interval with which one can.

    Spark cannot if its interval is smaller than the number of plain files after the only compact
    file, or of all if there is none: it looks for a compact file among them.

    Parameters
    ----------
    compacted, configured
        As for :func:`interval_of`.
    latest : int
        The highest id, -1 if there is none.
    """
    known = sorted(compacted)
    interval = interval_of(known, configured)
    if not known:
        return max(interval, latest + 2)
    if len(known) > 1 or known[0] + interval > latest:
        return interval
    return _divisor(known[0] + 1, range(latest - known[0] + 1, known[0] + 1))


def _divisor(batches: int, candidates: range) -> int:
    """Return the first divisor of a number among some, else the number itself."""
    return next((i for i in candidates if not batches % i), batches)


class Batches(NamedTuple):
    """The batch files of one directory, and its compact interval."""

    names: Collection[str]
    interval: int

    @classmethod
    def of(cls, names: Iterable[str], configured: int) -> Batches:
        """Return those among the names of a directory, with an interval that fits."""
        found = frozenset(name for name in names if batch_id_of(name) is not None)
        latest = max((int(name.removesuffix(SUFFIX)) for name in found), default=-1)
        return cls(found, fitting_interval_of(_compacted(found), configured, latest))

    @classmethod
    def as_spark(cls, names: Iterable[str], configured: int) -> Batches:
        """Return those among the names of a directory, with the interval that Spark takes."""
        found = frozenset(name for name in names if batch_id_of(name) is not None)
        return cls(found, interval_of(_compacted(found), configured))

    @property
    def ids(self) -> list[int]:
        """The ids that have a file, ascending."""
        return sorted({number for name in self.names if (number := batch_id_of(name)) is not None})

    @property
    def latest(self) -> int | None:
        """The highest id."""
        return max(self.ids, default=None)

    @property
    def last_compacted(self) -> int:
        """The highest id of a compact file, or -1."""
        return max(_compacted(self.names), default=-1)

    def compacts(self, batch_id: int) -> bool:
        """Whether this batch is stored as a compact file."""
        return (batch_id + 1) % self.interval == 0

    def name(self, batch_id: int) -> str:
        """Return the name of the file of a batch."""
        return f"{batch_id}{SUFFIX}" if self.compacts(batch_id) else str(batch_id)

    def file(self, batch_id: int) -> str | None:
        """Return the name of a batch's own file; None if it has none.

        It may have been stored when the interval was another one.
        """
        plain = str(batch_id)
        return next(
            (n for n in (self.name(batch_id), plain, plain + SUFFIX) if n in self.names), None
        )

    def holder(self, batch_id: int) -> str | None:
        """Return the name of the file that readers take a batch from; None: it is not stored."""
        last = self.last_compacted
        if batch_id <= last:
            return f"{last}{SUFFIX}"
        return str(batch_id) if str(batch_id) in self.names else None

    def needed(self, batch_id: int) -> range:
        """Return the ids whose files hold all entries up to a batch, it included."""
        return range(max(0, (batch_id + 1) // self.interval * self.interval - 1), batch_id + 1)

    def before(self, batch_id: int) -> range:
        """Return the ids whose files hold all entries before a batch."""
        return self.needed(batch_id - 1) if batch_id else range(0)

    def missing(self, ids: Iterable[int]) -> list[str]:
        """Return the names of the files among these that are not there: the first 1,000."""
        return list(islice(filterfalse(self.names.__contains__, map(self.name, ids)), _MAX_ABSENT))

    def missing_with(self, name: str) -> list[str]:
        """Return the names of files that Spark would miss if a compact file were there, too.

        The interval of a log changes with its compact files. For batches :meth:`as_spark`.
        """
        after = Batches.as_spark({*self.names, name}, self.interval)
        return after.missing(after.needed(max(after.ids)))

    def expired(self, batch_id: int, retained: int) -> list[str]:
        """Return the names of the files that may go once a batch is stored.

        Parameters
        ----------
        batch_id : int
            The batch.
        retained : int
            So many batches up to it can still be read one by one.
        """
        first = batch_id + 1 - retained
        if first < self.interval:
            return []
        keep = first - first % self.interval - 1
        return sorted(
            (name for name in self.names if (number := batch_id_of(name)) is not None
             and number < keep),
            key=lambda name: (batch_id_of(name), name),
        )  # fmt: skip

    def parts(self, batch_id: int) -> list[str] | None:
        """Return the names of files that a compact file can be made of again, in order.

        None if one is missing: a plain file of each batch back to another compact file, or to 0.
        """
        found: list[str] = []
        for number in range(batch_id, -1, -1):
            if number != batch_id and f"{number}{SUFFIX}" in self.names:
                return [f"{number}{SUFFIX}", *reversed(found)]
            if str(number) not in self.names:
                return None
            found.append(str(number))
        return found[::-1]


def _compacted(names: Iterable[str]) -> list[int]:
    return [int(name.removesuffix(SUFFIX)) for name in names if name.endswith(SUFFIX)]
