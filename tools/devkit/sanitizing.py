"""./dev sanitize: C++ tests, and tests of threads and recovery, under the sanitizers; fuzzers."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from devkit import environment, fuzzing, machine, native
from devkit.building import build
from devkit.console import StepFailed, say, side_by_side, step
from devkit.outcome import Row, add_junit, checked, summarize, timed
from devkit.paths import BUILD, PACKAGE, PYTHON, ROOT

FULL_TIMEOUT_S = 1800
BOUNDED_TIMEOUT_S = 360
RECOVERY_TIMEOUT_S = 3600
PATIENCE = "4"  # of tests: an instrumented core is slower
BOUNDED_SEEDS = "100"  # of each simulation among the C++ tests, which have some hundreds


@dataclass(frozen=True)
class Sanitizer:
    """A preset, the runtime that a plain interpreter must load first, and its options."""

    preset: str
    compiler: str
    runtime: str
    variable: str
    options: str


FUZZ = "fuzz"
SANITIZERS = ("address", "thread", FUZZ)  # `undefined` is built together with `address`
_KINDS = {
    # CPython never frees what lives as long as the process.
    "address": Sanitizer(
        "asan",
        "clang++",
        f"libclang_rt.asan-{platform.machine()}.so",
        "ASAN_OPTIONS",
        "detect_leaks=0",
    ),
    "thread": Sanitizer(
        "tsan",
        "g++",
        "libtsan.so",
        "TSAN_OPTIONS",
        # The interpreter is not instrumented: only what our code does counts. A child of a
        # process with threads may start threads of its own: hflush promises that.
        "ignore_noninstrumented_modules=1:second_deadlock_stack=1:die_after_fork=0",
    ),
}
_KINDS["undefined"] = _KINDS["address"]


def sanitize(kinds: Iterable[str], *, bounded: bool) -> int:
    """Run these sanitizers, or all; return the exit code."""
    return summarize(rows(list(kinds) or SANITIZERS, bounded=bounded))


def rows(kinds: Iterable[str], *, bounded: bool) -> list[Row]:
    wanted = list(kinds)
    machine.require(machine.FOR_CHECKS)
    chosen = dict.fromkeys(_KINDS[kind] for kind in wanted if kind != FUZZ)
    builds = {sanitizer: _build_row(sanitizer) for sanitizer in chosen}
    built = [sanitizer for sanitizer, row in builds.items() if not row.failed]
    rows = [*builds.values()]
    # A C++ test keeps one processor busy, or none.
    rows += side_by_side(partial(_cpp_row, bounded=bounded), built)
    rows += side_by_side(partial(_threads_row, bounded=bounded), built)
    rows += side_by_side(_recovery_row, built)
    return rows + ([fuzzing.row(bounded=bounded)] if FUZZ in wanted else [])


def _build_row(sanitizer: Sanitizer) -> Row:
    work = partial(build, sanitizer.preset, "hflush_cpp_tests", "_core")
    return checked(f"{sanitizer.preset} build", work)


def _cpp_row(sanitizer: Sanitizer, bounded: bool) -> Row:
    work = partial(_cpp, sanitizer=sanitizer, bounded=bounded)
    return timed(f"{sanitizer.preset} cpp", work)


def _threads_row(sanitizer: Sanitizer, bounded: bool) -> Row:
    work = partial(_threads, sanitizer=sanitizer, bounded=bounded)
    return timed(f"{sanitizer.preset} threads", work)


def _recovery_row(sanitizer: Sanitizer) -> Row:
    return timed(f"{sanitizer.preset} recovery", partial(_recovery, sanitizer=sanitizer))


def _cpp(row: Row, sanitizer: Sanitizer, bounded: bool) -> None:
    directory = BUILD / sanitizer.preset
    env = {"UBSAN_OPTIONS": "print_stacktrace=1"}
    if bounded:
        env["HFLUSH_SIMULATION_SEEDS"] = BOUNDED_SEEDS
    native.cpp_tests(row, directory, env, _fixed_addresses())


def _threads(row: Row, sanitizer: Sanitizer, bounded: bool) -> None:
    """tests/threads."""
    arguments = ["tests/threads"]
    if bounded:
        # The streams are the same on every store, and other sinks have C++ tests of their own.
        # What S3 does with Python's bytes has one here, which needs no store (test_references.py).
        arguments += ["-m", "not slow and not hdfs and not s3"]
    limit_s = BOUNDED_TIMEOUT_S if bounded else FULL_TIMEOUT_S
    _python(row, sanitizer, "threads", arguments, limit_s)


def _recovery(row: Row, sanitizer: Sanitizer) -> None:
    """Pipelines of a real cluster that break; streams of S3 that are never closed."""
    names = ("test_hdfs_recovery.py", "test_hdfs_silence.py", "test_s3_abandonment.py")
    arguments = [f"tests/faults/{name}" for name in names]
    _python(row, sanitizer, "recovery", arguments, RECOVERY_TIMEOUT_S)


def _python(
    row: Row, sanitizer: Sanitizer, name: str, arguments: list[str], limit_s: float
) -> None:
    """Run tests with the instrumented extension, in an interpreter that is not."""
    directory = BUILD / sanitizer.preset
    reports = directory / f"reports-{name}"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    log = f"{name}-{sanitizer.preset}"
    junit = BUILD / "test" / f"{log}.xml"
    junit.unlink(missing_ok=True)
    command = [PYTHON, "-m", "pytest", *arguments, "-p", "no:cacheprovider"]
    command += [f"--junitxml={junit}", "-o", "timeout=1200", "-o", "faulthandler_timeout=1100"]
    env = {
        **environment.variables(),
        "HFLUSH_TEST_PATIENCE": PATIENCE,
        sanitizer.variable: f"{sanitizer.options}:log_path={reports}/report",
        "LD_PRELOAD": " ".join(
            _library(sanitizer.compiler, file) for file in (sanitizer.runtime, "libstdc++.so.6")
        ),
        "PYTHONPATH": str(_site(directory)),
    }
    code = 0
    try:
        step(
            f"{name} ({sanitizer.preset})",
            [*_fixed_addresses(), *command],
            log=log,
            env=env,
            timeout_s=limit_s,
        )
    except StepFailed as failure:
        code = failure.code
    add_junit(row, junit, code)
    for report in sorted(reports.iterdir()):
        say(report.read_text(errors="replace"))
        row.fail(f"a report in {report.relative_to(ROOT)}")


def _site(directory: Path) -> Path:
    """A package whose Python sources are ours and whose extension is the instrumented one."""
    package = directory / "site" / "hflush"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    for source in PACKAGE.iterdir():
        if source.suffix != ".so":
            (package / source.name).symlink_to(source)
    for module in directory.glob("_core*.so"):
        (package / module.name).symlink_to(module)
    return package.parent


def _library(compiler: str, name: str) -> str:
    found = subprocess.run(
        [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    return str(Path(found.stdout.strip()).resolve())


def _fixed_addresses() -> list[str]:
    """The thread sanitizer of g++ 12 does not know the address layout of newer kernels."""
    if shutil.which("setarch") is None:
        return []
    prefix = ["setarch", platform.machine(), "-R"]
    tried = subprocess.run([*prefix, "true"], check=False, capture_output=True)
    return prefix if tried.returncode == 0 else []
