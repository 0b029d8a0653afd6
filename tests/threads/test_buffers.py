"""The caller's buffer, used by another thread during a write."""

from __future__ import annotations

import threading

import pytest
from support.stores import Store
from support.waiting import DEADLINE_S, Task
from threads.rounds import rounds

SIZE = 64 << 20


@pytest.mark.rule("WRITE-10")
def test_buffer_mutated_and_resized_during_write(store: Store) -> None:
    """The content is undefined, the length exact; the exporting object refuses to be resized."""
    path = store.path("file")
    buffer = bytearray(SIZE * rounds(100) // 100)
    writing = threading.Event()
    done = threading.Event()

    def disturb() -> int:
        refused = 0
        assert writing.wait(DEADLINE_S)
        while not done.is_set():
            buffer[len(buffer) // 2] ^= 0xFF
            try:
                buffer.append(1)
                buffer.pop()
            except BufferError:
                refused += 1
        return refused

    with store.fs.create(path) as out:
        disturber = Task(disturb)
        writing.set()
        accepted = [out.write(buffer) for _ in range(2)]
        done.set()
        disturber.result()
    assert all(count in {len(buffer), len(buffer) + 1} for count in accepted)
    assert store.fs.get_file_status(path).length == sum(accepted)
    assert not store.read(path).strip(b"\0\1\xff")


@pytest.mark.rule("WRITE-9", "CONC-1")
def test_buffer_reused_after_write(store: Store) -> None:
    """Each thread fills one buffer over and over, as readinto loops do."""
    path = store.path("file")
    calls = rounds(300)

    def work(value: int) -> None:
        buffer = bytearray(5000)
        for number in range(calls):
            size = 1 + number % len(buffer)
            buffer[:size] = bytes([value]) * size
            out.write(memoryview(buffer)[:size])
            buffer[:] = bytes(len(buffer))

    with store.fs.create(path) as out:
        for worker in [Task(work, value) for value in range(1, 5)]:
            worker.result()
    content = store.read(path)
    for value in range(1, 5):
        assert content.count(value) == sum(1 + number % 5000 for number in range(calls))
    assert content.count(0) == 0
