"""What people reach HDFS through: fsspec with its own suite, pandas, and the command line."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import hflush
import pytest
from support.data import dataset
from support.minidfs import Hdfs
from support.peer import Peer
from support.waiting import DEADLINE_S, wait_until

fsspec = pytest.importorskip("fsspec")

from fsspec.tests import abstract  # noqa: E402
from hflush.fsspec import HflushHdfsFileSystem  # noqa: E402


class Fixtures(abstract.AbstractFixtures):  # type: ignore[misc]
    @pytest.fixture
    def fs(self, hdfs_cluster: Hdfs) -> HflushHdfsFileSystem:
        return fsspec.core.url_to_fs(f"hflush+{hdfs_cluster.url}/")[0]

    @pytest.fixture
    def fs_path(self, hdfs_cluster: Hdfs) -> str:
        return hdfs_cluster.root()

    @pytest.fixture
    def local_path(self, tmp_path: Path) -> str:
        return str(tmp_path / "theirs")


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass


def test_a_user_in_a_url_and_a_view(hdfs_cluster: Hdfs, tmp_path: Path) -> None:
    """The URL says who asks, at each door; a link leads there as well as elsewhere."""
    root, place = hdfs_cluster.root(), hdfs_cluster.url.partition("://")[2]
    hdfs_cluster.java.fs.setOwner(hdfs_cluster.java.path(root), "ann", "people")
    conf = {
        **hdfs_cluster.conf,
        "fs.defaultFS": "viewfs://all/",
        "fs.viewfs.mounttable.all.link./data/hdfs": f"hdfs://ann@{place}{root}",
        "fs.viewfs.mounttable.all.link./data/here": f"file://{tmp_path}",
    }
    for door in (f"hdfs://ann@{place}{root}/a", "/data/hdfs/b", "viewfs://all/data/hdfs/c"):
        with hflush.create(door, conf=conf) as out:
            out.write(b"of ann")
            out.hsync()
    view = hflush.FileSystem.get("/", conf)
    assert {one.owner for one in view.list_status("/data/hdfs")} == {"ann"}
    assert [one.name for one in view.list_status("/data")] == ["hdfs", "here"]
    assert view.get_file_block_locations("/data/hdfs/a")[0].hosts
    assert [one.path for one in view.list_located_status("/data/hdfs") if one.block_locations] == [
        f"viewfs://all/data/hdfs/{name}" for name in "abc"
    ]
    assert hdfs_cluster.java.read(f"{root}/b") == b"of ann"
    view.rename("/data/hdfs/a", "/data/hdfs/d", hflush.Rename.NONE)
    with pytest.raises(OSError, match="behind different links"):
        view.rename("/data/hdfs/d", "/data/here/d")
    view.copy_to_local_file("/data/hdfs/d", f"{tmp_path}/d", use_raw_local=True)
    assert view.get_file_status("/data/here/d").length == 6


def test_pandas(hdfs_cluster: Hdfs) -> None:
    """Tables go to hflush+hdfs:// URLs and come back; Java sees the same bytes."""
    pandas = pytest.importorskip("pandas")
    root = hdfs_cluster.root()
    table = pandas.DataFrame({"number": range(1000), "text": [str(n) for n in range(1000)]})
    for kind in ("parquet", "csv"):
        url = f"hflush+{hdfs_cluster.url}{root}/table.{kind}"
        getattr(table, f"to_{kind}")(url, index=False)
        read = getattr(pandas, f"read_{kind}")(url, dtype_backend="numpy_nullable")
        assert read["number"].sum() == table["number"].sum()
    text = hdfs_cluster.java.read(f"{root}/table.csv")
    assert pandas.read_csv(io.BytesIO(text)).shape == table.shape


