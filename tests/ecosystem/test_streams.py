"""Our streams in the hands of other libraries: sixty uses, on each store.

A use writes a file through `place.create` and reads it through `place.open`, or is refused.
"""

from __future__ import annotations

import array
import asyncio
import bz2
import codecs
import contextlib
import csv
import ctypes
import gzip
import hashlib
import io
import itertools
import json
import logging
import lzma
import mmap
import os
import pickle
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Callable
from typing import Any

import fastavro
import h5py
import hflush
import lz4.frame
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet
import pyorc
import pytest
import zstandard
from ecosystem.conftest import Place

LINES = [f"line {n}\n" for n in range(1000)]
TEXT = "".join(LINES)
DATA = TEXT.encode()
ROWS = [{"number": n, "text": f"row {n}"} for n in range(500)]
TABLE = pa.table({"number": list(range(500)), "text": [f"row {n}" for n in range(500)]})
ARRAY = np.arange(1000.0)

Use = Callable[[Place], None]
USES: list[Use] = []


def use(function: Use) -> Use:
    """Let a function be one of the uses."""
    USES.append(function)
    return function


@pytest.mark.parametrize("one", USES, ids=lambda one: one.__name__)
def test_use(place: Place, one: Use) -> None:
    one(place)


def test_there_are_sixty() -> None:
    assert len(USES) >= 60


# --- io, and what Python brings -------------------------------------------------------------------


@use
def text_io_wrapper(place: Place) -> None:
    with io.TextIOWrapper(place.create("x"), encoding="utf-8") as text:
        text.write(TEXT)
    with io.TextIOWrapper(place.open("x"), encoding="utf-8") as text:
        assert text.readlines() == LINES


@use
def text_mode(place: Place) -> None:
    with place.open("x", "w", encoding="utf-16", newline="\r\n") as text:
        text.writelines(LINES)
    with place.open("x", "r", encoding="utf-16") as text:
        assert text.read() == TEXT


@use
def buffered_writer(place: Place) -> None:
    with io.BufferedWriter(place.create("x"), 100) as out:
        for line in LINES:
            out.write(line.encode())
    assert place.read("x") == DATA


@use
def buffered_reader(place: Place) -> None:
    place.write("x", DATA)
    with io.BufferedReader(place.open("x"), 64) as reader:
        assert reader.peek(4)[:4] == b"line"
        assert b"".join(reader) == DATA


@use
def reading_by_lines(place: Place) -> None:
    place.write("x", DATA)
    with place.open("x") as reader:
        assert next(reader) == b"line 0\n"
        assert reader.readline() == b"line 1\n"
        assert reader.readlines(20) == [b"line 2\n", b"line 3\n", b"line 4\n"]


@use
def seeking_in_a_reader(place: Place) -> None:
    place.write("x", DATA)
    with place.open("x") as reader:
        assert reader.seek(-9, os.SEEK_END) == len(DATA) - 9
        assert reader.read() == b"line 999\n"
        reader.seek(7)
        buffer = bytearray(7)
        assert reader.readinto(buffer) == 7
        assert bytes(buffer) == b"line 1\n"


@use
def codecs_writer(place: Place) -> None:
    with codecs.getwriter("utf-8")(place.create("x")) as text:
        text.write("grün")
    with codecs.getreader("utf-8")(place.open("x")) as text:
        assert text.read() == "grün"


@use
def csv_module(place: Place) -> None:
    with place.open("x", "w", newline="") as text:
        writer = csv.DictWriter(text, ["number", "text"])
        writer.writeheader()
        writer.writerows(ROWS)
    with place.open("x", "r", newline="") as text:
        found = list(csv.DictReader(text))
    assert found[7] == {"number": "7", "text": "row 7"}
    assert len(found) == len(ROWS)


@use
def json_module(place: Place) -> None:
    with place.open("x", "w") as text:
        json.dump(ROWS, text)
    with place.open("x") as reader:
        assert json.load(reader) == ROWS


@use
def pickles(place: Place) -> None:
    with place.create("x") as out:
        pickle.dump(ROWS, out, protocol=5)
    with place.open("x") as reader:
        assert pickle.load(reader) == ROWS


