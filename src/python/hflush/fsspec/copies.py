"""Which names a copy of fsspec takes, and the name of each copy: by fsspec's own rules."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

from fsspec.utils import isfilelike, other_paths  # type: ignore[import-untyped]

from .. import paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from .places import Place

__all__ = ["pairs", "tree"]


def pairs(
    fs: Any,
    source: Any,
    target: Any,
    is_directory: Callable[[], bool],
    recursive: bool,
    maxdepth: int | None,
    **options: Any,
) -> tuple[list[Any], list[Any], set[Any]]:
    """Return what is copied, the name of each copy, and which are known to be no directories.

    Parameters
    ----------
    fs : HflushFileSystem
        Where the source is.
    source : str or list
        A name or a pattern; or several, whose copies go into the target under their last names.
    target : str or list
        Where to; a list has a name for each.
    is_directory : callable
        Whether the target is a directory: a copy of one name goes into it.

    Raises
    ------
    FileNotFoundError
        Nothing is there.
    ValueError
        Two files would get one name, or there are more of one list than of the other.
    """
    is_one = isinstance(source, (str, os.PathLike))
    if not is_one and not isinstance(target, str):
        return *_apart(fs, list(source), list(target)), set()
    text = os.fspath(source) if is_one else ""
    is_pattern = is_one and fs._is_pattern(text)
    types = fs._types(
        text if is_one else source, recursive, maxdepth, is_one and not is_pattern, **options
    )
    names, files = sorted(types), {name for name, kind in types.items() if kind == "file"}
    if is_one and (not recursive or maxdepth is not None):
        names = [name for name in names if name in files or not fs.isdir(name)]
        files.update(names)
    if not names:
        return [], [], set()
    if not isinstance(target, str):
        return *_apart(fs, names, list(target)), files
    if is_pattern:
        is_into = len(names) == 1
    else:
        is_into = is_one and not text.endswith("/") and is_directory()
    targets = other_paths(names, target, exists=is_into, flatten=not is_one)
    return *_apart(fs, names, targets), files


def _apart(fs: Any, names: list[Any], targets: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return both, if each file has a name of its own to be copied to."""
    if len(names) != len(targets):
        raise ValueError(f"{len(names)} names, and {len(targets)} to copy them to")
    taken: dict[Any, Any] = {}
    for name, copy in zip(names, targets, strict=True):
        other = taken.setdefault(copy, name)
        if other != name and not isfilelike(copy) and not fs.isdir(name):
            raise ValueError(f"{other} and {name} would both become {copy}; nothing was copied")
    return names, targets


def tree(fs: Any, name: str, maxdepth: int | None) -> dict[str, str | None]:
    """Return a name, if it is there, and all below it, with their types.

    What links lead to is below them.

    Raises
    ------
    OSError
        A link leads to a directory that it is in (``ELOOP``); a directory cannot be listed.
    """
    found = fs.find(name, maxdepth, withdirs=True, detail=True)
    names = {one: entry.get("type") for one, entry in found.items()}
    if name not in names and fs.exists(name):  # also a file that is a directory, too, on S3
        names[name] = None
    for link, entry in found.items():
        if link == name or not entry.get("islink") or entry["type"] != "other":
            continue
        place = fs._place(link)
        left = maxdepth and maxdepth - paths.depth(link) + paths.depth(name)
        if place.store.is_directory(place.path):
            _check_no_way_up(place)
            names[link] = "directory"
            names.update(tree(fs, link, left) if left != 0 else {})
    return names


def _check_no_way_up(link: Place) -> None:
    """Refuse a link to a directory that it is in, by whatever name: such a tree has no end."""
    there = link.store.get_file_status(link.path).file_id
    above = link.path
    while there and above != "/":
        above = paths.parent(above)
        if link.store.get_file_status(above).file_id == there:
            message = "this directory is in itself, by a link"
            raise OSError(errno.ELOOP, message, link.name_of(link.path))
