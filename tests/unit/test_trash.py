"""The trash, over local files: where things go, what expires, what is refused."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import hflush
import pytest
from hflush import trash as module
from hflush.trash import Trash

DAY_MIN = 24 * 60


@pytest.fixture
def fs() -> hflush.FileSystem:
    return hflush.FileSystem.get("file:///")


@pytest.fixture
def trash(fs: hflush.FileSystem, tmp_path: Path) -> Trash:
    return Trash(fs, f"{tmp_path}/home/.Trash", DAY_MIN)


def make(path: Path, content: bytes = b"data") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return str(path)


def current(trash: Trash, path: str) -> Path:
    return Path(f"{trash.root}/Current{path}")


def test_the_way_is_kept(trash: Trash, tmp_path: Path):
    """A file goes below Current, under its whole path; the directories there are the user's own."""
    path = make(tmp_path / "a" / "b")
    assert trash.move(path) is True
    assert not os.path.exists(path)
    assert current(trash, path).read_bytes() == b"data"
    assert current(trash, path).parent.stat().st_mode & 0o777 == 0o700


def test_a_directory_goes_with_everything(trash: Trash, tmp_path: Path):
    make(tmp_path / "tree" / "deep" / "file")
    assert trash.move(tmp_path / "tree")
    assert current(trash, f"{tmp_path}/tree/deep/file").exists()


def test_the_same_name_again(trash: Trash, tmp_path: Path):
    """What is there already stays; the later one has the time appended."""
    for content in (b"first", b"second", b"third"):
        assert trash.move(make(tmp_path / "file", content))
    found = sorted(current(trash, str(tmp_path)).iterdir())
    assert found[0].read_bytes() == b"first"
    assert {entry.read_bytes() for entry in found} == {b"first", b"second", b"third"}
    assert all(entry.name.removeprefix("file").isdecimal() for entry in found[1:])


def test_another_volume(trash: Trash, tmp_path: Path, monkeypatch):
    """What is there is copied, as by Hadoop; but not what a link leads to."""

    def rename(*_: object) -> None:
        raise OSError(errno.EXDEV, "another volume")

    monkeypatch.setattr(type(trash._filesystem), "_rename_exact", rename)
    for content in (b"first", b"second"):
        path = make(tmp_path / "d" / "file", content)
        assert trash.move(tmp_path / "d")
        assert not os.path.exists(path)
    assert current(trash, f"{tmp_path}/d/file").read_bytes() == b"first"
    assert len(list(current(trash, str(tmp_path)).glob("d*/file"))) == 2
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(OSError, match="another volume"):
        trash.move(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()


def test_a_file_where_a_directory_is_needed(trash: Trash, tmp_path: Path):
    """The directory gets another name, with the time appended; the file in its way stays."""
    assert trash.move(make(tmp_path / "name", b"file"))
    assert trash.move(make(tmp_path / "name" / "below", b"below"))
    (other,) = (entry for entry in current(trash, str(tmp_path)).iterdir() if entry.is_dir())
    assert (other / "below").read_bytes() == b"below"
    assert current(trash, f"{tmp_path}/name").read_bytes() == b"file"


def test_a_link_where_a_directory_is_needed(trash: Trash, tmp_path: Path):
    """What goes through it would be in what it leads to, for good."""
    make(tmp_path / "v1" / "live", b"live")
    link, live = tmp_path / "link", tmp_path / "v1"
    link.symlink_to(live)
    assert trash.move(link)
    assert trash.move(make(link / "deep" / "deleted", b"deleted"))
    assert [entry.name for entry in live.iterdir()] == ["live"]
    (other,) = (e for e in current(trash, str(tmp_path)).iterdir() if not e.is_symlink())
    assert (other / "deep" / "deleted").read_bytes() == b"deleted"


def test_an_interval_of_0_disables(fs: hflush.FileSystem, tmp_path: Path):
    path = make(tmp_path / "file")
    disabled = Trash(fs, f"{tmp_path}/.Trash", 0)
    assert not disabled.is_enabled
    assert disabled.move(path) is False
    assert os.path.exists(path)
    assert not os.path.exists(disabled.root)


def test_what_is_refused(trash: Trash, tmp_path: Path):
    """Nothing there; what is in the trash already; a directory that holds the trash."""
    with pytest.raises(FileNotFoundError):
        trash.move(tmp_path / "missing")
    trash.move(make(tmp_path / "file"))
    assert trash.move(current(trash, f"{tmp_path}/file")) is False
    for holder in (trash.root.rpartition("/")[0], str(tmp_path)):
        with pytest.raises(OSError, match="below"):
            trash.move(holder)
    assert current(trash, f"{tmp_path}/file").exists()


def test_checkpoints(trash: Trash, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Current is put aside under its time; two of one second get numbers; nothing is nothing."""
    assert trash.checkpoint() is None
    monkeypatch.setattr(module.time, "strftime", lambda _: "260102030405")
    for number in ("", "-1", "-2"):
        path = make(tmp_path / "file")
        trash.move(path)
        assert trash.checkpoint() == f"{trash.root}/260102030405{number}"
    assert trash.checkpoint() is None


def test_only_what_has_expired_is_removed(
    trash: Trash, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """Checkpoints older than the interval go; younger ones, Current and strangers stay."""
    assert trash.expunge() == 0
    now = time.time()
    stamps = {
        age: time.strftime("%y%m%d%H%M%S", time.localtime(now - age * 3600)) for age in (1, 23, 25)
    }
    older = f"{stamps[25]}-1", stamps[25][:10]  # the second as older versions of Hadoop name it
    for stamp in (*stamps.values(), *older, "Current", "stranger", "1", "26010203040x"):
        make(Path(trash.root) / stamp / "file")
    assert trash.expunge() == 3
    left = {stamps[1], stamps[23], "Current", "stranger", "1", "26010203040x"}
    assert set(os.listdir(trash.root)) == left
    assert caplog.text.count("not a checkpoint") == 3
    assert trash.expunge(immediately=True) == 2
    assert set(os.listdir(trash.root)) == left - {stamps[1], stamps[23]}


@pytest.mark.parametrize("is_a_file", [False, True])
def test_current_vanishes_in_between(
    trash: Trash, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_a_file: bool
):
    """If Current vanishes between the mkdirs and the rename, both are done again.

    Likewise if a file has come in its place.
    """
    path = make(tmp_path / "file")
    make_directory, calls = trash._make, []

    def vanish(directory: str) -> str:
        made = make_directory(directory)
        calls.append(made)
        if len(calls) == 1:
            assert trash.checkpoint()
            if is_a_file:
                make(Path(trash.root, "Current"))
        return made

    monkeypatch.setattr(trash, "_make", vanish)
    assert trash.move(path)
    assert len(calls) == 2
    assert Path(calls[1], "file").exists()
