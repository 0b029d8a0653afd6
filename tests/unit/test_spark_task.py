"""What one attempt of a task makes of rows."""

from __future__ import annotations

import gc
import sys
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace

import hflush
import pyarrow as pa
import pytest
from hflush.spark.commit.staging import _RenamedAttempt
from hflush.spark.settings import WriteSettings
from hflush.spark.task import TaskWriter
from pyarrow.dataset import dataset

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


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
