"""Paths of universal_pathlib: copies, moves and streams lose nothing, and remove what they say."""

from __future__ import annotations

import errno
import io
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hflush
import pytest
from support.scripted_s3 import ScriptedS3
from upath import UPath


@pytest.fixture
def server() -> Iterator[ScriptedS3]:
    with ScriptedS3() as server:
        for key in ("m/a", "m//b"):
            server.put(key, b"data")
        yield server


def test_what_was_not_copied_stays(server: ScriptedS3, tmp_path: Path):
    source = UPath("hflushs3://bucket/m", conf=server.conf)
    target = UPath(f"hflushfile://{tmp_path}/n")
    with pytest.raises(OSError, match=r"m//b \(not copied\)") as stayed:
        source.move(target)
    assert stayed.value.errno == errno.ENOTEMPTY
    assert "m/a" not in server.objects
    assert server.objects["m//b"].data == b"data"
    assert (target / "a").read_bytes() == b"data"


def test_all_of_it(server: ScriptedS3, tmp_path: Path):
    del server.objects["m//b"]
    (tmp_path / "in").mkdir()
    source = UPath("hflushs3://bucket/m", conf=server.conf)
    moved = source.move_into(UPath(f"hflushfile://{tmp_path}/in"))
    assert str(moved) == f"hflushfile://{tmp_path}/in/m"
    assert (tmp_path / "in" / "m" / "a").read_bytes() == b"data"
    assert not server.objects
    with pytest.raises(IsADirectoryError, match="move: the target is a directory"):
        moved.move(UPath(f"hflushfile://{tmp_path}"))


