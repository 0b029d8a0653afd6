"""hflush.spark.ForeachWriter: attempts of one epoch, one beside the other."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from hflush.claims import Claim
from hflush.errors import ConcurrentWriterError, LeaseHeldError, StaleTokenError
from hflush.local import resuming
from hflush.spark import ForeachWriter
from hflush.spark.foreach import _Part, json_line
from pyspark import TaskContext
from pyspark.sql import Row
from support.scripted_s3 import ScriptedS3


@pytest.fixture(autouse=True)
def _task(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The context of a task of a query."""
    context = TaskContext._getOrCreate()
    monkeypatch.setattr(context, "_localProperties", {"sql.streaming.queryId": "q"}, raising=False)
    yield
    monkeypatch.undo()
    TaskContext._taskContext = None


def begun(
    directory: Path | str, epoch: int, *rows: bytes, conf: dict[str, str] | None = None
) -> ForeachWriter:
    """An attempt at an epoch of partition 0 that has flushed these rows."""
    writer = ForeachWriter(str(directory), lambda row: row, conf=conf)  # type: ignore[arg-type,return-value]
    if writer.open(0, epoch):
        for row in rows:
            writer.process(row)  # type: ignore[arg-type]
        assert writer._epoch is not None
        if rows:
            writer._epoch.out.flush()
    return writer


def content(directory: Path) -> bytes:
    (file,) = directory.glob("part-*")
    return file.read_bytes()


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_attempt_beside_a_living_one_is_refused(tmp_path: Path, epoch: int) -> None:
    """It does not touch the file; the other one's rows are there when it reports success."""
    for before in range(epoch):
        begun(tmp_path, before, b"before\n").close(None)
    first = begun(tmp_path, epoch, b"1\n")
    with pytest.raises(LeaseHeldError):
        begun(tmp_path, epoch, b"1\n")
    first.process(b"2\n")  # type: ignore[arg-type]
    first.close(None)
    assert content(tmp_path) == b"before\n" * epoch + b"1\n2\n"


def test_an_attempt_that_another_has_overtaken_leaves_the_file(tmp_path: Path) -> None:
    """It began before the other one had ended, and comes to its first row after that."""
    late = begun(tmp_path, 0)
    begun(tmp_path, 0, b"1\n").close(None)
    with pytest.raises(ConcurrentWriterError, match="recorded this partition since epoch 0"):
        late.process(b"1\n")  # type: ignore[arg-type]
    late.close(OSError())
    begun(tmp_path, 1, b"2\n").close(None)
    assert content(tmp_path) == b"1\n2\n"


@pytest.mark.parametrize("left", [b"1\n", b""])
def test_an_attempt_after_one_that_died_begins_anew(tmp_path: Path, left: bytes) -> None:
    """In the first epoch, after its first row or before the empty file was recorded."""
    died = begun(tmp_path, 0, b"1\n")
    died.close(OSError())
    if not left:
        next(tmp_path.glob("part-*")).write_bytes(b"")
        shutil.rmtree(tmp_path / "_epochs")
    begun(tmp_path, 0, b"2\n").close(None)
    assert content(tmp_path) == b"2\n"


def test_a_file_with_rows_that_no_epoch_accounts_for_is_not_cut(tmp_path: Path) -> None:
    died = begun(tmp_path, 0, b"1\n")
    died.close(OSError())
    shutil.rmtree(tmp_path / "_epochs")
    with pytest.raises(ConcurrentWriterError, match="has 2 bytes, and no epoch is recorded"):
        begun(tmp_path, 0, b"2\n")
    assert content(tmp_path) == b"1\n"


@pytest.mark.parametrize(
    ("left", "again", "found"),
    [
        (b"0\n1\n", [b"1\n", b"2\n"], b"1\n2\n"),
        (b"0\n1\n", [b"1\n"], b"1\n"),
        (b"0\n1\n", [], b"1\n"),
        (b"0\n", [b"1\n"], b"1\n"),  # one that was to replace it has died
    ],
)
def test_the_record_of_an_epoch_may_be_of_a_part(
    tmp_path: Path, left: bytes, again: list[bytes], found: bytes
) -> None:
    """Rows of a task that fails before it has read them all end as if these were all."""
    begun(tmp_path, 0, b"0\n").close(None)
    begun(tmp_path, 1, b"1\n").close(None)
    next(tmp_path.glob("part-*")).write_bytes(left)
    begun(tmp_path, 1, *again).close(None)
    begun(tmp_path, 2, b"3\n").close(None)
    assert content(tmp_path) == b"0\n" + found + b"3\n"


def test_an_epoch_before_one_that_is_recorded_is_left_out(tmp_path: Path) -> None:
    """What an attempt without an end has left behind the later one goes, and is no conflict."""
    begun(tmp_path, 0, b"1\n").close(None)
    begun(tmp_path, 1, b"2\n").close(None)
    begun(tmp_path, 2, b"3\n").close(OSError())
    begun(tmp_path, 0, b"1\n").close(None)
    assert content(tmp_path) == b"1\n2\n"


@pytest.mark.parametrize("epoch", [0, 1])
def test_what_was_recorded_since_an_attempt_began_is_not_cut(tmp_path: Path, epoch: int) -> None:
    """It comes to its end after epochs that others have written, having nothing to add."""
    for number in range(2):
        begun(tmp_path, number, b"%d\n" % number).close(None)
    late = begun(tmp_path, epoch, *[b"1\n"] * epoch)
    begun(tmp_path, 2, b"2\n").close(None)
    with pytest.raises(ConcurrentWriterError, match="recorded this partition since"):
        late.close(None)
    assert content(tmp_path) == b"0\n1\n2\n"


