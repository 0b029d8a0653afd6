"""Ceph's gateway: what it does otherwise than AWS and MinIO, and what no other server lets us try.

Run by `./dev test radosgw`, together with all tests of S3 that have a server.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import md5

import hflush
import pytest
from botocore.exceptions import ClientError
from hflush.multipart import MultipartUploader
from radosgw import RadosGateway
from support.data import dataset
from support.fault_proxy import FaultProxy
from support.radosgw import Gateway
from support.s3 import S3
from support.s3_front import corrupt_request

PART = 5 << 20
MOST_PARTS = 10_000

pytestmark = [pytest.mark.stores("s3"), pytest.mark.slow]


@pytest.fixture
def root(s3_server: S3) -> Iterator[str]:
    path = s3_server.root()
    yield path
    s3_server.forget(path)


@pytest.fixture
def fs(s3_server: S3) -> Iterator[hflush.FileSystem]:
    conf = {**s3_server.conf, "fs.s3a.multipart.size": "5M"}
    with hflush.FileSystem.new_instance(s3_server.url, conf) as ours:
        yield ours


# --- how it differs: what docs/s3-client.md says of it ---


def begin(s3: S3, key: str) -> dict[str, object]:
    """An upload with one part, and what completes it."""
    place = {"Bucket": s3.bucket, "Key": key}
    upload = s3.client.create_multipart_upload(**place)["UploadId"]
    part = s3.client.upload_part(**place, UploadId=upload, PartNumber=1, Body=b"x")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    return {**place, "UploadId": upload, "MultipartUpload": parts}


def test_conditions_of_completions_are_ignored(s3_server: S3, root: str) -> None:
    """Those of PutObject are not."""
    key = f"{root}/file"[1:]
    s3_server.put(key, b"there")
    with pytest.raises(ClientError) as refusal:
        s3_server.put(key, b"new", IfNoneMatch="*")
    assert refusal.value.response["ResponseMetadata"]["HTTPStatusCode"] == 412
    s3_server.client.complete_multipart_upload(**begin(s3_server, key), IfNoneMatch="*")
    assert s3_server.get(key) == b"x"


def test_completions_have_no_etag(s3_server: S3, root: str) -> None:
    """The first answer has an empty one; one for an upload that is not there is a 500."""
    upload = begin(s3_server, f"{root}/file"[1:])
    answer = s3_server.client.complete_multipart_upload(**upload)
    assert answer.get("ETag", "") == ""
    unknown = {**upload, "Key": f"{root}/other"[1:], "UploadId": "2~nobody"}
    with pytest.raises(ClientError) as refusal:
        s3_server.client.complete_multipart_upload(**unknown)
    assert refusal.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500


def test_checksums_are_not_known(s3_server: S3, root: str) -> None:
    """A wrong CRC32C is taken, a wrong MD5 is not."""
    key = f"{root}/file"[1:]
    s3_server.put(key, b"data", ChecksumCRC32C="AAAAAA==")
    assert "ChecksumCRC32C" not in s3_server.head(key, ChecksumMode="ENABLED")
    with pytest.raises(ClientError, match="BadDigest"):
        s3_server.put(key, b"data", ContentMD5="AAAAAAAAAAAAAAAAAAAAAA==")


# --- what hflush makes of it ---


@pytest.mark.rule("CLOSE-3", "OBJ-5")
@pytest.mark.parametrize("size", [0, 10, 2 * PART + 10])
def test_the_etag_of_a_commit_is_the_object_s(
    s3_server: S3, fs: hflush.FileSystem, root: str, size: int
) -> None:
    """Also where the answer to Complete did not have it; a repetition answers the same."""
    out = fs.create_pending(f"{root}/file")
    with out:
        out.write(dataset(size))
    assert out.pending_commit is not None
    first = fs.complete_pending(out.pending_commit)
    assert first
    assert s3_server.head(f"{root}/file"[1:])["ETag"] == f'"{first}"'
    assert fs.complete_pending(out.pending_commit) == first


@pytest.mark.rule("OBJ-17", "FAIL-1")
@pytest.mark.parametrize("size", [1000, PART + 10])
@pytest.mark.parametrize(
    "setting", ["fs.s3a.request.md5.header=true", "hflush.s3.payload.signing=always"]
)
def test_bits_that_flip_are_noticed(
    s3_server: S3, s3_proxy: FaultProxy, root: str, setting: str, size: int
) -> None:
    """By an MD5, and by a signature of the body: it is sent again."""
    key, value = setting.split("=")
    conf = {
        **s3_server.conf,
        "fs.s3a.request.md5.header": "false",
        "fs.s3a.multipart.size": "5M",
        "fs.s3a.endpoint": s3_proxy.endpoint,
        key: value,
    }
    operation, part = ("UploadPart", 1) if size > PART else ("PutObject", None)
    with hflush.FileSystem.new_instance(s3_server.url, conf) as fs:
        s3_proxy.fail(operation, corrupt_request(500), part=part)
        with fs.create(f"{root}/file") as out:
            out.write(dataset(size))
    assert s3_proxy.count(operation) == 2 + (size > PART)
    assert s3_server.get(f"{root}/file"[1:]) == dataset(size)


# --- limits ---


@pytest.mark.rule("MPU-1", "LIM-5", "LIM-1")
def test_ten_thousand_parts() -> None:
    """As many as S3 has: small ones, which a gateway can be told to take. One more is refused."""
    pieces = [random.Random(number).randbytes(number % 50 + 1) for number in range(MOST_PARTS)]
    settings = {"rgw multipart min part size": 1}
    with (
        RadosGateway.start(settings=settings) as server,
        contextlib.closing(Gateway(server)) as s3,
        hflush.FileSystem.new_instance(s3.url, s3.conf) as fs,
    ):
        uploader: MultipartUploader = fs.create_multipart_uploader("/")
        upload = uploader.start_upload("/many")

        def put(number: int) -> bytes:
            last = number == MOST_PARTS
            return uploader.put_part(upload, "/many", number, last, pieces[number - 1])

        numbers = range(1, MOST_PARTS + 1)
        with ThreadPoolExecutor(8) as threads:
            handles = dict(zip(numbers, threads.map(put, numbers), strict=True))
        with pytest.raises(ValueError, match="10001"):
            uploader.put_part(upload, "/many", MOST_PARTS + 1, True, b"x")
        ((key, upload_id),) = s3.uploads()
        assert s3.parts(key, upload_id) == [(n, len(piece)) for n, piece in enumerate(pieces, 1)]
        uploader.complete(upload, "/many", handles)
        assert s3.get("many") == b"".join(pieces)
        with fs.open("/many") as reader:
            assert reader.read() == b"".join(pieces)
        sums = b"".join(md5(piece).digest() for piece in pieces)
        assert fs.get_file_status("/many").etag == f"{md5(sums).hexdigest()}-{MOST_PARTS}"
        assert s3.uploads() == []
