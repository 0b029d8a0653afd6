"""What is wrong with the logs of a checkpoint, judged by what was found in their directories.

Pure: :mod:`.inspection` looks and acts. A finding is harmful if Spark, or a reader, would fail or
would get a wrong result. It has a remedy where one is safe: a remedy never removes what might be
the only copy of anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from .. import paths
from ..sidecars import is_sidecar, of_sidecar
from .compaction import SUFFIX, Batches, absent, batch_id_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

__all__ = [
    "Finding",
    "Rebuild",
    "Remove",
    "of_compact_files",
    "of_gaps",
    "of_names",
    "of_offsets_and_commits",
    "of_size",
]

_TEMPORARY = re.compile(
    r"\.(.+)\.[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?:\.TID\d+)?\.tmp"
)
_JAVA_LONG = re.compile(r"[+-]?\d+")
_SHOWN = 20


class Remove(NamedTuple):
    """Remove a file that nothing needs."""

    path: str


class Rebuild(NamedTuple):
    """Write a missing compact file again, from files that stay."""

    path: str
    batch_id: int
    parts: tuple[str, ...]


class Finding(NamedTuple):
    """One thing that was found.

    Attributes
    ----------
    path : str
        The file or directory.
    problem : str
        What is wrong, and what follows.
    harmful : bool
        Whether something would fail, or get a wrong result.
    remedy : Remove, Rebuild or None
        What can be done safely.
    """

    path: str
    problem: str
    harmful: bool = True
    remedy: Remove | Rebuild | None = None


def of_names(
    directory: str,
    files: Mapping[str, float],
    directories: Collection[str],
    stored: Collection[int],
    oldest: float,
) -> Iterator[Finding]:
    """Return what the names in the directory of a log tell.

    Parameters
    ----------
    directory : str
        The directory.
    files : mapping of str to float
        By name: the age in seconds.
    directories : collection of str
        The names of directories in it.
    stored : collection of int
        The ids of the batches that are stored, and can be read.
    oldest : float
        Seconds: the writer of a temporary file that is older is taken for dead.
    """
    for name, age in sorted(files.items()):
        path = paths.child(directory, name)
        whole = of_sidecar(name) if is_sidecar(name) else name
        if match := _TEMPORARY.fullmatch(whole):
            yield _of_temporary(path, match[1], age, stored, oldest)
        elif whole is not name:
            if whole not in files:
                yield Finding(path, f"checksums of {whole}, which is gone", False, Remove(path))
        elif batch_id_of(name) is None and _JAVA_LONG.fullmatch(name.removesuffix(SUFFIX)):
            number = int(name.removesuffix(SUFFIX))
            problem = f"not a name that Spark writes, but it takes it for batch {number}"
            yield Finding(path, problem, harmful=number not in stored)
    for name in sorted(directories):
        if batch_id_of(name) is not None:
            path = paths.child(directory, name)
            yield Finding(path, f"a directory is in the way of batch {batch_id_of(name)}")


def _of_temporary(
    path: str, name: str, age: float, stored: Collection[int], oldest: float
) -> Finding:
    problem = f"temporary file of a writer of {name}"
    number = batch_id_of(name)
    if age < oldest:
        return Finding(path, f"{problem}, {age:.0f} s old: it may be at work", False)
    if number is None or number not in stored:
        return Finding(path, f"{problem}, not stored whole: this may be the only copy", False)
    return Finding(path, f"{problem}, which is stored: this one is not needed", False, Remove(path))


def of_gaps(directory: str, ids: Collection[int], others: Collection[int]) -> Iterator[Finding]:
    """Return what is missing between the first and the last batch of a log without compaction.

    Parameters
    ----------
    directory : str
        The directory.
    ids, others : collection of int
        The batches of the log, and those of the one beside it: of commits the offsets, and back.
        What both lack, of a query that tracks its progress asynchronously, Spark does not miss.
    """
    if ids and (missing := absent(range(min(ids), max(ids)), ids)):
        known, last = set(others), max(others, default=-1)
        harmful = any(number in known or number > last for number in missing)
        both = "" if harmful else "; the log beside it lacks them, too, by asynchronous tracking"
        yield Finding(directory, f"missing batches: {_listed(missing)}{both}", harmful)


def of_compact_files(
    directory: str, batches: Batches, entries: Mapping[str, Collection[object]]
) -> Iterator[Finding]:
    """Return what is missing from a log with compaction, or contradicts itself.

    Parameters
    ----------
    directory : str
        The directory.
    batches : Batches
        The files.
    entries : mapping of str to collection
        By name, those of the files that could be read; of batches with two files what they hold.
    """
    if batches.latest is None:
        return
    lacking = batches.missing(batches.needed(batches.latest))
    for name in lacking:
        path = paths.child(directory, name)
        problem = f"missing: Spark needs it to read batch {batches.latest}"
        remedy = _rebuild(directory, name, batches, entries, set(lacking) - {name})
        if remedy is not None:
            made = "it" if remedy.path == path else f"{remedy.batch_id}{SUFFIX}, which serves it,"
            problem += f"; {made} can be made of {remedy.parts[0]} to {remedy.parts[-1]}"
        yield Finding(path, problem, remedy=remedy)
    for number in batches.ids:
        plain, compact = str(number), f"{number}{SUFFIX}"
        if plain in entries and compact in entries:
            held = set(entries[compact])
            if not all(entry in held for entry in entries[plain]):
                yield Finding(
                    paths.child(directory, plain),
                    f"two writers stored batch {number}: {compact} has not all of its files",
                )


def _rebuild(
    directory: str,
    name: str,
    batches: Batches,
    readable: Collection[str],
    others: Collection[str],
) -> Rebuild | None:
    """Return which compact file to write where Spark misses one; None if none helps.

    One more can change the interval, so that Spark misses another: then one below it may help.
    Beside it the `others` are missing.
    """
    if not name.endswith(SUFFIX):
        return None
    missing = int(name.removesuffix(SUFFIX))
    last = batches.last_compacted
    below = [number for number in batches.ids if 0 <= last < number < missing]
    for number in (missing, *reversed(below)):
        parts = batches.parts(number)
        if parts is None or not all(part in readable for part in parts):
            continue
        made = f"{number}{SUFFIX}"
        if all(lost in others for lost in batches.missing_with(made)):
            return Rebuild(paths.child(directory, made), number, tuple(parts))
    return None


def of_offsets_and_commits(
    offsets: str, offset_ids: Collection[int], commits: str, commit_ids: Collection[int]
) -> Iterator[Finding]:
    """Return where the offsets and the commits of a query do not match."""
    last_offset, last_commit = max(offset_ids, default=-1), max(commit_ids, default=-1)
    if last_commit > last_offset:
        extra = sorted(number for number in commit_ids if number > last_offset)
        yield Finding(commits, f"commits without their offsets: {_listed(extra)}")
    open_ids = sorted(number for number in offset_ids if number > last_commit)
    if len(open_ids) > 1:
        yield Finding(
            offsets,
            f"offsets without their commits: {_listed(open_ids)}; only the last batch can be open",
        )
    elif open_ids:
        yield Finding(
            paths.child(offsets, str(open_ids[0])),
            f"batch {open_ids[0]} has no commit: it runs again at the next start",
            harmful=False,
        )


def of_size(path: str, expected: int, length: int | OSError) -> Iterator[Finding]:
    """Return whether a file of a sink is not as its log says.

    Parameters
    ----------
    path : str
        The file.
    expected : int
        Bytes, as the log has it.
    length : int or OSError
        Bytes of the file, or why they are not known.
    """
    if isinstance(length, FileNotFoundError):
        yield Finding(path, "listed in the log, but there is no such file")
    elif isinstance(length, OSError):
        reason = length.strerror or str(length)
        yield Finding(path, f"cannot be looked at: {reason}", harmful=False)
    elif length != expected:
        yield Finding(
            path, f"{length} bytes, but the log says {expected}, which is what readers believe"
        )


def _listed(ids: list[int]) -> str:
    return ", ".join(map(str, ids[:_SHOWN])) + (", …" if len(ids) > _SHOWN else "")
