"""What the benchmarks of HDFS's faults run on, and how they do harm to it.

`data_nodes` is a NameNode and six DataNodes, each in a process of its own, so that one can be
killed as `kill -9` does: its sockets end, its port refuses, and no code of its own runs any more.
`links` is one JVM with four DataNodes that reach one another through proxies, the clients directly.
`ha_pair` is one JVM with two NameNodes and three DataNodes, whose daemons restart for an upgrade or
take over from one another. Both clients have the settings of SETTINGS and Hadoop's defaults.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hdfs_cluster import (
    JAVA,
    JAVA_SETTINGS,
    OURS,
    SERVER_OPTIONS,
    Child,
    HdfsBench,
    in_memory,
)
from minidfs import Jvm, MiniCluster
from support.data_node_proxies import Gate
from support.hdfs_writers import Cluster, running_behind_proxies
from support.lone_data_node import LoneDataNode
from support.minidfs import Hdfs, known_ports
from support.waiting import wait_until

ON_FAILURE = "dfs.client.block.write.replace-datanode-on-failure"
# As small clusters are run: where no DataNode is left to come in, the others go on.
SETTINGS = {**JAVA_SETTINGS, f"{ON_FAILURE}.best-effort": "true"}
# A thousand streams are three threads each in a DataNode while they are set up again.
NODE_SETTINGS = {"dfs.datanode.max.transfer.threads": "16384"}
# A DataNode that had a thousand streams a moment ago takes new ones, too.
NAME_NODE_SETTINGS = {"dfs.namenode.redundancy.considerLoad": "false"}
NODES = 6
PIPELINE = 3
AT_ONCE = 2  # JVMs that start; there are two cores
WAIT_S = 60.0
# No NameNode is active between the two steps of a failover, which an operator's command, or a
# controller, takes one after the other.
HANDOVER_S = 0.2
RECORD = 1024
CLIENTS = (OURS, JAVA)


class DataNodes:
    """A NameNode with DataNodes in processes of their own, and the clients on them.

    A DataNode that is down is dead to the NameNode, too. Used by one thread.
    """

    def __init__(self, hdfs: Hdfs, nodes: Sequence[LoneDataNode]) -> None:
        self._hdfs = hdfs
        self._nodes = {node.port: node for node in nodes}
        self.clients = HdfsBench(hdfs.cluster, SETTINGS)

    def warm_up(self) -> None:
        for name in CLIENTS:
            for _ in range(2):
                self.clients.order(name, "sync", PIPELINE, 2000, RECORD, "hflush")
                self.clients.order(name, "files", PIPELINE, 100, 4)

    @property
    def up(self) -> list[int]:
        """The ports of those that run."""
        return [port for port, node in self._nodes.items() if node.alive]

    def keep(self, fewest: int, most: int = NODES) -> None:
        """Start those that are down if fewer than `fewest` run, and end what runs beyond `most`."""
        for port in self.up[most:]:
            self.kill(port)
            self.declare_dead(port)
        down = [node for node in self._nodes.values() if not node.alive]
        missing = len(self._nodes) - len(down) < fewest
        if not missing:
            return
        wanted = down[: most - len(self.up)]
        with ThreadPoolExecutor(AT_ONCE) as starting:
            list(starting.map(LoneDataNode.restart, wanted))
        names = self._hdfs.name_node.getNamesystem()
        wait_until(
            lambda: known_ports(names) >= set(self.up),
            "the NameNode knows the disks of those that are up",
            WAIT_S,
        )
        # Their code is cold, as that of nodes that run for days is not.
        self.clients.order(OURS, "files", len(self.up), 50, 1)

    def kill(self, port: int) -> float:
        """As `kill -9` does; return when, on the machine's monotonic clock."""
        at = time.monotonic()
        self._nodes[port].kill()
        return at

    @contextmanager
    def killed(self, port: int) -> Iterator[None]:
        """Kill a DataNode; the NameNode learns of it in the end."""
        self.kill(port)
        yield
        self.declare_dead(port)

    @contextmanager
    def paused(self, port: int) -> Iterator[None]:
        with self._nodes[port].paused():
            yield

    def declare_dead(self, port: int) -> None:
        """What the NameNode would find out after ten minutes."""
        hadoop = self._hdfs.jvm.java.org.apache.hadoop
        manager = self._hdfs.name_node.getNamesystem().getBlockManager()
        node = manager.getDatanodeManager().getDatanodeByXferAddr("127.0.0.1", port)
        hadoop.hdfs.DFSTestUtil.setDatanodeDead(node)
        hadoop.hdfs.server.blockmanagement.BlockManagerTestUtil.checkHeartbeat(manager)

    def pipeline(self, path: str) -> list[int]:
        """The ports of the DataNodes that a file's last block is written to, in their order."""
        directory = self._hdfs.name_node.getNamesystem().getFSDirectory()
        block = directory.getINode(path).asFile().getLastBlock()
        storages = block.getUnderConstructionFeature().getExpectedStorageLocations()
        return [int(storage.getDatanodeDescriptor().getXferPort()) for storage in storages]

    def delete(self, path: str) -> None:
        self._hdfs.java.fs.delete(self._hdfs.java.path(path), True)

    @contextmanager
    def more_clients(self, settings: Mapping[str, str]) -> Iterator[HdfsBench]:
        """Clients with further settings."""
        bench = HdfsBench(self._hdfs.cluster, {**SETTINGS, **settings})
        try:
            yield bench
        finally:
            bench.stop()

    def stop(self) -> None:
        self.clients.stop()


