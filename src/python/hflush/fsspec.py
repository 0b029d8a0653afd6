"""hflush for fsspec: ``hflush+file://`` URLs in pandas, pyarrow, dask and everything else on it.

The class is registered by entry point; nothing needs to be imported. :func:`register` puts it in
the place of fsspec's own implementation of a protocol.

    pandas.DataFrame(...).to_parquet("hflush+file:///data/table.parquet")
"""

from __future__ import annotations

import datetime
import errno
import os
from typing import TYPE_CHECKING, Any

import fsspec  # type: ignore[import-untyped]
from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]

from . import paths
from .builder import CreateFlag
from .errors import UnsupportedFileSystemError, unsupported
from .filesystem import FileSystem
from .opening import TextOutputWrapper

if TYPE_CHECKING:
    from .filesystem import Conf
    from .status import FileStatus
    from .streams import FSDataInputStream, FSDataOutputStream

__all__ = ["HflushFileSystem", "register"]

_PREFIX = "hflush+"
_SERVED = ("file", f"{_PREFIX}file")
_FLAGS = {
    "wb": CreateFlag.CREATE | CreateFlag.OVERWRITE,
    "xb": CreateFlag.CREATE,
    "ab": CreateFlag.CREATE | CreateFlag.APPEND,
}
_COPY_BYTES = 1 << 20


class HflushFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """:class:`hflush.FileSystem` as fsspec sees file systems.

    Parameters
    ----------
    conf : mapping, optional
        As for :meth:`hflush.FileSystem.get`.

    Notes
    -----
    ``open`` returns hflush's own streams: nothing is published by garbage collection, and they have
    ``hflush`` and ``hsync``. fsspec's transactions are not supported. Missing parents are made.
    """

    protocol = (f"{_PREFIX}file",)
    root_marker = "/"

    def __init__(self, conf: Conf = None, **storage_options: Any) -> None:
        super().__init__(**storage_options)
        self.filesystem = FileSystem.get("file:///", conf)

    @property
    def fsid(self) -> str:
        """The same for all that see the same files."""
        return "hflush+local"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = os.fspath(path)
        for protocol in _SERVED:
            if text.startswith(f"{protocol}:/"):
                text = text[len(protocol) + 1 :]
                text = text[2:] if text.startswith("//") else text
                break
        if not text.startswith("/"):
            text = f"{os.getcwd()}/{text}"  # noqa: PTH109
        return text.rstrip("/") or "/"

    # --- bytes ---

    def open(self, path: str, mode: str = "rb", *args: Any, **kwargs: Any) -> Any:
        """Open a file: as fsspec's, but garbage collection of a text stream publishes nothing."""
        if "b" in mode or "r" in mode or kwargs.get("compression") is not None:
            return super().open(path, mode, *args, **kwargs)
        text = {key: kwargs.pop(key) for key in ("encoding", "errors", "newline") if key in kwargs}
        stream = self.open(path, mode.replace("t", "") + "b", *args, **kwargs)
        return TextOutputWrapper(stream, **text)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        autocommit: bool = True,
        cache_options: Any = None,  # noqa: ARG002
        **options: Any,
    ) -> FSDataInputStream | FSDataOutputStream:
        if not autocommit:
            raise unsupported("a transaction", "hflush's fsspec file system", path)
        options.pop("size", None)  # fsspec's, for its own read-ahead
        if mode == "rb":
            return self.filesystem.open(path, **options)
        if mode not in _FLAGS:
            raise ValueError(f"mode must be one of rb, {', '.join(_FLAGS)}, not {mode!r}")
        if block_size is not None and mode != "ab":
            options.setdefault("block_size", block_size)
        return self.filesystem.create(path, flags=_FLAGS[mode], **options)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copy a file; of a directory, make it only."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.filesystem.is_directory(source):
            self.filesystem.mkdirs(target)
            return
        with self.filesystem.open(source) as reader, self.filesystem.create(target) as out:
            while part := reader.read(_COPY_BYTES):
                out.write(part)

    def touch(self, path: str, truncate: bool = True, **_: Any) -> None:
        """Make a file, empty if `truncate`; one that stays gets the time of now."""
        resolved = self._strip_protocol(path)
        if truncate or not self.filesystem.exists(resolved):
            self.filesystem.create(resolved).close()
        else:
            now = datetime.datetime.now(datetime.timezone.utc)
            self.filesystem.set_times(resolved, int(now.timestamp() * 1000))

    # --- names ---

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return what is known of a path: name, size, type, mtime in seconds, mode, owner, …."""
        return _described(self.filesystem.get_file_status(self._strip_protocol(path)))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Return what is in a directory, or the file itself, sorted."""
        found = self.filesystem.list_status(self._strip_protocol(path))
        entries = sorted((_described(status) for status in found), key=lambda entry: entry["name"])
        return entries if detail else [entry["name"] for entry in entries]

    def exists(self, path: str, **_: Any) -> bool:
        """Whether there is anything; failures other than absence are raised."""
        return self.filesystem.exists(self._strip_protocol(path))

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Make a directory that does not exist."""
        resolved = self._strip_protocol(path)
        if self.filesystem.exists(resolved):
            raise FileExistsError(errno.EEXIST, "mkdir: path exists", resolved)
        self.filesystem.mkdirs(resolved, create_parent=create_parents)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a directory and its missing parents."""
        resolved = self._strip_protocol(path)
        if not exist_ok and self.filesystem.exists(resolved):
            raise FileExistsError(errno.EEXIST, "makedirs: path exists", resolved)
        self.filesystem.mkdirs(resolved)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        resolved = self._strip_protocol(path)
        if not self.filesystem.get_file_status(resolved).is_directory:
            raise NotADirectoryError(errno.ENOTDIR, "rmdir: path is a file", resolved)
        self.filesystem.delete(resolved)

    def rm_file(self, path: str) -> None:
        """Remove a file."""
        self.rm(path)

    def _rm(self, path: str) -> None:
        self.rm(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove files, and directories if `recursive`; patterns are expanded.

        Raises
        ------
        FileNotFoundError, OSError
            There is nothing; a directory is not empty.
        """
        if maxdepth is not None:
            raise unsupported("rm with maxdepth", "hflush's fsspec file system")
        for one in path if isinstance(path, list) else [path]:
            resolved = self._strip_protocol(one)
            if self.filesystem.delete(resolved, recursive):
                continue
            matches = self.glob(resolved) if fsspec.core.has_magic(resolved) else []
            if not matches:
                raise FileNotFoundError(errno.ENOENT, "rm: nothing there", resolved)
            for match in matches:
                self.filesystem.delete(match, recursive)

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        """Move a file or a directory, into `path2` if that is a directory, in one step."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        self.filesystem.mkdirs(paths.parent(target))
        if not self.filesystem.rename(source, target):
            raise OSError(errno.EIO, f"mv: {source} was not moved", target)

    def modified(self, path: str) -> datetime.datetime:
        """Return when a file was last modified."""
        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], datetime.timezone.utc)

    def created(self, path: str) -> datetime.datetime:
        """Refuse: Hadoop's file systems do not record when a file was created."""
        raise unsupported("created", self.filesystem.store_name, self._strip_protocol(path))

    def invalidate_cache(self, path: str | None = None) -> None:
        """Nothing is cached."""


def _described(status: FileStatus) -> dict[str, Any]:
    return {
        "name": status.path,
        "size": status.length,
        "type": status.kind if status.kind in ("file", "directory") else "other",
        "mtime": status.modification_time_ns / 1e9,
        "mode": status.permission,
        "owner": status.owner,
        "group": status.group,
        "islink": status.kind == "symlink",
    }


def register(*protocols: str) -> None:
    """Let fsspec use hflush for these protocols, in the place of what it has.

    Parameters
    ----------
    *protocols : str
        ``file``. None at all means ``hdfs`` and ``s3``.

    Raises
    ------
    UnsupportedFileSystemError
        One is not supported yet. Nothing was registered.
    """
    wanted = protocols or ("hdfs", "s3")
    refused = [protocol for protocol in wanted if protocol not in _SERVED]
    if refused:
        raise UnsupportedFileSystemError(
            errno.EPROTONOSUPPORT,
            f"hflush does not support {' and '.join(refused)} yet; nothing was registered "
            f"(supported: {', '.join(_SERVED)})",
        )
    for protocol in wanted:
        fsspec.register_implementation(protocol, HflushFileSystem, clobber=True)
