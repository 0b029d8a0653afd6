"""The streaming query of the demo; as a program, the run of it that is killed.

The program prints a line of JSON for each batch that it has finished. In one batch a task waits
until the program's parent kills it, with all that is under way in it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import engine
from tasks import Pause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS = 2  # of a batch
POLL_S = 0.05


@dataclass(frozen=True)
class Place:
    """Where a query reads, remembers and writes: URLs that Spark's JVM knows, but for `out`."""

    days: str
    """A Parquet file for each day, in the order of their times."""
    checkpoint: str
    out: str


@dataclass(frozen=True)
class Batch:
    """A batch that a run of the query has finished, as Spark tells of it."""

    number: int
    rows: int
    began: float
    """Seconds since the epoch."""
    seconds: float

    @classmethod
    def of(cls, progress: dict[str, Any]) -> Batch:
        began = datetime.datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00"))
        seconds = progress["durationMs"]["triggerExecution"] / 1000
        return cls(progress["batchId"], progress["numInputRows"], began.timestamp(), seconds)


def run(spark: SparkSession, place: Place, pause: Pause | None = None) -> Iterator[Batch]:
    """Write what there is to read, a file a batch, exactly once; yield each batch as it is done."""
    schema = spark.read.parquet(place.days).schema
    days = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(place.days)
    rows = days.repartition(TASKS)
    query = (
        (rows.mapInArrow(pause, rows.schema) if pause else rows)
        .writeStream.format("hflush")
        .option("partitionBy", "date")
        .option("checkpointLocation", place.checkpoint)
        .trigger(availableNow=True)
        .start(place.out)
    )
    last, is_over = -1, False
    while not is_over:
        is_over = query.awaitTermination(POLL_S)  # raises what the query has failed with
        for progress in query.recentProgress:
            batch = Batch.of(json.loads(progress.json))
            if batch.rows and batch.number > last:
                last = batch.number
                yield batch


def main() -> None:
    """Run the query until it is killed."""
    parser = argparse.ArgumentParser(prog="query")
    for name in ("days", "checkpoint", "out", "master"):
        parser.add_argument(name)
    parser.add_argument("batch", type=int)
    options = parser.parse_args()
    place = Place(options.days, options.checkpoint, options.out)
    with engine.session(options.master) as spark:
        for batch in run(spark, place, Pause(options.batch, TASKS - 1)):
            print(json.dumps(asdict(batch)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
