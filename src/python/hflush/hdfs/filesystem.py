"""The file system of one HDFS: its name space, and the streams made in it."""

from __future__ import annotations

import contextlib
import errno
import time
from types import MappingProxyType
from weakref import WeakKeyDictionary

from .. import _core, capabilities, credentials, general_keys, paths
from .. import options as options_of
from ..configuration import real_user_name, user_name
from ..errors import InvalidPathHandleError, LeaseHeldError, invalid_path, note
from ..filesystem import FileSystem
from ..keys import Reader
from ..options import CreateFlag
from ..output_kinds import ReportingOutputStream, UnbufferedOutputStream, stream_type
from ..permissions import parse_umask
from ..spelling import check_keys
from ..statistics import IOStatistics, aggregate, live
from ..status import (
    BlockLocation,
    ContentSummary,
    FileChecksum,
    FileStatus,
    FsServerDefaults,
    FsStatus,
)
from ..streams import FSDataInputStream, FSDataOutputStream
from . import options as own
from .builders import HdfsFileBuilder
from .contract import OPTIONS
from .identity import Identity, foreign, joined
from .keys import DEFAULT_PORT, KEYS, KNOWN_KEYS, REAL_USER, USER
from .settings import read_native, split_user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from ..claims import Claim
    from ..configuration import Configuration
    from ..multipart import MultipartUploader
    from ..namespace import NameSpace
    from ..options import CreateOptions
    from ..paths import StrPath
    from ..status import LeaseRecovery
    from ..tokens import Token
    from ..trash import Trash

__all__ = ["DistributedFileSystem", "HdfsFileBuilder", "HdfsInputStream"]

_UMASK = "022"
_FILE_MODE = 0o666
_DIRECTORY_MODE = 0o777
_NS_PER_MS = 1_000_000
_INT64_MAX = (1 << 63) - 1
_REPEATS = 3  # of a truncation that was not answered
_INODES = "/.reserved/.inodes"
_SAFE_MODE_ACTIONS = {"leave": 1, "enter": 2, "get": 3, "force_exit": 4}
_INPUT_CAPABILITIES = frozenset((capabilities.DROPBEHIND, capabilities.READAHEAD))


class HdfsInputStream(FSDataInputStream):
    """A file of HDFS opened for reading, its checksums verified, its replicas taken in turn."""

    __module__ = "hflush.hdfs"

    def set_drop_behind(self, value: bool | None, /) -> None:
        """Let data nodes drop what they read from their cache, keep it, or do as configured."""
        if value is not None and not isinstance(value, bool):
            raise TypeError(f"value must be bool or None, not {type(value).__name__}")
        self._check_open()
        self.raw.file.set_drop_behind(value)

    def set_readahead(self, size: int | None, /) -> None:
        """Let data nodes read so many bytes ahead of what they send, or as configured.

        Raises
        ------
        ValueError
            `size` is negative.
        """
        bytes_ahead = None if size is None else options_of.whole("size", size)
        if bytes_ahead is not None and not 0 <= bytes_ahead <= _INT64_MAX:
            raise ValueError(f"size={bytes_ahead} is out of range")
        self._check_open()
        self.raw.file.set_readahead(bytes_ahead)

    def has_capability(self, name: str, /) -> bool:
        """Return whether this stream has a capability, without regard to case; also if closed."""
        wanted = capabilities.canonical(name)
        return super().has_capability(wanted) or wanted in _INPUT_CAPABILITIES


