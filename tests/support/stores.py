"""The stores that the contract suite runs over. Adding one means one subclass, named in `STORES`.

A test takes the fixture `store` and runs once per store:

    store.name                  "raw", "crc", …: the column of the rule matrix
    store.fs                    its FileSystem, a new instance for every test
    store.root                  a fresh, empty directory of the store (a path that `store.fs` takes)
    store.path("a", "b")        a path below root
    store.url(path)             the same as a URL, for hflush.create / append / open
    store.conf                  the configuration the URL needs
    store.write(path, data)     a whole file, created and closed
    store.read(path)            its bytes, through a NEW reader opened now
    store.options               fs.contract_options (contract §3)
    store.capable("hsync")      what a stream of this store answers
    store.second_client()       another process (support.peer.Peer), shared by all tests
    store.spawn()               one more process, of this test alone: it may be killed
    store.new_client()          another FileSystem instance in this process
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, ClassVar

import hflush

from support.peer import Peer


class Store:
    """One store under test, with a fresh root directory."""

    name: ClassVar[str]
    scheme: ClassVar[str]
    conf: ClassVar[dict[str, Any]] = {}
    _shared: ClassVar[dict[str, Peer]] = {}

    def __init__(self, root: str) -> None:
        self.root = root
        self.fs = self.new_client()
        self._spawned: list[Peer] = []

    def path(self, *names: str) -> str:
        return posixpath.join(self.root, *names)

    def url(self, path: str | None = None) -> str:
        return f"{self.scheme}://{self.root if path is None else path}"

    def new_client(self) -> hflush.FileSystem:
        return hflush.FileSystem.new_instance(self.url(), self.conf)

    def write(self, path: str, data: bytes = b"") -> str:
        with self.fs.create(path) as out:
            out.write(data)
        return path

    def read(self, path: str) -> bytes:
        with self.fs.open(path) as reader:
            return bytes(reader.read())

    @property
    def options(self) -> Mapping[str, Any]:
        return self.fs.contract_options

    def capable(self, capability: str) -> bool:
        with self.fs.create(self.path("_capable")) as out:
            answer = out.has_capability(capability)
        self.fs.delete(self.path("_capable"))
        return answer

    def second_client(self) -> Peer:
        peer = self._shared.get(self.name)
        if peer is None or not peer.alive:
            peer = self._shared[self.name] = Peer(self.url(), self.conf)
        return peer

    def spawn(self, **environment: str) -> Peer:
        peer = Peer(self.url(), self.conf, **environment)
        self._spawned.append(peer)
        return peer

    def release(self) -> None:
        """End what this test started."""
        for peer in self._spawned:
            if peer.alive:
                peer.kill()
        self.fs.close()

    @classmethod
    def release_shared(cls) -> None:
        """End the second clients of the session."""
        while cls._shared:
            cls._shared.popitem()[1].close()


class RawStore(Store):
    """Local files."""

    name = "raw"
    scheme = "file"


class ChecksumStore(Store):
    """Local files with .crc sidecars."""

    name = "crc"
    scheme = "file+crc"


STORES: dict[str, type[Store]] = {store.name: store for store in (RawStore, ChecksumStore)}
