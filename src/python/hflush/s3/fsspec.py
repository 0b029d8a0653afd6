"""S3 as fsspec sees file systems: all buckets of a store, in the words of s3fs."""

from __future__ import annotations

import errno
import mimetypes
import re
from typing import TYPE_CHECKING, Any

from fsspec.core import has_magic  # type: ignore[import-untyped]

from .. import paths
from ..deprecations import RENAMED
from ..errors import unsupported, without_passwords
from ..filesystem import FileSystem
from ..fsspec.base import HflushFileSystem
from ..fsspec.options import check_hints, flag, table, without_keys
from ..fsspec.places import Place
from ..fsspec.transactions import dropped
from ..workers import Workers
from .completion import may_take_place
from .identity import bucket_of, caller_of_all, foreign, sent
from .names import holder, raise_first, results_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from ..configuration import Configuration, Value
    from ..fsspec.transactions import Deferred
    from ..output import FSDataOutputStream
    from ..status import FileStatus
    from .commit import PendingCommit
    from .filesystem import S3FileSystem
    from .streams import S3OutputStream

__all__ = ["WORDS", "HflushS3FileSystem"]

# Of s3fs: hints about its own caches, which have nothing to act on here.
_HINTS = frozenset(
    (
        "cache_regions",
        "default_block_size",
        "default_cache_type",
        "default_fill_cache",
        "max_concurrency",
    )
)
_CREDENTIALS = {
    "key": "aws_access_key_id",
    "secret": "aws_secret_access_key",
    "token": "aws_session_token",
}
# Names that are looked at together: each may be a request, and an answer that is held.
_LOOKS = 1000
_PROVIDER = "fs.s3a.aws.credentials.provider"
# How many file systems an instance keeps, each of a bucket, with its connections.
_KEPT = 64

WORDS = _HINTS | {
    "anon",
    "client_kwargs",
    "config_kwargs",
    "endpoint_url",
    "fixed_upload_size",
    "key",
    "password",
    "profile",
    "requester_pays",
    "s3_additional_kwargs",
    "secret",
    "token",
    "use_ssl",
    "username",
    "version_aware",
}


