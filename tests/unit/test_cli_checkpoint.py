"""``hflush checkpoint``, run as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hflush.checkpoint import (
    Checkpoint,
    CommitLog,
    CommitMetadata,
    FileEntry,
    FileStreamSinkLog,
    FileStreamSourceLog,
    OffsetSeq,
    OffsetSeqLog,
    OffsetSeqMetadata,
    SinkFileStatus,
)

COMMAND = [sys.executable, "-m", "hflush.cli", "checkpoint"]
UUID = "12345678-1234-1234-1234-123456789abc"


def run(code: int, *arguments: object) -> list[str]:
    """Run the command; return the lines of its output."""
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (code, b""), done
    return done.stdout.decode().splitlines()


def refused(*arguments: object) -> str:
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b""), done
    return done.stderr.decode()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A directory with two files of a sink, and their log of three batches."""
    log = FileStreamSinkLog(tmp_path / "out" / "_spark_metadata")
    for number in range(2):
        path = tmp_path / "out" / f"part-{number}"
        log.add(number, [SinkFileStatus(f"file://{path}", number + 5)])
        path.write_bytes(b"x" * (number + 5))
    log.add(2, [])
    return tmp_path / "out"


@pytest.fixture
def query(tmp_path: Path) -> Path:
    """The checkpoint of a query of a file source, stopped within batch 1."""
    query = tmp_path / "query"
    for number in range(2):
        FileStreamSourceLog(query / "sources" / "0").add(
            number, [FileEntry("file:///in/a b", 5, number)]
        )
        OffsetSeqLog(query / "offsets").add(number, OffsetSeq(("{}", None), OffsetSeqMetadata(1)))
    CommitLog(query / "commits").add(0, CommitMetadata(7))
    (query / "metadata").write_text('{"id":"q"}')
    return query


def test_ls(out: Path, query: Path):
    """One line a log: what it is, its batches, where; of file logs the compact interval."""
    assert [line.split() for line in run(0, "ls", query)] == [
        ["offsets", "0..1", "2", "files", f"{query}/offsets"],
        ["commits", "0..0", "1", "files", f"{query}/commits"],
        ["source", "0..1", "2", "files", f"{query}/sources/0", "compact", "interval", "10"],
    ]
    (line,) = run(0, "ls", f"file://{out}")
    assert line.split()[:4] == ["sink", "0..2", "3", "files"]


def test_show(out: Path, query: Path):
    """The latest batch of each log, or one; of file logs every live entry."""
    entry = '  {"path":"file:///in/a%20b","timestamp":5,"batchId":'
    assert run(0, "show", query) == [
        f"{query}/offsets/1:",
        "  v1",
        '  {"batchWatermarkMs":1,"batchTimestampMs":0,"conf":{}}',
        "  {}",
        "  -",
        f"{query}/commits/0:",
        "  v1",
        '  {"nextBatchWatermarkMs":7}',
        f"{query}/sources/0:",
        f"{entry}0}}",
        f"{entry}1}}",
    ]
    assert len(run(0, "show", query, "--batch", 1)) == 8
    assert len(run(0, "show", out)) == 3
    assert run(0, "show", out, "--batch", 2) == [f"{out}/_spark_metadata/2:", "  v1"]
    assert "no log has a batch 7" in refused("show", out, "--batch", 7)
    (out / "_spark_metadata" / "1").write_bytes(b"v1\n{")
    text = refused("show", out)
    assert text.startswith(f"hflush: checkpoint: {out}/_spark_metadata/1: corrupt log file: line 2")


def test_verify(out: Path, query: Path):
    """Errors make the exit code 1, notes do not."""
    assert run(0, "verify", out) == ["0 errors, 0 notes"]
    assert run(0, "verify", query) == [
        f"note: {query}/offsets/1: batch 1 has no commit: it runs again at the next start",
        "0 errors, 1 note",
    ]
    (out / "part-0").write_bytes(b"x")
    assert run(1, "verify", out) == [
        f"error: file://{out}/part-0: 1 bytes, but the log says 5, which is what readers believe",
        "1 error, 0 notes",
    ]


def test_repair(out: Path):
    """Says what it would do, does it, and names what it leaves."""
    log = out / "_spark_metadata"
    stray, only, sums = log / f".1.{UUID}.tmp", log / f".3.{UUID}.tmp", log / ".7.crc"
    for path in (stray, only, sums):
        path.write_bytes(b"v1")
        os.utime(path, (1, 1))
    would = run(0, "repair", "--dry-run", out)
    assert would[:2] == [f"would: remove {stray}", f"would: remove {sums}"]
    assert stray.exists()
    did = run(0, "repair", out)
    assert did[:2] == [f"did: remove {stray}", f"did: remove {sums}"]
    assert "this may be the only copy" in did[2]
    assert did[3] == "0 errors, 1 note"
    assert (stray.exists(), sums.exists(), only.exists()) == (False, False, True)
    assert run(0, "repair", out, "--older-than", "365d")[-1] == "0 errors, 1 note"


