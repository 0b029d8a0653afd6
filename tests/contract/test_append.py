"""APPEND: adding to existing files."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import struct
from collections.abc import Callable

import hflush
import pytest
from support.data import dataset
from support.stores import Store
from support.waiting import Task, wait_until

Append = Callable[[hflush.FileSystem, str], hflush.FSDataOutputStream]

APPENDERS: dict[str, Append] = {
    "append": lambda fs, path: fs.append(path),
    "builder": lambda fs, path: fs.append_file(path).build(),
}


@pytest.fixture(params=APPENDERS)
def append(request: pytest.FixtureRequest) -> Append:
    """Every API that appends to a file."""
    return APPENDERS[request.param]


@pytest.mark.rule("APPEND-1", "BUILDER-2", "CONSIST-2")
@pytest.mark.stores("raw", "hdfs")
@pytest.mark.parametrize(("old", "new"), [(0, 256), (8192, 8192), (1, 0)])
def test_append_adds_to_the_content(store: Store, path: str, append: Append, old: int, new: int):
    """After close the file is old + new, for other clients at once."""
    head = dataset(old, ord("a"), ord("z"))
    tail = dataset(new, ord("A"), ord("Z"))
    store.write(path, head)
    with append(store.fs, path) as out:
        assert out.tell() == old
        out.write(tail)
        assert out.tell() == old + new
    assert store.second_client().run("read(path)", path=path) == head + tail
    assert store.fs.get_file_status(path).length == old + new


@pytest.mark.rule("APPEND-2", "BUILDER-2")
@pytest.mark.stores("raw", "hdfs")
def test_append_to_a_missing_file(store: Store, path: str, append: Append):
    """A missing file is FileNotFoundError with its path; nothing is created."""
    with pytest.raises(FileNotFoundError) as refusal:
        append(store.fs, path)
    assert refusal.value.filename == store.filename(path)
    assert store.on_disk() == []


@pytest.mark.rule("APPEND-3", "BUILDER-2", "ROOT-2")
@pytest.mark.stores("raw", "hdfs")
def test_append_to_a_directory(store: Store, append: Append):
    """A directory, the root too, is IsADirectoryError."""
    for directory in (store.root, "/"):
        with pytest.raises(IsADirectoryError):
            append(store.fs, directory)
        assert store.fs.is_directory(directory)


@pytest.mark.rule("APPEND-1", "APPEND-4", refused="crc")
@pytest.mark.rule("BUILDER-2", "LOCAL-13")
@pytest.mark.stores("crc")
def test_append_is_refused_where_it_is_not_offered(store: Store, path: str, append: Append):
    """The checksummed store raises UnsupportedOperation and says so beforehand."""
    store.write(path, b"old")
    assert store.options["supports-append"] is False
    assert store.fs.has_path_capability(path, "fs.capability.paths.append") is False
    with pytest.raises(io.UnsupportedOperation, match="append"):
        append(store.fs, path)
    assert store.read(path) == b"old"


@pytest.mark.rule("APPEND-4", refused="crc")
@pytest.mark.stores("crc")
def test_the_append_modes_are_refused_where_append_is_not_offered(store: Store, path: str):
    """hflush.append and the modes with "a" raise UnsupportedOperation, too."""
    store.write(path, b"old")
    with pytest.raises(io.UnsupportedOperation):
        hflush.append(store.url(path))
    with pytest.raises(io.UnsupportedOperation):
        hflush.open(store.url(path), "ab")
    with pytest.raises(io.UnsupportedOperation):
        store.fs.create(path, flags={hflush.CreateFlag.APPEND})
    assert store.read(path) == b"old"


@pytest.mark.rule("APPEND-1")
@pytest.mark.stores("raw", "hdfs")
def test_the_append_capability_is_declared(store: Store, path: str):
    """testFileSystemDeclaresCapability: the probe says True, also for a path that is not there."""
    assert store.options["supports-append"] is True
    assert store.fs.has_path_capability(path, "fs.capability.paths.append") is True


@pytest.mark.rule("APPEND-5")
@pytest.mark.rule("TIME-4", on="hdfs")
@pytest.mark.stores("raw", "hdfs")
def test_opening_for_append_changes_nothing(store: Store, path: str, append: Append):
    """Opening for append leaves content, length and modification time."""
    store.write(path, b"old")
    store.fs.set_times(path, 1_000_000_000_000, -1)
    before = store.fs.get_file_status(path)
    with append(store.fs, path):
        after = store.fs.get_file_status(path)
        assert (after.length, after.modification_time) == (3, before.modification_time)
        assert store.read(path) == b"old"


@pytest.mark.rule("APPEND-7", "HFLUSH-10")
@pytest.mark.stores("raw", "hdfs")
@pytest.mark.parametrize(
    "lengths",
    [(1, 1), (186, 421), (512, 513), (25687, 5877), (65536, 65535, 65537), (98304, 1, 511)],
    ids=str,
)
def test_appends_at_awkward_boundaries_are_exact(store: Store, path: str, lengths: tuple[int, ...]):
    """Appends that start inside or at the end of a chunk or packet, with flushes, are exact."""
    expected = b""
    store.write(path)
    for turn, length in enumerate(lengths):
        data = dataset(length, turn, turn + 120)
        with store.fs.append(path) as out:
            half = length // 2
            out.write(data[:half])
            out.hflush()
            assert store.read(path) == expected + data[:half]
            out.write(data[half:])
        expected += data
        assert store.read(path) == expected


@pytest.mark.rule("APPEND-9", "CONC-8")
@pytest.mark.stores("raw", "hdfs")
def test_renaming_a_file_being_appended(store: Store, path: str):
    """The bytes go to the renamed file, and the old name stays absent."""
    store.write(path, b"old ")
    target = store.path("renamed")
    with store.fs.append(path) as out:
        out.write(b"before ")
        assert store.fs.rename(path, target)
        out.write(b"after")
    assert store.read(target) == b"old before after"
    assert not store.fs.exists(path)


@pytest.mark.rule("APPEND-10")
@pytest.mark.stores("raw", "hdfs")
def test_append_needs_write_permission_on_the_file_only(store: Store):
    """TestFileAppend2.testSimpleAppend: dir 0o111 and file 0o222 will do, file 0o555 will not."""
    with store.public_directory() as directory:
        parent = f"{directory}/dir"
        store.fs.mkdirs(parent)
        path = store.write(f"{parent}/file", b"old ")
        user = store.unprivileged()
        store.chmod(path, 0o222)
        store.chmod(parent, 0o111)
        user.run("with fs.append(path) as out: out.write(b'new')", path=path)
        store.chmod(path, 0o555)
        with pytest.raises(PermissionError):
            user.run("fs.append(path)", path=path)
        store.chmod(path, 0o644)
        store.chmod(parent, 0o755)
        assert store.read(path) == b"old new"


def when_free(append: Callable[[], hflush.FSDataOutputStream]) -> hflush.FSDataOutputStream:
    """Append as soon as no other writer has the file."""
    opened: list[hflush.FSDataOutputStream] = []

    def tried() -> bool:
        with contextlib.suppress(hflush.LeaseHeldError):
            opened.append(append())
        return bool(opened)

    wait_until(tried, "no other client writes the file")
    return opened[0]


@pytest.mark.rule("APPEND-12")
@pytest.mark.stores("raw", "hdfs")
def test_racing_small_appends_do_not_corrupt(store: Store, path: str):
    """TestFileAppend3.testSmallAppendRace: every append that succeeded is wholly present."""
    store.write(path)

    def append_twenty_times(writer: int) -> None:
        for turn in range(20):
            with when_free(lambda: store.fs.append(path)) as out:
                out.write(b"%d:%03d:" % (writer, turn) + bytes([65 + writer]) * 117)

    writers = [Task(append_twenty_times, writer) for writer in range(3)]
    for writer in writers:
        writer.result()
    content = store.read(path)
    records = [content[at : at + 123] for at in range(0, len(content), 123)]
    expected = [
        b"%d:%03d:" % (writer, turn) + bytes([65 + writer]) * 117
        for writer in range(3)
        for turn in range(20)
    ]
    assert sorted(records) == expected


JOURNAL = """
import struct
turn = first
out = fs.append(path) if fs.exists(path) else fs.create(path)
with open(acknowledged, 'ab', 0) as acknowledgements:
    while True:
        record = struct.pack('>I', turn) * 25
        out.write(record)
        if turn % 3 == 0:
            out.hsync()
            acknowledgements.write(struct.pack('>I', turn))
        turn += 1
