"""Which parts were green on these very sources: ./dev test full --changed leaves them out.

A file counts for all parts, unless it is below a directory that only some parts look at. What was
green is kept per machine, by content: it holds in every checkout.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from devkit import sources
from devkit.paths import CACHE

GREEN = CACHE / "green.json"

_OF_EVERYTHING = {
    "unit",
    "claims",
    "conformance",
    "mypy",
    "stubtest",
    "clang-format",
    "ruff",
    "ruff-format",
    "codespell",
    "debian13",
}
_CONTRACT = {"contract-hdfs", "contract-local", "contract-s3", "radosgw", "versitygw"}
_INTEGRATION = {"demo", "hdfs", "s3", "spark", "doors", "radosgw", "versitygw", "spark-kills"}
_SPARK = {"spark", "radosgw", "versitygw", "spark-kills"}
_FAULTS = {"faults", "hdfs-places", "resume-kills", "spark-kills"}
_NATIVE = {
    "cpp",
    "sim",
    "sim-transitions",
    "mutants",
    "headers",
    "clang-tidy",
    "newest-compilers",
    "aarch64",
}
_PYTHON = {
    *_CONTRACT,
    *_INTEGRATION,
    *_FAULTS,
    "threads",
    "ecosystem",
    "sanitizers",
    "spark-installed",
}
# The parts that look at a place, beside those that look at everything; the first that fits. Tests
# compare it with what is imported, and with the pages that tests name.
_LOOK_AT = (
    ("tests/contract/", _CONTRACT),
    ("tests/integration/", _INTEGRATION),
    ("tests/faults/shim/", _PYTHON),  # is below tests of other directories, too
    ("tests/faults/test_hdfs_", {*_FAULTS, "sanitizers"}),
    ("tests/faults/test_s3_abandonment.py", {*_FAULTS, "sanitizers"}),
    ("tests/faults/test_", _FAULTS),
    ("tests/faults/", {*_FAULTS, *_SPARK, "sanitizers"}),
    ("tests/threads/", {"threads", "sanitizers"}),
    ("tests/ecosystem/", {"ecosystem"}),
    ("tests/unit/", {"contract-hdfs", "contract-s3"}),
    ("tests/radosgw/", {"radosgw"}),
    ("tests/cpp/sim/", {*_NATIVE, "sanitizers", "hdfs"}),
    ("tests/cpp/", {*_NATIVE, "sanitizers"}),
    ("src/python/", _PYTHON),
    ("demo/", {"demo", *_SPARK}),
    ("bench/", {"newest-compilers"}),
    ("docs/hdfs-client.md", {"cpp", "sanitizers", "sim", "sim-transitions", "faults"}),
    ("docs/s3-client.md", {*_CONTRACT, "cpp", "sanitizers"}),
    ("docs/semantics.md", _CONTRACT),
    ("docs/checkpoints.md", {*_CONTRACT, *_SPARK, "s3"}),
    ("docs/questions/", {*_CONTRACT, *_SPARK, "s3"}),
    ("docs/spark.md", _SPARK),
    ("docs/doors.json", {"doors"}),
    ("docs/reliability", {"doors"}),
    ("docs/", set[str]()),
    ("README.md", set[str]()),
    ("CHANGELOG.md", set[str]()),
    ("CONTRIBUTING.md", set[str]()),
)


def is_green(part: str) -> bool:
    """Whether the last green run of a part was on these sources."""
    kept = _kept().get(part)
    return kept is not None and digests([part]).get(part) == kept


def keep_green(parts: Mapping[str, str]) -> None:
    """Note that these parts are green, each on what it looked at when it began: a digest.

    What was changed meanwhile, it may have seen or not.
    """
    unchanged = {part: now for part, now in digests(parts).items() if now == parts[part]}
    GREEN.parent.mkdir(parents=True, exist_ok=True)
    GREEN.write_text(json.dumps({**_kept(), **unchanged}, indent=1))


def concerns(part: str, path: str) -> bool:
    """Whether a part may come out otherwise when this file changes."""
    if part in _OF_EVERYTHING:
        return True
    looking = (parts for place, parts in _LOOK_AT if path.startswith(place))
    return part in next(looking, {part})


def digests(parts: Iterable[str]) -> dict[str, str]:
    """Return the digest of each part; none where git does not know these sources."""
    try:
        return {part: digest(part) for part in parts}
    except sources.NoRepository:
        return {}


def digest(part: str, *, with_prose: bool = True) -> str:
    """Return a digest of what a part looks at, pages among it or not."""
    lines = sorted(
        f"{blob} {path}\n"
        for path, blob in sources.files()
        if concerns(part, path) and (with_prose or not sources.is_prose(path))
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def _kept() -> dict[str, str]:
    try:
        kept = json.loads(GREEN.read_text())
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}
