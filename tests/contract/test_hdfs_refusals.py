"""HDFS: what cannot be created is refused before anything is lost."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import hflush
import pytest
from support.data import dataset
from support.minidfs import Hdfs, NewHdfs
from support.stores import HdfsStore

EC_POLICY = "XOR-2-1-1024k"
OLD = dataset(5000)
LONG_AGO = 1_000_000_000_000

pytestmark = pytest.mark.stores("hdfs")

Make = Callable[[hflush.FileSystem, str], hflush.FSDataOutputStream]

REPLACING: dict[str, Make] = {
    "create": lambda fs, path: fs.create(path, overwrite=True),
    "create_file": lambda fs, path: fs.create_file(path).overwrite(True).build(),
    "open": lambda fs, path: fs.create_file(path).recursive().storage_policy("HOT").build(),
}


class Kept:
    """A file of 5000 bytes: its identity, content and times, as Java sees them."""

    def __init__(self, hdfs: Hdfs, path: str) -> None:
        self.hdfs, self.path = hdfs, path
        hdfs.java.write(path, OLD)
        hdfs.java.fs.setTimes(hdfs.java.path(path), LONG_AGO, LONG_AGO)
        self._before = self._now()

    def _now(self) -> tuple[object, ...]:
        status = self.hdfs.java.status(self.path)
        times = (status.getModificationTime(), status.getAccessTime())
        return (status.getFileId(), status.getLen(), *times, self.hdfs.is_closed(self.path))

    def check(self) -> None:
        """It is what it was."""
        assert self._now() == self._before
        assert self.hdfs.java.read(self.path) == OLD


@pytest.mark.rule("CREATE-23")
@pytest.mark.rule("HDFS-21", refused="hdfs")
@pytest.mark.parametrize("old", ["coded", "replicated", "being written"])
@pytest.mark.parametrize("call", REPLACING)
def test_in_an_erasure_coded_directory(store: HdfsStore, call: str, old: str) -> None:
    """The file that was there stays, whatever it is: coded, with replicas, open elsewhere."""
    directory = store.path("coded")
    java = store.hdfs.java
    java.mkdirs(directory)
    java.fs.enableErasureCodingPolicy(EC_POLICY)
    path = f"{directory}/file"
    policy = java.path(directory), EC_POLICY
    if old == "coded":
        java.fs.setErasureCodingPolicy(*policy)
        kept = Kept(store.hdfs, path)
    else:
        kept = Kept(store.hdfs, path)
        java.fs.setErasureCodingPolicy(*policy)
    writer = java.append(path) if old == "being written" else None
    with pytest.raises(io.UnsupportedOperation, match="erasure-coded") as refusal:
        REPLACING[call](store.fs, path)
    assert refusal.value.filename == path
    if writer is not None:
        writer.write(b"more")
        writer.close()
        assert java.read(path) == OLD + b"more"
    else:
        kept.check()
    with pytest.raises(io.UnsupportedOperation, match="erasure-coded"):
        REPLACING[call](store.fs, f"{directory}/new")
    assert java.names(directory) == ["file"]
    with store.fs.create_file(path).replicate().build() as out:
        out.write(b"replicated")
    assert java.read(path) == b"replicated"


@pytest.mark.rule("CREATE-23", "BUILDER-12")
@pytest.mark.parametrize("exists", [True, False])
def test_an_erasure_coding_policy_is_refused_before_the_name_node_is_asked(
    store: HdfsStore, path: str, exists: bool
) -> None:
    """ec_policy() names what cannot be written; "replication" is the policy that can."""
    kept = Kept(store.hdfs, path) if exists else None
    calls = store.hdfs.calls("create")
    with pytest.raises(io.UnsupportedOperation, match=EC_POLICY) as refusal:
        store.fs.create_file(path).ec_policy(EC_POLICY).build()
    assert refusal.value.filename == path
    assert store.hdfs.calls("create") == calls
    assert store.on_disk() == (["file"] if exists else [])
    if kept is not None:
        kept.check()
    with store.fs.create_file(path).ec_policy("replication").build() as out:
        out.write(b"replicated")
    assert store.read(path) == b"replicated"


@pytest.mark.rule("CREATE-23", "BUILDER-12")
def test_an_unknown_storage_policy_is_refused_before_anything_is_replaced(
    store: HdfsStore, path: str
) -> None:
    """The NameNode would look for the policy when the old file is gone."""
    kept = Kept(store.hdfs, path)
    with pytest.raises((ValueError, OSError), match="NO_SUCH"):
        store.fs.create_file(path).storage_policy("NO_SUCH").build()
    kept.check()
    with store.fs.create_file(path).storage_policy("hot").build() as out:
        out.write(b"hot")
    assert store.read(path) == b"hot"


@pytest.mark.rule("CREATE-23", "CREATE-2")
def test_what_creating_costs(store: HdfsStore, path: str) -> None:
    """A new file is one call; replacing one is two more: is it there, and what is its directory."""
    fs = store.new_client()

    def calls() -> int:
        return fs.io_statistics().counters["rpc_calls"]

    try:
        fs.get_server_defaults()  # known for an hour then
        before = calls()
        fs.create(path).close()
        assert calls() - before == 2  # one of them is complete
        before = calls()
        fs.create(path).close()
        assert calls() - before == 4
    finally:
        fs.close()


# --- encryption zones ---


@pytest.fixture
def zone(hdfs_new: NewHdfs, tmp_path: Path) -> tuple[Hdfs, str]:
    """A cluster with keys, and a directory whose files are encrypted."""
    provider = f"jceks://file{tmp_path}/keys.jceks"
    hdfs = hdfs_new(1, {"hadoop.security.key.provider.path": provider, "dfs.replication": 1})
    utilities = hdfs.jvm.java.org.apache.hadoop.hdfs.DFSTestUtil
    utilities.createKey("key", hdfs.cluster.java, hdfs.cluster.java.getConfiguration(0))
    directory = "/zone"
    hdfs.java.mkdirs(directory)
    hdfs.cluster.java.getFileSystem().createEncryptionZone(hdfs.java.path(directory), "key")
    return hdfs, directory


@pytest.mark.rule("CREATE-23", "APPEND-15")
def test_in_an_encryption_zone(zone: tuple[Hdfs, str]) -> None:
    """Neither a new file, nor one that is there already, nor more of it."""
    hdfs, directory = zone
    fs = hdfs.file_system()
    try:
        path = f"{directory}/file"
        kept = Kept(hdfs, path)
        assert fs.get_file_status(path).is_encrypted
        for make in REPLACING.values():
            for name in (path, f"{directory}/new"):
                with pytest.raises(io.UnsupportedOperation, match="encrypt") as refusal:
                    make(fs, name)
                assert refusal.value.filename == name
        kept.check()
        assert hdfs.java.names(directory) == ["file"]
        with pytest.raises(io.UnsupportedOperation, match=r"encrypted.*modification time"):
            fs.append(path)
        assert hdfs.is_closed(path)
        assert hdfs.java.read(path) == OLD
        with pytest.raises(io.UnsupportedOperation, match="encrypt"):
            fs.open(path).read()
    finally:
        fs.close()
