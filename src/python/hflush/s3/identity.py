"""Who a file system of S3 is, and which server it means, where it goes on in another process.

All is said under names of the bucket's own, so that those of others beside it in one configuration
are not mixed up; for all buckets, under general ones. Credentials are sent where
``hflush.pickle.secrets`` asks for that.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ..configuration import user_name
from .credentials import to_send
from .keys import HADOOP_PREFIX, KNOWN_KEYS, OWN_PREFIX, SENT_CREDENTIALS, SENT_SERVER
from .settings import USER, BucketConfiguration, endpoint_of, server_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..configuration import Configuration
    from .credentials import Source
    from .profile import FoundServer

__all__ = ["bucket_of", "caller", "caller_of_all", "foreign", "sent"]

_KEYS = (USER, SENT_SERVER, SENT_CREDENTIALS)


def caller(
    keys: BucketConfiguration,
    with_secrets: bool,
    user: str = "",
    found: FoundServer | None = None,
    source: Source | None = None,
) -> dict[str, str]:
    """Return the keys that say who sends a bucket, and where it is.

    `user`, `found` and `source` are what its file system has found, where there is one.
    """
    said = {USER: user or keys.text(USER) or user_name()}
    with suppress(ValueError):  # it has no server: an error where it is used
        found = found or server_of(keys, os.environ)
        endpoint_of(keys, found)  # which refuses one with a password
        said[SENT_SERVER] = found.to_text()
    if with_secrets:
        said[SENT_CREDENTIALS] = to_send(keys, source)
    return {_own(key, keys.bucket): text for key, text in said.items()}


def caller_of_all(conf: Configuration, with_secrets: bool) -> dict[str, str]:
    """Return the same for all buckets; for those with keys of their own, by theirs, too."""
    buckets = {bucket_of(key)[0] for key in conf}
    said: dict[str, str] = {}
    for bucket in sorted({"", *buckets}):
        said |= caller(BucketConfiguration(conf, bucket), with_secrets)
    return said


def foreign(said: Mapping[str, str], conf: Configuration) -> dict[str, str]:
    """Return the keys of a sender that this process would not have by itself."""
    conf = conf.copy()
    found: dict[str, str] = {}
    for bucket in sorted({bucket_of(key)[0] for key in said}):  # what holds for all comes first
        keys = BucketConfiguration(conf, bucket)
        own = _own(SENT_CREDENTIALS, bucket)
        here = caller(keys, bool(said.get(own) or keys.given(SENT_CREDENTIALS)))
        new = {
            key: said[key]
            for key in (_own(name, bucket) for name in _KEYS)
            if key in said and said[key] != here.get(key, "")
        }
        conf.update(new)
        found |= new
    return found


def sent(conf: Iterable[str]) -> set[str]:
    """Return the keys that may say who has sent a configuration."""
    return {key for key in conf if key.startswith(OWN_PREFIX) and bucket_of(key)[1] in _KEYS}


def bucket_of(key: str) -> tuple[str, str]:
    """Return the bucket that a key is for, empty if for all, and its name for all."""
    for prefix in (HADOOP_PREFIX, OWN_PREFIX):
        if key.startswith(f"{prefix}bucket."):
            # A bucket's name may have dots, too: the key's own is the longest that there is.
            parts = key[len(prefix) + len("bucket.") :].split(".")
            for start in range(1, len(parts)):
                name = prefix + ".".join(parts[start:])
                if name in KNOWN_KEYS:
                    return ".".join(parts[:start]), name
    return "", key


def _own(key: str, bucket: str) -> str:
    """Return the name of a key of hflush's own for one bucket."""
    return f"{OWN_PREFIX}bucket.{bucket}.{key.removeprefix(OWN_PREFIX)}" if bucket else key