@use
def pickle_out_of_band(place: Place) -> None:
    """Buffers that are written as they are."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(ARRAY, protocol=5, buffer_callback=buffers.append)
    with place.create("x") as out:
        out.write(buffers[0].raw())
    assert np.array_equal(pickle.loads(head, buffers=[place.read("x")]), ARRAY)


@use
def xml_module(place: Place) -> None:
    root = ET.Element("rows")
    ET.SubElement(root, "row").text = "grün"
    with place.create("x") as out:
        ET.ElementTree(root).write(out, encoding="utf-8", xml_declaration=True)
    with place.open("x") as reader:
        assert ET.parse(reader).getroot().findtext("row") == "grün"


@use
def logging_handler(place: Place) -> None:
    text = place.open("x", "w")
    handler = logging.StreamHandler(text)
    logger = logging.Logger("ecosystem")
    logger.addHandler(handler)
    logger.warning("said %s", "so")
    handler.flush()
    text.close()
    assert place.read("x") == b"said so\n"


@use
def printing(place: Place) -> None:
    with place.open("x", "w") as text:
        print("one", 2, file=text, flush=True)
    assert place.read("x") == b"one 2\n"


@use
def redirected_stdout(place: Place) -> None:
    with place.open("x", "w") as text, contextlib.redirect_stdout(text):
        print("hello")
    assert place.read("x") == b"hello\n"


@use
def copyfileobj(place: Place) -> None:
    with place.create("x") as out:
        shutil.copyfileobj(io.BytesIO(DATA), out, 1000)
    target = io.BytesIO()
    with place.open("x") as reader:
        shutil.copyfileobj(reader, target, 1000)
    assert target.getvalue() == DATA


@use
def writelines_of_a_generator(place: Place) -> None:
    with place.create("x") as out:
        out.writelines(line.encode() for line in LINES)
    assert place.read("x") == DATA


@use
def subprocess_pipe(place: Place) -> None:
    """Through Python: a stream has no descriptor that another process could have."""
    with place.create("x") as out:
        found = subprocess.run([sys.executable, "-c", "print('said')"], stdout=-1, check=True)
        out.write(found.stdout)
    assert place.read("x") == b"said\n"


# --- objects that hold bytes ----------------------------------------------------------------------


@use
def memoryviews(place: Place) -> None:
    with place.create("x") as out:
        assert out.write(memoryview(DATA)[4:10]) == 6
    assert place.read("x") == DATA[4:10]


@use
def bytearrays(place: Place) -> None:
    held = bytearray(DATA)
    with place.create("x") as out:
        out.write(held)
        held[:] = bytes(len(held))  # its bytes were taken
    assert place.read("x") == DATA


@use
def arrays(place: Place) -> None:
    numbers = array.array("d", range(100))
    with place.create("x") as out:
        assert out.write(numbers) == 800
    assert array.array("d", place.read("x")) == numbers


@use
def mmaps(place: Place) -> None:
    with mmap.mmap(-1, 8192) as mapped:
        mapped[:4] = b"data"
        with place.create("x") as out:
            out.write(mapped)
    assert place.read("x") == b"data" + bytes(8188)


@use
def ctypes_structures(place: Place) -> None:
    class Pair(ctypes.Structure):
        _fields_ = (("first", ctypes.c_uint32), ("second", ctypes.c_uint32))

    with place.create("x") as out:
        assert out.write(Pair(1, 2)) == 8
    assert Pair.from_buffer_copy(place.read("x")).second == 2


@use
def numpy_arrays_as_bytes(place: Place) -> None:
    with place.create("x") as out:
        out.write(ARRAY)
    assert np.array_equal(np.frombuffer(place.read("x")), ARRAY)


# --- compression and archives ---------------------------------------------------------------------


def _compressed(open_: Callable[..., Any]) -> Use:
    """A compressor over a stream, which the program closes."""

    def check(place: Place) -> None:
        with place.create("x") as out, open_(out, "wb") as compressor:
            compressor.write(DATA)
        assert place.read("x") != DATA
        with place.open("x") as reader, open_(reader, "rb") as expander:
            assert expander.read() == DATA

    return check


for _name, _open in (
    ("gzip_open", gzip.open),
    ("bz2_open", bz2.open),
    ("lzma_open", lzma.open),
    ("zstandard_open", zstandard.open),
    ("lz4_open", lz4.frame.open),
):
    _check = _compressed(_open)
    _check.__name__ = _name
    use(_check)


@use
def zstandard_stream_writer(place: Place) -> None:
    """Which closes what it writes to."""
    with zstandard.ZstdCompressor().stream_writer(place.create("x")) as compressor:
        compressor.write(DATA)
    with place.open("x") as reader:
        assert zstandard.ZstdDecompressor().stream_reader(reader).read() == DATA


@use
def zip_files(place: Place) -> None:
    """Written without seeking, read with it."""
    with place.create("x") as out, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/b", DATA)
        with archive.open("c", "w") as member:
            member.write(b"data")
    with place.open("x") as reader, zipfile.ZipFile(reader) as archive:
        assert archive.testzip() is None
        assert archive.read("a/b") == DATA
        assert archive.namelist() == ["a/b", "c"]


def _tar(write: str, read: str) -> Use:
    def check(place: Place) -> None:
        with place.create("x") as out, tarfile.open(fileobj=out, mode=write) as archive:
            member = tarfile.TarInfo("a/b")
            member.size = len(DATA)
            archive.addfile(member, io.BytesIO(DATA))
        with place.open("x") as reader, tarfile.open(fileobj=reader, mode=read) as archive:
            found = archive.next()
            assert found is not None
            held = archive.extractfile(found)
            assert held is not None
            assert held.read() == DATA

    return check


for _name, _write, _read in (
    ("tar_files", "w:", "r:"),
    ("tar_files_gz", "w:gz", "r:gz"),
    ("tar_streams", "w|", "r|"),
    ("tar_streams_gz", "w|gz", "r|gz"),
):
    _check = _tar(_write, _read)
    _check.__name__ = _name
    use(_check)


# --- numpy ----------------------------------------------------------------------------------------


@use
def numpy_save(place: Place) -> None:
    with place.create("x") as out:
        np.save(out, ARRAY)
    with place.open("x") as reader:
        assert np.array_equal(np.load(reader), ARRAY)


@use
def numpy_savez(place: Place) -> None:
    with place.create("x") as out:
        np.savez_compressed(out, one=ARRAY, two=ARRAY * 2)
    with place.open("x") as reader, np.load(reader) as found:
        assert np.array_equal(found["two"], ARRAY * 2)


@use
def numpy_savetxt(place: Place) -> None:
    with place.create("x") as out:
        np.savetxt(out, ARRAY)
    with place.open("x") as reader:
        assert np.array_equal(np.loadtxt(reader), ARRAY)


# --- pyarrow --------------------------------------------------------------------------------------


@use
def parquet(place: Place) -> None:
    with place.create("x") as out:
        pyarrow.parquet.write_table(TABLE, out)
    with place.open("x") as reader:
        assert pyarrow.parquet.read_table(reader).equals(TABLE)


@use
def parquet_writer(place: Place) -> None:
    with (
        place.create("x") as out,
        pyarrow.parquet.ParquetWriter(out, TABLE.schema, compression="zstd") as writer,
    ):
        for _ in range(3):
            writer.write_table(TABLE)
    with place.open("x") as reader:
        file = pyarrow.parquet.ParquetFile(reader)
        assert file.num_row_groups == 3
        assert file.read_row_group(1).equals(TABLE)


@use
def orc(place: Place) -> None:
    with place.create("x") as out:
        pyarrow.orc.write_table(TABLE, out)
    with place.open("x") as reader:
        assert pyarrow.orc.read_table(reader).equals(TABLE)


@use
def arrow_ipc_file(place: Place) -> None:
    with place.create("x") as out, pa.ipc.new_file(out, TABLE.schema) as writer:
        writer.write_table(TABLE)
    with place.open("x") as reader:
        assert pa.ipc.open_file(reader).read_all().equals(TABLE)


@use
def arrow_ipc_stream(place: Place) -> None:
    with place.create("x") as out, pa.ipc.new_stream(out, TABLE.schema) as writer:
        writer.write_table(TABLE)
    with place.open("x") as reader:
        assert pa.ipc.open_stream(reader).read_all().equals(TABLE)


@use
def feather(place: Place) -> None:
    with place.create("x") as out:
        pyarrow.feather.write_feather(TABLE, out)
    with place.open("x") as reader:
        assert pyarrow.feather.read_table(reader).equals(TABLE)


@use
def arrow_csv(place: Place) -> None:
    with place.create("x") as out:
        pyarrow.csv.write_csv(TABLE, out)
    with place.open("x") as reader:
        assert pyarrow.csv.read_csv(reader).equals(TABLE)


@use
def arrow_compressed_stream(place: Place) -> None:
    with place.create("x") as out, pa.CompressedOutputStream(out, "gzip") as compressor:
        compressor.write(DATA)
    with place.open("x") as reader, pa.CompressedInputStream(reader, "gzip") as expander:
        assert expander.read() == DATA


@use
def arrow_python_file(place: Place) -> None:
    with pa.PythonFile(place.create("x"), "w") as file:
        file.write(DATA)
    with pa.PythonFile(place.open("x"), "r") as file:
        assert file.size() == len(DATA)
        assert file.read_at(7, 7) == b"line 1\n"


# --- pandas ---------------------------------------------------------------------------------------


def _pandas(write: str, read: str, binary: bool = True) -> Use:
    def check(place: Place) -> None:
        frame = pd.DataFrame(ROWS)
        with place.open("x", "wb" if binary else "w") as out:
            getattr(frame, write)(out, **({"index": False} if write == "to_csv" else {}))
        with place.open("x", "rb" if binary else "r") as reader:
            found = getattr(pd, read)(reader)
        assert found.equals(frame)

    return check


for _name, _arguments in {
    "pandas_csv": ("to_csv", "read_csv"),
    "pandas_csv_text": ("to_csv", "read_csv", False),
    "pandas_parquet": ("to_parquet", "read_parquet"),
    "pandas_feather": ("to_feather", "read_feather"),
    "pandas_pickle": ("to_pickle", "read_pickle"),
    "pandas_json": ("to_json", "read_json"),
}.items():
    _check = _pandas(*_arguments)
    _check.__name__ = _name
    use(_check)


@use
def pandas_csv_compressed(place: Place) -> None:
    frame = pd.DataFrame(ROWS)
    with place.create("x") as out:
        frame.to_csv(out, index=False, compression="gzip")
    with place.open("x") as reader:
        assert pd.read_csv(reader, compression="gzip").equals(frame)


# --- polars, avro, orc, hdf5 ----------------------------------------------------------------------


@use
def polars_parquet(place: Place) -> None:
    frame = pl.DataFrame(ROWS)
    with place.create("x") as out:
        frame.write_parquet(out)
    with place.open("x") as reader:
        assert pl.read_parquet(reader).equals(frame)


@use
def polars_csv(place: Place) -> None:
    frame = pl.DataFrame(ROWS)
    with place.create("x") as out:
        frame.write_csv(out)
    with place.open("x") as reader:
        assert pl.scan_csv(reader).collect().equals(frame)


@use
def avro(place: Place) -> None:
    fields = [{"name": "number", "type": "long"}, {"name": "text", "type": "string"}]
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "fields": fields})
    with place.create("x") as out:
        fastavro.writer(out, schema, ROWS, codec="deflate")
    with place.open("x") as reader:
        assert list(fastavro.reader(reader)) == ROWS


@use
def orc_rows(place: Place) -> None:
    rows = [(row["number"], row["text"]) for row in ROWS]
    with place.create("x") as out, pyorc.Writer(out, "struct<number:int,text:string>") as writer:
        writer.writerows(rows)
    with place.open("x") as reader:
        assert list(pyorc.Reader(reader)) == rows


@use
def hdf5_reading(place: Place) -> None:
    made = io.BytesIO()
    with h5py.File(made, "w") as file:
        file["numbers"] = ARRAY
    place.write("x", made.getvalue())
    with place.open("x") as reader, h5py.File(reader, "r") as file:
        assert np.array_equal(file["numbers"][:], ARRAY)


# --- threads and digests --------------------------------------------------------------------------


@use
def file_digest(place: Place) -> None:
    place.write("x", DATA)
    with place.open("x") as reader:
        found = hashlib.file_digest(reader, "sha256").hexdigest()  # type: ignore[arg-type]
    assert found == hashlib.sha256(DATA).hexdigest()


@use
def asyncio_threads(place: Place) -> None:
    """Fifty writes at once to one stream: each is whole."""

    async def write() -> None:
        with place.create("x") as out:
            parts = (asyncio.to_thread(out.write, line.encode()) for line in LINES[:50])
            await asyncio.gather(*parts)

    asyncio.run(write())
    assert sorted(place.read("x").decode().splitlines(True)) == sorted(LINES[:50])


@use
def exit_stack(place: Place) -> None:
    with contextlib.ExitStack() as stack:
        outs = [stack.enter_context(place.create(f"x{n}")) for n in range(3)]
        for out, data in zip(outs, itertools.cycle([DATA]), strict=False):
            out.write(data)
    assert [place.read(f"x{n}") for n in range(3)] == [DATA] * 3


# --- what is refused, and leaves the stream as it was ---------------------------------------------


def _refused(attempt: Callable[[hflush.FSDataOutputStream], object]) -> Use:
    def check(place: Place) -> None:
        with place.create("x") as out:
            out.write(b"da")
            with pytest.raises(io.UnsupportedOperation):
                attempt(out)
            out.write(b"ta")
        assert place.read("x") == b"data"

    return check


for _name, _attempt in {
    "refused_fileno": lambda out: out.fileno(),
    "refused_subprocess_stdout": lambda out: subprocess.run(["true"], stdout=out, check=True),
    "refused_fsync": lambda out: os.fsync(out),
    "refused_tofile": lambda out: ARRAY.tofile(out),
    "refused_seek": lambda out: out.seek(0),
    "refused_truncate": lambda out: out.truncate(),
    "refused_read": lambda out: out.read(),
}.items():
    _check = _refused(_attempt)
    _check.__name__ = _name
    use(_check)


@use
def refused_update_modes(place: Place) -> None:
    place.write("x", DATA)
    for mode in ("r+b", "w+b", "a+", "x+"):
        with pytest.raises(io.UnsupportedOperation, match="no update mode"):
            place.open("x", mode)
    assert place.read("x") == DATA
