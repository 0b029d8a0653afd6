"""HDFS when nodes fail, beside Hadoop's own client: see hdfs_faults.py for what they run on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from itertools import cycle

import pytest
from hdfs_cluster import JAVA, MIB, OURS, Answer, HdfsBench
from hdfs_faults import PIPELINE, RECORD, WAIT_S, DataNodes, HaPair, Links, unread_bytes
from interleaved import Quantity, Target
from support.waiting import wait_until

PLACES = ("first", "middle", "last")
HALF = [Target(JAVA, time_at_most=0.5)]
STREAMS = 1000
PACKET = 126 * 512  # one of both clients, whole, so that a flush has nothing more to send
THREADS = 16
BEFORE, AFTER = 100, 20  # records


def stall(
    data_nodes: DataNodes,
    name: str,
    place: int,
    struck: Callable[[int], AbstractContextManager[None]],
) -> Answer:
    """Strike a DataNode under a writer; how long it had no acknowledgement."""
    clients = data_nodes.clients
    path, child = clients.new_path(), clients.long_lived(name)
    child.order("log", path, PIPELINE, 1, RECORD, "hflush")
    child.order("more", BEFORE)
    with struck(data_nodes.pipeline(path)[place]):
        child.order("more", AFTER)
        answer = child.order("end")
    data_nodes.delete(path)
    return answer


def median_and_p90(key: str, work: str) -> list[Quantity]:
    return [
        Quantity(key, f"{work}: {name}", HALF, rank=rank)
        for name, rank in (("median", 0.5), ("p90", 0.9))
    ]


@pytest.mark.parametrize("place", PLACES)
def test_kill(data_nodes: DataNodes, ratios: Callable[..., None], place: str) -> None:
    """The time to the next acknowledgement, when another DataNode can come in."""

    def trial(name: str) -> Answer:
        data_nodes.keep(PIPELINE + 1)
        return stall(data_nodes, name, PLACES.index(place), data_nodes.killed)

    ratios(
        median_and_p90("stall", f"kill -9 of the {place} of 3 DataNodes under 1 KiB hflushes"),
        ours=partial(trial, OURS),
        peers={JAVA: partial(trial, JAVA)},
        rounds=8,
    )


def test_kill_without_a_spare(data_nodes: DataNodes, ratios: Callable[..., None]) -> None:
    """The same when two DataNodes have to do: each place in turn."""
    places = {name: cycle(range(PIPELINE)) for name in (OURS, JAVA)}

    def trial(name: str) -> Answer:
        data_nodes.keep(PIPELINE, PIPELINE)
        return stall(data_nodes, name, next(places[name]), data_nodes.killed)

    ratios(
        median_and_p90("stall", "kill -9 of one of 3 DataNodes under 1 KiB hflushes, no spare"),
        ours=partial(trial, OURS),
        peers={JAVA: partial(trial, JAVA)},
        rounds=7,
    )


def test_kill_at_the_last_packet(data_nodes: DataNodes, ratios: Callable[..., None]) -> None:
    """The block's last packet is on the way to a DataNode that dies: the time to its close."""
    places = {name: cycle(range(PIPELINE)) for name in (OURS, JAVA)}

    def trial(name: str) -> Answer:
        data_nodes.keep(PIPELINE, PIPELINE)
        clients = data_nodes.clients
        directory, child = clients.new_path(), clients.long_lived(name)
        child.order("hold", directory, 1, RECORD, PIPELINE)
        victim = data_nodes.pipeline(f"{directory}/0")[next(places[name])]
        with data_nodes.paused(victim):
            child.begin("release")
            wait_until(lambda: unread_bytes(victim) > 0, "the last packet is sent", WAIT_S)
            killed = data_nodes.kill(victim)
        closed = child.answer()["at"]
        data_nodes.declare_dead(victim)
        data_nodes.delete(directory)
        return {"seconds": closed - killed}

    ratios(
        median_and_p90("seconds", "kill -9 of one of 3 DataNodes at the last packet: close"),
        ours=partial(trial, OURS),
        peers={JAVA: partial(trial, JAVA)},
        rounds=7,
    )


@pytest.mark.parametrize("place", PLACES)
def test_stop(data_nodes: DataNodes, ratios: Callable[..., None], place: str) -> None:
    """A DataNode is stopped (SIGSTOP); every timeout is Hadoop's default."""

    def trial(name: str) -> Answer:
        data_nodes.keep(PIPELINE + 1)
        return stall(data_nodes, name, PLACES.index(place), data_nodes.paused)

    ratios(
        [
            Quantity(
                "stall",
                f"SIGSTOP of the {place} of 3 DataNodes under 1 KiB hflushes",
                [Target(JAVA, time_at_most=0.15)],
            )
        ],
        ours=partial(trial, OURS),
        peers={JAVA: partial(trial, JAVA)},
        rounds=3,
    )


