"""Local files: raw, and with Hadoop's checksum sidecars."""

from __future__ import annotations

from .filesystem import ChecksumFileSystem, LocalFileSystem

__all__ = ["ChecksumFileSystem", "LocalFileSystem"]
