"""CKPT: Spark's logs of streaming queries, in Spark's own formats, on every store."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

import hflush
import pytest
from hflush.checkpoint import (
    Checkpoint,
    CommitLog,
    CommitMetadata,
    FileEntry,
    FileStreamSinkLog,
    FileStreamSourceLog,
    Finding,
    OffsetMap,
    OffsetSeq,
    OffsetSeqLog,
    OffsetSeqMetadata,
    SinkFileStatus,
    SinkMetadataInfo,
    SourceMetadataInfo,
)
from hflush.cli import main
from support.actors import Crew
from support.stores import Store

SINK = "spark.sql.streaming.fileSink.log"
SOURCE = "spark.sql.streaming.fileSource.log"
RETAINED = "spark.sql.streaming.minBatchesToRetain"


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    """Processes kept for all tests here."""
    crew = Crew()
    yield crew
    crew.close()


def sink_log(store: Store, conf: Mapping[str, Any] | None = None, **options: Any):
    url = store.url(store.path("out", "_spark_metadata"))
    return FileStreamSinkLog(url, {**store.conf, **(conf or {})}, **options)


def names(store: Store, *directory: str) -> list[str]:
    return store.on_disk(store.path(*directory))


def entry(name: str, size: int = 1, **fields: Any) -> SinkFileStatus:
    return SinkFileStatus(f"file:///out/{name}", size, **fields)


def paths(entries: list[SinkFileStatus]) -> list[str]:
    return [found.path.rpartition("/")[2] for found in entries]


# --- what the files hold -------------------------------------------------------------------------

METADATA = OffsetSeqMetadata(7, 8, {"spark.sql.shuffle.partitions": "4"})
DESCRIBED = OffsetSeqMetadata(
    7,
    8,
    {},
    {"0": SourceMetadataInfo("0", "rate", "v2")},
    {"operationType": "drain"},
)
OFFSETS = {
    OffsetSeq(('{"i": 4}', None), METADATA): (
        b'v1\n{"batchWatermarkMs":7,"batchTimestampMs":8,"conf":{"spark.sql.shuffle.partitions":'
        b'"4"}}\n{"i": 4}\n-'
    ),
    OffsetSeq(("5",)): b"v1\n\n5",
    OffsetMap({"0": "5", "s": None}, DESCRIBED): (
        b'v2\n{"batchWatermarkMs":7,"batchTimestampMs":8,"conf":{},"sourceMetadataInfo":{"0":'
        b'{"sourceId":"0","providerName":"rate","apiVersion":"v2"}},"controlBatchInfo":'
        b'{"operationType":"drain"}}\n0:5\ns:-'
    ),
}
SINKS = {"s": SinkMetadataInfo("s", "-", "parquet", "v1")}
COMMITS = {
    CommitMetadata(5): b'v1\n{"nextBatchWatermarkMs":5}',
    CommitMetadata(5, 2, {0: [["a", "b"], ["c"]]}): (
        b'v2\n{"nextBatchWatermarkMs":5,"stateUniqueIds":{"0":[["a","b"],["c"]]}}'
    ),
    CommitMetadata(0, 3, sink_metadata=SINKS): (
        b'v3\n{"nextBatchWatermarkMs":0,"sinkMetadataMap":{"s":{"sinkName":"s","commitOffset":"-",'
        b'"providerName":"parquet","apiVersion":"v1","isActive":true}}}'
    ),
}


@pytest.mark.rule("CKPT-15")
def test_offsets_and_commits(store: Store):
    """Each version of the formats, to the byte, and back; a batch is stored once."""
    for log, batches in (
        (OffsetSeqLog(store.url(store.path("offsets")), store.conf), OFFSETS),
        (CommitLog(store.url(store.path("commits")), store.conf), COMMITS),
    ):
        for number, (value, content) in enumerate(batches.items()):
            assert log.add(number, value)
            assert store.read(store.fs._resolve(f"{log.manager.path}/{number}")) == content
            assert log.get(number) == value
        assert not log.add(0, value)
        assert log.get_latest() == (len(batches) - 1, value)


@pytest.mark.rule("CKPT-15")
def test_files_of_a_sink(store: Store):
    """The line of a file has its exact size, and a URL that is quoted as Java quotes."""
    log = sink_log(store)
    path = store.path("out", "day=a b", "50%-ü?#")
    store.write(path, b"x" * 1234)
    status = SinkFileStatus.of(store.fs, store.fs.get_file_status(path), {"queryId": "q"})
    assert status.size == 1234
    assert log.add(0, [status])
    assert log.add(1, [])
    line = store.read(store.path("out", "_spark_metadata", "0")).decode().splitlines()[1]
    assert line.startswith('{"path":"')
    assert '/out/day=a%20b/50%25-ü%3F%23","size":1234,"isDir":false,"modificationTime":' in line
    assert line.endswith(',"action":"add","queryId":"q"}')
    assert store.read(store.path("out", "_spark_metadata", "1")) == b"v1"
    (found,) = log.all_files()
    assert found == status
    with hflush.FileSystem.get(found.path, store.conf).open(found.path) as stream:
        assert stream.read() == b"x" * 1234
    assert log.get_latest_batch_id() == 1


# --- compaction ----------------------------------------------------------------------------------


@pytest.mark.rule("CKPT-15", "CKPT-19")
def test_a_sink_is_compacted(store: Store):
    """Every third batch repeats all before it, is named so, and cannot be added again."""
    log = sink_log(store, {f"{SINK}.compactInterval": 3})
    assert (log.get_latest_batch_id(), log.all_files(), log.batch_ids()) == (None, [], [])
    for number in range(8):
        assert log.add(number, [entry(f"{number}-{part}") for part in range(2)])
        assert not log.add(number, [entry("again")])
    assert names(store, "out", "_spark_metadata") == [
        "0", "1", "2.compact", "3", "4", "5.compact", "6", "7",
    ]  # fmt: skip
    expected = [f"{number}-{part}" for number in range(8) for part in range(2)]
    assert paths(log.all_files()) == expected
    assert paths(log.get(5)) == expected[:12]
    assert paths(log.get(6)) == expected[12:14]
    assert log.batch_ids() == list(range(8))
    assert log.compact_interval == 3
    for purge in (log.purge, log.purge_after):
        with pytest.raises(io.UnsupportedOperation, match="purge is not supported"):
            purge(3)


@pytest.mark.rule("CKPT-19")
def test_the_interval_is_that_of_the_files(store: Store):
    """Another configured interval counts as far as the compact file that is there allows."""
    first = sink_log(store, {f"{SINK}.compactInterval": 2})
    for number in range(2):
        first.add(number, [entry(str(number))])
    changed = sink_log(store, {f"{SINK}.compactInterval": 5})
    for number in range(2, 7):
        assert changed.add(number, [entry(str(number))])
    assert changed.compact_interval == first.compact_interval == 2
    assert names(store, "out", "_spark_metadata")[-4:] == ["3.compact", "4", "5.compact", "6"]
    assert paths(changed.all_files()) == [str(number) for number in range(7)]


@pytest.mark.rule("CKPT-19")
def test_batches_of_an_earlier_interval_are_found(store: Store):
    """Also where a compact file of the batch would be looked for now."""
    for number, interval in enumerate((9, 9, 9, 9, 9, 3)):
        sink_log(store, {f"{SINK}.compactInterval": interval}).add(number, [entry(str(number))])
    assert names(store, "out", "_spark_metadata")[-2:] == ["4", "5.compact"]
    log = sink_log(store, {f"{SINK}.compactInterval": 2})
    assert log.compact_interval == 2
    assert [(number, len(found)) for number, found in log.get_range(1, 3)] == [
        (1, 1),
        (2, 1),
        (3, 1),
    ]
    (shown,) = checkpoint(store, "out", **{f"{SINK}.compactInterval": 2}).shown(1)
    assert shown[1] == ["v1", entry("1").dump()]


@pytest.mark.rule("CKPT-19")
def test_replaced_files_are_removed(store: Store):
    """Those below the compact file that the retained batches need go once they are old enough."""
    conf = {f"{SINK}.compactInterval": 3, RETAINED: 2}
    log = sink_log(store, {**conf, f"{SINK}.cleanupDelay": "1h"})
    for number in range(12):
        log.add(number, [entry(str(number))])
    assert len(names(store, "out", "_spark_metadata")) == 12
    sink_log(store, {**conf, f"{SINK}.deletion": False, f"{SINK}.cleanupDelay": "0"}).add(12, [])
    assert len(names(store, "out", "_spark_metadata")) == 13
    log = sink_log(store, {**conf, f"{SINK}.cleanupDelay": "0"})
    assert log.add(13, [])
    assert names(store, "out", "_spark_metadata") == ["11.compact", "12", "13"]
    assert paths(log.all_files()) == [str(number) for number in range(12)]
    assert not log.add(5, [entry("again")])  # it is stored, in a compact file


@pytest.mark.rule("CKPT-17")
def test_a_failed_removal_is_logged(store: Store, monkeypatch, caplog):
    """The batch is stored, and add says so."""
    log = sink_log(store, {f"{SINK}.compactInterval": 2, RETAINED: 1, f"{SINK}.cleanupDelay": 0})

    def refuse(path: str, recursive: bool) -> bool:
        raise PermissionError(13, "not yours", path)

    monkeypatch.setattr(log.manager.filesystem, "_delete", refuse)
    assert [log.add(number, []) for number in range(5)] == [True] * 5
    assert "not yours" in caplog.text
    monkeypatch.undo()
    assert log.get_latest_batch_id() == 4


@pytest.mark.rule("CKPT-15")
def test_old_entries_are_dropped(store: Store):
    """By the retention of the sink, from what is read and from the next compact file."""
    now = int(time.time() * 1000)
    log = sink_log(store, {f"{SINK}.compactInterval": 3}, retention=3600.0)
    log.add(0, [entry("old", modification_time=now - 7_200_000)])
    log.add(1, [entry("young", modification_time=now)])
    assert paths(log.all_files()) == ["young"]
    assert paths(sink_log(store).all_files()) == ["old", "young"]
    log.add(2, [])
    assert paths(sink_log(store, {f"{SINK}.compactInterval": 3}).all_files()) == ["young"]


@pytest.mark.rule("CKPT-15")
def test_deleted_files_are_dropped(store: Store):
    """A log older than Spark 3.1 names files that are gone; add refuses to write such entries."""
    log = sink_log(store, {f"{SINK}.compactInterval": 3})
    log.add(0, [entry("kept"), entry("gone")])
    content = f"v1\n{entry('gone', action='delete').dump()}".encode()
    store.write(store.path("out", "_spark_metadata", "1"), content)
    assert paths(log.all_files()) == ["kept"]
    log.add(2, [])
    assert paths(log.get(2)) == ["kept"]
    with pytest.raises(ValueError, match="readers take it for a file"):
        log.add(3, [entry("kept", action="delete")])


@pytest.mark.rule("CKPT-15", "CKPT-19")
def test_files_of_a_source(store: Store):
    """Entries know their batch, so that it is found in a compact file, too."""
    conf = {f"{SOURCE}.compactInterval": 3, RETAINED: 1, f"{SOURCE}.cleanupDelay": "0"}
    log = FileStreamSourceLog(store.url(store.path("sources", "0")), {**store.conf, **conf})
    for number in range(8):
        assert log.add(number, [FileEntry(f"file:///in/{number} a", 5, number)])
    assert names(store, "sources", "0") == ["5.compact", "6", "7"]
    stored = store.read(store.path("sources", "0", "7"))
    assert stored == b'v1\n{"path":"file:///in/7%20a","timestamp":5,"batchId":7}'
    for number in range(8):
        assert log.get(number) == [FileEntry(f"file:///in/{number} a", 5, number)]
    assert log.get(8) is None
    assert len(log.all_files()) == 8
    with pytest.raises(ValueError, match="must be 8, the batch it is in"):
        log.add(8, [FileEntry("file:///in/x", 5, 7)])


# --- damage --------------------------------------------------------------------------------------

GOOD = entry("a").dump()


@pytest.mark.rule("CKPT-19")
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "it is empty"),
        (b"\n", "line 1: a version such as v1"),
        (b"v0", "line 1: a version such as v1"),
        (b"v1x", "line 1: a version such as v1"),
        (b"v9", "version v9 is newer than v1"),
        (b"v1\n\xff", "not UTF-8 at byte 3"),
        (b"v1\n" + GOOD[:-20].encode(), "line 2: not JSON"),
        (f"v1\n{GOOD}\n\n{GOOD}".encode(), "line 3: not JSON"),
        (b"v1\n[]", "line 2: what it holds is '[]', not an object"),
        (f"v1\n{GOOD.replace('size', 'length')}".encode(), "line 2: size is missing"),
        (
            GOOD.replace(":1,", ":true,", 1).join(["v1\n", ""]).encode(),
            "size is 'true', not a whole",
        ),
    ],
)
@pytest.mark.stores("raw")
def test_a_damaged_file_is_named(store: Store, content: bytes, problem: str):
    """With what is wrong, and where."""
    log = sink_log(store)
    path = store.path("out", "_spark_metadata", "0")
    store.write(path, content)
    for read in (log.all_files, lambda: log.get(0), lambda: log.add(0, [])):
        with pytest.raises(hflush.CorruptLogError, match="corrupt log file") as failure:
            read()
        assert problem in failure.value.strerror
        assert failure.value.filename == store.filename(path)


@pytest.mark.rule("CKPT-19")
@pytest.mark.parametrize(
    ("log_of", "content", "problem"),
    [
        (OffsetSeqLog, b"v1", "line 2: the metadata are missing"),
        (OffsetSeqLog, b"v2\n\n0:1", "which version 2 needs"),
        (OffsetSeqLog, b"v2\n{}\nx", "line 3: id:offset is expected"),
        (OffsetSeqLog, b'v1\n{"conf":3}', "conf is '3', not an object"),
        (OffsetSeqLog, b"v3\n{}", "newer than v2"),
        (CommitLog, b"v4\n{}", "newer than v3"),
        (CommitLog, b"v2\n{", "line 2: not JSON"),
        (CommitLog, b'v2\n{"stateUniqueIds":{"0":["a"]}}', "not lists of ids"),
    ],
)
@pytest.mark.stores("raw")
def test_a_damaged_batch_is_named(store: Store, log_of: Any, content: bytes, problem: str):
    """Of offsets and commits, too."""
    log = log_of(store.url(store.path("log")), store.conf)
    store.write(store.path("log", "0"), content)
    for read in (log.get_latest, log.get_range, lambda: log.get(0)):
        with pytest.raises(hflush.CorruptLogError) as failure:
            read()
        assert problem in failure.value.strerror
        assert failure.value.filename == store.filename(store.path("log", "0"))


@pytest.mark.rule("CKPT-19", "CKPT-17")
def test_gaps(store: Store):
    """add does not make one, and reads none: what is missing is named."""
    log = sink_log(store, {f"{SINK}.compactInterval": 3})
    for number in range(5):
        log.add(number, [entry(str(number))])
    with pytest.raises(FileNotFoundError, match=r"missing from the log: 5\.compact: batch 6"):
        log.add(6, [])
    store.fs.delete(store.path("out", "_spark_metadata", "3"))
    with pytest.raises(FileNotFoundError, match="log: 3: batch 4 cannot be read"):
        log.all_files()
    with pytest.raises(FileNotFoundError, match="log: 3: batch 5 cannot follow"):
        log.add(5, [entry("5")])
    assert log.add(3, [entry("3")])  # which fills it
    assert log.add(5, [entry("5")])
    assert sorted(paths(log.all_files())) == ["0", "1", "2", "3", "4", "5"]


@pytest.mark.rule("CKPT-17")
@pytest.mark.stores("raw")
def test_what_cannot_be_written(store: Store):
    """Is refused before anything is written."""
    log = sink_log(store)
    for wrong, expected in ((-1, ValueError), ("1", TypeError), (True, TypeError)):
        with pytest.raises(expected):
            log.add(wrong, [])
    for entries, problem in (
        ([entry("a", -1)], "must not be negative"),
        ([entry("a", extra={"size": 1})], "extra fields must not be called size"),
    ):
        with pytest.raises(ValueError, match=problem):
            log.add(0, entries)
    with pytest.raises(ValueError, match="retention"):
        sink_log(store, retention=-1)
    with pytest.raises(ValueError, match="compactInterval"):
        sink_log(store, {f"{SINK}.compactInterval": 0})
    offsets = OffsetSeqLog(store.url(store.path("offsets")), store.conf)
    for batch, problem in (
        (OffsetSeq(("a\nb",)), "must be one line"),
        (OffsetMap({"a:b": None}, METADATA), "must not hold a colon"),
        (OffsetSeq((), DESCRIBED), "use an OffsetMap"),
    ):
        with pytest.raises(ValueError, match=problem):
            offsets.add(0, batch)
    commits = CommitLog(store.url(store.path("commits")), store.conf)
    for commit, problem in (
        (CommitMetadata(0, 4), "from 1 to 3"),
        (CommitMetadata(0, 1, {}), "need version 2"),
        (CommitMetadata(0, 2, sink_metadata=SINKS), "need version 3"),
        (CommitMetadata(0, 3), "needs one sink that is active"),
    ):
        with pytest.raises(ValueError, match=problem):
            commits.add(0, commit)
    assert not os.path.exists(store.root) or os.listdir(store.root) == []


# --- races ---------------------------------------------------------------------------------------

RACE = """
from hflush.checkpoint import FileStreamSinkLog, SinkFileStatus
log = FileStreamSinkLog(directory, conf)
won = []
barrier.wait()
for number in range(count):
    try:
        if log.add(number, [SinkFileStatus(f'file:///out/{number}-{me}', me)]):
            won.append(number)
    except hflush.ConcurrentWriterError:
        pass
