"""Answers of a proxy, a gateway or a login page in between: none is taken for the store's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import hflush
import pytest
from hflush.s3 import S3FileSystem
from support.s3_front import Answer, Exchange, Fault, Head, answer, make_answer
from support.scripted_s3 import BUCKET, MIB, ScriptedS3

ROOT = f"s3://{BUCKET}/"
QUICK = {
    "fs.s3a.multipart.size": "5M",
    "fs.s3a.retry.interval": "1ms",
    "fs.s3a.retry.throttle.interval": "1ms",
    "fs.s3a.retry.limit": "2",
}


def page(status: int) -> Fault:
    return answer(status, body="<html><body>Please log in</body></html>", content_type="text/html")


def not_of_s3(exchange: Exchange) -> None:
    """What a proxy answers that finds no server; HEAD has only the headers."""
    exchange.read_request()
    page = make_answer(404, "default backend - 404", content_type="text/plain")
    headers = [(name, value) for name, value in page.head.headers if not name.startswith("x-amz-")]
    exchange.send(Answer(Head(page.head.first, headers), page.body))


@pytest.fixture
def server() -> Iterator[ScriptedS3]:
    with ScriptedS3() as server:
        yield server


@pytest.fixture
def fs(server: ScriptedS3) -> Iterator[S3FileSystem]:
    with connect(server) as made:
        yield made


def connect(server: ScriptedS3, **conf: Any) -> S3FileSystem:
    given = {name.replace("_", "."): value for name, value in conf.items()}
    made = hflush.FileSystem.new_instance(ROOT, {**server.conf, **QUICK, **given})
    return cast("S3FileSystem", made)


class TestDeletes:
    """What is there is not taken for removed."""

    @pytest.mark.parametrize(
        "change",
        [
            lambda fs: fs.delete("/d/a"),
            lambda fs: fs.rename("/d/a", "/d/b"),
            lambda fs: fs.bulk_delete("/d").delete(["/d/a"]),
        ],
        ids=["delete", "rename", "bulk"],
    )
    def test_objects(
        self, server: ScriptedS3, fs: S3FileSystem, change: Callable[[S3FileSystem], object]
    ):
        server.put("d/a", b"data")
        server.fail("DeleteObject", not_of_s3)
        with pytest.raises(OSError, match=r"DeleteObject: .*404.*a proxy in between") as refusal:
            change(fs)
        assert not isinstance(refusal.value, FileNotFoundError)
        assert "d/a" in server.objects

    def test_a_store_that_says_no_more(self, server: ScriptedS3, fs: S3FileSystem):
        """One whose 404 has no document, of what is gone: HEAD confirms it."""

        def remove(exchange: Exchange) -> None:
            exchange.execute()
            exchange.send(make_answer(404))

        server.put("d/a", b"data")
        server.fail("DeleteObject", remove)
        assert fs.delete("/d/a")

    @pytest.mark.parametrize("operation", ["ListParts", "AbortMultipartUpload"])
    def test_uploads(self, server: ScriptedS3, fs: S3FileSystem, operation: str):
        uploader = fs.create_multipart_uploader("/")
        upload = uploader.start_upload("/a")
        with fs.create_pending("/b") as stream:
            stream.write(b"data")
        commit = stream.pending_commit
        assert commit is not None
        server.fail(operation, not_of_s3, times=None)
        for end in (
            lambda: uploader.abort(upload, "/a"),
            lambda: fs.abort_pending(commit),
        ):
            with pytest.raises(OSError, match=rf"{operation}: .*404.*a proxy in between"):
                end()
        assert len(server.uploads) == 2
        with pytest.raises(OSError, match=rf"{operation}: .*404.*a proxy in between"):
            fs.abort_multipart_uploads("/", older_than=0)
        server.heal()
        left = 2 if operation == "AbortMultipartUpload" else 0  # others are looked at after it
        assert fs.abort_multipart_uploads("/", older_than=0) == left

    def test_a_listing_that_is_not_found(self, server: ScriptedS3, fs: S3FileSystem):
        """The directory is not called missing."""
        server.put("d/a", b"data")
        server.fail("ListObjectsV2", not_of_s3, times=None)
        with pytest.raises(OSError, match="a proxy in between"):
            fs.exists("/d")


class TestHeads:
    """Its answers have no document: a 404 that nothing marks as S3's is compared with a listing."""

    def test_of_what_is_there(self, server: ScriptedS3):
        fs = connect(server, fs_s3a_create_conditional_enabled="false")
        server.put("d/a", b"precious")
        server.fail("HeadObject", not_of_s3, times=None)
        for look in (
            lambda: fs.create("/d/a", overwrite=False),
            lambda: fs.exists("/d/a"),
            lambda: fs.open("/d/a"),
            lambda: fs.delete("/d/a"),
        ):
            with pytest.raises(OSError, match=r"HeadObject: .*404.*a proxy in between") as refusal:
                look()
            assert not isinstance(refusal.value, FileNotFoundError)
        assert server.objects["d/a"].data == b"precious"

    def test_of_what_is_missing(self, server: ScriptedS3, fs: S3FileSystem):
        """A store that marks none of its answers is believed."""
        server.fail("HeadObject", not_of_s3, times=None)
        assert not fs.exists("/d/a")
        with pytest.raises(FileNotFoundError):
            fs.open("/d/a")
        server.fail("ListObjectsV2", not_of_s3, times=None)
        with pytest.raises(OSError, match="a proxy in between"):
            fs.exists("/d/a")

    def test_of_an_object_without_a_length(self, server: ScriptedS3, fs: S3FileSystem):
        """How long it is is no page's to say, either."""
        server.put("a", b"data")

        def no_length(exchange: Exchange) -> None:
            full = exchange.execute()
            kept = [(n, v) for n, v in full.head.headers if n.lower() != "content-length"]
            exchange.send(Answer(Head(full.head.first, kept)))

        server.fail("HeadObject", no_length, times=None)
        server.fail("GetObject", page(200))
        with pytest.raises(OSError, match="an object with the etag ''"):
            fs.get_file_status("/a")
        assert fs.get_file_status("/a").length == 4


