"""HDFS with Java on the other side, both ways: what one writes the other reads, verified.

Every test is on the session's cluster; `java` is Hadoop's own DistributedFileSystem.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

import hdfs_native
import hflush
import pytest
from py4j.protocol import Py4JJavaError
from support.data import dataset
from support.minidfs import Hdfs, JavaHdfs
from support.waiting import PATIENCE, Task, wait_until

MIB = 1 << 20
CHUNK = 512
PACKET_DATA = 126 * CHUNK
EDGES = (0, 1, CHUNK, 7 * CHUNK, PACKET_DATA, 3 * PACKET_DATA, 64 << 10, MIB, 2 * MIB)
SIZES = sorted({edge + step for edge in EDGES for step in (-1, 0, 1) if edge + step >= 0})

pytestmark = pytest.mark.stores("hdfs")


@pytest.fixture
def java(hdfs_cluster: Hdfs) -> JavaHdfs:
    return hdfs_cluster.java


@pytest.fixture
def fs(hdfs_cluster: Hdfs) -> Iterator[hflush.FileSystem]:
    with hdfs_cluster.file_system() as ours:
        yield ours


@pytest.fixture
def path(hdfs_cluster: Hdfs) -> Iterator[str]:
    root = hdfs_cluster.root()
    yield f"{root}/file"
    hdfs_cluster.java.delete(root)


def read(fs: hflush.FileSystem, path: str) -> bytes:
    with fs.open(path) as reader:
        return bytes(reader.read())


# --- while it is written ---


@pytest.mark.rule("HFLUSH-2", "HFLUSH-3", "HSYNC-2", "READ-12", "READ-15")
@pytest.mark.parametrize("call", ["hflush", "hsync"])
def test_java_reads_what_we_flushed(
    fs: hflush.FileSystem, java: JavaHdfs, path: str, call: str
) -> None:
    """After each flush a reader that Java opens then has every byte, its checksums verified."""
    written = b""
    with fs.create(path, block_size=MIB) as out:
        for turn, size in enumerate((1, 510, 1, 1, 600, 100_000, MIB, 3, 2 * MIB, CHUNK)):
            piece = dataset(size, turn)
            out.write(piece)
            written += piece
            getattr(out, call)()
            assert java.length(path) == len(written)
            assert java.read(path) == written
    assert java.read(path) == written
    assert int(java.status(path).getLen()) == len(written)


@pytest.mark.rule("HFLUSH-2", "READ-12", "READ-15")
@pytest.mark.parametrize("call", ["hflush", "hsync"])
def test_we_read_what_java_flushed(
    fs: hflush.FileSystem, java: JavaHdfs, path: str, call: str
) -> None:
    """A reader that we open after Java's flush has every byte, verified, while Java goes on."""
    written = b""
    with java.create(path) as out:
        for turn, size in enumerate((1, 510, 1, 1, 600, 100_000, MIB, 3)):
            piece = dataset(size, turn)
            out.write(piece)
            written += piece
            getattr(out, call)()
            assert read(fs, path) == written
            with fs.open(path) as reader:
                assert reader.pread(len(written) - 1, 100) == written[-1:]
    assert read(fs, path) == written


@pytest.mark.rule("READ-12", "READ-14", "STATUS-14")
def test_each_reads_along_while_the_other_writes(
    fs: hflush.FileSystem, java: JavaHdfs, path: str
) -> None:
    """Readers opened at any moment see a prefix of what is written, with all that was flushed."""
    data = dataset(4 * MIB, 1, 250)
    flushed = 0
    done: list[bool] = []

    def write() -> None:
        nonlocal flushed
        with fs.create(path, block_size=MIB) as out:
            for start in range(0, len(data), 50_000):
                out.write(data[start : start + 50_000])
                out.hflush()
                flushed = out.tell()
        done.append(True)

    writing = Task(write)
    wait_until(lambda: java.exists(path), "it is begun")
    while not done:
        for reading in (lambda: java.read(path), lambda: read(fs, path)):
            least = flushed
            seen = reading()
            assert data.startswith(seen)
            assert len(seen) >= least
        assert writing.error is None
    writing.result()
    assert java.read(path) == read(fs, path) == data


# --- sizes ---


