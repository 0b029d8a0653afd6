"""viewfs: mount tables, and operations that are those of the file systems behind the links."""

from __future__ import annotations

import errno
import io
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import hflush
import pytest
from hflush import Configuration, Rename, cli, transfer
from hflush.checkpoint import FileContextBased
from hflush.credentials import Token
from hflush.status import ContentSummary
from hflush.viewfs import ViewFileSystem
from hflush.viewfs.mounts import MountTable
from support.scripted_s3 import ScriptedS3
from upath import UPath

TABLE = "fs.viewfs.mounttable.c."


def table(**entries: str) -> MountTable:
    conf = Configuration(load_defaults=False)
    conf.update({TABLE + entry.replace("__", "."): value for entry, value in entries.items()})
    return MountTable(conf, "c")


class TestTables:
    """Which file system, and which path there, is at a path."""

    @pytest.mark.parametrize(
        ("path", "root", "there"),
        [
            ("/data", "hdfs://ns1/", "/data"),
            ("/data/a/b", "hdfs://ns1/", "/data/a/b"),
            ("/user/ann/x", "s3a://bucket/", "/x"),
            ("/database", "hdfs://rest:8020/", "/old/database"),
            ("/user/bob", "hdfs://rest:8020/", "/old/user/bob"),
        ],
    )
    def test_links(self, path: str, root: str, there: str):
        links = {
            f"{TABLE}link./data": "hdfs://ns1/data",
            f"{TABLE}link./user/ann/": " s3a://bucket ",
            f"{TABLE}linkFallback": "hdfs://rest:8020/old",
        }
        conf = Configuration(load_defaults=False)
        conf.update(links)
        read = MountTable(conf, "c")
        link = read.find(path)
        assert link is not None
        assert (link.root, link.inward(path)) == (root, there)
        assert link.outward(there) == path
        assert (read.names("/"), read.names("/user"), read.names("/x")) == (
            ["data", "user"], ["ann"], [],
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("entry", "target", "path", "there"),
        [
            (r"^/(\w+)", "hdfs://ns1/base/$1", "/data/a", "/base/data/a"),
            (r"^/user/(?<name>\w+)", "hdfs://ns1/${name}", "/user/ann", "/ann"),
            (r"^/user/(?<name>\w+)/", "hdfs://ns1/$name", "/user/ann/a/b", "/ann/a/b"),
            (r"^/\w+", "hdfs://ns1/same", "/any/a", "/same/a"),
            (r"^/(\w+)", "hdfs://ns1/$1", "/my-data/a", "/my/-data/a"),
            (
                r"replaceresolveddstpath:_:-;replaceresolveddstpath:(h)a:$1A#.^/user/(\w+)",
                "hdfs://ns1/$1", "/user/ha_d/ha_d", "/hA-d/ha_d",
            ),
        ],
    )  # fmt: skip
    def test_links_by_regular_expressions(self, entry: str, target: str, path: str, there: str):
        """They come before the others, and what they find itself stays as a link does."""
        conf = Configuration(load_defaults=False)
        conf[f"{TABLE}linkRegex.{entry}"] = target
        conf[f"{TABLE}link./data"] = conf[f"{TABLE}link./any"] = "hdfs://other/"
        link = MountTable(conf, "c").find(path)
        assert link is not None
        assert (link.root, link.inward(path)) == ("hdfs://ns1/", there)
        assert link.outward(there) == path

    def test_one_file_system_as_the_whole(self):
        link = table(linkMergeSlash="hdfs://ns1/a").find("/x/y")
        assert link is not None
        assert (link.inward("/x/y"), link.inward("/"), link.outward("/a")) == ("/a/x/y", "/a", "/")

    def test_names_with_dots(self):
        """Entries of table c.d are none of table c, and no mistakes there."""
        conf = Configuration(load_defaults=False)
        for name, entry in (
            ("c", "link./x.link.y"),
            ("c.d", "link./z"),
            ("c.link.e", "linkFallback"),
        ):
            conf[f"fs.viewfs.mounttable.{name}.{entry}"] = f"hdfs://{name}/"
        assert list(MountTable(conf, "c").links) == ["/x.link.y"]
        assert list(MountTable(conf, "c.d").links) == ["/z"]
        assert MountTable(conf, "c.link.e").links == {}
        with pytest.raises(ValueError, match=r"there is no mount table 'c\.li'"):
            MountTable(conf, "c.li")

    @pytest.mark.parametrize(
        ("entries", "complaint"),
        [
            ({}, "there is no mount table 'c'"),
            ({"linkNfly../d": "hdfs://a/,hdfs://b/"}, "linkNfly.* not supported"),
            ({"linkMerge./d": "hdfs://a/,hdfs://b/"}, "linkMerge.* not supported"),
            ({"linkRegex.^/(u": "hdfs://a/"}, "no regular expression"),
            ({"linkRegex.^/(u)": "hdfs://a/$2"}, r"\$2 of .* is no group"),
            ({"linkRegex.lower:a:b#.^/u": "hdfs://a/"}, "'lower:a:b' is not supported"),
            ({"lnik./d": "hdfs://a/"}, r"c\.lnik\./d is no entry"),
            ({"link./": "hdfs://a/"}, "linkMergeSlash"),
            ({"link./d": "/d"}, "must be a URL .* not '/d'"),
            ({"link./d": ""}, "must be a URL"),
            ({"linkMergeSlash": "hdfs://a/", "link./d": "hdfs://b/"}, "and link./d exclude"),
            ({"linkMergeSlash": "hdfs://a/", "linkFallback": "hdfs://b/"}, "exclude each other"),
        ],
    )
    def test_what_is_refused(self, entries: dict[str, str], complaint: str):
        """By the key, before anything is opened."""
        conf = {TABLE + entry: value for entry, value in entries.items()}
        with pytest.raises(ValueError, match=complaint):
            hflush.FileSystem.new_instance("viewfs://c/", conf)


