"""A round: a schedule on a cluster, under the writers of some clients."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path

from minidfs.jars import jars
from py4j.protocol import Py4JError

from reliability.load import judge, records
from reliability.load.cluster import LoadCluster
from reliability.load.journal import Failure, Ledger
from reliability.load.schedule import OF_NAME_NODES, Event, Schedule

HERE = Path(__file__).resolve().parent
HFLUSH, JAVA, NATIVE = CLIENTS = ("hflush", "Java client", "hdfs-native")
JAVA_SETTINGS = {"dfs.client.retry.policy.enabled": "true"}  # a NameNode that restarts
PACE_S = 0.004  # of all threads of a client together
GAP_S = 2.5  # between two events, at most
HUNG_S = 15.0  # streams that have been silent for so long are not waited for
SILENCE_S = 30.0  # until the writers go on without a DataNode that hangs
RECOVERY_S = 60.0  # until all streams are open again when all faults are over
FINISH_S = 60.0  # until all are closed then
LEASE_S = 120.0  # until a file without a writer is closed
READ_S = 60.0  # until all replicas are reported
POLL_S = 0.01

Ending = Callable[[], None]


class WriterProcess:
    """One process of a client. It takes orders as soon as it has started."""

    def __init__(self, client: str, command: Sequence[str], journal: Path) -> None:
        self.client = client
        self.journal = journal
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            text=True,
        )

    def order(self, *words: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()

    @property
    def has_crashed(self) -> bool:
        return self._process.poll() is not None

    def errors(self) -> str:
        """Return what it wrote to stderr."""
        self._errors.seek(0)
        return self._errors.read()[-2000:].decode(errors="replace")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._errors):
            if stream is not None:
                stream.close()


@dataclass
class Result:
    """What a round showed about one client."""

    client: str
    events: Counter[str]
    acknowledged: int = 0  # bytes
    acknowledgements: int = 0
    lost: int = 0  # bytes
    lost_with_nodes: int = 0  # bytes, of which each DataNode that had them failed
    wrong: int = 0  # bytes
    gave_up: int = 0  # writers, although a good DataNode remained
    failed: int = 0  # writers, because none did
    unfinished: int = 0  # writers that neither closed nor failed in time
    taken_over: int = 0  # streams, by another writer
    stalls: list[float] = field(default_factory=list)  # after each event, in seconds
    longest_stall: float = 0.0
    notes: list[str] = field(default_factory=list)  # for people

    @property
    def is_right(self) -> bool:
        """Whether the client kept all its promises."""
        return not (self.lost or self.wrong or self.gave_up or self.unfinished)

    def __str__(self) -> str:
        return (
            f"{self.client}: {self.acknowledged:,} bytes acknowledged in "
            f"{self.acknowledgements:,} calls, {self.lost:,} lost "
            f"({self.lost_with_nodes:,} with all their DataNodes), {self.wrong:,} wrong, "
            f"{self.gave_up} gave up, {self.failed} without a DataNode, "
            f"{self.unfinished} without an end, {self.taken_over} taken over, stalls "
            f"{judge.median(self.stalls):.2f} s, at most {self.longest_stall:.2f} s"
        )


class _Load:
    """The writers of one client. Streams are numbers; each process has some of them."""

    def __init__(
        self, client: str, cluster: LoadCluster, schedule: Schedule, directory: Path
    ) -> None:
        self.client = client
        self.ledger = Ledger()
        self.ends: dict[tuple[int, int], judge.End] = {}  # of generations
        self.crashes: list[str] = []
        self.taken_over = 0
        self._cluster, self._shape = cluster, schedule.shape
        self._directory = directory
        self._names = count()
        self._paths: list[Path] = []  # of journals
        streams = schedule.shape.streams
        processes = min(2, streams)
        self.processes = [self._start() for _ in range(processes)]
        self._of_process = [list(range(streams))[number::processes] for number in range(processes)]

    def path(self, stream: int) -> str:
        return f"/load/{CLIENTS.index(self.client)}/{stream}"

    @property
    def paths(self) -> list[str]:
        return [self.path(stream) for stream in self.ledger.streams]

    def begin(self) -> None:
        """Create all files."""
        for number in range(len(self.processes)):
            for stream in self._of_process[number]:
                self._order_start(number, stream, "create")

    def _start(self) -> WriterProcess:
        journal = self._directory / f"{self.client.split()[0]}-{next(self._names)}"
        self._paths.append(journal)
        settings = self._cluster.settings() | (JAVA_SETTINGS if self.client == JAVA else {})
        pairs = [f"{key}={value}" for key, value in settings.items()]
        command = [*_program(self.client), str(journal), str(self._directory / "pool")]
        return WriterProcess(self.client, [*command, self._cluster.hdfs.url, *pairs], journal)

    def _order_start(self, process: int, stream: int, how: str) -> None:
        shape = self._shape
        generation = self.ledger.expect(stream)
        pace = PACE_S * shape.streams * shape.threads
        words = (stream, generation, self.path(stream), shape.replication, shape.block_size)
        self.processes[process].order("start", *words, shape.threads, pace, how)
        self.taken_over += how == "append"

    def look(self) -> None:
        """Read what is new, and have streams that failed opened again."""
        for path in self._paths:
            self.ledger.read(path)
        for number, process in enumerate(self.processes):
            if process.has_crashed:
                self.crashes.append(process.errors())
                self.replace(number)
            for stream in self._of_process[number]:
                self._look_at(number, stream)

    def _look_at(self, process: int, stream: int) -> None:
        if self.ledger.streams[stream][-1].failure and self._note_end(stream):
            self._order_start(process, stream, "append")

    def _note_end(self, stream: int) -> bool:
        """Keep what is known about the end of a stream's writer; False: the NameNode is not up."""
        number = len(self.ledger.streams[stream]) - 1
        generation = self.ledger.streams[stream][number]
        if generation.is_closed or generation.start is None or (stream, number) in self.ends:
            return True
        try:
            nodes = self._cluster.nodes_to_write_to(self.path(stream))
        except Py4JError:
            return False
        self.ends[stream, number] = judge.End(
            stream, number, generation.failure, generation.is_good_since, nodes
        )
        return True

    def replace(self, number: int) -> None:
        """Kill a process; let another one take over what it had."""
        self.processes[number].kill()
        self.ledger.read(self.processes[number].journal)
        for stream in self._of_process[number]:
            self._note_end(stream)
        self.processes[number] = self._start()
        for stream in self._of_process[number]:
            self._order_start(number, stream, "append")

    @property
    def is_under_way(self) -> bool:
        """Whether all streams are open, and each of their threads has an acknowledgement."""
        return all(
            len(generations[-1].acks) == self._shape.threads and not generations[-1].has_ended
            for generations in self.ledger.streams.values()
        )

    def last_acks(self) -> list[int]:
        """When each stream that is open got its last acknowledgement."""
        last = [generations[-1] for generations in self.ledger.streams.values()]
        return [
            max((acks[-1].at for acks in one.acks.values()), default=one.opened_at)
            for one in last
            if one.start is not None and not one.has_ended
        ]

    def finish(self) -> None:
        for process in self.processes:
            process.order("finish")

    def has_finished(self) -> bool:
        """Read what is new; whether all streams have ended."""
        for path in self._paths:
            self.ledger.read(path)
        return all(generations[-1].has_ended for generations in self.ledger.streams.values())

    def stop(self) -> None:
        for process in self.processes:
            process.kill()

    def result(self, events: Counter[str], times: Sequence[int], pool: bytes) -> Result:
        """Look at the files; everything is over, and all DataNodes are there."""
        result = Result(self.client, events, acknowledgements=self.ledger.acknowledgements)
        result.taken_over = self.taken_over
        for stream, generations in self.ledger.streams.items():
            if not generations[-1].has_ended:
                result.unfinished += 1
                refused = generations[-1].refused[-1:]
                result.notes.append(f"stream {stream} did not end {refused}")
            self._note_end(stream)
            self._check(stream, pool, result)
        for end in self.ends.values():
            if end.failure is not None:
                gave_up = judge.gave_up(end, self._cluster.faults)
                result.gave_up += gave_up
                result.failed += not gave_up
                if gave_up:
                    result.notes.append(self._story(end, end.failure))
        for crash in self.crashes:
            result.gave_up += 1
            result.notes.append(f"a writer crashed: {crash}")
        every = [
            acks
            for generations in self.ledger.streams.values()
            for generation in generations
            for acks in generation.acks.values()
        ]
        result.stalls = judge.stalls(times, every)
        result.longest_stall = max((ack.took / 1e9 for acks in every for ack in acks), default=0.0)
        return result

    def _check(self, stream: int, pool: bytes, result: Result) -> None:
        path = self.path(stream)
        generations = self.ledger.streams[stream]
        why = ""
        try:
            if not generations[-1].is_closed:
                self._cluster.close_file(path, LEASE_S)
        except (TimeoutError, Py4JError) as error:
            why = " ".join(str(error).split())
        data, stopped_by = self._cluster.read(path, READ_S)
        checked = judge.check(stream, generations, data, pool)
        result.acknowledged += checked.acknowledged
        result.wrong += checked.wrong
        for lost in checked.lost:
            if self._may_lose(stream, lost):
                result.lost_with_nodes += lost.size
            else:
                result.lost += lost.size
        if checked.notes:
            opened = [
                f"opened from {one.start} at {one.opened_at}"
                for one in generations
                if one.start is not None
            ]
            ends = [str(end) for (number, _), end in self.ends.items() if number == stream]
            blocks = self._cluster.blocks(path)
            story = [*checked.notes, *opened, *ends, self._cluster.story(), why, stopped_by, blocks]
            result.notes.append(f"{path}: {'; '.join(story)}")

    def _may_lose(self, stream: int, lost: judge.Lost) -> bool:
        """Whether a writer that had the bytes ended so that they may be gone.

        That may be a later one than who wrote them: it appended to their block, whose replicas
        became its own.
        """
        generations = self.ledger.streams[stream]
        before = len(generations) if lost.before is None else lost.before
        return any(
            judge.may_lose(end, self._cluster.faults, self._taken_over_at(stream, number))
            for number in range(lost.generation, before)
            if (end := self.ends.get((stream, number)))  # there is none if it closed the file
        )

    def _taken_over_at(self, stream: int, number: int) -> int:
        later = self.ledger.streams[stream][number + 1 :]
        until = next((one.opened_at for one in later if one.start is not None), None)
        return until or time.monotonic_ns()

    def _story(self, end: judge.End, failure: Failure) -> str:
        left = sorted(judge.nodes_left(end, self._cluster.faults))
        ports = [self._cluster.ports[node] for node in left]
        silent = (failure.at - end.since) / 1e9
        return (
            f"{self.path(end.stream)}, generation {end.generation}: {failure.call} failed "
            f"after {silent:.1f} s although {ports} were good: {failure.text}"
        )


