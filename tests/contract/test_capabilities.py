"""CAP: a probe tells the truth, and nothing else does."""

from __future__ import annotations

import contextlib
import io
import locale
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

import hflush
import pytest
from faults.shim.control import Faults
from hflush import capabilities
from support.documentation import docstring
from support.stores import FILES, Store
from support.waiting import Task, together

Stream = hflush.FSDataOutputStream

TRUE_OF_STREAMS = {
    "raw": {"hsync", "hflush", "iostatistics"},
    "crc": {"iostatistics"},
    "hdfs": {"hsync", "hflush", "iostatistics", capabilities.END_BLOCK},
    "s3": {capabilities.ABORTABLE, "iostatistics"},
    "mem": {"iostatistics"},
}
TRUE_OF_PATHS = {
    "raw": {
        capabilities.APPEND,
        capabilities.TRUNCATE,
        capabilities.PERMISSIONS,
        capabilities.MULTIPART_UPLOADER,
    },
    "crc": {capabilities.PERMISSIONS, capabilities.CHECKSUMS},
    "hdfs": {
        capabilities.APPEND,
        capabilities.TRUNCATE,
        capabilities.CONCAT,
        capabilities.PERMISSIONS,
        capabilities.CHECKSUMS,
        capabilities.LEASE_RECOVERABLE,
    },
    "s3": {
        capabilities.ABORTABLE,
        capabilities.ETAGS_AVAILABLE,
        capabilities.MULTIPART_UPLOADER,
    },
    "mem": {capabilities.APPEND, capabilities.PERMISSIONS, capabilities.MULTIPART_UPLOADER},
}
OPTIONAL_OF_PATHS = {
    capabilities.BULK_DELETE,
    capabilities.PATH_HANDLES,
    capabilities.SYMLINKS,
    capabilities.CHECKSUMS,
    capabilities.PERSIST,  # not Hadoop's
}
ALL_NAMES = sorted(
    value for name, value in vars(capabilities).items() if name.isupper() and isinstance(value, str)
)
STREAM_NAMES = (
    *("hsync", "hflush", "dropbehind", "iostatistics"),
    *(capabilities.ABORTABLE, capabilities.END_BLOCK),
)

OPERATIONS: dict[str, Callable[[Stream], object]] = {
    "hsync": lambda out: out.hsync(),
    "hflush": lambda out: out.hflush(),
    "dropbehind": lambda out: out.set_drop_behind(True),
    capabilities.ABORTABLE: lambda out: out.abort(),
    capabilities.END_BLOCK: lambda out: out.hsync(end_block=True),
    "iostatistics": lambda out: out.io_statistics(),
}


def spellings(name: str) -> list[str]:
    return [name, name.upper(), name.title(), name.title().swapcase()]


@pytest.mark.rule("CAP-1")
@pytest.mark.parametrize("name", STREAM_NAMES)
def test_probe_ignores_case(store: Store, out: Stream, name: str) -> None:
    """CAP-1: names compare without regard to case."""
    assert len({out.has_capability(spelling) for spelling in spellings(name)}) == 1


