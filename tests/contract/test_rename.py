"""RENAME: rename/2, which answers, and rename/3, which raises.

The races are in test_atomicity.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterator

import hflush
import pytest
from hflush import Rename
from support.data import dataset
from support.listing import names, orphans, sidecar
from support.stores import FILES, Store

A = dataset(256, ord("a"), ord("z"))
B = dataset(300, ord("A"), ord("Z"))
MODES = [Rename.NONE, Rename.OVERWRITE]


@pytest.fixture
def source(store: Store) -> str:
    """A file."""
    return store.write(store.path("source"), A)


@pytest.fixture
def other(store: Store) -> str:
    """Another file, with other content."""
    return store.write(store.path("other"), B)


@pytest.fixture
def tree(store: Store) -> str:
    """A directory of four levels with files and an empty directory as leaves."""
    top = store.path("tree")
    store.write(f"{top}/file", A)
    store.write(f"{top}/one/two/three/file", B)
    store.fs.mkdirs(f"{top}/one/empty/leaf")
    return top


@pytest.fixture(params=MODES, ids=["NONE", "OVERWRITE"])
def mode(request: pytest.FixtureRequest) -> Rename:
    return request.param


@pytest.fixture(params=[None, *MODES], ids=["rename/2", "NONE", "OVERWRITE"])
def move(store: Store, request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Every form of rename, for what all must do."""

    def rename(source: str, destination: str) -> None:
        if request.param is None:
            assert store.fs.rename(source, destination) is True
        else:
            assert store.fs.rename(source, destination, request.param) is None

    return rename


def refused(store: Store, source: str, destination: str) -> None:
    """rename/2 must not do it: False or an OSError."""
    with contextlib.suppress(OSError):
        assert store.fs.rename(source, destination) is False


def renamed(store: Store, source: str, destination: str) -> bool:
    """What rename/2 answers; False for FileExistsError, where False is not what it answers."""
    if store.options["rename-returns-false-if-dest-exists"]:
        return store.fs.rename(source, destination)
    try:
        return store.fs.rename(source, destination)
    except FileExistsError:
        return False


def assert_tree(store: Store, top: str) -> None:
    """The tree of the fixture, complete and nothing else, stands at `top`."""
    assert names(store.fs, top) == ["file", "one"]
    assert names(store.fs, f"{top}/one") == ["empty", "two"]
    assert names(store.fs, f"{top}/one/empty") == ["leaf"]
    assert names(store.fs, f"{top}/one/empty/leaf") == []
    assert names(store.fs, f"{top}/one/two/three") == ["file"]
    assert store.read(f"{top}/file") == A
    assert store.read(f"{top}/one/two/three/file") == B


