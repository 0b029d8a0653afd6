"""ATOM-9: files that appear whole when they are closed, with atomic=True, or not at all."""

from __future__ import annotations

import errno
import io
import os
import re
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import hflush
import pytest
from hflush import capabilities
from hflush.checkpoint import CheckpointFileManager
from support.actors import Barrier, Crew
from support.data import dataset
from support.listing import sidecar
from support.stores import FILES, Store
from support.waiting import Task, together, wait_until

OLD = dataset(5000, first=1)
NEW = dataset(3 << 20, first=2)
TEMPORARY = re.compile(r"\.file\.[0-9a-f]{32}\.atomic\.tmp")


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    """Processes kept for all tests here."""
    crew = Crew()
    yield crew
    crew.close()


@pytest.fixture
def old(store: Store, path: str) -> str:
    """The path, at which there is a file."""
    return store.write(path, OLD)


def left(store: Store) -> list[str]:
    """What is in the root, besides the file and its sums."""
    return [name for name in store.on_disk() if name not in ("file", ".file.crc")]


def temporaries(store: Store) -> list[str]:
    return [name for name in left(store) if TEMPORARY.fullmatch(name)]


@pytest.mark.rule("ATOM-9")
@pytest.mark.parametrize("before", [None, OLD], ids=["new", "over another"])
def test_it_appears_at_close(store: Store, path: str, before: bytes | None):
    """Until close what was there is there, then all that is new; one hidden file meanwhile."""
    if before is not None:
        store.write(path, before)
    out = store.fs.create(path, atomic=True)
    for piece in (NEW[:100], NEW[100:]):
        out.write(piece)
        out.flush()
        assert (store.read(path) if store.fs.exists(path) else None) == before
    assert len(temporaries(store)) == (store.name != "s3")
    assert (out.path, out.mode, out.tell()) == (path, "wb", len(NEW))
    assert out.name == store.public(path)
    assert not out.closed
    out.close()
    out.close()
    assert store.read(path) == store.content(path) == NEW
    assert left(store) == []
    assert out.tell() == len(NEW)
    assert out.io_statistics().counters["stream_write_bytes"] == len(NEW)
    with pytest.raises(hflush.StreamClosedError) as refusal:
        out.write(b"more")
    assert refusal.value.filename == store.filename(path)


@pytest.mark.rule("ATOM-9")
@pytest.mark.parametrize("mode", ["w", "wb", "x"])
def test_open(store: Store, path: str, mode: str):
    """The modes of open() that make a file; text, too."""
    out = hflush.open(store.url(path), mode, conf=store.conf, atomic=True)
    out.write("häl" if "b" not in mode else "häl".encode())
    assert not store.fs.exists(path)
    out.close()
    assert store.read(path).decode() == "häl"
    assert left(store) == []


def fail(out: Any, data: object, error: BaseException) -> None:
    out.write(data)
    raise error


@pytest.mark.rule("ATOM-9")
@pytest.mark.parametrize("written", [0, 100, len(NEW)], ids=["start", "middle", "end"])
@pytest.mark.parametrize("mode", ["w", "wb"])
def test_an_exception_leaves_the_old_file(store: Store, old: str, written: int, mode: str):
    """Through with: the same exception, the old file, nothing besides."""
    error = KeyError("ours")
    data = "x" * written if mode == "w" else b"x" * written
    with (
        pytest.raises(KeyError) as raised,
        hflush.open(store.url(old), mode, conf=store.conf, atomic=True) as out,
    ):
        fail(out, data, error)
    assert raised.value is error
    assert store.read(old) == store.content(old) == OLD
    assert left(store) == []
    assert out.closed


