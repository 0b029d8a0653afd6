"""How rows become the bytes of a file: one module for each encoding, :data:`ENCODINGS` has all.

An :class:`Encoding` says what it can hold and which compressions it has; its encoder writes one
file to a :class:`.sink.Sink`.
"""

from __future__ import annotations

from .base import Encoder, Encoding
from .csv import CSV
from .ipc import ARROW
from .json_lines import JSON
from .orc import ORC
from .parquet import PARQUET
from .sink import Sink
from .text import TEXT

__all__ = ["ENCODINGS", "Encoder", "Encoding", "Sink"]

ENCODINGS: dict[str, Encoding] = {
    encoding.name: encoding for encoding in (PARQUET, ORC, ARROW, CSV, JSON, TEXT)
}
