"""S3: names, connections and certificates that fail; servers that are slow, silent or elsewhere."""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import hflush
import pytest
from support import rude_servers
from support.certificates import make_authority, make_certificate
from support.relay import Relay
from support.s3_front import (
    Exchange,
    answer,
    answer_at_once,
    error_document,
    flip,
    make_answer,
    never_read,
)
from support.s3_ways import Way, over_plain_http
from support.s3_writers import (
    ABORT,
    COMPLETE,
    CREATE,
    DATA,
    GET,
    HEAD,
    IMPATIENT,
    KEY,
    PATH,
    PUT,
    SMALL,
    UPLOAD,
    file_system,
    published,
    unchanged,
    without_secrets,
    write,
    write_pieces,
)
from support.scripted_s3 import BUCKET, Rules, ScriptedS3
from support.waiting import Task, soon

pytestmark = pytest.mark.stores("s3")

UNSIGNED = "UNSIGNED-PAYLOAD"


def at(endpoint: str, conf: Mapping[str, str] | None = None) -> hflush.FileSystem:
    """A file system of a store that is not one."""
    with ScriptedS3() as nobody:
        keys = dict(nobody.conf)
    few = {"fs.s3a.retry.limit": "2", "fs.s3a.connection.timeout": "300ms"}
    whole: dict[str, Any] = {
        **keys,
        **IMPATIENT,
        **few,
        "fs.s3a.endpoint": endpoint,
        **(conf or {}),
    }
    return hflush.FileSystem.new_instance(f"s3://{BUCKET}/", whole)


@pytest.mark.rule("FAIL-2", "FAIL-3", "FAIL-4", "FAIL-1")
@pytest.mark.parametrize("data", [SMALL, DATA], ids=["small", "large"])
@pytest.mark.parametrize("port", ["", ":9000"])
def test_a_name_that_does_not_resolve(s3_way: Way, port: str, data: bytes) -> None:
    """An OSError that names the host."""
    endpoint = f"{s3_way.scheme}://no-such-host.invalid{port}"
    with (
        at(endpoint, s3_way.settings) as fs,
        pytest.raises(OSError, match=r"no-such-host\.invalid") as caught,
    ):
        write(fs, data)
    assert caught.value.errno
    without_secrets(caught.value)


@pytest.mark.rule("FAIL-2", "FAIL-3", "FAIL-4", "FAIL-1")
@pytest.mark.parametrize("data", [SMALL, DATA], ids=["small", "large"])
def test_nobody_listens(s3_way: Way, data: bytes) -> None:
    with rude_servers.refusing() as (host, port):
        with (
            at(f"{s3_way.scheme}://{host}:{port}", s3_way.settings) as fs,
            pytest.raises(ConnectionRefusedError) as caught,
        ):
            write(fs, data)
        assert f"{host}:{port}" in str(caught.value)
        assert caught.value.errno == errno.ECONNREFUSED


@pytest.mark.rule("FAIL-2", "FAIL-4", "FAIL-7", "FAIL-1", "FAIL-8", "FAIL-16")
@pytest.mark.parametrize(
    "server",
    [
        rude_servers.silence,
        rude_servers.close_at_once,
        rude_servers.http_answer,
        rude_servers.tls_alert,
        rude_servers.version_mismatch,
    ],
)
@pytest.mark.parametrize("data", [SMALL, DATA], ids=["small", "large"])
def test_what_is_no_store(server: Any, s3_way: Way, data: bytes) -> None:
    """An OSError, soon, that names the server, whatever it answers."""
    with (
        soon(),
        server() as other,
        at(f"{s3_way.scheme}://{other.authority}", s3_way.settings) as fs,
        pytest.raises(OSError, match=r"\[Errno \d+\] .*127\.0\.0\.1") as caught,
    ):
        write(fs, data)
    without_secrets(caught.value)


# --- TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two authorities, and a certificate of the first for 127.0.0.1, one for another name."""
    directory = tmp_path_factory.mktemp("certificates")
    for name in ("ours", "theirs"):
        make_authority(directory, name)
    make_certificate(directory, "ours", "server", of="IP:127.0.0.1")
    make_certificate(directory, "ours", "elsewhere", of="DNS:elsewhere.example")
    return directory


