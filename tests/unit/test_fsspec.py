"""hflush below fsspec: names, options, files. tests/ecosystem has what needs servers."""

from __future__ import annotations

import contextlib
import copy
import errno
import functools
import gc
import gzip
import io
import itertools
import os
import pickle
import re
import stat
import subprocess
import sys
import threading
from collections import UserDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any
from unittest.mock import Mock

import hflush
import pytest

fsspec = pytest.importorskip("fsspec")

from hflush.configuration import user_name  # noqa: E402
from hflush.fsspec import (  # noqa: E402
    HflushFileSystem,
    HflushHdfsFileSystem,
    HflushS3FileSystem,
    HflushViewFileSystem,
    register,
)
from hflush.fsspec.options import GENERIC  # noqa: E402
from hflush.hdfs.keys import USER  # noqa: E402
from support.forks import in_child  # noqa: E402
from support.waiting import DEADLINE_S, wait_until  # noqa: E402

CLASSES = {
    "file": HflushFileSystem,
    "hdfs": HflushHdfsFileSystem,
    "s3": HflushS3FileSystem,
    "viewfs": HflushViewFileSystem,
}


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
    with pytest.raises(io.UnsupportedOperation, match="appending in a trans"), fs.transaction:
        fs.open(path, "ab")


@pytest.mark.parametrize("mode", ["r", "w"])
@pytest.mark.parametrize("wrong", ["encoding", "errors", "newline"])
def test_text_that_there_is_not(fs, tmp_path, mode, wrong):
    """It is refused before the file is touched."""
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises((LookupError, ValueError), match="no such"):
        fs.open(str(path), mode, **{wrong: "no such"})
    assert path.read_text() == "old"


@pytest.mark.parametrize("compression", ["gzip", "bz2", "xz", "lz4", None])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_a_byte_order_mark(fs, tmp_path, encoding: str, compression: str | None):
    """It stands at the beginning, before compression, and not where text is appended."""
    if compression == "lz4":
        pytest.importorskip("lz4.frame")
    path = f"{tmp_path}/file"
    for mode in ("wt", "at"):
        with fs.open(path, mode, encoding=encoding, compression=compression) as text:
            text.write("grün\n")
    with fs.open(path, "rb", compression=compression) as data:
        assert data.read() == "grün\ngrün\n".encode(encoding)


def test_an_interrupt_in_the_last_flush_of_text(fs, tmp_path, monkeypatch):
    """What could not be handed on is missing: nothing is published."""
    path = tmp_path / "file"
    path.write_text("old")
    text = fs.open(str(path), "w", atomic=True)
    text.write("record")

    def flush(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(text.buffer), "flush", flush)
    with pytest.raises(KeyboardInterrupt):
        text.close()
    assert path.read_text() == "old"


@pytest.mark.parametrize("call", ["write", "flush"])
def test_an_interrupt_in_a_compressor(fs, tmp_path, monkeypatch, call: str):
    """What it was about to hand on may be lost: close says so, and publishes nothing."""
    out = fs.open(f"{tmp_path}/file", "wb", compression="gzip", atomic=True)

    def hand_on(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(out._below), "write", hand_on)
        with pytest.raises(KeyboardInterrupt):
            out.write(os.urandom(100_000)) if call == "write" else out.flush()
    with pytest.raises(OSError, match="may have a hole"):
        out.close()
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_before_a_compressor(fs, tmp_path, monkeypatch):
    """It takes no text along that was written before."""
    text = fs.open(f"{tmp_path}/file", "w", compression="gzip")
    text.write("first")

    def write(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(text.buffer), "write", write)
        with pytest.raises(KeyboardInterrupt):
            text.write("x" * 10_000)
    text.close()
    assert gzip.decompress((tmp_path / "file").read_bytes()) == b"first"


def test_data_that_a_compressor_does_not_take(fs, tmp_path):
    """They are refused, and leave no hole."""
    with fs.open(f"{tmp_path}/file", "wb", compression="gzip") as out:
        for wrong in ("text", memoryview(b"data")[::2]):
            with pytest.raises((TypeError, BufferError)):
                out.write(wrong)
        out.write(b"data")
    with pytest.raises(hflush.StreamClosedError, match="write: the stream is closed"):
        out.write(b"late")
    assert gzip.decompress((tmp_path / "file").read_bytes()) == b"data"


def test_threads_that_write_to_a_compressor(fs, tmp_path):
    """Each write is whole: the sums of the compressed data are those of its order."""
    pieces = [bytes([i]) * 100_000 for i in range(64)]
    with fs.open(f"{tmp_path}/file", "wb", compression="gzip") as out:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(out.write, pieces))
        assert out.tell() == sum(map(len, pieces))
    with gzip.open(f"{tmp_path}/file") as file:
        assert sorted(iter(lambda: file.read(100_000), b"")) == pieces


@contextlib.contextmanager
def a_thread_within(out: Any) -> Iterator[None]:
    """Have a thread in the compressor of `out` for the length of a block."""
    inside, go_on = threading.Event(), threading.Event()
    write = out._codec.write

    def waiting(data: bytes) -> int:
        inside.set()
        assert go_on.wait(DEADLINE_S)
        return write(data)

    out._codec.write = waiting
    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(out.write, b"x" * 100_000)
        try:
            assert inside.wait(DEADLINE_S)
            yield
        finally:
            go_on.set()
        assert done.result() == 100_000


def test_a_forked_child_does_not_wait_for_a_compressor(fs, tmp_path):
    """The thread that is within it is in the parent alone, which ends the file."""

    def child() -> None:
        with pytest.raises(hflush.StreamClosedError, match=r"write: .* before fork"):
            out.write(b"late")
        out.close()

    with fs.open(f"{tmp_path}/file", "wb", compression="gzip") as out, a_thread_within(out):
        in_child(child)
    assert gzip.decompress((tmp_path / "file").read_bytes()) == b"x" * 100_000


def test_a_compressor_is_not_ended_under_a_thread(fs, tmp_path, monkeypatch):
    """Those that are written in C are for one thread at a time."""
    out = fs.open(f"{tmp_path}/file", "wb", compression="gzip", atomic=True)
    end = Mock()
    with monkeypatch.context() as patch, a_thread_within(out):
        patch.setattr(out._codec, "close", end)
        out.abort()
    end.assert_not_called()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("mode", "data"), [("wb", b"data"), ("w", "data")])
def test_a_compressor_whose_stream_is_closed(fs, tmp_path, mode: str, data: Any):
    """Its data are cut off: close says so, once."""
    out = fs.open(f"{tmp_path}/file", mode, compression="gzip")
    out.write(data)
    with fs.filesystem:
        pass
    assert not out.closed
    with pytest.raises(hflush.StreamClosedError, match="before the compressed data had ended"):
        out.close()
    assert out.closed
    out.close()


@pytest.mark.parametrize("compression", ["gzip", None])
def test_a_file_whose_transaction_was_dropped(fs, tmp_path, compression: str | None):
    """The transaction has said what became of it: close has nothing to add."""
    with contextlib.suppress(ZeroDivisionError), fs.transaction:
        out = fs.open(f"{tmp_path}/file", "wb", compression=compression)
        out.write(b"data")
        raise ZeroDivisionError
    assert out.closed
    out.close()
    assert list(tmp_path.iterdir()) == []


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

    with pytest.warns(hflush.NotPublishedWarning, match="never closed"):
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
    os.symlink("a", f"{root}/link")
    for name in ("b/file", "link"):
        with pytest.raises(NotADirectoryError):
            fs.rmdir(f"{root}/{name}")
    fs.rm_file(f"{root}/link")
    fs.rmdir(f"{root}/a")
    fs.rm(f"{root}/b/fi*")
    fs.rm(f"{root}/b", recursive=True)
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{root}/b")
    with pytest.raises(FileNotFoundError):
        fs.info(f"{root}/b")
    assert fs.ls(root) == []


STRIDED = memoryview(b"data")[::2]


