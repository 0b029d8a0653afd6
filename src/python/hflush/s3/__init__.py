"""S3 and stores that speak its protocol: objects with slashes in their names, shown as a tree.

A file is an object, published by one request or not at all. A directory is what names say: an
object whose name ends with a slash (a marker, made by mkdirs), or any object below. Nothing moves:
rename copies and deletes. docs/semantics.md says what differs from a file system.
"""

from __future__ import annotations

from .._on_demand import on_demand
from ..registry import Store, register
from .options import CREATE_KEYWORDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .commit import PendingCommit
    from .filesystem import MultipartUpload, S3FileSystem

__all__ = ["MultipartUpload", "PendingCommit", "S3FileSystem"]

if not TYPE_CHECKING:  # with their first use: they bring much that other stores do not need
    __getattr__ = on_demand(
        __name__,
        {
            "MultipartUpload": "hflush.s3.filesystem:MultipartUpload",
            "PendingCommit": "hflush.s3.commit:PendingCommit",
            "S3FileSystem": "hflush.s3.filesystem:S3FileSystem",
        },
    )

register(
    Store(
        schemes=("s3",),
        factory="hflush.s3.filesystem:S3FileSystem",
        aliases={"s3a": "s3", "s3n": "s3"},
        create_keywords=CREATE_KEYWORDS,
        key_families=("fs.s3a.", "hflush.s3."),
        keys="hflush.s3.keys:KEYS",
        fsspec="hflush.s3.fsspec:HflushS3FileSystem",
    )
)
