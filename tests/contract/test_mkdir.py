"""MKDIR: making directories. The race of several processes is in test_atomicity."""

from __future__ import annotations

import hflush
import pytest
from support.data import dataset
from support.listing import names
from support.stores import FILES, Store

DATA = dataset(1000)


@pytest.mark.rule("MKDIR-1")
@pytest.mark.parametrize("elements", [["a"], ["a", "b"], ["a", "b", "c", "d"]], ids=len)
def test_a_directory_and_all_missing_parents(store: Store, elements: list[str]):
    """testMkdirs: True, and every level is a directory."""
    assert store.fs.mkdirs(store.path(*elements)) is True
    for depth in range(1, len(elements) + 1):
        assert store.fs.is_directory(store.path(*elements[:depth]))
    assert len(store.on_disk()) == len(elements)


@pytest.mark.rule("MKDIR-1")
@pytest.mark.parametrize("recursive", [False, True])
def test_made_and_removed(store: Store, path: str, recursive: bool):
    """testMkDirRmDir, testMkDirRmRfDir: gone after the delete."""
    assert store.fs.mkdirs(path) is True
    assert store.fs.delete(path, recursive) is True
    assert not store.fs.exists(path)


@pytest.mark.rule("MKDIR-2")
def test_an_existing_directory(store: Store, path: str):
    """True again, and nothing about it changes."""
    store.fs.mkdirs(path, permission=0o700)
    store.write(f"{path}/child", DATA)
    before = store.fs.get_file_status(path)
    assert store.fs.mkdirs(path, permission=0o777) is True
    assert store.fs.mkdirs(path) is True
    assert store.fs.get_file_status(path) == before
    assert store.read(f"{path}/child") == DATA


@pytest.mark.rule("MKDIR-3")
def test_over_a_file(store: Store, path: str):
    """testNoMkdirOverFile: FileExistsError; the file's content is intact."""
    store.write(path, DATA)
    with pytest.raises(FileExistsError):
        store.fs.mkdirs(path)
    assert store.read(path) == DATA


@pytest.mark.rule("MKDIR-4", on=FILES)
@pytest.mark.parametrize("create_parent", [True, False], ids=["parents", "single"])
@pytest.mark.parametrize("below", ["child", "child/deeper", "a/b/c"])
def test_below_a_file(store: Store, path: str, below: str, create_parent: bool):
    """testMkdirOverParentFile, testMkdirUnderFileSubdir: ParentNotDirectoryError."""
    if store.name == "s3" and not create_parent and "/" in below:
        pytest.skip("only the parent itself is looked at: test_far_below_an_object")
    refused_below(store, path, below, hflush.ParentNotDirectoryError, create_parent)


@pytest.mark.rule("MKDIR-4", divergence="s3")
@pytest.mark.stores("s3")
def test_far_below_an_object(store: Store, path: str):
    """Where directories are names, the error names the missing parent, not the file above it."""
    refused_below(store, path, "child/deeper", FileNotFoundError, create_parent=False)


def refused_below(
    store: Store, path: str, below: str, expected: type[OSError], create_parent: bool
) -> None:
    store.write(path, DATA)
    before = store.on_disk()
    with pytest.raises(expected) as refusal:
        store.fs.mkdirs(f"{path}/{below}", create_parent=create_parent)
    assert type(refusal.value) is expected
    assert store.read(path) == DATA
    assert not store.fs.exists(f"{path}/{below}")
    assert store.on_disk() == before


@pytest.mark.rule("MKDIR-5", "PATH-2")
@pytest.mark.parametrize("form", ["{path}/", "{path}//", "//{path}", "{path}/.", "{path}//./"])
def test_slashes_make_no_difference(store: Store, path: str, form: str):
    """testMkdirSlashHandling: all forms are one directory."""
    assert store.fs.mkdirs(form.format(path=path)) is True
    assert store.fs.is_directory(path)
    assert store.fs.is_directory(form.format(path=path))
    assert names(store.fs, store.root) == ["file"]


@pytest.mark.rule("MKDIR-7", "CREATE-15")
@pytest.mark.parametrize(
    ("requested", "applied"), [(None, 0o715), (0o777, 0o715), (0o700, 0o700), (0o555, 0o515)]
)
@pytest.mark.stores(*FILES)
def test_permissions(store: Store, path: str, umask: None, requested: int | None, applied: int):
    """testMkdirsWithUmask: the requested mode, by default 0o777, is applied with the umask."""
    assert store.fs.mkdirs(path, requested) is True
    assert store.fs.get_file_status(path).permission == applied
    assert store.mode(path) == applied


@pytest.mark.rule("MKDIR-7", on=FILES)
def test_no_path(store: Store):
    """None is TypeError or ValueError."""
    with pytest.raises((TypeError, ValueError)):
        store.fs.mkdirs(None)


@pytest.mark.rule("MKDIR-8")
def test_a_new_directory(store: Store, path: str):
    """It is in its parent's listing, has length 0 and no content."""
    store.fs.mkdirs(path)
    status = store.fs.get_file_status(path)
    assert (status.length, status.is_directory, status.is_file) == (0, True, False)
    assert store.fs.list_status(store.root) == [status]
    assert store.fs.list_status(path) == []
    with pytest.raises(IsADirectoryError):
        store.fs.open(path)


@pytest.mark.rule("MKDIR-9", "MKDIR-1")
def test_the_non_recursive_form(store: Store):
    """testMkdirNonRecursive*: a missing parent is FileNotFoundError and is not created."""
    with pytest.raises(FileNotFoundError):
        store.fs.mkdirs(store.path("missing", "dir"), create_parent=False)
    assert store.on_disk() == []
    assert store.fs.mkdirs(store.path("dir"), create_parent=False) is True
    assert store.fs.mkdirs(store.path("dir", "sub"), create_parent=False) is True
    assert store.on_disk() == ["dir", "dir/sub"]
