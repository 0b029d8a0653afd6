"""A signal handler that closes what its thread is writing to: it is refused, and nothing ends."""

from __future__ import annotations

import bz2
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import hflush
import pytest
from faults.shim.control import Faults, Gate
from hflush.checkpoint import CheckpointFileManager
from hflush.fsspec import HflushFileSystem
from hflush.fsspec.files import compressed
from hflush.logging import Handler
from hflush.opening import written_text
from support.stores import Store
from support.waiting import Task, wait_until

pytestmark = [pytest.mark.shim, pytest.mark.stores("raw")]

DATA = os.urandom(1 << 20)  # goes to the file, compressed or not, without a copy


@pytest.fixture
def close_within(faults: Faults) -> Iterator[Callable[..., None]]:
    """A call that writes twice, and closes what is above a stream while the second write waits."""
    gate: Gate
    close: Callable[[], None]

    def handle(*_: object) -> None:
        with pytest.raises(RuntimeError, match="reentrant call"):
            close()
        gate.release()

    def interrupt(out: hflush.FSDataOutputStream) -> None:
        wait_until(lambda: out._try_write(b"") is None, "the write waits")
        os.kill(os.getpid(), signal.SIGUSR1)

    def call(out: hflush.FSDataOutputStream, write: Callable[[], object], above: Any) -> None:
        nonlocal gate, close
        close = above.close
        write()  # something to sync
        with faults.gate("sync", limit=1) as gate:
            syncing = Task(hflush.FSDataOutputStream.hsync, out)
            gate.wait_for(1)
            interrupting = Task(interrupt, out)
            write()
        interrupting.result()
        syncing.result()

    before = signal.signal(signal.SIGUSR1, handle)
    yield call
    signal.signal(signal.SIGUSR1, before)


def filesystem(store: Store) -> HflushFileSystem:
    return HflushFileSystem(conf=store.conf)


def checkpoint(store: Store, path: str) -> Any:
    return CheckpointFileManager.create(store.url(), store.conf).create_atomic(path, True)


@pytest.mark.rule("CLOSE-10")
@pytest.mark.parametrize(
    ("create", "read"),
    [
        (lambda store, path: store.fs.create(path, atomic=True), bytes),
        (checkpoint, bytes),
        (lambda store, path: compressed(store.fs.create(path), bz2.BZ2File, "wb"), bz2.decompress),
        (lambda store, path: filesystem(store).open(path, "wb", autocommit=False), bytes),
    ],
    ids=["atomic", "checkpoint", "compressed", "deferred"],
)
def test_the_next_close_publishes(
    close_within: Callable[..., None],
    store: Store,
    create: Callable[[Store, str], Any],
    read: Callable[[bytes], bytes],
) -> None:
    path = store.path("file")
    out = create(store, path)
    close_within(getattr(out, "_stream", out), lambda: out.write(DATA), out)
    out.write(b"end")
    out.close()
    if hasattr(out, "commit"):
        out.commit()
    assert read(store.content(path)) == 2 * DATA + b"end"
    assert store.on_disk() == ["file"]


@pytest.mark.parametrize("text", [False, True])
def test_within_a_compressor(store: Store, text: bool) -> None:
    """It may be interrupted when it has compressed, and not written yet."""

    class Interrupted(bz2.BZ2File):
        def write(self, data: Any) -> int:
            for call in (above.close, above.flush, lambda: out.write(b"")):
                with pytest.raises(RuntimeError, match="reentrant call"):
                    call()
            return super().write(data)

    path = store.path("file")
    out = compressed(store.fs.create(path, atomic=True), Interrupted, "wb")
    above: Any = written_text(out, "ascii") if text else out
    with above:
        out.write(DATA)
    assert bz2.decompress(store.content(path)) == DATA


def test_what_was_persisted_has_its_writer(close_within: Callable[..., None], store: Store) -> None:
    out = store.fs.create(store.path("file"))
    token = out.persist()
    close_within(out, lambda: out.write(DATA), out)
    with pytest.raises(hflush.LeaseHeldError):
        hflush.resume(token)
    store.fs.close()
    assert out.closed
    assert store.content(store.path("file")) == 2 * DATA


def test_a_log_is_closed_when_the_record_is_written(
    close_within: Callable[..., None], store: Store
) -> None:
    handler = Handler(store.url(store.path("log")), "w", atomic=True)
    close_within(handler._stream, lambda: handler._write(DATA, 0), handler)
    assert store.content(store.path("log")) == 2 * DATA
