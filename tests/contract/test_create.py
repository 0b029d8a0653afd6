"""CREATE: creating files."""

from __future__ import annotations

import errno
import inspect
import io
from collections.abc import Callable

import hflush
import pytest
from hflush import CreateFlag
from support.data import dataset
from support.listing import names
from support.stores import FILES, Store

Create = Callable[..., hflush.FSDataOutputStream]

OLD = dataset(256, ord("a"), ord("z"))
NEW = dataset(10 * 1024, ord("A"), ord("Z"))


def by_create(fs: hflush.FileSystem, path: str, *, overwrite: bool) -> hflush.FSDataOutputStream:
    return fs.create(path, overwrite=overwrite)


def by_builder(fs: hflush.FileSystem, path: str, *, overwrite: bool) -> hflush.FSDataOutputStream:
    return fs.create_file(path).create().overwrite(overwrite).recursive().build()


def by_flags(fs: hflush.FileSystem, path: str, *, overwrite: bool) -> hflush.FSDataOutputStream:
    flags = {CreateFlag.CREATE, CreateFlag.OVERWRITE} if overwrite else {CreateFlag.CREATE}
    return fs.create(path, flags=flags, create_parent=True)


@pytest.fixture(params=[by_create, by_builder, by_flags])
def create(request: pytest.FixtureRequest) -> Create:
    """Every API that creates a file."""
    return request.param


