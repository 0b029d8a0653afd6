"""Copying files and trees from one file system to another."""

from __future__ import annotations

import contextlib
import errno

from .paths import basename, child, is_under

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .filesystem import FileSystem
    from .status import FileStatus

__all__ = ["copy"]

_BUFFER_BYTES = 1 << 20


def copy(
    source: FileSystem,
    source_path: str,
    target: FileSystem,
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
        There is no such source.
    FileExistsError
        A file exists and may not be overwritten, or a file and a directory are in each other's way.
    OSError
        A tree would be copied into itself, or something in it is neither file nor directory.
    """
    status = source.get_file_status(source_path)
    if target.is_directory(target_path):
        target_path = child(target_path, basename(source_path))
    if target is source and is_under(target_path, source_path):
        raise OSError(errno.EINVAL, f"copy of {source_path} into itself", target_path)
    _copy(source, status, target, target_path, overwrite)
    if delete_source:
        source.delete(source_path, recursive=True)


def _copy(
    source: FileSystem, status: FileStatus, target: FileSystem, target_path: str, overwrite: bool
) -> None:
    if status.is_directory:
        target.mkdirs(target_path)
        for entry in source.list_status(status.path):
            _copy(source, entry, target, child(target_path, entry.name), overwrite)
    elif status.is_file:
        _copy_file(source, status.path, target, target_path, overwrite)
    else:
        raise OSError(errno.EINVAL, f"copy: not a regular file but {status.kind}", status.path)


def _copy_file(
    source: FileSystem, path: str, target: FileSystem, target_path: str, overwrite: bool
) -> None:
    with source.open(path) as reader:
        writer = target.create(target_path, overwrite=overwrite)
        try:
            with writer:
                buffer = memoryview(bytearray(_BUFFER_BYTES))
                while count := reader.readinto(buffer):
                    writer.write(buffer[:count])
        except BaseException:
            with contextlib.suppress(OSError):  # half a file is of no use; why, is being raised
                target.delete(target_path)
            raise
