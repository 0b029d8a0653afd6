"""./dev test: the gate, everything, or some parts.

Some parts run at a time: tests wait for servers more than for a processor. What they need is built
before, so that nothing is compiled while tests run. A test that fails is run once more at the end,
alone (outcome.py says what that counts).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from devkit import (
    changes,
    environment,
    linting,
    machines,
    mutating,
    native,
    parts,
    sanitizing,
    simulating,
)
from devkit.building import build
from devkit.console import heading, side_by_side, step, stream, transcript
from devkit.outcome import Row, add_junit, checked, summarize, timed
from devkit.parts import PytestPart
from devkit.paths import BUILD, PYTHON, ROOT
from devkit.patience import PATIENCE

FULL = "full"
ELSEWHERE = {"aarch64": machines.aarch64, "debian13": machines.debian13}
OF_GATE = (
    *parts.OF_GATE,
    "cpp",
    "sim",
    "mypy",
    "claims",
    "clang-format",
    "ruff",
    "ruff-format",
    "codespell",
)
# Each has all processors to itself, and compiles.
_AFTER_TESTS = (
    "sim-transitions",
    "headers",
    "stubtest",
    "clang-tidy",
    "newest-compilers",
    "sanitizers",
    "mutants",
)
OF_FULL = (*parts.OF_FULL, *OF_GATE[len(parts.OF_GATE) :], "conformance", *_AFTER_TESTS)
SLOW = (*parts.BY_HAND, *ELSEWHERE)
NAMED = tuple(dict.fromkeys([*OF_FULL, *parts.GROUPS, *SLOW]))
TEST_TIMEOUT_S = 300
# Two keep a processor busy, and one waits.
_AT_A_TIME = (os.cpu_count() or 1) + 1
# Beyond that many failures it is no matter of chance.
_RUN_AGAIN_MOST = 10


def test(names: Sequence[str], pytest_args: Sequence[str], *, only_changed: bool) -> int:
    """Run the gate, everything ("full") or these parts; return the exit code.

    Arguments for pytest choose among the tests: nothing is recorded for the page of conformance
    then. With `only_changed`, parts are left out that were green on what they look at.
    """
    chosen = _resolved(names)
    if only_changed:
        chosen = [name for name in chosen if not changes.is_green(name)]
    before = changes.digests(chosen)
    directory = build("dev")
    if set(chosen) & {*parts.PYTEST, "conformance"}:
        environment.require_cluster()
        environment.require_store()
        _build_c_libraries()
    run = _Run(directory, pytest_args, shows_itself=len(chosen) == 1, records=names == [FULL])
    together = [name for name in chosen if name not in (*_AFTER_TESTS, "conformance", *ELSEWHERE)]
    rows = side_by_side(run.part, together, at_a_time=_AT_A_TIME)
    failed = [row for row in rows if row.failed]
    if sum(row.failed for row in failed) <= _RUN_AGAIN_MOST:
        for row in failed:
            run.once_more(row)
    came_to = {row.part: [row] for row in rows}
    for name in chosen:
        if name not in together:
            came_to[name] = run.alone(name)
    if not pytest_args:
        green = (name for name, rows in came_to.items() if not any(row.failed for row in rows))
        changes.keep_green({name: before[name] for name in green if name in before})
    return summarize([row for name in chosen for row in came_to[name]])


def elsewhere(names: Sequence[str]) -> int:
    """Run parts that need nothing built for this machine; return the exit code."""
    return summarize([timed(name, ELSEWHERE[name]) for name in names])


def _resolved(names: Sequence[str]) -> list[str]:
    """The parts that these names stand for."""
    if not names:
        return list(OF_GATE)
    found: list[str] = []
    for name in names:
        found += OF_FULL if name == FULL else parts.GROUPS.get(name, (name,))
    return list(dict.fromkeys(found))


class _Run:
    """One run of parts, each of which comes to a row."""

    def __init__(
        self, directory: Path, pytest_args: Sequence[str], *, shows_itself: bool, records: bool
    ) -> None:
        self._directory = directory
        self._pytest_args = pytest_args
        self._shows_itself = shows_itself
        self._records = records and not pytest_args

    def part(self, name: str) -> Row:
        """Run a part beside others."""
        return timed(name, self._work(name))

    def _work(self, name: str) -> Callable[[Row], None]:
        if name in parts.PYTEST:
            return partial(self._pytest, part=parts.PYTEST[name])
        if name == "cpp":
            return partial(native.cpp_tests, directory=self._directory)
        if name == "sim":
            return partial(simulating.gate_runs, directory=self._directory)
        return linting.CHECKS[name]

    def once_more(self, row: Row) -> None:
        """Run those tests of a row again that failed, and nothing beside them."""
        if row.ended_early:
            return  # what failed is not all
        if row.part in parts.PYTEST:
            work = partial(self._pytest, part=parts.PYTEST[row.part], only_failed=True)
        elif row.part == "cpp":
            work = partial(native.cpp_tests, directory=self._directory, names=row.failures)
        else:
            return  # it gives the same answer each time
        heading(f"{row.part}: what failed, once more and alone")
        row.run_again(timed(row.part, work))

    def alone(self, name: str) -> list[Row]:
        """Run what compiles, or looks at what the others came to."""
        if name == "conformance":
            return [checked(name, partial(_conformance, "check", title="each promise is kept"))]
        if name == "sanitizers":
            return sanitizing.rows(sanitizing.SANITIZERS, bounded=True)
        if name == "mutants":
            return [mutating.row()]
        if name == "sim-transitions":
            return [timed(name, partial(simulating.full_runs, directory=self._directory))]
        if name in ELSEWHERE:
            return [timed(name, ELSEWHERE[name])]
        return [timed(name, linting.CHECKS[name])]

    def _pytest(self, row: Row, part: PytestPart, *, only_failed: bool = False) -> None:
        title = f"{part.name}-again" if only_failed else part.name
        report = BUILD / "test" / f"{title}.xml"
        report.unlink(missing_ok=True)
        kept = BUILD / "test" / f"{part.name}-cache"
        command: list[object] = [PYTHON, "-m", "pytest", f"--junitxml={report}"]
        command += ["-o", f"cache_dir={kept}", "-o", f"timeout={TEST_TIMEOUT_S * PATIENCE}"]
        command += part.arguments
        if part.marks:
            command += ["-m", part.marks]
        if only_failed:
            command += ["--last-failed", "--last-failed-no-failures=none"]
        else:
            shutil.rmtree(kept, ignore_errors=True)
        if self._records:
            if not only_failed:
                _conformance("begin", part.name, title=f"proofs of {part.name}")
            command.append(f"--conformance={BUILD / 'conformance' / f'{part.name}.json'}")
        command += [ROOT / "tests" / place for place in part.places]
        run = stream if self._shows_itself else partial(transcript, title, log=f"test-{title}")
        code = run(
            [*command, *self._pytest_args],
            env=environment.variables(),
            timeout_s=part.limit_s * PATIENCE,
        )
        if code == 5 and self._pytest_args:
            code = 0
            row.skips.append("the arguments for pytest choose no test of this part")
        add_junit(row, report, code)


def _build_c_libraries() -> None:
    """Build what tests load beside the extension."""
    tool = ROOT / "tests" / "support" / "c_library.py"
    step("libraries in C for tests", [PYTHON, tool], log="c-libraries", env=environment.variables())


def _conformance(*words: str, title: str) -> None:
    tool = ROOT / "tools" / "conformance.py"
    step(title, [PYTHON, tool, *words], log="conformance", env=environment.variables())
