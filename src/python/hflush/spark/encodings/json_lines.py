"""JSON lines, spelt as Spark does: nulls are left out, bytes are base64, times are ISO 8601."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from ..schemas import ATOMIC, NESTED, in_utf8, map_keys
from .base import (
    OF_TEXT,
    CompressedEncoder,
    Encoder,
    Encoding,
    check_dates,
    copied,
    float_text,
    interval_text,
    schema_of_text,
    timestamp_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .sink import Sink

__all__ = ["JSON"]

# The JSON of each value of a column; None for a null.
Fragments: TypeAlias = "list[str | None]"

_NOT_FINITE = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


class _JsonEncoder(CompressedEncoder):
    def write(self, batch: pa.RecordBatch) -> None:
        """Write a line for each row."""
        whole = zip(copied(batch).columns, batch.schema, strict=True)
        columns = [_fragments(column, field) for column, field in whole]
        if batch.num_rows:
            lines = _objects(batch.schema.names, columns, batch.num_rows)
            self._out.write(("\n".join(lines) + "\n").encode())


def _fragments(column: pa.Array, field: pa.Field) -> Fragments:
    """Return the JSON of each value."""
    data = column.type
    if pa.types.is_struct(data):
        names = [part.name for part in data]
        parts = zip(column.flatten(), data, strict=True)
        inner = [_fragments(child, part) for child, part in parts]
        return _where_valid(column, _objects(names, inner, len(column)))
    if pa.types.is_map(data):
        return _maps(column)
    if pa.types.is_list(data):
        values = _fragments(column.values, data.value_field)
        starts = column.offsets.to_pylist()
        texts = [
            "[" + ",".join(value or "null" for value in values[start:end]) + "]"
            for start, end in pairwise(starts)
        ]
        return _where_valid(column, texts)
    return _atoms(column, field)


def _atoms(column: pa.Array, field: pa.Field) -> Fragments:
    data = column.type
    if pa.types.is_string(data):
        values = in_utf8(column).to_pylist()
        return [None if v is None else json.dumps(v, ensure_ascii=False) for v in values]
    if pa.types.is_binary(data):
        values = column.to_pylist()
        return [None if v is None else f'"{base64.b64encode(v).decode()}"' for v in values]
    if pa.types.is_decimal(data):
        return [None if v is None else f"{v:f}" for v in column.to_pylist()]
    if pa.types.is_timestamp(data):
        moments: list[str | None] = timestamp_text(column).to_pylist()
        return [None if v is None else f'"{v.replace(" ", "T")}"' for v in moments]
    if pa.types.is_floating(data):
        floats: list[str | None] = float_text(column).to_pylist()
        return [None if v is None else _NOT_FINITE.get(v, v) for v in floats]
    if pa.types.is_duration(data):
        column = interval_text(column, field)
    if pa.types.is_date(data):
        check_dates(column)
    text: list[str | None] = column.cast(pa.string()).to_pylist()
    if pa.types.is_temporal(data):
        return [None if v is None else f'"{v}"' for v in text]
    return text


def _maps(column: pa.Array) -> Fragments:
    keys = [key if key is not None and key[:1] == '"' else f'"{key}"' for key in _keys(column)]
    items = _fragments(column.items, column.type.item_field)
    pairs = [f"{key}:{item or 'null'}" for key, item in zip(keys, items, strict=True)]
    starts = column.offsets.to_pylist()
    texts = ["{" + ",".join(pairs[start:end]) + "}" for start, end in pairwise(starts)]
    return _where_valid(column, texts)


def _keys(column: pa.Array) -> Fragments:
    return _fragments(column.keys, column.type.key_field)


def _objects(names: list[str], columns: list[Fragments], count: int) -> list[str]:
    labels = [json.dumps(name, ensure_ascii=False) + ":" for name in names]
    if not columns:
        return ["{}"] * count
    return [
        "{" + ",".join(n + v for n, v in zip(labels, row, strict=True) if v is not None) + "}"
        for row in zip(*columns, strict=True)
    ]


def _where_valid(column: pa.Array, texts: list[str]) -> Fragments:
    if column.null_count == 0:
        return list(texts)
    valid = pc.is_valid(column).to_pylist()
    return [text if ok else None for text, ok in zip(texts, valid, strict=True)]


class _Json(Encoding):
    name = "json"
    compressions = OF_TEXT
    supported = (*ATOMIC, *NESTED, t.BinaryType, t.NullType, t.DayTimeIntervalType)

    def check(self, schema: t.StructType) -> None:
        """Refuse columns that a file cannot hold: a key of an object is a string, never nested."""
        super().check(schema)
        for path, key in map_keys(schema):
            if isinstance(key, (*NESTED, t.NullType)):
                raise TypeError(
                    f"the encoding json cannot hold column {path!r} of type {key.simpleString()}: "
                    "keys of maps are strings in JSON; cast it, or choose another encoding"
                )

    def schema(self, schema: t.StructType, without: tuple[str, ...]) -> pa.Schema:
        return schema_of_text(schema, without)

    def encoder(
        self,
        sink: Sink,
        schema: pa.Schema,  # noqa: ARG002
        compression: str,
        options: Mapping[str, str],  # noqa: ARG002
    ) -> Encoder:
        return _JsonEncoder(sink, compression)


JSON = _Json()