class HflushS3FileSystem(HflushFileSystem):
    """All buckets of a store that speaks S3, as fsspec sees file systems.

    Parameters
    ----------
    key, secret, token : str, optional
        Credentials: these and no others are used then. Also ``username`` and ``password``.
    anon : bool
        Sign nothing.
    profile : str, optional
        A profile of AWS's files, whose credentials are used.
    endpoint_url : str, optional
        The server.
    use_ssl : bool
        HTTPS, where the endpoint names no scheme.
    client_kwargs : mapping, optional
        ``endpoint_url``, ``region_name``, ``use_ssl``, ``verify``, ``aws_access_key_id``,
        ``aws_secret_access_key``, ``aws_session_token``.
    config_kwargs : mapping, optional
        ``s3`` (with ``addressing_style``), ``connect_timeout``, ``read_timeout``,
        ``max_pool_connections``, ``region_name``, ``retries`` (with ``max_attempts`` or
        ``total_max_attempts``; ``mode`` changes nothing), ``request_checksum_calculation``,
        ``user_agent_extra``. ``tcp_keepalive`` and ``response_checksum_validation`` change nothing.
    s3_additional_kwargs : mapping, optional
        ``ServerSideEncryption``, ``SSEKMSKeyId``, ``ACL``, ``StorageClass``, ``ContentEncoding``.
    requester_pays, fixed_upload_size : bool
        As for s3fs.
    conf : mapping, optional
        As for :meth:`hflush.FileSystem.get`; the words above come before its keys.

    Notes
    -----
    Names are ``bucket/key``, as s3fs has them. Without any of the words for credentials they come
    from the configuration, the environment, botocore. What is above the buckets cannot be listed.
    """

    __module__ = "hflush.fsspec"

    protocol = ("hflush+s3", "hflush+s3a", "hflushs3", "hflushs3a")
    root_marker = ""
    _written_schemes = frozenset(("s3", "s3a", "s3n", *protocol))
    _replaces = _replaces_unasked = ("s3", "s3a")
    _root = "a bucket"
    _words = WORDS

    @classmethod
    def _set_keys(cls, configuration: Configuration, given: Mapping[str, Any]) -> None:
        keys = _keys(given)
        for key in list(configuration):
            if _is_of_bucket(key, keys):  # what is named for all buckets holds for each
                del configuration[key]
        configuration.update(keys)

    def _connect(self, options: dict[str, Any]) -> None:  # noqa: ARG002
        self._stores: dict[str, FileSystem] = {}

    def _caller(self, with_secrets: bool) -> dict[str, str]:
        return caller_of_all(self._conf, with_secrets)

    @classmethod
    def _as_here(cls, conf: Any, options: Mapping[str, Any]) -> Any:
        said = {key: str(conf[key]) for key in sent(conf)}
        if not said:
            return conf
        configuration = cls._configured(without_keys(conf, said), options)
        return without_keys(conf, said.keys() - foreign(said, configuration).keys())

    @property
    def fsid(self) -> str:
        """The same for all that see the same files."""
        return f"hflush+s3:{self._conf.get('fs.s3a.endpoint', '')}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = paths.as_text(path)
        url = cls._as_url(text)
        if url is None:
            return text.strip("/")
        if not url[3] and url[4].strip("/"):
            shown = without_passwords(text)
            raise ValueError(f"a URL of s3 must name a bucket, as s3://bucket/key does: {shown!r}")
        return ((url[3] or "") + url[4]).rstrip("/")

    def _place(self, path: Any) -> Place:
        bucket, _, key = self._strip_protocol(path).partition("/")
        if not bucket:
            raise unsupported("an operation on all buckets", "s3: name one, as in bucket/key")
        store = self._stores.get(bucket)
        if store is None:
            made = FileSystem.get(f"s3://{bucket}/", self._conf)
            store = self._stores.setdefault(bucket, made)
            for oldest in list(self._stores)[:-_KEPT]:
                self._stores.pop(oldest, None)
        name = f"/{key}"
        return Place(store, name if paths.is_normal(name) else paths.Exact(name), bucket)

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """Return what is known of a path: name, size, type, mtime in seconds, ETag, …."""
        check_hints("info", options)
        if not self._strip_protocol(path):
            return {"name": "", "size": 0, "type": "directory"}
        return super().info(path, **options)

    def exists(self, path: str, **options: Any) -> bool:
        """Whether there is anything; failures other than absence are raised."""
        check_hints("exists", options)
        place = self._place(path) if self._strip_protocol(path) else None
        if place is None:
            return True
        return _has_bucket(place.store) if place.path == "/" else super().exists(path, **options)

    def lexists(self, path: str, **options: Any) -> bool:
        """Whether there is anything: S3 has no links."""
        return self.exists(path, **options)

    def mkdir(
        self, path: str, create_parents: bool = True, mode: int | None = None, **options: Any
    ) -> None:
        """Make a directory that does not exist; buckets are not made, and `mode` means nothing."""
        if self._place(path).path == "/" and not self.exists(path):
            raise unsupported("making a bucket", "s3", path)
        super().mkdir(path, create_parents, mode, **options)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a directory and its missing parents; buckets are not made.

        With `exist_ok` a name that is no path, as there is above a key, stands for the path above.
        """
        if not exist_ok:
            self.mkdir(path)
            return
        place = self._place(path)
        name = place.path if paths.is_normal(place.path) else holder(place.path)
        if name != "/":  # a bucket that is missing is noticed by the next call
            super().makedirs(place.name_of(name), exist_ok)

    def put_file(self, lpath: Any, rpath: str, *args: Any, **options: Any) -> None:
        """Write the bytes of a local file, whose name says the content type, as in s3fs."""
        kind, encoding = mimetypes.guess_type(lpath)
        named = (re.sub("[._]", "-", option.lower()) for option in options)
        if kind and not encoding and not any(name.endswith("content-type") for name in named):
            options["content_type"] = kind
        super().put_file(lpath, rpath, *args, **options)

    def _mv(self, source: Place, target: Place) -> None:
        if source.store is target.store:
            super()._mv(source, target)
        else:
            self._move_by_copying(source, target)

    def _rename_into(self, source: Place, target: Place) -> bool:
        """Move within a bucket: a file takes a file's place, as between buckets and in s3fs."""
        store: Any = source.store
        old, new = map(store._resolve_to_change, (source.path, target.path))
        return bool(store._rename(old, new, replaces=True))

    def _files_of(self, found: Mapping[str, str | None]) -> set[str]:
        """Return also those whose names directories have, too, as a listing of each tree shows."""
        files = super()._files_of(found)
        for name, kind in found.items():
            if kind == "directory" and found.get(self._parent(name)) != "directory":
                files.update(self.find(name))
        return files

    def _found_at_once(
        self, path: str, maxdepth: int | None, withdirs: bool
    ) -> dict[str, Any] | None:
        """Return what pages of a flat listing tell, and a look whether the directory is a file."""
        if maxdepth is not None and maxdepth < 2:  # one listing shows a level
            return None
        place = self._place(path)
        store: Any = place.store
        try:
            tree = store._tree(store._resolve(place.path), maxdepth)
        except PermissionError:  # levels may be listed all the same
            return None
        if tree is None:
            return None
        files: dict[str, Any] = {}
        directories: dict[str, Any] = {}
        for status in tree:
            entry = self._described(status, place)
            (files if status.is_file else directories)[entry["name"]] = entry
        if not files and len(directories) == 1:  # its name may be that of a file
            return None
        if not withdirs:
            return dict(sorted(files.items()))
        if store._is_file(place.path):
            del directories[place.name_of(place.path)]
        return dict(sorted((files | directories).items()))

    def _kinds(self, places: Sequence[Place]) -> dict[Place, str | None]:
        found: dict[Place, str | None] = {}
        for store, held in _by_store(places).items():
            for start in range(0, len(held), _LOOKS):
                page = {store._resolve(one.path): one for one in held[start : start + _LOOKS]}
                kinds = store._kinds(list(page))
                found.update((page[path], kind) for path, kind in kinds.items())
        return found

    def _remove_files(self, doomed: Mapping[Place, str]) -> None:
        """Remove objects by requests for many."""
        for store, held in _by_store(doomed).items():
            raise_first(store._remove_files([store._resolve_to_change(one.path) for one in held]))

    def _is_pattern(self, name: Any) -> bool:
        bucket = self._strip_protocol(name).partition("/")[0]
        return bool(has_magic(bucket)) or super()._is_pattern(name)

    def _deferred(self, place: Place, options: dict[str, Any]) -> Deferred:
        store: Any = place.store
        return PendingFile(store, store.create_pending(place.path, **options))

    def _copy_file(self, source: Place, target: Place) -> None:
        if source.store is target.store:
            source.store.copy(source.path, target.path, overwrite=True)
        else:
            super()._copy_file(source, target)

    def _copy_each(
        self,
        copy: Callable[[str, str], None],
        jobs: Sequence[tuple[str, str]],
        files: Collection[str],
    ) -> None:
        """Make several copies at once, directories first, where the store makes them."""
        places = [self._place(name) for job in jobs for name in job]
        stores: set[Any] = {place.store for place in places}
        if len(stores) != 1 or len(set(places)) < len(places):  # the order may matter
            super()._copy_each(copy, jobs, files)
            return
        threads = stores.pop()._settings_of_bucket.copy_threads
        with Workers(threads, thread_name_prefix="hflush-s3") as executor:
            for is_file in (False, True):
                now = [job for job in jobs if (job[0] in files) is is_file]
                results_of([executor.submit(copy, *job) for job in now])

    def _described(self, status: FileStatus, place: Place) -> dict[str, Any]:
        described = super()._described(status, place)
        return {**described, "ETag": status.etag} if status.etag else described


