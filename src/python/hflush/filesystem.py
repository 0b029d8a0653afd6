"""FileSystem: the name space of a store, and the streams made in it."""

# ruff: noqa: ARG002 - operations that only some stores have are refused here with all arguments

from __future__ import annotations

import errno
import os
import sys
import threading
from abc import ABC, abstractmethod
from weakref import ref

from . import _core, capabilities, paths
from . import builder as options_of
from .builder import CreateFlag, CreateOptions, FileBuilder, OpenFileBuilder, Rename, Wish
from .configuration import Configuration, user_name
from .errors import (
    InternalError,
    PathIsDirectoryError,
    UnsupportedFileSystemError,
    attach,
    unsupported,
)
from .general_keys import KEYS
from .handling import marks
from .keys import Reader
from .spelling import check_keys, did_you_mean
from .statistics import IOStatistics, live
from .status import BlockLocation, ContentSummary, FileStatus
from .streams import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Any, TypeAlias, overload

    from typing_extensions import Self, Unpack

    from .atomic import Claim
    from .builder import Options
    from .configuration import Value
    from .keywords import CreateKeywords, OpenKeywords
    from .paths import Location, StrPath
    from .status import FileChecksum, FsServerDefaults, FsStatus
    from .streams import FSDataInputStream, FSDataOutputStream
    from .trash import Trash

    Conf: TypeAlias = "Mapping[str, Value] | None"
    Factory: TypeAlias = "Callable[[str, str, Configuration], FileSystem]"
    PathFilter: TypeAlias = "Callable[[str], bool]"

__all__ = ["BulkDelete", "FileSystem"]


