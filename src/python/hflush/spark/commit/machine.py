"""The decisions of a commit, without I/O: events go in, the next action comes out.

The commits of a destination are numbered. An intent takes the next number, which one writer wins
(an exclusive create); a record with the same number says that everything in the intent has
happened. A writer that finds an intent without a record carries it out before anything else, as
its owner would: each step may be done twice, by anyone, in any order with another's same step.

An intent is *void* if records have reached its number, but none is its own: its writer was asleep
since it had looked, and others have used the number meanwhile. It is not carried out; its writer
takes it back and looks again. A record has the ids of the latest jobs: they alone say what became
of an intent, never a file that is missing.

A machine belongs to one call of one process. It keeps nothing that survives it: what it has to know
after a crash is in the intent.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TypeAlias

from .layout import is_named_after
from .records import MAX_JOBS, Found, Intent, Job, Mode, Record, StagedFile, digest
from .reports import NO_REPORT, Report

__all__ = [
    "MAX_LISTINGS",
    "Action",
    "Clean",
    "Cleaned",
    "Declare",
    "Declared",
    "Discard",
    "Discarded",
    "End",
    "Event",
    "Finish",
    "Finished",
    "JobCommit",
    "JobStart",
    "Look",
    "Lost",
    "Outcome",
    "Publish",
    "Published",
    "Reading",
    "Remove",
    "Removed",
    "RollForward",
    "Seen",
    "Survey",
    "Surveyed",
    "Taken",
    "Verified",
    "Verify",
    "Withdraw",
    "Withdrawn",
]

# How often files are listed for one action, where other commits change them meanwhile.
MAX_LISTINGS = 20


class Outcome(str, enum.Enum):
    """How a commit ended."""

    COMMITTED = "committed"
    REPLAYED = "replayed"  # it had been committed by an earlier run: the new files are dropped
    IGNORED = "ignored"  # Mode.IGNORE, and there were files
    REFUSED = "refused"  # Mode.CREATE, and there were files
    MISFIT = "misfit"  # the files that are there have other partition columns: see End.columns
    LOST = "lost"  # staged files are gone: see End.paths
    OVERTAKEN = "overtaken"  # others have committed during each of MAX_LISTINGS listings
    UNKNOWN = "unknown"  # the process was asleep while very many others committed
    CLEAN = "clean"  # of RollForward: nothing is unfinished; of JobStart: there is work to do
    READ = "read"  # of Reading: see End.paths


# --- actions: what the shell is to do ---


@dataclass(frozen=True)
class Look:
    """Read the latest record, and the intent after it."""


@dataclass(frozen=True)
class Verify:
    """See that staged files are there, whole."""

    job: Job
    files: tuple[StagedFile, ...]


@dataclass(frozen=True)
class Survey:
    """List the visible files of the destination, or of some of its directories only."""

    directories: tuple[str, ...] | None


@dataclass(frozen=True)
class Declare:
    """Write an intent, unless the number is taken."""

    number: int
    intent: Intent


@dataclass(frozen=True)
class Withdraw:
    """Remove the own intent, which is void."""

    number: int


@dataclass(frozen=True)
class Publish:
    """Make every file of an intent visible; those that are visible already are fine."""

    intent: Intent


@dataclass(frozen=True)
class Remove:
    """Remove files, unless they were found otherwise; missing ones are fine."""

    paths: tuple[str, ...]
    found: tuple[Found, ...] = ()


@dataclass(frozen=True)
class Finish:
    """Write a record; the same one that is there already is fine."""

    record: Record


@dataclass(frozen=True)
class Clean:
    """Remove an intent that has its record, the staging of its job, and what is older."""

    number: int
    job: Job


@dataclass(frozen=True)
class Discard:
    """Drop the staged files of the own job."""

    job: Job
    files: tuple[StagedFile, ...]


@dataclass(frozen=True)
class End:
    """Nothing more is to be done."""

    outcome: Outcome
    number: int | None = None
    paths: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


Action: TypeAlias = (
    Look | Verify | Survey | Declare | Withdraw | Publish | Remove | Finish | Clean | Discard | End
)

# --- events: what the shell answers ---


@dataclass(frozen=True)
class Seen:
    """To Look."""

    last: Record | None
    unfinished: Intent | None

    @property
    def next_number(self) -> int:
        """The number that is not finished yet."""
        return 0 if self.last is None else self.last.number + 1

    @property
    def partition_by(self) -> tuple[str, ...] | None:
        """The partition columns of all files, once the intent is carried out; None: not known."""
        last = self.last
        if self.unfinished is not None:
            last = Record.of(self.next_number, self.unfinished, last)
        return None if last is None else last.partition_by

    def jobs_since(self, number: int) -> frozenset[str] | None:
        """Return the same as :meth:`Record.jobs_since`."""
        return frozenset() if self.last is None else self.last.jobs_since(number)


@dataclass(frozen=True)
class Verified:
    """To Verify: all are there."""


@dataclass(frozen=True)
class Surveyed:
    """To Survey."""

    paths: tuple[str, ...]


@dataclass(frozen=True)
class Declared:
    """To Declare: it is written."""


@dataclass(frozen=True)
class Taken:
    """To Declare: another writer has the number."""


@dataclass(frozen=True)
class Withdrawn:
    """To Withdraw."""


@dataclass(frozen=True)
class Published:
    """To Publish."""


@dataclass(frozen=True)
class Lost:
    """To Verify or Publish: some are neither staged nor published."""

    paths: tuple[str, ...]


@dataclass(frozen=True)
class Removed:
    """To Remove."""


@dataclass(frozen=True)
class Finished:
    """To Finish."""


@dataclass(frozen=True)
class Cleaned:
    """To Clean."""


@dataclass(frozen=True)
class Discarded:
    """To Discard."""


Event: TypeAlias = (
    Seen
    | Verified
    | Surveyed
    | Declared
    | Taken
    | Withdrawn
    | Published
    | Lost
    | Removed
    | Finished
    | Cleaned
    | Discarded
)


class RollForward:
    """Carries out the intent that another writer left, if there is one."""

    def __init__(self) -> None:
        self._seen = Seen(None, None)
        self._lost: tuple[str, ...] = ()

    def start(self) -> Action:
        """Return the first action."""
        return Look()

    def on(self, event: Event) -> Action:
        """Return the action after an event."""
        if isinstance(event, Seen):
            return self._on_seen(event)
        return self._carry_out(event) or Look()

    def _on_seen(self, seen: Seen) -> Action:
        if self._lost and seen.next_number == self._seen.next_number:
            return End(Outcome.LOST, seen.next_number, self._lost)
        self._lost = ()  # another writer has finished it
        self._seen = seen
        return Publish(seen.unfinished) if seen.unfinished is not None else self._idle(seen)

    def _idle(self, seen: Seen) -> Action:
        return End(Outcome.CLEAN, seen.next_number - 1)

    def _carry_out(self, event: Event) -> Action | None:
        """Return the next step of the unfinished intent; None if what is there is to be seen."""
        intent, number = self._seen.unfinished, self._seen.next_number
        assert intent is not None
        if isinstance(event, Lost):
            self._lost = event.paths
            return None
        if isinstance(event, Published) and intent.removes:
            return Remove(intent.removes, intent.found)
        if isinstance(event, (Published, Removed)):
            return Finish(Record.of(number, intent, self._seen.last))
        if isinstance(event, Finished):
            return Clean(number, intent.job)
        assert isinstance(event, Cleaned), event
        return None


class _OfJob(RollForward):
    """What has a job, which files that are there may stop."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self._job = job
        # How files have stopped the job, and the number that was next when they were listed.
        self._stopped: tuple[Outcome | None, int] = (None, -1)
        self._listings = 0

    def _list(self, directories: tuple[str, ...] | None = None) -> Action:
        """List what is there, unless commits of others have overtaken too many listings."""
        self._listings += 1
        if self._listings > MAX_LISTINGS:
            return End(Outcome.OVERTAKEN, self._seen.next_number)
        return Survey(directories)

    def _stop(self, found: tuple[str, ...]) -> Look | None:
        """Look again if files stop the job: they may be of a commit that was declared meanwhile."""
        outcome = None
        if found and self._job.mode is Mode.IGNORE:
            outcome = Outcome.IGNORED
        elif found and self._job.mode is Mode.CREATE:
            outcome = Outcome.REFUSED
        self._stopped = outcome, self._seen.next_number
        return None if outcome is None else Look()

    def _stopped_at(self, seen: Seen) -> Outcome | None:
        """Return how files have stopped the job, unless commits since may have removed them."""
        outcome, number = self._stopped
        return outcome if seen.jobs_since(number) is not None else None


