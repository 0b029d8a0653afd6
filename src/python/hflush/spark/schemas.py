"""Spark's types and Arrow's, and which of them a file can hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.sql import types as t

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ATOMIC",
    "NESTED",
    "arrow_schema",
    "check_columns",
    "check_types",
    "in_utf8",
    "map_keys",
    "nullable_json",
]

if not hasattr(t, "TimeType"):
    raise ImportError(
        f"hflush.spark needs Spark 4.1 or later, and this is pyspark {pyspark.__version__} of "
        f"{pyspark.__file__}"
    )

# What every encoding has a text or a column for.
ATOMIC: tuple[type[t.DataType], ...] = (
    t.BooleanType,
    t.ByteType,
    t.ShortType,
    t.IntegerType,
    t.LongType,
    t.FloatType,
    t.DoubleType,
    t.DecimalType,
    t.StringType,
    t.CharType,
    t.VarcharType,
    t.DateType,
    t.TimeType,
    t.TimestampType,
    t.TimestampNTZType,
)
_MICROS = 6  # digits of a time's seconds, as in Arrow's type for it
NESTED: tuple[type[t.DataType], ...] = (t.ArrayType, t.MapType, t.StructType)

_ARROW: dict[type[t.DataType], pa.DataType] = {
    t.BooleanType: pa.bool_(),
    t.ByteType: pa.int8(),
    t.ShortType: pa.int16(),
    t.IntegerType: pa.int32(),
    t.LongType: pa.int64(),
    t.FloatType: pa.float32(),
    t.DoubleType: pa.float64(),
    t.StringType: pa.string(),
    t.CharType: pa.string(),
    t.VarcharType: pa.string(),
    t.BinaryType: pa.binary(),
    t.DateType: pa.date32(),
    t.TimeType: pa.time64("us"),
    t.TimestampType: pa.timestamp("us", tz="UTC"),
    t.TimestampNTZType: pa.timestamp("us"),
    t.DayTimeIntervalType: pa.duration("us"),
    t.NullType: pa.null(),
}

# How the id of a field of Parquet is named in the metadata of a column.
_SPARKS_ID = "parquet.field.id"
_ARROWS_ID = "PARQUET:field_id"


def check_columns(schema: t.StructType, partition_by: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse columns that no reader could tell apart, and files or partitions without any.

    Returns
    -------
    tuple of str
        The columns of partitions, which may be given in any case, as the schema has them.

    Raises
    ------
    ValueError
        The message names the column.
    """
    names = [field.name for field in schema.fields]
    if not names:
        raise ValueError("there are no columns: no file could hold the rows; select one at least")
    seen: dict[str, str] = {}
    for name in names:
        twin = seen.setdefault(name.lower(), name) if name.lower() in seen else None
        if twin is not None:
            raise ValueError(f"two columns have one name: {twin!r} and {name!r}")
        seen[name.lower()] = name
    for name in partition_by:
        if name.lower() not in seen:
            raise ValueError(f"partitionBy: there is no column {name!r}; there are {names}")
    found = tuple(seen[name.lower()] for name in partition_by)
    if len(set(found)) != len(found):
        raise ValueError(f"partitionBy names a column twice: {list(partition_by)}")
    if len(found) == len(names):
        raise ValueError("partitionBy names all columns: no data would be left for the files")
    return found


def check_types(
    data: t.DataType,
    supported: tuple[type[t.DataType], ...],
    what: str,
    path: str = "",
    *,
    advice: str = "cast it, or choose another encoding",
) -> None:
    """Refuse types that a file cannot hold.

    Parameters
    ----------
    data : DataType
        A column's type, or a whole schema: all that is nested in it is checked, too.
    supported : tuple of type
        Those that it can hold.
    what : str
        For the message: ``"the encoding csv"``.
    path : str
        The name of the column.
    advice : str
        For the message: what to do about a type that is not among them.

    Raises
    ------
    TypeError
        The message names the column and the type.
    """
    if isinstance(data, t.UserDefinedType):
        check_types(data.sqlType(), supported, what, path, advice=advice)
        return
    if path and type(data) not in supported:
        raise TypeError(
            f"{what} cannot hold column {path!r} of type {data.simpleString()}: {advice}"
        )
    if path and isinstance(data, t.TimeType) and getattr(data, "precision", 0) > _MICROS:
        raise TypeError(
            f"{what} cannot hold column {path!r} of type {data.simpleString()}, which has more "
            f"than microseconds: cast it to time({_MICROS})"
        )
    if path and isinstance(data, t.StructType) and not data.fields:
        raise TypeError(
            f"{what} cannot hold column {path!r}, a struct without fields: drop it, or give it a "
            "field"
        )
    for inner, part in _parts(data, path):
        check_types(part, supported, what, inner, advice=advice)


