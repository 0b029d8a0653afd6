"""docs/hadoop-tests.md: the tests that it names are there, and so are the rules."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "hadoop-tests.md"
RULES = TESTS / "contract" / "rules.json"
PYTHON_TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
CPP_TEST = re.compile(r'`([\w/]+\.cc)`: "([^"]+)"')
NO_MEANING = "No meaning for a client: "


class Case(NamedTuple):
    """A row of the page: a method of one of Hadoop's classes."""

    method: str
    meaning: str
    rules: tuple[str, ...]
    tests: str


def cases() -> dict[str, list[Case]]:
    """Return the rows of each class."""
    found: dict[str, list[Case]] = {}
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, *lines = section.splitlines()
        rows = [line.strip("|").split("|") for line in lines if line.startswith("| `")]
        if rows:
            found[title] = [
                Case(method.strip().strip("`"), meaning.strip(), rules_in(rules), tests.strip())
                for method, meaning, rules, tests in rows
            ]
    return found


def rules_in(cell: str) -> tuple[str, ...]:
    return tuple(rule.strip() for rule in cell.split(",") if rule.strip())


@cache
def cpp_tests(file: str) -> frozenset[str]:
    """Return the names of the test cases that a C++ file has."""
    path = TESTS / file
    source = path.read_text(encoding="utf-8") if path.exists() else ""
    return frozenset(re.findall(r'TEST_CASE\(\s*"([^"]+)"', source))


@cache
def functions(file: str) -> frozenset[str]:
    """Return the names of the tests that a Python file has."""
    path = TESTS / file
    if not path.exists():
        return frozenset()
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef))


CLASSES = cases()
KNOWN = {rule["id"] for rule in json.loads(RULES.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("name", CLASSES)
def test_the_cases_of_a_class_are_held_by_tests_that_are_there(name: str) -> None:
    """Each row names tests and the rules that they hold to, or says why there are none."""
    assert {case.method: wrong for case in CLASSES[name] if (wrong := problems(case))} == {}


def problems(case: Case) -> list[str]:
    """Return what is wrong with a row."""
    if case.meaning.startswith(NO_MEANING):
        return ["rules or tests of a case without a meaning"] if case.rules or case.tests else []
    python, cpp = PYTHON_TEST.findall(case.tests), CPP_TEST.findall(case.tests)
    rest = CPP_TEST.sub("", PYTHON_TEST.sub("", case.tests)).replace(",", "").strip()
    return [
        *(["no test"] if not python and not cpp else []),
        *([f"not a test: {rest}"] if rest else []),
        *(f"no {name} in {file}" for file, name in python if name not in functions(file)),
        *(f"no {name!r} in {file}" for file, name in cpp if name not in cpp_tests(file)),
        *(["no rule"] if not case.rules else []),
        *(f"no rule {rule}" for rule in case.rules if rule not in KNOWN),
    ]


def test_no_method_is_there_twice() -> None:
    assert len(CLASSES) == 20
    for rows in CLASSES.values():
        methods = [case.method for case in rows]
        assert sorted(methods) == sorted(set(methods))
