"""What a trial has shown. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """How many rows are not as they should be."""

    lost: int
    doubled: int

    @property
    def is_right(self) -> bool:
        return not (self.lost or self.doubled)


def verdict(found: Iterable[int], expected: Iterable[int]) -> Verdict:
    """Compare rows, of which each should be there once. One never written counts as doubled."""
    there, wanted = Counter(found), Counter(expected)
    return Verdict((wanted - there).total(), (there - wanted).total())


def is_old_or_new(found: Iterable[int], old: Iterable[int], new: Iterable[int]) -> bool:
    """Whether a reader finds the rows of before an overwrite, or those of after it."""
    there = Counter(found)
    return there in (Counter(old), Counter(new))


def moment(number: int, fraction: float) -> float:
    """Return when to kill, as a part of the time that a write takes.

    Parameters
    ----------
    number
        Of the trial: the odd ones are killed in the last quarter.
    fraction
        From 0 to 1, of the range that is meant.
    """
    begin = 0.75 if number % 2 else 0.0
    return begin + (1.0 - begin) * fraction
