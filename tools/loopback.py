"""What S3 servers of one's own have in common: keys, a loopback port, an end."""

from __future__ import annotations

import argparse
import secrets
import shutil
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from by_hand import clean_up_when_terminated, until_stdin_closes

if TYPE_CHECKING:
    from typing_extensions import Self

REGION = "us-east-1"


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
