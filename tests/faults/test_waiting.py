"""Calls that wait for the disk, held at a gate: who else may go on meanwhile, and who may not."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import hflush
import pytest
from faults.expecting import any_os_error
from faults.shim.control import Faults, Gate
from support.data import dataset, frame, parse_frames
from support.interrupts import waits_in_kernel
from support.process import descriptors_under
from support.stores import Store
from support.waiting import DEADLINE_S, Task, wait_until

pytestmark = pytest.mark.shim

BIG = 16 << 20  # more than a stream buffers: its write waits for the store


def asleep(threads: Sequence[threading.Thread]) -> bool:
    """Whether every one of the threads waits in the kernel, or has ended."""
    return all(
        not thread.is_alive()
        or (thread.native_id is not None and waits_in_kernel(thread.native_id))
        for thread in threads
    )


@pytest.mark.rule("HSYNC-5", "HSYNC-4")
@pytest.mark.stores("raw")
def test_hsync_waits_for_the_disk(faults: Faults, store: Store) -> None:
    """hsync has not returned while the sync has not."""
    with store.fs.create(store.path("file")) as out:
        out.write(b"data")
        with faults.gate("sync") as gate:
            task = Task(out.hsync)
            gate.wait_for(1)
            assert task.is_alive()
            assert faults.calls("sync") == []
        task.result()
        assert faults.calls("sync") != []


@pytest.mark.rule("HFLUSH-4", "HFLUSH-2")
@pytest.mark.stores("raw")
def test_hflush_waits_for_the_write(faults: Faults, store: Store) -> None:
    """hflush has not returned while the operating system has not taken the bytes."""
    with store.fs.create(store.path("file")) as out:
        out.write(b"data")
        with faults.gate("write") as gate:
            task = Task(out.hflush)
            gate.wait_for(1)
            assert task.is_alive()
        task.result()
        assert store.read(store.path("file")) == b"data"


@pytest.mark.rule("CLOSE-2", "CLOSE-10")
def test_close_waits_for_the_write(faults: Faults, store: Store) -> None:
    """close has not returned while the operating system has not taken the bytes."""
    out = store.fs.create(store.path("file"))
    out.write(b"data")
    with faults.gate("write", "*/file") as gate:
        task = Task(out.close)
        gate.wait_for(1)
        assert task.is_alive()
    task.result()
    assert store.read(store.path("file")) == b"data"


def errors_of(tasks: Sequence[Task]) -> list[BaseException]:
    """What the tasks raised: OSErrors only, and to each its own."""
    for task in tasks:
        task.join(DEADLINE_S)
        assert not task.is_alive()
    errors = [task.error for task in tasks if task.error is not None]
    assert all(isinstance(error, OSError) for error in errors)
    assert len({id(error) for error in errors}) == len(errors)
    return errors


def probe(out: hflush.FSDataOutputStream) -> None:
    """Everything that answers without the store."""
    answers: list[Callable[[], Any]] = [
        lambda: out.has_capability("hsync"),
        lambda: dict(out.io_statistics().counters),
        out.tell,
        out.get_pos,
        lambda: out.closed,
        lambda: repr(out),
    ]
    for answer in answers:
        Task(answer).result()


@pytest.mark.rule("CAP-15", "STATS-6")
@pytest.mark.parametrize("blocked", ["write", "close"])
def test_probes_do_not_wait(faults: Faults, store: Store, blocked: str) -> None:
    """Capabilities, statistics, position and state answer while a call waits for the disk."""
    out = store.fs.create(store.path("file"))
    out.write(b"data")
    with faults.gate("write", "*/file") as gate:
        waiting = Task(out.write, bytes(BIG)) if blocked == "write" else Task(out.close)
        gate.wait_for(1)
        probe(out)
        assert waiting.is_alive()
    waiting.result()
    out.close()


@pytest.mark.rule("CAP-15", "STATS-6")
@pytest.mark.stores("raw")
@pytest.mark.parametrize(("blocked", "operation"), [("hsync", "sync"), ("hflush", "write")])
def test_probes_do_not_wait_for_a_sync(
    faults: Faults, store: Store, blocked: str, operation: str
) -> None:
    """The same while hsync or hflush waits."""
    with store.fs.create(store.path("file")) as out:
        out.write(b"data")
        with faults.gate(operation) as gate:
            waiting = Task(getattr(out, blocked))
            gate.wait_for(1)
            probe(out)
            assert waiting.is_alive()
        waiting.result()


@pytest.mark.rule("CONC-11", "CLOSE-14")
@pytest.mark.parametrize(
    "blocked", ["create", "write", "flush", "close", "rename", "delete", "mkdirs", "open"]
)
def test_blocking_calls_release_the_interpreter(faults: Faults, store: Store, blocked: str) -> None:
    """This thread goes on running Python while another one waits for the disk in a call."""
    other = store.write(store.path("other"), b"other")
    out = store.fs.create(store.path("file"))
    out.write(b"data" * 1000)
    fs = store.fs
    calls: dict[str, tuple[str, Callable[[], Any]]] = {
        "create": ("open", lambda: fs.create(store.path("new")).close()),
        "write": ("write", lambda: out.write(bytes(BIG))),
        "flush": ("write", out.flush),
        "close": ("write", out.close),
        "rename": ("rename", lambda: fs.rename(other, store.path("moved"))),
        "delete": ("unlink", lambda: fs.delete(other)),
        "mkdirs": ("mkdir", lambda: fs.mkdirs(store.path("a", "b"))),
        "open": ("open", lambda: fs.open(other).close()),
    }
    operation, call = calls[blocked]
    with faults.gate(operation) as gate:
        task = Task(call)
        gate.wait_for(1)
        counter = 0
        for _ in range(100_000):
            counter += 1
        assert counter == 100_000
        assert task.is_alive()
    task.result()
    out.close()


@pytest.mark.rule("CONC-11", "CONC-1")
def test_contended_write_releases_the_interpreter(faults: Faults, store: Store) -> None:
    """Writers that wait for a writer that waits for the disk leave the interpreter to others."""
    path = store.path("file")
    out = store.fs.create(path)
    with faults.gate("write") as gate:
        first = Task(out.write, frame(0, 0, BIG))
        gate.wait_for(1)
        others = [Task(out.write, frame(number, 0, 1 << 20)) for number in range(1, 5)]
        wait_until(lambda: asleep(others), "the writers wait")
        assert first.is_alive()
    for task in (first, *others):
        task.result()
    out.close()
    assert sorted(parse_frames(store.read(path))) == sorted(
        [(0, 0, BIG), *((number, 0, 1 << 20) for number in range(1, 5))]
    )


@pytest.mark.rule("CONC-1", "HSYNC-3")
@pytest.mark.stores("raw")
def test_writers_go_on_while_a_sync_waits(faults: Faults, store: Store) -> None:
    """A record is taken while another thread's hsync waits for the disk."""
    with store.fs.create(store.path("file")) as out:
        out.write(b"first")
        with faults.gate("sync") as gate:
            waiting = Task(out.hsync)
            gate.wait_for(1)
            assert Task(out.write, b"second").result() == 6
            assert waiting.is_alive()
        waiting.result()
    assert store.read(store.path("file")) == b"firstsecond"