def test_repair_keeps_the_copy_of_a_damaged_batch(out: Path):
    """What a machine that fails leaves of a batch without syncs is an empty file."""
    log = out / "_spark_metadata"
    copy = log / f".1.{UUID}.tmp"
    copy.write_bytes((log / "1").read_bytes())
    os.utime(copy, (1, 1))
    (log / "1").write_bytes(b"")
    assert any("the only copy" in line for line in run(1, "repair", out))
    assert copy.exists()


def test_repair_of_a_log_with_another_interval(tmp_path: Path):
    """It becomes no worse: neither for a session with the one interval nor for the other."""
    key = "spark.sql.streaming.fileSink.log.compactInterval"
    log = FileStreamSinkLog(tmp_path / "_spark_metadata", {key: 30})
    for number in range(56):
        log.add(number, [])
    with pytest.raises(ValueError, match=r"49\.compact would .*: 39\.compact would"):
        log.rebuild(49)
    assert run(0, "repair", tmp_path)[0].endswith("44.compact from 29.compact to 44")
    for interval in (10, 30):
        assert Checkpoint(tmp_path, {key: interval}).verify() == []
    assert log.add(56, [])


def test_verify_goes_on(query: Path):
    """After a file that cannot be read, and with a batch far above the others."""
    checked = f"file+crc://{query}"
    assert CommitLog(f"{checked}/commits").add(1, CommitMetadata(8))
    (query / "commits" / ".1.crc").write_bytes(b"crc\0\0\0\2\0" + bytes(4))
    (query / "offsets" / "20240101120000").write_bytes(b"v1")
    found = {finding.path: finding.problem for finding in Checkpoint(checked).verify()}
    assert found[f"{query}/commits/1"].startswith("cannot be read: ")
    assert found[f"{query}/offsets"].startswith("missing batches: 2, 3, 4")
    with pytest.raises(FileNotFoundError, match="missing batches: 2, 3"):
        OffsetSeqLog(query / "offsets").get_range()


def test_batches_that_both_logs_lack_are_no_error(tmp_path: Path):
    """A query that tracks its progress asynchronously leaves some out; one alone has lost one."""
    for number in (0, 5, 9):
        OffsetSeqLog(tmp_path / "offsets").add(number, OffsetSeq(("{}",), OffsetSeqMetadata()))
        CommitLog(tmp_path / "commits").add(number, CommitMetadata())
    found = Checkpoint(tmp_path).verify()
    assert [finding.harmful for finding in found] == [False] * 3  # and there is no metadata
    assert all("1, 2, 3, 4, 6, 7, 8; the log beside it" in f.problem for f in found[:2])
    (tmp_path / "offsets" / "5").unlink()
    assert [finding.harmful for finding in Checkpoint(tmp_path).verify()] == [True, False, False]


def test_refusals(tmp_path: Path):
    """A directory without a log, a missing one, wrong usage."""
    assert "no log of Spark's" in refused("verify", tmp_path)
    assert "No such file" in refused("ls", tmp_path / "nowhere")
    assert "no file system for scheme 'gs'" in refused("ls", "gs://bucket/")
    for arguments in ([], ["fly", "/"], ["show", "/", "--batch", "x"]):
        done = subprocess.run([*COMMAND, *arguments], capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.startswith(b"usage: hflush checkpoint")


@pytest.mark.parametrize("name", ["sources/clicks", "sources/0", "offsets", "commits"])
def test_a_directory_is_known_by_what_is_in_it(tmp_path: Path, name: str) -> None:
    """The output of a sink may be called as a log is; its own log is looked into."""
    out = tmp_path / name
    (out / "_p=1").mkdir(parents=True)
    (out / "_p=1" / "stray").touch()
    FileStreamSinkLog(out / "_spark_metadata").add(0, [SinkFileStatus(f"file://{out}/gone", 5)])
    found = Checkpoint(f"file://{out}")
    assert [log.kind for log in found.logs] == ["sink"]
    assert {finding.path for finding in found.verify()} == {f"file://{out}/gone", str(out)}


def test_a_child_of_sources_is_a_log_if_it_has_a_number(tmp_path: Path) -> None:
    (tmp_path / "sources" / "clicks").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match="no log of Spark's"):
        Checkpoint(tmp_path / "sources" / "clicks")