@pytest.mark.parametrize(
    ("operation", "value"),
    [
        ("pipe", "text"),
        ("pipe_file", None),
        ("write_bytes", STRIDED),
        ("write_text", b"data"),
    ],
)
def test_values_that_cannot_be_written(fs, tmp_path, operation: str, value: Any):
    """They are refused before the file is touched."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises((TypeError, BufferError)):
        getattr(fs, operation)(str(path), value)
    assert path.read_bytes() == b"old"
    with pytest.raises(BufferError):
        fs.filesystem.put_if_absent(f"{tmp_path}/d/file", STRIDED)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("operation", ["pipe_file", "put_file"])
@pytest.mark.parametrize("protocol", ["hflush+file", "hflush+s3"])
def test_one_of_many_creates_a_file(tmp_path, monkeypatch, protocol: str, operation: str):
    """Also where another has made it since a program could have asked."""
    from support.scripted_s3 import ScriptedS3

    with ScriptedS3() as server:
        fs = fsspec.filesystem(protocol, conf=server.conf)
        path = "bucket/d/lock" if protocol == "hflush+s3" else f"{tmp_path}/lock"
        (tmp_path / "local").write_bytes(b"mine")
        create = {
            "pipe_file": functools.partial(fs.pipe_file, path, b"mine"),
            "put_file": functools.partial(fs.put_file, tmp_path / "local", path),
        }[operation]
        create(mode="create")
        fs.pipe(path, b"theirs")
        monkeypatch.setattr(fs, "exists", lambda *_: False)  # as it was when it was asked
        with pytest.raises(FileExistsError):
            create(mode="create")
        assert fs.cat(path) == b"theirs"
        with pytest.raises(ValueError, match="mode must be one of overwrite, create"):
            create(mode="creat")
        create()
        assert fs.cat(path) == b"mine"


def test_find_with_a_prefix(fs, tmp_path):
    """What begins otherwise is not found: the names may be handed to rm."""
    root = str(tmp_path)
    for name in ("tmp_1", "tmp_d/x", "keep/tmp_2"):
        fs.pipe(f"{root}/{name}", b"")
    assert fs.find(f"{root}/", prefix="tmp_") == [f"{root}/tmp_1", f"{root}/tmp_d/x"]
    found = fs.find(root, prefix="tmp_d", withdirs=True, detail=True, maxdepth=1)
    assert [(name, entry["type"]) for name, entry in found.items()] == [
        (f"{root}/tmp_d", "directory")
    ]
    assert fs.find(f"{root}/tmp_1", prefix="tmp_") == []


@pytest.mark.parametrize(
    "look",
    [
        lambda fs, path: fs.isdir(f"{path}/d/shut"),
        lambda fs, path: fs.isfile(f"{path}/d/shut"),
        lambda fs, path: fs.find(path),
        lambda fs, path: fs.glob(f"{path}/*/*/*"),
        lambda fs, path: fs.du(path),
        lambda fs, path: fs.get(path, f"{path}.copy", recursive=True),
        lambda fs, path: fs.cp(path, f"{path}.copy", recursive=True),
        lambda fs, path: list(fs.walk(path, on_error="raise")),
    ],
)
def test_what_cannot_be_looked_at(fs, tmp_path, monkeypatch, look):
    """It is neither missing nor empty."""
    for name in ("d/open/x", "d/shut/y"):
        fs.pipe(f"{tmp_path}/{name}", b"data")

    def refusing(call):
        def ask(path: str, *args: object, **options: object):
            if path.endswith("/shut"):
                raise PermissionError(errno.EACCES, "shut", path)
            return call(path, *args, **options)

        return ask

    for name in ("info", "ls"):
        monkeypatch.setattr(fs, name, refusing(getattr(fs, name)))
    with pytest.raises(PermissionError, match="shut"):
        look(fs, str(tmp_path))
    assert fs.find(str(tmp_path), on_error="omit") == [f"{tmp_path}/d/open/x"]
    assert fs.find(f"{tmp_path}/missing") == fs.glob(f"{tmp_path}/d/open/x/*") == []


@pytest.mark.parametrize(
    "options",
    [{}, {"topdown": False}, {"maxdepth": 2}, {"maxdepth": 1, "topdown": False}],
    ids=repr,
)
def test_walks(fs, tmp_path, options):
    """As fsspec's own; what the caller takes out of the directories is left out."""
    for name in ("a/b/c/x", "a/y", "z"):
        fs.pipe(f"{tmp_path}/{name}", b"data")
    for detail in (False, True):
        expected = fsspec.AbstractFileSystem.walk(fs, str(tmp_path), detail=detail, **options)
        assert [*fs.walk(str(tmp_path), detail=detail, **options)] == [*expected]
    for seen, dirs, _ in fs.walk(str(tmp_path)):
        assert seen == str(tmp_path)
        dirs.clear()
    with pytest.raises(ValueError, match="maxdepth"):
        [*fs.walk(str(tmp_path), maxdepth=0)]


@pytest.mark.parametrize("name", ["", ".", "{}", "{}/no/.."])
def test_the_working_directory_stays(fs, tmp_path, monkeypatch, name: str):
    """Which an empty name is; a link to it goes."""
    monkeypatch.chdir(tmp_path)
    fs.pipe("file", b"data")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(io.UnsupportedOperation, match="removing the working directory"):
        fs.rm(["file", name.format(tmp_path)], recursive=True)
    fs.rm("link", recursive=True)
    assert fs.cat("file") == b"data"


def test_a_move_to_another_volume(fs, tmp_path, monkeypatch):
    """It is a copy, and what was copied goes."""

    def rename(*_: object) -> None:
        raise OSError(errno.EXDEV, "another volume")

    monkeypatch.setattr(type(fs.filesystem), "rename", rename)
    fs.pipe({f"{tmp_path}/d/x": b"data", f"{tmp_path}/y": b"old"})
    fs.mv(f"{tmp_path}/d/x", f"{tmp_path}/y")
    fs.mv(f"{tmp_path}/y", f"{tmp_path}/d")
    fs.mv(f"{tmp_path}/d", f"{tmp_path}/e")
    assert fs.find(str(tmp_path)) == [f"{tmp_path}/e/y"]
    assert fs.cat(f"{tmp_path}/e/y") == b"data"


class Full(fsspec.Callback):
    def relative_update(self, inc: int = 1) -> None:
        raise OSError(errno.ENOSPC, "full")


def test_a_get_that_fails(fs, tmp_path):
    """It leaves no part, and what was there."""
    here = tmp_path / "here"
    here.write_bytes(b"old")
    with pytest.raises(FileNotFoundError):
        fs.get_file(f"{tmp_path}/missing", here)
    assert here.read_bytes() == b"old"
    fs.pipe(f"{tmp_path}/x", b"data")
    with pytest.raises(OSError, match="full"):
        fs.get_file(f"{tmp_path}/x", here, callback=Full())
    assert here.read_bytes() == b"old"
    with pytest.raises(OSError, match="full"):
        fs.get_file(f"{tmp_path}/x", tmp_path / "new" / "there", callback=Full())
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["here", "new", "x"]


def test_a_get_that_fails_beside_another(fs, tmp_path):
    """What has taken the place of its part stays."""
    here = tmp_path / "here"

    class Replaced(Full):
        def relative_update(self, inc: int = 1) -> None:
            (tmp_path / "whole").write_bytes(b"whole")
            (tmp_path / "whole").replace(here)
            super().relative_update(inc)

    fs.pipe(f"{tmp_path}/x", b"data")
    with pytest.raises(OSError, match="full"):
        fs.get_file(f"{tmp_path}/x", here, callback=Replaced())
    assert here.read_bytes() == b"whole"


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}, {"mode": "create"}], ids=repr)
def test_a_put_that_fails(fs, tmp_path, options):
    """It leaves no part, either."""
    (tmp_path / "x").write_bytes(b"data")
    with pytest.raises(OSError, match="full"):
        fs.put_file(tmp_path / "x", f"{tmp_path}/there", callback=Full(), **options)
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}], ids=repr)
def test_a_put_that_fails_over_a_file(fs, tmp_path, options):
    """The file stays, unless that is not wanted; one that is replaced hands on its mode."""
    source, there = tmp_path / "x", tmp_path / "there"
    source.write_bytes(b"data")
    there.write_bytes(b"old")
    there.chmod(0o640)
    with pytest.raises(OSError, match="full"):
        fs.put_file(source, there, callback=Full(), **options)
    assert there.read_bytes() == b"old"
    fs.put_file(source, there, **options)
    assert stat.S_IMODE(there.stat().st_mode) == 0o640
    with pytest.raises(OSError, match="full") as failure:
        fs.put_file(source, there, callback=Full(), atomic=False, **options)
    assert "is gone" in "".join(getattr(failure.value, "__notes__", ()))
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("operation", ["get", "put"])
def test_a_file_onto_itself(fs, tmp_path, operation: str):
    """It would be emptied before it is read."""
    (tmp_path / "x").write_bytes(b"data")
    (tmp_path / "link").symlink_to("x")
    for names in (("x", "x"), ("link", "x"), ("x", "link")):
        with pytest.raises(OSError, match="onto itself"):
            getattr(fs, operation)(*(f"{tmp_path}/{name}" for name in names))
    assert (tmp_path / "x").read_bytes() == b"data"


def test_touch_empties_nothing(fs, tmp_path, monkeypatch):
    """Also what another has written since it was asked whether there is a file."""
    fs.pipe(f"{tmp_path}/x", b"data")
    monkeypatch.setattr(type(fs.filesystem), "exists", lambda *_: False)
    fs.touch(f"{tmp_path}/x", truncate=False)
    assert fs.cat(f"{tmp_path}/x") == b"data"


@pytest.mark.parametrize("protocol", ["hflush+file", "hflush+s3"])
def test_below_a_file(tmp_path, protocol: str):
    """What hflush raises elsewhere is a FileExistsError, too, which callers pass over."""
    from support.scripted_s3 import ScriptedS3

    make = pytest.importorskip("upath").UPath
    with ScriptedS3() as server:
        fs = fsspec.filesystem(protocol, conf=server.conf)
        root = "bucket/d" if protocol == "hflush+s3" else str(tmp_path)
        fs.pipe(f"{root}/file", b"data")
        name = f"{root}/file/below"
        path = make(name, protocol=protocol.replace("+", ""), conf=server.conf)
        for attempt in (
            lambda: fs.mkdir(name),
            lambda: fs.makedirs(name, exist_ok=True),
            lambda: fs.open(name, "xb"),
            lambda: fs.open(name, "x"),
            lambda: fs.touch(name, truncate=False),
            lambda: path.mkdir(parents=True, exist_ok=True),
        ):
            with pytest.raises(NotADirectoryError) as refusal:
                attempt()
            assert type(refusal.value) is NotADirectoryError
            assert str(refusal.value.filename).endswith("/file/below")


