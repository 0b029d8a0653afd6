"""EXTRA: optional operations."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import pickle
import stat
import subprocess
import sys
from collections.abc import Callable

import hflush
import pytest
from support.data import dataset
from support.listing import listed, names, orphans, sidecar
from support.stores import FILES, Store

DATA = dataset(2000)


@pytest.mark.rule("EXTRA-1", refused=("raw", "crc", "s3"))
@pytest.mark.rule("FAIL-9")
@pytest.mark.stores("raw", "crc", "s3")
def test_concat_is_refused(store: Store, path: str):
    """UnsupportedOperation that names operation and path; capability and option are False."""
    source = store.write(store.path("source"), DATA)
    store.write(path, DATA)
    assert store.options["supports-concat"] is False
    assert not store.fs.has_path_capability(path, hflush.capabilities.CONCAT)
    with pytest.raises(io.UnsupportedOperation, match="concat"):
        store.fs.concat(path, [source])
    assert store.read(path) == store.read(source) == DATA


class TestTruncate:
    """truncate, on the store that has it (crc refuses: test_local)."""

    @pytest.mark.rule("EXTRA-2", "TIME-7")
    @pytest.mark.stores("raw", "hdfs")
    @pytest.mark.parametrize("length", [0, 1, 511, 512, 513, 1999, 2000])
    def test_the_head_stays(self, store: Store, path: str, length: int):
        """The length is right and the head unchanged, for other clients too, once it is settled.

        True: at once. False, on hdfs inside a block: when the last block is recovered.
        """
        store.write(path, DATA)
        assert store.fs.has_path_capability(path, hflush.capabilities.TRUNCATE)
        at_once = store.local or length in {0, len(DATA)}
        assert store.fs.truncate(path, length) is at_once
        store.settle(path)
        assert store.fs.get_file_status(path).length == length
        assert store.second_client().run("read(path)", path=path) == DATA[:length]

    @pytest.mark.rule("EXTRA-2")
    @pytest.mark.stores("raw", "hdfs")
    def test_then_append(self, store: Store, path: str):
        """What was cut off does not come back."""
        store.write(path, DATA)
        store.fs.truncate(path, 700)
        store.settle(path)
        with store.fs.append(path) as out:
            assert out.tell() == 700
            out.write(b"tail")
        assert store.read(path) == DATA[:700] + b"tail"

    @pytest.mark.rule("EXTRA-2")
    @pytest.mark.stores("raw", "hdfs")
    @pytest.mark.parametrize("length", [-1, 2001, 1 << 62])
    def test_lengths_out_of_range(self, store: Store, path: str, length: int):
        """Negative, or more than the file has: ValueError, and nothing changes."""
        store.write(path, DATA)
        with pytest.raises(ValueError, match=r"truncate|length"):
            store.fs.truncate(path, length)
        assert store.read(path) == DATA

    @pytest.mark.rule("EXTRA-2")
    @pytest.mark.stores("raw", "hdfs")
    def test_missing_files_and_directories(self, store: Store, path: str):
        """FileNotFoundError and OSError; nothing is made."""
        with pytest.raises(FileNotFoundError):
            store.fs.truncate(path, 0)
        with pytest.raises(IsADirectoryError):
            store.fs.truncate(store.root, 0)
        assert store.on_disk() == []


class TestCopyFromLocal:
    """AbstractContractCopyFromLocalTest."""

    @pytest.fixture
    def source(self, store: Store) -> str:
        """A local file."""
        path = store.scratch("source")
        with open(path, "wb") as file:
            file.write(DATA)
        return path

    @pytest.fixture
    def tree(self, store: Store) -> str:
        """A local tree of three levels, with an empty directory and an empty file."""
        top = store.scratch("tree")
        for directory in ("one/two", "empty"):
            os.makedirs(f"{top}/{directory}")
        for name, data in (("file", DATA), ("one/none", b""), ("one/two/deep", DATA[::-1])):
            with open(f"{top}/{name}", "wb") as file:
                file.write(data)
        return top

    @staticmethod
    def assert_tree(store: Store, top: str) -> None:
        assert names(store.fs, top) == ["empty", "file", "one"]
        assert names(store.fs, f"{top}/empty") == []
        assert names(store.fs, f"{top}/one") == ["none", "two"]
        assert store.read(f"{top}/file") == DATA
        assert store.read(f"{top}/one/none") == b""
        assert store.read(f"{top}/one/two/deep") == DATA[::-1]

    @pytest.mark.rule("EXTRA-3")
    @pytest.mark.parametrize("size", [0, 1, 2000, 3 << 20])
    def test_a_file(self, store: Store, path: str, source: str, size: int):
        """testCopyFile, testCopyEmptyFile: content exact; the source stays."""
        with open(source, "wb") as file:
            file.write(dataset(size))
        store.fs.copy_from_local_file(source, path)
        assert store.read(path) == dataset(size)
        assert os.path.getsize(source) == size

    @pytest.mark.rule("EXTRA-3")
    def test_over_a_file(self, store: Store, path: str, source: str):
        """testCopyFileNoOverwrite, testCopyFileOverwrite."""
        store.write(path, b"old")
        with pytest.raises(FileExistsError):
            store.fs.copy_from_local_file(source, path, delete_source=True, overwrite=False)
        assert store.read(path) == b"old"
        assert os.path.exists(source)
        store.fs.copy_from_local_file(source, path, delete_source=False, overwrite=True)
        assert store.read(path) == DATA

    @pytest.mark.rule("EXTRA-3")
    def test_a_missing_source(self, store: Store, path: str):
        """testCopyMissingFile: FileNotFoundError; nothing appears."""
        with pytest.raises(FileNotFoundError):
            store.fs.copy_from_local_file(store.scratch("missing"), path)
        assert store.on_disk() == []

    @pytest.mark.rule("EXTRA-3")
    def test_moving(self, store: Store, path: str, source: str, tree: str):
        """testSourceIsFileAndDelSrcTrue, testCopyDirectoryWithDelete: gone after success only."""
        store.fs.copy_from_local_file(source, path, delete_source=True)
        assert not os.path.exists(source)
        store.fs.copy_from_local_file(tree, store.path("tree"), delete_source=True)
        assert not os.path.exists(tree)
        assert store.read(path) == DATA
        self.assert_tree(store, store.path("tree"))

    @pytest.mark.rule("EXTRA-3")
    def test_into_a_directory(self, store: Store, path: str, source: str, tree: str):
        """testSourceIsFileAndDestinationIsDirectory: it gets a child of the source's name."""
        store.fs.mkdirs(path)
        store.fs.copy_from_local_file(source, path)
        store.fs.copy_from_local_file(tree, path)
        assert names(store.fs, path) == sorted([os.path.basename(source), os.path.basename(tree)])
        assert store.read(f"{path}/{os.path.basename(source)}") == DATA
        self.assert_tree(store, f"{path}/{os.path.basename(tree)}")

    @pytest.mark.rule("EXTRA-3")
    def test_a_tree(self, store: Store, path: str, tree: str):
        """testSrcIsDir*, testCopyTreeDirectoryWithoutDelete: every level; the source stays."""
        store.fs.copy_from_local_file(tree, path)
        self.assert_tree(store, path)
        assert os.path.exists(f"{tree}/one/two/deep")
        assert orphans(store.root) == []

    @pytest.mark.rule("EXTRA-3")
    def test_a_tree_over_a_tree(self, store: Store, tree: str):
        """testSrcIsDirWithOverwriteOptions: files that are there are refused or replaced."""
        parent = store.path("parent")
        store.write(f"{parent}/{os.path.basename(tree)}/file", b"old")
        with pytest.raises(FileExistsError):
            store.fs.copy_from_local_file(tree, parent, overwrite=False)
        assert store.read(f"{parent}/{os.path.basename(tree)}/file") == b"old"
        store.fs.copy_from_local_file(tree, parent, overwrite=True)
        self.assert_tree(store, f"{parent}/{os.path.basename(tree)}")

    @pytest.mark.rule("EXTRA-3")
    def test_files_and_directories_in_each_other_s_way(
        self, store: Store, path: str, source: str, tree: str
    ):
        """A directory over a file, a file where the tree has a directory: OSError; both stay."""
        store.write(path, b"old")
        with pytest.raises(FileExistsError):
            store.fs.copy_from_local_file(tree, path, delete_source=True)
        store.write(store.path("parent", os.path.basename(tree), "one"), b"old")
        with pytest.raises(FileExistsError):
            store.fs.copy_from_local_file(tree, store.path("parent"), delete_source=True)
        assert store.read(path) == b"old"
        assert store.read(store.path("parent", os.path.basename(tree), "one")) == b"old"
        assert os.path.exists(f"{tree}/one/two/deep")

    @pytest.mark.rule("EXTRA-3", "EXTRA-11")
    @pytest.mark.parametrize("delete_source", [False, True], ids=["copy", "move"])
    @pytest.mark.parametrize("alias", ["itself", "link", "directory"])
    @pytest.mark.stores("raw", "crc")
    def test_onto_itself(self, store: Store, path: str, alias: str, delete_source: bool):
        """A file copied to where it is, is not lost: OSError, or nothing happens."""
        store.write(path, DATA)
        source, target = path, path
        if alias == "link":
            source = store.path("link")
            os.symlink(path, source)
        elif alias == "directory":
            target = store.root
        for copy in (store.fs.copy_from_local_file, store.fs.copy_to_local_file):
            with contextlib.suppress(OSError):
                copy(source, target, delete_source=delete_source, overwrite=True)
            assert store.read(path) == DATA

    @pytest.mark.rule("EXTRA-3")
    @pytest.mark.stores("raw", "crc")
    def test_a_tree_into_itself(self, store: Store):
        """OSError instead of an endless copy; the tree is intact."""
        top = store.path("tree")
        store.write(f"{top}/file", DATA)
        for below in (top, f"{top}/inside", f"{top}/inside/deeper"):
            with pytest.raises(OSError, match="copy") as refusal:
                store.fs.copy_from_local_file(top, below)
            assert refusal.value.errno == errno.EINVAL
        assert store.read(f"{top}/file") == DATA
        assert not store.fs.exists(f"{top}/tree/tree")