def test_within_a_store(tmp_path: Path):
    """A rename, also onto a file; one that is refused changes nothing."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_bytes(b"data")
    (tmp_path / "b").write_bytes(b"old")
    inode = (tmp_path / "d" / "a").stat().st_ino
    here = UPath(f"hflushfile://{tmp_path}")
    (here / "d" / "a").move(here / "b")
    assert (tmp_path / "b").stat().st_ino == inode
    (here / "d").move(here / "e" / "f")
    assert (here / "e" / "f").is_dir()
    with pytest.raises(OSError, match="is below the directory itself"):
        (here / "e").move(here / "e" / "g")
    assert sorted(name.name for name in tmp_path.rglob("*")) == ["b", "e", "f"]


def test_within_a_bucket(server: ScriptedS3):
    source = UPath("hflushs3://bucket/m", conf=server.conf)
    source.move(source.parent / "n")
    assert set(server.objects) == {"n/a", "n//b"}
    assert server.count("CopyObject") == 2


def test_to_another_library(server: ScriptedS3, tmp_path: Path):
    """A file; of a tree it is not known what was copied."""
    source = UPath("hflushs3://bucket/m", conf=server.conf)
    with pytest.raises(io.UnsupportedOperation, match="a directory of hflush"):
        source.move(tmp_path / "n")
    assert set(server.objects) == {"m/a", "m//b"}
    (source / "a").move(tmp_path / "n")
    assert (tmp_path / "n").read_bytes() == b"data"
    assert set(server.objects) == {"m//b"}


@pytest.mark.parametrize(
    "protocols", ["hflushfile hflushfile", "hflushfile file", "file hflushfile"]
)
@pytest.mark.parametrize(
    ("source", "target"),
    [("a", "a"), ("a", "link"), ("a", "hard"), ("a", "self/a"), ("link", "a"), ("d", "self/d/sub")],
)
def test_a_copy_onto_or_into_itself(tmp_path: Path, protocols: str, source: str, target: str):
    """It would be cut before it is read, or have no end: refused by whatever name."""
    (tmp_path / "d").mkdir()
    for name in ("a", "d/x"):
        (tmp_path / name).write_bytes(b"data")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "hard").hardlink_to(tmp_path / "a")
    (tmp_path / "self").symlink_to(".")
    names = sorted(tmp_path.rglob("*"))
    begin, end = (UPath(f"{protocol}://{tmp_path}") for protocol in protocols.split())
    copies = [lambda: (begin / source).copy(end / target)]
    if target == "self/a":
        copies.append(lambda: (begin / source).copy_into(end / "self"))
    for copy in copies:
        with pytest.raises(OSError, match=r"itself|same path") as refusal:
            copy()
        assert refusal.value.errno == errno.EINVAL
    assert sorted(tmp_path.rglob("*")) == names
    assert (tmp_path / "a").read_bytes() == (tmp_path / "d" / "x").read_bytes() == b"data"


def test_a_copy_for_another_user(monkeypatch: pytest.MonkeyPatch):
    """It is one file of one cluster; names decide, and the store is not asked."""
    here, there = (UPath("hflushhdfs://nn:1/a", user=user) for user in ("ann", "bob"))
    monkeypatch.setattr(type(there.fs), "isdir", lambda *_: False)
    with pytest.raises(OSError, match="onto or into itself"):
        here.copy(there)


@pytest.mark.parametrize(
    ("mode", "options", "asked"),
    [
        ("wb", {"buffering": 0}, {"buffer_size": 0}),
        ("wb", {"buffering": 1 << 20}, {"buffer_size": 1 << 20}),
        ("w", {"buffering": 5, "block_size": 1 << 20}, {"buffer_size": 5, "block_size": 1 << 20}),
        ("w", {"buffering": 1}, {}),
        ("w", {"buffering": -1}, {}),
    ],
)
def test_buffering(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    options: dict[str, int],
    asked: dict[str, int],
):
    """It is no size of blocks, as which fsspec takes it."""
    create = hflush.local.LocalFileSystem.create
    given: list[dict[str, object]] = []

    def noted(fs: hflush.FileSystem, path: str, **options: object) -> object:
        given.append(options)
        return create(fs, path, **options)

    monkeypatch.setattr(hflush.local.LocalFileSystem, "create", noted)
    with UPath(f"hflushfile://{tmp_path}/a").open(mode, **options):
        pass
    assert [{name: one[name] for name in one if name.endswith("_size")} for one in given] == [asked]


def test_bytes_that_cannot_be_written(tmp_path: Path):
    """They are refused before the file is touched."""
    file = tmp_path / "file"
    file.write_bytes(b"old")
    with pytest.raises(BufferError):
        UPath(f"hflushfile://{file}").write_bytes(memoryview(b"data")[::2])
    assert file.read_bytes() == b"old"


def test_buffering_of_text(tmp_path: Path):
    """Each line is handed on with 1; there is no text without a buffer."""
    path = UPath(f"hflushfile://{tmp_path}/a")
    with path.open("w", 1, "utf-8") as out:
        out.write("a line\n")
        assert (tmp_path / "a").read_bytes() == b"a line\n"
    with pytest.raises(ValueError, match="unbuffered text"):
        path.open("w", 0)
    with path.open("r", 1) as text:
        assert text.read() == "a line\n"


def test_a_rename_onto_a_directory(tmp_path: Path):
    """It would go into it, under another name than the one that is returned."""
    path = UPath(f"hflushfile://{tmp_path}/x")
    path.touch()
    path.with_name("d").mkdir()
    for target in (path.with_name("d"), tmp_path / "d", f"{tmp_path}/d"):
        with pytest.raises(IsADirectoryError, match="rename: the target is a directory"):
            path.rename(target)
    assert path.rename(path) == path
    assert path.rename(path.with_name("y")).is_file()


def test_a_rename_of_what_looks_like_a_pattern(tmp_path: Path):
    """A path is a name: what it would match as a pattern stays."""
    path = UPath(f"hflushfile://{tmp_path}/x[1]")
    (tmp_path / "x1").touch()
    with pytest.raises(FileNotFoundError):
        path.rename(path.with_name("y"))
    assert [one.name for one in tmp_path.iterdir()] == ["x1"]
    path.touch()
    assert path.rename(path.with_name("y")).is_file()


def test_what_is_empty(server: ScriptedS3, tmp_path: Path):
    """Files are made empty, and not emptied; an empty directory is removed."""
    for root in (
        UPath("hflushs3://bucket/n", conf=server.conf),
        UPath(f"hflushfile://{tmp_path}/n"),
    ):
        root.mkdir()
        path = root / "x"
        path.touch(exist_ok=False)
        assert path.read_bytes() == b""
        path.write_bytes(b"data")
        path.touch()
        with pytest.raises(FileExistsError):
            path.touch(exist_ok=False)
        assert path.read_bytes() == b"data"
        with pytest.raises(OSError, match="not empty"):
            root.rmdir(recursive=False)
        path.unlink()
        root.rmdir(recursive=False)
        assert not root.exists()


@pytest.mark.parametrize("recursive", [False, True])
def test_rmdir_of_a_link(tmp_path: Path, recursive: bool):
    (tmp_path / "link").symlink_to(".")
    with pytest.raises(NotADirectoryError):
        UPath(f"hflushfile://{tmp_path}/link").rmdir(recursive=recursive)
    assert (tmp_path / "link").is_symlink()


def test_walks_follow_no_links(tmp_path: Path):
    """Two that lead upwards would keep one busy."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").touch()
    for name in ("up", "upwards"):
        (tmp_path / "d" / name).symlink_to("..")
    found = [
        (path.name, dirs, sorted(files))
        for path, dirs, files in UPath(f"hflushfile://{tmp_path}").walk()
    ]
    assert found == [(tmp_path.name, ["d"], []), ("d", [], ["up", "upwards", "x"])]


