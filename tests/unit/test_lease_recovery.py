"""Waiting for a file whose writer is gone: when what is asked, and what is said meanwhile."""

from __future__ import annotations

import errno
import math

import hflush
import pytest
from hflush.hdfs import lease_recovery
from hflush.hdfs.lease_recovery import Schedule, Step, begin, passes, recover
from hflush.status import LeaseRecovery


def steps(wait: float, count: int, each: float = 0.0) -> list[tuple[str, float]]:
    """The steps of a schedule that begins at 100, seen from there; each takes so long itself."""
    schedule = Schedule(100.0, wait)
    now = 100.0
    found = []
    while len(found) < count and (not found or found[-1][0] != "stop"):
        step = schedule.next(now)
        assert step.at >= now
        found.append((step.action, step.at - 100.0))
        now = step.at + each
    return found


def test_it_looks_each_second_and_asks_again_more_and_more_seldom():
    """After 10 s, 20 s and 40 s more, then each minute."""
    plan = steps(math.inf, 300)
    assert [at for _, at in plan] == [float(second) for second in range(1, 301)]
    assert [at for action, at in plan if action == "ask"] == [10.0, 30.0, 70.0, 130.0, 190.0, 250.0]
    assert {action for action, _ in plan} == {"look", "ask"}


@pytest.mark.parametrize(
    ("wait", "plan"),
    [
        (0.0, [("stop", 0.0)]),
        (0.25, [("look", 0.25), ("stop", 0.25)]),
        (2.5, [("look", 1.0), ("look", 2.0), ("look", 2.5), ("stop", 2.5)]),
    ],
)
def test_the_last_look_is_at_the_end(wait: float, plan: list[tuple[str, float]]):
    """A wait that is shorter than the interval is one look."""
    assert steps(wait, 10) == plan


def test_a_step_that_takes_long_is_followed_by_a_pause():
    """Nothing is made up for."""
    assert steps(math.inf, 3, each=30.0) == [("look", 1.0), ("ask", 32.0), ("ask", 63.0)]


@pytest.mark.parametrize(
    ("failure", "remote", "expected"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "", True),
        (ConnectionResetError(errno.ECONNRESET, "x"), "", True),
        (TimeoutError(errno.ETIMEDOUT, "x"), "", True),
        (OSError(errno.EHOSTUNREACH, "x"), "", True),
        (OSError(errno.EIO, "x"), "", False),
        (OSError(errno.EROFS, "x"), "a.b.SafeModeException", True),
        (OSError(errno.EIO, "x"), "a.StandbyException", True),
        (OSError(errno.EIO, "x"), "a.RetriableException", True),
        (hflush.LeaseHeldError(errno.EBUSY, "x"), "a.AlreadyBeingCreatedException", True),
        (FileNotFoundError(errno.ENOENT, "x"), "java.io.FileNotFoundException", False),
        (PermissionError(errno.EACCES, "x"), "a.AccessControlException", False),
        (hflush.NotAFileError(errno.EISDIR, "x"), "", False),
        (TimeoutError(errno.ETIMEDOUT, "x"), "java.net.SocketTimeoutException", False),
        (hflush.StreamClosedError(errno.EBADF, "x"), "", False),
    ],
)
def test_what_passes(failure: OSError, remote: str, expected: bool):
    """A NameNode that is away or starts is waited for; its word about the file is final."""
    if remote:
        failure.remote_class = remote  # type: ignore[attr-defined]
    assert passes(failure) is expected


