"""Completing uploads: the one step that publishes, whatever answers get lost on the way.

A completion whose answer is missing, or that finds the upload gone, may have taken place: the token
in the metadata of the object tells. What cannot be told is an error that says so, never success.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import random
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from ..errors import attach
from . import documents
from .bucket import TOKEN_HEADER
from .documents import Part, crc_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from .. import _core
    from .bucket import Bucket
    from .commit import PendingCommit
    from .settings import Headers

__all__ = [
    "OutcomeUnknownError",
    "Publication",
    "complete",
    "new_token",
    "publish_parts",
    "refuse_other",
]

_RESULT = "CompleteMultipartUploadResult"
# How often a completion that did not take place is asked for; and one whose time ran out.
_LIMIT = 4
_SILENCE_LIMIT = 2
_COPIES = 4

_log = logging.getLogger(__name__)


class OutcomeUnknownError(OSError):
    """It cannot be told whether an object was published (``EIO``)."""


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

    @property
    def length(self) -> int:
        """Bytes of the object."""
        return sum(part.size for part in self.parts)

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


def complete(bucket: Bucket, what: Publication, path: str, *, again: bool) -> str:
    """Publish an upload; return the etag of the object.

    Parameters
    ----------
    bucket : Bucket
        Where.
    what : Publication
        What.
    path : str
        For messages.
    again : bool
        It may have been published before, and that is fine.

    Raises
    ------
    FileExistsError, PreconditionFailedError
        The condition does not hold. The upload goes on.
    FileNotFoundError
        The upload is gone, and the object is not there.
    OutcomeUnknownError
        It cannot be told what has happened.
    OSError
        The store refuses. The upload goes on.
    """
    path = bucket.name(path)
    ends = time.monotonic() + bucket.settings.native.retry_deadline
    silences = 0
    for attempt in range(_LIMIT):
        if attempt:
            most = bucket.settings.native.retry_interval * 2**attempt
            pause = random.uniform(most / 2, most)
            if silences >= _SILENCE_LIMIT or time.monotonic() + pause >= ends:
                break
            time.sleep(pause)
        response = _ask(bucket, what, path)
        silences += isinstance(response.error, TimeoutError)
        if response.error is None:
            return _etag(bucket, what, path, response)
        is_gone = response.kind == "gone" and not response.ambiguous
        if is_gone and not again:
            raise _no_such_upload(what, path, response)
        in_doubt = response.ambiguous or response.kind == "gone"
        if not in_doubt and response.kind != "precondition":
            if not what.length and response.kind in ("final", "transit"):
                return _publish_empty(bucket, what, path, again)
            raise _refusal(response, what, path)
        published = _look(bucket, what, path, response)
        if published is not None:
            return published
        if not in_doubt:
            raise _refusal(response, what, path)
        if is_gone:
            raise _no_such_upload(what, path, response)
        if not _upload_exists(bucket, what, path, response):
            published = _look(bucket, what, path, response)  # it may have ended since
            if published is not None:
                return published
            raise _unknown("the upload is gone, and the key holds no object of it", path, response)
    raise _refusal(response, what, path)


def refuse_other(bucket: Bucket, what: Publication, path: str) -> None:
    """Look for an object that is not this one, where the store does not when it publishes.

    Raises
    ------
    FileExistsError
        There is one.
    """
    path = bucket.name(path)
    seen = bucket.head(what.key, path)
    if seen is not None and seen.headers.get(TOKEN_HEADER) != what.token:
        raise FileExistsError(errno.EEXIST, "complete: an object exists", path)


def _no_such_upload(
    what: Publication, path: str, response: _core.S3Response | None = None
) -> FileNotFoundError:
    missing = FileNotFoundError(errno.ENOENT, f"no such upload: {what.upload_id}", path)
    missing.__cause__ = None if response is None else response.error
    return missing


def _ask(bucket: Bucket, what: Publication, path: str) -> _core.S3Response:
    headers = [
        ("Content-Type", "application/xml"),
        ("x-amz-mp-object-size", str(what.length)),
        *_condition(what),
        *bucket.settings.sse_c,
    ]
    if what.crc32c is not None and what.length:  # MinIO finds that of no bytes to be another
        headers.append(("x-amz-checksum-crc32c", crc_text(what.crc32c)))
        headers.append(("x-amz-checksum-type", "FULL_OBJECT"))
    return bucket.call(
        "CompleteMultipartUpload",
        "POST",
        what.key,
        path,
        query=[("uploadId", what.upload_id)],
        headers=headers,
        body=documents.complete_document(what.parts, what.checksums),
        expect_root=_RESULT,
        repeat=False,
        # Over one that is reused, libcurl itself might send it twice.
        fresh_connection=True,
        stall_timeout=bucket.settings.native.complete_timeout,
    )


def _condition(what: Publication) -> Headers:
    if what.if_absent:
        return [("If-None-Match", "*")]
    return [("If-Match", f'"{what.if_match}"')] if what.if_match else []


def _etag(bucket: Bucket, what: Publication, path: str, response: _core.S3Response) -> str:
    """Return the etag of what was published; empty if nobody tells it: published it is."""
    with contextlib.suppress(ValueError):
        if etag := documents.parse_etag(response.body, _RESULT):
            return etag
    with contextlib.suppress(OSError):  # radosgw leaves it empty
        return _look(bucket, what, path, response) or ""
    return ""


def _look(
    bucket: Bucket, what: Publication, path: str, response: _core.S3Response | None
) -> str | None:
    """Return the etag of the object if it is there, None if it is not."""
    try:
        seen = bucket.head(what.key, path)
    except OSError as failure:
        raise _unknown("the key cannot be looked at", path, response) from failure
    if seen is None or seen.headers.get(TOKEN_HEADER) != what.token:
        return None
    return seen.etag if seen.size == what.length else None


def _upload_exists(
    bucket: Bucket, what: Publication, path: str, response: _core.S3Response
) -> bool:
    try:
        return bucket.upload_exists(what.key, what.upload_id, path)
    except OSError as failure:
        raise _unknown("the upload cannot be looked at", path, response) from failure


def _unknown(reason: str, path: str, response: _core.S3Response | None) -> OutcomeUnknownError:
    after = "" if response is None else f" (after: {response.error})"
    message = f"complete: the outcome is unknown: {reason}{after}"
    return OutcomeUnknownError(errno.EIO, message, path)


def _refusal(response: _core.S3Response, what: Publication, path: str) -> OSError:
    """Return what a completion that certainly did not take place raises."""
    error = response.error
    if error is None:
        return OSError(errno.EIO, "complete: no answer", path)
    if what.if_absent and response.kind in ("precondition", "conflict"):
        exists = FileExistsError(errno.EEXIST, "complete: an object exists", path)
        exists.__cause__ = error
        return exists
    return error


def _publish_empty(bucket: Bucket, what: Publication, path: str, again: bool) -> str:
    """Publish an object without bytes by itself: some stores take no upload of one empty part.

    What the upload was to have of headers is lost by that, but for those of the settings.
    """
    if again and (published := _look(bucket, what, path, None)) is not None:
        return published
    if not bucket.upload_exists(what.key, what.upload_id, path):
        raise _no_such_upload(what, path)
    headers = [*_condition(what), (TOKEN_HEADER, what.token)]
    response = bucket.put_empty(what.key, path, headers, repeat=False, fresh_connection=True)
    if response.error is None:
        etag = documents.bare_etag(response.headers.get("etag", ""))
    elif response.ambiguous:
        found = _look(bucket, what, path, response)
        if found is None:
            raise _refusal(response, what, path)
        etag = found
    else:
        raise _refusal(response, what, path)
    try:
        bucket.abort_upload(what.key, what.upload_id, path)
    except OSError as left:  # the object is published all the same
        _log.warning("an upload that is not needed is left at %s: %s", path, left)
    return etag


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
        The first failure. The upload is aborted, and nothing is published.
    """
    token = new_token()
    upload_id, _ = bucket.create_upload(
        key, path, [*headers, (TOKEN_HEADER, token)], checksums=False
    )
    try:
        # Left in any way, it waits for what is under way: nothing lands after the abort.
        with ThreadPoolExecutor(_COPIES, thread_name_prefix="hflush-s3") as executor:
            tasks = [executor.submit(put, upload_id, number) for number in range(1, count + 1)]
            try:
                parts = [task.result() for task in tasks]
            finally:
                for task in tasks:
                    task.cancel()
    except BaseException as failure:
        _abort(bucket, key, upload_id, path, failure)
        raise
    what = Publication(key, upload_id, tuple(parts), token)
    try:
        complete(bucket, what, path, again=False)
    except OutcomeUnknownError:
        raise  # the store may be at it still
    except BaseException as failure:
        _abort(bucket, key, upload_id, path, failure)
        # A store that was silent may have published it before the upload was ended.
        if not isinstance(failure, TimeoutError) or _look(bucket, what, path, None) is None:
            raise


def _abort(bucket: Bucket, key: str, upload_id: str, path: str, failure: BaseException) -> None:
    """End an upload because of a failure, which is told of what fails besides."""
    try:
        bucket.abort_upload(key, upload_id, path)
    except OSError as also:
        attach(failure, also)
