"""The writer of a streaming query, before its tasks begin."""

from __future__ import annotations

import pickle
from pathlib import Path

import hflush.spark
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from hflush.spark.settings import WriteSettings
from hflush.spark.stream import ForeignQueryError, Owner, StreamWriter
from pyspark import TaskContext
from pyspark.sql.types import LongType, StructField, StructType

SCHEMA = StructType([StructField("a", LongType())])
_INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"


@pytest.mark.parametrize(
    ("there", "options", "error", "message"),
    [
        ("out/_SUCCESS", {}, FileExistsError, "a batch job has written files here"),
        ("out/_hflush/commits/0.record", {}, FileExistsError, "a batch job has written files here"),
        ("out/_epochs", {}, FileExistsError, "a ForeachWriter has written files here"),
        ("out", {}, NotADirectoryError, "the path is a file"),
        ("another", {_INTERVAL: "0"}, ValueError, "must be a whole number from 1"),
    ],
)
def test_what_a_commit_would_refuse_is_refused_before_files_are_written(
    tmp_path: Path, there: str, options: dict[str, str], error: type[Exception], message: str
) -> None:
    (tmp_path / there).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / there).touch()
    settings = WriteSettings.of_stream({"path": str(tmp_path / "out"), **options})
    with pytest.raises(error, match=message):
        StreamWriter(settings, SCHEMA)


def test_there_is_a_log_before_there_are_files(tmp_path: Path) -> None:
    """Readers go by it, and see none of them; what is refused later leaves none."""
    StreamWriter(WriteSettings.of_stream({"path": str(tmp_path)}), SCHEMA)
    (tmp_path / "part-0").touch()
    assert hflush.spark.files(str(tmp_path)) == []
    with pytest.raises(FileNotFoundError, match="none before it is here"):
        Owner(f"file://{tmp_path}", {}).claim("q", 3, None)
    assert not (tmp_path / "_spark_metadata").exists()


def test_a_query_that_has_begun_goes_on(tmp_path: Path) -> None:
    """Its own marker of success, as another tool may have left it, stops nothing."""
    (tmp_path / "_hflush").mkdir()
    (tmp_path / "_hflush" / "query").write_text('{"query": "q"}')
    (tmp_path / "_SUCCESS").touch()
    StreamWriter(WriteSettings.of_stream({"path": str(tmp_path)}), SCHEMA)


@pytest.mark.parametrize("latest", [3, 4])
def test_a_batch_in_which_sparks_sink_was_killed_is_named(tmp_path: Path, latest: int) -> None:
    """It may be of this query: the message says how that goes on."""
    with pytest.raises(ForeignQueryError, match=f"written up to batch {latest}") as refusal:
        Owner(f"file://{tmp_path}", {}).claim("q", 3, latest)
    assert ("killed in batch 3: run it with that sink" in str(refusal.value)) == (latest == 3)


def test_a_query_whose_earlier_batches_are_elsewhere_leaves_nothing(tmp_path: Path) -> None:
    """Its path was changed: no log can begin in the middle, and another query may write here."""
    with pytest.raises(FileNotFoundError, match="is at batch 3, and none before it is here"):
        Owner(f"file://{tmp_path}", {}).claim("q", 3, None)
    Owner(f"file://{tmp_path}", {}).claim("p", 0, None)


def test_tasks_write_where_the_driver_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor has another directory, and may have other site files."""
    for machine in ("driver", "executor"):
        (tmp_path / machine).mkdir()
    monkeypatch.chdir(tmp_path / "driver")
    writer = StreamWriter(WriteSettings.of_stream({"path": "out"}), SCHEMA)
    monkeypatch.chdir(tmp_path / "executor")
    known = {"sql.streaming.queryId": "q", "streaming.sql.batchId": "0"}
    context = TaskContext._getOrCreate()
    monkeypatch.setattr(context, "_localProperties", known, raising=False)
    monkeypatch.setattr(context, "_partitionId", 0, raising=False)
    monkeypatch.setattr(context, "_taskAttemptId", 0, raising=False)
    message = pickle.loads(pickle.dumps(writer)).write(
        iter([pa.RecordBatch.from_pydict({"a": [1]})])
    )
    monkeypatch.undo()
    TaskContext._taskContext = None
    (file,) = (tmp_path / "driver" / "out").glob("part-*")
    assert [status.path for status in message.files] == [f"file://{file}"]
