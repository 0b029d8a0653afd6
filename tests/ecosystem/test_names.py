"""Names of fsspec: one instance for all buckets, one for each cluster, and never another one."""

from __future__ import annotations

import contextlib
import gc
import re
from typing import Any

import fsspec
import fsspec.generic
import hflush
import pytest

OTHER = "hflush-tests-other"


@pytest.fixture
def s3(s3_server: Any) -> Any:
    """The server, with a second bucket."""
    with contextlib.suppress(FileExistsError):
        s3_server.server.make_bucket(OTHER)
    for key in _keys(s3_server, OTHER):
        s3_server.client.delete_object(Bucket=OTHER, Key=key)
    return s3_server


@pytest.fixture
def options(s3: Any) -> dict[str, Any]:
    return {
        "key": s3.server.access_key,
        "secret": s3.server.secret_key,
        "client_kwargs": {
            "endpoint_url": s3.server.url,
            "region_name": s3.conf["fs.s3a.endpoint.region"],
        },
    }


@pytest.fixture
def fs(options: dict[str, Any]) -> Any:
    return fsspec.filesystem("hflush+s3", **options)


@pytest.fixture
def both(s3: Any) -> tuple[str, str]:
    """A directory of the same name in either bucket, each with a file x that says where it is."""
    root = s3.root()
    s3.put(f"{root[1:]}/x", b"first")
    s3.client.put_object(Bucket=OTHER, Key=f"{root[1:]}/x", Body=b"other")
    return f"{s3.bucket}{root}", f"{OTHER}{root}"


def _keys(s3: Any, bucket: str) -> list[str]:
    found = s3.client.list_objects_v2(Bucket=bucket)
    return [entry["Key"] for entry in found.get("Contents", [])]


def _body(s3: Any, name: str) -> bytes:
    bucket, _, key = name.partition("/")
    return bytes(s3.client.get_object(Bucket=bucket, Key=key)["Body"].read())


class TestBuckets:
    def test_reading(self, fs, both):
        first, other = both
        assert fs.cat(f"{first}/x") == b"first"
        assert fs.cat(f"hflush+s3://{other}/x") == b"other"
        assert fs.cat([f"{first}/x", f"s3://{other}/x"]) == {
            f"{first}/x": b"first",
            f"{other}/x": b"other",
        }
        assert fs.info(f"s3a://{other}/x")["name"] == f"{other}/x"
        assert fs.expand_path([first, other], recursive=True) == sorted(
            [first, other, f"{first}/x", f"{other}/x"]
        )
        assert fs.glob(f"{other}/?") == [f"{other}/x"]
        assert fs.find(f"s3://{other}") == [f"{other}/x"]
        assert list(fs.walk(other)) == [(other, [], ["x"])]

    def test_removing(self, fs, s3, both):
        """Of the bucket that was named only."""
        first, other = both
        fs.rm(f"hflush+s3://{other}/x")
        assert fs.cat(f"{first}/x") == b"first"
        assert not fs.exists(f"{other}/x")
        fs.pipe(f"{other}/x", b"again")
        fs.rm([f"s3://{first}/x"])
        assert _body(s3, f"{other}/x") == b"again"

    def test_writing_to_two(self, s3, options, both):
        first, other = both
        urls = [f"hflush+s3://{first}/a", f"hflush+s3://{other}/b"]
        with fsspec.open_files(urls, "wb", **options) as files:
            for url, file in zip(urls, files, strict=True):
                file.write(url.encode())
        for url in urls:
            assert _body(s3, url.removeprefix("hflush+s3://")) == url.encode()

    def test_copying(self, fs, s3, both):
        first, other = both
        fs.cp(f"s3://{first}/x", f"s3://{other}/of-first")
        assert _body(s3, f"{other}/of-first") == b"first"
        fs.pipe(f"{other}/tree/a/b", b"deep")
        fs.cp(f"{other}/tree", f"{first}/tree", recursive=True)
        assert _body(s3, f"{first}/tree/a/b") == b"deep"
        with pytest.raises(OSError, match="onto"):
            fs.cp_file(f"{first}/x", f"{first}/x")
        assert _body(s3, f"{first}/x") == b"first"

    def test_moving(self, fs, s3, both):
        """Within a bucket and to another, files and trees."""
        first, other = both
        fs.pipe(f"{other}/tree/a/b", b"deep")
        fs.mv(f"{other}/tree", f"{first}/moved")
        assert fs.find(first) == [f"{first}/moved/a/b", f"{first}/x"]
        assert fs.find(other) == [f"{other}/x"]
        fs.mv(f"{first}/x", f"{other}/y")
        fs.mv(f"{other}/y", f"{other}/z")
        assert _body(s3, f"{other}/z") == b"first"
        assert fs.find(first) == [f"{first}/moved/a/b"]

    def test_rsync(self, s3, options, both):
        first, other = both
        storage = {"hflush+s3": options}
        fsspec.generic.rsync(
            f"hflush+s3://{first}",
            f"hflush+s3://{other}",
            update_cond="always",
            inst_kwargs={"default_method": "options", "storage_options": storage},
        )
        assert _body(s3, f"{other}/x") == b"first"

    def test_chained(self, options, both, tmp_path):
        first, other = both
        for name, data in ((first, b"first"), (other, b"other")):
            with fsspec.open(
                f"simplecache::hflush+s3://{name}/x",
                simplecache={"cache_storage": str(tmp_path)},
                **{"hflush+s3": options},
            ) as file:
                assert file.read() == data

    def test_buckets_themselves(self, fs, s3):
        assert fs.isdir(s3.bucket)
        assert fs.exists(f"s3://{OTHER}")
        assert not fs.exists("hflush-tests-no-such")
        with pytest.raises(FileExistsError):
            fs.mkdir(OTHER)
        fs.makedirs(OTHER, exist_ok=True)
        with pytest.raises(OSError, match="making a bucket"):
            fs.mkdir("hflush-tests-no-such")
        with pytest.raises(OSError, match="name one, as in bucket/key"):
            fs.ls("")
        with pytest.raises(FileNotFoundError):
            fs.pipe("hflush-tests-no-such/x", b"x")

    def test_local_names_and_mapper(self, fs, both):
        first, _ = both
        mapper = fs.get_mapper(f"s3://{first}/map")
        mapper["a/b"] = b"1"
        assert dict(mapper) == {"a/b": b"1"}
        assert fs.cat(f"{first}/map/a/b") == b"1"


