"""hflush.crc: right against zlib, crc32c and google-crc32c: any buffer, size, kind and kernel."""

from __future__ import annotations

import array
import random
import threading
import zlib
from collections.abc import Callable

import crc32c
import google_crc32c
import hflush
import numpy
import pytest
from hflush import _core
from hypothesis import given
from hypothesis import strategies as st

KINDS: dict[str, Callable[[bytes], int]] = {
    "CRC32C": google_crc32c.value,
    "CRC32": zlib.crc32,
}
DATA = random.Random(1).randbytes(200_000)


def expected_sums(data: bytes, bytes_per_checksum: int, kind: str) -> bytes:
    """Each chunk summed alone by another library, big-endian."""
    return b"".join(
        KINDS[kind](data[at : at + bytes_per_checksum]).to_bytes(4, "big")
        for at in range(0, len(data), bytes_per_checksum)
    )


@pytest.mark.parametrize("size", [0, 1, 7, 8, 63, 64, 511, 512, 513, 4096, 65535, 65536, 200_000])
def test_values_are_those_of_other_libraries(size: int) -> None:
    """google-crc32c's, crc32c's and zlib's; both below and above the GIL's threshold."""
    data = DATA[:size]
    assert hflush.crc.crc32c(data) == google_crc32c.value(data) == crc32c.crc32c(data)
    assert hflush.crc.crc32(data) == zlib.crc32(data)


@pytest.mark.parametrize("at", [0, 1, 511, 512, 777, 65_536, 200_000])
def test_a_sum_is_extended_and_combined(at: int) -> None:
    """Passing a value in continues it; combine joins two sums without the bytes."""
    head, tail = DATA[:at], DATA[at:]
    for kind, extend in (("CRC32C", hflush.crc.crc32c), ("CRC32", hflush.crc.crc32)):
        whole = KINDS[kind](DATA)
        assert extend(tail, extend(head)) == whole
        assert hflush.crc.combine(extend(head), extend(tail), len(tail), kind) == whole


@given(st.binary(max_size=4096), st.integers(0, 2**32 - 1))
def test_a_sum_that_another_library_began(data: bytes, value: int) -> None:
    """Any bytes after any sum: as crc32c and google-crc32c go on from there."""
    others = {crc32c.crc32c(data, value), google_crc32c.extend(value, data)}
    assert {hflush.crc.crc32c(data, value)} == others


def test_combine_joins_crc32c_unless_told_otherwise() -> None:
    """The default kind is CRC32C, as HDFS's."""
    a, b = google_crc32c.value(b"12345"), google_crc32c.value(b"6789")
    assert hflush.crc.combine(a, b, 4) == 0xE3069283


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bytes_per_checksum", [1, 100, 512, 513, 4096, 2**31 - 1])
def test_chunk_sums_are_big_endian_and_independent(bytes_per_checksum: int, kind: str) -> None:
    """Four bytes for each chunk, the last chunk as short as it is."""
    data = DATA[:10_001]
    sums = hflush.crc.chunked_sums(data, bytes_per_checksum, kind)
    assert sums == expected_sums(data, bytes_per_checksum, kind)


def test_chunk_sums_default_to_512_bytes_and_crc32c() -> None:
    """The defaults are HDFS's."""
    assert hflush.crc.chunked_sums(DATA) == expected_sums(DATA, 512, "CRC32C")
    assert hflush.crc.chunked_sums(b"") == b""


def test_chunk_sums_go_where_they_are_told_and_no_further() -> None:
    """`out` is filled from its beginning, returned, and left alone after the last sum."""
    out = bytearray(b"\xaa" * 20)
    assert hflush.crc.chunked_sums(DATA[:1500], out=out) is out
    assert out == expected_sums(DATA[:1500], 512, "CRC32C") + b"\xaa" * 8


def test_chunk_sums_fill_a_numpy_array() -> None:
    """An array of big-endian numbers is as good an `out` as any."""
    out = numpy.zeros(3, dtype=">u4")
    hflush.crc.chunked_sums(DATA[:1500], kind="CRC32", out=out)
    assert out.tolist() == [zlib.crc32(DATA[at : min(at + 512, 1500)]) for at in (0, 512, 1024)]


