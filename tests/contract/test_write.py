"""WRITE: what write and write_byte promise."""

from __future__ import annotations

import array
import contextlib
import errno
import io
import mmap
import os
import random
import threading
from collections.abc import Callable
from typing import Any

import hflush
import pytest
from faults.shim.control import Faults
from support.data import dataset
from support.documentation import docstring
from support.interrupts import waits_in_kernel
from support.process import resident_bytes
from support.stores import FILES, Store
from support.waiting import Task, wait_until

Stream = hflush.FSDataOutputStream

MIB = 1 << 20
BOUNDARY_SIZES = (1, 511, 512, 513, 4607, 4608, 4609, 65535, 65536, 65537, MIB - 1, MIB, MIB + 1)
WRITE_FORMS: dict[str, Callable[[Stream], object]] = {
    "write": lambda out: out.write(b"x"),
    "write nothing": lambda out: out.write(b""),
    "write a part": lambda out: out.write(b"abc", 1, 1),
    "write_byte": lambda out: out.write_byte(120),
    "writelines": lambda out: out.writelines([b"x"]),
}


def numpy_array() -> Any:
    return pytest.importorskip("numpy").arange(1000, dtype="<f8")


def memory_map() -> mmap.mmap:
    mapped = mmap.mmap(-1, 8192)
    mapped.write(dataset(8192))
    return mapped


BYTES_LIKE: dict[str, Callable[[], Any]] = {
    "bytes": lambda: dataset(1000),
    "bytearray": lambda: bytearray(dataset(1000)),
    "memoryview": lambda: memoryview(dataset(1000))[3:900],
    "memoryview of words": lambda: memoryview(dataset(1024)).cast("I"),
    "two dimensions": lambda: memoryview(dataset(1024)).cast("B", (32, 32)),
    "mmap": memory_map,
    "array": lambda: array.array("i", range(1000)),
    "numpy": numpy_array,
}


@pytest.mark.rule("WRITE-1")
def test_write_byte_appends_the_low_eight_bits(store: Store, path: str, out: Stream) -> None:
    """WRITE-1: the single-byte write appends one byte, the low 8 bits of its argument."""
    for value in (0x141, -1, 256, 255, 0):
        out.write_byte(value)
    out.close()
    assert store.read(path) == bytes.fromhex("41ff00ff00")


@pytest.mark.rule("WRITE-2")
@pytest.mark.parametrize("size", [200, *BOUNDARY_SIZES])
def test_write_appends_the_slice_asked_for(store: Store, path: str, out: Stream, size: int) -> None:
    """WRITE-2: write(buf, off, len) appends buf[off:off+len], in order, exactly once."""
    data = dataset(size + 300)
    assert out.write(data, 100, size) == size
    assert out.write(data, 0, 7) == 7
    out.close()
    assert store.read(path) == data[100 : 100 + size] + data[:7]


@pytest.mark.rule("WRITE-3")
def test_write_accepts_the_whole_buffer(store: Store, path: str, out: Stream) -> None:
    """WRITE-3: write(buf) is write(buf, 0, len(buf)), accepts everything and returns how much."""
    data = dataset(300_000)
    other = store.path("other")
    assert out.write(data) == 300_000
    out.close()
    with store.fs.create(other) as second:
        assert second.write(data, 0, len(data)) == 300_000
    assert store.read(path) == store.read(other) == data


@pytest.mark.rule("WRITE-4")
@pytest.mark.parametrize("wrong", [None, "x", 3.5, ["x"], object()])
def test_write_of_no_buffer_is_a_type_error(
    store: Store, path: str, out: Stream, wrong: Any
) -> None:
    """WRITE-4: None and str are TypeErrors; nothing is appended and the stream stays open."""
    with pytest.raises(TypeError):
        out.write(wrong)
    assert out.get_pos() == 0
    out.write(b"ok")
    out.close()
    assert store.read(path) == b"ok"


@pytest.mark.rule("WRITE-5")
@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (0, -1), (-1, -1), (-(2**62), 2**62)])
def test_negative_offset_or_length_is_an_index_error(
    store: Store, path: str, out: Stream, offset: int, length: int
) -> None:
    """WRITE-5: a negative offset or length is an IndexError; nothing is appended."""
    with pytest.raises(IndexError):
        out.write(b"abc", offset, length)
    out.write(b"")
    out.close()
    assert store.read(path) == b""


