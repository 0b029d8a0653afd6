"""S3: only close() publishes. Not an exception, not the collector, not the end of a process."""

from __future__ import annotations

import csv
import errno
import gc
import gzip
import os
import signal
import subprocess
import sys
import textwrap
import threading
import traceback
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import hflush
import pytest
from support.forks import in_child
from support.s3_front import hold
from support.s3_writers import (
    ABORT,
    COMPLETE,
    DATA,
    IMPATIENT,
    KEY,
    OLD,
    PATH,
    PUT,
    SMALL,
    UPLOAD,
    file_system,
    no_upload_left,
    published,
    put_old,
    unchanged,
    write_pieces,
)
from support.scripted_s3 import MIB, ScriptedS3
from support.waiting import DEADLINE_S, LONG_S, soon

pytestmark = pytest.mark.stores("s3")


def nothing_published(s3: ScriptedS3) -> None:
    assert s3.count(COMPLETE) == 0
    assert s3.count(PUT) == 0
    assert s3.objects[KEY].data == OLD


class Ours(Exception):
    """Raised within a block."""


def plain(fs: Any, data: bytes) -> None:
    with fs.create(PATH) as out:
        write_pieces(out, data)
        raise Ours


def opened_as_text(fs: Any, data: bytes) -> None:
    with hflush.open(f"{fs.uri}{PATH}", "wt", encoding="latin-1", conf=fs.conf) as out:
        out.write(data.decode("latin-1"))
        raise Ours


