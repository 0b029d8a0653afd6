"""What the documentation says, for rules whose promise is a sentence."""

from __future__ import annotations

import inspect
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def docstring(documented: object) -> str:
    """Return the docstring as one line."""
    return flowing(inspect.getdoc(documented) or "")


def page(name: str) -> str:
    """Return a page of docs/ as one line."""
    return flowing(DOCS.joinpath(name).read_text(encoding="utf-8"))


def flowing(text: str) -> str:
    return " ".join(text.split())
