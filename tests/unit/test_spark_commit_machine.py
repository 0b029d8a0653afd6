"""The machine of a job commit in every order of steps, killed at each, with others beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hflush.spark.commit import machine as m
from hflush.spark.commit.log import CommitLog
from hflush.spark.commit.records import Found, Identity, Intent, Job, Mode, Record, StagedFile
from support.commit_worlds import Process, World, expected, settle, step, walk

FILES_OF_A_JOB = 2

Work = tuple[Job, tuple[StagedFile, ...]]


def work(
    name: str, mode: Mode = Mode.APPEND, files: int = FILES_OF_A_JOB, **more: Any
) -> tuple[Job, tuple[StagedFile, ...]]:
    """A job and what its tasks have staged, in two directories, under names with its id."""
    staged = (
        StagedFile(f"k={i % 2}/{name}-{i}", f"a/{name}{i}", 1, 10 + i, 7) for i in range(files)
    )
    return Job(name, mode, **more), tuple(staged)


def wrong_with(world: World, processes: tuple[Process, ...], before: frozenset[str]) -> str:
    """Which promise is broken in the end; empty if none is."""
    if world.wrong:
        return world.wrong
    world, end = settle(world)
    if end.outcome is not m.Outcome.CLEAN:
        return f"cannot be finished: {end}"
    if world.visible != expected(world.history, before):
        return f"visible is {sorted(world.visible)} after {world.history}"
    committed = [intent.job.id for intent in world.history]
    if len(set(committed)) != len(committed):
        return f"committed twice: {committed}"
    for process in processes:
        for job, end in process.ended:
            is_in = end.outcome in (m.Outcome.COMMITTED, m.Outcome.REPLAYED)
            if is_in != (job in committed) and end.outcome is not m.Outcome.REPLAYED:
                return f"{job} ended with {end}, but {committed} were committed"
    return ""


def first_wrong(
    *processes: Process,
    machine_of: Callable[..., m.JobCommit] = m.JobCommit,
    before: frozenset[str] = frozenset(),
) -> tuple[str, int]:
    """The first broken promise in all orders, and how many ends there were."""
    ends = 0
    for world, those in walk(processes, machine_of, world=World(visible=before)):
        ends += 1
        if found := wrong_with(world, those, before):
            return found, ends
    return "", ends


MODES = [Mode.APPEND, Mode.OVERWRITE, Mode.OVERWRITE_PARTITIONS]
OLD = frozenset(("k=0/old", "k=2/old"))


@pytest.mark.parametrize("mode", MODES)
def test_a_driver_killed_anywhere_leaves_the_old_or_the_new_result(mode: Mode) -> None:
    """Killed before each step; who comes next finishes it, or finds nothing to finish."""
    found, ends = first_wrong(Process((work("a", mode),)), before=OLD)
    assert found == ""
    assert ends > 2 * FILES_OF_A_JOB


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Mode.APPEND, Mode.APPEND),
        (Mode.APPEND, Mode.OVERWRITE),
        (Mode.OVERWRITE, Mode.OVERWRITE),
        (Mode.OVERWRITE_PARTITIONS, Mode.OVERWRITE),
    ],
)
def test_two_drivers_at_once_come_one_after_the_other(first: Mode, second: Mode) -> None:
    """Each order of their steps, each killed anywhere: as if they had run in turn."""
    one, other = Process((work("a", first, 1),)), Process((work("b", second, 1),))
    found, ends = first_wrong(one, other, before=OLD)
    assert found == ""
    assert ends > 10


def test_a_driver_that_slept_through_others_publishes_in_its_turn() -> None:
    """Its number was used, finished and cleaned meanwhile: its intent is void."""
    others = (work("b", Mode.OVERWRITE, 1), work("c", Mode.APPEND, 1))
    asleep = Process((work("a", Mode.OVERWRITE, 1),))
    found, ends = first_wrong(asleep, Process(others))
    assert found == ""
    assert ends > 50


def test_a_void_intent_is_not_taken_for_the_one_that_was_listed_before() -> None:
    """A vacuum is slow between its listing and its reads, beside two writers of one number."""
    start, asleep, other = World(), Process((work("a", files=1),)), Process((work("b", files=1),))
    while not isinstance(asleep.action, m.Declare):
        start, asleep = step(start, asleep, m.JobCommit)
    while not isinstance(other.action, m.Publish):
        start, other = step(start, other, m.JobCommit)
    vacuum = Process(reader_of=m.RollForward)
    while vacuum.at < 2:
        start, vacuum = step(start, vacuum, m.JobCommit)
    ends = 0
    for world, processes in walk((asleep, other, vacuum), world=start, crashes=False):
        ends += 1
        assert wrong_with(world, processes, frozenset()) == ""
    assert ends > 1


def test_the_log_shows_no_void_intent(tmp_path: Path) -> None:
    """The same with the files of a log: 0.intent is replaced between a listing and the reading."""
    void, real = (Intent(*work(name)) for name in ("a", "b"))
    log = CommitLog(str(tmp_path / "commits"))

    class Slow(CommitLog):
        def _read(self, number: int, suffix: str, parse: Callable[[bytes], Any]) -> Any:
            if log.look().last is None:
                log.finish(Record.of(0, real, None))
                log.clean(0)
                log.declare(0, void)
            return super()._read(number, suffix, parse)

    log.make()
    log.declare(0, real)
    assert Slow(log.path).look() == m.Seen(Record.of(0, real, None), None)


def test_late_tasks_do_not_publish_and_bring_no_directory_back() -> None:
    """A task of each job may write at any time, also after the end."""
    late = (Process(late_task_of="a"), Process(late_task_of="b"))
    ends = 0
    one, other = Process((work("a", Mode.OVERWRITE, 1),)), Process((work("b", files=1),))
    for world, processes in walk((one, other, *late), crashes=False):
        ends += 1
        assert wrong_with(world, processes, frozenset()) == ""
        assert "late" not in world.visible
        assert world.staged == frozenset()
    assert ends == 2  # which of the two was first


def test_late_tasks_of_drivers_that_are_killed_do_not_publish() -> None:
    """The same, each driver killed anywhere: who comes next finishes, and has none of theirs."""
    late = (Process(late_task_of="a"), Process(late_task_of="b"))
    ends = 0
    one, other = Process((work("a", Mode.OVERWRITE, 1),)), Process((work("b", files=1),))
    for world, processes in walk((one, other, *late), world=World(visible=OLD)):
        ends += 1
        assert wrong_with(world, processes, OLD) == ""
        assert "late" not in world.visible
        assert {job for job, _ in world.staged} <= world.rooms
        assert world.staged == frozenset() or any(process.is_dead for process in processes)
    assert ends > 50


def test_a_commit_that_is_called_again_commits_once() -> None:
    """Two processes for the same job: each finishes what is declared."""
    same = work("a")
    found, _ = first_wrong(Process((same,)), Process((same,)))
    assert found == ""


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.OVERWRITE])
def test_a_named_run_is_committed_once(mode: Mode) -> None:
    """A run with the identity of an earlier one drops its files, wherever that was killed."""
    runs = [work(name, mode, 1, identity=Identity("nightly", 7)) for name in ("a", "b")]
    for world, _ in walk(tuple(Process((run,)) for run in runs)):
        settled, _ = settle(world)
        assert len(settled.history) <= 1
        assert len(settled.visible) == len(settled.history)


def test_an_append_that_was_killed_in_its_commit_and_runs_again_is_not_doubled() -> None:
    """The second run began while the intent waited, and has the same content."""
    job, files = work("a")
    for world, _ in walk((Process(((job, files),)),)):
        waiting = [i for n, i in world.intents if world.record(n) is None]
        follows = waiting[0].job.id if waiting else ""
        again = Job("b", Mode.APPEND, None, follows)
        new = tuple(StagedFile(f.path.replace("a", "b"), "x", *content(f)) for f in files)
        for after, (second,) in walk((Process(((again, new),)),), world=world, crashes=False):
            ended = second.ended[-1][1].outcome
            rows = sum(record.rows for _, record in after.records[-1:]) if after.records else 0
            assert rows == FILES_OF_A_JOB
            twice = len(after.visible) == 2 * FILES_OF_A_JOB
            # Only if the first had come to its record was nothing waiting: then it was complete.
            assert twice == (bool(world.history) and not waiting), (ended, world)
            if waiting:
                assert ended is m.Outcome.REPLAYED
        # Where its writer lives, and finishes it, the second is another job.
        for after, _ in walk((Process(((again, new),)),), world=settle(world)[0], crashes=False):
            assert len(after.visible) == FILES_OF_A_JOB * (1 + len(settle(world)[0].history))


def content(file: StagedFile) -> tuple[int, int, int]:
    return file.rows, file.length, file.crc32c


def test_files_that_are_there_stop_create_and_ignore() -> None:
    """Nothing is published, and nothing stays staged."""
    for mode, outcome in ((Mode.CREATE, m.Outcome.REFUSED), (Mode.IGNORE, m.Outcome.IGNORED)):
        start = World(visible=OLD)
        ((world, (process,)),) = walk((Process((work("a", mode),)),), world=start, crashes=False)
        assert process.ended[-1][1].outcome is outcome
        assert world.visible == OLD
        assert world.staged == frozenset()


@pytest.mark.parametrize(
    ("mode", "stopped"),
    [(Mode.CREATE, m.Outcome.REFUSED), (Mode.IGNORE, m.Outcome.IGNORED)],
)
@pytest.mark.parametrize("is_same", [False, True])
def test_a_job_that_files_stop_begins_with_what_was_declared(
    mode: Mode, stopped: m.Outcome, is_same: bool
) -> None:
    """Beside a driver killed anywhere, it is stopped by a commit that is whole, never by a part.

    If that is of an earlier run of the same job, this is told instead. So before its tasks begin,
    and in its commit.
    """
    identity = Identity("nightly", 7)
    first = Process((work("a", identity=identity),))
    again, files = work("b", mode, identity=identity if is_same else Identity("another", 7))
    told = m.Outcome.REPLAYED if is_same else stopped
    starts = Process(reader_of=lambda: m.JobStart(again))
    for second, goes_on in ((starts, m.Outcome.CLEAN), (Process(((again, files),)), None)):
        outcomes = set()
        for world, (_, ended) in walk((first, second)):
            if ended.is_dead:
                continue
            outcome = ended.ended[-1][1].outcome
            outcomes.add(outcome)
            if outcome is told:
                assert world.visible == {"k=0/a-0", "k=1/a-1"}
                assert world.record(0) is not None
        assert outcomes == {told, goes_on or m.Outcome.COMMITTED}


def test_a_job_that_files_stop_counts_those_that_are_there() -> None:
    """Of whatever kind; an earlier run is told before them."""
    job = Job("b", Mode.CREATE, Identity("nightly", 7))
    machine = m.JobStart(job)
    assert machine.start() == m.Look()
    assert machine.on(m.Seen(None, None)) == m.Survey(None)
    assert machine.on(m.Surveyed(())) == m.End(m.Outcome.CLEAN)
    assert machine.on(m.Surveyed(("x",))) == m.Look()
    assert machine.on(m.Seen(None, None)) == m.End(m.Outcome.REFUSED)
    last = Record.of(0, Intent(replace(job, id="a"), ()), None)
    assert machine.on(m.Seen(last, None)) == m.End(m.Outcome.REPLAYED)


COLUMNS: tuple[tuple[str, ...], ...] = (("day",), ("hour",))


def two_partitionings(machine_of: Callable[..., m.JobCommit] = m.JobCommit) -> set[int]:
    """How many partitionings were there in the end, of two first appends at once, in all orders."""
    one, other = (
        Process((work(name, files=1, partition_by=columns),))
        for name, columns in zip("ab", COLUMNS, strict=True)
    )
    counts = set()
    for world, processes in walk((one, other), machine_of):
        settled, _ = settle(world)
        counts.add(len({intent.job.partition_by for intent in settled.history}))
        if machine_of is m.JobCommit:
            assert wrong_with(world, processes, frozenset()) == ""
    return counts


def test_of_two_appends_with_other_partition_columns_one_is_refused() -> None:
    """Each driver killed anywhere: readers would miss the rows of one of them."""
    assert two_partitionings() == {0, 1}


class LooksAtNoColumns(m.JobCommit):
    """Trusts what was seen before the tasks began."""

    def _idle(self, seen: m.Seen) -> m.Action:
        last = seen.last and replace(seen.last, partition_by=None)
        return super()._idle(replace(seen, last=last))


def test_a_machine_that_looks_at_no_columns_is_found() -> None:
    assert two_partitionings(LooksAtNoColumns) == {0, 1, 2}


def test_the_partition_columns_of_a_commit() -> None:
    """Those of its files; without files those from before, unless all of them went."""
    day = Record.of(0, Intent(*work("a", partition_by=("day",))), None)
    assert day.partition_by == ("day",)
    for mode, left in ((Mode.APPEND, ("day",)), (Mode.OVERWRITE, None)):
        empty = Intent(Job("b", mode, partition_by=("hour",)), ())
        assert Record.of(1, empty, day).partition_by == left
        assert m.Seen(day, empty).partition_by == left
    assert Record.of(1, Intent(*work("c")), day).partition_by is None  # it has not said


def test_a_lost_file_is_an_error_and_nothing_is_published() -> None:
    """What was swept before the commit is noticed before the intent is written."""
    job, files = work("a")
    machine = m.JobCommit(job, files)
    machine.start()
    assert machine.on(m.Seen(None, None)) == m.Verify(job, files)
    assert machine.on(m.Lost((files[0].path,))) == m.Look()
    assert machine.on(m.Seen(None, None)) == m.End(m.Outcome.LOST, None, (files[0].path,))


def test_a_declared_commit_with_a_lost_file_stops_everybody() -> None:
    """It names the number, as it cannot be told what was to be there."""
    job, files = work("a")
    intent = Intent(job, files)
    machine = m.RollForward()
    machine.start()
    assert machine.on(m.Seen(None, intent)) == m.Publish(intent)
    assert machine.on(m.Lost(("k=0/a-0",))) == m.Look()
    assert machine.on(m.Seen(None, intent)) == m.End(m.Outcome.LOST, 0, ("k=0/a-0",))


# --- readers beside writers ---

READ = [
    ((work("a", Mode.OVERWRITE),),),
    ((work("a", files=1), work("b", Mode.OVERWRITE_PARTITIONS, 1)),),
    ((work("a"), work("b")),),
]


def mixture(jobs: tuple[tuple[Work, ...], ...], reader_of: Callable[[], Any]) -> str:
    """The first reading, in all orders, that is not the result of some commits; empty if none."""
    readings = set()
    writers = tuple(Process(those) for those in jobs)
    for world, (reader, *_) in walk(
        (Process(reader_of=reader_of), *writers), world=World(visible=OLD)
    ):
        settled, _ = settle(world)
        read = frozenset(reader.ended[-1][1].paths)
        results = [
            expected(settled.history[:count], OLD)
            for count in range(reader.since, len(settled.history) + 1)
        ]
        if read not in results:
            return f"{sorted(read)} is none of {[sorted(result) for result in results]}"
        readings.add(read)
    assert len(readings) > 1, "readers saw nothing happen"
    return ""


@pytest.mark.parametrize("jobs", READ, ids=["one", "in turn", "appends"])
def test_a_reader_finds_one_result(jobs: tuple[tuple[Work, ...], ...]) -> None:
    """In every order of its steps and the writers', each killed anywhere: no mixture."""
    assert mixture(jobs, m.Reading) == ""


