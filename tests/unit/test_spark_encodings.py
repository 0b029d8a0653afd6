"""What the encodings of hflush.spark write and refuse, without a session."""

from __future__ import annotations

import math
import random
import re
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from hflush.spark.encodings import ENCODINGS, Sink, parquet
from hflush.spark.encodings.base import timestamp_text
from hflush.spark.partitions import split
from hflush.spark.schemas import check_columns
from pyspark.sql import types as t

LONG, STRING, NTZ = t.LongType(), t.StringType(), t.TimestampNTZType()
PAIR = t.StructType([t.StructField("a", LONG), t.StructField("b", STRING)])
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999  # the years 1 and 9999, in µs


@pytest.mark.parametrize("zone", ["UTC", None])
def test_timestamps_are_spelt_as_arrow_spells_them(zone: str | None):
    """Which looks up the zone for each."""
    drawn = random.Random(13)
    moments = [FIRST, LAST, -1, 0, 1, None, *(drawn.randint(FIRST, LAST) for _ in range(1000))]
    column = pa.array(moments, pa.int64()).cast(pa.timestamp("us", tz=zone))
    assert timestamp_text(column).equals(column.cast(pa.string()))


@pytest.mark.parametrize("zone", ["UTC", None])
@pytest.mark.parametrize("moment", [1 << 62, -(1 << 62)])
def test_timestamps_without_a_text_are_refused(zone: str | None, moment: int):
    """Arrow prints another date, or none."""
    column = pa.array([0, moment], pa.int64()).cast(pa.timestamp("us", tz=zone))
    with pytest.raises(ValueError, match="beyond the year 32767"):
        timestamp_text(column)


def test_times_that_spark_would_not_read_are_refused(monkeypatch: pytest.MonkeyPatch):
    """Arrow marked all times of day as those of UTC."""
    schema = t.StructType([t.StructField("at", t.ArrayType(t.TimeType()))])
    ENCODINGS["parquet"].check(schema)
    monkeypatch.setattr(parquet, "_marks_times_as_local", lambda: False)
    with pytest.raises(TypeError, match=r"parquet with pyarrow .* column 'at.element'"):
        ENCODINGS["parquet"].check(schema)


def test_no_timestamps():
    assert timestamp_text(pa.array([], pa.timestamp("us", tz="UTC"))).to_pylist() == []
    assert timestamp_text(pa.array([None], pa.timestamp("us"))).to_pylist() == [None]


def columns(**types: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, data) for name, data in types.items()])


class Stream(BytesIO):
    """As far as a Sink needs one."""


def written(name: str, batch: pa.RecordBatch) -> str:
    """Return the text of a file."""
    stream: Any = Stream()
    encoder = ENCODINGS[name].encoder(Sink(stream), batch.schema, "none", {})
    encoder.write(batch)
    encoder.finish()
    return bytes(stream.getvalue()).decode(errors="surrogateescape")


@pytest.mark.parametrize("data", [pa.float32(), pa.float64()], ids=str)
def test_whole_floats_stay_floats_for_those_who_infer_types(data: pa.DataType):
    floats = [1.0, -0.0, -3.0, 0.5, 1e30, None, float("nan"), float("-inf")]
    batch = pa.record_batch({"n": range(8), "f": pa.array(floats, data)})
    spelt = ["1.0", "-0.0", "-3.0", "0.5", "1e+30", None, '"NaN"', '"-Infinity"']
    values = ["" if text is None else f',"f":{text}' for text in spelt]
    lines = [f'{{"n":{number}{value}}}\n' for number, value in enumerate(values)]
    assert written("json", batch) == "".join(lines)
    texts = ["1.0", "-0.0", "-3.0", "0.5", "1e+30", "", "NaN", "-Inf"]
    lines = [f"{number},{text}\n" for number, text in enumerate(texts)]
    assert written("csv", batch).replace('"', "") == "".join(lines)
    assert written("csv", batch.slice(3, 1)) == "3,0.5\n"
    assert written("csv", batch.slice(0, 1)) == '0,"1.0"\n'
    keys = pa.array([[(2.0, 1)]], pa.map_(data, pa.int64()))
    assert written("json", pa.record_batch({"m": keys})) == '{"m":{"2.0":1}}\n'


