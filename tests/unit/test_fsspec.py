"""hflush below fsspec: its own suite of abstract tests, and what is particular to us."""

from __future__ import annotations

import gc
import io
import pickle
import subprocess
import sys

import hflush
import pytest

fsspec = pytest.importorskip("fsspec")

from fsspec.tests import abstract  # noqa: E402
from hflush.fsspec import (  # noqa: E402
    HflushFileSystem,
    HflushHdfsFileSystem,
    HflushS3FileSystem,
    register,
)


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self):
        return HflushFileSystem()

    @pytest.fixture
    def fs_path(self, tmp_path):
        return str(tmp_path / "ours")

    @pytest.fixture
    def local_path(self, tmp_path):
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


@pytest.fixture
def fs() -> HflushFileSystem:
    return fsspec.filesystem("hflush+file")


def test_found_by_entry_point(fs, tmp_path):
    """fsspec finds the class by the URL, and its streams are ours."""
    url = f"hflush+file://{tmp_path}/file"
    with fsspec.open(url, "wb") as out:
        out.write(b"data")
        out.hsync()
    found, path = fsspec.core.url_to_fs(url)
    assert type(found) is HflushFileSystem
    assert path == f"{tmp_path}/file"
    assert found.cat(path) == b"data"
    assert pickle.loads(pickle.dumps(found)).cat(path) == b"data"


def test_modes(fs, tmp_path):
    """Modes mean what they mean for files."""
    path = f"{tmp_path}/deep/er/file"
    with fs.open(path, "ab") as out:
        assert isinstance(out, hflush.FSDataOutputStream)
        out.write(b"one")
    with fs.open(path, "ab") as out:
        out.write(b"two")
    assert fs.cat(path) == b"onetwo"
    with pytest.raises(FileExistsError):
        fs.open(path, "xb")
    with pytest.raises(ValueError, match="mode"):
        fs.open(path, "r+b")
    with fs.open(path, "w", encoding="utf-8") as text:
        text.write("grün")
    with fs.open(path, "r", encoding="utf-8") as text:
        assert text.read() == "grün"
    with pytest.raises(io.UnsupportedOperation, match="transaction"), fs.transaction:
        fs.open(path, "wb")


