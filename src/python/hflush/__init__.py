"""Hadoop's write path for Python.

Output streams that say exactly when bytes are visible (``hflush``), durable (``hsync``) and
published (``close``), that many threads may write at once, and that never lose a failure.

    with hflush.create("hdfs://nn:8020/logs/app.log") as out:
        out.write(record)
        out.hsync()                      # durable, or an exception

See :func:`create`, :func:`append`, :func:`open`, :class:`FileSystem` and
:class:`FSDataOutputStream`.
"""

from __future__ import annotations

import sys

try:
    try:  # `_core` would wait for ever in those in which Python does not refuse it, as mod_wsgi's
        if sys.version_info >= (3, 13):
            import _interpreters
        else:
            import _xxsubinterpreters as _interpreters  # type: ignore[import-not-found]
    except ImportError:
        pass
    else:
        if _interpreters.get_current() != _interpreters.get_main():
            raise ImportError("module hflush._core does not support loading in subinterpreters")
    from . import _core as _core
except ImportError as missing:
    from ._missing import advice

    raise ImportError(advice(missing, __path__)) from missing

from . import capabilities

# The stores: each registers itself.
from . import hdfs as hdfs
from . import local as local
from . import s3 as s3
from . import viewfs as viewfs
from ._on_demand import on_demand
from ._version import __version__ as __version__
from .capabilities import (
    Abortable,
    CanSetDropBehind,
    CanUnbuffer,
    PositionedReadable,
    Seekable,
    StreamCapabilities,
    Syncable,
)
from .configuration import Configuration
from .errors import (
    ChecksumError,
    ConcurrentWriterError,
    CorruptLogError,
    EndOfFileError,
    FileLeaseHeldError,
    InternalError,
    InvalidPathError,
    InvalidPathHandleError,
    LeaseHeldError,
    LeaseLostError,
    NotAFileError,
    NotDurableError,
    NotPublishedWarning,
    ParentNotDirectoryError,
    PathIsDirectoryError,
    PipelineError,
    PreconditionFailedError,
    SeekError,
    StaleTokenError,
    StreamClosedError,
    UnsupportedFileSystemError,
)
from .filesystem import FileSystem
from .local import ChecksumFileSystem, LocalFileSystem
from .opening import append, commit, create, put_if_absent, resume
from .opening import open as open
from .options import CreateFlag, Rename
from .statistics import IOStatistics, MeanStatistic
from .status import (
    BlockLocation,
    ContentSummary,
    FileChecksum,
    FileStatus,
    FsServerDefaults,
    FsStatus,
)
from .streams import AbortResult, FSDataInputStream, FSDataOutputStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import aio as aio
    from . import checkpoint as checkpoint
    from . import cli as cli
    from . import crc
    from . import fsspec as fsspec
    from . import logging as logging
    from . import multipart as multipart
    from . import spark as spark
    from . import trash as trash
    from .credentials import Credentials
    from .hdfs import DistributedFileSystem

__all__ = [
    "AbortResult",
    "Abortable",
    "BlockLocation",
    "CanSetDropBehind",
    "CanUnbuffer",
    "ChecksumError",
    "ChecksumFileSystem",
    "ConcurrentWriterError",
    "Configuration",
    "ContentSummary",
    "CorruptLogError",
    "CreateFlag",
    "Credentials",
    "DistributedFileSystem",
    "EndOfFileError",
    "FSDataInputStream",
    "FSDataOutputStream",
    "FileChecksum",
    "FileLeaseHeldError",
    "FileStatus",
    "FileSystem",
    "FsServerDefaults",
    "FsStatus",
    "IOStatistics",
    "InternalError",
    "InvalidPathError",
    "InvalidPathHandleError",
    "LeaseHeldError",
    "LeaseLostError",
    "LocalFileSystem",
    "MeanStatistic",
    "NotAFileError",
    "NotDurableError",
    "NotPublishedWarning",
    "ParentNotDirectoryError",
    "PathIsDirectoryError",
    "PipelineError",
    "PositionedReadable",
    "PreconditionFailedError",
    "Rename",
    "SeekError",
    "Seekable",
    "StaleTokenError",
    "StreamCapabilities",
    "StreamClosedError",
    "Syncable",
    "UnsupportedFileSystemError",
    "append",
    "capabilities",
    "commit",
    "crc",
    "create",
    "put_if_absent",
    "resume",
]  # and open, which `from hflush import *` must not put in the place of the built-in one

# Imported at the first use, so that `import hflush` stays small.
_ON_DEMAND = {
    name: f"{__name__}.{name}"
    for name in (
        "aio",
        "checkpoint",
        "cli",
        "crc",
        "fsspec",
        "logging",
        "multipart",
        "spark",
        "trash",
    )
}
_ON_DEMAND["Credentials"] = "hflush.credentials:Credentials"
_ON_DEMAND["DistributedFileSystem"] = "hflush.hdfs.filesystem:DistributedFileSystem"


if not TYPE_CHECKING:  # with __getattr__ every name would pass the check
    __getattr__ = on_demand(__name__, _ON_DEMAND)


def __dir__() -> list[str]:
    return sorted({*__all__, *_ON_DEMAND, "s3", "viewfs", "__version__", "open"})
