"""A memory store, ``mem://name/``: files of one process, which end with it."""

from __future__ import annotations

from hflush.registry import Store, register

from .filesystem import MemoryFileSystem
from .keys import FAMILIES

__all__ = ["MemoryFileSystem"]

register(
    Store(
        schemes=("mem",),
        factory=MemoryFileSystem,
        key_families=FAMILIES,
        keys=f"{__name__}.keys:KEYS",
    )
)
