"""Local files that were just made, whatever takes their places meanwhile."""

# ruff: noqa: PTH110

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["pinned"]


@contextmanager
def pinned(path: str, inode: int) -> Iterator[str]:
    """Yield another name of what was made at a path, which leads nowhere else meanwhile.

    Who may write the directory could put a link there, and have the owner and the mode of another
    file changed. Who resolves the name gives that up: it is for the system, or `_namespace`.

    Parameters
    ----------
    path : str
        A local file or directory.
    inode : int
        Of what was made; 0 if that is not known.

    Raises
    ------
    OSError
        Something else is at the path (``ESTALE``); it cannot be opened.
    """
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        facts = os.fstat(descriptor)
        if stat.S_ISLNK(facts.st_mode) or inode not in (0, facts.st_ino):
            raise OSError(errno.ESTALE, "another file has taken the place", path)
        name = f"/proc/self/fd/{descriptor}"
        yield name if os.path.exists(name) else path
    finally:
        os.close(descriptor)
