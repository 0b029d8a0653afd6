"""Java Hadoop in a JVM of its own, reached through py4j: the oracle for local files.

The jars are those that come with pyspark; no Spark is started.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import launch_gateway
from support.waiting import DEADLINE_S

CHECKSUM_EXCEPTION = "org.apache.hadoop.fs.ChecksumException"


class Hadoop:
    """The JVM, and the two local file systems in it."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._jvm: Any = gateway.jvm

    def checksummed(self, bytes_per_checksum: int = 512) -> JavaFileSystem:
        """A LocalFileSystem: it verifies what it reads against `.name.crc`."""
        settings = {"file.bytes-per-checksum": str(bytes_per_checksum)}
        return self._initialized(self._jvm.org.apache.hadoop.fs.LocalFileSystem(), settings)

    def raw(self) -> JavaFileSystem:
        """A RawLocalFileSystem: it knows no sidecars."""
        return self._initialized(self._jvm.org.apache.hadoop.fs.RawLocalFileSystem(), {})

    def _initialized(self, fs: Any, settings: Mapping[str, str]) -> JavaFileSystem:
        configuration = self._jvm.org.apache.hadoop.conf.Configuration()
        for key, value in settings.items():
            configuration.set(key, value)
        fs.setConf(configuration)
        fs.initialize(self._jvm.java.net.URI("file:///"), configuration)
        return JavaFileSystem(fs, self._jvm.org.apache.hadoop.fs.Path)


class JavaFileSystem:
    """One of Hadoop's file systems, called by Python's names. Paths are absolute local names."""

    def __init__(self, fs: Any, path: Any) -> None:
        self._fs = fs
        self._path = path

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file."""
        self._fill(self._fs.create(self._path(path), True), data)

    def append(self, path: str, data: bytes) -> None:
        self._fill(self._fs.append(self._path(path)), data)

    def read(self, path: str) -> bytes:
        """A whole file, through a new reader."""
        stream = self._fs.open(self._path(path))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def names(self, directory: str) -> list[str]:
        """The names in a directory, as this file system shows them, sorted."""
        return sorted(status.getPath().getName() for status in self._list(directory))

    def lengths(self, directory: str) -> dict[str, int]:
        return {status.getPath().getName(): status.getLen() for status in self._list(directory)}

    def rename(self, source: str, destination: str) -> bool:
        return bool(self._fs.rename(self._path(source), self._path(destination)))

    def delete(self, path: str) -> bool:
        return bool(self._fs.delete(self._path(path), True))

    def set_verify_checksum(self, verify: bool) -> None:
        self._fs.setVerifyChecksum(verify)

    def _list(self, directory: str) -> Any:
        return self._fs.listStatus(self._path(directory))

    @staticmethod
    def _fill(stream: Any, data: bytes) -> None:
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()


@contextmanager
def launched() -> Iterator[Hadoop]:
    """Start a JVM; end it with the block, and see that it ended well."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    gateway = launch_gateway()
    try:
        yield Hadoop(gateway)
    finally:
        gateway.shutdown()
        process = gateway.proc
        process.stdin.close()  # what the JVM waits for
        process.wait(DEADLINE_S)


@contextmanager
def raises_java(class_name: str) -> Iterator[None]:
    """Expect that the JVM throws this class of exception."""
    with pytest.raises(Py4JJavaError) as caught:
        yield
    assert caught.value.java_exception.getClass().getName() == class_name