class TestEveryForm:
    """What rename/2 and both modes of rename/3 share."""

    @pytest.mark.rule("RENAME-1", "RENAME-16")
    def test_a_file_to_a_free_name(self, store: Store, source: str, move):
        """testRenameNewFileSameDir: content at the new name, the old one absent, listed so."""
        target = store.path("target")
        move(source, target)
        assert store.read(target) == A
        assert not store.fs.exists(source)
        assert names(store.fs, store.root) == ["target"]

    @pytest.mark.rule("RENAME-1", "RENAME-16")
    def test_a_file_to_another_directory(self, store: Store, source: str, move):
        """testRenameFileToExistingParent: another existing directory makes no difference."""
        store.fs.mkdirs(store.path("dir"))
        move(source, store.path("dir", "target"))
        assert store.read(store.path("dir", "target")) == A
        assert names(store.fs, store.root) == ["dir"]

    @pytest.mark.rule("RENAME-13")
    def test_a_directory_with_all_descendants(self, store: Store, tree: str, move):
        """testRenamePopulates*Ancestors: all levels arrive, nothing of the old tree remains."""
        target = store.path("moved")
        move(tree, target)
        assert_tree(store, target)
        assert names(store.fs, store.root) == ["moved"]
        for old in (tree, f"{tree}/one", f"{tree}/one/two/three", f"{tree}/one/two/three/file"):
            assert not store.fs.exists(old)

    @pytest.mark.rule("RENAME-13")
    def test_a_directory_below_another(self, store: Store, tree: str, move):
        """FileContextCreateMkdirBaseTest.testWithRename: a sub-directory moves alone."""
        move(f"{tree}/one/two", f"{tree}/two")
        assert names(store.fs, tree) == ["file", "one", "two"]
        assert store.read(f"{tree}/two/three/file") == B

    @pytest.mark.rule("RENAME-9")
    def test_a_sibling_with_the_same_prefix(self, store: Store, tree: str, move):
        """testRenameToDirWithSamePrefixAllowed: /tree to /treeish is not a rename under itself."""
        move(tree, store.path("treeish"))
        assert_tree(store, store.path("treeish"))

    @pytest.mark.rule("RENAME-15", "CONSIST-5")
    def test_other_clients_see_it_at_once(self, store: Store, move):
        """The new path works and the old one fails in another process, every time."""
        snippet = "(fs.exists(old), read(new), [s.name for s in fs.list_status(root)])"
        old = store.write(store.path("name-0"), A)
        for turn in range(1, 51):
            new = store.path(f"name-{turn}")
            move(old, new)
            seen = store.second_client().run(snippet, old=old, new=new, root=store.root)
            assert seen == (False, A, [f"name-{turn}"])
            with pytest.raises(FileNotFoundError):
                store.second_client().run("fs.open(old)", old=old)
            old = new

    @pytest.mark.rule("RENAME-26", "TIME-6")
    @pytest.mark.stores(*FILES)
    def test_the_modification_time_stays(self, store: Store, source: str, move):
        """A renamed file keeps its time; its parent's may change."""
        store.fs.set_times(source, 1_000_000_000_000, -1)
        before = store.fs.get_file_status(source)
        move(source, store.path("target"))
        after = store.fs.get_file_status(store.path("target"))
        assert after.modification_time_ns == before.modification_time_ns

    @pytest.mark.rule("RENAME-30", "CONC-8")
    def test_a_file_open_for_reading(self, store: Store, source: str, move):
        """A reader of the renamed file goes on with its bytes."""
        with store.fs.open(source) as reader:
            assert reader.read(10) == A[:10]
            move(source, store.path("target"))
            assert reader.read() == A[10:]

    @pytest.mark.rule("RENAME-30", "CONC-8")
    @pytest.mark.stores(*FILES)
    def test_a_file_open_for_writing(self, store: Store, move):
        """The bytes written afterwards are in the renamed file; the old name stays absent."""
        source = store.path("open")
        with store.fs.create(source) as out:
            out.write(A)
            move(source, store.path("target"))
            out.write(B)
        assert store.read(store.path("target")) == A + B
        assert names(store.fs, store.root) == ["target"]


