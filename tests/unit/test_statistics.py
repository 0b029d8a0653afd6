"""IOStatistics: kinds, aggregation, snapshots, and what streams count."""

from __future__ import annotations

import pickle
import re

import hflush
import pytest
from hflush import IOStatistics, MeanStatistic, statistics
from support.stores import Store

KINDS = ("counters", "gauges", "minimums", "maximums", "means")
FLAT = {
    "stream_write_bytes": 10,
    "op_hsync.samples": 2,
    "op_hsync.sum_ns": 3_000_000,
    "op_hsync.min_ns": 1_000_000,
    "op_hsync.max_ns": 2_000_000,
    "op_close.samples": 0,
    "op_close.sum_ns": 0,
    "op_close.min_ns": 0,
    "op_close.max_ns": 0,
}


@pytest.mark.rule("STATS-5")
@pytest.mark.stores("raw", "crc")
def test_durations_become_milliseconds_in_three_maps():
    """A timed operation has its minimum, mean and maximum, each under a name of its own."""
    stats = statistics.live(lambda: FLAT)
    assert dict(stats.counters) == {"stream_write_bytes": 10, "op_hsync": 2, "op_close": 0}
    assert dict(stats.minimums) == {"op_hsync_duration_min": 1.0, "op_close_duration_min": -1.0}
    assert dict(stats.maximums) == {"op_hsync_duration_max": 2.0, "op_close_duration_max": -1.0}
    assert stats.means["op_hsync_duration_mean"] == MeanStatistic(2, 3.0)
    assert stats.means["op_hsync_duration_mean"].mean() == 1.5
    assert stats.means["op_close_duration_mean"].mean() == 0.0


@pytest.mark.rule("STATS-8")
@pytest.mark.stores("raw", "crc")
def test_aggregation():
    """Counters and gauges add, extremes combine, means weigh by samples; nothing adds nothing."""
    one = IOStatistics.from_dict(
        {
            "counters": {"c": 1, "only": 5},
            "gauges": {"g": -2},
            "minimums": {"m_min": 4.0, "empty_min": -1.0},
            "maximums": {"m_max": 4.0, "empty_max": -1.0},
            "means": {"m_mean": {"samples": 1, "sum": 4.0}},
        }
    )
    two = IOStatistics.from_dict(
        {
            "counters": {"c": 2},
            "gauges": {"g": -3},
            "minimums": {"m_min": 3.0, "empty_min": -1.0},
            "maximums": {"m_max": 9.0},
            "means": {
                "m_mean": {"samples": 3, "sum": 20.0},
                "empty_mean": {"samples": 0, "sum": 0},
            },
        }
    )
    both = statistics.aggregate((one, two))
    assert dict(both.counters) == {"c": 3, "only": 5}
    assert dict(both.gauges) == {"g": -5}
    assert dict(both.minimums) == {"m_min": 3.0, "empty_min": -1.0}
    assert dict(both.maximums) == {"m_max": 9.0, "empty_max": -1.0}
    assert both.means["m_mean"].mean() == 6.0
    assert both.means["empty_mean"].mean() == 0.0


@pytest.mark.rule("STATS-11")
@pytest.mark.stores("raw", "crc")
def test_snapshots_travel():
    """JSON and pickle bring back the same five maps."""
    stats = statistics.live(lambda: FLAT)
    assert IOStatistics.from_json(stats.to_json()) == stats
    assert pickle.loads(pickle.dumps(stats)) == stats
    assert "stream_write_bytes=10" in repr(stats)


@pytest.mark.rule("STATS-6")
@pytest.mark.stores("raw", "crc")
def test_maps_are_read_only_and_current():
    """A map cannot be changed; another access sees what happened since, a snapshot does not."""
    flat = dict(FLAT)
    stats = statistics.live(lambda: flat)
    kept = stats.snapshot()
    for kind in KINDS:
        with pytest.raises(TypeError):
            getattr(stats, kind)["x"] = 1
    flat["stream_write_bytes"] = 11
    assert stats.counters["stream_write_bytes"] == 11
    assert kept.counters["stream_write_bytes"] == 10


@pytest.mark.rule("STATS-1", "STATS-2", "STATS-3", "STATS-4")
def test_an_output_stream_counts_its_bytes(store: Store):
    """0 before writing, exact after close, for this stream alone, and readable ever after."""
    with store.fs.create(store.path("a")) as out, store.fs.create(store.path("b")) as other:
        stats = out.io_statistics()
        assert stats.counters["stream_write_bytes"] == 0
        assert stats.counters["stream_write_exceptions"] == 0
        out.write(b"x" * 22)
        out.write(b"y" * 22)
        other.write(b"z")
    assert stats.counters["stream_write_bytes"] == 44
    assert other.io_statistics().counters["stream_write_bytes"] == 1
    assert "stream_write_bytes=44" in str(stats)


