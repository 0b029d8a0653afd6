"""One stream, many threads: no byte lost, doubled, invented or torn."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial

import pytest
from support.data import frame, parse_frames
from support.stores import Store
from support.waiting import Task, together
from threads.rounds import rounds

RECORD = 517


def record_of(thread: int, number: int) -> bytes:
    """A record of exactly 517 bytes."""
    return frame(thread, number, RECORD - 21)


@pytest.mark.rule("CONC-1")
def test_thousand_records_of_ten_threads(store: Store) -> None:
    """10 threads × 1,000 × (write 517 B; hflush where there is one): length, records exact."""
    threads, records = 10, rounds(1000)
    path = store.path("file")
    out = store.fs.create(path)
    flushes = out.has_capability("hflush")

    def work(thread: int) -> None:
        for number in range(records):
            assert out.write(record_of(thread, number)) == RECORD
            if flushes:
                out.hflush()

    together(*(partial(work, thread) for thread in range(threads)))
    assert out.tell() == threads * records * RECORD
    out.close()
    content = store.read(path)
    assert len(content) == threads * records * RECORD
    expected = [
        (thread, number, RECORD - 21) for thread in range(threads) for number in range(records)
    ]
    assert Counter(parse_frames(content)) == Counter(expected)


@pytest.mark.rule("CONC-2", "CONC-3")
def test_frames_of_every_size_stay_whole(store: Store) -> None:
    """8 threads × frames of 1 B … 3 MiB: all are contiguous, each thread's in its order."""
    threads, frames = 8, rounds(24)
    path = store.path("file")
    out = store.fs.create(path)

    def sizes(thread: int) -> list[int]:
        chance = random.Random(thread)
        return [int(2 ** chance.uniform(0, 21.58)) for _ in range(frames)]

    def work(thread: int) -> None:
        for number, size in enumerate(sizes(thread)):
            out.write(frame(thread, number, size))

    together(*(partial(work, thread) for thread in range(threads)))
    out.close()
    found = parse_frames(store.read(path))
    for thread in range(threads):
        mine = [(number, size) for writer, number, size in found if writer == thread]
        assert mine == list(enumerate(sizes(thread)))


@pytest.mark.rule("CONC-1", "CAP-15", "STATS-6", "FLUSH-8")
def test_every_call_at_once(store: Store) -> None:
    """Writers, flushers, syncers and probes on one stream: right answers, an exact file."""
    records = rounds(2000)
    path = store.path("file")
    out = store.fs.create(path)
    syncs = [out.hflush, out.hsync] if out.has_capability("hsync") else []
    writing = True

    def write(thread: int) -> None:
        for number in range(records):
            out.write(frame(thread, number, number % 900))

    def repeat(call: object) -> None:
        assert callable(call)
        while writing:
            call()

    def probe() -> None:
        position = written = 0
        while writing:
            earlier, position = position, out.tell()
            assert position >= earlier
            earlier, written = written, out.io_statistics().counters["stream_write_bytes"]
            assert written >= earlier
            assert out.has_capability("hsync") == bool(syncs)
            assert not out.closed

    others = [Task(probe), Task(repeat, out.flush), *(Task(repeat, sync) for sync in syncs)]
    together(*(partial(write, thread) for thread in range(4)))
    writing = False
    for other in others:
        other.result()
    out.close()
    found = parse_frames(store.read(path))
    assert Counter(found) == Counter((t, n, n % 900) for t in range(4) for n in range(records))


@pytest.mark.rule("CONC-1", "WRITE-1", "WRITE-2")
def test_single_bytes_and_slices_of_many_threads(store: Store) -> None:
    """write_byte and slices, which take other ways into the stream, are counted as exactly."""
    calls = rounds(3000)
    path = store.path("file")
    out = store.fs.create(path)

    def single(value: int) -> None:
        for _ in range(calls):
            out.write_byte(value)

    def slices(value: int) -> None:
        buffer = bytearray([0, *[value] * 100, 0])
        for number in range(calls):
            assert out.write(buffer, 1, number % 100) == number % 100

    together(partial(single, 1), partial(single, 2), partial(slices, 3), partial(slices, 4))
    out.close()
    content = Counter(store.read(path))
    in_slices = sum(number % 100 for number in range(calls))
    expected = {1: calls, 2: calls, 3: in_slices, 4: in_slices}
    assert content == {value: count for value, count in expected.items() if count}
