"""HDFS: reads go on in the middle of a block, whatever becomes of its replicas.

In the first part one of two DataNodes is a process of its own, which is killed and paused; in the
second one replicas are lost, damaged, moved, appended to and recovered.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import hflush
import pytest
from minidfs import Jvm, MiniCluster
from support import lone_data_node
from support.data import dataset
from support.interrupts import interrupted
from support.lone_data_node import LoneDataNode
from support.minidfs import SETTINGS, Hdfs
from support.peer import Peer
from support.waiting import LONG_S, Task, soon, wait_until

MIB = 1 << 20
BLOCK = 16 * MIB  # more than is on its way in sockets
BEGUN = 1000  # bytes that a reader has read when something happens
TIMEOUT_S = 3.0
# A pause before replicas are asked again would be noticed: it is of any length up to this.
NO_PAUSE = {"dfs.client.retry.window.base": int(10_000 * LONG_S)}

pytestmark = pytest.mark.stores("hdfs")


# --- a DataNode that dies or hangs ---


class Pair(NamedTuple):
    """A cluster of two DataNodes, of which one is alone."""

    hdfs: Hdfs
    node: LoneDataNode


@pytest.fixture(scope="module")
def cluster_of_two(hdfs_jvm: Jvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    cluster = MiniCluster.start(1, settings=SETTINGS, jvm=hdfs_jvm)
    hdfs = Hdfs(cluster)
    try:
        with lone_data_node.running(hdfs, tmp_path_factory.mktemp("node")) as node:
            yield Pair(hdfs, node)
    finally:
        hdfs.close()


@pytest.fixture
def pair(cluster_of_two: Pair) -> Iterator[Pair]:
    yield cluster_of_two
    if not cluster_of_two.node.alive:
        cluster_of_two.node.restart()


@pytest.fixture
def impatient(pair: Pair) -> Iterator[hflush.FileSystem]:
    """A client of the pair that waits for three seconds."""
    fs = pair.hdfs.file_system({"dfs.client.socket-timeout": int(TIMEOUT_S * 1000)})
    yield fs
    fs.close()


@pytest.fixture
def patient(pair: Pair) -> Iterator[hflush.FileSystem]:
    """A client of the pair that waits for minutes."""
    fs = pair.hdfs.file_system({"dfs.client.socket-timeout": int(1000 * LONG_S)})
    yield fs
    fs.close()


def written(pair: Pair, fs: hflush.FileSystem) -> str:
    """A file of one block and half of another one on both DataNodes."""
    path = f"{pair.hdfs.root()}/file"
    with fs.create(path, replication=2, block_size=BLOCK) as out:
        out.write(dataset(BLOCK + BLOCK // 2))
    pair.hdfs.wait_replicated(path, 2)
    return path


def reader_at(node: LoneDataNode, fs: hflush.FileSystem, path: str) -> hflush.FSDataInputStream:
    """A reader that is in the middle of the first block, at this DataNode."""
    while True:  # replicas come in any order
        reader = fs.open(path)
        assert reader.read(BEGUN) == dataset(BEGUN)
        if node.is_connected:
            return reader
        reader.close()


def test_the_node_is_killed(pair: Pair, patient: hflush.FileSystem) -> None:
    """The other replica is read from where the first one ended, in both blocks."""
    path = written(pair, patient)
    with reader_at(pair.node, patient, path) as reader:
        pair.node.kill()
        with soon():
            assert reader.read() == dataset(BLOCK + BLOCK // 2)[BEGUN:]
        assert reader.io_statistics().counters["read_replica_failures"] == 1


def test_the_node_hangs(pair: Pair, impatient: hflush.FileSystem) -> None:
    """After one timeout the other replica is read, and the node is left out afterwards."""
    path = written(pair, impatient)
    data = dataset(BLOCK + BLOCK // 2)
    with reader_at(pair.node, impatient, path) as reader, pair.node.paused():
        with soon():
            assert reader.read() == data[BEGUN:]
            for start in range(0, len(data), MIB):
                assert reader.pread(start, 10) == data[start : start + 10]
        assert reader.io_statistics().counters["read_replica_failures"] == 1


def test_the_node_restarts(pair: Pair, impatient: hflush.FileSystem) -> None:
    """A reader between two reads finds the other replica, or this one again."""
    path = written(pair, impatient)
    with reader_at(pair.node, impatient, path) as reader:
        pair.node.kill()
        pair.node.restart()
        assert reader.read() == dataset(BLOCK + BLOCK // 2)[BEGUN:]


def test_ctrl_c_where_a_node_hangs(pair: Pair, patient: hflush.FileSystem) -> None:
    """KeyboardInterrupt at once, within minutes of patience; the reader can be used afterwards."""
    path = written(pair, patient)
    data = dataset(BLOCK + BLOCK // 2)
    with reader_at(pair.node, patient, path) as reader:
        with pair.node.paused(), soon(), pytest.raises(KeyboardInterrupt):
            interrupted(reader.read)
        reader.seek(BEGUN)
        assert reader.read() == data[BEGUN:]


def test_open_does_not_wait_for_a_node_that_hangs(pair: Pair, patient: hflush.FileSystem) -> None:
    """The writer has died and one DataNode hangs: any other one tells the length."""
    path = f"{pair.hdfs.root()}/file"
    peer = Peer(pair.hdfs.url, dict(pair.hdfs.conf))
    peer.run(
        "out = fs.create(path, replication=2)\nout.write(data)\nout.hflush()",
        path=path,
        data=dataset(100_000),
    )
    peer.kill()
    with pair.node.paused(), soon():
        for _ in range(8):  # replicas come in any order
            with patient.open(path) as reader:
                assert reader.seek(0, 2) == 100_000


def test_open_where_the_only_node_hangs(
    pair: Pair, impatient: hflush.FileSystem, patient: hflush.FileSystem
) -> None:
    """OSError after one timeout, which names the DataNode; Ctrl-C gets through before."""
    root = pair.hdfs.root()
    for number in range(100):
        path = f"{root}/{number}"
        out = patient.create(path, replication=1)
        out.write(b"data")
        out.hflush()
        if pair.hdfs.java.hosts(path) == [[pair.node.port]]:
            break
        out.close()
    expected = rf"127\.0\.0\.1:{pair.node.port}.*{1000 * TIMEOUT_S:.0f} ms"
    with pair.node.paused():
        began = time.monotonic()
        with soon(), pytest.raises(OSError, match=expected) as caught:
            impatient.open(path)
        assert time.monotonic() - began >= TIMEOUT_S
        assert impatient.io_statistics().counters["rpc_calls"] == 1  # another try would ask anew
        assert caught.value.filename == path
        with soon(), pytest.raises(KeyboardInterrupt):
            interrupted(lambda: patient.open(path))
    with impatient.open(path) as reader:
        assert reader.read() == b"data"
    out.close()


# --- replicas that change ---


@pytest.fixture
def path(hdfs_cluster: Hdfs) -> Iterator[str]:
    root = hdfs_cluster.root()
    yield f"{root}/file"
    hdfs_cluster.java.delete(root)


@pytest.fixture
def fs(hdfs_cluster: Hdfs) -> Iterator[hflush.FileSystem]:
    client = hdfs_cluster.file_system(NO_PAUSE)
    yield client
    client.close()


def write(hdfs: Hdfs, fs: hflush.FileSystem, path: str, data: bytes, replication: int) -> None:
    with fs.create(path, replication=replication, block_size=BLOCK) as out:
        out.write(data)
    hdfs.wait_replicated(path, replication)


def test_the_only_node_restarts(hdfs_cluster: Hdfs, path: str) -> None:
    """A read that finds no replica waits for it, and goes on where it was."""
    data = dataset(BLOCK)
    fs = hdfs_cluster.file_system()
    write(hdfs_cluster, fs, path, data, 1)
    ((port,),) = hdfs_cluster.java.hosts(path)
    with fs.open(path) as reader:
        assert reader.read(BEGUN) == data[:BEGUN]
        calls = hdfs_cluster.calls("getBlockLocations")
        with hdfs_cluster.stopped(port):
            reading = Task(reader.read)
            wait_until(
                lambda: hdfs_cluster.calls("getBlockLocations") > calls,
                "the read asks where replicas are",
            )
        assert reading.result() == data[BEGUN:]
    fs.close()


def test_the_replica_is_moved(hdfs_cluster: Hdfs, fs: hflush.FileSystem, path: str) -> None:
    """No replica that the reader knows is there any more: it asks, and goes on without a pause."""
    data = dataset(BLOCK)
    write(hdfs_cluster, fs, path, data, 1)
    ((port,),) = hdfs_cluster.java.hosts(path)
    with fs.open(path) as reader:
        assert reader.read(BEGUN) == data[:BEGUN]
        fs.set_replication(path, 2)
        hdfs_cluster.wait_replicated(path, 2)
        hdfs_cluster.drop_replica(port, hdfs_cluster.block(path))
        reader.unbuffer()
        with soon():
            assert reader.read() == data[BEGUN:]
        assert reader.io_statistics().counters["read_location_calls"] == 2


@pytest.mark.parametrize("at", [BLOCK // 2, BLOCK - 1])
def test_replicas_are_damaged(
    hdfs_cluster: Hdfs, fs: hflush.FileSystem, path: str, at: int
) -> None:
    """What was read before stands, what comes later is another replica's; two are reported."""
    data = dataset(BLOCK)
    write(hdfs_cluster, fs, path, data, 3)
    block = hdfs_cluster.block(path)
    whole, *bad = hdfs_cluster.ports
    with fs.open(path) as reader:
        assert reader.read(BEGUN) == data[:BEGUN]
        for port in bad:
            hdfs_cluster.corrupt(port, block, at)
        assert reader.read() == data[BEGUN:]

    def both_are_reported() -> bool:
        with fs.open(path) as another:  # replicas come in any order
            assert another.pread(at - 100, 101) == data[at - 100 : at + 1]
        return hdfs_cluster.corrupt_replicas(block) == 2

    wait_until(both_are_reported, "both are reported")
    assert whole in hdfs_cluster.java.hosts(path)[0]


