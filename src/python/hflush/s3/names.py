"""The names of one bucket: what there is, what is above and below it; making and deleting."""

from __future__ import annotations

import errno
import logging
from collections import Counter
from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from .. import _core, capabilities, paths
from ..errors import (
    InvalidPathError,
    NotAFileError,
    ParentNotDirectoryError,
    attach,
    invalid_path,
    note,
    unsupported,
)
from ..filesystem import FileSystem
from ..options import CONDITIONAL_ETAG, CONDITIONAL_OVERWRITE
from ..spelling import check_keys
from ..statistics import IOStatistics, aggregate, live
from ..status import ContentSummary, FileChecksum, FileStatus, FsServerDefaults
from ..workers import Workers
from .answers import check
from .bucket import Bucket
from .conditional import conditions_of, known_conditions
from .contract import OPTIONS, contract_options
from .credentials import source_of
from .documents import ObjectEntry
from .keys import HADOOP_PREFIX, KNOWN_KEYS, OWN_PREFIX
from .object_copy import kept_headers
from .options import HEADER
from .pages import SeenPages
from .remembered import RememberedPaths
from .settings import Settings, check_bucket
from .statuses import Statuses

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from typing import TypeVar

    from ..configuration import Configuration
    from ..namespace import NameSpace
    from ..paths import StrPath
    from .bucket import Head
    from .documents import Listing

    T = TypeVar("T")

__all__ = ["S3Names", "above", "exists_already", "holder", "prefix_of", "raise_first", "results_of"]

_MAX_KEY = 1024
_PACKET_BYTES = 1 << 20
_MAX_NOTES = 20
_MAX_NAMES = 20
# Pages of listings that are asked for at once, and the keys in each: it should be small, but show
# what is in a small folder.
_GLANCES = 3
_GLANCE_KEYS = 32
_UNSEEN = SeenPages()
# So many files of a directory are looked at by a page of it. Fewer are asked for one by one, all at
# the same time: that takes no longer, and costs less.
_PAGE_FROM = 16
# What needs uploads in parts.
_OF_UPLOADS = frozenset(
    (capabilities.DELAYED_COMPLETION, capabilities.MULTIPART_UPLOADER, capabilities.PERSIST)
)
# Of a file system that aborts uploads below directories that go.
_PURGE = "fs.s3a.directory.operations.purge.uploads"
_DIRECTORY_TYPE = ("Content-Type", "application/x-directory")
# How the keys of such markers end; S3A leaves them out of listings, too.
_FOREIGN_MARK = "_$folder$"

_first = itemgetter(0)
_log = logging.getLogger(__name__)


