"""Stores that answer less than AWS, refuse what they do not know, or forbid to look around."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import fsspec
import hflush
import pytest
from hflush.checkpoint import CheckpointFileManager
from hflush.s3 import S3FileSystem, lacks
from support.s3_front import Answer, Head, Request, answer, make_answer
from support.scripted_s3 import BUCKET, MIB, WRITTEN, Refused, ScriptedS3, encoded, xml, xml_of

ROOT = f"s3://{BUCKET}/"
ALGORITHM = "x-amz-checksum-algorithm"
LARGE = bytes(range(256)) * (6 * MIB // 256)
QUICK = {
    "fs.s3a.multipart.size": "5M",
    "fs.s3a.retry.interval": "1ms",
    "fs.s3a.retry.limit": "2",
}


class Store(ScriptedS3):
    """Refuses what it is told to, and changes its answers as it is told."""

    def __init__(self) -> None:
        self.refuses: Callable[[Request], Refused | None] = lambda _: None
        self.changes: Callable[[Request, Answer], Answer] = lambda _, unchanged: unchanged
        super().__init__()

    def execute(self, request: Request) -> Answer:
        refused = self.refuses(request)
        return refused.answer if refused else self.changes(request, super().execute(request))


class Silent(ScriptedS3):
    """Notes the checksums that Create declares, says nothing, and takes no part without one."""

    def __init__(self) -> None:
        self.declared: set[str] = set()
        super().__init__()

    def _create_multipart_upload(self, request: Request) -> Answer:
        created = super()._create_multipart_upload(request)
        if request.head.get(ALGORITHM):
            self.declared.add(next(reversed(self.uploads)))
        return without(created, ALGORITHM, "x-amz-checksum-type")

    def _upload_part(self, request: Request) -> Answer:
        if request.upload_id in self.declared and not request.head.get("x-amz-checksum-crc32c"):
            raise Refused(400, "InvalidRequest", "a part without its checksum")
        return super()._upload_part(request)

    def _upload_part_copy(self, request: Request) -> Answer:
        source = unquote(request.head.get("x-amz-copy-source")).removeprefix(f"/{BUCKET}/")
        first, last = request.head.get("x-amz-copy-source-range")[len("bytes=") :].split("-")
        data = self.objects[source].data[int(first) : int(last) + 1]
        part = self._upload_part(dataclasses.replace(request, body=data))
        return xml("CopyPartResult", f"<ETag>{part.head.get('etag')}</ETag>")


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lacks, "_known", {})


@pytest.fixture
def server() -> Iterator[Store]:
    with Store() as server:
        yield server


def connect(server: ScriptedS3, **conf: Any) -> S3FileSystem:
    given = {name.replace("_", "."): value for name, value in conf.items()}
    made = hflush.FileSystem.new_instance(ROOT, {**server.conf, **QUICK, **given})
    return cast("S3FileSystem", made)


def write(fs: S3FileSystem, path: str, data: bytes = b"data", **options: Any) -> None:
    with fs.create(path, **options) as stream:
        stream.write(data)


def write_in_parts(fs: S3FileSystem, way: str, path: str) -> None:
    if way == "stream":
        write(fs, path, LARGE)
    elif way == "uploader":
        uploader = fs.create_multipart_uploader("/")
        upload = uploader.start_upload(path)
        part = uploader.put_part(upload, path, 1, True, LARGE)
        uploader.complete(upload, path, {1: part})
    else:
        fs.copy("/source", path)


def without(full: Answer, *names: str) -> Answer:
    headers = [(name, value) for name, value in full.head.headers if name.lower() not in names]
    return dataclasses.replace(full, head=Head(full.head.first, headers))


def has_checksums(request: Request) -> bool:
    return any(name.lower().startswith("x-amz-checksum-") for name, _ in request.head.headers)


class AllOrNothing(ScriptedS3):
    """Completes an upload only with all parts that it has, as Ceph's gateway."""

    def _listed_parts(self, upload: Any, body: bytes) -> Any:
        parts = super()._listed_parts(upload, body)
        if len(parts) != len(upload.parts):
            raise Refused(400, "InvalidPart")
        return parts


