"""HDFS without one: URLs, names, options and arguments, all decided before anything is sent."""

from __future__ import annotations

import errno
import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn
from unittest.mock import Mock

import hflush
import pytest
from hflush import CreateFlag, paths, transfer
from hflush import options as options_of
from hflush.hdfs import DistributedFileSystem, HdfsFileBuilder, checksums
from hflush.hdfs.options import FAVORED_NODES, HdfsOptions
from hflush.tokens import Token
from support.rude_servers import refusing

REFUSED = {"ipc.client.connect.max.retries": "0"}


def hdfs(url: str = "hdfs://nn:8020/", **conf: object) -> DistributedFileSystem:
    keys = {key.replace("__", "."): value for key, value in conf.items()}
    fs = hflush.FileSystem.new_instance(url, keys)
    assert isinstance(fs, DistributedFileSystem)
    return fs


class TestNames:
    """Which file system a URL means, and which path in it."""

    @pytest.mark.parametrize("url", ["hdfs:///a", "hdfs:/a"])
    def test_a_url_must_lead_somewhere(self, url: str):
        with pytest.raises(ValueError, match=r"must name a host .* fs\.defaultFS"):
            hflush.FileSystem.get(url)

    def test_the_default_file_system(self):
        """It gives a URL without a host its own, and a plain path everything."""
        for url in ("hdfs:///a", "/a", None):
            fs = hflush.FileSystem.get(url, {"fs.defaultFS": "hdfs://nn:9000/ignored"})
            assert fs.uri == "hdfs://nn:9000/"
        other = hflush.FileSystem.get("hdfs://mm/", {"fs.defaultFS": "hdfs://nn:9000"})
        assert other.uri == "hdfs://mm/"

    @pytest.mark.parametrize(
        "path", ["hdfs://nn:8020/a", "hdfs://nn/a", "HDFS://NN/a", "hdfs://nn//a/", "/a"]
    )
    def test_paths_that_are_here(self, path: str):
        """A port that is left out is 8020; hosts have no case."""
        for url in ("hdfs://nn", "hdfs://nn:8020"):
            assert hdfs(url)._resolve(path) == "/a"

    def test_statuses_of_other_instances(self):
        """Their paths may be spelled otherwise; those of another file system are refused."""
        fs: Any = hdfs("hdfs://nn:8020/")
        fs._native = SimpleNamespace(block_locations=lambda path, *_: asked.append(path) or [])
        asked: list[str] = []
        there = {"kind": "file", "length": 1, "file_id": (16387, 16388)}
        for url in ("hdfs://nn", "hdfs://nn:8020", "HDFS://NN"):
            fs.get_file_block_locations(hflush.FileStatus(f"{url}/data/part-0", **there))
        assert asked == 3 * ["/data/part-0"]
        for path in ("/data/part-0", "hdfs://mm:8020/data/part-0"):
            status = hflush.FileStatus(path, **there)
            for use in (fs.get_file_block_locations, fs.get_path_handle):
                with pytest.raises(ValueError, match="wrong file system"):
                    use(status)

    def test_a_user_in_a_url(self, monkeypatch: pytest.MonkeyPatch):
        """It is who asks: for this file system, for what is shared, and where it is sent."""
        monkeypatch.setenv("HADOOP_PROXY_USER", "proxied")
        keys = {"hflush.hdfs.user": "bob", "fs.defaultFS": "hdfs://ann@nn:8020/"}
        for url in ("hdfs://ann@nn:8020/x", "/x", "hdfs:///x"):
            fs = hflush.FileSystem.get(url, keys)
            assert isinstance(fs, DistributedFileSystem)
            native = fs._settings_of_client
            assert (fs.uri, fs.home_directory) == ("hdfs://ann@nn:8020/", "/user/ann")
            assert (native.user, native.real_user) == ("ann", "")
            assert native.name_nodes == [("nn", 8020)]
        assert pickle.loads(pickle.dumps(fs)) is fs
        assert fs.make_qualified("/a") == "hdfs://ann@nn:8020/a"
        assert {fs._resolve(f"hdfs://{who}nn/a") for who in ("ann@", "")} == {"/a"}
        with pytest.raises(ValueError, match="wrong file system"):
            fs._resolve("hdfs://bob@nn/a")
        bob = hflush.FileSystem.get("hdfs://nn:8020/", keys)
        assert bob is not fs
        assert bob._resolve("hdfs://bob@nn/a") == "/a"
        assert fs._shares_files_with(bob)
        assert hdfs("hdfs://ann@ns/", dfs__nameservices="ns", **{
            "dfs.namenode.rpc-address.ns": "mm:1",
        })._settings_of_client.name_nodes == [("mm", 1)]  # fmt: skip

    @pytest.mark.parametrize("authority", ["ann:hush@nn", "@nn", "a@b@nn:8020"])
    def test_what_is_no_user(self, authority: str):
        """A password is not shown."""
        with pytest.raises(ValueError, match="user@host:port, without a password") as refusal:
            hdfs(f"hdfs://{authority}/")
        assert "hush" not in str(refusal.value)

    @pytest.mark.parametrize(
        "path", ["hdfs://nn:8021/a", "hdfs://mm/a", "hdfs:///a", "file:///a", "s3://nn/a"]
    )
    def test_paths_that_are_elsewhere(self, path: str):
        with pytest.raises(ValueError, match="wrong file system"):
            hdfs()._resolve(path)

    def test_without_a_host_inside_the_default(self):
        fs = hdfs("hdfs://nn", fs__defaultFS="hdfs://nn:8020")
        assert fs._resolve("hdfs:///a") == "/a"
        elsewhere = hdfs("hdfs://mm", fs__defaultFS="hdfs://nn:8020")
        with pytest.raises(ValueError, match="wrong file system"):
            elsewhere._resolve("hdfs:///a")

    def test_names_are_utf_8(self):
        """Bytes that are not would come back as others."""
        assert hdfs()._resolve("/日本/é") == "/日本/é"
        with pytest.raises(hflush.InvalidPathError, match="UTF-8"):
            hdfs()._resolve("/a\udcff")

    def test_home(self, monkeypatch: pytest.MonkeyPatch):
        """Of the user at the time, below the prefix; relative names begin there."""
        monkeypatch.setenv("HADOOP_USER_NAME", "ann")
        fs = hdfs(dfs__user__home__dir__prefix="/homes/")
        monkeypatch.setenv("HADOOP_USER_NAME", "ben")
        assert fs.home_directory == fs.working_directory == "/homes/ann"
        assert hdfs().home_directory == "/user/ben"
        assert fs.make_qualified("x") == "hdfs://nn:8020/homes/ann/x"

    def test_shared_by_user(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("HADOOP_USER_NAME", "ann")
        anns = hflush.FileSystem.get("hdfs://nn")
        assert hflush.FileSystem.get("hdfs://nn") is anns
        monkeypatch.setenv("HADOOP_USER_NAME", "ben")
        assert hflush.FileSystem.get("hdfs://nn") is not anns

    def test_shared_by_caller(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        """Who is behind a proxy user, and the file of the tokens, are part of who calls."""
        hflush.Credentials().write(tmp_path / "tokens")
        monkeypatch.setenv("HADOOP_PROXY_USER", "ann")
        seen = [hflush.FileSystem.get("hdfs://nn")]
        for name, value in (
            ("HADOOP_USER_NAME", "other"),
            ("HADOOP_TOKEN_FILE_LOCATION", f"{tmp_path}/tokens"),
        ):
            monkeypatch.setenv(name, value)
            seen.append(hflush.FileSystem.get("hdfs://nn"))
        assert len(set(map(id, seen))) == 3

    def test_name_services(self):
        """Known by the configuration; one without addresses is refused with the key's name."""
        keys: dict[str, str] = {
            "dfs.nameservices": "ns",
            "dfs.ha.namenodes.ns": "a,b",
            "dfs.namenode.rpc-address.ns.a": "one:8020",
            "dfs.namenode.rpc-address.ns.b": "two:8020",
        }
        fs = hflush.FileSystem.get("hdfs://ns/", keys)
        assert fs.uri == "hdfs://ns/"
        assert fs._shares_files_with(hdfs("hdfs://TWO/"))
        assert not fs._shares_files_with(hdfs("hdfs://two:9000/"))
        del keys["dfs.namenode.rpc-address.ns.b"]
        with pytest.raises(ValueError, match=r"dfs\.namenode\.rpc-address\.ns\.b"):
            hflush.FileSystem.get("hdfs://ns/", keys)


class TestConfiguration:
    """What is wrong with it is said before anything is done."""

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("dfs.blocksize", "big"),
            ("dfs.replication", "-1"),
            ("dfs.checksum.combine.mode", "SHA"),
            ("fs.permissions.umask-mode", "999"),
            ("dfs.support.append", "perhaps"),
        ],
    )
    def test_bad_values_name_their_key(self, key: str, value: str):
        with pytest.raises(ValueError, match=key):
            hflush.FileSystem.get("hdfs://nn", {key: value})

    def test_others_keys_do_not_matter(self):
        """A key of somebody else may be as it likes."""
        assert hdfs(**{"yarn.x": "${yarn.x}"}).uri == "hdfs://nn:8020/"

    def test_append_can_be_switched_off(self):
        fs = hdfs(dfs__support__append=False)
        assert fs.contract_options["supports-append"] is False
        assert not fs.has_path_capability("/a", hflush.capabilities.APPEND)
        with pytest.raises(io.UnsupportedOperation, match="append"):
            fs.append("/a")

    def test_contract_options(self):
        """The same options as every store, read-only."""
        options = hdfs().contract_options
        raw = hflush.FileSystem.get("file:///").contract_options
        assert options.keys() == raw.keys()
        assert options["max-write-window"] == 80 * 65536
        with pytest.raises(TypeError):
            options["supports-append"] = False  # type: ignore[index]

    def test_it_travels(self):
        """What was configured and set; nothing that is connected."""
        fs = hdfs(dfs__blocksize="1m")
        fs.set_verify_checksum(False)
        fs.set_working_directory("/w")
        there = pickle.loads(pickle.dumps(fs))
        assert (there.uri, there.working_directory) == (fs.uri, "/w")
        assert there.get_default_block_size() == 1 << 20
        assert there._verifies_checksums is False
        assert pickle.loads(pickle.dumps(there)) is not there
        plain = hflush.FileSystem.get("hdfs://nn:8020/")
        assert pickle.loads(pickle.dumps(plain)) is plain
        real = pickle.loads(pickle.dumps(hdfs(**{"hflush.hdfs.real-user": "eve"})))
        assert real._settings_of_client.real_user == "eve"


