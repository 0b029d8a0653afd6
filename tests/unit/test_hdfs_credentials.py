"""Tokens and their files: what Java has written is read, and no secret shows."""

from __future__ import annotations

import copy
import io
import os
import pickle
import traceback
from pathlib import Path

import hflush
import pytest
from hflush.configuration import Configuration
from hflush.credentials import Credentials, Token
from hflush.hdfs.settings import read_native

VARIABLE = "HADOOP_TOKEN_FILE_LOCATION"
TOKEN = Token(b"ID", b"PW", "HDFS_DELEGATION_TOKEN", "ha-hdfs:ns")
CREDENTIALS = Credentials({"ha-hdfs:ns": TOKEN}, {"k": b"\x09\x08"})
# As Java writes them, and its spelling of the token in URLs.
KIND = "15484446535f44454c45474154494f4e5f544f4b454e"
SERVICE = "0a68612d686466733a6e73"
WRITABLE = f"484454530001{SERVICE}024944025057{KIND}{SERVICE}01016b020908"
PROTOBUF = f"4844545301440a390a{SERVICE}122b0a02494412025057"
PROTOBUF += f"1a{KIND}22{SERVICE}12070a016b1a020908"
SPELLED = "AklEAlBXFUhERlNfREVMRUdBVElPTl9UT0tFTgpoYS1oZGZzOm5z"


@pytest.mark.parametrize(("protobuf", "written"), [(False, WRITABLE), (True, PROTOBUF)])
def test_files_are_as_java_writes_them(tmp_path: Path, protobuf: bool, written: str) -> None:
    path = tmp_path / "tokens"
    CREDENTIALS.write(path, protobuf=protobuf)
    assert path.read_bytes().hex() == written
    assert Credentials.read(path) == CREDENTIALS
    assert Credentials.read(path).tokens["ha-hdfs:ns"] == TOKEN


def test_a_file_is_its_owners_and_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(b"before")
    path.chmod(0o644)
    with path.open("rb") as before:
        CREDENTIALS.write(path)
        assert before.read() == b"before"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["tokens"]
    for wrong in (tmp_path / "missing" / "tokens", tmp_path):
        with pytest.raises(OSError, match=f": '{wrong}'$"):
            CREDENTIALS.write(wrong)


def test_what_is_added_takes_the_place_of_the_same_alias() -> None:
    credentials = Credentials()
    credentials.add(TOKEN)
    credentials.add(TOKEN._replace(password=b"newer"))
    credentials.add(TOKEN, "mine")
    assert list(credentials.tokens) == ["ha-hdfs:ns", "mine"]
    assert credentials.tokens["ha-hdfs:ns"].password == b"newer"
    assert Credentials(credentials.tokens) == credentials
    assert credentials != CREDENTIALS
    assert credentials != 1


def test_a_token_in_urls() -> None:
    assert TOKEN.to_url_string() == SPELLED
    assert Token.from_url_string(SPELLED) == TOKEN
    for bad in ("", "A", SPELLED[:-4], SPELLED + "AAAA", "not a token!", SPELLED.replace("A", "*")):
        with pytest.raises(ValueError, match="no token"):
            Token.from_url_string(bad)


@pytest.mark.parametrize("content", [b"", b"HDTS", b"HDTS\x00\x01", b"HDTS\x09", b"a=b\n"])
def test_what_is_no_token_file_is_named(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, when a file system is made, rather than when it calls."""
    path = tmp_path / "tokens"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{path}: token file"):
        Credentials.read(path)
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(ValueError, match=f"{path}: token file"):
        hflush.FileSystem.get("hdfs://127.0.0.1:1/", conf={"hflush.hdfs.user": "nobody-else"})


def test_a_file_that_is_not_there_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "tokens"))
    with pytest.raises(FileNotFoundError, match="tokens"):
        Credentials.of_process()
    monkeypatch.delenv(VARIABLE)
    assert Credentials.of_process() == Credentials()


@pytest.mark.parametrize("secret", [TOKEN, CREDENTIALS])
def test_secrets_are_not_shown_and_not_pickled(secret: Token | Credentials) -> None:
    """What is copied is the same; what would be pickled is refused, and the refusal has no part."""
    assert copy.copy(secret) == copy.deepcopy(secret) == secret
    shown = [repr(secret), str(secret), f"{secret}", repr([secret])]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="not pickled") as refused:
            pickle.dumps([secret], protocol)
        shown.append("".join(traceback.format_exception(refused.value)))
    assert [text for text in shown if "PW" in text or "\\x09" in text or "\\t" in text] == []


def _conf(settings: dict[str, str]) -> Configuration:
    conf = Configuration(load_defaults=False)
    for key, value in settings.items():
        conf[key] = value
    return conf


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of this process, with CREDENTIALS."""
    CREDENTIALS.write(tmp_path / "tokens")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "tokens"))
    return tmp_path / "tokens"


