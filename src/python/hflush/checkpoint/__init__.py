"""Files that appear whole or not at all, and a log of batches made of them.

A :class:`CheckpointFileManager` writes a file under a temporary name in the same directory, hidden
and unique (``.NAME.<uuid>[.TID<task>].tmp``), and renames it when the stream is closed. A
:class:`MetadataLog` stores one such file for each batch and lets exactly one writer win each.

Both renames are atomic on local files and HDFS; :class:`FileContextBased` is preferred for its
errors and because it never overwrites what it is to keep. On object stores neither is atomic:
there :class:`AbortableStreamBased` writes in place, for closing a stream publishes it whole.

Configuration
-------------
spark.sql.streaming.checkpointFileManagerClass
    The manager: ``module:Class``, ``module.Class``, or the name of one of Spark's two.
hflush.checkpoint.sync
    ``true`` unless set: the data is on disk before the rename, and the rename before close returns.
hflush.checkpoint.verify-rename
    ``false`` unless set: look whether the file is really there after the rename.
hflush.checkpoint.keep-existing
    ``false`` unless set. For batches that are run again and come out the same: a file that exists
    and may not be overwritten is kept, the new one is dropped, and close succeeds.

Notes
-----
Source: Spark's CheckpointFileManager and HDFSMetadataLog; contract CKPT-1 to CKPT-25. Unlike
Spark's, a failed close leaves no temporary file behind.
"""

from __future__ import annotations

from ..errors import NotDurableError
from .log import MetadataLog
from .manager import (
    AbortableStreamBased,
    CheckpointFileManager,
    FileContextBased,
    FileSystemBased,
)
from .stream import CancellableFSDataOutputStream

__all__ = [
    "AbortableStreamBased",
    "CancellableFSDataOutputStream",
    "CheckpointFileManager",
    "FileContextBased",
    "FileSystemBased",
    "MetadataLog",
    "NotDurableError",
]
