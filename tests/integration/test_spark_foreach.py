"""hflush.spark.ForeachWriter in real queries: rows are in the files once, whatever is run again."""

from __future__ import annotations

import json
import os
import signal
import sys
import uuid
from pathlib import Path
from typing import Any

import hflush.spark
import pytest
from hflush.spark import ForeachWriter
from integration.spark import Spark
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from support.stores import Store
from support.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import it

FILES, LINES = 3, 40  # an epoch reads one file
TRIES = 4  # of a task


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "source"
    directory.mkdir()
    for number in range(FILES):
        lines = "".join(f"{number}.{line}\n" for line in range(LINES))
        (directory / f"{number}.txt").write_text(lines)
        os.utime(directory / f"{number}.txt", (number, number))  # the order in which they are read
    return directory


class Failing:
    """Encodes rows; at one of them it fails as it is told, more often than Spark tries a task."""

    def __init__(self, row: str, failures: Path, how: str) -> None:
        self.row = row
        self.failures = failures
        self.how = how

    def __call__(self, row: Row) -> str:
        if row.value == self.row and len(list(self.failures.iterdir())) < TRIES + 1:
            (self.failures / uuid.uuid4().hex).touch()
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError("no such day")
        return f"{row.value}\n"


class Query:
    """A query over the source, which ends when it has read everything."""

    def __init__(self, spark: Spark, source: Path, checkpoint: Path) -> None:
        self._spark = spark
        self._source = source
        self.checkpoint = checkpoint

    def run(self, writer: ForeachWriter, column: str = "value") -> None:
        lines = (
            self._spark.session.readStream.format("text")
            .option("maxFilesPerTrigger", 1)
            .load(str(self._source))
            .repartition(2)
            .selectExpr(column)
        )
        started = (
            lines.writeStream.foreach(writer)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        started.awaitTermination()

    def forget_last_epoch(self) -> None:
        """Let Spark run it again, as after a crash before its commit."""
        commits = sorted(
            (self.checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name)
        )
        commits[-1].unlink()
        (commits[-1].parent / f".{commits[-1].name}.crc").unlink(missing_ok=True)


@pytest.fixture
def query(spark: Spark, source: Path, tmp_path: Path) -> Query:
    return Query(spark, source, tmp_path / "checkpoint")


def rows(store: Store, directory: str) -> list[str]:
    """All rows that a reader of the directory sees, sorted."""
    files = [
        status.path
        for status in store.fs.list_status(directory)
        if status.is_file and not status.path.rpartition("/")[2].startswith(("_", "."))
    ]
    found = b"".join(store.read(path) for path in files)
    return sorted(found.decode().splitlines())


EXPECTED = sorted(f"{number}.{line}" for number in range(FILES) for line in range(LINES))
STORES = pytest.mark.stores("raw", "hdfs", "s3")


def line(row: Row) -> str:
    return f"{row.value}\n"


@pytest.mark.stores("raw")
def test_it_takes_what_options_returns(spark: Spark, query: Query, store: Store) -> None:
    """The session's keys reach the tasks: a umask shows in the mode of their files."""
    with spark.settings({"fs.permissions.umask-mode": "077"}):
        conf = hflush.spark.options(spark.session)
    query.run(ForeachWriter(store.url(store.path("rows")), line, suffix=".txt", conf=conf))
    files = list(Path(store.path("rows")).glob("part-*.txt"))
    assert files
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    with pytest.raises(ValueError, match=r"option 'conf' is not what hflush\.spark"):
        ForeachWriter("out", conf={"conf": "{"})


@STORES
def test_epochs_that_are_run_again_are_written_once(query: Query, store: Store) -> None:
    """The last epoch is recorded, and written anew."""
    out = store.url(store.path("rows"))
    level: Any = "hsync" if store.name == "hdfs" else "hflush"
    writer = ForeachWriter(out, line, level=level, suffix=".txt", conf=store.conf)
    query.run(writer)
    assert rows(store, store.path("rows")) == EXPECTED
    for _ in range(2):
        query.forget_last_epoch()
        query.run(writer)
        assert rows(store, store.path("rows")) == EXPECTED


@STORES
def test_an_epoch_that_fails_in_the_middle(query: Query, store: Store, tmp_path: Path) -> None:
    """What it has written goes before it is written again; on HDFS its process is killed."""
    out = store.url(store.path("rows"))
    how = "kill" if store.name == "hdfs" else "raise"
    failures = tmp_path / "failures"
    failures.mkdir()
    encode = Failing("1.33", failures, how)
    writer = ForeachWriter(out, encode, suffix=".txt", conf=store.conf)
    with pytest.raises(StreamingQueryException):
        query.run(writer)
    query.run(writer)
    assert rows(store, store.path("rows")) == EXPECTED
    assert len(list(failures.iterdir())) == TRIES + 1


@STORES
def test_a_source_that_fails_in_the_middle(query: Query, store: Store) -> None:
    """Python is told that these were all rows; all of them are written when it goes on."""
    writer = ForeachWriter(store.url(store.path("rows")), line, suffix=".txt", conf=store.conf)
    with pytest.raises(StreamingQueryException):
        query.run(writer, "if(value = '1.25', raise_error('lost'), value) AS value")
    query.run(writer)
    assert rows(store, store.path("rows")) == EXPECTED


@pytest.mark.stores("raw")
def test_in_real_time_mode(spark: Spark, store: Store, tmp_path: Path) -> None:
    """Spark admits the writer; the rows of each batch are there when it has ended, once."""
    directory = store.path("rows")
    frame, add = spark.real_time_source()
    writer = ForeachWriter(store.url(directory), line, suffix=".txt", conf=store.conf)
    stream = frame.writeStream.foreach(writer).outputMode("update")
    stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    expected: list[str] = []
    Path(directory).mkdir()
    query = stream.trigger(realTime="5 seconds").start()
    try:
        for number in range(2):
            new = [f"{number}.{row}" for row in range(LINES)]
            add(new)
            expected.extend(new)
            wait_until(
                lambda: not query.isActive or len(rows(store, directory)) >= len(expected),
                "the rows of a batch",
                4 * DEADLINE_S,
            )
            assert rows(store, directory) == sorted(expected), query.exception()
    finally:
        query.stop()


@pytest.mark.stores("raw")
def test_rows_are_lines_of_json(spark: Spark, query: Query, store: Store) -> None:
    """Unless something else is given; Spark reads the directory, and passes over the log."""
    query.run(ForeachWriter(store.url(store.path("rows"))))
    read = spark.session.read.json(store.path("rows"))
    assert sorted(row.value for row in read.collect()) == EXPECTED
    (first, *_) = sorted(Path(store.path("rows")).glob("part-*.json"))
    assert json.loads(first.read_text().splitlines()[0]).keys() == {"value"}


@pytest.mark.stores("raw")
def test_a_second_query_has_files_of_its_own(
    spark: Spark, query: Query, source: Path, store: Store, tmp_path: Path
) -> None:
    """Nothing of the first one is touched."""
    writer = ForeachWriter(store.url(store.path("rows")), line)
    query.run(writer)
    Query(spark, source, tmp_path / "another").run(writer)
    assert rows(store, store.path("rows")) == sorted(EXPECTED * 2)


@pytest.mark.stores("raw")
def test_bad_arguments() -> None:
    """Refused where the writer is made, with the name of what is wrong."""
    with pytest.raises(ValueError, match="level='close'"):
        ForeachWriter("/rows", level="close")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="suffix"):
        ForeachWriter("/rows", suffix="/x")
    with pytest.raises(RuntimeError, match="outside a task"):
        ForeachWriter("/rows").open(0, 0)
    with pytest.raises(ValueError, match="before open"):
        ForeachWriter("/rows").process(Row(value=1))