def test_files_are_pickled(fs, tmp_path):
    """What is read: it is opened again. What is written is not sent."""
    fs.pipe(f"{tmp_path}/x", b"0123456789")
    with fs.open(f"{tmp_path}/x", "rb", length=10) as file:
        file.read(3)
        with pickle.loads(pickle.dumps(file)) as again:
            assert (again.tell(), again.read()) == (3, b"3456789")
    for autocommit in (True, False):
        out = fs.open(f"{tmp_path}/y", "wb", autocommit=autocommit)
        with out, pytest.raises(TypeError, match="written cannot be pickled"):
            pickle.dumps(out)
    out.discard()


@pytest.mark.parametrize("protocol", ["hflush+file", "hflush+s3"])
def test_slices(tmp_path, protocol: str):
    """As of bytes, also those in which there is nothing."""
    from support.scripted_s3 import ScriptedS3

    data = b"0123456789"
    with ScriptedS3() as server:
        fs = fsspec.filesystem(protocol, conf=server.conf)
        path = "bucket/x" if protocol == "hflush+s3" else f"{tmp_path}/x"
        fs.pipe(path, data)
        for start, end in itertools.product((None, 0, 4, 10, 20, -3, -20), repeat=2):
            assert fs.cat_file(path, start, end) == data[start:end]


def test_slices_of_a_file_that_does_not_say_its_size(fs):
    data, path = Path("/proc/version").read_bytes(), "/proc/version"
    assert [fs.cat_file(path, 2, 10), fs.cat_file(path, 2)] == [data[2:10], data[2:]]
    assert fs.cat_ranges([path], [0], [10]) == [data[:10]]


@pytest.mark.parametrize("protocol", ["hflush+file", "hflush+s3"])
class TestMovesOfMany:
    """mv takes lists and patterns, as s3fs does."""

    @pytest.fixture
    def root(self, fs, protocol: str, tmp_path) -> str:
        root = "bucket/d" if protocol == "hflush+s3" else str(tmp_path)
        for name in ("a/x", "a/y", "b/x", "[z]"):
            fs.pipe(f"{root}/{name}", name.encode())
        for name in ("empty", "full/a"):
            fs.mkdir(f"{root}/{name}")
        return root

    @pytest.fixture
    def fs(self, protocol: str) -> Iterator[HflushFileSystem]:
        from support.scripted_s3 import ScriptedS3

        with ScriptedS3() as server:
            yield fsspec.filesystem(protocol, conf=server.conf)

    @pytest.mark.parametrize(
        ("names", "to", "there"),
        [
            (["a/x", "[z]"], "new/", {"new/x": "a/x", "new/[z]": "[z]"}),
            (["a"], "b", {"b/a/x": "a/x", "b/a/y": "a/y"}),
            (["a", "b/x"], "new", {"new/a/x": "a/x", "new/x": "b/x"}),
            ("a", "empty", {"empty/a/x": "a/x", "empty/a/y": "a/y"}),
            ("a/*", "new", {"new/x": "a/x", "new/y": "a/y"}),
            ("a/x", "new/", {"new/x": "a/x"}),
            ("a", "new/", {"new/a/x": "a/x", "new/a/y": "a/y"}),
            (["a/*", "a/x"], "new", {"new/x": "a/x", "new/y": "a/y"}),
            ("[z]", "new", {"new": "[z]"}),
            (["a/x", "a/y"], ["one", "two"], {"one": "a/x", "two": "a/y"}),
        ],
    )
    def test_moves(self, fs, root: str, names, to, there: dict[str, str]):
        """Into a directory; each to its own name; a file of the name of a pattern is that file."""
        below = functools.partial(self._below, root)
        fs.mv(below(names), below(to))
        for name, data in there.items():
            assert fs.cat_file(f"{root}/{name}") == data.encode()
        assert len(fs.find(root)) == 4

    @pytest.mark.parametrize(
        ("names", "to", "message"),
        [
            (["a/x", "b/x"], "new", "begin or end at .*new/x"),
            (["a/x", "b/x"], ["new", "new"], "begin or end at .*new;"),
            (["a/x", "b/x"], ["b/x", "new"], "begin or end at .*b/x"),
            (["a/x", "a"], "new", "a/x lies in .*a, which is moved"),
            (["b", "a"], "b", "b/b lies in"),
            (["a/x", "a/y"], ["new"], "2 names, and 1 to"),
            (["a/x", "wrong://b/x"], "new", "wrong file system"),
            ("a/z*", "new", "nothing there"),
            ("a/z", "new/x", "a/z"),
            ("a", "full", "a directory is there"),
        ],
    )
    def test_refusals(self, fs, root: str, names, to, message: str):
        """Nothing was moved, and no directory made."""
        below = functools.partial(self._below, root)
        before = fs.find(root, withdirs=True)
        with pytest.raises((ValueError, OSError), match=message):
            fs.mv(below(names), below(to))
        assert fs.find(root, withdirs=True) == before

    def _below(self, root: str, names: str | list[str]) -> str | list[str]:
        if isinstance(names, list):
            return [name if ":" in name else f"{root}/{name}" for name in names]
        return f"{root}/{names}"


@pytest.mark.parametrize(
    "operation",
    [
        lambda fs, path, **options: fs.find(path, **options),
        lambda fs, path, **options: fs.glob(f"{path}/*", **options),
        lambda fs, path, **options: fs.expand_path(path, **options),
        lambda fs, path, **options: fs.ls(path, **options),
        lambda fs, path, **options: fs.info(path, **options),
        lambda fs, path, **options: fs.exists(path, **options),
        lambda fs, path, **options: fs.mkdir(f"{path}/new", **options),
        lambda fs, path, **options: fs.touch(f"{path}/new", **options),
        lambda fs, path, **options: fs.cp_file(f"{path}/file", f"{path}/new", **options),
        lambda fs, path, **options: fs.copy(path, f"{path}/new", recursive=True, **options),
        lambda fs, path, **options: fs.mv(f"{path}/file", f"{path}/new", **options),
        lambda fs, path, **options: fs.cat(path, recursive=True, **options),
    ],
)
@pytest.mark.parametrize("protocol", ["hflush+file", "hflush+s3"])
def test_options_that_an_operation_does_not_have(tmp_path, operation, protocol: str):
    """They may mean another version, or fewer files: they are refused, and nothing is done."""
    from support.scripted_s3 import ScriptedS3

    with ScriptedS3() as server:
        fs = fsspec.filesystem(protocol, conf=server.conf)
        path = "bucket/d" if protocol == "hflush+s3" else str(tmp_path)
        fs.pipe(f"{path}/file", b"data")
        with pytest.raises(TypeError, match=r"option.*version_id"):
            operation(fs, path, version_id="x")
        assert fs.find(path) == [f"{path}/file"]


def test_options_that_mean_nothing(fs, tmp_path):
    """Those that other libraries pass as a matter of course."""
    root = str(tmp_path)
    fs.mkdir(f"{root}/a", mode=0o700, acl=None)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    fs.pipe(f"{root}/a/x", b"data")
    assert fs.ls(f"{root}/a", detail=False, refresh=True) == [f"{root}/a/x"]
    assert fs.cat(f"{root}/a/*", start=1) == {f"{root}/a/x": b"ata"}
    fs.mv(f"{root}/a", f"{root}/b", recursive=True, maxdepth=None)
    with pytest.raises(io.UnsupportedOperation, match="mv with maxdepth"):
        fs.mv(f"{root}/b", f"{root}/c", maxdepth=1)
    assert fs.cat(f"{root}/b/x") == b"data"


@pytest.mark.parametrize("name", ["./d", "d//", "o/../d", "d/./.", "{root}//d", "{root}/o/../d"])
def test_names_that_are_not_normal(fs, tmp_path, monkeypatch, name: str):
    """They are those that listings return."""
    monkeypatch.chdir(tmp_path)
    fs.pipe(f"{tmp_path}/d/s/x", b"data")
    name = name.format(root=tmp_path)
    assert fs.glob(f"{name}/**/x") == fs.find(name) == [f"{tmp_path}/d/s/x"]
    assert list(fs.get_mapper(name)) == ["s/x"]
    (tmp_path / "link").symlink_to("d/s")
    with pytest.raises(hflush.InvalidPathError, match="behind the symbolic link"):
        fs.find("link/../d")


@pytest.mark.parametrize("protocol", ["hflush+file", "hflush+s3"])
def test_rm_keeps_directories(tmp_path, protocol: str):
    """And so do rm_file() and unlink() of universal_pathlib; links to them go."""
    from support.scripted_s3 import ScriptedS3

    make = pytest.importorskip("upath").UPath
    with ScriptedS3() as server:
        fs = fsspec.filesystem(protocol, conf=server.conf)
        root = "bucket/d" if protocol == "hflush+s3" else str(tmp_path)
        fs.mkdir(f"{root}/empty")
        path = make(f"{root}/empty", protocol=protocol.replace("+", ""), conf=server.conf)
        fs.pipe({f"{root}/{name}": b"data" for name in ("a", "empty.txt", "full/file")})
        for remove in (
            lambda: fs.rm_file(f"{root}/empty"),
            lambda: fs.rm([f"{root}/empty.txt", f"{root}/empty"]),
            lambda: fs.rm(f"{root}/*"),
            path.unlink,
        ):
            with pytest.raises(IsADirectoryError):
                remove()
        assert fs.isdir(f"{root}/empty")
        assert [*map(os.path.basename, fs.find(root))] == ["a", "empty.txt", "file"]
        fs.rm(f"{root}/*", recursive=True)
        path.with_name("missing").unlink(missing_ok=True)
    (tmp_path / "empty").mkdir(exist_ok=True)
    for target in ("empty", "missing"):
        path = make(f"hflushfile://{tmp_path}/link")
        for remove in (path.unlink, lambda path=path: path.fs.rm(path.path)):
            (tmp_path / "link").symlink_to(target)
            remove()
            assert not os.path.lexists(tmp_path / "link")


