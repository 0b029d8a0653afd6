"""Stores whose URLs name a host, or a mount table, as fsspec sees file systems."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .. import paths
from ..errors import without_passwords
from .base import URL, HflushFileSystem
from .places import Place

if TYPE_CHECKING:
    from ..filesystem import FileSystem

__all__ = ["HostedFileSystem"]


class HostedFileSystem(HflushFileSystem):
    """One file system, whose URLs say which: a path is a name, and so is a URL with its own host.

    Names that come back begin as those that were given. A URL of another host is ValueError, also
    within a list.
    """

    filesystem: FileSystem
    _replaces: tuple[str, ...] = ()
    _replaces_unasked: tuple[str, ...] = ()

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        url = URL.fullmatch(paths.as_text(path))
        return {"host": url[3]} if url and url[3] else {}

    @property
    def fsid(self) -> str:
        """The same for all that see the same files."""
        return f"hflush+{self.filesystem.uri}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        return cls._join(*cls._split(paths.as_text(path)))

    @classmethod
    def _split(cls, text: str) -> tuple[str, str]:
        """Return the part of a URL in front of its path, empty if it names no host, and the path.

        The host stays in the name: it is not compared before the instance does.
        """
        url = cls._as_url(text)
        if url is not None and url[2] is None:
            paths.check_slashes(url[1], url[4])
        prefix = f"{url[1]}://{url[3]}" if url is not None and url[3] else ""
        plain = text if url is None else url[4]
        return prefix, paths.normalize(f"/{plain}", any_name=True)

    @classmethod
    def _parent(cls, path: str) -> str:
        prefix, plain = cls._split(paths.as_text(path))
        return cls._join(prefix, paths.parent(plain))

    @staticmethod
    def _join(prefix: str, plain: str) -> str:
        return prefix if prefix and plain == "/" else prefix + plain

    def _place(self, path: Any) -> Place:
        prefix, plain = self._split(paths.as_text(path))
        if prefix and not self._is_own(prefix.partition("://")[2]):
            named = without_passwords(repr(paths.as_text(path)))
            raise ValueError(f"wrong file system: {named} is not in {self._shown()}")
        return Place(self.filesystem, plain, prefix)

    def _is_own(self, authority: str) -> bool:
        """Whether the authority of a URL means this file system."""
        own = paths.parse(f"{self.filesystem.scheme}://{authority}/")
        return self.filesystem._accepts(own)

    def _shown(self) -> str:
        return self.filesystem.uri

    def unstrip_protocol(self, name: str) -> str:
        """Return the URL of a path, with the host."""
        prefix, plain = self._split(name)
        if prefix:
            return self._join(prefix, plain)
        return f"{self.protocol[0]}://{paths.parse(self.filesystem.uri).authority}{plain}"

    def _expanded(self, path: Any, *args: Any, **options: Any) -> dict[str, str | None]:
        """Return what names and patterns stand for; one of another host refuses all."""
        for one in [path] if isinstance(path, (str, os.PathLike)) else path:
            self._place(one)
        return super()._expanded(path, *args, **options)

    def glob(self, path: str, maxdepth: int | None = None, **options: Any) -> Any:
        """Return the names that match a pattern: as fsspec's."""
        prefix, plain = self._split(paths.as_text(path))
        self._place(path)
        found = super().glob(
            plain + "/" * (path.endswith("/") and plain != "/"), maxdepth, **options
        )
        if not prefix:
            return found
        if isinstance(found, dict):
            return {
                prefix + name: {**info, "name": prefix + name} if info else info
                for name, info in found.items()
            }
        return [prefix + name for name in found]
