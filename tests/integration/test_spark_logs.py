"""Spark's own classes read the logs that we write, write what we read, and race for batches.

Every format is compared to the byte; a query of Spark's goes on after batches that were ours.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import hflush
import pytest
from hflush.checkpoint import (
    Checkpoint,
    CheckpointFileManager,
    CommitLog,
    CommitMetadata,
    FileContextBased,
    FileEntry,
    FileStreamSinkLog,
    FileStreamSourceLog,
    FileSystemBased,
    OffsetMap,
    OffsetSeq,
    OffsetSeqLog,
    OffsetSeqMetadata,
    SinkFileStatus,
    SinkMetadataInfo,
    SourceMetadataInfo,
)
from hflush.checkpoint.compaction import interval_of
from integration.spark import Spark, won
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from support.actors import Barrier, Crew
from support.stores import Store
from support.waiting import PATIENCE

pytestmark = [pytest.mark.spark_kills, pytest.mark.spark]

SINK = "spark.sql.streaming.fileSink.log"
RETAINED = "spark.sql.streaming.minBatchesToRetain"
RACES = {"raw": (8, 1000), "hdfs": (3, 100)}  # Python processes, and batches
# What a Java URI quotes, and what not; a colon is in no path of Hadoop's.
NAMES = ["a b%", "ü?#[x]", '{y}^`|"<>\\', "nbsp\u00a0em\u2003é", "a+b,c;d=e&f@g!h~i'(j)*k$"]


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    crew = Crew()
    yield crew
    crew.close()


def content(directory: Path) -> dict[str, bytes]:
    """The batch files of a log."""
    return {file.name: file.read_bytes() for file in directory.iterdir() if file.name[0] != "."}


# --- the formats, both ways ---


@pytest.mark.rule("CKPT-15", "CKPT-19")
@pytest.mark.stores("raw")
def test_sink_logs_are_the_same_bytes(spark: Spark, tmp_path: Path) -> None:
    """Of paths that Java quotes, plain and compact; each reads the other's, and goes on with it."""
    ours_at, theirs_at = tmp_path / "ours", tmp_path / "theirs"
    ours, theirs = FileStreamSinkLog(ours_at), spark.sink(str(theirs_at))
    for number in range(23):
        name = f"file:///out/{NAMES[number % len(NAMES)]}/{number}"
        entry = SinkFileStatus(name, number, False, 1000, 1, 1 << 20)
        # Every third batch is added by the other to the directory: they take turns.
        if number % 3 == 2:
            assert spark.sink(str(ours_at)).add(number, {name: number})
            assert FileStreamSinkLog(theirs_at).add(number, [entry])
        else:
            assert ours.add(number, [entry])
            theirs = spark.sink(str(theirs_at))
            assert theirs.add(number, {name: number})
        assert not spark.sink(str(ours_at)).add(number, {})
        assert not FileStreamSinkLog(theirs_at).add(number, [])
    assert content(ours_at) == content(theirs_at)
    assert {"9.compact", "19.compact", "22"} < set(content(ours_at))
    found = [(entry.path.replace("///", "/"), entry.size) for entry in ours.all_files()]
    assert spark.sink(str(ours_at)).all_files() == found
    assert [size for _, size in found] == list(range(23))
    assert spark.sink(str(ours_at)).latest() == ours.get_latest_batch_id() == 22


@pytest.mark.rule("CKPT-15", "CKPT-19")
@pytest.mark.stores("raw")
def test_source_logs_are_the_same_bytes(spark: Spark, tmp_path: Path) -> None:
    """Plain and compact files; each reads the other's."""
    ours_at, theirs_at = tmp_path / "ours", tmp_path / "theirs"
    ours, theirs = FileStreamSourceLog(ours_at), spark.source(str(theirs_at))
    for number in range(12):
        assert ours.add(number, [FileEntry(f"file:///in/{number}%", 1000, number)])
        assert theirs.add(number, [f"file:///in/{number}%25"])
    assert content(ours_at) == content(theirs_at)
    expected = [(f"file:///in/{number}%25", number) for number in range(12)]
    assert spark.source(str(ours_at)).all_files() == expected
    assert len(FileStreamSourceLog(theirs_at).all_files()) == 12


