"""Where things are."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
LOGS = BUILD / "log"
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
PACKAGE = ROOT / "src" / "python" / "hflush"
CPP = ROOT / "src" / "cpp"
