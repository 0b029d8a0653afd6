"""What the S3 servers of tests have in common: sockets, which call a request is, faults, a log.

`scripted_s3.ScriptedS3` answers by itself, `fault_proxy.FaultProxy` asks a real server. Both do
with a call what was ordered before:

    server.fail("UploadPart", lose_answer, part=2)              # the second part, once
    server.fail("CompleteMultipartUpload", answer(503, "SlowDown"), times=None)      # always
    …
    assert server.count("CompleteMultipartUpload") == 1

A fault is a function of an `Exchange`; those below are most of what a network and a store can do.
Requests and answers are kept whole in memory: for parts of a test's size.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import ssl
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import unquote

from support.waiting import wait_until

if TYPE_CHECKING:
    from typing_extensions import Self

PIECE = 256 << 10
RESET = struct.pack("ii", 1, 0)  # linger for 0 seconds: closing sends RST


@dataclasses.dataclass(frozen=True)
class Head:
    """The first line and the headers of a request or a response."""

    first: str
    headers: list[tuple[str, str]]

    def get(self, name: str, otherwise: str = "") -> str:
        return next((v for n, v in self.headers if n.lower() == name), otherwise)

    @property
    def status(self) -> int:
        return int(self.first.split()[1])

    def encoded(self) -> bytes:
        lines = [self.first, *(f"{name}: {value}" for name, value in self.headers)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Wire:
    """One end of a connection, read by heads and bodies."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._buffer = bytearray()

    def _more(self) -> None:
        piece = self.socket.recv(PIECE)
        if not piece:
            raise ConnectionResetError("the other side has gone")
        self._buffer += piece

    def take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._more()
        taken = bytes(memoryview(self._buffer)[:size])
        del self._buffer[:size]
        return taken

    def _take_line(self) -> bytes:
        while (end := self._buffer.find(b"\n")) < 0:
            self._more()
        return self.take(end + 1)

    def head(self) -> Head | None:
        """The next head; None if the connection ended in good order before it."""
        if not self._buffer:
            first = self.socket.recv(PIECE)
            if not first:
                return None
            self._buffer += first
        lines = []
        while line := self._take_line().decode("latin-1").rstrip("\r\n"):
            lines.append(line)
        pairs = [line.partition(":") for line in lines[1:]]
        return Head(lines[0], [(name, value.strip()) for name, _, value in pairs])

    def body(self, head: Head) -> tuple[bytes, bytes]:
        """The body as it was sent, and what it means: they differ where it came in chunks."""
        if head.get("transfer-encoding").lower() != "chunked":
            data = self.take(int(head.get("content-length", "0")))
            return data, data
        raw, data = bytearray(), bytearray()
        while True:
            line = self._take_line()
            size = int(line.partition(b";")[0], 16)
            raw += line
            if size == 0:
                break
            chunk = self.take(size + 2)
            raw += chunk
            data += chunk[:size]
        while raw[-4:] != b"\r\n\r\n":  # trailers
            raw += self._take_line()
        return bytes(raw), bytes(data)

    def until_closed(self) -> None:
        while self.socket.recv(PIECE):
            pass


@dataclasses.dataclass
class Request:
    """A call, as the log has it."""

    method: str
    target: str  # as it was sent
    head: Head
    operation: str
    bucket: str
    key: str
    query: dict[str, str]
    raw: bytes = b""
    body: bytes = b""
    fault: str = ""  # what was done to it, if anything
    status: int = 0  # what it was answered; 0: nothing

    @property
    def part(self) -> int | None:
        number = self.query.get("partNumber")
        return None if number is None else int(number)

    @property
    def upload_id(self) -> str:
        return self.query.get("uploadId", "")


def parse(head: Head, base_path: str = "") -> Request:
    method, target, _ = head.first.split(" ", 2)
    path, _, text = target.removeprefix(base_path).partition("?")
    bucket, _, key = path.lstrip("/").partition("/")
    pairs = [pair.partition("=") for pair in text.split("&") if pair]
    query = {unquote(name): unquote(value) for name, _, value in pairs}
    named = operation(method, bool(key), query, copies=bool(head.get("x-amz-copy-source")))
    return Request(method, target, head, named, unquote(bucket), unquote(key), query)


