"""From docs/reliability-hdfs.json, which rounds are put into, to a part of docs/reliability.md."""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reliability.load import judge
from reliability.load.running import CLIENTS, HFLUSH, NATIVE, Result
from reliability.load.schedule import WEIGHTS, Schedule

ROOT = Path(__file__).resolve().parents[3]
MEASURED = ROOT / "docs" / "reliability-hdfs.json"
HADOOP = "3.5.0"  # of tools/minidfs/pom.xml

_TITLES = {
    "stop": "DataNode stopped, back later",
    "restart": "restarted",
    "upgrade": "restarted for an upgrade",
    "full": "disk full",
    "corrupt": "replica corrupted",
    "slow": "DataNodes slow",
    "kill": "DataNode SIGKILL",
    "pause": "SIGSTOP and SIGCONT",
    "hang": "SIGSTOP until given up",
    "fail_over": "failover",
    "kill_name_node": "active NameNode killed",
    "restart_name_node": "only NameNode restarted",
    "kill_writer": "writer SIGKILL, another one goes on",
}


def publish(schedule: Schedule, results: Sequence[Result], commit: str) -> None:
    """Put a round into the file, beside what it has of other rounds and clients."""
    measured = json.loads(MEASURED.read_text()) if MEASURED.exists() else {"rounds": {}}
    kept = measured["rounds"].setdefault(str(schedule.seed), {})
    kept["shape"] = str(schedule.shape)
    kept["events"] = dict(sorted(results[0].events.items()))
    origin = {"commit": commit, "date": time.strftime("%Y-%m-%d")}
    for result in results:
        kept[result.client] = {**origin, **_figures(result)}
    measured["python"] = sys.version.split()[0]
    measured["versions"] = {client: _version(client) for client in CLIENTS}
    measured["rounds"] = dict(sorted(measured["rounds"].items(), key=lambda item: int(item[0])))
    MEASURED.write_text(json.dumps(measured, indent=1) + "\n")


def _figures(result: Result) -> dict[str, Any]:
    return {
        "acknowledged": result.acknowledged,
        "acknowledgements": result.acknowledgements,
        "lost": result.lost,
        "lost_with_nodes": result.lost_with_nodes,
        "wrong": result.wrong,
        "gave_up": result.gave_up,
        "failed": result.failed,
        "unfinished": result.unfinished,
        "taken_over": result.taken_over,
        "stalls": [round(stall, 3) for stall in result.stalls],
        "longest_stall": round(result.longest_stall, 3),
    }


def _version(client: str) -> str:
    if client == HFLUSH:
        import hflush

        return hflush.__version__
    return importlib.metadata.version(client) if client == NATIVE else HADOOP


