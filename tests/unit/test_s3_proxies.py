"""Answers of a proxy, a gateway or a login page in between: none is taken for the store's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import hflush
import pytest
from hflush.s3 import S3FileSystem
from support.s3_front import Exchange, answer, make_answer
from support.scripted_s3 import BUCKET, ScriptedS3

ROOT = f"s3://{BUCKET}/"
QUICK = {
    "fs.s3a.multipart.size": "5M",
    "fs.s3a.retry.interval": "1ms",
    "fs.s3a.retry.throttle.interval": "1ms",
    "fs.s3a.retry.limit": "2",
}
NO_BACKEND = answer(404, body="default backend - 404", content_type="text/plain")


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
        server.fail("DeleteObject", NO_BACKEND)
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
        server.fail(operation, NO_BACKEND, times=None)
        for end in (
            lambda: uploader.abort(upload, "/a"),
            lambda: fs.abort_pending(commit),
            lambda: fs.abort_multipart_uploads("/", older_than=0),
        ):
            with pytest.raises(OSError, match=rf"{operation}: .*404.*a proxy in between"):
                end()
        assert len(server.uploads) == 2
        server.heal()
        assert fs.abort_multipart_uploads("/", older_than=0) == 2

    def test_a_listing_that_is_not_found(self, server: ScriptedS3, fs: S3FileSystem):
        """The directory is not called missing."""
        server.put("d/a", b"data")
        server.fail("ListObjectsV2", NO_BACKEND, times=None)
        with pytest.raises(OSError, match="a proxy in between"):
            fs.exists("/d")
