"""The program. Run as one, this builds it and prints where it is."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":  # with what Python there is, before anything is installed
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from go_program import GoProgram

PROGRAM = GoProgram(
    "minio",
    "github.com/minio/minio",
    "v0.0.0-20260212201848-7aac2a2c5b7c",
    least=(1, 24),
)


def binary() -> Path:
    """Return the program, built first unless it was built before: see :class:`GoProgram`."""
    return PROGRAM.path()


if __name__ == "__main__":
    print(binary())
