"""Files that appear whole or not at all, and a log of batches made of them.

A :class:`CheckpointFileManager` writes a file under a temporary name in the same directory, hidden
and unique (``.NAME.<uuid>[.TID<task>].tmp``), and renames it when the stream is closed. A
:class:`MetadataLog` stores one such file for each batch and lets exactly one writer win each.

Both renames are atomic on local files and HDFS; :class:`FileContextBased` is preferred for its
errors and because it never overwrites what it was told to keep. On object stores neither is atomic:
there :class:`AbortableStreamBased` writes in place, for closing a stream publishes it whole.

Configuration
-------------
spark.sql.streaming.checkpointFileManagerClass
    The manager: ``module:Class``, ``module.Class``, or the name of one of Spark's two.
hflush.checkpoint.sync
    ``true`` unless set: the data is on disk before the rename, and the rename before close returns.
hflush.checkpoint.verify-rename
    ``false`` unless set: look whether the file is really there after the rename.
hflush.checkpoint.keep-existing
    ``false`` unless set. For batches that are run again and come out the same: a file that exists
    and may not be overwritten is kept, the new one is dropped, and close succeeds.

Notes
-----
Source: Spark's CheckpointFileManager and HDFSMetadataLog; contract CKPT-1 to CKPT-25. Unlike
Spark's, a failed close leaves no temporary file behind.
"""

from __future__ import annotations

import errno
import io
import logging
import sys
import threading
import uuid
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from . import capabilities, paths
from ._core import take_pending
from .atomic import Publication
from .configuration import Configuration
from .errors import (
    ConcurrentWriterError,
    NotDurableError,
    PathIsDirectoryError,
    StreamClosedError,
    UnsupportedFileSystemError,
    attach,
)
from .filesystem import FileSystem
from .general_keys import KEYS
from .keys import Reader
from .options import CHECKSUM_TYPE, CONDITIONAL_OVERWRITE, SYNC_ON_CLOSE, Rename, flag
from .write_only import AbortResult, WriteOnly, end, report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import Buffer

    from .listing import PathFilter
    from .namespace import Conf
    from .paths import StrPath
    from .statistics import IOStatistics
    from .status import FileStatus
    from .streams import FSDataInputStream, FSDataOutputStream
    from .write_only import Owner

__all__ = [
    "AbortableStreamBased",
    "CancellableFSDataOutputStream",
    "CheckpointFileManager",
    "FileContextBased",
    "FileSystemBased",
    "MetadataLog",
    "NotDurableError",
]

MANAGER_CLASS = "spark.sql.streaming.checkpointFileManagerClass"
SYNC = "hflush.checkpoint.sync"
VERIFY_RENAME = "hflush.checkpoint.verify-rename"
KEEP_EXISTING = "hflush.checkpoint.keep-existing"
# A contract option: false says that a store has only FileSystem's rename, not FileContext's.
EXACT_RENAME = "supports-exact-rename"

T = TypeVar("T")

_log = logging.getLogger(__name__)


