"""A relay between a client and a server that is another process: it keeps, or changes, what passes.

with Relay(("127.0.0.1", 9866), host="127.0.0.2", port=9866) as relay:
    relay.change = lambda data: data.replace(b"good", b"evil")
    …
    assert b"addBlock" in relay.sent
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from support.rude_servers import shut_down

if TYPE_CHECKING:
    from typing_extensions import Self

PIECE = 64 << 10


class Relay:
    """Accepts connections, each of which goes on to the server, until the block ends."""

    def __init__(self, server: tuple[str, int], host: str = "127.0.0.1", port: int = 0) -> None:
        self.change: Callable[[bytes], bytes] = bytes  # of what clients send
        self.change_answers: Callable[[bytes], bytes] = bytes
        self._server = server
        self._lock = threading.Lock()
        self._sent = bytearray()
        self._listener = socket.create_server((host, port))
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def sent(self) -> bytes:
        """What clients have sent so far, as the server got it."""
        with self._lock:
            return bytes(self._sent)

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._ends += [client, server]
                self._begin(self._pass_on, client, server, self._sending)
                self._begin(self._pass_on, server, client, lambda data: self.change_answers(data))

    def _sending(self, data: bytes) -> bytes:
        changed = self.change(data)
        with self._lock:
            self._sent += changed
        return changed

    @staticmethod
    def _pass_on(
        source: socket.socket, target: socket.socket, change: Callable[[bytes], bytes]
    ) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(PIECE):
                target.sendall(change(piece))
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        shut_down(self._listener)
        self._acceptor.join()
        self._listener.close()
        for end in self._ends:  # no more of them come
            shut_down(end)
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
