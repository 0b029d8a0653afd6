"""A Spark job whose executors write through hflush, and proof that what they wrote is right.

    python demo/flights.py [--fs hdfs|s3] [--out URL] [--master MASTER] [--rows N] …

The flights that left New York City in 2013 (336,776 of them) are spread over Spark tasks. Each
task, in a Python worker without a JVM gateway, writes its partition through an hflush stream: as
Parquet, as CSV, and as a journal that several threads append to and sync at once. One task is made
to fail half-way, and Spark repeats it. Then Spark's own JVM readers read everything back; row
counts, sums, a fingerprint of all values and the CRC32C of every file are compared: exit code 1 on
any difference.
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
from manifest import Manifest
from sink import PUBLISHED_SCHEMA, Failure, Job, Published

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENCODINGS = ("parquet", "csv", "journal")
FAILING_ENCODING = "journal"
STARTED = {"hdfs": (cluster.hdfs, "an HDFS of 3 DataNodes"), "s3": (cluster.s3, "a MinIO")}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return the exit code."""
    options = parse(arguments)
    started = time.perf_counter()
    with ExitStack() as stack:
        if options.fs in STARTED and not options.out:
            start, name = STARTED[options.fs]
            options.fs = stack.enter_context(start())
            say(f"{name} is up after {time.perf_counter() - started:.1f} s")
        out = absolute(options.out or stack.enter_context(scratch_directory(options.fs)))
        say(f"hflush {hflush.__version__} under Spark, {options.master}, to {out}")
        spark = stack.enter_context(engine.session(options.master))
        say(f"Spark {spark.version} is up after {time.perf_counter() - started:.1f} s")
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
        help="without --out: the file system for a temporary one, or hdfs or s3: servers that are "
        "started for it (default: %(default)s)",
    )
    add("--master", default="local[*]", help="Spark master (default: %(default)s)")
    add("--rows", type=positive, help="flights to write (default: all)")
    add("--partitions", type=positive, default=8, help="tasks per encoding (default: %(default)s)")
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
    if options.verify_only and not options.out:
        parser.error("--verify-only needs --out")
    return options


def write_all(spark: SparkSession, out: str, options: argparse.Namespace) -> None:
    """Write every encoding, print what that took, and leave a manifest for the verification."""
    table = dataset.flights(options.rows)
    frame = dataset.distribute(spark, table, options.partitions)
    expected = readback.expected_facts(table, frame)
    slices = dataset.slices(table.num_rows, options.partitions)
    say(f"{table.num_rows:,} flights, {table.num_columns} columns, {len(slices)} partitions\n")
    say(report.HEADER)
    fs = hflush.FileSystem.get(out)
    victim = len(slices) // 2
    files: list[Published] = []
    for encoding in ENCODINGS:
        fails = encoding == FAILING_ENCODING
        failure = Failure(victim, slices[victim] // 2, options.failure) if fails else None
        job = Job(fs, f"{out}/flights.{encoding}", encoding, options.journal_every, failure)
        files += write(spark, frame, job)
    Manifest(expected, tuple(files)).save(out)


def write(spark: SparkSession, frame: DataFrame, job: Job) -> list[Published]:
    """Run one Spark job, a task per partition; print its line of the table; return its files."""
    job.fs.delete(job.directory, recursive=True)
    job.fs.mkdirs(job.directory)
    spark.sparkContext.setJobGroup(job.encoding, f"write {job.directory}")
    rows = frame.mapInArrow(job, PUBLISHED_SCHEMA).collect()
    files = [Published(**row.asDict()) for row in rows]
    say(report.line(job.encoding, files))
    if job.failure:
        report_retry(spark, job, job.failure, files)
    return files


def report_retry(spark: SparkSession, job: Job, failure: Failure, files: list[Published]) -> None:
    """Say how the injected failure went; it is an error if it did not happen."""
    failed = engine.failed_tasks(spark, job.encoding)
    repeated = next(file for file in files if file.partition == failure.partition)
    if failed == 0 or repeated.attempt == 0:
        raise RuntimeError("the injected failure did not happen")
    ended = "was killed" if failure.kind == "kill" else "raised"
    say(
        f"{'':9} partition {failure.partition} {ended} after {failure.after_rows:,} rows, as asked;"
        f" Spark repeated it: attempt {repeated.attempt} published {repeated.rows:,}"
    )
    for attempt in sweep(job):
        say(f"{'':9} swept {attempt}, which no reader ever saw")


def sweep(job: Job) -> Iterator[str]:
    """Delete what failed attempts left behind; yield what it was."""
    for status in job.fs.list_status(job.directory):
        if status.path.endswith(".attempt"):
            job.fs.delete(status.path)
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
    has_scheme = ":" in url.partition("/")[0]
    return url.rstrip("/") if has_scheme else f"file://{Path(url).absolute()}"


@contextmanager
def scratch_directory(fs: str) -> Iterator[str]:
    """Choose a new directory of that file system, and remove it at the end."""
    parent = tempfile.gettempdir() if fs == "local" else f"{fs.rstrip('/')}/tmp"
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
