"""HDFS: what a user gets to see whose configuration, network or NameNode is not as it should be.

Clear errors: OSError (or ValueError for a configuration that cannot be), with the operation, the
path, host and port, and within the timeouts that are configured.
"""

from __future__ import annotations

import contextlib
import errno
import pickle
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import hflush
import pytest
from hflush.status import LeaseRecovery
from support import rude_servers
from support.data import dataset
from support.minidfs import Hdfs, NewHdfs
from support.rude_servers import RudeServer
from support.waiting import DEADLINE_S, LONG_S, Task, soon, wait_until


def timeouts(each_ms: int) -> dict[str, int]:
    """Settings of a client that tries everything once."""
    return {
        "ipc.client.connect.timeout": each_ms,
        "ipc.client.connect.max.retries": 0,
        "ipc.client.connect.max.retries.on.timeouts": 0,
        "ipc.client.rpc-timeout.ms": each_ms,
        "hflush.hdfs.namenode.patience": 0,
        "dfs.client.socket-timeout": each_ms,
    }


TIMEOUT_MS = 2000
IMPATIENT = timeouts(TIMEOUT_MS)
PATIENT = timeouts(int(1000 * LONG_S))  # what fails has another reason, and fails at once
MIB = 1 << 20
ALWAYS = 1000

pytestmark = pytest.mark.stores("hdfs")


@pytest.fixture
def path(hdfs_cluster: Hdfs) -> Iterator[str]:
    root = hdfs_cluster.root()
    yield f"{root}/file"
    hdfs_cluster.java.delete(root)


# --- servers that are no NameNodes ---

SERVERS: dict[str, tuple[Callable[[], AbstractContextManager[RudeServer]], type[OSError], str]] = {
    "HTTP": (rude_servers.http_answer, OSError, "HTTP"),
    "TLS": (rude_servers.tls_alert, OSError, "TLS"),
    "silence": (rude_servers.silence, TimeoutError, r"\b\d+ ?(ms|s)\b"),
    "close at once": (rude_servers.close_at_once, OSError, "close|end|reset"),
    "oversized frame": (rude_servers.oversized_frame, OSError, r"\d{6,}"),
    "garbage": (rude_servers.garbage_frame, OSError, "answer|response|malformed|garbage|header"),
    "truncated frame": (rude_servers.truncated_frame, OSError, "close|end|reset"),
    "version mismatch": (rude_servers.version_mismatch, OSError, "version"),
    "older version": (rude_servers.legacy_version_mismatch, OSError, "version"),
    "close after a call": (rude_servers.close_after_call, OSError, "close|end|reset"),
}
CALLS: dict[str, Callable[[hflush.FileSystem], object]] = {
    "getFileInfo": lambda fs: fs.get_file_status("/some/file"),
    "create": lambda fs: fs.create("/some/file"),
    "open": lambda fs: fs.open("/some/file"),
}


@pytest.mark.rule("FAIL-2", "FAIL-3", "FAIL-8")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", SERVERS)
def test_a_port_that_is_no_name_node(kind: str, call: str) -> None:
    """OSError with host and port, the path, and what is wrong with the answer; soon."""
    serve, expected, says = SERVERS[kind]
    with serve() as server, soon():
        conf = IMPATIENT if kind == "silence" else PATIENT
        fs = hflush.FileSystem.new_instance(server.url, conf)
        with pytest.raises(expected, match=says) as caught:
            CALLS[call](fs)
        assert server.authority in str(caught.value)
        assert caught.value.filename == "/some/file"
        assert caught.value.errno
        fs.close()


@pytest.mark.rule("FAIL-2", "FAIL-3")
def test_nobody_listens() -> None:
    """Connection refused, as the system has it."""
    with rude_servers.refusing() as (host, port), soon():
        fs = hflush.FileSystem.new_instance(f"hdfs://{host}:{port}", PATIENT)
        for call in CALLS.values():
            with pytest.raises(ConnectionRefusedError, match=f"{host}:{port}") as caught:
                call(fs)
            assert caught.value.errno == errno.ECONNREFUSED
            assert caught.value.filename == "/some/file"
        fs.close()


