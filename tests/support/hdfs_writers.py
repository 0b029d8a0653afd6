"""Writers behind the proxies of DataNodes: what they wrote, and what of it was acknowledged."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from minidfs import Jvm

from support.data import dataset
from support.data_node_proxies import SETTINGS, Client, DataNodeProxies, Gate
from support.minidfs import Hdfs, running

SIZE = 20_000  # of a write; a packet
# Java asks a DataNode that is gone for the length of the last block, for ten seconds; and so do
# DataNodes that recover a block: the calls between them have no proxy.
JAVA = {"ipc.client.connect.max.retries": "0"}


class Cluster:
    """DataNodes behind proxies."""

    def __init__(self, hdfs: Hdfs, proxies: DataNodeProxies) -> None:
        self.hdfs = hdfs
        self.proxies = proxies
        self.root = hdfs.root()
        self._java = threading.Lock()
        self._reader = hdfs.java_with(JAVA)

    def close(self) -> None:
        self._reader.close()

    def read(self, path: str) -> bytes:
        with self._java:
            return self._reader.read(path)

    def create(self, client: Client, path: str, **options: Any) -> Any:
        with self._java:
            return client.create(path, **options)


@contextmanager
def running_behind_proxies(
    jvm: Jvm, nodes: int, settings: dict[str, object] | None = None
) -> Iterator[Cluster]:
    all_settings = {**SETTINGS, **JAVA, "dfs.replication": 3, **(settings or {})}
    with (
        running(jvm, nodes, settings=all_settings, checkDataNodeHostConfig=True) as hdfs,
        DataNodeProxies(hdfs) as proxies,
    ):
        cluster = Cluster(hdfs, proxies)
        try:
            yield cluster
        finally:
            cluster.close()


class Writer:
    """A stream, what was written to it, and how much of that is acknowledged."""

    def __init__(self, cluster: Cluster, gate: Gate, path: str, out: Any) -> None:
        self.gate = gate
        self.path = path
        self.out = out
        self.closed = False
        self._cluster = cluster
        self._written = b""
        self._acknowledged = 0

    def write(self) -> None:
        data = dataset(SIZE, len(self._written) // SIZE)
        self._written += data
        self.out.write(data)

    def flush(self) -> None:
        self.write()
        size = len(self._written)
        self.out.hflush()
        self._acknowledged = size

    def sync(self) -> None:
        self.write()
        size = len(self._written)
        self.out.hsync()
        self._acknowledged = size

    def close(self) -> None:
        self.out.close()
        self.closed = True

    def check_acknowledged(self) -> None:
        """Java reads what was acknowledged, and nothing that was not written."""
        if self._acknowledged == 0:
            return
        content = self._cluster.read(self.path)
        said = f"{len(content)} bytes of {self._acknowledged} that were acknowledged: {self.path}"
        assert len(content) >= self._acknowledged, said
        assert content == self._written[: len(content)]

    def check_closed(self) -> None:
        assert self._cluster.read(self.path) == self._written

    @property
    def counters(self) -> dict[str, int]:
        return dict(self.out.io_statistics().counters)

    def failures(self, port: int) -> list[str]:
        """What the history has of a DataNode's failures."""
        name = f"DataNode 127.0.0.1:{port} (number "
        return [event.what for event in self.out.history() if event.what.startswith(name)]
