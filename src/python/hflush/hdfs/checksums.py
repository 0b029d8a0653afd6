"""The checksum of a file of HDFS, from those of its blocks, as Hadoop defines it."""

from __future__ import annotations

import errno
import hashlib

from .. import _core
from ..errors import unsupported
from ..status import FileChecksum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    # Bytes, bytes per sum, sums per block, MD5 or CRC, checksum type.
    Block: TypeAlias = tuple[int, int, int, bytes, str]

__all__ = ["combined"]

_MD5_BYTES = 16
_LEAST_DIGESTED = 2 * _MD5_BYTES


def combined(blocks: Sequence[Block], composite: bool, path: str) -> FileChecksum:
    """Return the checksum of a file from those of its blocks, in order.

    Raises
    ------
    OSError
        They are not all of one kind.
    io.UnsupportedOperation
        The file has no checksums.
    """
    if not blocks:  # in either form
        return _md5(blocks, 0, 0, "CRC32")
    kinds = {kind for *_, kind in blocks}
    if len(kinds) > 1:
        raise OSError(errno.EIO, f"blocks have different checksum types: {sorted(kinds)}", path)
    kind = kinds.pop()
    if kind == "NULL":
        raise unsupported("a checksum of a file that has none", "hdfs", path)
    if composite:
        return _composite(blocks, kind)
    sizes = {bytes_per_sum for _, bytes_per_sum, *_ in blocks}
    if len(sizes) > 1:
        raise OSError(errno.EIO, f"blocks have different bytes per sum: {sorted(sizes)}", path)
    sums_per_block = blocks[0][2] if len(blocks) > 1 else 0
    return _md5(blocks, sizes.pop(), sums_per_block, kind)


def _md5(
    blocks: Sequence[Block], bytes_per_sum: int, sums_per_block: int, kind: str
) -> FileChecksum:
    """Return the MD5 of MD5s, of which Hadoop digests the whole buffer that it keeps them in."""
    digests = b"".join(checksum for *_, checksum, _ in blocks)
    size = _LEAST_DIGESTED
    while size < len(digests):
        size *= 2
    digest = hashlib.md5(digests.ljust(size, b"\0"), usedforsecurity=False).digest()
    value = bytes_per_sum.to_bytes(4, "big") + sums_per_block.to_bytes(8, "big") + digest
    return FileChecksum(f"MD5-of-{sums_per_block}MD5-of-{bytes_per_sum}{kind}", value)


def _composite(blocks: Sequence[Block], kind: str) -> FileChecksum:
    crc = 0
    for length, _, _, checksum, _ in blocks:
        crc = _core.combine(crc, int.from_bytes(checksum, "big"), length, kind)
    return FileChecksum(f"COMPOSITE-{kind}", crc.to_bytes(4, "big"))
