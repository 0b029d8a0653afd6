"""Settings of S3, read from its keys. Nothing here uses the network."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import platform
import re
from dataclasses import dataclass
from functools import cached_property
from io import UnsupportedOperation
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from .. import _core
from ..configuration import Configuration, user_name
from ..deprecations import RENAMED, names_of_today
from ..errors import unsupported
from ..keys import Reader
from ..leaving import LeftOutError, lost_keys
from ..warn import warn_once
from .documents import crc_text
from .keys import (
    HADOOP_PREFIX,
    KEY_STORES,
    KEYS,
    KNOWN_KEYS,
    MAX_PAGE,
    MAX_PART,
    OWN_PREFIX,
    PARTS_OF_CREDENTIAL,
    PROFILE_PROVIDERS,
    SENT_CREDENTIALS,
    SENT_SERVER,
    Native,
)
from .profile import FoundServer, Profile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    Headers: TypeAlias = list[tuple[str, str]]

__all__ = ["BucketConfiguration", "Endpoint", "Settings", "way_to"]

MAX_METADATA = 2048
USER = "hflush.s3.user"
UPLOADS = "fs.s3a.multipart.uploads.enabled"
ENCRYPTION_PREFIX = "x-amz-server-side-encryption"

# Headers that are about what users write, and not about what serves that.
_OF_CONTENT = ("content-encoding", "x-amz-storage-class")

# Keys that decide where or how safely data go, and are not supported; what to do instead.
_ALIAS = "name the access point by its alias, s3://ALIAS/…"
_SIGNER = "requests are signed by version 4 alone"
_REFUSED = {
    "fs.s3a.accesspoint.arn": _ALIAS,
    "fs.s3a.accesspoint.required": _ALIAS,
    "fs.s3a.custom.signers": _SIGNER,
    "fs.s3a.delegation.token.binding": "configure credentials themselves",
    "fs.s3a.encryption.cse.kms.region": "without client-side encryption data would be sent "
    "unencrypted",
    "fs.s3a.http.signer.enabled": _SIGNER,
    "fs.s3a.s3.signing-algorithm": _SIGNER,
    "fs.s3a.s3accessgrants.enabled": "use credentials that may do by themselves what is granted",
    "fs.s3a.signing-algorithm": _SIGNER,
}
# Families of such keys, each with the one of them that is named above.
_REFUSED_FAMILIES = {
    "fs.s3a.encryption.cse.": "fs.s3a.encryption.cse.kms.region",
}
# Values that change nothing, in lower case: Hadoop's own defaults among them.
_HARMLESS = {
    "fs.s3a.accesspoint.required": ("false",),
    "fs.s3a.http.signer.enabled": ("false",),
    "fs.s3a.s3.signing-algorithm": ("awss3v4signertype",),
    "fs.s3a.s3accessgrants.enabled": ("false",),
    "fs.s3a.signing-algorithm": ("awss3v4signertype",),
}
# Keys of EMRFS that say where or how safely data go, and the key that says so here, if one does.
_EMRFS_CLASS = ".EmrFileSystem"
_EMRFS = {
    "fs.s3.cse.enabled": "",
    "fs.s3.canned.acl": "fs.s3a.acl.default",
    "fs.s3.enableServerSideEncryption": "fs.s3a.encryption.algorithm",
    "fs.s3.endpoint": "fs.s3a.endpoint",
    "fs.s3.serverSideEncryption.kms.keyId": "fs.s3a.encryption.key",
}
# Secrets that may be lost on the way: the process may have others, or a server refuses without.
_MAY_BE_LOST = frozenset((*PARTS_OF_CREDENTIAL, SENT_CREDENTIALS, "fs.s3a.proxy.password"))
# Headers that each request has anyway.
_OURS = frozenset(
    (
        "authorization",
        "content-length",
        "expect",
        "host",
        "transfer-encoding",
        "x-amz-content-sha256",
        "x-amz-date",
        "x-amz-security-token",
    )
)
# AWS's words for fs.s3a.path.style.access.
_STYLES = {"path": "true", "virtual": "false"}
_USUAL_REGION = "us-east-1"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# What stands before AWS's suffix in the name of a server of a region, "s3.eu-west-1", or of an
# endpoint of a VPC there, "bucket.vpce-1a2b-3c4d.s3.us-west-2.vpce".
_AWS_SERVER = re.compile(
    r"(?:.+\.)??s3(?:-fips)?[.-](?:dualstack\.)?([a-z]+(?:-[a-z]+)+-\d+)(?:\.vpce)?"
)
# What stands there in that of any server of S3: hosts of AWS's customers have that suffix, too.
_AWS_S3 = re.compile(
    r"(?:.+\.)?s3(?:express)?(?:-[^.]+)?(?:\.dualstack)?(?:\.[A-Za-z0-9_-]+)?(?:\.vpce)?"
)
# Of stores that take no requests with the bucket in the path: Alibaba's, Tencent's, Huawei's,
# Volcengine's.
_BUCKETS_ARE_HOSTS = (".aliyuncs.com", ".myqcloud.com", ".myhuaweicloud.com", ".volces.com")
_GOOGLE = "storage.googleapis.com"
# Of stores that take no uploads whose parts grow.
_WANTS_EQUAL_PARTS = (".r2.cloudflarestorage.com",)
# Of stores that take 1,000 parts, as OpenStack Swift does: Scaleway's.
_WANTS_FEW_PARTS = (".scw.cloud",)
_FEW_PARTS = 1000
# Those of AWS; other stores have others.
_STORAGE_CLASSES = frozenset(
    (
        "DEEP_ARCHIVE",
        "EXPRESS_ONEZONE",
        "FSX_ONTAP",
        "FSX_OPENZFS",
        "GLACIER",
        "GLACIER_IR",
        "INTELLIGENT_TIERING",
        "ONEZONE_IA",
        "OUTPOSTS",
        "REDUCED_REDUNDANCY",
        "SNOW",
        "STANDARD",
        "STANDARD_IA",
    )
)
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


def _for_all(key: str, bucket: str) -> str:
    """Return the name for all buckets of a key for this one; empty if it is not for it alone."""
    for prefix in (HADOOP_PREFIX, OWN_PREFIX):
        own = f"{prefix}bucket.{bucket}."
        if key.startswith(own):
            return prefix + key.removeprefix(own)
    return ""


class BucketConfiguration(Reader):
    """The keys of one bucket: its own before the general ones before the defaults."""

    def __init__(self, conf: Configuration, bucket: str) -> None:
        given = dict(conf.raw_items())
        own = {name: key for key in given if (name := _for_all(key, bucket))}
        chosen = {
            today: key
            for name, key in sorted(own.items(), key=lambda item: item[0] not in RENAMED)
            for today in names_of_today(name)  # names of today last, so that they win
        }
        merged = Configuration(load_defaults=False)
        merged.update(given)
        merged.update((name, given[key]) for name, key in chosen.items())
        origins = {key: conf.written_as(key) for key in given} | chosen
        super().__init__(merged, KEYS, origins)
        self.bucket = bucket
        self._own = frozenset(chosen)  # the names of today of what is set for the bucket alone

    def is_left_out(self, name: str) -> bool:
        """Whether a key was set where this configuration comes from, and is secret."""
        return any(name in (key, _for_all(key, self.bucket)) for key in lost_keys(self._conf))

    def refuse_lost(self) -> None:
        """Refuse to go without a key that is no credential: data would land otherwise.

        Raises
        ------
        LeftOutError
            A key was not sent here, as it is secret or belongs to one that is.
        """
        encrypts = self.given("fs.s3a.encryption.algorithm")
        for key in lost_keys(self._conf):
            own = _for_all(key, self.bucket)
            name = own or key
            for today in names_of_today(name) if name in KNOWN_KEYS else ():
                is_there = today in self._own if own else self.given(today)
                is_used = encrypts or today != "fs.s3a.encryption.key"
                if is_used and not is_there and today not in _MAY_BE_LOST:
                    raise LeftOutError(key)

    def providers(self, listed: str = "fs.s3a.aws.credentials.provider") -> list[str]:
        """Return the classes of Java that a key lists for credentials, each as it is mapped.

        Raises
        ------
        ValueError
            The mapping is malformed.
        """
        key = "fs.s3a.aws.credentials.provider.mapping"
        pairs = [pair.partition("=") for pair in self.text(key).split(",") if pair.strip()]
        if not all(equals for _, equals, _ in pairs):
            raise ValueError(f"{key} must be class=class, …")
        mapped = {name.strip(): value.strip() for name, _, value in pairs}
        return [mapped.get(name, name) for name in self.names(listed)]

    def profile(self) -> tuple[str, str]:
        """Return the profile that credentials are taken from, and its file; empty: AWS's own.

        Where what it has was sent here, the file may be missing.

        Raises
        ------
        ValueError
            The file is not there.
        """
        key = "fs.s3a.auth.profile.file"
        file = self.text(key)
        if file and not os.path.isfile(file):  # noqa: PTH113 -- also where its directory is closed
            if self.given(SENT_CREDENTIALS):
                return self.text("fs.s3a.auth.profile.name"), ""
            raise ValueError(
                f"{self._origins.get(key, key)}: there is no file {file}: put AWS's credentials "
                "there, on every host that uses them, or unset the key"
            )
        return self.text("fs.s3a.auth.profile.name"), file

    def key_store(self) -> str:
        """Return the key that names key stores of Java, empty if none does."""
        return next((key for key in KEY_STORES if self.given(key)), "")


class Endpoint(NamedTuple):
    """A server. An empty host is AWS in whatever region it will be."""

    scheme: str
    host: str
    port: int  # 0: the scheme's own
    path: str = ""  # before every bucket, not encoded: "/storage/v1/s3"

    @property
    def is_aws(self) -> bool:
        """Whether it belongs to AWS."""
        suffix = _core.s3_aws_suffix_of(self.host)
        names_s3 = suffix and _AWS_S3.fullmatch(self.host.removesuffix(suffix))
        return not self.host or bool(names_s3)

    @property
    def as_stored(self) -> Headers:
        """The headers by which the store gives the bytes of an object as it has them.

        Google's inflates what has ``Content-Encoding: gzip`` for who does not take that, and then
        tells no length and knows no ranges.
        """
        is_google = self.host == _GOOGLE or self.host.endswith(f".{_GOOGLE}")
        return [("Accept-Encoding", "gzip")] if is_google else []

    @property
    def region(self) -> str:
        """The region in the name of a host of AWS; empty where it names none."""
        suffix = _core.s3_aws_suffix_of(self.host)
        match = _AWS_SERVER.fullmatch(self.host.removesuffix(suffix)) if suffix else None
        return match[1] if match else ""

    @classmethod
    def parse(cls, text: str, uses_tls: bool) -> Endpoint:
        """Return what an endpoint means, as ``host``, ``host:port`` or a URL, each with a path.

        Raises
        ------
        ValueError
            It is not a server.
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
            or parts.query
            or parts.fragment
            or parts.username is not None
        )
        if bad:  # not shown: people put passwords there
            raise ValueError(
                "the endpoint of S3 must be host, host:port, http://host:port or "
                "https://host:port, with a path or without, but without user and query"
            )
        path = unquote(parts.path).rstrip("/")
        endpoint = cls(parts.scheme, host, port, path)
        if path and endpoint.is_aws:
            raise ValueError(
                f"the endpoint of S3 is {host}: AWS has no path there, and the bucket comes behind "
                "it by itself"
            )
        return endpoint

    def check_bucket(self, bucket: str) -> None:
        """Refuse a path that names the bucket, which comes behind it by itself.

        Raises
        ------
        ValueError
            It does.
        """
        if self.path.rpartition("/")[2] == bucket:
            raise ValueError(
                f"the path of the endpoint of S3 ends with the bucket {bucket!r}, which comes "
                "behind it by itself: leave it out"
            )


