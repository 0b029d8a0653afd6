"""Streams that go on at a token: persist(), hflush.resume(), hflush.commit()."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import hflush
import pytest
from hflush import capabilities
from hflush.errors import ConcurrentWriterError
from hflush.local import resuming
from hflush.tokens import Token
from support.data import dataset
from support.stores import S3Store, Store
from support.waiting import DEADLINE_S

SMALL, LARGE = 100, (11 << 20) + 4321  # less than a part; two parts and more

can_persist = pytest.mark.stores("raw", "hdfs", "s3")


def settings(store: Store) -> dict[str, str]:
    return {**store.conf, "fs.s3a.multipart.size": "5m"}


def client(store: Store) -> hflush.FileSystem:
    """Return another client, as another process has."""
    return hflush.FileSystem.new_instance(store.url(), settings(store))


def leave(out: hflush.FSDataOutputStream) -> None:
    """Drop a stream as a process does that dies."""
    out._abandon()
    if out._held is not None:
        out._held.release()


@can_persist
@pytest.mark.parametrize("size", [0, SMALL, LARGE], ids=["empty", "small", "large"])
def test_goes_on_at_the_exact_byte(store: Store, size: int) -> None:
    path, kept, lost = store.path("f"), dataset(size), dataset(3 * SMALL + size // 2)
    out = client(store).create(path)
    out.write(kept)
    token = out.persist()
    out.write(lost)
    out.flush()
    leave(out)
    for end in (b"first", b"the second one"):
        resumed = hflush.resume(token, conf=settings(store))
        assert resumed.tell() == size
        assert resumed.mode == "ab"
        resumed.write(end)
        if end == b"first":
            leave(resumed)
    resumed.close()
    assert store.content(path) == kept + b"the second one"
    assert store.on_disk() == ["f"]


@can_persist
@pytest.mark.parametrize("size", [0, SMALL, LARGE], ids=["empty", "small", "large"])
def test_commit_publishes_what_the_token_has(store: Store, size: int) -> None:
    path, kept = store.path("f"), dataset(size)
    out = client(store).create(path)
    out.write(kept)
    token = out.persist()
    out.write(b"dropped")
    leave(out)
    for _ in range(3):
        hflush.commit(token, conf=settings(store))
        assert store.content(path) == kept
    assert store.on_disk() == ["f"]


@can_persist
def test_commit_after_close(store: Store) -> None:
    path = store.path("f")
    out = client(store).create(path)
    out.write(b"all of it")
    token = out.persist()
    out.close()
    hflush.commit(token, conf=settings(store))
    assert store.content(path) == b"all of it"


@can_persist
def test_every_token_of_a_stream_is_good(store: Store) -> None:
    path, content = store.path("f"), dataset(LARGE)
    out = client(store).create(path)
    tokens = []
    for begin in range(0, LARGE, LARGE // 7):
        out.write(content[begin : begin + LARGE // 7])
        tokens.append((out.persist(), out.tell()))
    leave(out)
    for token, length in (tokens[-1], tokens[3], tokens[0]):
        resumed = hflush.resume(token, conf=settings(store))
        assert resumed.tell() == length
        token_of_resumed = resumed.persist()
        leave(resumed)
        assert Token.unpack(token_of_resumed).length == length
    hflush.commit(token, conf=settings(store))
    assert store.content(path) == content[: tokens[0][1]]


@can_persist
def test_while_others_write(store: Store) -> None:
    """The token is for whole records, those before it included, in the order of the file."""
    path = store.path("f")
    out = client(store).create(path)
    done = threading.Event()

    def write(letter: bytes) -> None:
        while not done.is_set() and out.tell() < LARGE:
            out.write(letter * 70)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    tokens = [out.persist() for _ in range(6)]
    done.set()
    for thread in threads:
        thread.join()
    leave(out)
    lengths = [Token.unpack(token).length for token in tokens]
    assert lengths == sorted(lengths)
    assert lengths[-1] > 0
    hflush.commit(tokens[-1], conf=settings(store))
    content = store.content(path)
    assert len(content) == lengths[-1]
    assert re.fullmatch(rb"((a{70})|(b{70})|(c{70}))*", content[: len(content) // 70 * 70])


@pytest.mark.stores("raw")
def test_a_living_writer_keeps_its_local_file(store: Store) -> None:
    out = client(store).create(store.path("f"))
    token = out.persist()
    for call in (hflush.resume, hflush.commit):
        with pytest.raises(hflush.LeaseHeldError, match="end it first"):
            call(token, conf=settings(store))
    out.write(b"alive")
    out.close()
    assert store.content(store.path("f")) == b"alive"
    hflush.resume(token, conf=settings(store)).close()
    assert store.content(store.path("f")) == b""


@pytest.mark.stores("raw")
def test_a_forked_child_does_not_keep_a_file_that_is_closed(store: Store) -> None:
    out = client(store).create(store.path("f"))
    out.write(b"kept")
    token = out.persist()
    out.write(b"dropped")
    waits, end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        os.read(waits, 1)
        os._exit(0)
    out.close()
    hflush.commit(token, conf=settings(store))
    os.close(end)
    os.close(waits)
    os.waitpid(child, 0)
    assert store.content(store.path("f")) == b"kept"


# Dies; a child that it has forked lives on until its input ends.
DIES = """
import os, signal, sys
import hflush

