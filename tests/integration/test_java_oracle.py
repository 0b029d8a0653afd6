"""Java Hadoop reads what we wrote and writes what we read; each catches what the other's file lost.

Java's LocalFileSystem is the original of our `crc` store, its RawLocalFileSystem that of `raw`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hflush
import pytest
from integration.hadoop import CHECKSUM_EXCEPTION, Hadoop, JavaFileSystem, raises_java
from support.data import dataset

pytestmark = pytest.mark.spark

CHUNKS = (512, 128)
SIZES = (0, 1, 127, 128, 511, 512, 513, 1024, 100_000, (3 << 20) + 7)
HEADER_BYTES = 8
SUM_BYTES = 4


@pytest.fixture(params=CHUNKS, ids=lambda size: f"{size}B-chunks")
def chunk(request: pytest.FixtureRequest) -> int:
    """Bytes per checksum of the file's writer."""
    return int(request.param)


@pytest.fixture
def ours(chunk: int) -> Iterator[hflush.FileSystem]:
    """Our checksummed file system."""
    fs = hflush.FileSystem.new_instance("file+crc:///", {"file.bytes-per-checksum": chunk})
    yield fs
    fs.close()


@pytest.fixture
def java(hadoop: Hadoop, chunk: int) -> JavaFileSystem:
    """Java's checksummed file system."""
    return hadoop.checksummed(chunk)


@pytest.fixture
def our_raw() -> Iterator[hflush.FileSystem]:
    fs = hflush.FileSystem.new_instance("file:///")
    yield fs
    fs.close()


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "part-0")


def write(fs: hflush.FileSystem, path: str, data: bytes) -> None:
    with fs.create(path) as out:
        out.write(data)


def read(fs: hflush.FileSystem, path: str) -> bytes:
    with fs.open(path) as stream:
        return bytes(stream.read())


def names(fs: hflush.FileSystem, directory: str | Path) -> list[str]:
    return sorted(Path(status.path).name for status in fs.list_status(str(directory)))


def sidecar(path: str) -> Path:
    return Path(path).with_name(f".{Path(path).name}.crc")


def flip(path: str | Path, offset: int) -> None:
    """Change one bit of a file."""
    content = bytearray(Path(path).read_bytes())
    content[offset] ^= 0x10
    Path(path).write_bytes(content)


def without_sidecars(directory: Path) -> list[str]:
    """What a directory really holds, sidecars taken out; each must have its file."""
    present = {entry.name for entry in directory.iterdir()}
    sidecars = {name for name in present if name.startswith(".") and name.endswith(".crc")}
    assert {name[1:-4] for name in sidecars} <= present, "a sidecar without its file"
    return sorted(present - sidecars)


# --- the format, both ways ---