def _by_store(places: Iterable[Place]) -> dict[Any, list[Place]]:
    found: dict[Any, list[Place]] = {}
    for place in places:
        found.setdefault(place.store, []).append(place)
    return found


def _has_bucket(store: FileSystem) -> bool:
    try:
        next(store.list_status_iterator("/"), None)
    except FileNotFoundError:
        return False
    return True


class PendingFile:
    """An upload to S3: all parts are there when it is sealed."""

    def __init__(self, store: S3FileSystem, stream: S3OutputStream) -> None:
        self.stream: FSDataOutputStream = stream
        self._output = stream
        self._store = store
        self._left: OSError | None = None  # why the upload is not aborted

    def seal(self) -> None:
        """Upload what is left."""
        self._output._publish()
        self._pending()

    def publish(self) -> None:
        """Complete the upload. Where it is not known whether the store has, it may be at work."""
        commit = self._pending()
        try:
            self._store.complete_pending(commit)
        except BaseException as failure:
            if may_take_place(failure):
                left = f"upload {commit.upload_id} may be left"
                self._left = OSError(errno.EIO, left, self._output.path)
            raise

    def _pending(self) -> PendingCommit:
        commit = self._output.pending_commit
        if commit is None:
            raise dropped(self._output.path)
        return commit

    def discard(self) -> OSError | None:
        """Abort the upload, unless the store may be completing it; return why it may be left."""
        if self._left is not None:
            return self._left
        commit = self._output.pending_commit
        if commit is None:
            return self._output.abort().cleanup_exception
        try:
            self._store.abort_pending(commit)
        except OSError as failure:
            return failure
        return None


