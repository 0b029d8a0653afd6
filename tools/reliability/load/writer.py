"""A process with streams of hflush or hdfs-native, under load until it is ended.

    writer.py (hflush | hdfs-native) JOURNAL POOL URI [KEY=VALUE...]

Takes orders, one a line; LoadWriter.java takes the same ones.

    start STREAM GENERATION PATH REPLICATION BLOCK_SIZE THREADS PACE (create | append)
        open a stream, after recovering the file's lease where it is to append, and write records
        to it from so many threads; PACE is the least time in seconds between two of a thread
    finish
        end each record that is begun, and close the streams
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "src" / "python")]

from reliability.load.journal import Journal  # noqa: E402
from reliability.load.records import record  # noqa: E402

RECOVERY_S = 10.0
PAUSE_S = 1.0
HSYNC_EVERY = 8


class Files(Protocol):
    """What a client library offers, under the same names for each."""

    levels: tuple[str, str]  # what makes most records safe, and what makes some

    def create(self, path: str, replication: int, block_size: int) -> Any:
        """Make a file, or an empty one of one that is there; return its stream."""

    def take_over(self, path: str, replication: int, block_size: int) -> tuple[int, Any]:
        """Recover a file, which may be missing; return its length, and a stream at its end."""


class HflushFiles:
    """The library that this repository makes."""

    levels = ("hflush", "hsync")

    def __init__(self, uri: str, settings: Mapping[str, str]) -> None:
        import hflush

        self._fs = hflush.FileSystem.new_instance(uri, dict(settings))

    def create(self, path: str, replication: int, block_size: int) -> Any:
        return self._fs.create(path, replication=replication, block_size=block_size)

    def take_over(self, path: str, replication: int, block_size: int) -> tuple[int, Any]:
        try:
            is_closed = self._fs.recover_lease(path, wait=RECOVERY_S)
        except FileNotFoundError:
            return 0, self.create(path, replication, block_size)
        if not is_closed:
            raise TimeoutError(f"{path} is not closed within {RECOVERY_S:.0f} s")
        stream = self._fs.append(path)
        return stream.tell(), stream


class HdfsNativeFiles:
    """The client written in Rust, from PyPI. It has no hflush."""

    levels = ("hsync", "hsync")

    def __init__(self, uri: str, settings: Mapping[str, str]) -> None:
        import hdfs_native

        self._options = partial(hdfs_native.WriteOptions, overwrite=True, create_parent=True)
        self._client = hdfs_native.Client(uri, dict(settings))

    def create(self, path: str, replication: int, block_size: int) -> Any:
        options = self._options(block_size=block_size, replication=replication)
        return _OneAtATime(self._client.create(path, options))

    def take_over(self, path: str, replication: int, block_size: int) -> tuple[int, Any]:
        end = time.monotonic() + RECOVERY_S
        try:
            while not self._client.recover_lease(path):
                if time.monotonic() > end:
                    raise TimeoutError(f"{path} is not closed within {RECOVERY_S:.0f} s")
                time.sleep(PAUSE_S)
        except FileNotFoundError:
            return 0, self.create(path, replication, block_size)
        length = self._client.get_file_info(path).length
        return length, _OneAtATime(self._client.append(path))


class _OneAtATime:
    """A stream that several threads may use: its own calls refuse to run at the same time."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def write(self, data: bytes) -> None:
        with self._lock:
            self._stream.write(data)

    def hsync(self) -> None:
        with self._lock:
            self._stream.hsync()

    def close(self) -> None:
        with self._lock:
            self._stream.close()