def test_hosts(monkeypatch):
    """A path of HDFS is absolute, and equals what was sent, unless another user gets it."""
    path = UPath("hflushhdfs://nn:1/a")
    assert path.is_absolute()
    sent = pickle.dumps(path)
    assert pickle.loads(sent) == path
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody else")
    assert pickle.loads(sent).fs.filesystem._user == path.fs.filesystem._user


def test_a_name_that_looks_like_a_pattern(tmp_path: Path):
    """What is below it is found."""
    root = UPath(f"hflushfile://{tmp_path}/d[1]")
    for name in ("x.csv", "s/y.csv", "z"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    assert [path.name for path in root.glob("*.csv")] == ["x.csv"]
    assert [path.name for path in root.glob("s/*")] == ["y.csv"]
    assert sorted(root.rglob("*.csv")) == [root / "s" / "y.csv", root / "x.csv"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig", None])
def test_text_that_is_written_can_be_read(tmp_path: Path, encoding: str | None):
    """It begins with its mark, as by pathlib."""
    path = UPath(f"hflushfile://{tmp_path}/x")
    assert path.write_text("héllo\n", encoding=encoding, newline="\r\n") == 6
    assert path.read_text(encoding=encoding, newline="") == "héllo\r\n"
    (tmp_path / "y").write_text("héllo\r\n", encoding=encoding, newline="")
    assert path.read_bytes() == (tmp_path / "y").read_bytes()
    with pytest.raises(TypeError, match="data must be str"):
        path.write_text(b"bytes")


def test_what_is_below_an_object(server: ScriptedS3, tmp_path: Path):
    """It would be left out: nothing is copied, to whatever library."""
    tree = UPath("hflushs3://bucket/m", conf=server.conf)
    server.put("m/a/below", b"data")
    for target in (UPath(tmp_path / "n"), UPath("hflushs3://bucket/n", conf=server.conf)):
        with pytest.raises(OSError, match="others below its key") as refusal:
            tree.copy(target)
        assert (refusal.value.errno, refusal.value.filename) == (errno.ENOTEMPTY, "s3://bucket/m/a")
        assert not target.exists()
    view = {**server.conf, "fs.viewfs.mounttable.c.link./m": "s3://bucket/m"}
    with pytest.raises(OSError, match="others below its key"):
        UPath("hflushviewfs://c/m", conf=view).copy(tmp_path / "n")
    del server.objects["m/a"]
    tree.copy(tmp_path / "n")
    assert (tmp_path / "n" / "a" / "below").read_bytes() == b"data"


def test_dots_in_keys() -> None:
    """Elements of a path, which `resolve` takes out; without it they are of the key."""
    path = UPath("hflushs3://bucket/m/../n")
    assert (path.path, path.name, path.parent.name) == ("bucket/m/../n", "n", "..")
    assert str(path.resolve()) == "hflushs3://bucket/n"


def test_a_link_that_cannot_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It is a link all the same, and nothing else."""
    (tmp_path / "link").symlink_to("nowhere")
    link = UPath(f"hflushfile://{tmp_path}/link")
    stat = os.stat

    def disconnected(path: Any, **options: Any) -> os.stat_result:
        if str(path) == link.path:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN), path)
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", disconnected)
    with pytest.raises(OSError, match="not connected"):
        link.info.is_dir()
    looks = (link.info.is_dir, link.info.is_file, link.info.exists)
    assert [look(follow_symlinks=False) for look in looks] == [False, False, True]
