"""Fixtures of the contract suite, beyond the `store` of tests/conftest.py.

    path     a path in the store's root at which nothing exists
    out      a stream just created at `path`; closed after the test if the test left it open
    umask    for this test the umask is 0o062
    failed   a stream that failed while it was written, and was not closed yet

A test that must hold, fail or count what the store does to its files is marked `shim` and takes the
fixture `faults` (support/below_shim.py).

Every test names its rules, @pytest.mark.rule("WRITE-1"), and, where it is for some stores only,
these: @pytest.mark.stores("raw"). Where a store refuses, or does something else that it declares,
the marker says so: @pytest.mark.rule("HFLUSH-1", refused=("crc", "s3")); support/conformance.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import hflush
import pytest
from support.stores import Store

FAILED_AT = 1 << 20  # bytes that the store took of the stream `failed`


@pytest.fixture
def path(store: Store) -> str:
    return store.path("file")


@pytest.fixture
def out(store: Store, path: str) -> Iterator[hflush.FSDataOutputStream]:
    stream = store.fs.create(path)
    yield stream
    stream.close()


@pytest.fixture
def failed(store: Store) -> Iterator[hflush.FSDataOutputStream]:
    stream = store.fs.create(store.path("broken"))
    with store.full(FAILED_AT), pytest.raises(OSError, match=store.full_text):
        write_until_failure(stream)
    yield stream
    stream._abandon()


def write_until_failure(stream: hflush.FSDataOutputStream) -> None:
    """Write more than any window of unacknowledged bytes: a good stream fails."""
    piece = bytes(FAILED_AT)
    for _ in range(256):
        stream.write(piece)
    raise AssertionError("256 MiB were accepted where there is room for one")


@pytest.fixture
def umask(store: Store) -> Iterator[None]:
    """The umask 0o062, as in Hadoop's own tests: the process's, or on a cluster the client's."""
    before = os.umask(0o062)
    kept = store.fs
    if not store.local:
        conf = {**store.conf, "fs.permissions.umask-mode": "062"}
        store.fs = hflush.FileSystem.new_instance(store.url(), conf)
    yield
    store.fs = kept
    os.umask(before)
