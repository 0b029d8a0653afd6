"""S3: where the blocks of a stream wait: in memory that is bounded, on a disk that is full."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from support import limits
from support.process import open_files
from support.s3_front import Exchange, answer, corrupt_request, lose_answer, reset_in_body
from support.s3_ways import Way
from support.s3_writers import (
    COMPLETE,
    IMPATIENT,
    PATH,
    SMALL,
    UPLOAD,
    file_system,
    published,
    unchanged,
    write,
    write_pieces,
)
from support.scripted_s3 import MIB, Rules, ScriptedS3
from support.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.stores("s3")

BUDGET = 32 * MIB
BESIDE = 8 * MIB


def on_disk(directory: Path) -> dict[str, str]:
    return {"fs.s3a.fast.upload.buffer": "disk", "fs.s3a.buffer.dir": str(directory)}


@pytest.mark.rule("OBJ-7", "OBJ-6", "CLOSE-8", "FAIL-1")
def test_blocks_on_disk_are_sent_again(s3: ScriptedS3, tmp_path: Path) -> None:
    """The same bytes; and no file is seen, nor left."""
    s3.fail(UPLOAD, answer(500, "InternalError"), part=1)
    s3.fail(UPLOAD, reset_in_body(MIB), part=2)
    s3.fail(UPLOAD, corrupt_request(5), part=3)
    s3.fail(UPLOAD, lose_answer, part=3)
    with file_system(s3, on_disk(tmp_path)) as fs:
        write(fs)
        published(s3)
        write(fs, SMALL, "/small")
        assert s3.objects["small"].data == SMALL
    assert os.listdir(tmp_path) == []
    wait_until(  # large files are closed by a worker
        lambda: not any(name.startswith(str(tmp_path)) for name in open_files()), "they are closed"
    )


@pytest.mark.rule("WRITE-14", "FAIL-1", "CLOSE-8", "CLOSE-11")
def test_the_disk_is_full(s3: ScriptedS3, tmp_path: Path) -> None:
    """An error like any other: nothing is published, no upload and no file is left."""
    with file_system(s3, on_disk(tmp_path)) as fs:
        stream = fs.create(PATH)
        with limits.largest_file(2 * MIB):
            with pytest.raises(OSError, match=r"\[Errno \d+\] ") as caught:
                write_pieces(stream, bytes(8 * MIB))
            assert caught.value.errno == errno.EFBIG
            with pytest.raises(OSError, match=r"\[Errno \d+\] "):
                stream.close()
        unchanged(s3)
    assert s3.count(COMPLETE) == 0
    assert os.listdir(tmp_path) == []
    wait_until(  # large files are closed by a worker
        lambda: not any(name.startswith(str(tmp_path)) for name in open_files()), "they are closed"
    )


@pytest.mark.rule("FAIL-1")
def test_the_directory_cannot_be(s3: ScriptedS3, tmp_path: Path) -> None:
    """It is made where it is missing, and that may fail: not as if it were the object's."""
    with file_system(s3, on_disk(tmp_path / "missing")) as fs:
        write(fs)
    published(s3)
    s3.objects.clear()
    (tmp_path / "file").touch()
    below = on_disk(tmp_path / "file" / "below")
    with file_system(s3, below) as fs:
        with pytest.raises(OSError, match=r"fs\.s3a\.buffer\.dir.*Not a directory") as failure:
            write(fs)
        assert failure.value.errno == errno.EIO
    unchanged(s3)


@pytest.mark.rule("WRITE-22")
def test_memory_of_a_fast_writer(s3_way: Way) -> None:
    """A store that is slow: no more than the blocks of the budget, and a little, is held."""

    def slowly(exchange: Exchange) -> None:
        exchange.read_request()
        time.sleep(0.02)
        exchange.send(exchange.execute())

    with s3_way.server(Rules(keeps_data=False)) as server:
        server.fail(UPLOAD, slowly, times=None)
        conf = {
            **server.conf,
            **IMPATIENT,
            "fs.s3a.multipart.size": str(8 * MIB),
            "fs.s3a.fast.upload.active.blocks": str(BUDGET // (8 * MIB)),
            "fs.s3a.fast.upload.buffer": "bytebuffer",
        }
        program = f"""
            import hflush
            from pathlib import Path
            fs = hflush.FileSystem.new_instance("s3://bucket/", {conf!r})
            piece = bytes(1 << 20)
            with fs.create("/first") as out:
                out.write(piece)
            def memory(name):
                return int(Path("/proc/self/status").read_text().partition(name)[2].split()[0])
            Path("/proc/self/clear_refs").write_text("5")
            before = memory("VmRSS:")
            with fs.create("/large") as out:
                for _ in range(256):
                    out.write(piece)
            print((memory("VmHWM:") - before) * 1024)
            """
        ended = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        )
        assert server.objects["large"].size == 256 * MIB
    assert int(ended.stdout) <= BUDGET + BESIDE
