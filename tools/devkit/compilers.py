"""The newest gcc and clang that Debian has, over every source: next year's trouble, today.

They run inside a root of Debian's unstable release. What they refuse fails; what they only warn of
is printed, since a compiler that came out this morning may not stop anybody's work. Where the
environment says CI, only what users compile is checked: the rest takes most of the time.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from devkit import debian, machine
from devkit.console import StepFailed, say, side_by_side, step
from devkit.outcome import Row
from devkit.paths import CACHE, ROOT

FAMILIES = {"g++": "g++", "clang": "clang++"}  # how Debian calls the packages, and their programs
TIMEOUT_S = 600
_HEADERS = (
    "doctest-dev",
    "libcurl4-openssl-dev",
    "libprotozero-dev",
    "libssl-dev",
    "pybind11-dev",
    "python3-dev",
)
_SHIPPED = ("src/cpp",)
_PLACES = (*_SHIPPED, "tests/cpp", "tests/stores", "bench/cpp")
_FOREIGN = (
    "libfuzzer.cc",  # is compiled once for each fuzzer, with its name
    "observed_calls.cc",  # those include a header that is made from a built library
    "observed_reads.cc",
    "observed_writers.cc",
)
_INSIDE = Path("hflush")  # the sources, as the root has them
_FLAGS = (
    "-std=c++20",
    "-fsyntax-only",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wshadow",
)
_PROJECT = (
    "-Isrc/cpp",
    "-Isrc/cpp/bindings",
    "-Itests/cpp",
    "-Itests/stores/mem/cpp",
    "-Ibench/cpp",
    "-Itests",
    '-DHFLUSH_DOCS="docs"',
    '-DHFLUSH_CORPUS="corpus"',
)


def check(row: Row) -> None:
    """Compile every source with each compiler; what has passed before is remembered.

    Skipped, with the reason, for a user who may make no such root.
    """
    try:
        root = debian.root("unstable", _HEADERS, name="newest")
    except machine.NotInstalled as missing:
        row.skips.append(str(missing))
        return
    python = debian.output(root, "python3-config", "--includes").split()
    compilers = [_newest(root, package, program) for package, program in FAMILIES.items()]
    _copy_sources(root)
    for compiler in compilers:
        _check_with(row, root, [compiler, *_FLAGS, *_PROJECT, *python])


def _newest(root: Path, package: str, program: str) -> str:
    """Return the program of the highest version that the release has, installed."""
    pattern = f"^{re.escape(package)}-[0-9]+$"
    listed = debian.output(root, "apt-cache", "search", "--names-only", pattern)
    version = max(int(line.split()[0].rpartition("-")[2]) for line in listed.splitlines())
    if not (root / f"usr/bin/{program}-{version}").exists():
        name = f"{package}-{version}"
        debian.apt_get(root, "install", "-y", "--no-install-recommends", name)
    return f"{program}-{version}"


def _copy_sources(root: Path) -> None:
    """A copy, since a chroot without mounts needs no cleaning up."""
    shutil.rmtree(root / _INSIDE, ignore_errors=True)
    for place in _PLACES:
        shutil.copytree(ROOT / place, root / _INSIDE / place)


def _check_with(row: Row, root: Path, command: Sequence[str]) -> None:
    compiler = command[0]
    cache = CACHE / "newest-compilers"
    cache.mkdir(parents=True, exist_ok=True)
    version = debian.output(root, compiler, "--version")
    places = _SHIPPED if os.environ.get("CI") else _PLACES
    files = [path for place in places for path in sorted((ROOT / place).rglob("*.*"))]
    headers = [path for path in files if path.suffix in {".h", ".inc"}]
    shared = _digest([version, *command], headers)
    sources = [path for path in files if path.suffix == ".cc" and path.name not in _FOREIGN]
    folders = [list(group) for _, group in groupby(sources, key=lambda path: path.parent)]

    def compiles(folder: Sequence[Path]) -> bool:
        place = str(folder[0].parent.relative_to(ROOT))
        clean = cache / _digest([shared], folder)
        if clean.exists():
            return True
        names = [path.relative_to(ROOT) for path in folder]
        words = debian.inside(root, ["env", "-C", f"/{_INSIDE}", *command, *names])
        log = f"newest-{compiler}-{place.replace('/', '-')}"
        try:
            said = step(f"{compiler} {place}", words, log=log, timeout_s=TIMEOUT_S)
        except StepFailed:
            return False
        if said:
            say(said)
        else:
            clean.touch()
        return True

    for folder, passed in zip(folders, side_by_side(compiles, folders), strict=True):
        if passed:
            row.passed += len(folder)
        else:
            row.fail(f"{compiler} {folder[0].parent.relative_to(ROOT)}")


def _digest(words: Iterable[str], paths: Iterable[Path]) -> str:
    whole = hashlib.sha256("\n".join(words).encode())
    for path in paths:
        whole.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return whole.hexdigest()
