"""The writer of a streaming query, before its tasks begin."""

from __future__ import annotations

import contextlib
import errno
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import hflush.spark
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from hflush.checkpoint import CorruptLogError, FileStreamSinkLog, SinkFileStatus
from hflush.spark.commit.committer import Committer
from hflush.spark.commit.strays import claim_of
from hflush.spark.settings import WriteSettings
from hflush.spark.stream import BatchWritten, ForeignQueryError, Owner, StreamWriter
from pyarrow.parquet import read_schema
from pyspark import TaskContext
from pyspark.sql.types import LongType, StructField, StructType
from support.scripted_s3 import ScriptedS3

SCHEMA = StructType([StructField("a", LongType())])
TABLE = StructType([StructField(name, LongType()) for name in ("day", "hour", "n")])
_INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"


@pytest.mark.parametrize(
    ("there", "options", "error", "message"),
    [
        ("out/_SUCCESS", {}, FileExistsError, "a batch job has written files here"),
        ("out/_hflush/commits/0.record", {}, FileExistsError, "a batch job has written files here"),
        ("out/_epochs", {}, FileExistsError, "a ForeachWriter has written files here"),
        ("out/day=1/part-0", {}, FileExistsError, "day=1/part-0 is a file of no query"),
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
    assert not (tmp_path / "out" / "_spark_metadata").exists()


def test_the_root_of_a_bucket_is_a_path_as_others(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedS3() as server:
        settings = WriteSettings.of_stream({"path": "s3://bucket/", **server.conf})
        StreamWriter(settings, SCHEMA)._owner().claim("q", 0, None)
        assert "_hflush/query" in server.objects
    assert caplog.text == ""


def test_there_is_a_log_before_there_are_files(tmp_path: Path) -> None:
    """Readers go by it, and see none of them; what is refused later leaves none."""
    StreamWriter(WriteSettings.of_stream({"path": str(tmp_path)}), SCHEMA)
    (tmp_path / "part-0").touch()
    assert hflush.spark.files(str(tmp_path)) == []
    with pytest.raises(FileNotFoundError, match="none before it is here"):
        Owner(f"file://{tmp_path}", {}).claim("q", 3, None)
    assert not (tmp_path / "_spark_metadata").exists()


def test_a_query_that_is_refused_leaves_the_log_of_another(tmp_path: Path) -> None:
    """It hides the files of a first batch that was killed before they were in it."""
    StreamWriter(WriteSettings.of_stream({"path": str(tmp_path)}), SCHEMA)
    (tmp_path / "part-0").touch()
    Owner(f"file://{tmp_path}", {}).claim("a", 0, None)
    with pytest.raises(ForeignQueryError):
        Owner(f"file://{tmp_path}", {}).claim("b", 0, None)
    assert hflush.spark.files(str(tmp_path)) == []


@pytest.mark.parametrize(("batch", "is_job_there"), [(3, False), (0, True)])
def test_a_query_that_is_refused_leaves_nothing(
    tmp_path: Path, batch: int, is_job_there: bool
) -> None:
    """Spark makes a writer for each call."""
    settings = WriteSettings.of_stream({"path": str(tmp_path)})
    with in_task(batch):
        message = StreamWriter(settings, SCHEMA).write(iter([a_row()]))
    if is_job_there:
        (tmp_path / "_SUCCESS").touch()
    with pytest.raises(FileExistsError if is_job_there else FileNotFoundError):
        StreamWriter(settings, SCHEMA).commit([message], batch)
    with contextlib.suppress(FileExistsError):
        StreamWriter(settings, SCHEMA).abort([message], batch)
    left = {path.name for path in tmp_path.iterdir()} - {"_SUCCESS", "_hflush"}
    assert left == set()


def test_a_query_that_is_refused_leaves_no_log_on_a_store_of_objects() -> None:
    """Its commit was tried, so that files would stay; they are gone, and no log hides others."""
    with ScriptedS3() as server:
        writer, message = s3_batch(server, batch=3)
        with pytest.raises(FileNotFoundError, match="none before it is here"):
            writer.commit([message], 3)
        StreamWriter(writer._settings, SCHEMA).abort([message], 3)
        assert not any("part-" in key or "_spark_metadata" in key for key in server.objects)


def test_files_of_a_query_that_begins_while_they_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are no rows before the log has them."""
    result = Committer.result

    def begin_and_list(committer: Committer) -> list[str]:
        StreamWriter(WriteSettings.of_stream({"path": str(tmp_path)}), SCHEMA)
        (tmp_path / "part-0").touch()
        return result(committer)

    monkeypatch.setattr(Committer, "result", begin_and_list)
    assert hflush.spark.files(str(tmp_path)) == []


def test_a_query_that_has_begun_goes_on(tmp_path: Path) -> None:
    """Its own marker of success, as another tool may have left it, stops nothing."""
    (tmp_path / "_hflush").mkdir()
    (tmp_path / "_hflush" / "query").write_text('{"query": "q"}')
    (tmp_path / "_SUCCESS").touch()
    StreamWriter(WriteSettings.of_stream({"path": str(tmp_path)}), SCHEMA)


def begins(url: Path, columns: str) -> StreamWriter:
    """A batch of a query with the option partitionBy, if that is not empty."""
    given = {"path": str(url), **({"partitionBy": columns} if columns else {})}
    return StreamWriter(WriteSettings.of_stream(given), TABLE)


def add(url: Path, batch: int, *places: str) -> None:
    files = [SinkFileStatus(f"file://{url}/{place}", 1) for place in places]
    assert FileStreamSinkLog(f"file://{url}/_spark_metadata").add(batch, files)


@pytest.mark.parametrize(
    ("places", "fitting", "other"),
    [
        (["day=1/hour=2/f"], "Day,hour", "hour,day"),
        (["day=1/f"], "day", ""),
        (["f"], "", "day"),
        (["f", "day=1/f"], "day", ""),  # readers leave the first one out, whatever comes
    ],
)
@pytest.mark.parametrize("old", ["Spark's sink", "without columns", "with columns"])
def test_other_partition_columns_are_refused_before_files_are_written(
    tmp_path: Path, places: list[str], fitting: str, other: str, old: str
) -> None:
    """Readers would miss the rows of one of the two: after Spark's sink, and in a query of ours."""
    url = tmp_path / "of=a table"
    add(url, 0, *places)
    if old != "Spark's sink":
        (url / "_hflush").mkdir()
        (url / "_hflush" / "query").write_text('{"query": "q"}')
    if old == "with columns":
        begins(url, fitting)._owner().claim("q", 1, 0)
        add(url, 1, "another=1/f")  # which shows that the log is not asked any more
    begins(url, fitting)
    with pytest.raises(ValueError, match=r"has files with the partition columns .*: readers"):
        begins(url, other)


@pytest.mark.parametrize("had", ["day=1/part-0", ""])
def test_a_query_names_directories_in_the_case_of_those_that_are_there(
    tmp_path: Path, had: str
) -> None:
    """Else one partition would have two: after Spark's own sink, and in one query."""
    if had:
        add(tmp_path, 0, had)
    settings = WriteSettings.of_stream({"path": str(tmp_path), "partitionBy": "day"})
    for batch, column in ((1, "DAY"), (2, "Day")) if had else ((0, "day"), (1, "DAY")):
        schema = StructType([StructField(name, LongType()) for name in (column, "n")])
        with in_task(batch):
            rows = pa.RecordBatch.from_pydict({column: [1], "n": [2]})
            message = StreamWriter(settings, schema).write(iter([rows]))
        StreamWriter(settings, schema).commit([message], batch)
    assert {path.parent.name for path in tmp_path.glob("*/part-*")} == {"day=1"}


def test_a_log_without_files_says_nothing_of_columns(tmp_path: Path) -> None:
    """The first batch that comes to its commit does."""
    add(tmp_path, 0)
    late, first = begins(tmp_path, "day"), begins(tmp_path, "hour")
    first._owner().claim("q", 1, 0)
    with pytest.raises(ValueError, match=r"columns \['hour'\], and this write has \['day'\]"):
        late._owner().claim("q", 1, 0)
    assert claim_of(first._owner()._manager, f"{tmp_path}/_hflush/query") == ("q", ("hour",))


@pytest.mark.parametrize(("retention", "left"), [({}, 3), ({"retention": "7d"}, 2)])
def test_entries_of_old_files_are_dropped_as_files_are_compacted(
    tmp_path: Path, retention: dict[str, str], left: int
) -> None:
    """As by Spark's sink. The files stay."""
    given = {"path": str(tmp_path), _INTERVAL: "3", **retention}
    writer = StreamWriter(WriteSettings.of_stream(given), SCHEMA)
    for batch in range(3):
        with in_task(batch):
            message = writer.write(iter([pa.RecordBatch.from_pydict({"a": [batch]})]))
        if batch == 0:
            week = replace(message.files[0], modification_time=1)
            message = replace(message, files=(week,))
        writer.commit([message], batch)
    assert len(hflush.spark.files(str(tmp_path))) == left
    assert len(list(tmp_path.glob("part-*"))) == 3


@pytest.mark.parametrize(("interval", "entry"), [("10", "0"), ("1", "0.compact")])
def test_a_batch_whose_entry_is_damaged_is_not_taken_for_committed(
    tmp_path: Path, interval: str, entry: str
) -> None:
    """Readers see nothing of it: its second run fails, and leaves the rows."""
    writer = StreamWriter(
        WriteSettings.of_stream({"path": str(tmp_path), _INTERVAL: interval}), SCHEMA
    )
    with in_task():
        first, again = (writer.write(iter([a_row()])) for _ in range(2))
    writer.commit([first], 0)
    (tmp_path / "_spark_metadata" / entry).write_bytes(b"")
    with pytest.raises(CorruptLogError, match=f"_spark_metadata/{entry}'"):
        writer.commit([again], 0)
    with pytest.raises(CorruptLogError):
        writer.abort([again], 0)
    assert len(list(tmp_path.glob("part-*"))) == 2


def test_a_batch_whose_files_are_on_another_machine_is_refused(tmp_path: Path) -> None:
    """The log would list what readers do not find; one that is in it already is left out."""
    writer = StreamWriter(WriteSettings.of_stream({"path": str(tmp_path)}), SCHEMA)
    with in_task():
        first, elsewhere = (writer.write(iter([a_row()])) for _ in range(2))
    Path(elsewhere.files[0].path.removeprefix("file://")).unlink()
    with pytest.raises(FileNotFoundError, match="not on this machine") as refused:
        writer.commit([elsewhere], 0)
    assert refused.value.filename == elsewhere.files[0].path
    writer.commit([first], 0)
    writer.commit([elsewhere], 0)
    assert hflush.spark.files(str(tmp_path)) == [first.files[0].path]


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


def a_row() -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"a": [1]})


@contextmanager
def in_task(batch: int = 0, partition: int = 0) -> Iterator[None]:
    """Let what is called be in a task of a batch."""
    known = {"sql.streaming.queryId": "q", "streaming.sql.batchId": str(batch)}
    context = TaskContext._getOrCreate()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context, "_localProperties", known, raising=False)
        patch.setattr(context, "_partitionId", partition, raising=False)
        patch.setattr(context, "_taskAttemptId", 0, raising=False)
        yield
    TaskContext._taskContext = None