out, summed = (hflush.create(url) for url in sys.argv[1:])
out.write(b"kept")
print(out.persist().hex(), flush=True)
summed.write(bytes(1 << 20))
summed.flush()
if os.fork() == 0:
    print("child", flush=True)
    sys.stdin.read()
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.stores("raw")
def test_a_child_of_a_writer_that_dies_is_no_writer(store: Store) -> None:
    """Others go on with the file; readers of sums take nothing for what is still being written."""
    path, summed = store.path("f"), store.path("summed")
    command = [sys.executable, "-c", DIES, path, f"file+crc://{summed}"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        token, child = (process.stdout.readline().strip() for _ in range(2))
        assert child == "child"
        process.wait(DEADLINE_S)
        hflush.commit(bytes.fromhex(token), conf=settings(store))
        with open(summed, "r+b") as file:
            file.write(b"damage")
        with pytest.raises(hflush.ChecksumError), hflush.open(f"file+crc://{summed}") as damaged:
            damaged.read(100)
        process.stdin.close()
    assert store.content(path) == b"kept"


@pytest.mark.stores("raw")
@pytest.mark.parametrize("closes_first", [False, True])
def test_a_stream_that_is_closed_keeps_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, closes_first: bool
) -> None:
    """Also where it is closed while persist() takes the lock."""
    out = client(store).create(store.path("f"))
    out.write(b"kept")
    held = resuming.held

    def slowly(path: str) -> Any:
        if closes_first:
            out.close()
        return held(path)

    monkeypatch.setattr(resuming, "held", slowly)
    token = out.persist()
    monkeypatch.undo()
    out.close()
    hflush.commit(token, conf=settings(store))
    assert store.content(store.path("f")) == b"kept"


@pytest.mark.stores("hdfs")
def test_a_living_writer_loses_its_lease(store: Store) -> None:
    path = store.path("f")
    out = client(store).create(path)
    out.write(b"kept")
    token = out.persist()
    out.write(b"the zombie's")
    out.hflush()
    resumed = client(store).resume(token)
    resumed.write(b", the heir's")
    resumed.hsync()
    with pytest.raises(OSError):  # noqa: PT011, PT012 -- of the pipeline, or the lease
        out.write(b"more")
        out.close()
    leave(out)
    resumed.close()
    assert store.content(path) == b"kept, the heir's"


@pytest.mark.stores("hdfs")
@pytest.mark.parametrize("by_another", [False, True])
def test_a_block_that_is_being_shortened_is_left_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch, by_another: bool
) -> None:
    """A lease recovery that begins meanwhile can leave replicas that never have one length."""
    path, fs, was_open = store.path("f"), client(store), []
    out = client(store).create(path)
    out.write(b"kept")
    token = out.persist()
    out.write(b", and what is cut")
    out.hsync()
    leave(out)
    if by_another:  # which dies in the middle of its resume
        store.take_over(path)
        assert not client(store).truncate(path, len(b"kept"))
    recover = fs._recover_lease

    def watched(*arguments: Any) -> bool:
        was_open.append(not fs.is_file_closed(path))
        return recover(*arguments)

    monkeypatch.setattr(fs, "_recover_lease", watched)
    fs.resume(token).close()
    # Of the dead writer, and after the cut.
    assert was_open == ([False] if by_another else [True, False])
    assert store.content(path) == b"kept"


