"""The file system of one bucket: its name space, and the streams made in it."""

from __future__ import annotations

import errno
import time
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from io import UnsupportedOperation
from typing import TYPE_CHECKING, Any, cast

from .. import _core, capabilities, paths
from .. import options as options_of
from ..errors import (
    InternalError,
    PathIsDirectoryError,
    attach,
    invalid_path,
    is_undecided,
    means_file_there,
    unsupported,
)
from ..filesystem import call_first_at_end, instances
from ..options import (
    CONDITIONAL_ETAG,
    CONDITIONAL_OVERWRITE,
    CONTENT_TYPE,
    CreateOptions,
    Wish,
)
from ..output_kinds import ReportingOutputStream
from ..status import FileStatus
from ..workers import Workers
from . import completion
from .answers import code_of
from .commit import PendingCommit
from .conditional import conditions_of
from .copies import S3Copies
from .documents import Part
from .identity import caller, caller_of_all, foreign
from .keys import MAX_OBJECT, MIN_PART
from .names import above, exists_already, raise_first
from .options import (
    DELAYED,
    HEADER,
    INPUT_POLICY,
    KEYS,
    PERFORMANCE,
    READ_KEYS,
    READAHEAD,
    STORAGE_CLASS,
)
from .settings import (
    UPLOADS,
    check_metadata,
    storage_class,
    user_header,
)
from .streams import (
    S3InputStream,
    S3OutputStream,
    StreamPlan,
    s3_stream_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from ..claims import Claim
    from ..configuration import Configuration
    from ..options import Options
    from ..paths import StrPath
    from ..streams import FSDataInputStream, FSDataOutputStream
    from ..tokens import Token
    from .documents import UploadEntry
    from .settings import Headers
    from .uploader import S3MultipartUploader

__all__ = ["MultipartUpload", "PendingCommit", "S3FileSystem"]

_PACKET_BYTES = 1 << 20
_LARGEST_ASKED = 64 << 20  # S3A's usual part: several lie in memory
_UNDECIDED = 3  # how often put_if_absent begins, if the store decides between it and no object
_CLEAN_UP_AT_EXIT_S = 2.0
_SEQUENTIAL = frozenset(("sequential", "whole-file", "avro", "csv", "json"))
_RANDOM = frozenset(("random", "vector", "columnar", "hbase", "orc", "parquet"))
_SEQUENTIAL_FACTOR = 2


class MultipartUpload:
    """An upload that was begun and has not ended: see :meth:`S3FileSystem.list_multipart_uploads`.

    Attributes
    ----------
    path : str
        The URL of the object it is for.
    upload_id : str
        The store's name of it.
    initiated : float
        When it was begun: seconds since the epoch, by the clock of the store; now, where the store
        does not say it.
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


class S3FileSystem(S3Copies):
    """One bucket of S3: scheme ``s3`` or ``s3a``, ``s3://bucket/``.

    Hadoop's ``fs.s3a.*`` keys decide, those of the bucket (``fs.s3a.bucket.NAME.*``) first;
    docs/s3-client.md lists all that are heard. Credentials come from the configuration, from
    ``AWS_ACCESS_KEY_ID`` and its kin, or from botocore. Nothing is asked before the first use. A
    pickled instance carries its configuration: with secrets, if that says so.

    An object appears when its stream is closed, and only then: not by an exception in a ``with``
    block, not by garbage collection, not by the end of the process. There is neither hflush nor
    hsync. Closing the file system aborts the streams that are open, and raises for them.
    """

    __module__ = "hflush.s3"

    store_name = "s3"
    create_options = KEYS
    open_options = READ_KEYS
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
            capabilities.PERSIST,
        )
    )

    def close(self) -> None:
        """Abort the output streams that are open, then remove what :meth:`delete_on_exit` noted.

        Only closing a stream publishes it.

        Raises
        ------
        OSError
            A stream was open (``ECANCELED``): what was written to it, and not persisted, is gone.
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
        return self._settings_of_bucket.pickles_secrets or super()._pickles_secrets()

    def _acts_as(self) -> str:
        return self._settings_of_bucket.user

    def _caller(self, with_secrets: bool) -> dict[str, str]:
        settings = self._settings_of_bucket
        source = self._bucket._source
        return caller(settings.keys, with_secrets, settings.user, settings.found, source)

    @classmethod
    def _caller_of_all(cls, conf: Configuration, with_secrets: bool) -> dict[str, str]:
        return caller_of_all(conf, with_secrets)

    @classmethod
    def _foreign(cls, caller: dict[str, str], conf: Configuration) -> dict[str, str]:
        return foreign(caller, conf)

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
        The holder of the pending commit owns the upload: nothing else ends it.
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
            The upload is gone, and the object is not there. Or the object that was to be replaced
            is gone, and the upload goes on.
        ValueError
            It belongs to another bucket, or needs another key of SSE-C.
        OSError
            The store refuses, or the outcome is unknown: completing it again tells.
        """
        path = self._path_of(commit)
        self._no_files.discard(path)
        what = completion.Publication.of(commit)
        if what.if_absent and not conditions_of(self._bucket, commit.key, path).if_absent:
            completion.refuse_other(self._bucket, what, path)
            what = what._replace(if_absent=False)
        try:
            return completion.complete(self._bucket, what, path, "equal")
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

    def _create_delayed(self, path: str) -> FSDataOutputStream:
        """Create it without a look whether the name is free: it has one of its own."""
        return self.create_pending(path, **{PERFORMANCE: True})

    def _delayed_handle(self, stream: FSDataOutputStream) -> str:
        pending = cast("S3OutputStream", stream).pending_commit
        if pending is None:
            raise InternalError(f"a stream that hands nothing over: {stream!r}")
        begun = replace(pending, created=cast("S3OutputStream", stream)._begun_at)
        return begun.to_bytes().decode("ascii")

    def _delayed_age(self, handle: str) -> float:
        return time.time() - PendingCommit.from_bytes(handle.encode("ascii")).created

    def _has_delayed(self, handle: str) -> bool:
        commit = PendingCommit.from_bytes(handle.encode("ascii"))
        # To list parts is another permission, and stores do without.
        with suppress(PermissionError, UnsupportedOperation):
            return self._bucket.upload_exists(commit.key, commit.upload_id, self._path_of(commit))
        return True

    def _publish_delayed(self, handle: str, path: str) -> None:
        commit = PendingCommit.from_bytes(handle.encode("ascii"))
        if self._path_of(commit) != path:
            raise ValueError(f"publish: {commit.path} is not {self._named(path)}")
        self.complete_pending(commit)

    def _drop_delayed(self, handle: str) -> None:
        self.abort_pending(PendingCommit.from_bytes(handle.encode("ascii")))

    def _path_of(self, commit: PendingCommit) -> str:
        if not isinstance(commit, PendingCommit):
            raise TypeError(f"commit must be a PendingCommit, not {type(commit).__name__}")
        if commit.bucket != self._authority:
            raise ValueError(f"wrong file system: {commit.path} is not in {self.uri}")
        if commit.customer_key != self._settings_of_bucket.customer_key:
            raise ValueError(f"{commit.path} was written with another key of SSE-C")
        return "/" + commit.key

    def _create(self, path: str, overwrite: bool, options: CreateOptions) -> FSDataOutputStream:
        asked = options.asked
        is_fast = "create" in self._settings_of_bucket.performance
        may_exist = overwrite
        if overwrite and not asked:
            plan, sends_if_absent = self._usual_plan, False
        else:
            plan, sends_if_absent = self._plan(path, overwrite, options)
            chosen = options_of.read(asked, PERFORMANCE, options_of.as_bool)
            is_fast = is_fast if chosen is None else chosen
            is_explicit = options_of.read(asked, CONDITIONAL_OVERWRITE, options_of.as_bool)
            may_exist = overwrite or (plan.if_absent and bool(is_fast or is_explicit))
        if not is_fast:
            needs_parent = not options.create_parent
            self._look_before_create(path, may_exist, plan.must_be_absent, needs_parent)
        elif not may_exist:
            self._refuse_existing(path)
        self._bucket.try_encryption(path[1:], path)
        return self._started(path, plan, options, if_absent=sends_if_absent)

    def _plan(self, path: str, overwrite: bool, options: CreateOptions) -> tuple[StreamPlan, bool]:
        """Return how an object is created; and whether the store is asked that there be none."""
        native = self._native_options(options)
        if native.delayed:
            self._check_uploads("a pending commit", path)
        if_absent, if_match, sends_if_absent = self._conditions(path, overwrite, options.asked)
        must_be_absent = not overwrite and not if_absent
        return StreamPlan(native, if_absent, if_match, must_be_absent), sends_if_absent

    @cached_property
    def _usual_plan(self) -> StreamPlan:
        """How an object is created if nothing is asked."""
        return StreamPlan(self._usual_options)

    def _started(
        self,
        path: str,
        plan: StreamPlan,
        options: CreateOptions,
        *,
        if_absent: bool,
        saved_as: str = "",
    ) -> FSDataOutputStream:
        """Begin an object; `if_absent`: the store is asked to check that, as far as it can."""
        kind = s3_stream_type(reports=options.progress is not None, downgrades=self._downgrades)
        if_match = f'"{plan.if_match}"' if plan.if_match else ""
        stream, upload = self._bucket.client.create(
            kind, path, self._named(path), plan.native, if_absent, if_match
        )
        stream._begin(upload, plan, self, path, saved_as)
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
        """How an object is written if nothing is asked: shared by all of them."""
        settings = self._settings_of_bucket
        native = settings.writing.copy()
        native.bucket = self._authority
        native.headers = self._object_headers({})
        native.request_headers = [*settings.sse_c, *settings.extra_headers]
        return native

    def _native_options(self, options: CreateOptions) -> _core.S3ObjectOptions:
        """How an object is written; not to be changed, it may be that of others, too."""
        if not options.asked:
            return self._usual_options
        native = self._usual_options.copy()
        native.headers = self._object_headers(options.asked)
        # A hint, for HDFS most often: brought within what parts can be, and memory bears.
        if options.block_size is not None and self._settings_of_bucket.has_uploads:
            most = max(native.block_bytes, _LARGEST_ASKED)
            native.block_bytes = min(max(options.block_size, MIN_PART), most)
        native.delayed = bool(options_of.read(options.asked, DELAYED, options_of.as_bool))
        return native

    def _object_headers(self, asked: Options) -> Headers:
        own: Headers = []
        for key, (_, wish) in asked.items():
            try:
                own += _own_headers(asked, key)
            except ValueError:  # noqa: PERF203 -- it cannot be sent
                if wish is not Wish.HINT:
                    raise
        names = {name.lower() for name, _ in own}
        general = self._settings_of_bucket.headers
        headers = own + [header for header in general if header[0].lower() not in names]
        if not names & {"content-type"}:
            headers.append(("Content-Type", "application/octet-stream"))
        try:
            check_metadata(headers)
        except ValueError:  # too much: without what need not be
            strict = {key: option for key, option in asked.items() if option[1] is not Wish.HINT}
            if len(strict) == len(asked):
                raise
            return self._object_headers(strict)
        return headers

    def _conditions(self, path: str, overwrite: bool, asked: Options) -> tuple[bool, str, bool]:
        """Return under which conditions the store is to publish, and whether it may know.

        Those that an option asks for are kept or refused, mandatory or not. What it checks for
        small objects only is not a promise, but better than nothing.
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
        self, path: str, may_exist: bool, sure: bool, needs_parent: bool
    ) -> None:
        """Refuse to create where something is in the way.

        Where it is not allowed to look, only what the store does not look for by itself (`sure`).
        """
        if may_exist and not needs_parent and not self._no_files.missing(above(path)):
            if self._sees_children(path):  # all else is known
                raise self._directory_there(path)
            return
        place = self._look_at(
            path, file=not may_exist, children=True, parent=needs_parent, sure=sure
        )
        if place.exists:
            raise exists_already(self._named(path))
        if place.has_children:
            raise self._directory_there(path)
        if not place.is_clear:
            self._climb(path, needs_parent, "create")
        self._no_files.add(place.asked, place.moment)

    def _directory_there(self, path: str) -> PathIsDirectoryError:
        message = "create: path is a directory"
        return PathIsDirectoryError(errno.EISDIR, message, self._named(path))

    def _create_atomically(
        self, path: str, overwrite: bool, options: CreateOptions
    ) -> FSDataOutputStream:
        """Create as ever: an object appears whole, at close."""
        return self._create(path, overwrite, options)

    def _put_if_absent(self, path: str, data: memoryview) -> bool:
        """Publish under a condition that the store checks: one request, if it is one part."""
        known = conditions_of(self._bucket, path[1:], path)
        writing = self._settings_of_bucket.writing
        # A whole block begins an upload, unless it is all that one can have.
        is_one = data.nbytes < writing.block_bytes or writing.max_parts == 1
        if not (known.if_absent or (known.if_absent_in_one and is_one)):
            what = "put_if_absent, which needs a store that checks If-None-Match,"
            raise unsupported(what, self.store_name, self._named(path))
        fast: Options = {PERFORMANCE: (True, Wish.MUST)}
        for left in reversed(range(_UNDECIDED)):
            try:
                with self._create_at(path, False, CreateOptions(fast)) as stream:
                    stream.write(data)
            except FileExistsError as refusal:  # noqa: PERF203
                if not means_file_there(refusal):
                    raise
                if code_of(refusal).startswith("Bucket"):  # which says nothing of the object
                    raise
                return False
            except OSError as refusal:
                if not left or not is_undecided(refusal):
                    raise
            else:
                break
        return True

    def _append(self, path: str, options: CreateOptions) -> FSDataOutputStream:  # noqa: ARG002
        raise unsupported("append", self.store_name, self._named(path))

    def _check_uploads(self, what: str, path: str) -> None:
        """Refuse what needs uploads in parts where the configuration says that there are none."""
        if not self._settings_of_bucket.has_uploads:
            raise self._unsupported(f"{what} without {UPLOADS}", path)

    # --- streams that can be resumed ---

    def _persists(self, stream: FSDataOutputStream) -> bool:
        can = self._settings_of_bucket.has_uploads
        return can and isinstance(stream, S3OutputStream) and stream._plan.publishes

    def _persist(self, stream: FSDataOutputStream) -> bytes:
        from ..tokens import Token
        from .resuming import SavedUpload, put_tail, remove_tails

        assert isinstance(stream, S3OutputStream)
        plan, key = stream._plan, stream.path[1:]
        kept = None
        stream._saved_as = stream._upload.outcome()["token"]  # whatever comes in between
        while kept is None:
            offset, rest = stream._hand_over()
            kept = stream._upload.keep(offset)
        upload_id, parts, upload_token, checksums, full_object_checksum, behind = kept
        tail, length = behind + rest, offset + len(rest)
        tail_key = ""
        if tail:
            at, size, tail_key = stream._last_tail
            if (at, size) != (length, len(tail)):
                tail_key = put_tail(self._bucket, key, upload_token, tail)
                stream._last_tail = length, len(tail), tail_key
        saved = SavedUpload(
            upload_id=upload_id,
            token=upload_token,
            parts=tuple(Part(*part) for part in parts),
            checksums=checksums,
            full_object_checksum=full_object_checksum,
            sizes=(plan.native.block_bytes, plan.native.uniform_parts, plan.native.max_parts),
            tail_key=tail_key,
            tail_size=len(tail),
            tail_crc32c=_core.crc32c(tail),
            if_absent=plan.is_conditional,
            if_match=plan.if_match,
            customer_key=self._settings_of_bucket.customer_key,
        )
        token = Token(self.store_name, self._public_name("/" + key), length, saved.state())
        # A part that was put meanwhile has shown that the upload goes on; other threads may end it.
        is_untold = len(parts) == stream._kept_parts or stream.closed
        if is_untold and self._bucket._sees_upload(key, upload_id, stream.path) is False:
            remove_tails(self._bucket, key, upload_token)
            raise token.stale(f"its upload {upload_id} has been published or aborted")
        stream._kept_parts = len(parts)
        stream._has_tokens = True
        return token.pack()

    def _resume(
        self, token: Token, path: str, before_cut: Callable[[], None]
    ) -> tuple[FSDataOutputStream, Claim | None]:
        from .resuming import SavedUpload

        before_cut()
        saved = SavedUpload.of(token, path[1:], self._settings_of_bucket.customer_key)
        saved.check_upload(self._bucket, token, path[1:], path)
        tail = saved.tail(self._bucket, token)
        options = CreateOptions({}, True)
        native = self._native_options(options).copy()
        saved.go_on(native)
        if_absent = saved.if_absent and conditions_of(self._bucket, path[1:], path).if_absent
        must_be_absent = saved.if_absent and not if_absent
        plan = StreamPlan(native, if_absent, saved.if_match, must_be_absent)
        stream = self._started(path, plan, options, if_absent=if_absent, saved_as=saved.token)
        try:
            _core.OutputStream.write(stream, tail)
        except BaseException:
            stream._abandon()
            raise
        return stream, None

    def _commit(self, token: Token, path: str, before_cut: Callable[[], None]) -> None:
        from .resuming import SavedUpload, remove_tails

        before_cut()
        key = path[1:]
        saved = SavedUpload.of(token, key, self._settings_of_bucket.customer_key)
        goes_on = self._bucket._sees_upload(key, saved.upload_id, path)
        is_there = False
        if goes_on is None:
            with suppress(PermissionError):  # who may not look there either, only puts
                is_there = saved.is_published(self._bucket, key, path)
        if goes_on is not False and not is_there:
            pending = saved.pending(self._bucket, token, key, path)
            if pending is not None:
                try:
                    self.complete_pending(pending)
                    is_there = True
                except FileNotFoundError as missing:
                    if code_of(missing):  # the object that was to be replaced: the upload goes on
                        raise
        if not (is_there or saved.is_published(self._bucket, key, path)):
            why = f"its upload {saved.upload_id} has ended, and these bytes are not at the key"
            raise token.stale(why)
        remove_tails(self._bucket, key, saved.token)

    def _path_of_token(self, token: Token) -> str:
        path = "/" + token.url.removeprefix(self.uri)
        if token.url.startswith(self.uri) and not paths.is_normal(path):
            return self._resolve(paths.Exact(path))
        return super()._path_of_token(token)

    # --- opening ---

    def _open_asked(
        self,
        path: StrPath,
        buffer_size: int | str | None,
        options: Options,
        status: FileStatus | None,
    ) -> FSDataInputStream:
        """Open, and look whether a path with empty elements is to others a key that there is.

        Raises
        ------
        InvalidPathError
            Both are there: the path that it is in Hadoop, too.
        """
        exact = self._as_written(path)
        found = self._seen(exact) if exact is not None else None
        if exact is not None and found is not None:
            resolved = self._resolve(path)
            other = self._seen(resolved)
            # Some stores clean keys: then both are one object.
            if other is not None and (other != found or not found[1]):
                why = f"both {exact[1:]!r} and {resolved[1:]!r} are there, and it may mean either"
                raise invalid_path(self._named(exact), why)
            path = exact if other is None else resolved
        return super()._open_asked(path, buffer_size, options, status)

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
        if is_known and status is not None:
            size, etag = status.length, status.etag or ""
        else:
            head = self._head_of_file(path)
            size, etag = head.size, head.etag
        file = self._bucket.open(path[1:], path, size, etag, *self._read_ahead(options))
        stream = S3InputStream(
            self,
            file,
            self._public_name(path),
            self._named(path),
            buffer_size=buffer_size,
            seeks_past_end=False,
        )
        stream.etag = etag or None
        return stream

    def _read_ahead(self, options: Options) -> tuple[int, int]:
        """Return what is read over, and how far ahead, by the first policy that is known."""
        usual = self._settings_of_bucket.reading
        asked = options_of.read(options, READAHEAD, options_of.as_size)
        readahead, window = usual.readahead_bytes, usual.window_bytes
        readahead = readahead if asked is None else min(asked, MAX_OBJECT)
        policies = options_of.read(options, options_of.READ_POLICY, options_of.as_names)
        policies = policies or options_of.read(options, INPUT_POLICY, options_of.as_names) or ()
        for policy in (*policies, self._settings_of_bucket.read_policy):
            name = policy.lower()
            if name in _RANDOM:
                return min(readahead, _PACKET_BYTES // 16), 0
            if name in _SEQUENTIAL:
                return readahead, _SEQUENTIAL_FACTOR * window
            if name in ("default", "adaptive", "normal"):
                break
        return readahead, window

    # --- uploads ---

    def _multipart_uploader(self, base: str) -> S3MultipartUploader:
        from .uploader import S3MultipartUploader

        self._check_uploads("create_multipart_uploader", base)
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
        def abort(upload: UploadEntry) -> bool | OSError:
            key, upload_id = upload.key, upload.upload_id
            try:
                return self._bucket.abort_upload(key, upload_id, "/" + key, is_listed=True)
            except OSError as failure:
                return failure

        old = [
            upload
            for upload, now in self._uploads(path)
            if max(0.0, now - upload.initiated) >= older_than
        ]
        threads = self._settings_of_bucket.copy_threads
        with Workers(threads, thread_name_prefix="hflush-s3") as executor:
            ended = list(executor.map(abort, old))
        raise_first([("", failure) for failure in ended if isinstance(failure, OSError)])
        return ended.count(True)


# --- small things ---------------------------------------------------------------------------------


def _own_headers(asked: Options, key: str) -> Headers:
    """Return the header that an option stands for, if it stands for one.

    Raises
    ------
    TypeError, ValueError
        The value is malformed, and not just a hint; it cannot be sent.
    """
    if key == CONTENT_TYPE:
        content_type = options_of.read(asked, key, options_of.as_name)
        return [user_header(key, "Content-Type", content_type)] if content_type else []
    if key == STORAGE_CLASS:
        name = options_of.read(asked, key, options_of.as_name)
        return [storage_class(key, name)] if name else []
    if key in KEYS and key.startswith(HEADER):
        return [user_header(key, key[len(HEADER) :], str(asked[key][0]))]
    return []


def _as_etag(value: object) -> str:
    etag = options_of.as_name(cast("str", value)).strip('"')
    if not etag or not etag.isascii() or not etag.isprintable() or '"' in etag:
        raise ValueError("must be an etag")
    return etag


# --- the end of the process -----------------------------------------------------------------------


def _abandon_all() -> None:
    """At exit: publish nothing more, say so, and give what ends uploads a moment."""
    for filesystem in instances():
        if isinstance(filesystem, S3FileSystem):
            filesystem._abandon_open()
    _core.s3_drain(_CLEAN_UP_AT_EXIT_S)


call_first_at_end(_abandon_all)
