"""HDFS under test: the clusters of a session, what Java sees in them, and ways to disturb them.

    hdfs_cluster     three DataNodes; shared by all tests that leave it as they found it
    hdfs_ha          two NameNodes, of which the first is active when a test begins
    hdfs_new         makes clusters of a test's own, in the same JVM: hdfs_new(datanodes, settings)

All three are of class Hdfs. The JVM and the clusters start when the first test needs them. Python
calls DataNodes by the port of their data transfer, which a restart does not change.
"""

from __future__ import annotations

import math
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import hflush
import pytest
from minidfs import Jvm, MiniCluster
from py4j.protocol import Py4JJavaError

from support.waiting import wait_until

if TYPE_CHECKING:
    from typing_extensions import Self

SETTINGS: dict[str, object] = {
    "dfs.namenode.lease-recheck-interval-ms": 200,
    # A copy of a replica that was sent to a node which has just stopped is sent anew, soon.
    "dfs.namenode.reconstruction.pending.timeout-sec": 5,
    "dfs.namenode.replication.work.multiplier.per.iteration": 100,
    "dfs.namenode.replication.max-streams": 100,
    "dfs.namenode.replication.max-streams-hard-limit": 200,
}
BLOCK_RECOVERY_MS = 3000  # after which a recovery without an end begins anew; 30 s else
DEFAULT_SOFT_LIMIT_MS = 60_000
DEFAULT_HARD_LIMIT_MS = 1_200_000
UNCHANGED = (1 << 63) - 1  # of a quota
COPY_BYTES = 1 << 16
SMALL = 1 << 16  # what is larger goes through a file: py4j is slow
RECEIVED = r"Receiving one packet for block \S+:(\S+) seqno:\S+ header:(.*?)(?=\n\d\d:\d\d:)"