class CancellableFSDataOutputStream(WriteOnly):
    """An output stream that publishes its file on :meth:`close` and drops it on :meth:`cancel`.

    Made by :meth:`CheckpointFileManager.create_atomic`; thread-safe. Registered with
    :class:`io.BufferedIOBase`. Leaving a ``with`` block by an exception cancels, as does a
    :meth:`close` that an exception brings about. One that is garbage-collected, or whose wrapper
    is, is neither: nothing is published, which a :class:`hflush.NotPublishedWarning` says, and its
    temporary file stays.
    """

    def __init__(self, stream: FSDataOutputStream, publication: _Publication | _InPlace) -> None:
        self._stream = stream
        self._publication = publication
        self._older = stream._older
        if isinstance(publication, _Publication):
            stream._name = publication.path  # as it is called wherever it is spoken of
        self._lock = threading.Lock()
        self._terminated = False

    # --- ending ---

    def close(self) -> None:
        """Publish: the one attempt. After it, or after :meth:`cancel`, a no-op.

        A call that is made because of an exception cancels, and raises that exception again: see
        :meth:`hflush.FSDataOutputStream.close`.

        Raises
        ------
        FileExistsError
            The path is taken and was not to be overwritten; what is there is intact.
        NotDurableError
            The file is published, but the directory could not be synced.
        OSError
            Anything else that failed. Nothing was published, the temporary file is removed.
        """
        pending = take_pending()  # before anything else: whatever looks would find it
        end(self, pending, self._older, self._publish, self._abandon)

    def _publish(self) -> None:
        """Close, whatever is being handled."""
        with self._lock:
            if self._terminated:
                return
            self._terminated = True
            try:
                self._publication.prepare()
                self._stream._publish()
                self._publication.publish()
            except BaseException as failure:
                self._discard(failure)
                if not self._publication.accepts(failure):
                    raise

    def cancel(self) -> None:
        """Drop what was written; what is at the path stays as it is. Never raises OSError.

        A temporary file that cannot be removed is logged. After :meth:`close`, failed or not, a
        no-op.
        """
        self.abort()

    def abort(self) -> AbortResult:
        """Do the same as :meth:`cancel`, and return what happened."""
        with self._lock:
            if self._terminated:
                return AbortResult(already_closed=True)
            self._terminated = True
            return AbortResult(already_closed=False, cleanup_exception=self._discard(None))

    def _discard(self, failure: BaseException | None) -> OSError | None:
        if isinstance(self._publication, _Publication):
            self._stream._abandon()
        try:
            self._publication.discard()
        except Exception as also:
            if failure is not None:
                attach(failure, also)
            _log.warning("a temporary file stays behind: %s", also)
            return also if isinstance(also, OSError) else None
        return None

    def _abandon(self) -> bool:
        """Publish nothing, and wait for nothing; return whether it was open."""
        was_open = not self._terminated
        self._terminated = True
        return self._stream._abandon() and was_open

    def __del__(self, _report: Callable[..., None] = report) -> None:
        if self._abandon():
            _report(self, "never closed, not published")

    @property
    def _error_path(self) -> str:
        return self._publication.filesystem._named(self.path)

    # --- what the stream below does ---

    def write(self, b: Buffer, off: int = 0, len: int | None = None) -> int:
        """Append ``b[off:off + len]``: as :class:`hflush.FSDataOutputStream` does."""
        return self._named(self._stream.write, b, off, len)

    def write_byte(self, value: int, /) -> None:
        """Append one byte: the low 8 bits of `value`."""
        self._named(self._stream.write_byte, value)

    def writelines(self, lines: Iterable[Buffer], /) -> None:
        """Write each of `lines`, as they are."""
        self._named(self._stream.writelines, lines)

    def flush(self) -> None:
        """Hand bytes to the next layer: no promise of anything."""
        self._stream.flush()

    def hflush(self) -> None:
        """Let the temporary file have every byte written so far."""
        self._named(self._stream.hflush)

    def hsync(self) -> None:
        """Put every byte written so far on disk, in the temporary file."""
        self._named(self._stream.hsync)

    def set_drop_behind(self, value: bool | None, /) -> None:
        """Pass the advice on."""
        self._named(self._stream.set_drop_behind, value)

    def _named(self, operation: Callable[..., T], *arguments: object) -> T:
        """Do what the stream below does; if it is closed, say so of the path."""
        try:
            return operation(*arguments)
        except StreamClosedError as closed:
            raise StreamClosedError(closed.errno, closed.strerror, self._error_path) from None

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._stream.tell()

    def get_pos(self) -> int:
        """Return the position in bytes: Hadoop's name for :meth:`tell`."""
        return self._stream.get_pos()

    def has_capability(self, name: str, /) -> bool:
        """Return what the stream below answers; this one can always be aborted."""
        return self._stream.has_capability(name) or (
            capabilities.canonical(name) == capabilities.ABORTABLE
        )

    def io_statistics(self) -> IOStatistics:
        """Return the statistics of the stream below."""
        return self._stream.io_statistics()

    @property
    def closed(self) -> bool:
        """Whether nothing can be written any more."""
        return self._terminated or self._stream.closed

    @property
    def path(self) -> str:
        """Where the file will appear: absolute, in the store."""
        return self._publication.path

    @property
    def name(self) -> str:
        """The same as :attr:`path`."""
        return self.path

    @property
    def mode(self) -> str:
        """``"wb"`` or ``"xb"``: whether a file there would be replaced."""
        return "wb" if self._publication.overwrite else "xb"

    @property
    def _owner(self) -> Owner:
        return self._stream._owner

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<hflush.checkpoint.{type(self).__name__} {self.path!r} {state}>"