def test_lost_link(links: Links, ratios: Callable[..., None]) -> None:
    """What the first DataNode sends to the second one, and its answers, no longer arrive."""

    def trial(name: str) -> Answer:
        path, child = links.clients.new_path(), links.clients.long_lived(name)
        with links.of(path, child) as gate:
            child.order("log", path, PIPELINE, 1, RECORD, "hflush")
            child.order("more", BEFORE)
            gate.hang(gate.pipeline[0])  # of those behind the first one
            child.order("more", AFTER)
            return child.order("end")

    ratios(
        [
            Quantity(
                "stall",
                "the link between the first two of 3 DataNodes is lost under 1 KiB hflushes",
                [Target(JAVA, time_at_most=0.3)],
            )
        ],
        ours=partial(trial, OURS),
        peers={JAVA: partial(trial, JAVA)},
        rounds=3,
    )


def test_a_thousand_streams(
    data_nodes: DataNodes, ratios: Callable[..., None], figure: Callable[..., None], quick: bool
) -> None:
    """All of them have bytes on the way when a DataNode dies."""
    streams = STREAMS // 10 if quick else STREAMS
    threads = {name: 0.0 for name in (OURS, JAVA)}

    def trial(clients: HdfsBench, name: str) -> Answer:
        data_nodes.keep(PIPELINE, PIPELINE)
        directory, child = clients.new_path(), clients.long_lived(name)
        child.order("hold", directory, streams, RECORD, PIPELINE)
        victim = data_nodes.pipeline(f"{directory}/0")[0]
        with data_nodes.paused(victim):
            child.order("put", PACKET)
            child.begin("flush")
            killed = data_nodes.kill(victim)
        answer = child.answer()
        threads[name] = max(threads[name], answer["threads"])
        child.order("release")
        data_nodes.declare_dead(victim)
        data_nodes.delete(directory)
        return {"seconds": answer["at"] - killed}

    # Blocks reserve their full size on the DataNodes.
    with data_nodes.more_clients({"dfs.blocksize": str(MIB)}) as clients:
        about = f"{streams:,} open streams with bytes on the way lose a DataNode"
        ratios(
            [
                Quantity(
                    "seconds",
                    f"{about}: until all are acknowledged",
                    [Target(JAVA, time_at_most=0.3)],
                )
            ],
            ours=partial(trial, clients, OURS),
            peers={JAVA: partial(trial, clients, JAVA)},
            rounds=2,
        )
    figure("threads", threads[OURS], "", at_most=3.0)
    figure(f"threads, {JAVA}", threads[JAVA], "")


def test_rolling_upgrade(ha_pair: HaPair, ratios: Callable[..., None]) -> None:
    """Each DataNode restarts for an upgrade under sixteen threads that log to one stream."""

    def trial(clients: HdfsBench, name: str) -> Answer:
        child = clients.long_lived(name)
        child.order("log", clients.new_path(), PIPELINE, THREADS, RECORD, "hsync")
        ha_pair.upgrade(after_each=lambda: child.order("more", 500))
        answer = child.order("end")
        return {"each": answer["seconds"] / answer["records"]}

    with ha_pair.clients({}) as clients:
        ratios(
            [
                Quantity(
                    "each",
                    "1 KiB + hsync, 16 threads on one stream, rolling upgrade of 3 DataNodes",
                    [Target(JAVA, speed_at_least=1.2)],
                )
            ],
            ours=partial(trial, clients, OURS),
            peers={JAVA: partial(trial, clients, JAVA)},
            rounds=2,
        )


def test_failover(ha_pair: HaPair, ratios: Callable[..., None]) -> None:
    """The active NameNode becomes a standby; blocks are small, so that it is asked all the time."""

    def trial(clients: HdfsBench, name: str) -> Answer:
        child = clients.long_lived(name)
        child.order("log", clients.new_path(), PIPELINE, THREADS, RECORD, "hsync")
        child.order("more", 500)
        for _ in range(2):  # there and back: a client does not know which of the two comes next
            ha_pair.fail_over()
            child.order("more", 500)
        return child.order("end")

    with ha_pair.clients({"dfs.blocksize": str(64 * 1024)}) as clients:
        ratios(
            [
                Quantity(
                    "stall",
                    "longest stall of 16 threads on one stream, hsync, NameNode failover",
                    HALF,
                )
            ],
            ours=partial(trial, clients, OURS),
            peers={JAVA: partial(trial, clients, JAVA)},
            rounds=6,
        )
