"""What is remembered of a bucket: for so long, so much of it, and not what has changed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hflush.s3.remembered import RememberedPaths


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_for_so_long():
    clock = Clock()
    seen = RememberedPaths(10.0, clock=clock)
    seen.add(["/a", "/a/b"])
    assert seen.missing(["/a", "/a/b", "/c"]) == ["/c"]
    clock.now += 9
    seen.add(["/a"])
    clock.now += 1
    assert seen.missing(["/a", "/a/b"]) == ["/a/b"]
    clock.now += 9
    assert seen.missing(["/a"]) == ["/a"]


def test_so_many_and_the_oldest_go_first():
    seen = RememberedPaths(10.0, most=3)
    seen.add(["/a", "/b", "/c"])
    seen.add(["/a"])
    seen.add(["/d"])
    assert len(seen) == 3
    assert seen.missing(["/a", "/b", "/c", "/d"]) == ["/b"]


def test_nothing():
    seen = RememberedPaths(0.0)
    seen.add(["/a"])
    assert len(seen) == 0
    assert seen.missing(["/a"]) == ["/a"]


def test_what_is_forgotten():
    seen = RememberedPaths(10.0)
    seen.add(["/a", "/a/b", "/ab", "/c"])
    seen.discard("/nothing")
    seen.discard("/c")
    assert seen.missing(["/a", "/a/b", "/ab", "/c"]) == ["/c"]
    seen.forget("/a")
    assert seen.missing(["/a", "/a/b", "/ab"]) == ["/a", "/a/b"]
    seen.forget("/")
    assert len(seen) == 0


def test_what_is_fresh():
    clock = Clock()
    seen = RememberedPaths(10.0, clock=clock)
    assert not seen.is_fresh("/a")
    seen.add(["/a"])
    clock.now += 4
    assert seen.is_fresh("/a")
    clock.now += 1
    assert not seen.is_fresh("/a")
    assert seen.missing(["/a"]) == []


def test_what_is_forgotten_while_one_looks():
    """What was seen before that may not be so any more."""
    remembered = RememberedPaths(60)
    before = remembered.moment
    remembered.discard("/a")  # somebody has put a file there
    remembered.add(["/a"], before)
    assert remembered.missing(["/a"]) == ["/a"]
    remembered.add(["/a"], remembered.moment)
    assert remembered.missing(["/a"]) == []


def test_by_many_threads():
    seen = RememberedPaths(10.0, most=50)

    def use(number: int) -> None:
        for i in range(500):
            seen.add([f"/{number}", f"/{number}/{i}"])
            seen.missing([f"/{number - 1}/{i}"])
            seen.forget(f"/{number - 1}")

    with ThreadPoolExecutor(8) as executor:
        list(executor.map(use, range(8)))
    assert len(seen) <= 50
