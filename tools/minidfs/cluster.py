"""A MiniDFSCluster: NameNodes and DataNodes in one JVM."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from py4j.protocol import Py4JJavaError

from minidfs.jvm import Jvm
from minidfs.ports import lasting_ports

if TYPE_CHECKING:
    from typing_extensions import Self

# What makes a cluster react within a second instead of minutes.
FAST = {
    "dfs.namenode.fs-limits.min-block-size": "0",
    "dfs.heartbeat.interval": "1",
    "dfs.namenode.redundancy.interval.seconds": "1",
    "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "10",
    "dfs.ha.tail-edits.period": "1",
}
NAMESERVICE = "minidfs"
RETRY_S = 5.0
START_S = 60.0

T = TypeVar("T")


class MiniCluster:
    """A running cluster. Owned by one thread at a time; ended by `stop` or a `with` block.

    url     hdfs://127.0.0.1:PORT, or hdfs://minidfs with several NameNodes
    conf    what a client's configuration must say: the nameservice, or nothing
    jvm     its JVM (minidfs.jvm.Jvm)
    java    its MiniDFSCluster, for whatever has no method here
    """

    def __init__(self, jvm: Jvm, java: Any, name_nodes: int, owns_jvm: bool) -> None:
        self.jvm = jvm
        self.java = java
        self._name_nodes = name_nodes
        self._owns_jvm = owns_jvm

    @classmethod
    def start(
        cls,
        datanodes: int = 3,
        *,
        name_nodes: int = 1,
        settings: Mapping[str, object] | None = None,
        jvm: Jvm | None = None,
        **builder: Any,
    ) -> MiniCluster:
        """Start a cluster and wait until it takes files.

        Parameters
        ----------
        datanodes : int
            How many DataNodes.
        name_nodes : int
            How many NameNodes; of several, the first is made the active one.
        settings : mapping
            Keys of hdfs-site.xml, over those of `FAST`.
        jvm : Jvm
            Where to run; without one, a JVM is started that stops with the cluster.
        **builder
            Other settings of MiniDFSCluster.Builder: racks, storagesPerDatanode, …
        """
        running = jvm or Jvm()
        try:
            java = _build(running, datanodes, name_nodes, settings or {}, builder)
        except BaseException:
            if jvm is None:
                running.stop()
            raise
        return cls(running, java, name_nodes, owns_jvm=jvm is None)

    @property
    def url(self) -> str:
        if self._name_nodes > 1:
            return f"hdfs://{NAMESERVICE}"
        return f"hdfs://127.0.0.1:{self.name_node_port()}"

    @property
    def conf(self) -> dict[str, str]:
        if self._name_nodes == 1:
            return {}
        names = [f"nn{index}" for index in range(self._name_nodes)]
        provider = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        return {
            "dfs.nameservices": NAMESERVICE,
            f"dfs.ha.namenodes.{NAMESERVICE}": ",".join(names),
            f"dfs.client.failover.proxy.provider.{NAMESERVICE}": provider,
            **{
                f"dfs.namenode.rpc-address.{NAMESERVICE}.{name}": f"127.0.0.1:{port}"
                for name, port in zip(names, self.name_node_ports(), strict=True)
            },
        }

    def name_node_port(self, index: int = 0) -> int:
        return int(self.java.getNameNodePort(index))

    def name_node_ports(self) -> list[int]:
        return [self.name_node_port(index) for index in range(self._name_nodes)]

    def file_system(self, settings: Mapping[str, str] | None = None) -> Any:
        """Java's DistributedFileSystem on this cluster, an instance of its own."""
        hadoop = self.jvm.java.org.apache.hadoop
        configuration = self.jvm.configuration({**self.conf, **(settings or {})})
        return hadoop.fs.FileSystem.newInstance(self.jvm.java.java.net.URI(self.url), configuration)

    # --- DataNodes: identified by their transfer port, which a restart keeps ---

    def data_nodes(self) -> list[Any]:
        return list(self.java.getDataNodes())

    def transfer_ports(self) -> list[int]:
        return [int(node.getXferPort()) for node in self.data_nodes()]

    def stop_data_node(self, port: int) -> Any:
        """Stop one at once; return what `restart_data_node` needs."""
        return self.java.stopDataNode(self.transfer_ports().index(port))

    def restart_data_node(self, stopped: Any) -> None:
        """Start one again on its port, and wait until it has registered with the NameNode."""
        # For an upgrade it has only begun to stop, and locks its storage until it has.
        node = stopped.getDatanode()
        _wait_until(lambda: not node.isDatanodeUp(), "a DataNode has not stopped")
        _while_binding(lambda: self.java.restartDataNode(stopped, True))
        # Not waitActive(): it counts the nodes that are still stopped, too.
        _wait_until(
            lambda: all(node.isDatanodeFullyStarted() for node in self.data_nodes()),
            "a DataNode has not registered",
        )

    # --- NameNodes ---

    def stop_name_node(self, index: int = 0) -> None:
        """Stop one at once: clients see the end of their connections."""
        self.java.shutdownNameNode(index)

    def restart_name_node(self, index: int = 0, *, wait: bool = True) -> None:
        """Start one (stopped or not) again on its port, and wait until it takes files."""
        self.java.restartNameNode(index, wait, self.jvm.strings())

    def fail_over(self, source: int, target: int) -> None:
        """Make the active NameNode a standby and another one active."""
        self.java.transitionToStandby(source)
        self.java.transitionToActive(target)

    def stop(self) -> None:
        """End the daemons, and the JVM if it was started for them."""
        try:
            self.java.shutdown(True, False)
        finally:
            if self._owns_jvm:
                self.jvm.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def _build(
    jvm: Jvm, datanodes: int, name_nodes: int, settings: Mapping[str, object], extra: dict[str, Any]
) -> Any:
    hdfs = jvm.java.org.apache.hadoop.hdfs
    given = {key: str(value) for key, value in settings.items()}
    base = jvm.directory / f"cluster{time.monotonic_ns()}"
    configuration = jvm.configuration({**FAST, **given, "hdfs.minidfs.basedir": str(base)})
    builder = hdfs.MiniDFSCluster.Builder(configuration).numDataNodes(datanodes)
    builder = builder.nnTopology(_topology(hdfs, name_nodes)).checkDataNodeAddrConfig(True)
    addresses = [_addresses_of_data_node(jvm) for _ in range(datanodes)]
    builder = builder.dataNodeConfOverlays(
        jvm.array(jvm.java.org.apache.hadoop.conf.Configuration, *addresses)
    )
    for method, argument in extra.items():
        builder = getattr(builder, method)(argument)
    cluster = builder.build()
    cluster.waitActive()
    if name_nodes > 1:
        cluster.transitionToActive(0)
    return cluster


