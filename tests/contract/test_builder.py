"""BUILDER: create_file and append_file builders."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from typing import Any

import pytest
from support.data import dataset
from support.listing import sidecar
from support.stores import FILES, Store

DATA = dataset(1000)
UNKNOWN = "fs.test.something"
BYTES_PER_CHECKSUM = "fs.option.create.bytes.per.checksum"
BUFFER_SIZE = "fs.option.create.buffer.size"
SYNC_ON_CLOSE = "fs.option.create.sync.on.close"


@pytest.mark.rule("BUILDER-1")
def test_nothing_happens_before_build(store: Store, path: str):
    """Setters neither validate nor touch the store: only build() does."""
    builder = store.fs.create_file(path).must(UNKNOWN, True).permission(0o600).block_size(7)
    assert store.on_disk() == []
    with pytest.raises(ValueError, match=re.escape(UNKNOWN)):
        builder.build()
    assert store.on_disk() == []


@pytest.mark.rule("BUILDER-1", "CREATE-9")
def test_zeros_are_accepted_by_the_setters(store: Store, path: str):
    """TestLocalFileSystem.testFSOutputStreamBuilder: what no store can do is refused by build()."""
    builder = store.fs.create_file(path).buffer_size(0).replication(0).block_size(0)
    with pytest.raises(ValueError, match="above 0"):
        builder.build()
    assert store.on_disk() == []
    with builder.replication(1).block_size(1 << 20).build() as out:
        out.write(DATA)
    assert store.read(path) == DATA


@pytest.mark.rule("BUILDER-1")
def test_a_builder_for_a_missing_parent_is_made_without_complaint(store: Store):
    """The existence of anything is not looked at until build()."""
    builder = store.fs.create_file(store.path("dir", "file"))
    store.fs.mkdirs(store.path("dir"))
    builder.build().close()
    assert store.fs.is_file(store.path("dir", "file"))


@pytest.mark.rule("BUILDER-2")
def test_build_creates_what_create_creates(store: Store, path: str):
    """testCreateNewFile: a file by the builder reads back as one by create."""
    with store.fs.create_file(path).build() as out:
        assert store.visible(path) == b""
        out.write(DATA)
    twin = store.write(store.path("twin"), DATA)
    assert store.read(path) == store.read(twin) == DATA
    built, created = store.fs.get_file_status(path), store.fs.get_file_status(twin)
    assert built.permission == created.permission
    assert built.block_size == created.block_size


@pytest.mark.rule("BUILDER-3")
def test_overwrite_is_the_default(store: Store, path: str):
    """An existing file is replaced unless overwrite(False) forbids it."""
    store.write(path, DATA)
    with pytest.raises(FileExistsError):
        store.fs.create_file(path).overwrite(False).build()
    assert store.read(path) == DATA
    store.fs.create_file(path).build().close()
    assert store.read(path) == b""


@pytest.mark.rule("BUILDER-4")
def test_parents_are_made_only_on_request(store: Store):
    """Without recursive() a missing parent is FileNotFoundError at build."""
    path = store.path("a", "b", "file")
    with pytest.raises(FileNotFoundError):
        store.fs.create_file(path).build()
    assert store.on_disk() == []
    with store.fs.create_file(path).recursive().build() as out:
        out.write(DATA)
    assert store.read(path) == DATA


@pytest.mark.rule("BUILDER-5")
@pytest.mark.parametrize("value", [True, 3, 2**62, 1.5, "text"], ids=repr)
def test_an_unknown_mandatory_option_is_refused(store: Store, path: str, value: Any):
    """must() of an unknown key is ValueError at build, naming the key, before any change."""
    store.write(path, DATA)
    builder = store.fs.create_file(path).must(UNKNOWN, value)
    with pytest.raises(ValueError, match=re.escape(UNKNOWN)):
        builder.build()
    assert store.read(path) == DATA


@pytest.mark.rule("BUILDER-5")
@pytest.mark.stores("raw", "hdfs")
@pytest.mark.parametrize("key", [UNKNOWN, "fs.option.create.permission"])
def test_an_unknown_mandatory_option_of_append_is_refused(store: Store, path: str, key: str):
    """The append builder checks its mandatory options, too: what a file has, it has."""
    store.write(path, DATA)
    with pytest.raises(ValueError, match=rf"{re.escape(key)}.*; there are fs"):
        store.fs.append_file(path).must(key, "600").build()
    assert store.read(path) == DATA


@pytest.mark.rule("BUILDER-6")
def test_an_unknown_optional_option_is_ignored(store: Store, path: str):
    """opt() is best effort."""
    with store.fs.create_file(path).opt(UNKNOWN, 3).opt("fs.s3.whatever", "x").build() as out:
        out.write(DATA)
    assert store.read(path) == DATA


@pytest.mark.rule("BUILDER-7")
def test_the_last_setting_of_a_key_decides_whether_it_is_mandatory(store: Store, path: str):
    """opt then must is mandatory; must then opt is optional."""
    with pytest.raises(ValueError, match=re.escape(UNKNOWN)):
        store.fs.create_file(path).opt(UNKNOWN, 1).must(UNKNOWN, 1).build()
    assert not store.fs.exists(path)
    store.fs.create_file(path).must(UNKNOWN, 1).opt(UNKNOWN, 1).build().close()
    assert store.fs.exists(path)


@pytest.mark.rule("BUILDER-7")
@pytest.mark.stores("crc")
def test_the_last_of_a_method_and_an_option_wins(store: Store, path: str):
    """A named method and the option of the same meaning: whichever was set last decides."""
    store.fs.create_file(path).opt(BYTES_PER_CHECKSUM, 64).checksum("CRC32", 128).build().close()
    assert bytes_per_checksum(path) == 128
    store.fs.create_file(path).checksum("CRC32", 128).must(BYTES_PER_CHECKSUM, 64).build().close()
    assert bytes_per_checksum(path) == 64


@pytest.mark.rule("BUILDER-7", "BUILDER-11")
@pytest.mark.stores("raw")
def test_a_buffer_size_set_last_wins(store: Store, path: str):
    """buffer_size() after opt() of its key, and the other way round: 0 means unbuffered."""
    builder = store.fs.create_file(path)
    with builder.opt(BUFFER_SIZE, 1 << 20).buffer_size(0).build() as out:
        out.write(DATA)
        assert store.fs.get_file_status(path).length == len(DATA)
    with builder.buffer_size(0).must(BUFFER_SIZE, 1 << 20).build() as out:
        out.write(DATA)
        assert store.fs.get_file_status(path).length == 0


@pytest.mark.rule("BUILDER-7")
def test_the_last_call_of_a_method_wins(store: Store, path: str):
    """A method called twice counts as called the second time."""
    store.fs.create_file(path).permission(0o640).permission(0o600).build().close()
    if store.options["supports-unix-permissions"]:
        assert store.fs.get_file_status(path).permission == 0o600
    with pytest.raises(FileExistsError):
        store.fs.create_file(path).overwrite(True).overwrite(False).build()


@pytest.mark.rule("BUILDER-8", "CREATE-13")
@pytest.mark.parametrize(
    "combine",
    [
        lambda builder: builder.append().overwrite(True),
        lambda builder: builder.create().append().overwrite(True),
        lambda builder: builder.overwrite(True).append(),
    ],
    ids=["append+overwrite", "create+append+overwrite", "overwrite+append"],
)
def test_append_with_overwrite_is_refused(store: Store, path: str, combine: Callable[..., Any]):
    """The contradiction is ValueError at build; the content stays."""
    store.write(path, DATA)
    with pytest.raises(ValueError, match=r"(?i)append"):
        combine(store.fs.create_file(path)).build()
    assert store.read(path) == DATA


@pytest.mark.rule("BUILDER-9")
@pytest.mark.stores("crc")
@pytest.mark.parametrize("value", ["96", 96, 96.0], ids=repr)
def test_option_values_arrive_whatever_their_type(store: Store, path: str, value: Any):
    """An option's value may be str, int or float and reaches the store without loss."""
    store.fs.create_file(path).must(BYTES_PER_CHECKSUM, value).build().close()
    assert bytes_per_checksum(path) == 96


