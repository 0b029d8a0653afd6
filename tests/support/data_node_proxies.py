"""Before the DataNodes, and the NameNode, of a cluster: a test acts when a certain message passes.

    hdfs = hdfs_new(5, SETTINGS)
    with DataNodeProxies(hdfs) as proxies, proxies.client(conf) as client:
        out = client.create("/file")                    # client.fs is a file system of its own
        with client.gate.hold(lambda message: message.is_last) as hold:
            closing = Task(out.close)
            message = hold.wait()                       # it has arrived, and does not pass
            proxies.kill(message.port)
        closing.result()

The DataNodes say that their host is 127.0.0.2. There, on the port of each, is a proxy; clients and
DataNodes that go by host names (SETTINGS, CLIENT) reach them through it, and all others directly.
Of what passes, the operations, packets, replies and acks of known clients are seen; the rest goes
through as it is. A `Gate` belongs to one client: what is held or hung there disturbs no other one.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import hflush

from support.minidfs import Hdfs
from support.rude_servers import (
    RudeServer,
    call_id,
    fields,
    framed,
    method,
    pass_answers,
    read_exactly,
    read_frame,
    read_preamble,
    serving,
    shut_down,
)
from support.waiting import DEADLINE_S

if TYPE_CHECKING:
    from typing_extensions import Self

HOST = "127.0.0.2"
SETTINGS = {"dfs.datanode.hostname": HOST, "dfs.datanode.use.datanode.hostname": "true"}
CLIENT = {"dfs.client.use.datanode.hostname": "true"}

WRITE_BLOCK, TRANSFER_BLOCK = 80, 86
RECOVERY, COPY, CREATE = 3, 7, 6  # stages of WRITE_BLOCK: STREAMING_RECOVERY, TRANSFER_RBW, …
PACKET_HEADER = struct.Struct("<xqxqx?xi")  # offset, sequence number, last, length of its data
PIECE = 1 << 16

Kind = Literal["write", "transfer", "reply", "packet", "ack", "call"]


@dataclass(frozen=True)
class Message:
    """What passes: to a DataNode, from one, or to the NameNode."""

    kind: Kind
    port: int = 0  # of the DataNode
    stage: int = -1  # of "write"
    place: int = -1  # of "write": in its pipeline, from 0
    number: int = -1  # of "packet" and "ack"
    size: int = 0  # of a packet's data
    is_last: bool = False  # a packet: of its block
    method: str = ""  # of "call"


class Hold:
    """A message that does not pass before the hold is released."""

    def __init__(self, matches: Callable[[Message], bool], changed: threading.Condition) -> None:
        self.matches = matches
        self.message: Message | None = None
        self.released = False
        self._changed = changed

    def wait(self, deadline_s: float = DEADLINE_S) -> Message:
        """Return the message once it has arrived."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.message is not None, deadline_s), (
                f"the message has not come within {deadline_s} s"
            )
            assert self.message is not None
            return self.message

    def release(self) -> None:
        with self._changed:
            self.released = True
            self._changed.notify_all()


