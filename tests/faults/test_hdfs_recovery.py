"""HDFS: DataNodes that die or restart under a writer, in each state of its pipeline."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import hflush
import pytest
from minidfs import Jvm, MiniCluster
from support.data import dataset
from support.minidfs import SETTINGS, Hdfs, NewHdfs
from support.relay import Relay
from support.waiting import DEADLINE_S, PATIENCE, Task, wait_until

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
ON_FAILURE = "dfs.client.block.write.replace-datanode-on-failure"
QUICK = {"dfs.client.socket-timeout": 1000}
# As small clusters are run: a stream goes on with the nodes that are left.
BEST_EFFORT = {f"{ON_FAILURE}.best-effort": "true"}
NEVER = {f"{ON_FAILURE}.policy": "NEVER"}
ALWAYS = {f"{ON_FAILURE}.policy": "ALWAYS"}

pytestmark = pytest.mark.stores("hdfs")


@pytest.fixture
def path(hdfs_cluster: Hdfs) -> str:
    return f"{hdfs_cluster.root()}/file"


def cluster_of(
    jvm: Jvm, datanodes: int, settings: dict[str, object] | None = None
) -> Iterator[Hdfs]:
    hdfs = Hdfs(MiniCluster.start(datanodes, settings={**SETTINGS, **(settings or {})}, jvm=jvm))
    yield hdfs
    hdfs.close()


@pytest.fixture(scope="module")
def four_nodes(hdfs_jvm: Jvm) -> Iterator[Hdfs]:
    """A cluster with a spare node for three replicas. Tests start again what they stop."""
    yield from cluster_of(hdfs_jvm, 4, {"dfs.pipeline.slownode": "true"})


@pytest.fixture(scope="module")
def impatient_nodes(hdfs_jvm: Jvm) -> Iterator[Hdfs]:
    """Three nodes that wait for a second, and a NameNode that closes files early."""
    allowed = {"dfs.namenode.file.close.num-committed-allowed": 1}
    yield from cluster_of(hdfs_jvm, 3, {**QUICK, **allowed})


@contextmanager
def dead(hdfs: Hdfs, *ports: int) -> Iterator[None]:
    """These nodes are stopped for a while, and the NameNode knows."""
    stopped = [hdfs.declare_dead(port) for port in ports]
    try:
        yield
    finally:
        for node in stopped:
            hdfs.restart(node)


@contextmanager
def opened(hdfs: Hdfs, settings: Mapping[str, object]) -> Iterator[hflush.FileSystem]:
    fs = hdfs.file_system(settings)
    yield fs
    fs.close()


def min_replication(enough: int) -> dict[str, str]:
    return {**ALWAYS, f"{ON_FAILURE}.min-replication": str(enough)}


def sleeping(
    method: str, milliseconds: int, *, texts: int = 0, once: bool = False
) -> Callable[[Any, Any], None]:
    """What DataNodes do at one place (Hdfs.injected): a method with so many texts as arguments."""

    def stub(hadoop: Any, mock: Any) -> None:
        sleep = hadoop.test.GenericTestUtils.SleepAnswer(milliseconds, milliseconds + 1)
        stubber = hadoop.shaded.org.mockito.Mockito.doAnswer(sleep)
        if once:
            stubber = stubber.doNothing()
        anything = hadoop.shaded.org.mockito.ArgumentMatchers.anyString
        getattr(stubber.when(mock), method)(*(anything() for _ in range(texts)))

    return stub


def counters(out: hflush.FSDataOutputStream | hflush.FileSystem) -> dict[str, Any]:
    return dict(out.io_statistics().counters)


def in_history(out: hflush.FSDataOutputStream, text: str) -> bool:
    return any(text in event.what for event in out.history())


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

        with hdfs_cluster.injected(sleeping("delaySendingAckToUpstream", 20, texts=1)):
            writing = Task(write)
            assert halfway.wait(DEADLINE_S)
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
                wait_until(  # the last of the pipeline is the first
                    lambda file=file: has_ended(hdfs_cluster, file, hdfs_cluster.ports),
                    "a node has ended its replica",
                )
                with hdfs_cluster.stopped(hdfs_cluster.ports[place]):
                    closing.result()
                    assert hdfs_cluster.is_closed(file)
                    assert hdfs_cluster.java.read(file) == dataset(70_000)
            assert counters(out)["hdfs_replicas_synced_afterwards"] == 0  # all by the last packet
            if counters(out)["hdfs_pipeline_recoveries"] == 1:
                return
    pytest.fail("no node died in time")


@pytest.mark.rule("HDFS-10", "HSYNC-12")
@pytest.mark.parametrize("place", [0, 1, 2])
def test_another_node_takes_the_place(four_nodes: Hdfs, place: int) -> None:
    """With a spare node there are three replicas again, and what hsync promised holds on each."""
    hdfs, path = four_nodes, f"{four_nodes.root()}/file"
    with opened(hdfs, {}) as fs:
        out = fs.create(path)
        out.write(dataset(100_000))
        out.hsync()
        before = hdfs.fsync_counts()
        pipeline = hdfs.pipeline(path)
        (spare,) = set(hdfs.ports) - set(pipeline)
        with dead(hdfs, pipeline[place]):
            wait_until(
                lambda: counters(out)["hdfs_datanode_replacements"] == 1, "another node comes in"
            )
            wait_until(lambda: hdfs.fsync_counts()[spare] > before[spare], "its copy is synced")
            out.write(dataset(50_000, 1))
            out.hflush()
            assert hdfs.java.read(path) == dataset(100_000) + dataset(50_000, 1)
            out.close()
            assert counters(out)["hdfs_block_transfers"] >= 1
            hdfs.wait_replicated(path, 3)
            assert spare in hdfs.java.hosts(path)[0]
            assert hdfs.block_file(spare, hdfs.block(path)).read_bytes() == hdfs.java.read(path)


@pytest.mark.rule("HDFS-10")
def test_another_node_comes_up_in_time(four_nodes: Hdfs) -> None:
    """The policy insists on three, and there are two: the NameNode is asked until there is one."""
    hdfs, path = four_nodes, f"{four_nodes.root()}/file"
    with opened(hdfs, {}) as fs:
        out = fs.create(path)
        out.write(b"before ")
        out.hflush()
        pipeline = hdfs.pipeline(path)
        (spare,) = set(hdfs.ports) - set(pipeline)
        away = hdfs.declare_dead(spare)
        with dead(hdfs, pipeline[1]):
            wait_until(lambda: in_history(out, "finding later"), "the NameNode has none")
            hdfs.cluster.restart_data_node(away)
            out.write(b"after")
            out.hflush()
            assert set(hdfs.pipeline(path)) == {pipeline[0], spare, pipeline[2]}
            out.close()
        assert hdfs.java.read(path) == b"before after"


@pytest.mark.rule("APPEND-12")
@pytest.mark.parametrize("unreported", [1, 2])
def test_an_append_does_not_leave_unreported_replicas_behind(
    hdfs_cluster: Hdfs, path: str, unreported: int
) -> None:
    """The NameNode knows fewer replicas than there are, as right after a close."""
    fs = hdfs_cluster.file_system()
    with hdfs_cluster.blocks_unreported(*hdfs_cluster.ports[:unreported]):
        with fs.create(path) as out:
            out.write(dataset(100_000))
        for part in range(1, 4):
            wait_until(
                lambda: len(hdfs_cluster.java.hosts(path)[0]) == 3 - unreported,
                "the others are reported",
            )
            out = fs.append(path)
            out.write(dataset(1_000, part))
            out.close()
            counted = counters(out)
            assert counted["hdfs_datanode_replacements"] == unreported
            assert counted["hdfs_pipeline_recoveries"] == 0
            content = hdfs_cluster.java.read(path)
            assert len(content) == 100_000 + part * 1_000
            for port in hdfs_cluster.ports:
                replica = hdfs_cluster.block_file(port, hdfs_cluster.block(path))
                assert replica.read_bytes() == content


@pytest.mark.rule("HDFS-10", "HSYNC-12")
def test_those_that_are_left_sync_again(hdfs_cluster: Hdfs, path: str) -> None:
    """What hsync promised is durable under the new generation stamp, without another hsync."""
    with opened(hdfs_cluster, NEVER) as fs:
        out = fs.create(path)
        out.write(dataset(100_000))
        out.hsync()
        before = hdfs_cluster.fsync_counts()
        lost, *left = hdfs_cluster.ports
        with hdfs_cluster.stopped(lost):
            out.write(dataset(100, 1))
            out.hflush()
            after = hdfs_cluster.fsync_counts()
            assert all(after[port] > before[port] for port in left)
            out.close()
        assert hdfs_cluster.java.read(path) == dataset(100_000) + dataset(100, 1)


@pytest.mark.rule("HDFS-10", "HDFS-11")
def test_a_node_dies_before_the_first_acknowledgement(hdfs_new: NewHdfs) -> None:
    """Nothing of the block is acknowledged: another one has as many replicas, on other nodes."""
    hdfs = hdfs_new(4, {"dfs.replication": 3})
    fs = hdfs.file_system()
    data = dataset(MIB + 100_000)

    def loses(out: hflush.FSDataOutputStream, path: str, index: int) -> int:
        """Write the rest of the data; lose a node before any of it is acknowledged."""
        with hdfs.injected(sleeping("delaySendingAckToUpstream", 5000, texts=1)):
            out.write(data[index * MIB :])
            flushing = Task(out.hflush)
            wait_until(lambda: counters(out)["hdfs_pipelines"] > index, "the block has a pipeline")
            *_, connecting = (e.what for e in out.history() if "connecting to" in e.what)
            victim = int(connecting.rpartition(":")[2])
            stopped = hdfs.cluster.stop_data_node(victim)
        flushing.result()
        out.close()
        assert counters(out)["hdfs_block_retries"] == 1
        assert hdfs.java.read(path) == data
        hdfs.restart(stopped)
        return victim

    out = fs.create("/three", block_size=MIB)
    out.write(data[:MIB])
    out.hflush()
    ended = f"idle; {MIB} bytes acknowledged"
    wait_until(lambda: any(event.what == ended for event in out.history()), "the block has ended")
    victim = loses(out, "/three", 1)
    hdfs.wait_replicated("/three", 3)
    assert victim not in hdfs.java.hosts("/three")[1]
    loses(fs.create("/one", replication=1), "/one", 0)
    assert hdfs.java.block_lengths("/one") == [len(data)]
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
@pytest.mark.timeout(400 * PATIENCE)
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
            hdfs_cluster.restart(stopped)
            flushing.result(2 * DEADLINE_S)  # longer than a restart is waited for
            expected += dataset(10_000, turn) + dataset(99, turn)
        out.close()
        assert hdfs_cluster.java.read(path) == expected
        assert counters(out)["hdfs_datanode_restarts_awaited"] == 3
    hdfs_cluster.wait_replicated(path)


# Whole fields: names of block pools have an address in them, too.
HERE, ELSEWHERE = b"\n\t127.0.0.1", b"\n\t192.0.2.1"  # the second one of no machine


@contextmanager
def elsewhere(hdfs: Hdfs) -> Iterator[str]:
    """The URL of a NameNode whose DataNodes are on other machines; host names lead to them."""
    with Relay(("127.0.0.1", hdfs.cluster.name_node_port())) as relay:
        relay.change = lambda data: data.replace(ELSEWHERE, HERE)
        relay.change_answers = lambda data: data.replace(HERE, ELSEWHERE)
        yield f"hdfs://127.0.0.1:{relay.port}"


@pytest.mark.rule("HDFS-10")
@pytest.mark.timeout(400 * PATIENCE)
def test_a_rolling_upgrade_elsewhere(hdfs_new: NewHdfs) -> None:
    """Every remote DataNode restarts, one by one, without a spare: none of three streams ends."""
    by_name = {"dfs.datanode.hostname": "localhost", "dfs.datanode.use.datanode.hostname": "true"}
    hdfs = hdfs_new(3, by_name, checkDataNodeHostConfig=True)
    settings = {"dfs.client.use.datanode.hostname": "true", "dfs.replication": 3}
    paths = ["/new", "/appended", "/idle"]
    with elsewhere(hdfs) as url, hflush.FileSystem.new_instance(url, settings) as fs:
        with fs.create("/appended") as out:
            out.write(b"first ")
        *busy, idle = outs = [fs.create("/new"), fs.append("/appended"), fs.create("/idle")]
        expected = b""

        def write(out: hflush.FSDataOutputStream, turn: int) -> None:
            out.write(dataset(10_000, turn))
            out.hflush()

        write(idle, 0)
        for turn, port in enumerate(hdfs.ports):
            for out in busy:
                write(out, turn)
            stopped = hdfs.cluster.java.stopDataNodeForUpgrade(hdfs.ports.index(port))
            writing = [Task(write, out, turn) for out in busy]
            hdfs.restart(stopped)
            for task in writing:
                task.result(2 * DEADLINE_S)  # longer than a restart is waited for
            expected += 2 * dataset(10_000, turn)
            wait_until(
                lambda n=turn + 1: counters(idle)["hdfs_pipelines"] > n, "a pipeline stands again"
            )
        for out in outs:
            assert counters(out)["hdfs_datanode_restarts_awaited"] == 3
            assert ELSEWHERE.decode().strip() in str(out.history())
            out.close()
    contents = [expected, b"first " + expected, dataset(10_000)]
    assert [hdfs.java.read(path) for path in paths] == contents


@pytest.mark.rule("HDFS-10")
@pytest.mark.parametrize("place", range(3))
def test_a_restart_loses_acknowledged_bytes(hdfs_cluster: Hdfs, path: str, place: int) -> None:
    """The node refuses the pipeline with what it has left; as there is no other, it gets a copy.

    A DataNode that restarts between a packet's bytes and their sum loses the chunk that it was
    writing, with what it had acknowledged of that.
    """
    with opened(hdfs_cluster, {"dfs.client.datanode-restart.timeout": "2s"}) as fs:
        out = fs.create(path)
        out.write(dataset(10_000))
        out.hflush()
        pipeline = hdfs_cluster.pipeline(path)
        port = pipeline[place]
        replica = hdfs_cluster.block_file(port, hdfs_cluster.block(path))
        index = hdfs_cluster.ports.index(port)
        stopped = hdfs_cluster.cluster.java.stopDataNodeForUpgrade(index)
        node = stopped.getDatanode()
        wait_until(lambda: not node.isDatanodeUp(), "the DataNode has stopped")
        os.truncate(replica, 9728)  # its last whole chunk
        hdfs_cluster.restart(stopped)
        out.write(b"more")
        out.hflush()
        assert counters(out)["hdfs_datanode_restarts_awaited"] == 1
        assert counters(out)["hdfs_datanode_replacements"] == 1
        assert sorted(hdfs_cluster.pipeline(path)) == sorted(pipeline)
        out.close()
    hdfs_cluster.wait_replicated(path)
    for other in pipeline:
        if other != port:
            hdfs_cluster.drop_replica(other, hdfs_cluster.block(path))
    assert hdfs_cluster.java.read(path) == dataset(10_000) + b"more"


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
    hdfs.restart(stopped)
    out.write(b"after")
    out.close()
    assert hdfs.java.read("/file") == b"before meanwhile after"
    fs.close()


# --- situations of Hadoop's own tests (docs/hadoop-tests.md) ---


@pytest.mark.rule("HDFS-10")
def test_an_idle_stream_gets_its_restarted_node_back(hdfs_cluster: Hdfs, path: str) -> None:
    """Nothing is written meanwhile: the pipeline of three is built again all the same."""
    java = hdfs_cluster.cluster.java
    with opened(hdfs_cluster, {}) as fs:
        out = fs.create(path)
        out.write(dataset(10_000))
        out.hflush()
        first, *_ = pipeline = hdfs_cluster.pipeline(path)
        before = hdfs_cluster.block(path).getGenerationStamp()
        stopped = java.stopDataNodeForUpgrade(hdfs_cluster.ports.index(first))
        hdfs_cluster.restart(stopped)
        wait_until(
            lambda: hdfs_cluster.block(path).getGenerationStamp() > before,
            "the NameNode knows a new pipeline",
        )
        assert sorted(hdfs_cluster.pipeline(path)) == sorted(pipeline)
        out.write(b"more")
        out.close()
        assert counters(out)["hdfs_datanode_replacements"] == 0
    assert hdfs_cluster.java.read(path) == dataset(10_000) + b"more"


@pytest.mark.rule("HDFS-10", "FAIL-13")
def test_a_node_does_not_come_back_from_its_restart(hdfs_cluster: Hdfs, path: str) -> None:
    """It is waited for as long as configured: then the other one goes on, if there is one."""
    java = hdfs_cluster.cluster.java
    stopped = []

    def restart_first(path: str, out: hflush.FSDataOutputStream) -> None:
        first, *_ = hdfs_cluster.pipeline(path)
        stopped.append(java.stopDataNodeForUpgrade(hdfs_cluster.ports.index(first)))
        # Java does not wait for the end of its DataNode.
        wait_until(lambda: counters(out)["hdfs_datanode_restarts_awaited"] == 1, "it says so")

    with opened(hdfs_cluster, {"dfs.client.datanode-restart.timeout": "1s"}) as fs:
        with fs.create(path, replication=2) as out:
            out.write(dataset(10_240))
        hdfs_cluster.wait_replicated(path, 2)
        try:
            with fs.append(path) as out:
                out.write(b"one ")
                out.hflush()
                restart_first(path, out)
            assert counters(out)["hdfs_datanode_restarts_awaited"] == 1
            assert hdfs_cluster.java.read(path) == dataset(10_240) + b"one "
            out = fs.create(alone := f"{path}-alone", replication=1)
            out.write(b"two")
            out.hflush()
            restart_first(alone, out)
            with pytest.raises(hflush.PipelineError):
                out.close()
        finally:
            for node in stopped:
                hdfs_cluster.restart(node)
        assert fs.recover_lease(alone, wait=DEADLINE_S) is True
    assert hdfs_cluster.java.read(alone) == b"two"


@pytest.mark.rule("HDFS-10")
def test_a_node_evicts_its_writers(hdfs_cluster: Hdfs, path: str) -> None:
    """`hdfs dfsadmin -evictWriters`: the pipeline goes on without that node."""
    with opened(hdfs_cluster, {}) as fs:
        out = fs.create(path, replication=2)
        out.write(b"one ")
        out.hflush()
        first, second = hdfs_cluster.pipeline(path)
        hdfs_cluster.node(second).evictWriters()
        out.write(b"two")
        out.hflush()
        assert hdfs_cluster.pipeline(path) == [first]
        out.close()
    assert hdfs_cluster.java.read(path) == b"one two"


@pytest.mark.rule("HDFS-10")
def test_the_only_node_evicts_its_writers(hdfs_cluster: Hdfs, path: str) -> None:
    """It closes their connections and stays up: the pipeline is set up with it again."""
    with opened(hdfs_cluster, NEVER) as fs:
        out = fs.create(path, replication=1)
        pieces = [b"%d " % number for number in range(10)]
        for number, piece in enumerate(pieces, 1):
            out.write(piece)
            out.hflush()
            (node,) = hdfs_cluster.pipeline(path)
            hdfs_cluster.node(node).evictWriters()
            wait_until(
                lambda n=number: counters(out)["hdfs_pipeline_recoveries"] == n, "a recovery"
            )
        out.close()
    assert hdfs_cluster.java.read(path) == b"".join(pieces)


@pytest.mark.rule("HDFS-10")
def test_a_node_registers_anew_under_a_stream(hdfs_cluster: Hdfs, path: str) -> None:
    """The NameNode had taken it for dead. A later recovery goes on with it all the same."""
    with opened(hdfs_cluster, NEVER) as fs:
        out = fs.create(path)
        out.write(b"one ")
        out.hflush()
        first, *_, last = hdfs_cluster.pipeline(path)
        identity = hdfs_cluster.node(first).getDatanodeId()
        hdfs_cluster.cluster.java.setDataNodeDead(identity)
        nodes = hdfs_cluster.name_node.getNamesystem().getBlockManager().getDatanodeManager()
        wait_until(lambda: nodes.getDatanode(identity).isAlive(), "it is registered again")
        # Behind the recovery it would have a replica of the generation before: a corrupt one.
        again = nodes.getDatanode(identity)
        wait_until(again.checkBlockReportReceived, "its report of all blocks is there")
        hdfs_cluster.node(last).evictWriters()
        out.write(b"two")
        out.hflush()
        out.close()
    hdfs_cluster.wait_replicated(path)
    assert first in hdfs_cluster.java.hosts(path)[0]
    assert hdfs_cluster.java.read(path) == b"one two"


@pytest.mark.rule("HDFS-10")
def test_the_first_node_passes_no_heartbeats_on(impatient_nodes: Hdfs) -> None:
    """The next one hears nothing and ends: the first one, which is to blame, leaves."""
    path = f"{impatient_nodes.root()}/file"

    def stub(hadoop: Any, mock: Any) -> None:
        mockito = hadoop.shaded.org.mockito.Mockito
        mockito.doReturn(True).when(mock).dropHeartbeatPacket()

    with (
        opened(impatient_nodes, QUICK) as fs,
        impatient_nodes.injected(stub),
        fs.create(path, replication=2) as out,
    ):
        out.write(b"one ")
        out.hflush()
        _, second = impatient_nodes.pipeline(path)
        wait_until(lambda: counters(out)["hdfs_pipeline_recoveries"] == 1, "the second one ends")
        out.write(b"two")
        out.hflush()
        assert impatient_nodes.pipeline(path) == [second]
    assert impatient_nodes.java.read(path) == b"one two"


@pytest.mark.rule("HDFS-10")
def test_heartbeats_go_on_while_an_acknowledgement_is_late(impatient_nodes: Hdfs) -> None:
    """Later than a DataNode waits for a packet: it is not left without one."""
    path = f"{impatient_nodes.root()}/file"
    with opened(impatient_nodes, QUICK) as fs:
        out = fs.create(path, replication=1)
        out.write(b"one ")
        out.hflush()
        late = sleeping("delaySendingAckToUpstream", 1500, texts=1, once=True)
        with impatient_nodes.injected(late):
            out.write(b"two")
            out.hflush()
            out.close()
        assert counters(out)["hdfs_heartbeats"] >= 1
        assert counters(out)["hdfs_pipelines"] == 1
    assert impatient_nodes.java.read(path) == b"one two"


@pytest.mark.rule("HDFS-10")
def test_the_first_packet_stays_with_the_first_node(impatient_nodes: Hdfs) -> None:
    """Nothing is acknowledged, nothing can be copied: all of it goes out again."""
    path = f"{impatient_nodes.root()}/file"
    hang = sleeping("stopSendingPacketDownstream", 60_000, texts=1, once=True)
    with (
        opened(impatient_nodes, {**QUICK, **ALWAYS}) as fs,
        impatient_nodes.injected(hang),
        fs.create(path, replication=2) as out,
    ):
        out.write(b"all of it")
        out.hflush()
        assert counters(out)["hdfs_pipeline_recoveries"] >= 1
    assert impatient_nodes.java.read(path) == b"all of it"


@pytest.mark.rule("HDFS-10")
def test_a_copy_ends_inside_a_chunk(four_nodes: Hdfs) -> None:
    """Nodes have more than is acknowledged when the last one goes; its successor has all of it."""
    hdfs, path = four_nodes, f"{four_nodes.root()}/file"
    pieces: list[bytes] = []
    under_way, ended = threading.Event(), threading.Event()
    with opened(hdfs, {}) as fs:
        out = fs.create(path)
        out.write(b"hello")
        out.hflush()
        *old, last = hdfs.pipeline(path)

        def write() -> None:
            more = 50  # after the pipeline is another one
            while more:
                pieces.append(dataset(5000, len(pieces) % 100))
                out.write(pieces[-1])
                if len(pieces) == 50:
                    under_way.set()
                more -= counters(out)["hdfs_pipeline_recoveries"] > 0
            ended.set()

        def flush() -> None:
            while not ended.is_set():
                out.hflush()

        with hdfs.acks_delayed(10):
            tasks = [Task(write), Task(flush), Task(flush)]
            assert under_way.wait(DEADLINE_S)
            with dead(hdfs, last):
                for task in tasks:
                    task.result()
                (new,) = set(hdfs.pipeline(path)) - set(old)
                out.close()
        assert new != last
        with ExitStack() as stopped:
            for port in set(hdfs.ports) - {new}:
                stopped.enter_context(hdfs.stopped(port))
            assert hdfs.java.read(path) == b"hello" + b"".join(pieces)  # with its checksums


@pytest.mark.rule("HDFS-10", "CLOSE-2")
def test_two_of_three_nodes_go_before_close_returns(four_nodes: Hdfs) -> None:
    """One in the midst of the block, one at its end: when the third is gone, too, it is read."""
    hdfs, path = four_nodes, f"{four_nodes.root()}/file"
    with opened(hdfs, {}) as fs, ExitStack() as stopped:
        out = fs.create(path)
        out.write(dataset(128 << 10))
        out.flush()
        wait_until(lambda: counters(out)["hdfs_acks"] >= 2, "two packets are with three nodes")
        first, second, third = hdfs.pipeline(path)
        stopped.enter_context(hdfs.stopped(first))
        wait_until(lambda: counters(out)["hdfs_pipeline_recoveries"] == 1, "two go on")
        with hdfs.injected(sleeping("delayAckLastPacket", 2000)):
            closing = Task(out.close)
            wait_until(lambda: has_ended(hdfs, path, (second, third)), "a node has its replica")
            stopped.enter_context(hdfs.stopped(second))
            closing.result()
        stopped.enter_context(hdfs.stopped(third))
        assert hdfs.java.read(path) == dataset(128 << 10)


def has_ended(hdfs: Hdfs, path: str, ports: Iterable[int]) -> bool:
    """Whether one of these nodes has ended its replica of the file's block."""
    block = hdfs.block(path)
    return any("finalized" in str(hdfs.block_file(port, block)) for port in ports)