@pytest.mark.rule("BUILDER-9")
@pytest.mark.parametrize("value", ["true", True, 2**62, -(2**62), 0.1, "text"], ids=repr)
def test_option_values_of_each_type_are_taken(store: Store, path: str, value: Any):
    """str, bool, 64-bit int and float are accepted by opt and must and kept without loss."""
    builder = store.fs.create_file(path)
    assert builder.opt(UNKNOWN, value) is builder
    builder.build().close()
    with pytest.raises(ValueError, match=re.escape(UNKNOWN)):
        store.fs.create_file(path).must(UNKNOWN, value).build()


@pytest.mark.rule("BUILDER-9", "BUILDER-15")
@pytest.mark.parametrize("value", [None, [1], b"true", "yes", 7], ids=repr)
def test_malformed_values_are_refused(store: Store, path: str, value: Any):
    """A mandatory option with a value that makes no sense is refused, at the latest by build."""
    with pytest.raises((TypeError, ValueError)):
        store.fs.create_file(path).must(SYNC_ON_CLOSE, value).build()
    assert store.on_disk() == []


@pytest.mark.rule("BUILDER-9", "BUILDER-6")
@pytest.mark.parametrize("value", ["true", True, "False", False, "yes"], ids=repr)
def test_booleans_are_read_from_both_spellings(store: Store, path: str, value: Any):
    """A boolean option takes True and "true" alike; as a hint a malformed one is ignored."""
    with store.fs.create_file(path).opt(SYNC_ON_CLOSE, value).build() as out:
        out.write(DATA)
    assert store.read(path) == DATA