@pytest.fixture(params=[False, True], ids=["no-overwrite", "overwrite"])
def overwrite(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.mark.rule("CREATE-1", "CREATE-18")
@pytest.mark.stores(*FILES)
def test_a_created_file_is_visible_at_once_and_empty(store: Store, path: str, create: Create):
    """When create returns, every client sees a zero-length file, in listings too."""
    with create(store.fs, path, overwrite=False):
        seen = store.second_client().run(
            "(fs.exists(path), fs.get_file_status(path).length, len(fs.list_status(root)))",
            path=path,
            root=store.root,
        )
        assert seen == (True, 0, 1)
        assert names(store.fs, store.root) == ["file"]


@pytest.mark.rule("CREATE-18")
@pytest.mark.stores(*FILES)
def test_an_open_file_is_listed_while_it_is_written(store: Store, path: str):
    """A file open for writing is in the namespace and in every listing."""
    with store.fs.create(path) as out:
        out.write(OLD)
        assert names(store.fs, store.root) == ["file"]
        assert [status.is_file for status in store.fs.list_files(store.root)] == [True]


@pytest.mark.rule("CREATE-2", on=FILES)
def test_creating_over_a_file_without_overwrite_is_refused(store: Store, path: str, create: Create):
    """overwrite=False on an existing file is FileExistsError, and the old content is intact."""
    store.write(path, OLD)
    with pytest.raises(FileExistsError) as refusal:
        create(store.fs, path, overwrite=False)
    assert refusal.value.filename == store.filename(path)
    assert store.read(path) == OLD
    assert store.fs.get_file_status(path).length == len(OLD)


@pytest.mark.rule("CREATE-3")
@pytest.mark.stores(*FILES)
def test_creating_with_overwrite_replaces_the_content(store: Store, path: str, create: Create):
    """overwrite=True makes the old data unavailable at once; after close only the new is there."""
    store.write(path, NEW)
    with create(store.fs, path, overwrite=True) as out:
        assert store.fs.get_file_status(path).length == 0
        assert store.second_client().run("fs.get_file_status(path).length", path=path) == 0
        out.write(OLD)
    assert store.read(path) == OLD
    assert store.fs.get_file_status(path).length == len(OLD)


@pytest.mark.rule("CREATE-4")
@pytest.mark.parametrize("children", [[], ["child"]], ids=["empty", "non-empty"])
def test_creating_over_a_directory_is_refused(
    store: Store, path: str, create: Create, overwrite: bool, children: list[str]
):
    """create over a directory is PathIsDirectoryError; the directory and its children stay."""
    store.fs.mkdirs(path)
    for child in children:
        store.write(f"{path}/{child}", OLD)
    with pytest.raises(hflush.PathIsDirectoryError) as refusal:
        create(store.fs, path, overwrite=overwrite)
    assert isinstance(refusal.value, IsADirectoryError)
    assert isinstance(refusal.value, FileExistsError)
    assert store.fs.is_directory(path)
    assert names(store.fs, path) == children
    assert all(store.read(f"{path}/{child}") == OLD for child in children)


@pytest.mark.rule("CREATE-5", "STATUS-5")
def test_create_makes_missing_parents(store: Store, create: Create):
    """create() of a/b/c makes a and a/b, each with one entry."""
    path = store.path("a", "b", "c")
    with create(store.fs, path, overwrite=False) as out:
        out.write(OLD)
    assert names(store.fs, store.root) == ["a"]
    assert names(store.fs, store.path("a")) == ["b"]
    assert names(store.fs, store.path("a", "b")) == ["c"]
    assert store.fs.is_directory(store.path("a", "b"))
    assert store.read(path) == OLD


def non_recursive_creators() -> list[Create]:
    return [
        lambda fs, path, overwrite: fs.create(path, overwrite=overwrite, recursive=False),
        lambda fs, path, overwrite: fs.create_file(path).overwrite(overwrite).build(),
        lambda fs, path, overwrite: fs.create(
            path,
            flags={CreateFlag.CREATE, *({CreateFlag.OVERWRITE} if overwrite else ())},
            create_parent=False,
        ),
    ]


@pytest.mark.rule("CREATE-6")
@pytest.mark.parametrize("create", non_recursive_creators(), ids=["create", "builder", "flags"])
class TestNonRecursiveCreate:
    """TestFileCreation.testFileCreationNonRecursive and FileContextCreateMkdirBaseTest."""

    def test_existing_parent(self, store: Store, create: Create, overwrite: bool):
        """With its parent there, a non-recursive create works."""
        store.fs.mkdirs(store.path("dir"))
        create(store.fs, store.path("dir", "f"), overwrite).close()
        assert store.read(store.path("dir", "f")) == b""

    def test_missing_parent(self, store: Store, create: Create, overwrite: bool):
        """A missing parent is FileNotFoundError and is not created."""
        with pytest.raises(FileNotFoundError):
            create(store.fs, store.path("missing", "f"), overwrite)
        assert store.on_disk() == []

    def test_missing_grandparent(self, store: Store, create: Create, overwrite: bool):
        """Two missing levels are FileNotFoundError, and none is created."""
        with pytest.raises(FileNotFoundError):
            create(store.fs, store.path("missing", "too", "f"), overwrite)
        assert store.on_disk() == []

    def test_file_as_parent(self, store: Store, path: str, create: Create, overwrite: bool):
        """A parent that is a file is ParentNotDirectoryError; it stays a file."""
        store.write(path, OLD)
        with pytest.raises(hflush.ParentNotDirectoryError):
            create(store.fs, f"{path}/f", overwrite)
        assert store.read(path) == OLD


@pytest.mark.rule("CREATE-7")
@pytest.mark.parametrize("below", ["x", "x/y", "x/y/z"])
def test_no_file_is_created_below_a_file(
    store: Store, path: str, create: Create, overwrite: bool, below: str
):
    """An ancestor that is a file is ParentNotDirectoryError at any depth; nothing is created."""
    store.write(path, OLD)
    before = store.on_disk()
    with pytest.raises(hflush.ParentNotDirectoryError) as refusal:
        create(store.fs, f"{path}/{below}", overwrite=overwrite)
    assert isinstance(refusal.value, FileExistsError)
    assert isinstance(refusal.value, NotADirectoryError)
    assert store.read(path) == OLD
    assert store.on_disk() == before


@pytest.mark.rule("CREATE-8", "ROOT-2")
def test_no_file_is_created_at_the_root(store: Store, create: Create, overwrite: bool):
    """create("/") is PathIsDirectoryError, and / stays a directory."""
    with pytest.raises(hflush.PathIsDirectoryError):
        create(store.fs, "/", overwrite=overwrite)
    assert store.fs.is_directory("/")


@pytest.mark.rule("CREATE-9")
def test_a_name_the_store_cannot_take_is_an_oserror(store: Store, create: Create):
    """A name of more bytes than there can be is ENAMETOOLONG with the path; nothing is left."""
    path = store.path("n" * (store.longest_name + 1))
    with pytest.raises(OSError, match="name") as refusal:
        create(store.fs, path, overwrite=True)
    assert refusal.value.errno == errno.ENAMETOOLONG
    assert refusal.value.filename == store.filename(path)
    assert store.on_disk() == []


@pytest.mark.rule("CREATE-9")
@pytest.mark.parametrize(
    "options",
    [
        {"block_size": 0},
        {"block_size": -1},
        {"replication": 0},
        {"replication": -1},
        {"replication": 0x10003},
        {"bytes_per_checksum": 1 << 32},
        {"buffer_size": -1},
        {"permission": 0o200000},
        {"permission": -1},
    ],
    ids=str,
)
def test_arguments_out_of_range_are_refused(store: Store, path: str, options: dict[str, int]):
    """A block size, replication, buffer size or mode out of range is refused; nothing is left."""
    with pytest.raises((ValueError, OSError)):
        store.fs.create(path, **options)
    assert store.on_disk() == []


@pytest.mark.rule("CREATE-10")
def test_every_api_returns_the_same_type_of_stream(store: Store, path: str, create: Create):
    """create and build return the one stream type, with every operation of the contract."""
    with create(store.fs, path, overwrite=True) as out:
        assert isinstance(out, hflush.FSDataOutputStream)
        assert isinstance(out, hflush.Syncable)
        assert isinstance(out, hflush.StreamCapabilities)
        assert isinstance(out, hflush.CanSetDropBehind)
        operations = "write flush hflush hsync close tell has_capability set_drop_behind abort"
        for operation in (*operations.split(), "io_statistics"):
            assert callable(getattr(out, operation))


@pytest.mark.rule("CREATE-10", "APPEND-1")
@pytest.mark.stores("raw", "hdfs")
def test_append_returns_the_stream_type_of_create(store: Store, path: str):
    """append and the append builder return what create returns."""
    store.write(path, OLD)
    for append in (store.fs.append, lambda path: store.fs.append_file(path).build()):
        with append(path) as appended:
            assert type(appended) is hflush.FSDataOutputStream


@pytest.mark.rule("CREATE-13")
class TestCreateFlags:
    """The create-flag tests of Hadoop's FileContext."""

    def test_no_flags(self, store: Store, path: str):
        """No flag at all is ValueError."""
        with pytest.raises(ValueError, match="flag"):
            store.fs.create(path, flags=set())
        assert not store.fs.exists(path)

    def test_create_on_an_existing_file(self, store: Store, path: str):
        """CREATE on an existing file is FileExistsError; the content stays."""
        store.write(path, OLD)
        with pytest.raises(FileExistsError):
            store.fs.create(path, flags={CreateFlag.CREATE})
        assert store.read(path) == OLD

    def test_overwrite_on_a_missing_file(self, store: Store, path: str):
        """OVERWRITE alone on a missing file is FileNotFoundError and creates nothing."""
        with pytest.raises(FileNotFoundError):
            store.fs.create(path, flags={CreateFlag.OVERWRITE})
        assert store.on_disk() == []

    def test_overwrite_on_an_existing_file(self, store: Store, path: str):
        """OVERWRITE alone replaces an existing file."""
        store.write(path, OLD)
        with store.fs.create(path, flags={CreateFlag.OVERWRITE}) as out:
            out.write(NEW)
        assert store.read(path) == NEW

    @pytest.mark.parametrize("old", [None, OLD], ids=["missing", "existing"])
    def test_create_and_overwrite(self, store: Store, path: str, old: bytes | None):
        """CREATE with OVERWRITE works whether the file is there or not."""
        if old is not None:
            store.write(path, old)
        with store.fs.create(path, flags={CreateFlag.CREATE, CreateFlag.OVERWRITE}) as out:
            out.write(NEW)
        assert store.read(path) == NEW

    def test_append_on_a_missing_file(self, store: Store, path: str):
        """APPEND alone on a missing file is FileNotFoundError and creates nothing."""
        with pytest.raises(FileNotFoundError):
            store.fs.create(path, flags={CreateFlag.APPEND})
        assert store.on_disk() == []

    @pytest.mark.stores("raw", "hdfs")
    @pytest.mark.parametrize("flags", [{"APPEND"}, {"CREATE", "APPEND"}], ids="+".join)
    def test_append_on_an_existing_file(self, store: Store, path: str, flags: set[str]):
        """APPEND, with or without CREATE, adds to an existing file."""
        store.write(path, OLD)
        with store.fs.create(path, flags={CreateFlag[flag] for flag in flags}) as out:
            out.write(NEW)
        assert store.read(path) == OLD + NEW

    def test_create_and_append_on_a_missing_file(self, store: Store, path: str):
        """CREATE with APPEND creates a missing file, also where nothing can be appended to one."""
        with store.fs.create(path, flags={CreateFlag.CREATE, CreateFlag.APPEND}) as out:
            out.write(NEW)
        assert store.read(path) == NEW

    @pytest.mark.stores("crc", "s3")
    @pytest.mark.parametrize("flags", [{"APPEND"}, {"CREATE", "APPEND"}], ids="+".join)
    def test_append_on_an_existing_file_is_refused(self, store: Store, path: str, flags: set[str]):
        """On stores without append: UnsupportedOperation, and the file is unchanged."""
        store.write(path, OLD)
        with pytest.raises(io.UnsupportedOperation, match="append"):
            store.fs.create(path, flags={CreateFlag[flag] for flag in flags})
        assert store.read(path) == OLD

    @pytest.mark.parametrize("flags", [{"APPEND", "OVERWRITE"}, set(CreateFlag.__members__)])
    @pytest.mark.parametrize("old", [None, OLD], ids=["missing", "existing"])
    def test_append_and_overwrite(
        self, store: Store, path: str, flags: set[str], old: bytes | None
    ):
        """APPEND with OVERWRITE, with or without CREATE, is ValueError and changes nothing."""
        if old is not None:
            store.write(path, old)
        chosen = {CreateFlag[flag] for flag in flags & {"CREATE", "APPEND", "OVERWRITE"}}
        with pytest.raises(ValueError, match=r"(?i)append"):
            store.fs.create(path, flags=chosen)
        assert store.fs.exists(path) == (old is not None)
        assert old is None or store.read(path) == old


@pytest.mark.rule("CREATE-14", "STATUS-2")
def test_block_sizes(store: Store, path: str):
    """The block size is > 0 for data, ≥ 0 for an empty file; the default is > 0 everywhere."""
    store.write(path, OLD)
    store.write(store.path("empty"))
    assert store.fs.get_file_status(path).block_size > 0
    assert store.fs.get_file_status(store.path("empty")).block_size >= 0
    for anywhere in (path, store.path("empty"), store.path("nosuch")):
        assert store.fs.get_default_block_size(anywhere) >= 1 << 20


@pytest.mark.rule("CREATE-15")
@pytest.mark.parametrize(
    ("requested", "applied"), [(None, 0o604), (0o777, 0o715), (0o600, 0o600), (0o666, 0o604)]
)
@pytest.mark.stores(*FILES)
def test_permissions_of_a_new_file(
    store: Store, path: str, umask: None, requested: int | None, applied: int
):
    """The requested mode, by default 0o666, is applied with the umask."""
    store.fs.create(path, permission=requested).close()
    assert store.fs.get_file_status(path).permission == applied
    assert store.mode(path) == applied


@pytest.mark.stores(*FILES)
def test_permissions_of_a_file_that_is_overwritten(store: Store, path: str):
    """What was asked for is that of the new content; else the file keeps its own."""
    store.fs.create(path, permission=0o640).close()
    store.fs.create(path, permission=0o600).close()
    assert store.fs.get_file_status(path).permission == 0o600


@pytest.mark.rule("CREATE-15", "BUILDER-11")
@pytest.mark.stores(*FILES)
def test_permission_through_the_builder(store: Store, path: str, umask: None):
    """The builder's permission is applied with the umask, too."""
    store.fs.create_file(path).permission(0o777).build().close()
    assert store.fs.get_file_status(path).permission == 0o715


@pytest.mark.rule("CREATE-16")
@pytest.mark.stores(*FILES)
def test_creating_without_permission(store: Store):
    """A directory the user may not write is PermissionError; nothing is created."""
    with store.public_directory() as directory:
        store.chmod(directory, 0o555)
        user = store.unprivileged()
        for create in ("fs.create(path)", "fs.create_file(path).build()"):
            with pytest.raises(PermissionError):
                user.run(create, path=f"{directory}/file")
        assert store.on_disk(directory) == []


@pytest.mark.rule("CREATE-16")
@pytest.mark.stores(*FILES)
def test_overwriting_without_permission(store: Store):
    """A file the user may not write is PermissionError; its content is intact."""
    with store.public_directory() as directory:
        store.chmod(directory, 0o777)
        path = store.write(f"{directory}/file", OLD)
        store.chmod(path, 0o444)
        with pytest.raises(PermissionError):
            store.unprivileged().run("fs.create(path, overwrite=True)", path=path)
        assert store.read(path) == OLD


@pytest.mark.rule("CREATE-17", "CONSIST-4", "CONSIST-2")
def test_delete_then_create_shows_only_the_new_file(store: Store, path: str):
    """After delete and create the new file and only its content is there, fifty times."""
    for turn in range(50):
        data = dataset(1 + 37 * (50 - turn), turn, turn + 100)
        store.write(path, data)
        assert store.read(path) == data
        assert store.fs.get_file_status(path).length == len(data)
        assert store.fs.delete(path)


@pytest.mark.rule("CREATE-20", "PATH-2")
@pytest.mark.parametrize("form", ["{root}//a///b", "{root}/a/b/", "/{root}/./a//b//"])
def test_non_canonical_paths_are_normalised(store: Store, create: Create, form: str):
    """Double and trailing slashes do not reach the store."""
    with create(store.fs, form.format(root=store.root), overwrite=False) as out:
        out.write(OLD)
        assert out.name == store.public(store.path("a", "b"))
    assert store.read(store.path("a", "b")) == OLD
    assert names(store.fs, store.root) == ["a"]


@pytest.mark.rule("CREATE-22")
@pytest.mark.stores(*FILES)
def test_the_existence_check_happens_in_create(store: Store, path: str):
    """The option create-check-at says create, and a second creator is refused right there."""
    assert store.options["create-check-at"] == "create"
    with store.fs.create(path, overwrite=False), pytest.raises(FileExistsError):
        store.second_client().run("fs.create(path, overwrite=False)", path=path)
    assert "create-check-at" in (inspect.getdoc(hflush.FileSystem.create) or "")


@pytest.mark.rule("CREATE-2", on=FILES)
def test_overwrite_false_contradicts_the_flag(store: Store, path: str) -> None:
    """overwrite=False never replaces a file, whatever the flags say."""
    store.write(path, b"old")
    with pytest.raises(ValueError, match=r"overwrite=False contradicts CreateFlag\.OVERWRITE"):
        store.fs.create(path, overwrite=False, flags={CreateFlag.CREATE, CreateFlag.OVERWRITE})
    assert store.read(path) == b"old"
    with pytest.raises(FileExistsError):
        store.fs.create(path, overwrite=False, flags=CreateFlag.CREATE)
