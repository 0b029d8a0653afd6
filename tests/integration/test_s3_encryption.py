"""S3: objects that a server encrypts, with its own keys (SSE-S3, SSE-KMS) and with ours (SSE-C)."""

from __future__ import annotations

import contextlib
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import md5
from typing import Any

import hflush
import pytest
from botocore.exceptions import ClientError
from hflush.multipart import MultipartUploader
from support.data import dataset
from support.minio import started_with_tls
from support.s3 import S3

PART = 5 << 20
SIZES = (0, 10, 2 * PART + 10)
KEY, OTHER_KEY = bytes(range(32)), bytes(range(32, 64))
KMS_KEY = "hflush"

pytestmark = pytest.mark.stores("s3")


@dataclass(frozen=True)
class Encryption:
    """What hflush is told, what boto3 has to say, and what the server says of such an object."""

    name: str
    settings: dict[str, str]
    reading: dict[str, Any] = field(default_factory=dict)
    writing: dict[str, Any] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)


def customer_key(key: bytes) -> Encryption:
    arguments = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": key}
    return Encryption(
        "SSE-C",
        {
            "fs.s3a.encryption.algorithm": "SSE-C",
            "fs.s3a.encryption.key": b64encode(key).decode(),
        },
        reading=arguments,
        writing=arguments,
        shown={
            "SSECustomerAlgorithm": "AES256",
            "SSECustomerKeyMD5": b64encode(md5(key).digest()).decode(),
        },
    )


SSE_S3 = Encryption(
    "SSE-S3",
    {"fs.s3a.encryption.algorithm": "AES256"},
    writing={"ServerSideEncryption": "AES256"},
    shown={"ServerSideEncryption": "AES256"},
)
SSE_KMS = Encryption(
    "SSE-KMS",
    {
        "fs.s3a.encryption.algorithm": "SSE-KMS",
        "fs.s3a.encryption.key": KMS_KEY,
        "fs.s3a.encryption.context": "team=tests, color=red",
    },
    writing={"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": KMS_KEY},
    shown={"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": f"arn:aws:kms:{KMS_KEY}"},
)
SSE_C = customer_key(KEY)
KINDS = pytest.mark.parametrize("kind", [SSE_S3, SSE_KMS, SSE_C], ids=lambda kind: kind.name)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """One with TLS, without which nobody takes keys."""
    with (
        started_with_tls(tmp_path_factory.mktemp("tls")) as s3,
        contextlib.closing(s3),
    ):
        yield s3


@pytest.fixture
def root(server: S3) -> Iterator[str]:
    path = server.root()
    yield path
    server.forget(path)


@contextlib.contextmanager
def client(server: S3, kind: Encryption | None = None, **conf: str) -> Iterator[hflush.FileSystem]:
    """A file system with small blocks, and further settings (`_` for `.`)."""
    settings = {name.replace("_", "."): value for name, value in conf.items()}
    whole = {**server.conf, "fs.s3a.multipart.size": "5M", **settings}
    if kind is not None:
        whole.update(kind.settings)
    with hflush.FileSystem.new_instance(server.url, whole) as fs:
        yield fs


def write(fs: hflush.FileSystem, path: str, data: bytes, **options: Any) -> None:
    with fs.create(path, **options) as out:
        out.write(data)


def read(fs: hflush.FileSystem, path: str) -> bytes:
    with fs.open(path) as reader:
        return bytes(reader.read())


def holds(server: S3, kind: Encryption, path: str, data: bytes) -> None:
    """The object has these bytes and is encrypted so: seen by boto3."""
    assert server.get(path[1:], **kind.reading) == data
    found = server.head(path[1:], **kind.reading)
    assert {name: found.get(name) for name in kind.shown} == kind.shown