class TestTrash:
    """AbstractContractTrashTest."""

    @pytest.fixture
    def fs(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> hflush.FileSystem:
        """A file system with a trash that keeps things for an hour, in a home of the test's own."""
        monkeypatch.setenv("HOME", store.path("home"))
        return hflush.FileSystem.new_instance(store.url(), {"fs.trash.interval": 60})

    @pytest.mark.rule("EXTRA-4")
    @pytest.mark.stores("raw", "crc")
    def test_its_way_is_kept(self, store: Store, fs: hflush.FileSystem):
        """testMoveToTrash: below Current in the home, under its whole path; data and sums."""
        path = store.write(store.path("dir", "file"), DATA)
        assert fs.move_to_trash(path) is True
        kept = store.path("home", ".Trash", "Current") + path
        assert fs.get_trash(path).root == store.path("home", ".Trash")
        assert store.read(kept) == DATA
        assert names(store.fs, store.path("dir")) == []
        assert orphans(store.root) == []
        assert fs.move_to_trash(kept) is False
        assert fs.move_to_trash(store.path("dir")) is True
        with pytest.raises(FileNotFoundError):
            fs.move_to_trash(store.path("missing"))
        with pytest.raises(OSError, match="the trash is below this path"):
            fs.move_to_trash(store.path("home"))

    @pytest.mark.rule("EXTRA-4")
    @pytest.mark.stores("raw", "crc")
    def test_only_what_has_expired_is_removed(self, store: Store, fs: hflush.FileSystem):
        """testCheckpoint, testExpunge: Current becomes a checkpoint, which goes after the hour."""
        trash = fs.get_trash()
        assert trash.checkpoint() is None
        fs.move_to_trash(store.write(store.path("young"), DATA))
        checkpoint = trash.checkpoint()
        assert checkpoint is not None
        old = store.path("home", ".Trash", "200101000000", "file")
        store.write(old, DATA)
        fs.move_to_trash(store.write(store.path("today"), DATA))
        assert trash.expunge() == 1
        assert not store.fs.exists(old)
        assert store.read(checkpoint + store.path("young")) == DATA
        assert store.read(trash.root + "/Current" + store.path("today")) == DATA

    @pytest.mark.rule("EXTRA-4")
    @pytest.mark.stores("raw", "crc")
    def test_off_by_default(self, store: Store, path: str):
        """An interval of 0 disables it: False, and nothing is changed."""
        store.write(path, DATA)
        assert store.fs.get_trash().is_enabled is False
        assert store.fs.move_to_trash(path) is False
        assert store.read(path) == DATA

    @pytest.mark.rule("EXTRA-4", refused="s3")
    @pytest.mark.rule("FAIL-9")
    @pytest.mark.stores("s3")
    def test_refused(self, store: Store, path: str):
        """Not offered: UnsupportedOperation, nothing is removed."""
        store.write(path, DATA)
        with pytest.raises(io.UnsupportedOperation, match="trash"):
            store.fs.move_to_trash(path)
        assert store.read(path) == DATA


class TestGlob:
    """The glob tests of FSMainOperationsBaseTest and FileContextMainOperationsBaseTest."""

    @pytest.fixture
    def tree(self, store: Store) -> str:
        for name in ("aaa/x", "aaa2/x", "aaa2/xx", "axa/y", "axx/{z}", "axx/a*b", "b"):
            store.write(store.path(*name.split("/")), DATA[:5])
        return store.root

    @staticmethod
    def relative(store: Store, pattern: str, **options: Callable[[str], bool]) -> list[str]:
        found = store.fs.glob_status(store.path(pattern), **options)
        return [os.path.relpath(status.path, store.public(store.root)) for status in found]

    @pytest.mark.rule("EXTRA-5")
    @pytest.mark.parametrize(
        ("pattern", "expected"),
        [
            ("nosuch", []),
            ("nosuch/*", []),
            ("?", ["b"]),
            ("b", ["b"]),
            ("aaa", ["aaa"]),
            ("*a", ["aaa", "axa"]),
            ("a?a", ["aaa", "axa"]),
            ("a??", ["aaa", "axa", "axx"]),
            ("a*/x", ["aaa/x", "aaa2/x"]),
            ("*/x*", ["aaa/x", "aaa2/x", "aaa2/xx"]),
            ("a[ax]a", ["aaa", "axa"]),
            ("a[^a]a", ["axa"]),
            ("a[w-y]?", ["axa", "axx"]),
            ("{aaa,b}", ["aaa", "b"]),
            ("a{aa/x,xa/y}", ["aaa/x", "axa/y"]),
            ("axx/a\\*b", ["axx/a*b"]),
            ("axx/\\{z\\}", ["axx/{z}"]),
            ("a*x", ["axx"]),
            ("*", ["aaa", "aaa2", "axa", "axx", "b"]),
            ("b/*", []),
        ],
    )
    def test_patterns(self, store: Store, tree: str, pattern: str, expected: list[str]):
        """Elements match one by one, wildcards never cross a slash; sorted; empty if nothing."""
        assert self.relative(store, pattern) == expected

    @pytest.mark.rule("EXTRA-5", "LOCAL-8")
    def test_sidecars_do_not_match(self, store: Store, tree: str):
        """Only what is listed can match."""
        assert self.relative(store, ".*") == []
        assert self.relative(store, "aaa*/*") == ["aaa/x", "aaa2/x", "aaa2/xx"]

    @pytest.mark.rule("EXTRA-5")
    def test_a_filter_sees_full_matches(self, store: Store, tree: str):
        """testGlobStatusFilterWith*: all, none, and by the whole path."""
        assert self.relative(store, "a*/x", filter=lambda path: True) == ["aaa/x", "aaa2/x"]
        assert self.relative(store, "a*/x", filter=lambda path: "aaa2" in path) == ["aaa2/x"]
        assert self.relative(store, "a*/x", filter=lambda path: False) == []
        assert self.relative(store, "nosuch*", filter=lambda path: True) == []

    @pytest.mark.rule("EXTRA-5")
    def test_relative_patterns(self, store: Store, tree: str):
        """They match below the working directory."""
        store.fs.set_working_directory(store.path("aaa2"))
        assert listed(store.fs.glob_status("x*")) == ["x", "xx"]

    @pytest.mark.rule("EXTRA-5", "STATUS-15")
    @pytest.mark.stores(*FILES)
    def test_an_unreadable_directory(self, store: Store):
        """testGlobStatusThrowsExceptionForUnreadableDir: PermissionError."""
        with store.public_directory() as directory:
            store.write(f"{directory}/closed/child", DATA)
            user = store.unprivileged()
            store.chmod(f"{directory}/closed", 0o000)
            for pattern in ("closed/*", "clo*/*", "*/child"):
                with pytest.raises(PermissionError):
                    user.run("fs.glob_status(pattern)", pattern=f"{directory}/{pattern}")


class TestDeleteOnExit:
    """testDeleteOnExit, testDeleteOnExitUnexisting."""

    @pytest.mark.rule("EXTRA-6")
    def test_registered_paths_go_with_the_file_system(self, store: Store):
        """Files and trees, deepest first, when the object closes and not before."""
        fs = store.new_client()
        paths = [
            store.path("a", "b", "file"),
            store.path("a", "b"),
            store.path("a"),
            store.path("f"),
        ]
        store.write(paths[0], DATA)
        store.write(paths[3], DATA)
        store.write(store.path("kept"), DATA)
        assert [fs.delete_on_exit(path) for path in paths] == [True] * 4
        assert all(store.fs.exists(path) for path in paths)
        fs.close()
        assert names(store.fs, store.root) == ["kept"]

    @pytest.mark.rule("EXTRA-6")
    @pytest.mark.stores("raw", "crc", "hdfs", "s3")
    def test_the_end_of_the_process(self, store: Store, path: str):
        """It closes what the program has not; a forked child has nothing to remove."""
        code = """
import os, pickle, sys
fs = pickle.load(sys.stdin.buffer)
fs.create(sys.argv[1]).close()
fs.delete_on_exit(sys.argv[1])
if os.fork() == 0:
    fs.close()
    sys.exit()
os.wait()
print(fs.exists(sys.argv[1]))
"""
        conf = {**store.conf, "hflush.pickle.secrets": True}
        fs = hflush.FileSystem.new_instance(store.url(), conf)
        run = [sys.executable, "-c", code, path]
        ran = subprocess.run(run, input=pickle.dumps(fs), capture_output=True, check=True)
        assert ran.stdout == b"True\n"
        assert names(store.fs, store.root) == []

    @pytest.mark.rule("EXTRA-6")
    def test_what_is_to_stay_after_all(self, store: Store, path: str):
        """TestFileSystemCaching.testCancelDeleteOnExit."""
        fs = store.new_client()
        store.write(path, DATA)
        fs.delete_on_exit(path)
        assert [fs.cancel_delete_on_exit(path) for _ in range(2)] == [True, False]
        fs.close()
        assert store.read(path) == DATA

    @pytest.mark.rule("EXTRA-6")
    def test_a_missing_path(self, store: Store, path: str):
        """False, and what appears there later is not removed."""
        fs = store.new_client()
        assert fs.delete_on_exit(path) is False
        store.write(path, DATA)
        fs.close()
        assert store.read(path) == DATA

    @pytest.mark.rule("EXTRA-6")
    @pytest.mark.stores(*FILES)
    def test_a_failure_is_only_logged(self, store: Store, caplog: pytest.LogCaptureFixture):
        """What cannot be removed is a warning; the rest goes, and close does not raise."""
        with store.public_directory() as directory:
            fs = store.new_client()
            store.write(f"{directory}/sub/file", DATA)
            store.write(store.path("other"), DATA)
            store.chmod(directory, 0o777)
            snippet = """
import io, logging
text = io.StringIO()
logging.getLogger('hflush').addHandler(logging.StreamHandler(text))
answers = [fs.delete_on_exit(directory + '/sub'), fs.delete_on_exit(directory + '/mine')]
fs.close()
result = (answers, text.getvalue())
"""
            store.chmod(f"{directory}/sub", 0o555)
            user = store.unprivileged()
            user.run("fs.create(path).close()", path=f"{directory}/mine")
            answers, logged = user.run(snippet, directory=directory)
            assert answers == [True, True]
            assert f"{directory}/sub" in logged
            assert names(store.fs, directory) == ["sub"]
            assert store.read(f"{directory}/sub/file") == DATA
            fs.close()


@pytest.mark.rule("EXTRA-7")
def test_the_status_of_the_file_system(store: Store):
    """testFsStatus: used, remaining and capacity are integers ≥ 0 that fit together."""
    missing = store.path("missing", "below")
    for status in (store.fs.get_status(), store.fs.get_status(missing), store.fs.get_status("/")):
        for figure in (status.used, status.remaining, status.capacity):
            assert isinstance(figure, int)
            assert figure >= 0
        assert status.used + status.remaining <= status.capacity
    with pytest.raises(ValueError, match="wrong file system"):
        store.fs.get_status("nosuch://elsewhere/")


@pytest.mark.rule("EXTRA-7")
@pytest.mark.stores("raw", "crc")
@pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="needs a second volume")
def test_the_status_is_of_the_volume_of_the_path(store: Store):
    """Each path has the capacity of its own volume, as statvfs says."""
    for path in (store.root, "/dev/shm", "/dev/shm/missing"):
        volume = os.statvfs(path if os.path.exists(path) else "/dev/shm")
        assert store.fs.get_status(path).capacity == volume.f_blocks * volume.f_frsize