@pytest.mark.rule("ATOM-9")
def test_abort(store: Store, old: str):
    """The stream says that it can; afterwards nothing of it is left, nor does close publish it."""
    out = store.fs.create(old, atomic=True)
    assert out.has_capability(capabilities.ABORTABLE)
    assert out.has_capability("FS.capability.outputstream.ABORTABLE")
    out.write(NEW)
    result = out.abort()
    assert (result.already_closed, result.cleanup_exception) == (False, None)
    assert out.abort().already_closed
    out.close()
    out.flush()
    with pytest.raises(hflush.StreamClosedError) as refusal:
        out.write(b"more")
    assert refusal.value.filename == store.filename(old)
    assert store.read(old) == OLD
    assert left(store) == []
    assert out.io_statistics().counters["op_abort"] == 1
    done = store.fs.create(old, atomic=True)
    done.close()
    assert done.abort().already_closed
    assert store.read(old) == b""


@pytest.mark.rule("ATOM-9")
def test_neither_hflush_nor_hsync(store: Store, old: str):
    """Both promise that new readers at the path see the bytes: refused, and said beforehand."""
    with store.fs.create(old, atomic=True) as out:
        out.write(b"new")
        for sync in ("hflush", "hsync"):
            assert not out.has_capability(sync)
            with pytest.raises(io.UnsupportedOperation, match=sync) as refusal:
                getattr(out, sync)()
            assert refusal.value.filename == store.filename(old)
    assert store.read(old) == b"new"


@pytest.mark.rule("ATOM-9")
def test_a_dropped_stream(store: Store, old: str):
    """Abandoned with a warning; on hdfs the temporary file is left to the next who comes by."""
    out = store.fs.create(old, atomic=True)
    out.write(NEW)
    with pytest.warns(hflush.NotPublishedWarning, match="not published"):
        del out
    assert store.read(old) == OLD
    assert len(left(store)) == (store.name == "hdfs")


@pytest.mark.rule("ATOM-9")
def test_a_file_system_that_is_closed(store: Store, old: str):
    """Nothing is published unasked: the open stream is aborted, and that is an error."""
    fs = store.new_client()
    out = fs.create(old, atomic=True)
    out.write(NEW)
    with pytest.raises(OSError, match="not published") as failure:
        fs.close()
    assert failure.value.errno == errno.ECANCELED
    assert out.closed
    assert store.read(old) == OLD
    assert left(store) == []


@pytest.mark.rule("ATOM-9")
def test_a_file_that_may_not_be_replaced(store: Store, path: str):
    """Checked at create, and by the step that publishes: another writer's file is intact."""
    with store.fs.create(path, overwrite=False, atomic=True) as out:
        out.write(b"first")
    with pytest.raises(FileExistsError) as refusal:
        store.fs.create(path, overwrite=False, atomic=True)
    assert refusal.value.filename == store.filename(path)
    store.fs.delete(path)
    out = store.fs.create(path, overwrite=False, atomic=True)
    assert out.mode == "xb"
    out.write(b"ours")
    store.write(path, b"theirs")
    with pytest.raises(FileExistsError) as refusal:
        out.close()
    assert refusal.value.filename == store.filename(path)
    out.close()
    assert store.read(path) == b"theirs"
    assert left(store) == []


@pytest.mark.rule("ATOM-9")
def test_what_cannot_be_atomic(store: Store, old: str):
    """Appending, or leaving the disk out, is refused before anything is touched."""
    for refused in (
        lambda: store.fs.append(old, atomic=True),
        lambda: hflush.append(store.url(old), conf=store.conf, atomic=True),
        lambda: hflush.open(store.url(old), "a", conf=store.conf, atomic=True),
        lambda: store.fs.append_file(old).must("fs.option.create.atomic", True).build(),
        lambda: store.fs.create(old, atomic=True, sync_on_close=False),
    ):
        with pytest.raises(ValueError, match="atomic file"):
            refused()
    with pytest.raises(ValueError, match=r"atomic: must be true or false"):
        store.fs.create(old, atomic=2)
    assert store.read(old) == OLD
    assert left(store) == []


