"""HDFS: one writer at a time, by a lease: who has it, how long, and who takes over."""

from __future__ import annotations

import contextlib
import io
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import hflush
import pytest
from hflush.status import LeaseRecovery
from support import rude_servers
from support.data import dataset
from support.minidfs import Hdfs, NewHdfs
from support.relay import Relay
from support.stores import HdfsStore
from support.waiting import DEADLINE_S, Task, wait_until

MIB = 1 << 20
RENEWING = {"ipc.client.rpc-timeout.ms": 2000}  # renews its lease every second
EC_POLICY = "XOR-2-1-1024k"

pytestmark = pytest.mark.stores("hdfs")


# --- one writer ---


@pytest.mark.rule("HDFS-1", "CREATE-11", "CONC-7", "CREATE-2")
def test_a_file_being_written_cannot_be_created(store: HdfsStore, path: str) -> None:
    """Another client's create without overwrite is refused, by a class that says both reasons."""
    assert store.options["single-writer"] is True
    with store.fs.create(path) as out:
        out.write(b"mine")
        out.hflush()
        with pytest.raises(hflush.LeaseHeldError) as refusal:
            store.second_client().run("fs.create(path, overwrite=False)", path=path)
        assert isinstance(refusal.value, FileExistsError)
        assert refusal.value.filename == path
        assert store.read(path) == b"mine"
    assert store.read(path) == b"mine"


@pytest.mark.rule("HDFS-1", "APPEND-6")
@pytest.mark.parametrize("first", ["create", "append"])
def test_a_file_being_written_cannot_be_appended_to(
    store: HdfsStore, path: str, first: str
) -> None:
    """Another appender gets LeaseHeldError until close; readers are not disturbed."""
    if first == "append":
        store.write(path, b"")
    peer = store.second_client()
    with getattr(store.fs, first)(path) as out:
        out.write(b"mine")
        out.hflush()
        for snippet in ("fs.append(path)", "fs.append_file(path).build()"):
            with pytest.raises(hflush.LeaseHeldError) as refusal:
                peer.run(snippet, path=path)
            assert refusal.value.filename == path
        assert peer.run("read(path)", path=path) == store.read(path) == b"mine"
        out.write(b" too")
    peer.run("with fs.append(path) as out: out.write(b' yours')", path=path)
    assert store.read(path) == b"mine too yours"


@pytest.mark.rule("APPEND-6", "HDFS-1")
def test_the_holder_itself_cannot_append_twice(store: HdfsStore, path: str) -> None:
    """One client is one holder: its second append of an open file is refused as well."""
    with store.fs.create(path) as out:
        out.write(b"once")
        with pytest.raises(hflush.LeaseHeldError):
            store.fs.append(path)
    assert store.read(path) == b"once"


@pytest.mark.rule("CREATE-12", "CLOSE-17")
def test_overwriting_a_file_being_written(store: HdfsStore, path: str) -> None:
    """The second create replaces the file; the first writer's close fails; the second's stays."""
    out = store.fs.create(path)
    out.write(b"first")
    out.hflush()
    store.second_client().run(
        "out = fs.create(path, overwrite=True); out.write(b'second'); out.close()", path=path
    )
    with pytest.raises((hflush.LeaseLostError, FileNotFoundError)) as refusal:
        out.close()
    assert refusal.value.filename == path
    assert out.close() is None
    assert store.read(path) == b"second"


@pytest.mark.rule("CLOSE-17", "HDFS-3")
def test_close_of_a_deleted_file(store: HdfsStore, path: str) -> None:
    """Deleted by somebody else while it was written: close fails, and renewal ends."""
    out = store.fs.create(path)
    out.write(b"gone")
    out.hflush()
    store.hdfs.java.delete(path)
    with pytest.raises((hflush.LeaseLostError, FileNotFoundError)):
        out.close()
    assert not store.fs.exists(path)


# --- open files ---


