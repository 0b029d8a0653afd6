"""S3: reads that are cut off, refused, or of an object that has become another."""

from __future__ import annotations

import random
from typing import Any

import hflush
import pytest
from support.s3_front import (
    Exchange,
    Fault,
    answer,
    close_after,
    close_before,
    corrupt_answer,
    cut_answer,
    cut_unmeasured_answer,
    make_answer,
    never_answer,
    reset_after,
    reset_before,
    slow_answer,
    stall_answer,
)
from support.s3_writers import DATA, GET, HEAD, KEY, PATH, file_system, without_secrets
from support.scripted_s3 import MIB, ScriptedS3
from support.waiting import together

pytestmark = pytest.mark.stores("s3")


def name_of(value: object) -> str | None:
    return getattr(value, "__name__", None)


PASSING: list[Fault] = [
    answer(500, "InternalError"),
    answer(502, body="<html></html>"),
    answer(503, "SlowDown"),
    answer(429, ""),
    reset_before,
    reset_after,
    close_before,
    cut_answer(0),
    cut_answer(1),
    cut_answer(MIB),
    cut_answer(MIB + 7),
    cut_unmeasured_answer(0),
    cut_unmeasured_answer(MIB + 7),
]


@pytest.fixture
def stored(s3: ScriptedS3) -> ScriptedS3:
    """A store with an object of a few MiB, and a small one."""
    s3.put(KEY, DATA)
    s3.put("small", DATA[:1000])
    return s3


@pytest.mark.rule("FAIL-10", "FAIL-1")
@pytest.mark.parametrize("fault", PASSING, ids=name_of)
@pytest.mark.parametrize("skip", [0, 1], ids=["first", "second"])
def test_a_read_goes_on(
    stored: ScriptedS3, s3_fs: hflush.FileSystem, fault: Fault, skip: int
) -> None:
    """From where it was, and with the right bytes."""
    stored.fail(GET, fault, skip=skip)
    with s3_fs.open(PATH) as reader:
        assert read_in_pieces(reader) == DATA
    with s3_fs.open("/small") as reader:
        assert reader.read() == DATA[:1000]


FLIPPED = pytest.mark.parametrize("at", [0, MIB, len(DATA) - 1], ids=["first", "middle", "last"])


@pytest.mark.rule("READ-16")
@FLIPPED
def test_a_bit_that_flips_on_the_way(stored: ScriptedS3, s3_fs: hflush.FileSystem, at: int) -> None:
    """Whoever reads all of an object is told, over plain HTTP as well, and can read it again."""
    stored.fail(GET, corrupt_answer(at))
    with s3_fs.open(PATH) as reader:
        with pytest.raises(hflush.ChecksumError, match=f"bytes 0 to {len(DATA)}"):
            read_in_pieces(reader)
        reader.seek(0)
        assert read_in_pieces(reader) == DATA
        assert reader.io_statistics().counters["stream_read_corrupt_objects"] == 1


@pytest.mark.rule("READ-16")
@FLIPPED
def test_a_bit_that_flips_while_all_is_read(
    stored: ScriptedS3, s3_fs: hflush.FileSystem, at: int
) -> None:
    """At once: it is asked for once more before anybody has seen it; twice is an error."""
    stored.fail(GET, corrupt_answer(at), times=3)
    with s3_fs.open(PATH) as reader, pytest.raises(hflush.ChecksumError):
        reader.read()
    with s3_fs.open(PATH) as reader:
        assert reader.read() == DATA
    assert stored.count(GET) == 4


@pytest.mark.rule("READ-16")
def test_a_store_without_checksums_is_read_as_it_is(s3: ScriptedS3) -> None:
    """Nor is one asked for where they are switched off."""
    s3.put(KEY, DATA)
    s3.fail(GET, corrupt_answer(0))
    with (
        file_system(s3, {"fs.s3a.create.checksum.algorithm": "none"}) as fs,
        fs.open(PATH) as reader,
    ):
        assert read_in_pieces(reader) != DATA
    s3.rules.checksums = False
    s3.fail(GET, corrupt_answer(0))
    with file_system(s3) as fs, fs.open(PATH) as reader:
        assert read_in_pieces(reader) != DATA


def read_in_pieces(reader: Any, size: int = 300_007) -> bytes:
    return b"".join(iter(lambda: reader.read(size), b""))


@pytest.mark.rule("FAIL-10", "FAIL-1")
@pytest.mark.parametrize("fault", PASSING, ids=name_of)
def test_a_positioned_read_is_repeated(
    stored: ScriptedS3, s3_fs: hflush.FileSystem, fault: Fault
) -> None:
    with s3_fs.open(PATH) as reader:
        stored.fail(GET, fault)
        assert reader.pread(3 * MIB + 1, 2 * MIB) == DATA[3 * MIB + 1 : 5 * MIB + 1]


@pytest.mark.rule("FAIL-1", "FAIL-7")
@pytest.mark.parametrize("size", [0, 1, 700_000])
def test_every_answer_is_cut_off(stored: ScriptedS3, s3_fs: hflush.FileSystem, size: int) -> None:
    """Where some bytes come each time they are taken; where none come, it ends in an error."""
    stored.fail(GET, cut_answer(size), times=None)
    with s3_fs.open(PATH) as reader:
        if size == 700_000:
            assert read_in_pieces(reader) == DATA
        else:
            with pytest.raises(OSError, match=r"\[Errno \d+\] ") as caught:
                read_in_pieces(reader)
            without_secrets(caught.value)


