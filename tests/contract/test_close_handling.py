"""CLOSE-24 to CLOSE-26: a close() that an exception or a finaliser brings about, or nobody at all.

On S3 every stream can be aborted; elsewhere those of files that appear whole or not at all.
"""

# ruff: noqa: PT012, PT031 - what is raised is raised in the middle of things

from __future__ import annotations

import asyncio
import codecs
import contextlib
import csv
import gc
import gzip
import io
import logging
import re
import subprocess
import sys
import tarfile
import threading
import weakref
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import hflush
import pytest
from hflush.checkpoint import CheckpointFileManager
from support.stores import FILES, SHARED, Store
from support.waiting import DEADLINE_S

KEY = "hflush.close.on-exception"
OLD = b"what was there before"


class Whole:
    """Makes streams of a file that appears whole or not at all, over one that exists."""

    def __init__(self, store: Store, path: str) -> None:
        self._store = store
        self.path = path
        store.write(path, OLD)

    def __call__(self, **options: Any) -> Any:
        return self._store.fs.create(self.path, atomic=True, **options)

    def content(self) -> bytes:
        return self._store.content(self.path)


class Checkpoint(Whole):
    """The same by a checkpoint file manager."""

    def __call__(self, **options: Any) -> Any:
        conf = {**self._store.conf, **options}
        manager = CheckpointFileManager.create(self._store.url(), conf)
        return manager.create_atomic(self.path, overwrite_if_possible=True)


@pytest.fixture
def whole(store: Store, path: str) -> Whole:
    return Whole(store, path)


@pytest.fixture(params=[Whole, Checkpoint])
def either(request: pytest.FixtureRequest, store: Store, path: str) -> Whole:
    return request.param(store, path)


@contextlib.contextmanager
def by_generator(out: Any) -> Iterator[Any]:
    try:
        yield out
    finally:
        out.close()


class Closing:
    """What most programs write: a `finally` that closes."""

    def __init__(self, out: Any) -> None:
        self._out = out

    def __enter__(self) -> Any:
        return self._out

    def __exit__(self, *_: object) -> None:
        self._out.close()


def by_stack(out: Any) -> Any:
    stack = contextlib.ExitStack()
    stack.callback(out.close)
    stack.write = out.write  # type: ignore[attr-defined]
    return stack


class Closed(io.RawIOBase):
    """A program's own file object over another: it closes the one below."""

    def __init__(self, out: Any) -> None:
        self._out = out

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._out.write(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._out.close()


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "TextIOWrapper": lambda out: io.TextIOWrapper(out, encoding="utf-8"),
    "BufferedWriter": io.BufferedWriter,
    "text over a buffer": lambda out: io.TextIOWrapper(io.BufferedWriter(out), encoding="utf-8"),
    "StreamWriter": codecs.getwriter("utf-8"),
    "closing": contextlib.closing,
    "contextmanager": by_generator,
    "ExitStack": by_stack,
    "finally": Closing,
    "a file object of one's own": Closed,
}


def put(file: Any, data: str) -> None:
    is_text = isinstance(file, (io.TextIOWrapper, codecs.StreamWriter))
    file.write(data if is_text else data.encode())


@pytest.mark.rule("CLOSE-24")
@pytest.mark.parametrize("after", [0, 1, 50_000])
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_an_exception_through_a_wrapper(either: Whole, wrapper: str, after: int) -> None:
    """It comes out as it is, with a note; nothing is published, and a second close does nothing."""
    out = either()
    error = KeyError("what the program raised")
    with pytest.raises(KeyError) as raised, WRAPPERS[wrapper](out) as file:
        for _ in range(after and 3):
            put(file, "x" * after)
        raise error
    assert raised.value is error
    assert raised.value.__context__ is None
    assert sum(KEY in note for note in error.__notes__) == 1
    assert out.name in error.__notes__[0]
    out.close()
    assert out.closed
    assert either.content() == OLD


@pytest.mark.rule("CLOSE-1", "CLOSE-24")
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_success_through_a_wrapper(either: Whole, wrapper: str) -> None:
    """Without an exception everything is published."""
    with WRAPPERS[wrapper](either()) as file:
        put(file, "new")
    assert either.content() == b"new"