class Writer:
    """The streams of this process."""

    def __init__(self, files: Files, journal: Journal, pool: bytes) -> None:
        self._files, self._journal, self._pool = files, journal, pool
        self._finish = threading.Event()
        self._streams: list[threading.Thread] = []

    def start(self, order: str) -> None:
        stream = threading.Thread(target=self._run, args=order.split(" "), daemon=True)
        self._streams.append(stream)
        stream.start()

    def finish(self) -> None:
        self._finish.set()
        for stream in self._streams:
            stream.join()

    def _run(
        self,
        stream: str,
        generation: str,
        path: str,
        replication: str,
        block_size: str,
        threads: str,
        pace: str,
        how: str,
    ) -> None:
        out = self._open(stream, generation, how, (path, int(replication), int(block_size)))
        if out is None:
            return
        failed = threading.Event()
        writing = [
            threading.Thread(
                target=self._write,
                args=(out, int(stream), int(generation), thread, float(pace), failed),
                daemon=True,
            )
            for thread in range(int(threads))
        ]
        for each in writing:
            each.start()
        for each in writing:
            each.join()
        if failed.is_set():
            with suppress(Exception):
                out.close()
            return
        began = time.monotonic_ns()
        try:
            out.close()
        except Exception as failure:
            self._failed(int(stream), int(generation), 0, "close", began, failure)
        else:
            self._journal.note("closed", stream, generation, _micros(began))

    def _open(self, stream: str, generation: str, how: str, what: tuple[str, int, int]) -> Any:
        """Open the stream, however often it is refused; None: the end has come before."""
        while not self._finish.is_set():
            try:
                length, out = (
                    (0, self._files.create(*what))
                    if how == "create"
                    else self._files.take_over(*what)
                )
            except Exception as refusal:  # noqa: PERF203
                self._journal.note("refused", stream, generation, _text(refusal))
                self._finish.wait(PAUSE_S)
            else:
                self._journal.note("opened", stream, generation, length)
                return out
        return None

    def _write(
        self,
        out: Any,
        stream: int,
        generation: int,
        thread: int,
        pace: float,
        failed: threading.Event,
    ) -> None:
        number = 0
        while not self._finish.is_set() and not failed.is_set():
            level = self._files.levels[number % HSYNC_EVERY == HSYNC_EVERY - 1]
            data = record(self._pool, stream, generation, thread, number)
            began = time.monotonic_ns()
            call = "write"
            try:
                out.write(data)
                call = level
                getattr(out, level)()
            except Exception as failure:
                if level == self._files.levels[0] or not _goes_on(out):
                    failed.set()
                    self._failed(stream, generation, thread, call, began, failure)
                    return
            number += 1
            self._journal.note("ack", stream, generation, thread, number, _micros(began))
            self._finish.wait(pace)

    def _failed(
        self, stream: int, generation: int, thread: int, call: str, began: int, failure: Exception
    ) -> None:
        words = (thread, call, _micros(began), _text(failure))
        self._journal.note("failed", stream, generation, *words)


def _goes_on(out: Any) -> bool:
    """Whether a stream lives whose hsync failed, as it may where an earlier block cannot be synced.

    Then everything written is acknowledged as by hflush.
    """
    try:
        out.hflush()
    except Exception:
        return False
    return True


def _micros(began: int) -> int:
    return (time.monotonic_ns() - began) // 1000


def _text(failure: Exception) -> str:
    story = [event.what for event in getattr(failure, "history", ())]
    return " ".join(f"{type(failure).__name__}: {failure} {' | '.join(story)}".split())


def main() -> None:
    library, journal, pool, uri, *rest = sys.argv[1:]
    settings = dict(setting.split("=", 1) for setting in rest)
    libraries: dict[str, Callable[[str, Mapping[str, str]], Files]] = {
        "hflush": HflushFiles,
        "hdfs-native": HdfsNativeFiles,
    }
    files = libraries[library](uri, settings)
    writer = Writer(files, Journal(journal), Path(pool).read_bytes())
    for line in sys.stdin:
        order, _, words = line.strip().partition(" ")
        if order == "start":
            writer.start(words)
        else:
            writer.finish()


if __name__ == "__main__":
    main()