io.BufferedIOBase.register(CancellableFSDataOutputStream)


class _Publication(Publication):
    """One temporary file of a manager on its way to a path."""

    def __init__(self, manager: RenamingManager, temporary: str, path: str, overwrite: bool):
        super().__init__(manager.filesystem, temporary, path, overwrite, durable=manager._sync)
        self._manager = manager

    def prepare(self) -> None:
        """Nothing is to be looked at: the rename does that."""

    def _rename(self) -> None:
        self._manager._publish(self.temporary, self.path, self.overwrite)

    def accepts(self, failure: BaseException) -> bool:  # noqa: ARG002
        return False


class _InPlace:
    """A stream that publishes at its path when it is closed.

    What must not be replaced, and could not be ruled out when it was opened, is looked for before.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        stream: FSDataOutputStream,
        *,
        overwrite: bool,
        looks: bool,
        keep_existing: bool,
    ) -> None:
        self.filesystem = filesystem
        self._stream = stream
        self._looks = looks
        self._keep_existing = keep_existing
        self.path = stream.path
        self.overwrite = overwrite

    def prepare(self) -> None:
        if self._looks and self.filesystem.exists(self.path):
            name = self.filesystem._named(self.path)
            raise FileExistsError(errno.EEXIST, "close: path exists", name)

    def publish(self) -> None:
        """Nothing is left to do: the stream was closed."""

    def accepts(self, failure: BaseException) -> bool:
        """Whether a file that was there before is as good as this one."""
        kept = self._keep_existing and isinstance(failure, FileExistsError)
        if kept:
            _log.info("%s exists and is kept, as %s asks", self.path, KEEP_EXISTING)
        return kept

    def discard(self) -> None:
        left = self._stream.abort().cleanup_exception
        if left is not None:
            raise left


class CheckpointFileManager(ABC):
    """Makes files in and below one directory that appear whole or not at all.

    Get one by :meth:`create`. Thread-safe.

    Parameters
    ----------
    path : str or os.PathLike
        The directory; it need not exist. Without a scheme, ``fs.defaultFS`` decides.
    conf : mapping, optional
        As for :meth:`hflush.FileSystem.get`; the keys are those of :mod:`hflush.checkpoint`.

    Attributes
    ----------
    filesystem : FileSystem
        Where the files are.
    path : str
        The directory: absolute, in the store.
    """

    def __init__(self, path: StrPath, conf: Conf = None) -> None:
        self._conf = Configuration.of(conf).copy()
        self.filesystem = FileSystem.get(path, self._conf)
        self.path = self.filesystem._resolve(path)

    @staticmethod
    def create(path: StrPath, conf: Conf = None) -> CheckpointFileManager:
        """Return the manager for `path`.

        The class that the configuration names; else, where streams publish when they are closed and
        can be aborted, :class:`AbortableStreamBased`; else :class:`FileContextBased`; else, where
        the store has no exact rename, :class:`FileSystemBased`, with a logged warning.

        Raises
        ------
        UnsupportedFileSystemError
            Nobody serves the scheme, ``fs.defaultFS`` has none, or the strategy is not supported.
        ImportError, TypeError, ValueError
            The configured class is missing, is no manager, or has no usable name.
        """
        configuration = Configuration.of(conf)
        chosen = configuration.get(MANAGER_CLASS)
        if chosen:
            return _load(chosen)(path, configuration)
        # A scheme that nobody serves is no reason to fall back.
        filesystem = FileSystem.get(path, configuration)
        if filesystem.has_path_capability(path, capabilities.ABORTABLE):
            return AbortableStreamBased(path, configuration)
        try:
            return FileContextBased(path, configuration)
        except UnsupportedFileSystemError as missing:
            _log.warning(
                "%s: falling back to FileSystem's rename. Checkpoints are correct only if it is "
                "atomic there and no other program writes them",
                missing,
            )
            return FileSystemBased(path, configuration)

    @abstractmethod
    def create_atomic(
        self, path: StrPath, overwrite_if_possible: bool
    ) -> CancellableFSDataOutputStream:
        """Open a file that appears at `path` when it is closed.

        Parameters
        ----------
        path : str or os.PathLike
            Where it will appear.
        overwrite_if_possible : bool
            False: an existing file is never replaced, and close raises FileExistsError. True: it is
            replaced; where the store cannot, it is kept, the new one is dropped and that is logged.

        Raises
        ------
        FileNotFoundError
            The directory is missing (:class:`FileContextBased`).
        OSError
            The store refuses.
        """

    def open(self, path: StrPath) -> FSDataInputStream:
        """Open a file for reading; FileNotFoundError if there is none."""
        return self.filesystem.open(path)

    def list(self, path: StrPath, filter: PathFilter | None = None) -> list[FileStatus]:
        """Return what is in a directory, hidden names too but no checksum sidecars.

        Raises
        ------
        FileNotFoundError
            There is no such directory.
        """
        found = self.filesystem.list_status(path, filter)
        return [status for status in found if not _is_sidecar(paths.basename(status.path))]

    def mkdirs(self, path: StrPath) -> None:
        """Make a directory and its missing parents; one that exists is fine."""
        self.filesystem.mkdirs(path)

    def exists(self, path: StrPath) -> bool:
        """Whether there is anything at the path."""
        return self.filesystem.exists(path)

    def delete(self, path: StrPath) -> None:
        """Remove a file or a directory with everything in it; a missing one is fine."""
        self.filesystem.delete(path, recursive=True)
        self._remove_sidecar(self.filesystem._resolve(path))

    def create_checkpoint_directory(self) -> str:
        """Make the manager's directory and return its URL."""
        self.mkdirs(self.path)
        return self.filesystem.make_qualified(self.path)

    @property
    def is_local(self) -> bool:
        """Whether the files are on this machine only."""
        return self.filesystem.scheme in ("file", "file+crc")

    def _remove_sidecar(self, path: str) -> None:
        """Remove the sums that another program left beside a raw file; they are of old content."""
        fs = self.filesystem
        if self.is_local and not fs.has_path_capability(path, capabilities.CHECKSUMS):
            fs.delete(paths.child(paths.parent(path), f".{paths.basename(path)}.crc"))