@KINDS
@pytest.mark.rule("BUILDER-13", "CLOSE-3", "OBJ-5", "READ-15")
@pytest.mark.parametrize("size", SIZES)
def test_ours_are_encrypted(server: S3, root: str, kind: Encryption, size: int) -> None:
    """One request or many parts: as configured, and read back by us and by boto3."""
    path, data = f"{root}/file", dataset(size)
    with client(server, kind) as fs:
        assert fs.contract_options["conditional-create"] is True  # tried out with the keys, too
        write(fs, path, data, overwrite=False)
        assert fs.get_file_status(path).length == size
        assert read(fs, path) == data
        with fs.open(path) as reader:
            assert reader.pread(size // 2, 100) == data[size // 2 : size // 2 + 100]
    holds(server, kind, path, data)
    assert server.uploads(root[1:]) == []


@KINDS
@pytest.mark.rule("READ-15")
def test_theirs_are_read(server: S3, root: str, kind: Encryption) -> None:
    """What boto3 has written encrypted."""
    data = dataset(PART)
    server.put(f"{root}/theirs"[1:], data, **kind.writing)
    with client(server, kind) as fs:
        assert [(found.name, found.length) for found in fs.list_status(root)] == [("theirs", PART)]
        assert read(fs, f"{root}/theirs") == data


@KINDS
@pytest.mark.rule("RENAME-1", "RENAME-27", "EXTRA-8")
@pytest.mark.parametrize("threshold", ["5G", "5M"], ids=["whole", "in parts"])
def test_what_is_copied_stays_encrypted(
    server: S3, root: str, kind: Encryption, threshold: str
) -> None:
    """Files and directories that are renamed, and files that are copied."""
    data = dataset(2 * PART + 10)
    with client(server, kind, fs_s3a_multipart_threshold=threshold) as fs:
        for name in ("directory/file", "single"):
            write(fs, f"{root}/{name}", data)
        fs.rename(f"{root}/directory", f"{root}/moved")
        fs.rename(f"{root}/single", f"{root}/renamed")
        fs.copy(f"{root}/renamed", f"{root}/copied")
        names = ["copied", "moved/file", "renamed"]
        for name in names:
            assert read(fs, f"{root}/{name}") == data
    for name in names:
        holds(server, kind, f"{root}/{name}", data)
    assert server.tree(f"{root[1:]}/") == sorted([*names, "moved"])


@KINDS
@pytest.mark.rule("MPU-1", "OBJ-5")
def test_uploads_by_hand_are_encrypted(server: S3, root: str, kind: Encryption) -> None:
    """Those of an uploader, and those that another file system completes."""
    data = dataset(PART + 10)
    with client(server, kind) as fs, client(server, kind) as other:
        uploader: MultipartUploader = fs.create_multipart_uploader(root)
        by_parts = f"{root}/parts"
        upload = uploader.start_upload(by_parts)
        handles = {
            1: uploader.put_part(upload, by_parts, 1, False, data[:PART]),
            2: uploader.put_part(upload, by_parts, 2, True, data[PART:]),
        }
        uploader.complete(upload, by_parts, handles)
        out = fs.create_pending(f"{root}/pending")
        with out:
            out.write(data)
        assert out.pending_commit is not None
        other.complete_pending(out.pending_commit)
    for name in ("parts", "pending"):
        holds(server, kind, f"{root}/{name}", data)


@pytest.mark.rule("FAIL-1", "FAIL-3", "FAIL-4")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("other", [customer_key(OTHER_KEY), None], ids=["wrong key", "no key"])
def test_without_the_right_key(server: S3, root: str, size: int, other: Encryption | None) -> None:
    """Nothing is read, nothing is copied: an error that names the path and no key."""
    path = f"{root}/file"
    with client(server, SSE_C) as fs:
        write(fs, path, dataset(size))
    with client(server, other) as fs:
        for call in (
            lambda: read(fs, path),
            lambda: fs.get_file_status(path),
            lambda: fs.rename(path, f"{root}/moved"),
        ):
            with pytest.raises(OSError, match=r"HTTP 40[03]") as refusal:
                call()
            assert refusal.value.filename == f"{server.url}{path}"
            for key in (KEY, OTHER_KEY):
                assert b64encode(key).decode() not in f"{refusal.value!r} {vars(refusal.value)}"
    with pytest.raises(ClientError):
        server.get(path[1:])
    assert server.tree(f"{root[1:]}/") == ["file"]
    holds(server, SSE_C, path, dataset(size))


@pytest.mark.rule("FAIL-1", "OBJ-5")
def test_another_key_replaces_what_it_cannot_read(server: S3, root: str) -> None:
    """A new object has its own key, whatever the key of the old one was."""
    path, other = f"{root}/file", customer_key(OTHER_KEY)
    with client(server, SSE_C) as fs:
        write(fs, path, b"old")
    with client(server, other, fs_s3a_create_performance="true") as fs:
        write(fs, path, dataset(PART + 10))
        assert read(fs, path) == dataset(PART + 10)
    holds(server, other, path, dataset(PART + 10))


@pytest.mark.rule("FAIL-1")
def test_a_pending_commit_of_another_key(server: S3, root: str) -> None:
    """Is refused before the server is asked: it could not be looked at afterwards."""
    with client(server, SSE_C) as fs, client(server, customer_key(OTHER_KEY)) as other:
        out = fs.create_pending(f"{root}/file")
        with out:
            out.write(dataset(PART + 10))
        assert out.pending_commit is not None
        with pytest.raises(ValueError, match="SSE-C"):
            other.complete_pending(out.pending_commit)
        assert fs.abort_pending(out.pending_commit)
    assert server.tree(f"{root[1:]}/") == []
    assert server.uploads(root[1:]) == []


@pytest.mark.rule("FAIL-4")
def test_a_key_is_not_sent_in_the_clear(s3_server: S3) -> None:
    """Without TLS the configuration is refused."""
    with pytest.raises(ValueError, match="SSE-C needs TLS"), client(s3_server, SSE_C):
        pass
