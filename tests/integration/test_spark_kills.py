"""Tasks, stages and commits that die under a real Spark: the rows are there once all the same.

tests/faults/test_spark_commit.py and test_spark_batches.py kill commits before every store call
without a Spark for each; here Spark does what it does then.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hflush.checkpoint import FileStreamSinkLog
from hflush.spark.commit import Committer, vacuum
from integration.killing_source import FailingSource
from integration.spark import TESTS, Spark
from integration.spark_cluster import cluster
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from support.stores import Store
from support.waiting import PATIENCE

pytestmark = [
    pytest.mark.spark_kills,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(600 * PATIENCE),
]

ROWS = 600
CALLS = 5  # of a task: its room, its file, the bytes, the end, and one that is not reached


@pytest.fixture(scope="module", autouse=True)
def failing(spark: Spark) -> None:
    spark.session.dataSource.register(FailingSource)


def save(frame: DataFrame, url: str, **options: Any) -> None:
    """Append, as JSON: what Spark reads anywhere, and this test can read by itself."""
    writer = frame.write.format("hflush_failing").mode("append").option("encoding", "json")
    writer.options(**options).save(url)


def rows(url: str, store: Store, names: Iterator[str] | list[str]) -> list[int]:
    """The values in files, sorted."""
    found = []
    for name in names:
        with store.fs.open(name if "/" in name else f"{url}/{name}") as stream:
            found += [json.loads(line)["id"] for line in bytes(stream.read()).splitlines()]
    return sorted(found)


def visible(spark: Spark, url: str, store: Store) -> list[int]:
    """The values that a reader finds: Spark's, where it can read. No leftovers, no upload."""
    committer = Committer(url, store.conf)
    names = [status.path for status in store.fs.list_files(f"{url}/_hflush", recursive=True)]
    assert [name for name in names if "/staging/" in name] == []
    found = rows(url, store, [f"{url}/{name}" for name in committer.visible()])
    if store.name == "s3":
        assert store.fs.list_multipart_uploads(url) == []
    else:
        read = spark.session.read.schema("id bigint").json(url).collect()
        assert sorted(row.id for row in read) == found
    return found


@contextmanager
def stages(spark: Spark) -> Iterator[list[Any]]:
    """A block whose stages are in the list behind it."""
    group, found = uuid.uuid4().hex, []
    context = spark.session.sparkContext
    context.setJobGroup(group, "a test")
    try:
        yield found
    finally:
        tracker = context.statusTracker()
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            assert info is not None
            found += [tracker.getStageInfo(stage) for stage in info.stageIds]
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


# --- tasks ---


@pytest.mark.stores("raw", "hdfs", "s3")
@pytest.mark.parametrize("partitions", [20, pytest.param(50, marks=pytest.mark.exhaustive)])
def test_workers_killed_before_each_call_of_a_task(
    spark: Spark, store: Store, partitions: int
) -> None:
    """kill -9 in the first attempt of each task, which dies at another step than the one before."""
    url = store.url(store.path("out"))
    frame = spark.session.range(0, ROWS, 1, partitions)
    with stages(spark) as seen:
        save(frame, url, killTasksBefore=-1, ofCalls=CALLS, **dict(store.conf))
    assert visible(spark, url, store) == list(range(ROWS))
    (stage,) = seen
    # S3 has no directories: a task makes one call less there.
    reached = CALLS - 1 - (store.name == "s3")
    assert stage.numFailedTasks == sum(number % CALLS < reached for number in range(partitions))


@pytest.mark.exhaustive
@pytest.mark.stores("hdfs", "s3")
@pytest.mark.parametrize("call", range(1, CALLS + 1))
def test_the_only_worker_killed_elsewhere(spark: Spark, store: Store, call: int) -> None:
    """The same, on a cluster and an object store."""
    test_the_only_worker_killed(spark, store, call)


