"""STATUS: status and listing."""

from __future__ import annotations

import errno
import inspect
import itertools
import os
import socket
import threading
from collections.abc import Callable

import hflush
import pytest
from support.data import dataset
from support.listing import listed, names
from support.stores import FILES, Store
from support.waiting import Task

DATA = dataset(1000)

# Every way to list the children of a directory, as a list of statuses.
LISTINGS: dict[str, Callable[[hflush.FileSystem, str], list[hflush.FileStatus]]] = {
    "list_status": lambda fs, path: list(fs.list_status(path)),
    "list_status_iterator": lambda fs, path: list(fs.list_status_iterator(path)),
}

# Those that give files only.
FILE_LISTINGS: dict[str, Callable[[hflush.FileSystem, str], list[hflush.FileStatus]]] = {
    "list_files": lambda fs, path: list(fs.list_files(path)),
    "list_files recursive": lambda fs, path: list(fs.list_files(path, recursive=True)),
}


@pytest.fixture(params=LISTINGS)
def listing(request: pytest.FixtureRequest) -> Callable[..., list[hflush.FileStatus]]:
    return LISTINGS[request.param]


@pytest.fixture(params=LISTINGS | FILE_LISTINGS)
def any_listing(request: pytest.FixtureRequest) -> Callable[..., list[hflush.FileStatus]]:
    return (LISTINGS | FILE_LISTINGS)[request.param]


@pytest.fixture
def tree(store: Store) -> str:
    """Three levels of directories with files in each, and an empty one."""
    top = store.path("tree")
    for directory in ("", "one/", "one/two/", "three/"):
        for number in range(3):
            store.write(f"{top}/{directory}file-{number}", DATA[: 100 * number])
    store.fs.mkdirs(f"{top}/empty")
    return top


def walk(fs: hflush.FileSystem, directory: str) -> list[hflush.FileStatus]:
    """Every status below a directory, by listing level after level."""
    found = []
    for status in fs.list_status(directory):
        found.append(status)
        if status.is_directory:
            found += walk(fs, status.path)
    return found


@pytest.mark.rule("STATUS-1")
def test_a_missing_path(store: Store, path: str):
    """testGetFileStatusNonexistentFile: FileNotFoundError with the path."""
    for missing in (path, f"{path}/below"):
        with pytest.raises(FileNotFoundError) as refusal:
            store.fs.get_file_status(missing)
        assert refusal.value.filename == store.filename(missing)
        assert refusal.value.errno == errno.ENOENT


@pytest.mark.rule("STATUS-2", "STATUS-19")
@pytest.mark.parametrize("length", [0, 1, 1000])
def test_a_file(store: Store, path: str, length: int):
    """testZeroByteFilesAreFiles: its length is its bytes, and it is not a directory."""
    store.write(path, DATA[:length])
    status = store.fs.get_file_status(path)
    assert (status.path, status.length) == (store.public(path), length)
    assert (status.is_file, status.is_directory) == (True, False)
    assert status.block_size > 0
    assert status.modification_time > 0
    assert status.is_encrypted is not store.options["supports-unix-permissions"]
    assert store.fs.is_file(path)
    assert not store.fs.is_directory(path)
    assert store.fs.exists(path)


@pytest.mark.rule("STATUS-2", "STATUS-19")
def test_a_directory(store: Store):
    """Length 0, a directory and no file, with and without children."""
    store.write(store.path("dir", "child"), DATA)
    for path in (store.path("dir"), store.root, "/"):
        status = store.fs.get_file_status(path)
        assert (status.length, status.is_file, status.is_directory) == (0, False, True)
        assert store.fs.is_directory(path)
        assert not store.fs.is_file(path)
        assert store.fs.exists(path)


@pytest.mark.rule("STATUS-19")
def test_the_predicates_of_a_missing_path(store: Store, path: str):
    """exists, is_file and is_directory are False, also below a file, and raise nothing."""
    store.write(path, DATA)
    for missing in (store.path("missing"), f"{path}/below"):
        assert not store.fs.exists(missing)
        assert not store.fs.is_file(missing)
        assert not store.fs.is_directory(missing)


