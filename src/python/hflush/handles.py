"""Path handles: what :meth:`hflush.FileSystem.get_path_handle` packs into bytes."""

from __future__ import annotations

import errno
import json

from .errors import InvalidPathHandleError
from .status import FileStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["check_status", "gone", "pack", "unpack"]


def check_status(status: FileStatus) -> None:
    """Refuse a status that no handle can be made of.

    Raises
    ------
    TypeError, InvalidPathHandleError
        It is not a status; it is not the status of a file.
    """
    if not isinstance(status, FileStatus):
        raise TypeError(f"status must be a FileStatus, not {type(status).__name__}")
    if not status.is_file:
        raise InvalidPathHandleError(errno.ESTALE, f"not a file but {status.kind}", status.path)


def pack(path: str, *rest: object) -> bytes:
    """Return a handle: a path, and the other values that its store needs."""
    return json.dumps([path, *rest]).encode("ascii")


def unpack(handle: bytes, size: int) -> tuple[str, list[Any]]:
    """Return the path of a handle and the other `size` values.

    Raises
    ------
    TypeError, ValueError
        It is not bytes; they were not made by :func:`pack`.
    """
    if not isinstance(handle, (bytes, bytearray, memoryview)):
        raise TypeError(f"a path handle must be bytes, not {type(handle).__name__}")
    try:
        values = json.loads(bytes(handle))
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list) or len(values) != size + 1 or not isinstance(values[0], str):
        raise ValueError(f"not a path handle: {handle!r}")
    return values[0], values[1:]


def gone(path: str) -> InvalidPathHandleError:
    """Return the refusal of a handle whose file is missing."""
    return InvalidPathHandleError(errno.ESTALE, "path handle: the file is gone", path)
