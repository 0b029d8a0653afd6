"""Mount tables: which file system, and which path there, a path of a view means.

Nothing here asks a store.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .. import paths
from ..errors import without_passwords
from .keys import DEFAULT_TABLE, PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..configuration import Configuration
    from ..filesystem import FileSystem

__all__ = ["Link", "MountTable", "Place"]

_LINK = "link."
_REGEX = "linkRegex."
_REPLACE = "replaceresolveddstpath"
# A group of an expression, as $1, ${1}, $name or ${name}.
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)
_REFUSED = ("linkMerge.", "linkNfly", "linkRegx.")
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


class RegexLink:
    r"""Links of all paths that a regular expression finds: Hadoop's ``linkRegex``.

    ``linkRegex.^/user/(?<name>\w+)`` with ``hdfs://service/home/${name}`` links ``/user/ann``.

    Attributes
    ----------
    scheme : str
        That of the URLs that it leads to, as it is written.
    """

    def __init__(self, key: str, entry: str, value: str) -> None:
        """Read an entry: ``REGEX``, or ``INTERCEPTOR;...#.REGEX``.

        Raises
        ------
        ValueError
            It is malformed, or has an interceptor that is not known.
        """
        self._key = key
        self._target = value
        self.scheme = value.partition(":")[0]
        interceptors, separator, expression = entry.partition("#.")
        if not separator:
            interceptors, expression = "", entry
        self._expression = _compiled(key, expression)
        groups = {*range(self._expression.groups + 1), *self._expression.groupindex}
        for variable in _VARIABLE.finditer(value):
            if _group(variable) not in groups:
                shown = without_passwords(value)
                raise ValueError(f"{key}: {variable[0]} of {shown!r} is no group of the expression")
        self._replacements = [
            _replacement(key, one) for one in interceptors.split(";") if one.strip()
        ]

    def end(self, path: str) -> int | None:
        """Return how much of a path is the link, None if the expression finds nothing there."""
        found = [match.end() for match in self._expression.finditer(path)]
        return found[-1] if found else None

    def find(self, path: str) -> Link | None:
        """Return the link of a path, None if the expression finds nothing there."""
        end, found = self.end(path), self._expression.search(path)
        if end is None or found is None:
            return None

        def value(variable: re.Match[str]) -> str:
            text = found[_group(variable)]
            return variable[0] if text is None else text

        target = _VARIABLE.sub(value, self._target)
        for expression, replacement in self._replacements:
            target = expression.sub(replacement, target)
        linked, rest = path[:end], path[end:]
        link = _link(self._key, linked.rstrip("/") or "/", target)
        if not rest or rest.startswith("/") or linked.endswith("/"):
            return link
        # It ends within a name, the rest of which is one there.
        return Link(path, link.root, f"{link.base.rstrip('/')}/{rest}")


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
    regexes : list of RegexLink
        Links that come before those.
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
        self.regexes: list[RegexLink] = []
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
        for key in sorted(keys):
            self._add(key, key[len(prefix) :], conf[key].strip())
        self._check(prefix)

    def _add(self, key: str, entry: str, value: str) -> None:
        if entry == "homedir":
            self.home = paths.normalize(value)
        elif entry == "linkFallback":
            self.fallback = _link(key, "/", value)
        elif entry == "linkMergeSlash":
            self.links["/"] = _link(key, "/", value)
        elif entry.startswith(_REGEX):
            self.regexes.append(RegexLink(key, entry[len(_REGEX) :], value))
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
        if "/" in self.links and (self.fallback or self.regexes or len(self.links) > 1):
            other = f"link.{max(self.links)}"
            if self.regexes or self.fallback:
                other = "linkRegex" if self.regexes else "linkFallback"
            raise ValueError(f"{prefix}linkMergeSlash and {other} exclude each other")

    def find(self, path: str) -> Link | None:
        """Return the link of a path: by a regex, the nearest above it, or the fallback, if any.

        A directory of the table itself is not looked for: see :meth:`names`.
        """
        for regex in self.regexes:
            if link := regex.find(path):
                return link
        place = path
        while place not in self.links:
            if place == "/":
                return self.fallback
            place = paths.parent(place)
        return self.links[place]

    def is_link(self, path: str) -> bool:
        """Whether a link is at a path itself."""
        return path in self.links or any(regex.end(path) == len(path) for regex in self.regexes)

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
        shown = without_passwords(value)
        raise ValueError(f"{key} must be a URL such as hdfs://service/path, not {shown!r}")
    root = f"{location.written_scheme}://{location.authority}/"
    return Link(path, root, paths.normalize(location.path))


def _moved(path: str, old: str, new: str) -> str:
    """Return a path with the directory that it is in replaced."""
    rest = path if old == "/" else path[len(old) :]
    return (new.rstrip("/") + ("" if rest == "/" else rest)) or "/"


def _compiled(key: str, expression: str) -> re.Pattern[str]:
    """Return an expression of Java, whose groups with names have another form."""
    try:
        return re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", expression), re.ASCII)
    except re.error as error:
        raise ValueError(f"{key}: {expression!r} is no regular expression: {error}") from None


def _group(variable: re.Match[str]) -> int | str:
    name = variable[1] or variable[2]
    return int(name) if name.isdecimal() else name


def _replacement(key: str, text: str) -> tuple[re.Pattern[str], str]:
    """Return what an interceptor replaces in targets, and by what."""
    kind, _, rest = text.strip().partition(":")
    old, _, new = rest.partition(":")
    if kind.lower() != _REPLACE or not old:
        raise ValueError(f"{key}: {text!r} is not supported, but {_REPLACE}:REGEX:TEXT is")
    return _compiled(key, old), re.sub(r"\$(\d)", r"\\g<\1>", new.replace("\\", r"\\"))
