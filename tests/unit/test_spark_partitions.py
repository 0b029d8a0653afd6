"""The names of partition directories."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pyarrow as pa
import pytest
from hflush.spark.partitions import split

DAY = 86_400_000_000


def names(values: list[Any], data: pa.DataType) -> list[str]:
    """Return the names of the directories of values, without the column's."""
    column = pa.array(values, pa.int32() if pa.types.is_date(data) else pa.int64()).cast(data)
    batch = pa.record_batch({"p": column, "n": pa.array(range(len(values)))})
    return [directory.removeprefix("p=") for directory, _ in split(batch, ("p",))]


@pytest.mark.parametrize(
    ("day", "name"),
    [
        (0, "1970-01-01"),
        (-719_162, "0001-01-01"),
        (-719_163, "0000-12-31"),
        (-719_529, "-0001-12-31"),
        (2_932_896, "9999-12-31"),
        (2_932_897, "+10000-01-01"),
        (3_663_382, "+12000-01-01"),
    ],
)
def test_dates_and_times_of_every_year(day: int, name: str):
    """Spark has more years than Python, and spells them as Java does."""
    assert names([day], pa.date32()) == [name]
    assert names([day * DAY], pa.timestamp("us")) == [f"{name} 00%3A00%3A00"]


def test_the_first_and_the_last_date_and_time():
    ends = [-(2**31), 2**31 - 1]
    assert names(ends, pa.date32()) == ["-5877641-06-23", "+5881580-07-11"]
    assert names([-(2**63), 2**63 - 1], pa.timestamp("us", "UTC")) == [
        "-290308-12-21 19%3A59%3A05.224192",
        "+294247-01-10 04%3A00%3A54.775807",
    ]


def test_days_in_between_are_those_of_python():
    for year in (1, 4, 400, 401, 1900, 2000, 2024, 9600, 9601, 9999):
        for month, day in ((1, 1), (2, 28), (12, 31)):
            date = dt.date(year, month, day)
            assert names([date.toordinal() - 719_163], pa.date32()) == [str(date)]


def test_times_are_in_the_zone_of_the_session():
    """Also where it leads out of the years that Python has, and where nothing is behind seconds."""
    last = 253_402_300_799_500_000
    assert names([last, 0], pa.timestamp("us", "Asia/Tokyo")) == [
        "+10000-01-01 08%3A59%3A59.5",
        "1970-01-01 09%3A00%3A00",
    ]
    assert names([0, None], pa.timestamp("us", "-08:00")) == [
        "1969-12-31 16%3A00%3A00",
        "__HIVE_DEFAULT_PARTITION__",
    ]


def test_offsets_of_old_times_have_their_seconds():
    """Those of the sun's time in a town, which pytz rounds: Arrow takes that, if it is there."""
    shanghai = -2_209_017_943_000_000  # 1900-01-01 00:00:00 there
    assert names([shanghai], pa.timestamp("us", "Asia/Shanghai")) == ["1900-01-01 00%3A00%3A00"]


@pytest.mark.parametrize("zone", ["PST", "GMT+5"])
def test_zones_that_only_java_knows_are_refused_by_name(zone: str):
    said = re.escape(f"column 'p' cannot be named in the time zone {zone!r}, which Python does not")
    with pytest.raises(ValueError, match=rf"{said}.*spark\.sql\.session\.timeZone"):
        names([0], pa.timestamp("us", zone))


def test_values_whose_directories_readers_skip_are_refused():
    """What is being copied to HDFS has such a name."""
    batch = pa.record_batch({"k": ["b", "a._COPYING_"], "n": [1, 2]})
    said = re.escape("column 'k' has a value whose directory 'k=a._COPYING_' readers would skip")
    with pytest.raises(ValueError, match=said):
        list(split(batch, ("k",)))


def test_the_rows_of_a_directory_keep_no_others():
    """They may wait in memory for others of theirs, which may be rare."""
    batch = pa.record_batch({"p": [0] * 999 + [1], "text": ["x" * 100] * 1000})
    common, rare = (rows for _, rows in split(batch, ("p",)))
    assert (common.num_rows, rare.num_rows) == (999, 1)
    assert rare.get_total_buffer_size() < 1000
