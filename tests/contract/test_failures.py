"""FAIL: how failures look. Injected faults are in tests/faults."""

from __future__ import annotations

import errno
import io
from collections.abc import Callable

import hflush
import pytest
from faults.shim.control import Faults
from hflush import Rename
from hflush.checkpoint import CheckpointFileManager
from support.data import dataset
from support.stores import FILES, HdfsStore, Store
from support.waiting import Task

Stream = hflush.FSDataOutputStream
Attempt = Callable[[Store], object]

# What cannot be done, by the class of the contract's exception table (§1).
WRONG: dict[str, tuple[type[BaseException], int, Attempt]] = {
    "open nothing": (FileNotFoundError, errno.ENOENT, lambda s: s.read(s.path("no"))),
    "open a directory": (hflush.NotAFileError, errno.EISDIR, lambda s: s.read(s.path("dir"))),
    "status of nothing": (
        FileNotFoundError,
        errno.ENOENT,
        lambda s: s.fs.get_file_status(s.path("no")),
    ),
    "list nothing": (FileNotFoundError, errno.ENOENT, lambda s: s.fs.list_status(s.path("no"))),
    "create over a directory": (
        hflush.PathIsDirectoryError,
        errno.EISDIR,
        lambda s: s.fs.create(s.path("dir")),
    ),
    "create what exists": (
        FileExistsError,
        errno.EEXIST,
        lambda s: s.fs.create(s.path("file"), overwrite=False),
    ),
    "create under a file": (
        hflush.ParentNotDirectoryError,
        errno.ENOTDIR,
        lambda s: s.fs.create(s.path("file", "below")),
    ),
    "mkdirs over a file": (FileExistsError, errno.EEXIST, lambda s: s.fs.mkdirs(s.path("file"))),
    "delete a full directory": (
        OSError,
        errno.ENOTEMPTY,
        lambda s: s.fs.delete(s.path("dir"), recursive=False),
    ),
    "rename nothing": (
        FileNotFoundError,
        errno.ENOENT,
        lambda s: s.fs.rename(s.path("no"), s.path("new"), Rename.NONE),
    ),
    "set times of nothing": (
        FileNotFoundError,
        errno.ENOENT,
        lambda s: s.fs.set_times(s.path("no"), 1, 1),
    ),
    "an invalid name": (
        hflush.InvalidPathError,
        errno.EINVAL,
        lambda s: s.fs.create(s.path("a\0b")),
    ),
    "a long name": (
        OSError,
        errno.ENAMETOOLONG,
        lambda s: s.fs.create(s.path("n" * (s.longest_name + 1))),
    ),
}

# What stores do not have, besides what a stream refuses (test_capabilities.py).
UNSUPPORTED_BY_FILES: dict[str, Attempt] = {
    "list_multipart_uploads": lambda s: s.fs.list_multipart_uploads(s.root),
    "abort_multipart_uploads": lambda s: s.fs.abort_multipart_uploads(s.root, 0),
}
UNSUPPORTED_BUT_BY_HDFS: dict[str, Attempt] = {
    "concat": lambda s: s.fs.concat(s.path("file"), [s.path("dir", "child")]),
    "recover_lease": lambda s: s.fs.recover_lease(s.path("file")),
    "set_safe_mode": lambda s: s.fs.set_safe_mode("get"),
}
UNSUPPORTED_BY_CRC: dict[str, Attempt] = {
    "append": lambda s: s.fs.append(s.path("file")),
    "truncate": lambda s: s.fs.truncate(s.path("file"), 0),
}


@pytest.fixture
def furnished(store: Store) -> Store:
    """The store with a file, and a directory that holds one."""
    store.write(store.path("file"), b"content")
    store.write(store.path("dir", "child"), b"child")
    return store


def error_of(attempt: Callable[[], object]) -> OSError | None:
    """Return the OSError that the attempt raised, or None."""
    try:
        attempt()
    except OSError as error:
        return error
    return None


def tree(store: Store) -> list[tuple[str, int]]:
    found = store.fs.list_files(store.root, recursive=True)
    return sorted((status.path, status.length) for status in found)


@pytest.mark.rule("FAIL-1")
@pytest.mark.parametrize("size", [1, 512, 1000, 70_000, 3 << 20])
@pytest.mark.parametrize("room", [0, 1, 511, 4096, 1 << 20])
def test_success_means_that_the_bytes_are_there(
    store: Store, path: str, size: int, room: int
) -> None:
    """FAIL-1: wherever the room ends, close returns normally only if every byte can be read."""
    data = dataset(size)
    out = store.fs.create(path)

    def use() -> None:
        with out:
            out.write(data)
            out.flush()

    with store.full(room):
        error = error_of(use)
    if error is None:
        assert store.read(path) == data
    else:
        assert error.errno == store.full_errno
        # A sidecar takes room as well; a cluster counts whole blocks.
        assert size > room or store.name != "raw"
    assert data.startswith(store.visible(path))


