"""What the writers were promised. Each writer has a file, and syncs each line before it goes on.

    opened  TIME STREAM GENERATION LENGTH                    of the file, when it was opened
    ack     TIME STREAM GENERATION THREAD COUNT MICROS       of the thread, the first COUNT records
    failed  TIME STREAM GENERATION THREAD CALL MICROS TEXT   write, hflush, hsync or close raised
    closed  TIME STREAM GENERATION MICROS                    close returned
    refused TIME STREAM GENERATION TEXT                      recoverLease, create or append raised

TIME is CLOCK_MONOTONIC in nanoseconds, which all processes share, when the call ended; MICROS is
how long it took (of ack: write and hflush or hsync). A stream that is opened again, by another
process or after a failure, is in its next generation.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path


class Journal:
    """The writers' side. Thread-safe."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._lock = threading.Lock()

    def note(self, what: str, *words: object) -> None:
        """Write a line; it is on the disk when this returns."""
        line = " ".join(map(str, (what, time.monotonic_ns(), *words)))
        with self._lock:
            os.write(self._file, line.encode() + b"\n")
            os.fdatasync(self._file)


@dataclass(frozen=True)
class Ack:
    """A call that was acknowledged. Times are in nanoseconds."""

    at: int
    took: int

    @property
    def began(self) -> int:
        return self.at - self.took


@dataclass(frozen=True)
class Failure:
    """A call that raised."""

    at: int
    call: str
    text: str


@dataclass
class Generation:
    """A file while one writer has it."""

    opened_at: int = 0
    start: int | None = None  # where it begins in the file; None: it was not opened
    counts: dict[int, int] = field(default_factory=dict)  # of acknowledged records, by thread
    acks: dict[int, list[Ack]] = field(default_factory=dict)  # by thread
    failure: Failure | None = None  # the first one
    refused: list[str] = field(default_factory=list)
    is_closed: bool = False

    @property
    def has_ended(self) -> bool:
        return self.is_closed or self.failure is not None

    @property
    def is_good_since(self) -> int:
        """When the last call began that was acknowledged."""
        return max((acks[-1].began for acks in self.acks.values()), default=self.opened_at)


class Ledger:
    """All lines of one client's writers, in the order of each file."""

    def __init__(self) -> None:
        self.streams: dict[int, list[Generation]] = {}
        self.acknowledgements = 0
        self._files: dict[Path, tuple[int, bytes]] = {}  # read so far, and the line begun

    def expect(self, stream: int) -> int:
        """Add a generation of a stream, and return its number."""
        generations = self.streams.setdefault(stream, [])
        generations.append(Generation())
        return len(generations) - 1

    def read(self, path: Path) -> None:
        """Take the lines that a file has beyond those that were taken."""
        at, begun = self._files.get(path, (0, b""))
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(at)
            new = file.read()
        *lines, rest = (begun + new).split(b"\n")
        self._files[path] = (at + len(new), rest)
        for line in lines:
            self.take(line.decode(errors="replace"))

    def take(self, line: str) -> None:
        """Take one line."""
        what, at, stream, number, *rest = line.split(" ")
        generation = self.streams[int(stream)][int(number)]
        if what == "opened":
            generation.opened_at, generation.start = int(at), int(rest[0])
        elif what == "ack":
            thread, count, micros = map(int, rest)
            generation.counts[thread] = count
            generation.acks.setdefault(thread, []).append(Ack(int(at), micros * 1000))
            self.acknowledgements += 1
        elif what == "closed":
            generation.is_closed = True
        elif what == "failed" and generation.failure is None:
            generation.failure = Failure(int(at), rest[1], " ".join(rest[3:]))
        elif what == "refused":
            generation.refused.append(" ".join(rest))