class TestOptionsThatWereGiven:
    def test_wrong_keys_fail(self, options, both):
        """They are used, and not those of the environment."""
        fs = fsspec.filesystem("hflush+s3", **{**options, "secret": "wrong"})
        with pytest.raises(PermissionError):
            fs.pipe(f"{both[0]}/new", b"x")
        anonymous = {**options, "anon": True}
        del anonymous["key"], anonymous["secret"]
        with pytest.raises(PermissionError):
            fsspec.filesystem("hflush+s3", **anonymous).cat(f"{both[0]}/x")

    def test_another_endpoint_is_another(self, options, both):
        elsewhere = {**options, "endpoint_url": "http://127.0.0.1:9", "conf": {}}
        elsewhere["conf"]["fs.s3a.retry.limit"] = 0
        with pytest.raises(OSError, match=re.escape("127.0.0.1:9")):
            fsspec.filesystem("hflush+s3", **elsewhere).cat(f"{both[0]}/x")

    def test_a_profile(self, options, both, tmp_path, monkeypatch):
        credentials = tmp_path / "credentials"
        credentials.write_text(
            f"[work]\naws_access_key_id={options.pop('key')}\n"
            f"aws_secret_access_key={options.pop('secret')}\n"
        )
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of somebody else")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        fs = fsspec.filesystem("hflush+s3", profile="work", **options)
        assert fs.cat(f"{both[0]}/x") == b"first"

    def test_a_user_of_hdfs(self, hdfs_cluster):
        """Files belong to whom the option names."""
        url = f"hflush+{hdfs_cluster.url.rstrip('/')}{hdfs_cluster.root()}"
        fs, name = fsspec.core.url_to_fs(url, extra_conf=hdfs_cluster.conf)
        fs.filesystem.set_permission(fs._place(name).path, 0o777)
        ann = fsspec.filesystem(
            "hflush+hdfs", **{**fs.storage_options, "user": "ann", "replication": 2}
        )
        ann.pipe(f"{name}/x", b"x")
        status = fs.filesystem.get_file_status(fs._place(f"{name}/x").path)
        assert (status.owner, status.replication) == ("ann", 2)


