"""./dev sim --mutants: bugs, kept as patches; the simulator has to find each of them."""

from __future__ import annotations

import json
import shlex
import shutil
from functools import partial
from pathlib import Path

from devkit.building import build
from devkit.console import StepFailed, step
from devkit.outcome import Row, summarize, timed
from devkit.paths import BUILD, ROOT

PATCHES = ROOT / "tests" / "cpp" / "sim" / "mutants"
PROGRAM = "hflush_sim"
CAUGHT_WITHIN = 20_000
_AT_ONCE = 1_000
_TIMEOUT_S = 3600


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
    for patch in patches:
        try:
            seed = _caught_at(_program(directory, commands, patch), patch.stem)
        except StepFailed as failure:
            row.fail(f"{patch.stem}: {failure}")
            continue
        if seed is None:
            row.fail(f"{patch.stem}: not caught within {CAUGHT_WITHIN} seeds")
        else:
            row.passed += 1


def _program(directory: Path, commands: list[dict[str, str]], patch: Path) -> Path:
    """The simulator with one file of the core as the patch makes it."""
    place = BUILD / "mutants" / patch.stem
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    target = next(line for line in patch.read_text().splitlines() if line.startswith("+++ b/"))
    source = ROOT / target.removeprefix("+++ b/").split("\t")[0]
    mutated, program = place / source.name, place / PROGRAM
    log = f"mutant-{patch.stem}"
    step(f"{patch.stem}: patch", ["patch", "-s", "-o", mutated, source, patch], log=log)
    command = next(
        shlex.split(entry["command"])
        for entry in commands
        if Path(entry["file"]) == source and "hflush_core.dir" in entry["command"]
    )
    compiler = command[: command.index("-o")]
    object_file = mutated.with_suffix(".o")
    step(
        f"{patch.stem}: compile",
        [*compiler, "-w", "-o", object_file, "-c", mutated],
        log=log,
    )
    own = sorted((directory / "tests/cpp/CMakeFiles" / f"{PROGRAM}.dir").rglob("*.o"))
    core = directory / "libhflush_core.a"
    link = ["c++", object_file, *own, core, "-ldl", "-pthread", "-o", program]
    step(f"{patch.stem}: link", link, log=log)
    return program


def _caught_at(program: Path, name: str) -> int | None:
    """The first of the seeds among which one is a breach; None if all are well."""
    for first in range(1, CAUGHT_WITHIN + 1, _AT_ONCE):
        seeds = f"{first}-{first + _AT_ONCE - 1}"
        try:
            step(
                f"{name}: seeds {seeds}",
                [program, "--seeds", seeds],
                log=f"mutant-{name}-run",
                timeout_s=_TIMEOUT_S,
            )
        except StepFailed:
            return first
    return None