@pytest.mark.rule("ATOM-9")
def test_the_builder(store: Store, old: str):
    """By opt() and by must(), which every store honours; false makes an ordinary file."""
    for ask in ("opt", "must"):
        builder = store.fs.create_file(old)
        getattr(builder, ask)("fs.option.create.atomic", True)
        out = builder.build()
        out.write(NEW)
        assert not out.abort().already_closed
        assert store.read(old) == OLD
    store.fs.create_file(old).must("fs.option.create.atomic", "false").build().close()
    assert store.read(old) == b""


@pytest.mark.rule("ATOM-9")
def test_where_no_file_can_be(store: Store, path: str):
    """Directories and their like are refused at create, as always; missing parents are made."""
    store.fs.mkdirs(path)
    for where, kind in ((path, hflush.PathIsDirectoryError), ("/", hflush.PathIsDirectoryError)):
        with pytest.raises(kind) as refusal:
            store.fs.create(where, atomic=True)
        assert refusal.value.filename == store.filename(where)
    store.write(store.path("a"), b"file")
    with pytest.raises(hflush.ParentNotDirectoryError):
        store.fs.create(store.path("a", "b"), atomic=True)
    if store.name != "s3":
        with pytest.raises(FileNotFoundError):
            store.fs.create(store.path("x", "y"), atomic=True, recursive=False)
    with store.fs.create(store.path("x", "y"), atomic=True) as out:
        out.write(b"data")
    assert store.read(store.path("x", "y")) == b"data"
    assert temporaries(store) == []


@pytest.mark.rule("ATOM-9")
@pytest.mark.stores(*FILES)
def test_long_names(store: Store):
    """The temporary name fits where the name does, also on eCryptfs, which has 143 bytes."""
    for name in ("n" * (255 if store.name != "crc" else 250), "é" * 125):
        path = store.path(name)
        with store.fs.create(path, atomic=True) as out:
            out.write(b"data")
            aside = [one for one in store.on_disk() if ".atomic.tmp" in one]
            assert max(len(os.fsencode(one)) for one in aside) <= 143
        assert store.read(path) == b"data"


@pytest.mark.rule("ATOM-9")
@pytest.mark.stores(*FILES)
def test_its_mode_is_that_of_a_new_file(store: Store, path: str, umask: None):
    """A new file takes the place of the old one: `permission` and the umask count, not the old."""
    store.write(path, OLD)
    store.chmod(path, 0o600)
    store.fs.create(path, atomic=True).close()
    assert store.mode(path) == 0o604
    store.fs.create(path, atomic=True, permission=0o640).close()
    assert store.mode(path) == 0o600
    store.fs.create(path, atomic=True, permission=0o444).close()
    assert store.mode(path) == 0o404


@pytest.mark.rule("ATOM-9")
@pytest.mark.stores("raw", "crc")
def test_links(store: Store, old: str):
    """What the link leads to is replaced, as create does."""
    link = store.path("link")
    os.symlink("file", link)
    with store.fs.create(link, atomic=True) as out:
        out.write(b"new")
        assert out.path == link
    assert store.read(link) == b"new"
    assert os.path.islink(link)
    assert store.read(old) == b"new"
    os.symlink("missing", store.path("dangling"))
    with pytest.raises(FileExistsError):
        store.fs.create(store.path("dangling"), overwrite=False, atomic=True)
    assert not store.fs.put_if_absent(store.path("dangling"), b"new")
    assert not os.path.exists(store.path("missing"))
    with store.fs.create(store.path("dangling"), atomic=True) as out:
        out.write(b"filled")
    assert store.read(store.path("missing")) == b"filled"
    assert os.path.islink(store.path("dangling"))
    assert temporaries(store) == []


@pytest.mark.rule("ATOM-9")
@pytest.mark.stores("raw", "crc")
def test_what_is_no_file_is_not_replaced(store: Store, path: str):
    """A pipe or a device stays what it is."""
    os.mkfifo(path)
    with pytest.raises(io.UnsupportedOperation, match="something that is not a file"):
        store.fs.create(path, atomic=True)
    assert store.fs.get_file_status(path).kind == "other"


# --- observers -----------------------------------------------------------------------------------