class TestClusters:
    @pytest.fixture
    def url(self, hdfs_cluster) -> str:
        return f"hflush+{hdfs_cluster.url.rstrip('/')}{hdfs_cluster.root()}"

    @pytest.fixture
    def fs(self, hdfs_cluster, url):
        return fsspec.core.url_to_fs(url, extra_conf=hdfs_cluster.conf)[0]

    def test_names_begin_as_they_were_given(self, fs, url):
        fs.pipe(f"{url}/d/x", b"data")
        path = fs._place(url).path
        for root in (url, path):
            assert fs.ls(root, detail=False) == [f"{root}/d"]
            assert fs.find(root) == [f"{root}/d/x"]
            assert fs.glob(f"{root}/*/x") == [f"{root}/d/x"]
            assert fs.glob(f"{root}/d") == [f"{root}/d"]
            assert fs.info(f"{root}/d/x")["name"] == f"{root}/d/x"
            assert fs.expand_path(root, recursive=True) == [root, f"{root}/d", f"{root}/d/x"]
            assert fs.cat(f"{root}/d/x") == b"data"
            detail = fs.glob(f"{root}/**", detail=True)
            assert {name: info["name"] for name, info in detail.items()} == {
                name: name for name in (root, f"{root}/d", f"{root}/d/x")
            }
        assert fs.ls(fs._parent(fs._parent(url)), detail=False)[0].startswith(url.split("/test")[0])

    def test_copies_and_moves(self, fs, url):
        fs.pipe(f"{url}/x", b"data")
        fs.cp(f"{url}/x", f"{fs._place(url).path}/y")
        fs.mv(f"{url}/y", f"{url}/z")
        assert fs.find(url) == [f"{url}/x", f"{url}/z"]
        with pytest.raises(OSError, match="onto"):
            fs.cp_file(f"{url}/x", f"{fs._place(url).path}/x")
        assert fs.cat(f"{url}/x") == b"data"

    def test_two_in_a_list(self, fs, url, hdfs_cluster):
        """What was meant for the second does not go to the first."""
        files = fsspec.open_files(
            [f"{url}/a", "hflush+hdfs://elsewhere:8020" + fs._place(url).path + "/b"],
            "wb",
            auto_mkdir=False,
            extra_conf=hdfs_cluster.conf,
        )
        with pytest.raises(ValueError, match="wrong file system"):
            files.__enter__()
        files[0].close()
        assert "b" not in [name.rpartition("/")[2] for name in fs.ls(url, detail=False)]

    def test_rsync(self, fs, url, hdfs_cluster):
        fs.pipe(f"{url}/from/d/x", b"data")
        fsspec.generic.rsync(
            f"{url}/from",
            f"{url}/to",
            inst_kwargs={
                "default_method": "options",
                "storage_options": {"hflush+hdfs": {"extra_conf": hdfs_cluster.conf}},
            },
        )
        assert fs.cat(f"{url}/to/d/x") == b"data"


