#!/usr/bin/env python3
"""The rule matrix against what the tests proved.

    tools/conformance.py import-rules CONTRACT   make tests/contract/rules.json from its tables
    tools/conformance.py begin PART              forget a part's outcomes; name what it will run on
    tools/conformance.py claims FILE             exit 1 unless every promise of a store has a test
                                                 that claims it, and no test claims anything else:
                                                 FILE is of pytest --collect-only --claims=FILE
    tools/conformance.py check                   exit 1 unless a full run proved every promise
    tools/conformance.py render                  write docs/conformance.md from a full run
    tools/conformance.py sources [COMMIT]        the digest of the sources, as the page names it

`./dev test full` begins each part, and the pytest plugin tests/support/conformance.py adds what
each test claims, and its outcome. All parts together, each on what it looks at as it is now, are a
full run: nothing else is checked or rendered. The page names its commit, and may be older than the
sources: what is held without a run is the claims.

A promise is kept on a store if a test that passed shows what the matrix declares there (Y: it
holds, N: it is refused, D: the declared divergence), none failed, and none claims anything else.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devkit import changes, sources
from devkit.parts import OF_FULL

REPOSITORY = Path(__file__).resolve().parents[1]
RULES = REPOSITORY / "tests" / "contract" / "rules.json"
RESULTS = REPOSITORY / "build" / "conformance"
PAGE = REPOSITORY / "docs" / "conformance.md"

STORES = ("raw", "crc", "hdfs", "s3")
DECLARED = {"Y": "holds", "N": "refused", "D": "divergence"}
PROVEN = {
    "holds": "holds",
    "refused": "refused as declared",
    "divergence": "declared divergence",
}
UNPROVEN = ("NOT PROVEN", "FAILS", "MISLABELLED")
TODAY = "today"

# Promises that are not kept yet: (rule, store), what they wait for, and what is missing. A test
# shows what happens until then, rule(…, today=…).
NOT_YET: dict[tuple[str, str], tuple[str, str]] = {}

# Where a store does something else than the matrix declares: (rule, store), what its tests show
# (a key of PROVEN), and why.
OTHERWISE: dict[tuple[str, str], tuple[str, str]] = {
    **{
        (rule, "s3"): ("holds", "stores are consistent by now, and no absence is remembered here")
        for rule in ("DELETE-6", "RENAME-15", "STATUS-9", "CONSIST-3", "CONSIST-5", "CONSIST-10")
    },
    **{
        (rule, "s3"): ("holds", "parents are looked for, unless `fs.s3a.create.performance` is set")
        for rule in ("CREATE-6", "BUILDER-4", "MKDIR-9")
    },
    ("CREATE-7", "s3"): (
        "holds",
        "files above are looked for, but not above directories that were seen within "
        "`hflush.s3.create.remember`, nor with `fs.s3a.create.performance`",
    ),
    ("ATOM-1", "s3"): (
        "holds",
        "at close, where the store checks If-None-Match; `conditional-create` says whether it does",
    ),
    ("RENAME-2", "s3"): ("holds", "FileNotFoundError"),
    ("RENAME-5", "s3"): ("holds", "it goes below, as elsewhere"),
    ("RENAME-18", "s3"): (
        "holds",
        "the copy replaces the object in one step; the source goes later",
    ),
    ("MPU-8", "s3"): ("holds", "it is looked for, though in no one step with the publication"),
    ("STATS-3", "crc"): ("holds", "a byte counts when it is written, not when its chunk is whole"),
    ("LOCAL-7", "crc"): ("divergence", "nothing moves a bad file, and no option makes it move"),
    ("HDFS-21", "hdfs"): (
        "refused",
        "there are no erasure-coded streams: create and append refuse",
    ),
    ("APPEND-18", "s3"): ("refused", "there is no append"),
    ("EXTRA-4", "s3"): ("refused", "a trash would copy every byte; versions of the bucket are one"),
    **{
        ("PATH-11", store): ("holds", "measured on the mount: on Linux names differ by case")
        for store in ("raw", "crc")
    },
}


class Refused(Exception):
    """There are no results of a full run."""


@dataclass(frozen=True)
class Cell:
    """What is known of one rule on one store."""

    verdict: str
    tests: tuple[str, ...] = ()  # those that show it, or that stand against it

    @property
    def unproven(self) -> bool:
        return self.verdict in UNPROVEN


@dataclass(frozen=True)
class Run:
    """What a full run was made on, when it ended, and its tests."""

    sources: str
    commit: str
    date: str
    tests: dict[str, dict[str, Any]]

    @classmethod
    def load(cls) -> Run:
        """Return the last run. Raises Refused if it is not whole, or not of these sources."""
        parts = {part: _part(part) for part in OF_FULL}
        wrong = [f"{name} {why}" for name, found in parts.items() if (why := _wrong(name, found))]
        if wrong:
            raise Refused(f"no full run of these sources: {'; '.join(wrong)}. Run ./dev test full")
        last = max(parts.values(), key=lambda part: str(part["date"]))
        tests = {name: test for part in parts.values() for name, test in part["tests"].items()}
        return cls(sources.digest(), last["commit"], last["date"], tests)


def _part(name: str) -> dict[str, Any]:
    """Return what is kept of a part of the suite; nothing if that is nothing."""
    try:
        kept = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _wrong(name: str, part: dict[str, Any]) -> str:
    """Return why a part does not count; nothing if it does."""
    if not part:
        return "was not run"
    if part["content"] != changes.digest(name, with_prose=False):
        return f"ran on other sources ({part['commit']}, {part['date']})"
    return "" if part["tests"] is not None else "did not end, or ran some of its tests only"


class Conformance:
    """The matrix, with the outcome of every cell."""

    def __init__(self, rules: list[dict[str, Any]], tests: Mapping[str, Mapping[str, Any]]) -> None:
        self.rules = rules
        # Of each cell the tests, with what they claim of it and their outcomes.
        self._tests: dict[tuple[str, str], list[tuple[str, str, str]]] = defaultdict(list)
        for test, result in sorted(tests.items()):
            for rule, stores in result["claims"].items():
                for store, claim in stores.items():
                    self._tests[rule, store].append((test, claim, result["outcome"]))

    @classmethod
    def of(cls, run: Run) -> Conformance:
        return cls(json.loads(RULES.read_text("utf-8")), run.tests)

    def cell(self, rule: dict[str, Any], store: str) -> Cell:
        key = (rule["id"], store)
        letter, tests = rule["stores"][store], self._tests[key]
        if letter == "-":
            strays = tuple(test for test, claim, _ in tests if claim != "holds")
            return Cell("MISLABELLED", strays) if strays else Cell("not applicable")
        failed = tuple(test for test, _, outcome in tests if outcome == "failed")
        if failed:
            return Cell("FAILS", failed)
        expected = expectation(key, letter)
        others = tuple(f"{test} says {claim}" for test, claim, _ in tests if claim != expected)
        if others:
            return Cell("MISLABELLED", others)
        if not any(outcome == "passed" for _, _, outcome in tests):
            return Cell("NOT PROVEN")
        return Cell(verdict(key, letter), tuple(test for test, _, _ in tests))

    def unproven(self) -> Iterator[tuple[dict[str, Any], str, Cell]]:
        for rule in self.rules:
            for store in STORES:
                cell = self.cell(rule, store)
                if cell.unproven:
                    yield rule, store, cell


def expectation(key: tuple[str, str], letter: str) -> str:
    """Return what the tests of a cell have to show."""
    if key in NOT_YET:
        return TODAY
    return OTHERWISE[key][0] if key in OTHERWISE else DECLARED[letter]


def verdict(key: tuple[str, str], letter: str) -> str:
    """Return the words for a cell whose tests show what they have to."""
    if key in NOT_YET:
        return f"not yet: {NOT_YET[key][0]}"
    if key not in OTHERWISE:
        return PROVEN[DECLARED[letter]]
    return OTHER_VERDICTS[OTHERWISE[key][0], letter == "Y"]


# What a store that does something else does, and whether the matrix declares that it holds.
OTHER_VERDICTS = {
    ("holds", False): "holds, more than declared",
    ("refused", True): "not kept: refused",
    ("divergence", True): "not kept: diverges",
    ("refused", False): "refused, declared to diverge",
    ("divergence", False): "diverges, declared refused",
}


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


def begin(part: str) -> None:
    """Forget what a part of the suite has proven, and name what it is about to run on."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{part}.json"
    path.unlink(missing_ok=True)
    begun = {
        "part": part,
        "content": changes.digest(part, with_prose=False),
        "commit": sources.commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "tests": None,
    }
    path.write_text(json.dumps(begun), encoding="utf-8")


