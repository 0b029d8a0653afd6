"""The configuration keys of S3: docs/s3-client.md shows the table.

``fs.s3a.bucket.NAME.x`` is ``fs.s3a.x`` of the bucket NAME alone, and ``hflush.s3.bucket.NAME.x``
likewise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .. import _core
from ..configuration import parse_whole
from ..deprecations import RENAMED
from ..keys import (
    BOOL,
    INT32_MAX,
    INT64_MAX,
    Key,
    Kind,
    choice,
    local_directories,
    local_file,
    mapped,
    names,
    number,
    size,
    text,
    time,
)

__all__ = ["KEYS", "Native"]

MIN_PART = _core.S3_MIN_PART
MAX_PART = _core.S3_MAX_PART
MAX_PARTS = _core.S3_MAX_PARTS
MAX_OBJECT = _core.S3_MAX_OBJECT
MAX_COPY = 5 << 30
MAX_PAGE = 1000


HADOOP_PREFIX = "fs.s3a."
OWN_PREFIX = "hflush.s3."
# Java's classes that take credentials from a profile, by the last part of their names.
PROFILE_PROVIDERS = ("ProfileCredentialsProvider", "ProfileAWSCredentialsProvider")
# What a credential is made of, and all of one that was sent here.
PARTS_OF_CREDENTIAL = ("fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token")
SENT_CREDENTIALS = "hflush.s3.credentials"
# What variables and the profile said of the server where a file system was sent from.
SENT_SERVER = "hflush.s3.server"
KEY_STORES = (
    "fs.s3a.security.credential.provider.path",
    "hadoop.security.credential.provider.path",
)


class Native(NamedTuple):
    """The core's settings: of a client, of each object that is written, of each that is read."""

    client: _core.S3Settings
    writing: _core.S3ObjectOptions
    reading: _core.S3ReadOptions

    @classmethod
    def usual(cls) -> Native:
        """Return what holds where nothing is set."""
        return cls(_core.S3Settings(), _core.S3ObjectOptions(), _core.S3ReadOptions())


def _is_checksum(text: str) -> bool:
    names = ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256", "NONE")
    name = text.upper().replace("_", "")
    if name not in names:
        raise ValueError
    return name != "NONE"


_TIME = time(zero=None)
_PAUSE = time(zero=0.001)  # 0: as good as none
# Times and sizes that S3A brings to what it needs at least, with a warning, whatever they are.
# A time of the network that names its unit is taken as it is.
_NETWORK_TIME = time(zero=15.0, warns=True, takes_negative=True, least_bare=15.0)
_REQUEST_LIMIT = time(zero=math.inf, takes_negative=True, least_bare=15.0)
_IDLE_TIME = time(zero=0.001, takes_negative=True)
_LIMIT = time(zero=math.inf, takes_negative=True)  # 0: none
_ANY_SIZE = (-INT64_MAX - 1, INT64_MAX)
_BUFFERING = mapped(
    {"disk": "disk", "array": "memory", "bytebuffer": "memory", "memory": "memory",
     "adaptive": "adaptive"}
)  # fmt: skip

_LIST_VERSION = Kind(
    "1, 2",
    "a whole number",
    lambda text: 1 if parse_whole(text) == 1 else 2,
    remark=lambda text: "" if parse_whole(text) in (1, 2) else "2 is used",
)
_CHECKSUM = Kind(
    "CRC32C, NONE",
    "CRC32C, NONE or another of S3A's: CRC32, CRC64NVME, SHA1, SHA256",
    _is_checksum,
    lambda value: "CRC32C" if value else "NONE",
    lambda text: "" if text.upper() in ("CRC32C", "CRC32_C", "NONE") else "CRC32C is sent instead",
)

_ENDPOINT = "Endpoint and connections"
_CREDENTIALS = "Credentials"
_RETRIES = "Retries"
_WRITING = "Writing"
_OBJECTS = "Objects that are written"
_READING = "Reading and listing"
_NAMES = "Name space"

