"""FLUSH, HFLUSH, HSYNC and CLOSE on HDFS: what reaches the DataNodes, and their disks, and when."""

from __future__ import annotations

import contextlib
import errno
import itertools
import time
from collections.abc import Callable
from functools import partial

import hflush
import pytest
from support.data import dataset, frame, parse_frames
from support.documentation import docstring
from support.interrupts import interrupt_main_thread, interrupted, waits_in_kernel
from support.stores import HdfsStore
from support.waiting import DEADLINE_S, Task, together, wait_until

Stream = hflush.FSDataOutputStream

MIB = 1 << 20
PACKETS_IN_FLIGHT = 80
PACKET = 64 << 10

pytestmark = pytest.mark.stores("hdfs")


def waiting_task(call: Callable[[], object]) -> Task:
    """Start a call in a thread; return when it waits."""
    task = Task(call)
    wait_until(
        lambda: task.native_id is not None and waits_in_kernel(task.native_id), "the call waits"
    )
    return task


def created(store: HdfsStore, path: str, first: bytes = b"one") -> Stream:
    """A stream whose first block has a pipeline and these bytes."""
    out = store.fs.create(path)
    out.write(first)
    out.hflush()
    return out


# --- waiting ---


@pytest.mark.rule("HFLUSH-4", "HSYNC-5", "CLOSE-2", "CLOSE-14", "CAP-15", "CONC-11", "FAIL-8")
@pytest.mark.parametrize("operation", ["hflush", "hsync", "close"])
def test_waits_for_the_data_nodes(store: HdfsStore, path: str, operation: str) -> None:
    """Nothing returns before every DataNode has answered; other threads and probes go on."""
    out = created(store, path)
    with store.hdfs.paused():
        out.write(b"two")
        waiting = waiting_task(getattr(out, operation))
        assert Task(lambda: sum(range(100_000))).result() == 4_999_950_000
        assert out.has_capability("hsync")
        assert out.tell() == 6
        assert waiting.is_alive()
    assert waiting.result() is None
    assert store.content(path) == b"onetwo"
    out.close()


@pytest.mark.rule("FLUSH-2", "FLUSH-8", "WRITE-13")
def test_while_close_waits(store: HdfsStore, path: str) -> None:
    """While close waits for the DataNodes, flush is a quiet no-op and a write is refused."""
    out = created(store, path)
    out.write(b"two")
    with store.hdfs.paused():
        closing = waiting_task(out.close)
        assert Task(out.flush).result() is None
        with pytest.raises(hflush.StreamClosedError):
            out.write(b"three")
    closing.result()
    assert store.content(path) == b"onetwo"


@pytest.mark.rule("HFLUSH-12")
@pytest.mark.parametrize("operation", ["hflush", "hsync"])
def test_interrupted_sync_leaves_the_stream_open(
    store: HdfsStore, path: str, operation: str
) -> None:
    """Ctrl-C gets through while a sync waits; the stream goes on as if nothing were."""
    out = created(store, path)
    with store.hdfs.paused():
        out.write(b"two")
        with pytest.raises(KeyboardInterrupt):
            interrupted(getattr(out, operation))
        assert not out.closed
        out.write(b"three")
    out.hsync()
    assert store.content(path) == b"onetwothree"
    out.write(b"four")
    out.close()
    assert store.content(path) == b"onetwothreefour"


@pytest.mark.rule("CLOSE-10")
def test_interrupted_close_is_no_success(store: HdfsStore, path: str) -> None:
    """Ctrl-C while close waits is raised from it; a second close retries nothing."""
    out = created(store, path)
    with store.hdfs.paused():
        out.write(b"two")
        with pytest.raises(KeyboardInterrupt):
            interrupted(out.close)
        assert out.close() is None
    with pytest.raises(hflush.StreamClosedError):
        out.write(b"x")
    store.hdfs.recover_lease(path)
    assert b"onetwo".startswith(store.content(path))
    assert store.content(path).startswith(b"one")


