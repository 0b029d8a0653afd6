"""How far the writes of a program are, as a bar in its terminal or notebook, and how they ended.

The bar counts tasks, which Spark's driver knows of while they run; what they have written it knows
when they are committed.
"""

from __future__ import annotations

import logging
import sys
import threading
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .commit import Committer
from .session import activate, driver_conf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from pyspark.sql import SparkSession

    from ..namespace import Conf
    from .commit import Record

__all__ = ["Progress", "last_commit", "progress"]

_INTERVAL_S = 0.2

_log = logging.getLogger(__name__)


def last_commit(url: str, conf: Conf = None) -> Record | None:
    """Return what the last write to a destination has committed.

    Parameters
    ----------
    url : str
        What batch jobs have written to.
    conf : mapping, optional
        As for :meth:`hflush.FileSystem.get`.

    Returns
    -------
    Record or None
        Its counts; ``report.tasks`` has them by task, and ``report.io_statistics()`` is of all
        streams. None if nothing was committed.

    Raises
    ------
    ValueError
        The record is not what this version writes; the message names its file.
    OSError
        The store refuses.

    Notes
    -----
    Source: docs/spark.md.
    """
    return Committer(url, conf).log.look().last


class Progress:
    """What :func:`progress` yields.

    Attributes
    ----------
    record : Record or None
        What was committed to its `url` last, during the block: set at its end. None if nothing
        was, or if it cannot be found out: then there is a line in the log.

    Notes
    -----
    No record says which block it is of: where others write to the path, too, it may be theirs. A
    job's own has its ``commitId`` in ``record.job.identity``.
    """

    def __init__(self) -> None:
        self.record: Record | None = None


@contextmanager
def progress(
    spark: SparkSession,
    url: str | None = None,
    *,
    conf: Conf = None,
    file: TextIO | None = None,
) -> Iterator[Progress]:
    """Show the tasks of the jobs that the calling thread runs in a block.

    Parameters
    ----------
    spark : SparkSession
        Whose jobs they are.
    url : str, optional
        Where they write: then the bar ends with rows, files, bytes, syncs and stalls of what was
        committed there.
    conf : mapping, optional
        As for :meth:`hflush.FileSystem.get`, to look there; what the session has, its secrets
        included, unless given.
    file : text stream, optional
        Where the bar is; standard error unless given. Nothing is shown if it is no terminal,
        except in a notebook, which shows a bar of its own.

    Raises
    ------
    ImportError
        tqdm is missing: ``pip install "hflush[progress]"``.
    TypeError
        It is a session of Spark Connect, whose client has ``registerProgressHandler``.
    ValueError, OSError
        Before the block: as :func:`last_commit`. After it that is a line in the log.

    Notes
    -----
    In a thread other than the main one it lets Spark find the format, as :func:`options` does. It
    tags the jobs, and reads Spark's own counts five times a second. Spark's own bar
    (``spark.ui.showConsoleProgress``) would write to the same line: set it to false.

    Source: docs/spark.md.

    Examples
    --------
    >>> with progress(spark, url) as done:  # doctest: +SKIP
    ...     df.write.format("hflush").mode("append").save(url)
    >>> done.record.rows  # doctest: +SKIP
    """
    bar_of = _bar()
    if getattr(spark, "_jsparkSession", None) is None:
        raise TypeError(
            "progress: a session of Spark Connect does not tell of its tasks; use "
            "spark.registerProgressHandler"
        )
    activate(spark)
    done = Progress()
    if conf is None and url is not None:
        conf = driver_conf(spark)
    before = None if url is None else last_commit(url, conf)
    with bar_of(file) as bar, _tagged(spark) as tag:
        watch = _Watch(spark, tag, bar)
        if not bar.disable:
            watch.start()
        try:
            yield done
        finally:
            watch.stop()
        found = None if url is None else _last_now(url, conf)
        if found is not None and (before is None or found.number != before.number):
            done.record = found
            bar.set_postfix_str(_counts(found), refresh=True)


def _last_now(url: str, conf: Conf) -> Record | None:
    """Return the last commit, if the store tells it: the block has succeeded all the same."""
    try:
        return last_commit(url, conf)
    except Exception as failure:  # the writes are done
        _log.warning("%s: what was committed cannot be looked up: %s", url, failure)
        return None


def _bar() -> Any:
    """Return what makes a bar."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError(
            'hflush.spark.progress needs tqdm: pip install "hflush[progress]"'
        ) from None
    # Output of a notebook is no terminal, and shows a bar nevertheless.
    in_notebook = any(base.__module__ == "tqdm.notebook" for base in tqdm.__mro__)

    def bar_of(file: TextIO | None) -> Any:
        shown = file or sys.stderr  # None where a program runs without standard streams
        silent = not in_notebook and not (shown and shown.isatty())
        return tqdm(desc="hflush", unit="task", total=0, file=file, disable=silent, leave=True)

    return bar_of


@contextmanager
def _tagged(spark: SparkSession) -> Iterator[str]:
    """Tag the jobs of the calling thread."""
    tag = f"hflush-{uuid.uuid4().hex}"
    spark.sparkContext.addJobTag(tag)
    try:
        yield tag
    finally:
        if spark.sparkContext._jsc is not None:  # the block has not stopped it
            spark.sparkContext.removeJobTag(tag)


class _Watch:
    """A thread that moves a bar on as tasks end.

    Parameters
    ----------
    spark : SparkSession
        Asked for the state of the jobs.
    tag : str
        Of the jobs.
    bar : tqdm
        Used by the thread alone until :meth:`stop` returns.
    """

    def __init__(self, spark: SparkSession, tag: str, bar: Any) -> None:
        context: Any = spark.sparkContext._jsc
        self._tracker = context.sc().statusTracker()
        self._tag = tag
        self._bar = bar
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="hflush-progress", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Show the last state."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            is_last = self._over.wait(_INTERVAL_S)
            try:
                self._show()
            except Exception as failure:  # the block, or the end of its JVM, has stopped Spark
                _log.debug("the bar stops here: %s", failure)
                return
            if is_last:
                return

    def _show(self) -> None:
        total = ended = failed = 0
        for stage in self._stages():
            total += stage.numTasks()
            ended += stage.numCompletedTasks()
            failed += stage.numFailedTasks()
        self._bar.total = total
        self._bar.n = ended
        if failed:
            self._bar.set_postfix_str(f"{failed} attempts failed", refresh=False)
        self._bar.refresh()

    def _stages(self) -> Iterator[Any]:
        tracker = self._tracker
        for job in tracker.getJobIdsForTag(self._tag):
            found = tracker.getJobInfo(job)
            for stage in found.get().stageIds() if found.isDefined() else ():
                info = tracker.getStageInfo(stage)
                if info.isDefined():
                    yield info.get()


def _counts(record: Record) -> str:
    report = record.report
    return (
        f"{record.rows:,} rows, {record.files:,} files, {record.length:,} bytes, "
        f"{report.syncs:,} syncs, {report.stalls:,} stalls"
    )
