"""The two file systems of local files: raw, and with checksum sidecars."""

# pathlib would be a third of the time that `import hflush` takes.
# ruff: noqa: PTH106, PTH108, PTH109, PTH110, PTH111, PTH114, PTH115, PTH116, PTH121, PTH208, PTH211

from __future__ import annotations

import errno
import os
import stat
from abc import abstractmethod
from contextlib import suppress
from types import MappingProxyType

from .. import _core, capabilities, general_keys, paths
from .. import options as options_of
from ..errors import (
    InvalidPathHandleError,
    NotDurableError,
    ParentNotDirectoryError,
    invalid_path,
    means_nothing_there,
    unsupported,
)
from ..filesystem import FileSystem
from ..keys import Reader
from ..output_kinds import DowngradedOutputStream, UnbufferedOutputStream, stream_type
from ..permissions import parse_umask, process_umask
from ..pinning import pinned
from ..sidecars import is_sidecar, sidecar_of
from ..spelling import check_keys
from ..status import FileChecksum, FileStatus, FsServerDefaults, FsStatus
from ..streams import FSDataInputStream, FSDataOutputStream
from .contract import CHECKSUM_OPTIONS, RAW_OPTIONS, SHARED_OPTIONS
from .keys import FAMILIES, KEYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    from ..claims import Claim
    from ..configuration import Configuration
    from ..multipart import MultipartUploader
    from ..namespace import NameSpace
    from ..options import CreateOptions, OptionValue
    from ..paths import Location, StrPath
    from ..tokens import Token
    from ..trash import Trash

__all__ = ["ChecksumFileSystem", "LocalFileSystem"]

_FILE_MODE = 0o666
_DIRECTORY_MODE = 0o777
_PACKET_BYTES = 64 << 10
_CHECKSUM_READ_BYTES = 1 << 20
_MAX_BYTES_PER_CHECKSUM = 1 << 24  # of the core
_NS_PER_MS = 1_000_000
_INT64_MAX = (1 << 63) - 1


