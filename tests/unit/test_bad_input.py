"""Bad input: wrong types, buffers, numbers, names and options change nothing and are named."""

from __future__ import annotations

import array
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import hflush
import pytest
from support.stores import FILES, Store


@pytest.fixture
def path(store: Store) -> str:
    return store.path("file")


@pytest.fixture
def out(store: Store, path: str) -> Iterator[hflush.FSDataOutputStream]:
    """A stream that must stay open and take `ok`, whatever the test does to it."""
    with store.fs.create(path) as stream:
        yield stream
        assert stream.tell() == 0
        assert stream.write(b"ok") == 2
    assert store.read(path) == b"ok"


@pytest.mark.rule("WRITE-4", "WRITE-11")
@pytest.mark.parametrize("value", [None, "text", 7, 1.5, [1, 2], object(), {}], ids=repr)
def test_what_is_no_buffer(out: hflush.FSDataOutputStream, value: object):
    """str, int, None and other types are TypeError."""
    with pytest.raises(TypeError):
        out.write(value)


@pytest.mark.rule("WRITE-4")
@pytest.mark.parametrize(
    "arguments", [(), (b"x", 0, 1, 2), (b"x", "0"), (b"x", 0, "1"), (b"x", None), (b"x", 0.0)]
)
def test_wrong_arguments_of_write(out: hflush.FSDataOutputStream, arguments: tuple):
    """Too few, too many, and numbers of another type are TypeError."""
    with pytest.raises(TypeError):
        out.write(*arguments)


@pytest.mark.rule("WRITE-11")
@pytest.mark.parametrize(
    "view",
    [memoryview(b"abcdef")[::2], memoryview(b"abcdef")[::-1]],
    ids=["every other", "backwards"],
)
def test_buffers_with_gaps(out: hflush.FSDataOutputStream, view: memoryview):
    """A view that is not contiguous is BufferError or ValueError."""
    with pytest.raises((BufferError, ValueError)):
        out.write(view)


@pytest.mark.rule("WRITE-11")
def test_a_released_view(out: hflush.FSDataOutputStream):
    """A memoryview after release() is ValueError, as elsewhere."""
    view = memoryview(b"abc")
    view.release()
    with pytest.raises((BufferError, ValueError)):
        out.write(view)


@pytest.mark.rule("WRITE-5", "WRITE-6")
@pytest.mark.parametrize(
    ("off", "length"),
    [
        (-1, 1),
        (0, -1),
        (2, 2),
        (4, 0),
        (4, None),
        (0, 4),
        (2**62, 2**62),
        (2**63 - 1, 1),
        (1, 2**63 - 1),
        (2**64, 0),
        (0, 2**64),
        (-(2**64), 1),
    ],
)
def test_bounds_outside_the_buffer(out: hflush.FSDataOutputStream, off: int, length: int | None):
    """Negative and overflowing offsets and lengths are IndexError."""
    with pytest.raises(IndexError):
        out.write(b"abc", off, length)


@pytest.mark.rule("WRITE-6")
def test_bounds_count_bytes(out: hflush.FSDataOutputStream):
    """An array of eight-byte items has eight times as many bytes, and no more."""
    with pytest.raises(IndexError):
        out.write(array.array("d", [1.0, 2.0]), 8, 9)


@pytest.mark.rule("WRITE-1")
@pytest.mark.parametrize("value", [None, "a", b"a", 1.0])
def test_what_is_no_single_byte(out: hflush.FSDataOutputStream, value: object):
    """write_byte takes an int and nothing else."""
    with pytest.raises(TypeError):
        out.write_byte(value)


@pytest.mark.rule("CAP-3")
@pytest.mark.parametrize("name", [None, 7, b"hsync", ["hsync"]])
def test_capabilities_have_names(store: Store, out: hflush.FSDataOutputStream, name: object):
    """A name that is not a str is TypeError, on streams and paths."""
    with pytest.raises(TypeError):
        out.has_capability(name)
    with pytest.raises(TypeError):
        store.fs.has_path_capability(store.root, name)


@pytest.mark.rule("WRITE-21")
def test_an_output_stream_neither_reads_nor_seeks(path: str, out: hflush.FSDataOutputStream):
    """Everything of io that would read, seek or cut is UnsupportedOperation, with the path."""
    calls = {
        "read": out.read,
        "read1": out.read1,
        "readinto": lambda: out.readinto(bytearray(1)),
        "readinto1": lambda: out.readinto1(bytearray(1)),
        "readline": out.readline,
        "readlines": out.readlines,
        "iteration": lambda: list(out),
        "seek": lambda: out.seek(0),
        "truncate": lambda: out.truncate(0),
        "fileno": out.fileno,
        "detach": out.detach,
    }
    for name, call in calls.items():
        with pytest.raises(io.UnsupportedOperation, match=name) as refusal:
            call()
        assert path in str(refusal.value)