@pytest.mark.parametrize("protocol", ["hflush+file", "hflush+s3"])
@pytest.mark.parametrize("recursive", [False, True])
def test_rm_of_what_lies_in_one_another(tmp_path, protocol: str, recursive: bool):
    """As it is found: what is below goes first, and is not missed."""
    from support.scripted_s3 import ScriptedS3

    with ScriptedS3() as server:
        fs = fsspec.filesystem(protocol, conf=server.conf)
        root = "bucket/d" if protocol == "hflush+s3" else f"{tmp_path}/d"
        fs.pipe({f"{root}/{name}": b"data" for name in ("s/x", "s-1", "y")})
        with pytest.raises(FileNotFoundError, match="nothing there"):
            fs.rm([f"{root}/y", f"{root}/z*"], recursive)
        found = fs.expand_path(root, recursive=True) if recursive else fs.find(root)
        fs.rm([*found, f"{root}/s/*"], recursive)
        assert fs.find(root) == []


def test_capabilities(fs, tmp_path):
    """A compressor has no calls but those of io; its stream would have them."""
    with fs.open(f"{tmp_path}/x", "wb", compression="gzip") as out:
        for name in ("HSYNC", "HFLUSH", "DROPBEHIND", "IOSTATISTICS", "PERSIST"):
            assert not out.has_capability(getattr(hflush.capabilities, name))


def test_links(fs, tmp_path):
    """Those to files are files; no walk follows one to a directory, which may lead upwards."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "file").touch()
    for name, target in (("up", ".."), ("nowhere", "missing"), ("to_file", "file")):
        (tmp_path / "d" / name).symlink_to(target)
    found = {Path(one["name"]).name: one for one in fs.find(f"{tmp_path}", detail=True).values()}
    kinds = {name: (one["type"], stat.S_IFMT(one["mode"])) for name, one in found.items()}
    assert kinds == {
        "file": ("file", stat.S_IFREG),
        "nowhere": ("other", stat.S_IFLNK),
        "to_file": ("file", stat.S_IFREG),
        "up": ("other", stat.S_IFLNK),
    }
    assert {name: one["destination"] for name, one in found.items() if one["islink"]} == {
        "nowhere": "missing",
        "to_file": "file",
        "up": "..",
    }
    assert fs.info(f"{tmp_path}/d/up")["type"] == "directory"
    assert not fs.exists(f"{tmp_path}/d/nowhere")
    assert [fs.lexists(f"{tmp_path}/d/{name}") for name in ("nowhere", "missing")] == [True, False]
    assert fs.glob(f"{tmp_path}/d/up/d/f*") == [f"{tmp_path}/d/up/d/file"]


COPIES = pytest.mark.parametrize("copy", ["cp", "get", "put"])


def test_what_a_copy_of_a_tree_passes_over(fs, tmp_path, monkeypatch):
    """What is gone since it was listed, and nothing that the target lacks."""
    fs.pipe({f"{tmp_path}/in/{name}": b"data" for name in ("a", "b")})
    expanded = fs._expanded
    monkeypatch.setattr(
        fs, "_expanded", lambda *args: {**expanded(*args), f"{tmp_path}/in/gone": "file"}
    )
    fs.cp(f"{tmp_path}/in/", f"{tmp_path}/out/", recursive=True)
    assert sorted(os.listdir(tmp_path / "out")) == ["a", "b"]
    (tmp_path / "out" / "a").unlink()
    (tmp_path / "out" / "a").symlink_to("nosuch/a")
    with pytest.raises(FileNotFoundError, match="out/a"):
        fs.cp(f"{tmp_path}/in/", f"{tmp_path}/out/", recursive=True)


@COPIES
def test_trees_with_links(fs, tmp_path, copy: str):
    """What they lead to is copied, too; one that leads upwards is refused, and nothing copied."""
    fs.pipe({f"{tmp_path}/d/s/x": b"data", f"{tmp_path}/other/y/z": b"more"})
    (tmp_path / "d" / "l").symlink_to("../other")
    (tmp_path / "d" / "s" / "f").symlink_to("x")
    make = functools.partial(getattr(fs, copy), recursive=True)
    make(tmp_path / "d", f"{tmp_path}/new")
    assert fs.cat(f"{tmp_path}/new", recursive=True) == {
        f"{tmp_path}/new/l/y/z": b"more",
        f"{tmp_path}/new/s/f": b"data",
        f"{tmp_path}/new/s/x": b"data",
    }
    two = fs.expand_path(f"{tmp_path}/d", recursive=True, maxdepth=2)
    assert two == [f"{tmp_path}/d{name}" for name in ("", "/l", "/l/y", "/s", "/s/f", "/s/x")]
    (tmp_path / "other" / "up").symlink_to("../d")
    with pytest.raises(OSError, match="in itself, by a link") as refusal:
        make(f"{tmp_path}/d", f"{tmp_path}/newer")
    assert refusal.value.errno == errno.ELOOP
    assert not fs.exists(f"{tmp_path}/newer")


@COPIES
def test_copies_that_would_meet(fs, tmp_path, copy: str):
    """Or that have no name: nothing is copied, and no directory made."""
    names = [f"{tmp_path}/{name}/x" for name in "ab"]
    fs.pipe(dict.fromkeys(names, b"data"))
    make = getattr(fs, copy)
    for target in (f"{tmp_path}/new", [f"{tmp_path}/new/x"] * 2):
        with pytest.raises(ValueError, match=r"a/x and .*/b/x would both become .*/new/x; nothing"):
            make(names, target)
    with pytest.raises(ValueError, match="2 names, and 1 to copy them to"):
        make(tuple(names), [f"{tmp_path}/new/x"])
    assert fs.ls(str(tmp_path), detail=False) == [f"{tmp_path}/a", f"{tmp_path}/b"]


@COPIES
@pytest.mark.parametrize("protocol", ["hflush+file", "hflush+s3"])
def test_names_that_look_like_patterns(tmp_path, protocol: str, copy: str):
    """They are those of the files that have them, and no patterns."""
    from support.scripted_s3 import ScriptedS3

    with ScriptedS3() as server:
        fs = fsspec.filesystem(protocol, conf=server.conf)
        here = str(tmp_path / "here")
        there = "bucket/there" if protocol == "hflush+s3" else f"{tmp_path}/there"
        source, target = {"cp": (there, there), "get": (there, here), "put": (here, there)}[copy]
        of = {here: fsspec.filesystem("hflush+file"), there: fs}
        of[source].pipe({f"{source}/d[1]/a[b]": b"data", f"{source}/d1/ab": b"other"})
        getattr(fs, copy)(f"{source}/d[1]/a[b]", f"{target}/one")
        getattr(fs, copy)(f"{source}/d[1]", f"{target}/tree", recursive=True)
        assert of[target].cat([f"{target}/one", f"{target}/tree/a[b]"]) == dict.fromkeys(
            (f"{target}/one", f"{target}/tree/a[b]"), b"data"
        )
        assert of[source].get_mapper(f"{source}/d[1]")["a[b]"] == b"data"


@pytest.mark.parametrize(
    "name", ["~/x", "~", "s3//b/x", "file//b", "file://~/x", "hflushfile://nas/x", "a:b"]
)
def test_what_is_no_name_here(fs, tmp_path, monkeypatch, name: str):
    """As hflush itself: nothing is made below the working directory of what meant another place."""
    monkeypatch.chdir(tmp_path)
    for operation in (fs.exists, fs.makedirs, lambda it: fs.open(it, "wb")):
        with pytest.raises(ValueError, match=r"invalid path|wrong file system|no host"):
            operation(name)
    assert list(tmp_path.iterdir()) == []
    assert fs.unstrip_protocol("a") == f"hflush+file://{tmp_path}/a"
    fs.pipe("./~", b"data")
    assert fs.ls("", detail=False) == [f"{tmp_path}/~"]


@pytest.mark.parametrize(
    ("protocol", "options", "name", "message"),
    [
        ("hflush+file", {}, "/", "removing the root is not supported by raw local files"),
        ("hflush+file", {}, "file:///", "removing the root"),
        ("hflush+hdfs", {"host": "nn"}, "/", "removing the root is not supported by hdfs"),
        ("hflush+hdfs", {"host": "nn"}, "hdfs://nn", "removing the root"),
        ("hflush+s3", {}, "b", "removing a bucket is not supported by s3"),
        ("hflush+s3", {}, "s3://b/", "removing a bucket"),
    ],
)
def test_roots_stay(protocol: str, options: dict[str, str], name: str, message: str):
    """That is said before anything is asked or removed."""
    fs = fsspec.filesystem(protocol, **options)
    recursive = protocol != "hflush+file"  # of this machine not even where the test fails
    for operation in (
        fs.rm,
        fs.rmdir,
        fs.rm_file,
        lambda it: fs.rm(it, recursive=recursive),
        lambda it: fs.rm([f"{it.rstrip('/')}/nowhere/x", it], recursive=recursive),
    ):
        with pytest.raises(io.UnsupportedOperation, match=message):
            operation(name)


def test_a_transaction_with_too_many_files(tmp_path):
    """Each holds two descriptors until the end: the one too many is refused, and none is there."""
    program = (
        "import fsspec, resource\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))\n"
        "fs = fsspec.filesystem('hflush+file')\n"
        "written = 0\n"
        "try:\n"
        "    with fs.transaction:\n"
        "        for number in range(128):\n"
        f"            fs.pipe(f'{tmp_path}/{{number}}', b'x')\n"
        "            written += 1\n"
        "except OSError as refusal:\n"
        "    print(refusal.errno, 40 <= written < 64)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE)
    assert done.stdout.split() == [b"%d" % errno.EMFILE, b"True"]
    assert list(tmp_path.iterdir()) == []


def test_a_transaction_that_is_refused_in_the_middle(fs, tmp_path):
    """The note says how much of it is published."""
    path = f"{tmp_path}/file"
    fs.start_transaction()
    fs.pipe(path, b"one")
    fs.pipe(path, b"two", mode="create")
    with pytest.raises(FileExistsError) as caught:
        fs.end_transaction()
    assert caught.value.__notes__ == [
        f"files of the transaction that are published: 1 of 2 ({path})"
    ]
    assert fs.cat(path) == b"one"


@pytest.mark.parametrize("second", ["a", "b"], ids=["one thread", "several"])
def test_a_transaction_that_is_interrupted(fs, tmp_path, monkeypatch, second: str):
    """The note says how much of it is published."""
    first = tmp_path / "a"
    fs.start_transaction()
    fs.pipe(str(first), b"one")
    fs.pipe(f"{tmp_path}/{second}", b"two")

    def publish() -> None:
        wait_until(first.exists, "the other one is published")
        raise KeyboardInterrupt

    monkeypatch.setattr(fs.transaction.files[1]._deferred, "publish", publish)
    with pytest.raises(KeyboardInterrupt) as caught:
        fs.end_transaction()
    assert caught.value.__notes__ == [
        f"files of the transaction that are published: 1 of 2 ({first})"
    ]
    assert os.listdir(tmp_path) == ["a"]


def test_a_transaction_within_another(fs, tmp_path):
    """It would lose the files of the other one: it does not begin."""
    with fs.transaction as outer:
        fs.pipe(f"{tmp_path}/x", b"data")
        for begin in (fs.transaction.__enter__, fs.start_transaction):
            with pytest.raises(RuntimeError, match="has begun"):
                begin()
        fs.pipe(f"{tmp_path}/y", b"data")
    assert sorted(os.listdir(tmp_path)) == ["x", "y"]
    with pytest.raises(RuntimeError, match="has ended"):
        outer.start()


def test_a_forked_child_ends_no_transaction(fs, tmp_path):
    """What is published later is the parent's to publish, or to drop."""
    fs.start_transaction()
    fs.pipe(f"{tmp_path}/x", b"data")
    (file,) = fs.transaction.files
    in_child(file.discard)

    def child() -> None:
        with pytest.raises(hflush.StreamClosedError, match="before fork"):
            fs.end_transaction()

    in_child(child)
    fs.end_transaction()
    assert (tmp_path / "x").read_bytes() == b"data"