class _LocalFiles(FileSystem):
    """What raw and checksummed local files share.

    Configuration: docs/keys.md has the keys.
    """

    _namespace: _core.RawNamespace | _core.ChecksumNamespace
    _discards_dropped = True
    _is_local = True
    _to_be_renamed: Mapping[str, OptionValue] = MappingProxyType(
        {options_of.CHECKSUM_TYPE: "NULL"}  # a sidecar would have to be renamed, too
    )

    def __init__(self, scheme: str, authority: str, conf: Configuration) -> None:
        if authority:
            host = authority.rpartition("@")[2]  # what stands before may be a secret
            raise ValueError(f"a {scheme} URL names no host, but this one names {host!r}")
        super().__init__(scheme, authority, conf)
        check_keys(self._conf, FAMILIES, {key.name for key in KEYS})
        keys = Reader(self._conf, (*general_keys.KEYS, *KEYS))
        self._block_size = keys.number("fs.local.block.size")
        self._bytes_per_checksum = keys.number("file.bytes-per-checksum")
        self._sync_on_close = keys.flag("hflush.file.sync-on-close")
        self._downgrade = keys.flag("hflush.syncable.downgrade")
        self._appends = keys.flag("dfs.support.append")
        self._trash_interval = keys.seconds("fs.trash.interval")
        umask = keys.text("fs.permissions.umask-mode")
        self._umask = parse_umask(umask) if umask else None
        # Mounts, by device, on which renames to new names (False) and over files (True) were tried.
        self._publishes: set[tuple[int, bool]] = set()

    # --- what it is ---

    @property
    def home_directory(self) -> str:
        """The home directory of the process' user."""
        home = os.path.expanduser("~")
        return home if home.startswith("/") else "/"

    def _default_working_directory(self) -> str:
        return os.getcwd()

    def _local_path(self, local: FileSystem, path: StrPath) -> str:
        location = paths.parse(path)
        if location.scheme is None and not location.path.startswith("/"):
            path = f"{self.working_directory}/{location.path}"
        return super()._local_path(local, path)

    def _public_name(self, path: str) -> str:
        return path

    def _resolve(self, path: StrPath) -> str:
        resolved = super()._resolve(path)
        if ".." in paths.as_text(path):
            paths.check_dots(path, self.working_directory)
        return resolved

    def _shares_files_with(self, other: NameSpace) -> bool:
        return isinstance(other, _LocalFiles)

    @property
    def contract_options(self) -> Mapping[str, object]:
        """How this store behaves where stores differ: the options of contract §3, read-only."""
        return MappingProxyType({**self._fixed_options(), **self._measured()})

    def _fixed_options(self) -> Mapping[str, object]:
        return {**SHARED_OPTIONS, **self._own_options()}

    def _measured(self) -> dict[str, object]:
        try:
            directory = self.working_directory
        except FileNotFoundError:  # it has been deleted
            directory = self.home_directory
        return {
            "is-case-sensitive": _is_case_sensitive(directory),
            "max-path": os.pathconf("/", "PC_PATH_MAX"),
            "sync-on-close": self._sync_on_close,
            "downgrade-syncable": self._downgrade,
        }

    @abstractmethod
    def _own_options(self) -> dict[str, object]: ...

    # --- creating and opening ---

    def _stream_type(self, options: CreateOptions) -> type[FSDataOutputStream]:
        kinds: list[type[FSDataOutputStream]] = []
        if options.buffer_size == 0:
            kinds.append(UnbufferedOutputStream)
        if self._downgrade:
            kinds.append(DowngradedOutputStream)
        if options.atomic:
            from ..atomic import AtomicOutputStream

            kinds.append(AtomicOutputStream)
        return stream_type(FSDataOutputStream, kinds)

    def _claim(self, temporary: str) -> Claim | None:
        from . import claims

        return claims.claim(temporary)

    def _sweep(self, directory: str) -> None:
        from . import claims

        claims.sweep(directory)

    def _check_publication(self, path: str, overwrite: bool) -> None:
        """Try the rename, once for each mount, between two hidden names beside the path."""
        kind = (os.stat(paths.parent(path)).st_dev, overwrite)
        if kind in self._publishes:
            return
        from . import publishing

        publishing.check(path, overwrite)
        self._publishes.add(kind)

    def _sync_entry(self, path: str) -> None:
        try:
            self._namespace.sync_directory(paths.parent(path))
        except OSError as failure:
            raise NotDurableError(
                failure.errno, f"published, but its directory could not be synced: {failure}", path
            ) from failure

    def _syncs_on_close(self, options: CreateOptions) -> bool:
        return self._sync_on_close if options.sync_on_close is None else options.sync_on_close

    def _masked(self, permission: int | None, default: int) -> int | None:
        """Return the mode bits of something new; None: by the umask of the process, or by an ACL.

        The system knows which: a directory's default ACL takes the place of the umask.
        """
        if self._umask is not None:
            return (default if permission is None else permission) & ~self._umask
        return None if permission is None else permission & ~process_umask()

    def _input(
        self, file: _core.InputFile, path: str, buffer_size: int, seeks_past_end: bool
    ) -> FSDataInputStream:
        return FSDataInputStream(
            self, file, path, path, buffer_size=buffer_size, seeks_past_end=seeks_past_end
        )

    # --- the name space ---

    def _status(self, path: str) -> FileStatus:
        found = self._namespace.status(path)
        if found.kind == "symlink" and not _leads_nowhere(path):
            return self._status(path)  # by now it leads somewhere
        return self._converted(found)

    def _list(self, path: str) -> list[FileStatus]:
        found = [self._converted(entry) for entry in self._namespace.list(path)]
        is_link = len(found) == 1 and found[0].path == path and found[0].is_symlink
        return self._list(path) if is_link and not self._status(path).is_symlink else found

    def _met(self, entry: FileStatus) -> FileStatus:
        is_way = entry.is_symlink and not _leads_nowhere(entry.path)
        return self._status(entry.path) if is_way else entry

    def _converted(self, native: _core.LocalStatus) -> FileStatus:
        is_directory = native.kind == "directory"
        return FileStatus(
            native.path,
            kind=native.kind,
            length=0 if is_directory else native.length,
            replication=0 if is_directory else 1,
            block_size=0 if is_directory else self._block_size,
            modification_time_ns=native.mtime_ns,
            access_time_ns=native.atime_ns,
            owner=native.owner,
            group=native.group,
            permission=native.mode,
            file_id=(native.device, native.inode),
        )

    def _mkdirs(self, path: str, permission: int | None, create_parent: bool) -> None:
        self._namespace.mkdirs(
            path,
            self._masked(permission, _DIRECTORY_MODE),
            is_asked=permission is not None,
            create_parent=create_parent,
        )

    def _delete(self, path: str, recursive: bool) -> bool:
        return self._namespace.delete(path, recursive)

    def _rename(self, source: str, destination: str) -> bool:
        if self._is_link(destination):
            _leads_nowhere(destination)  # fails where it may lead to a directory
        return self._namespace.rename(source, destination)

    def _rename_exact(self, source: str, destination: str, overwrite: bool) -> None:
        self._namespace.rename_exact(source, destination, overwrite)

    def _is_link(self, path: str) -> bool:
        return os.path.islink(path)

    def _link_text(self, path: str) -> str:
        return os.readlink(path)

    def _remove_emptied(
        self,
        directory: str,
        copied: Collection[str],  # noqa: ARG002
    ) -> list[str]:
        """Remove an empty directory: a sidecar without its file may be somebody's file."""
        try:
            os.rmdir(directory)
        except FileNotFoundError:
            return []
        except OSError as failure:
            if failure.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return [paths.child(directory, name) for name in os.listdir(directory)]
        return []

    def _write_target(self, path: str) -> str:
        """Return the target of a link: create writes to the target, and the link stays."""
        return os.path.realpath(path) if os.path.islink(path) else path

    def _set_times(self, path: str, modification_time: int, access_time: int) -> None:
        modified = _to_ns("modification_time", modification_time)
        self._namespace.set_times(path, modified, _to_ns("access_time", access_time))

    def _set_permission(self, path: str, permission: int) -> None:
        self._namespace.set_permission(path, permission)

    def _set_owner(self, path: str, owner: str | None, group: str | None) -> None:
        self._namespace.set_owner(path, owner, group)

    def _take_after(self, moved: FileStatus, path: str, inode: int) -> None:
        """Give the copy of local files that are moved their owner, mode and times.

        As far as the process may, and the mount can: its bytes are there. ACLs are not copied.
        """
        there = path if moved.is_directory else self._write_target(path)  # links stay
        for place, own in ((there, inode), *((beside, 0) for beside in self._sums_of(there))):
            with suppress(OSError), pinned(place, own) as made:
                self._make_like(moved, made)

    def _make_like(self, moved: FileStatus, path: str) -> None:
        if self._status(path).kind != moved.kind:  # a device
            return
        with suppress(OSError):
            self._namespace.set_owner(path, moved.owner, moved.group)
        now, mode = self._status(path), moved.permission
        if (now.owner, now.group) != (moved.owner, moved.group):
            mode &= ~(stat.S_ISUID | stat.S_ISGID)
        if now.group != moved.group or self._has_acl(moved.path):
            mode &= ~stat.S_IRWXG | (mode & stat.S_IRWXO) << 3  # its group are others there
        with suppress(OSError):
            self._namespace.set_permission(path, mode)
        with suppress(OSError):
            self._namespace.set_times(path, moved.modification_time_ns, moved.access_time_ns)

    def _has_acl(self, path: str) -> bool:
        try:
            os.getxattr(path, "system.posix_acl_access")
        except OSError:
            return False
        return True

    def _fs_status(self, path: str) -> FsStatus:
        try:
            return FsStatus(*self._namespace.fs_status(path))
        except OSError as failure:
            if path == "/" or not means_nothing_there(failure):  # it is another mount above
                raise
        return self._fs_status(paths.parent(path))

    def _delete_root(self, recursive: bool) -> bool:  # noqa: ARG002
        raise PermissionError(errno.EPERM, "delete: the root directory stays", "/")

    def get_server_defaults(self) -> FsServerDefaults:
        """Return the values that are used where the caller gives none."""
        return FsServerDefaults(
            block_size=self._block_size,
            bytes_per_checksum=self._bytes_per_checksum,
            write_packet_size=_PACKET_BYTES,
            file_buffer_size=self._buffer_size,
            replication=1,
            checksum_type=self._checksum_type(),
        )

    @abstractmethod
    def _checksum_type(self) -> str: ...

    # --- the trash ---

    def _trash(self, path: str) -> Trash:  # noqa: ARG002 -- one for all
        from ..trash import TRASH, Trash

        root = paths.child(self.home_directory, TRASH)
        return Trash(self, root, self._trash_interval)