def endpoint_of(keys: BucketConfiguration, found: FoundServer) -> Endpoint:
    """Return the server that configuration, environment and profile name."""
    text = keys.text("fs.s3a.endpoint") or found.endpoint
    endpoint = Endpoint.parse(text, keys.flag("fs.s3a.connection.ssl.enabled"))
    # The name without a region is Hadoop's way to say that there is none.
    return endpoint._replace(host="") if endpoint.host == "s3.amazonaws.com" else endpoint


def profile_of(keys: BucketConfiguration, environment: Mapping[str, str]) -> Profile:
    """Return the profile of AWS that counts: that of the credentials."""
    named = any(name.endswith(PROFILE_PROVIDERS) for name in keys.providers())
    name, file = keys.profile() if named else ("", "")
    if file:
        environment = {**environment, "AWS_SHARED_CREDENTIALS_FILE": file}
    return Profile(environment, name)


def server_of(
    keys: BucketConfiguration, environment: Mapping[str, str], profile: Profile | None = None
) -> FoundServer:
    """Return what variables and the profile say of the server: those here, or of who sent it.

    `profile` is that of :func:`profile_of`, where the caller has it.

    Raises
    ------
    ValueError
        The profile is asked, and cannot be read, or is not there.
    """
    if sent := keys.given(SENT_SERVER):
        return FoundServer.from_text(sent)
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or ""
    if keys.given("fs.s3a.endpoint"):
        return FoundServer(region=region)
    profile = profile or profile_of(keys, environment)
    return FoundServer(
        profile.endpoint,
        region or profile.region,
        profile.addressing_style,
        profile.uses_fips,
        profile.uses_dualstack,
    )


