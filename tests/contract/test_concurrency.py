"""CONC: threads, processes and order."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import random
import threading
import warnings
from collections import Counter
from collections.abc import Callable

import hflush
import pytest
from faults.shim.control import Faults
from hflush import output_kinds
from support.data import dataset, frame, parse_frames
from support.stores import FILES, SHARED, Store
from support.waiting import DEADLINE_S, Task, together

Stream = hflush.FSDataOutputStream

MIB = 1 << 20


@pytest.mark.rule("CONC-1")
def test_ten_threads_lose_nothing(store: Store, path: str, out: Stream) -> None:
    """CONC-1: ten threads write 517-byte records and sync: length and records are exact."""
    sync = out.hflush if out.has_capability("hflush") else out.flush

    def writer(thread: int) -> Callable[[], None]:
        def run() -> None:
            for sequence in range(100):
                out.write(frame(thread, sequence, 517 - 21))
                sync()
                assert out.tell() > 0

        return run

    together(*[writer(thread) for thread in range(10)])
    out.close()
    frames = parse_frames(store.read(path))
    assert Counter(frames) == Counter((t, s, 496) for t in range(10) for s in range(100))
    assert out.tell() == 10 * 100 * 517


@pytest.mark.rule("CONC-2", "CONC-3")
@pytest.mark.parametrize("buffer_size", [None, 0])
def test_writes_are_whole_and_in_program_order(
    store: Store, path: str, buffer_size: int | None
) -> None:
    """CONC-2, 3: frames of 1 B to 3 MiB from eight threads are intact, each thread's in order."""
    out = store.fs.create(path, buffer_size=buffer_size)
    sizes = [0, 1, 490, 511, 512, 513, 4096, 65535, 65536, 70_000, MIB, 3 * MIB]

    def writer(thread: int) -> Callable[[], None]:
        chance = random.Random(thread)

        def run() -> None:
            for sequence, size in enumerate(chance.sample(sizes, len(sizes))):
                data = frame(thread, sequence, size)
                assert out.write(data) == len(data)

        return run

    together(*[writer(thread) for thread in range(8)])
    out.close()
    frames = parse_frames(store.read(path))
    assert len(frames) == 8 * len(sizes)
    for thread in range(8):
        sequences = [sequence for writer_of, sequence, _ in frames if writer_of == thread]
        assert sequences == list(range(len(sizes)))


# What is layered on the plain stream of a store: options of create, and keys.
LAYERS: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "unbuffered": ({"buffer_size": 0}, {}),
    "reporting": ({"progress": lambda: None}, {}),
    "downgraded": ({}, {"hflush.syncable.downgrade": True}),
    "all": ({"buffer_size": 0, "progress": lambda: None}, {"hflush.syncable.downgrade": True}),
}


@pytest.mark.rule("CONC-14", "FLUSH-2")
@pytest.mark.filterwarnings("ignore:.*downgrade:RuntimeWarning", "ignore:.*does nothing on s3")
@pytest.mark.parametrize("layer", LAYERS)
def test_layers_keep_what_threads_rely_on(store: Store, path: str, layer: str) -> None:
    """CONC-14: writes stay whole under threads that sync, flush is quiet during and after close."""
    options, keys = LAYERS[layer]
    fs = hflush.FileSystem.new_instance(store.url(), {**store.conf, **keys})
    out = fs.create(path, **options)
    if layer in ("unbuffered", "all"):
        assert type(out) is not hflush.FSDataOutputStream
    syncs = out.has_capability("hsync") or "hflush.syncable.downgrade" in keys

    def write(thread: int) -> None:
        for sequence in range(50):
            out.write(frame(thread, sequence, 700))
            (out.hsync if syncs and sequence % 10 == 0 else out.flush)()

    together(*(lambda thread=thread: write(thread) for thread in range(6)))
    together(out.close, out.flush, out.close, out.flush)
    assert [out.flush(), out.close()] == [None, None]
    with pytest.raises(hflush.StreamClosedError):
        out.write(b"late")
    frames = parse_frames(store.read(path))
    assert Counter(frames) == Counter((t, s, 700) for t in range(6) for s in range(50))
    fs.close()


class Log:
    """A write-ahead log under use: what was appended, and what an hsync acknowledged since."""

    def __init__(self, out: Stream) -> None:
        self.out = out
        self.appended: list[tuple[int, int]] = []
        self.acknowledged: set[tuple[int, int]] = set()
        self.in_use = threading.Event()  # several syncs have covered records

    def append(self, thread: int) -> None:
        with contextlib.suppress(hflush.StreamClosedError):
            for sequence in itertools.count():
                self.out.write(frame(thread, sequence, 100))
                self.appended.append((thread, sequence))

    def sync(self) -> None:
        with contextlib.suppress(hflush.StreamClosedError):
            for number in itertools.count():
                covered = list(self.appended)
                self.out.hsync()
                self.acknowledged.update(covered)
                if number >= 1 and covered:
                    self.in_use.set()


