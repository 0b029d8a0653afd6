"""Storage options of fsspec: which exist, and which may be sent to another process.

No store is asked here. An option that hflush does not know is refused: to ignore it could mean
writing with other credentials, or to another store, than the caller has named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..configuration import Configuration
from ..general_keys import PICKLE_SECRETS, S3_PICKLE_SECRETS
from ..spelling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..namespace import Conf

__all__ = [
    "GENERIC",
    "PICKLE_WORDS",
    "ExactConf",
    "base",
    "check_hints",
    "check_known",
    "flag",
    "settled",
    "table",
    "with_keys",
    "without_keys",
    "without_secrets",
]

# Whether what is sent takes its secrets along: one option, and the keys that it stands for.
PICKLE_WORDS = ("pickle_secrets", PICKLE_SECRETS, S3_PICKLE_SECRETS)
# Options of AbstractFileSystem itself and of its cache of instances.
GENERIC = frozenset(
    (
        *PICKLE_WORDS,
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
_SECRET_WORDS = frozenset(("key", "password", "secret", "token", "username"))
_SECRET_CLIENT_WORDS = frozenset(
    ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
)


class ExactConf(dict[str, str]):
    """All keys of a :class:`hflush.Configuration`: no defaults are added to them.

    fsspec tells instances apart by the repr of their options, and a configuration's repr does not
    show its values.
    """


def check_known(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names that are not known here.

    Raises
    ------
    TypeError
        The message names the first, one that is like it, and all that are known.
    """
    names = sorted(known)
    for name in given:
        if name not in names:
            raise TypeError(
                f"unknown {what} {name!r}{did_you_mean(str(name), names)}; "
                f"there are {', '.join(names)}"
            )


def check_hints(operation: str, given: Mapping[str, object]) -> None:
    """Refuse options that an operation does not have; `refresh` and values of None are no wish.

    Raises
    ------
    TypeError
        The message names the first.
    """
    for name, value in given.items():
        if name != "refresh" and value is not None:
            raise TypeError(f"{operation}: an option {name!r} is not known here: leave it out")


def base(conf: Conf) -> Configuration:
    """Return a new configuration, to set storage options on."""
    if isinstance(conf, ExactConf):
        configuration = Configuration(load_defaults=False)
        configuration.update(conf)
        return configuration
    return Configuration.of(conf).copy()


def table(given: Mapping[str, Any], word: str, known: Iterable[str]) -> dict[str, Any]:
    """Return the entries of an option that is a mapping; refuse unknown ones."""
    table = dict(given.get(word) or {})
    check_known(f"word in {word}", table, known)
    return {name: value for name, value in table.items() if value is not None}


def flag(word: str, value: object) -> bool:
    """Return an option that must be a bool."""
    if not isinstance(value, bool):
        raise TypeError(f"{word} must be bool, not {type(value).__name__}")
    return value


# --- secrets --------------------------------------------------------------------------------------


def without_secrets(options: Mapping[str, Any], configuration: Configuration) -> dict[str, Any]:
    """Return storage options as they may be stored or sent.

    Those with credentials are left out, and so are keys of ``conf`` that are secret.
    """
    kept = {name: value for name, value in options.items() if name not in _SECRET_WORDS}
    if client := kept.get("client_kwargs"):  # anything that dict() accepts
        kept["client_kwargs"] = {
            name: value for name, value in dict(client).items() if name not in _SECRET_CLIENT_WORDS
        }
    hidden = configuration.secret_keys()
    for word in ("conf", "extra_conf"):
        if conf := kept.get(word):
            kept[word] = (ExactConf if isinstance(conf, ExactConf) else dict)(
                (key, value)
                for key, value in dict(conf).items()
                if key.strip() not in hidden and not configuration.is_secret(key)
            )
    return kept


def settled(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return storage options with what the process says in place of ``${env.NAME}`` and its kin."""
    kept = dict(options)
    for word in ("conf", "extra_conf"):
        conf = dict(kept.get(word) or {})
        if any("${" in str(value) for value in conf.values()):
            configuration = Configuration(load_defaults=False)
            configuration.update(conf)
            kind = ExactConf if isinstance(kept[word], ExactConf) else dict
            kept[word] = kind(configuration.items_to_send())
    return kept


def with_keys(options: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """Return storage options with more keys of ``conf``."""
    if not keys:
        return dict(options)
    conf = options.get("conf") or {}
    kind = ExactConf if isinstance(conf, ExactConf) else dict
    return {**options, "conf": kind({**dict(conf), **keys})}


def without_keys(conf: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return a ``conf`` without some keys."""
    kept = {name: value for name, value in dict(conf).items() if name not in names}
    return ExactConf(kept) if isinstance(conf, ExactConf) else kept
