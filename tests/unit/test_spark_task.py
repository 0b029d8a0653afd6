"""What one attempt of a task makes of rows."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import hflush
import pyarrow as pa
import pytest
from hflush.spark.commit.staging import _RenamedAttempt
from hflush.spark.settings import WriteSettings
from hflush.spark.task import TaskWriter

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
