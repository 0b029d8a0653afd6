#!/usr/bin/env python3
"""The table of configuration keys in docs/hdfs-client.md, from the code that reads them.

tools/hdfs_keys.py            write it
tools/hdfs_keys.py --check    say whether it is up to date

What the core honours is in src/cpp/hflush/hdfs/keys.inc, which is compiled into it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from key_table import Key, main

ROOT = Path(__file__).resolve().parents[1]
KEYS = ROOT / "src" / "cpp" / "hflush" / "hdfs" / "keys.inc"
PAGE = ROOT / "docs" / "hdfs-client.md"

SECTION = re.compile(r"// (?P<title>.+)\.")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
MACRO = "HFLUSH_HDFS_"


def parsed(text: str) -> list[Key]:
    """Read keys.inc: comments of one line are sections, and everything else is one entry each."""
    keys = []
    section = ""
    _, _, entries = text.partition("\n\n")  # the comment at the head
    for statement in re.split(r"\n(?=//|HFLUSH_)|\n\n", f"{entries.strip()}\n"):
        if title := SECTION.fullmatch(statement.strip()):
            section = title["title"]
        elif statement.startswith(MACRO):
            keys.append(_key(section, statement))
        elif statement.strip():
            raise ValueError(f"{KEYS.name}: not understood: {statement!r}")
    return keys


def _key(section: str, statement: str) -> Key:
    name, fallback, *effect = STRING.findall(statement)
    kind = re.match(r"HFLUSH_HDFS_KEY\((\w+),", statement)
    return Key(section, name, _spelled(kind[1]) if kind else "name", fallback, "".join(effect))


def _spelled(kind: str) -> str:
    """AtLeastOne: at least one."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).lower()


if __name__ == "__main__":
    sys.exit(main(__doc__, PAGE, KEYS, parsed))
