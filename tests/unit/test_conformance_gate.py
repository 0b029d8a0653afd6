"""The gate itself (tools/conformance.py): a promise counts as proven only by a test that passed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "conformance.py"
RULES = [
    {
        "id": f"TEST-{declared}",
        "level": "MUST",
        "requirement": "something",
        "stores": {"raw": declared, "crc": "-", "hdfs": "-", "s3": "-"},
        "source": "",
    }
    for declared in "YND"
]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    specification = importlib.util.spec_from_file_location("conformance_tool", TOOL)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


def result(outcome: str, *stores: str) -> dict[str, Any]:
    return {"rules": [rule["id"] for rule in RULES], "stores": list(stores), "outcome": outcome}


def verdicts(tool: ModuleType, *results: dict[str, Any]) -> list[str]:
    named = {f"tests/test_x.py::test_{number}": each for number, each in enumerate(results)}
    conformance = tool.Conformance(RULES, named)
    return [conformance.cell(rule, "raw").verdict for rule in RULES]


def test_a_passing_test_proves_what_the_matrix_declares(tool: ModuleType) -> None:
    """Y holds, N is refused as declared, D is a declared divergence."""
    proven = ["holds", "refused as declared", "declared divergence"]
    assert verdicts(tool, result("passed", "raw")) == proven
    assert verdicts(tool, result("passed", "raw", "crc"), result("skipped", "raw")) == proven


def test_nothing_else_proves_it(tool: ModuleType) -> None:
    """No test, a skipped one, or one of another store leaves every promise unproven."""
    for results in ([], [result("skipped", "raw")], [result("passed", "crc")]):
        assert verdicts(tool, *results) == ["NOT PROVEN"] * 3


def test_a_failure_outweighs_successes(tool: ModuleType) -> None:
    """One failing test of a rule is enough."""
    results = [result("passed", "raw"), result("failed", "raw"), result("passed", "raw")]
    assert verdicts(tool, *results) == ["FAILS"] * 3


def test_unproven_promises_fail_the_check(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """check returns 1 and names rule and store; with all proven it returns 0."""
    for results, status in (({}, 1), ({"tests/test_x.py::test": result("passed", "raw")}, 0)):
        conformance = tool.Conformance(RULES, results)
        monkeypatch.setattr(tool.Conformance, "load", classmethod(lambda _, it=conformance: it))
        assert tool.check() == status
        assert ("TEST-N" in capsys.readouterr().out) is (status == 1)


def test_page_shows_every_rule_and_links_its_tests(tool: ModuleType) -> None:
    """The page has a summary, a row per rule, and links."""
    results = {"tests/contract/test_x.py::test[raw]": result("passed", "raw")}
    lines = list(tool.page(tool.Conformance(RULES, results)))
    row = next(line for line in lines if line.startswith("| TEST-N "))
    assert "| refused as declared | not applicable | not applicable | not applicable |" in row
    assert "[test_x](../tests/contract/test_x.py)" in row
    assert "| holds | 1 | 0 | 0 | 0 |" in lines


def test_what_is_not_yet_kept_is_listed_with_its_reason(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listed promise is "not yet", whatever passes; a test of it that fails still fails."""
    monkeypatch.setattr(tool, "NOT_YET", {("TEST-Y", "raw"): ("recovery", "a part")})
    for outcome, verdict in (("passed", "not yet: recovery"), ("failed", "FAILS")):
        assert verdicts(tool, result(outcome, "raw"))[0] == verdict
    assert verdicts(tool)[0] == "not yet: recovery"
    page = list(tool.page(tool.Conformance(RULES, {})))
    assert "| TEST-Y | raw | recovery | a part |" in page


def test_the_list_of_what_is_not_yet_kept_names_promises(tool: ModuleType) -> None:
    """Each entry is a promise, and says what is missing."""
    import json

    rules = {rule["id"]: rule for rule in json.loads(tool.RULES.read_text(encoding="utf-8"))}
    for (identity, store), (what, missing) in tool.NOT_YET.items():
        assert store in tool.STORES
        assert rules[identity]["stores"][store] in "YD"
        assert what
        assert missing


def test_matrix_is_complete(tool: ModuleType) -> None:
    """The matrix in the repository has unique rules with a known letter for every store."""
    import json

    rules = json.loads(tool.RULES.read_text(encoding="utf-8"))
    assert len(rules) == len({rule["id"] for rule in rules}) == 473
    assert {letter for rule in rules for letter in rule["stores"].values()} == set("YND-")
    assert all(rule["requirement"] and tuple(rule["stores"]) == tool.STORES for rule in rules)