def secured(directory: Path, name: str) -> ScriptedS3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / f"{name}.pem", directory / f"{name}.key")
    return ScriptedS3(tls=context)


@pytest.mark.rule("FAIL-2")
@pytest.mark.parametrize("data", [SMALL, DATA], ids=["small", "large"])
def test_a_certificate_of_a_known_authority(certificates: Path, data: bytes) -> None:
    """Its file is a setting; bodies are not signed then, TLS protects them."""
    conf = {"hflush.s3.ssl.ca.file": str(certificates / "ours.pem")}
    with secured(certificates, "server") as server:
        with file_system(server, conf) as fs:
            write(fs, data)
            published(server, data)
        sent = server.calls(UPLOAD if data is DATA else PUT)
        assert {call.head.get("x-amz-content-sha256") for call in sent} == {UNSIGNED}


@pytest.mark.rule("FAIL-2", "FAIL-3", "FAIL-4", "FAIL-1")
@pytest.mark.parametrize("data", [SMALL, DATA], ids=["small", "large"])
@pytest.mark.parametrize(
    ("name", "authority"), [("server", None), ("server", "theirs"), ("elsewhere", "ours")]
)
def test_a_certificate_that_does_not_fit(
    certificates: Path, name: str, authority: str | None, data: bytes
) -> None:
    """Nothing is sent to a server that cannot prove who it is; the error says why."""
    conf: dict[str, str] = {}
    if authority is not None:
        conf["hflush.s3.ssl.ca.file"] = str(certificates / f"{authority}.pem")
    with secured(certificates, name) as server:
        with (
            file_system(server, conf) as fs,
            pytest.raises(OSError, match=r"(?i)certificate|SSL|TLS") as caught,
        ):
            write(fs, data)
        assert server.log == []
        assert caught.value.errno
        assert "(1 attempt)" in str(caught.value)
        without_secrets(caught.value)


@pytest.mark.rule("FAIL-2")
def test_a_certificate_that_is_not_looked_at(certificates: Path) -> None:
    """Because a setting says so."""
    with secured(certificates, "elsewhere") as server:
        with file_system(server, {"hflush.s3.ssl.verify": "false"}) as fs:
            write(fs)
        published(server)


@pytest.mark.rule("FAIL-2", "FAIL-3")
def test_a_file_of_authorities_that_is_not_there(certificates: Path, tmp_path: Path) -> None:
    """Is what the error says."""
    conf = {"hflush.s3.ssl.ca.file": str(tmp_path / "missing.pem"), "fs.s3a.retry.limit": "1"}
    with secured(certificates, "server") as server:
        with (
            file_system(server, conf) as fs,
            pytest.raises((OSError, ValueError), match=r"missing\.pem"),
        ):
            write(fs, SMALL)
        assert server.log == []


@pytest.fixture
def relayed(s3_over_tls: Way) -> Iterator[tuple[ScriptedS3, Relay]]:
    """A store over TLS, and what passes its bytes on without knowing them."""
    with s3_over_tls.server() as server, Relay(("127.0.0.1", server.port)) as relay:
        yield server, relay


