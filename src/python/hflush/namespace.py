"""What a file system is: its names and its configuration, and what a store implements."""

# ruff: noqa: ARG002 - defaults that refuse take all arguments

from __future__ import annotations

from abc import ABC, abstractmethod

from . import capabilities, options, paths
from .claims import Claim
from .configuration import Configuration, user_name
from .errors import unsupported, without_passwords
from .spelling import check_keys
from .status import BlockLocation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any, TypeAlias

    from typing_extensions import Self

    from .configuration import Value
    from .options import CreateOptions, Options, OptionValue
    from .paths import Location, StrPath
    from .status import FileStatus
    from .streams import FSDataInputStream, FSDataOutputStream
    from .tokens import Token

    Conf: TypeAlias = "Mapping[str, Value] | None"

__all__ = ["NameSpace"]


class NameSpace(ABC):
    """The names of one store, and its side of every operation: what a store implements.

    A path is a string or :class:`os.PathLike`: absolute, relative to the working directory, or a
    URL of this file system; a path of another one is ValueError.
    """

    # The store's name in messages.
    store_name: str
    # Keys that create, append and open_file understand here (contract BUILDER-5, READ-19).
    create_options: frozenset[str] = options.CREATE_KEYS
    append_options: frozenset[str] = options.APPEND_KEYS
    open_options: frozenset[str] = options.OPEN_KEYS
    path_capabilities: frozenset[str] = frozenset()
    # Whether it takes every name that it can have, also those that Hadoop's paths have not.
    _takes_any_name = False

    def __init__(self, scheme: str, authority: str, conf: Configuration) -> None:
        self._scheme = scheme
        self._authority = authority
        self._uri = f"{scheme}://{authority}/"
        self._conf = conf.settled()
        check_keys(self._conf)
        self._working_directory: str | None = None
        # When directories were last searched for temporary files of dead writers.
        self._swept: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<hflush.{type(self).__name__} {self.uri}>"

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
        return f"/user/{self._acts_as()}"

    def _acts_as(self) -> str:
        """Return the user that requests are for."""
        return user_name()

    @property
    @abstractmethod
    def contract_options(self) -> Mapping[str, object]:
        """How this store behaves where stores differ: the options of contract §3, read-only."""

    def _fixed_options(self) -> Mapping[str, object]:
        """Return the contract options that are known without asking the store."""
        return self.contract_options

    def make_qualified(self, path: StrPath) -> str:
        """Return the URL of a path: absolute, normalised, with scheme and authority."""
        return self.uri + self._resolve(path)[1:]

    def has_path_capability(self, path: StrPath, name: str) -> bool:
        """Whether a capability is known to work under `path`; the store is not asked.

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
        """Open with a status that is known already, where that saves the store a request."""
        return self._open(path, buffer_size)

    @abstractmethod
    def _status(self, path: str) -> FileStatus: ...

    @abstractmethod
    def _list(self, path: str) -> list[FileStatus]: ...

    def _iterate(self, path: str) -> Iterator[FileStatus]:
        """Return the children, in pages where the store has them; a missing path fails here."""
        return iter(self._list(path))

    @abstractmethod
    def _mkdirs(self, path: str, permission: int | None, create_parent: bool) -> None: ...

    @abstractmethod
    def _delete(self, path: str, recursive: bool) -> bool: ...

    @abstractmethod
    def _rename(self, source: str, destination: str) -> bool: ...

    @abstractmethod
    def _rename_exact(self, source: str, destination: str, overwrite: bool) -> None: ...

    def _rename_to_trash(self, source: str, destination: str) -> None:
        """Rename to a free name in the trash; who empties that may ask who may remove it."""
        self._rename_exact(source, destination, False)

    def _write_target(self, path: str) -> str:
        """Return where writing to `path` makes or replaces a file: the target of a link."""
        return path

    def _block_locations(self, status: FileStatus, start: int, end: int) -> list[BlockLocation]:
        """Return one location on this host, as stores without locality do."""
        return [BlockLocation(start, end - start, ("localhost",), ("localhost:9866",))]

    def _default_working_directory(self) -> str:
        return self.home_directory

    def _public_name(self, path: str) -> str:
        """Return the name under which hflush.open finds a path."""
        return self._uri + path[1:]

    def _named(self, path: str) -> str:
        """Return the name of a path in errors, their ``filename``."""
        return path

    def _store_path(self, status: FileStatus) -> str:
        """Return the path of a status, which may hold names that cannot be created.

        Raises
        ------
        ValueError
            It is of another file system.
        """
        prefix = self._public_name("/")
        if status.path.startswith(prefix):
            return "/" + status.path[len(prefix) :]
        if paths.parse(status.path).scheme is None:
            raise ValueError(f"wrong file system: {status.path!r} is not in {self.uri}")
        return self._resolve(status.path)

    def _loop_id(self, status: FileStatus) -> object:
        """Return what tells a directory from those above it; None if none can be below itself."""
        return status.file_id

    def _settings(self) -> dict[str, Any]:
        """Return what has been set on this instance beyond its configuration."""
        return {"_working_directory": self._working_directory} if self._working_directory else {}

    def _is_as_made(self) -> bool:
        """Return whether another one that is made of the same configuration would be equal."""
        return not self._settings()

    def _shares_files_with(self, other: NameSpace) -> bool:
        """Return whether both may show the same files: then their file ids can be compared."""
        return self.uri == other.uri

    def _is_alias_of(self, other: NameSpace, status: FileStatus, path: str) -> bool:
        """Return whether this is the other file system under another name, as far as one can tell.

        That is asked before what has a status there is moved here, to its own path or below it.
        """
        return False

    def _behind(self, path: str) -> tuple[Self, str]:
        """Return the file system that has a file, and its path there: of a view, another one."""
        return self, path

    def _leads_to(self, path: str) -> tuple[Self, str]:
        """Return the same, also where the path is the link of a view itself."""
        return self, path

    def _store_at(self, path: str) -> Self:
        """Return the file system that decides about a path: of a view, the one behind the link."""
        return self

    def _properties(self, path: str) -> dict[str, str]:
        """Return what a file has besides its bytes, as options by which this store creates one."""
        return {}

    def _accepts(self, location: Location) -> bool:
        """Whether a URL is of this file system; one without a host is of ``fs.defaultFS``."""
        if location.scheme != self._scheme:
            return False
        authority = location.authority
        if self._authority and not authority:
            default = paths.parse(self._conf.default_file_system())
            authority = default.authority if default.scheme == self._scheme else ""
            if not location.has_slashes:
                paths.check_slashes(location.written_scheme, location.path)
        return self._is_own(authority)

    def _is_own(self, authority: str) -> bool:
        return authority == self._authority

    def _resolve(self, path: StrPath) -> str:
        """Return the absolute, normalised path of what the caller wrote.

        Raises
        ------
        TypeError, InvalidPathError
            It is not text; it is not a name.
        ValueError
            It is a URL of another file system.
        """
        location = paths.parse(path)
        if location.scheme is not None and not self._accepts(location):
            named = without_passwords(repr(paths.as_text(path)))
            raise ValueError(f"wrong file system: {named} is not in {self.uri}")
        begin = "/" if location.path.startswith("/") else self.working_directory
        return paths.normalize(location.path, begin, any_name=self._takes_any_name)

    def _resolve_to_change(self, path: StrPath) -> str:
        """Return the same for an operation that changes what is there: names may be reserved."""
        return self._resolve(path)

    # --- moves by copying: see hflush.transfer ---

    def _is_link(self, path: str) -> bool:
        """Whether a path, which exists, is a symbolic link: it goes without what it leads to."""
        return False

    def _link_text(self, path: str) -> str:
        """Return what a symbolic link says."""
        return ""

    def _has_acl(self, path: str) -> bool:
        """Whether an ACL says who may do what, and the bits of the group are no more than its mask.

        It may be of those who are named in it, and not of the group.
        """
        return self._status(path).has_acl

    def _is_being_written(self, path: str) -> bool:
        """Whether a client is known to be writing a file."""
        return False

    # Whether a recursive `_list_files` asks for all that is below, and does not walk there.
    _lists_trees = False

    def _removed_at_once(self) -> int:
        """Return how many files :meth:`_remove_files` removes by one request."""
        return 1

    def _remove_files(self, files: Sequence[str]) -> list[tuple[str, OSError]]:
        """Remove files and links; return those that could not be, and why."""
        failures: list[tuple[str, OSError]] = []
        for path in files:
            try:
                self._delete(path, False)
            except OSError as failure:  # noqa: PERF203
                failures.append((path, failure))
        return failures

    def _remove_emptied(
        self,
        directory: str,
        copied: Collection[str],
    ) -> list[str]:
        """Remove a directory in which there is nothing, not even what listings leave out.

        Return what there is; some of it, if it is much. `copied` are the names of the directories
        in it that are at the target: what a store keeps of such a one goes, too.
        """
        left = [self._store_path(status) for status in self._list(directory)]
        if not left:
            self._delete(directory, False)
        return left

    def _also_at(self, path: str) -> list[str]:
        """Return what is below a path at which a file is, as there may be on S3; some of it."""
        return []

    def _is_directory_too(self, path: str) -> bool:
        """Whether a file is at a path, and others below it, as there may be on S3."""
        return False

    def _file_above_others(self, directory: str) -> str | None:
        """Return a file in a tree below which there are others, as there may be on S3."""
        return None

    # --- streams that can be resumed: see hflush.tokens ---

    def _persists(self, stream: FSDataOutputStream) -> bool:
        """Whether a stream of this file system has persist()."""
        return False

    def _persist(self, stream: FSDataOutputStream) -> bytes:
        """Make what was written to a stream recoverable; one thread at a time for each stream."""
        raise unsupported("persist", self.store_name, stream._error_path)

    # `before_cut` is called, and may raise, before another writer loses the file; and when none has
    # it any more, before what it has behind the token goes. Both may be one call, or not be needed.

    def _resume(
        self, token: Token, path: str, before_cut: Callable[[], None]
    ) -> tuple[FSDataOutputStream, Claim | None]:
        """Open a stream that goes on where a token ends; and what keeps others from its file."""
        raise unsupported("resume", self.store_name, self._named(path))

    def _commit(self, token: Token, path: str, before_cut: Callable[[], None]) -> None:
        """Publish what a token of this file system stands for, unless that has been done."""
        raise unsupported("commit", self.store_name, self._named(path))

    # --- files that are published later, in any process: capabilities.DELAYED_COMPLETION ---

    def _create_delayed(self, path: str) -> FSDataOutputStream:
        """Create a file with a name of its own, which close() does not publish."""
        raise unsupported("delayed completion", self.store_name, self._named(path))

    def _delayed_handle(self, stream: FSDataOutputStream) -> str:
        """Return what stands for the file of such a stream, which is closed."""
        raise unsupported("delayed completion", self.store_name, stream._error_path)

    def _delayed_age(self, handle: str) -> float:
        """Return how many seconds ago the stream was created."""
        raise unsupported("delayed completion", self.store_name)

    def _has_delayed(self, handle: str) -> bool:
        """Whether the store still has the file, which was not published; True if it does not tell.

        Some end after a while what is not completed.
        """
        raise unsupported("delayed completion", self.store_name)

    def _publish_delayed(self, handle: str, path: str) -> None:
        """Publish the file, or see that it was; FileNotFoundError if it is lost.

        ValueError if the handle is not of a file that is to be at the path.
        """
        raise unsupported("delayed completion", self.store_name)

    def _drop_delayed(self, handle: str) -> None:
        """Drop the file; one that was published stays."""
        raise unsupported("delayed completion", self.store_name)

    # --- side files ---

    # Whether the files are on this machine only.
    _is_local = False
    # Options, as hints, for a file that will be renamed when it is complete.
    _to_be_renamed: Mapping[str, OptionValue] = {}

    def _side_files(self, path: str) -> tuple[str, ...]:
        """Return where another program may have left side files of an earlier file at `path`."""
        return ()

    def _sums_of(self, path: str) -> tuple[str, ...]:
        """Return the side files that the store has for a file, like it in owner and mode."""
        return ()

    # --- files that appear whole: see hflush.atomic ---

    # Whether a dropped atomic stream removes its temporary file: not where a network would wait.
    _discards_dropped = False

    def _claim(self, temporary: str) -> Claim | None:
        """Claim a temporary file, so that no sweep removes it; None if one is removing it."""
        return Claim()

    def _discard(self, temporary: str) -> bool:
        """Remove a temporary file; return whether it was there."""
        return self._delete(temporary, False)

    def _sweep(self, directory: str) -> None:  # noqa: B027
        """Remove the temporary files of dead writers from a directory."""

    def _check_publication(self, path: str, overwrite: bool) -> None:  # noqa: B027
        """Refuse an atomic file that no rename to `path` could publish."""

    def _sync_entry(self, path: str) -> None:  # noqa: B027
        """Put the name of a file on disk, unless the store does so when the file is made."""

    def _check_create(self, wanted: CreateOptions) -> None:  # noqa: B027
        """Refuse options that are known but not supported with these values."""
