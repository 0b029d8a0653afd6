"""ATOM: what is done in several steps, as declared, and what others see between two of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import hflush
import pytest
from hflush import Rename
from support.data import dataset
from support.fault_proxy import FaultProxy
from support.listing import names
from support.s3_front import hold
from support.stores import S3Store, Store
from support.waiting import Task

if TYPE_CHECKING:
    from faults.shim.control import Faults

NEW, OLD = dataset(3000), dataset(3000, first=100)


@contextmanager
def held(proxy: FaultProxy, operation: str, *, skip: int = 0) -> Iterator[None]:
    """Let calls of that name wait, after so many, until the block ends."""
    go_on = threading.Event()
    proxy.fail(operation, hold(go_on), skip=skip, times=None)
    try:
        yield
    finally:
        go_on.set()


class TestPairsOfFiles:
    """In crc a file is data and sums: two files, of which one is moved or removed first."""

    @pytest.mark.rule("ATOM-3", "RENAME-14", "RENAME-18", "RENAME-28", divergence="crc")
    @pytest.mark.stores("crc")
    @pytest.mark.shim
    @pytest.mark.parametrize("mode", [None, Rename.OVERWRITE], ids=["rename/2", "OVERWRITE"])
    def test_a_file_that_replaces_another(self, store: Store, faults: Faults, mode: Rename | None):
        """For an instant the new data has other sums, or with OVERWRITE none; never wrong bytes."""
        source = store.write(store.path("source"), NEW)
        target = store.write(store.path("target"), OLD)
        sums_of_old = Path(store.path(".target.crc")).read_bytes()
        with faults.gate("rename", "*/.source.crc") as gate:
            moving = Task(store.fs.rename, source, target, *([] if mode is None else [mode]))
            gate.wait_for(1)
            assert store.content(target) == NEW
            if mode is Rename.OVERWRITE:
                assert store.on_disk() == [".source.crc", "target"]
                assert store.read(target) == NEW
            else:
                assert Path(store.path(".target.crc")).read_bytes() == sums_of_old
                with pytest.raises(hflush.ChecksumError):
                    store.read(target)
        moving.result()
        assert store.read(target) == NEW

    @pytest.mark.rule("ATOM-2", divergence="crc")
    @pytest.mark.stores("crc")
    @pytest.mark.shim
    def test_a_file_that_is_deleted(self, store: Store, faults: Faults, path: str):
        """For an instant only one of the two exists; no reader gets bytes of another file."""
        store.write(path, OLD)
        with faults.gate("unlink", skip=1) as gate:
            deleting = Task(store.fs.delete, path)
            gate.wait_for(1)
            assert len(store.on_disk()) == 1
        assert deleting.result() is True
        assert store.on_disk() == []


class TestTrees:
    """Deleting a directory is one deletion after another, but on HDFS."""

    @pytest.mark.rule("DELETE-8", "ATOM-6", divergence=("raw", "crc"))
    @pytest.mark.stores("raw", "crc")
    @pytest.mark.shim
    def test_local_files_go_one_by_one(self, store: Store, faults: Faults, path: str):
        """Another process lists what is left of the tree."""
        assert store.options["supports-atomic-directory-delete"] is False
        for name in "abc":
            store.write(f"{path}/{name}", OLD)
        with faults.gate("unlink", f"{path}/?", skip=1) as gate:
            deleting = Task(store.fs.delete, path, True)
            gate.wait_for(1)
            left = store.second_client().run("len(fs.list_status(path))", path=path)
            assert 0 < left < 3
        assert deleting.result() is True
        assert store.on_disk() == []

    @pytest.mark.rule("DELETE-8", "ATOM-6", "OBJ-13", divergence="s3")
    @pytest.mark.stores("s3")
    def test_objects_go_page_by_page(self, store: S3Store, s3_proxy: FaultProxy, path: str):
        """Another process lists what is left of the tree."""
        assert store.options["supports-atomic-directory-delete"] is False
        for name in "abcdef":
            store.write(f"{path}/{name}", OLD)
        fs = store.behind(s3_proxy, fs_s3a_bulk_delete_page_size="2", fs_s3a_paging_maximum="2")
        with held(s3_proxy, "DeleteObjects", skip=1):
            deleting = Task(fs.delete, path, True)
            s3_proxy.wait_for("DeleteObjects", 2)
            left = store.second_client().run("len(fs.list_status(path))", path=path)
            assert 0 < left < 6
        assert deleting.result() is True
        assert store.on_disk() == []

    @pytest.mark.rule("ATOM-3", "ATOM-4", "RENAME-14", "OBJ-13", divergence="s3")
    @pytest.mark.stores("s3")
    def test_a_moved_tree_is_at_both_names(self, store: S3Store, s3_proxy: FaultProxy, path: str):
        """All is copied before anything is deleted: others see the copies, and what is copied."""
        fs = store.behind(s3_proxy)
        for name in "ab":
            store.write(f"{path}/{name}", OLD)
        target = store.path("target")
        with held(s3_proxy, "DeleteObjects"):
            moving = Task(fs.rename, path, target)
            s3_proxy.wait_for("DeleteObjects")
            seen = "[[s.name for s in fs.list_status(p)] for p in (path, target)]"
            both = store.second_client().run(seen, path=path, target=target)
            assert both == [["a", "b"], ["a", "b"]]
        assert moving.result() is True
        assert store.on_disk() == ["target", "target/a", "target/b"]


@pytest.mark.stores("s3")
class TestNames:
    """What S3 looks for, and what it does then, are two requests."""

    @pytest.mark.rule("MKDIR-6", "ATOM-5", divergence="s3")
    def test_a_directory_and_an_object_of_one_name(
        self, store: S3Store, s3_proxy: FaultProxy, path: str
    ):
        """An object that appears before the marker is there: both are made, without an error."""
        if store.s3.has_files:
            pytest.skip("the server has one of them alone")
        fs = store.behind(s3_proxy)
        with held(s3_proxy, "PutObject"):
            making = Task(fs.mkdirs, path)
            s3_proxy.wait_for("PutObject")
            store.s3.put(store.key(path), b"theirs")
        assert making.result() is True
        assert store.content(path) == b"theirs"
        assert store.s3.exists(store.key(path) + "/")

    @pytest.mark.rule("RENAME-17", "RENAME-28", divergence="s3")
    def test_a_rename_that_keeps_what_it_sees(
        self, store: S3Store, s3_proxy: FaultProxy, path: str
    ):
        """NONE replaces an object that appears after it has looked."""
        fs = store.behind(s3_proxy)
        store.write(path, b"moved")
        target = store.path("target")
        with held(s3_proxy, "CopyObject"):
            moving = Task(fs.rename, path, target, Rename.NONE)
            s3_proxy.wait_for("CopyObject")
            store.s3.put(store.key(target), b"theirs")
        assert moving.result() is None
        assert store.content(target) == b"moved"

    @pytest.mark.rule("RENAME-18")
    def test_an_object_that_is_replaced_is_never_missing(
        self, store: S3Store, s3_proxy: FaultProxy, path: str
    ):
        """The copy replaces it in one step; what goes in a second one is the source."""
        fs = store.behind(s3_proxy)
        store.write(path, b"new")
        target = store.write(store.path("target"), b"old")
        with held(s3_proxy, "DeleteObject"):
            with held(s3_proxy, "CopyObject"):
                moving = Task(fs.rename, path, target, Rename.OVERWRITE)
                s3_proxy.wait_for("CopyObject")
                assert store.content(target) == b"old"
            s3_proxy.wait_for("DeleteObject")
            assert store.content(target) == b"new"
        assert moving.result() is None
        assert [call.key for call in s3_proxy.calls("DeleteObject")] == [store.key(path)]
        assert names(store.fs, store.root) == ["target"]
