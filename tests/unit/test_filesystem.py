"""FileSystem beyond the contract suite: instances, pickling, options, umask, extras."""

from __future__ import annotations

import contextlib
import errno
import functools
import inspect
import io
import os
import pickle
import re
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import hflush
import pytest
from hflush import CreateFlag, FileSystem, permissions
from hflush.cli import main
from hflush.errors import means_nothing_there
from hflush.options import as_int
from support.forks import in_child
from support.stores import FILES, Store
from support.waiting import DEADLINE_S, Task


def test_get_shares_and_new_instance_does_not(tmp_path: Path):
    """One per scheme, authority, user and configuration; a dict, a Configuration and None alike."""
    fs = FileSystem.get("file:///")
    assert FileSystem.get(tmp_path) is FileSystem.get() is fs
    assert FileSystem.get("file:///a", hflush.Configuration()) is fs
    assert FileSystem.get("file:///", {"x": 1}) is not fs
    assert FileSystem.get("file:///", {"x": "1"}) is FileSystem.get("file:///", {"x": 1})
    assert FileSystem.get("file+crc:///") is not fs
    assert FileSystem.new_instance("file:///") is not fs


def test_another_user_gets_another(monkeypatch: pytest.MonkeyPatch):
    """The user is part of what is shared."""
    fs = FileSystem.get("file:///")
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody else")
    assert FileSystem.get("file:///") is not fs