@pytest.mark.stores("raw")
@pytest.mark.parametrize("call", range(1, CALLS + 1))
def test_the_only_worker_killed(spark: Spark, store: Store, call: int) -> None:
    """Before each call of the only task."""
    url = store.url(store.path("out"))
    frame = spark.session.range(0, ROWS, 1, 1)
    with stages(spark) as seen:
        save(frame, url, killTasksBefore=call, **dict(store.conf))
    assert visible(spark, url, store) == list(range(ROWS))
    assert sum(stage.numFailedTasks for stage in seen) == (call < CALLS - (store.name == "s3"))


STAGES = """
import sys
sys.path.insert(0, {tests!r})
from integration.killing_source import FailingSource
from integration.spark import Spark
from integration.test_spark_kills import save, stages
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.getOrCreate()
spark.dataSource.register(FailingSource)
with stages(Spark(spark)) as seen:
    save(spark.range(0, {rows}, 1, 4).repartition(8), {out!r}, losesShuffle=True, **{conf!r})
print(max(stage.currentAttemptId for stage in seen))
spark.stop()
"""


@pytest.mark.stores("raw", "hdfs", "s3")
def test_a_stage_that_is_repeated(spark: Spark, store: Store) -> None:
    """The shuffle's files go when the first task has ended: Spark runs both stages again.

    In a Spark of its own: one that has lost files takes its only executor's blocks for lost.
    """
    url = store.url(store.path("out"))
    conf = dict(store.conf)
    done = run_program(STAGES.format(tests=str(TESTS), rows=ROWS, out=url, conf=conf))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
    if store.name == "s3":  # an attempt of the first run may end after the commit
        vacuum(url, store.conf, older_than=0)
    assert visible(spark, url, store) == list(range(ROWS))


SPECULATION = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from pyspark.sql import SparkSession
from integration.killing_source import FailingSource
from support.waiting import wait_until
builder = SparkSession.builder.master({master!r})
for key, value in {settings!r}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.dataSource.register(FailingSource)
writer = spark.range(0, {rows}, 1, 4).write.format("hflush_failing").mode("append")
writer.options(encoding="json", straggles={signs!r}, **{conf!r}).save({out!r})
wait_until(Path({signs!r}, "late").exists, "the straggler has ended")
spark.stop()
"""
SPECULATES = {
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "0ms",
    # The loser's process: time to end by itself; and more than one batch of Arrow.
    "spark.python.task.killTimeout": "60s",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS // 40),
}


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The master's URL of a cluster with two hosts."""
    with cluster(tmp_path_factory.mktemp("cluster"), ["127.0.0.2", "127.0.0.3"]) as master:
        yield master


@pytest.mark.exhaustive
@pytest.mark.stores("raw", "hdfs", "s3")
def test_a_straggler_and_its_speculative_copy(
    spark: Spark, store: Store, tmp_path: Path, two_hosts: str
) -> None:
    """Two attempts of one task at once: the copy's rows are there; the straggler writes on.

    On two hosts: Spark starts no copy on one that has an attempt.
    """
    signs = tmp_path / "signs"
    signs.mkdir()
    url = store.url(store.path("out"))
    program = SPECULATION.format(
        **{"tests": str(TESTS), "master": two_hosts, "settings": SPECULATES, "rows": ROWS},
        **{"signs": str(signs), "out": url, "conf": dict(store.conf)},
    )
    done = run_program(program)
    assert done.returncode == 0, done.stderr
    assert (signs / "copy").exists(), "there was no second attempt"
    late = (signs / "late").read_text()
    if store.name == "hdfs":  # its file is gone
        assert late.startswith("LeaseLostError"), late
    else:  # it has a local file without a name, or an upload that nobody completes
        assert late == "as any other"
    if store.name == "s3":
        assert len(store.fs.list_multipart_uploads(url)) == 1
        vacuum(url, store.conf, older_than=0)
    assert visible(spark, url, store) == list(range(ROWS))


# --- batches of a query ---

