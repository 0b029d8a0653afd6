"""hflush for universal_pathlib: paths of ``hflushfile``, ``hflushhdfs``, ``hflushs3``, … URLs.

The classes are registered by entry point; nothing needs to be imported. The names have no plus,
which universal_pathlib takes for the end of a protocol.

    UPath("hflushhdfs://nn:8020/logs") / "day.log"
"""

from __future__ import annotations

import errno
import io
import os
import re
from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from ._on_demand import needs

try:
    from fsspec import get_filesystem_class  # type: ignore[import-untyped]
    from fsspec.core import has_magic  # type: ignore[import-untyped]
    from fsspec.utils import glob_translate  # type: ignore[import-untyped]
    from upath import UPath, core
    from upath._flavour import WrappedFileSystemFlavour
    from upath._protocol import get_upath_protocol
    from upath.implementations.cloud import CloudPath
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(needs(__name__, missing), name=missing.name) from missing

from .errors import unsupported
from .filesystem import FileSystem
from .options import whole
from .paths import is_under
from .transfer import is_within
from .write_only import view_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer, Self

__all__ = ["HflushFilePath", "HflushHdfsPath", "HflushS3Path", "HflushViewPath"]

_WITH_ANCHOR = ("hflushhdfs", "hflushs3", "hflushs3a", "hflushviewfs")
# A host or bucket stays where it is when a path that begins with a slash is joined to it.
WrappedFileSystemFlavour.protocol_config["netloc_is_anchor"].update(_WITH_ANCHOR)
for _name in ("hflushfile", *_WITH_ANCHOR):
    get_filesystem_class(_name)  # universal_pathlib takes the rules for names of what is loaded
# What an argument of its methods is that was not given; earlier versions have none.
_UNSET = getattr(core, "UNSET_DEFAULT", None)


def _made_here(make: Any, cls: type[UPath], args: Any, options: dict[str, Any]) -> Any:
    """Make a path of what was sent: it equals those made here, where who we are is the same."""
    if sent := options.get("conf"):
        others = {key: options[key] for key in options if key not in ("conf", "protocol")}
        options["conf"] = get_filesystem_class(options["protocol"])._as_here(sent, others)
        if not options["conf"] and type(sent) is dict:
            del options["conf"]  # it was added
    return make(cls, args, options)


class _Info:
    """What is at a path (``pathlib.types.PathInfo``).

    Of the library's own, which those before 0.3.2 lack, no path is a link: walks follow each.
    """

    def __init__(self, path: UPath) -> None:
        self._path = path.path
        self._fs = path.fs

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        look = self._fs.exists if follow_symlinks else self._fs.lexists
        return bool(look(self._path))

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return (follow_symlinks or not self.is_symlink()) and bool(self._fs.isdir(self._path))

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return (follow_symlinks or not self.is_symlink()) and bool(self._fs.isfile(self._path))

    def is_symlink(self) -> bool:
        place = self._fs._place(self._path)
        return bool(place.store._is_link(place.path))


