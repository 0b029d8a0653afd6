"""Reading it all back with the JVM: Spark's own readers, and the JDK's CRC32C over every file.

Nothing of hflush takes part here. A fact is a named integer: the driver works out the expected ones
from the rows before anything is written, Spark works out the same ones from what it reads.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

JOURNAL_FACTS = """
    SELECT count(1) AS rows,
           sum(try_cast(get(field, 7) AS bigint)) AS `sum(distance)`,
           count_if(NOT sound) AS `torn or corrupt records`,
           count_if(number IS DISTINCT FROM place - 1) AS `records out of order`
    FROM (SELECT *, row_number() OVER (PARTITION BY get(field, 0), get(field, 1)
                                       ORDER BY file_block_start, position) AS place
          FROM (SELECT *,
                       try_cast(get(field, 2) AS bigint) AS number,
                       lpad(lower(hex(crc32(left(value, length(value) - 9)))), 8, '0')
                           = right(value, 8) AS sound
                FROM {records}))
"""


@dataclass(frozen=True)
class Expected:
    """What a reader must find: the facts of a table, the facts of the journal."""

    table: dict[str, int]
    journal: dict[str, int]
    ddl: str
    """The schema for the CSV reader."""


def expected_facts(table: pa.Table, frame: DataFrame) -> Expected:
    """Return the facts of the rows themselves: sums by pyarrow, the fingerprint by Spark."""
    import pyarrow as pa
    import pyarrow.compute as pc

    facts = {"rows": table.num_rows}
    for name, column in zip(table.column_names, table.columns, strict=True):
        facts[f"count({name})"] = len(column) - column.null_count
        if pa.types.is_integer(column.type):
            facts[f"sum({name})"] = pc.sum(column).as_py()
    facts |= first_row(frame.select(fingerprint(frame)))
    journal = {
        "rows": facts["rows"],
        "sum(distance)": facts["sum(distance)"],
        "torn or corrupt records": 0,
        "records out of order": 0,
    }
    ddl = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema)
    return Expected(facts, journal, ddl)


@dataclass(frozen=True)
class Written:
    """A file in its final place, as hflush has it."""

    encoding: str
    name: str
    bytes: int
    crc32c: int


@contextmanager
def readable(out: str) -> Iterator[tuple[str, str]]:
    """Yield a directory that Spark's JVM can read and that has what is below `out`, and how.

    Spark comes without a client of S3: Arrow's copies the objects onto this machine's disk first.
    """
    scheme, _, rest = out.partition("://")
    if scheme not in {"s3", "s3a"}:
        yield out.replace("file+crc:", "file:", 1), ""
        return
    with tempfile.TemporaryDirectory(prefix="hflush-demo-") as copied:
        from pyarrow import fs

        store = fs.S3FileSystem(endpoint_override=os.environ.get("AWS_ENDPOINT_URL_S3"))
        local = fs.LocalFileSystem()
        fs.copy_files(rest, copied, source_filesystem=store, destination_filesystem=local)
        yield f"file://{copied}", ", from copies by Arrow's S3 client"


@dataclass(frozen=True)
class Checked:
    """One directory, compared."""

    encoding: str
    rows: int
    facts: int
    files: int
    differences: list[str]

    def __str__(self) -> str:
        title = f"{self.encoding:<9}"
        if self.differences:
            return "\n".join(f"{title} DIFFERENT: {difference}" for difference in self.differences)
        return f"{title} {self.rows:,} rows, {self.facts} facts and {self.files} files: all equal"


def check(
    spark: SparkSession, directory: str, encoding: str, expected: Expected, files: list[Written]
) -> Checked:
    """Read one encoding's directory with Spark and compare rows and files with what is expected."""
    found = list(file_differences(spark, directory, files))
    wanted = expected.journal if encoding == "journal" else expected.table
    facts: dict[str, int] = {}
    try:
        facts = facts_of(spark, directory, encoding, expected.ddl)
    except Exception as error:  # whatever the JVM says of a file it cannot read
        found.append(f"Spark cannot read it: {str(error).strip().splitlines()[0]}")
    found += [
        f"{name} is {facts[name]:,} instead of {wanted[name]:,}"
        for name in facts
        if facts[name] != wanted[name]
    ]
    return Checked(encoding, facts.get("rows", 0), len(wanted), len(files), found)


