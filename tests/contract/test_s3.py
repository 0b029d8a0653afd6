"""S3: writing, where it differs from other stores. What appears appears at close, whole.

Aborts are in test_s3_aborts.py, failures in test_s3_failures.py, names in test_s3_names.py.
"""

from __future__ import annotations

import errno
import io
import json
import re
import threading
from collections.abc import Callable, Iterator

import conformance
import hflush
import pytest
from support.data import dataset
from support.documentation import docstring, page, table_in
from support.fault_proxy import FaultProxy
from support.interrupts import waits_in_kernel
from support.s3_front import answer, hold
from support.stores import S3Store
from support.waiting import Task, together, wait_until

Stream = hflush.FSDataOutputStream

MIB = 1 << 20
PART = 5 * MIB

pytestmark = pytest.mark.stores("s3")


@pytest.fixture
def fs(store: S3Store, s3_proxy: FaultProxy) -> hflush.FileSystem:
    """A FileSystem whose requests are counted, with blocks of 5 MiB."""
    return store.behind(s3_proxy)


@pytest.fixture
def held(s3_proxy: FaultProxy) -> Iterator[threading.Event]:
    """An event; uploads that a test holds until it is set go on after the test."""
    event = threading.Event()
    yield event
    event.set()


# --- write and flush ---


@pytest.mark.rule("WRITE-8", "CREATE-19", "FLUSH-3", "FLUSH-4", "FLUSH-5")
@pytest.mark.rule("OBJ-1", "FLUSH-6", "FLUSH-7", divergence="s3")
def test_nothing_is_sent_before_there_is_a_block(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str
) -> None:
    """Small writes, writes of nothing and flushes ask nothing of the store; close sends it all."""
    assert store.options["is-blobstore"] is True
    assert store.options["create-visibility-delayed"] is True
    assert store.options["flush-makes-visible"] is False
    out = fs.create(path)
    before = len(s3_proxy.log)
    for _ in range(1000):
        out.write(dataset(10))
        out.flush()
    assert [out.write(b""), out.write(b"abc", 1, 0)] == [0, 0]
    assert out.tell() == 10_000
    counters = out.io_statistics().counters
    assert (counters.get("op_hflush", 0), counters.get("op_hsync", 0)) == (0, 0)
    assert s3_proxy.log[before:] == []
    assert not store.exists(path)
    assert not fs.exists(path)
    with pytest.raises(FileNotFoundError):
        fs.get_file_status(path)
    out.close()
    assert store.content(path) == dataset(10) * 1000
    with pytest.raises(hflush.StreamClosedError):
        out.write(b"")


@pytest.mark.rule("OBJ-1", "CREATE-1", "CREATE-3", "CREATE-18", "READ-18", divergence="s3")
@pytest.mark.rule("READ-12", refused="s3")
@pytest.mark.rule("STATUS-14")
def test_the_old_object_stays_until_close(store: S3Store, path: str) -> None:
    """Declared divergence: readers have the previous object, and its length, until close."""
    assert store.options["open-file-visible"] is False
    store.write(path, b"old")
    out = store.fs.create(path, overwrite=True)
    out.write(dataset(20 * MIB))
    out.flush()
    assert store.content(path) == store.read(path) == b"old"
    assert store.fs.get_file_status(path).length == 3
    assert [found.length for found in store.fs.list_status(store.root)] == [3]
    other = store.fs.create(store.path("new"))
    other.write(b"x")
    with pytest.raises(FileNotFoundError):
        store.fs.open(store.path("new"))
    assert store.on_disk() == ["file"]
    out.close()
    other.close()
    assert store.content(path) == dataset(20 * MIB)
    assert store.on_disk() == ["file", "new"]


