"""Looking at paths: at one, into a directory, below it."""

from __future__ import annotations

from . import options, paths
from .errors import means_nothing_there
from .namespace import NameSpace
from .status import ContentSummary, FileStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from .paths import StrPath
    from .status import BlockLocation

    PathFilter: TypeAlias = "Callable[[str], bool]"

__all__ = ["Listing"]


class Listing(NameSpace):
    """The operations of a file system that change nothing and open nothing."""

    def get_file_status(self, path: StrPath) -> FileStatus:
        """Return what the store knows about a path; symbolic links are followed.

        Raises
        ------
        FileNotFoundError
            Nothing is there.
        """
        return self._status(self._resolve(path))

    def exists(self, path: StrPath) -> bool:
        """Whether the path exists: also as a link that leads nowhere, which has a status, too."""
        return self._status_or_none(path) is not None

    def is_file(self, path: StrPath) -> bool:
        """Whether the path is a regular file."""
        status = self._status_or_none(path)
        return status is not None and status.is_file

    def is_directory(self, path: StrPath) -> bool:
        """Whether the path is a directory."""
        status = self._status_or_none(path)
        return status is not None and status.is_directory

    def _status_or_none(self, path: StrPath) -> FileStatus | None:
        try:
            return self._status(self._resolve(path))
        except OSError as failure:
            if means_nothing_there(failure):
                return None
            raise

    def list_status(self, path: StrPath, filter: PathFilter | None = None) -> list[FileStatus]:
        """Return the direct children of a directory, or the file itself; in no order.

        Parameters
        ----------
        path : str or os.PathLike
            A directory or a file.
        filter : callable, optional
            Takes a path, as in ``FileStatus.path``, and says whether to include it.

        Raises
        ------
        FileNotFoundError, PermissionError
            Nothing is there; it may not be read.
        """
        found = self._list(self._resolve(path))
        return [status for status in found if filter is None or filter(status.path)]

    def list_status_iterator(
        self, path: StrPath, filter: PathFilter | None = None
    ) -> Iterator[FileStatus]:
        """Return the same as :meth:`list_status` as an iterator; a missing path fails here.

        Stores with pages fetch one when it is needed, and do not promise a snapshot.
        """
        found = self._iterate(self._resolve(path))
        return (status for status in found if filter is None or filter(status.path))

    def list_located_status(
        self, path: StrPath, filter: PathFilter | None = None
    ) -> Iterator[FileStatus]:
        """Return the same as :meth:`list_status_iterator`, with ``FileStatus.block_locations``."""
        found = self._iterate_located(self._resolve(path))
        return (status for status in found if filter is None or filter(status.path))

    def list_files(self, path: StrPath, recursive: bool = False) -> Iterator[FileStatus]:
        """Return the files in a directory, or the file itself, as an iterator.

        Parameters
        ----------
        path : str or os.PathLike
            A directory or a file; a missing one fails here.
        recursive : bool
            Include the files of all directories below. A symbolic link to a directory that leads
            back to an ancestor is not followed.
        """
        options.flag("recursive", recursive)
        return self._list_files(self._resolve(path), recursive)

    def _list_files(self, path: str, recursive: bool) -> Iterator[FileStatus]:
        status = self._status(path)
        if not status.is_directory:
            return iter((status,))
        return self._walk_files(self._iterate(path), recursive, self._loop_id(status))

    def _walk_files(
        self, entries: Iterator[FileStatus], recursive: bool, top: object
    ) -> Iterator[FileStatus]:
        levels = [entries]  # what is left of each directory on the way down
        ancestors = [top]
        while levels:
            found = next(levels[-1], None)
            if found is None:
                levels.pop()
                ancestors.pop()
                continue
            entry = self._met(found) if recursive else found
            if not entry.is_directory:
                yield entry
            elif recursive:
                loop_id = self._loop_id(entry)
                if loop_id is None or loop_id not in ancestors:
                    levels.append(self._iterate(self._store_path(entry)))
                    ancestors.append(loop_id)

    def _met(self, entry: FileStatus) -> FileStatus:
        """Return an entry of a tree that is walked; fail if it cannot be seen what is below."""
        return entry

    def glob_status(self, pattern: StrPath, filter: PathFilter | None = None) -> list[FileStatus]:
        r"""Return what matches a pattern, sorted by path; an empty list if nothing does.

        Parameters
        ----------
        pattern : str or os.PathLike
            ``?`` and ``*`` within one element, ``[a-c]``, ``[^a]``, ``{one,two}`` also across
            elements, and of whole paths, ``\`` before a literal character.
        filter : callable, optional
            As for :meth:`list_status`, applied to whole matches.

        Raises
        ------
        PermissionError
            A directory on the way may not be read.
        InvalidPathError
            A bracket or brace is never closed.
        """
        from .globbing import expand_braces, glob

        text = paths.as_text(pattern)
        here = text and "."  # what an alternative that is empty stands for
        absolute = [self._resolve(one or here) for one in expand_braces(text)]
        found = glob(absolute, self._status, self._list_below, self._met)
        return [status for status in found if filter is None or filter(status.path)]

    def _list_below(self, path: str) -> list[FileStatus]:
        """Return the children of a path: a file lists itself, and has none, or some on S3."""
        own = self._public_name(path)
        return [status for status in self._list(path) if status.path != own]

    def get_content_summary(self, path: StrPath) -> ContentSummary:
        """Count files, directories and bytes at and below a path; on HDFS with its quotas.

        Raises
        ------
        FileNotFoundError
            Nothing is there.
        """
        return self._content_summary(self._resolve(path))

    def _content_summary(self, path: str) -> ContentSummary:
        status = self._status(path)
        length, files, directories, consumed = 0, 0, 0, 0
        pending: list[tuple[FileStatus, tuple[object, ...]]] = [(status, ())]
        while pending:
            found, ancestors = pending.pop()
            entry = self._met(found)
            if not entry.is_directory:
                files += 1
                length += entry.length
                consumed += entry.length * entry.replication
                continue
            directories += 1
            loop_id = self._loop_id(entry)
            if loop_id is None or loop_id not in ancestors:
                below = (*ancestors, loop_id)
                pending += [(child, below) for child in self._list(self._store_path(entry))]
        return ContentSummary(length, files, directories, consumed)

    def get_file_block_locations(
        self, path: StrPath | FileStatus, start: int = 0, length: int | None = None
    ) -> list[BlockLocation]:
        """Return where a byte range of a file is stored: nowhere for directories and past the end.

        Parameters
        ----------
        path : str, os.PathLike or FileStatus
            The file.
        start, length : int
            Bytes; to the end if `length` is left out.

        Raises
        ------
        ValueError
            `start` or `length` is negative; the status is of another file system.
        """
        if start < 0 or (length is not None and length < 0):
            raise ValueError(f"start={start}, length={length} must not be negative")
        if isinstance(path, FileStatus):
            status = path
            self._store_path(status)  # is it of this file system?
        else:
            status = self.get_file_status(path)
        if not status.is_file or start >= status.length or length == 0:
            return []
        end = status.length if length is None else min(start + length, status.length)
        return self._block_locations(status, start, end)

    def _iterate_located(self, path: str) -> Iterator[FileStatus]:
        """Return the children with locations."""
        return map(self._located, self._iterate(path))

    def _located(self, status: FileStatus) -> FileStatus:
        status.block_locations = tuple(self.get_file_block_locations(status))
        return status
