"""What other libraries do with hflush, on real stores.

    place      local files, S3 and HDFS in turn: of class Place, with a fresh directory

pip install 'hflush[ecosystem]' brings the libraries: a test of one that is missing fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fsspec
import hflush
import pytest


class Place:
    """A fresh directory of one store.

    kind       "local", "s3" or "hdfs"
    protocol   fsspec's name of it, without a plus
    conf       the configuration that it needs
    options    storage options: only words that s3fs and fsspec's hdfs have, too
    root       the directory, as fsspec's file system names it
    """

    def __init__(
        self,
        kind: str,
        root: str,
        base: str,
        conf: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        self.kind = kind
        self.protocol = {"local": "hflushfile"}.get(kind, f"hflush{kind}")
        self.root = root
        self._base = base
        self.conf = dict(conf)
        self.options = dict(options)

    @property
    def fs(self) -> Any:
        """The fsspec file system of this thread."""
        return fsspec.filesystem(self.protocol, **self.options)

    def name(self, name: str) -> str:
        """A name in the directory."""
        return f"{self.root}/{name}"

    def native(self, name: str) -> str:
        """The same as a URL for hflush.create and hflush.open."""
        scheme = {"local": "file"}.get(self.kind, self.kind)
        return f"{scheme}://{self._base}{self.name(name).removeprefix(self._base)}"

    def url(self, name: str, protocol: str | None = None) -> str:
        """The same as a URL for fsspec."""
        return self.native(name).replace(
            self.native("").partition(":")[0], protocol or self.protocol, 1
        )

    def create(self, name: str, **options: Any) -> hflush.FSDataOutputStream:
        return hflush.create(self.native(name), conf=self.conf, **options)

    def open(self, name: str, mode: str = "rb", **options: Any) -> Any:
        return hflush.open(self.native(name), mode, conf=self.conf, **options)

    def read(self, name: str) -> bytes:
        with self.open(name) as stream:
            return bytes(stream.read())

    def write(self, name: str, data: bytes) -> None:
        with self.create(name) as out:
            out.write(data)

    def names(self) -> list[str]:
        """What is in the directory, without it."""
        return [name.rpartition("/")[2] for name in self.fs.ls(self.root, detail=False)]


def _local(request: pytest.FixtureRequest) -> Place:
    directory: Path = request.getfixturevalue("tmp_path") / "place"
    directory.mkdir()
    return Place("local", str(directory), "", {}, {})


def _s3(request: pytest.FixtureRequest) -> Place:
    s3 = request.getfixturevalue("s3_server")
    bucket = s3.bucket
    options = {
        "key": s3.server.access_key,
        "secret": s3.server.secret_key,
        "endpoint_url": s3.server.url,
        "client_kwargs": {"region_name": s3.conf["fs.s3a.endpoint.region"]},
    }
    return Place("s3", bucket + s3.root(), bucket, s3.conf, options)


def _hdfs(request: pytest.FixtureRequest) -> Place:
    cluster = request.getfixturevalue("hdfs_cluster")
    authority = cluster.url.removeprefix("hdfs://").rstrip("/")
    host, _, port = authority.rpartition(":")
    options = {"host": host, "port": int(port), "extra_conf": cluster.conf}
    return Place("hdfs", cluster.root(), authority, cluster.conf, options)


_MAKERS: dict[str, Callable[[pytest.FixtureRequest], Place]] = {
    "local": _local,
    "s3": _s3,
    "hdfs": _hdfs,
}


@pytest.fixture(params=list(_MAKERS))
def place(request: pytest.FixtureRequest) -> Place:
    return _MAKERS[request.param](request)
