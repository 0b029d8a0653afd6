"""HSYNC: hsync is hflush and durability. What it shares with hflush is in test_hflush.py; what the
disk does is in tests/faults.
"""

from __future__ import annotations

import hflush
import pytest
from faults.shim.control import Faults
from support.data import dataset
from support.stores import Store

Stream = hflush.FSDataOutputStream


@pytest.mark.rule("HSYNC-3", "HSYNC-9")
@pytest.mark.stores("raw")
@pytest.mark.shim
def test_every_hsync_of_new_bytes_syncs_the_file(store: Store, faults: Faults, path: str) -> None:
    """HSYNC-3, 9: hsync of nothing succeeds; each one after new bytes writes, then syncs."""
    with store.fs.create(path) as out:
        out.hsync()
        for _ in range(3):
            before = faults.position
            out.write(dataset(1000))
            out.hsync()
            operations = [
                call.operation
                for call in faults.calls("write", "sync", path="*/file", since=before)
            ]
            assert operations == ["write", "sync"]
        assert out.io_statistics().counters["op_hsync"] == 4


@pytest.mark.rule("HSYNC-10", "HSYNC-11")
@pytest.mark.stores("raw")
def test_length_is_right_after_hsync(store: Store, path: str, out: Stream) -> None:
    """HSYNC-10, 11: raw declares and keeps that the length is exact after each hsync."""
    assert store.options["metadata_updated_on_hsync"] is True
    for length in range(1, 11):
        out.write(b"a")
        out.hsync()
        assert store.fs.get_file_status(path).length == length


@pytest.mark.rule("HSYNC-15")
@pytest.mark.stores("raw", "hdfs")
def test_capability_is_declared_where_the_request_is_passed_on(store: Store, out: Stream) -> None:
    """HSYNC-15: raw claims hsync, because it passes the request on; what a disk does is its own."""
    assert out.has_capability("hsync")
    out.write(b"a")
    out.hsync()
    assert store.options["supports-hsync"] is True