@pytest.mark.rule("WRITE-12", "WRITE-13")
def test_a_closed_output_stream(store: Store, path: str):
    """Writes of any form are StreamClosedError with the path; flush and close do nothing."""
    out = store.fs.create(path)
    out.close()
    for attempt in (
        lambda: out.write(b"x"),
        lambda: out.write(b""),
        lambda: out.write(b"x", 0, 1),
        lambda: out.write_byte(1),
        lambda: out.writelines([b"x"]),
    ):
        with pytest.raises(hflush.StreamClosedError) as refusal:
            attempt()
        assert refusal.value.filename == store.filename(path)
        assert path in str(refusal.value)
        assert "closed" in str(refusal.value)
    assert out.flush() is None
    assert out.close() is None
    assert (out.closed, out.writable(), out.tell()) == (True, True, 0)


@pytest.mark.rule("READ-6")
def test_a_closed_input_stream(store: Store, path: str):
    """Reads of any form are StreamClosedError; unbuffer, probes and close are harmless.

    So is seek, where it is declared.
    """
    store.write(path, b"data")
    stream = store.fs.open(path)
    stream.read(1)
    stream.close()
    for attempt in (
        stream.read,
        stream.read1,
        stream.readline,
        stream.readlines,
        stream.peek,
        stream.tell,
        lambda: stream.readinto(bytearray(1)),
        lambda: stream.readinto1(bytearray(1)),
        lambda: stream.pread(0, 1),
        lambda: stream.read_fully(0, 1),
        lambda: stream.read_vectored([(0, 1)]),
        lambda: next(stream),
        lambda: iter(stream),
    ):
        with pytest.raises(hflush.StreamClosedError) as refusal:
            attempt()
        assert refusal.value.filename == store.filename(path)
    if store.options["supports-seek-on-closed-file"]:
        assert stream.seek(0) == 0
    else:
        with pytest.raises(hflush.StreamClosedError, match="seek"):
            stream.seek(0)
    assert stream.unbuffer() is None
    assert stream.close() is None
    assert stream.has_capability("in:unbuffer")


@pytest.mark.rule("READ-10")
def test_bad_arguments_of_reads(store: Store, path: str):
    """Null buffers, bounds outside the buffer, negative positions and lengths; nothing moves."""
    store.write(path, b"data")
    with store.fs.open(path) as stream:
        for buffer in (None, "text", b"constant"):
            with pytest.raises((TypeError, BufferError)):
                stream.readinto(buffer)
        for off, length in ((-1, 1), (0, -1), (0, 5), (5, 0), (2**63, 1)):
            with pytest.raises(IndexError):
                stream.readinto(bytearray(4), off, length)
        with pytest.raises(IndexError):
            stream.pread(0, -1)
        for read in (stream.pread, stream.read_fully):
            with pytest.raises(hflush.SeekError):
                read(-1, 1)
            with pytest.raises(TypeError):
                read("0", 1)
            with pytest.raises(TypeError):
                read(0, None)
        with pytest.raises(ValueError, match="whence"):
            stream.seek(0, 9)
        with pytest.raises(hflush.EndOfFileError):
            stream.read_fully(2, 3)
        assert stream.tell() == 0
        target = bytearray(4)
        assert stream.readinto(target, 1, 2) == 2
        assert target == b"\0da\0"


@pytest.mark.rule("READ-21")
@pytest.mark.parametrize(
    ("ranges", "error"),
    [
        (None, TypeError),
        ([None], TypeError),
        ([("0", 1)], TypeError),
        ([(0, -1)], ValueError),
        ([(-1, 1)], EOFError),
        ([(0, 1, 2)], TypeError),
        ([(0,)], TypeError),
        ([7], TypeError),
        (["ab"], TypeError),
        ([(0.0, 1)], TypeError),
    ],
)
def test_bad_ranges(store: Store, path: str, ranges: object, error: type[Exception]):
    """Vectored reads check their ranges in the call."""
    store.write(path, b"data")
    with store.fs.open(path) as stream, pytest.raises(error):
        stream.read_vectored(ranges)


@pytest.mark.rule("PATH-3", "PATH-5", on=("crc", "hdfs"))
@pytest.mark.rule("PATH-4")
@pytest.mark.parametrize(
    "name",
    [
        "", "/a\0b", "/../a", "a:b",
        pytest.param("/a:b", marks=pytest.mark.stores("crc", "hdfs")),
        pytest.param("/a\x1fb", marks=pytest.mark.stores("crc", "hdfs")),
    ],
)  # fmt: skip
def test_bad_names(store: Store, name: str):
    """A colon, NUL, control characters and a climb above the root are InvalidPathError."""
    for attempt in (
        store.fs.create,
        store.fs.open,
        store.fs.get_file_status,
        store.fs.list_status,
        store.fs.mkdirs,
        store.fs.delete,
        store.fs.exists,
        store.fs.glob_status,
    ):
        with pytest.raises(hflush.InvalidPathError):
            attempt(name)


