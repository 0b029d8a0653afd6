"""HDFS: what of the name space and the tools above it is different there. Writing is in
test_hdfs_syncs.py and test_hdfs_packets.py, leases are in test_hdfs_leases.py, failures in
test_hdfs_failures.py.
"""

from __future__ import annotations

import errno
import io

import hflush
import pytest
from hflush.checkpoint import CheckpointFileManager, MetadataLog
from support.data import dataset
from support.listing import names
from support.minidfs import NewHdfs
from support.stores import HdfsStore

MIB = 1 << 20
LONG_AGO_MS = 1_000_000_000_000

pytestmark = pytest.mark.stores("hdfs")


# --- the root ---


@pytest.mark.rule("ROOT-2", "ROOT-4")
@pytest.mark.rule("ROOT-3", divergence="hdfs")
def test_the_root_is_never_deleted(store: HdfsStore, path: str) -> None:
    """testRmRootRecursive, testRmNonEmptyRootDirNonRecursive: as declared, nothing is deleted."""
    assert store.options["test.root-tests-enabled"] is False
    store.write(path, b"kept")
    assert store.fs.delete("/", recursive=True) is False
    with pytest.raises(OSError, match="not empty") as refusal:
        store.fs.delete("/", recursive=False)
    assert (refusal.value.errno, refusal.value.filename) == (errno.ENOTEMPTY, "/")
    assert store.fs.is_directory("/")
    assert store.read(path) == b"kept"


@pytest.mark.rule("ROOT-4")
@pytest.mark.rule("ROOT-3", divergence="hdfs")
def test_an_empty_root_is_nothing_to_delete(store: HdfsStore, hdfs_new: NewHdfs) -> None:
    """testRmEmptyRootDirRecursive, -NonRecursive: False, and it is still there."""
    with hdfs_new().file_system() as fs:
        for recursive in (True, False):
            assert fs.delete("/", recursive=recursive) is False
            assert fs.is_directory("/")
            assert list(fs.list_status("/")) == []


@pytest.mark.rule("RENAME-29")
def test_nothing_is_renamed_to_another_store(store: HdfsStore, path: str) -> None:
    """A path of another file system is refused by both renames, and nothing is lost."""
    store.write(path, b"kept")
    for target in ("hdfs://127.0.0.1:1/target", "file:///target", f"hdfs://other{path}"):
        with pytest.raises((OSError, ValueError), match=r"file system|hdfs"):
            store.fs.rename(path, target)
        with pytest.raises((OSError, ValueError), match=r"file system|hdfs"):
            store.fs.rename(path, target, hflush.Rename.OVERWRITE)
    assert store.on_disk() == ["file"]
    assert store.read(path) == b"kept"


@pytest.mark.rule("EXTRA-10")
def test_msync(store: HdfsStore, path: str) -> None:
    """After msync what another client did before is seen."""
    for content in (b"one", b"three"):
        store.second_client().run(
            "out = fs.create(path); out.write(data); out.close()", path=path, data=content
        )
        store.fs.msync()
        assert store.fs.get_file_status(path).length == len(content)
        assert store.read(path) == content


# --- limits and times ---


@pytest.mark.rule("LIM-1")
def test_quotas(store: HdfsStore, path: str) -> None:
    """A quota of names or of space that is reached is EDQUOT, with the path; nothing is made."""
    store.hdfs.java.set_name_quota(store.root, 2)
    store.fs.mkdirs(store.path("one"))
    for call in (lambda: store.fs.mkdirs(store.path("two")), lambda: store.fs.create(path)):
        with pytest.raises(OSError, match="quota") as refusal:
            call()
        assert refusal.value.errno == errno.EDQUOT
        assert str(refusal.value.filename).startswith(store.root)
    store.hdfs.java.set_name_quota(store.root, None)
    assert store.on_disk() == ["one"]
    summary = store.fs.get_content_summary(store.root)
    assert (summary.file_count, summary.directory_count) == (0, 2)


@pytest.mark.rule("TIME-7", "EXTRA-1")
def test_truncate_and_concat_change_the_time(store: HdfsStore, path: str) -> None:
    """Both update the modification time of the file."""
    for name in ("file", "more"):
        store.write(store.path(name), dataset(2000))
    store.fs.set_times(path, LONG_AGO_MS, -1)
    store.fs.truncate(path, 1)
    assert store.fs.get_file_status(path).modification_time > LONG_AGO_MS
    store.settle(path)
    store.fs.set_times(path, LONG_AGO_MS, -1)
    store.fs.concat(path, [store.path("more")])
    assert store.fs.get_file_status(path).modification_time > LONG_AGO_MS
    assert store.read(path) == dataset(1) + dataset(2000)
    assert store.on_disk() == ["file"]