class Gate:
    """Where the messages of one client pass."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holds: list[Hold] = []
        self._hung: set[int] = set()
        self._links: set[Link] = set()
        self._pipeline: tuple[object, list[int]] = (None, [])
        self._is_open = False

    @property
    def pipeline(self) -> list[int]:
        """The ports of the DataNodes that were asked to write last, by place."""
        with self._changed:
            return list(self._pipeline[1])

    @contextmanager
    def hold(self, matches: Callable[[Message], bool]) -> Iterator[Hold]:
        """Hold the first message that matches, until the block ends at the latest."""
        hold = Hold(matches, self._changed)
        with self._changed:
            self._holds.append(hold)
        try:
            yield hold
        finally:
            hold.release()

    def hang(self, port: int) -> None:
        """Let nothing pass to this DataNode or from it, as if its process was stopped."""
        with self._changed:
            self._hung.add(port)

    def cut(self, port: int) -> None:
        """Reset the connections to this DataNode that there are."""
        with self._changed:
            cut = [link for link in self._links if link.port == port]
            for link in cut:
                link.is_cut = True
            self._changed.notify_all()
        for link in cut:
            link.shut_down()

    def open(self) -> None:
        """Let everything pass from now on."""
        with self._changed:
            self._is_open = True
            self._changed.notify_all()

    def enter(self, link: Link) -> None:
        with self._changed:
            self._links.add(link)

    def leave(self, link: Link) -> None:
        with self._changed:
            self._links.discard(link)

    def set_up(self, of: object, port: int) -> int:
        """A DataNode is asked to write; return its place in the pipeline."""
        with self._changed:
            if self._pipeline[0] != of:
                self._pipeline = (of, [])
            self._pipeline[1].append(port)
            return len(self._pipeline[1]) - 1

    def passes(self, message: Message | None, link: Link | None = None) -> bool:
        """Return when a message, or the end of a stream, may pass: false if its link is cut."""

        def is_cut() -> bool:
            return link is not None and link.is_cut

        with self._changed:
            if message is not None:
                self._hold(message, is_cut)
            while link is not None and link.port in self._hung and not (self._is_open or is_cut()):
                self._changed.wait()
            return not is_cut()

    def _hold(self, message: Message, is_cut: Callable[[], bool]) -> None:
        for hold in self._holds:
            if hold.message is None and not hold.released and hold.matches(message):
                hold.message = message
                self._changed.notify_all()
                self._changed.wait_for(lambda hold=hold: hold.released or self._is_open or is_cut())


class Link:
    """A connection to a DataNode, in two halves."""

    def __init__(self, port: int, near: socket.socket, far: socket.socket) -> None:
        self.port = port
        self.near = near
        self.far = far
        self.is_cut = False
        self.gate: Gate | None = None  # of a client that is known

    def shut_down(self) -> None:
        shut_down(self.near)
        shut_down(self.far)

    def forward(self, target: socket.socket, data: bytes, message: Message | None = None) -> None:
        if self.gate is not None and not self.gate.passes(message, self):
            raise ConnectionAbortedError("the connection is cut")
        target.sendall(data)

    def end(self, target: socket.socket) -> None:
        """Pass on that one side has ended."""
        if self.gate is None or self.gate.passes(None, self):
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_WR)


class Client:
    """A client whose calls and connections pass a gate."""

    def __init__(self, proxies: DataNodeProxies, fs: hflush.FileSystem, gate: Gate) -> None:
        self.fs = fs
        self.gate = gate
        self._proxies = proxies

    def create(self, path: str, **options: Any) -> hflush.FSDataOutputStream:
        """Create a file; what it has to say to DataNodes passes the gate."""
        out = self.fs.create(path, **options)
        self._proxies.join(path, self.gate)
        return out


class DataNodeProxies:
    """A proxy for each DataNode that runs now. `kill` and `restart` keep it and the node alike."""

    def __init__(self, hdfs: Hdfs) -> None:
        self._hdfs = hdfs
        self._lock = threading.Lock()
        self._gates: dict[str, Gate] = {}
        self._links: set[Link] = set()
        self._servers: dict[int, RudeServer] = {}
        for port in hdfs.ports:
            self._listen(port)

    # --- what happens to DataNodes

    def kill(self, port: int) -> Any:
        """End a DataNode at once, and what was on its way; return what `revive` needs."""
        self._leave(port)
        return self._hdfs.cluster.stop_data_node(port)

    def revive(self, port: int, stopped: Any) -> None:
        self._start(stopped)
        self._listen(port)

    def restart(self, port: int) -> None:
        """End a DataNode as `kill` does, and start it again."""
        self.revive(port, self.kill(port))

    def upgrade(self, port: int) -> None:
        """Restart a DataNode in the way that tells its clients (OOB_RESTART)."""
        with self.upgrading(port):
            pass

    @contextmanager
    def upgrading(self, port: int) -> Iterator[None]:
        """The same, with time between its end and its start."""
        java = self._hdfs.cluster.java
        stopped = java.stopDataNodeForUpgrade(self._hdfs.ports.index(port))
        try:
            yield
        finally:
            self._start(stopped)

    @contextmanager
    def deaf(self) -> Iterator[None]:
        """Let new connections to DataNodes wait, whichever client's."""
        with contextlib.ExitStack() as deaf:
            for server in self._servers.values():
                deaf.enter_context(server.deaf())
            yield

    def _start(self, stopped: Any) -> None:
        self._hdfs.restart(stopped)
        self._hdfs.cluster.java.triggerHeartbeats()  # before that it has no room for new blocks

    # --- clients

    @contextmanager
    def client(self, settings: dict[str, Any]) -> Iterator[Client]:
        """A client of its own, with a gate of its own."""
        gate = Gate()
        target = ("127.0.0.1", self._hdfs.cluster.name_node_port())

        def handle(near: socket.socket) -> None:
            _pass_calls(server, near, target, gate)

        with serving(handle) as server:
            fs = hflush.FileSystem.new_instance(server.url, {**CLIENT, **settings})
            try:
                yield Client(self, fs, gate)
            finally:
                gate.open()
                fs.close()

    def join(self, path: str, gate: Gate) -> None:
        """Let what the writer of a file has to say to DataNodes pass a gate."""
        name = self._hdfs.lease_holder(path)
        assert name is not None
        with self._lock:
            self._gates[name] = gate

    # --- connections

    def _listen(self, port: int) -> None:
        with self._lock:
            self._servers[port] = RudeServer(lambda near: self._handle(port, near), (HOST, port))

    def _leave(self, port: int) -> None:
        with self._lock:
            server = self._servers.pop(port)
            links = [link for link in self._links if link.port == port]
            gates = list(self._gates.values())
        for link in links:
            link.is_cut = True
        for gate in gates:
            gate.cut(port)
        for link in links:
            link.shut_down()
        server.close()

    def _handle(self, port: int, near: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", port)) as far:
            link = Link(port, near, far)
            with self._lock:
                server = self._servers.get(port)
                if server is None:  # the DataNode has just been killed
                    return
                self._links.add(link)
            server.adopt(far)
            try:
                self._pass(link)
            finally:
                link.shut_down()
                server.disown(far)
                with self._lock:
                    self._links.discard(link)

    def _pass(self, link: Link) -> None:
        operation, data = _read_operation(link.near)
        link.gate = self._gate_of(operation, data)
        if link.gate is not None:
            link.gate.enter(link)
        back = threading.Thread(target=_pass_answers, args=(link,), daemon=True)
        back.start()
        with contextlib.suppress(OSError):
            _pass_operation(link, operation, data)
        link.end(link.far)
        back.join()
        if link.gate is not None:
            link.gate.leave(link)

    def _gate_of(self, operation: int, data: bytes) -> Gate | None:
        if operation not in (WRITE_BLOCK, TRANSFER_BLOCK):
            return None
        name = _bytes(fields(_bytes(fields(_without_length(data[3:])), 1)), 2)
        with self._lock:
            return self._gates.get(name.decode())

    def close(self) -> None:
        for port in list(self._servers):
            self._leave(port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- what passes


def _pass_calls(
    server: RudeServer, near: socket.socket, target: tuple[str, int], gate: Gate
) -> None:
    with socket.create_connection(target) as far:
        server.adopt(far)
        answers = threading.Thread(target=pass_answers, args=(far, near, []), daemon=True)
        answers.start()
        try:
            far.sendall(read_preamble(near))
            while True:
                frame = read_frame(near)
                if call_id(frame) >= 0:
                    gate.passes(Message("call", method=method(frame)))
                far.sendall(framed(frame))
        finally:
            shut_down(near)
            shut_down(far)
            answers.join()
            server.disown(far)


def _read_operation(near: socket.socket) -> tuple[int, bytes]:
    """The code of an operation, and all of its bytes."""
    head = read_exactly(near, 3)
    return head[2], head + _read_delimited(near)


def _without_length(delimited: bytes) -> bytes:
    size = next(at for at, byte in enumerate(delimited) if byte < 0x80)
    return delimited[size + 1 :]


def _pass_operation(link: Link, operation: int, data: bytes) -> None:
    gate = link.gate
    if gate is None:
        link.forward(link.far, data)
        _pass_pieces(link, link.near, link.far)
        return
    if operation == TRANSFER_BLOCK:
        link.forward(link.far, data, Message("transfer", link.port))
        _pass_pieces(link, link.near, link.far)
        return
    message = fields(_without_length(data[3:]))
    stage = _number(message, 4)
    place = -1 if stage == COPY else gate.set_up(_pipeline_of(message), link.port)
    link.forward(link.far, data, Message("write", link.port, stage=stage, place=place))
    while True:
        _pass_packet(link)


def _pipeline_of(operation: dict[int, int | bytes]) -> object:
    """What all DataNodes of a pipeline are sent alike, and no two pipelines are."""
    block = fields(_bytes(fields(_bytes(fields(_bytes(operation, 1)), 1)), 1))
    return block[2], block[3], operation[8], operation[4]


def _pass_packet(link: Link) -> None:
    front = read_exactly(link.near, 6)
    body, header_size = struct.unpack(">IH", front)
    data = read_exactly(link.near, header_size + body - 4)
    _, number, is_last, size = PACKET_HEADER.unpack_from(data)
    message = Message("packet", link.port, number=number, is_last=is_last, size=size)
    link.forward(link.far, front + data, message)


def _pass_answers(link: Link) -> None:
    """The way back: the reply to the operation, then acks."""
    with contextlib.suppress(OSError):
        if link.gate is None:
            _pass_pieces(link, link.far, link.near)
        else:
            reply = _read_delimited(link.far)
            link.forward(link.near, reply, Message("reply", link.port))
            while True:
                _pass_ack(link)
    link.end(link.near)


def _pass_ack(link: Link) -> None:
    ack = _read_delimited(link.far)
    zigzag = _number(fields(_without_length(ack)), 1)
    number = zigzag >> 1 ^ -(zigzag & 1)
    link.forward(link.near, ack, Message("ack", link.port, number=number))


def _pass_pieces(link: Link, source: socket.socket, target: socket.socket) -> None:
    while piece := source.recv(PIECE):
        link.forward(target, piece)


def _read_delimited(source: socket.socket) -> bytes:
    """A message with its length in front."""
    front = b""
    while not front or front[-1] > 0x7F:
        front += read_exactly(source, 1)
    size = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(front))
    return front + read_exactly(source, size)


def _bytes(message: dict[int, int | bytes], field: int) -> bytes:
    value = message.get(field, b"")
    assert isinstance(value, bytes)
    return value


def _number(message: dict[int, int | bytes], field: int) -> int:
    value = message.get(field, 0)
    assert isinstance(value, int)
    return value