@pytest.mark.rule("STATUS-3", "STATUS-7", "STATUS-8")
def test_every_listing_agrees(store: Store, tree: str):
    """testComplexDirActions: lists, iterators, recursion and single statuses are the same."""
    walked = walk(store.fs, tree)
    assert len(walked) == 12 + 4
    for status in walked:
        assert store.fs.get_file_status(status.path) == status
    by_path = {status.path: status for status in walked}
    for status in store.fs.list_files(tree, recursive=True):
        assert by_path[status.path] == status
    for fetch in LISTINGS.values():
        assert listed(fetch(store.fs, tree)) == names(store.fs, tree)
    files = sorted(status.path for status in walked if status.is_file)
    assert sorted(s.path for s in store.fs.list_files(tree, recursive=True)) == files
    assert listed(store.fs.list_files(tree)) == ["file-0", "file-1", "file-2"]


class TestListStatus:
    """The list tests of AbstractContractGetFileStatusTest."""

    @pytest.mark.rule("STATUS-5", "STATUS-7")
    def test_an_empty_directory(self, store: Store, any_listing):
        """testList*EmptyDirectory: nothing."""
        assert any_listing(store.fs, store.root) == []

    @pytest.mark.rule("STATUS-5", "STATUS-7")
    def test_a_missing_directory(self, store: Store, path: str, any_listing):
        """testList*NoDir: FileNotFoundError."""
        with pytest.raises(FileNotFoundError):
            any_listing(store.fs, path)

    @pytest.mark.rule("STATUS-5", "STATUS-7")
    def test_a_file(self, store: Store, path: str, any_listing):
        """testList*File: the file itself."""
        store.write(path, DATA)
        assert any_listing(store.fs, path) == [store.fs.get_file_status(path)]

    @pytest.mark.rule("STATUS-5")
    def test_direct_children_only(self, store: Store, tree: str, listing):
        """Children without grandchildren, and without the directory itself."""
        statuses = listing(store.fs, tree)
        assert listed(statuses) == ["empty", "file-0", "file-1", "file-2", "one", "three"]
        assert {os.path.dirname(status.path) for status in statuses} == {store.public(tree)}

    @pytest.mark.rule("STATUS-7")
    def test_files_only(self, store: Store, tree: str):
        """Recursive or not, list_files gives no directory."""
        assert all(status.is_file for status in store.fs.list_files(tree))
        recursive = list(store.fs.list_files(tree, recursive=True))
        assert len(recursive) == 12
        assert all(status.is_file for status in recursive)


class TestFilters:
    """testListStatusFiltering, testListStatusFilteredFile, testListStatusFilteredNoDir."""

    @pytest.mark.rule("STATUS-6")
    def test_on_children(self, store: Store, tree: str):
        """All, none, and by name."""

        def of(accept: Callable[[str], bool]) -> list[str]:
            return listed(store.fs.list_status(tree, filter=accept))

        assert of(lambda path: True) == names(store.fs, tree)
        assert of(lambda path: False) == []
        assert of(lambda path: path.endswith("-1")) == ["file-1"]

    @pytest.mark.rule("STATUS-6")
    def test_on_a_single_file(self, store: Store, path: str):
        """A filter that rejects the one file gives nothing."""
        store.write(path, DATA)
        assert listed(store.fs.list_status(path, filter=lambda path: True)) == ["file"]
        assert store.fs.list_status(path, filter=lambda path: False) == []

    @pytest.mark.rule("STATUS-6", "STATUS-5")
    def test_on_a_missing_directory(self, store: Store, path: str):
        """FileNotFoundError, whatever the filter says."""
        with pytest.raises(FileNotFoundError):
            store.fs.list_status(path, filter=lambda path: False)


@pytest.mark.rule("STATUS-8")
@pytest.mark.parametrize(
    ("method", "options", "count"),
    [("list_status_iterator", {}, 6), ("list_files", {"recursive": True}, 12)],
    ids=["list_status_iterator", "list_files"],
)
def test_iterators_work_with_next_alone(
    store: Store, tree: str, method: str, options: dict[str, bool], count: int
):
    """toListThroughNextCallsAlone: next until StopIteration, and StopIteration ever after."""
    iterator = getattr(store.fs, method)(tree, **options)
    found = [next(iterator) for _ in range(count)]
    assert len({status.path for status in found}) == count
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)


@pytest.mark.rule("STATUS-9")
def test_listings_follow_changes_at_once(store: Store, path: str, listing):
    """Right after create and delete the path and its parent list accordingly, twenty times."""
    for _ in range(20):
        store.write(path, DATA)
        assert listed(listing(store.fs, path)) == ["file"]
        assert listed(listing(store.fs, store.root)) == ["file"]
        store.fs.delete(path)
        with pytest.raises(FileNotFoundError):
            listing(store.fs, path)
        assert listing(store.fs, store.root) == []


