"""Unknown names, and the known name that was probably meant."""

from __future__ import annotations

import warnings

from .general_keys import KEYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["check_keys", "did_you_mean", "nearest"]

OWN = "hflush."
GENERAL_KEYS = frozenset((*(key.name for key in KEYS), "fs.trash.checkpoint.interval"))
GENERAL_FAMILIES = (OWN, "fs.", "io.")
# Prefixes of keys that a store checks itself: filled by hflush.registry.
_of_stores: set[str] = set()
_MOST_CHANGES = 2

# Unknown keys that were warned of: once in a process.
_warned: set[str] = set()


def leave_to_store(families: Iterable[str]) -> None:
    """Leave keys with these prefixes to their store: called by :mod:`hflush.registry`."""
    _of_stores.update(families)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)``, or nothing."""
    import difflib

    found = difflib.get_close_matches(name, sorted(known), 1, 0.7)
    return f" (did you mean {found[0]!r}?)" if found else ""


def nearest(key: str, known: Iterable[str]) -> str | None:
    """Return the known key that `key` becomes by at most two changes within one element.

    A change adds, drops or replaces a letter, or swaps two. Hadoop has many keys that are unknown
    here: a key that differs more may be one of them.
    """
    elements = key.split(".")
    found, fewest = None, _MOST_CHANGES + 1
    for candidate in known:
        others = candidate.split(".")
        if len(others) != len(elements) or abs(len(candidate) - len(key)) >= fewest:
            continue
        different = [pair for pair in zip(elements, others, strict=True) if pair[0] != pair[1]]
        if len(different) == 1:
            changes = _changes(*different[0], fewest)
            # A short element with two changes is another word.
            if changes < fewest and len(different[0][1]) > 2 * changes:
                found, fewest = candidate, changes
    return found


def _changes(a: str, b: str, limit: int) -> int:
    """Return how many changes turn `a` into `b`; `limit` or more if there are that many."""
    if abs(len(a) - len(b)) >= limit:
        return limit
    before: list[int] = []
    last = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            least = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                least = min(least, before[j - 2] + 1)
            row.append(least)
        before, last = last, row
    return last[-1]


def check_keys(
    keys: Iterable[str],
    families: tuple[str, ...] = GENERAL_FAMILIES,
    known: Collection[str] = GENERAL_KEYS,
    own_bucket: str = "",
) -> None:
    """Refuse unknown keys of this package, and warn of Hadoop's that look misspelt: once each.

    Parameters
    ----------
    keys : iterable of str
        The keys that are set.
    families : tuple of str
        The prefixes of the keys to check.
    known : collection of str
        The known keys; one that ends in a dot is a prefix.
    own_bucket : str
        The part between prefix and name of a key that is for one bucket alone.

    Raises
    ------
    ValueError
        A key of this package is unknown.
    """
    stores = tuple(_of_stores.difference(families))
    open_ended = tuple(key for key in known if key.endswith("."))
    for key in keys:
        if key in known or not key.startswith(families) or key.startswith(stores):
            continue
        name = key.replace(f".bucket.{own_bucket}.", ".", 1) if own_bucket else key
        if name in known or name.startswith(open_ended) or ".bucket." in name:
            continue
        meant = nearest(name, known)
        said = f"unknown configuration key {key!r}"
        if meant:
            said += f" (did you mean {meant!r}?)"
        if key.startswith(OWN):
            ours = sorted(other for other in known if other.startswith(OWN))
            raise ValueError(f"{said}; there are {', '.join(ours)}")
        if meant and key not in _warned:
            _warned.add(key)
            warnings.warn(f"{said}: nothing here reads it", UserWarning, stacklevel=2)