@pytest.mark.rule("WRITE-6")
@pytest.mark.parametrize(
    ("offset", "length"),
    [
        (2, 2),
        (4, 0),
        (0, 4),
        (2**62, 2**62),
        (2**63 - 1, 1),
        (1, 2**63 - 1),
        (2**64, 1),
        (1, 2**64),
    ],
)
def test_range_beyond_the_buffer_is_an_index_error(
    store: Store, path: str, out: Stream, offset: int, length: int
) -> None:
    """WRITE-6: off + len > size is an IndexError, without integer overflow; nothing is appended."""
    with pytest.raises(IndexError):
        out.write(b"abc", offset, length)
    out.close()
    assert store.read(path) == b""


@pytest.mark.rule("WRITE-7")
def test_range_may_end_at_the_end_of_the_buffer(store: Store, path: str, out: Stream) -> None:
    """WRITE-7: off + len == size is legal, and so is off == size with len == 0."""
    assert out.write(b"abc", 0, 3) == 3
    assert out.write(b"abc", 3, 0) == 0
    assert out.write(b"", 0, 0) == 0
    assert out.write(b"abc", 2) == 1
    out.close()
    assert store.read(path) == b"abcc"


@pytest.mark.rule("WRITE-8")
@pytest.mark.shim
def test_write_of_nothing_does_nothing(store: Store, faults: Faults, path: str) -> None:
    """WRITE-8: a zero-length write moves no position and asks nothing of the store."""
    out = store.fs.create(path)
    out.write(b"abc")
    before = faults.position
    assert [out.write(b""), out.write(b"abc", 1, 0), out.write(bytearray())] == [0, 0, 0]
    assert out.get_pos() == 3
    assert faults.calls(since=before) == []
    out.close()
    with pytest.raises(hflush.StreamClosedError):
        out.write(b"")


@pytest.mark.rule("WRITE-9")
@pytest.mark.parametrize("size", [5, 600, 70 << 10, 9 << 20])
def test_caller_may_reuse_its_buffer(store: Store, path: str, out: Stream, size: int) -> None:
    """WRITE-9: once write has returned, changing the buffer does not change the stream."""
    original = dataset(size, 1, 250)
    buffer = bytearray(original)
    out.write(buffer)
    buffer[:] = bytes(size)
    buffer.clear()
    out.close()
    assert store.read(path) == original


@pytest.mark.rule("WRITE-10")
def test_mutation_during_write_is_memory_safe(store: Store, path: str, out: Stream) -> None:
    """WRITE-10: a buffer mutated during write gives undefined content of exactly `len` bytes."""
    buffer = bytearray(64 * MIB)
    done = threading.Event()

    def mutate() -> int:
        rounds = 0
        while not done.is_set():
            buffer[rounds * 4097 % len(buffer)] = rounds % 256
            rounds += 1
        return rounds

    mutator = Task(mutate)
    assert out.write(buffer) == len(buffer)
    done.set()
    assert mutator.result() > 0
    out.close()
    assert store.fs.get_file_status(path).length == len(buffer)


@pytest.mark.rule("WRITE-10", "WRITE-22")
@pytest.mark.shim
def test_buffer_cannot_be_resized_during_write(store: Store, faults: Faults, path: str) -> None:
    """WRITE-10: while a write waits for the store, resizing its buffer is a BufferError."""
    buffer = bytearray(64 * MIB)
    out = store.fs.create(path)
    with faults.gate("write") as gate:
        writing = Task(out.write, buffer)
        gate.wait_for(1)
        with pytest.raises(BufferError):
            buffer.append(1)
        assert writing.is_alive()
    assert writing.result() == 64 * MIB
    buffer.append(1)
    out.close()
    assert store.fs.get_file_status(path).length == 64 * MIB


@pytest.mark.rule("WRITE-11")
@pytest.mark.parametrize("kind", BYTES_LIKE)
def test_every_contiguous_buffer_is_accepted(
    store: Store, path: str, out: Stream, kind: str
) -> None:
    """WRITE-11: any C-contiguous bytes-like object is written as the bytes it holds."""
    buffer = BYTES_LIKE[kind]()
    expected = bytes(memoryview(buffer).cast("B"))
    assert out.write(buffer) == len(expected)
    assert out.write(buffer, 8, 16) == 16
    out.close()
    assert store.read(path) == expected + expected[8:24]