class JobStart(_OfJob):
    """Tells before the tasks of a job begin whether its commit will take what they write.

    What a killed writer has declared counts, too: it is carried out first. That is for jobs whose
    mode asks for what is there; any other may begin.

    Parameters
    ----------
    job : Job
        With the mode CREATE or IGNORE.
    """

    def on(self, event: Event) -> Action:
        """Return the action after an event."""
        if isinstance(event, Surveyed):
            again = self._stop(event.paths)
            return End(Outcome.CLEAN) if again is None else again
        return super().on(event)

    def _idle(self, seen: Seen) -> Action:
        identity = self._job.identity
        if identity is not None and seen.last is not None and seen.last.has(identity):
            return End(Outcome.REPLAYED)
        stopped = self._stopped_at(seen)
        return self._list() if stopped is None else End(stopped)


class JobCommit(_OfJob):
    """Commits the files of one job, after whatever others have left unfinished.

    Parameters
    ----------
    job : Job
        Whose commit it is. Once its intent is written, a second machine for the same job finishes
        that one.
    files : tuple of StagedFile
        What its tasks have staged.
    report : Report, optional
        What they did: for the record.
    """

    def __init__(self, job: Job, files: tuple[StagedFile, ...], report: Report = NO_REPORT) -> None:
        super().__init__(job)
        self._files = files
        self._intent = Intent(job, files, (), report)
        self._own: int | None = None  # the number of the own intent
        self._completes = False  # what an earlier run of the same has declared
        self._ends: End | None = None  # after the staged files are dropped
        # What was not staged any more, and the number that was next then.
        self._missing: tuple[tuple[str, ...], int] = ((), -1)

    def on(self, event: Event) -> Action:
        """Return the action after an event."""
        if isinstance(event, Seen):
            return self._on_seen(event)
        if isinstance(event, Lost) and self._seen.unfinished is None:
            self._missing = event.paths, self._seen.next_number
            return Look()
        if isinstance(event, Verified):
            return self._survey()
        if isinstance(event, Surveyed):
            return self._on_surveyed(event.paths)
        if isinstance(event, Declared):
            self._own = self._seen.next_number
            return Look()
        if isinstance(event, Withdrawn):
            self._own = None
            return Look()
        if isinstance(event, Taken):
            return Look()
        if isinstance(event, Cleaned) and _is_of(self._seen.unfinished, self._job):
            return End(Outcome.COMMITTED, self._seen.next_number)  # whatever the store shows by now
        if isinstance(event, Discarded):
            assert self._ends is not None
            return self._ends
        return self._carry_out(event) or Look()

    def _on_seen(self, seen: Seen) -> Action:
        if self._own is not None and seen.last is not None and seen.last.number >= self._own:
            return self._on_passed(seen.last, self._own)
        if self._own is None and _is_of(seen.unfinished, self._job):
            self._own = seen.next_number  # of an earlier call
        self._completes = self._completes or self._repeats(seen.unfinished)
        return super()._on_seen(seen)

    def _on_passed(self, last: Record, own: int) -> Action:
        """Tell what became of the own intent, now that records have reached its number."""
        if self._job.id in last.jobs:
            return End(Outcome.COMMITTED, own)
        if last.number - own >= MAX_JOBS:
            return End(Outcome.UNKNOWN, own)
        return Withdraw(own)

    def _idle(self, seen: Seen) -> Action:
        if self._is_repeated(seen.last):
            return self._discard(End(Outcome.REPLAYED))
        if (there := seen.partition_by) is not None and not self._job.fits(there):
            return self._discard(End(Outcome.MISFIT, columns=there))
        paths, number = self._missing
        if paths and number == seen.next_number:  # no other process has published them
            return End(Outcome.LOST, None, paths)
        if (stopped := self._stopped_at(seen)) is not None:
            return self._discard(End(stopped))
        return Verify(self._job, self._files)

    def _is_repeated(self, last: Record | None) -> bool:
        """Whether an earlier run of the same has committed these rows."""
        identity = self._job.identity
        if last is None:
            return False
        if self._job.id in last.jobs:
            return True
        if identity is not None:
            return last.has(identity)
        return self._completes

    def _repeats(self, unfinished: Intent | None) -> bool:
        """Whether an intent is of the append that this job found, which is of the same content.

        Its writer was killed, as far as can be known: a living one finishes it before this job
        comes to its commit.
        """
        return (
            unfinished is not None
            and self._job.mode is Mode.APPEND
            and self._job.follows == unfinished.job.id
            and digest(unfinished.files) == digest(self._files)
        )

    def _survey(self) -> Action:
        if self._job.mode is Mode.APPEND:
            return Declare(self._seen.next_number, self._intent)
        if self._job.mode is Mode.OVERWRITE_PARTITIONS:
            return self._list(tuple(sorted({file.directory for file in self._files})))
        return self._list()

    def _on_surveyed(self, found: tuple[str, ...]) -> Action:
        if (again := self._stop(found)) is not None:
            return again
        self._intent = replace(self._intent, removes=found)
        return Declare(self._seen.next_number, self._intent)

    def _discard(self, end: End) -> Action:
        self._ends = end
        return Discard(self._job, self._files)


