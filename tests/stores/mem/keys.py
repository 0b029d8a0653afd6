"""The configuration keys of memory stores."""

from __future__ import annotations

from hflush.keys import Key, size

__all__ = ["FAMILIES", "KEYS"]

FAMILIES = ("fs.mem.",)

KEYS = (
    Key("Memory stores", "fs.mem.block.size", size(1),
        "reported: files in memory have no blocks", default="32m"),
)  # fmt: skip
