"""Parquet: columns in row groups, with Spark's own schema in the footer."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import types as t

from ..pieces import Pieces
from ..schemas import ATOMIC, NESTED, arrow_schema, check_types, nullable_json
from .base import Encoder, Encoding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .sink import Sink

__all__ = ["PARQUET"]

# Where Spark's reader looks for types that Parquet does not have.
_SPARKS_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
# By which it knows the calendar of old dates and times; without, its configuration says.
_SPARKS_VERSION = b"org.apache.spark.version"
_GROUP_ROWS = 1 << 20


class _ParquetEncoder(Encoder):
    """Collects batches to row groups."""

    def __init__(self, sink: Sink, schema: pa.Schema, compression: str) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(
            sink, schema, compression=compression, write_statistics=_with_statistics(schema)
        )
        self._pieces = Pieces()

    @property
    def buffered(self) -> int:
        return self._pieces.nbytes

    def write(self, batch: pa.RecordBatch) -> None:
        self._pieces.append(batch)
        self.overhead = self._pieces.overhead
        if self._pieces.rows >= _GROUP_ROWS:
            self.flush()

    def flush(self) -> bool:
        rows = self._pieces.rows
        if not rows:
            return False
        table = pa.Table.from_batches(self._pieces.take(), self._schema)
        self._writer.write_table(table, row_group_size=rows)
        self.overhead = 0
        return True

    def finish(self) -> None:
        self.flush()
        self._writer.close()


class _Parquet(Encoding):
    name = "parquet"
    # What a Spark without further jars can read: Brotli is not among it.
    compressions = {  # noqa: RUF012
        "snappy": ".snappy",
        "none": "",
        "gzip": ".gz",
        "zstd": ".zstd",
        "lz4": ".lz4",
    }
    supported = (*ATOMIC, *NESTED, t.BinaryType, t.DayTimeIntervalType)

    def check(self, schema: t.StructType) -> None:
        """Refuse columns that a file cannot hold, or not so that Spark reads them."""
        super().check(schema)
        if not _marks_times_as_local():
            kinds = tuple(kind for kind in self.supported if kind is not t.TimeType)
            check_types(schema, kinds, f"the encoding parquet with pyarrow {pa.__version__}")

    def suffix(self, compression: str) -> str:
        return f"{self.compressions[compression]}.parquet"

    def schema(self, schema: t.StructType, without: tuple[str, ...]) -> pa.Schema:
        """Store an interval as its microseconds, and Spark's schema beside."""
        columns = [_stored(field) for field in arrow_schema(schema, without)]
        metadata = {
            _SPARKS_SCHEMA: nullable_json(schema, without).encode(),
            _SPARKS_VERSION: pyspark.__version__.encode(),
        }
        return pa.schema(columns, metadata=metadata)

    def encoder(
        self,
        sink: Sink,
        schema: pa.Schema,
        compression: str,
        options: Mapping[str, str],  # noqa: ARG002
    ) -> Encoder:
        return _ParquetEncoder(sink, schema, compression)


@cache
def _marks_times_as_local() -> bool:
    """Whether Arrow writes a time of day as Spark reads it: as none of UTC. Older ones do not."""
    (column,) = _leaves(pa.schema([("t", pa.time64("us"))]))
    return "isAdjustedToUTC=false" in str(column.logical_type)


@lru_cache(maxsize=64)
def _with_statistics(schema: pa.Schema) -> list[str] | bool:
    """Return the columns whose least and greatest values are written: those that have no NaN.

    Arrow leaves NaN out, and Spark takes it for greater than all numbers: its filters would pass
    over rows that they look for.
    """
    leaves = _leaves(schema)
    floats = {leaf.path for leaf in leaves if leaf.physical_type in ("FLOAT", "DOUBLE")}
    # A column "a.b" and the field b of a column "a" have one path.
    return [leaf.path for leaf in leaves if leaf.path not in floats] or not leaves


def _leaves(schema: pa.Schema) -> list[pq.ColumnSchema]:
    """Return the columns of a file of this schema."""
    file = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), file)
    return list(pq.ParquetFile(pa.BufferReader(file.getvalue())).schema)


def _stored(field: pa.Field) -> pa.Field:
    return field.with_type(_stored_type(field.type))


def _stored_type(data: pa.DataType) -> pa.DataType:
    if pa.types.is_duration(data):
        return pa.int64()
    if pa.types.is_struct(data):
        return pa.struct([_stored(field) for field in data])
    if pa.types.is_map(data):
        return pa.map_(_stored_type(data.key_type), _stored_type(data.item_type))
    if pa.types.is_list(data):
        return pa.list_(_stored_type(data.value_type))
    return data


PARQUET = _Parquet()
