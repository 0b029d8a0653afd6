"""Where files are between the task that writes them and the commit that shows them.

:class:`RenamedStaging` for stores with an atomic rename: a directory for each attempt of a task,
in a directory of the job. It is made without its parents, and files in it without it: what is
removed stays removed, however late a writer comes. :class:`PendingStaging` for object stores: the
bytes are at their place in uploads that are not completed.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
import stat
import time
import uuid
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from ... import capabilities, paths
from ...errors import attach
from ...options import Rename
from ...workers import Workers
from .access import share
from .records import check_below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...filesystem import FileSystem
    from ...output import FSDataOutputStream
    from .records import Job, StagedFile

__all__ = [
    "FINAL",
    "Attempt",
    "PendingStaging",
    "RenamedStaging",
    "Staging",
    "acts_late",
    "for_all",
]

_TRIES = 10
_PAUSE_S = 0.05
_THREADS = 16
# How long an upload is there for certain: rules of stores end them after a day or more.
_SURE_S = 6 * 3600.0
# What does not go away by asking again, and was not done.
FINAL = (PermissionError, FileExistsError, NotADirectoryError, IsADirectoryError)

T = TypeVar("T")
R = TypeVar("R")


def acts_late(filesystem: FileSystem, path: str) -> bool:
    """Whether it is a store of objects, which may do later what has failed: none orders requests.

    These are the stores that have etags, with uploads or without.
    """
    return filesystem.has_path_capability(path, capabilities.ETAGS_AVAILABLE)


class Staging(ABC):
    """The staged files of one destination. Thread-safe.

    Parameters
    ----------
    filesystem : FileSystem
        Where the destination is.
    destination, directory : str
        Absolute paths in it: of what is written, and of what is staged.
    """

    def __init__(self, filesystem: FileSystem, destination: str, directory: str) -> None:
        self._fs = filesystem
        self._destination = destination
        self._directory = directory

    @staticmethod
    def of(filesystem: FileSystem, destination: str, directory: str) -> Staging:
        """Return the kind that suits a store."""
        if filesystem.has_path_capability(destination, capabilities.DELAYED_COMPLETION):
            return PendingStaging(filesystem, destination, directory)
        return RenamedStaging(filesystem, destination, directory)

    @abstractmethod
    def prepare(self, job: Job) -> None:
        """Make room for the files of a job, once, before its tasks begin."""

    @abstractmethod
    def attempt(self, job: Job, name: str) -> Attempt:
        """Make room for one attempt of a task; `name` is never used again.

        Raises
        ------
        FileNotFoundError
            The job has ended: its room is gone.
        """

    @abstractmethod
    def missing(self, job: Job, files: tuple[StagedFile, ...]) -> tuple[str, ...]:
        """Return the paths of files that are not staged, or not whole."""

    @abstractmethod
    def make_directories(self, files: tuple[StagedFile, ...]) -> None:
        """Make the directories that files are to be in: all of them or none.

        Raises
        ------
        OSError
            One cannot be: its name is too long, or a file's. Nothing of the job is published.
        """

    def _directories(self, files: tuple[StagedFile, ...]) -> list[str]:
        """Return the directories of files in the destination, each after that which it is in."""
        names = [file.directory.split("/") for file in files if file.directory]
        found = {"/".join(above[: end + 1]) for above in names for end in range(len(above))}
        return [paths.child(self._destination, directory) for directory in sorted(found)]

    @abstractmethod
    def check_removal(self, files: Sequence[str]) -> None:
        """Refuse files of the destination that cannot be removed.

        Raises
        ------
        OSError
            The message names one, or its directory.
        """

    @abstractmethod
    def publish(self, job: Job, file: StagedFile) -> bool:
        """Show a file at its place, or see it there; False if it is lost."""

    @abstractmethod
    def discard(self, job: Job, files: tuple[StagedFile, ...]) -> None:
        """Drop what a job has staged; `files` are those that are known."""

    @abstractmethod
    def has_idle(self, older_than: float) -> bool:
        """Whether a sweep has something to do, as far as one request tells."""

    @abstractmethod
    def sweep(self, older_than: float, kept: set[str]) -> int:
        """Drop what jobs have staged that are gone; return how much.

        Parameters
        ----------
        older_than : float
            In seconds: nothing of the job has changed since.
        kept : set of str
            Ids of jobs to leave alone.
        """


class Attempt(ABC):
    """What one attempt of a task writes: owned by one thread."""

    @abstractmethod
    def create(self, path: str) -> FSDataOutputStream:
        """Open a file that is to be at `path`, relative to the destination."""

    @abstractmethod
    def close(self, stream: FSDataOutputStream) -> str:
        """Close a stream that :meth:`create` returned; return the handle of its file."""

    @abstractmethod
    def drop(self, handles: list[str]) -> None:
        """Drop the files that were closed."""


class RenamedStaging(Staging):
    """Files wait in ``DIRECTORY/<job>/<attempt>/`` and are renamed."""

    def prepare(self, job: Job) -> None:
        """Make the job's directory; on disk the destination, which it makes with it."""
        made, missing = [], self._destination
        while missing != "/" and not self._fs.exists(missing):
            made.append(missing)
            missing = paths.parent(missing)
        is_first = bool(made) or not self._fs.exists(self._directory)
        self._fs.mkdirs(self._of(job))
        for directory in made:
            self._fs._sync_entry(directory)
        if is_first:
            above = paths.parent(self._directory)
            share(self._fs, [above, self._directory], self._destination)

    def attempt(self, job: Job, name: str) -> Attempt:
        """Make the attempt's directory."""
        self._fs.mkdirs(paths.child(self._of(job), name), create_parent=False)
        return _RenamedAttempt(self._fs, self._of(job), name)

    def missing(self, job: Job, files: tuple[StagedFile, ...]) -> tuple[str, ...]:
        """List the job's directory."""
        if not files:
            return ()
        root = self._of(job)
        try:
            found = {
                self._fs._store_path(status)[len(root) + 1 :]: status.length
                for status in self._fs.list_files(root, recursive=True)
            }
        except FileNotFoundError:
            found = {}
        return tuple(file.path for file in files if found.get(file.handle) != file.length)

    def make_directories(self, files: tuple[StagedFile, ...]) -> None:
        """Make them; remove the new ones again if one cannot be."""
        made = []
        try:
            for directory in self._directories(files):
                if not self._fs.exists(directory):
                    made.append(directory)
                self._fs.mkdirs(directory)
            for_all(self._check_directory, sorted({file.directory for file in files}))
        except OSError:
            for directory in reversed(made):
                with contextlib.suppress(OSError):  # another job has put something in it
                    self._fs.delete(directory)
            raise

    def check_removal(self, files: Sequence[str]) -> None:
        """Try it where another user's rights decide."""
        above = sorted({path.rpartition("/")[0] for path in files})
        found = zip(above, for_all(self._check_directory, above), strict=True)
        sticky = {directory for directory, is_sticky in found if is_sticky}
        for_all(self._check_owner, [one for one in files if one.rpartition("/")[0] in sticky])

    def _check_directory(self, directory: str) -> bool:
        """Refuse one that takes no file; return whether only its owner can remove one from it."""
        path = paths.child(self._destination, directory) if directory else self._destination
        trial = paths.child(path, f".hflush-{uuid.uuid4().hex}")
        try:
            status = self._fs.get_file_status(path)
            is_others = status.owner != self._fs._acts_as()
            if is_others or not status.permission & 0o200:
                self._fs.mkdirs(trial, create_parent=False)
                self._fs.delete(trial)
        except FileNotFoundError:  # of removed files: these are gone, too
            return False
        except OSError as refusal:
            reason = f"commit: no file can be made or removed here: {refusal.strerror or refusal}"
            raise OSError(refusal.errno, reason, self._fs.make_qualified(path)) from None
        return is_others and bool(status.permission & stat.S_ISVTX)

    def _check_owner(self, file: str) -> None:
        """Refuse another user's file: who can change its permission can remove it."""
        path = paths.child(self._destination, file)
        try:
            status = self._fs.get_file_link_status(path)
            if status.is_file and status.owner != self._fs._acts_as():
                self._fs.set_permission(path, status.permission)
        except FileNotFoundError:
            pass
        except OSError as refusal:
            reason = (
                "commit: only its owner can remove this file, as the directory is sticky: "
                f"{refusal.strerror or refusal}"
            )
            raise OSError(refusal.errno, reason, self._fs.make_qualified(path)) from None

    def publish(self, job: Job, file: StagedFile) -> bool:
        """Rename it, which never replaces a file; copy it to a partition on another volume."""
        check_below(file.handle)
        source = f"{self._of(job)}/{file.handle}"
        for directory in (self._of(job), paths.parent(source)):
            if self._fs._is_link(directory):
                raise ValueError(f"publish: {directory} is a link, which no job has made")
        target = f"{self._destination}/{file.path}".replace("//", "/")
        for _ in range(_TRIES):
            try:
                self._move(source, target)
                return True
            except (FileNotFoundError, FileExistsError):  # noqa: PERF203
                if self._fs.is_file(target):
                    return True
                if not self._fs.exists(source):
                    return False
                self._fs.mkdirs(paths.parent(target))
        raise FileNotFoundError(
            errno.ENOENT, f"publish: cannot make the directory for {source}", target
        )

    def _move(self, source: str, target: str) -> None:
        try:
            self._fs.rename(source, target, Rename.NONE)
        except OSError as refusal:
            if refusal.errno != errno.EXDEV:
                raise
            with (  # on disk, and whole, when it is there
                self._fs.open(source) as staged,
                self._fs.create(target, overwrite=False, atomic=True) as copy,
            ):
                shutil.copyfileobj(staged, copy)
                # Gone once others have ended the commit: an overwrite may have removed this file.
                self._fs.get_file_status(source)

    def discard(self, job: Job, files: tuple[StagedFile, ...]) -> None:  # noqa: ARG002
        """Remove the job's directory with everything in it."""
        remove_tree(self._fs, self._of(job))

    def has_idle(self, older_than: float) -> bool:
        """List the directories of jobs; look into those that are old themselves."""
        return next(self._idle(older_than), None) is not None

    def sweep(self, older_than: float, kept: set[str]) -> int:
        """Remove directories of jobs."""
        swept = 0
        for path in self._idle(older_than):
            if paths.basename(path) not in kept:
                remove_tree(self._fs, path)
                swept += 1
        return swept

    def _idle(self, older_than: float) -> Iterator[str]:
        """Return the directories of jobs in which nothing has changed for so many seconds."""
        try:
            jobs = self._fs.list_status(self._directory)
        except FileNotFoundError:
            return
        before = time.time() - older_than
        for status in jobs:
            path = self._fs._store_path(status)
            modified = status.modification_time_ns
            if not status.is_directory or modified / 1e9 > before:
                continue
            changed = self._last_change(path, modified)
            # A time that is not known is not old: directories on S3, behind a view, have none.
            if changed <= before and (changed or not older_than):
                yield path

    def _last_change(self, path: str, modified_ns: int) -> float:
        """Return when a job has done something: seconds since the epoch; 0: not known."""
        newest = modified_ns
        try:
            for attempt in self._fs.list_status(path):
                newest = max(newest, attempt.modification_time_ns)
                for file in self._fs.list_status(self._fs._store_path(attempt)):
                    newest = max(newest, file.modification_time_ns)
        except FileNotFoundError:  # it is being removed
            pass
        return newest / 1e9

    def _of(self, job: Job) -> str:
        return paths.child(self._directory, job.id)


