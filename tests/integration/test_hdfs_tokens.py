"""Delegation tokens on a real cluster: who has one acts as its owner, whatever else is said.

The cluster asks nobody for a ticket, and gives tokens all the same
(``dfs.namenode.delegation.token.always-use``).
"""

from __future__ import annotations

import base64
import getpass
import io
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import hflush
import pytest
from hflush.credentials import Credentials, Token
from support.data import dataset
from support.minidfs import Hdfs, Jvm, NewHdfs, running

pytestmark = pytest.mark.hdfs

VARIABLE = "HADOOP_TOKEN_FILE_LOCATION"
OWNER = "olga"
RENEWER = getpass.getuser()


class Cluster(NamedTuple):
    hdfs: Hdfs
    protection: str

    def client(self, settings: Mapping[str, str] | None = None) -> hflush.DistributedFileSystem:
        fs = self.hdfs.file_system({"hadoop.rpc.protection": self.protection, **(settings or {})})
        assert isinstance(fs, hflush.DistributedFileSystem)
        return fs


@pytest.fixture(scope="module", params=("authentication", "integrity", "privacy"))
def cluster(request: pytest.FixtureRequest, hdfs_jvm: Jvm) -> Iterator[Cluster]:
    """A cluster that gives tokens, wants block tokens, and protects calls in one way only."""
    settings = {
        "dfs.namenode.delegation.token.always-use": "true",
        "dfs.block.access.token.enable": "true",
        "hadoop.rpc.protection": request.param,
    }
    with running(hdfs_jvm, 1, settings=settings) as hdfs:
        hdfs.java.mkdirs("/shared")
        hdfs.java.set_permission("/shared", 0o777)
        yield Cluster(hdfs, request.param)


@pytest.fixture
def token(cluster: Cluster) -> Token:
    """Olga's."""
    given = cluster.client({"hflush.hdfs.user": OWNER}).get_delegation_token(RENEWER)
    assert given is not None
    return given


@pytest.fixture
def held(token: Token, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Token:
    """The same, in the file of this process."""
    credentials = Credentials()
    credentials.add(token)
    credentials.write(tmp_path / "tokens")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "tokens"))
    return token


@pytest.fixture
def path(cluster: Cluster) -> str:
    return f"/shared/{time.monotonic_ns()}"


@pytest.mark.usefixtures("held")
def test_who_has_a_token_is_its_owner(cluster: Cluster, path: str) -> None:
    """Files are written and read as the owner, and large answers and requests fit."""
    fs, content = cluster.client(), dataset(300_000)
    with fs.create(path, block_size=1 << 20) as out:
        out.write(content)
        out.hflush()
        out.hsync()
    assert fs.get_file_status(path).owner == OWNER
    assert cluster.hdfs.java.read(path) == content
    with fs.open(path) as source:
        assert source.read() == content
    with fs.append(path) as out:
        out.write(b"more")
    assert fs.get_file_status(path).length == len(content) + 4


@pytest.mark.stores("hdfs")
@pytest.mark.rule("APPEND-10")
def test_append_needs_no_right_to_read(cluster: Cluster, path: str) -> None:
    """The block's token is to write; there is none to read its sums with, and it goes on."""
    cluster.hdfs.java.write(path, b"old ")
    cluster.hdfs.java.set_permission(path, 0o222)
    with cluster.client({"hflush.hdfs.user": "ann"}).append(path) as out:
        out.write(b"new")
    assert cluster.hdfs.java.read(path) == b"old new"


@pytest.mark.usefixtures("held")
def test_calls_of_many_bytes(cluster: Cluster, path: str) -> None:
    """Requests and responses that are longer than one protected message."""
    fs = cluster.client()
    names = [f"{number:03}-{'n' * 200}" for number in range(600)]
    for name in names:
        fs.create(f"{path}/{name}").close()
    assert [status.path.rpartition("/")[2] for status in fs.list_status(path)] == names


def test_a_file_that_is_being_written(cluster: Cluster, path: str) -> None:
    """DataNodes tell its length to who has the token of its block."""
    fs = cluster.client()
    with fs.create(path) as out:
        out.write(b"seen")
        out.hflush()
        with fs.open(path) as source:
            assert source.read() == b"seen"


def test_without_a_token_the_process_is_who_it_says(cluster: Cluster, path: str) -> None:
    fs = cluster.client()
    fs.create(path).close()
    assert fs.get_file_status(path).owner == RENEWER


