"""Job commits on real stores: killed before every call, late writers, what a vacuum leaves."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from subprocess import PIPE
from typing import Any

import hflush.spark
import pytest
from faults import commit_writer
from faults.commit_writer import RUN, content, paths_of, staged
from hflush.checkpoint import FileStreamSinkLog, SinkFileStatus
from hflush.spark.commit import (
    Committer,
    Identity,
    Job,
    LostFilesError,
    Mode,
    Outcome,
    vacuum,
)
from hflush.spark.commit.log import CommitLog
from hflush.spark.commit.records import Intent
from support.stores import Store
from support.waiting import PATIENCE

pytestmark = pytest.mark.spark_kills

# Of the calls of a commit, every so many are tried; all of them on local files, and in the slow
# lane.
STRIDE = {"raw": 1, "crc": 9, "hdfs": 5, "s3": 3}
STRIDE_OF_MANY = 37  # of a commit of many files, on all stores: it has some hundred calls
KEPT = {Mode.OVERWRITE_PARTITIONS: {"k=2/old-4"}}  # of five files, by a job that writes three
WAYS = ("fail-before", "fail-after")  # a call fails, or its answer is lost


@pytest.fixture(scope="module")
def jobs() -> Iterator[subprocess.Popen[str]]:
    """The process whose forks are killed."""
    command = [sys.executable, commit_writer.__file__]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def run(
    jobs: subprocess.Popen[str],
    store: Store,
    url: str,
    mode: Mode,
    name: str,
    how: str,
    call: int,
    tasks: int = 3,
) -> Any:
    """Run a job, as commit_writer.run does; None if it died."""
    assert jobs.stdin is not None
    assert jobs.stdout is not None
    line = [url, dict(store.conf), mode.value, name, how, call, tasks]
    jobs.stdin.write(json.dumps(line) + "\n")
    jobs.stdin.flush()
    return json.loads(jobs.stdout.readline())


def committed(
    url: str, store: Store, name: str, mode: Mode = Mode.APPEND, tasks: int = 3
) -> Outcome:
    """Commit a job whose tasks have done their work."""
    committer = Committer(url, store.conf)
    return committer.commit(*staged(committer, name, mode, tasks)).outcome


def visible(url: str, store: Store) -> set[str]:
    """The files that are visible; each has its content, whole."""
    committer = Committer(url, store.conf)
    found = committer.visible()
    for path in found:
        with committer.filesystem.open(f"{url}/{path}") as stream:
            assert stream.read() == content(path)
    return set(found)


def result(url: str, store: Store) -> set[str]:
    """The files that a reader is to read: URLs that can be opened."""
    names = hflush.spark.files(url, store.conf)
    found = {name[name.rindex("k=") :]: name for name in names}
    for path, name in found.items():
        with store.fs.open(name) as stream:
            assert stream.read() == content(path)
    assert names == sorted(names)
    return set(found)


def nothing_is_left(url: str, store: Store) -> None:
    """Nothing but published files, their marker and record: no staging, no uploads."""
    committer = Committer(url, store.conf)
    fs, start = committer.filesystem, len(committer.path) + 1
    names = [fs._store_path(status)[start:] for status in fs.list_files(url, recursive=True)]
    hidden = {name for name in names if name.startswith("_")}
    assert {name for name in hidden if not name.endswith(".record")} <= {"_SUCCESS"}
    records = [name for name in hidden if name.endswith(".record")]
    assert len(records) == (len(hidden) < len(names))
    if store.name == "s3":
        assert fs.list_multipart_uploads(url) == []


@pytest.fixture
def stride(request: pytest.FixtureRequest, store: Store) -> int:
    return 1 if request.config.getoption("--exhaustive") else STRIDE[store.name]


def begun(url: str, store: Store, mode: Mode) -> set[str]:
    """Leave what is there before a job with a mode, and return the files."""
    if mode in (Mode.CREATE, Mode.IGNORE):  # they only write where there is nothing
        return set()
    tasks = 5 if mode is Mode.OVERWRITE_PARTITIONS else 3  # the last one's partition stays
    committed(url, store, "old", tasks=tasks)
    return set(paths_of("old", tasks))


def calls_to_try(
    jobs: subprocess.Popen[str], store: Store, url: str, mode: Mode, stride: int
) -> Iterator[int]:
    """The calls of a commit before which it is killed: from 1 on, up to the last."""
    begun(url, store, mode)
    count = run(jobs, store, url, mode, "counted", "kill", 0)["calls"]
    assert count > 5
    yield from range(1, count + 1, stride)


@pytest.mark.timeout(600 * PATIENCE)
@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.OVERWRITE])
def test_a_driver_killed_before_any_call_leaves_the_old_or_the_new(
    jobs: subprocess.Popen[str], store: Store, mode: Mode, stride: int
) -> None:
    """After a vacuum, or after the next write, whichever comes next; readers never see both."""
    sweep_kills(jobs, store, mode, stride)


@pytest.mark.stores("raw")
@pytest.mark.parametrize("mode", [Mode.OVERWRITE_PARTITIONS, Mode.CREATE, Mode.IGNORE])
def test_a_driver_killed_in_the_other_modes(
    jobs: subprocess.Popen[str], store: Store, mode: Mode
) -> None:
    """Which only differ in what they look at, and in what is removed."""
    sweep_kills(jobs, store, mode, 1)


def sweep_kills(jobs: subprocess.Popen[str], store: Store, mode: Mode, stride: int) -> None:
    """Kill a commit before each call that is to be tried."""
    seen = set()
    for call in calls_to_try(jobs, store, store.url(store.path("counted")), mode, stride):
        url = store.url(store.path(f"killed-{call}"))
        old = begun(url, store, mode)
        new = set(paths_of("new")) | KEPT.get(mode, set())
        results = [old, old | new if mode is Mode.APPEND else new]
        assert run(jobs, store, url, mode, "new", "kill", call) is None
        assert result(url, store) in results
        if call % 2:
            vacuum(url, store.conf, older_than=0)
            after = visible(url, store)
        else:
            assert committed(url, store, "next") is Outcome.COMMITTED
            vacuum(url, store.conf, older_than=0)
            assert visible(url, store) >= set(paths_of("next"))
            after = visible(url, store) - set(paths_of("next"))
        assert after in results
        nothing_is_left(url, store)
        seen.add(frozenset(after))
    assert len(seen) == 2  # some were killed before it was decided, some after


@pytest.mark.timeout(1200 * PATIENCE)
@pytest.mark.parametrize("tasks", [1, 50])
@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.OVERWRITE])
def test_a_commit_whose_store_fails_once_is_there_once(
    request: pytest.FixtureRequest,
    jobs: subprocess.Popen[str],
    store: Store,
    mode: Mode,
    tasks: int,
    stride: int,
) -> None:
    """At any call, before it or with its answer lost: it is aborted, and the job runs again.

    The files of one of the two runs are there, of no other, and nothing is staged any more.
    """
    is_whole, seen = request.config.getoption("--exhaustive"), set()
    stride = stride if tasks == 1 or is_whole else STRIDE_OF_MANY
    base = set() if mode is Mode.OVERWRITE else set(paths_of("old"))
    first, second = (base | set(paths_of(name, tasks)) for name in ("first", "second"))
    url = store.url(store.path("counted"))
    committed(url, store, "old")
    end = run(jobs, store, url, mode, "first", "fail-before", 0, tasks)
    assert (end["calls"] > 5, end["failed"]) == (True, False)
    for call, how in list(product(range(1, end["calls"] + 1), WAYS))[::stride]:
        url = store.url(store.path(f"{how}-{call}"))
        committed(url, store, "old")
        end = run(jobs, store, url, mode, "first", how, call, tasks)
        assert end["calls"] >= call
        if not end["failed"]:
            assert visible(url, store) == first
        committer = Committer(url, store.conf)
        committer.commit(*staged(committer, "second", mode, tasks, RUN))
        shown = visible(url, store)
        assert shown in (first, second) if end["failed"] else shown == first
        vacuum(url, store.conf, older_than=0)
        nothing_is_left(url, store)
        seen.add(shown == first)
    assert seen == {False, True}  # some failed before it was decided, some after


def test_nothing_is_visible_before_the_commit(store: Store) -> None:
    """What tasks have staged shows neither in listings that skip hidden names, nor as objects."""
    url = store.url(store.path("out"))
    committer = Committer(url, store.conf)
    job, files = staged(committer, "a", Mode.APPEND)
    assert committer.visible() == ()
    assert committer.commit(job, files).number == 0
    assert visible(url, store) == set(paths_of("a"))
    nothing_is_left(url, store)


def test_a_late_task_neither_publishes_nor_brings_staging_back(store: Store) -> None:
    """It was never told that its job was aborted, and goes on: it fails, or is swept."""
    url = store.url(store.path("out"))
    committed(url, store, "old")
    committer = Committer(url, store.conf)
    job = Job("zombie")
    committer.prepare(job)
    attempt = committer.attempt(job, "attempt")
    stream = attempt.create("late-0")
    stream.write(b"rows")
    assert committer.abort(job, ())
    if store.name == "s3":
        attempt.close(stream)
        attempt.close(attempt.create("late-1"))
    else:
        with pytest.raises(FileNotFoundError):
            attempt.create("late-1")
        with pytest.raises(FileNotFoundError):
            committer.attempt(job, "another")
        try:
            attempt.close(stream)
        except OSError:
            assert store.name != "raw"  # there an open file can be removed
    assert visible(url, store) == set(paths_of("old"))
    vacuum(url, store.conf, older_than=0)
    nothing_is_left(url, store)


def test_an_abort_leaves_a_declared_commit_alone(store: Store) -> None:
    """Spark aborts a job whose commit raised: what is declared happens all the same."""
    url = store.url(store.path("out"))
    committer = Committer(url, store.conf)
    job, files = staged(committer, "a", Mode.APPEND)
    seen = committer.log.look()

    committer.log.make()
    assert committer.log.declare(seen.next_number, Intent(job, tuple(files)))
    assert not committer.abort(job, files)
    assert committer.visible() == ()
    assert vacuum(url, store.conf).rolled_forward == 0
    assert visible(url, store) == set(paths_of("a"))
    nothing_is_left(url, store)


def test_a_named_run_is_written_once(store: Store) -> None:
    """A second one with its identity drops what it has staged."""
    url = store.url(store.path("out"))
    committer = Committer(url, store.conf)
    outcomes = []
    for name in ("a", "b"):
        job, files = staged(committer, name, Mode.APPEND)
        named = Job(job.id, Mode.APPEND, Identity("nightly", 7))
        outcomes.append(committer.commit(named, files).outcome)
    assert outcomes == [Outcome.COMMITTED, Outcome.REPLAYED]
    assert visible(url, store) == set(paths_of("a"))
    nothing_is_left(url, store)


def test_files_that_were_swept_are_missed_before_anything_is_declared(store: Store) -> None:
    """A vacuum that took a job for dead: its commit fails, and the next one is not disturbed."""
    url = store.url(store.path("out"))
    committed(url, store, "old")
    committer = Committer(url, store.conf)
    job, files = staged(committer, "a", Mode.OVERWRITE)
    vacuum(url, store.conf, older_than=0)
    if store.name == "s3":  # which only completing tells
        with pytest.raises(LostFilesError, match="hflush vacuum --give-up 1 "):
            committer.commit(job, files)
        assert visible(url, store) == set(paths_of("old"))
        assert vacuum(url, store.conf, give_up=1).given_up == 1
        nothing_is_left(url, store)
    else:
        with pytest.raises(LostFilesError, match="nothing was published"):
            committer.commit(job, files)
    assert committed(url, store, "b") is Outcome.COMMITTED
    assert visible(url, store) == set(paths_of("old")) | set(paths_of("b"))


def test_a_vacuum_leaves_jobs_at_work_alone(store: Store) -> None:
    """Unless told otherwise, what has changed within a week."""
    url = store.url(store.path("out"))
    committer = Committer(url, store.conf)
    committed(url, store, "old")
    job, files = staged(committer, "a", Mode.APPEND)
    assert vacuum(url, store.conf).swept == 0
    assert committer.commit(job, files).outcome is Outcome.COMMITTED
    with pytest.raises(ValueError, match="older_than=-1"):
        vacuum(url, store.conf, older_than=-1)
    with pytest.raises(FileNotFoundError):
        vacuum(f"{url}-missing", store.conf)


def age(directory: Path, days: float) -> None:
    """Let everything in a directory, and itself, be so old."""
    then = time.time() - days * 24 * 3600
    for path in (directory, *directory.rglob("*")):
        os.utime(path, (then, then))


@pytest.mark.stores("raw")
def test_the_next_commit_sweeps_what_did_nothing_for_a_week(store: Store) -> None:
    """What is younger stays, also where only one file of it is."""
    url, staging = store.url(store.path("out")), Path(store.path("out"), "_hflush", "staging")
    committer = Committer(url, store.conf)
    for name, days in {"dead": 8, "young": 6, "busy": 8}.items():
        staged(committer, name, Mode.APPEND)
        age(staging / f"job-{name}", days)
    age(staging / "job-busy" / "attempt-1", 1)
    temporary = staging.parent / "commits" / ".7.intent.tmp"
    temporary.parent.mkdir()
    temporary.write_bytes(b"half an intent")
    age(temporary, 8)
    assert committed(url, store, "next") is Outcome.COMMITTED
    assert {path.name for path in staging.iterdir()} == {"job-young", "job-busy"}
    assert not temporary.exists()
    assert visible(url, store) == set(paths_of("next"))


@pytest.mark.stores("raw", "hdfs", "s3")
def test_what_a_commit_sweeps_is_found_by_one_request(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On S3 uploads are listed page by page, others' too: they wait for a vacuum."""
    monkeypatch.setattr("hflush.spark.commit.committer.WEEK_S", 0.0)
    url = store.url(store.path("out"))
    staged(Committer(url, store.conf), "dead", Mode.APPEND)
    committed(url, store, "next")
    left = vacuum(url, store.conf, older_than=0).swept
    assert left == (len(paths_of("dead")) if store.name == "s3" else 0)
    nothing_is_left(url, store)


