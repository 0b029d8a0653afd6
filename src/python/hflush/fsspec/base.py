"""HflushFileSystem: a store as fsspec sees file systems, and local files among them."""

from __future__ import annotations

import datetime
import errno
import logging
import os
import re
import stat
import sys
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec  # type: ignore[import-untyped]
from fsspec.callbacks import DEFAULT_CALLBACK  # type: ignore[import-untyped]
from fsspec.compression import compr  # type: ignore[import-untyped]
from fsspec.core import get_compression  # type: ignore[import-untyped]
from fsspec.implementations.local import make_path_posix  # type: ignore[import-untyped]
from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]
from fsspec.utils import isfilelike  # type: ignore[import-untyped]

from .. import paths, registry, transfer
from ..configuration import Configuration, caller, sources
from ..errors import (
    ParentNotDirectoryError,
    means_file_there,
    means_nothing_there,
    unsupported,
    without_passwords,
)
from ..filesystem import FileSystem
from ..general_keys import LEFT_OUT, PICKLE_SECRETS, pickles_secrets
from ..leaving import add_lost, lost_keys
from ..opening import check_text, written_text
from ..options import OPEN_KEYWORDS, CreateFlag, Rename
from ..write_only import view_of
from . import options as words
from .copies import pairs, tree
from .files import as_fsspec_file, compressed
from .places import Place, check_apart, child
from .transactions import HeldFile, TransactionFile, WriteTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from typing_extensions import Self

    from ..namespace import Conf
    from ..status import FileStatus
    from ..streams import FSDataInputStream, FSDataOutputStream
    from .transactions import Deferred

__all__ = ["URL", "HflushFileSystem"]

_log = logging.getLogger(__name__)

_FLAGS = {
    "wb": CreateFlag.CREATE | CreateFlag.OVERWRITE,
    "xb": CreateFlag.CREATE,
    "ab": CreateFlag.CREATE | CreateFlag.APPEND,
}
# The modes of pipe_file and put_file, as those of open().
_MODES = {"overwrite": "wb", "create": "xb"}
_ANY_MODE = 0o777
_TYPE_BITS = {"file": stat.S_IFREG, "directory": stat.S_IFDIR, "symlink": stat.S_IFLNK}
# Arguments of open() for fsspec's own caches, which our streams do not have.
_HINTS = frozenset(
    ("cache_options", "cache_type", "default_cache", "default_cache_type", "fill_cache", "size")
)
# Arguments of cat_file and get_file that reach expand_path, besides those of FileSystem.open.
_OF_READERS = frozenset(("block_size", "buffer_size", "compression", "end", "outfile", "start"))
URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//([^/]*))?(/.*|$)", re.DOTALL)


# How many instances of a class fsspec keeps, in use or not.
_KEPT = 64


class _Interned(type(AbstractFileSystem)):  # type: ignore[misc]
    """Keeps instances apart that fsspec, which compares the repr of options, would take for one."""

    @property
    def process_state(cls) -> tuple[object, ...]:
        """Who the process is to a store, and what its environment says: of a cached instance."""
        return caller(), sources(), registry.environment()

    def __call__(cls, conf: Conf = None, **storage_options: Any) -> Any:
        if isinstance(conf, Configuration):
            conf = words.ExactConf(conf.raw_items())
        storage_options = words.settled({**storage_options, "conf": conf})
        conf = storage_options.pop("conf")
        if conf is not None:
            conf = cls._as_here(conf, storage_options)
        if conf or isinstance(conf, words.ExactConf):
            storage_options["conf"] = conf
        made = super().__call__(**storage_options)
        for oldest in list(cls._cache)[:-_KEPT]:  # which fsspec keeps for ever
            cls._cache.pop(oldest, None)
        return made


