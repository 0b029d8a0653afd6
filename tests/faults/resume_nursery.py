"""Writers that are going to be killed: each resumes the one before it, at the token that it left.

    python resume_nursery.py URL CONF DIRECTORY

Each line of stdin is ``NAME RUN SIZE SPAN``: fork a writer of the file NAME below URL, kill it with
SIGKILL after so many seconds as are drawn from 0 to SPAN, once it has its stream (three of four
times) or from its beginning, and say ``killed`` or ``finished``. A writer appends words that say
which RUN wrote them, persists now and then, and leaves each token in DIRECTORY before it goes on;
behind SIZE bytes it persists, closes and commits. This process itself opens nothing, so that its
children may.
"""

from __future__ import annotations

import json
import math
import os
import random
import select
import signal
import sys
import traceback
from array import array
from pathlib import Path
from typing import NamedTuple

import hflush

_WORD = 8
_RUN_SHIFT = 40


class Left(NamedTuple):
    """What a writer has left for the next one."""

    token: bytes
    done: bool
    # The runs so far, and where each began.
    runs: list[tuple[int, int]]


def words(run: int, begin: int, end: int) -> bytes:
    """Return what a run writes there: no other byte of it, and no other run, is the same."""
    first = begin // _WORD
    base = run << _RUN_SHIFT
    block = array("Q", range(base + first, base + (end + _WORD - 1) // _WORD))
    block.byteswap()
    return block.tobytes()[begin - first * _WORD : end - first * _WORD]


def expected(runs: list[tuple[int, int]], size: int) -> bytes:
    """Return what a file has whose runs began there, each at the token of an earlier one."""
    content = b""
    for run, begin in runs:
        content = content[:begin] + words(run, begin, size)
    return content


def load(directory: Path, name: str) -> Left | None:
    try:
        document = json.loads((directory / name).read_bytes())
    except FileNotFoundError:
        return None
    runs = [(run, begin) for run, begin in document["runs"]]
    return Left(document["token"].encode("ascii"), document["done"], runs)


def save(directory: Path, name: str, left: Left) -> None:
    new = directory / f"{name}.new"
    new.write_text(json.dumps({**left._asdict(), "token": left.token.decode("ascii")}))
    new.rename(directory / name)


def write(
    url: str, conf: dict[str, str], directory: Path, name: str, run: int, size: int, ready: int
) -> None:
    """Do what one writer does, unless it is killed; close `ready` when it has its stream."""
    chance = random.Random(f"{name} {run}")
    left = load(directory, name)
    if left is None:
        out, runs = hflush.create(f"{url}/{name}", conf=conf), [(run, 0)]
    elif left.done:
        os.close(ready)
        return hflush.commit(left.token, conf=conf)
    else:
        out = hflush.resume(left.token, conf=conf)
        runs = [*left.runs, (run, out.tell())]
    os.close(ready)
    position = out.tell()
    while position < size:
        count = min(size - position, chance.randrange(1, max(2, size // 12)))
        out.write(words(run, position, position + count))
        position += count
        if chance.random() < 0.6:
            save(directory, name, Left(out.persist(), False, runs))
    token = out.persist()
    save(directory, name, Left(token, True, runs))
    out.close()
    for _ in range(2):
        hflush.commit(token, conf=conf)
    return None


def kill_one(arguments: list[str], conf: dict[str, str], name: str, line: list[str]) -> str:
    """Run a writer, and kill it; return what became of it."""
    url, directory = arguments
    run, size, span = int(line[0]), int(line[1]), float(line[2])
    chance = random.Random(f"{name} {run} kill")
    waits, after = chance.random() < 0.75, chance.random() * span
    near, far = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write(url, conf, Path(directory), name, run, size, far)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(far)
    if waits:
        os.read(near, 1)  # until it is closed there, or the child has ended
    os.close(near)
    ended = os.pidfd_open(child)
    if not select.select([ended], [], [], None if after == math.inf else after)[0]:
        os.kill(child, signal.SIGKILL)
    os.close(ended)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return {0: "finished", -signal.SIGKILL: "killed"}.get(code, f"failed with {code}")


def main(url: str, conf: str, directory: str) -> None:
    for line in sys.stdin:
        name, *rest = line.split()
        print(kill_one([url, directory], json.loads(conf), name, rest), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