def _is_of_bucket(key: str, keys: Mapping[str, Value]) -> bool:
    bucket, name = bucket_of(key)
    return bucket != "" and not keys.keys().isdisjoint(RENAMED.get(name, (name,)))


def _keys(options: Mapping[str, Any]) -> dict[str, Value]:
    given = dict(options)
    for word, other in (("key", "username"), ("secret", "password")):
        if other in given:
            if word in given:
                raise ValueError(f"give either {word!r} or {other!r}, not both")
            given[word] = given.pop(other)
    client = table(given, "client_kwargs", _CLIENT_WORDS)
    keys = _s3_credentials(given, client)
    if endpoint := given.get("endpoint_url", client.get("endpoint_url")):
        keys["fs.s3a.endpoint"] = str(endpoint)
    if region := client.get("region_name"):
        keys["fs.s3a.endpoint.region"] = str(region)
    uses_tls = client.get("use_ssl", given.get("use_ssl"))
    if uses_tls is not None:
        keys["fs.s3a.connection.ssl.enabled"] = flag("use_ssl", uses_tls)
    verify = client.get("verify")
    if isinstance(verify, bool):
        keys["hflush.s3.ssl.verify"] = verify
    elif verify is not None:
        keys["hflush.s3.ssl.verify"] = True
        keys["hflush.s3.ssl.ca.file"] = str(verify)
    if "requester_pays" in given:
        keys["fs.s3a.requester.pays.enabled"] = flag("requester_pays", given["requester_pays"])
    if "fixed_upload_size" in given:
        keys["hflush.s3.multipart.uniform"] = flag("fixed_upload_size", given["fixed_upload_size"])
    if flag("version_aware", given.get("version_aware", False)):
        raise unsupported("version_aware", "s3")
    return keys | _s3_client_settings(given) | _s3_object_settings(given)


def _s3_credentials(given: Mapping[str, Any], client: Mapping[str, Any]) -> dict[str, Value]:
    """Return keys under which nothing but the credentials that were named can be used."""
    named = {
        word: str(value)
        for word, name in _CREDENTIALS.items()
        if (value := given.get(word, client.get(name))) is not None
    }
    if not named.get("token"):
        named.pop("token", None)
    anonymous = flag("anon", given.get("anon", False))
    profile = given.get("profile")
    ways = [
        word
        for word, used in (("anon", anonymous), ("key", any(named.values())), ("profile", profile))
        if used
    ]
    if len(ways) > 1:
        raise ValueError(f"{' and '.join(ways)} contradict each other: name one")
    if anonymous:
        return {_PROVIDER: "AnonymousAWSCredentialsProvider"}
    if profile:
        return {
            _PROVIDER: "ProfileAWSCredentialsProvider",
            "fs.s3a.auth.profile.name": str(profile),
        }
    for word, value in (("profile", profile), *named.items()):
        if value == "":
            raise ValueError(f"{word} is empty: to name no credentials leave it out")
    if not named:
        return {}
    for word in ("key", "secret"):
        if word not in named:
            raise ValueError(f"{' and '.join(named)} without {word}")
    kind = "Temporary" if "token" in named else "Simple"
    return {
        _PROVIDER: f"{kind}AWSCredentialsProvider",
        "fs.s3a.access.key": named["key"],
        "fs.s3a.secret.key": named["secret"],
        "fs.s3a.session.token": named.get("token", ""),
    }


