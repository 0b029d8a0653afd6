"""Streaming queries that write with the format hflush: rows once, in Spark's own log."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hflush
import pytest
from hflush.checkpoint import FileStreamSinkLog
from hflush.spark.stream import Owner
from integration.spark import Spark
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from support.stores import Store

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import it

FILES, LINES = 4, 30  # a batch reads one file
SINK_LOG = "spark.sql.streaming.fileSink.log"
RETAINED = "spark.sql.streaming.minBatchesToRetain"
EXPECTED = sorted(f"{number}.{line}" for number in range(FILES) for line in range(LINES))


class Query:
    """A query over text files, one for each batch, which ends when it has read all of them."""

    def __init__(self, spark: Spark, directory: Path) -> None:
        self._spark = spark
        self.source = directory / "source"
        self.checkpoint = directory / "checkpoint"
        self.source.mkdir(parents=True)
        self.add(*range(FILES))

    def add(self, *numbers: int) -> None:
        for number in numbers:
            file = self.source / f"{number}.txt"
            file.write_text("".join(f"{number}.{line}\n" for line in range(LINES)))
            os.utime(file, (number, number))  # the order in which they are read

    def run(
        self,
        url: str,
        format: str = "hflush",
        change: Callable[[DataFrame], DataFrame] = lambda lines: lines,
        **options: Any,
    ) -> None:
        lines = self._spark.session.readStream.format("text").option("maxFilesPerTrigger", 1)
        writer = change(lines.load(str(self.source)).repartition(2)).writeStream.format(format)
        started = (
            writer.options(**options)
            .option("checkpointLocation", str(self.checkpoint))
            .queryName("lines")
            .trigger(availableNow=True)
            .start(url)
        )
        started.awaitTermination()

    def forget_last_batch(self) -> None:
        """Let Spark run it again, as after a crash before its commit."""
        commits = self.checkpoint / "commits"
        last = max(commits.glob("[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)

    def forget(self) -> None:
        """Begin anew: with a checkpoint of its own, and thus another id."""
        self.checkpoint = self.checkpoint.with_name(f"{self.checkpoint.name}'")


@pytest.fixture
def query(spark: Spark, tmp_path: Path) -> Query:
    return Query(spark, tmp_path / "query")


def names_of_log(directory: str) -> list[str]:
    """The batches whose files are in Spark's log below a directory."""
    log = Path(directory) / "_spark_metadata"
    return sorted(path.name for path in log.iterdir() if not path.name.startswith("."))


def rows(spark: Spark, url: str, encoding: str = "parquet") -> list[str]:
    return sorted(row.value for row in spark.session.read.format(encoding).load(url).collect())


@pytest.mark.rule("CKPT-15")
@pytest.mark.stores("raw", "hdfs")
def test_batches_that_are_run_again_are_there_once(
    spark: Spark, query: Query, store: Store
) -> None:
    """Spark's reader finds every row, through the log; what a second run wrote is dropped."""
    url = store.url(store.path("out"))
    query.run(url, **dict(store.conf))
    assert rows(spark, url) == EXPECTED
    files = FileStreamSinkLog(f"{url}/_spark_metadata", store.conf).all_files()
    for _ in range(2):
        query.forget_last_batch()
        query.run(url, **dict(store.conf))
    assert FileStreamSinkLog(f"{url}/_spark_metadata", store.conf).all_files() == files
    parts = [s for s in store.fs.list_status(store.path("out")) if "/part-" in s.path]
    assert len(parts) == len(files)
    assert rows(spark, url) == EXPECTED


@pytest.mark.stores("s3")
def test_objects(query: Query, store: Store) -> None:
    """The log names them as they were named to Spark; each is there, with its exact size."""
    url = store.url(store.path("out")).replace("s3://", "s3a://")
    query.run(url, encoding="json", **dict(store.conf))
    files = FileStreamSinkLog(f"{url}/_spark_metadata", store.conf).all_files()
    assert all(file.path.startswith(f"{url}/part-") for file in files)
    content = [hflush.open(file.path, "rb", conf=store.conf).read() for file in files]
    assert [len(one) for one in content] == [file.size for file in files]
    assert b"".join(content).count(b"\n") == len(EXPECTED)


@pytest.mark.stores("raw")
def test_spark_goes_on_with_our_log_and_we_with_its(
    spark: Spark, query: Query, store: Store
) -> None:
    """One query, whose format is changed twice; compact files are where Spark wants them."""
    url = store.url(store.path("out"))
    compact = {"spark.sql.streaming.fileSink.log.compactInterval": "3"}
    with spark.settings(compact):
        query.run(url, **compact)
        query.add(FILES, FILES + 1)
        query.run(url, format="parquet")
        query.add(FILES + 2)
        query.run(url, **compact)
    expected = sorted(f"{n}.{line}" for n in range(FILES + 3) for line in range(LINES))
    assert rows(spark, url) == expected
    log = Path(store.path("out")) / "_spark_metadata"
    assert (log / "2.compact").exists()
    assert (log / "5.compact").exists()
    streamed = spark.session.readStream.schema("value string").parquet(url)
    found = streamed.writeStream.format("memory").queryName("found").trigger(availableNow=True)
    found.start().awaitTermination()
    assert sorted(r.value for r in spark.session.table("found").collect()) == expected


