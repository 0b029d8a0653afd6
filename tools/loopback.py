"""What S3 servers of one's own have in common: keys, a loopback port, an end."""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from by_hand import clean_up_when_terminated, until_stdin_closes

if TYPE_CHECKING:
    from typing_extensions import Self

REGION = "us-east-1"
START_S = 60.0
ATTEMPTS = 5  # to find a port that is still free when a server asks for it


class S3Server:
    """A running server. Owned by one thread at a time; ended by `stop` or a `with` block.

    It also ends with the thread that started it, however that ends: start it from the main thread.

    url          http://127.0.0.1:PORT, or https
    access_key   the keys
    secret_key   of its one user, who may do everything
    conf         what a client's configuration must say
    environment  the same, as variables that AWS's tools know
    log          what it says itself, a file
    """

    access_key = "hflush"

    def __init__(self, directory: Path, scheme: str = "http") -> None:
        self.directory = directory
        self.log = directory / "log"
        self.secret_key = secrets.token_hex(16)
        self.port = free_port()
        self.url = f"{scheme}://127.0.0.1:{self.port}"

    @property
    def conf(self) -> dict[str, str]:
        return {
            "fs.s3a.endpoint": self.url,
            "fs.s3a.endpoint.region": REGION,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": self.access_key,
            "fs.s3a.secret.key": self.secret_key,
        }

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
        }

    def make_bucket(self, name: str) -> str:
        """Make an empty bucket; return its name."""
        raise NotImplementedError

    def pause(self) -> None:
        """Stop it where it is: connections stay open, without answers."""
        raise NotImplementedError

    def resume(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """End it and remove its files."""
        self._end()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _end(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class ProcessServer(S3Server):
    """A server of one process, whose buckets are the directories below its `data`."""

    name: str  # for messages

    @classmethod
    def _started(cls, make: Callable[[Path], Self], place: Path | None) -> Self:
        """Return what `make(directory)` has launched, once it answers."""
        directory = Path(tempfile.mkdtemp(prefix=f"{cls.name.lower()}-", dir=place))
        try:
            (directory / "data").mkdir()
            for _ in range(ATTEMPTS):
                server = make(directory)
                try:
                    if server._wait_ready():
                        return server
                except BaseException:
                    server._end()
                    raise
            said = server.log.read_text(errors="replace")
            raise RuntimeError(f"{cls.name} did not start:\n{said}")
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise

    def _launch(self, command: Sequence[object], environment: Mapping[str, str]) -> None:
        """Run it; of this process's environment only PATH, so no LD_PRELOAD of a sanitizer."""
        path = os.environ.get("PATH", os.defpath)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ending_with_us(command),
                env={"PATH": path, "HOME": str(self.directory), **environment},
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _answers(self) -> bool:
        raise NotImplementedError

    def _wait_ready(self) -> bool:
        """Return when it answers; False if it has ended instead."""
        end = time.monotonic() + START_S
        while self.process.poll() is None:
            if self._answers():
                return True
            if time.monotonic() > end:
                raise TimeoutError(f"{self.name} did not answer within {START_S:.0f} s")
            time.sleep(0.02)
        return False

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


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def ending_with_us(command: Sequence[object]) -> list[str]:
    """A command whose process is killed when the thread that starts it ends."""
    setpriv = shutil.which("setpriv")  # of util-linux
    prefix = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
    return [*prefix, *map(str, command)]


def serve(start: Callable[..., S3Server], program: str) -> int:
    """Start one; print its URL and what a client's configuration needs, until stdin closes."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=serve.__doc__)
    parser.add_argument("--place", type=Path, help="where its directory is made")
    parser.add_argument("buckets", nargs="*", metavar="bucket", help="to be made")
    options = parser.parse_args()
    clean_up_when_terminated()
    with start(place=options.place) as server:
        for bucket in options.buckets:
            server.make_bucket(bucket)
        return until_stdin_closes(server.url, server.conf, server.log)
