"""A copy of one object within the store: in one request, or in parts that the store copies."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from .. import _core
from ..errors import attach, unsupported
from ..workers import Workers
from . import completion
from .answers import check
from .bucket import tells_encryption
from .documents import Part
from .keys import MAX_COPY
from .lacks import is_refused, lacks_of
from .settings import ENCRYPTION_PREFIX, copy_source_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .bucket import Bucket
    from .documents import ObjectEntry
    from .settings import Headers, Settings

__all__ = ["ObjectCopy", "kept_headers", "publish_parts"]

_PART_BYTES = 128 << 20
_THREADS = 4
# Of the headers of an object, those that a copy in parts has to carry on.
_KEPT_HEADERS = (
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
    "x-amz-website-redirect-location",
)
_STORAGE_CLASS = "x-amz-storage-class"
_KMS_KEY = f"{ENCRYPTION_PREFIX}-aws-kms-key-id"


class ObjectCopy(NamedTuple):
    """What is copied, as it was when it was seen, and to which key."""

    bucket: Bucket
    source: ObjectEntry
    target: str
    path: str  # for messages

    def make(self) -> None:
        """Copy it.

        Raises
        ------
        PreconditionFailedError
            It has changed since.
        """
        settings, lacks = self.bucket.settings, lacks_of(self.bucket.endpoint)
        is_large = settings.has_uploads and self.source.size > settings.copy_threshold
        if is_large and not lacks.part_copies:
            try:
                self._in_parts()
            except OSError:
                if not lacks.part_copies:
                    raise
            else:
                return
        if is_large and self.source.size > MAX_COPY:
            what = "copy of more than 5 GiB, which takes UploadPartCopy,"
            raise unsupported(what, "this store", self.bucket.name(self.path))
        self._whole()

    def _request(
        self,
        operation: str,
        headers: Headers,
        query: Sequence[tuple[str, str]] = (),
        **expected: str,
    ) -> _core.S3Response:
        response = self._call(operation, headers, query, **expected)
        check(response)
        return response

    def _call(
        self,
        operation: str,
        headers: Headers,
        query: Sequence[tuple[str, str]] = (),
        **expected: str,
    ) -> _core.S3Response:
        settings = self.bucket.settings
        encoded = quote(self.source.key.encode("utf-8", "surrogateescape"), safe="/")
        source = [("x-amz-copy-source", f"/{settings.bucket}/{encoded}")]
        if self.source.etag:
            source.append(("x-amz-copy-source-if-match", f'"{self.source.etag}"'))
        return self.bucket.call(
            operation,
            "PUT",
            self.target,
            self.path,
            query=query,
            headers=[*source, *copy_source_key(settings.sse_c), *headers, *settings.sse_c],
            stall_timeout=settings.copy_timeout,
            **expected,
        )

    def _whole(self) -> None:
        bucket, settings = self.bucket, self.bucket.settings
        listed = {_STORAGE_CLASS: self.source.storage_class} if self.source.storage_class else {}
        headers = _storage_of(self.source.headers or listed, settings)
        name, root = "CopyObject", "CopyObjectResult"
        response = self._request(name, headers, expect_root_or_nothing=root)
        if not response.body and not self._is_made():
            response = self._request(name, headers, expect_root=root)
        if settings.encryption:
            if not tells_encryption(response):  # what was made does
                response = bucket.request(
                    "HeadObject", "HEAD", self.target, self.path, headers=settings.sse_c
                )
            bucket.check_encryption(response, "CopyObject (published)", self.path)

    def _is_made(self) -> bool:
        """Whether the target has the source's bytes: some stores answer a good copy with nothing.

        AWS does, too, where a copy was cut short.
        """
        made = self.bucket.head(self.target, self.path)
        etag = self.source.etag
        return made is not None and bool(etag) and made.etag == etag

    def _in_parts(self) -> None:
        settings = self.bucket.settings
        size = self.source.size
        step = max(
            min(_PART_BYTES, settings.copy_threshold), -(-size // settings.writing.max_parts)
        )
        ranges = [(at, min(at + step, size)) for at in range(0, size, step)]

        def put(upload_id: str, number: int) -> Part:
            return self._part(upload_id, number, *ranges[number - 1])

        publish_parts(self.bucket, self.target, self.path, self._headers(), len(ranges), put)

    def _headers(self) -> Headers:
        """Return the headers of the source, which a copy in parts does not take on by itself."""
        seen = self.source.headers or self._seen()
        return [*kept_headers(seen), *_storage_of(seen, self.bucket.settings)]

    def _seen(self) -> Mapping[str, str]:
        """Return the headers of a source that a listing has shown."""
        seen = self.bucket.head(self.source.key, self.path)
        if seen is None:
            message = "copy: the source is gone"
            raise FileNotFoundError(errno.ENOENT, message, self.bucket.name(self.path))
        return seen.headers

    def _part(self, upload_id: str, number: int, start: int, end: int) -> Part:
        operation, root = "UploadPartCopy", "CopyPartResult"
        query = [("partNumber", str(number)), ("uploadId", upload_id)]
        source_range = ("x-amz-copy-source-range", f"bytes={start}-{end - 1}")
        response = self._call(operation, [source_range], query, expect_root=root)
        if is_refused(response):
            lacks_of(self.bucket.endpoint).part_copies = True
        check(response)
        self.bucket.check_encryption(response, operation, self.path, if_told=True)
        etag = self.bucket.read(
            lambda body: _core.s3_parse_etag(body, root), response, operation, self.path
        )
        if not etag:
            message = f"{operation}: part {number} without an etag"
            raise OSError(errno.EIO, message, self.bucket.name(self.path))
        return Part(number, f'"{etag}"', end - start, 0)


def kept_headers(seen: Mapping[str, str]) -> Headers:
    """Return what says what an object is, and its metadata, of the headers that it has."""
    kept = [(name, seen[name]) for name in _KEPT_HEADERS if name in seen]
    kept += [
        (name, value)
        for name, value in seen.items()
        if name.startswith("x-amz-meta-") and name != _core.S3_TOKEN_HEADER
    ]
    return kept


def _storage_of(seen: Mapping[str, str], settings: Settings) -> Headers:
    """Return how a copy is stored: as configured, else in the object's class, with its KMS key.

    What is configured of the content of objects that are written does not hold for a copy.
    """
    headers = [header for header in settings.headers if header[0].startswith("x-amz-")]
    configured = {name for name, _ in (*headers, *settings.sse_c)}
    kept = []
    if seen.get(_STORAGE_CLASS, "STANDARD") != "STANDARD" and _STORAGE_CLASS not in configured:
        kept.append(_STORAGE_CLASS)
    if _KMS_KEY in seen and not any(name.startswith(ENCRYPTION_PREFIX) for name in configured):
        kept += [ENCRYPTION_PREFIX, _KMS_KEY]
    return headers + [(name, seen[name]) for name in kept if name in seen]


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
    token = completion.new_token()
    upload_id, _ = bucket.create_upload(key, path, headers, token=token, checksums=False)
    try:
        # However it is left, it waits for what is under way: nothing lands after the abort.
        with Workers(_THREADS, thread_name_prefix="hflush-s3") as executor:
            tasks = [executor.submit(put, upload_id, number) for number in range(1, count + 1)]
            try:
                parts = tuple(task.result() for task in tasks)
            finally:
                for task in tasks:
                    task.cancel()
        what = completion.Publication(key, upload_id, parts, token)
        done = completion.publish(bucket, what, path, "one")
        if done.error is not None and done.outcome != "unknown":
            raise done.error
    except BaseException as failure:
        try:
            bucket.abort_upload(key, upload_id, path)
        except OSError as also:
            attach(failure, also)
        raise
    if done.error is not None:  # the store may be at work on it
        raise done.error
