"""HBase's write-ahead log: appenders, a syncer, and a roller that closes under both."""

from __future__ import annotations

import itertools
import random
import threading
import time

import hflush
import pytest
from support.data import frame, parse_frames
from support.stores import Store
from support.waiting import Task
from threads.rounds import rounds

APPENDERS = 5


class Log:
    """A log that rolls: appends go to the current file; a successful hsync acknowledges them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._numbers = itertools.count()
        self._roll_lock = threading.Lock()  # swapping the file, as a user of the stream would
        self._permits = threading.Semaphore(0)  # appends may run ahead of the syncs by so many
        self.paths: list[str] = []
        self.acknowledged: set[tuple[int, int]] = set()
        self._appended: list[tuple[int, int]] = []
        self.current: hflush.FSDataOutputStream
        self.roll()

    def roll(self) -> None:
        """Open the next file, then close the last one, even while it is used."""
        path = self._store.path(f"log.{next(self._numbers)}")
        fresh = self._store.fs.create(path)
        with self._roll_lock:
            self.paths.append(path)
            last = getattr(self, "current", None)
            self.current, self._appended = fresh, []
        if last is not None:
            last.close()

    def append(self, thread: int, number: int, size: int) -> None:
        """Append one record to whatever file is current."""
        self._permits.acquire(timeout=0.1)
        while True:
            with self._roll_lock:
                out, appended = self.current, self._appended
            try:
                out.write(frame(thread, number, size))
            except hflush.StreamClosedError:
                continue
            appended.append((thread, number))
            return

    def sync(self) -> None:
        """Acknowledge what was appended before, if the file is still open."""
        self._permits.release(5 * APPENDERS)
        with self._roll_lock:
            out, appended = self.current, self._appended
            count = len(appended)
        try:
            out.hsync()
        except hflush.StreamClosedError:
            return
        self.acknowledged.update(appended[:count])


@pytest.mark.rule("CONC-4")
@pytest.mark.stores("raw", "hdfs")
def test_rolling_log(store: Store) -> None:
    """Appends, syncs and rolls for seconds: no deadlock; each record is whole in one file."""
    log = Log(store)
    end = time.monotonic() + rounds(300) / 100
    over = threading.Event()

    def append(thread: int) -> int:
        chance = random.Random(thread)
        for number in itertools.count():
            log.append(thread, number, chance.choice([1, 100, 1000, 5000, 70_000]))
            if over.is_set():
                return number
        raise AssertionError

    def repeat(call: object) -> None:
        assert callable(call)
        while not over.is_set():
            call()

    appenders = [Task(append, thread) for thread in range(APPENDERS)]
    others = [Task(repeat, log.sync), Task(repeat, log.roll)]
    while time.monotonic() < end and all(task.is_alive() for task in (*appenders, *others)):
        time.sleep(0.01)
    over.set()
    last = [appender.result() for appender in appenders]
    for other in others:
        other.result()
    log.current.close()
    found = [frame[:2] for path in log.paths for frame in parse_frames(store.read(path))]
    assert sorted(found) == sorted((t, n) for t in range(APPENDERS) for n in range(last[t] + 1))
    assert len(log.paths) > 1
    assert log.acknowledged
    assert log.acknowledged <= set(found)
