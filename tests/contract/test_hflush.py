"""HFLUSH: when hflush returns, new readers see every byte written before it."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable

import hflush
import pytest
from faults.shim.control import Faults
from support.data import dataset
from support.documentation import docstring
from support.interrupts import interrupted
from support.stores import Store
from support.waiting import Task

Stream = hflush.FSDataOutputStream

MIB = 1 << 20


def sync_by(out: Stream, operation: str) -> Callable[[], None]:
    function: Callable[[], None] = getattr(out, operation)
    return function


@pytest.fixture(params=["hflush", "hsync"])
def operation(request: pytest.FixtureRequest) -> str:
    """The name of hflush and of hsync: the second promises all that the first does (HSYNC-2)."""
    return str(request.param)


@pytest.mark.rule("HFLUSH-1", "HSYNC-1")
@pytest.mark.stores("raw", "hdfs")
def test_capable_stream_accepts_sync(store: Store, path: str, out: Stream, operation: str) -> None:
    """HFLUSH-1, HSYNC-1: a stream that reports the capability does the operation."""
    assert out.has_capability(operation)
    out.write(b"a")
    assert sync_by(out, operation)() is None
    assert store.read(path) == b"a"


@pytest.mark.rule("HFLUSH-1", "HSYNC-1", refused="crc")
@pytest.mark.rule("HFLUSH-14")
@pytest.mark.stores("crc")
def test_incapable_stream_refuses_sync(
    store: Store, path: str, out: Stream, operation: str
) -> None:
    """HFLUSH-1, HSYNC-1: without the capability it is refused; the stream stays open."""
    assert not out.has_capability(operation)
    out.write(b"a")
    with pytest.raises(io.UnsupportedOperation, match=operation):
        sync_by(out, operation)()
    assert not out.closed
    out.write(b"b")
    out.close()
    assert store.read(path) == b"ab"
    assert store.options["downgrade-syncable"] is False
    assert out.io_statistics().counters.get(f"op_{operation}", 0) == 0


@pytest.mark.rule("HFLUSH-1", "HSYNC-1", refused="crc")
@pytest.mark.rule("STATS-7")
@pytest.mark.stores("crc")
def test_downgrade_is_explicit_counted_and_warned_of(
    store: Store, path: str, operation: str
) -> None:
    """HFLUSH-1, HSYNC-1: only an option makes a sync a flush, which is counted and warns."""
    client = hflush.FileSystem.new_instance(
        store.url(), {**store.conf, "hflush.syncable.downgrade": True}
    )
    assert client.contract_options["downgrade-syncable"] is True
    out = client.create(path)
    out.write(b"a")
    with pytest.warns(RuntimeWarning, match=operation):
        sync_by(out, operation)()
    sync_by(out, operation)()
    assert not out.has_capability(operation)
    counters = out.io_statistics().counters
    other = {"hflush": "hsync", "hsync": "hflush"}[operation]
    assert (counters[f"op_{operation}"], counters[f"op_{other}"]) == (2, 0)
    out.close()
    assert client.io_statistics().counters[f"op_{operation}"] == 2
    with pytest.raises(hflush.StreamClosedError):
        sync_by(out, operation)()
    assert store.read(path) == b"a"


@pytest.mark.rule("HFLUSH-2", "HSYNC-2", "CONSIST-8")
@pytest.mark.stores("raw", "hdfs")
@pytest.mark.parametrize("chunk", [512, 400, 65536])
def test_new_reader_sees_every_section(
    store: Store, path: str, out: Stream, operation: str, chunk: int
) -> None:
    """HFLUSH-2: after each of ten sections and a remainder, a new reader sees exactly so much."""
    section = 3 * chunk
    data = dataset(10 * section + 7)
    for start in range(0, len(data), section):
        out.write(data, start, min(section, len(data) - start))
        sync_by(out, operation)()
        assert store.read(path) == data[: start + section]


@pytest.mark.rule("HFLUSH-2", "HSYNC-2")
@pytest.mark.stores("raw", "hdfs")
def test_single_byte_is_seen(store: Store, path: str, out: Stream, operation: str) -> None:
    """HFLUSH-2: one byte is enough to be seen."""
    out.write(b"a")
    sync_by(out, operation)()
    assert store.read(path) == b"a"
    out.write_byte(98)
    sync_by(out, operation)()
    assert store.read(path) == b"ab"


@pytest.mark.rule("HFLUSH-3", "HSYNC-2", "CONSIST-8")
@pytest.mark.stores("raw", "hdfs")
def test_other_clients_see_flushed_bytes(
    store: Store, path: str, out: Stream, operation: str
) -> None:
    """HFLUSH-3: it holds for another process, and for every way to open."""
    peer = store.second_client()
    written = b""
    for piece in (b"one", dataset(1000), dataset(70_000)):
        out.write(piece)
        written += piece
        sync_by(out, operation)()
        assert peer.run("read(path)", path=path) == written
        assert peer.run("fs.open_file(path).build().result().read()") == written
        assert peer.run("hflush.open(url, 'rb').read()", url=store.url(path)) == written


@pytest.mark.rule("HFLUSH-4", "HSYNC-2", "HSYNC-5")
@pytest.mark.stores("raw")
@pytest.mark.shim
def test_sync_waits_for_the_store(store: Store, faults: Faults, path: str, operation: str) -> None:
    """HFLUSH-4: hflush and hsync do not return before the store has taken the bytes."""
    out = store.fs.create(path)
    out.write(b"abc")
    with faults.gate("write") as gate:
        syncing = Task(sync_by(out, operation))
        gate.wait_for(1)
        assert syncing.is_alive()
        assert store.read(path) == b""
    assert syncing.result() is None
    assert store.read(path) == b"abc"
    out.close()


@pytest.mark.rule("HFLUSH-5", "HFLUSH-7")
@pytest.mark.stores("raw")
@pytest.mark.shim
def test_hflush_promises_no_durability(store: Store, faults: Faults, path: str) -> None:
    """HFLUSH-5, 7: raw leaves flushed bytes to the system's cache, and counts no hsync."""
    with store.fs.create(path) as out:
        out.write(b"abc")
        out.hflush()
        counters = out.io_statistics().counters
        assert (counters["op_hflush"], counters["op_hsync"]) == (1, 0)
    assert faults.calls("sync") == []


