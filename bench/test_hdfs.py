"""HDFS, beside Hadoop's own client and hdfs-native: see hdfs_cluster.py for what they run on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hdfs_cluster import JAVA, MIB, NATIVE, OURS, Answer, ContenderError, HdfsBench, WireSpeed
from interleaved import Quantity, Target

GIB = 1 << 30
RECORD = 1024
SEND = "send of 1 MiB"
IDLE_STREAMS = 1000
# Their blocks reserve their full size on the DataNodes.
IDLE_SETTINGS = {"dfs.blocksize": str(MIB)}
# Beside an earlier commit: as good, within what a run can tell.
AS_FAST, AS_MUCH = 0.98, 1.02


@pytest.mark.parametrize("replication", [1, 3])
def test_write(hdfs: HdfsBench, ratios: Callable[..., None], quick: bool, replication: int) -> None:
    """From create until every byte of 512 MiB is acknowledged."""
    nbytes = (128 if quick else 512) * MIB

    def trial(name: str) -> Answer:
        answer = hdfs.order_and_remove(name, "write", replication, nbytes, MIB)
        return {"seconds": answer["seconds"], "cpu": answer["cpu"] * GIB / nbytes}

    about = f"1 MiB writes, replication {replication}"
    ratios(
        [
            Quantity(
                "seconds",
                f"{about}: throughput",
                [Target(name, speed_at_least=1.1) for name in (JAVA, NATIVE)]
                + [Target(name, speed_at_least=AS_FAST) for name in hdfs.earlier],
                nbytes=nbytes,
            ),
            Quantity(
                "cpu",
                f"{about}: client CPU",
                [Target(name, time_at_most=0.5) for name in (JAVA, NATIVE)]
                + [Target(name, time_at_most=AS_MUCH) for name in hdfs.earlier],
                unit="s/GiB",
            ),
        ],
        ours=partial(trial, OURS),
        peers={name: partial(trial, name) for name in (JAVA, NATIVE, *hdfs.earlier)},
    )


def test_wire_speed(wire_speed: WireSpeed, ratios: Callable[..., None], quick: bool) -> None:
    """What the client alone could do: servers that cost next to nothing."""
    nbytes = (256 if quick else 1024) * MIB

    def trial(run: Callable[[int], Answer]) -> Answer:
        answer = run(nbytes)
        return {"seconds": answer["seconds"], "cpu": answer["cpu"] * GIB / nbytes}

    about = "1 MiB writes into servers at wire speed"
    ratios(
        [
            Quantity(
                "seconds",
                f"{about}: throughput",
                [Target(SEND, speed_at_least=0.7)],
                nbytes=nbytes,
            ),
            Quantity("cpu", f"{about}: client CPU", unit="s/GiB"),
        ],
        ours=partial(trial, wire_speed.write),
        peers={SEND: partial(trial, wire_speed.send)},
        rounds=15,
    )


@pytest.mark.parametrize("replication", [1, 3])
def test_hflush(
    hdfs: HdfsBench, ratios: Callable[..., None], quick: bool, replication: int
) -> None:
    """One record after the other, each visible to every new reader before the next."""
    records = 500 if quick else 2000

    def trial(name: str) -> Answer:
        answer = hdfs.order(name, "sync", replication, records, RECORD, "hflush")
        return {**answer, "cpu": answer["cpu"] * 1e6 / records}

    about = f"write of 1 KiB + hflush, replication {replication}"
    as_before = [Target(name, time_at_most=AS_MUCH) for name in hdfs.earlier]
    ratios(
        [
            Quantity(rank, f"{about}: {rank}", [Target(JAVA, time_at_most=0.8), *as_before])
            for rank in ("p50", "p99")
        ]
        + [Quantity("cpu", f"{about}: client CPU", as_before, unit="µs")],
        ours=partial(trial, OURS),
        peers={name: partial(trial, name) for name in (JAVA, *hdfs.earlier)},
        rounds=15,
    )


def test_group_commit(hdfs_on_disk: HdfsBench, ratios: Callable[..., None], quick: bool) -> None:
    """Sixteen threads that log to one stream, each record durable on three DataNodes' disks."""
    threads, records = 16, 20 if quick else 60

    def trial(name: str) -> Answer:
        return hdfs_on_disk.order(name, "group", 3, threads, records, RECORD)

    ratios(
        [
            Quantity(
                "seconds",
                "1 KiB + hsync, 16 threads on one stream, replication 3, data on disk",
                [Target(JAVA, speed_at_least=3.0)],
                operations=threads * records,
            )
        ],
        ours=partial(trial, OURS),
        peers={JAVA: partial(trial, JAVA)},
        rounds=15,
    )


