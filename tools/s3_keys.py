#!/usr/bin/env python3
"""The table of configuration keys in docs/s3-client.md, from the code that reads them.

tools/s3_keys.py            write it
tools/s3_keys.py --check    say whether it is up to date

What is honoured is in src/python/hflush/s3/settings.py, which takes the defaults from there. The
table there is read as text: nothing has to be built.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from key_table import Key, main

ROOT = Path(__file__).resolve().parents[1]
KEYS = ROOT / "src" / "python" / "hflush" / "s3" / "settings.py"
PAGE = ROOT / "docs" / "s3-client.md"


def parsed(text: str) -> list[Key]:
    """Read the assignment of KEYS, and of the names of sections that it uses."""
    names: dict[str, str] = {}
    for node in ast.parse(text).body:
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
            continue
        target = node.targets[0].id
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            names[target] = node.value.value
        if target == "KEYS" and isinstance(node.value, ast.Tuple):
            return [_key(entry, names) for entry in node.value.elts]
    raise ValueError(f"{KEYS.name} has no KEYS")


def _key(entry: ast.expr, names: dict[str, str]) -> Key:
    if not (isinstance(entry, ast.Call) and len(entry.args) == 5):
        raise ValueError(f"{KEYS.name}: not understood: {ast.unparse(entry)}")
    section, *texts = entry.args
    if not isinstance(section, ast.Name):
        raise ValueError(f"{KEYS.name}: not understood: {ast.unparse(section)}")
    name, kind, fallback, effect = (str(ast.literal_eval(text)) for text in texts)
    return Key(names[section.id], name, kind, fallback, effect)


if __name__ == "__main__":
    sys.exit(main(__doc__, PAGE, KEYS, parsed))