class _RenamedAttempt(Attempt):
    def __init__(self, filesystem: FileSystem, job: str, name: str) -> None:
        self._fs = filesystem
        self._job = job
        self._name = name

    def create(self, path: str) -> FSDataOutputStream:
        staged = f"{self._job}/{self._name}/{paths.basename('/' + path)}"
        return self._fs.create(staged, overwrite=False, recursive=False)

    def close(self, stream: FSDataOutputStream) -> str:
        stream.close()
        return f"{self._name}/{paths.basename('/' + stream.name)}"

    def drop(self, handles: list[str]) -> None:  # noqa: ARG002
        remove_tree(self._fs, f"{self._job}/{self._name}")


class PendingStaging(Staging):
    """Files wait as uploads to their places, which the commit completes."""

    def prepare(self, job: Job) -> None:
        """Do nothing: there are no directories."""

    def attempt(self, job: Job, name: str) -> Attempt:  # noqa: ARG002
        """Return where uploads are begun."""
        return _PendingAttempt(self._fs, self._destination)

    def missing(self, job: Job, files: tuple[StagedFile, ...]) -> tuple[str, ...]:  # noqa: ARG002
        """Ask for old uploads, which a rule of the bucket may have ended; trust the others."""
        old = [file for file in files if self._fs._delayed_age(file.handle) > _SURE_S]
        there = for_all(lambda file: self._fs._has_delayed(file.handle), old)
        return tuple(file.path for file, is_there in zip(old, there, strict=True) if not is_there)

    def make_directories(self, files: tuple[StagedFile, ...]) -> None:
        """See that no object has the name of one: names were accepted with the uploads."""
        directories = self._directories(files)
        for directory, is_file in zip(
            directories, for_all(self._fs.is_file, directories), strict=True
        ):
            if is_file:
                raise FileExistsError(
                    errno.EEXIST, "commit: a file is where a directory has to be", directory
                )

    def check_removal(self, files: Sequence[str]) -> None:
        """Remove a name that is not there, beside the first of them: it takes the same right."""
        for file in files[:1]:
            above = paths.parent(paths.child(self._destination, file))
            trial = paths.child(above, f".hflush-{uuid.uuid4().hex}")
            try:
                for _, refused in self._fs._remove_files([trial]):
                    raise refused
            except OSError as refusal:
                reason = f"commit: no file can be removed here: {refusal.strerror or refusal}"
                raise OSError(refusal.errno, reason, self._fs.make_qualified(above)) from None

    def publish(self, job: Job, file: StagedFile) -> bool:  # noqa: ARG002
        """Complete the upload: one request, unless another process has just begun the same.

        While a store is at that one, it may refuse ours for a reason of its own (MinIO has no
        parts then); completing it again tells how it ended. If the parts stay away, the store has
        lost them: MinIO does, if its client dies while it completes an upload.
        """
        for remaining in range(_TRIES, 0, -1):
            try:
                self._fs._publish_delayed(file.handle, paths.child(self._destination, file.path))
                return True
            except FileNotFoundError:  # noqa: PERF203
                return False
            except OSError as refused:
                if remaining == 1 and getattr(refused, "remote_class", "") == "InvalidPart":
                    return False
                if remaining == 1 or isinstance(refused, FINAL):
                    raise
                time.sleep(_PAUSE_S * (_TRIES + 1 - remaining))
        raise AssertionError("unreachable")

    def discard(self, job: Job, files: tuple[StagedFile, ...]) -> None:  # noqa: ARG002
        """Abort the uploads; what was published stays."""
        for_all(self._fs._drop_delayed, [file.handle for file in files])

    def has_idle(self, older_than: float) -> bool:  # noqa: ARG002
        """Return False: that takes a list of the bucket's uploads, others' too, page by page."""
        return False

    def sweep(self, older_than: float, kept: set[str]) -> int:  # noqa: ARG002
        """Abort all uploads below the destination that are old enough."""
        return self._fs.abort_multipart_uploads(self._destination, older_than)