class RenamingManager(CheckpointFileManager):
    """What both strategies that rename share."""

    _creates_parents: bool

    def __init__(self, path: StrPath, conf: Conf = None) -> None:
        super().__init__(path, conf)
        keys = Reader(self._conf, KEYS)
        self._sync = keys.flag(SYNC)
        self._verify = keys.flag(VERIFY_RENAME)
        self._keep_existing = keys.flag(KEEP_EXISTING)

    def create_atomic(
        self, path: StrPath, overwrite_if_possible: bool
    ) -> CancellableFSDataOutputStream:
        """Open a file under a temporary name: see :meth:`CheckpointFileManager.create_atomic`."""
        flag("overwrite_if_possible", overwrite_if_possible)
        resolved = self.filesystem._resolve_to_change(path)
        if resolved == "/":
            raise PathIsDirectoryError(errno.EISDIR, "path is the root directory", resolved)
        temporary = _temporary(resolved)
        builder = self.filesystem.create_file(temporary).overwrite(False)
        builder.opt(SYNC_ON_CLOSE, self._sync)
        if self.is_local:  # no sidecar: it would have to be moved, too
            builder.opt(CHECKSUM_TYPE, "NULL")
        if self._creates_parents:
            builder.recursive()
        publication = _Publication(self, temporary, resolved, overwrite_if_possible)
        return CancellableFSDataOutputStream(builder.build(), publication)

    def _publish(self, temporary: str, path: str, overwrite: bool) -> None:
        if overwrite:
            self._remove_sidecar(path)
        try:
            self._rename(temporary, path, overwrite)
        except FileExistsError:
            if not self._keep_existing or not self.filesystem.is_file(path):
                raise
            _log.info("%s exists and is kept, as %s asks", path, KEEP_EXISTING)
            self.filesystem.delete(temporary)
            return
        if self._verify and not self.exists(path):
            raise FileNotFoundError(
                errno.ENOENT, f"{temporary} was renamed, but is not at its new name", path
            )

    @abstractmethod
    def _rename(self, temporary: str, path: str, overwrite: bool) -> None: ...


