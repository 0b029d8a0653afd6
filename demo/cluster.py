"""Stores to run the demo on: an HDFS or an S3 server of this machine, gone at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1] / "tools"


@contextmanager
def hdfs() -> Iterator[str]:
    """Start a NameNode and three DataNodes in a JVM; yield their URL.

    Needs Java and, the first time, Maven for Hadoop's jars.
    """
    with _tools():
        from minidfs import MiniCluster
    with MiniCluster.start(datanodes=3) as cluster:
        yield cluster.url


@contextmanager
def s3() -> Iterator[str]:
    """Start a MinIO; yield the URL of a bucket. Needs Go, the first time, or pip to get it.

    Spark's JVM, and the Python workers that it starts, find keys and endpoint in the environment,
    as AWS's tools do.
    """
    with _tools():
        from minio import MinioServer
    with MinioServer.start() as server, _environment(server.environment):
        yield f"s3://{server.make_bucket('flights')}"


@contextmanager
def _tools() -> Iterator[None]:
    """Find modules of the project's own tools."""
    sys.path.append(str(TOOLS))
    try:
        yield
    finally:
        sys.path.remove(str(TOOLS))


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
