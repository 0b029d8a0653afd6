"""Where things are."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
LOGS = BUILD / "log"
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
PACKAGE = ROOT / "src" / "python" / "hflush"
CPP = ROOT / "src" / "cpp"

# What a machine makes once and every checkout uses.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hflush"
