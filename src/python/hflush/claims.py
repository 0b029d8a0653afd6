"""Who writes a temporary file: a claim that lasts as long as its writer."""

from __future__ import annotations

__all__ = ["Claim"]


class Claim:
    """The word of a writer that it lives, for as long as it has not released its claim.

    This one, where a store itself knows who writes a file, needs nothing.
    """

    def release(self) -> None:
        """Say no more."""