def test_what_is_recorded_before_the_file_is_held_is_not_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another attempt begins and ends between the look at the record and the lock."""
    begun(tmp_path, 0, b"0\n").close(None)
    late = begun(tmp_path, 1)
    held = resuming.held

    def held_by_another_before(path: str) -> Claim:
        monkeypatch.setattr(resuming, "held", held)
        begun(tmp_path, 1, b"1\n").close(None)
        return held(path)

    monkeypatch.setattr(resuming, "held", held_by_another_before)
    with pytest.raises(ConcurrentWriterError, match="recorded this partition since"):
        late.process(b"late\n")  # type: ignore[arg-type]
    assert content(tmp_path) == b"0\n1\n"


def test_rows_of_a_file_that_is_gone_are_missed(tmp_path: Path) -> None:
    begun(tmp_path, 0, b"0\n").close(None)
    next(tmp_path.glob("part-*")).unlink()
    for epoch, rows in ((0, [b"0\n"]), (1, [])):
        with pytest.raises(StaleTokenError, match="the file is gone"):
            begun(tmp_path, epoch, *rows).close(None)


def test_of_files_of_their_own_the_longest_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the attempt that had all rows, whichever ends last."""
    monkeypatch.setattr("hflush.spark.foreach._Part.grows", lambda _: False)
    for rows, found in (([b"1\n"], b"1\n"), ([b"1\n", b"2\n"], b"1\n2\n"), ([b"1\n"], b"1\n2\n")):
        begun(tmp_path, 0, *rows).close(None)
        assert content(tmp_path) == found
    assert (tmp_path / "_epochs").is_dir()  # by which a query is refused that comes later
    first, second = (begun(tmp_path, 1, b"1\n") for _ in range(2))
    first.close(None)
    with pytest.raises(FileExistsError):
        second.close(None)


def test_a_line_of_json_has_every_column() -> None:
    """Keys of maps are text, and what is no number; two columns of one name are refused."""
    day = datetime.date(2020, 1, 1)
    row = Row(a=[Row(b=1)], m={day: Row(c=day), None: 1}, k={1: True}, f=[float("-inf"), 1.5])
    text = '{"a":[{"b":1}],"m":{"2020-01-01":{"c":"2020-01-01"},"null":1},"k":{"1":true},'
    text += '"f":["-Infinity",1.5]}\n'
    assert json_line(row) == text
    for twice in (Row("a", "b", "a")(1, 2, 3), Row(x=[Row("a", "a")(1, 2)])):
        with pytest.raises(ValueError, match="the columns 'a' are there more than once"):
            json_line(twice)


@pytest.mark.parametrize("grows", [True, False])
def test_a_query_that_begins_at_the_same_time(
    tmp_path: Path, grows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt is refused, also one that finds the record; nothing stops the query then."""
    monkeypatch.setattr("hflush.spark.foreach._Part.grows", lambda _: grows)
    check, looks = _Part.check, []

    def check_before_the_query(part: _Part) -> None:
        check(part)
        if not looks:
            (tmp_path / "_hflush").mkdir()
            (tmp_path / "_hflush" / "query").touch()
        looks.append(part)

    monkeypatch.setattr(_Part, "check", check_before_the_query)
    for _ in range(2):
        with pytest.raises(FileExistsError, match="readers see the files of this query only"):
            begun(tmp_path, 0, b"1\n")
        assert not (tmp_path / "_epochs").exists()


@pytest.mark.parametrize("grows", [True, False])
def test_rows_that_readers_would_not_see_are_refused(
    tmp_path: Path, grows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go by the log of a streaming query, where one has written."""
    monkeypatch.setattr("hflush.spark.foreach._Part.grows", lambda _: grows)
    (tmp_path / "_spark_metadata").mkdir()
    with pytest.raises(FileExistsError, match="readers see the files of this query only"):
        begun(tmp_path, 0, b"1\n")
    assert list(tmp_path.iterdir()) == [tmp_path / "_spark_metadata"]


@pytest.mark.parametrize("grows", [True, False])
def test_a_path_whose_files_are_in_partitions_is_refused(
    tmp_path: Path, grows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers would leave out these rows."""
    monkeypatch.setattr("hflush.spark.foreach._Part.grows", lambda _: grows)
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "part-0").touch()
    with pytest.raises(ValueError, match=r"columns \['day'\], beside which readers would not see"):
        begun(tmp_path, 0, b"1\n")
    assert list(tmp_path.iterdir()) == [tmp_path / "day=1"]


def test_of_two_attempts_with_files_of_their_own_the_second_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where checkpoints that are there are kept: the first may have fewer rows."""
    monkeypatch.setattr("hflush.spark.foreach._Part.grows", lambda _: False)
    conf = {"hflush.checkpoint.keep-existing": "true"}
    first, second = (begun(tmp_path, 0, b"1\n", conf=conf) for _ in range(2))
    first.close(None)
    with pytest.raises(FileExistsError):
        second.close(None)


def test_a_slash_after_a_path_asks_for_nothing_more(caplog: pytest.LogCaptureFixture) -> None:
    """Names with an empty part are keys of others, which are looked for, with a warning."""
    with ScriptedS3() as server:
        asked = []
        for url in ("s3://bucket/first", "s3://bucket/x", "s3://bucket/y/"):
            server.log.clear()
            begun(url, 0, b"1\n", conf=server.conf).close(None)
            asked.append(sorted(request.operation for request in server.log))
    assert asked[2] == asked[1]
    assert caplog.text == ""
