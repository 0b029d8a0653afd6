"""The streams of S3: output that is published by close() alone, input that is one object's."""

from __future__ import annotations

import errno
import logging
import time
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from .. import capabilities
from ..errors import attach, note
from ..options import CONDITIONAL_ETAG, CONDITIONAL_OVERWRITE
from ..output import FSDataOutputStream
from ..output_kinds import DowngradedOutputStream, ReportingOutputStream, stream_type
from ..streams import FSDataInputStream
from ..write_only import AbortResult
from .commit import PendingCommit
from .documents import Part, bare_etag

if TYPE_CHECKING:
    from typing import ClassVar

    from .. import _core
    from .names import S3Names

__all__ = ["S3InputStream", "S3OutputStream", "StreamPlan", "s3_stream_type"]

# How long close and abort wait until nothing is left of an upload that is not published. An upload
# that is being created has no id yet: it is aborted in the background, when the store answers.
_CLEAN_UP_S = 5.0
_CREATE_S = 0.25

_log = logging.getLogger(__name__)

_OUTCOMES = {
    "writing": "open",
    "finishing": "closing",
    "looking": "closing",
    "published": "published",
    "pending": "pending",
    "failed": "failed",
    "unknown": "unknown",
    "abandoned": "aborted",
}


class StreamPlan(NamedTuple):
    """How objects are created: of many that are created alike, the same."""

    native: _core.S3ObjectOptions  # others have it, too: only read
    # Under which conditions the store publishes, as far as it checks them.
    if_absent: bool = False
    if_match: str = ""  # an etag, without quotes
    # There may be no object yet, and the store does not check that: who publishes looks.
    must_be_absent: bool = False

    @property
    def publishes(self) -> bool:
        """Whether close() publishes; otherwise it hands the upload over."""
        return not self.native.delayed

    @property
    def capabilities(self) -> set[str]:
        """What a stream can because it was created so."""
        held = {capabilities.CREATE_IN_CLOSE}
        if self.if_absent:
            held.add(CONDITIONAL_OVERWRITE)
        if self.if_match:
            held.add(CONDITIONAL_ETAG)
        if self.native.delayed:
            held.add(capabilities.DELAYED_COMPLETION)
        return held

    @property
    def is_conditional(self) -> bool:
        """Whether an object that is there already may not be replaced."""
        return self.if_absent or self.must_be_absent