class OneBit:
    """Flips one in the middle of the next piece that passes."""

    def __init__(self) -> None:
        self.is_due = True

    def __call__(self, data: bytes) -> bytes:
        if not self.is_due:
            return data
        self.is_due = False
        return flip(data, len(data) // 2)


@pytest.mark.rule("FAIL-10", "FAIL-1", "FAIL-2")
@pytest.mark.parametrize("of", ["handshake", "part", "answer"])
def test_a_bit_that_flips_below_tls(relayed: tuple[ScriptedS3, Relay], of: str) -> None:
    """Ends the connection, and what was on it is done once more."""
    server, relay = relayed
    bit = OneBit()

    def flip_the_next(exchange: Exchange) -> None:
        if of == "part":
            relay.change = bit
        else:
            relay.change_answers = bit
        exchange.send(exchange.execute())

    if of == "handshake":
        relay.change_answers = bit
    else:
        server.fail(CREATE if of == "part" else GET, flip_the_next)
    endpoint = {"fs.s3a.endpoint": f"https://127.0.0.1:{relay.port}"}
    with file_system(server, endpoint) as fs:
        write(fs)
        published(server)
        with fs.open(PATH) as reader:
            assert reader.read() == DATA
    assert not bit.is_due


# --- 100-continue


@pytest.mark.rule("FAIL-8")
def test_a_server_that_knows_no_continue(s3: ScriptedS3, s3_fs: hflush.FileSystem) -> None:
    """Costs little: bodies are sent all the same, after 200 ms, and once."""
    s3.continues = False
    with soon():
        write(s3_fs)
    published(s3)
    assert s3.count(UPLOAD) == 3


@pytest.mark.rule("FAIL-1", "FAIL-12")
def test_a_refusal_before_the_body(s3: ScriptedS3, s3_fs: hflush.FileSystem) -> None:
    """Is believed: the body is not sent first."""
    s3.fail(UPLOAD, answer_at_once(403, "AccessDenied"), part=2, times=None)
    stream = s3_fs.create(PATH)
    with pytest.raises(PermissionError):
        write_and_close(stream)
    unchanged(s3)
    assert s3.count(COMPLETE) == 0


def write_and_close(stream: Any) -> None:
    with stream:
        write_pieces(stream, DATA)


# --- slow, silent


@pytest.mark.rule("FAIL-8", "FAIL-7", "FAIL-1")
def test_a_server_that_reads_nothing(s3: ScriptedS3) -> None:
    """The connection is given up when nothing has moved for so long."""
    s3.continues = False
    s3.fail(UPLOAD, never_read, part=1)
    with file_system(s3, {"fs.s3a.connection.timeout": "400ms"}) as fs:
        write(fs)
        published(s3)


@pytest.mark.rule("FAIL-8", "FAIL-7", "FAIL-1")
def test_a_server_that_never_says_anything(s3: ScriptedS3) -> None:
    """Ends in an error that says so, and with nothing published."""
    s3.fail(PUT, never_read, times=None)
    conf = {"fs.s3a.connection.timeout": "200ms", "fs.s3a.retry.limit": "2"}
    with file_system(s3, conf) as fs:
        stream = fs.create(PATH)
        stream.write(SMALL)
        with pytest.raises(OSError, match="timed out after 200 ms") as caught:
            stream.close()
        assert isinstance(caught.value.__cause__ or caught.value, TimeoutError)
        assert stream.outcome in {"failed", "unknown"}  # it may still be at it
    assert s3.count(PUT) == 3
    unchanged(s3)


@pytest.mark.rule("FAIL-8", "CLOSE-2")
def test_a_store_that_assembles_for_long(s3: ScriptedS3) -> None:
    """S3 sends blanks meanwhile: as long as something comes there is no timeout."""

    def assemble(exchange: Exchange) -> None:
        full = exchange.execute()
        declaration, _, rest = full.body.partition(b"\n")
        blanks = 20
        length = str(len(declaration) + blanks + len(rest))
        exchange.send(make_answer(200, content_length=length, content_type="application/xml"))
        exchange.send_bytes(declaration)
        for _ in range(blanks):
            time.sleep(0.1)
            exchange.send_bytes(b" ")
        exchange.send_bytes(rest)

    s3.fail(COMPLETE, assemble)
    with file_system(s3, {"hflush.s3.complete.timeout": "1500ms"}) as fs:
        write(fs)
        published(s3)
    assert s3.count(COMPLETE) == 1
    assert s3.count(HEAD) == 0


# --- elsewhere


@pytest.mark.rule("FAIL-1")
@pytest.mark.parametrize("data", [SMALL, DATA], ids=["small", "large"])
def test_the_region_is_learnt(s3_way: Way, data: bytes) -> None:
    """From the refusal, once; then it is known."""
    with s3_way.server(Rules(region="eu-west-9")) as server:
        with file_system(server, {"fs.s3a.endpoint.region": "us-east-1"}) as fs:
            write(fs, data)
            published(server, data)
            write(fs, data)
        refused = [call for call in server.log if call.status == 400]
        assert len(refused) <= 2


@pytest.mark.rule("FAIL-7")
def test_a_region_that_is_never_right(s3: ScriptedS3, s3_fs: hflush.FileSystem) -> None:
    """Is asked for once more, not for ever."""

    def elsewhere(exchange: Exchange) -> None:
        exchange.read_request()
        exchange.send(make_answer(301, "", x_amz_bucket_region=f"region-{s3.count(PUT)}"))

    s3.fail(PUT, elsewhere, times=None)
    with pytest.raises(OSError, match="301"):
        write(s3_fs, SMALL)
    assert s3.count(PUT) == 2


@pytest.mark.rule("FAIL-1")
@pytest.mark.parametrize("operation", [PUT, CREATE, UPLOAD, COMPLETE])
def test_a_redirect_is_followed_once_and_signed_anew(
    s3: ScriptedS3, s3_way: Way, operation: str
) -> None:
    """307 in S3's words: the request goes where Location says, for that call only."""
    with s3_way.server() as other:
        other.objects, other.uploads = s3.objects, s3.uploads

        def redirect(exchange: Exchange) -> None:
            exchange.read_request()
            exchange.send(
                make_answer(
                    307,
                    error_document("TemporaryRedirect"),
                    location=other.endpoint + exchange.request.target,
                )
            )

        s3.fail(operation, redirect)
        with file_system(s3) as fs:
            data = SMALL if operation == PUT else DATA
            write(fs, data)
        published(s3, data)
        assert other.count(operation) == 1


# What a user does, with an object at PATH that is not to be touched.
USES: dict[str, Any] = {
    "exists": lambda fs: fs.exists(PATH),
    "get_file_status": lambda fs: fs.get_file_status(PATH),
    "list": lambda fs: list(fs.list_status("/dir")),
    "read": lambda fs: fs.open(PATH).read(),
    "delete": lambda fs: fs.delete(PATH),
    "delete many": lambda fs: fs.delete("/dir", recursive=True),
    "mkdirs": lambda fs: fs.mkdirs("/new/directory"),
    "rename": lambda fs: fs.rename(PATH, "/renamed"),
    "put": lambda fs: write(fs, SMALL),
    "upload": lambda fs: write(fs, DATA),
    "uploads": lambda fs: fs.list_multipart_uploads("/"),
}
LOGIN = "<!DOCTYPE html><html><body>Please log in</body></html>"
EVERYTHING = (
    *(PUT, HEAD, GET, UPLOAD, CREATE, COMPLETE, ABORT, "DeleteObject", "DeleteObjects"),
    *("ListObjectsV2", "CopyObject", "ListParts", "ListMultipartUploads"),
)


@pytest.mark.rule("FAIL-1", "FAIL-2")
@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("elsewhere", ["another domain", "another port"])
@pytest.mark.parametrize("use", USES)
def test_a_captive_portal(s3: ScriptedS3, use: str, elsewhere: str, status: int) -> None:
    """A redirect to a login page: nothing is sent there, and nothing is told to have worked."""
    visits: list[bytes] = []

    def page(connection: socket.socket) -> None:
        visits.append(connection.recv(65536))
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(LOGIN)}\r\nconnection: close\r\n\r\n"
        connection.sendall((head + LOGIN).encode())

    s3.put(KEY, SMALL)
    with rude_servers.serving(page) as portal:
        host = "localhost" if elsewhere == "another domain" else "127.0.0.1"
        location = f"http://{host}:{portal.port}/login?from=there"
        for operation in EVERYTHING:
            s3.fail(operation, answer(status, body=LOGIN, location=location), times=None)
        with file_system(s3) as fs:
            with pytest.raises(OSError, match="not followed") as caught:
                USES[use](fs)
            assert not isinstance(caught.value, FileNotFoundError)
            assert "from=there" not in str(caught.value)
            s3.heal()
            assert fs.exists(PATH)  # and nothing of it is remembered
    assert visits == []
    assert s3.objects[KEY].data == SMALL
    assert sorted(s3.objects) == [KEY]