class TestRename2:
    """AbstractContractRenameTest and FileSystemContractBaseTest."""

    @pytest.mark.rule("RENAME-2", divergence="hdfs")
    def test_a_missing_source(self, store: Store):
        """testRenameNonexistentFile: FileNotFoundError or False, as declared; nothing appears."""
        if store.options["rename-returns-false-if-source-missing"]:
            assert store.fs.rename(store.path("missing"), store.path("target")) is False
        else:
            with pytest.raises(FileNotFoundError) as refusal:
                store.fs.rename(store.path("missing"), store.path("target"))
            assert refusal.value.filename == store.filename(store.path("missing"))
        assert store.on_disk() == []

    @pytest.mark.rule("RENAME-3", divergence=FILES)
    def test_a_file_onto_a_file(self, store: Store, source: str, other: str):
        """testRenameFileOverExistingFile: replaced, or refused, with False as declared."""
        replaces = store.options["rename-overwrites-dest"]
        assert not (store.options["rename-returns-false-if-dest-exists"] and replaces)
        assert renamed(store, source, other) is replaces
        assert store.read(other) == (A if replaces else B)
        assert names(store.fs, store.root) == (["other"] if replaces else ["other", "source"])

    @pytest.mark.rule("RENAME-4")
    def test_a_file_onto_a_directory(self, store: Store, source: str):
        """testRenameFileAsExistingDirectory: it goes inside under its own name."""
        directory = store.path("dir")
        store.write(f"{directory}/child", B)
        assert store.fs.rename(source, directory) is True
        assert names(store.fs, directory) == ["child", "source"]
        assert store.read(f"{directory}/source") == A
        assert names(store.fs, store.root) == ["dir"]

    @pytest.mark.rule("RENAME-4")
    @pytest.mark.rule("RENAME-3", divergence=FILES)
    def test_a_file_onto_a_directory_with_its_name(self, store: Store, source: str):
        """A same-named file in there is replaced, or kept, as declared."""
        replaces = store.options["rename-overwrites-dest"]
        store.write(store.path("dir", "source"), B)
        assert renamed(store, source, store.path("dir")) is replaces
        assert store.read(store.path("dir", "source")) == (A if replaces else B)
        assert store.fs.exists(source) is not replaces

    @pytest.mark.rule("RENAME-5")
    def test_a_directory_onto_a_non_empty_directory(self, store: Store, tree: str):
        """testRenameDirIntoExistingDir: it goes below; the children there stay."""
        store.write(store.path("dir", "child"), B)
        assert store.fs.rename(tree, store.path("dir")) is True
        assert names(store.fs, store.path("dir")) == ["child", "tree"]
        assert store.read(store.path("dir", "child")) == B
        assert_tree(store, store.path("dir", "tree"))

    @pytest.mark.rule("RENAME-5")
    def test_a_directory_onto_one_that_holds_its_name(self, store: Store, tree: str):
        """A same-named non-empty directory in there is not merged into: both stay as they are."""
        store.write(store.path("dir", "tree", "child"), B)
        refused(store, tree, store.path("dir"))
        assert_tree(store, tree)
        assert names(store.fs, store.path("dir", "tree")) == ["child"]

    @pytest.mark.rule("RENAME-6", divergence=("raw", "crc", "s3"))
    def test_a_directory_onto_an_empty_directory(self, store: Store, tree: str):
        """testRenameWithNonEmptySubDir: it takes the empty one's place, or goes in: as declared."""
        replaces = store.options["rename-remove-dest-if-empty-dir"]
        store.fs.mkdirs(store.path("empty"))
        assert store.fs.rename(tree, store.path("empty")) is True
        assert_tree(store, store.path("empty") if replaces else store.path("empty", "tree"))
        assert names(store.fs, store.root) == ["empty"]

    @pytest.mark.rule("RENAME-7", divergence=("raw", "crc", "s3"))
    @pytest.mark.parametrize("kind", ["file", "directory"])
    def test_a_missing_destination_parent(self, store: Store, source: str, tree: str, kind: str):
        """testRenameFileNonexistentDir: missing parents are made, or not, as declared."""
        target = store.path("new", "deep", "target")
        moved = source if kind == "file" else tree
        if not store.options["rename-creates-dest-dirs"]:
            assert store.fs.rename(moved, target) is False
            assert store.fs.exists(moved)
            assert not store.fs.exists(store.path("new"))
            return
        assert store.fs.rename(moved, target) is True
        if kind == "file":
            assert store.read(target) == A
        else:
            assert_tree(store, target)
        assert names(store.fs, store.path("new")) == ["deep"]

    @pytest.mark.rule("RENAME-8")
    @pytest.mark.parametrize("below", ["target", "sub/target"])
    def test_a_destination_below_a_file(self, store: Store, source: str, other: str, below: str):
        """testRenameFileUnderFile(Subdir): refused; source and file intact."""
        refused(store, source, f"{other}/{below}")
        assert store.read(source) == A
        assert store.read(other) == B

    @pytest.mark.rule("RENAME-9")
    @pytest.mark.parametrize("below", ["b", "one/b", "one/two/three/b"])
    def test_a_directory_under_itself(self, store: Store, tree: str, below: str):
        """testRenameChildDirForbidden: refused at any depth; the tree is unchanged."""
        refused(store, tree, f"{tree}/{below}")
        assert_tree(store, tree)

    @pytest.mark.rule("RENAME-10")
    def test_a_directory_onto_a_file(self, store: Store, tree: str, other: str):
        """testRenameDirectoryAsExistingFile: refused; both intact."""
        refused(store, tree, other)
        assert_tree(store, tree)
        assert store.read(other) == B

    @pytest.mark.rule("RENAME-11", "ROOT-2")
    def test_the_root_cannot_be_renamed(self, store: Store):
        """testRenameRootDirForbidden."""
        refused(store, "/", store.path("target"))
        assert not store.fs.exists(store.path("target"))
        assert store.fs.is_directory("/")

    @pytest.mark.rule("RENAME-12")
    def test_a_file_to_itself(self, store: Store, source: str):
        """testRenameFileToSelf: True, unchanged."""
        assert store.fs.rename(source, source) is True
        assert store.read(source) == A
        assert names(store.fs, store.root) == ["source"]

    @pytest.mark.rule("RENAME-12")
    def test_a_file_into_its_own_parent(self, store: Store, source: str):
        """testMoveFileUnderParent: the same as to itself."""
        assert store.fs.rename(source, store.root) is True
        assert store.read(source) == A

    @pytest.mark.rule("RENAME-12")
    @pytest.mark.parametrize("destination", ["tree", ""], ids=["itself", "own parent"])
    def test_a_directory_to_itself(self, store: Store, tree: str, destination: str):
        """testRenameDirToSelf, testMoveDirUnderParent: the content is preserved."""
        with contextlib.suppress(OSError):
            store.fs.rename(tree, store.path(destination).rstrip("/"))
        assert_tree(store, tree)
        assert names(store.fs, store.root) == ["tree"]