class FileSystem(ABC):
    """The name space of one store: files are created, found, moved and removed here.

    Get one by :meth:`get`, which shares, or :meth:`new_instance`, which does not. A path is a
    string or :class:`os.PathLike`: absolute, relative to the working directory, or a URL of this
    file system; a path of another one is ValueError. Instances may be used by several threads and
    can be pickled: the configuration travels without its secrets, and the other side connects for
    itself.

    Every failure is raised. What a store does not have raises :class:`io.UnsupportedOperation`,
    and :meth:`has_path_capability` and :attr:`contract_options` say so beforehand. Nothing is
    atomic unless its method says so.

    Notes
    -----
    Source: Hadoop's FileSystem specification, and FileContext for the exact forms of create and
    rename.
    """

    # What messages call the store.
    store_name: str
    # Keys that create and open_file understand here (contract BUILDER-5, READ-19).
    create_options: frozenset[str] = options_of.CREATE_KEYS
    open_options: frozenset[str] = options_of.OPEN_KEYS
    path_capabilities: frozenset[str] = frozenset()
    # Whether the temporary file of an atomic stream that is dropped goes with it: no network waits.
    _discards_dropped = False

    def __init__(self, scheme: str, authority: str, conf: Configuration) -> None:
        self._scheme = scheme
        self._authority = authority
        self._uri = f"{scheme}://{authority}/"
        self._conf = conf.copy()
        self._on_exception = Reader(conf, KEYS).text(options_of.ON_EXCEPTION)
        check_keys(self._conf)
        self._working_directory: str | None = None
        # The open streams. Added, removed and copied in one step each, whoever holds the lock: a
        # stream that nobody has any more leaves by itself, and a forked child finds the lock taken.
        self._streams: set[ref[FSDataOutputStream]] = set()
        # Guards the fields below. Reentrant: a destructor that closes a stream may run within.
        self._lock = threading.RLock()
        self._finished = _core.StatisticsSum()
        self._doomed: set[str] = set()
        # When directories were last searched for what dead writers of atomic files left.
        self._swept: dict[str, float] = {}
        _instances.add(ref(self, _instances.discard))

    # --- instances ---

    @staticmethod
    def get(url: StrPath | None = None, conf: Conf = None) -> FileSystem:
        """Return the shared file system of a URL: one per scheme, authority, user and conf.

        Parameters
        ----------
        url : str or os.PathLike, optional
            Any URL in the store; without a scheme, ``fs.defaultFS`` decides.
        conf : mapping, optional
            Set on top of the default :class:`hflush.Configuration`; read now, not followed.

        Raises
        ------
        UnsupportedFileSystemError
            Nobody serves the scheme, or ``fs.defaultFS`` has none.
        """
        configuration = Configuration.of(conf)
        location = _locate(url, configuration)
        key = (location.scheme, location.authority, user_name(), configuration.identity())
        with _cache_lock:
            found = _cache.get(key)
            if found is None:
                found = _cache[key] = _make(location, configuration)
        return found

    @staticmethod
    def new_instance(url: StrPath | None = None, conf: Conf = None) -> FileSystem:
        """Return a new file system of a URL, shared with nobody; otherwise as :meth:`get`."""
        configuration = Configuration.of(conf)
        return _make(_locate(url, configuration), configuration)

    @staticmethod
    def register(scheme: str, factory: Factory) -> None:
        """Let `factory(scheme, authority, conf)` make the file systems of a scheme."""
        _factories[scheme] = factory

    def close(self) -> None:
        """Close the output streams that are open, then remove what :meth:`delete_on_exit` noted.

        Raises
        ------
        OSError
            The first stream that could not be closed; the others are attached as notes. All are
            closed.
        """
        with _cache_lock:
            for key in [key for key, shared in _cache.items() if shared is self]:
                del _cache[key]
        streams = self._open_streams()
        with self._lock:
            doomed, self._doomed = sorted(self._doomed, key=paths.depth, reverse=True), set()
        first: BaseException | None = None
        for stream in streams:
            try:
                self._end_open(stream)
            except BaseException as failure:  # noqa: PERF203 -- also one that is on its way
                if first is None:
                    first = failure
                elif failure is not first:
                    attach(first, failure)
        for path in doomed:
            self._remove_at_exit(path)
        if first is not None:
            raise first

    def _open_streams(self) -> list[FSDataOutputStream]:
        streams = [tracked() for tracked in self._streams.copy()]
        return [stream for stream in streams if stream is not None]

    def _end_open(self, stream: FSDataOutputStream) -> None:
        """End a stream that is open when the file system is closed.

        One that shows nothing before it is closed publishes nothing unasked.
        """
        if not stream.has_capability(capabilities.ABORTABLE):
            stream.close()
        elif not stream.abort().already_closed:
            message = "the file system was closed before this stream: not published"
            raise OSError(errno.ECANCELED, message, stream._error_path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., FileSystem], tuple[object, ...]]:
        conf = self._conf if self._pickles_secrets() else self._conf.without_secrets()
        return _reconnect, (self.uri, dict(conf.raw_items()), self._settings())

    def __copy__(self) -> Self:
        """Return the same: instances are shared, and a pickle would lose its secrets."""
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def _pickles_secrets(self) -> bool:
        """Whether somebody wants secrets to travel: only stores that need some can be asked to."""
        return False

    def __repr__(self) -> str:
        return f"<hflush.{type(self).__name__} {self.uri}>"

    # --- what it is ---

    @property
    def uri(self) -> str:
        """The URL of the root: ``file:///``, ``hdfs://host:port/``."""
        return self._uri

    @property
    def scheme(self) -> str:
        """The scheme of :attr:`uri`."""
        return self._scheme

    @property
    def conf(self) -> Configuration:
        """A copy of the configuration it was made with; changes to it have no effect."""
        return self._conf.copy()

    @property
    def working_directory(self) -> str:
        """Where relative paths begin: client state only, the directory need not exist."""
        return self._working_directory or self._default_working_directory()

    def set_working_directory(self, path: StrPath) -> None:
        """Let relative paths begin at `path`; the store is not asked."""
        self._working_directory = self._resolve(path)

    @property
    def home_directory(self) -> str:
        """The user's directory, which need not exist."""
        return f"/user/{user_name()}"

    @property
    @abstractmethod
    def contract_options(self) -> Mapping[str, object]:
        """How this store behaves where stores differ: the options of contract §3, read-only."""

    def _fixed_options(self) -> Mapping[str, object]:
        """Return those of them that are known without looking at the store."""
        return self.contract_options

    def make_qualified(self, path: StrPath) -> str:
        """Return the URL of a path: absolute, normalised, with scheme and authority."""
        return self.uri + self._resolve(path)[1:]

    def has_path_capability(self, path: StrPath, name: str) -> bool:
        """Whether something is known to work under `path`; the store is not asked.

        Parameters
        ----------
        path : str or os.PathLike
            It need not exist.
        name : str
            A name of :mod:`hflush.capabilities`, without regard to case; unknown ones are False.

        Raises
        ------
        TypeError, ValueError
            `name` is not a str; it is empty.
        """
        wanted = capabilities.canonical(name)
        if not wanted:
            raise ValueError("the name of a capability must not be empty")
        self._resolve(path)
        return wanted in self.path_capabilities

    def io_statistics(self) -> IOStatistics:
        """Return what the output streams made here did together, once they are closed."""
        with self._lock:
            return live(self._finished.total).snapshot()

    # --- writing ---

    def create(
        self,
        path: StrPath,
        *,
        overwrite: bool = True,
        recursive: bool = True,
        permission: int | None = None,
        buffer_size: int | str | None = None,
        replication: int | None = None,
        block_size: int | str | None = None,
        flags: CreateFlag | Iterable[CreateFlag] | None = None,
        create_parent: bool | None = None,
        **options: Unpack[CreateKeywords],
    ) -> FSDataOutputStream:
        """Create a file and open it for writing.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        overwrite : bool
            Replace a file that exists: its data is gone at once. False is an atomic check.
        recursive : bool
            Make missing parent directories.
        permission : int, optional
            Mode bits, 0o666 if left out; the umask is applied.
        buffer_size, block_size : int or str, optional
            Bytes, as hints: ``65536``, ``"128m"``. A buffer size of 0 hands every write on at once.
        replication : int, optional
            Copies, on stores that keep several.
        flags : set of CreateFlag, optional
            FileContext's form, instead of `overwrite`: CREATE refuses a file that exists,
            OVERWRITE or APPEND one that does not, together with CREATE they take both (where there
            is no append, only a file that does not exist).
        create_parent : bool, optional
            FileContext's name for `recursive`.
        **options
            Must be honoured: ``atomic`` (the file appears whole and durable at close, or not at
            all: until then the old one stays), ``checksum_type``, ``bytes_per_checksum``,
            ``sync_on_close``, ``close_on_exception``, ``progress``, on s3 ``content_type``,
            ``storage_class`` and ``if_match`` (an etag), or keys with a dot as for
            ``create_file(path).must``.

        Raises
        ------
        FileExistsError
            The file exists and may not be replaced; checked here, not at close, unless
            ``contract_options["create-check-at"]`` says otherwise.
        PathIsDirectoryError, ParentNotDirectoryError
            The path is a directory; an ancestor is a file.
        FileNotFoundError
            A parent is missing and not to be made, or the file is and the flags need it.
        InvalidPathError, ValueError, TypeError
            A bad name, a value out of range, an unknown option. Nothing was touched.
        PermissionError, OSError
            The store refuses.

        Notes
        -----
        On return an empty file is at the path, visible to all (not on object stores, and not with
        ``atomic``).
        Source: Hadoop's FileSystem.create and FileContext.create; contract CREATE-1 to CREATE-23.
        """
        replaces = options_of.flag("overwrite", overwrite)
        if flags is None:
            chosen = _REPLACE if replaces else CreateFlag.CREATE
        else:
            chosen = CreateFlag.joined(flags)
            if not replaces and CreateFlag.OVERWRITE in chosen:
                raise ValueError("overwrite=False contradicts CreateFlag.OVERWRITE")
            is_append = CreateFlag.APPEND in chosen and CreateFlag.CREATE not in chosen
            if is_append and not self.has_path_capability(path, capabilities.APPEND):
                self._status(self._resolve_to_change(path))  # no file: that comes first
        makes_parents = options_of.flag("recursive", recursive)
        if create_parent is not None:
            makes_parents = options_of.flag("create_parent", create_parent)
        asked = options_of.asked(
            permission=permission,
            buffer_size=buffer_size,
            replication=replication,
            block_size=block_size,
        )
        wanted = asked | options_of.required(options, options_of.CREATE_KEYWORDS, _CREATE_ARGUMENTS)
        return self._build(path, chosen, wanted, makes_parents)

    def append(
        self,
        path: StrPath,
        *,
        buffer_size: int | str | None = None,
        flags: CreateFlag | Iterable[CreateFlag] = CreateFlag.APPEND,
        **options: Unpack[CreateKeywords],
    ) -> FSDataOutputStream:
        """Open a file to write after what is there; until then nothing about it changes.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        buffer_size : int or str, optional
            A hint in bytes; 0 hands every write on at once.
        flags : set of CreateFlag
            How to: NEW_BLOCK, SYNC_BLOCK. APPEND need not be among them.
        **options
            As for :meth:`create`.

        Raises
        ------
        FileNotFoundError, IsADirectoryError
            It is missing; it is a directory.
        io.UnsupportedOperation
            The store cannot append (``fs.capability.paths.append`` is False).
        PermissionError, OSError
            The store refuses.

        Notes
        -----
        Source: Hadoop's FileSystem.append; contract APPEND-1 to APPEND-18.
        """
        given = (flags,) if isinstance(flags, CreateFlag) else tuple(flags)
        chosen = CreateFlag.joined((CreateFlag.APPEND, *given))
        wanted = options_of.asked(buffer_size=buffer_size)
        wanted |= options_of.required(options, options_of.CREATE_KEYWORDS, ("buffer_size", "flags"))
        return self._build(path, chosen, wanted, False)

    def create_file(self, path: StrPath) -> FileBuilder:
        """Return a builder that creates a file: it overwrites and makes no parents unless told."""
        return FileBuilder(self, paths.as_text(path), _REPLACE)

    def append_file(self, path: StrPath) -> FileBuilder:
        """Return a builder that appends to a file."""
        return FileBuilder(self, paths.as_text(path), CreateFlag.APPEND)

    def _build(
        self, path: StrPath, flags: CreateFlag, options: Options, create_parent: bool
    ) -> FSDataOutputStream:
        self._check_known(options, self.create_options)
        resolved = self._resolve_to_change(path)
        wanted = CreateOptions(options, create_parent, flags)
        self._check_create(wanted)
        if CreateFlag.APPEND not in flags:
            if CreateFlag.CREATE not in flags:
                self._status(resolved)  # OVERWRITE alone needs a file
            return self._create_at(resolved, CreateFlag.OVERWRITE in flags, wanted)
        if not self.has_path_capability(path, capabilities.APPEND):
            if CreateFlag.CREATE in flags and not self.exists(path):
                return self._create_at(resolved, False, wanted)
            raise unsupported("append", self.store_name, self._named(resolved))
        while True:
            try:
                return self._track(self._append(resolved, wanted), resolved, "ab", wanted)
            except FileNotFoundError:
                if CreateFlag.CREATE not in flags:
                    raise
            try:
                return self._create_at(resolved, False, wanted)
            except PathIsDirectoryError:
                raise
            except FileExistsError:
                continue  # somebody made it in between: append to that

    def _create_at(self, path: str, overwrite: bool, options: CreateOptions) -> FSDataOutputStream:
        if path == "/":
            message = "create: path is the root directory"
            raise PathIsDirectoryError(errno.EISDIR, message, self._named(path))
        create = self._create_atomically if options.atomic else self._create
        stream = create(path, overwrite, options)
        return self._track(stream, path, "wb" if overwrite else "xb", options)

    def _create_atomically(
        self, path: str, overwrite: bool, options: CreateOptions
    ) -> FSDataOutputStream:
        """Create a file that appears when it is closed, on a store that shows files before."""
        from .atomic import create_aside

        return create_aside(self, path, overwrite, options)

    def _atomic_target(self, path: str) -> str:
        """Return what an atomic file at `path` replaces."""
        return path

    def _claim(self, temporary: str) -> Claim | None:
        """Tell others that a temporary file is being written; None if it is being removed."""
        from .atomic import Claim

        return Claim()

    def _discard(self, temporary: str) -> None:
        """Remove a temporary file, if it is there."""
        self._delete(temporary, False)

    def _sweep(self, directory: str) -> None:  # noqa: B027
        """Remove the temporary files of dead writers from a directory."""

    def _sync_entry(self, path: str) -> None:  # noqa: B027
        """Put the name of a file on disk, where the store has not done so when it was made."""

    @staticmethod
    def _check_known(options: Options, known: frozenset[str]) -> None:
        for key, (_, wish) in options.items():
            if wish is Wish.MUST and key not in known:
                raise ValueError(
                    f"mandatory option {key!r} is unknown here or not supported"
                    f"{did_you_mean(key, known)}"
                )

    def _check_create(self, wanted: CreateOptions) -> None:  # noqa: B027
        """Refuse options that are known but cannot be had with these values."""

    def _track(
        self, stream: FSDataOutputStream, path: str, mode: str, options: CreateOptions
    ) -> FSDataOutputStream:
        on_exception = options.on_exception or self._on_exception
        older = None if on_exception == "publish" else marks()
        stream._bind(self, self._public_name(path), mode, older)
        self._streams.add(ref(stream, self._streams.discard))
        return stream

    def _release(self, stream: FSDataOutputStream) -> None:
        """Forget a stream that has ended, and add up what it did: once."""
        tracked = ref(stream)  # equal to any other of the same stream
        with self._lock:
            if tracked in self._streams:
                self._streams.remove(tracked)
                self._finished.add(stream, stream._own_statistics())

    # --- reading ---

    def open(
        self,
        path: StrPath,
        *,
        buffer_size: int | str | None = None,
        **options: Unpack[OpenKeywords],
    ) -> FSDataInputStream:
        """Open a file for reading.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        buffer_size : int or str, optional
            Bytes to read ahead; ``io.file.buffer.size`` or 64 KiB if left out, 0 for none.
        **options
            Must be known: ``read_policy``, ``length``, ``split_start``, ``split_end``, or keys with
            a dot as for ``open_file(path).must``.

        Raises
        ------
        TypeError, ValueError
            An unknown option; a buffer size that is none.
        FileNotFoundError, NotAFileError
            It is missing; it is a directory. Found out here, not at the first read.
        PermissionError, OSError
            The store refuses.

        Notes
        -----
        Source: Hadoop's FileSystem.open; contract READ-1 to READ-18.
        """
        wanted = options_of.required(options, options_of.OPEN_KEYWORDS, ("buffer_size",))
        self._check_known(wanted, self.open_options)
        return self._open_asked(path, buffer_size, wanted, None)

    def _open_asked(
        self,
        path: StrPath,
        buffer_size: int | str | None,
        options: Options,
        status: FileStatus | None,
    ) -> FSDataInputStream:
        if buffer_size is not None:
            size = options_of.as_size(buffer_size)
        else:
            default = self._conf.get_long_bytes("io.file.buffer.size", _READ_AHEAD_BYTES)
            given = options_of.read(options, options_of.OPEN_BUFFER_SIZE, options_of.as_size)
            size = default if given is None else given
        return self._open_known(self._resolve(path), max(size, 1), options, status)

    def open_file(self, path: StrPath) -> OpenFileBuilder:
        """Return a builder that opens a file for reading; its build() returns a future."""
        return OpenFileBuilder(self, paths.as_text(path))

    # --- looking ---

    def get_file_status(self, path: StrPath) -> FileStatus:
        """Return what the store knows about a path; symbolic links are followed.

        Raises
        ------
        FileNotFoundError
            There is nothing.
        """
        return self._status(self._resolve(path))

    def exists(self, path: StrPath) -> bool:
        """Whether there is anything at the path."""
        return self._status_or_none(path) is not None

    def is_file(self, path: StrPath) -> bool:
        """Whether there is a regular file."""
        status = self._status_or_none(path)
        return status is not None and status.is_file

    def is_directory(self, path: StrPath) -> bool:
        """Whether there is a directory."""
        status = self._status_or_none(path)
        return status is not None and status.is_directory

    def _status_or_none(self, path: StrPath) -> FileStatus | None:
        try:
            return self._status(self._resolve(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

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
            There is nothing; it may not be read.
        """
        found = self._list(self._resolve(path))
        return [status for status in found if filter is None or filter(status.path)]

    def list_status_iterator(
        self, path: StrPath, filter: PathFilter | None = None
    ) -> Iterator[FileStatus]:
        """Return the same as :meth:`list_status` as an iterator; a missing path fails here.

        Stores with pages fetch one when it is needed, and do not promise that all are of one
        moment.
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
        options_of.flag("recursive", recursive)
        resolved = self._resolve(path)
        status = self._status(resolved)
        if not status.is_directory:
            return iter((status,))
        return self._walk_files(self._iterate(resolved), recursive, (status.file_id,))

    def _walk_files(
        self, entries: Iterable[FileStatus], recursive: bool, ancestors: tuple[object, ...]
    ) -> Iterator[FileStatus]:
        for entry in entries:
            if not entry.is_directory:
                yield entry
            elif recursive and (entry.file_id is None or entry.file_id not in ancestors):
                below = self._iterate(self._store_path(entry))
                yield from self._walk_files(below, True, (*ancestors, entry.file_id))

    def glob_status(self, pattern: StrPath, filter: PathFilter | None = None) -> list[FileStatus]:
        r"""Return what matches a pattern, sorted by path; an empty list if nothing does.

        Parameters
        ----------
        pattern : str or os.PathLike
            ``?`` and ``*`` within one element, ``[a-c]``, ``[^a]``, ``{one,two}`` also across
            elements, ``\`` before a literal character.
        filter : callable, optional
            As for :meth:`list_status`, applied to whole matches.

        Raises
        ------
        PermissionError
            A directory on the way may not be read.
        ValueError
            A bracket or brace is never closed.
        """
        from .globbing import glob

        found = glob(self._resolve(pattern), self._status, self._list)
        return [status for status in found if filter is None or filter(status.path)]

    def get_content_summary(self, path: StrPath) -> ContentSummary:
        """Count files, directories and bytes at and below a path.

        Raises
        ------
        FileNotFoundError
            There is nothing.
        """
        status = self._status(self._resolve(path))
        length, files, directories, consumed = 0, 0, 0, 0
        pending: list[tuple[FileStatus, tuple[object, ...]]] = [(status, ())]
        while pending:
            entry, ancestors = pending.pop()
            if not entry.is_directory:
                files += 1
                length += entry.length
                consumed += entry.length * entry.replication
                continue
            directories += 1
            if entry.file_id is None or entry.file_id not in ancestors:
                below = (*ancestors, entry.file_id)
                pending += [(child, below) for child in self._list(self._store_path(entry))]
        return ContentSummary(length, files, directories, consumed)

    def get_file_block_locations(
        self, path: StrPath | FileStatus, start: int = 0, length: int | None = None
    ) -> list[BlockLocation]:
        """Return where a stretch of a file lies; nothing for directories and past the end.

        Parameters
        ----------
        path : str, os.PathLike or FileStatus
            The file.
        start, length : int
            Bytes; to the end if `length` is left out.

        Raises
        ------
        ValueError
            `start` or `length` is negative.
        """
        if start < 0 or (length is not None and length < 0):
            raise ValueError(f"start={start}, length={length} must not be negative")
        status = path if isinstance(path, FileStatus) else self.get_file_status(path)
        if not status.is_file or start >= status.length or length == 0:
            return []
        end = status.length if length is None else min(start + length, status.length)
        return self._block_locations(status, start, end)

    def get_default_block_size(self, path: StrPath | None = None) -> int:
        """Return the block size in bytes that new files get; `path` need not exist."""
        return self.get_server_defaults().block_size

    def get_enclosing_root(self, path: StrPath) -> str:
        """Return the directory within which rename works for `path`, which need not exist."""
        self._resolve(path)
        return "/"

    # --- changing ---

    def mkdirs(
        self, path: StrPath, permission: int | None = None, *, create_parent: bool = True
    ) -> bool:
        """Make a directory and its missing parents; one that exists is left as it is.

        Parameters
        ----------
        path : str or os.PathLike
            The directory.
        permission : int, optional
            Mode bits, 0o777 if left out; the umask is applied.
        create_parent : bool
            Make missing parents; otherwise one that is missing is FileNotFoundError.

        Returns
        -------
        bool
            True.

        Raises
        ------
        FileExistsError, ParentNotDirectoryError
            The path is a file; an ancestor is.
        """
        options_of.flag("create_parent", create_parent)
        wanted = None if permission is None else options_of.as_permission(permission)
        self._mkdirs(self._resolve_to_change(path), wanted, create_parent)
        return True

    def delete(self, path: StrPath, recursive: bool = False) -> bool:
        """Remove a file or a directory.

        Parameters
        ----------
        path : str or os.PathLike
            What to remove. Removing a file or an empty directory is atomic.
        recursive : bool
            Remove a directory with everything in it; not in one step unless
            ``contract_options["supports-atomic-directory-delete"]``.

        Returns
        -------
        bool
            False if there was nothing to do. Callers need not look.

        Raises
        ------
        OSError
            A directory is not empty (``ENOTEMPTY``) and `recursive` is False.
        PermissionError
            It may not be removed.

        Notes
        -----
        The root always stays, with what is in it. Of local files that is PermissionError;
        elsewhere False, as in Hadoop, or ``ENOTEMPTY`` as for any directory.
        """
        options_of.flag("recursive", recursive)
        resolved = self._resolve_to_change(path)
        if resolved == "/":
            return self._delete_root(recursive)
        return self._delete(resolved, recursive)

    def _delete_root(self, recursive: bool) -> bool:
        if not recursive and next(self._iterate("/"), None) is not None:
            message = "delete: directory is not empty"
            raise OSError(errno.ENOTEMPTY, message, self._named("/"))
        return False

    if TYPE_CHECKING:

        @overload
        def rename(self, src: StrPath, dst: StrPath, option: None = None) -> bool: ...
        @overload
        def rename(self, src: StrPath, dst: StrPath, option: Rename) -> None: ...

    def rename(self, src: StrPath, dst: StrPath, option: Rename | None = None) -> bool | None:
        """Move a file or a directory, with everything in it.

        Parameters
        ----------
        src, dst : str or os.PathLike
            From and to.
        option : Rename, optional
            Left out: Hadoop's FileSystem.rename. A `dst` that is a directory takes `src` in under
            its own name; what else differs from store to store is in :attr:`contract_options`.
            Rename.NONE and Rename.OVERWRITE: FileContext's exact form. `dst` is the name itself,
            and either kept (NONE, also in a race) or replaced in one step (OVERWRITE).

        Returns
        -------
        bool or None
            Whether anything was moved; None for the exact form, which raises instead.

        Raises
        ------
        FileNotFoundError
            There is no source; for the exact form, no parent of the destination.
        FileExistsError
            The destination may not be replaced, or is the source.
        ParentNotDirectoryError, OSError
            A parent of the destination is a file; a directory is not empty (``ENOTEMPTY``); the
            destination is below the source (``EINVAL``) or on another volume (``EXDEV``).

        Notes
        -----
        Atomic for observers where ``contract_options["supports-atomic-rename"]``.
        Source: contract RENAME-1 to RENAME-15 and RENAME-16 to RENAME-24.
        """
        source, destination = self._resolve_to_change(src), self._resolve_to_change(dst)
        if option is None:
            return self._rename(source, destination)
        if not isinstance(option, Rename):
            raise TypeError(f"option must be hflush.Rename, not {type(option).__name__}")
        self._rename_exact(source, destination, option is Rename.OVERWRITE)
        return None

    def delete_on_exit(self, path: StrPath) -> bool:
        """Remove `path`, with everything in it, when this file system is closed.

        Returns
        -------
        bool
            False if there is nothing at the path now; then nothing will be removed.
        """
        resolved = self._resolve_to_change(path)
        if not self.exists(path):
            return False
        with self._lock:
            self._doomed.add(resolved)
        return True

    def _remove_at_exit(self, path: str) -> None:
        try:
            self.delete(path, recursive=True)
        except OSError as failure:
            import logging

            logging.getLogger(__name__).warning("delete on exit: %s", failure)

    def get_trash(self, path: StrPath = "/") -> Trash:
        """Return the trash of this user for what is at `path`."""
        raise self._refuse("get_trash", path)

    def move_to_trash(self, path: StrPath) -> bool:
        """Move a file or a directory to the user's trash, from which it vanishes some time later.

        Returns
        -------
        bool
            False, and nothing is changed, if the trash is switched off (``fs.trash.interval`` is
            0) or `path` is in it already.

        Raises
        ------
        FileNotFoundError
            There is nothing.
        OSError
            `path` is a directory that the trash is in; it cannot be moved.
        """
        raise self._refuse("move_to_trash", path)

    def bulk_delete(self, base: StrPath) -> BulkDelete:
        """Return an object that removes many paths below `base`, a page at a time."""
        return BulkDelete(self, self._resolve(base))

    def copy_from_local_file(
        self, src: StrPath, dst: StrPath, delete_source: bool = False, overwrite: bool = True
    ) -> None:
        """Copy a local file or tree to here, into `dst` if that is a directory.

        Checksums of local files that have sidecars are verified.

        Raises
        ------
        FileNotFoundError, FileExistsError, OSError
            There is no source; something is in the way; a tree and a file meet.
        """
        from .transfer import copy

        local = self._local_files(raw=False)
        copy(
            local,
            local._resolve(src),
            self,
            self._resolve(dst),
            delete_source=options_of.flag("delete_source", delete_source),
            overwrite=options_of.flag("overwrite", overwrite),
        )

    def copy_to_local_file(
        self,
        src: StrPath,
        dst: StrPath,
        delete_source: bool = False,
        use_raw_local: bool = False,
        overwrite: bool = True,
    ) -> None:
        """Copy a file or tree from here to local files, into `dst` if that is a directory.

        Checksum sidecars are written beside them unless `use_raw_local`.

        Raises
        ------
        FileNotFoundError, FileExistsError, OSError
            As :meth:`copy_from_local_file`.
        """
        from .transfer import copy

        local = self._local_files(raw=options_of.flag("use_raw_local", use_raw_local))
        copy(
            self,
            self._resolve(src),
            local,
            local._resolve(dst),
            delete_source=options_of.flag("delete_source", delete_source),
            overwrite=options_of.flag("overwrite", overwrite),
        )

    def _local_files(self, raw: bool) -> FileSystem:
        configuration = self._conf.copy()
        configuration["fs.file.checksum"] = not raw
        return FileSystem.get("file:///", configuration)

    # --- what only some stores have ---

    def get_status(self, path: StrPath | None = None) -> FsStatus:
        """Return how full the store is; where it has several parts, the one that `path` is in.

        Parameters
        ----------
        path : str or os.PathLike, optional
            The working directory if left out. It need not exist.
        """
        raise self._refuse("get_status", path)

    def get_server_defaults(self) -> FsServerDefaults:
        """Return what the store uses where the caller says nothing."""
        raise self._refuse("get_server_defaults")

    def get_file_checksum(self, path: StrPath) -> FileChecksum:
        """Return a checksum of the whole content of a file."""
        raise self._refuse("get_file_checksum", path)

    def set_times(self, path: StrPath, modification_time: int = -1, access_time: int = -1) -> None:
        """Set times, in milliseconds since the epoch; -1 leaves one as it is.

        Raises
        ------
        FileNotFoundError
            There is nothing.
        """
        raise self._refuse("set_times", path)

    def set_permission(self, path: StrPath, permission: int) -> None:
        """Set the mode bits exactly; no umask is applied."""
        raise self._refuse("set_permission", path)

    def set_owner(self, path: StrPath, owner: str | None = None, group: str | None = None) -> None:
        """Set owner and group by name; None leaves one as it is."""
        raise self._refuse("set_owner", path)

    def set_replication(self, path: StrPath, replication: int) -> bool:
        """Set how many copies the store keeps."""
        raise self._refuse("set_replication", path)

    def set_write_checksum(self, write: bool) -> None:
        """Let this instance write checksums of new files, or not."""
        raise self._refuse("set_write_checksum")

    def set_verify_checksum(self, verify: bool) -> None:
        """Let this instance verify what it reads, or not."""
        raise self._refuse("set_verify_checksum")

    def truncate(self, path: StrPath, length: int) -> bool:
        """Cut a file to its first `length` bytes.

        Returns
        -------
        bool
            True: done. False (hdfs): the last block is being shortened in the background.

        Raises
        ------
        ValueError
            `length` is negative, or more than the file has.
        FileNotFoundError, IsADirectoryError
            It is missing; it is a directory.
        """
        raise self._refuse("truncate", path)

    def concat(self, path: StrPath, sources: Sequence[StrPath]) -> None:
        """Move the contents of `sources` to the end of a file; they vanish."""
        raise self._refuse("concat", path)

    def copy(self, src: StrPath, dst: StrPath, *, overwrite: bool = False) -> None:
        """Let the store copy a file or tree without its bytes passing through here."""
        raise self._refuse("copy", src)

    def create_symlink(self, target: StrPath, link: StrPath, create_parent: bool = False) -> None:
        """Create a symbolic link, where :attr:`supports_symlinks`.

        Parameters
        ----------
        target : str or os.PathLike
            What it leads to, which need not exist. A relative one is kept, and counts from where
            the link is.
        link : str or os.PathLike
            The link.
        create_parent : bool
            Make the link's missing parents.

        Raises
        ------
        FileExistsError, FileNotFoundError, ParentNotDirectoryError
            There is something at `link`; it has no parent; an ancestor is a file.
        ValueError
            `target` is in another file system.

        Notes
        -----
        Source: Hadoop's FileContext.createSymlink; contract EXTRA-9.
        """
        raise self._refuse("create_symlink", link)

    def get_link_target(self, path: StrPath) -> str:
        """Return what a symbolic link leads to, as it was given.

        Raises
        ------
        FileNotFoundError, OSError
            There is nothing; it is no link (``EINVAL``).
        """
        raise self._refuse("get_link_target", path)

    def get_file_link_status(self, path: StrPath) -> FileStatus:
        """Return the status of a symbolic link itself, of anything else as `get_file_status`.

        Raises
        ------
        FileNotFoundError
            There is nothing.
        """
        return self.get_file_status(path)

    @property
    def supports_symlinks(self) -> bool:
        """Whether symbolic links can be created here. Existing local ones are followed."""
        return capabilities.SYMLINKS in self.path_capabilities

    def get_path_handle(
        self, status: FileStatus, changed: bool = False, moved: bool = False
    ) -> bytes:
        """Return an opaque, serialisable reference to a file.

        Parameters
        ----------
        status : FileStatus
            The file, as it was seen.
        changed, moved : bool
            Whether the reference stays good when the file's content changes, when it is moved.
        """
        raise self._refuse("get_path_handle", status.path)

    def open_path_handle(
        self, handle: bytes, *, buffer_size: int | str | None = None
    ) -> FSDataInputStream:
        """Open what a path handle refers to.

        Raises
        ------
        InvalidPathHandleError
            It is gone, or has changed and may not have.
        """
        raise self._refuse("open_path_handle")

    def msync(self) -> None:
        """Let later reads of this client see at least everything done before."""
        raise self._refuse("msync")

    def list_corrupt_file_blocks(self, path: StrPath) -> Iterator[str]:
        """Return the paths of files below `path` that have corrupt blocks."""
        raise self._refuse("list_corrupt_file_blocks", path)

    def recover_lease(self, path: StrPath) -> bool:
        """Take a file from a writer that is gone; whether it is closed now."""
        raise self._refuse("recover_lease", path)

    def is_file_closed(self, path: StrPath) -> bool:
        """Whether nobody is writing a file."""
        raise self._refuse("is_file_closed", path)

    def set_safe_mode(self, action: str) -> bool:
        """Ask for or change the store's safe mode."""
        raise self._refuse("set_safe_mode")

    def create_multipart_uploader(self, base: StrPath) -> Any:
        """Return an object that uploads files below `base` in parts, from several processes."""
        raise self._refuse("create_multipart_uploader", base)

    def list_multipart_uploads(self, prefix: StrPath) -> Sequence[Any]:
        """Return the uploads under a prefix that were begun and not ended."""
        raise self._refuse("list_multipart_uploads", prefix)

    def abort_multipart_uploads(self, prefix: StrPath, older_than: float = 0.0) -> int:
        """Abort the uploads under a prefix that are older than so many seconds; how many."""
        raise self._refuse("abort_multipart_uploads", prefix)

    def _refuse(self, operation: str, path: StrPath | None = None) -> Exception:
        resolved = None if path is None else self._named(self._resolve(path))
        return unsupported(operation, self.store_name, resolved)

    # --- what a store implements: paths are normalised and absolute ---

    @abstractmethod
    def _create(self, path: str, overwrite: bool, options: CreateOptions) -> FSDataOutputStream: ...

    @abstractmethod
    def _append(self, path: str, options: CreateOptions) -> FSDataOutputStream: ...

    @abstractmethod
    def _open(self, path: str, buffer_size: int) -> FSDataInputStream: ...

    def _open_known(
        self,
        path: str,
        buffer_size: int,
        options: Options,
        status: FileStatus | None,
    ) -> FSDataInputStream:
        """Open with what is known beforehand: for stores to which that saves a request."""
        return self._open(path, buffer_size)

    @abstractmethod
    def _status(self, path: str) -> FileStatus: ...

    @abstractmethod
    def _list(self, path: str) -> list[FileStatus]: ...

    def _iterate(self, path: str) -> Iterator[FileStatus]:
        """Return the same in as many steps as the store takes; a missing path fails here."""
        return iter(self._list(path))

    def _iterate_located(self, path: str) -> Iterator[FileStatus]:
        """Return the same with locations."""
        return map(self._located, self._iterate(path))

    def _located(self, status: FileStatus) -> FileStatus:
        status.block_locations = tuple(self.get_file_block_locations(status))
        return status

    @abstractmethod
    def _mkdirs(self, path: str, permission: int | None, create_parent: bool) -> None: ...

    @abstractmethod
    def _delete(self, path: str, recursive: bool) -> bool: ...

    @abstractmethod
    def _rename(self, source: str, destination: str) -> bool: ...

    @abstractmethod
    def _rename_exact(self, source: str, destination: str, overwrite: bool) -> None: ...

    def _block_locations(self, status: FileStatus, start: int, end: int) -> list[BlockLocation]:
        """Return one location on this host, as stores without locality do."""
        return [BlockLocation(start, end - start, ("localhost",), ("localhost:9866",))]

    def _default_working_directory(self) -> str:
        return self.home_directory

    def _public_name(self, path: str) -> str:
        """Return the name under which hflush.open finds a path."""
        return self.uri + path[1:]

    def _named(self, path: str) -> str:
        """Return how errors name a path, in ``filename``."""
        return path

    def _store_path(self, status: FileStatus) -> str:
        """Return the path of a status, which may hold names that cannot be created."""
        prefix = self._public_name("/")
        return "/" + status.path[len(prefix) :]

    def _settings(self) -> dict[str, Any]:
        """Return what has been set on this instance beyond its configuration."""
        return {"_working_directory": self._working_directory} if self._working_directory else {}

    def _shares_files_with(self, other: FileSystem) -> bool:
        """Return whether both may show the same files, so that their file ids can be compared."""
        return self.uri == other.uri

    def _accepts(self, location: Location) -> bool:
        return (location.scheme, location.authority) == (self._scheme, self._authority)

    def _resolve(self, path: StrPath) -> str:
        """Return the absolute, normalised path of what the caller wrote.

        Raises
        ------
        TypeError, InvalidPathError
            It is no text; it is no name.
        ValueError
            It is a URL of another file system.
        """
        location = paths.parse(path)
        if location.scheme is not None and not self._accepts(location):
            raise ValueError(f"wrong file system: {paths.as_text(path)!r} is not in {self.uri}")
        if location.path.startswith("/"):
            return paths.normalize(location.path)
        return paths.normalize(location.path, self.working_directory)

    def _resolve_to_change(self, path: StrPath) -> str:
        """Return the same for an operation that changes what is there: names may be reserved."""
        return self._resolve(path)


class BulkDelete:
    """Removes many paths below a base, a page at a time. Made by ``fs.bulk_delete(base)``.

    Attributes
    ----------
    page_size : int
        How many paths one call takes at most.
    """

    page_size = 1000

    def __init__(self, filesystem: FileSystem, base: str) -> None:
        self._filesystem = filesystem
        self._base = base

    def delete(self, paths_to_delete: Sequence[StrPath]) -> list[tuple[str, OSError]]:
        """Remove files and empty directories; missing ones and duplicates are fine.

        In any order: a directory is empty if all that is in it is removed by the same call.

        Parameters
        ----------
        paths_to_delete : sequence of str or os.PathLike
            Absolute paths or URLs, below the base; at most `page_size`.

        Returns
        -------
        list of (str, OSError)
            What could not be removed, and why: a directory that is not empty stays.

        Raises
        ------
        ValueError
            Too many, a relative one, or one outside the base. Nothing was removed.
        """
        if len(paths_to_delete) > self.page_size:
            raise ValueError(f"{len(paths_to_delete)} paths, a page holds {self.page_size}")
        return self._remove([(paths.as_text(path), self._check(path)) for path in paths_to_delete])

    def _remove(self, resolved: Sequence[tuple[str, str]]) -> list[tuple[str, OSError]]:
        """Remove a page of paths: each as it was given, and where it is."""
        failures: list[tuple[str, OSError]] = []
        for path, inside in sorted(resolved, key=_deepest_first):
            try:
                self._filesystem.delete(inside)
            except OSError as failure:  # noqa: PERF203
                failures.append((path, failure))
        return failures

    def _check(self, path: StrPath) -> str:
        if not paths.parse(path).path.startswith("/"):
            raise ValueError(f"{paths.as_text(path)!r} is not absolute")
        resolved = self._filesystem._resolve_to_change(path)
        if not paths.is_under(resolved, self._base):
            raise ValueError(f"{paths.as_text(path)!r} is not below {self._base}")
        return resolved

    def close(self) -> None:
        """Nothing to release; Hadoop has it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _deepest_first(given_and_inside: tuple[str, str]) -> int:
    return -given_and_inside[1].count("/")


# --- instances -----------------------------------------------------------------------------------

_READ_AHEAD_BYTES = 64 << 10
_REPLACE = CreateFlag.CREATE | CreateFlag.OVERWRITE
_CREATE_ARGUMENTS = (
    "overwrite",
    "recursive",
    "permission",
    "buffer_size",
    "replication",
    "block_size",
    "flags",
    "create_parent",
)


def _make_s3(scheme: str, authority: str, conf: Configuration) -> FileSystem:
    from .s3 import S3FileSystem  # with its first use: it brings much that others do not need

    return S3FileSystem(scheme, authority, conf)


_factories: dict[str, Factory] = {"s3": _make_s3}
_instances: set[ref[FileSystem]] = set()
_cache: dict[tuple[object, ...], FileSystem] = {}
_cache_lock = threading.RLock()


class _Last:
    """Tells of streams that no destructor will: a thread that is a daemon has them, or a library.

    Python ends no such thread, and pyarrow lets nothing go at exit. The attributes of `sys` go
    after all modules, when whatever still could close a stream has done so; so this one brings with
    it all that it calls.
    """

    __slots__ = ("_abandon", "_instances", "_report")

    def __init__(self) -> None:
        self._instances = _instances
        self._abandon = _core.OutputStream._abandon
        self._report = report

    def __del__(self) -> None:
        for instance in self._instances.copy():
            filesystem = instance()
            for stream in () if filesystem is None else filesystem._open_streams():
                if self._abandon(stream):
                    self._report(stream, "never closed, not published")


sys._hflush_last = _Last()  # type: ignore[attr-defined]


def _forget_after_fork() -> None:
    """In a child: connections and locks of the parent's file systems are not ours."""
    global _cache_lock  # noqa: PLW0603
    _cache_lock = threading.RLock()
    _cache.clear()


os.register_at_fork(after_in_child=_forget_after_fork)


def _locate(url: StrPath | None, conf: Configuration) -> Location:
    """Return where a URL points; ``fs.defaultFS`` says what it leaves out, scheme or authority.

    ``hdfs:///p`` means the default file system if that is one of ``hdfs``.
    """
    default = conf.get("fs.defaultFS", "file:///")
    if url is not None:
        location = paths.parse(url)
        if location.scheme is not None:
            is_default = not location.authority and default.startswith(f"{location.scheme}://")
            return paths.parse(default) if is_default else location
    location = paths.parse(default)
    if location.scheme is None:
        raise UnsupportedFileSystemError(
            errno.EPROTONOSUPPORT, f"fs.defaultFS has no scheme: {default!r}", default
        )
    return location


def _make(location: Location, conf: Configuration) -> FileSystem:
    if location.scheme is None:
        raise InternalError(f"a location without a scheme: {location!r}")
    factory = _factories.get(location.scheme)
    if factory is None:
        served = ", ".join(sorted(_factories))
        host = location.authority.rpartition("@")[2]  # what stands before may be a secret
        url = f"{location.written_scheme}://{host}/"
        raise UnsupportedFileSystemError(
            errno.EPROTONOSUPPORT,
            f"no file system for scheme {location.written_scheme!r}; there are {served}",
            url,
        )
    return factory(location.scheme, location.authority, conf)


def _reconnect(uri: str, conf: dict[str, str], settings: dict[str, Any]) -> FileSystem:
    """Make the other end of a pickled file system; what was set on it makes it one of its own."""
    configuration = Configuration(load_defaults=False)
    configuration.update(conf)
    if not settings:
        return FileSystem.get(uri, configuration)
    filesystem = FileSystem.new_instance(uri, configuration)
    for name, value in settings.items():
        setattr(filesystem, name, value)
    return filesystem
