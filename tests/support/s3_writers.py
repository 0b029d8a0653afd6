"""File systems over the S3 servers of tests, impatient ones; and what has to be true afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import hflush

from support.data import dataset
from support.scripted_s3 import BUCKET, SECRET, ScriptedS3
from support.waiting import wait_until

MIB = 1 << 20
PART = 5 * MIB
DATA = dataset(2 * PART + 12_345)  # three parts
SMALL = dataset(1000)
OLD = b"what was there before"
KEY = "dir/a key+é"
PATH = f"/{KEY}"

CREATE, UPLOAD, COMPLETE = "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"
ABORT, PUT, HEAD, GET = "AbortMultipartUpload", "PutObject", "HeadObject", "GetObject"

# No look before a create, and short pauses: what is waited for in tests is counted, not timed.
IMPATIENT = {
    "fs.s3a.multipart.size": str(PART),
    "fs.s3a.create.performance": "true",
    "fs.s3a.create.conditional.enabled": "true",
    "fs.s3a.retry.interval": "5ms",
    "fs.s3a.retry.throttle.interval": "5ms",
}


class HasConf(Protocol):
    """Something that says how it is reached."""

    @property
    def conf(self) -> Mapping[str, str]: ...


def file_system(server: HasConf, conf: Mapping[str, str] | None = None) -> hflush.FileSystem:
    """A new instance, with more settings."""
    conf = {**server.conf, **IMPATIENT, **(conf or {})}
    return hflush.FileSystem.new_instance(f"s3://{BUCKET}/", conf)


def write(fs: hflush.FileSystem, data: bytes = DATA, path: str = PATH, **options: Any) -> Any:
    """A whole object, in writes of odd sizes; the closed stream."""
    stream = fs.create(path, **options)
    with stream:
        write_pieces(stream, data)
    return stream


def write_pieces(stream: Any, data: bytes) -> None:
    """In writes of odd sizes: of what is copied, and of what is sent from where it lies."""
    view = memoryview(data)
    step = 1_000_003
    for number, start in enumerate(range(0, len(data), step)):
        piece = view[start : start + step]
        stream.write(bytes(piece) if number % 2 else piece)


def published(server: ScriptedS3, data: bytes = DATA, key: str = KEY) -> None:
    """Exactly that is there, and nothing is left."""
    assert server.objects[key].data == data
    no_upload_left(server)


def unchanged(server: ScriptedS3, key: str = KEY, *, old: bytes | None = None) -> None:
    """What was there before is there, or nothing; and nothing is left."""
    there = server.objects.get(key)
    assert (None if there is None else there.data) == old
    no_upload_left(server)


def no_upload_left(server: ScriptedS3) -> None:
    wait_until(lambda: not server.uploads, "every upload is ended")


def put_old(server: ScriptedS3, key: str = KEY) -> bytes:
    server.put(key, OLD)
    return OLD


def without_secrets(error: BaseException) -> None:
    """No message of the error, of its causes or notes holds a secret."""
    links: list[BaseException] = [error]
    for link in links:
        texts = [str(link), repr(link), *getattr(link, "__notes__", [])]
        assert not any(SECRET in text for text in texts)
        assert not any("Signature=" in text for text in texts)
        links += [each for each in (link.__cause__, link.__context__) if each and each not in links]
