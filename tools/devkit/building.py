"""CMake presets. What was compiled once on this machine, in whichever checkout, is not again."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from devkit import environment
from devkit.console import step
from devkit.paths import BUILD, CACHE, PYTHON, ROOT

# What a preset is for, where that is not everything.
_TARGETS = {"tidy": ("checkheaders",)}


def build(preset: str, *targets: str, settings: Sequence[str] = ()) -> Path:
    """Bring a preset's targets up to date, those it is for unless named; return its directory.

    Settings are beside those of the preset, and the same each time.
    """
    directory = BUILD / preset
    targets = targets or _TARGETS.get(preset, ())
    if not _configured(directory):
        _configure(preset, directory, settings)
    names = ["--target", *targets] if targets else []
    step(
        f"building {' '.join(targets) or 'everything'} ({preset})",
        ["cmake", "--build", directory, *names],
        log=f"build-{preset}",
        env={**environment.variables(), **_of_ccache()},
    )
    return directory


def _of_ccache() -> dict[str, str]:
    """Settings by which files of another checkout are the same files."""
    return {
        "CCACHE_DIR": str(CACHE / "ccache"),
        "CCACHE_BASEDIR": str(ROOT),
        "CCACHE_NOHASHDIR": "true",
        "CCACHE_SLOPPINESS": "pch_defines,time_macros",
        "CCACHE_MAXSIZE": "5G",
    }


def _configured(directory: Path) -> bool:
    stamp = directory / "configured"
    ready = stamp.exists() and (directory / "build.ninja").exists()
    return ready and stamp.read_text() == _digest()


def _configure(preset: str, directory: Path, settings: Sequence[str]) -> None:
    (directory / "CMakeCache.txt").unlink(missing_ok=True)
    pybind11 = subprocess.run(
        [PYTHON, "-m", "pybind11", "--cmakedir"], capture_output=True, text=True, check=True
    )
    step(
        f"configuring ({preset})",
        [
            "cmake",
            "--preset",
            preset,
            f"-DPython_EXECUTABLE={PYTHON}",
            f"-Dpybind11_DIR={pybind11.stdout.strip()}",
            "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache",
            *settings,
        ],
        log=f"configure-{preset}",
        env=environment.variables(),
    )
    (directory / "configured").write_text(_digest())


def _digest() -> str:
    """Of what a configuration depends on and Ninja does not watch."""
    presets = (ROOT / "CMakePresets.json").read_text()
    return hashlib.sha256(f"{presets}\n{ROOT}\n{PYTHON.resolve()}".encode()).hexdigest()