WATCH = """
anomalies = []
seen = set()
barrier.wait()
while not fs.exists(f'{root}/end'):
    try:
        content = read(path)
    except Exception as error:
        if replaced_under_readers and isinstance(error, hflush.PreconditionFailedError):
            continue  # opened before, as declared: never a mixture
        anomalies.append(repr(error))
        continue
    seen.add(content[0])
    if len(seen) == 2:
        fs.create(f'{root}/{me}-has-seen-two').close()
    if len(content) != length or len(set(content)) != 1:
        anomalies.append((len(content), len(set(content))))
result = anomalies[:10]
"""


@pytest.mark.rule("ATOM-9")
def test_observers_see_whole_files(store: Store, crew: Crew, path: str):
    """While a file is replaced, readers get one of its contents, whole and verified.

    It is replaced so often, and until each of them has seen two of them.
    """
    rounds, size = (300 if store.local else 20), 300_000
    store.write(path, b"\0" * size)
    crew.begin(
        store,
        2,
        3,
        WATCH,
        root=store.root,
        path=path,
        length=size,
        replaced_under_readers=store.name == "s3",
    )
    Barrier(crew.line(store), 3, 2).wait()
    noted = [store.path(f"{me}-has-seen-two") for me in range(2)]
    number = 0
    while number < rounds or not all(map(store.fs.exists, noted)):
        number += 1
        with store.fs.create(path, atomic=True) as out:
            for _ in range(3):
                out.write(bytes([number % 256]) * (size // 3))
    store.write(store.path("end"))
    assert crew.finish() == [[], []]
    assert store.read(path) == bytes([number % 256]) * size


TAKE_TURNS = """
for number in range(rounds):
    with fs.create(path, atomic=True) as out:
        out.write(bytes([me + 1]) * length)
    barrier.wait()
    content = read(path)  # ChecksumError: the sums are the other's
    assert content in (b'\\1' * length, b'\\2' * length)
    barrier.wait()
"""


@pytest.mark.rule("ATOM-9")
@pytest.mark.stores("crc")
def test_processes_that_replace_one_file(store: Store, crew: Crew, path: str):
    """Whichever writer is last, the remaining sums are those of the remaining file."""
    crew.race(store, 2, TAKE_TURNS, path=path, rounds=80, length=2000)
    assert left(store) == []


@pytest.mark.rule("ATOM-9")
@pytest.mark.stores("crc")
@pytest.mark.parametrize("way", ["create", "rename"])
def test_threads_that_replace_one_file(store: Store, path: str, way: str):
    """The same in one process, and of exact renames."""
    contents = [bytes([letter]) * 2000 for letter in b"ab"]
    for _ in range(60):
        if way == "create":
            outs = [store.fs.create(path, atomic=True) for _ in contents]
            for out, content in zip(outs, contents, strict=True):
                out.write(content)
            together(*(out.close for out in outs))
        else:
            sources = [store.write(store.path(f"from-{c[:1]}"), c) for c in contents]
            overwrite = hflush.Rename.OVERWRITE
            together(*(partial(store.fs.rename, one, path, overwrite) for one in sources))
        assert store.read(path) in contents
    assert left(store) == []


@pytest.mark.shim
@pytest.mark.rule("ATOM-9")
def test_it_is_on_disk_when_it_appears(faults, store: Store, old: str):
    """Every file written is synced before its rename, the directory after the last one."""
    with store.fs.create(old, atomic=True) as out:
        mark = faults.position  # creating it may have tried a rename
        out.write(b"data")
    everything = faults.calls("write", "sync", "rename", since=mark)
    calls = [call for call in everything if ".tmp" in call.name or call.is_directory]
    renames = [index for index, call in enumerate(calls) if call.operation == "rename"]
    written = {call.path for call in calls if call.operation == "write"}
    synced = {call.path for call in calls[: renames[0]] if call.operation == "sync"}
    assert len(written) == len(renames) == (2 if store.name == "crc" else 1)
    assert written <= synced
    after = calls[renames[-1] + 1 :]
    assert [(call.operation, call.is_directory) for call in after] == [("sync", True)]


@pytest.mark.shim
@pytest.mark.rule("ATOM-9")
@pytest.mark.parametrize("operation", ["write", "sync", "rename"])
def test_a_step_that_fails(faults, store: Store, old: str, operation: str):
    """The first failure is raised, with the path; the old file stays, nothing besides."""
    out = store.fs.create(old, atomic=True)
    out.write(b"data")
    faults.fail(operation, errno.EIO)
    with pytest.raises(OSError, match="Input/output error") as failure:
        out.close()
    assert failure.value.errno == errno.EIO
    assert failure.value.filename == store.filename(old)
    faults.watch(store.root)
    out.close()
    assert store.content(old) == OLD
    assert left(store) == []


@pytest.mark.rule("ATOM-9")
@pytest.mark.stores("raw")
@pytest.mark.parametrize("step", [os.rename, os.link], ids=["rename", "link"])
def test_an_answer_that_is_lost(store: Store, path: str, monkeypatch, step: Any):
    """NFS may take a step twice, and answer with what is wrong with the second: it is published."""
    refusal = FileNotFoundError if step is os.rename else FileExistsError

    def rename(_: object, source: str, target: str, overwrite: bool) -> None:
        step(source, target)
        raise refusal(errno.EIO, "the second time", source)

    monkeypatch.setattr(type(store.fs), "_rename_exact", rename)
    with store.fs.create(path, atomic=True, overwrite=step is os.rename) as out:
        out.write(NEW)
    assert store.content(path) == NEW
    assert left(store) == []


@pytest.mark.rule("ATOM-9")
@pytest.mark.stores("raw", "hdfs")
@pytest.mark.parametrize("kind", [ConnectionResetError, TimeoutError])
@pytest.mark.parametrize("way", ["atomic", "checkpoint"])
def test_a_rename_without_an_answer(
    store: Store, old: str, monkeypatch: pytest.MonkeyPatch, kind: type[OSError], way: str
) -> None:
    """A server is killed, or silent: close fails only if the file at the path is not its own."""
    rename, renames = type(store.fs)._rename_exact, True

    def lose_answer(fs: Any, source: str, target: str, overwrite: bool) -> None:
        if renames:
            rename(fs, source, target, overwrite)
        raise kind(errno.EIO, "no answer", source)

    def create() -> Any:
        if way == "atomic":
            return store.fs.create(old, atomic=True)
        return CheckpointFileManager.create(store.url(), store.conf).create_atomic(old, True)

    monkeypatch.setattr(type(store.fs), "_rename_exact", lose_answer)
    with create() as out:
        out.write(NEW)
    renames, out = False, create()
    out.write(b"newer")
    with pytest.raises(kind, match="no answer"):
        out.close()
    assert store.content(old) == NEW
    assert left(store) == []


@pytest.mark.shim
@pytest.mark.rule("ATOM-9")
def test_a_name_that_may_be_lost(faults, store: Store, old: str):
    """If the directory cannot be synced after the rename: published, not durable."""
    out = store.fs.create(old, atomic=True)
    out.write(b"data")

    class Publication(type(out._aside.publication)):
        def _rename(self) -> None:
            super()._rename()
            faults.fail("sync", errno.EIO, store.root)

    out._aside.publication.__class__ = Publication
    with pytest.raises(hflush.NotDurableError, match="published") as failure:
        out.close()
    assert failure.value.filename == store.filename(old)
    assert store.read(old) == b"data"
    assert left(store) == []


@pytest.mark.rule("ATOM-9")
@pytest.mark.stores(*FILES)
@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, TimeoutError])
@pytest.mark.parametrize("renames", [True, False])
def test_an_interrupt_in_the_rename(
    store: Store,
    old: str,
    monkeypatch: pytest.MonkeyPatch,
    interrupt: type[BaseException],
    renames: bool,
) -> None:
    """It takes nothing back, and says so; if nothing was renamed, nothing ever will be."""
    rename, names = store.fs._rename_exact, {}

    def interrupted(source: str, target: str, overwrite: bool) -> None:
        names.update(source=source, target=target)
        if renames:
            rename(source, target, overwrite)
        raise interrupt("of a signal handler")

    out = store.fs.create(old, atomic=True)
    out.write(NEW)
    monkeypatch.setattr(store.fs, "_rename_exact", interrupted)
    with pytest.raises(interrupt) as raised:
        out.close()
    noted = [f"published all the same: '{names['target']}'"] if renames else []
    assert getattr(raised.value, "__notes__", []) == noted
    assert store.read(old) == (NEW if renames else OLD)
    assert left(store) == []