@pytest.mark.rule("FAIL-2", "FAIL-3")
def test_a_host_that_is_not_there() -> None:
    """A name that does not resolve is an OSError with the name."""
    fs = hflush.FileSystem.new_instance("hdfs://no-such-host.invalid:8020", IMPATIENT)
    with pytest.raises(OSError, match=r"no-such-host\.invalid") as caught:
        fs.get_file_status("/file")
    assert caught.value.filename == "/file"
    fs.close()


@pytest.mark.rule("FAIL-2", "FAIL-3")
def test_the_port_of_a_data_node(hdfs_cluster: Hdfs) -> None:
    """A DataNode's port, or the NameNode's web port, is not the NameNode: OSError, soon."""
    web = int(hdfs_cluster.name_node.getHttpAddress().getPort())
    for port in (hdfs_cluster.ports[0], web):
        with soon():
            fs = hflush.FileSystem.new_instance(f"hdfs://127.0.0.1:{port}", PATIENT)
            with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
                fs.get_file_status("/file")
            fs.close()


# --- configurations ---


@pytest.mark.rule("FAIL-3")
@pytest.mark.parametrize(
    ("conf", "names"),
    [
        ({"dfs.nameservices": "ns1"}, r"dfs\.(ha\.namenodes|namenode\.rpc-address)\.ns1"),
        (
            {"dfs.nameservices": "ns1", "dfs.ha.namenodes.ns1": "a,b"},
            r"dfs\.namenode\.rpc-address\.ns1\.a",
        ),
        (
            {
                "dfs.nameservices": "ns1",
                "dfs.ha.namenodes.ns1": "a,b",
                "dfs.namenode.rpc-address.ns1.a": "127.0.0.1:8020",
            },
            r"dfs\.namenode\.rpc-address\.ns1\.b",
        ),
        (
            {
                "dfs.nameservices": "ns1",
                "dfs.ha.namenodes.ns1": "a",
                "dfs.namenode.rpc-address.ns1.a": "127.0.0.1:none",
            },
            r"dfs\.namenode\.rpc-address\.ns1\.a.*127\.0\.0\.1:none",
        ),
        ({"dfs.replication": "many"}, r"dfs\.replication.*many"),
        ({"dfs.blocksize": "-1"}, r"dfs\.blocksize.*-1"),
        ({"ipc.client.rpc-timeout.ms": "soon"}, r"ipc\.client\.rpc-timeout\.ms.*soon"),
        ({"dfs.client.retry.policy.spec": "1"}, r"dfs\.client\.retry\.policy\.spec"),
    ],
    ids=lambda value: next(reversed(value)) if isinstance(value, dict) else None,
)
def test_configurations_that_cannot_be(conf: dict[str, str], names: str) -> None:
    """ValueError that names the key, and the value if there is one, before anything is sent."""
    with pytest.raises(ValueError, match=names):
        hflush.FileSystem.new_instance("hdfs://ns1/", conf).get_file_status("/")


def test_a_url_without_a_host() -> None:
    """hdfs:///path needs a default file system; the message says so."""
    with pytest.raises(ValueError, match=r"fs\.defaultFS"):
        hflush.create("hdfs:///path")


# --- a NameNode that goes during a call ---