class TestSparseAnswers:
    """What an operation does not need may be missing."""

    def test_objects_without_an_etag(self, server: Store):
        """A PUT that says so little is repeated once, and looked at."""
        bare = ("etag", "x-amz-request-id")
        server.changes = lambda r, full: (
            without(full, *bare) if r.operation == "PutObject" else full
        )
        fs = connect(server)
        write(fs, "/a")
        assert server.objects["a"].data == b"data"
        assert server.count("PutObject") == 2

    def test_entries(self, server: Store):
        """A size that is needed is asked for; the others of the page are listed."""
        server.put("d/a", b"abc")
        entries = "".join(
            (
                "<Contents><Key>d/</Key></Contents>",
                "<Contents><Key>d/a</Key></Contents>",
                xml_of("Contents", Key="d/b", Size="5", LastModified=WRITTEN),
            )
        )
        fs = connect(server)
        server.fail(
            "ListObjectsV2", answer(200, body=f"<ListBucketResult>{entries}</ListBucketResult>")
        )
        a, b = fs.list_status("/d")
        assert (a.name, a.length, a.modification_time_ns, a.etag) == ("a", 3, 0, None)
        assert (b.name, b.length) == ("b", 5)

    @pytest.mark.parametrize("data", [b"", b"abc"])
    def test_heads(self, server: Store, data: bytes):
        """Neither a length nor a time: one is asked for, the other is unknown."""
        server.put("a", data)
        names = ("content-length", "last-modified")
        server.changes = lambda r, full: without(full, *names) if r.method == "HEAD" else full
        fs = connect(server)
        status = fs.get_file_status("/a")
        assert (status.length, status.modification_time_ns) == (len(data), 0)
        with fs.open("/a") as stream:
            assert stream.read() == data

    def test_a_checksum_of_no_known_type(self, server: Store):
        """Where an object has parts it may be one of theirs: it proves nothing."""
        server.put("a", b"data")
        server.objects["a"].etag = '"0123456789abcdef0123456789abcdef-2"'
        server.objects["a"].crc32c = 1
        server.objects["a"].headers["x-amz-checksum-crc32c"] = encoded(1)  # of HEAD
        fs = connect(server)
        with fs.open("/a") as stream:
            assert stream.read() == b"data"
            stream.seek(0)
            assert b"".join(iter(lambda: stream.read(1), b"")) == b"data"
        assert fs.get_file_checksum("/a").algorithm == "ETAG"

    def test_uploads_of_no_known_age(self, server: Store):
        """They are as young as they can be: only who takes all of them aborts them."""
        fs = connect(server)
        fs.create_multipart_uploader("/").start_upload("/a")
        server.changes = lambda r, full: (
            make_answer(200, full.body.replace(f"<Initiated>{WRITTEN}</Initiated>".encode(), b""))
            if r.operation == "ListMultipartUploads"
            else full
        )
        assert [upload.age for upload in fs.list_multipart_uploads("/")] == [0]
        assert fs.abort_multipart_uploads("/", older_than=1) == 0
        assert fs.abort_multipart_uploads("/", older_than=0) == 1

    def test_a_failure_to_delete_without_a_name(self, server: Store):
        for name in "abc":
            server.put(f"d/{name}", b"x")
        body = "<DeleteResult><Error><Code>Odd</Code></Error></DeleteResult>"
        server.fail("DeleteObjects", answer(200, body=body))
        fs = connect(server)
        assert fs.delete("/d", recursive=True)
        assert not any(key.startswith("d/") for key in server.objects)

    @pytest.mark.parametrize("status", [200, 204])
    @pytest.mark.parametrize(("is_named", "many", "single"), [(True, 3, 0), (False, 2, 4)])
    def test_deletes_of_many_without_a_body(
        self, server: Store, status: int, is_named: bool, many: int, single: int
    ):
        """They prove nothing: the names of what is gone are asked for, else each object is."""
        for name in ("d/a", "d/b", "e/a", "e/b"):
            server.put(name, b"x")
        server.changes = lambda r, full: (
            make_answer(status, b"")
            if r.operation == "DeleteObjects" and not (is_named and b"<Quiet>" not in r.body)
            else full
        )
        fs = connect(server)
        assert fs.delete("/d", recursive=True)
        assert fs.bulk_delete("/e").delete(["/e/a", "/e/b"]) == []
        assert not [key for key in server.objects if not key.endswith("/")]
        assert (server.count("DeleteObjects"), server.count("DeleteObject")) == (many, single)

    @pytest.mark.parametrize("status", [200, 204])
    def test_copies_without_a_body(self, server: Store, status: int):
        """They prove nothing: whether the target is the source's is asked for."""
        server.put("a", b"data")
        server.put("b", b"old")
        server.changes = lambda r, full: (
            make_answer(status, b"") if r.operation == "CopyObject" else full
        )
        fs = connect(server)
        fs.copy("/a", "/b", overwrite=True)
        assert fs.rename("/a", "/c")
        assert [(key, stored.data) for key, stored in server.objects.items()] == [
            ("b", b"data"),
            ("c", b"data"),
        ]
        assert server.count("CopyObject") == 2

    def test_copies_that_never_happen(self, server: Store):
        """An answer without a body, where the target is as it was, moves nothing."""
        server.put("d/a", b"data")
        server.fail("CopyObject", answer(200), times=None)
        fs = connect(server)
        with pytest.raises(OSError, match=r"CopyObject: .*an empty answer instead of"):
            fs.rename("/d", "/e")
        assert [key for key in server.objects if not key.endswith("/")] == ["d/a"]

    def test_a_marker_that_cannot_be_put(self, server: Store):
        """The file is gone: that is what was asked for."""
        server.put("d/a", b"x")
        server.fail("PutObject", answer(403, "AccessDenied"), times=None)
        assert connect(server).delete("/d/a")
        assert not server.objects