@pytest.fixture
def conf(tmp_path: Path) -> dict[str, str]:
    for name in ("one", "two", "rest"):
        (tmp_path / name).mkdir()
    return {
        "fs.defaultFS": "viewfs://c",
        f"{TABLE}link./data": f"file://{tmp_path}/one",
        f"{TABLE}link./user/ann": f"file://{tmp_path}/two",
        f"{TABLE}link./sums": f"file+crc://{tmp_path}/two",
        f"{TABLE}link./gone": "nosuch://x/",
    }


@pytest.fixture
def fs(conf: dict[str, str]) -> ViewFileSystem:
    made = hflush.FileSystem.new_instance("/x", conf)
    assert isinstance(made, ViewFileSystem)
    return made


class TestOperations:
    def test_writing_and_reading(self, fs: ViewFileSystem, conf, tmp_path: Path):
        """Through each door, with the names of the view."""
        with fs.create("/data/d/x") as out:
            out.write(b"bytes")
        assert (tmp_path / "one" / "d" / "x").read_bytes() == b"bytes"
        assert hflush.open("viewfs://c/data/d/x", "rb", conf=conf).read() == b"bytes"
        assert hflush.FileSystem.get("viewfs:///", conf).uri == "viewfs://c/"
        status = fs.get_file_status("/data/d/x")
        assert (status.path, status.length) == ("viewfs://c/data/d/x", 5)
        assert [one.path for one in fs.list_status("/data")] == ["viewfs://c/data/d"]
        assert [one.path for one in fs.list_files("/data", True)] == ["viewfs://c/data/d/x"]
        assert [one.path for one in fs.glob_status("/data/*/?")] == ["viewfs://c/data/d/x"]
        behind = hflush.FileSystem.get("file:///").get_file_status(tmp_path / "one" / "d" / "x")
        for seen in (status, behind):
            with fs.open_file("/data/d/x").with_file_status(seen).build().result() as known:
                assert known.read() == b"bytes"
        with fs.append("/data/d/x") as out:
            out.write(b"!")
            out.hsync()
        assert fs.truncate("/data/d/x", 3)
        assert fs.get_content_summary("/data").length == 3
        assert pickle.loads(pickle.dumps(fs)).is_file("/data/d/x")

    def test_a_link_by_a_regular_expression(self, tmp_path: Path):
        """Where it leads is made and changed; itself it stays."""
        conf = {f"{TABLE}linkRegex.^/(\\w+)": f"file://{tmp_path}/$1"}
        fs = hflush.FileSystem.new_instance("viewfs://c/", conf)
        fs.create("/one/d/x").close()
        assert fs.rename("/one/d/x", "/one/d/y")
        assert [one.path for one in fs.list_status("/one/d")] == ["viewfs://c/one/d/y"]
        assert (tmp_path / "one" / "d" / "y").exists()
        for change in (lambda: fs.delete("/one", True), lambda: fs.rename("/one/d", "/two")):
            with pytest.raises(PermissionError, match="mount table"):
                change()
        assert fs.list_status("/") == []
        assert fs.contract_options == {}

    def test_the_directories_of_the_table(self, fs: ViewFileSystem):
        """They show the links, also one that leads nowhere, and cannot be changed."""
        assert sorted(one.name for one in fs.list_status("/")) == ["data", "gone", "sums", "user"]
        (entry,) = fs.list_status("/user")
        assert (entry.path, entry.is_directory) == ("viewfs://c/user/ann", True)
        assert fs.get_file_status("/user").permission == 0o555
        assert fs.mkdirs("/user")
        assert not fs.delete("/nosuch")
        with pytest.raises(FileNotFoundError, match="no link of the mount table c"):
            fs.open("/nosuch/x")
        with pytest.raises(hflush.NotAFileError):
            fs.open("/user")
        for change in (
            lambda: fs.create("/new"),
            lambda: fs.create("/user/new"),
            lambda: fs.mkdirs("/new/d"),
            lambda: fs.delete("/user", recursive=True),
            lambda: fs.delete("/data", recursive=True),
            lambda: fs.rename("/data", "/data2"),
            lambda: fs.rename("/user", "/data/user"),
            lambda: fs.set_permission("/user", 0o777),
            lambda: fs.move_to_trash("/data"),
        ):
            with pytest.raises(PermissionError, match="the mount table c cannot be changed"):
                change()
        for question in (fs.get_trash, fs.get_status):
            with pytest.raises(PermissionError, match="of the mount table c, in no file system"):
                question("/")
        with pytest.raises(hflush.UnsupportedFileSystemError, match="nosuch"):
            fs.create("/gone/x")

    def test_links_below_a_link(self, conf: dict[str, str], tmp_path: Path):
        """The nearest one counts, as in Hadoop; directories between two are those of the upper."""
        fs = hflush.FileSystem.new_instance(
            "/", {**conf, f"{TABLE}link./data/mid/low": f"file://{tmp_path}/rest"}
        )
        for path in ("/data/up", "/data/mid/x", "/data/mid/low/y"):
            fs.create(path).close()
        assert (tmp_path / "one" / "mid" / "x").exists()
        assert (tmp_path / "rest" / "y").exists()
        assert [one.name for one in fs.list_status("/data/mid")] == ["x"]
        with pytest.raises(OSError, match="behind different links"):
            fs.rename("/data/up", "/data/mid/low/up")
        with pytest.raises(PermissionError, match="cannot be changed"):
            fs.delete("/data/mid/low", recursive=True)
        with pytest.raises(ValueError, match="make an uploader for it"):
            fs.create_multipart_uploader("/data").start_upload("/data/mid/low/z")
        assert fs.delete("/data/mid", recursive=True)
        assert fs.exists("/data/mid/low/y")

    def test_a_link_whose_store_lacks_its_configuration(self, conf: dict[str, str]):
        """It is shown, and says what is missing when it is used."""
        lost = {f"{TABLE}link./lost": "hdfs://ns/", "dfs.nameservices": "ns"}
        fs = hflush.FileSystem.new_instance("/", {**conf, **lost})
        assert "lost" in [one.name for one in fs.list_status("/")]
        with pytest.raises(ValueError, match=r"dfs\.ha\.namenodes\.ns is missing"):
            fs.exists("/lost/x")
        assert fs.contract_options["supports-settimes"] is True

    def test_renames(self, fs: ViewFileSystem, conf, tmp_path: Path):
        """Within a link; across links as the strategy says, never across file systems."""
        fs.create("/data/a").close()
        assert fs.rename("/data/a", "/data/b")
        fs.rename("/data/b", "/data/c", Rename.NONE)
        for target in ("/user/ann/c", "/sums/c"):
            with pytest.raises(OSError, match="behind different links, /data and") as refusal:
                fs.rename("/data/c", target)
            assert refusal.value.filename2 == target
        strategy = {"fs.viewfs.rename.strategy": "SAME_FILESYSTEM_ACROSS_MOUNTPOINT"}
        wide = hflush.FileSystem.new_instance("/", {**conf, **strategy})
        with pytest.raises(OSError, match="behind different links"):
            wide.rename("/data/c", "/sums/c")
        assert wide.rename("/data/c", "/user/ann/c")
        assert (tmp_path / "two" / "c").exists()

    def test_the_fallback(self, conf, tmp_path: Path):
        """It is where no link leads, and its entries are shown beside the links."""
        (tmp_path / "rest" / "user").mkdir()
        (tmp_path / "rest" / "data").write_text("hidden by the link")
        fallback = {f"{TABLE}linkFallback": f"file://{tmp_path}/rest"}
        fs = hflush.FileSystem.new_instance("/", {**conf, **fallback})
        fs.create("/user/bob/x").close()
        fs.create("/new").close()
        assert (tmp_path / "rest" / "user" / "bob" / "x").exists()
        assert sorted(one.name for one in fs.list_status("/user")) == ["ann", "bob"]
        assert sorted(one.name for one in fs.list_status("/")) == [
            "data", "gone", "new", "sums", "user",
        ]  # fmt: skip
        assert fs.is_directory("/data")
        assert fs.delete("/new")

    def test_which_table(self, conf):
        """That of the URL, else the default one; its home directories are where it says."""
        key = "fs.viewfs.mounttable.default.name.key"
        named = {**conf, key: "c", f"{TABLE}homedir": "/user/all", "fs.defaultFS": "local"}
        fs = hflush.FileSystem.new_instance("viewfs:///", named)
        assert fs.home_directory.startswith("/user/all/")
        assert fs.is_directory("/data")
        usual = {"fs.viewfs.mounttable.default.link./d": conf[f"{TABLE}link./data"], key: "default"}
        assert hflush.FileSystem.new_instance("viewfs:///", usual).is_directory("/d")

    def test_what_each_part_can(self, fs: ViewFileSystem):
        append = "fs.capability.paths.append"
        assert fs.has_path_capability("/data/x", append)
        assert not fs.has_path_capability("/sums/x", append)
        assert not fs.has_path_capability("/", append)

    def test_a_copy_onto_itself(self, fs: ViewFileSystem, tmp_path: Path):
        """By its two names: nothing is cut."""
        (tmp_path / "one" / "x").write_text("kept")
        local = hflush.FileSystem.get("file:///")
        with pytest.raises(OSError, match="onto itself"):
            transfer.copy_file(local, f"{tmp_path}/one/x", fs, "/data/x")
        with pytest.raises(OSError, match="onto itself"):
            transfer.copy_file(fs, "/data/x", local, f"{tmp_path}/one/x")
        links = hflush.FileSystem.new_instance(
            "viewfs://l/", {"fs.viewfs.mounttable.l.link./one": f"file://{tmp_path}/one"}
        )
        for copy in (
            lambda: links.copy_from_local_file(tmp_path / "one", "/"),
            lambda: links.copy_to_local_file("/one", tmp_path),
        ):
            with pytest.raises(OSError, match="itself"):
                copy()
        assert (tmp_path / "one" / "x").read_text() == "kept"

    def test_a_move_of_directories_of_the_table(self, fs: ViewFileSystem, tmp_path: Path):
        """What was copied goes; links stay, and so does what a listing leaves out."""
        (tmp_path / "two" / "t").mkdir()
        for name in ("x", ".alone.crc"):
            (tmp_path / "two" / "t" / name).write_text(name)
        with pytest.raises(OSError, match=r"t/\.alone\.crc \(not copied\)"):
            fs.copy_to_local_file("/sums/t", tmp_path / "moved", delete_source=True)
        assert sorted(p.name for p in (tmp_path / "two" / "t").iterdir()) == [".alone.crc"]
        (tmp_path / "two" / "t" / ".alone.crc").rename(tmp_path / "two" / "t" / "alone")
        with pytest.raises(PermissionError, match="cannot be changed"):
            fs.copy_to_local_file("/user", tmp_path / "all", delete_source=True)
        assert list((tmp_path / "two").iterdir()) == []
        assert (tmp_path / "all" / "ann" / "t" / "alone").read_text() == ".alone.crc"

    def test_closing(self, fs: ViewFileSystem, tmp_path: Path):
        """It closes what is open behind the links, and nothing that others use."""
        other = hflush.FileSystem.get("file:///").create(f"{tmp_path}/one/other")
        out = fs.create("/data/x")
        fs.close()
        assert out.closed
        assert not other.closed
        other.close()

    def test_closing_removes_what_was_noted(self, fs: ViewFileSystem, tmp_path: Path):
        """When its streams are closed, through the file system that made them."""
        out = fs.create("/data/d/x")
        assert fs.delete_on_exit("/data/d")
        store = fs._store_at("/data")
        removed: list[tuple[object, bool]] = []
        delete = store._delete
        store._delete = lambda *what: (removed.append((store, out.closed)), delete(*what))[1]
        fs.close()
        assert removed == [(store, True)]
        assert fs._stores == {}
        assert list((tmp_path / "one").iterdir()) == []