@pytest.mark.rule("HDFS-10")
def test_a_slow_node_leaves_the_pipeline(four_nodes: Hdfs) -> None:
    """It has said in three acknowledgements running that it is slow: another one comes in."""
    hdfs, path = four_nodes, f"{four_nodes.root()}/file"
    nodes = hdfs.name_node.getNamesystem().getBlockManager().getDatanodeManager()
    turns = 0
    with opened(hdfs, {"dfs.client.mark.slownode.as.badnode.threshold": 3}) as fs:
        out = fs.create(path)
        out.write(b"hello")
        out.hflush()
        *_, slow = hdfs.pipeline(path)

        def has_left() -> bool:
            nonlocal turns
            out.write(b"x")
            out.hflush()
            turns += 1
            return bool(counters(out)["hdfs_datanode_replacements"] == 1)

        nodes.addSlowPeers(hdfs.node(slow).getDatanodeUuid())
        try:
            wait_until(has_left, "another node is in its place")
        finally:
            nodes.getSlowNodesUuidSet().clear()
        pipeline = hdfs.pipeline(path)
        assert slow not in pipeline
        assert len(pipeline) == 3
        out.close()
    assert hdfs.java.read(path) == b"hello" + turns * b"x"


@pytest.mark.rule("HDFS-10")
def test_ten_streams_lose_a_node(four_nodes: Hdfs) -> None:
    """Another one comes in for each of them that had it, and every byte is there."""
    hdfs, root = four_nodes, four_nodes.root()
    with opened(hdfs, ALWAYS) as fs:
        streams = {f"{root}/{number}": fs.create(f"{root}/{number}") for number in range(10)}
        for path, out in streams.items():
            out.write(path.encode())
            out.hflush()
        lost = hdfs.ports[0]
        concerned = [path for path in streams if lost in hdfs.pipeline(path)]
        with dead(hdfs, lost):
            for path, out in streams.items():
                out.write(dataset(600))
                out.hflush()
                assert len(hdfs.pipeline(path)) == 3
            for path, out in streams.items():
                out.close()
                assert counters(out)["hdfs_datanode_replacements"] == (path in concerned)
                assert hdfs.java.read(path) == path.encode() + dataset(600)