def run(
    schedule: Schedule,
    cluster: LoadCluster,
    clients: Sequence[str],
    directory: Path,
    say: Callable[[str], object],
) -> list[Result]:
    """Run a round; what it showed about each client.

    Parameters
    ----------
    directory
        For journals; empty.
    say
        Is given a line for each event, for people.
    """
    pool = records.pool(schedule.seed)
    (directory / "pool").write_bytes(pool)
    with ExitStack() as stack:
        loads = []
        for client in clients:
            loads.append(_Load(client, cluster, schedule, directory))
            stack.callback(loads[-1].stop)
        for load in loads:
            load.begin()
        _wait(loads, lambda: all(load.is_under_way for load in loads), RECOVERY_S)
        events, times = _play(schedule, cluster, loads, say)
        _wait(loads, lambda: all(load.is_under_way for load in loads), RECOVERY_S)
        say("all faults are over")
        for load in loads:
            load.finish()
        _wait([], lambda: all([load.has_finished() for load in loads]), FINISH_S)
        say("all streams are closed")
        for load in loads:  # what did not end must not hold a lease while the files are looked at
            load.stop()
        return [load.result(events, times, pool) for load in loads]


def _play(
    schedule: Schedule, cluster: LoadCluster, loads: Sequence[_Load], say: Callable[[str], object]
) -> tuple[Counter[str], list[int]]:
    """Let everything happen; what did, and when."""
    lasting: list[tuple[int, Ending]] = []
    times = []
    began = time.monotonic()
    try:
        for number, event in enumerate(schedule.events):
            for due, end in [one for one in lasting if one[0] <= number]:
                lasting.remove((due, end))
                end()
            say(f"{time.monotonic() - began:6.1f} s  {number:3} {event.kind} {_where(event)}")
            times.append(time.monotonic_ns())
            ending = _happen(event, cluster, loads)
            if event.kind == "hang" and ending is not None:
                _wait_for_progress(loads, times[-1])
                ending()
            elif ending is not None:
                lasting.append((number + 1 + event.lasts, ending))
            _wait_for_acknowledgements(loads, event.acknowledgements)
    finally:
        for _, end in lasting:
            end()
    return Counter(event.kind for event in schedule.events), times


