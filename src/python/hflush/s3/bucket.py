"""Requests to one bucket: what is sent, and what the answers mean as values and exceptions.

The core signs, judges and repeats each request; here is only what S3's operations look like.
Nothing here decides what a file or a directory is.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
import weakref
from email.utils import parsedate_to_datetime
from io import UnsupportedOperation
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from .. import _core, registry
from ..errors import attach
from . import documents
from .answers import check, code_of, failure_of, is_gone, is_marked
from .credentials import Refresher, joinable, origin_of
from .documents import (
    DeleteFailure,
    Listing,
    ObjectEntry,
    UploadEntry,
    Uploads,
    bare_etag,
    is_of_parts,
)
from .lacks import is_refused, lacks_of
from .pages import SeenPages
from .settings import ENCRYPTION_PREFIX, integrity_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from .credentials import Source
    from .settings import Endpoint, Headers, Settings

    T = TypeVar("T")

__all__ = ["Bucket", "Head", "Sight", "tells_encryption"]

_log = logging.getLogger(__name__)
_ABORT_ATTEMPTS = 4
# The documents that answer listings, those of version 1 as well.
_LISTING = "ListBucketResult"
_UPLOADS = "ListMultipartUploadsResult"
_REREAD_S = 2.0
# Answers to HEAD that name no reason: it would be in a body, which HEAD has not.
_UNEXPLAINED = (400, 403)
# The reasons that hold for whatever is asked.
_REASONS = frozenset(
    (
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidToken",
        "NoSuchBucket",
        "RequestExpired",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
    )
)
# Of an object that is not there: some stores say so of one that was to be removed, as at the second
# attempt, when the first one's answer was lost.
_ABSENT = "NoSuchKey"
# Of objects that were not removed: the store may do it when it is asked again.
_PASSING = ("InternalError", "OperationAborted", "ServiceUnavailable", "SlowDown")


class Head(NamedTuple):
    """What HeadObject answers."""

    size: int
    etag: str  # without quotes
    modified: int  # seconds since the epoch
    headers: dict[str, str]

    @property
    def crc32c(self) -> str:
        """The sum of all bytes, as S3 writes it; empty where the store does not tell it."""
        crc = self.headers.get("x-amz-checksum-crc32c", "")
        kind = self.headers.get("x-amz-checksum-type", "").upper()
        is_whole = kind == "FULL_OBJECT" if kind else not is_of_parts(self.etag)
        return crc if is_whole and "-" not in crc else ""


class Sight(NamedTuple):
    """What :meth:`Bucket.look` saw, in the order of what was asked.

    An exception where it was not allowed to look; None: ask by itself.
    """

    exist: list[bool | PermissionError]  # objects
    occupied: list[bool | PermissionError | None]  # prefixes


class Bucket:
    """One bucket, and the client of its endpoint: made when it is first needed.

    Thread-safe. Usable again after :meth:`close`, and in a forked child.
    """

    def __init__(self, settings: Settings, source: Source, url: str = "") -> None:
        self.settings = settings
        # As messages name it.
        self.url = url or f"s3://{settings.bucket}"
        self._source = source
        # Of when the source was made, until it is asked: later it may be in a state of its own, and
        # is not shared.
        self._environment: object = registry.environment()
        # Guards the fields below.
        self._lock = threading.RLock()
        self._client: _core.S3Client | None = None
        self._refresher: Refresher | None = None
        # The client of the process that this one was forked from, until it has credentials here.
        self._inherited: _core.S3Client | None = None
        # The store has said once that it encrypts as configured.
        self._encrypts = False
        self._lacks = lacks_of(settings.endpoint)
        self._lacks.listing_v2 |= settings.lists_as_before
        _buckets.add(self)

    # --- the client ---

    @property
    def client(self) -> _core.S3Client:
        """The client, with credentials.

        Raises
        ------
        PermissionError, ValueError
            There are no credentials; what is configured about them is wrong.
        """
        client = self._client
        if client is not None:
            return client
        with self._lock:
            return self._connect()

    def _connect(self) -> _core.S3Client:
        if self._client is not None:
            return self._client
        made_in, self._environment = self._environment, None
        origin = origin_of(self.settings.keys, made_in) if made_in else None
        shared = joinable(origin)
        if shared is not None:
            self._source = shared.source
        credentials = self._source.get() if shared is None else shared.last
        if self._client is not None:  # a signal handler, which ran meanwhile, has made one
            return self._client
        if credentials is None:
            raise PermissionError(errno.EACCES, "the configured sources have no credentials for S3")
        client = self._inherited
        if client is None:
            native = self.settings.connected_to(self._source.region())
            # For newer credentials, unless there will be none.
            wait = self.settings.credentials_wait
            if not self._source.renews:  # to read a file again takes no time
                wait = min(wait, _REREAD_S) if self._source.can_refresh else 0.0
            native.credentials_wait = wait
            native.refused_extras = self._lacks.extras
            client = _core.S3Client(native, *credentials[:3])
        else:
            client.set_credentials(*credentials[:3])
        if self._source.can_refresh:
            if shared is not None and not shared.join(client, credentials):
                shared, origin = None, None
            self._refresher = shared or Refresher(client, self._source, credentials, origin)
        self._client, self._inherited = client, None
        return client

    def _forget_parent(self) -> None:
        """In a forked child: the thread that held the lock is not here, nor the one that renews."""
        self._lock = threading.RLock()
        self._refresher = None
        self._inherited, self._client = self._client or self._inherited, None

    def close(self) -> None:
        """End connections, and the thread that looks for newer credentials, if no other uses it."""
        with self._lock:
            client, self._client = self._client, None
            refresher, self._refresher = self._refresher, None
        if client is not None:
            if refresher is not None:
                refresher.leave(client)
            client.close()

    def statistics(self) -> dict[str, int]:
        """Return the statistics of all calls; none before the client is made."""
        client = self._client
        return {} if client is None else client.statistics()

    def name(self, path: str) -> str:
        """Return how errors name a path: by its URL."""
        return self.url + path if path.startswith("/") else path

    @property
    def endpoint(self) -> Endpoint:
        """What identifies the server."""
        return self.settings.endpoint

    # --- one request ---

    def call(
        self,
        operation: str,
        method: str,
        key: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        headers: Headers = [],  # noqa: B006 - only read
        **how: Any,
    ) -> _core.S3Response:
        """Make one call, with its repetitions, and return the result."""
        call = self._call(operation, method, key, path, query, headers)
        for name, value in how.items():
            setattr(call, name, value)
        return self.client.call(call)

    def _call(
        self,
        operation: str,
        method: str,
        key: str,
        path: str,
        query: Sequence[tuple[str, str]],
        headers: Headers,
    ) -> _core.S3Call:
        sent = [*headers, *self.settings.extra_headers]
        bucket = self.settings.bucket
        return _core.S3Call(operation, method, bucket, key, self.name(path), query, sent)

    def request(
        self, operation: str, method: str, key: str, path: str, **how: Any
    ) -> _core.S3Response:
        """Do the same, and raise what there is to raise."""
        response = self.call(operation, method, key, path, **how)
        check(response)
        return response

    # --- objects ---

    def head(self, key: str, path: str, *, checksums: bool = False) -> Head | None:
        """Return what the store knows of an object; None if it does not exist."""
        headers = [*self.settings.sse_c, *self.settings.endpoint.as_stored]
        if checksums:
            headers.append(("x-amz-checksum-mode", "ENABLED"))
        response = self.call("HeadObject", "HEAD", key, path, headers=headers)
        if response.status in _UNEXPLAINED:
            self._ask_for_a_reason(key, path)
            response = self.call("HeadObject", "HEAD", key, path, headers=headers)
        if response.status == 404:
            self._confirm_absence(response, key, path)
            return None
        check(response)
        answered = response.headers
        etag = bare_etag(answered.get("etag", ""))
        length = answered.get("content-length", "")
        size = _length(length, self.name(path)) if length else self._size(key, path, etag)
        modified = int(_date(answered.get("last-modified", ""), 0.0))
        return Head(size, etag, modified, answered)

    def _size(self, key: str, path: str, etag: str) -> int:
        """Ask for the first byte: some stores leave out the length where it is 0."""
        headers = [
            ("Range", "bytes=0-0"),
            *self.settings.sse_c,
            *self.settings.endpoint.as_stored,
        ]
        response = self.call("GetObject", "GET", key, path, headers=headers)
        if response.status == 416:
            return 0
        check(response)
        answered = bare_etag(response.headers.get("etag", ""))
        if answered != etag and (etag or not is_marked(response)):
            message = f"GetObject: an object with the etag {answered!r}, while HEAD's has {etag!r}"
            raise OSError(errno.EIO, message, self.name(path))
        if response.status == 200:
            return len(response.body)
        content_range = response.headers.get("content-range", "")
        return _length(content_range.rpartition("/")[2], self.name(path))

    def open(
        self,
        key: str,
        path: str,
        size: int,
        etag: str,
        readahead: int | None = None,
        window: int | None = None,
    ) -> _core.InputFile:
        """Return a reader of the object that has this size and etag; read ahead as configured."""
        usual = self.settings.reading
        native = _core.S3ReadOptions()
        native.bucket, native.key = self.settings.bucket, key
        settings = self.settings
        native.request_headers = [
            *settings.sse_c,
            *settings.extra_headers,
            *settings.endpoint.as_stored,
        ]
        native.size, native.etag = size, f'"{etag}"' if etag else ""
        native.readahead_bytes = usual.readahead_bytes if readahead is None else readahead
        native.window_bytes = usual.window_bytes if window is None else window
        return self.client.open(self.name(path), native)

    def read_object(self, key: str, path: str, seen: Head) -> bytearray:
        """Return the bytes of an object, which is still the one that was seen."""
        data = bytearray(seen.size)
        file = self.open(key, path, seen.size, seen.etag)
        try:
            at = 0
            with memoryview(data) as left:
                while at < seen.size and (count := file.read_into(at, left[at:])):
                    at += count
        finally:
            file.close()
        return data

    def entry(self, key: str, path: str) -> ObjectEntry | None:
        """Return what there is of an object, from a listing where nothing else is allowed."""
        try:
            head = self.head(key, path)
        except PermissionError as denied:
            if _is_reason(denied) or self.settings.sse_c:  # another key: nothing is to be known
                raise
            try:
                page = next(self.list_pages(key, path, limit=1))
            except PermissionError:
                raise denied from None
            return next((entry for entry in page.objects if entry.key == key), None)
        return None if head is None else ObjectEntry(key, *head[:3], headers=head.headers)

    def look(self, keys: Sequence[str], prefixes: Sequence[str], path: str) -> Sight:
        """Ask at once which objects there are, and which prefixes have any: one round trip.

        Raises
        ------
        OSError
            A request failed. What is only not answered plainly is None in the result.
        """
        lists = self._lists(prefixes, path, 1)
        answers = self.client.ask([*self._heads(keys, path), *lists])
        exist, pages = answers[: len(keys)], answers[len(keys) :]
        unexplained = [at for at, head in enumerate(exist) if head.status in _UNEXPLAINED]
        if unexplained:
            if not lists:  # after one, credentials are new and the clock is right
                self._ask_for_a_reason(keys[unexplained[0]], path)
            again = self.client.ask(self._heads([keys[at] for at in unexplained], path))
            for at, head in zip(unexplained, again, strict=True):
                exist[at] = head
        occupied = [self._has_keys(response, path) for response in pages]
        found = [self._exists(head, key, path) for head, key in zip(exist, keys, strict=True)]
        return Sight(found, occupied)

    def glance(self, prefixes: Sequence[str], path: str, limit: int) -> SeenPages:
        """Return what :meth:`first_pages` tell."""
        return SeenPages(self.first_pages(prefixes, path, limit))

    def first_pages(
        self, prefixes: Sequence[str], path: str, limit: int
    ) -> list[tuple[str, Listing]]:
        """Ask at once for the first keys, up to so many, that begin with prefixes: one round trip.

        Raises
        ------
        OSError
            A request failed. What is only not answered plainly is left out.
        """
        answers = self.client.ask(self._lists(prefixes, path, limit))
        pages = [self._glanced(response, path) for response in answers]
        return [
            (prefix, page)
            for prefix, page in zip(prefixes, pages, strict=True)
            if isinstance(page, Listing) and not page.doubtful
        ]

    def _heads(self, keys: Sequence[str], path: str) -> list[_core.S3Call]:
        headers = [*self.settings.sse_c, *self.settings.endpoint.as_stored]
        return [self._call("HeadObject", "HEAD", key, path, (), headers) for key in keys]

    def _lists(self, prefixes: Sequence[str], path: str, limit: int) -> list[_core.S3Call]:
        queries = [_list_query(prefix, "", "", limit) for prefix in prefixes]
        name = "ListObjectsV2"
        if self._lacks.listing_v2:
            name, queries = "ListObjects", [_older(query) for query in queries]
        calls = [self._call(name, "GET", "", path, query, []) for query in queries]
        for call in calls:
            call.expect_root = _LISTING
        return calls

    def _exists(self, head: _core.S3Response, key: str, path: str) -> bool | PermissionError:
        """Return whether an answer to HEAD says that the object exists; why it may not say so."""
        if isinstance(head.error, PermissionError):
            return head.error
        if head.status != 404:
            check(head)
            return True
        try:
            self._confirm_absence(head, key, path)
        except PermissionError as denied:
            return denied
        return False

    def _glanced(self, response: _core.S3Response, path: str) -> Listing | PermissionError | None:
        if is_refused(response):
            return None
        if isinstance(response.error, PermissionError) and not _is_reason(response.error):
            return response.error
        check(response)
        return self._read_page(response, path, self._lacks.plus)

    def _has_keys(self, response: _core.S3Response, path: str) -> bool | PermissionError | None:
        page = self._glanced(response, path)
        if not isinstance(page, Listing):
            return page
        if page.objects:
            return True
        # Stores may send empty pages before others.
        return None if page.next_token or page.next_marker else False

    def _ask_for_a_reason(self, key: str, path: str) -> None:
        """Let the store refuse something else, in words: an answer to HEAD has none.

        So the client finds out that its credentials have expired or its clock is wrong, and does
        what helps; what does not is raised. That this may not be done says nothing of HEAD.
        """
        query = [("list-type", "2"), ("max-keys", "1"), ("prefix", key)]
        response = self.call("ListObjectsV2", "GET", "", path, query=query)
        if _is_reason(response.error):
            raise cast("OSError", response.error)

    def _confirm_absence(self, response: _core.S3Response, key: str, path: str) -> None:
        """Look into a listing where a 404 to HEAD may be a proxy's.

        Raises
        ------
        OSError
            The object is there, or a listing is not to be had.
        """
        if is_marked(response):
            return
        if key in self.first_keys(key, path, 1):
            raise cast("OSError", failure_of(response))

    def upload(
        self,
        key: str,
        path: str,
        headers: Headers | None = None,
        *,
        token: str = "",
        if_absent: bool = False,
        if_match: str = "",
    ) -> _core.S3UploadCalls:
        """Return the calls that put an object, in one or in parts.

        Its headers are those of the settings unless they are given. The token identifies an
        object that is looked for later.
        """
        options = _core.S3ObjectOptions()
        options.bucket = self.settings.bucket
        options.path = self.name(path)
        options.headers = self.settings.headers if headers is None else headers
        options.request_headers = [*self.settings.sse_c, *self.settings.extra_headers]
        options.if_absent = if_absent
        options.if_match = f'"{if_match}"' if if_match else ""
        return _core.S3UploadCalls(self.client, key, options, token)

    def delete(self, key: str, path: str) -> None:
        """Remove an object, if there is one: some stores say that there is none."""
        response = self.call("DeleteObject", "DELETE", key, path)
        failure = failure_of(response)
        if failure is None or is_gone(response):
            return
        # Some stores say no more than 404.
        may_be_gone = response.status == 404 and not _is_reason(failure)
        if not (may_be_gone and self.entry(key, path) is None):
            raise failure

    def delete_many(self, keys: Sequence[str], path: str) -> list[tuple[str, OSError]]:
        """Remove many objects; return those that could not be, and why.

        Raises
        ------
        OSError
            The store cannot be asked.
        """
        odd = [key for key in keys if not _fits_xml(key)]
        plain = [key for key in keys if _fits_xml(key)] if odd else list(keys)
        if len(plain) == 1 or self.settings.delete_page == 1:
            odd, plain = [*odd, *plain], []
        failures: list[DeleteFailure] = []
        for start in range(0, len(plain), self.settings.delete_page):
            page = plain[start : start + self.settings.delete_page]
            failed = self._delete_page(page, path)
            if failed is None or not all(failure.key for failure in failed):
                odd += page
            else:
                failures += failed
        refused: list[tuple[str, OSError]] = []
        for failure in failures:
            if failure.code in _PASSING and failure.key in plain:
                odd.append(failure.key)
            elif failure.code != _ABSENT:
                refused.append((failure.key, _delete_error(failure, self.name("/" + failure.key))))
        for key in odd:
            try:
                self.delete(key, "/" + key)
            except OSError as error:  # noqa: PERF203
                if not hasattr(error, "remote_class"):  # it would be the same with the others
                    raise
                refused.append((key, error))
        return refused

    def _delete_page(self, keys: list[str], path: str) -> list[DeleteFailure] | None:
        """Remove objects by one request; None if that is to be done one by one."""
        if self._lacks.bulk_delete:
            return None
        response = self._ask_to_delete(keys, path)
        failure = failure_of(response)
        if failure is None and not response.body:
            self._lacks.bulk_delete = True
            return None
        if failure is None:
            return self.read(documents.parse_delete_result, response, "DeleteObjects", path)
        is_lacking = is_refused(response)
        if not is_lacking and (response.status not in (400, 403) or _is_reason(failure)):
            raise failure
        try:
            self.delete(keys[0], "/" + keys[0])
        except OSError:
            raise failure from None
        self._lacks.bulk_delete |= is_lacking
        return None

    def _ask_to_delete(self, keys: list[str], path: str) -> _core.S3Response:
        """Remove objects by one request. A good answer without a body proves nothing.

        Some stores answer so where they are asked to name failures alone: they are asked again, and
        from then on, to name what they have removed, too.
        """
        if not self._lacks.quiet_delete:
            response = self._send_delete(_core.s3_delete_document(keys, quiet=True), path)
            if response.error is not None or response.body:
                return response
            self._lacks.quiet_delete = True
        return self._send_delete(_core.s3_delete_document(keys, quiet=False), path)

    def _send_delete(self, body: bytes, path: str) -> _core.S3Response:
        """Send a document of DeleteObjects; again, as often as is usual, where the answer is odd.

        An answer without a body is returned at once: no repetition would change it.
        """
        query = [("delete", "")]
        headers = [integrity_of(body), ("Content-Type", "application/xml")]
        how: dict[str, Any] = {"query": query, "headers": headers, "body": body}
        response = self.call("DeleteObjects", "POST", "", path, **how)
        if response.error is not None or not response.body or _is_delete_result(response.body):
            return response
        return self.call("DeleteObjects", "POST", "", path, **how, expect_root="DeleteResult")

    # --- listings ---

    def list_page(
        self,
        prefix: str,
        path: str,
        *,
        delimiter: str = "/",
        token: str = "",
        marker: str = "",
        limit: int = 0,
    ) -> Listing:
        """Return one page of the keys that begin with a prefix; with a marker, of ListObjects."""
        query = _list_query(prefix, delimiter, token, limit or self.settings.page, marker)
        response = self._list(query, path)
        page = self._read_page(response, path, self._lacks.plus)
        if page.plus:
            self._lacks.plus = page.plus
        elif page.doubtful:
            self._lacks.plus = self._meaning_of_plus(page.doubtful, path)
            if self._lacks.plus == "itself":
                page = self._read_page(response, path, "itself")
        if all(entry.size >= 0 for entry in page.objects):
            return page
        return page._replace(objects=[self._sized(entry) for entry in page.objects])

    def _list(self, query: list[tuple[str, str]], path: str) -> _core.S3Response:
        """Ask for a page: without version 2 where the store lacks that."""
        names = {name for name, _ in query}
        older: dict[str, Any] = {"query": _older(query), "expect_root": _LISTING}
        if self._lacks.listing_v2 or "marker" in names:
            return self.request("ListObjects", "GET", "", path, **older)
        response = self.call("ListObjectsV2", "GET", "", path, query=query, expect_root=_LISTING)
        if is_refused(response) and "continuation-token" not in names:
            other = self.call("ListObjects", "GET", "", path, **older)
            if other.error is None:
                self._lacks.listing_v2 = True
                return other
        check(response)
        return response

    def _read_page(self, response: _core.S3Response, path: str, plus: str) -> Listing:
        def parse(body: bytes) -> Listing:
            return documents.parse_listing(body, plus)

        return self.read(parse, response, "ListObjectsV2", path)

    def _meaning_of_plus(self, doubtful: Sequence[str], path: str) -> str:
        """Find out what a plus sign is in what this store lists; empty where it cannot.

        What a name means is what there are objects under. Who escapes the plus of one that is asked
        for means a blank by those that are left.
        """
        for name in doubtful:
            page = self._read_page(self._list(_list_query(name, "", "", 1), path), path, "")
            if page.objects:
                return page.plus or "itself"
            blank = name.replace("+", " ")
            page = self._read_page(self._list(_list_query(blank, "", "", 1), path), path, "")
            if page.objects:
                return "blank"
        return ""

    def _sized(self, entry: ObjectEntry) -> ObjectEntry:
        """Return an entry with its size, which some stores leave out."""
        if entry.size >= 0:
            return entry
        head = self.head(entry.key, "/" + entry.key)
        return entry._replace(size=0 if head is None else head.size)

    def list_pages(
        self,
        prefix: str,
        path: str,
        *,
        delimiter: str = "",
        limit: int = 0,
    ) -> Iterator[Listing]:
        """Return all pages, each asked for when it is needed.

        There is at least one. An empty one is the last: stores may send others, which are left out.
        """
        token, marker = "", ""
        while True:
            page = self.list_page(
                prefix, path, delimiter=delimiter, token=token, marker=marker, limit=limit
            )
            following = page.next_token, page.next_marker
            if page.objects or page.prefixes or not any(following):
                yield page
            if not any(following):
                return
            if following == (token, marker):
                raise OSError(
                    errno.EIO, "list: the store's pages go round in circles", self.name(path)
                )
            token, marker = following

    def has_keys(self, prefix: str, path: str) -> bool:
        """Return whether any key begins with a prefix: one request, if its answer is plain."""
        if self._lacks.listing_v2:
            return bool(self.first_keys(prefix, path, 1))
        bucket, headers = self.settings.bucket, self.settings.extra_headers
        answer = self.client.has_keys(bucket, prefix, self.name(path), headers)
        seen = answer if isinstance(answer, bool) else self._has_keys(answer, path)
        if isinstance(seen, PermissionError):
            raise seen
        return bool(self.first_keys(prefix, path, 1)) if seen is None else seen

    def first_keys(self, prefix: str, path: str, limit: int) -> list[str]:
        """Return the first keys, up to so many, that begin with a prefix."""
        return [entry.key for entry in self.first_objects(prefix, path, limit)]

    def first_objects(self, prefix: str, path: str, limit: int) -> list[ObjectEntry]:
        """Return the same with what is known of the objects."""
        pages = self.list_pages(prefix, path, limit=limit)
        return list(islice((entry for page in pages for entry in page.objects), limit))

    # --- encryption ---

    def check_encryption(
        self, response: _core.S3Response, operation: str, path: str, *, if_told: bool = False
    ) -> None:
        """Refuse an answer that reports other encryption than was asked for, or none.

        With `if_told`: not where it says nothing at all.
        """
        asked = self.settings.encryption
        if not asked or (if_told and not tells_encryption(response)):
            return
        difference = _core.s3_encryption_difference(asked, response.headers)
        if difference:
            raise OSError(errno.EIO, f"{operation}: {difference}", self.name(path))

    def try_encryption(self, key: str, path: str) -> None:
        """Find out whether the store encrypts as configured, once, before anything is published.

        An upload is begun, and aborted: its answer says so, or that of a part of one byte. Nothing
        of it is visible.

        Raises
        ------
        OSError
            It does not; it cannot be asked.
        """
        if self._encrypts or not (self.settings.encryption and self.settings.has_uploads):
            return
        calls = self.upload(key, path)
        response, upload_id = self._begin_upload(calls, path, checksums=False)
        try:
            if not tells_encryption(response):
                response = calls.upload_part(upload_id, 1, b"x", checksums=False)
                check(response)
            self.check_encryption(response, "a trial by an upload", path)
        except OSError as refusal:
            if (left := self._drop_upload(key, upload_id, path)) is not None:
                attach(refusal, left)
            raise
        self._encrypts = True
        self._drop_upload(key, upload_id, path)

    def _drop_upload(self, key: str, upload_id: str, path: str) -> OSError | None:
        """Abort an upload without parts; what keeps it from that is logged and returned."""
        response = self.upload(key, path).abort(upload_id)
        if response.error is None or is_gone(response):
            return None
        _log.warning("an upload that is not needed is left at %s: %s", path, response.error)
        return response.error

    # --- uploads ---

    def create_upload(
        self, key: str, path: str, headers: Headers, *, token: str = "", checksums: bool
    ) -> tuple[str, bool]:
        """Begin an upload; its id, and whether the store will keep checksums of its parts."""
        calls = self.upload(key, path, headers, token=token)
        response, upload_id = self._begin_upload(calls, path, checksums=checksums)
        try:
            self.check_encryption(response, "CreateMultipartUpload", path, if_told=True)
        except OSError as refusal:
            if (left := self._drop_upload(key, upload_id, path)) is not None:
                attach(refusal, left)
            raise
        # A store that knows checksums repeats what it was asked.
        has_checksums = response.headers.get("x-amz-checksum-algorithm", "").upper() == "CRC32C"
        return upload_id, checksums and has_checksums

    def _begin_upload(
        self, calls: _core.S3UploadCalls, path: str, *, checksums: bool
    ) -> tuple[_core.S3Response, str]:
        response = calls.create(checksums=checksums)
        check(response)
        upload_id = self.read(_core.s3_parse_upload_id, response, "CreateMultipartUpload", path)
        if response.ambiguous:
            _log.warning("an upload may be left at %s: Create was repeated", self.name(path))
        return response, upload_id

    def upload_exists(self, key: str, upload_id: str, path: str) -> bool:
        """Whether an upload has not ended."""
        response = self.upload(key, path).list_parts(upload_id)
        if is_gone(response):
            return False
        check(response)
        return True

    def shares_uploads_with(self, other: Bucket, key: str, path: str) -> bool:
        """Whether another bucket shows an upload that is begun here: both are one, by two names."""
        upload_id, _ = self.create_upload(key, path, self.settings.headers, checksums=False)
        try:
            return other.upload_exists(key, upload_id, path)
        finally:
            self._drop_upload(key, upload_id, path)

    def abort_upload(self, key: str, upload_id: str, path: str, *, is_listed: bool = False) -> bool:
        """End an upload and let its parts go; False if there was none.

        Again until the store says that it is gone: a part that was under way may land late. Looked
        for first unless a listing has just shown it, since some stores abort what there never was.
        """
        seen = is_listed or self._sees_upload(key, upload_id, path)
        if seen is False:
            return False
        existed = False
        for _ in range(_ABORT_ATTEMPTS):
            response = self.upload(key, path).abort(upload_id)
            if is_gone(response):
                return existed or response.ambiguous
            check(response)
            existed = True
            if seen is None or not self._sees_upload(key, upload_id, path):
                return True
        raise OSError(errno.EIO, f"AbortMultipartUpload: {upload_id} comes back", self.name(path))

    def _sees_upload(self, key: str, upload_id: str, path: str) -> bool | None:
        """Whether an upload has not ended; None: it may not be looked at, but perhaps dropped."""
        try:
            return self.upload_exists(key, upload_id, path)
        except (PermissionError, UnsupportedOperation):
            return None

    def uploads(self, prefix: str, path: str) -> Iterator[tuple[UploadEntry, float]]:
        """Return the uploads to keys that begin with a prefix, and the time at the store."""
        markers: tuple[str, str] | None = ("", "")
        while markers is not None:
            query = [("uploads", ""), ("encoding-type", "url"), ("max-uploads", "1000")]
            for name, value in (
                ("prefix", prefix),
                ("key-marker", markers[0]),
                ("upload-id-marker", markers[1]),
            ):
                if value:
                    query.append((name, value))
            response = self._list_uploads(query, path)
            page = self._read_uploads(response, query, path)
            now = _date(response.headers.get("date", ""))
            for upload in page.uploads:  # one of no known age is as young as it can be
                yield upload if upload.initiated else upload._replace(initiated=now), now
            if page.next_markers == markers:
                message = "ListMultipartUploads: the store's pages go round in circles"
                raise OSError(errno.EIO, message, self.name(path))
            markers = page.next_markers

    def _read_uploads(
        self, response: _core.S3Response, query: list[tuple[str, str]], path: str
    ) -> Uploads:
        """Return a page; asked for once more with keys as they are where a plus may be a blank."""

        def parse(body: bytes) -> Uploads:
            return documents.parse_uploads(body, self._lacks.plus)

        page = self.read(parse, response, "ListMultipartUploads", path)
        if not page.doubtful:
            return page
        plain = [pair for pair in query if pair[0] != "encoding-type"]
        response = self._list_uploads(plain, path)
        return self.read(parse, response, "ListMultipartUploads", path)

    def _list_uploads(self, query: list[tuple[str, str]], path: str) -> _core.S3Response:
        return self.request(
            "ListMultipartUploads", "GET", "", path, query=query, expect_root=_UPLOADS
        )

    def read(
        self, parse: Callable[[bytes], T], response: _core.S3Response, operation: str, path: str
    ) -> T:
        """Return what the document of an answer says.

        Raises
        ------
        OSError
            It is not such a document.
        """
        try:
            return parse(response.body)
        except ValueError as malformed:
            raise OSError(errno.EIO, f"{operation}: {malformed}", self.name(path)) from malformed


def _is_delete_result(body: bytes) -> bool:
    """Whether an answer of DeleteObjects says what was removed."""
    try:
        documents.parse_delete_result(body)
    except ValueError:
        return False
    return True


def _delete_error(failure: DeleteFailure, name: str) -> OSError:
    """Return why an object was not removed."""
    denied = failure.code == "AccessDenied"
    kind, number = (PermissionError, errno.EACCES) if denied else (OSError, errno.EIO)
    error = kind(number, f"delete: {failure.code}: {failure.message}", name)
    error.remote_class = failure.code  # type: ignore[attr-defined]
    return error


_buckets: weakref.WeakSet[Bucket] = weakref.WeakSet()


def _forget_after_fork() -> None:
    for bucket in list(_buckets):
        bucket._forget_parent()


os.register_at_fork(after_in_child=_forget_after_fork)


def tells_encryption(response: _core.S3Response) -> bool:
    """Whether an answer says anything about encryption."""
    return any(name.startswith(ENCRYPTION_PREFIX) for name in response.headers)


def _fits_xml(key: str) -> bool:
    """Whether a document can name a key."""
    return not any(
        (character < " " and character not in "\t\n\r")
        or character in "\ufffe\uffff"
        or "\ud800" <= character <= "\udfff"
        for character in key
    )


def _is_reason(error: OSError | None) -> bool:
    """Whether a refusal holds for whatever is asked."""
    return code_of(error) in _REASONS


def _list_query(
    prefix: str, delimiter: str, token: str, limit: int, marker: str = ""
) -> list[tuple[str, str]]:
    optional = (
        ("prefix", prefix),
        ("delimiter", delimiter),
        ("continuation-token", token),
        ("marker", marker),
    )
    return [
        ("list-type", "2"),
        ("encoding-type", "url"),
        ("max-keys", str(limit)),
        *(pair for pair in optional if pair[1]),
    ]


def _older(query: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return what ListObjects, of version 1, is asked with."""
    return [pair for pair in query if pair[0] != "list-type"]


def _length(text: str, path: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise OSError(errno.EIO, f"HeadObject: {text!r} is not a length", path)
    return int(text)


def _date(text: str, default: float | None = None) -> float:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError):
        return time.time() if default is None else default