@pytest.mark.rule("HDFS-10")
@pytest.mark.parametrize(("enough", "places"), [(2, [2]), (2, [0]), (1, [1, 2]), (1, [0, 1])])
def test_as_many_nodes_as_are_enough_are_left(
    hdfs_cluster: Hdfs, path: str, enough: int, places: list[int]
) -> None:
    """There is no other node, and min-replication lets the stream go on."""
    with opened(hdfs_cluster, min_replication(enough)) as fs, ExitStack() as stopped:
        out = fs.create(path)
        out.write(b"one ")
        out.hflush()
        pipeline = hdfs_cluster.pipeline(path)
        for place in places:
            stopped.enter_context(hdfs_cluster.stopped(pipeline[place]))
        out.write(b"two")
        out.hflush()
        assert len(hdfs_cluster.pipeline(path)) == enough
        out.close()
        assert hdfs_cluster.java.read(path) == b"one two"


def write_and_flush(out: hflush.FSDataOutputStream) -> None:
    out.write(b"two")
    out.hflush()


@pytest.mark.rule("HDFS-10", "FAIL-13")
def test_fewer_nodes_than_are_enough_are_left(hdfs_cluster: Hdfs, path: str) -> None:
    """The stream fails; what was flushed is there."""
    with opened(hdfs_cluster, min_replication(2)) as fs, ExitStack() as stopped:
        out = fs.create(path)
        out.write(b"one ")
        out.hflush()
        for port in hdfs_cluster.pipeline(path)[:2]:
            stopped.enter_context(hdfs_cluster.stopped(port))
        with pytest.raises(hflush.PipelineError):
            write_and_flush(out)
        with suppress(hflush.PipelineError):
            out.close()
        assert hdfs_cluster.java.read(path).startswith(b"one ")


