"""What a write tells of itself: in its commit, in Spark's log, and in a bar."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import hflush.spark
import pytest
from hflush.spark import last_commit, progress
from integration.spark import Spark
from support.stores import Store
from support.waiting import DEADLINE_S

pytestmark = pytest.mark.spark

ROWS, TASKS = 1000, 4


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def write(spark: Spark, url: str, rows: int = ROWS, **options: str) -> None:
    frame = spark.session.range(0, rows, 1, TASKS)
    frame.write.format("hflush").options(**options).mode("append").save(url)


@pytest.mark.rule("STATS-8")
@pytest.mark.stores("hdfs")
def test_a_commit_remembers_what_its_tasks_did(spark: Spark, store: Store) -> None:
    """Rows, files, bytes and syncs of each task; the statistics of all streams together."""
    url = store.url(store.path("out"))
    assert last_commit(url, store.conf) is None
    options = {"durability": "hsync", "maxRecordsPerFile": "125", "encoding": "csv"}
    write(spark, url, **options, **dict(store.conf))
    record = last_commit(url, store.conf)
    assert record is not None
    report = record.report
    assert [task.partition for task in report.tasks] == list(range(TASKS))
    for task in report.tasks:
        assert (task.files, task.rows, task.syncs, task.stalls) == (2, ROWS // TASKS, 2, 0)
        assert task.seconds > 0
    assert sum(task.length for task in report.tasks) == record.length
    statistics = report.io_statistics()
    assert statistics.counters["stream_write_bytes"] == record.length
    assert statistics.counters["op_hsync"] == report.syncs == 2 * TASKS
    assert statistics.means["op_close_duration_mean"].samples == 2 * TASKS
    assert statistics.minimums["op_close_duration_min"] > 0


def test_what_is_in_sparks_log(spark: Spark, tmp_path: Path) -> None:
    """A line for each task and one for the commit, where the level lets them through."""
    url = str(tmp_path / "out")
    logs = "SELECT level, logger, msg FROM python_worker_logs()"
    with spark.settings({"spark.sql.pyspark.worker.logging.enabled": "true"}):
        write(spark, url)
        assert [row.msg for row in spark.session.sql(logs).collect() if url in row.msg] == []
        write(spark, url, logLevel="info")
        rows = [row for row in spark.session.sql(logs).collect() if url in row.msg]
    assert {(row.level, row.logger) for row in rows} == {("INFO", "hflush.spark.writer")}
    of_tasks = [row.msg for row in rows if ": task " in row.msg]
    assert len(of_tasks) == TASKS
    assert all("): 250 rows, 1 files, " in message for message in of_tasks)
    (of_job,) = [row.msg for row in rows if ": job " in row.msg]
    assert ": committed: 1000 rows, 4 files, " in of_job
    assert of_job.endswith(" 0 syncs, 0 stalls, by 4 tasks")
    # log4j says what level is wanted, where options() asks it.
    level = spark.jvm.org.apache.logging.log4j.Level
    configurator = spark.jvm.org.apache.logging.log4j.core.config.Configurator
    assert hflush.spark.options(spark.session)["logLevel"] == "error"
    configurator.setLevel("hflush", level.DEBUG)
    try:
        assert hflush.spark.options(spark.session)["logLevel"] == "debug"
    finally:
        configurator.setLevel("hflush", level.ERROR)


def test_a_bar_counts_the_tasks_of_the_block(spark: Spark, tmp_path: Path) -> None:
    """On a terminal; it ends with what was committed."""
    url, terminal = str(tmp_path / "out"), Terminal()
    write(spark, url)
    with progress(spark.session, url, file=terminal) as done:
        write(spark, url, rows=500)
        assert done.record is None
    assert done.record is not None
    assert (done.record.number, done.record.rows) == (1, 500)
    last = terminal.getvalue().rstrip().rpartition("\r")[2]
    assert f"{TASKS}/{TASKS}" in last
    assert f"500 rows, 4 files, {done.record.length:,} bytes, 0 syncs, 0 stalls" in last
    # A block that fails shows so, and the job after it is not counted any more.
    with pytest.raises(ZeroDivisionError), progress(spark.session, url, file=terminal) as done:
        raise ZeroDivisionError
    assert done.record is None
    assert not list(spark.session.sparkContext.getJobTags())


def test_what_was_committed_is_asked_for_as_the_session_does(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its keys, the secret ones, too; that it cannot be asked fails no block."""
    url, asked = str(tmp_path / "out"), []

    def refuse(url: str, conf: dict[str, str]) -> None:
        asked.append((url, conf))
        if len(asked) == 2:
            raise PermissionError(url)

    monkeypatch.setattr("hflush.spark.watching.last_commit", refuse)
    keys = {"fs.s3a.endpoint": "http://s3", "fs.s3a.secret.key": "secret"}
    with spark.settings(keys), progress(spark.session, url) as done:
        write(spark, url)
    assert done.record is None
    assert [(place, conf.items() >= keys.items()) for place, conf in asked] == 2 * [(url, True)]
    with progress(spark.session, url, conf={"fs.s3a.endpoint": "http://other"}):
        pass
    assert asked[-1] == (url, {"fs.s3a.endpoint": "http://other"})


STOPPED = """
import sys
from hflush.spark import progress
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
with progress(spark, sys.argv[1]) as done:
    spark.range(1).write.format("hflush").mode("append").save(sys.argv[1])
    spark.stop()
assert done.record.rows == 1
"""


def test_a_block_that_stops_spark(tmp_path: Path) -> None:
    """As a program's last one does: it has succeeded all the same."""
    program = [sys.executable, "-c", STOPPED, str(tmp_path / "out")]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=DEADLINE_S)
    assert ended.returncode == 0, ended.stderr


def test_nothing_is_shown_without_a_terminal(spark: Spark, tmp_path: Path) -> None:
    """What was committed is known all the same."""
    url, file = str(tmp_path / "out"), io.StringIO()
    with progress(spark.session, url, file=file) as done:
        write(spark, url)
    assert file.getvalue() == ""
    assert done.record is not None
    assert done.record.rows == ROWS