@pytest.mark.rule("ATOM-9")
@pytest.mark.stores(*FILES)
def test_a_failure_names_the_path(store: Store, path: str):
    """A store that is full: the path that the caller knows, not the hidden one."""
    out = store.fs.create(path, atomic=True)

    def write() -> None:
        for _ in range(256):
            out.write(bytes(1 << 20))
        out.close()

    with store.full(1 << 20), pytest.raises(OSError, match=store.full_text) as failure:
        write()
    assert failure.value.filename == path
    out.abort()
    assert left(store) == []


@pytest.mark.rule("ATOM-9")
@pytest.mark.stores("raw", "crc")
@pytest.mark.parametrize("left_over", [0, 1])
def test_a_create_without_descriptors_names_the_path(
    store: Store, path: str, monkeypatch: pytest.MonkeyPatch, left_over: int
):
    """Where the rename is tried, and where the file is locked."""
    descriptors, open_one = iter(range(left_over)), os.open

    def scarce(name: Any, *options: Any, **more: Any) -> int:
        if str(name).endswith(".atomic.tmp") and next(descriptors, None) is None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), name)
        return open_one(name, *options, **more)

    monkeypatch.setattr(os, "open", scarce)
    with pytest.raises(OSError, match="Too many open files") as failure:
        hflush.FileSystem.new_instance(store.fs.uri).create(path, atomic=True)
    assert failure.value.filename == path
    assert left(store) == []