class Listing(m.Reading):
    """Takes what is there."""

    def _result(self, found: frozenset[str], _: Intent | None) -> frozenset[str]:
        return found


class TakesAPartForTheOld(m.Reading):
    """Takes what lacks new files for the old result, though a listing is not atomic."""

    def _result(self, found: frozenset[str], intent: Intent | None) -> frozenset[str] | None:
        result = super()._result(found, intent)
        if result is None:
            assert intent is not None
            return found - {file.path for file in intent.files}
        return result


class LooksOnce(m.Reading):
    """Does not look again after it has listed."""

    def on(self, event: m.Event) -> m.Action:
        if isinstance(event, m.Surveyed):
            assert self._seen is not None
            self._found = frozenset(event.paths)
            return super().on(self._seen)
        return super().on(event)


class KeepsLaterFiles(m.Reading):
    """Does not leave out what came while it listed."""

    def _earlier(self, found: frozenset[str], *seen: m.Seen) -> frozenset[str] | None:
        return None if super()._earlier(found, *seen) is None else found


class ForgetsRemovals(m.Reading):
    """Takes it that all that came meanwhile only added files."""

    def _earlier(self, found: frozenset[str], before: m.Seen, now: m.Seen) -> frozenset[str] | None:
        last = now.last and replace(now.last, adds_since=0)
        return super()._earlier(found, before, replace(now, last=last))


