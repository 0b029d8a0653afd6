"""The file system of a view: each operation is one of the file system behind a link."""

from __future__ import annotations

import contextlib
import copy
import errno
import logging
from typing import TYPE_CHECKING, Any

from .. import capabilities, paths, registry
from ..configuration import user_name
from ..errors import attach, means_nothing_there, unsupported
from ..filesystem import FileSystem
from ..keys import Reader
from ..statistics import IOStatistics, aggregate
from ..status import ContentSummary, FileStatus
from .keys import DEFAULT_TABLE, KEYS, STRATEGY
from .mounts import MountTable, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ..configuration import Configuration
    from ..filesystem import Caller
    from ..options import CreateFlag, CreateOptions, Options
    from ..paths import StrPath
    from ..status import (
        BlockLocation,
        FileChecksum,
        FsServerDefaults,
        FsStatus,
        LeaseRecovery,
    )
    from ..streams import FSDataInputStream, FSDataOutputStream
    from ..trash import Trash
    from .mounts import Link

__all__ = ["ViewFileSystem"]

_READ_ONLY = 0o555
# How many file systems are kept that links by expressions have led to.
_KEPT = 64
# What needs more than one path, or none, to be carried out.
_NOT_OF_VIEWS = frozenset(
    (
        capabilities.CONCAT,
        capabilities.DELAYED_COMPLETION,
        capabilities.PATH_HANDLES,
        capabilities.SYMLINKS,
    )
)
_log = logging.getLogger(__name__)