def test_arrays_in_and_arrays_out() -> None:
    """Rows of a matrix are chunks: a number for each, computed and put there without a copy."""
    rows = numpy.frombuffer(DATA[:64_000], dtype="<f4").reshape(500, 32)
    sums = numpy.full(502, 0xFFFFFFFF, dtype=">u4")
    assert hflush.crc.chunked_sums(rows, rows.itemsize * 32, out=sums[1:501]).base is sums
    expected = [crc32c.crc32c(row.tobytes()) for row in rows]
    assert sums.tolist() == [0xFFFFFFFF, *expected, 0xFFFFFFFF]
    assert hflush.crc.chunked_sums_array(rows, 128).tolist() == expected
    with pytest.raises(BufferError):
        hflush.crc.chunked_sums(rows[:, 1:])
    with pytest.raises(ValueError, match="out"):
        hflush.crc.chunked_sums(rows, 128, out=numpy.empty(499, dtype=">u4"))


def test_chunk_sums_as_an_array() -> None:
    """One big-endian unsigned number for each chunk."""
    sums = hflush.crc.chunked_sums_array(DATA[:5000], 1000)
    assert sums.dtype == numpy.dtype(">u4")
    assert sums.shape == (5,)
    assert sums.tolist() == [
        google_crc32c.value(DATA[at : at + 1000]) for at in range(0, 5000, 1000)
    ]


@pytest.mark.parametrize(
    "make",
    [
        bytes,
        bytearray,
        memoryview,
        lambda data: memoryview(data)[:],
        lambda data: array.array("B", data),
        lambda data: numpy.frombuffer(data, dtype="u1"),
        lambda data: numpy.frombuffer(data, dtype="f8").reshape(-1, 8),
    ],
    ids=["bytes", "bytearray", "memoryview", "slice", "array", "numpy", "matrix of doubles"],
)
def test_any_contiguous_buffer_is_summed_by_its_bytes(make: Callable[[bytes], object]) -> None:
    """Item type and shape do not matter, memory order does."""
    data = DATA[:4096]
    assert hflush.crc.crc32c(make(data)) == google_crc32c.value(data)
    assert hflush.crc.chunked_sums(make(data)) == expected_sums(data, 512, "CRC32C")


def test_an_unaligned_view_is_summed() -> None:
    """Any alignment is right."""
    for offset in range(1, 70):
        view = memoryview(DATA)[offset : offset + 3000]
        assert hflush.crc.crc32c(view) == google_crc32c.value(bytes(view))


@pytest.mark.parametrize(
    "scattered",
    [
        memoryview(DATA)[::2],
        memoryview(DATA)[::-1],
        numpy.frombuffer(DATA, dtype="u1")[::2],
        numpy.frombuffer(DATA, dtype="u1").reshape(-1, 100)[:, 1:],
        numpy.asfortranarray(numpy.frombuffer(DATA, dtype="u1").reshape(-1, 100)),
    ],
    ids=["every other", "backwards", "numpy stride", "columns", "fortran"],
)
def test_a_buffer_in_pieces_is_refused(scattered: object) -> None:
    """BufferError, from every function that takes a buffer; nothing is copied in secret."""
    for function in (hflush.crc.crc32c, hflush.crc.crc32, hflush.crc.chunked_sums):
        with pytest.raises(BufferError):
            function(scattered)


def test_an_out_in_pieces_is_refused() -> None:
    """BufferError: sums are stored one after the other."""
    with pytest.raises(BufferError):
        hflush.crc.chunked_sums(b"x", out=memoryview(bytearray(16))[::2])
    with pytest.raises(BufferError):
        hflush.crc.chunked_sums(b"x", out=numpy.zeros((4, 4))[:, 1:])


def test_a_read_only_out_is_refused() -> None:
    """BufferError: bytes cannot be written to."""
    with pytest.raises(BufferError):
        hflush.crc.chunked_sums(b"x", out=bytes(4))


