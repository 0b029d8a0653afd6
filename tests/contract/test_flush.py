"""FLUSH: flush promises nothing, costs nothing and never fails."""

from __future__ import annotations

import time

import hflush
import pytest
from faults.shim.control import Faults
from support.data import dataset
from support.documentation import docstring
from support.stores import FILES, Store
from support.waiting import Task

Stream = hflush.FSDataOutputStream


@pytest.mark.rule("FLUSH-1")
def test_flush_needs_nothing(store: Store, path: str, out: Stream) -> None:
    """FLUSH-1: flush works right after create, whatever the capabilities."""
    assert out.flush() is None
    out.write(b"a")
    assert out.flush() is None
    out.close()
    assert store.read(path) == b"a"


@pytest.mark.rule("FLUSH-2")
@pytest.mark.parametrize("buffer_size", [None, 0])
def test_flush_after_close_is_a_no_op(store: Store, path: str, buffer_size: int | None) -> None:
    """FLUSH-2: on a closed stream, buffered or not, flush returns quietly, every time."""
    out = store.fs.create(path, buffer_size=buffer_size)
    out.write(b"a")
    out.close()
    assert [out.flush() for _ in range(3)] == [None] * 3
    assert store.read(path) == b"a"


@pytest.mark.rule("FLUSH-2")
def test_flush_of_a_failed_stream_is_a_no_op(store: Store, failed: Stream) -> None:
    """FLUSH-2: on a failed stream flush returns quietly, before close and after."""
    assert failed.flush() is None
    with pytest.raises(OSError, match=store.full_text):
        failed.close()
    assert [failed.flush() for _ in range(2)] == [None] * 2


@pytest.mark.rule("FLUSH-2")
@pytest.mark.shim
def test_flush_during_close_is_a_no_op(store: Store, faults: Faults, path: str) -> None:
    """FLUSH-2: while close is under way, flush returns quietly."""
    out = store.fs.create(path)
    out.write(b"a")
    with faults.gate("write") as gate:
        closing = Task(out.close)
        gate.wait_for(1)
        assert Task(out.flush).result() is None
        assert closing.is_alive()
    closing.result()


@pytest.mark.rule("FLUSH-3", "FLUSH-4")
@pytest.mark.shim
def test_flush_is_no_sync(store: Store, faults: Faults, path: str) -> None:
    """FLUSH-3, 4: flush syncs nothing, counts as no hflush and no hsync, and its docs say so."""
    with store.fs.create(path) as out:
        for _ in range(100):
            out.write(dataset(600))
            out.flush()
        counters = out.io_statistics().counters
        assert faults.calls("sync") == []
        assert (counters.get("op_hflush", 0), counters.get("op_hsync", 0)) == (0, 0)
    assert "never a sync" in docstring(Stream.flush)


@pytest.mark.rule("FLUSH-5", "FLUSH-7", "FLUSH-6")
@pytest.mark.stores("raw")
def test_flush_hands_raw_bytes_to_the_system(store: Store, path: str, out: Stream) -> None:
    """FLUSH-5, 7: after flush the system has all bytes: another process sees them."""
    out.write(dataset(10))
    out.flush()
    peer = store.second_client()
    assert peer.run("read(path)", path=path) == dataset(10)
    assert peer.run("fs.get_file_status(path).length", path=path) == 10
    assert store.options["flush-makes-visible"] is True


@pytest.mark.rule("FLUSH-5", "FLUSH-6")
@pytest.mark.rule("FLUSH-7", divergence="crc")
@pytest.mark.stores("crc")
def test_flush_hands_whole_chunks_to_the_system(store: Store, path: str, out: Stream) -> None:
    """FLUSH-5, 7: crc passes complete chunks on and keeps the rest; the length tells."""
    out.write(dataset(1300))
    out.flush()
    assert store.content(path) == dataset(1024)
    assert store.fs.get_file_status(path).length == 1024
    assert str(store.options["flush-makes-visible"]).startswith("whole chunks")
    out.close()
    assert store.read(path) == dataset(1300)


@pytest.mark.rule("FLUSH-6")
@pytest.mark.stores(*FILES)
def test_flush_shows_at_most_a_prefix(store: Store, path: str, out: Stream) -> None:
    """FLUSH-6: what flush makes visible is a prefix, and the file exists."""
    for size in (1, 511, 1, 5000, 70_000):
        out.write(dataset(size))
        out.flush()
        assert store.fs.is_file(path)
        assert store.size(path) <= out.get_pos()


@pytest.mark.rule("FLUSH-8")
def test_flush_is_cheap(out: Stream) -> None:
    """FLUSH-8: 100,000 flushes take less than a second of the caller's processor."""
    out.write(b"a")
    flush = out.flush

    def cost() -> float:
        began = time.thread_time()
        for _ in range(100_000):
            flush()
        return time.thread_time() - began

    assert min(cost() for _ in range(3)) < 1.0


@pytest.mark.rule("FLUSH-8")
@pytest.mark.shim
def test_flush_of_nothing_new_does_nothing(store: Store, faults: Faults, path: str) -> None:
    """FLUSH-8: without new data, flush makes no system call."""
    with store.fs.create(path) as out:
        out.write(dataset(1024))
        out.flush()
        before = faults.position
        for _ in range(1000):
            out.flush()
        assert faults.calls(since=before) == []
