"""The doors between programs and streams: seen by tests/integration/test_doors.py, shown as tables.

A mark stands for all stores of its column; one that differs from the others is named beside it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SEEN = ROOT / "docs" / "doors.json"
_TEST = ROOT / "tests" / "integration" / "test_doors.py"

_NAMES = {"raw": "file", "crc": "file+crc", "hdfs": "hdfs", "s3": "s3"}
_RIGHT = {
    "plain": {"published": "✓", "part": "part", "told": "warned", "closed": "closed", "-": "–"},
    "whole": {"published": "✓", "kept": "✓", "told": "✓", "-": "–"},
}


def measure() -> None:
    """Write docs/doors.json, if every test passes."""
    command = [sys.executable, "-m", "pytest", "-q", str(_TEST), f"--doors={SEEN}"]
    subprocess.run(command, cwd=ROOT, check=True)


def section() -> str:
    """Return the part of docs/reliability.md."""
    run = json.loads(SEEN.read_text(encoding="utf-8"))
    versions = ", ".join(f"{name} {version}" for name, version in sorted(run["versions"].items()))
    return f"""## Doors

What is between a program and its stream, and how that ends. Generated from
[doors.json](doors.json), which `./dev reliability -- --doors` measures
([the test](../tests/integration/test_doors.py), [the doors](../tests/support/doors.py)): each door
with each ending over a file that exists, on local files, a MiniDFSCluster and a MinIO; the store is
looked at afterwards.

{versions}; Python {run["python"]}; {run["date"]}.

### s3, and `atomic=True` on file, file+crc and hdfs

✓ is: everything is published; or the old file is there, untouched, and the program gets the very
exception that it raised, or, where there is none, a warning on stderr names the path. – is: not
possible (a `with` block is not dropped). ✓ s3 is: only there, because a bare name makes no
atomic file.

{_table(run, "whole")}

### file, file+crc, hdfs

Here what is written is there at once, as with any file. *part*: what was written until the
exception is at the path, and the program gets that exception; *warned*: what was not flushed is
dropped, a warning on stderr names the path; *closed*: the library has a `__del__` that closes, so
the file ends where it was dropped.

{_table(run, "plain")}"""


def _table(run: dict[str, Any], kind: str) -> str:
    stores = [name for name in _NAMES if f"{name} {kind}" in run["seen"]]
    lines = [["", *run["endings"]], ["---"] * (len(run["endings"]) + 1)]
    for door in run["doors"]:
        by_store = {name: run["seen"][f"{name} {kind}"][door] for name in stores}
        cells = [
            _cell({name: _RIGHT[kind][seen[ending]] for name, seen in by_store.items()})
            for ending in run["endings"]
        ]
        lines.append([door, *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(marks: dict[str, str]) -> str:
    kinds = list(dict.fromkeys(marks.values()))
    if len(kinds) == 1:
        return kinds[0]
    kinds = [kind for kind in kinds if kind != "–"]
    return ", ".join(
        f"{kind} {' '.join(_NAMES[name] for name, mark in marks.items() if mark == kind)}"
        for kind in kinds
    )
