"""The configuration keys of checkpoints."""

from __future__ import annotations

__all__ = ["EXACT_RENAME", "KEEP_EXISTING", "MANAGER_CLASS", "SYNC", "VERIFY_RENAME"]

MANAGER_CLASS = "spark.sql.streaming.checkpointFileManagerClass"
SYNC = "hflush.checkpoint.sync"
VERIFY_RENAME = "hflush.checkpoint.verify-rename"
KEEP_EXISTING = "hflush.checkpoint.keep-existing"
# A contract option: false says that a store has only FileSystem's rename, not FileContext's.
EXACT_RENAME = "supports-exact-rename"
