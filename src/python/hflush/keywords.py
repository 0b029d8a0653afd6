"""The options of create, append and open, for type checkers: a misspelt one is an error there.

Nothing imports this at run time. Annotate functions that pass options on:
``def write(url: str, **options: Unpack[CreateArguments]) -> None``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypedDict

from .options import CreateFlag

__all__ = [
    "AnyArguments",
    "AppendArguments",
    "CreateArguments",
    "CreateKeywords",
    "OpenArguments",
    "OpenKeywords",
]


class CreateKeywords(TypedDict, total=False):
    """What ``FileSystem.create`` and ``append`` take besides their named arguments."""

    atomic: bool
    checksum_type: str
    bytes_per_checksum: int
    sync_on_close: bool
    close_on_exception: Literal["abort", "publish"]
    progress: Callable[[], None]
    favored_nodes: str | Sequence[str]
    storage_policy: str
    ec_policy: str
    update_length: bool
    content_type: str
    if_match: str
    storage_class: str


class AppendArguments(CreateKeywords, total=False):
    """What :func:`hflush.append` takes."""

    buffer_size: int | str | None
    flags: CreateFlag | Iterable[CreateFlag]


class CreateArguments(CreateKeywords, total=False):
    """What :func:`hflush.create` takes."""

    recursive: bool
    permission: int | None
    buffer_size: int | str | None
    replication: int | None
    block_size: int | str | None
    flags: CreateFlag | Iterable[CreateFlag] | None
    create_parent: bool | None


class OpenKeywords(TypedDict, total=False):
    """What ``FileSystem.open`` takes besides its named arguments."""

    read_policy: str | Sequence[str]
    length: int
    split_start: int
    split_end: int


class OpenArguments(OpenKeywords, total=False):
    """What :func:`hflush.open` takes for reading."""

    buffer_size: int | str | None


class AnyArguments(CreateKeywords, OpenKeywords, total=False):
    """What :func:`hflush.open` takes where its mode is not known beforehand."""

    recursive: bool
    permission: int | None
    buffer_size: int | str | None
    replication: int | None
    block_size: int | str | None
    create_parent: bool | None