def check() -> int:
    return tell_unproven(Conformance.of(Run.load()))


def check_claims(path: Path) -> int:
    """Return 1 unless every promise would be proven if every test passed."""
    claims = json.loads(path.read_text("utf-8"))
    tests = {test: {"claims": said, "outcome": "passed"} for test, said in claims.items()}
    return tell_unproven(Conformance(json.loads(RULES.read_text("utf-8")), tests))


def tell_unproven(conformance: Conformance) -> int:
    """Print which promises are not proven, and how many are; return 1 if there are such."""
    unproven = list(conformance.unproven())
    for rule, store, cell in unproven:
        evidence = f" ({shown(cell.tests)})" if cell.tests else ""
        declared = rule["stores"][store]
        print(
            f"{rule['id']:<12} {store:<5} {declared} {cell.verdict}: "
            f"{rule['requirement']}{evidence}"
        )
    promises = sum(rule["stores"][store] != "-" for rule in conformance.rules for store in STORES)
    where = " and ".join(STORES)
    print(f"conformance: {promises - len(unproven)} of {promises} promises proven on {where}")
    return 1 if unproven else 0


def shown(tests: tuple[str, ...], most: int = 3) -> str:
    listed = list(tests[:most]) + ([f"{len(tests) - most} more"] if len(tests) > most else [])
    return ", ".join(listed)


