"""A MinIO server of one's own: a temporary directory, a free loopback port, its own keys."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from loopback import REGION, S3Server, ending_with_us

from minio.binary import binary

KMS_KEY = "hflush"  # the one that objects may be encrypted with (SSE-S3, SSE-KMS)
START_S = 60.0
ATTEMPTS = 5  # to find a port that is still free when the server asks for it


class MinioServer(S3Server):
    """A running MinIO: one process."""

    def __init__(
        self, directory: Path, certificates: Path | None, environment: Mapping[str, str]
    ) -> None:
        """Launch one; `start` also waits for it."""
        super().__init__(directory, "https" if certificates else "http")
        command = [binary(), "server", directory / "data", "--address", f"127.0.0.1:{self.port}"]
        command += ["--certs-dir", certificates or directory / "certificates"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ending_with_us(command),
                env={**self._settings(), **environment},
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @classmethod
    def start(
        cls,
        *,
        place: Path | None = None,
        certificates: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> MinioServer:
        """Start one and wait until it answers.

        Parameters
        ----------
        place : Path
            Where its directory is made; by default, where temporary files are.
        certificates : Path
            A directory with `public.crt` and `private.key`: the server then speaks TLS only.
        environment : mapping
            Settings of its own (MINIO_…), over ours.
        """
        binary()
        directory = Path(tempfile.mkdtemp(prefix="minio-", dir=place))
        try:
            for name in ("data", "certificates"):
                (directory / name).mkdir()
            for _ in range(ATTEMPTS):
                server = cls(directory, certificates, environment or {})
                try:
                    if server._wait_ready():
                        return server
                except BaseException:
                    server._end()
                    raise
            said = server.log.read_text(errors="replace")
            raise RuntimeError(f"MinIO did not start:\n{said}")
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise

    def _settings(self) -> dict[str, str]:
        """The server's environment; of this process only PATH, so no LD_PRELOAD of a sanitizer."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.directory),
            "MINIO_ROOT_USER": self.access_key,
            "MINIO_ROOT_PASSWORD": self.secret_key,
            "MINIO_REGION_NAME": REGION,
            "MINIO_CI_CD": "1",  # a directory of a disk that has other things, too
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            "MINIO_KMS_SECRET_KEY": f"{KMS_KEY}:{base64.b64encode(bytes(range(32))).decode()}",
        }

    def _wait_ready(self) -> bool:
        """Return when it answers; False if it has ended instead."""
        end = time.monotonic() + START_S
        while self.process.poll() is None:
            if self._answers():
                return True
            if time.monotonic() > end:
                raise TimeoutError(f"MinIO did not answer within {START_S:.0f} s")
            time.sleep(0.02)
        return False

    def _answers(self) -> bool:
        context = ssl._create_unverified_context()
        url = f"{self.url}/minio/health/ready"
        direct = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        try:
            with direct.open(url, timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def make_bucket(self, name: str) -> str:
        (self.directory / "data" / name).mkdir()
        return name

    def empty_trash(self) -> None:
        """Free the space of objects that were replaced or deleted.

        The server does so after five minutes at the earliest: its first interval is the default
        one, whatever is set.
        """
        for removed in (self.directory / "data" / ".minio.sys" / "tmp" / ".trash").iterdir():
            shutil.rmtree(removed, ignore_errors=True)

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def _end(self) -> None:
        self.process.kill()  # nothing of it is to stay
        self.process.wait()
