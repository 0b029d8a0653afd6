"""./dev test: the C++ tests, the Python tests, the Spark tests, and the conformance gate."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from devkit import environment, linting, sanitizing
from devkit.building import build
from devkit.console import StepFailed, step, stream
from devkit.outcome import Row, add_doctest, add_junit, checked, summarize, timed
from devkit.paths import BUILD, PYTHON, ROOT

# Each part is a directory of tests, run in a process of its own, and the time it may take.
PYTHON_PARTS = {"unit": 600, "contract": 900, "threads": 600, "faults": 600, "spark": 900}
DIRECTORIES = {"spark": "integration"}
PARTS = ("cpp", *PYTHON_PARTS, "conformance")
CPP_TIMEOUT_S = 300


def test(parts: Sequence[str], pytest_args: Sequence[str]) -> int:
    """Run these parts, or all of them; return the exit code.

    Where the environment says CI, a full run includes the linters and bounded sanitizers.
    """
    directory = build("dev")
    if not parts:
        _conformance("reset", "forgetting earlier proofs")
    chosen = list(parts) or list(PARTS)
    rows = [_part(name, directory, pytest_args) for name in chosen]
    if os.environ.get("CI") and not parts:
        rows += linting.rows()
        rows += sanitizing.rows(sanitizing.SANITIZERS, bounded=True)
    return summarize(rows)


def _part(name: str, directory: Path, pytest_args: Sequence[str]) -> Row:
    if name == "cpp":
        return timed("cpp", partial(cpp_tests, directory=directory))
    if name == "conformance":
        return checked("conformance", partial(_conformance, "check", "every rule has its proof"))
    return timed(name, partial(_python_tests, name=name, extra=pytest_args))


def cpp_tests(
    row: Row, directory: Path, env: Mapping[str, str] | None = None, prefix: Sequence[str] = ()
) -> None:
    """Run the C++ tests of a build directory into a row."""
    command = [*prefix, directory / "hflush_cpp_tests"]
    log = f"cpp-{directory.name}"
    try:
        output = step("hflush_cpp_tests", command, log=log, env=env, timeout_s=CPP_TIMEOUT_S)
    except StepFailed as failure:
        add_doctest(row, failure.output)
        if not row.failed:
            raise
    else:
        add_doctest(row, output)


def _python_tests(row: Row, name: str, extra: Sequence[str]) -> None:
    report = BUILD / "test" / f"{name}.xml"
    report.unlink(missing_ok=True)
    directory = f"tests/{DIRECTORIES.get(name, name)}"
    command = [PYTHON, "-m", "pytest", directory, f"--junitxml={report}", *extra]
    code = stream(command, env=environment.variables(), timeout_s=PYTHON_PARTS[name])
    if code == 5 and extra:
        code = 0  # the caller's own selection took nothing from this part
    add_junit(row, report, code)


def _conformance(command: str, title: str) -> None:
    tool = ROOT / "tools" / "conformance.py"
    step(title, [PYTHON, tool, command], log="conformance", env=environment.variables())
