"""STATS: what a stream counts."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import hflush
import pytest
from hflush.statistics import IOStatistics, MeanStatistic, aggregate
from support.data import dataset
from support.documentation import docstring
from support.stores import Store
from support.waiting import together

Stream = hflush.FSDataOutputStream

MAPS = ("counters", "gauges", "minimums", "maximums", "means")


def written(out: Stream) -> int:
    return out.io_statistics().counters["stream_write_bytes"]


@pytest.mark.rule("STATS-1")
def test_statistics_belong_to_the_stream(store: Store) -> None:
    """STATS-1: two streams count for themselves, whatever thread does the work."""
    with store.fs.create(store.path("a")) as first, store.fs.create(store.path("b")) as second:
        together(*[lambda: [first.write(bytes(1000)) for _ in range(100)]] * 4)
        second.write(b"abc")
    assert (written(first), written(second)) == (400_000, 3)


@pytest.mark.rule("STATS-2")
def test_required_keys_are_there_from_the_start(store: Store, path: str, out: Stream) -> None:
    """STATS-2: written bytes and write exceptions start at 0; input streams count bytes read."""
    counters = out.io_statistics().counters
    assert (counters["stream_write_bytes"], counters["stream_write_exceptions"]) == (0, 0)
    out.write(dataset(1000))
    out.close()
    with store.fs.open(path) as reader:
        assert reader.io_statistics().counters["stream_read_bytes"] == 0
        reader.read()
        assert reader.io_statistics().counters["stream_read_bytes"] == 1000


@pytest.mark.rule("STATS-3")
def test_written_bytes_grow_and_are_exact(store: Store, out: Stream) -> None:
    """STATS-3: each write counts at once, as declared, on checksummed files too."""
    assert store.options["write-granularity"] == 0
    accepted = 0
    for size in (1, 22, 22, 5000):
        out.write(bytes(size))
        accepted += size
        assert written(out) == accepted
    out.close()
    assert written(out) == accepted


@pytest.mark.rule("STATS-4")
def test_statistics_outlive_the_stream(store: Store, out: Stream) -> None:
    """STATS-4: statistics can be read after close, and their text shows the values."""
    statistics = out.io_statistics()
    out.write(bytes(22))
    out.close()
    assert statistics.counters["stream_write_bytes"] == 22
    assert "stream_write_bytes=22" in str(statistics)


@pytest.mark.rule("STATS-4", "STATS-2")
def test_statistics_outlive_a_failure(store: Store, failed: Stream) -> None:
    """STATS-4: statistics can be read after a failure, which they count."""
    assert failed.io_statistics().counters["stream_write_exceptions"] >= 1
    with pytest.raises(OSError, match=store.full_text):
        failed.close()
    assert failed.io_statistics().counters["stream_write_exceptions"] >= 1
    assert "stream_write_exceptions" in str(failed.io_statistics())


def busy_statistics(store: Store, path: str) -> list[IOStatistics]:
    with store.fs.create(path) as out:
        out.write(dataset(5000))
        out.flush()
        if out.has_capability("hsync"):
            out.hflush()
            out.hsync()
    with store.fs.open(path) as reader:
        reader.read()
        reader.pread(10, 10)
    return [out.io_statistics(), reader.io_statistics()]


@pytest.mark.rule("STATS-5")
def test_names_follow_the_pattern(store: Store, path: str) -> None:
    """STATS-5: names match [a-z][a-z0-9_]+, each in one map only; durations say so."""
    for statistics in busy_statistics(store, path):
        names = [name for kind in MAPS for name in getattr(statistics, kind)]
        assert names
        assert len(names) == len(set(names))
        assert all(re.fullmatch("[a-z][a-z0-9_]+", name) for name in names)
        for kind, suffix in (("minimums", "_min"), ("maximums", "_max"), ("means", "_mean")):
            assert all(name.endswith(suffix) for name in getattr(statistics, kind))


@pytest.mark.rule("STATS-6")
def test_maps_are_read_only_and_live(store: Store, out: Stream) -> None:
    """STATS-6: callers cannot change a map; keys stay, values move on."""
    statistics = out.io_statistics()
    for kind in MAPS:
        with pytest.raises(TypeError):
            getattr(statistics, kind)["mine"] = 1
    before = set(statistics.counters)
    out.write(bytes(100_000))
    out.flush()
    out.close()
    assert before <= set(statistics.counters)
    assert statistics.counters["stream_write_bytes"] == 100_000


@pytest.mark.rule("STATS-6")
def test_reading_is_thread_safe(store: Store, out: Stream) -> None:
    """STATS-6: threads that read while others write see values that only grow."""

    def read() -> bool:
        seen = [written(out) for _ in range(300)]
        return seen == sorted(seen)

    def write() -> bool:
        return all(out.write(bytes(999)) == 999 for _ in range(300))

    assert together(write, write, read, read) == [True] * 4
    assert written(out) <= 2 * 300 * 999


@pytest.mark.rule("STATS-7")
@pytest.mark.stores("raw", "hdfs")
def test_syncs_are_counted(store: Store, out: Stream) -> None:
    """STATS-7: op_hflush and op_hsync count the calls, one by one."""
    statistics = out.io_statistics()
    out.hflush()
    assert (statistics.counters["op_hflush"], statistics.counters["op_hsync"]) == (1, 0)
    out.hsync()
    assert (statistics.counters["op_hflush"], statistics.counters["op_hsync"]) == (1, 1)
    assert statistics.means["op_hsync_duration_mean"].samples == 1
    assert statistics.minimums["op_hsync_duration_min"] >= 0


@pytest.mark.rule("STATS-7")
@pytest.mark.stores("crc", "s3")
def test_refused_syncs_are_not_counted_as_done(store: Store, out: Stream) -> None:
    """STATS-7: a refused sync is not counted."""
    for sync in (out.hflush, out.hsync):
        with pytest.raises(OSError, match="not supported"):
            sync()
    counters = out.io_statistics().counters
    assert (counters["op_hflush"], counters["op_hsync"]) == (0, 0)


@pytest.mark.rule("STATS-7")
def test_file_system_adds_up_its_streams(store: Store, path: str) -> None:
    """STATS-7: at close, a stream's counts are merged into those of its file system."""
    for number in range(3):
        store.write(f"{path}-{number}", bytes(100))
    assert store.fs.io_statistics().counters["stream_write_bytes"] == 300