@pytest.mark.rule("STATUS-10", "LOCAL-8")
def test_all_data_files_are_listed_and_no_sidecar(store: Store, any_listing):
    """Names that only look like sidecars are shown; the sidecars are not."""
    shown = [".hidden", "a", "crc", "x.crc"]
    for name in shown:
        store.write(store.path(name), DATA)
    assert listed(any_listing(store.fs, store.root)) == shown
    hidden = ["..hidden.crc", ".a.crc", ".crc.crc", ".x.crc.crc"] if store.name == "crc" else []
    assert store.on_disk() == sorted(shown + hidden)


@pytest.mark.rule("STATUS-10")
@pytest.mark.stores("raw")
def test_sidecars_are_files_like_others_without_checksums(store: Store):
    """On raw files a name such as .x.crc has no meaning."""
    store.write(store.path(".x.crc"), DATA)
    assert names(store.fs, store.root) == [".x.crc"]


@pytest.mark.rule("STATUS-11", "CREATE-9")
@pytest.mark.stores("crc")
def test_names_of_sidecars_are_reserved(store: Store):
    """.x.crc cannot be created where sidecars are: refused, and nothing is left."""
    with pytest.raises((hflush.InvalidPathError, PermissionError)):
        store.fs.create(store.path(".x.crc"))
    assert store.on_disk() == []


@pytest.mark.rule("STATUS-12")
@pytest.mark.stores(*FILES)
def test_listing_under_concurrent_change(store: Store):
    """Many entries, some renamed while they are listed: no crash, no loop, the others once."""
    entries = 5000 if store.local else 2500  # a NameNode tells a thousand at a time
    for number in range(entries):
        store.touch(store.path(f"{number}"))
    stop = threading.Event()

    def rename_some() -> int:
        turns = 0
        while not stop.is_set():
            for number in range(0, entries, 50):
                there, other = store.path(f"{number}"), store.path(f"{number}-renamed")
                store.move(*((there, other) if turns % 2 == 0 else (other, there)))
            turns += 1
        return turns

    renamer = Task(rename_some)
    try:
        for fetch in LISTINGS.values():
            found = listed(itertools.islice(fetch(store.fs, store.root), 20_000))
            assert len(found) < 20_000
            still = [name for name in found if not name.endswith("-renamed")]
            untouched = [name for name in still if int(name) % 50 != 0]
            assert len(untouched) == len(set(untouched)) == entries - entries // 50
    finally:
        stop.set()
        assert renamer.result() > 0


@pytest.mark.rule("STATUS-14", "CONSIST-9")
@pytest.mark.stores("raw", "hdfs")
def test_the_length_never_exceeds_the_readable_bytes(store: Store, path: str):
    """While a file is written its length is at most what a new reader gets."""
    with store.fs.create(path) as out:
        for turn in range(100):
            out.write(dataset(977))
            if turn % 3 == 0:
                out.hflush()
            length = store.fs.get_file_status(path).length
            assert length <= len(store.read(path)) <= out.tell()
    assert store.fs.get_file_status(path).length == 97_700


@pytest.mark.rule("STATUS-14", "CONSIST-9")
@pytest.mark.stores("crc")
def test_the_length_never_exceeds_the_written_bytes(store: Store, path: str):
    """While a file is written its length is at most the bytes of its data file; exact at close."""
    with store.fs.create(path) as out:
        for _ in range(100):
            out.write(dataset(977))
            out.flush()
            length = store.fs.get_file_status(path).length
            assert length <= store.size(path) <= out.tell()
    assert store.fs.get_file_status(path).length == len(store.read(path)) == 97_700


@pytest.mark.rule("STATUS-15")
@pytest.mark.stores(*FILES)
def test_an_unreadable_directory(store: Store):
    """testListStatusThrowsExceptionForUnreadableDir: PermissionError, never None or empty."""
    with store.public_directory() as directory:
        store.write(f"{directory}/closed/child", DATA)
        user = store.unprivileged()
        store.chmod(f"{directory}/closed", 0o000)
        for call in (
            "fs.list_status(path)",
            "list(fs.list_status_iterator(path))",
            "list(fs.list_files(path))",
            "list(fs.list_files(parent, recursive=True))",
            "fs.get_file_status(path + '/child')",
            "fs.exists(path + '/child')",
        ):
            with pytest.raises(PermissionError):
                user.run(call, path=f"{directory}/closed", parent=directory)