@pytest.mark.rule("HFLUSH-6", "CONC-9")
@pytest.mark.stores("raw", "hdfs")
def test_early_reader_sees_old_or_new_prefix(store: Store, path: str, out: Stream) -> None:
    """HFLUSH-6: a reader opened before the flush sees a prefix of the old or the new content."""
    out.write(b"old")
    out.hflush()
    with store.fs.open(path) as early:
        assert early.read(3) == b"old"
        out.write(b"new")
        out.hflush()
        assert b"new".startswith(early.read())
        assert b"oldnew".startswith(early.pread(0, 6))


@pytest.mark.rule("HFLUSH-8", "HSYNC-6")
@pytest.mark.stores("raw", "hdfs")
def test_sync_after_close_is_refused(path: str, out: Stream, operation: str) -> None:
    """HFLUSH-8, HSYNC-6: on a closed stream it raises StreamClosedError."""
    out.write(b"a")
    out.close()
    with pytest.raises(hflush.StreamClosedError) as caught:
        sync_by(out, operation)()
    assert isinstance(caught.value, ValueError)
    assert caught.value.filename == path


@pytest.mark.rule("HFLUSH-8", "HSYNC-6", refused="crc")
@pytest.mark.stores("crc")
def test_refused_sync_is_refused_after_close(path: str, out: Stream, operation: str) -> None:
    """HFLUSH-8, HSYNC-6: where it is refused on an open stream, it is on a closed one."""
    out.close()
    with pytest.raises((hflush.StreamClosedError, io.UnsupportedOperation)) as caught:
        sync_by(out, operation)()
    assert caught.value.filename == path


@pytest.mark.rule("HFLUSH-8", "HSYNC-6", "HFLUSH-13")
@pytest.mark.stores("raw", "hdfs")
def test_sync_of_a_failed_stream_is_refused(store: Store, failed: Stream, operation: str) -> None:
    """HFLUSH-8, 13: a failed stream reports its failure, before close and after."""
    for close in (lambda: None, failed.close):
        with contextlib.suppress(OSError):
            close()
        with pytest.raises(hflush.StreamClosedError, match="failed"):
            sync_by(failed, operation)()


@pytest.mark.rule("HFLUSH-9", "HSYNC-2", "HSYNC-9")
@pytest.mark.stores("raw", "hdfs")
def test_sync_of_nothing_changes_nothing(
    store: Store, path: str, out: Stream, operation: str
) -> None:
    """HFLUSH-9: with nothing written, and twice in a row, it succeeds and changes nothing."""
    sync_by(out, operation)()
    sync_by(out, operation)()
    assert store.fs.get_file_status(path).length == 0
    out.write(b"abc")
    sync_by(out, operation)()
    sync_by(out, operation)()
    assert out.tell() == 3
    assert store.read(path) == b"abc"


@pytest.mark.rule("HFLUSH-10", "HSYNC-2")
@pytest.mark.stores("raw", "hdfs")
def test_small_steps_keep_the_sequence(
    store: Store, path: str, out: Stream, operation: str
) -> None:
    """HFLUSH-10: 29-byte steps, each flushed, give the exact bytes."""
    data = dataset(29 * (700 if operation == "hflush" else 100))
    for start in range(0, len(data), 29):
        out.write(data, start, 29)
        sync_by(out, operation)()
    out.close()
    assert store.read(path) == data


