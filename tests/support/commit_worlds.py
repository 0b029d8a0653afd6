"""Worlds in which the machines of hflush.spark.commit run: every order of steps, every crash.

A world is what a store shows. Each process in it has a machine, and does the action that the
machine wants in steps that are atomic on a store. `walk` tries every order of the steps of several
processes, with a crash before each; `settle` then does what the next writer or a vacuum does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from hflush.spark.commit import machine as m
from hflush.spark.commit.records import Intent, Job, Mode, Record, StagedFile


@dataclass(frozen=True)
class World:
    """What a store shows, and what came to pass (which no process can read)."""

    staged: frozenset[tuple[str, str]] = frozenset()  # (job, path)
    rooms: frozenset[str] = frozenset()  # jobs whose staging directory is there
    visible: frozenset[str] = frozenset()
    intents: tuple[tuple[int, Intent], ...] = ()
    records: tuple[tuple[int, Record], ...] = ()
    history: tuple[Intent, ...] = ()  # as they got their records
    wrong: str = ""  # the first broken promise

    def intent(self, number: int) -> Intent | None:
        return dict(self.intents).get(number)

    def record(self, number: int) -> Record | None:
        return dict(self.records).get(number)

    def with_job(self, job: Job, files: tuple[StagedFile, ...]) -> World:
        """The same after the tasks of a job have staged their files."""
        staged = {(job.id, file.path) for file in files}
        return replace(self, staged=self.staged | staged, rooms=self.rooms | {job.id})


@dataclass(frozen=True)
class Process:
    """A process that commits jobs in turn; a reader; or a task that was cancelled, untold."""

    jobs: tuple[tuple[Job, tuple[StagedFile, ...]], ...] = ()
    machine: Any = None
    action: m.Action | None = None
    at: int = 0  # the step of the action
    memory: tuple[Any, ...] = ()
    ended: tuple[tuple[str, m.End], ...] = ()
    late_task_of: str = ""
    reader_of: Callable[[], Any] | None = None
    since: int = 0  # how many commits there were when a reader began
    is_dead: bool = False

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells two states of it apart."""
        inner = None if self.machine is None else tuple(vars(self.machine).values())
        rest = (self.jobs, self.action, self.at, self.memory, self.ended, self.late_task_of)
        return (*rest, self.reader_of, self.since, self.is_dead, type(self.machine), inner)

    @property
    def can_act(self) -> bool:
        return not self.is_dead and bool(
            self.machine or self.jobs or self.late_task_of or self.reader_of
        )

    @property
    def can_crash(self) -> bool:
        """Whether that changes anything for others."""
        return self.machine is not None and not isinstance(self.machine, m.Reading)

    def answered(self, event: m.Event) -> Process:
        """It after an event: a new action at its first step."""
        machine = copy.copy(self.machine)
        action = machine.on(event)
        if not isinstance(action, m.End):
            return replace(self, machine=machine, action=action, at=0, memory=())
        name = machine._job.id if isinstance(machine, m.JobCommit) else ""
        ended = (*self.ended, (name, action))
        return replace(self, machine=None, action=None, at=0, memory=(), ended=ended)

    def after(self, *memory: Any) -> Process:
        """It at the next step of its action."""
        return replace(self, at=self.at + 1, memory=memory)


MachineOf = Callable[[Job, tuple[StagedFile, ...]], m.JobCommit]


def step(world: World, process: Process, machine_of: MachineOf) -> tuple[World, Process]:
    """One atomic step."""
    if process.late_task_of:
        job = process.late_task_of
        if job in world.rooms:  # a file is made only in a directory that is there
            world = replace(world, staged=world.staged | {(job, "late")})
        return world, replace(process, late_task_of="")
    if process.reader_of is not None:
        machine = process.reader_of()
        since = len(world.history)
        begun = replace(process, machine=machine, action=machine.start(), since=since)
        return world, replace(begun, reader_of=None)
    if process.machine is None:
        (job_, files), *rest = process.jobs
        machine = machine_of(job_, files)
        begun = replace(process, jobs=tuple(rest), machine=machine, action=machine.start())
        return world.with_job(job_, files), begun
    assert process.action is not None
    return _STEPS[type(process.action)](world, process)