# --- close, abort and other threads --------------------------------------------------------------


@pytest.mark.rule("ATOM-9")
@pytest.mark.stores("raw", "crc")
def test_close_and_abort_race(store: Store, path: str):
    """Exactly one wins: the new file and `already_closed`, or the old file and a quiet close."""
    outcomes = set()
    for number in range(200):
        content = b"%d" % number
        before = store.content(path) if number else None
        out = store.fs.create(path, atomic=True)
        out.write(content)
        closing = Task(out.close)
        if number % 3:
            time.sleep(0)
        aborted = not out.abort().already_closed
        closing.result()
        found = store.content(path) if store.fs.exists(path) else None
        assert found == (before if aborted else content)
        assert left(store) == []
        outcomes.add(aborted)
        if aborted and before is None:
            store.write(path, b"first")
    assert outcomes == {False, True} or len(outcomes) == 1


@pytest.mark.shim
@pytest.mark.rule("ATOM-9")
def test_who_closes_second_waits(faults, store: Store, old: str):
    """A second close returns when the file is published, not before."""
    out = store.fs.create(old, atomic=True)
    out.write(NEW)
    with faults.gate("rename") as gate:
        first = Task(out.close)
        gate.wait_for(1)
        second = Task(out.close)
        assert out.closed
        assert first.is_alive()
        assert second.is_alive()
    first.result()
    second.result()
    assert store.read(old) == NEW


@pytest.mark.rule("ATOM-9")
@pytest.mark.stores(*FILES)
def test_a_forked_child_publishes_nothing(store: Store, old: str):
    """The file is the parent's to close, or to drop; its lock of it, too."""
    out = store.fs.create(old, atomic=True)
    out.write(b"parent")
    child = os.fork()
    if child == 0:
        try:
            out.close()
            os._exit(0 if out.closed else 2)
        except BaseException:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.read(old) == OLD
    out.close()
    assert store.read(old) == b"parent"
    assert left(store) == []


