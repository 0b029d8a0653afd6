"""HDFS as fsspec sees file systems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from .. import paths
from ..errors import unsupported
from ..filesystem import FileSystem
from ..fsspec import options as words
from ..fsspec.base import URL
from ..fsspec.hosts import HostedFileSystem
from . import identity
from .keys import USER
from .settings import split_user

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..configuration import Configuration, Value
    from .filesystem import DistributedFileSystem

__all__ = ["WORDS", "HflushHdfsFileSystem"]

WORDS = frozenset(("extra_conf", "host", "kerb_ticket", "port", "replication", "user"))


class HflushHdfsFileSystem(HostedFileSystem):
    """One HDFS, as fsspec sees file systems.

    Parameters
    ----------
    host : str, optional
        Host or name service, also as ``hdfs://nn:8020``; ``fs.defaultFS`` decides unless given.
        URLs bring their own.
    port : int, optional
        8020 unless given.
    user : str, optional
        Who we are; unless given as :class:`hflush.hdfs.DistributedFileSystem` says.
    replication : int, optional
        How many copies of new files; ``dfs.replication`` unless given.
    conf, extra_conf : mapping, optional
        As for :meth:`hflush.FileSystem.get`.
    kerb_ticket : optional
        Refused: there is no Kerberos.

    Notes
    -----
    A path is a name, and so is a URL with the instance's own host: names that come back begin as
    those that were given. A URL of another host is ValueError, also within a list.
    """

    __module__ = "hflush.fsspec"

    protocol: tuple[str, ...] = ("hflush+hdfs", "hflushhdfs")
    _written_schemes = frozenset(("hdfs", *protocol))
    _replaces = _replaces_unasked = ("hdfs",)
    _words = WORDS

    @classmethod
    def _set_keys(cls, configuration: Configuration, given: Mapping[str, Any]) -> None:
        configuration.update(_keys(given))

    def _connect(self, options: dict[str, Any]) -> None:
        authority = self._authority(str(options.get("host") or ""), options.get("port"))
        named, user = split_user(authority)[0], options.get("user")
        if named and user and named != user:
            raise ValueError(f"user={user!r} contradicts that of the host, {named!r}: name one")
        self.filesystem = FileSystem.get(f"hdfs://{authority}/", self._conf)
        self._user = cast("DistributedFileSystem", self.filesystem)._user

    @classmethod
    def _authority(cls, host: str, port: object) -> str:
        """Return the authority that the options stand for; the host may be written as a URL.

        Raises
        ------
        ValueError
            The URL is of another scheme, or leads to a path.
        """
        if host == "default":
            return ""
        if "/" in host:
            url = paths.parse(host)
            split_user(url.authority)  # refuses a password, and does not show it
            if url.scheme not in cls._written_schemes or not url.authority or url.path != "/":
                raise ValueError(f"host must be as 'nn' or 'hdfs://nn:8020', not {host!r}")
            host = url.authority
        return f"{host}:{port}" if port and not host.endswith(f":{port}") else host

    def _caller(self, with_secrets: bool) -> dict[str, str]:
        return self.filesystem._caller(with_secrets)

    @classmethod
    def _as_here(cls, conf: Any, options: Mapping[str, Any]) -> Any:
        sent = {name: str(conf[name]) for name in identity.KEYS if name in conf}
        if not sent:
            return conf
        configuration = cls._configured(words.without_keys(conf, sent), options)
        foreign = identity.foreign(sent, configuration)
        return words.without_keys(conf, sent.keys() - foreign.keys())

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        url = URL.fullmatch(paths.as_text(path))
        user, authority = split_user((url[3] or "") if url else "")
        host, colon, port = authority.rpartition(":")
        if not colon or not port.isdecimal():
            host, port = authority, ""
        options: dict[str, Any] = {"host": host} if host else {}
        if port:
            options["port"] = int(port)
        return {**options, "user": user} if user else options

    def _is_own(self, authority: str) -> bool:
        user, place = split_user(authority)
        return super()._is_own(place) and user in ("", self._user)

    def _shown(self) -> str:
        return f"{self.filesystem.uri} of user {self._user}"


def _keys(options: Mapping[str, Any]) -> dict[str, Value]:
    keys: dict[str, Value] = dict(options.get("extra_conf") or {})
    if "kerb_ticket" in options:
        raise unsupported("kerb_ticket (Kerberos)", "hdfs")
    if user := options.get("user"):
        keys[USER] = str(user)
    if "replication" in options:
        keys["dfs.replication"] = int(options["replication"])
    return keys
