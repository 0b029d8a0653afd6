"""./dev bench and ./dev docs: from measurements to the pages that quote them."""

from __future__ import annotations

from collections.abc import Sequence

from devkit import environment
from devkit.console import say, step, stream
from devkit.paths import BUILD, PYTHON, ROOT

RAW = BUILD / "bench" / "latest.json"
PUBLISHED = ROOT / "docs" / "performance.json"


def bench(*, quick: bool, pytest_args: Sequence[str]) -> int:
    """Run the benchmarks; a full, successful run also becomes docs/performance.json."""
    RAW.parent.mkdir(parents=True, exist_ok=True)
    command = [PYTHON, "-m", "pytest", "bench", f"--benchmark-json={RAW}", "-o", "timeout=1800"]
    command += ["--hflush-quick"] if quick else []
    code = stream([*command, *pytest_args], env=environment.variables())
    if code or quick or pytest_args:
        say(f"measured into {RAW.relative_to(ROOT)}; docs/performance.json is left as it is")
        return code
    _report("publish", str(RAW))
    docs()
    return 0


def docs() -> None:
    """Generate what is generated: performance, conformance, and the figures in README."""
    if PUBLISHED.exists():
        _report("render")
    if (BUILD / "conformance.json").exists():
        conformance = ROOT / "tools" / "conformance.py"
        step("docs/conformance.md", [PYTHON, conformance, "render"], log="docs-conformance")


def _report(*arguments: str) -> None:
    report = ROOT / "tools" / "bench_report.py"
    step(f"performance: {arguments[0]}", [PYTHON, report, *arguments], log="docs-performance")