@pytest.mark.rule("CONC-5")
def test_close_while_others_wait_in_sync(store: HdfsStore, path: str) -> None:
    """Close ends all waiting syncs: success or StreamClosedError, and no deadlock."""
    out = created(store, path)
    with store.hdfs.paused():
        out.write(b"two")
        waiting = [waiting_task(operation) for operation in [out.hsync, out.hflush] * 3]
        closing = Task(out.close)
    closing.result()
    for task in waiting:
        task.join(DEADLINE_S)
        assert not task.is_alive()
        assert task.error is None or isinstance(task.error, hflush.StreamClosedError)
    assert out.closed
    assert store.content(path) == b"onetwo"


@pytest.mark.rule("WRITE-22", "HDFS-8")
def test_back_pressure_bounds_what_is_held(store: HdfsStore, path: str) -> None:
    """Where the DataNodes take nothing, write blocks once the window is full."""
    window = int(store.options["max-write-window"])
    assert window == PACKETS_IN_FLIGHT * PACKET
    out = created(store, path, b"")
    total = 4 * window // MIB
    accepted: list[int] = []

    def write_all() -> None:
        for number in range(total):
            out.write(bytes(MIB))
            accepted.append(number)

    with store.hdfs.paused():
        writing = waiting_task(write_all)
        assert len(accepted) * MIB <= 2 * window  # the window, and what the sockets hold
        assert writing.is_alive()
    writing.result()
    out.close()
    assert store.size(path) == total * MIB


# --- flush ---


@pytest.mark.rule("FLUSH-3", "FLUSH-4", "FLUSH-5")
@pytest.mark.rule("FLUSH-7", divergence="hdfs")
def test_flush_is_no_sync(store: HdfsStore, path: str) -> None:
    """Flush moves whole chunks into packets: no sync, not counted as one, the length unchanged."""
    before = store.hdfs.fsync_counts()
    calls = store.hdfs.calls("fsync")
    with store.fs.create(path) as out:
        for _ in range(100):
            out.write(dataset(600))
            out.flush()
        counters = out.io_statistics().counters
        assert (counters.get("op_hflush", 0), counters.get("op_hsync", 0)) == (0, 0)
        assert store.fs.get_file_status(path).length == 0
        assert store.options["flush-makes-visible"] is False
    assert store.hdfs.fsync_counts() == before
    assert store.hdfs.calls("fsync") == calls
    assert "never a sync" in docstring(Stream.flush)


