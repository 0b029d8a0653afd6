"""Names: from what the caller wrote to the path that a store sees.

A path is a list of elements separated by ``/``. Text is taken literally: no percent-decoding, no
query, no fragment; names are compared by code point. Empty elements and ``.`` vanish, ``..`` is
resolved lexically and may not climb above the root (local files refuse it where the system would go
elsewhere). An element may not contain NUL, nor ``:`` or a control character (up to U+001F), as in
Hadoop, unless the store takes every name that it can have: raw local files and S3. ``~`` is not
expanded: a path that begins with it is refused, and so is one such as ``s3//bucket/key``, whose
colon is missing.

What a store sees is an absolute, normalised string, ``/`` or ``/a/b``, in which undecodable bytes
of local names are carried by ``surrogateescape`` as everywhere in Python.
"""

from __future__ import annotations

import os

from .errors import invalid_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TypeAlias, TypeGuard

    StrPath: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"

__all__ = [
    "Exact",
    "Location",
    "as_text",
    "basename",
    "check_dots",
    "check_slashes",
    "child",
    "depth",
    "is_normal",
    "is_plain",
    "is_under",
    "left_by_dots",
    "local",
    "normalize",
    "parent",
    "parse",
    "spellings",
]

_SCHEME_START = frozenset("abcdefghijklmnopqrstuvwxyz")
_SCHEME_REST = _SCHEME_START | frozenset("0123456789+.-")
_COLON = "':' is not allowed in a path element, except on raw local files and S3"
_NO_ELEMENTS = frozenset(("", ".", ".."))
_CONTROL = "control characters are not allowed in a path element, except on raw local files and S3"
# Schemes of Hadoop, the web and the stores here: one before "//" means that a colon was forgotten.
_likely_schemes = {"abfs", "abfss", "gs", "http", "https", "viewfs", "webhdfs"}
_aliases: dict[str, str] = {}


def add_schemes(schemes: Iterable[str], aliases: Mapping[str, str]) -> None:
    """Add the schemes of a store, and other names for them: called by :mod:`hflush.registry`."""
    _likely_schemes.update(schemes, aliases)
    _aliases.update(aliases)


def canonical_scheme(scheme: str) -> str:
    """Return the scheme that a name of one stands for."""
    return _aliases.get(scheme.lower(), scheme.lower())


def spellings(scheme: str | None) -> list[str | None]:
    """Return a scheme, and the other names for it."""
    return [scheme, *(name for name, meant in _aliases.items() if meant == scheme)]


class Location:
    """A parsed URL or plain path: where a name points before any file system is asked.

    Attributes
    ----------
    scheme : str or None
        In lower case; None for a plain path. For an alias such as ``s3a`` the scheme itself.
    written_scheme : str or None
        The same as the caller wrote it.
    authority : str
        Host and port, name service or bucket; empty for local files.
    path : str
        The rest, as written: absolute or relative, not normalised.
    has_slashes : bool
        Whether ``//`` follows the scheme: where an authority would be, there is room for it.
    """

    __slots__ = ("authority", "has_slashes", "path", "scheme", "written_scheme")

    def __init__(
        self,
        scheme: str | None,
        authority: str,
        path: str,
        written_scheme: str | None = None,
        has_slashes: bool = True,
    ) -> None:
        self.scheme = scheme
        self.written_scheme = written_scheme
        self.authority = authority
        self.path = path
        self.has_slashes = has_slashes

    def __repr__(self) -> str:
        return f"Location(scheme={self.scheme!r}, authority={self.authority!r}, path={self.path!r})"


def as_text(path: StrPath) -> str:
    """Return a path as text: bytes are decoded as :func:`os.fsdecode` does.

    Raises
    ------
    TypeError
        For file descriptors and everything else that is not a path.
    InvalidPathError
        For an object such as ``Path("hdfs://nn/data")``, which is ``hdfs:/nn/data``: pathlib takes
        a slash of a URL away. ``Path("a:b")`` is a name.
    """
    text = os.fspath(path)
    text = text if isinstance(text, str) else os.fsdecode(text)
    if not isinstance(path, (str, bytes)):
        scheme, colon, rest = text.partition(":")
        is_url = rest.startswith("/") or (not rest and scheme.lower() in _likely_schemes)
        if colon and is_url and not rest.startswith("//") and _is_scheme(scheme.lower()):
            raise invalid_path(
                text,
                f"a URL in a {type(path).__name__} has lost a slash: pass URLs as str, and a "
                "name with such a colon as an absolute path",
            )
        if colon and "/" not in scheme and not is_url:
            return f"./{text}"
    return text


def parse(url: StrPath) -> Location:
    """Split what the caller wrote into scheme, authority and path.

    Parameters
    ----------
    url : str, bytes or os.PathLike
        ``/a/b``, ``a/b``, ``file:/a``, ``file:///a``, ``hdfs://host:port/a``. Windows paths are not
        supported.

    Raises
    ------
    TypeError
        For file descriptors and everything else that is not a path.
    InvalidPathError
        For the empty string, a colon in the first element that ends no scheme, ``~``, and a scheme
        without its colon.
    """
    text = as_text(url)
    if not text:
        raise invalid_path(text, "it is empty")
    scheme, colon, rest = text.partition(":")
    if not colon or "/" in scheme:
        _check_relative(text)
        return Location(None, "", text)
    written = scheme
    scheme = scheme.lower()
    if not _is_scheme(scheme) or not rest.startswith("/"):
        raise invalid_path(
            text,
            f"it is no URL, whose scheme ':' would end; as a name it is './{text}', or absolute",
        )
    scheme = _aliases.get(scheme, scheme)
    if not rest.startswith("//"):
        return Location(scheme, "", rest, written, has_slashes=False)
    authority, slash, path = rest[2:].partition("/")
    return Location(scheme, authority, slash + path or "/", written)


