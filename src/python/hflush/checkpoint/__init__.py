"""Files that appear whole or not at all, and a log of batches made of them.

A :class:`CheckpointFileManager` writes a file under a temporary name in the same directory, hidden
and unique (``.NAME.<uuid>[.TID<task>].tmp``), and renames it when the stream is closed. A
:class:`MetadataLog` stores one such file for each batch and lets exactly one writer win each.

The renames of :class:`FileContextBased` and :class:`FileSystemBased` are atomic on local files and
HDFS; the former is preferred for its errors, and because it overwrites only if asked to. Object
stores have no atomic rename: there :class:`AbortableStreamBased` writes in place, and closing its
stream publishes the file whole.

Logs of Spark's streaming queries, in Spark's own formats: :class:`OffsetSeqLog`,
:class:`CommitLog`, :class:`FileStreamSourceLog` and :class:`FileStreamSinkLog`, each with the
values of its batches. :class:`Checkpoint` finds what is wrong with them, and repairs what is safe.

Configuration
-------------
spark.sql.streaming.checkpointFileManagerClass
    The manager: ``module:Class``, ``module.Class``, or the name of one of Spark's two.
hflush.checkpoint.sync
    ``true`` unless set: the data is on disk before the rename, and the rename before close returns.
hflush.checkpoint.verify-rename
    ``false`` unless set: check after the rename that the file exists.
hflush.checkpoint.keep-existing
    ``false`` unless set. For batches that are run again and come out the same: a file that exists
    and may not be overwritten is kept, the new one is dropped, and close succeeds. It does not
    count for logs, in which one writer wins each batch.
spark.sql.streaming.minBatchesToRetain
    100 unless set: so many batches of a file log can be read one by one.
spark.sql.streaming.fileSink.log.compactInterval, spark.sql.streaming.fileSource.log.compactInterval
    10 unless set: every tenth batch of a file log repeats all before it.
spark.sql.streaming.fileSink.log.deletion, spark.sql.streaming.fileSource.log.deletion
    ``true`` unless set: remove files of a log that are not needed any more.
spark.sql.streaming.fileSink.log.cleanupDelay, spark.sql.streaming.fileSource.log.cleanupDelay
    ``10m`` unless set: the age from which.

Notes
-----
Source: Spark's CheckpointFileManager and HDFSMetadataLog; contract CKPT-1 to CKPT-25. Unlike
Spark's, a failed close leaves no temporary file behind.
"""

from __future__ import annotations

from ..errors import CorruptLogError, NotDurableError
from .entries import (
    CommitMetadata,
    FileEntry,
    OffsetMap,
    OffsetSeq,
    OffsetSeqMetadata,
    SinkFileStatus,
    SinkMetadataInfo,
    SourceMetadataInfo,
)
from .findings import Finding
from .inspection import Checkpoint, Repair
from .log import MetadataLog
from .manager import (
    AbortableStreamBased,
    CheckpointFileManager,
    FileContextBased,
    FileSystemBased,
)
from .spark_logs import (
    SINK_METADATA,
    CommitLog,
    CompactibleFileStreamLog,
    FileStreamSinkLog,
    FileStreamSourceLog,
    OffsetSeqLog,
)
from .stream import CancellableFSDataOutputStream

__all__ = [
    "SINK_METADATA",
    "AbortableStreamBased",
    "CancellableFSDataOutputStream",
    "Checkpoint",
    "CheckpointFileManager",
    "CommitLog",
    "CommitMetadata",
    "CompactibleFileStreamLog",
    "CorruptLogError",
    "FileContextBased",
    "FileEntry",
    "FileStreamSinkLog",
    "FileStreamSourceLog",
    "FileSystemBased",
    "Finding",
    "MetadataLog",
    "NotDurableError",
    "OffsetMap",
    "OffsetSeq",
    "OffsetSeqLog",
    "OffsetSeqMetadata",
    "Repair",
    "SinkFileStatus",
    "SinkMetadataInfo",
    "SourceMetadataInfo",
]