@pytest.mark.rule("CKPT-15")
@pytest.mark.stores("raw")
def test_commits_are_the_same_bytes(spark: Spark, tmp_path: Path) -> None:
    """In the three versions of Spark's commits."""
    ours_at, theirs_at = tmp_path / "ours", tmp_path / "theirs"
    info = SinkMetadataInfo("s", "-", "parquet", "v1")
    ours, theirs = CommitLog(ours_at), spark.commits(str(theirs_at))
    pairs = [
        (CommitMetadata(5), spark.commit(5)),
        (CommitMetadata(6, 2), spark.commit(6, 2)),
        (
            CommitMetadata(7, 3, sink_metadata={"s": info}),
            spark.commit(7, 3, {"s": spark.sink_metadata("s")}),
        ),
    ]
    for number, (mine, other) in enumerate(pairs):
        assert ours.add(number, mine)
        assert theirs.add(number, other)
        assert CommitLog(theirs_at).get(number) == mine
        assert spark.commits(str(ours_at)).get(number).get().equals(other)
    assert content(ours_at) == content(theirs_at)
    state = CommitMetadata(8, 2, {0: [["a", "b"], ["c", "d"]]})
    assert ours.add(3, state)
    read = spark.commits(str(ours_at)).get(3).get()
    assert read.json() == (ours_at / "3").read_text().partition("\n")[2]
    with pytest.raises(IllegalArgumentException, match="requirement failed"):  # as ours refuses it
        spark.commit(0, 3)


@pytest.mark.rule("CKPT-15")
@pytest.mark.stores("raw")
def test_offsets_are_the_same_bytes(spark: Spark, tmp_path: Path) -> None:
    """Spark reads ours, writes what it has read, and that is the same: in both versions."""
    ours, theirs = OffsetSeqLog(tmp_path / "ours"), spark.offsets(str(tmp_path / "theirs"))
    described = OffsetSeqMetadata(
        1, 2, {"k": "v"}, {"0": SourceMetadataInfo("0", "rate", "v2")}, {"operationType": "drain"}
    )
    batches = [
        OffsetSeq(('{"i": 4}', None), OffsetSeqMetadata(1, 2, {"k": "ü"})),
        OffsetSeq(("5",)),
        OffsetMap({"0": "5", "s": None}, described),
    ]
    for number, batch in enumerate(batches):
        assert ours.add(number, batch)
        read = spark.offsets(str(tmp_path / "ours")).get(number).get()
        assert theirs.add(number, read)
        assert OffsetSeqLog(tmp_path / "theirs").get(number) == batch
    assert content(tmp_path / "ours") == content(tmp_path / "theirs")


@pytest.mark.rule("CKPT-19")
@pytest.mark.stores("raw")
def test_the_compact_interval_is_sparks(spark: Spark) -> None:
    """What follows from one compact file and a configured interval, in a thousand cases."""
    for configured in range(1, 26):
        for last in range(40):
            expected = spark.compact_interval(configured, last)
            assert interval_of([last], configured) == expected, (configured, last)


