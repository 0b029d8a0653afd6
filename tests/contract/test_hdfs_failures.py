"""HDFS: answers that are lost, NameNodes and DataNodes that go, replicas that are damaged."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import hflush
import pytest
from support import rude_servers
from support.data import dataset
from support.stores import HdfsStore
from support.waiting import Task, wait_until

MIB = 1 << 20
RETRYING = {
    "dfs.client.retry.policy.enabled": "true",
    "dfs.client.retry.policy.spec": "50,20",
}
ONCE = {"ipc.client.connect.max.retries": 0, "hflush.hdfs.namenode.patience": 0}

pytestmark = pytest.mark.stores("hdfs")


@contextmanager
def losing(
    store: HdfsStore,
    method: str,
    conf: dict[str, object],
    *,
    answer_lost: bool = True,
    times: int = 1,
) -> Iterator[hflush.FileSystem]:
    """A file system whose calls of a method, or the answers, are lost on the way so many times."""
    target = ("127.0.0.1", store.hdfs.cluster.name_node_port())
    with rude_servers.name_node_proxy(
        target, method, answer_lost=answer_lost, times=times
    ) as proxy:
        fs = hflush.FileSystem.new_instance(proxy.server.url, conf)
        try:
            yield fs
            assert proxy.losses_left < times
        finally:
            fs.close()


# --- calls of which the answer is lost ---


@pytest.mark.rule("HDFS-25", "FAIL-10")
@pytest.mark.parametrize("overwrite", [True, False])
def test_a_repeated_create_is_the_first_one(store: HdfsStore, path: str, overwrite: bool) -> None:
    """The repeat is recognised: no FileExistsError, no second file, one lease."""
    with losing(store, "create", RETRYING) as fs:
        out = fs.create(path, overwrite=overwrite)
        out.write(b"once")
        out.close()
    assert store.read(path) == b"once"


@pytest.mark.rule("HDFS-25", "FAIL-10")
def test_a_repeated_append_is_the_first_one(store: HdfsStore, path: str) -> None:
    """The repeat is not refused as a second writer."""
    store.write(path, b"old")
    with losing(store, "append", RETRYING) as fs, fs.append(path) as out:
        out.write(b" new")
    assert store.read(path) == b"old new"


@pytest.mark.rule("HDFS-25", "FAIL-10")
def test_a_repeated_rename_is_the_first_one(store: HdfsStore, path: str) -> None:
    """Both renames: success, though the source was gone when the repeat came."""
    store.write(path, b"moved")
    with losing(store, "rename", RETRYING) as fs:
        assert fs.rename(path, store.path("two")) is True
    with losing(store, "rename2", RETRYING) as fs:
        assert fs.rename(store.path("two"), store.path("three"), hflush.Rename.NONE) is None
    assert store.on_disk() == ["three"]


@pytest.mark.rule("HDFS-25", "FAIL-10")
def test_a_repeated_delete_is_the_first_one(store: HdfsStore, path: str) -> None:
    """True, though there was nothing when the repeat came."""
    store.write(path, b"old")
    with losing(store, "delete", RETRYING) as fs:
        assert fs.delete(path) is True
    assert store.on_disk() == []


@pytest.mark.rule("HDFS-25", "FAIL-10")
@pytest.mark.parametrize("method", ["addBlock", "complete", "fsync"])
@pytest.mark.parametrize("answer_lost", [True, False])
def test_repeated_calls_of_a_stream(
    store: HdfsStore, path: str, method: str, answer_lost: bool
) -> None:
    """A call of a stream that is lost, or whose answer is, is made again: one effect each."""
    with losing(store, method, {}, answer_lost=answer_lost) as fs:
        out = fs.create(path, block_size=MIB)
        out.write(dataset(MIB + 1000))
        out.hflush()
        out.write(b"end")
        out.close()
    assert store.hdfs.java.block_lengths(path) == [MIB, 1003]
    assert store.read(path) == dataset(MIB + 1000) + b"end"


@pytest.mark.rule("HDFS-25", "FAIL-10", "APPEND-7")
@pytest.mark.parametrize("method", ["updateBlockForPipeline", "updatePipeline", "fsync"])
@pytest.mark.parametrize("answer_lost", [True, False])
def test_repeated_calls_of_an_append(
    store: HdfsStore, path: str, method: str, answer_lost: bool
) -> None:
    """The pipeline of the last block is registered once, whatever is lost."""
    store.write(path, b"old ")
    before = store.hdfs.block(path).getGenerationStamp()
    with losing(store, method, {}, answer_lost=answer_lost) as fs, fs.append(path) as out:
        out.write(b"new")
        out.hsync()
        assert store.fs.open(path).read() == b"old new"
    assert store.read(path) == b"old new"
    assert store.hdfs.block(path).getGenerationStamp() > before


@pytest.mark.rule("HDFS-25", "FAIL-10")
@pytest.mark.parametrize("answer_lost", [True, False])
def test_an_empty_file_is_closed_once(store: HdfsStore, path: str, answer_lost: bool) -> None:
    """The NameNode does not know the repeat of a file without a block: the client looks."""
    with losing(store, "complete", {}, answer_lost=answer_lost) as fs:
        fs.create(path).close()
    assert store.hdfs.lease_holder(path) is None
    with losing(store, "complete", {}, answer_lost=answer_lost) as fs:
        fs.append(path).close()
    assert store.hdfs.lease_holder(path) is None
    assert store.read(path) == b""


@pytest.mark.rule("HDFS-25", "FAIL-10", "APPEND-7")
def test_an_append_of_nothing_is_closed_once(store: HdfsStore, path: str) -> None:
    """The last block, which is not full, is in the request: the NameNode knows the repeat."""
    store.write(path, b"old")
    with losing(store, "complete", {}) as fs:
        fs.append(path).close()
    assert store.hdfs.lease_holder(path) is None
    assert store.read(path) == b"old"


@pytest.mark.rule("HDFS-25", "FAIL-10")
def test_a_repeated_concat_is_the_first_one(store: HdfsStore, path: str) -> None:
    """The repeat is not refused for sources that are gone."""
    for name in ("file", "other"):
        store.write(store.path(name), dataset(1000))
    with losing(store, "concat", RETRYING) as fs:
        fs.concat(path, [store.path("other")])
    assert store.read(path) == 2 * dataset(1000)
    assert store.on_disk() == ["file"]


@pytest.mark.rule("HDFS-25", "FAIL-10", "APPEND-7")
@pytest.mark.parametrize(("method", "more"), [("addBlock", b"more"), ("complete", b"")])
def test_the_first_call_of_an_append_at_a_blocks_end_is_repeated(
    store: HdfsStore, path: str, method: str, more: bytes
) -> None:
    """It names the block that is there: the NameNode knows the repeat for what it is."""
    with store.fs.create(path, block_size=MIB) as out:
        out.write(dataset(2 * MIB))
    with losing(store, method, {}) as fs, fs.append(path) as out:
        out.write(more)
    assert store.hdfs.java.block_lengths(path) == [MIB, MIB] + ([len(more)] if more else [])
    assert store.read(path) == dataset(2 * MIB) + more
    assert store.hdfs.lease_holder(path) is None


@pytest.mark.rule("FAIL-11", "FAIL-2", "FAIL-3", "FAIL-4", "FAIL-16")
@pytest.mark.parametrize("answer_lost", [True, False])
def test_a_lost_complete_is_told(store: HdfsStore, path: str, answer_lost: bool) -> None:
    """Without retries close raises and the stream is failed; whether it was done can be asked."""
    with losing(store, "complete", ONCE, answer_lost=answer_lost, times=99) as fs:
        out = fs.create(path)
        out.write(b"maybe")
        with pytest.raises(OSError, match="complete") as caught:
            out.close()
        assert caught.value.filename == path
        assert f"127.0.0.1:{fs.uri.rstrip('/').rpartition(':')[2]}" in str(caught.value)
        assert out.closed
        assert out.close() is None
        with pytest.raises(hflush.StreamClosedError):
            out.write(b"x")
    assert store.fs.is_file_closed(path) is answer_lost
    assert store.content(path) == b"maybe"


# --- the NameNode is gone ---


@pytest.mark.rule("FAIL-2", "FAIL-3")
def test_nobody_listens(store: HdfsStore) -> None:
    """Connection refused is ConnectionRefusedError with host, port, path and operation."""
    with rude_servers.refusing() as (host, port):
        fs = hflush.FileSystem.new_instance(f"hdfs://{host}:{port}", ONCE)
        with pytest.raises(ConnectionRefusedError) as refusal:
            fs.get_file_status("/file")
        assert refusal.value.errno == errno.ECONNREFUSED
        assert refusal.value.filename == "/file"
        assert f"{host}:{port}" in str(refusal.value)
        fs.close()


@pytest.mark.rule("HSYNC-16", "HDFS-15", "HDFS-22", "HDFS-26", "APPEND-14", "CONC-8")
def test_streams_outlive_a_restart_of_the_name_node(store: HdfsStore, path: str) -> None:
    """What was flushed is not shortened, and every writer goes on: new, appending, renamed."""
    written = store.fs.create(path, block_size=MIB)
    written.write(dataset(MIB + 500))
    written.hflush()
    store.write(store.path("appended"), b"old ")
    appended = store.fs.append(store.path("appended"))
    appended.write(b"before ")
    appended.hsync()
    store.write(store.path("closed"), b"old ")
    with store.fs.append(store.path("closed")) as out:
        out.write(b"new")
    store.fs.mkdirs(store.path("old"))
    renamed = store.fs.create(store.path("old", "file"), block_size=MIB)
    renamed.write(b"one ")
    renamed.hflush()
    store.fs.rename(store.path("old"), store.path("new"))
    empty = store.fs.create(store.path("empty"))

    store.hdfs.cluster.restart_name_node()

    assert store.read(path) == dataset(MIB + 500)
    assert store.read(store.path("appended")) == b"old before "
    assert store.read(store.path("closed")) == b"old new"
    written.write(dataset(2 * MIB))
    written.hsync()
    written.close()
    appended.write(b"after")
    appended.close()
    renamed.write(dataset(MIB))
    renamed.close()
    empty.close()
    assert store.read(path) == dataset(MIB + 500) + dataset(2 * MIB)
    assert store.hdfs.java.block_lengths(path) == [MIB, MIB, MIB, 500]
    assert store.read(store.path("appended")) == b"old before after"
    assert store.read(store.path("new", "file")) == b"one " + dataset(MIB)
    assert store.read(store.path("empty")) == b""


@pytest.mark.rule("HDFS-15", "HSYNC-16")
def test_the_first_flush_of_a_block_tells_the_name_node(store: HdfsStore, path: str) -> None:
    """One fsync call for each block that is flushed, however often; none without a flush."""
    before = store.hdfs.calls("fsync")
    with store.fs.create(path, block_size=MIB) as out:
        out.write(dataset(2 * MIB))
        out.write(b"x")
        out.flush()
        assert store.hdfs.calls("fsync") == before
        for _ in range(5):
            out.write(b"x")
            out.hflush()
        wait_until(lambda: store.hdfs.calls("fsync") == before + 1, "one fsync call")
        out.write(dataset(MIB))
        out.hsync()
        wait_until(lambda: store.hdfs.calls("fsync") == before + 2, "another one")
        counters = out.io_statistics().counters
    assert counters["hdfs_namenode_fsyncs"] == 2
    assert store.hdfs.calls("fsync") == before + 2


@pytest.mark.rule("HDFS-24")
def test_safe_mode(store: HdfsStore, path: str) -> None:
    """In safe mode what changes something is OSError(EROFS) at once, and reading works."""
    store.write(path, b"kept")
    assert store.fs.set_safe_mode("get") is False
    with store.hdfs.safe_mode():
        assert store.fs.set_safe_mode("get") is True
        for call in (
            lambda: store.fs.create(store.path("new")),
            lambda: store.fs.append(path),
            lambda: store.fs.mkdirs(store.path("dir")),
            lambda: store.fs.delete(path),
            lambda: store.fs.rename(path, store.path("new")),
            lambda: store.fs.set_permission(path, 0o600),
        ):
            with pytest.raises(OSError, match="safe mode") as refusal:
                call()
            assert refusal.value.errno == errno.EROFS
        assert store.read(path) == b"kept"
    assert store.on_disk() == ["file"]


@pytest.mark.rule("HDFS-24")
def test_safe_mode_may_be_waited_for(store: HdfsStore, path: str) -> None:
    """With the retry policy on, a call waits until safe mode ends."""
    fs = store.hdfs.file_system(RETRYING)
    with store.hdfs.safe_mode():
        making = Task(fs.mkdirs, path)
        wait_until(
            lambda: fs.io_statistics().counters.get("rpc_retries", 0) >= 2, "it is asked again"
        )
        assert making.is_alive()
    assert making.result() is True
    fs.close()


@pytest.mark.rule("HDFS-17")
def test_complete_is_asked_until_the_block_is_replicated(store: HdfsStore, path: str) -> None:
    """While no DataNode has reported the last block, close waits and asks; then it succeeds."""
    out = store.fs.create(path)
    out.write(b"patience")
    with store.hdfs.blocks_unreported():
        closing = Task(out.close)
        wait_until(
            lambda: out.io_statistics().counters["hdfs_complete_retries"] >= 3, "it is asked again"
        )
        assert closing.is_alive()
        assert not store.hdfs.is_closed(path)
    closing.result()
    assert store.hdfs.is_closed(path)
    assert store.read(path) == b"patience"


@pytest.mark.rule("HDFS-17", "FAIL-7")
def test_over_quota_complete_is_asked_until_the_file_is_closed(store: HdfsStore, path: str) -> None:
    """A stream that gets no further block leaves no open file, however late the last report is."""
    out = store.fs.create(path, block_size=MIB)
    with store.hdfs.blocks_unreported():
        out.write(dataset(MIB))
        out.hflush()
        with store.full(0):
            out.write(b"one too many")
            closing = Task(out.close)
            wait_until(
                lambda: out.io_statistics().counters["hdfs_complete_retries"] >= 3,
                "it is asked again",
            )
            assert closing.is_alive()
            assert not store.hdfs.is_closed(path)
    with pytest.raises(OSError, match="quota") as caught:
        closing.result()
    assert (caught.value.errno, caught.value.filename) == (errno.EDQUOT, path)
    assert store.hdfs.is_closed(path)
    assert store.hdfs.lease_holder(path) is None
    assert store.read(path) == dataset(MIB)


@pytest.mark.rule("HDFS-17", "FAIL-7", "CLOSE-6")
def test_complete_gives_up(store: HdfsStore, path: str) -> None:
    """After the configured number of attempts close fails with numbers; a second one is quiet."""
    prefix = "dfs.client.block.write.locateFollowingBlock"
    fs = store.hdfs.file_system({f"{prefix}.retries": 2, f"{prefix}.initial.delay.ms": 10})
    out = fs.create(path)
    out.write(b"impatience")
    with store.hdfs.blocks_unreported():
        with pytest.raises(OSError, match=r"blk_\d+.*replicas") as caught:
            out.close()
        assert caught.value.filename == path
        assert out.close() is None
    fs.close()
    store.hdfs.recover_lease(path)
    assert store.read(path) == b"impatience"


@pytest.mark.rule("HDFS-27", "FAIL-12")
def test_protected_directories(store: HdfsStore) -> None:
    """Directories that the cluster protects cannot be deleted or renamed, nor their parents."""
    protected = store.path("parent", "protected")
    store.write(f"{protected}/file", b"kept")
    with store.hdfs.protected(protected):
        for path in (protected, store.path("parent")):
            with pytest.raises(PermissionError):
                store.fs.delete(path, recursive=True)
    assert store.read(f"{protected}/file") == b"kept"
    assert store.fs.delete(store.path("parent"), recursive=True) is True


# --- DataNodes are gone ---


@pytest.mark.rule("HDFS-11")
def test_a_block_whose_pipeline_cannot_be_built(store: HdfsStore, path: str) -> None:
    """A dead node that the NameNode still offers is excluded; no empty block remains."""
    for port in store.hdfs.ports[:2]:
        with store.hdfs.stopped(port):
            out = store.fs.create(f"{path}-{port}", block_size=MIB)
            out.write(dataset(3 * MIB // 2))
            out.hsync()
            out.close()
            counters = out.io_statistics().counters
            assert counters["hdfs_block_retries"] >= 1
            assert counters["hdfs_blocks"] - counters["hdfs_block_retries"] == 2
            assert store.hdfs.java.block_lengths(f"{path}-{port}") == [MIB, MIB // 2]
            assert store.read(f"{path}-{port}") == dataset(3 * MIB // 2)


@pytest.mark.rule("HDFS-11", "FAIL-3", "FAIL-4", "FAIL-13")
def test_no_pipeline_can_be_built(store: HdfsStore, path: str) -> None:
    """When no DataNode can be reached, the error says which were tried, and close is not stuck."""
    stopped = [store.hdfs.cluster.stop_data_node(port) for port in store.hdfs.ports]
    try:
        out = store.fs.create(path)
        out.write(b"nowhere to go")
        with pytest.raises(OSError, match=r"127\.0\.0\.1:\d+") as caught:
            out.hflush()
        assert caught.value.filename == path
        with pytest.raises(OSError, match=r"127\.0\.0\.1:\d+"):
            out.close()
    finally:
        for node in stopped:
            store.hdfs.restart(node)
    store.hdfs.recover_lease(path)
    assert store.content(path) == b""


def write_and_flush(out: hflush.FSDataOutputStream) -> None:
    out.write(b"more")
    out.hflush()


@pytest.mark.rule("HFLUSH-13", "FAIL-13", "CLOSE-7", "HFLUSH-11")
def test_a_data_node_that_dies_is_a_clean_error(store: HdfsStore, path: str) -> None:
    """No other takes its place: OSError that names it; flushed bytes can be recovered."""
    out = store.fs.create(path)
    out.write(dataset(5000))
    out.hflush()
    (victim,) = store.hdfs.java.hosts(path)[0][:1]
    stopped = store.hdfs.declare_dead(victim)
    try:
        with pytest.raises(OSError, match=r"127\.0\.0\.1:\d+") as caught:
            write_and_flush(out)
        assert caught.value.filename == path
        assert "replace-datanode-on-failure.policy" in str(caught.value)
        with pytest.raises(OSError, match=r"127\.0\.0\.1:\d+"):
            out.close()
        assert out.close() is None
        store.hdfs.recover_lease(path)
        content = store.read(path)
        assert content.startswith(dataset(5000))
        assert (dataset(5000) + b"more").startswith(content)
    finally:
        store.hdfs.restart(stopped)


# --- earlier blocks, when hsync is called for the first time ---


def wait_ended(out: hflush.FSDataOutputStream, length: int) -> None:
    """Return when the block that ends there is: its last packet comes after all of its data."""
    ended = f"idle; {length} bytes acknowledged"
    wait_until(lambda: any(event.what == ended for event in out.history()), "the block has ended")


def fsyncs(store: HdfsStore, out: hflush.FSDataOutputStream) -> dict[int, int]:
    """Call hsync; return how many syncs each DataNode made for it."""
    before = store.hdfs.fsync_counts()
    out.hsync()
    after = store.hdfs.fsync_counts()
    return {port: after[port] - before[port] for port in before}


@pytest.mark.rule("HSYNC-7", divergence="hdfs")
@pytest.mark.rule("HSYNC-3", "FAIL-13")
def test_hsync_goes_on_without_a_node_of_an_earlier_block(store: HdfsStore, path: str) -> None:
    """One of three has gone: the others sync what they have, the stream writes on and closes."""
    out = store.fs.create(path, block_size=MIB)
    out.write(dataset(2 * MIB))
    out.hflush()
    wait_ended(out, 2 * MIB)
    store.hdfs.wait_replicated(path)
    with store.hdfs.stopped(store.hdfs.java.hosts(path)[0][0]):
        assert list(fsyncs(store, out).values()) == [2, 2]
        counters = out.io_statistics().counters
        assert counters["hdfs_replicas_synced_afterwards"] == 4
        assert counters["hdfs_replicas_left_unsynced"] == 2
        out.write(b"and on")
        out.hsync()
        out.close()
        assert store.read(path) == dataset(2 * MIB) + b"and on"


@pytest.mark.rule("HSYNC-7", divergence="hdfs")
def test_hsync_finds_replicas_where_they_are_now(store: HdfsStore, path: str) -> None:
    """HDFS has replaced a replica whose node died: the new one is synced, none is missing."""
    out = store.fs.create(path, block_size=MIB, replication=2)
    out.write(b"x")
    out.hflush()
    hosts = store.hdfs.java.hosts(path)
    while hosts[0] == hosts[-1]:  # until the first block is on a node that is not in the pipeline
        out.write(bytes(MIB))
        out.hflush()
        store.hdfs.wait_replicated(path, 2)
        hosts = store.hdfs.java.hosts(path)
    (victim,) = set(hosts[0]) - set(hosts[-1])
    stopped = store.hdfs.declare_dead(victim)
    try:
        wait_until(
            lambda: store.hdfs.java.hosts(path) == [hosts[-1]] * len(hosts),
            "every block is on two living nodes",
        )
        earlier = len(hosts) - 1
        assert {synced >= earlier for synced in fsyncs(store, out).values()} == {True}
        counters = out.io_statistics().counters
        assert counters["hdfs_replicas_synced_afterwards"] == 2 * earlier
        assert counters["hdfs_replicas_left_unsynced"] == 0
        out.close()
    finally:
        store.hdfs.restart(stopped)
    assert store.read(path) == b"x" + bytes(MIB) * earlier


@pytest.mark.rule("HSYNC-4", "HSYNC-12", "FAIL-3", "FAIL-13")
def test_hsync_that_no_node_can_serve_fails_alone(store: HdfsStore, path: str) -> None:
    """The only replica is out of reach: OSError that names it; writing goes on; later it works."""
    out = store.fs.create(path, block_size=MIB, replication=1)
    out.write(dataset(MIB))
    out.hflush()
    wait_ended(out, MIB)
    ((port,),) = store.hdfs.java.hosts(path)
    with store.hdfs.stopped(port):
        for _ in range(2):
            with pytest.raises(OSError, match=rf"blk_\d+.*127\.0\.0\.1:{port}") as caught:
                out.hsync()
            assert caught.value.filename == path
            assert not out.closed
        out.write(b"on another node")
        out.hflush()
        assert out.io_statistics().counters["op_hsync"] == 0
    out.hsync()
    counters = out.io_statistics().counters
    assert (counters["op_hsync"], counters["hdfs_replicas_synced_afterwards"]) == (1, 1)
    out.close()
    assert store.read(path) == dataset(MIB) + b"on another node"


@pytest.mark.rule("HSYNC-7", divergence="hdfs")
def test_hsync_after_a_rename(store: HdfsStore, path: str) -> None:
    """Earlier blocks are found by the file, not by its name, which may be another file's."""
    out = store.fs.create(path, block_size=MIB)
    out.write(dataset(MIB))
    out.hflush()
    store.fs.rename(path, store.path("renamed"))
    store.write(path, b"another file")
    assert set(fsyncs(store, out).values()) == {1}
    out.close()
    assert store.read(store.path("renamed")) == dataset(MIB)


