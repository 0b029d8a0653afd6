"""The documented configuration keys of HDFS are those that the code reads."""

from __future__ import annotations

import re
from pathlib import Path

import hdfs_keys
import key_table
import pytest

PYTHON = Path(__file__).resolve().parents[2] / "src" / "python" / "hflush"
READ_BY_PYTHON = re.compile(r'conf\.get\w*\(\s*"((?:dfs|fs|hadoop|ipc)\.[\w.-]+)"')


def test_table_is_up_to_date() -> None:
    """./dev docs would change nothing."""
    page = hdfs_keys.PAGE.read_text()
    assert key_table.rendered(page, hdfs_keys.parsed(hdfs_keys.KEYS.read_text())) == page


def test_every_entry_is_in_the_table() -> None:
    """No macro of keys.inc gets lost on the way."""
    text = hdfs_keys.KEYS.read_text()
    keys = hdfs_keys.parsed(text)
    assert len(keys) == len(re.findall(r"^HFLUSH_HDFS_\w+\(", text, re.M))
    assert len({key.name for key in keys}) == len(keys)
    assert all(key.section and key.effect for key in keys)


def test_keys_read_by_python_are_on_the_page() -> None:
    page = hdfs_keys.PAGE.read_text()
    read = set(READ_BY_PYTHON.findall((PYTHON / "hdfs" / "filesystem.py").read_text()))
    assert read
    assert {key for key in read if f"`{key}`" not in page} == set()


def test_an_entry_is_read_whole() -> None:
    """Several string literals are one text; a comment of one line names what follows."""
    text = """// What is not an entry.

// Writing.
HFLUSH_HDFS_KEY(AtLeastOne, "dfs.replication", "3", write.replication,
                "replicas of "
                "new files")
HFLUSH_HDFS_NAME(kName, "dfs.nameservices", "", "names <of> services")

// Reading.
HFLUSH_HDFS_KEY(Size, "dfs.x.", "1", read.x, "x")
"""
    first, second, third = hdfs_keys.parsed(text)
    assert first == key_table.Key(
        "Writing", "dfs.replication", "at least one", "3", "replicas of new files"
    )
    assert (second.kind, second.fallback, third.section) == ("name", "", "Reading")
    table = key_table.table([first, second, third])
    assert "| `dfs.nameservices` | name | – | names &lt;of&gt; services |" in table
    assert "| **Reading** | | | |\n| `dfs.x.…` | size | `1` | x |" in table


def test_what_is_not_understood_is_refused() -> None:
    with pytest.raises(ValueError, match="not understood"):
        hdfs_keys.parsed("// Head.\n\nHFLUSH_OTHER(x)\n")
    with pytest.raises(ValueError, match="no place"):
        key_table.rendered("a page without marks", [])
