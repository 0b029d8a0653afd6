"""HDFS, spoken natively: name space, streams and leases without a JVM."""

from __future__ import annotations

from .._on_demand import on_demand
from ..registry import Store, register
from .options import CREATE_KEYWORDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .builders import HdfsFileBuilder
    from .filesystem import DistributedFileSystem, HdfsInputStream

__all__ = ["DistributedFileSystem", "HdfsFileBuilder", "HdfsInputStream"]

if not TYPE_CHECKING:  # with their first use: the table of keys is long
    __getattr__ = on_demand(
        __name__,
        {
            "DistributedFileSystem": "hflush.hdfs.filesystem:DistributedFileSystem",
            "HdfsFileBuilder": "hflush.hdfs.builders:HdfsFileBuilder",
            "HdfsInputStream": "hflush.hdfs.filesystem:HdfsInputStream",
        },
    )


def __dir__() -> list[str]:
    return __all__


register(
    Store(
        schemes=("hdfs",),
        factory="hflush.hdfs.filesystem:DistributedFileSystem",
        create_keywords=CREATE_KEYWORDS,
        key_families=("hflush.hdfs.",),
        keys="hflush.hdfs.keys:KEYS",
        fsspec="hflush.hdfs.fsspec:HflushHdfsFileSystem",
    )
)
