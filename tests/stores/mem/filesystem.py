"""The file system of a memory store: the hooks of ``hflush.FileSystem`` over its C++ names."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from hflush import _core, capabilities, general_keys
from hflush import options as options_of
from hflush.filesystem import FileSystem
from hflush.keys import Reader
from hflush.output_kinds import DowngradedOutputStream, UnbufferedOutputStream, stream_type
from hflush.permissions import parse_umask, process_umask
from hflush.spelling import check_keys
from hflush.status import FileStatus, FsServerDefaults
from hflush.streams import FSDataInputStream, FSDataOutputStream

from .contract import OPTIONS
from .keys import FAMILIES, KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hflush.configuration import Configuration
    from hflush.multipart import MultipartUploader
    from hflush.options import CreateOptions

__all__ = ["MemoryFileSystem"]

_CAPABILITIES = frozenset(
    (
        capabilities.APPEND,
        capabilities.BULK_DELETE,
        capabilities.MULTIPART_UPLOADER,
        capabilities.PERMISSIONS,
    )
)
_FILE_MODE = 0o666
_DIRECTORY_MODE = 0o777
_PACKET_BYTES = 64 << 10
_NS_PER_MS = 1_000_000
_INT64_MAX = (1 << 63) - 1


class MemoryFileSystem(FileSystem):
    """Files in the memory of this process, shared by all that name the same ``mem://name/``.

    What is written is visible with ``flush``, and ends with the process. Nothing makes it durable,
    so ``hflush`` and ``hsync``, which Hadoop offers together or not at all, are refused, and so is
    ``sync_on_close``. A file that is created with ``atomic`` is whole, and no more durable.
    """

    store_name = "a memory store"
    create_options = options_of.CREATE_KEYS - {
        options_of.CHECKSUM_TYPE,
        options_of.BYTES_PER_CHECKSUM,
    }
    _discards_dropped = True

    def __init__(self, scheme: str, authority: str, conf: Configuration) -> None:
        super().__init__(scheme, authority, conf)
        check_keys(self._conf, FAMILIES, {key.name for key in KEYS})
        keys = Reader(self._conf, (*general_keys.KEYS, *KEYS))
        self._block_size = keys.number("fs.mem.block.size")
        self._downgrade = keys.flag("hflush.syncable.downgrade")
        appends = keys.flag("dfs.support.append")
        self.path_capabilities = _CAPABILITIES if appends else _CAPABILITIES - {capabilities.APPEND}
        known = {"downgrade-syncable": self._downgrade, "supports-append": appends}
        self._options = MappingProxyType({**OPTIONS, **known})
        umask = keys.text("fs.permissions.umask-mode")
        self._umask = parse_umask(umask) if umask else None
        self._names = _core._MemoryNames(authority)

    @property
    def contract_options(self) -> Mapping[str, object]:
        return self._options

    def get_server_defaults(self) -> FsServerDefaults:
        """Return what is used where the caller says nothing."""
        return FsServerDefaults(
            block_size=self._block_size,
            bytes_per_checksum=0,
            write_packet_size=_PACKET_BYTES,
            file_buffer_size=self._buffer_size,
            replication=1,
            checksum_type="NULL",
        )

    # --- streams ---

    def _check_create(self, wanted: CreateOptions) -> None:
        """Refuse a file that is to be durable, unless that was but a hint."""
        _, wish = wanted.asked.get(options_of.SYNC_ON_CLOSE, (None, options_of.Wish.MUST))
        is_hint = wanted.atomic or wish is options_of.Wish.HINT
        if wanted.sync_on_close and not is_hint:
            raise self._unsupported("sync_on_close")

    def _create(self, path: str, overwrite: bool, options: CreateOptions) -> FSDataOutputStream:
        mode = self._masked(options.permission, _FILE_MODE)
        kind = self._stream_type(options)
        return self._names.create(kind, path, overwrite, options.create_parent, mode)

    def _append(self, path: str, options: CreateOptions) -> FSDataOutputStream:
        return self._names.append(self._stream_type(options), path)

    def _stream_type(self, options: CreateOptions) -> type[FSDataOutputStream]:
        kinds: list[type[FSDataOutputStream]] = []
        if options.buffer_size == 0:
            kinds.append(UnbufferedOutputStream)
        if self._downgrade:
            kinds.append(DowngradedOutputStream)
        if options.atomic:
            from hflush.atomic import AtomicOutputStream

            kinds.append(AtomicOutputStream)
        return stream_type(FSDataOutputStream, kinds)

    def _open(self, path: str, buffer_size: int) -> FSDataInputStream:
        file = self._names.open(path)
        name = self._public_name(path)
        return FSDataInputStream(
            self, file, name, path, buffer_size=buffer_size, seeks_past_end=False
        )

    def _multipart_uploader(self, base: str) -> MultipartUploader:
        from hflush.multipart import MultipartUploader

        return MultipartUploader(self, base)

    # --- names ---

    def _status(self, path: str) -> FileStatus:
        return self._converted(self._names.status(path))

    def _list(self, path: str) -> list[FileStatus]:
        return [self._converted(entry) for entry in self._names.list(path)]

    def _converted(self, native: _core._MemoryStatus) -> FileStatus:
        return FileStatus(
            self._public_name(native.path),
            kind="directory" if native.is_directory else "file",
            length=native.length,
            replication=0 if native.is_directory else 1,
            block_size=0 if native.is_directory else self._block_size,
            modification_time_ns=native.mtime_ns,
            access_time_ns=native.atime_ns,
            permission=native.mode,
            file_id=(native.id,),
        )

    def _mkdirs(self, path: str, permission: int | None, create_parent: bool) -> None:
        self._names.mkdirs(path, self._masked(permission, _DIRECTORY_MODE), create_parent)

    def _delete(self, path: str, recursive: bool) -> bool:
        return self._names.delete(path, recursive)

    def _rename(self, source: str, destination: str) -> bool:
        return self._names.rename(source, destination)

    def _rename_exact(self, source: str, destination: str, overwrite: bool) -> None:
        self._names.rename_exact(source, destination, overwrite)

    def _set_times(self, path: str, modification_time: int, access_time: int) -> None:
        modified = _to_ns("modification_time", modification_time)
        self._names.set_times(path, modified, _to_ns("access_time", access_time))

    def _set_permission(self, path: str, permission: int) -> None:
        """Keep the bits, which stop no caller: all are of one process."""
        self._names.set_permission(path, permission)

    def _masked(self, permission: int | None, default: int) -> int:
        umask = process_umask() if self._umask is None else self._umask
        return (default if permission is None else permission) & ~umask


def _to_ns(name: str, milliseconds: int) -> int | None:
    if abs(milliseconds) > _INT64_MAX // _NS_PER_MS:
        raise ValueError(f"{name}={milliseconds} is out of range")
    return None if milliseconds == -1 else milliseconds * _NS_PER_MS
