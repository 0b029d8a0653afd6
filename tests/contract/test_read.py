"""READ: opening and reading."""

from __future__ import annotations

import contextlib
import io
import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import hflush
import pytest
from support.data import dataset
from support.stores import FILES, Store
from support.waiting import DEADLINE_S, Task

BLOCK = dataset(80 * 1024, 0, 255)


@pytest.fixture
def file(store: Store, path: str) -> str:
    """A file of 80 KiB, cycling from 0 to 254."""
    return store.write(path, BLOCK)


@pytest.fixture
def reader(store: Store, file: str) -> Iterator[hflush.FSDataInputStream]:
    """A new reader of that file."""
    with store.fs.open(file) as stream:
        yield stream


@pytest.fixture
def empty(store: Store) -> Iterator[hflush.FSDataInputStream]:
    """A new reader of a zero-byte file."""
    with store.fs.open(store.write(store.path("empty"))) as stream:
        yield stream


@pytest.mark.rule("READ-1")
def test_open_checks_existence(store: Store, path: str):
    """A missing file is FileNotFoundError from open itself, not from a later read."""
    with pytest.raises(FileNotFoundError) as refusal:
        store.fs.open(path)
    assert refusal.value.filename == store.filename(path)


@pytest.mark.rule("READ-2")
@pytest.mark.parametrize("children", [[], ["child"]], ids=["empty", "non-empty"])
def test_a_directory_cannot_be_opened(store: Store, path: str, children: list[str]):
    """testOpenReadDir: NotAFileError, which is IsADirectoryError and FileNotFoundError."""
    store.fs.mkdirs(path)
    for child in children:
        store.write(f"{path}/{child}")
    with pytest.raises(hflush.NotAFileError) as refusal:
        store.fs.open(path)
    assert isinstance(refusal.value, IsADirectoryError)
    assert isinstance(refusal.value, FileNotFoundError)


class TestEmptyFile:
    """The zero-byte tests of AbstractContractOpenTest and AbstractContractSeekTest."""

    @pytest.mark.rule("READ-3", "READ-9")
    def test_every_read_is_eof(self, empty: hflush.FSDataInputStream):
        """Position 0, EOF from every form of read, and seek(0) works."""
        assert empty.tell() == 0
        assert empty.read(1) == b""
        assert empty.seek(0) == 0
        assert empty.read() == b""
        assert empty.readinto(bytearray(10)) == 0
        assert empty.read1(10) == b""
        assert empty.tell() == 0

    @pytest.mark.rule("READ-10")
    def test_positioned_reads(self, empty: hflush.FSDataInputStream):
        """Reading nothing fully works; reading one byte fully is EOFError; pread is EOF."""
        assert empty.read_fully(0, 0) == b""
        assert empty.pread(0, 10) == b""
        with pytest.raises(EOFError) as failure:
            empty.read_fully(0, 1)
        assert isinstance(failure.value, OSError)


class TestSequentialReads:
    """AbstractContractOpenTest: sequential reads and EOF."""

    @pytest.mark.rule("READ-4")
    def test_bytes_in_order_then_eof_repeatedly(self, store: Store, path: str):
        """Four bytes one by one, then EOF twice."""
        store.write(path, b"0123")
        with store.fs.open(path) as reader:
            assert [reader.read(1) for _ in range(6)] == [b"0", b"1", b"2", b"3", b"", b""]

    @pytest.mark.rule("READ-4")
    def test_random_read_sizes(self, reader: hflush.FSDataInputStream):
        """Every read of length > 0 gives at least one byte until EOF, and all bytes in order."""
        sizes = random.Random(4)
        content = b""
        while len(content) < len(BLOCK):
            part = reader.read1(sizes.choice((1, 2, 511, 512, 513, 5000, 70000)))
            assert len(part) >= 1
            content += part
        assert content == BLOCK
        assert reader.read(1) == b""

    @pytest.mark.rule("READ-4")
    def test_single_and_multi_byte_reads_are_equal(self, store: Store, file: str):
        """Mixing styles gives the same bytes, and the same EOF."""
        with store.fs.open(file) as singles, store.fs.open(file) as mixed:
            for size in (1, 7, 1, 512, 1, 1000):
                expected = b"".join(singles.read(1) for _ in range(size))
                buffer = bytearray(size)
                assert mixed.readinto(buffer) == size
                assert buffer == expected
            singles.seek(len(BLOCK) - 1)
            mixed.seek(len(BLOCK) - 1)
            assert (singles.read(1), singles.read(1)) == (BLOCK[-1:], b"")
            assert (mixed.read(100), mixed.read(100)) == (BLOCK[-1:], b"")

    @pytest.mark.rule("READ-4")
    def test_zero_length_reads(self, reader: hflush.FSDataInputStream):
        """A read of length 0 gives nothing and does not move, at EOF neither."""
        assert reader.read(0) == b""
        assert reader.readinto(bytearray()) == 0
        reader.seek(len(BLOCK))
        assert reader.read(0) == b""

    @pytest.mark.rule("READ-4")
    @pytest.mark.parametrize("buffer_size", [1, 4096, 1 << 20])
    def test_open_with_a_buffer_size(self, store: Store, file: str, buffer_size: int):
        """testOpen2: the buffer size has no effect on the bytes."""
        with store.fs.open(file, buffer_size=buffer_size) as reader:
            assert reader.read() == BLOCK

    @pytest.mark.rule("READ-4")
    def test_lines(self, store: Store, path: str):
        """readline and iteration split at newlines and keep them."""
        store.write(path, b"one\n\nthree" * 300)
        with store.fs.open(path) as reader:
            assert reader.readline() == b"one\n"
            assert reader.readline() == b"\n"
            assert b"".join(reader) == (b"one\n\nthree" * 300)[5:]


