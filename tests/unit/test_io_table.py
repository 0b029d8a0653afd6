"""What hflush.open's streams answer, beside the built-in open()'s of the same mode.

Every operation is asked of both, in the same order, on files of the same content. They answer
alike, but for the rows of the table in docs/semantics.md: it is read here, and holds no other rows.
An exception is alike if whoever catches the built-in's catches ours.
"""

from __future__ import annotations

import io
import logging.handlers
import os
import pickle
import re
import subprocess
import sys
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hflush
import pytest
from support.documentation import table

CONTENT = b"line 1\nline 2\r\nend"
MODES = ("r", "rb", "w", "wb", "x", "xb", "a", "ab")
READING, WRITING = MODES[:2], MODES[2:]
Operation = Callable[[Any], Any]


def one(file: Any) -> Any:
    return "x" if "b" not in file.mode else b"x"


def attribute(name: str) -> Operation:
    return lambda file: getattr(file, name)


def call(name: str, *arguments: Any) -> Operation:
    return lambda file: getattr(file, name)(*arguments)


def kinds(file: Any) -> list[bool]:
    bases = (io.IOBase, io.BufferedIOBase, io.TextIOBase, io.RawIOBase)
    return [isinstance(file, base) for base in bases]


def leave_twice(file: Any) -> list[bool]:
    entered = file.__enter__() is file
    return [entered, file.__exit__(None, None, None), file.closed, file.close()]


OPERATIONS: dict[str, Operation] = {
    **{name: attribute(name) for name in ("mode", "name", "closed", "encoding", "errors")},
    **{name: attribute(name) for name in ("newlines", "line_buffering", "write_through")},
    **{f"{name}()": call(name) for name in ("readable", "writable", "seekable", "isatty")},
    "fileno()": lambda file: type(file.fileno()),
    "kinds": kinds,
    "tell()": call("tell"),
    "write(…)": lambda file: file.write(one(file) * 3),
    "tell() behind it": call("tell"),
    "write(None)": call("write", None),
    "write(of the other kind)": lambda file: file.write("x" if "b" in file.mode else b"x"),
    "writelines(…)": lambda file: file.writelines([one(file), one(file)]),
    "writelines(None)": call("writelines", None),
    "writelines([1])": call("writelines", [1]),
    "tell() behind them": call("tell"),
    "flush()": call("flush"),
    "seek(0, 2)": call("seek", 0, 2),
    "seek(0, 1)": call("seek", 0, 1),
    "seek(tell())": lambda file: file.seek(file.tell()),
    "seek(1, 1)": call("seek", 1, 1),
    "seek(-1)": call("seek", -1),
    "seek(0, 9)": call("seek", 0, 9),
    'seek("")': call("seek", ""),
    "seek(0, SEEK_DATA)": call("seek", 0, os.SEEK_DATA),
    "seek(0)": call("seek", 0),
    "tell() at the start": call("tell"),
    "next()": next,
    "tell() in an iteration": call("tell"),
    "newlines after a line": attribute("newlines"),
    "read(2)": call("read", 2),
    "read(0)": call("read", 0),
    "readline()": call("readline"),
    "readline(2)": call("readline", 2),
    "readlines()": call("readlines"),
    "read()": call("read"),
    "read(None)": call("read", None),
    'read("")': call("read", ""),
    "read1()": call("read1"),
    "peek()": call("peek"),
    "readinto(…)": lambda file: file.readinto(bytearray(2)),
    "readinto1(…)": lambda file: file.readinto1(bytearray(2)),
    "newlines at the end": attribute("newlines"),
    "iter()": lambda file: iter(file) is file,
    "truncate()": call("truncate"),
    "truncate(0)": call("truncate", 0),
    "buffer": lambda file: type(file.buffer) and None,
    "raw": lambda file: type(file.raw) and None,
    "reconfigure(…)": lambda file: file.reconfigure(line_buffering=True, errors="replace"),
    "line_buffering and errors behind it": lambda file: (file.line_buffering, file.errors),
    "pickle": pickle.dumps,
    "weak references": lambda file: weakref.ref(file)() is file,
    "hash()": lambda file: type(hash(file)),
    "a new attribute": lambda file: setattr(file, "mine", 1),
    "with, and close() again": leave_twice,
    **{f"{name} of a closed one": attribute(name) for name in ("closed", "name", "mode")},
    **{f"{name} of a closed one": attribute(name) for name in ("encoding", "errors")},
    **{
        f"{name}() of a closed one": call(name)
        for name in (
            "read", "readline", "readlines", "tell", "flush", "fileno", "isatty", "readable",
            "writable", "seekable", "__enter__", "truncate", "__iter__", "__next__", "detach",
        )
    },
    "write(…) to a closed one": lambda file: file.write(one(file)),
    "writelines(…) to a closed one": lambda file: file.writelines([one(file)]),
    "writelines([]) to a closed one": call("writelines", []),
    "seek(0) of a closed one": call("seek", 0),
}  # fmt: skip