class TestRefusals:
    """What a store does not know is done without, once found out; or has a key."""

    @pytest.mark.parametrize(
        ("status", "code", "message"),
        [
            (501, "NotImplemented", ""),
            (400, "NotImplemented", "A header you provided implies functionality"),
            (400, "InvalidArgument", "Unsupported header 'x-amz-checksum-crc32c' received"),
            (400, "InvalidRequest", ""),
            (403, "SignatureDoesNotMatch", ""),
        ],
    )
    def test_checksums(self, server: Store, status: int, code: str, message: str):
        server.refuses = lambda r: Refused(status, code, message) if has_checksums(r) else None
        with connect(server) as fs:
            write(fs, "/small")
            write(fs, "/large", LARGE)
            for path, data in (("/small", b"data"), ("/large", LARGE)):
                with fs.open(path) as stream:
                    assert stream.read() == data
        refused = sum(map(has_checksums, server.log))
        assert refused == 2  # of what is sent, and of what is received
        with connect(server) as another:
            write(another, "/other")
        assert sum(map(has_checksums, server.log)) == refused

    def test_checksums_that_were_asked_for(self, server: Store):
        """Not silently left out: the error names their key."""
        server.refuses = lambda r: Refused(501, "NotImplemented") if has_checksums(r) else None
        fs = connect(server, fs_s3a_create_checksum_algorithm="CRC32C")
        with pytest.raises(io.UnsupportedOperation, match=r"fs\.s3a\.create\.checksum\.algorithm"):
            write(fs, "/a")
        assert not server.objects

    @pytest.mark.parametrize(
        ("way", "conf", "declared"),
        [
            ("stream", {}, 1),
            ("stream", {"fs_s3a_create_checksum_algorithm": "CRC32C"}, 1),
            ("uploader", {}, 1),
            ("copy", {"fs_s3a_multipart_threshold": "5M"}, 0),
        ],
    )
    def test_checksums_that_create_declares(self, way: str, conf: dict[str, str], declared: int):
        """Only the first upload of a server finds out that it does not repeat them."""
        with Silent() as server, connect(server, **conf) as fs:
            server.put("source", LARGE)
            for path in ("/a", "/b"):
                write_in_parts(fs, way, path)
            assert [stored.data for stored in server.objects.values()] == [LARGE] * 3
            assert not server.uploads
            created = [bool(r.head.get(ALGORITHM)) for r in server.calls("CreateMultipartUpload")]
            assert created == [True] * declared + [False, False]

    def test_copies_in_few_parts(self):
        conf = {"fs_s3a_multipart_threshold": "5M", "hflush_s3_multipart_parts": "1"}
        with Silent() as server, connect(server, **conf) as fs:
            server.put("source", LARGE)
            fs.copy("/source", "/a")
            assert server.objects["a"].data == LARGE
            assert server.count("UploadPartCopy") == 1

    def test_what_is_wrong_with_a_checksum_is_no_refusal(self, server: Store):
        fs = connect(server)
        server.fail("PutObject", answer(400, "BadDigest"), times=None)
        with pytest.raises(OSError, match="BadDigest"):
            write(fs, "/a")
        server.heal()
        write(fs, "/a")
        assert all(map(has_checksums, server.calls("PutObject")))

    def test_conditions(self, server: Store):
        """What was asked for depends on them."""
        server.refuses = lambda r: (
            Refused(501, "NotImplemented") if r.head.get("if-none-match") else None
        )
        fs = connect(server, fs_s3a_create_conditional_enabled="true")
        with pytest.raises(OSError, match=r"fs\.s3a\.create\.conditional\.enabled"):
            write(fs, "/a", overwrite=False)
        write(fs, "/a")  # overwrites, which needs none

    @pytest.mark.parametrize(
        ("code", "kind"),
        [
            ("ExistingObjectIsDirectory", hflush.PathIsDirectoryError),
            ("ObjectParentIsFile", hflush.ParentNotDirectoryError),
            ("BucketAlreadyOwnedByYou", FileExistsError),
        ],
    )
    def test_what_is_no_file_of_another(self, server: Store, code: str, kind: type[OSError]):
        fs = connect(server)
        with pytest.raises(hflush.PathIsDirectoryError, match="root"):
            fs.put_if_absent("/", b"data")
        server.fail("PutObject", answer(409, code), times=None)
        with pytest.raises(kind, match=code):
            fs.put_if_absent("/a", b"data")

    def test_a_directory_is_no_earlier_batch(self, server: Store):
        conf = {**server.conf, **QUICK, "hflush.checkpoint.keep-existing": True}
        out = CheckpointFileManager.create(ROOT, conf).create_atomic("/a", False)
        server.fail("PutObject", answer(409, "ExistingObjectIsDirectory"), times=None)
        with pytest.raises(hflush.PathIsDirectoryError):
            out.close()

    def test_conditions_of_copies(self, server: Store):
        """Whether the source has changed is looked at before it is removed."""
        condition = "x-amz-copy-source-if-match"
        server.refuses = lambda r: (
            Refused(400, "InvalidArgument", f"{condition} is unknown")
            if r.head.get(condition)
            else None
        )
        server.put("a", b"data")
        fs = connect(server)
        assert fs.rename("/a", "/b")
        server.put("d/a", b"data")
        assert fs.rename("/d", "/e")
        assert list(server.objects) == ["b", "e/a"]
        assert server.count("CopyObject") == 3

    def test_encoded_keys(self, server: Store):
        for name in ("a+b", "a b", "a%20b"):
            server.put(f"d/{name}", b"x")
        server.refuses = lambda r: (
            Refused(501, "NotImplemented", "encoding-type") if "encoding-type" in r.query else None
        )
        fs = connect(server)
        assert {entry.name for entry in fs.list_status("/d")} == {"a+b", "a b", "a%20b"}
        asked = len(server.log)
        fs.list_status("/d")
        assert len(server.log) == asked + 1

    def test_the_older_listing_if_asked_for(self, server: Store):
        """The key says so, as to S3A; headers of its own are in each request, and signed."""
        server.put("d/a", b"x")
        headers = "X-Tenant=a;b, X-O=c"
        fs = connect(server, fs_s3a_list_version=1, fs_s3a_client_s3_custom_headers=headers)
        assert [entry.name for entry in fs.list_status("/d")] == ["a"]
        write(fs, "/d/b", LARGE)
        assert fs.open("/d/b").read() == LARGE
        assert not any("list-type" in request.query for request in server.log)
        heads = [request.head for request in server.log]
        assert {(head.get("x-tenant"), head.get("x-o")) for head in heads} == {("a,b", "c")}

    def test_the_newer_listing(self, server: Store):
        """That of version 1 goes on behind the last key."""
        for name in "abcde":
            server.put(f"d/{name}", b"x")
        server.refuses = lambda r: (
            Refused(501, "NotImplemented") if "list-type" in r.query else None
        )
        server.changes = page_by_marker
        fs = connect(server)
        assert [entry.name for entry in fs.list_files("/d", recursive=True)] == list("abcde")
        assert sum("list-type" in request.query for request in server.log) <= 2
        write(fs, "/d/f")
        assert fs.delete("/d", recursive=True)
        assert not [key for key in server.objects if key.startswith("d/")]

    def test_the_older_listing_by_its_key(self, server: Store):
        """Of a store that answers the newer one as if it were the older."""
        for name in "abcde":
            server.put(f"d/{name}", b"x")
        server.changes = page_by_marker
        fs = connect(server, fs_s3a_list_version="1")
        assert [entry.name for entry in fs.list_files("/d", recursive=True)] == list("abcde")
        write(fs, "/d/f")
        assert fs.delete("/d", recursive=True)
        assert not any("list-type" in request.query for request in server.log)

    def test_uploads(self, server: Store):
        """By S3A's key: each object is one PutObject, and what needs more is refused."""
        server.refuses = lambda r: (
            Refused(501, "NotImplemented") if r.operation == "CreateMultipartUpload" else None
        )
        fs = connect(server, fs_s3a_multipart_uploads_enabled="false")
        write(fs, "/a", LARGE, block_size=5 * MIB)
        write(fs, "/b", LARGE, overwrite=False)
        with pytest.raises(FileExistsError):
            write(fs, "/b", overwrite=False)
        assert fs.rename("/a", "/c")
        assert {key: stored.data for key, stored in server.objects.items()} == {
            "b": LARGE,
            "c": LARGE,
        }
        for refused in (fs.create_multipart_uploader, fs.create_pending):
            with pytest.raises(io.UnsupportedOperation, match=r"multipart\.uploads\.enabled"):
                refused("/d")
        assert not fs.has_path_capability("/", hflush.capabilities.PERSIST)
        assert fs.contract_options["max-filesize"] == 5 << 30
        assert not server.count("CreateMultipartUpload")

    @pytest.mark.parametrize(
        ("status", "code", "asked"),
        [
            (501, "NotImplemented", 1),
            (405, "", 1),
            (400, "InvalidArgument", 2),
            (403, "AccessDenied", 2),
        ],
    )
    def test_deletes_of_many(self, server: Store, status: int, code: str, asked: int):
        server.refuses = lambda r: Refused(status, code) if r.operation == "DeleteObjects" else None
        fs = connect(server)
        for name in ("d/a", "d/b", "e/a", "e/b"):
            server.put(name, b"x")
        assert fs.delete("/d", recursive=True)
        assert fs.delete("/e", recursive=True)
        assert not server.objects
        assert server.count("DeleteObjects") == asked

    def test_deletes_that_are_refused_one_by_one_too(self, server: Store):
        server.put("d/a", b"x")
        server.put("d/b", b"x")
        server.refuses = lambda r: (
            Refused(403, "AccessDenied") if r.method in {"DELETE", "POST"} else None
        )
        with pytest.raises(PermissionError, match="DeleteObjects"):
            connect(server).delete("/d", recursive=True)
        assert server.count("DeleteObject") == 1


