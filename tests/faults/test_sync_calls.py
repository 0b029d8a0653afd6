"""Which system calls stand behind each promise: the shim's log is the witness."""

from __future__ import annotations

import os
from bisect import bisect
from collections.abc import Iterable
from functools import partial

import pytest
from faults.shim.control import Call, Faults
from support.data import dataset, frame, parse_frames
from support.stores import Store
from support.waiting import together

pytestmark = pytest.mark.shim


def synced_lengths(calls: Iterable[Call]) -> list[int]:
    """How long a prefix of the file is written and then synced, before and after each call."""
    ends: list[int] = []  # of the writes
    lengths = [0]  # of the file after so many writes
    synced = [0]
    for call in calls:
        durable = synced[-1]
        if call.operation == "write" and call.result > 0:
            ends.append(call.ended)
            lengths.append(lengths[-1] + call.result)
        elif call.operation == "sync" and call.result == 0 and not call.is_directory:
            durable = max(durable, lengths[bisect(ends, call.began)])
        synced.append(durable)
    return synced


def synced_length(calls: Iterable[Call]) -> int:
    """How long a prefix of the file is written, then synced."""
    return synced_lengths(calls)[-1]


@pytest.mark.rule("HSYNC-3", "HSYNC-2", "LOCAL-9")
@pytest.mark.stores("raw")
@pytest.mark.parametrize("size", [1, 1000, 70_000, 3 << 20])
def test_hsync_syncs_what_it_wrote(faults: Faults, store: Store, size: int) -> None:
    """Before hsync returns every byte is written and then synced, each time."""
    with store.fs.create(store.path("file")) as out:
        for round_number in (1, 2, 3):
            out.write(dataset(size))
            out.hsync()
            assert synced_length(faults.calls(path="*/file")) == round_number * size


@pytest.mark.rule("HSYNC-14")
@pytest.mark.stores("raw")
def test_first_hsync_syncs_the_directory(faults: Faults, store: Store) -> None:
    """The name of a new file is durable too; once is enough."""
    with store.fs.create(store.path("file")) as out:
        out.write(b"a")
        assert not [call for call in faults.calls("sync") if call.is_directory]
        out.hsync()
        directories = [call for call in faults.calls("sync") if call.is_directory]
        assert [(call.path, call.result) for call in directories] == [(store.root, 0)]


@pytest.mark.rule("HSYNC-14")
@pytest.mark.stores("raw")
def test_first_hsync_syncs_the_directory_that_a_link_leads_to(faults: Faults, store: Store) -> None:
    """A link to nothing makes a file there."""
    store.fs.mkdirs(store.path("there"))
    os.symlink(store.path("there", "file"), store.path("link"))
    with store.fs.create(store.path("link")) as out:
        out.write(b"a")
        out.hsync()
        directories = [call.path for call in faults.calls("sync") if call.is_directory]
        assert directories == [store.path("there")]
        out.write(b"b")
        out.hsync()
        assert len([call for call in faults.calls("sync") if call.is_directory]) == 1


@pytest.mark.rule("HSYNC-9")
@pytest.mark.stores("raw")
def test_hsync_of_nothing_succeeds(faults: Faults, store: Store) -> None:
    """hsync right after create, and again without new bytes, succeeds and writes nothing."""
    with store.fs.create(store.path("file")) as out:
        out.hsync()
        out.hsync()
        assert faults.calls("write") == []
        out.write(b"a")
        out.hsync()
        out.hsync()
    assert [call.result for call in faults.calls("write")] == [1]


@pytest.mark.rule("HSYNC-2", "HSYNC-3")
@pytest.mark.stores("raw")
def test_hsync_after_append_syncs(faults: Faults, store: Store) -> None:
    """An appending stream syncs what it appended."""
    path = store.write(store.path("file"), b"old")
    mark = faults.position
    with store.fs.append(path) as out:
        out.write(b"new")
        out.hsync()
        assert synced_length(faults.calls(path="*/file", since=mark)) == 3


@pytest.mark.rule("HFLUSH-5", "HFLUSH-16", "LOCAL-9")
@pytest.mark.stores("raw")
def test_hflush_writes_and_does_not_sync(faults: Faults, store: Store) -> None:
    """hflush hands every byte to the operating system, and that is all."""
    with store.fs.create(store.path("file")) as out:
        for count in range(1, 11):
            out.write(dataset(100))
            out.hflush()
            written = sum(call.result for call in faults.calls("write", path="*/file"))
            assert written == count * 100
    assert faults.calls("sync") == []