def answer(operation: Operation, file: Any) -> Any:
    try:
        return operation(file)
    except Exception as failure:
        return type(failure)


def alike(ours: Any, built_in: Any) -> bool:
    if isinstance(built_in, type) and issubclass(built_in, BaseException):
        return isinstance(ours, type) and issubclass(ours, built_in)
    return bool(ours == built_in)


def documented(mode: str) -> set[str]:
    """The operations of the table that answer otherwise in this mode."""
    rows = table("semantics.md", "## Beside the built-in `open()`")
    return {
        name
        for names, row in rows.items()
        for name in re.findall(r"`([^`]+)`", names)
        if mode in re.findall(r"`([^`]+)`", row["Modes"])
    }


def prepared(directory: Path, name: str, mode: str) -> str:
    path = directory / name / "file"
    path.parent.mkdir()
    if mode[0] in "ra":
        path.write_bytes(CONTENT)
    return str(path)


@pytest.mark.parametrize("mode", MODES)
def test_method_by_method(tmp_path: Path, mode: str) -> None:
    built_in: Any = open(prepared(tmp_path, "a", mode), mode)
    ours: Any = hflush.open(prepared(tmp_path, "b", mode), mode)
    found = {}
    for name, operation in OPERATIONS.items():
        pair = answer(operation, ours), answer(operation, built_in)
        if isinstance(pair[0], str):
            pair = (pair[0].replace(f"{tmp_path}/b/", f"{tmp_path}/a/"), pair[1])
        if not alike(*pair):
            found[name] = pair
    assert found.keys() == documented(mode), found
    built_in.close()
    ours.close()


@pytest.mark.parametrize("mode", ["w", "x", "a", "r"])
@pytest.mark.parametrize(
    "options",
    [
        {"encoding": "locale"},
        {"encoding": None},
        {"encoding": "latin-1", "errors": "replace", "newline": "\r\n"},
        {"encoding": "utf-16"},
        {"encoding": "utf-8-sig"},
        {"encoding": "no such"},
        {"encoding": 3},
        {"errors": 3},
        {"newline": "x"},
        {"newline": 3},
        {"buffering": 0},
        {"buffering": 1},
        {"buffering": 5},
        {"buffering": -2},
        {"buffering": "x"},
    ],
    ids=repr,
)
def test_arguments_of_text(tmp_path: Path, mode: str, options: dict[str, Any]) -> None:
    def asked(opened: Any, name: str) -> Any:
        path = tmp_path / name
        if mode in "ra":
            path.write_bytes("é\n".encode("utf-16"))
        with opened(str(path), mode, **options) as file:
            text = (file.encoding, file.errors, file.line_buffering, file.mode)
            if mode == "r":
                return *text, file.read()
            return *text, file.write("é\n"), file.tell(), file.flush(), path.read_bytes()

    built_in = answer(lambda opened: asked(opened, "a"), open)
    ours = answer(lambda opened: asked(opened, "b"), hflush.open)
    if mode == "a" and options.get("encoding") in ("utf-16", "utf-8-sig"):
        ours, built_in = ours[1:], built_in[1:]  # the codec that has no mark
    assert alike(ours, built_in), (ours, built_in)


@pytest.mark.parametrize("buffering", [-1, 0])
def test_the_offset_of_the_descriptor(tmp_path: Path, buffering: int) -> None:
    """Who is given the descriptor of a reader goes on where it stands, and moves it."""
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")

    def asked(opened: Any) -> list[Any]:
        with opened(path, "rb", buffering=buffering) as file:
            file.seek(4)
            found = [os.read(file.fileno(), 2), file.tell(), file.read(1)]
            file.seek(1)
            found += [os.read(file.fileno(), 2), file.read(), os.read(file.fileno(), 1)]
        return found

    assert asked(hflush.open) == asked(open) == [b"45", 6, b"6", b"12", b"3456789", b""]


