"""./dev bench and ./dev docs: from measurements to the pages that quote them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from devkit import environment, sources
from devkit.console import say, step, stream
from devkit.paths import BUILD, PYTHON, ROOT

BENCH = ROOT / "bench"
RAW = BUILD / "bench" / "latest.json"
PUBLISHED = ROOT / "docs" / "performance.json"


def sections() -> list[str]:
    """The sections of the report: one for each file of cases."""
    names = (path.stem.removeprefix("test_") for path in BENCH.glob("test_*.py"))
    return sorted(name.replace("_", "-") for name in names)


def bench(
    chosen: Sequence[str], *, quick: bool, before: Path | None, pytest_args: Sequence[str]
) -> int:
    """Run the benchmarks; a full, successful run also becomes docs/performance.json.

    Of some sections, it takes their place there and leaves the others as they are. `before` is a
    built tree of an earlier commit, which is one more peer.
    """
    if not (quick or pytest_args) and sources.has_local_changes():
        say("these sources have local changes, which no reader has: commit them, or use --quick")
        return 1
    RAW.parent.mkdir(parents=True, exist_ok=True)
    files = [BENCH / f"test_{name.replace('-', '_')}.py" for name in chosen] or [BENCH]
    command = [PYTHON, "-m", "pytest", *files, f"--benchmark-json={RAW}", "-o", "timeout=1800"]
    command += ["-o", "faulthandler_timeout=1790"]
    command += ["--hflush-quick"] if quick else []
    command += [f"--hflush-before={before.resolve()}"] if before else []
    code = stream([*command, *pytest_args], env=environment.variables())
    if code or quick or pytest_args:
        say(f"measured into {RAW.relative_to(ROOT)}; docs/performance.json is left as it is")
        return code
    _report("publish", str(RAW), *(["--into"] if chosen else []))
    _render()
    return 0


def docs() -> None:
    """Generate what is generated: performance, keys, the figures in README, and conformance.

    That page comes from a full run of ./dev test on the sources as they are, or it is left alone.
    """
    _render()
    step("docs: keys", [PYTHON, ROOT / "tools" / "keys.py"], log="docs-keys")
    step("docs/threading.md: locks", [PYTHON, ROOT / "tools" / "locks.py"], log="docs-locks")
    requests = ROOT / "tools" / "s3_requests.py"
    step("docs/s3-client.md: requests", [PYTHON, requests], log="docs-s3-requests")
    conformance = ROOT / "tools" / "conformance.py"
    step("docs/conformance.md", [PYTHON, conformance, "render"], log="docs-conformance")


def _render() -> None:
    if PUBLISHED.exists():
        _report("render")


def _report(*arguments: str) -> None:
    report = ROOT / "tools" / "bench_report.py"
    step(f"performance: {arguments[0]}", [PYTHON, report, *arguments], log="docs-performance")
