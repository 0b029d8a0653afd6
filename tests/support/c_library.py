"""The libraries in C that tests load, compiled once per content into the build directory.

    python c_library.py    compiles all of them: ./dev test does, before any test runs

Where that was not done, the first test that needs one does.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
BUILD = TESTS.parent / "build" / "libraries"
FLAGS = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]


def c_library(source: Path) -> Path:
    """Return the path of the shared library, compiled if this source has not been yet."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    library = BUILD / f"{source.stem}-{digest}.so"
    if not library.exists():
        compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
        BUILD.mkdir(parents=True, exist_ok=True)
        temporary = library.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, *FLAGS, "-o", temporary, source, "-ldl", "-lpthread"], check=True)
        temporary.replace(library)
    return library


if __name__ == "__main__":
    for path in sorted(TESTS.rglob("*.c")):
        c_library(path)
