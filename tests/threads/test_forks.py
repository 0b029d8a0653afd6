"""fork: a stream belongs to the process that opened it; the child works with its own."""

from __future__ import annotations

import gc
import threading
import warnings

import hflush
import pytest
from support.data import dataset, frame, parse_frames
from support.forks import in_child
from support.stores import Store
from support.waiting import Task
from threads.rounds import rounds


@pytest.mark.rule("CONC-12")
def test_parents_stream_raises_in_the_child(store: Store) -> None:
    """The child can do nothing with the parent's bytes; the parent goes on undisturbed."""
    path = store.path("file")
    out = store.fs.create(path)
    out.write(b"parent ")

    def child() -> None:
        calls = [lambda: out.write(b"child"), lambda: out.write_byte(1)]
        if out.has_capability("hsync"):
            calls += [out.hflush, out.hsync]  # type: ignore[list-item]
        for call in calls:
            with pytest.raises(OSError, match="before fork") as caught:
                call()
            assert caught.value.filename == store.filename(path)
        try:
            out.flush()
            out.close()
        except OSError:
            pass

    in_child(child)
    out.write(b"goes on")
    out.close()
    assert store.read(path) == b"parent goes on"


@pytest.mark.rule("CONC-12", "CLOSE-21")
def test_child_drops_the_parents_stream(store: Store) -> None:
    """Collected in the child, the parent's stream is neither flushed nor warned about."""
    path = store.path("file")
    streams = [store.fs.create(path)]
    streams[0].write(b"parent")

    def child() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            streams.clear()
            gc.collect()

    in_child(child)
    streams[0].close()
    assert store.read(path) == b"parent"


@pytest.mark.rule("CONC-12", "CONC-13")
def test_new_streams_work_in_the_child(store: Store) -> None:
    """The child writes, syncs and closes files of its own with the file system it inherited."""
    store.write(store.path("before"), dataset(3 << 20))

    def child() -> None:
        path = store.path("child")
        with store.fs.create(path) as out:
            for _ in range(20):
                out.write(dataset(1 << 20))
            if out.has_capability("hsync"):
                out.hsync()
        assert store.read(path) == dataset(1 << 20) * 20

    in_child(child)
    assert store.fs.get_file_status(store.path("child")).length == 20 << 20


@pytest.mark.rule("CONC-12")
def test_fork_while_threads_write(store: Store) -> None:
    """Whatever the parent's threads hold at the moment of the fork, child and parent both go on."""
    path = store.path("file")
    out = store.fs.create(path)
    done, permits = threading.Event(), threading.Semaphore(0)

    def write(thread: int) -> int:
        number = 0
        while not done.is_set():
            if permits.acquire(timeout=0.1):
                out.write(frame(thread, number, 1000 + 50_000 * (number % 3)))
                if number % 10 == 0 and out.has_capability("hsync"):
                    out.hsync()
                number += 1
        return number

    def child() -> None:
        with pytest.raises(OSError, match="before fork"):
            out.write(b"child")
        own = store.write(store.path("child"), dataset(3 << 20))
        assert store.read(own) == dataset(3 << 20)

    writers = [Task(write, thread) for thread in range(3)]
    try:
        for _ in range(rounds(20)):
            permits.release(50)
            in_child(child)
    finally:
        done.set()
    counts = [writer.result() for writer in writers]
    out.close()
    found = parse_frames(store.read(path))
    for thread, count in enumerate(counts):
        assert [number for writer, number, _ in found if writer == thread] == list(range(count))


@pytest.mark.rule("CONC-12")
@pytest.mark.stores("raw", "crc", "s3")
def test_a_child_closes_its_file_system(store: Store) -> None:
    """The parent's streams are not its to end."""
    path = store.path("file")
    fs = hflush.FileSystem.new_instance(store.url(), store.conf)
    out = fs.create(path, atomic=True)
    out.write(b"parent")
    in_child(fs.close)
    out.close()
    assert store.read(path) == b"parent"


@pytest.mark.rule("CONC-12")
def test_grandchild(store: Store) -> None:
    """A fork of a fork: each process has its own streams only."""

    def child() -> None:
        own = store.fs.create(store.path("child"))
        own.write(b"child")

        def grandchild() -> None:
            with pytest.raises(OSError, match="before fork"):
                own.write(b"grandchild")
            assert store.read(store.write(store.path("grandchild"), b"own")) == b"own"

        in_child(grandchild)
        own.close()

    in_child(child)
    assert store.read(store.path("child")) == b"child"
    assert store.read(store.path("grandchild")) == b"own"