@pytest.mark.rule("WRITE-11")
def test_non_contiguous_buffer_is_refused(store: Store, path: str, out: Stream) -> None:
    """WRITE-11: a view with gaps is refused before anything is appended; so is an int."""
    for view in (memoryview(b"abcdef")[::2], memoryview(b"abcdef")[::-1]):
        with pytest.raises((BufferError, ValueError)):
            out.write(view)
    for wrong in (65, True):
        with pytest.raises(TypeError):
            out.write(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        out.write_byte(b"x")  # type: ignore[arg-type]
    assert out.get_pos() == 0
    out.close()
    assert store.read(path) == b""


def assert_closed_error(error: OSError, path: str, *states: str) -> None:
    assert isinstance(error, hflush.StreamClosedError)
    assert isinstance(error, ValueError)
    assert not isinstance(error, io.UnsupportedOperation)
    assert error.errno == errno.EBADF
    assert error.filename == path
    assert path in str(error)
    assert any(state in str(error) for state in states), str(error)


@pytest.mark.rule("WRITE-12", "WRITE-13")
@pytest.mark.parametrize("form", WRITE_FORMS)
def test_write_after_close_names_path_and_state(
    store: Store, path: str, out: Stream, form: str
) -> None:
    """WRITE-12, 13: every write on a closed stream is a StreamClosedError that says so."""
    out.write(b"kept")
    out.close()
    with pytest.raises(OSError, match="closed") as caught:
        WRITE_FORMS[form](out)
    assert_closed_error(caught.value, store.filename(path), "closed")
    assert store.read(path) == b"kept"


@pytest.mark.rule("WRITE-12", "WRITE-13")
@pytest.mark.parametrize("form", WRITE_FORMS)
def test_write_to_a_failed_stream_is_refused(store: Store, failed: Stream, form: str) -> None:
    """WRITE-12: a failed stream accepts no byte, before its close and after."""
    for close in (lambda: None, failed.close):
        with contextlib.suppress(OSError):
            close()
        with pytest.raises(hflush.StreamClosedError) as caught:
            WRITE_FORMS[form](failed)
        assert_closed_error(caught.value, store.filename(store.path("broken")), "failed")


@pytest.mark.rule("WRITE-12")
@pytest.mark.shim
@pytest.mark.parametrize("form", WRITE_FORMS)
def test_write_during_close_is_refused(store: Store, faults: Faults, path: str, form: str) -> None:
    """WRITE-12: while close is under way, every form of write is refused."""
    out = store.fs.create(path)
    out.write(b"kept")
    with faults.gate("write") as gate:
        closing = Task(out.close)
        gate.wait_for(1)
        with pytest.raises(hflush.StreamClosedError):
            WRITE_FORMS[form](out)
    closing.result()
    assert store.read(path) == b"kept"


@pytest.mark.rule("WRITE-14")
def test_limit_of_the_destination_is_reported(store: Store, path: str) -> None:
    """WRITE-14: where the destination takes no more, a call fails: no bytes drop in silence."""
    data = dataset(4 * MIB, 1, 250)
    out = store.fs.create(path)

    def use() -> None:
        with out:
            out.write(data)

    with store.full(MIB), pytest.raises(OSError, match=store.full_text) as caught:
        use()
    assert caught.value.errno == store.full_errno
    assert caught.value.filename == store.filename(path)
    assert data.startswith(store.visible(path))


@pytest.mark.rule("WRITE-15", "FLUSH-6")
@pytest.mark.stores(*FILES)
def test_only_a_prefix_is_ever_visible(store: Store, path: str, out: Stream) -> None:
    """WRITE-15: at every moment a reader sees a prefix of what was written."""
    chance = random.Random(7)
    unverified = store.new_client()
    if store.options["checksum-verified-on-read"]:  # sums are written later than their bytes
        unverified.set_verify_checksum(False)
    syncs = [out.flush, out.hflush, out.hsync] if out.has_capability("hsync") else [out.flush]
    written = b""
    lengths = []
    for _ in range(200):
        piece = chance.randbytes(chance.choice((1, 100, 511, 512, 513, 5000, 70_000)))
        out.write(piece)
        written += piece
        if chance.random() < 0.3:
            chance.choice(syncs)()
        with unverified.open(path) as reader:
            visible = reader.read()
        assert written.startswith(visible)
        lengths.append(len(visible))
    assert lengths == sorted(lengths)
    out.close()
    assert store.read(path) == written


@pytest.mark.rule("WRITE-16")
def test_write_alone_promises_no_visibility(store: Store, path: str, out: Stream) -> None:
    """WRITE-16: bytes are sent at once or later: what is there is a prefix, and the docs say so."""
    assert "No visibility and no durability is promised" in docstring(Stream)
    data = dataset(5 * MIB // 2, 1, 250)
    out.write(data)
    assert data.startswith(store.visible(path))
    out.close()
    assert store.read(path) == data


@pytest.mark.rule("WRITE-17")
def test_content_is_opaque(store: Store, path: str) -> None:
    """WRITE-17: all byte values survive, for this client and for another."""
    data = bytes(range(256)) * 300 + b"\r\n\n\r\0"
    store.write(path, data)
    assert store.read(path) == data
    assert store.second_client().run("read(path)", path=path) == data


@pytest.mark.rule("WRITE-18", "WRITE-19")
@pytest.mark.stores("raw")
def test_offsets_have_64_bits_in_append(store: Store, path: str) -> None:
    """WRITE-18: positions and lengths cross 2**32 without loss."""
    start = 2**32 - 3
    store.write(path)
    os.truncate(path, start)
    with store.fs.append(path) as out:
        assert out.tell() == start
        out.write(b"abcdef")
        out.hsync()
        assert out.tell() == out.get_pos() == start + 6
    assert store.fs.get_file_status(path).length == start + 6
    with store.fs.open(path) as reader:
        assert reader.pread(start - 1, 10) == b"\0abcdef"


@pytest.mark.rule("WRITE-18")
@pytest.mark.stores("crc")
def test_more_than_4_gib_can_be_written(store: Store, path: str, out: Stream) -> None:
    """WRITE-18: a stream of more than 2**32 bytes is whole, and readable beyond that offset."""
    libc_punch(path)  # the disk need not hold it
    piece = dataset(64 * MIB, 1, 252)
    for _ in range(64):
        out.write(piece)
        out.flush()
        libc_punch(path)
    out.write(b"tail")
    out.close()
    assert out.tell() == 2**32 + 4
    assert store.fs.get_file_status(path).length == 2**32 + 4
    assert out.io_statistics().counters["stream_write_bytes"] == 2**32 + 4
    with store.fs.open(path) as reader:
        assert reader.pread(2**32, 10) == b"tail"


def libc_punch(path: str) -> None:
    """Give the blocks of the file back to the disk, up to the last few, which stay readable."""
    import ctypes

    keep_size_and_punch_hole = 0x01 | 0x02
    length = os.path.getsize(path) - (1 << 16)
    if length <= 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    descriptor = os.open(path, os.O_RDWR)
    try:
        assert libc.fallocate(descriptor, keep_size_and_punch_hole, 0, length) == 0
    finally:
        os.close(descriptor)


@pytest.mark.rule("WRITE-19")
def test_tell_counts_accepted_bytes(store: Store, path: str, out: Stream) -> None:
    """WRITE-19: tell is 0 after create, grows by what was accepted, and outlives close."""
    assert out.tell() == out.get_pos() == 0
    out.write(dataset(1000))
    assert out.tell() == 1000
    out.write(b"abc", 1, 1)
    out.write_byte(1)
    assert out.tell() == 1002
    out.flush()
    out.close()
    assert out.tell() == out.get_pos() == 1002


@pytest.mark.rule("WRITE-19")
@pytest.mark.stores("raw", "hdfs")
def test_tell_starts_at_the_length_in_append(store: Store, path: str) -> None:
    """WRITE-19: after append, tell is the length the file had."""
    store.write(path, b"ab")
    with store.fs.append(path) as out:
        assert out.tell() == 2
        out.write(b"c")
        assert out.tell() == 3
    assert out.tell() == 3


@pytest.mark.rule("WRITE-21")
def test_written_bytes_cannot_be_changed(store: Store, path: str, out: Stream) -> None:
    """WRITE-21: an output stream does not seek, truncate or read."""
    out.write(b"abc")
    assert (out.seekable(), out.writable(), out.readable()) == (False, True, False)
    for attempt in (
        lambda: out.seek(0),
        lambda: out.truncate(0),
        lambda: out.truncate(),
        lambda: out.read(1),
    ):
        with pytest.raises(io.UnsupportedOperation):
            attempt()
    out.close()
    assert store.read(path) == b"abc"


@pytest.mark.rule("WRITE-22")
@pytest.mark.shim
def test_back_pressure_bounds_what_is_held(store: Store, faults: Faults, path: str) -> None:
    """WRITE-22: where the store takes nothing, write blocks, and memory stays within the window."""
    window = 5 * MIB  # docs/semantics.md
    other = 8 * MIB  # a thread's stack and heap, and what else this process touches meanwhile
    total = 192
    piece = bytes(MIB)
    accepted = []
    out = store.fs.create(path)

    def write_all() -> None:
        for number in range(total):
            out.write(piece)
            accepted.append(number)

    with faults.gate("write") as gate:
        before = resident_bytes()
        writing = Task(write_all)
        gate.wait_for(1)
        thread = writing.native_id
        assert thread is not None
        wait_until(lambda: waits_in_kernel(thread), "the writer waits in the kernel")
        assert writing.is_alive()
        assert len(accepted) * MIB <= window
        assert resident_bytes() - before <= window + other
    writing.result()
    out.close()
    assert resident_bytes() - before <= window + other
    assert store.fs.get_file_status(path).length == total * MIB
