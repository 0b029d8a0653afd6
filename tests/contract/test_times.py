"""TIME: time stamps of local files are the kernel's."""

from __future__ import annotations

import os

import hflush
import pytest
from hflush import Rename, cli
from support.stores import FILES, Store

Stream = hflush.FSDataOutputStream

LONG_AGO_MS = 1_234_567_890_123
CLOCKS = {"hdfs": "NameNode", "s3": "store"}


def store_clock_ns(store: Store, name: str) -> int:
    """What the store's clock says now: the time of a file that it makes."""
    return store.fs.get_file_status(store.write(store.path(name))).modification_time_ns


@pytest.mark.rule("TIME-1", on=FILES)
def test_time_after_close_is_within_the_close(store: Store, path: str, out: Stream) -> None:
    """TIME-1: after close the modification time is the store's, during the close call."""
    before = store_clock_ns(store, "before")
    out.write(b"abc")
    out.close()
    after = store_clock_ns(store, "after")
    assert before <= store.fs.get_file_status(path).modification_time_ns <= after
    assert store.options["mtime-clock"] == CLOCKS.get(store.name, "local kernel")


@pytest.mark.stores("raw", "crc")
def test_a_time_that_64_bits_do_not_hold(store: Store, path: str) -> None:
    """It is the nearest, and not one of another century."""
    store.write(path)
    os.utime(path, (0, 13_569_465_600))  # the year 2400
    assert store.fs.get_file_status(path).modification_time_ns == 2**63 - 1


@pytest.mark.rule("TIME-1")
@pytest.mark.stores("raw", "crc")
def test_a_file_that_stays_empty_has_the_time_of_its_making(store: Store, path: str) -> None:
    """TIME-1: also if it was empty before, and nothing is cut."""
    store.write(path)
    store.fs.set_times(path, LONG_AGO_MS, -1)
    store.fs.create(path).close()
    assert store.fs.get_file_status(path).modification_time > LONG_AGO_MS


@pytest.mark.rule("TIME-2")
@pytest.mark.stores(*FILES)
def test_time_while_writing_does_not_go_back(store: Store, path: str, out: Stream) -> None:
    """TIME-2: while a file is written its time may change; it exists and does not go back."""
    times = [store.fs.get_file_status(path).modification_time_ns]
    for _ in range(5):
        out.write(bytes(1000))
        (out.hsync if out.has_capability("hsync") else out.flush)()
        times.append(store.fs.get_file_status(path).modification_time_ns)
    out.close()
    times.append(store.fs.get_file_status(path).modification_time_ns)
    assert times == sorted(times)


@pytest.mark.rule("TIME-4", divergence="raw")
@pytest.mark.stores("raw")
def test_append_changes_the_time_when_it_writes(store: Store, path: str) -> None:
    """TIME-4: declared divergence: opening leaves the time, but a write moves it at once."""
    store.write(path, b"abc")
    store.fs.set_times(path, LONG_AGO_MS, -1)
    with store.fs.append(path) as out:
        assert store.fs.get_file_status(path).modification_time == LONG_AGO_MS
        out.write(b"d")
        out.hflush()
        assert store.fs.get_file_status(path).modification_time > LONG_AGO_MS
    assert store.options["mtime-clock"] == ("local kernel" if store.local else "NameNode")


@pytest.mark.rule("TIME-5")
@pytest.mark.stores(*FILES)
def test_set_times_sets_what_it_is_given(store: Store, path: str) -> None:
    """TIME-5: both times are set; -1 leaves one as it is; a missing path is FileNotFoundError."""
    assert store.options["supports-settimes"] is True
    store.write(path, b"abc")
    store.fs.set_times(path, LONG_AGO_MS, LONG_AGO_MS + 5000)
    status = store.fs.get_file_status(path)
    assert (status.modification_time, status.access_time) == (LONG_AGO_MS, LONG_AGO_MS + 5000)
    store.fs.set_times(path, -1, LONG_AGO_MS)
    store.fs.set_times(path, LONG_AGO_MS + 1000, -1)
    status = store.fs.get_file_status(path)
    assert (status.modification_time, status.access_time) == (LONG_AGO_MS + 1000, LONG_AGO_MS)
    with pytest.raises(FileNotFoundError):
        store.fs.set_times(store.path("no"), LONG_AGO_MS, LONG_AGO_MS)
    assert not store.fs.exists(store.path("no"))


