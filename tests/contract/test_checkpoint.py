"""CKPT: files that appear whole or not at all, and the log made of them."""

from __future__ import annotations

import errno
import io
import logging
import os
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

import hflush
import pytest
from hflush import Rename
from hflush.checkpoint import (
    AbortableStreamBased,
    CancellableFSDataOutputStream,
    CheckpointFileManager,
    FileContextBased,
    FileSystemBased,
    MetadataLog,
    NotDurableError,
)
from support.actors import Crew
from support.forks import in_child
from support.listing import names, orphans
from support.stores import FILES, Store
from support.waiting import Task, together, wait_until

KEY = "spark.sql.streaming.checkpointFileManagerClass"
SPARK = "org.apache.spark.sql.execution.streaming"
STYLES = (FileContextBased, FileSystemBased)
TEMPORARY = re.compile(r"^\.file\.[0-9a-f-]{36}(\.TID\d+)?\.tmp$")


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    """Processes kept for all tests here."""
    crew = Crew()
    yield crew
    crew.close()


@pytest.fixture(
    params=[
        *(pytest.param(style, marks=pytest.mark.stores(*FILES)) for style in STYLES),
        pytest.param(AbortableStreamBased, marks=pytest.mark.stores("s3")),
    ],
    ids=lambda style: style.__name__,
)
def manager(request: pytest.FixtureRequest, store: Store) -> CheckpointFileManager:
    """The strategies of the store, one after the other."""
    return request.param(store.url(), store.conf)


def put(manager: CheckpointFileManager, path: str, data: bytes, overwrite: bool = False) -> None:
    with manager.create_atomic(path, overwrite) as out:
        out.write(data)


def log_of(store: Store, **options: Any) -> MetadataLog:
    return MetadataLog(store.url(store.path("log")), store.conf, **options)


# --- the stream ----------------------------------------------------------------------------------


@pytest.mark.rule("CKPT-1", "CKPT-2", "CKPT-12")
def test_a_file_appears_at_close(manager, store: Store, path: str):
    """Until close there is one hidden temporary file beside the path, or none; then one file."""
    out = manager.create_atomic(path, False)
    out.write(b"x" * 100_000)
    assert not manager.exists(path)
    assert [bool(TEMPORARY.match(name)) for name in store.on_disk()] == [True] * renames(manager)
    out.close()
    assert store.on_disk() == ["file"]
    assert store.read(path) == b"x" * 100_000
    assert out.closed


@pytest.mark.rule("CKPT-1")
def test_a_killed_writer_leaves_nothing_at_the_path(store: Store, path: str):
    """kill -9 before close: the path stays absent."""
    peer = store.spawn()
    peer.run(
        "from hflush.checkpoint import CheckpointFileManager\n"
        "out = CheckpointFileManager.create(url, conf).create_atomic(path, False)\n"
        "out.write(b'x' * 100_000)\nout.flush()",
        url=store.url(),
        conf=store.conf,
        path=path,
    )
    peer.kill()
    assert not store.fs.exists(path)
    assert orphans(store.root) == []


@pytest.mark.rule("CKPT-1", "CKPT-4")
def test_readers_see_whole_files_only(manager, store: Store, path: str):
    """While a file is replaced again and again, a reader gets one of its contents, whole."""
    put(manager, path, b"0" * 50_000)

    def write() -> None:
        for value in range(50):
            put(manager, path, b"%d" % (value % 10) * 50_000, overwrite=True)

    writer = Task(write)
    while writer.is_alive():
        content = store.read(path) if renames(manager) else store.content(path)
        assert (len(content), len(set(content))) == (50_000, 1)
    writer.result()


@pytest.mark.rule("CKPT-2")
@pytest.mark.stores(*FILES)
def test_temporary_names_are_unique(store: Store, path: str):
    """A thousand streams to one path have a thousand temporary files."""
    manager = CheckpointFileManager.create(
        store.url(), {**store.conf, "hflush.checkpoint.sync": False}
    )
    seen = set()
    for _ in range(1000):
        out = manager.create_atomic(path, True)
        seen.update(store.on_disk())
        out.cancel()
    assert len(seen) == 1000
    assert store.on_disk() == []


@pytest.mark.rule("CKPT-2")
@pytest.mark.stores(*FILES)
def test_temporary_names_tell_the_spark_task(store: Store, path: str, monkeypatch):
    """Within a Spark task its attempt id is part of the name."""
    pyspark = pytest.importorskip("pyspark")
    context = pyspark.TaskContext._getOrCreate()
    monkeypatch.setattr(context, "_taskAttemptId", 7, raising=False)
    monkeypatch.setattr(pyspark.TaskContext, "_taskContext", context)
    try:
        out = CheckpointFileManager.create(store.url(), store.conf).create_atomic(path, True)
        assert TEMPORARY.match(store.on_disk()[0]).group(1) == ".TID7"
        out.cancel()
    finally:
        monkeypatch.undo()
        pyspark.TaskContext._taskContext = None


