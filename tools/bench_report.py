#!/usr/bin/env python3
"""From pytest-benchmark's JSON to the pages that quote it.

tools/bench_report.py publish RAW.json    condense a run into docs/performance.json; with --into
                                          some sections of it: the others stay
A page speaks of one machine: a run on sources with local changes, and sections beside those of
another machine, are refused. A section that was measured at another commit than the page says so.

tools/bench_report.py render              docs/performance.md, docs/performance-*.svg, README.md
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import svg

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = ROOT / "docs" / "performance.json"
PAGE = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"
START, END = "<!-- bench:start -->", "<!-- bench:end -->"
SECTIONS = {
    "crc": "Checksums",
    "hdfs": "HDFS",
    "hdfs-recovery": "HDFS under faults",
    "s3": "S3",
    "spark": "Spark",
    "sync": "`hsync` on local files",
    "write": "`write` on local files",
}
STANDINGS = {
    "Ahead": "from the 10th to the 90th percentile",
    "Level": "the spread reaches both sides",
    "Behind": "from the 10th to the 90th percentile",
}
IN_README = 3  # comparisons named in a line
OWN = ("commit", "date", "load")  # what a section may have of its own

Entry = dict[str, Any]


def publish(raw: Path, *, into: bool) -> None:
    """Keep what a reader can use, and nothing that names the machine."""
    run = json.loads(raw.read_text())
    if run["commit_info"].get("dirty"):
        raise SystemExit("measured on sources with local changes, which no reader has: commit them")
    machine, cpu = run["machine_info"], run["machine_info"]["cpu"]
    conditions = {
        "date": run["datetime"][:10],
        "commit": (run["commit_info"].get("id") or "unknown")[:12],
        "cpu": cpu.get("brand_raw", machine["processor"]),
        "cores": cpu.get("count"),
        "crc_kernel": machine["crc_kernel"],
        "system": f"{machine['system']} {machine['kernel']}",
        "python": f"{machine['python_implementation']} {machine['python_version']}",
        "compiler": machine["compiler"],
        "load": machine["load"],
    }
    works = [_rounded(work) for one in run["benchmarks"] for work in _works(one)]
    page: Entry = {"conditions": conditions, "sections": {}, "works": works}
    if into:
        page = _beside_others(page)
    page["works"].sort(key=lambda work: str(work["group"]))
    PUBLISHED.write_text(json.dumps(page, indent=1) + "\n")


def _beside_others(run: Entry) -> Entry:
    """Put the sections of a run in their places on the page, if that is of such a machine.

    The commit of the page stays that of its full run; a section of another one has its own.
    """
    page, conditions = json.loads(PUBLISHED.read_text()), run["conditions"]
    before = page["conditions"]
    changed = [key for key in conditions if conditions[key] != before.get(key) and key not in OWN]
    if changed:
        raise SystemExit(f"the other sections have another {', '.join(changed)}: run all")
    measured = {work["group"] for work in run["works"]}
    kept = [work for work in page["works"] if work["group"] not in measured]
    sections = {name: own for name, own in page.get("sections", {}).items() if name not in measured}
    if conditions["commit"] != before["commit"]:
        sections |= {name: {key: conditions[key] for key in OWN} for name in sorted(measured)}
    return {"conditions": before, "sections": sections, "works": kept + run["works"]}


def _works(benchmark: Entry) -> list[Entry]:
    """One test may have measured several quantities of its work."""
    info = benchmark["extra_info"]
    several = info.get("works", [info] if "work" in info else [])
    return [{"group": benchmark["group"], **work} for work in several]


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list) else value


def render() -> None:
    """Write the page, its plots, and README's figures."""
    run = json.loads(PUBLISHED.read_text())
    if any("measured" in work for work in run["works"]):
        print(
            "the figures are of several commits: what is published stays until ./dev bench has run"
        )
        return
    groups: dict[str, list[Entry]] = defaultdict(list)
    for work in run["works"]:
        groups[work["group"]].append(work)
    _write_plots(run["works"], groups)
    own = run.get("sections", {})
    sections = [_section(name, works, own.get(name)) for name, works in groups.items()]
    overview = _overview(run["works"])
    parts = [_introduction(run["conditions"]), overview, *sections]
    PAGE.write_text("\n\n".join(parts) + "\n")
    _fill_readme(run)


