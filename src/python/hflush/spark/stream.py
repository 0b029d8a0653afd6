"""The writer of a streaming query: each batch is in the files once.

Tasks write files under names that are never used again. A batch is visible when the driver has
added its files to Spark's own log, ``_spark_metadata`` in the destination, which one writer wins:
readers of Spark that are given the directory see what the log has, and nothing else. A batch that
Spark runs again is found in the log by its number, and its new files are dropped. The log has no
name of its query, so that Spark's own sink takes a second query for one that it has seen, and drops
its rows; here the query's id is kept beside it (:class:`Owner`), and another query is refused.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from .. import paths
from ..checkpoint import CheckpointFileManager, FileStreamSinkLog, SinkFileStatus
from ..errors import ParentNotDirectoryError
from ..filesystem import FileSystem
from .commit import Committer, Report, TaskReport
from .commit.layout import are_same, columns_of, misfit
from .commit.log import create_once
from .commit.staging import Attempt, acts_late, for_all
from .commit.strays import EPOCHS, Claim, claim_of, foreign_file, named_after, trace_of_jobs
from .logs import logged
from .task import TaskWriter
from .urls import below
from .writer import attached, log_task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import types as t

    from ..output import FSDataOutputStream
    from ..statistics import IOStatistics
    from .settings import WriteSettings

__all__ = ["BatchWritten", "ForeignQueryError", "StreamWriter"]

LOG = "_spark_metadata"
CONTROL = "_hflush"
# What rules the log of Spark's own sink. Only tasks hear what the session has set of it.
_SPARK = "spark.sql.streaming"
_SESSION_KEYS = (
    f"{_SPARK}.minBatchesToRetain",
    *(f"{_SPARK}.fileSink.log.{what}" for what in ("cleanupDelay", "compactInterval", "deletion")),
)

_log = logging.getLogger(__name__)


class ForeignQueryError(FileExistsError):
    """Another query has written to the destination."""

    __module__ = "hflush.spark"


@dataclass
class BatchWritten(WriterCommitMessage):
    """What a task tells the driver: its query and batch, and the files that it has written.

    `session` has the session's keys for the log, which Spark does not hand to the driver's process.
    """

    query: str
    batch: int
    session: dict[str, str]
    files: tuple[SinkFileStatus, ...] = ()
    report: tuple[TaskReport, IOStatistics] | None = None


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query.

    Made on the driver, for each batch and once more for its commits, and pickled to the tasks: it
    keeps nothing from one call to the next.

    Raises
    ------
    TypeError, ValueError
        A column or an option that is not supported, or the files that are there have other
        partition columns. Nothing was written.
    FileExistsError
        A batch job has written here, or another program.
    NotADirectoryError
        The path is a file.
    OSError
        The store refuses.
    """

    def __init__(self, settings: WriteSettings, schema: t.StructType) -> None:
        self._settings = settings = settings.on_driver(schema)
        self._schema = schema
        FileStreamSinkLog(self._log_url(), settings.conf)  # which refuses wrong options
        columns = self._owner().begin()
        self._settings = replace(settings, directories_by=columns)

    # --- in a task ---

    def write(self, iterator: Iterator[pa.RecordBatch]) -> BatchWritten:
        """Write the rows of one partition of a batch."""
        with logged(self._settings.log_level):
            return self._write(iterator)

    def _write(self, iterator: Iterator[pa.RecordBatch]) -> BatchWritten:
        context = TaskContext.get()
        assert context is not None
        query = str(context.getLocalProperty("sql.streaming.queryId"))
        batch = int(str(context.getLocalProperty("streaming.sql.batchId")))
        session = _session_keys(context)
        settings = self._settings.in_task(context)
        attempt = _Unlisted(settings)
        task = TaskWriter(
            named_after(query, batch),
            lambda name: attempt,  # noqa: ARG005 -- its files have names of their own
            settings,
            settings.format.schema(self._schema, settings.partition_by),
            context.partitionId(),
            context.taskAttemptId(),
        )
        # The first task of the query, so that readers find the columns.
        needs_file = batch == context.partitionId() == 0 and not settings.partition_by
        try:
            for part in iterator:
                if part.num_rows:
                    task.write(part)
                    needs_file = False
            if needs_file:
                task.write_no_rows()
            staged = task.finish()
            statuses = tuple(attempt.status(file.path) for file in staged)
        except BaseException as failure:
            with attached(failure):  # the files that are left are in no log
                task.abort()
            raise
        if not staged:
            return BatchWritten(query, batch, session)
        report = task.report()
        log_task(settings.url, report[0])
        return BatchWritten(query, batch, session, statuses, report)

    # --- on the driver ---

    def commit(  # type: ignore[override]
        self, messages: list[BatchWritten | None], batchId: int
    ) -> None:
        """Show the files of a batch, unless an earlier run of it has been shown.

        Raises
        ------
        ForeignQueryError
            Another query has written here.
        ValueError
            The files that are there have other partition columns.
        CorruptLogError
            A file of the log is damaged: one that is to be compacted, or that of an earlier run of
            the batch, of which readers see nothing. The new files stay.
        FileNotFoundError
            One is missing; or a file of the batch is on another machine.
        OSError
            The log cannot be written; the batch is run again.
        """
        with logged(self._settings.log_level):
            self._commit(messages, batchId)

    def _commit(self, messages: list[BatchWritten | None], batchId: int) -> None:
        written = [message for message in messages if message is not None]
        queries = {message.query for message in written}
        if len(queries) != 1 or any(message.batch != batchId for message in written):
            raise ValueError(
                f"{self._settings.url}: batch {batchId} has tasks of the queries {sorted(queries)} "
                f"and the batches {sorted({message.batch for message in written})}"
            )
        log = FileStreamSinkLog(
            self._log_url(),
            written[0].session | self._settings.conf,
            retention=self._settings.retention,
        )
        files = [file for message in written for file in message.files]
        try:
            latest = log.get_latest_batch_id()
            if log.manager.is_local and (latest is None or batchId > latest):
                self._look_for(files)
            self._owner().claim(queries.pop(), batchId, latest)
        except Exception:  # nothing has gone to the log, which the process that aborts cannot know
            self._drop(files)
            raise
        if not log.add(batchId, files):
            self._drop(files)
            _log.warning("%s: batch %d is in the log already: left out", self._url(), batchId)
            return
        reports = (message.report for message in written)
        report = Report.of(one for one in reports if one is not None)
        _log.info("%s: batch %d: %s", self._url(), batchId, report)

    def abort(  # type: ignore[override]
        self,
        messages: list[BatchWritten | None],
        batchId: int,
    ) -> None:
        """Drop the files of a batch that are not in the log.

        Of a task that failed there is no message. Where none did, the commit was tried: on a store
        that may add them to the log later they stay. Once the log has the batch, a vacuum knows.
        """
        files = [file for message in messages if message is not None for file in message.files]
        may_land = None not in messages and acts_late(self._filesystem(), self._url())
        if files and not may_land:
            log = FileStreamSinkLog(self._log_url(), self._settings.conf)
            listed = {file.path for file in log.all_files()}
            self._drop(file for file in files if file.path not in listed)
        self._owner().leave(batchId)  # Spark makes a writer for this call, and that the log

    def _look_for(self, files: list[SinkFileStatus]) -> None:
        """Refuse files that are on other machines, where readers do not find them."""
        there = for_all(self._filesystem().exists, [file.path for file in files])
        missing = [file.path for file, is_there in zip(files, there, strict=True) if not is_there]
        if missing:
            raise FileNotFoundError(
                errno.ENOENT,
                "commit: the file is not on this machine: a local path is another one on each. "
                "Write to a path that all of them share",
                missing[0],
            )

    def _drop(self, files: Iterable[SinkFileStatus]) -> None:
        filesystem = self._filesystem()
        for file in files:
            try:
                filesystem.delete(file.path)
            except OSError as failure:  # noqa: PERF203 -- it is in no log
                _log.warning("%s cannot be removed, and is in no log: %s", file.path, failure)

    def _owner(self) -> Owner:
        settings = self._settings
        columns = settings.directories_by or settings.partition_by
        return Owner(self._url(), settings.conf, columns)

    def _url(self) -> str:
        return self._filesystem().make_qualified(self._settings.url)

    def _log_url(self) -> str:
        return below(self._filesystem(), self._settings.url, LOG)

    def _filesystem(self) -> FileSystem:
        return FileSystem.get(self._settings.url, self._settings.conf)


