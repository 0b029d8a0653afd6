"""The file system of one bucket: its name space, and the streams made in it."""

from __future__ import annotations

import atexit
import errno
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from .. import _core, capabilities, paths
from .. import options as options_of
from ..configuration import user_name
from ..errors import (
    InvalidPathError,
    NotAFileError,
    ParentNotDirectoryError,
    PathIsDirectoryError,
    attach,
    invalid_path,
    unsupported,
)
from ..filesystem import FileSystem, instances
from ..options import CONDITIONAL_ETAG, CONDITIONAL_OVERWRITE, CONTENT_TYPE, Wish
from ..output_kinds import ReportingOutputStream
from ..spelling import check_keys
from ..statistics import IOStatistics, aggregate, live
from ..status import ContentSummary, FileChecksum, FileStatus, FsServerDefaults
from ..write_only import report
from . import completion
from .bucket import Bucket
from .commit import PendingCommit
from .conditional import conditions_of, known_conditions
from .contract import OPTIONS, contract_options
from .credentials import source_of
from .keys import HADOOP_PREFIX, KNOWN_KEYS, MAX_PART, MIN_PART, OWN_PREFIX
from .options import DELAYED, HEADER, KEYS, PERFORMANCE, STORAGE_CLASS
from .remembered import RememberedPaths
from .settings import Settings, check_bucket, check_metadata, storage_class, user_header
from .streams import (
    S3InputStream,
    S3OutputStream,
    StreamPlan,
    s3_stream_type,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from ..configuration import Configuration
    from ..options import CreateOptions, Options
    from ..paths import Location, StrPath
    from ..streams import FSDataInputStream, FSDataOutputStream
    from .bucket import Head
    from .documents import Listing, ObjectEntry, UploadEntry
    from .settings import Headers
    from .uploader import S3MultipartUploader

__all__ = ["MultipartUpload", "PendingCommit", "S3FileSystem"]

_MAX_KEY = 1024
_FILE_MODE = 0o666
_DIRECTORY_MODE = 0o777
_PACKET_BYTES = 1 << 20
_NS_PER_S = 1_000_000_000
_MAX_NOTES = 20
_CLEAN_UP_AT_EXIT_S = 2.0
_DIRECTORY_TYPE = ("Content-Type", "application/x-directory")
_SEQUENTIAL = frozenset(("sequential", "whole-file", "avro", "csv", "json"))
_RANDOM = frozenset(("random", "vector", "columnar", "hbase", "orc", "parquet"))
_SEQUENTIAL_FACTOR = 2

_first = itemgetter(0)
_log = logging.getLogger(__name__)


class MultipartUpload:
    """An upload that was begun and has not ended: see :meth:`S3FileSystem.list_multipart_uploads`.

    Attributes
    ----------
    path : str
        The URL of the object it is for.
    upload_id : str
        The store's name of it.
    initiated : float
        When it was begun: seconds since the epoch, by the clock of the store.
    age : float
        How many seconds ago that was when the store was asked.
    """

    __module__ = "hflush.s3"

    __slots__ = ("age", "initiated", "path", "upload_id")

    def __init__(self, path: str, upload_id: str, initiated: float, age: float) -> None:
        self.path = path
        self.upload_id = upload_id
        self.initiated = initiated
        self.age = age

    def __repr__(self) -> str:
        return f"MultipartUpload({self.path!r}, {self.upload_id!r}, age={self.age:.0f})"


class S3FileSystem(FileSystem):
    """One bucket of S3: scheme ``s3`` or ``s3a``, ``s3://bucket/``.

    Hadoop's ``fs.s3a.*`` keys decide, those of the bucket (``fs.s3a.bucket.NAME.*``) first;
    docs/s3-client.md lists all that are heard. Credentials come from the configuration, from
    ``AWS_ACCESS_KEY_ID`` and its kin, or from botocore. Nothing is asked before the first use. A
    pickled instance carries its configuration without secrets.

    An object appears when its stream is closed, and only then: not by an exception in a ``with``
    block, not by garbage collection, not by the end of the process. There is neither hflush nor
    hsync. Closing the file system aborts the streams that are open, and raises for them.
    """

    __module__ = "hflush.s3"

    store_name = "s3"
    create_options = KEYS
    _dates_uploads = True
    path_capabilities = frozenset(
        (
            capabilities.ABORTABLE,
            capabilities.BULK_DELETE,
            capabilities.CHECKSUMS,
            capabilities.CREATE_IN_CLOSE,
            capabilities.DELAYED_COMPLETION,
            capabilities.ETAGS_AVAILABLE,
            capabilities.MULTIPART_UPLOADER,
        )
    )

    def __init__(self, scheme: str, authority: str, conf: Configuration) -> None:
        check_keys(conf, (HADOOP_PREFIX, OWN_PREFIX), KNOWN_KEYS, authority)
        self._settings_of_bucket = Settings.read(conf, authority, None)
        super().__init__(scheme, authority, conf)
        source = source_of(self._settings_of_bucket.keys)
        self._bucket = Bucket(self._settings_of_bucket, source, self.uri.rstrip("/"))
        _limit_memory(self._settings_of_bucket.memory_total)
        # Paths that were no files when they were last looked at.
        self._no_files = RememberedPaths(self._settings_of_bucket.remember)

    def close(self) -> None:
        """Abort the output streams that are open, then remove what :meth:`delete_on_exit` noted.

        Only closing a stream publishes it.

        Raises
        ------
        OSError
            A stream was open (``ECANCELED``): what was written to it is gone.
        """
        try:
            super().close()
        finally:
            self._bucket.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except OSError as failure:
            if error is None:
                raise
            attach(error, failure)

    def _pickles_secrets(self) -> bool:
        return self._settings_of_bucket.pickles_secrets

    # --- what it is ---

    @property
    def contract_options(self) -> Mapping[str, object]:
        """How this store behaves where stores differ: the options of contract §3, read-only.

        ``conditional-create`` is tried out with small objects below the root, once, where nobody
        has needed it before; None if the store cannot be asked.
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

        And, as long as this instance is not closed, what its requests came to.
        """
        return aggregate((super().io_statistics(), live(self._bucket.statistics)))

    def _accepts(self, location: Location) -> bool:
        if location.scheme != self._scheme:
            return False
        authority = location.authority
        if not authority:
            default = paths.parse(self._conf.get("fs.defaultFS", "file:///"))
            authority = default.authority if default.scheme == self._scheme else ""
        elif authority != self._authority:
            check_bucket(authority)  # what holds secrets must not be shown as another file system
        return authority == self._authority

    def _named(self, path: str) -> str:
        return self._public_name(path)

    def _resolve(self, path: StrPath) -> str:
        try:
            resolved = super()._resolve(path)
        except InvalidPathError as refusal:
            refusal.filename = self._bucket.name(str(refusal.filename))
            raise
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

    def _resolve_to_change(self, path: StrPath) -> str:
        resolved = self._resolve(path)
        if "./" in resolved or resolved.endswith("."):
            _log.warning("some stores drop the last dot of a name: %s", resolved)
        return resolved

    # --- creating ---

    def create_pending(self, path: StrPath, **options: Any) -> S3OutputStream:
        """Create an object whose publication is handed over when its stream is closed.

        Parameters
        ----------
        path : str or os.PathLike
            The object.
        **options
            As for :meth:`create`.

        Returns
        -------
        S3OutputStream
            After close(), its ``pending_commit`` publishes the object by
            :meth:`complete_pending`, or drops it by :meth:`abort_pending`, in any process.

        Notes
        -----
        Whoever has the pending commit owns the upload: nobody else ends it.
        """
        asked: dict[str, Any] = {DELAYED: True, **options}
        return cast("S3OutputStream", self.create(path, **asked))

    def complete_pending(self, commit: PendingCommit) -> str:
        """Publish what a stream handed over; return the etag. Doing it again does no harm.

        Raises
        ------
        FileExistsError, PreconditionFailedError
            The condition that the stream was created with does not hold. The upload goes on.
        FileNotFoundError
            The upload is gone, and the object is not there.
        ValueError
            It belongs to another bucket, or needs another key of SSE-C.
        OSError
            The store refuses, or it cannot be told what has happened: completing it again tells.
        """
        path = self._path_of(commit)
        self._no_files.discard(path)
        what = completion.Publication.of(commit)
        if what.if_absent and not conditions_of(self._bucket, commit.key, path).if_absent:
            completion.refuse_other(self._bucket, what, path)
            what = what._replace(if_absent=False)
        try:
            return completion.complete(self._bucket, what, path, again=True)
        finally:
            self._no_files.discard(path)  # who looked meanwhile may not have seen it

    def abort_pending(self, commit: PendingCommit) -> bool:
        """Drop what a stream handed over; False if its upload had ended.

        An object that was published by it stays.

        Raises
        ------
        ValueError, OSError
            It belongs to another bucket; the store refuses.
        """
        path = self._path_of(commit)
        return self._bucket.abort_upload(commit.key, commit.upload_id, path)

    def _path_of(self, commit: PendingCommit) -> str:
        if not isinstance(commit, PendingCommit):
            raise TypeError(f"commit must be a PendingCommit, not {type(commit).__name__}")
        if commit.bucket != self._authority:
            raise ValueError(f"wrong file system: {commit.path} is not in {self.uri}")
        if commit.customer_key != self._settings_of_bucket.customer_key:
            raise ValueError(f"{commit.path} was written with another key of SSE-C")
        return "/" + commit.key

    def _create(self, path: str, overwrite: bool, options: CreateOptions) -> FSDataOutputStream:
        settings = self._settings_of_bucket
        asked = options.asked
        native = self._native_options(options)
        is_fast = options_of.read(asked, PERFORMANCE, options_of.as_bool)
        if is_fast is None:
            is_fast = "create" in settings.performance
        if_absent, if_match, native.if_absent = self._conditions(path, overwrite, asked)
        is_asked = bool(options_of.read(asked, CONDITIONAL_OVERWRITE, options_of.as_bool))
        if if_match:
            native.if_match = f'"{if_match}"'
        must_be_absent = not overwrite and not if_absent
        self._look_before_create(
            path,
            may_exist=overwrite or (if_absent and (is_fast or is_asked)),
            needs_parent=not options.create_parent,
            is_fast=is_fast,
        )
        self._bucket.try_encryption(path[1:], path)
        plan = StreamPlan(
            settings,
            if_absent=if_absent,
            if_match=if_match,
            capabilities=_stream_capabilities(if_absent, bool(if_match), native.delayed),
            checks=(lambda: self._refuse_existing(path)) if must_be_absent else None,
            published=None if native.delayed else self._published,
        )
        return self._started(path, native, plan, options)

    def _started(
        self, path: str, native: _core.S3ObjectOptions, plan: StreamPlan, options: CreateOptions
    ) -> FSDataOutputStream:
        client = self._bucket.client
        native.path = self._named(path)
        kind = s3_stream_type(reports=options.progress is not None, downgrades=self._downgrades)
        stream, upload = client.create(kind, path, native)
        stream._begin(upload, plan)
        if isinstance(stream, ReportingOutputStream) and options.progress is not None:
            stream._report_to(options.progress)
        return stream

    @cached_property
    def _downgrades(self) -> bool:
        """Whether hflush and hsync do nothing, instead of being refused."""
        settings = self._settings_of_bucket
        return settings.downgrades or self._conf.get_bool("hflush.syncable.downgrade")

    @cached_property
    def _usual_options(self) -> _core.S3ObjectOptions:
        """How an object is written if nothing is asked; to be copied."""
        settings = self._settings_of_bucket
        native = settings.writing.copy()
        native.bucket = self._authority
        native.headers = self._object_headers({})
        native.request_headers = [*settings.sse_c, *settings.extra_headers]
        return native

    def _native_options(self, options: CreateOptions) -> _core.S3ObjectOptions:
        native = self._usual_options.copy()
        if options.asked:
            native.headers = self._object_headers(options.asked)
        if options.block_size is not None:  # a hint: brought within what parts can be
            native.block_bytes = min(max(options.block_size, MIN_PART), MAX_PART)
        if native.buffer_directory:
            os.makedirs(native.buffer_directory, exist_ok=True)  # noqa: PTH103
        if options_of.read(options.asked, DELAYED, options_of.as_bool):
            native.delayed = True
        return native

    def _object_headers(self, asked: Options) -> Headers:
        own: Headers = []
        if content_type := options_of.read(asked, CONTENT_TYPE, options_of.as_name):
            own.append(user_header(CONTENT_TYPE, "Content-Type", content_type))
        if name := options_of.read(asked, STORAGE_CLASS, options_of.as_name):
            own.append(storage_class(STORAGE_CLASS, name))
        for key in asked:
            if key in self.create_options and key.startswith(HEADER):
                value = options_of.read(asked, key, str)
                own.append(user_header(key, key[len(HEADER) :], cast("str", value)))
        names = {name.lower() for name, _ in own}
        general = self._settings_of_bucket.headers
        headers = own + [header for header in general if header[0].lower() not in names]
        if not names & {"content-type"}:
            headers.append(("Content-Type", "application/octet-stream"))
        check_metadata(headers)
        return headers

    def _conditions(self, path: str, overwrite: bool, asked: Options) -> tuple[bool, str, bool]:
        """Return under which conditions the store is to publish, and whether it may be told.

        Those that an option asks for are kept or refused, mandatory or not. What it checks for
        small objects only is no promise, but better than nothing.
        """
        strict = {key: (value, Wish.MUST) for key, (value, _) in asked.items()}
        is_explicit = bool(options_of.read(strict, CONDITIONAL_OVERWRITE, options_of.as_bool))
        if_match = options_of.read(strict, CONDITIONAL_ETAG, _as_etag) or ""
        if if_match and (is_explicit or not overwrite):
            raise ValueError(f"{CONDITIONAL_ETAG}: the object cannot be absent and have an etag")
        if overwrite and not is_explicit and not if_match:
            return False, "", False
        known = conditions_of(self._bucket, path[1:], path)
        if (is_explicit and not known.if_absent) or (if_match and not known.if_match):
            key = CONDITIONAL_ETAG if if_match else CONDITIONAL_OVERWRITE
            reason = (
                "is switched off by fs.s3a.create.conditional.enabled"
                if self._settings_of_bucket.conditional == "false"
                else "is not supported: this store does not check it"
            )
            raise ValueError(f"option {key!r} {reason}")
        if if_match:
            return False, if_match, False
        return known.if_absent, "", known.if_absent_in_one

    def _look_before_create(
        self, path: str, *, may_exist: bool, needs_parent: bool, is_fast: bool
    ) -> None:
        """Refuse to create where something is in the way."""
        if is_fast:
            if not may_exist:
                self._refuse_existing(path)
            return
        place = self._look_at(path, file=not may_exist, children=True, parent=needs_parent)
        if place.exists:
            raise _exists_already(self._named(path))
        if place.has_children:
            raise PathIsDirectoryError(
                errno.EISDIR, "create: path is a directory", self._named(path)
            )
        if not place.is_clear:
            self._climb(path, needs_parent, "create")
        self._no_files.add(place.asked, place.moment)

    def _refuse_existing(self, path: str) -> None:
        if self._bucket.head(path[1:], path) is not None:
            raise _exists_already(self._named(path))

    def _look_at(self, path: str, *, file: bool, children: bool, parent: bool) -> _Place:
        """Ask at once for what may be in the way of something new: one round trip.

        Whether it is a file, or has children, and whether there is a parent, as is asked for.
        Of what is above, only what nothing is known of.
        """
        moment = self._no_files.moment
        above = self._no_files.missing(_above(path))
        keys = [place[1:] for place in ([path, *above] if file else above)]
        folders = [path] if children else []
        if parent and paths.parent(path) != "/":
            folders.append(paths.parent(path))
        sight = self._bucket.look(keys, [_prefix(folder) for folder in folders], path)
        exist, occupied = iter(sight.exist), iter(sight.occupied)
        is_object = next(exist) if file else False
        has_children = next(occupied) if children else False
        return _Place(
            exists=self._is_file(path) if is_object is None else is_object,
            has_children=self._has_children(path) if has_children is None else has_children,
            is_clear=all(found is False for found in exist) and all(occupied),
            asked=above,
            moment=moment,
        )

    def _is_file(self, path: str) -> bool:
        return self._bucket.head(path[1:], path) is not None

    def _check_parents(self, path: str, needs_parent: bool, operation: str) -> None:
        """Refuse a path below a file, or one whose parent is missing: one round trip, if any."""
        place = self._look_at(path, file=False, children=False, parent=needs_parent)
        if not place.is_clear:
            self._climb(path, needs_parent, operation)
        self._no_files.add(place.asked, place.moment)

    def _climb(self, path: str, needs_parent: bool, operation: str) -> None:
        """Do the same step by step, where there is more to it.

        Looks upwards, as far as the first directory: what is above that was looked at when it was
        made, and may be nobody's business.
        """
        directory = paths.parent(path)
        while directory != "/" and not self._has_children(directory):
            if self._is_file(directory):
                message = f"{operation}: {directory} is a file"
                raise ParentNotDirectoryError(errno.ENOTDIR, message, self._named(path))
            if needs_parent:
                message = f"{operation}: no parent directory {directory}"
                raise FileNotFoundError(errno.ENOENT, message, self._named(path))
            directory = paths.parent(directory)

    def _create_atomically(
        self, path: str, overwrite: bool, options: CreateOptions
    ) -> FSDataOutputStream:
        """Create as ever: an object appears whole, at close."""
        return self._create(path, overwrite, options)

    def _published(self, path: str) -> None:
        """Note that there is a file: what is above it are directories."""
        self._no_files.discard(path)
        self._no_files.add(_above(path))

    def _append(self, path: str, options: CreateOptions) -> FSDataOutputStream:  # noqa: ARG002
        raise unsupported("append", self.store_name, self._named(path))

    # --- opening ---

    def _open(self, path: str, buffer_size: int) -> FSDataInputStream:
        return self._open_known(path, buffer_size, {}, None)

    def _open_known(
        self, path: str, buffer_size: int, options: Options, status: FileStatus | None
    ) -> FSDataInputStream:
        """Open, without asking the store where a status says which version is meant."""
        is_known = (
            status is not None
            and status.is_file
            and bool(status.etag)
            and status.path == self._public_name(path)
        )
        native = _core.S3ReadOptions()
        native.bucket, native.key = self._authority, path[1:]
        native.request_headers = [
            *self._settings_of_bucket.sse_c,
            *self._settings_of_bucket.extra_headers,
        ]
        if is_known and status is not None:
            native.size, native.etag = status.length, f'"{status.etag}"'
        else:
            head = self._head_of_file(path)
            native.size = head.size
            native.etag = f'"{head.etag}"' if head.etag else ""
        policy = options_of.read(options, options_of.READ_POLICY, options_of.as_names)
        native.readahead_bytes, native.window_bytes = self._read_ahead(policy)
        file = self._bucket.client.open(self._named(path), native)
        stream = S3InputStream(
            self,
            file,
            self._public_name(path),
            self._named(path),
            buffer_size=buffer_size,
            seeks_past_end=False,
        )
        stream.etag = native.etag.strip('"') or None
        return stream

    def _head_of_file(self, path: str) -> Head:
        head = self._bucket.head(path[1:], path) if path != "/" else None
        if head is not None:
            return head
        if path == "/" or self._has_children(path):
            raise NotAFileError(errno.EISDIR, "open: path is a directory", self._named(path))
        raise FileNotFoundError(errno.ENOENT, "open: no such file", self._named(path))

    def _read_ahead(self, policies: tuple[str, ...] | None) -> tuple[int, int]:
        """Return what is read over, and how far ahead, by the first policy that is known."""
        usual = self._settings_of_bucket.reading
        readahead, window = usual.readahead_bytes, usual.window_bytes
        for policy in (*(policies or ()), self._settings_of_bucket.read_policy):
            name = policy.lower()
            if name in _RANDOM:
                return min(readahead, _PACKET_BYTES // 16), 0
            if name in _SEQUENTIAL:
                return readahead, _SEQUENTIAL_FACTOR * window
            if name in ("default", "adaptive"):
                break
        return readahead, window

    # --- looking ---

    def _status(self, path: str) -> FileStatus:
        if path == "/":
            self._bucket.first_keys("", path, 1)  # there is such a bucket
            return self._directory(path)
        head = self._bucket.head(path[1:], path)
        if head is not None:
            return self._file(path, head.size, head.etag, head.modified)
        if self._has_children(path):
            return self._directory(path)
        raise FileNotFoundError(errno.ENOENT, "no such file or directory", self._named(path))

    def _has_children(self, path: str) -> bool:
        """Whether there is an object below a path, its marker included: it is a directory."""
        return bool(self._bucket.first_keys(path[1:] + "/", path, 1))

    def _file(self, path: str, size: int, etag: str, modified: int) -> FileStatus:
        user = user_name()
        return FileStatus(
            self._public_name(path),
            kind="file",
            length=size,
            replication=1,
            block_size=self._settings_of_bucket.block_size,
            modification_time_ns=modified * _NS_PER_S,
            access_time_ns=0,
            owner=user,
            group=user,
            permission=_FILE_MODE,
            etag=etag or None,
            is_encrypted=True,  # Hadoop's way to say that the mode bits mean nothing
        )

    def _directory(self, path: str) -> FileStatus:
        user = user_name()
        return FileStatus(
            self._public_name(path),
            kind="directory",
            length=0,
            replication=0,
            block_size=0,
            modification_time_ns=0,
            access_time_ns=0,
            owner=user,
            group=user,
            permission=_DIRECTORY_MODE,
            is_encrypted=True,
        )

    def _list(self, path: str) -> list[FileStatus]:
        return list(self._iterate(path))

    def _iterate(self, path: str) -> Iterator[FileStatus]:
        prefix = _prefix(path)
        pages = self._bucket.list_pages(prefix, path, delimiter="/")
        first = next(pages)
        if prefix and not (first.objects or first.prefixes):
            return iter((self._status(path),))  # a file, or nothing
        return self._entries(path, prefix, _chain(first, pages))

    def _entries(self, path: str, prefix: str, pages: Iterable[Listing]) -> Iterator[FileStatus]:
        for page in pages:
            found: list[tuple[str, FileStatus]] = []
            for entry in page.objects:
                name = entry.key[len(prefix) :]
                if _is_name(name):
                    place = paths.child(path, name)
                    status = self._file(place, entry.size, entry.etag, entry.modified)
                    found.append((entry.key, status))
            for directory in page.prefixes:
                name = directory[len(prefix) : -1]
                if _is_name(name):
                    found.append((directory, self._directory(paths.child(path, name))))
            found.sort(key=_first)  # a page has the two kinds one after the other
            yield from (status for _, status in found)

    def _list_files(self, path: str, recursive: bool) -> Iterator[FileStatus]:
        """Return them with as many requests as there are pages: directories are not visited."""
        if not recursive:
            return (entry for entry in self._iterate(path) if entry.is_file)
        prefix = _prefix(path)
        pages = self._bucket.list_pages(prefix, path)
        first = next(pages)
        if prefix and not first.objects:
            return iter((self._status(path),))
        return (
            self._file("/" + entry.key, entry.size, entry.etag, entry.modified)
            for page in _chain(first, pages)
            for entry in page.objects
            if all(map(_is_name, entry.key.split("/")))
        )

    def _content_summary(self, path: str) -> ContentSummary:
        """Count by pages of a flat listing."""
        status = self._status(path)
        if status.is_file:
            return ContentSummary(status.length, 1, 0, status.length)
        prefix = _prefix(path)
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
            if name:
                files += 1
                length += entry.size
        return ContentSummary(length, files, directories, length)

    def _objects(self, path: str) -> Iterator[ObjectEntry]:
        """Return every object below a directory, its marker included."""
        for page in self._bucket.list_pages(_prefix(path), path):
            yield from page.objects

    def _file_checksum(self, path: str) -> FileChecksum:
        """Return what the store knows of the content; nothing is read."""
        import base64

        head = self._bucket.head(path[1:], path, checksums=True) if path != "/" else None
        if head is None:
            head = self._head_of_file(path)
        crc = head.headers.get("x-amz-checksum-crc32c", "")
        kind = head.headers.get("x-amz-checksum-type", "FULL_OBJECT").upper()
        if crc and "-" not in crc and kind == "FULL_OBJECT":
            return FileChecksum("COMPOSITE-CRC32C", base64.b64decode(crc))
        if not head.etag:
            raise unsupported("get_file_checksum", "a store without etags", self._named(path))
        return FileChecksum("ETAG", head.etag.encode("ascii", "replace"))

    def get_server_defaults(self) -> FsServerDefaults:
        """Return what is used where the caller says nothing; the store is not asked."""
        return FsServerDefaults(
            block_size=self._settings_of_bucket.block_size,
            bytes_per_checksum=64 << 10,
            write_packet_size=_PACKET_BYTES,
            file_buffer_size=self._conf.get_int("io.file.buffer.size", 64 << 10),
            replication=1,
            checksum_type="CRC32C",
            encrypt_data_transfer=self._settings_of_bucket.endpoint.scheme == "https",
        )

    # --- changing ---

    def _mkdirs(self, path: str, permission: int | None, create_parent: bool) -> None:
        del permission  # stores have none
        if path == "/":
            return
        self._no_files.forget(path)
        if self._has_children(path):
            return
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
        response = self._bucket.put_empty(path[1:] + "/", path, [_DIRECTORY_TYPE])
        if response.error is not None:
            raise response.error

    def _keep_directory(self, path: str) -> None:
        """Let a directory stay from which the last entry may have been taken."""
        if path != "/" and self._keeps_directories and not self._has_children(path):
            self._put_marker(path)

    @property
    def _keeps_directories(self) -> bool:
        return "delete" not in self._settings_of_bucket.performance

    def _delete(self, path: str, recursive: bool) -> bool:
        self._no_files.forget(path)
        key = path[1:]
        if self._bucket.head(key, path) is not None:
            self._bucket.delete(key, path)
            self._keep_directory(paths.parent(path))
            return True
        marker = key + "/"
        first = self._bucket.first_keys(marker, path, 2)
        if not first:
            return False
        if not recursive and first != [marker]:
            raise OSError(errno.ENOTEMPTY, "delete: directory is not empty", self._named(path))
        if recursive:
            for listed in self._bucket.list_pages(marker, path):
                self._delete_keys([entry.key for entry in listed.objects], path)
        else:
            self._bucket.delete(marker, path)
        self._keep_directory(paths.parent(path))
        return True

    def _delete_keys(self, keys: Sequence[str], path: str) -> None:
        failures = self._bucket.delete_many(keys, path) if keys else []
        if not failures:
            return
        first = failures[0][1]
        for _, also in failures[1:_MAX_NOTES]:
            attach(first, also)
        raise first

    def _delete_page(self, page: Sequence[str]) -> list[tuple[str, OSError]]:
        """Remove files by one request, after a look at once which are directories."""
        failures: list[tuple[str, OSError]] = []
        keys: list[str] = []
        threads = self._settings_of_bucket.copy_threads
        with ThreadPoolExecutor(threads, thread_name_prefix="hflush-s3") as executor:
            looks = [(path, executor.submit(self._is_directory, path)) for path in page]
        directories: list[str] = []
        for path, look in looks:
            try:
                if look.result():
                    directories.append(path)
                else:
                    keys.append(path[1:])
            except OSError as failure:  # noqa: PERF203
                failures.append((path, failure))
        parents: list[str] = []
        if self._keeps_directories:  # not those that were missing
            parents = list(filter(self._is_directory, {paths.parent("/" + key) for key in keys}))
        refused = self._bucket.delete_many(keys, page[0]) if keys else []
        failures += [("/" + key, failure) for key, failure in refused]
        # A directory after what is in it; without a marker it goes with the last of that.
        for path in sorted(directories, key=lambda directory: -directory.count("/")):
            try:
                if not self.delete(path) and path != "/":
                    self._keep_directory(paths.parent(path))
            except OSError as failure:  # noqa: PERF203
                failures.append((path, failure))
        for directory in set(parents).difference(directories):
            self._keep_directory(directory)
        return failures

    def _is_directory(self, path: str) -> bool:
        return path == "/" or self._has_children(path)

    def _rename(self, source: str, destination: str) -> bool:
        if source == "/":
            return False
        status = self._status(source)
        if source == destination:
            return status.is_file
        if status.is_directory and paths.is_under(destination, source):
            return False
        self._refuse_below_itself(source, destination, status)
        there = self._status_at(destination)
        target = destination
        if there is not None and there.is_directory:
            is_free = status.is_directory and destination != "/" and self._is_empty(destination)
            if not is_free:
                target = paths.child(destination, paths.basename(source))
                if target == source:
                    return status.is_file
                self._refuse_below_itself(source, target, status)
                there = self._status_at(target)
        if there is not None and there.is_file:
            raise FileExistsError(errno.EEXIST, "rename: destination exists", self._named(target))
        if there is not None and (status.is_file or not self._is_empty(target)):
            raise OSError(
                errno.ENOTEMPTY, "rename: destination is a directory", self._named(target)
            )
        if there is None:
            self._check_parents(target, False, "rename")
        self._move(source, status, target)
        return True

    def _rename_exact(self, source: str, destination: str, overwrite: bool) -> None:
        if "/" in (source, destination):
            raise OSError(errno.EINVAL, "rename: the root directory stays", self._named("/"))
        status = self._status(source)
        if source == destination:
            raise FileExistsError(
                errno.EEXIST, "rename: source and destination are one", self._named(source)
            )
        self._refuse_below_itself(source, destination, status)
        there = self._status_at(destination)
        if there is None:
            self._check_parents(destination, True, "rename")
        elif not overwrite:
            raise FileExistsError(
                errno.EEXIST, "rename: destination exists", self._named(destination)
            )
        elif there.is_directory and status.is_file:
            message = "rename: destination is a directory, source is not"
            raise PathIsDirectoryError(errno.EISDIR, message, self._named(destination))
        elif there.is_file and status.is_directory:
            message = "rename: source is a directory, destination is not"
            raise NotADirectoryError(errno.ENOTDIR, message, self._named(destination))
        elif there.is_directory and not self._is_empty(destination):
            message = "rename: destination is a directory that is not empty"
            raise OSError(errno.ENOTEMPTY, message, self._named(destination))
        self._move(source, status, destination)

    def _refuse_below_itself(self, source: str, destination: str, status: FileStatus) -> None:
        if source != destination and paths.is_under(destination, source):
            if status.is_file:
                message = f"rename: {source} is a file"
                raise ParentNotDirectoryError(errno.ENOTDIR, message, self._named(destination))
            raise OSError(
                errno.EINVAL, "rename: destination is below the source", self._named(destination)
            )

    def _status_at(self, path: str) -> FileStatus | None:
        try:
            return self._status(path)
        except FileNotFoundError:
            return None

    def _is_empty(self, path: str) -> bool:
        """Whether a directory has nothing but its marker."""
        return self._bucket.first_keys(_prefix(path), path, 2) in ([], [_prefix(path)])

    def _move(self, source: str, status: FileStatus, target: str) -> None:
        """Copy everything, then delete what was copied: whatever fails, nothing is lost."""
        self._no_files.forget(source)
        self._no_files.forget(target)
        self._bucket.try_encryption(target[1:], target)
        if status.is_file:
            self._bucket.copy(source[1:], status.length, status.etag or "", target[1:], source)
            self._bucket.delete(source[1:], source)
        else:
            keys = self._copy_tree(source, target)
            step = self._settings_of_bucket.page
            for start in range(0, len(keys), step):
                self._delete_keys(keys[start : start + step], source)
        self._keep_directory(paths.parent(source))

    def _copy_tree(self, source: str, target: str) -> list[str]:
        """Copy what is below a directory, several objects at once; return the keys."""
        copied: list[str] = []
        old, new = source[1:] + "/", target[1:] + "/"

        def copy(entry: ObjectEntry) -> None:
            name = new + entry.key[len(old) :]
            if name.endswith("/") and not entry.size:
                self._put_marker("/" + name[:-1])  # stores refuse to copy onto such a key
                return
            self._bucket.copy(entry.key, entry.size, entry.etag, name, source)

        threads = self._settings_of_bucket.copy_threads
        with ThreadPoolExecutor(threads, thread_name_prefix="hflush-s3") as executor:
            for page in self._bucket.list_pages(old, source):
                tasks = [executor.submit(copy, entry) for entry in page.objects]
                try:
                    for task in tasks:
                        task.result()
                finally:
                    for task in tasks:
                        task.cancel()
                copied += [entry.key for entry in page.objects]
        return copied

    def _copy(self, source: str, target: str, overwrite: bool) -> None:
        status = self._status(source)
        if paths.is_under(target, source):
            raise OSError(
                errno.EINVAL, f"copy of {source} onto or into itself", self._named(target)
            )
        there = self._status_at(target)
        if there is None:
            self._check_parents(target, False, "copy")
        elif there.is_directory and status.is_file:
            raise PathIsDirectoryError(
                errno.EISDIR, "copy: destination is a directory", self._named(target)
            )
        elif not overwrite or there.kind != status.kind:
            raise FileExistsError(errno.EEXIST, "copy: destination exists", self._named(target))
        self._no_files.forget(target)
        self._bucket.try_encryption(target[1:], target)
        if status.is_file:
            self._bucket.copy(source[1:], status.length, status.etag or "", target[1:], source)
        else:
            self._copy_tree(source, target)

    def _set_permission(self, path: str, permission: int) -> None:  # noqa: ARG002
        """Do nothing but look: objects have no mode bits."""
        self._status(path)

    def _set_owner(self, path: str, owner: str | None, group: str | None) -> None:  # noqa: ARG002
        """Do nothing but look: objects belong to the bucket's owner."""
        self._status(path)

    def _set_times(self, path: str, modification_time: int, access_time: int) -> None:
        """Refuse: the time of an object is that of its publication."""
        self._status(path)
        super()._set_times(path, modification_time, access_time)

    # --- uploads ---

    def _multipart_uploader(self, base: str) -> S3MultipartUploader:
        from .uploader import S3MultipartUploader

        return S3MultipartUploader(self, base, self._bucket)

    def _multipart_uploads(self, path: str) -> Sequence[MultipartUpload]:
        found = []
        for upload, now in self._uploads(path):
            place = self._public_name("/" + upload.key)
            age = max(0.0, now - upload.initiated)
            found.append(MultipartUpload(place, upload.upload_id, upload.initiated, age))
        return found

    def _uploads(self, path: str) -> list[tuple[UploadEntry, float]]:
        # MinIO takes a prefix for a whole key, so elsewhere than at AWS all are looked through.
        prefix = path[1:] if self._settings_of_bucket.endpoint.is_aws else ""
        return [
            (upload, now)
            for upload, now in self._bucket.uploads(prefix, path)
            if paths.is_under("/" + upload.key, path)
        ]

    def _abort_multipart_uploads(self, path: str, older_than: float) -> int:
        aborted = 0
        first: OSError | None = None
        for upload, now in self._uploads(path):
            if max(0.0, now - upload.initiated) < older_than:
                continue
            try:
                aborted += self._bucket.abort_upload(upload.key, upload.upload_id, "/" + upload.key)
            except OSError as failure:
                if first is None:
                    first = failure
                else:
                    attach(first, failure)
        if first is not None:
            raise first
        return aborted


# --- small things ---------------------------------------------------------------------------------


def _as_etag(value: object) -> str:
    etag = options_of.as_name(cast("str", value)).strip('"')
    if not etag or not etag.isascii() or not etag.isprintable() or '"' in etag:
        raise ValueError("must be an etag")
    return etag


@cache
def _stream_capabilities(if_absent: bool, if_match: bool, delayed: bool) -> frozenset[str]:
    held = {capabilities.CREATE_IN_CLOSE}
    if if_absent:
        held.add(CONDITIONAL_OVERWRITE)
    if if_match:
        held.add(CONDITIONAL_ETAG)
    if delayed:
        held.add(capabilities.DELAYED_COMPLETION)
    return frozenset(held)


class _Place(NamedTuple):
    """What is where something new is to be."""

    exists: bool  # an object, if that was asked
    has_children: bool
    is_clear: bool  # above it are no files, and the parent that is needed
    asked: list[str]  # what is above it and was asked for
    moment: int  # of RememberedPaths, before that


def _limit_memory(total: int | None) -> None:
    """Bound what all streams and readers of the process hold: the least that was asked for."""
    if total is None:
        return
    holds = _core.s3_limit_memory(total)
    if holds != total:
        _log.warning(
            "hflush.s3.memory.total=%d: this process keeps to %d, which another asked for",
            total,
            holds,
        )


def _exists_already(path: str) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "create: path exists", path)


def _above(path: str) -> list[str]:
    """Return the paths above a path but for the root, from the top."""
    return [path[:at] for at, character in enumerate(path) if at and character == "/"]


def _prefix(path: str) -> str:
    """Return what the keys below a directory begin with."""
    return "" if path == "/" else path[1:] + "/"


def _is_name(name: str) -> bool:
    """Whether a path can hold an element: another key has no path, or that of something else."""
    return name not in ("", ".", "..")


def _chain(first: Listing, others: Iterable[Listing]) -> Iterator[Listing]:
    yield first
    yield from others


# --- the end of the process -----------------------------------------------------------------------


def _abandon_all() -> None:
    """At exit: publish nothing more, say so, and give what ends uploads a moment."""
    for filesystem in instances():
        for stream in filesystem._open_streams() if isinstance(filesystem, S3FileSystem) else ():
            if stream._abandon():
                report(stream, "never closed, not published")
    _core.s3_drain(_CLEAN_UP_AT_EXIT_S)


atexit.register(_abandon_all)