def map_keys(data: t.DataType, path: str = "") -> Iterator[tuple[str, t.DataType]]:
    """Return the path and the type of the keys of each map in a type, or in a whole schema."""
    if isinstance(data, t.UserDefinedType):
        yield from map_keys(data.sqlType(), path)
        return
    if isinstance(data, t.MapType):
        key = data.keyType
        yield f"{path}.key", key.sqlType() if isinstance(key, t.UserDefinedType) else key
    for inner, part in _parts(data, path):
        yield from map_keys(part, inner)


def _parts(data: t.DataType, path: str) -> list[tuple[str, t.DataType]]:
    """Return the types in a nested one, each with its path."""
    if isinstance(data, t.StructType):
        prefix = f"{path}." if path else ""
        return [(f"{prefix}{field.name}", field.dataType) for field in data.fields]
    if isinstance(data, t.ArrayType):
        return [(f"{path}.element", data.elementType)]
    if isinstance(data, t.MapType):
        return [(f"{path}.key", data.keyType), (f"{path}.value", data.valueType)]
    return []


def arrow_schema(schema: t.StructType, without: tuple[str, ...] = ()) -> pa.Schema:
    """Return Arrow's schema of the columns, all of them nullable, as Spark's own files have it.

    Arrow's writers refuse a null struct whose fields may not be null; Spark does not.
    """
    columns = [field for field in schema.fields if field.name not in without]
    return pa.schema([_arrow_field(field) for field in columns])


def _arrow_field(field: t.StructField) -> pa.Field:
    """Return a column; Arrow's writer of Parquet takes the id of its field from the metadata."""
    found = (field.metadata or {}).get(_SPARKS_ID)
    metadata = None if found is None else {_ARROWS_ID: str(found)}
    return pa.field(field.name, _arrow_type(field.dataType), metadata=metadata)


def _arrow_type(data: t.DataType) -> pa.DataType:
    if isinstance(data, t.UserDefinedType):
        return _arrow_type(data.sqlType())
    if isinstance(data, t.DecimalType):
        return pa.decimal128(data.precision, data.scale)
    if isinstance(data, t.StructType):
        return pa.struct([_arrow_field(field) for field in data.fields])
    if isinstance(data, t.ArrayType):
        return pa.list_(_arrow_type(data.elementType))
    if isinstance(data, t.MapType):
        return pa.map_(_arrow_type(data.keyType), _arrow_type(data.valueType))
    return _ARROW[type(data)]


def nullable_json(schema: t.StructType, without: tuple[str, ...] = ()) -> str:
    """Return Spark's JSON of the columns, all of them nullable."""
    document = _relaxed(schema.jsonValue())
    document["fields"] = [f for f in document["fields"] if f["name"] not in without]
    return json.dumps(document, separators=(",", ":"))


_NULLABILITY = ("nullable", "containsNull", "valueContainsNull")


def _relaxed(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: True if key in _NULLABILITY else item if key == "metadata" else _relaxed(item)
            for key, item in value.items()
        }
    return [_relaxed(item) for item in value] if isinstance(value, list) else value


def in_utf8(column: pa.Array) -> pa.Array:
    """Return a column; bytes of strings that are no UTF-8, as Spark's may have, are replaced."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        encoded = column.cast(pa.large_binary()).to_pylist()
        texts = [None if text is None else text.decode(errors="replace") for text in encoded]
        return pa.array(texts, column.type)
    return column
