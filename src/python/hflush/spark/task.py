"""What one attempt of a task does: rows come in, staged files come out."""

from __future__ import annotations

import time
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pyarrow as pa

from ..statistics import IOStatistics, aggregate
from .commit import StagedFile, TaskReport
from .encodings import Sink
from .partitions import split
from .pieces import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..output import FSDataOutputStream
    from .commit.staging import Attempt
    from .encodings import Encoder
    from .settings import WriteSettings

__all__ = ["TaskWriter"]

# Files that are open at once; rows of other directories wait.
_MAX_OPEN = 100
# Rows that are kept to be encoded together or that wait, and what encoders take, over all files.
_BUFFER_BYTES = 128 << 20


class _OpenFile:
    """A file that rows are being added to."""

    def __init__(self, path: str, stream: FSDataOutputStream, sink: Sink, encoder: Encoder) -> None:
        self.path = path
        self.stream = stream
        self.sink = sink
        self.encoder = encoder
        self.rows = 0
        self.turn = 0  # the batch in which it was written to last
        self._given = 0  # bytes, as rows are in memory

    def write(self, rows: pa.RecordBatch) -> None:
        self.encoder.write(rows)
        self.rows += rows.num_rows
        self._given += rows.nbytes

    @property
    def memory(self) -> int:
        """Bytes that it takes, roughly."""
        return self.encoder.buffered + self.encoder.overhead

    def has(self, limit: int) -> bool:
        """Whether it has so many bytes, roughly: rows that are kept shrink as those before did."""
        kept, encoded = self.encoder.buffered, self.sink.length
        if encoded + kept < limit:
            return False
        if kept == self._given:  # nothing is known yet
            self.encoder.flush()
            return self.sink.length >= limit
        return encoded + kept * encoded / max(self._given - kept, 1) >= limit