def unread_bytes(port: int) -> int:
    """What has arrived at this port of 127.0.0.1 and was not read yet."""
    total = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, _, queues, *_ = line.split()
        if int(local.partition(":")[2], 16) == port:
            total += int(queues.partition(":")[2], 16)
    return total


class Links:
    """DataNodes behind proxies, and the clients on them, which have none. Used by one thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._proxies = cluster.proxies
        self.clients = HdfsBench(cluster.hdfs.cluster, SETTINGS)

    @contextmanager
    def of(self, path: str, child: Child) -> Iterator[Gate]:
        """The links between the DataNodes that this client's next pipelines have."""
        gate = Gate()
        child.order("hold", f"{path}-known", 1, RECORD, PIPELINE)
        self._proxies.join(f"{path}-known/0", gate)
        child.order("release")
        try:
            yield gate
        finally:
            gate.open()


@pytest.fixture(scope="module")
def links() -> Iterator[Links]:
    with (
        Jvm(SERVER_OPTIONS, place=in_memory()) as jvm,
        running_behind_proxies(jvm, PIPELINE + 1) as cluster,
    ):
        links = Links(cluster)
        try:
            yield links
        finally:
            links.clients.stop()


class HaPair:
    """Two NameNodes and three DataNodes in a JVM, and the clients on them. Used by one thread."""

    def __init__(self, cluster: MiniCluster) -> None:
        self._cluster = cluster
        self._active = 0

    @contextmanager
    def clients(self, settings: Mapping[str, str]) -> Iterator[HdfsBench]:
        """Clients that have worked on files before."""
        bench = HdfsBench(self._cluster, {**self._cluster.conf, **SETTINGS, **settings})
        try:
            for name in CLIENTS:
                bench.order(name, "group", PIPELINE, 16, 60, RECORD)
            yield bench
        finally:
            bench.stop()

    def upgrade(self, after_each: Callable[[], object]) -> None:
        """Restart each DataNode for an upgrade, one after the other."""
        for port in self._cluster.transfer_ports():
            index = self._cluster.transfer_ports().index(port)
            stopped = self._cluster.java.stopDataNodeForUpgrade(index)
            self._cluster.restart_data_node(stopped)
            after_each()

    def fail_over(self) -> None:
        """Have the other NameNode take over, some time after the active one has stepped back."""
        self._cluster.java.transitionToStandby(self._active)
        time.sleep(HANDOVER_S)
        self._active = 1 - self._active
        self._cluster.java.transitionToActive(self._active)


@pytest.fixture(scope="module")
def data_nodes() -> Iterator[DataNodes]:
    with ExitStack() as stack:
        place = in_memory()
        jvm = stack.enter_context(Jvm(SERVER_OPTIONS, place=place))
        cluster = stack.enter_context(MiniCluster.start(0, jvm=jvm, settings=NAME_NODE_SETTINGS))
        hdfs = Hdfs(cluster)
        data = Path(tempfile.mkdtemp(prefix="nodes-", dir=place))
        stack.callback(shutil.rmtree, data, ignore_errors=True)

        def started(number: int) -> LoneDataNode:
            node = LoneDataNode(hdfs, data / str(number), NODE_SETTINGS)
            stack.callback(node.stop)
            return node

        with ThreadPoolExecutor(AT_ONCE) as starting:
            nodes = list(starting.map(started, range(NODES)))
        wait_until(lambda: _live(hdfs) == NODES, f"{NODES} DataNodes", WAIT_S)
        bench = DataNodes(hdfs, nodes)
        stack.callback(bench.stop)
        bench.warm_up()
        yield bench


def _live(hdfs: Hdfs) -> int:
    manager: Any = hdfs.name_node.getNamesystem().getBlockManager().getDatanodeManager()
    return int(manager.getNumLiveDataNodes())


@pytest.fixture(scope="module")
def ha_pair() -> Iterator[HaPair]:
    with Jvm(SERVER_OPTIONS) as jvm, MiniCluster.start(3, name_nodes=2, jvm=jvm) as cluster:
        yield HaPair(cluster)