@pytest.mark.rule("APPEND-13")
def test_appends_with_fewer_nodes_than_replicas(hdfs_cluster: Hdfs, path: str) -> None:
    """One node for three replicas: an append begins with what there is, as a new file does."""
    with dead(hdfs_cluster, *hdfs_cluster.ports[1:]):
        for name, settings in {"default": {}, "always": {**BEST_EFFORT, **ALWAYS}}.items():
            with opened(hdfs_cluster, settings) as fs:
                file = f"{path}-{name}"
                fs.create(file).close()
                for turn in range(2):
                    with fs.append(file) as out:
                        out.write(dataset(1000, turn))
                assert hdfs_cluster.java.status(file).getReplication() == 3
                assert hdfs_cluster.java.read(file) == dataset(1000) + dataset(1000, 1)


@pytest.mark.rule("APPEND-13")
def test_append_to_a_block_that_no_node_has(hdfs_cluster: Hdfs, path: str) -> None:
    """Refused by the NameNode, and the file stays closed; once the node is back, it works."""
    with opened(hdfs_cluster, {}) as fs:
        with fs.create(path, replication=1) as out:
            out.write(b"old ")
        hdfs_cluster.wait_replicated(path, 1)
        ((port,),) = hdfs_cluster.java.hosts(path)
        stopped = hdfs_cluster.declare_dead(port)
        try:
            with pytest.raises(OSError, match=path):
                fs.append(path)
            assert hdfs_cluster.is_closed(path)
        finally:
            hdfs_cluster.restart(stopped)
        hdfs_cluster.wait_replicated(path, 1)
        with fs.append(path) as out:
            out.write(b"new")
    assert hdfs_cluster.java.read(path) == b"old new"