@pytest.mark.rule("EXTRA-8", "EXTRA-10", refused=("raw", "crc"))
@pytest.mark.rule("FAIL-9")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("copy", ("{path}", "{path}-copy")),
        ("msync", ()),
        ("recover_lease", ("{path}",)),
        ("is_file_closed", ("{path}",)),
        ("set_safe_mode", ("get",)),
        ("list_corrupt_file_blocks", ("{path}",)),
        ("list_multipart_uploads", ("{path}",)),
        ("abort_multipart_uploads", ("{path}",)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.stores("raw", "crc")
def test_what_is_not_offered_is_refused(
    store: Store, path: str, name: str, arguments: tuple[str, ...]
):
    """UnsupportedOperation that names the operation; the file is untouched."""
    store.write(path, DATA)
    with pytest.raises(io.UnsupportedOperation, match=name):
        getattr(store.fs, name)(*(argument.format(path=path) for argument in arguments))
    assert names(store.fs, store.root) == ["file"]
    assert store.read(path) == DATA


@pytest.mark.rule("EXTRA-8", refused=FILES)
def test_native_copy_is_declared(store: Store, path: str):
    """testNativeCopyCapability: what the option says is what the call does."""
    store.write(path, DATA)
    offered = store.options["supports-native-copy"]
    assert offered is (store.name == "s3")
    with (
        contextlib.nullcontext()
        if offered
        else pytest.raises(io.UnsupportedOperation, match="copy")
    ):
        store.fs.copy(path, f"{path}-copy")
    assert names(store.fs, store.root) == (["file", "file-copy"] if offered else ["file"])


class TestLinks:
    """Symbolic links: not made here, and followed where they are."""

    @pytest.mark.rule("EXTRA-9", divergence="crc", refused=("hdfs", "s3"))
    @pytest.mark.rule("FAIL-9")
    @pytest.mark.stores("crc", "hdfs", "s3")
    def test_making_one_is_refused(self, store: Store, path: str):
        """testUnsupportedSymlink: UnsupportedOperation from both calls, and it is said before."""
        store.write(path, DATA)
        assert not store.fs.has_path_capability(path, hflush.capabilities.SYMLINKS)
        assert store.fs.get_file_link_status(path) == store.fs.get_file_status(path)
        assert store.fs.supports_symlinks is False
        with pytest.raises(io.UnsupportedOperation):
            store.fs.create_symlink(path, store.path("link"))
        with pytest.raises(io.UnsupportedOperation):
            store.fs.get_link_target(path)
        assert names(store.fs, store.root) == ["file"]

    @pytest.mark.rule("EXTRA-9", divergence="raw")  # for the better
    @pytest.mark.stores("raw")
    def test_making_one(self, store: Store, path: str):
        """A link to a file, a directory or nothing: what it leads to, and what it is."""
        fs = store.fs
        assert fs.supports_symlinks is True
        assert fs.has_path_capability(path, hflush.capabilities.SYMLINKS)
        store.write(store.path("dir", "file"), DATA)
        link = store.path("link")
        for target, reads in (
            (store.path("dir", "file"), True),
            (f"file://{store.root}/dir/file", True),
            ("dir/file", True),
            ("nowhere", False),
        ):
            fs.create_symlink(target, link)
            assert fs.get_link_target(link) == target.removeprefix("file://")
            status = fs.get_file_link_status(link)
            assert (status.kind, status.is_symlink) == ("symlink", True)
            assert status.path == store.public(link)
            assert status.owner == fs.get_file_status(store.root).owner
            assert fs.exists(link) is True
            assert fs.get_file_status(link).is_file is reads
            if reads:
                assert store.read(link) == DATA
            assert fs.delete(link) is True
            with pytest.raises(FileNotFoundError):
                fs.get_file_link_status(link)
        assert store.read(store.path("dir", "file")) == DATA

        fs.create_symlink("../dir", store.path("new", "deep"), create_parent=True)
        assert names(fs, store.path("new", "deep")) == ["file"]
        plain = store.path("dir", "file")
        assert fs.get_file_link_status(plain) == fs.get_file_status(plain)

    @pytest.mark.rule("EXTRA-9", divergence="raw")
    @pytest.mark.stores("raw")
    def test_links_that_cannot_be_made(self, store: Store, path: str):
        """Something in the way, no parent, another file system, no link: errors, no change."""
        store.write(path, DATA)
        for link, error in (
            (path, FileExistsError),
            (store.path("missing", "link"), FileNotFoundError),
            (f"{path}/link", hflush.ParentNotDirectoryError),
        ):
            with pytest.raises(error) as caught:
                store.fs.create_symlink("target", link)
            assert caught.value.filename == link
        with pytest.raises(ValueError, match="wrong file system"):
            store.fs.create_symlink("hdfs://elsewhere/file", store.path("link"))
        with pytest.raises(OSError, match="not a symbolic link") as caught:
            store.fs.get_link_target(path)
        assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, path)
        with pytest.raises(FileNotFoundError):
            store.fs.get_link_target(store.path("missing"))
        assert names(store.fs, store.root) == ["file"]
        assert store.read(path) == DATA

    @pytest.mark.rule("EXTRA-9", divergence=("raw", "crc"))
    @pytest.mark.stores("raw", "crc")
    def test_existing_ones_are_followed(self, store: Store):
        """As declared, reads and listings follow links to files and directories."""
        store.write(store.path("dir", "file"), DATA)
        os.symlink(store.path("dir", "file"), store.path("to-file"))
        os.symlink("dir", store.path("to-dir"))
        os.symlink("nowhere", store.path("dangling"))
        assert store.read(store.path("to-file")) == DATA
        assert store.read(store.path("to-dir", "file")) == DATA
        assert names(store.fs, store.path("to-dir")) == ["file"]
        assert store.fs.get_file_status(store.path("to-file")).length == len(DATA)
        kinds = {s.name: (s.is_file, s.is_directory) for s in store.fs.list_status(store.root)}
        assert kinds.pop("dangling") == (False, False)
        assert kinds == {"dir": (False, True), "to-dir": (False, True), "to-file": (True, False)}
        with pytest.raises(FileNotFoundError):
            store.fs.open(store.path("dangling"))

    @pytest.mark.rule("EXTRA-9", divergence=("raw", "crc"))
    @pytest.mark.stores("crc")
    def test_the_sums_are_beside_what_they_lead_to(self, store: Store, path: str):
        """A file has the same sums by each of its names: for readers and for writers."""
        store.write(path, DATA)
        link = store.path("link")
        os.symlink("file", link)
        store.write(link, DATA * 2)
        assert store.read(path) == store.read(link) == DATA * 2
        assert sorted(os.listdir(store.root)) == [".file.crc", "file", "link"]
        store.fs.set_permission(link, 0o640)
        if os.geteuid() == 0:
            store.fs.set_owner(link, "1")
        facts, sums = (os.stat(store.path(name)) for name in ("file", ".file.crc"))
        assert stat.S_IMODE(facts.st_mode) == stat.S_IMODE(sums.st_mode) == 0o640
        assert facts.st_uid == sums.st_uid
        with open(path, "r+b") as file:
            file.write(b"damage")
        with pytest.raises(hflush.ChecksumError):
            store.read(link)

    @pytest.mark.rule("EXTRA-9", divergence=("raw", "crc"))
    @pytest.mark.rule("STATUS-7", "STATUS-16")
    @pytest.mark.stores("raw", "crc")
    def test_a_loop_ends(self, store: Store):
        """A link to an ancestor does not make a recursive listing or a summary endless."""
        store.write(store.path("dir", "file"), DATA)
        os.symlink(store.root, store.path("dir", "up"))
        assert "file" in listed(store.fs.list_files(store.root, recursive=True))
        assert store.fs.get_content_summary(store.root).length >= len(DATA)