@pytest.mark.stores("raw")
def test_a_sweep_that_fails_fails_no_commit(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is a line in the log: what the commit has published is there."""
    url, staging = store.url(store.path("out")), Path(store.path("out"), "_hflush", "staging")
    staged(Committer(url, store.conf), "dead", Mode.APPEND)
    age(staging / "job-dead", 8)

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "not yours", str(staging))

    monkeypatch.setattr(CommitLog, "sweep", refuse)
    assert committed(url, store, "next") is Outcome.COMMITTED
    assert "what killed jobs have left stays: [Errno 13] not yours" in caplog.text
    assert visible(url, store) == set(paths_of("next"))
    assert (staging / "job-dead").exists()


@pytest.mark.stores("raw")
def test_a_damaged_record_is_named(store: Store) -> None:
    """Nothing is guessed from a file that is not whole."""
    url = store.url(store.path("out"))
    committed(url, store, "a")
    record = Path(store.path("out")) / "_hflush" / "commits" / "0.record"
    record.write_bytes(record.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"0\.record: not a record of a commit"):
        committed(url, store, "b")
    assert visible(url, store) == set(paths_of("a"))


def test_readers_are_told_one_result_while_an_overwrite_waits(store: Store) -> None:
    """The old one until all of the new is there, then the new one; each file can be opened."""
    url = store.url(store.path("out"))
    with pytest.raises(FileNotFoundError):
        hflush.spark.files(url, store.conf)
    committed(url, store, "old")
    committer = Committer(url, store.conf)
    job, files = staged(committer, "new", Mode.OVERWRITE)
    committer.log.declare(1, Intent(job, tuple(files), tuple(paths_of("old"))))
    for file in files:
        assert result(url, store) == set(paths_of("old"))
        committer.filesystem.mkdirs(f"{committer.path}/{file.directory}")
        assert committer.staging.publish(job, file)
    assert result(url, store) == set(paths_of("new"))
    assert visible(url, store) == set(paths_of("old") + paths_of("new"))
    committer.roll_forward()
    assert result(url, store) == visible(url, store) == set(paths_of("new"))


@pytest.mark.stores("raw")
def test_readers_of_a_query_are_told_what_its_log_lists(store: Store) -> None:
    """And not what else is there; a file is no directory."""
    url = store.url(store.path("out"))
    entry = SinkFileStatus(f"{url}/part-0", 1)
    FileStreamSinkLog(f"{url}/_spark_metadata", store.conf).add(0, [entry])
    Path(store.path("out"), "part-1").write_bytes(b"")
    assert hflush.spark.files(url, store.conf) == [f"{url}/part-0"]
    with pytest.raises(NotADirectoryError):
        hflush.spark.files(f"{url}/part-1", store.conf)


@pytest.mark.stores("raw")
def test_a_streaming_querys_directory_and_a_file_are_refused(store: Store) -> None:
    """Readers of _spark_metadata would not see what a batch adds."""
    (Path(store.path("out")) / "_spark_metadata").mkdir(parents=True)
    with pytest.raises(ValueError, match="_spark_metadata"):
        Committer(store.url(store.path("out")), store.conf).check()
    Path(store.path("file")).write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        Committer(store.url(store.path("file")), store.conf).check()


@pytest.mark.stores("raw")
def test_the_command_carries_out_and_sweeps(store: Store) -> None:
    """hflush vacuum says what it did."""
    url = store.url(store.path("out"))
    committed(url, store, "old")
    committer = Committer(url, store.conf)
    job, files = staged(committer, "a", Mode.OVERWRITE)
    committer.log.declare(1, Intent(job, tuple(files), tuple(paths_of("old"))))
    staged(committer, "dead", Mode.APPEND)
    command = [sys.executable, "-m", "hflush.cli", "vacuum", url, "--older-than", "0s"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "commit 1 carried out\n1 leftovers of jobs removed\n"
    assert visible(url, store) == set(paths_of("a"))
    nothing_is_left(url, store)
