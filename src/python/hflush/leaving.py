"""Secrets that do not travel: what a file system lost on its way to another process.

The names of lost keys go along; a store that needs one of them, and finds nothing of the process
in its place, refuses, and names the option that sends them.
"""

from __future__ import annotations

import errno

from .configuration import Configuration
from .general_keys import LEFT_OUT, PICKLE_SECRETS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ADVICE", "LeftOutError", "add_lost", "lost_keys"]

ADVICE = f"{PICKLE_SECRETS} (storage option pickle_secrets) sends secrets along"


class LeftOutError(PermissionError):
    """What the sender of a file system used was not sent, as it is secret."""

    def __init__(self, what: str) -> None:
        super().__init__(
            errno.EACCES,
            f"{what} of the process that sent this file system is secret and was left out, and "
            f"this process has none of its own: {ADVICE}",
        )

    def __reduce__(self) -> tuple[type[PermissionError], tuple[int, str]]:
        return PermissionError, (self.errno or errno.EACCES, self.strerror or "")


def lost_keys(configuration: Configuration) -> list[str]:
    """Return the names of the keys that were lost on the way here."""
    return configuration.get(LEFT_OUT, "").split()


def add_lost(configuration: Configuration, lost: Iterable[str]) -> None:
    """Take lost keys from this process' own configuration; note those that it has not."""
    names = sorted({*lost, *lost_keys(configuration)})
    if not names:
        return
    own = Configuration()
    found = {name: text for name, text in own.raw_items() if name in names}
    configuration.update(found)
    still = [name for name in names if name not in configuration]
    if still:
        configuration[LEFT_OUT] = " ".join(still)
    elif LEFT_OUT in configuration:
        del configuration[LEFT_OUT]