class TestCopyToLocal:
    """testCopy, testCopyToLocalWithUseRawLocalFileSystemOption."""

    @pytest.mark.rule("EXTRA-11")
    @pytest.mark.parametrize("raw", [False, True], ids=["checksummed", "raw"])
    def test_the_target(self, store: Store, path: str, raw: bool):
        """Content exact; a sidecar beside the copy unless the raw target is asked for."""
        store.write(path, DATA)
        target = store.scratch("copy")
        store.fs.copy_to_local_file(path, target, use_raw_local=raw)
        with open(target, "rb") as file:
            assert file.read() == DATA
        assert os.path.exists(sidecar(target)) is not raw
        assert store.read(path) == DATA

    @pytest.mark.rule("EXTRA-11")
    def test_moving(self, store: Store, path: str):
        """The source goes after success only; a file in the way is refused without overwrite."""
        store.write(path, DATA)
        target = store.scratch("copy")
        with open(target, "wb") as file:
            file.write(b"old")
        with pytest.raises(FileExistsError):
            store.fs.copy_to_local_file(path, target, delete_source=True, overwrite=False)
        assert store.read(path) == DATA
        store.fs.copy_to_local_file(path, target, delete_source=True, overwrite=True)
        with open(target, "rb") as file:
            assert file.read() == DATA
        assert store.on_disk() == []

    @pytest.mark.rule("EXTRA-11")
    @pytest.mark.stores("hdfs")
    def test_a_source_that_is_being_written(self, store: Store, path: str):
        """It stays: what is written after the copy would be lost with it."""
        with store.fs.create(path) as out:
            out.write(DATA)
            out.hflush()
            with pytest.raises(OSError, match="being written") as stayed:
                store.fs.copy_to_local_file(path, store.scratch("copy"), delete_source=True)
            assert stayed.value.errno == errno.ENOTEMPTY
            out.write(DATA)
        assert store.read(path) == DATA + DATA
        store.fs.copy_to_local_file(path, store.scratch("copy"), delete_source=True)
        assert store.on_disk() == []

    @pytest.mark.rule("EXTRA-11")
    @pytest.mark.stores("raw", "crc")
    def test_a_corrupt_source_is_not_copied(self, store: Store, path: str):
        """Where checksums are verified a flipped byte stops the copy; no half copy is left."""
        store.write(path, DATA)
        with open(path, "r+b") as file:
            file.write(b"\xff")
        target = store.scratch("copy")
        if store.name == "crc":
            with pytest.raises(hflush.ChecksumError):
                store.fs.copy_to_local_file(path, target, delete_source=True)
            assert not os.path.exists(target)
            assert os.path.exists(path)
        else:
            store.fs.copy_to_local_file(path, target)
            assert os.path.getsize(target) == len(DATA)