class HflushFileSystem(AbstractFileSystem, metaclass=_Interned):  # type: ignore[misc]
    """Local files, as fsspec sees file systems.

    Parameters
    ----------
    conf : mapping, optional
        As for :meth:`hflush.FileSystem.get`.
    auto_mkdir : bool
        Make missing parents of files that are written.
    pickle_secrets : bool
        Send secrets along when the instance is pickled or written as JSON, so that it works in
        another process: the key ``hflush.pickle.secrets``, which may stand here by its name.
    **storage_options
        fsspec's own, such as ``skip_instance_cache`` and ``use_listings_cache``.

    Raises
    ------
    TypeError, ValueError
        An option is unknown; its value is invalid.

    Notes
    -----
    ``open`` returns hflush's own streams, with the attributes of fsspec's files: nothing is
    published by garbage collection, and they have ``hflush`` and ``hsync``. Files that are written
    in a transaction are published at its end: see :mod:`hflush.fsspec.transactions`. Nothing is
    cached. A pickled instance, and its JSON, hold no secret without ``pickle_secrets``.
    """

    __module__ = "hflush.fsspec"

    protocol: tuple[str, ...] = ("hflush+file", "hflushfile")
    root_marker = "/"
    transaction_type = WriteTransaction
    # The schemes of URLs; the protocols of fsspec that this class can serve, and those that it
    # serves if register() names none; the name of the root in messages.
    _written_schemes = frozenset(("file", "local", *protocol))
    _replaces: tuple[str, ...] = ("file",)
    _replaces_unasked: tuple[str, ...] = ()
    _root = "the root"
    # The storage options besides fsspec's own.
    _words = frozenset(("auto_mkdir",))
    _extra_tokenize_attributes = ("process_state",)

    def __init__(
        self, conf: Conf = None, *, auto_mkdir: bool = True, **storage_options: Any
    ) -> None:
        self._conf = self._configured(conf, storage_options)
        super().__init__(**storage_options)
        self._makes_parents = auto_mkdir
        self._connect(storage_options)

    @classmethod
    def _configured(cls, conf: Conf, options: Mapping[str, Any]) -> Configuration:
        """Return `conf` with the storage options set on top.

        Raises
        ------
        TypeError, ValueError
            An option is unknown; it contradicts another; its value is invalid.
        io.UnsupportedOperation
            An option asks for something that is not supported.
        """
        words.check_known("storage option", options, cls._words | words.GENERIC | {"conf"})
        configuration = words.base(conf)
        given = {name: value for name, value in options.items() if value is not None}
        for word in words.PICKLE_WORDS:
            if word in given:
                configuration[PICKLE_SECRETS] = words.flag(word, given[word])
        add_lost(configuration, ())
        cls._set_keys(configuration, given)
        return configuration

    @classmethod
    def _set_keys(cls, configuration: Configuration, given: Mapping[str, Any]) -> None:
        """Set the keys that storage options stand for."""

    def _connect(self, options: dict[str, Any]) -> None:  # noqa: ARG002
        """Get ready for what the options mean; no store is asked yet."""
        self.filesystem = FileSystem.get("file:///", self._conf)

    @property
    def fsid(self) -> str:
        """An id that is equal for instances which see the same files."""
        return "hflush+local"

    def __reduce__(self) -> Any:
        made, (cls, args, options) = super().__reduce__()
        return made, (cls, args, self._sent(options))

    def __copy__(self) -> Self:
        """Return the same: instances are shared, and a pickle would lose its secrets."""
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def to_dict(self, *, include_password: bool = True) -> dict[str, Any]:
        """Return what another process needs for the same instance.

        Parameters
        ----------
        include_password : bool
            False: without secrets, also where ``pickle_secrets`` sends them.
        """
        options = super().to_dict(include_password=include_password)
        return self._sent(options, with_secrets=include_password)

    def _sent(self, options: dict[str, Any], *, with_secrets: bool = True) -> dict[str, Any]:
        """Return options as they may be sent: with who we are, and the names of what is left out.

        `with_secrets`: if the options themselves ask for that.
        """
        options = words.settled(options)
        if with_secrets and self._sends_secrets():
            return words.with_keys(options, self._caller(True))
        kept = words.without_secrets(options, self._conf)
        named = {name: kept[name] for name in kept if name in self._words | words.GENERIC}
        again = self._configured(kept.get("conf"), named)
        lost = [key for key in self._conf.secret_keys() if key not in again]
        lost += lost_keys(self._conf)
        keys = self._caller(False)
        lost += keys.pop(LEFT_OUT, "").split()
        return words.with_keys(
            kept, {**keys, LEFT_OUT: " ".join(sorted(set(lost)))} if lost else keys
        )

    def _sends_secrets(self) -> bool:
        return pickles_secrets(self._conf)

    def _caller(self, with_secrets: bool) -> dict[str, str]:  # noqa: ARG002
        """Return the keys that say who we are to the store, where the options do not."""
        return {}

    @classmethod
    def _as_here(cls, conf: Any, options: Mapping[str, Any]) -> Any:  # noqa: ARG003
        """Return a ``conf`` that was sent without what this process is by itself."""
        return conf

    # --- names ---

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = paths.as_text(path)
        url = cls._as_url(text)
        if url is not None:
            if url[3]:
                host = url[3].rpartition("@")[2]  # what stands before may be a secret
                raise ValueError(f"a {url[1]} URL names no host, but this one names {host!r}")
            text = url[4]
        if not text.startswith("/"):
            if text:
                paths.parse(text)  # refuses `~` and a URL without its colon
            text = f"{os.getcwd()}/{text}"  # noqa: PTH109
        name = paths.normalize(text, any_name=True)
        if ".." in text:
            paths.check_dots(text, "/")
        return name

    def unstrip_protocol(self, name: str) -> str:
        """Return the URL of a path."""
        return f"{self.protocol[0]}://{self._strip_protocol(name)}"

    @classmethod
    def _as_url(cls, text: str) -> re.Match[str] | None:
        """Return the parts of a URL; None if it is a path.

        Raises
        ------
        ValueError
            It is a URL of another store.
        """
        url = URL.fullmatch(text)
        if url is None:
            return None
        if url[1].lower() not in cls._written_schemes:
            shown = without_passwords(text)
            raise ValueError(f"wrong file system: {shown!r} is not a URL of {cls.protocol[0]}")
        return url

    def _place(self, path: Any) -> Place:
        """Return where a name leads to.

        Raises
        ------
        ValueError
            To another file system.
        """
        return Place(self.filesystem, self._strip_protocol(path), "")

    def filesystem_of(self, path: str) -> FileSystem:
        """Return the file system of hflush that serves a path."""
        return self._place(path).store

    # --- bytes ---

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: Any = None,
        compression: str | None = None,
        **options: Any,
    ) -> Any:
        """Open a file.

        Parameters
        ----------
        path : str
            The file.
        mode : str
            ``r``, ``w``, ``x`` or ``a``, with ``b`` or ``t``.
        block_size : int, optional
            Of a file that is written, on stores that have blocks.
        cache_options, cache_type, fill_cache, size : optional
            Hints for caches of fsspec, which our streams do not need.
        compression : str, optional
            A name that fsspec knows, or ``infer``. Closing what is returned closes the file.
        **options
            ``encoding``, ``errors`` and ``newline`` of text; else as for
            :meth:`hflush.FileSystem.create` and :meth:`hflush.FileSystem.open`.

        Notes
        -----
        Garbage collection publishes nothing, text and compressed data included.
        """
        if "b" not in mode:
            text = {
                key: options.pop(key) for key in ("encoding", "errors", "newline") if key in options
            }
            check_text(**text)  # before anything is touched
            if "r" in mode:
                return super().open(
                    path, mode, block_size, cache_options, compression, **text, **options
                )
            binary = mode.replace("t", "") + "b"
            stream = self.open(path, binary, block_size, cache_options, compression, **options)
            return written_text(stream, **text)
        if "r" in mode:
            return super().open(path, mode, block_size, cache_options, compression, **options)
        codec = get_compression(os.fspath(path), compression)  # before anything is touched
        autocommit = options.pop("autocommit", not self._intrans)
        if self._intrans and not autocommit:
            self.transaction.check_own(self._strip_protocol(path))
        with _plain_refusal() if "x" in mode else nullcontext():
            stream = self._open(path, mode, block_size, autocommit, cache_options, **options)
        if self._intrans and isinstance(stream, TransactionFile):  # otherwise the program ends it
            self.transaction.files.append(stream)
        return stream if codec is None else compressed(stream, compr[codec], mode[0])

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        autocommit: bool = True,
        cache_options: Any = None,  # noqa: ARG002
        **options: Any,
    ) -> FSDataInputStream | FSDataOutputStream | TransactionFile:
        name = self._strip_protocol(path)
        place = self._place(name)
        given = {key: value for key, value in options.items() if key not in _HINTS}
        if mode == "rb":
            return as_fsspec_file(place.store.open(place.path, **given), self, name, given)
        if mode not in _FLAGS:
            raise ValueError(f"mode must be one of rb, {', '.join(_FLAGS)}, not {mode!r}")
        if block_size is not None and mode != "ab":
            given.setdefault("block_size", block_size)
        given = {"flags": _FLAGS[mode], "recursive": self._makes_parents, **given}
        if autocommit:
            return as_fsspec_file(place.store.create(place.path, **given), self, name, given)
        if mode == "ab":
            raise unsupported("appending in a transaction", "hflush's fsspec file system", path)
        return TransactionFile(self._deferred(place, given), self, name)

    def _deferred(self, place: Place, options: dict[str, Any]) -> Deferred:
        """Open a file that is published later."""
        return HeldFile(place.store.create(place.path, **{**options, "atomic": True}))

    def start_transaction(self) -> WriteTransaction:
        """Begin a transaction, and return it; `end_transaction` publishes its files.

        Raises
        ------
        RuntimeError
            One has begun, and has not ended.
        """
        begun: WriteTransaction = self.transaction
        begun.start()
        return begun

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **options: Any
    ) -> Any:
        """Return the bytes of a file, or a slice of them; `options` are those of :meth:`open`."""
        if start == end is None or options.get("compression") is not None:
            return super().cat_file(path, start, end, **options)
        with self.open(path, "rb", **options) as file:
            first, behind = start or 0, sys.maxsize if end is None else end
            if first < 0 or behind < 0:  # only then: files of /proc do not say their size
                first, behind, _ = slice(start, end).indices(file.size)
            return file.pread(first, max(behind - first, 0))

    def cat(
        self, path: Any, recursive: bool = False, on_error: str = "raise", **options: Any
    ) -> Any:
        """Return the bytes of a file; of several, and of the files of a tree, a dict of them."""
        if not recursive:
            return super().cat(path, False, on_error, **options)
        found = self._expanded(path, True)
        files = sorted(self._files_of(found))
        if found and not files:
            return {}
        is_file = isinstance(path, (str, os.PathLike)) and files == [self._strip_protocol(path)]
        return super().cat(files[0] if is_file else files or path, False, on_error, **options)

    def _files_of(self, found: Mapping[str, str | None]) -> set[str]:
        """Return the files of trees, whose names have types."""
        return {name for name, kind in found.items() if kind != "directory"}

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **options: Any) -> None:
        """Write a file; `mode` is ``overwrite``, or ``create``.

        Raises
        ------
        FileExistsError
            There is one, and `mode` is ``create``: of many writers one succeeds.
        TypeError, BufferError
            `value` is not bytes-like; is not C-contiguous. Nothing is touched.
        """
        view_of(value)  # which refuses it
        with self.open(path, _open_mode(mode), **options) as out:
            out.write(value)

    def write_text(
        self,
        path: str,
        value: str,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        **options: Any,
    ) -> Any:
        """Write a file of text; TypeError, before anything is touched, for what is none."""
        if not isinstance(value, str):
            raise TypeError(f"value must be str, not {type(value).__name__}")
        return super().write_text(path, value, encoding, errors, newline, **options)

    def put(
        self,
        lpath: Any,
        rpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **options: Any,
    ) -> None:
        """Copy local files, or a whole tree, as fsspec does; all of it, as :meth:`get`.

        Raises
        ------
        OSError
            A tree or a pattern has a pipe, a socket or a device (``EINVAL``). Nothing was copied.
        """
        local = lpath if isinstance(lpath, list) else make_path_posix(lpath)
        names, targets, _ = pairs(
            HflushFileSystem(conf={"fs.file.checksum": "false"}),
            local,
            self._names(rpath),
            lambda: self._is_directory(rpath),
            recursive,
            maxdepth,
        )
        _check_found(names, local)
        super().put(names, targets, callback=callback, **options)

    def put_file(
        self,
        lpath: Any,
        rpath: str,
        callback: Any = DEFAULT_CALLBACK,
        mode: str = "overwrite",
        **options: Any,
    ) -> None:
        """Write the bytes of a local file, or make a directory; `mode` as in :meth:`pipe_file`."""
        opened = _open_mode(mode)
        local = Path(lpath)
        if local.is_dir():
            self.makedirs(rpath, exist_ok=mode == "overwrite")
            return
        with local.open("rb") as source:
            place = self._place(rpath)
            _check_apart_from(local, place)
            callback.set_size(os.fstat(source.fileno()).st_size)

            def create(**more: Any) -> Any:
                with _plain_refusal():
                    return self.open(rpath, opened, **{"recursive": True, **more, **options})

            is_deferred = not options.get("autocommit", not self._intrans)
            keeps_mode = not is_deferred and {"permission", "atomic"}.isdisjoint(options)
            with transfer.whole(create, place.store, place.path, keeps_mode=keeps_mode) as out:
                self._hand_on(source, out, callback)

    def get(
        self,
        rpath: Any,
        lpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **options: Any,
    ) -> None:
        """Copy files, or a whole tree, to local files, as fsspec does.

        Raises
        ------
        ValueError
            Two files would get one name. Nothing was copied.
        OSError
            A directory cannot be listed, or a link leads to one that it is in (``ELOOP``).
        """
        local: Any = lpath if isinstance(lpath, list) else make_path_posix(lpath)
        names, targets, files = pairs(
            self,
            rpath,
            local,
            lambda: local.endswith("/") or Path(local).is_dir(),
            recursive,
            maxdepth,
            **options,
        )
        callback.set_size(len(names))
        for name, target in callback.wrap(zip(names, targets, strict=True)):
            with callback.branched(name, target) as child:
                get_file = self._get_known if name in files else self.get_file
                get_file(name, target, callback=child, **options)

    def get_file(
        self,
        rpath: str,
        lpath: Any = None,
        callback: Any = DEFAULT_CALLBACK,
        outfile: Any = None,
        **options: Any,
    ) -> None:
        """Write the bytes to a local file, or make a directory; a part of a file is removed again.

        fsspec's caches would take the part for the file.
        """
        is_open = outfile is not None or isfilelike(lpath)
        if not is_open and self.isdir(rpath):
            super().get_file(rpath, lpath, callback, **options)
        else:
            self._get_known(rpath, lpath, callback, outfile, **options)

    def _get_known(
        self, rpath: str, lpath: Any, callback: Any, outfile: Any = None, **options: Any
    ) -> None:
        """Do so with what is known to be no directory."""
        if outfile is not None or isfilelike(lpath):
            super().get_file(rpath, lpath, callback, outfile, **options)
            return
        made = Path(lpath)
        with self.open(rpath, "rb", **options) as source:
            _check_apart_from(made, self._place(rpath))
            callback.set_size(getattr(source, "size", None))  # of compressed data it is not known
            local = self._place(rpath).store._local_files(raw=True)
            path = local._resolve(made.parent.resolve() / made.name)
            with transfer.whole(partial(local.create, path), local, path) as target:
                self._hand_on(source, target, callback)

    def _hand_on(self, source: Any, target: Any, callback: Any) -> None:
        """Copy bytes to their end, which may have moved since it was looked at."""
        while data := source.read(self.blocksize):
            target.write(data)
            callback.relative_update(len(data))

    def copy(
        self,
        path1: Any,
        path2: Any,
        recursive: bool = False,
        maxdepth: int | None = None,
        on_error: str | None = None,
        **options: Any,
    ) -> None:
        """Copy files, or a whole tree, as fsspec does; all of it, as :meth:`get`.

        Without `on_error` what a tree has lost meanwhile is passed over, and nothing else.
        """
        names, targets, files = pairs(
            self,
            path1,
            self._names(path2),
            lambda: self._is_directory(path2),
            recursive,
            maxdepth,
            **options,
        )
        words.check_hints("cp_file", options)
        if on_error is None and not recursive:
            on_error = "raise"

        def copy(name: str, target: str) -> None:
            try:
                if name in files:
                    self._copy_file(self._place(name), self._place(target))
                else:
                    self.cp_file(name, target)
            except FileNotFoundError:
                if on_error == "raise" or (on_error is None and self.exists(name)):
                    raise

        self._copy_each(copy, list(zip(names, targets, strict=True)), files)

    def _copy_each(
        self,
        copy: Callable[[str, str], None],
        jobs: Sequence[tuple[str, str]],
        files: Collection[str],  # noqa: ARG002
    ) -> None:
        """Make copies, of those that are known as `files` and of others."""
        for name, target in jobs:
            copy(name, target)

    def _names(self, given: Any) -> Any:
        """Return a name, or a list of them, without protocols."""
        is_one = isinstance(given, (str, os.PathLike))
        return self._strip_protocol(given if is_one else list(given))

    def _is_directory(self, target: Any) -> bool:
        """Whether a target is a directory, as far as one may look, or one is meant."""
        if os.fspath(target).endswith("/"):
            return True
        try:
            return self.isdir(target)
        except PermissionError as refusal:  # who may only write names what is to be written
            _log.warning("%s is taken for a file: %s", os.fspath(target), refusal)
            return False

    def cp_file(self, path1: str, path2: str, **options: Any) -> None:
        """Copy a file; make a directory, without its contents."""
        words.check_hints("cp_file", options)
        source, target = self._place(path1), self._place(path2)
        if source.store.is_directory(source.path):
            target.store.mkdirs(target.path)
        else:
            self._copy_file(source, target)

    def _copy_file(self, source: Place, target: Place) -> None:
        transfer.copy_file(source.store, source.path, target.store, target.path)

    def touch(self, path: str, truncate: bool = True, **options: Any) -> None:
        """Make a file, empty if `truncate`; otherwise an existing one gets the current time."""
        words.check_hints("touch", options)
        place = self._place(path)
        if truncate or not place.store.exists(place.path):
            try:
                self.open(path, "wb" if truncate else "xb").close()
            except FileExistsError as there:  # another has made it by now
                if not means_file_there(there):
                    raise
        else:
            now = datetime.datetime.now(datetime.timezone.utc)
            place.store.set_times(place.path, int(now.timestamp() * 1000))

    # --- the tree ---

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """Return facts about a path: name, size, type, mtime in seconds, mode, owner, …."""
        words.check_hints("info", options)
        place = self._place(path)
        return self._described(place.store.get_file_status(place.path), place)

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        """Return what is in a directory, or the file itself, sorted.

        A link to a directory is neither file nor directory here, so that no walk goes round in it.
        """
        words.check_hints("ls", options)
        place = self._place(path)
        found = [self._described(one, place) for one in place.store.list_status(place.path)]
        for entry in found:
            if entry["islink"] and entry["type"] == "directory":
                entry.update(type="other", mode=stat.S_IFLNK | _ANY_MODE)
        entries = sorted(found, key=lambda entry: str(entry["name"]))
        return entries if detail else [entry["name"] for entry in entries]

    def walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,
        on_error: Any = "omit",
        **options: Any,
    ) -> Iterator[tuple[str, Any, Any]]:
        """Yield directories and what is in them: as fsspec's, but `on_error` counts below, too."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError(f"walk: maxdepth must be at least 1, not {maxdepth}")
        detail = options.pop("detail", False)
        for name, dirs, files in super().walk(path, 1, True, on_error, detail=True, **options):
            below = {one: entry["name"] for one, entry in dirs.items()}
            shown = (name, dirs, files) if detail else (name, list(dirs), list(files))
            if topdown:
                yield shown
            for one in list(shown[1]) if maxdepth != 1 else ():  # what the caller has left of them
                yield from self.walk(
                    below[one],
                    None if maxdepth is None else maxdepth - 1,
                    topdown,
                    on_error,
                    detail=detail,
                    **options,
                )
            if not topdown:
                yield shown

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        prefix: str = "",
        **options: Any,
    ) -> Any:
        """Return the names of all files below a path; with `detail` what is known of each.

        Parameters
        ----------
        path : str
            The directory.
        maxdepth : int, optional
            How many levels to descend.
        withdirs : bool
            Return directories, too.
        detail : bool
            Return a dict of what ``info`` returns.
        prefix : str
            Only names that begin with the path, a slash and this text.

        Raises
        ------
        OSError
            A directory cannot be listed: what is in it would be missing. One that is not there is
            empty.
        """
        on_error = options.pop("on_error", _unless_absent)
        words.check_hints("find", options)
        try:
            found = self._found_at_once(path, maxdepth, withdirs)
        except OSError as failure:
            if on_error == "raise":
                raise
            if callable(on_error):
                on_error(failure)
            return {} if detail else []
        if found is None:
            found = super().find(path, maxdepth, withdirs, True, on_error=on_error)
        if prefix:
            begin = f"{self._strip_protocol(path).rstrip('/')}/{prefix}"
            found = {name: entry for name, entry in found.items() if name.startswith(begin)}
        return found if detail else list(found)

    def _found_at_once(
        self,
        path: str,  # noqa: ARG002
        maxdepth: int | None,  # noqa: ARG002
        withdirs: bool,  # noqa: ARG002
    ) -> dict[str, Any] | None:
        """Return what `find` does, where the store tells of a tree at once; None: walk in it."""
        return None

    def du(
        self,
        path: str,
        total: bool = True,
        maxdepth: int | None = None,
        withdirs: bool = False,
        **options: Any,
    ) -> Any:
        """Return the bytes of all files below a path; unless `total`, a dict of those of each.

        Parameters
        ----------
        path : str
            The directory, or a file.
        total : bool
            Return the sum.
        maxdepth : int, optional
            How many levels to descend.
        withdirs : bool
            Include directories, without what is in them.
        **options
            Those of :meth:`find`.
        """
        find = partial(self.find, path, maxdepth, detail=True, **options)
        found = find(withdirs=True) if withdirs else {}
        found |= find()  # a file counts where a directory has its name, too
        sizes = {name: (entry or self.info(name))["size"] for name, entry in found.items()}
        return sum(sizes.values()) if total else sizes

    def expand_path(
        self,
        path: Any,
        recursive: bool = False,
        maxdepth: int | None = None,
        assume_literal: bool = False,
        **options: Any,
    ) -> Any:
        """Return the names that names and patterns stand for, those below them if `recursive`.

        ``cat`` and ``get`` pass options of ``open``, which mean nothing here.
        """
        return sorted(self._types(path, recursive, maxdepth, assume_literal, **options))

    def _types(
        self,
        path: Any,
        recursive: bool,
        maxdepth: int | None,
        assume_literal: bool,
        **options: Any,
    ) -> dict[str, str | None]:
        """Return the names that `expand_path` does, and the type of each, where that is known."""
        named = {name: value for name, value in options.items() if not _is_for_reading(name)}
        words.check_hints("expand_path", named)
        found = self._expanded(path, recursive, maxdepth, assume_literal)
        if not found:
            raise FileNotFoundError(errno.ENOENT, "nothing there", str(path))
        return found

    def _expanded(
        self,
        path: Any,
        recursive: bool,
        maxdepth: int | None = None,
        assume_literal: bool = False,
    ) -> dict[str, str | None]:
        """Return what names and patterns stand for, and the type of each, where that is known."""
        found: dict[str, str | None] = {}
        for name in self._names([path] if isinstance(path, (str, os.PathLike)) else path):
            if assume_literal or not self._is_pattern(name):
                found.update(tree(self, name, maxdepth) if recursive else {name: None})
                continue
            matches = self.glob(name, maxdepth=maxdepth, detail=True)
            found.update((match, entry["type"]) for match, entry in matches.items())
            for match in matches if recursive and maxdepth != 1 else ():
                found.update(tree(self, match, maxdepth and maxdepth - 1))
        return found

    def _is_pattern(self, name: Any) -> bool:
        """Whether a name stands for those that match it: a file may have such a name itself."""
        if not fsspec.core.has_magic(self._strip_protocol(name)):
            return False
        try:
            return not self.lexists(name)
        except PermissionError:  # what matches may be listed all the same
            return True

    def exists(self, path: str, **options: Any) -> bool:
        """Whether the path exists, and is no link to nowhere; other failures are raised."""
        words.check_hints("exists", options)
        place = self._place(path)
        status = place.store._status_or_none(place.path)
        return status is not None and status.kind != "symlink"

    def lexists(self, path: str, **options: Any) -> bool:
        """Whether there is anything: also a link to nowhere."""
        place = self._place(path)
        return place.store._is_link(place.path) or self.exists(path, **options)

    def isdir(self, path: str) -> bool:
        """Whether the path is a directory; failures other than absence are raised."""
        return bool(self._type(path) == "directory")

    def isfile(self, path: str) -> bool:
        """Whether the path is a file; failures other than absence are raised."""
        return bool(self._type(path) == "file")

    def _type(self, path: str) -> Any:
        try:
            return self.info(path)["type"]
        except OSError as failure:
            _unless_absent(failure)
            return None

    def mkdir(
        self, path: str, create_parents: bool = True, mode: int | None = None, **options: Any
    ) -> None:
        """Make a directory that does not exist; `mode` is its permission, before the umask."""
        words.check_hints("mkdir", options)
        place = self._place(path)
        if _is_taken(place):
            raise FileExistsError(errno.EEXIST, "mkdir: path exists", path)
        asked = None if mode == _ANY_MODE else mode  # as universal_pathlib does where none is given
        with _plain_refusal():
            place.store.mkdirs(place.path, asked, create_parent=create_parents)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a directory and its missing parents."""
        place = self._place(path)
        if not exist_ok and _is_taken(place):
            raise FileExistsError(errno.EEXIST, "makedirs: path exists", path)
        with _plain_refusal():
            place.store.mkdirs(place.path)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory.

        Raises
        ------
        NotADirectoryError
            It is a file or a link, which :meth:`rm_file` removes.
        """
        place = self._removable(path)
        status = place.store.get_file_status(place.path)
        if not status.is_directory or place.store._is_link(place.path):
            raise NotADirectoryError(errno.ENOTDIR, "rmdir: path is a file or a link", path)
        place.store.delete(place.path)

    def rm_file(self, path: str) -> None:
        """Remove a file, or a link.

        Raises
        ------
        IsADirectoryError
            It is a directory, which :meth:`rmdir` removes.
        """
        place = self._removable(path)
        if _is_real_directory(place):
            raise IsADirectoryError(errno.EISDIR, "rm_file: path is a directory: use rmdir", path)
        if not place.store.delete(place.path):
            raise FileNotFoundError(errno.ENOENT, "rm_file: nothing there", path)

    def _rm(self, path: str) -> None:
        self.rm_file(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove files, and directories if `recursive`; patterns are expanded.

        Raises
        ------
        FileNotFoundError
            Nothing is there.
        IsADirectoryError
            There is a directory, and not `recursive`. Nothing was removed.
        ValueError, io.UnsupportedOperation
            A name belongs to another file system; it is a root, a bucket or, with all in it, the
            working directory. Nothing was removed.
        """
        if maxdepth is not None:
            raise unsupported("rm with maxdepth", "hflush's fsspec file system")
        given = path if isinstance(path, (list, tuple, set)) else [path]
        places = [(one, self._removable(one)) for one in given]
        for name, place in places if recursive else ():
            if _is_working_directory(place):  # as an empty name is
                what = "removing the working directory"
                raise unsupported(what, place.store.store_name, str(name))
        doomed: dict[Place, str] = {}
        files: set[Place] = set()  # those that a listing has shown
        for name, place in places:
            if not self._is_pattern(name):
                doomed[place] = name
                continue
            matches = self.glob(name, detail=True)
            if not matches:
                raise FileNotFoundError(errno.ENOENT, "rm: nothing there", name)
            for match, entry in matches.items():
                doomed[place := self._place(match)] = match
                if entry["type"] == "file":
                    files.add(place)
        if not recursive:
            self._check_files(doomed, files)
            self._remove_files(doomed)
            return
        removed: list[Place] = []
        for place in sorted(doomed, key=lambda one: one.path, reverse=True):  # from below
            if self._delete(place, True):
                removed.append(place)
            elif not any(_is_below(one, place) for one in removed):
                raise FileNotFoundError(errno.ENOENT, "rm: nothing there", doomed[place])

    def _check_files(self, doomed: Mapping[Place, str], files: Collection[Place]) -> None:
        """Refuse directories, and what is known to be missing."""
        kinds = self._kinds([place for place in doomed if place not in files])
        for place, kind in kinds.items():
            if kind == "directory":
                message = "rm: path is a directory: use recursive=True, or rmdir"
                raise IsADirectoryError(errno.EISDIR, message, doomed[place])
        for place, kind in kinds.items():
            if kind is None:
                raise FileNotFoundError(errno.ENOENT, "rm: nothing there", doomed[place])

    def _kinds(self, places: Sequence[Place]) -> dict[Place, str | None]:
        """Return what is there: a "directory", or None; a "file" also where that is not known."""
        return {place: "directory" if _is_real_directory(place) else "file" for place in places}

    def _remove_files(self, doomed: Mapping[Place, str]) -> None:
        for place in sorted(doomed, key=lambda one: one.path, reverse=True):
            if not self._delete(place, False):
                raise FileNotFoundError(errno.ENOENT, "rm: nothing there", doomed[place])

    def _delete(self, place: Place, recursive: bool) -> bool:
        """Remove what a name leads to, all of it; return whether there was anything."""
        return place.store.delete(place.path, recursive)

    def _removable(self, path: Any) -> Place:
        """Return where a name leads to; refuse a root."""
        place = self._place(path)
        if place.path == "/":
            raise unsupported(f"removing {self._root}", place.store.store_name, str(path))
        return place

    def mv(
        self,
        path1: Any,
        path2: Any,
        recursive: bool = False,
        maxdepth: int | None = None,
        **options: Any,
    ) -> None:
        """Move a file or a directory: into `path2`, under its own name, if that is a directory.

        What has to be copied is removed when all of it is copied, and nothing else: see
        :meth:`hflush.FileSystem.copy_to_local_file`.

        Parameters
        ----------
        path1 : str, os.PathLike or list
            What is moved. Of a list, and of a pattern, each goes into the directory `path2`,
            which is made if it is missing.
        path2 : str, os.PathLike or list
            Where to; a slash at its end says that it is a directory. A list has a name for each of
            `path1`.
        recursive : bool
            A directory is moved whole without it, too. On S3: refuse an object below whose key
            there are others (``ENOTEMPTY``).

        Raises
        ------
        ValueError
            A name belongs to another file system; names would fall on one another. Nothing was
            moved.
        FileExistsError
            There is a directory where one would end. Nothing was moved.
        OSError
            One was not moved, nor those behind it.
        """
        if maxdepth is not None:
            raise unsupported("mv with maxdepth", "hflush's fsspec file system")
        words.check_hints("mv", options)
        is_one = isinstance(path1, (str, os.PathLike))
        names = [path1] if is_one else list(path1)
        if isinstance(path2, (list, tuple)):
            sources, targets = [self._place(one) for one in names], [*map(self._place, path2)]
            check_apart(sources, targets)
            is_into = False
        else:
            sources = list(dict.fromkeys(place for one in names for place in self._matches(one)))
            targets = [self._place(path2)] * len(sources)
            is_into = not is_one or sources != [self._place(path1)] or str(path2).endswith("/")
        goals = [_goal(*move, is_into) for move in zip(sources, targets, strict=True)]
        check_apart(sources, goals)
        for source in sources:  # whatever is missing is missing before anything is made
            if not source.store._is_link(source.path):
                source.store.get_file_status(source.path)
        for source in sources if recursive else ():
            self._check_whole(source)
        for source, goal in zip(sources, goals, strict=True):
            self._mv(source, goal)

    def _check_whole(self, source: Place) -> None:
        """Refuse a file that is a directory, too, as there may be on S3."""
        store, path = source.store._behind(source.path)
        if store._is_directory_too(path):
            message = "mv: an object, and others below its key: without recursive it alone is moved"
            raise OSError(errno.ENOTEMPTY, message, source.name_of(source.path))

    def _matches(self, name: Any) -> list[Place]:
        """Return what a name stands for: itself or, if there is no such file, what matches it."""
        place = self._place(name)
        if not fsspec.core.has_magic(place.path) or place.store.exists(place.path):
            return [place]
        matches = [self._place(match) for match in self.glob(self._strip_protocol(name))]
        if not matches:
            raise FileNotFoundError(errno.ENOENT, "mv: nothing there", name)
        return matches

    def _mv(self, source: Place, target: Place) -> None:
        target.store.mkdirs(paths.parent(target.path))
        try:
            moved = self._rename_into(source, target)
        except OSError as refusal:
            if refusal.errno != errno.EXDEV:
                raise
            self._move_by_copying(source, target)
        else:
            if not moved:
                name = source.name_of(source.path)
                message = f"mv: {name} was not moved"
                raise OSError(errno.EIO, message, target.name_of(target.path))

    def _rename_into(self, source: Place, target: Place) -> bool:
        """Move within a store, into a directory; return whether anything was moved."""
        return source.store.rename(source.path, target.path)

    def _move(self, source: Place, target: Place) -> None:
        """Move to that very name, whose place a file gives up: by a rename, where there is one."""
        if source.store is target.store:
            try:
                _rename(source.store, source.path, target.path)
            except OSError as refusal:
                if refusal.errno != errno.EXDEV:
                    raise
            else:
                return
        self._move_by_copying(source, target)

    def _move_by_copying(self, source: Place, target: Place) -> None:
        """Move from one store to another: what was copied is removed when all of it is."""
        transfer.copy(
            source.store,
            source.path,
            target.store,
            target.path,
            delete_source=True,
            overwrite=True,
            is_alone=True,
        )

    def modified(self, path: str) -> datetime.datetime:
        """Return when a file was last modified."""
        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], datetime.timezone.utc)

    def created(self, path: str) -> datetime.datetime:
        """Refuse: Hadoop's file systems do not record when a file was created."""
        place = self._place(path)
        raise unsupported("created", place.store.store_name, place.path)

    def invalidate_cache(self, path: str | None = None) -> None:
        """Nothing is cached."""

    def _described(self, status: FileStatus, place: Place) -> dict[str, Any]:
        path = place.store._store_path(status)
        described = {
            "name": place.name_of(path),
            "size": status.length,
            "type": status.kind if status.kind in ("file", "directory") else "other",
            "mtime": status.modification_time_ns / 1e9,
            "mode": _TYPE_BITS.get(status.kind, 0) | status.permission,
            "owner": status.owner,
            "group": status.group,
            "islink": place.store._is_link(path),
        }
        if described["islink"]:
            with suppress(OSError):  # it may be gone by now
                described["destination"] = os.readlink(path)  # noqa: PTH115
        return described


