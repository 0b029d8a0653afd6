"""FileSystem: the name space of a store, and the streams made in it."""

from __future__ import annotations

import atexit
import errno
import os
import sys
import threading
from weakref import ref

from . import _core, capabilities, paths, registry
from . import options as options_of
from .builders import FileBuilder, OpenFileBuilder
from .bulk_delete import BulkDelete
from .configuration import Configuration
from .errors import ParentNotDirectoryError, PathIsDirectoryError, attach, unsupported
from .general_keys import KEYS, pickles_secrets
from .handling import marks
from .keys import Reader
from .leaving import add_lost, lost_keys
from .optional_operations import OptionalOperations
from .options import CreateFlag, CreateOptions, Rename
from .statistics import IOStatistics, live
from .write_only import report, view_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType
    from typing import Any, TypeAlias, overload

    from typing_extensions import Buffer, Self, Unpack

    from .claims import Claim
    from .keywords import CreateKeywords, OpenKeywords
    from .namespace import Conf
    from .options import Options
    from .paths import StrPath
    from .registry import Factory
    from .status import FileStatus
    from .streams import FSDataInputStream, FSDataOutputStream
    from .tokens import Token

    # The class of file systems, and the keys that say who used them, and where.
    Caller: TypeAlias = "tuple[type[FileSystem], dict[str, str]]"

__all__ = ["FileSystem"]