def login_page(exchange: Exchange) -> None:
    exchange.read_request()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(LOGIN)}\r\n\r\n"
    body = "" if exchange.request.method == "HEAD" else LOGIN
    exchange.send_bytes((head + body).encode())


@pytest.mark.rule("FAIL-1", "FAIL-2")
@pytest.mark.parametrize("use", [use for use in USES if use != "read"])
def test_a_login_page_in_the_place_of_a_store(s3: ScriptedS3, use: str) -> None:
    """200 and a page, whatever is asked: nothing was deleted, nothing exists, nothing is made."""
    s3.put(KEY, SMALL)

    for operation in EVERYTHING:
        s3.fail(operation, login_page, times=None)
    with (
        file_system(s3, {"fs.s3a.retry.limit": "1"}) as fs,
        pytest.raises(OSError, match=r"\[Errno \d+\] ") as caught,
    ):
        USES[use](fs)
    assert not isinstance(caught.value, (FileNotFoundError, FileExistsError))
    assert sorted(s3.objects) == [KEY]
    assert s3.objects[KEY].data == SMALL


@pytest.mark.rule("FAIL-1", "FAIL-2")
@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda fs: fs.create("/new/file", overwrite=False), id="create"),
        pytest.param(lambda fs: fs.mkdirs("/new/directory"), id="mkdirs"),
    ],
)
def test_a_login_page_is_no_object_that_is_in_the_way(s3: ScriptedS3, use: Any) -> None:
    """What is asked at once, before something is made, is judged as what is asked alone."""
    s3.fail(HEAD, login_page, times=None)
    conf = {"fs.s3a.retry.limit": "1", "fs.s3a.create.performance": "false"}
    with (
        file_system(s3, conf) as fs,
        pytest.raises(OSError, match=r"HeadObject: .*without ETag") as caught,
    ):
        use(fs)
    assert not isinstance(caught.value, (FileNotFoundError, FileExistsError))
    assert s3.objects == {}