@pytest.mark.rule("FAIL-3", "FAIL-6", "FAIL-16")
@pytest.mark.rule("FAIL-4", on=("raw", "crc", "s3"))
@pytest.mark.parametrize("case", WRONG)
def test_named_class_errno_and_path(furnished: Store, case: str) -> None:
    """FAIL-3, 4, 6: the named class is raised, with errno, path and a message."""
    expected, number, attempt = WRONG[case]
    before = tree(furnished)
    with pytest.raises(expected) as caught:
        attempt(furnished)
    error = caught.value
    assert isinstance(error, OSError)
    assert error.errno == number
    assert str(error.filename).startswith(furnished.filename(furnished.root))
    assert error.strerror
    assert str(error.filename) in str(error) or "\\x00" in str(error)
    assert furnished.options["supports-strict-exceptions"] is True
    assert tree(furnished) == before


@pytest.mark.rule("FAIL-3")
def test_failed_write_names_operation_and_path(store: Store, path: str) -> None:
    """FAIL-3: the message of a failed stream carries operation, path and numbers."""
    out = store.fs.create(path)

    def use() -> None:
        with out:
            out.write(bytes(4 << 20))

    with store.full(1000):
        text = str(error_of(use))
    assert path in text
    assert store.full_text in text
    assert any(word in text for word in ("write", "addBlock", "PutObject", "UploadPart"))
    assert any(character.isdigit() for character in text.replace(path, ""))


@pytest.mark.rule("FAIL-5")
def test_failures_are_raised_not_returned(furnished: Store) -> None:
    """FAIL-5: nothing returns a code; booleans are only for delete and rename."""
    fs = furnished.fs
    assert fs.delete(furnished.path("no")) is False
    assert fs.delete(furnished.path("no"), recursive=True) is False
    assert fs.delete(furnished.path("file")) is True
    assert fs.rename(furnished.path("dir"), furnished.path("other")) is True
    assert fs.set_permission(furnished.path("other"), 0o700) is None
    if furnished.options["supports-settimes"]:
        assert fs.set_times(furnished.path("other", "child"), 1, 1) is None
    with fs.create(furnished.path("new")) as out:
        assert (out.flush(), out.write_byte(1), out.write(b"ab")) == (None, None, 2)
    assert out.close() is None


@pytest.mark.rule("FAIL-7", "FAIL-8")
def test_operations_on_a_full_disk_complete(store: Store, path: str) -> None:
    """FAIL-7, 8: with a failing store, every operation completes, with success or failure."""

    def use() -> int:
        out = store.fs.create(path)
        errors = [error_of(lambda: out.write(bytes(1 << 20))) for _ in range(64)]
        errors += [error_of(operation) for operation in (out.flush, out.close)]
        return sum(error is not None for error in errors)

    with store.full(1 << 20):
        assert Task(use).result() >= 1


@pytest.mark.rule("FAIL-9")
@pytest.mark.stores(*FILES)
@pytest.mark.parametrize("operation", UNSUPPORTED_BY_FILES)
def test_what_is_not_offered_is_refused_by_name(furnished: Store, operation: str) -> None:
    """FAIL-9: what a store does not have raises UnsupportedOperation that names it."""
    before = tree(furnished)
    with pytest.raises(io.UnsupportedOperation, match=operation):
        UNSUPPORTED_BY_FILES[operation](furnished)
    assert tree(furnished) == before


@pytest.mark.rule("FAIL-9")
@pytest.mark.stores("raw", "crc", "s3")
@pytest.mark.parametrize("operation", UNSUPPORTED_BUT_BY_HDFS)
def test_what_only_a_cluster_offers_is_refused_by_name(furnished: Store, operation: str) -> None:
    """FAIL-9: what only a cluster has raises UnsupportedOperation that names it."""
    before = tree(furnished)
    with pytest.raises(io.UnsupportedOperation, match=operation):
        UNSUPPORTED_BUT_BY_HDFS[operation](furnished)
    assert tree(furnished) == before


@pytest.mark.rule("FAIL-9", "LOCAL-13")
@pytest.mark.stores("crc")
@pytest.mark.parametrize("operation", UNSUPPORTED_BY_CRC)
def test_what_crc_does_not_offer_is_refused_by_name(furnished: Store, operation: str) -> None:
    """FAIL-9: a checksummed store refuses to change a file in place, and says what it refused."""
    with pytest.raises(io.UnsupportedOperation, match=operation):
        UNSUPPORTED_BY_CRC[operation](furnished)
    assert furnished.read(furnished.path("file")) == b"content"


FORBIDDEN = {
    "create": "fs.create(root + '/dir/new')",
    "overwrite": "fs.create(root + '/file')",
    "mkdirs": "fs.mkdirs(root + '/dir/new')",
    "delete": "fs.delete(root + '/dir/child')",
    "rename": "fs.rename(root + '/dir/child', root + '/dir/new')",
    "rename exactly": "fs.rename(root + '/dir/child', root + '/dir/new', hflush.Rename.NONE)",
    "open": "fs.open(root + '/secret')",
    "list": "fs.list_status(root + '/secret-dir')",
}