class DistributedFileSystem(FileSystem):
    """HDFS: scheme ``hdfs``, ``hdfs://host:port/`` (port 8020 if left out) or ``hdfs://service/``.

    Hadoop's keys decide: ``dfs.nameservices`` and its kin say where a service's NameNodes are,
    ``fs.defaultFS`` what a URL without a host means; docs/hdfs-client.md lists all that are heard.
    The user is that of the URL, ``hdfs://ann@host/``, else ``hflush.hdfs.user``, else
    ``HADOOP_USER_NAME``, in a worker of PySpark ``SPARK_USER``, else the owner of the process,
    when the instance is made; with ``HADOOP_PROXY_USER``, unless one of the first two is there,
    that one acts as the user named there, if the NameNode allows it. It connects when it is first
    used, and again in a forked child or where it is unpickled.

    ``hflush`` waits until every data node of the pipeline has the bytes, ``hsync`` until each has
    them on disk, those of earlier blocks too. One writer at a time holds a file, by a lease that is
    renewed in the background while it is open; readers are not disturbed.
    """

    __module__ = "hflush.hdfs"

    store_name = "hdfs"
    create_options = own.KEYS
    append_options = options_of.APPEND_KEYS | {own.UPDATE_LENGTH, own.FAVORED_NODES}

    def __init__(self, scheme: str, authority: str, conf: Configuration) -> None:
        if not authority:
            default = paths.parse(conf.default_file_system()).scheme or "no scheme"
            raise ValueError(
                f"a {scheme} URL must name a host or a name service, as {scheme}://host:port/path "
                f"does, unless fs.defaultFS does: that is a URL of {default}"
            )
        user, place = split_user(authority)
        super().__init__(scheme, authority, conf)
        check_keys(self._conf, ("dfs.", "ipc.", "hflush.hdfs."), KNOWN_KEYS)
        keys = Reader(self._conf, (*general_keys.KEYS, *KEYS))
        named = user or keys.text(USER)
        self._user = named or user_name()
        real_user = user or keys.text(REAL_USER) or named or real_user_name()
        self._umask = parse_umask(keys.text("fs.permissions.umask-mode") or _UMASK)
        self._appends = keys.flag("dfs.support.append")
        self._combines = keys.text("dfs.checksum.combine.mode") == "composite_crc"
        self._home_prefix = paths.normalize(keys.text("dfs.user.home.dir.prefix"))
        self._verifies_checksums = True
        # Of files that are persisted; behind a router each may have another.
        self._block_pools: WeakKeyDictionary[FSDataOutputStream, str] = WeakKeyDictionary()
        self._sweep_after_s = keys.seconds("hflush.atomic.sweep-after")
        self._trash_interval = keys.seconds("fs.trash.interval")
        self._identity = Identity(self._conf)
        for_whom = "" if real_user == self._user else real_user
        self._settings_of_client = read_native(
            self._conf, place, self._user, for_whom, self._identity.tokens
        )
        self._native = _core.HdfsClient(self._settings_of_client)
        names = {
            capabilities.BULK_DELETE,
            capabilities.CHECKSUMS,
            capabilities.CONCAT,
            capabilities.LEASE_RECOVERABLE,
            capabilities.MULTIPART_UPLOADER,
            capabilities.PATH_HANDLES,
            capabilities.PERMISSIONS,
            capabilities.TRUNCATE,
        }
        self.path_capabilities = frozenset(
            names | ({capabilities.APPEND, capabilities.PERSIST} if self._appends else set())
        )

    def close(self) -> None:
        """Close the output streams that are open, then remove what :meth:`delete_on_exit` noted.

        Connections end; using the instance again makes new ones.

        Raises
        ------
        OSError
            The first stream that could not be closed; the others are attached as notes. All are
            closed.
        """
        try:
            super().close()
        finally:
            self._native.close()

    # --- what it is ---

    @property
    def home_directory(self) -> str:
        """The user's directory, which need not exist: below ``dfs.user.home.dir.prefix``."""
        return paths.child(self._home_prefix, self._user)

    def _acts_as(self) -> str:
        return self._user

    @property
    def contract_options(self) -> Mapping[str, object]:
        """How this store behaves where stores differ: the options of contract §3, read-only."""
        write = self._settings_of_client.write
        window = write.max_packets_in_flight * write.packet_size
        return MappingProxyType(
            {**OPTIONS, "supports-append": self._appends, "max-write-window": window}
        )

    def _fixed_options(self) -> Mapping[str, object]:
        return OPTIONS

    def _enclosing_root(self, path: str) -> str:
        """Return the root of the encryption zone; ``/`` also of NameNodes that do not know it."""
        try:
            return self._native.enclosing_root(path)
        except OSError as refusal:
            if refusal.errno == errno.ENOSYS:
                return "/"
            raise

    def io_statistics(self) -> IOStatistics:
        """Return what the output streams made here did together, once they are closed.

        And, as long as this instance is not closed, what its calls of NameNodes came to.
        """
        return aggregate((super().io_statistics(), live(self._native.statistics)))

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings()
        if not self._verifies_checksums:
            settings["_verifies_checksums"] = False
        return settings

    def _caller(self, with_secrets: bool) -> dict[str, str]:
        return self._identity.caller(with_secrets, self._settings_of_client)

    @classmethod
    def _caller_of_all(cls, conf: Configuration, with_secrets: bool) -> dict[str, str]:
        return Identity(conf).caller(with_secrets)

    @classmethod
    def _joined(cls, callers: Iterable[dict[str, str]]) -> dict[str, str]:
        return joined([*callers])

    @classmethod
    def _foreign(cls, caller: dict[str, str], conf: Configuration) -> dict[str, str]:
        return foreign(caller, conf)

    def _is_own(self, authority: str) -> bool:
        user, place = split_user(authority)
        return (
            bool(place)
            and _canonical(place) == _canonical(split_user(self._authority)[1])
            and user in ("", self._user)
        )

    def _shares_files_with(self, other: NameSpace) -> bool:
        """Return whether both are of one cluster, for any users: they have a NameNode in common."""
        if not isinstance(other, DistributedFileSystem):
            return False
        return not self._name_nodes().isdisjoint(other._name_nodes())

    def _name_nodes(self) -> set[tuple[str, int]]:
        nodes = self._settings_of_client.name_nodes
        return {(host.lower(), port) for host, port in nodes}

    def _resolve(self, path: StrPath) -> str:
        resolved = super()._resolve(path)
        if not resolved.isascii():
            try:
                resolved.encode("utf-8")
            except UnicodeEncodeError:
                raise invalid_path(resolved, "hdfs has no names that are not UTF-8") from None
        return resolved

    # --- creating and opening ---

    def create_file(self, path: StrPath) -> HdfsFileBuilder:
        """Return a builder that creates a file: it overwrites, and by itself makes no parents."""
        return HdfsFileBuilder(
            self._build, paths.as_text(path), CreateFlag.CREATE | CreateFlag.OVERWRITE
        )

    def append_file(self, path: StrPath) -> HdfsFileBuilder:
        """Return a builder that appends to a file."""
        return HdfsFileBuilder(self._build, paths.as_text(path), CreateFlag.APPEND)

    def _check_create(self, wanted: CreateOptions) -> None:
        policy = own.HdfsOptions(wanted.asked).ec_policy
        if policy is not None and CreateFlag.SHOULD_REPLICATE in wanted.flags:
            raise ValueError(f"SHOULD_REPLICATE contradicts the policy {policy!r}")

    def _create(self, path: str, overwrite: bool, options: CreateOptions) -> FSDataOutputStream:
        wanted = self._native_options(options)
        wanted.overwrite = overwrite
        return self._reporting(self._native.create(_stream_type(options), path, wanted), options)

    def _native_options(self, options: CreateOptions) -> _core.HdfsCreateOptions:
        flags, asked = options.flags, own.HdfsOptions(options.asked)
        native = _core.HdfsCreateOptions()
        native.create_parent = options.create_parent
        native.unmasked, native.masked = self._permissions(options.permission, _FILE_MODE)
        native.replication = options.replication
        native.block_size = options.block_size
        native.checksum = options.checksum_type
        native.bytes_per_checksum = options.bytes_per_checksum
        _set_common(native, options, asked)
        native.lazy_persist = CreateFlag.LAZY_PERSIST in flags
        native.should_replicate = CreateFlag.SHOULD_REPLICATE in flags
        native.storage_policy = asked.storage_policy or ""
        native.ec_policy = asked.ec_policy or ""
        return native

    def _sweep(self, directory: str) -> None:
        """Remove temporary files that are closed, for the NameNode closes those of the dead.

        A living writer's is open, or was closed a moment ago: while a file is open its modification
        time is that of its creation, so it is asked for again once the file is known to be closed.
        Names that cannot be looked at or removed are passed over.
        """
        from ..atomic import is_temporary

        latest = (time.time() - self._sweep_after_s) * 1000
        for status in self._following(directory, self._page(directory, ".", False), False):
            if not status.name.startswith("."):
                return  # names are sorted: there are no hidden ones behind
            if not is_temporary(status.name) or not status.is_file:
                continue
            if status.modification_time < latest:
                with contextlib.suppress(OSError):
                    self._remove_if_closed_before(latest, self._store_path(status))

    def _remove_if_closed_before(self, latest: float, path: str) -> None:
        if self._native.is_file_closed(path) and self._status(path).modification_time < latest:
            self._native.delete(path, False)

    def _append(self, path: str, options: CreateOptions) -> FSDataOutputStream:
        wanted = self._append_options(options)
        return self._reporting(self._native.append(_stream_type(options), path, wanted), options)

    @staticmethod
    def _append_options(options: CreateOptions) -> _core.HdfsAppendOptions:
        native = _core.HdfsAppendOptions()
        native.new_block = CreateFlag.NEW_BLOCK in options.flags
        _set_common(native, options, own.HdfsOptions(options.asked))
        return native

    # --- streams that can be resumed ---

    def _persists(self, stream: FSDataOutputStream) -> bool:
        can = self._appends and stream._file_id != 0
        return can and stream.has_capability(capabilities.HSYNC)

    def _persist(self, stream: FSDataOutputStream) -> bytes:
        from ..tokens import Token, not_at_its_path

        path, length = stream.path, stream.tell()
        stream.hsync()
        pool = self._block_pools.get(stream, "")
        try:
            if self._status(path).file_id != (stream._file_id,):
                raise not_at_its_path(path)
            if length and not pool:
                pool = self._block_pools[stream] = self._pool(path)
        except FileNotFoundError as missing:
            raise not_at_its_path(path) from missing
        state = {"file_id": stream._file_id, "pool": pool}
        return Token(self.store_name, self.make_qualified(path), length, state).pack()

    def _resume(
        self, token: Token, path: str, before_cut: Callable[[], None]
    ) -> tuple[FSDataOutputStream, Claim | None]:
        found, pool = self._found(token, path, before_cut)
        stream = self._append_where_it_ends(token, path, found, before_cut)
        if (stream._file_id, stream.tell()) != (token.state["file_id"], token.length):
            with contextlib.suppress(OSError):  # another one's: it stays as it is, and closed
                _core.OutputStream.close(stream)
            raise token.stale("another writer has changed the file meanwhile")
        self._block_pools[stream] = pool
        return stream, None

    def _append_where_it_ends(
        self, token: Token, path: str, found: FileStatus, before_cut: Callable[[], None]
    ) -> FSDataOutputStream:
        """Append to the token's file: at once if it ends at the token's point and is closed."""
        as_it_is = options_of.CreateOptions({}, True)
        if found.length == token.length:
            with contextlib.suppress(LeaseHeldError):
                return self._append(path, as_it_is)
        self._close_at(token, path, found, before_cut)
        return self._append(path, as_it_is)

    def _commit(self, token: Token, path: str, before_cut: Callable[[], None]) -> None:
        found, _ = self._found(token, path, before_cut)
        self._close_at(token, path, found, before_cut)

    def _found(
        self, token: Token, path: str, before_cut: Callable[[], None]
    ) -> tuple[FileStatus, str]:
        """Return the status of the token's file and its block pool; end the client's own streams.

        It looks before anything is done: the path may name another file, which is being written.
        A stream that has written behind the token fails with LeaseLostError, as another client's
        would, also if it is closed next.

        Raises
        ------
        ValueError, StaleTokenError
            It is in another cluster; it is gone, or was replaced.
        """
        from . import resuming

        token.check_state(resuming.STATE)
        try:
            status = self._status(path)
            pool = self._pool(path)
        except FileNotFoundError as missing:
            raise token.stale("the file is gone") from missing
        resuming.check_pool(token, pool)
        resuming.check_file(token, status)
        # The NameNode would take its calls for those of the new stream.
        own = [
            stream
            for stream in self._open_streams()
            if stream._file_id == token.state["file_id"]
            and not self._is_elsewhere(stream, path, pool)
        ]
        if any(stream._state == "open" and stream.tell() < token.length for stream in own):
            raise token.stale("the file was cut since, and is shorter")
        if own:
            before_cut()
        for stream in own:
            if stream._state == "open" and stream.tell() <= token.length:
                stream._abandon()
            else:
                stream._supersede()  # one that has failed still says so when it is closed
        return status, pool

    def _pool(self, path: str) -> str:
        """Return a file's block pool; "" of one without a block, or that this user may not read."""
        with contextlib.suppress(PermissionError):
            return self._native.block_pool(path)
        return ""

    def _is_elsewhere(self, stream: FSDataOutputStream, path: str, pool: str) -> bool:
        """Return whether a stream writes a file of another namespace, which may have the same id.

        Behind a router. At another path alone it may be the same file, renamed.
        """
        if stream.path == path:
            return False
        of_stream = self._block_pools.get(stream, "")
        with contextlib.suppress(OSError):
            of_stream = of_stream or self._native.block_pool(stream.path)
        return "" not in (pool, of_stream) and pool != of_stream

    def _close_at(
        self, token: Token, path: str, found: FileStatus, before_cut: Callable[[], None]
    ) -> None:
        """Close the token's file at its point, even if another client is writing it."""
        from . import resuming

        def look() -> FileStatus:
            status = self._status(path)
            resuming.check_file(token, status)
            resuming.check_length(token, status)
            return status

        def cut() -> bool:
            before_cut()
            if place == path:
                look()
            return self._truncate(place, token.length)

        before_cut()
        place = self._place_of(token, path)
        try:
            resuming.closed_at(
                token.length,
                path=path,
                close=lambda: self._recover_lease(place, resuming.WAIT_S, None),
                look=look,
                cut=cut,
                is_closed=lambda: self._native.is_file_closed(place),
                may_be_cut=found.length > token.length,
            )
        except FileNotFoundError as missing:
            raise token.stale("the file is gone") from missing
        except OSError as failure:
            if failure.filename == place:
                failure.filename = path
            raise

    def _place_of(self, token: Token, path: str) -> str:
        """Return a path that is the token's file as long as that exists: by its id.

        Behind a router an id leads nowhere, or into another namespace: there it is the path.
        """
        by_id = f"{_INODES}/{token.state['file_id']}"
        with contextlib.suppress(OSError):
            pool = token.state["pool"] or self._native.block_pool(path)
            if pool and self._native.block_pool(by_id) == pool:
                return by_id
        return path

    @staticmethod
    def _reporting(stream: FSDataOutputStream, options: CreateOptions) -> FSDataOutputStream:
        if isinstance(stream, ReportingOutputStream) and options.progress is not None:
            stream._report_to(options.progress)
        return stream

    def _permissions(self, permission: int | None, default: int) -> tuple[int, int]:
        """Return the mode bits as they were asked for, and what the umask leaves of them."""
        unmasked = default if permission is None else permission
        return unmasked, unmasked & ~self._umask

    def _open(self, path: str, buffer_size: int) -> FSDataInputStream:
        file = self._native.open(path, self._verifies_checksums)
        return self._input(file, path, buffer_size)

    def _input(self, file: _core.InputFile, path: str, buffer_size: int) -> FSDataInputStream:
        name = self._public_name(path)
        return HdfsInputStream(
            self, file, name, path, buffer_size=buffer_size, seeks_past_end=False
        )

    def _set_verify_checksum(self, verify: bool) -> None:
        self._verifies_checksums = verify

    # --- the name space ---

    def _status(self, path: str) -> FileStatus:
        native = self._native.status(path)
        if native is None:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)
        return self._converted(native, path)

    def _converted(self, native: _core.HdfsFileStatus, path: str) -> FileStatus:
        is_directory = native.kind == "directory"
        locations = native.locations
        return FileStatus(
            self._public_name(path),
            kind=native.kind,
            length=0 if is_directory else native.length,
            replication=0 if is_directory else native.replication,
            block_size=0 if is_directory else native.block_size,
            modification_time_ns=native.modification_time * _NS_PER_MS,
            access_time_ns=native.access_time * _NS_PER_MS,
            owner=native.owner,
            group=native.group,
            permission=native.permission,
            file_id=(native.file_id,) if native.file_id else None,
            is_encrypted=native.is_encrypted,
            is_erasure_coded=native.is_erasure_coded,
            has_acl=native.has_acl,
            block_locations=None if locations is None else tuple(map(_location, locations)),
        )

    def _loop_id(self, status: FileStatus) -> object:  # noqa: ARG002
        """Return None: no links lead up, and behind a router ids of several namespaces repeat."""
        return None

    def _list(self, path: str) -> list[FileStatus]:
        return list(self._iterate(path))

    def _iterate(self, path: str) -> Iterator[FileStatus]:
        return self._following(path, self._page(path, "", False), False)

    def _iterate_located(self, path: str) -> Iterator[FileStatus]:
        return self._following(path, self._page(path, "", True), True)

    def _page(
        self, path: str, start_after: str, located: bool
    ) -> tuple[list[_core.HdfsFileStatus], int]:
        page = self._native.list_page(path, start_after, located)
        if page is None:
            raise FileNotFoundError(errno.ENOENT, "list: no such file or directory", path)
        return page

    def _following(
        self, path: str, page: tuple[list[_core.HdfsFileStatus], int], located: bool
    ) -> Iterator[FileStatus]:
        """Yield what is in a page and in those after it, each of which is asked for when needed."""
        while True:
            entries, remaining = page
            for entry in entries:
                name = entry.name  # a file lists itself, without one
                is_itself = not name and entry.kind == "directory"  # and would be below itself
                if is_itself or name in (".", "..") or "/" in name:
                    raise OSError(errno.EBADMSG, f"list: no name of a file: {name!r}", path)
                place = paths.child(path, name) if name else path
                status = self._converted(entry, place)
                if located and status.block_locations is None:
                    status.block_locations = ()
                yield status
            if not remaining or not entries:
                return
            page = self._page(path, entries[-1].name, located)

    def _mkdirs(self, path: str, permission: int | None, create_parent: bool) -> None:
        unmasked, masked = self._permissions(permission, _DIRECTORY_MODE)
        if not self._native.mkdirs(path, masked, unmasked, create_parent):
            raise OSError(errno.EIO, "mkdirs: the directory was not made", path)

    def _delete(self, path: str, recursive: bool) -> bool:
        return self._native.delete(path, recursive)

    def _rename(self, source: str, destination: str) -> bool:
        return self._native.rename(source, destination)

    def _rename_exact(self, source: str, destination: str, overwrite: bool) -> None:
        self._rename2(source, destination, overwrite=overwrite)

    def _rename_to_trash(self, source: str, destination: str) -> None:
        """Say that it is the trash: the NameNode empties it, and asks now who may do that."""
        self._rename2(source, destination, to_trash=True)

    def _rename2(
        self, source: str, destination: str, *, overwrite: bool = False, to_trash: bool = False
    ) -> None:
        try:
            self._native.rename_exact(source, destination, overwrite, to_trash)
        except FileExistsError as refusal:
            refusal.filename = destination
            raise
        except OSError as refusal:
            # The NameNode looks at the kind of what is there first, and then whether it may stay.
            if overwrite or "must both be" not in str(refusal.strerror):
                raise
            raise FileExistsError(errno.EEXIST, refusal.strerror, destination) from refusal

    def _content_summary(self, path: str) -> ContentSummary:
        """Return what the NameNode counts, and the quotas set on the path."""
        return ContentSummary(*self._native.content_summary(path))

    def _block_locations(self, status: FileStatus, start: int, end: int) -> list[BlockLocation]:
        found = self._native.block_locations(self._store_path(status), start, end - start)
        return [_location(location) for location in found]

    def _set_times(self, path: str, modification_time: int, access_time: int) -> None:
        modified = _time("modification_time", modification_time)
        self._native.set_times(path, modified, _time("access_time", access_time))

    def _set_permission(self, path: str, permission: int) -> None:
        self._native.set_permission(path, permission)

    def _set_owner(self, path: str, owner: str | None, group: str | None) -> None:
        if owner is None and group is None:
            self._status(path)
        else:
            self._native.set_owner(path, owner, group)

    def _set_replication(self, path: str, replication: int) -> bool:
        if not 0 < replication <= options_of.MAX_REPLICATION:
            limit = options_of.MAX_REPLICATION
            raise ValueError(f"replication must be from 1 to {limit}, not {replication}")
        return self._native.set_replication(path, replication)

    def set_storage_policy(self, path: StrPath, policy: str) -> None:
        """Set by name on what kind of storage a file, or what is below a directory, is kept."""
        self._native.set_storage_policy(self._resolve_to_change(path), options_of.as_name(policy))

    def set_quota(self, path: StrPath, names: int | None = None, space: int | None = None) -> None:
        """Limit what is below a directory; a privileged user may.

        Parameters
        ----------
        path : str or os.PathLike
            The directory.
        names, space : int, optional
            How many files and directories, the directory included, and how many bytes of all
            copies; -1 for no limit, None for what is set.

        Raises
        ------
        ValueError
            A limit is below -1, or `names` is 0.
        """
        limits = _quota("names", names, 1), _quota("space", space, 0)
        self._native.set_quota(self._resolve_to_change(path), *limits)

    def _truncate(self, path: str, length: int) -> bool:
        """Truncate once: the NameNode would not know a repeat after a lost answer for one.

        By then another writer may have appended. So it is repeated where nothing has changed, or
        where the file is open, which refuses it or is being truncated.
        """
        from .lease_recovery import is_away

        before = self._version(path)
        for _ in range(_REPEATS):
            try:
                return self._native.truncate(path, length)
            except OSError as failure:  # noqa: PERF203
                if not is_away(failure):
                    raise
                now = self._version(path)
                if now == before or not self._native.is_file_closed(path):
                    continue
                if now[0] == before[0] and self._status(path).length == length:
                    return True
                note(failure, "the file was truncated, or changed by another program, meanwhile")
                raise
        return self._native.truncate(path, length)

    def _version(self, path: str) -> tuple[object, float]:
        """Return what is another value once the file was closed, truncated or replaced.

        It is set by create, close, truncate and set_times, but not by append. No right to the file
        is needed.
        """
        status = self._status(path)
        return status.file_id, status.modification_time

    def _is_being_written(self, path: str) -> bool:
        try:
            return not self._native.is_file_closed(path)
        except FileNotFoundError:
            return False

    def _concat(self, path: str, sources: list[str]) -> None:
        self._native.concat(path, sources)

    # --- the whole of it ---

    def _fs_status(self, path: str) -> FsStatus:  # noqa: ARG002 -- all data nodes together
        return FsStatus(*self._native.fs_status())

    def get_server_defaults(self) -> FsServerDefaults:
        """Return the defaults of the NameNode, which it is asked for at most once an hour."""
        return FsServerDefaults(**self._native.server_defaults())

    # --- delegation tokens ---

    def get_canonical_service_name(self) -> str:
        """Return what the service of this file system's tokens is called, as Hadoop has it."""
        return self._token_service()

    def get_delegation_token(self, renewer: str) -> credentials.Token | None:
        """Return a token with which others may act as this user, until it ends or is cancelled.

        Parameters
        ----------
        renewer : str
            The user, or the first part of the principal, that may renew it.

        Returns
        -------
        hflush.credentials.Token or None
            None: the NameNode gives none, as it does not ask who calls.

        Raises
        ------
        OSError
            The NameNode refuses: only who has authenticated by Kerberos gets one.
        """
        service = self._token_service()
        given = self._native.delegation_token(renewer)
        return None if given is None else credentials.Token(*given)._replace(service=service)

    def renew_delegation_token(self, token: credentials.Token) -> float:
        """Prolong a token, as the renewer that it names.

        Returns
        -------
        float
            Until when it is good now, in seconds since the epoch.

        Raises
        ------
        PermissionError
            The token is unknown, or its renewer another.
        """
        return self._native.renew_delegation_token(token) / 1000

    def cancel_delegation_token(self, token: credentials.Token) -> None:
        """End a token, as its owner or renewer.

        Raises
        ------
        PermissionError
            The token is unknown, or this user neither of them.
        """
        self._native.cancel_delegation_token(token)

    def _token_service(self) -> str:
        settings = self._settings_of_client
        if ":" not in settings.service:  # a nameservice, also of one NameNode
            return f"ha-hdfs:{settings.service}"
        host, port = settings.name_nodes[0]
        if Reader(self._conf, KEYS).flag("hadoop.security.token.service.use_ip"):
            import socket

            host = str(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0])
        return f"{host.lower()}:{port}"

    def get_default_block_size(self, path: StrPath | None = None) -> int:  # noqa: ARG002
        """Return the block size in bytes that new files get, by ``dfs.blocksize`` of the client."""
        return self._settings_of_client.write.block_size

    def _msync(self) -> None:
        self._native.msync()

    def _set_safe_mode(self, action: str) -> bool:
        if action not in _SAFE_MODE_ACTIONS:
            raise ValueError(f"action must be one of {', '.join(_SAFE_MODE_ACTIONS)}: {action!r}")
        return self._native.set_safe_mode(_SAFE_MODE_ACTIONS[action])

    def _corrupt_files(self, path: str) -> Iterator[str]:
        return self._corrupt(path, self._native.corrupt_files(path, ""))

    def _corrupt(self, path: str, page: tuple[list[str], str]) -> Iterator[str]:
        while True:
            found, cookie = page
            if not found:
                return
            yield from (self._public_name(one) for one in found)
            page = self._native.corrupt_files(path, cookie)

    # --- leases ---

    def _recover_lease(
        self, path: str, wait: float, progress: Callable[[LeaseRecovery], object] | None
    ) -> bool:
        from .lease_recovery import begin, recover

        calls: dict[str, Callable[[], Any]] = {
            "ask": lambda: self._native.recover_lease(path),
            "look": lambda: self._native.is_file_closed(path),
            "version": lambda: self._version(path),
        }
        if not wait:
            return begin(**calls)
        return recover(path, wait, progress, describe=lambda: self._unfinished(path), **calls)

    def _unfinished(self, path: str) -> str:
        """Return what a file is not closed for, as far as the NameNode says."""
        try:
            last = self._native.last_block(path)
        except PermissionError:  # who may write a file can recover it, and need not read it
            return "the NameNode to close the file, which may not be read"
        if last is None:
            return "the NameNode to close the file, which has no block"
        block, nodes, is_complete = last
        if is_complete:
            return f"the NameNode to close the file, whose last block {block} is complete"
        where = f"on {', '.join(nodes)}" if nodes else "which no DataNode has reported"
        return f"the recovery of its last block {block}, {where}"

    def _is_file_closed(self, path: str) -> bool:
        return self._native.is_file_closed(path)

    # --- the trash ---

    def _trash(self, path: str) -> Trash:
        from ..trash import TRASH
        from .trash import HdfsTrash, zone_of

        interval = self.get_server_defaults().trash_interval or self._trash_interval
        # Of the directory that it is in: the root of a zone can be moved, and not into itself.
        zone = zone_of(self._native, paths.parent(path)) if interval else None
        if zone is None:
            root = paths.child(self.home_directory, TRASH)
        else:  # nothing can be moved out of an encryption zone
            root = paths.child(paths.child(zone, TRASH), self._user)
        return HdfsTrash(self, root, interval, self._user)

    # --- checksums ---

    def _file_checksum(self, path: str) -> FileChecksum:
        return self._front_checksum(path, _INT64_MAX)

    def _front_checksum(self, path: str, length: int) -> FileChecksum:
        """Ask DataNodes for their sums; nothing is read."""
        from .checksums import combined

        blocks = self._native.block_checksums(path, min(length, _INT64_MAX), self._combines)
        return combined(blocks, self._combines, path)

    # --- path handles and uploads ---

    def _path_handle(self, status: FileStatus, changed: bool, moved: bool) -> bytes:
        from .. import handles

        path = self._store_path(status)
        if status.file_id is None:
            raise ValueError(f"not a status of hdfs: {status!r}")
        version = None if changed else [status.length, status.modification_time]
        pool = "" if moved else None
        if moved:
            with contextlib.suppress(FileNotFoundError):  # it was moved since
                pool = self._pool(path)
        return handles.pack(path, status.file_id[0], version, pool)

    def _open_path_handle(self, handle: bytes, buffer_size: int | str | None) -> FSDataInputStream:
        from .. import handles

        path, (inode, version, pool) = handles.unpack(handle, 3)
        if not isinstance(inode, int):
            raise ValueError(f"not a path handle: {handle!r}")
        stream = None
        try:
            place = path if pool is None else self._anywhere(inode, pool, path)
            stream = self.open(place, buffer_size=buffer_size)
            now = self._status(place)
            if now.file_id != (inode,):
                raise handles.gone(path)
            if version is not None and version != [now.length, now.modification_time]:
                raise InvalidPathHandleError(
                    errno.ESTALE, "path handle: the file has changed", path
                )
        except BaseException as failure:
            if stream is not None:
                stream.close()
            if isinstance(failure, (FileNotFoundError, NotADirectoryError)):
                raise handles.gone(path) from failure
            raise
        return stream

    def _anywhere(self, inode: int, pool: str, path: str) -> str:
        """Return the path of a file while it is there, else one by its id, for it may be moved.

        Behind a router that may lead nowhere, or to a file of another pool: there it is the path.
        """
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            if self._status(path).file_id == (inode,) and self._pool(path) in ("", pool):
                return path
        by_id = f"{_INODES}/{inode}"
        with contextlib.suppress(FileNotFoundError):
            if not pool or self._pool(by_id) in ("", pool):
                return by_id
        return path

    def _multipart_uploader(self, base: str) -> MultipartUploader:
        from ..multipart import MultipartUploader

        return MultipartUploader(self, base)


