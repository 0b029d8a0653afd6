"""What docs/reliability.md says of the rounds under load: which sources, and when."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from reliability.load import page
from reliability.load.running import HFLUSH, JAVA, Result
from reliability.load.schedule import Schedule

PUBLISHED = page.MEASURED
NEWER = "0123456789ab"


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of its own, with rounds that were measured before commits were kept."""
    path = tmp_path / "measured.json"
    before = json.loads(PUBLISHED.read_text())
    before["date"] = "2026-01-02"
    for one in before["rounds"].values():
        for client in page.CLIENTS:
            one.get(client, {}).pop("commit", None)
    path.write_text(json.dumps(before))
    monkeypatch.setattr(page, "MEASURED", path)
    return path


def result(client: str) -> Result:
    figures: dict[str, Any] = dict.fromkeys(Result.__dataclass_fields__, 0)
    return Result(**{**figures, "client": client, "events": Counter(stop=1), "stalls": []})


def told() -> str:
    """The line about the sources."""
    (line,) = (line for line in page.section().splitlines() if line.startswith(f"{HFLUSH} at "))
    return line


@pytest.mark.usefixtures("measured")
def test_rounds_without_a_commit() -> None:
    assert told() == "hflush at commit not recorded, 2026-01-02."


def test_a_round_has_its_commit_and_its_date(measured: Path) -> None:
    """The others keep theirs, also those that were measured with another client."""
    count = len(json.loads(measured.read_text())["rounds"])
    page.publish(Schedule.of(1), [result(HFLUSH)], NEWER)
    page.publish(Schedule.of(2), [result(JAVA)], "of Java's round")
    date = json.loads(measured.read_text())["rounds"]["1"][HFLUSH]["date"]
    assert date > "2026-01-02"
    older = f"commit not recorded, 2026-01-02 ({count - 1} rounds)"
    newer = f"{NEWER}, {date} (1 rounds)"
    assert sorted(told().removeprefix("hflush at ").rstrip(".").split("; ")) == [newer, older]


def test_one_commit_is_named_once(measured: Path) -> None:
    measured.unlink()
    for seed in (1, 2):
        page.publish(Schedule.of(seed), [result(HFLUSH), result(JAVA)], NEWER)
    date = json.loads(measured.read_text())["rounds"]["2"][HFLUSH]["date"]
    assert told() == f"hflush at {NEWER}, {date}."
