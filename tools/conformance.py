#!/usr/bin/env python3
"""The rule matrix against what the tests proved.

    tools/conformance.py import-rules CONTRACT   make tests/contract/rules.json from its tables
    tools/conformance.py reset                   forget the outcomes of earlier test runs
    tools/conformance.py check                   exit 1 unless every promise of a store is proven
    tools/conformance.py render                  write docs/conformance.md

The outcomes are in build/conformance.json, from the pytest plugin tests/support/conformance.py. A
rule is proven on a store if at least one test of the rule passed there and none failed. What is
promised and not kept yet is in the table NOT_YET below, with the reason.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
RULES = REPOSITORY / "tests" / "contract" / "rules.json"
RESULTS = REPOSITORY / "build" / "conformance.json"
PAGE = REPOSITORY / "docs" / "conformance.md"

STORES = ("raw", "crc", "hdfs", "s3")
PROVEN = {"Y": "holds", "N": "refused as declared", "D": "declared divergence"}
UNPROVEN = ("NOT PROVEN", "FAILS")

# Rules that no test on one machine can show, with the reason; each is rendered as such.
UNTESTABLE: dict[str, str] = {}

# Promises that are not kept yet: (rule, store), what they wait for, and what is missing. Until
# pipelines recover, the failure of one of their nodes is a clean error of the stream.
NOT_YET: dict[tuple[str, str], tuple[str, str]] = {
    ("HDFS-10", "hdfs"): ("recovery", "a pipeline is not rebuilt with the nodes that are left"),
    ("HSYNC-17", "hdfs"): ("END_BLOCK", "nobody can ask for it; NEW_BLOCK of append ends a block"),
}


@dataclass(frozen=True)
class Cell:
    """What is known of one rule on one store."""

    verdict: str
    tests: tuple[str, ...] = ()

    @property
    def unproven(self) -> bool:
        return self.verdict in UNPROVEN


class Conformance:
    """The matrix, with the outcome of every cell."""

    def __init__(self, rules: list[dict[str, Any]], results: dict[str, dict[str, Any]]) -> None:
        self.rules = rules
        self._tests: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        for test, result in sorted(results.items()):
            for rule in result["rules"]:
                for store in result["stores"]:
                    self._tests[rule, store].append((test, result["outcome"]))

    @classmethod
    def load(cls) -> Conformance:
        if not RESULTS.exists():
            sys.exit(f"{RESULTS} is missing: run the tests first")
        return cls(json.loads(RULES.read_text("utf-8")), json.loads(RESULTS.read_text("utf-8")))

    def cell(self, rule: dict[str, Any], store: str) -> Cell:
        declared = rule["stores"][store]
        if declared == "-":
            return Cell("not applicable")
        if rule["id"] in UNTESTABLE:
            return Cell("not testable here")
        tests = self._tests[rule["id"], store]
        passed = tuple(test for test, outcome in tests if outcome == "passed")
        failed = tuple(test for test, outcome in tests if outcome == "failed")
        if failed:
            return Cell("FAILS", failed)
        if (rule["id"], store) in NOT_YET:
            return Cell(f"not yet: {NOT_YET[rule['id'], store][0]}", passed)
        return Cell(PROVEN[declared], passed) if passed else Cell("NOT PROVEN")

    def unproven(self) -> Iterator[tuple[dict[str, Any], str, Cell]]:
        for rule in self.rules:
            for store in STORES:
                cell = self.cell(rule, store)
                if cell.unproven:
                    yield rule, store, cell


def import_rules(contract: Path) -> None:
    rules = []
    for line in contract.read_text("utf-8").splitlines():
        if not re.match(r"\| [A-Z]+-\d+ \| (MUST|SHOULD|MAY)", line):
            continue
        identity, level, requirement, _, *columns, source = table_cells(line)
        rules.append(
            {
                "id": identity,
                "level": level,
                "requirement": shortened(requirement),
                "stores": dict(zip(STORES, columns, strict=True)),
                "source": source,
            }
        )
    lines = ",\n".join(json.dumps(rule, ensure_ascii=False) for rule in rules)
    RULES.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(rules)} rules in {RULES.relative_to(REPOSITORY)}")


def table_cells(line: str) -> list[str]:
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
    return ["-" if cell == "\N{EN DASH}" else cell for cell in cells]


def shortened(requirement: str, width: int = 200) -> str:
    """Return the first sentence, cut at a word if it is very long."""
    sentence = re.split(r"(?<=[a-z0-9`)\]*])\. (?=[A-Z`*(])", requirement, maxsplit=1)[0]
    sentence = sentence.rstrip(".")
    if len(sentence) <= width:
        return sentence
    cut = sentence[:width].rsplit(" ", 1)[0]
    return cut + ("`" if cut.count("`") % 2 else "") + " …"


def reset() -> None:
    RESULTS.unlink(missing_ok=True)


def check() -> int:
    conformance = Conformance.load()
    unproven = list(conformance.unproven())
    for rule, store, cell in unproven:
        evidence = f" ({shown(cell.tests)})" if cell.tests else ""
        print(f"{rule['id']:<12} {store:<5} {cell.verdict}: {rule['requirement']}{evidence}")
    promises = sum(rule["stores"][store] != "-" for rule in conformance.rules for store in STORES)
    where = " and ".join(STORES)
    print(f"conformance: {promises - len(unproven)} of {promises} promises proven on {where}")
    return 1 if unproven else 0


def shown(tests: tuple[str, ...], most: int = 3) -> str:
    listed = list(tests[:most]) + ([f"{len(tests) - most} more"] if len(tests) > most else [])
    return ", ".join(listed)


def render() -> None:
    conformance = Conformance.load()
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join(page(conformance)) + "\n", encoding="utf-8")
    print(f"wrote {PAGE.relative_to(REPOSITORY)}")


def page(conformance: Conformance) -> Iterator[str]:
    yield "# Conformance"
    yield ""
    yield "Generated by `tools/conformance.py render` from the last full `./dev test`; do not edit."
    yield ""
    yield "Every rule of the contract, and what the tests proved of it on each store: it *holds*,"
    yield "the operation is *refused as declared* (probe and exception agree), or the store's"
    yield "*declared divergence* was found. A promise of a store without a passing test fails"
    yield "`./dev test`, unless it is *not yet* kept for a reason that is given below."
    yield ""
    yield from summary(conformance)
    if UNTESTABLE:
        yield ""
        yield "## Rules that no test on one machine can show"
        yield ""
        yield "| Rule | Reason |"
        yield "|---|---|"
        for identity, reason in UNTESTABLE.items():
            yield f"| {identity} | {reason} |"
    if NOT_YET:
        yield ""
        yield "## Not yet"
        yield ""
        yield row("Rule", "Store", "Waits for", "What is missing")
        yield "|---|---|---|---|"
        for (identity, store), (what, missing) in NOT_YET.items():
            yield row(identity, store, what, missing)
    for family, rules in families(conformance).items():
        yield ""
        yield f"## {family}"
        yield ""
        yield row("Rule", "Level", "Requirement", *STORES, "Tests")
        yield "|---|---|---|" + "---|" * (len(STORES) + 1)
        for rule in rules:
            cells = [conformance.cell(rule, store) for store in STORES]
            verdicts = (cell.verdict for cell in cells)
            yield row(rule["id"], rule["level"], rule["requirement"], *verdicts, links(cells))


def summary(conformance: Conformance) -> Iterator[str]:
    verdicts = [
        *PROVEN.values(),
        "not testable here",
        *dict.fromkeys(f"not yet: {what}" for what, _ in NOT_YET.values()),
        *UNPROVEN,
        "not applicable",
    ]
    counts = {
        store: Counter(conformance.cell(rule, store).verdict for rule in conformance.rules)
        for store in STORES
    }
    yield row("", *STORES)
    yield "|---|" + "---:|" * len(STORES)
    for verdict in verdicts:
        if any(counts[store][verdict] for store in STORES):
            yield row(verdict, *(counts[store][verdict] for store in STORES))
    yield row("**rules**", *(len(conformance.rules) for _ in STORES))


def row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def families(conformance: Conformance) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for rule in conformance.rules:
        grouped[rule["id"].split("-")[0]].append(rule)
    return grouped


def links(cells: list[Cell]) -> str:
    files = sorted({Path(test.split("::")[0]) for cell in cells for test in cell.tests})
    return ", ".join(f"[{file.stem}](../{file.as_posix()})" for file in files)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("import-rules").add_argument("contract", type=Path)
    for name in ("reset", "check", "render"):
        commands.add_parser(name)
    arguments = parser.parse_args()
    if arguments.command == "import-rules":
        import_rules(arguments.contract)
    elif arguments.command == "reset":
        reset()
    elif arguments.command == "render":
        render()
    else:
        return check()
    return 0


if __name__ == "__main__":
    sys.exit(main())
