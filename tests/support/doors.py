"""The ways in which streams reach those who write to them, and what may happen on each.

A door is what stands between a program and the stream: Python's own wrappers, archives,
compressors, fsspec, pandas, pyarrow. Each is tried with every ending, on every store:
test_doors.py of tests/integration, which docs/reliability.md shows.

    python doors.py ARGUMENT    leaves a stream open behind each door, at exit
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import hflush
import pandas
import pyarrow
import zstandard
from pyarrow import fs as arrow_fs
from pyarrow import parquet

CHUNKS = [bytes([65 + number]) * 40_000 for number in range(3)]
WHOLE = b"".join(CHUNKS)
OLD = b"what was there before"
# Before which chunk an exception is raised.
EXCEPTIONS = {
    "exception at the start": 0,
    "exception in the middle": 1,
    "exception at the end": len(CHUNKS),
}
ENDINGS = ("success", *EXCEPTIONS, "collected", "at exit")


class Target:
    """A path of a store, for those who make a stream of it and those who take a name.

    is_atomic    its files are made with atomic=True, which a name alone cannot say
    """

    def __init__(self, url: str, conf: dict[str, Any], is_atomic: bool) -> None:
        self.url = url
        self.conf = conf
        self.is_atomic = is_atomic

    @property
    def options(self) -> dict[str, Any]:
        return {"atomic": True} if self.is_atomic else {}

    def create(self) -> hflush.FSDataOutputStream:
        return hflush.create(self.url, conf=self.conf, **self.options)

    @property
    def storage(self) -> dict[str, Any]:
        """fsspec's storage options."""
        has_sidecar = self.url.startswith("file+crc:")
        return {"conf": {**self.conf, "fs.file.checksum": True} if has_sidecar else self.conf}

    @property
    def name(self) -> str:
        """The URL for fsspec."""
        return "hflush+" + self.url.replace("file+crc:", "file:", 1)

    @property
    def fs(self) -> Any:
        return fsspec.core.url_to_fs(self.name, **self.storage)[0]

    @property
    def fs_path(self) -> str:
        return str(self.fs._strip_protocol(self.name))


class Door:
    """One door: what a program does, and how to read the result.

    make       returns what is used in a `with` block
    write      writes one chunk to what the block is given
    decode     returns what was written, of the bytes at the path
    hold       returns what may be dropped instead; None if nothing can be
    by_name    takes a name, not a stream
    closes_itself    when it is collected: it has a __del__ that closes
    """

    def __init__(
        self,
        title: str,
        make: Callable[[Target], Any],
        *,
        write: Callable[[Any, bytes], object] = lambda file, chunk: file.write(chunk),
        decode: Callable[[bytes], bytes] = bytes,
        hold: Callable[[Target], Any] | None,
        by_name: bool = False,
        closes_itself: bool = False,
    ) -> None:
        self.title = title
        self.make = make
        self.write = write
        self.decode = decode
        self.hold = hold
        self.by_name = by_name
        self.closes_itself = closes_itself

    def use(self, target: Target, fails_at: int | None, error: BaseException) -> None:
        with self.make(target) as file:
            for number, chunk in enumerate(CHUNKS):
                if number == fails_at:
                    raise error
                self.write(file, chunk)
            if fails_at == len(CHUNKS):
                raise error

    def open(self, target: Target) -> Any:
        """Return an object that was written to and is not closed."""
        assert self.hold is not None
        held = self.hold(target)
        self.write(held, CHUNKS[0])
        return held


def text(file: Any, chunk: bytes) -> None:
    file.write(chunk.decode())


def rows(file: Any, chunk: bytes) -> None:
    csv.writer(file).writerow([chunk.decode()])


def of_rows(content: bytes) -> bytes:
    return content.replace(b"\r\n", b"").replace(b"\n", b"")


def entry(archive: Any, chunk: bytes) -> None:
    if isinstance(archive, zipfile.ZipFile):
        archive.writestr(chr(chunk[0]), chunk)
    else:
        member = tarfile.TarInfo(chr(chunk[0]))
        member.size = len(chunk)
        archive.addfile(member, io.BytesIO(chunk))