def check_slashes(scheme: str | None, path: str) -> None:
    """Refuse ``hdfs:/a/b``, where a default would fill in what is missing: ``a`` may be meant.

    Raises
    ------
    InvalidPathError
        It names both things that it may mean.
    """
    rest = path.strip("/")
    if "/" in rest:
        raise invalid_path(
            f"{scheme}:{path}",
            f"a slash is missing: {scheme}:///{rest} is a path of the default file system, "
            f"{scheme}://{rest} begins with a host, service or bucket",
        )


def local(text: str) -> str:
    """Return the name that the system knows: that of a plain path, or of a ``file:`` URI.

    Raises
    ------
    ValueError
        It has another scheme or a host, or begins with ``~``, which is not expanded.
    """
    location = parse(text)
    is_here = location.scheme in (None, "file") and location.authority in ("", "localhost")
    if not is_here or location.path.startswith("~"):
        raise ValueError(f"{text!r} is not a local path")
    return location.path


def _check_relative(text: str) -> None:
    """Refuse a plain path that is probably a slip: its missing parents would be made."""
    first, slash, rest = text.partition("/")
    if first == "~":
        raise invalid_path(
            text, "'~' is not expanded: pass os.path.expanduser(path), or './~' if it is a name"
        )
    if slash and rest.startswith("/") and first.lower() in _likely_schemes:
        raise invalid_path(text, f"did you mean '{first}:/{slash}{rest[1:]}'? Its ':' is missing")


def _is_scheme(text: str) -> bool:
    return bool(text) and text[0] in _SCHEME_START and _SCHEME_REST.issuperset(text)


def normalize(path: str, working_directory: str = "/", *, any_name: bool = False) -> str:
    """Return the absolute, normalised form of `path`, relative to `working_directory`.

    Raises
    ------
    InvalidPathError
        If an element holds NUL or, without `any_name`, ``:`` or a control character, if ``..``
        climbs above the root, or if the text cannot be encoded.
    """
    if is_plain(path):
        return path
    absolute = path if path.startswith("/") else f"{working_directory}/{path}"
    elements: list[str] = []
    for element in absolute.split("/"):
        if element in ("", "."):
            continue
        if element == "..":
            if not elements:
                raise invalid_path(path, "'..' leads above the root")
            elements.pop()
            continue
        _check_element(element, path, any_name)
        elements.append(element)
    return "/" + "/".join(elements)


def left_by_dots(path: str, working_directory: str = "/") -> list[str]:
    """Return the directories that the elements ``..`` leave, in order, of a path that has them."""
    absolute = path if path.startswith("/") else f"{working_directory}/{path}"
    elements: list[str] = []
    left: list[str] = []
    for element in absolute.split("/"):
        if element == "..":
            left.append("/" + "/".join(elements))
            elements.pop()
        elif element not in _NO_ELEMENTS:
            elements.append(element)
    return left


def check_dots(path: StrPath, working_directory: str) -> None:
    """Refuse a path in which ``..``, taken as text, leads elsewhere than the system takes it.

    Raises
    ------
    InvalidPathError
        It stands behind a symbolic link to another directory.
    """
    text = parse(path).path
    for directory in left_by_dots(text, "/" if text.startswith("/") else working_directory):
        if not os.path.islink(directory):  # noqa: PTH114 -- costs less
            continue
        lexical, of_system = (
            os.path.realpath(parent(directory)),
            parent(os.path.realpath(directory)),
        )
        if lexical != of_system:
            raise invalid_path(
                as_text(path),
                f"'..' behind the symbolic link '{directory}' is '{lexical}' as text and "
                f"'{of_system}' to the system: write the one that is meant",
            )


def is_plain(path: StrPath) -> TypeGuard[str]:
    """Whether a quick look shows that a name is a normalised path: most are. False: look closer."""
    return (
        type(path) is str
        and path.isascii()
        and path.isprintable()
        and path.startswith("/")
        and not path.endswith("/")
        and "//" not in path
        and "/." not in path
        and ":" not in path
    )


def _check_element(element: str, path: str, any_name: bool) -> None:
    if "\0" in element:
        raise invalid_path(path, "NUL is not allowed in a path element")
    if ":" in element and not any_name:
        raise invalid_path(path, _COLON)
    if min(element) < " " and not any_name:
        raise invalid_path(path, _CONTROL)
    if not element.isascii():
        try:
            element.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise invalid_path(path, "it holds a surrogate that stands for no byte") from None


class Exact(str):
    """A path that is taken as it is, although it is not normal: ``//a`` is the key ``/a`` of S3."""

    __slots__ = ()


def is_normal(path: str) -> bool:
    """Whether an absolute path names its elements and nothing else: no empty ones, no dots."""
    return path == "/" or _NO_ELEMENTS.isdisjoint(path[1:].split("/"))


def parent(path: str) -> str:
    """Return the directory that holds the normalised `path`; ``/`` for the root itself."""
    return path.rpartition("/")[0] or "/"


def basename(path: str) -> str:
    """Return the last element of the normalised `path`; empty for the root."""
    return path.rpartition("/")[2]


def child(directory: str, name: str) -> str:
    """Return the normalised path of the entry `name` of the normalised `directory`."""
    path = f"/{name}" if directory == "/" else f"{directory}/{name}"
    return Exact(path) if isinstance(directory, Exact) else path


def depth(path: str) -> int:
    """Return how many elements the normalised `path` has."""
    return 0 if path == "/" else path.count("/")


def is_under(path: str, directory: str) -> bool:
    """Return whether the normalised `path` is `directory` or lies below it."""
    return directory in ("/", path) or path.startswith(directory + "/")