def facts_of(spark: SparkSession, directory: str, encoding: str, ddl: str) -> dict[str, int]:
    if encoding == "parquet":
        return table_facts(spark.read.parquet(directory))
    if encoding == "csv":
        return table_facts(spark.read.csv(directory, ddl, header=True, escape='"'))
    return journal_facts(spark.read.text(directory))


def table_facts(frame: DataFrame) -> dict[str, int]:
    """Return the facts of a Parquet or CSV directory, in one pass."""
    from pyspark.sql import functions as sql

    facts = [sql.count(sql.lit(1)).alias("rows"), fingerprint(frame)]
    for field in frame.schema:
        facts.append(sql.count(field.name).alias(f"count({field.name})"))
        if field.dataType.simpleString() == "bigint":
            facts.append(sql.sum(field.name).alias(f"sum({field.name})"))
    return first_row(frame.select(*facts))


def fingerprint(frame: DataFrame) -> Column:
    """Return a number that any change of a value in any row changes, whatever the rows' order."""
    from pyspark.sql import functions as sql

    return sql.sum(sql.xxhash64(*frame.columns).cast("decimal(38,0)")).alias("fingerprint")


def journal_facts(lines: DataFrame) -> dict[str, int]:
    """Return the facts of the journal: records whole and complete, each thread's own in order."""
    from pyspark.sql import functions as sql

    records = lines.select(
        "value",
        sql.split("value", " ").alias("field"),
        "_metadata.file_block_start",
        sql.monotonically_increasing_id().alias("position"),
    )
    return first_row(lines.sparkSession.sql(JOURNAL_FACTS, records=records))


def file_differences(spark: SparkSession, path: str, files: list[Written]) -> Iterator[str]:
    """Compare names, lengths and CRC32C of a directory's files, as the JVM sees them."""
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark._jvm
    directory = jvm.org.apache.hadoop.fs.Path(path)
    fs = directory.getFileSystem(spark._jsc.hadoopConfiguration())
    lengths = {
        status.getPath().getName(): status.getLen()
        for status in fs.listStatus(directory)
        if not status.getPath().getName().startswith("_")  # as readers do
    }
    for name in sorted(lengths.keys() ^ {file.name for file in files}):
        yield f"{name}: {'not a file of this job' if name in lengths else 'missing'}"
    for file in files:
        if file.name not in lengths:
            continue
        if lengths[file.name] != file.bytes:
            yield f"{file.name}: {lengths[file.name]:,} bytes instead of {file.bytes:,}"
        try:
            crc32c = jvm_crc32c(jvm, fs, jvm.org.apache.hadoop.fs.Path(directory, file.name))
        except Py4JJavaError as error:
            yield f"{file.name}: {error.java_exception.getMessage()}"
            continue
        if crc32c != file.crc32c:
            yield f"{file.name}: CRC32C is {crc32c:08x} instead of {file.crc32c:08x}"


def jvm_crc32c(jvm: Any, fs: Any, path: Any) -> int:
    """Return a file's CRC32C as the JDK computes it; no byte of the file passes through Python."""
    stream = jvm.java.util.zip.CheckedInputStream(fs.open(path), jvm.java.util.zip.CRC32C())
    try:
        stream.transferTo(jvm.java.io.OutputStream.nullOutputStream())
        return int(stream.getChecksum().getValue())
    finally:
        stream.close()


def first_row(frame: DataFrame) -> dict[str, int]:
    row = frame.first()
    assert row is not None, "an aggregation has a row"
    return {name: int(value or 0) for name, value in row.asDict().items()}
