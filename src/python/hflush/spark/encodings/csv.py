"""CSV as RFC 4180 has it: a quote within quotes is doubled, a null is empty, "" is no null."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from pyspark.sql import types as t

from ...configuration import parse_bool
from ..schemas import ATOMIC, in_utf8
from .base import (
    OF_TEXT,
    CompressedEncoder,
    Encoder,
    Encoding,
    check_dates,
    float_text,
    interval_text,
    schema_of_text,
    timestamp_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .sink import Sink

__all__ = ["CSV"]


class _CsvEncoder(CompressedEncoder):
    def __init__(self, sink: Sink, schema: pa.Schema, compression: str, header: bool) -> None:
        super().__init__(sink, compression)
        self._lone = schema.names[0] if len(schema.names) == 1 else None
        if header:
            names = (name.replace('"', '""') for name in schema.names)
            self._out.write((",".join(f'"{name}"' for name in names) + "\n").encode())

    def write(self, batch: pa.RecordBatch) -> None:
        if self._lone is not None and batch.column(0).null_count:
            raise ValueError(
                f"the encoding csv cannot hold a null in {self._lone!r}, the only column: "
                "readers skip empty lines"
            )
        fields = zip(batch.columns, batch.schema, strict=True)
        columns = [_spelt(column, field) for column, field in fields]
        written = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        options = csv.WriteOptions(include_header=False)
        buffer = pa.BufferOutputStream()
        csv.write_csv(written, buffer, options)
        self._out.write(buffer.getvalue())


def _spelt(column: pa.Array, field: pa.Field) -> pa.Array:
    """Return a column as Spark spells it, where Arrow does otherwise."""
    if pa.types.is_duration(column.type):
        return interval_text(column, field)
    if pa.types.is_timestamp(column.type):
        return timestamp_text(column)
    if pa.types.is_date(column.type):
        check_dates(column)
    if pa.types.is_floating(column.type) and not pc.all(_is_fraction(column)).as_py():
        text = float_text(column)
        for arrows, sparks in (("nan", "NaN"), ("inf", "Inf"), ("-inf", "-Inf")):
            text = pc.if_else(pc.equal(text, arrows), sparks, text)
        return text
    return in_utf8(column)


def _is_fraction(column: pa.Array) -> pa.Array:
    """Return which floats Arrow spells with a dot or an exponent, all but whole and odd ones."""
    return pc.and_(pc.is_finite(column), pc.not_equal(column, pc.trunc(column)))


class _Csv(Encoding):
    name = "csv"
    compressions = OF_TEXT
    supported = (*ATOMIC, t.DayTimeIntervalType)
    options = {"header": parse_bool}  # noqa: RUF012

    def schema(self, schema: t.StructType, without: tuple[str, ...]) -> pa.Schema:
        return schema_of_text(schema, without)

    def encoder(
        self, sink: Sink, schema: pa.Schema, compression: str, options: Mapping[str, str]
    ) -> Encoder:
        return _CsvEncoder(sink, schema, compression, parse_bool(options.get("header", "false")))


CSV = _Csv()
