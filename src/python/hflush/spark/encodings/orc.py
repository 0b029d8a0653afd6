"""ORC: columns in stripes, as Spark's reader understands them.

Times without a zone are stored as Spark stores them: microseconds, and the type's name as an
attribute of the column. Arrow's writer marks no calendar, so that Spark's reader moves old dates;
of old times it writes fractions that the reader refuses. Both are errors here. What its row index
says of times Java's readers take for times of their own zone: files with times have none
(:class:`_WithoutIndex`).
"""

from __future__ import annotations

import datetime
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from ...errors import InternalError
from ..pieces import Pieces
from ..schemas import ATOMIC, NESTED, arrow_schema
from .base import Encoder, Encoding, copied

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from typing_extensions import Buffer

    from .sink import Sink

__all__ = ["ORC"]

_SPARKS_TYPE = b"spark.sql.catalyst.type"
_FIRST_DATE = datetime.date(1582, 10, 15)
# How much Arrow's writer collects, which nothing makes it write sooner; and what it takes for each
# column, nested ones and the row itself included.
_STRIPE_BYTES = 64 << 20
_COLUMN_BYTES = 7 << 19
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
# Fields of ORC's footer and postscript, as Protocol Buffers write them.
_STRIDE_0 = b"\x40\x00"  # rowIndexStride = 0: there is no index
_LENGTH_OF_FOOTER = b"\x08"
_LONGEST_END = 256  # a postscript, and the byte with its length


def _arrows_orc() -> Any:
    """Return pyarrow.orc, which some builds of pyarrow do not have."""
    try:
        from pyarrow import orc
    except ImportError as missing:
        raise ImportError(
            f"the encoding orc needs pyarrow.orc, which pyarrow {pa.__version__} of "
            f"{sys.executable} does not have ({missing}): install a pyarrow that is built with "
            "ORC, or choose another encoding"
        ) from None
    return orc


class _Guard:
    """Keeps a sink's failure from Arrow's writer, which would end the process in some places.

    Also after the encoder was dropped: the writer's last breath is to complete the file.
    """

    closed = False

    def __init__(self, sink: Sink | _WithoutIndex) -> None:
        self._sink = sink
        self._failure: BaseException | None = None

    def write(self, data: Buffer) -> int:
        """Write all of it, or lose it: :meth:`check` tells."""
        if self._failure is None:
            try:
                self._sink.write(data)
            except BaseException as failure:  # raised by check()
                self._failure = failure
        return memoryview(data).nbytes

    def check(self) -> None:
        """Raise the sink's first failure."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""


class _WithoutIndex:
    """Passes a file on, and tells readers at its end that it has no row index.

    Arrow's writer cannot leave it out, and Java's readers would skip rows by it: with a filter on
    times, where their zone is not UTC. Behind the footer comes one more of its fields, which counts
    instead of the earlier one.
    """

    def __init__(self, sink: Sink, compression: str) -> None:
        self._sink = sink
        # A piece of a compressed footer begins with its length, and here with the bit for "as is".
        is_plain = compression == "none"
        self._field = _STRIDE_0 if is_plain else bytes([len(_STRIDE_0) << 1 | 1, 0, 0]) + _STRIDE_0
        self._held = bytearray()

    def write(self, data: Buffer) -> None:
        """Write all but the last bytes, which may be the end of the file."""
        self._held += memoryview(data)
        self._sink.write(bytes(self._held[:-_LONGEST_END]))
        del self._held[:-_LONGEST_END]

    def finish(self) -> None:
        """Write the end, now that it is there."""
        begin = len(self._held) - 1 - self._held[-1]
        postscript = bytes(self._held[begin:-1])
        if not postscript.startswith(_LENGTH_OF_FOOTER):
            raise InternalError(f"Arrow's writer of ORC has made an odd postscript: {postscript!r}")
        length, rest = _split_number(postscript[len(_LENGTH_OF_FOOTER) :])
        postscript = _LENGTH_OF_FOOTER + _number(length + len(self._field)) + rest
        end = self._held[:begin] + self._field + postscript + bytes([len(postscript)])
        self._sink.write(bytes(end))


def _split_number(data: bytes) -> tuple[int, bytes]:
    """Return the number that bytes of Protocol Buffers begin with, and what follows."""
    count = next(place for place, byte in enumerate(data, 1) if byte < 0x80)
    number = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(data[:count]))
    return number, data[count:]


def _number(number: int) -> bytes:
    """Return the inverse, of a number alone."""
    if number < 0x80:
        return bytes([number])
    return bytes([number & 0x7F | 0x80]) + _number(number >> 7)


class _OrcEncoder(Encoder):
    """Collects batches to a stripe before it makes Arrow's writer: of many files few have one."""

    def __init__(self, sink: Sink, compression: str, schema: pa.Schema) -> None:
        self._stripe = min(sink.limit or _STRIPE_BYTES, _STRIPE_BYTES)
        self._compression = "uncompressed" if compression == "none" else compression
        self._end = None
        if any(_has_times(field.type) for field in schema):
            self._end = _WithoutIndex(sink, compression)
        self._sink = _Guard(self._end or sink)
        self._schema = schema
        self._file = sink
        self._writer: Any = None
        self._pieces = Pieces()
        self._in_stripe = 0  # bytes of the stripe that is not written yet, at most

    @property
    def buffered(self) -> int:
        return self._pieces.nbytes + min(self._in_stripe, self._stripe)

    def write(self, batch: pa.RecordBatch) -> None:
        whole = copied(batch)  # Arrow's writer forgets where the structs of a part begin
        for name, column in zip(whole.schema.names, whole.columns, strict=True):
            _check(name, column)
        columns = [_with_nulls(column) for column in whole.columns]
        self._pieces.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        if self._writer is not None or self._pieces.nbytes >= self._stripe:
            self._encode()
        else:
            self.overhead = self._pieces.overhead

    def _encode(self) -> None:
        if self._writer is None:
            self._writer = _arrows_orc().ORCWriter(
                self._sink, compression=self._compression, stripe_size=self._stripe
            )
            self.overhead = _COLUMN_BYTES * _count(pa.struct(list(self._schema)))
        before, nbytes = self._file.length, self._pieces.nbytes
        self._writer.write(pa.Table.from_batches(self._pieces.take(), self._schema))
        self._in_stripe = self._in_stripe + nbytes if self._file.length == before else 0
        self._sink.check()

    def finish(self) -> None:
        if self._pieces.rows or self._writer is None:  # the first table brings the columns
            self._encode()
        self._writer.close()
        self._sink.check()
        if self._end is not None:
            self._end.finish()


