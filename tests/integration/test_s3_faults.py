"""S3: a real server behind a proxy that breaks things, and what is in the store afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import hflush
import pytest
from support.fault_proxy import FaultProxy
from support.s3 import S3
from support.s3_front import (
    Fault,
    answer,
    close_after,
    close_before,
    corrupt_answer,
    corrupt_request,
    cut_answer,
    execute_and_answer,
    lose_answer,
    reset_after,
    reset_before,
    reset_in_body,
    stall_answer,
)
from support.s3_ways import Way
from support.s3_writers import (
    ABORT,
    COMPLETE,
    CREATE,
    DATA,
    GET,
    IMPATIENT,
    OLD,
    PUT,
    SMALL,
    UPLOAD,
    without_secrets,
    write,
    write_pieces,
)
from support.waiting import wait_until

pytestmark = pytest.mark.stores("s3")


class Place:
    """A file system behind the proxy, and a name in it."""

    def __init__(self, server: S3, proxy: FaultProxy, way: Way) -> None:
        self.server = server
        self.proxy = proxy
        self.path = f"{server.root()}/a key+é"
        self.conf = {
            **server.conf,
            **way.settings,
            **IMPATIENT,
            "fs.s3a.endpoint": proxy.endpoint,
        }
        self.fs = hflush.FileSystem.new_instance(server.url, self.conf)

    @property
    def key(self) -> str:
        return self.path[1:]

    def published(self, data: bytes = DATA) -> None:
        assert self.server.get(self.key) == data
        self.nothing_left()

    def unchanged(self, old: bytes | None = None) -> None:
        there = self.server.get(self.key) if self.server.exists(self.key) else None
        assert there == old
        self.nothing_left()

    def nothing_left(self, count: int = 0) -> None:
        wait_until(lambda: len(self.server.uploads(self.key)) == count, "every upload is ended")


@pytest.fixture
def place(s3_server: S3, s3_way: Way) -> Iterator[Place]:
    """One that is asked in each of our ways."""
    with FaultProxy(("127.0.0.1", s3_server.server.port), tls=s3_way.tls) as proxy:
        place = Place(s3_server, proxy, s3_way)
        with place.fs:
            yield place


def name_of(value: object) -> str | None:
    return getattr(value, "__name__", None)


EXECUTED: list[Fault] = [
    cut_answer(30),
    lose_answer,
    execute_and_answer(500, "InternalError"),
]
PASSING: list[Fault] = [
    answer(500, "InternalError"),
    answer(503, "SlowDown"),
    answer(400, "RequestTimeout"),
    reset_before,
    reset_after,
    close_before,
    answer(200),
    close_after,
    *EXECUTED,
]
OF_DATA: list[Fault] = [
    reset_in_body(0),
    reset_in_body(500),
    corrupt_request(500),
]


@pytest.mark.rule("FAIL-1", "FAIL-10", "OBJ-9", "OBJ-10", "OBJ-17", "CLOSE-1", "CLOSE-3")
@pytest.mark.parametrize(
    ("operation", "fault"),
    [
        *((operation, fault) for operation in (UPLOAD, PUT) for fault in PASSING + OF_DATA),
        *((operation, fault) for operation in (CREATE, COMPLETE) for fault in PASSING),
        (COMPLETE, reset_in_body(100)),
    ],
    ids=name_of,
)
def test_what_passes(place: Place, operation: str, fault: Fault) -> None:
    """The object is there exactly as written, and no upload is left that could be known."""
    place.proxy.fail(operation, fault, part=2 if operation == UPLOAD else None)
    data = SMALL if operation == PUT else DATA
    stream = write(place.fs, data, place.path)
    assert stream.outcome == "published"
    assert place.server.get(place.key) == data
    lost = operation == CREATE and fault in EXECUTED
    place.nothing_left(1 if lost else 0)


@pytest.mark.rule("FAIL-1", "CLOSE-6", "CLOSE-11", "FAIL-12", "CLOSE-17")
@pytest.mark.parametrize("old", [False, True], ids=["new", "over another"])
@pytest.mark.parametrize(
    ("operation", "fault"),
    [
        (UPLOAD, answer(403, "AccessDenied")),
        (UPLOAD, answer(404, "NoSuchUpload")),
        (UPLOAD, answer(500, "InternalError")),
        (COMPLETE, answer(403, "AccessDenied")),
        (COMPLETE, answer(200)),
        (COMPLETE, answer(500, "InternalError")),
        (COMPLETE, reset_before),
        (COMPLETE, corrupt_request(200)),
        (CREATE, answer(403, "AccessDenied")),
        (PUT, answer(403, "AccessDenied")),
        (PUT, answer(500, "InternalError")),
    ],
    ids=name_of,
)
def test_what_does_not(place: Place, operation: str, fault: Fault, old: bool) -> None:
    """An error, and what was there before; the upload is ended, a second close does nothing."""
    if old:
        place.server.put(place.key, OLD)
    place.proxy.fail(operation, fault, part=2 if operation == UPLOAD else None, times=None)
    stream = place.fs.create(place.path)
    with pytest.raises(OSError, match=r"\[Errno \d+\] ") as caught:
        write_and_close(stream, SMALL if operation == PUT else DATA)
    without_secrets(caught.value)
    assert stream.close() is None
    place.unchanged(OLD if old else None)
    # A PUT that may be under way still cannot be said to have failed.
    assert stream.outcome == "failed" or (operation, stream.outcome) == (PUT, "unknown")


def write_and_close(stream: Any, data: bytes) -> None:
    try:
        write_pieces(stream, data)
    finally:
        stream.close()


@pytest.mark.rule("ABORT-6", "ABORT-8", "FAIL-15")
@pytest.mark.parametrize("fault", [*PASSING[:6], lose_answer], ids=name_of)
def test_an_abort(place: Place, fault: Fault) -> None:
    """Ends the upload, also when its first attempt fails or its answer is lost."""
    place.proxy.fail(ABORT, fault)
    stream = place.fs.create(place.path)
    stream.write(DATA)
    place.proxy.wait_for(UPLOAD, 2)
    result = stream.abort()
    assert not result.already_closed
    assert result.cleanup_exception is None
    place.unchanged()


@pytest.mark.rule("FAIL-1", "FAIL-10")
@pytest.mark.parametrize(
    "fault",
    [answer(500, ""), answer(503, "SlowDown"), reset_after, cut_answer(0), cut_answer(500_000)],
    ids=name_of,
)
def test_a_read(place: Place, fault: Fault) -> None:
    place.server.put(place.key, DATA)
    for skip in (0, 1):
        place.proxy.fail(GET, fault, skip=skip)
    with place.fs.open(place.path) as reader:
        assert b"".join(iter(lambda: reader.read(300_007), b"")) == DATA


@pytest.mark.rule("FAIL-8", "FAIL-7")
def test_a_server_that_stands_still(s3_server: S3, place: Place) -> None:
    """Writes and reads that have a server again in time go on; meanwhile nothing is claimed."""
    place.proxy.fail(GET, stall_answer(100_000))
    conf = {
        **place.conf,
        "fs.s3a.connection.timeout": "500ms",
        "fs.s3a.retry.interval": "100ms",
    }
    with hflush.FileSystem.new_instance(s3_server.url, conf) as fs, fs.create(place.path) as stream:
        write_pieces(stream, DATA[: 6 << 20])
        s3_server.server.pause()
        try:
            write_pieces(stream, DATA[6 << 20 :])
            time.sleep(0.8)  # longer than the timeout of what is under way
        finally:
            s3_server.server.resume()
        stream.close()
        assert place.server.get(place.key) == DATA  # a part may land late, and nobody can know
        with fs.open(place.path) as reader:
            assert b"".join(iter(lambda: reader.read(300_007), b"")) == DATA


@pytest.mark.rule("READ-16")
@pytest.mark.parametrize(("data", "times"), [(SMALL, 2), (DATA, 1)], ids=["small", "large"])
def test_a_bit_of_a_read_flips_on_the_way(
    s3_server: S3, place: Place, data: bytes, times: int
) -> None:
    """What hflush wrote has a checksum that the store tells, in one part or many.

    What is read at once, as small objects are, is asked for once more. A store that tells none
    leaves it unnoticed.
    """
    write(place.fs, data, place.path)
    place.proxy.fail(GET, corrupt_answer(len(data) // 2), times=times)
    with place.fs.open(place.path) as reader:
        if not s3_server.keeps_checksums:
            assert read_in_pieces(reader) != data
            return
        with pytest.raises(hflush.ChecksumError):
            read_in_pieces(reader)
        reader.seek(0)
        assert read_in_pieces(reader) == data


def read_in_pieces(reader: hflush.FSDataInputStream) -> bytes:
    return b"".join(iter(lambda: reader.read(300_007), b""))
