"""The recipes of docs/spark.md do what the page says of them."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hflush.spark import last_commit
from integration.spark import Spark
from pyspark.sql import DataFrame
from support.snippets import ROOT
from support.stores import Store

pytestmark = pytest.mark.spark

FENCE = re.compile(r"^### ([^\n]*)\n.*?^```python\n(.*?)^```$", re.M | re.S)
RECIPES = dict(FENCE.findall((ROOT / "docs" / "spark.md").read_text(encoding="utf-8")))
BATCHES = 2


def run(recipe: str, **names: Any) -> dict[str, Any]:
    """Execute a recipe; its functions are sent to workers as those of a notebook are."""
    namespace = {"__name__": "recipe", **names}
    exec(RECIPES[recipe], namespace)
    return namespace


@pytest.fixture
def clicks(spark: Spark, tmp_path: Path) -> DataFrame:
    """A stream of batches, each of the same kinds."""
    source = tmp_path / "source"
    source.mkdir()
    for number in range(BATCHES):
        lines = [{"kind": kind, "batch": number} for kind in ("a", "a", "b")]
        file = source / f"{number}.json"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(file, (number, number))  # the order in which they are read
    reader = spark.session.readStream.schema("kind string, batch int")
    return reader.option("maxFilesPerTrigger", 1).json(str(source))


def run_twice(recipe: str, commits: Path, **names: Any) -> None:
    """Run a query, and its last batch once more, as after a crash before Spark's commit."""
    for is_last in (False, True):
        query = run(recipe, **names)["query"]
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        last = commits / str(BATCHES - 1)
        assert last.exists()
        if not is_last:
            last.unlink()
            last.with_name(f".{last.name}.crc").unlink()


def test_there_are_no_others() -> None:
    assert len(RECIPES) == 3


@pytest.mark.stores("raw")
def test_a_side_file_for_each_batch(spark: Spark, clicks: DataFrame, store: Store) -> None:
    """A batch that is run again leaves the rows and the side file as they are."""
    url, out = store.url(store.path("out")), Path(store.path("out"))
    commits = out / "checkpoint" / "commits"
    run_twice("A side file for each batch", commits, clicks=clicks, url=url)
    rows = spark.session.read.parquet(f"{url}/clicks").collect()
    assert sorted((row.batch, row.kind) for row in rows) == [
        (number, kind) for number in range(BATCHES) for kind in ("a", "a", "b")
    ]
    counts = sorted((out / "counts").iterdir())
    assert [file.name[-14:] for file in counts] == ["000000000.json", "000000001.json"]
    assert [json.loads(file.read_text()) for file in counts] == [{"a": 2, "b": 1}] * BATCHES
    shutil.rmtree(commits.parent)  # a new query, whose batches have the same numbers
    run_twice("A side file for each batch", commits, clicks=clicks, url=url)
    assert spark.session.read.parquet(f"{url}/clicks").count() == 2 * len(rows)


@pytest.mark.stores("raw")
def test_the_whole_result_with_each_batch(spark: Spark, clicks: DataFrame, store: Store) -> None:
    """What is there is the result after the last batch, also after that was run again."""
    url, out = store.url(store.path("out")), Path(store.path("out"))
    commits = out / "checkpoint-of-totals" / "commits"
    run_twice("The whole result with each batch", commits, clicks=clicks, url=url)
    rows = spark.session.read.parquet(f"{url}/totals").collect()
    assert {row.kind: row["count"] for row in rows} == {"a": 2 * BATCHES, "b": BATCHES}
    assert len(rows) == 2
    last = last_commit(f"{url}/totals")
    assert last is not None
    assert last.number == BATCHES - 1  # the batch that was run again has committed nothing


@pytest.mark.stores("hdfs")
def test_logs_of_executors(spark: Spark, store: Store) -> None:
    """Two jobs with more tasks than workers: every line is there, in a file of its worker."""
    url = store.url(store.path("out"))
    df = spark.session.range(0, 40, 1, 4).selectExpr("id AS flight", "id % 10 AS distance")
    for _ in range(2):
        run("Logs of executors, a file for each worker", spark=spark.session, df=df, url=url)
    files = store.fs.list_status(store.path("out", "logs"))
    content = b"".join(store.fs.open(status.path).read() for status in files).decode()
    wanted = [f"partition {number} is checked" for number in range(4)]
    wanted += [f"partition {n}: flight {10 * n} has the distance 0" for n in range(4)]
    assert sorted(content.splitlines()) == sorted(2 * wanted)
    assert len(files) < 2 * 4