class TaskWriter:
    """Writes the rows of one attempt. Owned by one thread.

    Parameters
    ----------
    job : str
        The id of its job, or of its query and batch: a part of the names of files.
    open_attempt : callable
        Makes room for the attempt, given a name that is never used again.
    settings : WriteSettings
        What was asked for.
    schema : pyarrow.Schema
        Of the files: without the partition columns.
    partition : int
        The number of the task's partition.
    attempt : int
        Spark's id of the attempt.

    Notes
    -----
    After :meth:`finish` the files wait for the commit. An exception, :meth:`abort` or the death of
    the process leave nothing that could be mistaken for data: what is left is swept.
    """

    def __init__(
        self,
        job: str,
        open_attempt: Callable[[str], Attempt],
        settings: WriteSettings,
        schema: pa.Schema,
        partition: int,
        attempt: int,
    ) -> None:
        self._job = job
        self._settings = settings
        self._schema = schema
        self._partition = partition
        self._number = attempt
        self._began = time.monotonic()
        self._statistics = aggregate(())  # of the closed streams
        # Spark counts attempts anew in every application: the random part makes the name unique.
        self._name = f"{partition:05d}-{attempt}-{uuid.uuid4().hex[:12]}"
        self._attempt = open_attempt(self._name)
        self._open: dict[str, _OpenFile] = {}  # by directory; the latest one written to is last
        self._waiting = Waiting()
        self._ended: set[str] = set()  # directories whose files were closed for others
        self._turn = 0  # which batch this is
        self._staged: list[StagedFile] = []
        self._count = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, as Spark gives them: partition columns included."""
        names, spelt = self._settings.partition_by, self._settings.directories_by
        self._turn += 1
        for directory, rows in split(batch, names, spelt) if names else [("", batch)]:
            if self._has_room(directory):
                for earlier in self._waiting.take(directory):
                    self._write(directory, earlier)
                self._write(directory, rows)
            else:
                self._waiting.add(directory, rows)
        self._limit_memory()

    def write_no_rows(self) -> None:
        """Make a file without rows, so that readers find the columns."""
        self._file("")

    def finish(self) -> tuple[StagedFile, ...]:
        """Complete all files, and make those of the directories that have waited, one by one."""
        for directory in list(self._open):
            if directory not in self._waiting:
                self._close(directory)
        for directory in self._waiting.directories():
            for rows in self._waiting.take(directory):
                self._write(directory, rows)
            if directory in self._open:  # not ended by its limits
                self._close(directory)
        self._waiting.close()
        return tuple(self._staged)

    def report(self) -> tuple[TaskReport, IOStatistics]:
        """Return what was done until now, and the statistics of the closed streams, merged."""
        counters = self._statistics.counters
        report = TaskReport(
            self._partition,
            self._number,
            len(self._staged),
            sum(file.rows for file in self._staged),
            sum(file.length for file in self._staged),
            counters.get("op_hflush", 0) + counters.get("op_hsync", 0),
            counters.get("hdfs_stall", 0),
            round(time.monotonic() - self._began, 3),
        )
        return report, self._statistics

    def abort(self) -> None:
        """Drop everything, also if a stream fails once more; what stays is swept later."""
        self._waiting.close()
        with ExitStack() as ends:
            ends.callback(self._attempt.drop, [file.handle for file in self._staged])
            for file in self._open.values():
                file.sink.give_up()
                if file.stream.has_capability("fs.capability.outputstream.abortable"):
                    ends.callback(file.stream.abort)
                else:
                    ends.callback(file.stream.close)
            self._open.clear()

    def _has_room(self, directory: str) -> bool:
        """Whether rows of a directory can go to a file now.

        The file that was written to least recently is closed for another one, as if the rows came
        in the order of their directories. Those of a directory that comes again nevertheless wait
        for the end, so that it has two files at most, and not one for each batch.
        """
        if directory in self._open:
            return True
        if directory in self._ended:
            return False
        if len(self._open) < _MAX_OPEN:
            return True
        oldest = next(iter(self._open))
        if self._open[oldest].turn == self._turn:
            return False
        self._close(oldest)
        self._ended.add(oldest)
        return True

    def _write(self, directory: str, rows: pa.RecordBatch) -> None:
        limit = self._settings.max_rows or 0
        start = 0
        while start < rows.num_rows:
            file = self._file(directory)
            room = limit - file.rows if limit else rows.num_rows
            part = rows.slice(start, room).cast(self._schema)
            file.write(part)
            start += part.num_rows
            if file.memory > _BUFFER_BYTES:
                file.encoder.flush()
            is_full = limit and file.rows >= limit
            if is_full or (self._settings.max_bytes and file.has(self._settings.max_bytes)):
                self._close(directory)

    def _limit_memory(self) -> None:
        """Encode what is kept of the largest files, or end these where that cannot be.

        What waits is spilled when it has more than each of them.
        """
        memory = {directory: file.memory for directory, file in self._open.items()}
        waiting = self._waiting.memory
        while (waiting or len(memory) > 1) and sum(memory.values()) + waiting > _BUFFER_BYTES:
            largest = max(memory, key=memory.__getitem__, default="")
            if waiting > memory.get(largest, 0):
                self._waiting.spill()
                waiting = 0
                continue
            if not self._open[largest].encoder.flush():
                self._close(largest)
            del memory[largest]

    def _file(self, directory: str) -> _OpenFile:
        file = self._open.pop(directory, None) or self._begin(directory)
        file.turn = self._turn
        self._open[directory] = file
        return file

    def _begin(self, directory: str) -> _OpenFile:
        settings = self._settings
        name = f"part-{self._partition:05d}-{self._job}-{self._name[6:]}-c{self._count:03d}"
        self._count += 1
        name += settings.format.suffix(settings.compression)
        path = f"{directory}/{name}" if directory else name
        stream = self._attempt.create(path)
        sink = Sink(stream, settings.max_bytes)
        encoder = settings.format.encoder(
            sink, self._schema, settings.compression, settings.encoding_options
        )
        return _OpenFile(path, stream, sink, encoder)

    def _close(self, directory: str) -> None:
        file = self._open[directory]
        file.encoder.finish()
        # An object store has neither call: what it has accepted is durable.
        if self._settings.durability != "close" and file.stream.has_capability("hsync"):
            if self._settings.durability == "hsync":
                file.stream.hsync()
            else:
                file.stream.hflush()
        handle = self._attempt.close(file.stream)
        self._statistics = aggregate((self._statistics, file.stream.io_statistics()))
        del self._open[directory]
        self._staged.append(
            StagedFile(file.path, handle, file.rows, file.sink.length, file.sink.crc32c)
        )
