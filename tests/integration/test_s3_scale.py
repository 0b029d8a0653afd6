"""S3: large objects, small memory, and other clients of the same objects."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from typing import Any

import hflush
import pytest
from support.data import dataset
from support.peer import Peer
from support.s3 import S3
from support.scripted_s3 import BUCKET, Rules, ScriptedS3

MIB = 1 << 20
GIB = 1 << 30
PART = 5 * MIB

pytestmark = pytest.mark.stores("s3")


@pytest.fixture
def root(s3_server: S3) -> Iterator[str]:
    path = s3_server.root()
    yield path
    s3_server.forget(path)


@pytest.fixture
def fs(s3_server: S3, root: str) -> Iterator[hflush.FileSystem]:
    conf = {**s3_server.conf, "fs.s3a.multipart.size": "5M"}
    with hflush.FileSystem.new_instance(s3_server.url, conf) as ours:
        yield ours


# --- size and memory ---

# What a writer in a process of its own does: the peak of its memory, above what it had before.
MEASURED = """
import gc, pathlib, re

def resident(name):
    text = pathlib.Path('/proc/self/status').read_text()
    return int(re.search(rf'{name}:\\s+(\\d+) kB', text)[1]) << 10

piece = memoryview(bytes(range(256)) * 256)
with fs.create('/warm-up') as out:
    out.write(piece)