def test_persist_of_a_file_that_is_not_at_its_path(store: HdfsStore, path: str) -> None:
    """A token would be for another file, or for none."""
    with store.fs.create(path) as out:
        out.write(b"data")
        out.persist()
        store.fs.rename(path, store.path("renamed"))
        for _ in range(2):
            with pytest.raises(hflush.StaleTokenError, match="persist: the path does not name"):
                out.persist()
            store.write(path, b"another file")
    assert store.read(store.path("renamed")) == b"data"


@pytest.mark.rule("HSYNC-7", divergence="hdfs")
def test_a_file_that_its_writer_may_not_read(store: HdfsStore) -> None:
    """The NameNode does not tell where blocks are: they are synced where they were written.

    Nor of which cluster: that tokens are of this file is known by its id.
    """
    with store.public_directory() as directory:
        store.chmod(directory, 0o777)
        peer = store.unprivileged()
        path = f"{directory}/secret"
        before = store.hdfs.fsync_counts()
        peer.run(
            "out = fs.create(path, block_size=1 << 20, permission=0o200)\n"
            "out.write(bytes(1 << 20))\n"
            "out.hsync()",
            path=path,
        )
        after = store.hdfs.fsync_counts()
        assert {after[port] - before[port] for port in before} == {1}
        peer.run("token = out.persist()\nout.close()\nfs.resume(token).close()\nfs.commit(token)")


