"""Arrow's IPC file format: record batches as they are in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as t

from ..schemas import ATOMIC, NESTED
from .base import Encoder, Encoding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .sink import Sink

__all__ = ["ARROW"]


class _IpcEncoder(Encoder):
    def __init__(self, sink: Sink, schema: pa.Schema, compression: str) -> None:
        options = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
        self._writer = pa.ipc.new_file(sink, schema, options=options)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def finish(self) -> None:
        self._writer.close()


class _Arrow(Encoding):
    name = "arrow"
    compressions = {"none": "", "lz4": "", "zstd": ""}  # noqa: RUF012
    supported = (*ATOMIC, *NESTED, t.BinaryType, t.DayTimeIntervalType)

    def encoder(
        self,
        sink: Sink,
        schema: pa.Schema,
        compression: str,
        options: Mapping[str, str],  # noqa: ARG002
    ) -> Encoder:
        return _IpcEncoder(sink, schema, compression)


ARROW = _Arrow()
