"""S3: requests that fail, between us and a real server. tests/faults has the whole table."""

from __future__ import annotations

import errno
import socket
import threading

import hflush
import pytest
from support.data import dataset
from support.fault_proxy import FaultProxy
from support.interrupts import interrupted
from support.s3_front import (
    Exchange,
    answer,
    corrupt_request,
    execute_and_answer,
    hold,
    lose_answer,
    reset_after,
)
from support.stores import S3Store
from support.waiting import DEADLINE_S, wait_until

Stream = hflush.FSDataOutputStream

MIB = 1 << 20
PART = 5 * MIB

pytestmark = pytest.mark.stores("s3")


@pytest.fixture
def fs(store: S3Store, s3_proxy: FaultProxy) -> hflush.FileSystem:
    return store.behind(s3_proxy, fs_s3a_retry_limit="3")


def write_parts(out: Stream, count: int) -> None:
    for number in range(count):
        out.write(bytes([number]) * PART)


def failure_of(out: Stream, count: int) -> OSError:
    """The error that writing so many parts, or else close, raises."""
    with pytest.raises(OSError, match=r".") as caught:
        write_and_close(out, count)
    return caught.value


def write_and_close(out: Stream, count: int) -> None:
    write_parts(out, count)
    out.write(b"tail")
    out.close()


def assert_nothing_published(
    store: S3Store, proxy: FaultProxy, path: str, before: bytes | None = None
) -> None:
    assert proxy.count("CompleteMultipartUpload") == 0
    assert (store.content(path) if store.exists(path) else None) == before
    wait_until(lambda: store.uploads() == [], "the upload is aborted")


# --- parts ---


@pytest.mark.rule("WRITE-20", "FAIL-3", "FAIL-12", "FAIL-14", "CLOSE-6", "CLOSE-7", "CLOSE-11")
def test_a_part_that_fails_is_raised_by_the_next_call(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str
) -> None:
    """A refused part fails the stream: the error says what, where and why; nothing is published."""
    store.write(path, b"old")
    s3_proxy.fail("UploadPart", answer(403, "AccessDenied"), part=2, times=None)
    out = fs.create(path)
    with pytest.raises(PermissionError) as caught:
        write_parts(out, 30)
    error = caught.value
    assert error.filename == store.filename(path)
    for fact in ("UploadPart", "AccessDenied", "403", "TESTREQUEST", str(s3_proxy.port)):
        assert fact in str(error)
    with pytest.raises(hflush.StreamClosedError) as refusal:
        out.write(b"x")
    assert "failed" in str(refusal.value)
    assert out.flush() is None
    first = close_error(out)
    assert first is None or isinstance(first, PermissionError)
    assert close_error(out) is None
    assert isinstance(out.has_capability("hsync"), bool)
    assert out.io_statistics().counters["stream_write_exceptions"] >= 1
    assert_nothing_published(store, s3_proxy, path, b"old")


def close_error(out: Stream) -> OSError | None:
    try:
        out.close()
    except OSError as error:
        return error
    return None


@pytest.mark.rule("CLOSE-9", "FAIL-13", "CLOSE-11")
def test_two_parts_fail_at_once(store: S3Store, s3_proxy: FaultProxy, path: str) -> None:
    """The one that is heard of first is raised, and the rest of the upload is given up."""
    both = threading.Barrier(2)

    def refuse_together(exchange: Exchange) -> None:
        exchange.read_request()
        both.wait(DEADLINE_S)
        answer(403, "AccessDenied")(exchange)

    for part in (2, 4):
        s3_proxy.fail("UploadPart", refuse_together, part=part, times=None)
    client = store.behind(s3_proxy, fs_s3a_fast_upload_active_blocks="5")
    error = failure_of(client.create(path), 4)
    assert isinstance(error, PermissionError)
    assert error.filename == store.filename(path)
    assert_nothing_published(store, s3_proxy, path)


@pytest.mark.rule("FAIL-10", "OBJ-6", "FAIL-7")
@pytest.mark.parametrize(
    "fault",
    [
        answer(500, "InternalError"),
        answer(503, "SlowDown"),
        answer(400, "RequestTimeout"),
        reset_after,
        lose_answer,
        corrupt_request(1000),
    ],
    ids=lambda fault: fault.__name__,
)
def test_what_passes_is_tried_again(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str, fault
) -> None:
    """One bad attempt of part 1, of the PUT, of the Create: the same again, and all is well."""
    s3_proxy.fail("UploadPart", fault, part=1)
    out = fs.create(path)
    write_and_close(out, 2)
    assert store.content(path) == bytes(PART) + bytes([1]) * PART + b"tail"
    sent = s3_proxy.calls("UploadPart", part=1)
    assert len(sent) == 2
    assert store.uploads() == []
    s3_proxy.fail("PutObject", fault)
    small = store.path("small")
    with fs.create(small) as out:
        out.write(dataset(2000))
    assert store.content(small) == dataset(2000)


