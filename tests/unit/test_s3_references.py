"""Large bytes objects are sent from where they lie: when they are kept, and until when."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

import hflush
import pytest
from hflush.s3 import S3FileSystem
from support.scripted_s3 import BUCKET, MIB, ScriptedS3
from support.waiting import wait_until

KEPT_BYTES = 32 << 10


@pytest.fixture
def server() -> Iterator[ScriptedS3]:
    with ScriptedS3() as server:
        yield server


def connect(server: ScriptedS3, **conf: str) -> S3FileSystem:
    given = {name.replace("_", "."): value for name, value in conf.items()}
    quick = {"fs.s3a.multipart.size": "5M", "fs.s3a.retry.interval": "1ms"}
    made: Any = hflush.FileSystem.new_instance(f"s3://{BUCKET}/", {**server.conf, **quick, **given})
    return made  # type: ignore[no-any-return]


def fresh(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def content(server: ScriptedS3, key: str) -> bytes:
    stored: bytes = server.objects[key].data
    return stored


def test_it_is_kept_until_the_object_is_there(server: ScriptedS3) -> None:
    fs = connect(server)
    data = fresh(KEPT_BYTES)
    before = sys.getrefcount(data)
    with fs.create("/a") as out:
        out.write(data)
        assert sys.getrefcount(data) == before + 1
    assert sys.getrefcount(data) == before
    assert content(server, "a") == data


@pytest.mark.parametrize("size", [KEPT_BYTES - 1, 1000])
def test_less_is_copied(server: ScriptedS3, size: int) -> None:
    data = fresh(size)
    before = sys.getrefcount(data)
    with connect(server).create("/a") as out:
        out.write(data)
        assert sys.getrefcount(data) == before


@pytest.mark.parametrize("kind", [bytearray, memoryview, lambda data: memoryview(bytearray(data))])
def test_what_may_change_is_copied(server: ScriptedS3, kind: Any) -> None:
    """WRITE-9; a view, also of bytes, has an owner whom nobody knows."""
    data = fresh(3 * MIB)
    given = kind(data)
    before = sys.getrefcount(given)
    with connect(server).create("/a") as out:
        out.write(given)
        assert sys.getrefcount(given) == before
        if not memoryview(given).readonly:
            given[:] = bytes(len(data))
    assert content(server, "a") == data


def test_it_can_be_switched_off(server: ScriptedS3) -> None:
    data = fresh(MIB)
    before = sys.getrefcount(data)
    with connect(server, hflush_s3_references="false").create("/a") as out:
        out.write(data)
        assert sys.getrefcount(data) == before
    assert content(server, "a") == data


def test_who_aborts_lets_go(server: ScriptedS3) -> None:
    data = fresh(MIB)
    before = sys.getrefcount(data)
    out = connect(server).create("/a")
    out.write(data)
    out.abort()
    assert sys.getrefcount(data) == before


def test_who_drops_a_stream_lets_go(server: ScriptedS3) -> None:
    data = fresh(MIB)
    before = sys.getrefcount(data)
    out = connect(server).create("/a")
    out.write(data)
    with pytest.warns(hflush.NotPublishedWarning):
        del out
    assert sys.getrefcount(data) == before


def test_a_part_that_the_store_has_is_let_go_while_the_stream_goes_on(server: ScriptedS3) -> None:
    data = fresh(5 * MIB)
    before = sys.getrefcount(data)
    with connect(server).create("/a") as out:
        out.write(data)  # a part, which goes

        def is_let_go() -> bool:
            out.flush()
            return sys.getrefcount(data) == before

        wait_until(is_let_go, "the part is let go")
        out.write(b"more")
    assert content(server, "a") == data + b"more"


def test_among_what_is_copied(server: ScriptedS3) -> None:
    """Of any sizes, in one call and in many, across the ends of parts."""
    chosen = random.Random(8)
    sizes = [chosen.choice([1, 1000, 40_000, 65_536, 300_000, 6 * MIB]) for _ in range(40)]
    pieces = [fresh(size) for size in sizes]
    before = [sys.getrefcount(piece) for piece in pieces]
    with connect(server).create("/a") as out:
        assert [out.write(piece) for piece in pieces] == sizes
        assert out.tell() == sum(sizes)
    assert content(server, "a") == b"".join(pieces)
    assert [sys.getrefcount(piece) for piece in pieces] == before


def test_one_that_is_larger_than_the_window(server: ScriptedS3) -> None:
    """Its end is copied: it waits in a part that is not full, and would keep all of it."""
    data = fresh(40 * MIB + 7)
    before = sys.getrefcount(data)
    with connect(server, hflush_s3_memory="10M").create("/a") as out:
        out.write(data)

        def is_let_go() -> bool:
            out.flush()
            return sys.getrefcount(data) == before

        wait_until(is_let_go, "the parts are let go")
    assert content(server, "a") == data
    assert sys.getrefcount(data) == before
