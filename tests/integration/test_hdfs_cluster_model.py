"""The model of a NameNode in the simulator (tests/cpp/sim) answers as one of Hadoop does.

Conversations of clients with a NameNode and its DataNodes: see cluster_conversation.h there.
"""

from __future__ import annotations

import getpass
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.line_program import answering
from support.minidfs import Hdfs, NewHdfs
from support.waiting import wait_until

PROGRAM = Path(__file__).parents[2] / "build" / "dev" / "hflush_sim"
CHUNK = 512
CREATE, OVERWRITE, APPEND, NEW_BLOCK = 1, 2, 4, 32
DEFAULT_BLOCK_RECOVERY_MS = 90_000  # after which a recovery without an end begins anew
ALWAYS_LAPSED_MS = -1
CONVERSATIONS = 200

LEASES = ("FileNotFoundException", "LeaseExpiredException")
TO_BE_SEEN = [
    *(("create", answer) for answer in ("file", "AlreadyBeingCreatedException")),
    ("create", "FileAlreadyExistsException"),
    *(("append", answer) for answer in ("block", "no", "AlreadyBeingCreatedException")),
    *(("append", answer) for answer in ("FileNotFoundException", "RecoveryInProgressException")),
    *(("addBlock", answer) for answer in ("block", "IOException", *LEASES)),
    ("addBlock", "NotReplicatedYetException"),
    *(("complete", answer) for answer in ("true", "false", "IOException", *LEASES)),
    *(("abandonBlock", answer) for answer in ("done", *LEASES[1:])),
    *(("fsync", answer) for answer in ("done", *LEASES)),
    *(("updateBlockForPipeline", answer) for answer in ("block", "IOException")),
    *(("updatePipeline", answer) for answer in ("done", "IOException")),
    *(("recoverLease", answer) for answer in ("true", "false", "FileNotFoundException")),
    *(("isFileClosed", answer) for answer in ("true", "false", "FileNotFoundException")),
    *(("getBlockLocations", answer) for answer in ("length", "FileNotFoundException")),
    *(("getFileInfo", answer) for answer in ("file", "none")),
    *(("set-up", stage) for stage in ("append", "streaming-recovery", "close-recovery")),
    ("set-up", "append-recovery"),
    ("getAdditionalDatanode", "block"),
    *(("lapse", answer) for answer in ("no", "block", "FileAlreadyExistsException")),
    ("lapse", "RecoveryInProgressException"),
]

pytestmark = [
    pytest.mark.stores("hdfs"),
    pytest.mark.skipif(not PROGRAM.exists(), reason="hflush_sim is not built: ./dev build"),
]

Say = Callable[[str], str]  # a step of a conversation: its answer


class Both:
    """The model and a cluster, which are told the same and have to answer the same."""

    def __init__(self, hdfs: Hdfs, to_model: Say, to_hadoop: Say) -> None:
        self.hdfs = hdfs
        self.to_model = to_model
        self.to_hadoop = to_hadoop
        self.steps: list[str] = []
        self.utilities: Any = hdfs.jvm.java.org.apache.hadoop.hdfs.server.datanode.DataNodeTestUtils

    def __call__(self, step: str) -> str:
        answered = self.to_model(step)
        self.steps.append(f"{step} -> {answered}")
        expected = self.answer_of_hadoop(step, answered)
        assert answered == expected, "\n".join(self.steps[-24:])
        return answered

    def answer_of_hadoop(self, step: str, wanted: str) -> str:
        what, _, rest = step.partition(" ")
        if what == "reported":
            return self.reported(int(self.to_hadoop(step)), wanted)
        if what == "recovered":
            return self.recovered(rest)
        if what == "lapse":
            with self.hdfs.lease_limits(ALWAYS_LAPSED_MS):
                return self.to_hadoop(step)
        return self.to_hadoop(step)

    def reported(self, block: int, wanted: str) -> str:
        """How many replicas of a block the NameNode knows: at once, or when it has heard of it."""
        manager = self.hdfs.name_node.getNamesystem().getBlockManager()
        local = self.hdfs.jvm.java.org.apache.hadoop.hdfs.protocol.Block(block, 0, 0)

        def known() -> str:
            stored = manager.getStoredBlock(local)
            return "none" if stored is None else str(stored.numNodes())

        wait_for(lambda: known() == wanted)
        return known()

    def recovered(self, path: str) -> str:
        """Let the DataNodes hear of what is to be recovered."""
        nodes = self.hdfs.cluster.data_nodes()

        def is_closed() -> bool:
            for node in nodes:
                self.utilities.triggerHeartbeat(node)
            return bool(self.hdfs.is_closed(path))

        for node in nodes:
            self.utilities.setHeartbeatsDisabledForTests(node, False)
        wait_for(is_closed)
        for node in nodes:
            self.utilities.setHeartbeatsDisabledForTests(node, True)
        return "closed" if self.hdfs.is_closed(path) else "open"


