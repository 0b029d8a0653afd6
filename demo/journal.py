"""A partition as a journal: a write-ahead log of several threads. Runs in executors' workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import hflush

if TYPE_CHECKING:
    import pyarrow as pa

WRITERS = 4
COLUMNS = ("carrier", "flight", "origin", "dest", "distance")


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

    def write(self, batches: Iterable[pa.RecordBatch], out: hflush.FSDataOutputStream) -> None:
        """Write all rows, and make them durable where the destination can."""
        written = [0] * WRITERS
        with ThreadPoolExecutor(WRITERS) as threads:
            for batch in batches:
                columns = (batch.column(name).to_pylist() for name in COLUMNS)
                rows = list(zip(*columns, strict=True))
                appends = [
                    threads.submit(self._append, out, writer, written[writer], share)
                    for writer, share in enumerate(dealt(rows, WRITERS))
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


def make_durable(out: hflush.FSDataOutputStream) -> None:
    """Call hsync where the destination has it; elsewhere bytes are durable after close."""
    if out.has_capability(hflush.capabilities.HSYNC):
        out.hsync()


def dealt(rows: list[Any], hands: int) -> Iterator[list[Any]]:
    return (rows[hand::hands] for hand in range(hands))
