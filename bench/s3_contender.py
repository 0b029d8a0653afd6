"""One contender of the S3 benchmarks, in a process of its own.

    s3_contender.py CLIENT URL BUCKET ACCESS_KEY SECRET_KEY [AUTHORITY]

Reads one order a line and answers it with one line, as hdfs_contender.py does; what is asked is
done and timed in here. tools/s3_clients.py knows the clients, VARIANTS those that are hflush with
other settings. Sizes are bytes.

    write KEY BYTES SIZE             an object, in writes of SIZE
    streams PREFIX COUNT BYTES SIZE  so many such objects at once, each in a thread
    peak KEY BYTES SIZE              the same; how far resident memory grew at its highest
    files PREFIX COUNT THREADS       each: create, 1 KiB, close
    read KEY SIZE                    from start to end, SIZE at most at a time
    preads KEY BYTES COUNT SIZE      at positions drawn below BYTES
    keys DIRECTORY                   all objects below it
    copy SOURCE TARGET               an object, within the store; the copy is deleted again

The answer is `name=number ...`: seconds, cpu (seconds of the whole process), p50 (seconds of an
object), bytes, objects; or `error` and what went wrong.
"""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter

from hdfs_contender import Answer, answer_with, in_threads, measured, resident_bytes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from s3_clients import CLIENTS, MIB, Endpoint, S3Client

# Memory that writes come from: more than caches hold.
SOURCES = 64 * MIB
PART = 8 * MIB
# No peer looks for files and directories in its way before it writes.
FASTEST = {"fs.s3a.create.performance": "true"}
VARIANTS = {
    "hflush": FASTEST,
    "hflush-as-it-comes": {},
    "hflush-without-checksums": {**FASTEST, "fs.s3a.create.checksum.algorithm": "none"},
}


class Contender:
    """Carries out orders with one client."""

    def __init__(self, client: S3Client) -> None:
        self._client = client
        self._buffers: list[bytes] = []

    def _pieces(self, total: int, size: int) -> Iterator[bytes]:
        if not self._buffers or len(self._buffers[0]) != size:
            source = random.Random(5)
            self._buffers = [source.randbytes(size) for _ in range(SOURCES // size)]
        return islice(cycle(self._buffers), total // size)

    def write(self, key: str, total: str, size: str) -> Answer:
        pieces = list(self._pieces(int(total), int(size)))
        return measured(lambda: self._client.write(key, pieces))

    def streams(self, prefix: str, count: str, total: str, size: str) -> Answer:
        pieces = list(self._pieces(int(total), int(size)))

        def write(thread: int) -> None:
            self._client.write(f"{prefix}/{thread}", pieces)

        return measured(lambda: in_threads(int(count), write))

    def peak(self, key: str, total: str, size: str) -> Answer:
        source = random.Random(5).randbytes(MIB)
        starts = islice(cycle(range(0, MIB, int(size))), int(total) // int(size))
        # Each is made when it is written: who keeps it, and no copy, keeps that memory.
        pieces = (source[start : start + int(size)] for start in starts)
        self._client.write(f"{key}.first", [source[: int(size)]])  # what a process needs once
        gc.collect()
        before = resident_bytes()
        Path("/proc/self/clear_refs").write_text("5")  # the highest is counted from here
        self._client.write(key, pieces)
        return {"bytes": highest_resident_bytes() - before}

    def files(self, prefix: str, count: str, threads: str) -> Answer:
        record = random.Random(6).randbytes(1024)
        create = self._client.create
        seconds: list[float] = []

        def make(thread: int) -> None:
            for number in range(thread, int(count), int(threads)):
                started = perf_counter()
                stream = create(f"{prefix}/{number}")
                stream.write(record)
                stream.close()
                seconds.append(perf_counter() - started)

        answer = measured(lambda: in_threads(int(threads), make))
        return answer | {"p50": sorted(seconds)[len(seconds) // 2]}

    def read(self, key: str, size: str) -> Answer:
        lengths: list[int] = []
        answer = measured(lambda: lengths.append(self._client.read(key, int(size))))
        return answer | {"bytes": lengths[0]}

    def preads(self, key: str, total: str, count: str, size: str) -> Answer:
        chosen = random.Random(7)
        positions = [chosen.randrange(int(total) - int(size)) for _ in range(int(count))]
        lengths: list[int] = []
        answer = measured(lambda: lengths.append(self._client.preads(key, positions, int(size))))
        return answer | {"bytes": lengths[0]}

    def keys(self, directory: str) -> Answer:
        counts: list[int] = []
        answer = measured(lambda: counts.append(self._client.count(directory)))
        return answer | {"objects": counts[0]}

    def copy(self, source: str, target: str) -> Answer:
        answer = measured(lambda: self._client.copy(source, target))
        self._client.delete(target)  # so that there are never more than two
        return answer


def highest_resident_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def main() -> None:
    name, url, bucket, access_key, secret_key, *authority = sys.argv[1:]
    endpoint = Endpoint(
        url,
        bucket,
        access_key,
        secret_key,
        part_bytes=PART,
        cheapest=True,
        authority="".join(authority),
        settings=VARIANTS.get(name, {}),
    )
    client = "hflush" if name in VARIANTS else name
    contender = Contender(CLIENTS[client](endpoint))
    answer_with("ready")
    for line in sys.stdin:
        order, *arguments = line.split()
        try:
            answer = getattr(contender, order)(*arguments)
        except Exception as failure:
            text = " ".join(str(failure).split())
            answer_with(f"error {type(failure).__name__}: {text}")
        else:
            answer_with(" ".join(f"{key}={value!r}" for key, value in answer.items()))


if __name__ == "__main__":
    main()