@pytest.mark.rule("CONC-4")
@pytest.mark.stores("raw", "hdfs")
def test_write_ahead_log_loses_no_acknowledged_record(store: Store) -> None:
    """CONC-4: with appenders, a syncer and a roller, no acknowledged record is lost."""
    for roll in range(4):
        path = store.path(f"wal-{roll}")
        log = Log(store.fs.create(path))
        tasks = [Task(log.sync), *(Task(log.append, thread) for thread in range(4))]
        assert log.in_use.wait(DEADLINE_S)
        Task(log.out.close).result()
        for task in tasks:
            task.result()
        written = {(thread, sequence) for thread, sequence, _ in parse_frames(store.read(path))}
        assert log.acknowledged <= set(log.appended) <= written


@pytest.mark.rule("CONC-5")
@pytest.mark.stores("raw")
@pytest.mark.shim
def test_close_while_others_wait_in_sync(store: Store, faults: Faults, path: str) -> None:
    """CONC-5: close ends all waiting syncs: success or StreamClosedError, and no deadlock."""
    out = store.fs.create(path)
    out.write(b"abc")
    with faults.gate("sync", limit=1) as gate:
        first = Task(out.hsync)
        gate.wait_for(1)
        out.write(b"def")
        waiting = [Task(operation) for operation in [out.hsync, out.hflush] * 5]
        closing = Task(out.close)
        assert first.is_alive()
    first.result()
    closing.result()
    for task in waiting:
        task.join(DEADLINE_S)
        assert not task.is_alive()
        assert task.error is None or isinstance(task.error, hflush.StreamClosedError)
    assert out.closed
    assert store.read(path) == b"abcdef"


@pytest.mark.rule("CONC-5")
@pytest.mark.stores("raw", "hdfs")
def test_syncers_stop_at_close(store: Store) -> None:
    """CONC-5: ten threads that sync in a loop all end with StreamClosedError once it is closed."""
    for number in range(20):
        out = store.fs.create(store.path(f"file-{number}"))
        begun = threading.Barrier(11)

        def loop(out: Stream = out, begun: threading.Barrier = begun) -> None:
            begun.wait()
            while True:
                out.write(b"x")
                out.hflush()

        tasks = [Task(loop) for _ in range(10)]
        begun.wait()
        out.close()
        for task in tasks:
            task.join(DEADLINE_S)
            assert isinstance(task.error, hflush.StreamClosedError)


@pytest.mark.rule("CONC-6")
def test_write_racing_with_close_is_whole_or_refused(store: Store) -> None:
    """CONC-6: a write that races with close is wholly in the file, or raised StreamClosedError."""
    for number in range(100):
        path = store.path(f"file-{number}")
        out = store.fs.create(path)
        size = (1, 600, 70_000)[number % 3]

        def write(out: Stream = out, size: int = size) -> int:
            accepted = 0
            with contextlib.suppress(hflush.StreamClosedError):
                for sequence in range(1000):
                    out.write(frame(1, sequence, size))
                    accepted += 1
            return accepted

        accepted, _ = together(write, out.close)
        assert parse_frames(store.read(path)) == [(1, n, size) for n in range(accepted)]


@pytest.mark.rule("CONC-7", divergence=("raw", "crc"))
@pytest.mark.stores("raw", "crc")
def test_two_writing_processes_are_possible_and_undefined(store: Store, path: str) -> None:
    """CONC-7: local stores declare that a second writer is not refused."""
    assert store.options["single-writer"] is False
    peer = store.second_client()
    with store.fs.create(path) as out:
        out.write(b"a" * 1000)
        peer.run("other = fs.create(path); other.write(b'b' * 1000)", path=path)
        out.flush()
    peer.run("other.close()")
    content = store.content(path)
    assert set(content) <= set(b"ab\0")
    assert len(content) <= 2000


@pytest.mark.rule("CONC-8")
@pytest.mark.stores(*FILES)
def test_rename_while_open_follows_the_file(store: Store, path: str, out: Stream) -> None:
    """CONC-8: renamed while open, the content is at the new path, and nothing at the old."""
    new = store.path("new")
    out.write(b"one")
    out.flush()
    assert store.fs.rename(path, new)
    out.write(b"two")
    out.close()
    assert not store.fs.exists(path)
    assert store.read(new) == b"onetwo"


@pytest.mark.rule("CONC-8")
@pytest.mark.stores(*FILES)
def test_delete_while_open_leaves_nothing(store: Store, path: str, out: Stream) -> None:
    """CONC-8: deleted while open, it stays deleted; what follows succeeds or is an OSError."""
    out.write(b"one")
    out.flush()
    assert store.fs.delete(path)
    try:
        out.write(b"two")
        out.close()
    except OSError:
        assert out.closed
    assert store.fs.list_status(store.root) == []
    assert store.on_disk() == []


