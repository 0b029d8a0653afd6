"""What runs in the executors' Python workers: no JVM gateway, no driver, only a partition's rows.

The tables are written by hflush's data source, whose tasks stage and whose driver commits. A
`JournalTask` writes by itself, as a program does for which there is no data source: readers only
ever see whole files, as an attempt is a hidden file (Spark skips names that begin with a dot) until
its stream is closed and it is renamed. Where nothing appears before close anyway, as on S3, there
is no attempt file. Two attempts that both get to the end publish the same rows under the same name,
one after the other: to let exactly one publish takes a commit, which the data source has.
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import hflush
from journal import Journal

if TYPE_CHECKING:
    import pyarrow as pa

READ_BYTES = 1 << 20
PATIENCE_S = 300


class InjectedFailure(Exception):
    """The failure that the demo was asked to cause."""


@dataclass(frozen=True)
class Failure:
    """How the first attempt at a partition ends once so many of its rows have gone through."""

    partition: int
    after_rows: int
    kind: str
    """"raise", or "kill": the worker is gone at once, as when Spark cancels a task."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass all rows on, or fail (for `mapInArrow`)."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "a Failure happens to a Spark task"
        if context.attemptNumber() > 0 or context.partitionId() != self.partition:
            yield from batches
            return
        left = self.after_rows
        for batch in batches:
            if batch.num_rows >= left:
                yield batch.slice(0, left)
                break
            yield batch
            left -= batch.num_rows
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise InjectedFailure(f"on purpose, after {self.after_rows:,} rows")


@dataclass(frozen=True)
class Pause:
    """Makes a task of one batch of a query wait for its end: somebody kills the query."""

    batch: int
    partition: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass all rows on, or some of them and no end (for `mapInArrow`)."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "a Pause happens to a Spark task"
        batch = int(str(context.getLocalProperty("streaming.sql.batchId")))
        if (batch, context.partitionId()) == (self.batch, self.partition):
            time.sleep(PATIENCE_S)
            raise InjectedFailure(f"the query was not killed within {PATIENCE_S} s")
        yield from batches


@dataclass(frozen=True)
class Published:
    """A journal in its final place, as the task that wrote it reports it."""

    name: str
    partition: int
    attempt: int
    rows: int
    bytes: int
    started: float
    ended: float
    statistics: str
    """The stream's own, as JSON."""


PUBLISHED_SCHEMA = (
    "name string, partition long, attempt long, rows long, bytes long, "
    "started double, ended double, statistics string"
)


@dataclass(frozen=True)
class JournalTask:
    """Writes one partition; travels from the driver in the pickled function."""

    fs: hflush.FileSystem
    directory: str
    sync_every: int
    failure: Failure

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the partition; yield one row about the published file (for `mapInArrow`)."""
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "a JournalTask runs as a Spark task"
        rows = Counted(self.failure(batches))
        published = self._publish(rows, context.partitionId(), context.attemptNumber())
        yield pa.RecordBatch.from_pylist([asdict(published)])

    def _publish(self, batches: Counted, partition: int, attempt: int) -> Published:
        started = time.time()
        name = f"part-{partition:05d}.journal"
        path = f"{self.directory}/{name}"
        in_place = self.fs.has_path_capability(path, hflush.capabilities.ABORTABLE)
        hidden = f"{self.directory}/.{name}.{attempt}-{uuid.uuid4().hex[:8]}.attempt"
        draft = path if in_place else hidden
        with self.fs.create(draft, overwrite=in_place, recursive=False) as out:
            Journal(partition, self.sync_every).write(batches, out)
            size = out.tell()
        if not in_place:
            self.fs.rename(draft, path, hflush.Rename.OVERWRITE)
        return Published(
            name=name,
            partition=partition,
            attempt=attempt,
            rows=batches.rows,
            bytes=size,
            started=started,
            ended=time.time(),
            statistics=out.io_statistics().to_json(),
        )


class Counted:
    """Iterates over batches and counts their rows."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch


def stored_crc32c(fs: hflush.FileSystem, path: str) -> int:
    """Return the CRC32C of a file, read through hflush."""
    crc32c = 0
    with fs.open(path) as file:
        while data := file.read(READ_BYTES):
            crc32c = hflush.crc.crc32c(data, crc32c)
    return crc32c
