"""close against write, hsync and close: one attempt, nothing in part, nobody waits for ever."""

from __future__ import annotations

import random
import threading
from functools import partial

import hflush
import pytest
from support.data import dataset, frame, parse_frames
from support.stores import Store
from support.waiting import Task, together
from threads.rounds import rounds


@pytest.mark.rule("CONC-6", "WRITE-12")
def test_write_against_close(store: Store) -> None:
    """1,000 rounds: a write that races with close is in the file, or raises StreamClosedError."""
    path = store.path("file")
    sizes = [1, 100, 600, 5000, 70_000]
    chance = random.Random(store.name)

    def write(out: hflush.FSDataOutputStream, size: int) -> int:
        for number in range(20):
            try:
                out.write(frame(0, number, size))
            except hflush.StreamClosedError:
                return number
        return 20

    def close(out: hflush.FSDataOutputStream, delay: int) -> None:
        for _ in range(delay):
            pass
        out.close()

    refused = 0
    for number in range(rounds(1000)):
        out = store.fs.create(path)
        size = sizes[number % len(sizes)]
        accepted, _ = together(
            partial(write, out, size), partial(close, out, chance.randrange(500))
        )
        refused += accepted < 20
        expected = [(0, count, size) for count in range(accepted)]
        assert parse_frames(store.read(path)) == expected
    assert refused


@pytest.mark.rule("CLOSE-22", "LOCAL-4")
def test_close_against_close(store: Store) -> None:
    """Eight threads close at once: the file is complete, and nobody hears an error."""
    path = store.path("file")
    for number in range(rounds(200)):
        out = store.fs.create(path)
        out.write(dataset(number * 37))
        together(*[out.close] * 8)
        assert out.closed
        assert store.read(path) == dataset(number * 37)


@pytest.mark.rule("CONC-5", "HFLUSH-8", "HSYNC-6")
@pytest.mark.stores("raw")
@pytest.mark.parametrize("sync", ["hflush", "hsync"])
def test_close_against_syncs(store: Store, sync: str) -> None:
    """Ten threads write and sync until the stream is closed: success or StreamClosedError only."""
    for number in range(rounds(20)):
        path = store.path(f"file{number}")
        out = store.fs.create(path)
        synced: list[tuple[int, int]] = []
        enough = threading.Event()

        def work(
            thread: int,
            out: hflush.FSDataOutputStream = out,
            synced: list[tuple[int, int]] = synced,
            enough: threading.Event = enough,
        ) -> None:
            count = 0
            with pytest.raises(hflush.StreamClosedError):
                while True:
                    out.write(frame(thread, count, 300))
                    getattr(out, sync)()
                    synced.append((thread, count))
                    count += 1
                    if len(synced) > 30:
                        enough.set()

        workers = [Task(partial(work, thread)) for thread in range(10)]
        enough.wait(20)
        out.close()
        for worker in workers:
            worker.result()
        found = {(thread, count) for thread, count, _ in parse_frames(store.read(path))}
        assert found >= set(synced)


@pytest.mark.rule("CLOSE-21", "CONC-1")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
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
