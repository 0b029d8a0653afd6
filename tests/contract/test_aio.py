"""hflush.aio on every store: what is awaited is what the streams promise."""

from __future__ import annotations

import asyncio

import pytest
from hflush import aio
from hflush.capabilities import ABORTABLE, HSYNC
from support.stores import Store


def test_what_is_awaited_has_happened(store: Store, path: str) -> None:
    """WRITE-5, HSYNC-1 and CLOSE-1, by tasks."""

    async def work() -> bytes:
        async with aio.create(store.url(path), conf=store.conf) as out:
            await asyncio.gather(*(out.write(bytes([i]) * 40_000) for i in range(4)))
            if out.has_capability(HSYNC):
                await out.hsync()
                assert len(store.read(path)) == 160_000
        async with aio.open(store.url(path), "rb", conf=store.conf) as file:
            return await file.read()

    assert asyncio.run(work()) == b"".join(bytes([i]) * 40_000 for i in range(4))


@pytest.mark.filterwarnings("ignore::hflush.NotPublishedWarning")
def test_a_cancelled_block_publishes_nothing_where_abort_is_a_capability(
    store: Store, path: str
) -> None:
    """A task that is cancelled leaves its `async with` by an exception."""

    aborted: list[bool] = []

    async def work() -> None:
        async with aio.create(store.url(path), conf=store.conf) as out:
            await out.write(b"half")
            aborted.append(out.has_capability(ABORTABLE))
            asyncio.current_task().cancel()  # type: ignore[union-attr]  # within a task
            await asyncio.sleep(0)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(work())
    assert store.fs.exists(path) is not aborted[0]
