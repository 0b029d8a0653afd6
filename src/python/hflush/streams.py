"""The streams that users have in hand, under the name of the module that they are known by."""

from __future__ import annotations

from .input import FSDataInputStream
from .output import FSDataOutputStream
from .write_only import AbortResult

__all__ = ["AbortResult", "FSDataInputStream", "FSDataOutputStream"]
