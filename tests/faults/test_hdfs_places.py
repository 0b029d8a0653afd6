"""HDFS, every place: a DataNode of a pipeline is struck in each state of the write machines.

Each of three, and the one that comes in for another, is killed, hung or restarted while the stream
is in a state of the tables in docs/hdfs-client.md. A proxy before each server holds the message
that marks the state until the DataNode is struck; no chance is involved, and no sleep. Five
DataNodes run, so that there is always another one. Whatever the place: the stream goes on, what
was acknowledged is read by Java with its checksums verified, then and later; the closed file is
what was written; and the stream's history names the DataNode.

`./dev test hdfs-places` runs all of it; a run of everything has the faults and places that differ
most.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from minidfs import Jvm
from support.data_node_proxies import COPY, CREATE, RECOVERY, Message
from support.hdfs_writers import Cluster, Writer, running_behind_proxies
from support.waiting import DEADLINE_S, PATIENCE, Task, wait_until

NODES = 5
# A DataNode finds that the next one hangs after its timeout and 5 s for each node behind it. The
# client has 5 s for each node, too, and is to find it last.
SERVER_TIMEOUT_MS = 4000
CLIENT_TIMEOUT_MS = 3000
CLIENT = {
    "dfs.blocksize": "1m",
    "dfs.replication": 3,
    "dfs.client.socket-timeout": CLIENT_TIMEOUT_MS,
}

pytestmark = [
    pytest.mark.places,
    pytest.mark.stores("hdfs"),
    pytest.mark.rule("HDFS-9", "HDFS-10", "HFLUSH-2"),
    pytest.mark.timeout(400 * PATIENCE),
]

Strike = Callable[[int], None]


@pytest.fixture(scope="module")
def cluster(hdfs_jvm: Jvm) -> Iterator[Cluster]:
    settings: dict[str, object] = {"dfs.client.socket-timeout": SERVER_TIMEOUT_MS}
    with running_behind_proxies(hdfs_jvm, NODES, settings) as cluster:
        yield cluster


# --- the states: each brings a stream there, has the DataNode at a place struck, and goes on


def while_held(
    writer: Writer,
    marks: Callable[[Message], bool],
    work: Callable[[], None],
    strike: Strike,
    victim: Callable[[Message], int] = lambda message: message.port,
) -> None:
    """Strike a DataNode while the message that marks a state is held; `work` makes it go out."""
    with writer.gate.hold(marks) as hold:
        working = Task(work)
        port = victim(hold.wait())
        writer.check_acknowledged()
        strike(port)
    working.result(3 * DEADLINE_S)  # it may have to wait for three timeouts


def set_up(writer: Writer, place: int, strike: Strike) -> None:
    while_held(
        writer,
        lambda m: (m.kind, m.stage, m.place) == ("write", CREATE, place),
        writer.flush,
        strike,
    )


def first_packet(writer: Writer, place: int, strike: Strike) -> None:
    while_held(
        writer,
        lambda m: (m.kind, m.number) == ("packet", 0) and m.port == writer.gate.pipeline[place],
        writer.flush,
        strike,
    )


def data_and_ack(writer: Writer, place: int, strike: Strike) -> None:
    """Between a packet and its acknowledgement, which its DataNode has sent."""
    writer.flush()
    port = writer.gate.pipeline[place]
    while_held(
        writer,
        lambda m: m.kind == "ack" and m.number > 0 and m.port == port,
        writer.flush,
        strike,
    )


def after_hflush(writer: Writer, place: int, strike: Strike) -> None:
    writer.flush()
    strike(writer.gate.pipeline[place])
    writer.check_acknowledged()
    writer.flush()


def after_hsync(writer: Writer, place: int, strike: Strike) -> None:
    writer.sync()
    strike(writer.gate.pipeline[place])
    writer.check_acknowledged()
    writer.flush()


def draining(writer: Writer, place: int, strike: Strike) -> None:
    """The last packet waits for the acknowledgement of data."""
    writer.flush()
    port = writer.gate.pipeline[place]

    def work() -> None:
        writer.write()
        writer.close()

    def victim(message: Message) -> int:
        wait_until(
            lambda: any("draining" in event.what for event in writer.out.history()),
            "the last packet waits for others",
        )
        return message.port

    while_held(
        writer, lambda m: m.kind == "packet" and m.size > 0 and m.port == port, work, strike, victim
    )


def last_packet(writer: Writer, place: int, strike: Strike) -> None:
    writer.flush()
    port = writer.gate.pipeline[place]
    while_held(writer, lambda m: m.is_last and m.port == port, writer.close, strike)


def recovering(
    writer: Writer,
    place: int,
    strike: Strike,
    marks: Callable[[Message], bool],
) -> None:
    """Another DataNode has failed: the place is one of the pipeline that was, or the new one."""
    writer.flush()
    before = writer.gate.pipeline

    def work() -> None:
        writer.gate.cut(before[(place + 1) % len(before)])
        writer.flush()

    def victim(message: Message) -> int:
        if place < len(before):
            return before[place]
        if message.port:
            return message.port
        (new,) = set(writer.gate.pipeline) - set(before)
        return new

    def at_place(message: Message) -> bool:
        is_new = message.port not in before
        return is_new if place == len(before) else message.port == before[place]

    while_held(
        writer,
        lambda m: marks(m) and (m.kind != "write" or at_place(m)),
        work,
        strike,
        victim,
    )


def finding(writer: Writer, place: int, strike: Strike) -> None:
    recovering(writer, place, strike, lambda m: m.method == "getAdditionalDatanode")


def transferring(writer: Writer, place: int, strike: Strike) -> None:
    is_new = place == len(PLACES) - 1
    recovering(
        writer,
        place,
        strike,
        lambda m: m.stage == COPY if is_new else m.kind == "transfer",
    )


def reserving(writer: Writer, place: int, strike: Strike) -> None:
    recovering(writer, place, strike, lambda m: m.method == "updateBlockForPipeline")


def set_up_again(writer: Writer, place: int, strike: Strike) -> None:
    recovering(writer, place, strike, lambda m: m.stage == RECOVERY)


def registering(writer: Writer, place: int, strike: Strike) -> None:
    recovering(writer, place, strike, lambda m: m.method == "updatePipeline")


PLACES = ("first", "middle", "last", "new")
STATES: dict[str, Callable[[Writer, int, Strike], None]] = {
    "set-up": set_up,
    "first-packet": first_packet,
    "data-and-ack": data_and_ack,
    "after-hflush": after_hflush,
    "after-hsync": after_hsync,
    "draining": draining,
    "last-packet": last_packet,
    "finding": finding,
    "transferring": transferring,
    "reserving": reserving,
    "set-up-again": set_up_again,
    "registering": registering,
}
WITH_A_NEW_NODE = ("transferring", "set-up-again", "registering")


class Place(NamedTuple):
    state: str
    node: str

    def __str__(self) -> str:
        return f"{self.state}-{self.node}"


ALL = [
    Place(state, node)
    for state in STATES
    for node in PLACES
    if node != "new" or state in WITH_A_NEW_NODE
]


def go_through(
    cluster: Cluster,
    place: Place,
    strike: Callable[[Writer, int], None],
    *,
    is_named: bool = True,
) -> None:
    """Strike a DataNode at a place, end the file, and check everything."""
    struck: list[int] = []
    with cluster.proxies.client(CLIENT) as client:
        path = f"{cluster.root}/{threading.get_ident()}-{place}"
        writer = Writer(cluster, client.gate, path, cluster.create(client, path))

        def strike_once(port: int) -> None:
            struck.append(port)
            strike(writer, port)

        STATES[place.state](writer, PLACES.index(place.node), strike_once)
        writer.check_acknowledged()
        if not writer.closed:
            writer.write()
            writer.close()
        writer.check_closed()
        (port,) = struck
        assert writer.failures(port) or not is_named, writer.out.history()


def each(places: Collection[Place], exhaustive: Collection[Place] = ()) -> pytest.MarkDecorator:
    """Parametrise a test; some of the places are left out of a run of everything."""
    return pytest.mark.parametrize(
        "place",
        [
            pytest.param(place, marks=pytest.mark.exhaustive if place in exhaustive else ())
            for place in places
        ],
        ids=str,
    )


@contextmanager
def killing(cluster: Cluster) -> Iterator[Strike]:
    """A strike that kills; the DataNodes run again afterwards."""
    stopped: list[tuple[int, Any]] = []
    try:
        yield lambda port: stopped.append((port, cluster.proxies.kill(port)))
    finally:
        for port, properties in stopped:
            cluster.proxies.revive(port, properties)


@each(ALL)
def test_killed(cluster: Cluster, place: Place) -> None:
    with killing(cluster) as kill:
        go_through(cluster, place, lambda _, port: kill(port))


# The source of a copy, or its target: two timeouts, one after the other.
SLOWEST = (Place("finding", "first"), Place("transferring", "first"), Place("transferring", "new"))


@pytest.fixture(scope="module")
def hung(request: pytest.FixtureRequest, cluster: Cluster) -> dict[Place, Task]:
    """All chosen places at the same time: most of it is waiting for timeouts."""

    def go(place: Place) -> None:
        go_through(cluster, place, lambda writer, port: writer.gate.hang(port))

    chosen = [
        item.callspec.params["place"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is test_hung
    ]
    tasks = {place: Task(go, place) for place in chosen}
    for task in tasks.values():
        task.join()
    return tasks


@each(ALL, exhaustive=SLOWEST)
def test_hung(hung: dict[Place, Task], place: Place) -> None:
    hung[place].result()


@each(ALL, exhaustive=ALL)
def test_restarted(cluster: Cluster, place: Place) -> None:
    """It comes back with a replica that takes no more from this pipeline."""
    go_through(cluster, place, lambda _, port: cluster.proxies.restart(port))


@each(ALL, exhaustive=ALL)
def test_restarted_for_an_upgrade(cluster: Cluster, place: Place) -> None:
    """It says so, is waited for, and takes its place again; where no pipeline is, none sees it."""
    go_through(
        cluster,
        place,
        lambda _, port: cluster.proxies.upgrade(port),
        is_named=place.state not in ("finding", "transferring", "reserving"),
    )
