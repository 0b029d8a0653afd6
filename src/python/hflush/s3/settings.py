"""Settings of S3: which keys of Hadoop are honoured, what they default to, what they come to.

``fs.s3a.bucket.NAME.x`` is ``fs.s3a.x`` of the bucket NAME alone, and ``hflush.s3.bucket.NAME.x``
likewise. :data:`KEYS` is the table that docs/s3-client.md shows; tools/s3_keys.py writes it there.
Nothing is asked of a network here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import os
import platform
import re
from dataclasses import dataclass
from functools import cached_property
from io import UnsupportedOperation
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from .. import _core
from ..configuration import Configuration
from .documents import crc_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TypeAlias

    Headers: TypeAlias = list[tuple[str, str]]

__all__ = ["KEYS", "BucketConfiguration", "Endpoint", "Key", "Settings"]

MIN_PART = 5 << 20
MAX_PART = 5 << 30
MAX_PARTS = 10_000
MAX_OBJECT = 5 << 40
MAX_COPY = 5 << 30
MAX_PAGE = 1000
MAX_METADATA = 2048

_MEMORY_TOTAL = "hflush.s3.memory.total"

HADOOP_PREFIX = "fs.s3a."
OWN_PREFIX = "hflush.s3."
ENCRYPTION_PREFIX = "x-amz-server-side-encryption"


class Key(NamedTuple):
    """One key: what a value of it looks like, what it is unless set, what it does."""

    section: str
    name: str
    kind: str
    default: str
    effect: str


_ENDPOINT = "Endpoint and connections"
_CREDENTIALS = "Credentials"
_RETRIES = "Retries"
_WRITING = "Writing"
_OBJECTS = "Objects that are written"
_READING = "Reading and listing"
_NAMES = "Name space"

# A time is a number with a unit (500ms, 5s, 2m); without one it counts milliseconds. A size takes
# binary prefixes (64M).
KEYS = (
    Key(_ENDPOINT, "fs.s3a.endpoint", "host, host:port or URL", "",
        "the server; else `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, else AWS in the region"),
    Key(_ENDPOINT, "fs.s3a.endpoint.region", "name", "",
        "the region that requests are signed for; else that of an endpoint of AWS, `AWS_REGION`, "
        "`AWS_DEFAULT_REGION`, the profile's, `us-east-1`; corrected by what the server answers"),
    Key(_ENDPOINT, "fs.s3a.endpoint.fips", "bool", "false",
        "AWS's servers for FIPS; refused together with an endpoint"),
    Key(_ENDPOINT, "fs.s3a.cross.region.access.enabled", "bool", "true",
        "a bucket of another region is asked there; false: that is an error"),
    Key(_ENDPOINT, "fs.s3a.accesspoint.arn", "name", "",
        "refused: the alias of an access point is a bucket's name, s3://ALIAS/…"),
    Key(_ENDPOINT, "fs.s3a.accesspoint.required", "bool", "false",
        "refused if true, as long as the bucket is not an access point's alias (`….-s3alias`)"),
    Key(_ENDPOINT, "fs.s3a.signing-algorithm", "name", "",
        "refused but for `AWSS3V4SignerType`, and so is `fs.s3a.s3.signing-algorithm`"),
    Key(_ENDPOINT, "fs.s3a.custom.signers", "classes", "", "refused"),
    Key(_ENDPOINT, "fs.s3a.path.style.access", "true, false, auto", "auto",
        "the bucket in the path and not in the host name; auto: unless the server is AWS"),
    Key(_ENDPOINT, "fs.s3a.connection.ssl.enabled", "bool", "true",
        "HTTPS, where the endpoint names no scheme"),
    Key(_ENDPOINT, "hflush.s3.ssl.verify", "bool", "true", "the server's certificate is checked"),
    Key(_ENDPOINT, "hflush.s3.ssl.ca.file", "file", "",
        "certificates of authorities, in PEM; else `AWS_CA_BUNDLE`, else the system's"),
    Key(_ENDPOINT, "fs.s3a.proxy.host", "host", "",
        "a proxy; else `HTTPS_PROXY`, `http_proxy` and `NO_PROXY` of the environment"),
    Key(_ENDPOINT, "fs.s3a.proxy.port", "number", "", "its port; 443 or 80 unless set"),
    Key(_ENDPOINT, "fs.s3a.proxy.ssl.enabled", "bool", "false", "HTTPS to the proxy"),
    Key(_ENDPOINT, "fs.s3a.proxy.username", "name", "", "who we are to the proxy"),
    Key(_ENDPOINT, "fs.s3a.proxy.password", "secret", "", "with which password"),
    Key(_ENDPOINT, "hflush.s3.proxy.exceptions", "hosts", "",
        "separated by commas: not through the proxy; `*`: no proxy at all"),
    Key(_ENDPOINT, "fs.s3a.connection.maximum", "number", "64",
        "connections at once; more requests wait"),
    Key(_ENDPOINT, "fs.s3a.connection.establish.timeout", "time", "10s", "to connect"),
    Key(_ENDPOINT, "fs.s3a.connection.timeout", "time", "60s",
        "without a byte in either direction, a request has failed"),
    Key(_ENDPOINT, "hflush.s3.complete.timeout", "time", "",
        "the same of CompleteMultipartUpload; unless set: that of other requests. A server that "
        "takes longer to assemble an object, and sends no blanks meanwhile, needs more"),
    Key(_ENDPOINT, "hflush.s3.copy.timeout", "time", "10m",
        "the same of copies within the store, which many make in silence"),
    Key(_ENDPOINT, "fs.s3a.connection.request.timeout", "time", "0",
        "of an attempt in all, also while bytes come; 0: none. Not of what is downloaded, nor of "
        "parts and objects that are uploaded"),
    Key(_ENDPOINT, "fs.s3a.connection.part.upload.timeout", "time", "0",
        "the same of parts and objects that are uploaded"),
    Key(_ENDPOINT, "fs.s3a.connection.idle.time", "time", "60s",
        "an older idle connection is not used again"),
    Key(_ENDPOINT, "fs.s3a.connection.expect.continue", "bool", "true",
        "large bodies wait up to 200 ms for the server's consent"),
    Key(_ENDPOINT, "fs.s3a.user.agent.prefix", "text", "", "before ours in `User-Agent`"),
    Key(_ENDPOINT, "hflush.s3.payload.signing", "auto, always, never", "auto",
        "bodies are part of the signature; auto: unless TLS or loopback protects them"),
    Key(_CREDENTIALS, "fs.s3a.access.key", "secret", "", "with `fs.s3a.secret.key`"),
    Key(_CREDENTIALS, "fs.s3a.secret.key", "secret", "", "the other half of it"),
    Key(_CREDENTIALS, "fs.s3a.session.token", "secret", "", "of temporary credentials"),
    Key(_CREDENTIALS, "fs.s3a.aws.credentials.provider", "classes", "",
        "where credentials come from, tried in order; unless set: the three keys above, "
        "`AWS_ACCESS_KEY_ID` and its kin, then all that botocore knows"),
    Key(_CREDENTIALS, "fs.s3a.auth.profile.name", "name", "",
        "the profile that ProfileAWSCredentialsProvider takes; unless set: `AWS_PROFILE`'s"),
    Key(_CREDENTIALS, "fs.s3a.security.credential.provider.path", "URLs", "",
        "key stores of Java are not read: refused where they would be needed, as is "
        "`hadoop.security.credential.provider.path`"),
    Key(_CREDENTIALS, "fs.s3a.assumed.role.arn", "name", "",
        "refused: a profile with `role_arn` assumes a role"),
    Key(_CREDENTIALS, "fs.s3a.delegation.token.binding", "class", "", "refused"),
    Key(_CREDENTIALS, "hflush.s3.credentials.wait", "time", "30s",
        "how long a request waits for newer credentials where its own have expired"),
    Key(_CREDENTIALS, "hflush.s3.pickle.secrets", "bool", "false",
        "pickled file systems carry keys that are secret, too"),
    Key(_RETRIES, "fs.s3a.retry.limit", "number", "7", "retries after the first attempt"),
    Key(_RETRIES, "fs.s3a.attempts.maximum", "number", "",
        "attempts, the first included, where `fs.s3a.retry.limit` is not set"),
    Key(_RETRIES, "fs.s3a.retry.interval", "time", "500ms",
        "the base of a random, exponential pause"),
    Key(_RETRIES, "fs.s3a.retry.throttle.limit", "number", "20", "the same, when throttled"),
    Key(_RETRIES, "fs.s3a.retry.throttle.interval", "time", "500ms", "the same, when throttled"),
    Key(_RETRIES, "fs.s3a.retry.http.5xx.errors", "bool", "true",
        "server errors other than 503 are tried again"),
    Key(_RETRIES, "hflush.s3.retry.deadline", "time", "3m", "of all attempts of a request"),
    Key(_WRITING, "fs.s3a.multipart.size", "size", "8M",
        "the first parts; later ones grow so that 5 TiB fit; 5M at least"),
    Key(_WRITING, "hflush.s3.multipart.uniform", "bool", "false",
        "all parts but the last have that size, as some stores want it"),
    Key(_WRITING, "hflush.s3.multipart.parts", "number", "10000",
        "how many parts the store takes"),
    Key(_WRITING, "fs.s3a.multipart.threshold", "size", "5G",
        "larger objects are copied in parts; 5G at most"),
    Key(_WRITING, "fs.s3a.fast.upload.buffer", "disk, array, bytebuffer, adaptive", "adaptive",
        "where blocks wait; adaptive: in memory, and on disk where its budget is too small"),
    Key(_WRITING, "fs.s3a.fast.upload.active.blocks", "number", "4",
        "blocks of a stream that are under way or wait; then `write` waits"),
    Key(_WRITING, "hflush.s3.memory", "size", "0",
        "of a stream's blocks in memory; 0: as many blocks as above"),
    Key(_WRITING, "hflush.s3.memory.total", "size", "",
        "of all streams and readers of the process, beyond what each needs to go on; else 512M, or "
        "an eighth of the machine's; of several values the least holds"),
    Key(_WRITING, "fs.s3a.buffer.dir", "directories", "",
        "of blocks on disk: the first is used; else the system's for temporary files"),
    Key(_WRITING, "fs.s3a.threads.max", "number", "16",
        "uploads of parts and objects at once, of all streams of a file system"),
    Key(_WRITING, "fs.s3a.request.md5.header", "bool", "false",
        "`Content-MD5` with each part and object"),
    Key(_WRITING, "fs.s3a.create.checksum.algorithm", "CRC32C, NONE", "CRC32C",
        "sent with each part and object where the store knows it"),
    Key(_WRITING, "fs.s3a.create.performance", "bool", "false",
        "create does not look for directories and files in its way"),
    Key(_WRITING, "hflush.s3.create.remember", "time", "60s",
        "for how long create does not ask again whether a directory on the way is a file; "
        "0: it always asks"),
    Key(_WRITING, "fs.s3a.performance.flags", "create, delete, mkdir, *", "",
        "which operations leave out what keeps a tree of directories consistent"),
    Key(_WRITING, "fs.s3a.create.conditional.enabled", "true, false, auto", "auto",
        "conditional requests: overwrite=False and an etag are checked by the store when the "
        "object is published; auto: tried out once for each server and bucket"),
    Key(_WRITING, "fs.s3a.downgrade.syncable.exceptions", "bool", "false",
        "hflush and hsync are counted and do nothing; they raise otherwise"),
    Key(_OBJECTS, "fs.s3a.encryption.algorithm", "AES256, SSE-KMS, DSSE-KMS, SSE-C", "",
        "encryption by the store; `fs.s3a.server-side-encryption-algorithm` is the older name"),
    Key(_OBJECTS, "fs.s3a.encryption.key", "secret", "",
        "the id of a KMS key, or the base64 of the 32 bytes of SSE-C; "
        "`fs.s3a.server-side-encryption.key` is the older name"),
    Key(_OBJECTS, "fs.s3a.encryption.context", "key=value, …", "", "for KMS"),
    Key(_OBJECTS, "fs.s3a.encryption.cse.kms.region", "name", "",
        "refused, and so are the other keys of client-side encryption, `fs.s3a.encryption.cse.*`"),
    Key(_OBJECTS, "hflush.s3.encryption.verify", "bool", "true",
        "what the store answers about encryption is compared with what was asked for, before "
        "anything is published; a difference is an error"),
    Key(_OBJECTS, "fs.s3a.acl.default", "name", "",
        "a canned ACL: `BucketOwnerFullControl`, `public-read`, …"),
    Key(_OBJECTS, "fs.s3a.create.storage.class", "name", "", "`standard_ia`, `glacier_ir`, …"),
    Key(_OBJECTS, "fs.s3a.object.content.encoding", "name", "", "`Content-Encoding`"),
    Key(_OBJECTS, "fs.s3a.requester.pays.enabled", "bool", "false",
        "we pay for requests to the bucket of somebody else"),
    Key(_READING, "fs.s3a.readahead.range", "size", "1M",
        "a step forward so far is read over; beyond, another request begins"),
    Key(_READING, "hflush.s3.read.window", "size", "4M", "how far sequential reads are ahead"),
    Key(_READING, "fs.s3a.experimental.input.fadvise", "policy", "default",
        "how files are read unless open says so: `sequential`, `random`, …"),
    Key(_READING, "fs.s3a.paging.maximum", "number", "1000", "entries of a page of a listing"),
    Key(_NAMES, "fs.s3a.block.size", "size", "32M", "reported: objects have no blocks"),
    Key(_NAMES, "fs.s3a.multiobjectdelete.enable", "bool", "true",
        "many objects are removed by one request"),
    Key(_NAMES, "fs.s3a.bulk.delete.page.size", "number", "1000", "by one request, at most"),
    Key(_NAMES, "fs.s3a.executor.capacity", "number", "16",
        "objects that a rename or a copy copies at once"),
)  # fmt: skip

_DEFAULTS = {key.name: key.default for key in KEYS if key.default}

OLD_NAMES = {
    "fs.s3a.server-side-encryption-algorithm": "fs.s3a.encryption.algorithm",
    "fs.s3a.server-side-encryption.key": "fs.s3a.encryption.key",
}
_KEY_STORES = (
    "fs.s3a.security.credential.provider.path",
    "hadoop.security.credential.provider.path",
)
# All that mean something; one that ends in a dot goes on with a name.
KNOWN_KEYS = frozenset(
    (*(key.name for key in KEYS), *OLD_NAMES, *_KEY_STORES, "fs.s3a.create.header.")
)
# What decides where or how safely data go, and is not honoured; what to do instead.
_ALIAS = "name the access point by its alias, s3://ALIAS/…"
_SIGNER = "requests are signed by version 4 alone"
_REFUSED = {
    "fs.s3a.accesspoint.arn": _ALIAS,
    "fs.s3a.accesspoint.required": _ALIAS,
    "fs.s3a.assumed.role.arn": "use a profile with role_arn, which botocore assumes",
    "fs.s3a.custom.signers": _SIGNER,
    "fs.s3a.delegation.token.binding": "configure credentials themselves",
    "fs.s3a.encryption.cse.kms.region": "client-side encryption is not there: data would be sent "
    "unencrypted",
    "fs.s3a.s3.signing-algorithm": _SIGNER,
    "fs.s3a.signing-algorithm": _SIGNER,
}
_HARMLESS = {
    "fs.s3a.accesspoint.required": ("false",),
    "fs.s3a.s3.signing-algorithm": ("awss3v4signertype",),
    "fs.s3a.signing-algorithm": ("awss3v4signertype",),
}
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_AWS_HOST = re.compile(r"s3[.-](?:dualstack\.)?([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")
_AWS_SUFFIXES = (".amazonaws.com", ".amazonaws.com.cn")
_BUFFERING = {
    "disk": "disk",
    "array": "memory",
    "bytebuffer": "memory",
    "memory": "memory",
    "adaptive": "adaptive",
}
_ACLS = {
    name.replace("-", ""): name
    for name in (
        "private",
        "public-read",
        "public-read-write",
        "authenticated-read",
        "aws-exec-read",
        "bucket-owner-read",
        "bucket-owner-full-control",
        "log-delivery-write",
    )
}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")


class BucketConfiguration:
    """The keys of one bucket: its own before the general ones before the defaults.

    Raises
    ------
    ValueError
        From each method: a value is malformed or out of range; the message names the key.
    """

    def __init__(self, conf: Configuration, bucket: str) -> None:
        self._conf = Configuration(load_defaults=False)
        self._conf.update(_DEFAULTS)
        given = dict(conf.raw_items())
        for old, new in OLD_NAMES.items():
            if old in given:
                given.setdefault(new, given[old])
        self._conf.update(given)
        for prefix in (HADOOP_PREFIX, OWN_PREFIX):
            own = f"{prefix}bucket.{bucket}."
            for key, value in list(given.items()):
                if key.startswith(own):
                    name = prefix + key[len(own) :]
                    self._conf[OLD_NAMES.get(name, name)] = value
                    given[OLD_NAMES.get(name, name)] = value
        self._given = frozenset(given)

    def is_given(self, key: str) -> bool:
        """Whether a value was set, be it that of the default."""
        return key in self._given

    def text(self, key: str) -> str:
        """Return a value without the blanks around it; empty if it is not set."""
        return self._conf.get(key, "").strip()

    def names(self, key: str) -> list[str]:
        """Return what commas, blanks and line ends separate."""
        return [name for name in re.split(r"[\s,]+", self.text(key)) if name]

    def flag(self, key: str) -> bool:
        """Return true or false."""
        return self._conf.get_bool(key)

    def choice(self, key: str, allowed: Iterable[str]) -> str:
        """Return one of some words, in lower case."""
        word, words = self.text(key).lower(), tuple(allowed)
        if word not in words:
            raise ValueError(f"{key} must be one of {', '.join(words)}, not {word!r}")
        return word

    def number(self, key: str, low: int, high: int = (1 << 31) - 1) -> int:
        """Return a whole number within limits."""
        return _within(key, self._conf.get_int(key), low, high)

    def size(self, key: str, low: int, high: int = MAX_OBJECT) -> int:
        """Return a number of bytes within limits."""
        return _within(key, self._conf.get_long_bytes(key), low, high)

    def seconds(self, key: str) -> float:
        """Return a time, above 0."""
        time = self._conf.get_time(key)
        if not 0 < time < 10**9:
            raise ValueError(f"{key} must be a time above 0, not {self.text(key)!r}")
        return time

    def timeout(self, key: str) -> float:
        """Return a time, infinite for 0."""
        return self.seconds(key) if self._conf.get_time(key) else math.inf

    def duration(self, key: str) -> float:
        """Return a time that may be 0."""
        return self.seconds(key) if self._conf.get_time(key) else 0.0

    def key_store(self) -> str:
        """Return the key that names key stores of Java, empty if none does."""
        return next((key for key in _KEY_STORES if self.text(key)), "")


def _within(key: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise ValueError(f"{key} must be from {low} to {high}, not {value}")
    return value


class Endpoint(NamedTuple):
    """A server. An empty host is AWS in whatever region it will be."""

    scheme: str
    host: str
    port: int  # 0: the scheme's own

    @property
    def is_aws(self) -> bool:
        """Whether it belongs to AWS."""
        return not self.host or self.host.endswith(_AWS_SUFFIXES)

    @property
    def region(self) -> str:
        """The region that the name of a host of AWS tells; empty if it tells none."""
        match = _AWS_HOST.fullmatch(self.host)
        return match[1] if match else ""

    @classmethod
    def parse(cls, text: str, uses_tls: bool) -> Endpoint:
        """Return what an endpoint means, as ``host``, ``host:port`` or a URL.

        Raises
        ------
        ValueError
            It is no server.
        """
        if not text:
            return cls("https" if uses_tls else "http", "", 0)
        default = "https" if uses_tls else "http"
        try:
            parts = urlsplit(text if "://" in text else f"{default}://{text}")
            host, port = parts.hostname or "", parts.port or 0
        except ValueError:
            host, port = "", 0
        bad = (
            not host
            or parts.scheme not in ("http", "https")
            or parts.path not in ("", "/")
            or parts.query
            or parts.fragment
            or parts.username is not None
        )
        if bad:  # not shown: people put passwords there
            raise ValueError(
                "the endpoint of S3 must be host, host:port, http://host:port or "
                "https://host:port, without user, path and query"
            )
        return cls(parts.scheme, host, port)


def endpoint_of(keys: BucketConfiguration, environment: Mapping[str, str]) -> Endpoint:
    """Return the server that configuration and environment name."""
    text = keys.text("fs.s3a.endpoint")
    ignored = environment.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true"
    if not text and not ignored:
        names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        text = next((environment[name] for name in names if environment.get(name)), "")
    endpoint = Endpoint.parse(text, keys.flag("fs.s3a.connection.ssl.enabled"))
    # The name without a region is Hadoop's way to say that there is none.
    return endpoint._replace(host="") if endpoint.host == "s3.amazonaws.com" else endpoint


@dataclass(frozen=True, repr=False)
class Settings:
    """What the keys of a bucket come to. Holds secrets: has no repr that shows them."""

    bucket: str
    keys: BucketConfiguration
    endpoint: Endpoint
    region: str  # empty: not said; a profile may
    uses_fips: bool
    path_style: bool
    headers: Headers  # of every object that is written
    sse_c: Headers
    extra_headers: Headers  # of every request
    page: int
    delete_page: int
    copy_threads: int
    copy_threshold: int
    block_size: int
    part_size: int
    active_blocks: int
    max_parts: int
    memory: int
    memory_total: int | None
    uniform: bool
    buffering: str
    buffer_directory: str
    readahead: int
    window: int
    read_policy: str
    conditional: str  # "true", "false", "auto"
    downgrades: bool
    performance: frozenset[str]
    remember: float
    pickles_secrets: bool
    complete_timeout: float
    copy_timeout: float
    verifies_encryption: bool
    native: _core.S3Settings

    @classmethod
    def read(
        cls, conf: Configuration, bucket: str, environment: Mapping[str, str] | None = None
    ) -> Settings:
        """Return what a configuration says about a bucket.

        Raises
        ------
        ValueError
            A name or a value is malformed.
        """
        check_bucket(bucket)
        refuse_unsupported(conf, bucket)
        env = os.environ if environment is None else environment
        keys = BucketConfiguration(conf, bucket)
        endpoint = endpoint_of(keys, env)
        uses_fips = keys.flag("fs.s3a.endpoint.fips")
        if uses_fips and endpoint.host:
            raise ValueError(
                "fs.s3a.endpoint.fips chooses AWS's own servers: it does not go with the "
                f"endpoint {endpoint.host}"
            )
        region = keys.text("fs.s3a.endpoint.region") or endpoint.region
        region = region or env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or ""
        style = keys.choice("fs.s3a.path.style.access", ("true", "false", "auto"))
        dotted = "." in bucket and endpoint.scheme == "https"  # no certificate has such names
        path_style = style == "true" or (style == "auto" and (not endpoint.is_aws or dotted))
        part_size = keys.size("fs.s3a.multipart.size", MIN_PART, MAX_PART)
        directories = keys.names("fs.s3a.buffer.dir")
        return cls(
            bucket=bucket,
            keys=keys,
            endpoint=endpoint,
            region=region,
            uses_fips=uses_fips,
            path_style=path_style,
            headers=object_headers(keys),
            sse_c=customer_key_headers(keys, endpoint.scheme),
            extra_headers=(
                [("x-amz-request-payer", "requester")]
                if keys.flag("fs.s3a.requester.pays.enabled")
                else []
            ),
            page=min(keys.number("fs.s3a.paging.maximum", 1), MAX_PAGE),
            delete_page=_delete_page(keys),
            copy_threads=keys.number("fs.s3a.executor.capacity", 1, 1000),
            copy_threshold=keys.size("fs.s3a.multipart.threshold", MIN_PART, MAX_COPY),
            block_size=keys.size("fs.s3a.block.size", 1),
            part_size=part_size,
            active_blocks=keys.number("fs.s3a.fast.upload.active.blocks", 1, 1000),
            max_parts=keys.number("hflush.s3.multipart.parts", 1, MAX_PARTS),
            memory=keys.size("hflush.s3.memory", 0),
            memory_total=(
                keys.size(_MEMORY_TOTAL, 1, 1 << 62) if keys.text(_MEMORY_TOTAL) else None
            ),
            uniform=keys.flag("hflush.s3.multipart.uniform"),
            buffering=_BUFFERING[keys.choice("fs.s3a.fast.upload.buffer", _BUFFERING)],
            buffer_directory=directories[0] if directories else "",
            readahead=keys.size("fs.s3a.readahead.range", 0),
            window=keys.size("hflush.s3.read.window", 0),
            read_policy=keys.text("fs.s3a.experimental.input.fadvise").lower(),
            conditional=keys.choice("fs.s3a.create.conditional.enabled", ("true", "false", "auto")),
            downgrades=keys.flag("fs.s3a.downgrade.syncable.exceptions"),
            performance=_performance(keys),
            remember=keys.duration("hflush.s3.create.remember"),
            pickles_secrets=keys.flag("hflush.s3.pickle.secrets"),
            complete_timeout=_complete_timeout(keys),
            copy_timeout=keys.seconds("hflush.s3.copy.timeout"),
            verifies_encryption=keys.flag("hflush.s3.encryption.verify"),
            native=_native(keys, endpoint, path_style, env),
        )

    @cached_property
    def encryption(self) -> Headers:
        """The headers that ask for encryption and are to be answered; none if that is not checked.

        What KMS gets as context is not answered.
        """
        asked = [*self.headers, *self.sse_c] if self.verifies_encryption else []
        return [header for header in asked if header[0].startswith(ENCRYPTION_PREFIX)]

    @cached_property
    def customer_key(self) -> str:
        """What tells its key of SSE-C from another and is no secret; empty without one."""
        return customer_key_id(self.sse_c)

    def connected_to(self, region: str) -> _core.S3Settings:
        """Return what the client is told, where this region is used unless another was said."""
        self.native.region = self.region or region or "us-east-1"
        if not self.endpoint.host:
            suffix = ".cn" if self.native.region.startswith("cn-") else ""
            service = "s3-fips" if self.uses_fips else "s3"
            self.native.host = f"{service}.{self.native.region}.amazonaws.com{suffix}"
        return self.native


def refuse_unsupported(conf: Configuration, bucket: str) -> None:
    """Refuse what would send data elsewhere, or less safely, than Hadoop does.

    Raises
    ------
    ValueError
        A key is set that decides where or how safely data go, and is not honoured here.
    """
    own = f"{HADOOP_PREFIX}bucket.{bucket}."
    given = {key: value.strip() for key, value in conf.raw_items() if value.strip()}
    overridden = {HADOOP_PREFIX + key[len(own) :] for key in given if key.startswith(own)}
    for key, value in given.items():
        name = HADOOP_PREFIX + key[len(own) :] if key.startswith(own) else key
        if name == key and key in overridden:
            continue
        is_cse = name.startswith("fs.s3a.encryption.cse.") and value.lower() != "false"
        advice = _REFUSED.get("fs.s3a.encryption.cse.kms.region" if is_cse else name)
        if advice is None or value.lower() in _HARMLESS.get(name, ()):
            continue
        if name == "fs.s3a.accesspoint.required" and bucket.endswith("-s3alias"):
            continue
        raise ValueError(f"{key} is not supported: {advice}")


def check_bucket(bucket: str) -> None:
    """Refuse what is not a bucket name.

    Raises
    ------
    ValueError
        It is none. What was given is shown only where no secret can be in it.
    """
    if not bucket:
        raise ValueError("an S3 URL must name a bucket, as s3://bucket/key does")
    if "@" in bucket or ":" in bucket:
        raise ValueError(
            "an S3 URL names a bucket alone: credentials go into fs.s3a.access.key and its kin, a "
            "server into fs.s3a.endpoint"
        )
    if not _BUCKET.fullmatch(bucket) or len(bucket) > 255:
        raise ValueError(f"{bucket!r} is not a bucket name")


def _native(
    keys: BucketConfiguration, endpoint: Endpoint, path_style: bool, env: Mapping[str, str]
) -> _core.S3Settings:
    settings = _core.S3Settings()
    settings.scheme, settings.host, settings.port = endpoint
    settings.path_style = path_style
    settings.follows_regions = keys.flag("fs.s3a.cross.region.access.enabled")
    settings.payload_signing = keys.choice("hflush.s3.payload.signing", ("auto", "always", "never"))
    settings.content_md5 = keys.flag("fs.s3a.request.md5.header")
    algorithm = keys.choice("fs.s3a.create.checksum.algorithm", ("crc32c", "none"))
    settings.checksums = algorithm == "crc32c"
    settings.expect_continue = keys.flag("fs.s3a.connection.expect.continue")
    settings.max_uploads = keys.number("fs.s3a.threads.max", 1, 10_000)
    settings.max_connections = keys.number("fs.s3a.connection.maximum", 1, 10_000)
    settings.connect_timeout = keys.seconds("fs.s3a.connection.establish.timeout")
    settings.stall_timeout = keys.seconds("fs.s3a.connection.timeout")
    settings.complete_timeout = _complete_timeout(keys)
    settings.request_timeout = keys.timeout("fs.s3a.connection.request.timeout")
    settings.upload_timeout = keys.timeout("fs.s3a.connection.part.upload.timeout")
    settings.idle_timeout = keys.seconds("fs.s3a.connection.idle.time")
    settings.retry_limit = _retry_limit(keys)
    settings.retry_interval = keys.seconds("fs.s3a.retry.interval")
    settings.retry_throttle_limit = keys.number("fs.s3a.retry.throttle.limit", 0, 1000)
    settings.retry_throttle_interval = keys.seconds("fs.s3a.retry.throttle.interval")
    settings.retry_deadline = keys.seconds("hflush.s3.retry.deadline")
    settings.retry_5xx = keys.flag("fs.s3a.retry.http.5xx.errors")
    settings.credentials_wait = keys.seconds("hflush.s3.credentials.wait")
    settings.verify_peer = keys.flag("hflush.s3.ssl.verify")
    settings.ca_file = keys.text("hflush.s3.ssl.ca.file") or env.get("AWS_CA_BUNDLE", "")
    settings.proxy = _proxy(keys)
    settings.proxy_user = keys.text("fs.s3a.proxy.username")
    settings.proxy_password = keys.text("fs.s3a.proxy.password")
    settings.no_proxy = ",".join(keys.names("hflush.s3.proxy.exceptions"))
    settings.user_agent = _user_agent(keys)
    return settings


def _complete_timeout(keys: BucketConfiguration) -> float:
    own = "hflush.s3.complete.timeout"
    return keys.seconds(own if keys.text(own) else "fs.s3a.connection.timeout")


def _retry_limit(keys: BucketConfiguration) -> int:
    # Hadoop's SDK counts attempts below what Hadoop itself repeats: here one layer does both.
    attempts = "fs.s3a.attempts.maximum"
    if keys.text(attempts) and not keys.is_given("fs.s3a.retry.limit"):
        return keys.number(attempts, 1, 1001) - 1
    return keys.number("fs.s3a.retry.limit", 0, 1000)


def _proxy(keys: BucketConfiguration) -> str:
    host = keys.text("fs.s3a.proxy.host")
    if not host:
        if keys.text("fs.s3a.proxy.port"):
            raise ValueError("fs.s3a.proxy.port is set without fs.s3a.proxy.host")
        return ""
    uses_tls = keys.flag("fs.s3a.proxy.ssl.enabled")
    given = keys.text("fs.s3a.proxy.port")
    port = keys.number("fs.s3a.proxy.port", 1, 65535) if given else (443 if uses_tls else 80)
    bracketed = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{'https' if uses_tls else 'http'}://{bracketed}:{port}"


def _user_agent(keys: BucketConfiguration) -> str:
    from .. import __version__

    prefix = keys.text("fs.s3a.user.agent.prefix")
    check_header("fs.s3a.user.agent.prefix", "User-Agent", prefix)
    ours = f"hflush/{__version__} python/{platform.python_version()}"
    return f"{prefix}, {ours}" if prefix else ours


def _delete_page(keys: BucketConfiguration) -> int:
    size = min(keys.number("fs.s3a.bulk.delete.page.size", 1), MAX_PAGE)
    return size if keys.flag("fs.s3a.multiobjectdelete.enable") else 1


def _performance(keys: BucketConfiguration) -> frozenset[str]:
    key = "fs.s3a.performance.flags"
    known = {"create", "delete", "mkdir", "open"}  # opening has nothing that could be left out
    flags = {name.lower() for name in keys.names(key)}
    if "*" in flags:
        flags = set(known)
    if unknown := flags - known:
        raise ValueError(f"{key}: unknown: {', '.join(sorted(unknown))}")
    if keys.flag("fs.s3a.create.performance"):
        flags.add("create")
    return frozenset(flags)


# --- headers --------------------------------------------------------------------------------------


def check_header(key: str, name: str, value: str) -> None:
    """Refuse what would not arrive as it is.

    Raises
    ------
    ValueError
        The name is not a header name, or the value holds more than visible ASCII and blanks.
    """
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"{key}: {name!r} is not a header name")
    if not _HEADER_VALUE.fullmatch(value):
        raise ValueError(f"{key}: a header holds visible ASCII characters and blanks only")


def object_headers(keys: BucketConfiguration) -> Headers:
    """Return the headers of every object that is written, all but those of SSE-C."""
    headers = encryption_headers(keys)
    if name := keys.text("fs.s3a.acl.default"):
        acl = _ACLS.get(name.replace("-", "").lower())
        if acl is None:
            raise ValueError(
                f"fs.s3a.acl.default: no canned ACL {name!r}: {', '.join(_ACLS.values())}"
            )
        headers.append(("x-amz-acl", acl))
    if name := keys.text("fs.s3a.create.storage.class"):
        headers.append(storage_class("fs.s3a.create.storage.class", name))
    if name := keys.text("fs.s3a.object.content.encoding"):
        check_header("fs.s3a.object.content.encoding", "Content-Encoding", name)
        headers.append(("Content-Encoding", name))
    return headers


def storage_class(key: str, name: str) -> tuple[str, str]:
    """Return the header of a storage class."""
    value = name.strip().upper().replace("-", "_")
    check_header(key, "x-amz-storage-class", value)
    return "x-amz-storage-class", value


def encryption_headers(keys: BucketConfiguration) -> Headers:
    """Return the headers that ask the store to encrypt, with keys that it has."""
    key = "fs.s3a.encryption.algorithm"
    algorithm = keys.text(key).upper()
    secret, context = keys.text("fs.s3a.encryption.key"), keys.text("fs.s3a.encryption.context")
    prefix = "x-amz-server-side-encryption"
    if algorithm in ("", "SSE-C"):
        return []
    if algorithm == "AES256":
        return [(prefix, "AES256")]
    if algorithm.startswith("CSE-"):
        raise ValueError(
            f"{key}={keys.text(key)} is not supported: client-side encryption is not there, and "
            "data would be sent unencrypted"
        )
    if algorithm not in ("SSE-KMS", "DSSE-KMS"):
        raise ValueError(
            f"{key} must be AES256, SSE-KMS, DSSE-KMS or SSE-C, not {keys.text(key)!r}"
        )
    headers = [(prefix, "aws:kms" if algorithm == "SSE-KMS" else "aws:kms:dsse")]
    if secret:
        check_header("fs.s3a.encryption.key", prefix, secret)
        headers.append((f"{prefix}-aws-kms-key-id", secret))
    if context:
        pairs = [pair.partition("=") for pair in context.split(",")]
        if not all(equals for _, equals, _ in pairs):
            raise ValueError("fs.s3a.encryption.context must be key=value, … ")
        document = json.dumps({name.strip(): value.strip() for name, _, value in pairs})
        headers.append((f"{prefix}-context", base64.b64encode(document.encode()).decode()))
    return headers


def customer_key_headers(keys: BucketConfiguration, scheme: str) -> Headers:
    """Return the headers of SSE-C, which go with every request that touches content."""
    if keys.text("fs.s3a.encryption.algorithm").upper() != "SSE-C":
        return []
    given = keys.text("fs.s3a.encryption.key")
    try:
        secret = base64.b64decode(given, validate=True)
    except (ValueError, binascii.Error):
        secret = b""
    if len(secret) != 32:
        lost = "; it is not set here: pickles leave secrets out (hflush.s3.pickle.secrets)"
        raise ValueError(
            "fs.s3a.encryption.key must be the base64 of 32 bytes for SSE-C" + lost * (not given)
        )
    if scheme != "https":
        raise ValueError("SSE-C needs TLS: the key is in every request")
    prefix = "x-amz-server-side-encryption-customer"
    return [
        (f"{prefix}-algorithm", "AES256"),
        (f"{prefix}-key", base64.b64encode(secret).decode()),
        (f"{prefix}-key-MD5", md5_of(secret)),
    ]


def md5_of(data: bytes | memoryview) -> str:
    """Return the base64 of an MD5, as headers have it.

    Raises
    ------
    io.UnsupportedOperation
        There is none here, as where only FIPS is allowed.
    """
    try:
        digest = hashlib.md5(data, usedforsecurity=False)
    except (AttributeError, ValueError) as missing:
        raise UnsupportedOperation(f"no MD5 here, as where only FIPS is: {missing}") from missing
    return base64.b64encode(digest.digest()).decode()


def integrity_of(data: bytes | memoryview) -> tuple[str, str]:
    """Return the header by which a store checks a body: the one that all take, else a newer one."""
    try:
        return "Content-MD5", md5_of(data)
    except UnsupportedOperation:
        return "x-amz-checksum-crc32c", crc_text(_core.crc32c(data))


def customer_key_id(headers: Headers) -> str:
    """Return what tells one key of SSE-C from another and is no secret; empty without one."""
    return next((value for name, value in headers if name.endswith("-key-MD5")), "")


def copy_source_key(headers: Headers) -> Headers:
    """Return the headers of SSE-C as the source of a copy wants them."""
    return [
        (name.replace("x-amz-server-side", "x-amz-copy-source-server-side", 1), value)
        for name, value in headers
    ]


_HTTP_HEADERS = {
    name.lower(): name
    for name in (
        "Cache-Control",
        "Content-Disposition",
        "Content-Encoding",
        "Content-Language",
        "Content-Type",
        "Expires",
    )
}


def user_header(key: str, name: str, value: str) -> tuple[str, str]:
    """Return the header of an object that a user means: HTTP's own, else one of metadata.

    Raises
    ------
    ValueError
        It cannot be sent, or is not the user's to set.
    """
    check_header(key, name, value)
    lowered = name.lower()
    if lowered in _HTTP_HEADERS:
        return _HTTP_HEADERS[lowered], value
    if lowered.startswith("x-amz-") and not lowered.startswith("x-amz-meta-"):
        raise ValueError(f"{key}: {name} has an option of its own, or is not to be set")
    metadata = lowered if lowered.startswith("x-amz-meta-") else f"x-amz-meta-{lowered}"
    if metadata == "x-amz-meta-hflush-token":
        raise ValueError(f"{key}: {name} is ours")
    return metadata, value


def check_metadata(headers: Headers) -> None:
    """Refuse more metadata than a store keeps, ours included.

    Raises
    ------
    ValueError
        It is too much.
    """
    total = 60 + sum(
        len(name) - len("x-amz-meta-") + len(value)
        for name, value in headers
        if name.startswith("x-amz-meta-")
    )
    if total > MAX_METADATA:
        raise ValueError(f"metadata of {total} bytes, of which a store keeps {MAX_METADATA}")
