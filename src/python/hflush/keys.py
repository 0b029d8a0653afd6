"""Tables of configuration keys, and the reader of their values.

A store has one table. It serves to read the settings, to generate the documentation (tools/keys.py)
and to find misspelt keys. A default stands once: in the core, where an attribute of the core's
settings takes the value, else in the table.
"""

from __future__ import annotations

from operator import attrgetter

from . import paths
from .configuration import (
    has_unit,
    listed,
    parse_bool,
    parse_size,
    parse_time,
    parse_whole,
    to_text,
)
from .warn import warn_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from .configuration import Configuration

__all__ = ["Key", "Kind", "Reader"]

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1
# The longest time, 31 years: "for ever" is often written as the largest number that there is.
LONGEST_S = 1e9

_SIZES = (("g", 30), ("m", 20), ("k", 10))
_TIMES_MS = (("h", 3_600_000), ("m", 60_000), ("s", 1000))


class Kind:
    """The kind of values that a key takes.

    Parameters
    ----------
    shown, expected : str
        How they look: in the documentation, in errors.
    read : callable
        Makes a value from text that is not empty, or raises ValueError.
    written : callable
        The reverse, for defaults that the core has.
    remark : callable, optional
        Says of such text what the user should know, empty if nothing: that another value is used.
    """

    def __init__(
        self,
        shown: str,
        expected: str,
        read: Callable[[str], Any],
        written: Callable[[Any], str] = str,
        remark: Callable[[str], str] | None = None,
    ) -> None:
        self.shown = shown
        self.expected = expected
        self.read = read
        self.written = written
        self.remark = remark


class Key:
    """One key, and its effect.

    Parameters
    ----------
    section : str
        The section of the table.
    name : str
        The key. One that ends in a dot is a prefix of keys.
    kind : Kind
        The kind of its values.
    effect : str
        What it does.
    default : str
        Its value unless set; empty: none.
    native : str
        The attribute of the core's settings that takes the value, and has the default instead.
    """

    def __init__(
        self, section: str, name: str, kind: Kind, effect: str, default: str = "", native: str = ""
    ) -> None:
        self.section = section
        self.name = name
        self.kind = kind
        self.effect = effect
        self.default = default
        self.native = native


class Reader:
    """The values of a configuration, by a table of keys.

    A value that is empty or blank is not set.

    Parameters
    ----------
    conf : Configuration
        The values.
    table : iterable of Key
        The keys.
    origins : mapping of str to str, optional
        By key: the other key that its value was written under, for errors.

    Raises
    ------
    ValueError
        By the methods that read: a value is malformed or out of range. It names key and value.
    """

    def __init__(
        self, conf: Configuration, table: Iterable[Key], origins: Mapping[str, str] | None = None
    ) -> None:
        self._conf = conf
        self._table = {key.name: key for key in table}
        self._origins = origins or {}

    def given(self, name: str) -> str:
        """Return what is set, without the blanks around it; empty if nothing is."""
        return self._conf.get(name, "").strip()

    def read(self, name: str, kind: Kind) -> Any:
        """Return what is set as a value of this kind, None if nothing is."""
        text = self.given(name)
        if not text:
            return None
        written = self._origins.get(name, name)
        try:
            value = kind.read(text)
        except ValueError:
            raise self._conf.bad_value(written, text, kind.expected) from None
        if kind.remark is not None and (remark := kind.remark(text)):
            warn_once(f"{written} is {text}: {remark}")
        return value

    def __getitem__(self, name: str) -> Any:
        """Return the value of a key of the table, else its default; None where it has none.

        Only keys without an attribute in the core; the values of the others are read there.
        """
        key = self._table[name]
        if key.native:
            raise KeyError(f"{name} is {key.native} of the core's settings")
        value = self.read(name, key.kind)
        return key.kind.read(key.default) if value is None and key.default else value

    def fill(self, native: object) -> None:
        """Set the attributes of the core's settings whose keys are set."""
        for key in self._table.values():
            value = self.read(key.name, key.kind) if key.native else None
            if value is not None:
                owner, _, attribute = key.native.rpartition(".")
                setattr(attrgetter(owner)(native) if owner else native, attribute, value)

    def flag(self, name: str) -> bool:
        """Return true or false."""
        return bool(self[name])

    def number(self, name: str) -> int:
        """Return a whole number, or a number of bytes; 0 unless set."""
        return int(self[name] or 0)

    def seconds(self, name: str) -> float:
        """Return a time, or another number."""
        return float(self[name])

    def text(self, name: str) -> str:
        """Return a text, empty unless set."""
        return str(self[name] or "")

    def names(self, name: str) -> list[str]:
        """Return several texts."""
        return list(self[name] or ())


def defaults(table: Iterable[Key], native: object) -> Iterator[tuple[Key, str]]:
    """Return each key with the text of its default; `native` are fresh settings of the core."""
    for key in table:
        value = attrgetter(key.native)(native) if key.native else None
        yield key, key.default if value is None else key.kind.written(value)


# --- kinds ----------------------------------------------------------------------------------------