@pytest.mark.parametrize("name", [None, 7, ["/a"]])
def test_names_of_another_type(store: Store, name: object):
    """Paths are text, bytes or os.PathLike: everything else is TypeError."""
    for attempt in (store.fs.create, store.fs.open, store.fs.mkdirs, store.fs.exists):
        with pytest.raises(TypeError):
            attempt(name)
    with pytest.raises(TypeError):
        store.fs.rename(store.root, name)


@pytest.mark.parametrize("url", ["gopher://host/a", "hdfs2://host/a", "x-y+z:/a"])
def test_unknown_schemes(url: str):
    """UnsupportedFileSystemError names the scheme and what there is."""
    for attempt in (hflush.create, hflush.append, hflush.open, hflush.FileSystem.get):
        with pytest.raises(hflush.UnsupportedFileSystemError, match=url.partition(":")[0][:3]):
            attempt(url)


@pytest.mark.rule("BUILDER-5", "BUILDER-6", "READ-19")
def test_unknown_options(store: Store, path: str):
    """must() with an unknown key is ValueError naming it, before any change; opt() is ignored."""
    with pytest.raises(ValueError, match=r"fs\.test\.something"):
        store.fs.create_file(path).must("fs.test.something", True).build()
    assert not store.fs.exists(path)
    store.fs.create_file(path).opt("fs.test.something", 3).build().close()
    with pytest.raises(ValueError, match=r"fs\.test\.something"):
        store.fs.open_file(path).must("fs.test.something", 1).build()
    store.fs.open_file(path).opt("fs.test.something", 1).build().result().close()


@pytest.mark.parametrize(
    "options",
    [
        {"permission": -1},
        {"permission": 0o10000},
        {"buffer_size": -1},
        {"block_size": 0},
        {"block_size": "many"},
        {"replication": 0},
        {"checksum_type": "MD5"},
        {"sync_on_close": "maybe"},
    ],
    ids=str,
)
def test_values_out_of_range(store: Store, path: str, options: dict):
    """They are ValueError that names the option; nothing is created."""
    with pytest.raises(ValueError, match=next(iter(options)).partition("_")[0]):
        store.fs.create(path, **options)
    assert not store.fs.exists(path)


@pytest.mark.rule("BUILDER-10")
def test_none_in_the_builder(store: Store, path: str):
    """None for permission, progress and checksum is TypeError when it is set."""
    builder = store.fs.create_file(path)
    for setting in (builder.permission, builder.progress, builder.checksum):
        with pytest.raises(TypeError):
            setting(None)
    with pytest.raises(TypeError):
        builder.progress("not callable")


@pytest.mark.parametrize("option", ["OVERWRITE", True, 1])
def test_a_rename_option_of_another_type(store: Store, path: str, option: object):
    """The exact rename takes hflush.Rename and nothing else."""
    store.write(path)
    with pytest.raises(TypeError):
        store.fs.rename(path, store.path("b"), option)
    assert store.fs.exists(path)


def test_conf_of_another_type(store: Store):
    """conf= takes mappings of keys to values."""
    for conf in ({"key": None}, {1: "x"}, {"key": []}, "fs.defaultFS"):
        with pytest.raises((TypeError, ValueError)):
            hflush.FileSystem.get(store.url(), conf)