def _goal(source: Place, target: Place, is_into: bool) -> Place:
    """Return where a move ends: a directory, or any target if `is_into`, keeps the source's name.

    The rename of a store would put a directory in the place of an empty one.
    """
    if not is_into and not target.store.is_directory(target.path):
        return target
    goal = child(target, source)
    if goal.store.is_directory(goal.path):
        name = goal.name_of(goal.path)
        raise FileExistsError(errno.EEXIST, "mv: a directory is there; nothing was moved", name)
    return goal


def _rename(store: FileSystem, source: str, target: str) -> None:
    """Rename to that very name; its parents are made where they are all that is missing."""
    try:
        store.rename(source, target, Rename.OVERWRITE)
    except FileNotFoundError:
        if not store.exists(source):
            raise
        store.mkdirs(paths.parent(target))
        store.rename(source, target, Rename.OVERWRITE)


def _check_found(names: Sequence[Any], asked: Any) -> None:
    """Refuse what a tree or a pattern has that may have no end; who names it himself means it."""
    named = {*asked} if isinstance(asked, list) else {asked}
    for name in names:
        path = Path(name)
        if name not in named and not (path.is_file() or path.is_dir()) and path.exists():
            message = "put: neither a file nor a directory; nothing was copied"
            raise OSError(errno.EINVAL, message, name)


