"""A Spark job that writes through hflush, and proof that what it wrote is right.

    python demo/flights.py [--stream] [--fs hdfs|s3] [--out URL] [--master MASTER] [--rows N] …

The flights that left New York City in 2013 (336,776 of them) are spread over Spark tasks, which
run in Python workers without a JVM gateway. They are written as tables, in Parquet and in CSV, by
df.write.format("hflush"), in one commit each; and as a journal that several threads append to and
sync at once. A task of the first and of the last fails half-way, and Spark repeats it. Then Spark's
own JVM readers read everything back; row counts, sums, a fingerprint of all values and the CRC32C
of every file are compared: exit code 1 on any difference.

With --stream the flights come day by day, as batches of a streaming query that is killed in the
middle and started again: each row is there once.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import cluster
import dataset
import engine
import hflush
import readback
import report
import streaming
from hflush.spark import last_commit
from hflush.spark.commit import vacuum
from hflush.statistics import aggregate
from manifest import Manifest
from readback import Written
from tasks import PUBLISHED_SCHEMA, Failure, JournalTask, Published, stored_crc32c

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLES = ("parquet", "csv")
ENCODINGS = (*TABLES, "journal")
LOCAL = ("local", "file")
STARTED = {"hdfs": (cluster.hdfs, "an HDFS of 3 DataNodes"), "s3": (cluster.s3, "a MinIO")}


def main(arguments: Sequence[str] | None = None, spark: SparkSession | None = None) -> int:
    """Run the demo, in a session of its own unless one is given; return the exit code."""
    options = parse(arguments)
    started = time.perf_counter()
    with ExitStack() as stack:
        if options.fs in STARTED and not options.out:
            start, name = STARTED[options.fs]
            options.fs = stack.enter_context(start())
            say(f"{name} is up after {time.perf_counter() - started:.1f} s")
        out = absolute(options.out or stack.enter_context(scratch_directory(options.fs)))
        say(f"hflush {hflush.__version__} under Spark, {options.master}, to {out}")
        torn = None
        if options.stream:
            torn = stack.enter_context(streaming.begun(out, options))
        spark = spark or stack.enter_context(engine.session(options.master))
        say(f"Spark {spark.version} is up after {time.perf_counter() - started:.1f} s")
        if torn is not None:
            correct = streaming.finish(spark, torn)
        else:
            if not options.verify_only:
                write_all(spark, out, options)
            correct = verify_all(spark, out)
    say(f"\n{'OK' if correct else 'DIFFERENT'} after {time.perf_counter() - started:.1f} s")
    return 0 if correct else 1


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", metavar="URL", help="directory to write, replacing an earlier run's")
    add(
        "--fs",
        metavar="URL",
        default="local",
        help="without --out: the file system for a temporary one; local or file; or hdfs or s3: "
        "servers that are started for it (default: %(default)s)",
    )
    add("--master", default="local[*]", help="Spark master (default: %(default)s)")
    add("--rows", type=positive, help="flights to write (default: all)")
    add("--partitions", type=positive, default=8, help="tasks of a job (default: %(default)s)")
    add("--stream", action="store_true", help="write day by day, in a query that is killed")
    add(
        "--days",
        type=positive,
        default=14,
        help="with --stream: days, each a batch (default: %(default)s)",
    )
    add(
        "--journal-every",
        type=positive,
        metavar="N",
        default=250,
        help="records that a journal thread writes between two hsyncs (default: %(default)s)",
    )
    add(
        "--failure",
        choices=["raise", "kill"],
        default="raise",
        help="what one task does half-way through its first attempt (default: %(default)s)",
    )
    add("--verify-only", action="store_true", help="compare what an earlier run left in --out")
    options = parser.parse_args(arguments)
    is_place = has_scheme(options.fs) or Path(options.fs).is_absolute()
    if options.fs not in (*LOCAL, *STARTED) and not is_place:
        known = ", ".join((*LOCAL, *STARTED))
        parser.error(f"--fs {options.fs}: it can be {known}, or a URL such as hdfs://namenode:8020")
    if options.verify_only and not options.out:
        parser.error("--verify-only needs --out")
    if options.stream and (options.verify_only or options.rows):
        parser.error("--stream takes --days, and neither --rows nor --verify-only")
    if options.stream and options.days < streaming.LEAST_DAYS:
        parser.error(f"--days {options.days}: there is no middle to kill the query in")
    if options.stream and (options.out or options.fs).startswith("file+crc"):
        parser.error("--stream: Spark, which reads its log, knows no file+crc")
    return options


def write_all(spark: SparkSession, out: str, options: argparse.Namespace) -> None:
    """Write every encoding, print what that took, and leave a manifest for the verification."""
    table = dataset.flights(options.rows)
    frame = dataset.distribute(spark, table, options.partitions)
    expected = readback.expected_facts(table, frame)
    slices = dataset.slices(table.num_rows, options.partitions)
    say(f"{table.num_rows:,} flights, {table.num_columns} columns, {len(slices)} partitions\n")
    say(report.HEADER)
    victim = len(slices) // 2
    failure = Failure(victim, slices[victim] // 2, options.failure)
    fs = hflush.FileSystem.get(out)
    for encoding in ENCODINGS:
        fs.delete(f"{out}/flights.{encoding}", recursive=True)
    write_table(spark, frame, out, "parquet", failure)
    write_table(spark, frame, out, "csv")
    journal = JournalTask(fs, f"{out}/flights.journal", options.journal_every, failure)
    write_journal(spark, frame, journal)
    files = (file for encoding in ENCODINGS for file in written(fs, out, encoding))
    Manifest(expected, tuple(files)).save(out)


def write_table(
    spark: SparkSession,
    frame: DataFrame,
    out: str,
    encoding: str,
    failure: Failure | None = None,
) -> None:
    """Write a table in one commit; print its line, from what the commit remembers."""
    directory = f"{out}/flights.{encoding}"
    spark.sparkContext.setJobGroup(encoding, f"write {directory}")
    rows = frame.mapInArrow(failure, frame.schema) if failure else frame
    options = {"encoding": encoding, "durability": "hsync"}
    if encoding == "csv":
        options["header"] = "true"
    began = time.perf_counter()
    rows.write.format("hflush").options(**options).mode("append").save(directory)
    seconds = time.perf_counter() - began
    done = last_commit(directory)
    assert done is not None, "save() has returned"
    streams = done.report.io_statistics()
    say(report.line(encoding, done.files, done.rows, done.length, seconds, streams))
    if failure:
        ran_again = next(t for t in done.report.tasks if t.partition == failure.partition)
        say_retry(spark, encoding, failure, f"its {ran_again.rows:,} rows were committed once")
        left = vacuum(directory, older_than=0).swept
        say(
            f"{'':9} nothing of the first attempt was ever visible; vacuum removed {left} leftovers"
        )


def write_journal(spark: SparkSession, frame: DataFrame, task: JournalTask) -> None:
    """Write the journal, a task per partition; print its line of the table."""
    task.fs.mkdirs(task.directory)
    spark.sparkContext.setJobGroup("journal", f"write {task.directory}")
    rows = frame.mapInArrow(task, PUBLISHED_SCHEMA).collect()
    done = [Published(**row.asDict()) for row in rows]
    seconds = max(one.ended for one in done) - min(one.started for one in done)
    streams = aggregate(hflush.IOStatistics.from_json(one.statistics) for one in done)
    counts = len(done), sum(one.rows for one in done), sum(one.bytes for one in done)
    say(report.line("journal", *counts, seconds, streams))
    again = next(one for one in done if one.partition == task.failure.partition)
    if again.attempt == 0:
        raise RuntimeError("the injected failure did not happen")
    say_retry(spark, "journal", task.failure, f"attempt {again.attempt} published {again.rows:,}")
    for attempt in sweep(task):
        say(f"{'':9} swept {attempt}, which no reader ever saw")


def say_retry(spark: SparkSession, group: str, failure: Failure, outcome: str) -> None:
    """Say how the injected failure went; it is an error if it did not happen."""
    if engine.failed_tasks(spark, group) == 0:
        raise RuntimeError("the injected failure did not happen")
    ended = "was killed" if failure.kind == "kill" else "raised"
    say(
        f"{'':9} partition {failure.partition} {ended} after {failure.after_rows:,} rows, as asked;"
        f" Spark repeated it: {outcome}"
    )


def written(fs: hflush.FileSystem, out: str, encoding: str) -> Iterator[Written]:
    """Return the files that readers see, as hflush has them."""
    for status in fs.list_status(f"{out}/flights.{encoding}"):
        name = status.path.rpartition("/")[2]
        if not name.startswith(("_", ".")):
            yield Written(encoding, name, status.length, stored_crc32c(fs, status.path))


def sweep(task: JournalTask) -> Iterator[str]:
    """Delete what failed attempts left behind; yield what it was."""
    for status in task.fs.list_status(task.directory):
        if status.path.endswith(".attempt"):
            task.fs.delete(status.path)
            yield f"{status.path.rpartition('/')[2]} ({status.length:,} bytes)"


def verify_all(spark: SparkSession, out: str) -> bool:
    """Read everything below `out` with the JVM, print what was found, and say if it is right."""
    manifest = Manifest.load(out)
    correct = True
    with readback.readable(out) as (below, how):
        say(f"\nread back by Spark's JVM readers{how}; CRC32C by the JDK")
        for encoding in ENCODINGS:
            directory = f"{below}/flights.{encoding}"
            files = [file for file in manifest.files if file.encoding == encoding]
            checked = readback.check(spark, directory, encoding, manifest.expected, files)
            say(str(checked))
            correct = correct and not checked.differences
    return correct


def absolute(url: str) -> str:
    """Return the destination as a URL: Spark and hflush differ in what a bare path means."""
    return url.rstrip("/") if has_scheme(url) else f"file://{Path(url).absolute()}"


def has_scheme(url: str) -> bool:
    return ":" in url.partition("/")[0]


@contextmanager
def scratch_directory(fs: str) -> Iterator[str]:
    """Choose a new directory of that file system, and remove it at the end."""
    parent = tempfile.gettempdir() if fs in LOCAL else f"{fs.rstrip('/')}/tmp"
    directory = absolute(f"{parent}/hflush-demo-{uuid.uuid4().hex[:8]}")
    try:
        yield directory
    finally:
        hflush.FileSystem.get(directory).delete(directory, recursive=True)


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
