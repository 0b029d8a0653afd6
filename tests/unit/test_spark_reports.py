"""What hflush.spark says of a write: in the records of commits, and to Python's log."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from hflush.spark.commit import Committer, Job, Record, Report, StagedFile, TaskReport
from hflush.spark.commit.records import Intent
from hflush.spark.logs import logged
from hflush.spark.watching import _bar, _last_now
from hflush.statistics import IOStatistics

SLOW = TaskReport(1, 7, 2, 10, 300, 4, 1, 0.5)
QUICK = TaskReport(0, 9, 1, 5, 100, 0, 0, 0.1)
JOB, FILES = Job("a"), (StagedFile("part", "a/part", 15, 400, 7),)


def statistics(count: int) -> IOStatistics:
    return IOStatistics.from_dict({"counters": {"op_close": count}})


def test_a_report_goes_from_the_intent_into_the_record() -> None:
    """Whoever carries the intent out: it is read from the file. Statistics are summed."""
    report = Report.of([(SLOW, statistics(2)), (QUICK, statistics(1))])
    assert report.tasks == (QUICK, SLOW)
    assert (report.syncs, report.stalls) == (4, 1)
    assert str(report) == "15 rows, 3 files, 400 bytes, 4 syncs, 1 stalls, by 2 tasks"
    intent = Intent.from_bytes(Intent(JOB, FILES, (), report).to_bytes())
    record = Record.from_bytes(Record.of(0, intent, None).to_bytes())
    assert record.report == report
    assert record.report.io_statistics().counters == {"op_close": 3}


def test_the_marker_has_the_counts_of_each_task(tmp_path: Path) -> None:
    """A list of each count, on one line: there may be thousands of tasks."""
    report = Report.of([(SLOW, statistics(2)), (QUICK, statistics(1))])
    Committer(str(tmp_path)).commit(JOB, (), report)
    text = (tmp_path / "_SUCCESS").read_text()
    found = json.loads(text)
    assert (found["tasks"], found["syncs"], found["stalls"]) == (2, 4, 1)
    assert found["byTask"] == {
        "partition": [0, 1],
        "rows": [5, 10],
        "bytes": [100, 300],
        "files": [1, 2],
        "syncs": [0, 4],
        "stalls": [0, 1],
    }
    assert len(text.splitlines()) == 2 + len(found)


def test_files_of_older_versions_are_read() -> None:
    """Without reports and partition columns; other reports are refused."""
    intent = json.loads(Intent(JOB, FILES).to_bytes())
    record = json.loads(Record.of(0, Intent(JOB, FILES), None).to_bytes())
    del intent["report"], record["report"], record["partition_by"]
    del intent["job"]["partition_by"], record["job"]["partition_by"]
    assert Intent.from_bytes(json.dumps(intent).encode()).report == Report()
    assert Record.from_bytes(json.dumps(record).encode()).report == Report()
    with pytest.raises(ValueError, match="not a record of a commit"):
        Record.from_bytes(json.dumps({**record, "report": {"tasks": [{"rows": 1}]}}).encode())


PROGRAM = """
import logging
from hflush.spark.logs import logged
log = logging.getLogger("hflush.spark.writer")
with logged("info"):
    log.info("%d rows", 7)
    log.debug("hidden")
log.info("after")
assert logging.getLogger("hflush").handlers == [] and log.getEffectiveLevel() == logging.WARNING
"""


def test_lines_are_on_standard_error_where_spark_has_its_log() -> None:
    """In a process without handlers, as a worker is; nothing stays behind."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    words = done.stderr.decode().split()
    assert words[2:] == ["INFO", "hflush.spark.writer:", "7", "rows"]


def test_a_handler_that_is_there_gets_the_lines(caplog: pytest.LogCaptureFixture) -> None:
    """As Spark's own collector is; the level is put back."""
    log = logging.getLogger("hflush.spark.writer")
    with logged("off"):
        log.error("hidden")
    with logged("info"):
        log.info("shown")
    log.info("hidden")
    assert caplog.messages == ["shown"]


def test_a_bar_needs_no_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service may run without; then nothing is shown."""
    monkeypatch.setattr(sys, "stderr", None)
    with _bar()(None) as bar:
        assert bar.disable


def test_a_block_that_has_succeeded_stays_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where nobody can tell what it has committed."""
    record = tmp_path / "_hflush" / "commits" / "0.record"
    record.parent.mkdir(parents=True)
    record.write_bytes(b"half")
    assert _last_now(str(tmp_path), None) is None
    assert "what was committed cannot be looked up: file:" in caplog.text
    assert "not a record" in caplog.text
