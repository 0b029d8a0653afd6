"""Spark, beside its own writers and committers: see spark_session.py for what it runs on."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hflush
import pytest
import spark_queries
from hdfs_cluster import OURS, Answer
from interleaved import Contender, Quantity, Target
from minio import MinioServer
from spark_commits import Staged, Version1, staged, version_1, visible
from spark_queries import ROWS, TimedWriter, batches, lines
from spark_session import BUCKET, SparkBench, remove
from support.s3_front import Exchange
from support.scripted_s3 import BUCKET as SCRIPTED
from support.scripted_s3 import ScriptedS3

if TYPE_CHECKING:
    import pyarrow as pa

SPARK, SPARKS_SINK = "Spark's writer", "Spark's file sink"
VERSION_1 = "FileOutputCommitter v1"
S3FS = "pyarrow over s3fs"
FILES = 1000
RECORD = bytes(1024)

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

Write = Callable[[str], object]


@pytest.fixture(params=["spark_local", "spark_hdfs"])
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Where to, and the URL of a directory there."""
    names = {"spark_local": "local files in memory", "spark_hdfs": "HDFS, 3 replicas"}
    return names[request.param], request.getfixturevalue(request.param)


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A directory on the disk: for what is about durable names."""
    directory = Path(tempfile.mkdtemp(prefix="spark-bench-"))
    yield directory
    shutil.rmtree(directory)


def rows_written(
    spark: SparkBench, ratios: Callable[..., None], to: str, peer: Target, ways: dict[str, Trial]
) -> None:
    """Compare ways to write the flights, by the time and the CPU of all of Spark's processes."""
    work = f"{spark.rows:,} flights as {to}"
    ratios(
        [
            Quantity("seconds", f"{work}: rows", [peer], operations=spark.rows),
            Quantity("cpu", f"{work}: CPU", unit="s"),
        ],
        ours=ways.pop(OURS),
        peers=ways,
        rounds=5,
    )


Trial = Callable[[], Answer]


def trial(spark: SparkBench, below: str, write: Write, conf: dict[str, str] | None = None) -> Trial:
    """One round of a way to write, to a directory that goes after it."""

    def run() -> Answer:
        url = spark.new_url(below)
        answer = spark.measured(lambda: write(url))
        remove(url, conf)
        return answer

    return run


def test_parquet(spark: SparkBench, place: tuple[str, str], ratios: Callable[..., None]) -> None:
    """The default encoding and compression of both."""
    where, below = place
    frame = spark.flights
    ways = {
        OURS: trial(
            spark, below, lambda url: frame.write.format("hflush").mode("append").save(url)
        ),
        SPARK: trial(spark, below, frame.write.parquet),
    }
    target = Target(SPARK, speed_at_least=0.8)
    rows_written(spark, ratios, f"Parquet to {where}", target, ways)


def test_csv(spark: SparkBench, spark_local: str, ratios: Callable[..., None]) -> None:
    """Without a header."""
    frame = spark.flights
    ours = frame.write.format("hflush").mode("append").option("encoding", "csv")
    ways = {
        OURS: trial(spark, spark_local, ours.save),
        SPARK: trial(spark, spark_local, frame.write.csv),
    }
    target = Target(SPARK, speed_at_least=1.0)
    rows_written(spark, ratios, "CSV to local files in memory", target, ways)


def test_parquet_to_s3(
    spark: SparkBench, spark_s3: MinioServer, ratios: Callable[..., None]
) -> None:
    """Beside the way without a sink: each task writes its partition, and nothing is committed."""
    frame, conf = spark.flights, spark_s3.conf
    ours = frame.write.format("hflush").mode("append").options(**conf)

    def through_s3fs(url: str) -> None:
        write = writes_through_s3fs(url.removeprefix("s3://"), spark_s3)
        (total,) = frame.mapInArrow(write, "rows long").groupBy().sum().collect()
        assert total[0] == spark.rows

    below = f"s3://{BUCKET}"
    ways = {
        OURS: trial(spark, below, ours.save, conf),
        S3FS: trial(spark, below, through_s3fs, conf),
    }
    rows_written(spark, ratios, "Parquet to MinIO", Target(S3FS, speed_at_least=1.2), ways)