class S3Names(FileSystem):
    """The name space that keys are, and the operations that look, make directories and delete."""

    _takes_any_name = True
    _lists_trees = True

    def __init__(self, scheme: str, authority: str, conf: Configuration) -> None:
        check_keys(conf, (HADOOP_PREFIX, OWN_PREFIX), KNOWN_KEYS, authority)
        super().__init__(scheme, authority, conf)
        self._settings_of_bucket = Settings.read(self._conf, authority, None)
        source = source_of(self._settings_of_bucket.keys)
        self._bucket = Bucket(self._settings_of_bucket, source, self.uri.rstrip("/"))
        _limit_memory(self._settings_of_bucket.memory_total)
        # Paths that were no files when they were last looked at.
        self._no_files = RememberedPaths(self._settings_of_bucket.remember)
        if not self._settings_of_bucket.has_uploads:
            self.path_capabilities -= _OF_UPLOADS
        if self._settings_of_bucket.purges_uploads:
            self.path_capabilities |= {_PURGE}

    @property
    def contract_options(self) -> Mapping[str, object]:
        """How this store behaves where stores differ: the options of contract §3, read-only.

        ``conditional-create`` is tried out with small objects below the root, once, where it was
        not needed before; None if the store cannot be asked.
        """
        try:
            conditional: bool | None = conditions_of(self._bucket, "", "/").if_absent
        except (OSError, ValueError):
            conditional = None
        return contract_options(self._settings_of_bucket, conditional)

    def _fixed_options(self) -> Mapping[str, object]:
        return OPTIONS

    def has_path_capability(self, path: StrPath, name: str) -> bool:
        """Whether something is known to work under `path`; the store is not asked.

        Of conditional writes that is known when they were used once, or are configured.
        """
        if super().has_path_capability(path, name):
            return True
        wanted = capabilities.canonical(name)
        if wanted not in (CONDITIONAL_OVERWRITE, CONDITIONAL_ETAG):
            return False
        known = known_conditions(self._bucket)
        if known is None:
            return False
        return known.if_absent if wanted == CONDITIONAL_OVERWRITE else known.if_match

    def io_statistics(self) -> IOStatistics:
        """Return what the output streams made here did together, once they are closed.

        And, as long as this instance is not closed, those of its requests.
        """
        return aggregate((super().io_statistics(), live(self._bucket.statistics)))

    def _is_own(self, authority: str) -> bool:
        if authority and authority != self._authority:
            check_bucket(authority)  # what holds secrets must not be shown as another file system
        return authority == self._authority

    def _named(self, path: str) -> str:
        return self._public_name(path)

    def _shares_files_with(self, other: NameSpace) -> bool:
        """Return whether both are one bucket of one server, by the same names."""
        if not isinstance(other, S3Names):
            return False
        ours, others = self._bucket, other._bucket
        return (ours.endpoint, ours.settings.bucket) == (others.endpoint, others.settings.bucket)

    def _is_alias_of(self, other: NameSpace, status: FileStatus, path: str) -> bool:
        """Return whether both are one bucket: by its access point's alias, by names of the server.

        Both show an object of the source then. Another bucket may have the same object, but no
        upload of this one's.

        Raises
        ------
        OSError
            They cannot be asked.
        """
        if not isinstance(other, S3Names):
            return False
        there = other._store_path(status)
        if status.is_file:
            found = [ObjectEntry(there[1:], status.length, status.etag or "", 0)]
        else:
            found = other._bucket.first_objects(prefix_of(there), there, 1)
        try:
            return all(map(self._shows, found)) and self._bucket.shares_uploads_with(
                other._bucket, path[1:], path
            )
        except OSError as failure:
            note(failure, f"nothing was moved: {other.uri} may be {self.uri} under another name")
            raise

    def _shows(self, entry: ObjectEntry) -> bool:
        """Whether an object of another bucket is in this one, too."""
        here = self._bucket.entry(entry.key, "/" + entry.key)
        return here is not None and (here.size, here.etag) == (entry.size, entry.etag)

    def _resolve(self, path: StrPath) -> str:
        if (plain := self._plain(path)) is not None:
            return plain
        try:
            resolved = path if isinstance(path, paths.Exact) else super()._resolve(path)
        except InvalidPathError as refusal:
            refusal.filename = self._bucket.name(str(refusal.filename))
            raise
        if "\0" in resolved:
            raise invalid_path(self._named(resolved), "NUL is not allowed in a path element")
        size = len(resolved) - 1
        if not resolved.isascii():
            try:
                size = len(resolved.encode("utf-8")) - 1
            except UnicodeEncodeError:
                raise invalid_path(
                    self._named(resolved), "s3 has no names that are not UTF-8"
                ) from None
        if size > _MAX_KEY:
            message = f"name too long: {size} bytes, where S3 takes {_MAX_KEY}"
            raise OSError(errno.ENAMETOOLONG, message, self._named(resolved))
        return resolved

    def _plain(self, path: StrPath) -> str | None:
        """Return the path of a name or URL here that a quick look shows to be normal, or None."""
        if type(path) is str and path.startswith(self._uri):
            path = path[len(self._uri) - 1 :]
        return path if paths.is_plain(path) and len(path) <= _MAX_KEY else None

    def _resolve_to_change(self, path: StrPath) -> str:
        resolved = self._plain(path)
        if resolved is None:
            resolved = self._resolve(path)
            if (written := self._as_written(path)) is not None:
                self._check_taken_for(written, resolved)
                _log.warning("%s is taken for %s, as in Hadoop", paths.as_text(path), resolved)
        if "./" in resolved or resolved.endswith("."):
            _log.warning("some stores drop the last dot of a name: %s", resolved)
        return resolved

    def _check_taken_for(self, written: str, resolved: str) -> None:
        """Refuse to change a path where the key that it is to other programs is another object."""
        found = self._seen(written)
        # Some stores clean keys: then both are one object.
        if found is not None and (not found[1] or found != self._seen(resolved)):
            why = (
                f"there is an object {written[1:]!r}, and to change {resolved[1:]!r} may not be "
                "meant: fsspec's functions take the name as it is"
            )
            raise invalid_path(self._named(written), why)

    def _seen(self, path: str) -> tuple[int, str] | None:
        """Return the size and etag of an object, None if there is none that can be seen."""
        try:
            head = self._bucket.head(path[1:], path) if path != "/" else None
        except OSError:  # not all stores can be asked for such a key
            return None
        return None if head is None else (head.size, head.etag)

    def _as_written(self, path: StrPath) -> paths.Exact | None:
        """Return the key that a path that is not normal is to other programs; else None."""
        text = paths.as_text(path)
        named = text.partition("://")[2] or text
        if isinstance(path, paths.Exact) or not ("//" in named or "/." in named):
            return None
        written = paths.parse(text).path.rstrip("/")
        is_key = written.startswith("/") and not paths.is_normal(written)
        return paths.Exact(written) if is_key else None

    # --- looking ---

    def _status(self, path: str) -> FileStatus:
        if path == "/":
            self._bucket.first_keys("", path, 1)  # there is such a bucket
            return self._statuses().directory(path)
        entry, statuses = self._object(path), self._statuses()
        return statuses.directory(path) if entry is None else statuses.file(path, entry)

    def _object(self, path: str) -> ObjectEntry | None:
        """Return the object at a path; None where that is a directory.

        Raises
        ------
        FileNotFoundError
            Nothing is there.
        """
        entry = None if path == "/" else self._bucket.entry(path[1:], path)
        if entry is None and not self._is_directory(path):
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", self._named(path))
        return entry

    def _head_of_file(self, path: str) -> Head:
        head = self._bucket.head(path[1:], path) if path != "/" else None
        if head is not None:
            return head
        if path == "/" or self._has_children(path):
            raise NotAFileError(errno.EISDIR, "open: path is a directory", self._named(path))
        raise FileNotFoundError(errno.ENOENT, "open: no such file", self._named(path))

    def _properties(self, path: str) -> dict[str, str]:
        headers = kept_headers(self._head_of_file(path).headers)
        return {f"{HEADER}{name}": value for name, value in headers}

    def _has_children(self, path: str) -> bool:
        """Whether there is an object below a path, its marker included: it is a directory."""
        return self._bucket.has_keys(prefix_of(path), path)

    def _statuses(self) -> Statuses:
        block_size = self._settings_of_bucket.block_size
        return Statuses(self._public_name("/"), self._acts_as(), block_size)

    def _list(self, path: str) -> list[FileStatus]:
        return list(self._iterate(path))

    def _iterate(self, path: str) -> Iterator[FileStatus]:
        prefix = prefix_of(path)
        pages = self._bucket.list_pages(prefix, path, delimiter="/")
        first = self._first_page(path, pages)
        if first is None:
            return iter((self._status(path),))
        return self._entries(path, prefix, _chain(first, pages))

    def _first_page(self, path: str, pages: Iterator[Listing]) -> Listing | None:
        """Return the first page of what is below a path; None: a file is there, or nothing."""
        try:
            first = next(pages)
        except PermissionError:  # a file can be looked at all the same
            if self._is_file(path):
                return None
            raise
        return first if path == "/" or first.objects or first.prefixes else None

    def _entries(self, path: str, prefix: str, pages: Iterable[Listing]) -> Iterator[FileStatus]:
        statuses = self._statuses()
        for page in pages:
            found: list[tuple[str, FileStatus]] = []
            for entry in page.objects:
                name = entry.key[len(prefix) :]
                if _is_name(name) and not _is_foreign_marker(entry):
                    found.append((entry.key, statuses.file(paths.child(path, name), entry)))
            for directory in page.prefixes:
                name = directory[len(prefix) : -1]
                if _is_name(name):
                    found.append((directory, statuses.directory(paths.child(path, name))))
            found.sort(key=_first)  # a page has the two kinds one after the other
            yield from (status for _, status in found)

    def _list_files(self, path: str, recursive: bool) -> Iterator[FileStatus]:
        """Return them with as many requests as there are pages: directories are not visited."""
        if not recursive:
            return (entry for entry in self._iterate(path) if entry.is_file)
        pages = self._bucket.list_pages(prefix_of(path), path)
        first = self._first_page(path, pages)
        if first is None:
            return iter((self._status(path),))
        status = self._statuses().file
        return (
            status(place, entry)
            for page in _chain(first, pages)
            for entry in page.objects
            if paths.is_normal(place := "/" + entry.key) and not _is_foreign_marker(entry)
        )

    def _tree(self, path: str, depth: int | None) -> list[FileStatus] | None:
        """Return a directory and what is in it, so many levels deep, by pages of a flat listing.

        One name may be that of a file and of a directory. None: nothing is below the path, or there
        is more than a page, while a few levels may take fewer requests.
        """
        prefix, statuses = prefix_of(path), self._statuses()
        pages = self._bucket.list_pages(prefix, path)
        first = next(pages)
        if not first.objects or (depth is not None and (first.next_token or first.next_marker)):
            return None
        directories, files = {path: statuses.directory(path)}, []
        for entry in (entry for page in _chain(first, pages) for entry in page.objects):
            *parents, name = entry.key[len(prefix) :].split("/")
            place = path
            for parent in parents[:depth]:
                if not _is_name(parent):  # a listing of that level leaves it out
                    break
                place = paths.child(place, parent)
                if place not in directories:
                    directories[place] = statuses.directory(place)
            else:
                is_in = depth is None or len(parents) < depth
                if is_in and _is_name(name) and not _is_foreign_marker(entry):
                    files.append(statuses.file(paths.child(place, name), entry))
        return [*directories.values(), *files]

    def _content_summary(self, path: str) -> ContentSummary:
        """Count by pages of a flat listing."""
        status = self._status(path)
        if status.is_file:
            return ContentSummary(status.length, 1, 0, status.length)
        prefix = prefix_of(path)
        length, files, directories = 0, 0, 1
        before: list[str] = []
        for entry in self._objects(path):
            *parents, name = entry.key[len(prefix) :].split("/")
            # Keys are sorted: those of one directory follow on each other.
            shared = next(
                (i for i, (a, b) in enumerate(zip(before, parents, strict=False)) if a != b),
                min(len(before), len(parents)),
            )
            directories += len(parents) - shared
            before = parents
            if name and not _is_foreign_marker(entry):
                files += 1
                length += entry.size
        return ContentSummary(length, files, directories, length)

    def _objects(self, path: str) -> Iterator[ObjectEntry]:
        """Return every object below a directory, its marker included."""
        for page in self._bucket.list_pages(prefix_of(path), path):
            yield from page.objects

    def _file_checksum(self, path: str) -> FileChecksum:
        """Return what the store knows of the content; nothing is read."""
        import base64

        try:
            head = self._bucket.head(path[1:], path, checksums=True) if path != "/" else None
        except PermissionError:  # who may not decrypt it may not see its checksum, but its etag
            head = None
        if head is None:
            head = self._head_of_file(path)
        if head.crc32c:
            return FileChecksum("COMPOSITE-CRC32C", base64.b64decode(head.crc32c))
        if not head.etag:
            raise unsupported("get_file_checksum", "a store without etags", self._named(path))
        return FileChecksum("ETAG", head.etag.encode("ascii", "replace"))

    def get_server_defaults(self) -> FsServerDefaults:
        """Return what is used where the caller says nothing; the store is not asked."""
        return FsServerDefaults(
            block_size=self._settings_of_bucket.block_size,
            bytes_per_checksum=64 << 10,
            write_packet_size=_PACKET_BYTES,
            file_buffer_size=self._buffer_size,
            replication=1,
            checksum_type="CRC32C",
            encrypt_data_transfer=self._settings_of_bucket.endpoint.scheme == "https",
        )

    def _refuse_existing(self, path: str) -> None:
        if self._is_file(path):
            raise exists_already(self._named(path))

    def _look_at(
        self, path: str, *, file: bool, children: bool, parent: bool, sure: bool = False
    ) -> _Place:
        """Ask for what may be in the way of something new: one round trip, mostly.

        Whether it is a file, or has children, and whether there is a parent, as is asked for.
        Of what is above, only what nothing is known of, and nothing where a parent has to be there:
        that is enough. Where it is not allowed to look nothing is seen, but for the parent, and,
        with `sure`, the file.
        """
        moment = self._no_files.moment
        higher = self._no_files.missing(above(path))
        folder = holder(path) if parent and holder(path) != "/" else ""
        pages = _UNSEEN if folder else self._glance(higher, path, children=children)
        is_object = pages.exists(path[1:]) if file else False
        has_children = pages.occupied(prefix_of(path)) if children else False
        is_blocked, unknown = pages.above([] if folder else higher)
        keys = [place[1:] for place in ([path, *unknown] if is_object is None else unknown)]
        folders = [path] if has_children is None else []
        if folder:
            folders.append(folder)
        if keys or folders:
            sight = self._bucket.look(keys, [prefix_of(place) for place in folders], path)
            exist, occupied = iter(sight.exist), iter(sight.occupied)
            if is_object is None:
                found = next(exist)
                is_object = sure and self._is_file(path) if isinstance(found, OSError) else found
            if has_children is None:
                seen = next(occupied)
                has_children = self._sees_children(path) if seen is None else seen is True
            parents = list(occupied)
            for denied in parents:
                if isinstance(denied, OSError):
                    raise denied
            is_blocked = is_blocked or True in exist or not all(parents)
        return _Place(
            exists=is_object is True,
            has_children=has_children is True,
            is_clear=not is_blocked,
            asked=higher,
            moment=moment,
        )

    def _glance(self, higher: Sequence[str], path: str, *, children: bool) -> SeenPages:
        """Look at the first keys above a path, where that takes fewer requests than single looks.

        A new folder has nothing that begins with its name: that answers for all below it, and one
        key tells that the directory above is one. So two pages tell in an old directory, and one
        at the top in a new tree; only what lies between is asked for by itself.
        """
        if len(higher) + children <= _GLANCES:
            return _UNSEEN
        prefixes = sorted({place[1:] for place in (higher[0], *higher[1 - _GLANCES :])})
        return self._bucket.glance(prefixes, path, _GLANCE_KEYS)

    def _published(self, path: str) -> None:
        """Note that there is a file: what is above it are directories."""
        self._no_files.discard(path)
        if not self._no_files.is_fresh(paths.parent(path)):
            self._no_files.add(above(path))

    def _is_file(self, path: str) -> bool:
        return path != "/" and self._bucket.entry(path[1:], path) is not None

    def _sees_children(self, path: str) -> bool:
        """Whether there is an object below a path, as far as one may look."""
        try:
            return self._has_children(path)
        except PermissionError:
            return False

    def _check_parents(self, path: str, needs_parent: bool, operation: str) -> None:
        """Refuse a path below a file, or one whose parent is missing: one round trip, if any."""
        place = self._look_at(path, file=False, children=False, parent=needs_parent)
        if not place.is_clear:
            self._climb(path, needs_parent, operation)
        self._no_files.add(place.asked, place.moment)

    def _climb(self, path: str, needs_parent: bool, operation: str) -> None:
        """Do the same step by step, where there is more to it.

        Looks upwards, as far as the first directory: what is above that was looked at when it was
        made, and may not concern the caller.
        """
        directory = holder(path)
        while directory != "/" and not self._has_children(directory):
            if self._is_file(directory):
                message = f"{operation}: {directory} is a file"
                raise ParentNotDirectoryError(errno.ENOTDIR, message, self._named(path))
            if needs_parent:
                message = f"{operation}: no parent directory {directory}"
                raise FileNotFoundError(errno.ENOENT, message, self._named(path))
            directory = holder(directory)

    def _kinds(self, page: Sequence[str]) -> dict[str, str | None]:
        """Return what is at each of some paths: a "file", a "directory", None.

        That takes a few round trips for all.
        """
        seen = self._pages_around(page)
        unseen = [path for path in page if not seen[path].exists(path[1:])]  # listings may lag
        others: list[str] = []
        if unseen:
            heads = self._bucket.look([path[1:] for path in unseen], [], page[0]).exist
            for path, found in zip(unseen, heads, strict=True):
                if not (self._is_file(path) if isinstance(found, OSError) else found):
                    others.append(path)
        kinds: dict[str, str | None] = dict.fromkeys(page, "file")
        for path, occupied in zip(others, self._occupied(others), strict=True):
            is_directory = self._is_directory(path) if occupied is None else occupied
            kinds[path] = "directory" if is_directory else None
        return kinds

    def _pages_around(self, page: Sequence[str]) -> dict[str, SeenPages]:
        """Return for each of some paths the first page of its directory, where many are in it."""
        held = Counter(map(holder, page))
        prefixes = [prefix_of(one) for one, count in held.items() if count >= _PAGE_FROM]
        limit = self._settings_of_bucket.page
        listed = self._bucket.first_pages(prefixes, page[0], limit) if prefixes else []
        seen = {prefix: SeenPages([(prefix, listing)]) for prefix, listing in listed}
        return {path: seen.get(prefix_of(holder(path)), _UNSEEN) for path in page}

    def _occupied(self, directories: Sequence[str]) -> list[bool | None]:
        """Return whether there is an object below each of some paths: one round trip.

        None: that is not answered.
        """
        if not directories:
            return []
        prefixes = [prefix_of(directory) for directory in directories]
        try:
            seen = self._bucket.look([], prefixes, directories[0]).occupied
        except OSError:
            return [None] * len(prefixes)
        return [one if isinstance(one, bool) else None for one in seen]

    # --- changing ---

    def _mkdirs(self, path: str, permission: int | None, create_parent: bool) -> None:
        del permission  # stores have none
        if path == "/":
            return
        moment = self._no_files.moment
        if self._sees_children(path):
            self._no_files.add([*above(path), path], moment)
            return
        self._no_files.forget(path)
        if "mkdir" in self._settings_of_bucket.performance:
            self._put_marker(path)
            return
        place = self._look_at(path, file=True, children=False, parent=not create_parent)
        if place.exists:
            raise FileExistsError(errno.EEXIST, "mkdirs: path is a file", self._named(path))
        if not place.is_clear:
            self._climb(path, not create_parent, "mkdirs")
        self._put_marker(path)
        self._no_files.add([*place.asked, path], place.moment)

    def _put_marker(self, path: str) -> None:
        headers = [*self._settings_of_bucket.headers_of_helpers, _DIRECTORY_TYPE]
        response = self._bucket.upload(path[1:] + "/", path, headers).put_object(b"")
        check(response)

    def _keep_directory(self, path: str) -> None:
        """Let a directory stay from which the last entry may have been taken.

        That is done: what this fails of is logged.
        """
        if path == "/" or not self._keeps_directories:
            return
        try:
            if not self._has_children(path):
                self._put_marker(path)
        except OSError as failure:
            _log.warning("%s may be gone with its last entry: %s", self._named(path), failure)

    def _keep_directories(self, directories: Iterable[str]) -> None:
        """Do the same for many, after a look at all of them."""
        kept = [path for path in directories if path != "/"] if self._keeps_directories else []
        for directory, occupied in zip(kept, self._occupied(kept), strict=True):
            if not occupied:
                self._keep_directory(directory)

    @property
    def _keeps_directories(self) -> bool:
        return "delete" not in self._settings_of_bucket.performance

    def _delete(self, path: str, recursive: bool) -> bool:
        self._no_files.forget(path)
        if self._is_file(path):
            self._bucket.delete(path[1:], path)
            try:
                if recursive and self._sees_children(path):  # a directory has the same name
                    self._delete_directory(path, True)
            finally:
                self._keep_directory(holder(path))
            return True
        is_deleted = self._delete_directory(path, recursive)
        if is_deleted:
            self._keep_directory(holder(path))
        return is_deleted

    def _delete_directory(self, path: str, recursive: bool) -> bool:
        marker = prefix_of(path)
        first = self._bucket.first_objects(marker, path, 2)
        if not first:
            return False
        if not recursive and not all(_is_marker(entry, marker) for entry in first):
            raise OSError(errno.ENOTEMPTY, "delete: directory is not empty", self._named(path))
        if recursive:
            self._purge_uploads(path)
            for listed in self._bucket.list_pages(marker, path):
                self._delete_keys([entry.key for entry in listed.objects], path)
            self._expect_nothing_in(path, "delete")
        else:
            self._bucket.delete(marker, path)
        return True

    def _purge_uploads(self, path: str) -> None:
        """Abort the uploads below a directory that goes, where that is wanted and possible."""
        if not self._settings_of_bucket.purges_uploads:
            return
        try:
            self._abort_multipart_uploads(path, 0)
        except OSError as failure:
            _log.warning("%s: uploads below it are left: %s", self._named(path), failure)

    def _expect_nothing_in(self, path: str, operation: str) -> None:
        """Look once more below a directory, all of which was deleted.

        Raises
        ------
        OSError
            Something is still there, or there again (``ENOTEMPTY``).
        """
        try:
            left = [entry.key for entry in self._still_in(path)]
        except OSError as failure:
            _log.warning("%s: deleted, but not looked at again: %s", self._named(path), failure)
            return
        if left:
            names = ", ".join(self._named("/" + key) for key in left)
            message = f"{operation}: not deleted, or written meanwhile: {names}"
            raise OSError(errno.ENOTEMPTY, message, self._named(path))

    def _still_in(self, path: str) -> list[ObjectEntry]:
        """Return some of the objects below a directory from which objects were deleted.

        Names are asked for as they are: some stores err when they encode them. A listing may lag
        behind, so each is looked at.
        """
        listed = self._bucket.first_objects(prefix_of(path), path, _MAX_NAMES)
        return [entry for entry in listed if self._may_exist(entry.key, path)]

    def _may_exist(self, key: str, path: str) -> bool:
        try:
            return self._bucket.head(key, path) is not None
        except OSError:
            return True

    def _also_at(self, path: str) -> list[str]:
        try:
            return ["/" + entry.key for entry in self._still_in(path)]
        except OSError as failure:
            _log.warning("%s: what is below it is not known: %s", self._named(path), failure)
            return []

    def _is_directory_too(self, path: str) -> bool:
        return self._sees_children(path) and self._is_file(path)

    def _file_above_others(self, directory: str) -> str | None:
        files: set[str] = set()
        for entry in self._objects(directory):
            path = "/" + entry.key
            if path.endswith("/"):
                continue
            if found := files.intersection(above(path)):
                return min(found)
            files.add(path)
        return None

    def _removed_at_once(self) -> int:
        return self._settings_of_bucket.delete_page

    def _remove_files(self, files: Sequence[str]) -> list[tuple[str, OSError]]:
        refused: list[tuple[str, OSError]] = []
        size = self._delete_page_size()
        for page in (files[start : start + size] for start in range(0, len(files), size)):
            try:
                refused += self._bucket.delete_many([path[1:] for path in page], page[0])
            finally:  # of a page that fails some may be gone
                self._keep_directories({holder(path) for path in page})
        return [("/" + key, failure) for key, failure in refused]

    def _remove_emptied(self, directory: str, copied: Collection[str]) -> list[str]:
        marker = prefix_of(directory)
        marks = {marker, *(f"{marker}{name}{_FOREIGN_MARK}" for name in ("", *copied))}
        while True:
            still = self._still_in(directory)
            left = [entry for entry in still if entry.size or entry.key not in marks]
            gone = [e.key for e in still if e not in left and e.key != marker]
            self._delete_keys(gone, directory)
            if left:
                return ["/" + entry.key for entry in left]
            if len(still) < _MAX_NAMES:
                break
        self._no_files.forget(directory)
        self._bucket.delete(marker, directory)
        self._keep_directory(holder(directory))
        return []

    def _delete_keys(self, keys: Sequence[str], path: str) -> None:
        raise_first(self._bucket.delete_many(keys, path) if keys else [])

    def _delete_page_size(self) -> int:
        return self._settings_of_bucket.delete_page

    def _delete_page(self, page: Sequence[str]) -> list[tuple[str, OSError]]:
        """Remove files by one request, after a look at once which are directories."""
        failures: list[tuple[str, OSError]] = []
        keys: list[str] = []
        seen: Mapping[str, SeenPages] = {}
        with suppress(OSError):  # each look is asked for by itself, and fails by itself
            seen = self._pages_around(page)
        threads = self._settings_of_bucket.copy_threads
        with Workers(threads, thread_name_prefix="hflush-s3") as executor:
            looks = [
                (path, executor.submit(self._goes_as_directory, path, seen.get(path, _UNSEEN)))
                for path in page
            ]
        directories: list[str] = []
        for path, look in looks:
            try:
                if look.result():
                    directories.append(path)
                else:
                    keys.append(path[1:])
            except OSError as failure:  # noqa: PERF203
                failures.append((path, failure))
        parents: set[str] = set()
        if self._keeps_directories:  # not those that were missing
            parents = self._directories_among({holder("/" + key) for key in keys})
        refused = self._bucket.delete_many(keys, page[0]) if keys else []
        failures += [("/" + key, failure) for key, failure in refused]
        # A directory after what is in it; without a marker it goes with the last of that.
        for path in sorted(directories, key=lambda directory: -directory.count("/")):
            try:
                if not self.delete(path) and path != "/":
                    self._keep_directory(holder(path))
            except OSError as failure:  # noqa: PERF203
                failures.append((path, failure))
        self._keep_directories(parents.difference(directories))
        return failures

    def _is_directory(self, path: str) -> bool:
        return path == "/" or self._has_children(path)

    def _goes_as_directory(self, path: str, seen: SeenPages) -> bool:
        """Whether what is to be deleted is a directory; a file is seen without listing, too."""
        if (occupied := seen.occupied(prefix_of(path))) is not None:
            return occupied
        try:
            return self._is_directory(path)
        except PermissionError:
            if self._is_file(path):
                return False
            raise

    def _directories_among(self, wanted: Iterable[str]) -> set[str]:
        """Return those paths that are directories, or may be, but for the root."""
        asked = [path for path in wanted if path != "/"]
        return {
            path
            for path, occupied in zip(asked, self._occupied(asked), strict=True)
            if (self._may_be_directory(path) if occupied is None else occupied)
        }

    def _may_be_directory(self, path: str) -> bool:
        try:
            return self._is_directory(path)
        except PermissionError:
            return True

    def _status_at(self, path: str) -> FileStatus | None:
        try:
            return self._status(path)
        except FileNotFoundError:
            return None

    def _is_empty(self, path: str) -> bool:
        """Whether a directory has nothing but its marker."""
        marker = prefix_of(path)
        return all(
            _is_marker(entry, marker) for entry in self._bucket.first_objects(marker, path, 2)
        )


