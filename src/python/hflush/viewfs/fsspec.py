"""Views as fsspec sees file systems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..filesystem import FileSystem
from ..fsspec import options as words
from ..fsspec.hosts import HostedFileSystem

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["HflushViewFileSystem"]

# How keys end that say who sends a file system: those that stores add to what is sent.
_WHO = (".credentials", ".real-user", ".server", ".user")


class HflushViewFileSystem(HostedFileSystem):
    """One view of several file systems, as fsspec sees file systems.

    Parameters
    ----------
    host : str, optional
        The mount table, also as ``viewfs://table``; ``fs.defaultFS`` decides unless given, or
        ``fs.viewfs.mounttable.default.name.key``. URLs bring their own.
    conf : mapping, optional
        As for :meth:`hflush.FileSystem.get`: the mount table, and the keys of the stores behind it.

    Notes
    -----
    A path is a name, and so is a URL with the instance's own table, as on HDFS.
    """

    __module__ = "hflush.fsspec"

    protocol: tuple[str, ...] = ("hflush+viewfs", "hflushviewfs")
    _written_schemes = frozenset(("viewfs", *protocol))
    _replaces = ("viewfs",)
    _words = frozenset(("host",))

    def _connect(self, options: dict[str, Any]) -> None:
        table = str(options.get("host") or "").removeprefix("viewfs://").removesuffix("/")
        if "/" in table:
            raise ValueError(f"host must be as 'table' or 'viewfs://table', not {table!r}")
        self.filesystem = FileSystem.get(f"viewfs://{table}/", self._conf)

    def _caller(self, with_secrets: bool) -> dict[str, str]:
        callers = self.filesystem._callers(with_secrets)
        return {key: text for _, caller in callers for key, text in caller.items()}

    def _files_of(self, found: Mapping[str, str | None]) -> set[str]:
        """Return also those whose names directories have, too, as there may be on S3."""
        view: Any = self.filesystem
        files = super()._files_of(found)
        for name in found.keys() - files:
            path = self._place(name).path
            if view._store_at(path)._lists_trees and view.is_file(path):
                files.add(name)
        return files

    @classmethod
    def _as_here(cls, conf: Any, options: Mapping[str, Any]) -> Any:
        sent = {key for key in conf if key.startswith("hflush.") and key.endswith(_WHO)}
        if not sent:
            return conf
        kept = words.without_keys(conf, sent)
        asked = {**options, "conf": kept, "skip_instance_cache": True}
        here = cls(**asked)._caller(True)
        return kept if all(here.get(key) == conf[key] for key in sent) else conf