@pytest.mark.rule("CKPT-19")
@pytest.mark.stores("raw")
def test_intervals_and_removal_are_sparks(spark: Spark, tmp_path: Path) -> None:
    """Under changing intervals, few retained batches and no delay, both leave the same files."""
    ours_at, theirs_at = tmp_path / "ours", tmp_path / "theirs"
    number = 0
    for interval, retained, batches in ((3, 2, 8), (5, 1, 6), (4, 4, 12)):
        conf = {
            f"{SINK}.compactInterval": interval,
            f"{SINK}.cleanupDelay": "0",
            RETAINED: retained,
        }
        with spark.settings(conf):
            for _ in range(batches):
                name = f"file:///out/{number}"
                entry = SinkFileStatus(name, number, False, 1000, 1, 1 << 20)
                assert FileStreamSinkLog(ours_at, conf).add(number, [entry])
                assert spark.sink(str(theirs_at)).add(number, {name: number})
                assert content(ours_at) == content(theirs_at), (interval, number)
                number += 1
            assert [size for _, size in spark.sink(str(ours_at)).all_files()] == list(range(number))
    assert "0" not in content(ours_at)


@pytest.mark.rule("CKPT-19")
@pytest.mark.stores("raw")
def test_an_interval_that_spark_fails_on(spark: Spark, tmp_path: Path) -> None:
    """A smaller one with more plain files than it: ours goes on, and then Spark can."""
    directory = tmp_path / "_spark_metadata"
    for number in range(17):
        interval = 20 if number < 11 else 10  # which is passed by then
        log = FileStreamSinkLog(directory, {f"{SINK}.compactInterval": interval})
        assert log.add(number, [SinkFileStatus(f"file:///out/{number}", number)])
    smaller = {f"{SINK}.compactInterval": 2}
    with spark.settings(smaller):
        with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
            spark.sink(str(directory)).add(17, {"file:///out/17": 17})
        log = FileStreamSinkLog(directory, smaller)
        for number in range(17, 25):
            assert log.add(number, [SinkFileStatus(f"file:///out/{number}", number)])
        assert {"11.compact", "17.compact", "23.compact"} < set(content(directory))
        assert [size for _, size in spark.sink(str(directory)).all_files()] == list(range(25))


@pytest.mark.rule("CKPT-19")
@pytest.mark.stores("raw")
@pytest.mark.parametrize(
    "damage",
    [
        lambda log: (log / "3").unlink(),
        lambda log: (log / "3").write_bytes(b""),
        lambda log: (log / "3").write_bytes(b"v9"),
        lambda log: (log / "3").write_bytes(b"1"),
        lambda log: (log / "3").write_bytes((log / "3").read_bytes()[:-9]),
        lambda log: (log / "2.compact").unlink(),
    ],
    ids=["gap", "empty", "version", "no version", "cut off", "no compact file"],
)
def test_both_refuse_damage(spark: Spark, tmp_path: Path, damage: Callable[[Path], object]) -> None:
    """What Spark cannot read is an error of ours, too, and verify names it."""
    conf = {f"{SINK}.compactInterval": 3}
    log = FileStreamSinkLog(tmp_path / "_spark_metadata", conf)
    for number in range(5):
        log.add(number, [SinkFileStatus(f"file:///out/{number}", number)])
    damage(tmp_path / "_spark_metadata")
    for side in (tmp_path / "_spark_metadata").glob(".*.crc"):
        side.unlink()
    with spark.settings(conf), pytest.raises(Py4JJavaError):
        spark.sink(str(tmp_path / "_spark_metadata")).all_files()
    with pytest.raises((hflush.CorruptLogError, FileNotFoundError)):
        log.all_files()
    assert any(finding.harmful for finding in Checkpoint(tmp_path, conf).verify())


