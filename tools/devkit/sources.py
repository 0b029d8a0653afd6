"""A digest of the sources: the same for a commit and for a work tree that has the same files.

Prose is left out: what a test run proved stays proven when a page is written about it. So are new
files beside the directories, where programs leave logs and dumps.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable

from devkit.paths import ROOT


class NoRepository(Exception):
    """These sources are not a work tree of git, or git is missing."""


def digest(commit: str | None = None) -> str:
    """Return the digest of a commit, or of the files as they are now."""
    chosen = _of_commit(commit) if commit else files()
    lines = sorted(f"{blob} {path}\n" for path, blob in chosen if not is_prose(path))
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def commit() -> str:
    """Return the commit that the work tree is at, "-dirty" when it has other files."""
    return _git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*").strip()


def has_local_changes() -> bool:
    """Whether the sources are others than the commit's; False where there is no commit."""
    try:
        return digest() != digest("HEAD")
    except NoRepository:
        return False


def _of_commit(commit: str) -> Iterable[tuple[str, str]]:
    for entry in _git("ls-tree", "-r", "-z", "--full-tree", commit).split("\0")[:-1]:
        description, _, path = entry.partition("\t")
        yield path, description.split()[2]


def files() -> Iterable[tuple[str, str]]:
    """Return the path of each file of the work tree, and git's name of its content."""
    tracked = _git("ls-files", "-z")
    added = _git("ls-files", "-z", "--others", "--exclude-standard", "--", ":(glob)*/**")
    paths = sorted({path for path in (tracked + added).split("\0") if (ROOT / path).is_file()})
    blobs = _git("hash-object", "--stdin-paths", given="\n".join(paths)).split()
    return zip(paths, blobs, strict=True)


def is_prose(path: str) -> bool:
    """Whether a file is a page."""
    return path.startswith("docs/") or path.endswith(".md")


def _git(*arguments: str, given: str = "") -> str:
    # Another user may own the files, as in containers.
    command = ["git", "-C", str(ROOT), "-c", f"safe.directory={ROOT}", *arguments]
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise NoRepository("git is not installed") from None
    except subprocess.CalledProcessError as failure:
        raise NoRepository(failure.stderr.strip()) from None
    return done.stdout
