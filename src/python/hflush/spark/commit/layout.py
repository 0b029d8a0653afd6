"""How the files of a destination lie: names that readers skip, and the partition columns of paths.

Readers take all files of a destination for one table. Where the directories of some name partition
columns (``day=1``), files beside these are left out; where two name other columns, reading fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

__all__ = ["are_same", "columns_of", "is_hidden", "is_named_after", "misfit", "same_partition"]


def is_hidden(name: str) -> bool:
    """Whether Spark's readers skip a name: partition columns may begin with an underscore."""
    if name.startswith("_"):
        return "=" not in name
    return name.startswith(".") or name.endswith("._COPYING_")


def is_named_after(path: str, jobs: AbstractSet[str]) -> bool:
    """Whether a file's name has the id of one of these jobs, between dashes."""
    return not jobs.isdisjoint(path.rpartition("/")[2].split("-"))


def columns_of(files: Iterable[str], root: str = "") -> tuple[str, ...] | None:
    """Return the partition columns that the directories of files name; None without a file.

    Of files with and without such directories the former count: readers see these only.

    Parameters
    ----------
    files : iterable of str
        Paths, or URLs; no more are taken than have to be.
    root : str
        The destination, where they have it before them: it may be in such a directory itself.
    """
    above = len(_partitions(f"{root}/"))
    found = None
    for file in files:
        names = [directory.partition("=")[0] for directory in _partitions(file)[above:]]
        found = tuple(unquote(name, "latin-1") for name in names)  # %3D is a code, as in Hive
        if found:
            break
    return found


def _partitions(file: str) -> list[str]:
    return [name for name in file.split("/")[:-1] if "=" in name]


def are_same(columns: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Whether they are one to readers: names in any case, in one order."""
    return [name.lower() for name in columns] == [name.lower() for name in others]


def same_partition(directory: str) -> str:
    """Return what is equal for directories of one partition: names of columns are in any case."""
    parts = [name.partition("=") for name in directory.split("/")]
    return "/".join(f"{name.lower()}={value}" if sign else name for name, sign, value in parts)


def misfit(url: str, there: tuple[str, ...], given: tuple[str, ...], other_way: str) -> ValueError:
    """Return the error of a write whose partition columns are not those of the files there.

    Parameters
    ----------
    url : str
        The destination.
    there, given : tuple of str
        The columns of its files, and of the write.
    other_way : str
        What to do instead.
    """
    way = f"set partitionBy to {','.join(there)}" if there else "leave partitionBy out"
    return ValueError(
        f"{url} has files with the partition columns {list(there)}, and this write has "
        f"{list(given)}: readers would miss rows, or fail. Here {way}; or {other_way}"
    )
