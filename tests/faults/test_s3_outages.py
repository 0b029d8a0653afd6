"""S3: what is written while the store is away is there when it is back.

Sixteen writers of small objects and four of large ones, with the pauses and limits that hold where
nothing is set. What the budget of retries does is simulated in tests/cpp/s3/attempts_test.cc.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import hflush
import pytest
from support.fault_proxy import FaultProxy
from support.s3 import S3
from support.s3_front import Fault, S3Front, answer, reset_before
from support.s3_ways import Way
from support.s3_writers import (
    ABORT,
    COMPLETE,
    CREATE,
    DATA,
    GET,
    HEAD,
    PUT,
    SMALL,
    UPLOAD,
    write,
)
from support.scripted_s3 import ScriptedS3
from support.waiting import DEADLINE_S, Task, wait_until

pytestmark = pytest.mark.stores("s3")

SMALL_WRITERS, LARGE_WRITERS = 16, 4
OPERATIONS = (PUT, CREATE, UPLOAD, COMPLETE, HEAD, GET, ABORT, "ListParts", "ListObjectsV2")
LARGE_PARTS = {"fs.s3a.multipart.size": "5M", "fs.s3a.create.conditional.enabled": "true"}

Outage = Callable[[S3Front], AbstractContextManager[None]]


def failing(fault: Fault) -> Outage:
    """Each call fails so."""

    @contextmanager
    def outage(front: S3Front) -> Iterator[None]:
        for operation in OPERATIONS:
            front.fail(operation, fault, times=None)
        yield
        front.heal()

    return outage


def refusing(front: S3Front) -> AbstractContextManager[None]:
    """Nobody listens."""
    return front.refusing()


OUTAGES: dict[str, tuple[Outage, float]] = {
    "502": (failing(answer(502, body="<html>Bad Gateway</html>")), 10.0),
    "resets": (failing(reset_before), 10.0),
    "refused connections": (refusing, 10.0),
    "SlowDown": (failing(answer(503, "SlowDown")), 30.0),
}


def lives_through(server: S3, way: Way, name: str) -> dict[str, bytes]:
    """Write through an outage; what was written, by key. Raises what a writer did."""
    outage, lasts_s = OUTAGES[name]
    where = f"outages/{way.scheme}/{name}"
    contents = {f"{where}/small{n}": SMALL for n in range(SMALL_WRITERS)}
    contents |= {f"{where}/large{n}": DATA for n in range(LARGE_WRITERS)}
    under_way = threading.Barrier(len(contents) + 1)
    over = threading.Event()
    with FaultProxy(("127.0.0.1", server.server.port), tls=way.tls) as proxy:
        conf = {**server.conf, **way.settings, **LARGE_PARTS, "fs.s3a.endpoint": proxy.endpoint}
        with hflush.FileSystem.new_instance(server.url + "/", conf) as fs:

            def write_through(key: str, data: bytes) -> None:
                write(fs, data, f"/{key}.before")  # connected, and nothing to be looked for
                under_way.wait()
                write(fs, data, f"/{key}")
                assert over.is_set()

            tasks = [Task(write_through, key, data) for key, data in contents.items()]
            wait_until(lambda: under_way.n_waiting == len(contents), "all are connected")
            with outage(proxy):
                under_way.wait()
                # Not a condition to wait for: how long the store is away is what is tested.
                threading.Event().wait(lasts_s)
                over.set()
            for task in tasks:
                task.result()
    return contents


@pytest.mark.rule("FAIL-10", "FAIL-1")
def test_nothing_is_lost_in_an_outage(s3_server: S3, s3_over_tls: Way) -> None:
    """Ten seconds of 502, resets or refused connections, thirty of SlowDown, at the same time.

    Over plain HTTP by our own code, and over TLS.
    """
    ways = (Way(), s3_over_tls)
    outages = [Task(lives_through, s3_server, way, name) for way in ways for name in OUTAGES]
    for outage in outages:
        for key, data in outage.result(3 * DEADLINE_S).items():
            assert s3_server.get(key) == data
    assert s3_server.uploads("outages/") == []


@pytest.mark.rule("FAIL-10")
def test_a_store_that_stays_down_is_asked_a_bounded_number_of_times(s3: ScriptedS3) -> None:
    """Each call and its first retry, fifty retries more, and what a few seconds add to them."""
    writers = SMALL_WRITERS + LARGE_WRITERS
    failing(answer(502))(s3).__enter__()
    conf = {
        **s3.conf,
        **LARGE_PARTS,
        "fs.s3a.create.performance": "true",
        "fs.s3a.retry.interval": "5ms",
        "hflush.s3.retry.deadline": "5s",
    }

    def lose(fs: hflush.FileSystem, number: int) -> None:
        with pytest.raises(OSError, match="502"):
            write(fs, SMALL if number < SMALL_WRITERS else DATA, f"/{number}")

    with hflush.FileSystem.new_instance("s3://bucket/", conf) as fs:
        tasks = [Task(lose, fs, number) for number in range(writers)]
        for task in tasks:
            task.result()
    # Without spared retries and new tokens it would be this, and is at most twice as much.
    bare = writers + 50
    assert bare < len(s3.log) <= 2 * bare
    assert s3.objects == {}


@pytest.mark.rule("FAIL-10")
def test_a_limit_of_retries_that_is_set_is_kept(s3: ScriptedS3) -> None:
    """However patient the budget is."""
    s3.fail(PUT, answer(502), times=None)
    for key, value, attempts in (
        ("fs.s3a.retry.limit", "0", 1),
        ("fs.s3a.retry.limit", "2", 3),
        ("fs.s3a.attempts.maximum", "2", 2),
    ):
        conf: dict[str, Any] = {
            **s3.conf,
            "fs.s3a.create.performance": "true",
            "fs.s3a.retry.interval": "5ms",
            key: value,
        }
        before = s3.count(PUT)
        with (
            contextlib.closing(hflush.FileSystem.new_instance("s3://bucket/", conf)) as fs,
            pytest.raises(OSError, match="502"),
        ):
            write(fs, SMALL)
        assert s3.count(PUT) - before == attempts