def of_zip(content: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return b"".join(archive.read(name) for name in archive.namelist())


def of_tar(content: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = [archive.extractfile(member) for member in archive]
        return b"".join(member.read() for member in members if member is not None)


def over(
    wrap: Callable[[Any], Any], outer: Callable[[Any], Any]
) -> Callable[[Target], contextlib.AbstractContextManager[Any]]:
    """What closes nothing that it was given, and what closes the stream around it."""

    @contextlib.contextmanager
    def both(target: Target) -> Iterator[Any]:
        with outer(target.create()) as out, wrap(out) as file:
            yield file

    return both


@contextlib.contextmanager
def finally_closed(target: Target) -> Iterator[Any]:
    out = target.create()
    try:
        yield out
    finally:
        out.close()


def zipped(out: Any) -> zipfile.ZipFile:
    return zipfile.ZipFile(out, "w")


def tarred(out: Any) -> tarfile.TarFile:
    return tarfile.open(fileobj=out, mode="w|")


def by_arrow(target: Target) -> arrow_fs.PyFileSystem:
    return arrow_fs.PyFileSystem(arrow_fs.FSSpecHandler(target.fs))


SCHEMA = pyarrow.schema([("data", pyarrow.binary())])


def table(chunk: bytes) -> pyarrow.Table:
    return pyarrow.table({"data": [chunk]}, schema=SCHEMA)


class ByPandas(Door):
    """A call that makes everything itself: what fails is the text of a value."""

    def __init__(self) -> None:
        super().__init__(
            "`DataFrame.to_csv(URL)`", lambda _: None, decode=of_rows, hold=None, by_name=True
        )

    def use(self, target: Target, fails_at: int | None, error: BaseException) -> None:
        class Value:
            def __init__(self, number: int) -> None:
                self.number = number

            def __str__(self) -> str:
                fails = fails_at is not None and self.number == min(fails_at, len(CHUNKS) - 1)
                if fails:
                    raise error
                return CHUNKS[self.number].decode()

        frame = pandas.DataFrame({"data": [Value(n) for n in range(len(CHUNKS))]}, dtype=object)
        frame.to_csv(target.name, storage_options=target.storage, index=False, header=False)


def _fsspec(mode: str, **options: Any) -> Callable[[Target], Any]:
    def make(target: Target) -> Any:
        if target.is_atomic:  # fsspec.open has no place for an option of a file
            return target.fs.open(target.fs_path, mode, atomic=True, **options)
        return fsspec.open(target.name, mode, **options, **target.storage)

    return make


def _opened(mode: str, **options: Any) -> Callable[[Target], Any]:
    return lambda target: target.fs.open(target.fs_path, mode, **options, **target.options)


DOORS = (
    Door("the stream itself", Target.create, hold=Target.create),
    Door(
        '`hflush.open(…, "w")`',
        lambda target: hflush.open(target.url, "w", conf=target.conf, **target.options),
        write=text,
        hold=lambda target: hflush.open(target.url, "w", conf=target.conf, **target.options),
    ),
    Door(
        "`io.TextIOWrapper`",
        lambda target: io.TextIOWrapper(target.create()),
        write=text,
        hold=lambda target: io.TextIOWrapper(target.create()),
    ),
    Door(
        "`io.BufferedWriter`",
        lambda target: io.BufferedWriter(target.create(), 1 << 20),  # type: ignore[arg-type]
        hold=lambda target: io.BufferedWriter(target.create(), 1 << 20),  # type: ignore[arg-type]
    ),
    Door(
        "`csv.writer` over text",
        lambda target: io.TextIOWrapper(target.create(), newline=""),
        write=rows,
        decode=of_rows,
        hold=lambda target: io.TextIOWrapper(target.create(), newline=""),
    ),
    Door(
        "`contextlib.closing`",
        lambda target: contextlib.closing(target.create()),
        hold=None,
    ),
    Door("`@contextmanager`, `try … finally`", finally_closed, hold=None),
    Door(
        "`gzip.open`",
        over(lambda out: gzip.open(out, "wb"), contextlib.closing),
        decode=gzip.decompress,
        hold=lambda target: gzip.open(target.create(), "wb"),
    ),
    Door(
        "`zipfile.ZipFile`",
        over(zipped, contextlib.closing),
        write=entry,
        decode=of_zip,
        hold=lambda target: zipped(target.create()),
    ),
    Door(
        "`tarfile.open`",
        over(tarred, contextlib.closing),
        write=entry,
        decode=of_tar,
        hold=lambda target: tarred(target.create()),
    ),
    Door(
        "`zstandard` `stream_writer`",
        lambda target: zstandard.ZstdCompressor().stream_writer(target.create()),
        decode=lambda content: zstandard.ZstdDecompressor().decompressobj().decompress(content),
        hold=lambda target: zstandard.ZstdCompressor().stream_writer(target.create()),
    ),
    Door('`fsspec.open(…, "wb")`', _fsspec("wb"), hold=_opened("wb")),
    Door('`fsspec.open(…, "wt")`', _fsspec("wt"), write=text, hold=_opened("wt")),
    Door(
        '`fsspec.open(…, compression="gzip")`',
        _fsspec("wb", compression="gzip"),
        decode=gzip.decompress,
        hold=_opened("wb", compression="gzip"),
    ),
    ByPandas(),
    Door(
        "`pyarrow.parquet.ParquetWriter`",
        lambda target: parquet.ParquetWriter(target.fs_path, SCHEMA, filesystem=by_arrow(target)),
        write=lambda writer, chunk: writer.write_table(table(chunk)),
        decode=lambda content: b"".join(
            parquet.read_table(io.BytesIO(content)).column("data").to_pylist()
        ),
        hold=lambda target: parquet.ParquetWriter(
            target.fs_path, SCHEMA, filesystem=by_arrow(target)
        ),
        by_name=True,
        closes_itself=True,
    ),
    Door(
        "pyarrow's `open_output_stream`",
        lambda target: by_arrow(target).open_output_stream(target.fs_path),
        hold=lambda target: by_arrow(target).open_output_stream(target.fs_path),
        by_name=True,
    ),
)


def leave_open(doors: list[tuple[int, str]], conf: dict[str, Any], is_atomic: bool) -> list[Any]:
    """Open doors, each for a URL of its own."""
    return [DOORS[number].open(Target(url, conf, is_atomic)) for number, url in doors]


if __name__ == "__main__":
    held = leave_open(*json.loads(sys.argv[1]))
