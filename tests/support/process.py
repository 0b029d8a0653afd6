"""What the operating system knows of this process: open descriptors, threads, resident memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from collections.abc import Collection
from pathlib import Path


def open_files() -> list[str]:
    """Targets of this process's descriptors, sorted."""
    targets = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the descriptor that listed the directory
            targets.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return sorted(targets)


def descriptors_under(root: str | os.PathLike[str]) -> list[str]:
    """The open descriptors of this process whose file lies below `root`."""
    prefix = os.fspath(root)
    return [target for target in open_files() if target.startswith(prefix)]


def connections(ports: Collection[int]) -> list[str]:
    """The TCP connections of this process to these ports of 127.0.0.1, by remote port, sorted."""
    ours = set(open_files())
    found = []
    for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]:
        _, _, remote, _, _, _, _, _, _, inode, *_ = line.split()
        port = int(remote.partition(":")[2], 16)
        if port in ports and f"socket:[{inode}]" in ours:
            found.append(str(port))
    return sorted(found)


def thread_names() -> list[str]:
    """Names of the native threads of this process, sorted; those of our pool are "hflush-io"."""
    names = []
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            names.append(Path(f"/proc/self/task/{thread}/comm").read_text().strip())
    return sorted(names)


def resident_bytes() -> int:
    """Resident set size of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def settled_bytes() -> int:
    """The same, when what is not used has been given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return resident_bytes()