class TestCommand:
    """hflush put, cat, ls, stat, mv, rm, mkdir, checksum, tail and recover-lease."""

    @pytest.fixture
    def url(self, hdfs_cluster: Hdfs) -> str:
        return f"{hdfs_cluster.url}{hdfs_cluster.root()}"

    @staticmethod
    def output(*arguments: str, stdin: bytes = b"", expected: int = 0) -> bytes:
        """What the command says: of a failure, why."""
        command = [sys.executable, "-m", "hflush.cli", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, check=False)
        assert done.returncode == expected, done
        return done.stderr if expected else done.stdout

    def run(self, *arguments: str, expected: int = 0) -> str:
        return self.output(*arguments, expected=expected).decode()

    def test_a_file_s_life(self, url: str, tmp_path: Path) -> None:
        """Written, seen, summed, moved and removed; a second write is refused if asked."""
        data = dataset(3000)
        (tmp_path / "file").write_bytes(data)
        self.run("mkdir", f"{url}/dir/deep")
        self.run("put", "--sync", str(tmp_path / "file"), f"{url}/dir/file")
        refusal = self.run("put", "--no-overwrite", "-", f"{url}/dir/file", expected=1)
        assert "already exists" in refusal
        assert refusal.count("\n") == 1
        listed = [line.split()[-1] for line in self.run("ls", f"{url}/dir").splitlines()]
        assert listed == [f"{url}/dir/deep", f"{url}/dir/file"]
        assert "length: 3000" in self.run("stat", f"{url}/dir/file")
        assert self.run("checksum", f"{url}/dir/file").startswith("MD5-of-0MD5-of-512CRC32C ")
        self.run("mv", f"{url}/dir/file", f"{url}/moved")
        assert self.output("cat", f"{url}/moved") == data
        refusal = self.run("mv", f"{url}/moved", f"{url}/none/moved", expected=1)
        assert refusal.startswith("hflush: mv: ")
        assert "/none" in refusal
        assert "not found" in refusal
        assert "/none is not found" in self.run("mv", f"{url}/none", f"{url}/other", expected=1)
        assert self.output("tail", f"{url}/moved") == data[-1024:]
        assert "use -r" in self.run("rm", f"{url}/dir", expected=1)
        self.run("rm", "-r", f"{url}/dir", f"{url}/moved")
        assert self.run("ls", url) == ""

    def test_the_default_file_system(self, hdfs_cluster: Hdfs, url: str) -> None:
        """-D fs.defaultFS lets plain paths and hdfs:/// mean the cluster."""
        default = f"fs.defaultFS={hdfs_cluster.url}"
        path = url.removeprefix(hdfs_cluster.url)
        self.output("-D", default, "put", "-", f"{path}/file", stdin=b"text")
        assert self.run("-D", default, "cat", f"hdfs://{path}/file") == "text"

    def test_a_file_left_open(self, hdfs_cluster: Hdfs, url: str) -> None:
        """tail shows what its dead writer flushed; recover-lease closes it."""
        path = url.removeprefix(hdfs_cluster.url) + "/log"
        program = (
            "import hflush, os, sys\n"
            f"out = hflush.create({hdfs_cluster.url + path!r})\n"
            "out.write(b'first\\nlast\\n'); out.hflush(); os._exit(0)"
        )
        subprocess.run([sys.executable, "-c", program], check=True)
        assert self.run("tail", f"{url}/log") == "first\nlast\n"
        assert not hdfs_cluster.is_closed(path)
        self.run("recover-lease", f"{url}/log")
        hdfs_cluster.wait_closed(path)
        assert self.run("recover-lease", f"{url}/log") == "closed\n"
        assert self.run("cat", f"{url}/log") == "first\nlast\n"

    def test_recover_lease_says_what_it_waits_for(self, hdfs_cluster: Hdfs, url: str) -> None:
        """The last block and its DataNodes, while none of these gets to know of it."""
        path = url.removeprefix(hdfs_cluster.url) + "/log"
        writer = Peer(hdfs_cluster.url, hdfs_cluster.conf)
        writer.run("out = fs.create(path); out.write(b'x'); out.hflush()", path=path)
        writer.kill()
        command = [sys.executable, "-m", "hflush.cli", "recover-lease", f"{url}/log"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as recovering:
            assert recovering.stderr is not None
            with hdfs_cluster.heartbeats_withheld():
                line = recovering.stderr.readline()
            said, _ = recovering.communicate(timeout=2 * DEADLINE_S)
        assert line.startswith("hflush: recover-lease: ")
        assert "waiting for the recovery of its last block blk_" in line
        assert all(f":{port}" in line for port in hdfs_cluster.ports), line
        assert said == "closed\n"

    def test_tail_follows(self, hdfs_cluster: Hdfs, url: str) -> None:
        """tail -f shows each flush of a writer that goes on."""
        with hflush.create(f"{url}/log") as out:
            out.write(b"one\n")
            out.hflush()
            command = [sys.executable, "-m", "hflush.cli", "tail", "-f", f"{url}/log"]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as follower:
                assert follower.stdout is not None
                os.set_blocking(follower.stdout.fileno(), False)
                shown = bytearray()

                def shows(text: bytes) -> bool:
                    assert follower.stdout is not None
                    shown.extend(follower.stdout.read() or b"")
                    return bytes(shown) == text

                wait_until(lambda: shows(b"one\n"), "the first line")
                out.write(b"two\n")
                out.hflush()
                wait_until(lambda: shows(b"one\ntwo\n"), "the second line")
                follower.terminate()


class TestTrash:
    """move_to_trash, by the interval of the client or of the NameNode."""

    @pytest.mark.rule("EXTRA-4")
    @pytest.mark.stores("hdfs")
    def test_of_the_client(self, store: Any) -> None:
        """Off by default; fs.trash.interval switches it on, below the user's home."""
        path = store.write(store.path("dir", "file"), b"data")
        assert store.fs.move_to_trash(path) is False
        assert store.fs.exists(path)
        fs = hflush.FileSystem.new_instance(store.url(), {**store.conf, "fs.trash.interval": 60})
        where = f"{fs.home_directory}/.Trash/Current{fs._resolve(path)}"
        try:
            assert fs.move_to_trash(path) is True
            assert store.content(where) == b"data"
            assert not store.fs.exists(path)
            assert fs.move_to_trash(where) is False
            trash = fs.get_trash()
            checkpoint = trash.checkpoint()
            assert checkpoint is not None
            assert trash.expunge() == 0
            assert trash.expunge(immediately=True) == 1
            assert not fs.exists(checkpoint)
        finally:
            fs.delete(f"{fs.home_directory}/.Trash", recursive=True)
            fs.close()

    def test_what_may_not_be_removed(self, hdfs_cluster: Hdfs) -> None:
        """The NameNode empties the trash with all rights: it asks for those of a delete before."""
        root = hdfs_cluster.root()
        for directory in (root, f"{root}/hers"):
            hdfs_cluster.java.mkdirs(directory)
        hdfs_cluster.java.set_owner(root, "ann", "ann")
        hdfs_cluster.java.touch(f"{root}/hers/file")
        hdfs_cluster.java.set_permission(f"{root}/hers", 0o755)
        hdfs_cluster.java.mkdirs("/user/ann")
        hdfs_cluster.java.set_owner("/user/ann", "ann", "ann")
        fs = hdfs_cluster.file_system({"hflush.hdfs.user": "ann", "fs.trash.interval": 60})
        for remove in (fs.move_to_trash, lambda path: fs.delete(path, recursive=True)):
            with pytest.raises(PermissionError, match="Permission denied: user=ann"):
                remove(f"{root}/hers")
        assert hdfs_cluster.java.exists(f"{root}/hers/file")
        fs.close()

    def test_of_a_tree_of_snapshots(self, hdfs_new: Any) -> None:
        """Its own, where nothing may be moved out of it."""
        ordered = "dfs.namenode.snapshot.deletion.ordered"
        cluster = hdfs_new(
            settings={ordered: "true", "dfs.namenode.snapshot.trashroot.enabled": "true"}
        )
        root = cluster.root()
        cluster.java.fs.allowSnapshot(cluster.java.path(root))
        cluster.java.mkdirs(f"{root}/dir")
        cluster.java.write(f"{root}/dir/file", b"data")
        fs = cluster.file_system({"fs.trash.interval": 60})
        assert fs.move_to_trash(f"{root}/dir/file") is True
        user = fs.home_directory.rpartition("/")[2]
        there = f"{root}/.Trash/{user}/Current{root}/dir/file"
        assert cluster.java.read(there) == b"data"
        assert fs.move_to_trash(there) is False
        fs.close()

    def test_of_the_name_node(self, hdfs_new: Any) -> None:
        """Its interval counts where it has one, whatever the client says; rename stays exact."""
        cluster = hdfs_new(settings={"fs.trash.interval": 60})
        fs = hflush.FileSystem.new_instance(cluster.url, {"fs.trash.interval": 0})
        assert fs.get_server_defaults().trash_interval == 60
        for content in (b"first", b"second"):
            with fs.create("/file") as out:
                out.write(content)
            assert fs.move_to_trash("/file") is True
        kept = sorted(fs.list_status(f"{fs.home_directory}/.Trash/Current"), key=lambda s: s.name)
        assert [cluster.java.read(fs._resolve(status.path)) for status in kept] == [
            b"first",
            b"second",
        ]
        fs.close()


def test_a_proxy_user(hdfs_new: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files belong to the user that HADOOP_PROXY_USER names; who may not act so is refused."""
    allowed = {f"hadoop.proxyuser.gateway.{what}": "*" for what in ("hosts", "groups", "users")}
    cluster = hdfs_new(settings={**allowed, "dfs.replication": 1})
    root = cluster.root()
    cluster.java.set_permission(root, 0o777)
    monkeypatch.setenv("HADOOP_USER_NAME", "gateway")
    monkeypatch.setenv("HADOOP_PROXY_USER", "ann")
    fs = cluster.file_system()
    with fs.create(f"{root}/file") as out:
        out.write(b"hers")
        out.hflush()
        assert fs.open(f"{root}/file").read() == b"hers"
    assert fs.get_file_status(f"{root}/file").owner == "ann"
    fs.close()
    monkeypatch.setenv("HADOOP_USER_NAME", "mallory")
    fs = cluster.file_system()
    with pytest.raises(PermissionError, match="impersonate"):
        fs.exists(f"{root}/file")
    fs.close()
