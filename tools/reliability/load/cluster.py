"""A cluster, and a function for each kind of event. Owned by one thread.

Some DataNodes are in the JVM of a MiniDFSCluster, others are processes. An event that lasts returns
what ends it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from support.lone_data_node import LoneDataNode
from support.minidfs import Hdfs
from support.waiting import Task

from reliability.load.judge import Fault
from reliability.load.schedule import Event, Shape

SOCKET_TIMEOUT = "10000"
# A DataNode that ends is dead for the NameNode after 12 s, and not after ten minutes.
SETTINGS = {
    "dfs.namenode.heartbeat.recheck-interval": "1000",
    "dfs.namenode.lease-recheck-interval-ms": "200",
    "dfs.client.socket-timeout": SOCKET_TIMEOUT,  # of DataNodes among each other, too
}
CLIENT_SETTINGS = {
    "dfs.client.block.write.replace-datanode-on-failure.best-effort": "true",
    "dfs.client.socket-timeout": SOCKET_TIMEOUT,
    # Longer, and DataNodes that are back would be left out of a cluster that has few.
    "dfs.client.write.exclude.nodes.cache.expiry.interval.millis": "5000",
}
RETRIES = {"dfs.client.retry.policy.enabled": "true"}  # Java's client: a NameNode that restarts
# The events ask a NameNode that may be in safe mode until DataNodes are back: not patiently.
NO_RETRIES = {"dfs.client.retry.max.attempts": "1", "dfs.client.failover.max.attempts": "3"}
OUTAGE_S = 0.5
# Until the NameNode offers a DataNode that is back, and its replicas, also on a loaded machine.
REPORTED_S = 5.0
POLL_S = 0.2
SLOW_MS = (50, 400)
START_S = 120.0
ALL = 1 << 62

Ending = Callable[[], None]


class LoadCluster:
    """A cluster of a shape. DataNodes are numbers from 0, those in processes last."""

    def __init__(self, hdfs: Hdfs, processes: Sequence[LoneDataNode], shape: Shape) -> None:
        self.hdfs = hdfs
        self.ports = [*hdfs.ports, *(node.port for node in processes)]
        self.java = hdfs.java_with(RETRIES)
        self._asking = hdfs.java_with(NO_RETRIES)
        self.faults: list[Fault] = []
        self._processes = {
            number: node
            for number, node in enumerate(processes, start=shape.nodes - shape.processes)
        }
        self._active = 0
        self.corrupted: dict[int, str] = {}  # by block: where
        self.hdfs.quicken_recoveries()

    def settings(self) -> dict[str, str]:
        """What a client needs."""
        return {**self.hdfs.cluster.conf, **CLIENT_SETTINGS}

    # --- events ---

    def stop(self, event: Event) -> Ending:
        """End a DataNode; start it again."""
        fault = self._begins(event)
        stopped = self.hdfs.cluster.stop_data_node(self.ports[event.node])

        def start() -> None:
            self.hdfs.cluster.restart_data_node(stopped)
            self._ends(fault)

        return start

    def restart(self, event: Event) -> None:
        """The same, at once."""
        self.stop(event)()

    def upgrade(self, event: Event) -> None:
        """Restart a DataNode that says so to its writers."""
        fault = self._begins(event)
        index = self.hdfs.ports.index(self.ports[event.node])
        stopped = self.hdfs.cluster.java.stopDataNodeForUpgrade(index)
        self.hdfs.cluster.restart_data_node(stopped)
        self._ends(fault)

    def full(self, event: Event) -> Ending:
        """Leave no room for new blocks on a DataNode's disks."""
        fault = self._begins(event)
        node = self.hdfs.node(self.ports[event.node])
        _set_capacity(node, 0)

        def make_room() -> None:
            _set_capacity(node, -1)
            self._ends(fault)

        return make_room

    def slow(self, event: Event) -> Ending:
        """Have the DataNodes of the JVM delay their acknowledgements."""
        least, most = SLOW_MS
        stack = ExitStack()
        stack.enter_context(self.hdfs.acks_delayed(least + event.pick % (most - least)))
        return stack.close

    def corrupt(self, event: Event, paths: Sequence[str]) -> None:
        """Change a bit of a replica of each file that has a complete block with two of them."""
        for path in paths:
            try:
                located = self._located(path).getLocatedBlocks()
            except Py4JError:  # the NameNode is not ready
                continue
            complete = list(located)[:-1]
            blocks = [
                block
                for block in complete
                if int(block.getBlock().getBlockId()) not in self.corrupted
            ]
            if blocks:
                self._corrupt_one(blocks[event.pick % len(blocks)], event.pick)

    def _corrupt_one(self, located: Any, pick: int) -> None:
        block = located.getBlock()
        holders = [int(node.getXferPort()) for node in located.getLocations()]
        reachable = [port for port in holders if port in self.hdfs.ports]
        if len(holders) < 2 or not reachable or located.isCorrupt():
            return
        port, at = reachable[pick % len(reachable)], pick % int(block.getNumBytes())
        try:
            self.hdfs.corrupt(port, block, at=at)
        except (OSError, Py4JError, AttributeError):  # the replica has just been moved
            return
        self.corrupted[int(block.getBlockId())] = f"at {at} on {port} of {holders}"

    def kill(self, event: Event) -> Ending:
        """SIGKILL; the process is started again beside what follows."""
        fault = self._begins(event)
        node = self._processes[event.node]
        node.kill()
        starting = Task(node.restart)

        def wait() -> None:
            starting.result(START_S)
            self._ends(fault)

        return wait

    def pause(self, event: Event) -> Ending:
        """SIGSTOP and SIGCONT."""
        fault = self._begins(event)
        stack = ExitStack()
        stack.enter_context(self._processes[event.node].paused())

        def go_on() -> None:
            stack.close()
            self._ends(fault)

        return go_on

    hang = pause

    def fail_over(self) -> None:
        """Make the other NameNode the active one."""
        active, self._active = self._active, 1 - self._active
        self.hdfs.cluster.fail_over(active, self._active)

    def kill_name_node(self) -> None:
        """End the active NameNode; some time later the other one becomes active."""
        ended, self._active = self._active, 1 - self._active
        self.hdfs.cluster.stop_name_node(ended)
        threading.Event().wait(OUTAGE_S)
        self.hdfs.cluster.java.transitionToActive(self._active)
        self.hdfs.cluster.restart_name_node(ended, wait=False)
        self.hdfs.quicken_recoveries()

    def restart_name_node(self) -> None:
        """Restart the only NameNode, which begins in safe mode."""
        self.hdfs.cluster.restart_name_node(0, wait=False)
        self.hdfs.quicken_recoveries()

    # --- what is there ---

    def nodes_to_write_to(self, path: str) -> tuple[int, ...]:
        """Return the DataNodes of a file's last block, or all if that block is complete."""
        located = self._located(path)
        last = located.getLastLocatedBlock()
        if last is None or located.isLastBlockComplete():
            return tuple(range(len(self.ports)))
        ports = [int(node.getXferPort()) for node in last.getLocations()]
        return tuple(sorted(self.ports.index(port) for port in ports))

    def close_file(self, path: str, deadline_s: float) -> None:
        """Recover the lease of a file without a writer; return when it is closed."""
        fs, name = self.java.fs, self.java.path(path)
        end = time.monotonic() + deadline_s
        while not fs.recoverLease(name):
            if time.monotonic() > end:
                raise TimeoutError(f"{path} is not closed within {deadline_s:.0f} s")
            time.sleep(POLL_S)

    def read(self, path: str, deadline_s: float) -> tuple[bytes, str]:
        """Read a file with Java's client, as far as it can in the end; and what stopped it.

        DataNodes that have just come back may not have reported all their replicas yet.
        """
        end = time.monotonic() + deadline_s
        while True:
            data, why = self._read(path)
            if not why or time.monotonic() > end:
                return data, why
            time.sleep(POLL_S)

    def blocks(self, path: str) -> str:
        """Return the blocks of a file, where they are, and what was corrupted."""
        found = []
        try:
            all_located = self._located(path).getLocatedBlocks()
        except Py4JError as error:
            return str(error)
        for located in all_located:
            block = located.getBlock()
            ports = [int(node.getXferPort()) for node in located.getLocations()]
            corrupted = self.corrupted.get(int(block.getBlockId()), "")
            found.append(f"{block.getBlockName()} {located.getStartOffset()} {ports} {corrupted}")
        return "; ".join(found)

    def _read(self, path: str) -> tuple[bytes, str]:
        copy = self.hdfs.jvm.directory / "copy"
        out = self.hdfs.jvm.java.java.io.FileOutputStream(str(copy))
        why = ""
        try:
            utilities = self.hdfs.jvm.java.org.apache.hadoop.io.IOUtils
            utilities.copyBytes(self.java.fs.open(self.java.path(path)), out, 1 << 16, True)
        except Py4JError as error:
            why = " ".join(str(getattr(error, "java_exception", error)).split())
        finally:
            out.close()
        return copy.read_bytes(), why

    def story(self) -> str:
        """Return what happened to the DataNodes, for people."""
        return ", ".join(
            f"{fault.kind} {fault.node} ({self.ports[fault.node]}) {fault.begins}..{fault.ends}"
            for fault in self.faults
        )

    def close(self) -> None:
        self.java.close()
        self._asking.close()

    def _located(self, path: str) -> Any:
        return self._asking.fs.getClient().getLocatedBlocks(path, 0, ALL)

    def _begins(self, event: Event) -> Fault:
        fault = Fault(event.node, event.kind, time.monotonic_ns())
        self.faults.append(fault)
        return fault

    def _ends(self, fault: Fault) -> None:
        ended = replace(fault, ends=time.monotonic_ns() + int(REPORTED_S * 1e9))
        self.faults[self.faults.index(fault)] = ended


def _set_capacity(node: Any, capacity: int) -> None:
    volumes = node.getFSDataset().getFsVolumeReferences()
    try:
        for index in range(volumes.size()):
            volumes.get(index).setCapacityForTesting(capacity)
    finally:
        volumes.close()


@contextmanager
def running(shape: Shape, start: Callable[..., Hdfs], directory: Path) -> Iterator[LoadCluster]:
    """Start a cluster of a shape.

    Parameters
    ----------
    start
        Starts the part in the JVM, with so many DataNodes, settings, and `name_nodes`.
    directory
        Where the DataNodes that are processes keep their replicas.
    """
    hdfs = start(shape.nodes - shape.processes, SETTINGS, name_nodes=shape.name_nodes)
    settings: Mapping[str, str] = {**hdfs.cluster.conf, **SETTINGS}
    with ExitStack() as stack:
        starting = [
            Task(LoneDataNode, hdfs, directory / f"node{number}", settings)
            for number in range(shape.processes)
        ]
        processes = [task.result(START_S) for task in starting]
        for node in processes:
            stack.callback(node.stop)
        cluster = LoadCluster(hdfs, processes, shape)
        stack.callback(cluster.close)
        yield cluster
