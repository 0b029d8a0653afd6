"""The streams of S3: output that is published by close() alone, input that is one object's."""

from __future__ import annotations

import atexit
import errno
import os
import threading
import time
import warnings
import weakref
from typing import TYPE_CHECKING

from . import _core, capabilities
from .errors import StreamClosedError, attach
from .s3_commit import PendingCommit
from .s3_documents import Part
from .streams import AbortResult, FSDataInputStream, FSDataOutputStream, ReportingOutputStream

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["S3InputStream", "S3OutputStream", "S3ReportingOutputStream", "StreamPlan"]

# How long close and abort wait until nothing is left of an upload that is not published.
_CLEAN_UP_S = 5.0
_CLEAN_UP_AT_EXIT_S = 2.0

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


class StreamPlan:
    """What a stream has to know of how it was created."""

    __slots__ = ("bucket", "capabilities", "checks", "closed", "customer_key", "downgrades",
                 "if_absent", "if_match", "key")  # fmt: skip

    def __init__(
        self,
        bucket: str,
        key: str,
        *,
        if_absent: bool,
        if_match: str,
        customer_key: str,
        downgrades: bool,
        capabilities: frozenset[str],
        checks: Callable[[], None] | None,
    ) -> None:
        self.bucket = bucket
        self.key = key
        self.if_absent = if_absent
        self.if_match = if_match
        self.customer_key = customer_key
        self.downgrades = downgrades
        self.capabilities = capabilities
        # Raises if there is an object and must not be, where the store cannot check that itself.
        self.checks = checks
        # When it was closed without a failure; 0 before.
        self.closed = 0


class _S3Output(FSDataOutputStream):
    """What the output streams of S3 share. The state lies in the classes below."""

    __slots__ = ()

    _counting: threading.Lock
    _downgraded: dict[str, int]
    _plan: StreamPlan
    _process: int
    _upload: _core.S3Upload

    def _begin(self, upload: _core.S3Upload, plan: StreamPlan) -> None:
        self._upload = upload
        self._plan = plan
        self._downgraded = {"op_hflush": 0, "op_hsync": 0}
        self._counting = threading.Lock()
        self._process = os.getpid()
        _open.add(self)

    # --- what has come of it ---

    @property
    def outcome(self) -> str:
        """What has become of the object; it stays what it is when a second close() does nothing.

        ``open``, ``closing``, ``published``, ``pending`` (see :attr:`pending_commit`), ``failed``
        (nothing was published), ``unknown`` (it cannot be told), ``aborted``.
        """
        state = str(self._upload.outcome()["state"])
        if state == "writing" and self.closed:
            return "failed" if self.state_ == "failed" else "aborted"
        return _OUTCOMES[state]

    @property
    def etag(self) -> str | None:
        """The etag of the published object; None before, and where the store told none."""
        return str(self._upload.outcome()["etag"]).strip('"') or None

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
        plan = self._plan
        return PendingCommit(
            bucket=plan.bucket,
            key=plan.key,
            upload_id=outcome["upload_id"],
            parts=tuple(Part(*part) for part in outcome["parts"]),
            length=outcome["size"],
            crc32c=outcome["crc32c"],
            checksums=outcome["has_checksums"],
            full_object_checksum=outcome["full_object_checksum"],
            token=outcome["token"],
            if_absent=plan.if_absent or plan.checks is not None,
            if_match=plan.if_match,
            customer_key=plan.customer_key,
            created=plan.closed,
        )

    # --- ending ---

    def close(self) -> None:
        """Publish the object, whole: the one attempt. A second call is a no-op.

        Where that fails, nothing is published (or :attr:`outcome` is ``unknown``), and the upload
        is ended before this returns if the store lets it within a few seconds.

        Raises
        ------
        FileExistsError, PreconditionFailedError
            The object appeared, or changed, against the condition of its creation.
        OSError
            The first failure of anything that went on in the background.
        """
        if self._plan.checks is not None and not self.closed:
            try:
                self._plan.checks()
            except BaseException as refusal:
                result = self.abort()
                if result.cleanup_exception is not None:
                    attach(refusal, result.cleanup_exception)
                raise
        try:
            super().close()
        except OSError as failure:
            cleanup = self._wait_cleaned_up()
            told = [str(failure), *getattr(failure, "__notes__", ())]
            for also in (*self._upload.outcome()["others"], cleanup):
                if also is not None and not any(str(also) in text for text in told):
                    attach(failure, also)
            raise
        self._plan.closed = self._plan.closed or int(time.time())

    def abort(self) -> AbortResult:
        """Publish nothing: what is at the path stays as it is.

        Waits a few seconds for the upload to be ended; what is left of it then, or could not be
        removed, is in the result.
        """
        already_closed, cleanup_exception = self.abort_()
        self._filesystem._release(self)
        if already_closed:
            return AbortResult(already_closed, cleanup_exception)
        return AbortResult(already_closed, self._wait_cleaned_up() or cleanup_exception)

    def _wait_cleaned_up(self) -> OSError | None:
        """Wait until nothing of the upload is under way; what is left of it, and why."""
        if self._process != os.getpid():
            return None  # it is the parent's
        if not self._upload.wait_cleaned_up(_CLEAN_UP_S):
            message = f"the clean-up of its upload takes longer than {_CLEAN_UP_S:.0f} s"
            return TimeoutError(errno.ETIMEDOUT, message, self.path)
        cleanup: OSError | None = self._upload.outcome()["cleanup"]
        return cleanup

    # --- what S3 has not ---

    def hflush(self) -> None:
        """Raise io.UnsupportedOperation: an object appears when it is closed, all of it.

        With ``fs.s3a.downgrade.syncable.exceptions``: count the call, and do nothing.
        """
        if self._plan.downgrades:
            self._downgrade("hflush")
        else:
            super().hflush()

    def hsync(self) -> None:
        """Raise io.UnsupportedOperation: as :meth:`hflush`."""
        if self._plan.downgrades:
            self._downgrade("hsync")
        else:
            super().hsync()

    def _downgrade(self, operation: str) -> None:
        if self.closed:
            raise StreamClosedError(errno.EBADF, f"{operation}: stream is {self.state_}", self.path)
        with self._counting:
            first = not any(self._downgraded.values())
            self._downgraded[f"op_{operation}"] += 1
        if first:
            warnings.warn(
                f"{operation} does nothing on s3, as fs.s3a.downgrade.syncable.exceptions asks: "
                "nothing is visible or durable before close",
                RuntimeWarning,
                stacklevel=3,
            )

    # --- what it can ---

    def has_capability(self, name: str, /) -> bool:
        """Return whether this stream really can, by a name of :mod:`hflush.capabilities`."""
        return (
            super().has_capability(name) or capabilities.canonical(name) in self._plan.capabilities
        )

    def _own_statistics(self) -> dict[str, int]:
        return self._downgraded


