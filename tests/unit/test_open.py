"""hflush.open, create and append: the modes of open(), and what text keeps of the promises."""

from __future__ import annotations

import fcntl
import gc
import io
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType

import hflush
import pytest
from support.stores import FILES, Store
from support.waiting import Task, wait_until


@pytest.mark.parametrize("mode", ["wb", "bw", "xb", "bx"])
def test_binary_writing_gives_the_output_stream(store: Store, mode: str):
    """wb and xb give an FSDataOutputStream with its mode and name."""
    path = store.path("a")
    with hflush.open(store.url(path), mode) as out:
        assert isinstance(out, hflush.FSDataOutputStream)
        assert out.mode == "".join(sorted(mode, reverse=True))
        assert (out.name, out.path) == (store.public(path), path)
        assert out.write(b"data") == 4
        assert (out.writable(), out.readable(), out.seekable(), out.isatty()) == (
            True,
            False,
            False,
            False,
        )
    assert store.read(path) == b"data"


def test_binary_reading_gives_the_input_stream(store: Store):
    """rb gives an FSDataInputStream."""
    store.write(store.path("a"), b"one\ntwo\n")
    with hflush.open(store.url(store.path("a")), "rb") as stream:
        assert isinstance(stream, hflush.FSDataInputStream)
        assert (stream.mode, stream.name) == ("rb", store.public(store.path("a")))
        assert (stream.readable(), stream.seekable(), stream.writable()) == (True, True, False)
        assert list(stream) == [b"one\n", b"two\n"]


@pytest.mark.parametrize("mode", ["w", "wt", "x", "xt"])
def test_text_modes_give_a_text_wrapper(store: Store, mode: str):
    """Text modes give an io.TextIOWrapper that encodes as asked."""
    path = store.path("a")
    with hflush.open(store.url(path), mode, encoding="utf-16-le", newline="\r\n") as text:
        assert isinstance(text, io.TextIOWrapper)
        assert text.mode == mode
        text.write("é\n")
    assert store.read(path) == "é\r\n".encode("utf-16-le")
    with hflush.open(store.url(path), encoding="utf-16-le") as text:
        assert text.read() == "é\n"


@pytest.mark.stores("raw")
@pytest.mark.parametrize("mode", ["a", "at", "ab"])
def test_append_modes_create_or_go_on(store: Store, mode: str):
    """A missing file is created, an existing one continued, as open() does."""
    data = b"x" if "b" in mode else "x"
    for expected in (b"x", b"xx"):
        with hflush.open(store.url(store.path("a")), mode) as out:
            assert out.mode == mode
            out.write(data)
        assert store.read(store.path("a")) == expected


@pytest.mark.stores("raw")
@pytest.mark.parametrize("mode", ["a", "ab"])
def test_append_modes_add_to_the_end_of_a_new_file(store: Store, mode: str):
    """As with open(): what others have added meanwhile is not written over."""
    path = store.path("a")
    with hflush.open(store.url(path), mode) as out:
        assert out.mode == mode
        for word in ("one ", "two ", "three "):
            out.write(word if mode == "a" else word.encode())
            out.flush()
            with open(path, "a") as other:
                other.write("other ")
    assert store.read(path) == b"one other two other three other "


@pytest.mark.stores("raw")
def test_append_modes_below_a_file_and_through_a_link(store: Store):
    """Where no file can be, ab fails as wb does; a link that leads nowhere gets its target."""
    store.write(store.path("file"), b"")
    with pytest.raises(hflush.ParentNotDirectoryError):
        hflush.open(store.url(store.path("file/below")), "ab")
    os.symlink("target", store.path("link"))
    with hflush.open(store.url(store.path("link")), "ab") as out:
        out.write(b"data")
    assert store.read(store.path("target")) == b"data"
    assert os.path.islink(store.path("link"))


@pytest.mark.stores("raw")
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_text_is_continued_without_another_byte_order_mark(store: Store, encoding: str):
    """Appending text leaves one mark, at the start."""
    for part in ("one", "two"):
        with hflush.open(store.url(store.path("a")), "a", encoding=encoding) as text:
            text.write(part)
    assert store.read(store.path("a")).decode(encoding) == "onetwo"


@pytest.mark.stores("raw")
def test_text_is_continued_in_ascii(store: Store, tmp_path: Path):
    """ISO-2022-JP switches to other characters, and ends a file among them; so do changes."""
    for path, opened in ((tmp_path / "plain", open), (store.path("a"), hflush.open)):
        for part in ("あ", "one\n"):
            with opened(path, "a", encoding="ISO-2022-JP") as text:
                text.write(part)
    assert store.read(store.path("a")) == (tmp_path / "plain").read_bytes()
    with hflush.open(store.url(store.path("a")), "a", encoding="iso2022_jp_2") as text:
        for part in ("あ", "two", "い"):
            assert text.write(part) == len(part)
            text.reconfigure(errors="replace")
        text.write("end")
    assert store.read(store.path("a")).decode("iso2022_jp_2") == "あone\nあtwoいend"


