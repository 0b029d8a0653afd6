"""HDFS: clusters under load, while DataNodes, NameNodes and writers fail as a seed says.

HFLUSH_SEED=… runs the round of another seed, HFLUSH_SEED=fresh a new one; it is printed. More
rounds, and those of other clients: `./dev reliability hdfs`.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from reliability.load import records
from reliability.load.cluster import running
from reliability.load.journal import Ack, Failure, Ledger
from reliability.load.judge import Checked, End, Fault, Lost, check, gave_up, may_lose, stalls
from reliability.load.running import HFLUSH, run
from reliability.load.schedule import AWAY, EVENTS, MOST_AWAY, WEIGHTS, Schedule
from support.minidfs import NewHdfs
from support.waiting import PATIENCE

POOL = records.pool(1)
SEED = "5"  # four streams, two replicas, six DataNodes, two NameNodes


@pytest.mark.timeout(600 * PATIENCE)
def test_nothing_acknowledged_is_lost_and_no_writer_gives_up(
    hdfs_new: NewHdfs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What each `hflush` and `hsync` acknowledged is there, and each stream goes on to its end."""
    chosen = os.environ.get("HFLUSH_SEED") or SEED
    seed = random.randrange(10**9) if chosen == "fresh" else int(chosen)
    schedule = Schedule.of(seed)
    with capsys.disabled():
        print(f"\nHFLUSH_SEED={seed}: {schedule.shape}", flush=True)
    (journals := tmp_path / "journals").mkdir()
    with running(schedule.shape, hdfs_new, tmp_path) as cluster:
        (result,) = run(schedule, cluster, [HFLUSH], journals, print)
    print(result)
    assert result.is_right, f"HFLUSH_SEED={seed}: {result}\n" + "\n".join(result.notes)
    assert result.events.total() == EVENTS
    assert result.acknowledgements >= EVENTS


def test_a_round_follows_from_its_seed() -> None:
    assert Schedule.of(7) == Schedule.of(7)
    assert Schedule.of(7).events != Schedule.of(8).events


@pytest.mark.parametrize("first", [0, 12, 10**9])
def test_rounds_are_what_a_cluster_can_take(first: int) -> None:
    """All kinds of events come; no DataNode fails that is away; at least one is there."""
    shapes = set()
    kinds = set()
    for seed in range(first, first + 12):
        schedule = Schedule.of(seed, hangs=True)
        shapes.add((schedule.shape.streams, schedule.shape.replication))
        kinds |= {event.kind for event in schedule.events}
        back: dict[int, int] = {}
        for number, event in enumerate(schedule.events):
            back = {node: end for node, end in back.items() if end > number}
            assert event.node not in back
            if event.kind in AWAY:
                back[event.node] = number + 1 + event.lasts
            assert len(back) <= min(MOST_AWAY, schedule.shape.nodes - 1)
    assert len(shapes) == 9  # streams 1, 4, 16 with replication 1, 2, 3
    assert kinds == set(WEIGHTS)


def ledger_of(*lines: str) -> Ledger:
    """A ledger of stream 0 that has read these lines, of three generations."""
    ledger = Ledger()
    for _ in range(3):
        ledger.expect(0)
    for line in lines:
        ledger.take(line)
    return ledger


def content(generation: int, *records_of: tuple[int, int]) -> bytes:
    """Records of stream 0: (thread, number)."""
    return b"".join(records.record(POOL, 0, generation, *each) for each in records_of)


def checked(data: bytes, *lines: str) -> Checked:
    return check(0, ledger_of(*lines).streams[0], data, POOL)


ONE = content(0, (0, 0), (1, 0), (0, 1))  # records of two threads
OPENED = "opened 1 0 0 0"
ACKS = ("ack 2 0 0 0 1 9", "ack 2 0 0 1 1 9", "ack 2 0 0 0 2 9")
CLOSED = "closed 3 0 0 9"


def test_a_file_as_it_was_acknowledged_is_right() -> None:
    found = checked(ONE, OPENED, *ACKS, CLOSED)
    assert (found.acknowledged, found.lost, found.wrong) == (len(ONE), [], 0)