@pytest.mark.parametrize("name", ["csv", "json"])
def test_dates_without_a_text_are_refused(name: str):
    """Arrow prints a remark instead."""
    days = [-12_687_429, -12_687_428, 11_248_737, 11_248_738]
    dates = pa.record_batch({"n": range(4), "d": pa.array(days, pa.int32()).cast(pa.date32())})
    text = written(name, dates.slice(1, 2))
    assert "-32767-01-01" in text
    assert "32767-12-31" in text
    for odd in (dates.slice(0, 2), dates.slice(2, 2)):
        with pytest.raises(ValueError, match="beyond the year 32767"):
            written(name, odd)


@pytest.mark.parametrize("key", [PAIR, t.ArrayType(LONG), t.NullType()], ids=type)
def test_keys_of_maps_in_json_are_strings(key: t.DataType):
    """Wherever the map is; the text of a nested key made a line that nothing could read."""
    json = ENCODINGS["json"]
    json.check(columns(id=LONG, m=t.MapType(LONG, PAIR)))
    message = re.escape(f"json cannot hold column 'a.element.key' of type {key.simpleString()}: ")
    with pytest.raises(TypeError, match=f"{message}.*cast it"):
        json.check(columns(id=LONG, a=t.ArrayType(t.MapType(key, LONG))))


def test_rows_without_columns_are_refused():
    """No file says how many there are."""
    with pytest.raises(ValueError, match=r"there are no columns: .* select one"):
        check_columns(columns(), ())


@pytest.mark.parametrize("name", ["arrow", "json", "orc", "parquet"])
def test_structs_without_fields_are_refused(name: str):
    """As Spark's own writers do."""
    with pytest.raises(TypeError, match=rf"{name} cannot hold column 'a\.element', a struct with"):
        ENCODINGS[name].check(columns(id=LONG, a=t.ArrayType(t.StructType())))


def test_parquet_says_which_spark_wrote_it():
    """Else a reader's configuration decides by which calendar old dates are read."""
    metadata = ENCODINGS["parquet"].schema(columns(n=LONG), ()).metadata
    assert metadata[b"org.apache.spark.version"] == pyspark.__version__.encode()


def test_parquet_has_the_ids_of_fields():
    """They are in the metadata of columns, as Spark has them: readers may go by them."""
    inner = t.StructField("x", LONG, metadata={"parquet.field.id": 8})
    outer = t.StructField("s", t.StructType([inner]), metadata={"parquet.field.id": 7})
    schema = ENCODINGS["parquet"].schema(t.StructType([outer, t.StructField("n", LONG)]), ())
    batch = pa.record_batch({"s": [{"x": 1}], "n": [2]}).cast(schema)
    out: Any = Stream()
    encoder = ENCODINGS["parquet"].encoder(Sink(out), schema, "none", {})
    encoder.write(batch)
    encoder.finish()
    column = pq.read_schema(BytesIO(out.getvalue())).field("s")
    found = [column.metadata, column.type[0].metadata]
    assert [one[b"PARQUET:field_id"] for one in found] == [b"7", b"8"]


def test_parquet_lets_no_filter_pass_over_nan():
    """The greatest number to Spark, which Arrow leaves out of the greatest value of a column."""
    floats = t.ArrayType(t.FloatType())
    spark = columns(n=LONG, x=t.DoubleType(), s=t.StructType([t.StructField("y", floats)]))
    schema = ENCODINGS["parquet"].schema(spark, ())
    batch = pa.record_batch({"n": [1], "x": [math.nan], "s": [{"y": [math.nan]}]}).cast(schema)
    out: Any = Stream()
    encoder = ENCODINGS["parquet"].encoder(Sink(out), schema, "none", {})
    encoder.write(batch)
    encoder.finish()
    group = pq.read_metadata(BytesIO(out.getvalue())).row_group(0)
    found = [group.column(index) for index in range(group.num_columns)]
    assert [one.path_in_schema for one in found if one.is_stats_set] == ["n"]
    inner = pa.struct([("b", pa.float64())])
    one_path = pa.schema([("a.b", pa.int64()), ("a", inner), ("n", pa.int64())])
    assert parquet._with_statistics(one_path) == ["n"]


