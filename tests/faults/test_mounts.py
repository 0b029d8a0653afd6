"""Mounts that can less than ext4 (CIFS, FUSE, NFS, Mountpoint for S3), as system calls tell it.

What the built-in open() can do there works. A promise that the mount cannot keep is refused before
anything is written, or by the call that would have kept it: for streams and atomic files alike.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path

import hflush
import pytest
from faults.expecting import os_error
from faults.shim.control import Faults, named
from hflush.checkpoint import CheckpointFileManager
from hflush.local import claims
from support.stores import Store

pytestmark = [pytest.mark.shim, pytest.mark.stores("raw", "crc")]

LACKING = [errno.EINVAL, errno.ENOSYS, errno.ENOTSUP]


def read_back(store: Store, path: str, **options: object) -> bytes:
    with store.fs.create(path, **options) as out:  # type: ignore[arg-type]
        out.write(b"data")
    return store.read(path)


@pytest.mark.parametrize("error", [errno.EPERM, *LACKING], ids=named)
@pytest.mark.parametrize("atomic", [False, True], ids=["plain", "atomic"])
def test_modes_are_the_mounts(faults: Faults, store: Store, error: int, atomic: bool) -> None:
    """Files and directories are made where chmod is refused, unless a permission was asked for."""
    faults.fail("chmod", error)
    fs = hflush.FileSystem.new_instance(
        store.url(), {**store.conf, "fs.permissions.umask-mode": "000"}
    )
    path = store.path("below/file")
    with fs.create(path, atomic=atomic) as out:
        out.write(b"data")
    fs.mkdirs(store.path("made"))
    assert store.read(path) == b"data"
    with pytest.raises(PermissionError, match=r"the mount keeps mode 0[0-7]+, not 0666"):
        fs.create(store.path("asked"), permission=0o666, atomic=atomic)
    with pytest.raises(PermissionError, match="the mount keeps mode"):
        fs.mkdirs(store.path("asked"), 0o777)
    assert not [name for name in store.on_disk() if "asked" in name]


def test_a_permission_that_is_there_needs_no_chmod(faults: Faults, store: Store) -> None:
    """The mode that open gave is the one that was asked for."""
    faults.fail("chmod", errno.EPERM)
    assert read_back(store, store.path("file"), permission=0o600) == b"data"


@pytest.mark.parametrize(
    "error", [errno.EINVAL, errno.EBADF, errno.EROFS, errno.ENOTSUP], ids=named
)
def test_directories_that_cannot_be_synced(faults: Faults, store: Store, error: int) -> None:
    """No failure, of a stream or of an atomic file: the names are as durable as the mount's."""
    faults.fail("sync", error, store.root)
    assert read_back(store, store.path("plain"), sync_on_close=True) == b"data"
    assert read_back(store, store.path("atomic"), atomic=True) == b"data"
    manager = CheckpointFileManager.create(store.url(), store.conf)
    with manager.create_atomic(store.path("checkpoint"), False) as out:
        out.write(b"data")
    assert store.read(store.path("checkpoint")) == b"data"


@pytest.mark.rule("HSYNC-12")
@pytest.mark.stores("raw")
@pytest.mark.parametrize("error", LACKING, ids=named)
def test_hsync_that_is_refused(faults: Faults, store: Store, error: int) -> None:
    """The stream goes on; what was written is never called durable, also if a sync would work."""
    faults.fail("sync", error, "*/file", limit=1)
    with store.fs.create(store.path("file")) as out:
        for _ in range(3):
            out.write(b"data")
            with pytest.raises(io.UnsupportedOperation, match="the mount cannot fdatasync"):
                out.hsync()
            out.hflush()
    assert store.read(store.path("file")) == b"data" * 3
    assert len(faults.calls("sync")) == 1