KEYS = (
    Key(_ENDPOINT, "fs.s3a.endpoint", text("host, host:port or URL"),
        "the server, with a path where its buckets are below one; else `AWS_ENDPOINT_URL_S3`, "
        "`AWS_ENDPOINT_URL`, `endpoint_url` of the profile's `services` and of the profile, unless "
        "`ignore_configured_endpoint_urls` is true; else AWS in the region"),
    Key(_ENDPOINT, "fs.s3a.endpoint.region", text(),
        "the region that requests are signed for; else that of an endpoint of AWS, `AWS_REGION`, "
        "`AWS_DEFAULT_REGION`, the profile's, `us-east-1`; corrected by what the server answers"),
    Key(_ENDPOINT, "fs.s3a.endpoint.fips", BOOL,
        "AWS's servers for FIPS; refused together with an endpoint; unless set: "
        "`use_fips_endpoint` of AWS where there is no endpoint", default="false"),
    Key(_ENDPOINT, SENT_SERVER, text("JSON"),
        "what variables and AWS's files say of server and region, in place of what they say here; "
        "set by hflush in what is sent"),
    Key(_ENDPOINT, "fs.s3a.cross.region.access.enabled", BOOL,
        "a bucket of another region is asked there; false: that is an error",
        native="client.follows_regions"),
    Key(_ENDPOINT, "fs.s3a.accesspoint.arn", text(),
        "refused: the alias of an access point is a bucket's name, s3://ALIAS/…"),
    Key(_ENDPOINT, "fs.s3a.accesspoint.required", BOOL,
        "refused if true, as long as the bucket is not an access point's alias (`….-s3alias`)",
        default="false"),
    Key(_ENDPOINT, "fs.s3a.signing-algorithm", text(),
        "refused but for `AWSS3V4SignerType`, and so is `fs.s3a.s3.signing-algorithm`"),
    Key(_ENDPOINT, "fs.s3a.custom.signers", text("classes"),
        "refused"),
    Key(_ENDPOINT, "fs.s3a.http.signer.enabled", BOOL,
        "refused if true", default="false"),
    Key(_ENDPOINT, "fs.s3a.path.style.access", choice("true", "false", "auto"),
        "the bucket in the path and not in the host name; auto: unless the server is AWS (there, "
        "too, over HTTPS if the name has a dot), Alibaba, Huawei, Tencent or Volcengine, or as "
        "`addressing_style` of the profile says where `fs.s3a.endpoint` is not set",
        default="auto"),
    Key(_ENDPOINT, "fs.s3a.connection.ssl.enabled", BOOL,
        "HTTPS, where the endpoint names no scheme", default="true"),
    Key(_ENDPOINT, "hflush.s3.ssl.verify", BOOL,
        "the server's certificate is checked", native="client.verify_peer"),
    Key(_ENDPOINT, "hflush.s3.ssl.ca.file", local_file(),
        "certificates of authorities, in PEM; else `AWS_CA_BUNDLE`, `ca_bundle` of the profile, "
        "`REQUESTS_CA_BUNDLE`, else the system's",
        native="client.ca_file"),
    Key(_ENDPOINT, "fs.s3a.proxy.host", text("host"),
        "a proxy; else `https_proxy`, `HTTPS_PROXY` (for HTTPS) or `http_proxy` of the "
        "environment, else `all_proxy`, `ALL_PROXY`, but for hosts of `no_proxy`, `NO_PROXY`"),
    Key(_ENDPOINT, "fs.s3a.proxy.port", number(-1, 65535),
        "its port; 443 or 80 unless above 0"),
    Key(_ENDPOINT, "fs.s3a.proxy.ssl.enabled", BOOL,
        "HTTPS to the proxy", default="false"),
    Key(_ENDPOINT, "fs.s3a.proxy.username", text(),
        "who we are to the proxy", native="client.proxy_user"),
    Key(_ENDPOINT, "fs.s3a.proxy.password", text("secret"),
        "with which password", native="client.proxy_password"),
    Key(_ENDPOINT, "hflush.s3.proxy.exceptions", names("hosts"),
        "separated by commas: not through the proxy; `*`: no proxy at all"),
    Key(_ENDPOINT, "fs.s3a.connection.maximum", number(1, 10_000, (1, INT32_MAX)),
        "connections at once; more requests wait", native="client.max_connections"),
    Key(_ENDPOINT, "fs.s3a.connection.establish.timeout", _NETWORK_TIME,
        "to connect", native="client.connect_timeout"),
    Key(_ENDPOINT, "fs.s3a.connection.timeout", _NETWORK_TIME,
        "without a byte in either direction, a request has failed", native="client.stall_timeout"),
    Key(_ENDPOINT, "hflush.s3.complete.timeout", _TIME,
        "the same of CompleteMultipartUpload: a server may assemble an object for long, and send "
        "no blanks meanwhile", native="client.complete_timeout"),
    Key(_ENDPOINT, "hflush.s3.copy.timeout", _TIME,
        "the same of copies within the store, which many make in silence", default="10m"),
    Key(_ENDPOINT, "fs.s3a.connection.request.timeout", _REQUEST_LIMIT,
        "of an attempt in all, also while bytes come; 0: none. Not of what is downloaded, nor of "
        "parts and objects that are uploaded", native="client.request_timeout"),
    Key(_ENDPOINT, "fs.s3a.connection.part.upload.timeout", _LIMIT,
        "the same of parts and objects that are uploaded", native="client.upload_timeout"),
    Key(_ENDPOINT, "fs.s3a.connection.idle.time", _IDLE_TIME,
        "an older idle connection is closed", native="client.idle_timeout"),
    Key(_ENDPOINT, "hflush.s3.direct.requests", BOOL,
        "over plain HTTP without a proxy, small requests that a thread waits for and bodies that "
        "lie in memory go over connections of hflush's own; false: all are libcurl's",
        native="client.direct"),
    Key(_ENDPOINT, "fs.s3a.connection.expect.continue", BOOL,
        "large bodies wait up to 200 ms for the server's consent, until it has taken one",
        native="client.expect_continue"),
    Key(_ENDPOINT, "fs.s3a.user.agent.prefix", text("text"),
        "before ours in `User-Agent`"),
    Key(_ENDPOINT, "fs.s3a.client.s3.custom.headers", text("name=value, …"),
        "headers of each request; several values of one by semicolons"),
    Key(_ENDPOINT, "hflush.s3.payload.signing", choice("auto", "always", "never"),
        "bodies are part of the signature; auto: unless TLS or loopback protects them",
        native="client.payload_signing"),
    Key(_CREDENTIALS, "fs.s3a.access.key", text("secret"),
        "with `fs.s3a.secret.key`"),
    Key(_CREDENTIALS, "fs.s3a.secret.key", text("secret"),
        "the other half of it"),
    Key(_CREDENTIALS, "fs.s3a.session.token", text("secret"),
        "of temporary credentials: SimpleAWSCredentialsProvider leaves it out"),
    Key(_CREDENTIALS, "fs.s3a.aws.credentials.provider", names("classes"),
        "where credentials come from, tried in order; unless set: the three keys above, "
        "`AWS_ACCESS_KEY_ID` and its kin, then all that botocore knows"),
    Key(_CREDENTIALS, "fs.s3a.aws.credentials.provider.mapping", text("class=class, …"),
        "the first class of each pair is read as the second where the key above names it"),
    Key(_CREDENTIALS, "fs.s3a.auth.profile.name", text(),
        "the profile that ProfileAWSCredentialsProvider takes; unless set: that of "
        "`AWS_DEFAULT_PROFILE`, else of `AWS_PROFILE`"),
    Key(_CREDENTIALS, "fs.s3a.auth.profile.file", local_file(),
        "the file of that profile, where alone its credentials are looked for; unless set: AWS's "
        "own files, as `AWS_SHARED_CREDENTIALS_FILE` and `AWS_CONFIG_FILE` name them"),
    Key(_CREDENTIALS, "fs.s3a.security.credential.provider.path", text("URLs"),
        "key stores of Java are not read: refused where they would be needed, as is "
        "`hadoop.security.credential.provider.path`"),
    Key(_CREDENTIALS, "fs.s3a.assumed.role.arn", text(),
        "the role that AssumedRoleCredentialProvider assumes, by botocore; refused where that is "
        "not named above"),
    Key(_CREDENTIALS, "fs.s3a.assumed.role.credentials.provider", names("classes"),
        "where the credentials come from that assume it, tried in order",
        default="SimpleAWSCredentialsProvider,EnvironmentVariableCredentialsProvider"),
    Key(_CREDENTIALS, "fs.s3a.assumed.role.policy", text("JSON"),
        "what may be done by it, at most"),
    Key(_CREDENTIALS, "fs.s3a.assumed.role.session.duration", time("s"),
        "for how long it is assumed at a time", default="30m"),
    Key(_CREDENTIALS, "fs.s3a.assumed.role.session.name", text(),
        "as whom; unless set: the user"),
    Key(_CREDENTIALS, "fs.s3a.assumed.role.sts.endpoint", text("host or URL"),
        "the server of STS; unless set: AWS's in the region"),
    Key(_CREDENTIALS, "fs.s3a.assumed.role.sts.endpoint.region", text(),
        "its region; unless set: `AWS_REGION`, `AWS_DEFAULT_REGION`, `us-east-1`"),
    Key(_CREDENTIALS, "fs.s3a.delegation.token.binding", text("class"),
        "refused"),
    Key(_CREDENTIALS, "fs.s3a.s3accessgrants.enabled", BOOL,
        "refused if true", default="false"),
    Key(_CREDENTIALS, "hflush.s3.credentials.wait", _TIME,
        "how long a request waits for newer credentials where its own have expired",
        native="client.credentials_wait"),
    Key(_CREDENTIALS, "hflush.s3.pickle.secrets", BOOL,
        "the same as `hflush.pickle.secrets`, also of other stores' secrets", default="false"),
    Key(_CREDENTIALS, SENT_CREDENTIALS, text("secret"),
        "access key, secret key and session token by blanks, in place of those of "
        "`AWS_ACCESS_KEY_ID` and its kin and of profiles; set by hflush in what is sent with "
        "`hflush.pickle.secrets`"),
    Key(_RETRIES, "fs.s3a.retry.limit", number(0, 1000, (0, INT32_MAX)),
        "retries after the first attempt", native="client.retry_limit"),
    Key(_RETRIES, "fs.s3a.attempts.maximum", number(1, 1001, (0, INT32_MAX)),
        "attempts, the first included, where `fs.s3a.retry.limit` is not set"),
    Key(_RETRIES, "fs.s3a.retry.interval", _PAUSE,
        "the base of a random, exponential pause", native="client.retry_interval"),
    Key(_RETRIES, "fs.s3a.retry.throttle.limit", number(0, 1000, (0, INT32_MAX)),
        "the same, when throttled", native="client.retry_throttle_limit"),
    Key(_RETRIES, "fs.s3a.retry.throttle.interval", _PAUSE,
        "the same, when throttled", native="client.retry_throttle_interval"),
    Key(_RETRIES, "fs.s3a.retry.http.5xx.errors", BOOL,
        "server errors other than 503 are tried again", native="client.retry_5xx"),
    Key(_RETRIES, "hflush.s3.retry.deadline", _TIME,
        "of all attempts of a request", native="client.retry_deadline"),
    Key(_WRITING, "fs.s3a.multipart.size", size(MIN_PART, MAX_PART, taken=_ANY_SIZE),
        "the first parts; later ones grow so that 5 TiB fit, if they may lie on disk; "
        "5M at least, 5G at most",
        native="writing.block_bytes"),
    Key(_WRITING, "hflush.s3.multipart.uniform", BOOL,
        "all parts but the last have that size, as some stores want it; unless set: at R2",
        native="writing.uniform_parts"),
    Key(_WRITING, "hflush.s3.multipart.parts", number(1, MAX_PARTS),
        "how many parts the store takes; unless set: 1000 at Scaleway", native="writing.max_parts"),
    Key(_WRITING, "fs.s3a.multipart.uploads.enabled", BOOL,
        "false: each object is one PutObject, of 5G at most, which lies on disk until it is closed "
        "(with `array` and `bytebuffer` of the buffer below in memory); what needs uploads is "
        "refused",
        default="true"),
    Key(_WRITING, "fs.s3a.multipart.threshold",
        size(MIN_PART, MAX_COPY, taken=_ANY_SIZE),
        "larger objects are copied in parts; 5G at most", default="5G"),
    Key(_WRITING, "fs.s3a.fast.upload.buffer", _BUFFERING,
        "where blocks wait; adaptive: in memory, and on disk where its budget is too small",
        native="writing.buffering"),
    Key(_WRITING, "fs.s3a.fast.upload.active.blocks", number(1, 1000, (1, INT32_MAX)),
        "blocks of a stream that are under way or wait; then `write` waits",
        native="writing.active_blocks"),
    Key(_WRITING, "hflush.s3.memory", size(0, MAX_OBJECT),
        "of a stream's blocks in memory; 0: as many blocks as above, less half of one if they are "
        "more than two",
        native="writing.memory_bytes"),
    Key(_WRITING, "hflush.s3.references", BOOL,
        "`bytes` objects of 32 KiB or more are kept until the store has them, not copied",
        native="writing.references"),
    Key(_WRITING, "hflush.s3.memory.total", size(1, 1 << 62),
        "of all streams and readers of the process, beyond what each needs to go on; else 512M, "
        "or an eighth of what control groups, the address space and the machine leave the process; "
        "of several values the least holds"),
    Key(_WRITING, "fs.s3a.buffer.dir", local_directories(),
        "of blocks on disk, by commas: for each block the first in which a file can be "
        "made; else the system's for temporary files"),
    Key(_WRITING, "fs.s3a.threads.max", number(2, 10_000, (-INT32_MAX - 1, INT32_MAX)),
        "uploads of parts and objects at once, of all streams of a file system; no more than "
        "`fs.s3a.connection.maximum`",
        native="client.max_uploads"),
    Key(_WRITING, "fs.s3a.request.md5.header", BOOL,
        "`Content-MD5` with each part and object", native="client.content_md5"),
    Key(_WRITING, "fs.s3a.create.checksum.algorithm", _CHECKSUM,
        "sent with each part and object where the store knows it, in place of another of S3A's, "
        "too (the log says so); a store that refuses it is asked without, unless this key is set",
        native="client.checksums"),
    Key(_WRITING, "fs.s3a.create.performance", BOOL,
        "create does not look for directories and files in its way", default="false"),
    Key(_WRITING, "hflush.s3.create.remember", time(),
        "for how long create does not ask again whether a directory on the way is a file; 0: it "
        "always asks", default="60s"),
    Key(_WRITING, "fs.s3a.performance.flags", names("create, delete, mkdir, *"),
        "which operations leave out what keeps a tree of directories consistent"),
    Key(_WRITING, "fs.s3a.directory.operations.purge.uploads", BOOL,
        "delete and rename of a directory abort the uploads below it, those of open streams, too",
        default="false"),
    Key(_WRITING, "fs.s3a.create.conditional.enabled", choice("true", "false", "auto"),
        "conditional requests: overwrite=False and an etag are checked by the store when the "
        "object is published; auto: tried out once for each server and bucket", default="auto"),
    Key(_WRITING, "fs.s3a.downgrade.syncable.exceptions", BOOL,
        "hflush and hsync are counted and do nothing; they raise otherwise", default="false"),
    Key(_OBJECTS, "fs.s3a.encryption.algorithm", text("AES256, SSE-KMS, DSSE-KMS, SSE-C"),
        "encryption by the store; `fs.s3a.server-side-encryption-algorithm` is the older name"),
    Key(_OBJECTS, "fs.s3a.encryption.key", text("secret"),
        "the id of a KMS key, or the base64 of the 32 bytes of SSE-C; "
        "`fs.s3a.server-side-encryption.key` is the older name"),
    Key(_OBJECTS, "fs.s3a.encryption.context", text("key=value, …"),
        "for KMS"),
    Key(_OBJECTS, "fs.s3a.encryption.cse.kms.region", text(),
        "refused, and so are the other keys of client-side encryption, `fs.s3a.encryption.cse.*`"),
    Key(_OBJECTS, "hflush.s3.encryption.verify", BOOL,
        "what the store answers about encryption is compared with what was asked for, before "
        "anything is published; a difference is an error", native="writing.verify_encryption"),
    Key(_OBJECTS, "fs.s3a.acl.default", text(),
        "a canned ACL: `BucketOwnerFullControl`, `public-read`, …"),
    Key(_OBJECTS, "fs.s3a.create.storage.class", text(),
        "`standard_ia`, `glacier_ir`, …; a word that AWS does not have is left out there, with a "
        "warning, and sent to other stores, which have their own"),
    Key(_OBJECTS, "fs.s3a.object.content.encoding", text(),
        "`Content-Encoding`"),
    Key(_OBJECTS, "fs.s3a.requester.pays.enabled", BOOL,
        "the requester pays, where the bucket has another owner", default="false"),
    Key(_READING, "fs.s3a.readahead.range", size(0, MAX_OBJECT, taken=(0, INT64_MAX)),
        "a step forward so far is read over; beyond, another request begins",
        native="reading.readahead_bytes"),
    Key(_READING, "hflush.s3.read.window", size(0, MAX_OBJECT),
        "how far sequential reads are ahead", native="reading.window_bytes"),
    Key(_READING, "fs.s3a.experimental.input.fadvise", text("policy"),
        "how files are read unless open says so: `sequential`, `random`, …", default="default"),
    Key(_READING, "fs.s3a.paging.maximum", number(1),
        "entries of a page of a listing", default="1000"),
    Key(_READING, "fs.s3a.list.version", _LIST_VERSION,
        "1: ListObjects, for stores that take ListObjectsV2 for it; of those that refuse the newer "
        "one it is found out", default="2"),
    Key(_NAMES, "hflush.s3.user", text(),
        "whose home directory relative paths begin in, where that is not the user of the process; "
        "set by hflush in what is sent"),
    Key(_NAMES, "fs.s3a.block.size", size(1, MAX_OBJECT, taken=(1, INT64_MAX)),
        "reported: objects have no blocks", default="32M"),
    Key(_NAMES, "fs.s3a.multiobjectdelete.enable", BOOL,
        "many objects are removed by one request", default="true"),
    Key(_NAMES, "fs.s3a.bulk.delete.page.size", number(1),
        "by one request, at most; so much is a page of `bulk_delete`", default="1000"),
    Key(_NAMES, "fs.s3a.executor.capacity", number(1, 1000, (1, INT32_MAX)),
        "objects that a rename or a copy copies at once", default="16"),
)  # fmt: skip

# All that mean something; one that ends in a dot goes on with a name.
KNOWN_KEYS = frozenset(
    (
        *(key.name for key in KEYS),
        *(key for key in RENAMED if key.startswith(HADOOP_PREFIX)),
        *KEY_STORES,
        "fs.s3a.create.header.",
    )
)
