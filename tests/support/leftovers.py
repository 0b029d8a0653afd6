"""pytest plugin: what a failed test leaves open ends with it, and fails no other test.

The traceback of a failure keeps the test's variables, and so its streams and file systems, until
another test runs; their warnings would then fail that one. Here they are released when the test
has been torn down, and what they complain of is a section of its own report.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Generator, Iterator
from typing import Any

import pytest

_FAILURES = pytest.StashKey[list[BaseException]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and call.excinfo is not None:
        item.stash.setdefault(_FAILURES, []).append(call.excinfo.value)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    try:
        return (yield)
    finally:
        if failures := item.stash.get(_FAILURES, []):
            _release(item, failures)


def _release(item: pytest.Item, failures: list[BaseException]) -> None:
    complaints: list[str] = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda raised: complaints.append(repr(raised.exc_value))
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            while failures:
                for error in _with_causes(failures.pop()):
                    error.__traceback__ = None
            for name in ("last_exc", "last_value", "last_traceback"):
                if hasattr(sys, name):
                    delattr(sys, name)
            gc.collect()
    finally:
        sys.unraisablehook = before
    complaints += [str(each.message) for each in warned]
    if complaints:
        item.add_report_section("teardown", "left open", "\n".join(complaints))


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """The exception, and those that it was raised from or beside."""
    seen: list[BaseException] = []
    pending: list[BaseException | None] = [error]
    while pending:
        each = pending.pop()
        if each is not None and each not in seen:
            seen.append(each)
            pending += [each.__cause__, each.__context__]
    return iter(seen)