@dataclass(frozen=True, repr=False)
class Settings:
    """The settings of a bucket. Holds secrets: has no repr that shows them."""

    bucket: str
    keys: BucketConfiguration
    endpoint: Endpoint
    region: str  # empty: not said; a profile may
    uses_fips: bool
    uses_dualstack: bool
    path_style: bool
    headers: Headers  # of every object that is written
    sse_c: Headers
    extra_headers: Headers  # of every request
    page: int
    delete_page: int
    copy_threads: int
    copy_threshold: int
    has_uploads: bool  # in parts
    lists_as_before: bool  # by ListObjects of version 1
    block_size: int
    user: str  # of home directories; empty: the process's
    memory_total: int | None
    read_policy: str
    conditional: str  # "true", "false", "auto"
    downgrades: bool
    performance: frozenset[str]
    purges_uploads: bool  # below directories that go
    remember: float
    pickles_secrets: bool
    found: FoundServer  # what the environment says
    copy_timeout: float
    credentials_wait: float
    native: _core.S3Settings
    writing: _core.S3ObjectOptions
    reading: _core.S3ReadOptions

    @classmethod
    def read(
        cls, conf: Configuration, bucket: str, environment: Mapping[str, str] | None = None
    ) -> Settings:
        """Return what a configuration says about a bucket.

        Raises
        ------
        ValueError
            A name or a value is malformed.
        io.UnsupportedOperation
            It is a directory bucket of AWS.
        LeftOutError
            A key was not sent here.
        """
        check_bucket(bucket)
        refuse_unsupported(conf, bucket)
        env = os.environ if environment is None else environment
        keys = BucketConfiguration(conf, bucket)
        keys.refuse_lost()
        profile = profile_of(keys, env)
        found = server_of(keys, env, profile)
        endpoint = endpoint_of(keys, found)
        endpoint.check_bucket(bucket)
        if endpoint.is_aws and bucket.endswith("--x-s3"):
            raise unsupported("a directory bucket (S3 Express)", "s3", bucket)
        is_fips_given = keys.given("fs.s3a.endpoint.fips")
        uses_fips = keys.flag("fs.s3a.endpoint.fips") if is_fips_given else found.uses_fips
        if uses_fips and endpoint.host:
            raise ValueError(
                "fs.s3a.endpoint.fips (or use_fips_endpoint of AWS) chooses AWS's own servers: it "
                f"does not go with the endpoint {endpoint.host}"
            )
        region = keys.text("fs.s3a.endpoint.region")
        region = ("" if region.lower() in ("sdk", "ec2") else region) or endpoint.region
        region = region or found.region
        if keys.given(SENT_SERVER):  # else credentials from here may bring the region of theirs
            region = region or _USUAL_REGION
        style = keys.text("fs.s3a.path.style.access")
        if not keys.given("fs.s3a.path.style.access"):
            style = _STYLES.get(found.addressing_style, style)
        dotted = "." in bucket and endpoint.scheme == "https"  # no certificate has such names
        names_hosts = endpoint.is_aws or endpoint.host.endswith(_BUCKETS_ARE_HOSTS)
        path_style = style == "true" or (style == "auto" and (not names_hosts or dotted))
        native = _native(keys, endpoint, path_style, profile.authorities)
        return cls(
            bucket=bucket,
            keys=keys,
            endpoint=endpoint,
            region=region,
            uses_fips=uses_fips,
            uses_dualstack=found.uses_dualstack,
            path_style=path_style,
            headers=object_headers(keys, is_aws=endpoint.is_aws),
            sse_c=customer_key_headers(keys, endpoint.scheme),
            extra_headers=request_headers(keys),
            page=min(keys.number("fs.s3a.paging.maximum"), MAX_PAGE),
            delete_page=_delete_page(keys),
            copy_threads=keys.number("fs.s3a.executor.capacity"),
            copy_threshold=keys.number("fs.s3a.multipart.threshold"),
            has_uploads=keys.flag(UPLOADS),
            lists_as_before=keys.number("fs.s3a.list.version") == 1,
            block_size=keys.number("fs.s3a.block.size"),
            user=keys.text(USER) or user_name(),
            memory_total=keys["hflush.s3.memory.total"],
            read_policy=keys.text("fs.s3a.experimental.input.fadvise").lower(),
            conditional=keys.text("fs.s3a.create.conditional.enabled"),
            downgrades=keys.flag("fs.s3a.downgrade.syncable.exceptions"),
            performance=_performance(keys),
            purges_uploads=keys.flag("fs.s3a.directory.operations.purge.uploads"),
            remember=keys.seconds("hflush.s3.create.remember"),
            pickles_secrets=keys.flag("hflush.s3.pickle.secrets"),
            found=found,
            copy_timeout=keys.seconds("hflush.s3.copy.timeout"),
            credentials_wait=native.client.credentials_wait,
            native=native.client,
            writing=native.writing,
            reading=native.reading,
        )

    @cached_property
    def headers_of_helpers(self) -> Headers:
        """Those of objects that serve others and are small, or gone soon: in no archive."""
        return [header for header in self.headers if header[0].lower() not in _OF_CONTENT]

    @cached_property
    def encryption(self) -> Headers:
        """The headers that ask for encryption and are to be answered; none if that is not checked.

        What KMS gets as context is not answered.
        """
        asked = [*self.headers, *self.sse_c] if self.writing.verify_encryption else []
        return [header for header in asked if header[0].startswith(ENCRYPTION_PREFIX)]

    @cached_property
    def customer_key(self) -> str:
        """What identifies its key of SSE-C without showing it; empty without one."""
        return customer_key_id(self.sse_c)

    def connected_to(self, region: str) -> _core.S3Settings:
        """Return the settings of a client: this region is used unless another is configured."""
        self.native.region = self.region or region or _USUAL_REGION
        if not self.endpoint.host:
            suffix = _core.s3_aws_suffix(self.native.region)
            service = "s3-fips" if self.uses_fips else "s3"
            service += ".dualstack" if self.uses_dualstack else ""
            self.native.host = f"{service}.{self.native.region}{suffix}"
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
    if given.get("fs.s3.impl", "").endswith(_EMRFS_CLASS):
        _refuse_emrfs(given, own)
    overridden = {HADOOP_PREFIX + key[len(own) :] for key in given if key.startswith(own)}
    for key, value in given.items():
        name = HADOOP_PREFIX + key[len(own) :] if key.startswith(own) else key
        if name == key and key in overridden:
            continue
        advice = _advice(name, value.lower())
        if advice is None:
            continue
        if name == "fs.s3a.accesspoint.required" and bucket.endswith("-s3alias"):
            continue
        raise ValueError(f"{key} is not supported: {advice}")


