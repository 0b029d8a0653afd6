"""Whether a store honours conditional writes: tried out, not assumed.

Some ignore ``If-None-Match`` on one operation and overwrite, some on the other, some refuse it
(radosgw 16, rclone, Swift). So once for each server and bucket two small objects are written under
our own name, once as an object and once as an upload of one part, against conditions that do not
hold. Where etags are compared, that of an object has to hold for it, too, and for none that is not
there: two requests more. Without permission to write there nothing is promised.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import uuid
from typing import TYPE_CHECKING, NamedTuple

from .answers import check, code_of
from .documents import Part, bare_etag

if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from .. import _core
    from .bucket import Bucket
    from .settings import Endpoint

    Place: TypeAlias = tuple[Endpoint, str, bool]
    Verdict: TypeAlias = Literal["checked", "ignored", "refused"]

__all__ = ["Conditions", "conditions_of", "known_conditions"]

PROBE = ".hflush-probe-"
_NO_SUCH_ETAG = "00000000000000000000000000000000"
# Answers that say how the store is, and will be: neither trouble on the way nor in the server, nor
# with credentials, or a clock.
_REFUSALS = (400, 403, 404, 405, 501)
_LASTING = ("final", "gone")
# Those that say it without a code, too: something in between may answer the others by itself.
_PLAIN = (405, 501)
# What is conditional is not repeated by itself: a trial whose answers got lost is made again.
_ATTEMPTS = 4


class Conditions(NamedTuple):
    """What a store checks when it publishes an object, in one request or in parts.

    `if_absent_in_one` is less than `if_absent`: objects of one request only, while the condition of
    those in parts is taken and ignored.
    """

    if_absent: bool
    if_match: bool
    if_absent_in_one: bool


_ALL, _NONE = Conditions(True, True, True), Conditions(False, False, False)
_known: dict[Place, Conditions] = {}
# One trial at a time of each place.
_trials: dict[Place, threading.RLock] = {}


def known_conditions(bucket: Bucket) -> Conditions | None:
    """Return what is known of a bucket without asking; None if it has not been tried out."""
    settings = bucket.settings
    if settings.conditional != "auto":
        return _ALL if settings.conditional == "true" else _NONE
    if settings.endpoint.is_aws:
        return _ALL
    return _known.get(_place(bucket))


def conditions_of(bucket: Bucket, beside: str, path: str) -> Conditions:
    """Return what is known, after a trial if that is needed.

    Parameters
    ----------
    bucket : Bucket
        The bucket.
    beside : str
        A key: the trial is made in its directory, where there should be permission to write.
    path : str
        For messages.

    Raises
    ------
    OSError
        The store could not be asked.
    """
    known = known_conditions(bucket)
    if known is not None:
        return known
    place = _place(bucket)
    with _trials.setdefault(place, threading.RLock()):
        if place in _known:
            return _known[place]
        found = _try_until_answered(bucket, beside.rpartition("/")[0], path)
        if found is None:  # which says nothing about other directories, or later
            return _NONE
        _known[place] = found
        return found


def _place(bucket: Bucket) -> Place:
    settings = bucket.settings
    return bucket.endpoint, settings.bucket, settings.has_uploads


class _NotAnsweredError(Exception):
    """Whether a request was carried out is not known; the cause is what to raise."""


def _try_until_answered(bucket: Bucket, directory: str, path: str) -> Conditions | None:
    for left in reversed(range(_ATTEMPTS)):
        name = f"{PROBE}{uuid.uuid4().hex}"
        try:
            return _try_out(bucket, f"{directory}/{name}" if directory else name, path)
        except _NotAnsweredError as doubt:
            if not left and doubt.__cause__ is not None:
                raise doubt.__cause__ from None
    raise AssertionError("the last trial returns or raises")


def _try_out(bucket: Bucket, key: str, path: str) -> Conditions | None:
    """Return what is checked; None if the trial is refused as such."""
    headers = bucket.settings.headers_of_helpers
    absent = bucket.upload(key, path, headers, if_absent=True)
    match = bucket.upload(key, path, headers, if_match=_NO_SUCH_ETAG)
    try:
        written = bucket.upload(key, path, headers).put_object(b"")
        if written.status == 404 and code_of(written.error):
            check(written)  # there is no such bucket
        if not _took(written):
            return None
        puts = [_verdict(calls.put_object(b"")) for calls in (absent, match)]
        if "checked" not in puts:
            return _NONE
        completions = puts
        if bucket.settings.has_uploads:
            completions = _try_completions(bucket, key, path, [absent, match])
        compares_etags = puts[1] == completions[1] == "checked"
        return Conditions(
            puts[0] == completions[0] == "checked",
            compares_etags and _etags_hold(bucket, key, path, written.headers.get("etag", "")),
            puts[0] == "checked" and completions[0] != "refused",
        )
    finally:
        with contextlib.suppress(OSError):  # what is left is empty, and its name says whose it is
            bucket.delete(key, path)


def _etags_hold(bucket: Bucket, key: str, path: str, etag: str) -> bool:
    """Whether If-Match holds for the object that has an etag, and for none that is not there.

    Ceph's gateway compares the quotes, too, which its own etags have not. MinIO before September
    2025 compares nothing where there is no object.
    """
    headers = bucket.settings.headers_of_helpers
    absent = f"{key}-absent"
    mine, others = (
        bucket.upload(target, path, headers, if_match=bare_etag(etag)) for target in (key, absent)
    )
    if not etag or _verdict(mine.put_object(b"")) != "ignored":
        return False
    is_refused = False
    try:
        is_refused = _verdict(others.put_object(b"")) != "ignored"
    finally:
        if not is_refused:
            with contextlib.suppress(OSError):
                bucket.delete(absent, path)
    return is_refused


def _try_completions(
    bucket: Bucket, key: str, path: str, conditional: list[_core.S3UploadCalls]
) -> list[Verdict]:
    upload_id, _ = bucket.create_upload(key, path, bucket.settings.headers, checksums=False)
    try:
        response = bucket.upload(key, path).upload_part(upload_id, 1, b"x", checksums=False)
        check(response)
        parts = [Part(1, response.headers["etag"], 1, 0)]
        return [_verdict(calls.complete(upload_id, parts)) for calls in conditional]
    finally:
        with contextlib.suppress(OSError):
            bucket.abort_upload(key, upload_id, path)


def _took(response: _core.S3Response) -> bool:
    """Whether a request succeeded; False if the store will not have it."""
    error = response.error
    if error is None or (response.status // 100 == 2 and not response.body):
        return True  # some answer without an etag
    is_refused = response.status in _REFUSALS and response.kind in _LASTING
    if is_refused and (response.status in _PLAIN or code_of(error)):
        return False
    if response.ambiguous:
        raise _NotAnsweredError from error
    if is_refused:
        message = (
            f"whether the store checks conditions cannot be tried out: {error.strerror}."
            " fs.s3a.create.conditional.enabled says it without a trial"
        )
        raise _NotAnsweredError from OSError(errno.EIO, message, error.filename)
    raise error


def _verdict(response: _core.S3Response) -> Verdict:
    """Return how the store treated a condition: it found that it does not hold, or took it."""
    if response.kind == "precondition":
        return "checked"
    return "ignored" if _took(response) else "refused"


# In a child, the thread of a trial does not exist.
os.register_at_fork(after_in_child=_trials.clear)
