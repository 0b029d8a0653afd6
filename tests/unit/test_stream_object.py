"""What an output stream is beside writing: its names, its questions, unusual calls."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import timeit
import warnings
from functools import partial
from pathlib import Path

import hflush
import pytest
from hflush.handling import marks
from support.c_library import c_library
from support.stores import Store
from support.waiting import DEADLINE_S

CALLER = """
import ctypes, hflush, io, sys
library = ctypes.PyDLL(sys.argv[1])
call = library.call_with_an_exception_pending
call.argtypes = [ctypes.py_object, ctypes.c_char_p]
call.restype = ctypes.py_object
out = hflush.create(sys.argv[2])
out.write(b"data")
for method in ("flush", "seek", "truncate", "flush", "close", "flush", "close"):
    try:
        call(out, method.encode())
    except (KeyError, io.UnsupportedOperation) as error:
        print(method, type(error).__name__)
"""


def test_each_loss_is_shown(tmp_path: Path):
    """Also by Python's usual filter, which shows what is alike once; where the program is."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            hflush.create(str(tmp_path / "file")).write(b"lost")
    assert [one.category for one in caught] == [hflush.NotPublishedWarning] * 2
    assert {one.filename for one in caught} == {__file__}


def test_an_exception_that_is_pending(tmp_path: Path):
    """A call made with one pending does its work and ends with that exception, no SystemError."""
    try:
        library = c_library(Path(__file__).with_name("pending_exception.c"))
    except FileNotFoundError:
        pytest.skip("no C compiler")
    run = subprocess.run(
        [sys.executable, "-c", CALLER, library, tmp_path / "file"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split("\n")[:-1] == [
        "flush KeyError",
        "seek UnsupportedOperation",
        "truncate UnsupportedOperation",
        "flush KeyError",
        "close KeyError",
        "flush KeyError",
        "close KeyError",
    ]
    assert run.stderr == ""
    assert (tmp_path / "file").read_bytes() == b"data"


def test_importing_again_drops_no_stream(tmp_path: Path):
    """Streams of the first import go on, and those that are open at exit are still reported."""
    program = (
        "import hflush, sys, threading\n"
        "out, left = hflush.create('out'), hflush.create('left')\n"
        "for name in [name for name in sys.modules if name.split('.')[0] == 'hflush']:\n"
        "    del sys.modules[name]\n"
        "import hflush\n"
        "out.write(b'data')\n"
        "out.close()\n"
        "event = threading.Event()\n"
        "threading.Thread(target=lambda kept=left: event.wait(), daemon=True).start()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (tmp_path / "out").read_bytes() == b"data"
    assert re.findall(r"not published: .*name='(.*?)'", done.stderr) == [f"{tmp_path}/left"]


def test_public_names_are_public(store: Store):
    """What tab completion shows is documented: names that end in an underscore are not."""
    with store.fs.create(store.path("a")) as out:
        assert [name for name in dir(out) if name.endswith("_") and not name.startswith("_")] == []
        hidden = ("path_", "state_", "abort_", "abandon_", "statistics_")
        assert [name for name in hidden if hasattr(out, name)] == []


def test_isatty_of_a_closed_stream(store: Store):
    """It raises ValueError, as io's files do."""
    out = store.fs.create(store.path("a"))
    assert out.isatty() is False
    out.close()
    with pytest.raises(hflush.StreamClosedError) as refused:
        out.isatty()
    assert isinstance(refused.value, ValueError)
    assert refused.value.filename == store.filename(store.path("a"))


def test_streams_are_made_by_stores_alone():
    """Another instance would be collected as if there were a native stream in it."""
    kind = hflush.FSDataOutputStream
    for make in (kind, partial(kind.__new__, kind), partial(object.__new__, kind)):
        with pytest.raises(TypeError):
            make()


def test_names_of_bytes(store: Store):
    """They are accepted wherever text is, as the built-in open() does."""
    path = store.path("a")
    with hflush.open(store.url(path).encode(), "wb", conf=store.conf) as out:
        out.write(b"data")
    assert out.path == path
    assert store.fs.exists(path.encode())
    assert store.fs.create_file(path.encode()).overwrite(False)._path == path
    with store.fs.open(path.encode()) as reader:
        assert reader.read() == b"data"
    with pytest.raises(TypeError, match=r"expected str, bytes or os\.PathLike object, not int"):
        store.fs.create(7)


def test_what_creation_pays_for_the_exceptions_around_it():
    """Well under a microsecond where none is handled."""
    count = 10_000
    assert min(timeit.repeat(marks, number=count, repeat=20)) / count < 1e-6


def test_a_warning_made_an_error_ends_nothing(tmp_path: Path):
    """With -W error it is shown as a destructor's exception, and the other streams are reached."""
    program = (
        "import hflush, io, sys\n"
        "held = [io.TextIOWrapper(hflush.create(f'{sys.argv[1]}/{n}')) for n in range(3)]\n"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, tmp_path],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert run.returncode == 0
    for number in range(3):
        assert (
            f"never closed, not published: <hflush.FSDataOutputStream name='{tmp_path}/{number}'"
            in (run.stderr)
        )


def test_buffers_over_a_stream_still_close_it(store: Store):
    """A wrapper that is closed by its program publishes, whatever is collected afterwards."""
    with io.BufferedWriter(store.fs.create(store.path("a"))) as out:
        out.write(b"data")
    assert store.read(store.path("a")) == b"data"
