"""Transactions of fsspec: nothing before the end, all of it at the end, or nothing."""

from __future__ import annotations

import io
from collections import deque

import fsspec
import pytest
from ecosystem.conftest import Place
from hflush.errors import StreamClosedError
from hflush.fsspec.transactions import TransactionFile

BIG = bytes(range(256)) * (24 << 12)  # several parts of an upload


def left_behind(place: Place) -> list[str]:
    """What is in the store beside published files: temporary ones, uploads that go on."""
    fs = place.fs.filesystem_of(place.root)
    directory = place.fs._place(place.root).path
    if place.kind == "s3":
        return [upload.path for upload in fs.list_multipart_uploads(directory)]
    return [status.name for status in fs.list_status(directory) if status.name.startswith(".")]


def test_published_at_the_end(place: Place):
    """Files that were closed are not there before; those that exist keep what they have."""
    fs = place.fs
    place.write("old", b"before")
    with fs.transaction:
        with fs.open(place.name("big"), "wb") as out:
            assert isinstance(out, TransactionFile)
            out.write(BIG)
        assert out.closed
        fs.pipe(place.name("old"), b"after")
        fs.pipe(place.name("d/empty"), b"")
        fs.touch(place.name("touched"))
        with fs.open(place.name("text.gz"), "wt", compression="gzip") as text:
            text.write("grün")
        with fsspec.open(place.url("by-url"), "wb", **place.options) as other:
            other.write(b"data")
        assert [fs.exists(place.name(name)) for name in ("big", "text.gz", "by-url")] == [False] * 3
        assert not fs.exists(place.name("d/empty"))
        assert place.read("old") == b"before"
        assert left_behind(place) != []
    assert place.read("big") == BIG
    assert place.read("old") == b"after"
    assert place.read("d/empty") == b""
    assert fs.info(place.name("touched"))["size"] == 0
    assert place.read("by-url") == b"data"
    with fs.open(place.name("text.gz"), "rt", compression="gzip") as text:
        assert text.read() == "grün"
    assert left_behind(place) == []
    with fs.open(place.name("later"), "wb") as out:
        out.write(b"at once")
    assert place.read("later") == b"at once"


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_file_that_is_dropped_beneath(place: Place, is_closed: bool):
    """As by who closes the shared file system: not left out without a word."""
    fs = place.fs

    def transaction() -> None:
        with fs.transaction:
            out = fs.open(place.name("file"), "wb")
            out.write(b"data")
            if is_closed:
                out.close()
            out._stream.abort()
            out.close()

    if is_closed and place.kind == "s3":  # all of it is stored: there is no stream any more
        transaction()
        assert place.read("file") == b"data"
        return
    with pytest.raises(OSError, match=r"dropped|aborted"):
        transaction()
    assert place.names() == []
    assert left_behind(place) == []


def test_an_exception_leaves_nothing(place: Place):
    fs = place.fs
    place.write("old", b"before")

    def transaction() -> None:
        with fs.transaction:
            fs.pipe(place.name("old"), b"after")
            fs.pipe(place.name("big"), BIG)
            out = fs.open(place.name("open"), "wb")
            raise KeyError("first", out.write(BIG))

    with pytest.raises(KeyError, match="first"):
        transaction()
    assert place.names() == ["old"]
    assert place.read("old") == b"before"
    assert left_behind(place) == []
    assert not fs._intrans


@pytest.mark.parametrize("atomic", [False, True])
def test_every_file_is_atomic(place: Place, atomic: bool):
    """Whatever it is opened with: an exception drops it, and old files are as they were."""
    fs = place.fs
    if place.kind == "s3":
        pytest.skip("every object is")
    place.write("old", b"before")

    def transaction() -> None:
        with fs.transaction:
            for name in ("new", "old"):
                with fs.open(place.name(name), "wb", atomic=atomic) as out:
                    out.write(b"after")
            raise KeyError("first")

    with pytest.raises(KeyError, match="first"):
        transaction()
    assert place.names() == ["old"]
    assert place.read("old") == b"before"
    assert left_behind(place) == []


def test_a_file_that_failed_is_left_out(place: Place):
    """Where the program goes on: what raised inside the block of one file drops that file."""
    fs = place.fs
    with fs.transaction:
        fs.pipe(place.name("good"), b"data")
        with pytest.raises(KeyError), fs.open(place.name("bad"), "wb") as out:
            raise KeyError(out.write(b"half"))
    assert place.names() == ["good"]
    assert left_behind(place) == []


