"""Writers killed by SIGKILL at seeded moments, each resumed by the next: no byte lost or doubled.

A few in each run; a thousand more for each store with ``--exhaustive`` (./dev test resume-kills).
"""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import hflush
import pytest
from faults import resume_nursery
from faults.resume_nursery import expected, load
from hflush.tokens import Token
from support.line_program import answering
from support.stores import S3Store, Store
from support.waiting import PATIENCE

pytestmark = pytest.mark.resume_kills

_BATCHES, _KILLS = 10, 100  # of the thousand


class Plan(NamedTuple):
    """How files of a store are written."""

    kills: int  # in each run
    size: int
    at_once: int  # nurseries, of the thousand: what a store makes them wait for takes no processor


_PLANS = {
    "raw": Plan(60, 300_000, 2),
    "hdfs": Plan(4, 1_500_000, 8),
    "s3": Plan(10, 12_000_000, 3),
}


class Tally:
    """What all nurseries have done: each adds to it. Thread-safe, as lists are."""

    def __init__(self) -> None:
        self.killed: list[str] = []  # names of files, one for each kill
        self.resumable: list[str] = []  # those of them that left a token, and more to write
        self.whole: list[str] = []
        self.lost: list[str] = []

    def is_enough(self, kills: int) -> bool:
        """Whether so many were killed, and one of them is resumed by the next."""
        return len(self.killed) >= kills and bool(self.resumable)


def time_of(say: Callable[[str], str], line: str) -> float:
    """Return how many seconds a writer takes that is not killed: when others are worth killing."""
    began = time.monotonic()
    assert say(line) == "finished"
    return time.monotonic() - began


def lost_by_server(store: Store, token: bytes) -> bool:
    """Whether an upload is there still, but parts of it are not, which the server had stored.

    No request takes a part from an upload, and one that was aborted or published is not listed.
    MinIO does that when its client dies while it completes an upload (docs/spark.md).
    """
    if not isinstance(store, S3Store):
        return False
    state = Token.unpack(token).state
    key = store.key(Token.unpack(token).url.removeprefix(store.s3.url))
    if (key, state["upload_id"]) not in store.s3.uploads(key):
        return False
    stored = {number for number, _ in store.s3.parts(key, state["upload_id"])}
    return any(number not in stored for number, *_ in state["parts"])


def kill_and_resume(store: Store, tokens: Path, name: str, kills: int, tally: Tally) -> None:
    """Let writers of one file after the other be killed, until that has happened often enough."""
    plan = _PLANS[store.name]
    conf = {**store.conf, "fs.s3a.multipart.size": "5m"}
    program = Path(sys.executable)
    arguments = [resume_nursery.__file__, store.url(), json.dumps(conf), str(tokens)]
    with answering(program, *arguments) as say:
        span = time_of(say, f"{name}whole 0 {plan.size} {math.inf}")
        tally.whole.append(f"{name}whole")
        for number in itertools.count():
            if tally.is_enough(kills):
                return
            file, run = f"{name}f{number}", 0
            began = time.monotonic()
            while (end := say(f"{file} {run} {plan.size} {span}")) == "killed":
                tally.killed.append(file)
                left = load(tokens, file)
                if left is not None and not left.done:
                    tally.resumable.append(file)
                run += 1
                if tally.is_enough(kills):
                    span = math.inf
            if run == 0:  # it was too quick to be killed
                span = min(span, time.monotonic() - began)
            left = load(tokens, file)
            assert left is not None
            if end == "finished":
                assert left.done
                tally.whole.append(file)
            else:
                assert lost_by_server(store, left.token), f"run {run} of {file}: {end}"
                tally.lost.append(file)


@pytest.mark.timeout(1800 * PATIENCE)
@pytest.mark.stores("raw", "hdfs", "s3")
@pytest.mark.parametrize(
    "batch",
    [0, *(pytest.param(number + 1, marks=pytest.mark.exhaustive) for number in range(_BATCHES))],
)
def test_killed_and_resumed(
    store: Store,
    batch: int,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each file has what its runs wrote, from where each of them went on; no other is left.

    But for what a server itself has lost: that is told apart, and is no more than a few.
    """
    plan = _PLANS[store.name]
    at_once, kills = (plan.at_once, _KILLS) if batch else (1, plan.kills)
    tokens = tmp_path_factory.mktemp("tokens")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    tally = Tally()
    with ThreadPoolExecutor(at_once) as pool:
        work = [
            pool.submit(kill_and_resume, store, tokens, f"b{batch}n{number}", kills, tally)
            for number in range(at_once)
        ]
        for one in work:
            one.result()
    whole, lost = tally.whole, tally.lost
    resumed = 0
    for name in whole:
        left = load(tokens, name)
        assert left is not None
        resumed += len(left.runs) - 1
        # A request of a killed writer may have arrived behind all that: it goes with this.
        hflush.commit(left.token, conf=store.conf)
        assert store.content(store.path(name)) == expected(left.runs, plan.size)
    assert resumed
    seen = [name for name in store.on_disk() if not name.startswith(tuple(f".{n}." for n in lost))]
    assert sorted(seen) == sorted(whole)
    assert len(lost) <= len(tally.killed) // 20
    print(
        f"{store.name}: {len(tally.killed)} kills of {len(whole)} files, {resumed} runs resumed; "
        f"{len(lost)} more lost by the server"
    )
