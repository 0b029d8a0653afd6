"""Compiles fault_shim.c, once per content, into the build directory."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("fault_shim.c")
BUILD = Path(__file__).resolve().parents[3] / "build" / "faults"
FLAGS = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]


def shim_library() -> Path:
    """Return the path of the shared library, compiled if this source has not been yet."""
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    library = BUILD / f"fault_shim-{digest}.so"
    if not library.exists():
        compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
        BUILD.mkdir(parents=True, exist_ok=True)
        temporary = library.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, *FLAGS, "-o", temporary, SOURCE, "-ldl", "-lpthread"], check=True)
        temporary.replace(library)
    return library
