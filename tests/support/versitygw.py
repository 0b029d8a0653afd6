"""Versity's gateway under test: what support/s3.py leaves to a server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from versitygw import VersityGateway

from support.s3 import S3


class Gateway(S3):
    """versitygw, whose objects are files."""

    name = "versitygw"
    completes_once = False
    has_files = True

    def forget(self, path: str) -> None:
        shutil.rmtree(self.server.directory / "data" / self.bucket / path[1:], ignore_errors=True)

    def full(self) -> AbstractContextManager[None]:
        pytest.skip("versitygw has no quotas over plain files")

    def restricted(self, *actions: str, resource: str = "*") -> dict[str, str]:
        pytest.skip("versitygw has no session tokens")


@contextmanager
def started() -> Iterator[S3]:
    with VersityGateway.start() as server:
        yield Gateway(server)