def _where(event: Event) -> str:
    return "" if event.node < 0 else f"node {event.node}"


def _happen(event: Event, cluster: LoadCluster, loads: Sequence[_Load]) -> Ending | None:
    if event.kind == "kill_writer":
        for load in loads:
            load.look()
            load.replace(event.pick % len(load.processes))
        return None
    if event.kind == "corrupt":
        for load in loads:
            cluster.corrupt(event, [load.paths[event.pick % len(load.paths)]])
        return None
    if event.kind in OF_NAME_NODES:
        getattr(cluster, event.kind)()
        return None
    happen: Callable[[Event], Ending | None] = getattr(cluster, event.kind)
    return happen(event)


def _wait(loads: Sequence[_Load], predicate: Callable[[], bool], deadline_s: float) -> None:
    """Wait until something is true or the time is over, and look after the streams meanwhile."""
    end = time.monotonic() + deadline_s
    while True:
        for load in loads:
            load.look()
        if predicate() or time.monotonic() > end:
            return
        time.sleep(POLL_S)


def _wait_for_acknowledgements(loads: Sequence[_Load], more: int) -> None:
    if not more:
        return
    wanted = [load.ledger.acknowledgements + more for load in loads]
    began = time.monotonic_ns()
    hung = began - int(HUNG_S * 1e9)

    def enough() -> bool:
        return all(
            load.ledger.acknowledgements >= least
            and not any(hung < at < began for at in load.last_acks())
            for load, least in zip(loads, wanted, strict=True)
        )

    _wait(loads, enough, GAP_S)


def _wait_for_progress(loads: Sequence[_Load], since: int) -> None:
    """Wait until all streams that are open have acknowledgements that are some time later."""
    later = since + int(GAP_S * 1e9)
    _wait(loads, lambda: all(at > later for load in loads for at in load.last_acks()), SILENCE_S)


def _program(client: str) -> Iterator[str]:
    if client != JAVA:
        yield from (sys.executable, str(HERE / "writer.py"), client)
        return
    yield _java("java")
    classpath = os.pathsep.join(str(jar) for jar in jars() if "minicluster" not in jar.name)
    classes = _compiled(classpath)
    yield from ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    yield from ("-cp", f"{classes}{os.pathsep}{classpath}", "LoadWriter")


@cache
def _compiled(classpath: str) -> Path:
    """Compile LoadWriter.java once for this process; return where its classes are."""
    classes = Path(tempfile.mkdtemp(prefix="load-writer-"))
    atexit.register(shutil.rmtree, classes, ignore_errors=True)
    command = [_java("javac"), "-cp", classpath, "-d", str(classes), str(HERE / "LoadWriter.java")]
    subprocess.run(command, check=True)
    return classes


def _java(program: str) -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", program)) if home else program