@pytest.mark.parametrize("error", LACKING, ids=named)
def test_files_that_cannot_be_synced(faults: Faults, store: Store, error: int) -> None:
    """The promise is refused by the call that makes it, in the same words."""
    faults.fail("sync", error, "*/*file*")
    out = store.fs.create(store.path("file"))
    out.write(b"data")
    out.close()
    assert store.read(store.path("file")) == b"data"
    for options in ({"sync_on_close": True}, {"atomic": True}):
        with pytest.raises(io.UnsupportedOperation, match="the mount cannot fdatasync"):
            read_back(store, store.path("file"), **options)


@pytest.mark.parametrize("error", [errno.EPERM, *LACKING], ids=named)
def test_renames_that_replace(faults: Faults, store: Store, error: int) -> None:
    """Without renameat2 a link publishes; without links it is refused before a byte is written."""
    faults.fail("renameat2", error)
    assert read_back(store, store.path("linked"), atomic=True, overwrite=False) == b"data"
    fs = hflush.FileSystem.new_instance(store.url(), store.conf)
    faults.fail("link", error)
    own = {
        **store.conf,
        "hflush.checkpoint.verify-rename": True,
    }  # a file system that knows nothing
    manager = CheckpointFileManager.create(store.url(), own)
    before = store.on_disk()
    for create in (
        lambda path: fs.create(path, atomic=True, overwrite=False),
        lambda path: manager.create_atomic(path, False),
    ):
        with pytest.raises(io.UnsupportedOperation, match="neither rename without replacing nor"):
            create(store.path("new"))
    assert store.on_disk() == before
    assert read_back(store, store.path("new"), atomic=True) == b"data"
    with manager.create_atomic(store.path("new"), True) as out:
        out.write(b"more")
    assert store.read(store.path("new")) == b"more"


def test_a_mount_without_renames(faults: Faults, store: Store) -> None:
    """Mountpoint for S3: no atomic file, but plain ones."""
    faults.fail("rename", errno.ENOSYS)
    with pytest.raises(io.UnsupportedOperation, match="could not be published"):
        store.fs.create(store.path("file"), atomic=True)
    assert store.on_disk() == []
    assert read_back(store, store.path("file")) == b"data"


@pytest.mark.parametrize("error", [errno.EINVAL, errno.ENOLCK, errno.EPERM], ids=named)
def test_a_mount_without_locks(faults: Faults, store: Store, error: int) -> None:
    """Atomic files need none; a stream that several may go on with does."""
    faults.fail("flock", error)
    assert read_back(store, store.path("file"), atomic=True) == b"data"
    if store.name == "raw":
        with (
            store.fs.create(store.path("file")) as out,
            pytest.raises(io.UnsupportedOperation, match="mount without file locks"),
        ):
            out.persist()


@pytest.fixture
def mount(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Call it with the type, the source and the options that the store's mount is to have."""

    def say(kind: str) -> None:
        device = os.stat(store.root).st_dev
        (tmp_path / "mounts").write_text(
            "1 0 0:0 / / rw,relatime - ext4 /dev/root rw\n"
            f"2 1 {os.major(device)}:{os.minor(device)} / /mnt rw shared:1 - {kind}"
        )
        monkeypatch.setattr(claims, "_MOUNTS", str(tmp_path / "mounts"))
        monkeypatch.setattr(claims, "_mount", claims._mount.__wrapped__)

    return say


@pytest.mark.parametrize("kind", ["nfs nas:/x rw", "nfs4 nas:/x rw,vers=4.2"])
def test_a_mount_where_two_kinds_of_locks_meet(
    faults: Faults, store: Store, mount: Callable[[str], None], kind: str
) -> None:
    """NFS (flock(2)): the lock that a stream has on its sums is no sweep's."""
    mount(kind)
    faults.fail("flock", errno.EWOULDBLOCK, "*.tmp.crc")
    assert read_back(store, store.path("file"), atomic=True) == b"data"


@pytest.mark.parametrize(
    "kind", ["cifs //nas/share rw", "cifs //nas/share rw,nobrl", "vboxsf v rw"]
)
def test_a_mount_whose_locks_are_in_the_way(
    faults: Faults, store: Store, mount: Callable[[str], None], kind: str
) -> None:
    """CIFS (flock(2)), unless it keeps locks to this host, and VirtualBox: as one without locks."""
    mount(kind)
    left = store.path(f".file.{0:032x}.atomic.tmp")
    open(left, "w").close()
    assert read_back(store, store.path("file"), atomic=True) == b"data"
    has_locks = "nobrl" in kind
    assert bool(faults.calls("lock", path="*.tmp")) is has_locks
    assert os.path.exists(left) is not has_locks


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS], ids=named)
def test_a_file_that_only_open_can_cut(faults: Faults, store: Store, error: int) -> None:
    """Replacing a file needs no ftruncate; and one that cannot be cut is not written into."""
    path = store.write(store.path("file"), b"an old one" * 1000)
    faults.fail("truncate", error)
    assert read_back(store, path) == b"data"
    faults.fail("open", error, "*/file", skip=2)
    with pytest.raises(OSError, match="truncate"):
        store.fs.create(path)


