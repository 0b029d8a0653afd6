"""S3: what signal handlers do in the middle of a call, and what is left when a call is over."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast
from weakref import ref

import hflush
import pytest
from hflush.checkpoint import CheckpointFileManager
from hflush.fsspec import HflushS3FileSystem
from hflush.s3.filesystem import S3FileSystem
from support.s3_front import Exchange, answer, hold
from support.scripted_s3 import ScriptedS3
from support.waiting import wait_until

PART = 5 << 20
FAST = {"fs.s3a.create.performance": "true", "fs.s3a.multipart.size": str(PART)}


@pytest.fixture
def server() -> Iterator[ScriptedS3]:
    with ScriptedS3() as server:
        yield server


@pytest.fixture
def fs(server: ScriptedS3) -> Iterator[S3FileSystem]:
    made = hflush.FileSystem.new_instance("s3://bucket/", {**server.conf, **FAST})
    with made:
        yield cast("S3FileSystem", made)


@contextmanager
def on_signal(handler: Callable[[], None]) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, lambda *_: handler())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGUSR1)


def test_a_failure_keeps_neither_frames_nor_what_is_in_them(server: ScriptedS3, fs: S3FileSystem):
    class Data:
        pass

    server.fail("ListObjectsV2", answer(403, "AccessDenied"), times=None)

    def look() -> ref[Data]:
        data = Data()
        try:
            fs.list_status("/d")
        except PermissionError:
            return ref(data)
        raise AssertionError("it is allowed")

    gone = look()
    gc.collect()
    assert gone() is None


def test_a_handler_that_raises_when_all_is_published(server: ScriptedS3):
    """What it raises is raised, and not SystemError."""
    released = threading.Event()

    def interrupts(exchange: Exchange) -> None:
        interrupt()
        hold(released)(exchange)

    server.fail("PutObject", interrupts)
    # The loop makes the request, also while the thread that waits for it is in the handler.
    conf = {**server.conf, **FAST, "hflush.s3.direct.requests": "false"}
    with hflush.FileSystem.new_instance("s3://bucket/", conf) as fs:
        stream: Any = fs.create("/k")
        stream.write(b"data")

        def handler() -> None:
            released.set()
            wait_until(lambda: stream._upload.outcome()["state"] == "published", "it is published")
            raise KeyboardInterrupt

        with on_signal(handler), pytest.raises(KeyboardInterrupt):
            stream.close()
        assert stream.outcome == "published"
    assert server.objects["k"].data == b"data"


@pytest.mark.parametrize(
    ("operation", "executed", "said"),
    [
        ("PutObject", True, ["published all the same: s3://bucket/k"]),
        ("PutObject", False, ["whether s3://bucket/k is published is not known"]),
        ("CompleteMultipartUpload", True, ["published all the same: s3://bucket/k"]),
        ("CompleteMultipartUpload", False, []),
    ],
)
def test_an_interrupt_says_whether_the_object_is_there(
    server: ScriptedS3, fs: S3FileSystem, operation: str, executed: bool, said: list[str]
):
    """The store may have published it, or may still do so: an upload that is aborted it cannot."""
    released = threading.Event()

    def interrupts(exchange: Exchange) -> None:
        if executed:
            exchange.execute()
        interrupt()
        hold(released)(exchange)

    def handler() -> None:
        raise KeyboardInterrupt

    server.fail(operation, interrupts, times=None)
    stream: Any = fs.create("/k")
    stream.write(bytes(10 if operation == "PutObject" else PART + 10))
    with on_signal(handler), pytest.raises(KeyboardInterrupt) as caught:
        stream.close()
    released.set()
    assert getattr(caught.value, "__notes__", []) == said
    assert (stream.outcome == "published") == executed


def test_a_handler_that_uses_the_file_system_meanwhile(
    server: ScriptedS3, fs: S3FileSystem, monkeypatch: pytest.MonkeyPatch
):
    """Also while the first call waits for its credentials."""
    get = fs._bucket._source.get
    calls: list[int] = []

    def asked(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            interrupt()
        return get(*arguments)

    monkeypatch.setattr(fs._bucket._source, "get", asked)

    def handler() -> None:
        with fs.create("/state") as out:
            out.write(b"s")

    with on_signal(handler):
        assert not fs.exists("/x")
    assert server.objects["state"].data == b"s"


@pytest.mark.parametrize("way", ["checkpoint", "deferred"])
def test_a_close_within_a_write_ends_nothing(server: ScriptedS3, way: str):
    """It is refused to a handler; a later one publishes what was written."""
    conf = {**server.conf, **FAST}
    out: Any
    if way == "checkpoint":
        out = CheckpointFileManager.create("s3://bucket/", conf).create_atomic("/k", True)
    else:
        out = HflushS3FileSystem(conf=conf).open("bucket/k", "wb", autocommit=False)
    released = threading.Event()

    def interrupts(exchange: Exchange) -> None:
        interrupt()
        hold(released)(exchange)

    def handler() -> None:
        with pytest.raises(RuntimeError, match="close: reentrant call"):
            out.close()
        released.set()

    server.fail("UploadPart", interrupts)
    server.fail("UploadPart", hold(released), times=None)
    data = bytes(8 * PART)  # more than may be under way
    with on_signal(handler):
        out.write(data)
    out.close()
    if way == "deferred":
        out.commit()
    assert server.objects["k"].data == data


@pytest.mark.parametrize("ends", [True, False])
def test_bytes_are_let_go_by_the_next_call(server: ScriptedS3, fs: S3FileSystem, ends: bool):
    """Of the file system where the stream has ended, else of the stream."""
    data = bytes(PART)
    before = sys.getrefcount(data)
    stream: Any = fs.create("/k")
    stream.write(data)
    assert sys.getrefcount(data) > before
    if ends:
        stream.abort()

    def is_let_go() -> bool:
        if ends:
            fs.exists("/x")
        else:
            stream.write(b"x")
        return sys.getrefcount(data) == before

    wait_until(is_let_go, "nobody refers to the bytes")
    if not ends:
        stream.close()
