"""Streaming queries of a thousand rows a batch, which end when they have read their files."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from hdfs_cluster import Answer
from hflush.spark import ForeachWriter
from spark_session import SparkBench

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.streaming.readwriter import DataStreamWriter

ROWS = 1000
FIRST = 5  # batches in which a query opens what it keeps
MS = 1e-3

Sink = Callable[["DataStreamWriter"], "DataStreamWriter"]


def lines(directory: Path, batches: int) -> Path:
    """Make a file of lines for each batch, of a hundred characters each."""
    directory.mkdir(parents=True)
    for number in range(batches):
        text = "".join(f"{number:06d} {line:06d} {'x' * 86}\n" for line in range(ROWS))
        (directory / f"{number:06d}.txt").write_text(text)
    return directory


def batches(spark: SparkBench, source: Path, to: Sink) -> Answer:
    """Run a query with a new checkpoint, a batch for each file; medians, in seconds.

    trigger   a whole batch, from its trigger on, with Spark's own logs
    batch     the part that is the sink's: from the plan until the batch is committed
    """
    read = spark.session.readStream.format("text").option("maxFilesPerTrigger", 1)
    checkpoint = spark.directory / "checkpoints" / spark.new_name()
    query = (
        to(read.load(str(source)).writeStream)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    done = [progress for progress in query.recentProgress if progress.numInputRows == ROWS]
    assert len(done) == len(list(source.iterdir()))
    return {
        "trigger": _median(done, "triggerExecution"),
        "batch": _median(done, "addBatch"),
    }


def _median(done: list[Any], name: str) -> float:
    return statistics.median(float(progress.durationMs[name]) * MS for progress in done[FIRST:])


def line(row: Row) -> str:
    return f"{row.value}\n"


class TimedWriter(ForeachWriter):
    """Notes for each epoch how long it took, from `open` until `close` has returned."""

    def __init__(self, path: str, notes: Path, **options: Any) -> None:
        super().__init__(path, line, suffix=".txt", **options)
        self._notes = str(notes)
        self._started = 0.0

    def open(self, partition_id: int, epoch_id: int) -> bool:
        self._started = perf_counter()
        return super().open(partition_id, epoch_id)

    def close(self, error: BaseException | None) -> None:
        super().close(error)
        note = f"{perf_counter() - self._started!r}\n"
        descriptor = os.open(self._notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, note.encode())
        os.close(descriptor)

    @staticmethod
    def noted(notes: Path) -> float:
        """The median of the epochs."""
        return statistics.median(map(float, notes.read_text().splitlines()[FIRST:]))