class _Place(NamedTuple):
    """What is where something new is to be."""

    exists: bool  # an object, if that was asked
    has_children: bool
    is_clear: bool  # above it are no files, and the parent that is needed
    asked: list[str]  # what is above it and was asked for
    moment: int  # of RememberedPaths, before that


def _limit_memory(total: int | None) -> None:
    """Limit the memory of all streams and readers of the process; the least of all limits holds."""
    if total is None:
        return
    holds = _core.s3_limit_memory(total)
    if holds != total:
        _log.warning(
            "hflush.s3.memory.total=%d: another file system has limited this process to %d",
            total,
            holds,
        )


def results_of(tasks: Sequence[Future[T]]) -> list[T]:
    """Wait for tasks; after the first failure, which is raised, what has not begun is left out."""
    try:
        return [task.result() for task in tasks]
    finally:
        for task in tasks:
            task.cancel()


def raise_first(failures: Sequence[tuple[str, OSError]]) -> None:
    """Raise the first failure, if there is any, with notes of the others."""
    if failures:
        first = failures[0][1]
        for _, also in failures[1:_MAX_NOTES]:
            attach(first, also)
        raise first


def exists_already(path: str) -> FileExistsError:
    """Return the refusal to create where there is an object."""
    return FileExistsError(errno.EEXIST, "create: path exists", path)


