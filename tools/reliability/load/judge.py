"""What a file must have, and which writer gave up too early. Pure."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from reliability.load import records
from reliability.load.journal import Ack, Failure, Generation

UPGRADE = "upgrade"


@dataclass
class Checked:
    """A file against what its writers were promised, in bytes."""

    acknowledged: int = 0
    lost: list[Lost] = field(default_factory=list)
    wrong: int = 0  # there, and not what was written in that place
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Lost:
    """Acknowledged bytes of a generation that are not there."""

    generation: int
    size: int
    before: int | None  # the generation that did not find them; None: none was opened since


def check(stream: int, generations: Sequence[Generation], data: bytes, pool: bytes) -> Checked:
    """Compare a file, as far as it could be read, with what was acknowledged.

    Each generation begins where its writer found the end of the file, and ends where a later one
    begins: the next one, or one after it, which found a shorter file. Behind what it was promised
    there may be records that it was not, the last one of them cut off; unless it has closed the
    file, which was a promise for all of it.
    """
    checked = Checked()
    starts = {number: one.start for number, one in enumerate(generations) if one.start is not None}
    for number, start in starts.items():
        end = min([len(data), *(starts[later] for later in starts if later > number)])
        part = _Part(stream, number, generations[number], data[start:end], pool)
        lost = _check(part, checked)
        if lost:
            promised = start + len(part.data) + lost
            finders = (later for later in starts if later > number and starts[later] < promised)
            checked.lost.append(Lost(number, lost, next(finders, None)))
    return checked


@dataclass
class _Part:
    """What one generation wrote."""

    stream: int
    number: int
    generation: Generation
    data: bytes
    pool: bytes

    def record(self, thread: int, number: int) -> bytes:
        return records.record(self.pool, self.stream, self.number, thread, number)

    def bytes_of(self, thread: int, numbers: Iterable[int]) -> int:
        return sum(records.size(self.stream, self.number, thread, number) for number in numbers)


def _check(part: _Part, checked: Checked) -> int:
    """Add what is wrong with a part, and say how many acknowledged bytes are not there."""
    promised = part.generation.counts
    found, at = _whole_records(part)
    rest = part.data[at:]
    unseen = 0
    for thread, count in promised.items():
        checked.acknowledged += part.bytes_of(thread, range(count))
        unseen += part.bytes_of(thread, range(found.get(thread, 0), count))
    cut_off = not part.generation.is_closed and _begins_a_record(part, found, rest)
    wrong = 0 if cut_off else len(rest)
    if part.generation.is_closed:  # records that were never acknowledged
        wrong += sum(
            part.bytes_of(thread, range(promised.get(thread, 0), count))
            for thread, count in found.items()
        )
    lost = max(0, unseen - wrong - (len(rest) if cut_off else 0))
    checked.wrong += wrong
    where = f"generation {part.number} (from {part.generation.start})"
    if wrong:
        checked.notes.append(f"{where}: not what was written, from {at} on: {rest[:24].hex()}")
    if lost:
        checked.notes.append(f"{where}: ends after {len(part.data)}, {unseen} acknowledged beyond")
    return lost


def _whole_records(part: _Part) -> tuple[dict[int, int], int]:
    """Follow the records from the start: how many of each thread, and where that ends."""
    found: dict[int, int] = {}
    at = 0
    while at + records.HEADER.size <= len(part.data):
        _, _, thread, number, size = records.HEADER.unpack_from(part.data, at)
        if number != found.get(thread, 0):
            break
        if part.data[at : at + size] != part.record(thread, number):
            break
        found[thread] = number + 1
        at += size
    return found, at


def _begins_a_record(part: _Part, found: dict[int, int], rest: bytes) -> bool:
    """Whether the rest is the beginning of a record that may come there."""
    if not rest:
        return True
    threads = {0, *part.generation.counts, *found}
    return any(
        part.record(thread, found.get(thread, 0)).startswith(rest) for thread in _first(threads)
    )


def _first(threads: Collection[int]) -> range:
    """Return all threads up to the next one: one may have written before any acknowledgement."""
    return range(max(*threads, 15) + 1)


@dataclass(frozen=True)
class Fault:
    """A DataNode is not good. Times are in nanoseconds; `ends` is None while it lasts."""

    node: int
    kind: str
    begins: int
    ends: int | None = None


def good_nodes(nodes: Collection[int], faults: Iterable[Fault], since: int, until: int) -> set[int]:
    """Return the DataNodes that were good all the time."""
    bad = {
        fault.node
        for fault in faults
        if fault.begins <= until and (fault.ends is None or fault.ends >= since)
    }
    return set(nodes) - bad


@dataclass(frozen=True)
class End:
    """A writer that failed or was killed.

    `nodes` are those that could have taken its bytes: of the last block's pipeline, as the NameNode
    had it; or all, if that block was complete.
    """

    stream: int
    generation: int
    failure: Failure | None  # None: it was killed
    since: int  # the last call that was acknowledged began
    nodes: tuple[int, ...]


def gave_up(end: End, faults: Iterable[Fault]) -> bool:
    """Whether a writer failed although a DataNode remained that it could have gone on with."""
    return bool(end.failure and nodes_left(end, faults))


def nodes_left(end: End, faults: Iterable[Fault]) -> set[int]:
    """Return the DataNodes that a writer that failed could have gone on with."""
    assert end.failure is not None
    return good_nodes(end.nodes, faults, end.since, end.failure.at)


def may_lose(end: End, faults: Iterable[Fault], until: int) -> bool:
    """Whether bytes may be gone when another writer has recovered the file: not by the client.

    hflush puts bytes into the memory of DataNodes, and one that ends while it overwrites the last
    chunk of a replica drops that chunk when it starts again. That is so if each DataNode of the
    pipeline failed; or if one restarted for an upgrade, because a recovery then takes its replica
    for as good as the others, and the shortest one's length for the block's.
    """
    all_faults = list(faults)
    upgrades = (fault for fault in all_faults if fault.kind == UPGRADE)
    return not good_nodes(end.nodes, all_faults, end.since, until) or good_nodes(
        end.nodes, upgrades, end.since, until
    ) != set(end.nodes)


def stalls(events: Iterable[int], streams: Iterable[Sequence[Ack]]) -> list[float]:
    """Return how long writers waited, in seconds, for each event after which one did.

    Of each thread of each stream, the call counts that was under way at that time, or else the next
    one; of these, the longest. A call that failed is not among them.
    """
    all_acks = [acks for acks in streams if acks]
    found = []
    for event in events:
        waited = []
        for acks in all_acks:
            at = bisect_left(acks, event, key=lambda ack: ack.at)
            if at < len(acks) and acks[0].began <= event:
                waited.append(acks[at].took / 1e9)
        if waited:
            found.append(max(waited))
    return found


def median(values: Collection[float]) -> float:
    return statistics.median(values) if values else 0.0


def percentile(values: Collection[float], percent: int) -> float:
    """Return what so many percent of the values are not above."""
    if len(values) < 2:
        return median(values)
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
