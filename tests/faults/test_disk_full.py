"""A disk that is really full, and a limit that the kernel really enforces."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import hflush
import pytest
from faults.expecting import os_error
from support.data import dataset
from support.limits import largest_file
from support.process import descriptors_under
from support.stores import Store

pytestmark = pytest.mark.stores("raw", "crc")  # the disk of this machine

DISK = 1 << 20
PIECE = 64 << 10
SIDECAR_HEADER = 8


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one mebibyte; mounting takes root (others: test_fault_matrix.py)."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk takes root")
    directory = tmp_path / "disk"
    directory.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(directory)]
    mounted = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small disk here: {mounted.stderr.strip()}")
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill(out: hflush.FSDataOutputStream) -> tuple[bytes, int, OSError]:
    """Write, and sync where possible, until it fails: bytes given, how many acknowledged, error."""
    given, acknowledged = b"", 0
    for number in range(1000):
        piece = dataset(PIECE, first=number % 7)
        given += piece
        try:
            out.write(piece)
            if out.has_capability("hsync"):
                out.hsync()
                acknowledged = len(given)
        except OSError as error:
            return given, acknowledged, error
    raise AssertionError("the disk took more than it has")


def check(store: Store, path: str, given: bytes, acknowledged: int) -> None:
    try:
        content = store.read(path)
    except hflush.ChecksumError:
        assert acknowledged == 0
        return
    assert len(content) >= acknowledged
    assert given.startswith(content)


@pytest.mark.rule("WRITE-14", "FAIL-1", "FAIL-3", "LOCAL-10", "CLOSE-8")
def test_full_disk(store: Store, small_disk: Path) -> None:
    """ENOSPC from the call that met it; the acknowledged bytes stay; the next stream works."""
    path = str(small_disk / "file")
    out = store.fs.create(path)
    given, acknowledged, failure = fill(out)
    assert (failure.errno, os.path.dirname(failure.filename)) == (errno.ENOSPC, str(small_disk))
    assert acknowledged or store.name == "crc"
    with os_error(errno.ENOSPC):
        out.close()
    assert descriptors_under(small_disk) == []
    check(store, path, given, acknowledged)
    assert store.fs.delete(path)
    assert store.read(store.write(path, dataset(PIECE))) == dataset(PIECE)


@pytest.mark.rule("WRITE-14", "FAIL-1", "CLOSE-10")
def test_full_disk_met_by_close(store: Store, small_disk: Path) -> None:
    """Bytes that were buffered until close are not lost in silence."""
    (small_disk / "ballast").write_bytes(bytes(DISK - 8192))
    out = store.fs.create(str(small_disk / "file"))
    out.write(dataset(20_000))
    with os_error(errno.ENOSPC):
        out.close()
    assert out.close() is None


@pytest.mark.rule("CREATE-9", "FAIL-1")
def test_full_disk_met_by_create(store: Store, small_disk: Path) -> None:
    """Whether create or close meets the full disk, one of them says so."""
    (small_disk / "ballast").write_bytes(bytes(DISK))
    with os_error(errno.ENOSPC), store.fs.create(str(small_disk / "file")) as out:
        out.write(b"data")
    assert descriptors_under(small_disk) == []


@pytest.mark.rule("WRITE-14", "FAIL-1", "FAIL-3")
@pytest.mark.parametrize("limit", [0, 1, 511, 100_000, DISK])
def test_file_size_limit(store: Store, limit: int) -> None:
    """RLIMIT_FSIZE: EFBIG with path, and the bytes below the limit are there."""
    path = store.path("file")
    with largest_file(limit):
        if store.name == "crc" and limit < SIDECAR_HEADER:
            with os_error(errno.EFBIG):
                store.fs.create(path)
            return
        out = store.fs.create(path)
        given, acknowledged, failure = fill(out)
        assert failure.errno == errno.EFBIG
        assert os.path.dirname(failure.filename) == store.root
        with os_error(errno.EFBIG):
            out.close()
    check(store, path, given, acknowledged)
    assert descriptors_under(store.root) == []
