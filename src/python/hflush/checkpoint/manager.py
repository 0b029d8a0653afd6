"""The managers: how a checkpoint file gets to its path on each kind of store."""

from __future__ import annotations

import errno
import logging
import sys
import uuid
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from .. import capabilities, paths
from ..configuration import Configuration
from ..errors import PathIsDirectoryError, UnsupportedFileSystemError, means_file_there
from ..filesystem import FileSystem
from ..general_keys import KEYS
from ..keys import Reader
from ..options import CONDITIONAL_OVERWRITE, SYNC_ON_CLOSE, Rename, flag
from ..sidecars import is_sidecar
from .keys import EXACT_RENAME, KEEP_EXISTING, MANAGER_CLASS, SYNC, VERIFY_RENAME
from .stream import CancellableFSDataOutputStream, InPlace, RenamedFile

if TYPE_CHECKING:
    from ..listing import PathFilter
    from ..namespace import Conf
    from ..output import FSDataOutputStream
    from ..paths import StrPath
    from ..status import FileStatus
    from ..streams import FSDataInputStream

__all__ = [
    "AbortableStreamBased",
    "CheckpointFileManager",
    "FileContextBased",
    "FileSystemBased",
]

_log = logging.getLogger(__name__)


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

    __module__ = "hflush.checkpoint"

    def __init__(self, path: StrPath, conf: Conf = None) -> None:
        self._conf = Configuration.of(conf).settled()
        self.filesystem = FileSystem.get(path, self._conf)
        self.path = self.filesystem._resolve(path)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_conf"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the configuration from the file system, which knows what of it is sent."""
        self.__dict__.update(state)
        self._conf = self.filesystem._conf.copy()

    @staticmethod
    def create(path: StrPath, conf: Conf = None) -> CheckpointFileManager:
        """Return the manager for `path`.

        The class that the configuration names; else, where streams publish when they are closed and
        can be aborted, :class:`AbortableStreamBased`; else :class:`FileContextBased`; else, where
        the store has no exact rename, :class:`FileSystemBased`, with a logged warning.

        Raises
        ------
        UnsupportedFileSystemError
            No store serves the scheme, ``fs.defaultFS`` has none, or the strategy is not supported.
        ImportError, TypeError, ValueError
            The configured class is missing, is not a manager, or has no usable name.
        """
        configuration = Configuration.of(conf)
        chosen = configuration.get(MANAGER_CLASS)
        if chosen:
            return _load(chosen)(path, configuration)
        # An unknown scheme is not a reason to fall back.
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

    @staticmethod
    def _of_one_winner(path: StrPath, conf: Conf = None) -> CheckpointFileManager:
        """Return the manager of files that one writer wins each: who keeps another's has lost."""
        configuration = Configuration.of(conf).copy()
        configuration.pop(KEEP_EXISTING, None)
        return CheckpointFileManager.create(path, configuration)

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
        return [status for status in found if not is_sidecar(paths.basename(status.path))]

    def mkdirs(self, path: StrPath) -> None:
        """Make a directory and its missing parents; one that exists is fine."""
        self.filesystem.mkdirs(path)

    def exists(self, path: StrPath) -> bool:
        """Whether there is anything at the path."""
        return self.filesystem.exists(path)

    def delete(self, path: StrPath) -> None:
        """Remove a file or a directory with everything in it; a missing one is fine."""
        self.filesystem.delete(path, recursive=True)
        self._remove_side_files(self.filesystem._resolve(path))

    def create_checkpoint_directory(self) -> str:
        """Make the manager's directory and return its URL."""
        self.mkdirs(self.path)
        return self.filesystem.make_qualified(self.path)

    @property
    def is_local(self) -> bool:
        """Whether the files are on this machine only."""
        return self.filesystem._store_at(self.path)._is_local

    def _remove_side_files(self, path: str) -> None:
        """Remove the side files that another program left: they describe the old content."""
        for beside in self.filesystem._side_files(path):
            if self.filesystem.exists(beside):
                self.filesystem.delete(beside)