@pytest.mark.parametrize("mode", ["w", "x"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "UTF16", "utf-32", "utf-16-be"])
def test_text_is_the_same_as_with_the_built_in_open(
    store: Store, tmp_path: Path, mode: str, encoding: str
):
    """One byte order mark, at the first write; none where there is none."""
    for number, texts in enumerate(([], [""], ["é\n", "two"])):
        path, plain = store.path(f"{number}"), tmp_path / f"{number}-plain"
        with hflush.open(store.url(path), mode, encoding=encoding) as text:
            text.writelines(texts)
        with open(plain, mode, encoding=encoding) as text:
            text.writelines(texts)
        assert store.read(path) == plain.read_bytes()
        with hflush.open(store.url(path), encoding=encoding) as text:
            assert text.read() == "".join(texts)


@pytest.mark.stores("raw")
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_in_the_middle(store: Store, tmp_path: Path, encoding: str):
    """No reconfigure() writes one, and none stands before text that cannot be encoded."""
    for path, opened in ((tmp_path / "plain", open), (store.path("a"), hflush.open)):
        with opened(path, "w", encoding=encoding) as text:
            text.write("one\n")
            text.reconfigure(newline="\r\n")
            text.write("two\n")
            text.reconfigure(encoding="utf-8-sig")
            text.write("three")
    assert store.read(store.path("a")) == (tmp_path / "plain").read_bytes()
    with (
        hflush.open(store.path("b"), "w", encoding=encoding) as text,
        pytest.raises(UnicodeEncodeError),
    ):
        text.write("\ud800")
    assert store.read(store.path("b")) == b""


@pytest.mark.stores("raw")
def test_a_byte_order_mark_after_an_interrupt(store: Store, monkeypatch: pytest.MonkeyPatch):
    """The text that was interrupted is not there; what is written next begins with the mark."""

    def write(*_: object) -> None:
        raise KeyboardInterrupt

    with hflush.open(store.path("a"), "w", encoding="utf-16") as text:
        with monkeypatch.context() as patch:
            patch.setattr(type(text.buffer), "write", write)
            with pytest.raises(KeyboardInterrupt):
                text.write("one")
        text.write("two")
    assert store.read(store.path("a")) == "two".encode("utf-16")


@pytest.mark.stores("raw")
def test_text_whose_stream_was_detached(store: Store):
    """It says so, as io's, also where a byte order mark is still to be written."""
    text = hflush.open(store.path("a"), "w", encoding="utf-16")
    with text.detach(), pytest.raises(ValueError, match="detached"):
        text.write("one")


@pytest.mark.stores("raw")
def test_closing_text_that_has_failed():
    """The failure is reported once more, as by the stream below."""
    text = hflush.open("/dev/full", "w")
    text.write("x")
    for end in (text.flush, text.close):
        with pytest.raises(OSError, match="No space left on device"):
            end()
    assert text.closed


def test_star_import_leaves_the_built_in_open_alone():
    """`from hflush import *` does not shadow open()."""
    names: dict[str, object] = {}
    exec("from hflush import *", names)
    assert "open" not in names
    assert names["create"] is hflush.create
    assert "open" in dir(hflush)


@pytest.mark.parametrize("package", [hflush.hdfs, hflush.s3, hflush.spark, hflush.viewfs])
def test_names_that_come_with_their_first_use_are_shown(package: ModuleType):
    assert set(package.__all__) <= set(dir(package))


def test_exclusive_modes_refuse_what_exists(store: Store):
    """X is an atomic check."""
    store.write(store.path("a"), b"old")
    for mode in ("x", "xb"):
        with pytest.raises(FileExistsError):
            hflush.open(store.url(store.path("a")), mode)
    assert store.read(store.path("a")) == b"old"


@pytest.mark.parametrize("mode", ["", "q", "rw", "wa", "bt", "rbt", "b", "U", "ww", "rr"])
def test_modes_that_do_not_exist(store: Store, mode: str):
    """They are ValueError, as for open(), and nothing is created."""
    with pytest.raises(ValueError, match=r"mode"):
        hflush.open(store.url(store.path("a")), mode)
    assert not store.fs.exists(store.path("a"))