def test_many_threads_get_one():
    """Threads that ask at once share the instance."""
    conf = {"unique": "test_many_threads_get_one"}
    found: list[FileSystem] = []
    threads = [
        threading.Thread(target=lambda: found.append(FileSystem.get("file:///", conf)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


def test_close_makes_room_for_another():
    """A closed file system is not handed out again."""
    conf = {"unique": "test_close_makes_room_for_another"}
    fs = FileSystem.get("file:///", conf)
    fs.close()
    assert FileSystem.get("file:///", conf) is not fs


def test_the_configuration_is_read_once():
    """Changes to what was passed have no effect on the file system."""
    conf = hflush.Configuration()
    fs = FileSystem.new_instance("file:///", conf)
    conf["fs.local.block.size"] = "1m"
    assert fs.get_default_block_size() == 32 << 20
    assert FileSystem.new_instance("file:///", conf).get_default_block_size() == 1 << 20


def test_who_serves_a_url():
    """The scheme and fs.file.checksum choose; unknown schemes are named."""
    assert type(FileSystem.get("file:///")) is hflush.LocalFileSystem
    assert type(FileSystem.get("file+crc:///")) is hflush.ChecksumFileSystem
    checksummed = FileSystem.get("file:///", {"fs.file.checksum": True})
    assert type(checksummed) is hflush.ChecksumFileSystem
    assert (checksummed.uri, checksummed.scheme) == ("file:///", "file")
    with pytest.raises(hflush.UnsupportedFileSystemError, match="gopher") as refusal:
        FileSystem.get("gopher://host/a")
    assert refusal.value.errno == errno.EPROTONOSUPPORT
    with pytest.raises(hflush.UnsupportedFileSystemError, match="host") as refusal:
        FileSystem.get("gopher://user:hushhush@host/a")
    assert "hushhush" not in str(refusal.value)
    with pytest.raises(ValueError, match="host"):
        FileSystem.get("file://host/a")


def test_it_travels_and_reconnects(store: Store):
    """A pickled file system becomes the shared one of its URL and configuration."""
    conf = {**store.conf, "hflush.s3.pickle.secrets": True}
    shared = FileSystem.get(store.url(), conf)
    assert pickle.loads(pickle.dumps(shared)) is shared
    path = store.write(store.path("a"), b"x")
    copied = pickle.loads(pickle.dumps(store.fs))
    assert copied.open(path).read() == b"x"
    assert type(copied) is type(store.fs)


SECRETS = {
    "fs.s3a.secret.key": "hushhush",
    "fs.s3a.bucket.b.session.token": "hushhush",
    "fs.s3a.proxy.password": "hushhush",
    "ssl.client.keystore.password": "hushhush",
}


def test_no_secret_travels_or_is_shown(store: Store):
    """Secrets of any store, here unused, are in no pickle and no repr; all else travels."""
    fs = FileSystem.new_instance(store.url(), {**store.conf, **SECRETS, "x.y": "z"})
    pickled = pickle.dumps(fs)
    shown = f"{fs!r} {fs} {fs.conf!r} {fs.conf}"
    assert b"hushhush" not in pickled
    assert "hushhush" not in shown
    copied = pickle.loads(pickled)
    assert copied.conf["x.y"] == "z"
    assert not SECRETS.keys() & set(copied.conf)
    assert fs.conf["fs.s3a.secret.key"] == "hushhush"


def test_what_was_set_on_it_travels(store: Store):
    """The working directory and the checksum settings are those of the original, on its own."""
    store.fs.set_working_directory(store.path("wd"))
    if store.name == "crc":
        store.fs.set_write_checksum(False)
    copied = pickle.loads(pickle.dumps(store.fs))
    assert copied.working_directory == store.path("wd")
    assert copied is not FileSystem.get(store.url(), store.conf)
    copied.create("a").close()
    assert os.listdir(store.path("wd")) == ["a"] if store.name == "crc" else True


def test_it_travels_to_another_process(store: Store):
    """The other process writes with it."""
    code = "import pickle, sys; pickle.load(sys.stdin.buffer).create(sys.argv[1]).close()"
    subprocess.run(
        [sys.executable, "-c", code, store.path("a")], input=pickle.dumps(store.fs), check=True
    )
    assert store.fs.is_file(store.path("a"))


def test_streams_do_not_travel(store: Store):
    """An open stream can be neither pickled nor copied, and says what to do instead."""
    with store.fs.create(store.path("a")) as out, pytest.raises(TypeError, match="FileSystem"):
        pickle.dumps(out)
    with store.fs.open(store.path("a")) as stream, pytest.raises(TypeError, match="FileSystem"):
        pickle.dumps(stream)


@pytest.mark.rule("CLOSE-20")
@pytest.mark.stores(*FILES)
def test_close_closes_open_streams(store: Store):
    """Streams that are open are published when their file system closes."""
    outs = [store.fs.create(store.path(name)) for name in "ab"]
    for out in outs:
        out.write(b"data")
    store.fs.close()
    assert all(out.closed for out in outs)
    fs = store.new_client()
    assert [fs.get_file_status(store.path(name)).length for name in "ab"] == [4, 4]


HDFS_ONLY = (
    "concat",
    "set_replication",
    "msync",
    "list_corrupt_file_blocks",
    "recover_lease",
    "is_file_closed",
    "set_safe_mode",
)


@pytest.mark.rule("FAIL-9")
def test_what_is_not_there_is_refused_by_name(store: Store):
    """Every operation only other stores have raises UnsupportedOperation with name and store."""
    path = store.write(store.path("a"))
    offered = set(HDFS_ONLY) if store.name == "hdfs" else set()
    uploads = {"list_multipart_uploads", "abort_multipart_uploads"}
    offered |= {"copy", *uploads} if store.name == "s3" else {"get_trash", "move_to_trash"}
    offered |= {"create_symlink", "get_link_target"} if store.name == "raw" else set()
    calls = {
        "concat": lambda: store.fs.concat(path, [path]),
        "set_replication": lambda: store.fs.set_replication(path, 2),
        "copy": lambda: store.fs.copy(path, store.path("b")),
        "create_symlink": lambda: store.fs.create_symlink(path, store.path("l")),
        "get_link_target": lambda: store.fs.get_link_target(path),
        "msync": store.fs.msync,
        "list_corrupt_file_blocks": lambda: store.fs.list_corrupt_file_blocks(path),
        "recover_lease": lambda: store.fs.recover_lease(path),
        "is_file_closed": lambda: store.fs.is_file_closed(path),
        "set_safe_mode": lambda: store.fs.set_safe_mode("enter"),
        "list_multipart_uploads": lambda: store.fs.list_multipart_uploads(path),
        "abort_multipart_uploads": lambda: store.fs.abort_multipart_uploads(path),
        "get_trash": store.fs.get_trash,
        "move_to_trash": lambda: store.fs.move_to_trash(path),
    }
    assert set(HDFS_ONLY) <= calls.keys()
    for name in calls.keys() - offered:
        with pytest.raises(io.UnsupportedOperation, match=name) as refusal:
            calls[name]()
        assert store.name in str(refusal.value)
        assert refusal.value.errno == errno.ENOTSUP
    assert store.fs.supports_symlinks is (store.name == "raw")


@pytest.mark.rule("CREATE-15")
@pytest.mark.stores("raw", "crc")
@pytest.mark.parametrize(
    ("text", "umask"),
    [
        ("022", 0o022),
        ("0", 0),
        ("777", 0o777),
        ("u=rwx,g=rx,o=", 0o027),
        ("a=rx", 0o222),
        ("a+rw", 0o111),
        ("ug=rw", 0o117),
        ("u=rwx", 0o077),
        ("18", None),
        ("1000", None),
        ("rwx", None),
        ("u=q", None),
    ],
)
def test_umasks_as_hadoop_writes_them(text: str, umask: int | None):
    """Octal, or symbolically all that stays allowed; anything else is ValueError."""
    if umask is None:
        with pytest.raises(ValueError, match="umask"):
            permissions.parse_umask(text)
    else:
        assert permissions.parse_umask(text) == umask


def test_whole_numbers_of_other_types():
    """Those of numpy are as good as int; a bool is none."""
    numpy = pytest.importorskip("numpy")
    assert [as_int(value) for value in (numpy.int64(7), numpy.float64(7), "7")] == [7] * 3
    for value in (True, numpy.bool_(True), None, b"7"):
        with pytest.raises(TypeError, match=r"whole number|integer"):
            as_int(value)


@pytest.mark.rule("CREATE-15", "MKDIR-7")
@pytest.mark.stores("raw", "crc")
def test_a_default_acl_takes_the_place_of_the_umask(store: Store):
    """As for the built-in open(): what is to be its owner's alone stays so."""
    entries = ((0x01, 0o7), (0x04, 0), (0x20, 0))  # owner, group, others
    packed = b"".join(struct.pack("<HHI", tag, bits, 0xFFFFFFFF) for tag, bits in entries)
    try:
        os.setxattr(store.root, "system.posix_acl_default", struct.pack("<I", 2) + packed)
    except OSError as refusal:
        pytest.skip(f"no ACLs here: {refusal}")
    for atomic in (False, True):
        path = store.path(f"file-{atomic}")
        store.fs.create(path, atomic=atomic).close()
        assert store.fs.get_file_status(path).permission == 0o600
    store.fs.mkdirs(store.path("d/e"))
    assert store.fs.get_file_status(store.path("d/e")).permission == 0o700


@pytest.mark.rule("CREATE-15", "MKDIR-7")
@pytest.mark.stores(*FILES)
def test_the_configured_umask_wins(store: Store):
    """fs.permissions.umask-mode takes the place of the process' umask."""
    conf = {**store.conf, "fs.permissions.umask-mode": "077"}
    fs = FileSystem.new_instance(store.url(), conf)
    fs.create(store.path("d", "a"), permission=0o777).close()
    fs.mkdirs(store.path("e"))
    assert fs.get_file_status(store.path("d", "a")).permission == 0o700
    assert fs.get_file_status(store.path("e")).permission == 0o700


def test_the_umask_of_the_process_is_read_without_changing_it():
    """Reading it leaves it alone."""
    before = os.umask(0o031)
    try:
        assert permissions.process_umask() == 0o031
        assert os.umask(0o031) == 0o031
    finally:
        os.umask(before)


@pytest.mark.stores("raw", "crc")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fs.local.block.size", "0"),
        ("fs.local.block.size", "many"),
        ("fs.permissions.umask-mode", "999"),
        ("hflush.file.sync-on-close", "perhaps"),
    ],
)
def test_bad_settings_are_refused_when_configured(store: Store, key: str, value: str):
    """A malformed value is ValueError before any file is touched."""
    with pytest.raises(ValueError, match=key):
        FileSystem.new_instance(store.url(), {**store.conf, key: value})


@pytest.mark.rule("LOCAL-14")
@pytest.mark.stores("crc")
@pytest.mark.parametrize("size", [0, -1])
def test_chunks_of_no_bytes_are_refused(store: Store, size: int):
    """bytes-per-checksum of zero or less is ValueError, by configuration, builder and option."""
    with pytest.raises(ValueError, match="checksum"):
        FileSystem.new_instance(store.url(), {"file.bytes-per-checksum": size})
    with pytest.raises(ValueError, match="above 0"):
        store.fs.create_file(store.path("a")).checksum("CRC32", size)
    with pytest.raises(ValueError, match="above 0"):
        store.fs.create(store.path("a"), bytes_per_checksum=size)
    assert store.fs.list_status(store.root) == []


@pytest.mark.stores("crc")
def test_a_link_that_waits_for_a_sidecar(store: Store):
    """The sums of a new file replace it, and do not go where it leads."""
    precious = Path(store.path("precious"))
    precious.write_bytes(b"data")
    Path(store.path(".new.crc")).symlink_to(precious)
    with store.fs.create(store.path("new"), overwrite=False) as out:
        out.write(b"data")
    assert precious.read_bytes() == b"data"
    assert store.fs.open(store.path("new")).read() == b"data"
    assert not Path(store.path(".new.crc")).is_symlink()


@pytest.mark.stores("crc")
def test_the_sidecar_has_the_configured_chunk(store: Store):
    """file.bytes-per-checksum and the option are in the sidecar's header."""
    fs = FileSystem.new_instance(store.url(), {"file.bytes-per-checksum": 128})
    fs.create(store.path("a")).close()
    fs.create(store.path("b"), bytes_per_checksum=64).close()
    assert Path(store.path(".a.crc")).read_bytes()[4:8] == (128).to_bytes(4, "big")
    assert Path(store.path(".b.crc")).read_bytes()[4:8] == (64).to_bytes(4, "big")


@pytest.mark.stores("raw")
def test_options_a_store_cannot_honour(store: Store):
    """Keyword options and must() are refused; a named hint of the builder is not."""
    with pytest.raises(ValueError, match="bytes"):
        store.fs.create(store.path("a"), bytes_per_checksum=512)
    with pytest.raises(ValueError, match=r"fs\.option\.create\.in-memory"):
        store.fs.create_file(store.path("a")).must("fs.option.create.in-memory", True).build()
    assert store.fs.list_status(store.root) == []
    store.fs.create_file(store.path("a")).checksum("CRC32", 512).build().close()


@pytest.mark.rule("BUILDER-6")
@pytest.mark.stores("raw", "crc")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fs.option.create.checksum.type", "CRC32C"),
        ("fs.option.create.checksum.type", "x"),
        ("fs.option.create.bytes.per.checksum", 1 << 40),
        ("fs.option.create.bytes.per.checksum", 0),
        ("fs.option.create.permission", 0o10000),
        ("fs.option.create.buffer.size", -1),
        ("fs.option.create.replication", "x"),
        ("fs.option.create.block.size", 0),
        ("fs.option.create.progress", 3),
        ("fs.option.create.sync.on.close", "yes"),
        ("fs.option.create.atomic", "x"),
        ("hflush.close.on-exception", "x"),
    ],
)
def test_hints_that_cannot_be_kept(store: Store, key: str, value: Any):
    """A value that is malformed, or not possible here, is ignored unless it is mandatory."""
    path = store.path("a")
    with pytest.raises((TypeError, ValueError)):
        store.fs.create_file(path).must(key, value).build()
    assert not store.fs.exists(path)
    store.fs.create_file(path).opt(key, value).build().close()
    assert store.read(path) == b""


