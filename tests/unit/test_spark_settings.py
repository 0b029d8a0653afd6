"""The options of a write, which are read before anything is written."""

from __future__ import annotations

import gzip
import importlib
from io import UnsupportedOperation
from types import SimpleNamespace
from typing import Any

import pytest
from hflush.spark import schemas
from hflush.spark.commit import Mode
from hflush.spark.encodings import ENCODINGS
from hflush.spark.partitions import check_partitions
from hflush.spark.properties import Property, parse
from hflush.spark.session import _handed_on
from hflush.spark.settings import WriteSettings
from hflush.spark.source import HflushDataSource
from pyspark.sql import types as t


def settings(overwrite: bool = False, **options: str) -> WriteSettings:
    return WriteSettings.of({"path": "/table", **options}, overwrite)


def test_options_of_an_encoding_are_read_before_anything_is_written():
    assert settings(encoding="csv", header=" True ").encoding_options == {"header": " True "}
    with pytest.raises(ValueError, match="option 'header': neither true nor false: 'maybe'"):
        settings(encoding="csv", header="maybe")


def test_only_partitions_can_be_replaced_one_by_one():
    """Without a column all files would be the one partition, and go."""
    dynamic = settings(overwrite=True, partitionOverwriteMode="dynamic", partitionBy="day")
    assert dynamic.mode is Mode.OVERWRITE_PARTITIONS
    with pytest.raises(ValueError, match="dynamic, and option 'partitionBy' is missing"):
        settings(overwrite=True, partitionOverwriteMode="dynamic")


@pytest.mark.parametrize(
    ("option", "value"),
    [("commitId", ""), ("commitId", " "), *(("partitionBy", v) for v in ("", " , ", "[]"))],
)
def test_options_that_are_given_and_empty_are_refused(option: str, value: str):
    """As from a variable that is not set: what was asked for would not happen, without a word."""
    with pytest.raises(ValueError, match=f"option '{option}' .*leave the option out"):
        settings(**{option: value})


def test_a_path_is_taken_as_it_is():
    """Blanks at its ends are of the name of a directory."""
    assert settings(path="/table ").url == "/table "
    with pytest.raises(ValueError, match="option 'path' is missing"):
        settings(path=" ")


def test_parquet_has_no_compression_that_spark_cannot_read():
    with pytest.raises(ValueError, match="'compression of parquet' is 'brotli'; it can be snappy"):
        settings(compression="brotli")


def test_the_jvms_class_of_checkpoint_managers_is_not_handed_on() -> None:
    """It is one for the store of the checkpoint, or a vendor's, which Python does not have."""
    keys = {f"spark.sql.streaming.{name}": "x" for name in ("checkpointFileManagerClass", "other")}
    _, names = _handed_on([Property(key, value, ()) for key, value in keys.items()])
    assert names == ["spark.sql.streaming.other"]


def test_what_the_session_has_set_to_nothing_is_handed_on() -> None:
    """Else the value of a file would come back."""
    conf, names = _handed_on([Property("fs.s3a.session.token", "", ("programmatically",))])
    assert [conf[name] for name in names] == [""]


def test_an_old_name_that_the_session_has_set_goes_before_a_default() -> None:
    """Spark may set it before the class of Java that knows it has been loaded."""
    old = Property("dfs.block.size", "1m", ("programmatically",))
    conf, names = _handed_on([old, Property("dfs.blocksize", "128m", ("hdfs-default.xml",))])
    assert [conf[name] for name in names] == ["1m"]


def test_the_jvms_properties_may_have_any_text() -> None:
    """A control character too, which XML cannot have: as bytes of Configuration.write."""
    source = gzip.compress(b"core-default.xml")
    sources = b"\x00\x00\x00\x02" + len(source).to_bytes(4, "big") + source + b"\xff" * 4
    values = (b"\x01\x01", b"\x8e\x01\x2c" + 150 * "\u00e9".encode())
    content = b"\x02\x01a" + values[0] + sources + b"\x03b.c" + values[1] + b"\xff" * 4
    assert parse(content) == [
        Property("a", "\x01", ("core-default.xml", "")),
        Property("b.c", 150 * "\u00e9", ()),
    ]


