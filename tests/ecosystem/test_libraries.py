"""Our file systems in the hands of libraries that take URLs, on each store."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import dask
import dask.dataframe as dd
import fsspec
import hflush
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
import upath
import xarray as xr
import zarr
from ecosystem.conftest import Place
from hflush.upath import HflushFilePath, HflushHdfsPath, HflushS3Path
from upath import UPath

FRAME = pd.DataFrame({"number": range(1000), "group": [str(n % 3) for n in range(1000)]})
SPELLINGS = {
    "local": ("hflush+file", "hflushfile"),
    "s3": ("hflush+s3", "hflushs3", "hflush+s3a", "hflushs3a"),
    "hdfs": ("hflush+hdfs", "hflushhdfs"),
}


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Dask in this thread: a test is not about its workers."""
    with dask.config.set(scheduler="synchronous"):
        yield


class TestUrls:
    def test_spellings(self, place: Place):
        """Each protocol with a plus and without."""
        place.write("x", b"data")
        for protocol in SPELLINGS[place.kind]:
            with fsspec.open(place.url("x", protocol), **place.options) as file:
                assert file.read() == b"data"
            with fsspec.open(place.url(protocol, protocol), "wb", **place.options) as file:
                file.write(protocol.encode())
            assert place.read(protocol) == protocol.encode()

    def test_text_and_compression(self, place: Place):
        with fsspec.open(place.url("x.gz"), "wt", compression="infer", **place.options) as file:
            file.write("text")
        with fsspec.open(place.url("x.gz"), "rt", compression="infer", **place.options) as file:
            assert file.read() == "text"

    def test_many(self, place: Place):
        with fsspec.open_files(place.url("part-*"), "wb", num=3, **place.options) as files:
            for number, file in enumerate(files):
                file.write(b"%d" % number)
        with fsspec.open_files(place.url("part-*"), **place.options) as files:
            assert [file.read() for file in files] == [b"0", b"1", b"2"]

    def test_caching_on_disk(self, place: Place, tmp_path: Any):
        place.write("x", b"data")
        cached = {"filecache": {"cache_storage": str(tmp_path / "cache")}}
        url = "filecache::" + place.url("x")
        with fsspec.open(url, **cached, **{place.protocol: place.options}) as file:
            assert file.read() == b"data"

    def test_a_mapping(self, place: Place):
        mapping = fsspec.get_mapper(place.url("map"), **place.options)
        mapping["a/b"] = b"1"
        mapping["c"] = b"2"
        assert dict(mapping) == {"a/b": b"1", "c": b"2"}
        del mapping["c"]
        assert list(mapping) == ["a/b"]

    @pytest.mark.parametrize("sends", [True, False], ids=["with secrets", "without"])
    def test_pickled_files_are_opened_elsewhere(self, place: Place, sends: bool):
        """With the sender's secrets, whatever there is; else with what is found there."""
        place.write("x", b"data")
        sent = pickle.dumps(fsspec.open(place.url("x"), **place.options, pickle_secrets=sends))
        if place.kind == "s3":
            assert (place.options["secret"].encode() in sent) is sends
        program = (
            "import pickle, sys\n"
            "with pickle.load(sys.stdin.buffer) as file: sys.stdout.buffer.write(file.read())"
        )
        environment = {
            "AWS_ACCESS_KEY_ID": "AKIDANOTHER" if sends else str(place.options.get("key")),
            "AWS_SECRET_ACCESS_KEY": "another" if sends else str(place.options.get("secret")),
        }
        found = subprocess.run(
            [sys.executable, "-c", program], input=sent, env=environment, check=True, stdout=-1
        )
        assert found.stdout == b"data"

    def test_registered(self, place: Place):
        """In the place of fsspec's own: names lead back to the same."""
        if place.kind == "local":
            url, protocol = f"file://{place.root}/x", "file"
        else:
            url, protocol = place.native("x"), place.kind
        program = textwrap.dedent(f"""
            import fsspec, hflush.fsspec
            hflush.fsspec.register({protocol!r})
            options = {place.options!r}
            with fsspec.open({url!r}, "wb", **options) as file:
                file.write(b"data")
                assert type(file).__mro__[1].__module__.startswith("hflush.")
            fs, name = fsspec.core.url_to_fs({url!r}, **options)
            assert fs.unstrip_protocol(name) == {url!r}, fs.unstrip_protocol(name)
            assert fs.cat(name) == b"data"
        """)
        subprocess.run([sys.executable, "-c", program], check=True)
        assert place.read("x") == b"data"


