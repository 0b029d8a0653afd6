"""LIM: limits are reported, not assumed."""

from __future__ import annotations

import errno
import time

import hflush
import pytest
from support.conformance import STORES
from support.documentation import table
from support.stores import Store

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


# Timeouts of clients, as short as a slow server allows; IDLE_S is more than twice as long.
IMPATIENT = {
    "fs.s3a.connection.timeout": "2s",
    "fs.s3a.connection.idle.time": "200ms",
    "fs.s3a.connection.request.timeout": "2s",
    "dfs.client.socket-timeout": 2000,
    "ipc.client.connection.maxidletime": 200,
}
IDLE_S = 5.0


@pytest.mark.rule("LIM-3")
@pytest.mark.stores("raw", "crc", "s3")
def test_idle_stream_stays_open(store: Store, path: str) -> None:
    """LIM-3: while others come and go for longer than any timeout, a stream stays as it is."""
    fs = hflush.FileSystem.new_instance(store.url(), {**store.conf, **IMPATIENT})
    begun = bytes(6 << 20)  # on s3 a part is under way, or stored
    out = fs.create(path)
    out.write(begun)
    end = time.monotonic() + IDLE_S
    while time.monotonic() < end:
        store.write(store.path("other"), bytes(1000))
    assert not out.closed
    out.write(b"two")
    out.close()
    assert store.read(path) == begun + b"two"
    fs.close()


@pytest.mark.rule("LIM-4")
@pytest.mark.stores("raw", "crc", "hdfs", "s3")
def test_costs_are_documented() -> None:
    """LIM-4: what each operation costs on each store that has it, and which are expensive."""
    costs = table("semantics.md", "## What things cost")
    assert {"seek", "listing", "close", "delete of a tree", "rename", "hsync"} <= costs.keys()
    for operation, of_stores in costs.items():
        assert tuple(of_stores) == STORES
        for store, cost in of_stores.items():
            has = operation != "hsync" or store not in ("crc", "s3")
            assert (cost not in ("", "–")) is has, (operation, store)


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
    """LIM-5: a file of ten times the writes costs about what ten files cost.

    Ten files rather than one, ten times: both sides fill the same amount of fresh memory. What grew
    with the square of the writes would cost ten times as much; other processes cost the caches half
    as much again.
    """

    def ratio(attempt: int) -> float:
        few = sum(cost_of_writes(store, f"{attempt}-{i}", 300_000) for i in range(10))
        return cost_of_writes(store, f"{attempt}-whole", 3_000_000) / few

    assert min(ratio(attempt) for attempt in range(3)) <= 3