@pytest.mark.rule("APPEND-13")
def test_append_before_the_last_block_is_reported(impatient_nodes: Hdfs) -> None:
    """A file may be closed by then: append is asked again until it may, time after time."""
    hdfs, path = impatient_nodes, f"{impatient_nodes.root()}/file"
    with opened(hdfs, QUICK) as fs:
        with hdfs.blocks_unreported():
            with fs.create(path, block_size=1024) as out:
                out.write(dataset(700))
            before = counters(fs)["rpc_calls"]
            appending = Task(fs.append, path)
            wait_until(lambda: counters(fs)["rpc_calls"] >= before + 2, "it is asked again")
            assert appending.is_alive()
        with appending.result() as out:
            out.write(dataset(700, 1))
        for turn in range(2, 20):
            with fs.append(path) as out:
                out.write(dataset(700, turn))
        assert fs.get_file_status(path).length == 20 * 700
    assert hdfs.java.read(path) == b"".join(dataset(700, turn) for turn in range(20))


@pytest.mark.rule("APPEND-13")
@pytest.mark.parametrize("flags", [(), (hflush.CreateFlag.NEW_BLOCK,)], ids=["partial", "new"])
def test_append_where_a_replica_was_cut(
    hdfs_cluster: Hdfs, path: str, flags: tuple[hflush.CreateFlag, ...]
) -> None:
    """One of two has nothing on its disk: the other one has what was there, and what comes."""
    half, whole = dataset(32 << 10), dataset(64 << 10, 7)
    with opened(hdfs_cluster, {}) as fs:
        with fs.create(path, replication=2, block_size=64 << 10) as out:
            out.write(half)
        hdfs_cluster.wait_replicated(path, 2)
        block = hdfs_cluster.block(path)
        os.truncate(hdfs_cluster.block_file(hdfs_cluster.java.hosts(path)[0][0], block), 0)
        with fs.append(path, flags=[hflush.CreateFlag.APPEND, *flags]) as out:
            out.write(whole)
        with fs.open(path) as reader:
            assert reader.read() == half + whole
        assert hdfs_cluster.java.read(path) == half + whole