@pytest.mark.rule("FAIL-1", "FAIL-2")
@pytest.mark.parametrize("code", ["TemporaryRedirect", "PermanentRedirect"])
def test_a_redirect_to_another_domain_is_refused(s3: ScriptedS3, s3_way: Way, code: str) -> None:
    """Even in S3's words: no signature, no key of SSE-C and no byte goes there."""
    with s3_way.server() as other:
        location = f"{s3_way.scheme}://localhost:{other.port}/bucket/x"
        s3.fail(PUT, answer(307, code, location=location), times=None)
        with file_system(s3) as fs, pytest.raises(OSError, match="another domain"):
            write(fs, SMALL)
        assert other.log == []
        assert other.connections == 0
    assert s3.count(PUT) == 1
    assert s3.objects == {}


@pytest.mark.rule("FAIL-1")
@pytest.mark.parametrize("where", ["to a file", "to the other of http and https"])
def test_a_redirect_to_another_scheme_is_refused(
    s3: ScriptedS3, s3_way: Way, s3_fs: hflush.FileSystem, where: str
) -> None:
    """Nothing is sent in the clear that was to be sent over TLS, and nothing to a local file."""
    scheme = "http" if s3_way.scheme == "https" else "https"
    with ScriptedS3() as other:
        elsewhere = f"{scheme}://127.0.0.1:{other.port}/bucket/x"
        location = "file:///etc/passwd" if where == "to a file" else elsewhere
        s3.fail(PUT, answer(307, "TemporaryRedirect", location=location), times=None)
        with pytest.raises(OSError, match="another scheme"):
            write(s3_fs, SMALL)
        assert other.connections == 0
    assert s3.objects == {}


# --- proxies


def until_blank_line(connection: socket.socket) -> bytes:
    """What comes until the end of a head; ConnectionError if that does not come."""
    got = b""
    while b"\r\n\r\n" not in got:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionError("it ended within a head")
        got += piece
    return got