@pytest.mark.rule("OBJ-4", "CLOSE-16", "OBJ-5")
@pytest.mark.parametrize(
    ("size", "parts"), [(0, []), (1, []), (PART - 1, []), (PART + 1, [PART, 1])]
)
def test_one_request_for_what_is_small(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str, size: int, parts
) -> None:
    """What fits into a block is one PUT; the rest is an upload of parts."""
    with fs.create(path) as out:
        out.write(dataset(size))
    assert s3_proxy.count("PutObject") == (0 if parts else 1)
    aborted = s3_proxy.count("AbortMultipartUpload")  # of a store that repeats no checksums
    assert s3_proxy.count("CreateMultipartUpload") - aborted == (1 if parts else 0)
    assert s3_proxy.count("CompleteMultipartUpload") == (1 if parts else 0)
    sent = sorted(s3_proxy.calls("UploadPart"), key=lambda call: call.part or 0)
    assert [len(call.body) for call in sent] == parts
    assert store.content(path) == dataset(size)
    assert store.second_client().run("read(path)", path=path) == dataset(size)


@pytest.mark.rule("CLOSE-15", "OBJ-4")
@pytest.mark.rule("OBJ-1", divergence="s3")
def test_blocks_go_up_before_close(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str
) -> None:
    """Whole blocks are uploaded while the caller writes; nothing of them is seen before close."""
    out = fs.create(path)
    for _ in range(3):
        out.write(dataset(PART))
    s3_proxy.wait_for("UploadPart", 2)
    assert s3_proxy.count("CompleteMultipartUpload") == 0
    assert not store.exists(path)
    wait_until(
        lambda: out.io_statistics().counters["stream_write_block_uploads_committed"] >= 2,
        "two blocks are there",
    )
    out.close()
    assert store.content(path) == dataset(PART) * 3
    assert store.uploads() == []


@pytest.mark.rule("OBJ-6")
def test_parts_are_in_order_however_they_end(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str, held: threading.Event
) -> None:
    """Part 1 fails twice and ends last: numbers and content are in order, repeats are the same."""
    s3_proxy.fail("UploadPart", answer(500, "InternalError"), part=1, times=2)
    s3_proxy.fail("UploadPart", hold(held), part=1)
    pieces = [bytes([number]) * PART for number in (1, 2, 3)]
    out = fs.create(path)
    for piece in pieces:
        out.write(piece)
    s3_proxy.wait_for("UploadPart", part=2)
    s3_proxy.wait_for("UploadPart", part=3)
    s3_proxy.wait_for("UploadPart", 3, part=1)
    held.set()
    out.close()
    assert store.content(path) == b"".join(pieces)
    first = s3_proxy.calls("UploadPart", part=1)
    assert len(first) == 3
    assert {call.body for call in first} == {pieces[0]}
    (complete,) = s3_proxy.calls("CompleteMultipartUpload")
    numbers = re.findall(rb"<PartNumber>(\d+)</PartNumber>", complete.body)
    assert numbers == [b"1", b"2", b"3"]


@pytest.mark.rule("OBJ-7")
@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("fs.s3a.multipart.size", "large"),
        ("fs.s3a.fast.upload.active.blocks", "0"),
        ("fs.s3a.fast.upload.buffer", "tape"),
        ("hflush.s3.multipart.parts", "0"),
        ("hflush.s3.multipart.parts", "10001"),
    ],
)
def test_options_are_checked(store: S3Store, path: str, key: str, wrong: str) -> None:
    """Sizes, numbers and kinds out of range are a ValueError that names the key."""

    def use() -> None:
        client = hflush.FileSystem.new_instance(store.url(), {**store.conf, key: wrong})
        client.create(path).abort()

    with pytest.raises(ValueError, match=re.escape(key)):
        use()
    assert store.on_disk() == []


@pytest.mark.rule("OBJ-7", "WRITE-22")
@pytest.mark.parametrize("buffer", ["disk", "array", "adaptive"])
def test_where_blocks_wait(store: S3Store, path: str, buffer: str, tmp_path) -> None:
    """Blocks on disk or in memory: the same object, and nothing stays behind."""
    client = store.client(
        fs_s3a_fast_upload_buffer=buffer,
        fs_s3a_buffer_dir=str(tmp_path),
        fs_s3a_multipart_size="5M",
        fs_s3a_fast_upload_active_blocks="1",
    )
    data = dataset(2 * PART + 77, 1, 250)
    with client.create(path) as out:
        out.write(data)
    assert store.content(path) == data
    assert list(tmp_path.iterdir()) == []


