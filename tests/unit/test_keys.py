"""The tables of configuration keys: what reads them, and the documentation that is made of them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import hflush
import keys as tool
import pytest
from hflush import _core, general_keys
from hflush.hdfs import keys as hdfs_keys
from hflush.hdfs.settings import read_native
from hflush.keys import BOOL, Key, Reader, choice, mapped, names, number, size, text, time
from hflush.local import keys as local_keys
from hflush.s3 import keys as s3_keys
from hflush.s3.settings import Settings
from hflush.viewfs import keys as view_keys

STORES: dict[str, tuple[tuple[Key, ...], Callable[[], Any], Callable[..., Any]]] = {
    "hdfs": (
        hdfs_keys.KEYS, _core.HdfsSettings, lambda conf: read_native(conf, "nn:8020", "ann"),
    ),
    "s3": (
        s3_keys.KEYS,
        s3_keys.Native.usual,
        lambda conf: s3_keys.Native(*attrgetter("native", "writing", "reading")(
            Settings.read(conf, "b", {})
        )),
    ),
}  # fmt: skip
# Key, another that comes to the same, and what it comes to where the first alone is set.
FOLLOWS = {
    ("dfs.blocksize", "read.prefetch_bytes"),
    ("dfs.client.socket-timeout", "read.socket_timeout"),
    ("dfs.client.use.datanode.hostname", "read.use_datanode_hostname"),
}


def conf_of(values: dict[str, str]) -> hflush.Configuration:
    conf = hflush.Configuration(load_defaults=False)
    conf.update(values)
    return conf


def attributes(native: Any, keys: tuple[Key, ...]) -> dict[str, Any]:
    """The core's settings, by the attributes that keys name."""
    return {key.native: attrgetter(key.native)(native) for key in keys if key.native}


def another(key: Key, usual: Any) -> str:
    """A value that is good, and not that which holds unless one is set."""
    candidates = ("true", "false", "77k", "77M", "77s", "77", "5,7", "crc32", "none", "never",
                  "disk", "/x", "privacy")  # fmt: skip
    for candidate in candidates:
        with contextlib.suppress(ValueError):
            if key.kind.read(candidate) != usual:
                return candidate
    raise AssertionError(f"{key.name}: no value is known for {key.kind}")


class TestTables:
    @pytest.mark.parametrize("which", STORES)
    def test_each_key_sets_its_own_attribute(self, which: str):
        """It, what follows from it, and no other."""
        keys, usual_of, read = STORES[which]
        usual = attributes(usual_of(), keys)
        assert attributes(read(conf_of({})), keys) == usual
        assert len(usual) > 25
        for key in keys:
            if not key.native:
                continue
            value = another(key, usual[key.native])
            found = attributes(read(conf_of({key.name: value})), keys)
            changed = {name for name in usual if found[name] != usual[name]}
            assert {name for name in changed if (key.name, name) not in FOLLOWS} == {key.native}
            assert found[key.native] == key.kind.read(value)

    @pytest.mark.parametrize("which", STORES)
    def test_defaults_are_values(self, which: str):
        """What the page shows as a default may be set, and changes nothing."""
        keys, usual_of, read = STORES[which]
        shown = tool.defaults(keys, usual_of())
        given = {key.name: default for key, default in shown if default and key.native}
        assert attributes(read(conf_of(given)), keys) == attributes(usual_of(), keys)

    def test_each_key_stands_once(self):
        for keys in (
            hdfs_keys.KEYS,
            s3_keys.KEYS,
            (*general_keys.KEYS, *local_keys.KEYS, *view_keys.KEYS),
        ):
            assert len({key.name for key in keys}) == len(keys)
            assert all(key.section and key.kind.shown and key.effect for key in keys)
            assert not any(key.native and key.default for key in keys)

    @pytest.mark.parametrize("page", tool.PAGES)
    def test_pages_are_up_to_date(self, page: str):
        """./dev docs would change nothing."""
        written = (tool.DOCS / page).read_text()
        assert tool.rendered(written, *tool.PAGES[page]) == written

    def test_a_page(self):
        keys = (
            Key("One", "a.", names("names"), "names <of> services"),
            Key("Two", "b", size(1), "bytes", native="write.block_size"),
            Key("Two", "c", time(), "pause|s", default="3s"),
        )
        table = tool.table(keys, _core.HdfsSettings())
        assert "| **One** | | | |\n| `a.…` | names | – | names &lt;of&gt; services |" in table
        assert "| **Two** | | | |\n| `b` | size | `128m` | bytes |\n" in table
        assert "| `c` | time | `3s` | pause&#124;s |" in table
        with pytest.raises(ValueError, match="no place"):
            tool.rendered("a page without marks", keys, None)