@pytest.mark.rule("CONC-1", "HSYNC-3")
@pytest.mark.stores("raw")
def test_waiting_syncs_are_shared(faults: Faults, store: Store) -> None:
    """Sixteen threads' records and hsyncs take at most a quarter of sixteen syncs."""
    threads = 16
    with store.fs.create(store.path("file")) as out:
        out.hsync()
        mark = faults.position

        def append(number: int) -> None:
            out.write(frame(number, 0, 1000))
            out.hsync()

        with faults.gate("sync", limit=1) as gate:
            tasks = [Task(append, 0)]
            gate.wait_for(1)
            tasks += [Task(append, number) for number in range(1, threads)]
            wait_until(lambda: asleep(tasks), "every thread waits for its sync")
            assert all(task.is_alive() for task in tasks)
        for task in tasks:
            task.result()
        syncs = faults.calls("sync", since=mark)
        assert 2 <= len(syncs) <= threads // 4
    assert len(parse_frames(store.read(store.path("file")))) == threads


@pytest.mark.rule("HSYNC-12", "FAIL-1", "CONC-1")
@pytest.mark.stores("raw")
def test_failed_shared_sync_fails_every_waiter(faults: Faults, store: Store) -> None:
    """A sync that fails has failed for all who waited for it, with an error of their own."""
    out = store.fs.create(store.path("file"))
    out.hsync()
    with faults.gate("sync", error=5, limit=1) as gate:
        tasks = []
        for number in range(8):
            out.write(frame(number, 0, 100))
            tasks.append(Task(out.hsync))
            gate.wait_for(1)
        wait_until(lambda: asleep(tasks), "every thread waits for the sync")
    assert len(errors_of(tasks)) == len(tasks)
    with any_os_error():
        out.close()