@pytest.fixture(scope="session")
def turkish(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What makes a process Turkish: the system's locale, or one compiled for these tests."""
    with contextlib.suppress(locale.Error):
        before = locale.setlocale(locale.LC_CTYPE)
        locale.setlocale(locale.LC_CTYPE, "tr_TR.UTF-8")
        locale.setlocale(locale.LC_CTYPE, before)
        return {"LC_ALL": "tr_TR.UTF-8"}
    directory = tmp_path_factory.mktemp("locales")
    compiled = directory / "tr_TR.UTF-8"
    if shutil.which("localedef") is not None:
        command = ["localedef", "--no-archive", "-i", "tr_TR", "-f", "UTF-8", str(compiled)]
        subprocess.run(command, check=False, capture_output=True)
    chosen = {"LC_ALL": "tr_TR.UTF-8", "LOCPATH": str(directory)}
    choose = [sys.executable, "-c", "import locale; locale.setlocale(locale.LC_ALL, '')"]
    tried = subprocess.run(choose, env={**os.environ, **chosen}, check=False, capture_output=True)
    if tried.returncode == 0:
        return chosen
    pytest.skip("no Turkish locale, and nothing to compile one from")


@pytest.mark.rule("CAP-1")
def test_probe_is_independent_of_locale(store: Store, path: str, turkish: dict[str, str]) -> None:
    """CAP-1: under a Turkish locale I and i are one letter, and dotless ones are others."""
    peer = store.spawn(**turkish)
    answers = peer.run(
        "import locale\n"
        "chosen = locale.setlocale(locale.LC_ALL, '')\n"
        "out = fs.create(path)\n"
        "result = [chosen, *(out.has_capability(name) for name in names)]\n"
        "out.close()\n",
        path=path,
        names=["IOSTATISTICS", "iostatistics", "\u0131ostat\u0131st\u0131cs", "\u0130OSTATISTICS"],
    )
    assert answers == ["tr_TR.UTF-8", True, True, False, False]


@pytest.mark.rule("CAP-2", "HFLUSH-14", "DROP-3", "ABORT-9")
def test_answers_of_the_store(store: Store, out: Stream) -> None:
    """CAP-2: the streams of a store answer as the contract's table and the options say."""
    answers = {name for name in STREAM_NAMES if out.has_capability(name)}
    assert answers - {"dropbehind"} == TRUE_OF_STREAMS[store.name]
    options = store.options
    assert out.has_capability("hsync") is options["supports-hsync"]
    assert out.has_capability("hflush") is options["supports-hflush"]
    assert out.has_capability("dropbehind") is options["supports-dropbehind"]
    assert out.has_capability(capabilities.ABORTABLE) is options["supports-abort"]


@pytest.mark.rule("CAP-3")
@pytest.mark.parametrize(
    "name",
    ["", " ", "nosuch", "in:readahead", "in:unbuffer", "hsync ", "fs.capability.nosuch", "hsync\0"],
)
def test_unknown_name_is_not_a_capability(out: Stream, name: str) -> None:
    """CAP-3: the unknown, the empty and the unsupported never answer True."""
    assert out.has_capability(name) is False


@pytest.mark.rule("CAP-3")
@pytest.mark.parametrize("name", [None, 1, b"hsync", ["hsync"]])
def test_name_must_be_a_string(out: Stream, name: object) -> None:
    """CAP-3: a name that is not a str is a TypeError."""
    with pytest.raises(TypeError):
        out.has_capability(name)  # type: ignore[arg-type]


@pytest.mark.rule("CAP-4")
def test_probe_of_a_closed_stream_answers(out: Stream) -> None:
    """CAP-4: on a closed stream the probe gives the open stream's answer or False."""
    open_answers = {name: out.has_capability(name) for name in STREAM_NAMES}
    out.close()
    for name, answer in open_answers.items():
        assert out.has_capability(name) in {answer, False}


@pytest.mark.rule("CAP-4")
def test_probe_of_a_failed_stream_answers(store: Store, failed: Stream) -> None:
    """CAP-4: on a failed stream the probe does not raise, before close and after."""
    assert failed.has_capability("nosuch") is False
    assert isinstance(failed.has_capability("hsync"), bool)
    with pytest.raises(OSError, match=store.full_text):
        failed.close()
    assert isinstance(failed.has_capability("hsync"), bool)


@pytest.mark.rule("CAP-4", "CAP-15", "STATS-6")
@pytest.mark.shim
def test_probe_does_not_wait_for_close(store: Store, faults: Faults, path: str) -> None:
    """CAP-4, 15: while close waits for the store, probes, tell and statistics answer at once."""
    out = store.fs.create(path)
    out.write(b"abc")
    with faults.gate("write") as gate:
        closing = Task(out.close)
        gate.wait_for(1)
        assert Task(out.has_capability, "iostatistics").result() in {True, False}
        assert Task(out.tell).result() == 3
        assert Task(lambda: dict(out.io_statistics().counters)).result()["stream_write_bytes"] == 3
        assert closing.is_alive()
    closing.result()


@pytest.mark.rule("CAP-15", "STATS-6")
@pytest.mark.stores("raw")
@pytest.mark.shim
def test_probe_does_not_wait_for_hsync(store: Store, faults: Faults, path: str) -> None:
    """CAP-15: while hsync waits for the disk, probes, tell, statistics and write go on."""
    out = store.fs.create(path)
    out.write(b"abc")
    with faults.gate("sync", path="*/file") as gate:
        syncing = Task(out.hsync)
        gate.wait_for(1)
        assert Task(out.has_capability, "hsync").result() is True
        assert Task(out.tell).result() == 3
        assert Task(lambda: dict(out.io_statistics().counters)).result()["stream_write_bytes"] == 3
        assert Task(out.write, b"more").result() == 4
        assert syncing.is_alive()
    syncing.result()
    out.close()
    assert store.read(path) == b"abcmore"


@pytest.mark.rule("CAP-15")
def test_probes_are_thread_safe(store: Store, out: Stream) -> None:
    """CAP-15: eight threads probing while one writes get the same answers."""
    expected = [out.has_capability(name) for name in STREAM_NAMES]

    def probe() -> bool:
        return all(
            [out.has_capability(name) for name in STREAM_NAMES] == expected for _ in range(200)
        )

    def write() -> bool:
        return all(out.write(bytes(700)) == 700 for _ in range(200))

    assert together(write, *[probe] * 8) == [True] * 9


@pytest.mark.rule("CAP-5", "CAP-12", "DROP-3", "ABORT-9")
@pytest.mark.rule("HFLUSH-1", "HSYNC-1", refused=("crc", "s3"))
@pytest.mark.rule("DROP-2", refused=("raw", "crc", "s3"))
@pytest.mark.rule("ABORT-1", refused=FILES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_probe_and_behaviour_agree(store: Store, path: str, out: Stream, name: str) -> None:
    """CAP-5: True means the call is not rejected; False means it raises and the stream goes on."""
    out.write(b"kept")
    if out.has_capability(name):
        OPERATIONS[name](out)
    else:
        with pytest.raises(io.UnsupportedOperation) as caught:
            OPERATIONS[name](out)
        assert path in str(caught.value)
        assert not out.closed
    out.close()
    aborted = name == capabilities.ABORTABLE and out.has_capability(name)
    assert store.visible(path) == (b"" if aborted else b"kept")


@pytest.mark.rule("CAP-6")
def test_hflush_answers_as_hsync(out: Stream) -> None:
    """CAP-6: the deprecated name has the same answer, and the docs say which to ask for."""
    assert out.has_capability(capabilities.HFLUSH) is out.has_capability(capabilities.HSYNC)
    assert 'has_capability("hsync")' in docstring(Stream.hflush)


@pytest.mark.rule("CAP-7")
@pytest.mark.stores("raw", "crc", "hdfs", "s3")
@pytest.mark.parametrize("name", ALL_NAMES)
def test_names_follow_the_scheme(name: str) -> None:
    """CAP-7: names are Hadoop's plain ones, shared `fs.capability.` ones, or `in:` for input."""
    plain = {"hsync", "hflush", "dropbehind", "iostatistics"}
    schemes = "|".join(("file", "hdfs", "s3a"))
    pattern = rf"(fs\.(capability|option)\.|fs\.({schemes})\.|in:)[a-z.]+"
    assert name in plain or re.fullmatch(pattern, name)


@pytest.mark.rule("CAP-8")
@pytest.mark.parametrize("buffer_size", [None, 0])
def test_stream_answers_for_its_buffering(store: Store, path: str, buffer_size: int | None) -> None:
    """CAP-8: with its own buffer or without, hsync is claimed if and only if it drains it."""
    with store.fs.create(path, buffer_size=buffer_size) as out:
        out.write(b"abc")
        assert out.has_capability("hsync") is store.options["supports-hsync"]
        if out.has_capability("hsync"):
            out.hsync()
            assert store.read(path) == b"abc"


@pytest.mark.rule("CAP-8")
def test_text_wrapper_leads_to_the_probe(store: Store, path: str) -> None:
    """CAP-8: a text wrapper claims nothing itself; drained, its stream's answer holds for it."""
    with hflush.open(store.url(path), "w", encoding="utf-8", conf=store.conf) as text:
        assert not isinstance(text, (hflush.Syncable, hflush.StreamCapabilities))
        assert text.buffer.has_capability("hsync") is store.options["supports-hsync"]
        text.write("abc")
        if text.buffer.has_capability("hsync"):
            text.flush()
            text.buffer.hsync()
            assert store.read(path) == b"abc"
    assert store.read(path) == b"abc"


@pytest.mark.rule("CAP-9", "LOCAL-3")
@pytest.mark.stores("crc")
def test_answer_is_per_stream(store: Store, path: str, out: Stream) -> None:
    """CAP-9: of one file system, a stream without a sidecar can hsync and one with it cannot."""
    store.fs.set_write_checksum(False)
    plain_path = store.path("plain")
    with store.fs.create(plain_path) as plain:
        assert plain.has_capability("hsync")
        assert not out.has_capability("hsync")
        plain.write(b"abc")
        plain.hsync()
        assert store.read(plain_path) == b"abc"


@pytest.mark.rule("CAP-9")
@pytest.mark.stores(*FILES)
def test_answer_is_of_one_stream(store: Store, out: Stream) -> None:
    """CAP-9: of one file system, what publishes at close can be aborted and not synced."""
    for name, plain, of_atomic in (
        (capabilities.ABORTABLE, False, True),
        ("hsync", store.options["supports-hsync"], False),
    ):
        with store.fs.create(store.path("atomic"), atomic=True) as atomic:
            assert out.has_capability(name) is plain
            assert atomic.has_capability(name) is of_atomic
            with contextlib.nullcontext() if of_atomic else pytest.raises(io.UnsupportedOperation):
                OPERATIONS[name](atomic)


@pytest.mark.rule("CAP-9")
@pytest.mark.stores("s3")
def test_answer_depends_on_how_a_stream_was_created(store: Store, out: Stream) -> None:
    """CAP-9: of one file system, a stream whose publication is left to others says so."""
    name = "fs.s3a.capability.magic.output.stream"
    with store.fs.create_pending(store.path("pending")) as pending:
        assert pending.has_capability(name)
        assert not out.has_capability(name)
    assert pending.pending_commit is not None
    store.fs.abort_pending(pending.pending_commit)


@pytest.mark.rule("CAP-10", "CAP-11")
def test_interfaces_prove_nothing(store: Store, out: Stream) -> None:
    """CAP-10, 11: every stream has the interfaces, whatever it can do."""
    for interface in (
        hflush.Syncable,
        hflush.StreamCapabilities,
        hflush.CanSetDropBehind,
        hflush.Abortable,
    ):
        assert isinstance(out, interface)
        assert isinstance(out, Stream)
        assert not isinstance(io.BytesIO(), interface)
    assert isinstance(out, io.BufferedIOBase)


@pytest.mark.rule("CAP-10")
@pytest.mark.stores("raw", "crc", "hdfs")
def test_syncable_need_not_be_a_stream() -> None:
    """CAP-10: anything with hflush and hsync is Syncable."""

    class Log:
        def hflush(self) -> None: ...

        def hsync(self) -> None: ...

    assert isinstance(Log(), hflush.Syncable)
    assert not isinstance(Log(), hflush.StreamCapabilities)

    class Journal(hflush.Syncable):
        """A program's own, which others are not."""

    assert isinstance(Journal(), hflush.Syncable)
    assert not isinstance(Log(), Journal)


@pytest.mark.rule("CAP-13")
def test_path_probe_has_no_effect(store: Store) -> None:
    """CAP-13: the path need not exist, nothing is made, and append on a directory probes as any."""
    missing = store.path("no", "such")
    for name in ALL_NAMES:
        answer = store.fs.has_path_capability(missing, name)
        assert answer is store.fs.has_path_capability(store.root, name)
        assert answer is store.fs.has_path_capability("/", name.upper())
    assert store.fs.has_path_capability(missing, "fs.capability.paths.nosuch") is False
    assert store.fs.list_status(store.root) == []


@pytest.mark.rule("CAP-13")
@pytest.mark.shim
def test_path_probe_asks_no_store(store: Store, faults: Faults) -> None:
    """CAP-13: no request is made."""
    before = faults.position
    for name in ALL_NAMES:
        store.fs.has_path_capability(store.path("any"), name)
    assert faults.calls(since=before) == []


@pytest.mark.rule("CAP-14")
def test_true_path_capabilities(store: Store) -> None:
    """CAP-14: the set of True answers is the contract's."""
    answers = {name for name in ALL_NAMES if store.fs.has_path_capability(store.root, name)}
    paths = {name for name in answers if name.startswith("fs.capability.")}
    required = TRUE_OF_PATHS[store.name]
    assert required <= paths | {capabilities.MULTIPART_UPLOADER}
    assert paths <= required | OPTIONAL_OF_PATHS | {capabilities.MULTIPART_UPLOADER}


@pytest.mark.rule("CAP-14")
def test_true_path_capabilities_work(store: Store, path: str) -> None:
    """CAP-14: what is answered True works, and what is not raises UnsupportedOperation."""
    store.write(path, b"abc")
    fs = store.fs
    calls: dict[str, Callable[[], object]] = {
        capabilities.APPEND: lambda: fs.append(path).close(),
        capabilities.CONCAT: lambda: fs.concat(path, [store.write(store.path("more"), b"d")]),
        capabilities.TRUNCATE: lambda: fs.truncate(path, 0),
        capabilities.MULTIPART_UPLOADER: lambda: fs.create_multipart_uploader(store.root).close(),
        capabilities.LEASE_RECOVERABLE: lambda: fs.recover_lease(path),
        capabilities.BULK_DELETE: lambda: fs.bulk_delete(store.root).page_size,
        capabilities.PATH_HANDLES: lambda: fs.get_path_handle(fs.get_file_status(path)),
    }
    if fs.has_path_capability(path, capabilities.PERMISSIONS):
        fs.set_permission(path, 0o600)
    for name, call in calls.items():
        if fs.has_path_capability(path, name):
            call()
        else:
            with pytest.raises(io.UnsupportedOperation):
                call()


@pytest.mark.rule("CAP-14")
def test_older_names_mean_the_same(store: Store) -> None:
    """CAP-14: older spellings (A-19) have the same answer."""
    for older, name in (
        ("fs.capability.append", capabilities.APPEND),
        ("fs.capability.truncate", capabilities.TRUNCATE),
        ("fs.capability.concat", capabilities.CONCAT),
    ):
        answers = [store.fs.has_path_capability(store.root, each) for each in (older, name)]
        assert answers[0] is answers[1]


@pytest.mark.rule("CAP-16")
def test_empty_path_capability_name_is_refused(store: Store) -> None:
    """CAP-16: the empty name is a ValueError, None a TypeError."""
    with pytest.raises(ValueError, match="empty"):
        store.fs.has_path_capability(store.root, "")
    with pytest.raises(TypeError):
        store.fs.has_path_capability(store.root, None)  # type: ignore[arg-type]


@pytest.mark.rule("CAP-10")
def test_interfaces_of_input_streams(store: Store) -> None:
    """CAP-10: a reader is Seekable, PositionedReadable and CanUnbuffer; None is not a method."""
    store.write(store.path("file"), b"data")
    with store.fs.open(store.path("file")) as reader:
        assert isinstance(reader, hflush.Seekable)
        assert isinstance(reader, hflush.PositionedReadable)
        assert isinstance(reader, hflush.CanUnbuffer)
        assert not isinstance(reader, hflush.Syncable)

    class Withdrawn(hflush.FSDataOutputStream):
        hsync = None

    assert not issubclass(Withdrawn, hflush.Syncable)
    assert issubclass(Withdrawn, hflush.Abortable)
    assert not issubclass(Withdrawn, hflush.PositionedReadable)


@pytest.mark.rule("CAP-5", "CAP-7")
def test_input_streams_fill_buffers_of_the_caller(store: Store, path: str) -> None:
    """Both names of Hadoop's ByteBuffer reads are True, and both reads fill the buffer."""
    store.write(path, bytes(range(200)))
    with store.fs.open(path) as reader:
        assert reader.has_capability(capabilities.READBYTEBUFFER)
        assert reader.has_capability("IN:PReadByteBuffer")
        buffer = bytearray(10)
        assert reader.readinto(buffer) == 10
        assert buffer == bytes(range(10))
        assert reader.pread_into(100, memoryview(buffer)[:8]) == 8
        assert buffer == bytes(range(100, 108)) + bytes([8, 9])
        assert reader.tell() == 10
        assert reader.pread_into(195, buffer) == 5
        assert reader.pread_into(200, buffer) == 0
        assert reader.pread_into(1 << 70, buffer) == 0
        with pytest.raises(hflush.SeekError):
            reader.pread_into(-1, buffer)
        with pytest.raises((TypeError, BufferError, ValueError)):
            reader.pread_into(0, b"read-only")  # type: ignore[arg-type]
    with pytest.raises(hflush.StreamClosedError):
        reader.pread_into(0, buffer)
    with store.fs.create(path) as out:
        assert out.has_capability(capabilities.PREADBYTEBUFFER) is False