LOST_CALLS: dict[str, str] = {
    "getFileInfo": "fs.get_file_status(root + '/file')",
    "getListing": "fs.list_status(root)",
    "getBlockLocations": "fs.open(root + '/file').read()",
    "mkdirs": "fs.mkdirs(root + '/new')",
    "create": "fs.create(root + '/new')",
    "append": "fs.append(root + '/file')",
    "delete": "fs.delete(root + '/file')",
    "rename": "fs.rename(root + '/file', root + '/new')",
    "rename2": "fs.rename(root + '/file', root + '/new', hflush.Rename.NONE)",
    "truncate": "fs.truncate(root + '/file', 0)",
    "concat": "fs.concat(root + '/file', [root + '/other'])",
    "setPermission": "fs.set_permission(root + '/file', 0o600)",
    "setOwner": "fs.set_owner(root + '/file', 'somebody')",
    "setTimes": "fs.set_times(root + '/file', 1, 1)",
    "setReplication": "fs.set_replication(root + '/file', 1)",
    "getContentSummary": "fs.get_content_summary(root)",
    "isFileClosed": "fs.is_file_closed(root + '/file')",
    "getServerDefaults": "fs.get_server_defaults()",
    "getFsStats": "fs.get_status()",
    "setSafeMode": "fs.set_safe_mode('get')",
    "getEnclosingRoot": "fs.get_enclosing_root(root)",
}


@pytest.mark.rule("FAIL-2", "FAIL-3", "FAIL-11")
@pytest.mark.parametrize("method", LOST_CALLS)
def test_the_name_node_goes_during_a_call(hdfs_cluster: Hdfs, path: str, method: str) -> None:
    """OSError that names the call, host and port and path; nothing was done, and a repeat works."""
    root = path.rpartition("/")[0]
    for name in ("file", "other"):
        hdfs_cluster.java.write(f"{root}/{name}", dataset(1000))
    target = ("127.0.0.1", hdfs_cluster.cluster.name_node_port())
    with rude_servers.name_node_proxy(target, method, times=ALWAYS) as proxy, soon():
        fs = hflush.FileSystem.new_instance(proxy.server.url, PATIENT)
        with pytest.raises(OSError, match=method) as caught:
            eval(LOST_CALLS[method], {"fs": fs, "root": root, "hflush": hflush})
        assert proxy.losses_left < ALWAYS
        assert proxy.server.authority in str(caught.value)
        if "root" in LOST_CALLS[method]:
            assert str(caught.value.filename).startswith(root)
        fs.close()
    assert hdfs_cluster.java.names(root) == ["file", "other"]
    with hdfs_cluster.file_system() as fs:
        result = eval(LOST_CALLS[method], {"fs": fs, "root": root, "hflush": hflush})
        getattr(result, "close", lambda: None)()


@pytest.mark.rule("FAIL-2", "HDFS-5")
@pytest.mark.parametrize("is_open", [True, False])
def test_the_name_node_goes_during_a_recovery(hdfs_cluster: Hdfs, path: str, is_open: bool) -> None:
    """It is asked for again, unless the file is closed."""
    target = ("127.0.0.1", hdfs_cluster.cluster.name_node_port())
    with (
        hdfs_cluster.file_system() as writing,
        rude_servers.name_node_proxy(target, "recoverLease") as proxy,
        hflush.FileSystem.new_instance(proxy.server.url, PATIENT) as fs,
    ):
        out = writing.create(path)  # without a block: closed at once
        if not is_open:
            out.close()
        assert fs.recover_lease(path) is True
        assert proxy.losses_left == 0
        with contextlib.suppress(hflush.LeaseLostError):
            out.close()
    assert hdfs_cluster.java.read(path) == b""


@pytest.mark.rule("FAIL-2", "FAIL-3")
@pytest.mark.parametrize(
    ("method", "operation"), [("addBlock", "hflush"), ("fsync", "hflush"), ("complete", "close")]
)
def test_the_name_node_goes_during_a_call_of_a_stream(
    hdfs_cluster: Hdfs, path: str, method: str, operation: str
) -> None:
    """OSError from the stream, which says what was asked of whom; what was flushed is kept."""
    target = ("127.0.0.1", hdfs_cluster.cluster.name_node_port())
    with rude_servers.name_node_proxy(target, method, times=ALWAYS) as proxy, soon():
        fs = hflush.FileSystem.new_instance(proxy.server.url, PATIENT)
        out = fs.create(path)
        out.write(b"data")
        with pytest.raises(OSError, match=method) as caught:
            getattr(out, operation)()
        assert proxy.server.authority in str(caught.value)
        assert caught.value.filename == path
        if operation != "close":
            with pytest.raises(OSError, match=method):
                out.close()
        fs.close()
    hdfs_cluster.recover_lease(path)
    assert hdfs_cluster.java.read(path) in {b"", b"data"}


