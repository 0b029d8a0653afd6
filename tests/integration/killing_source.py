"""Data sources whose tasks and commits fail, for tests: Spark's workers import this module."""

from __future__ import annotations

import itertools
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import hflush
from faults.commit_writer import counting, through
from hflush.spark.settings import WriteSettings
from hflush.spark.source import HflushDataSource
from hflush.spark.stream import StreamWriter
from hflush.spark.writer import BatchWriter
from pyspark import TaskContext
from support.waiting import DEADLINE_S, wait_until


@dataclass(frozen=True)
class Faults:
    """What goes wrong: options of the format, beside those of hflush.

    Attributes
    ----------
    killcommitbefore : int
        The call of the store before which the commit dies; 0: none.
    killedcalls : str
        The name of the calls that count for it, as `rename`; all do if empty.
    inbatch : int
        Of a stream: whose commit that is.
    driver : int
        The process id of a JVM that dies with the commit; 0: none.
    failtasks : str
        How the first attempt of each task ends after some rows: ``raise`` or ``kill``; or that each
        attempt raises, ``always``.
    killtasksbefore : int
        The call before which the first attempt of each task dies; -1: of partition N before the
        call N + 1, then from the first call again.
    ofcalls : int
        How many calls a task makes.
    losesshuffle : str
        If not empty, the files of all shuffles go when the first task has written its rows.
    straggles : str
        If not empty, a directory: the first attempt of the first task waits after some rows until
        the job is committed, and writes on then. What comes to pass leaves files there: ``copy`` by
        the second attempt, ``committed``, and ``late`` with how the first one has ended.
    memory : int
        MiB of addresses that a task has (RLIMIT_AS), as with ``spark.executor.pyspark.memory``.
    forks : str
        If not empty, a directory: each task forks after some rows, and the child writes a file of
        its own there.
    """

    killcommitbefore: int = 0
    killedcalls: str = ""
    inbatch: int = 0
    driver: int = 0
    failtasks: str = ""
    killtasksbefore: int = 0
    ofcalls: int = 1
    losesshuffle: str = ""
    straggles: str = ""
    memory: int = 0
    forks: str = ""

    @classmethod
    def take(cls, options: dict[str, str]) -> Faults:
        """Take them out of the options of a write."""
        kinds = {name: type(value) for name, value in vars(cls()).items()}
        return cls(**{n: kinds[n](options.pop(n)) for n in list(options) if n in kinds})

    def in_commit(self) -> AbstractContextManager[None]:
        """What a commit runs in."""
        if not self.killcommitbefore:
            return nullcontext()
        return dying(self.killcommitbefore, self.driver, self.killedcalls)

    def write(self, write: Callable[[Iterator[Any]], Any], rows: Iterator[Any]) -> Any:
        """Do what a task does, with what goes wrong in its first attempt."""
        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        if self.forks:
            rows = self._forking(rows, partition)
        if self.memory:
            with limited(self.memory << 20):
                return write(rows)
        if self.failtasks == "always":
            return write(self._failing(rows))
        if context.attemptNumber() > 0:
            if self.straggles:
                Path(self.straggles, "copy").touch()
            return write(rows)
        call = self.killtasksbefore
        if call < 0:
            call = 1 + partition % self.ofcalls
        if self.failtasks:
            rows = self._failing(rows)
        if self.straggles and partition == 0:
            return self._late(write, rows)
        with dying(call) if call else nullcontext():
            written = write(rows)
        if self.losesshuffle and partition == 0:
            for directory in os.environ["SPARK_LOCAL_DIRS"].split(","):
                for file in Path(directory).rglob("shuffle_*"):
                    file.unlink()
        return written

    def _failing(self, rows: Iterator[Any]) -> Iterator[Any]:
        yield from itertools.islice(rows, 1)
        if self.failtasks == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError("the first attempt fails")

    def _forking(self, rows: Iterator[Any], partition: int) -> Iterator[Any]:
        yield from itertools.islice(rows, 1)
        child = os.fork()
        if child == 0:
            with hflush.open(f"{self.forks}/{partition}", "wb") as out:
                out.write(b"the child's")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        yield from rows

    def _late(self, write: Callable[[Iterator[Any]], Any], rows: Iterator[Any]) -> Any:
        """Write, the most of it after the commit of the job, and tell how that has ended."""
        directory = Path(self.straggles)

        def late() -> Iterator[Any]:
            yield from itertools.islice(rows, 1)
            wait_until((directory / "committed").exists, "the job is committed", 4 * DEADLINE_S)
            yield from rows

        ended = "as any other"
        try:
            return write(late())
        except Exception as failure:
            ended = repr(failure)
            raise
        finally:
            (directory / "ending").write_text(ended)
            (directory / "ending").rename(directory / "late")


@contextmanager
def limited(size: int) -> Iterator[None]:
    """A block in which this process has so many bytes of addresses, or gets no more if it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def dying(before: int, victim: int = 0, named: str = "") -> AbstractContextManager[None]:
    """A block in which this process is killed before a call of the store."""
    counted = partial(counting, calls=itertools.count(1), deadly=before, victim=victim)
    return through(lambda call: counted(call) if named in ("", call.__name__) else call)


class FailingWriter(BatchWriter):
    """A job in which something goes wrong."""

    faults = Faults()

    def commit(self, messages: Any) -> None:
        with self.faults.in_commit():
            super().commit(messages)
        if self.faults.straggles:
            Path(self.faults.straggles, "committed").touch()

    def write(self, iterator: Any) -> Any:
        return self.faults.write(super().write, iterator)


class FailingStreamWriter(StreamWriter):
    """A query in which something goes wrong."""

    faults = Faults()

    def commit(self, messages: Any, batchId: int) -> None:
        with self.faults.in_commit() if batchId == self.faults.inbatch else nullcontext():
            super().commit(messages, batchId)

    def write(self, iterator: Any) -> Any:
        return self.faults.write(super().write, iterator)


class FailingSource(HflushDataSource):
    """Takes the options of `Faults` beside those of hflush."""

    @classmethod
    def name(cls) -> str:
        return "hflush_failing"

    def writer(self, schema: Any, overwrite: bool) -> FailingWriter:
        options = dict(self.options)
        faults = Faults.take(options)
        writer = FailingWriter(WriteSettings.of(options, overwrite), schema)
        writer.faults = faults
        return writer

    def streamWriter(self, schema: Any, overwrite: bool) -> FailingStreamWriter:
        assert not overwrite
        options = dict(self.options)
        faults = Faults.take(options)
        writer = FailingStreamWriter(WriteSettings.of_stream(options), schema)
        writer.faults = faults
        return writer
