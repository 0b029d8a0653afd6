"""hflush.spark.epochs: what is recorded of a partition, as the name of a directory."""

from __future__ import annotations

from pathlib import Path

import hflush
import pytest

pytest.importorskip("pyspark")

from hflush.spark.epochs import NO_EPOCH, EpochLog, Recorded
from hflush.tokens import Token

POOL = "BP-1958375402-2001:db8:0:0:0:8a2e:370:7334-1795796951516"


def at(length: int, **state: object) -> Token:
    return Token("hdfs", "hdfs://nn:8020/rows/part", length, state)


@pytest.fixture(params=[False, True])
def log(tmp_path: Path, request: pytest.FixtureRequest) -> EpochLog:
    directory = str(tmp_path / "logs" / "part")
    return EpochLog(hflush.FileSystem.get(directory), directory, at(0), durable=request.param)


def test_a_record_is_a_name() -> None:
    """Of characters that HDFS has in names, and short enough for it."""
    before, end = at(10**12, file_id=16391, pool=POOL), at(10**12 + 1, file_id=16391, pool=POOL)
    recorded = Recorded(10**6, before, end)
    name = recorded.name()
    assert not set(name) & set("/:\\")
    assert len(name.encode()) < 200
    parsed = Recorded.parse(name, at(0))
    assert [point.pack() for point in parsed[1:]] == [before.pack(), end.pack()]
    assert parsed.epoch == recorded.epoch
    assert Recorded(7, at(1, sum=5), at(2, sum=6)).name() == "7,length=1+2,sum=5+6"


def test_one_attempt_records_an_epoch(log: EpochLog) -> None:
    """Of those that have seen the same record; two at one point have both recorded it."""
    assert log.last() is None
    log.begin(at(0))
    start = log.last()
    assert start is not None
    assert log.holds(Recorded(NO_EPOCH, at(0), at(0)))
    first = Recorded(0, at(0), at(5))
    assert [log.add(start, first), log.add(start, first)] == [True, True]
    assert not log.add(start, Recorded(0, at(0), at(4)))
    assert not log.add(start, start)
    assert log.add(first, first)
    assert log.holds(first)


def test_the_first_record_stays(log: EpochLog, tmp_path: Path) -> None:
    """A later beginning changes nothing, and leaves nothing."""
    log.begin(at(0))
    start = log.last()
    assert start is not None
    assert log.add(start, Recorded(0, at(0), at(5)))
    log.begin(at(0, sum=1))
    assert log.holds(Recorded(0, at(0), at(5)))
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["part"]


@pytest.mark.parametrize("names", [["0"], ["start", "0,x"], ["0,length=1", "1,length=2"], []])
def test_what_is_no_record_is_an_error(log: EpochLog, tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / "logs" / "part" / name).mkdir(parents=True)
    (tmp_path / "logs" / "part").mkdir(parents=True, exist_ok=True)
    with pytest.raises(OSError, match="not the record of an epoch") as refused:
        log.last()
    assert refused.value.filename == str(tmp_path / "logs" / "part")