# --- writers that die ----------------------------------------------------------------------------

WRITE = """
out = fs.create(path, atomic=True)
out.write(b'x' * 3_000_000)
out.flush()
"""


@pytest.mark.rule("ATOM-9")
def test_a_killed_writer(store: Store, old: str):
    """kill -9: the old file, and at most a hidden one; the next atomic create removes it."""
    peer = store.spawn()
    peer.run(WRITE, path=old)
    peer.kill()
    assert store.read(old) == OLD
    assert len(temporaries(store)) == (store.name != "s3")
    fs = store.fs
    if store.name == "hdfs":  # as the NameNode does after the hard limit of the lease
        fs = hflush.FileSystem.new_instance(
            store.url(), {**store.conf, "hflush.atomic.sweep-after": "0s"}
        )
        store.take_over(store.path(*temporaries(store)))
    with fs.create(store.path("other"), atomic=True) as out:
        out.write(b"new")
    assert left(store) == ["other"] if store.name != "crc" else [".other.crc", "other"]
    assert store.read(old) == OLD


@pytest.mark.rule("ATOM-9")
@pytest.mark.stores(*FILES)
def test_a_living_writer_is_left_alone(store: Store, old: str):
    """However long it writes: other atomic creates in the directory do not touch its file."""
    conf = {**store.conf, "hflush.atomic.sweep-after": "0s"}
    peer = store.spawn()
    peer.run(WRITE, path=old)
    mine = store.fs.create(store.path("mine"), atomic=True)
    for number in range(3):  # each looks, for each is the first of its file system
        fs = hflush.FileSystem.new_instance(store.url(), conf)
        with fs.create(store.path(f"other-{number}"), atomic=True) as out:
            out.write(b"new")
        fs.close()
    assert len(temporaries(store)) == 1
    peer.run("out.close()")
    assert store.read(old) == b"x" * 3_000_000
    mine.write(b"mine")
    mine.close()
    assert store.read(store.path("mine")) == b"mine"


@pytest.mark.rule("ATOM-9")
@pytest.mark.stores("raw", "crc")
def test_only_what_was_written_aside_is_swept(store: Store, path: str):
    """Other hidden files stay, those of checkpoints and of Spark too, and directories."""
    keep = [
        ".file.tmp",
        ".file.0123abcd-0000-4000-8000-000000000000.tmp",
        ".file.0123456789abcdef0123456789abcdeX.atomic.tmp",
        "file.0123456789abcdef0123456789abcdef.atomic.tmp",
    ]
    for name in keep:
        open(store.path(name), "w").close()
    os.mkdir(store.path(".dir.0123456789abcdef0123456789abcdef.atomic.tmp"))
    gone = [".file.0123456789abcdef0123456789abcdef.atomic.tmp"]
    gone.append(os.path.basename(sidecar(gone[0])))
    for name in gone:
        open(store.path(name), "w").close()
    store.fs.create(path, atomic=True).close()
    assert set(left(store)) == {*keep, ".dir.0123456789abcdef0123456789abcdef.atomic.tmp"}


@pytest.mark.shim
@pytest.mark.rule("ATOM-9")
def test_a_writer_whose_file_is_swept_too_early(faults, store: Store, old: str):
    """Between its creation and its lock a temporary file may be removed: another one is made."""
    claimed = store.fs._claim
    lost: list[str] = []

    def claim(temporary: str) -> object:
        if not lost:
            lost.append(temporary)
            os.unlink(temporary)
        return claimed(temporary)

    store.fs._claim = claim
    with store.fs.create(old, atomic=True) as out:
        out.write(b"new")
    assert lost
    assert store.read(old) == b"new"
    assert left(store) == []