def _refuse_emrfs(given: Mapping[str, str], own: str) -> None:
    for key, ours in _EMRFS.items():
        if given.get(key, "false").lower() == "false":
            continue
        if not ours:
            raise ValueError(
                f"{key} is not supported: without client-side encryption data would be sent "
                "unencrypted"
            )
        if ours not in given and own + ours.removeprefix(HADOOP_PREFIX) not in given:
            raise ValueError(f"{key} is a key of EMRFS, which is not heard here: set {ours}")


def _advice(name: str, value: str) -> str | None:
    """Return what to do instead of setting a key to this; None where it is not refused."""
    if value in _HARMLESS.get(name, ()):
        return None
    for family, member in _REFUSED_FAMILIES.items():
        if name.startswith(family):
            return None if value == "false" else _REFUSED[member]
    return _REFUSED.get(name)


def check_bucket(bucket: str) -> None:
    """Refuse what is not a bucket name.

    Raises
    ------
    ValueError
        It is not one. It is shown only where no secret can be in it.
    """
    if not bucket:
        raise ValueError("an S3 URL must name a bucket, as s3://bucket/key does")
    if bucket.startswith("arn:"):
        raise ValueError(f"an ARN is not supported in an S3 URL: {_ALIAS}")
    if "@" in bucket or ":" in bucket:
        raise ValueError(
            "an S3 URL names a bucket alone: credentials go into fs.s3a.access.key and its kin, a "
            "server into fs.s3a.endpoint"
        )
    if not _BUCKET.fullmatch(bucket) or len(bucket) > 255:
        raise ValueError(f"{bucket!r} is not a bucket name")


