"""Checksums against google-crc32c, crc32c and awscrt, and the fused copy against memcpy.

The peers have no function for chunks: they sum the whole buffer, which is the same number of bytes
with fewer answers, and so the easier work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import hflush
import pytest
from interleaved import Target
from support.line_program import answering

ROOT = Path(__file__).resolve().parents[1]
RING = ROOT / "build" / "dev" / "hflush_ring_bench"
MOVED = 64 * 2**20  # by one pass of the ring's worker

HOT, COLD = 64 * 2**10, 64 * 2**20

Peers = dict[str, Callable[[bytes], int]]


@pytest.fixture(scope="module")
def peers() -> Peers:
    """What sums a whole buffer with CRC32C, by name."""
    google = pytest.importorskip("google_crc32c")
    crc32c = pytest.importorskip("crc32c")
    aws = pytest.importorskip("awscrt.checksums")
    return {"google-crc32c": google.value, "crc32c": crc32c.crc32c, "awscrt": aws.crc32c}


@pytest.mark.parametrize(
    ("work", "size", "targets"),
    [
        (
            "CRC32C per 512 B chunk, hot 64 KiB",
            HOT,
            [Target("google-crc32c", speed_at_least=2.0), Target("awscrt", speed_at_least=1.05)],
        ),
        (
            "CRC32C per 512 B chunk, cold 64 MiB",
            COLD,
            [Target("google-crc32c", speed_at_least=1.7)],
        ),
    ],
    ids=["hot", "cold"],
)
def test_chunks(
    ratio: Callable[..., None], peers: Peers, work: str, size: int, targets: list[Target]
) -> None:
    """A sum for each 512 bytes is faster than the peers' one sum for all."""
    data = os.urandom(size)
    sums = hflush.crc.chunked_sums_array(data)
    whole = 0
    for value in sums:
        whole = hflush.crc.combine(whole, int(value), 512)
    assert [sum_of(data) for sum_of in peers.values()] == [whole] * len(peers)
    ratio(
        work,
        ours=lambda: hflush.crc.chunked_sums(data),
        peers={name: lambda sum_of=sum_of: sum_of(data) for name, sum_of in peers.items()},
        targets=targets,
        nbytes=size,
    )


@pytest.mark.parametrize(
    ("work", "size"),
    [("CRC32C of a buffer, hot 64 KiB", HOT), ("CRC32C of a buffer, cold 64 MiB", COLD)],
    ids=["hot", "cold"],
)
def test_whole(ratio: Callable[..., None], peers: Peers, work: str, size: int) -> None:
    """One sum of a buffer, the same work as the peers'."""
    data = os.urandom(size)
    answer = hflush.crc.crc32c(data)
    assert [sum_of(data) for sum_of in peers.values()] == [answer] * len(peers)
    ratio(
        work,
        ours=lambda: hflush.crc.crc32c(data),
        peers={name: lambda sum_of=sum_of: sum_of(data) for name, sum_of in peers.items()},
        nbytes=size,
    )


@pytest.fixture(scope="module")
def ring() -> Iterator[Callable[[str], str]]:
    """A process that copies packets into a ring on request (bench/cpp/ring.cc)."""
    if not RING.exists():
        pytest.skip(f"{RING.relative_to(ROOT)} is not built")
    with answering(RING) as order:
        yield order


@pytest.mark.parametrize("source", ["cold", "hot"])
def test_fused_copy(ratio: Callable[..., None], ring: Callable[[str], str], source: str) -> None:
    """Copying and summing 64 KiB packets into a ring of 16 costs hardly more than copying."""
    assert ring("check") == "equal"
    ratio(
        f"fused copy + CRC32C into a packet ring, {source} source",
        ours=lambda: ring(f"fused {source}"),
        peers={"memcpy": lambda: ring(f"memcpy {source}")},
        targets=[Target("memcpy", speed_at_least=0.95)],
        nbytes=MOVED,
    )
