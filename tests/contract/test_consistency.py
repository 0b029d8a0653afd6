"""CONSIST: who sees a change, and when."""

from __future__ import annotations

import hflush
import pytest
from support.data import dataset
from support.listing import names
from support.stores import Store

OLD = dataset(1000, ord("a"), ord("z"))
NEW = dataset(700, ord("A"), ord("Z"))

LOOK = """
status = fs.get_file_status(path)
result = (read(path), status.length, [s.length for s in fs.list_status(root) if s.path == public])
"""


def seen_elsewhere(store: Store, path: str) -> tuple[bytes, int, list[int]]:
    """Content, length and listed lengths, as another process has them now."""
    return store.second_client().run(LOOK, path=path, root=store.root, public=store.public(path))


@pytest.mark.rule("CONSIST-1", "CONSIST-9")
def test_a_new_file(store: Store, path: str):
    """After close every query of every client has the file and its data, fifty times."""
    for turn in range(50):
        path = store.write(store.path(f"file-{turn}"), OLD[turn:])
        length = len(OLD) - turn
        assert seen_elsewhere(store, path) == (OLD[turn:], length, [length])


@pytest.mark.rule("CONSIST-2", "CONSIST-9")
def test_an_overwritten_file(store: Store, path: str):
    """testOverWriteAndRead: new content of another length and alphabet, at once, both ways."""
    for data in (OLD, NEW, OLD, b"", NEW):
        store.write(path, data)
        assert seen_elsewhere(store, path) == (data, len(data), [len(data)])


@pytest.mark.rule("CONSIST-2", "CONSIST-9", "APPEND-1")
@pytest.mark.stores("raw", "hdfs")
def test_an_appended_file(store: Store, path: str):
    """After close of an append every client has old + new."""
    store.write(path, OLD)
    for turn in range(1, 20):
        with store.fs.append(path) as out:
            out.write(NEW)
        content = OLD + NEW * turn
        assert seen_elsewhere(store, path) == (content, len(content), [len(content)])


@pytest.mark.rule("CONSIST-3")
def test_a_deleted_file(store: Store, path: str):
    """After delete no client can read, list, rename or open it, twenty times."""
    remote = store.second_client()
    for _ in range(20):
        store.write(path, OLD)
        assert seen_elsewhere(store, path)[0] == OLD
        store.fs.delete(path)
        for call in (
            "read(path)",
            "fs.list_status(path)",
            "fs.rename(path, path + '2', hflush.Rename.NONE)",
        ):
            with pytest.raises(FileNotFoundError):
                remote.run(call, path=path)
        assert remote.run("fs.list_status(root)", root=store.root) == []


@pytest.mark.rule("CONSIST-4", "CREATE-17")
def test_delete_then_create(store: Store, path: str):
    """The new file and only its content is there, for other clients too."""
    for turn in range(20):
        data = (OLD, NEW)[turn % 2][turn:]
        store.write(path, data)
        assert seen_elsewhere(store, path) == (data, len(data), [len(data)])
        assert store.second_client().run("fs.delete(path)", path=path) is True
        assert not store.fs.exists(path)


@pytest.mark.rule("CONSIST-5", "RENAME-15")
def test_renamed_by_another_client(store: Store, path: str):
    """What one client renames, the other has under the new name at once."""
    store.write(path, OLD)
    here = path
    for turn in range(20):
        there = store.path(f"name-{turn}")
        assert store.second_client().run("fs.rename(here, there)", here=here, there=there) is True
        assert store.read(there) == OLD
        assert names(store.fs, store.root) == [f"name-{turn}"]
        with pytest.raises(FileNotFoundError):
            store.fs.get_file_status(here)
        here = there


@pytest.mark.rule("CONSIST-6")
def test_a_quiescent_file(store: Store, path: str):
    """Every client has the same metadata and data of a file at rest, however it is asked."""
    store.write(path, OLD)
    snippet = """
result = [fs.get_file_status(path), *fs.list_status(path), *fs.list_status(root)]
result += [*fs.list_files(root), *fs.list_status_iterator(root), *fs.glob_status(root + '/f*')]
"""
    there = store.second_client().run(snippet, path=path, root=store.root)
    assert there == [store.fs.get_file_status(path)] * 6
    with hflush.open(store.url(path), "rb", conf=store.conf) as reader:
        assert reader.read() == store.read(path) == OLD


@pytest.mark.rule("CONSIST-7")
def test_no_visibility_before_flush_or_close_is_assumed(store: Store, path: str):
    """What is written and not flushed may or may not be there: a prefix, then all of it."""
    with store.fs.create(path) as out:
        out.write(OLD)
        assert OLD.startswith(store.visible(path))
    assert store.read(path) == OLD


@pytest.mark.rule("CONSIST-8", "HFLUSH-2", "HSYNC-2")
@pytest.mark.stores("raw", "hdfs")
@pytest.mark.parametrize("sync", ["hflush", "hsync"])
def test_new_readers_after_a_sync(store: Store, path: str, sync: str):
    """Every new open returns the bytes, by every call that opens, whatever the metadata says."""
    with store.fs.create(path) as out:
        for turn in range(1, 6):
            out.write(NEW)
            getattr(out, sync)()
            assert store.read(path) == NEW * turn
            assert store.second_client().run("read(path)", path=path) == NEW * turn
            built = "with fs.open_file(path).build().result() as r: result = r.read()"
            assert store.second_client().run(built, path=path) == NEW * turn


@pytest.mark.rule("CONSIST-9")
def test_metadata_agrees_after_close(store: Store, path: str):
    """Length and times of the status, every listing and the bytes agree once closed."""
    with store.fs.create(path) as out:
        for _ in range(10):
            out.write(OLD)
            if store.options["open-file-visible"]:
                assert store.fs.get_file_status(path).length <= out.tell()
    status = store.fs.get_file_status(path)
    assert status.length == len(store.read(path)) == 10_000
    assert list(store.fs.list_status(store.root)) == [status]
    assert list(store.fs.list_files(store.root)) == [status]