class RenamingManager(CheckpointFileManager):
    """What both strategies that rename share."""

    _creates_parents: bool
    _exact: bool  # the rename itself refuses to replace

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
        for key, value in self.filesystem._store_at(resolved)._to_be_renamed.items():
            builder.opt(key, value)
        if self._creates_parents:
            builder.recursive()
        publication = RenamedFile(
            self.filesystem,
            temporary,
            resolved,
            overwrite=overwrite_if_possible,
            durable=self._sync,
            rename=self._publish,
        )
        try:
            below = builder.build()
        except OSError as failure:
            if failure.filename == self.filesystem._named(temporary):
                failure.filename = self.filesystem._named(resolved)
            raise
        stream = CancellableFSDataOutputStream(below, publication)
        try:
            self.filesystem._check_publication(resolved, overwrite_if_possible or not self._exact)
        except BaseException:
            stream.cancel()
            raise
        return stream

    def _publish(self, temporary: str, path: str, overwrite: bool) -> None:
        if overwrite or (self.is_local and not self.exists(path)):  # those of a file that is gone
            self._remove_side_files(path)
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
    """Publishes by FileContext's rename: exact, atomic, and it overwrites only if asked to.

    Parameters and attributes are those of :class:`CheckpointFileManager`.

    Raises
    ------
    UnsupportedFileSystemError
        The store has no such rename.
    """

    __module__ = "hflush.checkpoint"

    _creates_parents = False
    _exact = True

    def __init__(self, path: StrPath, conf: Conf = None) -> None:
        super().__init__(path, conf)
        store = self.filesystem._store_at(self.path)
        if not store.contract_options.get(EXACT_RENAME, True):
            raise UnsupportedFileSystemError(
                errno.EPROTONOSUPPORT,
                f"{store.store_name} has no exact rename",
                self.filesystem.uri,
            )

    def _rename(self, temporary: str, path: str, overwrite: bool) -> None:
        self.filesystem.rename(temporary, path, Rename.OVERWRITE if overwrite else Rename.NONE)


class FileSystemBased(RenamingManager):
    """Publishes by FileSystem's rename, after checking that the path is free.

    Where the rename replaces files, a file that another writer makes between the two steps is
    overwritten. Parameters and attributes are those of :class:`CheckpointFileManager`.
    """

    __module__ = "hflush.checkpoint"

    _creates_parents = True
    _exact = False

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


class AbortableStreamBased(CheckpointFileManager):
    """Writes in place, on stores where a file appears when its stream is closed, or not at all.

    There is neither a temporary file nor a rename. A store that can refuse to replace a file when
    it publishes (``contract_options["conditional-create"]``) does so; elsewhere the path is looked
    at right before, when two writers of large files can both find it free. Parameters and
    attributes are those of :class:`CheckpointFileManager`.

    Raises
    ------
    UnsupportedFileSystemError
        The streams of this store cannot be aborted.
    """

    __module__ = "hflush.checkpoint"

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
        publication = InPlace(
            self.filesystem,
            stream,
            overwrite=overwrite,
            looks=looks,
            keep_existing=keep_existing,
        )
        return CancellableFSDataOutputStream(stream, publication)

    def _create_conditionally(self, path: StrPath) -> FSDataOutputStream | None:
        """Open a file that is published only if none exists; None if one exists already."""
        conditional = self.filesystem.create_file(path).overwrite(False).recursive()
        try:
            return conditional.opt(CONDITIONAL_OVERWRITE, True).build()
        except ValueError:
            _log.debug("%s cannot check when it publishes", self.filesystem.uri)
        try:  # the store may still refuse to replace by small files
            return self.filesystem.create(path, overwrite=False)
        except FileExistsError as refusal:
            if not means_file_there(refusal):
                raise
            return None  # reported by close, as elsewhere


# --- which one ---

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
        names = ", ".join(_SPARK_CLASSES)
        raise ValueError(f"{MANAGER_CLASS}: neither module.Class nor one of {names}: {name!r}")
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
