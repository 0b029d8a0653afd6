"""Local files: raw, and with Hadoop's checksum sidecars."""

from __future__ import annotations

from ..registry import Store, register
from .filesystem import ChecksumFileSystem, LocalFileSystem, local_files
from .keys import FAMILIES

__all__ = ["ChecksumFileSystem", "LocalFileSystem"]

register(
    Store(
        schemes=("file", "file+crc"),
        factory=local_files,
        key_families=FAMILIES,
        keys="hflush.local.keys:KEYS",
        fsspec="hflush.fsspec.base:HflushFileSystem",
    )
)
