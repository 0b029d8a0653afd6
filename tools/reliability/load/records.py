"""What writers write: records, of which each byte follows from stream, generation, thread, number.

A record is one `write`: a header with these numbers and its size, then a piece of a pool of random
bytes. LoadWriter.java makes the same ones.
"""

from __future__ import annotations

import random
import struct

HEADER = struct.Struct(">5I")  # stream, generation, thread, number, size
POOL_BYTES = 1 << 18
MOST = 96 << 10  # larger than the smallest block
_WORD = (1 << 32) - 1


def pool(seed: int) -> bytes:
    """Return the random bytes of a round."""
    return random.Random(seed).randbytes(POOL_BYTES)


def size(stream: int, generation: int, thread: int, number: int) -> int:
    """Return the size of a record."""
    return _size_of(_mixed(stream, generation, thread, number))


def record(random_bytes: bytes, stream: int, generation: int, thread: int, number: int) -> bytes:
    """Return a record."""
    mixed = _mixed(stream, generation, thread, number)
    length = _size_of(mixed)
    at = (mixed >> 8) % (POOL_BYTES - MOST)
    header = HEADER.pack(stream, generation, thread, number, length)
    return header + random_bytes[at : at + length - HEADER.size]


def _mixed(stream: int, generation: int, thread: int, number: int) -> int:
    x = stream * 7919 + generation * 104729 + thread * 1299709 + number * 2654435761 & _WORD
    x ^= x >> 15
    x = x * 2246822519 & _WORD
    x ^= x >> 13
    x = x * 3266489917 & _WORD
    return x ^ x >> 16


def _size_of(mixed: int) -> int:
    """Small ones, and now and then one that is larger than a packet."""
    if mixed % 32 == 0:
        return (64 << 10) + (mixed >> 5) % (MOST - (64 << 10))
    return 32 + (mixed >> 5) % (4 << 10)