class ForgetsWhatIsBeingRemoved(m.Reading):
    """The same of what is unfinished."""

    def _earlier(self, found: frozenset[str], before: m.Seen, now: m.Seen) -> frozenset[str] | None:
        intent = now.unfinished and replace(now.unfinished, removes=())
        return super()._earlier(found, before, replace(now, unfinished=intent))


@pytest.mark.parametrize(
    ("mutant", "jobs"),
    [
        (Listing, READ[0]),
        (TakesAPartForTheOld, READ[0]),
        (LooksOnce, READ[0]),
        (KeepsLaterFiles, READ[2]),
        (ForgetsRemovals, READ[1]),
        (ForgetsWhatIsBeingRemoved, READ[1]),
    ],
)
def test_a_reader_with_a_mistake_is_found(
    mutant: type[m.Reading], jobs: tuple[tuple[Work, ...], ...]
) -> None:
    """Each reads a mixture in some order."""
    assert mixture(jobs, mutant) != ""


# --- others that commit without a pause ---


MACHINES: list[Callable[[], Any]] = [
    m.Reading,
    lambda: m.JobStart(Job("x", Mode.CREATE)),
    lambda: m.JobCommit(*work("x", Mode.CREATE)),
    lambda: m.JobCommit(*work("x", Mode.OVERWRITE)),
    lambda: m.JobCommit(*work("x", Mode.OVERWRITE_PARTITIONS)),
]