def _native(
    keys: BucketConfiguration, endpoint: Endpoint, path_style: bool, authorities: str
) -> Native:
    native = Native.usual()
    keys.fill(native)
    client = native.client
    client.scheme, client.host, client.port, client.base_path = endpoint
    client.path_style = path_style
    client.insists_on_checksums = client.checksums and bool(
        keys.given("fs.s3a.create.checksum.algorithm")
    )
    if not keys.given("hflush.s3.multipart.uniform"):
        native.writing.uniform_parts = endpoint.host.endswith(_WANTS_EQUAL_PARTS)
    if not keys.given("hflush.s3.multipart.parts") and endpoint.host.endswith(_WANTS_FEW_PARTS):
        native.writing.max_parts = _FEW_PARTS
    # Hadoop's SDK counts attempts below what Hadoop itself repeats: here one layer does both.
    attempts = keys["fs.s3a.attempts.maximum"]
    if attempts and not keys.given("fs.s3a.retry.limit"):
        client.retry_limit = attempts - 1
    client.ca_file = client.ca_file or authorities
    client.proxy = _proxy(keys)
    client.no_proxy = ",".join(keys.names("hflush.s3.proxy.exceptions"))
    client.user_agent = _user_agent(keys)
    if not keys.flag(UPLOADS):  # the one part of an object needs no more memory than several
        writing = native.writing
        writing.memory_bytes = writing.window_bytes
        writing.block_bytes, writing.max_parts, writing.uniform_parts = MAX_PART, 1, True
    directories = keys.names("fs.s3a.buffer.dir")
    if directories and native.writing.buffering != "memory":
        native.writing.buffer_directories = list(directories)
    return native