@pytest.mark.parametrize("mode", ["wb", "w"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_garbage_collection_publishes_nothing(fs, tmp_path, mode):
    """A stream that was never closed warns, and what it held back is not written."""
    path = f"{tmp_path}/file"
    streams = [fs.open(path, mode)]
    streams[0].write(b"data" if mode == "wb" else "data")

    def collect() -> None:
        streams.clear()
        gc.collect()

    with pytest.warns(ResourceWarning, match="never closed"):
        collect()
    assert fs.size(path) == 0


def test_names(fs, tmp_path):
    """ls, info, exists, mkdir, makedirs, rmdir, mv, rm, touch, modified and created."""
    root = str(tmp_path)
    fs.mkdir(f"{root}/a")
    with pytest.raises(FileExistsError):
        fs.mkdir(f"{root}/a")
    with pytest.raises(FileExistsError):
        fs.makedirs(f"{root}/a")
    fs.makedirs(f"{root}/a", exist_ok=True)
    fs.pipe(f"{root}/a/file", b"data")
    assert fs.ls(f"{root}/a", detail=False) == [f"{root}/a/file"]
    info = fs.info(f"hflush+file://{root}/a/file")
    assert (info["name"], info["size"], info["type"]) == (f"{root}/a/file", 4, "file")
    assert fs.ls(f"{root}/a/file") == [info]
    assert fs.modified(f"{root}/a/file").timestamp() == pytest.approx(info["mtime"])
    with pytest.raises(io.UnsupportedOperation):
        fs.created(f"{root}/a/file")
    fs.mv(f"{root}/a/file", f"{root}/b/file")
    assert not fs.exists(f"{root}/a/file")
    fs.touch(f"{root}/b/file", truncate=False)
    assert fs.cat(f"{root}/b/file") == b"data"
    fs.touch(f"{root}/b/file")
    assert fs.size(f"{root}/b/file") == 0
    with pytest.raises(NotADirectoryError):
        fs.rmdir(f"{root}/b/file")
    with pytest.raises(OSError, match="not empty"):
        fs.rm(f"{root}/b")
    fs.rmdir(f"{root}/a")
    fs.rm(f"{root}/b/fi*")
    fs.rm(f"{root}/b", recursive=True)
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{root}/b")
    with pytest.raises(FileNotFoundError):
        fs.info(f"{root}/b")
    assert fs.ls(root) == []


def test_pandas(tmp_path):
    """A data frame goes to Parquet and CSV, and back."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"number": range(1000), "text": [str(n) for n in range(1000)]})
    url = f"hflush+file://{tmp_path}/table"
    frame.to_parquet(f"{url}.parquet")
    assert pandas.read_parquet(f"{url}.parquet").equals(frame)
    frame.to_csv(f"{url}.csv", index=False)
    assert list(pandas.read_csv(f"{url}.csv")["number"]) == list(range(1000))


def test_checksums(tmp_path):
    """With a configuration, sidecars are written."""
    fs = HflushFileSystem(conf={"fs.file.checksum": "true"})
    fs.pipe(f"{tmp_path}/file", b"data")
    assert (tmp_path / ".file.crc").exists()
    assert fs.ls(str(tmp_path), detail=False) == [f"{tmp_path}/file"]


def test_register_refuses_what_is_not_supported():
    """It is named in the refusal; nothing is registered then."""
    with pytest.raises(hflush.UnsupportedFileSystemError, match="support gs yet"):
        register("file", "gs")
    assert fsspec.get_filesystem_class("file") is not HflushFileSystem


def test_register_takes_hdfs_and_s3():
    """Unless told otherwise, in that process."""
    program = (
        "import fsspec, hflush.fsspec as ours; ours.register()\n"
        "assert fsspec.get_filesystem_class('hdfs') is ours.HflushHdfsFileSystem\n"
        "assert fsspec.get_filesystem_class('s3') is ours.HflushS3FileSystem"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_register_takes_the_place(tmp_path):
    """After register("file") plain file URLs are ours, in that process."""
    program = (
        "import fsspec, hflush.fsspec as ours; ours.register('file')\n"
        f"with fsspec.open('file://{tmp_path}/file', 'wb') as out: out.write(b'x'); out.hsync()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert (tmp_path / "file").read_bytes() == b"x"


class TestHdfs:
    """hflush+hdfs: which file system and path a URL means, before anything is connected."""

    @pytest.mark.parametrize(
        ("url", "host", "port", "path"),
        [
            ("hflush+hdfs://nn:9000/a/b", "nn", 9000, "/a/b"),
            ("hflush+hdfs://nn/a/", "nn", None, "/a"),
            ("hflush+hdfs://service", "service", None, "/"),
            ("hflush+hdfs://[::1]:9000/a", "[::1]", 9000, "/a"),
            ("hflush+hdfs:///a", None, None, "/a"),
            ("hflush+hdfs:/a", None, None, "/a"),
        ],
    )
    def test_urls(self, url: str, host: str | None, port: int | None, path: str):
        options = HflushHdfsFileSystem._get_kwargs_from_urls(url)
        assert (options.get("host"), options.get("port")) == (host, port)
        assert HflushHdfsFileSystem._strip_protocol(url) == path

    def test_paths_alone(self):
        """Plain ones begin at the root; the protocol that register() takes over is known, too."""
        strip = HflushHdfsFileSystem._strip_protocol
        assert [strip("/a/b/"), strip("a"), strip("/")] == ["/a/b", "/a", "/"]
        assert strip(["hdfs://nn:1/x", "/y"]) == ["/x", "/y"]

    def test_the_file_system(self):
        """One for each host; a URL of it leads back to it."""
        fs, path = fsspec.core.url_to_fs("hflush+hdfs://nn:9000/a")
        assert isinstance(fs, HflushHdfsFileSystem)
        assert fs.filesystem.uri == "hdfs://nn:9000/"
        assert fs is fsspec.filesystem("hflush+hdfs", host="nn", port=9000)
        assert fs is not fsspec.filesystem("hflush+hdfs", host="nn", port=9001)
        assert fs.unstrip_protocol(path) == "hflush+hdfs://nn:9000/a"
        assert pickle.loads(pickle.dumps(fs)) is fs

    def test_the_default_file_system(self):
        conf = {"fs.defaultFS": "hdfs://nn:9000"}
        fs = fsspec.filesystem("hflush+hdfs", conf=conf)
        assert fs.fsid == "hflush+hdfs://nn:9000/"
        with pytest.raises(ValueError, match="must name a host"):
            fsspec.filesystem("hflush+hdfs")


class TestS3:
    """hflush+s3: which bucket and path a URL means, before anything is connected."""

    @pytest.mark.parametrize(
        ("url", "bucket", "path"),
        [
            ("hflush+s3://b/a/c", "b", "/a/c"),
            ("hflush+s3a://b/a/", "b", "/a"),
            ("s3://b.c", "b.c", "/"),
            ("s3a://b/a", "b", "/a"),
            ("hflush+s3:///a", None, "/a"),
        ],
    )
    def test_urls(self, url: str, bucket: str | None, path: str):
        options = HflushS3FileSystem._get_kwargs_from_urls(url)
        assert options == ({"bucket": bucket} if bucket else {})
        assert HflushS3FileSystem._strip_protocol(url) == path

    def test_plain_paths(self):
        assert HflushS3FileSystem._strip_protocol("a/b") == "/a/b"
        assert HflushS3FileSystem._strip_protocol(["/a/", "s3://b/c"]) == ["/a", "/c"]

    def test_a_bucket(self):
        fs = fsspec.filesystem("hflush+s3", bucket="b", conf={"fs.s3a.endpoint": "http://h:1"})
        assert fs.filesystem.uri == "s3://b/"
        assert fs.fsid == "hflush+s3://b/"
        assert fs.unstrip_protocol("/a") == "hflush+s3://b/a"
        with pytest.raises(ValueError, match="must name a bucket"):
            fsspec.filesystem("hflush+s3")

    def test_files(self):
        """Writing, reading, listing and copying, over a server."""
        from support.scripted_s3 import ScriptedS3

        with ScriptedS3() as server:
            conf = {**server.conf, "fs.s3a.create.performance": "true"}
            fs = fsspec.filesystem("hflush+s3", bucket="bucket", conf=conf)
            fs.pipe("/d/a", b"data")
            assert fs.cat("/d/a") == b"data"
            assert fs.ls("/d", detail=False) == ["/d/a"]
            assert fs.info("/d/a")["ETag"] == server.objects["d/a"].etag.strip('"')
            with fsspec.open("hflush+s3://bucket/d/b", "wt", conf=conf) as out:
                out.write("text")
            assert server.objects["d/b"].data == b"text"
            server.put("d/x", b"x")
            assert sorted(fs.find("/d")) == ["/d/a", "/d/b", "/d/x"]
            fs.rm("/d", recursive=True)
            assert not fs.exists("/d/a")
