"""The documents that S3 answers with, and those it is sent: XML, read without DTD and entities.

Elements are known by their local names: stores differ in the namespace, and some in the name of the
root. Keys are asked for and decoded as URLs (``encoding-type=url``), since XML cannot hold every
character that a key can. What cannot be understood is ValueError, never taken for an empty answer.
"""

from __future__ import annotations

import base64
import datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree
from xml.parsers import expat

if TYPE_CHECKING:
    from collections.abc import Iterable
    from xml.etree.ElementTree import Element

__all__ = [
    "DeleteFailure",
    "Listing",
    "ObjectEntry",
    "Part",
    "UploadEntry",
    "delete_document",
    "parse_delete_result",
    "parse_listing",
    "parse_upload_id",
    "parse_uploads",
]

_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_MAX_DEPTH = 20
_MAX_DIGITS = 18  # of a number that everybody can hold


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


# --- reading --------------------------------------------------------------------------------------


def _refuse(*_: object) -> None:
    raise ValueError("a document of S3 has no DTD")


def parse(body: bytes) -> Element:
    """Return the root of a document.

    Raises
    ------
    ValueError
        It is not well-formed XML, has a DTD, or is nested as no answer of S3 is.
    """
    builder = ElementTree.TreeBuilder()
    parser = expat.ParserCreate(namespace_separator="}")
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _MAX_DEPTH:
            raise ValueError("a document of S3 is not nested so deep")
        builder.start(_local(name), {_local(key): value for key, value in attributes.items()})

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(_local(name))

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    # Without these there is nothing that could be expanded.
    parser.StartDoctypeDeclHandler = _refuse
    parser.EntityDeclHandler = _refuse
    parser.buffer_text = True
    try:
        parser.Parse(body, True)
        return builder.close()
    except (expat.ExpatError, AssertionError, LookupError) as malformed:
        raise ValueError(f"not a document of S3: {malformed}") from None


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _rooted(body: bytes, *names: str) -> Element:
    root = parse(body)
    if root.tag not in names:
        raise ValueError(f"a document of S3 with the root {root.tag!r}, not {names[0]!r}")
    return root


def _text(element: Element, name: str, default: str | None = None) -> str:
    text = element.findtext(name, default)
    if text is None:
        raise ValueError(f"<{element.tag}> without <{name}>")
    return text


def _number(element: Element, name: str) -> int:
    text = _text(element, name).strip()
    if not (text.isascii() and text.isdecimal() and len(text.lstrip("0")) <= _MAX_DIGITS):
        raise ValueError(f"<{name}> is not a number: {text[:64]!r}")
    return int(text)


def _is_truncated(root: Element) -> bool:
    return _text(root, "IsTruncated", "false").strip().lower() == "true"


def _decoder(root: Element) -> _Decoder:
    return _Decoder(_text(root, "EncodingType", "").strip().lower() == "url")


class _Decoder:
    """Keys as they are, of a document that encodes them, or of a store that did not."""

    def __init__(self, encoded: bool) -> None:
        self._encoded = encoded

    def __call__(self, text: str) -> str:
        if not self._encoded:
            return text
        return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "surrogateescape")


def _seconds(text: str) -> float:
    try:
        moment = datetime.datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        # Python 3.10 takes three or six digits of a second only, stores give any number of them.
        moment = _without_fraction(text.strip())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.timezone.utc)
    return moment.timestamp()


def _without_fraction(text: str) -> datetime.datetime:
    head, _, _ = text.partition(".")
    try:
        return datetime.datetime.fromisoformat(head.rstrip("Z"))
    except ValueError:
        raise ValueError(f"not a time of S3: {text!r}") from None