@pytest.mark.rule("OBJ-17", "FAIL-1")
def test_bytes_that_change_on_the_way_are_refused(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str
) -> None:
    """A bit flips in every attempt: the store's refusal is the error, and nothing is there."""
    s3_proxy.fail("UploadPart", corrupt_request(1000), part=1, times=None)
    error = failure_of(fs.create(path), 2)
    assert error.filename == store.filename(path)
    assert any(word in str(error) for word in ("Checksum", "Digest"))
    assert s3_proxy.count("UploadPart", part=1) > 1
    assert_nothing_published(store, s3_proxy, path)


# --- the publication ---


@pytest.mark.rule("CLOSE-11", "CLOSE-6", "CLOSE-17", "CLOSE-19", "FAIL-15", "OBJ-9")
@pytest.mark.parametrize(
    "fault",
    [
        answer(403, "AccessDenied"),
        answer(200, "InternalError"),
        answer(500, "InternalError"),
        answer(200, body=""),
    ],
    ids=lambda fault: fault.__name__,
)
def test_a_completion_that_fails(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str, fault
) -> None:
    """No success is reported; the old object stays, the upload is aborted, nothing comes later."""
    store.write(path, b"old")
    s3_proxy.fail("CompleteMultipartUpload", fault, times=None)
    out = fs.create(path)
    write_parts(out, 2)
    with pytest.raises(OSError, match="CompleteMultipartUpload") as caught:
        out.close()
    assert caught.value.filename == store.filename(path)
    asked = s3_proxy.count("CompleteMultipartUpload")
    s3_proxy.heal()
    assert [out.close(), out.close()] == [None, None]
    assert s3_proxy.count("CompleteMultipartUpload") == asked
    assert store.content(path) == b"old"
    wait_until(lambda: store.uploads() == [], "the upload is aborted")


@pytest.mark.rule("OBJ-10", "FAIL-10", "FAIL-1", "OBJ-9")
@pytest.mark.parametrize(
    "fault",
    [
        lose_answer,
        execute_and_answer(500, "InternalError"),
        execute_and_answer(200, body=""),
        execute_and_answer(200, "InternalError"),
        execute_and_answer(404, "NoSuchUpload"),
    ],
    ids=lambda fault: fault.__name__,
)
@pytest.mark.parametrize("condition", [False, True], ids=["overwrite", "if absent"])
def test_a_completion_whose_answer_is_lost(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str, fault, condition: bool
) -> None:
    """Executed, but not answered so: what is at the key says that it was a success."""
    out = fs.create(path, overwrite=not condition)
    s3_proxy.fail("CompleteMultipartUpload", fault)
    write_and_close(out, 1)
    assert store.content(path) == bytes(PART) + b"tail"
    assert store.uploads() == []
    assert s3_proxy.count("HeadObject") >= 1


@pytest.mark.rule("FAIL-10", "OBJ-10", "BUILDER-16")
@pytest.mark.parametrize(
    "fault", [lose_answer, execute_and_answer(500, "InternalError")], ids=lambda f: f.__name__
)
def test_a_conditional_put_whose_answer_is_lost(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str, fault
) -> None:
    """The second attempt meets our own object: that is success, and no FileExistsError."""
    out = fs.create(path, overwrite=False)
    s3_proxy.fail("PutObject", fault)
    out.write(b"mine")
    out.close()
    assert store.content(path) == b"mine"


@pytest.mark.rule("FAIL-11", "FAIL-10", "OBJ-10", "FAIL-2", "FAIL-1")
def test_an_outcome_that_nobody_knows(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str
) -> None:
    """Executed, lost, and then replaced by somebody else: the error says that it is unknown."""
    s3_proxy.fail("CompleteMultipartUpload", lose_answer, times=None)
    out = fs.create(path)
    s3_proxy.fail("HeadObject", reset_after, times=None)
    write_parts(out, 2)
    with pytest.raises(OSError, match="unknown") as caught:
        out.close()
    assert caught.value.filename == store.filename(path)
    assert out._state == "failed"
    assert out.close() is None
    s3_proxy.heal()
    assert fs.get_file_status(path).length == 2 * PART  # the caller can find out


@pytest.mark.rule("CLOSE-10", "FAIL-1")
@pytest.mark.parametrize("operation", ["PutObject", "UploadPart"])
def test_an_interrupted_close_is_no_success(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str, operation: str
) -> None:
    """Ctrl-C while close waits for bytes to arrive: nothing is published, the upload is aborted."""
    never = threading.Event()
    s3_proxy.fail(operation, hold(never), times=None)
    out = fs.create(path)
    out.write(dataset(10 if operation == "PutObject" else PART + 10))
    with pytest.raises(KeyboardInterrupt):
        interrupted(out.close)
    assert out.close() is None
    with pytest.raises(hflush.StreamClosedError):
        out.write(b"x")
    wait_until(lambda: store.uploads() == [], "the upload is aborted")
    assert not store.exists(path)
    assert s3_proxy.count("CompleteMultipartUpload") == 0


# --- no server ---