def table(fs: Any, data: bytes) -> None:
    with hflush.open(f"{fs.uri}{PATH}", "wt", newline="", conf=fs.conf) as out:
        rows = csv.writer(out)
        for number in range(len(data) // 500):
            rows.writerow([number, "a" * 500])
        raise Ours


def compressed(fs: Any, data: bytes) -> None:
    with fs.create(PATH) as raw, gzip.open(raw, "wb", compresslevel=0) as out:
        out.write(data)
        raise Ours


def archive(fs: Any, data: bytes) -> None:
    with fs.create(PATH) as raw, zipfile.ZipFile(raw, "w") as out:
        out.writestr("member", data)
        raise Ours


@pytest.mark.rule("ABORT-2", "CLOSE-18", "CLOSE-23", "OBJ-15")
@pytest.mark.parametrize("data", [SMALL, DATA], ids=["small", "large"])
@pytest.mark.parametrize("writing", [plain, opened_as_text, table, compressed, archive])
def test_an_exception_in_a_with_block(
    s3: ScriptedS3,
    s3_fs: hflush.FileSystem,
    writing: Callable[[Any, bytes], None],
    data: bytes,
) -> None:
    """Goes on as it was; the older object stays, and the upload is ended."""
    put_old(s3)
    with pytest.raises(Ours):
        writing(s3_fs, data)
    nothing_published(s3)
    no_upload_left(s3)


@pytest.mark.rule("CLOSE-21", "ABORT-8", "CLOSE-23")
@pytest.mark.parametrize("data", [b"", SMALL, DATA], ids=["nothing", "small", "large"])
def test_a_stream_that_is_forgotten(
    s3: ScriptedS3, s3_fs: hflush.FileSystem, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    """Is warned about, and publishes nothing; the collector waits for nobody."""
    monkeypatch.setattr("hflush.s3.streams._CLEAN_UP_S", LONG_S)
    put_old(s3)
    stream = s3_fs.create(PATH)
    write_pieces(stream, data)
    if data is DATA:
        s3.wait_for(UPLOAD)
    gate = threading.Event()
    s3.fail(ABORT, hold(gate), times=None)
    held = [stream]
    del stream
    with soon():
        with pytest.warns(hflush.NotPublishedWarning, match="a key"):
            held.clear()
        gc.collect()
    gate.set()
    no_upload_left(s3)
    nothing_published(s3)


# What a process does with a stream that is open, after "ready" was read from it.
ENDINGS = {
    "returns": "pass",
    "sys.exit": "sys.exit(3)",
    "exception": "raise RuntimeError('of the program')",
    "os._exit": "os._exit(4)",
    "in a thread": "threading.Thread(target=stream.write, args=(bytes(1 << 20),)).start()",
    "signal": "os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)",
    "kill": "os.kill(os.getpid(), signal.SIGKILL)",
}


def run(s3: ScriptedS3, program: str) -> subprocess.CompletedProcess[str]:
    """A process with `fs`, and its end, before the deadline."""
    conf = {**s3.conf, **IMPATIENT}
    head = f"""
        import os, signal, sys, threading, time
        import hflush
        fs = hflush.FileSystem.new_instance("s3://bucket/", {conf!r})
        """
    text = textwrap.dedent(head) + textwrap.dedent(program)
    return subprocess.run(
        [sys.executable, "-W", "default", "-c", text],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.mark.rule("CLOSE-23", "CLOSE-21", "OBJ-8", "FAIL-7")
@pytest.mark.parametrize("ending", ENDINGS)
def test_the_end_of_a_process(s3: ScriptedS3, ending: str) -> None:
    """Nothing is published, at once; where there is time to, the upload is ended."""
    put_old(s3)
    ended = run(
        s3,
        f"""
        stream = fs.create({PATH!r})
        stream.write(bytes(7 << 20))
        {ENDINGS[ending]}
        """,
    )
    nothing_published(s3)
    died = ending in {"os._exit", "signal", "kill"}
    if died:
        assert len(s3.uploads) <= 1
    else:
        no_upload_left(s3)
        assert "never closed, not published" in ended.stderr
    wanted = {"sys.exit": 3, "exception": 1, "os._exit": 4, "signal": -15, "kill": -9}
    assert ended.returncode == wanted.get(ending, 0)


@pytest.mark.rule("CLOSE-23", "OBJ-8")
def test_the_end_of_a_process_whose_store_says_nothing(s3: ScriptedS3) -> None:
    """Ends all the same."""
    put_old(s3)
    s3.fail(UPLOAD, hold(s3.ended), times=None)
    s3.fail(ABORT, hold(s3.ended), times=None)
    ended = run(s3, f"stream = fs.create({PATH!r}); stream.write(bytes(7 << 20))")
    assert ended.returncode == 0
    nothing_published(s3)


@pytest.mark.rule("CONC-12")
def test_a_fork(s3: ScriptedS3, s3_fs: hflush.FileSystem) -> None:
    """The child sends nothing of the parent's stream; the parent publishes once."""
    stream = s3_fs.create(PATH)
    write_pieces(stream, DATA[: 6 * MIB])
    s3.wait_for(UPLOAD)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            with pytest.raises(OSError, match="fork"):
                stream.write(b"child")
            stream.close()
            del stream
            gc.collect()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert s3.count(ABORT) == 0
    write_pieces(stream, DATA[6 * MIB :])
    stream.close()
    published(s3)
    assert s3.count(COMPLETE) == 1


@pytest.mark.rule("CONC-12")
def test_a_child_has_connections_of_its_own(s3: ScriptedS3, s3_fs: hflush.FileSystem) -> None:
    """The same file system works in both after a fork."""
    with s3_fs.create("/before") as out:
        out.write(SMALL)

    def write_one() -> None:
        with s3_fs.create("/child") as out:
            out.write(SMALL)

    in_child(write_one)
    with s3_fs.create("/parent") as out:
        out.write(SMALL)
    assert sorted(s3.objects) == ["before", "child", "parent"]


@pytest.mark.rule("CLOSE-10")
def test_an_interrupted_close(s3: ScriptedS3, s3_fs: hflush.FileSystem) -> None:
    """Ctrl-C while parts are under way: close raises, nothing is published, the upload is ended."""
    old = put_old(s3)
    gate = threading.Event()
    s3.fail(UPLOAD, hold(gate), part=3)
    stream = s3_fs.create(PATH)
    write_pieces(stream, DATA)

    def interrupt() -> None:
        s3.wait_for(UPLOAD, part=3)
        os.kill(os.getpid(), signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        stream.close()
    helper.join()
    gate.set()
    assert stream.close() is None
    unchanged(s3, old=old)
    assert s3.count(COMPLETE) == 0


@pytest.mark.rule("WRITE-9")
@pytest.mark.parametrize("kind", [bytearray, lambda data: memoryview(bytearray(data))])
def test_memory_that_is_used_again(
    s3: ScriptedS3, s3_fs: hflush.FileSystem, kind: Callable[[bytes], Any]
) -> None:
    """What was written is what the memory held then."""
    with s3_fs.create(PATH) as out:
        for start in range(0, len(DATA), MIB):
            piece = kind(DATA[start : start + MIB])
            out.write(piece)
            piece[:] = bytes(len(piece))
    published(s3)


@pytest.mark.rule("CLOSE-20", divergence="s3")
def test_a_file_system_that_is_closed(s3: ScriptedS3) -> None:
    """Its open streams publish nothing, and their uploads are ended."""
    old = put_old(s3)
    fs = file_system(s3)
    stream = fs.create(PATH)
    write_pieces(stream, DATA)
    with pytest.raises(OSError, match="a key") as caught:
        fs.close()
    assert caught.value.errno == errno.ECANCELED
    with pytest.raises(hflush.StreamClosedError):
        stream.write(b"more")
    assert stream.close() is None
    unchanged(s3, old=old)
    assert s3.count(COMPLETE) == 0