def _proxy(keys: BucketConfiguration) -> str:
    host, port = keys.text("fs.s3a.proxy.host"), max(0, keys.number("fs.s3a.proxy.port"))
    if not host:
        if port:
            raise ValueError("fs.s3a.proxy.port is set without fs.s3a.proxy.host")
        return ""
    uses_tls = keys.flag("fs.s3a.proxy.ssl.enabled")
    port = port or (443 if uses_tls else 80)
    bracketed = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{'https' if uses_tls else 'http'}://{bracketed}:{port}"


def way_to(host: str, keys: BucketConfiguration) -> tuple[dict[str, Any], str | bool | None]:
    """Return how botocore reaches another server as the core reaches the store.

    Arguments of its configuration, and what certificates are verified by: what is not set is left
    to botocore.
    """
    from urllib.request import proxy_bypass

    native = Native.usual()
    keys.fill(native)
    client, proxy = native.client, _proxy(keys)
    way: dict[str, Any] = {}
    if proxy_bypass(host, {"no": ",".join(keys.names("hflush.s3.proxy.exceptions"))}):
        way["proxies"] = {}
    elif proxy:
        if client.proxy_user:
            user = ":".join(quote(part, "") for part in (client.proxy_user, client.proxy_password))
            proxy = proxy.replace("://", f"://{user}@", 1)
        way["proxies"] = {"http": proxy, "https": proxy}
    if client.ca_file:
        way["proxies_config"] = {"proxy_ca_bundle": client.ca_file}
    return way, (client.ca_file or None) if client.verify_peer else False