@pytest.mark.rule("FAIL-8", "FAIL-1")
@pytest.mark.parametrize("fault", [never_answer, stall_answer(0), stall_answer(MIB)], ids=name_of)
def test_an_answer_that_stalls(stored: ScriptedS3, fault: Fault) -> None:
    """Is given up for another."""
    stored.fail(GET, fault)
    with (
        file_system(stored, {"fs.s3a.connection.timeout": "300ms"}) as fs,
        fs.open(PATH) as reader,
    ):
        assert read_in_pieces(reader) == DATA


@pytest.mark.rule("FAIL-8")
def test_a_slow_answer_is_waited_for(stored: ScriptedS3) -> None:
    stored.fail(GET, slow_answer(50, 0.1))
    conf = {"fs.s3a.connection.timeout": "1500ms"}
    with file_system(stored, conf) as fs, fs.open("/small") as reader:
        assert reader.read() == DATA[:1000]
    assert stored.count(GET) == 1


@pytest.mark.rule("FAIL-1", "CONC-10")
@pytest.mark.parametrize("fault", [close_after, cut_answer(MIB)], ids=["between", "within"])
def test_the_object_becomes_another(
    stored: ScriptedS3, s3_fs: hflush.FileSystem, fault: Fault
) -> None:
    """Never a mixture: what was not asked for yet of the old one is an error."""
    other = bytes(len(DATA))
    with s3_fs.open(PATH) as reader:
        stored.fail(GET, fault)
        got = [reader.read(100_000)]
        stored.put(KEY, other)
        if fault is not close_after:
            with pytest.raises(hflush.PreconditionFailedError):
                got.extend(iter(lambda: reader.read(100_000), b""))
        head = b"".join(got)
        assert head == DATA[: len(head)]
        with pytest.raises(hflush.PreconditionFailedError):
            reader.pread(9 * MIB, MIB)


@pytest.mark.rule("FAIL-1")
def test_the_object_is_removed(stored: ScriptedS3, s3_fs: hflush.FileSystem) -> None:
    with s3_fs.open(PATH) as reader:
        reader.read(10)
        del stored.objects[KEY]
        with pytest.raises(OSError, match=r"NoSuchKey|404"):
            reader.pread(9 * MIB, MIB)


def whole(exchange: Exchange) -> None:
    """The range is not looked at: 200 and everything."""
    exchange.read_request()
    stored = exchange.front.objects[exchange.request.key]  # type: ignore[attr-defined]
    exchange.send(make_answer(200, stored.data, etag=stored.etag))


def elsewhere(exchange: Exchange) -> None:
    """Another range than the one that was asked for."""
    exchange.read_request()
    stored = exchange.front.objects[exchange.request.key]  # type: ignore[attr-defined]
    ranged = f"bytes 5-1004/{stored.size}"
    exchange.send(make_answer(206, stored.data[5:1005], etag=stored.etag, content_range=ranged))


def too_much(exchange: Exchange) -> None:
    """More bytes than the range has."""
    full = exchange.execute()
    head = make_answer(206, full.body + b"more", content_range=full.head.get("content-range"))
    exchange.send(head)


@pytest.mark.rule("FAIL-1")
@pytest.mark.parametrize("fault", [whole, elsewhere, too_much], ids=name_of)
@pytest.mark.parametrize("position", [0, 3 * MIB + 1])
def test_an_answer_to_another_question(
    stored: ScriptedS3, s3_fs: hflush.FileSystem, fault: Fault, position: int
) -> None:
    """The right bytes or an error, never wrong bytes."""
    stored.fail(GET, fault, times=None)
    with s3_fs.open(PATH) as reader:
        try:
            got = reader.pread(position, 1000)
        except OSError as failure:
            without_secrets(failure)
        else:
            assert got == DATA[position : position + 1000]


@pytest.mark.rule("FAIL-1", "FAIL-12")
@pytest.mark.parametrize("operation", [HEAD, GET])
def test_a_read_is_refused(s3: ScriptedS3, s3_fs: hflush.FileSystem, operation: str) -> None:
    s3.put(KEY, DATA)
    s3.fail(operation, answer(403, "AccessDenied" if operation == GET else ""), times=None)

    def read() -> None:
        with s3_fs.open(PATH) as reader:
            reader.read(10)

    with pytest.raises(PermissionError):
        read()
    assert s3.count(operation) <= 2  # HEAD has no body: why may be asked for once more


@pytest.mark.rule("FAIL-1")
def test_many_readers_through_faults(stored: ScriptedS3, s3_fs: hflush.FileSystem) -> None:
    """Threads that share an open file, on a network that fails again and again."""
    for number in range(12):
        fault = PASSING[number % len(PASSING)]
        stored.fail(GET, fault, skip=number)
    with s3_fs.open(PATH) as reader:

        def read(seed: int) -> None:
            chosen = random.Random(seed)
            for _ in range(8):
                position = chosen.randrange(len(DATA))
                size = chosen.randrange(1, 400_000)
                assert reader.pread(position, size) == DATA[position : position + size]

        together(*(lambda seed=seed: read(seed) for seed in range(4)))