FILES, LINES = 2, 20


class Query:
    """A query over text files, one for each batch, which ends when it has read all of them."""

    def __init__(self, directory: Path) -> None:
        self.source = directory / "source"
        self.checkpoint = directory / "checkpoint"
        if self.source.exists():  # another process has begun
            return
        self.source.mkdir(parents=True)
        for number in range(FILES):
            file = self.source / f"{number}.txt"
            file.write_text("".join(f"{number * LINES + line}\n" for line in range(LINES)))
            os.utime(file, (number, number))  # the order in which they are read

    def run(self, session: SparkSession, url: str, format: str, **options: Any) -> None:
        lines = session.readStream.format("text").option("maxFilesPerTrigger", 1)
        frame = lines.load(str(self.source)).selectExpr("cast(value AS bigint) AS id")
        writer = frame.repartition(2).writeStream.format(format).options(encoding="json", **options)
        checkpoint = writer.option("checkpointLocation", str(self.checkpoint))
        checkpoint.trigger(availableNow=True).start(url).awaitTermination()


def shown(spark: Spark, url: str, store: Store) -> list[int]:
    """The values in the files of the log, which are those that Spark's reader finds."""
    log = FileStreamSinkLog(f"{url}/_spark_metadata", store.conf)
    found = rows(url, store, [file.path for file in log.all_files()])
    if store.name == "s3":
        assert store.fs.list_multipart_uploads(url) == []
    else:
        read = spark.session.read.schema("id bigint").json(url).collect()
        assert sorted(row.id for row in read) == found
    return found


@pytest.mark.rule("CKPT-15")
@pytest.mark.stores("raw")
def test_a_query_whose_tasks_and_commit_die(spark: Spark, store: Store, tmp_path: Path) -> None:
    """Each task's first attempt, and the commit of the second batch: the query is run again."""
    url, query = store.url(store.path("out")), Query(tmp_path / "query")
    faults = {"killTasksBefore": -1, "ofCalls": CALLS, "killCommitBefore": 3, "inBatch": 1}
    with pytest.raises(StreamingQueryException):
        query.run(spark.session, url, "hflush_failing", **faults)
    assert shown(spark, url, store) == list(range(LINES))
    query.run(spark.session, url, "hflush")
    assert shown(spark, url, store) == list(range(FILES * LINES))


KILLED_QUERY = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from pyspark.sql import SparkSession
from integration.killing_source import FailingSource
from integration.test_spark_kills import Query
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(FailingSource)
query = Query(Path({directory!r}))
driver = spark._jvm.java.lang.ProcessHandle.current().pid()
query.run(
    spark, {url!r}, "hflush_failing", driver=driver, killCommitBefore={call}, inBatch=1, **{conf!r}
)
"""


@pytest.mark.exhaustive
@pytest.mark.rule("CKPT-15")
@pytest.mark.stores("raw", "hdfs", "s3")
@pytest.mark.timeout(2400 * PATIENCE)
def test_a_query_whose_driver_dies(spark: Spark, store: Store, tmp_path: Path) -> None:
    """kill -9 of the JVM and of the commit, before each of its calls until one is not reached."""
    ends = []
    for call in range(1, 30, 1 if store.name == "raw" else 3):
        url, directory = store.url(store.path(f"out{call}")), tmp_path / str(call)
        conf = dict(store.conf)
        program = KILLED_QUERY.format(
            tests=str(TESTS), directory=str(directory), url=url, call=call, conf=conf
        )
        if run_program(program).returncode == 0:
            break
        ends.append(len(shown(spark, url, store)))
        Query(directory).run(spark.session, url, "hflush", **conf)
        assert shown(spark, url, store) == list(range(FILES * LINES))
    assert len(ends) > 2
    assert set(ends) <= {LINES, FILES * LINES}


def run_program(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program that has a Spark of its own."""
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent / 'tools'}"}
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=400 * PATIENCE, env=environment
    )
