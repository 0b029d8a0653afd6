"""One task: write a partition to an attempt file, publish it by a rename, report what was done.

Runs in an executor's Python worker: no JVM gateway, no driver, nothing but the partition's rows and
a `Job` that came with the task. Readers only ever see whole files: an attempt is a hidden file
(Spark skips names that begin with a dot) until its stream is closed, and a task that raises or is
killed leaves no more than that. Where nothing appears before close anyway, as on S3, there is no
attempt file: closing the stream publishes, leaving it by an exception does not. Two attempts that
both get to the end publish the same rows under the same name, one after the other. To let exactly
one publish takes a commit protocol, which this job does not have.
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
from encoders import encoder

if TYPE_CHECKING:
    import pyarrow as pa

READ_BYTES = 1 << 20


class InjectedFailure(Exception):
    """The failure that the demo was asked to cause."""


@dataclass(frozen=True)
class Failure:
    """How the first attempt at a partition ends once so many of its rows are written."""

    partition: int
    after_rows: int
    kind: str
    """"raise", or "kill": the worker is gone at once, as when Spark cancels a task."""


@dataclass(frozen=True)
class Published:
    """A file in its final place, as the task that wrote it reports it."""

    encoding: str
    name: str
    partition: int
    attempt: int
    rows: int
    bytes: int
    crc32c: int
    started: float
    ended: float
    statistics: str
    """The stream's own, as JSON."""


PUBLISHED_SCHEMA = (
    "encoding string, name string, partition long, attempt long, rows long, bytes long, "
    "crc32c long, started double, ended double, statistics string"
)


@dataclass(frozen=True)
class Job:
    """What every task needs to know; travels from the driver in the pickled function."""

    fs: hflush.FileSystem
    directory: str
    encoding: str
    journal_every: int
    failure: Failure | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write one partition; yield one row about the published file (for `mapInArrow`)."""
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "a Job runs as a Spark task"
        partition, attempt = context.partitionId(), context.attemptNumber()
        if self.failure and attempt == 0 and partition == self.failure.partition:
            batches = failing(batches, self.failure)
        published = self._publish(Counted(batches), partition, attempt)
        yield pa.RecordBatch.from_pylist([asdict(published)])

    def _publish(self, batches: Counted, partition: int, attempt: int) -> Published:
        started = time.time()
        name = f"part-{partition:05d}.{self.encoding}"
        path = f"{self.directory}/{name}"
        in_place = self.fs.has_path_capability(path, hflush.capabilities.ABORTABLE)
        hidden = f"{self.directory}/.{name}.{attempt}-{uuid.uuid4().hex[:8]}.attempt"
        draft = path if in_place else hidden
        encode = encoder(self.encoding, partition, self.journal_every)
        with self.fs.create(draft, overwrite=in_place, recursive=False) as out:
            crc32c = encode(batches, out)
            size = out.tell()
        if crc32c is None:
            crc32c = stored_crc32c(self.fs, draft)
        if not in_place:
            self.fs.rename(draft, path, hflush.Rename.OVERWRITE)
        return Published(
            encoding=self.encoding,
            name=name,
            partition=partition,
            attempt=attempt,
            rows=batches.rows,
            bytes=size,
            crc32c=crc32c,
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


def failing(batches: Iterable[pa.RecordBatch], failure: Failure) -> Iterator[pa.RecordBatch]:
    """Yield the rows before the failure, then fail."""
    left = failure.after_rows
    for batch in batches:
        if batch.num_rows >= left:
            yield batch.slice(0, left)
            break
        yield batch
        left -= batch.num_rows
    if failure.kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise InjectedFailure(f"on purpose, after {failure.after_rows:,} rows")


def stored_crc32c(fs: hflush.FileSystem, path: str) -> int:
    """Return the CRC32C of a file, read through hflush."""
    crc32c = 0
    with fs.open(path) as file:
        while data := file.read(READ_BYTES):
            crc32c = hflush.crc.crc32c(data, crc32c)
    return crc32c
