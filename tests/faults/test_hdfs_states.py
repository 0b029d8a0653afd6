"""HDFS, every state: what else happens to a writer while its `hsync` or `close` waits there.

The call is interrupted; another stream of its file system flushes; the process forks, or exits. A
proxy before each server holds the message that ends the state until that is done, and the stream's
history says that it is there; no chance is involved, and no sleep. Whatever the state: what was
acknowledged is read by Java, and the stream goes on, if it is one that may.

What DataNodes do in these states is in test_hdfs_places.py. `./dev test hdfs-places` runs all of
it; a run of everything has the states that differ most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, NamedTuple

import pytest
from minidfs import Jvm
from support.data import dataset
from support.data_node_proxies import CLIENT as BY_HOST_NAME
from support.data_node_proxies import CREATE, RECOVERY, Client, Message
from support.forks import in_child
from support.hdfs_writers import SIZE, Cluster, Writer, running_behind_proxies
from support.interrupts import interrupt_main_thread
from support.peer import Peer
from support.waiting import DEADLINE_S, Task, wait_until

NODES = 4  # one that comes in for another
BLOCK = 1 << 20
CLIENT = {
    "dfs.blocksize": BLOCK,
    "dfs.replication": 3,
    "dfs.client.block.write.locateFollowingBlock.retries": 9,  # minutes of "not yet"
}
STATE = "bytes acknowledged"  # how lines of the history end that name a state

pytestmark = [pytest.mark.places, pytest.mark.stores("hdfs")]


@pytest.fixture(scope="module")
def cluster(hdfs_jvm: Jvm) -> Iterator[Cluster]:
    with running_behind_proxies(hdfs_jvm, NODES) as cluster:
        yield cluster


# --- the states


def current(history: list[str]) -> str:
    """The state that a stream is in: "recovering blk_1_2: finding; 3 bytes acknowledged"."""
    line = next((what for what in reversed(history) if what.endswith(STATE)), "")
    return line.partition(";")[0].rpartition(": ")[2]


class Subject(Writer):
    """A writer in this process. No DataNode is struck that another stream needs."""

    spared = 0  # its port

    def events(self) -> list[str]:
        return [event.what for event in self.out.history()]

    def victim(self) -> int:
        return next(port for port in self.gate.pipeline if port != self.spared)


Reached = Callable[[], object]  # returns when the message has come that ends the state
Enter = Callable[[Subject, Cluster], AbstractContextManager[Reached]]


class State(NamedTuple):
    """The way to a state, where the stream stays until the manager's block ends."""

    enter: Enter
    shown: str  # in the history
    call: str = "hsync"  # that waits

    @contextmanager
    def held(self, writer: Subject, cluster: Cluster) -> Iterator[Reached]:
        """`call` leads to the state; the value returns when the stream is there."""
        with self.enter(writer, cluster) as reached:

            def is_there() -> None:
                reached()
                wait_until(lambda: current(writer.events()) == self.shown, self.shown)

            yield is_there


def held(marks: Callable[[Message], bool], before: Callable[[Subject], None]) -> Enter:
    """The state that this message ends, if the stream has done something before."""

    @contextmanager
    def enter(writer: Subject, _: Cluster) -> Iterator[Reached]:
        before(writer)
        with writer.gate.hold(marks) as hold:
            yield hold.wait

    return enter


def recovering(marks: Callable[[Message], bool]) -> Enter:
    """The same in a recovery: a connection is lost after an hsync."""

    @contextmanager
    def enter(writer: Subject, _: Cluster) -> Iterator[Reached]:
        writer.sync()
        with writer.gate.hold(marks) as hold:
            writer.gate.cut(writer.victim())
            yield hold.wait

    return enter


@contextmanager
def cut_at(
    writer: Subject,
    at: Callable[[Message], bool],
    port: Callable[[Message], int],
    then: Callable[[Message], bool],
) -> Iterator[Reached]:
    """A connection is lost when the one message passes; the other one follows."""
    with writer.gate.hold(at) as passing, writer.gate.hold(then) as hold:
        cutting = Task(lambda: writer.gate.cut(port(passing.wait())))
        yield hold.wait
    cutting.result()


def abandoning(writer: Subject, _: Cluster) -> AbstractContextManager[Reached]:
    """The pipeline of a new block is not built."""

    def is_set_up(message: Message) -> bool:
        return message.stage == CREATE and message.port != writer.spared

    return cut_at(writer, is_set_up, lambda m: m.port, calls("abandonBlock"))


@contextmanager
def pausing(writer: Subject, cluster: Cluster) -> Iterator[Reached]:
    """A DataNode restarts.

    It has ended before more is written: what comes while it ends may leave the last chunk with
    other checksums than bytes, and a NameNode that closes the file for a dead writer then takes the
    shortest copy (Hadoop 3.5).
    """
    writer.sync()
    with cluster.proxies.upgrading(writer.victim()):
        wait_until(lambda: current(writer.events()) == "pausing", "pausing")
        yield lambda: None


