"""What hflush costs before it does anything: importing it, and streams that are open and idle."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

IDLE_STREAMS = 1000

RESIDENT = """
import os, sys, time
def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
"""

# Prints the seconds an import took and the growth of resident memory in bytes.
MEASURE_IMPORT = """
before = resident()
started = time.perf_counter()
import {module}
print(time.perf_counter() - started, resident() - before)
"""


def measured_import(module: str) -> tuple[float, int]:
    """In a fresh interpreter that may write byte code, as pip has written it where it installs."""
    code = RESIDENT + MEASURE_IMPORT.format(module=module)
    environment = {key: os.environ[key] for key in os.environ if key != "PYTHONDONTWRITEBYTECODE"}
    seconds, grown = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment
    ).stdout.split()
    return float(seconds), int(grown)


def test_import(figure: Callable[..., None]) -> None:
    """Importing hflush takes a fraction of what pyarrow.fs takes, in fresh interpreters."""
    pytest.importorskip("pyarrow")
    rounds = 11
    ours, peers, grown = [], [], []
    for module in ("hflush", "pyarrow.fs"):
        measured_import(module)  # writes the byte code that is missing
    for _ in range(rounds):
        seconds, memory = measured_import("hflush")
        ours.append(seconds)
        grown.append(memory)
        peers.append(measured_import("pyarrow.fs")[0])
    ratios = sorted(mine / peer for mine, peer in zip(ours, peers, strict=True))
    figure(
        "time, of pyarrow.fs",
        ratios[rounds // 2],
        "×",
        at_most=0.2,
        work="import hflush",
    )
    figure("memory", sorted(grown)[rounds // 2] / 1e6, "MB", at_most=10.0)


# Prints by how many bytes resident memory grew with the second half of the streams: those of the
# first fill what the process had free.
MEASURE_STREAMS = """
import hflush
directory, half = sys.argv[1], int(sys.argv[2])
streams = [hflush.create(f"{directory}/{number}") for number in range(half)]
before = resident()
streams += [hflush.create(f"{directory}/{number}") for number in range(half, 2 * half)]
print(resident() - before)
for stream in streams:
    stream.close()
"""


def test_idle_streams(figure: Callable[..., None], tmp_path: Path) -> None:
    """A thousand open streams that wait for work cost a few pages each, and no thread."""
    half = IDLE_STREAMS // 2
    command = [sys.executable, "-c", RESIDENT + MEASURE_STREAMS, str(tmp_path), str(half)]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    figure(
        "per stream",
        grown / half / 1024,
        "KiB",
        at_most=16.0,
        work=f"memory of {IDLE_STREAMS:,} idle open streams",
    )