@pytest.mark.rule("READ-5")
def test_two_readers_are_independent(store: Store, file: str):
    """testOpenFileTwice: own positions, and closing one twice does not affect the other."""
    first, second = store.fs.open(file), store.fs.open(file)
    assert first.read(10) == BLOCK[:10]
    assert second.read(5) == BLOCK[:5]
    first.close()
    first.close()
    assert second.read(5) == BLOCK[5:10]
    second.close()


@pytest.mark.rule("READ-6")
def test_a_closed_reader(store: Store, file: str):
    """Reads raise StreamClosedError, seek does as declared, close is idempotent."""
    reader = store.fs.open(file)
    reader.close()
    reader.close()
    reads: list[Callable[[], object]] = [
        lambda: reader.read(1),
        lambda: reader.read(),
        lambda: reader.read1(1),
        lambda: reader.readinto(bytearray(1)),
        lambda: reader.readline(),
        lambda: reader.pread(0, 1),
        lambda: reader.read_fully(0, 1),
    ]
    for read in reads:
        with pytest.raises(hflush.StreamClosedError) as refusal:
            read()
        assert refusal.value.filename == store.filename(file)
    if store.options["supports-seek-on-closed-file"]:
        reader.seek(0)
    else:
        with pytest.raises(hflush.StreamClosedError):
            reader.seek(0)
    assert reader.closed


@pytest.mark.rule("READ-7")
def test_a_negative_seek_is_refused(reader: hflush.FSDataInputStream):
    """SeekError, which is also what io and Hadoop expect; the position stays."""
    for position, whence in ((-1, os.SEEK_SET), (-1, os.SEEK_CUR), (-len(BLOCK) - 1, os.SEEK_END)):
        with pytest.raises(hflush.SeekError) as refusal:
            reader.seek(position, whence)
        assert isinstance(refusal.value, (OSError, ValueError, EOFError))
        assert reader.tell() == 0
    assert reader.read(4) == BLOCK[:4]


class TestSeekPastTheEnd:
    """testSeekPastEndOfFileThenReseekAndRead."""

    @pytest.mark.rule("READ-8", divergence="raw")
    @pytest.mark.stores("raw")
    def test_accepted(self, store: Store, reader: hflush.FSDataInputStream):
        """As declared, raw files allow it: reads give EOF, and a valid seek works afterwards."""
        assert store.options["rejects-seek-past-eof"] is False
        assert reader.seek(len(BLOCK) + 1) == len(BLOCK) + 1
        assert reader.read(1) == b""
        assert reader.seek(1) == 1
        assert reader.read(1) == BLOCK[1:2]

    @pytest.mark.rule("READ-8")
    @pytest.mark.stores("crc", "hdfs", "s3")
    def test_rejected(self, store: Store, reader: hflush.FSDataInputStream):
        """As declared, others refuse it: the position stays, a valid seek works."""
        assert store.options["rejects-seek-past-eof"] is True
        reader.seek(7)
        with pytest.raises(hflush.SeekError):
            reader.seek(len(BLOCK) + 1)
        assert reader.tell() == 7
        assert reader.seek(1) == 1
        assert reader.read(1) == BLOCK[1:2]

    @pytest.mark.rule("READ-9")
    def test_the_end_itself(self, reader: hflush.FSDataInputStream):
        """testSeekAndReadPastEndOfFile: the last bytes, then EOF; the end itself can be sought."""
        reader.seek(len(BLOCK) - 2)
        assert [reader.read(1) for _ in range(3)] == [BLOCK[-2:-1], BLOCK[-1:], b""]
        assert reader.seek(0, os.SEEK_END) == len(BLOCK)
        assert reader.read(1) == b""


