r"""Hadoop's glob patterns.

``?``, ``*``, ``[a-c]``, ``[^a]``, ``{one,two}``, and ``\`` before a literal character.

Wildcards match within one element and never cross ``/``; names that begin with a dot match too.
"""

from __future__ import annotations

import re

from .errors import invalid_path, means_nothing_there
from .paths import child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .status import FileStatus

    Status = Callable[[str], FileStatus]
    Listing = Callable[[str], Iterable[FileStatus]]
    Met = Callable[[FileStatus], FileStatus]

__all__ = ["expand_braces", "glob", "translate"]

_MAGIC = frozenset("?*[{\\")


def glob(patterns: Iterable[str], status: Status, listing: Listing, met: Met) -> list[FileStatus]:
    """Return what matches any of several patterns, sorted by path; nothing is an empty list.

    Parameters
    ----------
    patterns : iterable of str
        Absolute, normalised except for their wildcards, and without braces.
    status, listing : callable
        How to ask for one path and for what is below it, of a file nothing; a missing path is
        FileNotFoundError.
    met : callable
        Takes what a listing has on the way, and fails if it cannot be seen what is below it.

    Raises
    ------
    InvalidPathError
        A bracket that is never closed, or a range that runs backwards.
    PermissionError, FileNotFoundError
        A directory on the way cannot be read; the bucket is not there.
    """
    found: dict[tuple[str, str], FileStatus] = {}  # on S3 a file and a directory may share a name
    for pattern in patterns:
        for match in _match(pattern, status, listing, met):
            found[match.path, match.kind] = match
    return [found[key] for key in sorted(found)]


def _match(pattern: str, status: Status, listing: Listing, met: Met) -> Iterator[FileStatus]:
    elements = [element for element in pattern.split("/") if element]
    candidates = ["/"]
    for number, element in enumerate(elements):
        if _MAGIC.isdisjoint(element):
            candidates = [child(candidate, element) for candidate in candidates]
            continue
        matches = _compiled(element).fullmatch
        found = [
            (child(candidate, entry.name), entry)
            for candidate in candidates
            for entry in _entries(candidate, listing)
            if matches(entry.name)
        ]
        if number == len(elements) - 1:
            yield from (entry for _, entry in found)
            return
        candidates = [path for path, entry in found if met(entry).is_directory]
    for candidate in candidates:
        try:
            yield status(candidate)
        except OSError as failure:  # noqa: PERF203
            if not _means_no_match(failure):
                raise


def _entries(directory: str, listing: Listing) -> Iterable[FileStatus]:
    try:
        return listing(directory)
    except OSError as failure:
        if _means_no_match(failure):
            return ()
        raise


def _means_no_match(failure: OSError) -> bool:
    """Whether nothing is there; a bucket that is not there is a mistake, and matches nothing."""
    is_bucket = getattr(failure, "remote_class", "") == "NoSuchBucket"
    return means_nothing_there(failure) and not is_bucket


def expand_braces(pattern: str) -> list[str]:
    """Return the patterns that the alternatives ``{a,b}`` stand for, nested ones too.

    Raises
    ------
    InvalidPathError
        A brace that is never closed.
    """
    start = _find(pattern, "{", 0)
    if start < 0:
        return [pattern]
    depth, begin, alternatives = 0, start + 1, []
    position = start
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            position += 1
        elif character == "{":
            depth += 1
        elif character == "," and depth == 1:
            alternatives.append(pattern[begin:position])
            begin = position + 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                alternatives.append(pattern[begin:position])
                head, tail = pattern[:start], pattern[position + 1 :]
                return [one for part in alternatives for one in expand_braces(head + part + tail)]
        position += 1
    raise invalid_path(pattern, "a brace of the pattern is never closed")


def _find(text: str, wanted: str, start: int) -> int:
    """Where `wanted` stands without a backslash before it, or -1."""
    position = start
    while position < len(text):
        if text[position] == "\\":
            position += 1
        elif text[position] == wanted:
            return position
        position += 1
    return -1


def translate(element: str) -> str:
    """Return the regular expression of one element of a pattern, its braces expanded before.

    Raises
    ------
    InvalidPathError
        A bracket that is never closed, or a backslash at the end.
    """
    pieces = [""]  # between the stars
    position = 0
    while position < len(element):
        character = element[position]
        if character == "*":
            pieces.append("")
        elif character == "?":
            pieces[-1] += "."
        elif character == "[":
            is_negated = element.startswith(("^", "!"), position + 1)
            begin = position + 1 + is_negated
            # A bracket that comes first closes nothing.
            end = _find(element, "]", begin + element.startswith("]", begin))
            if end < 0:
                raise invalid_path(element, "a bracket of the pattern is never closed")
            pieces[-1] += _bracket(element[begin:end], is_negated)
            position = end
        elif character == "\\":
            position += 1
            if position == len(element):
                raise invalid_path(element, "nothing follows the backslash of the pattern")
            pieces[-1] += re.escape(element[position])
        else:
            pieces[-1] += re.escape(character)
        position += 1
    return f"(?s:{_joined(*pieces)})"


def _joined(first: str, *others: str) -> str:
    """Return the expression of pieces, each of a fixed length, with stars between them.

    Those within stand where they come first, for good, as with atomic groups, which Python has from
    3.11 on: each tried at all other places, too, would take polynomial time.
    """
    if not others:
        return first
    *within, last = others
    firsts = [
        f"(?=(?P<p{number}>.*?{piece}))(?P=p{number})"
        for number, piece in enumerate(filter(None, within))
    ]
    return "".join((first, *firsts, ".*", last))


def _compiled(element: str) -> re.Pattern[str]:
    try:
        return re.compile(translate(element))
    except re.error as error:
        raise invalid_path(element, f"bad pattern: {error.msg}") from None


def _bracket(body: str, is_negated: bool) -> str:
    expression = ["[^" if is_negated else "["]
    is_literal = False
    for character in body:
        if character == "\\" and not is_literal:
            is_literal = True
            continue
        is_range = character == "-" and not is_literal
        expression.append(character if is_range else re.escape(character))
        is_literal = False
    return "".join((*expression, "]"))
