"""Unknown names: options, configuration keys, URLs."""

from __future__ import annotations

import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import hflush
import pytest
from hflush import spelling
from hflush.hdfs import keys as hdfs_keys
from hflush.local import keys as local_keys
from hflush.options import CREATE_KEYWORDS, OPEN_KEYWORDS
from hflush.s3 import keys as s3_keys
from minidfs.jars import jars
from support.stores import Store

ROOT = Path(__file__).parents[2]
ALL_KEYS = {
    *spelling.GENERAL_KEYS, *s3_keys.KNOWN_KEYS, *hdfs_keys.KNOWN_KEYS,
    *(key.name for key in local_keys.KEYS),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has been warned of yet."""
    monkeypatch.setattr(spelling, "_warned", set())


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("replicaton", "replication"), ("blocksize", "block_size"), ("atomik", "atomic"),
     ("permision", "permission"), ("overwite", "overwrite"), ("sync_onclose", "sync_on_close")],
)  # fmt: skip
def test_unknown_options_of_create(tmp_path: Path, wrong: str, meant: str):
    """The error suggests the nearest and lists all, those that have arguments of their own too."""
    with pytest.raises(
        TypeError, match=rf"unknown option '{wrong}' \(did you mean '{meant}'\?\)"
    ) as (refusal):
        hflush.create(tmp_path / "a", **{wrong: 1})  # type: ignore[arg-type]
    for name in (*CREATE_KEYWORDS, "replication", "block_size", "permission", "buffer_size",
                 "recursive", "overwrite", "flags", "create_parent"):  # fmt: skip
        assert name in str(refusal.value).split("there are ")[1]
    assert list(tmp_path.iterdir()) == []


def test_unknown_options_elsewhere(tmp_path: Path):
    """Of append and open; nothing is suggested where nothing is near."""
    (tmp_path / "a").touch()
    fs: Any = hflush.FileSystem.get("file:///")
    with pytest.raises(
        TypeError, match=r"'read_polcy' \(did you mean 'read_policy'\?\)"
    ) as refusal:
        fs.open(tmp_path / "a", read_polcy="random")
    assert set(OPEN_KEYWORDS) <= set(re.findall(r"\w+", str(refusal.value)))
    with pytest.raises(TypeError, match=r"'flag' \(did you mean 'flags'\?\)"):
        fs.append(tmp_path / "a", flag=1)
    with pytest.raises(TypeError, match=r"unknown option 'xyzzy'; there are atomic, "):
        fs.create(tmp_path / "b", xyzzy=1)


def test_unknown_keys_of_builders(tmp_path: Path):
    """A mandatory key names the nearest."""
    builder = hflush.FileSystem.get("file:///").create_file(str(tmp_path / "a"))
    with pytest.raises(ValueError, match=r"\(did you mean 'fs\.option\.create\.replication'\?\)"):
        builder.must("fs.option.create.replicaton", 3).build()


@pytest.mark.parametrize("value", ["three", "3k", "", 2.5])
def test_what_is_no_number_of_copies(tmp_path: Path, value: object):
    """Nothing about sizes."""
    with pytest.raises(ValueError, match="replication: must be a whole number") as refusal:
        hflush.create(tmp_path / "a", replication=value)  # type: ignore[arg-type]
    assert "size" not in str(refusal.value)
    hflush.create(tmp_path / "a", replication="3").close()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "wrong", "meant"),
    [
        ("file:///", "hflush.file.sync-onclose", "hflush.file.sync-on-close"),
        ("file:///", "hflush.checkpoint.synk", "hflush.checkpoint.sync"),
        ("s3://b/", "hflush.s3.memroy", "hflush.s3.memory"),
        ("s3://b/", "hflush.s3.bucket.b.memroy", "hflush.s3.memory"),
        ("hdfs://nn/", "hflush.hdfs.usr", "hflush.hdfs.user"),
    ],
)
def test_unknown_keys_of_ours(url: str, wrong: str, meant: str):
    """An error, with the nearest and all there are."""
    with pytest.raises(ValueError, match=re.escape(f"{wrong!r} (did you mean {meant!r}?)")):
        hflush.FileSystem.new_instance(url, {wrong: "1"})
    far = f"hflush.{meant.split('.')[1]}.xyzzy"
    with pytest.raises(ValueError, match=f"{far}'; there are .*{re.escape(meant)}"):
        hflush.FileSystem.new_instance(url, {far: "1"})


@pytest.mark.parametrize(
    ("url", "wrong", "meant"),
    [
        ("s3://b/", "fs.s3a.endpiont", "fs.s3a.endpoint"),
        ("s3://b/", "fs.s3a.bucket.b.endpiont", "fs.s3a.endpoint"),
        ("s3://b/", "fs.s3a.acces.key", "fs.s3a.access.key"),
        ("hdfs://nn/", "dfs.replicaton", "dfs.replication"),
        ("hdfs://nn/", "dfs.block-size", "dfs.blocksize"),
        ("hdfs://nn/", "ipc.client.conect.timeout", "ipc.client.connect.timeout"),
        ("file:///", "fs.defualtFS", "fs.defaultFS"),
    ],
)
def test_misspelt_keys_of_hadoop(url: str, wrong: str, meant: str):
    """A warning that Python shows by default, once in a process."""
    with pytest.warns(UserWarning, match=re.escape(f"{wrong!r} (did you mean {meant!r}?)")):
        hflush.FileSystem.new_instance(url, {wrong: "1"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hflush.FileSystem.new_instance(url, {wrong: "1"})


def test_keys_that_hadoop_may_know():
    """What is not near to a known key is Hadoop's business, and so are other buckets and stores."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for url in ("file:///", "s3://b/", "hdfs://nn/"):
            hflush.FileSystem.new_instance(
                url,
                {
                    "dfs.namenode.name.dir": "x", "fs.azure.account.key.a": "x", "my.key": "x",
                    "fs.s3a.bucket.other.endpoint": "x", "fs.s3a.create.header.x-y": "z",
                    "dfs.namenode.rpc-address.ns.nn1": "a:1", "fs.s3a.metrics.logger.level": "x",
                    "dfs.client.failover.proxy.provider.ns": "x", "yarn.x": "y",
                },
            )  # fmt: skip


def test_hadoops_own_defaults_are_taken(tmp_path: Path):
    """Every value of core-default.xml and hdfs-default.xml, as a copied file may have them."""
    conf = hflush.Configuration()
    for path in jars():
        with zipfile.ZipFile(path) as jar:
            for name in {"core-default.xml", "hdfs-default.xml"}.intersection(jar.namelist()):
                conf.add_resource(jar.extract(name, tmp_path))
    assert len(conf) > 900  # those that have a value
    for url in ("s3://bucket/", "hdfs://nn/", "file:///"):
        hflush.FileSystem.new_instance(url, conf)


def test_no_key_of_hadoop_is_taken_for_another():
    """Every key of Hadoop's own default files: none warns."""
    path = next(path for path in jars() if path.name.startswith("hadoop-client-api-"))
    with zipfile.ZipFile(path) as jar:
        texts = [
            jar.read(name).decode() for name in jar.namelist() if name.endswith("-default.xml")
        ]
    keys = {key.strip() for text in texts for key in re.findall(r"<name>([^<]+)</name>", text)}
    assert len(keys) > 500
    near = {key: spelling.nearest(key, ALL_KEYS) for key in keys - ALL_KEYS}
    assert {key: meant for key, meant in near.items() if meant is not None} == {}


def test_every_key_of_ours_is_known():
    """What the source names in quotes: a new key must be in the table that is checked."""
    pattern = re.compile(r'"(hflush\.[a-z0-9]+\.[a-z0-9.-]*[a-z0-9])"')
    files = ROOT.glob("src/python/hflush/**/*.py")
    named = {key for file in files for key in pattern.findall(file.read_text(encoding="utf-8"))}
    assert len(named) > 15
    modules = {"hflush.spark.commit"}
    assert named - ALL_KEYS == modules


@pytest.mark.parametrize(
    ("written", "meant"),
    [("s3//b/x", "s3://b/x"), ("hdfs//nn/x", "hdfs://nn/x"), ("S3A//b/x", "S3A://b/x"),
     ("file///tmp/x", "file:///tmp/x"), ("gs//b/x", "gs://b/x")],
)  # fmt: skip
def test_a_url_without_its_colon(tmp_path: Path, monkeypatch, written: str, meant: str):
    """No directory of that name is made."""
    monkeypatch.chdir(tmp_path)
    for use in (hflush.create, hflush.open, lambda url: hflush.FileSystem.get("/").exists(url)):
        with pytest.raises(hflush.InvalidPathError, match=re.escape(f"did you mean '{meant}'?")):
            use(written)
    assert list(tmp_path.iterdir()) == []
    hflush.create(f"./{written}").close()
    assert (tmp_path / written).exists()
    hflush.create("s3/other").close()
    hflush.create("mine//b").close()


@pytest.mark.parametrize("written", ["~/x", "~"])
def test_a_home_directory_that_is_not_expanded(tmp_path: Path, monkeypatch, written: str):
    """The built-in open() fails without a directory "~"; hflush would make one."""
    monkeypatch.chdir(tmp_path)
    for path in (written, Path(written)):
        with pytest.raises(hflush.InvalidPathError, match="expanduser"):
            hflush.create(path)
    assert list(tmp_path.iterdir()) == []
    for fine in ("./~/x", "~x", "x~", "a/~"):
        hflush.create(fine).close()
        assert Path(fine).exists()


@pytest.mark.rule("PATH-3")
@pytest.mark.stores("crc", "hdfs")
def test_a_colon_in_a_name(store: Store):
    """The contract's names are Hadoop's."""
    with pytest.raises(hflush.InvalidPathError, match=r"':' is not allowed .* except on raw local"):
        store.fs.create("a/b:c")


@pytest.mark.parametrize("name", ["app-2026-11-22T08:00.log", "1:/a", "file:a"])
def test_a_relative_name_that_looks_like_a_url(tmp_path: Path, monkeypatch, name: str):
    """To Hadoop it is one: the message says how to name the file."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(hflush.InvalidPathError, match=re.escape(f"'./{name}'")):
        hflush.create(name)
    for fine in (f"./{name}", f"{tmp_path}/{name}"):
        hflush.create(fine).close()
        assert (tmp_path / name).is_file()
