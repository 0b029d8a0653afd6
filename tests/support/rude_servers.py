"""Servers that are not what a client of HDFS hopes for: small, threaded, on the loopback interface.

    with rude_servers.http_answer() as server:
        with pytest.raises(OSError, match=server.authority): …open(server.url)…
        assert server.connections == 1

Each is a context manager that yields a `RudeServer` and ends all of its connections and threads on
the way out. A handler gets one connection and is done with it when it returns or raises OSError.
`name_node_proxy` stands before a real NameNode and loses calls, or answers, of one method.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from support.waiting import wait_until

Handler = Callable[[socket.socket], None]

BACKLOG = 64
PREAMBLE_SIZE = 7  # "hrpc", version, service class, authentication


class RudeServer:
    """A listening port whose connections all go to one handler."""

    def __init__(self, handler: Handler, address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self._handler = handler
        self._listener = socket.create_server(address, backlog=BACKLOG)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._accepted = 0
        self._closing = False
        self._accepts = threading.Event()
        self._accepts.set()
        self._fillers: set[object] = set()  # addresses of connections that only take room
        self._acceptor = threading.Thread(target=self._accept_all, daemon=True)
        self._acceptor.start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def authority(self) -> str:
        """`host:port`, as it stands in a URL and in messages."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"hdfs://{self.authority}"

    @property
    def connections(self) -> int:
        """How many were accepted so far."""
        with self._lock:
            return self._accepted

    def adopt(self, connection: socket.socket) -> None:
        """Let close() end this connection, too, for as long as a handler uses it."""
        with self._lock:
            if self._closing:
                shut_down(connection)
            self._open.add(connection)

    def disown(self, connection: socket.socket) -> None:
        """Undo `adopt`, before the connection is closed."""
        with self._lock:
            self._open.discard(connection)

    @contextmanager
    def deaf(self) -> Iterator[None]:
        """Let new connections wait, unmade: the kernel has no room for them."""
        self._accepts.clear()
        with contextlib.ExitStack() as stack:
            stack.callback(self._accepts.set)
            self._fill(stack)
            wait_until(lambda: not self._fillers, "one more is accepted")
            for _ in range(BACKLOG + 1):
                self._fill(stack)
            yield

    def _fill(self, stack: contextlib.ExitStack) -> None:
        filler = stack.enter_context(socket.socket())
        filler.bind(("127.0.0.1", 0))
        self._fillers.add(filler.getsockname())
        filler.connect(self._listener.getsockname())

    def close(self) -> None:
        """Refuse new connections, end those there are, join every thread."""
        self._accepts.set()
        with self._lock:
            self._closing = True
            for connection in self._open:
                shut_down(connection)
        shut_down(self._listener)  # wakes accept()
        self._acceptor.join()
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept_all(self) -> None:
        while True:
            try:
                connection, peer = self._listener.accept()
            except OSError:
                return
            if peer in self._fillers:
                self._fillers.discard(peer)
                self._accepts.wait()
                connection.close()
                continue
            with self._lock:
                if self._closing:
                    connection.close()
                    return
                self._accepted += 1
                self._open.add(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            self._handler(connection)
        with self._lock:
            self._open.discard(connection)
            connection.close()


def shut_down(endpoint: socket.socket) -> None:
    with contextlib.suppress(OSError):
        endpoint.shutdown(socket.SHUT_RDWR)


@contextmanager
def serving(handler: Handler) -> Iterator[RudeServer]:
    """A server of one's own; the handler ends when its socket is shut down."""
    server = RudeServer(handler)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def refusing() -> Iterator[tuple[str, int]]:
    """A host and port without a listener, which no other program gets meanwhile."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        yield "127.0.0.1", int(deaf.getsockname()[1])


# Whatever is asked.


def answering(data: bytes, *, after: int = 1) -> AbstractContextManager[RudeServer]:
    """Answers with `data` as soon as `after` bytes have come, then reads on until the end."""

    def handle(connection: socket.socket) -> None:
        read_exactly(connection, after)
        connection.sendall(data)
        _read_all(connection)

    return serving(handle)


def http_answer() -> AbstractContextManager[RudeServer]:
    """A web server, for which this is not a request."""
    body = b"<html><body>Bad Request</body></html>"
    head = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\nConnection: close\r\n"
    return _answer_and_close(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def tls_alert() -> AbstractContextManager[RudeServer]:
    """A TLS server, for which this is not a handshake: a fatal alert, protocol_version."""
    return _answer_and_close(bytes.fromhex("15 03 03 00 02 02 46"))


def silence() -> AbstractContextManager[RudeServer]:
    """Accepts, reads everything, never answers."""
    return serving(_read_all)


def close_at_once() -> AbstractContextManager[RudeServer]:
    """Accepts and closes."""
    return serving(lambda connection: None)


def oversized_frame() -> AbstractContextManager[RudeServer]:
    """A response frame that claims 2 GiB, and a little of it."""
    return answering(struct.pack(">I", 0x7FFFFFFF) + bytes(100), after=PREAMBLE_SIZE)


def garbage_frame() -> AbstractContextManager[RudeServer]:
    """A response frame of the right length that is not a protobuf."""
    return answering(struct.pack(">I", 64) + b"\xff" * 64, after=PREAMBLE_SIZE)


def truncated_frame() -> AbstractContextManager[RudeServer]:
    """The first half of a response frame, then the end of the stream."""
    return _answer_and_close(struct.pack(">I", 64) + b"\x20\x08\x00")


def version_mismatch() -> AbstractContextManager[RudeServer]:
    """What a NameNode says to a client of a later version: a fatal RPC$VersionMismatch."""
    message = "Server IPC version 9 cannot communicate with client version 10"
    header = (
        _field(1, 0xFFFFFFFF)  # call id: -1
        + _field(2, 2)  # FATAL
        + _field(3, 9)
        + _field(4, b"org.apache.hadoop.ipc.RPC$VersionMismatch")
        + _field(5, message.encode())
        + _field(6, 14)  # FATAL_VERSION_MISMATCH
        + _field(7, b"")
        + _field(8, 1)  # retry count: -1
    )
    return _answer_and_close(framed(_delimited(header)))


def legacy_version_mismatch() -> AbstractContextManager[RudeServer]:
    """The same as servers before protobuf said it: no length, but -1 and two strings."""
    name = b"org.apache.hadoop.ipc.RPC$VersionMismatch"
    message = b"Server IPC version 5 cannot communicate with client version 9"
    strings = b"".join(struct.pack(">I", len(text)) + text for text in (name, message))
    return _answer_and_close(b"\xff\xff\xff\xff" + b"\xff\xff\xff\xff" + strings)


def close_after_call() -> AbstractContextManager[RudeServer]:
    """A NameNode that takes one call and closes without an answer."""

    def handle(connection: socket.socket) -> None:
        read_preamble(connection)
        while call_id(read_frame(connection)) < 0:
            pass

    return serving(handle)


def _answer_and_close(data: bytes) -> AbstractContextManager[RudeServer]:
    """Answers the first bytes, and ends the stream in a way that lets the answer arrive."""

    def handle(connection: socket.socket) -> None:
        read_exactly(connection, 1)
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        _read_all(connection)  # closing with bytes unread would send a reset instead

    return serving(handle)


# Before a real NameNode.


@contextmanager
def name_node_proxy(
    target: tuple[str, int], method: str, *, answer_lost: bool = False, times: int = 1
) -> Iterator[NameNodeProxy]:
    """Pass calls on to a NameNode, but lose calls of one method and close their connections.

    Parameters
    ----------
    target
        Host and port of the NameNode.
    method
        As in RequestHeaderProto: "create", "addBlock".
    answer_lost
        The call is carried out, and only its answer is lost. Otherwise it never arrives.
    times
        After so many losses calls of the method pass, too.
    """
    proxy = NameNodeProxy(target, method, answer_lost, times)
    try:
        yield proxy
    finally:
        proxy.server.close()


class NameNodeProxy:
    """What `name_node_proxy` yields."""

    def __init__(self, target: tuple[str, int], method: str, answer_lost: bool, times: int) -> None:
        self._target = target
        self._method = method
        self._answer_lost = answer_lost
        self._left = times
        self._lock = threading.Lock()
        self.when_lost: Callable[[], None] = lambda: None  # before the client hears of it
        self.server = RudeServer(self._handle)

    @property
    def losses_left(self) -> int:
        with self._lock:
            return self._left

    def lose_no_more(self) -> None:
        with self._lock:
            self._left = 0

    def _handle(self, client: socket.socket) -> None:
        with socket.create_connection(self._target) as name_node:
            self.server.adopt(name_node)
            lost: list[int] = []  # the id of the call whose answer is lost
            answers = threading.Thread(target=pass_answers, args=(name_node, client, lost))
            answers.start()
            try:
                name_node.sendall(read_preamble(client))
                while not lost:
                    frame = read_frame(client)
                    if self._loses(frame):
                        if not self._answer_lost:
                            return
                        lost.append(call_id(frame))
                    name_node.sendall(framed(frame))
                answers.join()
                self.when_lost()
            finally:
                shut_down(client)
                shut_down(name_node)
                answers.join()
                self.server.disown(name_node)

    def _loses(self, frame: bytes) -> bool:
        if call_id(frame) < 0 or method(frame) != self._method:
            return False
        with self._lock:
            if self._left == 0:
                return False
            self._left -= 1
            return True


def pass_answers(name_node: socket.socket, client: socket.socket, lost: list[int]) -> None:
    """Until the end of the stream, or the answer to a call that is lost."""
    with contextlib.suppress(OSError):
        while True:
            frame = read_frame(name_node)
            if fields(_messages(frame)[0])[1] in lost:
                return
            client.sendall(framed(frame))


# As much of Hadoop RPC as the above and their tests need.


def call_frame(call: int, method: str = "") -> bytes:
    """A call without arguments; the connection context if `call` is -3."""
    zigzag = call << 1 if call >= 0 else (-call << 1) - 1
    header = _field(1, 2) + _field(2, 0) + _field(3, zigzag) + _field(4, bytes(16)) + _field(5, 0)
    request = _field(1, method.encode()) + _field(2, b"ClientProtocol") + _field(3, 1)
    return framed(b"".join(_delimited(message) for message in (header, request, b"")))


def success_frame(call: int) -> bytes:
    """The answer to a call, a message without fields."""
    return framed(_delimited(_field(1, call) + _field(2, 0)) + _delimited(b""))


def read_preamble(connection: socket.socket) -> bytes:
    return read_exactly(connection, PREAMBLE_SIZE)


def read_exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("the client has gone")
        data += piece
    return data


def _read_all(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


def read_frame(connection: socket.socket) -> bytes:
    """The next frame, without its length; ConnectionResetError at the end of the stream."""
    (size,) = struct.unpack(">I", read_exactly(connection, 4))
    return read_exactly(connection, size)


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _delimited(message: bytes) -> bytes:
    return _varint(len(message)) + message


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return _varint(number << 3 | 2) + _delimited(value)
    return _varint(number << 3) + _varint(value)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(message: bytes) -> dict[int, int | bytes]:
    """Fields of a message that has numbers and byte strings only; the last of each number."""
    found: dict[int, int | bytes] = {}
    at = 0
    while at < len(message):
        key, at = read_varint(message, at)
        value, at = read_varint(message, at)
        if key & 7 == 2:
            found[key >> 3] = message[at : at + value]
            at += value
        else:
            found[key >> 3] = value
    return found


def _messages(frame: bytes) -> list[bytes]:
    """The delimited messages of a frame."""
    messages = []
    at = 0
    while at < len(frame):
        size, at = read_varint(frame, at)
        messages.append(frame[at : at + size])
        at += size
    return messages


def call_id(frame: bytes) -> int:
    """The call id of a request frame: negative for context and ping."""
    zigzag = fields(_messages(frame)[0])[3]
    assert isinstance(zigzag, int)
    return zigzag >> 1 ^ -(zigzag & 1)


def method(frame: bytes) -> str:
    """The method that a call's frame names."""
    name = fields(_messages(frame)[1])[1]
    assert isinstance(name, bytes)
    return name.decode()
