"""The values of a commit, and how they are written: JSON in ASCII, one document a file."""

from __future__ import annotations

import enum
import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from ...paths import is_normal
from .layout import are_same, is_named_after
from .reports import NO_REPORT, Report

__all__ = [
    "MAX_JOBS",
    "Identity",
    "Intent",
    "Job",
    "Mode",
    "Record",
    "StagedFile",
    "check_below",
    "digest",
]

_VERSION = 1
# Of how many named writers a directory remembers the last batch.
_MAX_WRITERS = 1000
# Of how many jobs a record has the ids.
MAX_JOBS = 200


class Mode(str, enum.Enum):
    """What happens to the files that are there."""

    APPEND = "append"  # they stay
    OVERWRITE = "overwrite"  # all of them go
    OVERWRITE_PARTITIONS = "overwrite-partitions"  # those in directories that are written go
    CREATE = "create"  # there must be none
    IGNORE = "ignore"  # if there are any, nothing is written

    @property
    def keeps(self) -> bool:
        """Whether readers find what is written beside files that were there."""
        return self in (Mode.APPEND, Mode.OVERWRITE_PARTITIONS)


@dataclass(frozen=True)
class StagedFile:
    """A file that a task has completed, and that is not visible yet.

    Attributes
    ----------
    path : str
        Where it will be, relative to the destination: ``day=1/part-00000-….parquet``.
    handle : str
        What its staging needs to publish it: a path below the staging directory, or a pending
        commit.
    rows, length, crc32c : int
        Of the whole file; the length in bytes.
    """

    path: str
    handle: str
    rows: int
    length: int
    crc32c: int

    @property
    def directory(self) -> str:
        """The directory of :attr:`path`; empty for the destination itself."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True)
class Identity:
    """Who writes, beyond one run: the same batch of the same writer is committed once.

    Attributes
    ----------
    writer : str
        A name that a run which repeats this one has, too: a job's, or the id of a query.
    batch : int
        Counts up; a batch at or below the last one of its writer has been committed.
    """

    writer: str
    batch: int


@dataclass(frozen=True)
class Job:
    """One run that writes to a destination.

    Attributes
    ----------
    id : str
        Unique: a UUID's hexadecimal digits.
    mode : Mode
        What happens to the files that are there.
    identity : Identity or None
        Recognises the run that repeats one.
    follows : str
        The id of the append that was unfinished when this job began; empty if there was none. If it
        still is when this job commits, an append of the same content repeats it (:func:`digest`).
    partition_by : tuple of str or None
        The columns that the directories of its files name; None: not known, and not checked.
    """

    id: str
    mode: Mode = Mode.APPEND
    identity: Identity | None = None
    follows: str = ""
    partition_by: tuple[str, ...] | None = None

    def fits(self, there: tuple[str, ...]) -> bool:
        """Whether it may commit where files have these partition columns."""
        columns = self.partition_by
        return columns is None or not self.mode.keeps or are_same(there, columns)


class Found(NamedTuple):
    """A file that is to be removed, as it was when that was declared."""

    path: str
    modified_ns: int
    length: int


@dataclass(frozen=True)
class Intent:
    """What is going to be: once it is written, it happens, by this process or by another."""

    job: Job
    files: tuple[StagedFile, ...]
    removes: tuple[str, ...] = ()
    report: Report = NO_REPORT
    found: tuple[Found, ...] = ()  # those of `removes` whose names others may use, too

    def to_bytes(self) -> bytes:
        """Return it as JSON."""
        return _dumped(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Intent:
        """Return the inverse of :meth:`to_bytes`; ValueError if it is not that.

        Who carries it out may have other rights than its writer: it leads to nothing outside the
        destination.
        """
        document = _loaded(data, "an intent")
        try:
            intent = cls(
                _job(document["job"]),
                tuple(StagedFile(**file) for file in document["files"]),
                tuple(document["removes"]),
                Report.of_document(document.get("report")),
                tuple(Found(*found) for found in document.get("found", ())),
            )
            staged, found = (file.path for file in intent.files), (one.path for one in intent.found)
            for path in (*intent.removes, *staged, *found):
                check_below(path)
            return intent
        except (KeyError, TypeError, ValueError) as odd:
            raise ValueError(f"not an intent of a commit: {odd}") from None


@dataclass(frozen=True)
class Record:
    """A commit that is complete.

    Attributes
    ----------
    number : int
        0 for the first of the destination, then 1 more each.
    job : Job
        Whose it was.
    files, rows, length : int
        How many files it published, with how many rows and bytes.
    removed : int
        How many files it removed.
    jobs : tuple of str
        The ids of the latest jobs, this one's last.
    writers : tuple of (str, int)
        The last batch of each named writer, this one's too; the latest writer last.
    report : Report
        What its tasks did.
    partition_by : tuple of str or None
        The partition columns of all files that are there now; None: not known, or no file is.
    adds_since : int
        All commits from this number on have only added files, whose names have the id of their job
        between dashes. One more than `number`: this one has not.
    """

    number: int
    job: Job
    files: int
    rows: int
    length: int
    removed: int
    jobs: tuple[str, ...] = ()
    writers: tuple[tuple[str, int], ...] = ()
    report: Report = NO_REPORT
    partition_by: tuple[str, ...] | None = None
    adds_since: int = 0

    @classmethod
    def of(cls, number: int, intent: Intent, before: Record | None) -> Record:
        """Return the record of an intent that is the next one after `before`."""
        writers = dict(before.writers) if before is not None else {}
        identity = intent.job.identity
        if identity is not None:
            writers.pop(identity.writer, None)
            writers[identity.writer] = identity.batch
        return cls(
            number,
            intent.job,
            len(intent.files),
            sum(file.rows for file in intent.files),
            sum(file.length for file in intent.files),
            len(intent.removes),
            (*(before.jobs if before is not None else ()), intent.job.id)[-MAX_JOBS:],
            tuple(writers.items())[-_MAX_WRITERS:],
            intent.report,
            _columns_after(intent, before),
            _adds_since(number, intent, before),
        )

    def has(self, identity: Identity) -> bool:
        """Whether a batch was committed by now."""
        return dict(self.writers).get(identity.writer, -1) >= identity.batch

    def jobs_since(self, number: int) -> frozenset[str] | None:
        """Return the ids of the jobs from a commit on, if these only added files named after them.

        None: one has not, or there are more than are remembered.
        """
        count = self.number + 1 - number
        if self.adds_since > number or count > len(self.jobs):
            return None
        return frozenset(self.jobs[len(self.jobs) - count :])

    def to_bytes(self) -> bytes:
        """Return it as JSON."""
        return _dumped(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Record:
        """Return the inverse of :meth:`to_bytes`; ValueError if it is not that."""
        document = _loaded(data, "a record")
        try:
            writers = tuple((str(name), int(batch)) for name, batch in document.pop("writers"))
            jobs = tuple(str(job) for job in document.pop("jobs"))
            job = _job(document.pop("job"))
            report = Report.of_document(document.pop("report", None))
            columns = _columns(document.pop("partition_by", None))
            document.setdefault("adds_since", document["number"] + 1)
            return cls(
                job=job,
                jobs=jobs,
                writers=writers,
                report=report,
                partition_by=columns,
                **document,
            )
        except (KeyError, TypeError, ValueError) as odd:
            raise ValueError(f"not a record of a commit: {odd}") from None


def digest(files: tuple[StagedFile, ...]) -> str:
    """Return what is equal for equal content: directories, rows, lengths and sums, not names."""
    content = sorted((file.directory, file.rows, file.length, file.crc32c) for file in files)
    return hashlib.sha256(json.dumps(content).encode("ascii")).hexdigest()


def check_below(path: str) -> None:
    """Refuse a path that is not one below a directory.

    Raises
    ------
    ValueError
        It is absolute or empty, or has dots or empty elements.
    """
    if not path or not is_normal(f"/{path}"):
        raise ValueError(f"{path!r} is no path below a directory")


def _job(document: dict[str, Any]) -> Job:
    identity = document["identity"]
    name = str(document["id"])
    if "/" in name:
        raise ValueError(f"{name!r} is no id of a job")
    check_below(name)
    return Job(
        name,
        Mode(document["mode"]),
        None if identity is None else Identity(**identity),
        str(document["follows"]),
        _columns(document.get("partition_by")),
    )


def _columns(found: list[str] | None) -> tuple[str, ...] | None:
    return None if found is None else tuple(map(str, found))


def _columns_after(intent: Intent, before: Record | None) -> tuple[str, ...] | None:
    if intent.files:
        return intent.job.partition_by
    return before.partition_by if before is not None and intent.job.mode.keeps else None


def _adds_since(number: int, intent: Intent, before: Record | None) -> int:
    job = frozenset((intent.job.id,))
    if intent.removes or not all(is_named_after(file.path, job) for file in intent.files):
        return number + 1
    return number if before is None else before.adds_since


def _dumped(document: dict[str, Any]) -> bytes:
    return json.dumps({"version": _VERSION, **document}, separators=(",", ":")).encode("ascii")


def _loaded(data: bytes, what: str) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ValueError(f"not {what} of a commit: not a JSON object")
    version = document.pop("version", None)
    if version != _VERSION:
        raise ValueError(f"not {what} of a commit of version {_VERSION}: its version is {version}")
    return document
