"""Files of a streaming query that are in no log: a vacuum removes them, and no others."""

from __future__ import annotations

import subprocess
import sys
import uuid

import pytest
from hflush.checkpoint import FileStreamSinkLog, SinkFileStatus
from hflush.spark.commit import vacuum
from hflush.spark.commit.strays import named_after
from hflush.spark.stream import Owner
from support.stores import Store

QUERY, ANOTHER = (str(uuid.UUID(int=number)) for number in (0xABC, 0xDEF))


class Stream:
    """The destination of a query whose log has batch 0."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.url = store.url(store.path("out"))
        self.log = FileStreamSinkLog(f"{self.url}/_spark_metadata", store.conf)
        Owner(self.url, dict(store.conf)).claim(QUERY, 0, None)
        self.commit(0, self.add(named(0)))

    def add(self, name: str) -> str:
        with self._store.fs.create(self._store.path("out", *name.split("/"))) as out:
            out.write(b"rows")
        return name

    def commit(self, batch: int, *names: str) -> None:
        fs = self._store.fs
        files = [f"{self.url}/{name}" for name in names]
        statuses = [SinkFileStatus.of(fs, fs.get_file_status(file)) for file in files]
        assert self.log.add(batch, statuses)

    def vacuum(self, older_than: float = 0) -> int:
        return vacuum(self.url, self._store.conf, older_than=older_than).strays

    @property
    def names(self) -> set[str]:
        root = f"{self.url}/"
        found = self._store.fs.list_files(self.url, recursive=True)
        paths = {self._store.fs.make_qualified(status.path) for status in found}
        names = {path.removeprefix(root) for path in paths}
        return {name for name in names if not name.startswith("_") and ".crc" not in name}


def named(batch: int, query: str = QUERY, partition: int = 0) -> str:
    """A name as a task gives it; each is new."""
    unique = uuid.uuid4().hex[:12]
    return f"part-{partition:05d}-{named_after(query, batch)}-7-{unique}-c000.snappy.parquet"


@pytest.mark.stores("raw", "crc", "hdfs", "s3")
def test_only_what_can_never_be_committed_is_removed(store: Store) -> None:
    """Files of batches that the log has, which it does not list, in directories of columns too."""
    stream = Stream(store)
    kept = {
        *stream.names,
        stream.add(f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"),  # as Spark names files
        stream.add(named(0).replace("-c000", "")),
        stream.add("notes.txt"),
    }
    strays = {
        stream.add(named(0)),
        stream.add(f"day=1/{named(0, partition=123456)}"),
        stream.add(named(7, ANOTHER)),  # which was refused
    }
    next_batch = {stream.add(named(1)), stream.add(named(1))}
    assert stream.vacuum(older_than=3600) == 0
    assert stream.names == kept | strays | next_batch
    assert stream.vacuum() == len(strays)
    assert stream.names == kept | next_batch
    # The query goes on: one of the two was of a killed attempt.
    committed, _killed = sorted(next_batch)
    stream.commit(1, committed)
    assert stream.vacuum() == 1
    assert stream.names == kept | {committed}
    assert stream.vacuum() == 0


@pytest.mark.stores("raw")
def test_a_query_may_go_on_beside_a_vacuum(store: Store) -> None:
    """Whatever was written before it, in whichever order, is there when its batch is committed."""
    stream = Stream(store)
    for batch in range(1, 12):  # over a compact file
        written = [stream.add(named(batch)) for _ in range(3)]
        assert stream.vacuum() == int(batch > 1)
        stream.commit(batch, *written[:2])
    listed = {file.path.rpartition("/")[2] for file in stream.log.all_files()}
    assert stream.vacuum() == 1
    assert stream.names == listed


@pytest.mark.stores("raw")
def test_without_an_owner_nothing_is_removed(store: Store) -> None:
    """Spark's own sink has written there, or nobody knows who: its files are not ours."""
    stream = Stream(store)
    stray = stream.add(named(0))
    store.fs.delete(store.path("out", "_hflush", "query"))
    assert stream.vacuum() == 0
    assert stray in stream.names
    store.fs.create(store.path("out", "_hflush", "query"), overwrite=True).close()
    with pytest.raises(ValueError, match="does not name a query"):
        stream.vacuum()
    assert stray in stream.names


@pytest.mark.stores("raw")
def test_where_jobs_write_files_of_queries_are_removed(store: Store) -> None:
    """A query is refused there, so that its log will never list them."""
    stream = Stream(store)
    kept = {*stream.names, stream.add("part-of-a-job")}
    stream.add(named(0))
    store.fs.delete(store.path("out", "_hflush", "query"))
    store.fs.create(f"{stream.url}/_SUCCESS").close()
    assert stream.vacuum() == 1
    assert stream.names == kept


@pytest.mark.stores("raw")
def test_without_a_log_nothing_is_removed(store: Store) -> None:
    """Readers go by the listing: files of a query that were moved there are rows."""
    url = store.url(store.path("out"))
    for name in ("_SUCCESS", named(0)):
        store.fs.create(f"{url}/{name}").close()
    assert vacuum(url, store.conf, older_than=0).strays == 0


@pytest.mark.stores("raw")
def test_the_command_says_what_it_did(store: Store) -> None:
    stream = Stream(store)
    stream.add(named(0))
    command = [sys.executable, "-m", "hflush.cli", "vacuum", stream.url, "--older-than", "0s"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "0 leftovers of jobs removed\n1 files of killed batches removed\n"
