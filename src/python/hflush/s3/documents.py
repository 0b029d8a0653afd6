"""What the documents of S3 hold, as values; the core reads them (``s3/call/documents.h``)."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, NamedTuple

from .. import _core

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "DeleteFailure",
    "Listing",
    "ObjectEntry",
    "Part",
    "UploadEntry",
    "bare_etag",
    "crc_text",
    "is_of_parts",
    "parse_delete_result",
    "parse_listing",
    "parse_uploads",
]


class ObjectEntry(NamedTuple):
    """An object in a listing, or as HEAD shows it."""

    key: str
    size: int  # negative: the store does not say
    etag: str  # without quotes; empty: likewise
    modified: int  # seconds since the epoch; 0: likewise
    storage_class: str = ""  # of a listing alone; empty: likewise, or STANDARD
    headers: Mapping[str, str] = {}  # of HEAD alone; only read


class Listing(NamedTuple):
    """A page of ListObjectsV2, or of ListObjects."""

    objects: list[ObjectEntry]
    prefixes: list[str]
    # How to ask for the next one; both empty: it is the last.
    next_token: str = ""
    next_marker: str = ""
    plus: str = ""  # what a plus sign in a key is, if the page shows it: "blank", "itself"
    doubtful: Sequence[str] = ()  # names for which that matters, as they are if it is itself


class UploadEntry(NamedTuple):
    """A multipart upload that has not ended."""

    key: str
    upload_id: str
    initiated: float  # seconds since the epoch; 0: the store does not say


class Uploads(NamedTuple):
    """A page of ListMultipartUploads."""

    uploads: list[UploadEntry]
    next_markers: tuple[str, str] | None  # key and upload id; None: the last page
    doubtful: Sequence[str] = ()  # as of Listing


class DeleteFailure(NamedTuple):
    """An object that DeleteObjects did not remove."""

    key: str  # empty: the store does not say
    code: str
    message: str


class Part(NamedTuple):
    """A part as a completion names it."""

    number: int
    etag: str  # as the store gave it
    size: int
    crc32c: int


def parse_listing(body: bytes, plus: str = "") -> Listing:
    """Read a page of ListObjectsV2, or of ListObjects; `plus` is what is known of plus signs.

    Raises
    ------
    ValueError
        It is not such a page, or one that others must follow and does not say how.
    """
    page = _core.s3_parse_objects(body, plus)
    return Listing([ObjectEntry(*entry) for entry in page[0]], *page[1:])


def parse_uploads(body: bytes, plus: str = "") -> Uploads:
    """Read a page of ListMultipartUploads; `plus` is what is known of plus signs.

    Raises
    ------
    ValueError
        It is not such a page, or one that others must follow and does not say how.
    """
    page = _core.s3_parse_uploads(body, plus)
    return Uploads([UploadEntry(*entry) for entry in page[0]], *page[1:])


def parse_delete_result(body: bytes) -> list[DeleteFailure]:
    """Read the answer of DeleteObjects: what was not removed.

    Raises
    ------
    ValueError
        It is not such an answer.
    """
    return [DeleteFailure(*failure) for failure in _core.s3_parse_delete_result(body)]


def bare_etag(text: str) -> str:
    """Return an etag without quotes, and without the mark by which a proxy makes it weak."""
    return text.strip().removeprefix("W/").strip('"')


def is_of_parts(etag: str) -> bool:
    """Whether a bare etag is that of an object of parts: it ends in their number."""
    return re.search(r"-[0-9]+\Z", etag) is not None


def crc_text(crc32c: int) -> str:
    """Return a CRC32C as S3 writes it: the base64 of four bytes, big-endian."""
    return base64.b64encode(crc32c.to_bytes(4, "big")).decode("ascii")