@pytest.mark.parametrize("not_bytes", ["text", 5, None, [1, 2]])
def test_what_is_no_buffer_is_refused(not_bytes: object) -> None:
    """TypeError, as from every function of bytes."""
    for function in (hflush.crc.crc32c, hflush.crc.crc32, hflush.crc.chunked_sums):
        with pytest.raises(TypeError, match="bytes-like"):
            function(not_bytes)


@pytest.mark.parametrize("value", [0, -1, 2**31, 2**70])
def test_bad_bytes_per_checksum_are_named(value: int) -> None:
    """ValueError with the number in it."""
    with pytest.raises(ValueError, match=rf"bytes_per_checksum .*not {value}$"):
        hflush.crc.chunked_sums(b"x", value)
    with pytest.raises(ValueError, match=rf"bytes_per_checksum .*not {value}$"):
        hflush.crc.chunked_sums(b"x", value, out=bytearray(4))


@pytest.mark.parametrize("kind", ["", "crc32c", "MD5", "NULL"])
def test_bad_kinds_are_named(kind: str) -> None:
    """ValueError with the word in it."""
    with pytest.raises(ValueError, match=f"kind .*not '{kind}'$"):
        hflush.crc.chunked_sums(b"x", 512, kind)
    with pytest.raises(ValueError, match=f"kind .*not '{kind}'$"):
        hflush.crc.combine(0, 0, 0, kind)


@pytest.mark.parametrize("value", [-1, 2**32, 2**64])
def test_sums_out_of_range_are_named(value: int) -> None:
    """ValueError, where zlib would cut bits off in silence."""
    with pytest.raises(ValueError, match=rf"value .*not {value}$"):
        hflush.crc.crc32c(b"x", value)
    with pytest.raises(ValueError, match=rf"a must .*not {value}$"):
        hflush.crc.combine(value, 0, 0)
    with pytest.raises(ValueError, match=rf"b must .*not {value}$"):
        hflush.crc.combine(0, value, 0)
    with pytest.raises(ValueError, match=r"length_b .*not -1$"):
        hflush.crc.combine(0, 0, -1)


def test_numbers_are_integers() -> None:
    """TypeError for what has no __index__; numpy's integers have one."""
    with pytest.raises(TypeError):
        hflush.crc.crc32c(b"x", 1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        hflush.crc.chunked_sums(b"x", 512.0)  # type: ignore[arg-type]
    assert hflush.crc.crc32c(b"9", numpy.uint32(0)) == google_crc32c.value(b"9")


def test_an_out_too_small_is_refused_and_left_alone() -> None:
    """ValueError with both sizes, before anything is written."""
    out = bytearray(7)
    with pytest.raises(ValueError, match="out has 7 bytes, but 2 sums take 8"):
        hflush.crc.chunked_sums(bytes(513), out=out)
    assert out == bytes(7)


def test_the_active_kernel_is_the_first() -> None:
    """kernels() is in order of speed and ends with the one that runs everywhere."""
    assert hflush.crc.kernel() == hflush.crc.kernels()[0]
    assert hflush.crc.kernels()[-1] == "portable"


@pytest.mark.parametrize("kernel", hflush.crc.kernels())
@pytest.mark.parametrize("kind", KINDS)
def test_every_kernel_agrees(kernel: str, kind: str) -> None:
    """Each kernel that this processor can run, by name, gives the other library's sum."""
    for size in (0, 1, 100, 512, 5000, 200_000):
        data = DATA[:size]
        assert _core.crc_with_kernel(kernel, kind, data) == KINDS[kind](data)


def test_an_unknown_kernel_is_named() -> None:
    """ValueError with the word in it."""
    with pytest.raises(ValueError, match=r"kernel .*not 'abacus'"):
        _core.crc_with_kernel("abacus", "CRC32C", b"x")


def test_threads_sum_one_buffer_together() -> None:
    """The functions are thread-safe, with the GIL and without it."""
    expected = google_crc32c.value(DATA), expected_sums(DATA, 512, "CRC32C")
    answers: list[tuple[int, bytes]] = []

    def work() -> None:
        for _ in range(20):
            answers.append((hflush.crc.crc32c(DATA), hflush.crc.chunked_sums(DATA)))  # noqa: PERF401

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [expected] * 160