class Reading:
    """Finds the files of one result: that of all commits up to one, and of none after it.

    A listing is not atomic, and an unfinished commit changes what is there meanwhile. It publishes
    all of its files before it removes any. A listing that has all that it publishes thus shows the
    new result, but for files that are going to be removed; one that has all that it removes shows
    the old one, beside new files. One that has neither was overtaken, and is made again.

    So is one during which commits came, unless they only added files that tell their jobs: without
    these it shows what was there before them. Who only appends thus keeps no reader waiting.
    """

    def __init__(self) -> None:
        self._seen: Seen | None = None
        self._found: frozenset[str] | None = None
        self._listings = 0

    def start(self) -> Action:
        """Return the first action."""
        return Look()

    def on(self, event: Event) -> Action:
        """Return the action after an event."""
        if isinstance(event, Surveyed):
            self._found = frozenset(event.paths)
            return Look()
        assert isinstance(event, Seen), event
        before, self._seen = self._seen, event
        if self._found is not None and before is not None:
            if event == before:
                result = self._result(self._found, event.unfinished)
            else:
                result = self._earlier(self._found, before, event)
            if result is not None:
                return End(Outcome.READ, before.next_number - 1, tuple(sorted(result)))
        if self._listings == MAX_LISTINGS:
            return End(Outcome.OVERTAKEN, event.next_number)
        self._listings += 1
        return Survey(None)

    def _result(self, found: frozenset[str], intent: Intent | None) -> frozenset[str] | None:
        """Return what is to be read of a listing; None if it shows no result."""
        if intent is None:
            return found
        new, old = {file.path for file in intent.files}, set(intent.removes)
        if new <= found:
            return found - old
        return found - new if old <= found else None

    def _earlier(self, found: frozenset[str], before: Seen, now: Seen) -> frozenset[str] | None:
        """Return what was there before commits that came meanwhile; None: more than files came."""
        jobs, intent = now.jobs_since(before.next_number), now.unfinished
        if jobs is None or (intent is not None and intent.removes):
            return None
        if intent is not None:
            found -= {file.path for file in intent.files}
        return frozenset(path for path in found if not is_named_after(path, jobs))


def _is_of(intent: Intent | None, job: Job) -> bool:
    return intent is not None and intent.job.id == job.id