@pytest.mark.rule("CONC-5")
@pytest.mark.stores("raw")
@pytest.mark.parametrize("operation", ["sync", "write"])
def test_close_while_hsync_waits(faults: Faults, store: Store, operation: str) -> None:
    """Neither deadlocks; the waiters succeed or say that the stream is closed; no byte is lost."""
    path = store.path("file")
    out = store.fs.create(path)
    out.write(dataset(1000))
    with faults.gate(operation) as gate:
        waiters = [Task(out.hsync), Task(out.hflush), Task(out.hsync)]
        gate.wait_for(1)
        wait_until(lambda: asleep(waiters), "all wait")
        closing = Task(out.close)
        wait_until(lambda: out.closed or asleep([closing]), "close has begun")
    closing.result()
    for waiter in waiters:
        with suppress(hflush.StreamClosedError):
            waiter.result()
    assert store.read(path) == dataset(1000)


@pytest.mark.rule("CLOSE-22", "LOCAL-4")
@pytest.mark.parametrize("operation", ["write", "close"])
def test_concurrent_closes_make_one_attempt(faults: Faults, store: Store, operation: str) -> None:
    """Eight threads close: the bytes are written once, the descriptor is closed once."""
    path = store.path("file")
    out = store.fs.create(path)
    out.write(dataset(1000))
    with faults.gate(operation, "*/file") as gate:
        closers = [Task(out.close) for _ in range(8)]
        gate.wait_for(1)
        wait_until(lambda: asleep(closers), "the others wait or are done")
    for closer in closers:
        closer.result()
    assert sum(call.result for call in faults.calls("write", path="*/file")) == 1000
    assert len(faults.calls("close", path="*/file")) == 1
    assert store.read(path) == dataset(1000)


@pytest.mark.rule("CLOSE-22", "CLOSE-6")
def test_concurrent_failing_closes_make_one_attempt(faults: Faults, store: Store) -> None:
    """When the one attempt fails, at least one caller gets the failure; none tries again."""
    out = store.fs.create(store.path("file"))
    out.write(dataset(1000))
    with faults.gate("write", "*/file", error=5) as gate:
        closers = [Task(out.close) for _ in range(8)]
        gate.wait_for(1)
    errors = errors_of(closers)
    assert errors
    assert len(faults.calls("write", path="*/file")) == 1
    assert out.close() is None


class Interrupt:
    """Ctrl-C for the main thread once it waits in a call; then opens the gate it waits for.

    With `patient`, the gate stays shut until the main thread has heard, up to the deadline.
    """

    def __init__(self, gate: Gate, *, patient: bool) -> None:
        self.came_before_release = False
        self._gate = gate
        self._patient = patient
        self._heard = threading.Event()
        self._called = threading.Event()
        self._task = Task(self._send)

    def during(self, call: Callable[[], Any]) -> None:
        """Make the call and note when its KeyboardInterrupt came."""

        def announced() -> None:
            self._called.set()
            call()

        with pytest.raises(KeyboardInterrupt):
            announced()
        self.came_before_release = not self._heard.is_set()
        self._heard.set()
        self._task.result()

    def _send(self) -> None:
        self._called.wait(DEADLINE_S)
        self._gate.wait_for(1)
        wait_until(lambda: asleep([threading.main_thread()]), "the main thread waits")
        os.kill(os.getpid(), signal.SIGINT)
        if self._patient:
            self._heard.wait(DEADLINE_S)
        self._heard.set()
        self._gate.release()