@pytest.mark.stores("hdfs")
def test_a_living_writer_of_the_same_client_is_ended(store: Store) -> None:
    path, fs = store.path("f"), client(store)
    out = fs.create(path)
    out.write(b"kept")
    token = out.persist()
    resumed = fs.resume(token)
    with pytest.raises(hflush.StreamClosedError):
        out.write(b"more")
    resumed.write(b" and new")
    resumed.close()
    assert store.content(path) == b"kept and new"


@pytest.mark.stores("hdfs")
@pytest.mark.parametrize("call", ["resume", "commit"])
def test_a_writer_of_the_same_client_fails_for_what_is_cut(store: Store, call: str) -> None:
    """Its close, too."""
    path, fs = store.path("f"), client(store)
    out = fs.create(path)
    out.write(b"kept")
    token = out.persist()
    out.write(b" and cut")
    out.hsync()
    later = getattr(fs, call)(token)
    for end in (lambda: out.write(b"more"), out.close):
        with pytest.raises(hflush.LeaseLostError, match="from a token"):
            end()
    assert out.close() is None
    if later is not None:
        later.close()
    assert store.content(path) == b"kept"


@pytest.mark.stores("raw", "hdfs")
@pytest.mark.parametrize("by_another", [True, False], ids=["by another", "by its own client"])
def test_what_is_refused_before_the_cut_leaves_the_file(store: Store, by_another: bool) -> None:
    """Its writer, too, where it would lose its lease."""
    path, own = store.path("f"), client(store)
    out = own.create(path)
    out.write(b"kept ")
    token = out.persist()
    out.write(b"behind")
    out.hflush()
    if store.name == "raw":
        out.close()
    refusal = ConcurrentWriterError("overtaken")

    def refuse() -> None:
        raise refusal

    fs = client(store) if by_another else own
    for go_on in (fs._resume_unless, fs._commit_unless):
        with pytest.raises(ConcurrentWriterError) as refused:
            go_on(token, refuse)
        assert refused.value is refusal
    out.close()
    assert store.read(path) == b"kept behind"


@pytest.mark.stores("hdfs")
@pytest.mark.parametrize("call", ["_resume_unless", "_commit_unless"])
@pytest.mark.parametrize(
    ("by_id", "swapped_at"),
    [(True, 1), (True, 2), (False, 2)],
    ids=["before the recovery", "before the cut", "before the cut, at a router"],
)
def test_a_file_that_takes_the_path_meanwhile_is_left_alone(
    store: Store, call: str, by_id: bool, swapped_at: int
) -> None:
    """It is neither cut nor taken from its writer, also where the id leads elsewhere."""
    path, calls = store.path("f"), []
    fs: Any = client(store)
    if not by_id:
        fs._native = Router(fs._native)
    out = fs.create(path)
    out.write(b"kept")
    token = out.persist()
    out.write(b", and what is cut")
    out.close()
    other = client(store).create(store.path("other"))
    other.write(b"another file, longer than the first")
    other.hsync()

    def swap() -> None:
        calls.append(call)
        if len(calls) == swapped_at:
            store.fs.rename(path, store.path("moved"))
            store.fs.rename(store.path("other"), path)

    with pytest.raises(hflush.StaleTokenError, match="another file"):
        getattr(fs, call)(token, swap)
    other.write(b", and on")
    other.close()
    assert store.content(path) == b"another file, longer than the first, and on"


@pytest.mark.stores("s3")
def test_of_two_writers_the_first_to_publish_wins(store: Store) -> None:
    path, kept = store.path("f"), dataset(LARGE)
    out = client(store).create(path)
    out.write(kept)
    token = out.persist()
    other = client(store).resume(token)
    other.write(b"the heir's")
    out.write(b"zombie's..")
    other.close()
    with pytest.raises(FileNotFoundError, match=r"NoSuchUpload|no such upload"):
        out.close()
    assert store.content(path) == kept + b"the heir's"