class TestReader:
    KEYS = (
        Key("", "n", number(1, 77), "", default="5"),
        Key("", "s", size(0, 1 << 62, zero=9), "", default="1k"),
        Key("", "t", time("s"), "", default="1m"),
        Key("", "above", time(zero=None), "", default="1s"),
        Key("", "timeout", time(zero=7.0), "", default="1s"),
        Key("", "least", time(zero=7.0, takes_negative=True), "", default="1s"),
        Key("", "b", BOOL, "", default="true"),
        Key("", "c", choice("One", "two", "three"), "", default="one"),
        Key("", "m", mapped({"Yes": 1, "No": 0}), "", default="no"),
        Key("", "x", text(), ""),
        Key("", "list", names("names"), ""),
        Key("", "native", number(0), "", native="max_retries"),
    )

    def reader(self, **values: str) -> Reader:
        return Reader(conf_of(values), self.KEYS)

    @pytest.mark.parametrize("blank", ["", "  ", "\n"])
    def test_what_is_blank_is_not_set(self, blank: str):
        keys = self.reader(**{key.name: blank for key in self.KEYS})
        assert (keys.number("n"), keys.number("s"), keys.seconds("t")) == (5, 1024, 60.0)
        assert (keys.flag("b"), keys.text("c"), keys["m"]) == (True, "one", 0)
        assert (keys["x"], keys.text("x"), keys.names("list")) == (None, "", [])

    @pytest.mark.parametrize(
        ("name", "value", "read"),
        [
            ("n", "0x10", 16), ("n", " +7 ", 7),
            ("s", "0x1e", 30), ("s", "128 M", 128 << 20), ("s", "1E", 1 << 60), ("s", "0", 9),
            ("t", "2", 2.0), ("t", "3 ms", 0.003), ("t", "1500us", 0.0015), ("t", "70ns", 7e-8),
            ("t", "0x1d", 29.0), ("t", "1D", 86400.0), ("t", "0", 0.0),
            ("t", "9223372036854775807d", 1e9), ("above", "9223372036854775807", 1e9),
            ("timeout", "0", 7.0), ("timeout", "2m", 120.0), ("least", "-1s", 7.0),
            ("b", "FALSE", False), ("c", "THREE", "three"), ("m", "YES", 1),
            ("list", " a,b c\n,d", ["a", "b", "c", "d"]),
        ],
    )  # fmt: skip
    def test_values(self, name: str, value: str, read: object):
        assert self.reader(**{name: value})[name] == read

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("n", "0"), ("n", "78"), ("n", "1.0"), ("n", "1_0"), ("n", "1k"), ("n", "x"),
            ("n", "99999999999999999999"), ("n", "0x"), ("n", "--1"), ("n", "7 7"),
            ("s", "-1"), ("s", "k"), ("s", "1q"), ("s", "8e8e"), ("s", "9223372036854775807k"),
            ("s", "1_0k"), ("s", "1.5m"),
            ("t", "-1"), ("t", "-1s"), ("t", "1.5s"), ("t", "1_0s"), ("t", "5w"), ("t", "s"),
            ("t", "5 5"), ("t", "nan"), ("t", "inf"),
            ("above", "0"), ("above", "0s"), ("timeout", "-1"),
            ("b", "yes"), ("b", "1"), ("b", "truee"), ("c", "four"), ("m", "maybe"),
        ],
    )  # fmt: skip
    def test_what_is_wrong_is_named(self, name: str, value: str):
        """Key, value and what it may be."""
        with pytest.raises(ValueError, match=f"^{name} must be .*, not {re.escape(repr(value))}$"):
            self.reader(**{name: value})[name]

    def test_messages(self):
        for name, value, message in (
            ("n", "0", "n must be a whole number from 1 to 77, not '0'"),
            ("t", "x", "t must be a time such as 500ms, 30s or 2m, not 'x'"),
            ("c", "x", "c must be one of One, two, three, not 'x'"),
            ("m", "x", "m must be Yes or No, not 'x'"),
        ):
            with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
                self.reader(**{name: value})[name]

    def test_secrets_are_not_shown(self):
        keys = Reader(conf_of({"my.secret": "hush"}), (Key("", "my.secret", number(1), ""),))
        with pytest.raises(ValueError, match=r"my\.secret must be a whole number") as refusal:
            keys["my.secret"]
        assert "hush" not in str(refusal.value)

    def test_what_the_core_has_is_not_read_twice(self):
        """Its attribute has the default; without one there would be two."""
        with pytest.raises(KeyError, match="max_retries"):
            self.reader()["native"]
        with pytest.raises(KeyError, match="nosuch"):
            self.reader()["nosuch"]

    def test_fill(self):
        native = _core.HdfsSettings().rpc
        self.reader(native="").fill(native)
        assert native.max_retries == 10
        self.reader(native="3").fill(native)
        assert native.max_retries == 3