@pytest.mark.rule("WRITE-22")
@pytest.mark.parametrize("buffer", ["disk", "array"])
def test_back_pressure(
    store: S3Store, s3_proxy: FaultProxy, path: str, held: threading.Event, buffer: str
) -> None:
    """A store that does not answer stops the writer within the blocks that it may have."""
    s3_proxy.fail("UploadPart", hold(held), times=None)
    client = store.behind(
        s3_proxy,
        fs_s3a_fast_upload_buffer=buffer,
        fs_s3a_fast_upload_active_blocks="2",
    )
    out = client.create(path)
    piece = dataset(MIB)
    total = 40
    accepted: list[int] = []

    def write_all() -> None:
        for number in range(total):
            out.write(piece)
            accepted.append(number)

    writing = Task(write_all)
    s3_proxy.wait_for("UploadPart", 2)
    thread = writing.native_id
    assert thread is not None
    wait_until(lambda: waits_in_kernel(thread), "the writer waits in the kernel")
    assert writing.is_alive()
    assert 2 * PART <= len(accepted) * MIB <= 4 * PART
    held.set()
    writing.result()
    out.close()
    assert store.content(path) == piece * total


@pytest.mark.rule("LIM-2", "WRITE-14", "LIM-1")
def test_the_largest_object_is_known_before_it_is_reached(
    store: S3Store, s3_proxy: FaultProxy, path: str
) -> None:
    """Part n+1 of n is refused when it begins: the error names limit and option; no object."""
    client = store.behind(s3_proxy, hflush_s3_multipart_parts="2")
    out = client.create(path)

    def use() -> None:
        with out:
            for _ in range(30):
                out.write(dataset(MIB))

    with pytest.raises(OSError, match=r"2 parts|parts: 2") as refusal:
        use()
    assert refusal.value.filename == store.filename(path)
    assert "fs.s3a.multipart.size" in str(refusal.value)
    assert not store.exists(path)
    assert store.uploads() == []


# --- hflush, hsync and append ---


@pytest.mark.rule("OBJ-11", "HFLUSH-1", "HSYNC-1", "HFLUSH-8", "HSYNC-6", refused="s3")
@pytest.mark.rule("STATS-7")
def test_syncs_are_refused(store: S3Store, path: str) -> None:
    """hflush and hsync are refused by name, on an open stream and on a closed one."""
    out = store.fs.create(path)
    out.write(b"a")
    for sync in (out.hflush, out.hsync):
        assert not out.has_capability(sync.__name__)
        with pytest.raises(io.UnsupportedOperation, match=sync.__name__):
            sync()
    out.write(b"b")
    out.close()
    for sync in (out.hflush, out.hsync):
        with pytest.raises((hflush.StreamClosedError, io.UnsupportedOperation)):
            sync()
    assert store.content(path) == b"ab"


@pytest.mark.rule("OBJ-11", "HFLUSH-1", refused="s3")
@pytest.mark.rule("STATS-7")
def test_downgraded_syncs_are_counted(store: S3Store, s3_proxy: FaultProxy, path: str) -> None:
    """With the option both return, are counted and warned of once, and send nothing."""
    client = store.behind(s3_proxy, **{"fs_s3a_downgrade_syncable_exceptions": "true"})
    out = client.create(path)
    out.write(b"a")
    before = len(s3_proxy.log)
    syncs = [out.hflush, out.hsync] * 3
    with pytest.warns(RuntimeWarning, match="does nothing on s3") as warned:
        assert [sync() for sync in syncs] == [None] * 6
    assert len(warned) == 1
    assert s3_proxy.log[before:] == []
    counters = out.io_statistics().counters
    assert (counters["op_hflush"], counters["op_hsync"]) == (3, 3)
    assert not out.has_capability("hsync")
    assert not out.has_capability("hflush")
    assert not store.exists(path)
    out.close()
    assert store.content(path) == b"a"


