"""What the tasks of a job did, as its commit remembers it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...statistics import IOStatistics, aggregate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["NO_REPORT", "Report", "TaskReport"]


@dataclass(frozen=True)
class TaskReport:
    """What one attempt of a task did: the one that Spark has chosen.

    Attributes
    ----------
    partition, attempt : int
        The number of the task's partition, and Spark's id of the attempt.
    files, rows, length : int
        How many files it has written, with how many rows and bytes.
    syncs : int
        Calls of ``hflush`` and ``hsync``.
    stalls : int
        How often bytes waited for a second or longer until a DataNode acknowledged anything: of
        HDFS, else 0.
    seconds : float
        From its first row to its last closed file.
    """

    partition: int
    attempt: int
    files: int
    rows: int
    length: int
    syncs: int
    stalls: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"task {self.partition} (attempt {self.attempt}): "
            f"{counted(self.rows, self.files, self.length, self.syncs, self.stalls)}, "
            f"{self.seconds:.1f} s"
        )


@dataclass(frozen=True)
class Report:
    """What the tasks of a job did together.

    Attributes
    ----------
    tasks : tuple of TaskReport
        By their partitions. Tasks without rows are not among them.
    statistics : dict
        Of their streams, merged: :meth:`io_statistics` as plain dictionaries.
    """

    tasks: tuple[TaskReport, ...] = ()
    statistics: dict[str, dict[str, Any]] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, reports: Iterable[tuple[TaskReport, IOStatistics]]) -> Report:
        """Return the report of tasks and the statistics of the streams of each."""
        found = sorted(reports, key=lambda one: (one[0].partition, one[0].attempt))
        if not found:
            return cls()
        merged = aggregate(statistics for _, statistics in found)
        return cls(tuple(task for task, _ in found), merged.to_dict())

    @classmethod
    def of_document(cls, document: Mapping[str, Any] | None) -> Report:
        """Return the inverse of :func:`dataclasses.asdict`; of None, the report of no tasks.

        Raises
        ------
        KeyError, TypeError
            It is not that.
        """
        if document is None:  # files of versions that had no reports
            return NO_REPORT
        return cls(tuple(TaskReport(**task) for task in document["tasks"]), document["statistics"])

    @property
    def syncs(self) -> int:
        """Calls of ``hflush`` and ``hsync``, of all tasks."""
        return sum(task.syncs for task in self.tasks)

    @property
    def stalls(self) -> int:
        """Waits of a second or longer, of all tasks."""
        return sum(task.stalls for task in self.tasks)

    def by_task(self) -> dict[str, list[int]]:
        """Return the counts of all tasks, a list of each: what a task has is at one place in all.

        Thus 10,000 tasks take some 250 kB of JSON, and not four times as many.
        """
        return {
            "partition": [task.partition for task in self.tasks],
            "rows": [task.rows for task in self.tasks],
            "bytes": [task.length for task in self.tasks],
            "files": [task.files for task in self.tasks],
            "syncs": [task.syncs for task in self.tasks],
            "stalls": [task.stalls for task in self.tasks],
        }

    def io_statistics(self) -> IOStatistics:
        """Return the statistics of all streams of all tasks, merged as :func:`.aggregate` does."""
        return IOStatistics.from_dict(self.statistics)

    def __str__(self) -> str:
        tasks = self.tasks
        counts = counted(
            sum(task.rows for task in tasks),
            sum(task.files for task in tasks),
            sum(task.length for task in tasks),
            self.syncs,
            self.stalls,
        )
        return f"{counts}, by {len(tasks)} tasks"


NO_REPORT = Report()


def counted(rows: int, files: int, length: int, syncs: int, stalls: int) -> str:
    """Return counts as a line of a log has them."""
    return f"{rows} rows, {files} files, {length} bytes, {syncs} syncs, {stalls} stalls"