@pytest.mark.rule("HFLUSH-10", "HSYNC-2")
@pytest.mark.stores("raw", "hdfs")
def test_any_mixture_of_sizes_keeps_the_sequence(store: Store, path: str, out: Stream) -> None:
    """HFLUSH-10: sizes around chunks and packets, flushed at random, give the exact bytes."""
    chance = random.Random(11)
    written = bytearray()
    for _ in range(300):
        piece = chance.randbytes(chance.choice((0, 1, 29, 511, 512, 513, 65535, 65537, 300_000)))
        out.write(piece)
        written += piece
        if chance.random() < 0.4:
            chance.choice((out.hflush, out.hsync, out.flush))()
    out.close()
    assert store.read(path) == written


@pytest.mark.rule("HFLUSH-11", "CLOSE-23")
@pytest.mark.stores("raw", "hdfs")
def test_flushed_bytes_survive_the_writer(store: Store, path: str) -> None:
    """HFLUSH-11: kill -9 after hflush: the flushed bytes are there, and nothing but a prefix."""
    flushed, unflushed = dataset(100_000), b"tail"
    writer = store.spawn()
    writer.run("out = fs.create(path); out.write(data); out.hflush()", path=path, data=flushed)
    writer.run("out.write(data)", data=unflushed)
    writer.kill()
    survived = store.read(path)
    assert survived.startswith(flushed)
    assert (flushed + unflushed).startswith(survived)


@pytest.mark.rule("HFLUSH-12")
@pytest.mark.stores("raw")
@pytest.mark.shim
def test_interrupted_wait_leaves_the_stream_open(
    store: Store, faults: Faults, path: str, operation: str
) -> None:
    """HFLUSH-12: Ctrl-C gets through while a sync waits; the stream goes on as if nothing were."""
    out = store.fs.create(path)
    out.write(b"one")
    with faults.gate("sync", limit=1) as gate:
        blocked = Task(out.hsync)
        gate.wait_for(1)
        out.write(b"two")
        with pytest.raises(KeyboardInterrupt):
            interrupted(sync_by(out, operation))
        assert blocked.is_alive()
        assert not out.closed
    blocked.result()
    out.hflush()
    assert store.read(path) == b"onetwo"
    out.write(b"three")
    out.hsync()
    out.close()
    assert store.read(path) == b"onetwothree"


@pytest.mark.rule("HFLUSH-13", "HSYNC-2")
@pytest.mark.stores("raw", "hdfs")
def test_failed_sync_fails_the_stream(store: Store, path: str, out: Stream, operation: str) -> None:
    """HFLUSH-13: a failure is raised with the path, and the stream is failed."""
    out.write(bytes(1000))
    with store.full(10), pytest.raises(OSError, match=store.full_text) as caught:
        sync_by(out, operation)()
    assert caught.value.filename == store.filename(path)
    with pytest.raises(hflush.StreamClosedError, match="failed"):
        out.write(b"x")
    with pytest.raises(OSError, match=store.full_text):
        out.close()
    assert store.fs.get_file_status(path).length <= 10


@pytest.mark.rule("HFLUSH-14", "CAP-6")
def test_hflush_and_hsync_come_together(store: Store, out: Stream) -> None:
    """HFLUSH-14: both capabilities have one answer."""
    answer = out.has_capability("hsync")
    assert out.has_capability("hflush") is answer
    assert store.options["supports-hflush"] is store.options["supports-hsync"] is answer


@pytest.mark.rule("HFLUSH-15")
@pytest.mark.stores("raw", "hdfs")
def test_cost_of_sync_is_documented_and_counted(out: Stream) -> None:
    """HFLUSH-15: the docs warn of a sync per record, and counters show it."""
    for sync in (Stream.hflush, Stream.hsync):
        assert "every line or record, unless in a write-ahead log" in docstring(sync)
    for number in range(5):
        out.write(b"%d" % number)
        out.hflush()
        out.hsync()
    counters = out.io_statistics().counters
    assert (counters["op_hflush"], counters["op_hsync"]) == (5, 5)


@pytest.mark.rule("HFLUSH-16", "LIM-3")
@pytest.mark.stores("raw")
@pytest.mark.shim
def test_nothing_syncs_behind_the_caller(store: Store, faults: Faults, path: str) -> None:
    """HFLUSH-16: an idle open stream keeps what it buffers: no hidden sync, no timer."""
    out = store.fs.create(path)
    out.write(bytes(10))
    before = faults.position
    with store.fs.create(store.path("other")) as other:  # life goes on elsewhere
        for _ in range(200):
            other.write(bytes(MIB // 8))
            other.hflush()
    assert faults.calls("write", "sync", path="*/file", since=before) == []
    assert store.read(path) == b""
    out.close()
    assert store.read(path) == bytes(10)
