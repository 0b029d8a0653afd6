"""The names of checksum sidecars: ``.NAME.crc`` beside ``NAME``, as in Hadoop."""

from __future__ import annotations

from .paths import basename, child, parent

__all__ = ["is_sidecar", "of_sidecar", "sidecar_of"]


def sidecar_of(path: str) -> str:
    """Return the path of the sidecar of a file."""
    return child(parent(path), f".{basename(path)}.crc")


def is_sidecar(name: str) -> bool:
    """Whether a file of this name is a sidecar."""
    return name.startswith(".") and name.endswith(".crc")


def of_sidecar(name: str) -> str:
    """Return the name of the file that a sidecar belongs to."""
    return name[1:-4]
