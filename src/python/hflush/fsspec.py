"""hflush for fsspec: ``hflush+file``, ``hflush+hdfs`` and ``hflush+s3`` URLs in pandas, pyarrow, ….

The classes are registered by entry point; nothing needs to be imported. :func:`register` puts them
in the place of fsspec's own implementations of a protocol.

    pandas.DataFrame(...).to_parquet("hflush+hdfs://nn:8020/data/table.parquet")
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
    from collections.abc import Mapping

    from .filesystem import Conf
    from .status import FileStatus
    from .streams import FSDataInputStream, FSDataOutputStream

__all__ = ["HflushFileSystem", "HflushHdfsFileSystem", "HflushS3FileSystem", "register"]

_PREFIX = "hflush+"
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

    protocol: tuple[str, ...] = (f"{_PREFIX}file",)
    root_marker = "/"
    _scheme = "file"

    def __init__(self, conf: Conf = None, **storage_options: Any) -> None:
        super().__init__(conf=conf, **storage_options)
        self.filesystem = FileSystem.get(self._url(storage_options), conf)

    def _url(self, storage_options: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return the URL of the file system that the options mean."""
        return "file:///"

    @property
    def fsid(self) -> str:
        """The same for all that see the same files."""
        return "hflush+local"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = os.fspath(path)
        for protocol in (cls._scheme, f"{_PREFIX}{cls._scheme}"):
            if text.startswith(f"{protocol}:/"):
                text = cls._without_authority(text[len(protocol) + 1 :])
                break
        if not text.startswith("/"):
            text = f"{cls._working_directory()}/{text}"
        return text.rstrip("/") or "/"

    @classmethod
    def _without_authority(cls, text: str) -> str:
        return text[2:] if text.startswith("//") else text

    @classmethod
    def _working_directory(cls) -> str:
        return os.getcwd()  # noqa: PTH109

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
        return self._described(self.filesystem.get_file_status(self._strip_protocol(path)))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Return what is in a directory, or the file itself, sorted."""
        found = self.filesystem.list_status(self._strip_protocol(path))
        entries = sorted(map(self._described, found), key=lambda entry: str(entry["name"]))
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

    def _described(self, status: FileStatus) -> dict[str, Any]:
        return {
            "name": self._strip_protocol(status.path),
            "size": status.length,
            "type": status.kind if status.kind in ("file", "directory") else "other",
            "mtime": status.modification_time_ns / 1e9,
            "mode": status.permission,
            "owner": status.owner,
            "group": status.group,
            "islink": status.kind == "symlink",
        }


class HflushHdfsFileSystem(HflushFileSystem):
    """:class:`hflush.DistributedFileSystem` as fsspec sees file systems.

    Parameters
    ----------
    host : str, optional
        Host or name service; ``fs.defaultFS`` decides unless given. URLs bring their own.
    port : int, optional
        8020 unless given.
    conf : mapping, optional
        As for :meth:`hflush.FileSystem.get`.
    """

    protocol: tuple[str, ...] = (f"{_PREFIX}hdfs",)
    _scheme = "hdfs"

    def _url(self, storage_options: Mapping[str, Any]) -> str:
        host, port = storage_options.get("host") or "", storage_options.get("port")
        return f"hdfs://{host}:{port}/" if port else f"hdfs://{host}/"

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        host, colon, port = paths.parse(path.removeprefix(_PREFIX)).authority.rpartition(":")
        if not colon or not port.isdecimal():
            host, port = f"{host}{colon}{port}", ""
        options: dict[str, Any] = {"host": host} if host else {}
        return {**options, "port": int(port)} if port else options

    @property
    def fsid(self) -> str:
        """The same for all that see the same files."""
        return f"{_PREFIX}{self.filesystem.uri}"

    def unstrip_protocol(self, name: str) -> str:
        """Return the URL of a path, with the host."""
        return self.fsid + str(self._strip_protocol(name))[1:]

    @classmethod
    def _without_authority(cls, text: str) -> str:
        return "/" + text[2:].partition("/")[2] if text.startswith("//") else text

    @classmethod
    def _working_directory(cls) -> str:
        return ""  # of a class without a user; fsspec's own take relative names from the root, too


class HflushS3FileSystem(HflushHdfsFileSystem):
    """One bucket, :class:`hflush.s3.S3FileSystem`, as fsspec sees file systems.

    Parameters
    ----------
    bucket : str, optional
        The bucket; ``fs.defaultFS`` decides unless given. URLs bring their own.
    conf : mapping, optional
        As for :meth:`hflush.FileSystem.get`.

    Notes
    -----
    Names begin with a slash and not with the bucket: there is one instance for each.
    """

    protocol = (f"{_PREFIX}s3", f"{_PREFIX}s3a")
    _scheme = "s3"

    def _url(self, storage_options: Mapping[str, Any]) -> str:
        return f"s3://{storage_options.get('bucket') or ''}/"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if not isinstance(path, list):
            text = os.fspath(path)
            path = text.replace("s3a://", "s3://", 1) if "s3a://" in text[:13] else text
        return super()._strip_protocol(path)

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        bucket = paths.parse(path.removeprefix(_PREFIX)).authority
        return {"bucket": bucket} if bucket else {}

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Let the store copy a file; of a directory, make it only."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.filesystem.is_directory(source):
            self.filesystem.mkdirs(target)
        else:
            self.filesystem.copy(source, target, overwrite=True)

    def _described(self, status: FileStatus) -> dict[str, Any]:
        described = super()._described(status)
        return {**described, "ETag": status.etag} if status.etag else described


_SERVED: dict[str, type[HflushFileSystem]] = {
    name: served
    for served in (HflushFileSystem, HflushHdfsFileSystem, HflushS3FileSystem)
    for name in (*(one.removeprefix(_PREFIX) for one in served.protocol), *served.protocol)
}


def register(*protocols: str) -> None:
    """Let fsspec use hflush for these protocols, in the place of what it has.

    Parameters
    ----------
    *protocols : str
        ``file``, ``hdfs``, ``s3``. None at all means ``hdfs`` and ``s3``.

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
        fsspec.register_implementation(protocol, _SERVED[protocol], clobber=True)