def renames(manager) -> bool:
    """Whether this manager publishes by a rename."""
    return not isinstance(manager, AbortableStreamBased)


def overwrites(manager) -> bool:
    """Whether a rename of this manager can replace a file; otherwise, as in Spark, it stays."""
    exact = not isinstance(manager, FileSystemBased)
    return exact or manager.filesystem.contract_options["rename-overwrites-dest"]


@pytest.mark.rule("CKPT-3", "CKPT-7", "CKPT-12")
@pytest.mark.parametrize("when", ["before", "between"])
def test_an_existing_file_is_kept(manager, store: Store, path: str, when: str):
    """Without overwriting, close is FileExistsError, the file is intact, the temporary is gone."""
    if when == "before":
        put(manager, path, b"2")
    out = manager.create_atomic(path, False)
    out.write(b"3")
    if when == "between":
        put(manager, path, b"2")
    with pytest.raises(FileExistsError) as failure:
        out.close()
    assert failure.value.filename == store.filename(path)
    assert store.read(path) == b"2"
    out.cancel()
    out.close()
    assert store.on_disk() == ["file"]


@pytest.mark.rule("CKPT-4", "CKPT-12")
def test_an_existing_file_is_replaced(manager, store: Store, path: str):
    """With overwriting the new content is there, and no checksum of the old one."""
    store.write(path, b"5" * 1000)
    put(manager, path, b"6", overwrite=True)
    assert store.read(path) == (b"6" if overwrites(manager) else b"5" * 1000)
    assert store.on_disk() == ["file"]


@pytest.mark.stores("raw")
@pytest.mark.rule("CKPT-4")
def test_sums_of_another_program_go_with_the_old_content(manager, store: Store, path: str):
    """A sidecar that Java left beside a raw file does not outlive the content it is of."""
    checked = hflush.FileSystem.get("file+crc:///")
    for change in (
        lambda: put(manager, path, b"new", overwrite=True),
        lambda: manager.delete(path),
    ):
        checked.create(path).close()
        assert store.on_disk() == [".file.crc", "file"]
        assert [status.name for status in manager.list(store.root)] == ["file"]
        change()
        assert ".file.crc" not in store.on_disk()
    checked.create(path).close()
    os.unlink(path)  # without its sums, as a user does who takes a batch back
    put(manager, path, b"new")
    assert store.on_disk() == ["file"]


@pytest.mark.rule("CKPT-4")
def test_a_store_that_cannot_replace_keeps_the_old_file(
    store: Store, path: str, monkeypatch, caplog
):
    """Where rename answers False over a file, close succeeds and logs that the old one stays."""
    manager = FileSystemBased(store.url(), store.conf)
    put(manager, path, b"old")
    monkeypatch.setattr(manager.filesystem, "_rename", lambda source, destination: False)
    with caplog.at_level(logging.WARNING):
        put(manager, path, b"new", overwrite=True)
    assert store.read(path) == b"old"
    assert store.on_disk() == ["file"]
    assert "cannot be overwritten" in caplog.text


@pytest.mark.rule("CKPT-5", "CKPT-12")
@pytest.mark.parametrize("existing", [False, True])
def test_cancel_drops_everything(manager, store: Store, path: str, existing: bool):
    """After cancel the path is as it was, nothing is left, and writing is StreamClosedError."""
    if existing:
        put(manager, path, b"old")
    before = store.on_disk()
    out = manager.create_atomic(path, True)
    out.write(b"1" * 200_000)
    out.cancel()
    assert store.on_disk() == before
    assert not existing or store.read(path) == b"old"
    with pytest.raises(hflush.StreamClosedError):
        out.write(b"more")
    with pytest.raises(ZeroDivisionError), manager.create_atomic(path, True) as out:
        raise ZeroDivisionError
    assert store.on_disk() == before


@pytest.mark.rule("CKPT-5")
@pytest.mark.stores(*FILES)
def test_cancel_never_raises(manager, store: Store, path: str, monkeypatch, caplog):
    """A temporary file that cannot be removed is logged."""
    out = manager.create_atomic(path, True)

    def refuse(path: str, recursive: bool) -> bool:
        raise PermissionError(errno.EACCES, "not yours", path)

    monkeypatch.setattr(manager.filesystem, "_delete", refuse)
    out.cancel()
    monkeypatch.undo()
    assert "not yours" in caplog.text
    assert not store.fs.exists(path)


