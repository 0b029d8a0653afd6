"""What pages of listings tell of keys, also of those that are not in them: pure, no store is asked.

A store lists keys in the order of their bytes, so one that is not in a page, but between its first
and its last, is not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .documents import Listing

__all__ = ["Above", "SeenPages"]


class Above(NamedTuple):
    """What is known of the directories above a path."""

    blocked: bool  # by a file, below which nothing was seen
    unknown: list[str]  # paths that may be files, and count if they are


class SeenPages:
    """First pages of flat listings.

    Parameters
    ----------
    pages : iterable of (str, Listing)
        Each with the prefix that was asked for; without a delimiter.
    """

    def __init__(self, pages: Iterable[tuple[str, Listing]] = ()) -> None:
        self._keys: set[str] = set()
        # Of each page the prefix, and its last key; None: no key follows that begins so.
        self._reach: list[tuple[str, str | None]] = []
        for prefix, page in pages:
            keys = [entry.key for entry in page.objects]
            self._keys.update(keys)
            if not (page.next_token or page.next_marker):
                self._reach.append((prefix, None))
            elif keys:
                self._reach.append((prefix, keys[-1]))

    def exists(self, key: str) -> bool | None:
        """Return whether there is an object; None: it is not known."""
        return True if key in self._keys else self._absence(key)

    def occupied(self, prefix: str) -> bool | None:
        """Return whether there are objects whose keys begin so; None: it is not known."""
        if any(key.startswith(prefix) for key in self._keys):
            return True
        return self._absence(prefix)

    def above(self, directories: Sequence[str]) -> Above:
        """Return what is in the way above a path; `directories` begin at the top.

        The nearest directory with something in it is enough: what is above that does not count.
        """
        unknown: list[str] = []
        for directory in reversed(directories):
            key = directory[1:]
            if self.occupied(key + "/"):
                break
            is_file = self.exists(key)
            if is_file:
                return Above(True, [])
            if is_file is None:
                unknown.append(directory)
        return Above(False, unknown)

    def _absence(self, key: str) -> bool | None:
        """Return False if a page that would hold a key, or some that begin with it, does not."""
        for prefix, last in self._reach:
            if key.startswith(prefix) and (last is None or last > key):
                return False
        return None
