"""What the command writes to standard output."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .. import capabilities

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..filesystem import FileSystem
    from ..status import FileStatus

__all__ = ["STANDARD_OUTPUT", "emit", "mode", "naming_output", "owner", "say", "time_of"]

# The name in errors.
STANDARD_OUTPUT = "standard output"


@contextmanager
def naming_output() -> Iterator[None]:
    """Make a failure of standard output name it, and come once: Python flushes again at exit."""
    try:
        yield
    except OSError as failure:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if failure.filename is None:
            failure.filename = STANDARD_OUTPUT
        raise


def emit(data: bytes) -> None:
    """Write bytes."""
    with naming_output():
        sys.stdout.buffer.write(data)


def say(line: str) -> None:
    """Write a line."""
    emit(line.encode("utf-8", "surrogateescape") + b"\n")


def _keeps_permissions(fs: FileSystem) -> bool:
    """Whether a store keeps modes and owners: other stores report placeholders."""
    return fs.has_path_capability("/", capabilities.PERMISSIONS)


def mode(fs: FileSystem, status: FileStatus) -> str:
    """Return kind and permissions as ls shows them; the kind alone where there are no others."""
    import stat

    kinds = {"directory": stat.S_IFDIR, "symlink": stat.S_IFLNK, "file": stat.S_IFREG}
    shown = stat.filemode(kinds.get(status.kind, 0) | status.permission)
    return shown if _keeps_permissions(fs) else shown[0]


def owner(fs: FileSystem, name: str) -> str:
    """Return the name of an owner or a group, - where there are none."""
    return name if _keeps_permissions(fs) else "-"


def time_of(status: FileStatus) -> str:
    """Return the modification time, - where it is not recorded."""
    if status.is_directory and status.modification_time_ns == 0:
        return "-"  # not recorded
    moment = time.gmtime(status.modification_time_ns // 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", moment)
