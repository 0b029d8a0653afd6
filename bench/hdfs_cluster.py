"""What the HDFS benchmarks run on: a cluster in a JVM of its own, and the contenders' processes.

The cluster has three DataNodes, default settings and a JVM that compiles like a real one; a warm-up
precedes the first measurement. Its data is in memory (/dev/shm) where that is large enough, because
a disk's write-back comes when it likes and costs other contenders than the one that caused it; what
is about fsync has a cluster on the disk. Every contender is a child process that lives as long as
the session (hdfs_contender.py), so that all meet the same servers and none another's memory.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import pytest
from minidfs import Jvm, MiniCluster
from minidfs.jars import jars

if TYPE_CHECKING:
    from typing_extensions import Self

HERE = Path(__file__).resolve().parent
SCRIPTED = HERE.parent / "build" / "dev" / "hflush_scripted_cluster"
OURS, JAVA, NATIVE = "hflush", "Java client", "hdfs-native"
MIB = 1 << 20

MEMORY = Path("/dev/shm")
LEAST_MEMORY = 8 << 30
# Large enough for its young generation, so that collections do not fall to one contender by chance.
SERVER_OPTIONS = ("-Xms2g", "-Xmx2g")
REMOVAL_S = 60.0
LARGE = 16 * MIB

# The NameNode's answer to the first `complete` is often "not yet", for a millisecond or two. Java's
# client then waits 400 ms; here it is set to 5.
JAVA_SETTINGS = {"dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "5"}

Answer = dict[str, float]

_names = count()  # of files, whichever cluster they are on


class ContenderError(RuntimeError):
    """A contender answered that it failed."""


class Child:
    """A contender in a process of its own; ended by `stop` or a `with` block."""

    def __init__(self, name: str, command: Sequence[str | Path]) -> None:
        self.name = name
        self._order = ""
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        try:
            answer = self._answer()
            assert answer == "ready", answer
        except BaseException:
            self.stop()
            raise

    def order(self, name: str, *arguments: object) -> Answer:
        """Have it do something; return what it measured."""
        self.begin(name, *arguments)
        return self.answer()

    def begin(self, name: str, *arguments: object) -> None:
        """Have it begin something; `answer` waits for the end."""
        assert self._process.stdin is not None
        self._order = " ".join(map(str, (name, *arguments)))
        self._process.stdin.write(self._order + "\n")
        self._process.stdin.flush()

    def answer(self) -> Answer:
        """Wait until it has done what it began; return what it measured."""
        answer = self._answer()
        if answer.startswith("error"):
            raise ContenderError(f"{self.name}: {self._order}: {answer}")
        pairs = (pair.split("=", 1) for pair in answer.split())
        return {key: float(value) for key, value in pairs}

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise RuntimeError(f"{self.name} ended: {self._errors.read()[-2000:].decode()}")
        return line.strip()

    def stop(self) -> None:
        """End it, also in the middle of something."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class HdfsBench:
    """A cluster and the contenders on it; one of them may be a tree of an earlier commit, built.

    settings   of each contender, beside JAVA_SETTINGS of Java's
    earlier    the name of the contender that is the earlier tree, or none
    """

    def __init__(
        self,
        cluster: MiniCluster,
        settings: Mapping[str, str] | None = None,
        earlier: Path | None = None,
    ) -> None:
        self._cluster = cluster
        self._settings = dict(settings or {})
        self._java = cluster.file_system()
        self._children: dict[str, Child] = {}
        self._programs = {name: _program(name) for name in (OURS, JAVA, NATIVE)}
        self.earlier: list[str] = []
        if earlier is not None:
            name = f"{OURS} {_commit(earlier)}"
            self._programs[name] = _program(OURS, earlier)
            self.earlier.append(name)

    def child(self, name: str, settings: Mapping[str, str] | None = None) -> Child:
        """Start one more process of a contender."""
        given = {
            **(JAVA_SETTINGS if name == JAVA else {}),
            **self._settings,
            **(settings or {}),
        }
        pairs = [f"{key}={value}" for key, value in given.items()]
        return Child(name, [*self._programs[name], self._cluster.url, *pairs])

    def long_lived(self, name: str) -> Child:
        """The process of a contender that lives as long as the cluster."""
        if name not in self._children:
            self._children[name] = self.child(name)
        return self._children[name]

    def new_path(self) -> str:
        return f"/bench/{next(_names)}"

    def order_at(self, path: str, child: str, name: str, *arguments: object) -> Answer:
        """An order to the process that lives as long as the cluster."""
        return self.long_lived(child).order(name, path, *arguments)

    def order(self, child: str, name: str, *arguments: object) -> Answer:
        """An order about one new file or directory, which stays."""
        return self.order_at(self.new_path(), child, name, *arguments)

    def order_and_remove(self, child: str, name: str, *arguments: object) -> Answer:
        """The same, and the file goes at once, its blocks included."""
        path = self.new_path()
        answer = self.order_at(path, child, name, *arguments)
        self.remove(path)
        return answer

    def remove(self, path: str) -> None:
        """Delete a file and wait until the DataNodes have removed its blocks."""
        java = self._cluster.java
        hadoop = self._cluster.jvm.java.org.apache.hadoop
        # A replica that is not reported yet when its file goes may stay.
        _wait(lambda: self._all_reported(path), f"replicas of {path} are missing")
        self._java.delete(hadoop.fs.Path(path), True)

        def gone() -> bool:
            manager = java.getNamesystem().getBlockManager()
            hadoop.hdfs.server.blockmanagement.BlockManagerTestUtil.computeAllPendingWork(manager)
            java.triggerHeartbeats()
            return not self._large_blocks()

        _wait(gone, f"blocks of {path} are still there")

    def _all_reported(self, path: str) -> bool:
        status = self._java.getFileStatus(self._cluster.jvm.java.org.apache.hadoop.fs.Path(path))
        blocks = self._java.getFileBlockLocations(status, 0, status.getLen())
        return all(len(block.getHosts()) >= status.getReplication() for block in blocks)

    def _large_blocks(self) -> int:
        """How many are stored; small ones may stay."""
        return sum(_size(path) > LARGE for path in self._cluster.jvm.directory.rglob("blk_*"))

    def stop(self) -> None:
        for child in self._children.values():
            child.stop()
        self._java.close()