def page_by_marker(request: Request, full: Answer) -> Answer:
    """Pages of two, which say neither a token nor a marker."""
    if request.operation != "ListObjectsV2":
        return full
    marker = request.query.get("marker", "")
    entries = [part.split("</Contents>")[0] for part in full.body.decode().split("<Contents>")[1:]]
    left = [entry for entry in entries if entry.split("<Key>")[1].split("<")[0] > marker]
    inside = "".join(f"<Contents>{entry}</Contents>" for entry in left[:2])
    more = str(len(left) > 2).lower()
    return xml("ListBucketResult", f"<IsTruncated>{more}</IsTruncated>{inside}")


class TestPluses:
    """A plus in an encoded key is a blank, or itself: no wrong key is listed, moved or deleted."""

    @staticmethod
    def speak(server: Store, old: bytes, new: bytes) -> None:
        """Let a store encode one character in its own way."""
        server.changes = lambda r, full: (
            make_answer(200, full.body.replace(old, new), content_type="application/xml")
            if r.operation in {"ListObjectsV2", "ListMultipartUploads"}
            else full
        )

    @pytest.mark.parametrize("key", ["d/a+b", "d/a b"])
    def test_which(self, server: Store, key: str):
        self.speak(server, b"%2B", b"+") if "+" in key else self.speak(server, b"%20", b"+")
        server.put(key, b"abc")
        fs = connect(server)
        name = key.removeprefix("d/")
        assert [entry.name for entry in fs.list_status("/d")] == [name]
        asked = len(server.log)
        assert asked <= 3
        fs.list_status("/d")
        assert len(server.log) == asked + 1
        assert fs.rename("/d", "/e")
        assert f"e/{name}" in server.objects
        assert key not in server.objects
        assert fs.delete("/e", recursive=True)
        assert not [key for key in server.objects if not key.endswith("/")]

    def test_directories(self, server: Store):
        self.speak(server, b"%2B", b"+")
        server.put("d/a+b/c", b"x")
        fs = connect(server)
        (entry,) = fs.list_status("/d")
        assert entry.name == "a+b"
        assert [below.name for below in fs.list_status(entry.path)] == ["c"]

    def test_uploads(self, server: Store):
        fs = connect(server)
        fs.create_multipart_uploader("/").start_upload("/a+b")
        server.changes = lambda r, full: (
            make_answer(
                200, full.body.replace(b"<Upload>", b"<EncodingType>url</EncodingType><Upload>")
            )
            if r.operation == "ListMultipartUploads" and "encoding-type" in r.query
            else full
        )
        assert [upload.path for upload in fs.list_multipart_uploads("/")] == [f"{ROOT}a+b"]
        assert fs.abort_multipart_uploads("/", older_than=0) == 1
        assert not server.uploads


