"""The C++ tests of a build directory, whichever preset and sanitizer built it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from devkit.console import StepFailed, step
from devkit.outcome import TESTS_FAILED, Row, add_doctest
from devkit.patience import PATIENCE

TIMEOUT_S = 900


def cpp_tests(
    row: Row,
    directory: Path,
    env: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    names: Sequence[str] = (),
) -> None:
    """Run the C++ tests, or those of these names, into a row."""
    command = [*prefix, directory / "hflush_cpp_tests"]
    if names:
        command.append("--test-case=" + ",".join(name.replace(",", "\\,") for name in names))
    title = f"hflush_cpp_tests ({directory.name})"
    log = f"cpp-{directory.name}" + ("-again" if names else "")
    try:
        output = step(title, command, log=log, env=env, timeout_s=TIMEOUT_S * PATIENCE)
    except StepFailed as failure:
        add_doctest(row, failure.output)
        row.ended_early = failure.code != TESTS_FAILED
        if row.ended_early or not row.failed:
            raise
    else:
        add_doctest(row, output)
