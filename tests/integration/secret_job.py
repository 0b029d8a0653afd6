"""A Spark with secrets in its session: writes a job and a query, and prints what is to be seen.

    python secret_job.py DIRECTORY

Standard output has the query's plan; DIRECTORY/telling.told what the tasks were told, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from hflush.spark import HflushDataSource, options
from hflush.spark.settings import WriteSettings
from hflush.spark.writer import BatchWriter, FilesWritten
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceWriter
from pyspark.sql.types import StructType

# Such as Spark itself hides in its events: the names match spark.redaction.regex.
SECRETS = {
    "fs.s3a.secret.key": "not-for-plans-1",
    "fs.s3a.bucket.nightly.session.token": "not-for-plans-2",
}
# A delegation token of the driver's, as Hadoop spells it.
TOKEN = "AklEAlBXFUhERlNfREVMRUdBVElPTl9UT0tFTgpoYS1oZGZzOm5z"
ORDINARY = {"fs.s3a.endpoint": "http://ordinary:9000", "dfs.replication": "2", "io.mark": "\x01"}


class TellingWriter(BatchWriter):
    """Writes down what its tasks know."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesWritten:
        Path(f"{self._settings.url}.told".removeprefix("file://")).write_text(
            json.dumps(self._settings.conf)
        )
        return super().write(iterator)


class TellingSource(HflushDataSource):
    """The format, with that writer."""

    @classmethod
    def name(cls) -> str:
        return "telling"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return TellingWriter(WriteSettings.of(dict(self.options), overwrite), schema)


def session(directory: str) -> SparkSession:
    Path(directory, "events").mkdir()
    builder: Any = SparkSession.builder.master("local[1]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "INFO",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{directory}/events",
        **{f"spark.hadoop.{key}": value for key, value in {**SECRETS, **ORDINARY}.items()},
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    made: SparkSession = builder.getOrCreate()
    return made


def main(directory: str) -> None:
    spark = session(directory)
    spark.dataSource.register(TellingSource)
    jvm: Any = spark._jvm
    token = jvm.org.apache.hadoop.security.token.Token()
    token.decodeFromUrlString(TOKEN)
    jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser().addToken(token)
    assert options(spark) == options(spark)  # one file
    assert "secrets" not in options(spark, secrets=False)
    handed = {**options(spark), "logLevel": "debug"}
    frame = spark.range(3).coalesce(1)
    for name in ("telling", "hflush"):
        frame.write.format(name).options(**handed).mode("append").save(f"{directory}/{name}")
    Path(directory, "source").mkdir()
    Path(directory, "source", "lines").write_text("a\nb\n")
    lines = spark.readStream.text(f"{directory}/source").writeStream.format("hflush")
    lines = lines.options(**handed, checkpointLocation=f"{directory}/checkpoint")
    query = lines.trigger(availableNow=True).start(f"{directory}/query")
    query.awaitTermination()
    query.explain(extended=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