@pytest.mark.rule("APPEND-13")
@pytest.mark.parametrize("size", [512, 700])
def test_append_to_a_damaged_block(hdfs_cluster: Hdfs, path: str, size: int) -> None:
    """The only replica: it ends, with success or not, and damage is never read as data."""
    with opened(hdfs_cluster, {}) as fs:
        with fs.create(path, replication=1) as out:
            out.write(dataset(size))
        hdfs_cluster.wait_replicated(path, 1)
        hdfs_cluster.corrupt(
            hdfs_cluster.java.hosts(path)[0][0], hdfs_cluster.block(path), size - 1
        )
        with suppress(hflush.PipelineError), fs.append(path) as out:
            out.write(dataset(size))
        with fs.open(path) as reader, pytest.raises(OSError, match=path):
            reader.read()


@pytest.mark.rule("APPEND-13")
def test_new_blocks_while_a_node_is_away(hdfs_cluster: Hdfs, path: str) -> None:
    """It comes back in the midst of an append: each append has its block, without its old ones."""
    with opened(hdfs_cluster, NEVER) as fs:
        fs.create(path).close()
        flags = [hflush.CreateFlag.APPEND, hflush.CreateFlag.NEW_BLOCK]
        with hdfs_cluster.stopped(hdfs_cluster.ports[0]):
            for _ in range(3):
                with fs.append(path, flags=flags) as out:
                    out.write(b"hello\n")
            out = fs.append(path, flags=flags)
        out.write(b"hello\n")
        out.close()
        assert hdfs_cluster.java.block_lengths(path) == 4 * [6]
        with fs.open(path) as reader:
            assert reader.read() == 4 * b"hello\n"
    assert hdfs_cluster.java.read(path) == 4 * b"hello\n"