class TestVerification:
    """Switching verification."""

    @pytest.mark.rule("EXTRA-12", refused="raw")
    @pytest.mark.rule("FAIL-9")
    @pytest.mark.stores("raw")
    def test_refused_without_checksums(self, store: Store, path: str):
        """Raw files have nothing to verify: a no-op, as in Hadoop. To write sums is refused."""
        store.write(path, DATA)
        for verify in (True, False):
            store.fs.set_verify_checksum(verify)
            assert store.read(path) == DATA
        with pytest.raises(TypeError):
            store.fs.set_verify_checksum("no")  # type: ignore[arg-type]
        with pytest.raises(io.UnsupportedOperation):
            store.fs.set_write_checksum(True)
        with pytest.raises(io.UnsupportedOperation):
            store.fs.list_corrupt_file_blocks(path)

    @pytest.mark.rule("EXTRA-12")
    @pytest.mark.stores("crc")
    def test_a_setting_of_the_instance(self, store: Store, path: str):
        """testSetVerifyChecksum: it holds for this instance's later opens; corrupt blocks: no."""
        store.write(path, DATA)
        with open(path, "r+b") as file:
            file.write(b"\xff")
        with pytest.raises(hflush.ChecksumError):
            store.read(path)
        store.fs.set_verify_checksum(False)
        assert store.read(path)[1:] == DATA[1:]
        assert store.second_client().run("fs.exists(path)", path=path)
        with pytest.raises(hflush.ChecksumError):
            store.second_client().run("read(path)", path=path)
        with pytest.raises(io.UnsupportedOperation):
            store.fs.list_corrupt_file_blocks(path)


@pytest.mark.rule("EXTRA-13")
def test_qualifying_is_the_client_s_business(store: Store):
    """make_qualified resolves . and .. against the working directory; nothing need exist."""
    store.fs.set_working_directory(store.path("missing", "dir"))
    qualified = store.fs.make_qualified("../x/./y")
    assert qualified.endswith(store.path("missing", "x", "y"))
    assert qualified.startswith(f"{store.fs.scheme}:")
    assert store.fs.make_qualified(qualified) == qualified
    assert store.on_disk() == []