def _session_keys(context: TaskContext) -> dict[str, str]:
    """Return what the session of a task's query has set for the log: Spark tells each task."""
    found = {key: context.getLocalProperty(key) for key in _SESSION_KEYS}
    return {key: str(value) for key, value in found.items() if value is not None}


class Owner:
    """The query that writes to a destination: the file ``_hflush/query`` in it.

    Parameters
    ----------
    url : str
        The destination, qualified.
    conf : mapping
        As for :meth:`hflush.FileSystem.get`.
    partition_by : tuple of str
        The partition columns of a query that is to write there; from its first batch on as the
        directories have them.
    """

    def __init__(self, url: str, conf: dict[str, str], partition_by: tuple[str, ...] = ()) -> None:
        self._url = url
        self._conf = conf
        self._partition_by = partition_by
        filesystem = FileSystem.get(url, conf)
        self._directory = below(filesystem, url, CONTROL)
        self._path = f"{self._directory}/query"
        self._log = below(filesystem, url, LOG)
        self._manager = CheckpointFileManager._of_one_winner(self._directory, conf)

    def begin(self) -> tuple[str, ...]:
        """Refuse what no query may write to; make the log, before files are at their places.

        Without it readers take files for rows that no batch has committed yet, and a query of Spark
        that reads here would do so as long as it runs.

        Returns
        -------
        tuple of str
            The partition columns as the files that are there have them, in their case.

        Raises
        ------
        FileExistsError
            A batch job has written here, or another program.
        NotADirectoryError
            It is a file.
        ValueError
            The files that are there have other partition columns.
        """
        claim = None
        with contextlib.suppress(NotADirectoryError, ParentNotDirectoryError):  # looked at below
            claim = claim_of(self._manager, self._path)
        if claim is not None:
            return self._check_columns(claim)
        if self._manager.filesystem.is_file(self._url):
            raise NotADirectoryError(
                errno.ENOTDIR, "writeStream: the path is a file. Write to another path", self._url
            )
        has_log = self._manager.exists(self._log)
        if not has_log:  # else files may be here already: the commit looks for jobs, and drops them
            self._refuse_jobs()
            self._refuse_files()
        columns = self._check_columns(None)
        if not has_log:
            self._manager.mkdirs(self._log)
            with self._without_log_if_refused():
                self._refuse_jobs()  # once more, now that one would see the log
        return columns

    def leave(self, batch: int) -> None:
        """Remove the log that is empty after a batch which no query can have begun with here."""
        if batch > 0 and claim_of(self._manager, self._path) is None:
            self._remove_empty_log()

    def _check_columns(self, claim: Claim | None) -> tuple[str, ...]:
        """Refuse columns that are not those of the claim, or where it has none, of the log's files.

        Return them as these have them. A claim has none after Spark's own sink, and after versions
        that did not write them down.
        """
        there = None if claim is None else claim.partition_by
        if there is None:
            log = FileStreamSinkLog(self._log, self._conf)
            there = columns_of((file.path for file in log.all_files()), self._url)
        if there is None:
            return self._partition_by
        if not are_same(there, self._partition_by):
            other_way = "write to another path, with a new checkpointLocation"
            raise misfit(self._url, there, self._partition_by, other_way)
        return there

    @contextlib.contextmanager
    def _without_log_if_refused(self, query: str = "") -> Iterator[None]:
        """Remove the log if it is empty and a query is refused: it hides what others write.

        That of another query stays, which hides what that one has not committed.
        """
        try:
            yield
        except (FileExistsError, FileNotFoundError):
            with contextlib.suppress(OSError, ValueError):
                found = claim_of(self._manager, self._path)
                if found is None or found.query == query:
                    self._remove_empty_log()
            raise

    def _remove_empty_log(self) -> None:
        with contextlib.suppress(OSError):  # which one that is not empty is
            self._manager.filesystem.delete(self._log)

    def claim(self, query: str, batch: int, latest: int | None) -> None:
        """Let a query go on; write down the first one, or one that goes on after Spark's sink.

        One that is refused leaves no log behind that is empty.

        Parameters
        ----------
        query : str
            Its id.
        batch : int
            What it commits.
        latest : int or None
            The last batch of the log.

        Raises
        ------
        ForeignQueryError
            Another one has written here.
        FileExistsError
            A batch job has.
        FileNotFoundError
            Its earlier batches are not here.
        ValueError
            It has other partition columns than its files that are here.
        """
        with self._without_log_if_refused(query):
            self._claim(query, batch, latest)

    def _claim(self, query: str, batch: int, latest: int | None) -> None:
        found = claim_of(self._manager, self._path)
        if found is None or latest is None:  # a job may have come since the claim
            self._refuse_jobs()
        if found is None:
            if latest is None and batch > 0:
                raise FileNotFoundError(
                    errno.ENOENT,
                    f"the query (id {query}) is at batch {batch}, and none before it is here: "
                    "write to the path that has them, or begin with a new checkpointLocation",
                    self._url,
                )
            if latest is not None and batch != latest + 1:
                own = (
                    f". If it was this query, with Spark's own sink, killed in batch {batch}: run "
                    "it with that sink once more, which ends the batch"
                )
                raise ForeignQueryError(
                    errno.EEXIST,
                    f"another query has written up to batch {latest} here, and this one (id "
                    f"{query}) is at batch {batch}: write to another path"
                    f"{own if batch == latest else ''}",
                    self._url,
                )
            found = self._write(query)
            if found is not None and found.query == query:
                self._confirm()
        if found is None or found.query != query:
            owner = None if found is None else found.query
            raise ForeignQueryError(
                errno.EEXIST,
                f"the query with the id {owner} writes here, and this one has the id {query}: "
                "write to another path, or go on with its checkpoint",
                self._url,
            )
        self._check_columns(found)
        if found.partition_by is None:
            self._write(query, anew=True)

    def _confirm(self) -> None:
        """Look once more for a job, now that one would see the query."""
        try:
            self._refuse_jobs()
        except FileExistsError:
            with contextlib.suppress(OSError):
                self._manager.delete(self._path)
            raise

    def _refuse_jobs(self) -> None:
        """Readers would not see any more what is there: they go by the log, once there is one."""
        if name := trace_of_jobs(self._manager, self._url):
            who = "a ForeachWriter" if name == EPOCHS else "a batch job"
            raise FileExistsError(
                errno.EEXIST,
                f"{name} shows that {who} has written files here, which readers would not "
                "see any more: write to another path",
                self._url,
            )

    def _refuse_files(self) -> None:
        """Readers would not see them either; who has made them need not have left a trace."""
        if path := foreign_file(Committer(self._url, self._conf)):
            raise FileExistsError(
                errno.EEXIST,
                f"{path} is a file of no query, and readers would not see it any more: write to "
                "another path, or move away what is there",
                self._url,
            )

    def _write(self, query: str, *, anew: bool = False) -> Claim | None:
        claim = Claim(query, self._partition_by)
        self._manager.mkdirs(self._directory)
        if create_once(self._manager, self._path, claim.to_bytes(), anew=anew):
            return claim
        return claim_of(self._manager, self._path)  # of two that begin one was first


class _Unlisted(Attempt):
    """Files at their places, which are in no log yet."""

    def __init__(self, settings: WriteSettings) -> None:
        self._fs = FileSystem.get(settings.url, settings.conf)
        self._path = self._fs._resolve(settings.url)
        self._given = settings.url.rstrip("/")
        self._created: list[str] = []

    def create(self, path: str) -> FSDataOutputStream:
        self._created.append(path)
        return self._fs.create(self._place(path), overwrite=False)

    def close(self, stream: FSDataOutputStream) -> str:
        stream.close()
        return paths.basename(stream.name)

    def drop(self, handles: list[str]) -> None:  # noqa: ARG002 -- open ones are among them, too
        for_all(self._fs.delete, [self._place(path) for path in self._created])

    def status(self, path: str) -> SinkFileStatus:
        """Return a file as the log has it: with the scheme that was given, which Spark can read."""
        found = SinkFileStatus.of(self._fs, self._fs.get_file_status(self._place(path)))
        return replace(found, path=f"{self._given}/{path}")

    def _place(self, path: str) -> str:
        return paths.child(self._path, path)