@pytest.mark.rule("CKPT-3", "CKPT-13")
@pytest.mark.stores("raw")
def test_managers_take_turns(spark: Spark, tmp_path: Path) -> None:
    """Files of one CheckpointFileManager are the other's: read, kept, replaced, listed, removed."""
    ours, theirs = CheckpointFileManager.create(tmp_path), spark.manager(str(tmp_path))
    with ours.create_atomic(tmp_path / "ours", False) as out:
        out.write(b"1")
    stream = theirs.createAtomic(spark.path(str(tmp_path / "theirs")), False)
    stream.write(bytearray(b"2"))
    stream.close()
    with ours.open(tmp_path / "theirs") as read:
        assert read.read() == b"2"
    assert bytes(theirs.open(spark.path(str(tmp_path / "ours"))).readAllBytes()) == b"1"
    with pytest.raises(FileExistsError):
        ours.create_atomic(tmp_path / "theirs", False).close()
    kept = theirs.createAtomic(spark.path(str(tmp_path / "ours")), False)
    with pytest.raises(Py4JJavaError, match="FileAlreadyExists"):
        kept.close()
    with ours.create_atomic(tmp_path / "theirs", True) as out:
        out.write(b"3")  # Java's sums of the old content go with it
    assert bytes(theirs.open(spark.path(str(tmp_path / "theirs"))).readAllBytes()) == b"3"
    names = {status.getPath().getName() for status in theirs.list(spark.path(str(tmp_path)))}
    assert names == {status.name for status in ours.list(tmp_path)} > {"ours", "theirs"}
    theirs.delete(spark.path(str(tmp_path / "ours")))
    ours.delete(tmp_path / "theirs")
    assert not ours.exists(tmp_path / "ours")
    assert not theirs.exists(spark.path(str(tmp_path / "theirs")))


# --- the managers ---


class Ours:
    """One of our managers, and the directory that it is for."""

    def __init__(self, directory: Path, kind: type[CheckpointFileManager]) -> None:
        self.directory = directory
        self._manager = kind(directory)

    def begin(self, name: str, overwrite: bool) -> Any:
        out = self._manager.create_atomic(self.directory / name, overwrite)
        out.write(b"new")
        return out

    def listed(self, name: str = "") -> list[str]:
        return sorted(status.name for status in self._manager.list(self.directory / name))

    def delete(self, name: str) -> None:
        self._manager.delete(self.directory / name)

    def is_local(self) -> bool:
        return self._manager.is_local

    def come_to(self, call: Callable[..., Any], *arguments: Any) -> str:
        """What a call comes to: ``done``, ``exists`` or ``missing``."""
        try:
            call(*arguments)
        except FileExistsError:
            return "exists"
        except FileNotFoundError:
            return "missing"
        return "done"

    def content(self, name: str) -> str:
        file = self.directory / name
        return file.read_text() if file.exists() else "none"

    def leftovers(self) -> list[str]:
        """The kinds of what is there under a temporary name: ``tmp``, and Java's sums, ``crc``."""
        names = (path.name for path in self.directory.iterdir())
        return sorted({name.rpartition(".")[2] for name in names if ".tmp" in name})


class Sparks(Ours):
    """One of Spark's, by the same names."""

    def __init__(self, directory: Path, kind: type[CheckpointFileManager], spark: Spark) -> None:
        self.directory = directory
        self._spark = spark
        self._manager: Any = spark.manager(str(directory), kind.__name__)

    def _path(self, name: str) -> Any:
        return self._spark.path(str(self.directory / name))

    def begin(self, name: str, overwrite: bool) -> Any:
        out = self._manager.createAtomic(self._path(name), overwrite)
        out.write(bytearray(b"new"))
        return out

    def listed(self, name: str = "") -> list[str]:
        return sorted(status.getPath().getName() for status in self._manager.list(self._path(name)))

    def delete(self, name: str) -> None:
        self._manager.delete(self._path(name))

    def is_local(self) -> bool:
        return bool(self._manager.isLocal())

    def come_to(self, call: Callable[..., Any], *arguments: Any) -> str:
        try:
            call(*arguments)
        except Py4JJavaError as failure:
            name = failure.java_exception.getClass().getSimpleName()
            return {
                "FileAlreadyExistsException": "exists",
                "SparkFileAlreadyExistsException": "exists",
                "FileNotFoundException": "missing",
            }[name]
        return "done"


def a_new_file(side: Ours) -> Any:
    out = side.begin("f", False)
    return side.content("f"), side.come_to(out.close), side.content("f"), side.leftovers()


