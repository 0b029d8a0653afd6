"""./dev lint: formatting, style and types, in both languages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from devkit import compilers, environment, machine
from devkit.building import build
from devkit.console import StepFailed, side_by_side, step
from devkit.outcome import Row, as_one, summarize, timed
from devkit.parts import OF_FULL, PYTEST
from devkit.paths import BUILD, CACHE, CPP, PYTHON, ROOT

TIDY_TIMEOUT_S = 300
_PYTHON_PLACES = ("dev", "src/python", "tests", "bench", "demo", "tools")
_TESTS = ROOT / "tests"
_CPP_PLACES = ("src/cpp", "tests/cpp", "tests/faults", "tests/stores", "tests/unit", "bench/cpp")


def lint(names: Sequence[str] = ()) -> int:
    """Run the checks of these names, or all; return the exit code."""
    return summarize([timed(name, CHECKS[name]) for name in names or CHECKS])


def fix() -> None:
    """Format everything, and let ruff mend what it safely can."""
    _tool("ruff-fix", "ruff", "check", "--fix", *_places())
    _tool("ruff-format", "ruff", "format", *_places())
    _tool("clang-format", "clang-format", "-i", *_cpp_files("*.h", "*.cc", "*.c", "*.inc"))


def _tool(log: str, *command: object) -> None:
    step(log, command, log=f"lint-{log}", env=environment.variables())


def _places() -> list[str]:
    return [place for place in _PYTHON_PLACES if (ROOT / place).exists()]


def _cpp_files(*patterns: str) -> list[Path]:
    found = (ROOT.joinpath(place).rglob(pattern) for place in _CPP_PLACES for pattern in patterns)
    return sorted(path for paths in found for path in paths)


def _ruff() -> None:
    _tool("ruff", "ruff", "check", *_places())


def _ruff_format() -> None:
    _tool("ruff-format", "ruff", "format", "--check", "--diff", *_places())


def _mypy() -> None:
    _tool("mypy", PYTHON, "-m", "mypy")


def _stubtest() -> None:
    allowed = ROOT / "tools" / "stubtest-allowlist.txt"
    _tool("stubtest", PYTHON, "-m", "mypy.stubtest", "hflush._core", "--allowlist", allowed)


def _codespell() -> None:
    _tool("codespell", "codespell", *_places(), "src/cpp", "docs", "README.md", "CONTRIBUTING.md")


def _clang_format() -> None:
    files = _cpp_files("*.h", "*.cc", "*.c", "*.inc")
    _tool("clang-format", "clang-format", "--dry-run", "-Werror", *files)


def _claims() -> None:
    """Collect what every test claims of the contract, and hold the matrix against it."""
    claims = BUILD / "conformance" / "claims.json"
    claims.parent.mkdir(parents=True, exist_ok=True)
    places = sorted({_TESTS / place for name in OF_FULL for place in PYTEST[name].places})
    collect = (PYTHON, "-m", "pytest", "--collect-only", "--quiet", f"--claims={claims}")
    _tool("claims-collect", *collect, "-p", "no:cacheprovider", *places)
    _tool("claims", PYTHON, ROOT / "tools" / "conformance.py", "claims", claims)


def _headers() -> None:
    machine.require([machine.CLANG])
    build("tidy")


def _clang_tidy(row: Row) -> None:
    """One run per source file, remembered by the content of all it may depend on.

    It tells clang's own warnings too, those of -Wthread-safety among them.
    """
    machine.require([machine.CLANG])
    build("tidy")
    cache = CACHE / "clang-tidy"
    cache.mkdir(parents=True, exist_ok=True)
    settings = (".clang-tidy", "CMakeLists.txt", "CMakePresets.json", "pyproject.toml")
    shared = _digest([*(ROOT / name for name in settings), *_headers_of_core()])
    sources = sorted(CPP.rglob("*.cc"))
    clean = side_by_side(lambda source: _tidy(source, shared, cache), sources)
    row.passed += sum(clean)
    for source, passed in zip(sources, clean, strict=True):
        if not passed:
            row.fail(str(source.relative_to(ROOT)))


def _headers_of_core() -> list[Path]:
    return sorted([*CPP.rglob("*.h"), *CPP.rglob("*.inc")])


def _tidy(source: Path, shared: str, cache: Path) -> bool:
    clean = cache / hashlib.sha256(f"{shared}{_digest([source])}".encode()).hexdigest()
    if clean.exists():
        return True
    name = source.relative_to(CPP)
    command = ["clang-tidy", "-p", BUILD / "tidy", "--quiet", source]
    log = "tidy-" + str(name).replace("/", "-")
    env = environment.variables()
    try:
        step(f"clang-tidy {name}", command, log=log, env=env, timeout_s=TIDY_TIMEOUT_S)
    except StepFailed:
        return False
    clean.touch()
    return True


def _digest(paths: Sequence[Path]) -> str:
    whole = hashlib.sha256()
    for path in paths:
        whole.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return whole.hexdigest()


CHECKS: dict[str, Callable[[Row], None]] = {
    "ruff": as_one(_ruff),
    "ruff-format": as_one(_ruff_format),
    "mypy": as_one(_mypy),
    "stubtest": as_one(_stubtest),
    "codespell": as_one(_codespell),
    "claims": as_one(_claims),
    "clang-format": as_one(_clang_format),
    "headers": as_one(_headers),  # each alone
    "newest-compilers": compilers.check,
    "clang-tidy": _clang_tidy,
}