def _look(world: World, process: Process) -> tuple[World, Process]:
    """The reads of CommitLog.look, each a step."""
    if process.at == 0:
        records = dict(world.records)
        return world, process.after(max(records, default=-1), frozenset(dict(world.intents)))
    again = replace(process, at=0, memory=())
    if process.at == 1:
        last, listed = process.memory
        record = world.record(last)
        gone = last >= 0 and record is None
        return world, again if gone else process.after(last, listed, record)
    if process.at == 2:
        last, listed, record = process.memory
        if last + 1 not in listed:
            return world, process.answered(m.Seen(record, None))
        intent = world.intent(last + 1)
        return world, again if intent is None else process.after(last, record, intent)
    last, record, intent = process.memory
    passed = max(dict(world.records), default=-1) != last
    return world, again if passed else process.answered(m.Seen(record, intent))


def _verify(world: World, process: Process) -> tuple[World, Process]:
    action = process.action
    assert isinstance(action, m.Verify)
    gone = [f.path for f in action.files if (action.job.id, f.path) not in world.staged]
    return world, process.answered(m.Lost(tuple(gone)) if gone else m.Verified())


def _survey(world: World, process: Process) -> tuple[World, Process]:
    """What is there; a reader, beside which others publish and remove, lists a directory a step."""
    action = process.action
    assert isinstance(action, m.Survey)
    if not isinstance(process.machine, m.Reading):
        there = {path.rpartition("/")[0] for path in world.visible}
        wanted = there if action.directories is None else action.directories
        found = [path for path in sorted(world.visible) if path.rpartition("/")[0] in wanted]
        return world, process.answered(m.Surveyed(tuple(found)))
    if process.at == 0:
        there = {path.rpartition("/")[0] for path in world.visible}
        return world, process.after(tuple(sorted(there)), ())
    todo, seen = process.memory
    if not todo:
        return world, process.answered(m.Surveyed(seen))
    inside = (path for path in sorted(world.visible) if path.rpartition("/")[0] == todo[0])
    return world, process.after(todo[1:], (*seen, *inside))


def _declare(world: World, process: Process) -> tuple[World, Process]:
    action = process.action
    assert isinstance(action, m.Declare)
    if world.intent(action.number) is not None:
        return world, process.answered(m.Taken())
    written = (*world.intents, (action.number, action.intent))
    return replace(world, intents=tuple(sorted(written))), process.answered(m.Declared())


def _withdraw(world: World, process: Process) -> tuple[World, Process]:
    action = process.action
    assert isinstance(action, m.Withdraw)
    return _without_intent(world, action.number), process.answered(m.Withdrawn())


def _publish(world: World, process: Process) -> tuple[World, Process]:
    """A file a step; which are lost is remembered."""
    action = process.action
    assert isinstance(action, m.Publish)
    if process.at == len(action.intent.files):
        lost = process.memory
        return world, process.answered(m.Lost(lost) if lost else m.Published())
    path, source = action.intent.files[process.at].path, action.intent.job.id
    if (source, path) in world.staged:
        world = replace(
            world, staged=world.staged - {(source, path)}, visible=world.visible | {path}
        )
    elif path not in world.visible:
        return world, process.after(*process.memory, path)
    return world, process.after(*process.memory)


def _remove(world: World, process: Process) -> tuple[World, Process]:
    """A file a step. Unless the commit is complete already, all that is new is there by now."""
    action = process.action
    assert isinstance(action, m.Remove)
    if process.at == len(action.paths):
        return world, process.answered(m.Removed())
    number = max(dict(world.records), default=-1) + 1
    intent = world.intent(number)
    if intent is not None and intent.removes == action.paths:
        missing = {file.path for file in intent.files} - world.visible
        if missing:
            world = replace(world, wrong=f"{action.paths} goes before {missing} is there")
    visible = world.visible - {action.paths[process.at]}
    return replace(world, visible=visible), process.after()