def _introduction(conditions: Entry) -> str:
    c = conditions
    return f"""# Performance

Generated by `./dev docs` from [performance.json](performance.json), which `./dev bench` writes.
Ratios come from interleaved rounds of one run ([how](../bench/README.md)): the median, in brackets
the 10th and 90th percentiles, then the ratio of the best times. *Speed* is how many times as fast
as the peer hflush is; *time* and *memory* are hflush's as a part of the peer's. A missed target
stays here, with its distance; where hflush is behind a peer without a target, that is said, too.

| | |
|---|---|
| CPU | {c["cpu"]}, {c["cores"]} cores; checksum kernel {c["crc_kernel"]} |
| System | {c["system"]} |
| Python, compiler | {c["python"]}; {c["compiler"]}, -O3 |
| Commit, date | {_measured(c)}, unless a section has its own |"""


def _measured(c: Entry) -> str:
    """Of which commit, when, and how busy the machine was."""
    busy = f", at a load of {c['load']}" if "load" in c else ""
    return f"{c['commit']}, {c['date']}{busy}"


def _overview(works: list[Entry]) -> str:
    compared = [(work, peer) for work in works for peer in work.get("peers", {}).values()]
    asked = [peer for _, peer in compared if peer["target"] is not None]
    met = sum(_met(peer) for peer in asked)
    figures = [f for work in works for f in work.get("figures", []) if f["target"] is not None]
    met += sum(figure["value"] <= figure["target"] for figure in figures)
    return f"""## Targets

{met} of {len(asked) + len(figures)} are met.

![each ratio against its target](performance-targets.svg)"""