def test_a_pickle_goes_on_as_its_stores_do(monkeypatch: pytest.MonkeyPatch):
    """As the same user, to the same server; a view and each store by itself agree."""
    conf = {
        f"{TABLE}link./user": "hdfs://nn/user",
        f"{TABLE}link./s3": "s3://bucket/",
        f"{TABLE}link./gone": "nosuch://x/",
        "hflush.pickle.left-out": "fs.s3a.secret.key",
    }
    monkeypatch.setenv("HADOOP_USER_NAME", "ann")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://minio:9000")
    urls = ("viewfs://c/", "hdfs://nn/", "s3://bucket/")
    made = [hflush.FileSystem.get(url, conf) for url in urls]
    sent = [pickle.dumps(one) for one in made]
    assert all(pickle.loads(one) is fs for one, fs in zip(sent, made, strict=True))
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    view, hdfs, s3 = map(pickle.loads, sent)
    assert view.home_directory == hdfs.home_directory == "/user/ann"
    assert view.get_file_status("/").owner == view._store_at("/user")._user == "ann"
    servers = [one._settings_of_bucket.endpoint for one in (view._store_at("/s3"), s3)]
    assert servers[0] == servers[1] == ("http", "minio", 9000, "")
    assert view.conf["hflush.pickle.left-out"] == "fs.s3a.secret.key"


