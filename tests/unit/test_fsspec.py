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
from hflush.fsspec import HflushFileSystem, register  # noqa: E402


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
    """hdfs and s3 are named in the refusal, and stay as they are."""
    with pytest.raises(hflush.UnsupportedFileSystemError, match="hdfs and s3"):
        register()
    with pytest.raises(hflush.UnsupportedFileSystemError, match="s3"):
        register("file", "s3")
    assert fsspec.get_filesystem_class("file") is not HflushFileSystem


def test_register_takes_the_place(tmp_path):
    """After register("file") plain file URLs are ours, in that process."""
    program = (
        "import fsspec, hflush.fsspec as ours; ours.register('file')\n"
        f"with fsspec.open('file://{tmp_path}/file', 'wb') as out: out.write(b'x'); out.hsync()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert (tmp_path / "file").read_bytes() == b"x"