@pytest.mark.rule("CLOSE-24")
def test_a_close_in_the_handler(whole: Whole) -> None:
    """It does not report success for what is not there, also where the exception was caught."""
    out = whole()
    error = KeyError("caught")
    with pytest.raises(KeyError) as raised:
        try:
            raise error
        except KeyError:
            out.close()
    assert raised.value is error
    assert whole.content() == OLD


@pytest.mark.rule("CLOSE-24")
def test_a_stream_made_in_a_handler(either: Whole) -> None:
    """An exception that was being handled before is not a reason, however nested."""
    try:
        raise KeyError("outer")
    except KeyError:
        either().close()
        assert either.content() == b""
        try:
            raise ValueError("inner")
        except ValueError:
            first, second = either(), either()
            first.write(b"inside")
            first.close()
        second.write(b"outside")
        second.close()  # the outer one is handled again
    assert either.content() == b"outside"


@pytest.mark.rule("CLOSE-24")
def test_a_newer_exception_inside_a_handler(whole: Whole) -> None:
    """Of those that are handled the newest counts."""
    try:
        raise KeyError("older")
    except KeyError as older:
        newer = ValueError("newer")
        with pytest.raises(ValueError, match="newer") as raised, contextlib.closing(whole()) as out:
            out.write(b"half")
            raise newer  # noqa: B904
        assert raised.value is newer
        assert newer.__context__ is older  # noqa: PT017
    assert whole.content() == OLD


@pytest.mark.rule("CLOSE-24")
def test_another_exception_at_the_same_place(whole: Whole) -> None:
    """An exception is not taken for one that is gone, wherever in memory it is."""
    streams = []
    for number in range(20):
        try:
            raise KeyError(number)
        except KeyError:  # noqa: PERF203
            streams.append(whole())
    for out in streams:
        with pytest.raises(KeyError), contextlib.closing(out):
            raise KeyError("another")
    assert whole.content() == OLD


class OfAProgram(Exception):
    pass


@pytest.mark.rule("CLOSE-24")
def test_an_exception_is_not_kept(whole: Whole) -> None:
    """A stream that was made while one was handled keeps neither it nor its frames."""
    try:
        raise OfAProgram
    except OfAProgram as error:
        gone = weakref.ref(error)
        out = whole()
    assert gone() is None
    out.close()


@pytest.mark.rule("CLOSE-24")
def test_finally_without_an_exception(whole: Whole) -> None:
    """A return through `finally` publishes."""

    def write() -> str:
        out = whole()
        try:
            out.write(b"new")
            return "done"
        finally:
            out.close()

    assert write() == "done"
    assert whole.content() == b"new"


@pytest.mark.rule("CLOSE-24")
def test_a_handler_that_is_over(whole: Whole) -> None:
    """An exception whose handling ended while the stream was open does not count."""
    out = whole()
    try:
        raise KeyError
    except KeyError:
        out.write(b"new")
    out.close()
    assert whole.content() == b"new"


@pytest.mark.rule("CLOSE-24")
def test_generators(whole: Whole) -> None:
    """A generator sees what its caller handles: at its start, and when it goes on."""
    try:
        raise KeyError
    except KeyError:
        with by_generator(whole()) as out:
            out.write(b"first")

        def writer() -> Iterator[None]:
            with contextlib.closing(whole()) as out:
                out.write(b"second")
                yield

        assert list(writer()) == [None]
    assert whole.content() == b"second"

    steps = writer()
    next(steps)
    error = ValueError("newer than the generator's stream")
    with pytest.raises(ValueError, match="newer"):
        steps.throw(error)
    assert whole.content() == b"second"


@pytest.mark.rule("CLOSE-24")
def test_the_end_of_an_iteration(whole: Whole) -> None:
    """StopIteration is not a failure: code that passes an iteration on closes in its handler."""

    class Tee:
        def __init__(self) -> None:
            self._numbers = iter((1, 2))
            self._out = whole()

        def __iter__(self) -> Tee:
            return self

        def __next__(self) -> int:
            try:
                number = next(self._numbers)
            except StopIteration:
                self._out.close()
                raise
            self._out.write(bytes([number]))
            return number

    assert list(Tee()) == [1, 2]
    assert whole.content() == b"\1\2"


