"""kill -9: what was acknowledged is there, and nothing that is there is wrong."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import hflush
import pytest
from faults.crash_writer import record, whole_records
from faults.shim.control import Faults
from support.data import dataset, parse_frames
from support.stores import Store

ROUNDS = 30


def write_and_kill(store: Store, path: str, sync: str, acknowledgements: int) -> int:
    """Kill a writer that has acknowledged so many records; return the last that it did."""
    near, far = os.pipe()
    script = Path(__file__).with_name("crash_writer.py")
    writer = subprocess.Popen(
        [sys.executable, str(script), store.url(), json.dumps(store.conf), path, sync, str(far)],
        pass_fds=[far],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    os.close(far)
    lines = []
    with os.fdopen(near) as pipe:
        for line in pipe:
            lines.append(line)
            if len(lines) > acknowledgements:
                writer.send_signal(signal.SIGKILL)
    assert writer.wait() == -signal.SIGKILL
    assert lines[0] == "ready\n"
    return int(lines[-1]) if len(lines) > 1 else -1


@pytest.mark.rule("HFLUSH-11", "APPEND-16", "CLOSE-23", "FAIL-1")
@pytest.mark.stores("raw")
@pytest.mark.parametrize("sync", ["hflush", "hsync"])
def test_killed_writer_of_a_log(store: Store, sync: str) -> None:
    """Append, kill, replay, append …: every acknowledged record is there once, in order, whole."""
    path = store.write(store.path("log"))
    chance = random.Random(sync)
    acknowledged = -1
    for _ in range(ROUNDS // 2):
        acknowledged = max(acknowledged, write_and_kill(store, path, sync, chance.randrange(40)))
        content = store.read(path)
        count, length = whole_records(content)
        assert count > acknowledged
        assert content[:length] == b"".join(record(number) for number in range(count))
        assert record(count).startswith(content[length:])
    assert acknowledged > ROUNDS
    assert [number for _, number, _ in parse_frames(content[:length])] == list(range(count))


@pytest.mark.rule("LOCAL-5", "CLOSE-23", "WRITE-15")
def test_killed_writer_of_a_file(store: Store) -> None:
    """A file that was never closed: readers get a prefix of it, an error, or what was before."""
    chance = random.Random(store.name)
    for _ in range(ROUNDS // 3):
        path = store.write(store.path("file"), b"old content")
        write_and_kill(store, path, "none", chance.randrange(60))
        try:
            content = store.read(path)
        except hflush.ChecksumError:
            assert store.name == "crc"
        else:
            written = b"".join(record(i) for i in range(whole_records(content)[0] + 1))
            assert written.startswith(content) or (store.name, content) == ("s3", b"old content")


def killed_at(faults: Faults, call: int, work: Callable[[], object]) -> bool:
    """Do the work in a child that dies at its system call number `call`; False if it made fewer."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of forking with threads: what is forked here can
        child = os.fork()
    if child == 0:
        try:
            faults.kill("*", skip=call)
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in {0, -signal.SIGKILL}
    return os.waitstatus_to_exitcode(status) != 0


def content_or_error(store: Store, path: str) -> bytes | None:
    """What a reader gets: None if it gets an error, a missing file or a failed verification."""
    try:
        return store.read(path)
    except (hflush.ChecksumError, FileNotFoundError):
        return None


@pytest.mark.shim
@pytest.mark.rule("LOCAL-5", "CLOSE-23", "CONC-12")
@pytest.mark.parametrize("before", [None, dataset(3000, first=100)], ids=["new", "over another"])
@pytest.mark.parametrize("size", [0, 100, 5000, 3 << 20])
def test_killed_at_every_call_of_a_write(
    faults: Faults, store: Store, size: int, before: bytes | None
) -> None:
    """Dying anywhere in create, write, close: readers get a prefix of the new bytes, or the old."""
    path = store.path("file")
    data = dataset(size, first=1)

    def work() -> None:
        with store.fs.create(path) as out:
            out.write(data[: size // 2])
            out.flush()
            out.write(data[size // 2 :])

    for call in range(1000):
        if before is not None:
            store.write(path, before)
        elif call:
            store.fs.delete(path)
        if not killed_at(faults, call, work):
            break
        content = content_or_error(store, path)
        assert content is None or content == before or data.startswith(content)
    assert call >= 2
    assert store.read(path) == data


@pytest.mark.shim
@pytest.mark.rule("ATOM-9", "CLOSE-23")
@pytest.mark.parametrize("before", [None, dataset(3000, first=100)], ids=["new", "over another"])
@pytest.mark.parametrize("end", ["close", "abort"])
def test_killed_at_every_call_of_an_atomic_file(
    faults: Faults, store: Store, before: bytes | None, end: str
) -> None:
    """Dying anywhere: the old file or the whole new one; what is left besides is swept."""
    path = store.path("file")
    data = dataset(3 << 20, first=1)

    def work() -> None:
        out = store.fs.create(path, atomic=True)
        out.write(data[:5000])
        out.flush()
        out.write(data[5000:])
        getattr(out, end)()

    seen = set()
    for call in range(1000):
        if before is not None:
            store.write(path, before)
        elif call:
            store.fs.delete(path)
        if not killed_at(faults, call, work):
            break
        content = store.read(path) if store.fs.exists(path) else None
        assert content in (before, data)
        seen.add(content)
        with store.new_client() as fs:
            fs.create(store.path("next"), atomic=True).abort()
        assert {*os.listdir(store.root)} <= {"file", ".file.crc"}
    assert call >= 5
    assert seen == ({before, data} if end == "close" else {before})
    assert (store.read(path) if store.fs.exists(path) else None) == (
        data if end == "close" else before
    )


@pytest.mark.shim
@pytest.mark.rule("LOCAL-5", "RENAME-25")
@pytest.mark.rule("ATOM-3", on="raw")
@pytest.mark.parametrize("replaced", [None, dataset(3000, first=100)], ids=["free", "over another"])
def test_killed_at_every_call_of_a_rename(
    faults: Faults, store: Store, replaced: bytes | None
) -> None:
    """Dying inside a rename: the file is at one of its names, whole, or readers are warned."""
    source, target = store.path("source"), store.path("target")
    moved = dataset(2000)

    def work() -> None:
        store.fs.rename(source, target)

    for call in range(100):
        store.fs.delete(target)
        store.write(source, moved)
        if replaced is not None:
            store.write(target, replaced)
        if not killed_at(faults, call, work):
            break
        assert store.fs.exists(source) or store.fs.exists(target)
        assert content_or_error(store, source) in {None, moved}
        assert content_or_error(store, target) in {None, moved, replaced}
    assert call > 0
    assert not store.fs.exists(source)
    assert store.read(target) == moved


@pytest.mark.shim
@pytest.mark.rule("LOCAL-5", "DELETE-9", "DELETE-7")
def test_killed_at_every_call_of_a_delete(faults: Faults, store: Store) -> None:
    """Dying inside a delete: the old sidecar never speaks for a new file of that name."""
    path = store.path("file")
    for call in range(100):
        store.write(path, dataset(2000))
        if not killed_at(faults, call, lambda: store.fs.delete(path)):
            break
        assert content_or_error(store, path) in {None, dataset(2000)}
        assert store.read(store.write(path, b"new")) == b"new"
    assert call > 0
    assert not store.fs.exists(path)
    store.fs.create(path, atomic=True).close()  # which sweeps sums that were set aside
    store.fs.delete(path)
    assert os.listdir(store.root) == []