def writes_through_s3fs(directory: str, server: MinioServer) -> Any:
    """What mapInArrow runs: a partition becomes a file of one row group."""
    key, secret = server.access_key, server.secret_key
    client = {"endpoint_url": server.url, "region_name": server.conf["fs.s3a.endpoint.region"]}

    def write(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.parquet as pq
        import s3fs
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        files = s3fs.S3FileSystem(
            key=key,
            secret=secret,
            client_kwargs=client,
            config_kwargs={"s3": {"addressing_style": "path"}},
        )
        table = pa.Table.from_batches(list(parts))
        name = f"{directory}/part-{context.partitionId():05d}.parquet"
        with files.open(name, "wb", block_size=8 << 20) as out:
            pq.write_table(table, out, compression="snappy")
        yield pa.RecordBatch.from_pydict({"rows": [table.num_rows]})

    return write


# --- the commit of a job ---


def commit_of_a_job(
    spark: SparkBench, ratio: Callable[..., None], below: str, where: str, files: int
) -> None:
    """Compare what is left to do when the tasks are done."""
    urls = {OURS: f"{below}/ours", VERSION_1: f"{below}/version-1"}
    ours = partial(staged, urls[OURS], files)
    theirs = partial(version_1, spark, urls[VERSION_1], files)
    for prepared, url in ((ours(), urls[OURS]), (theirs(), urls[VERSION_1])):
        prepared.commit()
        assert visible(url) == files
        remove(url)
    ratio(
        f"job commit of {files:,} files of as many tasks, {where}",
        ours=Contender(Staged.commit, ours, lambda _: remove(urls[OURS])),
        peers={VERSION_1: Contender(Version1.commit, theirs, lambda _: remove(urls[VERSION_1]))},
        targets=[Target(VERSION_1, time_at_most=1.0)],
        rounds=5,
    )


def test_commit_local(
    spark: SparkBench, on_disk: Path, ratio: Callable[..., None], quick: bool
) -> None:
    """On the disk: ours makes the names durable, Hadoop's does not."""
    commit_of_a_job(spark, ratio, f"file://{on_disk}", "local, on disk", 100 if quick else FILES)


def test_commit_hdfs(
    spark: SparkBench, spark_hdfs: str, ratio: Callable[..., None], quick: bool
) -> None:
    """Both have a warm client."""
    commit_of_a_job(spark, ratio, f"{spark_hdfs}/commits", "HDFS", 100 if quick else FILES)


def test_commit_s3(
    spark_s3: MinioServer,
    ratio: Callable[..., None],
    figure: Callable[..., None],
    quick: bool,
) -> None:
    """No peer: its time on MinIO, and its requests, counted on a server of our own."""
    files = 100 if quick else FILES
    url = f"s3://{BUCKET}/commit"
    ratio(
        f"job commit of {files:,} files of as many tasks, MinIO",
        ours=Contender(
            Staged.commit,
            partial(staged, url, files, spark_s3.conf),
            lambda _: remove(url, spark_s3.conf),
        ),
        peers={},
        rounds=5,
    )
    counted = requests_of_a_commit(files)
    figure("requests a file", counted["a_file"] / files, "", at_most=1.0)
    figure("other requests", counted["other"], "")
    figure("requests at once, at most", counted["at_once"], "")


def requests_of_a_commit(files: int) -> dict[str, int]:
    """Count what the commit asks for, and how much of it at once."""
    complete = "CompleteMultipartUpload"
    at_once = AtOnce()
    with ScriptedS3() as server:
        prepared = staged(f"s3://{SCRIPTED}/commit", files, server.conf)
        server.fail(complete, at_once.answer, times=None)
        before = len(server.log)
        prepared.commit()
        asked = server.log[before:]
    # What probes the store completes an upload, too: one that there is not.
    of_files = [one for one in asked if one.operation == complete and "/part-" in one.key]
    return {"a_file": len(of_files), "other": len(asked) - len(of_files), "at_once": at_once.most}


class AtOnce:
    """A server's order for a call: take a moment, and count those that are under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0

    def answer(self, exchange: Exchange) -> None:
        exchange.read_request()
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(0.005)
        answer = exchange.execute()
        with self._lock:
            self._now -= 1
        exchange.send(answer)


# --- streams ---


@pytest.fixture
def source(spark: SparkBench, quick: bool) -> Path:
    """Files of a thousand lines: one for each batch."""
    return lines(spark.directory / "sources" / spark.new_name(), 12 if quick else 16)


def test_batch(spark: SparkBench, source: Path, on_disk: Path, ratios: Callable[..., None]) -> None:
    """A query to local files; its checkpoint is in memory, its output on the disk."""

    def run(name: str) -> Answer:
        out = str(on_disk / spark.new_name())
        if name == OURS:
            return batches(
                spark,
                source,
                lambda to: to.format("hflush").option("encoding", "text").option("path", out),
            )
        return batches(spark, source, lambda to: to.format("text").option("path", out))

    about = f"streaming batch of {ROWS:,} rows to local files"
    ratios(
        [
            Quantity(
                "trigger", f"{about}: from its trigger on", [Target(SPARKS_SINK, time_at_most=1.2)]
            ),
            Quantity("batch", f"{about}: the sink's part"),
        ],
        ours=partial(run, OURS),
        peers={SPARKS_SINK: partial(run, SPARKS_SINK)},
        rounds=5,
    )


def test_epoch(
    spark: SparkBench,
    spark_hdfs: str,
    source: Path,
    ratios: Callable[..., None],
) -> None:
    """An epoch of the ForeachWriter with hflush at its end, beside a batch of Spark's sink."""
    from pyspark import cloudpickle

    by_value: Callable[[object], None] = cloudpickle.register_pickle_by_value
    by_value(spark_queries)  # workers cannot import it

    def ours() -> Answer:
        notes = spark.directory / spark.new_name()
        writer = TimedWriter(spark.new_url(spark_hdfs), notes, level="hflush")
        answer = batches(spark, source, lambda to: to.foreach(writer))
        return {**answer, "epoch": TimedWriter.noted(notes)}

    def sparks() -> Answer:
        out = spark.new_url(spark_hdfs)
        answer = batches(spark, source, lambda to: to.format("text").option("path", out))
        return {**answer, "epoch": answer["batch"]}

    about = f"{ROWS:,} rows to HDFS by the ForeachWriter, hflush"
    target = Target(SPARKS_SINK, time_at_most=0.2)
    ratios(
        [
            Quantity("epoch", f"{about}: from open until close has returned, p50", [target]),
            Quantity("batch", f"{about}: with Spark's job around it, p50"),
        ],
        ours=ours,
        peers={SPARKS_SINK: sparks},
        rounds=5,
    )


@pytest.mark.parametrize(
    ("cluster", "where"),
    [("spark_hdfs", "data in memory"), ("spark_on_disk", "data on disk")],
)
def test_persist(
    cluster: str,
    where: str,
    request: pytest.FixtureRequest,
    ratio: Callable[..., None],
    quick: bool,
) -> None:
    """What a token costs: a `persist` is an hsync, as Flink's is."""
    below = request.getfixturevalue(cluster)

    def open_stream() -> hflush.FSDataOutputStream:
        return hflush.create(f"{below}/persisted", overwrite=True)

    def after_each(finish: Callable[[hflush.FSDataOutputStream], object]) -> Contender:
        def run(out: hflush.FSDataOutputStream) -> None:
            out.write(RECORD)
            finish(out)

        return Contender(run, open_stream, hflush.FSDataOutputStream.close)

    ratio(
        f"write of 1 KiB + persist on HDFS, 3 replicas, {where}",
        ours=after_each(hflush.FSDataOutputStream.persist),
        peers={
            "its hflush": after_each(hflush.FSDataOutputStream.hflush),
            "its hsync": after_each(hflush.FSDataOutputStream.hsync),
        },
        targets=[Target("its hflush", time_at_most=1.1)],
        calls=50 if quick else 300,
        rounds=11,
    )