@pytest.mark.rule("CKPT-6")
def test_close_and_cancel_end_once(manager, store: Store, path: str):
    """Whatever came first decides; the rest are no-ops."""
    for first, second, exists in (
        ("close", "close", True),
        ("close", "cancel", True),
        ("cancel", "close", False),
        ("cancel", "cancel", False),
    ):
        out = manager.create_atomic(path, True)
        getattr(out, first)()
        getattr(out, second)()
        assert store.fs.exists(path) == exists
        with pytest.raises(hflush.StreamClosedError), out:
            raise AssertionError("it is not open")
        store.fs.delete(path)
        assert store.on_disk() == []


@pytest.mark.rule("CKPT-1", "CKPT-6")
def test_what_its_file_system_has_ended_is_not_published(manager, store: Store, path: str):
    """Where that has failed it is cut off."""
    out = manager.create_atomic(path, False)
    out.write(b"data")
    out._stream._abandon()  # as the file system does then
    with pytest.raises(OSError, match="not published"):
        out.close()
    assert not store.fs.exists(path)
    assert orphans(store.root) == []


@pytest.mark.rule("CKPT-6")
def test_close_and_cancel_race(manager, store: Store, path: str):
    """Threads that close and cancel at once leave a whole file or nothing, and no temporary."""
    for _ in range(30):
        out = manager.create_atomic(path, True)
        out.write(b"whole")
        together(out.close, out.cancel, out.close, out.cancel)
        assert store.on_disk() in ([], ["file"])
        store.fs.delete(path)


@pytest.mark.rule("CKPT-6")
def test_a_forked_child_ends_nothing(manager, store: Store, path: str):
    """The file is the parent's to publish, or to drop."""
    for end in ("close", "cancel"):
        out = manager.create_atomic(path, True)
        out.write(b"first, ")
        in_child(getattr(out, end))
        out.write(b"second")
        out.close()
        assert store.read(path) == b"first, second"


@pytest.mark.rule("CKPT-6")
def test_a_signal_handler_within_close(manager, store: Store, path: str, monkeypatch):
    """It would wait for itself."""
    out = manager.create_atomic(path, False)

    def handle() -> None:
        out.cancel()
        with pytest.raises(RuntimeError, match="close: reentrant call"):
            out.close()

    monkeypatch.setattr(out._publication, "prepare", handle)
    out.close()
    assert store.on_disk() == ["file"]


@pytest.mark.shim
@pytest.mark.rule("CKPT-7", "CKPT-6")
@pytest.mark.parametrize("operation", ["rename", "sync"])
def test_a_failed_close_leaves_nothing(faults, store: Store, path: str, operation: str):
    """If the sync or the rename fails, close raises, nothing is published, nothing is left."""
    manager = CheckpointFileManager.create(store.url(), store.conf)
    out = manager.create_atomic(path, False)
    out.write(b"data")
    rule = faults.fail(operation, errno.EIO, limit=1)
    with pytest.raises(OSError, match="Input/output error"):
        out.close()
    assert rule.applied == 1
    out.close()
    out.cancel()
    assert store.on_disk() == []


@pytest.mark.rule("CKPT-22")
def test_the_stream_below_answers(manager, store: Store, path: str):
    """Probes, flush, hsync, tell and statistics are those of a plain file's stream."""
    with manager.create_atomic(path, False) as out:
        assert isinstance(out, CancellableFSDataOutputStream)
        assert isinstance(out, io.BufferedIOBase)
        syncs = renames(manager) and store.durable  # a temporary file has no sidecar
        assert out.has_capability("HSYNC") is syncs
        assert not out.has_capability("unknown")
        assert not out.has_capability(hflush.capabilities.PERSIST)
        assert out.write(b"abcd", 1, 2) == 2
        out.write_byte(0x64)
        out.writelines([b"e", b"f"])
        assert out.tell() == out.get_pos() == 5
        out.flush()
        for sync in (out.hflush, out.hsync) if syncs else ():
            sync()
        out.set_drop_behind(None) if out.has_capability("dropbehind") else None
        statistics = out.io_statistics()
        assert statistics.counters["op_hsync"] == syncs
        assert (out.name, out.path, out.mode) == (path, path, "xb")
        assert (out.writable(), out.readable(), out.seekable(), out.isatty()) == (
            True,
            *[False] * 3,
        )
        assert "open" in repr(out)
    assert store.read(path) == b"bcdef"
    with io.TextIOWrapper(manager.create_atomic(path, True), "utf-8") as text:
        text.write("text")
    assert store.read(path) == (b"text" if overwrites(manager) else b"bcdef")


# --- the rename ----------------------------------------------------------------------------------


