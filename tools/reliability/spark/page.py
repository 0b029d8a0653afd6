"""From docs/reliability-spark.json to a part of docs/reliability.md."""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reliability.spark.job import BATCHES, HFLUSH, OLD, ROWS, TASKS

ROOT = Path(__file__).resolve().parents[3]
MEASURED = ROOT / "docs" / "reliability-spark.json"


def publish(seen: Mapping[str, Any], seed: int) -> None:
    """Write the file."""
    import hflush

    measured = {
        "date": time.strftime("%Y-%m-%d"),
        "python": sys.version.split()[0],
        "spark": importlib.metadata.version("pyspark"),
        "hflush": hflush.__version__,
        "seed": seed,
        "seen": seen,
    }
    MEASURED.write_text(json.dumps(measured, indent=1) + "\n")


def section() -> str:
    """Return the part of docs/reliability.md."""
    measured = json.loads(MEASURED.read_text())
    seen = measured["seen"]
    sinks = [HFLUSH, *(sink for sink in seen if sink != HFLUSH)]
    rows = [
        ["append, killed and run again", *(_killed(seen[sink]["append"]) for sink in sinks)],
        [
            "overwrite, killed: what a plain listing shows",
            *(_looked_at(seen[sink]["overwrite"], "listed_neither") for sink in sinks),
        ],
        [
            "the same, after `hflush vacuum`",
            *(_after_vacuum(sink, seen[sink]["overwrite"]) for sink in sinks),
        ],
        ["the same, run again", *(_killed(seen[sink]["overwrite"]) for sink in sinks)],
        ["query, killed and started again", *(_killed(seen[sink]["stream"]) for sink in sinks)],
        [
            "a second query, with its own checkpoint, on the path of another one",
            *(_second(seen[sink]["second"]) for sink in sinks),
        ],
    ]
    table = "\n".join(
        "| " + " | ".join(cells) + " |" for cells in [["", *sinks], ["---"] * 3, *rows]
    )
    return f"""## Spark: drivers that are killed

Generated from [reliability-spark.json](reliability-spark.json), which `./dev reliability spark`
measures ([how](../tools/reliability/spark/__init__.py)). A job writes {ROWS:,} rows in {TASKS}
tasks as Parquet to local files, where {OLD:,} others are; a query writes as many in {BATCHES}
batches. The driver dies by SIGKILL with its JVM and its workers, half of the times in the last
quarter of the write, and the same program runs again. hflush's jobs have a `commitId`. Spark's
reader counts the rows. An overwrite that is killed in its commit shows files of both until the next
write, or a vacuum, carries it out ([semantics](semantics.md#the-commit-of-a-job)): a listing before
that is counted by itself.

hflush {measured["hflush"]}; Spark {measured["spark"]}, `df.write.parquet` and its file sink;
Python {measured["python"]}; {measured["date"]}; seed {measured["seed"]}.

{table}"""


def _killed(seen: Mapping[str, int]) -> str:
    kills = f"{seen['kills']} kills"
    if not seen["wrong"]:
        return f"✓ {kills}"
    wrong = [f"{seen[what]:,} rows {what}" for what in ("lost", "doubled") if seen[what]]
    return f"✗ {kills}: **{', '.join(wrong)}** ({seen['wrong']} times)"


def _looked_at(seen: Mapping[str, int], what: str) -> str:
    kills = f"{seen['kills']} kills"
    if not seen[what]:
        return f"✓ {kills}: the old rows or the new ones"
    return f"✗ {kills}: **neither the old rows nor the new ones**, {seen[what]} times"


def _after_vacuum(sink: str, seen: Mapping[str, int]) -> str:
    return _looked_at(seen, "neither") if sink == HFLUSH else "– (it has none)"


def _second(seen: Mapping[str, Any]) -> str:
    if seen["refused"]:
        return "✓ refused"
    return f"✗ **{seen['lost']:,} rows lost**, no error" if seen["lost"] else "✓"
