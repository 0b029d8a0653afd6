"""What the machines did in simulated runs, beside the tables in docs/hdfs-client.md.

A transition is a machine, its state, an event and the state after. Those of the tables have to be
seen, and no others. `tests/cpp/sim/transitions.txt` lists the exceptions: *rare* ones, which only a
run of many seeds has to see, and *unseen* ones, for which the model lacks something. An unseen one
that is seen has to leave the list.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from devkit.console import say
from devkit.outcome import Row
from devkit.paths import ROOT

PAGE = ROOT / "docs" / "hdfs-client.md"
LISTED = ROOT / "tests" / "cpp" / "sim" / "transitions.txt"
MACHINES = (
    "FileWriter",
    "BlockWriter",
    "SilenceProbe",
    "BlockRecovery",
    "Promises",
    "CallTable",
    "LeaseRenewal",
    "ReplicaSearch",
)
ENOUGH_FOR_ALL = 5_000  # seeds in which each transition is seen that is not listed
ENOUGH_FOR_RARE = 100_000
NOTHING = "–"
STAYS = "stays"


class Event(NamedTuple):
    """An event in a state of a machine."""

    machine: str
    state: str
    event: str


class Transition(NamedTuple):
    """What an event did."""

    machine: str
    state: str
    event: str
    after: str

    @property
    def cause(self) -> Event:
        return Event(*self[:3])

    def __str__(self) -> str:
        return " | ".join(self)


def tables() -> dict[Event, str]:
    """Read what follows on each event in each state: the cells of the page's tables."""
    cells = {}
    for machine in MACHINES:
        section = re.split(rf"^### {machine}\b.*$", PAGE.read_text(), maxsplit=1, flags=re.M)[1]
        found = re.search(r"(?:^\|.*\n)+", section, re.M)
        assert found is not None, machine
        columns, _, *rows = (_cells(line) for line in found[0].splitlines())
        for names, *values in rows:
            for name in names.split(", "):
                for state, cell in zip(columns[1:], values, strict=True):
                    cells[Event(machine, state, name)] = cell
    return cells


def _cells(line: str) -> list[str]:
    return re.sub(r"[*`]", "", line).strip("| ").split(" | ")


def listed() -> dict[Transition, str]:
    """Read the exceptions: "rare" and "unseen" ones."""
    lines = (line.split(": ", 1) for line in LISTED.read_text().splitlines() if line[:1] != "#")
    return {Transition(*text.split(" | ")): kind for kind, text in lines}


def seen_in(outputs: Iterable[str]) -> Counter[Transition]:
    """Add up what runs of the simulator print of transitions."""
    seen: Counter[Transition] = Counter()
    for output in outputs:
        for line in re.findall(r"^saw (.*)$", output, re.M):
            *transition, count = line.split(" | ")
            seen[Transition(*transition)] += int(count)
    return seen


def check_tables(row: Row, seen: Mapping[Transition, int]) -> None:
    """Fail what was seen and is in no table."""
    cells = tables()
    wanted = _wanted(cells)
    for transition in sorted(set(seen) - wanted):
        changes_nothing = cells.get(transition.cause) == NOTHING and transition.after == STAYS
        if not changes_nothing:
            row.fail(f"not in the tables of {PAGE.name}: {transition}")
    unseen = list(listed().values()).count("unseen")
    say(
        f"   transitions: {len(wanted & set(seen))} of {len(wanted)} were seen; "
        f"{unseen} are listed as unseen"
    )


def check_lists(row: Row, seen: Mapping[Transition, int], seeds: int) -> None:
    """Fail what so many seeds did not see and should have, and an unseen one that they saw."""
    exceptions = listed()
    for transition in sorted(_wanted(tables()) - set(seen)):
        enough = {None: ENOUGH_FOR_ALL, "rare": ENOUGH_FOR_RARE}.get(exceptions.get(transition))
        if enough is not None and seeds >= enough:
            row.fail(f"not seen in {seeds} seeds: {transition}")
    for transition in sorted(set(seen) & set(exceptions)):
        if exceptions[transition] == "unseen":
            row.fail(f"seen, so that it leaves {LISTED.name}: {transition}")


def _wanted(cells: Mapping[Event, str]) -> set[Transition]:
    return {Transition(*event, cell) for event, cell in cells.items() if cell != NOTHING}