class TestRename3:
    """FileContext's rename tests, AbstractContractRenameExTest and the commit-by-rename tests."""

    @pytest.mark.rule("RENAME-19", "RENAME-16")
    def test_a_missing_source(self, store: Store, mode: Rename):
        """testRenameNonExistentPath: FileNotFoundError in both modes; nothing appears."""
        with pytest.raises(FileNotFoundError):
            store.fs.rename(store.path("missing"), store.path("target"), mode)
        assert store.on_disk() == []

    @pytest.mark.rule("RENAME-16")
    @pytest.mark.rule("RENAME-17", on=FILES)
    @pytest.mark.parametrize("kind", ["file", "directory"])
    def test_none_never_overwrites_a_file(self, store: Store, source: str, tree: str, kind: str):
        """testRenameFileAsExistingFile: FileExistsError onto the same kind; both intact."""
        if kind == "file":
            target = store.write(store.path("target"), B)
            origin = source
        else:
            target = store.path("target")
            store.write(f"{target}/child", B)
            origin = tree
        with pytest.raises(FileExistsError) as refusal:
            store.fs.rename(origin, target, Rename.NONE)
        assert refusal.value.filename in (store.filename(target), store.filename(origin))
        assert store.read(source) == A
        assert_tree(store, tree)
        assert store.read(target if kind == "file" else f"{target}/child") == B

    @pytest.mark.rule("RENAME-16")
    @pytest.mark.rule("RENAME-18", on=("raw", "hdfs", "s3"))
    def test_overwrite_replaces_a_file(self, store: Store, source: str, other: str):
        """testCommitExistingFileWithOverwrite: the destination has the source's content."""
        assert store.fs.rename(source, other, Rename.OVERWRITE) is None
        assert store.read(other) == A
        assert names(store.fs, store.root) == ["other"]

    @pytest.mark.rule("RENAME-20")
    @pytest.mark.parametrize("kind", ["file", "directory"])
    def test_a_missing_parent(self, store: Store, source: str, tree: str, mode: Rename, kind: str):
        """testRename*ToNonExistentParent: FileNotFoundError; source intact, no parent made."""
        origin = source if kind == "file" else tree
        with pytest.raises(FileNotFoundError):
            store.fs.rename(origin, store.path("missing", "target"), mode)
        assert store.read(source) == A
        assert_tree(store, tree)
        assert names(store.fs, store.root) == ["source", "tree"]

    @pytest.mark.rule("RENAME-20", "RENAME-8")
    @pytest.mark.parametrize("below", ["target", "sub/target"])
    def test_a_file_as_parent(
        self, store: Store, source: str, other: str, mode: Rename, below: str
    ):
        """testCommitParentIsFile, testCommitGrandparentIsFile: ParentNotDirectoryError."""
        no_parent = store.name == "s3" and "/" in below  # directories are names there
        with pytest.raises(FileNotFoundError if no_parent else hflush.ParentNotDirectoryError):
            store.fs.rename(source, f"{other}/{below}", mode)
        assert store.read(source) == A
        assert store.read(other) == B

    @pytest.mark.rule("RENAME-21")
    def test_to_itself(self, store: Store, source: str, tree: str, mode: Rename):
        """testRenameFileToItself, testRenameDirectoryToItself: FileExistsError in both modes."""
        for path in (source, tree):
            with pytest.raises(FileExistsError):
                store.fs.rename(path, path, mode)
        assert store.read(source) == A
        assert_tree(store, tree)

    @pytest.mark.rule("RENAME-22", "RENAME-24")
    @pytest.mark.parametrize("children", [[], ["child"]], ids=["empty", "non-empty"])
    def test_a_file_onto_a_directory(
        self, store: Store, source: str, mode: Rename, children: list[str]
    ):
        """testRenameFileAsExistingDirectory: OSError, and never "into the directory"."""
        directory = store.path("dir")
        store.fs.mkdirs(directory)
        for child in children:
            store.write(f"{directory}/{child}", B)
        with pytest.raises(OSError, match="rename"):
            store.fs.rename(source, directory, mode)
        assert store.read(source) == A
        assert names(store.fs, directory) == children

    @pytest.mark.rule("RENAME-22", "RENAME-10")
    def test_a_directory_onto_a_file(self, store: Store, tree: str, other: str, mode: Rename):
        """testRenameDirectoryAsFile: OSError in both modes; both intact."""
        with pytest.raises(OSError, match="rename"):
            store.fs.rename(tree, other, mode)
        assert_tree(store, tree)
        assert store.read(other) == B

    @pytest.mark.rule("RENAME-23", "RENAME-24")
    def test_a_directory_onto_an_empty_directory(self, store: Store, tree: str):
        """testRenameDirectoryAsEmptyDirectory: NONE FileExistsError, OVERWRITE replaces it."""
        target = store.path("empty")
        store.fs.mkdirs(target)
        with pytest.raises(FileExistsError):
            store.fs.rename(tree, target, Rename.NONE)
        assert names(store.fs, target) == []
        assert_tree(store, tree)
        store.fs.rename(tree, target, Rename.OVERWRITE)
        assert_tree(store, target)
        assert names(store.fs, store.root) == ["empty"]

    @pytest.mark.rule("RENAME-23", "RENAME-24")
    def test_a_directory_onto_a_non_empty_directory(self, store: Store, tree: str):
        """testRenameDirectoryAsNonEmptyDirectory: FileExistsError, ENOTEMPTY; both intact."""
        target = store.path("full")
        store.write(f"{target}/child", B)
        with pytest.raises(FileExistsError):
            store.fs.rename(tree, target, Rename.NONE)
        with pytest.raises(OSError, match=r"(?i)not empty") as refusal:
            store.fs.rename(tree, target, Rename.OVERWRITE)
        assert refusal.value.errno == errno.ENOTEMPTY
        assert_tree(store, tree)
        assert names(store.fs, target) == ["child"]

    @pytest.mark.rule("RENAME-9", "RENAME-16")
    def test_a_directory_under_itself(self, store: Store, tree: str, mode: Rename):
        """OSError, unchanged."""
        for below in ("b", "one/b"):
            with pytest.raises(OSError, match="rename"):
                store.fs.rename(tree, f"{tree}/{below}", mode)
        assert_tree(store, tree)

    @pytest.mark.rule("RENAME-11", "RENAME-16", "ROOT-2")
    def test_the_root(self, store: Store, source: str, tree: str, mode: Rename):
        """Neither from nor to / can anything be renamed."""
        with pytest.raises(OSError, match="rename"):
            store.fs.rename("/", store.path("target"), mode)
        for origin in (source, tree):
            with pytest.raises(OSError, match="rename"):
                store.fs.rename(origin, "/", mode)
        assert store.read(source) == A
        assert_tree(store, tree)


