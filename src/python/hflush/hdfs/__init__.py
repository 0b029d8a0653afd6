"""HDFS, spoken natively: name space, streams and leases without a JVM."""

from __future__ import annotations

from .filesystem import DistributedFileSystem, HdfsFileBuilder, HdfsInputStream

__all__ = ["DistributedFileSystem", "HdfsFileBuilder", "HdfsInputStream"]
