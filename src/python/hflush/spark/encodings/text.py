"""Text: one column of strings, a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as t

from .base import OF_TEXT, CompressedEncoder, Encoder, Encoding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .sink import Sink

__all__ = ["TEXT"]


class _TextEncoder(CompressedEncoder):
    def write(self, batch: pa.RecordBatch) -> None:
        """Write a line for each row, as it is; a null is an empty one, as Spark writes it."""
        lines = [line or b"" for line in batch.column(0).cast(pa.binary()).to_pylist()]
        if lines:
            self._out.write(b"\n".join(lines) + b"\n")


class _Text(Encoding):
    name = "text"
    compressions = OF_TEXT
    supported = (t.StringType, t.CharType, t.VarcharType)

    def check(self, schema: t.StructType) -> None:
        super().check(schema)
        if len(schema.fields) != 1:
            names = [field.name for field in schema.fields]
            raise TypeError(f"the encoding text holds one column, not {len(names)}: {names}")

    def suffix(self, compression: str) -> str:
        return f".txt{self.compressions[compression]}"

    def encoder(
        self,
        sink: Sink,
        schema: pa.Schema,  # noqa: ARG002
        compression: str,
        options: Mapping[str, str],  # noqa: ARG002
    ) -> Encoder:
        return _TextEncoder(sink, compression)


TEXT = _Text()
