"""./dev sim --mutants: bugs, kept as patches; the simulator has to find each of them.

What found them is written into the table beside the patches.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from devkit.building import build
from devkit.console import StepFailed, side_by_side, step
from devkit.outcome import Row, summarize, timed
from devkit.paths import BUILD, ROOT

PATCHES = ROOT / "tests" / "cpp" / "sim" / "mutants"
TABLE = PATCHES / "README.md"
PROGRAM, _WORLD = "hflush_sim", "hflush_sim_world"  # the world: its objects, apart
CAUGHT_WITHIN = 20_000
_AT_FIRST, _AT_ONCE = 100, 1_000
_LONGEST = 80  # of what a run says, in the table
_TIMEOUT_S = 3600
_HEAD = """\
# Bugs that the simulator finds

Written by `./dev sim --mutants`, which builds the simulator with each of these patches and runs the
seeds from 1 on until one of them finds it, 20,000 at most.

| Bug | Seed | What the run says |
|---|---|---|
"""


class Found(NamedTuple):
    """The first seed that finds a bug, and how."""

    seed: str
    breach: str


def mutants(names: list[str]) -> int:
    """Run these mutants, or all of them."""
    return summarize([row(names)])


def row(names: list[str] | None = None) -> Row:
    """Run these mutants, or all of them, into a row."""
    directory = build("dev", PROGRAM)
    chosen = [path for path in sorted(PATCHES.glob("*.patch")) if not names or path.stem in names]
    return timed("mutants", partial(_all, directory=directory, patches=chosen))


def _all(row: Row, directory: Path, patches: list[Path]) -> None:
    commands = json.loads((directory / "compile_commands.json").read_text())

    def hunt(patch: Path) -> Found | StepFailed | None:
        try:
            return _found(_program(directory, commands, patch), patch.stem)
        except StepFailed as failure:
            return failure

    table = found_so_far()
    for patch, found in zip(patches, side_by_side(hunt, patches), strict=True):
        table.pop(patch.stem, None)
        if isinstance(found, StepFailed):
            row.fail(f"{patch.stem}: {found}")
        elif found is None:
            row.fail(f"{patch.stem}: not found within {CAUGHT_WITHIN} seeds")
        else:
            table[patch.stem] = found
            row.passed += 1
    write(table)


def write(table: dict[str, Found]) -> None:
    """Write the table, by the bugs' names."""
    lines = []
    for name, (seed, breach) in sorted(table.items()):
        what = textwrap.shorten(breach, _LONGEST, placeholder=" …")
        lines.append(f"| {name} | {seed} | {what} |\n")
    TABLE.write_text(_HEAD + "".join(lines))


def found_so_far() -> dict[str, Found]:
    """Read the table, by the bugs' names."""
    text = TABLE.read_text() if TABLE.exists() else ""
    rows = re.findall(r"^\| (\S+) \| (\d\S*) \| (.*) \|$", text, re.M)
    return {name: Found(seed, breach) for name, seed, breach in rows}


def _program(directory: Path, commands: list[dict[str, str]], patch: Path) -> Path:
    """Build the simulator with the files of the core that the patch changes."""
    place = BUILD / "mutants" / patch.stem
    shutil.rmtree(place, ignore_errors=True)
    log = f"mutant-{patch.stem}"
    sources = [Path(name) for name in re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(), re.M)]
    for source in sources:
        (place / source).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / source, place / source)
    step(f"{patch.stem}: patch", ["patch", "-s", "-p1", "-d", place, "-i", patch], log=log)
    objects = []
    for source in sources:
        mutated = place / source
        objects.append(mutated.with_suffix(".o"))
        command = next(
            shlex.split(entry["command"])
            for entry in commands
            if Path(entry["file"]) == ROOT / source and "hflush_core.dir" in entry["command"]
        )
        compiler = command[: command.index("-o")]
        output = ["-o", objects[-1], "-c", mutated]
        step(f"{patch.stem}: compile", [*compiler, "-w", *output], log=log)
    targets = (directory / "tests/cpp/CMakeFiles" / f"{name}.dir" for name in (PROGRAM, _WORLD))
    own = sorted(made for target in targets for made in target.rglob("*.o"))
    core = [directory / "libhflush_core.a", "-ldl", "-pthread"]
    wrapped = f"@{directory / 'tests/cpp/wrapped/options'}"
    link = ["c++", *objects, *own, *core, wrapped, "-o", place / PROGRAM]
    step(f"{patch.stem}: link", link, log=log)
    return place / PROGRAM


def _spans() -> Iterator[tuple[int, int]]:
    """Cut the seeds into runs: most bugs are found by the first few."""
    yield 1, _AT_FIRST
    yield _AT_FIRST + 1, _AT_ONCE
    for first in range(_AT_ONCE + 1, CAUGHT_WITHIN + 1, _AT_ONCE):
        yield first, first + _AT_ONCE - 1


def _found(program: Path, name: str) -> Found | None:
    """Run seeds until one of them is a breach; None if all are well."""
    for first, last in _spans():
        seeds = f"{first}-{last}"
        try:
            step(
                f"{name}: seeds {seeds}",
                [program, "--seeds", seeds],
                log=f"mutant-{name}-run",
                timeout_s=_TIMEOUT_S,
            )
        except StepFailed as failure:
            breach = re.search(r"^seed (\d+): (.*)$", failure.output, re.M)
            return Found(*breach.groups()) if breach else Found(seeds, str(failure))
    return None
