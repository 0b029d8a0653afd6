"""A MinIO server of one's own: a temporary directory, a free loopback port, its own keys."""

from __future__ import annotations

import base64
import shutil
import ssl
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from loopback import REGION, ProcessServer

from minio.binary import binary

KMS_KEY = "hflush"  # the one that objects may be encrypted with (SSE-S3, SSE-KMS)


class MinioServer(ProcessServer):
    """A running MinIO: one process."""

    name = "MinIO"

    def __init__(
        self, directory: Path, certificates: Path | None, environment: Mapping[str, str]
    ) -> None:
        """Launch one; `start` also waits for it."""
        super().__init__(directory, "https" if certificates else "http")
        own = directory / "certificates"  # empty: plain HTTP
        own.mkdir(exist_ok=True)
        command = [binary(), "server", directory / "data", "--address", f"127.0.0.1:{self.port}"]
        command += ["--certs-dir", certificates or own]
        self._launch(command, {**self._settings(), **environment})

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

        def make(directory: Path) -> MinioServer:
            return cls(directory, certificates, environment or {})

        return cls._started(make, place)

    def _settings(self) -> dict[str, str]:
        """The server's environment."""
        return {
            "MINIO_ROOT_USER": self.access_key,
            "MINIO_ROOT_PASSWORD": self.secret_key,
            "MINIO_REGION_NAME": REGION,
            "MINIO_CI_CD": "1",  # a directory of a disk that has other things, too
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            "MINIO_KMS_SECRET_KEY": f"{KMS_KEY}:{base64.b64encode(bytes(range(32))).decode()}",
        }

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

    def empty_trash(self) -> None:
        """Free the space of objects that were replaced or deleted.

        The server does so after five minutes at the earliest: its first interval is the default
        one, whatever is set.
        """
        for removed in (self.directory / "data" / ".minio.sys" / "tmp" / ".trash").iterdir():
            shutil.rmtree(removed, ignore_errors=True)