@pytest.mark.rule(
    "APPEND-1", "APPEND-4", "APPEND-18", "EXTRA-1", "EXTRA-2", "EXTRA-10", "READ-22", refused="s3"
)
def test_what_there_is_not(store: S3Store, path: str) -> None:
    """Append, concat, truncate and msync are refused by name; the object is as it was."""
    store.write(path, b"kept")
    assert store.options["supports-append"] is False
    assert store.options["supports-concat"] is False
    for capability in ("append", "concat", "truncate"):
        assert not store.fs.has_path_capability(path, f"fs.capability.paths.{capability}")
    calls: dict[str, Callable[[], object]] = {
        "append": lambda: store.fs.append(path),
        "append by builder": lambda: store.fs.append_file(path).build(),
        "concat": lambda: store.fs.concat(path, [store.path("other")]),
        "truncate": lambda: store.fs.truncate(path, 1),
        "msync": store.fs.msync,
        "path_handle": lambda: store.fs.get_path_handle(
            store.fs.get_file_status(path), changed=True, moved=True
        ),
    }
    for name, call in calls.items():
        with pytest.raises(io.UnsupportedOperation, match=name.split()[0]):
            call()
    assert store.content(path) == b"kept"


@pytest.mark.rule("DROP-1", "DROP-2", refused="s3")
@pytest.mark.parametrize("value", [True, False, None])
def test_there_is_no_cache_to_drop(store: S3Store, path: str, value: bool | None) -> None:
    """set_drop_behind is refused, and the stream stays usable."""
    assert store.options["supports-dropbehind"] is False
    with store.fs.create(path) as out:
        with pytest.raises(io.UnsupportedOperation, match="set_drop_behind"):
            out.set_drop_behind(value)
        out.write(b"a")
    assert store.content(path) == b"a"


@pytest.mark.rule("CAP-7")
def test_capabilities_have_their_prefixes(store: S3Store, path: str) -> None:
    """What is S3's alone begins with fs.s3a; the other names are Hadoop's."""
    from hflush import capabilities

    names = [value for name, value in vars(capabilities).items() if name.isupper()]
    ours = [name for name in names if isinstance(name, str) and "s3" in name]
    assert ours
    assert all(name.startswith("fs.s3a.") for name in ours)
    assert store.fs.has_path_capability(path, "fs.capability.etags.available")
    with store.fs.create(path) as out:
        assert not out.has_capability("fs.s3a.no.such.thing")


# --- close ---


@pytest.mark.rule("CLOSE-2", "CLOSE-12", "CLOSE-14", "CONC-11")
@pytest.mark.parametrize("operation", ["PutObject", "CompleteMultipartUpload"])
def test_close_waits_for_the_store(
    store: S3Store,
    s3_proxy: FaultProxy,
    fs: hflush.FileSystem,
    path: str,
    held: threading.Event,
    operation: str,
) -> None:
    """Close returns when the object is there and durable; other threads run meanwhile."""
    assert store.options["sync-on-close"] is True
    size = 10 if operation == "PutObject" else PART + 1
    s3_proxy.fail(operation, hold(held))
    out = fs.create(path)
    out.write(dataset(size))
    closing = Task(out.close)
    s3_proxy.wait_for(operation)
    ticks: list[int] = []
    Task(lambda: ticks.extend(range(1000))).result()
    assert len(ticks) == 1000
    assert closing.is_alive()
    assert not store.exists(path)
    with pytest.raises(hflush.StreamClosedError):
        out.write(b"x")
    assert out.flush() is None
    held.set()
    closing.result()
    assert store.content(path) == dataset(size)


@pytest.mark.rule("CLOSE-5", "CLOSE-22")
@pytest.mark.parametrize("size", [10, PART + 1])
def test_one_close_publishes(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str, size: int
) -> None:
    """Eight threads close: the object is published once, and later closes ask nothing."""
    out = fs.create(path)
    out.write(dataset(size))
    assert together(*[out.close] * 8) == [None] * 8
    assert s3_proxy.count("PutObject") + s3_proxy.count("CompleteMultipartUpload") == 1
    before = len(s3_proxy.log)
    assert [out.close() for _ in range(3)] == [None] * 3
    assert s3_proxy.log[before:] == []
    assert store.content(path) == dataset(size)