class FileContextBased(RenamingManager):
    """Publishes by FileContext's rename: exact, atomic, and it never overwrites unasked.

    Parameters and attributes are those of :class:`CheckpointFileManager`.

    Raises
    ------
    UnsupportedFileSystemError
        The store has no such rename.
    """

    _creates_parents = False

    def __init__(self, path: StrPath, conf: Conf = None) -> None:
        super().__init__(path, conf)
        if not self.filesystem.contract_options.get(EXACT_RENAME, True):
            raise UnsupportedFileSystemError(
                errno.EPROTONOSUPPORT,
                f"{self.filesystem.store_name} has no exact rename",
                self.filesystem.uri,
            )

    def _rename(self, temporary: str, path: str, overwrite: bool) -> None:
        self.filesystem.rename(temporary, path, Rename.OVERWRITE if overwrite else Rename.NONE)


class FileSystemBased(RenamingManager):
    """Publishes by FileSystem's rename, and looks beforehand whether the path is free.

    Look and rename are two steps: where the rename replaces files, a writer that comes in between
    is overwritten. Parameters and attributes are those of :class:`CheckpointFileManager`.
    """

    _creates_parents = True

    def _rename(self, temporary: str, path: str, overwrite: bool) -> None:
        fs = self.filesystem
        if fs.is_directory(path):  # the rename would move into it
            raise PathIsDirectoryError(errno.EISDIR, "checkpoint: path is a directory", path)
        if not overwrite and fs.exists(path):
            raise FileExistsError(errno.EEXIST, "checkpoint: file exists", path)
        if fs.rename(temporary, path):
            return
        if fs.exists(path):
            if not overwrite:
                raise FileExistsError(errno.EEXIST, "checkpoint: file exists", path)
            _log.warning("%s cannot be overwritten by a rename: the old file stays", path)
            fs.delete(temporary)
        elif not fs.exists(temporary):
            raise FileNotFoundError(errno.ENOENT, f"{temporary} is gone, not renamed", path)
        else:
            raise OSError(errno.EIO, f"{temporary} could not be renamed", path)


# --- the log -------------------------------------------------------------------------------------


