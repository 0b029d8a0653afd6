"""A job and a query of a user: what comes out is printed, as JSON on the last line.

    job.py DIRECTORY [REMOTE]

REMOTE is for a client of Spark Connect.
"""

import json
import sys
from pathlib import Path

import hflush.spark
from pyspark.sql import SparkSession

DIRECTORY = Path(sys.argv[1])
REMOTE = sys.argv[2:]
ROWS, BATCHES = 1000, 3


def where_workers_run(batches):
    """Say which Python runs a task, and where it has hflush from."""
    import sys

    import hflush
    import pyarrow

    for batch in batches:
        names = pyarrow.array([f"{sys.prefix} {hflush.__file__}"] * len(batch))
        yield pyarrow.RecordBatch.from_arrays([names], ["place"])


def refusal(call):
    """Return what an operation raises, or an empty string."""
    try:
        call()
    except TypeError as refused:
        return str(refused)
    return ""


builder = SparkSession.builder
builder = builder.remote(*REMOTE) if REMOTE else builder.config("spark.ui.enabled", "false")
spark = builder.getOrCreate()
frame = spark.range(0, ROWS, 1, 4).selectExpr("id", "cast(id AS string) AS name", "id % 3 AS day")

batch = f"{DIRECTORY}/batch"
for _ in range(2):  # an overwrite of the first
    writer = frame.write.format("hflush").mode("overwrite").option("partitionBy", "day")
    writer.option("commitId", "daily").save(batch)
read = spark.read.parquet(batch).agg({"id": "sum", "name": "count"}).collect()[0]

source = DIRECTORY / "source"
source.mkdir()
for number in range(BATCHES):
    (source / f"{number}.txt").write_text(f"a {number}\nb {number}\n")
lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(source))
streamed = f"{DIRECTORY}/stream"
checkpoint = str(DIRECTORY / "checkpoint")
to_files = lines.writeStream.format("hflush").option("encoding", "json")
started = to_files.option("checkpointLocation", checkpoint).trigger(availableNow=True)
started.start(streamed).awaitTermination()
values = [row.value for row in spark.read.json(streamed).collect()]

places = {row.place for row in frame.mapInArrow(where_workers_run, "place string").collect()}
said = {
    "spark": spark.version,
    "driver": hflush.__file__,
    "workers": sorted(places),
    "sum": read["sum(id)"],
    "rows": read["count(name)"],
    "streamed": sorted(values),
    "batches": sorted(path.name for path in Path(streamed, "_spark_metadata").glob("[0-9]*")),
    "options": refusal(lambda: hflush.spark.options(spark)),
}
spark.stop()
print(json.dumps(said))