@pytest.mark.rule("HFLUSH-16", "LIM-3", "WRITE-8")
def test_nothing_syncs_behind_the_caller(store: HdfsStore, path: str) -> None:
    """An idle open stream keeps what it buffers; a write of nothing sends nothing."""
    out = store.fs.create(path)
    out.write(bytes(10))
    out.write(b"")
    with store.fs.create(store.path("other")) as other:  # life goes on elsewhere
        for _ in range(50):
            other.write(bytes(MIB // 8))
            other.hflush()
    assert store.hdfs.java.block_lengths(path) == []
    assert store.content(path) == b""
    out.close()
    assert store.content(path) == bytes(10)


@pytest.mark.rule("WRITE-8", "HSYNC-9", "HFLUSH-9")
def test_nothing_written_makes_no_block(store: HdfsStore, path: str, out: Stream) -> None:
    """Empty writes, hflush and hsync of an empty file ask for no block and sync nothing."""
    before = store.hdfs.fsync_counts()
    blocks = store.hdfs.calls("addBlock")
    for operation in (out.hflush, out.hsync, lambda: out.write(b""), out.hsync):
        operation()
    assert store.hdfs.java.block_lengths(path) == []
    assert store.hdfs.calls("addBlock") == blocks
    assert store.hdfs.fsync_counts() == before


# --- disks ---


def synced_since(store: HdfsStore, before: dict[int, int]) -> set[int]:
    """How many syncs each DataNode did since; one number if they agree."""
    return {count - before[port] for port, count in store.hdfs.fsync_counts().items()}


@pytest.mark.rule("HFLUSH-5", "HFLUSH-7")
def test_hflush_promises_no_durability(store: HdfsStore, path: str, out: Stream) -> None:
    """Hflush leaves the bytes in memory of the DataNodes, and counts no hsync."""
    before = store.hdfs.fsync_counts()
    out.write(b"abc")
    out.hflush()
    assert synced_since(store, before) == {0}
    counters = out.io_statistics().counters
    assert (counters["op_hflush"], counters["op_hsync"]) == (1, 0)


@pytest.mark.rule("HSYNC-3", "HSYNC-4", "HSYNC-9", "HDFS-14")
def test_every_hsync_of_new_bytes_syncs_every_replica(
    store: HdfsStore, path: str, out: Stream
) -> None:
    """FsyncCount of every DataNode is 0, 1, 2 over an hsync of nothing and two of new bytes."""
    before = store.hdfs.fsync_counts()
    out.hsync()
    for count in (0, 1, 2):
        if count:
            out.write(dataset(1000))
            out.hsync()
        assert synced_since(store, before) == {count}
    assert out.io_statistics().counters["op_hsync"] == 3


@pytest.mark.rule("HSYNC-9", "HDFS-14", "HFLUSH-5")
def test_every_hsync_of_an_append_syncs_every_replica(store: HdfsStore, path: str) -> None:
    """With SYNC_BLOCK: an hflush or an hsync of nothing syncs nothing, an hsync does, and close."""
    store.write(path)
    before = store.hdfs.fsync_counts()
    flags = {hflush.CreateFlag.APPEND, hflush.CreateFlag.SYNC_BLOCK}
    with store.fs.append(path, flags=flags) as out:
        out.hflush()
        out.hsync()
        out.write(b"x")
        assert synced_since(store, before) == {0}
        out.hsync()
        assert synced_since(store, before) == {1}
        out.hflush()
        assert synced_since(store, before) == {1}
    assert synced_since(store, before) == {2}


@pytest.mark.rule("HSYNC-7", divergence="hdfs")
@pytest.mark.rule("HSYNC-8")
def test_hsync_covers_the_blocks_before(store: HdfsStore, path: str) -> None:
    """Declared divergence, for the better: the first hsync syncs each earlier block, too.

    On every DataNode, whether or not it has reported its replica by then. Later ones do not sync
    them again: a block that ends from then on is synced at its end.
    """
    assert store.options["hsync-covers-all-blocks"] is True
    before = store.hdfs.fsync_counts()
    out = store.fs.create(path, block_size=MIB)
    out.write(dataset(2 * MIB + MIB // 2))
    out.hflush()
    assert synced_since(store, before) == {0}
    out.hsync()
    assert synced_since(store, before) == {3}
    out.hsync()
    assert synced_since(store, before) <= {3, 4}
    (count,) = synced_since(store, before)
    out.write(dataset(MIB))  # ends the third block
    out.hflush()
    assert synced_since(store, before) == {count + 1}
    out.close()
    assert store.content(path) == dataset(2 * MIB + MIB // 2) + dataset(MIB)


@pytest.mark.rule("HSYNC-8")
@pytest.mark.rule("CLOSE-12", divergence="hdfs")
def test_sync_block_syncs_each_block_at_its_end(store: HdfsStore, path: str) -> None:
    """With SYNC_BLOCK each finished block is synced, the last one by close."""
    before = store.hdfs.fsync_counts()
    flags = {hflush.CreateFlag.CREATE, hflush.CreateFlag.SYNC_BLOCK}
    out = store.fs.create(path, block_size=MIB, flags=flags)
    out.write(dataset(2 * MIB + MIB // 2))
    out.hflush()
    assert synced_since(store, before) == {2}
    out.close()
    assert synced_since(store, before) == {3}


@pytest.mark.rule("CLOSE-12", divergence="hdfs")
@pytest.mark.rule("CLOSE-13")
def test_close_declares_that_it_does_not_sync(store: HdfsStore, path: str) -> None:
    """Close gives visibility only and says so; the option makes it durable."""
    assert store.options["sync-on-close"] is False
    assert "durable only after :meth:`hsync`" in docstring(Stream.close)
    before = store.hdfs.fsync_counts()
    store.write(path, b"abc")
    assert synced_since(store, before) == {0}
    with hflush.create(store.url(path), conf=store.conf, sync_on_close=True) as out:
        out.write(b"abc")
    assert synced_since(store, before) == {1}


@pytest.mark.rule("CLOSE-13", "HDFS-14")
def test_hsync_then_close_is_durable(store: HdfsStore, path: str) -> None:
    """No data follows the packet that hsync marked; the one that ends the block syncs, too."""
    with store.hdfs.packets() as packets, store.fs.create(path, replication=1) as out:
        out.write(dataset(300_000))
        out.hsync()
    assert sum(packet.length for packet in packets) >= 300_000
    data = [packet for packet in packets if packet.length]
    assert data[-1].syncs
    assert (packets[-1].is_last, packets[-1].length, packets[-1].syncs) == (True, 0, True)


@pytest.mark.rule("HSYNC-13")
def test_hsync_on_a_block_boundary(store: HdfsStore, path: str) -> None:
    """Exactly one block, hflush, hsync, one byte, hsync: nothing is lost, no block is empty."""
    before = store.hdfs.fsync_counts()
    out = store.fs.create(
        path, block_size=MIB, flags={hflush.CreateFlag.CREATE, hflush.CreateFlag.SYNC_BLOCK}
    )
    out.write(dataset(MIB))
    out.hflush()
    out.hsync()
    assert synced_since(store, before) == {1}
    assert store.hdfs.java.block_lengths(path) == [MIB]
    out.write(b"x")
    out.hsync()
    assert synced_since(store, before) == {2}
    out.close()
    assert store.hdfs.java.block_lengths(path) == [MIB, 1]
    assert store.content(path) == dataset(MIB) + b"x"


@pytest.mark.rule("HSYNC-13", "HDFS-12")
@pytest.mark.parametrize("operation", ["hflush", "hsync", "flush"])
def test_a_file_of_whole_blocks_has_no_empty_one(
    store: HdfsStore, path: str, operation: str
) -> None:
    """A file that ends with a block has no further one, however it got there."""
    with store.fs.create(path, block_size=MIB) as out:
        for _ in range(2):
            out.write(dataset(MIB))
            getattr(out, operation)()
            getattr(out, operation)()
    assert store.hdfs.java.block_lengths(path) == [MIB, MIB]
    assert store.content(path) == dataset(MIB) * 2


# --- the end of a block ---


def lengths(store: HdfsStore, path: str) -> list[int]:
    """The lengths of a file's blocks, as Java's client and ours see them."""
    ours = store.fs.get_file_block_locations(path, 0, 1 << 40)
    assert [block.offset for block in ours] == list(
        itertools.accumulate((block.length for block in ours[:-1]), initial=0)
    )[: len(ours)]
    assert store.hdfs.java.block_lengths(path) == [block.length for block in ours]
    return [block.length for block in ours]


@pytest.mark.rule("HSYNC-17", "HSYNC-13", "HFLUSH-9")
def test_end_block(store: HdfsStore, path: str) -> None:
    """The block ends at the sync; one that is full or empty is not ended again."""
    out = store.fs.create(path, block_size=MIB)
    assert out.has_capability(hflush.capabilities.END_BLOCK)
    out.hsync(end_block=True)
    assert store.hdfs.java.block_lengths(path) == []
    written = b""
    for size, expected in [
        (1000, [1000]),
        (0, [1000]),
        (511, [1000, 511]),
        (MIB, [1000, 511, MIB]),
        (MIB + 5, [1000, 511, MIB, MIB, 5]),
    ]:
        written += dataset(size, size % 7)
        out.write(dataset(size, size % 7))
        if size == 511:
            out.hsync()  # of part of a chunk, which then ends where it is
        out.hsync(True)
        assert lengths(store, path) == expected
        assert store.content(path) == written
    out.write(b"the rest")
    out.close()
    assert lengths(store, path) == [1000, 511, MIB, MIB, 5, 8]
    assert store.content(path) == store.read(path) == written + b"the rest"
    assert out.io_statistics().counters["op_hsync"] == 7
    assert out.io_statistics().counters["hdfs_blocks"] == 6
    assert fsck(store, path).count("Status: HEALTHY") == 1
    store.fs.append(path).close()
    assert store.fs.recover_lease(path) is True


def fsck(store: HdfsStore, path: str) -> str:
    """What `hdfs fsck` prints of a file."""
    java = store.hdfs.jvm.java
    printed = java.java.io.ByteArrayOutputStream()
    configuration = store.hdfs.cluster.java.getConfiguration(0)
    check = java.org.apache.hadoop.hdfs.tools.DFSck(
        configuration, java.java.io.PrintStream(printed)
    )
    assert check.run(store.hdfs.jvm.strings(path, "-files", "-blocks")) == 0
    return str(printed.toString())


@pytest.mark.rule("HSYNC-17", "APPEND-8")
@pytest.mark.parametrize("existing", [1, 1000, 1024, MIB])
def test_end_block_in_an_append(store: HdfsStore, path: str, existing: int) -> None:
    """In the first chunk too, flushed before or not; another append goes on in the last block."""
    store.fs.create(path, block_size=MIB).close()
    written = dataset(existing)
    with store.fs.append(path) as out:
        out.write(written)
    blocks = [MIB, 7] if existing == MIB else [existing + 7]
    with store.fs.append(path) as out:
        out.write(b"12345")
        out.hflush()
        out.write(b"67")
        out.hflush()
        out.hsync(end_block=True)
        out.write(dataset(2000))
        out.hflush()
        assert lengths(store, path) == [*blocks, 2000]
        assert store.content(path) == written + b"1234567" + dataset(2000)
        out.write(dataset(PACKET))
    written += b"1234567" + dataset(2000) + dataset(PACKET)
    assert lengths(store, path) == [*blocks, 2000 + PACKET]
    assert store.content(path) == written
    with store.fs.append(path) as out:
        out.hsync(end_block=True)  # of the block that it found
        out.write(b"x")
        out.hsync(end_block=True)
    assert lengths(store, path) == [*blocks, 2000 + PACKET, 1]
    with store.hdfs.java.append(path) as java:
        java.write(b"Java")
    assert lengths(store, path) == [*blocks, 2000 + PACKET, 5]
    assert store.content(path) == store.read(path) == written + b"xJava"


@pytest.mark.rule("HSYNC-17", "HSYNC-3")
def test_end_block_syncs_once(store: HdfsStore, path: str, out: Stream) -> None:
    """Every DataNode syncs the block at its end; a later hsync or close does not open it again."""
    before = store.hdfs.fsync_counts()
    out.write(dataset(100_000))
    out.hsync(end_block=True)
    assert synced_since(store, before) == {1}
    out.hsync()
    out.hsync(end_block=True)
    assert synced_since(store, before) == {1}
    out.write(b"x")
    out.hsync()
    assert synced_since(store, before) == {2}
    assert out.io_statistics().counters["hdfs_replicas_synced_afterwards"] == 0


@pytest.mark.rule("HSYNC-17", "HSYNC-11")
def test_end_block_and_update_length(store: HdfsStore, path: str) -> None:
    """With UPDATE_LENGTH the NameNode's length is exact behind each block's end."""
    with store.fs.create(path, update_length=True) as out:
        for section in range(1, 6):
            out.write(dataset(1234))
            out.hsync(end_block=section % 2 == 0)
            assert store.fs.get_file_status(path).length == section * 1234
    assert lengths(store, path) == [2468, 2468, 1234]


@pytest.mark.rule("HSYNC-17", "CONC-1", "CONC-2", "HSYNC-2")
def test_end_block_by_many_threads(store: HdfsStore, path: str) -> None:
    """Sixteen threads write and end blocks: each record whole, and none in two blocks."""
    out = store.fs.create(path, block_size=MIB)

    def write(thread: int) -> None:
        for index in range(25):
            out.write(frame(thread, index, thread * 37 % 300))
            turn = (index * 7 + thread) % 10
            if turn == 0:
                out.hsync(end_block=True)
            elif turn in (3, 6):
                out.hsync()
            elif turn == 8:
                out.hflush()

    together(*[partial(write, thread) for thread in range(16)])
    out.hsync(end_block=True)
    content = store.content(path)
    assert sorted((thread, index) for thread, index, _ in parse_frames(content)) == [
        (thread, index) for thread in range(16) for index in range(25)
    ]
    blocks = lengths(store, path)
    assert len(blocks) > 1
    for start, length in zip(itertools.accumulate(blocks, initial=0), blocks, strict=False):
        parse_frames(content[start : start + length])
    out.close()
    assert store.content(path) == content


@pytest.mark.rule("HSYNC-17", "HFLUSH-12")
def test_interrupted_end_of_a_block(store: HdfsStore, path: str) -> None:
    """Ctrl-C gets through; the stream goes on, in another block."""
    out = created(store, path)
    with store.hdfs.paused():
        out.write(b"two")
        with pytest.raises(KeyboardInterrupt):
            interrupted(lambda: out.hsync(end_block=True))
        assert not out.closed
        out.write(b"three")
    out.hsync(end_block=True)
    assert lengths(store, path) == [6, 5]
    out.close()
    assert store.content(path) == b"onetwothree"


@pytest.mark.rule("HSYNC-17", "HDFS-10", "HSYNC-12")
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_node_dies_while_hsync_ends_a_block(store: HdfsStore, path: str, place: int) -> None:
    """Before the last acknowledgement: the block ends without that node, synced on the others."""
    policy = "dfs.client.block.write.replace-datanode-on-failure.policy"
    fs = store.hdfs.file_system({policy: "NEVER"})
    for attempt in range(10):  # until the node dies in time: how late an ack is, is chance
        file = f"{path}{attempt}"
        out = fs.create(file)
        out.write(dataset(70_000))
        out.hsync()
        with store.hdfs.acks_delayed(2000):
            ending = Task(out.hsync, True)
            block = store.hdfs.block(file)
            wait_until(
                lambda block=block: any(
                    "finalized" in str(store.hdfs.block_file(port, block))
                    for port in store.hdfs.ports
                ),
                "a node has ended its replica",
            )
            stopped = store.hdfs.cluster.stop_data_node(store.hdfs.ports[place])
        try:
            ending.result()
            out.write(b"behind it")
            out.hsync()
            assert store.content(file) == dataset(70_000) + b"behind it"
            out.close()
            assert store.hdfs.java.block_lengths(file) == [70_000, 9]
        finally:
            store.hdfs.restart(stopped)
            fs.delete(file)  # it is not replicated again while later tests look at packets
        if out.io_statistics().counters["hdfs_pipeline_recoveries"] >= 1:
            return
    pytest.fail("no node died in time")


@pytest.mark.rule("HSYNC-10", divergence="hdfs")
@pytest.mark.rule("HSYNC-11", "HDFS-20", "STATUS-14")
def test_the_length_lags_behind_hsync(store: HdfsStore, path: str) -> None:
    """Declared divergence: the NameNode's length grows with the blocks, readers see everything."""
    assert store.options["metadata_updated_on_hsync"] is False
    out = store.fs.create(path, block_size=MIB)
    lengths = []
    for section in range(1, 6):
        out.write(dataset(MIB // 2 + 100))
        out.hsync()
        written = section * (MIB // 2 + 100)
        lengths.append(store.fs.get_file_status(path).length)
        assert lengths[-1] <= written
        assert store.size(path) == written
    assert lengths == sorted(lengths)
    assert lengths[-1] >= 2 * MIB  # two blocks are complete
    out.close()
    assert store.fs.get_file_status(path).length == 5 * (MIB // 2 + 100)


@pytest.mark.rule("HSYNC-11", "HDFS-15")
@pytest.mark.parametrize("form", ["create", "append"])
def test_the_length_is_exact_on_request(store: HdfsStore, path: str, form: str) -> None:
    """With UPDATE_LENGTH the NameNode's length is exact after each of ten sections."""
    if form == "append":
        store.write(path)
    with getattr(store.fs, form)(path, update_length=True) as out:
        for section in range(1, 11):
            out.write(dataset(1234))
            out.hsync()
            assert store.fs.get_file_status(path).length == section * 1234


@pytest.mark.rule("HSYNC-12", "HFLUSH-13", "FAIL-2", "HDFS-9")
@pytest.mark.parametrize("operation", ["hflush", "hsync"])
def test_a_failed_sync_is_never_reported_as_done(
    store: HdfsStore, path: str, operation: str
) -> None:
    """Without another DataNode to replace it, the sync fails; no later call reports success."""
    out = created(store, path)
    with store.hdfs.stopped(store.hdfs.java.hosts(path)[0][0]):
        with pytest.raises(OSError, match=r"127\.0\.0\.1") as caught:
            write_and(out, operation)
        assert caught.value.filename == path
        for later in (out.hsync, out.hflush, lambda: out.write(b"x")):
            with pytest.raises(OSError, match="failed"):
                later()
        with pytest.raises(OSError, match=r"127\.0\.0\.1"):
            out.close()
        assert out.close() is None
    store.hdfs.recover_lease(path)
    assert b"onetwo".startswith(store.content(path))
    assert store.content(path).startswith(b"one")


def write_and(out: Stream, operation: str) -> None:
    out.write(b"two")
    getattr(out, operation)()


# --- background ---


@pytest.mark.rule("CLOSE-15", "CLOSE-9")
def test_blocks_are_sent_before_close(store: HdfsStore, path: str) -> None:
    """After three blocks were written the first ones are with the DataNodes; close has the rest."""
    out = store.fs.create(path, block_size=MIB)
    out.write(dataset(3 * MIB + 1))
    wait_until(lambda: store.size(path) >= 2 * MIB, "two blocks are there")
    out.close()
    assert store.content(path) == dataset(3 * MIB + 1)


@pytest.mark.rule("WRITE-20", "CLOSE-9", "FAIL-13")
@pytest.mark.parametrize("report", ["write", "hflush", "hsync", "close"])
def test_background_failure_is_reported(store: HdfsStore, path: str, report: str) -> None:
    """What failed in the background is raised by the next call, with the path."""
    out = store.fs.create(path, block_size=MIB)
    out.write(dataset(1000))
    out.hflush()
    with store.full(0):
        out.write(bytes(MIB))  # the block after this one is refused
        with pytest.raises(OSError, match="quota") as caught:
            provoke(out, report)
    assert (caught.value.errno, caught.value.filename) == (errno.EDQUOT, path)
    if report != "close":
        with pytest.raises(hflush.StreamClosedError, match="failed"):
            out.write(b"x")
        with pytest.raises(OSError, match="quota"):
            out.close()
    assert out.close() is None


def provoke(out: Stream, report: str) -> None:
    """Make the call: writes until one raises."""
    if report != "write":
        getattr(out, report)()
        return
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        out.write(b"x")


@pytest.mark.rule("FAIL-14")
def test_error_survives_the_way_from_the_core(store: HdfsStore, path: str) -> None:
    """An error of the NameNode keeps path, errno and message, from a thread and pickled."""
    peer = store.second_client()
    peer.run("out = fs.create(path)", path=path)
    with store.full(0), pytest.raises(OSError, match="quota") as caught:
        peer.run(
            "from support.waiting import Task\n"
            "Task(out.write, bytes(8 << 20)).result()\n"
            "out.close()"
        )
    assert (caught.value.errno, caught.value.filename) == (errno.EDQUOT, path)


@pytest.mark.rule("CLOSE-10", "CLOSE-22")
def test_interrupt_of_one_close_is_not_of_another(store: HdfsStore, path: str) -> None:
    """A thread that closes goes on while the main thread's close is interrupted."""
    out = created(store, path)
    out.write(b"two")
    with store.hdfs.paused():
        closing = waiting_task(out.close)
        interrupting = interrupt_main_thread()
        with contextlib.suppress(KeyboardInterrupt):
            out.close()
            interrupting.result()
        interrupting.result()
        assert closing.is_alive()
    closing.result()
    assert store.content(path) == b"onetwo"
