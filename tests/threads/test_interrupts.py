"""Ctrl-C at any moment: KeyboardInterrupt gets through, and the stream is as good as before."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from types import FrameType

import hflush
import pytest
from support.data import frame, parse_frames
from support.stores import Store
from support.waiting import DEADLINE_S, Task, wait_until
from threads.rounds import rounds

MORE_THAN_A_WINDOW = bytes(8 << 20)


class Armed:
    """SIGINT raises KeyboardInterrupt once, inside a `with` block; elsewhere it does nothing."""

    def __init__(self) -> None:
        self._armed = False

    def __enter__(self) -> None:
        self._armed = True

    def __exit__(self, *_: object) -> None:
        self._armed = False

    def handle(self, number: int, where: FrameType | None) -> None:
        if self._armed:
            self._armed = False
            raise KeyboardInterrupt


@pytest.fixture
def armed() -> Iterator[Armed]:
    switch = Armed()
    before = signal.signal(signal.SIGINT, switch.handle)
    yield switch
    signal.signal(signal.SIGINT, before)


@pytest.mark.rule("HFLUSH-12", "CONC-2")
def test_interrupts_at_any_moment(store: Store, armed: Armed) -> None:
    """What was accepted is there once, what was interrupted at most once; all frames are whole."""
    path = store.path("file")
    out = store.fs.create(path)
    stopped = threading.Event()
    # In C: an interrupt that is raised inside an Event or a Semaphore leaves its lock taken.
    go: SimpleQueue[None] = SimpleQueue()
    permits: SimpleQueue[None] = SimpleQueue()

    def asked(queue: SimpleQueue[None]) -> bool:
        try:
            queue.get(timeout=0.1)
        except Empty:
            return False
        return True

    def interrupt() -> None:
        while not stopped.is_set():
            if asked(go):
                os.kill(os.getpid(), signal.SIGINT)

    def compete() -> int:
        number = 0
        while not stopped.is_set():
            if asked(permits):
                out.write(frame(1, number, 100_000))
                number += 1
        return number

    def was_interrupted(number: int) -> bool:
        try:
            with armed:
                go.put(None)
                permits.put(None)
                out.write(frame(0, number, 1 + number * 997 % 200_000))
                accepted.append(number)
                if out.has_capability("hsync"):
                    out.hsync()
        except KeyboardInterrupt:
            return True
        return False

    accepted: list[int] = []
    interrupted = 0
    helpers = [Task(interrupt), Task(compete)]
    for number in range(rounds(300)):
        interrupted += was_interrupted(number)
    stopped.set()
    competitor = [helper.result() for helper in helpers][1]
    out.close()
    found = parse_frames(store.read(path))
    mine = [number for thread, number, _ in found if thread == 0]
    assert mine == sorted(set(mine))
    assert set(accepted) <= set(mine)
    assert [number for thread, number, _ in found if thread == 1] == list(range(competitor))
    assert interrupted or rounds(300) < 50


@pytest.mark.stores("raw")
def test_a_close_behind_a_pipe_that_is_full(store: Store, armed: Armed) -> None:
    """It is interrupted, and so is the write of another thread that the pipe holds up."""
    path = store.path("pipe")
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    out = store.fs.create(path)
    writer = Task(out.write, MORE_THAN_A_WINDOW)
    assert select.select([reader], [], [], DEADLINE_S)[0]

    def interrupt() -> None:
        wait_until(lambda: out.closed, "close() has begun")
        os.kill(os.getpid(), signal.SIGINT)

    interrupts = Task(interrupt)
    with pytest.raises(KeyboardInterrupt), armed:
        out.close()
    interrupts.result()
    with pytest.raises(OSError, match=path):  # its own, or that of close, whichever comes first
        writer.result()
    os.close(reader)


@pytest.mark.stores("raw")
def test_a_pipe_that_nobody_reads(store: Store, armed: Armed) -> None:
    """A write to it is interrupted, and its stream can be dropped."""
    path = store.path("pipe")
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    out = store.fs.create(path)

    def interrupt() -> None:
        assert select.select([reader], [], [], DEADLINE_S)[0]
        os.kill(os.getpid(), signal.SIGINT)

    interrupts = Task(interrupt)
    with pytest.raises(KeyboardInterrupt), armed:
        out.write(MORE_THAN_A_WINDOW)
    interrupts.result()
    with pytest.warns(hflush.NotPublishedWarning):
        del out
    os.close(reader)