@pytest.mark.parametrize("how", ["wb", "wt", "gzip"])
def test_an_exception_closes_a_file(place: Place, how: str):
    """fsspec.open closes the file after an exception, through any wrapper: nothing is published."""
    fs = place.fs
    compression = "gzip" if how == "gzip" else None
    mode = "wb" if compression else how
    error = KeyError("first")

    def fail() -> None:
        opened = fsspec.open(place.url("bad"), mode, compression=compression, **place.options)
        with opened as out:
            out.write("half" if mode == "wt" else b"half")
            raise error

    with fs.transaction:
        fs.pipe(place.name("good"), b"data")
        with pytest.raises(KeyError) as caught:
            fail()
        assert caught.value is error
    assert place.names() == ["good"]
    assert left_behind(place) == []


def test_a_transaction_in_a_handler(place: Place):
    """An exception that is handled around it is not a reason to drop anything."""
    try:
        raise KeyError("before")
    except KeyError:
        with place.fs.transaction, place.fs.open(place.name("x"), "wb") as out:
            out.write(b"data")
    assert place.read("x") == b"data"


def test_a_file_that_is_still_open(place: Place):
    """Is not published, for a wrapper may hold bytes back, and neither are the others."""
    fs = place.fs
    fs.start_transaction()
    fs.pipe(place.name("closed"), b"data")
    fs.open(place.name("open"), "wb").write(b"half")
    with pytest.raises(ValueError, match="still open at the end") as caught:
        fs.end_transaction()
    assert place.name("open") in str(caught.value)
    assert place.names() == []
    assert left_behind(place) == []


def test_the_last_of_one_name_stays(place: Place):
    fs = place.fs
    with fs.transaction:
        for number in range(3):
            fs.pipe(place.name("x"), b"%d" % number)
        fs.pipe(place.name("y"), b"y")
    assert place.read("x") == b"2"
    assert left_behind(place) == []


def test_one_that_is_refused(place: Place):
    """What is not published yet is dropped, and the exception says what is."""
    fs = place.fs
    fs.start_transaction()
    with fs.open(place.name("x"), "xb") as out:
        out.write(b"mine")
    place.write("x", b"theirs")
    with pytest.raises(FileExistsError) as caught:
        fs.end_transaction()
    assert place.read("x") == b"theirs"
    assert "files of the transaction that are published: 0 of 1" in caught.value.__notes__
    assert left_behind(place) == []


def test_many(place: Place):
    fs = place.fs
    with fs.transaction:
        for number in range(40):
            fs.pipe(place.name(f"part-{number:02}"), b"%d" % number)
        assert not fs.exists(place.name("part-00"))
    names = [f"part-{number:02}" for number in range(40)]
    assert place.names() == names
    assert [place.read(name) for name in names] == [b"%d" % number for number in range(40)]


def test_started_and_ended(place: Place):
    fs = place.fs
    fs.start_transaction()
    fs.pipe(place.name("x"), b"data")
    assert not fs.exists(place.name("x"))
    fs.end_transaction()
    assert place.read("x") == b"data"


def test_by_hand(place: Place):
    """With autocommit=False a program decides for one file."""
    fs = place.fs
    with fs.open(place.name("x"), "wb", autocommit=False) as out:
        out.write(b"data")
        with pytest.raises(ValueError, match="still open"):
            out.commit()
    assert not fs.exists(place.name("x"))
    out.commit()
    out.commit()
    out.discard()
    assert place.read("x") == b"data"
    with fs.open(place.name("y"), "wb", autocommit=False) as out:
        out.write(b"data")
    out.discard()
    with pytest.raises(OSError, match="dropped"):
        out.commit()
    with pytest.raises(OSError, match="write: stream is not published"):
        out.write(b"more")
    assert place.names() == ["x"]
    assert left_behind(place) == []
    assert fs.transaction.files == deque()  # which would keep them for ever


def test_by_hand_within_a_transaction(place: Place):
    """The end of the transaction is the file's."""
    with place.fs.transaction:
        with place.fs.open(place.name("x"), "wb", autocommit=False) as out:
            out.write(b"data")
        assert not place.fs.exists(place.name("x"))
    assert place.read("x") == b"data"


def test_nothing_is_shown_before_the_end(place: Place):
    """Hflush and hsync are refused, and the file goes on."""
    with place.fs.transaction, place.fs.open(place.name("x"), "wb") as out:
        out.write(b"data")
        for operation in (out.hflush, out.hsync):
            with pytest.raises(io.UnsupportedOperation):
                operation()
    assert place.read("x") == b"data"
    with pytest.raises(StreamClosedError, match="hsync: stream is published"):
        out.hsync()


def test_appending_is_refused(place: Place):
    fs = place.fs
    place.write("x", b"data")
    with pytest.raises(OSError, match="appending in a transaction"), fs.transaction:
        fs.open(place.name("x"), "ab")
    assert place.read("x") == b"data"
