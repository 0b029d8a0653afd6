"""DELETE: removing files and trees. Observers of a delete are in test_atomicity."""

from __future__ import annotations

import errno
import inspect
import os

import hflush
import pytest
from support.data import dataset
from support.listing import names, orphans, sidecar
from support.stores import FILES, Store

DATA = dataset(1000)

both_flags = pytest.mark.parametrize("recursive", [False, True], ids=["plain", "recursive"])


@pytest.mark.rule("DELETE-1", "DELETE-6")
@both_flags
def test_a_file(store: Store, path: str, recursive: bool):
    """testDeleteSingleFile: True, and it is gone; the flag makes no difference."""
    store.write(path, DATA)
    assert store.fs.delete(path, recursive) is True
    assert not store.fs.exists(path)
    assert store.on_disk() == []


@pytest.mark.rule("DELETE-2")
@both_flags
def test_a_missing_path(store: Store, path: str, recursive: bool):
    """testDeleteNonexistentPath*: False, whatever the flag, also below what is missing."""
    assert store.fs.delete(path, recursive) is False
    assert store.fs.delete(f"{path}/deep/below", recursive) is False
    assert store.on_disk() == []


@pytest.mark.rule("DELETE-3")
@both_flags
def test_an_empty_directory(store: Store, path: str, recursive: bool):
    """testDeleteEmptyDir*: True, with either flag."""
    store.fs.mkdirs(path)
    assert store.fs.delete(path, recursive) is True
    assert store.on_disk() == []


@pytest.mark.rule("DELETE-4")
@pytest.mark.parametrize("child", ["file", "dir/"])
def test_a_non_empty_directory_without_the_flag(store: Store, path: str, child: str):
    """testDeleteNonEmptyDirNonRecursive: ENOTEMPTY, everything intact."""
    if child.endswith("/"):
        store.fs.mkdirs(f"{path}/{child}")
    else:
        store.write(f"{path}/{child}", DATA)
    before = store.on_disk()
    with pytest.raises(OSError, match=r"(?i)not empty") as refusal:
        store.fs.delete(path, False)
    assert refusal.value.errno == errno.ENOTEMPTY
    assert refusal.value.filename == store.filename(path)
    assert store.on_disk() == before


@pytest.mark.rule("DELETE-4", "DELETE-5")
def test_not_recursive_is_the_default(store: Store, path: str):
    """testDeleteRecursively: refused by default, then the whole tree goes, and nothing above."""
    store.write(f"{path}/a/file", DATA)
    store.write(f"{path}/a/b/file", DATA)
    store.write(store.path("sibling"), DATA)
    with pytest.raises(OSError, match=r"(?i)not empty"):
        store.fs.delete(path)
    assert store.read(f"{path}/a/b/file") == DATA
    assert store.fs.delete(path, recursive=True) is True
    for gone in (f"{path}/a/b/file", f"{path}/a/b", f"{path}/a/file", f"{path}/a", path):
        assert not store.fs.exists(gone)
    assert names(store.fs, store.root) == ["sibling"]


@pytest.mark.rule("DELETE-5")
def test_a_deep_directory_leaves_its_ancestors(store: Store):
    """testDeleteDeepEmptyDir: only the named directory goes."""
    store.fs.mkdirs(store.path("a", "b", "c", "d"))
    assert store.fs.delete(store.path("a", "b", "c", "d"), recursive=True) is True
    assert store.fs.is_directory(store.path("a", "b", "c"))
    assert store.on_disk() == ["a", "a/b", "a/b/c"]


@pytest.mark.rule("DELETE-5")
@pytest.mark.parametrize("target", ["file", "dir"])
@pytest.mark.stores("raw", "crc")
def test_a_link_is_removed_not_followed(store: Store, target: str):
    """A recursive delete removes symbolic links and leaves what they point to."""
    store.write(store.path("kept", "file"), DATA)
    tree = store.path("tree")
    store.fs.mkdirs(tree)
    os.symlink(store.path("kept", *(["file"] if target == "file" else [])), f"{tree}/link")
    assert store.fs.delete(tree, recursive=True) is True
    assert names(store.fs, store.root) == ["kept"]
    assert store.read(store.path("kept", "file")) == DATA