@pytest.mark.rule("CLOSE-24")
@pytest.mark.parametrize("wrapper", [contextlib.closing, lambda out: out], ids=["closing", "own"])
@pytest.mark.parametrize("error", [GeneratorExit, SystemExit(0), asyncio.CancelledError()])
def test_exceptions_that_end_quietly(either: Whole, wrapper, error) -> None:
    """Nothing is published either; the exception is not shown, so a warning says it."""
    with (
        pytest.warns(hflush.NotPublishedWarning, match="not published"),
        contextlib.suppress(GeneratorExit, SystemExit, asyncio.CancelledError),
        wrapper(either()) as out,
    ):
        out.write(b"half")
        raise error
    assert either.content() == OLD


@pytest.mark.rule("CLOSE-24")
def test_a_generator_that_is_closed_early(whole: Whole) -> None:
    """What it holds is incomplete."""

    def writer() -> Iterator[None]:
        with io.BufferedWriter(whole()) as out:
            out.write(b"half")
            yield

    steps = writer()
    next(steps)
    with pytest.warns(hflush.NotPublishedWarning, match="GeneratorExit, not published"):
        steps.close()
    assert whole.content() == OLD


@pytest.mark.rule("CLOSE-24")
def test_keyboard_interrupt(whole: Whole) -> None:
    """It is an exception as any other."""
    with pytest.raises(KeyboardInterrupt), contextlib.closing(whole()) as out:
        out.write(b"half")
        raise KeyboardInterrupt
    assert whole.content() == OLD


@pytest.mark.rule("CLOSE-24")
def test_tasks(whole: Whole) -> None:
    """A task's exception counts in that task."""

    async def fail(out: Any) -> None:
        with contextlib.closing(out):
            out.write(b"half")
            await asyncio.sleep(0)
            raise KeyError

    async def succeed(out: Any) -> None:
        with contextlib.closing(out):
            out.write(b"new")
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def both() -> list[Any]:
        failing = fail(whole())
        return await asyncio.gather(failing, succeed(whole()), return_exceptions=True)

    failed, succeeded = asyncio.run(both())
    assert isinstance(failed, KeyError)
    assert succeeded is None
    assert whole.content() == b"new"


@pytest.mark.rule("CLOSE-24")
def test_another_thread(whole: Whole) -> None:
    """What one thread handles is nothing to a close() of another."""
    out = whole()
    out.write(b"new")
    try:
        raise KeyError
    except KeyError:
        closer = threading.Thread(target=out.close)
        closer.start()
        closer.join()
    assert whole.content() == b"new"


@pytest.mark.rule("CLOSE-24")
def test_made_by_another_thread_for_a_handler(whole: Whole) -> None:
    """Its maker does not see what is handled here; its `with` block does."""
    streams: list[Any] = []
    try:
        raise KeyError("handled before the stream is made")
    except KeyError:
        maker = threading.Thread(target=lambda: streams.append(whole()))
        maker.start()
        maker.join()
        with streams[0] as out:
            out.write(b"new")
    assert whole.content() == b"new"


@pytest.mark.rule("CLOSE-25")
@pytest.mark.filterwarnings("ignore::hflush.NotPublishedWarning")
def test_made_inside_a_finaliser(whole: Whole) -> None:
    """It is taken for a forgotten one unless an option says otherwise."""

    class Last:
        def __init__(self, **options: Any) -> None:
            self._options = options

        def __del__(self) -> None:
            with whole(**self._options) as out:
                out.write(b"last words")

    Last()
    gc.collect()
    assert whole.content() == OLD
    Last(close_on_exception="publish")
    gc.collect()
    assert whole.content() == b"last words"


@pytest.mark.rule("CLOSE-25")
def test_a_finaliser_of_weakref(whole: Whole) -> None:
    """It is a program's own call, and publishes."""

    class Owner:
        pass

    owner, out = Owner(), whole()
    out.write(b"new")
    weakref.finalize(owner, out.close)
    del owner
    gc.collect()
    assert whole.content() == b"new"


@pytest.mark.rule("CLOSE-24")
def test_switched_off(either: Whole) -> None:
    """`publish` gives back what files do."""
    with pytest.raises(KeyError) as raised, contextlib.closing(either(**{KEY: "publish"})) as out:
        out.write(b"half")
        raise KeyError
    assert not hasattr(raised.value, "__notes__")
    assert either.content() == b"half"


