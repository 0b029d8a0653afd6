"""Every call that a stream makes, failing in every way and place: success tells the truth."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import hflush
import pytest
from faults.expecting import os_error
from faults.shim.control import Faults, named
from support.data import dataset
from support.process import descriptors_under
from support.stores import Store

pytestmark = pytest.mark.shim

SIZES = [10, 600, 70_000, 3 << 20, 513, 1]
TRANSIENT = [("write", errno.EINTR), ("write", errno.EAGAIN), ("sync", errno.EINTR)]
LASTING = [
    *(
        ("write", error)
        for error in (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
    ),
    *(("sync", error) for error in (errno.EIO, errno.ENOSPC, errno.EDQUOT)),
    *(("close", error) for error in (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR)),
    *(("open", error) for error in (errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EACCES)),
    *((operation, errno.EIO) for operation in ("rename", "unlink", "truncate", "mkdir")),
]


class Writer:
    """Writes a file piece by piece and keeps account of what every call claimed."""

    def __init__(self, store: Store, path: str) -> None:
        self.path = path
        self.errors: list[OSError] = []
        self.given = b""  # all bytes ever passed to write
        self.acknowledged = 0  # how many of them a call that returned has vouched for
        self._accepted = 0
        self._stream: hflush.FSDataOutputStream | None = None
        self._attempt(lambda: setattr(self, "_stream", store.fs.create(path)))

    def run(self) -> None:
        """Every piece, each followed by flush and, where there is one, hsync; then close, twice."""
        stream = self._stream
        if stream is None:
            return
        for number, size in enumerate(SIZES):
            self._write(stream, dataset(size, first=number))
            self._attempt(stream.flush)
            if stream.has_capability("hsync"):
                self._attempt_lasting(stream.hsync)
        if self._attempt(stream.close):
            self.acknowledged = self._accepted
        assert stream.close() is None
        assert stream.closed

    def _write(self, stream: hflush.FSDataOutputStream, piece: bytes) -> None:
        failed_before = bool(self.errors)
        self.given += piece if not failed_before else b""
        if self._attempt(lambda: stream.write(piece)):
            assert not failed_before, "a write was accepted after a failure"
            self._accepted += len(piece)

    def _attempt_lasting(self, call: Callable[[], Any]) -> None:
        failed_before = bool(self.errors)
        if self._attempt(call):
            assert not failed_before, "a sync succeeded after a failure"
            self.acknowledged = self._accepted

    def _attempt(self, call: Callable[[], Any]) -> bool:
        try:
            call()
        except OSError as error:
            self.errors.append(error)
            return False
        return True


def check(store: Store, writer: Writer) -> None:
    """What was acknowledged is there, and nothing but what was given."""
    assert descriptors_under(store.root) == []
    complete = not writer.errors
    assert writer.acknowledged == len(writer.given) or not complete
    try:
        content = store.read(writer.path)
    except (hflush.ChecksumError, FileNotFoundError):
        assert writer.acknowledged == 0
        return
    assert len(content) >= writer.acknowledged
    assert writer.given.startswith(content)


def check_errors(writer: Writer, error: int) -> None:
    """Each failure names the file, its sidecar or a directory above; the first has the errno."""
    first = writer.errors[0]
    assert first.errno == error
    directory, name = os.path.split(writer.path)
    for failure in writer.errors:
        met = os.fsdecode(failure.filename)
        assert met in {writer.path, f"{directory}/.{name}.crc"} or directory.startswith(met)
        assert met in str(failure)
    assert len({id(failure) for failure in writer.errors}) == len(writer.errors)


@pytest.mark.rule("LOCAL-10", "FAIL-1", "FAIL-7")
@pytest.mark.parametrize("every", [2, 3])
@pytest.mark.parametrize(("operation", "error"), TRANSIENT, ids=named)
def test_transient_answers_are_retried(
    faults: Faults, store: Store, operation: str, error: int, every: int
) -> None:
    """EINTR and EAGAIN are not failures: every byte arrives, once."""
    rule = faults.fail(operation, error, every=every)
    writer = Writer(store, store.path("file"))
    writer.run()
    assert writer.errors == []
    assert rule.applied > 0 or operation == "sync"
    assert store.read(writer.path) == writer.given


@pytest.mark.rule("LOCAL-10", "WRITE-3", "FAIL-1")
@pytest.mark.parametrize("size", [1, 7, 511, 4096, 65_537])
def test_short_writes_are_finished(faults: Faults, store: Store, size: int) -> None:
    """Whatever the kernel takes of a call, the rest follows, in order."""
    faults.short("write", size)
    path = store.path("file")
    data = dataset(size * 50 + 13)
    with store.fs.create(path) as out:
        assert out.write(data[:5]) == 5
        out.flush()
        assert out.write(data[5:]) == len(data) - 5
    assert max(call.result for call in faults.calls("write")) <= size
    assert store.read(path) == data


@pytest.mark.rule("LOCAL-10", "READ-2")
def test_short_and_interrupted_reads_are_finished(faults: Faults, store: Store) -> None:
    """A reader too gives every byte, and verifies them, through short and interrupted calls."""
    path = store.write(store.path("file"), dataset(100_000))
    faults.fail("read", errno.EINTR, every=3)
    faults.short("read", 777)
    with store.fs.open(path) as reader:
        assert reader.read_fully(5, 90_000) == dataset(100_000)[5:90_005]
        assert reader.read(-1) == dataset(100_000)


@pytest.mark.rule(
    "FAIL-1", "FAIL-3", "FAIL-4", "FAIL-7", "FAIL-14", "FAIL-16", "CLOSE-8", "CLOSE-19", "WRITE-15"
)
@pytest.mark.parametrize("skip", [0, 1, 2, 4])
@pytest.mark.parametrize(("operation", "error"), LASTING, ids=named)
def test_success_tells_the_truth(
    faults: Faults, store: Store, operation: str, error: int, skip: int
) -> None:
    """One call fails, later ones work: what a normal return vouched for is there; nothing leaks."""
    rule = faults.fail(operation, error, skip=skip, limit=1)
    writer = Writer(store, store.path("directory", "file"))
    writer.run()
    applied = rule.applied
    faults.stop()
    if applied and operation in {"write", "sync"}:
        assert writer.errors, "a lost write or sync was not reported"
    if writer.errors:
        check_errors(writer, error)
    check(store, writer)


@pytest.mark.rule("FAIL-1", "WRITE-14", "LOCAL-10")
@pytest.mark.parametrize("room", [0, 1, 511, 512, 650, 70_000, 71_000, 1 << 20, (3 << 20) + 71_000])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG], ids=named)
def test_full_disk_is_reported(faults: Faults, store: Store, error: int, room: int) -> None:
    """However much fits, the rest is an error, and what was acknowledged before is there."""
    faults.budget(room, error=error)
    writer = Writer(store, store.path("file"))
    writer.run()
    faults.stop()
    assert writer.errors
    check_errors(writer, error)
    check(store, writer)


@pytest.mark.rule("LOCAL-10", "FAIL-3", "FAIL-4")
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOMEM], ids=named)
def test_failed_read_is_reported(faults: Faults, store: Store, error: int) -> None:
    """A read error is an OSError with path and errno, never short or wrong data."""
    path = store.write(store.path("file"), dataset(5000))
    faults.fail("read", error)
    with os_error(error) as caught, store.fs.open(path) as reader:
        reader.read(-1)
    assert caught.value.filename in {path, store.path(".file.crc")}