def test_unknown_options_are_named(store: Store):
    """An unknown keyword is TypeError, a dotted key ValueError; nothing is created."""
    with pytest.raises(TypeError, match="sinc_on_close"):
        store.fs.create(store.path("a"), sinc_on_close=True)
    with pytest.raises(ValueError, match=r"fs\.nosuch"):
        store.fs.create(store.path("a"), **{"fs.nosuch": 1})
    assert store.fs.list_status(store.root) == []


def test_the_same_flag_in_all_its_forms(store: Store):
    """A single flag, a set, a list and a combination are accepted; other things are TypeError."""
    path = store.path("a")
    for flags in (CreateFlag.CREATE, {CreateFlag.CREATE}, [CreateFlag.CREATE]):
        store.fs.create(path, flags=flags).close()
        store.fs.delete(path)
    store.fs.create(path, flags=CreateFlag.CREATE | CreateFlag.OVERWRITE).close()
    for flags in ({"CREATE"}, 1, "CREATE"):
        with pytest.raises(TypeError):
            store.fs.create(path, flags=flags)


def test_qualified_names(store: Store):
    """make_qualified gives the URL under which the file is found."""
    path = store.write(store.path("a"), b"x")
    url = store.fs.make_qualified(path)
    assert url == store.url(path)
    with hflush.open(url, "rb") as stream:
        assert stream.read() == b"x"


