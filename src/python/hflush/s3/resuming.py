"""Objects that are written on from a token: see :mod:`hflush.tokens`.

A token names a multipart upload and its parts. The bytes behind them, less than a part, are an
object of their own beside the one that is written: ``.NAME.<token of the upload>.<hex>.tail``. Each
token has its own, so that no other writer of the upload replaces it. The process that ends the
upload, by publishing or aborting it, removes its tails. From the first token on only an explicit
``abort()`` ends an upload that is not published.
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from .. import _core
from .answers import check, is_gone
from .commit import PendingCommit
from .documents import Part, crc_text

if TYPE_CHECKING:
    from ..tokens import Token
    from .bucket import Bucket, Head

__all__ = ["SavedUpload", "put_tail", "remove_tails", "tail_prefix"]

_log = logging.getLogger(__name__)

_MAX_NAME_BYTES = 180
_MAX_KEY_BYTES = 1024
_SUFFIX = ".tail"
_READ_BYTES = 1 << 20
# Of a tail's name, at most: tokens of earlier versions have a length for the random part.
_REST_BYTES = len(".." + 32 * "f" + "." + 19 * "9" + _SUFFIX)


_TYPES: dict[str, type] = {
    "upload_id": str,
    "token": str,
    "parts": list,
    "checksums": bool,
    "full_object_checksum": bool,
    "sizes": list,
    "tail_key": str,
    "tail_size": int,
    "tail_crc32c": int,
    "if_absent": bool,
    "if_match": str,
    "customer_key": str,
}


@dataclass(frozen=True)
class SavedUpload:
    """The state of a token: an upload, its parts, and where the bytes behind them are.

    Attributes
    ----------
    upload_id, token : str
        The store's name of the upload; what its object has in its metadata.
    parts : tuple of Part
        Whole ones, from 1 on.
    checksums, full_object_checksum : bool
        Whether the store keeps the CRC32C of each part, and of the whole.
    sizes : tuple of (int, bool, int)
        Of its parts: the bytes of the first, whether all are alike, how many there may be.
    tail_key : str
        The object with the bytes behind the parts; empty: there are none.
    tail_size, tail_crc32c : int
        Of these bytes.
    if_absent : bool
        The object is published only if the key is free.
    if_match : str
        Only if the object there has this etag; empty: any.
    customer_key : str
        Which key of SSE-C encrypts it (its MD5); empty without one.
    """

    upload_id: str
    token: str
    parts: tuple[Part, ...]
    checksums: bool
    full_object_checksum: bool
    sizes: tuple[int, bool, int]
    tail_key: str
    tail_size: int
    tail_crc32c: int
    if_absent: bool
    if_match: str
    customer_key: str

    @property
    def length(self) -> int:
        """Bytes of the object so far."""
        return sum(part.size for part in self.parts) + self.tail_size

    @property
    def crc32c(self) -> int:
        """Of these bytes."""
        crc32c = 0
        for part in self.parts:
            crc32c = _core.combine(crc32c, part.crc32c, part.size)
        return _core.combine(crc32c, self.tail_crc32c, self.tail_size)

    @property
    def composite_crc32c(self) -> str:
        """Of the sums of the parts, as S3 writes it."""
        sums = [part.crc32c for part in self.parts]
        if self.tail_size or not sums:
            sums.append(self.tail_crc32c)
        joined = b"".join(crc32c.to_bytes(4, "big") for crc32c in sums)
        return f"{crc_text(_core.crc32c(joined))}-{len(sums)}"

    def state(self) -> dict[str, Any]:
        """Return the fields as a token has them."""
        return {
            **asdict(self),
            "parts": [list(part) for part in self.parts],
            "sizes": list(self.sizes),
        }

    @classmethod
    def of(cls, token: Token, key: str, customer_key: str) -> SavedUpload:
        """Return the state of a token for this object, written with this key of SSE-C.

        Raises
        ------
        ValueError
            It is not whole; the object was written with another key.
        """
        token.check_state(_TYPES)
        state = dict(token.state)
        kinds = [int, str, int, int]
        if not all(isinstance(p, list) and [type(i) for i in p] == kinds for p in state["parts"]):
            raise ValueError("not a token of s3: its parts are not a list of parts")
        if [type(size) for size in state["sizes"]] != [int, bool, int]:
            raise ValueError("not a token of s3: it does not say how large its parts are")
        state["parts"] = tuple(Part(*part) for part in state["parts"])
        saved = cls(**{**state, "sizes": tuple(state["sizes"])})
        if saved.length != token.length:
            raise ValueError("not a token of s3: its parts do not add up to its length")
        if saved.tail_size and not saved.tail_key.startswith(tail_prefix(key, saved.token)):
            raise ValueError("not a token of s3: its tail is not beside its object")
        if saved.customer_key != customer_key:
            raise ValueError(f"{token!r} was written with another key of SSE-C")
        return saved

    # --- going on ---

    def tail(self, bucket: Bucket, token: Token) -> bytes | bytearray:
        """Return the bytes behind the parts.

        Raises
        ------
        StaleTokenError
            They are gone, or are not what they were.
        """
        if not self.tail_size:
            return b""
        path = "/" + self.tail_key
        seen = bucket.head(self.tail_key, path)
        if seen is None:
            raise token.stale(f"the object with its last bytes is gone, {bucket.name(path)}")
        if seen.size == self.tail_size:
            data = bucket.read_object(self.tail_key, path, seen)
            if _core.crc32c(data) == self.tail_crc32c:
                return data
        raise token.stale(f"the object with its last bytes is another, {bucket.name(path)}")

    def check_upload(self, bucket: Bucket, token: Token, key: str, path: str) -> None:
        """Refuse to go on with an upload that has ended.

        Raises
        ------
        StaleTokenError
            It was published, or aborted.
        """
        if bucket._sees_upload(key, self.upload_id, path) is False:
            raise token.stale(f"its upload {self.upload_id} has been published or aborted")

    def go_on(self, native: _core.S3ObjectOptions) -> None:
        """Let an object be written on behind the parts."""
        native.block_bytes, native.uniform_parts, native.max_parts = self.sizes
        native.go_on(
            self.upload_id,
            self.parts,
            token=self.token,
            checksums=self.checksums,
            full_object_checksum=self.full_object_checksum,
        )

    def is_published(self, bucket: Bucket, key: str, path: str) -> bool:
        """Whether the object at the key is this one, with these bytes.

        It is read where the store does not tell their sum.
        """
        seen = bucket.head(key, path, checksums=True)
        if seen is None or seen.headers.get(_core.S3_TOKEN_HEADER) != self.token:
            return False
        if seen.size != self.length:
            return False
        if seen.headers.get("x-amz-checksum-crc32c") == self.composite_crc32c:
            return True
        crc32c = seen.crc32c or crc_text(_sum_of(bucket, key, path, seen))
        return crc32c == crc_text(self.crc32c)

    def pending(self, bucket: Bucket, token: Token, key: str, path: str) -> PendingCommit | None:
        """Return what publishes these bytes, after the last of them is a part; None: it has ended.

        Raises
        ------
        StaleTokenError
            The bytes behind the parts are gone.
        """
        parts = list(self.parts)
        tail = self.tail(bucket, token)
        if tail or not parts:
            number = len(parts) + 1
            response = bucket.upload(key, path).upload_part(
                self.upload_id, number, tail, checksums=self.checksums
            )
            if is_gone(response):
                return None
            check(response)
            etag = response.headers["etag"].removeprefix("W/")
            parts.append(Part(number, etag, len(tail), _core.crc32c(tail)))
        return PendingCommit(
            bucket=bucket.settings.bucket,
            key=key,
            upload_id=self.upload_id,
            parts=tuple(parts),
            length=self.length,
            crc32c=self.crc32c,
            checksums=self.checksums,
            full_object_checksum=self.full_object_checksum,
            token=self.token,
            if_absent=self.if_absent,
            if_match=self.if_match,
            customer_key=self.customer_key,
        )


def _sum_of(bucket: Bucket, key: str, path: str, seen: Head) -> int:
    """Return the CRC32C of an object, which is read for it."""
    crc32c = at = 0
    buffer = memoryview(bytearray(_READ_BYTES))
    file = bucket.open(key, path, seen.size, seen.etag)
    try:
        while count := file.read_into(at, buffer):
            crc32c = _core.crc32c(buffer[:count], crc32c)
            at += count
    finally:
        file.close()
    return crc32c


# --- tails ----------------------------------------------------------------------------------------


def tail_prefix(key: str, token: str) -> str:
    """Return how the keys of an upload's tails begin: hidden names beside the object."""
    directory, slash, name = key.rpartition("/")
    used = len((directory + slash).encode("utf-8", "surrogateescape"))
    room = max(0, min(_MAX_NAME_BYTES, _MAX_KEY_BYTES - used - _REST_BYTES))
    while len(name.encode("utf-8", "surrogateescape")) > room:
        name = name[:-1]
    return f"{directory}{slash}.{name}.{token}."


def put_tail(bucket: Bucket, key: str, token: str, tail: bytes) -> str:
    """Store the last bytes, which are no part yet; return the key."""
    place = f"{tail_prefix(key, token)}{secrets.token_hex(8)}{_SUFFIX}"
    path = "/" + place
    response = bucket.upload(place, path, bucket.settings.headers_of_helpers).put_object(tail)
    check(response)
    bucket.check_encryption(response, "PutObject", path, if_told=True)
    return place


def remove_tails(bucket: Bucket, key: str, token: str) -> OSError | None:
    """Remove the tails of an upload that has ended; what keeps it from that is logged."""
    prefix = tail_prefix(key, token)
    path = "/" + prefix
    try:
        found = [entry.key for page in bucket.list_pages(prefix, path) for entry in page.objects]
        failures = bucket.delete_many(found, path) if found else []
    except OSError as refusal:
        failures = [(prefix, refusal)]
    for place, failure in failures:
        _log.warning(
            "an object that is not needed is left at %s: %s", bucket.name("/" + place), failure
        )
    return failures[0][1] if failures else None
