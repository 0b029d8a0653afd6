"""The shim itself, against plain system calls: an instrument that lies proves nothing."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.expecting import any_os_error, os_error
from faults.shim.control import Faults
from support.waiting import Task

pytestmark = pytest.mark.shim


@pytest.fixture
def descriptor(faults: Faults, tmp_path: Path) -> Iterator[int]:
    number = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    yield number
    os.close(number)


def test_logs_calls_in_order(faults: Faults, tmp_path: Path) -> None:
    """The log holds every call below the directory, and none elsewhere."""
    number = os.open(tmp_path / "file", os.O_CREAT | os.O_WRONLY)
    os.write(number, b"abc")
    os.pwritev(number, [b"de", b"f"], 3)
    os.fsync(number)
    os.fdatasync(number)
    os.close(number)
    os.rename(tmp_path / "file", tmp_path / "other")
    os.write(os.open(os.devnull, os.O_WRONLY), b"elsewhere")
    directory = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(directory)
    os.close(directory)
    os.unlink(tmp_path / "other")
    calls = faults.calls()
    assert [
        (call.operation, call.result) for call in calls if call.operation not in {"open", "close"}
    ] == [
        ("write", 3),
        ("write", 3),
        ("sync", 0),
        ("sync", 0),
        ("rename", 0),
        ("sync", 0),
        ("unlink", 0),
    ]
    assert [call.is_directory for call in faults.calls("sync")] == [False, False, True]
    assert [call.function for call in faults.calls("sync")] == ["fsync", "fdatasync", "fsync"]
    assert [call.name for call in faults.calls("rename", "unlink")] == ["file", "other"]
    assert all(call.began < call.ended for call in calls)


def test_fails_what_a_rule_names(faults: Faults, descriptor: int) -> None:
    """A rule with a limit fails so many calls, and leaves others alone."""
    rule = faults.fail("sync", errno.EIO, "*/file", skip=1, limit=1)
    os.fsync(descriptor)
    with os_error(errno.EIO):
        os.fdatasync(descriptor)
    os.fsync(descriptor)
    assert rule.applied == 1
    assert os.write(descriptor, b"x") == 1


def test_interrupts_every_third_call(faults: Faults, descriptor: int) -> None:
    """Python itself retries EINTR (PEP 475), so the log shows more calls than the program made."""
    rule = faults.fail("write", errno.EINTR, every=3)
    for _ in range(10):
        assert os.write(descriptor, b"x") == 1
    interrupted = [call for call in faults.calls("write") if call.error == errno.EINTR]
    assert len(interrupted) == rule.applied == 5
    assert os.fstat(descriptor).st_size == 10


def test_shortens_writes(faults: Faults, descriptor: int) -> None:
    """A short write takes what the rule allows, from vectors too."""
    faults.short("write", 7)
    assert os.write(descriptor, bytes(100)) == 7
    assert os.writev(descriptor, [b"abc", b"defghi"]) == 7
    assert os.pread(descriptor, 20, 7) == b"abcdefg"


def test_runs_out_of_space(faults: Faults, descriptor: int) -> None:
    """The disk fills up as a real one does: a short write, then ENOSPC."""
    faults.budget(10)
    assert os.write(descriptor, bytes(8)) == 8
    assert os.write(descriptor, bytes(8)) == 2
    with os_error(errno.ENOSPC):
        os.write(descriptor, b"x")


def test_gate_holds_a_call_until_released(faults: Faults, descriptor: int) -> None:
    """A call at a gate has not happened yet."""
    with faults.gate("sync") as gate:
        task = Task(os.fsync, descriptor)
        gate.wait_for(1)
        assert task.is_alive()
        assert faults.calls("sync") == []
    task.result()
    assert len(faults.calls("sync")) == 1


def test_failed_close_releases_the_descriptor(faults: Faults, tmp_path: Path) -> None:
    """As on Linux."""
    number = os.open(tmp_path / "file", os.O_CREAT | os.O_WRONLY)
    faults.fail("close", errno.EIO)
    with any_os_error():
        os.close(number)
    with os_error(errno.EBADF):
        os.fstat(number)


def test_kills_the_process(tmp_path: Path) -> None:
    """The call that a process is killed on does not happen."""
    script = (
        "import os; from faults.shim.control import Faults; faults = Faults(); "
        f"faults.watch({str(tmp_path)!r}); faults.kill('write', skip=1); "
        f"number = os.open({str(tmp_path / 'file')!r}, os.O_CREAT | os.O_WRONLY); "
        "os.write(number, b'a'); os.write(number, b'b')"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    status = subprocess.run([sys.executable, "-c", script], env=environment, check=False).returncode
    assert status == -9
    assert (tmp_path / "file").read_bytes() == b"a"