def test_statuses_are_values(store: Store):
    """Equal when nothing but the access time differs, hashed by path, picklable."""
    path = store.write(store.path("a"), b"abc")
    status = store.fs.get_file_status(path)
    assert status == store.fs.list_status(store.root)[0]
    assert pickle.loads(pickle.dumps(status)) == status
    assert {status: 1}[store.fs.get_file_status(path)] == 1
    assert (status.path, status.name, status.length) == (store.public(path), "a", 3)
    assert status.modification_time == status.modification_time_ns // 10**6
    store.write(path, b"abcd")
    assert store.fs.get_file_status(path) != status
    assert "length=3" in repr(status)


@pytest.mark.rule("STATUS-7", "STATUS-8", "STATUS-12")
@pytest.mark.stores("raw", "crc")
def test_walking_ends_in_spite_of_links(store: Store):
    """A link back to an ancestor does not make a walk endless."""
    store.write(store.path("d", "a"), b"12")
    os.symlink(store.path("d"), store.path("d", "loop"))
    walked = [status.path for status in store.fs.list_files(store.root, recursive=True)]
    assert walked == [store.path("d", "a")]
    summary = store.fs.get_content_summary(store.root)
    assert (summary.file_count, summary.length) == (1, 2)


@pytest.mark.stores("raw")
def test_walking_takes_no_frame_for_each_level(store: Store):
    """Trees may be deeper than Python's calls."""
    deep = store.path(*["d"] * 200, "file")
    store.write(deep, b"")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        walked = [status.path for status in store.fs.list_files(store.root, recursive=True)]
    finally:
        sys.setrecursionlimit(limit)
    assert walked == [deep]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*", ["a1", "a2", "b", "c*"]),
        ("a?", ["a1", "a2"]),
        ("[ab]*", ["a1", "a2", "b"]),
        ("[^a]*", ["b", "c*"]),
        ("a[0-1]", ["a1"]),
        ("{a1,b}", ["a1", "b"]),
        ("{a{1,2},nosuch}", ["a1", "a2"]),
        ("c\\*", ["c*"]),
        ("c[*]", ["c*"]),
        ("{b/x,a1}", ["b/x", "a1"]),
        ("*/x", ["b/x"]),
        ("*/[xy]", ["b/x", "b/y"]),
        ("b", ["b"]),
        ("nosuch", []),
        ("nosuch/*", []),
        ("a1/*", []),
        ("a1/x", []),
        ("x*", []),
    ],
)
def test_globs(store: Store, pattern: str, found: list[str]):
    """Hadoop's patterns, within one element, sorted; a missing literal does not match."""
    for name in ("a1", "a2", "c*", "b/x", "b/y"):
        store.write(store.path(name))
    matches = store.fs.glob_status(store.path(pattern))
    expected = sorted(store.public(store.path(name)) for name in found)
    assert [status.path for status in matches] == expected


