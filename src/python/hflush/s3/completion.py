"""Completing uploads: the one step that publishes, whatever answers get lost on the way.

Whether it took place is decided by the core (``s3/upload/publication.h``); here its outcome becomes
an etag or an exception.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import re
import secrets
from io import UnsupportedOperation
from typing import TYPE_CHECKING, NamedTuple

from .. import _core
from .answers import check, is_gone
from .documents import bare_etag

if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from .bucket import Bucket
    from .commit import PendingCommit
    from .documents import Part

    # Who may complete an upload: us alone, all who hold it, or the first of them only.
    Holders: TypeAlias = Literal["one", "equal", "first"]

__all__ = ["Publication", "complete", "may_take_place", "new_token", "publish", "refuse_other"]

_log = logging.getLogger(__name__)

_SIZE_ABOVE_0 = re.compile(rb"<Size>0*[1-9]")  # of a part in a list


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
    done = publish(bucket, what, path, holders)
    failure = done.error
    if failure is None:
        return bare_etag(done.etag)
    is_refused = done.outcome == "not published" and done.kind in ("final", "transit")
    if is_refused and not any(part.size for part in what.parts):
        return _publish_empty(bucket, what, path, failure)
    failure.__dict__["outcome"] = done.outcome
    raise failure


def may_take_place(failure: BaseException) -> bool:
    """Whether what :func:`complete` raised leaves it open: the store may be at work on it."""
    return not isinstance(failure, OSError) or getattr(failure, "outcome", "") == "unknown"


def publish(bucket: Bucket, what: Publication, path: str, holders: Holders) -> _core.S3Completed:
    """Publish an upload; return what is known of it then."""
    calls = bucket.upload(
        what.key, path, token=what.token, if_absent=what.if_absent, if_match=what.if_match
    )
    return calls.publish(
        what.upload_id, what.parts, checksums=what.checksums, crc32c=what.crc32c, holders=holders
    )


def _publish_empty(bucket: Bucket, what: Publication, path: str, refusal: OSError) -> str:
    """Publish an object without bytes by itself: some stores take no upload of one empty part.

    What the upload was to have of headers is lost by that, but for those of the settings. A part
    that was put again, with bytes, is not thrown away: the refusal was meant.
    """
    has_bytes = False
    with contextlib.suppress(PermissionError, UnsupportedOperation):  # that it can be seen
        listed = bucket.upload(what.key, path).list_parts(what.upload_id)
        if is_gone(listed):
            message = f"complete: no such upload: {what.upload_id}"
            raise FileNotFoundError(errno.ENOENT, message, bucket.name(path))
        check(listed)
        has_bytes = _SIZE_ABOVE_0.search(listed.body) is not None
    if has_bytes:
        raise refusal
    whole = what._replace(upload_id="", parts=(), checksums=False, crc32c=None)
    done = publish(bucket, whole, path, "one")
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
