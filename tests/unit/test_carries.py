"""What writes to files in Python writes to our streams, and the store has every byte of it."""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
import pickle
import shutil
import tarfile
import zipfile
from collections.abc import Iterator

import hflush
import pytest
from support.data import dataset
from support.stores import Store

DATA = dataset(100_000)


@pytest.fixture
def path(store: Store) -> str:
    return store.path("file")


@pytest.fixture
def out(store: Store, path: str) -> Iterator[hflush.FSDataOutputStream]:
    with store.fs.create(path) as stream:
        yield stream


def test_io_knows_it(out: hflush.FSDataOutputStream):
    """It is an io.BufferedIOBase, and not a raw one."""
    assert isinstance(out, io.BufferedIOBase)
    assert isinstance(out, io.IOBase)
    assert not isinstance(out, io.RawIOBase)


def test_text_io_wrapper(store: Store, path: str, out: hflush.FSDataOutputStream):
    """io.TextIOWrapper encodes onto it and closes it."""
    with io.TextIOWrapper(out, encoding="utf-8", newline="\n") as text:
        text.write("grüße\n" * 10_000)
        assert text.buffer is out
        assert not text.seekable()
    assert out.closed
    assert store.read(path) == "grüße\n".encode() * 10_000


def test_buffered_writer(store: Store, path: str, out: hflush.FSDataOutputStream):
    """io.BufferedWriter puts its buffer in front of it."""
    with io.BufferedWriter(out, 1000) as buffered:
        for start in range(0, len(DATA), 333):
            assert buffered.write(DATA[start : start + 333]) == len(DATA[start : start + 333])
    assert store.read(path) == DATA


def test_csv(store: Store, path: str):
    """csv.writer writes rows through the text mode."""
    rows = [["a", "b,c"], ["1", 'say "x"'], ["é", ""]]
    with hflush.open(store.url(path), "w", encoding="utf-8", newline="") as text:
        csv.writer(text).writerows(rows)
    with hflush.open(store.url(path), "r", encoding="utf-8", newline="") as text:
        assert list(csv.reader(text)) == rows


def test_gzip(store: Store, path: str, out: hflush.FSDataOutputStream):
    """gzip.GzipFile compresses onto it, and leaves it open."""
    with gzip.GzipFile(fileobj=out, mode="wb") as compressed:
        compressed.write(DATA)
    assert not out.closed
    out.close()
    with store.fs.open(path) as stream, gzip.open(stream) as compressed:
        assert compressed.read() == DATA


