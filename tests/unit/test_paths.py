"""Names: parsing, normalisation, and what is refused."""

from __future__ import annotations

import os
import pathlib
import random
import re
from pathlib import Path, PurePosixPath

import hflush
import pytest
from hflush import globbing, paths
from support.stores import FILES, Store

STORES = pytest.mark.stores("raw", "crc")


@pytest.mark.parametrize(
    ("url", "scheme", "authority", "path"),
    [
        ("/a/b", None, "", "/a/b"),
        ("a/b", None, "", "a/b"),
        (pathlib.PurePosixPath("/a/b"), None, "", "/a/b"),
        ("file:/a", "file", "", "/a"),
        ("file:///a", "file", "", "/a"),
        ("FILE:///a", "file", "", "/a"),
        ("file+crc:///a", "file+crc", "", "/a"),
        ("hdfs://nn:8020/a", "hdfs", "nn:8020", "/a"),
        ("hdfs://nn:8020", "hdfs", "nn:8020", "/"),
        ("s3a://bucket/key", "s3", "bucket", "/key"),
        ("/a%20b", None, "", "/a%20b"),
        ("file:///a%2Fb#c?d", "file", "", "/a%2Fb#c?d"),
        ("a/b:c", None, "", "a/b:c"),
    ],
)
def test_urls_are_split_and_taken_literally(url, scheme, authority, path):
    """Scheme, authority and path, with nothing decoded and nothing cut off."""
    location = paths.parse(url)
    assert (location.scheme, location.authority, location.path) == (scheme, authority, path)


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("/a b", "/a b"), ("a/b", "a/b"), ("./~", "./~"), ("file:/a", "/a"),
        ("file:///a/b", "/a/b"), ("file://localhost/a", "/a"),
        ("~", None), ("~/a", None), ("~ann/a", None), ("file:a", None), ("file://host/a", None),
        ("hdfs://nn/a", None), ("s3a://b/a", None), ("http://host/a", None), ("", None),
    ],
)  # fmt: skip
def test_local_names(text: str, local: str | None):
    """What the system is asked for; what it would take for an odd name is refused."""
    if local is not None:
        assert paths.local(text) == local
    else:
        with pytest.raises(ValueError, match=r"local path|invalid path"):
            paths.local(text)


@pytest.mark.parametrize("url", [3, None, pathlib.PurePosixPath])
def test_what_is_no_path_is_a_type_error(url):
    """File descriptors and None are not paths."""
    with pytest.raises(TypeError, match=r"expected str, bytes or os\.PathLike object, not"):
        paths.parse(url)


def test_bytes_are_names_as_for_the_built_in_open():
    """They are decoded as names of local files are everywhere, undecodable ones included."""
    assert paths.parse(b"/a/\xc3\xa4").path == "/a/ä"
    assert paths.parse(b"/a/\xff").path == "/a/\udcff"
    assert paths.parse(b"hdfs://nn:8020/a").authority == "nn:8020"


@pytest.mark.parametrize("url", ["", "a:b", "1:/a", ":/a", "file:a", "a b:/c"])
def test_what_is_neither_url_nor_path_is_refused(url: str):
    """The empty string and colons that end no scheme are InvalidPathError."""
    with pytest.raises(hflush.InvalidPathError) as refusal:
        paths.parse(url)
    assert refusal.value.filename == url


@pytest.mark.rule("PATH-1", "PATH-2", "PATH-4")
@STORES
@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("/", "/"),
        ("//", "/"),
        ("/a//b/", "/a/b"),
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("/a/b/../../c", "/c"),
        ("x", "/home/me/x"),
        ("../x", "/home/x"),
        ("./x/", "/home/me/x"),
        (".", "/home/me"),
        ("/...", "/..."),
        ("/a.", "/a."),
    ],
)
def test_paths_become_absolute_and_normal(path: str, normal: str):
    """Empty elements and dots vanish, relative paths begin in the working directory."""
    assert paths.normalize(path, "/home/me") == normal


NOT_HADOOPS = ["/a:b", "/a\x07", "/\n"]
FORBIDDEN = ["/a\0b", "/..", "../..", "/a/../../b", "/\ud800x", "/\udc7f"]


@pytest.mark.parametrize("path", NOT_HADOOPS)
def test_any_name(path: str):
    """Of a store that has it."""
    assert paths.normalize(path, any_name=True) == path


@pytest.mark.parametrize("path", FORBIDDEN)
def test_no_name_of_any_store(path: str):
    """Not of a store that takes any name, either."""
    with pytest.raises(hflush.InvalidPathError):
        paths.normalize(path, any_name=True)


