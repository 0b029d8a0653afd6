"""PATH: names."""

from __future__ import annotations

import logging
import os
import pathlib
import unicodedata

import hflush
import pytest
from support.data import dataset
from support.listing import listed, names
from support.stores import FILES, S3Store, Store

DATA = dataset(100)


@pytest.mark.rule("PATH-1")
def test_elements_are_separated_by_slashes(store: Store):
    """A path that was taken apart and joined again is the same path; / is the empty list."""
    path = store.write(store.path("a", "b", "c"), DATA)
    status = store.fs.get_file_status(path)
    assert status.path == store.public(path)
    assert path == "/" + "/".join(path.split("/")[1:])
    assert store.fs.get_file_status("/").path == store.public("/")
    assert store.fs.get_file_status(status.path) == status
    assert store.fs.get_file_status(pathlib.PurePosixPath(path)) == status


@pytest.mark.rule("PATH-2")
@pytest.mark.parametrize("form", ["{root}//a//b", "{root}/a/b/", "//{root}/a/b", "{root}///a/b//"])
def test_empty_elements_vanish(store: Store, form: str):
    """Every form with empty elements is the one path, for every operation."""
    path = store.write(store.path("a", "b"), DATA)
    form = form.format(root=store.root)
    assert store.fs.get_file_status(form).path == store.public(path)
    assert store.read(form) == DATA
    assert listed(store.fs.list_status(form)) == ["b"]
    assert store.fs.rename(form, store.path("c")) is True
    assert names(store.fs, store.root) == ["a", "c"]


@pytest.mark.rule("PATH-2")
def test_the_empty_path(store: Store):
    """An element has at least one character: "" is not a path."""
    for call in (store.fs.create, store.fs.get_file_status, store.fs.mkdirs, store.fs.delete):
        with pytest.raises(hflush.InvalidPathError):
            call("")


@pytest.mark.rule("PATH-3", "PATH-5")
@pytest.mark.stores("crc", "hdfs", "mem")
@pytest.mark.parametrize("name", ["a:b", ":", "a:", "a\x07", "a\n", "\x1f", "a\0b"], ids=ascii)
@pytest.mark.parametrize("operation", ["create", "mkdirs", "rename", "rename_exact", "builder"])
def test_names_that_are_not_allowed(store: Store, name: str, operation: str):
    """A colon, a control character and NUL are InvalidPathError, before the store is asked."""
    source = store.write(store.path("source"), DATA)
    path = store.path(name)
    operations = {
        "create": lambda: store.fs.create(path),
        "mkdirs": lambda: store.fs.mkdirs(path),
        "rename": lambda: store.fs.rename(source, path),
        "rename_exact": lambda: store.fs.rename(source, path, hflush.Rename.NONE),
        "builder": lambda: store.fs.create_file(path).build(),
    }
    with pytest.raises(hflush.InvalidPathError) as refusal:
        operations[operation]()
    assert isinstance(refusal.value, ValueError)
    assert names(store.fs, store.root) == ["source"]


@pytest.mark.rule("PATH-3", "PATH-5", divergence=("raw", "s3"))
@pytest.mark.stores("raw", "s3")
@pytest.mark.parametrize(
    "name", ["a:b", ":", "dt=2024-01-01T10:00", "a\nb", "\t", "\x7f\x1f"], ids=ascii
)
def test_names_that_hadoop_has_not(store: Store, name: str):
    """What the store has and lists can be made, opened, moved and deleted under its name."""
    if isinstance(store, S3Store) and store.s3.has_files and "\x1f" in name:
        pytest.skip("the server lists another name than it has")
    path = store.write(store.path(name, name), DATA)
    assert names(store.fs, store.root) == names(store.fs, store.path(name)) == [name]
    (status,) = store.fs.list_files(store.root, recursive=True)
    assert status.path == store.public(path)
    assert store.read(status.path) == DATA
    assert store.fs.glob_status(store.path("*", "*")) == [status]
    moved = store.path(f"moved{name}")
    assert store.fs.rename(path, moved)
    assert store.read(moved) == DATA
    assert store.fs.delete(moved)
    assert store.fs.delete(store.path(name), recursive=True)
    assert store.on_disk() == []
    with pytest.raises(hflush.InvalidPathError, match="NUL"):
        store.fs.create(store.path(f"{name}\0"))


