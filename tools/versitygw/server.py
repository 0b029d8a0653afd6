"""A Versity gateway of one's own: a temporary directory, a free loopback port, its own keys."""

from __future__ import annotations

import socket
from pathlib import Path

from go_program import GoProgram
from loopback import REGION, ProcessServer

PROGRAM = GoProgram(
    "versitygw", "github.com/versity/versitygw/cmd/versitygw", "v1.8.0", least=(1, 25)
)


class VersityGateway(ProcessServer):
    """A running gateway: one process. It closes every connection after one request."""

    name = "versitygw"

    def __init__(self, directory: Path) -> None:
        """Launch one; `start` also waits for it."""
        super().__init__(directory)
        address = f"127.0.0.1:{self.port}"
        command = [PROGRAM.path(), "--port", address, "--region", REGION, "--quiet"]
        keys = {
            "ROOT_ACCESS_KEY_ID": self.access_key,
            "ROOT_SECRET_ACCESS_KEY": self.secret_key,
        }
        self._launch([*command, "posix", directory / "data"], keys)

    @classmethod
    def start(cls, *, place: Path | None = None) -> VersityGateway:
        """Start one and wait until it answers; `place` is where its directory is made."""
        PROGRAM.path()
        return cls._started(cls, place)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True