class LocalFileSystem(_LocalFiles):
    """Local files as they are: scheme ``file``, no sidecars.

    ``hflush`` hands everything to the operating system, ``hsync`` adds fdatasync and, for a new
    file, makes its directory entry durable. Readers of a file that is overwritten see it shrink:
    there are no snapshots. ``dfs.support.append`` set to false switches append off.
    """

    __module__ = "hflush.local"

    store_name = "raw local files"
    _takes_any_name = True
    create_options = options_of.CREATE_KEYS - {
        options_of.CHECKSUM_TYPE,
        options_of.BYTES_PER_CHECKSUM,
    }
    _namespace: _core.RawNamespace

    def __init__(self, scheme: str, authority: str, conf: Configuration) -> None:
        super().__init__(scheme, authority, conf)
        self._namespace = _core.RawNamespace()
        names = {
            capabilities.TRUNCATE,
            capabilities.PERMISSIONS,
            capabilities.PATH_HANDLES,
            capabilities.BULK_DELETE,
            capabilities.MULTIPART_UPLOADER,
            capabilities.SYMLINKS,
        }
        self.path_capabilities = frozenset(
            names | ({capabilities.APPEND, capabilities.PERSIST} if self._appends else set())
        )

    def _own_options(self) -> dict[str, object]:
        return {**RAW_OPTIONS, "supports-append": self._appends}

    def _set_verify_checksum(self, verify: bool) -> None:
        """Do nothing: there are no checksums to verify."""

    def _side_files(self, path: str) -> tuple[str, ...]:
        return (sidecar_of(path),)

    def _create(self, path: str, overwrite: bool, options: CreateOptions) -> FSDataOutputStream:
        return self._namespace.create(
            self._stream_type(options),
            path,
            overwrite=overwrite,
            create_parent=options.create_parent,
            permission=self._masked(options.permission, _FILE_MODE),
            is_asked=options.permission is not None,
            sync_on_close=self._syncs_on_close(options),
            append=not overwrite and options_of.CreateFlag.APPEND in options.flags,
        )

    def _append(self, path: str, options: CreateOptions) -> FSDataOutputStream:
        return self._namespace.append(
            self._stream_type(options), path, sync_on_close=self._syncs_on_close(options)
        )

    def _persists(self, stream: FSDataOutputStream) -> bool:
        return self._appends and stream._file_id != 0

    def _persist(self, stream: FSDataOutputStream) -> bytes:
        from ..tokens import Token, not_at_its_path
        from . import resuming

        path, length = stream.path, stream.tell()
        stream.hsync()
        try:
            claim = resuming.held(path) if stream._held is None else None
            try:
                state = resuming.state_at(self._namespace, stream, path, length)
            except BaseException:
                if claim is not None:
                    claim.release()
                raise
            if claim is not None:
                self._hold(stream, claim)
        except resuming.GONE as gone:
            raise not_at_its_path(path) from gone
        return Token(self.store_name, self.make_qualified(path), length, state).pack()

    def _resume(
        self, token: Token, path: str, before_cut: Callable[[], None]
    ) -> tuple[FSDataOutputStream, Claim | None]:
        claim = self._cut(token, path, before_cut)
        try:
            options = options_of.CreateOptions({}, True)
            stream = self._append(path, options)
            if (stream._file_id, stream.tell()) != (token.state["inode"], token.length):
                stream._abandon()
                raise token.stale("the path names another file")
        except BaseException:
            claim.release()
            raise
        return stream, claim

    def _commit(self, token: Token, path: str, before_cut: Callable[[], None]) -> None:
        self._cut(token, path, before_cut).release()

    def _cut(self, token: Token, path: str, before_cut: Callable[[], None]) -> Claim:
        from . import resuming

        try:
            claim = resuming.held(path)
            try:
                before_cut()
                resuming.cut(self._namespace, token, path)
            except BaseException:
                claim.release()
                raise
        except resuming.GONE as gone:
            raise token.stale("the file is gone") from gone
        return claim

    def _open(self, path: str, buffer_size: int) -> FSDataInputStream:
        file = self._namespace.open(path, verify=False)
        return self._input(file, path, buffer_size, seeks_past_end=True)

    def _truncate(self, path: str, length: int) -> bool:
        self._namespace.truncate(path, length)
        return True

    def _path_handle(self, status: FileStatus, changed: bool, moved: bool) -> bytes:
        from .. import handles

        if moved:
            raise unsupported("a path handle that survives a move", self.store_name, status.path)
        seen = (
            None
            if changed
            else _version(status.file_id, status.length, status.modification_time_ns)
        )
        return handles.pack(status.path, seen)

    def _open_path_handle(self, handle: bytes, buffer_size: int | str | None) -> FSDataInputStream:
        from .. import handles

        path, (seen,) = handles.unpack(handle, 1)
        try:
            stream = self.open(path, buffer_size=buffer_size)
        except OSError as failure:
            if means_nothing_there(failure):
                raise handles.gone(path) from failure
            raise
        now = os.fstat(stream.raw.file.fileno())
        if seen not in (None, _version((now.st_dev, now.st_ino), now.st_size, now.st_mtime_ns)):
            stream.close()
            raise InvalidPathHandleError(errno.ESTALE, "path handle: the file has changed", path)
        return stream

    def _file_checksum(self, path: str) -> FileChecksum:
        what = "get_file_checksum (file+crc:// computes one, as hflush.crc does)"
        raise self._unsupported(what, path)

    def _multipart_uploader(self, base: str) -> MultipartUploader:
        from ..multipart import MultipartUploader

        return MultipartUploader(self, base)

    def _create_symlink(self, target: str, link: str, create_parent: bool) -> None:
        if create_parent:
            self._mkdirs(paths.parent(link), None, True)
        try:
            os.symlink(target, link)
        except OSError as failure:
            raise _of_link(failure, "create_symlink", link) from None

    def _link_target(self, path: str) -> str:
        try:
            return os.readlink(path)
        except OSError as failure:
            raise _of_link(failure, "get_link_target", path) from None

    def _link_status(self, path: str) -> FileStatus:
        try:
            facts = os.lstat(path)
        except OSError as failure:
            raise _of_link(failure, "status", path) from None
        if not stat.S_ISLNK(facts.st_mode):
            return self._status(path)
        owner, group = _owner_and_group(facts)
        return FileStatus(
            self._public_name(path),
            kind="symlink",
            length=facts.st_size,
            modification_time_ns=facts.st_mtime_ns,
            access_time_ns=facts.st_atime_ns,
            owner=owner,
            group=group,
            permission=stat.S_IMODE(facts.st_mode),
            file_id=(facts.st_dev, facts.st_ino),
        )

    def _checksum_type(self) -> str:
        return "NULL"


