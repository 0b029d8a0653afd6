"""The data source hflush under a real Spark: what Spark's own readers find is what was written."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hflush
import pytest
from hflush.spark.commit import vacuum
from integration.spark import Spark
from support.minidfs import Hdfs
from support.s3 import S3
from support.waiting import DEADLINE_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TESTS = Path(__file__).resolve().parents[1]
ROWS = 2000
PARTITIONS = 4


@pytest.fixture(scope="module", name="spark")
def session(spark: Spark) -> SparkSession:
    return spark.session


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    """Rows of a few types that every encoding has, with nulls and awkward text."""
    return spark.sql(
        f"""SELECT id, if(id % 7 = 0, NULL, concat('a"\\\\, é', id)) AS s, id / 3 AS d,
        cast(id AS decimal(20, 3)) / 8 AS m, id % 2 = 0 AS b, cast(id AS int) AS i,
        date_add(DATE'2020-01-01', cast(id % 400 AS int)) AS day,
        timestamp_micros(1577836800000000 + id * 1000001) AS t,
        if(id % 5 = 0, NULL, cast(timestamp_micros(id * 777) AS timestamp_ntz)) AS n,
        id % 3 AS p FROM range(0, {ROWS}, 1, {PARTITIONS})"""
    ).cache()


def save(frame: DataFrame, path: Path | str, mode: str = "append", **options: object) -> None:
    writer = frame.write.format(str(options.pop("format", "hflush"))).mode(mode)
    for name, value in options.items():
        writer = writer.option(name, str(value))
    writer.save(str(path))


def same_rows(left: DataFrame, right: DataFrame) -> bool:
    """Whether both have the same rows, each as often, whatever the order of their columns."""
    ordered = right.select(left.columns)
    return left.exceptAll(ordered).isEmpty() and ordered.exceptAll(left).isEmpty()


def files(path: Path) -> list[Path]:
    return sorted(f for f in path.rglob("part-*") if "_hflush" not in f.parts)


def success(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((path / "_SUCCESS").read_text())
    return document


def reader(spark: SparkSession, frame: DataFrame, encoding: str) -> Any:
    """Spark's own reader of an encoding, with what docs/spark.md says it needs."""
    found = spark.read.format(encoding)
    if encoding in ("csv", "json"):
        found = found.schema(frame.schema)
    return found.option("escape", '"') if encoding == "csv" else found


@pytest.mark.parametrize("encoding", ["parquet", "orc", "csv", "json"])
def test_spark_reads_back_what_it_wrote(
    spark: SparkSession, frame: DataFrame, tmp_path: Path, encoding: str
) -> None:
    """Row for row and type for type as from Spark's own writer; the marker counts."""
    out = tmp_path / "out"
    save(frame, out, encoding=encoding)
    found = reader(spark, frame, encoding).load(str(out))
    assert same_rows(frame, found)
    if encoding in ("parquet", "orc"):  # of text Spark's own writer keeps milliseconds only
        frame.write.format(encoding).save(str(tmp_path / "spark"))
        theirs = spark.read.format(encoding).load(str(tmp_path / "spark"))
        assert theirs.schema == found.schema
        assert same_rows(theirs, found)
    assert len(files(out)) == PARTITIONS
    assert (success(out)["rows"], success(out)["files"]) == (ROWS, PARTITIONS)
    assert success(out)["bytes"] == sum(f.stat().st_size for f in files(out))
    assert [f for f in (out / "_hflush" / "staging").rglob("*")] == []


@pytest.mark.parametrize("encoding", ["parquet", "orc"])
def test_filters_lose_no_rows(spark: SparkSession, tmp_path: Path, encoding: str) -> None:
    """Readers skip by statistics: Arrow's have no NaN, and Java shifts times of ORC by its zone."""
    frame = spark.sql(
        """SELECT id, if(id % 2 = 0, double('NaN'), id) AS x,
        timestamp_seconds(1704067200 + id) AS t FROM range(0, 100, 1, 1)"""
    )
    for column in "xt":
        save(frame.select("id", column), tmp_path / column, encoding=encoding)
    jvm: Any = spark._jvm
    zones = jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone("America/Los_Angeles"))
    try:
        for condition, count in (
            ("x > 1000", 50),
            ("x >= 1000", 50),
            ("x < 2", 1),
            ("x = double('NaN')", 50),
            ("t = timestamp_seconds(1704067200)", 1),
        ):
            found = spark.read.format(encoding).load(str(tmp_path / condition[0]))
            assert found.where(condition).count() == count, condition
    finally:
        zones.setDefault(before)


