"""Commits where something is not what it has to be, or two kinds of writers meet: local files."""

from __future__ import annotations

import errno
import itertools
import os
import pickle
import re
import shutil
import struct
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hflush
import hflush.spark
import pyarrow as pa
import pytest
from hflush import paths
from hflush.checkpoint import CheckpointFileManager, FileStreamSinkLog
from hflush.cli import main
from hflush.local.filesystem import LocalFileSystem
from hflush.spark.commit import (
    Committer,
    Identity,
    Job,
    LostFilesError,
    Mode,
    Outcome,
    StagedFile,
    vacuum,
)
from hflush.spark.commit.log import CommitLog
from hflush.spark.commit.machine import Seen
from hflush.spark.commit.records import Intent, Record
from hflush.spark.commit.staging import RenamedStaging
from hflush.spark.commit.strays import claim_of, trace_of_jobs
from hflush.spark.settings import WriteSettings
from hflush.spark.stream import Owner
from hflush.spark.task import TaskWriter
from hflush.spark.urls import absolute
from hflush.spark.writer import BatchWriter, FilesWritten
from pyspark.sql.types import LongType, StructField, StructType
from support.s3_front import answer
from support.scripted_s3 import ScriptedS3

SCHEMA = StructType([StructField("a", LongType())])


def staged(
    committer: Committer, job: Job, *places: str, content: bytes = b"x"
) -> tuple[StagedFile, ...]:
    """What the only task of a job has staged."""
    committer.prepare(job)
    attempt = committer.attempt(job, "attempt")
    files = []
    for place in places:
        stream = attempt.create(place)
        stream.write(content)
        files.append(StagedFile(place, attempt.close(stream), 1, len(content), 0))
    return tuple(files)


def committed(url: Path | str, *places: str, conf: Any = None) -> None:
    committer, job = Committer(str(url), conf), Job("a")
    committer.commit(job, staged(committer, job, *places))


# --- directories where files have to be, and files where directories have to be ---