class TestContentSummary:
    """AbstractContractContentSummaryTest."""

    @pytest.mark.rule("STATUS-16")
    def test_of_a_tree(self, store: Store, tree: str):
        """testGetContentSummary: files, directories with the top one, and bytes."""
        summary = store.fs.get_content_summary(tree)
        assert (summary.file_count, summary.directory_count) == (12, 5)
        assert summary.length == 4 * (0 + 100 + 200)

    @pytest.mark.rule("STATUS-16")
    def test_of_a_file(self, store: Store, path: str):
        """One file, no directory."""
        store.write(path, DATA)
        summary = store.fs.get_content_summary(path)
        assert (summary.file_count, summary.directory_count, summary.length) == (1, 0, 1000)

    @pytest.mark.rule("STATUS-16")
    def test_of_a_missing_path(self, store: Store, path: str):
        """testGetContentSummaryIncorrectPath: FileNotFoundError."""
        with pytest.raises(FileNotFoundError):
            store.fs.get_content_summary(path)


@pytest.mark.rule("STATUS-18")
@pytest.mark.stores("raw", "crc")
def test_block_locations(store: Store, path: str):
    """One local host; nothing beyond EOF or for directories; negative is ValueError."""
    assert store.options["supports-block-locality"] is False
    store.write(path, DATA)
    locations = store.fs.get_file_block_locations(path, 0, len(DATA))
    assert [len(location.hosts) for location in locations] == [1]
    assert locations[0].offset == 0
    assert locations[0].length == len(DATA)
    assert store.fs.get_file_block_locations(path, len(DATA), 10) == []
    assert store.fs.get_file_block_locations(path, 5000, 10) == []
    assert store.fs.get_file_block_locations(store.root, 0, 10) == []
    for start, length in ((-1, 10), (0, -1)):
        with pytest.raises(ValueError, match="negative"):
            store.fs.get_file_block_locations(path, start, length)
    with pytest.raises(FileNotFoundError):
        store.fs.get_file_block_locations(store.path("missing"), 0, 1)


@pytest.mark.rule("STATUS-20")
def test_the_enclosing_root(store: Store, path: str):
    """AbstractContractGetEnclosingRoot: / or a volume's root; idempotent; nothing need exist."""
    root = store.fs.get_enclosing_root(path)
    assert store.fs.get_enclosing_root(f"{path}/missing/deeper") == root
    assert store.fs.get_enclosing_root(store.root) == root
    assert store.fs.get_enclosing_root(root) == root
    assert store.fs.get_enclosing_root("/") == "/"
    assert path.startswith(root)
    assert not store.fs.exists(path)


@pytest.mark.rule("STATUS-20", "EXTRA-13")
def test_the_home_directory(store: Store):
    """testHomeDirectory: an absolute, qualified path; it need not exist."""
    assert hflush.FileSystem.new_instance(store.url()).home_directory == store.fs.home_directory
    home = store.fs.home_directory
    assert home.startswith("/")
    assert store.fs.exists(home) in (True, False)


class TestSpecialFiles:
    """testFileStatusPipeFile: pipes, sockets and links."""

    @pytest.mark.rule("STATUS-21")
    @pytest.mark.stores("raw", "crc")
    def test_a_pipe(self, store: Store, path: str):
        """A status and a listing return at once and say it is neither file nor directory."""
        os.mkfifo(path)
        status = store.fs.get_file_status(path)
        assert (status.is_file, status.is_directory, status.length) == (False, False, 0)
        assert store.fs.list_status(store.root) == [status]
        assert store.fs.exists(path)
        assert not store.fs.is_file(path)

    @pytest.mark.rule("STATUS-21")
    @pytest.mark.stores("raw", "crc")
    def test_a_socket(self, store: Store, path: str, monkeypatch: pytest.MonkeyPatch):
        """A socket has a status of its own, too."""
        monkeypatch.chdir(store.root)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("file")
            status = store.fs.get_file_status(path)
        assert (status.is_file, status.is_directory) == (False, False)
        assert names(store.fs, store.root) == ["file"]

    @pytest.mark.rule("STATUS-21", "READ-1")
    @pytest.mark.stores("raw", "crc")
    def test_a_pipe_is_not_opened(self, store: Store, path: str):
        """Opening a pipe for reading is refused at once instead of waiting for a writer."""
        os.mkfifo(path)
        with pytest.raises(OSError, match="open"):
            store.fs.open(path)


@pytest.mark.rule("STATUS-5")
def test_no_order_is_promised(store: Store):
    """The docstring of the listing does not promise an order."""
    assert "order" in (inspect.getdoc(hflush.FileSystem.list_status) or "")