@pytest.mark.rule("STATS-8")
@pytest.mark.stores("raw", "crc")
def test_aggregation_of_the_five_kinds() -> None:
    """STATS-8: counters and gauges add, extremes combine, means weigh; nothing is neutral."""
    one = IOStatistics.from_dict(
        {
            "counters": {"c": 1},
            "gauges": {"g": -2},
            "minimums": {"l": 3.0},
            "maximums": {"h": 3.0},
            "means": {"m": {"samples": 1, "sum": 10.0}},
        }
    )
    other = IOStatistics.from_dict(
        {
            "counters": {"c": 10, "d": 5},
            "gauges": {"g": 5},
            "minimums": {"l": 2.0},
            "maximums": {"h": 9.0},
            "means": {"m": {"samples": 3, "sum": 6.0}},
        }
    )
    empty = IOStatistics.from_dict(
        {
            "minimums": {"l": -1.0},
            "maximums": {"h": -1.0},
            "means": {"m": {"samples": 0, "sum": 0.0}},
        }
    )
    for order in ([one, other, empty], [empty, other, one]):
        total = aggregate(order)
        assert dict(total.counters) == {"c": 11, "d": 5}
        assert dict(total.gauges) == {"g": 3}
        assert dict(total.minimums) == {"l": 2.0}
        assert dict(total.maximums) == {"h": 9.0}
        assert total.means["m"] == MeanStatistic(4, 16.0)
        assert total.means["m"].mean() == 4.0
    assert MeanStatistic().mean() == 0.0
    assert dict(aggregate([]).counters) == {}


