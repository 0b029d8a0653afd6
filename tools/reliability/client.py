"""One client doing one thing, in a process that may hang or be killed.

    client.py CLIENT SCRIPT KEY MEBIBYTES < endpoint.json

Reports events at once, a JSON object a line: {"what": "write", "error": …}. Data are those of
`content`; a script writes MEBIBYTES pieces of 1 MiB, or 1 KiB for 0.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from s3_clients import CLIENTS, MIB, Endpoint, S3Client

# After that much, writers go slowly: time for a failure to be known.
FAST_MIB = 12
PAUSE_S = 0.1


def content(mebibytes: int, generation: int = 0) -> bytes:
    """What objects are made of; different in each generation."""
    if mebibytes == 0:
        return bytes([generation + 1]) * 1024
    return b"".join(bytes([generation, number + 1]) * (MIB // 2) for number in range(mebibytes))


def tell(what: str, **more: object) -> None:
    print(json.dumps({"what": what, **more}), flush=True)


def attempt(what: str, work: Callable[[], object]) -> bool:
    """Do it and report the result; return whether it raised nothing."""
    started = time.monotonic()
    try:
        work()
    except BaseException as error:
        text = f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
        tell(what, error=text, seconds=time.monotonic() - started)
        return False
    tell(what, error=None, seconds=time.monotonic() - started)
    return True


class Scripts:
    """What a client may be asked to do."""

    def __init__(self, client: S3Client, key: str, mebibytes: int) -> None:
        self._client, self._key, self._mebibytes = client, key, mebibytes

    def write(self) -> None:
        """Write, close, close again."""
        self._write_with(self._client.create)

    def write_new(self) -> None:
        """The same, if there is no object."""
        self._write_with(self._client.create_new)

    def _write_with(self, create: Callable[[str], Any]) -> None:
        streams: list[Any] = []
        if not attempt("create", lambda: streams.append(create(self._key))):
            return
        if streams[0] is None:
            tell("impossible")
            return
        attempt("write", lambda: self._write_pieces(streams[0]))
        attempt("close", streams[0].close)
        tell("closed")
        attempt("close again", streams[0].close)

    def _write_pieces(self, stream: Any) -> None:
        data = content(self._mebibytes)
        for number, start in enumerate(range(0, len(data), MIB)):
            stream.write(data[start : start + MIB])
            if number >= FAST_MIB:
                time.sleep(PAUSE_S)

    def raise_inside(self) -> None:
        """An exception within `with`, after some writing."""

        def work() -> None:
            with self._client.create(self._key) as stream:
                self._write_pieces(stream)
                raise KeyError("of the writer")

        attempt("with", work)

    def drop(self) -> None:
        """The stream is forgotten, not closed."""
        stream: Any = self._client.create(self._key)
        self._write_pieces(stream)
        del stream
        gc.collect()
        tell("dropped")

    def leave_open(self) -> None:
        """The interpreter ends with the stream open."""
        global _left_open  # noqa: PLW0603 - that is the point
        _left_open = self._client.create(self._key)
        self._write_pieces(_left_open)
        tell("leaving")

    def be_killed(self) -> None:
        """The process ends from outside, in the middle."""
        self.leave_open()
        time.sleep(3600)

    def change_buffer(self) -> None:
        """The caller uses the memory again that it gave to write."""
        stream = self._client.create(self._key)
        data = content(self._mebibytes)
        buffer = bytearray(MIB)
        for start in range(0, len(data), MIB):
            buffer[:] = data[start : start + MIB]
            stream.write(buffer)
        buffer[:] = b"?" * MIB
        attempt("close", stream.close)

    def read(self) -> None:
        """Read everything, in order."""
        got: list[bytes] = []

        def work() -> None:
            stream = self._client.open(self._key)
            while piece := stream.read(MIB):
                got.append(bytes(piece))

        if attempt("read", work):
            data = b"".join(got)
            tell("data", right=data == content(self._mebibytes), size=len(data))

    def read_replaced(self) -> None:
        """Read while the object becomes another of the same size."""
        got: list[bytes] = []

        def work() -> None:
            stream = self._client.open(self._key)
            got.append(bytes(stream.read(MIB)))
            self._client.write(self._key, [content(self._mebibytes, 1)])
            tell("replaced")
            while piece := stream.read(MIB):
                got.append(bytes(piece))

        if attempt("read", work):
            whole = [content(self._mebibytes, generation) for generation in (0, 1)]
            tell("data", right=b"".join(got) in whole, size=sum(map(len, got)))


_left_open: Any = None


def main() -> None:
    name, script, key, mebibytes = sys.argv[1:]
    endpoint = Endpoint(**json.loads(sys.stdin.readline()))
    clients: list[S3Client] = []
    if not attempt("client", lambda: clients.append(CLIENTS[name](endpoint))):
        return
    tell("ready")
    getattr(Scripts(clients[0], key, int(mebibytes)), script)()
    tell("done")


if __name__ == "__main__":
    main()
