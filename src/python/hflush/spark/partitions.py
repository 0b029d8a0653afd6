"""Partition columns become directories, named as Spark and Hive name them: ``day=1/hour=2``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from .schemas import check_types

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NULL", "check_partitions", "escaped", "split"]

NULL = "__HIVE_DEFAULT_PARTITION__"
# What a name must not have, as in Hive.
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(1, 0x20)}
_SUPPORTED = (
    t.BooleanType,
    t.ByteType,
    t.ShortType,
    t.IntegerType,
    t.LongType,
    t.DecimalType,
    t.StringType,
    t.CharType,
    t.VarcharType,
    t.DateType,
    t.TimestampType,
    t.TimestampNTZType,
)


def check_partitions(schema: t.StructType, names: tuple[str, ...]) -> None:
    """Refuse columns whose values have no exact name; TypeError names one."""
    for name in names:
        check_types(t.StructType([schema[name]]), _SUPPORTED, "partitionBy")


def escaped(name: str) -> str:
    """Return a column's name or value as it stands in the name of a directory."""
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in name)


def split(batch: pa.RecordBatch, names: tuple[str, ...]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Return the rows of each directory, in their order and without the partition columns."""
    if batch.num_rows == 0:
        return
    directories = _directories([batch.column(name) for name in names], names).dictionary_encode()
    rest = batch.drop_columns(list(names))
    if len(directories.dictionary) == 1:
        yield directories.dictionary[0].as_py(), rest
        return
    order = pc.sort_indices(directories.indices)  # stable
    ordered = rest.take(order)
    counts = pc.value_counts(directories.indices.take(order))
    start = 0
    for count in counts:
        length = count["counts"].as_py()
        directory = directories.dictionary[count["values"].as_py()].as_py()
        yield directory, ordered.slice(start, length)
        start += length


def _directories(columns: list[pa.Array], names: tuple[str, ...]) -> pa.Array:
    """Return the directory of each row."""
    segments = []
    for name, column in zip(names, columns, strict=True):
        coded = column.dictionary_encode(null_encoding="encode")
        values = [f"{escaped(name)}={_named(value)}" for value in coded.dictionary.to_pylist()]
        segments.append(pa.array(values, pa.string()).take(coded.indices))
    return pc.binary_join_element_wise(*segments, "/") if len(segments) > 1 else segments[0]


def _named(value: Any) -> str:
    """Return a value as Spark casts it to a string."""
    import datetime
    from decimal import Decimal

    if value is None or value == "":
        return NULL
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime.datetime):
        text = value.replace(tzinfo=None).isoformat(" ", "microseconds")
        return escaped(text.rstrip("0").removesuffix(".") if "." in text else text)
    return escaped(str(value))
