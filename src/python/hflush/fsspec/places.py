"""Where names of fsspec lead to, and which of them can be moved together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..filesystem import FileSystem

__all__ = ["Place", "check_apart", "child"]


class Place(NamedTuple):
    """Where a name of fsspec leads to.

    Attributes
    ----------
    store : FileSystem
        The file system of hflush that serves it.
    path : str
        The absolute path there.
    prefix : str
        How names of that store begin, as the caller wrote it: a bucket, a URL's host.
    """

    store: FileSystem
    path: str
    prefix: str

    def name_of(self, path: str) -> str:
        """Return the name of another path of the store."""
        return (self.prefix + path).rstrip("/") or "/"


def child(directory: Place, place: Place) -> Place:
    """Return the place of that name in a directory."""
    return directory._replace(path=paths.child(directory.path, paths.basename(place.path)))


def check_apart(sources: Sequence[Place], targets: Sequence[Place]) -> None:
    """Refuse moves, each source to its target, of which one would change what another means.

    Raises
    ------
    ValueError
        There are more of one than of the other; two are the same; one lies in what is moved.
    """
    if len(sources) != len(targets):
        raise ValueError(f"mv: {len(sources)} names, and {len(targets)} to move them to")
    seen: set[tuple[FileSystem, str]] = set()
    for place in (*sources, *targets):
        if (place.store, place.path) in seen:
            raise ValueError(
                f"mv: two of the moves begin or end at {_name(place)}; nothing was moved"
            )
        seen.add((place.store, place.path))
    moved = {(place.store, place.path) for place in sources}
    for place in (*sources, *targets):
        for path in _above(place.path):
            if (place.store, path) in moved:
                whole = place.name_of(path)
                raise ValueError(
                    f"mv: {_name(place)} lies in {whole}, which is moved; nothing was moved"
                )


def _above(path: str) -> Iterator[str]:
    while path != "/":
        path = paths.parent(path)
        yield path


def _name(place: Place) -> str:
    return place.name_of(place.path)
