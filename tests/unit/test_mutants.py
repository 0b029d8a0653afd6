"""The bugs that the simulator has to find are changes of the sources as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from devkit import covering, mutating

ROOT = Path(__file__).resolve().parents[2]
PATCHES = sorted(mutating.PATCHES.glob("*.patch"))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_the_lines_that_it_changes_are_there(patch: Path) -> None:
    """Otherwise `./dev sim --mutants` could not build it."""
    _, *files = re.split(r"^--- .*\n\+\+\+ b/", patch.read_text(), flags=re.M)
    assert files
    for changed in files:
        head, *hunks = re.split(r"^@@ .*\n", changed, flags=re.M)
        assert hunks
        name = head.split()[0]
        source = (ROOT / name).read_text()
        for hunk in hunks:
            lines = [line for line in hunk.splitlines(keepends=True) if line[:1] in " +-"]
            before = "".join(line[1:] for line in lines if not line.startswith("+"))
            assert source.count(before) == 1, f"{name} has no such lines:\n{before}"


def test_each_was_found() -> None:
    """The table beside the patches says by which seed."""
    found = mutating.found_so_far()
    assert sorted(found) == [patch.stem for patch in PATCHES]
    assert len(found) >= 20
    first_seeds = [int(row.seed.partition("-")[0]) for row in found.values()]
    assert max(first_seeds) <= mutating.CAUGHT_WITHIN


def test_the_transitions_that_are_listed_are_of_the_page() -> None:
    """A run sees all the others: `./dev sim`."""
    cells = covering.tables()
    for transition, kind in covering.listed().items():
        assert kind in ("rare", "unseen")
        assert cells[transition.cause] == transition.after != covering.NOTHING
