"""What one attempt of a task makes of rows."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace

import hflush
import pyarrow as pa
import pytest
from hflush.spark.commit.staging import _RenamedAttempt
from hflush.spark.pieces import Waiting
from hflush.spark.settings import WriteSettings
from hflush.spark.task import TaskWriter
from pyarrow.dataset import dataset
from pyarrow.parquet import ParquetFile

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def task(directory: Path, schema: pa.Schema = SCHEMA, **options: str) -> TaskWriter:
    """One that stages files in a directory."""
    (directory / "attempt").mkdir()
    attempt = _RenamedAttempt(hflush.FileSystem.get("file:///"), str(directory), "attempt")
    settings = WriteSettings.of({"path": "/t", **options}, False)
    return TaskWriter("job", lambda _: attempt, settings, schema, 0, 0)


def sizes(directory: Path, limit: int, **options: str) -> list[int]:
    """Of the files into which a hundred batches of rows go that are much alike."""
    (directory / "attempt").mkdir()
    fs = hflush.FileSystem.get("file:///")
    settings = WriteSettings.of({"path": "/t", "maxBytesPerFile": str(limit), **options}, False)
    attempt = _RenamedAttempt(fs, str(directory), "attempt")
    writer = TaskWriter("job", lambda _: attempt, settings, SCHEMA, 0, 0)
    for batch in range(100):
        numbers = range(batch * 1000, batch * 1000 + 1000)
        rows = {"n": numbers, "text": ["flight " + str(n % 50) * 9 for n in numbers]}
        writer.write(pa.RecordBatch.from_pydict(rows, SCHEMA))
    return [file.length for file in writer.finish()]


@pytest.mark.parametrize("encoding", ["parquet", "orc", "json", "arrow"])
def test_a_task_that_is_aborted_lets_its_writers_go_quietly(
    tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch
):
    """They try to complete their files then."""
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    (tmp_path / "attempt").mkdir()
    attempt = _RenamedAttempt(hflush.FileSystem.get("file:///"), str(tmp_path), "attempt")
    settings = WriteSettings.of({"path": "/t", "encoding": encoding}, False)
    writer = TaskWriter("job", lambda _: attempt, settings, SCHEMA, 0, 0)
    writer.write(pa.RecordBatch.from_pydict({"n": [1], "text": ["a"]}, SCHEMA))
    writer.abort()
    del writer
    gc.collect()
    assert ignored == []


def test_a_task_that_is_aborted_drops_all_of_its_files(tmp_path: Path):
    """Also if a stream, which failed before, says so once more."""

    def fail() -> None:
        raise OSError("disk full")

    (tmp_path / "attempt").mkdir()
    attempt = _RenamedAttempt(hflush.FileSystem.get("file:///"), str(tmp_path), "attempt")
    settings = WriteSettings.of({"path": "/t", "encoding": "csv", "partitionBy": "n"}, False)
    writer = TaskWriter("job", lambda _: attempt, settings, SCHEMA.remove(0), 0, 0)
    writer.write(pa.RecordBatch.from_pydict({"n": [1, 2], "text": ["a", "b"]}, SCHEMA))
    first, second = writer._open.values()
    stuck, first.stream = first.stream, SimpleNamespace(has_capability=lambda _: False, close=fail)
    with pytest.raises(OSError, match="disk full"):
        writer.abort()
    stuck.close()
    assert second.stream.closed
    assert not (tmp_path / "attempt").exists()


def test_the_statistics_of_a_task_are_the_sum_of_its_files(tmp_path: Path):
    writer = task(tmp_path, encoding="csv", maxRecordsPerFile="1")
    writer.write(pa.RecordBatch.from_pydict({"n": [1, 2, 3], "text": ["a", "b", "c"]}, SCHEMA))
    lengths = [file.length for file in writer.finish()]
    report, statistics = writer.report()
    assert (report.files, statistics.counters["op_close"]) == (3, 3)
    assert statistics.counters["stream_write_bytes"] == sum(lengths)
    assert statistics.means["op_close_duration_mean"].samples == 3


@pytest.mark.parametrize("encoding", ["parquet", "orc", "arrow"])
@pytest.mark.parametrize("split", [{"maxRecordsPerFile": "2"}, {"partitionBy": "day"}])
def test_nulls_in_parts_of_a_batch_stay_where_they_are(
    tmp_path: Path, encoding: str, split: dict[str, str]
):
    """In structs, and in what holds some."""
    kept = [n if n % 3 else None for n in range(1, 11)]
    inner = [n and {"x": n, "y": [{"z": n}, None], "m": [("k", {"z": n})]} for n in kept]
    z = pa.struct([("z", pa.int64())])
    nested = pa.struct([("x", pa.int64()), ("y", pa.list_(z)), ("m", pa.map_(pa.string(), z))])
    schema = pa.schema([("n", pa.int64()), ("s", nested)])
    days = pa.array([n % 2 for n in range(1, 11)])
    columns = [pa.array(range(1, 11)), pa.array(inner, nested), days]
    batch = pa.RecordBatch.from_arrays(columns, ["n", "s", "day"])
    given = batch.to_pylist()
    rows = batch if "partitionBy" in split else batch.select(["n", "s"])
    (tmp_path / "attempt").mkdir()
    attempt = _RenamedAttempt(hflush.FileSystem.get("file:///"), str(tmp_path), "attempt")
    settings = WriteSettings.of({"path": "/t", "encoding": encoding, **split}, False)
    writer = TaskWriter("job", lambda _: attempt, settings, schema, 0, 0)
    writer.write(rows.slice(1))
    staged = writer.finish()
    assert len(staged) > 1
    read = [
        row
        for file in staged
        for row in dataset(tmp_path / file.handle, format=encoding).to_table().to_pylist()
    ]
    found = sorted(((row["n"], row["s"]) for row in read), key=itemgetter(0))
    assert found == [(row["n"], row["s"]) for row in given[1:]]


@pytest.mark.parametrize(
    ("encoding", "more"),
    [("parquet", {}), ("json", {}), ("arrow", {}), ("orc", {"compression": "none"})],
)
def test_files_have_the_bytes_that_were_asked_for(
    tmp_path: Path, encoding: str, more: dict[str, str]
):
    """Also where rows take much more in memory, before they are encoded."""
    limit = 128 << 10
    *full, _ = sizes(tmp_path, limit, encoding=encoding, **more)
    assert full
    assert all(limit * 0.7 <= size <= limit * 2 for size in full), full


@pytest.mark.parametrize(
    ("encoding", "compression", "ends"),
    [("orc", "zstd", True), ("json", "bzip2", True), ("parquet", "zstd", False)],
)
def test_the_memory_of_open_files_is_bounded(
    tmp_path: Path, encoding: str, compression: str, ends: bool, monkeypatch: pytest.MonkeyPatch
):
    """Where rows cannot be encoded before the end of a file, another one begins."""
    monkeypatch.setattr("hflush.spark.task._BUFFER_BYTES", 256 << 10)
    (tmp_path / "attempt").mkdir()
    attempt = _RenamedAttempt(hflush.FileSystem.get("file:///"), str(tmp_path), "attempt")
    given = {"encoding": encoding, "compression": compression, "partitionBy": "n"}
    settings = WriteSettings.of({"path": "/t", **given}, False)
    writer = TaskWriter("job", lambda _: attempt, settings, SCHEMA.remove(0), 0, 0)
    rows = {"n": [n % 8 for n in range(1000)], "text": [str(n) * 20 for n in range(1000)]}
    for _ in range(20):
        writer.write(pa.RecordBatch.from_pydict(rows, SCHEMA))
        memory = [file.memory for file in writer._open.values()]
        assert len(memory) == 1 or sum(memory) <= 256 << 10
    files = writer.finish()
    assert sum(file.rows for file in files) == 20_000
    assert (len(files) > 8) == ends


def by_day(days: Iterable[int]) -> pa.RecordBatch:
    """Rows whose texts say their day."""
    rows = {"n": list(days), "text": [f"of {day}" for day in days]}
    return pa.RecordBatch.from_pydict(rows, SCHEMA)


@pytest.mark.parametrize(
    ("order", "files"), [("mixed", 150), ("sorted", 150), ("sorted, then again", 200)]
)
@pytest.mark.parametrize("memory", [128 << 20, 64 << 10])
def test_a_directory_of_many_has_its_rows_in_one_file(
    tmp_path: Path, order: str, files: int, memory: int, monkeypatch: pytest.MonkeyPatch
):
    """More than may be open; and in two if its file was closed for another, before more came."""
    monkeypatch.setattr("hflush.spark.task._BUFFER_BYTES", memory)
    writer = task(tmp_path, SCHEMA.remove(0), partitionBy="n", encoding="arrow")
    if order == "mixed":
        batches = [by_day(range(150)) for _ in range(20)]
    else:
        batches = [by_day([day] * 20) for day in range(150)]
    for batch in batches if "again" not in order else batches + batches:
        writer.write(batch)
    staged = writer.finish()
    assert len(staged) == files
    rows = Counter()
    for file in staged:
        day = file.path.partition("/")[0].removeprefix("n=")
        texts = dataset(tmp_path / file.handle, format="arrow").to_table()["text"].to_pylist()
        assert set(texts) == {f"of {day}"}
        rows[day] += len(texts)
    assert set(rows.values()) == {40 if "again" in order else 20}


@pytest.mark.parametrize("memory", [128 << 20, 1])
def test_rows_of_a_directory_stay_in_their_order(
    tmp_path: Path, memory: int, monkeypatch: pytest.MonkeyPatch
):
    """Where a file is closed for the next directory, others that have waited get room."""
    monkeypatch.setattr("hflush.spark.task._BUFFER_BYTES", memory)
    monkeypatch.setattr("hflush.spark.task._MAX_OPEN", 2)
    writer = task(tmp_path, SCHEMA.remove(0), partitionBy="n", encoding="arrow")
    days = [[0, 1, 2], [2, 2], [3, 2], [0, 1, 2, 3]]
    for number, of_batch in enumerate(days):
        rows = {"n": of_batch, "text": [f"{number}-{index}" for index in range(len(of_batch))]}
        writer.write(pa.RecordBatch.from_pydict(rows, SCHEMA))
    written = 0
    for file in writer.finish():
        texts = dataset(tmp_path / file.handle, format="arrow").to_table()["text"].to_pylist()
        assert texts == sorted(texts)
        written += len(texts)
    assert written == sum(map(len, days))


def test_rows_that_wait_are_dropped_with_their_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Spilled where Spark spills, in a file that has no name there."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/nowhere")
    monkeypatch.setattr("hflush.spark.task._BUFFER_BYTES", 64 << 10)
    writer = task(tmp_path, SCHEMA.remove(0), partitionBy="n", encoding="arrow")
    for _ in range(20):
        writer.write(by_day(range(150)))
    spilled = writer._waiting._file
    assert spilled is not None
    writer.abort()
    assert spilled.closed
    assert list(tmp_path.iterdir()) == []

    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/gone")
    waiting = Waiting()
    waiting.add("n=1", by_day([1]))
    with pytest.raises(FileNotFoundError, match=r"rows of 1 partition directories.*/gone"):
        waiting.spill()


def test_rare_directories_cost_little_and_leave_the_row_groups_of_others_alone(tmp_path: Path):
    """A row of its own in each batch, of 90 days beside today."""
    writer = task(tmp_path, SCHEMA.remove(0), partitionBy="n")
    for _ in range(64):
        writer.write(by_day([*[90] * 10_000, *range(90)]))
    files = writer._open.values()
    assert max(len(file.encoder._pieces._pieces) for file in files) <= 64  # type: ignore[attr-defined]
    assert min(len(file.encoder._pieces._pieces) for file in files) == 4  # type: ignore[attr-defined]
    (today,) = (file for file in writer.finish() if file.path.startswith("n=90/"))
    assert ParquetFile(tmp_path / today.handle).num_row_groups == 1