@pytest.mark.rule("HDFS-10")
def test_a_packet_changes_on_its_way_once(hdfs_new: NewHdfs) -> None:
    """The last of three DataNodes finds it; what goes out again is what was written."""
    hdfs = hdfs_new(3, {"dfs.datanode.hostname": "127.0.0.2"}, checkDataNodeHostConfig=True)
    fs = hdfs.file_system({**BEST_EFFORT, "dfs.client.use.datanode.hostname": True})
    changes = [(b"as it was", b"as it had")]

    def change(data: bytes) -> bytes:
        if changes and changes[0][0] in data:
            return data.replace(*changes.pop())
        return data

    with ExitStack() as relays:
        for port in hdfs.ports:
            relay = relays.enter_context(Relay(("127.0.0.1", port), "127.0.0.2", port))
            relay.change = change
        with fs.create("/file") as out:
            out.write(b"as it is")
            out.hflush()
            out.write(b", not as it was")
            out.hflush()
        assert changes == []
        assert counters(out)["hdfs_pipeline_recoveries"] >= 1
    assert hdfs.java.read("/file") == b"as it is, not as it was"
    fs.close()


@pytest.mark.rule("HDFS-10")
def test_nodes_restart_under_many_writers(hdfs_cluster: Hdfs, path: str) -> None:
    """One and then another, plainly, while three threads write file after file of three blocks."""
    block, data = 8192, dataset(2 * 8192 + 1)
    written: list[list[str]] = [[] for _ in range(3)]
    over = threading.Event()

    def write(thread: int, fs: hflush.FileSystem) -> None:
        while not over.is_set():
            name = f"{path}-{thread}-{len(written[thread])}"
            with fs.create(name, block_size=block) as out:
                out.write(data[: len(data) // 2])
                out.hflush()
                out.write(data[len(data) // 2 :])
            written[thread].append(name)

    def one_more_each() -> None:
        before = [len(names) for names in written]
        wait_until(
            lambda: (
                over.is_set()
                or all(len(names) > known for names, known in zip(written, before, strict=True))
            ),
            "each thread has written another file",
        )

    with opened(hdfs_cluster, BEST_EFFORT) as fs:
        tasks = [Task(write, thread, fs) for thread in range(3)]
        try:
            for port in hdfs_cluster.ports[:2]:
                one_more_each()
                with hdfs_cluster.stopped(port):
                    one_more_each()
                for name in (names[-1] for names in written):  # no replica is the last one
                    hdfs_cluster.wait_replicated(name)
        finally:
            over.set()
        for task in tasks:
            task.result()
        for name in (name for names in written for name in (names[0], names[-1])):
            assert hdfs_cluster.java.read(name) == data


# --- replacements ---


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