class MetadataLog(Generic[T]):
    """A directory of batches: file ``N`` is batch N, complete, and stored by one writer only.

    Parameters
    ----------
    path : str or os.PathLike
        The directory; made by the first :meth:`add`.
    conf : mapping, optional
        As for :meth:`CheckpointFileManager.create`.
    serialize, deserialize : callable, optional
        From what is added to the bytes of its file, and back; :class:`bytes` unless given.
    retries : int
        How often :meth:`add` repeats a write that failed.

    Attributes
    ----------
    manager : CheckpointFileManager
        What writes the files.

    Notes
    -----
    Nothing is cached, so every answer is what the store says. Thread-safe; any number of processes
    may use one directory. Names that are no decimal number, directories and temporary files are
    ignored. Source: Spark's HDFSMetadataLog; contract CKPT-15 to CKPT-19, CKPT-25.
    """

    def __init__(
        self,
        path: StrPath,
        conf: Conf = None,
        *,
        serialize: Callable[[T], bytes] | None = None,
        deserialize: Callable[[bytes], T] | None = None,
        retries: int = 0,
    ) -> None:
        if retries < 0:
            raise ValueError(f"retries={retries} must not be negative")
        self.manager = CheckpointFileManager.create(path, conf)
        self._serialize = serialize if serialize is not None else _as_bytes
        self._deserialize = deserialize or cast("Callable[[bytes], T]", bytes)
        self._retries = retries

    def add(self, batch_id: int, data: T) -> bool:
        """Store a batch, unless it is stored.

        Parameters
        ----------
        batch_id : int
            0 or more.
        data : object
            What `serialize` takes.

        Returns
        -------
        bool
            True: this call stored it. False: it was stored before, and stays as it is.

        Raises
        ------
        ConcurrentWriterError
            Another writer stored it meanwhile.
        ValueError, TypeError
            `batch_id` is negative or no int.
        NotDurableError
            It is stored, but may not survive a failure of the machine.
        OSError
            It could not be written, so often as `retries` allows; it is not stored.
        Exception
            What `serialize` raised; nothing was written.
        """
        path = self._path(batch_id)
        if self.manager.filesystem.is_file(path):
            return False
        content = self._serialize(data)
        self.manager.mkdirs(self.manager.path)
        for remaining in range(self._retries, -1, -1):
            try:
                self._write(path, content)
                return True
            except NotDurableError:  # noqa: PERF203
                raise
            except FileExistsError as conflict:
                if self._stored(path) is None:
                    raise  # a directory, or what was in the way is gone
                if remaining < self._retries and self._stored(path) == content:
                    return True  # an earlier attempt did commit
                raise _lost(path) from conflict
            except OSError as failure:
                stored = self._stored_after(path, failure)
                if stored == content:
                    return True
                if stored is not None:
                    raise _lost(path) from failure
                if remaining == 0:
                    raise
        raise AssertionError("unreachable")

    def get(self, batch_id: int) -> T | None:
        """Return a batch, or None if it is not stored."""
        stored = self._stored(self._path(batch_id))
        return None if stored is None else self._deserialize(stored)

    def get_range(self, start: int | None = None, end: int | None = None) -> list[tuple[int, T]]:
        """Return batches with their ids, ascending, both ends included.

        Parameters
        ----------
        start, end : int, optional
            The first and the last id, which must be stored then, with all in between.

        Raises
        ------
        ValueError
            `start` is above `end`.
        FileNotFoundError
            Ids are missing; the message names them.
        """
        if start is not None and end is not None and start > end:
            raise ValueError(f"start={start} is above end={end}")
        ids = [
            number
            for number in self.batch_ids()
            if (start is None or number >= start) and (end is None or number <= end)
        ]
        self._verify_contiguous(ids, start, end)
        batches = [(number, self.get(number)) for number in ids]
        if gone := [number for number, data in batches if data is None]:
            raise self._missing(gone)
        return cast("list[tuple[int, T]]", batches)

    def get_latest(self) -> tuple[int, T] | None:
        """Return the highest id that is stored, with its batch, or None if there is none."""
        for number in reversed(self.batch_ids()):
            data = self.get(number)
            if data is not None:
                return number, data
        return None

    def batch_ids(self) -> list[int]:
        """Return the ids that are stored, ascending."""
        try:
            found = self.manager.list(self.manager.path)
        except FileNotFoundError:
            return []
        names = [paths.basename(status.path) for status in found if status.is_file]
        return sorted(int(name) for name in names if _is_batch(name))

    def purge(self, threshold: int) -> None:
        """Remove the batches with ids below `threshold`, the oldest first."""
        for number in self.batch_ids():
            if number < threshold:
                self.manager.delete(self._path(number))

    def purge_after(self, threshold: int) -> None:
        """Remove the batches with ids above `threshold`, the newest first."""
        for number in reversed(self.batch_ids()):
            if number > threshold:
                self.manager.delete(self._path(number))

    def _write(self, path: str, content: bytes) -> None:
        with self.manager.create_atomic(path, overwrite_if_possible=False) as out:
            out.write(content)

    def _stored(self, path: str) -> bytes | None:
        try:
            with self.manager.open(path) as stream:
                return stream.read()
        except FileNotFoundError:
            return None

    def _stored_after(self, path: str, failure: OSError) -> bytes | None:
        """Return what is stored after an attempt of which nobody knows whether it committed."""
        try:
            return self._stored(path)
        except OSError as also:
            attach(failure, also)
            raise failure from None

    def _verify_contiguous(self, ids: list[int], start: int | None, end: int | None) -> None:
        bounds = [*ids, *(bound for bound in (start, end) if bound is not None)]
        if bounds:
            missing = sorted(set(range(min(bounds), max(bounds) + 1)).difference(ids))
            if missing:
                raise self._missing(missing)

    def _missing(self, ids: list[int]) -> FileNotFoundError:
        named = ", ".join(str(number) for number in ids[:20]) + (", …" if len(ids) > 20 else "")
        return FileNotFoundError(errno.ENOENT, f"missing batches: {named}", self.manager.path)

    def _path(self, batch_id: int) -> str:
        if not isinstance(batch_id, int) or isinstance(batch_id, bool):
            raise TypeError(f"a batch id must be int, not {type(batch_id).__name__}")
        if batch_id < 0:
            raise ValueError(f"a batch id must not be negative, as {batch_id} is")
        return paths.child(self.manager.path, str(batch_id))