result = won
"""


@pytest.mark.rule("CKPT-16")
def test_one_writer_wins_each_batch_of_a_sink(store: Store, crew: Crew):
    """Four processes add thirty batches, every third compact: all files are the winners'."""
    conf = {**store.conf, f"{SINK}.compactInterval": 3}
    directory = store.url(store.path("out", "_spark_metadata"))
    wins = crew.race(store, 4, RACE, directory=directory, conf=conf, count=30)
    winner = {number: me for me, numbers in enumerate(wins) for number in numbers}
    assert sum(map(len, wins)) == len(winner) == 30
    found = sink_log(store, conf).all_files()
    assert paths(found) == [f"{number}-{winner[number]}" for number in range(30)]


@pytest.mark.rule("CKPT-16")
@pytest.mark.stores("raw", "crc")
def test_a_batch_that_another_program_replaces_is_lost(store: Store, monkeypatch):
    """A JVM's rename on local files replaces a file that came after its look: add says so."""
    log = sink_log(store)
    rename = log.manager.filesystem._rename_exact

    def replaced(source: str, destination: str, overwrite: bool) -> None:
        rename(source, destination, overwrite)
        store.fs.delete(destination)
        store.write(destination, b"v1\n" + entry("theirs").dump().encode())

    monkeypatch.setattr(log.manager.filesystem, "_rename_exact", replaced)
    with pytest.raises(hflush.ConcurrentWriterError):
        log.add(0, [entry("ours")])
    assert paths(log.all_files()) == ["theirs"]


