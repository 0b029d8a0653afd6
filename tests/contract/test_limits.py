"""LIM: limits are reported, not assumed."""

from __future__ import annotations

import errno
import time

import hflush
import pytest
from support.documentation import page
from support.stores import Store

Stream = hflush.FSDataOutputStream

TOO_LONG = r"name too long|component name limit|name of \d+ bytes"


@pytest.mark.rule("LIM-1")
def test_names_too_long_are_reported(store: Store) -> None:
    """LIM-1: a name beyond the system's limit is ENAMETOOLONG for every operation, never cut."""
    too_long = store.path("n" * (store.longest_name + 1))
    attempts = [lambda: store.fs.create(too_long), lambda: store.fs.mkdirs(too_long)]
    if store.local:  # a NameNode has no limit for what it is asked, only for what it makes
        attempts += [lambda: store.fs.get_file_status(too_long), lambda: store.fs.open(too_long)]
    for attempt in attempts:
        with pytest.raises(OSError, match=TOO_LONG) as caught:
            attempt()
        assert caught.value.errno == errno.ENAMETOOLONG
    assert store.on_disk() == []


@pytest.mark.rule("LIM-1")
def test_longest_name_works(store: Store) -> None:
    """LIM-1: a name that the store can hold is held; a sidecar needs five bytes of it."""
    room = 255 - (len(".") + len(".crc") if store.name == "crc" else 0)
    longest = store.path("n" * room)
    store.write(longest, b"abc")
    assert store.read(longest) == b"abc"
    assert [status.path for status in store.fs.list_status(store.root)] == [store.public(longest)]


@pytest.mark.rule("LIM-1")
def test_paths_too_long_are_reported(store: Store) -> None:
    """LIM-1: a path beyond the declared maximum is ENAMETOOLONG."""
    longest = store.options["max-path"]
    deep = store.path(*["d" * 200] * (longest // 200 + 1))
    with pytest.raises(OSError, match=TOO_LONG) as caught:
        store.fs.create(deep)
    assert caught.value.errno == errno.ENAMETOOLONG


@pytest.mark.rule("LIM-1")
def test_files_too_large_are_reported(store: Store, path: str) -> None:
    """LIM-1: a file beyond the limit is EFBIG, not a shorter file."""
    out = store.fs.create(path)
    out.write(bytes(4097))
    with store.full(4096), pytest.raises(OSError, match=store.full_text) as caught:
        out.close()
    assert caught.value.errno == store.full_errno


@pytest.mark.rule("LIM-3")
def test_idle_stream_stays_open(store: Store, path: str, out: Stream) -> None:
    """LIM-3: a stream has no idle timeout: others come and go, and it goes on."""
    out.write(b"one")
    for number in range(50):
        store.write(store.path(f"other-{number}"), bytes(1000))
    assert not out.closed
    out.write(b"two")
    out.close()
    assert store.read(path) == b"onetwo"


@pytest.mark.rule("LIM-4")
@pytest.mark.stores("raw", "crc")
def test_costs_are_documented() -> None:
    """LIM-4: the docs say what seek, listing, close and delete cost on each store."""
    text = page("semantics.md").lower()
    assert "what things cost" in text
    for operation in ("seek", "listing", "close", "delete"):
        assert operation in text.split("what things cost", 1)[1]


def cost_of_writes(store: Store, name: str, count: int) -> float:
    """Processor seconds of `count` writes of 20 bytes to a new file."""
    with store.fs.create(store.path(name)) as out:
        write = out.write
        record = bytes(20)
        began = time.process_time()
        for _ in range(count):
            write(record)
        out.close()
    return time.process_time() - began


@pytest.mark.rule("LIM-5")
def test_cost_is_linear_in_the_number_of_writes(store: Store) -> None:
    """LIM-5: a file of ten times the writes costs at most half as much again as ten files.

    Ten files rather than one, ten times: both sides fill the same amount of fresh memory.
    """

    def ratio(attempt: int) -> float:
        few = sum(cost_of_writes(store, f"{attempt}-{i}", 300_000) for i in range(10))
        return cost_of_writes(store, f"{attempt}-whole", 3_000_000) / few

    assert min(ratio(attempt) for attempt in range(3)) <= 1.5