@pytest.mark.stores("raw", "crc")
def test_nothing_is_below_links_in_a_circle(store: Store):
    """Nothing exists there, and globs pass it by; to ask for a status, or to open it, is ELOOP."""
    os.symlink(store.path("circle"), store.path("circle"))
    below = store.path("circle", "below")
    assert not store.fs.exists(below)
    assert not store.fs.is_file(below)
    assert not store.fs.is_directory(below)
    for look in (store.fs.get_file_status, store.fs.open):
        with pytest.raises(OSError, match="symbolic links") as failure:
            look(below)
        assert failure.value.errno == errno.ELOOP
    for pattern in ("circle/below", "*/below", "circle/below/*"):
        assert store.fs.glob_status(store.path(pattern)) == []


@pytest.mark.stores("raw", "crc")
def test_a_link_that_cannot_be_followed_is_not_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    """As to a mount that has failed: a log there was empty, and began anew. It can be removed.

    A file that was renamed into it took its place.
    """
    link, stat, file = store.path("link"), os.stat, store.path("file")
    os.symlink("nowhere", link)
    assert [found.path for found in store.fs.list_status(link)] == [link]

    def disconnected(path: Any, **options: Any) -> os.stat_result:
        if path == link:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN), path)
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", disconnected)
    fs = store.fs
    looks = (fs.exists, fs.is_directory, fs.list_status, fs.list_files, fs.get_content_summary)
    store.write(file)
    for look in (*looks, functools.partial(fs.rename, file)):
        with pytest.raises(OSError, match="not connected") as failure:
            look(link)
        assert (failure.value.errno, failure.value.filename) == (errno.ENOTCONN, link)
    assert {found.kind for found in fs.list_status(store.root)} == {"file", "symlink"}
    with pytest.raises(OSError, match="not connected"):
        list(fs.list_files(store.root, recursive=True))
    with pytest.raises(OSError, match="not connected"):
        fs.glob_status(store.path("*", "below"))
    with pytest.raises(OSError, match="not connected"):
        fs.get_content_summary(store.root)
    assert main(["rm", link]) == 0
    assert [found.path for found in fs.list_status(store.root)] == [file]


@pytest.mark.stores("raw", "crc")
def test_a_link_that_leads_to_a_directory_by_now(store: Store, tmp_path: Path):
    """Where it was listed it led nowhere: its files are found, and it is none."""
    later = tmp_path / "later"
    os.symlink(later, store.path("link"))
    found = store.fs.list_files(store.root, recursive=True)
    later.mkdir()
    (later / "x").touch()
    assert [one.path for one in found] == [store.path("link", "x")]


