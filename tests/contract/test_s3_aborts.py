"""S3: what is never published. Abort, exceptions, streams that are dropped, processes that end."""

from __future__ import annotations

import contextlib
import csv
import gc
import io
import os
import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator

import hflush
import pytest
from hflush.capabilities import ABORTABLE
from support.data import dataset
from support.fault_proxy import FaultProxy
from support.s3_front import answer, hold
from support.stores import S3Store
from support.waiting import DEADLINE_S, Task, together, wait_until

Stream = hflush.FSDataOutputStream

MIB = 1 << 20
PART = 5 * MIB
SIZES = [0, 10, 2 * PART + 10]

pytestmark = pytest.mark.stores("s3")


@pytest.fixture
def fs(store: S3Store, s3_proxy: FaultProxy) -> hflush.FileSystem:
    return store.behind(s3_proxy)


@pytest.fixture
def held(s3_proxy: FaultProxy) -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture(params=["nothing", "an object"])
def before(request: pytest.FixtureRequest, store: S3Store, path: str) -> bytes | None:
    """What is at the path before the test."""
    if request.param == "nothing":
        return None
    store.write(path, b"old")
    return b"old"


def assert_unchanged(store: S3Store, path: str, before: bytes | None) -> None:
    """Nothing was published, and no upload is left."""
    wait_until(lambda: store.uploads() == [], "uploads are aborted")
    if before is None:
        assert not store.exists(path)
    else:
        assert store.content(path) == before


@pytest.mark.rule(
    "ABORT-1", "ABORT-2", "ABORT-3", "ABORT-4", "ABORT-9", "ABORT-11", "WRITE-12", "FLUSH-2"
)
@pytest.mark.parametrize("size", SIZES)
def test_abort_publishes_nothing(
    store: S3Store, path: str, before: bytes | None, size: int
) -> None:
    """The path is as it was; write is refused; flush, close and abort do nothing any more."""
    client = store.client(fs_s3a_multipart_size="5M")
    assert client.has_path_capability(path, ABORTABLE)
    assert client.contract_options["supports-abort"] is True
    out = client.create(path)
    assert out.has_capability(ABORTABLE)
    out.write(dataset(size))
    result = out.abort()
    assert (result.already_closed, result.cleanup_exception) == (False, None)
    assert out.closed
    for write in (lambda: out.write(b"x"), lambda: out.write(b""), lambda: out.write_byte(1)):
        with pytest.raises(hflush.StreamClosedError) as refusal:
            write()
        assert refusal.value.filename == store.filename(path)
    assert out.flush() is None
    assert out.close() is None
    assert (out.abort().already_closed, out.abort().cleanup_exception) == (True, None)
    assert_unchanged(store, path, before)


@pytest.mark.rule("ABORT-11", "CREATE-19")
def test_abort_of_an_unwritten_stream_asks_for_nothing(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str
) -> None:
    """Neither an object nor an upload is made, not even for a moment."""
    out = fs.create(path)
    sent = len(s3_proxy.log)
    assert out.abort().already_closed is False
    assert s3_proxy.log[sent:] == []
    assert store.on_disk() == []


@pytest.mark.rule("ABORT-5")
def test_abort_after_close_keeps_the_object(store: S3Store, path: str) -> None:
    """It says that the stream was closed, and the published object stays."""
    out = store.fs.create(path)
    out.write(b"kept")
    out.close()
    assert (out.abort().already_closed, out.abort().cleanup_exception) == (True, None)
    assert store.content(path) == b"kept"


@pytest.mark.rule("ABORT-6", "ABORT-8", "OBJ-8", "FAIL-15")
def test_a_clean_up_that_fails_is_in_the_result(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str
) -> None:
    """AbortMultipartUpload is refused: abort returns, says so, and the upload can be found."""
    s3_proxy.fail("AbortMultipartUpload", answer(403, "AccessDenied"), times=None)
    out = fs.create(path)
    out.write(dataset(2 * PART))
    s3_proxy.wait_for("UploadPart", 2)
    result = out.abort()
    assert result.already_closed is False
    assert not store.exists(path)
    ((key, upload_id),) = store.uploads()
    assert key == store.key(path)
    if result.cleanup_exception is not None:
        assert isinstance(result.cleanup_exception, OSError)
        assert "AccessDenied" in str(result.cleanup_exception)
    assert s3_proxy.count("AbortMultipartUpload") >= 1
    s3_proxy.heal()
    store.s3.abort(key, upload_id)


@pytest.mark.rule("ABORT-6", "ABORT-12")
@pytest.mark.parametrize("elsewhere", ["aborted", "completed"])
def test_an_upload_that_ended_elsewhere(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str, elsewhere: str
) -> None:
    """An upload that somebody else aborted or completed: abort does not raise."""
    out = fs.create(path)
    out.write(dataset(PART))
    wait_until(
        lambda: out.io_statistics().counters["stream_write_block_uploads_committed"] == 1,
        "the part is there",
    )
    ((key, upload_id),) = store.uploads()
    if elsewhere == "aborted":
        store.s3.abort(key, upload_id)
    else:
        store.s3.complete(key, upload_id)
    result = out.abort()
    assert (result.already_closed, result.cleanup_exception) == (False, None)
    assert store.exists(path) == (elsewhere == "completed")
    assert store.uploads() == []


