"""Which temporary local files are still being written: their writers hold locks on them.

The lock is flock(2): it belongs to the open file, ends with its process in any case, and holds
across containers and on NFS (unless a mount keeps locks to its host, ``local_lock``). There are
mounts where it would be in the way of the writer itself: they count as without locks.
"""

# ruff: noqa: PTH108, PTH116

from __future__ import annotations

import errno
import fcntl
import logging
import os
from contextlib import suppress
from functools import cache
from weakref import WeakSet

from .. import paths
from ..atomic import is_temporary
from ..claims import Claim
from ..sidecars import is_sidecar, of_sidecar

__all__ = ["LocalClaim", "claim", "sweep"]

_log = logging.getLogger(__name__)


_MOUNTS = "/proc/self/mountinfo"
# What a mount without locks answers to flock(2), or to the open(2) before it.
_NO_LOCK = frozenset(
    (
        errno.ENOLCK,
        errno.ENOTSUP,
        errno.ENOSYS,
        errno.EINVAL,
        errno.EBADF,
        errno.EPERM,
        errno.EACCES,
        errno.EROFS,
    )
)


class LocalClaim(Claim):
    """Locks on open files.

    Attributes
    ----------
    is_locked : bool
        False if the mount has no locks, or lets none of the files be opened again.
    """

    def __init__(self) -> None:
        self._descriptors: list[int] = []
        self._process = os.getpid()
        self.is_locked = True
        _claims.add(self)

    def add(self, path: str) -> bool:
        """Lock a file; False if it is being removed. Without locks (some mounts) no sweep works."""
        try:
            if _are_in_the_way(os.stat(path).st_dev):
                raise OSError(errno.ENOLCK, "a lock would be in the way of the writer itself")
            descriptor = _open(path)
        except FileNotFoundError:
            return False
        except OSError as failure:
            return self._without_lock(failure, path)  # nor may a sweep open it
        self._descriptors.append(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _meets_own_lock(path)
        except OSError as failure:
            return self._without_lock(failure, path)
        # FUSE may count no links.
        return os.fstat(descriptor).st_nlink > 0 or os.path.lexists(path)

    def _without_lock(self, failure: OSError, path: str) -> bool:
        if failure.errno not in _NO_LOCK:
            raise failure
        _log.debug("%s cannot be locked: %s", path, failure)
        self.is_locked = False
        return True

    def release(self) -> None:
        """Unlock, also where a child that is being forked has the descriptors, too."""
        while self._descriptors:
            descriptor = self._descriptors.pop()
            if self._process == os.getpid():
                with suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def __del__(self) -> None:
        self.release()


# Those of this process.
_claims: WeakSet[LocalClaim] = WeakSet()


def _leave_to_parent() -> None:
    """In a forked child: close what would keep the parent's locks when that has ended."""
    for made in list(_claims):
        made.release()


os.register_at_fork(after_in_child=_leave_to_parent)


def claim(*files: str) -> LocalClaim | None:
    """Lock files that were made just now; None if one of them is gone, or being removed."""
    made = LocalClaim()
    try:
        if all([made.add(path) for path in files]):
            return made
    except BaseException:
        made.release()
        raise
    made.release()
    return None


def sweep(directory: str) -> None:
    """Remove the temporary files in a directory, and their sidecars, that no writer holds."""
    if _are_in_the_way(os.stat(directory).st_dev):  # living writers have none there
        return
    with os.scandir(directory) as entries:
        found = [
            entry.path
            for entry in entries
            if (is_temporary(entry.name) or _is_sidecar_of_temporary(entry.name))
            and entry.is_file(follow_symlinks=False)
        ]
    for path in found:
        if _remove_if_free(path):
            _log.info("removed %s, the file of a writer that has died", path)


def _is_sidecar_of_temporary(name: str) -> bool:
    return is_sidecar(name) and is_temporary(of_sidecar(name))


def _remove_if_free(path: str) -> bool:
    try:
        descriptor = _open(path)
    except OSError:  # gone, or another user's
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)  # the name is unique: it cannot be another file's by now
    except OSError as refusal:
        _log.debug("%s stays: %s", path, refusal)
        return False
    finally:
        os.close(descriptor)
    return True


def _are_in_the_way(device: int) -> bool:
    """Whether locks of a mount would be in the way of the writer itself.

    On CIFS they bar all other descriptors (flock(2)); VirtualBox's shared folders rename no file
    that one has open.
    """
    kind, options = _mount(device)
    if kind in ("cifs", "smb3"):
        return "nobrl" not in options.split(",")
    return kind == "vboxsf"


def _meets_own_lock(path: str) -> bool:
    """Whether a lock is refused because the stream that writes the sums has one of another kind.

    Over NFS the two meet (flock(2), NOTES). No sweep had the file before its stream.
    """
    if not is_sidecar(paths.basename(path)):
        return False
    return _mount(os.stat(path).st_dev)[0] in ("nfs", "nfs4")


@cache
def _mount(device: int) -> tuple[str, str]:
    """Return type and options of a mount; both are empty if it is not known."""
    number = f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError), open(_MOUNTS, encoding="utf-8", errors="replace") as mounts:
        for mount, _, what in (line.partition(" - ") for line in mounts):
            if mount.split()[2] == number:
                kind, *_, options = what.split()
                return kind, options
    return "", ""


def _open(path: str) -> int:
    """Open a file to lock it. Over NFS a lock needs the right to write."""
    common = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, os.O_RDWR | common)
    except PermissionError:
        descriptor = os.open(path, os.O_RDONLY | common)
    if descriptor > 2:
        return descriptor
    # One of a standard stream that the program runs without: what it prints would go into the file.
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)
