"""HDFS: a DataNode that is silent is found by asking, where every timeout is minutes away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import hflush
import pytest
from minidfs import Jvm, MiniCluster
from support import lone_data_node
from support.data import dataset
from support.hdfs_writers import Cluster, Writer, running_behind_proxies
from support.lone_data_node import LoneDataNode
from support.minidfs import SETTINGS, Hdfs
from support.waiting import DEADLINE_S, LONG_S, PATIENCE, Task, wait_until

TIMEOUT = {"dfs.client.socket-timeout": int(1000 * LONG_S)}
CLIENT = {**TIMEOUT, "hflush.hdfs.silence.probe": "500ms"}
# Between DataNodes there are proxies; the client reaches them directly.
DIRECTLY = {"dfs.client.use.datanode.hostname": "false"}
BEST_EFFORT = {"dfs.client.block.write.replace-datanode-on-failure.best-effort": "true"}

pytestmark = [
    pytest.mark.stores("hdfs"),
    pytest.mark.rule("HDFS-9", "HDFS-10"),
    pytest.mark.timeout(200 * PATIENCE),
]


@pytest.fixture(scope="module", params=("false", "true"), ids=("", "block-tokens"))
def five_nodes(request: pytest.FixtureRequest, hdfs_jvm: Jvm) -> Iterator[Cluster]:
    settings = {**TIMEOUT, "dfs.block.access.token.enable": request.param}
    with running_behind_proxies(hdfs_jvm, 5, settings) as cluster:
        yield cluster


class Trio(NamedTuple):
    """A cluster of three DataNodes, of which one is a process of its own."""

    hdfs: Hdfs
    node: LoneDataNode


@pytest.fixture(scope="module")
def trio(hdfs_jvm: Jvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    settings = {**SETTINGS, **TIMEOUT, "dfs.replication": 3}
    hdfs = Hdfs(MiniCluster.start(2, settings=settings, jvm=hdfs_jvm))
    try:
        with lone_data_node.running(hdfs, tmp_path_factory.mktemp("node")) as node:
            yield Trio(hdfs, node)
    finally:
        hdfs.close()


def begun_on_all(trio: Trio, fs: hflush.FileSystem, path: str) -> hflush.FSDataOutputStream:
    """Make a file, flushed once, that all three write: the last may have come just now."""
    outs: list[hflush.FSDataOutputStream] = []

    def is_on_all() -> bool:
        for out in outs:
            out.close()
        outs[:] = [fs.create(path, overwrite=True, replication=3)]
        outs[0].write(dataset(1000))
        outs[0].hflush()
        return trio.node.port in trio.hdfs.pipeline(path)

    wait_until(is_on_all, "the DataNode of its own is in a pipeline")
    return outs[0]


def found(out: hflush.FSDataOutputStream) -> int:
    return int(out.io_statistics().counters["hdfs_datanodes_found_silent"])


@pytest.mark.parametrize("place", [1, 2])
def test_a_link_between_data_nodes_is_lost(five_nodes: Cluster, place: int) -> None:
    """All of them answer; the one behind the link has not received the packet, and leaves.

    Where block tokens are on they answer to readers, as whom they are asked then.
    """
    with five_nodes.proxies.client({**CLIENT, **DIRECTLY}) as client:
        path = f"{five_nodes.root}/link-{place}"
        writer = Writer(five_nodes, client.gate, path, five_nodes.create(client, path))
        writer.flush()
        port = client.gate.pipeline[place - 1]  # the proxies see those behind the first one
        client.gate.hang(port)
        writer.flush()
        writer.check_acknowledged()
        (failure,) = writer.failures(port)
        assert "has not received what the DataNode in front of it has" in failure
        assert found(writer.out) == 1
        writer.write()
        writer.close()
        writer.check_closed()


def test_a_stopped_data_node(trio: Trio) -> None:
    """It answers nothing, and the others do: they go on without it."""
    fs = trio.hdfs.file_system({**CLIENT, **BEST_EFFORT})
    path = f"{trio.hdfs.root()}/stopped"
    out = begun_on_all(trio, fs, path)
    with trio.node.paused():
        out.write(dataset(1000))
        out.hflush()
        assert found(out) == 1
        name = f"DataNode 127.0.0.1:{trio.node.port} "
        (failure,) = (e.what for e in out.history() if e.what.startswith(name))
        assert "did not answer getReplicaVisibleLength" in failure
        out.close()
        assert trio.hdfs.java.read(path) == 2 * dataset(1000)
    fs.close()


def test_a_stopped_data_node_without_which_the_stream_would_fail(trio: Trio) -> None:
    """There is no other one: it is waited for, and takes its place again."""
    fs = trio.hdfs.file_system(CLIENT)
    path = f"{trio.hdfs.root()}/awaited"
    out = begun_on_all(trio, fs, path)
    with trio.node.paused():
        out.write(dataset(1000))
        flushing = Task(out.hflush)
        wait_until(
            lambda: any("pausing" in event.what for event in out.history()), "it is waited for"
        )
        assert found(out) >= 1
    flushing.result(DEADLINE_S)
    assert trio.node.port in trio.hdfs.pipeline(path)
    out.close()
    assert trio.hdfs.java.read(path) == 2 * dataset(1000)
    fs.close()
