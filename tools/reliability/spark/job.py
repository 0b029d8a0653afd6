"""A Spark of its own that obeys orders, one a line, and answers each with a line.

    prepare CASE SINK DIRECTORY      the rows that are there before; for a query, the files it reads
    write CASE SINK DIRECTORY        the write that may be killed: answers "begun", and then "done"
    rows CASE SINK DIRECTORY         the rows that Spark reads there, as JSON

A write that is refused is answered with "refused" and why.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

ROWS, TASKS, BATCHES = 20_000, 100, 4
OLD = 1_000
HFLUSH = "hflush"


class Job:
    """One place that is written to: a case, by a sink."""

    def __init__(self, spark: SparkSession, case: str, sink: str, directory: str) -> None:
        self._spark, self._case, self._is_ours = spark, case, sink == HFLUSH
        self._source, self._checkpoint = f"{directory}/source", f"{directory}/checkpoint"
        self._out = written_in(directory)

    def prepare(self) -> None:
        if self._case in ("append", "overwrite"):
            self._save(self._spark.range(-OLD, 0, 1, 2), "append", "before")
            return
        self._add_files(0)
        if self._case == "second":  # the first query, which has nothing to fear
            self._stream("first")
            self._add_files(BATCHES)

    def write(self) -> None:
        if self._case in ("append", "overwrite"):
            self._save(self._spark.range(0, ROWS, 1, TASKS), self._case, "the job")
        else:
            self._stream(self._case)

    def rows(self) -> list[int]:
        try:
            return [
                row.id for row in self._spark.read.schema("id bigint").parquet(self._out).collect()
            ]
        except Exception as error:
            if "PATH_NOT_FOUND" in str(error):
                return []
            raise

    def _save(self, frame: DataFrame, mode: str, name: str) -> None:
        writer = frame.write.format("hflush" if self._is_ours else "parquet").mode(mode)
        if self._is_ours:
            writer = writer.option("commitId", name)
        writer.save(self._out)

    def _add_files(self, first: int) -> None:
        Path(self._source).mkdir(exist_ok=True)
        for number in range(first, first + BATCHES):
            rows = "".join(f"{row}\n" for row in rows_of_batch(number))
            Path(self._source, f"{number:03}.csv").write_text(rows)

    def _stream(self, name: str) -> None:
        lines = self._spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1)
        frame = lines.csv(self._source).repartition(20)
        query = frame.writeStream.format("hflush" if self._is_ours else "parquet")
        query = query.option("checkpointLocation", f"{self._checkpoint}/{name}")
        query.trigger(availableNow=True).start(self._out).awaitTermination()


def written_in(directory: str) -> str:
    """Return where a job writes whose directory this is."""
    return f"{directory}/out"


def rows_of_batch(number: int) -> range:
    """Return the rows of a file that a query reads."""
    size = ROWS // BATCHES
    return range(number * size, (number + 1) * size)


def say(*words: object) -> None:
    print(*words, flush=True)


def main() -> None:
    builder: Any = SparkSession.builder
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "20",
        "spark.driver.memory": "1g",
    }.items():
        builder = builder.config(key, value)
    spark = builder.master("local[2]").getOrCreate()
    for line in sys.stdin:
        what, *where = line.split()
        job = Job(spark, *where)
        if what == "prepare":
            job.prepare()
            say("done")
        elif what == "rows":
            say(json.dumps(job.rows()))
        else:
            say("begun")
            try:
                job.write()
            except Exception as error:
                say("refused", str(error).splitlines()[0])
            else:
                say("done")


if __name__ == "__main__":
    main()
