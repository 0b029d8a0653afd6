"""HDFS: a create or append that is interrupted leaves no file open, whenever that happens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import hflush
import pytest
from support import rude_servers
from support.data import dataset
from support.interrupts import interrupted
from support.stores import HdfsStore
from support.waiting import wait_until

MIB = 1 << 20

# A lost call is repeated after some two seconds: the interrupt comes in the pause.
PAUSING = {
    "dfs.client.retry.policy.enabled": "true",
    "dfs.client.retry.policy.spec": "2000,20",
}

pytestmark = pytest.mark.stores("hdfs")


@pytest.mark.rule("FAIL-10", "HDFS-1", "CREATE-11")
@pytest.mark.parametrize("conf", [PAUSING, {}], ids=["in a pause", "while it waits"])
@pytest.mark.parametrize("answer_lost", [True, False])
@pytest.mark.parametrize("method", ["create", "append"])
def test_ctrl_c_leaves_no_open_file(
    store: HdfsStore, path: str, method: str, answer_lost: bool, conf: dict[str, object]
) -> None:
    """The call was carried out and its answer lost, or it never arrived; another client writes."""
    old = b""
    if method == "append":
        old = b"old "
        store.write(path, old)
    target = ("127.0.0.1", store.hdfs.cluster.name_node_port())
    losses = 1 if conf else 0
    with rude_servers.name_node_proxy(
        target, method, answer_lost=answer_lost, times=losses
    ) as proxy:
        fs = hflush.FileSystem.new_instance(proxy.server.url, conf)
        with nullcontext() if conf else store.hdfs.paused(), pytest.raises(KeyboardInterrupt):
            interrupted(lambda: getattr(fs, method)(path))
        wait_until(lambda: is_written_by_another(store, path), "another client may write")
        fs.close()
    assert store.read(path) == old + b"new"


READS: dict[str, Callable[[hflush.FSDataInputStream], object]] = {
    "read": lambda reader: reader.read(6 * MIB),
    "readall": lambda reader: reader.read(),
    "readinto": lambda reader: reader.readinto(bytearray(6 * MIB)),
    "readline": lambda reader: reader.readline(),
}


@pytest.mark.rule("READ-4", "FAIL-8")
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_ctrl_c_in_a_read_loses_no_byte(
    store: HdfsStore, path: str, read: Callable[[hflush.FSDataInputStream], object]
) -> None:
    """What was buffered, or read before the interrupt, is what the next read returns."""
    data = b"x" * 8 * MIB + b"\n" + dataset(100)  # one line, longer than what sockets hold
    store.write(path, data)
    with store.fs.open(path, buffer_size=4096) as reader:
        assert reader.read(1000) == data[:1000]
        with store.hdfs.paused(), pytest.raises(KeyboardInterrupt):
            interrupted(lambda: read(reader))
        assert reader.tell() == 1000
        assert reader.readline() == data[1000 : 8 * MIB + 1]
        assert reader.read() == dataset(100)


@pytest.mark.rule("FAIL-1")
def test_ctrl_c_in_a_write_of_text_takes_nothing_along(store: HdfsStore, path: str) -> None:
    """Text that was written before is in the stream: io would lose what it holds back."""
    line = "x" * 99 + "\n"
    accepted = 0

    def write_on() -> None:
        nonlocal accepted
        while True:
            text.write(line)
            accepted += 1

    with hflush.open(store.url(path), "w", conf=store.conf) as text:
        with store.hdfs.paused(), pytest.raises(KeyboardInterrupt):
            interrupted(write_on)
        text.write("end")
    assert store.read(path) == line.encode() * accepted + b"end"


def is_written_by_another(store: HdfsStore, path: str) -> bool:
    """Write, unless the file is still open: the call may be carried out only now."""
    try:
        out = store.fs.append(path) if store.fs.exists(path) else store.fs.create(path)
    except hflush.LeaseHeldError:
        return False
    try:
        with out:
            out.write(b"new")
    except (hflush.LeaseLostError, FileNotFoundError):
        return False  # another file is there now: the call was carried out only now
    return store.read(path).endswith(b"new")