def beside_others(machine: Any, intent_of: Callable[[str], Intent]) -> tuple[m.End, int]:
    """How one ends beside which a whole commit comes between any two steps; its listings."""
    last = Record.of(0, intent_of("0"), None)
    action, listings = machine.start(), 0
    while not isinstance(action, m.End):
        last = Record.of(last.number + 1, intent_of(str(last.number + 1)), last)
        listings += isinstance(action, m.Survey)
        answers = {m.Look: m.Seen(last, None), m.Survey: m.Surveyed(("k=0/old",))}
        answers |= {m.Verify: m.Verified(), m.Declare: m.Taken(), m.Discard: m.Discarded()}
        action = machine.on(answers[type(action)])
    return action, listings


def appends(name: str) -> Intent:
    return Intent(*work(name, files=1))


def removes(name: str) -> Intent:
    return replace(appends(name), removes=("k=0/gone",))


@pytest.mark.parametrize(
    ("machine", "outcome", "listings"),
    [
        (MACHINES[0], m.Outcome.READ, 1),
        (MACHINES[1], m.Outcome.REFUSED, 1),
        (MACHINES[2], m.Outcome.REFUSED, 1),
        (MACHINES[3], m.Outcome.OVERTAKEN, m.MAX_LISTINGS),
        (MACHINES[4], m.Outcome.OVERTAKEN, m.MAX_LISTINGS),
    ],
)
def test_appends_stop_only_who_has_to_remove_their_files(
    machine: Callable[[], Any], outcome: m.Outcome, listings: int
) -> None:
    end, listed = beside_others(machine(), appends)
    assert (end.outcome, listed) == (outcome, listings)


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_is_listed_for_ever(machine: Callable[[], Any]) -> None:
    end, listed = beside_others(machine(), removes)
    assert (end.outcome, listed) == (m.Outcome.OVERTAKEN, m.MAX_LISTINGS)