def section() -> str:
    """Return the part of docs/reliability.md."""
    measured = json.loads(MEASURED.read_text())
    rounds = list(measured["rounds"].values())
    by_client = {client: [one[client] for one in rounds if client in one] for client in CLIENTS}
    versions = ", ".join(f"{client} {measured['versions'][client]}" for client in CLIENTS)
    kinds: Counter[str] = Counter()
    for one in rounds:
        kinds.update(one["events"])
    lines = [["", *CLIENTS], ["---"] * 4, *_rows(rounds, by_client)]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    happened = "\n".join(f"| {_TITLES[kind]} | {kinds[kind]} |" for kind in WEIGHTS)
    return f"""## HDFS: clusters under load

Generated from [reliability-hdfs.json](reliability-hdfs.json), which `./dev reliability hdfs`
measures ([how](../tools/reliability/load/__init__.py)): {len(rounds)} rounds, each with a cluster
of its own and a schedule that follows from a seed. All clients write to it at the same time, so
that the same events meet them. Each has 1, 4 or 16 streams, or 16 threads on one, with one, two or
three replicas on 3, 4 or 6 DataNodes, and blocks of 64 KiB to 1 MiB. They write records of 32 B to
96 KiB and call hflush, and hsync for each eighth; hdfs-native, which has no hflush, calls hsync.
Each acknowledgement goes to a file that is synced. In the end Hadoop's client reads all files, with
checksums, and what it reads is compared with what was written and acknowledged.

{versions}; Hadoop {HADOOP}; Python {measured["python"]}.
hflush at {_origins(by_client[HFLUSH], measured.get("date", ""))}.
Two processors for all of it, the servers included: stalls are for comparison. All clients have
`dfs.client.block.write.replace-datanode-on-failure.best-effort=true`, `dfs.client.socket-timeout`
of 10 s and forget after 5 s which DataNodes to avoid; Java's has
`dfs.client.retry.policy.enabled=true`.

{table}

A good DataNode has the last block in its pipeline, or may get a new one, and did not fail since the
last acknowledgement. One that restarts for an upgrade counts as failed: under load it may end
before it has notified all writers. A writer that fails is followed by another one. A DataNode that
ends while it overwrites the last chunk of a replica drops that chunk. Where each DataNode of the
last block failed before the file was recovered, or one restarted for an upgrade, whose replica a
recovery takes for as good as the others, the end of what hflush acknowledged may be gone: such
bytes are counted apart. A stall is how long write and hflush or hsync took: of each event, the
longest one that was under way or came next.

| Event | |
| --- | --- |
{happened}"""


def _rows(
    rounds: Sequence[dict[str, Any]], by_client: Mapping[str, Sequence[dict[str, Any]]]
) -> list[list[str]]:
    """Return the lines of the table: a name, and a cell for each client."""
    return [
        ["events", *(_events(rounds, client) for client in CLIENTS)],
        ["acknowledgements", *(_total(of, "acknowledgements") for of in by_client.values())],
        ["acknowledged bytes", *(_total(of, "acknowledged") for of in by_client.values())],
        ["of these **lost**", *(_total(of, "lost") for of in by_client.values())],
        ["bytes that are **wrong**", *(_total(of, "wrong") for of in by_client.values())],
        [
            "writers that **gave up** although a good DataNode remained and the policy allowed it",
            *(_total(of, "gave_up") for of in by_client.values()),
        ],
        [
            "bytes lost by DataNodes, see below",
            *(_total(of, "lost_with_nodes") for of in by_client.values()),
        ],
        [
            "writers that neither closed nor failed in the end",
            *(_total(of, "unfinished") for of in by_client.values()),
        ],
        [
            "writers that failed because no good DataNode remained",
            *(_total(of, "failed") for of in by_client.values()),
        ],
        [
            "files recovered and appended to by another writer",
            *(_total(of, "taken_over") for of in by_client.values()),
        ],
        ["longest stall", *(_longest(of) for of in by_client.values())],
        ["median stall after an event", *(_stall(of, 50) for of in by_client.values())],
        ["its 90th percentile", *(_stall(of, 90) for of in by_client.values())],
    ]


def _origins(rounds: Sequence[dict[str, Any]], date: str) -> str:
    """At which commits rounds were measured, and when.

    The first ones had no commit, and one `date` together.
    """
    counts = Counter(
        f"{one['commit']}, {one['date']}" if "commit" in one else f"commit not recorded, {date}"
        for one in rounds
    )
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{origin} ({count} rounds)" for origin, count in counts.items())


def _total(rounds: Sequence[dict[str, Any]], name: str) -> str:
    return f"{sum(one[name] for one in rounds):,}"


def _events(rounds: Sequence[dict[str, Any]], client: str) -> str:
    return f"{sum(sum(one['events'].values()) for one in rounds if client in one):,}"


def _longest(rounds: Sequence[dict[str, Any]]) -> str:
    return f"{max((one['longest_stall'] for one in rounds), default=0.0):.1f} s"


def _stall(rounds: Sequence[dict[str, Any]], percent: int) -> str:
    stalls = [stall for one in rounds for stall in one["stalls"]]
    return f"{judge.percentile(stalls, percent):.2f} s"
