"""Plain English: some words stay out of the sources, their messages, and the pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("src", "docs", "demo", "bench", "tools")
SUFFIXES = {".h", ".cc", ".inc", ".py", ".pyi", ".md"}

# A noun or another verb says it: "its holder" for "whoever has it", "the NameNode learns of it".
PHRASES = (
    "whoever", "nobody", "told", "of ours", "what came of", "what comes of",
    "can be had", "cannot be had",
)  # fmt: skip
GAP = r"(?:\s|//|#)+"  # a comment goes on in the next line
UNWANTED = re.compile(
    rf"\b(?:{'|'.join(phrase.replace(' ', GAP) for phrase in PHRASES)})\b", re.IGNORECASE
)
# No prose: a default as Hadoop writes one, a mark of docs/doors.json, made-up credentials.
ALLOWED = ("${env.USER:-nobody}", '"told": ', '"nobody", "secret-of-nobody"')


def unwanted(text: str) -> list[str]:
    """Each phrase that is found, after the number of its line."""
    for allowed in ALLOWED:
        text = text.replace(allowed, "")
    return [
        f"{text.count(chr(10), 0, match.start()) + 1}: {match[0].split()[0]}"
        for match in UNWANTED.finditer(text)
    ]


def test_words_are_plain() -> None:
    files = [*ROOT.glob("*.md"), *(path for place in PLACES for path in (ROOT / place).rglob("*"))]
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted(files)
        if path.suffix in SUFFIXES
        for line in unwanted(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Nobody asks.", ["1: Nobody"]),
        ("fine\n// a token of\n// ours", ["2: of"]),
        ("``${env.USER:-nobody}``, an untold story", []),
    ],
)
def test_what_is_found(text: str, found: list[str]) -> None:
    assert unwanted(text) == found