def a_file_that_exists(side: Ours) -> Any:
    (side.directory / "f").write_text("old")
    out = side.begin("f", False)
    return side.come_to(out.close), side.content("f"), side.leftovers()


def a_cancel_after_a_failed_close(side: Ours) -> Any:
    (side.directory / "f").write_text("old")
    out = side.begin("f", False)
    return side.come_to(out.close), side.come_to(out.cancel), side.leftovers()


def a_file_that_is_to_be_replaced(side: Ours) -> Any:
    (side.directory / "f").write_text("old")
    out = side.begin("f", True)
    return side.come_to(out.close), side.content("f"), side.leftovers()


def a_target_that_appears_before_the_close(side: Ours) -> Any:
    out = side.begin("f", False)
    (side.directory / "f").write_text("theirs")
    return side.come_to(out.close), side.content("f"), side.leftovers()


def a_cancel(side: Ours) -> Any:
    (side.directory / "f").write_text("old")
    out = side.begin("f", True)
    is_there = "tmp" in side.leftovers()
    return is_there, side.come_to(out.cancel), side.content("f"), side.leftovers()


def a_second_end(side: Ours) -> Any:
    closed, cancelled = side.begin("f", False), side.begin("g", False)
    ends = [closed.close, closed.close, closed.cancel]
    ends += [cancelled.cancel, cancelled.cancel, cancelled.close]
    return [side.come_to(end) for end in ends], side.content("f"), side.content("g")


def a_missing_parent(side: Ours) -> Any:
    def begin_and_cancel() -> None:
        side.begin("no/f", False).cancel()

    return side.come_to(begin_and_cancel), (side.directory / "no").exists()


def what_is_missing(side: Ours) -> Any:
    return side.come_to(side.delete, "no"), side.come_to(side.listed, "no")


def a_directory_that_goes(side: Ours) -> Any:
    (side.directory / "d" / "e").mkdir(parents=True)
    return side.come_to(side.delete, "d"), (side.directory / "d").exists()


def strays_in_a_list(side: Ours) -> Any:
    for name in (".hidden", ".f.1.tmp", "f", ".f.crc"):
        (side.directory / name).write_text("")
    (side.directory / "d").mkdir()
    return side.listed()


def where_it_is(side: Ours) -> Any:
    return side.is_local()


Table = dict[Callable[[Ours], Any], tuple[Any, ...]]
# What a case shows, by ours and, where it differs, by Spark's.
NONE: list[str] = []
LEAK = ["crc", "tmp"]
KEPT, LEAKED = ("exists", "old", NONE), ("exists", "old", LEAK)
REPLACED = ("done", "new", NONE)
MANAGED: Table = {
    a_new_file: (("none", "done", "new", []),),
    a_file_that_exists: (KEPT, LEAKED),
    a_cancel_after_a_failed_close: (("exists", "done", []), ("exists", "done", LEAK)),
    a_file_that_is_to_be_replaced: (REPLACED,),
    a_target_that_appears_before_the_close: (("exists", "theirs", []), ("exists", "theirs", LEAK)),
    a_cancel: ((True, "done", "old", []),),
    a_second_end: ((["done"] * 6, "new", "none"),),
    a_missing_parent: (("missing", False),),
    what_is_missing: (("done", "missing"),),
    a_directory_that_goes: (("done", False),),
    strays_in_a_list: ([".f.1.tmp", ".hidden", "d", "f"],),
    where_it_is: (True,),
}
# The same where FileSystem's rename publishes.
MANAGED_BY_FILE_SYSTEM = {
    **MANAGED,
    a_file_that_is_to_be_replaced: (REPLACED, ("done", "old", LEAK)),
    a_missing_parent: (("done", True),),
}