class JavaWriter:
    """One of Java's output streams on HDFS."""

    def __init__(self, jvm: Jvm, stream: Any) -> None:
        self._jvm = jvm
        self._stream = stream

    def write(self, data: bytes) -> None:
        if len(data) <= SMALL:
            self._stream.write(bytearray(data))
            return
        with tempfile.NamedTemporaryFile(dir=self._jvm.directory) as file:
            file.write(data)
            file.flush()
            source = self._jvm.java.java.io.FileInputStream(file.name)
            try:
                utilities = self._jvm.java.org.apache.hadoop.io.IOUtils
                utilities.copyBytes(source, self._stream, COPY_BYTES, False)
            finally:
                source.close()

    def hflush(self) -> None:
        self._stream.hflush()

    def hsync(self) -> None:
        self._stream.hsync()

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class JavaHdfs:
    """Java's DistributedFileSystem, called by Python's names. Paths are absolute names."""

    def __init__(self, cluster: MiniCluster, settings: Mapping[str, str]) -> None:
        self._jvm = cluster.jvm
        self.fs = cluster.file_system(settings)

    def path(self, path: str) -> Any:
        return self._jvm.java.org.apache.hadoop.fs.Path(path)

    def create(self, path: str) -> JavaWriter:
        return JavaWriter(self._jvm, self.fs.create(self.path(path), True))

    def append(self, path: str) -> JavaWriter:
        return JavaWriter(self._jvm, self.fs.append(self.path(path)))

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file."""
        with self.create(path) as out:
            out.write(data)

    def touch(self, path: str) -> None:
        self.fs.createNewFile(self.path(path))

    def reconnect(self) -> None:
        """Drop the connection to a NameNode that was restarted: the first call fails on it."""
        with suppress(Py4JJavaError):
            self.fs.exists(self.path("/"))

    def read(self, path: str) -> bytes:
        """A whole file through a new reader, its checksums verified."""
        with tempfile.NamedTemporaryFile(dir=self._jvm.directory) as file:
            copy = self._jvm.java.java.io.FileOutputStream(file.name)
            try:
                source = self.fs.open(self.path(path))
                utilities = self._jvm.java.org.apache.hadoop.io.IOUtils
                utilities.copyBytes(source, copy, COPY_BYTES, True)
            finally:
                copy.close()
            return file.read()

    def length(self, path: str) -> int:
        """How many bytes a new reader can have."""
        stream = self.fs.open(self.path(path))
        try:
            return int(stream.getVisibleLength())
        finally:
            stream.close()

    def status(self, path: str) -> Any:
        return self.fs.getFileStatus(self.path(path))

    def exists(self, path: str) -> bool:
        return bool(self.fs.exists(self.path(path)))

    def names(self, directory: str) -> list[str]:
        return sorted(s.getPath().getName() for s in self.fs.listStatus(self.path(directory)))

    def tree(self, directory: str) -> list[str]:
        """The names of everything below a directory, relative to it."""
        found = []
        for status in self.fs.listStatus(self.path(directory)):
            name = str(status.getPath().getName())
            found.append(name)
            if status.isDirectory():
                found += [f"{name}/{below}" for below in self.tree(f"{directory}/{name}")]
        return sorted(found)

    def mkdirs(self, path: str) -> None:
        assert self.fs.mkdirs(self.path(path))

    def delete(self, path: str) -> bool:
        return bool(self.fs.delete(self.path(path), True))

    def rename(self, source: str, destination: str) -> bool:
        return bool(self.fs.rename(self.path(source), self.path(destination)))

    def set_permission(self, path: str, mode: int) -> None:
        permission = self._jvm.java.org.apache.hadoop.fs.permission.FsPermission
        self.fs.setPermission(self.path(path), permission(f"{mode:04o}"))

    def permission(self, path: str) -> int:
        return int(self.fs.getFileStatus(self.path(path)).getPermission().toShort())

    def set_owner(self, path: str, owner: str, group: str) -> None:
        self.fs.setOwner(self.path(path), owner, group)

    def set_name_quota(self, path: str, names: int | None) -> None:
        """Files and directories, the directory itself among them; None: as many as you like."""
        self.fs.setQuota(self.path(path), -1 if names is None else names, UNCHANGED)

    def set_space_quota(self, path: str, space: int | None) -> None:
        """Bytes of all replicas; None: as many as you like."""
        self.fs.setQuota(self.path(path), UNCHANGED, -1 if space is None else space)

    def file_checksum(self, path: str) -> str:
        """As Java prints it: the algorithm and the sum."""
        return str(self.fs.getFileChecksum(self.path(path)).toString())

    def block_lengths(self, path: str) -> list[int]:
        return [int(location.getLength()) for location in self._locations(path)]

    def hosts(self, path: str) -> list[list[int]]:
        """The transfer ports that the NameNode lists for each block, sorted."""
        return [
            sorted(int(name.rpartition(":")[2]) for name in location.getNames())
            for location in self._locations(path)
        ]

    def close(self) -> None:
        self.fs.close()

    def _locations(self, path: str) -> list[Any]:
        return list(self.fs.getFileBlockLocations(self.path(path), 0, 1 << 62))


@dataclass
class LogExcerpt:
    """What was logged."""

    text: str = ""


class Packet(NamedTuple):
    """A packet that a DataNode received."""

    block: str
    offset: int  # in the block
    sequence_number: int
    length: int  # of its data
    is_last: bool  # of its block
    syncs: bool


class Hdfs:
    """A running cluster, and what a test does to it. Used by one thread at a time."""

    def __init__(self, cluster: MiniCluster) -> None:
        self.cluster = cluster
        self.jvm = cluster.jvm
        self.url = cluster.url
        self.conf: dict[str, Any] = dict(cluster.conf)
        self.java = JavaHdfs(cluster, {})
        self._roots = count()
        self._hadoop: Any = cluster.jvm.java.org.apache.hadoop

    def root(self) -> str:
        """A fresh, empty directory."""
        path = f"/test/{next(self._roots)}"
        self.java.mkdirs(path)
        return path

    def file_system(self, settings: Mapping[str, Any] | None = None) -> hflush.FileSystem:
        """Ours, an instance of its own."""
        return hflush.FileSystem.new_instance(self.url, {**self.conf, **(settings or {})})

    def java_with(self, settings: Mapping[str, str]) -> JavaHdfs:
        """Another of Java's file systems, with settings of its own."""
        return JavaHdfs(self.cluster, settings)

    @property
    def log(self) -> str:
        """What the daemons logged so far."""
        return self.jvm.log.read_text(errors="replace")

    # --- DataNodes ---

    @property
    def ports(self) -> list[int]:
        return self.cluster.transfer_ports()

    def node(self, port: int) -> Any:
        return self.cluster.data_nodes()[self.ports.index(port)]

    @contextmanager
    def stopped(self, port: int) -> Iterator[None]:
        """Stop one DataNode for a while."""
        stopped = self.cluster.stop_data_node(port)
        try:
            yield
        finally:
            self.restart(stopped)

    def restart(self, stopped: Any) -> None:
        """Start a DataNode again; return when the NameNodes write to it."""
        self.cluster.restart_data_node(stopped)
        self.wait_whole()

    def declare_dead(self, port: int) -> Any:
        """Stop a DataNode and let the NameNode know at once; return what a restart needs."""
        identity = self.node(port).getDatanodeId()
        stopped = self.cluster.stop_data_node(port)
        self.cluster.java.setDataNodeDead(identity)
        return stopped

    @contextmanager
    def taken_for_dead(self, *ports: int) -> Iterator[None]:
        """The NameNode gives these DataNodes to no one; they run all the same."""
        with self.heartbeats_withheld():
            for port in ports:
                self.cluster.java.setDataNodeDead(self.node(port).getDatanodeId())
            yield
        self.wait_whole()

    def fsync_counts(self) -> dict[int, int]:
        """FsyncCount of each DataNode: how many times it has put a block on its disk so far."""
        return {
            int(node.getXferPort()): self._metric(node.getMetrics().name(), "FsyncCount")
            for node in self.cluster.data_nodes()
        }

    @contextmanager
    def blocks_unreported(self, *ports: int) -> Iterator[None]:
        """Let these DataNodes, or all, not report that a block is finished.

        Without any report complete() answers "not yet".
        """
        utilities = self._hadoop.hdfs.server.datanode.DataNodeTestUtils
        nodes = [self.node(port) for port in ports or self.ports]
        for node in nodes:
            utilities.pauseIBR(node)
        try:
            yield
        finally:
            for node in nodes:
                utilities.resumeIBR(node)

    @contextmanager
    def injected(self, stub: Callable[[Any, Any], None]) -> Iterator[None]:
        """Have every DataNode of the JVM ask a mock where it can be made to fail.

        `stub(hadoop, mock)` says what it answers, with the packages of one thread: by that Mockito
        knows what is being stubbed. What is not stubbed does nothing, as without a mock.
        """
        with self.jvm.one_thread() as java:
            injector = java.org.apache.hadoop.hdfs.server.datanode.DataNodeFaultInjector
            real = injector.get()
            mock = java.org.apache.hadoop.shaded.org.mockito.Mockito.mock(real.getClass())
            stub(java.org.apache.hadoop, mock)
            injector.set(mock)  # once it is stubbed: DataNodes call it at any time
            try:
                yield
            finally:
                injector.set(real)

    def acks_delayed(self, milliseconds: int) -> AbstractContextManager[None]:
        """Have every DataNode of the JVM wait, for up to so long, before it sends an ack."""

        def stub(hadoop: Any, mock: Any) -> None:
            delay = hadoop.test.GenericTestUtils.SleepAnswer(milliseconds)
            anything = hadoop.shaded.org.mockito.ArgumentMatchers.anyString
            stubbed = hadoop.shaded.org.mockito.Mockito.doAnswer(delay).when(mock)
            stubbed.delaySendingAckToUpstream(anything())

        return self.injected(stub)

    @contextmanager
    def logging(self, logger: str) -> Iterator[LogExcerpt]:
        """Let a logger of org.apache.hadoop.hdfs write all it has.

        On leaving, the excerpt has what all loggers wrote meanwhile.
        """
        level = self.jvm.java.org.apache.log4j.Level
        manager = self.jvm.java.org.apache.log4j.LogManager
        chosen = manager.getLogger(f"org.apache.hadoop.hdfs.{logger}")
        before = chosen.getLevel()
        start = self.jvm.log.stat().st_size
        excerpt = LogExcerpt()
        chosen.setLevel(level.DEBUG)
        try:
            yield excerpt
        finally:
            chosen.setLevel(before)
            with self.jvm.log.open("rb") as log:
                log.seek(start)
                excerpt.text = log.read().decode(errors="replace")

    @contextmanager
    def packets(self) -> Iterator[list[Packet]]:
        """Have the DataNodes log each packet they receive; on leaving, the list has them.

        Heartbeats are not among them.
        """
        found: list[Packet] = []
        with self.logging("server.datanode.DataNode") as log:
            yield found
        found += _packets_in(log.text)

    # --- replicas ---

    def block(self, path: str, index: int = 0) -> Any:
        """The ExtendedBlock of a file, as the NameNode has it."""
        utilities = self._hadoop.hdfs.DFSTestUtil
        return utilities.getAllBlocks(self.java.fs, self.java.path(path)).get(index).getBlock()

    def pipeline(self, path: str) -> list[int]:
        """The transfer ports of the DataNodes that an open file's last block is written to.

        They are those that the NameNode knows, in the order of the pipeline.
        """
        utilities = self._hadoop.hdfs.DFSTestUtil
        blocks = utilities.getAllBlocks(self.java.fs, self.java.path(path))
        last = blocks.get(blocks.size() - 1).getBlock().getLocalBlock()
        stored = self.name_node.getNamesystem().getBlockManager().getStoredBlock(last)
        storages = stored.getUnderConstructionFeature().getExpectedStorageLocations()
        return [int(storage.getDatanodeDescriptor().getXferPort()) for storage in storages]

    @contextmanager
    def heartbeats_withheld(self) -> Iterator[None]:
        """Let no DataNode send heartbeats: none gets a command, such as to recover a block."""
        utilities = self._hadoop.hdfs.server.datanode.DataNodeTestUtils
        nodes = self.cluster.data_nodes()
        for node in nodes:
            utilities.setHeartbeatsDisabledForTests(node, True)
        try:
            yield
        finally:
            for node in nodes:
                utilities.setHeartbeatsDisabledForTests(node, False)

    def block_file(self, port: int, block: Any) -> Path:
        """Where a DataNode has its replica."""
        utilities = self._hadoop.hdfs.server.datanode.DataNodeTestUtils
        pool, number = block.getBlockPoolId(), block.getBlockId()
        replica = utilities.fetchReplicaInfo(self.node(port), pool, number)
        return Path(replica.getBlockURI().getPath())

    def corrupt(self, port: int, block: Any, at: int = 0) -> None:
        """Change a bit of one replica on its disk."""
        with self.block_file(port, block).open("r+b") as file:  # which may be being read
            file.seek(at)
            (byte,) = file.read(1)
            file.seek(at)
            file.write(bytes([byte ^ 1]))

    def drop_replica(self, port: int, block: Any) -> None:
        """Have a DataNode remove its replica, as after the balancer has moved it."""
        utilities = self._hadoop.hdfs.server.datanode.DataNodeTestUtils
        local = self.jvm.array(self._hadoop.hdfs.protocol.Block, block.getLocalBlock())
        utilities.getFSDataset(self.node(port)).invalidate(block.getBlockPoolId(), local)

    def corrupt_replicas(self, block: Any) -> int:
        """How many replicas of a block were reported to the NameNode as damaged."""
        manager = self.name_node.getNamesystem().getBlockManager()
        return int(manager.numCorruptReplicas(block.getLocalBlock()))

    def wait_replicated(self, path: str, replicas: int | None = None) -> None:
        """Return when the NameNode lists every replica of the file's blocks."""
        wanted = replicas or len(self.ports)
        wait_until(
            lambda: all(len(hosts) == wanted for hosts in self.java.hosts(path)),
            f"{wanted} replicas of {path}",
        )

    def quicken_recoveries(self) -> None:
        """Have the NameNodes repeat a recovery of a block that got lost soon."""
        for index in range(len(self.cluster.name_node_ports())):
            name_node = self.cluster.java.getNameNode(index)
            if name_node is not None:
                manager = name_node.getNamesystem().getBlockManager()
                manager.setBlockRecoveryTimeout(BLOCK_RECOVERY_MS)

    # --- the NameNode ---

    @property
    def name_node(self) -> Any:
        return self.cluster.java.getNameNode(0)

    def wait_whole(self) -> None:
        """Return when every NameNode has left its safe mode and may write to every DataNode.

        One that has restarted hears of the DataNodes one by one, then of their storages. Until
        then it makes blocks with fewer replicas, which end with the only node that has them.
        """
        ports = set(self.ports)

        def has_heard(names: Any) -> bool:
            return known_ports(names) >= ports and not names.isInSafeMode()

        for index in range(len(self.cluster.name_node_ports())):
            names = self.cluster.java.getNamesystem(index)
            wait_until(
                lambda names=names: has_heard(names),
                f"NameNode {index} knows the storages of {sorted(ports)}, and is not in safe mode",
                60,
            )

    def lease_holder(self, path: str) -> str | None:
        adapter = self._hadoop.hdfs.server.namenode.NameNodeAdapter
        holder = adapter.getLeaseHolderForPath(self.name_node, path)
        return None if holder is None else str(holder)

    @contextmanager
    def lease_limits(self, soft_ms: int, hard_ms: int = DEFAULT_HARD_LIMIT_MS) -> Iterator[None]:
        self.cluster.java.setLeasePeriod(soft_ms, hard_ms)
        try:
            yield
        finally:
            self.cluster.java.setLeasePeriod(DEFAULT_SOFT_LIMIT_MS, DEFAULT_HARD_LIMIT_MS)

    @contextmanager
    def safe_mode(self) -> Iterator[None]:
        action = self._hadoop.hdfs.protocol.HdfsConstants.SafeModeAction
        name_node = self.cluster.java.getNameNodeRpc()
        name_node.setSafeMode(action.SAFEMODE_ENTER, False)
        try:
            yield
        finally:
            name_node.setSafeMode(action.SAFEMODE_LEAVE, False)

    @contextmanager
    def protected(self, directory: str) -> Iterator[None]:
        """Protect a directory from being deleted or renamed (fs.protected.directories)."""
        directories = self.name_node.getNamesystem().getFSDirectory()
        directories.setProtectedDirectories(directory)
        try:
            yield
        finally:
            directories.setProtectedDirectories(None)

    def calls(self, method: str) -> int:
        """How many calls of a method (`renewLease`) the NameNode has served so far.

        It counts a call shortly after it answered.
        """
        source = f"RpcDetailedActivityForPort{self.cluster.name_node_port()}"
        return self._metric(source, method[0].upper() + method[1:] + "NumOps")

    def _metric(self, source: str, name: str) -> int:
        """The value of a counter; 0 if the source does not have it, as before the first event.

        A daemon that was started again has a source of its own, with a number.
        """
        metrics = self._hadoop.metrics2
        sources = metrics.lib.DefaultMetricsSystem.instance()
        found = sources.getSource(source)
        for number in count(1):
            later = sources.getSource(f"{source}-{number}")
            if later is None:
                break
            found = later
        collector = metrics.impl.MetricsCollectorImpl()
        found.getMetrics(collector, True)
        found = re.search(rf"name={name}, [^}}]*}}, value=(\d+)", collector.getRecords().toString())
        return int(found[1]) if found else 0

    def is_closed(self, path: str) -> bool:
        return bool(self.java.fs.isFileClosed(self.java.path(path)))

    def recover_lease(self, path: str) -> None:
        """Have the NameNode take a file from its writer; return when it is closed."""
        asked = -math.inf

        def is_closed() -> bool:  # asks again when a recovery may have got lost
            nonlocal asked
            if time.monotonic() - asked < BLOCK_RECOVERY_MS / 1000:
                return self.is_closed(path)
            asked = time.monotonic()
            return bool(self.java.fs.recoverLease(self.java.path(path)))

        wait_until(is_closed, f"{path} is closed")

    def wait_closed(self, path: str) -> None:
        wait_until(lambda: self.is_closed(path), f"{path} is closed")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop all daemons where they are: no request is answered, no connection ends."""
        self.jvm.pause()
        try:
            yield
        finally:
            self.jvm.resume()

    def close(self) -> None:
        self.java.close()
        self.cluster.stop()


def known_ports(names: Any) -> set[int]:
    """Return the ports of the DataNodes that a NameNode may write to: it knows their disks."""
    nodes = names.getBlockManager().getDatanodeManager().getDatanodes()
    return {int(n.getXferPort()) for n in nodes if n.isAlive() and n.getCapacity()}


def _packets_in(log: str) -> list[Packet]:
    return [
        Packet(
            block=match[1].rpartition("_")[0],
            offset=_number(match[2], "offsetInBlock"),
            sequence_number=_number(match[2], "seqno"),
            length=_number(match[2], "dataLen"),
            is_last="lastPacketInBlock: true" in match[2],
            syncs="syncBlock: true" in match[2],
        )
        for match in re.finditer(RECEIVED, log, re.DOTALL)
        if _number(match[2], "seqno") >= 0
    ]


def _number(header: str, field: str) -> int:
    found = re.search(rf"{field}: (-?\d+)", header)
    return int(found[1]) if found else 0


@contextmanager
def raises_java(class_name: str) -> Iterator[None]:
    """Expect that the JVM throws this class of exception."""
    with pytest.raises(Py4JJavaError) as caught:
        yield
    assert caught.value.java_exception.getClass().getName() == class_name


NewHdfs = Callable[..., Hdfs]


# --- fixtures: tests/conftest.py makes this module a plugin ---


@pytest.fixture(scope="session")
def hdfs_jvm() -> Iterator[Jvm]:
    with Jvm() as jvm:
        yield jvm


@pytest.fixture(scope="session")
def hdfs_cluster(hdfs_jvm: Jvm) -> Iterator[Hdfs]:
    with running(hdfs_jvm) as hdfs:
        yield hdfs


@pytest.fixture(scope="session")
def _hdfs_pair(hdfs_jvm: Jvm) -> Iterator[Hdfs]:
    with running(hdfs_jvm, name_nodes=2) as hdfs:
        yield hdfs


@pytest.fixture
def hdfs_ha(_hdfs_pair: Hdfs) -> Iterator[Hdfs]:
    _hdfs_pair.quicken_recoveries()
    yield _hdfs_pair
    if not _hdfs_pair.cluster.java.getNameNode(0).isActiveState():
        _hdfs_pair.cluster.fail_over(1, 0)
    _hdfs_pair.wait_whole()


@pytest.fixture
def hdfs_new(hdfs_jvm: Jvm) -> Iterator[NewHdfs]:
    made: list[AbstractContextManager[Hdfs]] = []

    def start(
        datanodes: int = 1,
        settings: Mapping[str, object] | None = None,
        *,
        name_nodes: int = 1,
        **builder: object,
    ) -> Hdfs:
        starting = running(hdfs_jvm, datanodes, name_nodes=name_nodes, settings=settings, **builder)
        made.append(starting)
        return starting.__enter__()

    yield start
    for starting in reversed(made):
        starting.__exit__(None, None, None)


@contextmanager
def running(
    jvm: Jvm,
    datanodes: int = 3,
    *,
    name_nodes: int = 1,
    settings: Mapping[str, object] | None = None,
    **builder: object,
) -> Iterator[Hdfs]:
    """A cluster that ends with the block: the fixtures share theirs."""
    all_settings = {**SETTINGS, **(settings or {})}
    cluster = MiniCluster.start(
        datanodes, name_nodes=name_nodes, settings=all_settings, jvm=jvm, **builder
    )
    hdfs = Hdfs(cluster)
    hdfs.quicken_recoveries()
    try:
        yield hdfs
    finally:
        hdfs.close()
