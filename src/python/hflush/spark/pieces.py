"""Rows that wait: to be encoded together, or for a file of their directory."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import IO, TYPE_CHECKING, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Pieces", "Waiting", "spill_directory"]

# So many batches in a row become one, if they have no more bytes together.
_TOGETHER = 16
_SMALL_BYTES = 1 << 20
# What a column of a batch takes beside its values.
_COLUMN_BYTES = 512


def spill_directory() -> str | None:
    """Return where Spark has its temporary files, for rows that wait; None: the system says it."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or None


class _Piece(NamedTuple):
    batch: pa.RecordBatch
    nbytes: int
    merges: int  # how often it was made of others


class Pieces:
    """Batches in their order. Of many that are small few are made, which take less memory.

    Attributes
    ----------
    rows, nbytes : int
        Of all batches.
    """

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []
        self.rows = 0
        self.nbytes = 0

    @property
    def overhead(self) -> int:
        """Bytes of memory beside the rows, roughly."""
        columns = self._pieces[0].batch.num_columns if self._pieces else 0
        return len(self._pieces) * columns * _COLUMN_BYTES

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        piece = _Piece(batch, batch.nbytes, 0)
        self._pieces.append(piece)
        self.rows += batch.num_rows
        self.nbytes += piece.nbytes
        while self._merged():
            pass

    def take(self) -> list[pa.RecordBatch]:
        """Return all batches, and forget them."""
        batches = [piece.batch for piece in self._pieces]
        self._pieces, self.rows, self.nbytes = [], 0, 0
        return batches

    def _merged(self) -> bool:
        """Make one of the last batches, if they are small and were made alike."""
        last = self._pieces[-_TOGETHER:]
        nbytes = sum(piece.nbytes for piece in last)
        merges = last[-1].merges
        if len(last) < _TOGETHER or last[0].merges != merges or nbytes > _SMALL_BYTES:
            return False
        (whole,) = pa.Table.from_batches([p.batch for p in last]).combine_chunks().to_batches()
        self._pieces[-_TOGETHER:] = [_Piece(whole, nbytes, merges + 1)]
        return True


class Waiting:
    """Rows of directories: in memory, and what is spilled in a file without a name.

    It is where Spark spills, too: in the first of ``SPARK_LOCAL_DIRS``.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Pieces] = {}
        self._spilled: dict[str, list[int]] = {}  # where in the file their streams of batches begin
        self._file: IO[bytes] | None = None

    def __contains__(self, directory: str) -> bool:
        return directory in self._kept or directory in self._spilled

    @property
    def memory(self) -> int:
        """Bytes that it takes, roughly."""
        return sum(pieces.nbytes + pieces.overhead for pieces in self._kept.values())

    def add(self, directory: str, rows: pa.RecordBatch) -> None:
        """Add rows of a directory."""
        self._kept.setdefault(directory, Pieces()).append(rows)

    def spill(self) -> None:
        """Write what is in memory to the file.

        Raises
        ------
        OSError
            The file cannot be made, or has no room; the message says where it is.
        """
        place = spill_directory() or tempfile.gettempdir()
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=place)  # noqa: SIM115 -- close() ends it
            for directory, pieces in self._kept.items():
                self._spilled.setdefault(directory, []).append(self._file.seek(0, os.SEEK_END))
                self._write(pieces.take())
        except OSError as refusal:
            reason = f"rows of {len(self._kept)} partition directories that wait for their file"
            raise OSError(
                refusal.errno, f"{refusal.strerror or refusal}: {reason}", place
            ) from None
        self._kept.clear()

    def _write(self, batches: list[pa.RecordBatch]) -> None:
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_stream(self._file, batches[0].schema, options=options) as stream:
            for batch in batches:
                stream.write_batch(batch)

    def directories(self) -> list[str]:
        """Return those that have rows here, in the order in which they came."""
        return list({**self._spilled, **self._kept})

    def take(self, directory: str) -> Iterator[pa.RecordBatch]:
        """Return the rows of a directory, in their order, and forget them."""
        for start in self._spilled.pop(directory, ()):
            assert self._file is not None
            self._file.seek(start)
            yield from pa.ipc.open_stream(self._file)
        if directory in self._kept:
            yield from self._kept.pop(directory).take()

    def close(self) -> None:
        """Drop everything."""
        self._kept.clear()
        self._spilled.clear()
        if self._file is not None:
            with contextlib.suppress(OSError):  # what it could not write is not needed
                self._file.close()
            self._file = None