# --- verify and repair ---------------------------------------------------------------------------

UUID = "12345678-1234-1234-1234-123456789abc"


def checkpoint(store: Store, *directory: str, **conf: Any) -> Checkpoint:
    return Checkpoint(store.url(store.path(*directory)), {**store.conf, **conf})


def problems(found: list[Finding]) -> dict[str, str]:
    """What was found, by the last name of its path."""
    return {finding.path.rpartition("/")[2]: finding.problem for finding in found}


def a_sink(store: Store, batches: int) -> FileStreamSinkLog:
    """A directory with a file of each batch, and its log."""
    log = sink_log(store)
    for number in range(batches):
        path = store.path("out", f"part-{number}")
        store.write(path, b"x" * (number + 1))
        log.add(number, [SinkFileStatus.of(store.fs, store.fs.get_file_status(path))])
    return log


def a_query(store: Store) -> None:
    """A checkpoint of four batches, the last one open."""
    offsets = OffsetSeqLog(store.url(store.path("query", "offsets")), store.conf)
    commits = CommitLog(store.url(store.path("query", "commits")), store.conf)
    source = FileStreamSourceLog(store.url(store.path("query", "sources", "0")), store.conf)
    for number in range(4):
        source.add(number, [FileEntry("file:///in/a", 5, number)])
        offsets.add(number, OffsetSeq(("{}",), METADATA))
        if number < 3:
            commits.add(number, CommitMetadata())
    store.write(store.path("query", "metadata"), b'{"id":"q"}')


