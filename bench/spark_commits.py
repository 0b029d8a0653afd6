"""Jobs whose tasks have done their work: what is left is the commit.

Both have a thousand files of a thousand tasks, as Spark's writers leave them. hflush's are staged
through its own Committer. For Hadoop's FileOutputCommitter (version 1, Spark's default) they are
where its tasks commit to, `_temporary/0/task_…/part-…`, with the side files of checksums that its
local file system moves, too; it runs in Spark's JVM, in one call of py4j.
"""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import hflush
from hflush.spark.commit import Committer, Job, Outcome, StagedFile
from spark_session import SparkBench

CONTENT = bytes(1024)
THREADS = 16


class Staged(NamedTuple):
    """A job that hflush commits."""

    committer: Committer
    job: Job
    files: tuple[StagedFile, ...]

    def commit(self) -> None:
        assert self.committer.commit(self.job, self.files).outcome is Outcome.COMMITTED


class Version1(NamedTuple):
    """A job of Hadoop's."""

    committer: Any
    context: Any

    def commit(self) -> None:
        self.committer.commitJob(self.context)


def staged(url: str, files: int, conf: dict[str, str] | None = None) -> Staged:
    """Have each task stage a file."""
    committer, job = Committer(url, conf or {}), Job(uuid.uuid4().hex)
    committer.prepare(job)

    def stage(number: int) -> StagedFile:
        name = f"part-{number:05d}.parquet"
        attempt = committer.attempt(job, f"{number:05d}-0")
        stream = attempt.create(name)
        stream.write(CONTENT)
        handle = attempt.close(stream)
        return StagedFile(name, handle, 1, len(CONTENT), hflush.crc.crc32c(CONTENT))

    with ThreadPoolExecutor(THREADS) as pool:
        return Staged(committer, job, tuple(pool.map(stage, range(files))))


def version_1(spark: SparkBench, url: str, files: int) -> Version1:
    """Have each task of Hadoop's committer commit a file."""
    hadoop = spark.jvm.org.apache.hadoop
    conf = hadoop.conf.Configuration(spark.session.sparkContext._jsc.hadoopConfiguration())
    conf.set("mapreduce.fileoutputcommitter.algorithm.version", "1")
    context = hadoop.mapreduce.task.JobContextImpl(conf, hadoop.mapreduce.JobID("bench", 1))
    committer = hadoop.mapreduce.lib.output.FileOutputCommitter(spark.path(url), context)
    committer.setupJob(context)
    below = f"{url}/_temporary/0".replace("file://", "file+crc://")

    def write(number: int) -> None:
        path = f"{below}/task_bench_0001_m_{number:06d}/part-{number:05d}.parquet"
        with hflush.create(path) as stream:
            stream.write(CONTENT)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(write, range(files)))
    return Version1(committer, context)


def visible(url: str) -> int:
    """How many files readers find."""
    return len(Committer(url).visible())