@pytest.mark.rule("ABORT-7", "ABORT-8", "ABORT-2")
def test_abort_while_a_writer_waits(
    store: S3Store,
    s3_proxy: FaultProxy,
    path: str,
    before: bytes | None,
    held: threading.Event,
) -> None:
    """Abort from another thread ends a write that waits; parts that end later change nothing."""
    s3_proxy.fail("UploadPart", hold(held), times=None)
    client = store.behind(s3_proxy, fs_s3a_fast_upload_active_blocks="1")
    out = client.create(path)

    def write_all() -> None:
        for _ in range(64):
            out.write(dataset(MIB))

    writing = Task(write_all)
    s3_proxy.wait_for("UploadPart")
    result = Task(out.abort).result()
    assert result.already_closed is False
    with pytest.raises(hflush.StreamClosedError):
        writing.result()
    assert out.close() is None
    assert out.abort().already_closed is True
    held.set()
    assert_unchanged(store, path, before)
    assert s3_proxy.count("CompleteMultipartUpload") == 0


@pytest.mark.rule("ABORT-10", "CLOSE-22", "CONC-1")
@pytest.mark.parametrize("size", [10, PART + 10])
def test_close_and_abort_race(store: S3Store, size: int) -> None:
    """Exactly one wins: a whole object and already_closed, or nothing and a quiet close."""
    client = store.client(fs_s3a_multipart_size="5M")
    chance = random.Random(5)
    seen = set()
    data = dataset(size)
    for number in range(60 if size < PART else 12):
        path = store.path(f"race-{number}")
        out = client.create(path)
        out.write(data)
        calls: list[Callable[[], object]] = [out.close, out.abort]
        chance.shuffle(calls)
        results = together(*calls)
        result = next(each for each in results if each is not None)
        published = store.exists(path)
        assert published == result.already_closed
        assert not published or store.content(path) == data
        seen.add(published)
    wait_until(lambda: store.uploads() == [], "uploads are aborted")
    assert seen  # which of both wins is a matter of luck


class BodyError(Exception):
    """Raised in the body of a `with`."""


def leave_by_error(out: Stream, wrap: Callable[[Stream], object], size: int) -> None:
    with out:
        wrap(out)
        out.write(dataset(size))
        raise BodyError


@pytest.mark.rule("CLOSE-18", "CLOSE-21", "ABORT-2")
@pytest.mark.parametrize("size", SIZES)
def test_an_exception_in_a_with_block(
    store: S3Store, path: str, before: bytes | None, size: int
) -> None:
    """Leaving the block by an exception publishes nothing, and raises just that."""
    client = store.client(fs_s3a_multipart_size="5M")
    out = client.create(path)
    with pytest.raises(BodyError) as caught:
        leave_by_error(out, lambda _: None, size)
    assert caught.value.__context__ is None
    assert out.closed
    assert_unchanged(store, path, before)


@pytest.mark.rule("CLOSE-18", "CLOSE-21")
@pytest.mark.parametrize("size", [10, 2 * PART + 10])
def test_an_exception_in_a_block_over_text(
    store: S3Store, path: str, before: bytes | None, size: int
) -> None:
    """The text that hflush.open gives publishes nothing either."""

    def use() -> None:
        with hflush.open(store.url(path), "w", conf=store.conf) as text:
            csv.writer(text).writerow(["a", "b"])
            text.write("x" * size)
            raise BodyError

    with pytest.raises(BodyError):
        use()
    assert_unchanged(store, path, before)


@pytest.mark.rule("CLOSE-18", "CLOSE-21")
@pytest.mark.parametrize("kind", ["gzip", "zip", "buffer", "parquet"])
def test_an_exception_in_a_block_over_a_wrapper(
    store: S3Store, path: str, before: bytes | None, kind: str
) -> None:
    """With the stream's own block outside, no wrapper inside publishes on an exception."""
    import gzip
    import zipfile

    def use() -> None:
        with store.fs.create(path) as raw:
            if kind == "gzip":
                with gzip.open(raw, "wb") as inner:
                    inner.write(b"x" * 1000)
                    raise BodyError
            if kind == "zip":
                with zipfile.ZipFile(raw, "w") as archive:
                    archive.writestr("a", b"x")
                    raise BodyError
            if kind == "buffer":
                buffer = io.BufferedWriter(raw)
                buffer.write(b"x" * 100_000)
                buffer.flush()
                raise BodyError
            import pyarrow as pa
            import pyarrow.parquet as pq

            table = pa.table({"a": list(range(1000))})
            with pq.ParquetWriter(raw, table.schema) as writer:
                writer.write_table(table)
                raise BodyError

    with pytest.raises(BodyError):
        use()
    gc.collect()
    assert_unchanged(store, path, before)