@pytest.mark.rule("CKPT-10")
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.stores(*FILES)
def test_the_exact_rename_is_told(store: Store, path: str, monkeypatch, overwrite: bool):
    """FileContext's style renames with OVERWRITE when overwriting, and with NONE otherwise."""
    manager = FileContextBased(store.url(), store.conf)
    asked = []
    rename = manager.filesystem.rename

    def record(source: str, destination: str, option: Rename | None = None) -> bool | None:
        asked.append((destination, option))
        return rename(source, destination, option)

    monkeypatch.setattr(manager.filesystem, "rename", record)
    put(manager, path, b"data", overwrite)
    assert asked == [(path, Rename.OVERWRITE if overwrite else Rename.NONE)]


@pytest.mark.rule("CKPT-11")
@pytest.mark.parametrize(
    ("state", "overwrite", "expected"),
    [
        ("appears", False, FileExistsError),
        ("appears", True, None),
        ("vanishes", False, FileNotFoundError),
        ("vanishes", True, FileNotFoundError),
        ("refuses", False, OSError),
        ("refuses", True, OSError),
    ],
)
@pytest.mark.stores(*FILES)
def test_a_rename_that_answers_false(
    store: Store, path: str, monkeypatch, state: str, overwrite: bool, expected: Any
):
    """FileSystem's style tells apart why nothing was renamed."""
    manager = FileSystemBased(store.url(), store.conf)
    fs = manager.filesystem
    out = manager.create_atomic(path, overwrite)
    (temporary,) = store.on_disk()

    def refuse(source: str, destination: str) -> bool:
        if state == "appears":
            store.write(path, b"theirs")
        elif state == "vanishes":
            fs.delete(source)
        return False

    monkeypatch.setattr(fs, "_rename", refuse)
    if expected is None:
        out.close()
    else:
        with pytest.raises(expected) as failure:
            out.close()
        assert type(failure.value) is expected
        assert failure.value.filename == store.filename(path)
        assert state == "appears" or temporary in str(failure.value)
    assert names(fs, store.root) == (["file"] if state == "appears" else [])


@pytest.mark.rule("CKPT-11")
def test_an_existing_file_is_seen_before_the_rename(store: Store, path: str, monkeypatch):
    """FileSystem's style does not even rename onto a file, nor into a directory."""
    manager = FileSystemBased(store.url(), store.conf)
    renamed = []
    monkeypatch.setattr(manager.filesystem, "_rename", lambda *names: renamed.append(names))
    put_there = manager.create_atomic(path, False)
    store.write(path, b"theirs")
    with pytest.raises(FileExistsError):
        put_there.close()
    for overwrite in (False, True):
        store.fs.mkdirs(store.path("directory"))
        with pytest.raises(hflush.PathIsDirectoryError):
            put(manager, store.path("directory"), b"data", overwrite)
    assert renamed == []
    assert names(store.fs, store.root) == ["directory", "file"]


@pytest.mark.rule("CKPT-20")
@pytest.mark.stores(*FILES)
def test_a_rename_that_lies_is_found_out(store: Store, path: str, monkeypatch):
    """A file that is not there after the rename is an error, if verification is asked for."""
    for verify in (True, False):
        conf = {**store.conf, "hflush.checkpoint.verify-rename": verify}
        manager = CheckpointFileManager.create(store.url(), conf)
        monkeypatch.setattr(manager.filesystem, "_rename_exact", lambda *_: None)
        out = manager.create_atomic(path, False)
        if verify:
            with pytest.raises(FileNotFoundError, match="was renamed"):
                out.close()
        else:
            out.close()
        monkeypatch.undo()
    conf = {**store.conf, "hflush.checkpoint.verify-rename": True}
    put(CheckpointFileManager.create(store.url(), conf), path, b"data")
    assert store.read(path) == b"data"


@pytest.mark.shim
@pytest.mark.rule("CKPT-21")
@pytest.mark.parametrize("sync", [True, False])
def test_the_file_is_on_disk_before_it_is_renamed(faults, store: Store, path: str, sync: bool):
    """Write, sync the file, rename, sync the directory; no sync at all if it is switched off."""
    conf = store.conf if sync else {**store.conf, "hflush.checkpoint.sync": False}
    put(CheckpointFileManager.create(store.url(), conf), path, b"data")
    calls = [
        call
        for call in faults.calls("write", "sync", "rename")
        if call.result >= 0 and not call.name.endswith(".atomic.tmp")  # a rename that was tried
    ]
    order = [
        "directory" if call.operation == "sync" and call.is_directory else call.operation
        for call in calls
    ]
    assert order[0] == "write"
    after = order[order.index("rename") :]
    if sync:
        assert order[1] == "sync"
        assert after == ["rename", "directory"]
    else:
        assert order == ["write", "rename"]