@pytest.mark.stores("raw")
@pytest.mark.parametrize(
    ("kind", "table"),
    [(FileContextBased, MANAGED), (FileSystemBased, MANAGED_BY_FILE_SYSTEM)],
)
def test_managers_do_the_same(
    spark: Spark, tmp_path: Path, kind: type[CheckpointFileManager], table: Table
) -> None:
    """But for what Spark's leave behind, and for an overwrite that Spark's drops in silence."""
    found, expected = {}, {}
    for case, shown in table.items():
        name = case.__name__
        ours, theirs = tmp_path / "ours" / name, tmp_path / "theirs" / name
        for directory in (ours, theirs):
            directory.mkdir(parents=True)
        found[name] = (case(Ours(ours, kind)), case(Sparks(theirs, kind, spark)))
        expected[name] = (shown[0], shown[-1])
    assert found == expected


# --- races ---

RACE = """
from hflush.checkpoint import CommitLog, CommitMetadata, FileStreamSinkLog, SinkFileStatus
commits = CommitLog(directory + '/commits', conf)
sink = FileStreamSinkLog(directory + '/_spark_metadata', conf)
won = []
for number in range(count):
    barrier.wait()
    if number % 4 == 3:
        barrier.wait()
    for name, log, value in (
        ('commits', commits, CommitMetadata(number * 100 + me)),
        ('sink', sink, [SinkFileStatus(f'file:///out/{number}-{me}', me)]),
    ):
        try:
            if log.add(number, value):
                won.append((name, number))
        except hflush.ConcurrentWriterError:
            pass
result = won
"""


@pytest.mark.rule("CKPT-16")
@pytest.mark.timeout(1800 * PATIENCE)
@pytest.mark.stores("raw", "hdfs")
def test_one_writer_wins_each_batch(spark: Spark, store: Store, crew: Crew) -> None:
    """Processes and a JVM race for each batch of a commit log and of a sink's log.

    One wins each, all others know that they have not, and the log holds what the winners wrote,
    through the compactions. The JVM comes first in each fourth round, so that it wins some.
    """
    writers, count = RACES[store.name]
    directory = store.url(store.path())
    crew.begin(store, writers, writers + 1, RACE, directory=directory, conf=store.conf, count=count)
    barrier = Barrier(crew.line(store), writers + 1, writers)
    commits, sink = (
        spark.commits(f"{directory}/commits"),
        spark.sink(f"{directory}/_spark_metadata"),
    )
    of_jvm = []
    for number in range(count):
        barrier.wait()
        commit = spark.commit(number * 100 + writers)
        file = {f"file:///out/{number}-{writers}": writers}
        if won(partial(commits.add, number, commit)):
            of_jvm.append(("commits", number))
        if won(partial(sink.add, number, file)):
            of_jvm.append(("sink", number))
        if number % 4 == 3:
            barrier.wait()
    wins = [*crew.finish(), of_jvm]
    assert {(log, n) for log in ("commits", "sink") for n in range(3, count, 4)} <= set(of_jvm)
    winners = [
        [(number, me) for me, found in enumerate(wins) for log, number in found if log == which]
        for which in ("commits", "sink")
    ]
    for found in winners:
        assert sorted(number for number, _ in found) == list(range(count)), "not one winner each"
    log = CommitLog(f"{directory}/commits", store.conf)
    stored = [(number, commit.next_batch_watermark_ms % 100) for number, commit in log.get_range()]
    assert stored == sorted(winners[0])
    files = FileStreamSinkLog(f"{directory}/_spark_metadata", store.conf).all_files()
    assert list(enumerate(file.size for file in files)) == sorted(winners[1])
    read = spark.sink(f"{directory}/_spark_metadata").all_files()
    assert [size for _, size in read] == [file.size for file in files]
    # What a JVM leaves when it loses is named, and removed.
    logs = Checkpoint(f"{directory}/commits", store.conf)
    assert all(repair.failure is None for repair in logs.repair(oldest=-3600))
    assert logs.verify(oldest=-3600) == []