# A value, and what it comes to, of keys of both stores with the same kind.
SIZES = [("0x8000000", 128 << 20), ("128m", 128 << 20), ("128 M", 128 << 20), (" ", None)]
NO_SIZES = ["1_0m", "1.5g", "128mb", "-1", "0x"]
TIMES = [("0x10000", 65.536), ("1500us", 0.0015), ("2 m", 120.0), ("", 60.0),
         ("9223372036854775807", 1e9)]  # fmt: skip
NO_TIMES = ["1.5s", "-1s", "1_0", "s", "1w"]
COUNTS = [("0x10", 16), ("+7", 7), (" ", None)]
NO_COUNTS = ["1_0", "1.0", "-1", "1k"]


class TestStoresAgree:
    """The same text means the same in the keys of each store, in Python and in the core."""

    @staticmethod
    def hdfs(**conf: str) -> Any:
        return hflush.FileSystem.new_instance("hdfs://nn/", conf)

    @staticmethod
    def s3(**conf: str) -> Any:
        return hflush.FileSystem.new_instance("s3://b/", conf)

    @pytest.mark.parametrize(("value", "read"), SIZES)
    def test_sizes(self, value: str, read: int | None):
        hdfs, s3 = self.hdfs(**{"dfs.blocksize": value}), self.s3(**{"fs.s3a.block.size": value})
        local = hflush.FileSystem.new_instance("file:///", {"fs.local.block.size": value})
        assert hdfs.get_default_block_size() == (read or 128 << 20)
        assert s3.get_default_block_size() == (read or 32 << 20)
        assert local.get_default_block_size() == (read or 32 << 20)

    @pytest.mark.parametrize(("value", "read"), TIMES)
    def test_times(self, value: str, read: float):
        hdfs = self.hdfs(**{"dfs.client.socket-timeout": value})
        s3 = self.s3(**{"fs.s3a.connection.timeout": value})
        assert hdfs._settings_of_client.write.socket_timeout == pytest.approx(read)
        assert s3._settings_of_bucket.native.stall_timeout == pytest.approx(read)

    @pytest.mark.parametrize(("value", "read"), COUNTS)
    def test_counts(self, value: str, read: int | None):
        hdfs = self.hdfs(**{"dfs.client.retry.max.attempts": value})
        s3 = self.s3(**{"fs.s3a.retry.limit": value})
        assert hdfs._settings_of_client.rpc.max_retries == (10 if read is None else read)
        assert s3._settings_of_bucket.native.retry_limit == (7 if read is None else read)

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            *(("size", value) for value in NO_SIZES),
            *(("time", value) for value in NO_TIMES),
            *(("count", value) for value in NO_COUNTS),
        ],
    )
    def test_what_is_none(self, kind: str, value: str):
        """Refused by name before anything is opened."""
        for url, key in {
            "size": (("hdfs://nn/", "dfs.blocksize"), ("s3://b/", "fs.s3a.block.size"),
                     ("file:///", "fs.local.block.size")),
            "time": (("hdfs://nn/", "dfs.client.socket-timeout"),
                     ("s3://b/", "fs.s3a.retry.interval"),
                     ("hdfs://nn/", "hflush.atomic.sweep-after")),
            "count": (("hdfs://nn/", "dfs.client.retry.max.attempts"),
                      ("s3://b/", "fs.s3a.retry.limit"),
                      ("file+crc:///", "file.bytes-per-checksum")),
        }[kind]:  # fmt: skip
            with pytest.raises(ValueError, match=re.escape(key) + f".*{re.escape(value)}"):
                hflush.FileSystem.new_instance(url, {key: value})

    def test_a_key_of_one_bucket_is_named_as_it_was_written(self):
        with pytest.raises(ValueError, match=r"^fs\.s3a\.bucket\.b\.multipart\.size must be"):
            self.s3(**{"fs.s3a.bucket.b.multipart.size": "6q", "fs.s3a.multipart.size": "8m"})


def test_every_key_that_is_read_is_in_a_table():
    """Strings of the sources that look like keys of Hadoop or of this package."""
    tables = (
        hdfs_keys.KEYS, s3_keys.KEYS, general_keys.KEYS, local_keys.KEYS, view_keys.KEYS,
    )  # fmt: skip
    known = {key.name.rstrip(".") for keys in tables for key in keys}
    reading = re.compile(
        r"(?:\.(?:flag|number|seconds|text|names|given|read)\(|get_\w+\(|keys\[|conf\.get\()\s*"
        r'f?"([a-z0-9-]+(?:\.[A-Za-z0-9_-]+)+)'
    )
    sources = Path(hflush.__file__).parent.rglob("*.py")
    read = {key for source in sources for key in reading.findall(source.read_text())}
    assert len(read) > 40
    assert read - known == set()