class TestSeek:
    """testSeekFile, testSeekBigFile, testRandomSeeks, testBufferedFSInputStream."""

    @pytest.mark.rule("READ-9")
    def test_seek_and_position(self, reader: hflush.FSDataInputStream):
        """seek(0) and a seek to where one is are no-ops; the position follows the reads."""
        assert reader.seek(0) == 0
        assert reader.read(1) == BLOCK[:1]
        assert reader.seek(1) == reader.tell() == 1
        assert reader.seek(128) == 128
        assert reader.read(1) == BLOCK[128:129]
        assert reader.tell() == 129
        assert reader.seek(63) == 63
        assert reader.read(1) == BLOCK[63:64]
        assert reader.seek(-1, os.SEEK_CUR) == 63
        assert reader.seek(-1, os.SEEK_END) == len(BLOCK) - 1

    @pytest.mark.rule("READ-9")
    @pytest.mark.parametrize("buffer_size", [None, 4096])
    def test_random_seeks(self, store: Store, file: str, buffer_size: int | None):
        """Random seeks, forward and backward, give exact bytes, with buffering too."""
        randomly = random.Random(9)
        with store.fs.open(file, buffer_size=buffer_size) as reader:
            for _ in range(store.options["test.random-seek-count"]):
                position = randomly.randrange(len(BLOCK))
                length = randomly.choice((1, 10, 512, 5000))
                reader.seek(position)
                assert reader.read(length) == BLOCK[position : position + length]


class TestPositionedReads:
    """The read_fully and read tests of AbstractContractSeekTest."""

    @pytest.mark.rule("READ-10")
    @pytest.mark.parametrize("position", [0, 1, 511, 512, 79 * 1024])
    @pytest.mark.parametrize("length", [0, 1, 512, 1000])
    def test_the_position_stays(self, reader: hflush.FSDataInputStream, position: int, length: int):
        """pread and read_fully give the range and leave the position of the stream."""
        reader.seek(300)
        expected = BLOCK[position : position + length]
        assert reader.pread(position, length) == expected
        assert reader.read_fully(position, length) == expected
        assert reader.tell() == 300
        assert reader.read(4) == BLOCK[300:304]

    @pytest.mark.rule("READ-10", "READ-4")
    def test_at_and_past_the_end(self, reader: hflush.FSDataInputStream):
        """pread gives what is there, then EOF; read_fully is EOFError, but for zero bytes."""
        end = len(BLOCK)
        assert reader.pread(end - 2, 10) == BLOCK[-2:]
        assert reader.pread(end, 10) == reader.pread(end + 10, 10) == b""
        for position, length in ((end - 2, 3), (end, 1), (end + 1, 1), (0, end + 1)):
            with pytest.raises(EOFError):
                reader.read_fully(position, length)
        assert reader.read_fully(end, 0) == b""
        assert reader.tell() == 0

    @pytest.mark.rule("READ-10")
    def test_arguments_are_checked(self, reader: hflush.FSDataInputStream):
        """None is TypeError, a negative length IndexError, a negative position SeekError."""
        for read in (reader.pread, reader.read_fully):
            with pytest.raises(TypeError):
                read(None, 1)
            with pytest.raises(TypeError):
                read(0, None)
            with pytest.raises(IndexError):
                read(0, -1)
            with pytest.raises(hflush.SeekError):
                read(-1, 1)
        assert reader.tell() == 0

    @pytest.mark.rule("READ-10")
    def test_arguments_of_stream_reads_are_checked(self, reader: hflush.FSDataInputStream):
        """None is TypeError, what is outside the buffer IndexError; nothing is consumed."""
        for window in ((-1, 1), (0, -1), (0, 11), (11, 0), (5, 6), (2**62, 2**62)):
            with pytest.raises(IndexError):
                reader.readinto(bytearray(10), *window)
        with pytest.raises(TypeError):
            reader.readinto(None)
        with pytest.raises((TypeError, BufferError)):
            reader.readinto(b"read-only")
        with pytest.raises(TypeError):
            reader.read("1")
        assert reader.tell() == 0

    @pytest.mark.rule("READ-11")
    def test_concurrent_positioned_reads(self, reader: hflush.FSDataInputStream):
        """Eight threads of positioned reads and one sequential reader do not disturb each other."""

        def positioned(seed: int) -> None:
            randomly = random.Random(seed)
            for _ in range(200):
                position = randomly.randrange(len(BLOCK) - 600)
                length = randomly.randrange(1, 600)
                assert reader.pread(position, length) == BLOCK[position : position + length]

        threads = [Task(positioned, seed) for seed in range(8)]
        content = b"".join(iter(lambda: reader.read(997), b""))
        for thread in threads:
            thread.result()
        assert content == BLOCK


