"""Access to the directories that hflush keeps in a destination."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ... import capabilities

if TYPE_CHECKING:
    from ...filesystem import FileSystem

__all__ = ["share"]


def share(filesystem: FileSystem, directories: list[str], destination: str) -> None:
    """Give new directories the group and the permission of the destination.

    Users who may write there write in them, too. Where that cannot be they stay as they are: only
    their owner changes them, and only to a group that is one of the owner's.
    """
    if not filesystem.has_path_capability(destination, capabilities.PERMISSIONS):
        return
    with contextlib.suppress(OSError):
        wanted = filesystem.get_file_status(destination)
        for directory in directories:
            made = filesystem.get_file_status(directory)
            if made.group != wanted.group:
                filesystem.set_owner(directory, group=wanted.group)
            if made.permission != wanted.permission:
                filesystem.set_permission(directory, wanted.permission)