def operation(method: str, has_key: bool, query: dict[str, str], copies: bool) -> str:
    """S3's name of a call."""
    if not has_key:
        special = {"uploads": "ListMultipartUploads", "location": "GetBucketLocation"}
        if method == "GET":
            return next((special[name] for name in special if name in query), "ListObjectsV2")
        return {"PUT": "CreateBucket", "HEAD": "HeadBucket", "POST": "DeleteObjects"}.get(
            method, f"{method} bucket"
        )
    if "uploadId" in query:
        part = "UploadPartCopy" if copies else "UploadPart"
        return {
            "PUT": part,
            "POST": "CompleteMultipartUpload",
            "DELETE": "AbortMultipartUpload",
            "GET": "ListParts",
        }[method]
    if method == "POST" and "uploads" in query:
        return "CreateMultipartUpload"
    put = "CopyObject" if copies else "PutObject"
    return {"PUT": put, "GET": "GetObject", "HEAD": "HeadObject", "DELETE": "DeleteObject"}[method]


@dataclasses.dataclass(frozen=True)
class Answer:
    """A response; `body` is as it goes over the wire."""

    head: Head
    body: bytes = b""

    @property
    def status(self) -> int:
        return self.head.status


def make_answer(status: int, body: str | bytes = b"", **headers: str) -> Answer:
    """An answer with the headers that every one has; `content_type="…"` is Content-Type."""
    data = body.encode() if isinstance(body, str) else body
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named.setdefault("content-length", str(len(data)))
    named.setdefault("date", formatdate(usegmt=True))
    named.setdefault("x-amz-request-id", "TESTREQUEST")
    phrase = HTTPStatus(status).phrase
    return Answer(Head(f"HTTP/1.1 {status} {phrase}", list(named.items())), data)


def error_document(code: str, message: str = "as told") -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    )


class Gone(Exception):
    """The fault has ended the connection."""


class Exchange:
    """A request that has come in, and what can be done with it."""

    def __init__(self, front: S3Front, client: Wire, request: Request) -> None:
        self.front = front
        self.request = request
        self._client = client
        self._has_body = False

    def read_request(self) -> None:
        """Take the whole body, once."""
        if self._has_body:
            return
        self.go_on()
        self.request.raw, self.request.body = self._client.body(self.request.head)
        self._has_body = True

    def go_on(self) -> None:
        """Say 100 to a client that asked before sending the body."""
        if self.request.head.get("expect").lower() == "100-continue" and self.front.continues:
            self._client.socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    def take(self, size: int) -> bytes:
        """So much of the body, and no more; for a connection that then ends."""
        self.go_on()
        return self._client.take(min(size, int(self.request.head.get("content-length", "0"))))

    def execute(self, change: Callable[[bytes], bytes] | None = None) -> Answer:
        """Have the call done, with its body changed; the answer to the client."""
        self.read_request()
        if change is not None:
            self.request.raw, self.request.body = (
                change(self.request.raw),
                change(self.request.body),
            )
        answer = self.front.execute(self.request)
        self.request.status = answer.status
        return answer

    def send(self, answer: Answer) -> None:
        self.request.status = answer.status
        body = b"" if self.request.method == "HEAD" else answer.body
        self._client.socket.sendall(answer.head.encoded() + body)

    def send_bytes(self, data: bytes) -> None:
        self._client.socket.sendall(data)

    def reset(self) -> None:
        """End the connection with a reset."""
        self._client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        raise Gone

    def close(self) -> None:
        """End it in good order, but for TLS: that says nothing."""
        raise Gone

    def say_goodbye(self) -> None:
        """End it in good order, also for TLS."""
        if isinstance(self._client.socket, ssl.SSLSocket):
            with contextlib.suppress(OSError):
                self._client.socket.unwrap()
        raise Gone

    def wait_for_client(self) -> None:
        """Until the client, or the server as a whole, ends the connection."""
        with contextlib.suppress(OSError):
            self._client.until_closed()
        raise Gone


Fault = Callable[[Exchange], None]


# --- faults


def reset_before(exchange: Exchange) -> None:
    """A reset as soon as the head is there."""
    exchange.reset()


def reset_after(exchange: Exchange) -> None:
    """A reset when the whole request is there; it is not carried out."""
    exchange.read_request()
    exchange.reset()


def close_before(exchange: Exchange) -> None:
    """The end of the stream in the place of an answer."""
    exchange.read_request()
    exchange.close()