class ZoneServer:
    """A router of two mount points, one of which is an encryption zone."""

    def __init__(self) -> None:
        self.asked = 0

    def enclosing_root(self, path: str) -> str:
        return path[:5]

    def encryption_zone(self, path: str) -> str | None:
        self.asked += 1
        if path.endswith("/unreadable"):
            raise PermissionError(errno.EACCES, "Permission denied: user=ann", path)
        return "/zone" if path.startswith("/zone") else None


class TestTrash:
    """Where it is, as Hadoop's client has it."""

    @staticmethod
    def file_system(interval: int, monkeypatch: pytest.MonkeyPatch) -> Any:
        fs: Any = hdfs(hflush__hdfs__user="ann", fs__trash__interval=interval)
        defaults = hflush.FileSystem.get("file:///").get_server_defaults()
        monkeypatch.setattr(fs, "get_server_defaults", lambda: defaults)
        fs._native = ZoneServer()
        return fs

    def test_in_an_encryption_zone(self, monkeypatch: pytest.MonkeyPatch):
        """Nothing is moved out of one, but for its root, which cannot go into itself."""
        fs = self.file_system(1, monkeypatch)
        assert fs.get_trash("/zone/a").root == "/zone/.Trash/ann"
        assert fs.get_trash("/zone").root == fs.get_trash().root == "/user/ann/.Trash"

    def test_in_no_encryption_zone(self, monkeypatch: pytest.MonkeyPatch):
        """At home, whatever the enclosing root is: the mount point of a router has no emptier."""
        fs = self.file_system(1, monkeypatch)
        assert fs.get_enclosing_root("/data/a") == "/data"
        assert fs.get_trash("/data/a").root == "/user/ann/.Trash"

    def test_where_the_server_does_not_say(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ):
        fs = self.file_system(1, monkeypatch)
        assert fs.get_trash("/data/unreadable/a").root == "/user/ann/.Trash"
        assert "/data/unreadable" in caplog.text
        assert "user=ann" in caplog.text

    def test_no_question_while_it_is_off(self, monkeypatch: pytest.MonkeyPatch):
        fs = self.file_system(0, monkeypatch)
        assert fs.move_to_trash("/zone/a") is False
        assert fs._native.asked == 0