def render() -> None:
    run = Run.load()
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join(page(Conformance.of(run), run)) + "\n", encoding="utf-8")
    print(f"wrote {PAGE.relative_to(REPOSITORY)}")


def page(conformance: Conformance, run: Run) -> Iterator[str]:
    yield "# Conformance"
    yield ""
    yield "Generated by `./dev docs` from a run of `./dev test full`; do not edit."
    yield f"Made from the run of {run.date} on commit `{run.commit}`, sources `{run.sources}`."
    yield "(`tools/conformance.py sources COMMIT` prints the digest of a commit.)"
    yield ""
    yield "Every rule of the contract, and what the tests showed of it on each store: it *holds*,"
    yield "the operation is *refused as declared* (probe and exception agree), or the store does"
    yield "what its *declared divergence* says. Each test says which of these it shows. A promise"
    yield "that no test claims, and a test that claims anything else than is declared, fail"
    yield "`./dev test`, later than this page or not. What is *not yet* kept has a test of what"
    yield "happens until then."
    yield ""
    yield from summary(conformance)
    if NOT_YET:
        yield ""
        yield "## Not yet"
        yield ""
        yield row("Rule", "Store", "Waits for", "What is missing")
        yield "|---|---|---|---|"
        for (identity, store), (what, missing) in NOT_YET.items():
            yield row(identity, store, what, missing)
    if OTHERWISE:
        letters = {rule["id"]: rule["stores"] for rule in conformance.rules}
        yield ""
        yield "## Other than declared"
        yield ""
        yield row("Rule", "Store", "Declared", "Shown", "Why")
        yield "|---|---|---|---|---|"
        for (identity, store), (what, why) in OTHERWISE.items():
            declared = DECLARED[letters[identity][store]]
            yield row(identity, store, declared, what, why)
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
        *OTHER_VERDICTS.values(),
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
    commands.add_parser("begin").add_argument("part", choices=OF_FULL)
    commands.add_parser("claims").add_argument("file", type=Path)
    commands.add_parser("sources").add_argument("commit", nargs="?")
    for name in ("check", "render"):
        commands.add_parser(name)
    arguments = parser.parse_args()
    try:
        return run_command(arguments)
    except (Refused, sources.NoRepository) as refusal:
        print(f"conformance: {refusal}")
        return 1


def run_command(arguments: argparse.Namespace) -> int:
    if arguments.command == "import-rules":
        import_rules(arguments.contract)
    elif arguments.command == "begin":
        begin(arguments.part)
    elif arguments.command == "sources":
        print(sources.digest(arguments.commit))
    elif arguments.command == "claims":
        return check_claims(arguments.file)
    elif arguments.command == "render":
        render()
    else:
        return check()
    return 0


if __name__ == "__main__":
    sys.exit(main())
