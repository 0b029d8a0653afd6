"""HDFS: what the DataNodes receive, as their own log has it."""

from __future__ import annotations

import re
from pathlib import Path

import hflush
import pytest
from support.data import dataset
from support.minidfs import NewHdfs, Packet
from support.relay import Relay
from support.stores import HdfsStore
from support.waiting import Task, wait_until

MIB = 1 << 20
CHUNK = 512
PACKET = 64 << 10
PACKET_DATA = 126 * CHUNK  # what fits into 64 KiB beside header and sums
LARGEST_PACKET = 16 << 20
META_HEADER = 7

pytestmark = pytest.mark.stores("hdfs")


def spans(packets: list[Packet]) -> list[tuple[int, int]]:
    """The packets as (offset, length)."""
    return [(packet.offset, packet.length) for packet in packets]


@pytest.mark.rule("HDFS-7", "HDFS-12")
def test_packets_are_whole_chunks(store: HdfsStore, path: str) -> None:
    """200,000 bytes go out as full packets of whole chunks, a rest, and an empty last packet."""
    with store.hdfs.packets() as packets, store.fs.create(path, replication=1) as out:
        out.write(dataset(200_000))
    *data, last = packets
    rest = 200_000 % PACKET_DATA
    expected = [(start, PACKET_DATA) for start in range(0, 200_000 - rest, PACKET_DATA)]
    assert spans(data) == [*expected, (200_000 - rest, rest)]
    assert (last.offset, last.length, last.is_last) == (200_000, 0, True)
    assert [packet.sequence_number for packet in packets] == list(range(len(packets)))
    assert not any(packet.is_last or packet.syncs for packet in data)
    for packet in data:
        assert packet.length + 4 * -(-packet.length // CHUNK) < PACKET
    assert store.content(path) == dataset(200_000)


@pytest.mark.rule("HDFS-7")
@pytest.mark.parametrize(("asked", "bytes_per_checksum"), [("64m", 512), ("1", 512), ("9k", 4096)])
def test_configured_packet_sizes(
    store: HdfsStore, path: str, asked: str, bytes_per_checksum: int
) -> None:
    """A huge packet size is clamped to what receivers take; a tiny one still holds one chunk."""
    fs = store.hdfs.file_system(
        {"dfs.client-write-packet-size": asked, "dfs.bytes-per-checksum": bytes_per_checksum}
    )
    data = dataset(20 * MIB if asked == "64m" else 30_000)
    with store.hdfs.packets() as packets, fs.create(path, replication=1) as out:
        out.write(data)
    longest = max(packet.length for packet in packets)
    assert longest % bytes_per_checksum == 0
    assert bytes_per_checksum <= longest < LARGEST_PACKET
    if asked == "64m":
        assert longest > LARGEST_PACKET // 2
    assert store.content(path) == data
    fs.close()


@pytest.mark.rule("HDFS-7", "CREATE-14")
def test_blocks_of_more_than_2_gib(store: HdfsStore, path: str) -> None:
    """A block size of 3 GiB is a block size as any other."""
    with store.fs.create(path, block_size=3 << 30) as out:
        out.write(dataset(100_000))
        out.hflush()
    assert store.fs.get_file_status(path).block_size == 3 << 30
    assert store.content(path) == dataset(100_000)


@pytest.mark.rule("CREATE-14", "HDFS-7")
def test_block_sizes_that_are_no_multiple_of_a_chunk(store: HdfsStore, path: str) -> None:
    """Refused, as Hadoop does, with both numbers; nothing is made."""
    with pytest.raises(ValueError, match=r"1000.*512|512.*1000"):
        store.fs.create(path, block_size=1000)
    assert store.on_disk() == []


@pytest.mark.rule("HDFS-8")
def test_packets_are_sent_before_earlier_ones_are_acked(store: HdfsStore, path: str) -> None:
    """With acks withheld, a window of packets goes out; what is unacked is kept until the ack."""
    out = store.fs.create(path, replication=1)
    out.write(b"x" * CHUNK)
    out.hflush()
    with store.hdfs.acks_delayed(2000):
        writing = Task(out.write, bytes(2 * MIB))
        wait_until(
            lambda: out.io_statistics().counters["hdfs_packets_sent"] >= 20, "20 packets are sent"
        )
        counters = out.io_statistics().counters
        assert counters["hdfs_acks"] < counters["hdfs_packets_sent"]
        writing.result()
    out.close()
    counters = out.io_statistics().counters
    assert counters["hdfs_acks"] == counters["hdfs_packets_sent"]
    assert store.size(path) == 2 * MIB + CHUNK


@pytest.mark.rule("HDFS-12", "HDFS-20")
def test_blocks_are_full_but_for_the_last(store: HdfsStore, path: str) -> None:
    """2.5 blocks: each is packets from 0 to its length and an empty last one; lengths [B, B, B/2].

    A packet does not span blocks: the last of a block is as short as needed.
    """
    with (
        store.hdfs.packets() as packets,
        store.fs.create(path, replication=1, block_size=MIB) as out,
    ):
        out.write(dataset(5 * MIB // 2))
    assert store.hdfs.java.block_lengths(path) == [MIB, MIB, MIB // 2]
    blocks = list(dict.fromkeys(packet.block for packet in packets))
    assert len(blocks) == 3
    for block, length in zip(blocks, [MIB, MIB, MIB // 2], strict=True):
        *data, last = (packet for packet in packets if packet.block == block)
        assert last.is_last
        assert (last.offset, last.length) == (length, 0)
        assert [packet.offset for packet in data] == list(range(0, length, PACKET_DATA))
        assert sum(packet.length for packet in data) == length
    assert store.content(path) == dataset(5 * MIB // 2)


@pytest.mark.rule("HDFS-13")
def test_a_flushed_partial_chunk_is_sent_again(store: HdfsStore, path: str) -> None:
    """10 bytes, hflush, 10 bytes, hflush: the second packet begins at the chunk's own start."""
    with store.hdfs.packets() as packets, store.fs.create(path, replication=1) as out:
        for size in (10, 10, 1000, 1):
            out.write(dataset(size))
            out.hflush()
    assert spans(packets) == [(0, 10), (0, 20), (0, 1020), (512, 509), (1021, 0)]
    assert store.content(path) == dataset(10) * 2 + dataset(1000) + dataset(1)


@pytest.mark.rule("HDFS-14")
def test_hsync_marks_its_packet(store: HdfsStore, path: str) -> None:
    """The packet with the last bytes carries the flag; with nothing pending, an empty one does."""
    with store.hdfs.packets() as packets:
        out = store.fs.create(path, replication=1)
        out.write(dataset(100))
        out.hsync()
        out.write(dataset(100))
        out.hflush()
        out.hsync()
        out.close()
    assert [(packet.length, packet.syncs) for packet in packets[:2]] == [(100, True), (200, False)]
    assert any(packet.syncs for packet in packets[2:])
    assert (packets[-1].is_last, packets[-1].syncs) == (True, True)


@pytest.mark.rule("HDFS-14")
def test_sync_block_marks_the_end_of_each_block(store: HdfsStore, path: str) -> None:
    """With SYNC_BLOCK the packet that ends a block carries the flag, and no other does."""
    flags = {hflush.CreateFlag.CREATE, hflush.CreateFlag.SYNC_BLOCK}
    with (
        store.hdfs.packets() as packets,
        store.fs.create(path, replication=1, block_size=MIB, flags=flags) as out,
    ):
        out.write(dataset(3 * MIB // 2))
    assert [packet.syncs for packet in packets if packet.is_last] == [True, True]
    assert not any(packet.syncs for packet in packets if not packet.is_last)


@pytest.mark.rule("BUILDER-17", "HDFS-16")
@pytest.mark.parametrize(
    ("kind", "bytes_per_checksum"), [("CRC32C", 512), ("CRC32", 512), ("CRC32C", 4096)]
)
def test_the_client_sums_and_the_data_nodes_keep(
    store: HdfsStore, path: str, kind: str, bytes_per_checksum: int
) -> None:
    """Every DataNode has our sums beside the data, of the type and size that were asked for."""
    data = dataset(10_000)
    with store.fs.create(
        path, checksum_type=kind, bytes_per_checksum=bytes_per_checksum, block_size=MIB
    ) as out:
        out.write(data)
    store.hdfs.wait_replicated(path)
    block = store.hdfs.block(path)
    for port in store.hdfs.ports:
        file = store.hdfs.block_file(port, block)
        (meta,) = file.parent.glob(f"{file.name}_*.meta")
        assert file.read_bytes() == data
        assert sums_in(meta) == hflush.crc.chunked_sums(data, bytes_per_checksum, kind)
    assert store.content(path) == store.read(path) == data


def sums_in(meta: Path) -> bytes:
    return meta.read_bytes()[META_HEADER:]


@pytest.mark.rule("HDFS-16", "HDFS-9", "FAIL-2")
def test_bytes_that_change_on_the_way(hdfs_new: NewHdfs) -> None:
    """The only DataNode finds it: the stream fails, and what was changed is never read."""
    host = {"dfs.datanode.hostname": "127.0.0.2", "dfs.replication": 1}
    hdfs = hdfs_new(1, host, checkDataNodeHostConfig=True)
    fs = hdfs.file_system({"dfs.client.use.datanode.hostname": True, "dfs.replication": 1})
    (port,) = hdfs.ports
    with Relay(("127.0.0.1", port), "127.0.0.2", port) as relay:
        out = fs.create("/file")
        out.write(b"as it is")
        out.hflush()
        assert b"as it is" in relay.sent
        relay.change = lambda data: data.replace(b"as it was", b"as it had")
        out.write(b", not as it was")
        with pytest.raises(OSError, match="ERROR_CHECKSUM") as caught:
            out.hflush()
        assert caught.value.filename == "/file"
        with pytest.raises(OSError, match="ERROR_CHECKSUM"):
            out.close()
    hdfs.recover_lease("/file")
    assert hdfs.java.read("/file") == b"as it is"
    fs.close()


@pytest.mark.rule("HDFS-18")
def test_a_slow_writer_keeps_its_pipeline(store: HdfsStore, hdfs_new: NewHdfs) -> None:
    """Heartbeats keep a pipeline whose DataNodes drop idle writers after two seconds."""
    settings = {"dfs.client.socket-timeout": 2000, "dfs.replication": 2}
    hdfs = hdfs_new(2, settings)
    fs = hdfs.file_system(settings)
    out = fs.create("/slow")
    out.write(b"one")
    out.hflush()
    wait_until(
        lambda: out.io_statistics().counters["hdfs_heartbeats"] >= 4, "four heartbeats are sent"
    )
    out.write(b"two")
    out.hflush()
    out.close()
    counters = out.io_statistics().counters
    assert counters["hdfs_pipelines"] == 1
    assert hdfs.java.read("/slow") == b"onetwo"
    fs.close()


@pytest.mark.rule("HDFS-23")
def test_congested_data_nodes(hdfs_new: NewHdfs) -> None:
    """DataNodes that say in every ack that they are congested: slower, and nothing is lost."""
    settings = {"dfs.pipeline.ecn": "true", "dfs.pipeline.congestion.ratio": 0.0001}
    hdfs = hdfs_new(1, {**settings, "dfs.pipeline.slownode": "true", "dfs.replication": 1})
    delays = {
        "dfs.client.congestion.backoff.mean.time": 10,
        "dfs.client.congestion.backoff.max.time": 20,
    }
    fs = hdfs.file_system({"dfs.replication": 1, **delays})
    with fs.create("/congested", block_size=MIB) as out:
        for turn in range(20):
            out.write(dataset(200_000, turn))
            out.hflush()
    assert out.io_statistics().counters["hdfs_congestion_delays"] >= 19
    assert hdfs.java.read("/congested") == b"".join(dataset(200_000, turn) for turn in range(20))
    fs.close()


@pytest.mark.rule("DROP-1", "DROP-3", "DROP-4")
@pytest.mark.parametrize(
    ("setting", "logged"), [(True, "true"), (False, "false"), (None, "null")], ids=str
)
def test_drop_behind_goes_to_the_data_node(
    store: HdfsStore, path: str, setting: bool | None, logged: str
) -> None:
    """The value is in the caching strategy of the next block; content and visibility stay."""
    assert store.capable("dropbehind")
    out = store.fs.create(path, replication=1, block_size=MIB)
    with store.hdfs.logging("server.datanode.DataNode") as log:
        out.set_drop_behind(setting)
        out.write(dataset(MIB + 1))
        out.hflush()
        assert store.content(path) == dataset(MIB + 1)
        out.close()
    assert re.findall(r"dropBehind=(\w+)", log.text)[:2] == [logged] * 2
    assert store.content(path) == dataset(MIB + 1)


@pytest.mark.rule("DROP-5", "HFLUSH-13")
def test_drop_behind_of_a_failed_stream(store: HdfsStore, path: str) -> None:
    """A stream that can no longer set anything says so: OSError."""
    out = store.fs.create(path, replication=1)
    out.write(b"one")
    out.hflush()
    with store.hdfs.stopped(store.hdfs.java.hosts(path)[0][0]):
        with pytest.raises(OSError, match=r"127\.0\.0\.1"):
            write_and_flush(out)
        with pytest.raises(OSError, match="set_drop_behind: the stream is failed") as refusal:
            out.set_drop_behind(True)
        assert refusal.value.filename == path
        with pytest.raises(OSError, match=r"127\.0\.0\.1"):
            out.close()
    store.hdfs.recover_lease(path)


def write_and_flush(out: hflush.FSDataOutputStream) -> None:
    out.write(b"two")
    out.hflush()


@pytest.mark.rule("DROP-7")
def test_drop_behind_checks_its_argument(store: HdfsStore, path: str) -> None:
    """Neither bool nor None is a TypeError; on a closed stream it is StreamClosedError."""
    out = store.fs.create(path)
    for wrong in (1, 0, "true", b""):
        with pytest.raises(TypeError):
            out.set_drop_behind(wrong)
    out.write(b"ok")
    out.close()
    with pytest.raises(hflush.StreamClosedError) as refusal:
        out.set_drop_behind(True)
    assert refusal.value.filename == path
    assert store.content(path) == b"ok"


@pytest.mark.rule("BUILDER-12")
@pytest.mark.parametrize(
    ("method", "flag"),
    [
        ("lazy_persist", hflush.CreateFlag.LAZY_PERSIST),
        ("replicate", hflush.CreateFlag.SHOULD_REPLICATE),
    ],
)
def test_flags_go_to_the_name_node(
    store: HdfsStore, path: str, method: str, flag: hflush.CreateFlag
) -> None:
    """A flag set by the builder or by name is in the NameNode's log, and the file is written."""
    with store.hdfs.logging("StateChange") as log:
        create_by_builder_and_by_flag(store.fs, path, method, flag)
        store.write(f"{path}-plain", b"anywhere")
    asked = re.findall(r"createFlag=\[?([\w, ]+)", log.text)
    assert [flag.name in each for each in asked] == [True, True, False]
    for name in (path, f"{path}-by-flag", f"{path}-plain"):
        assert store.content(name) == b"anywhere"


def create_by_builder_and_by_flag(
    fs: hflush.FileSystem, path: str, method: str, flag: hflush.CreateFlag
) -> None:
    builder = getattr(fs.create_file(path).overwrite(True), method)()
    with builder.build() as out:
        out.write(b"anywhere")
    flags = hflush.CreateFlag.CREATE | hflush.CreateFlag.OVERWRITE | flag
    with fs.create(f"{path}-by-flag", flags=flags) as out:
        out.write(b"anywhere")


@pytest.mark.rule("BUILDER-12")
@pytest.mark.parametrize(
    ("method", "flag", "number"),
    [
        ("no_local_write", hflush.CreateFlag.NO_LOCAL_WRITE, 1),
        ("ignore_client_locality", hflush.CreateFlag.IGNORE_CLIENT_LOCALITY, 2),
    ],
)
def test_flags_go_with_each_block(
    store: HdfsStore, path: str, method: str, flag: hflush.CreateFlag, number: int
) -> None:
    """The NameNode does not log them: they are in the request for a block."""
    name_node = store.hdfs.cluster.name_node_port()
    with Relay(("127.0.0.1", name_node)) as relay:
        url = f"hdfs://127.0.0.1:{relay.port}"
        with hflush.FileSystem.new_instance(url, store.conf) as fs:
            create_by_builder_and_by_flag(fs, path, method, flag)
            with fs.create(f"{path}-plain") as out:
                out.write(b"anywhere")
        names = (path, f"{path}-by-flag", f"{path}-plain")
        requests = relay.sent.split(b"addBlock")[1:]
        asked = [flags_of(request, name) for request, name in zip(requests, names, strict=True)]
    assert asked == [[number], [number], []]


def flags_of(request: bytes, path: str) -> list[int]:
    """The flags (field 7) of an AddBlockRequestProto, which begins with the path (field 1)."""
    name = path.encode()
    start = request.index(bytes([0x0A, len(name)]) + name)
    length = request[start - 1]
    message = request[start : start + length]
    flags, at = [], 0
    while at < len(message):
        tag, at = varint(message, at)
        value, at = varint(message, at)
        if tag & 7 == 2:  # that many bytes
            at += value
        elif tag >> 3 == 7:
            flags.append(value)
    return flags


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


@pytest.mark.rule("BUILDER-12")
def test_favored_nodes_get_the_replicas(store: HdfsStore, path: str) -> None:
    """Favoured DataNodes keep the replicas; there may be fewer than replicas, or unknown ones."""
    for port in store.hdfs.ports:
        favored = [f"127.0.0.1:{port}"]
        builder = store.fs.create_file(path).overwrite(True).replication(1).favored_nodes(favored)
        with builder.build() as out:
            out.write(b"here")
        assert store.hdfs.java.hosts(path) == [[port]]
    builder = store.fs.create_file(path).overwrite(True).favored_nodes(["127.0.0.1:1"])
    with builder.build() as out:
        out.write(b"anywhere")
    assert store.content(path) == b"anywhere"


@pytest.mark.rule("HSYNC-17", "HDFS-12", "HDFS-14")
def test_a_block_that_hsync_ends(store: HdfsStore, path: str) -> None:
    """Its last packet is empty and carries the sync; the next block's chunks begin with it."""
    with store.hdfs.packets() as packets, store.fs.create(path, replication=1) as out:
        out.write(dataset(700))
        out.hflush()
        out.hsync(end_block=True)  # no byte is new
        out.hsync(end_block=True)
        out.write(dataset(10))
        out.hflush()
        out.write(dataset(600))
        out.hsync(end_block=True)
        out.write(dataset(5))
    assert spans(packets) == [
        *[(0, 700), (700, 0)],
        *[(0, 10), (0, 610), (610, 0)],
        *[(0, 5), (5, 0)],
    ]
    lasts = [packet for packet in packets if packet.is_last]
    assert [(packet.offset, packet.syncs) for packet in lasts] == [
        (700, True),
        (610, True),
        (5, True),
    ]
    assert len({packet.block for packet in packets}) == 3
    assert store.hdfs.java.block_lengths(path) == [700, 610, 5]
    assert store.content(path) == dataset(700) + dataset(10) + dataset(600) + dataset(5)


@pytest.mark.rule("BUILDER-12", "APPEND-8")
def test_new_block(store: HdfsStore, path: str) -> None:
    """NEW_BLOCK begins a block instead of filling up the last: lengths [B, B/2, B/4]."""
    with store.fs.create(path, block_size=MIB) as out:
        out.write(dataset(MIB + MIB // 2))
    with store.fs.append(path, flags={hflush.CreateFlag.NEW_BLOCK}) as out:
        assert out.tell() == MIB + MIB // 2
        out.write(dataset(MIB // 4))
        out.hflush()
        assert store.size(path) == MIB + MIB // 2 + MIB // 4
    assert store.hdfs.java.block_lengths(path) == [MIB, MIB // 2, MIB // 4]
    with store.fs.append_file(path).new_block().build() as out:
        out.write(b"x")
    assert store.hdfs.java.block_lengths(path) == [MIB, MIB // 2, MIB // 4, 1]
    expected = dataset(MIB + MIB // 2) + dataset(MIB // 4) + b"x"
    assert store.content(path) == store.read(path) == expected