class S3OutputStream(_S3Output):
    """An object of S3 being written: nothing is visible before :meth:`close`, and then all of it.

    Blocks are uploaded while the program writes; ``write`` waits where too many are under way, and
    raises when one has failed. Leaving a ``with`` block by an exception, :meth:`abort`, garbage
    collection and the end of the interpreter publish nothing.
    """

    __slots__ = ("_counting", "_downgraded", "_plan", "_process", "_upload")


class S3ReportingOutputStream(_S3Output, ReportingOutputStream):
    """The same, calling the program's `progress`."""

    __slots__ = ("_counting", "_downgraded", "_plan", "_process", "_upload")


class S3InputStream(FSDataInputStream):
    """An object of S3 opened for reading, as it was when it was opened.

    One that is replaced meanwhile is :class:`hflush.PreconditionFailedError` from the next read
    that asks the store, never a mixture of both.
    """

    etag: str | None = None

    def unbuffer(self) -> None:
        """Drop what was read ahead, and let connections go; the position stays."""
        super().unbuffer()
        if not self.closed:
            self._file.unbuffer()

    @property
    def _file(self) -> _core.S3InputFile:
        file: Any = self.raw.file
        return file  # type: ignore[no-any-return]

    def _flat_statistics(self) -> dict[str, int]:
        return {**self._file.statistics(), **super()._flat_statistics()}


# --- the end of the process -----------------------------------------------------------------------

_open: weakref.WeakSet[_S3Output] = weakref.WeakSet()


def _abandon_all() -> None:
    """At exit: publish nothing more, say so, and give what ends uploads a moment."""
    mine = [stream for stream in list(_open) if stream._process == os.getpid()]
    for stream in mine:
        if stream.abandon_():
            warnings.warn(f"never closed, not published: {stream!r}", ResourceWarning, stacklevel=1)
    _core.s3_drain(_CLEAN_UP_AT_EXIT_S)


atexit.register(_abandon_all)