@pytest.mark.stores("raw", "crc")
def test_the_room_of_a_mount_that_has_failed(store: Store, monkeypatch: pytest.MonkeyPatch):
    """It is not that of the mount above."""
    mount = store.path("mount")

    class Failed:
        def fs_status(self, path: str) -> tuple[int, int, int]:
            if path == mount:
                raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN), path)
            return 1, 0, 1

    monkeypatch.setattr(store.fs, "_namespace", Failed())
    with pytest.raises(OSError, match="not connected") as failure:
        store.fs.get_status(mount)
    assert failure.value.filename == mount


def test_a_link_that_a_server_does_not_follow_is_not_nothing():
    """HDFS answers ELOOP for any link on the way, behind which there may be a file."""
    failure = OSError(errno.ELOOP, "a link", "/a")
    assert means_nothing_there(failure)
    failure.remote_class = "org.apache.hadoop.hdfs.protocol.UnresolvedPathException"
    assert not means_nothing_there(failure)


def test_globs_of_alternatives_that_are_whole_paths(store: Store):
    """Each of them is absolute, relative, the working directory or a URL by itself."""
    store.write(store.path("a", "x"))
    store.write(store.path("b", "y"))
    store.fs.set_working_directory(store.root)
    pattern = f"{{{store.path('a')}/?,b/{{y,z}},{store.url(store.path('a'))},}}"
    expected = [store.root, store.path("a"), store.path("a", "x"), store.path("b", "y")]
    found = [status.path for status in store.fs.glob_status(pattern)]
    assert found == sorted(map(store.public, expected))


@pytest.mark.stores("raw")
@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("[]^-]", "]^-"), ("[^^]", "]-!ad"), ("[!]a]", "^-!d"), ("[!!-]", "]^ad"), ("]", "]"),
        ("[\\]a]", "]a"), ("[\\d]", "d"), ("[a\\-d]", "-ad"), ("[a-d]", "ad"),
    ],
)  # fmt: skip
def test_classes_in_globs(store: Store, pattern: str, found: str):
    """TestGlobPattern: a bracket may come first, and what has a backslash is meant literally."""
    for name in "]^-!ad":
        store.write(store.path(name))
    matches = store.fs.glob_status(store.path(pattern))
    assert {status.name for status in matches} == set(found)


@pytest.mark.parametrize("pattern", ["[a", "[!]", "[]", "{a,b", "a\\"])
def test_globs_that_are_malformed(store: Store, pattern: str):
    """What is opened and never closed is InvalidPathError, as Hadoop's is an IOException."""
    store.write(store.path("a"))
    with pytest.raises(hflush.InvalidPathError, match="pattern"):
        store.fs.glob_status(store.path(pattern))


def test_bulk_delete_is_a_context_manager(store: Store):
    """It reports what stays, by the name it was given."""
    store.write(store.path("d", "a"))
    store.write(store.path("b"))
    with store.fs.bulk_delete(store.root) as bulk:
        failures = bulk.delete([store.path("d"), store.url(store.path("b")), store.path("no")])
    assert [(path, error.errno) for path, error in failures] == [(store.path("d"), errno.ENOTEMPTY)]
    assert not store.fs.exists(store.path("b"))


@pytest.mark.stores("crc")
def test_the_checksum_of_a_file_is_that_of_its_content(store: Store):
    """COMPOSITE-CRC32 is the CRC-32 of all bytes, whatever the chunks."""
    data = bytes(range(256)) * 9
    one = FileSystem.new_instance(store.url(), {"file.bytes-per-checksum": 100})
    for fs, name in ((store.fs, "a"), (one, "b")):
        with fs.create(store.path(name)) as out:
            out.write(data)
    checksum = store.fs.get_file_checksum(store.path("a"))
    assert checksum == one.get_file_checksum(store.path("b"))
    assert checksum.algorithm == "COMPOSITE-CRC32"
    assert int.from_bytes(checksum.value, "big") == hflush.crc.crc32(data)


@pytest.mark.stores("raw", "crc")
def test_files_that_are_published_later_are_refused(store: Store):
    """They are what stores have whose streams close without publishing."""
    with store.fs.create(store.path("a")) as out:
        pass
    for use in (
        lambda: store.fs._create_delayed(store.path("b")),
        lambda: store.fs._delayed_handle(out),
        lambda: store.fs._publish_delayed("handle", store.path("b")),
        lambda: store.fs._drop_delayed("handle"),
    ):
        with pytest.raises(io.UnsupportedOperation, match="delayed completion"):
            use()


