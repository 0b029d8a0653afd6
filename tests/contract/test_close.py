"""CLOSE: the one attempt to publish."""

from __future__ import annotations

import contextlib
import gc
import signal
import warnings
from collections import Counter
from collections.abc import Callable

import hflush
import pytest
from faults.shim.control import Faults
from support.data import dataset
from support.documentation import docstring
from support.interrupts import interrupt_main_thread
from support.process import thread_names
from support.stores import FILES, Store
from support.waiting import Task, together, wait_until

Stream = hflush.FSDataOutputStream

MIB = 1 << 20


@pytest.mark.rule("CLOSE-1")
@pytest.mark.parametrize(
    "size",
    [0, 1, 511, 512, 513, 4607, 4608, 4609, 65535, 65536, 65537, MIB - 1, MIB, MIB + 1, 3_879_731],
)
def test_close_publishes_every_byte(store: Store, path: str, out: Stream, size: int) -> None:
    """CLOSE-1: after close the file holds what was written, whatever the size."""
    data = dataset(size)
    out.write(data)
    out.close()
    assert out.closed
    assert store.read(path) == data


@pytest.mark.rule("CLOSE-2", "CLOSE-14", "CONC-11", "FAIL-8")
@pytest.mark.shim
def test_close_waits_without_starving_others(store: Store, faults: Faults, path: str) -> None:
    """CLOSE-2, 14: close returns when the bytes are there; other threads run meanwhile."""
    out = store.fs.create(path)
    out.write(b"abc")
    ticks: list[int] = []
    with faults.gate("write") as gate:
        closing = Task(out.close)
        gate.wait_for(1)
        counting = Task(lambda: ticks.extend(range(100)))
        counting.result()
        assert len(ticks) == 100
        assert closing.is_alive()
        assert store.content(path) == b""
    assert closing.result() is None
    assert store.read(path) == b"abc"


@pytest.mark.rule("CLOSE-3", "CONSIST-1")
def test_other_clients_read_what_was_closed(store: Store, path: str) -> None:
    """CLOSE-3: right after close another process reads the new content, a hundred times."""
    peer = store.second_client()
    for number in range(100):
        data = dataset(number * 37, number)
        store.write(path, data)
        assert peer.run("read(path)", path=path) == data


@pytest.mark.rule("CLOSE-4", "CONSIST-9")
def test_metadata_is_final_after_close(store: Store, path: str, out: Stream) -> None:
    """CLOSE-4: after close, status and every listing agree on length, time, kind and owner."""
    out.write(dataset(1234))
    out.close()
    status = store.fs.get_file_status(path)
    assert (status.length, status.is_file, status.is_directory) == (1234, True, False)
    assert status.modification_time > 0
    assert status.block_size > 0
    assert store.fs.list_status(store.root) == [status]
    assert store.fs.list_status(path) == [status]
    assert list(store.fs.list_status_iterator(store.root)) == [status]
    assert [found.length for found in store.fs.list_files(store.root, recursive=True)] == [1234]
    peer = store.second_client()
    assert peer.run("fs.get_file_status(path)", path=path) == status


@pytest.mark.rule("CLOSE-5")
@pytest.mark.shim
def test_second_close_does_nothing(store: Store, faults: Faults, path: str) -> None:
    """CLOSE-5: after success, further closes return None without a system call."""
    out = store.fs.create(path)
    out.write(b"abc")
    out.close()
    before = faults.position
    assert [out.close() for _ in range(3)] == [None] * 3
    assert faults.calls(since=before) == []
    assert store.read(path) == b"abc"


def error_of(attempt: Callable[[], object]) -> OSError | None:
    """Return the OSError that the attempt raised, or None."""
    try:
        attempt()
    except OSError as error:
        return error
    return None


def write_and_flush(out: Stream) -> OSError | None:
    def attempt() -> None:
        out.write(bytes(MIB))
        out.flush()

    return error_of(attempt)


def close_on_a_full_disk(store: Store, out: Stream) -> OSError:
    """Close a stream whose last bytes find no room; return what close raised."""
    out.write(dataset(1000))
    with store.full(100), pytest.raises(OSError, match=store.full_text) as caught:
        out.close()
    return caught.value