@pytest.mark.rule("PATH-3", on="crc")
@pytest.mark.stores("raw", "crc")
def test_existing_names_with_a_colon_are_listed(store: Store):
    """testListStatusWithColons: a listing shows what the platform has, and can be walked."""
    os.mkdir(store.path("a:dir"))
    for name in ("a:file", "b"):
        with open(store.path(name), "wb") as file:
            file.write(DATA)
    assert names(store.fs, store.root) == ["a:dir", "a:file", "b"]
    assert {s.name: s.length for s in store.fs.list_status(store.root) if s.is_file} == {
        "a:file": 100,
        "b": 100,
    }


@pytest.mark.rule("PATH-4")
@pytest.mark.parametrize("form", ["{root}/a/./b", "{root}/a/../a/b", "{root}/./x/../a/b/."])
def test_dots_are_resolved_lexically(store: Store, form: str):
    """. and .. never reach the store: what they pass need not exist."""
    path = store.write(form.format(root=store.root), DATA)
    assert store.read(store.path("a", "b")) == DATA
    assert store.fs.get_file_status(path).path == store.public(store.path("a", "b"))
    assert store.on_disk()[0] == "a"


@pytest.mark.rule("PATH-4")
def test_dots_above_the_root(store: Store):
    """.. above / is refused."""
    for form in ("/..", "/../..", f"{store.root}{'/..' * 100}"):
        with pytest.raises(hflush.InvalidPathError, match="root"):
            store.fs.get_file_status(form)


@pytest.mark.rule("PATH-6")
@pytest.mark.stores("s3")
def test_a_last_dot_is_warned_of(store: Store, caplog: pytest.LogCaptureFixture):
    """Some stores drop it: the file is made under its whole name, and a warning names it."""
    with caplog.at_level(logging.WARNING, "hflush"):
        plain = store.write(store.path("inner.dot"), DATA)
        assert caplog.messages == []
        dotted = store.write(store.path("dot."), DATA)
    assert any("last dot" in message and dotted in message for message in caplog.messages)
    assert store.on_disk() == ["dot.", "inner.dot"]
    assert store.read(dotted) == store.read(plain) == DATA


@pytest.mark.rule("PATH-7", "PATH-8")
@pytest.mark.rule("PATH-6", on=FILES)
@pytest.mark.parametrize(
    "name",
    [
        "ends-with-dot.",
        "foo%bar",
        "foo%20bar",
        "%2F",
        "a b",
        " ",
        "a+b#c?d",
        "*",
        "[x]{y,z}",
        "back\\slash",
        "'quotes\"",
        "日本",
        "é",
        "\N{ROCKET}",
        "~",
        "-rf",
        "\x7f",
    ],
    ids=ascii,
)
def test_names_survive_exactly(store: Store, name: str):
    """testPathEscapes: no decoding, no globbing, no stripping, in any operation."""
    path = store.write(store.path(name), DATA)
    assert names(store.fs, store.root) == [name]
    assert store.fs.get_file_status(path).name == name
    assert name in store.on_disk()
    target = store.path(name, name)
    assert store.fs.delete(path)
    store.fs.mkdirs(path)
    store.write(target, DATA)
    assert store.second_client().run("read(path)", path=target) == DATA
    assert store.fs.rename(target, store.path("moved"))
    assert names(store.fs, path) == []


@pytest.mark.rule("PATH-8")
def test_names_survive_in_urls(store: Store):
    """The text of a URL's path is taken as it is, by the functions of the package too."""
    path = store.path("a+b#c?d%20e")
    with hflush.create(store.url(path), conf=store.conf) as out:
        out.write(DATA)
    assert store.read(path) == DATA
    assert names(store.fs, store.root) == ["a+b#c?d%20e"]


@pytest.mark.rule("PATH-8")
@pytest.mark.stores("raw", "crc")
def test_undecodable_names(store: Store):
    """A local name that is not UTF-8 can be listed, read, renamed and deleted."""
    with open(os.fsencode(store.root) + b"/\xff\xfe", "wb") as file:
        file.write(DATA)
    (status,) = store.fs.list_status(store.root)
    assert os.fsencode(status.path).endswith(b"/\xff\xfe")
    assert store.read(status.path) == DATA
    assert store.fs.rename(status.path, store.path("moved"))
    assert store.fs.delete(store.path("moved"))