def wait_for(predicate: Callable[[], bool]) -> None:
    """Wait; what is there in the end is compared by the caller."""
    with suppress(AssertionError):
        wait_until(predicate, "it")


@pytest.fixture
def say(hdfs_new: NewHdfs) -> Iterator[Say]:
    """Say a step to the model and to a cluster; what both answered, which is the same.

    The cluster is not used any more: its NameNode counts on blocks that nobody will write.
    """
    hdfs = hdfs_new(3)
    port = str(hdfs.cluster.name_node_port())
    manager = hdfs.name_node.getNamesystem().getBlockManager()
    manager.setBlockRecoveryTimeout(DEFAULT_BLOCK_RECOVERY_MS)
    with (
        hdfs.heartbeats_withheld(),  # no block is recovered, or copied, before its time
        answering(PROGRAM, "--converse-cluster") as to_model,
        answering(PROGRAM, "--converse-cluster", port, getpass.getuser()) as to_hadoop,
    ):
        yield Both(hdfs, to_model, to_hadoop)


@dataclass
class Block:
    """What its writer knows of one."""

    number: int
    stamp: int
    recorded: int  # its length, at the NameNode
    nodes: list[int]  # places of its pipeline
    length: int = 0  # acknowledged
    has_replicas: bool = False
    is_finished: bool = False  # by its DataNodes
    is_ended: bool = False  # and by a set-up: the simulator minds who sets up a pipeline after it
    is_committed: bool = False
    # It was finished under an earlier stamp. Whether the NameNode still counts those replicas is
    # up to when it hears of the new ones.
    was_finished: bool = False

    def named(self, *, number: int = 0, stamp: int = 0) -> str:
        """As in a step, or as another one: so much later."""
        return f"{self.number + number}:{self.stamp + stamp}:{self.length}"