@pytest.mark.rule("CONC-9")
def test_early_reader_reads_old_or_new_bytes(store: Store, path: str) -> None:
    """CONC-9: a reader opened before an overwrite gets old or new bytes, never others."""
    old, new = b"a" * 3000, b"b" * 3000
    store.write(path, old)
    with store.fs.open(path) as early:
        assert early.read(10) == old[:10]
        store.write(path, new)
        try:
            rest = early.read()
        except hflush.ChecksumError:  # the old sums do not fit the new bytes: no mixture
            assert store.name == "crc"
        except hflush.PreconditionFailedError:  # nor does the old etag
            assert store.name == "s3"
        else:
            assert set(rest) <= set(b"ab")


@pytest.mark.rule("CONC-10")
def test_changes_by_others_are_not_hidden(store: Store, path: str) -> None:
    """CONC-10: no snapshots: a new open sees what another client has changed."""
    store.write(path, b"mine")
    store.second_client().run("out = fs.create(path); out.write(b'yours!'); out.close()", path=path)
    assert store.read(path) == b"yours!"
    assert store.fs.get_file_status(path).length == 6


@pytest.mark.rule("CONC-11")
def test_progress_callback_may_use_the_stream(store: Store, path: str) -> None:
    """CONC-11: a progress callback may ask tell, probes and statistics; local files have no use."""
    seen: list[tuple[int, bool, int]] = []
    streams: list[Stream] = []

    def progress() -> None:
        for stream in streams:
            counters = stream.io_statistics().counters
            seen.append(
                (stream.tell(), stream.has_capability("hsync"), counters["stream_write_bytes"])
            )

    out = store.fs.create_file(path).overwrite(True).progress(progress).build()
    streams.append(out)

    def write_all() -> None:
        for _ in range(64):
            out.write(bytes(MIB))
        out.close()

    Task(write_all).result()
    assert bool(seen) is (store.name in ("hdfs", "s3"))
    assert [position for position, _, _ in seen] == [written for _, _, written in seen]
    assert all(0 <= position <= 64 * MIB for position, _, _ in seen)
    assert {answer for _, answer, _ in seen} <= {store.options["supports-hsync"]}
    assert store.fs.get_file_status(path).length == 64 * MIB


@pytest.mark.rule("CONC-11")
@pytest.mark.stores("hdfs", "s3")
def test_a_write_whose_progress_raises_has_not_begun(
    store: Store, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONC-11: who writes again, since the write failed, has written once."""
    monkeypatch.setattr(output_kinds, "_REPORT_INTERVAL_S", 0.0)
    outcomes = iter([None, InterruptedError("the program's own"), None])

    def progress() -> None:
        if outcome := next(outcomes, None):
            raise outcome

    out = store.fs.create(path, progress=progress)
    out.write(b"1")
    with pytest.raises(InterruptedError, match="own"):
        out.write(b"record")
    out.write(b"record")
    out.close()
    assert store.read(path) == b"1record"


@pytest.mark.rule("CONC-12")
@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("write", b"raised"),
        ("hsync", b"raised"),
        ("flush", b"quiet"),
        ("close", b"quiet"),
        ("del", b"quiet"),
        ("exit", b"quiet"),
    ],
)
def test_child_of_a_fork_does_not_touch_the_stream(
    store: Store, path: str, out: Stream, use: str, expected: bytes
) -> None:
    """CONC-12: after fork the child's copy writes and publishes nothing; the parent's goes on."""
    out.write(b"parent")
    reading, writing = os.pipe()
    child = fork_quietly()
    if child == 0:
        answer = b"?"
        try:
            answer = in_child(out, use)
        finally:
            os.write(writing, answer)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        answer = answers.read()
    assert os.waitpid(child, 0)[1] == 0
    assert answer == expected
    out.write(b"-goes-on")
    out.close()
    assert store.read(path) == b"parent-goes-on"


def fork_quietly() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork in a process with threads
        return os.fork()


def in_child(out: Stream, use: str) -> bytes:
    uses: dict[str, Callable[[], object]] = {
        "write": lambda: out.write(b"child"),
        "hsync": out.hsync,
        "flush": out.flush,
        "close": out.close,
        "del": out.__del__,
    }
    try:
        uses.get(use, gc.collect)()
    except OSError:
        return b"raised"
    return b"quiet"


@pytest.mark.rule("CONC-12")
@pytest.mark.stores(*SHARED)
def test_child_of_a_fork_may_open_its_own(store: Store, path: str) -> None:
    """CONC-12: new streams work in the child, after the parent had used its own."""
    store.write(store.path("before"), bytes(4 * MIB))
    child = fork_quietly()
    if child == 0:
        status = 1
        try:
            store.write(path, dataset(3 * MIB))
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert store.read(path) == dataset(3 * MIB)


@pytest.mark.rule("CONC-13")
def test_streams_are_independent(store: Store) -> None:
    """CONC-13: streams interleaved in one thread each get exactly their own bytes."""
    paths = [store.path(f"file-{number}") for number in range(20)]
    streams = [store.fs.create(path) for path in paths]
    for piece in range(50):
        for number, stream in enumerate(streams):
            stream.write(frame(number, piece, number * 100))
    for stream in reversed(streams):
        stream.close()
    for number, path in enumerate(paths):
        assert parse_frames(store.read(path)) == [(number, n, number * 100) for n in range(50)]