@pytest.mark.rule("TIME-8", "TIME-9")
def test_times_are_milliseconds_of_the_name_node(store: HdfsStore, path: str) -> None:
    """Times have milliseconds; reading changes the access time at most once an hour."""
    assert store.options["mtime-granularity"] == "ms"
    store.write(path, b"abc")
    store.fs.set_times(path, LONG_AGO_MS + 456, LONG_AGO_MS + 789)
    status = store.fs.get_file_status(path)
    assert status.modification_time == LONG_AGO_MS + 456
    assert status.modification_time_ns == (LONG_AGO_MS + 456) * 1_000_000
    assert status.access_time == LONG_AGO_MS + 789
    store.read(path)
    now = store.fs.get_file_status(path).access_time
    assert now > LONG_AGO_MS + 789
    store.read(path)
    assert store.fs.get_file_status(path).access_time == now


# --- listings ---


@pytest.mark.rule("STATUS-12", "STATUS-8")
def test_listings_have_pages(store: HdfsStore) -> None:
    """A directory of more entries than a page: every one once, in order, located or not."""
    java = store.hdfs.java
    directory = store.path("many")
    expected = [f"{number:04}" for number in range(1500)]
    java.mkdirs(directory)
    for name in expected:
        java.mkdirs(f"{directory}/{name}")
    for found in (
        store.fs.list_status(directory),
        store.fs.list_status_iterator(directory),
        store.fs.list_located_status(directory),
    ):
        assert [status.name for status in found] == expected


