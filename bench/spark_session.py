"""What Spark's benchmarks run on: a session with the flights in its memory, an HDFS and a MinIO.

The session has two threads of one JVM; the contenders are jobs and queries of it, in turn, with the
same rows, so that the same scans, compilations and collections fall to both. All data is in memory
where there is enough of that (see hdfs_cluster.py).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import hflush
import pytest
from hdfs_cluster import JAVA_SETTINGS, SERVER_OPTIONS, Answer, in_memory
from minidfs import Jvm, MiniCluster
from minio import MinioServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEMO = Path(__file__).resolve().parents[1] / "demo"
QUIET = (DEMO / "log4j2.properties").as_uri()
BUCKET = "bench"
COPIES = 10  # of the flights
PARTITIONS = 8
HEAP = "3g"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class SparkBench:
    """A session, and what a case needs around it.

    flights    the rows of the large works, cached by Spark when they are first asked for
    rows       how many they are
    """

    def __init__(self, session: SparkSession, directory: Path, copies: int) -> None:
        self.session = session
        self.jvm: Any = session._jvm
        self.directory = directory
        self._gateway: Any = session.sparkContext._gateway
        self._names = count()
        self._copies = copies

    @cached_property
    def flights(self) -> DataFrame:
        frame = _flights(self.session, self._copies)
        frame.count()  # fills the cache
        return frame

    @cached_property
    def rows(self) -> int:
        return self.flights.count()

    def new_name(self) -> str:
        return str(next(self._names))

    def new_url(self, below: str) -> str:
        """A directory that nothing was written to."""
        return f"{below}/{self.new_name()}"

    def path(self, url: str) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path(url)

    def measured(self, work: Callable[[], object]) -> Answer:
        """Seconds, and the CPU of all of Spark's processes: the JVM's and the Python workers'."""
        cpu, started = self._cpu(), perf_counter()
        work()
        return {"seconds": perf_counter() - started, "cpu": self._cpu() - cpu}

    def _cpu(self) -> float:
        """In seconds, of the JVM and everything below it, with what has ended there."""
        below = _children()
        waiting, ticks = [self._gateway.proc.pid], 0
        while waiting:
            process = waiting.pop()
            ticks += _ticks(process)
            waiting += below.get(process, [])
        return ticks / TICKS_PER_S


def _children() -> dict[int, list[int]]:
    """The processes of this machine, by their parents."""
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            below.setdefault(int(fields[1]), []).append(int(entry.name))
    return below


def _ticks(process: int) -> int:
    """User and system time, also of children that were waited for."""
    return sum(map(int, _stat(process)[11:15]))


def _stat(process: int) -> list[str]:
    """The fields behind a process's name, from its state on; none if it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _flights(session: SparkSession, copies: int) -> DataFrame:
    import pyarrow as pa

    sys.path.append(str(DEMO))
    try:
        dataset = import_module("dataset")
    finally:
        sys.path.remove(str(DEMO))
    table = pa.concat_tables([dataset.flights()] * copies).combine_chunks()
    frame: DataFrame = dataset.distribute(session, table, PARTITIONS).cache()
    session.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")  # as it comes
    return frame


@contextmanager
def _session(directory: Path) -> Iterator[SparkSession]:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    settings = {
        "spark.driver.memory": HEAP,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={QUIET}",
        "spark.local.dir": str(directory / "spark"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        **{f"spark.hadoop.{key}": value for key, value in JAVA_SETTINGS.items()},
    }
    builder = SparkSession.builder.master("local[2]").appName("hflush benchmarks")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        gateway = SparkContext._gateway
        assert gateway is not None
        gateway.shutdown()
        gateway.proc.stdin.close()  # what the JVM waits for
        gateway.proc.wait(timeout=60)
        SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture(scope="module")
def spark(quick: bool) -> Iterator[SparkBench]:
    """A session, gone with the module."""
    pytest.importorskip("pyspark")
    directory = Path(tempfile.mkdtemp(prefix="spark-", dir=in_memory()))
    try:
        with _session(directory) as session:
            yield SparkBench(session, directory, 1 if quick else COPIES)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def spark_local(spark: SparkBench) -> str:
    """The URL of a local directory."""
    return f"file://{spark.directory}/out"


@pytest.fixture(scope="module")
def spark_hdfs() -> Iterator[str]:
    """The URL of an HDFS of three DataNodes, in a JVM of its own."""
    with (
        Jvm(SERVER_OPTIONS, place=in_memory()) as jvm,
        MiniCluster.start(3, jvm=jvm) as cluster,
    ):
        yield cluster.url


@pytest.fixture(scope="module")
def spark_on_disk() -> Iterator[str]:
    """The same with its data on the disk: for what is about fsync."""
    with Jvm(SERVER_OPTIONS) as jvm, MiniCluster.start(3, jvm=jvm) as cluster:
        yield cluster.url


@pytest.fixture(scope="module")
def spark_s3() -> Iterator[MinioServer]:
    """A MinIO with a bucket."""
    with MinioServer.start(place=in_memory()) as server:
        server.make_bucket(BUCKET)
        yield server


def remove(url: str, conf: dict[str, str] | None = None) -> None:
    """Remove what a trial has written, so that memory does not fill."""
    hflush.FileSystem.get(url, conf or {}).delete(url, recursive=True)
