"""HDFS: what streams leave behind in their process after they failed, or recovered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from support.minidfs import Hdfs
from support.peer import Peer
from support.waiting import wait_until

BATCH = 100
# What may be more, whatever the number of streams: pools and caches that grow once. A stream's
# history alone is a KiB or two.
ALLOWED = {"bytes": 40_000, "objects": 200}
SETTINGS = {
    "dfs.client.block.write.replace-datanode-on-failure.best-effort": "true",
    # The lease of a file whose stream has failed is given back two seconds later, not a minute:
    # when another file is opened, for without one the lease ends by itself.
    "ipc.client.rpc-timeout.ms": 2000,
}

BEGIN = """
import ctypes, gc, sys
from support.process import connections, open_files, thread_names

class InUse(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = InUse

def left(ports):
    gc.collect()
    native = libc.mallinfo2()
    return {
        "threads": thread_names(),
        "files": len(open_files()),
        "connections": connections(ports),
        "bytes": native.uordblks + native.hblkhd,
        "objects": sys.getallocatedblocks(),
    }

result = None
"""
CREATE = """
streams = []
for number in range(count):  # small blocks: DataNodes reserve their whole size
    path = f"{directory}/{number}"
    streams.append(fs.create(path, replication=replication, block_size=1 << 20))
for out in streams:
    out.write(b"x" * 1000)
    out.hflush()
"""
GO_ON = """
import contextlib, hflush
result = [0, 0]
for out in streams:
    try:
        out.write(b"y" * 1000)
        out.hflush()
        result[0] += out.io_statistics().counters["hdfs_pipeline_recoveries"]
        out.close()
    except hflush.PipelineError:
        result[1] += 1
        with contextlib.suppress(hflush.PipelineError):
            out.close()
del streams, out
"""

pytestmark = [pytest.mark.places, pytest.mark.stores("hdfs")]


@pytest.fixture
def peer(hdfs_cluster: Hdfs) -> Iterator[Peer]:
    """A process that does nothing else."""
    peer = Peer(hdfs_cluster.url, {**hdfs_cluster.conf, **SETTINGS})
    peer.run(BEGIN)
    yield peer
    if peer.alive:
        peer.kill()


def recovered(hdfs: Hdfs, peer: Peer, directory: str) -> None:
    """Streams of three DataNodes lose one, and go on."""
    peer.run(CREATE, directory=directory, replication=3, count=BATCH)
    with hdfs.stopped(hdfs.ports[0]):
        assert peer.run(GO_ON) == [BATCH, 0]


def failed(hdfs: Hdfs, peer: Peer, directory: str) -> None:
    """Streams lose the only DataNode that each of them has."""
    peer.run(CREATE, directory=directory, replication=1, count=BATCH)
    with ExitStack() as stopped:
        for port in hdfs.ports:
            stopped.enter_context(hdfs.stopped(port))
        assert peer.run(GO_ON) == [0, BATCH]


@pytest.mark.slow
@pytest.mark.rule("LIM-3", "HDFS-10", "FAIL-13")
@pytest.mark.parametrize("end", [recovered, failed])
@pytest.mark.parametrize(
    "batches", [3, pytest.param(10, marks=pytest.mark.exhaustive)], ids=["few", "many"]
)
def test_nothing_is_left(
    hdfs_cluster: Hdfs, peer: Peer, batches: int, end: Callable[[Hdfs, Peer, str], None]
) -> None:
    """Threads, descriptors, native memory and Python's objects are what they were."""
    root, ports = hdfs_cluster.root(), hdfs_cluster.ports

    def left() -> dict[str, Any]:
        peer.run("fs.create(path).close()", path=f"{root}/other")
        found: dict[str, Any] = peer.run("result = left(ports)", ports=ports)
        return found

    def grown(what: str) -> int:
        return int(left()[what]) - int(before[what])

    for number in range(3):  # from then on allocators and pools have what they want
        end(hdfs_cluster, peer, f"{root}/warm-{number}")
    wait_until(lambda: not left()["connections"], "no connection to a DataNode")
    before = left()
    for number in range(batches):
        end(hdfs_cluster, peer, f"{root}/{number}")
    for what, most in ALLOWED.items():
        wait_until(lambda what=what, most=most: grown(what) <= most, f"no {what} left")
    for what in ("threads", "files", "connections"):
        assert left()[what] == before[what]
    hdfs_cluster.java.delete(root)
