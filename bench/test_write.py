"""Writing local files: small writes, large ones back to back, and with work in between."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import hflush
import pytest
from interleaved import Contender, Target

MIB = 1 << 20
LARGE_WRITES = 128  # of one MiB


class OsWriter:
    """`os.write`, as a file object: the least that Python can do."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)

    def write(self, data: bytes) -> int:
        return os.write(self._descriptor, data)

    def close(self) -> None:
        """Close; like every file object, twice does no harm."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def small_writes(size: int, calls: int) -> Callable[[Any], None]:
    data = bytes(size)

    def run(stream: Any) -> None:
        write = stream.write
        for _ in range(calls):
            write(data)

    return run


def large_writes(compute_seconds: float) -> Callable[[Any], None]:
    data = os.urandom(MIB)

    def run(stream: Any) -> None:
        for _ in range(LARGE_WRITES):
            stream.write(data)
            if compute_seconds:
                until = time.perf_counter() + compute_seconds
                while time.perf_counter() < until:
                    pass
        stream.close()

    return run


def on_new_files(
    directory: Path, opener: Callable[[Path], Any], run: Callable[[Any], None]
) -> Contender:
    """Each round writes a file that is not there yet and removes it afterwards, untimed."""
    names = count()
    paths: list[Path] = []

    def setup() -> Any:
        paths.append(directory / f"{id(run)}-{id(opener)}-{next(names)}")
        return opener(paths[-1])

    def teardown(stream: Any) -> None:
        stream.close()
        path = paths.pop()
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    return Contender(run, setup, teardown)


def raw(path: Path) -> hflush.FSDataOutputStream:
    return hflush.create(path)


def crc(path: Path) -> hflush.FSDataOutputStream:
    return hflush.create(path, conf={"fs.file.checksum": True})


@pytest.mark.parametrize("size", [1, 10, 100])
def test_small_writes(ratio: Callable[..., None], tmp_path: Path, size: int) -> None:
    """A call costs less than the built-in's, whose buffer has the size of our packets."""
    calls = 200_000
    run = small_writes(size, calls)
    ratio(
        f"write of {size} B",
        ours=on_new_files(tmp_path, raw, run),
        peers={"open(65536)": on_new_files(tmp_path, lambda path: open(path, "wb", 65536), run)},
        targets=[Target("open(65536)", time_at_most=0.45)],
        nbytes=size * calls,
        operations=calls,
    )


@pytest.mark.parametrize(("opener", "what", "least"), [(raw, "raw", 0.95), (crc, "crc", 0.90)])
def test_large_writes(
    ratio: Callable[..., None],
    tmp_path: Path,
    opener: Callable[[Path], Any],
    what: str,
    least: float,
) -> None:
    """Back to back, the stream costs next to nothing beside the system call, sums included."""
    run = large_writes(0)
    sums = " with sums" if what == "crc" else ""
    ratio(
        f"1 MiB writes, {what}{sums}",
        ours=on_new_files(tmp_path, opener, run),
        peers={"os.write": on_new_files(tmp_path, OsWriter, run)},
        targets=[Target("os.write", speed_at_least=least)],
        nbytes=LARGE_WRITES * MIB,
        operations=LARGE_WRITES,
        rounds=21,
    )


@pytest.mark.parametrize(("opener", "what"), [(raw, "raw"), (crc, "crc")])
@pytest.mark.parametrize("micros", [100, 250])
def test_large_writes_beside_computing(
    ratio: Callable[..., None],
    tmp_path: Path,
    opener: Callable[[Path], Any],
    what: str,
    micros: int,
) -> None:
    """A caller that computes between writes gets the kernel's copying done meanwhile."""
    run = large_writes(micros * 1e-6)
    ratio(
        f"1 MiB writes with {micros} µs of computing each, {what}",
        ours=on_new_files(tmp_path, opener, run),
        peers={"open()": on_new_files(tmp_path, lambda path: open(path, "wb"), run)},
        targets=[Target("open()", speed_at_least=1.2)],
        nbytes=LARGE_WRITES * MIB,
        operations=LARGE_WRITES,
        rounds=21,
    )