@pytest.mark.stores("raw", "crc", "s3")
def test_a_checksum_of_the_front_of_a_file_is_refused(store: Store):
    """HDFS alone has one; what the file does not exceed is all of it."""
    store.write(store.path("a"), b"data")
    with pytest.raises(io.UnsupportedOperation, match="get_file_checksum with a length"):
        store.fs.get_file_checksum(store.path("a"), 1)
    if store.name != "raw":  # has none
        whole = store.fs.get_file_checksum(store.path("a"))
        assert store.fs.get_file_checksum(store.path("a"), 1 << 20) == whole
    with pytest.raises(ValueError, match="length=-1 is negative"):
        store.fs.get_file_checksum(store.path("a"), -1)


def test_the_options_are_complete_and_read_only(store: Store):
    """Every option of contract §3 is published, except those that mean nothing here."""
    options = store.fs.contract_options
    with pytest.raises(TypeError):
        options["supports-append"] = None  # type: ignore[index]
    assert options["is-case-sensitive"] is not Path(store.root.swapcase()).exists()
    assert options["max-path"] > 255
    assert len(options) > 45


def test_every_public_name_is_documented():
    """help() has something to say about each name, and about each of its methods."""
    undocumented = []
    for name in hflush.__all__:
        found = getattr(hflush, name)
        if not inspect.getdoc(found):
            undocumented.append(name)
        if inspect.isclass(found) and found.__module__.startswith("hflush"):
            undocumented += [
                f"{name}.{member}"
                for member, value in vars(found).items()
                if not member.startswith("_")
                and (inspect.isroutine(value) or isinstance(value, property))
                and not inspect.getdoc(value)
            ]
    assert undocumented == []


def test_importing_stays_small():
    """Import hflush brings in none of the heavy modules."""
    heavy = "numpy pandas pyarrow pyspark fsspec typing dataclasses inspect asyncio logging json"
    heavy += " concurrent.futures xml defusedxml pathlib re"
    code = f"import sys, hflush; print([name for name in {heavy!r}.split() if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_a_fork_gets_file_systems_of_its_own(store: Store):
    """In a child, get makes a new one, and it works."""
    fs = FileSystem.get(store.url(), store.conf)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            mine = FileSystem.get(store.url(), store.conf)
            mine.create(store.path("child")).close()
            code = 0 if mine is not fs else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert fs.is_file(store.path("child"))


@pytest.mark.stores("raw")
def test_a_fork_leaves_no_lock_held(store: Store):
    """What another thread holds at the fork does not keep the child from ending its streams."""
    out = store.fs.create(store.path("a"))
    taken, forked = threading.Event(), threading.Event()

    def hold() -> None:
        with store.fs._lock, out._persisting:
            taken.set()
            forked.wait()

    def child() -> None:
        with pytest.raises(OSError, match="before fork"):
            out.persist()
        with contextlib.suppress(OSError):
            out.close()
        store.fs.io_statistics()

    holding = Task(hold)
    taken.wait()
    try:
        in_child(child)
    finally:
        forked.set()
        holding.result()
    out.close()


CHILD = """
import hflush, multiprocessing, sys, threading, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import util

def late(path):
    with hflush.create(path, atomic=True) as out:
        while util._finalizer_registry:
            time.sleep(0.001)
        out.write(b"whole")

def work(where):
    global kept
    fs = hflush.FileSystem.get(where)
    fs.create(where + "/doomed").close()
    fs.delete_on_exit(where + "/doomed")
    plain, atomic = fs.create(where + "/plain"), fs.create(where + "/atomic", atomic=True)
    kept = plain, atomic, hflush.open(where + "/text", "w", atomic=True)
    threading.Thread(target=late, args=(where + "/late",)).start()

if __name__ == "__main__":
    where, how = sys.argv[1:]
    if how == "twice":  # as a test does that takes modules out, or reloads one
        del sys.modules["hflush.filesystem"]
        import hflush.filesystem
        how = "fork"
    if how == "pool":
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
            pool.submit(work, where).result()
    else:
        child = multiprocessing.get_context(how).Process(target=work, args=(where,))
        child.start()
        child.join()
"""


