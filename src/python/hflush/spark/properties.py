"""The properties of a Hadoop configuration, as its class in Java hands them to other processes.

Any text can stand in these bytes. In XML, the other form that the class writes as it is, no control
character can, and the form in JSON has neither secrets nor references such as ``${user.name}``.
Source: Hadoop's ``Configuration.write`` and ``WritableUtils``.
"""

from __future__ import annotations

import gzip
from io import BytesIO
from typing import NamedTuple

__all__ = ["Property", "parse"]

_ONE_BYTE = -112  # and more is a number; what is less says how many bytes of one follow


class Property(NamedTuple):
    """A name, a value with nothing expanded, and what has set it: files, or a program."""

    name: str
    value: str
    sources: tuple[str, ...]

    @property
    def is_default(self) -> bool:
        """Whether a file of defaults has set it."""
        return any(source.endswith("-default.xml") for source in self.sources)


def parse(content: bytes) -> list[Property]:
    """Return the properties that ``Configuration.write`` has written."""
    stream = BytesIO(content)
    count = _size(stream)
    return [Property(_text(stream), _text(stream), _sources(stream)) for _ in range(count)]


def _size(stream: BytesIO) -> int:
    first = int.from_bytes(stream.read(1), "big", signed=True)
    return first if first >= _ONE_BYTE else int.from_bytes(stream.read(_ONE_BYTE - first), "big")


def _text(stream: BytesIO) -> str:
    return stream.read(_size(stream)).decode()


def _sources(stream: BytesIO) -> tuple[str, ...]:
    packed = [stream.read(_int(stream)) for _ in range(_int(stream))]
    return tuple(gzip.decompress(source).decode() for source in packed)


def _int(stream: BytesIO) -> int:
    """Return the size of what follows; 0 where Java has null there."""
    return max(int.from_bytes(stream.read(4), "big", signed=True), 0)
