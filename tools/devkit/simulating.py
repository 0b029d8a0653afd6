"""./dev sim: what writes to HDFS, in a simulated world; each run follows from its seed."""

from __future__ import annotations

import os
import random
import re
from functools import partial
from pathlib import Path

from devkit import covering
from devkit.building import build
from devkit.console import side_by_side, step, stream
from devkit.outcome import Row, summarize, timed

PROGRAM = "hflush_sim"
FRESH_SEEDS = 5_000
# In the gate: the same each time, and a few that no run had before.
GATE_SEEDS, GATE_FRESH_SEEDS = 1_000, 500
_NEVER_TYPED = range(10**9, 10**12)
_TIMEOUT_S = 3600


def sim(seeds: str | None, replay: int | None) -> int:
    """Run these seeds (FIRST-LAST), fresh ones if there are none, or one with its trace."""
    directory = build("dev", PROGRAM)
    if replay is not None:
        return stream([directory / PROGRAM, "--replay", replay])
    first, last = _range(seeds) if seeds else _fresh()
    return summarize([timed("sim", partial(run, directory=directory, first=first, last=last))])


def fixed_and_fresh_runs(row: Row, directory: Path) -> None:
    """Run the seeds of the gate into a row."""
    run(row, directory, 1, GATE_SEEDS, strict=False)
    run(row, directory, *_fresh(GATE_FRESH_SEEDS), strict=False)


def fresh_runs(row: Row, directory: Path) -> None:
    """Run so many seeds that every transition is seen that is not listed as rare."""
    run(row, directory, *_fresh(), strict=False)


def _fresh(count: int = FRESH_SEEDS) -> tuple[int, int]:
    """Draw the first and the last of some seeds."""
    first = random.choice(_NEVER_TYPED)
    return first, first + count - 1


def run(row: Row, directory: Path, first: int, last: int, *, strict: bool = True) -> None:
    """Run these seeds on all processors into a row, which counts streams.

    What the machines did is compared with their tables (covering.check).
    """

    def part(span: tuple[int, int]) -> str:
        seeds = f"{span[0]}-{span[1]}"
        command = [directory / PROGRAM, "--seeds", seeds]
        return step(f"seeds {seeds}", command, log=f"sim-{span[0]}", timeout_s=_TIMEOUT_S)

    outputs = side_by_side(part, _split(first, last, os.cpu_count() or 1))
    for output in outputs:
        found = re.search(r"; (\d+) streams", output)
        row.passed += int(found[1]) if found else 0
    covering.check(row, covering.seen_in(outputs), last - first + 1, strict=strict)


def _split(first: int, last: int, count: int) -> list[tuple[int, int]]:
    """Cut seeds into at most so many runs."""
    size = -(-(last - first + 1) // count)
    return [(at, min(at + size - 1, last)) for at in range(first, last + 1, size)]


def _range(seeds: str) -> tuple[int, int]:
    first, _, last = seeds.partition("-")
    return int(first), int(last or first)
