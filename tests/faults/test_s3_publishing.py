"""S3: what a store must have said before anything counts as made: encryption, etags, documents."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hflush.s3 import S3FileSystem
from support.s3_front import Exchange, answer, execute_and_answer, lose_answer
from support.s3_ways import Way
from support.s3_writers import (
    ABORT,
    COMPLETE,
    CREATE,
    DATA,
    GET,
    HEAD,
    KEY,
    PATH,
    PUT,
    SMALL,
    UPLOAD,
    file_system,
    no_upload_left,
    published,
    put_old,
    unchanged,
    write,
    write_pieces,
)
from support.scripted_s3 import MIB, Rules, ScriptedS3

pytestmark = pytest.mark.stores("s3")

COPY = "CopyObject"
SIZES = pytest.mark.parametrize("data", [b"", SMALL, DATA], ids=["empty", "put", "multipart"])
KINDS: dict[str, dict[str, str]] = {
    "SSE-S3": {"fs.s3a.encryption.algorithm": "AES256"},
    "SSE-KMS": {"fs.s3a.encryption.algorithm": "SSE-KMS", "fs.s3a.encryption.key": "some-key"},
}


def file_system_of(server: ScriptedS3, conf: dict[str, str]) -> S3FileSystem:
    fs = file_system(server, conf)
    assert isinstance(fs, S3FileSystem)
    return fs


def write_and_close(stream: Any, data: bytes) -> None:
    write_pieces(stream, data)
    stream.close()


# --- encryption


@pytest.fixture(params=[True, False], ids=["told at Create", "told by parts"])
def encrypting(request: pytest.FixtureRequest, s3_way: Way) -> Iterator[ScriptedS3]:
    """Stores differ in which answers of an upload tell of encryption."""
    with s3_way.server(Rules(encrypts=True, tells_at_create=request.param)) as server:
        yield server


@pytest.mark.rule("FAIL-1", "OBJ-5")
@pytest.mark.parametrize("kind", KINDS)
@SIZES
def test_a_store_that_ignores_encryption(s3: ScriptedS3, kind: str, data: bytes) -> None:
    """Nothing is published, nothing of the data is sent; the error says what was asked for."""
    old = put_old(s3)
    with (
        file_system(s3, KINDS[kind]) as fs,
        pytest.raises(OSError, match="encryption is not what was asked for") as caught,
    ):
        write(fs, data)
    assert "x-amz-server-side-encryption is not answered" in str(caught.value)
    assert "hflush.s3.encryption.verify" in str(caught.value)
    assert s3.count(PUT) == s3.count(COMPLETE) == 0
    assert {call.body for call in s3.calls(UPLOAD)} == {b"x"}  # of the trial
    unchanged(s3, old=old)


@pytest.mark.rule("OBJ-5")
@pytest.mark.parametrize("kind", KINDS)
@SIZES
def test_a_store_that_encrypts(encrypting: ScriptedS3, kind: str, data: bytes) -> None:
    """It is asked once for each file system, by an upload that is aborted."""
    with file_system(encrypting, KINDS[kind]) as fs:
        write(fs, data)
        published(encrypting, data)
        before = encrypting.count(ABORT)
        write(fs, data)
    assert before == encrypting.count(ABORT) == 1


@pytest.mark.rule("OBJ-5")
@SIZES
def test_encryption_that_is_not_verified(s3: ScriptedS3, data: bytes) -> None:
    """As an option asks: published, encrypted or not."""
    conf = {**KINDS["SSE-S3"], "hflush.s3.encryption.verify": "false"}
    with file_system(s3, conf) as fs:
        write(fs, data)
    published(s3, data)
    assert s3.count(ABORT) == 0


@pytest.mark.rule("FAIL-1", "OBJ-5")
def test_a_server_among_others_that_ignores_encryption(encrypting: ScriptedS3) -> None:
    """An upload is compared at its creation, whatever was answered before: aborted."""
    with file_system(encrypting, KINDS["SSE-S3"]) as fs:
        stream = fs.create(PATH)
        encrypting.rules.encrypts = False
        with pytest.raises(OSError, match=r"UploadPart.*encryption is not what"):
            write_and_close(stream, DATA[: 6 * MIB])
        assert stream.close() is None
        assert stream.outcome == "failed"
    assert encrypting.count(COMPLETE) == 0
    unchanged(encrypting)


@pytest.mark.rule("FAIL-1", "OBJ-5")
def test_a_small_object_in_the_clear(encrypting: ScriptedS3) -> None:
    """Nothing but its own answer tells: an error that says that it is published."""
    with file_system(encrypting, KINDS["SSE-S3"]) as fs:
        stream = fs.create(PATH)
        stream.write(SMALL)
        encrypting.rules.encrypts = False
        with pytest.raises(OSError, match=r"PutObject \(published\).*encryption is not what"):
            stream.close()
        assert stream.outcome == "published"


@pytest.mark.rule("FAIL-1", "RENAME-1", "OBJ-5")
@pytest.mark.parametrize("threshold", ["5G", "5M"], ids=["whole", "in parts"])
@pytest.mark.parametrize("use", ["rename", "rename a directory", "copy"])
def test_a_copy_in_the_clear(s3: ScriptedS3, use: str, threshold: str) -> None:
    """Is not made: the store is tried out before. The source stays."""
    s3.put(KEY, DATA)
    conf = {**KINDS["SSE-S3"], "fs.s3a.multipart.threshold": threshold}
    uses: dict[str, Callable[[], object]] = {
        "rename": lambda: fs.rename(PATH, "/renamed"),
        "rename a directory": lambda: fs.rename("/dir", "/renamed"),
        "copy": lambda: fs.copy(PATH, "/copied"),
    }
    with (
        file_system_of(s3, conf) as fs,
        pytest.raises(OSError, match="encryption is not what was asked for"),
    ):
        uses[use]()
    assert s3.count(COPY) == s3.count("UploadPartCopy") == 0
    assert list(s3.objects) == [KEY]
    no_upload_left(s3)


@pytest.mark.rule("FAIL-1", "MPU-1", "OBJ-5")
def test_uploads_of_others_in_the_clear(s3: ScriptedS3) -> None:
    """Those of an uploader, and those that are handed over, are not begun."""
    with file_system_of(s3, KINDS["SSE-S3"]) as fs:
        with pytest.raises(OSError, match="encryption is not what was asked for"):
            fs.create_multipart_uploader("/dir").start_upload(PATH)
        with pytest.raises(OSError, match="encryption is not what was asked for"):
            fs.create_pending(PATH)
    unchanged(s3)


# --- markers of directories


@pytest.mark.rule("RENAME-1", "MKDIR-1")
def test_markers_are_put_and_not_copied(s3: ScriptedS3) -> None:
    """Some stores do not copy onto keys that end with a slash."""
    with file_system_of(s3, {}) as fs:
        fs.mkdirs("/one/empty/below")
        write(fs, SMALL, "/one/file")
        assert fs.rename("/one", "/two")
        fs.copy("/two", "/three")
        assert fs.get_file_status("/two/empty/below").is_directory
        assert fs.get_file_status("/three/empty/below").is_directory
        assert not fs.exists("/one")
    assert all(not call.key.endswith("/") for call in s3.calls(COPY))
    assert s3.objects["three/file"].data == SMALL


@pytest.mark.rule("MKDIR-1", "FAIL-1")
@pytest.mark.parametrize("body", ["", "<html></html>"])
def test_a_marker_without_an_etag(s3: ScriptedS3, body: str) -> None:
    """A 200 is enough for what has no content; a page is none."""
    s3.put("dir/file", SMALL)
    s3.fail(PUT, execute_and_answer(200, body=body), times=None)
    with file_system_of(s3, {"fs.s3a.retry.limit": "2"}) as fs:
        if body:
            with pytest.raises(OSError, match="a page instead of an answer"):
                fs.mkdirs("/new")
        else:
            fs.mkdirs("/new")
        # What was done stays done, whatever becomes of the directory that is left.
        assert fs.delete("/dir/file")
    assert s3.count(PUT) == (6 if body else 2)
    assert "dir/file" not in s3.objects


@pytest.mark.rule("FAIL-1")
@pytest.mark.parametrize("body", ["", "<html></html>"])
def test_a_page_is_no_upload(s3: ScriptedS3, body: str) -> None:
    """Whether an upload is there is told by its document, not by a 200."""
    with file_system_of(s3, {"fs.s3a.retry.limit": "1"}) as fs:
        with fs.create_pending(PATH) as stream:
            write_pieces(stream, DATA)
        assert stream.pending_commit is not None
        s3.fail("ListParts", answer(200, body=body), times=None)
        with pytest.raises(OSError, match="ListPartsResult"):
            fs.abort_pending(stream.pending_commit)
        s3.heal()
        assert fs.abort_pending(stream.pending_commit)
    unchanged(s3)


# --- etags


def weakened(exchange: Exchange) -> None:
    """As a proxy does that compresses: the etag of the answer becomes a weak one."""
    full = exchange.execute()
    headers = [
        (name, f"W/{value}" if name.lower() == "etag" else value)
        for name, value in full.head.headers
    ]
    exchange.send(dataclasses.replace(full, head=dataclasses.replace(full.head, headers=headers)))


@pytest.mark.rule("READ-1", "CLOSE-3")
@SIZES
def test_weak_etags(s3: ScriptedS3, data: bytes) -> None:
    """They are those of the store: written, looked at, renamed and read."""
    for operation in (PUT, UPLOAD, HEAD, GET, COPY):
        s3.fail(operation, weakened, times=None)
    with file_system_of(s3, {}) as fs:
        stream = write(fs, data)
        etag = s3.objects[KEY].etag.strip('"')
        assert stream.etag == etag
        status = fs.get_file_status(PATH)
        assert status.etag == etag
        with fs.open(PATH) as reader:
            assert reader.read() == data
        with fs.open_file(PATH).with_file_status(status).build().result() as reader:
            assert reader.read() == data
        uploader = fs.create_multipart_uploader("/dir")
        upload = uploader.start_upload("/dir/parts")
        part = uploader.put_part(upload, "/dir/parts", 1, True, data)
        if data:
            uploader.complete(upload, "/dir/parts", {1: part})
            assert s3.objects["dir/parts"].data == data
        assert fs.rename(PATH, "/renamed")
    assert s3.objects["renamed"].data == data


# --- uploads that nobody knows


@pytest.mark.rule("FAIL-15", "ABORT-6")
@pytest.mark.parametrize("ends", ["close", "abort"])
def test_a_create_that_is_repeated(
    s3: ScriptedS3, caplog: pytest.LogCaptureFixture, ends: str
) -> None:
    """The first may have left an upload: told, whatever becomes of the second."""
    s3.fail(CREATE, lose_answer)
    with file_system(s3) as fs, caplog.at_level(logging.WARNING, "hflush"):
        stream = fs.create(PATH)
        write_pieces(stream, DATA)
        if ends == "close":
            stream.close()
            assert "another upload may be left" in caplog.text
            assert s3.objects[KEY].data == DATA
        else:
            s3.wait_for(UPLOAD)
            left = stream.abort().cleanup_exception
            assert left is not None
            assert "another upload may be left" in str(left)
    assert s3.count(CREATE) == 2
    assert len(s3.uploads) == 1
