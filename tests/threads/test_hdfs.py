"""HDFS: one loop thread, many callers: readers, writers, closers and those who are interrupted."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
from functools import partial

import hflush
import pytest
from support.data import dataset, frame, parse_frames
from support.interrupts import interrupted, waits_in_kernel
from support.stores import HdfsStore
from support.waiting import DEADLINE_S, Task, together, wait_until
from threads.rounds import rounds

MIB = 1 << 20

pytestmark = pytest.mark.stores("hdfs")


@pytest.mark.rule("READ-11", "READ-10")
def test_positioned_reads_of_many_threads(store: HdfsStore) -> None:
    """Threads read at positions of one reader while another reads on: all exact, none disturbed."""
    data = random.Random(5).randbytes(3 * MIB)
    path = store.path("file")
    with store.fs.create(path, block_size=MIB) as out:
        out.write(data)

    with store.fs.open(path) as reader:

        def read_at(thread: int) -> None:
            chance = random.Random(thread)
            for _ in range(rounds(40)):
                at, length = chance.randrange(len(data)), chance.choice((1, 511, 70_000, MIB))
                assert reader.pread(at, length) == data[at : at + length]

        def read_on() -> bytes:
            return b"".join(iter(lambda: bytes(reader.read(30_011)), b""))

        *_, whole = together(*(partial(read_at, thread) for thread in range(6)), read_on)
    assert whole == data


@pytest.mark.rule("HSYNC-3", "CONC-4")
def test_waiting_syncs_share_one(store: HdfsStore) -> None:
    """Twenty hsyncs that wait together cost the disks few syncs, and cover every byte."""
    out = store.fs.create(store.path("file"))
    out.write(frame(99, 0, 100))
    out.hsync()
    before = store.hdfs.fsync_counts()
    with store.hdfs.paused():

        def append(thread: int) -> None:
            out.write(frame(thread, 0, 300))
            out.hsync()

        tasks = [Task(append, thread) for thread in range(20)]
        for task in tasks:
            wait_until(
                lambda task=task: task.native_id is not None and waits_in_kernel(task.native_id),
                "it waits",
            )
    for task in tasks:
        task.result()
    synced = {count - before[port] for port, count in store.hdfs.fsync_counts().items()}
    assert max(synced) < 10
    found = {thread for thread, _, _ in parse_frames(store.content(store.path("file")))}
    assert found == {99, *range(20)}
    out.close()


@pytest.mark.rule("CONC-13", "HDFS-2", "CLOSE-8")
def test_streams_that_begin_and_end_everywhere(store: HdfsStore) -> None:
    """Streams opened, written, abandoned and closed by eight threads on one client."""

    def live(thread: int) -> None:
        chance = random.Random(thread)
        for turn in range(rounds(25)):
            path = store.path(f"{thread}-{turn}")
            out = store.fs.create(path, replication=1, block_size=MIB)
            data = dataset(chance.choice((0, 1, 600, 70_000, 3 * MIB // 2)), thread)
            out.write(data)
            if chance.random() < 0.5:
                chance.choice((out.hflush, out.hsync))()
            if turn % 5 == 4:
                out._abandon()
                continue
            out.close()
            assert store.read(path) == data

    together(*(partial(live, thread) for thread in range(8)))


@pytest.mark.rule("HFLUSH-12", "CONC-5")
def test_interrupts_while_others_wait(store: HdfsStore) -> None:
    """Ctrl-C gets through to the main thread's hsync; the waits of other threads end well."""
    out = store.fs.create(store.path("file"))
    out.write(b"begin")
    out.hflush()
    for turn in range(rounds(10)):
        with store.hdfs.paused():
            out.write(b"%03d" % turn)
            others = [Task(out.hflush) for _ in range(3)]
            with pytest.raises(KeyboardInterrupt):
                interrupted(out.hsync)
            assert not out.closed
        for other in others:
            other.result()
    out.close()
    expected = b"begin" + b"".join(b"%03d" % turn for turn in range(rounds(10)))
    assert store.content(store.path("file")) == expected


@pytest.mark.rule("CONC-5", "HSYNC-12")
@pytest.mark.filterwarnings("ignore::hflush.NotPublishedWarning")
def test_data_nodes_that_go_while_many_wait(store: HdfsStore) -> None:
    """A DataNode dies under ten syncing threads: all are told, none waits for ever."""
    out = store.fs.create(store.path("file"))
    out.write(frame(99, 0, 100))
    out.hsync()
    acknowledged: list[tuple[int, int]] = []
    begun = threading.Event()

    def append(thread: int) -> None:
        for number in itertools.count():
            out.write(frame(thread, number, 200))
            out.hsync()
            acknowledged.append((thread, number))
            if len(acknowledged) > 50:
                begun.set()

    tasks = [Task(append, thread) for thread in range(10)]
    assert begun.wait(DEADLINE_S)
    with store.hdfs.stopped(store.hdfs.ports[0]):
        for task in tasks:
            task.join(DEADLINE_S)
            assert not task.is_alive()
            assert isinstance(task.error, OSError)
        with contextlib.suppress(OSError):
            out.close()
    store.hdfs.recover_lease(store.path("file"))
    content = store.content(store.path("file"))
    assert set(acknowledged) <= frames_of(content)


def frames_of(content: bytes) -> set[tuple[int, int]]:
    """The whole frames at the front of what survived."""
    found = set()
    at = 0
    while at + 20 <= len(content):
        size = int(content[at + 11 : at + 19])
        if at + 21 + size > len(content):
            break
        ((thread, number, _),) = parse_frames(content[at : at + 21 + size])
        found.add((thread, number))
        at += 21 + size
    return found


@pytest.mark.rule("CONC-12")
def test_clients_of_many_threads_end_together(store: HdfsStore) -> None:
    """File systems made, used and closed by many threads at once."""

    def use(thread: int) -> None:
        for turn in range(rounds(10)):
            fs = store.new_client()
            path = store.path(f"{thread}-{turn}")
            out = fs.create(path, replication=1)
            out.write(dataset(1000))
            fs.close()  # closes the stream
            assert out.closed
            with hflush.open(store.url(path), "rb", conf=store.conf) as reader:
                assert reader.read() == dataset(1000)

    together(*(partial(use, thread) for thread in range(6)))