@pytest.mark.parametrize("mode", ["r+", "w+b", "a+", "x+"])
def test_there_is_no_update_mode(store: Store, mode: str):
    """What is written is never changed: UnsupportedOperation, which is a ValueError."""
    with pytest.raises(io.UnsupportedOperation, match="update"):
        hflush.open(store.url(store.path("a")), mode)


@pytest.mark.parametrize(
    ("mode", "arguments"),
    [
        ("wb", {"encoding": "utf-8"}),
        ("rb", {"errors": "strict"}),
        ("wb", {"newline": ""}),
        ("w", {"buffering": 0}),
    ],
)
def test_arguments_that_exclude_each_other(store: Store, mode: str, arguments: dict):
    """Text arguments in binary mode and unbuffered text are ValueError."""
    with pytest.raises(ValueError, match=r"binary|unbuffered"):
        hflush.open(store.url(store.path("a")), mode, **arguments)


def test_a_mode_of_another_type(store: Store):
    """A mode that is not text is TypeError, and so is a file descriptor."""
    with pytest.raises(TypeError):
        hflush.open(store.url(), 1)
    for other in (1, None):
        with pytest.raises(TypeError):
            hflush.open(other)


def test_a_bad_encoding_leaves_nothing_open(store: Store):
    """LookupError from the wrapper closes the stream below."""
    with pytest.raises(LookupError):
        hflush.open(store.url(store.path("a")), "w", encoding="no such")
    gc.collect()


def test_an_unknown_error_handler_of_a_reader(store: Store):
    """It is refused at once, not at the first error."""
    store.write(store.path("a"), b"data")
    with pytest.raises(LookupError):
        hflush.open(store.url(store.path("a")), errors="no such")


@pytest.mark.stores("raw")
def test_unbuffered_writes_are_seen_at_once(store: Store):
    """buffering=0 hands every write to the operating system."""
    with hflush.open(store.url(store.path("a")), "wb", 0) as out:
        out.write(b"12")
        assert store.read(store.path("a")) == b"12"
        out.write_byte(51)
        assert store.read(store.path("a")) == b"123"
    with hflush.open(store.url(store.path("a")), "rb", 0) as stream:
        assert stream.read(1) == b"1"
        assert stream.io_statistics().counters["stream_read_bytes"] == 1


@pytest.mark.stores("raw")
def test_line_buffered_text_is_seen_line_by_line(store: Store):
    """buffering=1 flushes after each line."""
    with hflush.open(store.url(store.path("a")), "w", 1) as text:
        text.write("line\nrest")
        assert store.read(store.path("a")).startswith(b"line\n")


def test_binary_line_buffering_warns(store: Store):
    """As open() does, it is taken for the default: bytes are not read one by one."""
    with pytest.warns(RuntimeWarning, match="line buffering"):
        hflush.open(store.url(store.path("a")), "wb", 1).close()
    store.write(store.path("a"), bytes(99))
    with pytest.warns(RuntimeWarning), hflush.open(store.url(store.path("a")), "rb", 1) as stream:
        assert len(stream.peek()) == 99


def test_plain_and_path_like_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Strings, os.PathLike and names relative to the process' directory mean local files."""
    hflush.create(tmp_path / "a").close()
    hflush.create(str(tmp_path / "b")).close()
    monkeypatch.chdir(tmp_path)
    with hflush.open("c", "w") as text:
        text.write("x")
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


@pytest.mark.rule("CLOSE-21")
@pytest.mark.parametrize("mode", ["w", "wb"])
def test_a_dropped_stream_publishes_nothing_and_says_so(store: Store, mode: str):
    """Garbage collection abandons, with a warning, also through a text wrapper."""
    out = hflush.open(store.url(store.path("a")), mode)
    out.write(b"lost" if "b" in mode else "lost")
    with pytest.warns(hflush.NotPublishedWarning, match="never closed"):  # noqa: PT031
        del out
        gc.collect()
    assert store.visible(store.path("a")) == b""


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.stores(*FILES)
@pytest.mark.parametrize("atomic", [False, True])
def test_an_interrupt_before_a_stream_is_handed_out(
    store: Store, monkeypatch: pytest.MonkeyPatch, atomic: bool
):
    """It is dropped like any other, with the same warning."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store.fs, "_track", interrupted)
    with pytest.warns(hflush.NotPublishedWarning, match="never closed, .* mode=None"):  # noqa: PT031
        with pytest.raises(KeyboardInterrupt):
            store.fs.create(store.path("a"), atomic=atomic)
        gc.collect()
    assert store.fs.exists(store.path("a")) is not atomic


def test_a_closed_stream_is_dropped_without_a_word(store: Store):
    """No warning after close."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = hflush.open(store.url(store.path("a")), "w")
        out.close()
        del out
        gc.collect()
    assert store.fs.is_file(store.path("a"))


