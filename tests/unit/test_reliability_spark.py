"""What trials of killed Spark jobs are judged by, and what is looked at when."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from reliability.spark import measuring, page
from reliability.spark.job import HFLUSH, OLD, ROWS
from reliability.spark.judge import Verdict, is_old_or_new, moment, verdict


def test_each_row_is_there_once() -> None:
    assert verdict([2, 1], range(1, 3)).is_right
    assert verdict([], range(1, 3)) == Verdict(lost=2, doubled=0)
    assert verdict([1, 1, 2, 9], range(1, 3)) == Verdict(lost=0, doubled=2)
    assert not verdict([1, 1], range(1, 3)).is_right


def test_an_overwrite_shows_the_old_rows_or_the_new_ones() -> None:
    assert is_old_or_new([2, 1], old=[1, 2], new=[3])
    assert is_old_or_new([3], old=[1, 2], new=[3])
    for found in ([], [1], [1, 2, 3], [3, 3]):
        assert not is_old_or_new(found, old=[1, 2], new=[3])


def test_half_of_the_moments_are_in_the_last_quarter() -> None:
    assert [moment(number, 0.5) for number in range(4)] == [0.5, 0.875, 0.5, 0.875]
    assert (moment(1, 0.0), moment(1, 1.0)) == (0.75, 1.0)


OLD_ROWS, NEW_ROWS = [*range(-OLD, 0)], [*range(ROWS)]


class Driver:
    """Dies in the commit of an overwrite, which waits for a vacuum, or for the next write."""

    asked: list[str] = []  # noqa: RUF012 -- one for all processes of a test
    rows: list[int] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.order = ""

    def ask(self, *words: str) -> str:
        self.order, *_ = words
        Driver.asked.append(self.order)
        if self.order == "rows":
            return json.dumps(Driver.rows)
        return {"prepare": "done", "write": "begun"}[self.order]

    def answer(self) -> str:
        if Driver.asked[-1] == "kill":
            return ""
        Driver.rows = NEW_ROWS
        return "done"

    def kill(self) -> None:
        Driver.asked.append("kill")
        Driver.rows = OLD_ROWS + NEW_ROWS


def trial(monkeypatch: pytest.MonkeyPatch, directory: Path, sink: str, after: list[int]) -> Any:
    """What one killed overwrite has shown, where a vacuum leaves these rows."""

    def vacuum(_: measuring.Measurement, place: Sequence[str]) -> None:
        assert place[-1].startswith(str(directory))
        Driver.asked.append("vacuum")
        Driver.rows = after

    monkeypatch.setattr(Driver, "asked", [])
    monkeypatch.setattr(measuring, "Driver", Driver)
    monkeypatch.setattr(measuring.Measurement, "_vacuum", vacuum)
    monkeypatch.setattr(measuring.time, "sleep", lambda seconds: None)
    seen = measuring.Measurement(sink, 1, directory).trials("overwrite", 1)
    del Driver.asked[: Driver.asked.index("kill")]
    return seen


def test_an_overwrite_is_looked_at_before_and_after_a_vacuum(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A listing that shows both is counted, but what has to be right is what a vacuum leaves."""
    seen = trial(monkeypatch, tmp_path, HFLUSH, NEW_ROWS)
    assert Driver.asked == ["kill", "rows", "vacuum", "rows", "write", "rows"]
    assert (seen["kills"], seen["listed_neither"], seen["neither"], seen["wrong"]) == (1, 1, 0, 0)


def test_a_vacuum_that_leaves_a_mixture_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = trial(monkeypatch, tmp_path, HFLUSH, OLD_ROWS + NEW_ROWS)
    assert (seen["listed_neither"], seen["neither"]) == (1, 1)


def test_sparks_own_sink_has_no_vacuum(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = trial(monkeypatch, tmp_path, measuring.SPARK, NEW_ROWS)
    assert Driver.asked == ["kill", "rows", "write", "rows"]
    assert (seen["kills"], seen["listed_neither"], seen["neither"]) == (1, 1, 0)


def test_the_page_has_a_line_for_each_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    killed = {**dict.fromkeys(measuring.COUNTED, 0), "kills": 9}
    second = {"refused": True, "lost": 0, "doubled": 0}
    cases: dict[str, Any] = {"append": killed, "stream": killed, "second": second}
    cases["overwrite"] = {**killed, "listed_neither": 4}
    monkeypatch.setattr(page, "MEASURED", tmp_path / "measured.json")
    page.publish(dict.fromkeys(measuring.SINKS, cases), 1)
    lines = page.section().splitlines()
    mixed = "✗ 9 kills: **neither the old rows nor the new ones**, 4 times"
    assert f"| overwrite, killed: what a plain listing shows | {mixed} | {mixed} |" in lines
    cleaned = "✓ 9 kills: the old rows or the new ones | – (it has none)"
    assert f"| the same, after `hflush vacuum` | {cleaned} |" in lines
