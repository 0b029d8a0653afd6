"""Mount tables: which file system, and which path there, a path of a view means.

Nothing here asks a store.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .. import paths
from .keys import DEFAULT_TABLE, PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..configuration import Configuration
    from ..filesystem import FileSystem

__all__ = ["Link", "MountTable", "Place"]

_LINK = "link."
_REFUSED = ("linkMerge.", "linkNfly", "linkRegx", "linkRegex")
# An entry, behind the rest of the name of another table: one of a.b is none of table a.
_OF_ANOTHER = re.compile(
    r"(?P<rest>[^/]+?\.)??"
    r"(link\./|linkMerge\.|linkNfly|linkReg|(homedir|linkFallback|linkMergeSlash)$)"
)


class Link(NamedTuple):
    """A path of a view, and what is there.

    Attributes
    ----------
    path : str
        The normalised path; ``/`` of a fallback, and where the whole view is one file system.
    root : str
        The root of the file system that it leads to, as a URL.
    base : str
        The path there.
    """

    path: str
    root: str
    base: str

    def inward(self, path: str) -> str:
        """Return the path in the file system of a path of the view at or below the link."""
        return _moved(path, self.path, self.base)

    def outward(self, path: str) -> str:
        """Return the path of the view of a path in the file system."""
        return _moved(path, self.base, self.path)


class Place(NamedTuple):
    """Where a path of a view leads to."""

    link: Link
    store: FileSystem
    path: str


class MountTable:
    """The links of one view.

    Attributes
    ----------
    name : str
        Its name.
    links : dict
        By path.
    fallback : Link or None
        What is where no link leads.
    home : str
        What home directories are below.
    """

    def __init__(self, conf: Configuration, name: str) -> None:
        """Read a table.

        Raises
        ------
        ValueError
            There is none of that name; an entry is malformed or not supported; it is named.
        """
        self.name = name
        self.links: dict[str, Link] = {}
        self.fallback: Link | None = None
        self.home = "/user"
        prefix = f"{PREFIX}{name}."
        keys = [key for key in conf if key.startswith(prefix) and key != DEFAULT_TABLE]
        keys = [key for key in keys if not _is_of_another(key[len(prefix) :])]
        if not keys:
            raise ValueError(
                f"there is no mount table {name!r}: {prefix}link./PATH and its kin are not set "
                "(HADOOP_CONF_DIR is to name the directory of core-site.xml, hflush.conf.files "
                "other files)"
            )
        for key in keys:
            self._add(key, key[len(prefix) :], conf[key].strip())
        self._check(prefix)

    def _add(self, key: str, entry: str, value: str) -> None:
        if entry == "homedir":
            self.home = paths.normalize(value)
        elif entry == "linkFallback":
            self.fallback = _link(key, "/", value)
        elif entry == "linkMergeSlash":
            self.links["/"] = _link(key, "/", value)
        elif entry.startswith(_REFUSED):
            raise ValueError(f"{key} is not supported: a path of a view is in one file system")
        elif entry.startswith(_LINK + "/"):
            path = paths.normalize(entry[len(_LINK) :])
            if path == "/":
                raise ValueError(f"{key}: the whole view is linked by linkMergeSlash")
            self.links[path] = _link(key, path, value)
        else:
            raise ValueError(f"{key} is no entry of a mount table: link./PATH is one")

    def _check(self, prefix: str) -> None:
        """Refuse anything beside a link that the whole view is."""
        if "/" in self.links and (self.fallback or len(self.links) > 1):
            other = "linkFallback" if self.fallback else f"link.{max(self.links)}"
            raise ValueError(f"{prefix}linkMergeSlash and {other} exclude each other")

    def find(self, path: str) -> Link | None:
        """Return the nearest link that a path is at or below, else the fallback, if there is one.

        A directory of the table itself is not looked for: see :meth:`names`.
        """
        place = path
        while place not in self.links:
            if place == "/":
                return self.fallback
            place = paths.parent(place)
        return self.links[place]

    def names(self, path: str) -> list[str]:
        """Return what a directory of the table holds; nothing if `path` is none."""
        prefix = path.rstrip("/") + "/"
        below = (link[len(prefix) :] for link in self.links if link.startswith(prefix))
        return sorted({rest.partition("/")[0] for rest in below if rest})


def _is_of_another(entry: str) -> bool:
    found = _OF_ANOTHER.match(entry)
    return found is not None and found["rest"] is not None


def _link(key: str, path: str, value: str) -> Link:
    location = paths.parse(value) if value else None
    if location is None or location.scheme is None:
        raise ValueError(f"{key} must be a URL such as hdfs://service/path, not {value!r}")
    root = f"{location.written_scheme}://{location.authority}/"
    return Link(path, root, paths.normalize(location.path))


def _moved(path: str, old: str, new: str) -> str:
    """Return a path with the directory that it is in replaced."""
    rest = path if old == "/" else path[len(old) :]
    return (new.rstrip("/") + ("" if rest == "/" else rest)) or "/"