gc.collect()
before = resident('VmRSS')
pathlib.Path('/proc/self/clear_refs').write_text('5')
with fs.create('/large') as out:
    for _ in range(size // len(piece)):
        out.write(piece)
result = resident('VmHWM') - before
"""


@pytest.mark.slow
@pytest.mark.rule("WRITE-22")
@pytest.mark.parametrize("buffer", ["array", "disk"])
def test_memory_is_bounded(buffer: str, tmp_path: Any) -> None:
    """1 GiB to a store slower than the writer takes no more memory than the budget and a little."""
    budget = 32 * MIB
    with ScriptedS3(Rules(keeps_data=False)) as server:
        conf = {
            **server.conf,
            "fs.s3a.fast.upload.buffer": buffer,
            "fs.s3a.buffer.dir": str(tmp_path),
            "hflush.s3.memory": str(budget),
        }
        writer = Peer(f"s3://{BUCKET}/", conf)
        try:
            grown = writer.run(MEASURED, size=GIB)
        finally:
            writer.kill()
        assert server.objects["large"].size == GIB
        assert not server.uploads
    assert grown <= budget + 8 * MIB
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.rule("WRITE-18", "WRITE-19")
def test_more_than_4_gib_can_be_written() -> None:
    """Positions, counters and parts cross 2**32 without loss."""
    with ScriptedS3(Rules(keeps_data=False)) as server:
        fs = hflush.FileSystem.new_instance(
            f"s3://{BUCKET}/", {**server.conf, "fs.s3a.multipart.size": "64M"}
        )
        piece = memoryview(dataset(64 * MIB, 1, 252))
        with fs, fs.create("/large") as out:
            for _ in range(64):
                out.write(piece)
            out.write(b"tail")
        assert out.tell() == 2**32 + 4
        assert out.io_statistics().counters["stream_write_bytes"] == 2**32 + 4
        stored = server.objects["large"]
        parts = {call.part: len(call.body) for call in server.calls("UploadPart")}
    assert stored.size == 2**32 + 4
    assert sum(parts.values()) == 2**32 + 4
    assert sorted(parts) == list(range(1, len(parts) + 1))


# --- other clients ---


@pytest.mark.rule("CLOSE-3", "WRITE-17", "OBJ-5")
@pytest.mark.parametrize("size", [0, 1, PART - 1, PART, PART + 1, 3 * PART + 12_345])
def test_boto3_reads_ours(s3_server: S3, fs: hflush.FileSystem, root: str, size: int) -> None:
    """Whole and by ranges, with its own verification of checksums."""
    data = random.Random(size).randbytes(size)
    path = f"{root}/file"
    with fs.create(path) as out:
        out.write(data)
    client = s3_server.verifying_client()
    answer = client.get_object(Bucket=s3_server.bucket, Key=path[1:], ChecksumMode="ENABLED")
    assert answer["Body"].read() == data
    assert answer["ContentType"] == "application/octet-stream"
    if size > 100:
        ranged = client.get_object(Bucket=s3_server.bucket, Key=path[1:], Range="bytes=50-99")
        assert ranged["Body"].read() == data[50:100]
    client.close()


@pytest.mark.rule("READ-15", "READ-4", "READ-13")
@pytest.mark.parametrize("size", [0, 10, 17 * MIB])
def test_we_read_those_of_boto3(s3_server: S3, fs: hflush.FileSystem, root: str, size: int) -> None:
    """Objects of its multipart uploads, too: sequentially, and at random places."""
    import io

    data = random.Random(size).randbytes(size)
    path = f"{root}/theirs"
    s3_server.client.upload_fileobj(io.BytesIO(data), s3_server.bucket, path[1:])
    assert fs.get_file_status(path).length == size
    with fs.open(path) as reader:
        assert hashlib.md5(reader.read()).digest() == hashlib.md5(data).digest()
        for position in random.Random(1).sample(range(max(1, size)), min(size, 50)):
            assert reader.pread(position, 1000) == data[position : position + 1000]


@pytest.mark.rule("WRITE-17", "CLOSE-3")
def test_arrow_reads_ours(s3_server: S3, fs: hflush.FileSystem, root: str) -> None:
    """A Parquet file that pyarrow writes to our stream, read by Arrow's own client of S3."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import fs as arrow

    table = pa.table({"a": list(range(200_000)), "b": [str(n) for n in range(200_000)]})
    with fs.create(f"{root}/table.parquet") as out:
        pq.write_table(table, out)
    theirs = arrow.S3FileSystem(
        access_key=s3_server.server.access_key,
        secret_key=s3_server.server.secret_key,
        endpoint_override=s3_server.server.url,
        region="us-east-1",
    )
    found = pq.read_table(f"{s3_server.bucket}{root}/table.parquet", filesystem=theirs)
    assert found.equals(table)
    with fs.open(f"{root}/table.parquet") as reader:
        assert pq.read_table(reader).equals(table)


def write(fs: hflush.FileSystem, path: str, data: bytes) -> None:
    with fs.create(path) as out:
        out.write(data)


@pytest.mark.rule("BUILDER-13")
@pytest.mark.parametrize("size", [10, PART + 10])
@pytest.mark.parametrize(
    ("settings", "minio", "radosgw", "versitygw"),
    [
        (
            {"fs.s3a.encryption.algorithm": "AES256"},
            {"ServerSideEncryption": "AES256"},
            "encryption is not what was asked for",  # it does not say that it does not know it
            "encryption is not what was asked for",
        ),
        (
            {"fs.s3a.encryption.algorithm": "SSE-KMS", "fs.s3a.encryption.key": "hflush"},
            {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "arn:aws:kms:hflush"},
            {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "hflush"},
            "encryption is not what was asked for",
        ),
        (
            {"fs.s3a.create.storage.class": "reduced_redundancy"},
            {"StorageClass": "REDUCED_REDUNDANCY"},
            "InvalidArgument",
            {"StorageClass": "STANDARD"},  # it knows no other
        ),
        (
            {"fs.s3a.object.content.encoding": "identity"},
            {"ContentEncoding": "identity"},
            {"ContentEncoding": "identity"},
            {"ContentEncoding": "identity"},
        ),
    ],
    ids=["SSE-S3", "SSE-KMS", "storage class", "content encoding"],
)
def test_how_objects_are_kept(
    s3_server: S3,
    root: str,
    settings: dict[str, str],
    minio: dict[str, str | None],
    radosgw: dict[str, str | None] | str,
    versitygw: dict[str, str | None] | str,
    size: int,
) -> None:
    """Encryption, storage class and encoding of the configuration are the object's.

    What a server refuses is an error with its code, and nothing is published.
    """
    expected = {"minio": minio, "radosgw": radosgw, "versitygw": versitygw}[s3_server.name]
    conf = {**s3_server.conf, **settings, "fs.s3a.multipart.size": "5M"}
    path = f"{root}/file"
    with hflush.FileSystem.new_instance(s3_server.url, conf) as fs:
        if isinstance(expected, str):
            with pytest.raises(OSError, match=expected) as refusal:
                write(fs, path, dataset(size))
            assert refusal.value.filename == f"{s3_server.url}{path}"
            assert not s3_server.exists(path[1:])
            return
        write(fs, path, dataset(size))
        with fs.open(path) as reader:
            assert reader.read() == dataset(size)
    found = s3_server.head(path[1:])
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.rule("FAIL-12", "WRITE-17")
def test_a_session_token_is_enough(s3_server: S3, root: str) -> None:
    """Temporary credentials that may do anything write, list, read and delete."""
    conf = {**s3_server.restricted("s3:*"), "fs.s3a.multipart.size": "5M"}
    if s3_server.name == "radosgw":  # it refuses DeleteObjects to sessions
        conf["fs.s3a.multiobjectdelete.enable"] = "false"
    with hflush.FileSystem.new_instance(s3_server.url, conf) as fs:
        for size in (10, PART + 10):
            with fs.create(f"{root}/file") as out:
                out.write(dataset(size))
            assert s3_server.get(f"{root}/file"[1:]) == dataset(size)
        assert [status.name for status in fs.list_status(root)] == ["file"]
        assert fs.delete(root, recursive=True)
