"""What a file system says of keys: an owner, a mode and a block size, which no object has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..status import FileStatus

if TYPE_CHECKING:
    from .documents import ObjectEntry

__all__ = ["Statuses"]

_FILE_MODE = 0o666
_DIRECTORY_MODE = 0o777
_NS_PER_S = 1_000_000_000


class Statuses:
    """Makes those of one answer of the store. What all have in common is looked up once.

    Parameters
    ----------
    root : str
        The public name of the bucket's root.
    user : str
        Whose the objects are said to be.
    block_size : int
        Bytes.
    """

    def __init__(self, root: str, user: str, block_size: int) -> None:
        self._root = root
        self._user = user
        self._block_size = block_size

    def file(self, path: str, entry: ObjectEntry) -> FileStatus:
        """Return the status of an object."""
        return FileStatus(
            self._root + path[1:],
            kind="file",
            length=entry.size,
            block_size=self._block_size,
            modification_time_ns=entry.modified * _NS_PER_S,
            owner=self._user,
            group=self._user,
            permission=_FILE_MODE,
            etag=entry.etag or None,
            is_encrypted=True,  # Hadoop's way to say that the mode bits mean nothing
        )

    def directory(self, path: str) -> FileStatus:
        """Return the status of what has keys below it."""
        return FileStatus(
            self._root + path[1:],
            kind="directory",
            length=0,
            replication=0,
            owner=self._user,
            group=self._user,
            permission=_DIRECTORY_MODE,
            is_encrypted=True,
        )
