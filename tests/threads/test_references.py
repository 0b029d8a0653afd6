"""Bytes that S3's streams refer to, let go by whichever thread is done with them.

On a scripted server, so that it runs under the sanitizers without one beside it.
"""

from __future__ import annotations

import os
import random
import sys
from functools import partial

from support.data import dataset
from support.forks import in_child
from support.s3_front import (
    Fault,
    answer,
    close_before,
    cut_answer,
    lose_answer,
    reset_after,
    reset_before,
    reset_in_body,
)
from support.s3_ways import Way
from support.s3_writers import COMPLETE, GET, MIB, PUT, UPLOAD, file_system
from support.waiting import together, wait_until
from threads.rounds import rounds

# What befalls some of the first requests of a kind.
FAULTS: dict[str, list[Fault]] = {
    UPLOAD: [reset_in_body(100_000), answer(503, "SlowDown"), lose_answer, close_before],
    PUT: [reset_before, lose_answer, answer(500, "InternalError"), reset_after],
    GET: [cut_answer(20_000), reset_after],
    COMPLETE: [lose_answer, reset_after],
}


def test_large_objects_and_small_ones_at_once(s3_way: Way) -> None:
    """Parts of the loop, requests of their callers' own, reads, aborts and forks, on a bad network.

    Every object has its bytes, and in the end nothing refers to what was written.
    """
    chosen = random.Random(7)
    sizes = [100, 31 << 10, 40_000, 300_000, 2 * MIB, 6 * MIB]
    pieces = [dataset(size + n)[n:] for n, size in enumerate(sizes)]
    before = [sys.getrefcount(piece) for piece in pieces]
    with s3_way.server() as server, file_system(server) as fs:
        for operation, faults in FAULTS.items():
            for number, fault in enumerate(faults):
                server.fail(operation, fault, skip=2 + number)
        orders = {f"large/{n}": chosen.choices(pieces, k=12) for n in range(rounds(6))}
        orders |= {f"small/{n}": [chosen.choice(pieces[:4])] for n in range(rounds(120))}

        def write(thread: int) -> None:
            for key in [*orders][thread::6]:
                with fs.create(f"/{key}") as out:
                    for piece in orders[key]:
                        out.write(piece)
                if key.startswith("small"):
                    with fs.open(f"/{key}") as reader:
                        assert reader.read() == orders[key][0]

        def give_up() -> None:
            for number in range(rounds(6)):
                out = fs.create(f"/aborted/{number}")
                for piece in pieces:
                    out.write(piece)
                out.abort()

        def fork() -> None:
            for number in range(rounds(3)):
                in_child(partial(write_one, number))

        def write_one(number: int) -> None:
            with fs.create(f"/child/{number}") as out:
                out.write(pieces[3])

        # The thread sanitizer allows no threads in the child of a process that has some; that of
        # addresses may leave its allocator locked there (clang 14: seen in malloc).
        forking = () if {"ASAN_OPTIONS", "TSAN_OPTIONS"} & os.environ.keys() else (fork,)
        together(*(partial(write, thread) for thread in range(6)), give_up, *forking)
        wait_until(lambda: not server.uploads, "what was aborted is ended")
    assert all(server.objects[key].data == b"".join(orders[key]) for key in orders)
    assert not any(key.startswith("aborted") for key in server.objects)
    orders.clear()
    assert [sys.getrefcount(piece) for piece in pieces] == before