def reset_in_body(after: int) -> Fault:
    """A reset after so many bytes of the body; the store gets them and no more."""

    def fault(exchange: Exchange) -> None:
        exchange.front.begin(exchange.request, exchange.take(after))
        exchange.reset()

    return named(fault, f"reset after {after} B")


def lose_answer(exchange: Exchange) -> None:
    """Carried out, then a reset in the place of the answer."""
    exchange.execute()
    exchange.request.status = 0
    exchange.reset()


def answer(status: int, code: str = "", *, body: str | None = None, **headers: str) -> Fault:
    """Not carried out, but answered so."""

    def fault(exchange: Exchange) -> None:
        exchange.read_request()
        exchange.send(_as_told(status, code, body, headers))

    return named(fault, f"{status} {code}")


def answer_at_once(status: int, code: str, **headers: str) -> Fault:
    """Answered so without taking the body, and the connection closed."""

    def fault(exchange: Exchange) -> None:
        exchange.send(_as_told(status, code, None, {**headers, "connection": "close"}))
        exchange.wait_for_client()

    return named(fault, f"{status} {code} at once")


def execute_and_answer(
    status: int, code: str = "", *, body: str | None = None, **headers: str
) -> Fault:
    """Carried out, but answered so."""

    def fault(exchange: Exchange) -> None:
        exchange.execute()
        exchange.send(_as_told(status, code, body, headers))

    return named(fault, f"executed, {status} {code}")


def _as_told(status: int, code: str, body: str | None, headers: dict[str, str]) -> Answer:
    text = body if body is not None else error_document(code) if code else ""
    return make_answer(status, text, **{"content_type": "application/xml", **headers})


def cut_answer(after: int) -> Fault:
    """Carried out, answered, and closed after so many bytes of the answer's body."""

    def fault(exchange: Exchange) -> None:
        full = exchange.execute()
        exchange.send(dataclasses.replace(full, body=full.body[:after]))
        exchange.close()

    return named(fault, f"answer cut after {after} B")


def cut_unmeasured_answer(after: int) -> Fault:
    """The same, but no length was told, and the connection ends as if that were all."""

    def fault(exchange: Exchange) -> None:
        full = exchange.execute()
        headers = [pair for pair in full.head.headers if pair[0].lower() != "content-length"]
        head = Head(full.head.first, [*headers, ("connection", "close")])
        exchange.send(Answer(head, full.body[:after]))
        exchange.say_goodbye()

    return named(fault, f"answer without a length, cut after {after} B")


def stall_answer(after: int) -> Fault:
    """The same, but the connection stays, and nothing more comes."""

    def fault(exchange: Exchange) -> None:
        full = exchange.execute()
        exchange.send(dataclasses.replace(full, body=full.body[:after]))
        exchange.wait_for_client()

    return named(fault, f"answer stalls after {after} B")


def corrupt_request(at: int) -> Fault:
    """One bit of the body is another when it arrives."""

    def fault(exchange: Exchange) -> None:
        exchange.send(exchange.execute(change=lambda data: flip(data, at)))

    return named(fault, f"bit flipped at {at}")


def corrupt_answer(at: int) -> Fault:
    """One bit of the answer's body is another when it arrives."""

    def fault(exchange: Exchange) -> None:
        full = exchange.execute()
        exchange.send(dataclasses.replace(full, body=flip(full.body, at)))

    return named(fault, f"answer's bit flipped at {at}")