@pytest.mark.parametrize("name", ["parquet.encryption.footer.key", "orc.compress", "x.y"])
def test_options_that_would_change_nothing_are_refused(name: str) -> None:
    """They have a dot, but are no keys."""
    with pytest.raises(ValueError, match=rf"unknown option '{name}': .* begin with dfs\."):
        settings(**{name: "v"})
    keys = {"fs.s3a.bucket.b.endpoint": "h", "FS.S3A.Access.Key": "k"}
    assert settings(**keys).keys == {"fs.s3a.bucket.b.endpoint": "h", "fs.s3a.access.key": "k"}


@pytest.mark.parametrize(("text", "seconds"), [("7d", 604800), ("12h", 43200), ("1500", 1.5)])
def test_the_log_of_a_query_may_forget_files(text: str, seconds: float) -> None:
    """After a time as Spark's sink reads it."""
    assert WriteSettings.of_stream({"path": "/t", "retention": text}).retention == seconds


@pytest.mark.parametrize(("text", "why"), [("a week", "not a time"), ("0", "more than 0")])
def test_a_time_after_which_nothing_is_kept_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"option 'retention'.*{why}"):
        WriteSettings.of_stream({"path": "/t", "retention": text})
    with pytest.raises(ValueError, match="option 'retention' is for streaming queries"):
        settings(retention="7d")


def test_a_query_may_have_a_name() -> None:
    """Spark passes it on, as it does the checkpoint."""
    own = {"queryname": "clicks", "checkpointlocation": "/c"}
    assert WriteSettings.of_stream({"path": "/t", **own}).keys == {}


@pytest.mark.skipif(not hasattr(t.TimeType(), "precision"), reason="Spark has no such precision")
def test_times_beyond_microseconds_are_refused() -> None:
    schema = t.StructType([t.StructField("a", t.StructType([t.StructField("b", t.TimeType(9))]))])
    with pytest.raises(
        TypeError, match=r"cannot hold column 'a\.b' of type time\(9\), .*time\(6\)"
    ):
        ENCODINGS["parquet"].check(schema)


def test_reading_is_refused_with_advice() -> None:
    """Spark asks for the columns first."""
    with pytest.raises(UnsupportedOperation, match=r"only writes: .* spark\.read\.parquet"):
        HflushDataSource({"path": "/table"}).schema()


def test_an_older_spark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by what it lacks."""
    monkeypatch.delattr(t, "TimeType")
    with pytest.raises(ImportError, match=r"needs Spark 4\.1 or later, and this is pyspark"):
        importlib.reload(schemas)


def test_columns_of_partitions_are_found_in_any_case() -> None:
    """As by Spark, whose names are used; once each."""
    schema = t.StructType([t.StructField(name, t.LongType()) for name in ("Day", "n")])
    assert schemas.check_columns(schema, ("dAY",)) == ("Day",)
    with pytest.raises(ValueError, match="names a column twice"):
        schemas.check_columns(schema, ("Day", "day"))


@pytest.mark.parametrize("name", ["", ".type"])
def test_columns_whose_directories_readers_skip_are_refused(name: str) -> None:
    schema = t.StructType([t.StructField(n, t.LongType()) for n in (name, "_x", "n")])
    check_partitions(schema, ("_x",))
    with pytest.raises(ValueError, match=f"names the column '{name}': readers skip directories"):
        check_partitions(schema, ("_x", name))


def test_the_type_of_a_column_of_partitions_is_refused_with_what_it_may_be() -> None:
    schema = t.StructType([t.StructField("d", t.DoubleType())])
    with pytest.raises(TypeError, match=r"column 'd' of type double: cast it to string, .* or ti"):
        check_partitions(schema, ("d",))


def test_names_in_keys_keep_their_case() -> None:
    """Which Spark changes; as what nameservices and NameNodes are called is in values, too."""
    addresses = {"dfs.ha.namenodes.prod": "NN1,nn2", "dfs.namenode.rpc-address.prod.nn1": "h:1"}
    keys = settings(**{"dfs.nameservices": "PROD, b", **addresses}).keys
    assert list(keys)[1:] == ["dfs.ha.namenodes.PROD", "dfs.namenode.rpc-address.PROD.NN1"]


@pytest.mark.parametrize(
    ("session", "given", "rows"),
    [("7", {}, 7), ("-1", {}, 0), (None, {}, 0), ("7", {"maxRecordsPerFile": "0"}, 0)],
)
def test_files_have_the_rows_that_the_session_allows(
    session: str | None, given: dict[str, str], rows: int
) -> None:
    """As those of Spark, unless an option says otherwise."""
    context: Any = SimpleNamespace(getLocalProperty=lambda _: session)
    assert settings(**given).in_task(context).max_rows == rows
