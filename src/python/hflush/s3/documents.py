"""What the documents of S3 hold, as values; the core reads them (``s3/call/documents.h``)."""

from __future__ import annotations

import base64
from typing import NamedTuple

from .. import _core

__all__ = [
    "DeleteFailure",
    "Listing",
    "ObjectEntry",
    "Part",
    "UploadEntry",
    "bare_etag",
    "crc_text",
    "parse_delete_result",
    "parse_listing",
    "parse_uploads",
]


class ObjectEntry(NamedTuple):
    """An object in a listing."""

    key: str
    size: int
    etag: str  # without quotes
    modified: int  # seconds since the epoch


class Listing(NamedTuple):
    """A page of ListObjectsV2."""

    objects: list[ObjectEntry]
    prefixes: list[str]
    next_token: str  # empty: the last page


class UploadEntry(NamedTuple):
    """A multipart upload that has not ended."""

    key: str
    upload_id: str
    initiated: float  # seconds since the epoch


class Uploads(NamedTuple):
    """A page of ListMultipartUploads."""

    uploads: list[UploadEntry]
    next_markers: tuple[str, str] | None  # key and upload id; None: the last page


class DeleteFailure(NamedTuple):
    """An object that DeleteObjects did not remove."""

    key: str
    code: str
    message: str


class Part(NamedTuple):
    """A part as a completion names it."""

    number: int
    etag: str  # as the store gave it
    size: int
    crc32c: int


def parse_listing(body: bytes) -> Listing:
    """Read a page of ListObjectsV2.

    Raises
    ------
    ValueError
        It is not such a page, or one that others must follow and does not say how.
    """
    objects, prefixes, next_token = _core.s3_parse_objects(body)
    return Listing([ObjectEntry(*entry) for entry in objects], prefixes, next_token)


def parse_uploads(body: bytes) -> Uploads:
    """Read a page of ListMultipartUploads.

    Raises
    ------
    ValueError
        It is not such a page, or one that others must follow and does not say how.
    """
    uploads, next_markers = _core.s3_parse_uploads(body)
    return Uploads([UploadEntry(*entry) for entry in uploads], next_markers)


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


def crc_text(crc32c: int) -> str:
    """Return a CRC32C as S3 writes it: the base64 of four bytes, big-endian."""
    return base64.b64encode(crc32c.to_bytes(4, "big")).decode("ascii")