@pytest.mark.rule("LOCAL-1")
@pytest.mark.stores("crc")
@pytest.mark.parametrize("size", SIZES)
def test_java_reads_ours(
    ours: hflush.FileSystem, hadoop: Hadoop, file: str, chunk: int, size: int
) -> None:
    """LocalFileSystem, with verification on, reads every byte of a file with hflush's sidecar."""
    data = dataset(size)
    write(ours, file, data)
    assert sidecar(file).stat().st_size == HEADER_BYTES + SUM_BYTES * -(-size // chunk)
    assert hadoop.checksummed().read(file) == data


@pytest.mark.rule("LOCAL-1", "READ-16")
@pytest.mark.stores("crc")
@pytest.mark.parametrize("size", SIZES)
def test_ours_reads_java(java: JavaFileSystem, file: str, chunk: int, size: int) -> None:
    """We read, verified, what LocalFileSystem wrote, whatever chunk size it was set to."""
    data = dataset(size)
    java.write(file, data)
    fs = hflush.FileSystem.get("file+crc:///")
    assert sidecar(file).stat().st_size == HEADER_BYTES + SUM_BYTES * -(-size // chunk)
    assert read(fs, file) == data


@pytest.mark.rule("LOCAL-1")
@pytest.mark.stores("crc")
@pytest.mark.parametrize("size", SIZES)
def test_sidecars_are_the_same_bytes(
    ours: hflush.FileSystem, java: JavaFileSystem, tmp_path: Path, size: int
) -> None:
    """For the same data and chunk size the two sidecars are equal, byte for byte."""
    by_us, by_java = str(tmp_path / "by-us"), str(tmp_path / "by-java")
    write(ours, by_us, dataset(size))
    java.write(by_java, dataset(size))
    assert sidecar(by_us).read_bytes() == sidecar(by_java).read_bytes()


@pytest.mark.rule("LOCAL-1")
@pytest.mark.stores("crc")
def test_java_reads_ours_written_in_odd_pieces(
    ours: hflush.FileSystem, hadoop: Hadoop, file: str
) -> None:
    """Chunks are cut by position in the file, not by the caller's writes."""
    data = dataset(50_000)
    with ours.create(file) as out:
        position = 0
        for step in range(1, 400):
            out.write(data[position : position + step])
            position += step
        out.write(data[position:])
    assert hadoop.checksummed().read(file) == data


# --- damage is caught on both sides ---

DAMAGED = 10_000
OFFSETS = (0, 511, 512, 5_000, DAMAGED - 1)


@pytest.mark.rule("LOCAL-1")
@pytest.mark.stores("crc")
@pytest.mark.parametrize("offset", OFFSETS)
def test_java_catches_a_flipped_bit_in_ours(
    ours: hflush.FileSystem, hadoop: Hadoop, file: str, offset: int
) -> None:
    """A bit that changed in a data file of hflush makes Java throw ChecksumException."""
    write(ours, file, dataset(DAMAGED))
    flip(file, offset)
    with raises_java(CHECKSUM_EXCEPTION):
        hadoop.checksummed().read(file)


@pytest.mark.rule("READ-16")
@pytest.mark.stores("crc")
@pytest.mark.parametrize("offset", OFFSETS)
def test_ours_catches_a_flipped_bit_in_javas(
    ours: hflush.FileSystem, java: JavaFileSystem, file: str, chunk: int, offset: int
) -> None:
    """A bit that changed in Java's data raises ChecksumError, naming the file and the chunk."""
    java.write(file, dataset(DAMAGED))
    flip(file, offset)
    with pytest.raises(hflush.ChecksumError) as caught:
        read(ours, file)
    assert caught.value.filename == file
    assert caught.value.position == offset // chunk * chunk
    ours.set_verify_checksum(False)
    assert len(read(ours, file)) == DAMAGED


@pytest.mark.rule("LOCAL-1")
@pytest.mark.stores("crc")
@pytest.mark.parametrize("offset", [HEADER_BYTES, HEADER_BYTES + SUM_BYTES + 3, -1])
def test_java_catches_a_flipped_bit_in_our_sidecar(
    ours: hflush.FileSystem, hadoop: Hadoop, file: str, offset: int
) -> None:
    """A bit that changed in a sum of hflush makes Java throw ChecksumException."""
    write(ours, file, dataset(DAMAGED))
    flip(sidecar(file), offset)
    with raises_java(CHECKSUM_EXCEPTION):
        hadoop.checksummed().read(file)


@pytest.mark.rule("LOCAL-6", "READ-16")
@pytest.mark.stores("crc")
@pytest.mark.parametrize("offset", [0, 3, 4, 6, 7, HEADER_BYTES, HEADER_BYTES + SUM_BYTES + 3, -1])
def test_ours_catches_a_flipped_bit_in_javas_sidecar(
    ours: hflush.FileSystem, java: JavaFileSystem, file: str, offset: int
) -> None:
    """So does one in Java's sidecar for us: in its magic, its chunk size or its sums."""
    java.write(file, dataset(DAMAGED))
    flip(sidecar(file), offset)
    with pytest.raises(hflush.ChecksumError):
        read(ours, file)
    ours.set_verify_checksum(False)
    assert read(ours, file) == dataset(DAMAGED)


@pytest.mark.rule("LOCAL-6")
@pytest.mark.stores("crc")
@pytest.mark.parametrize("kept", [0, 4, HEADER_BYTES, -SUM_BYTES, -1])
def test_ours_catches_a_truncated_sidecar_of_javas(
    ours: hflush.FileSystem, java: JavaFileSystem, file: str, kept: int
) -> None:
    """A sidecar of Java's that lost its end does not allow reading unverified."""
    java.write(file, dataset(DAMAGED))
    sidecar(file).write_bytes(sidecar(file).read_bytes()[:kept])
    with pytest.raises(hflush.ChecksumError):
        read(ours, file)


@pytest.mark.rule("LOCAL-6")
@pytest.mark.stores("crc")
def test_a_sidecar_that_java_left_stale_is_caught(
    ours: hflush.FileSystem, hadoop: Hadoop, java: JavaFileSystem, file: str
) -> None:
    """Who rewrites a file past its sidecar is found out by us, as by Java."""
    java.write(file, dataset(DAMAGED))
    hadoop.raw().write(file, dataset(DAMAGED, first=1))
    with pytest.raises(hflush.ChecksumError):
        read(ours, file)
    with raises_java(CHECKSUM_EXCEPTION):
        java.read(file)


# --- one name space ---


@pytest.mark.rule("LOCAL-8")
@pytest.mark.stores("crc")
def test_listings_agree(
    ours: hflush.FileSystem, java: JavaFileSystem, hadoop: Hadoop, tmp_path: Path
) -> None:
    """Both show the files of both, with their lengths, and no sidecar; the raw ones show all."""
    write(ours, str(tmp_path / "by-us"), dataset(1000))
    java.write(str(tmp_path / "by-java"), dataset(2000))
    ours.mkdirs(str(tmp_path / "directory"))
    directory = str(tmp_path)
    seen = {Path(status.path).name: status.length for status in ours.list_status(directory)}
    assert java.names(directory) == ["by-java", "by-us", "directory"]
    assert sorted(seen) == java.names(directory)
    del seen["directory"]
    assert seen == {name: java.lengths(directory)[name] for name in seen}
    assert len(hadoop.raw().names(directory)) == 5


@pytest.mark.rule("LOCAL-8", "LOCAL-15", "RENAME-25")
@pytest.mark.stores("crc")
def test_java_renames_ours(ours: hflush.FileSystem, java: JavaFileSystem, tmp_path: Path) -> None:
    """A file of hflush that Java renamed is still verified when hflush reads it."""
    before, after = str(tmp_path / "before"), str(tmp_path / "after")
    write(ours, before, dataset(DAMAGED))
    assert java.rename(before, after)
    assert not ours.exists(before)
    assert read(ours, after) == dataset(DAMAGED)
    flip(after, 700)
    with pytest.raises(hflush.ChecksumError):
        read(ours, after)


@pytest.mark.rule("LOCAL-8", "LOCAL-15", "RENAME-25")
@pytest.mark.stores("crc")
@pytest.mark.parametrize("kind", ["FileSystem", "FileContext"])
@pytest.mark.parametrize("replaced", [False, True])
def test_we_rename_javas(
    ours: hflush.FileSystem, java: JavaFileSystem, tmp_path: Path, kind: str, replaced: bool
) -> None:
    """A file of Java's that we renamed, also onto another, is still verified by Java."""
    before, after = str(tmp_path / "before"), str(tmp_path / "after")
    java.write(before, dataset(DAMAGED))
    if replaced and kind == "FileContext":
        java.write(after, b"older and longer" * 1000)
    if kind == "FileSystem":
        assert ours.rename(before, after)
    else:
        ours.rename(before, after, hflush.Rename.OVERWRITE)
    assert without_sidecars(tmp_path) == ["after"]
    assert java.read(after) == dataset(DAMAGED)
    flip(after, 700)
    with raises_java(CHECKSUM_EXCEPTION):
        java.read(after)


@pytest.mark.rule("LOCAL-8", "DELETE-9")
@pytest.mark.stores("crc")
def test_deletes_leave_nothing(
    ours: hflush.FileSystem, java: JavaFileSystem, tmp_path: Path
) -> None:
    """A sidecar goes with its file, whichever side wrote it and whichever deletes it."""
    by_us, by_java = str(tmp_path / "by-us"), str(tmp_path / "by-java")
    write(ours, by_us, dataset(DAMAGED))
    java.write(by_java, dataset(DAMAGED))
    assert java.delete(by_us)
    assert ours.delete(by_java)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.rule("LOCAL-3")
@pytest.mark.stores("crc")
def test_without_sums_java_reads_unverified(
    ours: hflush.FileSystem, java: JavaFileSystem, file: str
) -> None:
    """A file that we rewrote without sums has no stale sidecar for Java to stumble over."""
    java.write(file, dataset(DAMAGED))
    ours.set_write_checksum(False)
    write(ours, file, dataset(300, first=1))
    assert not sidecar(file).exists()
    assert java.read(file) == dataset(300, first=1)


# --- raw ---


@pytest.mark.rule("READ-15")
@pytest.mark.stores("raw")
@pytest.mark.parametrize("size", SIZES)
def test_raw_files_are_plain_files(
    our_raw: hflush.FileSystem, hadoop: Hadoop, tmp_path: Path, size: int
) -> None:
    """RawLocalFileSystem reads our raw files, we read its, and nothing else is in the directory."""
    by_us, by_java = str(tmp_path / "by-us"), str(tmp_path / "by-java")
    write(our_raw, by_us, dataset(size))
    hadoop.raw().write(by_java, dataset(size))
    assert hadoop.raw().read(by_us) == dataset(size)
    assert read(our_raw, by_java) == dataset(size)
    assert names(our_raw, tmp_path) == hadoop.raw().names(str(tmp_path)) == ["by-java", "by-us"]


@pytest.mark.rule("APPEND-1")
@pytest.mark.stores("raw")
def test_appending_by_turns(our_raw: hflush.FileSystem, hadoop: Hadoop, file: str) -> None:
    """We and Java append to one file by turns; nothing is lost between the two."""
    java, expected = hadoop.raw(), b""
    write(our_raw, file, b"")
    for turn, size in enumerate((1, 511, 513, 70_000, 3)):
        piece = dataset(size, first=turn)
        with our_raw.append(file) as out:
            out.write(piece)
        java.append(file, piece)
        expected += piece + piece
    assert java.read(file) == expected
    assert read(our_raw, file) == expected


@pytest.mark.rule("HFLUSH-2", "HFLUSH-3", "HSYNC-2", "READ-12")
@pytest.mark.stores("raw")
@pytest.mark.parametrize("call", ["hflush", "hsync"])
def test_java_sees_what_was_flushed(
    our_raw: hflush.FileSystem, hadoop: Hadoop, file: str, call: str
) -> None:
    """A reader that Java opens after hflush or hsync returned sees every byte written before."""
    java = hadoop.raw()
    with our_raw.create(file) as out:
        for size in (1, 600, 100_000):
            out.write(dataset(size))
            getattr(out, call)()
            assert len(java.read(file)) == out.tell()


@pytest.mark.rule("APPEND-4", refused="crc")
@pytest.mark.rule("LOCAL-13")
@pytest.mark.stores("crc")
def test_neither_appends_where_there_are_sums(
    ours: hflush.FileSystem, java: JavaFileSystem, file: str
) -> None:
    """Append is refused by both checksummed file systems, and the file stays whole."""
    write(ours, file, dataset(DAMAGED))
    with pytest.raises(OSError, match="append"):
        ours.append(file)
    with raises_java("java.lang.UnsupportedOperationException"):
        java.append(file, b"more")
    assert java.read(file) == dataset(DAMAGED)