@pytest.mark.shim
@pytest.mark.rule("CKPT-21")
def test_a_name_that_may_be_lost_is_told(faults, store: Store, path: str):
    """If the directory cannot be synced after the rename, close says so: published, not durable."""
    manager = CheckpointFileManager.create(store.url(), store.conf)
    out = manager.create_atomic(path, False)
    out.write(b"data")
    out.hsync()
    faults.fail("sync", errno.EIO, store.root)
    with pytest.raises(NotDurableError, match="published") as failure:
        out.close()
    assert failure.value.filename == store.filename(path)
    assert store.on_disk() == ["file"]


@pytest.mark.rule("CKPT-23")
def test_a_batch_that_is_run_again(manager, store: Store, path: str):
    """Only if asked for: an existing file is kept, the new one dropped, and close succeeds."""
    conf = {**store.conf, "hflush.checkpoint.keep-existing": True}
    again = type(manager)(store.url(), conf)
    put(again, path, b"first")
    put(again, path, b"second")
    assert store.read(path) == b"first"
    assert store.on_disk() == ["file"]
    put(again, path, b"third", overwrite=True)
    assert store.read(path) == (b"third" if overwrites(manager) else b"first")
    with pytest.raises(FileExistsError):
        put(manager, path, b"fourth")


# --- the manager ---------------------------------------------------------------------------------


class Custom(FileContextBased):
    """A manager that a configuration may name."""


class Broken(FileContextBased):
    """One that cannot be made."""

    def __init__(self, path: Any, conf: Any = None) -> None:
        raise ZeroDivisionError("broken")


@pytest.fixture
def module(monkeypatch) -> str:
    """The importable name of a module with these classes."""
    module = types.ModuleType("hflush_test_managers")
    vars(module).update(Custom=Custom, Broken=Broken)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.__name__


@pytest.mark.rule("CKPT-8")
def test_the_configured_manager_wins(store: Store, module: str):
    """A dotted path in either spelling, or Spark's own names; a broken one is an error."""

    def made(name: str) -> CheckpointFileManager:
        return CheckpointFileManager.create(store.url(), {**store.conf, KEY: name})

    unasked = AbortableStreamBased if store.name == "s3" else FileContextBased
    assert type(CheckpointFileManager.create(store.url(), store.conf)) is unasked
    for separator in (":", "."):
        assert type(made(f"{module}{separator}Custom")) is Custom
    for package in ("", ".checkpointing"):
        for style in STYLES:
            name = f"{SPARK}{package}.{style.__name__}CheckpointFileManager"
            assert type(made(name)) is style
    for name, expected in (
        (f"{module}:Broken", ZeroDivisionError),
        (f"{module}:Missing", ImportError),
        ("no_such_module.Class", ImportError),
        ("NoModule", ValueError),
        ("io:BytesIO", TypeError),
    ):
        with pytest.raises(expected):
            made(name)
    abortable = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
    if store.name == "s3":
        assert type(made(abortable)) is AbortableStreamBased
    else:
        with pytest.raises(hflush.UnsupportedFileSystemError):
            made(abortable)


@pytest.mark.rule("CKPT-8")
@pytest.mark.stores("raw", "crc")
def test_a_store_without_exact_rename(store: Store, path: str, caplog):
    """The fallback is FileSystem's rename, with one warning that correctness depends on it."""
    base = type(store.fs)

    class Plain(base):
        @property
        def contract_options(self):
            return {**super().contract_options, "supports-exact-rename": False}

        def _accepts(self, location):
            return location.scheme == "plain"

    hflush.FileSystem.register("plain", Plain)
    try:
        with pytest.raises(hflush.UnsupportedFileSystemError):
            FileContextBased("plain:///", store.conf)
        with caplog.at_level(logging.WARNING):
            manager = CheckpointFileManager.create(f"plain://{store.root}", store.conf)
        assert type(manager) is FileSystemBased
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "atomic" in caplog.text
        put(manager, path, b"data")
        assert store.read(path) == b"data"
    finally:
        from hflush import registry

        del registry._stores["plain"]
        registry._cache.clear()


@pytest.mark.rule("CKPT-8", "CKPT-9")
def test_the_default_file_system(store: Store):
    """A path without a scheme is in fs.defaultFS, whose scheme must be served by a store."""
    conf = {**store.conf, "fs.defaultFS": store.url("/")}
    manager = CheckpointFileManager.create(store.path("checkpoint"), conf)
    assert manager.filesystem.scheme == store.scheme
    with pytest.raises(hflush.UnsupportedFileSystemError, match=r"fs\.defaultFS"):
        CheckpointFileManager.create("/checkpoint", {**store.conf, "fs.defaultFS": "foo"})
    for scheme in ("gs", "nobody"):
        with pytest.raises(hflush.UnsupportedFileSystemError, match=scheme):
            CheckpointFileManager.create(f"{scheme}://bucket/checkpoint", store.conf)