@pytest.mark.rule("DELETE-6", "CONSIST-3")
def test_a_deleted_path_is_gone_for_everyone(store: Store, path: str):
    """Status, list, open, rename and append fail, in another process too; nothing lists it."""
    store.write(path, DATA)
    remote = store.second_client()
    assert remote.run("read(path)", path=path) == DATA
    assert store.fs.delete(path)
    calls = ["get_file_status(path)", "list_status(path)", "open(path)"]
    if not store.options["rename-returns-false-if-source-missing"]:
        calls += ["rename(path, path + '2')"]
    calls += ["rename(path, path + '2', hflush.Rename.NONE)"]
    calls += ["append(path)"] if store.options["supports-append"] else []
    for call in calls:
        with pytest.raises(FileNotFoundError):
            eval(f"fs.{call}", {"fs": store.fs, "path": path, "hflush": hflush})
        with pytest.raises(FileNotFoundError):
            remote.run(f"fs.{call}", path=path)
    assert remote.run("fs.list_status(root)", root=store.root) == []
    assert names(store.fs, store.root) == []


@pytest.mark.rule("DELETE-8", "ATOM-6", divergence=("raw", "crc", "s3"))
def test_a_recursive_delete_is_called_atomic_where_it_is(store: Store, path: str):
    """The option tells what an observer may meet (test_steps, test_atomicity); nothing is left."""
    assert store.options["supports-atomic-directory-delete"] is (store.name in ("hdfs", "mem"))
    for number in range(50):
        store.write(f"{path}/{number % 7}/{number}", DATA)
    assert store.fs.delete(path, recursive=True)
    assert store.on_disk() == []


class TestSidecars:
    """The sidecar goes with its file."""

    @pytest.mark.rule("DELETE-9", "LOCAL-8")
    @pytest.mark.stores("crc")
    def test_of_a_file(self, store: Store, path: str):
        """A file and its sidecar go together; a neighbour keeps its own."""
        store.write(path, DATA)
        store.write(store.path("neighbour"), DATA)
        assert store.fs.delete(path)
        assert store.on_disk() == [".neighbour.crc", "neighbour"]

    @pytest.mark.rule("DELETE-9")
    @pytest.mark.stores("crc")
    @both_flags
    def test_a_directory_with_nothing_but_sidecars(self, store: Store, path: str, recursive: bool):
        """A directory that lists empty can be deleted, hidden sidecars and all."""
        store.write(f"{path}/file", DATA)
        os.unlink(f"{path}/file")
        assert names(store.fs, path) == []
        assert store.fs.delete(path, recursive) is True
        assert store.on_disk() == []

    @pytest.mark.rule("DELETE-9")
    @pytest.mark.stores("crc")
    def test_a_file_without_sidecar(self, store: Store, path: str):
        """There is nothing more to remove, and no error."""
        with open(path, "wb") as file:
            file.write(DATA)
        assert store.fs.delete(path) is True
        assert store.on_disk() == []

    @pytest.mark.rule("DELETE-9")
    @pytest.mark.stores("crc")
    def test_of_a_tree(self, store: Store, path: str):
        """No orphan is left anywhere."""
        store.write(f"{path}/a/file", DATA)
        store.write(store.path("kept"), DATA)
        assert store.fs.delete(path, recursive=True)
        assert orphans(store.root) == []
        assert os.path.exists(sidecar(store.path("kept")))


@pytest.mark.rule("DELETE-10", "CONC-8")
@pytest.mark.stores(*FILES)
def test_a_file_open_for_writing(store: Store, path: str):
    """Allowed; the writer's close has no visible effect or fails with OSError."""
    out = store.fs.create(path)
    out.write(DATA)
    assert store.fs.delete(path) is True
    try:
        out.write(DATA)
        out.close()
    except OSError:
        assert out.closed
    assert not store.fs.exists(path)
    assert store.on_disk() == []


