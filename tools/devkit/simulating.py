"""./dev sim: what writes to HDFS, in a simulated world; each run follows from its seed."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from functools import partial
from pathlib import Path

from devkit import covering
from devkit.building import build
from devkit.console import side_by_side, step, stream
from devkit.outcome import Row, summarize, timed

PROGRAM = "hflush_sim"
# In the gate: the same each time, and a few that no run had before.
GATE_SEEDS, GATE_FRESH_SEEDS = 1_000, 500
_NEVER_TYPED = range(10**9, 10**12)
_TIMEOUT_S = 3600


def sim(seeds: str | None, replay: int | None) -> int:
    """Run these seeds (FIRST-LAST), fresh ones if there are none, or one with its trace."""
    directory = build("dev", PROGRAM)
    if replay is not None:
        return stream([directory / PROGRAM, "--replay", replay])
    if seeds is None:
        return summarize([timed("sim", partial(_fresh, directory=directory))])
    first, last = _range(seeds)
    return summarize([timed("sim", partial(_fixed, directory=directory, first=first, last=last))])


def gate_runs(row: Row, directory: Path) -> None:
    """Run the seeds of the gate into a row."""
    _fixed(row, directory, 1, GATE_SEEDS)
    _fresh(row, directory, GATE_FRESH_SEEDS)


def full_runs(row: Row, directory: Path) -> None:
    """Run as many seeds as see every transition that is not listed, and as many fresh ones."""
    _fixed(row, directory, 1, covering.ENOUGH_FOR_ALL)
    _fresh(row, directory)


def _fixed(row: Row, directory: Path, first: int, last: int) -> None:
    """Run these seeds, which see the same each time: what they do not see fails the row, too."""
    seen = _seen_in(row, directory, first, last)
    covering.check_tables(row, seen)
    covering.check_lists(row, seen, last - first + 1)


def _fresh(row: Row, directory: Path, count: int = covering.ENOUGH_FOR_ALL) -> None:
    """Run so many seeds that were drawn: what they happen not to see says nothing."""
    first = random.choice(_NEVER_TYPED)
    covering.check_tables(row, _seen_in(row, directory, first, first + count - 1))


def _seen_in(row: Row, directory: Path, first: int, last: int) -> Counter[covering.Transition]:
    """Run these seeds on all processors into a row, which counts streams."""

    def part(span: tuple[int, int]) -> str:
        seeds = f"{span[0]}-{span[1]}"
        command = [directory / PROGRAM, "--seeds", seeds]
        return step(f"seeds {seeds}", command, log=f"sim-{span[0]}", timeout_s=_TIMEOUT_S)

    outputs = side_by_side(part, _split(first, last, os.cpu_count() or 1))
    for output in outputs:
        found = re.search(r"; (\d+) streams", output)
        if found:
            row.passed += int(found[1])
        else:
            row.fail("a run of the simulator printed no totals")
    return covering.seen_in(outputs)


def _split(first: int, last: int, count: int) -> list[tuple[int, int]]:
    """Cut seeds into at most so many runs."""
    size = -(-(last - first + 1) // count)
    return [(at, min(at + size - 1, last)) for at in range(first, last + 1, size)]


def _range(seeds: str) -> tuple[int, int]:
    first, _, last = seeds.partition("-")
    return int(first), int(last or first)