@pytest.mark.rule("CLOSE-6", "CLOSE-19", "CLOSE-17")
def test_failed_close_is_not_repeated(store: Store, path: str) -> None:
    """CLOSE-6, 17, 19: close fails if the store refuses; a second one is a quiet no-op."""
    out = store.fs.create(path)
    error = close_on_a_full_disk(store, out)
    assert (error.errno, error.filename) == (store.full_errno, store.filename(path))
    assert [out.close() for _ in range(2)] == [None] * 2
    assert len(store.visible(path)) <= 100


@pytest.mark.rule("CLOSE-7", "CAP-4", "STATS-4")
def test_failed_close_leaves_the_stream_closed(store: Store, path: str) -> None:
    """CLOSE-7: after a failed close, writes and syncs are rejected, probes answer."""
    out = store.fs.create(path)
    close_on_a_full_disk(store, out)
    assert out.closed
    for attempt in (lambda: out.write(b"x"), lambda: out.write_byte(1)):
        with pytest.raises(hflush.StreamClosedError):
            attempt()
    for sync in (out.hflush, out.hsync):
        with pytest.raises(OSError, match=r"hflush|hsync|closed|failed"):
            sync()
    assert out.flush() is None
    assert isinstance(out.has_capability("hsync"), bool)
    assert out.io_statistics().counters["stream_write_exceptions"] >= 1


@pytest.mark.rule("CLOSE-8")
@pytest.mark.parametrize("outcome", ["success", "failure", "failure before close"])
def test_close_releases_everything(store: Store, path: str, outcome: str) -> None:
    """CLOSE-8: descriptors return to what they were, and no stream leaves a thread of its own."""
    shared = {"hflush-io", "hflush-net"}  # of the process, begun by who needs them first
    others = [name for name in thread_names() if name not in shared]
    for number in range(20):
        out = store.fs.create(f"{path}-{number}")
        assert store.held() or not store.local  # no block yet, no connection
        if outcome == "success":
            out.write(bytes(MIB))
            out.close()
        elif outcome == "failure":
            close_on_a_full_disk(store, out)
        else:
            with store.full(100):
                failed = write_and_flush(out)
                assert failed is not None or not store.local  # a cluster answers later
                with pytest.raises(OSError, match=store.full_text):
                    out.close()
        assert store.held() == []
        published = outcome == "success" or store.name != "s3"
        assert store.fs.exists(f"{path}-{number}") is published
    added = Counter(thread_names()) - Counter(others)  # one of the others may have ended meanwhile
    assert set(added) <= shared
    assert added["hflush-net"] <= 1
    assert thread_names().count("hflush-io") < 20  # the pool, whatever the number of streams
    assert all(name.startswith(("file-", ".file-")) for name in store.on_disk())


@pytest.mark.rule("CLOSE-8", "CLOSE-3")
@pytest.mark.stores("raw", "hdfs")
def test_another_client_appends_right_after_close(store: Store, path: str) -> None:
    """CLOSE-8: close leaves no lock: a second client appends at once."""
    store.write(path, b"one")
    store.second_client().run("out = fs.append(path); out.write(b'two'); out.close()", path=path)
    assert store.read(path) == b"onetwo"


@pytest.mark.rule("CLOSE-10")
@pytest.mark.shim
@pytest.mark.parametrize("blocked", ["write", "hsync"])
def test_interrupted_close_is_no_success(
    store: Store, faults: Faults, path: str, blocked: str
) -> None:
    """CLOSE-10: Ctrl-C while close waits for another call is raised from it; nothing is retried."""
    data = dataset(8 * MIB)
    out = store.fs.create(path)
    if blocked == "hsync" and out.has_capability("hsync"):
        out.write(data)
        operation, call = "sync", out.hsync
    else:
        operation, call = "write", lambda: out.write(data)
    with faults.gate(operation, limit=1) as gate:
        other = Task(call)
        gate.wait_for(1)

        def interrupt() -> None:
            wait_until(lambda: out._state == "closing", "close is under way")
            interrupt_main_thread().result()
            wait_until(lambda: out._state != "closing", "close has heard of the interrupt")
            gate.release()  # close leaves the file only when the kernel is done with it

        interrupting = Task(interrupt)
        with pytest.raises(KeyboardInterrupt):
            out.close()
        interrupting.result()
    with_no_other_error(other)
    before = faults.position
    assert out.close() is None
    assert faults.calls(since=before) == []
    assert store.held() == []
    with pytest.raises(hflush.StreamClosedError):
        out.write(b"x")
    assert data.startswith(store.content(path))