def test_a_forked_child_writes_into_no_transaction(fs, tmp_path):
    """The parent would not publish it: the child is told, and leaves nothing behind."""

    def child() -> None:
        with pytest.raises(hflush.StreamClosedError, match="transaction was begun before fork"):
            fs.pipe(f"{tmp_path}/x/y", b"data")

    with fs.transaction:
        in_child(child)
    assert list(tmp_path.iterdir()) == []


def test_put_of_a_tree_with_a_pipe(fs, tmp_path):
    """It has no end: nothing is copied."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_bytes(b"data")
    os.mkfifo(tmp_path / "d" / "pipe")
    for names in (f"{tmp_path}/d", f"{tmp_path}/d/*"):
        with pytest.raises(OSError, match="neither a file nor a directory") as refusal:
            fs.put(names, f"{tmp_path}/out/", recursive=True)
        assert refusal.value.filename.endswith("/d/pipe")
    assert not (tmp_path / "out").exists()


def test_put_in_a_transaction_lets_others_read(fs, tmp_path):
    """Also where it replaces a file, and with options that say how."""
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"data")
    usual = source.stat().st_mode
    for options in ({}, {"atomic": False}):
        target.write_bytes(b"old")
        with contextlib.nullcontext() if options else fs.transaction:
            fs.put_file(str(source), str(target), **options)
        assert (target.read_bytes(), target.stat().st_mode) == (b"data", usual)


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
    """Unless an option says otherwise, in that process."""
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


def test_instances_do_not_add_up():
    """fsspec would keep each for ever."""
    made = [HflushHdfsFileSystem(host="nn", user=f"user{number}") for number in range(100)]
    assert len(HflushHdfsFileSystem._cache) <= 64
    assert HflushHdfsFileSystem(host="nn", user="user99") is made[-1]


class TestHdfs:
    """hflush+hdfs: which file system and path a name means, before anything is connected."""

    @pytest.mark.parametrize(
        ("url", "host", "port", "name"),
        [
            ("hflush+hdfs://nn:9000/a/b", "nn", 9000, "hflush+hdfs://nn:9000/a/b"),
            ("hdfs://nn/a/", "nn", None, "hdfs://nn/a"),
            ("hflushhdfs://service", "service", None, "hflushhdfs://service"),
            ("hflush+hdfs://[::1]:9000/a", "[::1]", 9000, "hflush+hdfs://[::1]:9000/a"),
            ("hflush+hdfs:///a", None, None, "/a"),
            ("hflush+hdfs:/a", None, None, "/a"),
        ],
    )
    def test_urls(self, url: str, host: str | None, port: int | None, name: str):
        """A host stays in the name; without one it is a path."""
        options = HflushHdfsFileSystem._get_kwargs_from_urls(url)
        assert (options.get("host"), options.get("port")) == (host, port)
        assert HflushHdfsFileSystem._strip_protocol(url) == name

    @pytest.mark.parametrize("lost", ["hdfs:/nn/x", PurePosixPath("hdfs://nn/x")])
    def test_a_lost_slash(self, lost: object):
        """It would be a path of whichever host the instance has."""
        with pytest.raises(hflush.InvalidPathError, match="slash"):
            HflushHdfsFileSystem._strip_protocol(lost)

    def test_a_user_in_a_url(self):
        options = HflushHdfsFileSystem._get_kwargs_from_urls("hdfs://ann@nn:1/x")
        assert options == {"host": "nn", "port": 1, "user": "ann"}
        fs, name = fsspec.core.url_to_fs("hflush+hdfs://ann@nn:1/x")
        assert fs.filesystem._user == "ann"
        assert fs._place(name).path == "/x"
        with pytest.raises(ValueError, match=r"wrong file system.*of user ann"):
            fs.exists("hdfs://bob@nn:1/x")

    def test_paths_alone(self):
        """Plain ones begin at the root."""
        strip = HflushHdfsFileSystem._strip_protocol
        assert [strip("/a/b/"), strip("a"), strip("/")] == ["/a/b", "/a", "/"]
        assert [strip("/./a//b"), strip("hdfs://nn/a/../b")] == ["/a/b", "hdfs://nn/b"]
        assert strip(["hdfs://nn:1/x", "/y"]) == ["hdfs://nn:1/x", "/y"]

    def test_parents(self):
        parent = HflushHdfsFileSystem._parent
        assert [parent("/a/b"), parent("/a"), parent("/")] == ["/a", "/", "/"]
        assert parent("hdfs://nn/a/b") == "hdfs://nn/a"
        assert parent("hdfs://nn/a") == parent("hdfs://nn/") == "hdfs://nn"

    def test_the_file_system(self):
        """One for each host; a URL of it leads back to it."""
        fs, name = fsspec.core.url_to_fs("hflush+hdfs://nn:9000/a")
        assert isinstance(fs, HflushHdfsFileSystem)
        assert fs.filesystem.uri == "hdfs://nn:9000/"
        assert fs is fsspec.filesystem("hflush+hdfs", host="nn", port=9000)
        assert fs is not fsspec.filesystem("hflush+hdfs", host="nn", port=9001)
        assert fs.unstrip_protocol(name) == fs.unstrip_protocol("/a") == "hflush+hdfs://nn:9000/a"
        assert pickle.loads(pickle.dumps(fs)) is fs

    def test_the_default_file_system(self):
        conf = {"fs.defaultFS": "hdfs://nn:9000"}
        fs = fsspec.filesystem("hflush+hdfs", conf=conf)
        assert fs.fsid == "hflush+hdfs://nn:9000/"
        assert fsspec.filesystem("hflush+hdfs", host="default", port=0, conf=conf).fsid == fs.fsid
        with pytest.raises(ValueError, match="must name a host"):
            fsspec.filesystem("hflush+hdfs")

    def test_a_host_that_is_a_url(self):
        """It is that of the URL, with its port; a path, or another scheme, is refused."""
        for host, port in (
            ("hdfs://nn", 9000),
            ("hdfs://nn:9000/", None),
            ("HDFS://nn:9000", 9000),
        ):
            fs = fsspec.filesystem("hflush+hdfs", host=host, port=port)
            assert fs.filesystem.uri == "hdfs://nn:9000/"
        for host in ("hdfs://nn/data", "s3://nn", "nn/data", "hdfs:///"):
            with pytest.raises(ValueError, match=f"host must be .* not '{host}'"):
                fsspec.filesystem("hflush+hdfs", host=host)
        with pytest.raises(ValueError, match="host:port"):
            fsspec.filesystem("hflush+hdfs", host="hdfs://nn:9000", port=9001)

    @pytest.mark.parametrize(
        "operation",
        [
            lambda fs, url: fs.rm(url, recursive=True),
            lambda fs, url: fs.rm(["/mine", url]),
            lambda fs, url: fs.rm_file(url),
            lambda fs, url: fs.rmdir(url),
            lambda fs, url: fs.mv("/mine", url),
            lambda fs, url: fs.mv(url, "/mine"),
            lambda fs, url: fs.mv(["/mine", url], "/yours"),
            lambda fs, url: fs.cp_file("/mine", url),
            lambda fs, url: fs.copy([url], ["/mine"]),
            lambda fs, url: fs.info(url),
            lambda fs, url: fs.exists(url),
            lambda fs, url: fs.isdir(url),
            lambda fs, url: fs.isfile(url),
            lambda fs, url: fs.ls(url),
            lambda fs, url: fs.find(url),
            lambda fs, url: fs.glob(url + "*"),
            lambda fs, url: fs.cat([url, "/mine"]),
            lambda fs, url: fs.expand_path(url, recursive=True),
            lambda fs, url: fs.pipe({url: b"data"}),
            lambda fs, url: fs.open(url, "wb"),
            lambda fs, url: fs.open(url, "ab"),
            lambda fs, url: fs.open(url),
            lambda fs, url: fs.touch(url),
            lambda fs, url: fs.mkdir(url),
            lambda fs, url: fs.makedirs(url, exist_ok=True),
            lambda fs, url: fs.read_block(url, 0, 10),
            lambda fs, url: fs.put_file(__file__, url),
            lambda fs, url: fs.get_file(url, "/nowhere/to/go"),
            lambda fs, url: fs.modified(url),
        ],
    )
    @pytest.mark.parametrize(
        "other", ["hdfs://other:9000/x", "hflush+hdfs://nn/x", "s3://nn:9000/x"]
    )
    def test_another_cluster_is_refused(self, operation, other: str):
        """No server listens at nn: a request would fail."""
        fs = fsspec.filesystem("hflush+hdfs", host="nn", port=9000)
        with pytest.raises(ValueError, match="wrong file system"):
            operation(fs, other)

    def test_lists_of_two_clusters_are_refused(self):
        """fsspec makes the file system of the first: the second is not taken for its."""
        files = fsspec.open_files(
            ["hflush+hdfs://nn:9000/a", "hflush+hdfs://other:9000/b"], "rb", auto_mkdir=False
        )
        assert files[0].fs is files[1].fs
        with pytest.raises(ValueError, match=r"wrong file system.*other:9000"):
            files[1].open()

    def test_users(self):
        fs = fsspec.filesystem("hflush+hdfs", host="nn", user="ann", replication=2)
        assert fs.filesystem._user == "ann"
        assert fs.filesystem.home_directory == "/user/ann"
        assert fs.filesystem.conf["dfs.replication"] == "2"
        assert fs.filesystem is not fsspec.filesystem("hflush+hdfs", host="nn").filesystem
        with pytest.raises(io.UnsupportedOperation, match="kerb_ticket"):
            fsspec.filesystem("hflush+hdfs", host="nn", kerb_ticket="/tmp/krb5cc")
        with pytest.raises(ValueError, match="user='bob' contradicts that of the host, 'ann'"):
            fsspec.filesystem("hflush+hdfs", host="ann@nn", user="bob")

    @pytest.mark.parametrize("word", ["conf", "extra_conf"])
    def test_a_user_in_a_configuration(self, word: str):
        """Is the one that a URL may name, and no other is."""
        fs = fsspec.filesystem("hflush+hdfs", host="nn", port=1, **{word: {USER: "ann"}})
        assert fs.filesystem._user == "ann"
        assert fs._place("hdfs://ann@nn:1/x").path == "/x"
        with pytest.raises(ValueError, match=r"wrong file system.*of user ann"):
            fs.exists(f"hdfs://{user_name()}@nn:1/x")

    def test_a_cached_instance_is_one_users(self, monkeypatch):
        """What fsspec keeps is not handed to who came later."""
        monkeypatch.setenv("HADOOP_USER_NAME", "ann")
        first = fsspec.filesystem("hflush+hdfs", host="nn")
        monkeypatch.setenv("HADOOP_USER_NAME", "bob")
        second = fsspec.filesystem("hflush+hdfs", host="nn")
        assert [first.filesystem._user, second.filesystem._user] == ["ann", "bob"]

    def test_a_cached_instance_is_for_one_environment(self, tmp_path, monkeypatch):
        """As what FileSystem.get returns."""
        found = []
        for host in ("one", "two"):
            (tmp_path / host).mkdir()
            setting = f"<name>fs.defaultFS</name><value>hdfs://{host}:1</value>"
            site = f"<configuration><property>{setting}</property></configuration>"
            (tmp_path / host / "core-site.xml").write_text(site)
            monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / host))
            found.append(fsspec.filesystem("hflush+hdfs").filesystem.uri)
        assert found == ["hdfs://one:1/", "hdfs://two:1/"]
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        before = fsspec.filesystem("hflush+s3")
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:2")
        assert fsspec.filesystem("hflush+s3") is not before


class TestS3:
    """hflush+s3: names are bucket/key, before anything is connected."""

    @pytest.mark.parametrize(
        ("url", "name"),
        [
            ("hflush+s3://b/a/c", "b/a/c"),
            ("hflush+s3a://b/a/", "b/a"),
            ("hflush+s3://b/a", "b/a"),
            ("s3://b.c", "b.c"),
            ("s3a://b/", "b"),
            ("s3://", ""),
            ("b/a", "b/a"),
            ("/b/a", "b/a"),
            ("", ""),
        ],
    )
    def test_names(self, url: str, name: str):
        assert HflushS3FileSystem._get_kwargs_from_urls(url) == {}
        assert HflushS3FileSystem._strip_protocol(url) == name

    def test_names_of_nothing(self):
        with pytest.raises(ValueError, match="must name a bucket"):
            HflushS3FileSystem._strip_protocol("s3:///a")
        with pytest.raises(ValueError, match="wrong file system"):
            HflushS3FileSystem._strip_protocol("hdfs://b/a")

    def test_parents(self):
        parent = HflushS3FileSystem._parent
        assert [parent("b/a/c"), parent("s3://b/a"), parent("b"), parent("")] == [
            "b/a",
            "b",
            "",
            "",
        ]

    def test_one_instance_for_all_buckets(self):
        fs, name = fsspec.core.url_to_fs("hflush+s3://b/a")
        assert name == "b/a"
        assert fs is fsspec.core.url_to_fs("hflush+s3a://c/d")[0] or fs.fsid == "hflush+s3:"
        assert fs.filesystem_of("b/a").uri == "s3://b/"
        assert fs.filesystem_of("s3://c/a").uri == "s3://c/"
        assert fs.unstrip_protocol(name) == "hflush+s3://b/a"

    def test_above_the_buckets(self):
        """There is a root, which cannot be listed."""
        fs = fsspec.filesystem("hflush+s3")
        assert fs.info("s3://")["type"] == "directory"
        assert fs.exists("")
        assert fs.lexists("")
        for operation in (fs.ls, fs.mkdir, fs.rm):
            with pytest.raises(io.UnsupportedOperation, match="name one, as in bucket/key"):
                operation("")

    def test_files(self):
        """Writing, reading, listing and copying, over a server."""
        from support.scripted_s3 import ScriptedS3

        with ScriptedS3() as server:
            conf = {**server.conf, "fs.s3a.create.performance": "true"}
            fs = fsspec.filesystem("hflush+s3", conf=conf)
            fs.pipe("bucket/d/a", b"data")
            assert fs.cat("s3://bucket/d/a") == b"data"
            assert fs.ls("bucket/d", detail=False) == ["bucket/d/a"]
            assert fs.info("bucket/d/a")["ETag"] == server.objects["d/a"].etag.strip('"')
            with fsspec.open("hflush+s3://bucket/d/b", "wt", conf=conf) as out:
                out.write("text")
            assert server.objects["d/b"].data == b"text"
            server.put("d/x", b"x")
            assert sorted(fs.find("bucket/d")) == ["bucket/d/a", "bucket/d/b", "bucket/d/x"]
            fs.rm("bucket/d", recursive=True)
            assert not fs.exists("bucket/d/a")

    @pytest.mark.parametrize(
        ("name", "options", "kind"),
        [
            ("x.json", {}, "application/json"),
            ("x.csv.gz", {}, "application/octet-stream"),
            ("x", {}, "application/octet-stream"),
            ("x.json", {"content_type": "text/css"}, "text/css"),
            ("x.json", {"fs.s3a.create.header.Content-Type": "text/css"}, "text/css"),
        ],
    )
    def test_content_types(self, tmp_path, name: str, options: dict[str, str], kind: str):
        """What is put has that of its name, as with s3fs."""
        from support.scripted_s3 import ScriptedS3

        (tmp_path / name).write_bytes(b"data")
        with ScriptedS3() as server:
            fs = fsspec.filesystem("hflush+s3", conf=server.conf)
            fs.put_file(tmp_path / name, "bucket/y", **options)
            assert server.objects["y"].headers["content-type"] == kind

    def test_a_copy_to_a_missing_bucket(self):
        """It fails, also one of a tree."""
        from support.scripted_s3 import ScriptedS3

        with ScriptedS3() as server:
            server.put("d/x", b"data")
            fs = fsspec.filesystem("hflush+s3", conf=server.conf)
            for names in (("bucket/d", "other/d"), (["bucket/d/x"], ["other/x"])):
                with pytest.raises(FileNotFoundError, match=r"NoSuchBucket.*s3://other"):
                    fs.cp(*names, recursive=True)

    def test_an_object_and_others_below_its_key(self):
        """Both go, or nothing is done; without recursive the object alone is meant."""
        from support.scripted_s3 import ScriptedS3

        with ScriptedS3() as server:
            for key in ("a", "a/x", "a/y/z", "ab"):
                server.put(key, b"data")
            fs = fsspec.filesystem("hflush+s3", conf=server.conf)
            found = hflush.FileSystem.get("s3://bucket/", server.conf).glob_status("/a/[xy]")
            assert [status.path for status in found] == ["s3://bucket/a/x", "s3://bucket/a/y"]
            with pytest.raises(OSError, match="others below its key") as refusal:
                fs.mv("bucket/a", "bucket/b", recursive=True)
            assert refusal.value.errno == errno.ENOTEMPTY
            fs.mv("bucket/a", "bucket/b")
            assert set(server.objects) == {"a/x", "a/y/z", "ab", "b"}
            server.put("a", b"data")
            fs.rm("bucket/a", recursive=True)
            assert set(server.objects) == {"ab", "b"}

    def test_the_root_is_no_object(self):
        from support.scripted_s3 import ScriptedS3

        with ScriptedS3() as server:
            server.put("a", b"data")
            fs = fsspec.filesystem("hflush+s3", conf=server.conf)
            with pytest.raises(OSError, match="the root directory stays"):
                fs.mv("bucket", "other/x", recursive=True)

    def test_who_may_only_write(self, tmp_path):
        """What may not be looked at is free, and no directory unless its name says so."""
        from support.s3_front import answer
        from support.scripted_s3 import ScriptedS3

        (tmp_path / "x").write_bytes(b"data")
        with ScriptedS3() as server:
            for operation in ("HeadObject", "ListObjectsV2"):
                server.fail(operation, answer(403, "AccessDenied"), times=None)
            fs = fsspec.filesystem("hflush+s3", conf=server.conf)
            fs.mkdir("bucket/a")
            fs.makedirs("bucket/b", exist_ok=False)
            fs.put(str(tmp_path / "x"), "bucket/c")
            fs.put(str(tmp_path / "x"), "bucket/d/")
            assert [*server.objects] == ["a/", "b/", "c", "d/x"]

    def test_buckets_do_not_add_up(self):
        fs = HflushS3FileSystem(key="a", secret="b", endpoint_url="http://127.0.0.1:1")
        kept = fs.filesystem_of("b99/x")
        for number in range(100):
            fs.filesystem_of(f"b{number}/x")
        assert (len(fs._stores), fs.filesystem_of("b99/y") is kept) == (64, True)

    def test_a_file_takes_a_files_place(self):
        from support.scripted_s3 import ScriptedS3

        with ScriptedS3() as server:
            for key in ("new", "old", "d/old"):
                server.put(key, key.encode())
            fs = fsspec.filesystem("hflush+s3", conf=server.conf)
            with pytest.raises(FileExistsError):
                fs.mv("bucket/d", "bucket/old")
            fs.mv("bucket/new", "bucket/old")
            fs.mv("bucket/old", "bucket/d")
            assert [(key, there.data) for key, there in server.objects.items()] == [
                ("d/old", b"new")
            ]

    @pytest.mark.parametrize("key", ["a//b", "/a", "a/./b", "a/../b", "..", "a//", "a/b:c\nd"])
    def test_keys_as_s3fs_has_them(self, key: str):
        """Whatever path they look like: that key and no other, for every operation."""
        from support.scripted_s3 import ScriptedS3

        name = f"bucket/{key}".rstrip("/")  # as s3fs does
        key = key.rstrip("/")
        with ScriptedS3() as server:
            fs = fsspec.filesystem("hflush+s3", conf=server.conf)
            with fsspec.open(f"hflush+s3://{name}", "wb", conf=server.conf) as out:
                out.write(b"data")
            assert server.objects[key].data == fs.cat(name) == b"data"
            assert set(server.objects) <= {key, "a/"}
            assert (fs.info(name)["name"], fs.isfile(name)) == (name, True)
            assert fs.ls(name, detail=False) == [name]
            fs.cp_file(name, "bucket/c//copy")
            fs.mv("bucket/c//copy", "bucket/moved")
            with fs.transaction:
                fs.pipe(f"{name}2", b"two")
            assert server.objects[f"{key}2"].data == b"two"
            fs.rm([name, f"{name}2"])
            assert set(server.objects) - {"a/", "c/"} == {"moved"}
            assert server.objects["moved"].data == b"data"


def keys(scheme: str, conf: dict[str, str] | None = None, **options: object) -> dict[str, str]:
    """Return what storage options set in a configuration that has only `conf`."""
    configuration = hflush.Configuration(load_defaults=False)
    configuration.update(conf or {})
    return dict(CLASSES[scheme]._configured(configuration, options).raw_items())


class TestOptions:
    """Storage options as Hadoop's keys."""

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, {}),
            ({"key": None, "anon": False}, {}),
            (
                {"key": "k", "secret": "s"},
                {
                    "fs.s3a.aws.credentials.provider": "SimpleAWSCredentialsProvider",
                    "fs.s3a.access.key": "k",
                    "fs.s3a.secret.key": "s",
                    "fs.s3a.session.token": "",
                },
            ),
            (
                {
                    "client_kwargs": {
                        "aws_access_key_id": "k",
                        "aws_secret_access_key": "s",
                        "aws_session_token": "t",
                    },
                    "username": "before",
                },
                {
                    "fs.s3a.aws.credentials.provider": "TemporaryAWSCredentialsProvider",
                    "fs.s3a.access.key": "before",
                    "fs.s3a.secret.key": "s",
                    "fs.s3a.session.token": "t",
                },
            ),
            (
                {"anon": True},
                {"fs.s3a.aws.credentials.provider": "AnonymousAWSCredentialsProvider"},
            ),
            (
                {"profile": "work"},
                {
                    "fs.s3a.aws.credentials.provider": "ProfileAWSCredentialsProvider",
                    "fs.s3a.auth.profile.name": "work",
                },
            ),
            (
                {"endpoint_url": "http://a", "client_kwargs": {"endpoint_url": "http://b"}},
                {"fs.s3a.endpoint": "http://a"},
            ),
            (
                {
                    "use_ssl": True,
                    "client_kwargs": {
                        "endpoint_url": "http://b",
                        "region_name": "r",
                        "use_ssl": False,
                        "verify": False,
                    },
                },
                {
                    "fs.s3a.endpoint": "http://b",
                    "fs.s3a.endpoint.region": "r",
                    "fs.s3a.connection.ssl.enabled": "false",
                    "hflush.s3.ssl.verify": "false",
                },
            ),
            (
                {"client_kwargs": {"verify": "/ca.pem"}},
                {"hflush.s3.ssl.verify": "true", "hflush.s3.ssl.ca.file": "/ca.pem"},
            ),
            (
                {
                    "config_kwargs": {
                        "s3": {"addressing_style": "path"},
                        "connect_timeout": 5,
                        "read_timeout": 2.5,
                        "max_pool_connections": 7,
                        "retries": {"max_attempts": 3},
                        "signature_version": "s3v4",
                    }
                },
                {
                    "fs.s3a.path.style.access": "true",
                    "fs.s3a.connection.establish.timeout": "5000ms",
                    "fs.s3a.connection.timeout": "2500ms",
                    "fs.s3a.connection.maximum": "7",
                    "fs.s3a.retry.limit": "3",
                },
            ),
            (
                {
                    "config_kwargs": {
                        "request_checksum_calculation": "when_required",
                        "response_checksum_validation": "when_required",
                        "retries": {"total_max_attempts": 3, "mode": "adaptive"},
                        "tcp_keepalive": True,
                        "user_agent_extra": "mine",
                    }
                },
                {
                    "fs.s3a.create.checksum.algorithm": "NONE",
                    "fs.s3a.retry.limit": "2",
                    "fs.s3a.user.agent.prefix": "mine",
                },
            ),
            (
                {
                    "s3_additional_kwargs": {
                        "ServerSideEncryption": "aws:kms",
                        "SSEKMSKeyId": "id",
                        "ACL": "private",
                        "StorageClass": "STANDARD_IA",
                    }
                },
                {
                    "fs.s3a.encryption.algorithm": "SSE-KMS",
                    "fs.s3a.encryption.key": "id",
                    "fs.s3a.acl.default": "private",
                    "fs.s3a.create.storage.class": "STANDARD_IA",
                },
            ),
            (
                {"s3_additional_kwargs": {"ServerSideEncryption": "AES256"}},
                {"fs.s3a.encryption.algorithm": "AES256", "fs.s3a.encryption.key": ""},
            ),
            (
                {"s3_additional_kwargs": {"ServerSideEncryption": "aws:kms"}},
                {"fs.s3a.encryption.algorithm": "SSE-KMS", "fs.s3a.encryption.key": ""},
            ),
            (
                {"requester_pays": True, "fixed_upload_size": True},
                {
                    "fs.s3a.requester.pays.enabled": "true",
                    "hflush.s3.multipart.uniform": "true",
                },
            ),
            (
                {"default_fill_cache": False, "default_block_size": 5, "use_listings_cache": True},
                {},
            ),
        ],
    )
    def test_words_of_s3(self, options: dict[str, object], expected: dict[str, str]):
        assert keys("s3", **options) == expected
        HflushS3FileSystem(**options)  # which takes them as they are

    def test_words_come_before_keys(self):
        """Also before those of one bucket: what is named is where the data go."""
        conf = {
            "fs.s3a.endpoint": "https://elsewhere",
            "fs.s3a.bucket.b.c.endpoint": "https://elsewhere",
            "fs.s3a.bucket.b.c.assumed.role.sts.endpoint": "https://sts",
            "fs.s3a.bucket.b.secret.key": "other",
            "fs.s3a.bucket.b.multipart.size": "5M",
            "fs.s3a.bucket.b.server-side-encryption.key": "old",
            "hflush.s3.bucket.b.ssl.verify": "false",
            "fs.s3a.session.token": "of another key",
        }
        found = keys(
            "s3",
            conf,
            key="k",
            secret="s",
            endpoint_url="http://here",
            client_kwargs={"verify": True},
            s3_additional_kwargs={"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "new"},
        )
        assert found == {
            "fs.s3a.endpoint": "http://here",
            "fs.s3a.bucket.b.c.assumed.role.sts.endpoint": "https://sts",
            "fs.s3a.encryption.algorithm": "SSE-KMS",
            "fs.s3a.bucket.b.multipart.size": "5M",
            "fs.s3a.aws.credentials.provider": "SimpleAWSCredentialsProvider",
            "fs.s3a.access.key": "k",
            "fs.s3a.secret.key": "s",
            "fs.s3a.session.token": "",
            "fs.s3a.encryption.key": "new",
            "hflush.s3.ssl.verify": "true",
        }

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            (
                {"endpoint": "http://a"},
                TypeError,
                r"'endpoint' \(did you mean 'endpoint_url'\?\).*anon",
            ),
            ({"bucket": "b"}, TypeError, "unknown storage option 'bucket'.*endpoint_url"),
            ({"client_kwargs": {"endpont_url": "x"}}, TypeError, "client_kwargs 'endpont_url'"),
            ({"config_kwargs": {"s3": {"use_arn_region": True}}}, TypeError, "use_arn_region"),
            ({"s3_additional_kwargs": {"Tagging": "a=b"}}, TypeError, "Tagging"),
            ({"s3_additional_kwargs": {"SSEKMSKeyId": "k"}}, ValueError, "without Server"),
            (
                {"s3_additional_kwargs": {"ServerSideEncryption": ""}},
                ValueError,
                "must be one of AES256",
            ),
            (
                {"s3_additional_kwargs": {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": ""}},
                ValueError,
                "SSEKMSKeyId is empty",
            ),
            ({"anon": "yes"}, TypeError, "anon must be bool"),
            ({"key": "k"}, ValueError, "key without secret"),
            ({"token": "t"}, ValueError, "token without key"),
            ({"key": "", "secret": ""}, ValueError, "key is empty"),
            ({"profile": ""}, ValueError, "profile is empty"),
            ({"client_kwargs": {"aws_secret_access_key": ""}, "key": "k"}, ValueError, "secret is"),
            ({"anon": True, "key": "k", "secret": "s"}, ValueError, "anon and key contradict"),
            ({"profile": "p", "anon": True}, ValueError, "anon and profile contradict"),
            ({"key": "k", "username": "k"}, ValueError, "either 'key' or 'username'"),
            ({"config_kwargs": {"signature_version": "s3"}}, ValueError, "signature_version"),
            ({"config_kwargs": {"s3": {"addressing_style": "x"}}}, ValueError, "addressing_style"),
            (
                {"config_kwargs": {"request_checksum_calculation": "never"}},
                ValueError,
                "must be when_supported or when_required",
            ),
            (
                {"s3_additional_kwargs": {"ServerSideEncryption": "SSE-C"}},
                ValueError,
                "must be one of AES256",
            ),
            ({"version_aware": True}, io.UnsupportedOperation, "version_aware"),
        ],
    )
    def test_what_is_not_known_is_refused(self, options, error, message):
        with pytest.raises(error, match=message):
            fsspec.filesystem("hflush+s3", **options)

    @pytest.mark.parametrize("protocol", ["hflush+file", "hflush+hdfs"])
    def test_words_of_another_store_are_refused(self, protocol: str):
        with pytest.raises(TypeError, match="unknown storage option 'endpoint_url'"):
            fsspec.filesystem(protocol, endpoint_url="http://a")

    def test_configurations_are_told_apart(self):
        """By what they say: fsspec would compare how they look."""
        made = []
        for host in ("one", "two"):
            conf = hflush.Configuration()
            conf["fs.defaultFS"] = f"hdfs://{host}:1"
            made.append(fsspec.filesystem("hflush+hdfs", conf=conf))
        assert [fs.filesystem.uri for fs in made] == ["hdfs://one:1/", "hdfs://two:1/"]


def test_every_option_is_on_the_page():
    """docs/fsspec.md names what is known, and nothing that is not."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "fsspec.md").read_text()
    table = page.partition("## Storage options")[2].partition("## Files")[0]
    known = {word for served in CLASSES.values() for word in served._words} | GENERIC | {"conf"}
    missing = {word for word in known - GENERIC if f"`{word}`" not in table}
    assert missing == {"version_aware"}  # which is refused
    rows = [line.split("|")[2] for line in table.splitlines() if line.startswith("|")][2:]
    assert {word for row in rows for word in re.findall("`([^`]+)`", row)} <= known


CLIENT = {"aws_access_key_id": "AK", "aws_secret_access_key": "hidden"}


class TestSecrets:
    """Neither a pickle nor JSON has one."""

    @pytest.mark.parametrize(
        "options",
        [
            {"key": "AK", "secret": "hidden", "token": "hidden"},
            {"username": "AK", "password": "hidden"},
            {
                "client_kwargs": {
                    "aws_access_key_id": "AK",
                    "aws_secret_access_key": "hidden",
                    "region_name": "r",
                }
            },
            {"client_kwargs": UserDict({**CLIENT, "region_name": "r"})},
            {"client_kwargs": MappingProxyType(CLIENT)},
            {"client_kwargs": tuple(CLIENT.items())},
            {"conf": {"fs.s3a.secret.key": "hidden", "fs.s3a.bucket.b.secret.key": "hidden"}},
            {"conf": UserDict({"fs.s3a.secret.key": "hidden"})},
        ],
    )
    @pytest.mark.parametrize("exact", [False, True])
    def test_s3(self, options: dict[str, object], exact: bool):
        if exact and "conf" in options:
            conf = hflush.Configuration()
            conf.update(options["conf"])
            options = {"conf": conf}
        fs = HflushS3FileSystem(endpoint_url="http://here", **options)
        sent = pickle.dumps(fs)
        assert b"hidden" not in sent
        assert b"hidden" not in pickle.dumps(fsspec.core.OpenFile(fs, "b/x"))
        assert "hidden" not in fs.to_json()
        assert "hidden" not in repr(fs.to_dict())
        for again in (pickle.loads(sent), HflushS3FileSystem.from_json(fs.to_json())):
            conf = again.filesystem_of("b").conf
            assert conf["fs.s3a.endpoint"] == "http://here"
            assert "fs.s3a.secret.key" not in conf

    def test_a_key_of_kms_travels(self):
        """What is written elsewhere is written under the same key."""
        conf = {"fs.s3a.encryption.algorithm": "SSE-KMS", "fs.s3a.encryption.key": "arn:k"}
        fs = HflushS3FileSystem(conf=conf, key="AK", secret="hidden")
        for again in (pickle.loads(pickle.dumps(fs)), HflushS3FileSystem.from_json(fs.to_json())):
            assert again.filesystem_of("b").conf["fs.s3a.encryption.key"] == "arn:k"

    def test_more_keys_of_hdfs(self):
        """Whatever gives them: a mapping, pairs."""
        extra = (("my.password", "hidden"), ("dfs.replication", "2"))
        fs = HflushHdfsFileSystem(host="nn", extra_conf=extra)
        assert b"hidden" not in pickle.dumps(fs)
        assert pickle.loads(pickle.dumps(fs)).filesystem.conf["dfs.replication"] == "2"

    @pytest.mark.parametrize("protocol", ["hflush+file", "hflush+hdfs"])
    def test_other_stores(self, protocol: str):
        """Their configuration may have keys of S3, too."""
        options = {"host": "nn"} if "hdfs" in protocol else {}
        fs = fsspec.filesystem(protocol, conf={"fs.s3a.secret.key": "hidden"}, **options)
        assert b"hidden" not in pickle.dumps(fs)
        assert "hidden" not in fs.to_json()

    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
    def test_a_copy_keeps_them(self, copied):
        """Within the process it is the same file system, also within what holds it."""
        fs = HflushS3FileSystem(key="AK", secret="hidden")
        assert copied(fs) is fs
        assert copied(fsspec.core.OpenFile(fs, "b/x")).fs is fs
        store = fs.filesystem_of("b")
        assert copied(store) is store
        assert copy.deepcopy({"store": store})["store"].conf["fs.s3a.secret.key"] == "hidden"

    def test_unless_it_is_asked_for(self):
        fs = HflushS3FileSystem(key="AK", secret="sent", conf={"hflush.s3.pickle.secrets": "true"})
        again = pickle.loads(pickle.dumps(fs))
        assert again.filesystem_of("b").conf["fs.s3a.secret.key"] == "sent"