class TestUPath:
    @pytest.fixture
    def root(self, place: Place) -> UPath:
        return UPath(place.url(""), **place.options)

    def test_classes(self, place: Place, root: UPath):
        kinds = {"local": HflushFilePath, "s3": HflushS3Path, "hdfs": HflushHdfsPath}
        assert type(root) is kinds[place.kind]
        assert str(root) == place.url("").rstrip("/")
        assert str(root / "a" / "b.txt") == place.url("a/b.txt")

    def test_names(self, place: Place, root: UPath):
        path = root / "a" / "b.txt"
        assert (path.name, path.stem, path.suffix) == ("b.txt", "b", ".txt")
        assert path.parent.parent == root
        assert path.relative_to(root).parts == ("a", "b.txt")
        assert path.with_name("c").parent == path.parent
        assert UPath(str(path), **place.options) == path
        absolute = root / "/z"
        assert str(absolute).startswith(place.url("").split("/t")[0])
        assert absolute.fs is root.fs

    def test_files(self, place: Place, root: UPath):
        path = root / "a" / "b.txt"
        path.parent.mkdir(parents=True)
        with pytest.raises(FileExistsError):
            path.parent.mkdir()
        path.parent.mkdir(exist_ok=True)
        path.write_text("grün", encoding="utf-8")
        assert place.read("a/b.txt") == "grün".encode()
        assert path.read_text(encoding="utf-8") == "grün"
        assert path.stat().st_size == 5
        with path.open("wb") as out:
            out.write(b"data")
        with path.open() as text:
            assert text.read() == "data"
        assert path.exists()
        assert path.is_file()
        assert path.parent.is_dir()
        assert not (root / "none").exists()

    def test_directories(self, place: Place, root: UPath):
        for name in ("a/b.txt", "a/c/d.txt", "e.txt"):
            place.write(name, b"data")
        assert sorted(path.name for path in root.iterdir()) == ["a", "e.txt"]
        assert [path.name for path in root.glob("*.txt")] == ["e.txt"]
        found = sorted(str(path.relative_to(root)) for path in root.rglob("*.txt"))
        assert found == ["a/b.txt", "a/c/d.txt", "e.txt"]
        (root / "e.txt").rename(root / "a" / "f.txt")
        assert place.read("a/f.txt") == b"data"
        (root / "a" / "f.txt").unlink()
        (root / "a").rmdir(recursive=True)
        assert not (root / "a").exists()

    def test_copies_keep_what_pickles_leave(self, place: Place, root: UPath):
        path = root / "x"
        assert copy.copy(path).storage_options == path.storage_options
        assert UPath(path).storage_options == path.storage_options
        again = pickle.loads(pickle.dumps(path))
        assert str(again) == str(path)
        assert "secret" not in again.storage_options
        if place.kind == "s3":
            assert place.options["secret"].encode() not in pickle.dumps(path)

    def test_without_a_warning(self):
        """The classes are found by entry point."""
        assert upath.registry.get_upath_class("hflushs3a") is HflushS3Path


class TestPandas:
    @pytest.mark.parametrize("kind", ["csv", "parquet", "json", "pickle"])
    def test_by_url(self, place: Place, kind: str):
        url = place.url(f"table.{kind}")
        extra = {"index": False} if kind == "csv" else {}
        getattr(FRAME, f"to_{kind}")(url, storage_options=place.options, **extra)
        found = getattr(pd, f"read_{kind}")(
            url,
            storage_options=place.options,
            **({"dtype": {"group": str}} if kind in ("csv", "json") else {}),
        )
        assert found.equals(FRAME)

    def test_compressed(self, place: Place):
        url = place.url("table.csv.gz")
        FRAME.to_csv(url, index=False, storage_options=place.options)
        assert pd.read_csv(url, storage_options=place.options)["number"].sum() == 499_500

    def test_partitions(self, place: Place):
        url = place.url("table")
        FRAME.to_parquet(url, partition_cols=["group"], storage_options=place.options)
        found = pd.read_parquet(url, filters=[("group", "==", 1)], storage_options=place.options)
        assert len(found) == 333

    def test_an_unknown_option_fails(self, place: Place):
        with pytest.raises(TypeError, match="unknown storage option 'endpoint'"):
            FRAME.to_csv(place.url("x"), storage_options={**place.options, "endpoint": "x"})
        assert place.names() == []


