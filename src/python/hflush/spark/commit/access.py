"""Access to the directories that hflush keeps in a destination."""

from __future__ import annotations

import contextlib
import stat
from typing import TYPE_CHECKING

from ... import capabilities

if TYPE_CHECKING:
    from ...filesystem import FileSystem

__all__ = ["share"]


def share(filesystem: FileSystem, directories: list[str], destination: str) -> None:
    """Give new directories the group and the permission of the destination.

    Users who may write there write in them, too, and end what others have left: none is sticky.
    Where the group is not to be had, or an ACL hides what it may, it gets what all others have. One
    that another user has made stays as it is, and so does the permission of one with an ACL, which
    the system has given it.
    """
    if not filesystem.has_path_capability(destination, capabilities.PERMISSIONS):
        return
    for directory in directories:
        with contextlib.suppress(OSError):
            _share(filesystem, directory, destination)


def _share(filesystem: FileSystem, directory: str, destination: str) -> None:
    wanted, made = filesystem.get_file_status(destination), filesystem.get_file_status(directory)
    permission = wanted.permission & ~stat.S_ISVTX
    is_for_group = not _has_acl(filesystem, destination)
    if made.group != wanted.group:
        try:
            filesystem.set_owner(directory, group=wanted.group)
        except (OSError, ValueError):  # this user is not in it, or it has no name here
            is_for_group = False
    if not is_for_group:
        permission = permission & ~stat.S_IRWXG | (permission & stat.S_IRWXO) << 3
    if made.permission != permission and not _has_acl(filesystem, directory):
        filesystem.set_permission(directory, permission)


def _has_acl(filesystem: FileSystem, path: str) -> bool:
    store, place = filesystem._leads_to(filesystem._resolve(path))
    return store._has_acl(place)