def test_zipfile(store: Store, path: str, out: hflush.FSDataOutputStream):
    """zipfile.ZipFile writes archives without seeking."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("one", DATA)
        with archive.open("two", "w") as member:
            member.write(b"second")
    out.close()
    with store.fs.open(path) as stream, zipfile.ZipFile(stream) as archive:
        assert archive.testzip() is None
        assert (archive.read("one"), archive.read("two")) == (DATA, b"second")


@pytest.mark.parametrize("mode", ["w", "w|", "w:gz", "w|gz"])
def test_tarfile(store: Store, path: str, out: hflush.FSDataOutputStream, mode: str):
    """tarfile.open writes archives, as files and as streams."""
    with tarfile.open(fileobj=out, mode=mode) as archive:
        member = tarfile.TarInfo("one")
        member.size = len(DATA)
        archive.addfile(member, io.BytesIO(DATA))
    out.close()
    with store.fs.open(path) as stream, tarfile.open(fileobj=stream) as archive:
        assert archive.extractfile("one").read() == DATA


def test_json(store: Store, path: str):
    """json.dump writes through the text mode."""
    value = {"a": [1, 2.5, None, "é"], "b": {str(number): number for number in range(1000)}}
    with hflush.open(store.url(path), "w", encoding="utf-8") as text:
        json.dump(value, text, ensure_ascii=False)
    with hflush.open(store.url(path), encoding="utf-8") as text:
        assert json.load(text) == value


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(store: Store, path: str, out: hflush.FSDataOutputStream, protocol: int):
    """pickle.dump writes to it, out-of-band frames and all."""
    value = [DATA, {"k": (1, 2)}, "text"]
    pickle.dump(value, out, protocol)
    out.close()
    with store.fs.open(path) as stream:
        assert pickle.load(stream) == value


@pytest.mark.parametrize("length", [0, 1, 1 << 20])
def test_copyfileobj(store: Store, path: str, out: hflush.FSDataOutputStream, length: int):
    """shutil.copyfileobj copies into it and out of it."""
    shutil.copyfileobj(io.BytesIO(DATA[:1000] if length == 1 else DATA), out, length)
    out.close()
    copied = io.BytesIO()
    with store.fs.open(path) as stream:
        shutil.copyfileobj(stream, copied, length)
    assert copied.getvalue() == (DATA[:1000] if length == 1 else DATA)


def test_logging(store: Store, path: str):
    """A logging.StreamHandler writes and flushes lines."""
    logger = logging.Logger("hflush test")
    with hflush.open(store.url(path), "w", encoding="utf-8") as text:
        handler = logging.StreamHandler(text)
        logger.addHandler(handler)
        for number in range(100):
            logger.warning("event %d", number)
        handler.close()
    assert store.read(path).decode() == "".join(f"event {number}\n" for number in range(100))


def test_print(store: Store, path: str):
    """print(file=) writes lines."""
    with hflush.open(store.url(path), "w", encoding="utf-8") as text:
        print("one", 2, file=text)
        print("three", end="", file=text, flush=True)
    assert store.read(path) == b"one 2\nthree"


def test_writelines(store: Store, path: str, out: hflush.FSDataOutputStream):
    """Writelines takes any iterable of bytes."""
    out.writelines(b"%d\n" % number for number in range(100))
    out.close()
    assert store.read(path).splitlines() == [b"%d" % number for number in range(100)]


class TestPandas:
    pandas = pytest.importorskip("pandas")

    def frame(self):
        return self.pandas.DataFrame({"n": range(5000), "s": [f"row {n}" for n in range(5000)]})

    @pytest.mark.parametrize("mode", ["wb", "w"])
    def test_to_csv(self, store: Store, path: str, mode: str):
        """DataFrame.to_csv writes to binary and text streams."""
        with hflush.open(store.url(path), mode) as out:
            self.frame().to_csv(out, index=False)
        with store.fs.open(path) as stream:
            assert self.pandas.read_csv(stream).equals(self.frame())

    def test_to_csv_compressed(self, store: Store, path: str, out: hflush.FSDataOutputStream):
        """And compresses on the way."""
        self.frame().to_csv(out, index=False, compression="gzip")
        out.close()
        with store.fs.open(path) as stream:
            assert self.pandas.read_csv(stream, compression="gzip").equals(self.frame())

    def test_to_parquet(self, store: Store, path: str, out: hflush.FSDataOutputStream):
        """DataFrame.to_parquet writes to it."""
        self.frame().to_parquet(out)
        out.close()
        with store.fs.open(path) as stream:
            assert self.pandas.read_parquet(stream).equals(self.frame())


class TestPyarrow:
    pyarrow = pytest.importorskip("pyarrow")

    def table(self):
        return self.pyarrow.table({"n": range(5000), "s": [f"row {n}" for n in range(5000)]})

    def test_parquet(self, store: Store, path: str, out: hflush.FSDataOutputStream):
        """pyarrow.parquet writes row groups to it; reading uses our input stream."""
        parquet = pytest.importorskip("pyarrow.parquet")
        with parquet.ParquetWriter(out, self.table().schema) as writer:
            for _ in range(3):
                writer.write_table(self.table())
        out.close()
        with store.fs.open(path) as stream:
            assert parquet.read_table(stream).num_rows == 15_000

    @pytest.mark.parametrize("kind", ["new_stream", "new_file"])
    def test_ipc(self, store: Store, path: str, out: hflush.FSDataOutputStream, kind: str):
        """Arrow IPC streams and files."""
        with getattr(self.pyarrow.ipc, kind)(out, self.table().schema) as writer:
            writer.write_table(self.table())
        out.close()
        reader = {"new_stream": "open_stream", "new_file": "open_file"}[kind]
        with store.fs.open(path) as stream:
            assert getattr(self.pyarrow.ipc, reader)(stream).read_all().equals(self.table())

    def test_csv(self, store: Store, path: str, out: hflush.FSDataOutputStream):
        """pyarrow.csv writes to it."""
        arrow_csv = pytest.importorskip("pyarrow.csv")
        arrow_csv.write_csv(self.table(), out)
        out.close()
        with store.fs.open(path) as stream:
            assert arrow_csv.read_csv(stream).equals(self.table())

    def test_buffers_and_native_files(
        self, store: Store, path: str, out: hflush.FSDataOutputStream
    ):
        """An Arrow buffer is written as it is, and a PythonFile passes bytes on."""
        out.write(self.pyarrow.py_buffer(DATA))
        native = self.pyarrow.PythonFile(out, mode="w")
        native.write(b"more")
        native.flush()
        native.close()
        assert store.read(path) == DATA + b"more"


class TestNumpy:
    numpy = pytest.importorskip("numpy")

    def test_save(self, store: Store, path: str, out: hflush.FSDataOutputStream):
        """numpy.save writes to it, numpy.load reads it back."""
        array = self.numpy.arange(100_000, dtype="f8").reshape(100, 1000)
        self.numpy.save(out, array)
        out.close()
        with store.fs.open(path) as stream:
            assert (self.numpy.load(stream) == array).all()

    def test_savez_and_savetxt(self, store: Store, path: str):
        """Archives of arrays, and arrays as text."""
        array = self.numpy.arange(1000)
        with store.fs.create(path) as out:
            self.numpy.savez_compressed(out, a=array, b=array * 2)
        with store.fs.open(path) as stream, self.numpy.load(stream) as arrays:
            assert (arrays["b"] == array * 2).all()
        with hflush.open(store.url(path), "w") as text:
            self.numpy.savetxt(text, array, "%d")
        assert [int(line) for line in store.read(path).split()] == array.tolist()

    @pytest.mark.parametrize("dtype", ["u1", "f8", "i4", "M8[s]", "S3"])
    def test_arrays_are_bytes(
        self, store: Store, path: str, out: hflush.FSDataOutputStream, dtype: str
    ):
        """What tofile() writes, write() writes: the memory of the array, counted in bytes."""
        array = self.numpy.arange(1000).astype(dtype)
        data = array.view("u1") if dtype in {"M8[s]", "S3"} else array
        assert out.write(data) == array.nbytes
        assert out.write(data.reshape(-1, 2)[:0]) == 0
        out.close()
        assert store.read(path) == array.tobytes()

    @pytest.mark.stores("raw")
    @pytest.mark.parametrize("shape", [(2, 3), (0, 3)])
    def test_arrays_are_parts_and_files(self, store: Store, path: str, shape: tuple[int, int]):
        """Also those that have no view in Python: of times, or of nothing in rows."""
        array = self.numpy.ones(shape, "M8[s]")
        assert store.fs.put_if_absent(path, array)
        assert store.read(path) == array.tobytes()
        uploader = store.fs.create_multipart_uploader(store.root)
        upload = uploader.start_upload(path)
        uploader.complete(upload, path, {1: uploader.put_part(upload, path, 1, True, array)})
        assert store.read(path) == array.tobytes()

    def test_arrays_with_gaps_are_refused(self, out: hflush.FSDataOutputStream):
        """A strided view is not contiguous memory."""
        with pytest.raises((BufferError, ValueError)):
            out.write(self.numpy.arange(10)[::2])