@pytest.mark.rule("WRITE-2", "CLOSE-1", "HDFS-7", "HDFS-12")
@pytest.mark.parametrize("pieces", ["whole", "odd", "flushed"])
def test_sizes_around_every_edge(
    fs: hflush.FileSystem, java: JavaHdfs, path: str, pieces: str
) -> None:
    """Around chunk, packet and block edges, in one piece or many, what Java reads is exact."""
    step = {"whole": 1 << 30, "odd": 7001, "flushed": 300_001}[pieces]
    for size in SIZES:
        data = dataset(size, size % 251)
        with fs.create(path, block_size=MIB, replication=1) as out:
            for start in range(0, size, step):
                out.write(data[start : start + step])
                if pieces == "flushed":
                    out.hflush()
        assert java.read(path) == data, size
        lengths = [MIB] * (size // MIB) + ([size % MIB] if size % MIB else [])
        assert java.block_lengths(path) == lengths, size
        assert read(fs, path) == data, size


@pytest.mark.rule("READ-4", "READ-10", "READ-15")
def test_we_read_javas_sizes(fs: hflush.FileSystem, java: JavaHdfs, path: str) -> None:
    """The same sizes written by Java, read by us: whole, in pieces, at positions, from the end."""
    for size in SIZES:
        data = dataset(size, size % 251)
        java.write(path, data)
        assert read(fs, path) == data, size
        with fs.open(path) as reader:
            assert b"".join(iter(lambda: bytes(reader.read(7001)), b"")) == data, size
            for at in {0, size // 2, max(0, size - 1), size}:
                assert reader.pread(at, 1000) == data[at : at + 1000], size
                reader.seek(at)
                assert reader.read(10) == data[at : at + 10], size


@pytest.mark.slow
@pytest.mark.timeout(600 * PATIENCE)
@pytest.mark.rule("WRITE-18", "WRITE-19", "LIM-1")
def test_more_than_4_gib(hdfs_cluster: Hdfs, fs: hflush.FileSystem, path: str) -> None:
    """Offsets beyond 2**32, in blocks of 3 GiB: counted, flushed, appended to and read exactly."""
    piece = dataset(64 * MIB, 1, 252)
    total = 2**32 + 5
    with fs.create(path, block_size=3 << 30, replication=1) as out:
        for _ in range(64):
            out.write(piece)
        out.write(b"abcde")
        out.hflush()
        assert out.tell() == total
    counters = out.io_statistics().counters
    assert counters["stream_write_bytes"] == total
    assert fs.get_file_status(path).length == total
    assert hdfs_cluster.java.block_lengths(path) == [3 << 30, total - (3 << 30)]
    with fs.append(path) as out:
        assert out.tell() == total
        out.write(b"fgh")
    with fs.open(path) as reader:
        assert reader.pread(2**32 - 3, 100) == piece[-3:] + b"abcdefgh"
        for at in (2**31 - 5, 2**31, 3 << 30, 2**32 - 10):
            expected = (piece + piece)[at % len(piece) : at % len(piece) + 8]
            assert reader.pread(at, 8) == expected
        reader.seek(2**32)
        assert reader.read() == b"abcdefgh"


# --- appending by turns ---


@pytest.mark.rule("APPEND-1", "APPEND-7")
@pytest.mark.parametrize("first", ["ours", "java"])
def test_appending_by_turns(
    hdfs_cluster: Hdfs, fs: hflush.FileSystem, java: JavaHdfs, path: str, first: str
) -> None:
    """We append to Java's file and Java to ours, by turns, inside and at the edges of chunks."""
    expected = b""
    block = 300 * CHUNK
    ours = hdfs_cluster.file_system({"dfs.blocksize": block})
    theirs = hdfs_cluster.java_with({"dfs.blocksize": str(block)})
    for turn, size in enumerate((1, 511, 513, 70_000, 3, CHUNK, block, 1, block - 1, 65_536)):
        piece = dataset(size, turn)
        is_ours = (turn % 2 == 0) is (first == "ours")
        if is_ours:
            with ours.append(path) if turn else ours.create(path) as out:
                out.write(piece[: size // 2])
                out.hflush()
                assert java.read(path) == expected + piece[: size // 2]
                out.write(piece[size // 2 :])
        else:
            with theirs.append(path) if turn else theirs.create(path) as stream:
                stream.write(piece)
        expected += piece
        assert java.read(path) == expected, turn
        assert read(fs, path) == expected, turn
    assert java.block_lengths(path) == [block] * (len(expected) // block) + [len(expected) % block]
    ours.close()
    theirs.close()


@pytest.mark.rule("APPEND-7", "APPEND-8", "EXTRA-2")
@pytest.mark.parametrize("seed", range(4))
def test_any_mixture(
    hdfs_cluster: Hdfs, fs: hflush.FileSystem, java: JavaHdfs, path: str, seed: int
) -> None:
    """Writes, flushes, appends and truncations of both, at random: the bytes are the model's."""
    chance = random.Random(seed)
    model = b""
    java.write(path, b"")
    for _ in range(12):
        piece = chance.randbytes(chance.choice((1, 100, 511, 512, 513, 4096, 65_000, 200_000)))
        match chance.choice(("ours", "ours", "new block", "java", "truncate")):
            case "java":
                with java.append(path) as stream:
                    stream.write(piece)
                model += piece
            case "truncate":
                length = chance.randint(0, len(model))
                if not fs.truncate(path, length):
                    hdfs_cluster.wait_closed(path)
                model = model[:length]
            case kind:
                flags = [hflush.CreateFlag.NEW_BLOCK] if kind == "new block" else []
                with fs.append(path, flags=[hflush.CreateFlag.APPEND, *flags]) as out:
                    for start in range(0, len(piece), 50_000):
                        out.write(piece[start : start + 50_000])
                        chance.choice((out.hflush, out.hsync, out.flush))()
                model += piece
        assert java.read(path) == model
    assert read(fs, path) == model


# --- checksums ---

KINDS = [("CRC32C", 512), ("CRC32", 512), ("CRC32", 128), ("CRC32C", 4096)]


@pytest.mark.rule("READ-16", "BUILDER-17", "HDFS-16")
@pytest.mark.parametrize(("kind", "chunk"), KINDS)
def test_kinds_of_checksums(
    hdfs_cluster: Hdfs, fs: hflush.FileSystem, java: JavaHdfs, path: str, kind: str, chunk: int
) -> None:
    """Files of dfs.checksum.type and dfs.bytes-per-checksum go both ways, and keep theirs."""
    settings = {"dfs.checksum.type": kind, "dfs.bytes-per-checksum": str(chunk)}
    theirs = hdfs_cluster.java_with(settings)
    ours = hdfs_cluster.file_system(settings)
    theirs.write(path, dataset(10_000))
    assert read(fs, path) == dataset(10_000)
    with fs.append(path) as out:  # with other settings: the file's own count
        out.write(dataset(5000, 7))
        out.hflush()
        assert java.read(path) == dataset(10_000) + dataset(5000, 7)
    assert java.read(path) == read(fs, path) == dataset(10_000) + dataset(5000, 7)
    assert f"{chunk}{kind}" in java.file_checksum(path)
    with ours.create(f"{path}-ours") as out:
        out.write(dataset(10_000))
    with theirs.append(f"{path}-ours") as stream:
        stream.write(dataset(5000, 7))
    assert java.read(f"{path}-ours") == dataset(10_000) + dataset(5000, 7)
    assert java.file_checksum(f"{path}-ours") == java.file_checksum(path)
    theirs.close()
    ours.close()


@pytest.mark.parametrize("mode", ["MD5MD5CRC", "COMPOSITE_CRC"])
@pytest.mark.parametrize(("kind", "chunk"), KINDS[:3])
def test_file_checksums_equal_javas(
    hdfs_cluster: Hdfs, path: str, mode: str, kind: str, chunk: int
) -> None:
    """Of empty, small, many-block and appended files, whole or up to a length."""
    settings = {
        "dfs.checksum.combine.mode": mode,
        "dfs.checksum.type": kind,
        "dfs.bytes-per-checksum": str(chunk),
    }
    theirs, ours = hdfs_cluster.java_with(settings), hdfs_cluster.file_system(settings)
    for size in (0, 1, chunk, chunk + 1, 70_000, MIB, 5 * MIB // 2):
        with ours.create(path, block_size=MIB) as out:
            out.write(dataset(size))
        assert_checksums_equal(ours, theirs, path)
    with ours.append(path) as out:
        out.write(dataset(777))
    assert_checksums_equal(ours, theirs, path)
    for length in (0, 1, chunk, MIB, MIB + 1, 2 * MIB + 5):
        assert_checksums_equal(ours, theirs, path, length)
    theirs.close()
    ours.close()


def assert_checksums_equal(
    ours: hflush.FileSystem, theirs: JavaHdfs, path: str, length: int | None = None
) -> None:
    place = theirs.path(path)
    java = theirs.fs.getFileChecksum(place, *([] if length is None else [length]))
    checksum = ours.get_file_checksum(path, length)
    assert checksum.algorithm == str(java.getAlgorithmName())
    expected = bytes(java.getBytes())  # of MD5s, Java returns its whole buffer
    assert checksum.value == expected[: int(java.getLength())]
    assert not any(expected[int(java.getLength()) :])
    assert str(java).endswith(checksum.value[-4:].hex())


def test_composite_checksums_do_not_depend_on_blocks(hdfs_cluster: Hdfs, path: str) -> None:
    """The same content in other blocks has the same composite checksum: that of the content."""
    ours = hdfs_cluster.file_system({"dfs.checksum.combine.mode": "COMPOSITE_CRC"})
    data = dataset(3 * MIB + 5)
    for size in (MIB, 2 * MIB, 128 * MIB):
        with ours.create(path, block_size=size) as out:
            out.write(data)
        value = ours.get_file_checksum(path).value
        assert value == hflush.crc.crc32c(data).to_bytes(4, "big")
    ours.close()


# --- the name space ---


@pytest.mark.rule("STATUS-3", "CONSIST-9")
def test_each_sees_the_others_names(fs: hflush.FileSystem, java: JavaHdfs, path: str) -> None:
    """Entries, permissions, owners, times and replication agree, whoever made them."""
    root = path.rpartition("/")[0]
    fs.mkdirs(f"{root}/dir", 0o750)
    with fs.create(path, permission=0o640, replication=2, block_size=2 * MIB) as out:
        out.write(b"ours")
    java.write(f"{root}/dir/java", b"theirs")
    for name in ("dir", "file", "dir/java"):
        ours, theirs = fs.get_file_status(f"{root}/{name}"), java.status(f"{root}/{name}")
        assert ours.length == int(theirs.getLen())
        assert ours.is_directory == bool(theirs.isDirectory())
        assert ours.permission == int(theirs.getPermission().toShort())
        assert (ours.owner, ours.group) == (str(theirs.getOwner()), str(theirs.getGroup()))
        assert ours.modification_time == int(theirs.getModificationTime())
        assert ours.access_time == int(theirs.getAccessTime())
        assert ours.replication == int(theirs.getReplication())
        assert ours.block_size == int(theirs.getBlockSize())
    assert java.tree(root) == ["dir", "dir/java", "file"]
    assert [status.name for status in fs.list_status(root)] == ["dir", "file"]
    assert java.rename(path, f"{root}/moved")
    assert read(fs, f"{root}/moved") == b"ours"
    assert fs.rename(f"{root}/dir/java", f"{root}/java")
    assert java.read(f"{root}/java") == b"theirs"


# --- others that read ---


@pytest.mark.rule("READ-15")
def test_hdfs_native_reads_ours(hdfs_cluster: Hdfs, fs: hflush.FileSystem, path: str) -> None:
    """Another client without a JVM reads our closed files; of open ones it asks no replica."""
    client = hdfs_native.Client(hdfs_cluster.url)
    data = dataset(3 * MIB + 7)
    with fs.create(path, block_size=MIB) as out:
        out.write(data)
    with client.read(path) as reader:
        assert bytes(reader.read()) == data
    assert client.get_file_info(path).length == len(data)


@pytest.mark.rule("READ-15")
def test_we_read_hdfs_natives(hdfs_cluster: Hdfs, fs: hflush.FileSystem, path: str) -> None:
    """We read, and append to, what that client wrote."""
    client = hdfs_native.Client(hdfs_cluster.url)
    data = dataset(200_000)
    with client.create(path, hdfs_native.WriteOptions()) as writer:
        writer.write(data)
    assert read(fs, path) == data
    with fs.append(path) as out:
        out.write(b"and ours")
    with client.read(path) as reader:
        assert bytes(reader.read()) == data + b"and ours"


@pytest.mark.rule("READ-15")
def test_pyarrow_reads_ours(hdfs_cluster: Hdfs, fs: hflush.FileSystem, path: str) -> None:
    """pyarrow over Hadoop's libhdfs, where that is installed."""
    pyarrow = pytest.importorskip("pyarrow.fs")
    host, _, port = hdfs_cluster.url.rpartition("/")[2].partition(":")
    try:
        arrow = pyarrow.HadoopFileSystem(host, int(port))
    except OSError:
        pytest.skip("pyarrow finds no libhdfs here")
    with fs.create(path) as out:
        out.write(dataset(100_000))
    with arrow.open_input_stream(path) as stream:
        assert stream.read() == dataset(100_000)


# --- configurations ---

WHOLE = ("0x10", "-0x10", "0XfF", "+7", " 12 ", "-1", "1_0", "1.0", "0x", "1k", "x", "--1",
         "9223372036854775807", "9223372036854775808", "-9223372036854775808")  # fmt: skip
BYTES = ("131072", "128k", "1G", "2p", "7e", "-1k", " 64m ", "1.5m", "128mb", "k", "1_0k",
         "9223372036854775807k", "x")  # fmt: skip
TIMES = ("500", "30s", "2M", "1500us", "70ns", "1h", "1D", "3ms", "-1", "-1s", "1.5s", "1_0s",
         "5w", "s", "x")  # fmt: skip
# What Java refuses and we read: hexadecimal sizes and times, and a blank before a unit.
LAXER = {"getLongBytes": ("0x8000000", "128 m"), "getTimeDuration": ("0x10", "2 m")}


@pytest.mark.parametrize(
    ("getter", "texts"),
    [("getLong", WHOLE), ("getLongBytes", BYTES), ("getTimeDuration", TIMES)],
)
def test_configurations_mean_what_they_mean_to_java(
    hdfs_cluster: Hdfs, getter: str, texts: tuple[str, ...]
) -> None:
    """What Java reads we read as the same number; what it refuses we refuse, but for a few."""
    java = hdfs_cluster.jvm.java
    nanoseconds = java.java.util.concurrent.TimeUnit.NANOSECONDS

    def theirs(text: str) -> int | None:
        conf = java.org.apache.hadoop.conf.Configuration(False)
        conf.set("key", text)
        # A bare number counts milliseconds in nearly all keys.
        if getter == "getTimeDuration":
            milliseconds = java.java.util.concurrent.TimeUnit.MILLISECONDS
            call = partial(conf.getTimeDuration, "key", "7", milliseconds, nanoseconds)
        else:
            call = partial(getattr(conf, getter), "key", 7)
        try:
            return int(call())
        except Py4JJavaError as failure:
            if "NumberFormat" in str(failure) or "IllegalArgument" in str(failure):
                return None
            raise

    def ours(text: str) -> int | None:
        conf = hflush.Configuration(load_defaults=False)
        conf["key"] = text
        try:
            if getter == "getTimeDuration":
                return round(conf.get_time("key") * 1e9)
            return (conf.get_int if getter == "getLong" else conf.get_long_bytes)("key")
        except ValueError:
            return None

    assert {text: ours(text) for text in texts} == {text: theirs(text) for text in texts}
    laxer = LAXER.get(getter, ())
    assert {text: theirs(text) for text in laxer} == dict.fromkeys(laxer)
    assert all(ours(text) for text in laxer)


def test_block_sizes_that_java_would_refuse(hdfs_cluster: Hdfs, path: str) -> None:
    """create and get_default_block_size read the key alike."""
    for text in ("0x200000", "2 m", "2097152"):
        with hdfs_cluster.file_system({"dfs.blocksize": text}) as ours:
            ours.create(path, overwrite=True).close()
            assert ours.get_file_status(path).block_size == 2 * MIB
            assert ours.get_default_block_size(path) == 2 * MIB


def test_the_task_is_named_as_the_lease_holder(hdfs_cluster: Hdfs, path: str) -> None:
    """``mapreduce.task.attempt.id``, as Java's client does: NameNodes log it."""
    key = "mapreduce.task.attempt.id"
    with hdfs_cluster.file_system({key: "attempt_7"}) as ours, hdfs_cluster.file_system() as other:
        writer = ours.create(path)
        with pytest.raises(hflush.LeaseHeldError, match="DFSClient_attempt_7_"):
            other.append(path)
        writer.close()