def test_what_came_while_a_reader_listed_is_left_out() -> None:
    """Known by the ids of jobs: of commits that only added files which have them in their names."""
    first = Record.of(0, appends("a"), None)
    found = ("k=0/a-0", "k=0/b-0", "k=0/c-0", "k=0/old")
    others = {"a": appends("b"), "removes": removes("b"), "names": appends("b")}
    others["names"] = replace(others["names"], files=(StagedFile("k=0/bb", "h", 1, 1, 0),))
    for name, intent in others.items():
        reader = m.Reading()
        assert reader.start() == m.Look()
        assert reader.on(m.Seen(first, None)) == m.Survey(None)
        assert reader.on(m.Surveyed(found)) == m.Look()
        action = reader.on(m.Seen(Record.of(1, intent, first), appends("c")))
        end = m.End(m.Outcome.READ, 0, ("k=0/a-0", "k=0/old"))
        assert action == (end if name == "a" else m.Survey(None))


# --- machines with a mistake: each is found ---


class RemovesFirst(m.JobCommit):
    def _carry_out(self, event: m.Event) -> m.Action | None:
        intent = self._seen.unfinished
        assert intent is not None
        if isinstance(event, m.Removed):
            return m.Publish(intent)
        if isinstance(event, m.Published):
            return super()._carry_out(m.Removed())
        return super()._carry_out(event)

    def _on_seen(self, seen: m.Seen) -> m.Action:
        action = super()._on_seen(seen)
        if isinstance(action, m.Publish) and action.intent.removes:
            return m.Remove(action.intent.removes)
        return action


