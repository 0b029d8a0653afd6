"""The configuration keys of local files: docs/keys.md shows the table."""

from __future__ import annotations

from ..configuration import DEFAULTS
from ..keys import BOOL, Key, number, size

__all__ = ["FAMILIES", "KEYS"]

FAMILIES = ("file.", "fs.file.", "fs.local.", "hflush.file.")

_LOCAL = "Local files"

KEYS = (
    Key(_LOCAL, "fs.file.checksum", BOOL,
        "`file:` has checksum sidecars, as `file+crc:` always has",
        default=DEFAULTS["fs.file.checksum"]),
    Key(_LOCAL, "file.bytes-per-checksum", number(1),
        "data bytes per checksum", default=DEFAULTS["file.bytes-per-checksum"]),
    Key(_LOCAL, "fs.local.block.size", size(1),
        "only reported: local files have no blocks", default=DEFAULTS["fs.local.block.size"]),
    Key(_LOCAL, "hflush.file.sync-on-close", BOOL,
        "close syncs the file to disk", default="false"),
)  # fmt: skip
