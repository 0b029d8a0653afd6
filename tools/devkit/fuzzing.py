"""The fuzzers: libFuzzer over everything that takes bytes from the network, for a bounded time.

What a run learns is kept in build/fuzz/grown and is where the next one starts; an input that
breaks something is kept in build/fuzz/found, to be mended and added to tests/cpp/fuzz/corpus.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from devkit.building import build
from devkit.console import StepFailed, side_by_side, step
from devkit.outcome import Row, timed
from devkit.paths import BUILD, ROOT

CORPUS = ROOT / "tests" / "cpp" / "fuzz" / "corpus"
TARGET_S = 20
BOUNDED_TARGET_S = 2
GRACE_S = 60
# No decoder has a reason for more: a block reader takes packets of 16 MiB.
LIMITS = ("-max_len=4096", "-malloc_limit_mb=64", "-rss_limit_mb=2048", "-timeout=10")


def row(*, bounded: bool) -> Row:
    """Run every fuzzer for a while."""
    return timed("fuzz", partial(_fuzz, seconds=BOUNDED_TARGET_S if bounded else TARGET_S))


def _fuzz(row: Row, seconds: int) -> None:
    directory = build("asan")
    corpora = sorted(CORPUS.iterdir())
    sound = side_by_side(partial(_target, directory=directory, seconds=seconds), corpora)
    row.passed += sum(sound)
    for corpus, is_sound in zip(corpora, sound, strict=True):
        if not is_sound:
            row.fail(f"{corpus.name}: the input is in build/fuzz/found")


def _target(corpus: Path, directory: Path, seconds: int) -> bool:
    """Run one fuzzer; return whether it has found nothing."""
    name = corpus.name
    grown, found = BUILD / "fuzz" / "grown" / name, BUILD / "fuzz" / "found"
    for path in (grown, found):
        path.mkdir(parents=True, exist_ok=True)
    command = [directory / f"hflush_fuzz_{name}", f"-max_total_time={seconds}", *LIMITS]
    command += [f"-artifact_prefix={found}/{name}-", grown, corpus]
    try:
        step(f"fuzzing {name}", command, log=f"fuzz-{name}", timeout_s=seconds + GRACE_S)
    except StepFailed:
        return False
    return True