class TestBulkDelete:
    """AbstractContractBulkDeleteTest."""

    @pytest.fixture
    def base(self, store: Store) -> str:
        store.fs.mkdirs(store.path("base"))
        return store.path("base")

    @pytest.mark.rule("DELETE-12")
    def test_the_capability(self, store: Store, base: str):
        """The path capability is declared, and the page size is at least one."""
        assert store.fs.has_path_capability(base, hflush.capabilities.BULK_DELETE) is True
        assert store.fs.bulk_delete(base).page_size >= 1

    @pytest.mark.rule("DELETE-12")
    def test_files(self, store: Store, base: str):
        """testBulkDeleteSuccessful: the files are gone and no failure is reported."""
        page = store.fs.bulk_delete(base).page_size
        paths = [store.write(f"{base}/file-{number}", DATA) for number in range(min(page, 5))]
        store.write(f"{base}/kept", DATA)
        assert list(store.fs.bulk_delete(base).delete(paths)) == []
        assert names(store.fs, base) == ["kept"]
        assert orphans(store.root) == []

    @pytest.mark.rule("DELETE-12")
    def test_page_sizes(self, store: Store, base: str):
        """Fewer paths than a page and a whole page are taken, one more is ValueError."""
        bulk = store.fs.bulk_delete(base)
        page = [f"{base}/missing-{number}" for number in range(bulk.page_size)]
        assert list(bulk.delete(page[:-1])) == []
        assert list(bulk.delete(page)) == []
        with pytest.raises(ValueError, match="page"):
            bulk.delete([*page, f"{base}/one-more"])

    @pytest.mark.rule("DELETE-12")
    def test_the_base(self, store: Store, base: str):
        """The base itself, paths outside, siblings with its prefix, relative ones: ValueError."""
        outside = [store.path("outside"), f"{base}-sibling", "relative", store.root, f"{base}/"]
        for path in outside:
            with pytest.raises(ValueError, match="not "):
                store.fs.bulk_delete(base).delete([path])
        assert names(store.fs, store.root) == ["base"]

    @pytest.mark.rule("DELETE-12", "DELETE-2")
    def test_missing_paths_and_empty_lists(self, store: Store, base: str):
        """A missing path is not a failure, and neither is an empty list."""
        assert list(store.fs.bulk_delete(base).delete([f"{base}/missing"])) == []
        assert list(store.fs.bulk_delete(base).delete([])) == []

    @pytest.mark.rule("DELETE-12")
    def test_a_path_twice(self, store: Store, base: str):
        """Duplicates are fine, where a page holds two."""
        path = store.write(f"{base}/file", DATA)
        bulk = store.fs.bulk_delete(base)
        for page in ([path, path],) if bulk.page_size >= 2 else ([path], [path]):
            assert list(bulk.delete(page)) == []
        assert not store.fs.exists(path)

    @pytest.mark.rule("DELETE-12")
    @pytest.mark.parametrize("order", [1, -1], ids=["parents-first", "children-first"])
    def test_a_directory_with_all_that_is_in_it(self, store: Store, base: str, order: int):
        """In whatever order they are named, all go, and the base stays."""
        store.fs.mkdirs(f"{base}/tree/empty")
        store.write(f"{base}/tree/file", DATA)
        store.write(f"{base}/tree/deep/er/file", DATA)
        kept = store.write(f"{base}/kept/file", DATA)
        page = [
            f"{base}/kept",
            f"{base}/tree",
            f"{base}/tree/empty",
            f"{base}/tree/file",
            f"{base}/tree/deep",
            f"{base}/tree/deep/er",
            f"{base}/tree/deep/er/file",
        ][::order]
        ((path, error),) = store.fs.bulk_delete(base).delete(page)
        assert (path, error.errno) == (f"{base}/kept", errno.ENOTEMPTY)
        assert names(store.fs, base) == ["kept"]
        assert store.read(kept) == DATA
        assert list(store.fs.bulk_delete(base).delete([f"{base}/kept", kept])) == []
        assert store.fs.is_directory(base)
        assert names(store.fs, base) == []

    @pytest.mark.rule("DELETE-12")
    def test_directories(self, store: Store, base: str):
        """An empty directory can be deleted; a non-empty one is reported and intact."""
        store.fs.mkdirs(f"{base}/empty")
        deep = store.write(f"{base}/full/deep/file", DATA)
        bulk = store.fs.bulk_delete(base)
        assert list(bulk.delete([f"{base}/empty"])) == []
        assert not store.fs.exists(f"{base}/empty")
        ((path, error),) = bulk.delete([f"{base}/full"])
        assert path == f"{base}/full"
        assert isinstance(error, OSError)
        assert store.read(deep) == DATA
        assert list(bulk.delete([deep])) == []
        assert not store.fs.exists(deep)
        assert store.fs.is_directory(f"{base}/full/deep")


@pytest.mark.rule("DELETE-13")
def test_the_answer_is_documented(store: Store, path: str):
    """The docstring says that False means there was nothing to do, and that is what it means."""
    assert "False" in (inspect.getdoc(hflush.FileSystem.delete) or "")
    assert store.fs.delete(path) is False
    store.write(path)
    assert store.fs.delete(path) is True
    assert store.fs.delete(path) is False