@pytest.mark.rule("STATS-9")
def test_seek_is_no_read(store: Store, path: str) -> None:
    """STATS-9: seeking reads nothing; reading ahead counts what was fetched, as documented."""
    store.write(path, dataset(5000))
    with store.fs.open(path) as reader:
        statistics = reader.io_statistics()
        reader.seek(4000)
        reader.seek(10)
        assert statistics.counters["stream_read_bytes"] == 0
        reader.read(100)
        assert statistics.counters["stream_read_bytes"] == 100
        fetched = statistics.counters["stream_read_total_bytes"]
        assert 100 <= fetched <= 4990
        reader.pread(2000, 50)
        assert statistics.counters["stream_read_bytes"] == 150
        assert statistics.counters["stream_read_total_bytes"] == fetched + 50
    assert "read-ahead included" in docstring(hflush.FSDataInputStream.io_statistics)


@pytest.mark.rule("STATS-2", "STATS-9")
def test_every_kind_of_read_counts_what_the_caller_got(store: Store, path: str) -> None:
    """testInputStreamStatisticRead: exact after each read, whatever was fetched for it."""
    data = b"".join(b"%06d\n" % number for number in range(3000))
    store.write(path, data)
    with store.fs.open(path) as reader:
        got = 0
        reads: list[Callable[[], int]] = [
            lambda: len(reader.read(10)),
            lambda: len(reader.read1(20)),
            lambda: reader.readinto(bytearray(30)),
            lambda: reader.readinto1(bytearray(40)),
            lambda: len(reader.readline()),
            lambda: len(next(reader)),
            lambda: 0 * len(reader.peek(10)),
            lambda: 0 * reader.seek(5000),
            lambda: len(reader.pread(7, 50)),
            lambda: len(reader.read_fully(7, 60)),
            lambda: reader.pread_into(7, bytearray(70)),
            lambda: sum(len(one.result()) for one in reader.read_vectored([(0, 80), (100, 90)])),
            lambda: sum(map(len, reader.readlines(500))),
            lambda: len(reader.read()),
            lambda: len(reader.read(10)),
        ]
        for read in reads:
            got += read()
            counters = reader.io_statistics().counters
            assert counters["stream_read_bytes"] == got
        assert reader.io_statistics().counters["stream_read_total_bytes"] > 0
    assert reader.io_statistics().counters["stream_read_bytes"] == got


@pytest.mark.rule("STATS-10")
def test_wrappers_lead_to_the_statistics(store: Store, path: str) -> None:
    """STATS-10: a text wrapper has none of its own; its stream's count what it wrote."""
    with hflush.open(store.url(path), "w", encoding="utf-8", conf=store.conf) as text:
        text.write("äöü\n")
        text.flush()
        assert not hasattr(text, "io_statistics")
        assert text.buffer.io_statistics().counters["stream_write_bytes"] == 7


@pytest.mark.rule("STATS-11")
def test_snapshots_survive_pickle_and_json(store: Store, path: str) -> None:
    """STATS-11: a snapshot keeps its values, through pickle and JSON too."""
    for statistics in busy_statistics(store, path):
        snapshot = statistics.snapshot()
        assert pickle.loads(pickle.dumps(statistics)) == snapshot
        assert IOStatistics.from_json(snapshot.to_json()) == snapshot
        assert set(json.loads(snapshot.to_json())) == set(MAPS)


@pytest.mark.rule("STATS-12", divergence="crc")
@pytest.mark.stores("crc")
def test_counters_count_user_bytes(store: Store, path: str) -> None:
    """STATS-12: declared divergence: counters hold the user's bytes, no sidecar traffic."""
    store.write(path, bytes(10))
    assert Path(store.path(".file.crc")).stat().st_size == 12
    assert store.fs.io_statistics().counters["stream_write_bytes"] == 10
    with store.fs.open(path) as reader:
        reader.read()
        assert reader.io_statistics().counters["stream_read_bytes"] == 10


@pytest.mark.rule("STATS-2")
def test_failures_are_counted(store: Store, path: str) -> None:
    """STATS-2: a failed write is a write exception."""
    out = store.fs.create(path)
    out.write(bytes(1000))
    with store.full(10), pytest.raises(OSError, match=store.full_text):
        out.close()
    assert out.io_statistics().counters["stream_write_exceptions"] == 1