def text(shown: str = "name") -> Kind:
    """Return the kind of texts."""
    return Kind(shown, "a text", str)


def names(shown: str) -> Kind:
    """Return the kind of several texts, which commas, blanks or line ends separate."""
    return Kind(shown, "names", lambda value: value.replace(",", " ").split())


def local_file() -> Kind:
    """Return the kind of local files, by their paths or ``file:`` URIs."""
    return Kind("file", "a local path, as /a/b or file:///a/b, without '~'", paths.local)


def local_directories() -> Kind:
    """Return the kind of several local directories, which commas or line ends separate."""

    def read(value: str) -> list[str]:
        return [paths.local(part) for part in listed(value)]

    expected = "local directories by commas, as /a/b or file:///a/b, without '~'"
    return Kind("directories", expected, read, ",".join)


BOOL = Kind("bool", "true or false", parse_bool, to_text)


def choice(*words: str) -> Kind:
    """Return the kind of a choice of words, in any case; the values are in lower case."""
    return mapped({word: word.lower() for word in words})


def mapped(values: Mapping[str, Any]) -> Kind:
    """Return the kind of a choice of words, in any case, each with its value."""
    by_word = {word.lower(): value for word, value in values.items()}

    def read(text: str) -> Any:
        if text.lower() not in by_word:
            raise ValueError
        return by_word[text.lower()]

    def written(value: Any) -> str:
        return [word for word, meant in values.items() if meant == value][-1]

    words = tuple(values)
    expected = " or ".join(words) if len(words) == 2 else f"one of {', '.join(words)}"
    return Kind(", ".join(words), expected, read, written)


def number(low: int, high: int = INT32_MAX, taken: tuple[int, int] | None = None) -> Kind:
    """Return the kind of whole numbers within limits; others that are `taken` mean the nearest."""
    return _limited("number", "a whole number", parse_whole, (low, high), taken, str)


def size(
    low: int, high: int = INT64_MAX, zero: int = 0, taken: tuple[int, int] | None = None
) -> Kind:
    """Return the kind of numbers of bytes, as `number`; 0 means `zero`."""

    def read(value: str) -> int:
        return parse_size(value) or zero

    what = "a size such as 131072, 128k or 1g,"
    return _limited("size", what, read, (low, high), taken, size_text)


def _limited(
    shown: str,
    what: str,
    parse: Callable[[str], int],
    limits: tuple[int, int],
    taken: tuple[int, int] | None,
    written: Callable[[int], str],
) -> Kind:
    low, high = limits
    least, most = taken or limits

    def read(value: str) -> int:
        number = parse(value)
        if not least <= number <= most:
            raise ValueError
        return min(max(number, low), high)

    def remark(value: str) -> str:
        used = read(value)
        limit = "least" if used == low else "most"
        return "" if used == parse(value) else f"{written(used)} is used, the {limit} that can be"

    return Kind(shown, f"{what} from {low} to {high}", read, written, remark if taken else None)


def time(
    unit: str = "ms",
    *,
    zero: float | None = 0.0,
    warns: bool = False,
    takes_negative: bool = False,
    least_bare: float = 0.0,
) -> Kind:
    """Return the kind of times in seconds: bare numbers count `unit`, 0 means `zero`, if any.

    With `warns` 0 is warned of. With `takes_negative` a time below 0 means what 0 means, with a
    warning. A bare number above 0 means `least_bare` seconds at least, with a warning: one that is
    less was meant in another unit.
    """

    def read(value: str) -> float:
        seconds = min(parse_time(value, unit), LONGEST_S)
        if (seconds < 0 and not takes_negative) or (zero is None and not seconds):
            raise ValueError
        if 0 < seconds < least_bare and not has_unit(value):
            return least_bare
        return max(seconds, 0.0) or zero or 0.0

    def remark(value: str) -> str:
        given, used = parse_time(value, unit), read(value)
        is_other = given < 0 or (warns and not given) or 0 < given < min(used, least_bare)
        return f"{time_text(used)} is used" if is_other else ""

    bare = f" ({unit})" if unit != "ms" else ""
    above = " above 0" if zero is None else ""
    expected = f"a time{above} such as 500ms, 30s or 2m"
    says = remark if warns or takes_negative else None
    return Kind(f"time{bare}", expected, read, time_text, says)


def number_of(shown: str) -> Kind:
    """Return the kind of numbers that need not be whole."""
    return Kind(shown, "a number", float)


def size_text(count: int) -> str:
    """Return a number of bytes as it is written: ``128m``."""
    return next(
        (f"{count >> shift}{unit}" for unit, shift in _SIZES if count and not count % (1 << shift)),
        str(count),
    )


def time_text(seconds: float) -> str:
    """Return a time as it is written: ``30s``."""
    if seconds >= LONGEST_S:
        return "0"
    milliseconds = round(seconds * 1000)
    return next(
        (
            f"{milliseconds // length}{unit}"
            for unit, length in _TIMES_MS
            if milliseconds and not milliseconds % length
        ),
        f"{milliseconds}ms" if milliseconds else "0",
    )