@pytest.mark.parametrize("threads", [1, 16])
def test_small_files(
    hdfs: HdfsBench, ratios: Callable[..., None], quick: bool, threads: int
) -> None:
    """Create, 1 KiB, close: ten times a thousand files; ten or so of hdfs-native's."""
    files = dict.fromkeys((OURS, JAVA, *hdfs.earlier), 100 if quick else 1000)
    # Each of its files waits 0.4 s for the second `complete`, and nothing shortens that.
    files[NATIVE] = 10 * threads

    def trial(name: str) -> Answer:
        answer = hdfs.order(name, "files", 3, files[name], threads)
        each = {key: answer[key] / files[name] for key in ("seconds", "cpu")}
        return {**each, "cpu": each["cpu"] * 1e6}

    with_threads = "1 thread" if threads == 1 else f"{threads} threads"
    about = f"small files: create, 1 KiB, close; {with_threads}"
    ratios(
        [
            Quantity(
                "seconds",
                about,
                [Target(name, speed_at_least=1.2) for name in (JAVA, NATIVE)]
                + [Target(name, time_at_most=AS_MUCH) for name in hdfs.earlier],
            ),
            Quantity(
                "cpu",
                f"{about}: client CPU",
                [Target(name, time_at_most=AS_MUCH) for name in hdfs.earlier],
                unit="µs",
            ),
        ],
        ours=partial(trial, OURS),
        peers={name: partial(trial, name) for name in (JAVA, NATIVE, *hdfs.earlier)},
    )


def test_read(hdfs: HdfsBench, ratios: Callable[..., None], quick: bool) -> None:
    """One stream from start to end, checksums verified."""
    nbytes = (128 if quick else 512) * MIB
    path = hdfs.new_path()
    hdfs.order_at(path, JAVA, "write", 1, nbytes, MIB)

    def trial(name: str) -> Answer:
        answer = hdfs.order_at(path, name, "read", MIB)
        assert answer["bytes"] == nbytes
        return {"seconds": answer["seconds"], "cpu": answer["cpu"] * GIB / nbytes}

    for _ in range(1 if quick else 5):  # until Java's reader is compiled
        trial(JAVA)
    ratios(
        [
            Quantity(
                "seconds",
                "sequential read: throughput",
                [Target(name, speed_at_least=1.1) for name in (JAVA, NATIVE)],
                nbytes=nbytes,
            ),
            Quantity(
                "cpu",
                "sequential read: client CPU",
                [Target(name, time_at_most=0.6) for name in (JAVA, NATIVE)],
                unit="s/GiB",
            ),
        ],
        ours=partial(trial, OURS),
        peers={name: partial(trial, name) for name in (JAVA, NATIVE)},
    )
    hdfs.remove(path)


@pytest.mark.parametrize("size", [0, RECORD], ids=["opened", "with-a-block"])
def test_idle_streams(hdfs: HdfsBench, figure: Callable[..., None], size: int) -> None:
    """A thousand streams that wait: opened only, and with a pipeline that stands."""
    work: str | None = f"{IDLE_STREAMS:,} idle open streams" + (", each in a block" if size else "")
    for name in (OURS, NATIVE, JAVA):
        with hdfs.child(name, IDLE_SETTINGS) as child:
            child.order("files", hdfs.new_path(), 1, 10, 1)  # what the process needs once
            try:
                for _ in range(2):  # the first half fills what the process had free
                    held = child.order("hold", hdfs.new_path(), IDLE_STREAMS // 2, size, 1)
            except ContenderError:
                if name == OURS:
                    raise
                figure(f"memory per stream, {name}", None, "KiB")
                continue
        of = "" if name == OURS else f", {name}"
        limits = (16.0, 3.0) if name == OURS else (None, None)
        kib = held["bytes"] / (IDLE_STREAMS // 2) / 1024
        figure(f"memory per stream{of}", kib, "KiB", at_most=limits[0], work=work)
        figure(f"threads, the caller's among them{of}", held["threads"], "", at_most=limits[1])
        work = None
