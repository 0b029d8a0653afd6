"""What the S3 benchmarks run on: MinIO, Versity's gateway, and a server that drops what it is sent.

The data of the first two is in memory where there is enough of that (see hdfs_cluster.py).
bench/cpp/null_s3.cc answers at wire speed: what is measured there is the client. Every contender
is a child process (s3_contender.py) that lives as long as the module's tests, one for each server.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from hdfs_cluster import LEAST_MEMORY, MEMORY, OURS, Answer, Child
from minio import MinioServer
from support.certificates import make_server_directory
from versitygw import VersityGateway

HERE = Path(__file__).resolve().parent
NULL_S3 = HERE.parent / "build" / "dev" / "hflush_null_s3"
OBSTORE, OPENDAL, PYARROW, S3FS, BOTO3 = "obstore", "opendal", "pyarrow", "s3fs", "boto3"
# Of s3_contender.VARIANTS: nothing is set; no checksums are sent, as none of the peers sends any.
AS_IT_COMES, WITHOUT_SUMS = "hflush-as-it-comes", "hflush-without-checksums"
DELAY_MS = 20
BUCKET = "bench"

__all__ = [
    "AS_IT_COMES",
    "BOTO3",
    "BUCKET",
    "DELAY_MS",
    "OBSTORE",
    "OPENDAL",
    "OURS",
    "PYARROW",
    "S3FS",
    "WITHOUT_SUMS",
    "Answer",
    "S3Bench",
]


class S3Bench:
    """A server and the contenders that talk to it."""

    def __init__(
        self,
        url: str,
        access_key: str,
        secret_key: str,
        after_order: Callable[[], None],
        *authority: Path,
    ) -> None:
        self._arguments: tuple[str | Path, ...] = (url, BUCKET, access_key, secret_key, *authority)
        self._after_order = after_order  # not in the time of any contender
        self._names = count()
        self._children: dict[str, Child] = {}

    def child(self, name: str) -> Child:
        """Start one more process of a contender."""
        return Child(name, [sys.executable, HERE / "s3_contender.py", name, *self._arguments])

    def new_key(self) -> str:
        return f"bench/{next(self._names)}"

    def order(self, child: str, name: str, *arguments: object) -> Answer:
        """An order to the process that lives as long as the server."""
        if child not in self._children:
            self._children[child] = self.child(child)
        answer = self._children[child].order(name, *arguments)
        self._after_order()
        return answer

    def stop(self) -> None:
        for child in self._children.values():
            child.stop()


@contextmanager
def _with_children(bench: S3Bench) -> Iterator[S3Bench]:
    try:
        yield bench
    finally:
        bench.stop()


def _place() -> Path | None:
    large = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= LEAST_MEMORY
    return MEMORY if large else None


@contextmanager
def _minio(*authority: Path, certificates: Path | None = None) -> Iterator[S3Bench]:
    with MinioServer.start(place=_place(), certificates=certificates) as server:
        server.make_bucket(BUCKET)
        keys = server.access_key, server.secret_key
        bench = S3Bench(server.url, *keys, server.empty_trash, *authority)
        with _with_children(bench):
            yield bench


@pytest.fixture(scope="module")
def minio() -> Iterator[S3Bench]:
    """A real server."""
    with _minio() as bench:
        yield bench


@pytest.fixture(scope="module")
def minio_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Bench]:
    """The same over TLS."""
    directory = tmp_path_factory.mktemp("certificates")
    authority = make_server_directory(directory)
    with _minio(authority, certificates=directory) as bench:
        yield bench


@pytest.fixture(scope="module")
def versitygw() -> Iterator[S3Bench]:
    """A server that answers no connection twice, as it comes."""
    with VersityGateway.start(place=_place()) as server:
        server.make_bucket(BUCKET)
        bench = S3Bench(server.url, server.access_key, server.secret_key, lambda: None)
        with _with_children(bench):
            yield bench


@contextmanager
def _dropping(*arguments: object) -> Iterator[S3Bench]:
    if not NULL_S3.exists():
        pytest.skip("build/dev has no hflush_null_s3")
    command = [str(NULL_S3), *map(str, arguments)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = json.loads(server.stdout.readline())["port"]
        bench = S3Bench(f"http://127.0.0.1:{port}", "nobody", "secret-of-nobody", lambda: None)
        with _with_children(bench):
            yield bench
    finally:
        server.kill()
        server.wait()
        for stream in (server.stdin, server.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture(scope="module")
def null_s3() -> Iterator[S3Bench]:
    """A server that costs next to nothing."""
    with _dropping() as bench:
        yield bench


@pytest.fixture(scope="module")
def far_s3() -> Iterator[S3Bench]:
    """The same, as far away as another region."""
    with _dropping(DELAY_MS) as bench:
        yield bench
