"""What a run wrote and what a reader must find, kept beside the data (Spark skips the name)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import hflush
from readback import Expected, Written

NAME = "_flights.json"


@dataclass(frozen=True)
class Manifest:
    """The facts expected of the rows, and the files as hflush has them."""

    expected: Expected
    files: tuple[Written, ...]

    def save(self, out: str) -> None:
        """Write it below `out`, durably where the store can."""
        with hflush.open(f"{out}/{NAME}", "w", encoding="utf-8") as text:
            json.dump(asdict(self), text, indent=1)

    @classmethod
    def load(cls, out: str) -> Manifest:
        """Read what `save` wrote."""
        with hflush.open(f"{out}/{NAME}", "r", encoding="utf-8") as text:
            content = json.load(text)
        files = tuple(Written(**file) for file in content["files"])
        return cls(Expected(**content["expected"]), files)