def _user_agent(keys: BucketConfiguration) -> str:
    from .._version import __version__

    prefix = keys.text("fs.s3a.user.agent.prefix")
    check_header("fs.s3a.user.agent.prefix", "User-Agent", prefix)
    ours = f"hflush/{__version__} python/{platform.python_version()}"
    return f"{prefix}, {ours}" if prefix else ours


def _delete_page(keys: BucketConfiguration) -> int:
    size = min(keys.number("fs.s3a.bulk.delete.page.size"), MAX_PAGE)
    return size if keys.flag("fs.s3a.multiobjectdelete.enable") else 1


def _performance(keys: BucketConfiguration) -> frozenset[str]:
    key = "fs.s3a.performance.flags"
    known = {"create", "delete", "mkdir", "open"}  # opening has nothing that could be left out
    flags = {name.lower() for name in keys.names(key)}
    if "*" in flags:
        flags = set(known)
    if unknown := flags - known:
        warn_once(f"{key}: not known here, and ignored: {', '.join(sorted(unknown))}")
    if keys.flag("fs.s3a.create.performance"):
        flags.add("create")
    elif keys.given("fs.s3a.create.performance"):
        flags.discard("create")
    return frozenset(flags & known)


# --- headers --------------------------------------------------------------------------------------


def check_header(key: str, name: str, value: str) -> None:
    """Refuse what would not arrive as it is.

    Raises
    ------
    ValueError
        The name is not a header name, or the value holds more than visible ASCII and blanks.
    """
    if not _core.s3_is_header_name(name):
        raise ValueError(f"{key}: {name!r} is not a header name")
    if not (value.isascii() and value.isprintable()):
        raise ValueError(f"{key}: a header holds visible ASCII characters and blanks only")


def object_headers(keys: BucketConfiguration, *, is_aws: bool) -> Headers:
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
        header = storage_class("fs.s3a.create.storage.class", name)
        if is_aws and header[1] not in _STORAGE_CLASSES:
            warn_once(
                f"fs.s3a.create.storage.class is {name}: AWS has no such class, and none is sent"
            )
        else:
            headers.append(header)
    if name := keys.text("fs.s3a.object.content.encoding"):
        check_header("fs.s3a.object.content.encoding", "Content-Encoding", name)
        headers.append(("Content-Encoding", name))
    return headers


