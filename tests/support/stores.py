"""The stores that the contract suite runs over. Adding one means one subclass, named in `STORES`.

A test takes the fixture `store` and runs once per store:

    store.name                  "raw", "crc", …: the column of the rule matrix, and "mem"
    store.fs                    its FileSystem, a new instance for every test
    store.root                  a fresh, empty directory of the store (a path that `store.fs` takes)
    store.path("a", "b")        a path below root
    store.url(path)             the same as a URL, for hflush.create / append / open
    store.conf                  the configuration the URL needs
    store.write(path, data)     a whole file, created and closed
    store.read(path)            its bytes, through a NEW reader opened now
    store.content(path)         its bytes, seen without hflush; store.size(path) how many
    store.visible(path)         the same, or nothing where nothing is there before close
    store.on_disk(directory)    the names of all below a directory, or root, seen without hflush
    store.scratch("name")       a local path of the test that is not in the store
    store.options               fs.contract_options (contract §3)
    store.capable("hsync")      what a stream of this store answers
    store.second_client()       another process (support.peer.Peer), shared by all tests
    store.spawn()               one more process, of this test alone: it may be killed
    store.unprivileged()        the same, of a user whom permissions stop
    store.public(path)          the name that statuses and streams give it
    store.new_client()          another FileSystem instance in this process
    store.longest_name          how many bytes of a name it takes, at most
    store.full(size)            a context in which no file takes more than so many bytes: errors
                                have store.full_errno and say store.full_text
    store.held()                what this process holds open for streams, for comparison
    store.chmod(path, mode)     permission bits, changed without hflush
    store.take_over(path)       let nobody else be writing the file, dead writers included
    store.settle(path)          wait until what was begun with the file (truncate) is done
    store.public_directory()    a context with a directory that every user can reach
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import hflush
import pytest
from hflush import _core

from support import actors, limits, listing
from support.minidfs import Hdfs
from support.peer import Peer, ThreadPeer
from support.process import connections, descriptors_under
from support.s3 import S3
from support.s3_front import S3Front
from support.waiting import wait_until


class Store:
    """One store under test, with a fresh root directory."""

    name: ClassVar[str]
    scheme: ClassVar[str]
    local: ClassVar[bool]  # its files are files of this machine
    durable: ClassVar[bool] = True  # its files outlive their process
    full_errno: ClassVar[int]
    full_text: ClassVar[str]
    longest_name: ClassVar[int] = 255
    peer_type: ClassVar[type[Peer]] = Peer
    conf: Mapping[str, Any] = {}
    _shared: ClassVar[dict[str, Peer]] = {}

    def __init__(self, root: str, scratch: Path) -> None:
        self.root = root
        self._scratch = scratch
        self.fs = self.new_client()
        self._spawned: list[Peer] = []

    @classmethod
    def of_test(cls, request: pytest.FixtureRequest, directory: Path) -> Store:
        """Make the store of a test whose temporary directory this is."""
        raise NotImplementedError

    def path(self, *names: str) -> str:
        return posixpath.join(self.root, *names)

    def url(self, path: str | None = None) -> str:
        return f"{self.scheme}://{self.root if path is None else path}"

    def filename(self, path: str) -> str:
        """How errors name a path."""
        return path

    def public(self, path: str) -> str:
        """What statuses and streams call a path."""
        return self.url(path)

    def new_client(self) -> hflush.FileSystem:
        return hflush.FileSystem.new_instance(self.url(), self.conf)

    def write(self, path: str, data: bytes = b"") -> str:
        with self.fs.create(path) as out:
            out.write(data)
        return path

    def read(self, path: str) -> bytes:
        with self.fs.open(path) as reader:
            return bytes(reader.read())

    def scratch(self, name: str) -> str:
        return f"{self._scratch}.{name}"

    @property
    def options(self) -> Mapping[str, Any]:
        return self.fs.contract_options

    def capable(self, capability: str) -> bool:
        with self.fs.create(self.path("_capable")) as out:
            answer = out.has_capability(capability)
        self.fs.delete(self.path("_capable"))
        return answer

    def content(self, path: str) -> bytes:
        raise NotImplementedError

    def visible(self, path: str) -> bytes:
        return self.content(path)

    def size(self, path: str) -> int:
        raise NotImplementedError

    def on_disk(self, directory: str | None = None) -> list[str]:
        raise NotImplementedError

    def unprivileged(self) -> Peer:
        raise NotImplementedError

    def full(self, size: int) -> AbstractContextManager[None]:
        raise NotImplementedError

    def held(self) -> list[str]:
        raise NotImplementedError

    def chmod(self, path: str, mode: int) -> None:
        raise NotImplementedError

    def mode(self, path: str) -> int:
        raise NotImplementedError

    def touch(self, path: str) -> None:
        raise NotImplementedError

    def move(self, source: str, destination: str) -> None:
        raise NotImplementedError

    def public_directory(self) -> AbstractContextManager[str]:
        raise NotImplementedError

    def take_over(self, path: str) -> None:
        raise NotImplementedError

    def settle(self, path: str) -> None:
        raise NotImplementedError

    def second_client(self) -> Peer:
        peer = self._shared.get(self.name)
        if peer is None or not peer.alive:
            peer = self._shared[self.name] = self.peer_type(self.url(), dict(self.conf))
        return peer

    def spawn(self, **environment: str) -> Peer:
        peer = self.peer_type(self.url(), dict(self.conf), **environment)
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


class LocalStore(Store):
    """Files of this machine, in the test's temporary directory."""

    local = True
    full_errno = errno.EFBIG
    full_text = "too large"

    @classmethod
    def of_test(cls, request: pytest.FixtureRequest, directory: Path) -> Store:
        return cls(str(directory), directory)

    def public(self, path: str) -> str:
        return path

    def content(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def size(self, path: str) -> int:
        return os.path.getsize(path)

    def on_disk(self, directory: str | None = None) -> list[str]:
        return listing.on_disk(self.root if directory is None else directory)

    def unprivileged(self) -> Peer:
        return actors.unprivileged(self)

    def full(self, size: int) -> AbstractContextManager[None]:
        return limits.largest_file(size)

    def held(self) -> list[str]:
        return descriptors_under(self.root)

    def chmod(self, path: str, mode: int) -> None:
        os.chmod(path, mode)

    def mode(self, path: str) -> int:
        return os.stat(path).st_mode & 0o7777

    def touch(self, path: str) -> None:
        Path(path).touch()

    def move(self, source: str, destination: str) -> None:
        os.rename(source, destination)

    def public_directory(self) -> AbstractContextManager[str]:
        return actors.public_directory()

    def take_over(self, path: str) -> None:
        pass

    def settle(self, path: str) -> None:
        pass


class RawStore(LocalStore):
    """Local files."""

    name = "raw"
    scheme = "file"


class ChecksumStore(LocalStore):
    """Local files with .crc sidecars."""

    name = "crc"
    scheme = "file+crc"


class HdfsStore(Store):
    """Files of the session's cluster. What is seen without hflush is seen by Java."""

    name = "hdfs"
    scheme = "hdfs"
    local = False
    full_errno = errno.EDQUOT
    full_text = "quota"

    def __init__(self, hdfs: Hdfs, scratch: Path) -> None:
        self.hdfs = hdfs
        self.conf = hdfs.conf
        # Of readers of earlier tests: they end when they have been idle for a while.
        self._older = Counter(connections(hdfs.ports))
        super().__init__(hdfs.root(), scratch)

    @classmethod
    def of_test(cls, request: pytest.FixtureRequest, directory: Path) -> Store:
        return cls(request.getfixturevalue("hdfs_cluster"), directory)

    def url(self, path: str | None = None) -> str:
        return f"{self.hdfs.url}{self.root if path is None else path}"

    def content(self, path: str) -> bytes:
        return self.hdfs.java.read(path)

    def size(self, path: str) -> int:
        return self.hdfs.java.length(path)

    def on_disk(self, directory: str | None = None) -> list[str]:
        return self.hdfs.java.tree(self.root if directory is None else directory)

    def unprivileged(self) -> Peer:
        return self.spawn(HADOOP_USER_NAME="somebody")

    @contextmanager
    def full(self, size: int) -> Iterator[None]:
        """Leave no space for another block: files get no more than they have, whatever `size`."""
        self.hdfs.java.set_space_quota(self.root, 1)
        try:
            yield
        finally:
            self.hdfs.java.set_space_quota(self.root, None)

    def held(self) -> list[str]:
        return sorted((Counter(connections(self.hdfs.ports)) - self._older).elements())

    def chmod(self, path: str, mode: int) -> None:
        self.hdfs.java.set_permission(path, mode)

    def mode(self, path: str) -> int:
        return self.hdfs.java.permission(path)

    def touch(self, path: str) -> None:
        self.hdfs.java.touch(path)

    def move(self, source: str, destination: str) -> None:
        assert self.hdfs.java.rename(source, destination)

    @contextmanager
    def public_directory(self) -> Iterator[str]:
        directory = self.path("public")
        self.fs.mkdirs(directory)
        yield directory

    def take_over(self, path: str) -> None:
        wait_until(lambda: self.fs.recover_lease(path), f"{path} is recovered")

    def settle(self, path: str) -> None:
        self.hdfs.wait_closed(path)

    def release(self) -> None:
        super().release()
        self.hdfs.java.delete(self.root)


class S3Store(Store):
    """Objects of the session's server. What is seen without hflush is seen by boto3."""

    name = "s3"
    scheme = "s3"
    local = False
    full_errno = errno.EDQUOT
    full_text = "QuotaExceeded"
    longest_name = 1024  # of a whole key: what a server does not take in one name, close is told

    def __init__(self, s3: S3, scratch: Path) -> None:
        self.s3 = s3
        self.conf = s3.conf
        self._clients: list[hflush.FileSystem] = []
        super().__init__(s3.root(), scratch)

    @classmethod
    def of_test(cls, request: pytest.FixtureRequest, directory: Path) -> Store:
        s3 = request.getfixturevalue("s3_server")
        for name, value in s3.server.environment.items():  # URLs are enough, as elsewhere
            request.getfixturevalue("monkeypatch").setenv(name, value)
        return cls(s3, directory)

    def url(self, path: str | None = None) -> str:
        return f"{self.s3.url}{self.root if path is None else path}"

    def filename(self, path: str) -> str:
        return self.url(path)

    def key(self, path: str | None = None) -> str:
        """What S3 calls a path."""
        return (self.root if path is None else path)[1:]

    def content(self, path: str) -> bytes:
        return self.s3.get(self.key(path))

    def size(self, path: str) -> int:
        return int(self.s3.head(self.key(path))["ContentLength"])

    def on_disk(self, directory: str | None = None) -> list[str]:
        return self.s3.tree(self.key(directory) + "/")

    def visible(self, path: str) -> bytes:
        return self.content(path) if self.exists(path) else b""

    def exists(self, path: str) -> bool:
        """Whether there is an object, seen without hflush."""
        return self.s3.exists(self.key(path))

    def uploads(self) -> list[tuple[str, str]]:
        """Uploads under way below root: keys and ids, seen without hflush."""
        return self.s3.uploads(self.key())

    def client(self, **conf: Any) -> hflush.FileSystem:
        """One more FileSystem, with further settings (`_` for `.`), closed after the test."""
        settings = {name.replace("_", "."): value for name, value in conf.items()}
        made = hflush.FileSystem.new_instance(self.url(), {**self.conf, **settings})
        self._clients.append(made)
        return made

    def behind(self, front: S3Front, **conf: Any) -> hflush.FileSystem:
        """A FileSystem that asks a proxy, is quick to ask again, and has small blocks."""
        quick = {"fs_s3a_retry_interval": "5ms", "fs_s3a_retry_throttle_interval": "5ms"}
        small = {"fs_s3a_multipart_size": "5M"}
        return self.client(fs_s3a_endpoint=front.endpoint, **{**quick, **small, **conf})

    def unprivileged(self) -> Peer:
        peer = self.spawn()
        peer.run("connect(url, conf)", url=self.url(), conf=self.s3.restricted("s3:ListBucket"))
        return peer

    def full(self, size: int) -> AbstractContextManager[None]:
        """Leave no space for another byte, whatever `size`."""
        return self.s3.full()

    def held(self) -> list[str]:
        """Uploads that are not at their end: connections are the process's, not the stream's."""
        return [key for key, _ in self.uploads()]

    def touch(self, path: str) -> None:
        self.s3.put(self.key(path))

    def move(self, source: str, destination: str) -> None:
        self.s3.copy(self.key(source), self.key(destination))
        self.s3.delete(self.key(source))

    @contextmanager
    def public_directory(self) -> Iterator[str]:
        directory = self.path("public")
        self.fs.mkdirs(directory)
        yield directory

    def take_over(self, path: str) -> None:
        pass

    def settle(self, path: str) -> None:
        pass

    def release(self) -> None:
        for release in (super().release, *(made.close for made in self._clients)):
            with contextlib.suppress(OSError):  # of streams that a test has left open
                release()
        self.s3.forget(self.root)


class MemoryStore(Store):
    """Files in the memory of this process (docs/new-store.md): other clients are threads of it.

    What is seen without hflush's Python is seen through the native names. A test that needs another
    process or another user is skipped.
    """

    name = "mem"
    scheme = "mem"
    local = False
    full_errno = errno.EFBIG
    full_text = "too large"
    durable = False
    peer_type = ThreadPeer

    def __init__(self, root: str, scratch: Path) -> None:
        import stores.mem  # noqa: F401 -- registers itself

        self._names = _core._MemoryNames("tests")
        super().__init__(root, scratch)
        self.fs.mkdirs(root)

    @classmethod
    def of_test(cls, request: pytest.FixtureRequest, directory: Path) -> Store:
        return cls(f"/{directory.name}", directory)

    def url(self, path: str | None = None) -> str:
        return f"mem://tests{self.root if path is None else path}"

    def content(self, path: str) -> bytes:
        return self._names.open(path).read(0, self.size(path))

    def size(self, path: str) -> int:
        return self._names.status(path).length

    def on_disk(self, directory: str | None = None) -> list[str]:
        top = self.root if directory is None else directory
        found, pending = [], [top]
        while pending:
            entries = self._names.list(pending.pop())
            found += [posixpath.relpath(entry.path, top) for entry in entries]
            pending += [entry.path for entry in entries if entry.is_directory]
        return sorted(found)

    def unprivileged(self) -> Peer:
        pytest.skip("files in memory are those of one user")

    def spawn(self, **environment: str) -> Peer:
        pytest.skip("files in memory are those of one process")

    @contextmanager
    def full(self, size: int) -> Iterator[None]:
        """Let no file grow beyond `size` bytes."""
        self._names.set_largest_file(size)
        try:
            yield
        finally:
            self._names.set_largest_file((1 << 64) - 1)

    def held(self) -> list[str]:
        return []

    def chmod(self, path: str, mode: int) -> None:
        self._names.set_permission(path, mode)

    def mode(self, path: str) -> int:
        return self._names.status(path).mode

    def touch(self, path: str) -> None:
        self.write(path)

    def move(self, source: str, destination: str) -> None:
        self._names.rename(source, destination)

    @contextmanager
    def public_directory(self) -> Iterator[str]:
        directory = self.path("public")
        self.fs.mkdirs(directory)
        yield directory

    def take_over(self, path: str) -> None:
        pass

    def settle(self, path: str) -> None:
        pass

    def release(self) -> None:
        super().release()
        self._names.delete(self.root, True)


STORES: dict[str, type[Store]] = {
    store.name: store for store in (RawStore, ChecksumStore, HdfsStore, S3Store, MemoryStore)
}

# Those where a file is there, and can be read, from create on.
FILES = tuple(name for name in STORES if name != "s3")
# Those that other processes see, too.
SHARED = tuple(name for name, store in STORES.items() if store.durable)