@pytest.mark.stores("raw", "crc")
class TestHardLinks:
    """Two names of one file: rename(2) would do nothing and say it had."""

    @pytest.mark.rule("RENAME-1")
    @pytest.mark.rule("RENAME-3", divergence=("raw", "crc"))
    @pytest.mark.rule("RENAME-18", on="raw")
    @pytest.mark.parametrize("mode", [None, Rename.OVERWRITE], ids=["rename/2", "OVERWRITE"])
    def test_onto_another_name_of_the_file(self, store: Store, source: str, mode: Rename | None):
        """After success the old name is absent, and the file is at the new one."""
        os.link(source, store.path("target"))
        rename(store, source, store.path("target"), mode)
        assert names(store.fs, store.root) == ["target"]
        assert store.read(store.path("target")) == A
        assert orphans(store.root) == []


@pytest.mark.rule("LOCAL-12")
@pytest.mark.rule("RENAME-28", divergence=("crc", "s3"))
def test_atomic_rename_is_declared_per_store(store: Store):
    """Files move in one step; a pair of data and sidecar does not, nor do objects, and say so."""
    declared = store.options["supports-atomic-rename"]
    if store.name in ("crc", "s3"):
        assert declared is not True
    else:
        assert declared is True


class TestSidecars:
    """TestChecksumFileSystem and TestChecksumFs: the sidecar moves with its file."""

    @staticmethod
    def without_sidecar(store: Store, name: str, data: bytes) -> str:
        path = store.path(name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    @pytest.mark.rule("RENAME-25", "LOCAL-8", "LOCAL-15")
    @pytest.mark.stores("crc")
    def test_to_a_free_name(self, store: Store, source: str, move):
        """The sidecar arrives with the file, and verifies."""
        target = store.path("target")
        sums = sidecar_bytes(source)
        move(source, target)
        assert store.on_disk() == [".target.crc", "target"]
        assert sidecar_bytes(target) == sums
        assert store.read(target) == A

    @pytest.mark.rule("RENAME-25", "LOCAL-15")
    @pytest.mark.stores("crc")
    @pytest.mark.parametrize("overwrite", [None, Rename.OVERWRITE], ids=["rename/2", "OVERWRITE"])
    def test_onto_a_file(self, store: Store, source: str, other: str, overwrite: Rename | None):
        """The destination's sidecar is replaced."""
        rename(store, source, other, overwrite)
        assert store.on_disk() == [".other.crc", "other"]
        assert store.read(other) == A

    @pytest.mark.rule("RENAME-25", "LOCAL-15")
    @pytest.mark.stores("crc")
    @pytest.mark.parametrize("overwrite", [None, Rename.OVERWRITE], ids=["rename/2", "OVERWRITE"])
    def test_onto_a_file_without_sidecar(self, store: Store, source: str, overwrite: Rename | None):
        """The destination gets the source's sidecar."""
        target = self.without_sidecar(store, "target", B)
        rename(store, source, target, overwrite)
        assert store.on_disk() == [".target.crc", "target"]
        assert store.read(target) == A

    @pytest.mark.rule("RENAME-25", "LOCAL-15")
    @pytest.mark.stores("crc")
    @pytest.mark.parametrize("overwrite", [None, Rename.OVERWRITE], ids=["rename/2", "OVERWRITE"])
    def test_without_sidecar_onto_a_file(self, store: Store, other: str, overwrite: Rename | None):
        """The stale sidecar of the destination goes."""
        source = self.without_sidecar(store, "source", A)
        rename(store, source, other, overwrite)
        assert store.on_disk() == ["other"]
        assert store.read(other) == A

    @pytest.mark.rule("RENAME-25", "LOCAL-15")
    @pytest.mark.stores("crc")
    def test_without_sidecar_to_a_free_name_with_a_stale_one(self, store: Store, move):
        """A sidecar without file at the destination does not judge the file that arrives."""
        source = self.without_sidecar(store, "source", A)
        with open(sidecar(store.path("target")), "wb") as file:
            file.write(b"crc\0\0\0\2\0" + b"\1\2\3\4")
        move(source, store.path("target"))
        assert store.on_disk() == ["target"]
        assert store.read(store.path("target")) == A

    @pytest.mark.rule("RENAME-25", "LOCAL-15")
    @pytest.mark.stores("crc")
    @pytest.mark.parametrize("there", [None, B], ids=["free", "taken"])
    def test_into_a_directory(self, store: Store, source: str, there: bytes | None):
        """testRenameFileIntoDir, testRenameFileIntoDirFile: the sidecar goes inside, too."""
        directory = store.path("dir")
        store.fs.mkdirs(directory)
        if there is not None:
            store.write(f"{directory}/source", there)
        assert store.fs.rename(source, directory) is True
        assert store.on_disk() == ["dir", "dir/.source.crc", "dir/source"]
        assert store.read(f"{directory}/source") == A

    @pytest.mark.rule("RENAME-25", "RENAME-17")
    @pytest.mark.stores("crc")
    def test_a_refused_rename_moves_no_sidecar(self, store: Store, source: str, other: str):
        """After FileExistsError both pairs are intact and verify."""
        before = store.on_disk()
        with pytest.raises(FileExistsError):
            store.fs.rename(source, other, Rename.NONE)
        assert store.on_disk() == before
        assert (store.read(source), store.read(other)) == (A, B)

    @pytest.mark.rule("RENAME-25", "LOCAL-8")
    @pytest.mark.stores("crc")
    def test_of_a_directory(self, store: Store, tree: str, move):
        """The sidecars in a directory move with it; none is left without its file."""
        move(tree, store.path("moved"))
        assert orphans(store.root) == []
        assert os.path.exists(sidecar(store.path("moved", "one", "two", "three", "file")))
        assert_tree(store, store.path("moved"))


def rename(store: Store, source: str, destination: str, mode: Rename | None) -> None:
    """Rename in the form that `mode` names: None is rename/2."""
    if mode is None:
        assert store.fs.rename(source, destination) is True
    else:
        assert store.fs.rename(source, destination, mode) is None


def sidecar_bytes(path: str) -> bytes:
    with open(sidecar(path), "rb") as file:
        return file.read()


@pytest.mark.stores("raw", "crc")
class TestAcrossVolumes:
    """Two mounts: nothing is ever lost."""

    @pytest.fixture
    def elsewhere(self, store: Store) -> Iterator[str]:
        """A directory on another volume than the store's root."""
        memory = "/dev/shm"
        if not os.path.isdir(memory) or os.stat(memory).st_dev == os.stat(store.root).st_dev:
            pytest.skip("this machine has no second volume that everyone can write")
        with tempfile.TemporaryDirectory(prefix="hflush-", dir=memory) as directory:
            yield directory

    @pytest.mark.rule("RENAME-29")
    @pytest.mark.parametrize("kind", ["file", "directory"])
    def test_rename3(
        self, store: Store, elsewhere: str, source: str, tree: str, mode: Rename, kind: str
    ):
        """rename/3 to another volume is EXDEV; the source is intact, nothing arrives."""
        with pytest.raises(OSError, match=r"(?i)device|volume") as refusal:
            store.fs.rename(source if kind == "file" else tree, f"{elsewhere}/target", mode)
        assert refusal.value.errno == errno.EXDEV
        assert store.read(source) == A
        assert_tree(store, tree)
        assert store.on_disk(elsewhere) == []

    def test_rename2_to_a_missing_directory(self, store: Store, elsewhere: str, source: str):
        """What was made for it goes again."""
        with pytest.raises(OSError, match=r"(?i)device|volume"):
            store.fs.rename(source, f"{elsewhere}/new/directory/target")
        assert store.read(source) == A
        assert store.on_disk(elsewhere) == []

    @pytest.mark.rule("RENAME-29")
    @pytest.mark.parametrize("kind", ["file", "directory"])
    def test_rename2(self, store: Store, elsewhere: str, source: str, tree: str, kind: str):
        """rename/2 is EXDEV, too, or moves everything; one of the two places is complete."""
        target = f"{elsewhere}/target"
        moved = False
        try:
            moved = store.fs.rename(source if kind == "file" else tree, target)
        except OSError as refusal:
            if refusal.errno != errno.EXDEV:
                raise
        if kind == "file":
            assert store.read(target if moved else source) == A
        else:
            assert_tree(store, target if moved else tree)
        assert store.on_disk(elsewhere) == [] or moved