@pytest.mark.stores("s3")
@pytest.mark.parametrize("algorithm", ["CRC32C", "NONE"])
def test_as_many_other_bytes(store: Store, algorithm: str) -> None:
    """Only what a token has is its publication, also where the store tells no sum."""
    path, conf = store.path("f"), {"fs.s3a.create.checksum.algorithm": algorithm}
    conf |= settings(store)
    out = hflush.create(store.url(path), conf=conf)
    out.write(b"kept, ")
    kept = out.persist()
    out.write(b"zombie's..")
    zombies = out.persist()
    leave(out)
    heir = hflush.resume(kept, conf=conf)
    heir.write(b"the heir's")
    heirs = heir.persist()
    leave(heir)
    hflush.commit(zombies, conf=conf)
    with pytest.raises(hflush.StaleTokenError, match="these bytes are not at the key"):
        hflush.commit(heirs, conf=conf)
    hflush.commit(zombies, conf=conf)
    assert store.content(path) == b"kept, zombie's.."


@can_persist
def test_a_file_that_was_replaced(store: Store) -> None:
    path = store.path("f")
    out = client(store).create(path)
    out.write(b"the first file")
    token = out.persist()
    out.close()
    store.fs.delete(path)
    for is_there in (False, True):
        if is_there:
            store.write(path, b"another file, longer than the first")
        for call in (hflush.resume, hflush.commit):
            with pytest.raises(hflush.StaleTokenError, match="cannot be used") as refused:
                call(token, conf=settings(store))
            assert refused.value.filename == Token.unpack(token).url
    assert store.content(path) == b"another file, longer than the first"


@pytest.mark.stores("raw", "hdfs")
def test_a_file_that_lost_bytes(store: Store) -> None:
    path = store.path("f")
    out = client(store).create(path)
    out.write(b"0123456789")
    token = out.persist()
    out.close()
    store.fs.truncate(path, 5)
    store.settle(path)
    with pytest.raises(hflush.StaleTokenError, match="has 5 bytes only"):
        hflush.resume(token, conf=settings(store))
    assert store.content(path) == b"01234"


@pytest.mark.stores("raw")
def test_a_file_with_other_bytes(store: Store) -> None:
    path = store.path("f")
    out = client(store).create(path)
    out.write(b"0123456789")
    token = out.persist()
    out.close()
    Path(path).write_bytes(b"01234five6789")
    with pytest.raises(hflush.StaleTokenError, match="other bytes"):
        hflush.resume(token, conf=settings(store))


@can_persist
def test_a_token_of_something_else(store: Store, tmp_path: Path) -> None:
    out = client(store).create(store.path("f"))
    out.write(b"x")
    token = out.persist()
    leave(out)
    here = hflush.FileSystem.get(store.url(), settings(store))
    if store.name == "raw":
        crc = hflush.FileSystem.get("file+crc:///")
        with pytest.raises(ValueError, match="does not belong to"):
            crc.resume(token)
    else:
        raw = hflush.FileSystem.get("file:///")
        with pytest.raises(ValueError, match=f"of 1 bytes of {re.escape(out.name)} on"):
            raw.commit(token)
        found = Token.unpack(token)
        elsewhere = found.url.replace("://", "://other-", 1)
        foreign = Token(found.store, elsewhere, found.length, found.state).pack()
        with pytest.raises(ValueError, match="wrong file system"):
            here.resume(foreign)
    if store.name == "hdfs":
        state = {**found.state, "pool": "BP-1-127.0.0.1-1"}
        with pytest.raises(ValueError, match="belongs to another cluster"):
            here.resume(Token(found.store, found.url, 1, state).pack())


class Router:
    """A client of a NameNode that answers as a router does: each file is in a pool of its own."""

    def __init__(self, native: Any) -> None:
        self._native = native

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def block_pool(self, path: str) -> str:
        return f"BP-{path}"


@pytest.mark.stores("hdfs")
def test_a_token_has_the_pool_of_its_own_file(store: Store) -> None:
    fs: Any = client(store)
    fs._native = Router(fs._native)
    for path in (store.path("a"), store.path("b")):
        with fs.create(path) as out:
            out.write(b"x")
            token = out.persist()
        with fs.resume(token) as out:
            again = out.persist()
        pools = {Token.unpack(found).state["pool"] for found in (token, again)}
        assert pools == {f"BP-{path}"}


