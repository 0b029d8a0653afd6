"""A Versity gateway of one's own: a temporary directory, a free loopback port, its own keys."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from go_program import GoProgram
from loopback import REGION, S3Server, ending_with_us

PROGRAM = GoProgram(
    "versitygw", "github.com/versity/versitygw/cmd/versitygw", "v1.8.0", least=(1, 25)
)
START_S = 60.0
ATTEMPTS = 5  # to find a port that is still free when the server asks for it


class VersityGateway(S3Server):
    """A running gateway: one process. It closes every connection after one request."""

    def __init__(self, directory: Path) -> None:
        """Launch one; `start` also waits for it."""
        super().__init__(directory)
        address = f"127.0.0.1:{self.port}"
        command = [PROGRAM.path(), "--port", address, "--region", REGION, "--quiet"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ending_with_us([*command, "posix", directory / "data"]),
                env={
                    "PATH": os.environ.get("PATH", os.defpath),
                    "ROOT_ACCESS_KEY_ID": self.access_key,
                    "ROOT_SECRET_ACCESS_KEY": self.secret_key,
                },
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @classmethod
    def start(cls, *, place: Path | None = None) -> VersityGateway:
        """Start one and wait until it answers; `place` is where its directory is made."""
        PROGRAM.path()
        directory = Path(tempfile.mkdtemp(prefix="versitygw-", dir=place))
        try:
            (directory / "data").mkdir()
            for _ in range(ATTEMPTS):
                server = cls(directory)
                try:
                    if server._wait_ready():
                        return server
                except BaseException:
                    server._end()
                    raise
            said = server.log.read_text(errors="replace")
            raise RuntimeError(f"the gateway did not start:\n{said}")
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise

    def _wait_ready(self) -> bool:
        """Return when it listens; False if it has ended instead."""
        end = time.monotonic() + START_S
        while self.process.poll() is None:
            if self._listens():
                return True
            if time.monotonic() > end:
                raise TimeoutError(f"the gateway did not answer within {START_S:.0f} s")
            time.sleep(0.02)
        return False

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def make_bucket(self, name: str) -> str:
        (self.directory / "data" / name).mkdir()
        return name

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def _end(self) -> None:
        self.process.kill()  # nothing of it is to stay
        self.process.wait()
