"""The options of create and open_file that S3 alone has."""

from __future__ import annotations

from ..options import (
    BYTES_PER_CHECKSUM,
    CHECKSUM_TYPE,
    CONDITIONAL_ETAG,
    CONDITIONAL_OVERWRITE,
    CONTENT_TYPE,
    CREATE_KEYS,
    IN_CLOSE,
    OPEN_KEYS,
)

__all__ = [
    "CREATE_KEYWORDS",
    "DELAYED",
    "HEADER",
    "INPUT_POLICY",
    "KEYS",
    "PERFORMANCE",
    "READAHEAD",
    "READ_KEYS",
    "STORAGE_CLASS",
]

PERFORMANCE = "fs.s3a.create.performance"
STORAGE_CLASS = "fs.s3a.create.storage.class"
DELAYED = "fs.s3a.create.delayed"
HEADER = "fs.s3a.create.header."

INPUT_POLICY = "fs.s3a.experimental.input.fadvise"
READAHEAD = "fs.s3a.readahead.range"

CREATE_KEYWORDS = {"storage_class": STORAGE_CLASS}
READ_KEYS = OPEN_KEYS | {INPUT_POLICY, READAHEAD, "fs.s3a.async.drain.threshold"}


class _CreateKeys(frozenset[str]):
    """The keys of create, those with a name of the user's at the end included."""

    __slots__ = ()

    def __contains__(self, key: object) -> bool:
        is_header = isinstance(key, str) and key.startswith(HEADER) and len(key) > len(HEADER)
        return is_header or super().__contains__(key)


KEYS = _CreateKeys(
    CREATE_KEYS - {CHECKSUM_TYPE, BYTES_PER_CHECKSUM}
    | {
        CONDITIONAL_OVERWRITE,
        CONDITIONAL_ETAG,
        IN_CLOSE,
        CONTENT_TYPE,
        PERFORMANCE,
        STORAGE_CLASS,
        DELAYED,
    }
)
