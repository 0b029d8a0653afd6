"""The jars of pom.xml, fetched by Maven. Where Maven gets them, its settings decide.

Run as a program, it fetches them and does nothing else.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

POM = Path(__file__).with_name("pom.xml")
_HOME = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
CACHE = _HOME / "hflush" / "minidfs"  # of all checkouts
TIMEOUT_S = 600


def jars() -> list[Path]:
    """Return the jars, fetched first unless this pom.xml was fetched already.

    Raises RuntimeError with Maven's output where that fails. Safe to call from several processes.
    """
    directory = CACHE / hashlib.sha256(POM.read_bytes()).hexdigest()[:16]
    if not directory.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not directory.exists():
                _fetch(directory)
    return sorted(directory.glob("*.jar"))


def _fetch(directory: Path) -> None:
    """Fill the directory; it appears with all jars or not at all."""
    partial = directory.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    maven = shutil.which("mvn")
    if maven is None:
        raise RuntimeError("the test cluster needs Maven (mvn) to fetch Hadoop's jars")
    command = [maven, "-B", "-q", "-f", str(POM), "dependency:copy-dependencies"]
    result = subprocess.run(
        [*command, f"-DoutputDirectory={partial}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if result.returncode:
        raise RuntimeError(f"Maven could not fetch the jars of {POM}:\n{result.stdout}")
    partial.replace(directory)


if __name__ == "__main__":
    jars()
