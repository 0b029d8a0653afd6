"""ORC files of hflush.spark: what they refuse, and a stream that fails beneath them."""

from __future__ import annotations

import datetime as dt
import random
import re
import subprocess
import sys
from io import BytesIO
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hflush.spark.encodings import ENCODINGS, Encoder, Sink
from pyarrow import orc
from pyspark.sql import types as t

UTC = dt.timezone.utc
DATES = pa.schema([("d", pa.date32())])


class Stream(BytesIO):
    """As far as a Sink needs one."""


def encoder(schema: pa.Schema, compression: str = "zstd") -> tuple[Stream, Encoder]:
    stream: Any = Stream()
    return stream, ENCODINGS["orc"].encoder(Sink(stream), schema, compression, {})


def rows(schema: pa.Schema, *values: Any) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, schema.field(0).type)], schema)


def test_dates_from_1582_on() -> None:
    """Before the Gregorian calendar Spark's reader would move them."""
    stream, writer = encoder(DATES)
    writer.write(rows(DATES, dt.date(1582, 10, 15), None, dt.date(9999, 12, 31)))
    with pytest.raises(ValueError, match="orc cannot hold 1582-10-14 in column 'd'"):
        writer.write(rows(DATES, dt.date(2020, 1, 1), dt.date(1582, 10, 14)))
    ancient = pa.array([-719_163], pa.int32()).cast(pa.date32())  # before Python's first year
    with pytest.raises(ValueError, match="orc cannot hold 0000-12-31 in column 'd'"):
        writer.write(pa.record_batch([ancient], DATES))
    writer.finish()
    assert orc.ORCFile(BytesIO(stream.getvalue())).read()["d"].to_pylist() == [
        dt.date(1582, 10, 15),
        None,
        dt.date(9999, 12, 31),
    ]


def test_times_from_1970_on() -> None:
    """Arrow writes fractions of earlier ones that Spark's reader refuses; nested ones, too."""
    schema = pa.schema([("n", pa.struct([("l", pa.list_(pa.timestamp("us", "UTC")))]))])
    _, writer = encoder(schema)
    writer.write(rows(schema, {"l": [dt.datetime(1970, 1, 1, tzinfo=UTC), None]}, None))
    old = {"l": [dt.datetime(1969, 12, 31, 23, 59, tzinfo=UTC)]}
    with pytest.raises(ValueError, match=r"cannot hold 1969-12-31 23:59:00.* in column 'n'"):
        writer.write(rows(schema, old))
    schema = pa.schema([("m", pa.map_(pa.string(), pa.date32()))])
    _, writer = encoder(schema)
    with pytest.raises(ValueError, match="cannot hold 1066-10-14 in column 'm'"):
        writer.write(rows(schema, [("hastings", dt.date(1066, 10, 14))]))


def test_times_without_a_zone_are_marked_wherever_they_are() -> None:
    """They are whole numbers in the file; keys of maps, which are never null, are among them."""
    times = t.MapType(t.TimestampNTZType(), t.ArrayType(t.TimestampNTZType()))
    schema = ENCODINGS["orc"].schema(t.StructType([t.StructField("m", times)]), ())
    stream, writer = encoder(schema)
    moment = dt.datetime(2024, 1, 1)
    plain = pa.map_(pa.timestamp("us"), pa.list_(pa.timestamp("us")))
    writer.write(pa.record_batch({"m": pa.array([{moment: [moment]}], plain)}).cast(schema))
    writer.finish()
    read = orc.ORCFile(BytesIO(stream.getvalue())).schema.field("m").type
    for field in (read.key_field, read.item_type.value_field):
        assert field.type == pa.int64()
        assert field.metadata == {b"spark.sql.catalyst.type": b"timestamp_ntz"}


TIMES, NEW_YEAR = pa.timestamp("us", "UTC"), dt.datetime(2024, 1, 1, tzinfo=UTC)
INDEXED = {
    "times": (TIMES, NEW_YEAR, 0),
    "structs": (pa.list_(pa.struct([("t", TIMES)])), [{"t": NEW_YEAR}], 0),
    "maps": (pa.map_(pa.string(), TIMES), [("k", NEW_YEAR)], 0),
    "numbers": (pa.int64(), 3, 10_000),
}