# --- small things --------------------------------------------------------------------------------


def _canonical(authority: str) -> str:
    """Return an authority as it is compared: lower case, with a port."""
    lowered = authority.lower().removesuffix(":")
    has_port = ":" in lowered.rpartition("]")[2]
    return lowered if has_port else f"{lowered}:{DEFAULT_PORT}"


def _set_common(
    native: _core.HdfsWriteOptions, options: CreateOptions, asked: own.HdfsOptions
) -> None:
    native.sync_block = bool(options.sync_on_close)
    native.update_length = bool(asked.update_length)
    native.no_local_write = CreateFlag.NO_LOCAL_WRITE in options.flags
    native.ignore_client_locality = CreateFlag.IGNORE_CLIENT_LOCALITY in options.flags
    native.favored_nodes = list(asked.favored_nodes or ())


def _stream_type(options: CreateOptions) -> type[FSDataOutputStream]:
    kinds: list[type[FSDataOutputStream]] = []
    if options.buffer_size == 0:
        kinds.append(UnbufferedOutputStream)
    if options.progress is not None:
        kinds.append(ReportingOutputStream)
    if options.atomic:
        from ..atomic import AtomicOutputStream

        kinds.append(AtomicOutputStream)
    return stream_type(FSDataOutputStream, kinds)


def _location(native: tuple[Any, ...]) -> BlockLocation:
    offset, length, hosts, names, topology_paths, cached_hosts, storage_types, is_corrupt = native
    return BlockLocation(
        offset,
        length,
        hosts,
        names,
        topology_paths=topology_paths,
        cached_hosts=cached_hosts,
        storage_types=storage_types,
        is_corrupt=is_corrupt,
    )


def _quota(name: str, limit: int | None, least: int) -> int | None:
    """Return a limit as Java's client has it: the NameNode takes 0 names, too."""
    if limit is None:
        return None
    checked = options_of.whole(name, limit)
    if checked != -1 and not least <= checked < _INT64_MAX:
        raise ValueError(f"{name}={checked} is out of range")
    return checked


def _time(name: str, milliseconds: int) -> int:
    time = options_of.whole(name, milliseconds)
    if not -1 <= time <= _INT64_MAX:
        raise ValueError(f"{name}={time} is out of range")
    return time