class AbortableStreamBased(CheckpointFileManager):
    """Writes in place, on stores where a file appears when its stream is closed, or not at all.

    There is neither a temporary file nor a rename. That an existing file is not replaced is checked
    by the store when it publishes, where it can (``contract_options["conditional-create"]``), else
    right before, when two writers of large files can both find nothing. Parameters and attributes
    are those of :class:`CheckpointFileManager`.

    Raises
    ------
    UnsupportedFileSystemError
        The streams of this store cannot be aborted.
    """

    def __init__(self, path: StrPath, conf: Conf = None) -> None:
        super().__init__(path, conf)
        if not self.filesystem.has_path_capability(self.path, capabilities.ABORTABLE):
            raise UnsupportedFileSystemError(
                errno.EPROTONOSUPPORT,
                f"streams of {self.filesystem.store_name} cannot be aborted",
                self.filesystem.uri,
            )

    def create_atomic(
        self, path: StrPath, overwrite_if_possible: bool
    ) -> CancellableFSDataOutputStream:
        """Open a file at its path: see :meth:`CheckpointFileManager.create_atomic`."""
        overwrite = flag("overwrite_if_possible", overwrite_if_possible)
        stream = None if overwrite else self._create_conditionally(path)
        looks = stream is None and not overwrite
        if stream is None:
            stream = self.filesystem.create(path, overwrite=True)
        keep_existing = Reader(self._conf, KEYS).flag(KEEP_EXISTING)
        publication = _InPlace(
            self.filesystem,
            stream,
            overwrite=overwrite,
            looks=looks,
            keep_existing=keep_existing,
        )
        return CancellableFSDataOutputStream(stream, publication)

    def _create_conditionally(self, path: StrPath) -> FSDataOutputStream | None:
        """Open a file that is published only where there is none; None if there is one already."""
        conditional = self.filesystem.create_file(path).overwrite(False).recursive()
        try:
            return conditional.opt(CONDITIONAL_OVERWRITE, True).build()
        except ValueError:
            _log.debug("%s cannot check when it publishes", self.filesystem.uri)
        try:  # it may be checked for small ones
            return self.filesystem.create(path, overwrite=False)
        except PathIsDirectoryError:
            raise
        except FileExistsError:  # told when it is closed, as elsewhere
            return None


# --- small things --------------------------------------------------------------------------------

_SPARK = "org.apache.spark.sql.execution.streaming"
_SPARK_CLASSES: dict[str, type[CheckpointFileManager]] = {
    f"{_SPARK}{package}.{name}CheckpointFileManager": manager
    for package in ("", ".checkpointing")
    for name, manager in (
        ("FileContextBased", FileContextBased),
        ("FileSystemBased", FileSystemBased),
    )
}
_SPARK_CLASSES["org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"] = (
    AbortableStreamBased
)


def _load(name: str) -> type[CheckpointFileManager]:
    """Return the manager class that a configuration names."""
    if name in _SPARK_CLASSES:
        return _SPARK_CLASSES[name]
    module, _, attribute = name.partition(":") if ":" in name else name.rpartition(".")
    if not module or not attribute:
        raise ValueError(f"{MANAGER_CLASS}: neither module:Class nor module.Class: {name!r}")
    import importlib

    found: Any = getattr(importlib.import_module(module), attribute, None)
    if found is None:
        raise ImportError(f"{MANAGER_CLASS}: {module} has no {attribute}")
    if not (isinstance(found, type) and issubclass(found, CheckpointFileManager)):
        raise TypeError(f"{MANAGER_CLASS}: {name} is not a CheckpointFileManager")
    return found


def _temporary(path: str) -> str:
    name = f".{paths.basename(path)}.{uuid.uuid4()}{_task()}.tmp"
    return paths.child(paths.parent(path), name)


def _task() -> str:
    """Return the part of a temporary name that says which Spark task writes, if one does."""
    spark = sys.modules.get("pyspark.taskcontext")  # loaded wherever a task runs
    context = None if spark is None else spark.TaskContext.get()
    return "" if context is None else f".TID{context.taskAttemptId()}"


def _is_sidecar(name: str) -> bool:
    return name.startswith(".") and name.endswith(".crc")


def _is_batch(name: str) -> bool:
    return name.isascii() and name.isdecimal() and name == str(int(name))


def _as_bytes(data: object) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"a batch must be bytes-like, not {type(data).__name__}")
    return bytes(data)


def _lost(path: str) -> ConcurrentWriterError:
    return ConcurrentWriterError(errno.EEXIST, "another writer stored this batch first", path)