@pytest.mark.usefixtures("one_thread")
# Dask's own use of what pandas has deprecated.
@pytest.mark.filterwarnings("ignore::pandas.errors.Pandas4Warning")
class TestDask:
    def test_csv(self, place: Place):
        frame = dd.from_pandas(FRAME, npartitions=2)
        frame.to_csv(place.url("part-*.csv"), index=False, storage_options=place.options)
        assert place.names() == ["part-0.csv", "part-1.csv"]
        found = dd.read_csv(
            place.url("part-*.csv"),
            blocksize=1000,
            dtype={"group": str},
            storage_options=place.options,
        )
        assert found.npartitions > 2
        assert found["number"].compute().tolist() == FRAME["number"].tolist()

    def test_parquet(self, place: Place):
        frame = dd.from_pandas(FRAME, npartitions=2)
        frame.to_parquet(place.url("table"), storage_options=place.options)
        found = dd.read_parquet(place.url("table"), storage_options=place.options)
        assert found["number"].sum().compute() == 499_500


class TestArrow:
    def test_datasets(self, place: Place):
        """Partitioned, through the file system."""
        table = pa.Table.from_pandas(FRAME)
        pyarrow.dataset.write_dataset(
            table,
            place.name("dataset"),
            format="parquet",
            partitioning=["group"],
            partitioning_flavor="hive",
            filesystem=place.fs,
        )
        found = pyarrow.dataset.dataset(
            place.name("dataset"), partitioning="hive", filesystem=place.fs
        )
        assert found.count_rows(filter=pyarrow.dataset.field("group") == 2) == 333

    def test_datasets_by_url(self, place: Place):
        """A name that a URL comes to is one for whole trees, too."""
        fs, name = fsspec.core.url_to_fs(place.url("dataset"), **place.options)
        table = pa.Table.from_pandas(FRAME)
        pyarrow.parquet.write_to_dataset(table, name, partition_cols=["group"], filesystem=fs)
        found = pyarrow.parquet.read_table(name, filesystem=fs)
        assert len(found) == 1000
        assert found.column("group").type.value_type == pa.int32()

    def test_files(self, place: Place):
        wrapped = pa.fs.PyFileSystem(pa.fs.FSSpecHandler(place.fs))
        with wrapped.open_output_stream(place.name("x")) as out:
            out.write(b"data")
        assert wrapped.get_file_info(place.name("x")).size == 4
        with wrapped.open_input_file(place.name("x")) as file:
            assert file.read_at(2, 1) == b"at"
        wrapped.move(place.name("x"), place.name("y"))
        with pytest.raises(NotADirectoryError):
            wrapped.create_dir(place.name("y/below"))
        found = wrapped.get_file_info(pa.fs.FileSelector(place.root))
        assert [info.base_name for info in found] == ["y"]


class TestArrays:
    def test_zarr(self, place: Place):
        store = zarr.storage.FsspecStore.from_url(
            place.url("array.zarr"), storage_options=dict(place.options)
        )
        array = zarr.create_array(store, shape=(100, 100), chunks=(50, 50), dtype="f8")
        array[:] = np.arange(10_000.0).reshape(100, 100)
        found = zarr.open_array(
            place.url("array.zarr"), mode="r", storage_options=dict(place.options)
        )
        assert found[99, 99] == 9999
        assert found[10:60, 3].sum() == sum(range(1003, 6003, 100))

    def test_xarray(self, place: Place):
        data = xr.Dataset({"t": (("x", "y"), np.arange(12.0).reshape(3, 4))})
        url = place.url("data.zarr")
        data.to_zarr(url, storage_options=dict(place.options), consolidated=False)
        found = xr.open_zarr(url, storage_options=dict(place.options), consolidated=False)
        xr.testing.assert_equal(found.load(), data)


class TestPolars:
    def test_through_fsspec(self, place: Place):
        frame = pl.DataFrame({"number": range(100)})
        with place.fs.open(place.name("x"), "wb") as out:
            frame.write_parquet(out)
        with place.fs.open(place.name("x")) as file:
            assert pl.read_parquet(file).equals(frame)


def test_streams_are_ours(place: Place):
    """Writers through fsspec have hsync where the store has."""
    with place.fs.open(place.name("x"), "wb") as out:
        out.write(b"data")
        if out.has_capability(hflush.capabilities.HSYNC):
            out.hsync()
            assert place.kind != "s3"
        else:
            assert place.kind == "s3"