class TestFileBeingWritten:
    """Readers of a file that is still open for writing."""

    @pytest.mark.rule("READ-12", "CONSIST-8")
    @pytest.mark.stores("raw", "hdfs")
    def test_flushed_bytes_are_read(self, store: Store, path: str):
        """At least all hflushed bytes are returned, by this client and others."""
        with store.fs.create(path) as out:
            for turn in range(1, 4):
                out.write(dataset(1300))
                out.hflush()
                assert store.read(path) == dataset(1300) * turn
                assert store.second_client().run("read(path)", path=path) == dataset(1300) * turn

    @pytest.mark.rule("READ-12", divergence="crc")
    @pytest.mark.rule("STATUS-14")
    @pytest.mark.stores("crc")
    def test_a_prefix_or_a_checksum_error(self, store: Store, path: str):
        """As declared, the data may not verify yet; wrong or extra bytes are never returned.

        What was flushed is not all there: the chunk that is not whole yet stays behind.
        """
        data = dataset(100_000)
        assert "may fail verification" in store.options["partial-data-on-crash"]
        with store.fs.create(path) as out:
            for start in range(0, len(data), 1300):
                out.write(data[start : start + 1300])
                out.flush()
                with contextlib.suppress(hflush.ChecksumError):
                    found = store.read(path)
                    assert data.startswith(found)
                    assert len(found) < out.tell()
        assert store.read(path) == data

    @pytest.mark.rule("READ-14")
    def test_an_early_reader(self, store: Store, path: str):
        """A reader from before a change sees old or new bytes, never others, and never fails."""
        store.write(path, b"old" * 1000)
        with store.fs.open(path) as reader:
            assert reader.read(3) == b"old"
            target = store.write(store.path("new"), b"new" * 1000)
            store.fs.rename(target, path, hflush.Rename.OVERWRITE)
            reader.seek(0)
            assert reader.read() in (b"old" * 1000, b"new" * 1000)
        assert store.read(path) == b"new" * 1000


@pytest.mark.rule("READ-13", "STATUS-4")
@pytest.mark.parametrize("length", [0, 1, 511, 512, 513, 100_000])
def test_the_stream_is_as_long_as_the_status_says(store: Store, path: str, length: int):
    """Status, seek to the end and the bytes agree on the length of a closed file."""
    store.write(path, dataset(length))
    with store.fs.open(path) as reader:
        assert reader.seek(0, os.SEEK_END) == length
        assert len(reader.pread(0, length + 1)) == length
    assert store.fs.get_file_status(path).length == length


@pytest.mark.rule("READ-15", "CONSIST-6")
def test_every_client_reads_the_same(store: Store, file: str):
    """Another process, another instance and this one get the same bytes and metadata."""
    other, remote = store.new_client(), store.second_client()
    assert remote.run("read(path)", path=file) == store.read(file) == BLOCK
    assert other.get_file_status(file) == store.fs.get_file_status(file)
    assert remote.run("fs.get_file_status(path)", path=file) == store.fs.get_file_status(file)
    other.close()