def missing(path: str) -> NoReturn:
    raise FileNotFoundError(errno.ENOENT, "no such file", path)


class OpenStream:
    """What a file system knows of one."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file_id = 7
        self._state = "open"

    def tell(self) -> int:
        return 3

    def _abandon(self) -> None:
        self._state = "aborted"

    def _supersede(self) -> None:
        if self._state != "aborted":
            self._state = "failed"


def go_on() -> None:
    pass


def test_streams_that_end_for_a_token(monkeypatch: pytest.MonkeyPatch):
    """Those of its file, also if it was renamed; behind a router others have its id, too.

    One that has failed still says so when it is closed. Those that have ended are in no one's way.
    """
    pools = {"/ours": "BP-1", "/theirs": "BP-2"}

    class Router:
        def block_pool(self, path: str) -> str:
            return pools.get(path) or missing(path)

    fs: Any = hdfs()
    fs._native = Router()
    status = hflush.FileStatus("/ours", kind="file", length=3, file_id=(7,))
    monkeypatch.setattr(fs, "_status", lambda _: status)
    streams = [OpenStream(path) for path in ("/ours", "/before", "/theirs")]
    monkeypatch.setattr(fs, "_open_streams", lambda: streams)
    longer = Token("hdfs", "hdfs://nn/ours", 4, {"file_id": 7, "pool": "BP-1"})
    with pytest.raises(hflush.StaleTokenError, match="shorter"):
        fs._found(longer, "/ours", go_on)
    assert all(stream._state == "open" for stream in streams)
    streams[1]._state = "failed"
    token = Token("hdfs", "hdfs://nn/ours", 3, longer.state)
    assert fs._found(token, "/ours", go_on) == (status, "BP-1")
    assert [stream._state for stream in streams] == ["aborted", "failed", "open"]
    assert fs._found(longer, "/ours", go_on) == (status, "BP-1")  # the next writer's
    assert [stream._state for stream in streams] == ["aborted", "failed", "open"]


def test_a_token_whose_file_another_writer_changes_before_the_append(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """What the append has opened is closed: the other one can go on with it."""
    fs: Any = hdfs()
    local: Any = hflush.FileSystem.get("file:///")
    appended = tmp_path / "theirs"
    appended.write_bytes(b"more")
    stream = local._append(str(appended), options_of.CreateOptions({}, True))
    monkeypatch.setattr(fs, "_found", lambda *_: (SimpleNamespace(length=3), "BP-1"))
    monkeypatch.setattr(fs, "_append", lambda *_: stream)
    state = {"file_id": stream._file_id, "pool": "BP-1"}
    with pytest.raises(hflush.StaleTokenError, match="another writer"):
        fs._resume(Token("hdfs", "hdfs://nn/theirs", 3, state), "/theirs", go_on)
    assert stream._state == "closed"


def test_a_token_whose_file_is_removed_while_it_is_closed(monkeypatch: pytest.MonkeyPatch):
    """That takes up to minutes: it is stale then, as where the file was removed before."""
    fs: Any = hdfs()
    monkeypatch.setattr(fs, "_found", lambda *_: (SimpleNamespace(length=3), "BP-1"))
    monkeypatch.setattr(fs, "_place_of", lambda *_: "/.reserved/.inodes/7")
    monkeypatch.setattr(fs, "_recover_lease", lambda place, *_: missing(place))
    token = Token("hdfs", "hdfs://nn/ours", 3, {"file_id": 7, "pool": "BP-1"})
    with pytest.raises(hflush.StaleTokenError, match="gone"):
        fs._commit(token, "/ours", go_on)


class MountPoints:
    """A router: its mount points have no id, and ids of two namespaces repeat."""

    def __init__(self, *files: str) -> None:
        self.ids = {"/": 16385, "/a": 16386, "/a/m": 0, "/a/m/n": 0, "/a/m/n/d": 16386}
        self.files = files

    def status(self, path: str) -> Any:
        if path not in (*self.ids, *self.files):
            return None
        unknown = dict.fromkeys(
            ("length", "replication", "block_size", "modification_time", "access_time",
             "permission", "is_encrypted", "is_erasure_coded", "has_acl"), 0,
        )  # fmt: skip
        return SimpleNamespace(
            name=path.rpartition("/")[2],
            kind="file" if path in self.files else "directory",
            file_id=self.ids.get(path, 16387),
            owner="ann",
            group="users",
            locations=None,
            **unknown,
        )

    def list_page(self, path: str, _after: str, _located: bool) -> tuple[list[Any], int]:
        children = [one for one in (*self.ids, *self.files) if one != "/"]
        return [self.status(one) for one in children if paths.parent(one) == path], 0


class TestRouters:
    """Directories of HDFS are in no circle, whatever their ids are."""

    @staticmethod
    def file_system(*files: str) -> Any:
        fs: Any = hdfs()
        fs._native = MountPoints(*files)
        return fs

    def test_all_that_is_below_is_listed(self):
        fs = self.file_system("/a/m/n/d/f")
        assert [one.path for one in fs.list_files("/", True)] == ["hdfs://nn:8020/a/m/n/d/f"]
        assert fs.get_file_status("/a/m").file_id is None

    def test_all_that_is_below_is_listed_in_a_view(self):
        keys = {"fs.viewfs.mounttable.c.link./data": "hdfs://nn:8020/"}
        view: Any = hflush.FileSystem.new_instance("viewfs://c/", keys)
        view._store_at("/data")._native = MountPoints("/a/m/n/d/f")
        assert [one.name for one in view.list_files("/", True)] == ["f"]

    def test_all_that_is_below_is_copied(self, tmp_path: Path):
        local: Any = hflush.FileSystem.get("file:///")
        copied = tmp_path / "a"
        arguments = {"delete_source": False, "overwrite": False}
        transfer.copy(self.file_system(), "/a", local, str(copied), **arguments)
        assert (copied / "m" / "n" / "d").is_dir()

    @pytest.mark.parametrize(("target", "inside"), [("/a/x", False), ("/a/m/n/d/x", True)])
    def test_copies_into_the_source(self, target: str, inside: bool):
        """It is the path that tells: also where the cluster is called by another name."""
        fs, other = self.file_system(), hdfs("hdfs://ann@nn:8020/")
        status = fs.get_file_status("/a/m/n/d")
        assert transfer.is_within(fs, target, fs, status) is inside
        assert transfer.is_within(other, target, fs, status) is inside

    @pytest.mark.parametrize(("pool", "by_id"), [("BP-1", True), ("BP-2", False), (None, False)])
    def test_handles_of_files_that_may_be_moved(
        self, monkeypatch: pytest.MonkeyPatch, pool: str | None, by_id: bool
    ):
        """An id leads into the router's default namespace, where it may be another file's."""
        inode = "/.reserved/.inodes/16387"
        fs = self.file_system("/a/f", inode)
        fs._native.block_pool = lambda path: "BP-1" if path == "/a/f" else pool or missing(path)
        monkeypatch.setattr(fs, "open", lambda path, **_: SimpleNamespace(path=path, close=int))
        handle = fs.get_path_handle(fs.get_file_status("/a/f"), changed=True, moved=True)
        assert fs.open_path_handle(handle).path == "/a/f"
        fs._native.files = (inode,)
        with nullcontext() if by_id else pytest.raises(hflush.InvalidPathHandleError):
            assert fs.open_path_handle(handle).path == inode

    def test_a_copy_into_the_source_by_its_id(self):
        fs = self.file_system("/.reserved/.inodes/16386/x")
        fs._native.ids["/.reserved/.inodes/16386"] = 16386
        status = fs.get_file_status("/a")
        assert transfer.is_within(fs, "/.reserved/.inodes/16386/x", fs, status)


class TestCreating:
    """What is asked of create reaches the native client; what cannot be had is refused here."""

    @staticmethod
    def native(flags: CreateFlag = CreateFlag.CREATE, **options: Any) -> Any:
        keyed = options_of.required(options, options_of.CREATE_KEYWORDS, ())
        wanted = options_of.CreateOptions(keyed, True, flags)
        return hdfs(**{"fs.permissions.umask-mode": "027"})._native_options(wanted)

    def test_defaults_are_left_to_the_client(self):
        native = self.native()
        assert native.replication is native.block_size is native.checksum is None
        assert (native.unmasked, native.masked) == (0o666, 0o640)
        assert (native.favored_nodes, native.storage_policy, native.ec_policy) == ([], "", "")
        assert not any((native.sync_block, native.update_length, native.lazy_persist))

    def test_options(self):
        native = self.native(
            checksum_type="crc32",
            bytes_per_checksum=128,
            favored_nodes="a:1, b:2",
            storage_policy="ALL_SSD",
            update_length=True,
        )
        assert (native.checksum, native.bytes_per_checksum) == ("CRC32", 128)
        assert native.favored_nodes == ["a:1", "b:2"]
        assert native.storage_policy == "ALL_SSD"
        assert native.update_length

    @pytest.mark.parametrize(
        ("flag", "field"),
        [
            (CreateFlag.SYNC_BLOCK, "sync_block"),
            (CreateFlag.LAZY_PERSIST, "lazy_persist"),
            (CreateFlag.NO_LOCAL_WRITE, "no_local_write"),
            (CreateFlag.IGNORE_CLIENT_LOCALITY, "ignore_client_locality"),
            (CreateFlag.SHOULD_REPLICATE, "should_replicate"),
        ],
    )
    def test_flags(self, flag: CreateFlag, field: str):
        assert getattr(self.native(CreateFlag.CREATE | flag), field) is True
        assert getattr(self.native(), field) is False

    def test_sync_on_close_is_sync_block(self):
        assert self.native(sync_on_close=True).sync_block
        assert not self.native(
            CreateFlag.CREATE | CreateFlag.SYNC_BLOCK, sync_on_close=False
        ).sync_block

    def test_appends_place_new_blocks_as_creations_do(self):
        flags = CreateFlag.APPEND | CreateFlag.NO_LOCAL_WRITE | CreateFlag.IGNORE_CLIENT_LOCALITY
        builder = hdfs().append_file("/a").favored_nodes(["a:1"]).update_length()
        wanted = options_of.CreateOptions(builder._options, True, flags)
        native = hdfs()._append_options(wanted)
        assert (native.new_block, native.sync_block, native.update_length) == (False, False, True)
        assert native.no_local_write
        assert native.ignore_client_locality
        assert native.favored_nodes == ["a:1"]
        assert FAVORED_NODES in DistributedFileSystem.append_options

    @pytest.mark.parametrize(
        ("call", "flag"),
        [
            (HdfsFileBuilder.sync_block, CreateFlag.SYNC_BLOCK),
            (HdfsFileBuilder.lazy_persist, CreateFlag.LAZY_PERSIST),
            (HdfsFileBuilder.new_block, CreateFlag.NEW_BLOCK),
            (HdfsFileBuilder.no_local_write, CreateFlag.NO_LOCAL_WRITE),
            (HdfsFileBuilder.ignore_client_locality, CreateFlag.IGNORE_CLIENT_LOCALITY),
            (HdfsFileBuilder.replicate, CreateFlag.SHOULD_REPLICATE),
        ],
    )
    def test_builders_set_flags(
        self, call: Callable[[HdfsFileBuilder], HdfsFileBuilder], flag: CreateFlag
    ):
        builder = hdfs().create_file("/a")
        assert call(builder) is builder
        assert flag in builder._flags

    def test_builders_set_options(self):
        builder = hdfs().append_file("/a")
        builder.favored_nodes(["a:1"]).storage_policy("HOT").ec_policy("RS").update_length()
        wanted = HdfsOptions(builder._options)
        assert wanted.favored_nodes == ("a:1",)
        assert (wanted.storage_policy, wanted.ec_policy) == ("HOT", "RS")
        assert wanted.update_length is True

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"favored_nodes": 1}, TypeError),
            ({"favored_nodes": ["a:1", 2]}, TypeError),
            ({"storage_policy": ""}, ValueError),
            ({"ec_policy": 7}, TypeError),
            ({"update_length": "perhaps"}, ValueError),
            (
                {"flags": {CreateFlag.CREATE, CreateFlag.SHOULD_REPLICATE}, "ec_policy": "RS"},
                ValueError,
            ),
            ({"fs.s3.create.header": "x"}, ValueError),
        ],
    )
    def test_what_cannot_be(self, options: dict[str, Any], error: type[Exception]):
        with pytest.raises(error):
            hdfs().create("/a", **options)

    def test_other_stores_refuse(self, tmp_path: Path):
        """A replica's place means nothing to a local file; must() says so, opt() does not mind."""
        fs = hflush.FileSystem.get("file:///")
        with pytest.raises(ValueError, match="favored"):
            fs.create(tmp_path / "a", favored_nodes=["a:1"])
        fs.create_file(tmp_path / "a").opt("fs.hdfs.create.favored.nodes", "a:1").build().close()

    def test_append_flags(self):
        """APPEND goes without saying; what contradicts it is refused."""
        with pytest.raises(ValueError, match="exclude"):
            hdfs().append("/a", flags=CreateFlag.OVERWRITE)
        with pytest.raises(TypeError):
            hdfs().append("/a", flags=["NEW_BLOCK"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda fs: fs.truncate("/a", -1), ValueError),
        (lambda fs: fs.truncate("/a", 1 << 63), ValueError),
        (lambda fs: fs.truncate("/a", "1"), TypeError),
        (lambda fs: fs.concat("/a", []), ValueError),
        (lambda fs: fs.concat("/a", ["/b", "/./a"]), OSError),
        (lambda fs: fs.concat("/a", "/b"), TypeError),
        (lambda fs: fs.set_replication("/a", 0), ValueError),
        (lambda fs: fs.set_replication("/a", 1 << 15), ValueError),
        (lambda fs: fs.set_times("/a", -2), ValueError),
        (lambda fs: fs.set_times("/a", 1 << 63), ValueError),
        (lambda fs: fs.set_quota("/a", 0), ValueError),
        (lambda fs: fs.set_quota("/a", space=-2), ValueError),
        (lambda fs: fs.set_quota("/a", 1 << 63), ValueError),
        (lambda fs: fs.set_quota("/a", "5"), TypeError),
        (lambda fs: fs.set_permission("/a", 0o10000), ValueError),
        (lambda fs: fs.set_owner("/a", 1), TypeError),
        (lambda fs: fs.set_safe_mode("maybe"), ValueError),
        (lambda fs: fs.set_storage_policy("/a", ""), ValueError),
        (lambda fs: fs.get_file_checksum("/a", -1), ValueError),
        (lambda fs: fs.open_path_handle(b"[]"), ValueError),
        (lambda fs: fs.open_path_handle(b'["/a", "x", null, null]'), ValueError),
        (lambda fs: fs.open_path_handle("text"), TypeError),
        (lambda fs: fs.get_path_handle("/a"), TypeError),
        (lambda fs: fs.create("/"), hflush.PathIsDirectoryError),
        (lambda fs: fs.set_write_checksum(True), io.UnsupportedOperation),
        (lambda fs: fs.create_symlink("/a", "/b"), io.UnsupportedOperation),
        (lambda fs: fs.copy("/a", "/b"), io.UnsupportedOperation),
        (lambda fs: fs.list_multipart_uploads("/"), io.UnsupportedOperation),
    ],
)
def test_bad_arguments(call: Callable[[Any], object], error: type[Exception]):
    """They are refused without a word to a server: there is none."""
    with pytest.raises(error):
        call(hdfs())


