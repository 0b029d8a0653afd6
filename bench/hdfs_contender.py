"""One contender of the HDFS benchmarks, in a process of its own: hflush or hdfs-native.

    hdfs_contender.py (hflush | hdfs-native) URI [KEY=VALUE...]

Reads one order a line and answers it with one line, as java/HdfsPeer.java does for Hadoop's own
client. What is asked is done and timed in here, so that neither the pipe nor the other contenders
are part of it; closing a stream is timed by `files` only. Paths are absolute, sizes are bytes.

    write PATH REPLICATION BYTES SIZE            create, writes of SIZE, hsync; then close
    sync PATH REPLICATION RECORDS SIZE LEVEL     each record written, then hflush or hsync
    group PATH REPLICATION THREADS RECORDS SIZE  threads on one stream: write, hsync
    files DIRECTORY REPLICATION COUNT THREADS    each: create, 1 KiB, close
    read PATH SIZE                               from start to end, SIZE at most at a time
    hold DIRECTORY COUNT SIZE REPLICATION        streams that stay open, SIZE bytes flushed on each
    put SIZE                                     so much more on each of them, sent (`flush`)
    flush                                        hflush of each of them
    release                                      close each of them
    log PATH REPLICATION THREADS SIZE LEVEL      threads on one stream that sync records until `end`
    more RECORDS                                 wait until they have synced so many more
    end                                          stop them, close

The answer is `name=number ...`: seconds, cpu (seconds of the whole process), p50 and p99 (seconds
of a record), stall (the longest time between two records' acknowledgements), at (when it was done,
on the machine's monotonic clock), records, bytes, threads; or `error` and what went wrong.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import monotonic, perf_counter, process_time, sleep
from typing import Any, Protocol

MEBIBYTE = random.Random(4).randbytes(1 << 20)
PATIENCE_S = 120.0
POLL_S = 0.002

Answer = dict[str, float]


class Files(Protocol):
    """What a client library offers, under the same names for each."""

    def create(self, path: str, replication: int) -> Any:
        """Make a new stream with write and close, and what it has of hflush and hsync."""

    def read(self, path: str, size: int) -> int:
        """Read a file once; return its length."""


class HflushFiles:
    """The library that this repository makes."""

    def __init__(self, uri: str, settings: Mapping[str, str]) -> None:
        import hflush

        self._fs = hflush.FileSystem.get(uri, dict(settings))

    def create(self, path: str, replication: int) -> Any:
        return self._fs.create(path, replication=replication)

    def read(self, path: str, size: int) -> int:
        total = 0
        buffer = memoryview(bytearray(size))
        with self._fs.open(path) as stream:
            while got := stream.readinto(buffer):
                total += got
        return total


class HdfsNativeFiles:
    """The client written in Rust, from PyPI."""

    def __init__(self, uri: str, settings: Mapping[str, str]) -> None:
        import hdfs_native

        size = settings.get("dfs.blocksize")  # which it takes as an option only
        self._options = partial(hdfs_native.WriteOptions, block_size=int(size) if size else None)
        self._client = hdfs_native.Client(uri, dict(settings))

    def create(self, path: str, replication: int) -> Any:
        return self._client.create(path, self._options(replication=replication, overwrite=True))

    def read(self, path: str, size: int) -> int:
        # Its documentation calls this the most efficient way to read a file.
        reader = self._client.read(path)
        return sum(len(piece) for piece in reader.read_range_stream(0, len(reader)))


def measured(work: Callable[[], object]) -> Answer:
    gc.collect()
    gc.disable()
    cpu, started = process_time(), perf_counter()
    work()
    answer = {"seconds": perf_counter() - started, "cpu": process_time() - cpu}
    gc.enable()
    return answer


def in_threads(threads: int, work: Callable[[int], object]) -> None:
    if threads == 1:
        work(0)
        return
    failures: list[BaseException] = []

    def guarded(thread: int) -> None:
        try:
            work(thread)
        except BaseException as failure:  # reported to the sender of the order
            failures.append(failure)

    workers = [threading.Thread(target=guarded, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def thread_count() -> int:
    return sum(1 for _ in Path("/proc/self/task").iterdir())


class Log:
    """Threads that write records to one stream and sync each, until they are stopped."""

    def __init__(self, stream: Any, threads: int, size: int, level: str) -> None:
        self._stream = stream
        self._sync = getattr(stream, level)
        self._record = MEBIBYTE[:size]
        self._acknowledged: list[float] = []
        self._lock = threading.Lock()
        self._stopping = False
        self._failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._stream.write(self._record)
                self._sync()
                with self._lock:
                    self._acknowledged.append(monotonic())
        except BaseException as failure:  # reported to the sender of the order
            self._failures.append(failure)

    def wait_for(self, records: int) -> None:
        """Return when so many more are acknowledged."""
        wanted = len(self._acknowledged) + records
        end = monotonic() + PATIENCE_S
        while len(self._acknowledged) < wanted:
            if self._failures:
                raise self._failures[0]
            if monotonic() > end:
                raise TimeoutError(f"not acknowledged within {PATIENCE_S:.0f} s")
            sleep(POLL_S)

    def end(self) -> Answer:
        self._stopping = True
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        self._stream.close()
        at = self._acknowledged
        stall = max(later - earlier for earlier, later in pairwise(at))
        return {"records": len(at), "seconds": at[-1] - at[0], "stall": stall}


class Contender:
    """Carries out orders with one library."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._held: list[Any] = []
        self._log: Log | None = None

    def write(self, path: str, replication: str, total: str, size: str) -> Answer:
        pieces, record = int(total) // int(size), MEBIBYTE[: int(size)]

        stream: Any = None

        def work() -> None:
            nonlocal stream
            stream = self._files.create(path, int(replication))
            for _ in range(pieces):
                stream.write(record)
            stream.hsync()

        answer = measured(work)
        stream.close()
        return answer

    def sync(self, path: str, replication: str, records: str, size: str, level: str) -> Answer:
        stream = self._files.create(path, int(replication))
        write, sync, record = stream.write, getattr(stream, level), MEBIBYTE[: int(size)]
        seconds: list[float] = []

        def work() -> None:
            for _ in range(int(records)):
                started = perf_counter()
                write(record)
                sync()
                seconds.append(perf_counter() - started)

        write(record)
        sync()
        answer = measured(work)
        stream.close()
        seconds.sort()
        last = len(seconds) - 1
        return answer | {"p50": seconds[int(0.50 * last)], "p99": seconds[int(0.99 * last)]}

    def group(self, path: str, replication: str, threads: str, records: str, size: str) -> Answer:
        stream = self._files.create(path, int(replication))
        record = MEBIBYTE[: int(size)]

        def append(_thread: int) -> None:
            for _ in range(int(records)):
                stream.write(record)
                stream.hsync()

        stream.write(record)
        stream.hsync()
        answer = measured(lambda: in_threads(int(threads), append))
        stream.close()
        return answer

    def files(self, directory: str, replication: str, count: str, threads: str) -> Answer:
        record = MEBIBYTE[:1024]

        def make(thread: int) -> None:
            for number in range(thread, int(count), int(threads)):
                stream = self._files.create(f"{directory}/{number}", int(replication))
                stream.write(record)
                stream.close()

        return measured(lambda: in_threads(int(threads), make))

    def read(self, path: str, size: str) -> Answer:
        length = 0

        def work() -> None:
            nonlocal length
            length = self._files.read(path, int(size))

        return measured(work) | {"bytes": length}

    def hold(self, directory: str, count: str, size: str, replication: str) -> Answer:
        record = MEBIBYTE[: int(size)]
        gc.collect()
        before = resident_bytes()
        for number in range(int(count)):
            stream = self._files.create(f"{directory}/{number}", int(replication))
            self._held.append(stream)
            if record:
                stream.write(record)
                getattr(stream, "hflush", stream.hsync)()  # hdfs-native has one of the two
        gc.collect()
        return {"threads": thread_count(), "bytes": resident_bytes() - before}

    def put(self, size: str) -> Answer:
        for stream in self._held:
            stream.write(MEBIBYTE[: int(size)])
            stream.flush()
        return {"at": monotonic()}

    def flush(self) -> Answer:
        threads = thread_count()
        for stream in self._held:
            stream.hflush()
        return {"at": monotonic(), "threads": max(threads, thread_count())}

    def release(self) -> Answer:
        for stream in self._held:
            stream.close()
        self._held.clear()
        return {"at": monotonic()}

    def log(self, path: str, replication: str, threads: str, size: str, level: str) -> Answer:
        stream = self._files.create(path, int(replication))
        self._log = Log(stream, int(threads), int(size), level)
        return self.more(threads)

    def more(self, records: str) -> Answer:
        assert self._log is not None
        self._log.wait_for(int(records))
        return {"at": monotonic()}

    def end(self) -> Answer:
        assert self._log is not None
        log, self._log = self._log, None
        return log.end()


def answer_with(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    library, uri, *rest = sys.argv[1:]
    settings = dict(setting.split("=", 1) for setting in rest)
    libraries: dict[str, Callable[[str, Mapping[str, str]], Files]] = {
        "hflush": HflushFiles,
        "hdfs-native": HdfsNativeFiles,
    }
    contender = Contender(libraries[library](uri, settings))
    answer_with("ready")
    for line in sys.stdin:
        name, *arguments = line.split()
        try:
            answer = getattr(contender, name)(*arguments)
        except Exception as failure:
            text = " ".join(str(failure).split())
            answer_with(f"error {type(failure).__name__}: {text}")
        else:
            answer_with(" ".join(f"{key}={value!r}" for key, value in answer.items()))


if __name__ == "__main__":
    main()
