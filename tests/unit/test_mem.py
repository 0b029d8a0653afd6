"""The memory store of docs/new-store.md, where the contract suite does not reach."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys

import hflush
import pytest
import stores.mem.keys  # the store registers itself
from hflush import registry
from support.waiting import DEADLINE_S


@pytest.fixture
def fs(request: pytest.FixtureRequest) -> hflush.FileSystem:
    return hflush.FileSystem.new_instance(f"mem://{request.node.name}/")


def test_names_keep_stores_apart(fs: hflush.FileSystem):
    fs.create("/file").close()
    assert hflush.FileSystem.new_instance(fs.uri).exists("/file")
    assert not hflush.FileSystem.new_instance("mem://another/").exists("/file")


def test_what_is_to_be_durable_is_refused(fs: hflush.FileSystem):
    with pytest.raises(io.UnsupportedOperation, match=r"sync_on_close .* a memory store"):
        fs.create("/file", sync_on_close=True)
    with pytest.raises(io.UnsupportedOperation):
        fs.create("/file", flags=(hflush.CreateFlag.CREATE, hflush.CreateFlag.SYNC_BLOCK))
    assert not fs.exists("/file")
    with fs.create("/file", sync_on_close=False) as out, pytest.raises(io.UnsupportedOperation):
        out.hsync()


def test_append_can_be_switched_off(fs: hflush.FileSystem):
    other = hflush.FileSystem.new_instance(fs.uri, {"dfs.support.append": "false"})
    other.create("/file").close()
    with pytest.raises(io.UnsupportedOperation, match="append"):
        other.append("/file")
    assert other.contract_options["supports-append"] is False
    fs.append("/file").close()


def test_a_pickle_brings_its_store_along(fs: hflush.FileSystem):
    """Where no module of it was imported: its package registers it there."""
    unpickle = (
        "import pickle, sys, hflush\n"
        "fs = pickle.load(sys.stdin.buffer)\n"
        "print(type(fs).__name__, fs.uri, fs.exists('/file'))"
    )
    fs.create("/file").close()
    run = subprocess.run(
        [sys.executable, "-c", unpickle],
        input=pickle.dumps(fs),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
        timeout=DEADLINE_S,
    )
    assert run.stdout.decode() == f"MemoryFileSystem {fs.uri} False\n"


def test_a_child_begins_with_none_of_its_parents_files(fs: hflush.FileSystem):
    with fs.create("/file") as out:
        out.write(b"parent")
    reader = fs.open("/file")
    child = os.fork()
    if child == 0:
        try:
            assert not fs.exists("/file")
            with fs.create("/file") as out:
                out.write(b"child")
            assert fs.open("/file").read() == b"child"
            with pytest.raises(hflush.StreamClosedError, match="parent process"):
                reader.read()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert reader.read() == b"parent"
    reader.close()


def test_its_keys_are_known():
    """To Spark's data source, for one, which asks the registry."""
    assert {key.name for key in stores.mem.keys.KEYS} <= registry.known_keys()