@pytest.mark.parametrize("mode", ["r+", "rw", "", "b", "rbt", "rr", "U", "wU", "z", None, 3])
def test_modes(tmp_path: Path, mode: Any) -> None:
    """Refused as open() refuses them, and update modes, too."""
    path = tmp_path / "file"
    path.touch()
    built_in = answer(lambda opened: opened(path, mode).close(), open)
    expected = io.UnsupportedOperation if mode == "r+" else built_in
    assert alike(answer(lambda opened: opened(path, mode).close(), hflush.open), expected)


@pytest.mark.parametrize("mode", ["r", "w"])
@pytest.mark.parametrize("path", [b"bytes", ".", "none/x", "a\0b", 1.5, [], "x" * 300])
def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, path: Any) -> None:
    """Taken and refused as by open(), but that missing parents are made."""
    found = []
    for name, opened in (("a", open), ("b", hflush.open)):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        found.append(answer(lambda opened: opened(path, mode).close(), opened))
    built_in, ours = found
    assert alike(ours, None if (path, mode) == ("none/x", "w") else built_in), found


def test_x_and_descriptors(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(FileExistsError):
        hflush.open(path, "x")
    with pytest.raises(TypeError):
        hflush.open(0)  # type: ignore[call-overload]


@pytest.mark.parametrize("mode", ["r", "w", "a"])
def test_the_warning_about_a_default_encoding(tmp_path: Path, mode: str) -> None:
    """It is for the line that has called open, as the built-in's is."""
    path = tmp_path / "file"
    path.touch()
    code = f"import hflush\nhflush.open({str(path)!r}, {mode!r}).close()\n"
    program = tmp_path / "program.py"
    program.write_text(code)
    command = [sys.executable, "-X", "warn_default_encoding", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert f"{program}:2: EncodingWarning" in done.stderr
    assert done.stderr.count("EncodingWarning") == 1


def test_utf8_mode(tmp_path: Path) -> None:
    code = (
        "import hflush, sys; a = open(sys.argv[1], 'w'); b = hflush.open(sys.argv[2], 'w');"
        "print(a.encoding == b.encoding, b.write('é'), b.close())"
    )
    for flags in (["-X", "utf8"], ["-X", "utf8=0"]):
        done = subprocess.run(
            [sys.executable, *flags, "-c", code, tmp_path / "a", tmp_path / "b"],
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            check=True,
            capture_output=True,
        )
        assert done.stdout.split()[0] == b"True"


def test_a_mark_for_an_encoding_that_comes_later(tmp_path: Path) -> None:
    """reconfigure at the start brings the mark, or takes it away."""
    for before, after in (("utf-8", "utf-16"), ("utf-16", "utf-8")):
        for opened, name in ((open, "a"), (hflush.open, "b")):
            with opened(str(tmp_path / name), "w", encoding=before) as file:
                file.reconfigure(encoding=after)
                file.writelines(["é", "ü"])
                assert file.tell() == len("éü".encode(after))
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("atomic", [False, True])
def test_offsets_of_lines(tmp_path: Path, atomic: bool) -> None:
    """tell() before each line of text is where a binary reader finds it."""
    path = tmp_path / "lines"
    offsets = []
    with hflush.open(path, "w", encoding="utf-8", atomic=atomic) as file:
        for line in ("é\n", "two\n", "three\n"):
            offsets.append(file.tell())
            file.write(line)
    with open(path, "rb") as read:
        for offset, line in zip(offsets, read.read().splitlines(keepends=True), strict=True):
            read.seek(offset)
            assert read.readline() == line


def test_a_rotating_log(tmp_path: Path) -> None:
    """logging's handlers seek to the end of their stream, and keep "locale" for its encoding."""

    class Handler(logging.handlers.RotatingFileHandler):
        def _open(self) -> Any:
            return hflush.open(self.baseFilename, self.mode, encoding=self.encoding)

    path = tmp_path / "log"
    handler = Handler(path, maxBytes=20, backupCount=1, encoding="locale")
    for _ in range(3):
        handler.emit(logging.makeLogRecord({"msg": "0123456789"}))
    handler.close()
    assert path.read_text() == "0123456789\n"
    assert Path(f"{path}.1").read_text() == "0123456789\n"


def test_a_probe_for_seeking_is_refused(tmp_path: Path) -> None:
    """zipfile asks in this way whether it may go back: it must not believe so."""
    import zipfile

    with hflush.open(tmp_path / "zip", "wb") as out, zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", "data")
    with zipfile.ZipFile(tmp_path / "zip") as archive, warnings.catch_warnings():
        assert archive.read("a") == b"data"