class TestVerification:
    """Checksums on read, where they are stored."""

    @staticmethod
    def flip(path: str, position: int) -> None:
        """Change one byte of a file behind the store's back."""
        with open(path, "r+b") as file:
            file.seek(position)
            byte = file.read(1)
            file.seek(position)
            file.write(bytes([byte[0] ^ 0x10]))

    @pytest.mark.rule("READ-16")
    @pytest.mark.stores("crc")
    @pytest.mark.parametrize("position", [0, 511, 512, 1023, 40_000, len(BLOCK) - 1])
    def test_a_flipped_byte_is_found(self, store: Store, file: str, position: int):
        """ChecksumError names the path, the chunk and both sums; other chunks still read."""
        self.flip(file, position)
        with store.fs.open(file) as reader:
            with pytest.raises(hflush.ChecksumError) as failure:
                reader.read()
            assert failure.value.filename == failure.value.path == store.filename(file)
            assert failure.value.position == position - position % 512
            assert failure.value.expected != failure.value.actual
            with pytest.raises(hflush.ChecksumError):
                reader.pread(position, 1)
            elsewhere = (position + 20_000) % len(BLOCK)
            assert reader.pread(elsewhere, 1) == BLOCK[elsewhere : elsewhere + 1]

    @pytest.mark.rule("READ-16", "EXTRA-12")
    @pytest.mark.stores("crc")
    def test_verification_can_be_switched_off(self, store: Store, file: str):
        """testStreamType: without verification the raw bytes come, on this instance only."""
        self.flip(file, 5)
        other = store.new_client()
        store.fs.set_verify_checksum(False)
        assert len(store.read(file)) == len(BLOCK)
        with other.open(file) as reader, pytest.raises(hflush.ChecksumError):
            reader.read()
        store.fs.set_verify_checksum(True)
        with pytest.raises(hflush.ChecksumError):
            store.read(file)
        other.close()


class TestDetectingGrowth:
    """Reopen, seek to the last position, read: the one algorithm that finds new data."""

    @staticmethod
    def growth(store: Store, path: str, position: int) -> bytes:
        with store.fs.open(path) as reader:
            reader.seek(position)
            return reader.read()

    @pytest.mark.rule("READ-18")
    @pytest.mark.stores("raw", "hdfs")
    def test_of_a_file_being_written(self, store: Store, path: str):
        """Every hflush is found, whatever the metadata says."""
        with store.fs.create(path) as out:
            for turn in range(5):
                data = dataset(10, turn)
                out.write(data)
                out.hflush()
                assert self.growth(store, path, 10 * turn) == data

    @pytest.mark.rule("READ-18", on=FILES)
    def test_of_a_file_written_anew(self, store: Store, path: str):
        """A longer version with the same beginning is found by the same algorithm."""
        for length in (10, 700, 701, 5000):
            before = store.fs.get_file_status(path).length if store.fs.exists(path) else 0
            store.write(path, BLOCK[:length])
            assert self.growth(store, path, before) == BLOCK[before:length]