def request_headers(keys: BucketConfiguration) -> Headers:
    """Return the headers of every request, all but those of SSE-C."""
    headers: Headers = []
    if keys.flag("fs.s3a.requester.pays.enabled"):
        headers.append(("x-amz-request-payer", "requester"))
    key = "fs.s3a.client.s3.custom.headers"
    pairs = [pair.partition("=") for pair in keys.text(key).split(",") if pair.strip()]
    for name, equals, value in pairs:
        if not equals:
            raise ValueError(f"{key} must be name=value, … or name=value;value, …")
        header = name.strip(), ",".join(part.strip() for part in value.split(";"))
        if header[0].lower() in _OURS:
            raise ValueError(f"{key}: {header[0]} is in each request anyway")
        check_header(key, *header)
        headers.append(header)
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
    prefix = ENCRYPTION_PREFIX
    if algorithm in ("", "SSE-C"):
        return []
    if algorithm == "AES256":
        if secret:
            raise ValueError(
                f"{key}={keys.text(key)} has no use for fs.s3a.encryption.key: ask for SSE-KMS, "
                "or set no key"
            )
        return [(prefix, "AES256")]
    if algorithm.startswith("CSE-"):
        raise ValueError(
            f"{key}={keys.text(key)} is not supported: without client-side encryption data "
            "would be sent unencrypted"
        )
    if algorithm not in ("SSE-KMS", "DSSE-KMS"):
        raise ValueError(
            f"{key} must be AES256, SSE-KMS, DSSE-KMS or SSE-C, not {keys.text(key)!r}"
        )
    if not secret and (store := keys.key_store()):
        raise ValueError(
            f"{store} names a key store of Java, which is not read, and which may have the key of "
            f"{key}={keys.text(key)}: set fs.s3a.encryption.key, alias/aws/s3 for AWS's own"
        )
    headers = [(prefix, "aws:kms" if algorithm == "SSE-KMS" else "aws:kms:dsse")]
    if secret:
        check_header("fs.s3a.encryption.key", prefix, secret)
        headers.append((f"{prefix}-aws-kms-key-id", secret))
    if context:
        pairs = [pair.partition("=") for pair in context.split(",") if pair.strip()]
        if not all(equals for _, equals, _ in pairs):
            raise ValueError("fs.s3a.encryption.context must be key=value, … ")
        document = json.dumps({name.strip(): value.strip() for name, _, value in pairs})
        headers.append((f"{prefix}-context", base64.b64encode(document.encode()).decode()))
    return headers


def customer_key_headers(keys: BucketConfiguration, scheme: str) -> Headers:
    """Return the headers of SSE-C, which go with every request that touches content."""
    if keys.text("fs.s3a.encryption.algorithm").upper() != "SSE-C":
        return []
    try:
        secret = base64.b64decode(keys.text("fs.s3a.encryption.key"), validate=True)
    except (ValueError, binascii.Error):
        secret = b""
    if len(secret) != 32:
        raise ValueError("fs.s3a.encryption.key must be the base64 of 32 bytes for SSE-C")
    if scheme != "https":
        raise ValueError("SSE-C needs TLS: the key is in every request")
    prefix = f"{ENCRYPTION_PREFIX}-customer"
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
        This Python has no MD5, as where only FIPS is allowed.
    """
    try:
        digest = hashlib.md5(data, usedforsecurity=False)
    except (AttributeError, ValueError) as missing:
        raise UnsupportedOperation(f"MD5 is not available (FIPS mode?): {missing}") from missing
    return base64.b64encode(digest.digest()).decode()


def integrity_of(data: bytes | memoryview) -> tuple[str, str]:
    """Return the header by which a store checks a body: the one that all take, else a newer one."""
    try:
        return "Content-MD5", md5_of(data)
    except UnsupportedOperation:
        return "x-amz-checksum-crc32c", crc_text(_core.crc32c(data))


def customer_key_id(headers: Headers) -> str:
    """Return what identifies a key of SSE-C without showing it; empty without one."""
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
# Of an object, as HTTP's own are; what else begins so has an option, or none.
_OBJECT_HEADERS = frozenset(
    (
        "x-amz-object-lock-legal-hold",
        "x-amz-object-lock-mode",
        "x-amz-object-lock-retain-until-date",
        "x-amz-tagging",
        "x-amz-website-redirect-location",
    )
)


def user_header(key: str, name: str, value: str) -> tuple[str, str]:
    """Return the header of an object that a user means: HTTP's or S3's own, else of metadata.

    Raises
    ------
    ValueError
        It cannot be sent, or is not the user's to set.
    """
    check_header(key, name, value)
    lowered = name.lower()
    if lowered in _HTTP_HEADERS:
        return _HTTP_HEADERS[lowered], value
    if lowered in _OBJECT_HEADERS:
        return lowered, value
    if lowered.startswith("x-amz-") and not lowered.startswith("x-amz-meta-"):
        raise ValueError(f"{key}: {name} has an option of its own, or is not to be set")
    metadata = lowered if lowered.startswith("x-amz-meta-") else f"x-amz-meta-{lowered}"
    if metadata == _core.S3_TOKEN_HEADER:
        raise ValueError(f"{key}: {name} is reserved for hflush")
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