def test_tasks_write_where_the_driver_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor has another directory, and may have other site files."""
    for machine in ("driver", "executor"):
        (tmp_path / machine).mkdir()
    monkeypatch.chdir(tmp_path / "driver")
    writer = StreamWriter(WriteSettings.of_stream({"path": "out"}), SCHEMA)
    monkeypatch.chdir(tmp_path / "executor")
    with in_task():
        message = pickle.loads(pickle.dumps(writer)).write(iter([a_row()]))
    monkeypatch.undo()
    (file,) = (tmp_path / "driver" / "out").glob("part-*")
    assert [status.path for status in message.files] == [f"file://{file}"]


def s3_batch(
    server: ScriptedS3, conf: Mapping[str, str] | None = None, batch: int = 0
) -> tuple[StreamWriter, BatchWritten]:
    options = {"path": "s3://bucket/out", **server.conf, **(conf or {})}
    writer = StreamWriter(WriteSettings.of_stream(options), SCHEMA)
    with in_task(batch):
        return writer, writer.write(iter([a_row()]))


@pytest.mark.parametrize("uploads", ["true", "false"])
def test_files_of_a_batch_that_may_come_to_the_log_later_stay(
    monkeypatch: pytest.MonkeyPatch, uploads: str
) -> None:
    """A store of objects may do what it has not answered to: the log would list missing files."""

    def stall(*_: object) -> bool:
        raise TimeoutError(errno.ETIMEDOUT, "outcome unknown")

    with ScriptedS3() as server:
        writer, message = s3_batch(server, {"fs.s3a.multipart.uploads.enabled": uploads})
        with monkeypatch.context() as patch:
            patch.setattr(FileStreamSinkLog, "add", stall)
            with pytest.raises(TimeoutError):
                writer.commit([message], 0)
        writer.abort([message], 0)
        FileStreamSinkLog("s3://bucket/out/_spark_metadata", server.conf).add(0, message.files)
        (name,) = hflush.spark.files("s3://bucket/out", server.conf)
        with hflush.open(name, "rb", conf=server.conf) as file:
            assert len(file.read()) == message.files[0].size


@pytest.mark.parametrize("how", ["a task fails", "the query is refused"])
def test_files_of_a_batch_that_never_comes_to_the_log_go(how: str) -> None:
    """Also on a store of objects: the commit removes them where it was not tried."""
    with ScriptedS3() as server:
        writer, message = s3_batch(server)
        if how == "a task fails":
            writer.abort([message, None], 0)
        else:
            server.put("out/_hflush/query", b'{"query": "another"}')
            with pytest.raises(ForeignQueryError):
                writer.commit([message], 0)
        assert not any("part-" in key for key in server.objects)


@pytest.mark.parametrize(
    ("batch", "partition", "columns", "files"),
    [(0, 0, "", 1), (1, 0, "", 0), (0, 1, "", 0), (0, 0, "day", 0)],
)
def test_a_query_without_rows_can_be_read(
    tmp_path: Path, batch: int, partition: int, columns: str, files: int
) -> None:
    """A file of its first batch has the columns; with partitions it would be left out later."""
    writer = begins(tmp_path, columns)
    with in_task(batch, partition):
        message = writer.write(iter([pa.RecordBatch.from_pydict({"day": [], "n": []})]))
    assert len(message.files) == files
    if files:
        writer.commit([message], batch)
        (file,) = hflush.spark.files(str(tmp_path))
        assert read_schema(file.removeprefix("file://")).names == ["day", "hour", "n"]