class TestOpenFileBuilder:
    """The open_file tests of AbstractContractOpenTest."""

    @pytest.mark.rule("READ-19")
    def test_the_result_equals_open(self, store: Store, file: str):
        """A future of a reader like that of open."""
        with store.fs.open_file(file).build().result() as reader, store.fs.open(file) as twin:
            assert type(reader) is type(twin)
            assert reader.read() == twin.read() == BLOCK

    @pytest.mark.rule("READ-19", "READ-3")
    def test_an_empty_file_with_hints(self, store: Store, path: str):
        """testOpenFileReadZeroByte: unknown optional keys are ignored, length -1 means unknown."""
        store.write(path)
        builder = store.fs.open_file(path)
        builder.opt("fs.test.something", True).opt("fs.test.something2", 3)
        builder.opt("fs.option.openfile.length", -1)
        with builder.build().result() as reader:
            assert reader.read() == b""

    @pytest.mark.rule("READ-19", "BUILDER-5")
    @pytest.mark.parametrize("value", [True, 2**40, 1.5, "x"], ids=repr)
    def test_an_unknown_mandatory_option(self, store: Store, file: str, value: object):
        """testOpenFileUnknownOption: ValueError from build, naming the key."""
        with pytest.raises(ValueError, match=r"fs\.test\.something"):
            store.fs.open_file(file).must("fs.test.something", value).build()

    @pytest.mark.rule("READ-19")
    def test_failures_surface_in_the_future(self, store: Store, path: str):
        """testOpenFileLazyFail: open_file and build raise nothing for a missing file."""
        future = store.fs.open_file(path).opt("fs.test.something", True).build()
        with pytest.raises(FileNotFoundError):
            future.result()
        assert isinstance(future.exception(timeout=DEADLINE_S), FileNotFoundError)

    @pytest.mark.rule("READ-19")
    def test_a_failure_with_a_timeout(self, store: Store, path: str):
        """testAwaitFutureTimeoutFailToFNFE: waiting with a timeout unwraps to not-found."""
        with pytest.raises(FileNotFoundError):
            store.fs.open_file(path).build().result(timeout=DEADLINE_S)

    @pytest.mark.rule("READ-19")
    def test_a_callback_runs(self, store: Store, file: str):
        """testOpenFileApplyAsyncRead: what is chained to the future gets the reader."""
        future = store.fs.open_file(file).build()
        seen: list[bytes] = []
        future.add_done_callback(lambda done: seen.append(done.result().read(4)))
        with future.result(timeout=DEADLINE_S) as reader:
            reader.seek(4)
            assert reader.read(4) == BLOCK[4:8]
        assert seen == [BLOCK[:4]]

    @pytest.mark.rule("READ-19")
    @pytest.mark.parametrize("length", [len(BLOCK), float(len(BLOCK)), 1e300, -1, 32])
    def test_a_length_hint(self, store: Store, file: str, length: float):
        """An int, an integral float, an absurd float and an unknown length do no harm."""
        builder = store.fs.open_file(file).must("fs.option.openfile.length", length)
        with builder.build().result() as reader:
            assert reader.read(32) == BLOCK[:32]

    @pytest.mark.rule("READ-19")
    def test_policy_and_buffer_size_hints(self, store: Store, file: str):
        """testOpenFileNullStatusButFileLength: hints are accepted, also as mandatory."""
        builder = store.fs.open_file(file)
        builder.must("fs.option.openfile.read.policy", "unknown, sequential, random")
        builder.must("fs.option.openfile.buffer.size", 32768).opt("fs.option.openfile.length", 1)
        with builder.build().result() as reader:
            assert reader.read() == BLOCK

    @pytest.mark.rule("READ-19")
    def test_a_status_is_checked_by_its_name_only(self, store: Store, file: str):
        """testOpenFileApplyRead: another scheme and parent will do, another name will not."""
        status = store.fs.get_file_status(file)
        foreign = hflush.FileStatus(
            "/elsewhere/" + status.name, kind="file", length=status.length, block_size=1
        )
        with store.fs.open_file(file).with_file_status(foreign).build().result() as reader:
            assert reader.read() == BLOCK
        with store.fs.open_file(file).with_file_status(None).build().result() as reader:
            assert reader.read() == BLOCK
        stranger = hflush.FileStatus("/elsewhere/stranger", kind="file", length=1, block_size=1)
        with pytest.raises(ValueError, match="stranger"):
            store.fs.open_file(file).with_file_status(stranger).build().result()


class TestUnbuffer:
    """AbstractContractUnbufferTest."""

    @pytest.mark.rule("READ-20")
    def test_alternating_with_reads(self, reader: hflush.FSDataInputStream):
        """Before, after and between reads, twice too: position and bytes are right."""
        reader.unbuffer()
        for start in range(0, 4096, 128):
            assert reader.tell() == start
            assert reader.read(128) == BLOCK[start : start + 128]
            reader.unbuffer()
            reader.unbuffer()

    @pytest.mark.rule("READ-20")
    def test_on_an_empty_file(self, empty: hflush.FSDataInputStream):
        """Nothing happens, and EOF stays EOF."""
        empty.unbuffer()
        assert empty.read(1) == b""
        empty.unbuffer()
        assert empty.tell() == 0

    @pytest.mark.rule("READ-20")
    def test_on_a_closed_stream(self, store: Store, file: str):
        """A no-op."""
        reader = store.fs.open(file)
        reader.close()
        reader.unbuffer()
        assert reader.closed


Ranges = list[tuple[int, int]]


