"""The writer that Spark calls: before the job, in its tasks, and after it."""

from __future__ import annotations

import logging
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ..errors import attach
from .commit import Committer, Identity, Job, Mode, Outcome, Report, StagedFile, TaskReport
from .logs import logged
from .task import TaskWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import types as t

    from ..statistics import IOStatistics
    from .settings import WriteSettings

__all__ = ["BatchWriter", "FilesWritten", "attached", "log_task"]

_log = logging.getLogger(__name__)

# The session's own, which only tasks hear of.
_OVERWRITES = "spark.sql.sources.partitionOverwriteMode"


@dataclass
class FilesWritten(WriterCommitMessage):
    """What a task tells the driver: the files that it has staged, and how it went."""

    files: tuple[StagedFile, ...] = ()
    report: tuple[TaskReport, IOStatistics] | None = None


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame in one commit.

    Made on the driver, then pickled: a copy in each task writes, another one on the driver commits.

    Raises
    ------
    TypeError, ValueError
        A column or an option that is not supported, or it adds to files that have other partition
        columns. Nothing was written.
    OSError
        The destination cannot be written.
    """

    def __init__(self, settings: WriteSettings, schema: t.StructType) -> None:
        self._settings = settings = settings.on_driver(schema)
        self._schema = schema
        committer = self._committer()
        committer.check()
        # Before anything is staged: an append that waits may be an earlier run of this job.
        seen = committer.log.look()
        waiting = seen.unfinished
        is_append = waiting is not None and waiting.job.mode is Mode.APPEND
        self._job = Job(
            uuid.uuid4().hex,
            settings.mode,
            Identity(settings.commit_id, 0) if settings.commit_id else None,
            waiting.job.id if is_append and waiting is not None else "",
            settings.partition_by,
        )
        columns = committer.check_columns(self._job, seen)
        self._job = replace(self._job, partition_by=columns)
        self._settings = replace(settings, directories_by=columns or ())
        self._start = committer.start(self._job)
        if self._start is Outcome.REFUSED:
            raise FileExistsError(f"{committer.url} has files, and ifExists=error")
        if not self._is_idle:
            committer.prepare(self._job)

    @property
    def _is_idle(self) -> bool:
        """Whether the tasks have nothing to write."""
        return self._start is not Outcome.CLEAN

    def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesWritten:
        """Stage the rows of one partition."""
        if self._is_idle:
            return FilesWritten()
        with logged(self._settings.log_level):
            return self._stage(iterator)

    def _stage(self, iterator: Iterator[pa.RecordBatch]) -> FilesWritten:
        context = TaskContext.get()
        assert context is not None
        settings = self._settings
        overwrites = str(context.getLocalProperty(_OVERWRITES)).lower()
        if settings.asks_session and overwrites == "dynamic":
            raise ValueError(
                f"option 'partitionOverwriteMode' is missing: {_OVERWRITES} of the session is "
                "dynamic, and all files would be replaced; set the option to dynamic or static"
            )
        columns = settings.format.schema(self._schema, settings.partition_by)
        partition = context.partitionId()
        task: TaskWriter | None = None
        try:
            for batch in iterator:
                if batch.num_rows and task is None:
                    task = self._task(columns, context)
                if batch.num_rows and task is not None:
                    task.write(batch)
            if task is None and partition == 0 and not settings.partition_by:
                task = self._task(columns, context)
                task.write_no_rows()
            if task is None:
                return FilesWritten()
            files, report = task.finish(), task.report()
            log_task(settings.url, report[0])
            return FilesWritten(files, report)
        except BaseException as failure:
            if task is not None:
                with attached(failure):
                    task.abort()
            raise

    def commit(self, messages: list[FilesWritten | None]) -> None:  # type: ignore[override]
        """Show the files of all tasks together."""
        with logged(self._settings.log_level):
            self._commit(messages)

    def _commit(self, messages: list[FilesWritten | None]) -> None:
        if self._is_idle:
            self._say_why_idle()
            return
        reports = (message.report for message in messages if message is not None)
        report = Report.of(one for one in reports if one is not None)
        committer, files = self._committer(), tuple(_files(messages))
        try:
            committer.check()  # a query may have begun since the job did
            end = committer.commit(self._job, files, report)
        except Exception as failure:
            if not committer.declares:  # which the process that aborts does not know
                with attached(failure):
                    committer.abort(self._job, files)
            raise
        if end.outcome is Outcome.REFUSED:
            raise FileExistsError(
                f"{self._settings.url} has got files since the job began, and ifExists=error"
            )
        _log.log(
            logging.INFO if end.outcome is Outcome.COMMITTED else logging.WARNING,
            "%s: job %s: %s: %s",
            self._settings.url,
            self._job.id,
            end.outcome.value,
            report,
        )

    def _say_why_idle(self) -> None:
        url, name = self._settings.url, self._settings.commit_id
        if self._start is Outcome.REPLAYED:
            _log.warning("%s has the commit of commitId=%s: nothing is written", url, name)
        else:
            _log.warning("%s has files, ifExists=ignore: nothing is written", url)

    def abort(self, messages: list[FilesWritten | None]) -> None:  # type: ignore[override]
        """Drop what the tasks have staged, unless the commit is declared: then it will happen.

        Of a task that failed there is no message. Where none did, the commit was tried.
        """
        if not self._is_idle:
            with logged(self._settings.log_level):
                tried = None not in messages
                self._committer().abort(self._job, _files(messages), after_commit=tried)

    def _committer(self) -> Committer:
        return Committer(self._settings.url, self._settings.conf)

    def _task(self, columns: pa.Schema, context: TaskContext) -> TaskWriter:
        return TaskWriter(
            self._job.id,
            partial(self._committer().attempt, self._job),
            self._settings.in_task(context),
            columns,
            context.partitionId(),
            context.taskAttemptId(),
        )


@contextmanager
def attached(failure: BaseException) -> Iterator[None]:
    """Clean up after a failure; what fails of that is a note of it, and is left to a sweep."""
    try:
        yield
    except OSError as another:
        attach(failure, another)


def log_task(url: str, report: TaskReport) -> None:
    """Say what a task did; loudly if it had to wait for its store."""
    _log.log(logging.WARNING if report.stalls else logging.INFO, "%s: %s", url, report)


def _files(messages: Iterable[FilesWritten | None]) -> Iterator[StagedFile]:
    for message in messages:
        if message is not None:
            yield from message.files