@pytest.mark.rule("FAIL-2", "FAIL-3", "FAIL-4", "FAIL-8")
@pytest.mark.parametrize("kind", ["refused", "name", "tls", "silent"])
def test_a_server_that_is_not_there(store: S3Store, path: str, kind: str) -> None:
    """No connection, no name, no TLS, no answer: an OSError that names operation and endpoint."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        endpoint = {
            "refused": "http://127.0.0.1:1",
            "name": "http://no-such-host.invalid",
            "tls": f"https://127.0.0.1:{store.s3.server.port}",
            "silent": f"http://127.0.0.1:{port}",
        }[kind]
        client = store.client(
            fs_s3a_endpoint=endpoint,
            fs_s3a_retry_limit="1",
            fs_s3a_retry_interval="5ms",
            fs_s3a_connection_timeout="300ms",
        )
        with pytest.raises(OSError, match=r"127\.0\.0\.1|no-such-host") as caught:
            client.get_file_status(path)
        assert caught.value.filename == store.filename(path)
        if kind == "silent":
            assert isinstance(caught.value, TimeoutError)
        if kind == "refused":
            assert caught.value.errno in {errno.ECONNREFUSED, errno.EIO}


@pytest.mark.rule("FAIL-12", "CREATE-16", "STATUS-15", "CLOSE-17")
def test_a_user_who_may_not(store: S3Store, path: str) -> None:
    """Without permission: PermissionError from close, open, list and delete; nothing changes."""
    store.write(path, b"kept")
    conf = store.s3.restricted("s3:GetBucketLocation")
    client = hflush.FileSystem.new_instance(store.url(), conf)
    for call in (
        lambda: client.open(path),
        lambda: client.list_status(store.root),
        lambda: client.delete(path),
        lambda: client.mkdirs(store.path("directory")),
        lambda: client.rename(path, store.path("other")),
    ):
        with pytest.raises(PermissionError) as refusal:
            call()
        assert refusal.value.filename

    def write() -> None:
        with client.create(store.path("new")) as out:
            out.write(b"x")

    with pytest.raises(PermissionError):
        write()
    client.close()
    assert store.on_disk() == ["file"]
    assert store.content(path) == b"kept"


@pytest.mark.rule("FAIL-12", "FAIL-1")
def test_a_user_who_may_only_read(store: S3Store, path: str) -> None:
    """What is forbidden is found out at close, at the latest; a session token is enough to read."""
    store.write(path, b"kept")
    conf = store.s3.restricted("s3:GetObject", "s3:ListBucket")
    client = hflush.FileSystem.new_instance(store.url(), conf)
    with client.open(path) as reader:
        assert reader.read() == b"kept"
    out = client.create(path)
    out.write(b"x")
    with pytest.raises(PermissionError):
        out.close()
    client.close()
    assert store.content(path) == b"kept"


# --- what takes several requests ---


@pytest.mark.rule("RENAME-27", "FAIL-15")
@pytest.mark.rule("OBJ-13", divergence="s3")
@pytest.mark.parametrize("operations", [["CopyObject"], ["DeleteObject", "DeleteObjects"]])
def test_a_rename_that_fails_midway_loses_nothing(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, operations: list[str]
) -> None:
    """Declared divergence: a rename is copies, then deletions; both names may be left, not none."""
    assert store.options["supports-atomic-rename"] is False
    source, target = store.path("source"), store.path("target")
    for name in ("a", "b", "c"):
        store.write(f"{source}/{name}", name.encode())
    for operation in operations:
        s3_proxy.fail(operation, answer(403, "AccessDenied"), times=None)
    with pytest.raises(PermissionError):
        fs.rename(source, target, hflush.Rename.NONE)
    for name in ("a", "b", "c"):
        assert store.content(f"{source}/{name}") == name.encode()


@pytest.mark.rule("DELETE-11")
@pytest.mark.rule("OBJ-13", divergence="s3")
def test_a_recursive_delete_that_fails_midway(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem
) -> None:
    """Keys that the store did not delete are an error; what is gone is gone, nothing else is."""
    assert store.options["supports-atomic-directory-delete"] is False
    tree = store.path("tree")
    for name in ("a", "b", "c"):
        store.write(f"{tree}/{name}", b"x")
    store.write(store.path("tree-not"), b"outside")
    body = (
        "<DeleteResult><Deleted><Key>" + store.key(f"{tree}/a") + "</Key></Deleted><Error><Key>"
        f"{store.key(tree + '/b')}</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
        "</DeleteResult>"
    )
    s3_proxy.fail("DeleteObjects", answer(200, body=body), times=None)
    s3_proxy.fail("DeleteObject", answer(403, "AccessDenied"), times=None)
    with pytest.raises(PermissionError):
        fs.delete(tree, recursive=True)
    assert store.content(f"{tree}/b") == b"x"
    assert store.content(store.path("tree-not")) == b"outside"
    s3_proxy.heal()
    assert fs.delete(tree, recursive=True) is True
    assert store.on_disk() == ["tree-not"]