class Talk:
    """A client that keeps the rules of data transfer, and tries what it likes with its calls.

    It says true lengths: the simulator's model minds what a NameNode takes from its clients.
    """

    def __init__(self, say: Say, seed: int, answers: Counter[tuple[str, str]]) -> None:
        self.say = say
        self.random = random.Random(seed)
        self.answers = answers
        self.path = f"/conversation-{seed}"
        self.clients = [f"client-{seed}-{number}" for number in (1, 2)]
        self.replication = self.random.randint(1, 3)
        self.holder = ""  # of the file's lease; empty: it is closed
        self.file = 0
        self.blocks: list[Block] = []
        self.is_recovering = False
        self.is_set_up = False
        self.packets = 0

    def converse(self) -> None:
        self.create()
        for _ in range(self.random.randint(6, 18)):
            actions = self.actions()
            self.random.choice(actions)()
            if self.random.random() < 0.1:
                self.look()
        self.look()

    def call(self, step: str) -> str:
        """A call, sometimes with a repeat, as if its answer was lost."""
        answer = self.say(step)
        self.answers[step.split(maxsplit=1)[0], answer.split()[0]] += 1
        if self.random.random() < 0.15:
            answer = self.say("again")
            self.answers["again", answer.split()[0]] += 1
        return answer

    @property
    def last(self) -> Block | None:
        return self.blocks[-1] if self.blocks else None

    def actions(self) -> list[Callable[[], None]]:
        if not self.holder:
            return [*[self.append] * 3, self.create, self.end_again]
        actions = [
            self.take_over,
            self.wait_for_the_soft_limit,
            self.wrong_call,
            self.wrong_call,
            self.look,
            self.rivals_call,
        ]
        if self.is_recovering:
            return [*actions, *[self.rivals_call] * 3, *[self.recovered] * 2]
        last = self.last
        if last is None or last.is_committed:
            return [*actions, self.add_block, self.add_block, self.add_block, self.complete]
        if not last.has_replicas:
            return [*actions, self.abandon, self.search, *[self.write] * 4]
        actions += [self.add_block, self.complete, self.record, self.set_up_again, self.search]
        if last.is_finished:
            return [*actions, *[self.set_up_again] * 3]
        return [*actions, self.abandon, self.finish, *[self.write] * 3]

    # --- files

    def create(self) -> None:
        client = self.random.choice(self.clients)
        flags = CREATE | (OVERWRITE if self.random.random() < 0.3 else 0)
        self.opened(self.call(f"create {self.path} {client} {flags} {self.replication}"), client)

    def append(self) -> None:
        client = self.random.choice(self.clients)
        flags = APPEND | (NEW_BLOCK if self.random.random() < 0.3 else 0)
        answer = self.call(f"append {self.path} {client} {flags}")
        last = self.last
        if not answer.endswith(f"block-size {1 << 20}"):
            return
        self.holder = client
        if last is None or flags & NEW_BLOCK:
            return
        assert answer.startswith(f"block {last.named()} ")
        # It is open again, under its stamp: the NameNode waits for another.
        last.nodes = list(range(int(answer.split(",")[0].split()[-1])))
        last.is_committed = False
        stamp = self.new_stamp()
        if stamp:
            self.set_up("append", last, stamp)

    def opened(self, answer: str, client: str) -> None:
        if answer.startswith("file"):
            self.file = int(answer.split()[1])
            self.holder, self.blocks = client, []
            self.is_recovering = self.is_set_up = False

    def complete(self) -> None:
        last = self.last
        if last and not last.is_finished and (last.was_finished or self.random.random() < 0.7):
            self.finish()
        self.ended(self.call(self.completion()))

    def completion(self) -> str:
        last = self.last.named() if self.last else "-"
        return f"complete {self.path} {self.holder} {self.named_file()} {last}"

    def ended(self, answer: str) -> None:
        if answer in ("true", "false") and self.last:
            self.last.is_committed = True
        if answer == "true":
            self.holder = ""

    def end_again(self) -> None:
        """The answer was lost, and so were the ids."""
        last = self.last
        named = self.random.choice(["-", last.named(), last.named(stamp=1)] if last else ["-"])
        for client in self.clients:
            self.call(f"complete {self.path} {client} {self.file} {named}")

    def take_over(self) -> None:
        if self.random.random() < 0.7:
            return
        client = self.random.choice(self.clients)
        answer = self.call(f"recoverLease {self.path} {client}")
        if answer == "true":
            self.holder = ""
        elif answer == "false":
            self.holder, self.is_recovering = client, True

    def wait_for_the_soft_limit(self) -> None:
        """The holder is silent for so long that another may open its file."""
        if self.random.random() < 0.5:
            return
        rival = self.rival()
        opening = [f"append {self.path} {rival} {APPEND | NEW_BLOCK}"]
        opening.append(f"create {self.path} {rival} {CREATE} 1")
        answer = self.say(f"lapse {self.random.choice(opening)}")
        self.answers["lapse", answer.split()[0]] += 1
        for client in self.clients:
            self.say(f"renewLease {client}")
        if answer == "RecoveryInProgressException":
            self.is_recovering = True
            return
        self.is_set_up = False
        self.holder = "" if answer == "FileAlreadyExistsException" else rival
        self.learn()

    def recovered(self) -> None:
        if not all(block.is_finished for block in self.blocks[:-1]):
            return  # it stays open
        assert self.say(f"recovered {self.path}") == "closed"
        self.holder, self.is_recovering, self.is_set_up = "", False, False
        self.learn()

    def learn(self) -> None:
        """What is left of the file."""
        answer = self.call(f"getBlockLocations {self.path} 0 {1 << 40}")
        self.blocks = []
        for part in answer.split(", ")[2:]:
            words = part.removeprefix("last: ").split()
            if words[0] != "block":
                continue
            number, stamp, length = map(int, words[1].split(":"))
            found = Block(number, stamp, length, list(range(int(words[5]))), length)
            found.has_replicas = found.is_finished = found.is_committed = True
            if not self.blocks or self.blocks[-1].number != number:
                self.blocks.append(found)

    def look(self) -> None:
        self.call(f"getFileInfo {self.path}")
        self.call(f"isFileClosed {self.path}")
        self.call(f"renewLease {self.random.choice(self.clients)}")
        start = self.random.choice([0, 0, 1, 700])
        self.call(f"getBlockLocations {self.path} {start} {self.random.choice([1, 1 << 40])}")

    # --- blocks

    def add_block(self) -> None:
        last = self.last
        if last and not last.is_finished and (last.was_finished or self.random.random() < 0.5):
            self.finish()
        excluded = ",".join(map(str, last.nodes)) if last and self.random.random() < 0.2 else "-"
        named = last.named() if last else "-"
        step = f"addBlock {self.path} {self.holder} {self.named_file()} {named} {excluded}"
        answer = self.call(step)
        if not answer.startswith("block"):
            return
        if last:
            last.is_committed = True
        words = answer.split()
        number, stamp, length = map(int, words[1].split(":"))
        self.blocks.append(Block(number, stamp, length, list(range(int(words[-1])))))
        self.is_set_up = False

    def abandon(self) -> None:
        last = self.last
        if last is None or self.random.random() < 0.7:
            return
        named = last.named(stamp=self.random.choice([0, 0, 1]))
        if self.call(f"abandonBlock {self.path} {self.holder} {self.file} {named}") == "done":
            self.blocks.pop()
            self.say("leave")
            self.is_set_up = False

    def record(self) -> None:
        last = self.last
        assert last is not None
        length = self.random.choice([-1, 0, last.length, last.length])
        answer = self.call(f"fsync {self.path} {self.holder} {self.named_file()} {length}")
        assert answer == "done"
        last.recorded = max(last.recorded, length)

    def new_stamp(self) -> int:
        last = self.last
        assert last is not None
        answer = self.call(f"updateBlockForPipeline {self.holder} {last.named()}")
        return int(answer.split(":")[1]) if answer.startswith("block") else 0

    def set_up_again(self) -> None:
        """A recovery of the pipeline, often with fewer nodes."""
        last = self.last
        assert last is not None
        if not last.length or last.is_ended:
            return
        if self.random.random() < 0.5:
            self.say("leave")
        stamp = self.new_stamp()
        if not stamp:
            return
        if len(last.nodes) > 1 and self.random.random() < 0.4:
            last.nodes.remove(self.random.choice(last.nodes))
        stage = "streaming-recovery"
        if last.is_finished:
            stage = self.random.choice(["append-recovery", "close-recovery"])
        self.set_up(stage, last, stamp)

    def set_up(self, stage: str, last: Block, stamp: int) -> None:
        nodes = ",".join(map(str, last.nodes))
        lengths = f"{last.length} {last.length}"
        answer = self.say(f"set-up {stage} {last.named()} {stamp} {lengths} {nodes}")
        self.answers["set-up", stage] += 1
        assert answer == "accepted"
        self.is_set_up, self.packets = stage != "close-recovery", 0
        last.was_finished = stage.startswith("append") or last.was_finished
        last.is_finished = not self.is_set_up
        after = last.named(stamp=stamp - last.stamp)
        if self.random.random() < 0.3:  # what comes too late
            named = f"{last.named()} {last.named()}"
            assert self.call(f"updatePipeline {self.holder} {named} {nodes}") == "IOException"
        assert self.call(f"updatePipeline {self.holder} {last.named()} {after} {nodes}") == "done"
        last.stamp, last.recorded = stamp, last.length
        last.is_ended = last.is_finished
        if last.is_finished:
            self.say(f"reported {last.named()}")

    def search(self) -> None:
        """For another DataNode: the others are there, or given up."""
        last = self.last
        assert last is not None
        given_up = {node for node in last.nodes if self.random.random() < 0.3}
        kept = ",".join(str(node) for node in last.nodes if node not in given_up) or "-"
        gone = ",".join(map(str, sorted(given_up))) or "-"
        named = f"{self.path} {self.holder} {self.named_file()} {last.named()}"
        answer = self.say(f"getAdditionalDatanode {named} {kept} {gone}")
        self.answers["getAdditionalDatanode", answer.split()[0]] += 1

    def write(self) -> None:
        last = self.last
        assert last is not None
        if not last.has_replicas:
            nodes = ",".join(map(str, last.nodes))
            assert self.say(f"set-up create {last.named()} 0 0 0 {nodes}") == "accepted"
            last.has_replicas, self.is_set_up, self.packets = True, True, 0
        if not self.is_set_up:
            return self.set_up_again()
        for _ in range(self.random.randint(1, 2)):
            offset = last.length - last.length % CHUNK
            size = self.random.randint(last.length - offset + 1, 3 * CHUNK)
            self.packet(f"{offset} {size}{self.random.choice(['', ' sync'])}")
            last.length = offset + size
        return None

    def finish(self) -> None:
        last = self.last
        assert last is not None
        if not last.length or not self.is_set_up:
            return
        self.packet(f"{last.length} 0 last")
        last.is_finished, self.is_set_up = True, False
        self.say(f"reported {last.named()}")

    def packet(self, rest: str) -> None:
        assert self.say(f"packet {self.packets} {rest}") == "acknowledged"
        self.packets += 1

    # --- wrong calls

    def named_file(self) -> int:
        """By its id, or by its path."""
        return self.random.choice([self.file, self.file, 0])

    def rival(self) -> str:
        return next(client for client in self.clients if client != self.holder)

    def rivals_call(self) -> None:
        """Of one who has another file, or none."""
        rival = self.rival()
        last = self.last.named() if self.last else "-"
        file = f"{self.path} {rival} {self.named_file()}"
        calls = [
            f"create {self.path} {rival} {CREATE} 1",
            f"create {self.path} {self.holder} {CREATE} 1",
            f"append {self.path} {rival} {APPEND}",
            f"append {self.path} {self.holder} {APPEND}",
            f"addBlock {file} {last} -",
            f"complete {file} {last}",
            f"fsync {file} -1",
        ]
        if self.last:
            calls += [
                f"abandonBlock {file} {last}",
                f"updateBlockForPipeline {rival} {last}",
                f"updatePipeline {rival} {last} {self.last.named(stamp=1)} 0",
            ]
        self.call(self.random.choice(calls))

    def wrong_call(self) -> None:
        """With one that is not there: a file, a block, a stamp."""
        wrong = self.random.choice([f"{self.path} {self.holder} {self.file + 1}", "/none nobody 0"])
        named = self.last.named() if self.last else "-"
        calls = [
            f"addBlock {wrong} - -",
            f"complete {wrong} {named}",
            f"fsync {wrong} 1",
            "append /none nobody 4",
            "getFileInfo /none",
            "getBlockLocations /none 0 1",
            "isFileClosed /none",
            "recoverLease /none nobody",
        ]
        if self.last:
            right = f"{self.path} {self.holder} {self.file}"
            other = self.random.choice(
                [self.last.named(number=1), self.last.named(stamp=1), self.last.named(stamp=-1)]
            )
            another = self.last.named(number=1)
            calls += [
                f"addBlock {right} {other} -",
                f"addBlock {right} {other} -",
                f"abandonBlock {right} {another}",
                f"updateBlockForPipeline {self.holder} {another}",
                f"updatePipeline {self.holder} {another} {another} -",
            ]
            if not self.last.is_committed:
                calls.append(f"complete {right} {other}")
        answer = self.call(self.random.choice(calls))
        assert not answer.startswith(("block", "file")), answer


@pytest.mark.rule("HDFS-1", "HDFS-5", "HDFS-25")
def test_the_calls_of_writers(say: Say) -> None:
    """What a NameNode answers to 200 conversations of right and wrong calls."""
    answers: Counter[tuple[str, str]] = Counter()
    for seed in range(CONVERSATIONS):
        Talk(say, seed, answers).converse()
    assert [call for call in TO_BE_SEEN if not answers[call]] == []