@pytest.mark.rule("CLOSE-18")
@pytest.mark.parametrize("mode", ["w", "wb"])
@pytest.mark.stores(*FILES)
def test_an_exception_in_the_block_propagates(store: Store, mode: str):
    """The stream is closed, as files are, and the exception is the one that is seen."""
    out = hflush.open(store.url(store.path("a")), mode)
    with pytest.raises(ZeroDivisionError), out:  # noqa: PT012
        out.write(b"kept" if "b" in mode else "kept")
        raise ZeroDivisionError
    assert out.closed
    assert store.read(store.path("a")) == b"kept"


def test_a_closed_stream_cannot_be_entered(store: Store):
    """With on a closed stream is StreamClosedError, for output and input."""
    out = store.fs.create(store.path("a"))
    out.close()
    stream = store.fs.open(store.path("a"))
    stream.close()
    for closed in (out, stream):
        with pytest.raises(hflush.StreamClosedError), closed:
            pass


def test_options_are_passed_on(store: Store):
    """Options of create work through the functions, sizes as Hadoop writes them."""
    path = store.path("deep", "a")
    options = {"block_size": "128m", "replication": 3, "permission": 0o600}
    with hflush.create(store.url(path), overwrite=False, sync_on_close=True, **options) as out:
        out.write(b"x")
    if store.options["supports-unix-permissions"]:
        assert store.fs.get_file_status(path).permission == 0o600
    with hflush.open(store.url(path), "rb", buffer_size="1k") as stream:
        assert stream.read() == b"x"


def test_conf_is_a_mapping(tmp_path: Path):
    """conf= takes a dict, and decides whether local files have sidecars."""
    with hflush.create(tmp_path / "a", conf={"fs.file.checksum": True}) as out:
        out.write(b"x")
    assert sorted(os.listdir(tmp_path)) == [".a.crc", "a"]


@pytest.mark.rule("CKPT-9")
@pytest.mark.stores("raw", "crc")
def test_the_default_file_system_needs_a_scheme():
    """fs.defaultFS without one is UnsupportedFileSystemError, which names the key."""
    with pytest.raises(hflush.UnsupportedFileSystemError, match=r"fs\.defaultFS"):
        hflush.open("/a", conf={"fs.defaultFS": "foo"})


@pytest.mark.parametrize("buffering", [-1, 0])
def test_write_takes_its_bounds_by_name(store: Store, buffering: int):
    """write(b, off=, len=) is the same for every class of stream."""
    path = store.path("a")
    with hflush.open(store.url(path), "wb", buffering) as out:
        assert out.write(b"abcdef", off=1, len=3) == 3
        assert out.write(b=b"xyz", len=1) == 1
    assert store.read(path) == b"bcdx"


@pytest.mark.stores("raw", "crc")
@pytest.mark.parametrize("kind", [fcntl.F_RDLCK, fcntl.F_WRLCK], ids=["read", "write"])
def test_a_lease_of_a_file_is_waited_for(store: Store, kind: int):
    """As open() does: the system asks its holder, such as a file server, to give it back."""
    path = store.write(store.path("a"), b"old")
    calls = [lambda: store.write(path, b"new"), lambda: store.read(path)]
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    for call in calls[: 1 if kind == fcntl.F_RDLCK else 2]:
        with open(path, "rb") as held:
            fcntl.fcntl(held, fcntl.F_SETLEASE, kind)
            task = Task(call)
            wait_until(lambda: fcntl.fcntl(held, fcntl.F_GETLEASE) != kind, "it is asked for")
            assert task.is_alive()
            fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            task.result()
    signal.signal(signal.SIGIO, before)
    assert store.read(path) == b"new"


@pytest.mark.parametrize("options", [{}, {"atomic": True}], ids=["plain", "atomic"])
@pytest.mark.stores("raw", "crc")
def test_what_is_printed_without_standard_streams_is_in_no_file(
    store: Store, options: dict[str, bool]
):
    """No file that is written gets one of their descriptors."""
    script = f"""
import contextlib, os, sys, hflush
with hflush.create(sys.argv[1], **{options}) as out:
    out.write(bytes(2 << 20))
    for descriptor in range(3):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"printed")
"""
    url = store.url(store.path("a"))
    run = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", script, url]
    assert subprocess.run(run, check=False).returncode == 0
    assert store.read(store.path("a")) == bytes(2 << 20)


def test_a_file_that_does_not_say_its_length() -> None:
    """Those in /proc have length 0: positioned reads of them end where their bytes do."""
    with hflush.open("/proc/self/smaps", "rb") as file:
        assert len(file.pread(0, 1 << 20)) > 1 << 16
