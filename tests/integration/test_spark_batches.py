"""Streaming batches whose driver is killed before each store call of their commit, or fails there.

What a restarted query does then, without a Spark for each; Spark's reader sees what came of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import product
from subprocess import PIPE
from typing import Any

import pytest
from faults import batch_writer
from faults.batch_writer import CONF, ROWS, rows
from hflush.checkpoint import Checkpoint, FileStreamSinkLog
from hflush.spark.commit import vacuum
from integration.spark import TESTS, Spark
from pyspark.sql import DataFrame
from support.stores import Store
from support.waiting import PATIENCE

pytestmark = [pytest.mark.spark_kills, pytest.mark.spark, pytest.mark.stores("raw", "hdfs", "s3")]

# The first batch, one that is compacted, and one behind which files are removed.
BATCHES = (0, 3, 4)
QUERY = "8e4f" * 8
# What happens at a call: the driver dies before it, or it fails, or its answer is lost.
WAYS = ("fail-after", "fail-before", "kill")
# Of these at each call of a commit, every so many are tried; all of them on local files, and in the
# slow lane.
STRIDE = {"raw": 1, "hdfs": 8, "s3": 5}

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def process() -> Iterator[subprocess.Popen[str]]:
    """The process whose forks are killed."""
    command = [sys.executable, "-m", batch_writer.__name__]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True, cwd=TESTS) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def run(process: subprocess.Popen[str], store: Store) -> Run:
    """Run batches, as batch_writer.run does."""

    def run(url: str, batches: list[int], partitions: int, how: str = "", call: int = 0) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        line = [url, dict(store.conf), QUERY, batches, partitions, how, call]
        process.stdin.write(json.dumps(line) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    return run


def listed(url: str, store: Store) -> list[str]:
    """The rows of the files in the log, each of which has its exact size."""
    found = []
    for file in FileStreamSinkLog(f"{url}/_spark_metadata", store.conf).all_files():
        with store.fs.open(file.path) as stream:
            content = bytes(stream.read())
        assert len(content) == file.size
        found += [json.loads(line)["value"] for line in content.splitlines()]
    return sorted(found)


def strays(url: str, store: Store) -> set[str]:
    """The files with rows that are in no log."""
    files = {status.path for status in store.fs.list_status(url) if "/part-" in status.path}
    log = FileStreamSinkLog(f"{url}/_spark_metadata", store.conf).all_files()
    names = {file.path.rpartition("/")[2] for file in log}
    return {path for path in files if path.rpartition("/")[2] not in names}


def as_spark_reads(spark: Spark, urls: list[str]) -> dict[str, list[str]]:
    """The rows that Spark's reader finds at each destination, in one job."""
    frames = [
        spark.session.read.schema("value string").json(url).selectExpr(f"'{url}' AS url", "value")
        for url in urls
    ]
    found: dict[str, list[str]] = {url: [] for url in urls}
    for row in reduce(DataFrame.union, frames).coalesce(2).collect():
        found[row.url].append(row.value)
    return {url: sorted(values) for url, values in found.items()}


@pytest.mark.rule("CKPT-15", "CKPT-19")
@pytest.mark.timeout(1200 * PATIENCE)
@pytest.mark.parametrize("partitions", [1, pytest.param(50, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("batch", BATCHES)
def test_a_batch_is_there_once_whatever_befell_its_commit(
    request: pytest.FixtureRequest, run: Run, store: Store, batch: int, partitions: int
) -> None:
    """The query runs it again and goes on: rows as they came in, no other file in sight, no upload.

    A commit that failed removes its files, unless they are in the log; on S3 a vacuum does.
    """
    stride = 1 if request.config.getoption("--exhaustive") else STRIDE[store.name]
    count = run(store.url(store.path("counted")), list(range(batch + 1)), partitions)["calls"]
    assert count > 5
    before, after, expected = (
        sorted(row for number in range(batch + more) for row in rows(number, partitions))
        for more in range(3)
    )
    assert len(expected) == (batch + 2) * partitions * ROWS
    urls, ends = [], set()
    for call, how in list(product(range(count, 0, -1), WAYS))[::stride]:
        url = store.url(store.path(f"{how}-{call}"))
        end = run(url, list(range(batch + 1)), partitions, how, call)
        assert end == "killed" if how == "kill" else end["calls"] >= call
        shown = listed(url, store)
        assert shown in (before, after)
        ends.add(shown == after)
        if how != "kill" and store.name != "s3":  # where its entry may come to the log later
            assert strays(url, store) == set()
        assert run(url, [batch, batch + 1], partitions)["failed"] is False
        assert listed(url, store) == expected
        if how != "kill" and store.name == "s3":
            vacuum(url, store.conf, older_than=0)
            assert strays(url, store) == set()
        assert not [f for f in Checkpoint(url, {**store.conf, **CONF}).verify() if f.harmful]
        urls.append(url)
    assert ends == {False, True}  # some were in the log by then, some were not
    if store.name == "s3":  # which this Spark has no client of
        assert store.fs.list_multipart_uploads(store.url()) == []
        return
    found = as_spark_reads(request.getfixturevalue("spark"), urls)
    assert found == dict.fromkeys(urls, expected)
