"""The arithmetic of compact files, alone: no entry is ever lost or doubled, whatever is set."""

from __future__ import annotations

import random

import pytest
from hflush.checkpoint.compaction import SUFFIX, Batches, absent, batch_id_of, fitting_interval_of
from hflush.checkpoint.findings import Rebuild, of_compact_files


@pytest.mark.parametrize(
    ("name", "number"),
    [("0", 0), ("12", 12), ("9.compact", 9)]
    + [(name, None) for name in ("", "-1", "+1", "007", "1.crc", "x.compact", ".9.tmp", "٣", "1 ")],
)
def test_names(name: str, number: int | None):
    """A batch is named as Spark writes it, not as Java would read it."""
    assert batch_id_of(name) == number


@pytest.mark.parametrize(
    ("compacted", "configured", "latest", "interval"),
    [
        ([], 10, 7, 10),
        ([9], 10, 12, 10),
        ([2], 10, 4, 3),
        ([11], 5, 13, 6),
        ([19], 10, 25, 20),
        ([9, 19, 29], 7, 33, 10),
        ([11], 2, 16, 6),  # where Spark would look for 13.compact
        ([11], 2, 30, 12),  # damaged: nothing fits
        ([], 3, 7, 9),  # where Spark would look for 5.compact
    ],
)
def test_the_interval(compacted: list[int], configured: int, latest: int, interval: int):
    assert fitting_interval_of(compacted, configured, latest) == interval


@pytest.mark.parametrize("seed", range(50))
def test_nothing_is_lost(seed: int):
    """A log of 80 batches whose interval and retention change, with removals that come late.

    After each batch, under any configured interval, the files that a reader takes hold every batch
    once; and no plain file is where a compact one is looked for.
    """
    chance = random.Random(seed)
    held: dict[str, list[int]] = {}  # by file: the batches whose entries it has
    configured, retained = 10, 100
    for number in range(80):
        if chance.random() < 0.1:
            configured, retained = chance.randint(1, 15), chance.randint(1, 20)
        batches = Batches.of(held, configured)
        assert batches.holder(number) is None
        before = list(batches.before(number))
        assert batches.missing(before) == []
        entries = [entry for part in before for entry in held[batches.name(part)]]
        own = batches.name(number)
        held[own] = [*entries, number] if own.endswith(SUFFIX) else [number]
        expired = batches.expired(number, retained)
        for name in expired[: chance.randint(0, len(expired))]:
            held.pop(name, None)
        read = Batches.of(held, chance.randint(1, 15))
        assert read.latest == number
        needed = read.needed(number)
        assert read.missing(needed) == []
        found = [entry for part in needed for entry in held[read.name(part)]]
        assert found == list(range(number + 1))
        assert all(stored in held[read.holder(stored)] for stored in range(number + 1))


def test_parts():
    """A compact file can be made again of the plain files back to another one, or to 0."""
    plain = Batches.as_spark([str(number) for number in range(20)], 10)
    assert plain.missing(plain.needed(19)) == ["19.compact"]
    assert plain.parts(19) == [str(number) for number in range(20)]
    assert Batches.of(["2.compact", "3", "4", "5"], 3).parts(5) == ["2.compact", "3", "4", "5"]
    assert Batches.of(["2.compact", "3", "5"], 3).parts(5) is None
    assert Batches.of(["2.compact", "3", "4"], 3).parts(5) is None


def remedies(compact: int, latest: int, configured: int) -> list[int]:
    """Return which compact files are made of a log with one, after which Spark misses none."""
    names = [f"{compact}{SUFFIX}", *map(str, range(compact + 1, latest + 1))]
    batches = Batches.as_spark(names, configured)
    found = of_compact_files("/log", batches, dict.fromkeys(names, ()))
    made = [one.remedy.batch_id for one in found if isinstance(one.remedy, Rebuild)]
    for number in made:
        after = Batches.as_spark([*names, f"{number}{SUFFIX}"], configured)
        assert after.missing(after.needed(latest)) == []
    return made


def test_a_remedy_leaves_nothing_missing():
    """Two compact files show an interval, with which Spark may miss one that it did not."""
    assert remedies(29, 46, 10) == [39]
    assert remedies(29, 55, 10) == [44]  # 49 would make it miss 39
    assert remedies(21, 30, 2) == []  # each would make it miss another
    for interval in range(2, 40):
        for latest in range(interval, 2 * interval - 1):
            remedies(interval - 1, latest, 1 + latest % 7)


def test_a_batch_far_above_the_others():
    """A file that is called by a date and time is taken for one: not all between are counted."""
    assert absent(range(20_240_101_120_000), [1])[:3] == [0, 2, 3]
    batches = Batches.as_spark(["0", "20240101120000"], 10)
    assert len(batches.missing(range(20_240_101_120_000))) == 1000


def test_removal():
    """What is below the compact file that the retained batches need."""
    names = [f"{n}{SUFFIX}" if n % 3 == 2 else str(n) for n in range(12)]
    batches = Batches.of(names, 3)
    assert batches.expired(11, 100) == []
    assert batches.expired(11, 10) == []
    assert batches.expired(11, 9) == ["0", "1"]
    assert batches.expired(11, 1) == ["0", "1", "2.compact", "3", "4", "5.compact", "6", "7"]
