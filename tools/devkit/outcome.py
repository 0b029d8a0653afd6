"""Rows of counts, skip reasons, and the closing line.

A test that failed and, run once more by itself, passed is flaky: it counts as passed, its name is
printed and kept in FLAKY, and more than FLAKY_MOST of them fail the run. A run that ended early (a
crash, a limit of time) is a failure: nothing says what its other tests come to.
"""

from __future__ import annotations

import datetime
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from devkit.console import StepFailed, heading, say
from devkit.paths import CACHE

FLAKY = CACHE / "flaky.json"
FLAKY_MOST = 2
SLOWEST = 20
TESTS_FAILED = 1  # an exit code, of pytest and of doctest: all tests were run


@dataclass
class Row:
    """What one part of the work came to. `skips` holds one reason per skipped test."""

    part: str
    passed: int = 0
    failed: int = 0
    skips: list[str] = field(default_factory=list)
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    flaky: list[str] = field(default_factory=list)
    ended_early: bool = False  # not all of its tests were run
    tests: list[tuple[float, str]] = field(default_factory=list)  # seconds and name of each

    def fail(self, why: str) -> Row:
        self.failed += 1
        self.failures.append(why)
        return self

    def run_again(self, again: Row) -> None:
        """Take into account how the failed tests fared when they were run once more."""
        ran, wanted = again.passed + again.failed, len(set(self.failures))
        if ran < wanted:
            again.fail(f"{ran} of {wanted} were run again")
        self.flaky = [name for name in self.failures if name not in again.failures]
        self.failures = again.failures
        self.failed = again.failed
        self.passed += len(self.flaky)
        self.seconds += again.seconds


def timed(part: str, work: Callable[[Row], object]) -> Row:
    """Run one part into a row of its own; a failing step is a failure of the row."""
    heading(part)
    row, started = Row(part), time.monotonic()
    try:
        work(row)
    except StepFailed as failure:
        row.fail(str(failure))
    if not (row.passed or row.failed or row.skips):
        row.fail("nothing was run")
    row.seconds = time.monotonic() - started
    return row


def as_one(work: Callable[[], object]) -> Callable[[Row], None]:
    """Make a piece of work one test, which passes unless a step of it fails."""

    def count(row: Row) -> None:
        work()
        row.passed += 1

    return count


def checked(part: str, work: Callable[[], object]) -> Row:
    """Run a piece of work as one test into a row of its own."""
    return timed(part, as_one(work))


def add_junit(row: Row, report: Path, exit_code: int) -> None:
    """Count a pytest run: from its report, and never better than its exit code."""
    if report.exists():
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            _add_case(row, case)
    row.ended_early = exit_code not in (0, TESTS_FAILED)
    if row.ended_early or (exit_code and not row.failed):
        row.fail(_meaning(exit_code))


def _add_case(row: Row, case: ElementTree.Element) -> None:
    name = f"{case.get('classname')}::{case.get('name')}"
    skipped = case.find("skipped")
    if case.find("failure") is not None or case.find("error") is not None:
        row.fail(name)
    elif skipped is not None:
        row.skips.append(skipped.get("message") or "no reason given")
    else:
        row.passed += 1
    row.tests.append((float(case.get("time") or 0), name))


def _meaning(exit_code: int) -> str:
    known = {
        2: "pytest was interrupted or could not collect",
        3: "pytest: internal error",
        4: "pytest: usage error",
        5: "no test was found",
        124: "out of time",
    }
    if exit_code < 0:
        return f"died of signal {-exit_code}"
    return known.get(exit_code, f"exit code {exit_code}")


def add_doctest(row: Row, output: str) -> None:
    """Count a run of the C++ tests: doctest's totals, and the names that main.cc lists."""
    totals = re.search(r"test cases: +\d+ \| +(\d+) passed", output)
    if not totals:
        row.fail("the C++ tests printed no totals")
        return
    skips = re.findall(r"^skipped: (.*)$", output, re.MULTILINE)
    row.skips += skips
    row.passed += int(totals[1]) - len(skips)
    for name in re.findall(r"^failed: (.*)$", output, re.MULTILINE):
        row.fail(name)


def summarize(rows: Sequence[Row]) -> int:
    """Print the table, every skip reason and the closing line; return the exit code."""
    _tell_slowest([test for row in rows for test in row.tests])
    heading("summary")
    width = max(len("part"), *(len(row.part) for row in rows))
    say(f"{'part':<{width}}  passed  failed  skipped  seconds")
    for row in rows:
        say(
            f"{row.part:<{width}}  {row.passed:>6}  {row.failed:>6}  {len(row.skips):>7}"
            f"  {row.seconds:>7.1f}"
        )
    flaky = [f"{row.part}: {name}" for row in rows for name in row.flaky]
    for title, of_row in (("failed", _failures), ("skipped", _skips)):
        lines = [line for row in rows for line in of_row(row)]
        if lines:
            say(f"\n{title}:")
            say("\n".join(lines))
    passed, failed = sum(row.passed for row in rows), sum(row.failed for row in rows)
    skipped = sum(len(row.skips) for row in rows)
    if flaky:
        say(f"\nflaky: {len(flaky)}, failed once and passed alone (all that there were: {FLAKY})")
        say("\n".join(f"  {name}" for name in flaky))
        _keep_flaky(flaky)
    if len(flaky) > FLAKY_MOST:
        say(f"more than {FLAKY_MOST} flaky tests are a failure")
        failed += 1
    say(f"\n{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def _tell_slowest(tests: list[tuple[float, str]]) -> None:
    if len(tests) > SLOWEST:
        heading(f"the {SLOWEST} slowest tests")
        for seconds, name in sorted(tests, reverse=True)[:SLOWEST]:
            say(f"{seconds:>6.1f} s  {name}")


def _keep_flaky(names: Sequence[str]) -> None:
    """Add the names to those of earlier runs on this machine."""
    try:
        kept = json.loads(FLAKY.read_text())
    except (OSError, ValueError):
        kept = []
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    kept += [{"at": now, "test": name} for name in names]
    FLAKY.parent.mkdir(parents=True, exist_ok=True)
    FLAKY.write_text(json.dumps(kept, indent=1))


def _failures(row: Row) -> list[str]:
    return [f"  {row.part}: {failure}" for failure in row.failures]


def _skips(row: Row) -> list[str]:
    return [f"  {row.part}: {count} × {why}" for why, count in Counter(row.skips).most_common()]
