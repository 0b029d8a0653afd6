"""Batches of a streaming query whose driver is going to be killed, or whose store fails once."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from typing import Any

import pyarrow as pa
from faults.commit_writer import struck
from hflush.spark.settings import WriteSettings
from hflush.spark.stream import BatchWritten, StreamWriter
from pyspark import TaskContext
from pyspark.sql.types import StringType, StructField, StructType

SCHEMA = StructType([StructField("value", StringType())])
ROWS = 3  # of a partition
# Every second batch is compacted, and what is compacted is removed at once.
CONF = {
    "spark.sql.streaming.fileSink.log.compactInterval": "2",
    "spark.sql.streaming.fileSink.log.cleanupDelay": "0",
    "spark.sql.streaming.minBatchesToRetain": "1",
}


def rows(batch: int, partitions: int) -> list[str]:
    """What a batch has."""
    return [f"{batch}.{number}.{row}" for number in range(partitions) for row in range(ROWS)]


def written(writer: StreamWriter, query: str, batch: int, partition: int) -> BatchWritten:
    """Do what a task does, in its context."""
    context = TaskContext._getOrCreate()
    context._partitionId = partition
    context._taskAttemptId = partition
    context._localProperties = {
        "sql.streaming.queryId": query,
        "streaming.sql.batchId": str(batch),
    }
    values = rows(batch, partition + 1)[-ROWS:]
    return writer.write(iter([pa.RecordBatch.from_pydict({"value": values})]))


def tasks(
    url: str, conf: dict[str, str], query: str, batch: int, partitions: int
) -> tuple[StreamWriter, list[BatchWritten | None]]:
    """Do what the tasks of a batch do; return what commits it, and what they have told it."""
    settings = WriteSettings.of_stream({"path": url, "encoding": "json", **conf, **CONF})
    writer = StreamWriter(settings, SCHEMA)
    messages = [written(writer, query, batch, number) for number in range(partitions)]
    return StreamWriter(settings, SCHEMA), list(messages)


def commit(writer: StreamWriter, messages: list[BatchWritten | None], batch: int) -> None:
    """Do what Spark's driver does at the end of a batch: it aborts what it could not commit."""
    try:
        writer.commit(messages, batch)
    except OSError:
        writer.abort(messages, batch)
        raise


def run(
    url: str,
    conf: dict[str, str],
    query: str,
    batches: list[int],
    partitions: int,
    how: str,
    chosen: int,
) -> dict[str, Any]:
    """Run batches of a query; in the commit of the last one something happens at a call.

    Before the call it is killed (`how` is ``kill``); or the call fails, before it has been made
    (``fail-before``) or after (``fail-after``). Returns how many calls that commit made, and
    whether it failed.
    """
    *earlier, last = batches
    for batch in earlier:
        commit(*tasks(url, conf, query, batch, partitions), batch)
    ready = tasks(url, conf, query, last, partitions)
    return struck(how, chosen, lambda: commit(*ready, last))


def main() -> None:
    """Run batches in a fork for each line of standard input; answer ``killed`` if it was."""
    pa.array(["row"])  # loads pandas, once for all forks
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                answer = run(*json.loads(line))
                os.write(writer, json.dumps(answer).encode())
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.close(writer)
        with open(reader, "rb") as pipe:
            said = pipe.read().decode()
        _, status = os.waitpid(child, 0)
        ends = {0: said, -signal.SIGKILL: '"killed"'}
        print(ends.get(os.waitstatus_to_exitcode(status), '"broken"'), flush=True)


if __name__ == "__main__":
    main()