@pytest.mark.rule("ATOM-9")
@pytest.mark.stores("hdfs")
def test_a_writer_that_closes_while_others_sweep(store: Store, old: str):
    """Between its last block and its rename a file is closed, and looked old when it was listed."""
    keys = {**store.conf, "hflush.atomic.sweep-after": "3s"}
    others = hflush.FileSystem.new_instance(store.url(), keys)
    gone = store.fs.create(store.path("a"), atomic=True)
    out = store.fs.create(old, atomic=True)
    out.write(NEW)
    listed = list(others._following(store.root, others._page(store.root, ".", False), False))
    assert [status.name.split(".")[1] for status in listed[:2]] == ["a", "file"]
    gone.abort()  # is passed over
    latest = listed[1].modification_time / 1000 + 3
    wait_until(lambda: time.time() > latest, "the file is old")

    class Publication(type(out._aside.publication)):
        def _rename(self) -> None:
            others._following = lambda *_: iter(listed)
            others._sweep(store.root)
            super()._rename()

    out._aside.publication.__class__ = Publication
    out.close()
    assert store.read(old) == NEW


# --- refused creates -----------------------------------------------------------------------------


def times(store: Store, path: str) -> tuple[int, int]:
    status = store.fs.get_file_status(path)
    return status.modification_time_ns, status.length


@pytest.mark.rule("CREATE-23")
@pytest.mark.parametrize("atomic", [False, True], ids=["in place", "atomic"])
@pytest.mark.parametrize(
    "refused",
    [
        {"fs.unknown.option": 1},
        {"permission": 0o10000},
        {"replication": "three"},
        {"block_size": -1},
        {"checksum_type": "MD5"},
        {"bytes_per_checksum": 0},
        {"progress": 5},
        {"nonsense": 1},
    ],
    ids=lambda options: next(iter(options)),
)
def test_a_refused_create_leaves_the_old_file(
    store: Store, old: str, refused: dict[str, object], atomic: bool
):
    """An unknown or malformed option: old bytes, old times, nothing besides."""
    before = times(store, old)
    with pytest.raises((ValueError, TypeError)):
        store.fs.create(old, atomic=atomic, **refused)
    assert times(store, old) == before
    assert store.read(old) == store.content(old) == OLD
    assert left(store) == []


@pytest.mark.rule("CREATE-23")
@pytest.mark.stores("raw", "crc")
@pytest.mark.parametrize("atomic", [False, True], ids=["in place", "atomic"])
def test_a_create_without_permission(store: Store, atomic: bool):
    """In another user's directory: PermissionError, the old file, sums included, as it was."""
    with store.public_directory() as directory:
        path = store.write(f"{directory}/file", OLD)
        os.chmod(path, 0o644)
        os.chmod(directory, 0o755)
        before = store.on_disk(directory), os.stat(path).st_mtime_ns
        peer = store.unprivileged()
        with pytest.raises(PermissionError):
            peer.run("fs.create(path, atomic=atomic)", path=path, atomic=atomic)
        assert (store.on_disk(directory), os.stat(path).st_mtime_ns) == before
        assert store.read(path) == OLD


@pytest.mark.rule("CREATE-23")
@pytest.mark.stores("crc")
def test_sums_that_cannot_be_removed(store: Store):
    """A create without sums where the old ones have to stay: the old file stays, too."""
    with store.public_directory() as directory:
        path = store.write(f"{directory}/file", OLD)
        os.chmod(path, 0o666)
        os.chmod(directory, 0o755)  # no entry of it may go
        peer = store.unprivileged()
        with pytest.raises(PermissionError):
            peer.run("fs.create(path, checksum_type='NULL')", path=path)
        assert store.read(path) == OLD


@pytest.mark.rule("CREATE-23")
@pytest.mark.stores("s3")
def test_a_failed_condition(store: Store, old: str):
    """Another version than the one to be replaced: refused, at the latest by close."""
    before = times(store, old)
    with (
        pytest.raises(hflush.PreconditionFailedError),
        store.fs.create(old, if_match="0" * 32) as out,
    ):
        out.write(NEW)
    assert times(store, old) == before
    assert store.read(old) == OLD
