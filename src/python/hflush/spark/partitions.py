"""Partition columns become directories, named as Spark and Hive name them: ``day=1/hour=2``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from .commit.layout import is_hidden
from .schemas import check_types, in_utf8

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NULL", "check_partitions", "escaped", "split"]

NULL = "__HIVE_DEFAULT_PARTITION__"
# What a name must not have, as in Hive.
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(1, 0x20)}
_DAY = 86_400_000_000  # µs
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")  # a zone without a name
# The calendar repeats itself, with its weekdays, each 400 years.
_CYCLE_DAYS = 146_097
_DAYS_TO_1970 = 719_162  # from 0001-01-01
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
_ADVICE = "cast it to string, boolean, a whole number, decimal, date or timestamp"


def check_partitions(schema: t.StructType, names: tuple[str, ...]) -> None:
    """Refuse columns whose directories readers would skip, or whose values have no exact name.

    Raises
    ------
    ValueError, TypeError
        The message names the column.
    """
    for name in names:
        if not name or name.startswith("."):
            raise ValueError(
                f"partitionBy names the column {name!r}: readers skip directories whose names have "
                "no column or begin with a dot; rename the column"
            )
        check_types(t.StructType([schema[name]]), _SUPPORTED, "partitionBy", advice=_ADVICE)


def escaped(name: str) -> str:
    """Return a column's name or value as it stands in the name of a directory."""
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in name)


def split(
    batch: pa.RecordBatch, names: tuple[str, ...], spelt: tuple[str, ...] = ()
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Return the rows of each directory, in their order and without the partition columns.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        All columns.
    names : tuple of str
        The partition columns.
    spelt : tuple of str, optional
        The same as directories have them, if in another case.
    """
    if batch.num_rows == 0:
        return
    columns = [batch.column(name) for name in names]
    directories = _directories(columns, spelt or names).dictionary_encode()
    rest = batch.drop_columns(list(names))
    if len(directories.dictionary) == 1:
        yield directories.dictionary[0].as_py(), rest
        return
    order = pc.sort_indices(directories.indices)  # stable
    counts = pc.value_counts(directories.indices.take(order))
    start = 0
    for count in counts:
        length = count["counts"].as_py()
        directory = directories.dictionary[count["values"].as_py()].as_py()
        yield directory, rest.take(order.slice(start, length))  # a slice would keep all rows
        start += length


def _directories(columns: list[pa.Array], names: tuple[str, ...]) -> pa.Array:
    """Return the directory of each row.

    Raises
    ------
    ValueError
        Readers would skip one.
    """
    segments = []
    for name, column in zip(names, columns, strict=True):
        coded = column.dictionary_encode(null_encoding="encode")
        values = [f"{escaped(name)}={text}" for text in _texts(name, coded.dictionary)]
        if hidden := next(filter(is_hidden, values), ""):
            raise ValueError(
                f"partitionBy: column {name!r} has a value whose directory {hidden!r} readers "
                "would skip: change the value, or leave the column out of partitionBy"
            )
        segments.append(pa.array(values, pa.string()).take(coded.indices))
    return pc.binary_join_element_wise(*segments, "/") if len(segments) > 1 else segments[0]


def _texts(name: str, values: pa.Array) -> list[str]:
    """Return values as Spark casts them to strings, escaped."""
    if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
        return _moments(name, values)
    return [_named(value) for value in in_utf8(values).to_pylist()]


def _named(value: Any) -> str:
    from decimal import Decimal

    if value is None or value == "":
        return NULL
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return escaped(str(value))


def _moments(name: str, values: pa.Array) -> list[str]:
    """Return dates and timestamps, of any year: those that Python lacks by whole calendar cycles.

    Raises
    ------
    ValueError
        The zone of the timestamps is unknown.
    """
    is_date = pa.types.is_date(values.type)
    number = pa.int32() if is_date else pa.int64()
    per_day = 1 if is_date else _DAY
    counts = values.cast(number).to_pylist()
    shifts = [0 if count is None else _cycles(count // per_day) for count in counts]
    near = [
        None if count is None else count - shift * _CYCLE_DAYS * per_day
        for count, shift in zip(counts, shifts, strict=True)
    ]
    plain = pa.array(near, number).cast(values.type if is_date else pa.timestamp("us"))
    try:
        moments = _in_zone(plain.to_pylist(), None if is_date else values.type.tz)
    except (KeyError, ValueError):
        raise ValueError(
            f"partitionBy: the timestamps of column {name!r} cannot be named in the time zone "
            f"{values.type.tz!r}, which Python does not know: set spark.sql.session.timeZone to "
            "a name such as America/Los_Angeles or an offset such as -08:00"
        ) from None
    return [
        NULL if moment is None else escaped(_spelt(moment, 400 * shift))
        for moment, shift in zip(moments, shifts, strict=True)
    ]


def _in_zone(moments: list[Any], zone: str | None) -> list[Any]:
    """Return moments of UTC in a zone. Arrow may do so by pytz, which has no seconds of offsets.

    Raises
    ------
    KeyError, ValueError
        The zone is unknown.
    """
    import datetime
    import zoneinfo

    utc = datetime.timezone.utc
    if zone is None:
        return moments
    if offset := _OFFSET.fullmatch(zone):
        sign, hours, minutes = offset.groups()
        behind = datetime.timedelta(hours=int(sign + hours), minutes=int(sign + minutes))
        there: datetime.tzinfo = datetime.timezone(behind)
    else:
        there = utc if zone == "UTC" else zoneinfo.ZoneInfo(zone)
    return [m and m.replace(tzinfo=utc).astimezone(there) for m in moments]


def _cycles(day: int) -> int:
    """Return how many cycles of the calendar lie between a day since 1970 and those of Python.

    With room for an offset: the days of Python are those of the years 401 to 9600 here.
    """
    cycle = (day + _DAYS_TO_1970) // _CYCLE_DAYS
    return cycle - min(max(cycle, 1), 23)


def _spelt(moment: Any, years: int) -> str:
    """Return a date or a datetime that lies years later."""
    import datetime

    if isinstance(moment, datetime.datetime):
        text = moment.replace(tzinfo=None).isoformat(" ", "microseconds")
        text = text.rstrip("0").removesuffix(".")
    else:
        text = str(moment)
    year = moment.year + years
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}{text[4:]}"