def test_columns_without_a_type_have_no_values():
    """As in the JSON of Spark: a column of nulls is left out, an array of them has its length."""
    ENCODINGS["json"].check(columns(v=t.NullType(), a=t.ArrayType(t.NullType())))
    nulls = pa.array([[None, None], None], pa.list_(pa.null()))
    batch = pa.record_batch({"n": [1, 2], "v": pa.nulls(2), "a": nulls})
    assert written("json", batch) == '{"n":1,"a":[null,null]}\n{"n":2}\n'


def test_bytes_that_are_no_text_stop_no_task():
    """Spark's strings may have some: it keeps them in text, and replaces them elsewhere."""
    odd = pa.array([b"pap\xe9", None], pa.binary()).view(pa.string())
    assert written("text", pa.record_batch({"s": odd})) == "pap\udce9\n\n"
    batch = pa.record_batch({"n": [1, 2], "s": odd})
    assert written("json", batch) == '{"n":1,"s":"pap\ufffd"}\n{"n":2}\n'
    assert written("csv", batch) == '1,"pap\ufffd"\n2,\n'
    names = [directory for directory, _ in split(batch, ("s",))]
    assert names == ["s=pap\ufffd", "s=__HIVE_DEFAULT_PARTITION__"]


DAY, HOUR, MINUTE, SECOND = range(4)
SPANS = [  # as test_spark_source sees Spark write them
    (DAY, DAY, 187_200_000_001, "INTERVAL '2' DAY"),
    (DAY, HOUR, -187_200_000_001, "INTERVAL '-2 04' DAY TO HOUR"),
    (DAY, MINUTE, 0, "INTERVAL '0 00:00' DAY TO MINUTE"),
    (DAY, SECOND, 93_784_050_000, "INTERVAL '1 02:03:04.05' DAY TO SECOND"),
    (DAY, SECOND, -(1 << 63), "INTERVAL '-106751991 04:00:54.775808' DAY TO SECOND"),
    (HOUR, HOUR, 93_784_000_000, "INTERVAL '26' HOUR"),
    (HOUR, MINUTE, -1, "INTERVAL '-00:00' HOUR TO MINUTE"),
    (HOUR, SECOND, 1, "INTERVAL '00:00:00.000001' HOUR TO SECOND"),
    (MINUTE, MINUTE, 6_000_000_000, "INTERVAL '100' MINUTE"),
    (MINUTE, SECOND, 10_000_000, "INTERVAL '00:10' MINUTE TO SECOND"),
    (SECOND, SECOND, 9_500_000, "INTERVAL '09.5' SECOND"),
]


@pytest.mark.parametrize(("first", "last", "micros", "text"), SPANS)
def test_intervals_are_spelt_with_their_fields(first: int, last: int, micros: int, text: str):
    """Which Arrow's type does not have; also in what is nested."""
    span = t.DayTimeIntervalType(first, last)
    flat, value = columns(n=LONG, iv=span), pa.array([micros, None], pa.int64())
    batch = pa.record_batch({"n": [1, 2], "iv": value.cast(pa.duration("us"))})
    assert written("csv", batch.cast(ENCODINGS["csv"].schema(flat, ()))) == f'1,"{text}"\n2,\n'
    deep = columns(p=LONG, a=t.ArrayType(columns(m=t.MapType(span, span))))
    ENCODINGS["json"].check(deep)
    one = value.cast(pa.duration("us"))[0]
    rows = [[{"m": [(one, one), (one, None)]}]]
    data = pa.list_(pa.struct([("m", pa.map_(pa.duration("us"), pa.duration("us")))]))
    nested = pa.record_batch({"a": pa.array(rows, data)})
    found = written("json", nested.cast(ENCODINGS["json"].schema(deep, ("p",))))
    assert found == f'{{"a":[{{"m":{{"{text}":"{text}","{text}":null}}}}]}}\n'