class ChecksumFileSystem(_LocalFiles):
    """Local files with Hadoop's checksum sidecars: ``.name.crc`` beside ``name``.

    Scheme ``file+crc``, or ``file`` with ``fs.file.checksum`` set: what Hadoop's LocalFileSystem
    writes and reads. ``file.bytes-per-checksum`` (512) is the size of a chunk. Sidecars are
    verified on read, hidden in listings, and follow rename, delete and changes of permission and
    owner; their names cannot be used for files. Checksums cover whole chunks, so there is neither
    hflush nor hsync, and no append.
    """

    __module__ = "hflush.local"

    store_name = "local files with crc sidecars"
    path_capabilities = frozenset(
        (capabilities.PERMISSIONS, capabilities.CHECKSUMS, capabilities.BULK_DELETE)
    )
    _namespace: _core.ChecksumNamespace

    def __init__(self, scheme: str, authority: str, conf: Configuration) -> None:
        super().__init__(scheme, authority, conf)
        self._namespace = _core.ChecksumNamespace()
        self._writes_checksums = True
        self._verifies_checksums = True

    def _own_options(self) -> dict[str, object]:
        return dict(CHECKSUM_OPTIONS)

    def _accepts(self, location: Location) -> bool:
        return location.scheme in ("file", "file+crc") and not location.authority

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings()
        if not self._writes_checksums:
            settings["_writes_checksums"] = False
        if not self._verifies_checksums:
            settings["_verifies_checksums"] = False
        return settings

    def _resolve_to_change(self, path: StrPath) -> str:
        resolved = self._resolve(path)
        if is_sidecar(paths.basename(resolved)):
            raise invalid_path(
                resolved, "names of the form '.x.crc' are those of checksum sidecars"
            )
        return resolved

    def _set_write_checksum(self, write: bool) -> None:
        self._writes_checksums = write

    def _set_verify_checksum(self, verify: bool) -> None:
        self._verifies_checksums = verify

    def _check_create(self, wanted: CreateOptions) -> None:
        """Refuse what sidecars cannot have, unless that was but a hint; the core does the rest."""
        hints = {key for key, (_, wish) in wanted.asked.items() if wish is options_of.Wish.HINT}
        if wanted.checksum_type == "CRC32C":
            if options_of.CHECKSUM_TYPE not in hints:
                raise ValueError("sidecars hold CRC32 sums, not CRC32C")
            wanted.checksum_type = None
        is_too_much = (wanted.bytes_per_checksum or 0) > _MAX_BYTES_PER_CHECKSUM
        if is_too_much and options_of.BYTES_PER_CHECKSUM in hints:
            wanted.bytes_per_checksum = None

    def _write_target(self, path: str) -> str:
        """Return the target of a link, beside which its sums are."""
        return self._resolve_to_change(super()._write_target(path))

    def _create(self, path: str, overwrite: bool, options: CreateOptions) -> FSDataOutputStream:
        return self._namespace.create(
            self._stream_type(options),
            self._write_target(path) if overwrite else path,
            overwrite=overwrite,
            create_parent=options.create_parent,
            permission=self._masked(options.permission, _FILE_MODE),
            is_asked=options.permission is not None,
            bytes_per_checksum=options.bytes_per_checksum or self._bytes_per_checksum,
            sync_on_close=self._syncs_on_close(options),
            write_checksum=self._writes_checksums and options.checksum_type != "NULL",
        )

    def _set_permission(self, path: str, permission: int) -> None:
        super()._set_permission(self._write_target(path), permission)

    def _set_owner(self, path: str, owner: str | None, group: str | None) -> None:
        super()._set_owner(self._write_target(path), owner, group)

    def _sums_of(self, path: str) -> tuple[str, ...]:
        return (sidecar_of(path),)

    def _claim(self, temporary: str) -> Claim | None:
        from . import claims

        sidecar = sidecar_of(temporary)
        return claims.claim(temporary, *([sidecar] if os.path.exists(sidecar) else []))

    def _discard(self, temporary: str) -> bool:
        """Remove both files: perhaps only the sidecar is left."""
        was_there = super()._discard(temporary)
        with suppress(FileNotFoundError):
            os.unlink(sidecar_of(temporary))
        return was_there

    def _append(self, path: str, options: CreateOptions) -> FSDataOutputStream:  # noqa: ARG002
        raise unsupported("append", self.store_name, path)

    def _open(self, path: str, buffer_size: int) -> FSDataInputStream:
        target = super()._write_target(path)
        file = self._namespace.open(target, verify=self._verifies_checksums)
        return self._input(file, path, buffer_size, seeks_past_end=False)

    def _file_checksum(self, path: str) -> FileChecksum:
        """Return the CRC-32 of the whole content, verified against the sidecar as it is read."""
        value = 0
        with self.open(path) as stream:
            while part := stream.read(_CHECKSUM_READ_BYTES):
                value = _core.crc32(part, value)
        return FileChecksum("COMPOSITE-CRC32", value.to_bytes(4, "big"))

    def _checksum_type(self) -> str:
        return "CRC32"


