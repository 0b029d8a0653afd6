"""The report of benchmarks (tools/bench_report.py): what may stand on its page."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "bench_report.py"
SPREAD = {"median": 1.0, "p10": 1.0, "p90": 1.0}
COMMIT, OTHER = "1" * 40, "2" * 40


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool, with pages of its own."""
    specification = importlib.util.spec_from_file_location("bench_report_tool", TOOL)
    assert specification is not None
    assert specification.loader is not None
    monkeypatch.syspath_prepend(TOOL.parent)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    module.PUBLISHED = tmp_path / "performance.json"
    module.PAGE = tmp_path / "performance.md"
    module.README = tmp_path / "README.md"
    module.README.write_text(f"before\n{module.START}\nold\n{module.END}\nafter\n")
    return module


def peer(kind: str, median: float, target: float | None, *, spread: float = 0.0) -> dict[str, Any]:
    """A comparison whose 10th and 90th percentiles are `spread` away from the median."""
    measured = {"median": median, "p10": median - spread, "p90": median + spread}
    return {"kind": kind, **measured, "of_bests": median, "target": target}


def run(path: Path, group: str, commit: str, peers: dict[str, Any], *, dirty: bool = False) -> Path:
    """What pytest-benchmark would have written of one case."""
    machine = dict.fromkeys(
        [
            "processor",
            "crc_kernel",
            "system",
            "kernel",
            "python_implementation",
            "python_version",
            "compiler",
            "load",
        ],
        "known",
    )
    case = {
        "group": group,
        "extra_info": {
            "work": f"work of {group}",
            "nbytes": 0,
            "operations": 1,
            "seconds": {"hflush": SPREAD},
            "peers": peers,
        },
    }
    described = {
        "datetime": "2026-01-02T03:04:05",
        "machine_info": {**machine, "cpu": {"brand_raw": "a CPU", "count": 2}},
        "commit_info": {"id": commit, "dirty": dirty},
        "benchmarks": [case],
    }
    path.write_text(json.dumps(described))
    return path


def test_sections_of_one_commit_stand_on_one_page(report: ModuleType, tmp_path: Path):
    first = run(tmp_path / "first", "crc", COMMIT, {"a peer": peer("speed", 2.0, 1.5)})
    report.publish(first, into=False)
    second = run(tmp_path / "second", "s3", COMMIT, {"a peer": peer("speed", 1.0, 1.5)})
    report.publish(second, into=True)
    report.render()
    page = report.PAGE.read_text()
    assert "1 of 2 are met" in page
    assert COMMIT[:12] in page


def test_a_section_of_another_commit_says_so(report: ModuleType, tmp_path: Path):
    report.publish(run(tmp_path / "first", "crc", COMMIT, {}), into=False)
    report.publish(run(tmp_path / "second", "s3", OTHER, {}), into=True)
    report.render()
    head, _, first, second = report.PAGE.read_text().split("\n## ")
    assert COMMIT[:12] in head
    assert "./dev bench" not in first
    measured = f"{OTHER[:12]}, 2026-01-02, at a load of known"
    assert f"`./dev bench s3` of commit {measured}." in second
    report.publish(run(tmp_path / "third", "s3", COMMIT, {}), into=True)
    report.render()
    assert "`./dev bench s3`" not in report.PAGE.read_text()


def test_sections_of_another_machine_are_refused(report: ModuleType, tmp_path: Path):
    report.publish(run(tmp_path / "first", "crc", COMMIT, {}), into=False)
    published = report.PUBLISHED.read_text()
    second = run(tmp_path / "second", "s3", COMMIT, {})
    second.write_text(second.read_text().replace('"count": 2', '"count": 4'))
    with pytest.raises(SystemExit, match="another cores"):
        report.publish(second, into=True)
    assert report.PUBLISHED.read_text() == published


def test_local_changes_are_refused(report: ModuleType, tmp_path: Path):
    with pytest.raises(SystemExit, match="local changes"):
        report.publish(run(tmp_path / "first", "crc", COMMIT, {}, dirty=True), into=False)
    assert not report.PUBLISHED.exists()


def test_readme_has_three_lists(report: ModuleType, tmp_path: Path):
    """Ahead and behind is what the whole spread shows; speed, time and memory are named."""
    peers = {
        "slow peer": peer("speed", 2.0, None, spread=0.1),
        "quick peer": peer("speed", 0.9, 1.0, spread=0.05),
        "thrifty peer": peer("memory", 1.15, 1.0, spread=0.01),
        "busy peer": peer("time", 0.5, None, spread=0.1),
        "even peer": peer("time", 1.02, None, spread=0.1),
    }
    report.publish(run(tmp_path / "first", "s3", COMMIT, peers), into=False)
    report.render()
    readme = report.README.read_text()
    ahead, level, behind = (readme.index(f"**{word}**") for word in ("Ahead", "Level", "Behind"))
    assert ahead < readme.index("2.00× the speed of slow peer") < level
    assert ahead < readme.index("0.50× the time of busy peer") < level
    assert level < readme.index("1.02× the time of even peer") < behind
    assert behind < readme.index("1.15× the memory of thrifty peer")
    assert behind < readme.index("0.90× the speed of quick peer")
    assert readme.startswith("before\n")
    assert readme.endswith("after\n")


def test_a_line_of_readme_names_the_largest_differences(report: ModuleType, tmp_path: Path):
    peers = {f"peer {number}": peer("speed", 1.0 + number, None) for number in range(1, 6)}
    report.publish(run(tmp_path / "first", "hdfs", COMMIT, peers), into=False)
    report.render()
    readme = report.README.read_text()
    line = next(line for line in readme.splitlines() if line.startswith("- HDFS"))
    named = [f"{1.0 + number:.2f}× the speed of peer {number}" for number in (5, 4, 3)]
    assert line == f"- HDFS: {'; '.join(f'work of hdfs, {one}' for one in named)}; and 2 more"
