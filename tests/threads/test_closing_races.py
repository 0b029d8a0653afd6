"""close against write, hsync and close: one attempt, nothing in part, no thread waits for ever."""

from __future__ import annotations

import itertools
import random
import threading
from functools import partial

import hflush
import pytest
from support.data import dataset, frame, parse_frames
from support.stores import Store
from support.waiting import DEADLINE_S, Task, together
from threads.rounds import rounds


def accepts(out: hflush.FSDataOutputStream, data: bytes) -> bool:
    """Whether the stream took the bytes, or was closed."""
    try:
        out.write(data)
    except hflush.StreamClosedError:
        return False
    return True


def write_until_closed(out: hflush.FSDataOutputStream, size: int) -> int:
    """Write up to twenty frames; return how many were accepted."""
    frames = (frame(0, number, size) for number in range(20))
    return sum(itertools.takewhile(bool, (accepts(out, data) for data in frames)))


def close_after(out: hflush.FSDataOutputStream, turns: int) -> None:
    """Close after so many turns of an empty loop."""
    for _ in range(turns):
        pass
    out.close()


@pytest.mark.rule("CONC-6", "WRITE-12")
def test_write_against_close(store: Store) -> None:
    """Many rounds: a write that races with close is in the file, or raises StreamClosedError."""
    path = store.path("file")
    sizes = [1, 100, 600, 5000, 70_000]
    chance = random.Random(store.name)
    refused = 0
    count = rounds(200 if store.name == "s3" else 1000)
    for number in range(count):
        out = store.fs.create(path)
        size = sizes[number % len(sizes)]
        accepted, _ = together(
            partial(write_until_closed, out, size), partial(close_after, out, chance.randrange(500))
        )
        refused += accepted < 20
        expected = [(0, sequence, size) for sequence in range(accepted)]
        assert parse_frames(store.read(path)) == expected
    assert refused or count < 100


@pytest.mark.rule("CLOSE-22", "LOCAL-4")
def test_close_against_close(store: Store) -> None:
    """Eight threads close at once: the file is complete, and no thread gets an error."""
    path = store.path("file")
    for number in range(rounds(50 if store.name == "s3" else 200)):
        out = store.fs.create(path)
        out.write(dataset(number * 37))
        together(*[out.close] * 8)
        assert out.closed
        assert store.read(path) == dataset(number * 37)


class Syncers:
    """Threads that write and sync until the stream is closed under them."""

    def __init__(self, out: hflush.FSDataOutputStream, sync: str) -> None:
        self.synced: list[tuple[int, int]] = []
        self.busy = threading.Event()
        self._out = out
        self._sync = getattr(out, sync)

    def run(self, thread: int) -> None:
        with pytest.raises(hflush.StreamClosedError):
            self._write_and_sync(thread)

    def _write_and_sync(self, thread: int) -> None:
        for number in itertools.count():
            self._out.write(frame(thread, number, 300))
            self._sync()
            self.synced.append((thread, number))
            if len(self.synced) > 30:
                self.busy.set()


@pytest.mark.rule("CONC-5", "HFLUSH-8", "HSYNC-6")
@pytest.mark.stores("raw", "hdfs")
@pytest.mark.parametrize("sync", ["hflush", "hsync"])
def test_close_against_syncs(store: Store, sync: str) -> None:
    """Ten threads write and sync until the stream is closed: success or StreamClosedError only."""
    for round_number in range(rounds(20)):
        path = store.path(f"file{round_number}")
        out = store.fs.create(path)
        syncers = Syncers(out, sync)
        tasks = [Task(syncers.run, thread) for thread in range(10)]
        assert syncers.busy.wait(DEADLINE_S)
        out.close()
        for task in tasks:
            task.result()
        found = {(thread, number) for thread, number, _ in parse_frames(store.read(path))}
        assert found >= set(syncers.synced)


@pytest.mark.rule("CLOSE-21", "CONC-1")
@pytest.mark.filterwarnings("ignore::hflush.NotPublishedWarning")
def test_dropped_while_others_write_elsewhere(store: Store) -> None:
    """Streams that are dropped open in one thread do not disturb those of other threads."""

    def drop(thread: int) -> None:
        for _ in range(rounds(100)):
            out = store.fs.create(store.path(f"dropped{thread}"))
            out.write(dataset(70_000))
            del out

    def keep(thread: int) -> None:
        for number in range(rounds(100)):
            path = store.write(store.path(f"kept{thread}"), dataset(number * 1000))
            assert store.read(path) == dataset(number * 1000)

    together(partial(drop, 0), partial(keep, 1), partial(keep, 2))