class ViewFileSystem(FileSystem):
    """A view of several file systems: scheme ``viewfs``, ``viewfs://table/``.

    ``fs.viewfs.mounttable.TABLE.link./PATH`` says which file system, and which path there, is at a
    path; docs/keys.md lists the keys. Streams, errors and permissions are those of the file system
    behind the link, which is made when it is first used, for this view alone. The directories of
    the table itself cannot be changed, nor can a link be removed or renamed.
    """

    __module__ = "hflush.viewfs"

    store_name = "viewfs"
    _takes_any_name = True  # what is made is checked by the store behind the link

    def __init__(self, scheme: str, authority: str, conf: Configuration) -> None:
        super().__init__(scheme, authority, conf)
        keys = Reader(self._conf, KEYS)
        self._table = MountTable(self._conf, authority or keys.text(DEFAULT_TABLE))
        self._strategy = keys.text(STRATEGY)
        self._stores: dict[str, FileSystem] = {}  # by their roots, the last used last
        self._past = aggregate(())  # what those did that are let go

    def close(self) -> None:
        """Close the file systems behind the links: see :meth:`hflush.FileSystem.close`.

        Raises
        ------
        OSError
            The first that could not be closed; the others are attached as notes.
        """
        first: BaseException | None = None
        for close in self._closings():
            try:
                close()
            except BaseException as failure:  # noqa: PERF203 -- KeyboardInterrupt, too
                if first is None:
                    first = failure
                else:
                    attach(first, failure)
        if first is not None:
            raise first

    def _closings(self) -> Iterator[Callable[[], None]]:
        """Yield what closes the streams and removes what was noted, then what closes the stores."""
        yield super().close
        with self._lock:
            stores, self._stores = list(self._stores.values()), {}
            self._past = aggregate(())
        yield from (store.close for store in stores)

    def _open_streams(self) -> list[FSDataOutputStream]:
        # Asked also at exit, when this module has no names any more.
        streams = super()._open_streams()
        for store in self._stores.copy().values():
            streams += store._open_streams()
        return streams

    # --- what it is ---

    @property
    def home_directory(self) -> str:
        """The user's directory, which need not exist: below the table's ``homedir``."""
        return paths.child(self._table.home, self._acts_as())

    def _acts_as(self) -> str:
        """Return the user of the file system that home directories are in."""
        home, links = self._table.home, self._table.links
        below = [link for path, link in links.items() if paths.is_under(path, home)]
        for link in (*below, self._table.find(home)):
            with contextlib.suppress(OSError, ValueError):  # it cannot be made: its user is unknown
                if link is not None:
                    return self._store(link)._acts_as()
        return user_name()

    @property
    def contract_options(self) -> Mapping[str, object]:
        """The options in which all file systems behind the links agree, if they can be made."""
        if self._table.regexes:  # which lead anywhere
            return {}
        options = [store.contract_options for store in self._all_stores()]
        first, *others = options or [{}]
        return {
            name: value
            for name, value in first.items()
            if all(other.get(name) == value for other in others)
        }

    def has_path_capability(self, path: StrPath, name: str) -> bool:
        """Whether a capability is known to work under `path`: that of the file system there."""
        if capabilities.canonical(name) in _NOT_OF_VIEWS:
            return False
        place = self._place(self._resolve(path))
        return place is not None and place.store.has_path_capability(place.path, name)

    def io_statistics(self) -> IOStatistics:
        """Return what the file systems behind the links did together, until this is closed."""
        with self._lock:
            stores, past = list(self._stores.values()), self._past
        own = [store.io_statistics() for store in stores]
        return aggregate((super().io_statistics(), past, *own))

    def _pickles_secrets(self) -> bool:
        if super()._pickles_secrets():
            return True
        return any(store._pickles_secrets() for store in self._all_stores())

    def _callers(self, with_secrets: bool) -> list[Caller]:
        kinds = dict.fromkeys(registry.kind(regex.scheme) for regex in self._table.regexes)
        # What holds for all file systems of a kind comes before what holds for one.
        said = {kind: [kind._caller_of_all(self._conf, with_secrets)] for kind in kinds if kind}
        for store in self._all_stores():
            said.setdefault(type(store), []).append(store._caller(with_secrets))
        return [(kind, kind._joined(callers)) for kind, callers in said.items()]

    def _all_stores(self) -> list[FileSystem]:
        """Return the file systems behind all links, but for those that cannot be made."""
        for link in (*self._table.links.values(), self._table.fallback):
            with contextlib.suppress(OSError, ValueError):
                if link is not None:
                    self._store(link)
        return list(self._stores.copy().values())

    def _behind(self, path: str) -> tuple[Any, str]:
        """Return the file system that has what is at a path; this one for links themselves."""
        return (self, path) if self._table.is_link(path) else self._leads_to(path)

    def _leads_to(self, path: str) -> tuple[Any, str]:
        place = self._place(path)
        return (self, path) if place is None else (place.store, place.path)

    def _store_at(self, path: str) -> Any:
        """Return the file system behind the link that a path is at or below; else this one."""
        place = self._place(path)
        return self if place is None else place.store

    def _loop_id(self, status: FileStatus) -> object:
        place = self._place(self._store_path(status))
        return None if place is None else place.store._loop_id(status)

    # --- where a path leads ---

    def _store(self, link: Link) -> FileSystem:
        with self._lock:
            store = self._stores.pop(link.root, None)
            if store is not None:
                self._stores[link.root] = store  # now the last that was used
                return store
        # Without the lock: it imports, and logs.
        made = FileSystem.new_instance(link.root, self._conf)
        if isinstance(made, ViewFileSystem):
            raise ValueError(f"the link {link.path} of {self.uri} leads to another view")
        with self._lock:
            store = self._stores.setdefault(link.root, made)
            let_go = self._let_go()
        del let_go, made  # without the lock: connections may end
        return store

    def _let_go(self) -> list[FileSystem]:
        """Make room where links by expressions lead to ever more file systems: return the oldest.

        One that has open streams, or that a program has changed, is kept; so are those of links.
        """
        fixed = {link.root for link in (*self._table.links.values(), self._table.fallback) if link}
        led_to = [root for root in self._stores if root not in fixed]
        dropped = []
        for root in led_to[:-_KEPT]:
            store = self._stores[root]
            if store._is_as_made() and not store._open_streams():
                dropped.append(self._stores.pop(root))
        if dropped:
            self._past = aggregate((self._past, *(store.io_statistics() for store in dropped)))
        return dropped

    def _place(self, path: str) -> Place | None:
        """Return where a path leads; None if no link does, or to the table itself."""
        if self._is_of_table(path):
            return None
        link = self._table.find(path)
        return None if link is None else Place(link, self._store(link), link.inward(path))

    def _is_of_table(self, path: str) -> bool:
        """Whether a path is a directory of the table: one that links are in, and below none."""
        link = self._table.find(path)
        is_linked = link is not None and link is not self._table.fallback
        return not is_linked and (path == "/" or bool(self._table.names(path)))

    def _at(self, path: str) -> Place:
        """Return where a path leads that must lead somewhere."""
        place = self._place(path)
        if place is None:
            if self._is_of_table(path):
                why = f"a directory of the mount table {self._table.name}, in no file system"
                raise PermissionError(errno.EACCES, why, path)
            why = f"no link of the mount table {self._table.name} leads there"
            raise FileNotFoundError(errno.ENOENT, why, path)
        return place

    def _to_change(self, path: str) -> Place:
        """Return where a path leads at which something is to be made or changed."""
        place = self._place(path)
        if place is None:
            raise self._read_only(path)
        return place._replace(path=place.store._resolve_to_change(place.path))

    def _below_link(self, path: str) -> Place:
        """Return where a path leads that is to vanish: links stay."""
        if self._is_of_table(path) or self._table.is_link(path):
            raise self._read_only(path)
        place = self._at(path)
        return place._replace(path=place.store._resolve_to_change(place.path))

    def _read_only(self, path: str) -> PermissionError:
        message = f"the mount table {self._table.name} cannot be changed"
        return PermissionError(errno.EACCES, message, path)

    def _outward(self, place: Place, status: FileStatus) -> FileStatus:
        """Return a status, or what else has a path, with its name in the view."""
        shown = copy.copy(status)
        shown.path = self._public_name(place.link.outward(place.store._store_path(status)))
        return shown

    def _inward(self, status: FileStatus) -> tuple[Place, FileStatus]:
        """Return where a status of the view is from, and how it is called there."""
        place = self._at(self._store_path(status))
        shown = copy.copy(status)
        shown.path = place.store._public_name(place.path)
        return place, shown

    # --- streams ---

    def _build(
        self, path: StrPath, flags: CreateFlag, options: Options, create_parent: bool
    ) -> FSDataOutputStream:
        resolved = self._resolve(path)
        place = self._to_change(resolved)
        return place.store._build(place.path, flags, options, create_parent)

    def _open_asked(
        self,
        path: StrPath,
        buffer_size: int | str | None,
        options: Options,
        status: FileStatus | None,
    ) -> FSDataInputStream:
        resolved = self._resolve(path)
        place = self._file(resolved)
        if status is not None and status.path == self._public_name(resolved):
            status = self._inward(status)[1]
        return place.store._open_asked(place.path, buffer_size, options, status)

    def _file(self, path: str) -> Place:
        """Return where a path leads that is to be a file."""
        if self._is_of_table(path):
            from ..errors import NotAFileError

            raise NotAFileError(errno.EISDIR, "open: path is a directory", path)
        return self._at(path)

    def _create(self, path: str, overwrite: bool, options: CreateOptions) -> FSDataOutputStream:
        place = self._to_change(path)
        return place.store._create(place.path, overwrite, options)

    def _put_if_absent(self, path: str, data: memoryview) -> bool:
        place = self._to_change(path)
        return place.store._put_if_absent(place.path, data)

    def _append(self, path: str, options: CreateOptions) -> FSDataOutputStream:
        place = self._to_change(path)
        return place.store._append(place.path, options)

    def _open(self, path: str, buffer_size: int) -> FSDataInputStream:
        place = self._file(path)
        return place.store._open(place.path, buffer_size)

    # --- looking ---

    def _status(self, path: str) -> FileStatus:
        if self._is_of_table(path):
            return self._directory(path)
        place = self._at(path)
        return self._outward(place, place.store._status(place.path))

    def _directory(self, path: str) -> FileStatus:
        return FileStatus(
            self._public_name(path),
            kind="directory",
            length=0,
            replication=0,
            owner=self._acts_as(),
            permission=_READ_ONLY,
        )

    def _list(self, path: str) -> list[FileStatus]:
        return list(self._iterate(path))

    def _iterate(self, path: str) -> Iterator[FileStatus]:
        if self._is_of_table(path):
            return iter(self._list_table(path))
        place = self._at(path)
        return (self._outward(place, one) for one in place.store._iterate(place.path))

    def _iterate_located(self, path: str) -> Iterator[FileStatus]:
        if self._is_of_table(path):
            return super()._iterate_located(path)
        place = self._at(path)
        return (self._outward(place, one) for one in place.store._iterate_located(place.path))

    def _met(self, entry: FileStatus) -> FileStatus:
        if not entry.is_symlink:
            return entry
        place, known = self._inward(entry)
        return self._outward(place, place.store._met(known))

    def _list_files(self, path: str, recursive: bool) -> Iterator[FileStatus]:
        if self._is_of_table(path) or self._table.names(path) or self._table.regexes:
            return super()._list_files(path, recursive)  # there may be links below
        place = self._at(path)
        found = place.store._list_files(place.path, recursive)
        return (self._outward(place, one) for one in found)

    def _list_table(self, path: str) -> list[FileStatus]:
        """Return the links of a directory, and what the fallback has beside them."""
        names = self._table.names(path)
        found = [self._linked(paths.child(path, name)) for name in names]
        fallback = self._table.fallback
        if fallback is not None:
            place = Place(fallback, self._store(fallback), fallback.inward(path))
            try:
                beside = place.store._list(place.path)
            except OSError as failure:
                if not means_nothing_there(failure):
                    raise
                beside = []
            shown = (self._outward(place, one) for one in beside)
            found += [one for one in shown if one.name not in names]
        return found

    def _linked(self, path: str) -> FileStatus:
        """Return what is at a link; a directory where that cannot be found out."""
        try:
            return self._status(path)
        except (OSError, ValueError) as failure:  # the latter: its store cannot be configured
            _log.warning("what %s leads to cannot be looked at: %s", path, failure)
            return self._directory(path)

    def _content_summary(self, path: str) -> ContentSummary:
        if not self._is_of_table(path):
            place = self._at(path)
            return place.store._content_summary(place.path)
        parts = [self._summary_of(self._met(one)) for one in self._list_table(path)]
        return ContentSummary(
            sum(part.length for part in parts),
            sum(part.file_count for part in parts),
            sum(part.directory_count for part in parts) + 1,
            sum(part.space_consumed for part in parts),
        )

    def _summary_of(self, entry: FileStatus) -> ContentSummary:
        if entry.is_directory:
            return self._content_summary(self._store_path(entry))
        return ContentSummary(entry.length, 1, 0, entry.length * entry.replication)

    def _block_locations(self, status: FileStatus, start: int, end: int) -> list[BlockLocation]:
        place, known = self._inward(status)
        return place.store._block_locations(known, start, end)

    def _link_status(self, path: str) -> FileStatus:
        if self._is_of_table(path):
            return self._directory(path)
        place = self._at(path)
        return self._outward(place, place.store._link_status(place.path))

    # --- changing ---

    def _mkdirs(self, path: str, permission: int | None, create_parent: bool) -> None:
        if not self._is_of_table(path):
            place = self._to_change(path)
            place.store._mkdirs(place.path, permission, create_parent)

    def _delete(self, path: str, recursive: bool) -> bool:
        if self._place(path) is None and not self._is_of_table(path):
            return False
        place = self._below_link(path)
        return place.store._delete(place.path, recursive)

    def _rename(self, source: str, destination: str) -> bool:
        store, here, there = self._both(source, destination)
        return store._rename(here, there)

    def _rename_exact(self, source: str, destination: str, overwrite: bool) -> None:
        store, here, there = self._both(source, destination)
        store._rename_exact(here, there, overwrite)

    def _both(self, source: str, destination: str) -> tuple[FileSystem, str, str]:
        """Return where a rename takes place: behind one link, unless more is configured."""
        old = self._below_link(source)
        if self._is_of_table(destination) or self._table.is_link(destination):
            raise self._read_only(destination)
        new = self._to_change(destination)
        same = {
            "SAME_MOUNTPOINT": old.link == new.link,
            "SAME_TARGET_URI_ACROSS_MOUNTPOINT": old.link[1:] == new.link[1:],
            "SAME_FILESYSTEM_ACROSS_MOUNTPOINT": old.store is new.store,
        }
        if not same[self._strategy]:
            message = (
                f"rename: {source} and {destination} are behind different links, "
                f"{old.link.path} and {new.link.path} ({STRATEGY} is {self._strategy})"
            )
            raise OSError(errno.EXDEV, message, source, None, destination)
        return old.store, old.path, new.path

    def _copy(self, source: str, target: str, overwrite: bool) -> None:
        old, new = self._at(source), self._to_change(target)
        if old.store is not new.store:
            raise unsupported("copy between file systems", self.store_name, source)
        old.store._copy(old.path, new.path, overwrite)

    def _is_link(self, path: str) -> bool:
        place = self._place(path)
        return place is not None and place.store._is_link(place.path)

    def _link_text(self, path: str) -> str:
        place = self._at(path)
        return place.store._link_text(place.path)

    def _is_being_written(self, path: str) -> bool:
        place = self._at(path)
        return place.store._is_being_written(place.path)

    def _file_above_others(self, directory: str) -> str | None:
        if self._is_of_table(directory):
            below = [one for one in self._list_table(directory) if one.is_directory]
            found = (self._file_above_others(self._store_path(one)) for one in below)
            return next(filter(None, found), None)
        place = self._at(directory)
        at = place.store._file_above_others(place.path)
        return at and place.link.outward(at)

    def _remove_emptied(self, directory: str, copied: Collection[str]) -> list[str]:
        place = self._below_link(directory)
        left = place.store._remove_emptied(place.path, copied)
        return [place.link.outward(path) for path in left]

    def _also_at(self, path: str) -> list[str]:
        place = self._at(path)
        return [place.link.outward(one) for one in place.store._also_at(place.path)]

    def _side_files(self, path: str) -> tuple[str, ...]:
        place = self._at(path)
        beside = place.store._side_files(place.path)
        base = place.link.base  # what is beside a link itself is not in the view
        return tuple(place.link.outward(one) for one in beside if paths.is_under(one, base))

    def _check_publication(self, path: str, overwrite: bool) -> None:
        place = self._to_change(path)
        place.store._check_publication(place.path, overwrite)

    def _sync_entry(self, path: str) -> None:
        place = self._at(path)
        place.store._sync_entry(place.path)

    def _set_times(self, path: str, modification_time: int, access_time: int) -> None:
        place = self._to_change(path)
        place.store._set_times(place.path, modification_time, access_time)

    def _set_permission(self, path: str, permission: int) -> None:
        place = self._to_change(path)
        place.store._set_permission(place.path, permission)

    def _set_owner(self, path: str, owner: str | None, group: str | None) -> None:
        place = self._to_change(path)
        place.store._set_owner(place.path, owner, group)

    def _set_replication(self, path: str, replication: int) -> bool:
        place = self._to_change(path)
        return place.store._set_replication(place.path, replication)

    def _truncate(self, path: str, length: int) -> bool:
        place = self._to_change(path)
        return place.store._truncate(place.path, length)

    # --- the rest ---

    def get_default_block_size(self, path: StrPath | None = None) -> int:
        """Return the block size in bytes that new files get at `path`, which has to be given."""
        if path is None:
            return self._whole("get_default_block_size").get_default_block_size()
        place = self._at(self._resolve(path))
        return place.store.get_default_block_size(place.path)

    def get_server_defaults(self) -> FsServerDefaults:
        """Return the defaults of the file system that the whole view, or its fallback, is."""
        return self._whole("get_server_defaults").get_server_defaults()

    def _whole(self, operation: str) -> FileSystem:
        link = self._table.find("/")
        if link is None:
            raise unsupported(f"{operation} without a path", self.store_name)
        return self._store(link)

    def _fs_status(self, path: str) -> FsStatus:
        place = self._at(path)
        return place.store._fs_status(place.path)

    def _enclosing_root(self, path: str) -> str:
        place = self._at(path)
        root = place.store._enclosing_root(place.path)
        is_within = paths.is_under(root, place.link.base)
        return place.link.outward(root) if is_within else place.link.path

    def _file_checksum(self, path: str) -> FileChecksum:
        place = self._file(path)
        return place.store._file_checksum(place.path)

    def _front_checksum(self, path: str, length: int) -> FileChecksum:
        place = self._file(path)
        return place.store._front_checksum(place.path, length)

    def move_to_trash(self, path: StrPath) -> bool:
        """Move a file or a directory to the trash of the file system that it is in."""
        place = self._below_link(self._resolve(path))
        return place.store.move_to_trash(place.path)

    def _trash(self, path: str) -> Trash | None:
        from .wrappers import ViewTrash

        place = self._at(path)
        trash = place.store._trash(place.path)
        return None if trash is None else ViewTrash(self, trash)

    def _corrupt_files(self, path: str) -> Iterator[str]:
        place = self._at(path)
        found = map(place.store._resolve, place.store._corrupt_files(place.path))
        return (self._public_name(place.link.outward(one)) for one in found)

    def _recover_lease(
        self, path: str, wait: float, progress: Callable[[LeaseRecovery], object] | None
    ) -> bool:
        place = self._file(path)
        return place.store._recover_lease(place.path, wait, progress)

    def _is_file_closed(self, path: str) -> bool:
        place = self._file(path)
        return place.store._is_file_closed(place.path)

    def _multipart_uploader(self, base: str) -> Any:
        from .wrappers import ViewMultipartUploader

        place = self._to_change(base)
        uploader = place.store._multipart_uploader(place.path)
        return ViewMultipartUploader(self, base, place.link, uploader)

    def _multipart_uploads(self, path: str) -> Sequence[Any]:
        place = self._at(path)
        return [self._outward(place, one) for one in place.store._multipart_uploads(place.path)]

    def _abort_multipart_uploads(self, path: str, older_than: float) -> int:
        place = self._at(path)
        return place.store._abort_multipart_uploads(place.path, older_than)
