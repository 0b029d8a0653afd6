"""./dev test: C++ tests, Python tests, tests on HDFS, S3 and Spark, and the conformance gate."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from devkit import environment, linting, machine, machines, sanitizing, simulating
from devkit.building import build
from devkit.console import StepFailed, beside, join, step, stream
from devkit.outcome import Row, add_doctest, add_junit, checked, summarize, timed
from devkit.paths import BUILD, PYTHON, ROOT

# Each part is a directory of tests, or some files of one, run in a process of its own, and the time
# it may take.
PYTHON_PARTS = {
    "unit": 600,
    "contract": 1200,
    "threads": 600,
    "faults": 600,
    "hdfs": 900,
    "s3": 600,
    "ecosystem": 600,
    "spark": 900,
}
# Run when they are named: some tests of another part, for daily work; slow ones with pytest; and
# those on another machine than this.
DAILY_PARTS = {"local": 300}
SLOW_PYTHON_PARTS = {"radosgw": 3600}
ELSEWHERE = {"aarch64": machines.aarch64, "debian13": machines.debian13}
SLOW_PARTS = (*SLOW_PYTHON_PARTS, *ELSEWHERE)
FILES = {
    "local": ("contract",),
    "hdfs": ("integration/test_hdfs_*.py",),
    "s3": ("integration/test_s3_*.py",),
    "spark": ("integration/test_[js][ap]*.py",),
    "radosgw": ("contract", "integration/test_s3_*.py", "radosgw"),
}
ARGUMENTS = {"local": ("--stores=raw,crc",), "radosgw": ("--s3-server=radosgw",)}
PARTS = ("cpp", "sim", *PYTHON_PARTS, "conformance")
NAMED_PARTS = (*DAILY_PARTS, *SLOW_PARTS)
CPP_TIMEOUT_S = 600
_BUILDS = "build-beside"


def test(parts: Sequence[str], pytest_args: Sequence[str]) -> int:
    """Run these parts, or all but the slow ones; return the exit code.

    Arguments for pytest choose among the tests, of which the gate wants all: it is left out then.
    Where the environment says CI, a full run includes the linters and bounded sanitizers.
    """
    checks_too = bool(os.environ.get("CI")) and not parts
    directory = build("dev")
    environment.require_cluster()
    chosen = list(parts) or [part for part in PARTS if part != "conformance" or not pytest_args]
    native = ("cpp", "sim")
    rows = [_part(name, directory, pytest_args) for name in chosen if name in native]
    if len(chosen) > len(rows):
        environment.require_store()  # what began it beside had all the time until here
    builds = _begin_builds() if checks_too else None
    rows += [_part(name, directory, pytest_args) for name in chosen if name not in native]
    if builds is not None:
        join("what the checks need built", builds, log=_BUILDS)
        rows += linting.rows()
        rows += sanitizing.rows(sanitizing.SANITIZERS, bounded=True)
    return summarize(rows)


def elsewhere(parts: Sequence[str]) -> int:
    """Run parts that need nothing built for this machine; return the exit code."""
    return summarize([timed(name, ELSEWHERE[name]) for name in parts])


def _begin_builds() -> subprocess.Popen[bytes]:
    """Begin what linters and sanitizers build: the Python tests leave processors idle."""
    machine.require(machine.FOR_CHECKS)
    dev = shlex.quote(str(ROOT / "dev"))
    both = f"{dev} build tidy asan tsan && {dev} lint newest-compilers"
    return beside(["sh", "-c", both], log=_BUILDS)


def _part(name: str, directory: Path, pytest_args: Sequence[str]) -> Row:
    if name in ELSEWHERE:
        return timed(name, ELSEWHERE[name])
    if name == "cpp":
        return timed("cpp", partial(cpp_tests, directory=directory))
    if name == "sim":
        return timed("sim", partial(simulating.fresh_runs, directory=directory))
    if name == "conformance":
        return checked(
            "conformance", partial(_conformance, "check", title="every rule has its proof")
        )
    return timed(name, partial(_python_tests, name=name, extra=pytest_args))


def cpp_tests(
    row: Row,
    directory: Path,
    env: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    arguments: Sequence[str] = (),
) -> None:
    """Run the C++ tests of a build directory into a row."""
    command = [*prefix, directory / "hflush_cpp_tests", *arguments]
    log = f"cpp-{directory.name}"
    title = f"hflush_cpp_tests ({directory.name})"
    try:
        output = step(title, command, log=log, env=env, timeout_s=CPP_TIMEOUT_S)
    except StepFailed as failure:
        add_doctest(row, failure.output)
        if not row.failed:
            raise
    else:
        add_doctest(row, output)


def _python_tests(row: Row, name: str, extra: Sequence[str]) -> None:
    report = BUILD / "test" / f"{name}.xml"
    report.unlink(missing_ok=True)
    patterns = FILES.get(name, (name,))
    where = sorted(found for each in patterns for found in (ROOT / "tests").glob(each))
    own = [f"--junitxml={report}", *ARGUMENTS.get(name, ())]
    if name in PYTHON_PARTS and not extra:
        _conformance("begin", name, title=f"proofs of {name}")
        own.append(f"--conformance={BUILD / 'conformance' / f'{name}.json'}")
    command = [PYTHON, "-m", "pytest", *where, *own, *extra]
    limit = {**PYTHON_PARTS, **DAILY_PARTS, **SLOW_PYTHON_PARTS}[name]
    code = stream(command, env=environment.variables(), timeout_s=limit)
    if code == 5 and extra:
        code = 0  # the caller's own selection took nothing from this part
    add_junit(row, report, code)


def _conformance(*words: str, title: str) -> None:
    tool = ROOT / "tools" / "conformance.py"
    step(title, [PYTHON, tool, *words], log="conformance", env=environment.variables())