@pytest.mark.parametrize("name", ["..", ".", "../a", "a/b", ""])
def test_names_that_no_directory_has(name: str):
    """A server that lists them would lead a copy of the tree out of its target, or in a circle."""
    entry: Any = SimpleNamespace(name=name, kind="directory")
    with pytest.raises(OSError, match="no name of a file") as refusal:
        list(hdfs()._following("/a", ([entry], 0), False))
    assert refusal.value.errno == errno.EBADMSG


def test_a_token_without_a_service(monkeypatch: pytest.MonkeyPatch):
    """None is asked for where its name cannot be found out: nobody would get it, or cancel it."""
    fs: Any = hdfs()
    fs._native = None
    unknown = OSError("the name is unknown")
    monkeypatch.setattr("socket.getaddrinfo", Mock(side_effect=unknown))
    with pytest.raises(OSError, match="the name is unknown"):
        fs.get_delegation_token("yarn")


class TestNobodyThere:
    """A server that does not answer: a clear error, and the instance can be used again."""

    @pytest.fixture
    def fs(self) -> Iterator[DistributedFileSystem]:
        with refusing() as (host, port):
            yield hdfs(f"hdfs://{host}:{port}", **REFUSED)

    @pytest.mark.parametrize(
        ("call", "method"),
        [
            (lambda fs: fs.exists("/a/b"), "getFileInfo"),
            (lambda fs: fs.list_status("/a/b"), "getListing"),
            (lambda fs: fs.list_status_iterator("/a/b"), "getListing"),
            (lambda fs: fs.create("/a/b"), "create"),
            (lambda fs: fs.append("/a/b"), "append"),
            (lambda fs: fs.open("/a/b"), "getBlockLocations"),
            (lambda fs: fs.delete("/a/b"), "delete"),
            (lambda fs: fs.recover_lease("/a/b"), "getFileInfo"),
        ],
    )
    def test_the_failure_says_everything(
        self, fs: DistributedFileSystem, call: Callable[[Any], object], method: str
    ):
        """Operation, host, port and path; for callers in a hurry the class and errno."""
        port = fs.uri.rpartition(":")[2].rstrip("/")
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError, match=method) as refusal:
                call(fs)
            assert refusal.value.errno == errno.ECONNREFUSED
            assert refusal.value.filename == "/a/b"
            assert f"127.0.0.1:{port}" in str(refusal.value)

    def test_statistics_and_close(self, fs: DistributedFileSystem):
        """They need no server; an instance that was closed connects again."""
        assert "rpc_calls" not in fs.io_statistics().counters
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError):
                fs.get_status()
            counters = fs.io_statistics().counters
            assert (counters["rpc_calls"], counters["rpc_failures"]) == (1, 1)
            fs.close()
            fs.close()
            assert "rpc_calls" not in fs.io_statistics().counters