@pytest.mark.rule("HFLUSH-12")
@pytest.mark.stores("raw")
@pytest.mark.parametrize(("blocked", "operation"), [("hsync", "sync"), ("hflush", "write")])
def test_interrupted_wait_leaves_the_stream_open(
    faults: Faults, store: Store, blocked: str, operation: str
) -> None:
    """KeyboardInterrupt gets through to a call that waits for another; later calls succeed."""
    path = store.path("file")
    out = store.fs.create(path)
    out.write(dataset(1000))
    with faults.gate(operation, "*/file", limit=1) as gate:
        other = Task(getattr(out, blocked))
        gate.wait_for(1)
        interrupt = Interrupt(gate, patient=True)
        interrupt.during(getattr(out, blocked))
        assert interrupt.came_before_release
    other.result()
    getattr(out, blocked)()
    out.write(b"more")
    out.hsync()
    out.close()
    assert store.read(path) == dataset(1000) + b"more"


@pytest.mark.rule("HFLUSH-12")
@pytest.mark.stores("raw")
@pytest.mark.parametrize(("blocked", "operation"), [("hsync", "sync"), ("hflush", "write")])
def test_interrupted_system_call_leaves_the_stream_open(
    faults: Faults, store: Store, blocked: str, operation: str
) -> None:
    """KeyboardInterrupt during the system call itself is raised after it, and breaks nothing."""
    path = store.path("file")
    out = store.fs.create(path)
    out.write(dataset(1000))
    with faults.gate(operation, "*/file", limit=1) as gate:
        Interrupt(gate, patient=False).during(getattr(out, blocked))
    out.write(b"more")
    out.hsync()
    out.close()
    assert store.read(path) == dataset(1000) + b"more"


@pytest.mark.rule("HFLUSH-12", "CONC-2")
@pytest.mark.parametrize("size", [100, 1 << 20])
def test_interrupted_write_is_absent(faults: Faults, store: Store, size: int) -> None:
    """KeyboardInterrupt gets through to a write that waits; nothing of it is in the file."""
    path = store.path("file")
    out = store.fs.create(path)
    with faults.gate("write", "*/file", limit=1) as gate:
        other = Task(out.write, frame(0, 0, BIG))
        gate.wait_for(1)
        interrupt = Interrupt(gate, patient=True)
        interrupt.during(lambda: out.write(frame(1, 0, size)))
        assert interrupt.came_before_release
    other.result()
    out.write(frame(0, 1, 100))
    out.close()
    assert parse_frames(store.read(path)) == [(0, 0, BIG), (0, 1, 100)]


@pytest.mark.rule("CLOSE-10", "CLOSE-6")
@pytest.mark.parametrize("waiting_for_another", [False, True])
def test_interrupted_close_is_an_error(
    faults: Faults, store: Store, waiting_for_another: bool
) -> None:
    """KeyboardInterrupt during close is raised; then the stream is closed, and close is None."""
    out = store.fs.create(store.path("file"))
    out.write(dataset(1000))
    others = []
    with faults.gate("write", "*/file", limit=1) as gate:
        if waiting_for_another:
            others.append(Task(out.write, bytes(BIG)))
            gate.wait_for(1)
        Interrupt(gate, patient=False).during(out.close)
    for other in others:
        with suppress(OSError):
            other.result()
    assert out.close() is None
    assert out.closed
    assert descriptors_under(store.root) == []
    with pytest.raises(hflush.StreamClosedError):
        out.write(b"more")