def _check_apart_from(local: Path, place: Place) -> None:
    """Refuse a copy of a local file onto itself, which would be emptied first."""
    store, path = place.store._leads_to(place.path)
    with suppress(FileNotFoundError):
        if store._is_local and local.samefile(path):
            raise OSError(errno.EINVAL, "copy of a file onto itself", str(local))


def _is_taken(place: Place) -> bool:
    """Whether there is anything, as far as one may look; what follows fails by itself."""
    try:
        return place.store.exists(place.path)
    except PermissionError:
        return False


def _is_below(place: Place, directory: Place) -> bool:
    return place.store is directory.store and paths.is_under(place.path, directory.path)


def _is_real_directory(place: Place) -> bool:
    """Whether the name is that of a directory, not of a link to one."""
    return not place.store._is_link(place.path) and place.store.is_directory(place.path)


def _is_working_directory(place: Place) -> bool:
    store, path = place.store._leads_to(place.path)
    if not store._is_local or store._is_link(path):
        return False
    try:
        return Path(path).samefile(".")
    except OSError:  # one of them is not there
        return False


@contextmanager
def _plain_refusal() -> Iterator[None]:
    """Raise that an ancestor is a file as other libraries do: callers pass over FileExistsError."""
    try:
        yield
    except ParentNotDirectoryError as refusal:
        raise NotADirectoryError(refusal.errno, refusal.strerror, refusal.filename) from refusal


def _unless_absent(failure: OSError) -> None:
    """Raise what a look at a path has failed with, unless nothing is there."""
    if not means_nothing_there(failure):
        raise failure


def _open_mode(mode: str) -> str:
    """Return open()'s mode for that of pipe_file; ValueError for what would replace silently."""
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {', '.join(_MODES)}, not {mode!r}")
    return _MODES[mode]


def _is_for_reading(option: str) -> bool:
    """Whether an option is one of ``open``, ``cat_file`` or ``get_file``."""
    return option in _OF_READERS or option in _HINTS or option in OPEN_KEYWORDS or "." in option