@pytest.mark.rule("PATH-7", "PATH-11")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("name", "NAME"),
        (unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é")),
        ("ß", "SS"),
        ("I", "\N{LATIN SMALL LETTER DOTLESS I}"),
        ("\N{FULLWIDTH LATIN SMALL LETTER A}", "a"),
    ],
    ids=ascii,
)
def test_names_are_compared_by_code_points(store: Store, one: str, other: str):
    """testFilesystemIsCaseSensitive: no case folding, no locale, no normalisation."""
    if not store.options["is-case-sensitive"]:
        pytest.skip("is-case-sensitive is False here")
    store.write(store.path(one), b"one")
    assert not store.fs.exists(store.path(other))
    with store.fs.create(store.path(other), overwrite=False) as out:
        out.write(b"other")
    assert store.read(store.path(one)) == b"one"
    assert store.read(store.path(other)) == b"other"
    assert names(store.fs, store.root) == sorted([one, other])


@pytest.mark.rule("PATH-11", "LOCAL-12")
@pytest.mark.stores("raw", "crc")
def test_case_sensitivity_is_measured(store: Store):
    """The option says what a probe on this mount finds."""
    with open(store.path("Probe"), "wb"):
        pass
    sensitive = not os.path.exists(store.path("pROBE"))
    assert store.options["is-case-sensitive"] is sensitive


class TestWorkingDirectory:
    """testWorkingDirectory, testWDAbsolute."""

    @pytest.mark.rule("PATH-9", "EXTRA-13")
    def test_relative_paths(self, store: Store):
        """They resolve against the working directory of the instance."""
        store.fs.set_working_directory(store.root)
        assert store.fs.working_directory == store.root
        store.write("x", DATA)
        store.fs.mkdirs("sub/deep")
        assert store.fs.rename("x", "sub/y")
        assert store.read(store.path("sub", "y")) == DATA
        store.fs.set_working_directory("sub")
        assert store.fs.working_directory == store.path("sub")
        assert store.read("y") == store.read("./y") == store.read("../sub/y") == DATA
        assert store.fs.get_file_status("y").path == store.public(store.path("sub", "y"))
        store.fs.set_working_directory("..")
        assert store.fs.working_directory == store.root

    @pytest.mark.stores("raw", "crc")
    @pytest.mark.rule("PATH-9")
    def test_copies_to_and_from_local_files(self, store: Store):
        """TestLocalFileSystem.testWorkingDirectory: where local files are copied, on both sides."""
        store.fs.mkdirs(store.path("sub"))
        store.fs.set_working_directory(store.path("sub"))
        store.write("x", DATA)
        store.fs.copy_from_local_file("x", "../y", delete_source=True)
        store.fs.copy_to_local_file("../y", "z")
        assert store.read(store.path("sub", "z")) == DATA
        assert not store.fs.exists("x")

    @pytest.mark.rule("PATH-9", "EXTRA-13")
    def test_it_is_state_of_the_client_only(self, store: Store):
        """It need not exist, is not created, and moves neither other instances nor the process."""
        process, other = os.getcwd(), store.new_client()
        before = other.working_directory
        store.fs.set_working_directory(store.path("missing"))
        assert store.fs.working_directory == store.path("missing")
        assert store.on_disk() == []
        assert (os.getcwd(), other.working_directory) == (process, before)
        store.write("made", DATA)
        assert store.read(store.path("missing", "made")) == DATA
        other.close()


@pytest.mark.rule("PATH-10")
@pytest.mark.parametrize("url", ["s3a://bucket/x", "hdfs://nn:8020/x", "nosuch:/x"])
@pytest.mark.parametrize("operation", ["create", "open", "delete", "list_status", "mkdirs"])
def test_paths_of_other_file_systems(store: Store, url: str, operation: str):
    """Another scheme or authority is ValueError, wrong filesystem."""
    with pytest.raises(ValueError, match=r"(?i)wrong file ?system"):
        getattr(store.fs, operation)(url)


@pytest.mark.rule("PATH-10")
def test_qualified_paths_of_this_file_system(store: Store):
    """A path with this file system's own scheme is its path."""
    store.write(store.url(store.path("x")), DATA)
    assert store.read(store.path("x")) == DATA
    assert store.fs.get_file_status(store.url(store.path("x"))).length == 100
