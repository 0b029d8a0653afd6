"""HDFS: DataNodes that die or restart under a writer, in each state of its pipeline."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hflush
import pytest
from support.data import dataset
from support.minidfs import Hdfs, NewHdfs
from support.waiting import Task, wait_until

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
ON_FAILURE = "dfs.client.block.write.replace-datanode-on-failure"
# As small clusters are run: a stream goes on with the nodes that are left.
BEST_EFFORT = {f"{ON_FAILURE}.best-effort": "true"}
NEVER = {f"{ON_FAILURE}.policy": "NEVER"}

pytestmark = pytest.mark.stores("hdfs")


@pytest.fixture
def path(hdfs_cluster: Hdfs) -> str:
    return f"{hdfs_cluster.root()}/file"


@contextmanager
def opened(hdfs: Hdfs, settings: dict[str, str]) -> Iterator[hflush.FileSystem]:
    fs = hdfs.file_system(settings)
    yield fs
    fs.close()


def counters(out: hflush.FSDataOutputStream) -> dict[str, Any]:
    return dict(out.io_statistics().counters)


@pytest.mark.rule("HDFS-9", "HDFS-10", "FAIL-13")
@pytest.mark.parametrize("settings", [BEST_EFFORT, NEVER], ids=["best-effort", "never"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_node_dies_between_flushes(
    hdfs_cluster: Hdfs, path: str, place: int, settings: dict[str, str]
) -> None:
    """Whichever of three: the writer goes on with two, and every byte is there."""
    data = dataset(3 * MIB // 2)
    with opened(hdfs_cluster, settings) as fs:
        out = fs.create(path, block_size=MIB)
        out.write(data[:300_001])
        out.hflush()
        with hdfs_cluster.stopped(hdfs_cluster.ports[place]):
            out.write(data[300_001:400_000])
            out.hflush()
            assert hdfs_cluster.java.read(path) == data[:400_000]
            out.write(data[400_000:])
            out.hsync()
            out.close()
            assert counters(out)["hdfs_pipeline_recoveries"] >= 1
            assert hdfs_cluster.java.read(path) == data
    assert hdfs_cluster.java.block_lengths(path) == [MIB, MIB // 2]


@pytest.mark.rule("HDFS-10", "HSYNC-12")
def test_two_of_three_nodes_die(hdfs_cluster: Hdfs, path: str) -> None:
    """One after the other, with bytes on the way: one is enough."""
    with opened(hdfs_cluster, BEST_EFFORT) as fs:
        out = fs.create(path)
        out.write(dataset(100_000))
        out.hsync()
        first, second, _ = hdfs_cluster.ports
        with hdfs_cluster.stopped(second):
            out.write(dataset(100_000, 1))
            out.hsync()
            with hdfs_cluster.stopped(first):
                out.write(dataset(100_000, 2))
                out.hsync()
                out.close()
                expected = b"".join(dataset(100_000, turn) for turn in range(3))
                assert hdfs_cluster.java.read(path) == expected
        assert counters(out)["hdfs_pipeline_recoveries"] >= 2


@pytest.mark.rule("HDFS-10")
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_node_dies_with_many_packets_on_the_way(
    hdfs_cluster: Hdfs, path: str, place: int
) -> None:
    """A writer that does not stop to flush: what was not acknowledged goes out again."""
    data = dataset(6 * MIB)
    with opened(hdfs_cluster, BEST_EFFORT) as fs:
        out = fs.create(path, block_size=8 * MIB)
        out.write(data[:MIB])
        out.hflush()
        halfway = threading.Event()

        def write() -> None:
            for start in range(MIB, len(data), 50_000):
                out.write(data[start : start + 50_000])
                if start > 2 * MIB:
                    halfway.set()
            out.close()

        with hdfs_cluster.acks_delayed(5):
            writing = Task(write)
            assert halfway.wait(60)
            with hdfs_cluster.stopped(hdfs_cluster.ports[place]):
                writing.result()
                assert hdfs_cluster.java.read(path) == data
        assert counters(out)["hdfs_bytes_sent_again"] > 0


@pytest.mark.rule("HDFS-10", "CLOSE-2")
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_node_dies_before_the_last_acknowledgement(
    hdfs_cluster: Hdfs, path: str, place: int
) -> None:
    """One node has ended the block, others have not: the file is closed all the same."""
    with opened(hdfs_cluster, NEVER) as fs:
        for attempt in range(10):  # until the node dies in time: how late an ack is, is chance
            file = f"{path}{attempt}"
            out = fs.create(file)
            out.write(dataset(70_000))
            out.hsync()
            with hdfs_cluster.acks_delayed(2000):
                closing = Task(out.close)
                block = hdfs_cluster.block(file)
                wait_until(  # the last of the pipeline is the first
                    lambda block=block: any(
                        "finalized" in str(hdfs_cluster.block_file(port, block))
                        for port in hdfs_cluster.ports
                    ),
                    "a node has ended its replica",
                )
                with hdfs_cluster.stopped(hdfs_cluster.ports[place]):
                    closing.result()
                    assert hdfs_cluster.is_closed(file)
                    assert hdfs_cluster.java.read(file) == dataset(70_000)
            if counters(out)["hdfs_pipeline_recoveries"] == 1:
                return
    pytest.fail("no node died in time")


@pytest.mark.rule("HDFS-10", "HSYNC-12")
@pytest.mark.parametrize("place", [0, 1, 2])
def test_another_node_takes_the_place(hdfs_new: NewHdfs, place: int) -> None:
    """With a spare node there are three replicas again, and what hsync promised holds on each."""
    hdfs = hdfs_new(4, {"dfs.replication": 3})
    fs = hdfs.file_system()
    out = fs.create("/file")
    out.write(dataset(100_000))
    out.hsync()
    before = hdfs.fsync_counts()
    pipeline = [port for port, syncs in before.items() if syncs > 0]
    (spare,) = set(hdfs.ports) - set(pipeline)
    stopped = hdfs.declare_dead(pipeline[place])
    wait_until(lambda: counters(out)["hdfs_datanode_replacements"] == 1, "another node comes in")
    wait_until(lambda: hdfs.fsync_counts()[spare] > before[spare], "its copy is synced")
    out.write(dataset(50_000, 1))
    out.hflush()
    assert hdfs.java.read("/file") == dataset(100_000) + dataset(50_000, 1)
    out.close()
    assert counters(out)["hdfs_block_transfers"] >= 1
    hdfs.wait_replicated("/file", 3)
    assert spare in hdfs.java.hosts("/file")[0]
    assert hdfs.block_file(spare, hdfs.block("/file")).read_bytes() == hdfs.java.read("/file")
    hdfs.cluster.restart_data_node(stopped)
    fs.close()


@pytest.mark.rule("APPEND-13", "HDFS-10")
def test_append_without_a_node(hdfs_cluster: Hdfs, path: str) -> None:
    """A node that has the last block is gone: append goes on with the others if it may."""
    hdfs_cluster.java.write(path, dataset(1000))
    hdfs_cluster.wait_replicated(path)
    with hdfs_cluster.stopped(hdfs_cluster.ports[1]), opened(hdfs_cluster, NEVER) as fs:
        with fs.append(path) as out:
            out.write(dataset(1000, 1))
            out.hflush()
        assert hdfs_cluster.java.read(path) == dataset(1000) + dataset(1000, 1)


@pytest.mark.rule("HDFS-10")
def test_a_rolling_upgrade(hdfs_cluster: Hdfs, path: str) -> None:
    """Every DataNode restarts for an upgrade under a writer: no stream ends, no node is lost."""
    with opened(hdfs_cluster, {}) as fs:
        out = fs.create(path)
        expected = b""
        for turn, port in enumerate(hdfs_cluster.ports):
            out.write(dataset(10_000, turn))
            out.hflush()
            java = hdfs_cluster.cluster.java
            stopped = java.stopDataNodeForUpgrade(hdfs_cluster.ports.index(port))
            flushing = Task(lambda turn=turn: (out.write(dataset(99, turn)), out.hflush()))
            hdfs_cluster.cluster.restart_data_node(stopped)
            flushing.result()
            expected += dataset(10_000, turn) + dataset(99, turn)
        out.close()
        assert hdfs_cluster.java.read(path) == expected
        assert counters(out)["hdfs_datanode_restarts_awaited"] == 3
    hdfs_cluster.wait_replicated(path)


@pytest.mark.rule("HDFS-10")
def test_the_only_node_restarts(hdfs_new: NewHdfs) -> None:
    """It is waited for; nothing that was flushed or written meanwhile is lost."""
    hdfs = hdfs_new(1, {"dfs.replication": 1})
    fs = hdfs.file_system()
    out = fs.create("/file")
    out.write(b"before ")
    out.hsync()
    stopped = hdfs.cluster.java.stopDataNodeForUpgrade(0)
    out.write(b"meanwhile ")
    hdfs.cluster.restart_data_node(stopped)
    out.write(b"after")
    out.close()
    assert hdfs.java.read("/file") == b"before meanwhile after"
    fs.close()


def replacement_cases() -> list[tuple[str, ...]]:
    """The rows of the page's table, as words."""
    page = (ROOT / "docs/hdfs-client.md").read_text()
    section = page.split("### Replacement")[1].split("###")[0]
    _, *rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in rows]


@pytest.mark.parametrize("case", replacement_cases(), ids="-".join)
def test_the_policy_of_replacements_is_hadoops(hdfs_cluster: Hdfs, case: tuple[str, ...]) -> None:
    """What the page says, and the C++ tests compare with the code, is what Java decides."""
    policy, replication, left, append, flushed, wanted = case
    hadoop = hdfs_cluster.jvm.java.org.apache.hadoop
    conf = hadoop.conf.Configuration(False)
    conf.set(f"{ON_FAILURE}.policy", policy)
    java = hadoop.hdfs.protocol.datatransfer.ReplaceDatanodeOnFailure.get(conf)
    nodes = hdfs_cluster.jvm.array(hadoop.hdfs.protocol.DatanodeInfo, *[None] * int(left))
    yes = hdfs_cluster.jvm.java.java.lang.Boolean
    decided = java.satisfy(
        hdfs_cluster.jvm.java.java.lang.Short(replication),
        nodes,
        yes(append == "yes"),
        yes(flushed == "yes"),
    )
    assert decided is (wanted == "yes")