class AtomicFiles:
    """A file system all of whose files are atomic."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs

    def open(self, path: str, mode: str) -> Any:
        return self._fs.open(path, mode, atomic=True)


class TestFiles:
    """What fsspec asks of open files."""

    def test_attributes_of_one_that_is_read(self, place):
        place.write("x", b"0123456789")
        fs = place.fs
        with fs.open(place.name("x")) as file:
            file.read(4)
            assert isinstance(file, hflush.FSDataInputStream)
            assert (file.size, file.loc, file.mode) == (10, 4, "rb")
            assert file.fs is fs
            assert file.path == file.details["name"] == place.name("x")
            assert file.details["size"] == 10
            assert file.blocksize == fs.blocksize
            assert fs.cat(file.full_name) == b"0123456789"
        assert file.size == 10

    def test_attributes_of_one_that_is_written(self, place):
        fs = place.fs
        with fs.open(place.name("x"), "wb") as file:
            file.write(b"0123")
            assert isinstance(file, hflush.FSDataOutputStream)
            assert (file.size, file.loc, file.mode) == (None, 4, "wb")
            assert file.fs is fs
            assert file.path == place.name("x")
        assert fs.info(file.path)["size"] == 4

    def test_blocks(self, place):
        lines = b"".join(b"line %d\n" % n for n in range(100))
        place.write("x", lines)
        fs = place.fs
        assert fs.read_block(place.name("x"), 0, 13, delimiter=b"\n") == b"line 0\nline 1\n"
        assert fs.read_block(place.name("x"), 100, 50) == lines[100:150]
        parts = [
            fs.read_block(place.name("x"), at, 100, delimiter=b"\n")
            for at in range(0, len(lines), 100)
        ]
        assert b"".join(parts) == lines
        assert fs.cat_file(place.name("x"), -5) == lines[-5:]
        assert fs.cat_ranges([place.name("x")] * 2, [0, 7], [6, 13]) == [b"line 0", b"line 1"]
        assert fs.tail(place.name("x"), 8) == b"line 99\n"

    def test_the_standard_words_of_open(self, place):
        place.write("x", b"0123456789")
        fs = place.fs
        with fs.open(
            place.name("x"),
            "rb",
            block_size=5,
            cache_type="bytes",
            cache_options={"a": 1},
            fill_cache=False,
            size=10,
            autocommit=True,
            compression=None,
        ) as file:
            assert file.read() == b"0123456789"
        with fs.open(place.name("y"), "wb", cache_type="none", fill_cache=True) as file:
            file.write(b"x")
        with pytest.raises(TypeError, match="unknown option 'cache_tpye'"):
            fs.open(place.name("x"), cache_tpye="none")

    @pytest.mark.parametrize("codec", ["gzip", "bz2", "xz", "zstd", "lz4", "zip", "infer"])
    def test_compression(self, place, codec):
        """Closing what open returns ends the compressed data and publishes the file."""
        name = place.name("x.gz")
        fs = place.fs
        with fs.open(name, "wb", compression=codec) as file:
            file.write(b"data" * 1000)
        assert file.closed
        with fs.open(name, "rb", compression=codec) as file:
            assert file.read() == b"data" * 1000
        with fs.open(name, "wt", compression=codec, encoding="utf-8") as file:
            file.write("grün")
        with fs.open(name, "rt", compression=codec, encoding="utf-8") as file:
            assert file.read() == "grün"

    @pytest.mark.parametrize("mode", ["wb", "wt"])
    def test_an_exception_below_compression(self, place, mode):
        """Publishes nothing where that can be, as without; what is raised stays the first."""
        name = place.name("x.gz")
        fs = place.fs
        out = fs.open(name, mode, compression="gzip")
        with pytest.raises(KeyError, match="first"), out:
            raise KeyError("first", out.write("half" if mode == "wt" else b"half"))
        assert fs.exists(name) is (place.kind != "s3")
        assert out.buffer.closed if mode == "wt" else out.closed

    @pytest.mark.parametrize("codec", ["gzip", "bz2", "xz", "zstd", "lz4"])
    @pytest.mark.parametrize("mode", ["wb", "wt"])
    def test_a_compressed_file_that_is_dropped(self, place, codec, mode):
        """The collector publishes nothing, and says so."""
        place.write("x", b"before")
        files = [place.fs.open(place.name("x"), mode, compression=codec, atomic=True)]
        files[0].write("half" if mode == "wt" else b"half")

        def collect() -> None:
            files.clear()
            gc.collect()

        with pytest.warns(hflush.NotPublishedWarning, match="not published"):
            collect()
        assert place.read("x") == b"before"

    @pytest.mark.parametrize("compression", [None, "gzip"])
    @pytest.mark.parametrize("mode", ["wb", "wt"])
    @pytest.mark.parametrize("atomic", [False, True])
    def test_an_exception_below_fsspec_open(self, place, mode, compression, atomic):
        """Which closes whatever happens: nothing is published where that can be."""
        name = place.name("x")
        place.write("x", b"before")
        error = KeyError("first")
        opened = fsspec.open(place.url("x"), mode, compression=compression, **place.options)
        if atomic:
            opened.fs = AtomicFiles(opened.fs)

        def fail() -> None:
            with opened as out:
                out.write("half" if mode == "wt" else b"half")
                raise error

        with pytest.raises(KeyError) as caught:
            fail()
        assert caught.value is error
        if atomic or place.kind == "s3":
            assert place.read("x") == b"before"
            assert any("not published" in note for note in error.__notes__)
        else:
            assert place.fs.info(name)["size"] != len(b"before")  # as files do

    def test_an_unknown_compression_touches_nothing(self, place):
        place.write("x", b"data")
        with pytest.raises(ValueError, match="Compression type"):
            place.fs.open(place.name("x"), "wb", compression="nothing")
        assert place.read("x") == b"data"