@pytest.mark.rule("CLOSE-20", divergence="s3")
@pytest.mark.parametrize("size", [10, 2 * PART])
def test_closing_the_filesystem_publishes_nothing(store: S3Store, path: str, size: int) -> None:
    """Declared divergence: open streams are aborted, and the caller is told: OSError."""
    client = store.new_client()
    out = client.create(path)
    out.write(dataset(size))
    with pytest.raises(OSError, match="not published") as told:
        Task(client.close).result()
    assert (told.value.errno, told.value.filename) == (errno.ECANCELED, store.filename(path))
    assert out.closed
    assert not store.exists(path)
    wait_until(lambda: store.uploads() == [], "the upload is aborted")
    with pytest.raises(hflush.StreamClosedError):
        out.write(b"x")
    assert out.close() is None
    assert not store.exists(path)


# --- two writers ---


@pytest.mark.rule("DELETE-10", "CONC-8", "RENAME-30")
@pytest.mark.parametrize("event", ["deleted", "renamed"])
def test_what_happens_to_the_old_object_does_not_matter(
    store: S3Store, path: str, event: str
) -> None:
    """The object that a writer replaces is deleted or renamed: close publishes at the path."""
    store.write(path, b"old")
    out = store.fs.create(path)
    out.write(b"new")
    if event == "deleted":
        assert store.fs.delete(path) is True
        assert not store.exists(path)
    else:
        store.fs.rename(path, store.path("moved"), hflush.Rename.NONE)
    out.write(b"er")
    out.close()
    assert store.content(path) == b"newer"
    assert store.on_disk() == (["file"] if event == "deleted" else ["file", "moved"])


@pytest.mark.rule("CONC-7", "CREATE-11", "CREATE-22", "OBJ-3", divergence="s3")
def test_the_last_to_close_wins(store: S3Store, path: str) -> None:
    """Declared divergence: two writers of a path both write; the last close is what is there."""
    assert store.options["single-writer"] is False
    assert str(store.options["create-check-at"]).startswith("commit")
    mine = store.fs.create(path)
    peer = store.second_client()
    peer.run("out = fs.create(path); out.write(data)", path=path, data=b"theirs" * MIB)
    mine.write(b"mine" * MIB)
    mine.close()
    assert store.content(path) == b"mine" * MIB
    peer.run("out.close()")
    assert store.content(path) == b"theirs" * MIB


@pytest.mark.rule("ATOM-1", "BUILDER-16")
@pytest.mark.rule("OBJ-2", "OBJ-3", "CREATE-2", "CREATE-11", "CREATE-22", divergence="s3")
@pytest.mark.parametrize("size", [0, 10, PART + 1])
def test_the_first_to_close_wins_without_overwrite(store: S3Store, path: str, size: int) -> None:
    """Of two creators without overwrite the later close is FileExistsError; nothing changes."""
    assert store.options["conditional-create"] is store.s3.is_conditional
    client = store.client(fs_s3a_multipart_size="5M")
    first = client.create(path, overwrite=False)
    second = client.create(path, overwrite=False)
    first.write(dataset(size))
    second.write(b"second" + dataset(size))
    assert not store.exists(path)
    first.close()
    with pytest.raises(FileExistsError) as refusal:
        second.close()
    assert refusal.value.filename == store.filename(path)
    assert store.content(path) == dataset(size)
    assert store.uploads() == []
    with pytest.raises(FileExistsError):
        client.create(path, overwrite=False)


@pytest.mark.rule("ATOM-1", "BUILDER-16")
@pytest.mark.rule("CREATE-22", divergence="s3")
@pytest.mark.parametrize("size", [1, PART + 1])
def test_one_of_many_creators_wins(store: S3Store, path: str, size: int) -> None:
    """Closed at once, one of six streams without overwrite publishes; the others are told.

    Where the store does not check those in parts, several may: they do not see each other in time.
    """
    client = store.client(fs_s3a_multipart_size="5M")
    contents = [bytes([number]) * size for number in range(6)]
    streams = [client.create(path, overwrite=False) for _ in contents]
    for stream, content in zip(streams, contents, strict=True):
        stream.write(content)

    def close(stream: Stream) -> bool:
        try:
            stream.close()
        except FileExistsError:
            return False
        return True

    won = together(*(lambda stream=stream: close(stream) for stream in streams))
    assert won.count(True) == 1 or (size > PART and not store.s3.is_conditional)
    assert store.content(path) in [contents[number] for number in range(6) if won[number]]
    assert store.uploads() == []