@pytest.mark.rule("FAIL-12")
@pytest.mark.stores(*FILES)
def test_lack_of_permission_is_a_permission_error(furnished: Store) -> None:
    """FAIL-12: without the permission, the operation is a PermissionError and changes nothing."""
    store = furnished
    store.write(store.path("secret"), b"secret")
    store.fs.mkdirs(store.path("secret-dir"))
    modes = {"dir": 0o555, "file": 0o444, "secret": 0, "secret-dir": 0}
    for name, mode in modes.items():
        store.chmod(store.path(name), mode)
    peer = store.spawn() if store.local else store.unprivileged()
    peer.run("from support.limits import obey_permissions; obey_permissions()")
    for operation, snippet in FORBIDDEN.items():
        with pytest.raises(PermissionError) as caught:
            peer.run(snippet, root=store.root)
        assert caught.value.errno in {errno.EACCES, errno.EPERM}, operation
        assert str(caught.value.filename).startswith(store.filename(store.root)), operation
    for name in modes:
        store.chmod(store.path(name), 0o755)
    assert tree(store) == sorted(
        [
            (store.public(store.path("dir", "child")), 5),
            (store.public(store.path("file")), 7),
            (store.public(store.path("secret")), 6),
        ]
    )
    assert store.read(store.path("file")) == b"content"


@pytest.mark.rule("FAIL-13")
def test_first_cause_is_kept(store: Store, failed: Stream) -> None:
    """FAIL-13: later calls on a failed stream still tell of the first failure."""
    with pytest.raises(OSError, match=store.full_text) as first:
        failed.close()
    assert first.value.errno == store.full_errno
    with pytest.raises(hflush.StreamClosedError) as later:
        failed.write(b"x")
    chain = [str(later.value), repr(later.value.__cause__), repr(later.value.__context__)]
    assert any(store.full_text in text for text in chain), chain


@pytest.mark.rule("FAIL-14")
@pytest.mark.stores("raw", "crc")
def test_error_survives_the_way_from_the_core(store: Store, path: str) -> None:
    """FAIL-14: an error of the core keeps path, errno and message, from a thread and pickled."""
    peer = store.spawn()
    peer.run("import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))")
    peer.run("out = fs.create(path)", path=path)
    with pytest.raises(OSError, match=store.full_text) as caught:
        peer.run(
            "from support.waiting import Task\n"
            "Task(out.write, bytes(8 << 20)).result()\n"
            "out.close()"
        )
    assert (caught.value.errno, caught.value.filename) == (store.full_errno, store.filename(path))


@pytest.mark.rule("FAIL-15")
@pytest.mark.stores("hdfs")
def test_a_temporary_file_that_cannot_be_removed(store: HdfsStore, path: str) -> None:
    """FAIL-15: the NameNode refuses to finish and to delete it; the first failure is reported."""
    conf = {**store.conf, "hflush.hdfs.namenode.patience": 0}
    manager = CheckpointFileManager.create(store.url(), conf)
    out = manager.create_atomic(path, False)
    out.write(b"data")
    with store.hdfs.safe_mode():
        with pytest.raises(ZeroDivisionError, match=r"^first") as caught, out:
            raise ZeroDivisionError("first")
        (left,) = store.hdfs.java.names(store.root)
    assert not store.fs.exists(path)
    assert left.endswith(".tmp")
    assert str(caught.value) == "first"


@pytest.mark.rule("FAIL-15")
@pytest.mark.stores("raw", "crc")
@pytest.mark.shim
def test_a_sidecar_or_temporary_file_that_cannot_be_removed(
    store: Store, faults: Faults, path: str
) -> None:
    """FAIL-15: the same, where the system refuses to unlink it."""
    manager = CheckpointFileManager.create(store.url(), store.conf)
    out = manager.create_atomic(path, False)
    out.write(b"data")
    refused = faults.fail("unlink", errno.EIO)
    with pytest.raises(ZeroDivisionError, match=r"^first") as caught, out:
        raise ZeroDivisionError("first")
    assert str(caught.value) == "first"
    assert refused.applied >= 1
    assert not store.fs.exists(path)


@pytest.mark.rule("FAIL-3")
@pytest.mark.stores(*FILES)
def test_a_file_that_is_gone_does_not_mask_the_failure(store: Store, path: str) -> None:
    """With file and directory gone as well, the failure reported is the first one."""
    out = store.fs.create(store.path("gone", "file"))
    out.write(bytes(1000))
    store.fs.delete(store.path("gone"), recursive=True)
    # A NameNode sees that the file is gone before it looks for room.
    noticed = store.options["single-writer"]
    first = errno.ESTALE if noticed else store.full_errno
    with (
        store.full(10),
        pytest.raises(OSError, match="gone" if noticed else store.full_text) as caught,
    ):
        out.close()
    assert caught.value.errno == first
