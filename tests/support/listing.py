"""What is in a directory: as a file system lists it, and as it is on the disk."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable

import hflush


def listed(statuses: Iterable[hflush.FileStatus]) -> list[str]:
    """The sorted last elements of a listing's paths."""
    return sorted(status.name for status in statuses)


def names(fs: hflush.FileSystem, directory: str) -> list[str]:
    """The names in a directory, as its listing shows them."""
    return listed(fs.list_status(directory))


def on_disk(directory: str) -> list[str]:
    """The names of everything below a directory, relative to it, sidecars too."""
    found = []
    for parent, directories, files in os.walk(directory):
        found += [
            os.path.relpath(os.path.join(parent, name), directory) for name in directories + files
        ]
    return sorted(found)


def sidecar(path: str) -> str:
    """Where the checksums of a file of the crc store are."""
    directory, name = posixpath.split(path)
    return posixpath.join(directory, f".{name}.crc")


def orphans(directory: str) -> list[str]:
    """The sidecars below a directory whose file is not there."""
    found = on_disk(directory)
    present = set(found)
    lost = []
    for path in found:
        parent, name = posixpath.split(path)
        if name.startswith(".") and name.endswith(".crc"):
            owner = posixpath.join(parent, name[1:-4])
            if owner not in present:
                lost.append(path)
    return lost