def _section(name: str, works: list[Entry], own: Entry | None) -> str:
    rows = [row for work in works for row in _rows(work)]
    lines = [
        f"## {name}",
        "",
        *([f"`./dev bench {name}` of commit {_measured(own)}.", ""] if own else []),
        "| Work | Peer | | Ratio | of bests | Target | |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    if any(work.get("seconds") for work in works):
        lines += ["", f"![{name}](performance-{name}.svg)"]
    return "\n".join(lines)


def _rows(work: Entry) -> list[list[str]]:
    rows = []
    for name, peer in work.get("peers", {}).items():
        ratio = f"{_number(peer['median'])} ({_number(peer['p10'])}–{_number(peer['p90'])})"
        target, verdict = _verdict(peer)
        rows.append([name, peer["kind"], ratio, _number(peer["of_bests"]), target, verdict])
    for figure in work.get("figures", []):
        measured = figure["value"] is not None
        value = f"{figure['value']:,.4g} {figure['unit']}" if measured else "failed"
        limit = "" if figure["target"] is None else f"≤ {figure['target']:g} {figure['unit']}"
        verdict = _limit_verdict(figure["value"], figure["target"])
        rows.append(["", figure["name"], value, "", limit, verdict])
    return [[work["work"] if index == 0 else "", *row] for index, row in enumerate(rows)]


def _met(peer: Entry) -> bool:
    target, median = float(peer["target"]), float(peer["median"])
    return median >= target if peer["kind"] == "speed" else median <= target


def _is_behind(peer: Entry) -> bool:
    """Whether hflush is slower, or uses more, whatever was asked."""
    median = float(peer["median"])
    return median < 1 if peer["kind"] == "speed" else median > 1


def _verdict(peer: Entry) -> tuple[str, str]:
    """Say what was asked, and whether the median keeps it."""
    if peer["target"] is None:
        return "", "behind" if _is_behind(peer) else ""
    if peer["kind"] != "speed":
        return f"≤ {_number(peer['target'])}", _limit_verdict(peer["median"], peer["target"])
    missed = 1 - peer["median"] / peer["target"]
    return f"≥ {_number(peer['target'])}", "met" if missed <= 0 else f"**missed by {missed:.0%}**"


def _limit_verdict(value: float, limit: float | None) -> str:
    if limit is None:
        return ""
    return "met" if value <= limit else f"**missed by {value / limit - 1:.0%}**"


def _number(value: float) -> str:
    return f"{value:.2f}×"


def _write_plots(works: list[Entry], groups: dict[str, list[Entry]]) -> None:
    for old in PAGE.parent.glob("performance-*.svg"):
        old.unlink()
    _save("targets", svg.targets([bar for work in works for bar in _target_bars(work)]))
    for name, group in groups.items():
        blocks = [_block(work) for work in group if work.get("seconds")]
        if blocks:
            _save(name, svg.bars(blocks))


def _save(name: str, drawing: str) -> None:
    (PAGE.parent / f"performance-{name}.svg").write_text(drawing)


def _target_bars(work: Entry) -> list[svg.Whisker]:
    """Each ratio over its target; above one is better than asked, whatever the kind."""
    bars = []
    for name, peer in work.get("peers", {}).items():
        if peer["target"] is None:
            continue
        low, mid, high = (peer[key] / peer["target"] for key in ("p10", "median", "p90"))
        if peer["kind"] != "speed":
            low, mid, high = 1 / high, 1 / mid, 1 / low
        bars.append(svg.Whisker(f"{work['work']} · {name}", low, mid, high))
    return bars


def _block(work: Entry) -> svg.Block:
    """The absolute figures of one piece of work: GB/s where bytes move, else time or rate."""
    scale, unit, inverse = _unit(work)
    whiskers = []
    for name, seconds in work["seconds"].items():
        low, mid, high = (seconds[key] for key in ("p10", "median", "p90"))
        if inverse:
            low, mid, high = 1 / high, 1 / mid, 1 / low
        whiskers.append(svg.Whisker(name, low * scale, mid * scale, high * scale))
    return svg.Block(work["work"], unit, whiskers)


def _unit(work: Entry) -> tuple[float, str, bool]:
    """The scale, the unit, and whether it counts work per time rather than time per work."""
    if work.get("unit"):
        return 1 / work["operations"], work["unit"], False
    if work["nbytes"]:
        return work["nbytes"] / 1e9, "GB/s", True
    each = work["seconds"]["hflush"]["median"] / work["operations"]
    for limit, unit, factor in ((1e-6, "ns", 1e9), (1e-3, "µs", 1e6), (1.0, "ms", 1e3)):
        if each < limit:
            return factor / work["operations"], unit, False
    return 1 / work["operations"], "s", False


def _fill_readme(run: Entry) -> None:
    text = README.read_text() if README.exists() else ""
    if START not in text or END not in text:
        return
    before, _, rest = text.partition(START)
    after = rest.partition(END)[2]
    README.write_text(f"{before}{START}\n{_readme_lists(run)}\n{END}{after}")


def _readme_lists(run: Entry) -> str:
    """Three lists: where hflush is ahead of its peers, level with them, and behind."""
    compared = [(work, *pair) for work in run["works"] for pair in work.get("peers", {}).items()]
    by_standing: dict[str, list[tuple[Entry, str, Entry]]] = defaultdict(list)
    for row in compared:
        by_standing[_standing(row[2])].append(row)
    lists = [_readme_list(standing, by_standing[standing]) for standing in STANDINGS]
    c = run["conditions"]
    where = (
        f"{c['cpu']}, {c['cores']} cores, {c['python']}, {c['date']}; every row, with spreads, "
        "targets and what was missed: [docs/performance.md](docs/performance.md)."
    )
    return "\n\n".join([*filter(None, lists), where])


def _readme_list(standing: str, rows: list[tuple[Entry, str, Entry]]) -> str:
    """A line for each section, with its largest differences."""
    if not rows:
        return ""
    sections: dict[str, list[tuple[Entry, str, Entry]]] = defaultdict(list)
    for row in rows:
        sections[row[0]["group"]].append(row)
    lines = [f"**{standing}** ({STANDINGS[standing]}): {len(rows)} comparisons.", ""]
    for section, of_it in sections.items():
        of_it.sort(key=lambda row: -abs(math.log(row[2]["median"])))
        named = "; ".join(_in_words(*row) for row in of_it[:IN_README])
        more = f"; and {len(of_it) - IN_README} more" if len(of_it) > IN_README else ""
        lines.append(f"- {SECTIONS.get(section, section)}: {named}{more}")
    return "\n".join(lines)


def _in_words(work: Entry, name: str, peer: Entry) -> str:
    return f"{work['work']}, {_number(peer['median'])} the {peer['kind']} of {name}"


def _standing(peer: Entry) -> str:
    """Ahead or behind where the whole spread is on one side; level where it crosses 1."""
    low, high = sorted((peer["p10"], peer["p90"]))
    if peer["kind"] != "speed":
        low, high = 1 / high, 1 / low
    return "Ahead" if low > 1 else "Behind" if high < 1 else "Level"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    publishing = commands.add_parser("publish")
    publishing.add_argument("raw", type=Path)
    publishing.add_argument("--into", action="store_true")
    commands.add_parser("render")
    options = parser.parse_args()
    if options.command == "publish":
        publish(options.raw, into=options.into)
    else:
        render()


if __name__ == "__main__":
    main()