@pytest.mark.rule("CLOSE-21", "ABORT-2")
@pytest.mark.parametrize("size", [10, 2 * PART + 10])
def test_a_dropped_stream(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str, before, size: int
) -> None:
    """A stream that nobody has any more warns; nothing is published, its upload is aborted."""
    out = fs.create(path)
    out.write(dataset(size))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del out
        gc.collect()
    assert [warning.category for warning in caught] == [hflush.NotPublishedWarning]
    assert path in str(caught[0].message)
    assert_unchanged(store, path, before)
    assert s3_proxy.count("CompleteMultipartUpload") == 0


# What a process does last, with a stream `out` open that has two blocks on their way, and its exit
# code then.
ENDS = {
    "the end of the script": ("", 0),
    "sys.exit": ("import sys; sys.exit(3)", 3),
    "an exception": ("raise KeyError('lost')", 1),
    "a writing thread": (
        "import threading; threading.Thread(target=out.write, args=(bytes(1 << 20),)).start()",
        0,
    ),
    "os._exit": ("import os; os._exit(3)", 3),
    "SIGTERM": ("import os, signal; os.kill(os.getpid(), signal.SIGTERM); signal.pause()", -15),
    "SIGKILL": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9),
}

SCRIPT = """
import hflush
fs = hflush.FileSystem.get({url!r}, {conf!r})
out = fs.create({path!r})
out.write(bytes({size}))
"""


@pytest.mark.rule("CLOSE-21", "CLOSE-23", "CLOSE-26", "OBJ-8")
@pytest.mark.parametrize("end", ENDS)
def test_a_process_that_ends(store: S3Store, path: str, end: str) -> None:
    """However a process ends with a stream open, nothing is published; what is left is found."""
    assert store.options["partial-data-on-crash"] == "previous object or nothing"
    store.write(path, b"old")
    conf = {**store.conf, "fs.s3a.multipart.size": "5M"}
    script = SCRIPT.format(url=store.url(), conf=conf, path=path, size=2 * PART + 10) + ENDS[end][0]
    ended = subprocess.run(
        [sys.executable, "-c", script],
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ended.returncode == ENDS[end][1], ended.stderr
    if ENDS[end][1] >= 0 and "_exit" not in end:
        assert "NotPublishedWarning: never closed, not published" in ended.stderr
        assert store.url(path) in ended.stderr
    assert store.content(path) == b"old"
    for key, upload_id in store.uploads():  # of those that had no time to abort
        assert key == store.key(path)
        store.s3.abort(key, upload_id)
    assert store.content(path) == b"old"
    store.write(path, b"again")
    assert store.content(path) == b"again"


@pytest.mark.rule("OBJ-8", "CLOSE-23")
def test_uploads_left_behind_are_found_and_aborted(store: S3Store, path: str) -> None:
    """After kill -9 in mid-upload the old object is there; the upload is listed and abortable."""
    store.write(path, b"old")
    writer = store.spawn()
    writer.run(
        "out = hflush.create(url, conf=conf); out.write(bytes(size))",
        url=store.url(path),
        conf={**store.conf, "fs.s3a.multipart.size": "5M"},
        size=3 * PART,
    )
    wait_until(lambda: store.uploads() != [], "the upload has begun")
    writer.kill()
    assert store.content(path) == b"old"
    (found,) = store.fs.list_multipart_uploads(store.root)
    assert found.path in {path, store.public(path)}
    assert store.fs.abort_multipart_uploads(store.root, 3600) == 0  # it may be somebody's yet
    assert len(store.uploads()) == 1
    assert store.fs.abort_multipart_uploads(store.root, 0) == 1
    assert store.uploads() == []
    assert list(store.fs.list_multipart_uploads(store.root)) == []
    assert store.content(path) == b"old"


@pytest.mark.rule("CONC-12", "CLOSE-21")
@pytest.mark.parametrize("size", [10, 2 * PART + 10])
def test_a_forked_child_sends_nothing(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str, size: int
) -> None:
    """The child's copy of a stream neither publishes nor aborts; the parent's goes on."""
    out = fs.create(path)
    out.write(dataset(size))
    s3_proxy.wait_for("UploadPart", size // PART)
    sent = {request.operation for request in s3_proxy.log}
    aborted = s3_proxy.count("AbortMultipartUpload")  # of a store that repeats no checksums
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            for call in (lambda: out.write(b"x"), out.close, out.abort):
                with contextlib.suppress(OSError):
                    call()
            code = 0
        os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert not store.exists(path)
    assert {request.operation for request in s3_proxy.log} == sent
    out.write(b"more")
    out.close()
    assert store.content(path) == dataset(size) + b"more"
    assert s3_proxy.count("AbortMultipartUpload") == aborted