@pytest.mark.rule("STATS-5")
def test_names_follow_the_pattern_and_live_in_one_map(store: Store):
    """[a-z][a-z0-9_]+, and no name twice, for output and input streams."""
    with store.fs.create(store.path("a")) as out:
        out.write(b"x")
    with store.fs.open(store.path("a")) as stream:
        stream.read()
    for stats in (out.io_statistics(), stream.io_statistics()):
        names = [name for kind in KINDS for name in getattr(stats, kind)]
        assert all(re.fullmatch("[a-z][a-z0-9_]+", name) for name in names)
        assert len(names) == len(set(names))


@pytest.mark.rule("STATS-7")
@pytest.mark.stores("raw")
def test_syncs_are_counted_and_timed(store: Store):
    """op_hflush and op_hsync count calls, and their durations are in the other maps."""
    with store.fs.create(store.path("a")) as out:
        for _ in range(3):
            out.write(b"x")
            out.hflush()
        out.write(b"x")
        out.hsync()
        stats = out.io_statistics()
    assert stats.counters["op_hflush"] == 3
    assert stats.counters["op_hsync"] == 1
    assert stats.means["op_hsync_duration_mean"].samples == 1
    low, high = stats.minimums["op_hsync_duration_min"], stats.maximums["op_hsync_duration_max"]
    assert 0 < low == high < 60_000


@pytest.mark.rule("STATS-7", "OBJ-11")
@pytest.mark.rule("HFLUSH-1", "HSYNC-1", refused="crc")
@pytest.mark.stores("crc")
def test_downgraded_syncs_are_counted_and_warned_once(store: Store):
    """With hflush.syncable.downgrade the calls return, are counted apart, and warn once."""
    conf = {**store.conf, "hflush.syncable.downgrade": True}
    fs = hflush.FileSystem.new_instance(store.url(), conf)
    assert fs.contract_options["downgrade-syncable"] is True
    with fs.create(store.path("a")) as out:
        assert out.has_capability("hsync") is False
        out.write(b"x")
        with pytest.warns(RuntimeWarning, match="downgrade") as caught:  # noqa: PT031
            out.hflush()
            out.hsync()
            out.hsync()
        assert len(caught) == 1
    assert out.io_statistics().counters["op_hflush"] == 1
    assert out.io_statistics().counters["op_hsync"] == 2
    assert fs.io_statistics().counters["op_hsync"] == 2
    with pytest.raises(hflush.StreamClosedError):
        out.hsync()
    assert store.read(store.path("a")) == b"x"


def test_the_downgrade_does_not_touch_what_works(tmp_path):
    """On raw files the option changes nothing: hsync still syncs, and nothing warns."""
    fs = hflush.FileSystem.new_instance(str(tmp_path), {"hflush.syncable.downgrade": True})
    with fs.create(tmp_path / "a") as out:
        out.write(b"x")
        out.hsync()
        assert out.has_capability("hsync")
    assert out.io_statistics().counters["op_hsync"] == 1


@pytest.mark.rule("STATS-9", "STATS-2")
def test_input_streams_count_what_they_fetch(store: Store):
    """Seeking fetches nothing; stream reads count with what is read ahead, positioned exactly."""
    store.write(store.path("a"), bytes(1000))
    with store.fs.open(store.path("a")) as stream:
        stats = stream.io_statistics()
        assert stats.counters["stream_read_bytes"] == 0
        stream.seek(500)
        assert stats.counters["stream_read_bytes"] == 0
        stream.read(10)
        fetched = stats.counters["stream_read_total_bytes"]
        assert 10 <= fetched <= 500
        assert len(stream.pread(0, 100)) == 100
        assert stats.counters["stream_read_total_bytes"] == fetched + 100
    assert stats.counters["stream_read_total_bytes"] == fetched + 100
    assert stats.counters["stream_read_bytes"] == 110


@pytest.mark.rule("STATS-7")
def test_a_file_system_adds_up_its_closed_streams(store: Store):
    """What streams did is merged into the file system's statistics at close, once."""
    for name in ("a", "b"):
        with store.fs.create(store.path(name)) as out:
            out.write(b"12345")
        out.close()
    assert store.fs.io_statistics().counters["stream_write_bytes"] == 10
