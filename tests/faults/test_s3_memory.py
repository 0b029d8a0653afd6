"""S3: what all streams and readers of a process hold together is bounded, and all of them go on.

The bound is the process's: each test has a process of its own, whose numbers it prints as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.s3_front import Answer, Request, hold
from support.s3_writers import UPLOAD
from support.scripted_s3 import MIB, Rules, ScriptedS3
from support.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.stores("s3")

PART = 5 * MIB
# What a stream may hold whatever the others do: its first part, and a little to go on with.
FIRST = PART + 2 * MIB
PACKETS = MIB


class ForgetfulS3(ScriptedS3):
    """One that keeps sizes only, in its log as well."""

    def __init__(self) -> None:
        super().__init__(Rules(keeps_data=False))

    def execute(self, request: Request) -> Answer:
        answer = super().execute(request)
        request.raw = request.body = b""
        return answer


PROGRAM = """
import gc, json, os, signal, sys, threading, time
import hflush
from hflush import _core

MIB = 1 << 20
conf = json.loads(sys.argv[1])
fs = hflush.FileSystem.new_instance("s3://bucket/", conf)

def held():
    return _core.s3_memory()[0]

def peak_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))

def say(**numbers):
    print(json.dumps(numbers), flush=True)

def settled(value, is_enough=lambda number: number > 0):
    '''The value, once it has not changed for a second.'''
    last, since = value(), time.monotonic()
    while time.monotonic() - since < 1 or not is_enough(last):
        now = value()
        if now != last:
            last, since = now, time.monotonic()
        time.sleep(0.01)
    return last

def in_threads(count, work):
    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    return threads
"""


@contextmanager
def running(server: ScriptedS3, body: str, **conf: str) -> Iterator[subprocess.Popen[str]]:
    """A process on the server; its lines are dictionaries. It ends with the block."""
    given = {
        **server.conf,
        "fs.s3a.multipart.size": str(PART),
        "fs.s3a.create.performance": "true",
        "fs.s3a.create.conditional.enabled": "true",
        **{name.replace("_", "."): value for name, value in conf.items()},
    }
    program = PROGRAM + textwrap.dedent(body)
    with subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(given)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the process has ended"
    numbers: dict[str, Any] = json.loads(line)
    return numbers


def ends_well(process: subprocess.Popen[str]) -> None:
    assert process.wait(2 * DEADLINE_S) == 0


WRITES = """
count, size = COUNT, SIZE * MIB
written = [0] * count

