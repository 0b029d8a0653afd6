"""Checksums: CRC32C and CRC-32 of buffers and of their chunks.

The work is done by the fastest kernel the processor has; `kernel` names it. Every function takes
any C-contiguous object with the buffer protocol, of any length and alignment, and lets other
threads run while it sums 64 KiB or more. Values follow `zlib.crc32`: the sum of no bytes is 0, and
a sum is extended by passing it back in.

A *kind* is named as Hadoop names it: ``"CRC32C"`` (Castagnoli's polynomial, RFC 3720; the default
of HDFS) or ``"CRC32"`` (zlib's polynomial; used in the ``.crc`` files of local file systems).
"""

from __future__ import annotations

from . import _core
from ._on_demand import needs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    import numpy
    import numpy.typing
    from typing_extensions import Buffer

    _Out = TypeVar("_Out", bound=Buffer)

__all__ = ["chunked_sums", "chunked_sums_array", "combine", "crc32", "crc32c", "kernel", "kernels"]


def __dir__() -> list[str]:
    return __all__


def crc32c(data: Buffer, value: int = 0) -> int:
    """Sum bytes with CRC32C.

    Parameters
    ----------
    data : bytes-like
        C-contiguous, any length and item type; its bytes are summed in memory order.
    value : int
        The sum of the bytes before these, 0 to 2**32 - 1.

    Returns
    -------
    int
        The sum, 0 to 2**32 - 1.

    Raises
    ------
    TypeError
        `data` has no buffer, or `value` is not an integer.
    BufferError
        `data` is not C-contiguous.
    ValueError
        `value` is outside its bounds.

    Notes
    -----
    Source: RFC 3720, section B.4, whose vectors it reproduces.

    Examples
    --------
    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    >>> crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789")
    True
    """
    return _core.crc32c(data, value)


def crc32(data: Buffer, value: int = 0) -> int:
    """Sum bytes with CRC-32, zlib's and gzip's.

    Parameters
    ----------
    data : bytes-like
        C-contiguous, any length and item type; its bytes are summed in memory order.
    value : int
        The sum of the bytes before these, 0 to 2**32 - 1.

    Returns
    -------
    int
        The sum, 0 to 2**32 - 1: what `zlib.crc32` returns.

    Raises
    ------
    TypeError
        `data` has no buffer, or `value` is not an integer.
    BufferError
        `data` is not C-contiguous.
    ValueError
        `value` is outside its bounds.

    Notes
    -----
    Source: RFC 1952, section 8.

    Examples
    --------
    >>> hex(crc32(b"123456789"))
    '0xcbf43926'
    """
    return _core.crc32(data, value)


def chunked_sums(
    data: Buffer, bytes_per_checksum: int = 512, kind: str = "CRC32C", *, out: _Out | None = None
) -> bytes | _Out:
    """Sum each chunk of a buffer on its own.

    Parameters
    ----------
    data : bytes-like
        C-contiguous, any length; cut into chunks from its first byte on, the last of which may be
        shorter.
    bytes_per_checksum : int
        Length of a chunk in bytes, 1 to 2**31 - 1. 512 is the fastest.
    kind : {"CRC32C", "CRC32"}
        The polynomial.
    out : writable bytes-like, optional
        Where to put the sums: C-contiguous, at least 4 bytes for each, not overlapping `data`.
        What follows the last sum is left alone.

    Returns
    -------
    bytes or out
        Four bytes for each chunk, big-endian, in order; `out` itself where it is given.

    Raises
    ------
    TypeError
        `data` or `out` has no buffer, or `bytes_per_checksum` is not an integer.
    BufferError
        `data` or `out` is not C-contiguous, or `out` is read-only.
    ValueError
        `bytes_per_checksum` is outside its bounds, `kind` is unknown, or `out` is too small.

    Notes
    -----
    The layout of the checksums in HDFS packets, and in ``.crc`` files after their header.
    Source: Hadoop ``DataChecksum.calculateChunkedSums``.

    Examples
    --------
    >>> chunked_sums(b"123456789").hex()
    'e3069283'
    >>> len(chunked_sums(bytes(1025), 512))
    12
    """
    if out is None:
        return _core.chunked_sums(data, bytes_per_checksum, kind)
    _core.chunked_sums_into(data, out, bytes_per_checksum, kind)
    return out


def chunked_sums_array(
    data: Buffer, bytes_per_checksum: int = 512, kind: str = "CRC32C"
) -> numpy.typing.NDArray[numpy.uint32]:
    """Sum each chunk of a buffer on its own, as numbers.

    Parameters
    ----------
    data : bytes-like
        As for `chunked_sums`.
    bytes_per_checksum : int
        As for `chunked_sums`.
    kind : {"CRC32C", "CRC32"}
        As for `chunked_sums`.

    Returns
    -------
    numpy.ndarray
        Of shape ``(ceil(n / bytes_per_checksum),)`` for n bytes, and dtype ``>u4``; read-only,
        ``astype("u4")`` gives a writable copy in native order.

    Raises
    ------
    ImportError
        numpy is not installed.
    TypeError, BufferError, ValueError
        As for `chunked_sums`.

    Examples
    --------
    >>> [hex(value) for value in chunked_sums_array(b"123456789")]
    ['0xe3069283']
    """
    try:
        import numpy
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            needs("hflush.crc.chunked_sums_array", missing), name=missing.name
        ) from missing
    return numpy.frombuffer(_core.chunked_sums(data, bytes_per_checksum, kind), dtype=">u4")


def combine(a: int, b: int, length_b: int, kind: str = "CRC32C") -> int:
    """Compute the sum of two runs of bytes, one after the other, from the sums of each.

    Parameters
    ----------
    a, b : int
        The sums of the first and the second run, 0 to 2**32 - 1.
    length_b : int
        Length of the second run in bytes, 0 to 2**63 - 1.
    kind : {"CRC32C", "CRC32"}
        The polynomial of both sums.

    Returns
    -------
    int
        The sum of both runs together, 0 to 2**32 - 1, in time that grows with the logarithm of
        `length_b`.

    Raises
    ------
    TypeError
        A number is not an integer.
    ValueError
        A number is outside its bounds, or `kind` is unknown.

    Notes
    -----
    Source: zlib ``crc32_combine``; Hadoop ``CrcUtil.compose``.

    Examples
    --------
    >>> combine(crc32c(b"12345"), crc32c(b"6789"), 4) == crc32c(b"123456789")
    True
    """
    return _core.combine(a, b, length_b, kind)


def kernel() -> str:
    """Name the kernel that does the work on this machine.

    Returns
    -------
    str
        The first of `kernels`.

    Examples
    --------
    >>> kernel() == kernels()[0]
    True
    """
    return _core.kernel()


def kernels() -> list[str]:
    """Name the kernels that this processor can run.

    Returns
    -------
    list of str
        The fastest first, ``"portable"`` last; one for each instruction set.

    Examples
    --------
    >>> "portable" in kernels()
    True
    """
    return _core.kernels()