def _wait(condition: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + REMOVAL_S
    while not condition():
        assert time.monotonic() < end, otherwise
        time.sleep(0.01)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _program(name: str, tree: Path | None = None) -> list[str | Path]:
    if tree is not None:
        return [tree / ".venv/bin/python", tree / "bench/hdfs_contender.py", name]
    if name != JAVA:
        return [sys.executable, HERE / "hdfs_contender.py", name]
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else "java"
    classpath = os.pathsep.join(str(jar) for jar in jars() if "minicluster" not in jar.name)
    return [java, "-cp", classpath, HERE / "java" / "HdfsPeer.java"]


def _commit(tree: Path) -> str:
    command = ["git", "-C", str(tree), "rev-parse", "--short=7", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def in_memory() -> Path | None:
    """Where a cluster has its data if not on the disk; None where memory is short."""
    large = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= LEAST_MEMORY
    return MEMORY if large else None


@contextmanager
def running(place: Path | None, earlier: Path | None = None) -> Iterator[HdfsBench]:
    with Jvm(SERVER_OPTIONS, place=place) as jvm, MiniCluster.start(3, jvm=jvm) as cluster:
        bench = HdfsBench(cluster, earlier=earlier)
        try:
            yield bench
        finally:
            bench.stop()


class WireSpeed:
    """bench/cpp/scripted_cluster: servers that acknowledge at once and keep nothing.

    Beside them a sink, which drops what it is sent: what `send` alone costs.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [SCRIPTED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        ports = json.loads(self._process.stdout.readline())
        self._sink = ("127.0.0.1", ports["sink"])
        self._child = Child(OURS, [*_program(OURS), f"hdfs://127.0.0.1:{ports['name_node']}"])
        self._names = count()

    def write(self, nbytes: int) -> Answer:
        return self._child.order("write", f"/{next(self._names)}", 1, nbytes, MIB)

    def send(self, nbytes: int) -> Answer:
        """Raw `send` of 1 MiB each, until the sink has had them all."""
        data = os.urandom(MIB)
        with socket.create_connection(self._sink) as connection:
            cpu, started = time.process_time(), time.perf_counter()
            for _ in range(nbytes // MIB):
                connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
            return {
                "seconds": time.perf_counter() - started,
                "cpu": time.process_time() - cpu,
            }

    def stop(self) -> None:
        self._child.stop()
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def warm_up(bench: HdfsBench, quick: bool) -> None:
    """Until neither the DataNodes' nor Java's client's machine code changes much any more."""
    for replication in (1, 3) * (2 if quick else 5):
        for name in (JAVA, NATIVE):
            bench.order_and_remove(name, "write", replication, 256 * MIB, MIB)
    for name in bench.earlier:
        bench.order(name, "files", 3, 10, 1)  # what the process needs once
    for _ in range(2):
        bench.order(JAVA, "sync", 3, 2000, 1024, "hflush")
        bench.order(JAVA, "files", 3, 200, 4)


@pytest.fixture(scope="session")
def quick(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--hflush-quick"))


@pytest.fixture(scope="session")
def hdfs(quick: bool, request: pytest.FixtureRequest) -> Iterator[HdfsBench]:
    """A warm cluster whose data is in memory."""
    pytest.importorskip("hdfs_native")
    earlier = request.config.getoption("--hflush-before")
    with running(in_memory(), earlier) as bench:
        warm_up(bench, quick)
        yield bench


@pytest.fixture(scope="module")
def hdfs_on_disk(quick: bool) -> Iterator[HdfsBench]:
    """A warm cluster whose data is on the disk."""
    with running(None) as bench:
        warm_up(bench, quick)
        yield bench


@pytest.fixture
def wire_speed() -> Iterator[WireSpeed]:
    if not SCRIPTED.exists():
        pytest.skip("build/dev has no hflush_scripted_cluster")
    servers = WireSpeed()
    yield servers
    servers.stop()
