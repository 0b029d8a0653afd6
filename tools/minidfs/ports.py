"""Ports of 127.0.0.1 for daemons that stop and start again on the same one."""

from __future__ import annotations

import errno
import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

TRIES = 1000


def lasting_ports(count: int) -> list[int]:
    """Choose free ports that the system gives to no connection while their daemon is down."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports: list[int] = []
    with ExitStack() as held:
        for port in random.sample(range(first // 2, first), TRIES):
            if len(ports) == count:
                break
            with suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.append(port)
    if len(ports) < count:
        raise OSError(errno.EADDRINUSE, f"fewer than {count} of {TRIES:,} ports are free")
    return ports
