"""Copying files and trees from one file system to another."""

from __future__ import annotations

import contextlib
import errno

from .capabilities import ABORTABLE
from .paths import basename, child, parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .files import Files
    from .status import FileStatus

__all__ = ["copy", "copy_file"]

_BUFFER_BYTES = 1 << 20


def copy(
    source: Files,
    source_path: str,
    target: Files,
    target_path: str,
    *,
    delete_source: bool,
    overwrite: bool,
) -> None:
    """Copy a file or a tree; into `target_path` under its own name if that is a directory.

    Paths are normalised. The source is removed only after everything was copied.

    Raises
    ------
    FileNotFoundError
        The source is missing.
    FileExistsError
        A file exists and may not be overwritten, or a file and a directory are in each other's way.
    OSError
        A tree would be copied into itself, or something in it is neither file nor directory.
    """
    source, source_path = source._behind(source_path)
    status = source.get_file_status(source_path)
    if target.is_directory(target_path):
        target_path = child(target_path, basename(source_path))
    target, target_path = target._behind(target_path)
    if _is_within(target, target_path, source, status):
        raise OSError(errno.EINVAL, f"copy of {source_path} onto or into itself", target_path)
    _copy(source, status, target, target_path, overwrite)
    if delete_source:
        source.delete(source_path, recursive=True)


def copy_file(source: Files, source_path: str, target: Files, target_path: str) -> None:
    """Copy one file over whatever file is at the target.

    Raises
    ------
    FileNotFoundError
        The source is missing.
    OSError
        Both are the same file; the source is not a regular file.
    """
    source, source_path = source._behind(source_path)
    target, target_path = target._behind(target_path)
    status = source.get_file_status(source_path)
    if _is_within(target, target_path, source, status):
        raise OSError(errno.EINVAL, f"copy of {source_path} onto itself", target_path)
    _copy(source, status, target, target_path, True)


def _is_within(target: Files, path: str, source: Files, status: FileStatus) -> bool:
    """Return whether `path` is the source itself, or lies below it, by whatever name."""
    if not target._shares_files_with(source):
        return False
    while True:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            there = target.get_file_status(path)
            if there.path == status.path or (there.file_id and there.file_id == status.file_id):
                return True
        if path == "/" or not status.is_directory:
            return False
        path = parent(path)


def _copy(
    source: Files, status: FileStatus, target: Files, target_path: str, overwrite: bool
) -> None:
    if status.is_directory:
        target.mkdirs(target_path)
        for entry in source.list_status(status.path):
            _copy(source, entry, target, child(target_path, entry.name), overwrite)
    elif status.is_file:
        _copy_file(source, status.path, target, target_path, overwrite)
    else:
        raise OSError(errno.EINVAL, f"copy: not a regular file but {status.kind}", status.path)


def _copy_file(source: Files, path: str, target: Files, target_path: str, overwrite: bool) -> None:
    with source.open(path) as reader:
        writer = target.create(target_path, overwrite=overwrite)
        try:
            with writer:
                buffer = memoryview(bytearray(_BUFFER_BYTES))
                while count := reader.readinto(buffer):
                    writer.write(buffer[:count])
        except BaseException:
            if not writer.has_capability(ABORTABLE):  # else the old content is still there
                with contextlib.suppress(OSError):  # useless; the failure is being raised
                    target.delete(target_path)
            raise
