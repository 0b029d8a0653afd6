"""The servers of support/rude_servers.py do what tests of bad input rely on."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from support import rude_servers
from support.rude_servers import RudeServer
from support.waiting import DEADLINE_S, wait_until


def client(port: int) -> socket.socket:
    """Return a connection that has sent what every RPC client sends first."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
    connection.sendall(b"hrpc\x09\x00\x00" + rude_servers.call_frame(-3))
    return connection


@contextlib.contextmanager
def closed_by_peer() -> Iterator[None]:
    """What a socket raises when the other side has closed it is no failure."""
    try:
        yield
    except OSError as failure:
        if failure.errno not in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN):
            raise


def until_end(connection: socket.socket) -> bytes:
    data = b""
    while piece := connection.recv(65536):
        data += piece
    return data


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (rude_servers.http_answer, b"HTTP/1.1 400 Bad Request\r\n"),
        (rude_servers.tls_alert, b"\x15\x03\x03\x00\x02\x02\x46"),
        (rude_servers.close_at_once, b""),
        (rude_servers.truncated_frame, b"\x00\x00\x00\x40\x20"),
        (rude_servers.version_mismatch, b"\x00\x00\x00\x7c\x7b\x08\xff\xff\xff\xff\x0f\x10\x02"),
        (rude_servers.legacy_version_mismatch, b"\xff" * 8 + struct.pack(">I", 41) + b"org."),
        (rude_servers.close_after_call, b""),
    ],
)
def test_answers_and_ends(
    make: Callable[[], AbstractContextManager[RudeServer]], answer: bytes
) -> None:
    with make() as server:
        for connections in (1, 2):
            # It may be the first to close, before any of these three.
            closing = closed_by_peer() if answer == b"" else contextlib.nullcontext()
            with client(server.port) as connection, closing:
                connection.sendall(rude_servers.call_frame(0, "getFileInfo"))
                connection.shutdown(socket.SHUT_WR)
                assert until_end(connection).startswith(answer)
            assert server.connections == connections


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (rude_servers.silence, b""),
        (rude_servers.oversized_frame, b"\x7f\xff\xff\xff\x00"),
        (rude_servers.garbage_frame, b"\x00\x00\x00\x40\xff"),
    ],
)
def test_answers_and_stays(
    make: Callable[[], AbstractContextManager[RudeServer]], answer: bytes
) -> None:
    with make() as server:
        connection = client(server.port)
        connection.sendall(rude_servers.call_frame(0, "getFileInfo"))
        received = b"".join(connection.recv(1) for _ in answer)
        assert received == answer
        connection.settimeout(0.05)
        with pytest.raises(TimeoutError):
            until_end(connection)
        connection.settimeout(DEADLINE_S)
    assert until_end(connection) == b""  # leaving the block ends it
    connection.close()


def test_nobody_listens() -> None:
    with rude_servers.refusing() as address, pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


@pytest.mark.parametrize("answer_lost", [False, True])
def test_proxy_loses_calls_of_one_method(answer_lost: bool) -> None:
    taken: list[str] = []

    def name_node(connection: socket.socket) -> None:
        rude_servers.read_preamble(connection)
        while True:
            frame = rude_servers.read_frame(connection)
            call = rude_servers.call_id(frame)
            if call >= 0:
                taken.append(rude_servers.method(frame))
                connection.sendall(rude_servers.success_frame(call))

    with (
        rude_servers.serving(name_node) as target,
        rude_servers.name_node_proxy(
            ("127.0.0.1", target.port), "create", answer_lost=answer_lost
        ) as proxy,
    ):
        with client(proxy.server.port) as connection:
            connection.sendall(rude_servers.call_frame(0, "mkdirs"))
            answer = rude_servers.read_frame(connection)
            assert answer == rude_servers.success_frame(0)[4:]
            connection.sendall(rude_servers.call_frame(1, "create"))
            assert until_end(connection) == b""
        wait_until(lambda: proxy.losses_left == 0, "the loss")
        assert taken == (["mkdirs", "create"] if answer_lost else ["mkdirs"])
        with client(proxy.server.port) as connection:
            connection.sendall(rude_servers.call_frame(1, "create"))
            assert rude_servers.read_frame(connection) == rude_servers.success_frame(1)[4:]