@pytest.mark.rule("TIME-6")
@pytest.mark.stores(*FILES)
def test_rename_keeps_the_time_of_the_file(store: Store, path: str) -> None:
    """TIME-6: both renames keep the file's time; its new parent's changes."""
    store.write(path, b"abc")
    store.fs.mkdirs(store.path("parent"))
    store.fs.set_times(path, LONG_AGO_MS, -1)
    store.fs.set_times(store.path("parent"), LONG_AGO_MS, -1)
    assert store.fs.rename(path, store.path("parent", "one"))
    store.fs.rename(store.path("parent", "one"), store.path("parent", "two"), Rename.NONE)
    assert store.fs.get_file_status(store.path("parent", "two")).modification_time == LONG_AGO_MS
    assert store.fs.get_file_status(store.path("parent")).modification_time > LONG_AGO_MS


@pytest.mark.rule("TIME-7")
@pytest.mark.stores("raw")
def test_truncate_changes_the_time(store: Store, path: str) -> None:
    """TIME-7: truncate updates the modification time."""
    store.write(path, b"abc")
    store.fs.set_times(path, LONG_AGO_MS, -1)
    assert store.fs.truncate(path, 1) is True
    assert store.fs.get_file_status(path).modification_time > LONG_AGO_MS


@pytest.mark.rule("TIME-8", divergence=("raw", "crc"))
@pytest.mark.stores("raw", "crc")
def test_access_time_is_the_systems(store: Store, path: str) -> None:
    """TIME-8: declared divergence: access times are what the mount option makes of them."""
    store.write(path, b"abc")
    store.fs.set_times(path, -1, LONG_AGO_MS)
    assert store.fs.get_file_status(path).access_time == LONG_AGO_MS
    store.read(path)
    status = store.fs.get_file_status(path)
    assert status.access_time_ns == os.stat(path).st_atime_ns
    assert status.access_time >= LONG_AGO_MS


@pytest.mark.rule("TIME-9")
@pytest.mark.stores("raw", "crc")
def test_times_have_the_resolution_of_the_store(store: Store, path: str) -> None:
    """TIME-9: nanoseconds are reported as the system has them, milliseconds are cut from them."""
    store.write(path, b"abc")
    exact = LONG_AGO_MS * 1_000_000 + 456_789
    os.utime(path, ns=(exact, exact))
    status = store.fs.get_file_status(path)
    assert status.modification_time_ns == os.stat(path).st_mtime_ns
    assert status.modification_time == LONG_AGO_MS
    assert store.options["mtime-granularity"] == "ns"
    assert status.modification_time_ns == exact


@pytest.mark.rule("TIME-11")
@pytest.mark.stores("raw", "hdfs", "s3")
def test_what_times_mean_can_be_measured(
    store: Store, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """TIME-11: a command prints granularity, skew, and what set_times, rename and chmod do."""
    options = [f"-D{key}={value}" for key, value in store.conf.items()]
    assert cli.main([*options, "times", store.url(store.root)]) == 0
    lines = capsysbinary.readouterr().out.decode().splitlines()
    told = dict(line.split(": ", 1) for line in lines)
    assert list(told) == ["granularity", "clock", "set_permission", "set_times", "rename"]
    assert (
        told["granularity"]
        in {
            "raw": ("1e-09 s", "1e-06 s", "0.001 s"),
            "hdfs": ("0.001 s", "1 s"),
            "s3": ("1 s",),
        }[store.name]
    )
    assert abs(float(told["clock"].split()[0])) < 60
    assert told["set_permission"] == "keeps the modification time"
    if store.name == "s3":
        assert told["set_times"].startswith("refused: ")
        assert told["rename"] == "changes it"
    else:
        assert told["set_times"] == "changes it"
        assert told["rename"] == "keeps the modification time"
    assert store.on_disk() == []