@pytest.mark.rule("STATUS-18", "STATUS-8")
def test_block_locations(store: HdfsStore, path: str) -> None:
    """Each block with its hosts, as Java has them; a located listing says the same."""
    with store.fs.create(path, block_size=MIB) as out:
        out.write(dataset(5 * MIB // 2))
    store.hdfs.wait_replicated(path)
    locations = store.fs.get_file_block_locations(path, 0, 3 * MIB)
    assert [(each.offset, each.length) for each in locations] == [
        (0, MIB),
        (MIB, MIB),
        (2 * MIB, MIB // 2),
    ]
    ports = [sorted(int(name.rpartition(":")[2]) for name in each.names) for each in locations]
    assert ports == store.hdfs.java.hosts(path)
    assert [len(each.hosts) for each in locations] == [3, 3, 3]
    (found,) = store.fs.list_located_status(store.root)
    assert found.block_locations is not None
    assert [each.length for each in found.block_locations] == [MIB, MIB, MIB // 2]
    (one,) = store.fs.get_file_block_locations(path, MIB + 5, 10)
    assert one.offset == MIB


# --- path handles ---


@pytest.mark.rule("READ-22")
@pytest.mark.parametrize("moved_too", [False, True], ids=["here", "anywhere"])
@pytest.mark.parametrize("changed_too", [False, True], ids=["same", "changeable"])
@pytest.mark.parametrize("event", ["nothing", "changed", "moved"])
def test_path_handles(
    store: HdfsStore, path: str, changed_too: bool, moved_too: bool, event: str
) -> None:
    """A handle opens what it allows: the same file, at its place or anywhere, as it was or not."""
    assert store.options["supports-file-reference"] is True
    assert store.options["supports-content-check"] is True
    store.write(path, b"content")
    status = store.fs.get_file_status(path)
    handle = store.fs.get_path_handle(status, changed=changed_too, moved=moved_too)
    if event == "changed":
        with store.fs.append(path) as out:
            out.write(b" and more")
    elif event == "moved":
        store.fs.rename(path, store.path("moved"))
    allowed = {"nothing": True, "changed": changed_too, "moved": moved_too}[event]
    if allowed:
        with store.fs.open_path_handle(handle) as reader:
            assert reader.read().startswith(b"content")
    else:
        with pytest.raises(hflush.InvalidPathHandleError) as refusal:
            store.fs.open_path_handle(handle)
        assert refusal.value.filename == path


# --- verification ---


@pytest.mark.rule("EXTRA-12", "READ-16")
def test_verification_is_of_the_instance(store: HdfsStore, path: str) -> None:
    """Switching verification off is for one instance; the other still verifies."""
    with store.fs.create(path, replication=1) as out:
        out.write(dataset(2000))
    block = store.hdfs.block(path)
    ((port,),) = store.hdfs.java.hosts(path)
    file = store.hdfs.block_file(port, block)
    content = bytearray(file.read_bytes())
    content[600] ^= 1
    file.write_bytes(content)
    quick = {"dfs.client.max.block.acquire.failures": 1, "dfs.client.retry.window.base": 10}
    trusting, other = store.hdfs.file_system(quick), store.hdfs.file_system(quick)
    trusting.set_verify_checksum(False)
    with trusting.open(path) as reader:
        assert reader.read() == bytes(content)
    with other.open(path) as reader, pytest.raises(hflush.ChecksumError):
        reader.read()
    trusting.close()
    other.close()


# --- statistics ---


@pytest.mark.rule("STATS-8", "STATS-1")
def test_statistics_of_a_stream(store: HdfsStore, path: str) -> None:
    """Packets, acks, blocks, pipelines and latencies of a stream are counted, and add up."""
    with store.fs.create(path, block_size=MIB) as out:
        for _ in range(3):
            out.write(dataset(MIB // 2 + 1))
            out.hflush()
    statistics = out.io_statistics()
    counters = statistics.counters
    assert counters["stream_write_bytes"] == 3 * (MIB // 2 + 1)
    assert (counters["hdfs_blocks"], counters["hdfs_pipelines"]) == (2, 2)
    assert counters["hdfs_packets_sent"] == counters["hdfs_acks"] >= 3 * 8 + 2
    assert counters["hdfs_bytes_sent"] > counters["stream_write_bytes"]
    name = "hdfs_ack_latency"
    mean = next(value for key, value in statistics.means.items() if key.startswith(name))
    low = next(value for key, value in statistics.minimums.items() if key.startswith(name))
    high = next(value for key, value in statistics.maximums.items() if key.startswith(name))
    assert mean.samples == counters["hdfs_acks"]
    assert 0 <= low <= mean.mean() <= high
    together = store.fs.io_statistics()
    assert together.counters["hdfs_packets_sent"] >= counters["hdfs_packets_sent"]
    assert together.counters["rpc_calls"] > 0


# --- checkpoints ---


@pytest.mark.rule("CKPT-21")
@pytest.mark.parametrize("sync", [True, False])
def test_a_checkpoint_is_on_disk_before_it_is_renamed(
    store: HdfsStore, path: str, sync: bool
) -> None:
    """Every DataNode has synced it when it is published, unless that is switched off."""
    conf = {**store.conf, "hflush.checkpoint.sync": sync}
    manager = CheckpointFileManager.create(store.url(), conf)
    before = store.hdfs.fsync_counts()
    out = manager.create_atomic(path, False)
    out.write(b"data")
    assert not store.fs.exists(path)
    out.close()
    synced = {count - before[port] for port, count in store.hdfs.fsync_counts().items()}
    assert (synced == {0}) is not sync
    assert store.on_disk() == ["file"]
    assert store.content(path) == b"data"


@pytest.mark.rule("CKPT-17", "CKPT-18", "CKPT-7")
@pytest.mark.parametrize("broken", ["serialize", "write"])
def test_a_failed_add_can_be_repeated(store: HdfsStore, broken: str) -> None:
    """The original exception comes out, the batch is absent, nothing is left, a repeat works."""
    log = MetadataLog(store.url(store.path("log")), conf=store.conf)
    if broken == "serialize":
        failing = MetadataLog(
            store.url(store.path("log")), conf=store.conf, serialize=lambda data: 1 // 0
        )
        with pytest.raises(ZeroDivisionError):
            failing.add(1, b"a")
    else:
        with store.full(0), pytest.raises(OSError, match="quota"):
            log.add(1, b"a")
    assert (log.get(1), log.get_latest()) == (None, None)
    assert not store.fs.exists(store.path("log")) or store.on_disk(store.path("log")) == []
    assert log.add(1, b"a")
    assert log.get(1) == b"a"


# --- what there is not ---


@pytest.mark.rule("EXTRA-9", refused="hdfs")
@pytest.mark.rule("FAIL-9")
def test_there_are_no_links(store: HdfsStore, path: str) -> None:
    """Symbolic links are refused by name."""
    store.write(path, b"target")
    with pytest.raises(io.UnsupportedOperation, match="link"):
        store.fs.create_symlink(path, store.path("link"))
    assert names(store.fs, store.root) == ["file"]
