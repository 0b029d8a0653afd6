"""What type checkers say of programs that use hflush."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hflush import keywords
from hflush.options import CREATE_KEYWORDS, OPEN_KEYWORDS

USES = Path(__file__).parent / "typing" / "uses.py"
PYTHON = Path(__file__).parents[2] / "src" / "python"
FOUND = re.compile(r":(\d+): error: .*\[([a-z-]+)\]$")


def expected() -> set[tuple[int, str]]:
    """The lines that must be refused, and with what."""
    lines = enumerate(USES.read_text(encoding="utf-8").splitlines(), 1)
    return {(line, text.split("# error: ")[1]) for line, text in lines if "# error: " in text}


def test_mypy(tmp_path: Path):
    """--strict: every use that is marked is an error, and no other."""
    pytest.importorskip("mypy")
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = True\npython_version = 3.10\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", tmp_path / "mypy.ini",
         "--cache-dir", tmp_path, USES],
        env={**os.environ, "MYPYPATH": str(PYTHON)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    ours = [line for line in done.stdout.splitlines() if f"{USES.name}:" in line]
    errors = [found for line in ours if (found := FOUND.search(line))]
    assert {(int(found[1]), found[2]) for found in errors} == expected(), done.stdout
    assert len(expected()) >= 12


def test_the_keywords_are_those_that_create_and_open_take():
    """What type checkers know is what the program knows."""
    assert set(keywords.CreateKeywords.__annotations__) == set(CREATE_KEYWORDS)
    assert set(keywords.OpenKeywords.__annotations__) == set(OPEN_KEYWORDS)


def test_nothing_imports_them():
    """They are for type checkers: `import hflush` and a create do without."""
    code = (
        "import hflush, sys, tempfile\n"
        "hflush.create(tempfile.mkdtemp() + '/a', atomic=True).close()\n"
        "assert not {'hflush.keywords', 'hflush.checkpoint'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