class _Sendable(UPath):
    """A path whose pickle holds secrets only where its file system's does.

    A copy within the process keeps them.
    """

    __slots__ = ()

    def __reduce__(self) -> Any:
        make, (cls, args, options) = super().__reduce__()  # type: ignore[no-untyped-call]
        return _made_here, (make, cls, args, self.fs._sent(options))

    def __copy__(self) -> Self:
        make, arguments = super().__reduce__()  # type: ignore[no-untyped-call]
        copied: Self = make(*arguments)
        return copied

    def __deepcopy__(self, _: object) -> Self:
        return self.__copy__()

    @property
    def info(self) -> Any:
        """Facts about the path, as of universal_pathlib; it knows links."""
        return _Info(self)

    def write_bytes(self, data: Buffer) -> int:
        """Write a file, as of pathlib; what cannot be written is refused before it is touched."""
        view = view_of(data)
        with self.open("wb") as out:
            return int(out.write(view))

    def write_text(
        self,
        data: str,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> int:
        """Write a file of text, with the mark that its encoding begins with, as of pathlib."""
        if not isinstance(data, str):
            raise TypeError(f"data must be str, not {type(data).__name__}")
        with self.open("w", encoding=encoding, errors=errors, newline=newline) as out:
            return int(out.write(data))

    def open(
        self,
        mode: str = "r",
        buffering: Any = _UNSET,
        encoding: Any = _UNSET,
        errors: Any = _UNSET,
        newline: Any = _UNSET,
        **options: Any,
    ) -> Any:
        """Open a file, as of universal_pathlib.

        Parameters
        ----------
        mode : str
            ``r``, ``w``, ``x`` or ``a``, with ``b`` or ``t``.
        buffering : int
            0 hands every write on at once (binary only), 1 does so after each line (text only),
            more is the size in bytes of the read buffer: as for :func:`hflush.open`.
        encoding, errors, newline : str, optional
            Text only.
        **options
            As for ``open`` of the file system; ``block_size`` is that of the store.

        Raises
        ------
        ValueError
            Text without a buffer.
        """
        text = {"encoding": encoding, "errors": errors, "newline": newline}
        options.update((name, given) for name, given in text.items() if given is not _UNSET)
        size = -1 if buffering is _UNSET else whole("buffering", buffering)
        is_text = "b" not in mode
        if size == 0 and is_text:
            raise ValueError("can't have unbuffered text I/O")
        if size >= 0 and size != 1:
            options.setdefault("buffer_size", size)
        stream: Any = super().open(mode, **options)
        if size == 1 and is_text:
            stream.reconfigure(line_buffering=True)
        return stream

    def copy(self, target: Any, **options: Any) -> Any:
        """Copy a file or a tree to a path that is no directory, and return that path.

        Raises
        ------
        IsADirectoryError
            The target is a directory: ``copy_into`` goes into it.
        OSError
            It is the source itself, by whatever name, or lies in it (``EINVAL``). A tree on S3 has
            an object below whose key there are others (``ENOTEMPTY``). Nothing was copied.
        """
        to = self._as_path(target)
        if not isinstance(to, _Sendable):
            _check_apart(self, to)
        if self.is_dir():
            self._check_tree()
        return super().copy(to, **options)

    def _check_tree(self) -> None:
        """Refuse a tree in which universal_pathlib takes a directory for the file of its name."""
        place = self.fs._place(self.path)
        if found := place.store._file_above_others(place.path):
            message = "copy: an object, and others below its key, which would be left out"
            raise OSError(errno.ENOTEMPTY, message, place.store._public_name(found))

    def _copy_from(self, source: Any, *arguments: Any, **options: Any) -> None:
        _check_apart(source, self)
        super()._copy_from(source, *arguments, **options)

    def move(self, target: Any, **options: Any) -> Any:
        """Move a file or a tree to a path that is no directory, and return that path.

        Within a store that is a rename. Else what was copied is removed when all of it is, and
        nothing else: see :meth:`hflush.FileSystem.copy_to_local_file`.

        Parameters
        ----------
        target : UPath, os.PathLike or str
            Of hflush; or, for a file, of any library.
        **options
            Those of ``copy``, where the target is another library's.

        Raises
        ------
        IsADirectoryError
            The target is a directory: ``move_into`` goes into it.
        io.UnsupportedOperation
            A directory would be moved to another library's path: copy it, then remove it.
        OSError
            Not all was copied, or not all of it could be removed.
        """
        to = self._as_path(target)
        if to.is_dir():
            raise IsADirectoryError(errno.EISDIR, "move: the target is a directory", str(to))
        if isinstance(to, _Sendable) and not options:
            self.fs._move(self.fs._place(self.path), to.fs._place(to.path))
            return to
        before = self.fs.info(self.path)
        if before["type"] != "file":
            raise unsupported(f"move to {to}", "a directory of hflush", str(self))
        copied = self.copy(to, **options)
        if self.fs.info(self.path) != before:
            message = f"move: copied to {to}, but it changed meanwhile, and stays"
            raise OSError(errno.EBUSY, message, str(self))
        self.unlink()
        return copied

    def rename(self, target: Any, **options: Any) -> Any:
        """Move to a path that is no directory, and return that path: as of universal_pathlib.

        Raises
        ------
        FileNotFoundError
            The path is missing; it is a name, and no pattern.
        IsADirectoryError
            The target is a directory: ``move_into`` goes into it.
        """
        to = target
        if not isinstance(to, type(self)):
            text = to.as_posix() if isinstance(to, (PurePath, UPath)) else str(to)
            is_absolute = get_upath_protocol(to) == self.protocol or text.startswith(self.anchor)
            to = self.with_segments(text) if is_absolute else self
        if to != self and to.is_dir():
            raise IsADirectoryError(errno.EISDIR, "rename: the target is a directory", str(to))
        source = self.absolute().path
        if has_magic(source):
            self.fs.info(source)  # if it is missing, mv would take its name for a pattern
        return super().rename(target, **options)

    def glob(self, pattern: str, **options: Any) -> Iterator[Self]:
        """Yield what matches, below this path, whose own name is no pattern."""
        root = self.absolute().path
        if not has_magic(root):
            yield from super().glob(pattern, **options)
            return
        matches = re.compile(glob_translate(pattern)).match
        depth = None if "**" in pattern else pattern.count("/") + 1
        for name in self.fs.find(root, maxdepth=depth, withdirs=True):
            below = name.removeprefix(root).removeprefix("/")
            if below and matches(below):
                yield self.joinpath(below)

    def rglob(self, pattern: str, **options: Any) -> Iterator[Self]:
        """Yield what matches, at any depth below this path."""
        if has_magic(self.absolute().path):
            return self.glob(f"**/{pattern}", **options)
        found: Iterator[Self] = super().rglob(pattern, **options)
        return found

    def rmdir(self, recursive: bool = True) -> None:
        """Remove a directory, and no link to one; an empty one, unless `recursive`."""
        if recursive and not self.info.is_symlink():
            super().rmdir()
        else:
            self.fs.rmdir(self.path)

    def touch(self, mode: int = 0o666, exist_ok: bool = True) -> None:  # noqa: ARG002
        """Make an empty file; one that is there keeps its bytes.

        Raises
        ------
        FileExistsError
            There is one, and not `exist_ok`: of many callers one succeeds.
        """
        if not exist_ok:
            self.fs.open(self.path, "xb").close()
            return
        with suppress(io.UnsupportedOperation):  # S3 gives no file another time
            self.fs.touch(self.path, truncate=False)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove a file or a link.

        Raises
        ------
        FileNotFoundError
            Nothing is there, and not `missing_ok`.
        IsADirectoryError
            It is a directory, which ``rmdir`` removes.
        """
        try:
            self.fs.rm_file(self.path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def _as_path(self, target: Any) -> UPath:
        """Return what universal_pathlib takes a target for."""
        if isinstance(target, UPath):
            return target
        is_own = isinstance(target, str) and get_upath_protocol(target) == self.protocol
        return self.with_segments(target) if is_own else UPath(target)


def _check_apart(source: Any, target: Any) -> None:
    """Refuse a copy onto or into itself, of which universal_pathlib compares the names alone.

    It would be cut before it is read. Files that are not local have one name, but for snapshots,
    from which they can be copied back.
    """
    here, there = _led_to(source), _led_to(target)
    if here is None or there is None:
        return
    (store, path), (other, name) = here, there
    if store._is_local:
        is_one = is_within(other, name, store, store._status(path))
    else:
        is_one = other._shares_files_with(store) and is_under(name, path)
    if is_one:
        raise OSError(errno.EINVAL, "copy onto or into itself", str(source), None, str(target))


def _led_to(path: Any) -> tuple[FileSystem, str] | None:
    """Return where a path leads to, if it is hflush's, or local and of any library."""
    if isinstance(path, _Sendable):
        place = path.fs._place(path.path)
        led: tuple[FileSystem, str] = place.store._leads_to(place.path)
        return led
    if isinstance(path, os.PathLike):
        return FileSystem.get("file:///"), os.path.realpath(path)
    return None


class HflushFilePath(_Sendable):
    """A local path, through :class:`hflush.fsspec.HflushFileSystem`."""

    __slots__ = ()


class HflushHdfsPath(_Sendable):
    """A path of HDFS, through :class:`hflush.fsspec.HflushHdfsFileSystem`; the host stays in it."""

    __slots__ = ()

    def is_absolute(self) -> bool:
        """Whether it begins at the root: a URL does."""
        return getattr(self, "_relative_base", None) is None  # before 0.3 there was none


class HflushViewPath(HflushHdfsPath):
    """A path of a view, through :class:`hflush.fsspec.HflushViewFileSystem`, with its table."""

    __slots__ = ()


class HflushS3Path(_Sendable, CloudPath):
    """A path of S3, through :class:`hflush.fsspec.HflushS3FileSystem`: the bucket is its anchor."""

    __slots__ = ()