def local_files(
    scheme: str, authority: str, conf: Configuration
) -> LocalFileSystem | ChecksumFileSystem:
    """Return the file system that a scheme and a configuration ask for."""
    checksummed = scheme == "file+crc" or Reader(conf, KEYS).flag("fs.file.checksum")
    return (ChecksumFileSystem if checksummed else LocalFileSystem)(scheme, authority, conf)


# --- small things --------------------------------------------------------------------------------


def _to_ns(name: str, milliseconds: int) -> int | None:
    time = options_of.whole(name, milliseconds)
    if abs(time) > _INT64_MAX // _NS_PER_MS:
        raise ValueError(f"{name}={time} is out of range")
    return None if time == -1 else time * _NS_PER_MS


def _leads_nowhere(link: str) -> bool:
    """Whether a link leads to nothing, which is not so where one may not, or cannot, look."""
    try:
        os.stat(link)
    except OSError as failure:
        if means_nothing_there(failure) or failure.errno == errno.ENAMETOOLONG:
            return True
        raise OSError(failure.errno, f"status: {failure.strerror}", link) from None
    return False


def _of_link(failure: OSError, operation: str, path: str) -> OSError:
    """Return the system's error about a link as an error of the operation."""
    is_no_link = failure.errno == errno.EINVAL
    message = f"{operation}: {'not a symbolic link' if is_no_link else failure.strerror}"
    kind = ParentNotDirectoryError if failure.errno == errno.ENOTDIR else OSError
    return kind(failure.errno, message, path)


def _owner_and_group(facts: os.stat_result) -> tuple[str, str]:
    import grp
    import pwd

    owner, group = str(facts.st_uid), str(facts.st_gid)
    with suppress(KeyError):
        owner = pwd.getpwuid(facts.st_uid).pw_name
    with suppress(KeyError):
        group = grp.getgrgid(facts.st_gid).gr_name
    return owner, group


def _version(file_id: tuple[int, ...] | None, length: int, mtime_ns: int) -> list[int]:
    return [*(file_id or ()), length, mtime_ns]


def _is_case_sensitive(path: str) -> bool:
    """Whether names that differ in case are different files, seen without writing anything."""
    swapped = path.swapcase()
    if swapped == path:
        return True
    try:
        return not os.path.samefile(path, swapped)
    except OSError:
        return True
