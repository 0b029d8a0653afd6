"""What the documentation says, for rules whose promise is a sentence."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
CELLS = re.compile(r"(?<!\\)\|")


def docstring(documented: object) -> str:
    """Return the docstring as one line."""
    return flowing(inspect.getdoc(documented) or "")


def page(name: str) -> str:
    """Return a page of docs/ as one line."""
    return flowing(DOCS.joinpath(name).read_text(encoding="utf-8"))


def table(name: str, heading: str) -> dict[str, dict[str, str]]:
    """Return the first table below a heading of a page: its rows, and their cells by column."""
    return table_in(DOCS.joinpath(name).read_text(encoding="utf-8"), heading)


def table_in(text: str, heading: str) -> dict[str, dict[str, str]]:
    """Return the same of the text of a page."""
    below = text.split(f"\n{heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in below.splitlines() if line.startswith("|")]
    head, _, *rows = ([cell.strip() for cell in CELLS.split(line)[1:-1]] for line in lines)
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def flowing(text: str) -> str:
    return " ".join(text.split())
