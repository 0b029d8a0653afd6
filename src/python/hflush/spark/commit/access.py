"""Access to the directories that hflush keeps in a destination."""

from __future__ import annotations

import contextlib
import stat
from typing import TYPE_CHECKING

from ... import capabilities

if TYPE_CHECKING:
    from ...filesystem import FileSystem
    from ...status import FileStatus

__all__ = ["share"]


def share(filesystem: FileSystem, directories: list[str], destination: str) -> None:
    """Give new directories the group and the permission of the destination.

    Users who may write there write in them, too, and end what others have left: none is sticky.
    Where the group is not to be had, it gets what all others have. One that another user has made
    stays as it is.
    """
    if not filesystem.has_path_capability(destination, capabilities.PERMISSIONS):
        return
    for directory in directories:
        with contextlib.suppress(OSError):
            _share(filesystem, directory, filesystem.get_file_status(destination))


def _share(filesystem: FileSystem, directory: str, wanted: FileStatus) -> None:
    made = filesystem.get_file_status(directory)
    permission = wanted.permission & ~stat.S_ISVTX
    if made.group != wanted.group:
        try:
            filesystem.set_owner(directory, group=wanted.group)
        except (OSError, ValueError):  # this user is not in it, or it has no name here
            permission = permission & ~stat.S_IRWXG | (permission & stat.S_IRWXO) << 3
    if made.permission != permission:
        filesystem.set_permission(directory, permission)