class Clock:
    """What the module asks for the time, and how long it slept."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, duration: float) -> None:
        assert duration >= 0
        self.now += duration


class NameNode:
    """Answers in turn: a failure is raised. Its file is closed once, and opened again at once."""

    def __init__(self, *answers: bool | OSError, closed_at: float = math.inf) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.closed_at = closed_at

    def _answer(self, method: str) -> bool:
        self.asked.append(method)
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def _version(self) -> bool:
        if self.answers and isinstance(self.answers[0], OSError):
            self._answer("version")
        return lease_recovery.time.monotonic() >= self.closed_at

    def begin(self, versions: str) -> bool:
        return begin(
            ask=lambda: self._answer("ask"),
            look=lambda: self._answer("look"),
            version=iter(versions).__next__,
        )

    def wait(self, wait: float, seen: list[LeaseRecovery] | None = None) -> bool:
        return recover(
            "/file",
            wait,
            None if seen is None else seen.append,
            ask=lambda: self._answer("ask"),
            look=lambda: self._answer("look"),
            version=self._version,
            describe=lambda: "blk_1",
        )


LOST = ConnectionResetError(errno.ECONNRESET, "lost")


@pytest.mark.parametrize(
    ("answers", "versions", "asked", "closed"),
    [
        ([False], "a", ["ask"], False),
        ([LOST, True], "a", ["ask", "look"], True),  # it was done
        ([LOST, False], "ab", ["ask", "look"], True),  # and the next one writes
        ([LOST, False, False], "aa", ["ask", "look", "ask"], False),
    ],
)
def test_a_lost_answer_is_not_the_end_without_a_wait(
    answers: list[bool | OSError], versions: str, asked: list[str], closed: bool
):
    """It asks again, once, where nothing has changed."""
    name_node = NameNode(*answers)
    assert name_node.begin(versions) is closed
    assert name_node.asked == asked


def test_a_second_lost_answer_is():
    """And so is what the NameNode says."""
    for answers in ([LOST, False, LOST], [PermissionError(errno.EACCES, "no")]):
        with pytest.raises(type(answers[0])):
            NameNode(*answers).begin("aa")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(lease_recovery, "time", made)
    return made


def test_a_closed_file_is_waited_for_no_longer(clock: Clock):
    """It is asked once, then looked at; what is waited for is said before each pause."""
    seen: list[LeaseRecovery] = []
    name_node = NameNode(False, False, True)
    assert name_node.wait(60, seen) is True
    assert name_node.asked == ["ask", "look", "look"]
    assert clock.now == 1002.0
    assert seen == [LeaseRecovery("/file", "blk_1", waited, 1) for waited in (0.0, 1.0)]
    assert str(seen[1]) == "/file: waiting for blk_1 (1 s, asked once)"
    assert str(LeaseRecovery("/file", "blk_1", 70.4, 3)).endswith("(70 s, asked 3 times)")
    assert NameNode(True).wait(60) is True


def test_nothing_is_described_where_nobody_is_told(clock: Clock):
    """It would have to be read, which recovery does without."""

    def unreadable() -> str:
        raise PermissionError(errno.EACCES, "no read permission")

    answer = iter((False, True)).__next__
    assert recover("/file", 60, None, ask=answer, look=answer, version=str, describe=unreadable)


def test_false_when_the_wait_is_over(clock: Clock):
    """And no pause after it."""
    seen: list[LeaseRecovery] = []
    assert NameNode(*[False] * 13).wait(11.5, seen) is False
    assert clock.now == 1011.5
    assert seen[-1].asked == 2


def test_a_name_node_that_is_away_is_waited_for(clock: Clock):
    """It is what is waited for, and what is raised if it does not come back."""
    away = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
    seen: list[LeaseRecovery] = []
    assert NameNode(away, away, False, True).wait(60, seen) is True
    assert [one.waits_for for one in seen] == [f"the NameNode: {away}"] * 2 + ["blk_1"]
    assert clock.now == 1003.0
    with pytest.raises(ConnectionRefusedError) as caught:
        NameNode(False, *[away] * 5).wait(2)
    assert caught.value is away


@pytest.mark.parametrize(
    ("first", "closed_at", "done_at", "asks"),
    [
        (False, 1004.9, 1005.0, 1),
        (False, 1009.5, 1010.0, 1),  # when it would be asked again
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), 1004.9, 1005.0, 0),
    ],
)
def test_who_writes_next_keeps_the_file(
    clock: Clock, first: bool | OSError, closed_at: float, done_at: float, asks: int
):
    """It is closed and opened again between two looks: that is enough, it is not asked again."""
    name_node = NameNode(first, *[False] * 60, closed_at=closed_at)
    assert name_node.wait(60) is True
    assert name_node.asked.count("ask") == asks
    assert clock.now == done_at


def test_the_name_nodes_word_is_final():
    """A file that is deleted meanwhile is not waited for; nor does a caller's exception wait."""
    name_node = NameNode(False, FileNotFoundError(errno.ENOENT, "gone"))
    with pytest.raises(FileNotFoundError):
        name_node.wait(60)

    def stop(_: LeaseRecovery) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recover("/file", 60, stop, ask=bool, look=bool, version=str, describe=str)


def test_steps_are_values():
    """A step says what and when."""
    assert Schedule(5.0, 3.0).next(5.0) == Step("look", 6.0)