@pytest.mark.rule("CKPT-13")
def test_the_name_space(manager, store: Store):
    """mkdirs, list, open, exists and delete as Spark's suite has them."""
    directory = store.path("a", "b", "c")
    assert not manager.exists(directory)
    with pytest.raises(FileNotFoundError):
        manager.list(directory)
    manager.mkdirs(directory)
    manager.mkdirs(directory)
    assert manager.exists(directory)
    file = f"{directory}/1"
    with pytest.raises(FileNotFoundError):
        manager.open(file)
    put(manager, file, b"one")
    put(manager, f"{directory}/.hidden", b"two")
    with manager.open(file) as stream:
        assert stream.read() == b"one"
    assert names(store.fs, directory) == [".hidden", "1"]
    assert sorted(status.name for status in manager.list(directory)) == [".hidden", "1"]
    chosen = manager.list(directory, lambda path: path.endswith("1"))
    assert [status.name for status in chosen] == ["1"]
    for _ in range(2):
        manager.delete(file)
        assert not manager.exists(file)
    for _ in range(2):
        manager.delete(store.path("a"))
    assert store.on_disk() == []
    assert manager.is_local is store.local
    sub = type(manager)(store.url(store.path("new", "one")), store.conf)
    assert sub.create_checkpoint_directory() == store.fs.make_qualified(store.path("new", "one"))
    assert manager.exists(store.path("new", "one"))
    with pytest.raises(hflush.PathIsDirectoryError):
        manager.create_atomic("/", True)


@pytest.mark.rule("CKPT-2")
@pytest.mark.stores("raw", "crc")
def test_a_file_that_cannot_be_made_is_named(store: Store, path: str):
    """Not the temporary one."""
    store.write(path, b"data")
    manager = FileSystemBased(store.url(), store.conf)
    with pytest.raises(hflush.ParentNotDirectoryError) as failure:
        manager.create_atomic(f"{path}/below", False)
    assert failure.value.filename == store.filename(f"{path}/below")


@pytest.mark.rule("CKPT-24", divergence="s3")
def test_the_documentation_says_what_is_atomic(store: Store):
    """Both renames are atomic on local files and HDFS, neither on object stores."""
    import hflush.checkpoint

    text = " ".join((hflush.checkpoint.__doc__ or "").split())
    assert "are atomic on local files and HDFS" in text
    assert "it overwrites only if asked to" in text
    assert "Object stores have no atomic rename" in text


# --- the log -------------------------------------------------------------------------------------


@pytest.mark.rule("CKPT-15", "CKPT-19")
def test_batches_are_added_once(store: Store):
    """True for the first, False for the rest; the file is named by the number."""
    log = log_of(store)
    assert (log.get(1), log.get_latest(), log.batch_ids()) == (None, None, [])
    assert log.add(1, b"a")
    assert not log.add(1, b"b")
    assert log.get(1) == b"a"
    assert store.read(store.path("log", "1")) == b"a"
    assert store.on_disk(store.path("log")) == ["1"]
    assert log.get_latest() == (1, b"a")
    assert log_of(store).get_latest() == (1, b"a")
    for wrong, expected in ((-1, ValueError), ("1", TypeError), (True, TypeError)):
        with pytest.raises(expected):
            log.add(wrong, b"data")


RACE = """
from hflush.checkpoint import MetadataLog
log = MetadataLog(directory, conf)
won, lost = [], 0
barrier.wait()
for number in range(count):
    try:
        if log.add(number, b'%d' % me * 1000):
            won.append(number)
    except hflush.ConcurrentWriterError:
        lost += 1
result = won
"""


@pytest.mark.rule("CKPT-16")
def test_one_writer_wins_each_batch(store: Store, crew: Crew):
    """Eight processes add fifty batches: each is one's, whole; the others False or the error."""
    directory = store.url(store.path("log"))
    wins = crew.race(store, 8, RACE, directory=directory, conf=store.conf, count=50)
    winner = {number: me for me, numbers in enumerate(wins) for number in numbers}
    assert sum(map(len, wins)) == len(winner) == 50
    log = log_of(store)
    for number, me in winner.items():
        assert log.get(number) == b"%d" % me * 1000
    assert store.on_disk(store.path("log")) == sorted(str(number) for number in range(50))


