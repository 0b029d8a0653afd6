"""Flights by day as a stream, whose query is killed in the middle of a batch and started again.

`begun` lays out the days, runs the query in a process of its own (query.py) and kills it, with
`kill -9`, when a task of the batch in the middle has written its file and another has not. `finish`
starts the same query again, lets a second one try the same path, and compares what Spark's readers
find with the days.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import dataset
import hflush
import readback
from hflush.checkpoint import FileStreamSinkLog
from hflush.spark.commit import vacuum
from picture import picture
from query import Batch, Place, run
from tasks import PATIENCE_S

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

LEAST_DAYS = 3
POLL_S = 0.05


@dataclass(frozen=True)
class Torn:
    """A query that was killed in the middle of a batch."""

    place: Place
    table: pa.Table
    finished: tuple[Batch, ...]
    strays: tuple[str, ...]
    """Names of files that are in no log."""


@contextmanager
def begun(out: str, options: argparse.Namespace) -> Iterator[Torn]:
    """Run the query until it is killed; what it reads and remembers is gone after the block."""
    table = dataset.by_day(options.days)
    fs = hflush.FileSystem.get(out)
    with tempfile.TemporaryDirectory(prefix="hflush-demo-") as local:
        # Spark comes without a client of S3: what it reads itself is on this machine then.
        beside = f"file://{local}" if is_s3(out) else out
        place = Place(f"{beside}/days", f"{beside}/checkpoint", f"{out}/flights.stream")
        for directory in (f"{out}/days", f"{out}/checkpoint", place.out):
            fs.delete(directory, recursive=True)
        dataset.lay_out(table, place.days)
        print(f"{table.num_rows:,} flights of {options.days} days, a batch each", flush=True)
        yield killed(place, table, options.days // 2, options.master)


def killed(place: Place, table: pa.Table, batch: int, master: str) -> Torn:
    """Start the query; kill it once a file of a batch is there and another is not."""
    command = [sys.executable, Path(__file__).with_name("query.py")]
    arguments = [place.days, place.checkpoint, place.out, master, str(batch)]
    process = subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        strays = await_torn(process, place, batch)
    finally:
        # Its JVM, too: they are in one group. Python workers end with the JVM.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        said = process.communicate()[0]
    finished = tuple(Batch(**json.loads(text)) for text in said.splitlines())
    return Torn(place, table, finished, strays)


def await_torn(process: subprocess.Popen[str], place: Place, batch: int) -> tuple[str, ...]:
    """Wait until a batch has a file, and is not in the log; return its files.

    The query is given up if nothing is new in its log for a while.
    """
    latest, deadline = None, time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the query ended with {process.returncode} instead of being killed")
        before, latest = latest, log_of(place).get_latest_batch_id()
        if latest != before:
            deadline = time.monotonic() + PATIENCE_S
        if latest == batch - 1 and (strays := unlisted(place)):
            return strays
        time.sleep(POLL_S)
    raise TimeoutError(f"no file of batch {batch}, and the log is at {latest} for {PATIENCE_S} s")


def finish(spark: SparkSession, torn: Torn) -> bool:
    """Go on with the query, try another on its path, draw what happened; say if all is right."""
    second = list(run(spark, torn.place))
    refusal = refused(spark, torn.place)
    left = unlisted(torn.place)
    strays = vacuum(torn.place.out, older_than=0).strays
    print()
    count = len(torn.strays)
    for line in picture(
        torn.finished,
        f"kill -9: {count} {'file' if count == 1 else 'files'} of it written, none in the log",
        second,
    ):
        print(line)
    print(f"\na second query on the path: {refusal}")
    print(f"files of the killed run that no reader saw: {len(left)}; vacuum removed {strays}")
    differences = [*differences_of_batches(torn, second), *differences_of_rows(spark, torn)]
    if left != torn.strays or unlisted(torn.place):
        differences.append(f"in no log are {left}, then {unlisted(torn.place)}")
    for difference in differences:
        print(f"DIFFERENT: {difference}")
    if not differences:
        print(f"read back by Spark: {torn.table.num_rows:,} rows, each once, all facts equal")
    return not differences


def refused(spark: SparkSession, place: Place) -> str:
    """Start another query on the path; return why it has failed."""
    from pyspark.errors import StreamingQueryException

    try:
        list(run(spark, replace(place, checkpoint=f"{place.checkpoint}-of-another")))
    except StreamingQueryException as failure:
        lines = (line.strip() for line in str(failure).splitlines())
        return next(line for line in lines if line.startswith("hflush.spark.ForeignQueryError"))
    raise RuntimeError("a second query has written to the path")


def differences_of_batches(torn: Torn, second: list[Batch]) -> Iterator[str]:
    """Compare the batches of the two runs with the days."""
    days = [count["counts"] for count in torn.table["date"].value_counts().to_pylist()]
    middle = len(days) // 2
    if [batch.rows for batch in torn.finished] != days[:middle]:
        yield f"the killed run has finished {torn.finished}"
    if [batch.rows for batch in second] != days[middle:]:
        yield f"the second run has written {second}"


def differences_of_rows(spark: SparkSession, torn: Torn) -> Iterator[str]:
    """Compare what Spark's reader finds with the days."""
    with readable(torn.place) as (directory, how):
        columns = torn.table.column_names
        expected = readback.expected_facts(torn.table, spark.read.parquet(torn.place.days))
        found = spark.read.parquet(directory).select(*columns)
        facts = readback.table_facts(found)
        distinct = found.select("row").distinct().count()
    if distinct != torn.table.num_rows:
        yield f"there are {distinct:,} of {torn.table.num_rows:,} rows{how}"
    for name, wanted in expected.table.items():
        if facts[name] != wanted:
            yield f"{name} is {facts[name]:,} instead of {wanted:,}{how}"


@contextmanager
def readable(place: Place) -> Iterator[tuple[str, str]]:
    """Yield a directory that Spark's reader finds the files of the log in, and how.

    Where it can read the destination, that: it follows the log by itself.
    """
    if not is_s3(place.out):
        yield place.out, ""
        return
    listed = {file.path.removeprefix(f"{place.out}/") for file in log_of(place).all_files()}
    with readback.readable(place.out) as (directory, how):
        copied = Path(directory.removeprefix("file://"))
        for file in [path for path in copied.rglob("*") if path.is_file()]:
            if file.relative_to(copied).as_posix() not in listed:
                file.unlink()
        shutil.rmtree(copied / "_spark_metadata")  # Spark would look for its files where they were
        yield directory, how


def unlisted(place: Place) -> tuple[str, ...]:
    """Return the names of data files that are in no log."""
    fs = hflush.FileSystem.get(place.out)
    try:
        found = [status.path for status in fs.list_files(place.out, recursive=True)]
    except FileNotFoundError:
        return ()
    # Listed first: what is added to the log meanwhile is no stray.
    listed = {file.path.rpartition("/")[2] for file in log_of(place).all_files()}
    names = (path.rpartition("/")[2] for path in found)
    return tuple(sorted(name for name in names if name.startswith("part-") and name not in listed))


def log_of(place: Place) -> FileStreamSinkLog:
    return FileStreamSinkLog(f"{place.out}/_spark_metadata")


def is_s3(url: str) -> bool:
    return url.startswith(("s3:", "s3a:"))