def _has_times(data: pa.DataType) -> bool:
    """Whether a column has times with a zone, or something in it has."""
    if pa.types.is_timestamp(data):
        return True
    return any(_has_times(data.field(index).type) for index in range(data.num_fields))


def _count(data: pa.DataType) -> int:
    """Return how many types there are in one, itself included."""
    return 1 + sum(_count(data.field(index).type) for index in range(data.num_fields))


def _with_nulls(column: pa.Array) -> pa.Array:
    """Return a column, not a part of one, in whose null structs all fields are null.

    Where they have values, Arrow's writer gives these to other rows.
    """
    data = column.type
    if pa.types.is_struct(data):
        parts = [_with_nulls(part) for part in column.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(data), mask=column.is_null())
    if pa.types.is_map(data):
        items = _with_nulls(column.items)
        fields = [data.key_field, data.item_field]
        inside = pa.StructArray.from_arrays([column.keys, items], fields=fields)
    elif pa.types.is_list(data):
        inside = _with_nulls(column.values)
    else:
        return column
    buffers = column.buffers()[:2]
    return pa.Array.from_buffers(data, len(column), buffers, column.null_count, children=[inside])


def _check(name: str, column: pa.Array) -> None:
    """Refuse values that Spark's reader would not return as they are."""
    for leaf in _leaves(column):
        first: Any = None
        if pa.types.is_date(leaf.type):
            first = pa.scalar(_FIRST_DATE, leaf.type)
        elif pa.types.is_timestamp(leaf.type):
            first = pa.scalar(_EPOCH, leaf.type)
        least = pc.min(leaf) if first is not None else None
        if least is not None and least.is_valid and pc.less(least, first).as_py():
            # Spelt by Arrow: Python has no years before 1.
            plain = least.cast(pa.timestamp("us")) if pa.types.is_timestamp(leaf.type) else least
            raise ValueError(
                f"the encoding orc cannot hold {plain.cast(pa.string())} in column {name!r}: "
                f"Spark would not read a value before {first.as_py()} as it is; choose another "
                "encoding"
            )


def _leaves(column: pa.Array) -> Iterator[pa.Array]:
    """Return what is in a column, without its structs, arrays and maps."""
    if pa.types.is_struct(column.type):
        for child in column.flatten():
            yield from _leaves(child)
    elif pa.types.is_map(column.type):
        yield from _leaves(column.keys)
        yield from _leaves(column.items)
    elif pa.types.is_list(column.type):
        yield from _leaves(column.flatten())
    else:
        yield column


class _Orc(Encoding):
    name = "orc"
    compressions = {  # noqa: RUF012
        "zstd": ".zstd",
        "none": "",
        "snappy": ".snappy",
        "zlib": ".zlib",
        "lz4": ".lz4",
    }
    supported = (*(kind for kind in ATOMIC if kind is not t.TimeType), *NESTED, t.BinaryType)

    def check(self, schema: t.StructType) -> None:
        """Refuse columns that a file cannot hold, and a pyarrow without ORC: ImportError."""
        _arrows_orc()
        super().check(schema)

    def suffix(self, compression: str) -> str:
        return f"{self.compressions[compression]}.orc"

    def schema(self, schema: t.StructType, without: tuple[str, ...]) -> pa.Schema:
        """Store a time without a zone as its microseconds."""
        return pa.schema([_stored(field) for field in arrow_schema(schema, without)])

    def encoder(
        self,
        sink: Sink,
        schema: pa.Schema,
        compression: str,
        options: Mapping[str, str],  # noqa: ARG002
    ) -> Encoder:
        return _OrcEncoder(sink, compression, schema)


def _stored(field: pa.Field) -> pa.Field:
    data = field.type
    if pa.types.is_timestamp(data) and data.tz is None:
        metadata = {**(field.metadata or {}), _SPARKS_TYPE: b"timestamp_ntz"}
        return field.with_type(pa.int64()).with_metadata(metadata)
    if pa.types.is_struct(data):
        return field.with_type(pa.struct([_stored(child) for child in data]))
    if pa.types.is_map(data):
        return field.with_type(pa.map_(_stored(data.key_field), _stored(data.item_field)))
    if pa.types.is_list(data):
        return field.with_type(pa.list_(_stored(data.value_field)))
    return field


ORC = _Orc()
