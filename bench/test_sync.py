"""hsync of small records: alone beside write + fdatasync, and sixteen threads that share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import hflush
import pytest
from interleaved import Contender, Target

RECORD = os.urandom(1024)


class HsyncLog:
    """Records on an hflush stream, each durable when `append` returns."""

    syncs = 0
    records = 0

    def __init__(self, path: Path) -> None:
        self._stream = hflush.create(path)

    def append(self) -> None:
        self._stream.write(RECORD)
        self._stream.hsync()

    def close(self) -> None:
        counters = self._stream.io_statistics().counters
        HsyncLog.syncs += counters["file_syncs"]
        HsyncLog.records += counters["op_hsync"]
        self._stream.close()


class FdatasyncLog:
    """The same by hand: every record its own write and fdatasync."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._descriptor = os.open(path, flags, 0o644)

    def append(self) -> None:
        os.write(self._descriptor, RECORD)
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


def contender(
    directory: Path, opener: Callable[[Path], Any], threads: int, records: int
) -> Contender:
    names = count()

    def append_all(log: Any) -> None:
        for _ in range(records):
            log.append()

    def run(log: Any) -> None:
        if threads == 1:
            append_all(log)
            return
        workers = [threading.Thread(target=append_all, args=(log,)) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def setup() -> Any:
        return opener(directory / f"{opener.__name__}-{next(names)}")

    def teardown(log: Any) -> None:
        log.close()

    return Contender(run, setup, teardown)


@pytest.mark.parametrize(
    ("threads", "records", "target"),
    [
        (1, 1000, Target("fdatasync", time_at_most=1.05)),
        (16, 150, Target("fdatasync", speed_at_least=1.2)),
    ],
)
def test_hsync(
    ratio: Callable[..., None],
    figure: Callable[..., None],
    tmp_path: Path,
    threads: int,
    records: int,
    target: Target,
) -> None:
    """Alone, hsync costs what fdatasync costs; together, sixteen threads share theirs."""
    HsyncLog.syncs = HsyncLog.records = 0
    ratio(
        f"1 KiB + hsync, {threads} thread{'s' if threads > 1 else ''}",
        ours=contender(tmp_path, HsyncLog, threads, records),
        peers={"fdatasync": contender(tmp_path, FdatasyncLog, threads, records)},
        targets=[target],
        operations=threads * records,
        rounds=15,
    )
    assert HsyncLog.records > 0
    if threads > 1:
        figure("syncs per record", HsyncLog.syncs / HsyncLog.records, "", at_most=0.25)
