"""The lines of Spark's log files: the version first, then JSON, one value a line.

Pure: text in, values out, and back. What is wrong with a text is a :class:`ValueError` that names
the line; the log that has read it adds the name of the file.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Fields", "decode_path", "encode_path", "joined", "split", "to_json"]

_LINE_ENDS = re.compile(r"\r\n|\r|\n")  # as Java's readers split; str.splitlines knows more
_VERSION = re.compile(r"v(\d+)")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?)?(.*)", re.DOTALL)
# What java.net.URI leaves as it is within a path; the rest of ASCII, blanks and controls it quotes.
_KEPT = (
    r"A-Za-z0-9_\-!.~'()*,;:$&+=@/\u00a1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e"
    r"\u2030-\u205e\u2060-\u2fff\u3001-\ud7ff\ue000-\U0010ffff"
)
_QUOTED = re.compile(f"[^{_KEPT}]")
_KINDS = {int: "a whole number", bool: "true or false", str: "a text", dict: "an object"}


def split(content: bytes, newest: int) -> tuple[int, list[str]]:
    """Return the version and the lines after it.

    Parameters
    ----------
    content : bytes
        A whole file.
    newest : int
        The highest version that is known.

    Raises
    ------
    ValueError
        The file is empty, is not UTF-8, begins with no version, or with a newer one.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as wrong:
        raise ValueError(f"not UTF-8 at byte {wrong.start}") from None
    if not text:
        raise ValueError("it is empty: its writer died, or the store has lost the content")
    lines = _LINE_ENDS.split(text)
    if not lines[-1]:
        lines.pop()
    first = lines[0].strip() if lines else ""
    match = _VERSION.fullmatch(first)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"line 1: a version such as v1 is expected, not {_shown(first)}")
    version = int(match[1])
    if version > newest:
        raise ValueError(f"line 1: version v{version} is newer than v{newest}, the newest known")
    return version, lines[1:]


def joined(version: int, lines: Iterable[str]) -> bytes:
    """Return the file of a version and lines; it ends without a line end, as Spark's do."""
    return "\n".join([f"v{version}", *lines]).encode()


def to_json(value: Mapping[str, Any]) -> str:
    """Return JSON as Spark writes it: no blanks, and no escapes that are not needed."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class Fields:
    """The fields of one JSON object, with the line that it stands on."""

    def __init__(self, text: str, line: int) -> None:
        self._line = line
        try:
            found = json.loads(text)
        except ValueError as wrong:
            raise ValueError(f"line {line}: not JSON: {wrong}: {_shown(text)}") from None
        self._values: dict[str, Any] = self._of_kind("what it holds", found, dict)

    def take(self, name: str, kind: type, default: Any = None) -> Any:
        """Return a field and forget it; `default` if it is absent, unless that is None."""
        found = self._values.pop(name, None)
        if found is None:
            if default is None:
                raise ValueError(f"line {self._line}: {name} is missing")
            return default
        return self._of_kind(name, found, kind)

    def optional(self, name: str, kind: type) -> Any:
        """Return a field and forget it; None if it is absent."""
        return self.take(name, kind) if self._values.get(name) is not None else None

    def rest(self) -> dict[str, Any]:
        """Return the fields that were not taken."""
        return self._values

    def _of_kind(self, name: str, found: Any, kind: type) -> Any:
        if type(found) is not kind:
            raise ValueError(
                f"line {self._line}: {name} is {_shown(json.dumps(found))}, not {_KINDS[kind]}"
            )
        return found


def encode_path(url: str) -> str:
    """Return a URL with its path quoted as a ``java.net.URI`` is, which Spark's logs hold."""
    from urllib.parse import quote

    head, path = _parted(url)
    return head + _QUOTED.sub(lambda found: quote(found[0], safe="", errors=_ERRORS), path)


def decode_path(url: str) -> str:
    """Return what :func:`encode_path` was given."""
    from urllib.parse import unquote

    head, path = _parted(url)
    return head + unquote(path, errors=_ERRORS)


_ERRORS = "surrogateescape"  # a local name need not be UTF-8


def _parted(url: str) -> tuple[str, str]:
    match = _URL.fullmatch(url)
    assert match is not None
    return match[1] or "", match[2]


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")