@pytest.mark.rule("HDFS-4", "FAIL-13")
def test_hsync_of_a_file_that_is_deleted(store: HdfsStore, path: str) -> None:
    """What is gone cannot be made durable: LeaseLostError, from close as well."""
    out = store.fs.create(path, block_size=MIB)
    out.write(dataset(MIB))
    out.hflush()
    store.fs.delete(path)
    with pytest.raises(hflush.LeaseLostError):
        out.hsync()
    with pytest.raises(hflush.LeaseLostError):
        out.close()


# --- reading on ---


@pytest.mark.rule("READ-17")
def test_a_reader_goes_on_with_another_replica(store: HdfsStore, path: str) -> None:
    """DataNodes die one by one under a reader: it goes on as long as there is a replica."""
    data = dataset(4 * MIB)
    with store.fs.create(path, block_size=MIB) as out:
        out.write(data)
    store.hdfs.wait_replicated(path)
    with store.fs.open(path) as reader:
        assert reader.read(1000) == data[:1000]
        first, second, _ = store.hdfs.ports
        with store.hdfs.stopped(first):
            assert reader.read(MIB) == data[1000 : 1000 + MIB]
            with store.hdfs.stopped(second):
                assert reader.read() == data[1000 + MIB :]
                assert reader.pread(10, 2 * MIB) == data[10 : 10 + 2 * MIB]
        counters = reader.io_statistics().counters
    assert counters["read_location_calls"] <= 3  # asked for in batches


