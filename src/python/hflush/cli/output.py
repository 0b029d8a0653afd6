"""What the command writes to standard output."""

from __future__ import annotations

import errno
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

__all__ = [
    "STANDARD_OUTPUT",
    "complain",
    "emit",
    "flush",
    "mode",
    "naming_output",
    "owners",
    "say",
    "time_of",
]

# The name in errors.
STANDARD_OUTPUT = "standard output"

# What a terminal would obey, as ls(1) shows it there.
_CONTROLS = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), "?")
_CONTROLS_BUT_LINES = {code: to for code, to in _CONTROLS.items() if chr(code) not in "\t\n"}


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
    if sys.stdout is None:  # it was closed when Python started
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), STANDARD_OUTPUT)
    left = memoryview(data)
    with naming_output():
        while left:  # without a buffer a write may take less, or nothing
            taken = sys.stdout.buffer.write(left)
            if taken is None:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            left = left[taken:]


def say(line: str) -> None:
    """Write a line: to a terminal without control characters, which names may have."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    shown = line.translate(_CONTROLS) if is_terminal else line
    emit(shown.encode("utf-8", "surrogateescape") + b"\n")


def flush() -> None:
    """Hand on what was written."""
    if sys.stdout is not None:
        with naming_output():
            sys.stdout.flush()


def complain(line: str) -> None:
    """Write a line to standard error, if there is one: print would take standard output."""
    if sys.stderr is not None:
        print(line.translate(_CONTROLS_BUT_LINES), file=sys.stderr)  # noqa: T201


def _keeps_permissions(fs: FileSystem, status: FileStatus) -> bool:
    """Whether the store of a file keeps modes and owners: other stores report placeholders."""
    try:
        store = fs._store_at(fs._store_path(status))
    except (OSError, ValueError):  # a link of a view that leads nowhere
        return False
    return store.has_path_capability("/", capabilities.PERMISSIONS)


def mode(fs: FileSystem, status: FileStatus) -> str:
    """Return kind and permissions as ls shows them; the kind alone where there are no others."""
    import stat

    kinds = {"directory": stat.S_IFDIR, "symlink": stat.S_IFLNK, "file": stat.S_IFREG}
    shown = stat.filemode(kinds.get(status.kind, 0) | status.permission)
    return shown if _keeps_permissions(fs, status) else shown[0]


def owners(fs: FileSystem, status: FileStatus) -> tuple[str, str]:
    """Return the names of owner and group, - where there are none."""
    return (status.owner, status.group) if _keeps_permissions(fs, status) else ("-", "-")


def time_of(status: FileStatus) -> str:
    """Return the modification time, - where it is not recorded."""
    if status.is_directory and status.modification_time_ns == 0:
        return "-"  # not recorded
    moment = time.gmtime(status.modification_time_ns // 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", moment)