class TestChecksums:
    """Vectors of Hadoop 3.5.0's FileChecksumHelper."""

    @pytest.mark.parametrize("composite", [False, True])
    def test_an_empty_file(self, composite: bool):
        """The MD5 form in either mode: that of 32 zero bytes."""
        found = checksums.combined([], composite, "/a")
        assert found.algorithm == "MD5-of-0MD5-of-0CRC32"
        assert found.value == bytes(12) + bytes.fromhex("70bc8f4b72a86921468bf8e8441dce51")

    def test_composite(self):
        """CRC32C of two parts is that of the whole."""
        blocks = [
            (6, 512, 2, bytes.fromhex("7e627e58"), "CRC32C"),
            (5, 512, 2, bytes.fromhex("31aa814e"), "CRC32C"),
        ]
        found = checksums.combined(blocks, True, "/a")
        assert (found.algorithm, found.value.hex()) == ("COMPOSITE-CRC32C", "c99465aa")

    @pytest.mark.parametrize(
        ("count", "padded"), [(1, 32), (2, 32), (3, 64), (4, 64), (5, 128), (8, 128), (9, 256)]
    )
    def test_md5_of_md5(self, count: int, padded: int):
        """Hadoop digests the whole buffer, which doubles as it fills; one block has no count."""
        import hashlib

        digests = [bytes([number]) * 16 for number in range(count)]
        blocks = [(1024, 512, 2, digest, "CRC32") for digest in digests]
        found = checksums.combined(blocks, False, "/a")
        sums = 2 if count > 1 else 0
        assert found.algorithm == f"MD5-of-{sums}MD5-of-512CRC32"
        whole = b"".join(digests).ljust(padded, b"\0")
        assert len(whole) == padded
        assert (
            found.value
            == (512).to_bytes(4, "big")
            + sums.to_bytes(8, "big")
            + hashlib.md5(whole, usedforsecurity=False).digest()
        )

    @pytest.mark.parametrize(
        ("second", "error"),
        [
            ((1024, 512, 2, bytes(16), "CRC32C"), OSError),
            ((1024, 128, 8, bytes(16), "CRC32"), OSError),
        ],
    )
    def test_blocks_that_do_not_fit_together(
        self, second: tuple[int, int, int, bytes, str], error: type[Exception]
    ):
        with pytest.raises(error, match="different"):
            checksums.combined([(1024, 512, 2, bytes(16), "CRC32"), second], False, "/a")

    def test_a_file_without_sums(self):
        with pytest.raises(io.UnsupportedOperation):
            checksums.combined([(1, 512, 1, bytes(16), "NULL")], False, "/a")


