"""The table of configuration keys on a page of the docs, whatever they were read from."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

START, END = "<!-- keys:start -->", "<!-- keys:end -->"


@dataclass(frozen=True)
class Key:
    """One key: what a value of it looks like, what it is unless set, what it does."""

    section: str
    name: str
    kind: str
    fallback: str
    effect: str


def table(keys: list[Key]) -> str:
    lines = ["| Key | Value | Default | Here |", "|---|---|---|---|"]
    section = ""
    for key in keys:
        if key.section != section:
            section = key.section
            lines.append(f"| **{section}** | | | |")
        dots = "…" if key.name.endswith(".") else ""
        fallback = f"`{key.fallback}`" if key.fallback else "–"
        effect = key.effect.replace("<", "&lt;").replace(">", "&gt;").replace("|", "&#124;")
        lines.append(f"| `{key.name}{dots}` | {key.kind} | {fallback} | {effect} |")
    return "\n".join(lines)


def rendered(page: str, keys: list[Key]) -> str:
    """The page with the table between its marks."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(f"there is no place for the table: {START} … {END}")
    return f"{before}{START}\n{table(keys)}\n{END}{after}"


def main(about: str | None, page: Path, source: Path, parsed: Callable[[str], list[Key]]) -> int:
    """Write the table into `page`, or say whether it is what `source` asks for."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text = page.read_text()
    wanted = rendered(text, parsed(source.read_text()))
    if not options.check:
        page.write_text(wanted)
    elif wanted != text:
        sys.stderr.write(f"docs/{page.name} is older than {source.name}: run ./dev docs\n")
        return 1
    return 0