@pytest.mark.rule("FAIL-8", "FAIL-2")
def test_a_name_node_that_hangs(hdfs_cluster: Hdfs, path: str) -> None:
    """TimeoutError with the configured number, and the next call works once it is back."""
    fs = hdfs_cluster.file_system(IMPATIENT)
    fs.mkdirs(path)
    with hdfs_cluster.paused(), soon():
        with pytest.raises(TimeoutError, match=str(TIMEOUT_MS)) as caught:
            fs.get_file_status(path)
        assert caught.value.filename == path
    assert hdfs_cluster.java.exists(path)  # Java's client waits until it answers again
    assert fs.get_file_status(path).is_directory
    fs.close()


@pytest.mark.rule("FAIL-8", "FAIL-2", "HFLUSH-13")
def test_data_nodes_that_hang(hdfs_cluster: Hdfs, path: str) -> None:
    """A pipeline that says nothing is given up after the configured timeout, with its nodes."""
    fs = hdfs_cluster.file_system({"dfs.client.socket-timeout": 1000})
    out = fs.create(path, replication=1)
    out.write(b"one")
    out.hflush()
    with hdfs_cluster.paused(), soon():
        out.write(b"two")
        with pytest.raises(OSError, match=r"127\.0\.0\.1:\d+") as caught:
            out.hflush()
        assert caught.value.filename == path
        assert any(character.isdigit() for character in str(caught.value))
        with pytest.raises(OSError, match=r"127\.0\.0\.1:\d+"):
            out.close()
    fs.close()
    hdfs_cluster.recover_lease(path)
    assert hdfs_cluster.java.read(path).startswith(b"one")