def with_no_other_error(task: Task) -> None:
    """Join; the task may have found the stream closed or failed, nothing else."""
    with contextlib.suppress(OSError):
        task.result()


@pytest.mark.rule("CLOSE-11")
@pytest.mark.stores("crc")
def test_failed_close_leaves_no_wrong_checksums(store: Store, path: str) -> None:
    """CLOSE-11: after a failed close, what a verifying reader gets is a prefix, or an error."""
    out = store.fs.create(path)
    close_on_a_full_disk(store, out)
    with contextlib.suppress(hflush.ChecksumError):
        assert dataset(1000).startswith(store.read(path))


@pytest.mark.rule("CLOSE-12", divergence=("raw", "crc"))
@pytest.mark.shim
def test_close_declares_that_it_does_not_sync(store: Store, faults: Faults, path: str) -> None:
    """CLOSE-12: local close gives visibility only and says so; the option makes it durable."""
    assert store.options["sync-on-close"] is False
    store.write(path, b"abc")
    assert faults.calls("sync") == []
    with hflush.create(store.url(path), conf=store.conf, sync_on_close=True) as out:
        out.write(b"abc")
    assert [call.name for call in faults.calls("sync") if call.name == "file"] == ["file"]


@pytest.mark.rule("CLOSE-13")
@pytest.mark.stores("raw")
@pytest.mark.shim
def test_hsync_then_close_is_durable(store: Store, faults: Faults, path: str) -> None:
    """CLOSE-13: hsync before close covers every byte: no write of the file follows it."""
    with store.fs.create(path) as out:
        out.write(dataset(300_000))
        out.hsync()
    assert "durable only after :meth:`hsync`" in docstring(Stream.close)
    operations = [call.operation for call in faults.calls("write", "sync", path="*/file")]
    assert operations[-1] == "sync"
    assert operations.count("sync") == 1


@pytest.mark.rule("CLOSE-16")
def test_close_of_an_unwritten_stream_makes_an_empty_file(
    store: Store, path: str, out: Stream
) -> None:
    """CLOSE-16: create and close give a file of no bytes."""
    out.close()
    status = store.fs.get_file_status(path)
    assert (status.length, status.is_file) == (0, True)
    assert store.read(path) == b""


class BodyError(Exception):
    """Raised in the body of a `with`."""


@pytest.mark.rule("CLOSE-18")
def test_error_of_close_leaves_the_with_block(store: Store, path: str) -> None:
    """CLOSE-18: if the body went well, the failure of close propagates."""
    out = store.fs.create(path)

    def use() -> None:
        with out:
            out.write(dataset(1000))

    with store.full(100), pytest.raises(OSError, match=store.full_text) as caught:
        use()
    assert caught.value.errno == store.full_errno
    assert out.closed


@pytest.mark.rule("CLOSE-18")
@pytest.mark.stores(*FILES)
def test_error_in_flight_stays_the_primary_one(store: Store, path: str) -> None:
    """CLOSE-18: an exception of the body propagates, with the failure of close attached."""
    out = store.fs.create(path)
    error = BodyError("mine")

    def use() -> None:
        with out:
            out.write(dataset(1000))
            raise error

    with store.full(100), pytest.raises(BodyError) as caught:
        use()
    assert caught.value is error
    assert out.closed
    attached = [*getattr(error, "__notes__", []), repr(error.__context__)]
    assert any("failed" in text and path in text for text in attached), attached


@pytest.mark.rule("CLOSE-18")
@pytest.mark.stores(*FILES)
def test_error_in_the_body_alone_propagates(store: Store, path: str) -> None:
    """CLOSE-18: leaving by an exception closes a local stream, as it does a file."""
    out = store.fs.create(path)

    def use() -> None:
        with out:
            out.write(b"kept")
            raise BodyError

    with pytest.raises(BodyError):
        use()
    assert out.closed
    assert store.read(path) == b"kept"


@pytest.mark.rule("CLOSE-19")
def test_no_error_object_is_raised_twice(store: Store, path: str) -> None:
    """CLOSE-19: a failure reported again is a new object."""
    out = store.fs.create(path)
    out.write(dataset(1000))
    with store.full(100):
        attempts = (out.close, out.close, lambda: out.write(b"x"), lambda: out.write(b"x"))
        outcomes = [error_of(attempt) for attempt in attempts]
    raised = [error for error in outcomes if error is not None]
    assert len(raised) == 3
    assert len({id(error) for error in raised}) == 3


