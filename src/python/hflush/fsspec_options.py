"""Storage options of fsspec as Hadoop's keys: the words of s3fs and of fsspec's own hdfs.

Nothing is asked of a store here. A word that means nothing to hflush is refused: what is swallowed
would write with other credentials, or to another store, than the caller has named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .configuration import Configuration
from .errors import unsupported
from .hdfs.keys import USER
from .s3.keys import HADOOP_PREFIX, OLD_NAMES, OWN_PREFIX
from .spelling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .configuration import Value
    from .namespace import Conf

__all__ = ["GENERIC", "ExactConf", "check_known", "configured", "without_secrets"]

# What AbstractFileSystem itself and its cache of instances take.
GENERIC = frozenset(
    (
        "add_aliases",
        "add_docs",
        "asynchronous",
        "listings_expiry_time",
        "loop",
        "max_paths",
        "skip_instance_cache",
        "use_listings_cache",
    )
)
# Of s3fs: hints about its own caches, which have nothing to act on here.
S3_HINTS = frozenset(
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
_SECRET_WORDS = frozenset(("key", "password", "secret", "token", "username"))
_SECRET_CLIENT_WORDS = frozenset(_CREDENTIALS.values())
_PROVIDER = "fs.s3a.aws.credentials.provider"

S3_WORDS = S3_HINTS | {
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
HDFS_WORDS = frozenset(("extra_conf", "host", "kerb_ticket", "port", "replication", "user"))
FILE_WORDS = frozenset(("auto_mkdir",))


class ExactConf(dict[str, str]):
    """All keys of a :class:`hflush.Configuration`: no defaults come below them.

    fsspec tells instances apart by what their options look like, and a configuration does not show
    its values.
    """


def check_known(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names that nobody here understands.

    Raises
    ------
    TypeError
        Names the first, one that is like it, and all that are known.
    """
    names = sorted(known)
    for name in given:
        if name not in names:
            raise TypeError(
                f"unknown {what} {name!r}{did_you_mean(str(name), names)}; "
                f"there are {', '.join(names)}"
            )


def configured(scheme: str, conf: Conf, options: Mapping[str, Any]) -> Configuration:
    """Return the configuration that storage options of a scheme come to, on top of `conf`.

    Raises
    ------
    TypeError, ValueError
        An option is unknown; it contradicts another; its value means nothing.
    io.UnsupportedOperation
        It asks for Kerberos.
    """
    if isinstance(conf, ExactConf):
        configuration = Configuration(load_defaults=False)
        configuration.update(conf)
    else:
        configuration = Configuration.of(conf).copy()
    given = {name: value for name, value in options.items() if value is not None}
    translate, words = _TRANSLATIONS[scheme]
    check_known("storage option", options, words | GENERIC | {"conf"})
    keys = translate(given)
    for key in list(configuration):
        if _is_of_bucket(key, keys):  # what is named for all buckets holds for each
            del configuration[key]
    configuration.update(keys)
    return configuration


def _is_of_bucket(key: str, keys: Mapping[str, Value]) -> bool:
    for prefix in (HADOOP_PREFIX, OWN_PREFIX):
        if key.startswith(f"{prefix}bucket."):
            rest = key[len(prefix) + len("bucket.") :]
            return any(
                rest.endswith("." + name.removeprefix(prefix))
                for name in (*keys, *(old for old, new in OLD_NAMES.items() if new in keys))
                if name.startswith(prefix)
            )
    return False


# --- s3 -------------------------------------------------------------------------------------------


def _s3_keys(options: Mapping[str, Any]) -> dict[str, Value]:
    given = dict(options)
    for word, other in (("key", "username"), ("secret", "password")):
        if other in given:
            if word in given:
                raise ValueError(f"give either {word!r} or {other!r}, not both")
            given[word] = given.pop(other)
    client = _table(given, "client_kwargs", _CLIENT_WORDS)
    keys = _s3_credentials(given, client)
    if endpoint := given.get("endpoint_url", client.get("endpoint_url")):
        keys["fs.s3a.endpoint"] = str(endpoint)
    if region := client.get("region_name"):
        keys["fs.s3a.endpoint.region"] = str(region)
    uses_tls = client.get("use_ssl", given.get("use_ssl"))
    if uses_tls is not None:
        keys["fs.s3a.connection.ssl.enabled"] = _flag("use_ssl", uses_tls)
    verify = client.get("verify")
    if isinstance(verify, bool):
        keys["hflush.s3.ssl.verify"] = verify
    elif verify is not None:
        keys["hflush.s3.ssl.verify"] = True
        keys["hflush.s3.ssl.ca.file"] = str(verify)
    if "requester_pays" in given:
        keys["fs.s3a.requester.pays.enabled"] = _flag("requester_pays", given["requester_pays"])
    if "fixed_upload_size" in given:
        keys["hflush.s3.multipart.uniform"] = _flag("fixed_upload_size", given["fixed_upload_size"])
    if _flag("version_aware", given.get("version_aware", False)):
        raise unsupported("version_aware", "s3")
    return keys | _s3_client_settings(given) | _s3_object_settings(given)


