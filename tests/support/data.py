"""Test data with a shape that shows gaps, duplicates and reordering."""

from __future__ import annotations


def dataset(size: int, first: int = 0, last: int = 256) -> bytes:
    """Return `size` bytes cycling from the value `first` up to `last`: the contract's ds(n,a,b)."""
    cycle = bytes(range(first, last))
    repeats = -(-size // len(cycle))
    return (cycle * repeats)[:size]


def frame(thread: int, sequence: int, size: int) -> bytes:
    """Return a self-describing record around `size` bytes; `parse_frames` finds a torn one."""
    fill = (thread * 31 + sequence) % 251
    return b"%03d:%06d:%08d:" % (thread, sequence, size) + bytes([fill]) * size + b"\n"


def parse_frames(data: bytes) -> list[tuple[int, int, int]]:
    """Return (thread, sequence, size) of every frame, in file order; fail at the first torn one."""
    frames = []
    position = 0
    while position < len(data):
        header = data[position : position + 20]
        assert len(header) == 20, f"frame header torn at {position}: {header!r}"
        separators = header[3:4] + header[10:11] + header[19:20]
        assert separators == b":::", f"no frame starts at {position}: {header!r}"
        thread, sequence, size = (int(field) for field in header[:19].split(b":"))
        end = position + 20 + size + 1
        assert data[position:end] == frame(thread, sequence, size), f"frame torn at {position}"
        frames.append((thread, sequence, size))
        position = end
    return frames