def _finish(world: World, process: Process) -> tuple[World, Process]:
    action = process.action
    assert isinstance(action, m.Finish)
    number = action.record.number
    intent = world.intent(number)
    latest = max(dict(world.records), default=-1)
    if world.record(number) is None and number > latest:
        assert intent is not None
        records = (*world.records, (number, action.record))
        world = replace(world, records=records, history=(*world.history, intent))
    return world, process.answered(m.Finished())


def _clean(world: World, process: Process) -> tuple[World, Process]:
    """The staging, a listing, then a file a step."""
    action = process.action
    assert isinstance(action, m.Clean)
    if process.at == 0:
        return _without_room(world, action.job), process.after()
    if process.at == 1:
        todo = [("intent", number) for number, _ in world.intents if number <= action.number]
        todo += [("record", number) for number, _ in world.records if number < action.number]
        return world, process.after(*todo)
    if not process.memory:
        return world, process.answered(m.Cleaned())
    (kind, number), *rest = process.memory
    if kind == "intent":
        world = _without_intent(world, number)
    else:
        world = replace(world, records=tuple(r for r in world.records if r[0] != number))
    return world, process.after(*rest)


def _discard(world: World, process: Process) -> tuple[World, Process]:
    action = process.action
    assert isinstance(action, m.Discard)
    return _without_room(world, action.job), process.answered(m.Discarded())


def _without_intent(world: World, number: int) -> World:
    return replace(world, intents=tuple(i for i in world.intents if i[0] != number))


def _without_room(world: World, job: Job) -> World:
    staged = frozenset(item for item in world.staged if item[0] != job.id)
    return replace(world, staged=staged, rooms=world.rooms - {job.id})


_STEPS: dict[type, Callable[[World, Process], tuple[World, Process]]] = {
    m.Look: _look,
    m.Verify: _verify,
    m.Survey: _survey,
    m.Declare: _declare,
    m.Withdraw: _withdraw,
    m.Publish: _publish,
    m.Remove: _remove,
    m.Finish: _finish,
    m.Clean: _clean,
    m.Discard: _discard,
}


def walk(
    processes: tuple[Process, ...],
    machine_of: MachineOf = m.JobCommit,
    *,
    world: World | None = None,
    crashes: bool = True,
) -> Iterator[tuple[World, tuple[Process, ...]]]:
    """Yield every state in which no process can act, once: each has ended, or was killed."""
    pending = [(world or World(), processes)]
    seen = set()
    while pending:
        now, those = pending.pop()
        key = (now, tuple(process.key for process in those))
        if key in seen:
            continue
        seen.add(key)
        if not any(process.can_act for process in those):
            yield now, those
            continue
        for index, process in enumerate(those):
            if not process.can_act:
                continue
            before, behind = those[:index], those[index + 1 :]
            later, stepped = step(now, process, machine_of)
            pending.append((later, (*before, stepped, *behind)))
            if crashes and process.can_crash:
                pending.append((now, (*before, replace(process, is_dead=True), *behind)))


def settle(world: World) -> tuple[World, m.End]:
    """What the next writer, or a vacuum, does first."""
    machine = m.RollForward()
    process = Process(machine=machine, action=machine.start())
    while process.machine is not None:
        world, process = step(world, process, m.JobCommit)
    return world, process.ended[-1][1]


def expected(history: tuple[Intent, ...], before: frozenset[str] = frozenset()) -> frozenset[str]:
    """What is visible after commits in turn, by the meaning of their modes alone."""
    visible = before
    for intent in history:
        files = frozenset(file.path for file in intent.files)
        if intent.job.mode is Mode.OVERWRITE:
            visible = frozenset()
        elif intent.job.mode is Mode.OVERWRITE_PARTITIONS:
            written = {file.directory for file in intent.files}
            visible = frozenset(p for p in visible if p.rpartition("/")[0] not in written)
        visible |= files
    return visible