class TestVectoredReads:
    """AbstractContractVectoredReadTest."""

    @pytest.mark.rule("READ-21")
    @pytest.mark.parametrize(
        "ranges",
        [
            [(at * 4096, 100) for at in range(10)],
            [(0, len(BLOCK))],
            [(0, 100), (4_000, 100), (16_000, 100)],
            [(0, 100), (101, 100), (202, 100)],
            [(8_191, 100), (14_000, 100), (0, 100), (9_000, 24), (30_000, 5_000)],
            [(0, 500), (500, 500), (1_000, 0), (1_000, 1)],
            [(70_000, 1), (3, 1), (40_000, 2_000), (65_535, 2)],
            [(len(BLOCK) - 10, 10)],
        ],
        ids=["many", "whole", "disjoint", "merged", "mixed", "adjacent", "unsorted", "tail"],
    )
    def test_ranges_equal_read_fully(self, reader: hflush.FSDataInputStream, ranges: Ranges):
        """Every range holds what read_fully gives for it; the position does not matter."""
        futures = reader.read_vectored(ranges)
        assert len(futures) == len(ranges)
        for (offset, length), future in zip(ranges, futures, strict=True):
            assert bytes(future.result(timeout=DEADLINE_S)) == reader.read_fully(offset, length)

    @pytest.mark.rule("READ-21")
    @pytest.mark.parametrize(
        "ranges", [[(0, 100), (50, 100)], [(8_000, 1_000), (8_000, 1_000)]], ids=["some", "same"]
    )
    def test_overlapping_ranges(
        self, store: Store, reader: hflush.FSDataInputStream, ranges: Ranges
    ):
        """Overlap is ValueError unless vector-io-overlapping-ranges is declared."""
        if store.options["vector-io-overlapping-ranges"]:
            for (offset, length), future in zip(ranges, reader.read_vectored(ranges), strict=True):
                assert bytes(future.result(timeout=DEADLINE_S)) == BLOCK[offset : offset + length]
        else:
            with pytest.raises(ValueError, match="overlap"):
                reader.read_vectored(ranges)

    @pytest.mark.rule("READ-21")
    def test_wrong_ranges(self, reader: hflush.FSDataInputStream):
        """None is TypeError, a negative length ValueError, a negative offset EOFError."""
        with pytest.raises(TypeError):
            reader.read_vectored(None)
        with pytest.raises(TypeError):
            reader.read_vectored([(0, 1), None])
        with pytest.raises(ValueError, match="length"):
            reader.read_vectored([(1, -50)])
        with pytest.raises(EOFError):
            reader.read_vectored([(-1, 50)])

    @pytest.mark.rule("READ-21")
    @pytest.mark.parametrize("ranges", [[(0, len(BLOCK) + 1)], [(len(BLOCK), 100)]])
    def test_ranges_past_the_end(
        self, store: Store, reader: hflush.FSDataInputStream, ranges: Ranges
    ):
        """EOFError in the call where vector-io-early-eof-check is declared, else in the future."""
        if store.options["vector-io-early-eof-check"]:
            with pytest.raises(EOFError):
                reader.read_vectored(ranges)
        else:
            (future,) = reader.read_vectored(ranges)
            with pytest.raises(EOFError):
                future.result(timeout=DEADLINE_S)

    @pytest.mark.rule("READ-21")
    def test_an_empty_list(self, reader: hflush.FSDataInputStream):
        """No ranges are a no-op."""
        assert list(reader.read_vectored([])) == []
        assert reader.tell() == 0

    @pytest.mark.rule("READ-21")
    def test_results_are_as_declared(self, store: Store, reader: hflush.FSDataInputStream):
        """Unless vector-io-buffers-sliced, every result is an object of its own."""
        first, second = reader.read_vectored([(0, 100), (100, 100)])
        if not store.options["vector-io-buffers-sliced"]:
            assert (
                type(first.result(timeout=DEADLINE_S))
                is type(second.result(timeout=DEADLINE_S))
                is bytes
            )
        assert (
            bytes(first.result(timeout=DEADLINE_S)) + bytes(second.result(timeout=DEADLINE_S))
            == BLOCK[:200]
        )

    @pytest.mark.rule("READ-21")
    def test_mixed_with_normal_reads(self, reader: hflush.FSDataInputStream):
        """Normal reads before, after and between two vectored calls in flight are unaffected."""
        assert reader.read(200) == BLOCK[:200]
        first = reader.read_vectored([(0, 100), (30_000, 100)])
        second = reader.read_vectored([(50, 1_000), (60_000, 100)])
        assert reader.read(200) == BLOCK[200:400]
        assert [bytes(future.result(timeout=DEADLINE_S)) for future in first] == [
            BLOCK[:100],
            BLOCK[30_000:30_100],
        ]
        assert [bytes(future.result(timeout=DEADLINE_S)) for future in second] == [
            BLOCK[50:1_050],
            BLOCK[60_000:60_100],
        ]
        assert reader.read(4) == BLOCK[400:404]

    @pytest.mark.rule("READ-21")
    def test_results_in_other_threads(self, reader: hflush.FSDataInputStream):
        """testVectoredIOEndToEnd: results may be taken from the futures by other threads."""
        ranges = [(at * 8_000, 4_000) for at in range(10)]
        futures = reader.read_vectored(ranges)
        with ThreadPoolExecutor(4) as pool:
            parts = list(pool.map(lambda future: bytes(future.result(timeout=DEADLINE_S)), futures))
        assert parts == [BLOCK[at : at + length] for at, length in ranges]