@pytest.mark.rule("READ-17", "FAIL-3")
def test_no_replica_is_left(store: HdfsStore, path: str) -> None:
    """Only when no replica serves is it an error: OSError with path, block and nodes."""
    store.write(path, dataset(1000))
    store.hdfs.wait_replicated(path)
    fs = store.hdfs.file_system(
        {"dfs.client.max.block.acquire.failures": 1, "dfs.client.retry.window.base": 10}
    )
    stopped = [store.hdfs.cluster.stop_data_node(port) for port in store.hdfs.ports]
    try:
        with fs.open(path) as reader, pytest.raises(OSError, match="blk_") as caught:
            reader.read()
        assert caught.value.filename == path
    finally:
        for node in stopped:
            store.hdfs.restart(node)
    assert fs.open(path).read() == dataset(1000)
    fs.close()


@pytest.mark.rule("READ-16")
def test_a_damaged_replica_is_masked_and_reported(store: HdfsStore, path: str) -> None:
    """With one good replica the data is right; the NameNode is told of the others."""
    data = dataset(100_000)
    store.write(path, data)
    store.hdfs.wait_replicated(path)
    block = store.hdfs.block(path)
    for port in store.hdfs.ports[:2]:
        store.hdfs.corrupt(port, block)

    def read_until_it_is_met() -> bool:
        assert store.read(path) == data
        return store.hdfs.corrupt_replicas(block) > 0

    wait_until(read_until_it_is_met, "it is reported")