@pytest.mark.stores("raw")
def test_keys_of_the_session_rule_our_log(spark: Spark, query: Query, store: Store) -> None:
    """As they rule that of Spark's own sink, and without being options, too."""
    ours, theirs = (store.url(store.path(name)) for name in ("ours", "theirs"))
    keys = {f"{SINK_LOG}.compactInterval": 2, f"{SINK_LOG}.cleanupDelay": 0, RETAINED: 1}
    with spark.settings(keys):
        query.run(ours)
        query.forget()
        query.run(theirs, format="parquet")
    assert rows(spark, ours) == EXPECTED
    assert names_of_log(store.path("ours")) == names_of_log(store.path("theirs"))
    assert "0" not in names_of_log(store.path("ours"))


@pytest.mark.stores("raw")
def test_another_query_is_refused(spark: Spark, query: Query, store: Store, tmp_path: Path) -> None:
    """Spark's own sink takes its batches for repeated ones, and drops them."""
    url = store.url(store.path("out"))
    query.run(url)
    with pytest.raises(StreamingQueryException, match="write to another path"):
        Query(spark, tmp_path / "another").run(url)
    assert rows(spark, url) == EXPECTED
    # Also where it is Spark's sink that has written.
    theirs = store.url(store.path("theirs"))
    Query(spark, tmp_path / "third").run(theirs, format="parquet")
    with pytest.raises(StreamingQueryException, match="another query has written up to batch 3"):
        Query(spark, tmp_path / "fourth").run(theirs)
    assert rows(spark, theirs) == EXPECTED
    strays = {path.name for path in Path(store.path("theirs")).glob("part-*")}
    listed = FileStreamSinkLog(f"{theirs}/_spark_metadata").all_files()
    assert strays == {file.path.rpartition("/")[2] for file in listed}


@pytest.mark.stores("raw")
def test_where_a_job_has_written(spark: Spark, query: Query, store: Store) -> None:
    """And a job where a query writes: readers would see one of the two only."""
    url = store.url(store.path("out"))
    lines = spark.session.createDataFrame([("a",)], "value string")
    lines.write.format("hflush").mode("append").save(url)
    with pytest.raises(StreamingQueryException, match="a batch job has written files here"):
        query.run(url)
    assert rows(spark, url) == ["a"]


@pytest.mark.stores("raw")
def test_partitions_and_limits(spark: Spark, query: Query, store: Store) -> None:
    """Columns of the path are read back; batches without rows leave no files."""
    url = store.url(store.path("out"))

    def change(lines: DataFrame) -> DataFrame:
        return lines.where("not value like '1.%'").selectExpr("value", "length(value) as size")

    query.run(url, change=change, partitionBy="size", maxRecordsPerFile=5, encoding="json")
    read = spark.session.read.json(url)
    expected = sorted((value, len(value)) for value in EXPECTED if not value.startswith("1."))
    assert sorted((row.value, row["size"]) for row in read.collect()) == expected
    assert {path.name for path in Path(store.path("out")).glob("size=*")} == {"size=3", "size=4"}
    log = FileStreamSinkLog(f"{url}/_spark_metadata")
    assert log.get_latest_batch_id() == FILES - 1


@pytest.mark.stores("raw")
def test_bad_options(query: Query, store: Store) -> None:
    """Each is named."""
    url = store.url(store.path("out"))
    for options in ({"commitId": "x"}, {"ifExists": "error"}, {"encoding": "xml"}):
        with pytest.raises(StreamingQueryException, match=next(iter(options))):
            query.run(url, **options)


@pytest.mark.stores("raw")
def test_the_mode_complete_is_refused(spark: Spark, query: Query, store: Store) -> None:
    """Spark passes it on; the message says what to do."""
    lines = spark.session.readStream.format("text").load(str(query.source))
    writer = lines.groupBy("value").count().writeStream.format("hflush").outputMode("complete")
    writer = writer.option("checkpointLocation", str(query.checkpoint)).trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match=r"'complete'.*foreachBatch"):
        writer.start(store.url(store.path("out"))).awaitTermination()
    assert not Path(store.path("out")).exists()


@pytest.mark.stores("raw", "s3")
def test_the_owner_of_a_destination(store: Store) -> None:
    """One of two that begin is written down; what is there and is no owner is an error."""
    url = store.url(store.path("out"))
    first, second = Owner(url, dict(store.conf)), Owner(url, dict(store.conf))
    first.claim("a", 0, None)
    second.claim("a", 1, 0)
    with pytest.raises(FileExistsError, match="the query with the id a writes here"):
        second.claim("b", 0, None)
    store.fs.create(store.path("out", "_hflush", "query"), overwrite=True).close()
    with pytest.raises(ValueError, match="does not name a query"):
        first.claim("a", 2, 1)