class FileSystem(OptionalOperations):
    """The name space of one store: files are created, found, moved and removed here.

    Get a shared one by :meth:`get`, a new one by :meth:`new_instance`. A path is a
    string or :class:`os.PathLike`: absolute, relative to the working directory, or a URL of this
    file system; a path of another one is ValueError. Instances may be used by several threads and
    can be pickled: the other side makes its own connections, as the same user. Secrets travel with
    ``hflush.pickle.secrets``; without, what needs one is refused there.

    Every failure is raised. What a store does not have raises :class:`io.UnsupportedOperation`,
    and :meth:`has_path_capability` and :attr:`contract_options` say so beforehand. Nothing is
    atomic unless its method says so.

    Notes
    -----
    Source: Hadoop's FileSystem specification, and FileContext for the exact forms of create and
    rename.
    """

    def __init__(self, scheme: str, authority: str, conf: Configuration) -> None:
        keys = Reader(conf, KEYS)
        self._on_exception = keys.text(options_of.ON_EXCEPTION)
        size = keys["io.file.buffer.size"]
        self._buffer_size = _READ_AHEAD_BYTES if size is None else int(size)
        super().__init__(scheme, authority, conf)
        # The open streams. Added, removed and copied in one step each, without the lock: a
        # dropped stream removes itself, and in a forked child the lock may be held for ever.
        self._streams: set[ref[FSDataOutputStream]] = set()
        # Guards the fields below. Reentrant: a destructor that closes a stream may run within.
        self._lock = threading.RLock()
        self._finished = _core.StatisticsSum()
        self._doomed: set[str] = set()
        self._made_for = registry.identity(scheme, authority, self._conf)
        self._hash = hash((type(self), self._made_for))
        _instances.add(_ById(self, _instances.discard))

    # --- instances ---

    @staticmethod
    def get(url: StrPath | None = None, conf: Conf = None) -> FileSystem:
        """Return the shared file system of a URL: one per scheme, authority, user and conf.

        On S3 also per server and credentials of the environment: it is read at each call. An
        instance is shared as long as a program or a stream uses it. Of those that are not in use
        the last are kept: 8 of one scheme, authority and user, 64 in all. Where Hadoop's key
        ``fs.SCHEME.impl.disable.cache`` is true, each call returns a new one.

        Parameters
        ----------
        url : str or os.PathLike, optional
            Any URL in the store; without a scheme, ``fs.defaultFS`` decides.
        conf : mapping, optional
            Set on top of the default :class:`hflush.Configuration`; later changes have no effect.

        Raises
        ------
        UnsupportedFileSystemError
            No store serves the scheme, or ``fs.defaultFS`` has none.
        """
        configuration = Configuration.of(conf)
        filesystem: FileSystem = registry.shared(url, configuration)
        return filesystem

    @staticmethod
    def new_instance(url: StrPath | None = None, conf: Conf = None) -> FileSystem:
        """Return a new file system of a URL, not shared; otherwise as :meth:`get`."""
        configuration = Configuration.of(conf)
        filesystem: FileSystem = registry.made(url, configuration)
        return filesystem

    @staticmethod
    def register(scheme: str, factory: Factory) -> None:
        """Let `factory(scheme, authority, conf)` make the file systems of a scheme."""
        registry.replace(scheme, factory)

    def close(self) -> None:
        """Close the output streams that are open, then remove what :meth:`delete_on_exit` noted.

        Raises
        ------
        OSError
            The first stream that could not be closed; the others are attached as notes. All are
            closed.
        """
        registry.forget(self)
        streams = self._open_streams()
        first: BaseException | None = None
        for stream in streams:
            try:
                self._end_open(stream)
            except BaseException as failure:  # noqa: PERF203 -- KeyboardInterrupt, too
                if first is None:
                    first = failure
                elif failure is not first:
                    attach(first, failure)
        self._remove_doomed()
        if first is not None:
            raise first

    def _open_streams(self) -> list[FSDataOutputStream]:
        streams = [tracked() for tracked in self._streams.copy()]
        return [stream for stream in streams if stream is not None]

    def _abandon_open(self) -> None:
        """Where the process ends: publish nothing more of the streams that are open, and say so."""
        for stream in self._open_streams():
            if stream._abandon():
                report(stream, "never closed, not published")

    def _end_open(self, stream: FSDataOutputStream) -> None:
        """End a stream that is open when the file system is closed.

        One that publishes only when it is closed is aborted: the program has not closed it. What
        was persisted of it stays.
        """
        if not stream.has_capability(capabilities.ABORTABLE):
            stream.close()
        elif not stream._withdraw().already_closed:
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
        sends_secrets = self._pickles_secrets()
        conf = self._conf if sends_secrets else self._conf.without_secrets()
        lost = [*lost_keys(self._conf), *(key for key in self._conf if key not in conf)]
        callers = self._callers(sends_secrets)
        said = {key for _, caller in callers for key in caller}
        keys = {key: text for key, text in conf.raw_items() if key not in said}
        return type(self)._reconnect, (self.uri, keys, self._settings(), callers, lost)

    @classmethod
    def _reconnect(
        cls,
        uri: str,
        conf: dict[str, str],
        settings: dict[str, Any],
        callers: Sequence[Caller],
        lost: Sequence[str],
    ) -> FileSystem:
        """Return the file system of a pickle: a shared one, unless something was set on it.

        A method, so that the pickle names the class, whose package registers its store.
        """
        configuration = Configuration(load_defaults=False)
        configuration.update(conf)
        for kind, caller in callers:
            configuration.update(kind._foreign(caller, configuration))
        add_lost(configuration, lost)
        if not settings:
            return cls.get(uri, configuration)
        filesystem = cls.new_instance(uri, configuration)
        for name, value in settings.items():
            setattr(filesystem, name, value)
        return filesystem

    def __eq__(self, other: object) -> bool:
        """Whether :meth:`get` would take one for the other: of one place, user, conf, environment.

        And what was set on them is equal, too. A class that has more to tell them apart says so in
        an ``__eq__`` and ``__hash__`` of its own.
        """
        if self is other:
            return True
        if not isinstance(other, FileSystem) or type(self) is not type(other):
            return NotImplemented
        return (self._made_for, self._settings()) == (other._made_for, other._settings())

    def __hash__(self) -> int:
        return self._hash

    def __copy__(self) -> Self:
        """Return the same: instances are shared, and a pickle would lose its secrets."""
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def _is_as_made(self) -> bool:
        return super()._is_as_made() and not self._doomed

    def _pickles_secrets(self) -> bool:
        """Whether pickles carry secrets."""
        return pickles_secrets(self._conf)

    def _callers(self, with_secrets: bool) -> list[Caller]:
        """Return what :meth:`_caller` says of each file system that this one consists of."""
        return [(type(self), self._caller(with_secrets))]

    def _caller(self, with_secrets: bool) -> dict[str, str]:
        """Return the keys that say who we are, and where, unless the program has set them."""
        return self._caller_of_all(self._conf, with_secrets)

    @classmethod
    def _caller_of_all(cls, conf: Configuration, with_secrets: bool) -> dict[str, str]:  # noqa: ARG003
        """Return what :meth:`_caller` says of all file systems of this kind."""
        return {}

    @classmethod
    def _joined(cls, callers: Iterable[dict[str, str]]) -> dict[str, str]:
        """Return what :meth:`_caller` of several says together: the last that says something."""
        return {key: text for caller in callers for key, text in caller.items()}

    @classmethod
    def _foreign(cls, caller: dict[str, str], conf: Configuration) -> dict[str, str]:  # noqa: ARG003
        """Return the keys that a sender has, and this process would not have by itself."""
        return caller

    def io_statistics(self) -> IOStatistics:
        """Return the summed statistics of the closed output streams that were made here."""
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
            Mode bits, less the umask, also of a file that is replaced. If left out: 0o666, and a
            local file that is replaced keeps its own.
        buffer_size, block_size : int or str, optional
            Bytes, as hints: ``65536``, ``"128m"``. A buffer size of 0 hands every write on at once.
        replication : int, optional
            Copies, on stores that keep several.
        flags : set of CreateFlag, optional
            FileContext's form, instead of `overwrite`: CREATE refuses a file that exists,
            OVERWRITE or APPEND a missing one; with CREATE they accept both (APPEND on a store
            without append only a missing one).
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
            A parent is missing and must not be made; the flags need a file that is missing.
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
        sets_nothing = (
            permission is None
            and buffer_size is None
            and replication is None
            and block_size is None
        )
        is_usual = overwrite is True and recursive is True and create_parent is None
        if is_usual and sets_nothing and flags is None and not options:
            return self._build(path, _REPLACE, {}, True)
        replaces = options_of.flag("overwrite", overwrite)
        if flags is None:
            chosen = _REPLACE if replaces else CreateFlag.CREATE
        else:
            chosen = CreateFlag.joined(flags)
            if not replaces and CreateFlag.OVERWRITE in chosen:
                raise ValueError("overwrite=False contradicts CreateFlag.OVERWRITE")
            is_append = CreateFlag.APPEND in chosen and CreateFlag.CREATE not in chosen
            if is_append and not self.has_path_capability(path, capabilities.APPEND):
                self._status(self._resolve_to_change(path))  # a missing file is reported first
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

    def put_if_absent(self, path: StrPath, data: Buffer) -> bool:
        """Make a file of some bytes if there is none: of many that try, one wins.

        Parameters
        ----------
        path : str or os.PathLike
            The file. Missing parent directories are made.
        data : bytes-like
            All of its content.

        Returns
        -------
        bool
            True: this call made the file; it is whole, and on disk. False: another one did, before
            or meanwhile; that file is whole and unchanged, and can be read.

        Raises
        ------
        PathIsDirectoryError, ParentNotDirectoryError, InvalidPathError, TypeError
            As :meth:`create`.
        BufferError
            `data` is not C-contiguous.
        io.UnsupportedOperation
            A store of S3's kind that does not check ``If-None-Match``: two could win there.
        NotDurableError
            This call made the file, but it may not survive a failure of the machine.
        OSError
            The store refuses, and there is no file; or it cannot be asked whether this call has
            made one, which the exception says.

        Notes
        -----
        An answer that gets lost is not taken for a refusal: the store is asked whose file is there.
        On S3 one request, which does not look for a directory of that name; elsewhere a temporary
        file and a rename that replaces nothing.
        Source: docs/semantics.md; contract CKPT-16.
        """
        content = view_of(data)
        return self._put_if_absent(self._resolve_to_change(path), content)

    def _put_if_absent(self, path: str, data: memoryview) -> bool:
        from .atomic import put_aside

        atomic: Options = {options_of.ATOMIC: (True, options_of.Wish.MUST)}
        try:
            stream = self._create_at(path, False, CreateOptions(atomic))
        except (PathIsDirectoryError, ParentNotDirectoryError):
            raise
        except FileExistsError:
            return False
        return put_aside(stream, data)

    def append(
        self,
        path: StrPath,
        *,
        buffer_size: int | str | None = None,
        flags: CreateFlag | Iterable[CreateFlag] = CreateFlag.APPEND,
        **options: Unpack[CreateKeywords],
    ) -> FSDataOutputStream:
        """Open a file to write at its end; opening changes nothing about it.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        buffer_size : int or str, optional
            A hint in bytes; 0 hands every write on at once.
        flags : set of CreateFlag
            How to append: NEW_BLOCK, SYNC_BLOCK. APPEND may be left out.
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
        """Return a builder that creates a file; it overwrites, and makes parents only if asked."""
        return FileBuilder(self._build, paths.as_text(path), _REPLACE)

    def append_file(self, path: StrPath) -> FileBuilder:
        """Return a builder that appends to a file."""
        return FileBuilder(self._build, paths.as_text(path), CreateFlag.APPEND)

    def _build(
        self, path: StrPath, flags: CreateFlag, options: Options, create_parent: bool
    ) -> FSDataOutputStream:
        if not options and create_parent and flags == _REPLACE:
            return self._create_at(self._resolve_to_change(path), True, _USUAL)
        appends_only = CreateFlag.APPEND in flags and CreateFlag.CREATE not in flags
        known = self.append_options if appends_only else self.create_options
        options_of.check_known(options, known)
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
        for _ in range(_APPEND_ATTEMPTS):
            try:
                return self._track(self._append(resolved, wanted), resolved, "ab", wanted)
            except FileNotFoundError:
                if CreateFlag.CREATE not in flags:
                    raise
            try:
                return self._create_at(self._write_target(resolved), False, wanted)
            except (PathIsDirectoryError, ParentNotDirectoryError):
                raise
            except FileExistsError:
                continue  # another program has made it: append to that
        message = f"append: other programs made and removed the file {_APPEND_ATTEMPTS} times"
        raise OSError(errno.EAGAIN, message, self._named(resolved))

    def _create_at(self, path: str, overwrite: bool, options: CreateOptions) -> FSDataOutputStream:
        if path == "/":
            message = "create: path is the root directory"
            raise PathIsDirectoryError(errno.EISDIR, message, self._named(path))
        create = self._create_atomically if options.atomic else self._create
        stream = create(path, overwrite, options)
        mode = "wb" if overwrite else "ab" if CreateFlag.APPEND in options.flags else "xb"
        return self._track(stream, path, mode, options)

    def _create_atomically(
        self, path: str, overwrite: bool, options: CreateOptions
    ) -> FSDataOutputStream:
        """Create a file that appears when it is closed, on a store that shows open files."""
        from .atomic import create_aside

        return create_aside(self, path, overwrite, options)

    def _track(
        self, stream: FSDataOutputStream, path: str, mode: str, options: CreateOptions
    ) -> FSDataOutputStream:
        on_exception = options.on_exception or self._on_exception
        older = None if on_exception == "publish" else marks()
        stream._bind(self, self._public_name(path), mode, older)
        self._streams.add(ref(stream, self._streams.discard))
        return stream

    def _release(self, stream: FSDataOutputStream) -> None:
        """Forget a stream that has ended, and add its statistics, once."""
        tracked = ref(stream)  # equal to any other of the same stream
        with self._lock:
            if tracked in self._streams:
                self._streams.remove(tracked)
                self._finished.add(stream, stream._own_statistics())
            held, stream._held = stream._held, None
        if held is not None:
            held.release()

    def resume(self, token: bytes) -> FSDataOutputStream:
        """Go on with a stream at the byte where it was persisted: see :func:`hflush.resume`."""
        return self._resume_unless(token, _go_on)

    def _resume_unless(self, token: bytes, before_cut: Callable[[], None]) -> FSDataOutputStream:
        """Resume, unless `before_cut` raises: see :meth:`_resume`."""
        found, path = self._own_token(token)
        stream, held = self._resume(found, path, before_cut)
        self._track(stream, path, "ab", CreateOptions({}, True))
        if held is not None:
            self._hold(stream, held)
        return stream

    def _hold(self, stream: FSDataOutputStream, claim: Claim) -> None:
        """Keep a claim until a stream ends; release it if that has happened."""
        with self._lock:
            if ref(stream) in self._streams:
                stream._held = claim
                return
        claim.release()

    def commit(self, token: bytes) -> None:
        """Publish what was persisted: see :func:`hflush.commit`."""
        self._commit_unless(token, _go_on)

    def _commit_unless(self, token: bytes, before_cut: Callable[[], None]) -> None:
        """Commit, unless `before_cut` raises: see :meth:`_resume`."""
        self._commit(*self._own_token(token), before_cut)

    def _own_token(self, token: bytes) -> tuple[Token, str]:
        from .tokens import Token

        found = Token.unpack(token)
        if found.store != self.store_name:
            raise ValueError(f"{found!r} does not belong to {self.store_name}, {self.uri}")
        return found, self._path_of_token(found)

    def _path_of_token(self, token: Token) -> str:
        return self._resolve_to_change(token.url)

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
            An option is unknown; a value is malformed.
        FileNotFoundError, NotAFileError
            It is missing; it is a directory. Found out here, not at the first read.
        PermissionError, OSError
            The store refuses.

        Notes
        -----
        Source: Hadoop's FileSystem.open; contract READ-1 to READ-18.
        """
        wanted = options_of.required(options, options_of.OPEN_KEYWORDS, ("buffer_size",))
        options_of.check_known(wanted, self.open_options)
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
            given = options_of.read(options, options_of.OPEN_BUFFER_SIZE, options_of.as_size)
            size = self._buffer_size if given is None else given
        for key in options_of.SIZES_KNOWN.intersection(options):
            options_of.read(options, key, options_of.as_number)  # refused if it is none
        return self._open_known(self._resolve(path), max(size, 1), options, status)

    def open_file(self, path: StrPath) -> OpenFileBuilder:
        """Return a builder that opens a file for reading; its build() returns a future."""
        return OpenFileBuilder(self._open_asked, self.open_options, paths.as_text(path))

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
            False if there was nothing to do. Callers may ignore it.

        Raises
        ------
        OSError
            A directory is not empty (``ENOTEMPTY``) and `recursive` is False.
        PermissionError
            It may not be removed.

        Notes
        -----
        The root and its contents always stay: PermissionError on local files; elsewhere False,
        as in Hadoop, or ``ENOTEMPTY`` as for any directory.
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
            The source is missing; in the exact form also: the destination has no parent.
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

        At the end of the process at the latest; not in a forked child, which noted nothing.

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
            if id(self) not in _with_doomed:
                call_first_at_end(_remove_all_doomed)  # before the store ends its connections
                _with_doomed[id(self)] = self
        return True

    def cancel_delete_on_exit(self, path: StrPath) -> bool:
        """Let a path stay that :meth:`delete_on_exit` noted; return whether it was noted."""
        resolved = self._resolve_to_change(path)
        with self._lock:
            was_noted = resolved in self._doomed
            self._doomed.discard(resolved)
            if not self._doomed:
                _with_doomed.pop(id(self), None)
        return was_noted

    def _remove_doomed(self) -> None:
        """Remove what was noted, deepest first; a failure is only logged."""
        with self._lock:
            doomed, self._doomed = sorted(self._doomed, key=paths.depth, reverse=True), set()
            _with_doomed.pop(id(self), None)
        for path in doomed:
            try:
                self.delete(path, recursive=True)
            except Exception as failure:  # noqa: PERF203
                import logging

                logging.getLogger(__name__).warning("delete on exit: %s", failure)

    def bulk_delete(self, base: StrPath) -> BulkDelete:
        """Return an object that removes many paths below `base`, a page at a time."""
        page_size = self._delete_page_size()
        return BulkDelete(
            self._resolve(base), self._resolve_to_change, self._delete_page, page_size
        )

    def _delete_page_size(self) -> int:
        """Return how many paths a page has; 1 in Hadoop where a page is no single request."""
        return 1000

    def _delete_page(self, page: Sequence[str]) -> list[tuple[str, OSError]]:
        """Remove files and empty directories; return those that could not be, and why."""
        failures: list[tuple[str, OSError]] = []
        for path in sorted(page, key=paths.depth, reverse=True):
            try:
                self.delete(path)
            except OSError as failure:  # noqa: PERF203
                failures.append((path, failure))
        return failures

    def copy_from_local_file(
        self, src: StrPath, dst: StrPath, delete_source: bool = False, overwrite: bool = True
    ) -> None:
        """Copy a local file or tree to this store, into `dst` if that is a directory.

        Checksums of local files that have sidecars are verified.

        Parameters
        ----------
        src, dst : str or os.PathLike
            The local path, and that in this store.
        delete_source : bool
            Remove what was copied when all of it is, and nothing else.
        overwrite : bool
            Replace files that are there; else the first is FileExistsError.

        Raises
        ------
        FileNotFoundError, FileExistsError, OSError
            The source is missing; the destination exists; one is a tree, the other a file. All was
            copied, but some of the source stays (``ENOTEMPTY``): hidden, new or changed meanwhile.
        """
        from .transfer import copy

        copy(
            self._local_files(raw=False),
            self._local_path(self._local_files(raw=True), src),  # any name that there may be
            self,
            self._resolve_to_change(dst),
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
        """Copy a file or tree of this store to local files, into `dst` if that is a directory.

        Checksum sidecars are written beside them unless `use_raw_local`.

        Raises
        ------
        FileNotFoundError, FileExistsError, OSError
            As :meth:`copy_from_local_file`.
        """
        from .transfer import copy

        local = self._local_files(raw=options_of.flag("use_raw_local", use_raw_local))
        moves = options_of.flag("delete_source", delete_source)
        copy(
            self,
            self._resolve_to_change(src) if moves else self._resolve(src),
            local,
            self._local_path(local, dst),
            delete_source=moves,
            overwrite=options_of.flag("overwrite", overwrite),
        )

    def _local_path(self, local: FileSystem, path: StrPath) -> str:
        """Return the absolute path of a local file that the caller has named."""
        return local._resolve(path)

    def _local_files(self, raw: bool) -> FileSystem:
        configuration = self._conf.copy()
        configuration["fs.file.checksum"] = not raw
        return FileSystem.get("file:///", configuration)


# --- instances -----------------------------------------------------------------------------------

_READ_AHEAD_BYTES = 64 << 10
_APPEND_ATTEMPTS = 10
_REPLACE = CreateFlag.CREATE | CreateFlag.OVERWRITE
# Those of create() where nothing is asked: made once, only read.
_USUAL = CreateOptions({}, True, _REPLACE)
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


class _ById(ref[FileSystem]):
    """A weak reference to one instance: others may be equal to that."""

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__


_instances: set[_ById] = set()


def _go_on() -> None:
    """Let what is behind a token go: the callers of resume and commit want that."""


def instances() -> list[FileSystem]:
    """Return the file systems that are in use."""
    found = [instance() for instance in _instances.copy()]
    return [filesystem for filesystem in found if filesystem is not None]


_at_end: list[Callable[[], object]] = []


def call_first_at_end(function: Callable[[], object]) -> None:
    """Call a function at exit, before what has registered so far, and once: forget earlier calls.

    Also where a child of multiprocessing ends. Not while the process ends: what registers then is
    not called, and the earlier call is to come.
    """
    if threading.main_thread().is_alive():
        atexit.unregister(function)
        _at_end[:] = [other for other in _at_end if other is not function]
    atexit.register(function)
    _at_end.append(function)


# Those that have something to remove at exit, by id: others may be equal.
_with_doomed: dict[int, FileSystem] = {}


def _remove_all_doomed() -> None:
    for filesystem in list(_with_doomed.values()):
        filesystem._remove_doomed()


def _forget_parent() -> None:
    """In a forked child: the threads of the parent that held locks are not there to free them.

    What is to be removed at exit, and the streams that are open, are the parent's.
    """
    _with_doomed.clear()
    for filesystem in instances():
        filesystem._lock = threading.RLock()
        filesystem._doomed = set()
        for stream in filesystem._open_streams():
            stream._persisting = threading.RLock()
        filesystem._streams = set()


os.register_at_fork(after_in_child=_forget_parent)


# --- children of multiprocessing: those that are forked end without what atexit calls -------------


class _Watch:
    """Has multiprocessing end what is open where this process ends, or one that it forks.

    Multiprocessing holds it weakly, so that only the last one counts. No name of this module holds
    an object of multiprocessing: the program's functions, and its streams, would stay with it.
    """

    def __init__(self) -> None:
        if "multiprocessing.util" in sys.modules:
            from multiprocessing import util

            util.register_after_fork(self, _Watch.begin)  # a child begins without finalizers
            self.begin()

    def begin(self) -> None:
        """Let the end be called last of all that multiprocessing calls: others close streams.

        Not in a child that was spawned: that calls atexit's functions, too.
        """
        import multiprocessing
        from multiprocessing import util

        is_child = multiprocessing.parent_process() is not None
        if is_child and multiprocessing.get_start_method() in ("fork", "forkserver"):
            util.Finalize(None, _end_child, exitpriority=-1000)


def _watch() -> None:
    global _watching  # noqa: PLW0603
    _watching = _Watch()


_END = "hflush-end"


def _end_child() -> None:
    """End what is open in a child, behind its other threads, which may use it.

    Python waits for these later, so a thread does that first; and Python waits for that one.
    """
    try:
        threading.Thread(target=_end_after_others, name=_END).start()
    except RuntimeError:  # there are no more threads to be had
        _end_open()


def _end_after_others() -> None:
    main = threading.main_thread()
    while others := [
        one
        for one in threading.enumerate()
        if not one.daemon and one is not main and one.name != _END  # an earlier import's, too
    ]:
        for thread in others:
            thread.join()
    _end_open()


def _end_open() -> None:
    for function in reversed(_at_end):
        function()
    for filesystem in instances():
        filesystem._abandon_open()


_watching = _Watch()
os.register_at_fork(after_in_child=_watch)


class _Last:
    """Reports the streams that are still open at exit and that no destructor will reach.

    A daemon thread, which Python does not end, or pyarrow, which releases nothing, may hold them.
    The attributes of `sys` are removed after all modules, when no other code can close a stream
    any more; so this object holds references to all that it calls. And to the one of an earlier
    import of this module, whose streams are still in use.
    """

    __slots__ = ("_abandon", "_earlier", "_give_up", "_instances", "_report")

    def __init__(self, earlier: object) -> None:
        self._earlier = earlier
        self._instances = _instances
        self._abandon = _core.OutputStream._abandon
        self._give_up = _core.OutputStream._give_up
        self._report = report

    def __del__(self) -> None:
        for instance in self._instances.copy():
            filesystem = instance()
            for stream in () if filesystem is None else filesystem._open_streams():
                if self._abandon(stream):
                    self._report(stream, "never closed, not published")
                elif self._give_up(stream):
                    self._report(stream, "the process ends within its close, perhaps not published")


sys._hflush_last = _Last(getattr(sys, "_hflush_last", None))  # type: ignore[attr-defined]