class CleansBeforeItFinishes(m.JobCommit):
    def _carry_out(self, event: m.Event) -> m.Action | None:
        intent, number = self._seen.unfinished, self._seen.next_number
        assert intent is not None
        if isinstance(event, m.Published) and not intent.removes:
            return m.Clean(number, intent.job)
        if isinstance(event, m.Cleaned):
            return m.Finish(Record.of(number, intent, self._seen.last))
        return None if isinstance(event, m.Finished) else super()._carry_out(event)


class KeepsItsOldSurvey(m.JobCommit):
    """Does not list again what is there when its number was taken."""

    def on(self, event: m.Event) -> m.Action:
        if isinstance(event, m.Verified) and self._intent.removes:
            return m.Declare(self._seen.next_number, self._intent)
        return super().on(event)


class IgnoresThatItIsVoid(m.JobCommit):
    def _on_seen(self, seen: m.Seen) -> m.Action:
        action = super()._on_seen(seen)
        if isinstance(action, m.Withdraw):
            return m.End(m.Outcome.COMMITTED, self._own)
        return action


class LeavesTheUnfinished(m.JobCommit):
    """Takes the number after an intent without carrying that out."""

    def _on_seen(self, seen: m.Seen) -> m.Action:
        if seen.unfinished is not None and seen.unfinished.job.id != self._job.id:
            return super()._on_seen(m.Seen(seen.last, None))
        return super()._on_seen(seen)

    def on(self, event: m.Event) -> m.Action:
        if isinstance(event, m.Taken):
            return m.End(m.Outcome.COMMITTED, 0)
        return super().on(event)


