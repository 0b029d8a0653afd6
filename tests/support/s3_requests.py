"""How many requests of the store each operation takes: counted on the scripted server.

tools/s3_requests.py writes the table into docs/s3-client.md, and tests/unit/test_s3_requests.py
compares the page with a run: one request more is seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import hflush

from support.scripted_s3 import BUCKET, MIB, ScriptedS3

PAGE = Path(__file__).resolve().parents[2] / "docs" / "s3-client.md"
BEGIN, END = "<!-- requests:start -->\n", "<!-- requests:end -->\n"
FOLDER = "/a/b/c/d"
PARTS = bytes(12 * MIB)

Does = Callable[[Any], object]


class Row(NamedTuple):
    """An operation; what is done before it is not counted."""

    name: str
    does: Does
    before: Does = lambda fs: None
    conf: dict[str, str] = {}  # noqa: RUF012 - only read


def _write(path: str, data: bytes = b"data", **options: Any) -> Does:
    def write(fs: Any) -> None:
        with fs.create(path, **options) as out:
            out.write(data)

    return write


def _read(fs: Any) -> None:
    with fs.open(f"{FOLDER}/f") as stream:
        assert stream.read() == b"data"


_FIRST = _write(f"{FOLDER}/f")
_NEXT = _write(f"{FOLDER}/g")
_FAST = {"fs.s3a.create.performance": "true"}
_ALWAYS = {"hflush.s3.create.remember": "0"}

ROWS = (
    Row("the first object of a new folder, four levels deep", _FIRST),
    Row("the next object of that folder", _NEXT, _FIRST),
    Row("the same, with `hflush.s3.create.remember` = 0", _NEXT, _FIRST, _ALWAYS),
    Row("the same, with `fs.s3a.create.performance`", _NEXT, _FIRST, _FAST),
    Row("the same, with `overwrite=False`", _write(f"{FOLDER}/g", overwrite=False), _FIRST),
    Row("the same, with `recursive=False`", _write(f"{FOLDER}/g", recursive=False), _FIRST),
    Row("the same, of three parts", _write(f"{FOLDER}/g", PARTS), _FIRST),
    Row("`put_if_absent`", lambda fs: fs.put_if_absent(f"{FOLDER}/g", b"data")),
    Row("`open` and read a small object", _read, _FIRST),
    Row("`get_file_status` of an object", lambda fs: fs.get_file_status(f"{FOLDER}/f"), _FIRST),
    Row("`get_file_status` of a directory", lambda fs: fs.get_file_status(FOLDER), _FIRST),
    Row("`exists` of nothing", lambda fs: fs.exists(f"{FOLDER}/g"), _FIRST),
    Row("`list_status`", lambda fs: fs.list_status(FOLDER), _FIRST),
    Row("`mkdirs` of a directory four levels deep", lambda fs: fs.mkdirs(FOLDER)),
    Row("`mkdirs` of one that exists", lambda fs: fs.mkdirs(FOLDER), _FIRST),
    Row("`delete` of an object", lambda fs: fs.delete(f"{FOLDER}/f"), _FIRST),
    Row("`delete` of its folder", lambda fs: fs.delete(FOLDER, recursive=True), _FIRST),
    Row(
        "`rename` of an object within its folder",
        lambda fs: fs.rename(f"{FOLDER}/f", f"{FOLDER}/g"),
        _FIRST,
    ),
)


def counted(row: Row) -> Counter[str]:
    """Do it on a server of its own; the requests by their names."""
    conf = {
        "fs.s3a.multipart.size": "5M",
        "fs.s3a.create.conditional.enabled": "true",
        **row.conf,
    }
    with (
        ScriptedS3() as server,
        hflush.FileSystem.new_instance(f"s3://{BUCKET}/", {**server.conf, **conf}) as fs,
    ):
        row.before(fs)
        before = len(server.log)
        row.does(fs)
        return Counter(request.operation for request in server.log[before:])


def table() -> str:
    """The table, from a run."""
    lines = ["| Operation | Requests | Which |", "|---|---|---|"]
    for row in ROWS:
        requests = counted(row)
        named = ", ".join(f"{n} {name}" for name, n in sorted(requests.items()))
        lines.append(f"| {row.name} | {requests.total()} | {named} |")
    return "\n".join(lines) + "\n"


def rendered(page: str) -> str:
    """The page with the table of a run."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table() + END + after