def test_a_pickle_of_links_by_expressions(monkeypatch: pytest.MonkeyPatch):
    """What they lead to is not known yet, but who asks, and which server."""
    conf = {f"{TABLE}linkRegex.^/{one}/(\\w+)": f"{one}://$1/" for one in ("hdfs", "s3a")}
    monkeypatch.setenv("HADOOP_USER_NAME", "ann")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://minio:9000")
    fs = hflush.FileSystem.get("viewfs://c/", conf)
    sent = pickle.dumps(fs)
    assert pickle.loads(sent) is fs
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    there = pickle.loads(sent)
    assert there._store_at("/hdfs/nn")._user == "ann"
    assert there._store_at("/s3a/b")._settings_of_bucket.endpoint.host == "minio"


def test_a_pickle_takes_tokens_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Or their name, as that of HDFS does, beside what was lost before."""
    token = Token(b"ID", b"PW", "HDFS_DELEGATION_TOKEN", "nn:8020")
    hflush.Credentials({"nn:8020": token}).write(tmp_path / "tokens")
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(tmp_path / "tokens"))
    conf = {f"{TABLE}link./d": "hdfs://nn/", "hflush.pickle.left-out": "a.secret"}
    sent = [
        pickle.dumps(hflush.FileSystem.get("viewfs://c/", {**conf, "hflush.pickle.secrets": flag}))
        for flag in (True, False)
    ]
    monkeypatch.delenv("HADOOP_TOKEN_FILE_LOCATION")
    kept, lost = map(pickle.loads, sent)
    assert "hflush.hdfs.credentials" in kept.conf
    assert lost.conf["hflush.pickle.left-out"] == "a.secret hflush.hdfs.credentials:nn:8020"


@pytest.fixture
def server() -> Iterator[ScriptedS3]:
    with ScriptedS3() as server:
        yield server


@pytest.fixture
def both(conf: dict[str, str], server: ScriptedS3) -> dict[str, str]:
    """Local links, one to a whole bucket, one into it."""
    s3 = {f"{TABLE}link./s3": "s3a://bucket/", f"{TABLE}link./part": "s3a://bucket/base"}
    return {**conf, **server.conf, **s3}


def test_links_by_expressions_lead_to_ever_more(
    both: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    """The last are kept, and those that are in use; what the others have done counts."""
    monkeypatch.setattr("hflush.viewfs.filesystem._KEPT", 2)
    both[f"{TABLE}linkRegex.^/to/(\\w+)"] = "$1://bucket/"
    both[f"{TABLE}linkRegex.^/n/(\\w+)"] = "hdfs://$1/"
    fs: Any = hflush.FileSystem.new_instance("viewfs://c/", both)
    unfinished = fs.create("/to/s3/open")
    with fs.create("/to/s3n/closed") as out:
        out.write(b"data")
    for name in ("a", "b", "a", "c"):
        fs._store_at(f"/n/{name}")
    assert fs._stores.keys() == {"s3://bucket/", "hdfs://a/", "hdfs://c/"}
    assert fs.io_statistics().counters["stream_write_bytes"] == 4
    with pytest.raises(OSError, match="closed before this stream"):
        fs.close()
    assert unfinished.closed


class TestUploads:
    """Paths are those of the view, in and out, whatever the store."""

    @pytest.mark.parametrize("base", ["/data", "/s3", "/part"])
    def test_of_one_file(self, both: dict[str, str], base: str):
        """Made where its path says; the id of an upload serves any uploader of the directory."""
        fs = hflush.FileSystem.new_instance("/", both)
        path = f"{base}/d/up"
        with fs.create_multipart_uploader(base) as uploader:
            assert uploader.base == base
            upload = uploader.start_upload(path)
            dropped = uploader.start_upload(f"{base}/dropped")
        again = fs.create_multipart_uploader(base)
        part = again.put_part(upload, f"viewfs://c{path}", 1, True, io.BytesIO(b"data"))
        again.complete(upload, path, {1: part})
        again.abort(dropped, f"{base}/dropped")
        assert hflush.open(f"viewfs://c{path}", "rb", conf=both).read() == b"data"
        with pytest.raises(FileNotFoundError):
            again.abort(dropped, f"{base}/dropped")
        with pytest.raises(hflush.PathIsDirectoryError):
            again.start_upload(f"{base}/d")
        with pytest.raises(ValueError, match=f"'/user/ann/x' is neither '{base}' nor below it"):
            again.start_upload("/user/ann/x")

    @pytest.mark.parametrize("base", ["/data", "/s3", "/part"])
    def test_all_below_a_path(self, both: dict[str, str], server: ScriptedS3, base: str):
        fs = hflush.FileSystem.new_instance("/", both)
        uploader = fs.create_multipart_uploader(base)
        kept = uploader.start_upload(f"{base}/kept")
        uploader.start_upload(f"{base}/d/x")
        assert uploader.abort_uploads_under_path(f"{base}/d") == 1
        with pytest.raises(ValueError, match="make an uploader for it"):
            uploader.abort_uploads_under_path("/user/ann")
        if base == "/data":
            assert uploader.uploads() == [(kept, "/data/kept")]
            return
        (found,) = fs.list_multipart_uploads(base)
        assert (found.path, found.upload_id) == (f"viewfs://c{base}/kept", *server.uploads)
        with pytest.raises(io.UnsupportedOperation, match="list_multipart_uploads"):
            uploader.uploads()

    def test_by_the_command(self, both: dict[str, str], capfd: pytest.CaptureFixture[str]):
        """What it can say and do is that of the store behind the path."""
        settings = [f"-D{key}={value}" for key, value in both.items()]
        fs = hflush.FileSystem.new_instance("/", both)
        upload = fs.create_multipart_uploader("/data").start_upload("/data/x").decode()
        fs.create_multipart_uploader("/part").start_upload("/part/x")
        assert cli.main([*settings, "uploads", "/part"]) == 0
        assert capfd.readouterr().out.endswith(" viewfs://c/part/x\n")
        assert cli.main([*settings, "uploads", "--abort", "--older-than", "0", "/part"]) == 0
        assert cli.main([*settings, "uploads", "/data"]) == 0
        assert capfd.readouterr().out == f"1 aborted\n{upload} /data/x\n"
        assert cli.main([*settings, "uploads", "--older-than", "0", "/data"]) == 1
        assert "not supported by raw local files" in capfd.readouterr().err
        assert cli.main([*settings, "put", "--sync", "/nosuch", "/part/x"]) == 1
        assert "--sync (--atomic does more) is not supported by s3" in capfd.readouterr().err


def test_modes_and_owners_by_the_command(both: dict[str, str], capfd, tmp_path: Path):
    """They are shown where the store behind the path keeps them."""
    settings = [f"-D{key}={value}" for key, value in both.items()]
    fs = hflush.FileSystem.new_instance("/", both)
    fs.create("/data/x", permission=0o600).close()
    fs.create("/s3/x").close()
    shown = []
    for path in ("/data", "/s3"):
        assert cli.main([*settings, "ls", path]) == 0
        shown.append(capfd.readouterr().out.split()[:3])
    assert shown == [["-rw-------", tmp_path.owner(), tmp_path.group()], ["-"] * 3]
    assert cli.main([*settings, "ls", "/"]) == 0  # a link leads nowhere


def test_copies_of_trees_with_an_object_above_others(
    both: dict[str, str], server: ScriptedS3, tmp_path: Path
):
    """They are refused at a link itself, and above it, too: what is below would be left out."""
    server.put("base/a", b"")
    server.put("base/a/x", b"")
    del both[f"{TABLE}link./gone"]
    for path in ("/", "/part"):
        with pytest.raises(OSError, match="others below its key") as refusal:
            UPath(f"hflushviewfs://c{path}", conf=both).copy(tmp_path / "copy")
        assert refusal.value.filename == "viewfs://c/part/a"
    assert not (tmp_path / "copy").exists()


def test_put_if_absent(both: dict[str, str]):
    """As the store behind the link does it; not in the table itself."""
    fs = hflush.FileSystem.new_instance("/", both)
    for path in ("/data/p", "/sums/p", "/s3/p", "/part/p"):
        assert [fs.put_if_absent(path, b"1"), fs.put_if_absent(path, b"2")] == [True, False]
        assert fs.open(path).read() == b"1"
    with pytest.raises(PermissionError, match="the mount table c cannot be changed"):
        fs.put_if_absent("/user", b"")


def test_the_trash(conf: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It takes paths of the view, of its own store alone; links stay."""
    monkeypatch.setenv("HOME", str(tmp_path))
    fs = hflush.FileSystem.new_instance("/", {**conf, "fs.trash.interval": "10"})
    trash = fs.get_trash("/data")
    fs.create("/user/ann/x").close()
    fs.create("/sums/y").close()
    assert trash.move("viewfs://c/user/ann/x")
    assert not fs.exists("/user/ann/x")
    assert list(Path(trash.root).rglob("x"))
    with pytest.raises(ValueError, match="'/sums/y' is not in the file system of this trash"):
        trash.move("/sums/y")
    with pytest.raises(PermissionError, match="cannot be changed"):
        trash.move("/data")