@pytest.mark.rule("CKPT-16")
@pytest.mark.parametrize("keeps", [False, True])
def test_the_loser_of_a_race_is_told(store: Store, monkeypatch, keeps: bool):
    """A batch that appears between the look and the rename is ConcurrentWriterError."""
    conf = {**store.conf, "hflush.checkpoint.keep-existing": keeps}
    log = MetadataLog(store.url(store.path("log")), conf, retries=2)

    def serialize(data: bytes) -> bytes:
        monkeypatch.setattr(log, "_serialize", bytes)
        log_of(store).add(7, b"theirs")
        return data

    monkeypatch.setattr(log, "_serialize", serialize)
    with pytest.raises(hflush.ConcurrentWriterError) as failure:
        log.add(7, b"ours")
    assert failure.value.errno == errno.EEXIST
    assert log.get(7) == b"theirs"
    assert store.on_disk(store.path("log")) == ["7"]
    store.fs.mkdirs(store.path("log", "8"))
    with pytest.raises(FileExistsError) as failure:
        log.add(8, b"in the way")
    assert not isinstance(failure.value, hflush.ConcurrentWriterError)


@pytest.mark.shim
@pytest.mark.rule("CKPT-17", "CKPT-18")
@pytest.mark.parametrize("broken", ["serialize", "write", "rename"])
def test_a_failed_add_can_be_repeated(faults, store: Store, broken: str):
    """The original exception comes out, the batch is absent, nothing is left, a repeat works."""
    good = log_of(store)
    if broken == "serialize":
        with pytest.raises(ZeroDivisionError):
            log_of(store, serialize=lambda data: 1 // 0).add(1, b"a")
    else:
        faults.fail(broken, errno.ENOSPC, limit=1)
        with pytest.raises(OSError, match="No space left"):
            good.add(1, b"a")
    assert (good.get(1), good.get_latest(), good.batch_ids()) == (None, None, [])
    assert not store.fs.exists(store.path("log")) or store.on_disk(store.path("log")) == []
    assert good.add(1, b"a")
    assert good.get(1) == b"a"


@pytest.mark.shim
@pytest.mark.rule("CKPT-25")
def test_a_failed_write_is_repeated(faults, store: Store):
    """Two failures: True with two retries, the error with fewer, and no trace of the attempts."""
    for retries in (2, 1):
        log = log_of(store, retries=retries)
        faults.fail("rename", errno.EIO, limit=2)
        if retries == 2:
            assert log.add(retries, b"data")
        else:
            with pytest.raises(OSError, match="Input/output error"):
                log.add(retries, b"data")
    assert store.on_disk(store.path("log")) == ["2"]
    with pytest.raises(ValueError, match="retries"):
        log_of(store, retries=-1)


@pytest.mark.rule("CKPT-25")
@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize("stored", [b"ours", b"theirs"])
@pytest.mark.stores(*FILES)
def test_a_lost_reply_is_looked_into(store: Store, monkeypatch, retries: int, stored: bytes):
    """A rename that seems to fail: our bytes are success, others are another writer's."""
    log = log_of(store, retries=retries)
    fs = log.manager.filesystem
    rename = fs._rename_exact

    def lose_reply(source: str, destination: str, overwrite: bool) -> None:
        if stored == b"ours":
            rename(source, destination, overwrite)
        else:
            store.write(destination, stored)
        raise TimeoutError(errno.ETIMEDOUT, "no reply", destination)

    monkeypatch.setattr(fs, "_rename_exact", lose_reply)
    if stored == b"ours":
        assert log.add(1, b"ours")
    else:
        with pytest.raises(hflush.ConcurrentWriterError):
            log.add(1, b"ours")
    assert log.get(1) == stored
    assert names(store.fs, store.path("log")) == ["1"]


@pytest.mark.shim
@pytest.mark.rule("CKPT-16", "CKPT-25")
@pytest.mark.parametrize("retries", [0, 1])
def test_equal_bytes_of_another_writer_are_not_ones_own(faults, store: Store, retries: int):
    """A batch that could not even be written has not been stored, whatever is at its path."""

    def serialize(data: bytes) -> bytes:
        log_of(store).add(1, data)
        faults.fail("write", errno.ENOSPC, limit=1)
        return data

    expected = hflush.ConcurrentWriterError if retries else OSError
    with pytest.raises(expected) as failure:
        log_of(store, retries=retries, serialize=serialize).add(1, b"same")
    assert failure.value.errno == (errno.EEXIST if retries else errno.ENOSPC)
    assert names(store.fs, store.path("log")) == ["1"]


@pytest.mark.rule("CKPT-19")
def test_ranges_must_be_whole(store: Store):
    """A range has every id between its ends, or the missing ones are named."""
    log: MetadataLog[int] = log_of(
        store, serialize=lambda data: b"%d" % data, deserialize=lambda data: int(data)
    )
    assert log.get_range() == []
    for number in (1, 2, 3, 6):
        assert log.add(number, number * 10)
    assert log.get_range(1, 3) == [(1, 10), (2, 20), (3, 30)]
    assert log.get_range(end=2) == [(1, 10), (2, 20)]
    assert log.get_range(start=6) == [(6, 60)]
    for bounds, missing in (
        ((1, 6), "4, 5"),
        ((0, 2), "0"),
        ((5, 6), "5"),
        ((6, 8), "7, 8"),
        ((None, None), "4, 5"),
        ((20, 21), "20, 21"),
    ):
        with pytest.raises(FileNotFoundError, match=f"missing batches: {missing}"):
            log.get_range(*bounds)
    with pytest.raises(ValueError, match="above"):
        log.get_range(3, 1)


@pytest.mark.rule("CKPT-19")
def test_other_names_are_ignored(store: Store):
    """Names that are not numbers, directories and temporary files are not batches."""
    log = log_of(store)
    log.add(3, b"three")
    for name in ("x", "007", "-1", "4.compact", ".9.tmp", "٣"):
        store.write(store.path("log", name), b"no batch")
    store.fs.mkdirs(store.path("log", "12"))
    unfinished = log.manager.create_atomic(store.path("log", "11"), False)
    assert log.batch_ids() == [3]
    assert log.get_latest() == (3, b"three")
    assert log.get(12) is None
    unfinished.cancel()


@pytest.mark.rule("CKPT-19", "CKPT-7")
def test_purging(store: Store):
    """purge removes the ids below, purge_after those above; nothing else stays."""
    log = log_of(store)
    for number in range(10):
        log.add(number, b"data")
    log.purge(4)
    assert log.batch_ids() == [4, 5, 6, 7, 8, 9]
    log.purge_after(6)
    assert store.on_disk(store.path("log")) == ["4", "5", "6"]
    log.purge(6)
    assert store.on_disk(store.path("log")) == ["6"]
    log.purge_after(6)
    assert log.get_latest() == (6, b"data")
    with pytest.raises(TypeError, match="bytes-like"):
        log.add(7, "text")
    wait_until(lambda: log.batch_ids() == [6], "the refused batch is absent")


@pytest.mark.rule("CKPT-5")
def test_abort_is_cancel(store: Store, manager: CheckpointFileManager) -> None:
    """The stream is Abortable on every store, and says what abort did."""
    out = manager.create_atomic(store.path("file"), False)
    out.write(b"data", off=1, len=2)
    assert isinstance(out, hflush.Abortable)
    assert out.has_capability(hflush.capabilities.ABORTABLE.upper())
    assert out.abort().already_closed is False
    assert out.abort().already_closed is True
    assert store.on_disk() == []


@pytest.mark.rule("CKPT-5")
def test_a_closed_stream_names_the_path_to_be(store: Store, manager: CheckpointFileManager) -> None:
    """Not the temporary one, which callers do not know."""
    out = manager.create_atomic(store.path("file"), False)
    out.close()
    syncs = (out.hflush, out.hsync) if renames(manager) and store.durable else ()
    for late in (lambda: out.write(b"x"), lambda: out.write_byte(1), *syncs):
        with pytest.raises(hflush.StreamClosedError) as raised:
            late()
        assert raised.value.filename == store.filename(store.path("file"))


@pytest.mark.stores("raw", "crc")
@pytest.mark.rule("CKPT-5")
@pytest.mark.parametrize("operation", ["write", "flush", "hsync", "close"])
def test_a_failure_names_the_path_to_be(store: Store, operation: str) -> None:
    """Also where the disk is full."""
    manager = CheckpointFileManager.create(store.url(), store.conf)
    out = manager.create_atomic(store.path("file"), False)
    is_write = operation == "write"
    if not is_write:
        out.write(b"data")
    with store.full(2), pytest.raises(OSError, match=store.full_text) as failure:
        out.write(bytes(1 << 20)) if is_write else getattr(out, operation)()
    assert failure.value.filename == store.filename(store.path("file"))
    out.cancel()


@pytest.mark.rule("CKPT-22")
@pytest.mark.parametrize(
    "name", ["seek", "truncate", "fileno", "detach", "read", "readinto", "readline", "__iter__"]
)
def test_what_no_output_stream_has(store: Store, manager: CheckpointFileManager, name: str) -> None:
    """The rest of io is refused, not missing."""
    with (
        manager.create_atomic(store.path("file"), False) as out,
        pytest.raises(io.UnsupportedOperation),
    ):
        getattr(out, name)()


@pytest.mark.rule("CKPT-3")
def test_overwrite_if_possible_takes_a_bool(store: Store, manager: CheckpointFileManager) -> None:
    """A text is not taken for true."""
    with pytest.raises(TypeError, match="must be bool"):
        manager.create_atomic(store.path("file"), "false")