@pytest.mark.rule("READ-16", "EXTRA-12", "FAIL-3")
def test_nothing_but_damaged_replicas(store: HdfsStore, path: str) -> None:
    """ChecksumError with path and position; unverified reads give the bytes; the file is listed."""
    data = dataset(100_000)
    with store.fs.create(path, replication=1) as out:
        out.write(data)
    block = store.hdfs.block(path)
    ((port,),) = store.hdfs.java.hosts(path)
    file = store.hdfs.block_file(port, block)
    damaged = bytearray(data)
    damaged[70_000] ^= 1
    file.write_bytes(damaged)
    unverified = store.new_client()
    unverified.set_verify_checksum(False)
    with unverified.open(path) as reader:
        assert reader.read() == bytes(damaged)
    fs = store.hdfs.file_system(
        {"dfs.client.max.block.acquire.failures": 1, "dfs.client.retry.window.base": 10}
    )
    with fs.open(path) as reader:
        assert reader.pread(0, 1000) == data[:1000]
        with pytest.raises(hflush.ChecksumError) as caught:
            reader.pread(69_000, 2000)
        assert caught.value.filename == path
        assert caught.value.position == 70_000 // 512 * 512
    wait_until(
        lambda: list(fs.list_corrupt_file_blocks(store.root)) == [store.url(path)],
        "the file is listed",
    )
    for client in (fs, unverified):
        client.close()
