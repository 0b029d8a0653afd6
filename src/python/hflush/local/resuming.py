"""Raw local files that are written on from a token: see :mod:`hflush.tokens`.

A file is recognised by its inode and, where the file system keeps it, the time of its birth; the
sum of the last bytes before the token's point shows that they were not overwritten. A writer
that persisted holds a lock on its file (flock, :mod:`.claims`) until it is closed or its process
ends: of two that want to go on one is refused, and none writes behind the other's back.
"""

from __future__ import annotations

import errno
import os

from .. import _core
from ..errors import LeaseHeldError, unsupported
from ..tokens import Token, not_at_its_path
from . import claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..claims import Claim
    from ..streams import FSDataOutputStream

__all__ = ["GONE", "cut", "held", "state_at"]

# What opening a path says where there is no file any more.
GONE = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
_SUMMED_BYTES = 64 << 10
_STATE = {"inode": int, "birth_ns": int, "crc32c": int}


def held(path: str) -> Claim:
    """Lock a file against other writers that can be resumed.

    Raises
    ------
    OSError, LeaseHeldError, io.UnsupportedOperation
        It is missing, or no file (`GONE`); another one has it; the mount has no locks.
    """
    claim = claims.claim(os.path.realpath(path))
    if claim is not None and claim.is_locked:
        return claim
    if claim is not None:
        claim.release()
        os.close(claims._open(os.path.realpath(path)))  # else who may not open it: that is why
        raise unsupported("persist or resume", "a mount without file locks (flock)", path)
    os.stat(path)  # noqa: PTH116 -- raises if it is missing
    message = "another stream that was persisted or resumed is writing the file: end it first"
    raise LeaseHeldError(errno.EBUSY, message, path)


def state_at(
    names: _core.RawNamespace, stream: FSDataOutputStream, path: str, length: int
) -> dict[str, Any]:
    """Return the state of a token for the first `length` bytes of a stream's file.

    Raises
    ------
    StaleTokenError
        The path names another file.
    LeaseHeldError
        Another writer has changed the file: the stream's bytes are not where it counts them.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        facts = os.fstat(descriptor)
        if facts.st_ino != stream._file_id:
            raise not_at_its_path(path)
        # Other threads may have written to the stream since.
        if not length <= facts.st_size <= stream.tell():
            message = (
                f"persist: this stream has written the file up to {length}, but it has "
                f"{facts.st_size} bytes: another one is writing it, end that first"
            )
            raise LeaseHeldError(errno.EBUSY, message, path)
        return {
            "inode": facts.st_ino,
            "birth_ns": _birth(names, descriptor),
            "crc32c": _sum_before(descriptor, length),
        }
    finally:
        os.close(descriptor)


def cut(names: _core.RawNamespace, token: Token, path: str) -> None:
    """Drop what lies behind the token's point, durably. The caller holds the file.

    Raises
    ------
    StaleTokenError
        It is not the token's file, or lacks bytes of it, or has others.
    """
    token.check_state(_STATE)
    state = token.state
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        facts = os.fstat(descriptor)
        birth_ns = _birth(names, descriptor)
        is_other_birth = birth_ns and state["birth_ns"] and birth_ns != state["birth_ns"]
        if facts.st_ino != state["inode"] or is_other_birth:
            raise token.stale("the path names another file")
        if facts.st_size < token.length:
            raise token.stale(f"the file has {facts.st_size} bytes only")
        if _sum_before(descriptor, token.length) != state["crc32c"]:
            raise token.stale("other bytes were written into the file")
        try:
            if facts.st_size > token.length:
                os.ftruncate(descriptor, token.length)
            os.fsync(descriptor)  # an earlier cut may have ended before this
        except OSError as failure:
            failure.filename = path
            raise
    finally:
        os.close(descriptor)


def _sum_before(descriptor: int, length: int) -> int:
    """Return the CRC32C of the last bytes below `length`, which the system has in memory."""
    begin = max(0, length - _SUMMED_BYTES)
    return _core.crc32c(os.pread(descriptor, length - begin, begin))


def _birth(names: _core.RawNamespace, descriptor: int) -> int:
    """Return when a file was made, 0 if that is not known: without /proc it cannot be asked for."""
    try:
        return names.birth(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:
        return 0
