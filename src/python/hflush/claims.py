"""Claims: which temporary files have a writer that lives."""

from __future__ import annotations

__all__ = ["Claim"]


class Claim:
    """A writer's claim to its temporary file: until it is released, no sweep removes the file.

    This base class does nothing: it is for stores that know themselves who writes a file.
    """

    def release(self) -> None:
        """Give up the claim."""
