"""File systems that are sent to another process: they go on as who they were, or say why not."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import hflush
import pytest
from hflush.checkpoint import CheckpointFileManager
from hflush.credentials import Credentials, Token
from hflush.fsspec import HflushHdfsFileSystem, HflushS3FileSystem, HflushViewFileSystem
from upath import UPath

KEYS = {"fs.s3a.access.key": "AKID", "fs.s3a.secret.key": "hidden"}
OPTIONS = {"key": "AKID", "secret": "hidden", "endpoint_url": "http://127.0.0.1:1"}
TOKEN = Token(b"olga", b"hidden", "HDFS_DELEGATION_TOKEN", "nn:8020")
PROVIDERS = [
    f"SimpleAWSCredentialsProvider,{name}"
    for name in ("EnvironmentVariableCredentialsProvider", "ProfileCredentialsProvider")
]
PROFILE = "[default]\naws_access_key_id = AKIDANOTHER\naws_secret_access_key = another\n"
# File systems, and where in them the one of HDFS is.
OF_HDFS = [
    pytest.param(partial(hflush.FileSystem.get, "hdfs://nn/"), "fs", id="store"),
    pytest.param(lambda conf: HflushHdfsFileSystem(conf, host="nn"), "fs.filesystem", id="fsspec"),
    pytest.param(partial(CheckpointFileManager.create, "hdfs://nn/c"), "fs.filesystem", id="log"),
]
# What another process makes of it: the user, then the file system again.
THERE = (
    "import pickle, sys; fs = pickle.load(sys.stdin.buffer);"
    "sys.stdout.buffer.write(pickle.dumps(({}, fs)))"
)
PICKLED = [
    pytest.param(lambda fs: pickle.loads(pickle.dumps(fs)), id="pickle"),
    pytest.param(lambda fs: type(fs).from_json(fs.to_json()), id="json"),
    pytest.param(lambda fs: type(fs).from_dict(fs.to_dict()), id="dict"),
]


@pytest.fixture(autouse=True)
def _worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are other credentials in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDANOTHER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    for name in ("HADOOP_CONF_DIR", "HADOOP_PROXY_USER", "HADOOP_TOKEN_FILE_LOCATION"):
        monkeypatch.delenv(name, raising=False)


def elsewhere(sent: object, expression: str, **environment: str) -> Any:
    """Return what `expression` is in another process, and what that has sent back."""
    done = subprocess.run(
        [sys.executable, "-c", THERE.format(expression)],
        input=sent if isinstance(sent, bytes) else pickle.dumps(sent),
        env={**os.environ, **environment},
        capture_output=True,
        check=True,
    )
    return pickle.loads(done.stdout)


def key_of(fs: Any) -> str:
    store = fs.filesystem_of("b") if isinstance(fs, HflushS3FileSystem) else fs
    return str(store._bucket._source.get().access_key)


class TestS3:
    @pytest.mark.parametrize("key", ["hflush.pickle.secrets", "hflush.s3.pickle.secrets"])
    def test_with_secrets_it_is_the_same(self, key: str):
        fs = hflush.FileSystem.get("s3://b/", {**KEYS, key: "true"})
        assert pickle.loads(pickle.dumps(fs)) is fs
        new = hflush.FileSystem.new_instance("s3://b/", {**KEYS, key: "true"})
        back = pickle.loads(pickle.dumps(new))
        assert (back == new, hash(back) == hash(new), back is new) == (True, True, False)
        assert new != hflush.FileSystem.new_instance("s3://b/", KEYS)
        used, back = elsewhere(fs, "fs._bucket._source.get().access_key")
        assert (used, back) == ("AKID", fs)

    @pytest.mark.parametrize(
        "option", ["pickle_secrets", "hflush.pickle.secrets", "hflush.s3.pickle.secrets"]
    )
    @pytest.mark.parametrize("again", PICKLED)
    def test_a_storage_option_sends_them(self, option: str, again: Any):
        fs = fsspec.filesystem("hflush+s3", **OPTIONS, **{option: True})
        there = again(fs)
        assert there is fs
        HflushS3FileSystem.clear_instance_cache()
        there = again(fs)
        assert (there == fs, hash(there) == hash(fs), key_of(there)) == (True, True, "AKID")
        assert "hidden" not in fs.to_json(include_password=False)

    @pytest.mark.parametrize("provider", ["", *PROVIDERS])
    @pytest.mark.parametrize("wrapped", [False, True])
    def test_those_of_its_environment_and_profiles(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str, wrapped: bool
    ):
        if "Profile" in provider:
            monkeypatch.delenv("AWS_ACCESS_KEY_ID")
            (tmp_path / "file").write_text(PROFILE)
            monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "file"))
        conf: dict[str, Any] = {"hflush.pickle.secrets": True}
        conf |= {"fs.s3a.aws.credentials.provider": provider} if provider else {}
        get = hflush.FileSystem.get
        fs: Any = HflushS3FileSystem(conf=conf) if wrapped else get("s3://b", conf)
        path = "fs.filesystem_of('b')" if wrapped else "fs"
        there = {"AWS_ACCESS_KEY_ID": "", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}
        used, back = elsewhere(fs, f"{path}._bucket._source.get()[:3]", **there)
        assert used == ("AKIDANOTHER", "another", "")
        assert back is fs
        sent = pickle.dumps(fs)
        for name, text in there.items():
            monkeypatch.setenv(name, text)
        for _ in range(2):  # which sends it on
            again = pickle.loads(sent)
            assert key_of(again) == "AKIDANOTHER"
            sent = pickle.dumps(again)

    @pytest.mark.parametrize("wrapped", [False, True])
    @pytest.mark.parametrize(
        ("here", "there", "at"),
        [
            ({"AWS_ENDPOINT_URL": "http://minio"}, {}, ("minio", "us-east-1", False, True)),
            ({}, {"AWS_ENDPOINT_URL": "http://minio"}, ("", "us-east-1", False, False)),
            (
                {"AWS_REGION": "eu-west-1", "AWS_USE_FIPS_ENDPOINT": "true"},
                {"AWS_REGION": "cn-north-1"},
                ("", "eu-west-1", True, False),
            ),
        ],
    )
    def test_the_server_is_the_senders(
        self, monkeypatch: pytest.MonkeyPatch, wrapped: bool, here: Any, there: Any, at: Any
    ):
        """What its environment says counts there, and AWS is said, too."""
        names = ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_USE_FIPS_ENDPOINT")
        for name in names:
            monkeypatch.setenv(name, here.get(name, ""))
        conf = {"fs.s3a.endpoint": "", "fs.s3a.endpoint.region": "sdk"}
        get = hflush.FileSystem.get
        fs: Any = HflushS3FileSystem(conf=conf) if wrapped else get("s3://b", conf)
        store = "fs.filesystem_of('b')" if wrapped else "fs"
        asked = ("endpoint.host", "region", "uses_fips", "path_style")
        found = ", ".join(f"{store}._settings_of_bucket.{one}" for one in asked)
        seen, back = elsewhere(fs, f"({found})", **{name: there.get(name, "") for name in names})
        assert (seen, back is fs) == (at, True)

    def test_relative_paths_are_the_senders(self, monkeypatch: pytest.MonkeyPatch):
        """They begin in its home directory of when it was made, whoever the worker is."""
        monkeypatch.setenv("HADOOP_USER_NAME", "olga")
        fs = hflush.FileSystem.get("s3://b/", {**KEYS, "hflush.pickle.secrets": "true"})
        with monkeypatch.context() as patch:
            patch.setenv("HADOOP_USER_NAME", "yarn")
            sent = pickle.dumps(fs)
            assert fs.home_directory == "/user/olga"
        found, back = elsewhere(sent, "fs.make_qualified('x')", HADOOP_USER_NAME="yarn")
        assert (found, back) == ("s3://b/user/olga/x", fs)
        assert back is fs

    def test_another_process_sends_it_back(self):
        fs = HflushS3FileSystem(**OPTIONS, pickle_secrets=True)
        used, back = elsewhere(fs, "fs.filesystem_of('b')._bucket._source.get().access_key")
        assert (used, back) == ("AKID", fs)

    def test_arrow_and_paths(self):
        pyarrow_fs = pytest.importorskip("pyarrow.fs")
        fs = HflushS3FileSystem(**OPTIONS, pickle_secrets=True)
        sent = pickle.dumps((pyarrow_fs.FSSpecHandler(fs), fsspec.core.OpenFile(fs, "b/x")))
        handler, opened = pickle.loads(sent)
        assert (handler.fs, opened.fs) == (fs, fs)
        path = UPath("hflushs3://b/x", **OPTIONS, pickle_secrets=True)
        assert pickle.loads(pickle.dumps(path)).storage_options == path.storage_options

    def test_the_option_is_a_bool(self):
        with pytest.raises(TypeError, match="pickle_secrets must be bool"):
            HflushS3FileSystem(pickle_secrets="yes")

    @pytest.mark.parametrize(
        "provider", ["", "SimpleAWSCredentialsProvider, EnvironmentVariableCredentialsProvider"]
    )
    @pytest.mark.parametrize("bucket", ["", "bucket.b."])
    def test_without_them_a_worker_takes_its_own(
        self, monkeypatch: pytest.MonkeyPatch, provider: str, bucket: str
    ):
        """And says what to do where it has none, also behind another worker."""
        conf = {f"fs.s3a.{bucket}{key[7:]}": text for key, text in KEYS.items()}
        conf |= {"fs.s3a.aws.credentials.provider": provider} if provider else {}
        for fs in (hflush.FileSystem.get("s3://b/", conf), HflushS3FileSystem(conf=conf)):
            sent = pickle.dumps(fs)
            assert b"hidden" not in sent
            there = pickle.loads(sent)
            assert key_of(there) == "AKIDANOTHER"
            with monkeypatch.context() as patch:
                patch.delenv("AWS_ACCESS_KEY_ID")
                with pytest.raises(PermissionError, match=r"access\.key and .*pickle_secrets"):
                    key_of(pickle.loads(pickle.dumps(there)))

    @pytest.mark.parametrize("again", PICKLED)
    def test_words_that_are_left_out(self, again: Any, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        there = again(HflushS3FileSystem(**OPTIONS))
        with pytest.raises(PermissionError, match="pickle_secrets"):
            there.exists("b/x")

    def test_who_had_none_finds_its_own(self):
        assert key_of(pickle.loads(pickle.dumps(HflushS3FileSystem()))) == "AKIDANOTHER"

    def test_the_same_keys_in_the_workers_files(self, tmp_path: Path):
        fs = hflush.FileSystem.get("s3://b/", KEYS)
        site = "".join(
            f"<property><name>{key}</name><value>AKIDFILE</value></property>" for key in KEYS
        )
        (tmp_path / "core-site.xml").write_text(f"<configuration>{site}</configuration>")
        used, back = elsewhere(
            fs, "fs._bucket._source.get().access_key", HADOOP_CONF_DIR=str(tmp_path)
        )
        assert (used, key_of(back)) == ("AKIDFILE", "AKIDANOTHER")


class TestHdfs:
    @pytest.mark.parametrize(
        ("fs", "user"),
        [
            (lambda: hflush.FileSystem.get("hdfs://nn:8020/"), "fs._user"),
            (lambda: HflushHdfsFileSystem(host="nn"), "fs.filesystem._user"),
            (lambda: HflushHdfsFileSystem(host="nn", user="ann"), "fs.filesystem._user"),
        ],
    )
    def test_the_user_travels(self, monkeypatch: pytest.MonkeyPatch, fs: Any, user: str):
        """A worker of another name acts as the sender, and what comes back is what was sent."""
        monkeypatch.setenv("HADOOP_USER_NAME", "olga")
        monkeypatch.setenv("HADOOP_PROXY_USER", "bob")
        sent = fs()
        assert pickle.loads(pickle.dumps(sent)) is sent
        here = eval(user, {"fs": sent})
        native = f"{user.rpartition('.')[0]}._settings_of_client"
        asked = f"({user}, {native}.user, {native}.real_user)"
        found, back = elsewhere(sent, asked, HADOOP_USER_NAME="yarn", HADOOP_PROXY_USER="")
        assert found == (here, here, "" if here == "ann" else "olga")
        assert back is sent

    @pytest.mark.parametrize("again", PICKLED)
    def test_json_too(self, monkeypatch: pytest.MonkeyPatch, again: Any):
        monkeypatch.setenv("HADOOP_USER_NAME", "olga")
        fs = HflushHdfsFileSystem(host="nn")
        assert again(fs) is fs
        text = fs.to_json()
        monkeypatch.setenv("HADOOP_USER_NAME", "yarn")
        there: Any = HflushHdfsFileSystem.from_json(text)
        assert there.filesystem._user == "olga"

    @pytest.mark.parametrize("key", ["hflush.pickle.secrets", "hflush.s3.pickle.secrets"])
    @pytest.mark.parametrize("wrapped", [False, True])
    def test_tokens(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrapped: bool, key: str):
        """They travel where that is asked for; else a worker without any refuses."""
        Credentials({"nn:8020": TOKEN}).write(tmp_path / "tokens")
        monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(tmp_path / "tokens"))

        def made(keys: dict[str, str]) -> Any:
            return (
                HflushHdfsFileSystem(host="nn", conf=keys)
                if wrapped
                else hflush.FileSystem.get("hdfs://nn:8020/", keys)
            )

        native = "fs.filesystem" if wrapped else "fs"
        with_them, without = made({key: "true"}), made({})
        assert b"hidden" not in pickle.dumps(without)
        tokens, back = elsewhere(
            with_them,
            f"[tuple(token) for token in {native}._settings_of_client.tokens]",
            HADOOP_TOKEN_FILE_LOCATION="",
        )
        assert (tokens, back is with_them) == ([tuple(TOKEN)], True)
        new = with_them if wrapped else hflush.FileSystem.new_instance(with_them.uri, {key: "true"})
        assert pickle.loads(pickle.dumps(new)) == new
        assert pickle.loads(pickle.dumps(without)) is without
        sent = pickle.dumps(without)
        monkeypatch.delenv("HADOOP_TOKEN_FILE_LOCATION")
        if wrapped:
            HflushHdfsFileSystem.clear_instance_cache()
        with pytest.raises(PermissionError, match=r"token of HDFS for nn.*pickle_secrets"):
            pickle.loads(sent)

    def test_tokens_of_others(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """They are neither sent nor missed, and stand in for none."""
        file = tmp_path / "tokens"
        address = TOKEN._replace(service="10.0.0.1:8020")  # perhaps that of nn
        kind = TOKEN._replace(kind="YARN_AM_RM_TOKEN")
        others = [
            TOKEN._replace(service=name) for name in ("nn:1", "nn2:8020", "ha-hdfs:x", "::1:1")
        ]
        of_others = Credentials({"kind": kind, **{other.service: other for other in others}})
        monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(file))
        of_others.write(file)
        fs = hflush.FileSystem.get("hdfs://nn/")
        assert elsewhere(fs, "fs._user", HADOOP_TOKEN_FILE_LOCATION="")[1] is fs
        Credentials({**of_others.tokens, "a": address, "b": TOKEN}).write(file)
        fs = hflush.FileSystem.get("hdfs://nn/", {"hflush.pickle.secrets": "true"})
        asked = "[tuple(token) for token in fs._settings_of_client.tokens]"
        tokens, back = elsewhere(fs, asked, HADOOP_TOKEN_FILE_LOCATION="")
        assert (tokens, back is fs) == ([tuple(address), tuple(TOKEN)], True)
        sent = pickle.dumps(hflush.FileSystem.get("hdfs://nn/"))
        of_others.write(file)
        with pytest.raises(PermissionError, match=r"token of HDFS for nn.*pickle_secrets"):
            pickle.loads(sent)

    @pytest.mark.parametrize("made", [partial(hflush.FileSystem.get, None), HflushViewFileSystem])
    def test_tokens_of_all_links(self, tmp_path: Path, made: Any):
        tokens = {name: TOKEN._replace(service=f"{name}:8020") for name in ("nn", "nn2", "nn3")}
        Credentials(tokens).write(tmp_path / "tokens")
        conf = {"hadoop.token.files": str(tmp_path / "tokens"), "hflush.pickle.secrets": "true"}
        for name in ("nn", "nn2"):
            conf[f"fs.viewfs.mounttable.t.link./{name}"] = f"hdfs://{name}/"
        conf["fs.defaultFS"] = "viewfs://t/"
        sent = pickle.dumps(made(conf))
        without = pickle.dumps(made({**conf, "hflush.pickle.secrets": "false"}))
        (tmp_path / "tokens").unlink()
        store = "getattr(fs, 'filesystem', fs)._store_at('/nn')"
        found, _ = elsewhere(sent, f"[one[3] for one in {store}._settings_of_client.tokens]")
        assert found == ["nn:8020", "nn2:8020"]
        Credentials({"": tokens["nn2"]}).write(tmp_path / "tokens")
        fs = pickle.loads(without)
        with pytest.raises(PermissionError, match=r"token of HDFS for nn "):
            getattr(fs, "filesystem", fs)._store_at("/nn")

    def test_tokens_of_configured_files(self, tmp_path: Path):
        Credentials({"nn:8020": TOKEN}).write(tmp_path / "tokens")
        conf = {"hadoop.token.files": str(tmp_path / "tokens"), "hflush.pickle.secrets": True}
        fs = hflush.FileSystem.get("hdfs://nn:8020/", conf)
        sent = pickle.dumps(fs)
        assert pickle.loads(sent) is fs
        (tmp_path / "tokens").unlink()
        found, _ = elsewhere(sent, "[tuple(one) for one in fs._settings_of_client.tokens]")
        assert found == [tuple(TOKEN)]

    @pytest.mark.parametrize(("made", "where"), OF_HDFS)
    def test_who_it_was_when_it_was_made(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Any, where: str
    ):
        """The process may be another when it is sent."""
        for name in ("tokens", "others"):
            token = TOKEN._replace(identifier=name.encode())
            Credentials({"nn:8020": token}).write(tmp_path / name)
        was = {"USER_NAME": "olga", "PROXY_USER": "bob", "TOKEN_FILE_LOCATION": "tokens"}
        becomes = {"USER_NAME": "yarn", "PROXY_USER": "", "TOKEN_FILE_LOCATION": "others"}

        def be(who: dict[str, str]) -> None:
            monkeypatch.chdir(tmp_path)
            for name, text in {**who, "REPLICATION": str(len(who["PROXY_USER"]))}.items():
                monkeypatch.setenv(f"HADOOP_{name}", text)

        conf = {"hflush.pickle.secrets": "true", "dfs.replication": "${env.HADOOP_REPLICATION}"}
        be(was)
        fs = made(conf)
        be(becomes)
        sent = pickle.dumps(fs)
        for one in (fs, pickle.loads(sent)):
            found = eval(where, {"fs": one})
            native = found._settings_of_client
            who = native.user, native.real_user, native.tokens[0][0]
            assert who == ("bob", "olga", b"tokens")
            assert found.conf["dfs.replication"] == "3"
        be(was)
        assert eval(where, {"fs": pickle.loads(sent)}) is eval(where, {"fs": fs})

    def test_a_token_file_that_is_gone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """What it has had last is sent."""
        Credentials({"nn:8020": TOKEN}).write(tmp_path / "tokens")
        monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(tmp_path / "tokens"))
        fs: Any = hflush.FileSystem.get("hdfs://nn/", {"hflush.pickle.secrets": "true"})
        newer = TOKEN._replace(identifier=b"newer")
        Credentials({"nn:8020": newer}).write(tmp_path / "tokens")
        pickle.dumps(fs)
        for damage in (lambda file: file.write_bytes(b"HDTS"), Path.unlink):
            damage(tmp_path / "tokens")
            there: Any = pickle.loads(pickle.dumps(fs))
            assert there._settings_of_client.tokens == [newer]

    @pytest.mark.parametrize(
        ("made", "conf"),
        [
            (lambda conf: hflush.FileSystem.get("hdfs://nn/", conf), "fs.conf"),
            (lambda conf: HflushHdfsFileSystem(host="nn", conf=conf), "fs._conf"),
            (lambda conf: HflushHdfsFileSystem(host="nn", extra_conf=conf), "fs._conf"),
            (lambda conf: UPath("hflushhdfs://nn/", conf=conf).fs, "fs._conf"),
        ],
    )
    def test_what_its_environment_says(self, monkeypatch: pytest.MonkeyPatch, made: Any, conf: str):
        monkeypatch.setenv("HFLUSH_T", "2")
        fs = made({"dfs.replication": "${env.HFLUSH_T}"})
        found, back = elsewhere(fs, f"{conf}['dfs.replication']", HFLUSH_T="5")
        assert (found, back is fs) == ("2", True)


@pytest.mark.parametrize("kept", [False, True])
def test_what_holds_a_file_system(tmp_path: Path, kept: bool):
    """The manager of checkpoints sends what its file system does."""
    conf = {**KEYS, "hflush.pickle.secrets": kept, "hflush.checkpoint.sync": False}
    manager: Any = CheckpointFileManager.create(tmp_path, conf)
    sent = pickle.dumps(manager)
    assert (b"hidden" in sent) is kept
    there = pickle.loads(sent)
    assert (there._conf["hflush.checkpoint.sync"], there.path) == ("false", manager.path)