def unchanged(store: Store, path: str) -> str:
    return path


def changed(store: Store, path: str) -> str:
    store.write(path, b"changed!" * 100)
    return path


def moved(store: Store, path: str) -> str:
    target = store.path("moved")
    store.fs.rename(path, target)
    return target


def changed_and_moved(store: Store, path: str) -> str:
    return moved(store, changed(store, path))


class TestPathHandles:
    """AbstractContractPathHandleTest, with what is declared: content checks, no references."""

    @pytest.mark.rule("READ-22")
    @pytest.mark.stores("raw")
    @pytest.mark.parametrize("changed_too", [False, True], ids=["same", "changeable"])
    @pytest.mark.parametrize("event", [unchanged, changed, moved, changed_and_moved])
    def test_handles(
        self, store: Store, file: str, changed_too: bool, event: Callable[[Store, str], str]
    ):
        """A handle opens what it allows: the same content, or any content, at the same path."""
        handle = store.fs.get_path_handle(
            store.fs.get_file_status(file), changed=changed_too, moved=False
        )
        assert isinstance(handle, bytes)
        event(store, file)
        if event is unchanged or (event is changed and changed_too):
            with store.fs.open_path_handle(handle) as reader:
                assert reader.read() == (BLOCK if event is unchanged else b"changed!" * 100)
        else:
            with pytest.raises(hflush.InvalidPathHandleError) as refusal:
                store.fs.open_path_handle(handle)
            assert refusal.value.filename == store.filename(file)

    @pytest.mark.rule("READ-22")
    @pytest.mark.stores("raw", "hdfs")
    def test_a_handle_works_in_another_process(self, store: Store, file: str):
        """Handles are bytes that another client can open."""
        handle = store.fs.get_path_handle(store.fs.get_file_status(file))
        snippet = "with fs.open_path_handle(handle) as reader: result = reader.read()"
        assert store.second_client().run(snippet, handle=handle) == BLOCK

    @pytest.mark.rule("READ-22")
    @pytest.mark.stores("raw", "hdfs")
    def test_a_deleted_file(self, store: Store, file: str):
        """testOpenFileDelete: the handle of a deleted file fails."""
        handle = store.fs.get_path_handle(store.fs.get_file_status(file), changed=True)
        store.fs.delete(file)
        with pytest.raises(hflush.InvalidPathHandleError):
            store.fs.open_path_handle(handle)

    @pytest.mark.rule("READ-22")
    @pytest.mark.stores("raw", "hdfs")
    @pytest.mark.parametrize("handle", [b"", b"nonsense", b"[1]", b"{}", b"[1, 2]", b"\xff"])
    def test_bytes_that_are_no_handle(self, store: Store, handle: bytes):
        """ValueError, or the OSError of an invalid handle; never another type."""
        with pytest.raises((ValueError, OSError)):
            store.fs.open_path_handle(handle)

    @pytest.mark.rule("READ-22")
    @pytest.mark.stores("raw")
    def test_a_reference_is_refused(self, store: Store, file: str):
        """As declared, no handle survives a move."""
        assert store.options["supports-file-reference"] is False
        with pytest.raises(io.UnsupportedOperation):
            store.fs.get_path_handle(store.fs.get_file_status(file), changed=True, moved=True)

    @pytest.mark.rule("READ-22", refused=("crc", "s3"))
    @pytest.mark.stores("crc", "s3")
    def test_handles_are_refused(self, store: Store, file: str):
        """These stores offer none and say so."""
        assert store.options["supports-content-check"] is False
        with pytest.raises(io.UnsupportedOperation):
            store.fs.get_path_handle(store.fs.get_file_status(file))
        with pytest.raises(io.UnsupportedOperation):
            store.fs.open_path_handle(b"handle")


@pytest.mark.rule("READ-21")
def test_ranges_of_numpy_integers(store: Store, file: str) -> None:
    """READ-21: whatever stands for an int is one."""
    numpy = pytest.importorskip("numpy")
    with store.fs.open(file) as reader:
        (part,) = reader.read_vectored([tuple(numpy.array([2, 3]))])
        assert part.result() == reader.read_fully(2, 3) == reader.pread(numpy.int32(2), 3)


@pytest.mark.rule("READ-6")
def test_flush_and_isatty_of_a_closed_reader(store: Store, file: str) -> None:
    """Both are harmless, as on an output stream."""
    reader = store.fs.open(file)
    reader.close()
    reader.flush()
    assert reader.isatty() is False
