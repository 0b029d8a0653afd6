"""What an encoding is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from ..schemas import arrow_schema, check_types

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .sink import Sink

__all__ = [
    "OF_TEXT",
    "CompressedEncoder",
    "Encoder",
    "Encoding",
    "check_dates",
    "copied",
    "float_text",
    "interval_text",
    "schema_of_text",
    "timestamp_text",
]


class Encoder(ABC):
    """Writes the rows of one file: owned by one thread.

    Attributes
    ----------
    overhead : int
        Bytes of memory that it takes beside the rows that it keeps, where that is much.
    """

    overhead = 0

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; the columns are those of the schema, with its types."""

    @abstractmethod
    def finish(self) -> None:
        """Write what is missing to a whole file."""

    @property
    def buffered(self) -> int:
        """Bytes of rows that are kept, roughly, before they are encoded."""
        return 0

    def flush(self) -> bool:
        """Encode what is kept; False if nothing is, or only the end of the file does that."""
        return False


class Encoding(ABC):
    """One way to write rows.

    Attributes
    ----------
    name : str
        As the option has it.
    compressions : mapping
        The names of compressions, and what they add to a file's name; the first is the default.
    options : mapping
        The names of its own options, and what reads their text: ValueError if it is malformed.
    """

    name: str
    compressions: Mapping[str, str]
    supported: tuple[type[t.DataType], ...]
    options: Mapping[str, Callable[[str], object]] = {}

    def check(self, schema: t.StructType) -> None:
        """Refuse columns that a file cannot hold: TypeError names one."""
        check_types(schema, self.supported, f"the encoding {self.name}")

    def suffix(self, compression: str) -> str:
        """Return the end of a file's name, with its dots."""
        return f".{self.name}{self.compressions[compression]}"

    def schema(self, schema: t.StructType, without: tuple[str, ...]) -> pa.Schema:
        """Return the schema that rows have to be cast to; `without` has the other columns."""
        return arrow_schema(schema, without)

    @abstractmethod
    def encoder(
        self, sink: Sink, schema: pa.Schema, compression: str, options: Mapping[str, str]
    ) -> Encoder:
        """Begin a file."""


class CompressedEncoder(Encoder):
    """An encoder of plain bytes, which may be compressed as a whole."""

    def __init__(self, sink: Sink, compression: str) -> None:
        self.overhead = _BZIP2_BYTES if compression == "bzip2" else 0
        self._out = (
            sink
            if compression == "none"
            else pa.CompressedOutputStream(pa.PythonFile(sink, mode="w"), _CODECS[compression])
        )

    def finish(self) -> None:
        """End the compressed bytes; the sink stays open."""
        self._out.close()


_BZIP2_BYTES = 8 << 20
_CODECS = {"gzip": "gzip", "bzip2": "bz2", "zstd": "zstd"}
OF_TEXT = {"none": "", "gzip": ".gz", "bzip2": ".bz2", "zstd": ".zst"}


def copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a copy, which has nothing of the rows around those of a part of a batch."""
    columns = [pa.concat_arrays([column]) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def timestamp_text(column: pa.Array) -> pa.Array:
    """Return timestamps as ``2013-01-01 10:00:00.000000``, with a ``Z`` where they have a zone.

    Arrow looks the zone up for each value, UTC too, and takes thirty times as long for it.

    Raises
    ------
    ValueError
        A year beyond 32767, which Arrow cannot print.
    """
    text = column.cast(pa.timestamp("us")).cast(pa.string())
    if pc.any(pc.starts_with(text, "<")).as_py():  # what it prints instead
        raise ValueError("a timestamp lies beyond the year 32767, which has no text here")
    return text if column.type.tz is None else pc.binary_join_element_wise(text, "Z", "")


# Days since 1970 that Arrow can print: those of the years -32767 to 32767.
_PRINTED = range(-12_687_428, 11_248_738)


def check_dates(column: pa.Array) -> None:
    """Refuse dates that Arrow cannot print: it would print a remark in their place.

    Raises
    ------
    ValueError
        A year beyond 32767.
    """
    for end in pc.min_max(column).values():
        if end.is_valid and end.value not in _PRINTED:
            raise ValueError("a date lies beyond the year 32767, which has no text here")


def float_text(column: pa.Array) -> pa.Array:
    """Return floats as text from which a reader takes them for floats: whole ones as ``1.0``.

    Arrow prints ``1`` and ``-0``, which are whole numbers for those who infer types.
    """
    text = column.cast(pa.string())
    is_whole = pc.ascii_is_decimal(pc.ascii_ltrim(text, "-"))
    if not pc.any(is_whole).as_py():
        return text
    return pc.if_else(is_whole, pc.binary_join_element_wise(text, ".0", ""), text)


# Which fields an interval has, in the metadata of its column: Arrow's type does not say.
_FIELDS = b"interval"
_UNITS = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000)  # µs of a day, an hour, …
_BEFORE = ("", " ", ":", ":")  # what stands before days, hours, …, unless they are the first


def schema_of_text(schema: t.StructType, without: tuple[str, ...]) -> pa.Schema:
    """Return Arrow's schema of columns, whose intervals say which fields they have."""
    columns = [field for field in schema.fields if field.name not in without]
    plain = arrow_schema(schema, without)
    return pa.schema([_marked(to, of.dataType) for to, of in zip(plain, columns, strict=True)])


def _marked(field: pa.Field, data: t.DataType) -> pa.Field:
    if isinstance(data, t.UserDefinedType):
        return _marked(field, data.sqlType())
    if isinstance(data, t.DayTimeIntervalType):
        return field.with_metadata({_FIELDS: f"{data.startField}{data.endField}"})
    if isinstance(data, t.StructType):
        parts = zip(field.type, data.fields, strict=True)
        return field.with_type(pa.struct([_marked(part, of.dataType) for part, of in parts]))
    if isinstance(data, t.ArrayType):
        return field.with_type(pa.list_(_marked(field.type.value_field, data.elementType)))
    if isinstance(data, t.MapType):
        key, item = field.type.key_field, field.type.item_field
        return field.with_type(pa.map_(_marked(key, data.keyType), _marked(item, data.valueType)))
    return field


def interval_text(column: pa.Array, field: pa.Field) -> pa.Array:
    """Return day-time intervals as Spark spells them: ``INTERVAL '1 02:03:04.5' DAY TO SECOND``.

    Parameters
    ----------
    column : pyarrow.Array
        Of microseconds.
    field : pyarrow.Field
        Of :func:`schema_of_text`.
    """
    first, last = map(int, field.metadata[_FIELDS].decode())
    rest = column.cast(pa.int64())
    parts = [pc.if_else(pc.less(rest, 0), "-", "")]
    for number in range(first, last + 1):
        # Both have the sign of the interval: the least number has no absolute value.
        count = pc.divide(rest, _UNITS[number])
        rest = pc.subtract(rest, pc.multiply(count, _UNITS[number]))
        text = pc.utf8_ltrim(count.cast(pa.string()), "-")
        parts.append("" if number == first else _BEFORE[number])
        parts.append(text if number == 0 else pc.utf8_lpad(text, 2, "0"))
    if last == len(_UNITS) - 1:
        digits = pc.utf8_lpad(pc.abs(rest).cast(pa.string()), 6, "0")
        fraction = pc.binary_join_element_wise(".", digits, "")
        parts.append(pc.utf8_rtrim(pc.utf8_rtrim(fraction, "0"), "."))
    kind = t.DayTimeIntervalType(first, last).simpleString().removeprefix("interval ").upper()
    return pc.binary_join_element_wise("INTERVAL '", *parts, f"' {kind}", "")
