"""Moving and copying objects: the store copies, nothing passes through here."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from .. import paths
from ..errors import (
    ParentNotDirectoryError,
    PathIsDirectoryError,
    invalid_path,
)
from ..workers import Workers
from .names import S3Names, holder, prefix_of, results_of
from .object_copy import ObjectCopy

if TYPE_CHECKING:
    from .documents import ObjectEntry


__all__ = ["S3Copies"]


def _version(seen: ObjectEntry) -> tuple[object, ...]:
    """Return what tells one content of an object from another."""
    return (seen.size, seen.etag) if seen.etag else (seen.size, seen.modified)


class S3Copies(S3Names):
    """rename and copy, and the operations that objects have not."""

    def _rename(self, source: str, destination: str, replaces: bool = False) -> bool:
        if source == "/":
            return False
        found = self._object(source)
        if source == destination:
            return found is not None
        if found is None and paths.is_under(destination, source):
            return False
        self._refuse_below_itself(source, destination, found)
        there = self._status_at(destination)
        target = destination
        if there is not None and there.is_directory:
            is_free = found is None and destination != "/" and self._is_empty(destination)
            if not is_free:
                target = paths.child(destination, paths.basename(source))
                if target == source:
                    return found is not None
                self._refuse_below_itself(source, target, found)
                there = self._status_at(target)
        if there is None:
            self._check_parents(target, False, "rename")
        elif there.is_file and not (replaces and found is not None):
            raise FileExistsError(errno.EEXIST, "rename: destination exists", self._named(target))
        elif there.is_directory and (found is not None or not self._is_empty(target)):
            raise OSError(
                errno.ENOTEMPTY, "rename: destination is a directory", self._named(target)
            )
        self._move(source, found, target)
        return True

    def _rename_exact(self, source: str, destination: str, overwrite: bool) -> None:
        if "/" in (source, destination):
            raise OSError(errno.EINVAL, "rename: the root directory stays", self._named("/"))
        found = self._object(source)
        if source == destination:
            raise FileExistsError(
                errno.EEXIST, "rename: source and destination are one", self._named(source)
            )
        self._refuse_below_itself(source, destination, found)
        there = self._status_at(destination)
        if there is None:
            self._check_parents(destination, True, "rename")
        elif not overwrite:
            raise FileExistsError(
                errno.EEXIST, "rename: destination exists", self._named(destination)
            )
        elif there.is_directory and found is not None:
            message = "rename: destination is a directory, source is not"
            raise PathIsDirectoryError(errno.EISDIR, message, self._named(destination))
        elif there.is_file and found is None:
            message = "rename: source is a directory, destination is not"
            raise NotADirectoryError(errno.ENOTDIR, message, self._named(destination))
        elif there.is_directory and not self._is_empty(destination):
            message = "rename: destination is a directory that is not empty"
            raise OSError(errno.ENOTEMPTY, message, self._named(destination))
        self._move(source, found, destination)

    def _refuse_below_itself(
        self, source: str, destination: str, found: ObjectEntry | None
    ) -> None:
        if source != destination and paths.is_under(destination, source):
            if found is not None:
                message = f"rename: {source} is a file"
                raise ParentNotDirectoryError(errno.ENOTDIR, message, self._named(destination))
            raise OSError(
                errno.EINVAL, "rename: destination is below the source", self._named(destination)
            )

    def _move(self, source: str, found: ObjectEntry | None, target: str) -> None:
        """Copy an object or a tree, then delete what was copied and is as it was.

        Whatever fails, nothing is lost.

        Raises
        ------
        OSError
            All was copied, but some of the source stays (``ENOTEMPTY``): new or changed meanwhile.
        """
        self._no_files.forget(source)
        self._no_files.forget(target)
        self._bucket.try_encryption(target[1:], target)
        done = f"rename: copied to {self._named(target)}"
        if found is not None:
            self._copy_file(source, found, target)
            now = self._bucket.entry(source[1:], source)
            if now is not None:
                if _version(now) != _version(found):
                    message = f"{done}: written anew meanwhile, and stays"
                    raise OSError(errno.ENOTEMPTY, message, self._named(source))
                self._bucket.delete(source[1:], source)
        else:
            copied = self._copy_tree(source, target)
            self._purge_uploads(source)
            for page in self._bucket.list_pages(prefix_of(source), source):
                same = [e.key for e in page.objects if copied.get(e.key) == _version(e)]
                self._delete_keys(same, source)
            self._expect_nothing_in(source, done)
        self._keep_directory(holder(source))

    def _copy_file(self, source: str, found: ObjectEntry, target: str) -> None:
        ObjectCopy(self._bucket, found, target[1:], source).make()

    def _copy_tree(self, source: str, target: str) -> dict[str, tuple[object, ...]]:
        """Copy what is below a directory, several objects at once; return keys and versions."""
        copied: dict[str, tuple[object, ...]] = {}
        old, new = prefix_of(source), prefix_of(target)

        def copy(entry: ObjectEntry) -> None:
            name = new + entry.key[len(old) :]
            if not name and entry.size:
                raise invalid_path(self._named(target), f"no key for the content of {entry.key}")
            if not name:  # the root needs no marker
                return
            if name.endswith("/") and not entry.size:
                self._put_marker("/" + name[:-1])  # stores refuse to copy onto such a key
                return
            ObjectCopy(self._bucket, entry, name, source).make()

        threads = self._settings_of_bucket.copy_threads
        with Workers(threads, thread_name_prefix="hflush-s3") as executor:
            for page in self._bucket.list_pages(old, source):
                results_of([executor.submit(copy, entry) for entry in page.objects])
                copied.update((entry.key, _version(entry)) for entry in page.objects)
        return copied

    def _copy(self, source: str, target: str, overwrite: bool) -> None:
        found = self._object(source)
        if paths.is_under(target, source):
            raise OSError(
                errno.EINVAL, f"copy of {source} onto or into itself", self._named(target)
            )
        there = self._status_at(target)
        if there is None:
            self._check_parents(target, False, "copy")
        elif there.is_directory and found is not None:
            raise PathIsDirectoryError(
                errno.EISDIR, "copy: destination is a directory", self._named(target)
            )
        elif not overwrite or there.is_file is (found is None):
            raise FileExistsError(errno.EEXIST, "copy: destination exists", self._named(target))
        self._no_files.forget(target)
        self._bucket.try_encryption(target[1:], target)
        if found is not None:
            self._copy_file(source, found, target)
            self._published(target)
        else:
            self._copy_tree(source, target)

    def _set_permission(self, path: str, permission: int) -> None:  # noqa: ARG002
        """Do nothing but look: objects have no mode bits."""
        self._status(path)

    def _set_owner(self, path: str, owner: str | None, group: str | None) -> None:  # noqa: ARG002
        """Do nothing but look: objects belong to the bucket's owner."""
        self._status(path)

    def _set_times(self, path: str, modification_time: int, access_time: int) -> None:
        """Refuse: the time of an object is that of its publication."""
        self._status(path)
        super()._set_times(path, modification_time, access_time)