def test_replicas_are_cut_and_lost(hdfs_cluster: Hdfs, fs: hflush.FileSystem, path: str) -> None:
    """One file on disk is shorter, another one is gone: every byte is read from the third."""
    data = dataset(MIB)
    write(hdfs_cluster, fs, path, data, 3)
    block = hdfs_cluster.block(path)
    cut, lost, _ = hdfs_cluster.ports
    with hdfs_cluster.block_file(cut, block).open("r+b") as file:
        file.truncate(MIB // 2)
    hdfs_cluster.block_file(lost, block).unlink()
    for _ in range(8):  # replicas come in any order
        with fs.open(path) as reader, soon():
            assert reader.pread(MIB - 10, 10) == data[-10:]
            assert reader.read() == data


def test_all_replicas_are_damaged(hdfs_cluster: Hdfs, fs: hflush.FileSystem, path: str) -> None:
    """Rather this client is wrong: ChecksumError without a pause, and nothing is reported."""
    write(hdfs_cluster, fs, path, dataset(MIB), 3)
    block = hdfs_cluster.block(path)
    for port in hdfs_cluster.ports:
        hdfs_cluster.corrupt(port, block, MIB // 2)
    reports = hdfs_cluster.calls("reportBadBlocks")
    with fs.open(path) as reader, soon():
        assert reader.pread(0, 512) == dataset(512)
        with pytest.raises(hflush.ChecksumError) as caught:
            reader.read()
        assert caught.value.position == MIB // 2
    calls = hdfs_cluster.calls("getFileInfo")
    fs.get_file_status(path)
    wait_until(lambda: hdfs_cluster.calls("getFileInfo") > calls, "a later call is served")
    assert hdfs_cluster.calls("reportBadBlocks") == reports


@pytest.mark.parametrize("buffered", [True, False])
def test_the_file_is_recovered(
    hdfs_cluster: Hdfs, fs: hflush.FileSystem, path: str, *, buffered: bool
) -> None:
    """Its writer has died: under the new stamp a reader finds what it knew when it was opened."""
    data = dataset(BLOCK // 2 + 77)
    peer = Peer(hdfs_cluster.url, dict(hdfs_cluster.conf))
    peer.run("out = fs.create(path)\nout.write(data)\nout.hflush()", path=path, data=data)
    with fs.open(path) as reader:
        assert reader.read(BEGUN) == data[:BEGUN]
        stamp = hdfs_cluster.block(path).getGenerationStamp()
        peer.kill()
        hdfs_cluster.recover_lease(path)
        assert hdfs_cluster.block(path).getGenerationStamp() > stamp
        if not buffered:
            reader.unbuffer()
        with soon():
            assert reader.read() == data[BEGUN:]
            assert reader.pread(len(data) - 5, 100) == data[-5:]


def test_a_node_restarts_under_an_open_file(
    hdfs_cluster: Hdfs, fs: hflush.FileSystem, path: str
) -> None:
    """A replica that waits for recovery cannot be read: the others are, and know the length."""
    data = dataset(BLOCK // 2 + 77)
    peer = Peer(hdfs_cluster.url, dict(hdfs_cluster.conf))
    peer.run("out = fs.create(path)\nout.write(data)\nout.hflush()", path=path, data=data)
    peer.kill()
    with fs.open(path) as reader:
        assert reader.read(BEGUN) == data[:BEGUN]
        for port in hdfs_cluster.ports[:2]:
            with hdfs_cluster.stopped(port):
                pass
        reader.unbuffer()
        with soon():
            assert reader.read() == data[BEGUN:]
    for _ in range(8):  # replicas come in any order
        with fs.open(path) as reader:
            assert reader.seek(0, 2) == len(data)
    hdfs_cluster.recover_lease(path)
    with fs.open(path) as reader:
        assert reader.read() == data


def test_the_file_is_appended_to(hdfs_cluster: Hdfs, fs: hflush.FileSystem, path: str) -> None:
    """A reader goes on with what it knows, in a chunk that grows, and finds nothing damaged."""
    data = dataset(3 * MIB + 100)
    write(hdfs_cluster, fs, path, data, 3)
    with fs.open(path) as reader, fs.open(path) as another:
        assert reader.read(BEGUN) == data[:BEGUN]
        with fs.append(path) as out:
            for _ in range(100):
                out.write(b"more")
                out.hflush()
                assert another.pread(len(data) - 50, 100) == data[-50:]
        assert reader.read() == data[BEGUN:]
        another.unbuffer()
        assert another.read() == data
        for counters in (reader.io_statistics().counters, another.io_statistics().counters):
            assert counters["read_corrupt_replicas"] == 0
    assert hdfs_cluster.corrupt_replicas(hdfs_cluster.block(path)) == 0


def test_the_file_is_deleted(hdfs_cluster: Hdfs, fs: hflush.FileSystem, path: str) -> None:
    """What the DataNode still sends is read; afterwards it is FileNotFoundError without a pause."""
    data = dataset(BLOCK)
    write(hdfs_cluster, fs, path, data, 1)
    block = hdfs_cluster.block(path)
    ((port,),) = hdfs_cluster.java.hosts(path)
    file = hdfs_cluster.block_file(port, block)
    with fs.open(path) as reader:
        assert reader.read(BEGUN) == data[:BEGUN]
        assert fs.delete(path)
        wait_until(lambda: not file.exists(), "the replica is removed")
        assert reader.read() == data[BEGUN:]
        with soon(), pytest.raises(FileNotFoundError) as caught:
            reader.pread(0, 10)
        assert caught.value.filename == path