def pass_on(source: socket.socket, target: socket.socket) -> None:
    """All that comes, and its end, however it comes."""
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    rude_servers.shut_down(target)


def through(s3: ScriptedS3, connection: socket.socket, passed: list[str]) -> None:
    """What a proxy of HTTP does with one request: it gets the whole URL, or makes a tunnel."""
    head = until_blank_line(connection)
    line, _, rest = head.partition(b"\r\n")
    method, url, version = line.split(b" ")
    passed.append(url.decode())
    if method == b"CONNECT":
        with socket.create_connection(("127.0.0.1", s3.port)) as store:
            connection.sendall(version + b" 200 OK\r\n\r\n")
            back = Task(pass_on, store, connection)
            pass_on(connection, store)
            back.result()
        return
    path = url.removeprefix(s3.endpoint.encode())
    with socket.create_connection(("127.0.0.1", s3.port)) as store:
        store.sendall(b" ".join([method, path, version]) + b"\r\n" + rest)
        length = int(rest.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or b"0")
        body = rest.partition(b"\r\n\r\n")[2]
        while len(body) < length and (piece := connection.recv(65536)):
            store.sendall(piece)
            body += piece
        answer = until_blank_line(store)
        connection.sendall(answer.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))


@pytest.mark.rule("FAIL-4")
@over_plain_http
@pytest.mark.parametrize("exceptions", ["", "127.0.0.1"], ids=["through it", "not through it"])
def test_what_leaves_the_loopback_is_signed(
    s3: ScriptedS3, monkeypatch: pytest.MonkeyPatch, exceptions: str
) -> None:
    """Bodies to the loopback are unsigned, unless a proxy of the environment has them."""
    passed: list[str] = []
    with rude_servers.serving(lambda connection: through(s3, connection, passed)) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.setenv(name, exceptions)
        with file_system(s3, {"fs.s3a.connection.expect.continue": "false"}) as fs:
            write(fs, DATA[: 100 << 10])
    published(s3, DATA[: 100 << 10])
    (put,) = s3.calls(PUT)
    is_signed = put.head.get("x-amz-content-sha256") != UNSIGNED
    assert is_signed == bool(passed) == (not exceptions)


@pytest.mark.rule("FAIL-2")
@over_plain_http
@pytest.mark.parametrize("authority", ["ours", "theirs"])
def test_a_proxy_with_a_certificate_of_its_own(
    s3: ScriptedS3, certificates: Path, authority: str
) -> None:
    """The file of authorities is for the proxy, too; one that they do not know gets nothing."""
    passed: list[str] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")

    def handle(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            through(s3, secured, passed)

    with rude_servers.serving(handle) as proxy:
        conf = {
            "fs.s3a.proxy.host": "127.0.0.1",
            "fs.s3a.proxy.port": str(proxy.port),
            "fs.s3a.proxy.ssl.enabled": "true",
            "hflush.s3.ssl.ca.file": str(certificates / f"{authority}.pem"),
            "fs.s3a.retry.limit": "0",
        }
        with file_system(s3, conf) as fs:
            if authority == "ours":
                write(fs, SMALL)
                published(s3, SMALL)
            else:
                with pytest.raises(OSError, match="certificate"):
                    write(fs, SMALL)
    assert bool(passed) == (authority == "ours")


@pytest.mark.rule("FAIL-2")
def test_through_a_proxy(s3: ScriptedS3) -> None:
    """A proxy of HTTP gets the whole URL, or, for TLS, makes a tunnel; the store answers."""
    passed: list[str] = []

    with rude_servers.serving(lambda connection: through(s3, connection, passed)) as proxy:
        conf = {"fs.s3a.proxy.host": "127.0.0.1", "fs.s3a.proxy.port": str(proxy.port)}
        with file_system(s3, conf) as fs:
            write(fs, SMALL)
    published(s3, SMALL)
    named = s3.endpoint.removeprefix("https://")  # to a tunnel
    assert [url for url in passed if url.startswith(named)]
