"""The registered stores, and the shared file systems.

A store registers itself when its package is imported, with one call of :func:`register`. Everything
above asks here: no other module knows a scheme.

    register(Store(schemes=("mem",), factory="mypackage.mem:MemoryFileSystem"))
"""

from __future__ import annotations

import errno
import os
import threading
import weakref

from . import options, paths, spelling
from .configuration import caller
from .errors import InternalError, UnsupportedFileSystemError
from .general_keys import KEYS as GENERAL_KEYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeAlias

    from .configuration import Configuration
    from .paths import Location, StrPath

    # Takes scheme, authority and configuration; returns a FileSystem, a class above this module.
    Factory: TypeAlias = "Callable[[str, str, Configuration], Any]"

__all__ = ["Store", "identity", "kind", "known_keys", "load", "register", "replace", "stores"]


class Store:
    """What a store registers.

    Parameters
    ----------
    schemes : iterable of str
        The schemes of its URLs, the usual one first.
    factory : str or callable
        Makes a file system from a scheme, an authority and a configuration: the class itself, a
        function, or ``"module:name"``, which is imported at the first use.
    aliases : mapping, optional
        Other names of schemes, and the scheme that each stands for: ``{"s3a": "s3"}``.
    create_keywords : mapping, optional
        Keyword arguments of create and append that are short for keys of this store alone.
    key_families : iterable of str, optional
        Prefixes of configuration keys that this store checks itself.
    keys : str, optional
        ``"module:name"``: its table of configuration keys, a tuple of :class:`hflush.keys.Key`.
    fsspec : str, optional
        ``"module:Class"``: the subclass of :class:`hflush.fsspec.HflushFileSystem` for its URLs.
    environment : iterable of str, optional
        The variables that say where its file systems lead, and as whom: where one has changed,
        another is made. None: those of all stores, to which they may lead.
    """

    __slots__ = (
        "aliases", "create_keywords", "environment", "factory", "fsspec", "key_families", "keys",
        "schemes",
    )  # fmt: skip

    def __init__(
        self,
        schemes: Iterable[str],
        factory: Factory | str,
        *,
        aliases: Mapping[str, str] | None = None,
        create_keywords: Mapping[str, str] | None = None,
        key_families: Iterable[str] = (),
        keys: str = "",
        fsspec: str = "",
        environment: Iterable[str | bytes] | None = (),
    ) -> None:
        self.schemes = tuple(schemes)
        self.factory = factory
        self.aliases = dict(aliases or {})
        self.create_keywords = dict(create_keywords or {})
        self.key_families = tuple(key_families)
        self.keys = keys
        self.fsspec = fsspec
        self.environment = None if environment is None else tuple(map(os.fsencode, environment))

    def __repr__(self) -> str:
        return f"Store({', '.join(self.schemes)})"


_stores: dict[str, Store] = {}  # by scheme

# How many shared file systems are kept that are not in use: of one place and user, with different
# configurations (fresh session tokens, say), and in all.
_KEPT_OF_PLACE = 8
_KEPT = 64

# The shared ones by place, user, and what is configured, by keys and by variables; the last used
# last: itself while it is kept, a weak reference when it is not.
_cache: dict[tuple[object, ...], Any] = {}
_cache_lock = threading.RLock()
# The ends of the names of Hadoop's classes that resolve mount tables under other schemes.
_VIEWS = (".ViewFileSystemOverloadScheme", ".ViewDistributedFileSystem")
# Hadoop's key of a file that mount tables are in, apart from its configuration.
_TABLES_ELSEWHERE = "fs.viewfs.mounttable.path"


def register(store: Store) -> None:
    """Let a store serve its schemes, in place of any store that did."""
    _stores.update(dict.fromkeys(store.schemes, store))
    paths.add_schemes(store.schemes, store.aliases)
    options.CREATE_KEYWORDS.update(store.create_keywords)
    spelling.leave_to_store(store.key_families)