@pytest.mark.rule("FLUSH-3", "FLUSH-4")
def test_flush_never_syncs(faults: Faults, store: Store) -> None:
    """A hundred flushes count for no sync."""
    with store.fs.create(store.path("file")) as out:
        for _ in range(100):
            out.write(dataset(600))
            out.flush()
    assert faults.calls("sync") == []


@pytest.mark.rule("FLUSH-8", "WRITE-8")
def test_calls_without_new_bytes_do_nothing(faults: Faults, store: Store) -> None:
    """A repeated flush and an empty write ask nothing of the store."""
    with store.fs.create(store.path("file")) as out:
        out.write(dataset(1300))
        out.flush()
        mark = faults.position
        for _ in range(100):
            out.flush()
            out.write(b"")
        assert faults.position == mark


@pytest.mark.rule("CLOSE-5")
def test_second_close_does_no_io(faults: Faults, store: Store) -> None:
    """close is idempotent, and cheap the second time."""
    out = store.fs.create(store.path("file"))
    out.write(b"data")
    out.close()
    mark = faults.position
    assert out.close() is None
    assert out.close() is None
    assert faults.position == mark


@pytest.mark.rule("CLOSE-12", divergence=("raw", "crc"))
def test_close_does_not_sync_by_default(faults: Faults, store: Store) -> None:
    """The declared default: close publishes and leaves durability to hsync."""
    store.write(store.path("file"), dataset(2000))
    assert store.options["sync-on-close"] is False
    assert faults.calls("sync") == []


@pytest.mark.rule("CLOSE-12", divergence=("raw", "crc"))
def test_close_syncs_on_request(faults: Faults, store: Store) -> None:
    """With sync_on_close every file of the stream is synced after its last byte."""
    with store.fs.create(store.path("file"), sync_on_close=True) as out:
        out.write(dataset(2000))
    assert synced_length(faults.calls(path="*/file")) == 2000
    if store.name == "crc":
        assert synced_length(faults.calls(path="*/.file.crc")) == 8 + 4 * 4


@pytest.mark.rule("CLOSE-13")
@pytest.mark.stores("raw")
def test_hsync_then_close_is_durable(faults: Faults, store: Store) -> None:
    """What hsync covered, close does not write again."""
    with store.fs.create(store.path("file")) as out:
        out.write(dataset(5000))
        out.hsync()
    calls = faults.calls("write", "sync", path="*/file")
    assert calls[-1].operation == "sync"
    assert synced_length(calls) == 5000


@pytest.mark.rule("RENAME-28", on="raw")
def test_rename_is_one_call(faults: Faults, store: Store) -> None:
    """rename/3 neither checks, deletes nor replaces in steps: one call moves the file."""
    from hflush import Rename

    source, target = store.write(store.path("a"), b"new"), store.path("b")
    mark = faults.position
    store.fs.rename(source, target, Rename.NONE)
    moved = faults.calls("rename", "link", "unlink", path="*/a", since=mark)
    assert [call.function for call in moved] == ["renameat2"]
    store.write(source, b"newer")
    mark = faults.position
    store.fs.rename(source, target, Rename.OVERWRITE)
    moved = faults.calls("rename", "link", "unlink", path="*/[ab]", since=mark)
    assert [call.operation for call in moved] == ["rename"]
    assert store.read(target) == b"newer"


@pytest.mark.rule("HSYNC-3", "CONC-1")
@pytest.mark.stores("raw")
def test_shared_syncs_cover_every_thread(faults: Faults, store: Store) -> None:
    """Sixteen threads: each hsync returns after a sync that began after that thread's write."""
    threads, records = 16, 40
    returned: list[
        tuple[int, int, int]
    ] = []  # thread, record, log position when its hsync returned

    def work(thread: int) -> None:
        for record in range(records):
            out.write(frame(thread, record, 1000))
            out.hsync()
            returned.append((thread, record, faults.position))

    path = store.path("file")
    with store.fs.create(path) as out:
        together(*(partial(work, thread) for thread in range(threads)))
        synced = synced_lengths(faults.calls())
    length = len(frame(0, 0, 1000))
    places = {
        (thread, record): place
        for place, (thread, record, _) in enumerate(parse_frames(store.read(path)))
    }
    assert len(returned) == len(places) == threads * records
    for thread, record, position in returned:
        assert synced[position] >= (places[thread, record] + 1) * length
