"""HDFS with two NameNodes: the active one changes, or dies, under calls and open streams."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import hflush
import pytest
from support import rude_servers
from support.data import dataset
from support.minidfs import Hdfs
from support.waiting import DEADLINE_S, Task, wait_until

MIB = 1 << 20
QUICK = {"dfs.client.failover.sleep.base.millis": 50}

pytestmark = pytest.mark.stores("hdfs")


@pytest.fixture
def fs(hdfs_ha: Hdfs) -> Iterator[hflush.FileSystem]:
    with hdfs_ha.file_system(QUICK) as ours:
        yield ours


@pytest.fixture
def path(hdfs_ha: Hdfs) -> str:
    return f"{hdfs_ha.root()}/file"


def test_either_order(hdfs_ha: Hdfs, path: str) -> None:
    """Whichever NameNode is asked first, the active one answers."""
    for active in (1, 0):
        hdfs_ha.cluster.fail_over(1 - active, active)
        for _ in range(4):  # the order is random
            with hdfs_ha.file_system(QUICK) as fs:
                assert fs.mkdirs(f"{path}-{active}")
        with hdfs_ha.file_system({**QUICK, "dfs.client.failover.random.order": False}) as fs:
            assert fs.is_directory(f"{path}-{active}")


def test_safe_mode(hdfs_ha: Hdfs, path: str) -> None:
    """It is that of the active NameNode, whichever is asked first."""
    for active in (1, 0):
        hdfs_ha.cluster.fail_over(1 - active, active)
        with hdfs_ha.file_system({**QUICK, "dfs.client.failover.random.order": False}) as fs:
            try:
                assert fs.set_safe_mode("enter") is True
                with pytest.raises(OSError, match="safe mode"):
                    fs.mkdirs(path)
            finally:
                assert fs.set_safe_mode("leave") is False


@pytest.mark.rule("HDFS-26", "HDFS-22", "HSYNC-16", "HFLUSH-11")
def test_failover_under_open_streams(hdfs_ha: Hdfs, fs: hflush.FileSystem, path: str) -> None:
    """Streams go on: with blocks to come, about to close, just created, appending."""
    written = fs.create(path, block_size=MIB)
    written.write(dataset(MIB + 500))
    written.hflush()
    empty = fs.create(f"{path}-empty")
    with fs.create(f"{path}-appended") as out:
        out.write(b"old ")
    appended = fs.append(f"{path}-appended")
    appended.write(b"new")
    appended.hsync()

    hdfs_ha.cluster.fail_over(0, 1)

    written.write(dataset(2 * MIB))
    written.hsync()
    assert fs.open(path).read() == dataset(MIB + 500) + dataset(2 * MIB)
    for out in (written, empty, appended):
        out.close()
    assert hdfs_ha.java.read(path) == dataset(MIB + 500) + dataset(2 * MIB)
    assert hdfs_ha.java.read(f"{path}-appended") == b"old new"
    assert hdfs_ha.java.read(f"{path}-empty") == b""


@pytest.mark.rule("HDFS-26", "HDFS-25", "FAIL-10")
def test_failover_in_the_midst_of_writes(hdfs_ha: Hdfs, fs: hflush.FileSystem, path: str) -> None:
    """A writer that flushes all the time, through three failovers: every byte, once."""
    piece, count = dataset(10_007), 400
    written: list[int] = []

    def write() -> None:
        with fs.create(path, block_size=MIB // 2) as out:
            for number in range(count):
                out.write(piece)
                out.hflush()
                written.append(number)

    writing = Task(write)
    for turn, (source, target) in enumerate(((0, 1), (1, 0), (0, 1)), start=1):
        wait_until(
            lambda turn=turn: len(written) >= turn * count // 4 or not writing.is_alive(),
            "a quarter more is written",
        )
        hdfs_ha.cluster.fail_over(source, target)
    writing.result()
    assert hdfs_ha.java.read(path) == piece * count


@pytest.mark.rule("HDFS-26", "HDFS-25", "FAIL-10")
def test_failover_under_calls(hdfs_ha: Hdfs, fs: hflush.FileSystem, path: str) -> None:
    """Calls that change something, through two failovers: each once, and none fails."""
    done: list[int] = []

    def call() -> None:
        for number in range(150):
            with fs.create(f"{path}-{number}", overwrite=False) as out:
                out.write(b"x")
            assert fs.rename(f"{path}-{number}", f"{path}-{number}-renamed") is True
            if number % 2:
                assert fs.delete(f"{path}-{number}-renamed") is True
            done.append(number)

    calling = Task(call)
    for least, (source, target) in ((30, (0, 1)), (80, (1, 0))):
        wait_until(lambda least=least: len(done) >= least or not calling.is_alive(), "more is done")
        hdfs_ha.cluster.fail_over(source, target)
    calling.result()
    expected = sorted(f"file-{number}-renamed" for number in range(0, 150, 2))
    assert hdfs_ha.java.names(path.rpartition("/")[0]) == expected


@pytest.mark.rule("HDFS-26", "FAIL-2")
def test_the_active_name_node_dies(hdfs_ha: Hdfs, path: str) -> None:
    """Its connections end; the other one becomes active some time later, and all goes on."""
    fs = hdfs_ha.file_system(QUICK)
    out = fs.create(path, block_size=MIB)
    out.write(dataset(MIB // 2))
    out.hflush()
    whole = fs.create(f"{path}-whole")  # whose next call is the one that completes it
    whole.write(b"whole")
    whole.hflush()
    hdfs_ha.cluster.stop_name_node(0)
    try:
        out.write(dataset(2 * MIB))
        closing = Task(out.close)
        completing = Task(whole.close)
        asking = Task(fs.get_content_summary, path.rpartition("/")[0])
        wait_until(
            lambda: fs.io_statistics().counters.get("rpc_retries", 0) >= 2, "both are asked in turn"
        )
        hdfs_ha.cluster.java.transitionToActive(1)
        closing.result()
        completing.result()
        assert asking.result().file_count == 2
        assert hdfs_ha.java.read(f"{path}-whole") == b"whole"
        assert hdfs_ha.java.read(path) == dataset(MIB // 2) + dataset(2 * MIB)
    finally:
        hdfs_ha.cluster.restart_name_node(0, wait=False)
    fs.close()


@pytest.mark.rule("HDFS-26")
@pytest.mark.parametrize("crashes", [False, True], ids=["gracefully", "after a crash"])
def test_data_nodes_go_between_failovers(hdfs_ha: Hdfs, path: str, crashes: bool) -> None:
    """The pipeline is registered with another NameNode than it was made by, there and back."""
    cluster, piece = hdfs_ha.cluster, dataset(6144)
    settings = {**QUICK, "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER"}
    with hdfs_ha.file_system(settings) as fs, ExitStack() as stopped:
        out = fs.create(path, block_size=4096)
        out.write(piece)
        out.hflush()
        if crashes:
            cluster.restart_name_node(0, wait=False)
            cluster.java.transitionToActive(1)
            hdfs_ha.wait_whole()
        else:
            cluster.fail_over(0, 1)
        stopped.enter_context(hdfs_ha.stopped(hdfs_ha.ports[0]))
        out.write(piece)
        out.hflush()
        cluster.fail_over(1, 0)
        stopped.enter_context(hdfs_ha.stopped(hdfs_ha.ports[1]))
        out.write(piece)
        out.hflush()
        out.close()
        assert hdfs_ha.java.read(path) == 3 * piece


@pytest.mark.rule("HDFS-26")
def test_a_lease_is_recovered_by_another_name_node(
    hdfs_ha: Hdfs, fs: hflush.FileSystem, path: str
) -> None:
    """The one that began it is no longer active when the DataNodes hear of it."""
    writer = hdfs_ha.file_system(QUICK)
    out = writer.create(path, block_size=4096)
    out.write(dataset(6144))
    out.hflush()
    with hdfs_ha.heartbeats_withheld():
        assert fs.recover_lease(path) is False
        hdfs_ha.cluster.fail_over(0, 1)
    assert fs.recover_lease(path, wait=DEADLINE_S) is True
    assert hdfs_ha.java.read(path) == dataset(6144)
    hdfs_ha.cluster.fail_over(1, 0)
    assert fs.open(path).read() == dataset(6144)
    with pytest.raises(hflush.LeaseLostError, match=path):
        write_and_flush(out)
    with suppress(hflush.LeaseLostError):
        out.close()
    writer.close()


def write_and_flush(out: hflush.FSDataOutputStream) -> None:
    out.write(b"too late")
    out.hflush()


@pytest.mark.rule("HDFS-26")
def test_leases_are_recovered_while_name_nodes_change(
    hdfs_ha: Hdfs, fs: hflush.FileSystem, path: str
) -> None:
    """Five files, again and again written by one client and taken by another: no byte is lost."""
    over, rounds = threading.Event(), [0] * 5

    def live(number: int) -> None:
        with hdfs_ha.file_system(QUICK) as writer:
            while not over.is_set():
                out = writer.create(f"{path}-{number}")
                out.write(dataset(100, number))
                out.hflush()
                assert fs.recover_lease(f"{path}-{number}", wait=DEADLINE_S) is True
                assert fs.open(f"{path}-{number}").read() == dataset(100, number)
                with pytest.raises(OSError, match=path):
                    out.close()
                rounds[number] += 1

    tasks = [Task(live, number) for number in range(5)]
    for turn in (1, 2):
        hdfs_ha.cluster.fail_over((turn + 1) % 2, turn % 2)
        wait_until(
            lambda turn=turn: min(rounds) >= turn or not all(task.is_alive() for task in tasks),
            "each file was recovered once more",
        )
    over.set()
    for task in tasks:
        task.result()


ANSWERS = [
    "create",
    "addBlock",
    "complete",
    "append",
    "updateBlockForPipeline",
    "updatePipeline",
    "fsync",
    "rename",
    "rename2",
    "concat",
    "delete",
]


@pytest.mark.rule("HDFS-26", "HDFS-25", "FAIL-10")
@pytest.mark.parametrize("method", ANSWERS)
def test_an_answer_is_lost_in_a_failover(hdfs_ha: Hdfs, path: str, method: str) -> None:
    """The other NameNode knows the repeat for what it is: each call has had one effect."""
    hdfs_ha.java.write(f"{path}-other", b" other")
    first, _ = hdfs_ha.cluster.name_node_ports()
    with rude_servers.name_node_proxy(("127.0.0.1", first), method, answer_lost=True) as proxy:
        proxy.when_lost = lambda: hdfs_ha.cluster.fail_over(0, 1)
        service = hdfs_ha.url.removeprefix("hdfs://")
        front = {f"dfs.namenode.rpc-address.{service}.nn0": proxy.server.authority}
        ordered = {"dfs.client.failover.random.order": False}
        with hdfs_ha.file_system({**QUICK, **ordered, **front}) as fs:
            with fs.create(path, overwrite=False) as out:
                out.write(b"new")
            with fs.append(path) as out:
                out.write(b" more")
                out.hflush()
            assert fs.rename(path, f"{path}-2") is True
            assert fs.rename(f"{path}-2", f"{path}-3", hflush.Rename.NONE) is None
            fs.concat(f"{path}-3", [f"{path}-other"])
            assert fs.open(f"{path}-3").read() == b"new more other"
            assert fs.delete(f"{path}-3") is True
        assert proxy.losses_left == 0
    assert hdfs_ha.cluster.java.getNameNode(1).isActiveState()
    assert hdfs_ha.java.names(path.rpartition("/")[0]) == []


@pytest.mark.rule("HDFS-26", "FAIL-10")
@pytest.mark.parametrize("appends", [False, True], ids=["alone", "another-appends"])
def test_the_answer_to_a_truncation_is_lost(
    hdfs_ha: Hdfs, fs: hflush.FileSystem, path: str, appends: bool
) -> None:
    """It is not repeated: the cache does not know it, and another's bytes would be cut off."""
    kept = dataset(MIB)  # whole blocks: the truncation is done at once
    with fs.create(path, block_size=MIB) as out:
        out.write(kept + b"cut")
    first, _ = hdfs_ha.cluster.name_node_ports()

    def lose() -> None:
        hdfs_ha.cluster.fail_over(0, 1)
        if appends:
            with fs.append(path) as out:
                out.write(b"another's")

    with rude_servers.name_node_proxy(("127.0.0.1", first), "truncate", answer_lost=True) as proxy:
        proxy.when_lost = lose
        service = hdfs_ha.url.removeprefix("hdfs://")
        front = {f"dfs.namenode.rpc-address.{service}.nn0": proxy.server.authority}
        ordered = {"dfs.client.failover.random.order": False}
        with hdfs_ha.file_system({**QUICK, **ordered, **front}) as cutting:
            if appends:
                with pytest.raises(OSError, match="truncate") as caught:
                    cutting.truncate(path, MIB)
                notes = getattr(caught.value, "__notes__", [])  # from Python 3.11 on
                assert all("changed by another program" in note for note in notes)
            else:
                assert cutting.truncate(path, MIB)
        assert proxy.losses_left == 0
    assert hdfs_ha.java.read(path) == kept + (b"another's" if appends else b"")