def replace(scheme: str, factory: Factory) -> None:
    """Let `factory` make the file systems of a scheme; the rest of its registration stays."""
    known = _stores.get(scheme)
    keys, fsspec, environment = (
        (known.keys, known.fsspec, known.environment) if known else ("", "", ())
    )
    register(Store((scheme,), factory, keys=keys, fsspec=fsspec, environment=environment))


def stores() -> list[Store]:
    """Return the stores that are registered, each once, in the order of their registration."""
    return list(dict.fromkeys(_stores.values()))


def kind(scheme: str) -> Any:
    """Return the class of the file systems of a scheme; None if it is unknown, or has no class."""
    store = _stores.get(paths.canonical_scheme(scheme))
    factory = store and (load(store.factory) if isinstance(store.factory, str) else store.factory)
    return factory if isinstance(factory, type) else None


def known_keys() -> set[str]:
    """Return the names of all configuration keys: the general ones and those of each store."""
    tables = [load(store.keys) for store in stores() if store.keys]
    return {key.name for table in (GENERAL_KEYS, *tables) for key in table}


def load(place: str) -> Any:
    """Return what ``"module:name"`` names."""
    import importlib

    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


# --- file systems --------------------------------------------------------------------------------


def shared(url: StrPath | None, conf: Configuration) -> Any:
    """Return the file system of a URL, shared by all callers of one user, conf and environment.

    It is kept for the next caller, unless many others have been asked for since and neither a
    program nor a stream uses it. Nothing is shared where ``fs.SCHEME.impl.disable.cache`` is true.
    """
    location = _locate(url, conf)
    names = paths.spellings(location.scheme)
    if any(conf.get_bool(f"fs.{name}.impl.disable.cache") for name in names):
        return _make(location, conf)
    key = identity(location.scheme, location.authority, conf)
    found = _found(key)
    if found is not None:
        return found
    # Without the lock: this imports, and logs, for which it takes logging's lock; and the holder of
    # that may ask for a file system, for a log.
    new = _make(location, conf)
    dropped: list[Any] = []
    with _cache_lock:
        found = _found(key)  # another thread has made one meanwhile
        if found is None:
            dropped = _let_go(key[:-1])
            found = _cache[key] = new
    del dropped, new  # without the lock: connections may end
    return found


def identity(scheme: str | None, authority: str, conf: Configuration) -> tuple[object, ...]:
    """Return what two file systems have in common that are one to who asks: secrets are in it."""
    configured = (conf.identity(), _environment(scheme))
    return scheme, authority, caller(), configured


def _environment(scheme: str | None) -> tuple[bytes | None, ...]:
    """Return what the environment says to the store of a scheme: secrets are among it."""
    store = _stores.get(scheme or "")
    if store is None or store.environment == ():
        return ()
    return environment() if store.environment is None else _values(store.environment)


def environment() -> tuple[bytes | None, ...]:
    """Return what the environment says to all stores: secrets are among it."""
    return _values(tuple(name for store in stores() for name in store.environment or ()))


def _values(names: Iterable[bytes]) -> tuple[bytes | None, ...]:
    # What os.environ has them in: it takes a microsecond for each that is missing.
    variables: Any = getattr(os.environ, "_data", os.environb)
    return tuple(map(variables.get, names))


def _found(key: tuple[object, ...]) -> Any:
    """Return what is shared by a key, now the last that was used; None if there is none."""
    with _cache_lock:
        found = _alive(_cache.pop(key, None))
        if found is not None:
            _cache[key] = found
    return found


def _alive(entry: Any) -> Any:
    """Return the file system of an entry; None if it is gone."""
    return entry() if isinstance(entry, weakref.ref) else entry