@pytest.mark.rule("PATH-3", "PATH-5")
@pytest.mark.stores("crc")
@pytest.mark.parametrize("path", [*NOT_HADOOPS, *FORBIDDEN])
def test_forbidden_names_are_refused(path: str):
    """Colons, control characters, a climb above the root and lone surrogates are refused."""
    with pytest.raises(hflush.InvalidPathError) as refusal:
        paths.normalize(path, "/x")
    assert isinstance(refusal.value, ValueError)
    assert refusal.value.filename == path


def test_undecodable_names_are_carried():
    """Bytes that are not UTF-8 survive as surrogate escapes."""
    assert paths.normalize("/a\udcff") == "/a\udcff"


def test_a_store_sees_plain_text():
    """A path of a class derived from str, as numpy's are, becomes a str."""

    class Name(str):
        __slots__ = ()

    normal = paths.normalize(Name("/a/b"))
    assert normal == "/a/b"
    assert type(normal) is str


@pytest.mark.rule("PATH-3", "PATH-5", "PATH-4")
@pytest.mark.stores("crc", "hdfs")
@pytest.mark.parametrize("name", ["a:b", "a\x07", "a\0b"])
def test_forbidden_names_do_not_reach_the_store(store: Store, name: str):
    """Every entry refuses the name, and nothing is created."""
    path = store.path(name)
    for attempt in (
        lambda: store.fs.create(path),
        lambda: store.fs.create_file(path).build(),
        lambda: store.fs.mkdirs(path),
        lambda: store.fs.open(path),
        lambda: store.fs.rename(path, store.path("x")),
        lambda: hflush.open(store.url(path), "wb"),
    ):
        with pytest.raises(hflush.InvalidPathError):
            attempt()
    assert store.fs.list_status(store.root) == []


@pytest.mark.rule("PATH-7", "PATH-8")
@pytest.mark.rule("PATH-6", on=FILES)
@pytest.mark.parametrize(
    "names",
    [
        ["foo%bar", "a b", "日本", "a+b#c?d", "*", "a.", "%20", "[x]", "{y}", "back\\slash"],
        ["é", "e\u0301", "ß", "SS", "I", "\u0131", "a", "A", "🎉"],
    ],
)
def test_names_survive_exactly(store: Store, names: list[str]):
    """Every name is its own file, comes back from the listing, and opens."""
    for number, name in enumerate(names):
        store.write(store.path(name), b"%d" % number)
    listed = store.fs.list_status(store.root)
    assert sorted(status.name for status in listed) == sorted(names)
    for number, name in enumerate(names):
        assert store.read(store.path(name)) == b"%d" % number
        assert store.fs.is_file(store.url(store.path(name)))


@pytest.mark.rule("PATH-8")
@pytest.mark.stores("raw", "crc")
def test_names_that_are_not_text(store: Store):
    """Bytes that are not UTF-8 survive, too, where the store has names of bytes."""
    test_names_survive_exactly(store, ["\udcff\udcfe"])


@pytest.mark.rule("PATH-9", "EXTRA-13")
def test_relative_paths_begin_in_the_working_directory(store: Store):
    """The working directory is client state: it need not exist, and . and .. resolve."""
    store.fs.set_working_directory(store.path("wd"))
    assert store.fs.working_directory == store.path("wd")
    assert not store.fs.exists(store.path("wd"))
    store.fs.create("x").close()
    store.fs.create("../y").close()
    assert store.fs.is_file(store.path("wd", "x"))
    assert store.fs.is_file(store.path("y"))
    store.fs.set_working_directory("sub")
    assert store.fs.working_directory == store.path("wd", "sub")


def test_what_dots_leave():
    assert paths.left_by_dots("/a//./b/../c/../../d") == ["/a/b", "/a/c", "/a"]
    assert paths.left_by_dots("../x", "/w/d") == ["/w/d"]
    assert paths.left_by_dots("/a..b/...") == []


@pytest.mark.rule("PATH-4")
@pytest.mark.stores("raw", "crc")
def test_dots_behind_a_link(store: Store, monkeypatch: pytest.MonkeyPatch):
    """Where text and the system take .. for two directories, the path is refused; else it works."""
    for name in ("old", "deep/old", "deep/er/x"):
        store.write(store.path(name), b"kept")
    os.symlink(store.path("deep/er"), store.path("link"))
    os.symlink("deep", store.path("beside"))
    through = store.path("link/../old")
    for attempt in (store.fs.create, store.fs.delete, store.fs.open, store.fs.mkdirs):
        with pytest.raises(hflush.InvalidPathError, match=r"'\S+/link' is '\S+' as .* '\S+/deep'"):
            attempt(through)
    assert store.read(store.path("old")) == store.read(store.path("deep/old")) == b"kept"
    assert store.fs.is_file(store.path("beside/../old"))
    monkeypatch.chdir(store.path("link"))
    assert store.fs.is_file("../old")
    assert store.fs.is_file(store.path("link/no/../x"))