class _PendingAttempt(Attempt):
    def __init__(self, filesystem: FileSystem, destination: str) -> None:
        self._fs = filesystem
        self._destination = destination

    def create(self, path: str) -> FSDataOutputStream:
        place = f"{self._destination}/{path}".replace("//", "/")
        return self._fs._create_delayed(place)

    def close(self, stream: FSDataOutputStream) -> str:
        stream.close()
        return self._fs._delayed_handle(stream)

    def drop(self, handles: list[str]) -> None:
        for_all(self._fs._drop_delayed, handles)


def remove_tree(filesystem: FileSystem, path: str) -> None:
    """Remove a directory into which a late writer may still put files."""
    for _ in range(_TRIES):
        try:
            filesystem.delete(path, recursive=True)
            return
        except OSError as failure:  # noqa: PERF203
            if failure.errno != errno.ENOTEMPTY:
                raise
    filesystem.delete(path, recursive=True)


def for_all(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Call a function for every item, several at a time; raise the first failure after all."""
    if len(items) < 2:
        return [function(item) for item in items]
    with Workers(min(_THREADS, len(items)), "hflush-commit") as pool:
        futures = [pool.submit(function, item) for item in items]
    failures = [failure for future in futures if (failure := future.exception()) is not None]
    if failures:
        for other in failures[1:4]:
            attach(failures[0], other)
        raise failures[0]
    return [future.result() for future in futures]