def forbid(server: Store, *operations: str) -> None:
    """No permission: HEAD says so without a document."""
    server.refuses = lambda r: Refused(403, "AccessDenied") if r.operation in operations else None


def test_parts_behind_a_token():
    """Of a writer that was killed: one that goes on has to write at least as far."""
    with AllOrNothing() as server:
        fs = connect(server)
        killed = fs.create("/k")
        killed.write(LARGE)
        token = killed.persist()
        killed.write(LARGE + LARGE)
        killed.persist()
        killed._abandon()
        conf = {**server.conf, **QUICK}
        with pytest.raises(OSError, match="write at least as far"):
            hflush.commit(token, conf=conf)
        with hflush.resume(token, conf=conf) as out:
            out.write(LARGE + LARGE)
        assert server.objects["k"].data == LARGE + LARGE + LARGE


class TestPermissions:
    """A look-around that is forbidden does not forbid what was asked for."""

    @pytest.mark.parametrize("overwrite", [True, False])
    def test_only_to_put(self, server: Store, overwrite: bool):
        forbid(server, "HeadObject", "ListObjectsV2", "GetObject", "DeleteObject", "ListParts")
        fs = connect(server)
        write(fs, "/d/e/small", overwrite=overwrite)
        write(fs, "/d/e/large", LARGE, overwrite=overwrite)
        fs.mkdirs("/f")
        assert server.objects["d/e/small"].data == b"data"
        assert server.objects["d/e/large"].data == LARGE
        assert "f/" in server.objects
        if not overwrite:
            with pytest.raises(FileExistsError):
                write(fs, "/d/e/small", overwrite=False)

    def test_parts(self, server: Store):
        forbid(server, "HeadObject", "ListObjectsV2", "GetObject", "DeleteObject", "ListParts")
        uploader = connect(server).create_multipart_uploader("/d")
        upload = uploader.start_upload("/d/x")
        part = uploader.put_part(upload, "/d/x", 1, True, b"data")
        uploader.complete(upload, "/d/x", {1: part})
        assert server.objects["d/x"].data == b"data"

    def test_copies(self, server: Store, tmp_path: Path):
        """They might have to go into the target: that is not guessed."""
        forbid(server, "HeadObject", "ListObjectsV2")
        (tmp_path / "x").write_bytes(b"data")
        with pytest.raises(PermissionError, match=r"copy: .*s3:ListBucket.*s3://bucket/d/x"):
            connect(server).copy_from_local_file(tmp_path / "x", "/d/x")
        assert not server.objects

    def test_through_fsspec(self, server: Store):
        forbid(server, "HeadObject", "ListObjectsV2")
        fs = fsspec.filesystem(
            "hflush+s3", conf={**server.conf, **QUICK}, auto_mkdir=True, skip_instance_cache=True
        )
        with fs.open(f"{BUCKET}/d/x", "wb") as stream:
            stream.write(b"data")
        assert server.objects["d/x"].data == b"data"

    def test_what_has_to_be_known(self, server: Store):
        """Whether something is there, where the store does not look; whether a parent is."""
        forbid(server, "HeadObject", "ListObjectsV2")
        fs = connect(server, fs_s3a_create_conditional_enabled="false")
        with pytest.raises(PermissionError):
            fs.create("/a", overwrite=False)
        with pytest.raises(PermissionError):
            fs.create("/d/a", recursive=False)
        with pytest.raises(PermissionError):
            fs.exists("/a")
        assert not server.objects

    def test_wrong_credentials_are_said_at_once(self, server: Store):
        server.keys.clear()
        with pytest.raises(PermissionError, match="InvalidAccessKeyId"):
            connect(server).create("/d/a")

    def test_not_to_look(self, server: Store):
        """What HEAD may not say a listing does."""
        server.put("d/a", b"abc")
        server.put("d/ab", b"abcd")
        forbid(server, "HeadObject", "GetObject", "PutObject")
        fs = connect(server)
        assert fs.get_file_status("/d/a").length == 3
        assert fs.is_directory("/d")
        assert fs.rename("/d/a", "/d/c")
        assert fs.delete("/d/c")
        assert fs.delete("/d", recursive=True)
        assert not server.objects

    def test_only_to_read(self, server: Store):
        server.put("d/a", b"abc")
        forbid(server, "ListObjectsV2")
        fs = connect(server)
        with fs.open("/d/a") as stream:
            assert stream.read() == b"abc"
        assert [entry.length for entry in fs.list_status("/d/a")] == [3]
        with pytest.raises(PermissionError):
            fs.list_status("/d")

    def test_not_to_list(self, server: Store):
        """Files are removed and listed all the same; what is not seen is refused by name."""
        for name in "abcd":
            server.put(f"d/{name}", b"abc")
        forbid(server, "ListObjectsV2")
        fs = connect(server)
        assert fs.delete("/d/a")
        ((path, failure),) = fs.bulk_delete("/d").delete(["/d/b", "/d/c", "/d/missing"])
        assert (path, type(failure)) == ("/d/missing", PermissionError)
        assert list(server.objects) == ["d/d"]
        assert [entry.length for entry in fs.list_files("/d/d", recursive=True)] == [3]