@can_persist
def test_a_token_has_no_secret_and_says_what_it_is_for(store: Store) -> None:
    out = client(store).create(store.path("f"))
    out.write(dataset(SMALL))
    token = out.persist()
    leave(out)
    document = json.loads(token)
    assert document["version"] == 1
    assert document["length"] == SMALL
    assert document["url"].endswith(store.path("f"))
    if isinstance(store, S3Store):
        assert store.s3.server.secret_key not in token.decode()


@pytest.mark.stores("crc", "mem")
def test_stores_that_cannot(store: Store) -> None:
    with store.fs.create(store.path("f")) as out:
        assert not out.has_capability(capabilities.PERSIST)
        with pytest.raises(io.UnsupportedOperation, match="persist"):
            out.persist()
        out.write(b"goes on")
    assert store.read(store.path("f")) == b"goes on"
    assert not store.fs.has_path_capability(store.path("f"), capabilities.PERSIST)


@can_persist
def test_capability(store: Store) -> None:
    out = store.fs.create(store.path("f"))
    assert out.has_capability(capabilities.PERSIST.upper())
    out.close()
    with pytest.raises(hflush.StreamClosedError):
        out.persist()
    assert store.fs.has_path_capability(store.path("f"), capabilities.PERSIST)


@pytest.mark.stores("raw", "hdfs")
def test_atomic_files_cannot(store: Store) -> None:
    with store.fs.create(store.path("f"), atomic=True) as out:
        assert not out.has_capability(capabilities.PERSIST)
        with pytest.raises(io.UnsupportedOperation, match="atomic"):
            out.persist()


@pytest.mark.stores("s3")
@pytest.mark.parametrize("closed", ["with", "file system"])
def test_an_exception_leaves_what_was_persisted(store: Store, closed: str) -> None:
    """And so does a close() that comes after it, which does nothing."""
    path, content = store.path("f"), dataset(LARGE + SMALL)
    tokens, fs = [], client(store)
    out = fs.create(path)

    def fail() -> None:
        with out:
            out.write(content)
            tokens.append(out.persist())
            if closed == "file system":
                with pytest.raises(OSError, match="not published"):
                    fs.close()
            raise RuntimeError("the job fails")

    with pytest.raises(RuntimeError):
        fail()
    out.close()
    with hflush.resume(tokens[0], conf=settings(store)) as out:
        out.write(b"end")
    assert store.content(path) == content + b"end"


@pytest.mark.stores("s3")
@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_abort_ends_what_was_persisted(store: Store, size: int) -> None:
    out = client(store).create(store.path("f"))
    out.write(dataset(size))
    token = out.persist()
    assert len(store.fs.list_multipart_uploads(store.root)) == 1
    result = out.abort()
    assert result.cleanup_exception is None
    assert store.fs.list_multipart_uploads(store.root) == []
    assert store.on_disk() == []
    for call in (hflush.resume, hflush.commit):
        with pytest.raises(hflush.StaleTokenError, match="upload"):
            call(token, conf=settings(store))


@pytest.mark.stores("s3")
def test_the_condition_of_creation_holds(store: Store) -> None:
    path = store.path("f")
    out = client(store).create(path, overwrite=False)
    out.write(b"late")
    token = out.persist()
    leave(out)
    store.write(path, b"there before")
    with pytest.raises(FileExistsError):
        hflush.commit(token, conf=settings(store))
    resumed = hflush.resume(token, conf=settings(store))
    with pytest.raises(FileExistsError):
        resumed.close()
    assert store.content(path) == b"there before"


@pytest.mark.stores("s3")
def test_a_tail_that_is_gone(store: Store) -> None:
    out = client(store).create(store.path("f"))
    out.write(b"the tail")
    token = out.persist()
    leave(out)
    (tail,) = store.on_disk()
    assert tail.startswith(".f.")
    store.fs.delete(store.path(tail))
    with pytest.raises(hflush.StaleTokenError, match="last bytes is gone"):
        hflush.resume(token, conf=settings(store))