@pytest.mark.rule("CREATE-21", "HDFS-6", "TIME-3", "CREATE-1")
def test_create_makes_the_entry_at_once(store: HdfsStore, path: str) -> None:
    """One call makes an entry of no blocks, with the NameNode's time; it is open until close."""
    blocks = store.hdfs.calls("addBlock")
    before_ms = time.time_ns() // 1_000_000
    out = store.fs.create(path)
    after_ms = time.time_ns() // 1_000_000
    status = store.fs.get_file_status(path)
    assert (status.length, status.is_file) == (0, True)
    assert before_ms <= status.modification_time <= after_ms
    assert store.hdfs.java.block_lengths(path) == []
    assert store.fs.is_file_closed(path) is False
    assert store.hdfs.lease_holder(path) is not None
    out.close()
    assert store.fs.is_file_closed(path) is True
    assert store.hdfs.lease_holder(path) is None
    assert store.hdfs.calls("addBlock") == blocks
    assert store.fs.get_file_status(path).modification_time >= status.modification_time


@pytest.mark.rule("HDFS-6", "CREATE-15", "APPEND-10")
def test_create_checks_permissions_before_any_data(store: HdfsStore) -> None:
    """A directory or a file that the user may not write is refused by create itself."""
    store.chmod(store.root, 0o755)
    file = store.write(store.path("file"), b"old")
    store.chmod(file, 0o644)
    user = store.unprivileged()
    for snippet, path in (("fs.create(path)", store.path("new")), ("fs.create(path)", file)):
        with pytest.raises(PermissionError) as refusal:
            user.run(snippet, path=path)
        assert str(refusal.value.filename).startswith(store.root)
    assert store.on_disk() == ["file"]
    assert store.read(file) == b"old"


@pytest.mark.rule("TIME-4")
def test_the_time_changes_at_close(store: HdfsStore, path: str) -> None:
    """Neither opening for append nor writing and flushing changes the time; close does."""
    long_ago = 1_000_000_000_000
    store.write(path, b"abc")
    store.fs.set_times(path, long_ago, -1)
    with store.fs.append(path) as out:
        assert store.fs.get_file_status(path).modification_time == long_ago
        out.write(b"d")
        out.hflush()
        assert store.fs.get_file_status(path).modification_time == long_ago
    assert store.fs.get_file_status(path).modification_time > long_ago
    assert store.options["mtime-clock"] == "NameNode"


