"""What happens in a round. Pure: a round follows from its seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

KIB = 1 << 10
EVENTS = 40

# The kinds of events, and how often each comes, beside the others.
WEIGHTS = {
    "stop": 5,  # a DataNode ends, and comes back some events later
    "restart": 6,  # the same, at once
    "upgrade": 5,  # it restarts for an upgrade: its writers are notified
    "full": 3,  # its disks take no new block
    "corrupt": 4,  # a bit of a replica changes on its disk
    "slow": 3,  # DataNodes send acknowledgements late
    "kill": 2,  # SIGKILL to a DataNode's process, which is started again
    "pause": 4,  # SIGSTOP, and SIGCONT some events later
    "hang": 1,  # SIGSTOP until the writers go on without it
    "fail_over": 3,  # the other NameNode becomes the active one
    "kill_name_node": 1,  # the active NameNode ends; then the same
    "restart_name_node": 2,  # the only NameNode restarts
    "kill_writer": 3,  # SIGKILL to a writer; another process recovers its files and appends
}
OF_DATA_NODES = {"stop", "restart", "upgrade", "full"}  # of those in the cluster's JVM
OF_PROCESSES = {"kill", "pause", "hang"}  # of DataNodes that are processes
OF_NAME_NODES = {"fail_over", "kill_name_node", "restart_name_node"}
LASTING = {"stop": 5, "full": 6, "slow": 4, "kill": 4, "pause": 3}  # events, at most
AWAY = {"stop", "full", "kill", "pause"}
MOST_AWAY = 2
# How often at most in a round: they take long.
MOST = {"restart_name_node": 3, "kill_name_node": 2, "kill": 3, "hang": 1}
NEW_KIND = 5  # times as likely: what a round did not have yet
ACKNOWLEDGEMENTS = (20, 150)  # between two events, at least and at most
AT_ONCE = 0.25  # how likely it is that the next event does not wait for any

LOADS = ((1, 1), (4, 1), (16, 1), (1, 16))  # streams, threads on each
NODES = (3, 4, 6)
BLOCK_SIZES = (64 * KIB, 256 * KIB, 1024 * KIB)


@dataclass(frozen=True)
class Shape:
    """The cluster, and what each client writes to it."""

    streams: int
    threads: int
    replication: int
    nodes: int
    processes: int  # of the DataNodes: the last ones
    name_nodes: int
    block_size: int

    def __str__(self) -> str:
        load = f"{self.streams} streams" if self.threads == 1 else f"{self.threads} threads on one"
        return (
            f"{load}, replication {self.replication}, {self.nodes} DataNodes, "
            f"{self.name_nodes} NameNodes, blocks of {self.block_size // KIB} KiB"
        )


@dataclass(frozen=True)
class Event:
    """One thing that happens."""

    kind: str
    node: int  # the DataNode; -1: none
    lasts: int  # events that come before it ends
    pick: int  # chooses among what there is at that time
    # That each client gets before the next event, one on each stream among them, unless it takes
    # too long; 0: that one comes at once.
    acknowledgements: int


@dataclass(frozen=True)
class Schedule:
    """A round."""

    seed: int
    shape: Shape
    events: tuple[Event, ...]

    @classmethod
    def of(cls, seed: int, events: int = EVENTS, *, hangs: bool = False) -> Schedule:
        """Return the round of a seed; 12 seeds running have all loads with all replications.

        Parameters
        ----------
        hangs : bool
            Whether a DataNode may be silent until it is given up, which takes half a minute.
        """
        rng = random.Random(seed)
        shape = _shape(seed, rng)
        return cls(seed, shape, tuple(_events(shape, events, rng, hangs)))


def _shape(seed: int, rng: random.Random) -> Shape:
    streams, threads = LOADS[seed % 4]
    nodes = NODES[seed % 3]
    return Shape(
        streams=streams,
        threads=threads,
        replication=1 + seed // 4 % 3,
        nodes=nodes,
        processes=2 if nodes == NODES[-1] else 1,
        name_nodes=rng.choice((1, 2)),
        block_size=rng.choice(BLOCK_SIZES),
    )


def _events(shape: Shape, count: int, rng: random.Random, hangs: bool) -> Iterator[Event]:
    ends: dict[str | int, int] = {}  # of nodes that are away, and of what happens to all
    seen: Counter[str] = Counter()
    for number in range(count):
        ends = {what: end for what, end in ends.items() if end > number}
        possible = {
            kind: places
            for kind in WEIGHTS
            if (kind != "hang" or hangs)
            and seen[kind] < MOST.get(kind, count)
            and (places := _places(kind, shape, ends))
        }
        kinds = list(possible)
        weights = [WEIGHTS[kind] * (1 if kind in seen else NEW_KIND) for kind in kinds]
        (kind,) = rng.choices(kinds, weights)
        node = rng.choice(possible[kind])
        lasts = rng.randint(1, LASTING[kind]) if kind in LASTING else 0
        if lasts:
            ends[kind if node < 0 else node] = number + 1 + lasts
        seen[kind] += 1
        wait = 0 if rng.random() < AT_ONCE else rng.randint(*ACKNOWLEDGEMENTS)
        yield Event(kind, node, lasts, rng.getrandbits(31), wait)


def _places(kind: str, shape: Shape, ends: dict[str | int, int]) -> list[int]:
    """Where a kind of event can happen now; empty: nowhere."""
    in_jvm = shape.nodes - shape.processes
    away = sum(isinstance(what, int) for what in ends)
    if kind in OF_DATA_NODES | OF_PROCESSES:
        if away == MOST_AWAY or (kind == "hang" and away):
            return []
        nodes = range(in_jvm) if kind in OF_DATA_NODES else range(in_jvm, shape.nodes)
        return [node for node in nodes if node not in ends]
    fits = {
        "corrupt": shape.replication > 1,
        "slow": "slow" not in ends,
        "fail_over": shape.name_nodes > 1,
        "kill_name_node": shape.name_nodes > 1,
        "restart_name_node": shape.name_nodes == 1,
    }
    return [-1] if fits.get(kind, True) else []
