"""What a partition becomes: Parquet, CSV, or a journal. Runs in the executors' Python workers.

An encoder takes the Arrow batches of one partition and an open hflush stream, writes all rows to
it, and makes them durable where the destination can. It returns the CRC32C of what it wrote, or
None if only the file knows in which order that went in.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import hflush

if TYPE_CHECKING:
    import pyarrow as pa

    Encoder = Callable[[Iterable[pa.RecordBatch], hflush.FSDataOutputStream], int | None]

JOURNAL_WRITERS = 4
JOURNAL_COLUMNS = ("carrier", "flight", "origin", "dest", "distance")


def encoder(name: str, partition: int, journal_every: int) -> Encoder:
    """Return the encoder of that name for one partition."""
    if name == "journal":
        return Journal(partition, journal_every)
    return {"parquet": write_parquet, "csv": write_csv}[name]


class Checksummed(io.BufferedIOBase):
    """A file object that sums what passes on its way to a stream. Closing it leaves that open."""

    def __init__(self, out: hflush.FSDataOutputStream) -> None:
        self._out = out
        self.crc32c = 0

    def write(self, data: Any, /) -> int:
        self.crc32c = hflush.crc.crc32c(data, self.crc32c)
        return self._out.write(data)

    def tell(self) -> int:
        return self._out.tell()

    @property
    def name(self) -> str:
        return self._out.name

    def writable(self) -> bool:
        return True


def write_parquet(batches: Iterable[pa.RecordBatch], out: hflush.FSDataOutputStream) -> int:
    """Write a row group per batch. Parquet can be read, hence is made durable, with its footer."""
    import pyarrow.parquet as pq

    file = Checksummed(out)
    batches = iter(batches)
    first = next(batches)
    with pq.ParquetWriter(file, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
    make_durable(out)
    return file.crc32c


def write_csv(batches: Iterable[pa.RecordBatch], out: hflush.FSDataOutputStream) -> int:
    """Write a header and a line per row; a program that tails the file sees every batch at once."""
    file = Checksummed(out)
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    lines = csv.writer(text, lineterminator="\n")
    for index, batch in enumerate(batches):
        if index == 0:
            lines.writerow(batch.schema.names)
        lines.writerows(zip(*(as_python(column) for column in batch.columns), strict=True))
        text.flush()
        make_visible(out)
    text.detach()
    make_durable(out)
    return file.crc32c


class Journal:
    """A write-ahead log: several threads append to one stream at once, each syncing as it goes.

    A record is one line, `<payload> <CRC-32 of the payload, 8 hex digits>`, handed to the stream in
    one call, so that it stands in the file whole whatever the other threads write. The payload
    opens with the partition, the thread and the thread's own record number: a reader can tell what
    is missing, torn or out of order.
    """

    def __init__(self, partition: int, sync_every: int) -> None:
        self._partition = partition
        self._sync_every = sync_every

    def __call__(self, batches: Iterable[pa.RecordBatch], out: hflush.FSDataOutputStream) -> None:
        written = [0] * JOURNAL_WRITERS
        with ThreadPoolExecutor(JOURNAL_WRITERS) as threads:
            for batch in batches:
                columns = (as_python(batch.column(name)) for name in JOURNAL_COLUMNS)
                rows = list(zip(*columns, strict=True))
                appends = [
                    threads.submit(self._append, out, writer, written[writer], share)
                    for writer, share in enumerate(dealt(rows, JOURNAL_WRITERS))
                ]
                written = [append.result() for append in appends]
        make_durable(out)

    def _append(
        self, out: hflush.FSDataOutputStream, writer: int, first: int, rows: list[tuple[Any, ...]]
    ) -> int:
        """Append the rows as this writer's records from number `first`; return the next number."""
        for number, row in enumerate(rows, first):
            payload = " ".join(map(str, (self._partition, writer, number, *row))).encode()
            out.write(b"%b %08x\n" % (payload, hflush.crc.crc32(payload)))
            if (number + 1) % self._sync_every == 0:
                make_durable(out)
        return first + len(rows)


def make_visible(out: hflush.FSDataOutputStream) -> None:
    """Call hflush where the destination has it; elsewhere bytes are visible after close."""
    if out.has_capability(hflush.capabilities.HFLUSH):
        out.hflush()


def make_durable(out: hflush.FSDataOutputStream) -> None:
    """Call hsync where the destination has it; elsewhere bytes are durable after close."""
    if out.has_capability(hflush.capabilities.HSYNC):
        out.hsync()


def dealt(rows: list[Any], hands: int) -> Iterator[list[Any]]:
    return (rows[hand::hands] for hand in range(hands))


def as_python(column: pa.Array) -> list[Any]:
    """Return a column's values, times as text that Spark reads (2013-01-01 10:00:00Z)."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("s", column.type.tz)).cast(pa.string())
    values: list[Any] = column.to_pylist()
    return values
