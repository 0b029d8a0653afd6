"""The bugs that the simulator has to find are changes of the sources as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATCHES = sorted((ROOT / "tests" / "cpp" / "sim" / "mutants").glob("*.patch"))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_the_lines_that_it_changes_are_there(patch: Path) -> None:
    """Otherwise `./dev sim --mutants` could not build it."""
    head, *hunks = re.split(r"^@@ .*\n", patch.read_text(), flags=re.M)
    changed = re.search(r"^\+\+\+ b/(\S+)", head, re.M)
    assert changed is not None
    assert hunks
    source = (ROOT / changed[1]).read_text()
    for hunk in hunks:
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if not line.startswith("+"))
        assert source.count(before) == 1, f"{changed[1]} has no such lines:\n{before}"