@pytest.mark.rule("BUILDER-16", "BUILDER-13", "CLOSE-17", "BUILDER-15")
@pytest.mark.parametrize("size", [0, 10, PART + 1])
def test_an_etag_must_be_what_it_was(store: S3Store, path: str, size: int) -> None:
    """With an etag only that object is replaced: else PreconditionFailedError, or not found."""
    client = store.client(fs_s3a_multipart_size="5M")
    name = "fs.option.create.conditional.overwrite.etag"

    def begin(etag: str) -> Stream:
        out = client.create_file(path).must(name, etag).build()
        assert out.has_capability(name)
        out.write(dataset(size))
        return out

    store.write(path, b"old")
    etag = store.fs.get_file_status(path).etag
    assert etag
    if not store.s3.is_conditional:
        with pytest.raises(ValueError, match="does not check"):
            begin(etag)
        assert store.content(path) == b"old"
        return
    right = begin(etag)
    right.close()
    assert store.content(path) == dataset(size)
    late = begin(etag)
    with pytest.raises(hflush.PreconditionFailedError) as refusal:
        late.close()
    assert refusal.value.filename == store.filename(path)
    assert store.content(path) == dataset(size)
    store.fs.delete(path)
    gone = begin(etag)
    with pytest.raises(FileNotFoundError):
        gone.close()
    assert not store.exists(path)
    with pytest.raises(ValueError, match="etag"):
        client.create_file(path).must(name, "").build()
    assert store.uploads() == []


@pytest.mark.rule("BUILDER-13", "BUILDER-16")
@pytest.mark.rule("OBJ-2", divergence="s3")
def test_the_conditional_option(store: S3Store, path: str) -> None:
    """The option by its name: a stream that has the capability, and loses to what is there."""
    name = "fs.option.create.conditional.overwrite"
    if not store.s3.is_conditional:
        with pytest.raises(ValueError, match="does not check"):
            store.fs.create_file(path).must(name, True).build()
        assert store.on_disk() == []
        return
    out = store.fs.create_file(path).must(name, True).build()
    assert out.has_capability(name)
    out.write(b"mine")
    store.s3.put(store.key(path), b"theirs")
    with pytest.raises(FileExistsError):
        out.close()
    assert store.content(path) == b"theirs"
    store.fs.delete(path)
    with store.fs.create_file(path).must(name, True).build() as again:
        again.write(b"mine")
    assert store.content(path) == b"mine"


@pytest.mark.rule("BUILDER-13", "BUILDER-14")
@pytest.mark.parametrize("size", [10, PART + 1])
def test_what_objects_are_given(store: S3Store, path: str, size: int) -> None:
    """User headers, content type and storage class of a builder are the object's."""
    builder = (
        store.client(fs_s3a_multipart_size="5M")
        .create_file(path)
        .must("fs.s3a.create.header.color", "red")
        .must("fs.option.create.content.type", "text/x-test")
        .opt("fs.s3a.create.performance", True)
    )
    with builder.build() as out:
        out.write(dataset(size))
    found = store.s3.head(store.key(path))
    assert found["Metadata"]["color"] == "red"
    assert found["ContentType"] == "text/x-test"
    assert found["ContentLength"] == size


# --- what is whole ---


@pytest.mark.rule("ATOM-7", "OBJ-5", "CONSIST-10", "WRITE-15")
def test_readers_see_whole_objects(store: S3Store, path: str) -> None:
    """While an object is replaced many times, each read is one of its versions, whole."""
    assert store.options["consistency-interval"] == 0
    versions = [bytes([number]) * (6 * MIB + number) for number in range(8)]
    client = store.client(fs_s3a_multipart_size="5M")
    store.write(path, versions[0])
    done = threading.Event()
    known = set(versions)

    def watch() -> int:
        reads = 0
        while not done.is_set():
            assert store.content(path) in known
            reads += 1
        return reads

    watching = Task(watch)
    for version in versions:
        with client.create(path) as out:
            out.write(version)
        assert store.content(path) == version
    done.set()
    assert watching.result() > 0


@pytest.mark.rule("CONSIST-10", "OBJ-5", "CLOSE-3")
def test_nothing_remembers_that_there_was_nothing(store: S3Store, path: str) -> None:
    """Looked for before it was there, an object is found right after close."""
    for number in range(20):
        target = f"{path}-{number}"
        assert not store.fs.exists(target)
        store.write(target, b"here")
        assert store.read(target) == b"here"
        assert store.second_client().run("read(path)", path=target) == b"here"