@pytest.mark.parametrize(
    "fault",
    [page(200), answer(200, "SlowDown"), answer(200, body="")],
    ids=["page", "error", "empty"],
)
class TestListings:
    """An answer that is no listing is asked for again, as every 2xx without its document."""

    def test_of_objects(self, server: ScriptedS3, fs: S3FileSystem, fault: Fault):
        server.put("d/a", b"data")
        for list_it in (
            lambda: [entry.name for entry in fs.list_status("/d")] == ["a"],
            lambda: fs.create("/d/b", overwrite=False).close() is None,
            lambda: fs.delete("/d", recursive=True),
        ):
            server.fail("ListObjectsV2", fault)
            assert list_it()
            server.heal()

    def test_of_uploads(self, server: ScriptedS3, fs: S3FileSystem, fault: Fault):
        fs.create_multipart_uploader("/").start_upload("/a")
        server.fail("ListMultipartUploads", fault)
        assert [upload.path for upload in fs.list_multipart_uploads("/")] == [f"{ROOT}a"]


class TestConditions:
    """Whether the store checks them is what the store says."""

    @pytest.mark.parametrize(
        ("operation", "earlier"), [("PutObject", 1), ("CompleteMultipartUpload", 0)]
    )
    @pytest.mark.parametrize("fault", [not_of_s3, page(400), page(403), page(200)])
    def test_a_stray_answer(self, server: ScriptedS3, operation: str, earlier: int, fault: Fault):
        """The trial is made again."""
        server.fail(operation, fault, skip=earlier)
        with connect(server) as fs:
            assert fs.put_if_absent("/a", b"data")
            assert fs.has_path_capability("/a", "fs.option.create.conditional.overwrite")

    def test_no_other_answer(self, server: ScriptedS3, fs: S3FileSystem):
        """Nothing is known then, and nothing kept."""
        server.fail("PutObject", page(403), times=None)
        with pytest.raises(OSError, match=r"403.*fs\.s3a\.create\.conditional\.enabled"):
            fs.create("/a", overwrite=False)
        server.heal()
        assert fs.put_if_absent("/a", b"data")


class TestTokens:
    """A token is stale where the store says so."""

    @pytest.mark.parametrize("operation", ["ListParts", "UploadPart", "HeadObject", "GetObject"])
    def test_that_is_good(self, server: ScriptedS3, fs: S3FileSystem, operation: str):
        stream = fs.create("/a")
        stream.write(b"data")
        token = stream.persist()
        server.fail(operation, not_of_s3, times=None)
        with pytest.raises(OSError, match=operation) as refusal:
            fs.commit(token)
        assert not isinstance(refusal.value, hflush.StaleTokenError)
        server.heal()
        fs.commit(token)
        stream.abort()
        assert server.objects["a"].data == b"data"

    def test_of_a_long_tail(self, server: ScriptedS3):
        """Longer than any document: it is read as files are."""
        data = bytes(range(256)) * (17 * MIB // 256)
        with connect(server, fs_s3a_multipart_size="64M") as fs:
            stream = fs.create("/a")
            stream.write(data)
            token = stream.persist()
            with fs.resume(token) as resumed:
                assert resumed.tell() == len(data)
                resumed.write(b"more")
            stream.abort()
        assert server.objects["a"].data == data + b"more"