def _s3_credentials(given: Mapping[str, Any], client: Mapping[str, Any]) -> dict[str, Value]:
    """Return keys under which nothing but the credentials that were named can be used."""
    named = {
        word: str(value)
        for word, name in _CREDENTIALS.items()
        if (value := given.get(word, client.get(name)))
    }
    anonymous = _flag("anon", given.get("anon", False))
    profile = given.get("profile")
    ways = [
        word for word, used in (("anon", anonymous), ("key", named), ("profile", profile)) if used
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
    if not named:
        return {}
    for word in ("key", "secret"):
        if word not in named:
            raise ValueError(f"{' and '.join(named)} without {word}")
    return {
        _PROVIDER: "SimpleAWSCredentialsProvider",
        "fs.s3a.access.key": named["key"],
        "fs.s3a.secret.key": named["secret"],
        "fs.s3a.session.token": named.get("token", ""),
    }


def _s3_client_settings(given: Mapping[str, Any]) -> dict[str, Value]:
    """Return what ``config_kwargs``, botocore's Config, come to."""
    config = _table(given, "config_kwargs", _CONFIG_WORDS)
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
    retries = _table(config, "retries", ("max_attempts",))
    if "max_attempts" in retries:
        keys["fs.s3a.retry.limit"] = int(retries["max_attempts"])
    style = _table(config, "s3", ("addressing_style",)).get("addressing_style")
    if style is not None:
        if style not in _STYLES:
            raise ValueError(f"addressing_style must be one of {', '.join(_STYLES)}, not {style!r}")
        keys["fs.s3a.path.style.access"] = _STYLES[style]
    return keys


def _s3_object_settings(given: Mapping[str, Any]) -> dict[str, Value]:
    """Return what ``s3_additional_kwargs``, parameters of requests, come to."""
    additional = _table(given, "s3_additional_kwargs", _OBJECT_WORDS)
    keys: dict[str, Value] = {_OBJECT_WORDS[word]: str(additional[word]) for word in additional}
    if algorithm := additional.get("ServerSideEncryption"):
        if algorithm not in _ALGORITHMS:
            raise ValueError(
                f"ServerSideEncryption must be one of {', '.join(_ALGORITHMS)}, not {algorithm!r}"
            )
        keys["fs.s3a.encryption.algorithm"] = _ALGORITHMS[algorithm]
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
_CONFIG_WORDS = (
    "max_pool_connections",
    "region_name",
    "retries",
    "s3",
    "signature_version",
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


def _table(given: Mapping[str, Any], word: str, known: Iterable[str]) -> dict[str, Any]:
    """Return the words inside one that is a mapping; all are known."""
    table = dict(given.get(word) or {})
    check_known(f"word in {word}", table, known)
    return {name: value for name, value in table.items() if value is not None}


def _flag(word: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{word} must be bool, not {type(value).__name__}")
    return value


# --- hdfs and local files -------------------------------------------------------------------------


def _hdfs_keys(options: Mapping[str, Any]) -> dict[str, Value]:
    keys: dict[str, Value] = dict(options.get("extra_conf") or {})
    if "kerb_ticket" in options:
        raise unsupported("kerb_ticket (Kerberos)", "hdfs")
    if user := options.get("user"):
        keys[USER] = str(user)
    if "replication" in options:
        keys["dfs.replication"] = int(options["replication"])
    return keys


def _no_keys(_: Mapping[str, Any]) -> dict[str, Value]:
    return {}


_TRANSLATIONS: dict[str, tuple[Callable[[Mapping[str, Any]], dict[str, Value]], frozenset[str]]] = {
    "file": (_no_keys, FILE_WORDS),
    "hdfs": (_hdfs_keys, HDFS_WORDS),
    "s3": (_s3_keys, frozenset(S3_WORDS)),
}


# --- secrets --------------------------------------------------------------------------------------


def without_secrets(options: Mapping[str, Any], configuration: Configuration) -> dict[str, Any]:
    """Return storage options as they may be stored or sent.

    Those with credentials are left out, and so are keys of ``conf`` that are secret.
    """
    kept = {name: value for name, value in options.items() if name not in _SECRET_WORDS}
    if client := kept.get("client_kwargs"):  # whatever dict() takes, as where it is read
        kept["client_kwargs"] = {
            name: value for name, value in dict(client).items() if name not in _SECRET_CLIENT_WORDS
        }
    for word in ("conf", "extra_conf"):
        if conf := kept.get(word):
            kept[word] = (ExactConf if isinstance(conf, ExactConf) else dict)(
                (key, value)
                for key, value in dict(conf).items()
                if not configuration.is_secret(key)
            )
    return kept
