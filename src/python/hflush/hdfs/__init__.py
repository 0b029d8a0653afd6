"""HDFS, spoken natively: name space, streams and leases without a JVM."""

from __future__ import annotations

from ..registry import Store, register
from .builders import HdfsFileBuilder
from .filesystem import DistributedFileSystem, HdfsInputStream
from .options import CREATE_KEYWORDS

__all__ = ["DistributedFileSystem", "HdfsFileBuilder", "HdfsInputStream"]

register(
    Store(
        schemes=("hdfs",),
        factory=DistributedFileSystem,
        create_keywords=CREATE_KEYWORDS,
        key_families=("hflush.hdfs.",),
        fsspec="hflush.hdfs.fsspec:HflushHdfsFileSystem",
    )
)
