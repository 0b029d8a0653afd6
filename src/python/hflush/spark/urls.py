"""Where a write goes, said on the driver: tasks have other site files and other directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import paths
from ..configuration import Configuration
from ..filesystem import FileSystem

if TYPE_CHECKING:
    from ..namespace import Conf

__all__ = ["absolute", "below"]


def absolute(url: str, conf: Conf) -> str:
    """Return the URL of a directory, with all that the configuration and the process add to it.

    The scheme is the one that was given, there or in ``fs.defaultFS``: Spark without further jars
    reads ``s3a:``, and not ``s3:``.

    Raises
    ------
    OSError, ValueError
        There is no file system for it.
    """
    location = paths.parse(url)
    if location.authority:
        return url
    configuration = Configuration.of(conf)
    whole = FileSystem.get(url, configuration).make_qualified(url)
    default = paths.parse(configuration.default_file_system())
    return f"{location.written_scheme or default.written_scheme}:{whole.partition(':')[2]}"


def below(filesystem: FileSystem, directory: str, name: str) -> str:
    """Return the URL of what is in a directory, which may be the root of a store."""
    return filesystem.make_qualified(paths.child(filesystem._resolve(directory), name))