@pytest.mark.rule("FAIL-3", "FAIL-12")
def test_permission_denied(hdfs_cluster: Hdfs, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The NameNode's own words: user, path and mode."""
    hdfs_cluster.java.write(path, b"secret")
    hdfs_cluster.java.set_permission(path, 0o600)
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    fs = hdfs_cluster.file_system()
    with pytest.raises(PermissionError, match="somebody") as caught:
        fs.open(path)
    assert caught.value.errno == errno.EACCES
    assert caught.value.filename == path
    assert "AccessControlException" in caught.value.remote_class
    fs.close()


@pytest.mark.rule("FAIL-3", "HDFS-24")
def test_start_up_safe_mode(hdfs_new: NewHdfs) -> None:
    """A NameNode that waits for its DataNodes says so: EROFS, and how long or for what."""
    hdfs = hdfs_new(1, {"dfs.namenode.safemode.min.datanodes": 1})
    hdfs.java.write("/file", b"kept")
    (port,) = hdfs.ports
    stopped = hdfs.cluster.stop_data_node(port)
    hdfs.cluster.restart_name_node(wait=False)
    fs = hdfs.file_system()
    with pytest.raises(OSError, match="safe mode") as caught:
        fs.mkdirs("/new")
    assert caught.value.errno == errno.EROFS
    hdfs.cluster.restart_data_node(stopped)
    fs.mkdirs("/new")
    assert fs.open("/file").read() == b"kept"
    fs.close()


@pytest.mark.rule("HDFS-24", "HDFS-2", "HDFS-15")
def test_open_streams_outlive_a_restart_and_start_up_safe_mode(hdfs_new: NewHdfs) -> None:
    """Calls of streams wait for the only NameNode, their leases too; other calls say EROFS."""
    hdfs = hdfs_new(1, {"dfs.namenode.safemode.min.datanodes": 1})
    with hdfs.java.create("/closed") as old:
        old.write(b"old ")
    renewing = {"ipc.client.rpc-timeout.ms": 2000}  # renews its lease every second
    fs = hdfs.file_system({**renewing, "dfs.replication": 1})
    idle = fs.create("/idle")
    appended = fs.append("/closed")
    stopped = hdfs.cluster.stop_data_node(hdfs.ports[0])
    hdfs.cluster.restart_name_node(wait=False)

    def retries() -> int:
        return fs.io_statistics().counters.get("rpc_retries", 0)

    assert fs.set_safe_mode("get") is True
    closing = Task(appended.close)  # the NameNode is asked to complete the file
    before = retries()
    wait_until(lambda: retries() >= before + 3, "it is asked again")
    with pytest.raises(OSError, match="safe mode"):
        fs.mkdirs("/new")
    assert closing.is_alive()
    hdfs.cluster.restart_data_node(stopped)
    closing.result()
    hdfs.java.reconnect()
    assert hdfs.java.read("/closed") == b"old "
    with hdfs.lease_limits(3000):
        before = fs.io_statistics().counters["lease_renewals"]
        wait_until(
            lambda: fs.io_statistics().counters["lease_renewals"] >= before + 5, "it is renewed"
        )
        with hdfs.file_system() as other, pytest.raises(hflush.LeaseHeldError):
            other.append("/idle")
    idle.write(b"late")
    idle.close()
    assert hdfs.java.read("/idle") == b"late"
    fs.close()


@pytest.mark.rule("HDFS-24", "READ-17")
def test_open_readers_outlive_a_restart(hdfs_new: NewHdfs) -> None:
    """A read that has to ask where the next block is waits for the only NameNode."""
    hdfs = hdfs_new(1)
    block = MIB // 8
    data = dataset(5 * block)
    at_once = {"ipc.client.connect.max.retries": 0}  # as Hadoop's client fails
    one_block = {"dfs.client.read.prefetch.size": 1, "dfs.replication": 1, **at_once}
    fs = hdfs.file_system(one_block)
    hasty = hdfs.file_system({**one_block, "hflush.hdfs.namenode.patience": 0})
    with fs.create("/file", block_size=block) as out:
        out.write(data)

    def retries() -> int:
        return fs.io_statistics().counters.get("rpc_retries", 0)

    with fs.open("/file") as reader, hasty.open("/file") as other:
        assert reader.read(1000) == data[:1000]
        assert other.read(1000) == data[:1000]
        before = retries()
        hdfs.cluster.stop_name_node()
        with pytest.raises(ConnectionRefusedError):
            other.pread(block, 10)
        reading = Task(reader.read)
        wait_until(lambda: retries() >= before + 3, "the NameNode is asked again")
        assert reading.is_alive()
        hdfs.cluster.restart_name_node(wait=False)
        assert reading.result(2 * DEADLINE_S) == data[1000:]
        assert other.read() == data[1000:]  # from where it was
    fs.close()
    hasty.close()


@pytest.mark.rule("HDFS-5")
def test_recover_lease_waits_for_nodes_that_are_away(hdfs_new: NewHdfs) -> None:
    """The only DataNode, and then the NameNode: it says which, and ends when both are back."""
    hdfs = hdfs_new(1)
    fs = hdfs.file_system()
    out = fs.create("/file")
    out.write(b"flushed")
    out.hflush()
    stopped = hdfs.cluster.stop_data_node(hdfs.ports[0])
    assert fs.recover_lease("/file", wait=0.1) is False
    seen: list[LeaseRecovery] = []
    recovering = Task(fs.recover_lease, "/file", 2 * DEADLINE_S, seen.append)
    wait_until(
        lambda: any("last block blk_" in one.waits_for for one in seen), "the block is named"
    )
    hdfs.cluster.stop_name_node()
    wait_until(
        lambda: any("the NameNode: " in one.waits_for for one in seen), "the NameNode is named"
    )
    hdfs.cluster.restart_name_node(wait=False)
    hdfs.cluster.restart_data_node(stopped)
    assert recovering.result(2 * DEADLINE_S) is True
    assert hdfs.java.read("/file") == b"flushed"
    with pytest.raises(OSError, match="/file"):
        out.close()
    fs.close()


@pytest.mark.rule("FAIL-3", "HFLUSH-13")
def test_a_pipeline_error_tells_the_story(hdfs_new: NewHdfs) -> None:
    """Which node failed when and why, of which block, what is safe, and what happened before."""
    hdfs = hdfs_new(1)
    fs = hdfs.file_system()
    out = fs.create("/file")
    began = time.time()
    out.write(dataset(5000))
    out.hflush()
    (port,) = hdfs.ports
    stamp = int(hdfs.block("/file").getGenerationStamp())
    assert any(event.what == f"connecting to DataNode 127.0.0.1:{port}" for event in out.history())
    stopped = hdfs.cluster.stop_data_node(port)
    with pytest.raises(hflush.PipelineError, match=f"127.0.0.1:{port}") as caught:
        write_and_flush(out)
    error = caught.value
    assert error.filename == "/file"
    assert error.errno
    assert {node.address for node in error.failed_nodes} == {f"127.0.0.1:{port}"}
    failed = error.failed_nodes[0]
    assert (failed.place, failed.offset, error.acknowledged) == (0, 5000, 5000)
    assert "lost" in failed.reason or "answered" in failed.reason
    assert began <= failed.when <= time.time()
    assert error.generation_stamps[0] == stamp
    assert re.fullmatch(rf"blk_\d+_{stamp}", error.block)  # none was set up with a later one
    history = out.history()
    assert [event.what for event in error.history] == [event.what for event in history]
    assert len(history) <= 64
    assert sum(len(event.what) for event in history) <= 4096
    assert [event.when for event in history] == sorted(event.when for event in history)
    assert history[-1].what in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (again.failed_nodes, again.block) == (error.failed_nodes, error.block)
    with pytest.raises(hflush.PipelineError):
        out.close()
    assert [event.what for event in out.history()] == [event.what for event in history]
    hdfs.cluster.restart_data_node(stopped)

    other = fs.create("/other")
    fs.delete("/other")
    with pytest.raises(hflush.LeaseLostError) as lost:
        other.close()
    assert any("complete" in event.what for event in lost.value.history)
    fs.close()


def write_and_flush(out: hflush.FSDataOutputStream) -> None:
    while True:
        out.write(b"more")
        out.hflush()


@pytest.mark.rule("HDFS-15", "HDFS-22")
def test_a_writer_goes_on_while_the_name_node_restarts(hdfs_new: NewHdfs) -> None:
    """Blocks begin and end all the time, and the only NameNode goes twice: every byte, once."""
    hdfs = hdfs_new(1, {"dfs.namenode.safemode.extension": 1000})
    piece, count = dataset(10_007), 300
    written: list[int] = []

    def write(fs: hflush.FileSystem) -> None:
        with fs.create("/file", block_size=MIB // 8, replication=1) as out:
            for number in range(count):
                out.write(piece)
                out.hflush()
                written.append(number)

    with hdfs.file_system() as fs:
        writing = Task(write, fs)
        for turn in (1, 2):
            wait_until(
                lambda turn=turn: len(written) >= turn * count // 3 or not writing.is_alive(),
                "a third more is written",
            )
            hdfs.cluster.restart_name_node(wait=False)
        writing.result(2 * DEADLINE_S)
        assert fs.io_statistics().counters["rpc_retries"] > 0
    hdfs.java.reconnect()
    assert hdfs.java.read("/file") == piece * count
