"""The model of a DataNode in the simulator (tests/cpp/sim) answers as one of Hadoop does."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.line_program import answering
from support.minidfs import Hdfs

PROGRAM = Path(__file__).parents[2] / "build" / "dev" / "hflush_sim"
CHUNK = 512
ANSWERS = ("accepted", "refused")
STAGES = ("append", "append-recovery", "streaming-recovery", "close-recovery")
FIRST_BLOCK = 1 << 40  # beyond what the NameNode gives out
FIRST_STAMP = 100_000

pytestmark = [
    pytest.mark.stores("hdfs"),
    pytest.mark.skipif(not PROGRAM.exists(), reason="hflush_sim is not built: ./dev build"),
]

Say = Callable[[str], str]  # a step of a conversation (tests/cpp/sim/conversation.h): its answer


@pytest.fixture
def say(hdfs_cluster: Hdfs) -> Iterator[Say]:
    """Say a step to the model and to a DataNode; what both answered, which is the same."""
    port = hdfs_cluster.ports[0]
    pool = hdfs_cluster.name_node.getNamesystem().getBlockPoolId()
    steps: list[str] = []
    with (
        hdfs_cluster.blocks_unreported(port),  # the NameNode knows none of them
        answering(PROGRAM, "--converse") as to_model,
        answering(PROGRAM, "--converse", str(port), pool) as to_hadoop,
    ):

        def say_to_both(step: str) -> str:
            steps.append(step)
            expected = to_hadoop(step)
            if step.startswith("replica "):
                expected = replica(hdfs_cluster, port, pool, int(step.split()[1]))
            answered = to_model(step)
            assert answered == expected, "\n".join(steps[-12:])
            return expected

        yield say_to_both


def replica(hdfs: Hdfs, port: int, pool: str, block: int) -> str:
    utilities: Any = hdfs.jvm.java.org.apache.hadoop.hdfs.server.datanode.DataNodeTestUtils
    found = utilities.fetchReplicaInfo(hdfs.node(port), pool, block)
    if found is None:
        return "none"
    lengths = f"{found.getNumBytes()} {found.getVisibleLength()}"
    return f"{found.getState().name()} {found.getGenerationStamp()} {lengths}"


class Client:
    """A client that keeps the rules of packets, and tries what it likes in its set-ups."""

    def __init__(self, say: Say, seed: int) -> None:
        self.say = say
        self.random = random.Random(seed)
        self.block = FIRST_BLOCK + seed
        self.stamp = FIRST_STAMP
        self.length = 0
        self.answers: Counter[tuple[str, str]] = Counter()  # to set-ups, by stage

    def converse(self) -> None:
        created = self.random.choice([*["create"] * 16, *STAGES])
        if self.set_up(created, self.stamp, self.stamp + 1, 0, 0):
            self.write()
        for _ in range(self.random.randint(1, 4)):
            self.look()
            stage = self.random.choice(["create", *STAGES, *STAGES])
            if self.set_up(stage, *self.numbers()):
                self.write()
        self.look()

    def numbers(self) -> list[int]:
        """The stamps and lengths that fit to the replica, often but for one of them."""
        numbers = [self.stamp, self.stamp + 1, self.length, self.length]
        if self.random.random() < 0.5:
            wrong = self.random.randrange(len(numbers))
            away = (-2, -1, 1, 2) if wrong < 2 else (-CHUNK, -1, 1, CHUNK)
            numbers[wrong] = max(0, numbers[wrong] + self.random.choice(away))
        return numbers

    def set_up(self, stage: str, stamp: int, latest: int, least: int, most: int) -> bool:
        latest = 0 if stage == "create" else latest
        step = f"set-up {stage} {self.block} {stamp} {latest} {least} {most}"
        answer = self.say(step)
        self.answers[stage, answer] += 1
        return answer == "accepted" and stage != "close-recovery"

    def look(self) -> None:
        """Compare the replicas; go on from what is there."""
        _, *numbers = self.say(f"replica {self.block}").split()
        if numbers:
            self.stamp, self.length, _ = map(int, numbers)

    def write(self) -> None:
        """Send packets: the next bytes, or the last chunk again with more of it."""
        self.look()
        number = 0
        for _ in range(self.random.randint(0, 3)):
            rest = -self.length % CHUNK
            if rest and self.random.random() < 0.5:
                offset, size = self.length, self.random.randint(1, rest)
            else:
                offset = self.length - self.length % CHUNK
                size = self.random.randint(self.length - offset + 1, 3 * CHUNK)
            flags = " sync" if self.random.random() < 0.3 else ""
            said = self.say(f"packet {number} {offset} {size}{flags}")
            assert said == "acknowledged"
            self.length, number = offset + size, number + 1
        if self.length and self.random.random() < 0.5:
            assert self.say(f"packet {number} {self.length} 0 last") == "acknowledged"
        if self.random.random() < 0.7:
            self.say("leave")


@pytest.mark.rule("HDFS-9", "HDFS-10")
def test_the_stages_of_write_block(say: Say) -> None:
    """What each stage makes of each replica: 200 conversations of set-ups, right and wrong."""
    answers: Counter[tuple[str, str]] = Counter()
    for seed in range(200):
        client = Client(say, seed)
        client.converse()
        answers += client.answers
    assert all(answers[stage, answer] >= 10 for stage in STAGES for answer in ANSWERS), answers