def test_a_file_that_only_cutting_opens(faults: Faults, store: Store) -> None:
    """Mountpoint for S3 with --allow-overwrite; one that is refused leaves both files alone."""
    path = store.write(store.path("file"), b"an old one" * 1000)
    faults.fail("open", errno.EPERM, "*/file", skip=1, limit=1)
    faults.fail("open", errno.EPERM, "*/.file.crc", skip=1, limit=1)
    assert read_back(store, path) == b"data"
    faults.fail("open", errno.EPERM, "*/*file*", skip=3 if store.name == "crc" else 1, limit=2)
    with pytest.raises(PermissionError, match="create"):
        store.fs.create(path)
    assert store.content(path) == b"data"


def test_a_failure_in_close_is_told(faults: Faults, store: Store) -> None:
    """NFS writes a file out where a lock of it ends; close(2) would not say that this failed."""
    store.write(store.path("file"), b"data")
    for path in ("*/file", "*/.file.crc") if store.name == "crc" else ("*/file",):
        calls = [call.operation for call in faults.calls(path=path)]
        assert calls[-2:] == ["write", "close"]


@pytest.mark.parametrize("error", [errno.EACCES, errno.EROFS], ids=named)
def test_a_directory_that_is_there(faults: Faults, store: Store, error: int) -> None:
    """A server of NFS may ask first who may make it."""
    faults.fail("mkdir", error)
    assert store.fs.mkdirs(store.root)
    with os_error(error):
        store.fs.mkdirs(store.path("new"))


@pytest.mark.stores("raw")
def test_a_tree_of_which_nothing_is_open(faults: Faults, store: Store) -> None:
    """VirtualBox's shared folders remove no directory that is."""
    store.write(store.path("d/s/x"), b"data")
    store.fs.delete(store.path("d"), recursive=True)
    calls = faults.calls("open", "close", "unlink", path=store.path("d"))
    assert [call.operation for call in calls][-2:] == ["close", "unlink"]


@pytest.mark.stores("raw")
def test_a_mount_that_never_appends(faults: Faults, store: Store) -> None:
    """The message says what is lacking."""
    path = store.write(store.path("file"), b"old")
    faults.fail("open", errno.EINVAL, "*/file")
    with pytest.raises(io.UnsupportedOperation, match="the mount opens no file that exists"):
        store.fs.append(path)


@pytest.mark.stores("raw")
def test_uploads_and_directories_without_renameat2(faults: Faults, store: Store) -> None:
    """Neither a multipart upload nor the rename of a directory needs it, or a link."""
    faults.fail("renameat2", errno.EINVAL)
    faults.fail("link", errno.EPERM)
    uploader = store.fs.create_multipart_uploader(store.root)
    path = store.path("file")
    upload = uploader.start_upload(path)
    uploader.complete(upload, path, {1: uploader.put_part(upload, path, 1, True, b"data")})
    assert store.read(path) == b"data"
    store.fs.mkdirs(store.path("a/b"))
    store.fs.rename(store.path("a"), store.path("c"), hflush.Rename.NONE)
    assert sorted(os.listdir(store.root)) == ["c", "file"]