@pytest.mark.rule("HDFS-22", "CONC-8", "APPEND-9")
def test_an_open_file_follows_its_renamed_parent(store: HdfsStore) -> None:
    """Renamed with its parent while open: blocks, hflush and close go on by the file's id."""
    store.fs.mkdirs(store.path("old"))
    out = store.fs.create(store.path("old", "file"), block_size=MIB)
    out.write(dataset(MIB // 2))
    out.hflush()
    assert store.fs.rename(store.path("old"), store.path("new"))
    out.write(dataset(2 * MIB))
    out.hflush()
    out.write(b"end")
    out.close()
    assert store.on_disk() == ["new", "new/file"]
    assert store.read(store.path("new", "file")) == dataset(MIB // 2) + dataset(2 * MIB) + b"end"


@pytest.mark.rule("HDFS-19", "WRITE-21")
def test_closed_files_only_grow(store: HdfsStore, path: str) -> None:
    """There is no way to write over what is there: no seek, no opening for update."""
    store.write(path, b"abc")
    with store.fs.append(path) as out:
        with pytest.raises(io.UnsupportedOperation):
            out.seek(0)
        out.write(b"d")
    for mode in ("r+b", "w+b"):
        with pytest.raises(ValueError, match="mode"):
            hflush.open(store.url(path), mode, conf=store.conf)
    assert store.read(path) == b"abcd"


# --- renewal ---


@contextlib.contextmanager
def renewing(hdfs: Hdfs) -> Iterator[hflush.FileSystem]:
    fs = hdfs.file_system(RENEWING)
    try:
        yield fs
    finally:
        fs.close()


def renewals(fs: hflush.FileSystem) -> int:
    return fs.io_statistics().counters.get("lease_renewals", 0)


@pytest.mark.rule("HDFS-2")
def test_the_lease_is_renewed_while_files_are_open(store: HdfsStore, path: str) -> None:
    """With a soft limit of two seconds and a writer that says nothing, nobody else gets the file.

    One call renews for all open files.
    """
    with store.hdfs.lease_limits(2000), renewing(store.hdfs) as fs:
        streams = [fs.create(f"{path}{number}") for number in range(20)]
        calls = store.hdfs.calls("renewLease")
        wait_until(lambda: renewals(fs) >= 4, "the lease is renewed four times")
        assert store.hdfs.calls("renewLease") - calls < 20
        with pytest.raises(hflush.LeaseHeldError):
            store.second_client().run("fs.append(path)", path=f"{path}7")
        for out in streams:
            out.write(b"still mine")
            out.close()
        assert all(store.read(f"{path}{number}") == b"still mine" for number in range(20))


BUSY = """
import ctypes, os
out = fs.create(path)
out.write(b'before ')
told = os.open(pipe, os.O_RDWR)
out.hflush()
heard = ctypes.create_string_buffer(1)
ctypes.PyDLL(None).read(told, heard, 1)  # which, called so, does not give the GIL away
out.write(b'after')
out.hflush()
"""


@pytest.mark.rule("HDFS-2")
def test_a_busy_interpreter_does_not_lose_the_lease(
    store: HdfsStore, path: str, tmp_path: Path
) -> None:
    """A thread that keeps the GIL for longer than the soft limit does not keep renewal from it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = store.spawn()
    writer.run("connect(url, conf)", url=store.url(), conf={**store.conf, **RENEWING})
    limit_s = 10.0
    with store.hdfs.lease_limits(int(1000 * limit_s)):
        writer.begin(BUSY, path=path, pipe=str(pipe))
        wait_until(lambda: store.fs.exists(path) and store.size(path) == 7, "the file is begun")
        end = time.monotonic() + 1.2 * limit_s  # past the limit, and it is busy
        while time.monotonic() < end:
            with pytest.raises(hflush.LeaseHeldError):
                store.fs.append(path)
            time.sleep(0.01)
        pipe.write_bytes(b"x")
        writer.finish()
    writer.run("out.close()")
    assert store.read(path) == b"before after"


@pytest.mark.rule("HDFS-2", "HDFS-3")
def test_the_lease_is_renewed_while_close_waits(store: HdfsStore, path: str) -> None:
    """A long blocking close keeps its lease; once it is through, the lease ends."""
    with store.hdfs.lease_limits(2000), renewing(store.hdfs) as fs:
        out = fs.create(path)
        out.write(b"slow")
        with store.hdfs.blocks_unreported():
            closing = Task(out.close)
            wait_until(lambda: renewals(fs) >= 3, "the lease is renewed while close waits")
            assert closing.is_alive()
            assert store.hdfs.lease_holder(path) is not None
        closing.result()
    assert store.hdfs.lease_holder(path) is None
    assert store.read(path) == b"slow"


@pytest.mark.rule("HDFS-3")
@pytest.mark.parametrize("end", ["close", "failed close", "drop"])
def test_renewal_ends_with_the_last_stream(store: HdfsStore, path: str, end: str) -> None:
    """After the only file ended, its client renews no more; another one's clock shows the time."""
    with renewing(store.hdfs) as fs, renewing(store.hdfs) as other:
        out = fs.create(path)
        clock = other.create(f"{path}-clock")
        wait_until(lambda: renewals(fs) >= 1, "it is renewed")
        if end == "failed close":
            store.hdfs.java.delete(path)
            with pytest.raises(OSError, match="file"):
                out.close()
        elif end == "drop":
            with pytest.warns(hflush.NotPublishedWarning):
                del out
        else:
            out.close()
        before, clock_before = renewals(fs), renewals(other)
        wait_until(lambda: renewals(other) >= clock_before + 3, "three seconds pass")
        assert renewals(fs) <= before + 1  # one may have been on its way
        clock.close()


@pytest.mark.rule("HDFS-3", "HDFS-4", "CLOSE-21", "CLOSE-23")
@pytest.mark.parametrize("content", [b"", dataset(MIB + 1000)])
@pytest.mark.parametrize("end", ["dropped", "failed"])
def test_a_file_that_is_not_written_any_more_is_free_beside_others(
    store: HdfsStore, path: str, end: str, content: bytes
) -> None:
    """Its client goes on to renew for another file: all that was acknowledged is there, once."""
    target = ("127.0.0.1", store.hdfs.cluster.name_node_port())
    with (
        store.hdfs.lease_limits(2000),
        rude_servers.name_node_proxy(target, "complete", times=99 * (end == "failed")) as proxy,
    ):
        conf = {**RENEWING, "hflush.hdfs.namenode.patience": 0}
        fs = hflush.FileSystem.new_instance(proxy.server.url, conf)
        neighbour = fs.create(f"{path}-neighbour")
        out = fs.create(path, block_size=MIB)
        if content:
            out.write(content)
            out.hflush()
        if end == "failed":  # the call that would publish it never arrives
            with pytest.raises(OSError, match="complete"):
                out.close()
            proxy.lose_no_more()
        else:
            with pytest.warns(hflush.NotPublishedWarning):
                del out
        peer = store.second_client()

        def appended() -> bool:
            with contextlib.suppress(hflush.LeaseHeldError):
                peer.run("other = fs.append(path)", path=path)
                return True
            return False

        wait_until(appended, "another client may write the file")
        before = renewals(fs)
        peer.run("other.write(b' theirs'); other.hflush()")
        wait_until(lambda: renewals(fs) >= before + 4, "its client asks no more about it")
        peer.run("other.write(b' too'); other.close()")
        neighbour.write(b"still ours")
        neighbour.close()
        fs.close()
    assert store.read(path) == content + b" theirs too"
    assert store.read(f"{path}-neighbour") == b"still ours"


@pytest.mark.rule("HDFS-4", "CREATE-12")
def test_a_file_that_took_the_place_is_left_alone(store: HdfsStore, path: str) -> None:
    """What was dropped has been replaced by then, by another client that writes on."""
    with store.hdfs.lease_limits(2000), renewing(store.hdfs) as fs:
        neighbour = fs.create(f"{path}-neighbour")
        out = fs.create(path)
        out.write(b"dropped")
        out.hflush()
        with pytest.warns(hflush.NotPublishedWarning):
            del out
        peer = store.second_client()
        peer.run("other = fs.create(path); other.write(b'theirs'); other.hflush()", path=path)
        before = renewals(fs)
        wait_until(lambda: renewals(fs) >= before + 5, "the dropped file would be given back")
        peer.run("other.write(b' too'); other.close()")
        neighbour.close()
    assert store.read(path) == b"theirs too"


# --- taking over ---


@pytest.mark.rule("HDFS-4", "APPEND-11")
def test_after_the_soft_limit_another_client_may_append(store: HdfsStore, path: str) -> None:
    """Unflushed bytes of the first writer are not there, acknowledged ones are, once; it fails."""
    out = store.fs.create(path)
    out.write(dataset(16))
    out.hflush()
    out.write(b"never flushed")
    peer = store.second_client()
    with store.hdfs.lease_limits(1):

        def appended() -> bool:
            with contextlib.suppress(hflush.LeaseHeldError):
                peer.run("other = fs.append(path)", path=path)
                return True
            return False

        wait_until(appended, "the other client may append")
    peer.run("other.write(data); other.close()", data=dataset(16, 100))
    assert store.read(path) == dataset(16) + dataset(16, 100)
    with pytest.raises(OSError, match=r"lease|file|failed|pipeline|DataNode|datanode"):
        out.hflush()
    with pytest.raises(OSError, match=r"lease|file|failed|pipeline|DataNode|datanode"):
        out.close()
    assert store.read(path) == dataset(16) + dataset(16, 100)


@pytest.mark.rule("HDFS-4")
def test_after_the_hard_limit_the_file_is_closed(store: HdfsStore, path: str) -> None:
    """The NameNode closes it: flushed bytes stay, and the writer's next call to it fails."""
    out = store.fs.create(path, block_size=MIB)
    out.write(b"flushed")
    out.hflush()
    idle = store.fs.create(f"{path}-idle")
    with store.hdfs.lease_limits(1, 2):
        store.hdfs.wait_closed(path)
        store.hdfs.wait_closed(f"{path}-idle")
    assert store.read(path) == b"flushed"
    with pytest.raises(OSError, match=path):
        write_and_sync(out)
    idle.write(b"more")
    with pytest.raises(hflush.LeaseLostError) as lost:
        idle.close()
    assert lost.value.filename == f"{path}-idle"
    with contextlib.suppress(OSError):
        out.close()
    assert store.read(path) == b"flushed"


def write_and_sync(out: hflush.FSDataOutputStream) -> None:
    out.write(b"more")
    out.hsync()


@pytest.mark.rule("HDFS-5", "APPEND-16", "HFLUSH-11")
def test_recover_lease(store: HdfsStore, path: str) -> None:
    """False while it goes on, True once closed; what was flushed is there; then append works."""
    writer = store.spawn()
    writer.run("out = fs.create(path); out.write(data); out.hflush()", path=path, data=dataset(777))
    writer.run("out.write(b'unflushed')")
    writer.kill()
    assert store.fs.is_file_closed(path) is False
    with pytest.raises(hflush.LeaseHeldError):
        store.fs.append(path)
    assert store.fs.recover_lease(path) in {True, False}
    wait_until(lambda: store.fs.is_file_closed(path), "the file is closed")
    assert store.fs.recover_lease(path) is True
    content = store.read(path)
    assert content.startswith(dataset(777))
    assert (dataset(777) + b"unflushed").startswith(content)
    with store.fs.append(path) as out:
        out.write(b"on")
    assert store.read(path) == content + b"on"


@pytest.mark.rule("HDFS-4")
def test_a_truncated_file_has_another_holder(store: HdfsStore, path: str) -> None:
    """The client's open files would keep it locked if its DataNodes never finished."""
    store.write(path, dataset(777))
    with Relay(("127.0.0.1", store.hdfs.cluster.name_node_port())) as relay:
        url = f"hdfs://127.0.0.1:{relay.port}"
        with hflush.FileSystem.new_instance(url, store.conf) as fs, fs.create(f"{path}-open"):
            assert fs.truncate(path, 700) is False
            store.settle(path)
        created, cut = (
            re.findall(rb"DFSClient_[\w-]+", part) for part in relay.sent.split(b"truncate")
        )
        assert cut[0] == created[0] + b"_recovery"
    assert store.read(path) == dataset(777)[:700]


@pytest.mark.rule("HDFS-5", "CLOSE-23")
def test_recover_lease_waits(store: HdfsStore, path: str) -> None:
    """True, and closed, in one call, which says meanwhile which block of which nodes it awaits."""
    writer = store.spawn()
    writer.run("out = fs.create(path); out.write(data); out.hflush()", path=path, data=dataset(777))
    writer.kill()
    hosts = store.hdfs.java.hosts(path)[0]
    seen: list[LeaseRecovery] = []
    assert store.fs.recover_lease(path, DEADLINE_S, seen.append) is True
    assert store.fs.is_file_closed(path) is True
    assert store.read(path) == dataset(777)
    assert {(one.path, one.asked) for one in seen} == {(path, 1)}
    assert re.search(r"last block blk_\d+_\d+", seen[0].waits_for)
    assert all(f"127.0.0.1:{port}" in seen[0].waits_for for port in hosts)
    assert store.fs.recover_lease(path, DEADLINE_S, seen.append) is True  # at once, without a word
    with pytest.raises(ValueError, match="wait"):
        store.fs.recover_lease(path, -1)


@pytest.mark.rule("HDFS-5")
@pytest.mark.parametrize("call", ["recover_lease", "is_file_closed"])
def test_lease_calls_need_a_file(store: HdfsStore, call: str) -> None:
    """Missing is FileNotFoundError, a directory NotAFileError."""
    function = getattr(store.fs, call)
    with pytest.raises(FileNotFoundError) as missing:
        function(store.path("no"))
    assert not isinstance(missing.value, IsADirectoryError)
    assert missing.value.filename == store.path("no")
    with pytest.raises(hflush.NotAFileError) as directory:
        function(store.root)
    assert directory.value.filename == store.root
    assert function(store.write(store.path("file"))) is True


@pytest.mark.rule("HDFS-5")
def test_recover_lease_of_an_empty_file(store: HdfsStore, path: str) -> None:
    """It has no block to recover: closed at once, and another writer may have it."""
    with store.new_client() as writer:
        out = writer.create(path)
        out.hsync()
        with pytest.raises(hflush.LeaseHeldError):
            store.fs.append(path)
        assert store.fs.recover_lease(path) is True
        with store.fs.append(path) as other:
            other.write(b"taken")
        with pytest.raises(hflush.LeaseLostError):
            write_and_sync(out)
        with contextlib.suppress(hflush.LeaseLostError):
            out.close()
    assert store.read(path) == b"taken"


@pytest.mark.rule("HDFS-5", "HDFS-4")
def test_recover_lease_of_ones_own_file(store: HdfsStore, path: str) -> None:
    """Its stream has lost it; another stream of the same client goes on."""
    lost, kept = store.fs.create(path), store.fs.create(store.path("kept"))
    for out in (lost, kept):
        out.write(dataset(777))
        out.hflush()
    assert store.fs.recover_lease(path, wait=DEADLINE_S) is True
    with pytest.raises(OSError, match=path):
        write_and_sync(lost)
    with contextlib.suppress(OSError):
        lost.close()
    kept.write(b"more")
    kept.close()
    assert store.read(path) == dataset(777)
    assert store.read(store.path("kept")) == dataset(777) + b"more"


@pytest.mark.rule("HDFS-4", "APPEND-11")
def test_after_the_soft_limit_another_client_may_begin_a_block(store: HdfsStore, path: str) -> None:
    """NEW_BLOCK recovers the file as any append does: what was never flushed has no block."""
    out = store.fs.create(path)
    out.write(b"never flushed")
    with store.new_client() as other, store.hdfs.lease_limits(1):
        flags = [hflush.CreateFlag.APPEND, hflush.CreateFlag.NEW_BLOCK]
        opened: list[hflush.FSDataOutputStream] = []

        def may_append() -> bool:
            with contextlib.suppress(hflush.LeaseHeldError):
                opened.append(other.append(path, flags=flags))
            return bool(opened)

        wait_until(may_append, "the other client may append")
        opened[0].write(dataset(32))
        opened[0].close()
    assert store.hdfs.java.block_lengths(path) == [32]
    assert store.read(path) == dataset(32)
    with pytest.raises(OSError, match=path):
        out.close()


@pytest.mark.rule("HDFS-4")
def test_the_name_node_restarts_while_it_recovers_leases(hdfs_new: NewHdfs) -> None:
    """Of a file and of one that was renamed: they are recovered later, and their writers fail."""
    hdfs = hdfs_new(1)
    fs = hdfs.file_system({"hflush.hdfs.namenode.patience": 0})
    streams = [fs.create(path, block_size=1024) for path in ("/file", "/old")]
    for out in streams:
        out.write(dataset(1535))
        out.hflush()
    writer = hdfs.lease_holder("/file")
    assert fs.rename("/old", "/renamed") is True
    with hdfs.heartbeats_withheld():
        with hdfs.lease_limits(3_600_000, 1):
            for path in ("/file", "/renamed"):
                wait_until(
                    lambda path=path: hdfs.lease_holder(path) != writer, "the NameNode has it"
                )
        hdfs.cluster.restart_name_node(wait=False)
        for path in ("/file", "/renamed"):
            assert hdfs.lease_holder(path) not in {writer, None}
    hdfs.java.reconnect()
    with hdfs.file_system() as other:
        for path in ("/file", "/renamed"):
            assert other.recover_lease(path, wait=2 * DEADLINE_S) is True
            assert hdfs.java.read(path) == dataset(1535)
    for out in streams:
        with pytest.raises(OSError, match=r"/file|/old"):
            write_and_sync(out)
        with contextlib.suppress(OSError):
            out.close()
    for path in ("/file", "/renamed"):
        assert hdfs.java.read(path) == dataset(1535)
    fs.close()


@pytest.mark.rule("HDFS-5", "HDFS-4")
def test_close_while_the_lease_is_recovered(store: HdfsStore, path: str) -> None:
    """It fails, and so does not disturb the recovery: the block is there afterwards."""
    out = store.fs.create(path)
    out.write(dataset(777))
    out.hflush()
    with store.new_client() as other:
        with store.hdfs.heartbeats_withheld(), store.hdfs.blocks_unreported():
            assert other.recover_lease(path) is False
            with pytest.raises(hflush.LeaseLostError):
                out.close()
        assert other.recover_lease(path, wait=DEADLINE_S) is True
    assert store.read(path) == store.content(path) == dataset(777)


@pytest.mark.rule("HDFS-3", "HDFS-4")
@pytest.mark.parametrize("appended", [b"", b"more"], ids=["recovered", "appended to"])
def test_a_file_is_taken_before_it_is_completed(
    store: HdfsStore, path: str, appended: bytes
) -> None:
    """Its blocks are finished, `complete` is on its way: the file is another's by then."""
    with (
        rude_servers.name_node_proxy(
            ("127.0.0.1", store.hdfs.cluster.name_node_port()), "complete", times=1 << 20
        ) as proxy,
        hflush.FileSystem.new_instance(proxy.server.url, RENEWING) as fs,
    ):
        out = fs.create(path)
        out.write(dataset(4096))
        closing = Task(out.close)
        wait_until(lambda: proxy.losses_left < 1 << 20, "the file is to be completed")
        assert store.fs.recover_lease(path, wait=DEADLINE_S) is True
        with contextlib.ExitStack() as streams:
            if appended:
                streams.enter_context(store.fs.append(path)).write(appended)
            proxy.lose_no_more()
            with pytest.raises(hflush.LeaseLostError):
                closing.result()
    assert store.read(path) == dataset(4096) + appended


@pytest.mark.rule("HDFS-3")
@pytest.mark.parametrize("asks", [False, True])
def test_a_failed_close_may_recover_the_lease(store: HdfsStore, path: str, asks: bool) -> None:
    """dfs.client.write.recover.lease.on.close.exception: the NameNode is asked to, or is not."""
    key = "dfs.client.write.recover.lease.on.close.exception"
    fs = store.hdfs.file_system({key: asks})
    out = fs.create(path, replication=1)
    out.write(b"flushed")
    out.hflush()
    before = store.hdfs.calls("recoverLease")
    with store.hdfs.stopped(store.hdfs.java.hosts(path)[0][0]):
        with pytest.raises(OSError, match=path):
            out.close()
        wait_until(
            lambda: store.hdfs.calls("recoverLease") == before + asks, "it is asked, if at all"
        )
    fs.close()
    assert store.hdfs.calls("recoverLease") == before + asks


# --- append ---


@pytest.mark.rule("APPEND-13")
def test_a_replica_that_missed_an_append_is_not_used(store: HdfsStore, path: str) -> None:
    """A DataNode that was away for two appends has an old replica, which nobody reads."""
    hdfs = store.hdfs
    store.write(path, dataset(100_000))
    hdfs.wait_replicated(path)
    (missed, *_) = hdfs.ports
    stopped = hdfs.declare_dead(missed)
    try:
        for turn in range(2):
            with store.fs.append(path) as out:
                out.write(dataset(1000, turn))
        expected = dataset(100_000) + dataset(1000) + dataset(1000, 1)
        assert store.read(path) == expected
    finally:
        hdfs.restart(stopped)
    for _ in range(10):
        assert store.read(path) == store.content(path) == expected
    for port in hdfs.java.hosts(path)[0]:  # the one that was away, if it has been replaced
        assert hdfs.block_file(port, hdfs.block(path)).read_bytes() == expected


@pytest.fixture
def coded(store: HdfsStore) -> str:
    """A directory whose files are erasure-coded."""
    directory = store.path("coded")
    java = store.hdfs.java
    java.mkdirs(directory)
    java.fs.enableErasureCodingPolicy(EC_POLICY)
    java.fs.setErasureCodingPolicy(java.path(directory), EC_POLICY)
    return directory


@pytest.mark.rule("APPEND-15")
@pytest.mark.rule("HDFS-21", refused="hdfs")
def test_erasure_coded_files_are_refused(store: HdfsStore, coded: str) -> None:
    """What cannot be written is refused by UnsupportedOperation; replicated files may be there."""
    java_file = f"{coded}/java"
    store.hdfs.java.write(java_file, dataset(5000))
    assert store.fs.get_file_status(java_file).is_erasure_coded
    with pytest.raises(io.UnsupportedOperation, match="EC") as refusal:
        store.fs.append(java_file)
    assert refusal.value.filename == java_file
    assert store.hdfs.is_closed(java_file)
    with pytest.raises(io.UnsupportedOperation, match="erasure"):
        store.fs.open(java_file).read()
    with pytest.raises(io.UnsupportedOperation, match="erasure"):
        store.fs.create(f"{coded}/ours")
    assert store.hdfs.java.names(coded) == ["java"]
    with store.fs.create_file(f"{coded}/ours").replicate().build() as out:
        assert out.has_capability("hsync")
        out.write(b"replicated")
        out.hsync()
    assert store.read(f"{coded}/ours") == b"replicated"
