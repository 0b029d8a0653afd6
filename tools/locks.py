#!/usr/bin/env python3
"""The table of locks in docs/threading.md, from their declarations in the core.

    tools/locks.py            write the table into the page
    tools/locks.py check      exit 1 if the page differs

A row is a `Mutex` that is a member: its class, the fields that say HFLUSH_GUARDED_BY(it), and what
the comment above its declaration says of the order and of what it is never held across.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "src" / "cpp"
PAGE = ROOT / "docs" / "threading.md"
START, END = "<!-- locks:start -->", "<!-- locks:end -->"

_SCOPE = re.compile(
    r"(?P<open>(?:\b(?:class|struct|namespace)\s+(?:HFLUSH_\w+(?:\([^)]*\))?\s+)?(?P<name>[\w:]+)?"
    r"(?:\s+final)?(?:\s*:\s*[^;{}()]*)?)?\s*\{)|(?P<close>\})"
)
_MUTEX = re.compile(
    r"(?P<comment>(?:^ *//[^\n]*\n)*)^ *(?:mutable )?Mutex (?P<name>\w+)[^;\n]*;", re.M
)
_GUARDED = re.compile(r"(\w+)(?:\[\w*\])?\s+HFLUSH_GUARDED_BY\((?P<lock>[\w.>-]+)\)")


class Lock(NamedTuple):
    """A mutex that is a member of a class."""

    owner: str
    name: str
    file: str
    guards: tuple[str, ...]
    note: str


def locks() -> list[Lock]:
    """Every lock of the core and the bindings, by class."""
    files = sorted(path for path in CORE.rglob("*") if path.suffix in {".h", ".cc"})
    found = [lock for path in files for lock in _locks_of(path)]
    return sorted(found, key=lambda lock: (lock.owner, lock.name))


def table() -> str:
    rows = [
        "| Lock | Declared in | Guards | Order, and what it is never held across |",
        "|---|---|---|---|",
    ]
    for lock in locks():
        guards = ", ".join(f"`{field}`" for field in lock.guards)
        rows.append(f"| `{lock.owner}::{lock.name}` | `{lock.file}` | {guards} | {lock.note} |")
    return "\n".join(rows)


def page() -> str:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    return f"{before}{START}\n{table()}\n{END}{rest.partition(END)[2]}"


def _locks_of(path: Path) -> Iterator[Lock]:
    text = path.read_text(encoding="utf-8")
    for match in _MUTEX.finditer(text):
        owner, begin, end = _class_around(text, match.start())
        if not owner:  # a local variable: the lock of one wait
            continue
        name = match["name"]
        guards = [g[1] for g in _GUARDED.finditer(text, begin, end) if g["lock"] == name]
        note = " ".join(re.sub(r"^\s*//\s?", "", line) for line in match["comment"].splitlines())
        yield Lock(owner, name, path.relative_to(CORE).as_posix(), tuple(guards), note.strip())


def _class_around(text: str, position: int) -> tuple[str, int, int]:
    """The name of the class that a position is in, and where that begins and ends."""
    code = re.sub(r'//[^\n]*|"(?:\\.|[^"\\\n])*"', lambda match: " " * len(match[0]), text)
    opened: list[tuple[str, int]] = []
    for scope in _SCOPE.finditer(code):
        if scope["close"]:
            name, begin = opened.pop() if opened else ("", 0)
            if begin < position < scope.start() and name:
                around = [outer for outer, _ in opened if outer]
                return "::".join([*around, name]), begin, scope.start()
        else:
            keyword = scope["open"].lstrip()
            is_class = keyword.startswith(("class", "struct"))
            opened.append((scope["name"] or "" if is_class else "", scope.start()))
    return "", 0, len(text)


def main() -> int:
    wanted = page()
    if sys.argv[1:] == ["check"]:
        return int(PAGE.read_text(encoding="utf-8") != wanted)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