def test_unreadable_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A broken core-site.xml stops everything that needs the default configuration, by name."""
    (tmp_path / "core-site.xml").write_text("<configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(ValueError, match=r"core-site\.xml: line 1"):
        hflush.create(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_bad_times_and_lengths(store: Store, path: str):
    """Block locations and truncation check their numbers."""
    store.write(path, b"data")
    for start, length in ((-1, 1), (0, -1)):
        with pytest.raises(ValueError, match="negative"):
            store.fs.get_file_block_locations(path, start, length)
    if store.name == "raw":
        for length in (-1, 5):
            with pytest.raises(ValueError, match=r"trunc|length"):
                store.fs.truncate(path, length)
    assert store.read(path) == b"data"


@pytest.mark.parametrize("wrong", ["false", 0, None], ids=repr)
def test_what_is_no_bool_is_never_taken_for_one(store: Store, path: str, wrong: object):
    """A text, a number or None where a bool belongs is TypeError, and nothing happens."""
    fs = store.fs
    store.write(path, b"data")
    calls: list[Callable[[], object]] = [
        lambda: fs.create(path, overwrite=wrong),
        lambda: fs.create(path, recursive=wrong),
        lambda: fs.create_file(path).overwrite(wrong),
        lambda: fs.delete(path, recursive=wrong),
        lambda: fs.list_files(store.root, recursive=wrong),
        lambda: fs.mkdirs(store.path("d"), create_parent=wrong),
        lambda: fs.copy_from_local_file(path, store.path("b"), delete_source=wrong),
        lambda: fs.copy_from_local_file(path, store.path("b"), overwrite=wrong),
        lambda: fs.copy_to_local_file(path, store.path("b"), use_raw_local=wrong),
        lambda: hflush.Configuration(wrong),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="must be bool"):
            call()
    with pytest.raises(TypeError, match="must be bool"):
        fs.create(path, create_parent="false")
    assert store.read(path) == b"data"


@pytest.mark.stores("crc")
def test_checksum_switches_take_a_bool(store: Store):
    """set_write_checksum("false") and its like are TypeError."""
    for switch in (store.fs.set_write_checksum, store.fs.set_verify_checksum):
        with pytest.raises(TypeError, match="must be bool"):
            switch("false")


@pytest.mark.stores("raw")
@pytest.mark.parametrize("length", [-1, 5, 1 << 63, 1 << 70])
def test_truncate_to_what_is_not_there(store: Store, path: str, length: int):
    """A length that is negative or more than the file has, by however much, is ValueError."""
    store.write(path, b"data")
    with pytest.raises(ValueError, match=re.escape(str(length))):
        store.fs.truncate(path, length)
    with pytest.raises(TypeError, match="length must be int"):
        store.fs.truncate(path, "2")
    assert store.read(path) == b"data"


def test_numbers_beyond_64_bits(store: Store, path: str):
    """Times and sizes are ValueError; behind the end of any file there is nothing to read."""
    store.write(path, b"data")
    for time in (1 << (62 if store.local else 63), -(1 << 70)):
        if store.options["supports-settimes"]:
            with pytest.raises(ValueError, match="out of range"):
                store.fs.set_times(path, time)
    with pytest.raises(ValueError, match="64 bits"):
        store.fs.open(path, buffer_size=1 << 70)
    with store.fs.open(path) as stream:
        assert stream.pread(1 << 70, 1) == b""
        assert stream.pread(2, 1 << 70) == b"ta"
        with pytest.raises(TypeError, match="position must be int"):
            stream.pread("0", 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda fs, path: fs.set_owner(path, 0),
        lambda fs, path: fs.set_owner(path, None, b"staff"),
        pytest.param(lambda fs, path: fs.set_times(path, "now"), marks=pytest.mark.stores(*FILES)),
        lambda fs, path: fs.get_file_block_locations(None),
        lambda fs, path: fs.create_file(path).opt(None, 1),
        lambda fs, path: fs.open_file(path).must(7, 1),
        lambda fs, path: hflush.open(path, "rb", buffering=2.5),
        lambda fs, path: hflush.create(path, conf=[("a", "b")]),
    ],
)
def test_wrong_types_of_the_name_space(
    store: Store, path: str, call: Callable[[hflush.FileSystem, str], object]
):
    """They are TypeError, in one line and without a word of the native signatures."""
    store.write(path, b"data")
    with pytest.raises(TypeError) as raised:
        call(store.fs, path)
    assert "incompatible function arguments" not in str(raised.value)
    assert store.read(path) == b"data"


@pytest.mark.stores("raw")
def test_what_is_no_path_handle(store: Store, path: str):
    """Junk is ValueError and says so; objects that are not bytes or not a status, TypeError."""
    for junk in (b"", b"junk", b"\xff", b"[]", b"[1, 2]", b"7", b'{"a": 1}'):
        with pytest.raises(ValueError, match="not a path handle"):
            store.fs.open_path_handle(junk)
    with pytest.raises(TypeError, match="must be bytes"):
        store.fs.open_path_handle("junk")
    with pytest.raises(TypeError, match="FileStatus"):
        store.fs.get_path_handle(None)


@pytest.mark.parametrize("element", ["[z-a]", "x[9-0]*"])
def test_ranges_that_run_backwards(store: Store, element: str):
    """A glob whose range has no member is ValueError."""
    with pytest.raises(ValueError, match="bad pattern"):
        store.fs.glob_status(store.path(element))


def test_set_drop_behind_takes_a_bool_or_none(out: hflush.FSDataOutputStream):
    """Anything else is TypeError, in words."""
    with pytest.raises(TypeError, match="bool or None"):
        out.set_drop_behind("false")