@pytest.mark.rule("CKPT-19")
def test_whole_logs_have_no_errors(store: Store):
    """A sink with its files, and a query that stopped in a batch."""
    a_sink(store, 12)
    assert checkpoint(store, "out").verify() == []
    assert checkpoint(store, "out", "_spark_metadata").verify() == []
    a_query(store)
    query = checkpoint(store, "query")
    assert [log.kind for log in query.logs] == ["offsets", "commits", "source"]
    (found,) = query.verify()
    assert "batch 3 has no commit: it runs again" in found.problem
    assert not found.harmful
    assert [log.kind for log in checkpoint(store, "query", "sources", "0").logs] == ["source"]
    with pytest.raises(FileNotFoundError, match="no log of Spark's"):
        checkpoint(store, "query", "sources", "0", "..", "..", "..")
    with pytest.raises(FileNotFoundError):
        checkpoint(store, "nowhere")


@pytest.mark.rule("CKPT-19")
def test_damage_is_found(store: Store):
    """Each missing, damaged, wrong and superfluous file is named, with what follows."""
    a_sink(store, 13)
    log = ("out", "_spark_metadata")
    store.fs.delete(store.path(*log, "11"))
    store.write(store.path(*log, "10"), b"v1\n{")
    store.write(store.path(*log, "3"), b"")
    store.write(store.path(*log, "+40"), b"v1")
    store.fs.mkdirs(store.path(*log, "14"))
    store.write(store.path("out", "stray"), b"x")
    found = checkpoint(store, "out").verify()
    assert {finding.path.rpartition("/")[2] for finding in found if finding.harmful} == {
        "10", "11", "+40", *({"14"} if "14" in listed(store, *log) else ()),
    }  # fmt: skip
    said = problems(found)
    assert said["10"].startswith("corrupt log file: line 2: not JSON")
    assert said["11"] == "missing: Spark needs it to read batch 12"
    assert "it is empty" in said["3"]
    assert "a compact file has replaced it" in said["3"]

    a_query(store)
    store.fs.delete(store.path("query", "commits", "1"))
    store.fs.delete(store.path("query", "metadata"))
    CommitLog(store.url(store.path("query", "commits")), store.conf).add(5, CommitMetadata())
    store.write(store.path("query", "sources", "0", "2"), b"v7")
    said = [finding.problem for finding in checkpoint(store, "query").verify()]
    assert said == [
        "missing batches: 1, 3, 4",
        "corrupt log file: line 1: version v7 is newer than v1, the newest known",
        "commits without their offsets: 5",
        "missing: Spark gives the query a new id",
    ]
    store.fs.delete(store.path("query", "commits"), recursive=True)
    CommitLog(store.url(store.path("query", "commits")), store.conf).add(0, CommitMetadata())
    store.write(store.path("query", "metadata"), b"[]")
    said = [finding.problem for finding in checkpoint(store, "query").verify()]
    assert said[1:] == [
        "offsets without their commits: 1, 2, 3; only the last batch can be open",
        "the id of the query is missing",
    ]