@pytest.mark.rule("CLOSE-24")
def test_switched_off_for_a_file_system(store: Store) -> None:
    """The key is one of the configuration, too; a stream's own option is the nearer one."""
    fs = hflush.FileSystem.new_instance(store.url(), {**store.conf, KEY: "publish"})
    path = store.path("file")
    for options, found in (({}, True), ({"close_on_exception": "abort"}, False)):
        with pytest.raises(KeyError), contextlib.closing(fs.create(path, **options)) as out:
            raise KeyError
        aborts = out.has_capability(hflush.capabilities.ABORTABLE)
        assert store.fs.exists(path) is (found or not aborts)
        store.fs.delete(path)


@pytest.mark.rule("BUILDER-6", "CLOSE-24")
def test_a_switch_that_is_none(store: Store, path: str) -> None:
    """Anything else is refused by name, in the configuration and as an option."""
    for value in ("Publish", "yes", "", True):
        with pytest.raises(ValueError, match=f"{KEY}.*abort or publish"):
            store.fs.create(path, close_on_exception=value)
    with pytest.raises(ValueError, match=f"{KEY}.*abort or publish, not 'never'"):
        hflush.FileSystem.new_instance(store.url(), {**store.conf, KEY: "never"})
    assert not store.fs.exists(path)


@pytest.mark.rule("CLOSE-24")
def test_its_own_with_block_in_a_handler(either: Whole) -> None:
    """`with` says what the block is about: what is handled around it does not count."""
    out = either()
    try:
        raise KeyError
    except KeyError:
        with out:
            out.write(b"new")
    assert either.content() == b"new"


@pytest.mark.rule("CLOSE-24")
def test_text_in_a_handler(store: Store, path: str) -> None:
    """The same for text of hflush.open."""
    text = hflush.open(store.url(path), "w", conf=store.conf)
    try:
        raise KeyError
    except KeyError:
        with text:
            text.write("new")
    assert store.content(path) == b"new"


