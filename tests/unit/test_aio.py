"""hflush.aio: the streams' promises, awaited."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import hflush
import pytest
from hflush import aio
from support.waiting import DEADLINE_S

T = TypeVar("T")


def run(work: Callable[[], Awaitable[T]]) -> T:
    async def main() -> T:
        return await asyncio.wait_for(work(), DEADLINE_S)

    return asyncio.run(main())


def test_it_writes_and_reads_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a"

    async def work() -> None:
        async with aio.create(path) as out:
            assert await out.write(b"one\n") == 4
            assert await out.write(b"-two\n-", 1, 4) == 4
            await out.write_byte(ord("\n"))
            await out.writelines([b"three", b"\n"])
            await out.hflush()
            assert path.read_bytes() == b"one\ntwo\n\nthree\n"
            await out.hsync()
            assert (out.tell(), out.mode, out.path) == (15, "wb", str(path))
        assert out.closed
        out = await aio.append(path)
        await out.write(bytes(1 << 16))
        await out.close()
        async with aio.open(path, "rb") as file:
            assert [await file.readline(), await file.read(3)] == [b"one\n", b"two"]
            assert await file.pread(4, 3) == b"two"
            assert await file.read_vectored([(0, 3), (4, 3)]) == [b"one", b"two"]
            assert await file.seek(9) == file.tell() == 9
            assert [line async for line in file] == [b"three\n", bytes(1 << 16)]

    run(work)


def test_it_writes_and_reads_text(tmp_path: Path) -> None:
    path = tmp_path / "a"

    async def work() -> list[str]:
        async with aio.open(path, "w", encoding="utf-8") as out:
            assert await out.write("grün\n") == 5
            await out.hsync()
            assert path.read_text("utf-8") == "grün\n"
            await out.writelines(["zwei\n"])
        async with aio.open(path, encoding="utf-8") as file:
            return [line async for line in file]

    assert run(work) == ["grün\n", "zwei\n"]


def test_writes_of_many_tasks_are_whole_and_in_the_order_of_their_calls(tmp_path: Path) -> None:
    path = tmp_path / "a"
    pieces = [bytes([65 + i % 26]) * (1 + i * 977 % 70_000) for i in range(200)]

    async def work() -> None:
        async with aio.create(path) as out:
            await asyncio.gather(*map(out.write, pieces), out.hflush())

    run(work)
    assert path.read_bytes() == b"".join(pieces)


def test_errors_are_those_of_the_streams(tmp_path: Path) -> None:
    async def work() -> None:
        with pytest.raises(FileNotFoundError):
            await aio.open(tmp_path / "missing", "rb")
        out = await aio.create(tmp_path / "a", overwrite=False)
        with pytest.raises(TypeError):
            await out.write("text")  # type: ignore[arg-type]
        await out.close()
        await out.close()
        with pytest.raises(hflush.StreamClosedError):
            await out.write(b"late")

    run(work)


def atomic(tmp_path: Path) -> aio.Opening[aio.AsyncOutputStream]:
    return aio.create(tmp_path / "whole", atomic=True)


def left(directory: Path) -> list[str]:
    return os.listdir(directory)


def test_an_exception_aborts(tmp_path: Path) -> None:
    async def by_block() -> None:
        async with atomic(tmp_path) as out:
            await out.write(b"half")
            raise ZeroDivisionError

    async def by_close() -> None:
        out = await atomic(tmp_path)
        try:
            await out.write(b"half")
            raise ZeroDivisionError
        finally:
            await out.close()

    async def by_stack() -> None:
        stack = contextlib.AsyncExitStack()
        try:
            out = await stack.enter_async_context(atomic(tmp_path))
            await out.write(b"half")
            raise ZeroDivisionError
        finally:
            await stack.aclose()

    for work in (by_block, by_close, by_stack):
        with pytest.raises(ZeroDivisionError):
            run(work)
        assert left(tmp_path) == []


def test_an_exception_that_is_older_does_not_abort(tmp_path: Path) -> None:
    async def work() -> None:
        try:
            raise ZeroDivisionError
        except ZeroDivisionError:
            out = await atomic(tmp_path)
            await out.write(b"whole")
            await out.close()

    run(work)
    assert left(tmp_path) == ["whole"]


class Held:
    """A call in a thread that is held until it is let go."""

    def __init__(self, call: Callable[..., object]) -> None:
        self._call = call
        self.begun, self.let_go = threading.Event(), threading.Event()
        self.ended: list[bool] = []

    def __call__(self, *args: object, **options: object) -> object:
        self.begun.set()
        try:
            assert self.let_go.wait(DEADLINE_S)
            return self._call(*args, **options)
        finally:
            self.ended.append(True)

    async def is_begun(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, DEADLINE_S)


@pytest.mark.filterwarnings("ignore::hflush.NotPublishedWarning")
def test_a_call_that_is_cancelled_aborts(tmp_path: Path) -> None:
    """Also where the call has the only thread of the loop."""

    async def work() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        out = await atomic(tmp_path)
        held = Held(lambda: None)
        task = asyncio.create_task(out._beside(held))
        while not held.begun.is_set():
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=DEADLINE_S)
        assert task.cancelled()
        held.let_go.set()
        assert out.closed
        assert left(tmp_path) == []
        with pytest.raises(hflush.StreamClosedError):
            await out.write(b"late")

    run(work)


@pytest.mark.parametrize("mode", ["rb", "r"])
def test_a_read_that_is_cancelled_is_not_waited_for(tmp_path: Path, mode: Any) -> None:
    (tmp_path / "a").write_bytes(b"data")

    async def work() -> None:
        async with aio.open(tmp_path / "a", mode) as file:
            raw = getattr(file._file, "buffer", file._file).raw
            raw.pread_into = held = Held(raw.pread_into)
            task = asyncio.create_task(file.read(4))
            await held.is_begun()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(ValueError, match="closed"):
                await file.read(4)
        assert not held.ended
        held.let_go.set()

    run(work)


def test_a_read_that_is_cancelled_leaves_the_memory_of_its_caller_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"data")
    buffer = bytearray(4)

    async def work() -> None:
        file = await aio.open(tmp_path / "a", "rb")
        with pytest.raises(TypeError, match="only be read"):
            await file.readinto(b"1234")
        file._file.raw.pread_into = held = Held(file._file.raw.pread_into)
        task = asyncio.create_task(file.readinto(buffer))
        await held.is_begun()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        held.let_go.set()

    run(work)  # which waits for its threads
    assert buffer == bytes(4)


@pytest.mark.filterwarnings("ignore::hflush.NotPublishedWarning")
def test_what_a_cancelled_call_opens_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(hflush.create)
    monkeypatch.setattr("hflush.opening.create", held)

    async def work() -> None:
        task = asyncio.ensure_future(atomic(tmp_path)._open())
        await held.is_begun()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        held.let_go.set()

    run(work)  # which waits for the loop's threads
    assert held.ended == [True]
    assert left(tmp_path) == []