def flip(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


def never_answer(exchange: Exchange) -> None:
    """Takes the request and says nothing."""
    exchange.read_request()
    exchange.wait_for_client()


def never_read(exchange: Exchange) -> None:
    """Takes the head only, and says nothing."""
    exchange.front.ended.wait()


def slow_answer(piece: int, pause_s: float) -> Fault:
    """The answer's body comes in pieces."""

    def fault(exchange: Exchange) -> None:
        full = exchange.execute()
        exchange.send(dataclasses.replace(full, body=b""))
        for start in range(0, len(full.body), piece):
            time.sleep(pause_s)
            exchange.send_bytes(full.body[start : start + piece])

    return named(fault, f"answer in pieces of {piece} B")


def close_after(exchange: Exchange) -> None:
    """Answered as it should be, then the connection ends though nothing announced it."""
    exchange.send(exchange.execute())
    exchange.close()


def hold(until: threading.Event) -> Fault:
    """Carried out and answered when the event is set."""

    def fault(exchange: Exchange) -> None:
        exchange.read_request()
        while not until.wait(0.01):
            if exchange.front.ended.is_set():
                raise Gone
        exchange.send(exchange.execute())

    return named(fault, "held")


def named(fault: Fault, name: str) -> Fault:
    fault.__name__ = name
    return fault


# --- the server


@dataclasses.dataclass
class _Rule:
    operation: str
    fault: Fault
    part: int | None
    skip: int
    left: int | None

    def applies(self, request: Request) -> bool:
        return request.operation == self.operation and self.part in {None, request.part}


class S3Front(ABC):
    """A listening port; a thread per connection; ended by `close` or a `with` block."""

    base_path = ""  # before every bucket, as it is sent

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.ended = threading.Event()
        self.continues = True  # answers Expect: 100-continue
        self.log: list[Request] = []
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self.connections = 0
        self._acceptor = threading.Thread(target=self._accept_all, daemon=True)
        self._acceptor.start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def endpoint(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}{self.base_path}"

    # What is done.

    @abstractmethod
    def execute(self, request: Request) -> Answer:
        """Carry out a call."""

    def begin(self, request: Request, data: bytes) -> None:  # noqa: B027 - may do nothing
        """Take note of a call whose body ends after `data`."""

    def fail(
        self,
        operation: str,
        fault: Fault,
        *,
        part: int | None = None,
        skip: int = 0,
        times: int | None = 1,
    ) -> None:
        """Do this with calls of that name; without `times` with every one after `skip`.

        Of several that apply, the one that was asked for first.
        """
        with self._lock:
            self._rules.append(_Rule(operation, fault, part, skip, times))

    def heal(self) -> None:
        """No more faults."""
        with self._lock:
            self._rules.clear()

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Refuse connections within the block, and end those there are; the port stays ours."""
        address = self._listener.getsockname()
        self._stop_listening()
        try:
            yield
        finally:
            self._listener = socket.create_server(address, backlog=128)
            self._acceptor = threading.Thread(target=self._accept_all, daemon=True)
            self._acceptor.start()

    # What was seen.

    def calls(self, operation: str, part: int | None = None) -> list[Request]:
        with self._lock:
            return [
                request
                for request in self.log
                if request.operation == operation and part in {None, request.part}
            ]

    def count(self, operation: str, part: int | None = None) -> int:
        return len(self.calls(operation, part))

    def wait_for(self, operation: str, count: int = 1, part: int | None = None) -> None:
        """Until there have been so many calls of that name."""
        wait_until(
            lambda: self.count(operation, part) >= count, f"{count} × {operation} (part {part})"
        )

    # How.

    def _fault_of(self, request: Request) -> Fault | None:
        with self._lock:
            self.log.append(request)
            for rule in self._rules:
                if not rule.applies(request) or rule.left == 0:
                    continue
                if rule.skip:
                    rule.skip -= 1
                    continue
                if rule.left is not None:
                    rule.left -= 1
                request.fault = rule.fault.__name__
                return rule.fault
        return None

    def _accept_all(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self.ended.is_set():
                    connection.close()
                    return
                self._open.add(connection)
                self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError, Gone):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._tls is not None:
                    connection = self._secured(connection)
                self._serve_calls(Wire(connection))
        finally:
            with self._lock:
                self._open.discard(connection)
                connection.close()

    def _secured(self, connection: socket.socket) -> socket.socket:
        assert self._tls is not None
        with self._lock:
            self._open.discard(connection)
        secured = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._open.add(secured)
        try:
            secured.do_handshake()
        except OSError:
            with self._lock:
                self._open.discard(secured)
                secured.close()
            raise
        return secured

    def _serve_calls(self, client: Wire) -> None:
        while (head := client.head()) is not None:
            request = parse(head, self.base_path)
            exchange = Exchange(self, client, request)
            fault = self._fault_of(request)
            if fault is not None:
                fault(exchange)
            else:
                exchange.send(exchange.execute())

    def close(self) -> None:
        """Refuse new connections, end those there are, join every thread."""
        self.ended.set()
        self._stop_listening()
        for thread in self._threads:
            thread.join()

    def _stop_listening(self) -> None:
        _shut_down(self._listener)
        self._acceptor.join()
        self._listener.close()
        with self._lock:  # no more of them come
            for connection in self._open:
                _shut_down(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _shut_down(endpoint: socket.socket) -> None:
    with contextlib.suppress(OSError):
        socket.socket.shutdown(endpoint, socket.SHUT_RDWR)