def _topology(hdfs: Any, name_nodes: int) -> Any:
    """One nameservice; each NameNode has ports that it finds free whenever it starts again."""
    service = hdfs.MiniDFSNNTopology.NSConf(NAMESERVICE if name_nodes > 1 else None)
    for index in range(name_nodes):
        rpc, http = lasting_ports(2)
        name_node = hdfs.MiniDFSNNTopology.NNConf(f"nn{index}" if name_nodes > 1 else None)
        service.addNN(name_node.setIpcPort(rpc).setHttpPort(http))
    return hdfs.MiniDFSNNTopology().addNameservice(service)


def _addresses_of_data_node(jvm: Jvm) -> Any:
    configuration = jvm.java.org.apache.hadoop.conf.Configuration(False)
    services = ("address", "ipc.address", "http.address")
    for service, port in zip(services, lasting_ports(3), strict=True):
        configuration.set(f"dfs.datanode.{service}", f"127.0.0.1:{port}")
    return configuration


def _wait_until(predicate: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + START_S
    while not predicate():
        if time.monotonic() > end:
            raise TimeoutError(f"{otherwise} within {START_S:.0f} s")
        time.sleep(0.01)


def _while_binding(start: Callable[[], T]) -> T:
    """Start a daemon on a port that its predecessor may not have left yet."""
    end = time.monotonic() + RETRY_S
    while True:
        try:
            return start()
        except Py4JJavaError as error:
            binding = "BindException" in str(error.java_exception)
            if not binding or time.monotonic() > end:
                raise
        time.sleep(0.05)