@contextmanager
def finding_later(writer: Subject, cluster: Cluster) -> Iterator[Reached]:
    """The NameNode has no other DataNode, not even the one whose connection was lost."""
    writer.sync()
    (spare,) = set(cluster.hdfs.ports) - set(writer.gate.pipeline)
    with cluster.hdfs.taken_for_dead(spare, writer.victim()):
        writer.gate.cut(writer.victim())
        yield lambda: None


@contextmanager
def connecting(_: Subject, cluster: Cluster) -> Iterator[Reached]:
    with cluster.proxies.deaf():
        yield lambda: None


@contextmanager
def connecting_to_copy(writer: Subject, cluster: Cluster) -> Iterator[Reached]:
    """To the DataNode that copies the block to another one."""
    writer.sync()
    with cluster.proxies.deaf():
        writer.gate.cut(writer.victim())
        yield lambda: None


def closing_again(writer: Subject, _: Cluster) -> AbstractContextManager[Reached]:
    """A connection is lost after the last packet was sent, which carries no sync."""
    writer.flush()
    return cut_at(writer, lambda m: m.is_last, lambda _: writer.victim(), calls("updatePipeline"))


@contextmanager
def allocate_delay(writer: Subject, cluster: Cluster) -> Iterator[Reached]:
    """The NameNode hears from no DataNode that the block before the last one is finished."""
    writer.sync()
    with cluster.hdfs.blocks_unreported():
        for _ in range(2 * BLOCK // SIZE):
            writer.write()
        yield lambda: None


@contextmanager
def complete_delay(writer: Subject, cluster: Cluster) -> Iterator[Reached]:
    """The NameNode hears from no DataNode that the block is finished."""
    writer.sync()
    with cluster.hdfs.blocks_unreported():
        yield lambda: None


def calls(method: str) -> Callable[[Message], bool]:
    return lambda message: message.method == method


def is_sync(message: Message) -> bool:
    """A packet without data that is neither the last one, of a copy, nor a heartbeat."""
    return (message.kind, message.size, message.is_last) == ("packet", 0, False) and (
        message.number >= 0
    )


def nothing(_: Subject) -> None:
    pass


def ended_block(writer: Subject) -> None:
    """A block that ended without a sync, and another one."""
    for _ in range(BLOCK // SIZE + 1):
        writer.write()
    writer.flush()


STATES = {
    "allocating": State(held(calls("addBlock"), nothing), "allocating"),
    "allocate-delay": State(allocate_delay, "allocate delay"),
    "connecting": State(connecting, "connecting"),
    "setting-up": State(held(lambda m: m.stage == CREATE, nothing), "setting up"),
    "abandoning": State(abandoning, "abandoning"),
    "streaming": State(held(lambda m: m.kind == "ack" and m.number >= 0, nothing), "streaming"),
    "recording": State(held(calls("fsync"), nothing), "streaming"),
    "locating": State(held(calls("getBlockLocations"), ended_block), "streaming"),
    "draining": State(
        held(lambda m: m.kind == "packet" and m.size > 0, Writer.sync), "draining", "close"
    ),
    "ending": State(held(lambda m: m.is_last, Writer.sync), "ending", "close"),
    "completing": State(held(calls("complete"), Writer.sync), "completing", "close"),
    "complete-delay": State(complete_delay, "complete delay", "close"),
    "finding": State(recovering(calls("getAdditionalDatanode")), "finding"),
    "finding-later": State(finding_later, "finding later"),
    "connecting-to-copy": State(connecting_to_copy, "connecting"),
    "transferring": State(recovering(lambda m: m.kind == "transfer"), "transferring"),
    "pausing": State(pausing, "pausing"),
    "reserving": State(recovering(calls("updateBlockForPipeline")), "reserving"),
    "setting-up-again": State(recovering(lambda m: m.stage == RECOVERY), "setting up"),
    "syncing": State(recovering(is_sync), "syncing"),
    "registering": State(recovering(calls("updatePipeline")), "registering"),
    "closing-again": State(closing_again, "registering", "close"),
}


def each_state(*often: str) -> pytest.MarkDecorator:
    """Parametrise a test; a run of everything has these states only."""
    assert set(often) <= set(STATES)
    return pytest.mark.parametrize(
        "state",
        [
            pytest.param(state, id=name, marks=() if name in often else pytest.mark.exhaustive)
            for name, state in STATES.items()
        ],
    )


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with cluster.proxies.client(CLIENT) as client:
        yield client


@pytest.fixture
def path(cluster: Cluster) -> str:
    return f"{cluster.root}/{time.monotonic_ns()}"


@pytest.fixture
def writer(cluster: Cluster, client: Client, path: str) -> Subject:
    return Subject(cluster, client.gate, path, cluster.create(client, path))


def waiting_in(writer: Subject, state: State) -> Task:
    """A thread whose call waits in the state, once it is reached."""
    writer.write()
    return Task(getattr(writer.out, state.call))


def go_on(writer: Subject) -> None:
    """The file has everything, once."""
    if not writer.out.closed:
        writer.sync()
        writer.close()
    writer.check_closed()


# --- what happens there


@each_state("streaming", "completing", "finding-later", "pausing", "registering")
def test_an_interrupt(cluster: Cluster, writer: Subject, state: State) -> None:
    """Ctrl-C gets through while the state lasts; only `close` ends with it, and loses nothing."""
    with state.held(writer, cluster) as reached:

        def interrupt() -> None:
            try:
                reached()
            finally:  # else the call would wait for ever
                interrupt_main_thread().result()

        writer.write()
        interrupting = Task(interrupt)
        with pytest.raises(KeyboardInterrupt):
            getattr(writer.out, state.call)()
        interrupting.result()
        assert writer.out.closed == (state.call == "close")
    if state.call == "close":
        cluster.hdfs.recover_lease(writer.path)
        writer.check_acknowledged()
    else:
        go_on(writer)


@each_state("allocating", "connecting-to-copy", "pausing", "registering", "complete-delay")
def test_another_stream(cluster: Cluster, client: Client, path: str, state: State) -> None:
    """One of the same file system flushes while the first one waits."""
    other_path = f"{path}-other"
    other = Subject(
        cluster, client.gate, other_path, cluster.create(client, other_path, replication=1)
    )
    other.flush()
    writer = Subject(cluster, client.gate, path, cluster.create(client, path))
    (writer.spared,) = client.gate.pipeline
    with state.held(writer, cluster) as reached:
        waiting = waiting_in(writer, state)
        reached()
        for sync in (other.flush, other.sync, other.flush):
            Task(sync).result()
        assert waiting.is_alive()
    waiting.result()
    go_on(writer)
    go_on(other)
    assert other.counters["hdfs_pipeline_recoveries"] == 0


@each_state("setting-up", "streaming", "finding", "syncing", "completing")
def test_a_fork(cluster: Cluster, client: Client, writer: Subject, state: State) -> None:
    """The stream raises at once in the child, which can write; the parent's goes on."""
    child_path = f"{writer.path}-child"

    def child() -> None:
        for call in (lambda: writer.out.write(b"child"), writer.out.hflush, writer.out.hsync):
            with pytest.raises(OSError, match="before fork"):
                call()
        with suppress(OSError):
            writer.out.close()
        if state.shown == "connecting":  # it could not
            return
        own = client.fs.create(child_path)
        own.write(dataset(SIZE))
        own.hsync()

    with state.held(writer, cluster) as reached:
        waiting = waiting_in(writer, state)
        reached()
        in_child(child)
        assert waiting.is_alive()
    waiting.result()
    go_on(writer)
    if state.shown != "connecting":
        assert cluster.read(child_path) == dataset(SIZE)


class PeersStream:
    """A stream in another process. Calls wait for their end, but for what `begin` begins there."""

    def __init__(self, peer: Peer, path: str) -> None:
        self._peer = peer
        self._peer.run("import threading; out = fs.create(path)", path=path)

    def write(self, data: bytes) -> None:
        self._peer.run("out.write(data)", data=data)

    def hflush(self) -> None:
        self._peer.run("out.hflush()")

    def hsync(self) -> None:
        self._peer.run("out.hsync()")

    def begin(self, call: str) -> None:
        snippet = "threading.Thread(target=getattr(out, call), daemon=True).start()"
        self._peer.run(snippet, call=call)

    def history(self) -> list[Any]:
        events: list[Any] = self._peer.run("out.history()")
        return events


@pytest.fixture
def peer(client: Client) -> Iterator[Peer]:
    """A process whose calls pass the client's proxy."""
    peer = Peer(str(client.fs.uri), {**BY_HOST_NAME, **CLIENT})
    yield peer
    if peer.alive:
        peer.kill()


@each_state("streaming", "finding", "pausing", "registering")
def test_an_exit(cluster: Cluster, client: Client, peer: Peer, path: str, state: State) -> None:
    """The process ends at once, although a thread waits; another client closes its file."""
    out = PeersStream(peer, path)
    cluster.proxies.join(path, client.gate)
    writer = Subject(cluster, client.gate, path, out)
    with state.held(writer, cluster) as reached:
        writer.write()
        out.begin(state.call)
        reached()
        assert Task(peer.close).result() == 0
    assert client.fs.recover_lease(path, wait=DEADLINE_S) is True
    writer.check_acknowledged()
