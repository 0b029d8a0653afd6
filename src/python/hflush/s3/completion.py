"""Completing uploads: the one step that publishes, whatever answers get lost on the way.

Whether it took place is decided by the core (``s3/upload/publication.h``); here its outcome becomes
an etag or an exception.
"""

from __future__ import annotations

import errno
import logging
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from .. import _core
from ..errors import attach
from .documents import bare_etag

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal, TypeAlias

    from .bucket import Bucket
    from .commit import PendingCommit
    from .documents import Part
    from .settings import Headers

    # Who may complete an upload: us alone, all who hold it, or the first of them only.
    Holders: TypeAlias = Literal["one", "equal", "first"]

__all__ = ["Publication", "complete", "new_token", "publish_parts", "refuse_other"]

_COPIES = 4

_log = logging.getLogger(__name__)


class Publication(NamedTuple):
    """An upload all of whose parts are there."""

    key: str
    upload_id: str
    parts: tuple[Part, ...]
    token: str
    checksums: bool = False
    crc32c: int | None = None  # of all bytes, where the store checks it
    if_absent: bool = False
    if_match: str = ""

    @classmethod
    def of(cls, commit: PendingCommit) -> Publication:
        """Return what a stream handed over."""
        return cls(
            commit.key,
            commit.upload_id,
            commit.parts,
            commit.token,
            checksums=commit.checksums,
            crc32c=commit.crc32c if commit.full_object_checksum else None,
            if_absent=commit.if_absent,
            if_match=commit.if_match,
        )


def new_token() -> str:
    """Return 128 random bits as hexadecimal digits."""
    return secrets.token_hex(16)


def complete(bucket: Bucket, what: Publication, path: str, holders: Holders) -> str:
    """Publish an upload; return the etag of the object, empty if the store does not say it.

    Raises
    ------
    FileExistsError, PreconditionFailedError
        The condition does not hold. The upload goes on.
    FileNotFoundError
        The upload is gone, and the object is not there (`holders` "first": or it may be).
    OSError
        The store refuses, and the upload goes on; or the outcome is unknown.
    """
    done = _publish(bucket, what, path, holders)
    if done.error is None:
        return bare_etag(done.etag)
    is_refused = done.outcome == "not published" and done.kind in ("final", "transit")
    if is_refused and not any(part.size for part in what.parts):
        return _publish_empty(bucket, what, path)
    raise done.error


def _publish(bucket: Bucket, what: Publication, path: str, holders: Holders) -> _core.S3Completed:
    calls = bucket.upload(
        what.key, path, token=what.token, if_absent=what.if_absent, if_match=what.if_match
    )
    return calls.publish(
        what.upload_id, what.parts, checksums=what.checksums, crc32c=what.crc32c, holders=holders
    )


def _publish_empty(bucket: Bucket, what: Publication, path: str) -> str:
    """Publish an object without bytes by itself: some stores take no upload of one empty part.

    What the upload was to have of headers is lost by that, but for those of the settings.
    """
    if not bucket.upload_exists(what.key, what.upload_id, path):
        message = f"complete: no such upload: {what.upload_id}"
        raise FileNotFoundError(errno.ENOENT, message, bucket.name(path))
    whole = what._replace(upload_id="", parts=(), checksums=False, crc32c=None)
    done = _publish(bucket, whole, path, "one")
    if done.error is not None:
        raise done.error
    try:
        bucket.abort_upload(what.key, what.upload_id, path)
    except OSError as left:  # the object is published all the same
        _log.warning("an upload that is not needed is left at %s: %s", bucket.name(path), left)
    return bare_etag(done.etag)


def refuse_other(bucket: Bucket, what: Publication, path: str) -> None:
    """Look for an object that is not this one, where the store does not when it publishes.

    Raises
    ------
    FileExistsError
        There is one.
    """
    seen = bucket.head(what.key, path)
    if seen is not None and seen.headers.get(_core.S3_TOKEN_HEADER) != what.token:
        raise FileExistsError(errno.EEXIST, "complete: an object exists", bucket.name(path))


def publish_parts(
    bucket: Bucket,
    key: str,
    path: str,
    headers: Headers,
    count: int,
    put: Callable[[str, int], Part],
) -> None:
    """Publish an object of parts that ``put(upload id, number)`` puts, several at once.

    Raises
    ------
    OSError
        The first failure. The upload is aborted and nothing is published, unless the outcome is
        unknown.
    """
    token = new_token()
    upload_id, _ = bucket.create_upload(key, path, headers, token=token, checksums=False)
    try:
        # However it is left, it waits for what is under way: nothing lands after the abort.
        with ThreadPoolExecutor(_COPIES, thread_name_prefix="hflush-s3") as executor:
            tasks = [executor.submit(put, upload_id, number) for number in range(1, count + 1)]
            try:
                parts = tuple(task.result() for task in tasks)
            finally:
                for task in tasks:
                    task.cancel()
        done = _publish(bucket, Publication(key, upload_id, parts, token), path, "one")
    except BaseException as failure:
        _abort(bucket, key, upload_id, path, failure)
        raise
    if done.error is not None:
        if done.outcome != "unknown":  # else the store may be at work on it
            _abort(bucket, key, upload_id, path, done.error)
        raise done.error


def _abort(bucket: Bucket, key: str, upload_id: str, path: str, failure: BaseException) -> None:
    """End an upload because of a failure; what fails besides is attached to it."""
    try:
        bucket.abort_upload(key, upload_id, path)
    except OSError as also:
        attach(failure, also)