class S3OutputStream(FSDataOutputStream):
    """An object of S3 being written: nothing is visible before :meth:`close`, and then all of it.

    Blocks are uploaded while the program writes; ``write`` waits where too many are under way, and
    raises when one has failed. Leaving a ``with`` block by an exception, :meth:`abort`, garbage
    collection and the end of the interpreter publish nothing. There is neither hflush nor hsync.

    Where :meth:`close` fails, nothing is published (or :attr:`outcome` is ``unknown``), and the
    upload is ended before it returns if the store lets it within a few seconds; one that was
    persisted stays. It raises FileExistsError, :class:`hflush.PreconditionFailedError` or
    FileNotFoundError if the object appeared, changed or went against the condition of its creation.
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = (
        "_begun_at",
        "_closed_at",
        "_has_tokens",
        "_kept_parts",
        "_last_tail",
        "_place",
        "_plan",
        "_saved_as",
        "_store",
        "_upload",
    )

    _upload: _core.S3Upload
    _plan: StreamPlan
    _store: S3Names  # whose object it is: `_owner` may be a façade
    _place: str  # its path there
    _saved_as: str  # the upload's token, if only abort() ends it: persisted, or resumed
    _last_tail: tuple[int, int, str]  # what length it ends at, its size, its key
    _kept_parts: int  # of the last token; -1: there is none
    _has_tokens: bool  # others can go on with it: a persist has not only begun, but returned
    _begun_at: int  # when it was created or resumed: before its upload, in seconds
    _closed_at: int  # when it was closed without a failure; 0 before

    def _begin(
        self, upload: _core.S3Upload, plan: StreamPlan, store: S3Names, place: str, saved_as: str
    ) -> None:
        self._upload = upload
        self._plan = plan
        self._store = store
        self._place = place
        self._saved_as = saved_as
        self._last_tail = 0, 0, ""
        self._kept_parts = -1
        self._has_tokens = bool(saved_as)
        self._begun_at = int(time.time())
        self._closed_at = 0

    @property
    def path(self) -> str:
        """The absolute path in the bucket. Errors name the URL."""
        return self._place

    @property
    def _error_path(self) -> str:
        return self._path

    # --- its outcome ---

    @property
    def outcome(self) -> str:
        """What has become of the object; it stays what it is when a second close() does nothing.

        ``open``, ``closing``, ``published``, ``pending`` (see :attr:`pending_commit`), ``failed``
        (nothing was published), ``unknown`` (it is not known), ``aborted``.
        """
        state = str(self._upload.outcome()["state"])
        if state == "writing" and self.closed:
            return "failed" if self._state == "failed" else "aborted"
        return _OUTCOMES[state]

    @property
    def etag(self) -> str | None:
        """The etag of the published object; None before, and where the store gave none."""
        return bare_etag(self._upload.outcome()["etag"]) or None

    @property
    def version_id(self) -> str | None:
        """The version of the published object, in buckets that keep versions."""
        return str(self._upload.outcome()["version_id"]) or None

    @property
    def upload_id(self) -> str | None:
        """The store's name of the multipart upload, if there has been one."""
        return str(self._upload.outcome()["upload_id"]) or None

    @property
    def pending_commit(self) -> PendingCommit | None:
        """What publishes the object; only of a stream that was created for that and closed."""
        outcome = self._upload.outcome()
        if outcome["state"] != "pending":
            return None
        settings = self._store._settings_of_bucket
        return PendingCommit(
            bucket=settings.bucket,
            key=self._place[1:],
            upload_id=outcome["upload_id"],
            parts=tuple(Part(*part) for part in outcome["parts"]),
            length=outcome["size"],
            crc32c=outcome["crc32c"],
            checksums=outcome["has_checksums"],
            full_object_checksum=outcome["full_object_checksum"],
            token=outcome["token"],
            if_absent=self._plan.is_conditional,
            if_match=self._plan.if_match,
            customer_key=settings.customer_key,
            created=self._closed_at,
        )

    # --- ending ---

    def _publish(self) -> None:
        was_open = not self.closed
        if self._plan.must_be_absent and was_open:
            try:
                self._store._refuse_existing(self._place)
            except BaseException as refusal:
                result = self._withdraw()
                if result.cleanup_exception is not None:
                    attach(refusal, result.cleanup_exception)
                # What another thread's close has published is there.
                if not (result.already_closed and isinstance(refusal, FileExistsError)):
                    raise
        try:
            super()._publish()
        except OSError as failure:
            self._explain(failure)
            raise
        except BaseException as interrupt:  # a signal handler's
            is_ours = self._plan.publishes and not self._upload.is_foreign
            if was_open and is_ours and not self._has_refused(interrupt):
                self._note_outcome(interrupt)
            raise
        if self._upload.is_foreign:  # a forked child's copy: it was the parent's to publish
            return
        if was_open and self._plan.publishes:
            self._store._published(self._place)
        # One that has ended otherwise can be closed again, too: what others hold of it stays.
        if not self._closed_at and self.outcome in ("published", "pending"):
            self._closed_at = int(time.time())
            if self._saved_as:
                self._remove_tails()
            if (left := self._upload.cleanup) is not None:
                _log.warning("published, but: %s", left)

    def _explain(self, failure: OSError) -> None:
        """Attach what else went wrong to the failure of close()."""
        cleanup = self._wait_cleaned_up()
        said = [str(failure), *getattr(failure, "__notes__", ())]
        for also in (*self._upload.outcome()["others"], cleanup):
            if also is not None and not any(str(also) in text for text in said):
                attach(failure, also)

    def _note_outcome(self, interrupt: BaseException) -> None:
        """Say whether the object that close() was publishing is there, or that it is not known."""
        self._wait_cleaned_up()
        outcome = self.outcome
        if outcome == "published":
            note(interrupt, f"published all the same: {self._path}")
        elif outcome in ("unknown", "closing"):
            note(interrupt, f"whether {self._path} is published is not known")

    def abort(self) -> AbortResult:
        """Publish nothing: what is at the path stays as it is.

        Waits a few seconds for the upload to be ended, and hardly at all for one that the store has
        not answered to yet: that is ended in the background. What is left then, or could not be
        removed, is in the result. The tokens of the stream cannot be used any more, unless the
        store may be completing the upload: that is left to it.
        """
        result = self._withdraw()
        is_sent = self.outcome in ("published", "closing", "unknown")
        if not self._saved_as or self._upload.is_foreign or is_sent:
            return result
        left = result.cleanup_exception
        if isinstance(left, TimeoutError):  # the store does not answer
            return result
        return AbortResult(result.already_closed, self._end_saved() or left)

    def _withdraw(self) -> AbortResult:
        """Abort; an upload that was persisted stays, for those who have its tokens."""
        already_closed, cleanup_exception = self._abort()
        self._owner._release(self)
        if already_closed:
            return AbortResult(already_closed, cleanup_exception)
        return AbortResult(already_closed, self._wait_cleaned_up() or cleanup_exception)

    def _end_saved(self) -> OSError | None:
        """End an upload that others could have gone on with; return what keeps us from that."""
        upload_id = str(self._upload.outcome()["upload_id"])
        if not upload_id:  # a persist has failed before there was one
            return None
        try:
            self._store._bucket.abort_upload(self._place[1:], upload_id, self._place)
        except OSError as failure:
            return failure
        return self._remove_tails()

    def _remove_tails(self) -> OSError | None:
        from .resuming import remove_tails

        return remove_tails(self._store._bucket, self._place[1:], self._saved_as)

    def _wait_cleaned_up(self) -> OSError | None:
        """Wait until nothing of the upload is under way; what is left of it, and why.

        One that a failed persist has kept is ended, as there is no token of it.
        """
        if self._upload.is_foreign:
            return None
        if not self._upload.wait_cleaned_up(_CREATE_S):
            if not self._upload.outcome()["upload_id"] and self.outcome in ("aborted", "failed"):
                message = (
                    "an upload is being created that the store has not answered to: it is aborted "
                    "in the background, or left"
                )
                return TimeoutError(errno.ETIMEDOUT, message, self._path)
            if not self._upload.wait_cleaned_up(_CLEAN_UP_S - _CREATE_S):
                message = f"the clean-up of its upload takes longer than {_CLEAN_UP_S:.0f} s"
                return TimeoutError(errno.ETIMEDOUT, message, self._path)
        cleanup: OSError | None = self._upload.outcome()["cleanup"]
        is_for_others = self._has_tokens or self._is_persisting  # by another thread
        if self._saved_as and not is_for_others and self.outcome in ("aborted", "failed"):
            return self._end_saved() or cleanup
        return cleanup

    # --- what it can ---

    def has_capability(self, name: str, /) -> bool:
        """Return whether this stream really can, by a name of :mod:`hflush.capabilities`."""
        return (
            super().has_capability(name) or capabilities.canonical(name) in self._plan.capabilities
        )


