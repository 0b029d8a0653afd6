"""Spark in this process, with its own classes of streaming logs: the oracle and the opponent.

One session serves all tests. The classes are Scala's, called through py4j.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from support.waiting import DEADLINE_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TESTS = Path(__file__).resolve().parents[1]
QUIET = TESTS.parent / "demo" / "log4j2.properties"
LOST = "org.apache.spark.SparkConcurrentModificationException"


class Spark:
    """The session, and Spark's logs by Python's names. Paths are URLs or local names."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.jvm: Any = session._jvm
        self._java_session: Any = session._jsparkSession
        self._streaming = self.jvm.org.apache.spark.sql.execution.streaming

    # --- logs, each freshly made: an instance caches ---

    def offsets(self, path: str) -> Any:
        return self._streaming.checkpointing.OffsetSeqLog(self._java_session, path, False)

    def commits(self, path: str) -> Any:
        return self._streaming.checkpointing.CommitLog(self._java_session, path, False)

    def sink(self, path: str) -> SinkLog:
        kind = self._streaming.sinks.FileStreamSinkLog
        return SinkLog(self, kind(1, self._java_session, path, self.none()))

    def source(self, path: str) -> SourceLog:
        kind = self._streaming.runtime.FileStreamSourceLog
        return SourceLog(self, kind(1, self._java_session, path))

    def manager(self, path: str, kind: str = "") -> Any:
        """A CheckpointFileManager for a directory: Spark's choice, or ``FileSystemBased`` etc."""
        made = self._streaming.checkpointing
        named = f"{kind}CheckpointFileManager"
        create = getattr(made, named) if kind else made.CheckpointFileManager.create
        return create(self.path(path), self._java_session.sessionState().newHadoopConf())

    # --- a source ---

    def real_time_source(self) -> tuple[DataFrame, Callable[[Sequence[str]], Any]]:
        """A stream for real-time mode, with one partition; and what adds lines to it."""
        from pyspark.sql import DataFrame

        kind = getattr(self._streaming.sources, "LowLatencyMemoryStream$")
        encoder = self.jvm.org.apache.spark.sql.Encoders.STRING()
        source = getattr(kind, "MODULE$").apply(self._java_session, 1, encoder)
        sequence = self.jvm.org.apache.spark.api.python.PythonUtils.toSeq
        frame = DataFrame(source.toDF(), self.session)
        return frame, lambda lines: source.addData(sequence(list(lines)))

    # --- values ---

    def path(self, path: str) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path(path)

    def none(self) -> Any:
        return self.jvm.scala.Option.empty()

    def map(self, values: Mapping[Any, Any]) -> Any:
        """An immutable map of Scala."""
        return self.jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(dict(values))

    def array(self, kind: Any, values: Sequence[Any]) -> Any:
        made = self.session.sparkContext._gateway.new_array(kind, len(values))
        for index, value in enumerate(values):
            made[index] = value
        return made

    def commit(self, watermark: int, version: int = 1, sinks: Mapping[str, Any] = {}) -> Any:
        """The metadata of a commit."""
        made = self._streaming.checkpointing
        if version == 1:
            return made.CommitMetadata(watermark)
        if version == 2:
            return made.CommitMetadataV2(watermark, self.none())
        return made.CommitMetadataV3(watermark, self.none(), self.map(sinks))

    def sink_metadata(self, name: str) -> Any:
        return self._streaming.checkpointing.SinkMetadataInfo(name, "-", "parquet", "v1", True)

    def compact_interval(self, configured: int, last: int) -> int:
        """What Spark makes of one compact file and a configured interval."""
        log = self._streaming.runtime.CompactibleFileStreamLog
        return int(log.deriveCompactInterval(configured, last))

    @contextmanager
    def settings(self, values: Mapping[str, Any]) -> Iterator[None]:
        """Set keys of the session for a block."""
        for key, value in values.items():
            self.session.conf.set(key, str(value))
        try:
            yield
        finally:
            for key in values:
                self.session.conf.unset(key)


class SinkLog:
    """Spark's FileStreamSinkLog."""

    def __init__(self, spark: Spark, log: Any) -> None:
        self._spark = spark
        self._log = log

    def add(self, batch_id: int, files: Mapping[str, int]) -> bool:
        """Add files by their URLs, with their sizes."""
        kind = self._spark._streaming.sinks.SinkFileStatus
        status = self._spark.jvm.org.apache.hadoop.fs.FileStatus
        made = [
            kind.apply(status(size, False, 1, 1 << 20, 1000, self._spark.path(url)))
            for url, size in files.items()
        ]
        return bool(self._log.add(batch_id, self._spark.array(kind, made)))

    def all_files(self) -> list[tuple[str, int]]:
        return [(file.toFileStatus().getPath().toString(), file.size())
                for file in self._log.allFiles()]  # fmt: skip

    def latest(self) -> int | None:
        found = self._log.getLatestBatchId()
        return int(found.get()) if found.isDefined() else None


class SourceLog:
    """Spark's FileStreamSourceLog."""

    def __init__(self, spark: Spark, log: Any) -> None:
        self._spark = spark
        self._log = log

    def add(self, batch_id: int, urls: Sequence[str]) -> bool:
        kind = getattr(self._spark._streaming.runtime, "FileStreamSource$FileEntry")
        made = [kind(url, 1000, batch_id) for url in urls]
        return bool(self._log.add(batch_id, self._spark.array(kind, made)))

    def all_files(self) -> list[tuple[str, int]]:
        return [(entry.path(), entry.batchId()) for entry in self._log.allFiles()]


def won(add: Callable[[], Any]) -> bool:
    """Whether this call of Spark's stored a batch: not if it saw another's, or lost to one."""
    try:
        return bool(add())
    except Py4JJavaError as failure:
        if failure.java_exception.getClass().getName() != LOST:
            raise
        return False


@contextmanager
def started() -> Iterator[Spark]:
    """Start Spark, which tries each task four times; stop it and its JVM with the block."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    before = os.environ.get("PYTHONPATH")
    # For workers, which the JVM starts: what they import is what the tests import.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(TESTS), before)))
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    settings = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={QUIET.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "Europe/Paris",
    }
    builder = SparkSession.builder.master("local[2,4]").appName("hflush tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        yield Spark(session)
    finally:
        session.stop()
        gateway = SparkContext._gateway
        if gateway is not None:
            gateway.shutdown()
            process = gateway.proc
            process.stdin.close()  # what the JVM waits for
            process.wait(DEADLINE_S)
            SparkContext._gateway = SparkContext._jvm = None
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before
