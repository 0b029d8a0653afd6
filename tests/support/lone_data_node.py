"""A DataNode in a process of its own, beside those of a MiniDFSCluster: to be killed or paused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from minidfs import Jvm
from minidfs.ports import lasting_ports

from support.minidfs import Hdfs
from support.process import connections
from support.waiting import wait_until


class LoneDataNode:
    """A DataNode of a cluster's NameNode, on ports that a restart does not change."""

    def __init__(
        self, hdfs: Hdfs, directory: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        self._hdfs = hdfs
        self._directory = directory
        self._settings = dict(settings or {})
        self.port, self._rpc_port = lasting_ports(2)
        self._jvm = self._started()

    def _started(self) -> Jvm:
        jvm = Jvm()
        settings = {
            "fs.defaultFS": self._hdfs.url,
            "dfs.datanode.data.dir": f"{self._directory}/data",
            "dfs.datanode.address": f"127.0.0.1:{self.port}",
            "dfs.datanode.ipc.address": f"127.0.0.1:{self._rpc_port}",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.heartbeat.interval": "1",
            **self._settings,
        }
        node = jvm.java.org.apache.hadoop.hdfs.server.datanode.DataNode
        self.node = node.createDataNode(jvm.strings(), jvm.configuration(settings))
        wait_until(self.node.isDatanodeFullyStarted, "the DataNode has registered")
        return jvm

    @property
    def alive(self) -> bool:
        return self._jvm.process.poll() is None

    def kill(self) -> None:
        """End the process at once, as SIGKILL does."""
        self._jvm.process.kill()
        self._jvm.process.wait()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the process where it is, as SIGSTOP does."""
        self._jvm.pause()
        try:
            yield
        finally:
            self._jvm.resume()

    def restart(self) -> None:
        """Start it again, with its replicas and ports."""
        self.stop()
        self._jvm = self._started()

    def stop(self) -> None:
        with suppress(OSError):
            self._jvm.stop()

    @property
    def is_connected(self) -> bool:
        """Whether this process has a connection to its data transfer."""
        return bool(connections([self.port]))


@contextmanager
def running(hdfs: Hdfs, directory: Path) -> Iterator[LoneDataNode]:
    """A DataNode that ends with the block."""
    node = LoneDataNode(hdfs, directory)
    try:
        yield node
    finally:
        node.stop()
