"""MinIO under test: what support/s3.py leaves to a server."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minio import MinioServer

from support.certificates import make_server_directory
from support.s3 import S3

NO_LIMIT = 0


class Minio(S3):
    """MinIO: a process whose objects are files."""

    def forget(self, path: str) -> None:
        shutil.rmtree(self.server.directory / "data" / self.bucket / path[1:], ignore_errors=True)

    @contextmanager
    def full(self) -> Iterator[None]:
        self._set_quota(1)
        try:
            yield
        finally:
            self._set_quota(NO_LIMIT)

    def _set_quota(self, size: int) -> None:
        body = json.dumps({"quota": size, "size": size, "quotatype": "hard"}).encode()
        self._admin("PUT", f"/minio/admin/v3/set-bucket-quota?bucket={self.bucket}", body)

    def _admin(self, method: str, target: str, body: bytes) -> None:
        """One call of MinIO's own interface."""
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials
        from botocore.httpsession import URLLib3Session

        digest = {"x-amz-content-sha256": hashlib.sha256(body).hexdigest()}
        request = AWSRequest(method, self.server.url + target, headers=digest, data=body)
        keys = Credentials(self.server.access_key, self.server.secret_key)
        S3SigV4Auth(keys, "s3", self.conf["fs.s3a.endpoint.region"]).add_auth(request)
        session = URLLib3Session()
        try:
            answer = session.send(request.prepare())
        finally:
            session.close()
        assert answer.status_code == 200, answer.text


@contextmanager
def started() -> Iterator[S3]:
    with MinioServer.start() as server:
        yield Minio(server)


@contextmanager
def started_with_tls(directory: Path) -> Iterator[S3]:
    """One whose certificate is made in an empty directory."""
    authority = make_server_directory(directory)
    with MinioServer.start(certificates=directory) as server:
        yield Minio(server, authority)
