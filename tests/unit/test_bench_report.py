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


def peer(kind: str, median: float, target: float | None) -> dict[str, Any]:
    return {"kind": kind, **SPREAD, "median": median, "of_bests": median, "target": target}


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


def test_sections_of_another_commit_are_refused(report: ModuleType, tmp_path: Path):
    report.publish(run(tmp_path / "first", "crc", COMMIT, {}), into=False)
    published = report.PUBLISHED.read_text()
    with pytest.raises(SystemExit, match="another commit"):
        report.publish(run(tmp_path / "second", "s3", OTHER, {}), into=True)
    assert report.PUBLISHED.read_text() == published


def test_local_changes_are_refused(report: ModuleType, tmp_path: Path):
    with pytest.raises(SystemExit, match="local changes"):
        report.publish(run(tmp_path / "first", "crc", COMMIT, {}, dirty=True), into=False)
    assert not report.PUBLISHED.exists()


def test_readme_names_what_is_behind_without_a_target(report: ModuleType, tmp_path: Path):
    peers = {
        "slower than": peer("speed", 0.9, None),
        "faster than": peer("speed", 1.1, None),
        "more CPU than": peer("time", 2.0, None),
        "more memory than": peer("memory", 1.15, 1.0),
    }
    report.publish(run(tmp_path / "first", "s3", COMMIT, peers), into=False)
    report.render()
    readme = report.README.read_text()
    assert "| slower than | 0.90× its speed | behind |" in readme
    assert "| more CPU than | 2.00× its time | behind |" in readme
    assert "| more memory than | 1.15× its memory | ≤ 1.00×, **missed by 15%** |" in readme
    assert "faster than" not in readme
