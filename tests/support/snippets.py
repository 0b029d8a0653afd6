"""The code in the documentation.

Snippets, of docs/questions and docs/checkpoints.md: a fence of Python, below it one of what that
prints. Excerpts, of docs/new-store.md: a link to a file, and below it a fence of lines of it; "…"
stands for others.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from support.waiting import DEADLINE_S

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = ROOT / "docs" / "questions"
CHECKPOINTS = ROOT / "docs" / "checkpoints.md"
_SNIPPET = re.compile(r"^```python\n(.*?)^```\n\n^```text\n(.*?)^```$", re.M | re.S)
_FENCE = re.compile(r"^```python$", re.M)
_EXCERPT = re.compile(r"\]\((\.\./[^)\s]+)\):\n\n```\w+\n(.*?)^```$", re.M | re.S)
_LEFT_OUT = re.compile(r"^ *…\n", re.M)


class Excerpt(NamedTuple):
    """Pieces of a file, each whole lines, in their order."""

    file: Path
    pieces: list[str]

    @property
    def is_of_file(self) -> bool:
        rest = "\n" + self.file.read_text(encoding="utf-8")
        for piece in self.pieces:
            _, found, rest = rest.partition("\n" + piece)
            rest = "\n" + rest
            if not found:
                return False
        return True


def excerpts(page: Path) -> list[Excerpt]:
    """Every excerpt of a page; AssertionError for a fence that does not say of which file."""
    text = page.read_text(encoding="utf-8")
    found = [
        Excerpt(page.parent / file, _LEFT_OUT.split(code)) for file, code in _EXCERPT.findall(text)
    ]
    assert len(found) == len(re.findall(r"^```\w", text, re.M)), f"{page.name}: from which file?"
    return found


class Snippet(NamedTuple):
    page: str
    code: str
    printed: str

    @property
    def needs_s3(self) -> bool:
        return "s3://" in self.code


def snippets() -> list[Snippet]:
    """Every snippet of every page; AssertionError for one that does not say what it prints."""
    found = []
    for page in [*sorted(QUESTIONS.glob("*.md")), CHECKPOINTS]:
        text = page.read_text(encoding="utf-8")
        of_page = _SNIPPET.findall(text)
        assert len(of_page) == len(_FENCE.findall(text)), f"{page.name}: what does it print?"
        assert of_page, f"{page.name} has no snippet"
        found += [Snippet(page.name, code, printed) for code, printed in of_page]
    return found


def printed_by(snippet: Snippet, directory: Path, environment: Mapping[str, str]) -> str:
    """Run it as a user would, in a process of its own; what it prints, warnings and errors too."""
    run = subprocess.run(
        [sys.executable, "-c", snippet.code],
        cwd=directory,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return run.stdout