class _Downgraded(DowngradedOutputStream):
    """Counts the calls of hflush and hsync, which do nothing, instead of refusing them.

    Only ``fs.s3a.downgrade.syncable.exceptions`` and ``hflush.syncable.downgrade`` make such
    streams. The first call of a stream warns.
    """

    __slots__ = ()

    def _do_instead(self) -> str:
        return (
            "does nothing on s3, as hflush.syncable.downgrade or "
            "fs.s3a.downgrade.syncable.exceptions asks: nothing is visible or durable before close"
        )


@cache
def s3_stream_type(*, reports: bool, downgrades: bool) -> type[S3OutputStream]:
    """Return the type of streams that call `progress`, or count hflush and hsync, or neither."""
    kinds: list[type[FSDataOutputStream]] = []
    if downgrades:
        kinds.append(_Downgraded)
    if reports:
        kinds.append(ReportingOutputStream)
    return stream_type(S3OutputStream, kinds)


class S3InputStream(FSDataInputStream):
    """An object of S3 opened for reading, as it was when it was opened.

    One that is replaced meanwhile is :class:`hflush.PreconditionFailedError` from the next read
    that asks the store, never a mixture of both.
    """

    etag: str | None = None

    @property
    def path(self) -> str:
        """The absolute path in the bucket. Errors name the URL."""
        return "/" + self.raw.path.split("/", 3)[3]