class TestPaths:
    @pytest.fixture
    def below(self) -> Iterator[ScriptedS3]:
        with ScriptedS3() as server:
            server.base_path = "/storage/v1/s3%20x"
            yield server

    def test_an_endpoint_with_a_path(self, below: ScriptedS3):
        """It comes before the bucket: in requests and in what is signed, not in copy sources."""
        with connect(below) as fs:
            write(fs, "/d/a b")
            write(fs, "/d/large", LARGE)
            assert {entry.name for entry in fs.list_status("/d")} == {"a b", "large"}
            assert fs.rename("/d", "/e")
            with fs.open("/e/large") as stream:
                assert stream.read() == LARGE
            assert fs.delete("/e", recursive=True)
            assert not [key for key in below.objects if not key.endswith("/")]

    def test_a_redirect_within_it(self, below: ScriptedS3):
        there = f"{below.endpoint}/{BUCKET}/a"
        below.fail("PutObject", answer(307, location=there, x_amz_bucket_region="us-east-1"))
        with connect(below) as fs:
            write(fs, "/a")
        assert below.objects["a"].data == b"data"


def test_a_bucket_has_no_limit(server: Store):
    """Hadoop's own answer for stores that have none; the store is not asked."""
    fs = connect(server)
    for status in (fs.get_status(), fs.get_status("/missing")):
        assert (status.capacity, status.used, status.remaining) == (2**63 - 1, 0, 2**63 - 1)
    assert not server.log