@pytest.mark.parametrize("how", ["fork", "forkserver", "spawn", "pool", "twice"])
def test_a_child_of_multiprocessing_ends_as_other_processes_do(tmp_path: Path, how: str):
    """What is open is reported, and what is doomed removed, when its other threads have ended."""
    program, where = tmp_path / "program.py", tmp_path / "files"
    program.write_text(CHILD)
    where.mkdir()
    run = subprocess.run(
        [sys.executable, program, where, how], capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert run.returncode == 0, run.stderr
    lost = re.findall(r"NotPublishedWarning: never closed.* name='(.*?)'", run.stderr)
    assert sorted(lost) == [f"{where}/{name}" for name in ("atomic", "plain", "text")]
    assert (where / "late").read_bytes() == b"whole"
    left = {"late", "plain"}
    assert {name for name in os.listdir(where) if how != "spawn" or "tmp" not in name} == left


def test_conf_is_a_copy(store: Store):
    """What is set on fs.conf stays there."""
    store.fs.conf["fs.local.block.size"] = "1"
    assert store.fs.conf.get("fs.local.block.size") != "1"


def test_contract_options_in_a_deleted_directory(store: Store):
    """They need no working directory, and vectored reads do not look at it at all."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import hflush, os, sys, tempfile\n"
            "where = tempfile.mkdtemp(); os.chdir(where); os.rmdir(where)\n"
            "with hflush.create(sys.argv[1]) as out: out.write(b'data')\n"
            "fs = hflush.FileSystem.get(sys.argv[1])\n"
            "assert fs.contract_options['max-path'] > 0\n"
            "print(fs.open(sys.argv[1]).read_vectored([(1, 2)])[0].result())",
            store.url(store.path("a")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "b'at'", done.stderr


def test_open_takes_the_options_of_open_file(store: Store):
    """By short name or by key; an unknown one is refused and named."""
    path = store.path("a")
    store.write(path, b"data")
    size = {"fs.option.openfile.buffer.size": "4k"}
    with store.fs.open(path, read_policy="sequential", length=4, **size) as stream:
        assert stream.read() == b"data"
    with hflush.open(store.url(path), "rb", split_start=0, split_end=4) as stream:
        assert stream.read() == b"data"
    footer = store.fs.open_file(path).must("fs.option.openfile.footer.cache", True)
    with footer.build().result() as stream:
        assert stream.read() == b"data"
    with pytest.raises(TypeError, match="unknown option 'nope'; there are buffer_size, length"):
        store.fs.open(path, nope=1)
    with pytest.raises(ValueError, match=r"fs\.x\.y"):
        store.fs.open(path, **{"fs.x.y": 1})
    for name in ("length", "split_start", "split_end"):
        with pytest.raises(
            ValueError, match=f"openfile.{name.replace('_', '.')}: must be a number"
        ):
            store.fs.open(path, **{name: "soon"})


@pytest.mark.parametrize("url", ["file:///", "file+crc:///", "s3://bucket/"])
def test_the_size_of_a_buffer_is_that_of_its_key(url: str):
    """With a unit, too; one that the key does not take is ValueError before anything is opened."""
    fs = FileSystem.new_instance(url, {"io.file.buffer.size": "4k"})
    assert fs.get_server_defaults().file_buffer_size == 4 << 10
    assert fs.get_default_block_size() == 32 << 20
    with pytest.raises(ValueError, match=r"^io\.file\.buffer\.size must be a size .*'-1'$"):
        FileSystem.new_instance(url, {"io.file.buffer.size": -1})


@pytest.mark.stores("raw")
@pytest.mark.parametrize(("size", "read"), [("4k", 4 << 10), ("0", 1)])
def test_so_much_is_read_at_a_time(store: Store, size: str, read: int):
    """As the key says; nothing beforehand where it is 0."""
    path = store.write(store.path("a"), bytes(64 << 10))
    fs = FileSystem.new_instance(store.url(), {"io.file.buffer.size": size})
    with fs.open(path) as stream:
        stream.read(1)
        assert stream.io_statistics().counters["stream_read_total_bytes"] == read


def test_open_file_of_a_path_with_a_slash_at_its_end(store: Store):
    """The status of the same file is accepted; a path of another store fails in the future."""
    path = store.path("a")
    store.write(path, b"data")
    status = store.fs.get_file_status(path)
    with store.fs.open_file(path + "/").with_file_status(status).build().result() as stream:
        assert stream.read() == b"data"
    future = store.fs.open_file("hdfs://elsewhere/a").build()
    assert isinstance(future.exception(), ValueError)


def test_a_missing_store_is_named_as_it_was_written():
    """GS:// is not called gs."""
    with pytest.raises(hflush.UnsupportedFileSystemError, match="'GS'"):
        FileSystem.get("GS://bucket/a")