def above(path: str) -> list[str]:
    """Return the paths above a path but for the root, from the top."""
    found = []
    at = path.find("/", 1)
    while at > 0:
        if path[at - 1] != "/":
            found.append(path[:at])
        at = path.find("/", at + 1)
    return found


def holder(path: str) -> str:
    """Return the directory that a path is in: of one that is not normal, a normal one above."""
    path = paths.parent(path)
    while not paths.is_normal(path):
        path = paths.parent(path)
    return path


def prefix_of(path: str) -> str:
    """Return what the keys below a directory begin with."""
    return "" if path == "/" else path[1:] + "/"


def _is_marker(entry: ObjectEntry, key: str) -> bool:
    """Whether an object stands for a directory of that key; one with content is somebody's file."""
    return entry.key == key and not entry.size


def _is_foreign_marker(entry: ObjectEntry) -> bool:
    """Whether an object stands for a directory as EMR's file system and Hadoop's s3n have it."""
    return entry.key.endswith(_FOREIGN_MARK) and not entry.size


def _is_name(name: str) -> bool:
    """Whether a path can hold an element: another key has no path, or that of something else."""
    return name not in ("", ".", "..")


def _chain(first: Listing, others: Iterable[Listing]) -> Iterator[Listing]:
    yield first
    yield from others