def _let_go(place: tuple[object, ...]) -> list[Any]:
    """Make room for another of a place: return those that are not kept any more, oldest first.

    One that a program has changed is kept: it has a working directory, say, or paths to remove.
    """
    kept = []
    for key, entry in list(_cache.items()):
        if not isinstance(entry, weakref.ref):
            kept.append(key)
        elif entry() is None:
            del _cache[key]
    of_place = [key for key in kept if key[:-1] == place]
    surplus = [*of_place[: 1 - _KEPT_OF_PLACE or None], *kept[: 1 - _KEPT or None]]
    let_go = [key for key in dict.fromkeys(surplus) if _cache[key]._is_as_made()]
    dropped = [_cache[key] for key in let_go]
    _cache.update(zip(let_go, map(weakref.ref, dropped), strict=True))
    return dropped


def made(url: StrPath | None, conf: Configuration) -> Any:
    """Return a new file system of a URL, which is not shared."""
    return _make(_locate(url, conf), conf)


def forget(filesystem: object) -> None:
    """Stop sharing a file system."""
    with _cache_lock:
        for key in [key for key, entry in _cache.items() if _alive(entry) is filesystem]:
            del _cache[key]


def _forget_after_fork() -> None:
    """In a forked child: drop the parent's file systems, with their connections and locks."""
    global _cache_lock  # noqa: PLW0603
    _cache_lock = threading.RLock()
    _cache.clear()


os.register_at_fork(after_in_child=_forget_after_fork)


def _locate(url: StrPath | None, conf: Configuration) -> Location:
    """Return where a URL points; ``fs.defaultFS`` says what it leaves out, scheme or authority.

    ``hdfs:///p`` means the default file system if that is one of ``hdfs``.
    """
    location = None if url is None else paths.parse(url)
    if location is not None and location.authority:
        return location
    default = conf.default_file_system()
    known = paths.parse(default)
    if location is not None and location.scheme is not None:
        if location.scheme != known.scheme:
            return location
        if known.authority and not location.has_slashes:
            paths.check_slashes(location.written_scheme, location.path)
        return known
    location = known
    if location.scheme is None:
        raise UnsupportedFileSystemError(
            errno.EPROTONOSUPPORT, f"fs.defaultFS has no scheme: {default!r}", default
        )
    return location


def _refuse_views(location: Location, conf: Configuration) -> None:
    """Refuse a URL that Hadoop's configuration sends through a mount table without viewfs."""
    scheme = (location.written_scheme or "").lower()
    key = f"fs.{scheme}.impl"
    host = location.authority.rpartition("@")[2].partition(":")[0]
    table = f"fs.viewfs.mounttable.{host}."
    if not conf.get(key, "").strip().endswith(_VIEWS):
        return
    elsewhere = conf.get(_TABLES_ELSEWHERE, "").strip()
    if elsewhere or any(name.lower().startswith(table.lower()) for name in conf):
        raise UnsupportedFileSystemError(
            errno.EPROTONOSUPPORT,
            f"{key} lets the mount table {_TABLES_ELSEWHERE if elsewhere else table + '*'} say "
            f"where data are, which is supported for {table}* and viewfs://{host}/ alone",
            f"{scheme}://{host}/",
        )


def _make(location: Location, conf: Configuration) -> Any:
    if location.scheme is None:
        raise InternalError(f"a location without a scheme: {location!r}")
    store = _stores.get(location.scheme)
    if store is None:
        served = ", ".join(
            sorted({*_stores, *(a for one in _stores.values() for a in one.aliases)})
        )
        host = location.authority.rpartition("@")[2]  # what stands before may be a secret
        url = f"{location.written_scheme}://{host}{location.path}"
        raise UnsupportedFileSystemError(
            errno.EPROTONOSUPPORT,
            f"no file system for scheme {location.written_scheme!r}; there are {served}",
            url,
        )
    _refuse_views(location, conf)
    factory = load(store.factory) if isinstance(store.factory, str) else store.factory
    return factory(location.scheme, location.authority, conf)
