"""S3 and stores that speak its protocol: objects with slashes in their names, shown as a tree.

A file is an object, published by one request or not at all. A directory is what names say: an
object whose name ends with a slash (a marker, made by mkdirs), or any object below. Nothing moves:
rename copies and deletes. docs/semantics.md says what differs from a file system.
"""

from __future__ import annotations

from .filesystem import MultipartUpload, PendingCommit, S3FileSystem

__all__ = ["MultipartUpload", "PendingCommit", "S3FileSystem"]
