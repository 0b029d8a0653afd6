"""The parts of the suite that pytest runs: data alone.

A part is the tests of some directories of tests/, or those among them that bear certain marks:
`hdfs`, `s3` and `spark` say what a test needs beside it (tests/support/marks.py). The gate,
./dev test, has those that show what users are promised; ./dev test full has all but the slow ones.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PytestPart:
    """Directories of tests/, which of their tests (pytest's -m), and a bound on the whole.

    It ends what hangs beside its tests, which have limits of their own: a slow machine is no hang.
    """

    name: str
    places: tuple[str, ...]
    marks: str = ""
    limit_s: int = 3600
    arguments: tuple[str, ...] = ()


_EXHAUSTIVE = ("--exhaustive",)
# The slowest come first: some run at a time, and what is left at the end should be short.
_GATE = (
    # With the few unit tests that take a store: one cluster and one server are enough.
    PytestPart("contract-hdfs", ("contract", "unit"), "hdfs"),
    PytestPart("contract-local", ("contract",), "not hdfs and not s3"),
    PytestPart("unit", ("unit",), "not hdfs and not s3"),
    PytestPart("contract-s3", ("contract", "unit"), "s3 and not hdfs"),
    PytestPart("demo", ("integration",), "smoke"),
)
_FULL = (
    PytestPart("faults", ("faults",)),
    PytestPart("hdfs", ("integration",), "hdfs and not doors and not spark"),
    PytestPart("spark", ("integration",), "spark and not smoke"),
    PytestPart("ecosystem", ("ecosystem",)),
    PytestPart("doors", ("integration",), "doors"),
    PytestPart("s3", ("integration",), "s3 and not hdfs and not doors and not spark"),
    PytestPart("threads", ("threads",)),
    PytestPart("spark-installed", ("installed",)),
)
_BY_HAND = (
    PytestPart(
        "radosgw",
        ("contract", "integration", "radosgw"),
        "not doors",
        arguments=("--s3-server=radosgw",),
    ),
    PytestPart(
        "versitygw",
        ("contract", "integration"),
        "s3 and not doors",
        arguments=("--s3-server=versitygw",),
    ),
    # All places and kills, of which the full run has some.
    PytestPart("hdfs-places", ("faults",), "places", arguments=_EXHAUSTIVE),
    PytestPart("resume-kills", ("faults",), "resume_kills", limit_s=7200, arguments=_EXHAUSTIVE),
    PytestPart(
        "spark-kills",
        ("faults", "integration"),
        "spark_kills",
        limit_s=7200,
        arguments=_EXHAUSTIVE,
    ),
)

PYTEST = {part.name: part for part in (*_GATE, *_FULL, *_BY_HAND)}
OF_GATE = tuple(part.name for part in _GATE)
OF_FULL = (*OF_GATE, *(part.name for part in _FULL))
BY_HAND = tuple(part.name for part in _BY_HAND)
# Several parts by one name.
GROUPS = {
    "contract": ("contract-hdfs", "contract-local", "contract-s3"),
    "local": ("contract-local",),
}
