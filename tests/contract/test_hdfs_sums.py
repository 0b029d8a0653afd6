"""HDFS: a replica that has lost its checksums is not taken for one that never had any."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.data import dataset
from support.stores import HdfsStore

SIZE = 100_000

pytestmark = pytest.mark.stores("hdfs")


def lose_sums(store: HdfsStore, path: str, replicas: int) -> list[Path]:
    """Remove the .meta files of so many replicas of a file's block, and change a byte of each."""
    store.hdfs.wait_replicated(path)
    block = store.hdfs.block(path)
    files = [store.hdfs.block_file(port, block) for port in store.hdfs.java.hosts(path)[0]]
    for file in files[:replicas]:
        meta = file.with_name(f"{file.name}_{block.getGenerationStamp()}.meta")
        meta.unlink()
        content = bytearray(file.read_bytes())
        content[SIZE // 2] ^= 1
        file.write_bytes(content)
    return files


@pytest.mark.rule("READ-16", "READ-17")
@pytest.mark.parametrize("lost", [1, 2])
def test_a_replica_without_checksums_is_passed_over(store: HdfsStore, path: str, lost: int) -> None:
    """Whoever is asked first: what is returned was verified."""
    store.write(path, dataset(SIZE))
    lose_sums(store, path, lost)
    for _ in range(8):  # replicas come in any order
        assert store.read(path) == dataset(SIZE)
        with store.fs.open(path) as file:
            assert file.pread(SIZE // 2, 10) == dataset(SIZE)[SIZE // 2 : SIZE // 2 + 10]


@pytest.mark.rule("READ-16")
def test_where_every_replica_is_without_they_are_believed(store: HdfsStore, path: str) -> None:
    """A file that was written without checksums cannot be told from one that has lost them all."""
    with store.fs.create_file(path).checksum("NULL").build() as out:
        out.write(dataset(SIZE))
    store.hdfs.wait_replicated(path)
    assert store.read(path) == dataset(SIZE)
    with store.fs.append(path) as out:
        out.write(b"more")
    assert store.read(path) == dataset(SIZE) + b"more"


@pytest.mark.rule("READ-16", "APPEND-1")
def test_append_goes_on_with_the_checksums_of_the_others(store: HdfsStore, path: str) -> None:
    """A new block after a full one: its sums are those of the file, as Java sees them."""
    block_size = 1 << 20
    data = dataset(block_size)
    with store.fs.create(path, block_size=block_size, replication=3) as out:
        out.write(data)
    store.hdfs.wait_replicated(path)
    block = store.hdfs.block(path)
    files = [store.hdfs.block_file(port, block) for port in store.hdfs.java.hosts(path)[0]]
    for file in files[:2]:
        file.with_name(f"{file.name}_{block.getGenerationStamp()}.meta").unlink()
    for _ in range(4):
        with store.fs.append(path) as out:
            out.write(b"x")
    last = store.hdfs.block(path, 1)
    for port in store.hdfs.java.hosts(path)[1]:
        file = store.hdfs.block_file(port, last)
        meta = file.with_name(f"{file.name}_{last.getGenerationStamp()}.meta").read_bytes()
        assert meta[2] == 2  # CRC32C: version, then type and bytes per sum
        assert len(meta) > 7
    assert store.read(path) == data + b"xxxx"


@pytest.mark.rule("READ-16")
def test_reading_unverified_is_one_s_own_choice(store: HdfsStore, path: str) -> None:
    """Without verification the bytes come as they are, from anybody."""
    store.write(path, dataset(SIZE))
    lose_sums(store, path, 3)
    fs = store.new_client()
    fs.set_verify_checksum(False)
    with fs.open(path) as file:
        assert len(file.read()) == SIZE
    fs.close()