@pytest.mark.rule("OBJ-17")
def test_what_is_sent_has_checksums(
    store: S3Store, s3_proxy: FaultProxy, fs: hflush.FileSystem, path: str
) -> None:
    """Each part and object carries its CRC32C, and the store keeps one of the whole.

    Where it does not know that, an MD5 is what it verifies, if the configuration asks for it.
    """
    from base64 import b64encode
    from hashlib import md5

    for size in (10, PART + 1):
        with fs.create(path) as out:
            out.write(dataset(size))
        for call in s3_proxy.calls("PutObject") + s3_proxy.calls("UploadPart"):
            if call.key != store.key(path):
                continue
            if store.s3.keeps_checksums:
                expected = b64encode(hflush.crc.crc32c(call.body).to_bytes(4, "big")).decode()
                assert call.head.get("x-amz-checksum-crc32c") == expected
            else:
                assert call.head.get("content-md5") == b64encode(md5(call.body).digest()).decode()
        found = store.s3.head(store.key(path), ChecksumMode="ENABLED")
        whole = b64encode(hflush.crc.crc32c(dataset(size)).to_bytes(4, "big")).decode()
        assert found.get("ChecksumCRC32C") == (whole if store.s3.keeps_checksums else None)


# --- what is said ---


@pytest.mark.rule("STATS-7", "STATS-8")
def test_statistics_of_an_upload(store: S3Store, path: str) -> None:
    """Blocks, bytes, requests and their ends are counted by Hadoop's names, and add up."""
    client = store.client(fs_s3a_multipart_size="5M")
    with client.create(path) as out:
        out.write(dataset(2 * PART + 10))
    counters = out.io_statistics().counters
    assert counters["stream_write_bytes"] == 2 * PART + 10
    assert counters["stream_write_total_data"] == 2 * PART + 10
    assert counters["stream_write_block_uploads"] == 3
    assert counters["object_multipart_initiated"] == 1
    assert counters["multipart_upload_part_put"] == 3
    assert counters["multipart_upload_part_put_bytes"] == 2 * PART + 10
    assert counters["multipart_upload_completed"] == 1
    assert counters["object_multipart_aborted"] == 0
    aborted = client.create(path)
    aborted.write(dataset(PART))
    aborted.abort()
    assert json.loads(aborted.io_statistics().to_json())
    assert aborted.io_statistics().counters["op_abort"] == 1


@pytest.mark.rule("OBJ-16")
def test_divergences_are_documented() -> None:
    """No drop-in replacement: the pages say so, and have each rule that is kept otherwise here.

    The gate holds docs/conformance.md to what its tool makes: here of what the matrix declares.
    """
    assert "not a drop-in replacement for HDFS" in page("s3-client.md")
    assert "(conformance.md)" in page("s3-client.md")
    rules = json.loads(conformance.RULES.read_text("utf-8"))
    claims = {
        rule["id"]: {"s3": conformance.expectation((rule["id"], "s3"), rule["stores"]["s3"])}
        for rule in rules
        if rule["stores"]["s3"] != "-"
    }
    run = conformance.Run("", "", "", {"test": {"claims": claims, "outcome": "passed"}})
    text = "\n".join(conformance.page(conformance.Conformance(rules, run.tests), run))
    for rule in rules:
        if rule["stores"]["s3"] in "DN":
            shown = table_in(text, f"## {rule['id'].split('-')[0]}")[rule["id"]]["s3"]
            assert shown not in ("holds", "not applicable", *conformance.UNPROVEN)
    assert sum(rule["stores"]["s3"] in "DN" for rule in rules) > 60


@pytest.mark.rule("OBJ-15")
def test_publishing_in_place_is_recommended() -> None:
    """Where a store has no atomic rename, the pages say: publish by close, give up by abort."""
    text = page("semantics.md")
    assert "publishes: one attempt" in text
    assert "nothing will be published; the upload is removed" in text
    assert "Object stores have no atomic rename" in docstring(hflush.checkpoint)