def listed(store: Store, *directory: str) -> list[str]:
    return [status.name for status in store.fs.list_status(store.path(*directory))]


@pytest.mark.rule("CKPT-19")
def test_files_that_differ_from_the_log_are_found(store: Store):
    """A file of a sink that is gone, or of another length; one that only the directory has."""
    log = a_sink(store, 3)
    log.add(3, [SinkFileStatus("gs://elsewhere/far", 1)])
    store.fs.delete(store.path("out", "part-0"))
    store.write(store.path("out", "part-1"), b"longer than before")
    store.write(store.path("out", "stray"), b"x")
    found = checkpoint(store, "out").verify()
    assert [(finding.harmful, finding.path.rpartition("/")[2]) for finding in found] == [
        (True, "part-0"), (True, "part-1"), (False, "far"), (False, "out"),
    ]  # fmt: skip
    said = problems(found)
    assert said["part-0"] == "listed in the log, but there is no such file"
    assert said["part-1"] == "18 bytes, but the log says 2, which is what readers believe"
    assert said["far"].startswith("cannot be looked at: no file system for scheme 'gs'")
    assert said["out"].startswith("not in the log, so readers miss them: 1 files, as ")


@pytest.mark.rule("CKPT-7", "CKPT-19")
def test_repair_removes_what_nobody_needs(store: Store):
    """A temporary file goes if its batch is stored and its writer is dead, else it stays."""
    a_sink(store, 3)
    log = ("out", "_spark_metadata")
    needless, only = f".1.{UUID}.TID7.tmp", f".3.{UUID}.tmp"
    for name in (needless, only):
        store.write(store.path(*log, name), b"v1")
    sink = checkpoint(store, "out")
    assert [finding.remedy for finding in sink.verify()] == [None, None]  # they may be at work
    assert list(sink.repair()) == []
    assert "may be the only copy" in problems(sink.verify(oldest=-60))[only]
    (would,) = sink.repair(oldest=-60, dry_run=True)
    assert {needless, only} < set(listed(store, *log))
    (did,) = sink.repair(oldest=-60)
    assert would == did
    assert did.done.endswith(needless)
    assert did.failure is None
    assert only in listed(store, *log)
    assert needless not in listed(store, *log)