def parse_listing(body: bytes) -> Listing:
    """Read a page of ListObjectsV2.

    Raises
    ------
    ValueError
        It is no such page, or one that others must follow and does not say how.
    """
    root = _rooted(body, "ListBucketResult", "ListObjectsV2Result")
    decoded = _decoder(root)
    objects = [
        ObjectEntry(
            decoded(_text(entry, "Key")),
            _number(entry, "Size"),
            bare_etag(_text(entry, "ETag", "")),
            int(_seconds(_text(entry, "LastModified"))),
        )
        for entry in root.iterfind("Contents")
    ]
    prefixes = [decoded(_text(entry, "Prefix")) for entry in root.iterfind("CommonPrefixes")]
    token = _text(root, "NextContinuationToken", "") if _is_truncated(root) else ""
    if _is_truncated(root) and not token:
        raise ValueError("a listing that goes on, without <NextContinuationToken>")
    return Listing(objects, prefixes, token)


def parse_uploads(body: bytes) -> Uploads:
    """Read a page of ListMultipartUploads.

    Raises
    ------
    ValueError
        It is no such page, or one that others must follow and does not say how.
    """
    root = _rooted(body, "ListMultipartUploadsResult")
    decoded = _decoder(root)
    uploads = [
        UploadEntry(
            decoded(_text(entry, "Key")),
            _text(entry, "UploadId"),
            _seconds(_text(entry, "Initiated")),
        )
        for entry in root.iterfind("Upload")
    ]
    if not _is_truncated(root):
        return Uploads(uploads, None)
    key = decoded(_text(root, "NextKeyMarker", ""))
    if not key:
        raise ValueError("a listing of uploads that goes on, without <NextKeyMarker>")
    return Uploads(uploads, (key, _text(root, "NextUploadIdMarker", "")))


def parse_upload_id(body: bytes) -> str:
    """Read the answer of CreateMultipartUpload.

    Raises
    ------
    ValueError
        There is no upload id in it.
    """
    upload_id = _text(_rooted(body, "InitiateMultipartUploadResult"), "UploadId").strip()
    if not upload_id:
        raise ValueError("an upload without an id")
    return upload_id


def parse_delete_result(body: bytes) -> list[DeleteFailure]:
    """Read the answer of DeleteObjects: what was not removed.

    Raises
    ------
    ValueError
        It is no such answer.
    """
    root = _rooted(body, "DeleteResult", "DeleteObjectsResult")
    return [
        DeleteFailure(
            _text(entry, "Key", ""), _text(entry, "Code", ""), _text(entry, "Message", "")
        )
        for entry in root.iterfind("Error")
    ]


def parse_etag(body: bytes, *roots: str) -> str:
    """Read the etag, without quotes, that a completion or a copy came to; empty if it tells none.

    Raises
    ------
    ValueError
        It is no such answer.
    """
    return bare_etag(_text(_rooted(body, *roots), "ETag", ""))


def bare_etag(text: str) -> str:
    """Return an etag without quotes, and without the mark by which a proxy makes it weak."""
    return text.strip().removeprefix("W/").strip('"')


# --- writing --------------------------------------------------------------------------------------


def _escaped(text: str) -> str:
    """Return text as XML: what XML cannot hold becomes a reference all the same, as S3 takes it."""
    pieces = []
    for character in text:
        if character in "&<>\"'" or character < " ":
            pieces.append(f"&#x{ord(character):X};")
        else:
            pieces.append(character)
    return "".join(pieces)


def delete_document(keys: Iterable[str]) -> bytes:
    """Return what DeleteObjects is sent: the answer names only what was not removed."""
    objects = "".join(f"<Object><Key>{_escaped(key)}</Key></Object>" for key in keys)
    text = f'<Delete xmlns="{_NAMESPACE}"><Quiet>true</Quiet>{objects}</Delete>'
    return text.encode("utf-8", "surrogateescape")


def crc_text(crc32c: int) -> str:
    """Return a CRC32C as S3 writes it: the base64 of four bytes, big-endian."""
    return base64.b64encode(crc32c.to_bytes(4, "big")).decode("ascii")