USES: dict[str, Callable[[str], object]] = {
    "vacuum": vacuum,
    "write": lambda url: committed(Path(url), "part-1"),
    "last_commit": hflush.spark.last_commit,
    "files": hflush.spark.files,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", ["0.record", "7.intent"])
def test_a_directory_that_is_named_as_a_record_is_named(
    tmp_path: Path, name: str, use: str
) -> None:
    """Its number can neither be read nor taken: to look again would never end."""
    odd = tmp_path / "_hflush" / "commits" / name
    odd.mkdir(parents=True)
    with pytest.raises(IsADirectoryError, match=r"commits: .*Move it away") as refused:
        USES[use](str(tmp_path))
    assert refused.value.filename == f"file://{odd}"


def test_a_link_that_leads_nowhere_is_no_record(tmp_path: Path) -> None:
    """It is listed, and cannot be opened."""
    (tmp_path / "_hflush" / "commits").mkdir(parents=True)
    (tmp_path / "_hflush" / "commits" / "0.record").symlink_to(tmp_path / "missing")
    with pytest.raises(IsADirectoryError, match=r"commits: .*Move it away"):
        vacuum(str(tmp_path))


@pytest.mark.parametrize("name", ["00.intent", "007.record"])
def test_a_number_that_hflush_writes_otherwise_is_none(tmp_path: Path, name: str) -> None:
    """Such a file cannot be read by its number: to look again would never end. It stays."""
    odd = tmp_path / "_hflush" / "commits" / name
    odd.parent.mkdir(parents=True)
    odd.write_bytes(b"")
    committed(tmp_path, "part-1")
    vacuum(str(tmp_path))
    assert hflush.spark.files(str(tmp_path)) == [f"file://{tmp_path}/part-1"]
    assert odd.exists()


@pytest.mark.parametrize(
    "name", ["", "_hflush", "_hflush/commits", "_hflush/staging", "_spark_metadata"]
)
def test_a_vacuum_of_a_file_is_refused(tmp_path: Path, name: str) -> None:
    """It would find nothing to do, and say that all is well."""
    odd = tmp_path / "out" / name
    odd.parent.mkdir(parents=True, exist_ok=True)
    odd.write_bytes(b"")
    with pytest.raises(NotADirectoryError) as refused:
        vacuum(str(tmp_path / "out"))
    assert refused.value.filename == f"file://{odd}"


def test_a_log_of_batches_that_is_a_file_is_no_empty_one(tmp_path: Path) -> None:
    """Readers are not told that there are no files."""
    committed(tmp_path, "part-1")
    (tmp_path / "_spark_metadata").write_bytes(b"")
    with pytest.raises(NotADirectoryError, match="Move it away"):
        hflush.spark.files(str(tmp_path))


def test_a_directory_names_no_query(tmp_path: Path) -> None:
    """It is not taken for a path without one."""
    (tmp_path / "query").mkdir()
    manager = Committer(str(tmp_path)).log._manager
    with pytest.raises(IsADirectoryError, match=r"query: .*Move it away"):
        claim_of(manager, f"{tmp_path}/query")


# --- writes that ask for what is there ---


def batch_writer(url: Path, **options: str) -> BatchWriter:
    return BatchWriter(WriteSettings.of({"path": str(url), **options}, False), SCHEMA)


def half_published(url: Path, identity: Identity | None = None) -> Committer:
    """Leave what a driver leaves that was killed between its two files."""
    committer, job = Committer(str(url)), Job("dead", Mode.APPEND, identity)
    files = staged(committer, job, "part-1", "part-2")
    committer.log.make()
    committer.log.declare(0, Intent(job, files))
    committer.staging.publish(job, files[0])
    return committer


def is_whole(committer: Committer) -> bool:
    both = committer.visible() == ("part-1", "part-2")
    return both and committer.log.look().unfinished is None


@pytest.mark.parametrize("how", ["ignore", "error"])
def test_a_write_that_files_stop_carries_out_what_was_declared(tmp_path: Path, how: str) -> None:
    """It does not leave half of a commit behind."""
    committer = half_published(tmp_path)
    if how == "ignore":
        batch_writer(tmp_path, ifexists=how).commit([])
    else:
        with pytest.raises(FileExistsError, match="ifExists=error"):
            batch_writer(tmp_path, ifexists=how)
    assert is_whole(committer)


def test_a_commit_id_that_is_repeated_writes_nothing_and_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also with ifExists=error, and if its first run was killed in its commit."""
    committer = half_published(tmp_path, Identity("night", 0))
    for _ in range(2):
        writer = batch_writer(tmp_path, ifexists="error", commitid="night")
        assert writer.write(iter(())).files == ()
        writer.commit([])
        assert is_whole(committer)
    assert "has the commit of commitId=night" in caplog.text
    with pytest.raises(FileExistsError, match="ifExists=error"):
        batch_writer(tmp_path, ifexists="error", commitid="another night")


@pytest.mark.parametrize("value", ["x" * 260, "\0", "a file", "a file/q=1"])
def test_a_partition_that_cannot_be_stops_its_own_job_only(tmp_path: Path, value: str) -> None:
    """Nothing is declared for the next one to carry out, and no directory is left."""
    (tmp_path / "p=a file").write_bytes(b"")
    committer, job = Committer(str(tmp_path)), Job("job")
    bad = staged(committer, job, "a=1/b=2/part-0", f"p={value}/part-1")
    with pytest.raises(OSError, match="p="):
        committer.commit(job, bad)
    committer.abort(job, bad)
    assert not (tmp_path / "a=1").exists()
    following = Job("next")
    committer.commit(following, staged(committer, following, "p=good/part-2"))
    assert committer.visible() == ("p=a file", "p=good/part-2")


def test_an_object_in_the_place_of_a_partition_stops_its_own_job_only() -> None:
    with ScriptedS3() as server:
        hflush.create("s3://bucket/out/p=1", conf=server.conf).close()
        committer, job = Committer("s3://bucket/out", server.conf), Job("job")
        bad = staged(committer, job, "p=1/q=1/part-0")
        with pytest.raises(FileExistsError, match="a file is where a directory has to be"):
            committer.commit(job, bad)
        assert committer.abort(job, bad)


def test_an_intent_that_cannot_be_carried_out_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    committer, job = Committer(str(tmp_path)), Job("job")
    committer.log.make()
    committer.log.declare(0, Intent(job, staged(committer, job, "p=1/part-0")))
    (tmp_path / "p=1").touch()
    assert main(["vacuum", str(tmp_path)]) == 1
    said = "commit 0 is declared: .* To give it up: (hflush vacuum --give-up 0 file:.*)\n"
    found = re.search(said, capsys.readouterr().err)
    assert found is not None
    assert main(found[1].split()[1:]) == 0
    assert capsys.readouterr().out.startswith("commit 0 given up: ")
    assert committer.visible() == ("p=1",)
    assert committer.log.look() == Seen(None, None)


# --- a commit that is given up ---


def lost(url: Path, mode: Mode = Mode.APPEND) -> Committer:
    """Leave commit 1: of its files one is visible, one is staged, and one is lost."""
    committed(url, "p=1/old")
    committer, job = Committer(str(url)), Job("dead", mode)
    files = staged(committer, job, "p=1/new", "p=2/staged", "p=2/q=1/lost", content=b"new")
    removes = ("p=1/old",) if mode is Mode.OVERWRITE else ()
    committer.staging.make_directories(files)
    committer.log.declare(1, Intent(job, files, removes))
    committer.staging.publish(job, files[0])
    (url / "_hflush" / "staging" / "dead" / files[2].handle).unlink()
    return committer


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.OVERWRITE])
def test_a_commit_that_has_lost_files_is_given_up(tmp_path: Path, mode: Mode) -> None:
    """What it has published goes, as a run that repeats it would add these rows again."""
    committer = lost(tmp_path, mode)
    with pytest.raises(FileNotFoundError, match=r"1 of its files .* vacuum --give-up 1 file:"):
        vacuum(str(tmp_path))
    assert committer.visible() == ("p=1/new", "p=1/old", "p=2/staged")
    done = vacuum(str(tmp_path), give_up=1)
    assert (done.rolled_forward, done.given_up) == (None, 1)
    assert committer.visible() == ("p=1/old",)
    assert not (tmp_path / "_hflush" / "staging" / "dead").exists()
    again = Job("again")
    committer.commit(again, staged(committer, again, "p=2/again"))
    assert committer.visible() == ("p=1/old", "p=2/again")


def test_files_of_others_stay_where_a_commit_is_given_up(tmp_path: Path) -> None:
    """Also one that has the name of one of its files."""
    committer = lost(tmp_path)
    (tmp_path / "p=2" / "staged").write_bytes(b"of another program")
    (tmp_path / "p=2" / "other").write_bytes(b"new")
    vacuum(str(tmp_path), give_up=1)
    assert committer.visible() == ("p=1/old", "p=2/other", "p=2/staged")


def test_giving_up_goes_on_where_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The intent is there until all of its files have gone."""
    committer = lost(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "withdraw", refuse_to_write)
        with pytest.raises(PermissionError):
            vacuum(str(tmp_path), give_up=1)
    assert vacuum(str(tmp_path), give_up=1).given_up == 1
    assert committer.visible() == ("p=1/old",)


def refuse_to_write(*_: object) -> None:
    raise PermissionError(errno.EACCES, "not yours", "path")


def test_a_commit_that_can_be_completed_is_not_given_up(tmp_path: Path) -> None:
    committer = half_published(tmp_path)
    for number in (-1, 1):
        with pytest.raises(ValueError, match=rf"commit {number} does not wait .* commit 0 does"):
            vacuum(str(tmp_path), give_up=number)
    done = vacuum(str(tmp_path), give_up=0)
    assert (done.rolled_forward, done.given_up) == (0, None)
    assert is_whole(committer)
    with pytest.raises(ValueError, match=r"commit 0 does not wait .* none does"):
        vacuum(str(tmp_path), give_up=0)


def test_a_commit_is_not_given_up_for_a_failure_that_may_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def time_out(*_: object) -> None:
        raise TimeoutError(errno.ETIMEDOUT, "no answer", "path")

    committer = half_published(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(RenamedStaging, "publish", time_out)
        with pytest.raises(TimeoutError):
            vacuum(str(tmp_path), give_up=0)
    assert vacuum(str(tmp_path)).rolled_forward == 0
    assert is_whole(committer)


def test_a_commit_whose_files_are_all_there_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have begun to remove what it replaces."""
    committer = half_published(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "finish", refuse_to_write)
        with pytest.raises(ValueError, match=r"cannot be given up, as all of its files are there"):
            vacuum(str(tmp_path), give_up=0)
    assert vacuum(str(tmp_path)).rolled_forward == 0
    assert is_whole(committer)


def test_a_commit_that_has_removed_files_is_not_given_up(tmp_path: Path) -> None:
    """Neither the old result nor the new one would be there."""
    committer = lost(tmp_path, Mode.OVERWRITE)
    (tmp_path / "p=1" / "old").unlink()
    with pytest.raises(ValueError, match=r"a file that it replaces is gone: .*/p=1/old"):
        vacuum(str(tmp_path), give_up=1)
    assert committer.visible() == ("p=1/new", "p=2/staged")


# --- what is replaced, and where ---


def overwritten(url: Path, *places: str) -> None:
    committer, job = Committer(str(url)), Job("new", Mode.OVERWRITE)
    committer.commit(job, staged(committer, job, *places))
    assert committer.log.look().unfinished is None


@pytest.mark.parametrize("volume", ["", "/dev/shm"])
def test_a_partition_may_be_behind_a_link(tmp_path: Path, volume: str) -> None:
    """Also on another volume: its new rows are there, and found; the link stays."""
    if volume and not os.path.ismount(volume):
        pytest.skip("needs a second volume")
    with TemporaryDirectory(dir=volume or tmp_path) as disk:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "p=1").symlink_to(disk)
        committed(tmp_path / "out", "p=1/q=1/old")
        overwritten(tmp_path / "out", "p=1/q=2/new")
        assert Committer(str(tmp_path / "out")).visible() == ("p=1/q=2/new",)
        assert (tmp_path / "out" / "p=1" / "q=2" / "new").read_bytes() == b"x"
        assert os.listdir(disk) == ["q=2"]


def test_a_partition_behind_a_link_that_cannot_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An overwrite is refused: its link was taken for a file, and removed."""
    (tmp_path / "p=1").symlink_to("nowhere")
    stat = os.stat

    def disconnected(path: Any, **options: Any) -> os.stat_result:
        if path == f"{tmp_path}/p=1":
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN), path)
        return stat(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", disconnected)
        with pytest.raises(OSError, match="not connected"):
            overwritten(tmp_path, "p=2/new")
    assert (tmp_path / "p=1").is_symlink()


def test_a_slow_copy_brings_back_nothing_that_was_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To another volume: the overwrite has ended the commit that copies, and removed its file."""
    if not os.path.ismount("/dev/shm"):
        pytest.skip("needs a second volume")
    copy = shutil.copyfileobj

    def overtaken(*streams: Any) -> None:
        monkeypatch.setattr(shutil, "copyfileobj", copy)
        overwritten(tmp_path, "p=1/new")
        copy(*streams)

    monkeypatch.setattr(shutil, "copyfileobj", overtaken)
    with TemporaryDirectory(dir="/dev/shm") as disk:
        (tmp_path / "p=1").symlink_to(disk)
        committed(tmp_path, "p=1/old")
        assert Committer(str(tmp_path)).visible() == ("p=1/new",)


def test_a_directory_that_cannot_be_removed_stops_no_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount, for example: once its files are gone no reader looks into it."""
    delete = LocalFileSystem._delete

    def refuse(self: LocalFileSystem, path: str, recursive: bool) -> bool:
        if path.endswith("p=1"):
            raise OSError(errno.EBUSY, "in use", path)
        return delete(self, path, recursive)

    committed(tmp_path, "p=1/old")
    monkeypatch.setattr(LocalFileSystem, "_delete", refuse)
    overwritten(tmp_path, "p=2/new")
    assert Committer(str(tmp_path)).visible() == ("p=2/new",)


@pytest.mark.parametrize("place", ["p=1/new", "p=2/new"])
def test_a_directory_of_another_user_stops_its_own_job_only(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether files go into it or are to be removed from it: nothing is declared."""
    committed(tmp_path, "p=1/old")
    mkdirs = LocalFileSystem._mkdirs

    def refuse(self: LocalFileSystem, path: str, *rest: Any) -> None:
        if path.startswith(f"{tmp_path}/p=1/"):
            raise PermissionError(errno.EACCES, "not yours", path)
        mkdirs(self, path, *rest)

    monkeypatch.setattr(LocalFileSystem, "_mkdirs", refuse)
    monkeypatch.setattr(LocalFileSystem, "_acts_as", lambda _: "another")
    with pytest.raises(PermissionError, match="can be made or removed here: not yours") as refused:
        overwritten(tmp_path, place)
    assert refused.value.filename == f"file://{tmp_path}/p=1"
    assert Committer(str(tmp_path)).visible() == ("p=1/old",)
    monkeypatch.undo()
    overwritten(tmp_path, "p=3/next")


def test_an_overwrite_of_what_only_others_can_remove_is_not_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a sticky directory: it would stay half done, and stop all later writes."""
    committed(tmp_path, "old")
    tmp_path.chmod(0o1777)

    def refuse(self: LocalFileSystem, path: str, permission: int) -> None:
        raise PermissionError(errno.EPERM, "not yours", path)

    monkeypatch.setattr(LocalFileSystem, "_set_permission", refuse)
    monkeypatch.setattr(LocalFileSystem, "_acts_as", lambda _: "another")
    with pytest.raises(PermissionError, match=r"only its owner .* sticky: not yours") as refused:
        overwritten(tmp_path, "new")
    assert refused.value.filename == f"file://{tmp_path}/old"
    assert Committer(str(tmp_path)).visible() == ("old",)
    assert Committer(str(tmp_path)).log.look().unfinished is None


def test_an_overwrite_by_one_who_may_not_delete_is_not_declared() -> None:
    """On S3 that is a right of its own: appends need none."""
    with ScriptedS3() as server:
        committed("s3://bucket/out", "old", conf=server.conf)
        server.fail("DeleteObject", answer(403, "AccessDenied"), times=None)
        committer, job = Committer("s3://bucket/out", server.conf), Job("new", Mode.OVERWRITE)
        files = staged(committer, job, "new")
        with pytest.raises(PermissionError, match=r"removed here: .*AccessDenied"):
            committer.commit(job, files)
        job = Job("more")
        committer.commit(job, staged(committer, job, "more"))
        assert committer.visible() == ("more", "old")


def test_an_overwrite_removes_the_summaries_of_old_files(tmp_path: Path) -> None:
    """From which Spark would take the columns. What is being copied is no file yet."""
    committed(tmp_path, "part-1")
    for name in ("_metadata", "_common_metadata", "part-2._COPYING_", "_other"):
        (tmp_path / name).touch()
    assert hflush.spark.files(str(tmp_path)) == [f"file://{tmp_path}/part-1"]
    overwritten(tmp_path, "part-3")
    left = {"part-3", "part-2._COPYING_", "_other", "_SUCCESS", "_hflush"}
    assert set(os.listdir(tmp_path)) == left


# --- what is visible, and how it is listed ---


SEEN = ["day=1/_metadata", "day=1/hour=2/part-1", "day=2/part-2", "part-3"]
HIDDEN = ["_hflush/x=1/part-4", "day=1/.part-5", "day=1/_temporary/x=1/part-6", "a._COPYING_"]


@pytest.mark.parametrize("top", ["/out", "/"])
def test_a_store_that_lists_trees_is_asked_once(tmp_path: Path, top: str) -> None:
    """It shows what a walk shows elsewhere; a page costs a request, and no directory does."""
    lay(tmp_path, SEEN + HIDDEN)
    parts = ("day=1", "day=3")
    with ScriptedS3() as server:
        for place in SEEN + HIDDEN:
            server.put(f"{top}/{place}".lstrip("/"), b"x")
        s3 = Committer(f"s3://bucket{top}", server.conf)
        server.log.clear()
        assert s3.visible() == Committer(str(tmp_path)).visible() == tuple(SEEN)
        assert [request.operation for request in server.log] == ["ListObjectsV2"]
        assert s3.visible(parts) == Committer(str(tmp_path)).visible(parts) == tuple(SEEN[:2])


@pytest.mark.parametrize("use", ["files", "overwrite"])
def test_who_is_overtaken_again_and_again_is_told(
    tmp_path: Path, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By commits whose files do not tell their jobs; the overwrite has done nothing."""
    visible = Committer.visible
    numbers = itertools.count()

    def overtaken(committer: Committer, *directories: Any) -> tuple[str, ...]:
        found, number = visible(committer, *directories), next(numbers)
        job = Job(f"job{number}")
        committer.commit(job, staged(committer, job, f"part-{number}"))
        return found

    committed(tmp_path, "old")
    with monkeypatch.context() as patch:
        patch.setattr(Committer, "visible", overtaken)
        with pytest.raises(OSError, match=r"each of 20 listings .*are at commit 21:") as busy:
            overwritten(tmp_path, "new") if use == "overwrite" else hflush.spark.files(
                str(tmp_path)
            )
    assert busy.value.errno == errno.EBUSY
    assert set(Committer(str(tmp_path)).visible()) == {"old", *(f"part-{n}" for n in range(20))}


# --- what other partition columns would hide ---


TABLE = StructType([StructField(name, LongType()) for name in ("day", "hour", "x=y", "n")])


def begins(url: Path, columns: str, *, overwrite: bool = False, **options: str) -> BatchWriter:
    """A job of the table with the option partitionBy, if that is not empty."""
    given = {"path": str(url), **({"partitionBy": columns} if columns else {}), **options}
    return BatchWriter(WriteSettings.of(given, overwrite), TABLE)


def writes(url: Path, columns: str, *places: str, **options: Any) -> None:
    job = begins(url, columns, **options)
    job.commit([FilesWritten(staged(Committer(str(url)), job._job, *places))])


FITTING = [
    (["day=1/hour=2/f"], "day,hour"),
    (["DAY=1/f"], "day"),
    (["x%3Dy=1/f"], '["x=y"]'),
    (["f"], ""),
    (["f", "day=1/f"], "day"),  # readers leave the first one out, whatever comes
    (["a/f", "_f", ".day=1/f", "day=1/_f"], ""),  # nothing that says anything
    (["a/f"], "day"),
]
HIDING = [
    (["day=1/f"], "", r"\['day'\], and this write has \[\]: .* set partitionBy to day; or"),
    (["f"], "day", r"\[\], and this write has \['day'\]: .* leave partitionBy out; or"),
    (["day=1/hour=2/f"], "hour,day", r"\['day', 'hour'\], and this write has \['hour', 'day'\]"),
    (["day=1/hour=2/f"], "day", r"\['day', 'hour'\], and this write has \['day'\]"),
    (["f", "a/f", "day=0/_f", "day=1/f"], "", r"\['day'\], and this write has \[\]"),
]


def lay(url: Path, places: list[str]) -> None:
    """Make files as another program has written them."""
    for place in places:
        (url / place).parent.mkdir(parents=True, exist_ok=True)
        (url / place).touch()


@pytest.mark.parametrize(("places", "columns"), FITTING)
def test_what_fits_to_the_files_that_are_there_is_added(
    tmp_path: Path, places: list[str], columns: str
) -> None:
    lay(tmp_path, places)
    begins(tmp_path, columns)


@pytest.mark.parametrize(("places", "columns", "message"), HIDING)
def test_what_readers_would_not_see_is_not_added(
    tmp_path: Path, places: list[str], columns: str, message: str
) -> None:
    """Nor what would hide files of another program, or of a version that wrote no columns down."""
    lay(tmp_path, places)
    with pytest.raises(ValueError, match=message):
        begins(tmp_path, columns)
    if columns:  # only partitions can be replaced one by one
        with pytest.raises(ValueError, match=message):
            begins(tmp_path, columns, overwrite=True, partitionoverwritemode="dynamic")
    assert not (tmp_path / "_hflush").exists()


def test_what_a_commit_has_written_down_counts(tmp_path: Path) -> None:
    """Also where its driver was killed. Who replaces all files may take other columns."""
    writes(tmp_path, "day,hour")  # without a file: nothing is known
    writes(tmp_path, "day", "day=1/f")
    writes(tmp_path, "DAY", "day=1/g")
    committer, job = Committer(str(tmp_path)), Job("dead", Mode.OVERWRITE, partition_by=("hour",))
    files = staged(committer, job, "hour=1/h")
    with pytest.raises(ValueError, match="this write has \\['hour'\\]"):
        begins(tmp_path, "hour")
    assert committer.log.declare(committer.log.look().next_number, Intent(job, files, ("day=1/f",)))
    begins(tmp_path, "hour")
    with pytest.raises(ValueError, match=r"\['hour'\], and this write has \['day'\]"):
        begins(tmp_path, "day")
    writes(tmp_path, "", "f", overwrite=True, commitid="X")
    assert committer.visible() == ("f",)
    begins(tmp_path, "")
    begins(tmp_path, "day", commitid="X")  # it is committed: nothing is added


def test_directories_are_named_as_those_that_are_there(tmp_path: Path) -> None:
    """Spark reads any case, but who takes the names of directories for different ones does not."""
    lay(tmp_path, ["Day=1/f"])
    for columns in ("day", "DAY"):
        job = begins(tmp_path, columns)
        assert job._job.partition_by == ("Day",)
        attempt = partial(Committer(str(tmp_path)).attempt, job._job)
        columns_of_files = job._settings.format.schema(TABLE, ("day",))
        task = TaskWriter(columns, attempt, job._settings, columns_of_files, 0, 0)
        task.write(pa.record_batch({name: pa.array([2]) for name in TABLE.names}))
        (file,) = task.finish()
        assert file.directory == "Day=2"
        job.commit([FilesWritten((file,))])


def test_a_partition_is_replaced_in_each_case_of_its_columns(tmp_path: Path) -> None:
    """Readers would find the old rows beside the new ones. Values and other names have one case."""
    old = ["day=1/hour=a/f", "Day=1/hour=a/g", "day=1/HOUR=a/h", "DAY=1/Hour=a/i"]
    others = ["DAY=2/hour=a/f", "Day=1/hour=b/f", "day=1/hour=A/f"]
    lay(tmp_path, old + others)
    place = "day=1/hour=a/new"
    writes(tmp_path, "day,hour", place, overwrite=True, partitionoverwritemode="dynamic")
    assert Committer(str(tmp_path)).visible() == tuple(sorted([*others, place]))


def test_of_two_first_writes_with_other_columns_one_is_refused(tmp_path: Path) -> None:
    """In its commit, as each began when nothing was there; it leaves nothing."""
    late = begins(tmp_path, "day")
    files = [FilesWritten(staged(Committer(str(tmp_path)), late._job, "day=1/f"))]
    writes(tmp_path, "", "f")
    with pytest.raises(ValueError, match=r"\[\], and this write has \['day'\]"):
        late.commit(files)
    assert Committer(str(tmp_path)).visible() == ("f",)
    assert list((tmp_path / "_hflush" / "staging").iterdir()) == []


def test_a_large_table_is_not_listed_for_its_columns() -> None:
    """A page of the destination, and of each directory down to a file; none after a commit."""
    with ScriptedS3() as server:
        for number in range(30):
            server.put(f"out/day={number % 3}/hour=1/{number}", b"x")
        conf = {**server.conf, "fs.s3a.paging.maximum": "4"}
        committer = Committer("s3://bucket/out", conf)
        job = Job("a", partition_by=("day", "hour"))
        server.log.clear()
        committer.check_columns(job, Seen(None, None))
        assert [request.operation for request in server.log] == ["ListObjectsV2"] * 3
        last = Record.of(0, Intent(job, staged(committer, job, "day=1/hour=1/f")), None)
        server.log.clear()
        committer.check_columns(job, Seen(last, None))
        assert server.log == []


@pytest.mark.parametrize("refusal", [None, (403, "AccessDenied"), (501, "NotImplemented")])
def test_old_uploads_are_looked_for_before_anything_is_declared(
    monkeypatch: pytest.MonkeyPatch, refusal: tuple[int, str] | None
) -> None:
    """A rule of the bucket may have ended them, of which completing one tells when it is too late.

    It may not be possible to look for one; a job of today does not.
    """
    with ScriptedS3() as server:
        committer, job = Committer("s3://bucket/out", server.conf), Job("slow")
        files = staged(committer, job, "part-1", "part-2")
        server.uploads.popitem()
        server.log.clear()
        assert committer.staging.missing(job, files) == ()
        assert server.log == []
        monkeypatch.setattr("hflush.spark.commit.staging._SURE_S", -1.0)
        if refusal is not None:
            server.fail("ListParts", answer(*refusal), times=None)
            assert committer.staging.missing(job, files) == ()
            return
        with pytest.raises(LostFilesError, match="1 of the staged files are gone; nothing was"):
            committer.commit(job, files)
        assert committer.log.look() == Seen(None, None)


def test_a_job_whose_staging_has_no_time_is_at_work() -> None:
    """Directories on S3 have none, behind a view, and files that are open are not seen."""
    with ScriptedS3() as server:
        conf = {**server.conf, "fs.viewfs.mounttable.t.link./d": "s3://bucket/"}
        committer, job = Committer("viewfs://t/d/out", conf), Job("at work")
        committer.prepare(job)
        committer.attempt(job, "attempt")
        committed(committer.url, "part-1", conf=conf)
        assert (vacuum(committer.url, conf).swept, committer.sweep(0)) == (0, 1)


# --- a job that Spark aborts: in another process than that of its commit ---


def s3_job(server: ScriptedS3) -> tuple[Committer, BatchWriter, FilesWritten]:
    settings = WriteSettings.of({"path": "s3://bucket/out", **server.conf}, False)
    writer, committer = BatchWriter(settings, SCHEMA), Committer("s3://bucket/out", server.conf)
    return committer, writer, FilesWritten(staged(committer, writer._job, "part-1"))


def test_an_intent_that_lands_after_the_abort_can_be_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store of objects may do later what it has not answered to."""
    late: list[tuple[int, Intent]] = []

    def stall(_: CommitLog, number: int, intent: Intent) -> bool:
        late.append((number, intent))
        raise TimeoutError(errno.ETIMEDOUT, "outcome unknown")

    with ScriptedS3() as server:
        committer, writer, written = s3_job(server)
        with monkeypatch.context() as patch:
            patch.setattr(CommitLog, "declare", stall)
            with pytest.raises(TimeoutError):
                writer.commit([written])
        pickle.loads(pickle.dumps(writer)).abort([written])
        assert committer.log.declare(*late[0])
        assert vacuum(committer.url, server.conf).rolled_forward == 0
        assert committer.visible() == ("part-1",)


@pytest.mark.parametrize("how", ["a task fails", "nothing is declared"])
def test_a_job_that_cannot_be_declared_leaves_no_uploads(how: str) -> None:
    """The commit itself drops them where it knows that, and the abort where there was none."""
    with ScriptedS3() as server:
        _, writer, written = s3_job(server)
        assert len(server.uploads) == 1
        if how == "a task fails":
            writer.abort([written, None])
        else:
            server.put("out/_hflush/query", b"")
            with pytest.raises(ValueError, match="a streaming query has begun"):
                writer.commit([written])
        assert server.uploads == {}


# --- a batch job and a streaming query ---


@pytest.mark.parametrize("is_on_s3", [False, True])
def test_a_vacuum_removes_the_trace_of_a_job_that_has_declared_nothing(
    tmp_path: Path, is_on_s3: bool
) -> None:
    """Killed behind its first step, it would keep queries away; one at work does. S3 has no age."""
    with ScriptedS3() as server:
        url = "s3://bucket/out" if is_on_s3 else f"file://{tmp_path}"
        committer = Committer(url, server.conf)
        manager = committer.log._manager
        committer.log.make()
        vacuum(url, server.conf)
        assert trace_of_jobs(manager, url) == "_hflush/commits"
        if not is_on_s3:
            os.utime(tmp_path / "_hflush" / "commits", (0, time.time() - 8 * 24 * 3600))
        vacuum(url, server.conf, **({"older_than": 0.0} if is_on_s3 else {}))
        assert trace_of_jobs(manager, url) == ""
        committed(url, "part-1", conf=server.conf)
        vacuum(url, server.conf, older_than=0)
        assert trace_of_jobs(manager, url) == "_SUCCESS"
        assert committer.log.look().last is not None


def begin_query(url: Path, *, has_log: bool) -> None:
    """Do what the first batch of a query does before its log entry, and that."""
    log = FileStreamSinkLog(f"file://{url}/_spark_metadata")
    Owner(f"file://{url}", {}).claim("q", 0, log.get_latest_batch_id())
    if has_log:
        log.add(0, [])


@pytest.mark.parametrize("has_log", [False, True])
def test_a_query_that_begins_during_a_job_stops_its_commit(tmp_path: Path, has_log: bool) -> None:
    """Also before its first batch is in its log: readers would not see the job's rows."""
    writer = batch_writer(tmp_path)
    committer = Committer(str(tmp_path))
    written = FilesWritten(staged(committer, writer._job, "part-1"))
    begin_query(tmp_path, has_log=has_log)
    with pytest.raises(ValueError, match=r"a streaming query .*Write to another path"):
        writer.commit([written])
    writer.abort([written])
    assert committer.visible() == ()
    with pytest.raises(ValueError, match=r"a streaming query .*Write to another path"):
        batch_writer(tmp_path)
    assert hflush.spark.files(str(tmp_path)) == []


def test_a_job_that_commits_before_a_querys_first_batch_stops_the_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claim, made before it was killed, does not let it go on; a log with entries does."""
    begin_query(tmp_path, has_log=False)
    monkeypatch.setattr(Committer, "check", lambda _: None)  # as a job that began before the query
    committed(tmp_path, "part-1")
    owner = Owner(f"file://{tmp_path}", {})
    with pytest.raises(FileExistsError, match="a batch job has written files here"):
        owner.claim("q", 0, None)
    owner.claim("q", 1, 0)
    assert hflush.spark.files(str(tmp_path)) == [f"file://{tmp_path}/part-1"]


def test_of_a_job_and_a_query_that_begin_at_one_time_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has looked for the other before it showed itself; the refused one leaves no trace."""
    url = f"file://{tmp_path}"
    query, job = Owner(url, {}), Committer(url)
    job.check()
    query.begin()
    begin, write = Committer._begin, Owner._write

    def begin_late(committer: Committer) -> None:
        query.claim("q", 0, None)
        begin(committer)

    def write_late(owner: Owner, name: str) -> str | None:
        committed(tmp_path, "part-2")
        return write(owner, name)

    monkeypatch.setattr(Committer, "_begin", begin_late)
    with pytest.raises(ValueError, match="a streaming query writes there"):
        committed(tmp_path, "part-1")
    assert not (tmp_path / "_hflush" / "commits").exists()
    (tmp_path / "_hflush" / "query").unlink()
    (tmp_path / "_spark_metadata").rmdir()  # as if the job had looked before that was made

    monkeypatch.setattr(Committer, "_begin", begin)
    monkeypatch.setattr(Owner, "_write", write_late)
    with pytest.raises(FileExistsError, match="a batch job has written files here"):
        query.claim("q", 0, None)
    assert not (tmp_path / "_hflush" / "query").exists()


def test_who_comes_second_is_told(tmp_path: Path) -> None:
    """Also where checkpoints that are there are kept: this is no earlier run of the same."""
    conf = {"hflush.checkpoint.keep-existing": "true"}
    log = CommitLog(f"{tmp_path}/_hflush/commits", conf)
    log.make()
    assert [log.declare(0, Intent(Job(name), ())) for name in "ab"] == [True, False]
    claims = [Owner(f"file://{tmp_path}", conf)._write(query) for query in "ab"]
    assert [claim and claim.query for claim in claims] == ["a", "a"]


def test_what_has_no_log_are_rows(tmp_path: Path) -> None:
    """Of a query: moved into a table, or its log was removed to make one of its files."""
    (tmp_path / "day=1").mkdir()
    row = tmp_path / "day=1" / f"part-00000-{'0' * 32}-b3-7-0123456789ab-c000.parquet"
    row.touch()
    committed(tmp_path, "part-1")
    vacuum(str(tmp_path), older_than=0)
    assert row.exists()


def test_what_a_query_after_sparks_sink_has_written_stays(tmp_path: Path) -> None:
    """It shows itself with its first commit."""
    assert FileStreamSinkLog(f"file://{tmp_path}/_spark_metadata").add(0, [])
    row = tmp_path / f"part-00000-{'0' * 32}-b1-7-0123456789ab-c000.parquet"
    row.touch()
    vacuum(str(tmp_path), older_than=0)
    assert row.exists()


def test_a_query_that_begins_beside_a_job_leaves_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job has looked for one before, and committed: its rows would be hidden."""
    mkdirs = CheckpointFileManager.mkdirs

    def make_late(manager: CheckpointFileManager, path: str) -> None:
        if path.endswith("_spark_metadata"):
            (tmp_path / "_hflush" / "commits").mkdir(parents=True)
            (tmp_path / "_hflush" / "commits" / "0.record").touch()
        mkdirs(manager, path)

    monkeypatch.setattr(CheckpointFileManager, "mkdirs", make_late)
    with pytest.raises(FileExistsError, match="a batch job has written files here"):
        Owner(f"file://{tmp_path}", {}).begin()
    assert not (tmp_path / "_spark_metadata").exists()


def test_a_commit_whose_cleaning_fails_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where the older record is another user's, in a sticky directory; a retry would double."""
    committed(tmp_path, "part-1")

    def refuse(*_: object) -> None:
        raise PermissionError(1, "not yours")

    monkeypatch.setattr(CommitLog, "clean", refuse)
    committer, job = Committer(str(tmp_path)), Job("b")
    end = committer.commit(job, staged(committer, job, "part-2"))
    assert end.outcome is Outcome.COMMITTED
    assert "commit 1 is done, but: [Errno 1] not yours" in caplog.text


@pytest.mark.parametrize(
    ("job", "end"),
    [
        (Job("b", identity=Identity("night", 0)), Outcome.REPLAYED),
        (Job("b", Mode.IGNORE), Outcome.IGNORED),
        (Job("b", Mode.CREATE), Outcome.REFUSED),
        (Job("b", partition_by=("day",)), r"\[\], and this write has \['day'\]"),
    ],
)
def test_a_job_whose_files_cannot_be_dropped_ends_as_it_would(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    job: Job,
    end: Outcome | str,
) -> None:
    """As where a role may write, and not end uploads: it has nothing more to do, or is refused."""
    first = Job("a", identity=Identity("night", 0), partition_by=())
    committer = Committer(str(tmp_path))
    committer.commit(first, staged(committer, first, "part-1"))
    files = staged(committer, job, "part-2")
    monkeypatch.setattr(RenamedStaging, "discard", refuse_to_write)
    if isinstance(end, Outcome):
        assert committer.commit(job, files).outcome is end
    else:
        with pytest.raises(ValueError, match=end):
            committer.commit(job, files)
    assert "what job b has staged stays: [Errno 13] not yours" in caplog.text


def test_a_commit_that_has_its_record_asks_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store may fail by then: a job that is told so runs again, and doubles its rows."""
    look = CommitLog.look

    def fail_in_the_end(log: CommitLog) -> Seen:
        if (tmp_path / "_hflush" / "commits" / "0.record").exists():
            raise OSError(errno.EIO, "the store fails")
        return look(log)

    monkeypatch.setattr(CommitLog, "look", fail_in_the_end)
    committer, job = Committer(str(tmp_path)), Job("a")
    end = committer.commit(job, staged(committer, job, "part-1"))
    assert (end.outcome, end.number) == (Outcome.COMMITTED, 0)


def test_what_was_written_since_an_overwrite_was_declared_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is carried out later, by another process; a name alone does not tell what it has seen."""
    for name in ("part.0", "part.1"):
        (tmp_path / name).write_text("old")
        os.utime(tmp_path / name, (2**32, 2**32))  # a copy that has kept a time, or a wrong clock
    committer, job = Committer(str(tmp_path)), Job("a", Mode.OVERWRITE)
    files = staged(committer, job, "part-1")

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(Committer, "_publish", dies)
        with pytest.raises(KeyboardInterrupt):
            committer.commit(job, files)
    (tmp_path / "part.1").write_text("newer")
    vacuum(str(tmp_path))
    assert committer.visible() == ("part-1", "part.1")


# --- what is on disk ---


def test_every_directory_that_a_commit_makes_is_on_disk_before_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entry is synced: a file in a directory that is gone after a power failure is gone."""
    synced: set[str] = set()

    def sync(_: LocalFileSystem, path: str) -> None:
        if not path.endswith(".record"):
            synced.add(paths.parent(path))
        elif path.endswith("0.record"):
            at_the_record.update(synced)

    at_the_record: set[str] = set()
    monkeypatch.setattr(LocalFileSystem, "_sync_entry", sync)
    committed(tmp_path / "new" / "out", "day=1/hour=2/part-0", "day=1/hour=3/part-1")
    below = ("", "new", "new/out", "new/out/_hflush", "new/out/_hflush/commits")
    days = ("new/out/day=1", "new/out/day=1/hour=2", "new/out/day=1/hour=3")
    assert at_the_record >= {str(tmp_path / name) for name in (*below, *days)}


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("s3a://bucket/out", "s3a://bucket/out"),
        ("/out", "s3a://bucket/out"),
        ("hdfs:///out", "hdfs://nn:8020/out"),
        ("file:/out", "file:///out"),
    ],
)
def test_where_a_write_goes_is_said_as_spark_can_read_it(url: str, whole: str) -> None:
    """Spark without further jars knows s3a only; ``hdfs:///`` is another cluster elsewhere."""
    default = "hdfs://nn:8020" if url.startswith("hdfs") else "s3a://bucket"
    assert absolute(url, {"fs.defaultFS": default}) == whole


def test_files_have_the_scheme_that_was_given() -> None:
    """Spark without further jars knows s3a only."""
    with ScriptedS3() as server:
        hflush.create("s3a://bucket/out/k=1/part-0", conf=server.conf).close()
        for url in ("s3a://bucket/out", "s3a://bucket/out/"):
            assert hflush.spark.files(url, server.conf) == ["s3a://bucket/out/k=1/part-0"]


@pytest.mark.parametrize("group", ["its own", "of others"])
def test_users_that_may_write_to_a_path_may_do_so_after_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    """The directories that stay have its permission, whatever the umask of the first one is."""
    tmp_path.chmod(0o1773)
    if group == "of others":
        status = hflush.FileSystem.get_file_status

        def of_others(fs: hflush.FileSystem, path: str) -> hflush.FileStatus:
            found = status(fs, path)
            if path == str(tmp_path):
                found.group = "others"
            return found

        monkeypatch.setattr(hflush.FileSystem, "get_file_status", of_others)
    committed(tmp_path, "part-1")
    for made in ("_hflush", "_hflush/staging", "_hflush/commits"):
        mode = (tmp_path / made).stat().st_mode & 0o7777
        assert mode == (0o773 if group == "its own" else 0o733)


@pytest.mark.parametrize(("default", "mode"), [(None, 0o711), (5, 0o751)])
def test_what_only_named_users_may_is_not_given_to_a_group(
    tmp_path: Path, default: int | None, mode: int
) -> None:
    """With an ACL the bits of the group are those of its mask: here the group may only read."""

    def set_acl(kind: str, mask: int) -> None:
        # The owner, a user, the group, the mask, others.
        entries = ((0x01, 7, -1), (0x02, 7, 1), (0x04, 5, -1), (0x10, mask, -1), (0x20, 1, -1))
        packed = b"".join(struct.pack("<HHi", *entry) for entry in entries)
        os.setxattr(tmp_path, f"system.posix_acl_{kind}", struct.pack("<I", 2) + packed)

    try:
        set_acl("access", 7)
        if default is not None:
            set_acl("default", default)
    except OSError as refusal:
        pytest.skip(f"no ACLs here: {refusal}")
    committed(tmp_path, "part-1")
    for made in ("_hflush", "_hflush/staging", "_hflush/commits"):
        assert (tmp_path / made).stat().st_mode & 0o7777 == mode