def test_the_keys_of_authentication(file: Path) -> None:
    native = read_native(_conf({"hadoop.security.authentication": "Kerberos"}), "nn", "alice")
    assert native.rpc.requires_authentication
    assert not native.rpc.fallback_to_simple
    assert native.tokens == [TOKEN]
    assert native.token_file == str(file)
    native = read_native(
        _conf(
            {
                "hadoop.rpc.protection": "privacy, Integrity",
                "ipc.client.fallback-to-simple-auth-allowed": "true",
            }
        ),
        "nn",
        "alice",
    )
    assert native.rpc.protections == ["privacy", "integrity"]
    assert native.rpc.fallback_to_simple
    assert not native.rpc.requires_authentication


def test_tokens_by_value(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """Hadoop's own key, which is secret: before files, which have what else there is."""
    newer, other = TOKEN._replace(password=b"newer"), TOKEN._replace(service="nn:8020")
    conf = _conf({"hadoop.tokens": f" {other.to_url_string()} ,{newer.to_url_string()}"})
    native = read_native(conf, "nn", "alice")
    assert (native.tokens, native.token_file) == ([other, newer], "")
    conf = _conf({"hadoop.tokens": other.to_url_string()})
    assert read_native(conf, "nn", "alice").tokens == [other, TOKEN]
    assert "hadoop.tokens" not in conf.without_secrets()
    with pytest.raises(ValueError, match=r"hadoop\.tokens must be") as refusal:
        read_native(_conf({"hadoop.tokens": "half a token"}), "nn", "alice")
    assert "half" not in str(refusal.value)


def test_several_files_and_those_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    """The variable's come before; several are taken together, one is read again later."""
    other = TOKEN._replace(service="127.0.0.1:1")
    older = TOKEN._replace(password=b"older")
    Credentials({"other": other, TOKEN.service: older}).write(tmp_path / "other")
    conf = _conf({"hadoop.token.files": f"{tmp_path / 'other'}, {tmp_path / 'missing'}"})
    native = read_native(conf, "nn", "alice")
    assert (native.tokens, native.token_file) == ([TOKEN, other], "")
    monkeypatch.delenv(VARIABLE)
    native = read_native(conf, "nn", "alice")
    assert (native.tokens, native.token_file) == ([older, other], str(tmp_path / "other"))


def test_a_token_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_TOKEN", SPELLED)
    assert read_native(_conf({}), "nn", "alice").tokens == [TOKEN]
    monkeypatch.setenv("HADOOP_TOKEN", "half a token")
    with pytest.raises(ValueError, match="HADOOP_TOKEN: ") as refusal:
        Credentials.of_process()
    assert "half" not in str(refusal.value)


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"hadoop.security.authentication": "token"}, io.UnsupportedOperation, "simple, kerberos"),
        (
            {
                "hadoop.security.authentication": "kerberos",
                "dfs.data.transfer.protection": "integrity",
            },
            io.UnsupportedOperation,
            "dfs.data.transfer.protection is integrity",
        ),
        ({"hadoop.rpc.protection": "secrecy"}, ValueError, "hadoop.rpc.protection"),
        ({"hadoop.rpc.protection": ","}, ValueError, "hadoop.rpc.protection"),
    ],
)
def test_what_cannot_be_had_is_refused(
    settings: dict[str, str], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        read_native(_conf(settings), "nn", "alice")


def test_kerberos_without_a_token_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the file has tokens of other services only."""
    conf = _conf({"hadoop.security.authentication": "kerberos"})
    with pytest.raises(io.UnsupportedOperation, match=VARIABLE):
        read_native(conf, "nn", "alice")
    Credentials({"kms": TOKEN._replace(kind="kms-dt")}).write(tmp_path / "tokens")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "tokens"))
    with pytest.raises(io.UnsupportedOperation, match="no token of HDFS"):
        read_native(conf, "nn", "alice")


def test_what_the_service_of_a_token_is_called() -> None:
    """An address and a port, a host where the key says so, and a nameservice for all of its own."""
    nameservice = {
        "dfs.nameservices": "ns",
        "dfs.ha.namenodes.ns": "a,b",
        "dfs.namenode.rpc-address.ns.a": "127.0.0.1:1",
        "dfs.namenode.rpc-address.ns.b": "127.0.0.1:2",
        "dfs.client.failover.proxy.provider.ns": "any",
    }
    by_name = {"hadoop.security.token.service.use_ip": "false"}
    for url, settings, name in (
        ("hdfs://127.0.0.1:9/", {}, "127.0.0.1:9"),
        ("hdfs://LocalHost:9/", by_name, "localhost:9"),
        ("hdfs://ns/", nameservice, "ha-hdfs:ns"),
    ):
        fs = hflush.FileSystem.get(url, conf=settings)
        assert isinstance(fs, hflush.DistributedFileSystem)
        assert fs.get_canonical_service_name() == name