"""


def replay(content: bytes) -> list[int]:
    """The records of the journal; a torn one can only be the last."""
    whole = [content[at : at + 100] for at in range(0, len(content) - len(content) % 100, 100)]
    numbers = [struct.unpack(">I", record[:4])[0] for record in whole]
    assert whole == [struct.pack(">I", number) * 25 for number in numbers]
    return numbers


@pytest.mark.rule("APPEND-16", "HFLUSH-11")
@pytest.mark.stores("raw", "hdfs")
def test_a_journal_survives_its_writer_and_goes_on(store: Store, path: str, tmp_path):
    """kill -9, replay to the last synced record, append, replay again: all records once."""
    acknowledged = store.scratch("acknowledged")
    first = 0
    for _ in range(3):
        synced_before = os.path.getsize(acknowledged) if os.path.exists(acknowledged) else 0
        writer = store.spawn()
        writer.begin(JOURNAL, path=path, first=first, acknowledged=acknowledged)
        wait_until(
            lambda before=synced_before: (
                os.path.exists(acknowledged) and os.path.getsize(acknowledged) >= before + 40
            ),
            "ten synced records",
        )
        assert writer.kill() == -signal.SIGKILL
        numbers = replay(store.read(path))
        with open(acknowledged, "rb") as file:
            last_synced = struct.unpack(">I", file.read()[-4:])[0]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > last_synced
        store.take_over(path)
        store.fs.truncate(path, 100 * len(numbers))
        store.settle(path)
        first = len(numbers)


@pytest.mark.rule("APPEND-17")
@pytest.mark.stores("raw", "hdfs")
def test_append_can_be_switched_off(store: Store, path: str):
    """With append off in the configuration it is refused as where it is not offered."""
    store.write(path, b"old")
    fs = hflush.FileSystem.new_instance(store.url(), {**store.conf, "dfs.support.append": "false"})
    assert fs.has_path_capability(path, "fs.capability.paths.append") is False
    for append in APPENDERS.values():
        with pytest.raises(io.UnsupportedOperation):
            append(fs, path)
    assert store.read(path) == b"old"
    fs.close()
