"""The shared library of the shim."""

from __future__ import annotations

from pathlib import Path

from support.c_library import c_library


def shim_library() -> Path:
    return c_library(Path(__file__).with_name("fault_shim.c"))