@pytest.mark.rule("PATH-10")
@pytest.mark.parametrize("other", ["s3a://bucket/key", "hdfs://nn/a", "file://host/a"])
def test_paths_of_another_file_system_are_refused(store: Store, other: str):
    """Another scheme or authority is ValueError: wrong file system."""
    for attempt in (store.fs.create, store.fs.open, store.fs.get_file_status, store.fs.delete):
        with pytest.raises(ValueError, match="wrong file system"):
            attempt(other)


def test_the_parts_of_a_path():
    """parent, basename, child, depth and is_under agree with each other."""
    assert paths.parent("/a/b") == "/a"
    assert paths.parent("/a") == paths.parent("/") == "/"
    assert paths.basename("/a/b") == "b"
    assert paths.child("/", "a") == "/a"
    assert paths.child("/a", "b") == "/a/b"
    assert [paths.depth(path) for path in ("/", "/a", "/a/b")] == [0, 1, 2]
    assert paths.is_under("/a/b", "/a")
    assert not paths.is_under("/ab", "/a")


class TestLostSlashes:
    """pathlib makes hdfs:/nn/x of hdfs://nn/x, which would be a path of the default file system."""

    CONF = {"fs.defaultFS": "hdfs://nn1:8020"}  # noqa: RUF012

    @pytest.mark.parametrize(
        "text", ["hdfs://ns2/data/x", "s3://bucket/k", "file:///a", "x://y", "s3://"]
    )
    def test_objects(self, text: str):
        """Whatever they mean, it is not what was written."""
        lost = PurePosixPath(text)
        for door in (hflush.FileSystem.get, hflush.FileSystem.get("/x", self.CONF).create):
            with pytest.raises(hflush.InvalidPathError, match="has lost a slash"):
                door(lost)

    @pytest.mark.parametrize("name", ["a:b", "s3:x", "1:", "a:"])
    def test_an_object_that_is_a_name(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """As for the built-in open()."""
        monkeypatch.chdir(tmp_path)
        hflush.open(Path(name), "w").close()
        assert [made.name for made in tmp_path.iterdir()] == [name]

    def test_an_object_that_has_them(self, tmp_path: Path):
        """It is not pathlib's."""

        class Url:
            def __fspath__(self) -> str:
                return f"file://{tmp_path}/x"

        hflush.create(Url()).close()
        assert (tmp_path / "x").exists()

    @pytest.mark.parametrize("lost", ["hdfs:/ns2/data/x", "HDFS:/ns2//x"])
    def test_text(self, lost: str):
        """Text is refused only where the default would fill the host in."""
        fs = hflush.FileSystem.get("/", self.CONF)
        for door in (lambda path: hflush.FileSystem.get(path, self.CONF), fs.create):
            with pytest.raises(hflush.InvalidPathError, match=r"///ns2.*or.*://ns2|//ns2/"):
                door(lost)
        assert fs._resolve("hdfs:///ns2/x") == "/ns2/x"
        assert hflush.FileSystem.get("file:/a/b", self.CONF)._resolve("file:/a/b") == "/a/b"


# What stands in a pattern, and what it is as a plain expression.
GLOBS = {
    "*": ".*", "?": ".", "a": "a", "ab": "ab", "[ab]": "[ab]", "[^a]": "[^a]", r"\*": r"\*",
}  # fmt: skip


def test_a_glob_matches_what_its_plain_expression_does():
    chosen = random.Random(1)
    for _ in range(2000):
        pieces = chosen.choices(list(GLOBS), weights=[6, 1, 2, 1, 1, 1, 1], k=chosen.randrange(9))
        pattern = "".join(pieces)
        plain = "".join(GLOBS[piece] for piece in pieces)
        for _ in range(10):
            name = "".join(chosen.choices("ab*\n", k=chosen.randrange(9)))
            expected = bool(re.fullmatch(plain, name, re.DOTALL))
            found = bool(re.fullmatch(globbing.translate(pattern), name))
            assert found == expected, (pattern, name)


def test_a_glob_of_many_stars_ends():
    """Whatever it is matched with: no star takes back what was found for an earlier one."""
    assert not re.fullmatch(globbing.translate("*a" * 200 + "**b"), "a" * 1000)
