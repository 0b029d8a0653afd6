"""S3: the name space. Directories are what names say; nothing moves; there are no owners."""

from __future__ import annotations

import errno
import getpass
import io
import os
import unicodedata

import hflush
import pytest
from hflush import Rename
from hflush.checkpoint import CheckpointFileManager, MetadataLog
from support.data import dataset
from support.fault_proxy import FaultProxy
from support.listing import names
from support.s3_front import answer
from support.stores import S3Store
from support.waiting import wait_until

MIB = 1 << 20
PART = 5 * MIB

pytestmark = pytest.mark.stores("s3")

# What keys may have, and what breaks where a name is encoded twice, never, or by other rules.
ODD_NAMES = [
    "a+b",
    "a=b",
    "a!b",
    "a'b(c)*d",
    "a&b?c#d",
    "a%2Fb",
    "a%b",
    "100%",
    "a b",
    " lead",
    "trail ",
    "a\\b",
    'a"b',
    "a<b>c",
    "a|b^c`d{e}",
    "a;b,c",
    "a@b$c",
    "~",
    "-",
    "...",
    "a..b",
    "é",
    unicodedata.normalize("NFD", "é"),
    "日本",
    "😀",
    "a\x7fb",
    "UPPER",
    "upper",
    "k" * 250,
]


# --- keys ---


@pytest.mark.rule("PATH-7", "PATH-8", "PATH-11", "OBJ-5")
@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
def test_odd_names(store: S3Store, name: str) -> None:
    """A name is the key, byte by byte: for boto3, in listings, in copies, and for the upload."""
    path = store.path(f"<{name}>", name)
    key = f"{store.key()}/<{name}>/{name}"
    store.write(path, b"content")
    assert store.s3.keys(store.key() + "/<") == [key]
    assert store.s3.get(key) == b"content"
    assert store.read(path) == b"content"
    assert names(store.fs, store.path(f"<{name}>")) == [name]
    (found,) = store.fs.list_files(store.root, recursive=True)
    assert store.fs.get_file_status(found.path) == found
    store.fs.rename(store.path(f"<{name}>"), store.path("moved"), Rename.NONE)
    assert store.s3.get(f"{store.key()}/moved/{name}") == b"content"
    assert store.fs.delete(store.path("moved"), recursive=True)
    assert store.on_disk() == []


@pytest.mark.rule("PATH-7", "PATH-8", "OBJ-8")
def test_odd_names_of_uploads(store: S3Store) -> None:
    """Objects of several parts have such names, too; so has what lists uploads."""
    client = store.client(fs_s3a_multipart_size="5M")
    name = "a+b=c &d?e#f%2F'é日本"
    path = store.path(name)
    out = client.create(path)
    out.write(dataset(PART + 1))
    other = client.create(store.path("other " + name))
    other.write(dataset(PART + 1))
    out.close()
    assert store.content(path) == dataset(PART + 1)
    other.abort()
    assert store.uploads() == []


