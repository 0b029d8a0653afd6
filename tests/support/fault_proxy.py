"""A proxy between a client of S3 and a real server, which does to calls what s3_front.py knows.

    with FaultProxy(("127.0.0.1", 9000)) as proxy:
        proxy.fail("UploadPart", reset_in_body(1 << 20), part=2)
        …  # a client of proxy.endpoint

What passes is passed byte by byte, Host included, so that signatures stay right. Only
`Expect: 100-continue` ends here: the proxy takes the body before it asks the server.
"""

from __future__ import annotations

import contextlib
import socket
import ssl

from support.s3_front import Answer, Head, Request, S3Front, Wire
from support.waiting import DEADLINE_S


class FaultProxy(S3Front):
    """See the module. Every call goes to the server on a connection of its own."""

    def __init__(self, server: tuple[str, int], *, tls: ssl.SSLContext | None = None) -> None:
        self._server = server
        super().__init__(tls=tls)

    def execute(self, request: Request) -> Answer:
        with contextlib.closing(self._send(request.head, request.raw)) as connection:
            server = Wire(connection)
            head = server.head()
            while head is not None and head.status < 200:
                head = server.head()
            if head is None:
                raise ConnectionResetError("the server has closed")
            bodiless = request.method == "HEAD" or head.status in {204, 304}
            return Answer(head, b"" if bodiless else server.body(head)[0])

    def begin(self, request: Request, data: bytes) -> None:
        """Pass on the beginning of a request, whose connection then breaks."""
        self._send(request.head, data).close()

    def _send(self, head: Head, data: bytes) -> socket.socket:
        connection = socket.create_connection(self._server, DEADLINE_S)
        try:
            connection.settimeout(None)  # answers may take as long as they like
            connection.sendall(_without_expect(head).encoded() + data)
        except OSError:  # the server has not taken the whole body
            connection.close()
            raise
        return connection


def _without_expect(head: Head) -> Head:
    return Head(head.first, [pair for pair in head.headers if pair[0].lower() != "expect"])
