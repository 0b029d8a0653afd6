"""Moves by copying: what was copied goes from the source, and nothing else does."""

from __future__ import annotations

import errno
import io
import os
import stat
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import hflush
import pytest
from hflush import transfer
from hflush.local import LocalFileSystem
from hflush.permissions import process_umask
from hflush.s3.copies import S3Copies
from support.s3_front import Answer, Request, answer
from support.scripted_s3 import BUCKET, ScriptedS3

QUICK = {"fs.s3a.retry.interval": "1ms", "fs.s3a.retry.limit": "2"}


@pytest.fixture
def server() -> Iterator[ScriptedS3]:
    with ScriptedS3() as server:
        yield server


@pytest.fixture
def fs(server: ScriptedS3) -> Iterator[hflush.FileSystem]:
    with hflush.FileSystem.new_instance(f"s3://{BUCKET}/", {**server.conf, **QUICK}) as made:
        yield made


@pytest.fixture
def local() -> hflush.FileSystem:
    return hflush.FileSystem.get("file:///")


def tree(path: Path, *names: str) -> Path:
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(b"data of " + os.fsencode(name))
    return path


def files(path: Path) -> list[str]:
    return sorted(str(found.relative_to(path)) for found in path.rglob("*") if found.is_file())


def notes(failure: BaseException | None) -> list[str]:
    return list(getattr(failure, "__notes__", ()))


def refused(*_: object, **__: object) -> Any:
    raise PermissionError(errno.EPERM, "not here")


def refusing(namespace: Any, *operations: str) -> SimpleNamespace:
    """Return the name space without these operations."""
    every = {name: getattr(namespace, name) for name in dir(namespace) if name[0] != "_"}
    return SimpleNamespace(**every | dict.fromkeys(operations, refused))