@pytest.mark.rule("CLOSE-24")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("no more")], ids=repr)
@pytest.mark.parametrize("marked", ["utf-8", "utf-16"])
def test_a_failure_in_the_last_flush_of_text(
    store: Store, path: str, error: BaseException, marked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What close() still has to hand on is part of the file: without it there is none."""
    store.write(path, OLD)
    text = hflush.open(store.url(path), "w", encoding=marked, conf=store.conf, atomic=True)
    out = text.buffer
    text.write("record\n")

    def flush(*_: object) -> None:
        raise error

    monkeypatch.setattr(type(out), "flush", flush)
    with pytest.raises(type(error)) as raised:
        text.close()
    assert raised.value is error
    assert text.closed
    text.close()
    assert out.closed
    assert store.content(path) == OLD


@pytest.mark.rule("CREATE-23")
@pytest.mark.parametrize(
    "wrong", [{"encoding": "no such"}, {"errors": "no such"}, {"newline": "no such"}], ids=repr
)
@pytest.mark.parametrize("mode", ["w", "x", "a"])
def test_text_that_there_is_not(store: Store, path: str, mode: str, wrong: dict) -> None:
    """An encoding, a handler of errors, an end of lines: before anything is touched."""
    if mode != "x":
        store.write(path, OLD)
    with pytest.raises((LookupError, ValueError), match="no such"):
        hflush.open(store.url(path), mode, conf=store.conf, **wrong)
    assert store.fs.exists(path) == (mode != "x")
    if mode != "x":
        assert store.content(path) == OLD


@pytest.mark.rule("CLOSE-18")
@pytest.mark.stores(*FILES)
def test_streams_that_cannot_be_aborted(store: Store, path: str) -> None:
    """They publish what was written, as files do; the exception is the one that is seen."""
    with pytest.raises(KeyError) as raised, contextlib.closing(store.fs.create(path)) as out:
        out.write(b"kept")
        raise KeyError
    assert not hasattr(raised.value, "__notes__")
    assert store.content(path) == b"kept"


@pytest.mark.rule("CLOSE-24")
@pytest.mark.rule("CLOSE-20", on=FILES)
def test_closing_the_file_system(store: Store, path: str) -> None:
    """An exception through the `with` block of a file system comes out as it is."""
    error = KeyError("of the program")
    with (
        pytest.raises(KeyError) as raised,
        hflush.FileSystem.new_instance(store.url(), store.conf) as fs,
    ):
        out = fs.create(path)
        raise error
    assert raised.value is error
    assert out.closed


# --- archives and the like, which close nothing that they were given ------------------------------


def as_zip(out: Any) -> None:
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", b"x" * 1000)


def as_tar(out: Any) -> None:
    with tarfile.open(fileobj=out, mode="w|gz") as archive:
        member = tarfile.TarInfo("a")
        member.size = 1000
        archive.addfile(member, io.BytesIO(b"x" * 1000))


def as_gzip(out: Any) -> None:
    with gzip.open(out, "wt", encoding="utf-8") as text:
        text.write("x" * 1000)


def as_csv(out: Any) -> None:
    with io.TextIOWrapper(out, encoding="utf-8", newline="") as text:
        csv.writer(text).writerows([number, "x"] for number in range(100))


@pytest.mark.rule("CLOSE-1", "CLOSE-24")
@pytest.mark.parametrize("write", [as_zip, as_tar, as_gzip, as_csv])
def test_libraries_succeed(whole: Whole, write: Callable[[Any], None]) -> None:
    """What they do inside, exceptions that they handle included, keeps nothing from being there."""
    try:
        raise KeyError("of an earlier attempt")
    except KeyError:
        with contextlib.closing(whole()) as out:
            write(out)
    assert len(whole.content()) > len(OLD)


# --- collected ------------------------------------------------------------------------------------


class Deleted:
    """Closes what it has when it is collected, as pyarrow's ParquetWriter does."""

    def __init__(self, out: Any) -> None:
        self._out = out
        self.write = out.write

    def close(self) -> None:
        self._out.close()

    def __del__(self) -> None:
        self.close()


class DeletedFarBelow(Deleted):
    """The same, by classes over classes."""

    def __del__(self) -> None:
        self.end(20)

    def end(self, depth: int) -> None:
        if depth == 0:
            self.close()
        else:
            self.end(depth - 1)


class ByItsName(Deleted):
    """Its close() is its ``__del__``."""

    def close(self) -> None:
        self.__del__()

    def __del__(self) -> None:
        self._out.close()


class Marked(Deleted):
    """Has a field of the name that io marks its objects with."""

    _finalizing = False

    def close(self) -> None:
        self._finalizing = True
        self._out.close()


class Table(dict[str, Any]):
    """A dict whose keys are its attributes."""

    __getattr__ = dict.__getitem__

    def __init__(self, out: Any) -> None:
        super().__init__(write=out.write, out=out)

    def close(self) -> None:
        self.out.close()


@pytest.mark.rule("CLOSE-21")
@pytest.mark.parametrize("kind", [ByItsName, Marked, Table])
def test_what_looks_like_a_finaliser(either: Whole, kind: Callable[[Any], Any]) -> None:
    held = kind(either())
    held.write(b"x")
    held.close()
    assert either.content() == b"x"


COLLECTED: dict[str, Callable[[Any], Any]] = {
    "itself": lambda out: out,
    "TextIOWrapper": WRAPPERS["TextIOWrapper"],
    "BufferedWriter": WRAPPERS["BufferedWriter"],
    "text over a buffer": WRAPPERS["text over a buffer"],
    "gzip": lambda out: gzip.open(out, "wb"),
    "text over gzip": lambda out: gzip.open(out, "wt"),
    "zip": lambda out: zipfile.ZipFile(out, "w"),
    "__del__": Deleted,
    "far below __del__": DeletedFarBelow,
    "__del__ that close calls": ByItsName,
    "a file object of one's own": Closed,
}


@pytest.mark.rule("CLOSE-21", "CLOSE-25")
@pytest.mark.parametrize("in_a_cycle", [False, True])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the wrappers
@pytest.mark.parametrize("wrapper", COLLECTED)
def test_a_collected_wrapper(either: Whole, wrapper: str, in_a_cycle: bool) -> None:
    """It leaves what a dropped stream leaves: nothing new, and a warning that names it."""
    out = either()
    name = out.path
    held = [COLLECTED[wrapper](out)]
    if wrapper not in ("text over gzip", "zip"):
        held[0].write("x" if isinstance(held[0], io.TextIOBase) else b"x")
    if in_a_cycle:
        held.append(held)
    with pytest.warns(hflush.NotPublishedWarning, match="not published") as caught:
        del out, held
        gc.collect()
    said = [str(one.message) for one in caught if one.category is hflush.NotPublishedWarning]
    assert len(said) == 1
    assert name in said[0]
    assert either.content() == OLD


@pytest.mark.rule("CLOSE-21", "CLOSE-25")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the wrappers
@pytest.mark.parametrize("wrapper", ["TextIOWrapper", "BufferedWriter"])
def test_a_collected_wrapper_of_a_file(store: Store, path: str, wrapper: str) -> None:
    """Streams that cannot be aborted are abandoned: what was flushed is there, the rest is not."""
    file = WRAPPERS[wrapper](store.fs.create(path))
    put(file, "x")
    with pytest.warns(hflush.NotPublishedWarning, match="never closed"):
        del file
    assert store.visible(path) == b""


@pytest.mark.rule("CLOSE-21")
@pytest.mark.filterwarnings("ignore::hflush.NotPublishedWarning")
def test_a_forgotten_stream_is_logged(whole: Whole, caplog: pytest.LogCaptureFixture) -> None:
    """Where logging is set up, it is logged as well."""
    out = whole()
    name = out.path
    with caplog.at_level(logging.ERROR, logger="hflush"):
        del out
    assert [(one.name, name in one.message) for one in caplog.records] == [("hflush.streams", True)]


# --- at exit --------------------------------------------------------------------------------------

AT_EXIT = {
    "itself": "held = out",
    "TextIOWrapper": "held = io.TextIOWrapper(out)",
    "BufferedWriter": "held = io.BufferedWriter(out)",
    "gzip": "held = gzip.open(out, 'wb')",
    "dropped": "del out",
    "a cycle": "held = [out]; held.append(held)",
    "a thread": (
        "threading.Thread(target=lambda out=out: event.wait(), daemon=True).start(); del out"
    ),
}

PROGRAM = """
import gzip, hflush, io, sys, threading
from hflush.checkpoint import CheckpointFileManager
event = threading.Event()
url, name, conf = sys.argv[1], sys.argv[2], eval(sys.argv[3])
fs = hflush.FileSystem.get(url, conf)
if sys.argv[4] == "checkpoint":
    out = CheckpointFileManager.create(url, conf).create_atomic(name, True)
else:
    out = fs.create(name, atomic=sys.argv[4] == "atomic")
out.write(b"data")
"""


WITHIN_CLOSE = """
import os, sys, threading
import hflush
pipe = sys.argv[1]
os.mkfifo(pipe)
reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
out = hflush.open(pipe, "wb")
out.write(bytes(80 << 10))
threading.Thread(target=out.close, daemon=True).start()
while out._state != "closing":
    pass
"""


@pytest.mark.rule("CLOSE-21")
@pytest.mark.stores("raw")
def test_exit_while_a_daemon_thread_closes_a_pipe_that_is_not_read(store: Store) -> None:
    """The process ends, as with a file of Python's, and says so."""
    run = subprocess.run(
        [sys.executable, "-c", WITHIN_CLOSE, store.path("pipe")],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert run.returncode == 0, run.stderr
    assert "ends within its close" in run.stderr


@pytest.mark.rule("CLOSE-21", "CLOSE-25", "CLOSE-26")
@pytest.mark.stores(*SHARED)
@pytest.mark.parametrize("kind", ["plain", "atomic", "checkpoint"])
@pytest.mark.parametrize("end", AT_EXIT)
def test_left_open_at_exit(store: Store, path: str, end: str, kind: str) -> None:
    """Python without options names the path on stderr, and nothing is published."""
    if kind != "plain":
        store.write(path, OLD)
    arguments = [store.url(), path, repr(dict(store.conf)), kind]
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM + AT_EXIT[end], *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert run.returncode == 0, run.stderr
    assert len(re.findall("NotPublishedWarning: .*not published", run.stderr)) == 1, run.stderr
    assert path in run.stderr
    if kind != "plain":
        assert store.content(path) == OLD
    else:
        assert store.visible(path) == b""
