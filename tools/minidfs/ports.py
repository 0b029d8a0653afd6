"""Ports of 127.0.0.1 for daemons that stop and start again on the same one."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

_BLOCK = 64


def _own_ports() -> Iterator[int]:
    """Yield ports that no other process of these tools gets while this one lives, each once."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    directory = Path(tempfile.gettempdir()) / f"hflush-ports-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    blocks = range(first // 2, first - _BLOCK, _BLOCK)
    for block in random.SystemRandom().sample(blocks, len(blocks)):
        lock = (directory / str(block)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        _held.append(lock)
        yield from range(block, block + _BLOCK)


_held: list[IO[str]] = []  # as long as the process lives: its daemons may be down for a while
_lock = threading.Lock()
_ports = _own_ports()


def lasting_ports(count: int) -> list[int]:
    """Choose free ports that the system gives to no connection while their daemon is down."""
    ports: list[int] = []
    with _lock:
        for port in _ports:
            with suppress(OSError), socket.create_server(("127.0.0.1", port)):
                ports.append(port)
            if len(ports) == count:
                return ports
    raise OSError(errno.EADDRINUSE, "no block of ports is free any more")