@pytest.mark.rule("FAIL-2", "FAIL-3", "FAIL-8")
def test_no_name_node_is_active(hdfs_ha: Hdfs, path: str) -> None:
    """Two standbys: after the configured number of failovers, OSError that names both."""
    hdfs_ha.cluster.java.transitionToStandby(0)
    fs = hdfs_ha.file_system(
        {
            **QUICK,
            "dfs.client.failover.max.attempts": 3,
            "dfs.client.failover.sleep.max.millis": 100,
        }
    )
    with pytest.raises(OSError, match="mkdirs") as caught:
        fs.mkdirs(path)
    assert caught.value.filename == path
    assert any(
        f"127.0.0.1:{port}" in str(caught.value) for port in hdfs_ha.cluster.name_node_ports()
    )
    hdfs_ha.cluster.java.transitionToActive(0)
    assert fs.mkdirs(path)
    fs.close()


def test_a_configuration_directory(
    hdfs_ha: Hdfs, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys of the service come from HADOOP_CONF_DIR, as does the default file system."""
    values = {**hdfs_ha.conf, "fs.defaultFS": hdfs_ha.url}
    rows = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>"
        for key, value in values.items()
    )
    (tmp_path / "core-site.xml").write_text(f"<configuration>{rows}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with hflush.create(f"{hdfs_ha.url}{path}") as out:
        out.write(b"by name")
        out.hsync()
    assert hflush.open(f"hdfs://{path}", "rb").read() == b"by name"
    assert hdfs_ha.java.read(path) == b"by name"
    hflush.FileSystem.get(hdfs_ha.url).close()
    hflush.FileSystem.get(f"hdfs://{path}").close()