@pytest.mark.parametrize("cut", [1, 30, len(ONE)])
def test_missing_bytes_are_lost(cut: int) -> None:
    found = checked(ONE[:-cut], OPENED, *ACKS)
    assert found.lost == [Lost(0, cut, before=None)]
    assert found.wrong == 0
    assert found.notes


def test_a_record_that_was_not_acknowledged_may_be_cut_off() -> None:
    assert not checked(ONE[:-1], OPENED, *ACKS[:2]).lost
    assert checked(ONE[:-1], OPENED, *ACKS[:2]).wrong == 0


def test_a_closed_file_is_whole() -> None:
    assert checked(ONE[:-1], OPENED, *ACKS[:2], CLOSED).wrong > 0
    assert checked(ONE, OPENED, *ACKS[:2], CLOSED).wrong > 0


@pytest.mark.parametrize("at", [0, 25, len(ONE) - 1])
def test_other_bytes_are_wrong(at: int) -> None:
    changed = bytearray(ONE)
    changed[at] ^= 1
    assert checked(bytes(changed), OPENED, *ACKS).wrong > 0


def test_a_record_that_is_there_twice_is_wrong() -> None:
    twice = content(0, (0, 0), (0, 0), (1, 0), (0, 1))
    assert checked(twice, OPENED, *ACKS).wrong > 0


def test_what_follows_begins_where_its_writer_found_the_end() -> None:
    cut_off = content(0, (0, 0)) + content(0, (0, 1))[:40]
    lines = (OPENED, "ack 2 0 0 0 1 9", f"opened 4 0 1 {len(cut_off)}", "ack 5 0 1 0 1 9")
    assert not checked(cut_off + content(1, (0, 0)), *lines).lost
    assert checked(cut_off, *lines).lost == [Lost(1, len(content(1, (0, 0))), before=None)]


@pytest.mark.parametrize("cut", [1, len(ONE)])
def test_who_finds_a_shorter_file_overwrites_nothing(cut: int) -> None:
    """What it does not find is lost; what it writes in that place is not wrong."""
    second = content(1, (0, 0))
    lines = (f"opened 4 0 1 {len(ONE)}", "ack 5 0 1 0 1 9", f"opened 6 0 2 {len(ONE) - cut}")
    found = checked(ONE[:-cut] + content(2, (0, 0)), OPENED, *ACKS, *lines, "ack 7 0 2 0 1 9")
    assert found.lost == [Lost(0, cut, before=2), Lost(1, len(second), before=2)]
    assert found.wrong == 0


def end(at: int, since: int, *nodes: int) -> End:
    return End(0, 0, Failure(at, "hflush", ""), since, nodes)


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([], True),
        ([Fault(0, "stop", 5)], True),  # the other one was good
        ([Fault(0, "stop", 5), Fault(1, "stop", 6)], False),
        ([Fault(0, "stop", 5), Fault(1, "stop", 2, 3)], False),  # it has an older replica
        ([Fault(0, "stop", 5), Fault(1, "stop", 0, 1)], True),  # that was before
        ([Fault(0, "stop", 5), Fault(1, "stop", 9)], True),  # that was later
    ],
)
def test_a_writer_gives_up_if_a_node_was_good_all_the_time(
    faults: list[Fault], expected: bool
) -> None:
    assert gave_up(end(8, 2, 0, 1), faults) is expected


def test_bytes_may_go_with_every_node_that_had_them() -> None:
    both = [Fault(0, "stop", 5, 6), Fault(1, "kill", 7, 8)]
    assert may_lose(end(8, 2, 0, 1), both, until=9)
    assert not may_lose(end(8, 2, 0, 1), both[:1], until=9)
    assert not may_lose(end(8, 2, 0, 1, 2), both, until=9)
    assert may_lose(end(8, 2, 0, 1, 2), [Fault(2, "upgrade", 5, 6)], until=9)
    assert not may_lose(end(8, 2, 0, 1, 2), [Fault(3, "upgrade", 5, 6)], until=9)


def test_a_stall_is_the_call_that_was_under_way_or_the_next_one() -> None:
    second = 10**9
    acks = [Ack(second, second // 10), Ack(5 * second, 3 * second), Ack(6 * second, second)]
    assert stalls([3 * second], [acks]) == [3.0]
    assert stalls([second + 1], [acks, acks[2:]]) == [3.0]
    assert stalls([7 * second], [acks]) == []