def write(number):
    with fs.create(f"/{number}") as out:
        for _ in range(size // (256 << 10)):
            out.write(bytes(256 << 10))
            written[number] += 256 << 10

threads = in_threads(count, write)
settled(lambda: sum(written))
say(held=held(), written=sum(written), most=max(written),
    peak=peak_bytes())
for thread in threads:
    thread.join()
say(held=held(), written=sum(written))
"""


@pytest.mark.rule("WRITE-22")
@pytest.mark.parametrize(
    ("count", "size", "total"),
    [(200, 12, 64 * MIB), (6, 20, 60 * MIB), (2, 20, 512 * MIB)],
    ids=["200 writers", "6 writers", "2 writers that have all they want"],
)
def test_writers_of_a_process_share_its_memory(count: int, size: int, total: int) -> None:
    """To a store that is slow: each fills its first part, and goes on when the store does."""
    released = threading.Event()
    with ForgetfulS3() as server:
        server.fail(UPLOAD, hold(released), times=None)
        body = WRITES.replace("COUNT", str(count)).replace("SIZE", str(size))
        with running(server, body, hflush_s3_memory_total=str(total)) as process:
            blocked = told(process)
            released.set()
            after = told(process)
            ends_well(process)
        bound = min(total + count * FIRST, count * size * MIB, count * 4 * PART)
        assert blocked["held"] <= bound + count * PACKETS
        assert blocked["written"] <= blocked["held"] + count * 2 * PACKETS
        assert blocked["written"] >= count * PART
        assert blocked["peak"] <= bound + count * 2 * PACKETS + 200 * MIB
        assert after == {"held": 0, "written": count * size * MIB}
        assert len(server.objects) == count
        assert {stored.size for stored in server.objects.values()} == {size * MIB}


@pytest.mark.rule("WRITE-22")
def test_a_part_that_is_larger_than_it_lies_on_disk() -> None:
    """Also the first of a stream, which asks for no memory."""
    body = """
        with fs.create("/o") as out:
            out.write(bytes(40 * MIB))
            say(held=held())
    """
    with ForgetfulS3() as server:
        conf = {"hflush_s3_memory_total": "32M", "fs_s3a_multipart_size": "64M"}
        with running(server, body, **conf) as process:
            assert told(process)["held"] <= PACKETS
            ends_well(process)


@pytest.mark.rule("WRITE-22", "WRITE-12")
def test_a_writer_that_waits_for_memory_can_be_interrupted_and_dropped() -> None:
    released = threading.Event()
    body = """
        first = fs.create("/first")
        threading.Thread(target=first.write, args=(bytes(30 * MIB),), daemon=True).start()
        settled(held)
        second = fs.create("/second")
        timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            while True:
                second.write(bytes(MIB))
        except KeyboardInterrupt:
            say(held=held(), position=second.tell())
        second.abort()
        first.abort()
        del first, second
        say(held=held())
    """
    with ForgetfulS3() as server:
        server.fail(UPLOAD, hold(released), times=None)
        with running(server, body, hflush_s3_memory_total="10M") as process:
            interrupted = told(process)
            assert PART <= interrupted["position"] <= FIRST + PACKETS
            assert told(process) == {"held": 0}
            released.set()
            ends_well(process)
        wait_until(lambda: not server.uploads, "every upload is ended")
        assert server.objects == {}


def test_readers_share_it_too(s3: ScriptedS3) -> None:
    """What a reader is ahead is little where memory is short; all of it arrives."""
    body = """
        streams = [fs.open("/o") for _ in range(20)]
        starts = [stream.read(1000) for stream in streams]
        ahead = settled(held)
        rests = [stream.read() for stream in streams]
        say(ahead=ahead, same=all(s + r == starts[0] + rests[0] for s, r in zip(starts, rests)),
            size=len(rests[0]) + 1000, held=held())
        del streams
        gc.collect()
        say(held=held())
    """
    s3.put("o", bytes(range(256)) * (12 * MIB // 256))
    shared = {"hflush_s3_memory_total": "16M", "hflush_s3_read_window": "8M"}
    with running(s3, body, **shared) as process:
        numbers = told(process)
        assert numbers["same"]
        assert numbers["size"] == 12 * MIB
        # 8 MiB each unless they share.
        assert 10 * MIB <= numbers["ahead"] <= 16 * MIB + 20 * MIB // 2
        assert told(process) == {"held": 0}
        ends_well(process)


def test_the_least_that_was_asked_for_holds() -> None:
    """And who asked for more is told."""
    body = """
        import logging
        records = []
        handler = logging.Handler()
        handler.emit = lambda record: records.append(record.getMessage())
        logging.getLogger("hflush").addHandler(handler)
        totals = [_core.s3_memory()[1]]
        for total in ("1G", "100M", "200M"):
            other = hflush.FileSystem.new_instance(
                "s3://bucket/", {**conf, "hflush.s3.memory.total": total})
            totals.append(_core.s3_memory()[1])
        say(totals=totals, records=records)
    """
    with ScriptedS3() as server, running(server, body) as process:
        numbers = told(process)
        ends_well(process)
    usual, *others = numbers["totals"]
    assert usual <= 512 * MIB
    assert others == [1024 * MIB, 100 * MIB, 100 * MIB]
    assert numbers["records"] == [
        f"hflush.s3.memory.total={200 * MIB}: another file system has limited this process "
        f"to {100 * MIB}"
    ]
    assert server.log == []
