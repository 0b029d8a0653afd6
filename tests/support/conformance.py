"""pytest plugin: which rule of the contract is covered, on which store, by which test, and how.

Markers
    @pytest.mark.rule("HFLUSH-3", "CONSIST-8")   the rules of tests/contract/rules.json it proves
    @pytest.mark.stores("raw")                   the stores it proves them for

A rule *holds* where its test passes, unless the marker says what else the test shows there; each
word takes a store, or several:
    rule("HFLUSH-1", refused=("crc", "s3"))      the operation is refused, as the store declares
    rule("RENAME-14", divergence="s3")           what the store does instead, as it declares
    rule("HDFS-10", today="hdfs")                what happens until the promise is kept
    rule("RENAME-15", on=("raw", "hdfs"))        on its other stores the test shows nothing of it
A test may have several such markers, for rules that fare differently.

A test that takes the fixture `store` runs once per store, or only on those that `stores` names, and
counts for the one it ran on. The values of its other parameters may be marked, too, as being for
some stores only. With the fixture `faults` it runs on local stores only. A marked test without that
fixture counts for the stores that `stores` names, and must name them.

With --conformance=FILE, which only ./dev gives, the outcomes of a run of one part of the suite go
to FILE as its "tests": {"<test id>": {"claims": {"<rule>": {"<store>": "holds|refused|divergence|
today"}}, "outcome": "passed|failed|skipped"}}. tools/conformance.py began that file, and checks it;
a second run, of those that failed, replaces their outcomes.
With --claims=FILE the "claims" of each collected test go to FILE: {"<test id>": {…}}.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
RULES = REPOSITORY / "tests" / "contract" / "rules.json"
STORES = ("raw", "crc", "hdfs", "s3")
BUILT = ("mem",)  # for the contract suite alone (docs/new-store.md): what it shows is in no column
PROPERTY = "conformance"
WORDS = ("refused", "divergence", "today")  # what else than "holds" a test may show

Claims = dict[str, dict[str, str]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--conformance", type=Path, help="the file that ./dev collects outcomes in")
    parser.addoption("--claims", type=Path, help="the file for what the collected tests claim")


def pytest_configure(config: pytest.Config) -> None:
    what = "rule(*ids, refused=, divergence=, today=, on=): the contract rules that the test proves"
    config.addinivalue_line("markers", what)
    config.addinivalue_line("markers", "stores(*names): the stores a test runs on or speaks for")
    path = config.getoption("--conformance")
    if path is not None:
        config.pluginmanager.register(Recorder(path))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store" in metafunc.fixturenames:
        from support.stores import STORES

        named = metafunc.definition.get_closest_marker("stores")
        names = [name for name in STORES if named is None or name in named.args]
        if "faults" in metafunc.fixturenames:  # the shim is below local files
            names = [name for name in names if STORES[name].local]
        if metafunc.definition.path.parent != RULES.parent:
            names = [name for name in names if name not in BUILT]
        metafunc.parametrize("store", names, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if _parameters_fit(item)]
    known = {rule["id"] for rule in json.loads(RULES.read_text(encoding="utf-8"))}
    for item in items:
        claims = claims_of(item)
        unknown = sorted(set(claims) - known)
        if unknown:
            raise pytest.UsageError(f"{item.nodeid}: no such rule: {', '.join(unknown)}")
        if claims:
            item.user_properties.append((PROPERTY, claims))


def pytest_collection_finish(session: pytest.Session) -> None:
    path = session.config.getoption("--claims")
    if path is not None:
        claimed = {item.nodeid: claims for item in session.items if (claims := claims_of(item))}
        path.write_text(json.dumps(claimed, indent=1, sort_keys=True), encoding="utf-8")


def _parameters_fit(item: pytest.Item) -> bool:
    """Whether the store of a test is among those that the values of its parameters are for."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or "store" not in callspec.params:
        return True
    marks = [mark for mark in callspec.marks if mark.name == "stores"]
    return all(callspec.params["store"] in mark.args for mark in marks)


def claims_of(item: pytest.Item) -> Claims:
    """Return what a test shows of each of its rules, on each store that it speaks for."""
    claims: Claims = {}
    for marker in item.iter_markers("rule"):
        said = _said(item, marker)
        stores = [name for name in stores_of(item) if name in said and name not in BUILT]
        for rule in marker.args:
            of_rule = claims.setdefault(rule, {})
            for store in stores:
                if of_rule.setdefault(store, said[store]) != said[store]:
                    raise pytest.UsageError(
                        f"{item.nodeid}: {rule} on {store} is both {of_rule[store]} and "
                        f"{said[store]}"
                    )
    return {rule: stores for rule, stores in sorted(claims.items()) if stores}


def _said(item: pytest.Item, marker: pytest.Mark) -> dict[str, str]:
    """Return what one marker says of each store."""
    words = {word: _names(names) for word, names in marker.kwargs.items()}
    said = dict.fromkeys(words.pop("on", STORES), "holds")
    for word, names in words.items():
        if word not in WORDS:
            raise pytest.UsageError(f"{item.nodeid}: rule() knows no {word}: {', '.join(WORDS)}")
        said |= dict.fromkeys(names, word)
    wrong = [name for name in said if name not in (*STORES, *BUILT)]
    if wrong:
        raise pytest.UsageError(f"{item.nodeid}: no such store: {', '.join(wrong)}")
    return said


def _names(names: str | Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def stores_of(item: pytest.Item) -> list[str]:
    """Return the stores that a test speaks for. Raises UsageError where it does not say."""
    found = named_stores(item)
    if found is None:
        raise pytest.UsageError(f"{item.nodeid}: a rule needs the fixture or the marker of stores")
    return found


def named_stores(item: pytest.Item) -> list[str] | None:
    """Return the stores that a test names by its fixture or marker; None if it names none."""
    callspec = getattr(item, "callspec", None)
    if callspec is not None and "store" in callspec.params:
        return [callspec.params["store"]]
    named = item.get_closest_marker("stores")
    return None if named is None else list(named.args)


class Recorder:
    """Collects the outcomes of marked tests, and adds them to the file of a run that ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties: dict[str, Any] = dict(report.user_properties)
        claims = properties.get(PROPERTY)
        if claims is None:
            return
        outcomes = (self._tests.get(report.nodeid, {}).get("outcome"), report.outcome)
        self._tests[report.nodeid] = {"claims": claims, "outcome": worst(outcomes)}

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if not ended or session.shouldstop or session.shouldfail:
            return
        begun = json.loads(self._path.read_text(encoding="utf-8"))
        tests = {**(begun["tests"] or {}), **self._tests}
        text = json.dumps({**begun, "tests": tests}, indent=1, sort_keys=True)
        self._path.write_text(text, encoding="utf-8")


def worst(outcomes: Iterable[str | None]) -> str:
    """Return the outcome of a test from those of its phases."""
    seen = set(outcomes)
    return next(outcome for outcome in ("failed", "skipped", "passed") if outcome in seen)