def _s3_client_settings(given: Mapping[str, Any]) -> dict[str, Value]:
    """Return the keys that ``config_kwargs``, botocore's Config, mean."""
    config = table(given, "config_kwargs", _CONFIG_WORDS)
    keys: dict[str, Value] = {}
    for word, key in _TIMEOUTS.items():
        if word in config:
            keys[key] = f"{round(float(config[word]) * 1000)}ms"
    if "max_pool_connections" in config:
        keys["fs.s3a.connection.maximum"] = int(config["max_pool_connections"])
    if "region_name" in config:
        keys["fs.s3a.endpoint.region"] = str(config["region_name"])
    if config.get("signature_version", "s3v4") != "s3v4":
        raise ValueError(
            f"config_kwargs: signature_version must be 's3v4', not {config['signature_version']!r}"
        )
    for word in _CHECKSUM_WORDS:
        if config.get(word, "when_supported") not in ("when_supported", "when_required"):
            raise ValueError(f"{word} must be when_supported or when_required: {config[word]!r}")
    if config.get(_CHECKSUM_WORDS[0]) == "when_required":
        keys["fs.s3a.create.checksum.algorithm"] = "NONE"
    if "user_agent_extra" in config:
        keys["fs.s3a.user.agent.prefix"] = str(config["user_agent_extra"])
    retries = table(config, "retries", ("max_attempts", "mode", "total_max_attempts"))
    if "max_attempts" in retries:
        keys["fs.s3a.retry.limit"] = int(retries["max_attempts"])
    if "total_max_attempts" in retries:
        keys["fs.s3a.retry.limit"] = int(retries["total_max_attempts"]) - 1
    style = table(config, "s3", ("addressing_style",)).get("addressing_style")
    if style is not None:
        if style not in _STYLES:
            raise ValueError(f"addressing_style must be one of {', '.join(_STYLES)}, not {style!r}")
        keys["fs.s3a.path.style.access"] = _STYLES[style]
    return keys


def _s3_object_settings(given: Mapping[str, Any]) -> dict[str, Value]:
    """Return the keys that ``s3_additional_kwargs``, parameters of requests, mean."""
    additional = table(given, "s3_additional_kwargs", _OBJECT_WORDS)
    keys: dict[str, Value] = {_OBJECT_WORDS[word]: str(additional[word]) for word in additional}
    if additional.get("SSEKMSKeyId") == "":
        raise ValueError("SSEKMSKeyId is empty: for the key that is usual there leave it out")
    if (algorithm := additional.get("ServerSideEncryption")) is not None:
        if algorithm not in _ALGORITHMS:
            raise ValueError(
                f"ServerSideEncryption must be one of {', '.join(_ALGORITHMS)}, not {algorithm!r}"
            )
        keys["fs.s3a.encryption.algorithm"] = _ALGORITHMS[algorithm]
        # One that is configured is for the algorithm that is, perhaps a secret of the customer's.
        keys.setdefault("fs.s3a.encryption.key", "")
    elif "SSEKMSKeyId" in additional:
        raise ValueError("SSEKMSKeyId without ServerSideEncryption: aws:kms, or aws:kms:dsse")
    return keys


_CLIENT_WORDS = (
    "endpoint_url",
    "region_name",
    "use_ssl",
    "verify",
    *_CREDENTIALS.values(),
)
_TIMEOUTS = {
    "connect_timeout": "fs.s3a.connection.establish.timeout",
    "read_timeout": "fs.s3a.connection.timeout",
}
# What parts and objects are summed for, and what is read.
_CHECKSUM_WORDS = ("request_checksum_calculation", "response_checksum_validation")
_CONFIG_WORDS = (
    "max_pool_connections",
    "region_name",
    "retries",
    "s3",
    "signature_version",
    "tcp_keepalive",
    "user_agent_extra",
    *_CHECKSUM_WORDS,
    *_TIMEOUTS,
)
_STYLES = {"auto": "auto", "path": "true", "virtual": "false"}
_OBJECT_WORDS = {
    "ACL": "fs.s3a.acl.default",
    "ContentEncoding": "fs.s3a.object.content.encoding",
    "SSEKMSKeyId": "fs.s3a.encryption.key",
    "ServerSideEncryption": "fs.s3a.encryption.algorithm",
    "StorageClass": "fs.s3a.create.storage.class",
}
_ALGORITHMS = {"AES256": "AES256", "aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS"}