class TestIdentity:
    """Nobody acts as somebody else without a word."""

    @pytest.mark.parametrize("method", ["kerberos", "KERBEROS", "token"])
    def test_only_simple_authentication(self, method: str):
        """A configuration that asks for more is refused by the key's name; nobody is asked."""
        with pytest.raises(io.UnsupportedOperation, match=r"hadoop\.security\.authentication"):
            hdfs(hadoop__security__authentication=method)
        assert hdfs(hadoop__security__authentication="SIMPLE").uri == hdfs().uri

    @pytest.mark.parametrize(
        ("key", "usual", "other"),
        [
            (
                "hadoop__rpc__socket__factory__class__default",
                "org.apache.hadoop.net.StandardSocketFactory",
                "org.apache.hadoop.net.SocksSocketFactory",
            ),
            ("dfs__client__local__interfaces", "", "eth1"),
        ],
    )
    def test_other_ways_to_servers(self, key: str, usual: str, other: str):
        """What is to go by another way does not go straight."""
        assert hdfs(**{key: usual}).uri == hdfs().uri
        with pytest.raises(io.UnsupportedOperation, match=rf"{key.replace('__', '.')} is {other}"):
            hdfs(**{key: other})

    def test_proxy_user(self, monkeypatch: pytest.MonkeyPatch):
        """HADOOP_PROXY_USER is who we act as; instances are shared by it, too."""
        monkeypatch.setenv("HADOOP_USER_NAME", "gateway")
        gateway = hflush.FileSystem.get("hdfs://nn")
        monkeypatch.setenv("HADOOP_PROXY_USER", "ann")
        ann = hflush.FileSystem.get("hdfs://nn")
        assert ann is not gateway
        assert (gateway.home_directory, ann.home_directory) == ("/user/gateway", "/user/ann")
        assert hflush.Configuration()["fs.defaultFS"] == "file:///"

    @pytest.mark.parametrize(
        ("authority", "hints"), [("no.invalid", True), ("no.invalid:1", False)]
    )
    def test_an_unknown_name_service(self, authority: str, hints: bool):
        """What is perhaps a name service without its configuration is told as that."""
        fs = hflush.FileSystem.new_instance(f"hdfs://{authority}")
        with pytest.raises(OSError, match="resolve host") as unknown:
            fs.exists("/x")
        for name in ("HADOOP_CONF_DIR", "dfs.nameservices"):
            assert (name in str(unknown.value)) is hints
        fs.close()
