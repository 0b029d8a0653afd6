"""After a failure nothing pretends: it sticks, close reports it once, everything is released."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import hflush
import pytest
from faults.expecting import any_os_error, os_error
from faults.shim.control import Faults, named
from support.data import dataset
from support.process import descriptors_under
from support.stores import Store

pytestmark = pytest.mark.shim


def chain(error: BaseException | None) -> list[BaseException]:
    """The error, its cause or context, and so on."""
    links = []
    while error is not None:
        links.append(error)
        error = error.__cause__ or error.__context__
    return links


@pytest.mark.rule("HSYNC-12", "HSYNC-4", "FAIL-1")
@pytest.mark.stores("raw")
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS], ids=named)
def test_failed_sync_sticks(faults: Faults, store: Store, error: int) -> None:
    """fsync fails once and then works: hsync, hsync again and close raise; no write is taken."""
    out = store.fs.create(store.path("file"))
    out.write(b"data")
    faults.fail("sync", error, "*/file", limit=1)
    with os_error(error):
        out.hsync()
    mark = faults.position
    for call in (out.hsync, out.hflush, lambda: out.write(b"more")):
        with any_os_error():
            call()
    with os_error(error):
        out.close()
    assert out.close() is None
    assert faults.calls("sync", "write", since=mark) == []


@pytest.mark.rule("HSYNC-14", "HSYNC-4", "FAIL-1")
@pytest.mark.stores("raw")
def test_failed_directory_sync_is_reported(faults: Faults, store: Store) -> None:
    """If the name may not survive, the call fails."""
    out = store.fs.create(store.path("file"))
    out.write(b"data")
    faults.fail("sync", errno.EIO, store.root)
    with os_error(errno.EIO):
        out.hsync()
    with any_os_error():
        out.close()


@pytest.mark.rule("HFLUSH-13", "FAIL-1")
@pytest.mark.stores("raw")
def test_failed_hflush_sticks(faults: Faults, store: Store) -> None:
    """A failed write(2) during hflush is raised, and nothing is reported flushed afterwards."""
    out = store.fs.create(store.path("file"))
    out.write(b"data")
    faults.fail("write", errno.EIO, limit=1)
    with os_error(errno.EIO) as caught:
        out.hflush()
    assert caught.value.filename == store.path("file")
    for call in (out.hflush, out.hsync, lambda: out.write(b"more")):
        with any_os_error():
            call()
    with any_os_error():
        out.close()


@pytest.mark.rule("CLOSE-6", "CLOSE-7", "CLOSE-8", "CLOSE-19", "FAIL-1", "FLUSH-2", "WRITE-12")
@pytest.mark.parametrize(
    ("operation", "error"),
    [("write", errno.EIO), ("close", errno.EIO), ("close", errno.EINTR)],
    ids=named,
)
def test_failed_close_happens_once(
    faults: Faults, store: Store, operation: str, error: int
) -> None:
    """close fails: the stream is closed, descriptors are gone, a second close does no I/O.

    FUSE and NFS write in close(2), and an EINTR says that they have not ended it.
    """
    out = store.fs.create(store.path("file"))
    out.write(b"data")
    faults.fail(operation, error, "*/file")
    with os_error(error) as caught:
        out.close()
    assert caught.value.filename == store.path("file")
    assert descriptors_under(store.root) == []
    mark = faults.position
    assert out.closed
    assert out.close() is None
    assert out.flush() is None
    for call in (lambda: out.write(b"x"), lambda: out.write(b""), lambda: out.write_byte(1)):
        with pytest.raises(hflush.StreamClosedError) as rejected:
            call()
        assert not isinstance(rejected.value, io.UnsupportedOperation)
    if out.has_capability("hsync"):
        for call in (out.hflush, out.hsync):
            with pytest.raises(hflush.StreamClosedError):
                call()
    assert out.tell() == 4
    assert faults.position == mark


@pytest.mark.rule("FAIL-13", "CLOSE-19")
def test_later_errors_name_the_first_cause(faults: Faults, store: Store) -> None:
    """After a failed close a write says the stream is closed, because of the original failure."""
    out = store.fs.create(store.path("file"))
    out.write(b"data")
    faults.fail("write", errno.ENOSPC, "*/file")
    with os_error(errno.ENOSPC) as first:
        out.close()
    with pytest.raises(hflush.StreamClosedError) as later:
        out.write(b"more")
    assert later.value is not first.value
    causes = chain(later.value)[1:]
    assert any(isinstance(cause, OSError) and cause.errno == errno.ENOSPC for cause in causes)


@pytest.mark.rule("FAIL-13", "FAIL-3", "FAIL-14")
@pytest.mark.stores("raw")
@pytest.mark.parametrize(("operation", "word"), [("write", "write"), ("sync", "sync")])
def test_errors_say_what_where_and_which_number(
    faults: Faults, store: Store, operation: str, word: str
) -> None:
    """The errors of the call and of close say all; the one between has it as its cause."""
    path = store.path("file")
    out = store.fs.create(path)
    out.write(b"data")
    faults.fail(operation, errno.EIO, "*/file", limit=1)
    for call in (out.hsync, out.hsync, out.close):
        with any_os_error() as caught:
            call()
        assert caught.value.filename == path
        failure = next(
            link for link in chain(caught.value) if getattr(link, "errno", 0) == errno.EIO
        )
        assert call is not out.close or failure is caught.value
        assert path in str(failure)
        assert word in str(failure)


@pytest.mark.rule("CLOSE-18", "FAIL-13")
def test_close_failure_leaves_the_with_block(faults: Faults, store: Store) -> None:
    """`with` raises what close raises; an exception of the body stays the primary one."""
    faults.fail("write", errno.EIO, "*/file")
    with os_error(errno.EIO), store.fs.create(store.path("file")) as out:
        out.write(b"data")

    def raise_inside() -> None:
        with store.fs.create(store.path("file")) as out:
            out.write(b"data")
            raise KeyError("body")

    with pytest.raises(KeyError) as primary:
        raise_inside()
    attached = chain(primary.value)[1:] + getattr(primary.value, "__notes__", [])
    assert any("file" in str(link) for link in attached)


@pytest.mark.rule("CLOSE-11", "LOCAL-5")
@pytest.mark.stores("crc")
@pytest.mark.parametrize("operation", ["write", "close"])
@pytest.mark.parametrize("target", ["*/file", "*/.file.crc"])
@pytest.mark.parametrize("before", [None, b"old content"], ids=["new", "over another"])
def test_failed_close_leaves_no_lying_sidecar(
    faults: Faults, store: Store, before: bytes | None, target: str, operation: str
) -> None:
    """After a failed close a sidecar either fits its data or is not there."""
    path = store.path("file")
    if before is not None:
        store.write(path, before)
    out = store.fs.create(path)
    out.write(dataset(5000))
    faults.fail(operation, errno.EIO, target)
    with os_error(errno.EIO):
        out.close()
    faults.stop()
    if Path(store.root, ".file.crc").exists():
        assert dataset(5000).startswith(store.read(path))


@pytest.mark.rule("CREATE-9", "LOCAL-5")
@pytest.mark.stores("crc")
@pytest.mark.parametrize("operation", ["open", "write"])
def test_create_that_fails_at_the_sidecar(faults: Faults, store: Store, operation: str) -> None:
    """Over an existing file, a create without a sidecar leaves none that speaks for other data."""
    path = store.write(store.path("file"), dataset(3000))
    faults.fail(operation, errno.EIO, "*/.file.crc")
    with os_error(errno.EIO):
        store.fs.create(path)
    assert descriptors_under(store.root) == []
    faults.stop()
    if Path(store.root, ".file.crc").exists():
        assert store.read(path) in {b"", dataset(3000)}


@pytest.mark.rule("CREATE-9", "CLOSE-8", "FAIL-3")
@pytest.mark.parametrize("error", [errno.EMFILE, errno.EACCES, errno.ENOSPC, errno.EIO], ids=named)
@pytest.mark.parametrize("target", ["*/file", "*/.file.crc"])
def test_failed_create_leaves_nothing(
    faults: Faults, store: Store, target: str, error: int
) -> None:
    """When a file or its sidecar cannot be opened create says so, and leaves neither."""
    faults.fail("open", error, target if store.name == "crc" else "*/file")
    with os_error(error) as caught:
        store.fs.create(store.path("file"))
    assert "file" in str(caught.value.filename)
    assert os.listdir(store.root) == []
    assert descriptors_under(store.root) == []


@pytest.mark.rule("CLOSE-8", "FAIL-15")
def test_thousand_failed_streams_leak_nothing(faults: Faults, store: Store) -> None:
    """A failed stream costs nothing after its close."""
    faults.fail("write", errno.EIO, "*/file?")
    for number in range(1000):
        out = store.fs.create(store.path(f"file{number % 7}"))
        out.write(b"data")
        with any_os_error():
            out.close()
    assert descriptors_under(store.root) == []


@pytest.mark.stores("raw")
def test_a_cut_that_was_not_synced(faults: Faults, store: Store) -> None:
    """The commit that follows finds nothing to cut, and syncs it."""
    with store.fs.create(store.path("file")) as out:
        out.write(b"kept")
        token = out.persist()
        out.write(b"dropped")
    faults.fail("sync", errno.EIO, "*/file", limit=1)
    with os_error(errno.EIO):
        hflush.commit(token, conf=store.conf)
    hflush.commit(token, conf=store.conf)
    assert [call.result for call in faults.calls("sync", path="*/file")][-2:] == [-1, 0]
    assert store.read(store.path("file")) == b"kept"