def after_copying(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Let something happen when all was copied, and nothing removed."""

    class Later(transfer._Removal):
        def __init__(self, source: Any) -> None:
            happens()
            super().__init__(source)

    monkeypatch.setattr(transfer, "_Removal", Later)


class TestOutOfABucket:
    def test_keys_that_no_listing_shows(
        self, server: ScriptedS3, fs: hflush.FileSystem, tmp_path: Path
    ):
        for key in ("d/a", "d//x", "d/./y", "d/sub/b", "d/sub/../z", "d/gone/c"):
            server.put(key, b"data")
        with pytest.raises(OSError, match=r"copied to .*/out, but not all") as stayed:
            fs.copy_to_local_file("/d", tmp_path / "out", delete_source=True, use_raw_local=True)
        assert stayed.value.errno == errno.ENOTEMPTY
        assert stayed.value.filename == "s3://bucket/d"
        for name in ("d//x", "d/./y", "d/sub/../z"):
            assert f"s3://bucket/{name} (not copied)" in str(stayed.value)
        assert set(server.objects) == {"d//x", "d/./y", "d/sub/../z"}
        assert files(tmp_path / "out") == ["a", "gone/c", "sub/b"]

    def test_markers_with_content(self, server: ScriptedS3, fs: hflush.FileSystem, tmp_path: Path):
        """They are shown as directories, and are objects of somebody's, which no copy has."""
        server.put("d/e/", b"data")
        with pytest.raises(OSError, match=r"s3://bucket/d/e/ \(not copied\)"):
            fs.copy_to_local_file("/d", tmp_path / "out", delete_source=True)
        with pytest.raises(OSError, match="not empty"):
            fs.delete("/d/e")
        server.put("f", b"data")
        assert fs.rename("/f", "/d/e")  # into it, not in its place
        assert server.objects["d/e/"].data == b"data"

    def test_an_object_that_is_a_directory_too(
        self, server: ScriptedS3, fs: hflush.FileSystem, tmp_path: Path
    ):
        for key in ("d", "d/x"):
            server.put(key, b"data")
        with pytest.raises(OSError, match=r"d/x \(not copied\)") as stayed:
            fs.copy_to_local_file("/d", tmp_path / "out", delete_source=True, use_raw_local=True)
        assert stayed.value.errno == errno.ENOTEMPTY
        assert (set(server.objects), (tmp_path / "out").read_bytes()) == ({"d/x"}, b"data")

    def test_all_of_it(self, server: ScriptedS3, fs: hflush.FileSystem, tmp_path: Path):
        """Nothing is left, markers included; the directory above stays."""
        for key in ("up/d/", "up/d/a", "up/d/e/", "up/d/e/f/"):
            server.put(key, b"")
        fs.copy_to_local_file("/up/d", tmp_path / "out", delete_source=True)
        assert set(server.objects) == {"up/"}
        assert (tmp_path / "out" / "e" / "f").is_dir()

    def test_what_came_or_changed(
        self,
        server: ScriptedS3,
        fs: hflush.FileSystem,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ):
        for key in ("d/a", "d/b", "d/c"):
            server.put(key, b"old")

        def happens() -> None:
            server.put("d/b", b"new")
            server.put("d/new/x", b"new")
            del server.objects["d/c"]

        after_copying(monkeypatch, happens)
        with pytest.raises(OSError, match=r"d/b \(changed meanwhile\), .*d/new/x \(not copied\)"):
            fs.copy_to_local_file("/d", tmp_path / "out", delete_source=True, use_raw_local=True)
        assert set(server.objects) == {"d/b", "d/new/x"}
        assert (tmp_path / "out" / "b").read_bytes() == b"old"

    def test_what_may_not_be_removed(
        self, server: ScriptedS3, fs: hflush.FileSystem, tmp_path: Path
    ):
        for key in ("d/a", "d/b", "d/e/f"):
            server.put(key, b"data")
        refusal = "<Error><Key>d/a</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
        server.fail("DeleteObjects", answer(200, body=f"<DeleteResult>{refusal}</DeleteResult>"))
        with pytest.raises(PermissionError, match=r"copied to .*AccessDenied") as failure:
            fs.copy_to_local_file("/d", tmp_path / "out", delete_source=True)
        assert failure.value.filename == "s3://bucket/d/a"
        assert "d/a" in server.objects
        assert "d/e/f" not in server.objects

    def test_a_store_that_does_not_answer(
        self, server: ScriptedS3, fs: hflush.FileSystem, tmp_path: Path
    ):
        """Where the copy is, is said then, too."""
        server.put("d/a", b"data")
        server.fail("DeleteObject", answer(400, "ExpiredToken"), times=None)
        with pytest.raises(PermissionError, match=r"copied to .*/out, .*ExpiredToken"):
            fs.copy_to_local_file("/d", tmp_path / "out", delete_source=True)

    def test_a_key_that_is_no_path(self, server: ScriptedS3, fs: hflush.FileSystem, tmp_path: Path):
        """Neither is the path moved that it is in Hadoop, nor one put there."""
        server.put("d/a", b"data")
        server.put("d//a", b"another program's")
        (tmp_path / "in").write_bytes(b"new")
        with pytest.raises(hflush.InvalidPathError, match="'d//a'"):
            fs.copy_to_local_file("s3://bucket/d//a", tmp_path / "out", delete_source=True)
        with pytest.raises(hflush.InvalidPathError, match="'d//a'"):
            fs.copy_from_local_file(tmp_path / "in", "s3://bucket/d//a")
        assert {key: stored.data for key, stored in server.objects.items()} == {
            "d/a": b"data",
            "d//a": b"another program's",
        }

    def test_the_root_stays(self, server: ScriptedS3, fs: hflush.FileSystem, tmp_path: Path):
        """That is said before anything is copied, not after."""
        server.put("a", b"data")
        with pytest.raises(OSError, match="the root directory stays"):
            fs.copy_to_local_file("/", tmp_path / "out", delete_source=True)
        assert not (tmp_path / "out").exists()


class TestLocalFiles:
    def test_a_sidecar_without_its_file(self, local: hflush.FileSystem, tmp_path: Path):
        """Listings of the checksummed view hide it, and it may be somebody's file."""
        source = tree(tmp_path / "d", "a", ".orphan.crc", "sub/.b.crc", "sub/b")
        (source / "sub" / ".b.crc").unlink()
        with pytest.raises(OSError, match=r"d/\.orphan\.crc \(not copied\)"):
            local.copy_from_local_file(source, tmp_path / "out", delete_source=True)
        assert files(source) == [".orphan.crc"]
        assert files(tmp_path / "out") == ["a", "sub/b"]

    def test_what_changes_while_others_are_removed(
        self, fs: hflush.FileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """Each file is looked at right before it goes, not when the first of the tree does."""
        source = tree(tmp_path / "d", "a", "sub/b")
        removed = transfer._Removal._remove_files

        def removed_and_changed(self: transfer._Removal, files: list[str]) -> None:
            removed(self, files)
            if files[0].endswith("/sub/b"):
                (source / "a").write_bytes(b"committed by another")

        monkeypatch.setattr(transfer._Removal, "_remove_files", removed_and_changed)
        with pytest.raises(OSError, match=r"d/a \(changed meanwhile\)"):
            fs.copy_from_local_file(source, "/d", delete_source=True)
        assert (source / "a").read_bytes() == b"committed by another"
        assert files(source) == ["a"]

    def test_a_link_that_changes(self, fs: hflush.FileSystem, tmp_path: Path, monkeypatch):
        """What it leads to was copied; where it leads to now is in no other place."""
        source = tree(tmp_path / "d", "a", "b")
        (source / "current").symlink_to("a")

        def redirect() -> None:
            (source / "current").unlink()
            (source / "current").symlink_to("b")

        after_copying(monkeypatch, redirect)
        with pytest.raises(OSError, match=r"d/current \(changed meanwhile\)"):
            fs.copy_from_local_file(source, "/d", delete_source=True)
        assert os.readlink(source / "current") == "b"

    @pytest.mark.parametrize("is_there", [False, True])
    def test_sums_are_like_their_file(self, tmp_path: Path, is_there: bool):
        """Whether it was moved, or takes the place of another."""
        crc = hflush.FileSystem.get("file+crc:///")
        source, target = str(tmp_path / "from"), str(tmp_path / "to")
        for path in (source, target)[: 1 + is_there]:
            crc.create(path).close()
            crc.set_permission(path, 0o644)
        transfer.copy(crc, source, crc, target, delete_source=not is_there, overwrite=is_there)
        assert crc.get_file_status(target).permission == 0o644
        assert stat.S_IMODE((tmp_path / ".to.crc").stat().st_mode) == 0o644

    def test_a_single_file(self, fs: hflush.FileSystem, tmp_path: Path, monkeypatch):
        source = tree(tmp_path, "a") / "a"
        after_copying(monkeypatch, lambda: source.write_bytes(b"appended to"))
        with pytest.raises(OSError, match="changed meanwhile"):
            fs.copy_from_local_file(source, "/a", delete_source=True)
        assert source.read_bytes() == b"appended to"
        monkeypatch.undo()
        fs.copy_from_local_file(source, "/a", delete_source=True)
        assert not source.exists()

    @pytest.mark.parametrize("what", ["directory", "file"])
    def test_links_go_without_what_they_lead_to(
        self, local: hflush.FileSystem, tmp_path: Path, what: str
    ):
        elsewhere = tree(tmp_path / "elsewhere", "kept")
        source = tree(tmp_path / "d", "a")
        (source / "link").symlink_to(elsewhere if what == "directory" else elsewhere / "kept")
        local.copy_from_local_file(source, tmp_path / "out", delete_source=True)
        assert not source.exists()
        assert files(elsewhere) == ["kept"]

    def test_links_to_what_is_moved(self, local: hflush.FileSystem, tmp_path: Path):
        """They go, whether what they lead to went before them or not."""
        source = tree(tmp_path / "d", "b", "n/x", "n/m")
        for name in ("a", "c", "n/l", "n/y"):
            (source / name).symlink_to(source / "b")
        for name in ("l", "o", "n/a", "n/z"):
            (source / name).symlink_to(tree(source / "n" / "e", "f"))
        local.copy_from_local_file(source, tmp_path / "out", delete_source=True)
        assert not source.exists()
        assert (tmp_path / "out" / "n" / "z" / "f").read_bytes() == b"data of f"

    def test_owner_mode_and_times(
        self, local: hflush.FileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """They are kept, as by a rename; what is not yet whole is nothing that others may open."""
        modes = {"a": 0o600, "b": 0o755, "n/c": 0o640, "n": 0o700, "": 0o2775}
        source, out = tree(tmp_path / "d", "a", "b", "n/c"), tmp_path / "up" / "out"
        for name, mode in modes.items():
            (source / name).chmod(mode)
            os.utime(source / name, ns=(1, 1_000_000_000_000_000_001))
        if os.geteuid() == 0:
            os.chown(source / "n" / "c", 4711, 4712)
        before = {name: (source / name).stat() for name in modes}
        seen, opened = transfer._identity, []

        def watched(writer: Any, target: Any, path: str) -> Any:
            opened.extend(one.stat().st_mode for one in (out, Path(path)))
            return seen(writer, target, path)

        monkeypatch.setattr(transfer, "_identity", watched)
        local.copy_from_local_file(source, out, delete_source=True)
        assert [mode & 0o077 for mode in opened] == [0] * 6
        assert stat.S_IMODE(out.parent.stat().st_mode) == 0o777 & ~process_umask()
        for name, was in before.items():
            now = (out / name).stat()
            assert (now.st_uid, now.st_gid) == (was.st_uid, was.st_gid)
            assert (now.st_mode, now.st_mtime_ns) == (was.st_mode, was.st_mtime_ns)

    @pytest.mark.parametrize(
        ("mode", "owner", "group", "kept"),
        [
            (0o4755, "ann", None, 0o755),
            (0o2755, None, "staff", 0o755),
            (0o640, None, "staff", 0o600),
            (0o751, None, "staff", 0o711),
        ],
    )
    def test_an_owner_that_cannot_be_kept(
        self,
        local: hflush.FileSystem,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        mode: int,
        owner: str | None,
        group: str | None,
        kept: int,
    ):
        """The copy runs as no other user, and another group may do what others may."""
        path = tree(tmp_path, "a") / "a"
        moved = local.get_file_status(path)
        moved.permission = mode
        moved.owner, moved.group = owner or moved.owner, group or moved.group
        monkeypatch.setattr(local, "_namespace", refusing(local._namespace, "set_owner"))
        local._take_after(moved, str(path), 0)
        assert stat.S_IMODE(path.stat().st_mode) == kept

    def test_an_acl_is_not_kept(self, local: hflush.FileSystem, tmp_path: Path):
        """With one, the bits of the group are what a user in it may do, and not the group."""
        source, out = tree(tmp_path, "a") / "a", tmp_path / "out"
        # The owner, a user, the group, the mask, others.
        entries = ((0x01, 6, -1), (0x02, 6, 1), (0x04, 0, -1), (0x10, 6, -1), (0x20, 0, -1))
        packed = b"".join(struct.pack("<HHi", *entry) for entry in entries)
        try:
            os.setxattr(source, "system.posix_acl_access", struct.pack("<I", 2) + packed)
        except OSError as refusal:
            pytest.skip(f"no ACLs here: {refusal}")
        assert stat.S_IMODE(source.stat().st_mode) == 0o660
        local.copy_from_local_file(source, out, delete_source=True)
        assert stat.S_IMODE(out.stat().st_mode) == 0o600

    def test_a_mount_with_a_mode_for_all(
        self, local: hflush.FileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """It refuses to make anything of another mode, and to change it; things are moved there."""
        for name in ("create", "mkdirs"):
            make = getattr(LocalFileSystem, name)

            def made(fs: Any, path: str, _make: Any = make, **options: Any) -> Any:
                return refused() if "permission" in options else _make(fs, path, **options)

            monkeypatch.setattr(LocalFileSystem, name, made)
        modeless = refusing(local._namespace, "set_owner", "set_permission")
        monkeypatch.setattr(local, "_namespace", modeless)
        source = tree(tmp_path / "d", "n/a")
        local.copy_from_local_file(source, tmp_path / "out", delete_source=True)
        assert files(tmp_path) == ["out/n/a"]

    def test_what_is_there_keeps_its_mode(self, local: hflush.FileSystem, tmp_path: Path):
        """A directory into which more comes; a pipe, or a device, into which is written."""
        source, out = tree(tmp_path / "d", "a"), tmp_path / "out"
        source.chmod(0o700)
        (out / "d").mkdir(parents=True)
        (out / "d").chmod(0o750)
        moved = local.get_file_status(source / "a")
        os.mkfifo(out / "pipe")
        (out / "pipe").chmod(0o600)
        local._take_after(moved, str(out / "pipe"), 0)
        assert stat.S_IMODE((out / "pipe").stat().st_mode) == 0o600
        local.copy_from_local_file(source, out, delete_source=True)
        assert stat.S_IMODE((out / "d").stat().st_mode) == 0o750

    def test_a_directory_that_became_a_link(
        self, local: hflush.FileSystem, tmp_path: Path, monkeypatch
    ):
        elsewhere = tree(tmp_path / "elsewhere", "b")
        source = tree(tmp_path / "d", "sub/b")

        def happens() -> None:
            (source / "sub" / "b").unlink()
            (source / "sub").rmdir()
            (source / "sub").symlink_to(elsewhere)

        after_copying(monkeypatch, happens)
        with pytest.raises(OSError, match=r"d/sub \(another one by now\)"):
            local.copy_from_local_file(source, tmp_path / "out", delete_source=True)
        assert files(elsewhere) == ["b"]

    @pytest.mark.parametrize("delete_source", [False, True])
    @pytest.mark.parametrize("link", [os.link, os.symlink])
    def test_names_that_are_one_file_at_the_target(
        self, local: hflush.FileSystem, tmp_path: Path, delete_source: bool, link: Any
    ):
        """As on a mount without case: one copy replaces the other, so no source may go."""
        source = tree(tmp_path / "d", "a", "b")
        out = tree(tmp_path / "out", "d/a")
        link(out / "d" / "a", out / "d" / "b")
        with pytest.raises(FileExistsError, match="is the same file here"):
            local.copy_from_local_file(source, out, delete_source=delete_source)
        assert files(source) == ["a", "b"]

    def test_a_target_below_which_is_the_source(self, local: hflush.FileSystem, tmp_path: Path):
        """A link there leads back: the file would be emptied, then removed."""
        source = tree(tmp_path / "d", "a")
        (tmp_path / "out" / "d").mkdir(parents=True)
        (tmp_path / "out" / "d" / "a").symlink_to(source / "a")
        with pytest.raises(OSError, match="onto itself"):
            local.copy_from_local_file(source, tmp_path / "out", delete_source=True)
        assert (source / "a").read_bytes() == b"data of a"


class TestFilesThatAreReplaced:
    """An earlier file stays until the new one is whole, or a failure says that it is gone."""

    @pytest.fixture
    def copy(self, local: hflush.FileSystem, tmp_path: Path) -> Callable[..., BaseException | None]:
        """Copy over a file: return the failure if the source cannot be read to its end."""
        source = tree(tmp_path, "a") / "a"

        class Broken(io.BytesIO):
            def readinto(self, _: object) -> int:
                raise OSError(errno.EIO, "read")

        broken = hflush.FileSystem.new_instance("file:///")
        broken._open = lambda *_: Broken()  # type: ignore[assignment, method-assign]

        def copy(out: Path, *, fails: bool = False) -> BaseException | None:
            if not fails:
                transfer.copy_file(local, str(source), local, str(out))
                return None
            with pytest.raises(OSError, match="read") as failure:
                transfer.copy_file(broken, str(source), local, str(out))
            return failure.value

        return copy

    def test_it_stays(self, copy: Callable[..., BaseException | None], tmp_path: Path):
        """The new one has its owner and mode, behind a link, too."""
        real, link = tree(tmp_path / "out", "real") / "real", tmp_path / "link"
        real.chmod(0o670)
        if os.geteuid() == 0:
            os.chown(real, 4711, 4712)
        before = real.stat()
        link.symlink_to(real)
        for out in (real, link):
            assert notes(copy(out, fails=True)) == []
            assert (real.read_bytes(), real.stat()) == (b"data of real", before)
        copy(link)
        assert real.read_bytes() == b"data of a"
        now = real.stat()
        assert (now.st_mode, now.st_uid, now.st_gid) == (
            before.st_mode,
            before.st_uid,
            before.st_gid,
        )
        assert (os.listdir(real.parent), link.is_symlink()) == (["real"], True)

    def test_it_has_the_owner_of_no_other(
        self,
        copy: Callable[..., BaseException | None],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ):
        """Who may write the directory puts another file where the new one was made aside."""
        out, other = tree(tmp_path / "out", "file") / "file", tree(tmp_path, "other") / "other"
        out.chmod(0o666)
        other.chmod(0o600)

        def swaps(place: Callable[[str], object]) -> None:
            def syncs(made: str) -> bool:
                Path(made).unlink()
                place(made)
                return True

            monkeypatch.setattr(transfer, "_syncs", syncs)
            copy(out)
            assert stat.S_IMODE(other.stat().st_mode) == 0o600

        swaps(lambda made: os.symlink(other, made))
        swaps(lambda made: os.link(other, made))

    @pytest.mark.parametrize(
        "change",
        [
            lambda out: out.with_name("b").hardlink_to(out),
            lambda out: os.setxattr(out, "user.hflush", b"kept"),
            lambda out: out.with_name("link").symlink_to(f"/proc/self/root{out}"),
            None,
        ],
        ids=["hard link", "attribute", "by /proc", "no syncs"],
    )
    def test_it_is_written_over(
        self,
        copy: Callable[..., BaseException | None],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        change: Callable[[Path], object] | None,
    ):
        """Where its names, attributes or readers would keep to the earlier one; without syncs."""

        def refuse(_: int) -> None:
            raise OSError(errno.EINVAL, "fsync")

        if change is None:
            monkeypatch.setattr(transfer, "_SYNCING", set())
            monkeypatch.setattr(os, "fsync", refuse)
            change = Path.stat
        out = tree(tmp_path / "out", "file") / "file"
        try:
            change(out)
        except OSError as refusal:
            pytest.skip(f"not here: {refusal}")
        link, before = out.with_name("link"), out.stat()
        copy(link if link.is_symlink() else out)
        assert (out.read_bytes(), out.stat().st_ino) == (b"data of a", before.st_ino)
        (note,) = notes(copy(link if link.is_symlink() else out, fails=True))
        assert note.endswith("before is gone: it was written over")

    def test_a_directory_that_takes_no_other(
        self, copy: Callable[..., BaseException | None], tmp_path: Path, monkeypatch
    ):
        create = LocalFileSystem._create

        def made(fs: Any, path: str, *options: Any) -> Any:
            return refused() if path.endswith(".tmp") else create(fs, path, *options)

        monkeypatch.setattr(LocalFileSystem, "_create", made)
        out = tree(tmp_path, "out") / "out"
        copy(out)
        assert out.read_bytes() == b"data of a"

    def test_one_that_may_not_be_written(
        self, local: hflush.FileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """It is not replaced either, as it could be by a rename."""
        monkeypatch.setattr(os, "access", lambda *_: False)
        monkeypatch.setattr(LocalFileSystem, "_create", refused)
        out = tree(tmp_path, "a", "out") / "out"
        with pytest.raises(PermissionError):
            transfer.copy_file(local, f"{tmp_path}/a", local, str(out))
        assert out.read_bytes() == b"data of out"


class TestTreesThatFail:
    """What is at the target is said; the source is whole."""

    @pytest.fixture
    def failed(
        self, local: hflush.FileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[int], list[str]]:
        source, copied = tree(tmp_path / "d", "n/a", "n/b"), transfer._Copy._copy_bytes

        def fail(after: int) -> list[str]:
            left = iter(range(after))

            def copy(*given: Any) -> int:
                return refused() if next(left, None) is None else copied(*given)

            monkeypatch.setattr(transfer._Copy, "_copy_bytes", copy)
            with pytest.raises(PermissionError) as failure:
                local.copy_from_local_file(source, tmp_path / "out", delete_source=True)
            assert files(source) == ["n/a", "n/b"]
            return notes(failure.value)

        return fail

    def test_in_the_middle(self, failed: Callable[[int], list[str]], tmp_path: Path):
        (note,) = failed(1)
        assert note.startswith(f"files copied to '{tmp_path}/out' until then: 1")
        assert note.endswith("remove it first, or a repetition goes into it")
        assert len(files(tmp_path / "out")) == 1

    def test_into_a_directory(self, failed: Callable[[int], list[str]], tmp_path: Path):
        """One that was there may have other files: it is not to be removed."""
        (tmp_path / "out" / "d").mkdir(parents=True)
        assert failed(1) == [f"files copied to '{tmp_path}/out/d' until then: 1; none was removed"]

    def test_at_the_first_file(self, failed: Callable[[int], list[str]], tmp_path: Path):
        """No directory stays: a repetition would go into it."""
        assert failed(0) == []
        assert os.listdir(tmp_path) == ["d"]


class TestCopiesThatFail:
    """What the copy has made goes, and nothing else."""

    @pytest.fixture
    def copied(
        self, local: hflush.FileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[..., None]:
        source, out = tree(tmp_path, "a") / "a", tmp_path / "out"

        def copy(failure: OSError, meanwhile: Callable[[], object]) -> None:
            class Broken(io.BytesIO):
                def readinto(self, _: object) -> int:
                    meanwhile()
                    raise failure

            broken = hflush.FileSystem.new_instance("file:///")
            monkeypatch.setattr(broken, "_open", lambda *_: Broken())
            with pytest.raises(type(failure)):
                transfer.copy_file(broken, str(source), local, str(out))

        return copy

    def test_behind_a_link(self, copied: Callable[..., None], tmp_path: Path):
        (tmp_path / "out").symlink_to("real")
        copied(OSError("read"), lambda: None)
        assert sorted(os.listdir(tmp_path)) == ["a", "out"]

    def test_another_file_by_now(self, copied: Callable[..., None], tmp_path: Path):
        (tmp_path / "new").write_text("new")
        copied(OSError("read"), lambda: (tmp_path / "new").rename(tmp_path / "out"))
        assert (tmp_path / "out").read_text() == "new"

    def test_another_writer(self, copied: Callable[..., None], tmp_path: Path):
        copied(hflush.LeaseLostError("lost"), lambda: None)
        assert (tmp_path / "out").exists()

    def test_whose_file_it_is_cannot_be_seen(
        self, local: hflush.FileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """The stream is closed all the same."""

        def refused(*_: object) -> int:
            raise PermissionError("status")

        monkeypatch.setattr(transfer, "_identity", refused)
        source = tree(tmp_path, "a") / "a"
        with pytest.raises(PermissionError):
            transfer.copy_file(local, str(source), local, str(tmp_path / "out"))
        assert local._open_streams() == []


class TestRenamesOfObjects:
    """They are copies, too."""

    @pytest.mark.parametrize("is_tree", [True, False], ids=["tree", "object"])
    def test_what_changed(
        self,
        server: ScriptedS3,
        fs: hflush.FileSystem,
        monkeypatch: pytest.MonkeyPatch,
        is_tree: bool,
    ):
        for key in ("d/a", "d/b", "d//x"):
            server.put(key, b"old")
        name = "_copy_tree" if is_tree else "_copy_file"
        copies: Any = getattr(S3Copies, name)

        def copy(*given: Any) -> Any:
            result = copies(*given)
            server.put("d/a", b"new")
            server.put("d/c", b"new")
            return result

        monkeypatch.setattr(S3Copies, name, copy)
        with pytest.raises(OSError, match=r"copied to .*: .*written .*meanwhile") as stayed:
            fs.rename(*(("/d", "/e") if is_tree else ("/d/a", "/e")))
        assert stayed.value.errno == errno.ENOTEMPTY
        if is_tree:
            assert "s3://bucket/d/a, s3://bucket/d/c" in str(stayed.value)
            assert {key for key in server.objects if key.startswith("d/")} == {"d/a", "d/c"}
            assert server.objects["e//x"].data == server.objects["e/a"].data == b"old"
        else:
            assert server.objects["d/a"].data == b"new"
            assert server.objects["e"].data == b"old"

    @pytest.mark.parametrize("threshold", ["5G", "5M"], ids=["whole", "in parts"])
    @pytest.mark.parametrize(
        ("conf", "stored"),
        [
            ({}, ["STANDARD_IA", "aws:kms", "key"]),
            ({"fs.s3a.create.storage.class": "glacier_ir"}, ["GLACIER_IR", "aws:kms", "key"]),
            ({"fs.s3a.encryption.algorithm": "AES256"}, ["STANDARD_IA", "AES256", ""]),
            ({"fs.s3a.object.content.encoding": "gzip"}, ["STANDARD_IA", "aws:kms", "key"]),
        ],
    )
    def test_how_it_is_stored(
        self, server: ScriptedS3, threshold: str, conf: dict[str, str], stored: list[str]
    ):
        """As the source, unless something else is configured."""
        server.put("a", bytes(6 << 20))
        kms = "x-amz-server-side-encryption"
        names = ("x-amz-storage-class", kms, f"{kms}-aws-kms-key-id")
        server.objects["a"].headers = dict(
            zip(names, ("STANDARD_IA", "aws:kms", "key"), strict=True)
        )
        given = {"fs.s3a.multipart.threshold": threshold, "hflush.s3.encryption.verify": "false"}
        fs = hflush.FileSystem.new_instance(
            "s3://bucket/", {**server.conf, **QUICK, **given, **conf}
        )
        fs.rename("/a", "/b")  # whole at last: the server has no UploadPartCopy
        copy = next(r for r in server.log if r.operation in ("CopyObject", "CreateMultipartUpload"))
        assert [copy.head.get(name) for name in (*names, "content-encoding")] == [*stored, ""]
        assert (server.count("HeadObject") <= 3, server.uploads) == (True, {})
        if threshold == "5M":  # found out once
            server.log.clear()
            fs.rename("/b", "/c")
            assert server.count("CreateMultipartUpload") == 0

    def test_what_an_object_is(self, server: ScriptedS3, fs: hflush.FileSystem):
        """Also in another bucket: what browsers and programs read it by, and its metadata."""
        properties = {
            "content-type": "application/json",
            "content-encoding": "gzip",
            "x-amz-meta-owner": "ann",
        }
        server.put("a", b"data")
        server.objects["a"].headers = properties
        with ScriptedS3() as other:
            target = hflush.FileSystem.new_instance("s3://bucket/", other.conf)
            transfer.copy(fs, "/a", target, "/b", delete_source=True, overwrite=True)
            put = next(request for request in other.log if request.method == "PUT")
            assert {name: put.head.get(name) for name in properties} == properties
            assert other.objects["b"].data == b"data"
        assert "a" not in server.objects

    def test_how_a_tree_is_stored(self, server: ScriptedS3, fs: hflush.FileSystem):
        """As its listing shows it."""
        server.put("d/a", b"a")
        server.put("d/b", b"b")
        server.objects["d/b"].headers = {"x-amz-storage-class": "STANDARD_IA"}
        fs.rename("/d", "/e")
        copies = [
            r.head.get("x-amz-storage-class") for r in server.log if r.operation == "CopyObject"
        ]
        assert sorted(copies) == ["", "STANDARD_IA"]


class Aliased(ScriptedS3):
    """A server whose bucket has a second name, as an access point is one."""

    def execute(self, request: Request) -> Answer:
        request.bucket = request.bucket.replace("alias", BUCKET)
        return super().execute(request)


class TestBetweenBuckets:
    @pytest.mark.parametrize(
        ("source", "target"),
        [("d/a", "d/a"), ("d", "d"), ("d", "d/e")],
    )
    def test_two_names_of_one(self, source: str, target: str):
        """What would be moved onto or into itself stays."""
        with Aliased() as server:
            for key in ("d/a", "d/e/b", "empty/"):
                server.put(key, b"")
            fs = fsspec.filesystem("hflush+s3", conf=server.conf)
            before = set(server.objects)
            with pytest.raises(
                OSError, match=f"{BUCKET}/{source} onto .*alias/{target}"
            ) as refusal:
                fs.mv(f"{BUCKET}/{source}", f"alias/{target}")
            assert refusal.value.errno == errno.EINVAL
            server.fail("ListParts", answer(403, "AccessDenied"))
            with pytest.raises(PermissionError) as doubt:
                fs.mv(f"{BUCKET}/{source}", f"alias/{target}")
            assert "may be s3://alias/ under" in "".join(getattr(doubt.value, "__notes__", ()))
            assert (set(server.objects), server.uploads) == (before, {})
            fs.mv(f"{BUCKET}/d", "alias/f")
            assert {"f/a", "f/e/b"} < set(server.objects)

    def test_two_of_one_name(self, server: ScriptedS3):
        """Those of two servers, also where both have the same object."""
        with ScriptedS3() as other:
            for at in (server, other):
                at.put("a", b"data")
            here, there = (fsspec.filesystem("hflush+s3", conf=at.conf) for at in (server, other))
            here._move(here._place(f"{BUCKET}/a"), there._place(f"{BUCKET}/a"))
            assert not server.objects
            assert other.objects["a"].data == b"data"


def test_names_that_hadoop_has_not(
    server: ScriptedS3, fs: hflush.FileSystem, local: hflush.FileSystem, tmp_path: Path
):
    """From raw local files to S3 and back; checksummed ones refuse to be given such a name."""
    source = tree(tmp_path / "a:b", "x:y", "s\nz/l")
    fs.copy_from_local_file(source, "/d", delete_source=True)
    assert not source.exists()
    assert set(server.objects) == {"d/", "d/x:y", "d/s\nz/", "d/s\nz/l"}
    with pytest.raises(hflush.InvalidPathError, match="except on raw local files"):
        fs.copy_to_local_file("/d", tmp_path / "crc", delete_source=True)
    assert len(server.objects) == 4
    fs.copy_to_local_file("/d", source, delete_source=True, use_raw_local=True)
    assert files(source) == ["s\nz/l", "x:y"]
    assert not server.objects


@pytest.mark.parametrize("up", [".", ".."])
def test_a_tree_that_is_in_itself(local: hflush.FileSystem, tmp_path: Path, up: str):
    """It has no end: it is refused at the link, and not copied again and again."""
    source = tree(tmp_path / "d", "s/a")
    (source / "s" / "up").symlink_to(source / up)
    with pytest.raises(OSError, match=r"in itself, .* by a link") as refusal:
        local.copy_from_local_file(source, tmp_path / "out", delete_source=True)
    assert refusal.value.errno == errno.ELOOP
    assert set(files(tmp_path / "out")) <= {"s/a", "s/up/a"}
    assert files(source) == ["s/a"]
