"""A radosgw of one's own: three processes, a temporary directory, free loopback ports, own keys."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from loopback import S3Server, ending_with_us, free_port

from radosgw.cluster import Cluster, require_programs

START_S = 120.0
ATTEMPTS = 3  # to find ports that are still free when the programs ask for them


class RadosGateway(S3Server):
    """A running gateway, and the cluster behind it, which keeps objects in memory."""

    def __init__(self, directory: Path, settings: Mapping[str, object]) -> None:
        """Lay a cluster out; `start` also launches it."""
        super().__init__(directory)
        self.log = directory / "client.rgw.log"
        self.cluster = Cluster.lay_out(directory, self.port, free_port(), settings)
        self._processes: list[subprocess.Popen[bytes]] = []

    @classmethod
    def start(
        cls, *, place: Path | None = None, settings: Mapping[str, object] | None = None
    ) -> RadosGateway:
        """Start one and wait until it answers, which takes more than ten seconds.

        Parameters
        ----------
        place : Path
            Where its directory is made; by default, where temporary files are.
        settings : mapping
            Of the gateway ("rgw …"), over ours.
        """
        require_programs()
        for left in reversed(range(ATTEMPTS)):
            with contextlib.ExitStack() as undone:
                directory = Path(tempfile.mkdtemp(prefix="radosgw-", dir=place))
                undone.callback(shutil.rmtree, directory, ignore_errors=True)
                server = cls(directory, settings or {})
                undone.callback(server._end)
                try:
                    server._launch()
                except RuntimeError:
                    if left:
                        continue
                    raise
                undone.pop_all()
                return server
        raise AssertionError("the last attempt returns or raises")

    def _launch(self) -> None:
        self._run("ceph-mon", "-i", "a")
        self.cluster.add_store()
        self._run("ceph-osd", "-i", 0)
        self.cluster.administer(
            *("user", "create", "--uid", self.access_key, "--display-name", self.access_key),
            *("--access-key", self.access_key, "--secret", self.secret_key),
        )
        self._run("radosgw", "--name", "client.rgw", "--no-mon-config")
        self._wait_ready()

    def _run(self, program: str, *arguments: object) -> None:
        """Begin one of the three, in the foreground."""
        with (self.directory / f"{program}.out").open("ab") as out:
            self._processes.append(
                subprocess.Popen(
                    ending_with_us(self.cluster.command(program, "-f", *arguments)),
                    env=self.cluster.environment,
                    cwd=self.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                )
            )

    def _wait_ready(self) -> None:
        end = time.monotonic() + START_S
        while not self._answers():
            if any(process.poll() is not None for process in self._processes):
                raise RuntimeError(f"radosgw did not start:\n{self._said()}")
            if time.monotonic() > end:
                raise TimeoutError(f"radosgw did not answer within {START_S:.0f} s")
            time.sleep(0.05)

    def _said(self) -> str:
        files = sorted(self.directory.glob("*.out"))
        return "".join(f"{file.stem}: {file.read_text(errors='replace')}" for file in files)

    def _answers(self) -> bool:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(self.url, timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def make_bucket(self, name: str) -> str:
        import boto3

        with contextlib.closing(
            boto3.client(
                "s3",
                endpoint_url=self.url,
                region_name=self.environment["AWS_REGION"],
                aws_access_key_id=self.access_key,
                aws_secret_access_key=self.secret_key,
            )
        ) as client:
            client.create_bucket(Bucket=name)
        return name

    def pause(self) -> None:
        self._processes[-1].send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._processes[-1].send_signal(signal.SIGCONT)

    def _end(self) -> None:
        for process in reversed(self._processes):
            process.kill()  # nothing of it is to stay
            process.wait()