@pytest.mark.rule("PATH-8", "LIM-1")
@pytest.mark.parametrize("letter", ["k", "é", "+", " "], ids=ascii)
def test_the_longest_name(store: S3Store, letter: str) -> None:
    """1,024 bytes of UTF-8, each of which may be three in a request."""
    left = 1024 - len(f"{store.key()}/".encode())
    segments = "/".join(["x" * 99] * (left // 100 - 1)) + "/"
    rest = left - len(segments)
    name = segments + letter * ((rest - 1) // len(letter.encode()))
    name = name.ljust(len(name) + left - len(name.encode()), "x")
    path = store.write(store.path(name), b"content")
    assert len(store.key(path).encode()) == 1024
    assert store.content(path) == store.read(path) == b"content"
    (found,) = store.fs.list_files(store.root, recursive=True)
    assert found.path == store.public(path)
    assert store.fs.delete(path)
    assert not store.exists(path)


@pytest.mark.rule("LIM-1")
@pytest.mark.parametrize("name", ["x" * 1100, "é" * 600, "a/" * 520 + "a"], ids=len)
def test_names_that_are_too_long(store: S3Store, name: str) -> None:
    """More than 1,024 bytes of UTF-8 are ENAMETOOLONG, before the store is asked."""
    with pytest.raises(OSError, match="bytes") as refusal:
        store.write(store.path(name))
    assert refusal.value.errno == 36
    assert store.on_disk() == []


# --- directories ---


@pytest.mark.rule("OBJ-12", "MKDIR-8", "STATUS-7", "STATUS-10")
def test_directories_are_names(store: S3Store) -> None:
    """Markers are no files; a directory is where a name goes on, with a marker or without one."""
    fs = store.fs
    empty, full = store.path("empty"), store.path("full")
    fs.mkdirs(empty)
    assert store.s3.keys(store.key(empty)) == [store.key(empty) + "/"]
    store.s3.put(store.key(full) + "/deep/file", b"x")
    for directory in (empty, full, f"{full}/deep"):
        status = fs.get_file_status(directory)
        assert (status.is_directory, status.length) == (True, 0)
        with pytest.raises(hflush.NotAFileError):
            fs.open(directory)
    assert names(fs, store.root) == ["empty", "full"]
    assert names(fs, empty) == []
    assert [s.path for s in fs.list_files(store.root, recursive=True)] == [
        store.public(f"{full}/deep/file")
    ]
    assert fs.mkdirs(full) is True
    assert store.s3.keys(store.key(full)) == [store.key(full) + "/deep/file"]
    store.write(f"{full}/other", b"y")
    assert store.s3.keys(store.key(full)) == [
        f"{store.key(full)}/deep/file",
        f"{store.key(full)}/other",
    ]


@pytest.mark.rule("OBJ-12", "DELETE-6", "CONSIST-3")
def test_a_directory_outlives_its_last_file(store: S3Store, path: str) -> None:
    """Deleting or moving the last file of a directory leaves the directory."""
    directory = store.path("directory")
    for leave in (
        lambda name: store.fs.delete(name),
        lambda name: store.fs.rename(name, store.path("moved"), Rename.OVERWRITE),
    ):
        name = f"{directory}/file"
        store.write(name, b"x")
        leave(name)
        assert store.fs.is_directory(directory)
        assert names(store.fs, directory) == []


@pytest.mark.rule("MKDIR-9", "CREATE-7")
@pytest.mark.rule("MKDIR-7", divergence="s3")
def test_what_is_asked_of_directories(store: S3Store, path: str) -> None:
    """Declared divergence: modes are ignored; parents are looked for, in no one step with it."""
    fs = store.fs
    assert fs.mkdirs(store.path("mode"), 0o700) is True
    assert fs.get_file_status(store.path("mode")).permission == 0o777
    with pytest.raises(FileNotFoundError):
        fs.mkdirs(store.path("no", "parent"), create_parent=False)
    with pytest.raises(TypeError):
        fs.mkdirs(None)
    store.write(path, b"file")
    assert store.options["create-file-under-file-allowed"] is False
    for call in (
        lambda: fs.mkdirs(f"{path}/below"),
        lambda: store.write(f"{path}/below", b"x"),
        lambda: store.write(f"{path}/much/deeper", b"x"),
    ):
        with pytest.raises((hflush.ParentNotDirectoryError, FileExistsError)):
            call()
    assert store.on_disk() == ["file", "mode"]


@pytest.mark.rule("CREATE-7", "BUILDER-13")
def test_create_performance_asks_for_nothing(
    store: S3Store, s3_proxy: FaultProxy, path: str
) -> None:
    """In that mode create looks for nothing, and a small file is one request."""
    client = store.behind(s3_proxy, **{"fs_s3a_create_performance": "true"})
    with client.create(path) as out:
        out.write(b"x")
    assert [request.operation for request in s3_proxy.log] == ["PutObject"]
    assert client.contract_options["create-file-under-file-allowed"] is True


@pytest.mark.rule("ROOT-2")
@pytest.mark.rule("ROOT-3", "ROOT-4", divergence="s3")
def test_the_root_is_never_deleted(store: S3Store, path: str) -> None:
    """testRmRootRecursive, testRmNonEmptyRootDirNonRecursive: as declared, nothing is deleted."""
    assert store.options["test.root-tests-enabled"] is False
    store.write(path, b"kept")
    assert store.fs.delete("/", recursive=True) is False
    with pytest.raises(OSError, match="not empty") as refusal:
        store.fs.delete("/", recursive=False)
    told = (refusal.value.errno, refusal.value.filename)
    assert told == (errno.ENOTEMPTY, store.filename("/"))
    assert store.fs.is_directory("/")
    assert store.read(path) == b"kept"


@pytest.mark.rule("ROOT-3", "ROOT-4", divergence="s3")
def test_an_empty_root_is_nothing_to_delete(store: S3Store) -> None:
    """testRmEmptyRootDirRecursive, -NonRecursive: False, and it is still there."""
    bucket = f"empty-root-{os.getpid()}"
    store.s3.client.create_bucket(Bucket=bucket)
    try:
        fs = hflush.FileSystem.new_instance(f"s3://{bucket}/", store.conf)
        for recursive in (True, False):
            assert fs.delete("/", recursive=recursive) is False
            assert fs.is_directory("/")
            assert list(fs.list_status("/")) == []
        fs.close()
    finally:
        store.s3.client.delete_bucket(Bucket=bucket)


@pytest.mark.rule("STATUS-12", "STATUS-8", "DELETE-5")
def test_listings_have_pages(store: S3Store, s3_proxy: FaultProxy) -> None:
    """A directory of several pages: every entry once; a tree of several pages is deleted."""
    directory = store.path("many")
    expected = sorted(f"{number:03}" for number in range(60))
    for name in expected:
        store.s3.put(f"{store.key(directory)}/{name}" + ("/x" if name.endswith("0") else ""))
    client = store.behind(s3_proxy, fs_s3a_paging_maximum="7")
    assert names(client, directory) == expected
    assert sorted(status.name for status in client.list_status_iterator(directory)) == expected
    assert len(list(client.list_files(directory, recursive=True))) == 60
    assert s3_proxy.count("ListObjectsV2") >= 3 * 9
    assert client.delete(directory, recursive=True) is True
    assert store.on_disk() == []


# --- status ---


@pytest.mark.rule("STATUS-13", "OBJ-14", "CREATE-15", "MKDIR-7", divergence="s3")
def test_owners_and_modes_are_stubs(store: S3Store, path: str) -> None:
    """Declared divergence: owner, group and mode are made up, and setting them changes nothing."""
    assert store.options["supports-unix-permissions"] is False
    with store.fs.create(path, permission=0o600) as out:
        out.write(b"x")
    store.fs.mkdirs(store.path("directory"))
    for _ in range(2):
        status = store.fs.get_file_status(path)
        assert status.permission == 0o666
        assert status.owner == status.group == getpass.getuser()
        assert store.fs.get_file_status(store.path("directory")).permission == 0o777
        assert status.is_encrypted is True
        store.fs.set_permission(path, 0o600)
        store.fs.set_owner(path, "somebody", "else")
    with pytest.raises(FileNotFoundError):
        store.fs.set_permission(store.path("missing"), 0o600)


@pytest.mark.rule("STATUS-17")
@pytest.mark.parametrize("size", [10, PART + 1])
def test_etags(store: S3Store, path: str, size: int) -> None:
    """Status and listings have the store's etag; other content has another; so may a copy."""
    assert store.options["etags"] is True
    client = store.client(fs_s3a_multipart_size="5M")
    seen = set()
    for first in (1, 2):
        with client.create(path) as out:
            out.write(dataset(size, first))
        etag = client.get_file_status(path).etag
        assert etag
        assert out.etag == (None if size > PART and not store.s3.tells_etags else etag)
        assert etag == store.s3.head(store.key(path))["ETag"].strip('"')
        for found in (client.list_status(store.root), client.list_files(store.root)):
            assert [status.etag for status in found] == [etag]
        seen.add(etag)
    assert len(seen) == 2
    assert store.options["etags-preserved-in-rename"] is False


@pytest.mark.rule("STATUS-17", "OBJ-6")
def test_etags_are_those_of_the_parts(store: S3Store, path: str) -> None:
    """Of one PUT the MD5 of its bytes; of parts the MD5 of theirs, and how many there are."""
    from hashlib import md5

    data = dataset(2 * PART + 99, 1, 250)
    store.write(store.path("small"), b"abc")
    assert store.fs.get_file_status(store.path("small")).etag == md5(b"abc").hexdigest()
    with store.client(fs_s3a_multipart_size="5M").create(path) as out:
        out.write(data)
    parts = [data[start : start + PART] for start in range(0, len(data), PART)]
    whole = md5(b"".join(md5(part).digest() for part in parts)).hexdigest()
    assert store.fs.get_file_status(path).etag == f"{whole}-3"


@pytest.mark.rule("STATUS-18")
def test_block_locations(store: S3Store, path: str) -> None:
    """One host, which is none; nothing beyond the end or of a directory."""
    store.write(path, dataset(100))
    assert store.options["supports-block-locality"] is False
    (only,) = store.fs.get_file_block_locations(path, 0, 100)
    assert (only.offset, only.length, list(only.hosts)) == (0, 100, ["localhost"])
    assert list(store.fs.get_file_block_locations(path, 100, 10)) == []
    assert list(store.fs.get_file_block_locations(store.root, 0, 10)) == []
    with pytest.raises(ValueError, match="negative"):
        store.fs.get_file_block_locations(path, -1, 10)


@pytest.mark.rule("TIME-5", "TIME-6", "TIME-8", "TIME-10", "RENAME-26", divergence="s3")
@pytest.mark.rule("TIME-9")
def test_times_are_those_of_objects(store: S3Store, path: str) -> None:
    """Declared divergence: the time is when the store published; nobody sets it."""
    assert store.options["supports-settimes"] is False
    assert store.options["mtime-clock"] == "store"
    assert store.options["mtime-granularity"] == "s"
    store.write(path, b"x")
    status = store.fs.get_file_status(path)
    shown = store.s3.head(store.key(path))["LastModified"].timestamp()
    assert status.modification_time == int(shown) * 1000
    assert status.modification_time_ns == int(shown) * 1_000_000_000
    assert status.access_time == 0
    (listed,) = store.fs.list_status(store.root)
    assert listed == status
    with pytest.raises(io.UnsupportedOperation, match="set_times"):
        store.fs.set_times(path, 1, 1)
    with pytest.raises(FileNotFoundError):
        store.fs.set_times(store.path("missing"), 1, 1)
    assert store.fs.get_file_status(path).modification_time == status.modification_time
    wait_until(lambda: store_time(store) > status.modification_time, "the store's next second")
    store.fs.rename(path, store.path("renamed"), Rename.NONE)
    later = store.fs.get_file_status(store.path("renamed")).modification_time
    assert status.modification_time < later <= store_time(store)


def store_time(store: S3Store) -> int:
    """The time that an object gets now."""
    return store.fs.get_file_status(store.write(store.path("now"))).modification_time


# --- rename ---


@pytest.mark.rule("RENAME-7", "RENAME-28", divergence="s3")
def test_rename_as_declared(store: S3Store, path: str) -> None:
    """Declared divergence: no step is atomic; an existing file is refused, parents are made."""
    options = store.options
    assert options["rename-overwrites-dest"] is False
    assert options["rename-returns-false-if-dest-exists"] is False
    assert options["rename-creates-dest-dirs"] is True
    assert options["supports-atomic-rename"] is False
    store.write(path, b"one")
    other = store.write(store.path("other"), b"two")
    with pytest.raises(FileExistsError):
        store.fs.rename(path, other)
    assert (store.content(path), store.content(other)) == (b"one", b"two")
    store.fs.rename(path, other, Rename.OVERWRITE)
    assert store.content(other) == b"one"
    assert store.fs.rename(other, store.path("new", "deep", "name")) is True
    assert store.on_disk() == ["new", "new/deep", "new/deep/name"]


@pytest.mark.rule("RENAME-9", "RENAME-11", "RENAME-12")
def test_renames_that_make_no_sense_are_false(store: S3Store, path: str) -> None:
    """testRenameRootDirForbidden, -ChildDirForbidden, -DirToSelf: False, and nothing changes."""
    tree = store.path("tree")
    store.write(f"{tree}/sub/file", b"kept")
    store.write(path, b"kept")
    before = store.on_disk()
    for source, destination in (
        (tree, tree),
        (f"{tree}/sub", tree),  # into where it is
        (tree, f"{tree}/below"),
        (tree, f"{tree}/sub"),
        (tree, f"{tree}/sub/deep/name"),
        ("/", store.path("elsewhere")),
        ("/", "/"),
    ):
        assert store.fs.rename(source, destination) is False, (source, destination)
    assert store.fs.rename(path, path) is True
    assert store.fs.rename(path, store.root) is True
    assert store.on_disk() == before
    assert store.read(f"{tree}/sub/file") == b"kept"
    with pytest.raises(hflush.ParentNotDirectoryError):
        store.fs.rename(path, f"{path}/below")
    with pytest.raises(OSError, match="below the source"):  # the exact form has no False
        store.fs.rename(tree, f"{tree}/below", Rename.NONE)


@pytest.mark.rule("RENAME-29")
def test_nothing_is_renamed_to_another_store(store: S3Store, path: str) -> None:
    """A path of another file system is refused by both renames, and nothing is lost."""
    store.write(path, b"kept")
    for target in ("s3://other-bucket/target", "file:///target", f"hdfs://other{path}"):
        with pytest.raises((OSError, ValueError), match=r"file system|s3"):
            store.fs.rename(path, target)
        with pytest.raises((OSError, ValueError), match=r"file system|s3"):
            store.fs.rename(path, target, Rename.OVERWRITE)
    assert store.on_disk() == ["file"]
    assert store.read(path) == b"kept"


@pytest.mark.rule("RENAME-27", "EXTRA-8")
@pytest.mark.rule("OBJ-13", divergence="s3")
def test_large_objects_are_copied_in_parts(store: S3Store, s3_proxy: FaultProxy, path: str) -> None:
    """Beyond the threshold a copy is an upload of ranges; the content is the same."""
    client = store.behind(s3_proxy, fs_s3a_multipart_threshold="5M")
    data = dataset(2 * PART + 5, 1, 250)
    store.write(path, data)
    client.rename(path, store.path("moved"), Rename.NONE)
    assert s3_proxy.count("UploadPartCopy") >= 1
    assert s3_proxy.count("CopyObject") == 0
    assert store.content(store.path("moved")) == data
    assert store.on_disk() == ["moved"]
    assert store.uploads() == []


# --- reading ---


@pytest.mark.rule("READ-14", "CONC-10", "CONC-9")
def test_a_reader_does_not_mix_versions(store: S3Store, path: str) -> None:
    """An object that is replaced under a reader is an error, not a mixture of both."""
    store.write(path, b"a" * (20 * MIB))
    with store.fs.open(path) as reader:
        assert reader.read(10) == b"a" * 10
        reader.unbuffer()  # the server lets nobody write while it sends
        store.write(path, b"b" * (20 * MIB))
        reader.seek(19 * MIB)
        with pytest.raises(hflush.PreconditionFailedError):
            reader.read(10)


@pytest.mark.rule("READ-12", refused="s3")
@pytest.mark.rule("READ-18", divergence="s3")
def test_growth_is_seen_by_opening_again(store: S3Store, path: str) -> None:
    """A writer's bytes are not to be had before its close; then a new reader has them all."""
    out = store.fs.create(path)
    out.write(b"abc")
    with pytest.raises(FileNotFoundError):
        store.fs.open(path)
    out.close()
    assert store.read(path) == b"abc"


@pytest.mark.rule("EXTRA-9", "EXTRA-12", refused="s3")
@pytest.mark.rule("TIME-5", divergence="s3")
@pytest.mark.rule("FAIL-9")
def test_what_names_cannot_do(store: S3Store, path: str) -> None:
    """Verification, lists of corrupt blocks, and links: refused."""
    store.write(path, b"x")
    for call in (
        lambda: store.fs.list_corrupt_file_blocks(store.root),
        lambda: store.fs.create_symlink(path, store.path("link")),
    ):
        with pytest.raises(io.UnsupportedOperation):
            call()
    assert store.options["checksum-verified-on-read"] is False


# --- checkpoints ---


@pytest.mark.rule("CKPT-14", "OBJ-15", "CKPT-1", "CKPT-5")
@pytest.mark.rule("CKPT-24", divergence="s3")
def test_checkpoints_are_written_in_place(store: S3Store, s3_proxy: FaultProxy, path: str) -> None:
    """No temporary file and no rename: cancel publishes nothing, close publishes, once."""
    conf = {**store.conf, "fs.s3a.endpoint": s3_proxy.endpoint}
    manager = CheckpointFileManager.create(store.url(), conf)
    cancelled = manager.create_atomic(path, False)
    cancelled.write(b"x")
    cancelled.cancel()
    assert store.on_disk() == []
    out = manager.create_atomic(path, False)
    out.write(b"data")
    assert store.on_disk() == []
    out.close()
    assert store.content(path) == b"data"
    assert s3_proxy.count("CopyObject") == 0
    with pytest.raises(FileExistsError):
        manager.create_atomic(path, False).close()
    with manager.create_atomic(path, True) as again:
        again.write(b"more")
    assert store.content(path) == b"more"


@pytest.mark.rule("CKPT-14", "CKPT-3", "CKPT-7")
def test_a_checkpoint_that_appears_before_close(store: S3Store, path: str) -> None:
    """Somebody else's file that appears meanwhile is kept: FileExistsError from close."""
    manager = CheckpointFileManager.create(store.url(), store.conf)
    out = manager.create_atomic(path, False)
    out.write(b"mine")
    store.s3.put(store.key(path), b"theirs")
    with pytest.raises(FileExistsError):
        out.close()
    assert store.content(path) == b"theirs"
    assert store.on_disk() == ["file"]


@pytest.mark.rule("CKPT-3", "CKPT-7", "CKPT-23")
@pytest.mark.parametrize("when", ["before", "between", "gone"])
@pytest.mark.parametrize("keeps", [False, True])
def test_checkpoints_where_nothing_is_checked(
    store: S3Store, path: str, when: str, keeps: bool
) -> None:
    """Without conditions, too, it is close that tells, and what is there is kept."""
    conf = {
        **store.conf,
        "fs.s3a.create.conditional.enabled": "false",
        "hflush.checkpoint.keep-existing": keeps,
    }
    manager = CheckpointFileManager.create(store.url(), conf)
    key = store.key(path)
    if when != "between":
        store.s3.put(key, b"theirs")
    out = manager.create_atomic(path, False)
    out.write(b"mine")
    if when == "between":
        store.s3.put(key, b"theirs")
    elif when == "gone":
        store.s3.delete(key)
    if keeps or when == "gone":
        out.close()
    else:
        with pytest.raises(FileExistsError) as refusal:
            out.close()
        assert refusal.value.filename == store.filename(path)
    assert store.content(path) == (b"mine" if when == "gone" else b"theirs")
    store.fs.mkdirs(store.path("directory"))
    with pytest.raises(hflush.PathIsDirectoryError):
        manager.create_atomic(store.path("directory"), False)


@pytest.mark.rule("CKPT-25", "CKPT-16", "CKPT-18")
def test_a_failed_add_is_repeated_by_the_log(store: S3Store, s3_proxy: FaultProxy) -> None:
    """Two failures: True with two retries, the error with fewer, and no trace of the attempts."""
    conf = {**store.conf, "fs.s3a.endpoint": s3_proxy.endpoint}
    for retries in (2, 1):
        log = MetadataLog(store.url(store.path("log")), conf=conf, retries=retries)
        assert log.add(10 + retries, b"before")
        s3_proxy.fail("PutObject", answer(403, "AccessDenied"), times=2)
        if retries == 2:
            assert log.add(2, b"data")
        else:
            with pytest.raises(PermissionError):
                log.add(1, b"data")
        s3_proxy.heal()
    assert names(store.fs, store.path("log")) == ["11", "12", "2"]


@pytest.mark.rule("CKPT-17", "CKPT-18", "CKPT-7", "CKPT-14")
@pytest.mark.parametrize("broken", ["serialize", "write", "close"])
def test_a_failed_add_can_be_repeated(store: S3Store, s3_proxy: FaultProxy, broken: str) -> None:
    """The original exception comes out, the batch is absent, nothing is left, a repeat works."""
    conf = {**store.conf, "fs.s3a.endpoint": s3_proxy.endpoint}
    log = MetadataLog(store.url(store.path("log")), conf=conf)
    if broken == "serialize":
        failing = MetadataLog(
            store.url(store.path("log")), conf=conf, serialize=lambda data: 1 // 0
        )
        with pytest.raises(ZeroDivisionError):
            failing.add(1, b"a")
    elif broken == "write":
        with store.full(0), pytest.raises(OSError, match=store.full_text):
            log.add(1, b"a")
    else:
        s3_proxy.fail("PutObject", answer(403, "AccessDenied"), times=None)
        with pytest.raises(PermissionError):
            log.add(1, b"a")
        s3_proxy.heal()
    assert (log.get(1), log.get_latest()) == (None, None)
    assert not store.fs.exists(store.path("log")) or names(store.fs, store.path("log")) == []
    assert log.add(1, b"a")
    assert log.get(1) == b"a"