@pytest.mark.rule("BUILDER-10")
@pytest.mark.parametrize(
    "set_none",
    [
        lambda builder: builder.permission(None),
        lambda builder: builder.progress(None),
        lambda builder: builder.checksum(None, 512),
    ],
    ids=["permission", "progress", "checksum"],
)
def test_none_is_refused_when_it_is_set(store: Store, path: str, set_none: Callable[..., Any]):
    """None for permission, progress or checksum is TypeError at the setter."""
    with pytest.raises(TypeError):
        set_none(store.fs.create_file(path))


@pytest.mark.rule("BUILDER-11")
def test_the_common_parameters(store: Store, path: str):
    """Permission, buffer size, replication, block size, recursive, progress: taken and used."""
    calls: list[int] = []
    builder = (
        store.fs.create_file(store.path("dir", "file"))
        .create()
        .overwrite(True)
        .recursive()
        .permission(0o600)
        .buffer_size(4096)
        .replication(1)
        .block_size(1 << 20)
        .progress(lambda: calls.append(1))
    )
    with builder.build() as out:
        out.write(DATA)
    status = store.fs.get_file_status(store.path("dir", "file"))
    permission = 0o600 if store.options["supports-unix-permissions"] else 0o666
    assert (status.length, status.permission, status.replication) == (len(DATA), permission, 1)
    assert bool(calls) is (store.name in ("hdfs", "s3"))  # local files have no use for it


@pytest.mark.rule("BUILDER-11")
def test_the_defaults_come_from_the_file_system(store: Store, path: str):
    """Without parameters a file has the defaults that the server defaults name."""
    defaults = store.fs.get_server_defaults()
    with store.fs.create_file(path).build() as out:
        out.write(DATA)
    status = store.fs.get_file_status(path)
    assert status.block_size == defaults.block_size == store.fs.get_default_block_size(path)
    assert status.replication == defaults.replication


@pytest.mark.rule("BUILDER-14")
def test_the_keys_that_are_understood(store: Store):
    """Shared keys begin with fs.option. or hflush., this store's own with its scheme."""
    for key in store.fs.create_options | store.fs.open_options:
        assert re.fullmatch(r"(fs\.(option|file|hdfs|s3a)|dfs|hflush)\.[a-z.-]+", key)


@pytest.mark.rule("BUILDER-14")
@pytest.mark.parametrize("store_key", ["fs.hdfs.x", "fs.s3.x", "hdfs:x", "fs.option.nosuch"])
def test_options_of_other_stores_are_not_understood(store: Store, path: str, store_key: str):
    """A key belongs to a scheme or is shared; another scheme's is unknown here."""
    store.fs.create_file(path).opt(store_key, "1").build().close()
    with pytest.raises(ValueError, match=re.escape(store_key)):
        store.fs.create_file(path).must(store_key, "1").build()


@pytest.mark.rule("BUILDER-15")
@pytest.mark.parametrize(
    "key", ["fs.option.create.conditional.overwrite", "fs.option.create.conditional.overwrite.etag"]
)
@pytest.mark.stores(*FILES)
def test_commit_options_that_are_not_supported_are_refused(store: Store, path: str, key: str):
    """must() of a conditional overwrite is ValueError where there is none, never half-honoured."""
    store.write(path, DATA)
    with pytest.raises(ValueError, match=re.escape(key)):
        store.fs.create_file(path).must(key, True).build()
    assert store.read(path) == DATA
    with store.fs.create_file(path).build() as out:
        assert not out.has_capability(key)


@pytest.mark.rule("BUILDER-17")
@pytest.mark.stores("crc")
def test_the_checksum_option_is_honoured(store: Store, path: str):
    """128 bytes per checksum are in the sidecar's header, and the file reads verified."""
    with store.fs.create_file(path).checksum("CRC32", 128).build() as out:
        out.write(DATA)
    assert bytes_per_checksum(path) == 128
    assert os.path.getsize(sidecar(path)) == 8 + 4 * 8
    assert store.read(path) == DATA


@pytest.mark.rule("BUILDER-17", "LOCAL-3")
@pytest.mark.stores("crc")
def test_checksums_can_be_disabled_for_one_file(store: Store, path: str):
    """The kind NULL writes no sidecar and removes a stale one; other files keep theirs."""
    store.write(path, DATA[::-1])
    with store.fs.create_file(path).checksum("NULL", 512).build() as out:
        out.write(DATA)
    assert store.on_disk() == ["file"]
    assert store.read(path) == DATA
    store.write(store.path("other"), DATA)
    assert os.path.exists(sidecar(store.path("other")))


@pytest.mark.rule("BUILDER-18")
def test_the_documentation_names_opt_and_must(store: Store, path: str):
    """The documentation says to ask for options, not to inspect the file system's class."""
    builder = type(store.fs.create_file(path))
    documentation = inspect.getdoc(builder) or ""
    for method in ("opt", "must"):
        assert f"`{method}`" in documentation
        assert inspect.getdoc(getattr(builder, method))


def bytes_per_checksum(path: str) -> int:
    """What the header of a file's sidecar says."""
    with open(sidecar(path), "rb") as file:
        header = file.read(8)
    assert header[:4] == b"crc\0"
    return int.from_bytes(header[4:], "big")
