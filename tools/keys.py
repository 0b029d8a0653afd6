#!/usr/bin/env python3
"""The tables of configuration keys in docs, from those that the code reads by.

tools/keys.py            write them
tools/keys.py --check    say whether they are up to date

They are in hflush.keys' form; defaults are asked of the core, which therefore is to be built.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from hflush import _core, general_keys
from hflush.hdfs import keys as hdfs_keys
from hflush.keys import Key, defaults
from hflush.local import keys as local_keys
from hflush.s3 import keys as s3_keys
from hflush.viewfs import keys as view_keys

DOCS = Path(__file__).resolve().parents[1] / "docs"
# By page: the table, and what of the core takes its values.
PAGES: dict[str, tuple[tuple[Key, ...], object]] = {
    "keys.md": ((*general_keys.KEYS, *local_keys.KEYS, *view_keys.KEYS), None),
    "hdfs-client.md": (hdfs_keys.KEYS, _core.HdfsSettings()),
    "s3-client.md": (s3_keys.KEYS, s3_keys.Native.usual()),
}
START, END = "<!-- keys:start -->", "<!-- keys:end -->"


def table(keys: Iterable[Key], native: object) -> str:
    """The keys by their sections, in Markdown."""
    lines = ["| Key | Value | Default | Here |", "|---|---|---|---|"]
    section = ""
    for key, default in defaults(keys, native):
        if key.section != section:
            section = key.section
            lines.append(f"| **{section}** | | | |")
        dots = "…" if key.name.endswith(".") else ""
        shown = f"`{default}`" if default else "–"
        effect = key.effect.replace("<", "&lt;").replace(">", "&gt;").replace("|", "&#124;")
        lines.append(f"| `{key.name}{dots}` | {key.kind.shown} | {shown} | {effect} |")
    return "\n".join(lines)


def rendered(page: str, keys: Iterable[Key], native: object) -> str:
    """The page with the table between its marks."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(f"the page has no place for the table: {START} … {END}")
    return f"{before}{START}\n{table(keys, native)}\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    stale = []
    for name, (keys, native) in PAGES.items():
        text = (DOCS / name).read_text()
        wanted = rendered(text, keys, native)
        if wanted != text:
            stale.append(f"docs/{name}")
            if not options.check:
                (DOCS / name).write_text(wanted)
    if options.check and stale:
        sys.stderr.write(f"older than the keys in the code: {', '.join(stale)}; run ./dev docs\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