@pytest.mark.parametrize("compression", ENCODINGS["orc"].compressions)
@pytest.mark.parametrize(("data", "value", "stride"), INDEXED.values(), ids=INDEXED)
def test_files_with_times_have_no_row_index(
    compression: str, data: pa.DataType, value: object, stride: int
) -> None:
    """By which Java's readers would skip rows: they take the times in it for those of their zone.

    Files of many rows and of none; one with a footer of several pieces, as its statistics are long.
    """
    schema = pa.schema([("s", pa.string()), ("c", data)])
    long = "".join(random.Random(1).choices("0123456789abcdef", k=300_000))
    for text, count in (("", 11_000), ("", 0), (long, 1)):
        stream, writer = encoder(schema, compression)
        rows = pa.record_batch([[text] * count, pa.array([value] * count, data)], schema)
        writer.write(rows)
        writer.finish()
        file = orc.ORCFile(BytesIO(stream.getvalue()))
        assert file.row_index_stride == stride
        assert (file.nrows, file.file_length) == (count, len(stream.getvalue()))
        assert file.file_footer_length > len(text) / 2
        assert file.read().cast(schema).equals(pa.Table.from_batches([rows]))


FAILING = """
import errno, gc, sys
import pyarrow as pa
from hflush.spark.encodings import ENCODINGS, Sink

class Full:
    is_full = False
    def write(self, data):
        if self.is_full:
            raise OSError(errno.ENOSPC, "no space")

schema = pa.schema([("s", pa.string())])
rows = pa.record_batch([pa.array(["row"] * 1000)], schema)
out = Full()
writer = ENCODINGS["orc"].encoder(Sink(out, 1), schema, "zstd", {})
writer.write(rows)
out.is_full = True
if sys.argv[1] == "finish":
    try:
        writer.finish()
    except OSError as full:
        print(full.errno == errno.ENOSPC)
else:
    print(True)
del writer
gc.collect()
"""


@pytest.mark.parametrize("way", ["finish", "drop"])
def test_a_stream_that_fails_does_not_end_the_process(way: str) -> None:
    """Arrow's writer would, as it completes a file; the failure is the stream's own."""
    done = subprocess.run([sys.executable, "-c", FAILING, way], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


WITHOUT_ORC = """
import sys
sys.modules["pyarrow.orc"] = None  # as pyarrow is where it was built without
from hflush.spark.encodings import ENCODINGS
from pyspark.sql.types import LongType, StructField, StructType
schema = StructType([StructField("id", LongType())])
for name, encoding in ENCODINGS.items():
    if name != "text":  # which takes a string
        try:
            encoding.check(schema)
        except ImportError as missing:
            print(name, missing)
"""


def test_a_pyarrow_without_orc_has_the_other_encodings() -> None:
    """The driver says what is missing before anything is written."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_ORC], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    said = "the encoding orc needs pyarrow.orc, which pyarrow .* does not have .*: install a "
    assert re.fullmatch(f"orc {said}.* or choose another encoding\n", done.stdout)


NESTS = {
    "struct": lambda data: pa.struct([("a", data), ("b", pa.int64())]),
    "list": pa.list_,
    "map": lambda data: pa.map_(pa.string(), data),
}


def drawn(chosen: random.Random, data: pa.DataType, nulls: float) -> object:
    """Return a value of a type."""
    if chosen.random() < nulls:
        return None
    if pa.types.is_struct(data):
        return {field.name: drawn(chosen, field.type, nulls) for field in data}
    if pa.types.is_map(data):
        return [(str(n), drawn(chosen, data.item_type, nulls)) for n in range(chosen.randrange(3))]
    if pa.types.is_list(data):
        return [drawn(chosen, data.value_type, nulls) for _ in range(chosen.randrange(3))]
    return chosen.randrange(100)


@pytest.mark.parametrize("nest", [*product(NESTS, repeat=3)], ids="-".join)
def test_nulls_in_what_is_nested_stay_where_they_are(nest: tuple[str, ...]) -> None:
    """Of whole batches and of parts, which Arrow's writer would give to other rows."""
    chosen, data = random.Random("".join(nest)), pa.int64()
    for kind in nest:
        data = NESTS[kind](data)
    schema = pa.schema([("c", data)])
    for _ in range(60):
        rows = [drawn(chosen, data, 0.2) for _ in range(chosen.randrange(1, 9))]
        batch = pa.RecordBatch.from_arrays([pa.array(rows, data)], schema=schema)
        part = batch.slice(chosen.randrange(len(rows)), chosen.randrange(1, 9))
        for written in (batch, part):
            out, writer = encoder(schema)
            writer.write(written)
            writer.finish()
            assert orc.read_table(BytesIO(out.getvalue())).to_pylist() == written.to_pylist()
