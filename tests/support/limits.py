"""Limits that a test puts on its own process, to meet the errors that users meet."""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond `size` bytes: writes there fail with EFBIG.

    Python ignores SIGXFSZ, so the error reaches the writer.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Capabilities(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def obey_permissions() -> None:
    """Give up, for good, root's right to ignore permission bits: for a process of its own (a Peer).

    For anyone but root this changes nothing.
    """
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = _Header(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3
    none = (_Capabilities * 2)()
    if libc.capset(ctypes.byref(header), none) != 0:
        raise OSError(ctypes.get_errno(), "capset")
