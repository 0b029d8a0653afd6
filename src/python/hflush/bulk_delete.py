"""Removing many paths, a page at a time."""

from __future__ import annotations

from . import paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from typing_extensions import Self

    from .paths import StrPath

    # Removes a page of different paths; returns those that could not be removed, and why.
    DeletePage: TypeAlias = "Callable[[Sequence[str]], list[tuple[str, OSError]]]"

__all__ = ["BulkDelete"]


class BulkDelete:
    """Removes many paths below a base, a page at a time. Made by ``fs.bulk_delete(base)``.

    Attributes
    ----------
    page_size : int
        How many paths one call takes at most.
    """

    def __init__(
        self,
        base: str,
        resolve: Callable[[StrPath], str],
        delete_page: DeletePage,
        page_size: int,
    ) -> None:
        self.page_size = page_size
        self._base = base
        self._resolve = resolve
        self._delete_page = delete_page

    def delete(self, paths_to_delete: Sequence[StrPath]) -> list[tuple[str, OSError]]:
        """Remove files and empty directories; missing ones and duplicates are fine.

        Their order does not matter: a directory counts as empty if the same call empties it.

        Parameters
        ----------
        paths_to_delete : sequence of str or os.PathLike
            Absolute paths or URLs, below the base; at most `page_size`.

        Returns
        -------
        list of (str, OSError)
            Paths that could not be removed, and why: a directory that is not empty stays.

        Raises
        ------
        ValueError
            There are too many, or one is relative, outside the base or the base itself. Nothing was
            removed.
        """
        if len(paths_to_delete) > self.page_size:
            raise ValueError(f"{len(paths_to_delete)} paths: a page holds {self.page_size} at most")
        given: dict[str, str] = {}
        for path in paths_to_delete:
            given.setdefault(self._check(path), paths.as_text(path))
        failures = self._delete_page(list(given))
        return [(given[inside], failure) for inside, failure in failures]

    def _check(self, path: StrPath) -> str:
        if not paths.parse(path).path.startswith("/"):
            raise ValueError(f"{paths.as_text(path)!r} is not absolute")
        resolved = self._resolve(path)
        if resolved == self._base or not paths.is_under(resolved, self._base):
            raise ValueError(f"{paths.as_text(path)!r} is not below {self._base}")
        return resolved

    def close(self) -> None:
        """Do nothing: Hadoop's interface has this method."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