def test_text_and_arrow(spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    """A line for each string; Arrow's files as pyarrow reads them."""
    import pyarrow as pa

    lines = frame.select("s").na.drop()
    save(lines, tmp_path / "text", encoding="text", compression="gzip")
    assert same_rows(lines, spark.read.text(str(tmp_path / "text")).toDF("s"))
    save(frame.select("id"), tmp_path / "arrow", encoding="arrow", compression="zstd")
    tables = [pa.ipc.open_file(f).read_all() for f in files(tmp_path / "arrow")]
    assert sorted(pa.concat_tables(tables)["id"].to_pylist()) == list(range(ROWS))


def test_partitions_are_named_as_spark_names_them(spark: SparkSession, tmp_path: Path) -> None:
    """Column for column the directories that Spark's own writer makes, and rows that it reads."""
    frame = spark.sql(
        """SELECT id, if(id = 0, NULL, if(id = 1, '', concat('a/b=c:%', id, '{ü} "x"'))) AS `k=1`,
        if(id % 2 = 0, NULL, DATE'2020-02-29') AS day, timestamp_micros(id * 1500000) AS t,
        id % 2 = 0 AS b, cast(id AS decimal(9, 2)) AS m FROM range(6)"""
    ).coalesce(1)
    names = ["k=1", "day", "t", "b", "m"]
    save(frame, tmp_path / "ours", partitionBy=json.dumps(names))
    frame.write.partitionBy(*names).parquet(str(tmp_path / "spark"))

    def directories(path: Path) -> set[str]:
        return {str(f.parent.relative_to(path)) for f in files(path)}

    assert directories(tmp_path / "ours") == directories(tmp_path / "spark")
    ours, theirs = (spark.read.parquet(str(tmp_path / name)) for name in ("ours", "spark"))
    assert same_rows(theirs, ours)


def test_files_of_sparks_go_with_their_sums(
    spark: SparkSession, frame: DataFrame, tmp_path: Path
) -> None:
    """Beside each file that Spark writes is a `.crc` of Hadoop's: an overwrite leaves none."""
    out = tmp_path / "out"
    frame.write.partitionBy("p").parquet(str(out))
    assert len([*out.rglob(".part-*.crc")]) == len(files(out)) > 0
    new = frame.where("p < 2")
    save(new, out, "overwrite", partitionBy="p")
    assert same_rows(new, spark.read.parquet(str(out)))
    assert [*out.rglob(".part-*.crc")] == []
    assert not (out / "p=2").exists()


def test_a_stale_sum_beside_a_file(spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    """Spark's reader fails on a file that was replaced without its `.crc`; not after our writes."""
    out, lines = tmp_path / "out", frame.select("s").na.drop()
    lines.coalesce(1).write.text(str(out))
    (part,) = files(out)
    content = part.read_bytes()
    part.write_bytes(content[::-1])
    with pytest.raises(Exception, match="Checksum"):
        spark.read.text(str(out)).collect()
    with hflush.create(part.as_uri(), overwrite=True) as stream:
        stream.write(content)
    assert same_rows(lines, spark.read.text(str(out)).toDF("s"))
    part.with_name(f".{part.name}.crc").write_bytes(b"crc\0\0\0\2\0" + bytes(400))
    save(lines, out, "overwrite", encoding="text")
    assert same_rows(lines, spark.read.text(str(out)).toDF("s"))


NESTED = """named_struct('x', id, 'y', named_struct('z', array(id, NULL))) AS st,
    map('k', id, concat('l', id), NULL) AS mp, array(named_struct('q', id)) AS ar,
    if(id % 2 = 0, NULL, named_struct('must', 1)) AS nul, cast(concat('b', id) AS binary) AS bi,
    cast('nan' AS double) AS na, cast(NULL AS float) AS fl, cast(1.1 AS float) AS f1"""


@pytest.mark.parametrize("encoding", ["parquet", "orc", "json"])
def test_nested_types(spark: SparkSession, tmp_path: Path, encoding: str) -> None:
    """Structs, maps and arrays in each other; a null struct whose field is declared NOT NULL."""
    frame = spark.sql(f"SELECT id, {NESTED} FROM range(40)").withColumn("mp", _entries())
    save(frame.withColumn("m", _map()), tmp_path / "out", encoding=encoding)
    found = reader(spark, frame.withColumn("m", _map()), encoding).load(str(tmp_path / "out"))
    from pyspark.sql import functions as f

    left = frame.withColumn("m", f.map_entries(_map()))
    assert same_rows(left, found.withColumn("m", f.map_entries("m")))
    frame.withColumn("m", _map()).write.format(encoding).save(str(tmp_path / "spark"))
    assert spark.read.format(encoding).load(str(tmp_path / "spark")).schema == (
        spark.read.format(encoding).load(str(tmp_path / "out")).schema
    )


def _entries() -> Any:
    from pyspark.sql import functions as f

    return f.map_entries("mp")  # maps cannot be compared


def _map() -> Any:
    from pyspark.sql import functions as f

    return f.create_map(f.lit("a"), f.col("id"))


FIELDS = ("day", "hour", "minute", "second")
INTERVALS = {
    f"{first}_{last}": f"CAST(iv AS INTERVAL {first} TO {last})".replace(f"{last} TO {last}", last)
    for number, first in enumerate(FIELDS)
    for last in FIELDS[number:]
}
# What Spark's own writer of text keeps, too: times with milliseconds. And no nulls of strings in
# CSV, where an empty one is as good.
FLAT = {
    "bool": "if(id % 3 = 0, NULL, id % 2 = 0)",
    "i8": "if(id = 3, NULL, cast(id * 6 - 120 AS tinyint))",
    "i16": "cast(id * 1600 - 32000 AS smallint)",
    "i32": "cast(id * 100000000 - 2000000000 AS int)",
    "i64": "(id - 20) * 400000000000000000",
    "f32": "cast(if(id = 4, 'NaN', id / 7) AS float)",
    "f64": "CASE id WHEN 1 THEN -0D WHEN 2 THEN double('-inf') ELSE 1e9 / (id * id + 9) END",
    "small": "if(id = 5, NULL, cast(id / 8 AS decimal(9, 4)))",
    "large": "-1234567890123456789012345678.0123456789 + id",
    "chars": "cast(concat('c', id) AS char(5))",
    "varchars": "if(id = 2, NULL, cast(concat('v', id) AS varchar(9)))",
    "text": """concat('a"\\\\, é\\t', id)""",
    "date": "date_add(DATE'1999-12-20', cast(id AS int))",
    "moment": "timestamp_millis(1577836800000 + id * 100001)",
    "local": "if(id = 6, NULL, cast(timestamp_millis(id * 777) AS timestamp_ntz))",
}
BINARY = {"bytes": "if(id = 7, NULL, unhex(concat('00ff', lpad(hex(id), 2, '0'))))"}
DEEP = {
    "struct": "if(id = 8, NULL, named_struct('x', tinyint(id), 'y', named_struct('z', id / 3)))",
    "list": "if(id = 9, NULL, array(cast(id AS smallint), NULL))",
    "empty": "array_remove(array(id), id)",
    "structs": "array(named_struct('q', concat('r', id), 'd', DATE'2020-02-29'), NULL)",
    "map": "map(concat('k', id), cast(id AS float), 'none', NULL)",
    "maps": "map('k', array(named_struct('b', unhex('00ff'))))",
    "spans": "array(named_struct('iv', iv, 'm', map('k', CAST(iv AS INTERVAL HOUR TO MINUTE))))",
}
HELD = {
    "parquet": FLAT | BINARY | INTERVALS | DEEP,
    "orc": FLAT | BINARY | {name: sql for name, sql in DEEP.items() if name != "spans"},
    "csv": FLAT | INTERVALS,
    "json": FLAT | BINARY | INTERVALS | DEEP,
}


@pytest.fixture
def char_types(spark: SparkSession) -> Iterator[None]:
    """Let the types char(n) and varchar(n) be more than strings."""
    spark.conf.set("spark.sql.preserveCharVarcharTypeInfo", "true")
    yield
    spark.conf.unset("spark.sql.preserveCharVarcharTypeInfo")


@pytest.mark.usefixtures("char_types")
@pytest.mark.parametrize("encoding", HELD)
def test_each_type_is_written_as_sparks_own_writer_does(
    spark: SparkSession, tmp_path: Path, encoding: str
) -> None:
    """Its readers find the same types, also where they infer them, and the same rows."""
    seconds = "element_at(array(0D, -93784.05D, 0.5D, 1e9D, 7D, NULL), cast(id % 6 AS int) + 1)"
    rows = spark.sql(f"SELECT id, make_dt_interval(id, 0, 0, {seconds}) AS iv FROM range(40)")
    frame = rows.selectExpr("id", *(f"{sql} AS {name}" for name, sql in HELD[encoding].items()))
    options = {"escape": '"', "ignoreTrailingWhiteSpace": False} if encoding == "csv" else {}
    save(frame.coalesce(1), tmp_path / "ours", encoding=encoding)
    writer = frame.coalesce(1).write.format(encoding).options(**options)
    writer.save(str(tmp_path / "theirs"))
    # No reader is told of char(n).
    read_as = frame.withColumns(
        {name: frame[name].cast("string") for name in ("chars", "varchars")}
    )

    def found(name: str) -> DataFrame:
        reading = reader(spark, read_as, encoding).options(**options)
        return reading.load(str(tmp_path / name))

    def values(found: DataFrame) -> list[str]:
        return sorted(map(repr, found.select(frame.columns).collect()))

    def inferred(name: str) -> StructType:
        reading = spark.read.format(encoding).options(**options, inferSchema=True)
        return reading.load(str(tmp_path / name)).schema

    assert values(found("ours")) == values(found("theirs")) == values(frame)
    assert found("ours").schema == found("theirs").schema
    assert inferred("ours") == inferred("theirs")


@pytest.mark.parametrize("encoding", ["csv", "json"])
def test_intervals_are_spelt_as_spark_spells_them(
    spark: SparkSession, tmp_path: Path, encoding: str
) -> None:
    """Of all fields, negative ones, with fractions and the least and the greatest one."""
    micros = (-93784050000, 0, 500000, 1, -1, 9999999, 10000000, -(1 << 63), (1 << 63) - 1)
    rows = [(timedelta(microseconds=count),) for count in micros]
    whole = spark.createDataFrame(rows, "iv INTERVAL DAY TO SECOND")
    frame = whole.selectExpr(*(f"{sql} AS {name}" for name, sql in INTERVALS.items()))
    save(frame.coalesce(1), tmp_path / "ours", encoding=encoding)
    frame.coalesce(1).write.format(encoding).save(str(tmp_path / "theirs"))

    def lines(name: str) -> list[str]:
        return [line for file in files(tmp_path / name) for line in file.read_text().split("\n")]

    quote = '"' if encoding == "csv" else ""  # as they like
    assert [line.replace(quote, "") for line in lines("ours")] == lines("theirs")


@pytest.mark.parametrize("encoding", ["parquet", "csv", "json"])
def test_times_of_day(spark: SparkSession, tmp_path: Path, encoding: str) -> None:
    """With and without a fraction, and nulls."""
    spark.conf.set("spark.sql.timeType.enabled", "true")
    frame = spark.sql(
        """SELECT id, if(id = 3, NULL, make_time(23, cast(id AS int), 59.999999)) AS a,
        cast(TIME'10:00:00' AS time(0)) AS b FROM range(9)"""
    )
    save(frame, tmp_path / "out", encoding=encoding)
    assert same_rows(frame, reader(spark, frame, encoding).load(str(tmp_path / "out")))


def test_no_rows_and_empty_partitions(
    spark: SparkSession, frame: DataFrame, tmp_path: Path
) -> None:
    """A file that has the columns; tasks without rows write nothing."""
    save(frame.where("id < 0"), tmp_path / "none")
    found = spark.read.parquet(str(tmp_path / "none"))
    assert found.columns == frame.columns
    assert (found.count(), success(tmp_path / "none")["rows"]) == (0, 0)
    nothing = spark.createDataFrame(spark.sparkContext.emptyRDD(), frame.schema)
    assert nothing.rdd.getNumPartitions() == 0
    save(nothing, tmp_path / "nothing")
    assert spark.read.parquet(str(tmp_path / "nothing")).columns == frame.columns
    save(frame.where("id < 5"), tmp_path / "few", encoding="json")
    assert len(files(tmp_path / "few")) == 1


def test_files_are_bounded(frame: DataFrame, tmp_path: Path) -> None:
    """By rows exactly, by bytes roughly."""
    import pyarrow.parquet as pq

    save(frame, tmp_path / "rows", maxRecordsPerFile=300)
    counts = [pq.read_metadata(f).num_rows for f in files(tmp_path / "rows")]
    assert (max(counts), sum(counts), len(counts)) == (300, ROWS, 2 * PARTITIONS)
    save(frame, tmp_path / "bytes", maxRecordsPerFile=100, maxBytesPerFile="1k", encoding="csv")
    assert len(files(tmp_path / "bytes")) == ROWS // 100


def test_modes(spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    """append, overwrite (also of what is being read), of partitions, error, ignore."""
    out = tmp_path / "out"

    def rows() -> dict[int, int]:
        found = spark.read.parquet(str(out)).groupBy("p").count().collect()
        return {row["p"]: row["count"] for row in found}

    save(frame.where("p < 2"), out, partitionBy="p")
    whole = rows()
    save(frame.where("p = 1"), out, partitionBy="p")
    assert rows() == {0: whole[0], 1: 2 * whole[1]}
    part = frame.where("p = 1 AND id < 100")
    save(part, out, "overwrite", partitionBy="p", partitionOverwriteMode="dynamic")
    assert rows() == {0: whole[0], 1: part.count()}
    last = spark.read.parquet(str(out)).where("p = 0")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "DYNAMIC")
    try:
        with pytest.raises(Exception, match="option 'partitionOverwriteMode' is missing"):
            save(last, out, "overwrite", partitionBy="p")
        assert rows() == {0: whole[0], 1: part.count()}
        save(last, out, "overwrite", partitionBy="p", partitionOverwriteMode="static")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows() == {0: whole[0]}
    assert not (out / "p=1").exists()
    save(frame, out, ifExists="ignore")
    assert rows() == {0: whole[0]}
    with pytest.raises(Exception, match="has files, and ifExists=error"):
        save(frame, out, ifExists="error")
    assert rows() == {0: whole[0]}


def test_a_write_with_a_name_happens_once(
    spark: SparkSession, frame: DataFrame, tmp_path: Path
) -> None:
    for _ in range(2):
        save(frame, tmp_path / "out", commitId="night of the 1st")
    assert spark.read.parquet(str(tmp_path / "out")).count() == ROWS


REFUSED = [
    ({"encodng": "csv"}, r"unknown option 'encodng' \(did you mean 'encoding'\?\)"),
    ({"encoding": "avro"}, "option 'encoding' is 'avro'; it can be parquet"),
    ({"compression": "lzo"}, "'compression of parquet' is 'lzo'; it can be snappy"),
    ({"durability": "maybe"}, "it can be close, hflush, hsync"),
    ({"maxRecordsPerFile": "-1"}, "must not be negative"),
    ({"partitionBy": "nope"}, "there is no column 'nope'"),
    ({"partitionBy": "d"}, "partitionBy cannot hold column 'd' of type double"),
    ({"encoding": "text"}, "text cannot hold column 'id' of type bigint"),
    ({"header": "true"}, "option 'header' is not for the encoding parquet"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_is_not_supported_is_refused_before_anything_is_written(
    frame: DataFrame, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        save(frame, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_types_that_an_encoding_lacks_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    for select, encoding in (
        ("array(id) AS a", "csv"),
        ("named_struct('v', parse_json('1')) AS s", "parquet"),
    ):
        with pytest.raises(Exception, match=f"the encoding {encoding} cannot hold column"):
            save(spark.sql(f"SELECT id, {select} FROM range(3)"), tmp_path, encoding=encoding)
    with pytest.raises(Exception, match=r"cannot hold a null in .*s.*, the only column"):
        save(spark.sql("SELECT string(NULL) AS s"), tmp_path / "csv", encoding="csv")
    assert files(tmp_path) == []


def test_in_another_thread_the_session_has_to_be_named(spark: SparkSession, tmp_path: Path) -> None:
    """Spark asks the thread's session for Python data sources, and a new thread has none."""
    import hflush.spark

    frame = spark.range(0, 1, 1, 1)
    ways: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "nothing": nullcontext,
        "options": lambda: nullcontext(hflush.spark.options(spark)),
        "progress": lambda: hflush.spark.progress(spark),
        "register": lambda: nullcontext(hflush.spark.register(spark)),
    }
    failures: dict[str, str] = {}

    def write(way: str) -> None:
        try:
            with ways[way]():
                save(frame, tmp_path / way)
        except Exception as failure:
            failures[way] = str(failure)

    for way in ways:
        thread = threading.Thread(target=write, args=(way,))
        thread.start()
        thread.join()
    # If Spark finds the format by itself one day, docs/spark.md can say so.
    assert list(failures) == ["nothing"]
    assert "hflush" in failures["nothing"]
    assert {path.name for path in tmp_path.iterdir()} == set(ways) - {"nothing"}


# --- failures ---


@pytest.fixture(scope="module")
def failing(spark: SparkSession) -> str:
    from integration.killing_source import FailingSource

    spark.dataSource.register(FailingSource)
    return FailingSource.name()


@pytest.mark.parametrize("way", ["raise", "kill"])
def test_tasks_that_fail_are_repeated(
    spark: SparkSession, frame: DataFrame, failing: str, tmp_path: Path, way: str
) -> None:
    """Each task's first attempt dies after some rows: they are there once."""
    out = tmp_path / "out"
    save(frame, out, format=failing, failTasks=way)
    assert same_rows(frame, spark.read.parquet(str(out)))
    assert len(files(out)) == PARTITIONS
    assert [f for f in (out / "_hflush" / "staging").rglob("*")] == []


def test_tasks_that_fail_always_leave_what_was_there(
    spark: SparkSession, frame: DataFrame, failing: str, tmp_path: Path
) -> None:
    """Spark gives up, and aborts: the destination is as it was, and nothing is staged."""
    out = tmp_path / "out"
    old = frame.limit(10).select("id")
    save(old, out)
    before = files(out)
    with pytest.raises(Exception, match="the first attempt fails"):
        save(frame.select("id").coalesce(1), out, "overwrite", format=failing, failTasks="always")
    assert files(out) == before
    assert same_rows(old, spark.read.parquet(str(out)))
    assert [f for f in (out / "_hflush" / "staging").rglob("*")] == []


def test_workers_with_little_memory_and_children(
    spark: SparkSession, frame: DataFrame, failing: str, tmp_path: Path
) -> None:
    """RLIMIT_AS of 768 MiB; a fork in the middle of a task, which writes with hflush, too."""
    out, children = tmp_path / "out", tmp_path / "children"
    save(frame, out, format=failing, memory=768, forks=children)
    assert same_rows(frame, spark.read.parquet(str(out)))
    written = {file.name: file.read_bytes() for file in children.iterdir()}
    assert written == {str(number): b"the child's" for number in range(PARTITIONS)}


def test_a_commit_whose_process_dies_leaves_the_old_or_the_new(
    spark: SparkSession, frame: DataFrame, failing: str, tmp_path: Path
) -> None:
    """Killed early and late in it: Spark then calls abort(), which leaves what is declared.

    tests/faults/test_spark_commit.py kills it before every call, without Spark.
    """
    out, outcomes = tmp_path / "out", []
    old, new = frame.limit(10).select("id"), frame.where("id >= 10 AND id < 30").select("id")
    save(old, out)
    for call in (2, 14):
        with pytest.raises(Exception, match=r"(?i)python|crash|EOF"):
            save(new.coalesce(2), out, "overwrite", format=failing, killCommitBefore=call)
        vacuum(str(out), older_than=0)
        found = spark.read.parquet(str(out))
        outcomes.append(same_rows(new, found))
        assert outcomes[-1] or same_rows(old, found)
    assert outcomes == [False, True]


KILLED_DRIVER = """
import sys
sys.path.insert(0, {tests!r})
from pyspark.sql import SparkSession
from integration.killing_source import FailingSource
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(FailingSource)
jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
rows = spark.range(0, 100, 1, 2)
writer = rows.write.format("hflush_failing").mode("append").option("driver", jvm)
writer.option("killCommitBefore", 3).option("killedCalls", "rename").save({out!r})
"""


def test_an_append_whose_driver_was_killed_in_its_commit_and_runs_again_is_not_doubled(
    spark: SparkSession, tmp_path: Path
) -> None:
    """kill -9 of the JVM between two renames: Spark's own sink doubles what had been renamed."""
    out = tmp_path / "out"
    rows = spark.range(0, 100, 1, 2)
    program = KILLED_DRIVER.format(tests=str(TESTS), out=str(out))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=2 * DEADLINE_S
    )
    assert done.returncode != 0
    assert len(list((out / "_hflush" / "commits").glob("*.intent"))) == 1, done.stderr
    assert len(list(out.glob("*.parquet"))) == 1
    save(rows, out)
    assert same_rows(rows, spark.read.parquet(str(out)))


# --- the other stores ---


def test_on_hdfs(spark: SparkSession, frame: DataFrame, hdfs_cluster: Hdfs) -> None:
    """Renames on the NameNode; Spark reads them there."""
    out = f"{hdfs_cluster.url}{hdfs_cluster.root()}/out"
    for rows, mode in ((frame, "append"), (frame.where("p < 2"), "overwrite")):
        save(rows, out, mode, partitionBy="p", durability="hsync", **hdfs_cluster.conf)
    # Compared here: the tasks of an `exceptAll` over these files are never begun by this Spark.
    found = spark.read.parquet(out).select(*frame.columns).collect()
    assert sorted(found) == sorted(frame.where("p < 2").collect())


def test_on_s3(spark: SparkSession, frame: DataFrame, s3_server: S3, tmp_path: Path) -> None:
    """Uploads that the driver completes; read from a copy, as this Spark has no client of S3.

    The keys of the server are the session's: tasks and commit get them, the secret ones, too.
    """
    out = f"{s3_server.url}{s3_server.root()}/out"
    for key, value in s3_server.conf.items():
        spark.conf.set(key, value)
    handed = hflush.spark.options(spark)
    for key in s3_server.conf:
        spark.conf.unset(key)
    for rows, mode in ((frame, "append"), (frame.where("p < 2"), "overwrite")):
        save(rows, out, mode, partitionBy="p", **handed)
    fs = hflush.FileSystem.get(out, s3_server.conf)
    for status in fs.list_files(out, recursive=True):
        copy = tmp_path / status.path.removeprefix(out + "/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        with fs.open(status.path) as stream:
            copy.write_bytes(stream.read())
    assert same_rows(frame.where("p < 2"), spark.read.parquet(str(tmp_path)))
    assert fs.list_multipart_uploads(out) == []