@pytest.mark.rule("CLOSE-20")
@pytest.mark.stores(*FILES)
def test_closing_the_filesystem_closes_its_streams(store: Store, path: str) -> None:
    """CLOSE-20: FileSystem.close closes the streams it made; it does not hang or leave a lock."""
    client = store.new_client()
    out = client.create(path)
    out.write(b"abc")
    Task(client.close).result()
    assert out.closed
    assert store.held() == []
    peer = store.second_client()
    assert peer.run("read(path)", path=path) == b"abc"
    peer.run("fs.create(path).close()", path=path)


@pytest.mark.rule("CLOSE-21")
def test_dropped_stream_warns_and_is_released(store: Store, path: str) -> None:
    """CLOSE-21: a stream dropped without close warns, frees its file and publishes no more."""
    out = store.fs.create(path)
    out.write(dataset(1000))
    before = store.visible(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del out
        gc.collect()
    assert [warning.category for warning in caught] == [hflush.NotPublishedWarning]
    assert path in str(caught[0].message)
    assert store.held() == []
    assert store.visible(path) == before


@pytest.mark.rule("CLOSE-21")
@pytest.mark.stores("raw", "hdfs")
def test_dropped_stream_keeps_what_was_acknowledged(store: Store, path: str) -> None:
    """CLOSE-21: what hflush acknowledged stays readable."""
    out = store.fs.create(path)
    out.write(b"flushed")
    out.hflush()
    out.write(b"not")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del out
        gc.collect()
    assert [warning.category for warning in caught] == [hflush.NotPublishedWarning]
    assert store.read(path) == b"flushed"


@pytest.mark.rule("CLOSE-21")
def test_closed_stream_does_not_warn(store: Store, path: str) -> None:
    """CLOSE-21: no warning for a stream that was closed, or that failed to close."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = store.fs.create(path)
        out.close()
        del out
        gc.collect()
        out = store.fs.create(path)
        close_on_a_full_disk(store, out)
        del out
        gc.collect()


@pytest.mark.rule("CLOSE-22")
@pytest.mark.shim
def test_concurrent_closes_make_one_attempt(store: Store, faults: Faults, path: str) -> None:
    """CLOSE-22: eight threads close: one closes the file, none fails, all find it complete."""
    out = store.fs.create(path)
    out.write(dataset(1000))
    seen = together(*[lambda: (out.close(), out.closed)] * 8)
    assert seen == [(None, True)] * 8
    assert len(faults.calls("close", path="*/file")) == 1
    assert sum(call.result for call in faults.calls("write", path="*/file")) == 1000
    assert store.read(path) == dataset(1000)


@pytest.mark.rule("CLOSE-22", "CLOSE-19")
def test_concurrent_failed_closes_report_once(store: Store, path: str) -> None:
    """CLOSE-22: eight threads close on a full disk: one gets the failure, the others return."""
    out = store.fs.create(path)
    out.write(dataset(1000))
    with store.full(100):
        outcomes = together(*[lambda: error_of(out.close)] * 8)
    errors = [error for error in outcomes if error is not None]
    assert len(errors) == 1
    assert errors[0].errno == store.full_errno


@pytest.mark.rule("CLOSE-23")
@pytest.mark.stores(*FILES)
def test_death_before_close_leaves_a_prefix(store: Store, path: str) -> None:
    """CLOSE-23: a writer killed before close leaves a prefix, as declared; it may be rewritten."""
    data = dataset(3 * MIB, 1, 250)
    writer = store.spawn()
    writer.run("out = fs.create(path); out.write(data); out.flush()", path=path, data=data)
    assert writer.kill() == -signal.SIGKILL
    assert data.startswith(store.visible(path))
    assert "prefix" in str(store.options["partial-data-on-crash"])
    try:
        assert data.startswith(store.read(path))
    except hflush.ChecksumError:
        assert store.name == "crc"
    store.write(path, b"again")
    assert store.read(path) == b"again"


@pytest.mark.rule("CLOSE-21")
def test_exit_of_the_interpreter_publishes_nothing(store: Store, path: str) -> None:
    """CLOSE-21: a stream left open at interpreter exit is abandoned; the exit is clean."""
    writer = store.spawn()
    writer.run("out = fs.create(path); out.write(b'abc')", path=path)
    assert writer.close() == 0
    assert store.visible(path) == b""