def test_corrupt_files(fs: ViewFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """They have the names of the view."""
    store = fs._store_at("/data/x")
    monkeypatch.setattr(store, "_corrupt_files", lambda path: iter((f"file://{path}/x",)))
    assert list(fs.list_corrupt_file_blocks("/data/d")) == ["viewfs://c/data/d/x"]


def test_stores_are_asked_once(
    conf: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """For a located listing, which asks for no file by itself, and for all below a link."""
    (tmp_path / "rest" / "user").mkdir()
    (tmp_path / "rest" / "user" / "file").write_bytes(b"data")
    fallback = {f"{TABLE}linkFallback": f"file://{tmp_path}/rest"}
    fs: Any = hflush.FileSystem.new_instance("/", {**conf, **fallback})
    fs.create("/user/ann/x").close()
    store = fs._store_at("/user/ann")
    monkeypatch.setattr(store, "_iterate_located", store._iterate)
    (found,) = fs.list_located_status("/user/ann")
    assert (found.path, found.block_locations) == ("viewfs://c/user/ann/x", None)
    monkeypatch.setattr(store, "_list_files", lambda path, _: store._iterate(path))
    assert [one.path for one in fs.list_files("/user/ann", True)] == [found.path]
    monkeypatch.setattr(store, "_content_summary", lambda _: ContentSummary(5, 2, 3, 7))
    assert fs.get_content_summary("/user") == ContentSummary(5 + 4, 2 + 1, 3 + 1, 7 + 4)


def test_a_link_behind_a_view_that_cannot_be_followed(
    fs: ViewFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It is not left out of a tree, or of what matches."""
    link, stat = tmp_path / "one" / "link", os.stat
    link.symlink_to("nowhere")

    def disconnected(path: Any, **options: Any) -> os.stat_result:
        if str(path) == str(link):
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN), path)
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", disconnected)
    for look in (lambda: fs.glob_status("/data/*/x"), lambda: list(fs.list_files("/", True))):
        with pytest.raises(OSError, match="not connected"):
            look()


def test_checkpoints(conf: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """They go by what the store behind the path is and has, also where another link is broken."""
    one = tmp_path / "one"
    (one / ".x.crc").touch()
    manager = FileContextBased("viewfs://c/data", conf)
    assert manager.is_local
    synced: list[str] = []
    monkeypatch.setattr(manager.filesystem._store_at("/data"), "_sync_entry", synced.append)
    with manager.create_atomic("viewfs://c/data/x", True) as out:
        out.write(b"data")
    assert [path.name for path in one.iterdir()] == ["x"]
    assert synced == [f"{one}/x"]


@pytest.mark.parametrize(
    "name", ["fs.viewfs.ViewFileSystemOverloadScheme", "hdfs.ViewDistributedFileSystem"]
)
def test_a_view_under_another_scheme(conf, name: str):
    """Hadoop can send hdfs:// through a table: then data are not where the URL says."""
    impl = {"fs.hdfs.impl": f"org.apache.hadoop.{name}"}
    for url in ("hdfs://c:8020/", "HDFS://c/", "hdfs://C/"):
        with pytest.raises(
            hflush.UnsupportedFileSystemError, match=r"fs\.hdfs\.impl .*viewfs://[cC]/"
        ):
            hflush.FileSystem.new_instance(url, {**conf, **impl})
    elsewhere = {"fs.viewfs.mounttable.path": "hdfs://c/tables"}
    with pytest.raises(hflush.UnsupportedFileSystemError, match=r"mounttable\.path say where"):
        hflush.FileSystem.new_instance("hdfs://d/", {**elsewhere, **impl})
    hflush.FileSystem.new_instance("hdfs://d/", {**conf, **impl})


class TestFsspec:
    """hflush+viewfs: one view, whose names are those of its table."""

    def test_urls(self, both: dict[str, str], server: ScriptedS3, tmp_path: Path):
        fs, name = fsspec.core.url_to_fs("hflush+viewfs://c/data/a", conf=both)
        assert (fs.filesystem.uri, name) == ("viewfs://c/", "hflush+viewfs://c/data/a")
        assert type(fs) is type(fsspec.filesystem("hflushviewfs", conf=both))  # by fs.defaultFS
        for one in (fs, fsspec.filesystem("hflush+viewfs", host="viewfs://c/", conf=both)):
            one.pipe("/data/a", b"bytes")
            assert one.cat("viewfs://c/data/a") == b"bytes"
        assert fs.ls("/data", detail=False) == ["/data/a"]
        fs.mv("/data/a", "/s3/d/")
        assert (server.objects["d/a"].data, [*(tmp_path / "one").iterdir()]) == (b"bytes", [])
        with fs.transaction, fs.open("/s3/held", "wb") as out:
            out.write(b"x")
        assert fs.find("/s3") == ["/s3/d/a", "/s3/held"]
        server.put("d/a/below", b"x")
        assert fs.cat("/s3/d", recursive=True) == {"/s3/d/a": b"bytes", "/s3/d/a/below": b"x"}
        with pytest.raises(OSError, match="others below its key"):
            fs.mv("/s3/d/a", "/s3/e", recursive=True)
        assert "e" not in server.objects
        for other in ("viewfs://ann:secret@other/data/a", "hdfs://nn/data/a"):
            with pytest.raises(ValueError, match="wrong file system") as refusal:
                fs.exists(other)
            assert "secret" not in str(refusal.value)

    def test_paths(self, both: dict[str, str], tmp_path: Path):
        path = UPath("hflushviewfs://c/data", conf=both) / "d" / "x"
        path.parent.mkdir()
        path.write_text("data")
        assert [str(one) for one in path.parent.iterdir()] == ["hflushviewfs://c/data/d/x"]
        assert (tmp_path / "one" / "d" / "x").read_text() == "data"

    def test_a_copy_onto_itself(self, conf: dict[str, str], tmp_path: Path):
        """By its two names, and where it has a second: nothing is cut."""
        here, there = tmp_path / "one" / "x", UPath("hflushviewfs://c/data/x", conf=conf)
        here.write_text("kept")
        (tmp_path / "hard").hardlink_to(here)
        for copy in (
            lambda: there.copy(UPath(here)),
            lambda: UPath(here).copy(there),
            lambda: UPath(f"hflushfile://{here}").copy(there),
            lambda: there.fs.put(str(here), "/data/x"),
            lambda: there.fs.get("/data/x", str(here)),
        ):
            with pytest.raises(OSError, match="itself") as refusal:
                copy()
            assert (refusal.value.errno, here.read_text()) == (errno.EINVAL, "kept")

    def test_the_working_directory_stays(
        self, conf: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        fs = fsspec.filesystem("hflush+viewfs", conf=conf)
        fs.mkdir("/data/d")
        monkeypatch.chdir(tmp_path / "one" / "d")
        with pytest.raises(io.UnsupportedOperation, match="removing the working directory"):
            fs.rm("/data/d", recursive=True)

    @pytest.mark.parametrize("sends", [False, True])
    def test_what_is_sent(self, both: dict[str, str], monkeypatch: pytest.MonkeyPatch, sends: bool):
        """It stays who it was, and is the same here."""
        monkeypatch.setenv("HADOOP_USER_NAME", "olga")
        secrets = {key: both.pop(key) for key in list(both) if key.endswith(".key")}
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", secrets["fs.s3a.access.key"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secrets["fs.s3a.secret.key"])
        fs = fsspec.filesystem("hflush+viewfs", conf=both, pickle_secrets=sends)
        fs.exists("/s3/x")
        sent = pickle.dumps(fs)
        assert pickle.loads(sent) is type(fs).from_json(fs.to_json()) is fs
        monkeypatch.setenv("HADOOP_USER_NAME", "yarn")
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        there = pickle.loads(sent)
        assert there.filesystem._store(there.filesystem._table.links["/s3"])._acts_as() == "olga"
        if sends:
            assert not there.exists("/s3/x")

    def test_hdfs_says_where_to_go(self):
        with pytest.raises(ValueError, match="that is a URL of viewfs"):
            fsspec.core.url_to_fs("hflush+hdfs:///x", conf={"fs.defaultFS": "viewfs://t/"})