def test_a_token_of_another_cluster_is_not_used(
    cluster: Cluster, token: Token, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = Credentials()
    credentials.add(token._replace(service="10.1.2.3:8020"))
    credentials.add(token._replace(kind="OTHER"))
    credentials.write(tmp_path / "tokens", protobuf=True)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "tokens"))
    fs = cluster.client()
    fs.create(path).close()
    assert fs.get_file_status(path).owner == RENEWER


def test_a_wrong_secret_is_refused_and_not_told(
    cluster: Cluster, token: Token, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server refuses; no message has the password in it."""
    credentials = Credentials()
    credentials.add(token._replace(password=b"not the one"))
    credentials.write(tmp_path / "tokens")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "tokens"))
    with pytest.raises(PermissionError) as refused:
        cluster.client().create(path)
    assert "not the one" not in str(refused.value)
    assert not cluster.hdfs.java.exists(path)


def test_a_cancelled_token_is_refused(
    cluster: Cluster, token: Token, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is renewed by its renewer alone, and cancelled by its owner; then it opens nothing."""
    assert cluster.client().renew_delegation_token(token) > time.time()
    with pytest.raises(PermissionError, match="mallory"):
        cluster.client({"hflush.hdfs.user": "mallory"}).renew_delegation_token(token)
    credentials = Credentials()
    credentials.add(token)
    credentials.write(tmp_path / "tokens")
    owner = cluster.client({"hflush.hdfs.user": OWNER})
    monkeypatch.setenv(VARIABLE, str(tmp_path / "tokens"))
    fs = cluster.client()
    fs.create(path).close()
    owner.cancel_delegation_token(token)
    fs.close()
    with pytest.raises(PermissionError, match="can't be found in cache") as refused:
        fs.get_file_status(path)
    told = str(refused.value)
    for part in (
        f"the token of {OWNER} for {token.service}",
        "issued 20",
        str(tmp_path / "tokens"),
    ):
        assert part in told
    assert token.password.hex() not in told


def test_a_token_of_a_nameservice(
    hdfs_new: NewHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is good with whichever NameNode is active, which gives, renews and cancels it."""
    settings = {"dfs.namenode.delegation.token.always-use": "true"}
    hdfs = hdfs_new(1, settings, name_nodes=2)
    hdfs.java.set_permission("/", 0o777)
    cluster = Cluster(hdfs, "authentication")
    owner, renewer = cluster.client({"hflush.hdfs.user": OWNER}), cluster.client()
    first = owner.get_delegation_token(RENEWER)
    assert first is not None
    assert first.service == f"ha-hdfs:{hdfs.url.removeprefix('hdfs://')}"
    credentials = Credentials()
    credentials.add(first)
    credentials.write(tmp_path / "tokens")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "tokens"))
    fs = cluster.client()
    out = fs.create("/before")
    out.write(b"before ")
    out.hsync()

    hdfs.cluster.fail_over(0, 1)

    out.write(b"after")
    out.close()
    assert hdfs.java.read("/before") == b"before after"
    with cluster.client() as fresh:  # no connection that stands
        fresh.create("/after").close()
        assert [fresh.get_file_status(f"/{name}").owner for name in ("before", "after")] == [
            OWNER,
            OWNER,
        ]
    monkeypatch.delenv(VARIABLE)
    second = owner.get_delegation_token(RENEWER)
    assert second is not None
    assert second.identifier != first.identifier
    for token in (first, second):
        assert renewer.renew_delegation_token(token) > time.time()
        owner.cancel_delegation_token(token)
        with pytest.raises(PermissionError, match="unknown token"):
            renewer.renew_delegation_token(token)


@pytest.mark.usefixtures("held")
def test_a_file_that_has_changed_is_read_again(
    cluster: Cluster, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that is there already takes what the file has when it connects."""
    fs = cluster.client()
    fs.create(f"{path}/first").close()
    monkeypatch.delenv(VARIABLE)
    newer = cluster.client({"hflush.hdfs.user": "petra"}).get_delegation_token(RENEWER)
    assert newer is not None
    credentials = Credentials()
    credentials.add(newer)
    credentials.write(tmp_path / "tokens")
    assert fs.get_file_status(f"{path}/first").owner == OWNER  # over the connection that stands
    fs.close()
    fs.create("/shared/petras-" + path.rpartition("/")[2]).close()
    status = fs.get_file_status("/shared/petras-" + path.rpartition("/")[2])
    assert status.owner == "petra"


@pytest.mark.usefixtures("held")
def test_a_token_goes_before_a_name(cluster: Cluster, path: str) -> None:
    """As in Hadoop: who calls is who the token says; the name says whose home it is."""
    fs = cluster.client({"hflush.hdfs.user": "mallory"})
    fs.create(path).close()
    assert fs.get_file_status(path).owner == OWNER
    assert fs.home_directory == "/user/mallory"


def test_no_secret_shows(cluster: Cluster, held: Token, path: str) -> None:
    """Neither in what streams and file systems tell about themselves, nor in what is logged."""
    fs = cluster.client()
    with fs.create(path) as out:
        out.write(b"x")
        out.hsync()
    shown = [repr(fs), str(fs), repr(out), repr(out.history()), repr(out.io_statistics())]
    shown.append(repr(fs.io_statistics()))
    secrets = [held.password, held.identifier, base64.b64encode(held.password)]
    spelled = [repr(secret)[2:-1] for secret in secrets] + [held.password.hex()]
    assert [text for text in shown for secret in spelled if secret in text] == []


@pytest.mark.usefixtures("held")
def test_java_takes_the_file_and_the_token_stays_out_of_pickles(
    cluster: Cluster, token: Token, tmp_path: Path
) -> None:
    """Java reads what is written here, and a pickled file system has no secret."""
    java = cluster.hdfs.jvm.java
    conf = java.org.apache.hadoop.conf.Configuration()
    for protobuf in (False, True):
        credentials = Credentials({"alias": token}, {"k": b"\x00secret"})
        credentials.write(tmp_path / "ours", protobuf=protobuf)
        file = java.java.io.File(str(tmp_path / "ours"))
        read = java.org.apache.hadoop.security.Credentials.readTokenStorageFile(file, conf)
        theirs = read.getToken(java.org.apache.hadoop.io.Text("alias"))
        assert bytes(theirs.getIdentifier()) == token.identifier
        assert bytes(theirs.getPassword()) == token.password
        assert str(theirs.encodeToUrlString()) == token.to_url_string()
        formats = getattr(java.org.apache.hadoop.security, "Credentials$SerializedFormat")
        stream = java.java.io.DataOutputStream(java.java.io.FileOutputStream(f"{tmp_path}/theirs"))
        read.writeTokenStorageToStream(stream, formats.PROTOBUF if protobuf else formats.WRITABLE)
        stream.close()
        assert (tmp_path / "theirs").read_bytes()[4] == protobuf
        assert Credentials.read(tmp_path / "theirs") == credentials
    assert os.stat(tmp_path / "ours").st_mode & 0o777 == 0o600
    pickled = pickle.dumps(cluster.client())
    assert token.password not in pickled
    assert token.identifier not in pickled


def test_a_cluster_that_asks_nobody_is_refused_where_it_has_to(
    cluster: Cluster, path: str, held: Token, tmp_path: Path
) -> None:
    """With kerberos configured a server that does not ask who calls is not talked to."""
    other = Credentials()
    other.add(held._replace(service="10.1.2.3:8020"))
    other.write(tmp_path / "tokens")
    kerberos = {"hadoop.security.authentication": "kerberos"}
    with pytest.raises(PermissionError, match="fallback-to-simple-auth-allowed"):
        cluster.client(kerberos).get_file_status("/")
    allowed = cluster.client({**kerberos, "ipc.client.fallback-to-simple-auth-allowed": "true"})
    assert allowed.get_file_status("/").is_directory


def test_kerberos_without_a_token_is_refused(cluster: Cluster) -> None:
    with pytest.raises(io.UnsupportedOperation, match=VARIABLE):
        cluster.client({"hadoop.security.authentication": "kerberos"})


@pytest.mark.usefixtures("held")
def test_a_process_of_an_executor(cluster: Cluster, path: str) -> None:
    """The variable alone makes a fresh process the owner, whatever driver the options name."""
    program = (
        "import sys, hflush\n"
        "conf = {'hadoop.rpc.protection': sys.argv[2], 'hflush.hdfs.user': 'driver'}\n"
        "with hflush.create(sys.argv[1], conf=conf) as out: out.write(b'x'); out.hsync()\n"
    )
    url = f"{cluster.hdfs.url}{path}"
    subprocess.run([sys.executable, "-c", program, url, cluster.protection], check=True)
    assert cluster.client().get_file_status(path).owner == OWNER
