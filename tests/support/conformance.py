"""pytest plugin: which rule of the contract is covered, on which store, by which test.

Markers
    @pytest.mark.rule("HFLUSH-3", "CONSIST-8")   the rules of tests/contract/rules.json it proves
    @pytest.mark.stores("raw")                   the stores it proves them for

A test that takes the fixture `store` runs once per store, or only on those that `stores` names, and
counts for the one it ran on. The values of its other parameters may be marked, too, as being for
some stores only. With the fixture `faults` it runs on local stores only. A marked test without that
fixture counts for the stores that `stores` names, and must name them. Where the matrix says N, the
test that runs there is the proof of the refusal: what a test asserts on a store is what the
contract promises there, so there is no second marker.

Outcomes go to build/conformance.json, merged with what is there (one `./dev test` is several pytest
runs): {"<test id>": {"rules": [...], "stores": [...], "outcome": "passed|failed|skipped"}}.
tools/conformance.py checks and renders that file.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
RULES = REPOSITORY / "tests" / "contract" / "rules.json"
RESULTS = REPOSITORY / "build" / "conformance.json"
PROPERTY = "conformance"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "rule(*ids): the contract rules that the test proves")
    config.addinivalue_line("markers", "stores(*names): the stores a test runs on or speaks for")
    is_controller = not hasattr(config, "workerinput")  # under pytest-xdist only that one records
    if is_controller and config.getoption("--s3-server") == "minio":
        config.pluginmanager.register(Recorder())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store" in metafunc.fixturenames:
        from support.stores import STORES

        named = metafunc.definition.get_closest_marker("stores")
        names = [name for name in STORES if named is None or name in named.args]
        if "faults" in metafunc.fixturenames:  # the shim is below local files
            names = [name for name in names if STORES[name].local]
        metafunc.parametrize("store", names, indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if _parameters_fit(item)]
    known = {rule["id"] for rule in json.loads(RULES.read_text(encoding="utf-8"))}
    for item in items:
        rules = sorted({name for marker in item.iter_markers("rule") for name in marker.args})
        if not rules:
            continue
        unknown = [rule for rule in rules if rule not in known]
        if unknown:
            raise pytest.UsageError(f"{item.nodeid}: no such rule: {', '.join(unknown)}")
        item.user_properties.append((PROPERTY, {"rules": rules, "stores": stores_of(item)}))


def _parameters_fit(item: pytest.Item) -> bool:
    """Whether the store of a test is among those that the values of its parameters are for."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or "store" not in callspec.params:
        return True
    marks = [mark for mark in callspec.marks if mark.name == "stores"]
    return all(callspec.params["store"] in mark.args for mark in marks)


def stores_of(item: pytest.Item) -> list[str]:
    """Return the stores that a marked test speaks for."""
    callspec = getattr(item, "callspec", None)
    if callspec is not None and "store" in callspec.params:
        return [callspec.params["store"]]
    named = item.get_closest_marker("stores")
    if named is None:
        raise pytest.UsageError(f"{item.nodeid}: a rule needs the fixture or the marker of stores")
    return list(named.args)


class Recorder:
    """Collects the outcomes of marked tests and merges them into the results file."""

    def __init__(self) -> None:
        self._results: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties: dict[str, Any] = dict(report.user_properties)
        covered = properties.get(PROPERTY)
        if covered is None:
            return
        outcomes = (self._results.get(report.nodeid, {}).get("outcome"), report.outcome)
        self._results[report.nodeid] = {**covered, "outcome": worst(outcomes)}

    def pytest_sessionfinish(self) -> None:
        if not self._results:
            return
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        with RESULTS.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # runs side by side add to one another
            file.seek(0)
            text = file.read()
            merged = {**json.loads(text or "{}"), **self._results}
            file.truncate(0)
            json.dump(merged, file, indent=1, sort_keys=True)


def worst(outcomes: Iterable[str | None]) -> str:
    """Return the outcome of a test from those of its phases."""
    seen = set(outcomes)
    return next(outcome for outcome in ("failed", "skipped", "passed") if outcome in seen)
