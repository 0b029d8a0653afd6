"""Uses that type checkers see: a line that ends in "error: CODE" must be refused, all others not.

Read by tests/unit/test_types.py, never run.
"""

from __future__ import annotations

import io
from typing import IO, BinaryIO

import hflush
from hflush import checkpoint, fsspec, multipart, s3, trash


def report() -> None: ...


def take(file: BinaryIO) -> None: ...


def take_bytes(file: IO[bytes]) -> None: ...


def open_somehow(mode: str) -> None:
    hflush.open("a", mode)
    hflush.aio.open("a", mode)


# Every option of create, append and open.
out: hflush.FSDataOutputStream = hflush.create(
    "a",
    overwrite=False,
    conf={"a": 1},
    recursive=True,
    permission=0o640,
    buffer_size="64k",
    replication=3,
    block_size="128m",
    flags={hflush.CreateFlag.CREATE},
    create_parent=True,
    atomic=True,
    close_on_exception="publish",
    checksum_type="CRC32C",
    bytes_per_checksum=512,
    sync_on_close=True,
    progress=report,
    favored_nodes=["a:1"],
    storage_policy="HOT",
    ec_policy="RS-6-3-1024k",
    update_length=True,
    content_type="text/plain",
    if_match="etag",
    storage_class="STANDARD",
)
hflush.append("a", buffer_size=0, flags=hflush.CreateFlag.NEW_BLOCK, sync_on_close=True)
fs = hflush.FileSystem.get("a")
fs.create("a", replication=3, atomic=True)
fs.append("a", update_length=True)
fs.open("a", buffer_size="1m", read_policy="random", length=5, split_start=0, split_end=5)
binary: hflush.FSDataOutputStream = hflush.open("a", "wb", atomic=True)
reader: hflush.FSDataInputStream = hflush.open("a", "rb", read_policy="random")
text: io.TextIOWrapper = hflush.open("a", "w", atomic=True, encoding="utf-8")

hflush.create("a", replicaton=3)  # error: call-arg
hflush.create("a", replication="three")  # error: arg-type
hflush.create("a", atomic="yes")  # error: arg-type
hflush.append("a", replication=3)  # error: call-arg
hflush.open("a", "rb", atomik=True)  # error: call-overload
fs.create("a", blocksize=1)  # error: call-arg
fs.append("a", blocksize=1)  # error: call-arg
fs.open("a", length="5")  # error: arg-type

# Output streams are binary files.
take(out)
take_bytes(out)
take(reader)
take_bytes(reader)
take(hflush.open("a", "xb"))
io.TextIOWrapper(out)
with hflush.create("a") as inside:
    take(inside)
    inside.hsync()
    inside.hsync(end_block=True)
    inside.hsync(end_block="yes")  # error: arg-type
out.hsink()  # error: attr-defined

# Modules that come with their first use.
manager: checkpoint.CheckpointFileManager = hflush.checkpoint.CheckpointFileManager.create("a")
take(manager.create_atomic("a", True))
log: hflush.checkpoint.MetadataLog[bytes] = hflush.checkpoint.MetadataLog("a")
uploader: multipart.MultipartUploader
store: s3.S3FileSystem
bin: trash.Trash
hflush.fsspec.register()
fsspec.register(5)  # error: arg-type
hflush.checkpoint.MetadatLog("a")  # error: attr-defined
missing = hflush.chekpoint  # error: attr-defined
crc: int = hflush.crc.crc32c(b"a")
