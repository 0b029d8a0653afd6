"""S3: streams that nobody closes, where the store does not answer; forks; a closed file system."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

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
from support.scripted_s3 import ScriptedS3
from support.waiting import DEADLINE_S, LONG_S, soon

pytestmark = pytest.mark.stores("s3")


def nothing_published(s3: ScriptedS3) -> None:
    assert s3.count(COMPLETE) == 0
    assert s3.count(PUT) == 0
    assert s3.objects[KEY].data == OLD


@pytest.mark.rule("CLOSE-21", "ABORT-8", "CLOSE-23")
def test_a_stream_that_is_forgotten(
    s3: ScriptedS3, s3_fs: hflush.FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is warned about, and publishes nothing; the collector waits for nobody."""
    monkeypatch.setattr("hflush.s3.streams._CLEAN_UP_S", LONG_S)
    put_old(s3)
    stream = s3_fs.create(PATH)
    write_pieces(stream, DATA)
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


@pytest.mark.rule("CLOSE-23", "OBJ-8")
def test_the_end_of_a_process_whose_store_says_nothing(s3: ScriptedS3) -> None:
    """Ends all the same, though a part refers to bytes of the program: 7 MiB are not copied."""
    put_old(s3)
    s3.fail(UPLOAD, hold(s3.ended), times=None)
    s3.fail(ABORT, hold(s3.ended), times=None)
    conf = {**s3.conf, **IMPATIENT}
    program = f"""
import hflush
fs = hflush.FileSystem.new_instance("s3://bucket/", {conf!r})
stream = fs.create({PATH!r})
stream.write(bytes(7 << 20))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=DEADLINE_S,
        check=False,
    )
    assert ended.returncode == 0
    nothing_published(s3)


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


@pytest.mark.rule("CONC-12")
def test_a_child_keeps_no_part_that_is_on_disk(s3: ScriptedS3, tmp_path: Path) -> None:
    """Its parent's files have no names: their space would be taken as long as the child lives."""

    def parts() -> list[str]:
        found = []
        for descriptor in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # that of the listing itself
                found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        return [name for name in found if name.startswith(str(tmp_path))]

    def look() -> None:
        assert parts() == []

    conf = {"fs.s3a.fast.upload.buffer": "disk", "fs.s3a.buffer.dir": str(tmp_path)}
    with file_system(s3, conf) as fs, fs.create("/x") as out:
        out.write(DATA)
        assert parts()
        in_child(look)


@pytest.mark.rule("CONC-12", "CLOSE-21")
def test_a_child_drops_a_stream_that_refers_to_bytes(
    s3: ScriptedS3, s3_fs: hflush.FileSystem
) -> None:
    """They are its parent's to send: in the child nothing happens to them, in the parent all."""
    gate = threading.Event()
    s3.fail(UPLOAD, hold(gate), times=None)
    data = bytes(bytearray(DATA))  # nobody else refers to it
    before = sys.getrefcount(data)
    streams = [s3_fs.create(PATH)]
    streams[0].write(data)
    s3.wait_for(UPLOAD, 2)
    held = sys.getrefcount(data)
    assert held > before

    def drop_and_write_one() -> None:
        streams.clear()
        gc.collect()
        assert sys.getrefcount(data) == held
        own = data[: 1 << 20]
        alone = sys.getrefcount(own)
        with s3_fs.create("/child") as out:
            out.write(own)
        assert sys.getrefcount(own) == alone

    in_child(drop_and_write_one)
    gate.set()
    streams[0].close()
    assert sys.getrefcount(data) == before
    assert s3.objects["child"].data == data[: 1 << 20]
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