# --- queries ---


def rows(spark: Spark, directory: Path) -> list[str]:
    return sorted(row.value for row in spark.session.read.text(str(directory)).collect())


def put_part(out: Path, name: str, text: str) -> SinkFileStatus:
    fs = hflush.FileSystem.get("file:///")
    with fs.create(out / name) as stream:
        stream.write(text.encode())
    return SinkFileStatus.of(fs, fs.get_file_status(out / name))


@pytest.mark.rule("CKPT-15")
@pytest.mark.stores("raw")
def test_spark_reads_what_our_log_lists(spark: Spark, tmp_path: Path) -> None:
    """Its batch reader sees the files of the log, through a compaction, and no others."""
    log = FileStreamSinkLog(tmp_path / "_spark_metadata")
    for number in range(12):
        log.add(number, [put_part(tmp_path, f"part-{number}", f"{number}\n")])
    put_part(tmp_path, "part-stray", "stray\n")
    assert rows(spark, tmp_path) == sorted(str(number) for number in range(12))


@pytest.mark.rule("CKPT-15", "CKPT-19")
@pytest.mark.stores("raw")
def test_a_query_goes_on_after_ours_and_we_after_it(spark: Spark, tmp_path: Path) -> None:
    """Batches of a file stream are run by Spark and by us in turns, on one checkpoint and sink.

    Ours are made of the four logs alone. Spark neither repeats nor skips one.
    """
    source, out, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    source.mkdir()
    expected = []
    for number in range(6):
        text = f"row of {number}"
        (source / f"{number}.txt").write_text(f"{text}\n")
        expected.append(text)
        if number % 2 == 0:
            run_query(spark, source, out, checkpoint)
        else:
            run_batch(number, source / f"{number}.txt", out, checkpoint)
        assert rows(spark, out) == expected
        assert CommitLog(checkpoint / "commits").batch_ids() == list(range(number + 1))
    for directory in (out, checkpoint):
        assert [f for f in Checkpoint(directory).verify() if f.harmful] == []
    assert [log.kind for log in Checkpoint(checkpoint).logs] == ["offsets", "commits", "source"]
    # A batch of ours that is not committed is run again, by Spark: the sink's log knows it.
    (checkpoint / "commits" / "5").unlink()
    (checkpoint / "commits" / ".5.crc").unlink(missing_ok=True)
    (finding,) = Checkpoint(checkpoint).verify()
    assert "batch 5 has no commit" in finding.problem
    run_query(spark, source, out, checkpoint)
    assert rows(spark, out) == expected
    shutil.rmtree(checkpoint)


def run_query(spark: Spark, source: Path, out: Path, checkpoint: Path) -> None:
    """Let Spark's own file sink run what is new in the source."""
    stream = spark.session.readStream.text(str(source))
    writer = stream.writeStream.format("text").option("checkpointLocation", str(checkpoint))
    query = writer.option("path", str(out)).trigger(availableNow=True).start()
    query.awaitTermination()


def run_batch(number: int, file: Path, out: Path, checkpoint: Path) -> None:
    """Do what Spark does in a batch: log its file and its offset, write, publish, commit."""
    entry = FileEntry(f"file://{file}", int(file.stat().st_mtime * 1000), number)
    assert FileStreamSourceLog(checkpoint / "sources" / "0").add(number, [entry])
    offsets = OffsetSeqLog(checkpoint / "offsets")
    before: Any = offsets.get(number - 1)
    offset = json.dumps({"logOffset": number}, separators=(",", ":"))
    assert offsets.add(number, OffsetSeq((offset,), before.metadata))
    part = put_part(out, f"part-of-{number}.txt", file.read_text())
    assert FileStreamSinkLog(out / "_spark_metadata").add(number, [part])
    assert CommitLog(checkpoint / "commits").add(number, CommitMetadata())