@pytest.mark.parametrize(
    "mutant",
    [
        RemovesFirst,
        CleansBeforeItFinishes,
        KeepsItsOldSurvey,
        IgnoresThatItIsVoid,
        LeavesTheUnfinished,
    ],
)
def test_a_machine_with_a_mistake_is_found(mutant: type[m.JobCommit]) -> None:
    """The walk is not blind: each of these breaks a promise in some order."""
    others = (work("b", Mode.OVERWRITE, 1), work("c", Mode.APPEND, 1))
    asleep = Process((work("a", Mode.OVERWRITE, 1),))
    try:
        found, _ = first_wrong(asleep, Process(others), machine_of=mutant, before=OLD)
    except AssertionError as broken:
        found = f"assertion: {broken}"
    assert found != ""


# --- what is written ---


def test_intents_and_records_come_back_as_they_were() -> None:
    job = Job("a", Mode.OVERWRITE, Identity("w", 3), "f", ("day", "hour"))
    intent = Intent(job, work("a")[1], ("k=0/old",))
    assert Intent.from_bytes(intent.to_bytes()) == intent
    record = Record.of(4, intent, None)
    assert Record.from_bytes(record.to_bytes()) == record
    assert (record.files, record.rows, record.length, record.removed) == (2, 2, 21, 1)


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"{}", b'{"version":2}', b'{"version":1}', b'{"version":1,"job":3}'],
)
def test_anything_else_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="not an intent of a commit"):
        Intent.from_bytes(text)
    with pytest.raises(ValueError, match="not a record of a commit"):
        Record.from_bytes(text)


@pytest.mark.parametrize("path", ["../other/key", "/etc/key", "a//b", "a/../../b", ".", ""])
def test_an_intent_leads_to_nothing_outside(path: str) -> None:
    """Others may have written it than those whose rights carry it out."""
    job, file = Job("a"), StagedFile("k=1/f", "a-1/f", 1, 1, 0)
    for intent in (
        Intent(Job(path), (file,)),
        Intent(job, (replace(file, path=path),)),
        Intent(job, (), (path,)),
        Intent(job, (), (), found=(Found(path, 1, 1),)),
    ):
        with pytest.raises(ValueError, match="not an intent of a commit"):
            Intent.from_bytes(intent.to_bytes())


def test_a_record_tells_since_when_files_were_only_added() -> None:
    """As far as it has the ids of the jobs. Without the number it is taken for one that has not."""
    record = Record.of(0, removes("a"), None)
    assert record.jobs_since(0) is None
    assert record.jobs_since(1) == frozenset()
    for number in range(1, 300):
        record = Record.of(number, appends(f"j{number}"), record)
    assert record.jobs_since(297) == {"j297", "j298", "j299"}
    assert len(record.jobs_since(100) or ()) == 200
    assert record.jobs_since(99) is None
    older = record.to_bytes().replace(b',"adds_since":1', b"")
    assert Record.from_bytes(older).adds_since == 300


def test_the_last_batches_of_writers_are_remembered() -> None:
    """Those of the 1,000 that wrote last; a batch that is not above the last one was committed."""
    record = None
    for number in range(1005):
        job = Job(str(number), identity=Identity(f"w{number}", number))
        record = Record.of(number, Intent(job, ()), record)
    assert record is not None
    assert len(record.writers) == 1000
    assert record.has(Identity("w1004", 1004))
    assert record.has(Identity("w1004", 2))
    assert not record.has(Identity("w1004", 1005))
    assert not record.has(Identity("w4", 4))
