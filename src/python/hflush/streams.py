"""The public names of the stream classes."""

from __future__ import annotations

from .input import FSDataInputStream
from .output import FSDataOutputStream
from .write_only import AbortResult

__all__ = ["AbortResult", "FSDataInputStream", "FSDataOutputStream"]
