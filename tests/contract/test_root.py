"""ROOT: the root directory."""

from __future__ import annotations

import os

import hflush
import pytest
from support.listing import listed, names
from support.stores import Store


@pytest.mark.rule("ROOT-1")
def test_the_root_always_exists(store: Store):
    """testRootDirAlwaysExists: a directory, and mkdirs of it is True; / and // are the same."""
    for root in ("/", "//", "/./"):
        assert store.fs.exists(root)
        assert store.fs.get_file_status(root).is_directory
        assert store.fs.mkdirs(root) is True
    assert store.fs.get_file_status("/").path == store.public("/")


@pytest.mark.rule("ROOT-1", "MKDIR-1")
def test_a_directory_directly_below(store: Store):
    """testMkDirDepth1, where this user may: made, listed, removed."""
    name = f"hflush-{os.getpid()}-{store.name}"
    if store.local and not os.access("/", os.W_OK):
        with pytest.raises(PermissionError):
            store.fs.mkdirs(f"/{name}")
        return
    try:
        assert store.fs.mkdirs(f"/{name}") is True
        assert name in names(store.fs, "/")
    finally:
        assert store.fs.delete(f"/{name}") is True
    assert not store.fs.exists(f"/{name}")


@pytest.mark.rule("ROOT-2", "ROOT-6")
def test_nothing_happens_to_the_root(store: Store):
    """create, rename and a plain delete are refused; / is as it was."""
    before = store.fs.get_file_status("/").file_id
    with pytest.raises((OSError, ValueError)):
        store.fs.delete("/", recursive=False)
    for call in (
        lambda: store.fs.create("/", overwrite=True),
        lambda: store.fs.create_file("/").build(),
        lambda: store.fs.rename("/", store.path("x"), hflush.Rename.OVERWRITE),
    ):
        with pytest.raises((OSError, ValueError)):
            call()
    assert store.fs.get_file_status("/").file_id == before
    assert store.on_disk() == []


@pytest.mark.rule("ROOT-5", "STATUS-7")
def test_listings_of_the_root_agree(store: Store):
    """testSimpleRootListing: list, iterator and files give the same entries."""
    statuses = list(store.fs.list_status("/"))
    assert listed(statuses) == listed(store.fs.list_status_iterator("/"))
    files = [status.path for status in statuses if status.is_file]
    assert sorted(status.path for status in store.fs.list_files("/")) == sorted(files)
    assert all(status.path == store.public(f"/{status.name}") for status in statuses)


DELETES = ["fs.delete('/', recursive=True)", "fs.delete('//', True)", "fs.delete('/tmp/..', True)"]

JAIL = """
import logging, os
fs.delete(jail + '/warm-up', True)
os.chroot(jail)
os.chdir('/')
"""


@pytest.mark.rule("ROOT-6")
@pytest.mark.stores("raw", "crc")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a root that may be lost: chroot")
def test_the_root_is_never_deleted(store: Store):
    """delete("/") is PermissionError or ValueError and removes nothing (tried in a chroot)."""
    store.fs.mkdirs(store.path("tmp"))
    store.write(store.path("canary"), b"alive")
    store.write(store.path("warm-up"))
    prisoner = store.spawn()
    prisoner.run(JAIL, jail=store.root)
    assert prisoner.run("[status.name for status in fs.list_files('/')]") == ["canary"]
    for delete in DELETES:
        with pytest.raises((PermissionError, ValueError)):
            prisoner.run(delete)
    prisoner.run("fs.delete_on_exit('/')\nfs.close()")  # logs that it may not
    assert store.read(store.path("canary")) == b"alive"
    assert names(store.fs, store.root) == ["canary", "tmp"]
