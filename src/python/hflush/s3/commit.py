"""Publications that were handed over: a stream was closed, its object is not there yet.

A :class:`PendingCommit` is everything that another process needs to publish the object or to drop
it: bytes that can be stored or sent, with no secret in them. Their holder owns the upload:
neither the stream nor its file system aborts it.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from .. import _core
from .documents import Part

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PendingCommit"]

_VERSION = 1
_HEX = re.compile(r"[0-9a-f]{1,64}")
_MAX_LENGTH = 1 << 63


@dataclass(frozen=True)
class PendingCommit:
    """A publication that :meth:`hflush.s3.S3FileSystem.complete_pending` makes.

    Attributes
    ----------
    bucket, key : str
        Where the object will be.
    upload_id : str
        The store's name of the upload.
    parts : tuple of Part
        ``(number, etag, size, crc32c)`` of each, from 1 on without gaps.
    length : int
        Bytes of the object.
    crc32c : int
        Of all of them.
    checksums, full_object_checksum : bool
        Whether the store keeps the CRC32C of each part, and of the whole.
    token : str
        In the metadata of the object, which identifies it.
    if_absent : bool
        The object is published only if the key is free.
    if_match : str
        Only if the object there has this etag; empty: any.
    customer_key : str
        Which key of SSE-C encrypts it (its MD5); empty without one.
    created : int
        When it was handed over: seconds since the epoch.

    Notes
    -----
    The fields are those of Hadoop's single pending commit, and what makes completing it twice
    harmless.
    """

    __module__ = "hflush.s3"

    bucket: str
    key: str
    upload_id: str
    parts: tuple[Part, ...]
    length: int
    crc32c: int
    checksums: bool
    full_object_checksum: bool
    token: str
    if_absent: bool = False
    if_match: str = ""
    customer_key: str = ""
    created: int = 0

    def __post_init__(self) -> None:
        reason = _reason_against(self)
        if reason:
            raise ValueError(f"not a pending commit: {reason}")

    @property
    def path(self) -> str:
        """The URL of the object."""
        return f"s3://{self.bucket}/{self.key}"

    def to_bytes(self) -> bytes:
        """Return it as JSON in ASCII."""
        document = {"version": _VERSION, **asdict(self), "parts": [list(p) for p in self.parts]}
        return json.dumps(document, separators=(",", ":")).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> PendingCommit:
        """Return the inverse of :meth:`to_bytes`.

        Raises
        ------
        TypeError, ValueError
            It is not bytes; it is not what :meth:`to_bytes` made, whole.
        """
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"a pending commit must be bytes, not {type(data).__name__}")
        try:
            document = json.loads(bytes(data))
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise ValueError("not a pending commit: not a JSON object")
        version = document.pop("version", None)
        if type(version) is not int or version != _VERSION:
            raise ValueError(f"not a pending commit of version {_VERSION}")
        return cls(**_checked(document))


def _checked(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a document; it has all of them and no others."""
    names = {field.name for field in fields(PendingCommit)}
    if set(document) != names:
        odd = ", ".join(sorted(set(document) ^ names))
        raise ValueError(f"not a pending commit: missing or unknown: {odd}")
    parts = document["parts"]
    if not isinstance(parts, list) or not all(
        isinstance(part, list) and [type(item) for item in part] == [int, str, int, int]
        for part in parts
    ):
        raise ValueError("not a pending commit: its parts are not a list of parts")
    return {**document, "parts": tuple(Part(*part) for part in parts)}


_TYPES: dict[str, type] = {"str": str, "int": int, "bool": bool}


def _reason_against(commit: PendingCommit) -> str:
    """Return why the fields cannot be those of a commit; empty if they can."""
    for field in fields(commit):
        wanted = _TYPES.get(str(field.type))
        if wanted is not None and type(getattr(commit, field.name)) is not wanted:
            return f"{field.name} is not of type {field.type}"
        if wanted is str and not _is_text(field.name, getattr(commit, field.name)):
            return f"{field.name} has invalid characters"
    if not (commit.bucket and commit.key and commit.upload_id):
        return "without bucket, key or upload id"
    if not _HEX.fullmatch(commit.token):
        return "without a token"
    if not 1 <= len(commit.parts) <= _core.S3_MAX_PARTS:
        return f"of {len(commit.parts)} parts"
    if [part.number for part in commit.parts] != list(range(1, len(commit.parts) + 1)):
        return "the parts are not numbered from 1 on without gaps"
    if not all(part.etag and _is_text("etag", part.etag) for part in commit.parts):
        return "a part without etag"
    if not all(part.size >= 0 for part in commit.parts) or commit.length >= _MAX_LENGTH:
        return "a size out of range"
    if sum(part.size for part in commit.parts) != commit.length:
        return "the parts do not add up to the length"
    if not all(0 <= crc < 1 << 32 for crc in (commit.crc32c, *(p.crc32c for p in commit.parts))):
        return "a checksum out of range"
    if commit.if_absent and commit.if_match:
        return "two conditions"
    return ""


def _is_text(name: str, text: str) -> bool:
    """Whether it can be sent: only keys may be what no UTF-8 is, as listings give them."""
    try:
        text.encode("utf-8", "surrogateescape" if name == "key" else "strict")
    except UnicodeEncodeError:
        return False
    return True