@pytest.mark.rule("CKPT-19")
def test_repair_makes_a_compact_file_again(store: Store):
    """From plain files that a writer without compaction left; they stay."""
    log = sink_log(store, {f"{SINK}.compactInterval": 100})
    for number in range(13):
        log.add(number, [])
    sink = checkpoint(store, "out")
    assert sink_log(store).all_files() == []  # which Spark, with its interval of 10, cannot read
    (found,) = sink.verify()
    assert found.problem.endswith("it can be made of 0 to 9")
    assert len(list(sink.repair(dry_run=True))) == 1
    assert sink.verify() == [found]
    assert [repair.failure for repair in sink.repair()] == [None]
    assert sink.verify() == []
    assert len(names(store, "out", "_spark_metadata")) == 14
    assert not sink_log(store).rebuild(9)
    with pytest.raises(FileNotFoundError, match="cannot be made"):
        sink_log(store).rebuild(19)


@pytest.mark.rule("CKPT-16", "CKPT-19")
@pytest.mark.stores("raw")
def test_two_winners_are_found(store: Store):
    """A plain file whose entries are not in the compact file of the same batch."""
    log = sink_log(store, {f"{SINK}.compactInterval": 2})
    log.add(0, [])
    log.add(1, [])
    store.write(store.path("out", "_spark_metadata", "1"), b"v1\n" + entry("lost").dump().encode())
    (found,) = checkpoint(store, "out", **{f"{SINK}.compactInterval": 2}).verify()
    assert found.problem == "two writers stored batch 1: 1.compact has not all of its files"


@pytest.mark.rule("CKPT-19")
def test_the_command(store: Store, capsys: pytest.CaptureFixture[str]):
    """``hflush checkpoint`` reads the logs of any store, and its exit code says what it found."""
    a_sink(store, 3)
    settings = [word for key, value in store.conf.items() for word in ("-D", f"{key}={value}")]
    url = store.url(store.path("out"))
    assert main([*settings, "checkpoint", "ls", url]) == 0
    assert "0..2        3 files" in capsys.readouterr().out
    assert main([*settings, "checkpoint", "show", url, "--batch", "1"]) == 0
    assert '"size":2,' in capsys.readouterr().out
    assert main([*settings, "checkpoint", "verify", url]) == 0
    store.fs.delete(store.path("out", "_spark_metadata", "1"))
    assert main([*settings, "checkpoint", "repair", url]) == 1
    assert "error: " in capsys.readouterr().out
