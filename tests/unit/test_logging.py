"""hflush.logging.Handler: records in a file, as durable as their levels ask for."""

from __future__ import annotations

import atexit
import gc
import logging
import multiprocessing
import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hflush
import pytest
from hflush import filesystem, opening, registry
from hflush.local import LocalFileSystem
from hflush.logging import Handler, _close_all
from hflush.registry import Store
from support.forks import in_child
from support.scripted_s3 import BUCKET, ScriptedS3
from support.waiting import DEADLINE_S, Task, together


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    logger = logging.Logger("test")
    yield logger
    for handler in logger.handlers:
        handler.close()


def added(logger: logging.Logger, handler: Handler) -> Handler:
    logger.addHandler(handler)
    return handler


def counts(handler: Handler) -> tuple[int, int]:
    stream = handler._stream
    assert stream is not None
    statistics = stream.io_statistics().counters
    return statistics.get("op_hflush", 0), statistics.get("op_hsync", 0)


def test_a_record_is_seen_at_once_and_an_error_is_on_disk(
    log: logging.Logger, tmp_path: Path
) -> None:
    handler = added(log, Handler(tmp_path / "log"))
    log.info("grün %d", 1)
    assert (tmp_path / "log").read_text("utf-8") == "grün 1\n"
    assert counts(handler) == (1, 0)
    log.error("two")
    assert counts(handler) == (1, 1)
    handler.close()
    assert (tmp_path / "log").read_text("utf-8") == "grün 1\ntwo\n"


def test_levels_say_what_is_passed_on(log: logging.Logger, tmp_path: Path) -> None:
    handler = added(log, Handler(tmp_path / "log", hflush_level="WARNING", hsync_level="CRITICAL"))
    log.info("one")
    assert (tmp_path / "log").read_bytes() == b""
    log.warning("two")
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"
    assert counts(handler) == (1, 0)
    log.info("three")
    handler.flush()
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\nthree\n"


def test_modes_and_delay(log: logging.Logger, tmp_path: Path) -> None:
    path = tmp_path / "log"
    late = added(log, Handler(path, "x", delay=True))
    assert not path.exists()
    log.info("one")
    late.close()
    with pytest.raises(FileExistsError):
        Handler(path, "x")
    Handler(path, "w").close()
    assert path.read_bytes() == b""
    with pytest.raises(ValueError, match="mode must be"):
        Handler(path, "r")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="LOUD"):
        Handler(path, hsync_level="LOUD")


def test_a_change_of_the_directory(
    log: logging.Logger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative name is that of when the handler was made, as of logging.FileHandler."""
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    handler = added(log, Handler("log", delay=True))
    monkeypatch.chdir("below")
    log.info("one")
    handler.close()
    log.info("two")
    assert (tmp_path / "log").read_text() == "one\ntwo\n"


def test_urls_that_are_none_any_more() -> None:
    with pytest.raises(hflush.InvalidPathError, match="has lost a slash"):
        Handler(pathlib.PurePosixPath("viewfs://t/logs/x"), delay=True)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "locale", None])
def test_encodings_are_those_of_logging(tmp_path: Path, encoding: str | None) -> None:
    """A file has one byte order mark, at its start, also when it is opened again."""
    for made, name in ((logging.FileHandler, "theirs"), (Handler, "ours")):
        for message in ("one", "two", "three"):
            handler = made(tmp_path / name, encoding=encoding, errors=None)
            handler.emit(logging.makeLogRecord({"msg": message}))
            handler.emit(logging.makeLogRecord({"msg": "grün"}))
            handler.close()
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_what_cannot_be_written_is_printed_and_the_file_opened_again(
    log: logging.Logger,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handler = added(log, Handler(tmp_path / "log"))
    log.info("one")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr("hflush.logging._PAUSE_S", 0.0)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, hard))
    log.info("lost")
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, before)
    assert "File too large" in (printed := capsys.readouterr().err)
    assert "lost" in printed
    log.info("two")
    assert handler._stream is not None
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"


def test_a_forked_child_leaves_the_file_to_its_parent(
    log: logging.Logger, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    added(log, Handler(tmp_path / "log"))
    log.info("one")
    if (child := os.fork()) == 0:
        log.info("child")
        log.info("child")
        os._exit(0)
    os.waitpid(child, 0)
    log.info("two")
    assert capfd.readouterr().err.count("Message: 'child'") == 2
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"


def test_what_writing_a_record_logs_is_behind_it(
    log: logging.Logger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Chatty(Handler):
        def _write(self, line: bytes, level: int) -> None:
            log.debug("about %s", line.decode().strip())
            super()._write(line, level)

    added(log, Chatty(tmp_path / "log"))
    log.info("one")
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[:2] == ["one", "about one"]
    assert len(lines) == 9  # there is an end
    assert capsys.readouterr().err.count("Message: 'about %s'") == 1


def test_what_formatting_a_record_logs_is_before_it(log: logging.Logger, tmp_path: Path) -> None:
    class Talking:
        def __str__(self) -> str:
            for number in range(20):
                log.error("%d", number)
            return "one"

    added(log, Handler(tmp_path / "log"))
    log.error(Talking())
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines == [*map(str, range(20)), "one"]  # as of logging.FileHandler


class Slow:
    """An opening of files that goes on when it is let."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.let = threading.Event(), threading.Event()
        self.open = opening.open
        monkeypatch.setattr(opening, "open", self)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.begun.set()
        assert self.let.wait(DEADLINE_S)
        return self.open(*arguments, **options)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    return Slow(monkeypatch)


def test_a_closed_handler_opens_the_file_again(tmp_path: Path) -> None:
    """DictConfig closes all handlers, and leaves them where they are; the end closes it, too."""
    program = (
        "import logging, logging.config, hflush.logging\n"
        "log = logging.getLogger('app')\n"
        "log.setLevel('INFO')\n"
        f"log.addHandler(hflush.logging.Handler({str(tmp_path / 'log')!r}, 'w', hflush_level=50))\n"
        "for number in range(2):\n"
        "    log.info(number)\n"
        "    logging.config.dictConfig({'version': 1, 'disable_existing_loggers': False})\n"
        "log.info('end')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=DEADLINE_S)
    assert (tmp_path / "log").read_bytes() == b"0\n1\nend\n"


def test_no_record_is_lost_when_a_handler_is_closed(log: logging.Logger, tmp_path: Path) -> None:
    """Threads log, each in its order, while another one closes; the file is replaced once."""
    handler = added(log, Handler(tmp_path / "log", "w", delay=True, hsync_level=60))
    numbers = [str(number) for number in range(200)]

    def record(name: str) -> None:
        for number in numbers:
            log.info("%s %s", name, number)

    def close() -> None:
        for _ in numbers:
            handler.close()

    together(lambda: record("a"), lambda: record("b"), close)
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    for name in "ab":
        assert [number for of, number in lines if of == name] == numbers


@pytest.mark.parametrize(
    ("scheme", "options"), [("file+crc", {}), ("file", {"atomic": True}), ("file", {})]
)
def test_a_closed_handler_refuses(
    log: logging.Logger,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    scheme: str,
    options: dict[str, Any],
) -> None:
    """Where nothing can be appended; otherwise when the process ends."""
    handler = added(log, Handler(f"{scheme}://{tmp_path}/log", "w", **options))
    if scheme == "file" and not options:
        _close_all()
    handler.close()
    handler.close()
    log.info("late")
    assert "the handler is closed" in capsys.readouterr().err
    assert (tmp_path / "log").read_bytes() == b""


@pytest.mark.parametrize(("level", "synced"), [("INFO", ["hflush"]), ("CRITICAL", ["hsync"] * 2)])
def test_a_close_between_a_record_and_its_sync(
    log: logging.Logger,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    level: str,
    synced: list[str],
) -> None:
    """The record is in the file, and on disk if it is to be: that is no failure."""
    handler = added(log, Handler(tmp_path / "log", hflush_level="INFO", hsync_level="CRITICAL"))
    calls: list[str] = []

    def closing(name: str) -> Callable[[Any], None]:
        sync = getattr(hflush.FSDataOutputStream, name)

        def call(stream: Any) -> None:
            calls.append(name)
            if len(calls) == 1:
                handler.close()
            sync(stream)

        return call

    for name in ("hflush", "hsync"):
        monkeypatch.setattr(type(handler._stream), name, closing(name))
    log.log(getattr(logging, level), "record")
    assert (capsys.readouterr().err, calls) == ("", synced)
    assert (tmp_path / "log").read_bytes() == b"record\n"


def test_close_does_not_wait_for_an_opening(
    log: logging.Logger, tmp_path: Path, slow: Slow
) -> None:
    """Its caller may have logging's lock, which the opening needs; the record is published."""
    handler = added(log, Handler(tmp_path / "log", "w", delay=True, atomic=True))
    logging_it = Task(log.info, "one")
    assert slow.begun.wait(DEADLINE_S)
    handler.close()
    slow.let.set()
    logging_it.result()
    assert (tmp_path / "log").read_bytes() == b"one\n"


def test_who_waits_too_long_for_an_opening_is_printed(
    log: logging.Logger,
    tmp_path: Path,
    slow: Slow,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the other thread waits for may be a lock that this one has."""
    added(log, Handler(tmp_path / "log", delay=True))
    logging_it = Task(log.info, "one")
    assert slow.begun.wait(DEADLINE_S)
    monkeypatch.setattr("hflush.logging._WAIT_S", 0.0)
    log.info("two")
    assert "TimeoutError" in (printed := capsys.readouterr().err)
    assert "Message: 'two'" in printed
    slow.let.set()
    logging_it.result()
    assert (tmp_path / "log").read_bytes() == b"one\n"


def test_a_child_that_is_forked_in_an_opening_opens_the_file_itself(
    log: logging.Logger, tmp_path: Path, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    added(log, Handler(tmp_path / "log", delay=True))
    logging_it = Task(log.info, "parent")
    assert slow.begun.wait(DEADLINE_S)

    def child() -> None:
        monkeypatch.setattr(opening, "open", slow.open)
        log.info("child")

    in_child(child)
    slow.let.set()
    logging_it.result()
    assert (tmp_path / "log").read_bytes() == b"child\nparent\n"


class Watched:
    """Logging's lock, which is taken while none of these locks is held."""

    def __init__(self, *others: Any) -> None:
        self._lock = threading.RLock()
        self._others = others
        self.taken = 0

    def acquire(self) -> None:
        assert not any(other._is_owned() for other in self._others)
        self.taken += 1
        self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def test_no_lock_is_held_while_a_file_is_opened(
    log: logging.Logger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stores import, and log, which takes logging's lock; dictConfig takes others after that."""

    class Local(LocalFileSystem):
        def __init__(self, *arguments: Any) -> None:
            logging.getLogger("hflush is made")
            super().__init__(*arguments)

        def _build(self, *arguments: Any) -> Any:
            logging.getLogger("hflush opens")
            return super()._build(*arguments)

    monkeypatch.setattr(registry, "_cache", {})
    monkeypatch.setitem(registry._stores, "file", Store(("file",), Local))
    handler = added(log, Handler(f"file://{tmp_path}/log", delay=True))
    lock = Watched(registry._cache_lock, handler._turns)
    monkeypatch.setattr(logging, "_lock", lock)
    log.info("one")
    assert lock.taken >= 2
    assert (tmp_path / "log").read_bytes() == b"one\n"


def test_no_lock_is_held_while_a_file_is_closed(
    log: logging.Logger,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the closing itself logs does not wait for it: it is refused, or written behind."""

    class Failing:
        _state = "failed"

        def write(self, _: bytes) -> None:
            raise OSError("is full")

        def close(self) -> None:
            log.info("closing")
            before = lock.taken
            logging.getLogger("hflush closes")
            assert lock.taken > before

    handler = added(log, Handler(tmp_path / "log", delay=True))
    lock = Watched(handler._turns)
    monkeypatch.setattr(logging, "_lock", lock)
    handler._stream = Failing()  # type: ignore[assignment]
    handler.close()
    assert "the handler is closed" in (printed := capsys.readouterr().err)
    assert "Message: 'closing'" in printed
    handler._stream = Failing()  # type: ignore[assignment]
    log.info("one")
    assert "is full" in capsys.readouterr().err
    assert (tmp_path / "log").read_bytes() == b"closing\n"


def test_the_log_of_a_job_that_fails_is_published(log: logging.Logger) -> None:
    """Where other files are aborted, because an exception is being handled."""
    with ScriptedS3() as server:
        handler = added(log, Handler(f"s3://{BUCKET}/log", "w", conf=server.conf))
        try:
            raise KeyError("gone")
        except KeyError:
            log.exception("the job failed")
            logging.shutdown([weakref.ref(handler)])
        assert server.objects["log"].data.startswith(b"the job failed\nTraceback")


def test_the_log_of_a_worker_that_fails_is_published(log: logging.Logger, tmp_path: Path) -> None:
    """Multiprocessing calls what it has for the end while it handles the exception."""

    def work() -> None:
        added(log, Handler(tmp_path / "log", "w", atomic=True))
        log.error("about to fail")
        raise KeyError("gone")

    worker = multiprocessing.get_context("fork").Process(target=work)
    worker.start()
    worker.join(DEADLINE_S)
    assert worker.exitcode == 1
    assert (tmp_path / "log").read_bytes() == b"about to fail\n"


def test_what_is_open_at_the_end_is_published(tmp_path: Path) -> None:
    program = (
        "import logging, hflush.logging\n"
        f"handler = hflush.logging.Handler({str(tmp_path / 'log')!r}, 'w', atomic=True)\n"
        "logging.getLogger().addHandler(handler)\n"
        "logging.error('last words')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=DEADLINE_S)
    assert (tmp_path / "log").read_bytes() == b"last words\n"


def test_a_handler_that_is_dropped_is_kept_while_it_is_open(
    log: logging.Logger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records are in the file at the end; one that is closed, or has failed, is let go."""
    log.addHandler(Handler(tmp_path / "log", "w", atomic=True))
    log.error("one")
    log.handlers.clear()
    gc.collect()
    _close_all()
    assert (tmp_path / "log").read_bytes() == b"one\n"
    closed, failed = Handler(tmp_path / "a"), Handler(tmp_path / "b")
    closed.close()
    monkeypatch.setattr(logging, "raiseExceptions", False)
    assert failed._stream is not None
    failed._stream._abandon()
    failed.emit(logging.makeLogRecord({}))
    gone = [weakref.ref(closed), weakref.ref(failed)]
    del closed, failed
    gc.collect()
    assert [one() for one in gone] == [None, None]


def test_many_handlers_leave_one_call_for_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(atexit, "register", calls.append)
    monkeypatch.setattr(atexit, "unregister", lambda call: call in calls and calls.remove(call))
    for _ in range(3):
        Handler(tmp_path / "log").close()
    assert calls == [_close_all]
    assert filesystem._at_end.count(_close_all) == 1


def test_an_object_is_published_at_the_end() -> None:
    """Before the store ends what is open."""
    with ScriptedS3() as server:
        program = (
            "import logging, hflush.logging\n"
            f"conf = {server.conf!r}\n"
            f"handler = hflush.logging.Handler('s3://{BUCKET}/log', 'w', delay=True, conf=conf)\n"
            "logging.getLogger().addHandler(handler)\n"
            "logging.error('last words')\n"
        )
        subprocess.run([sys.executable, "-c", program], check=True, timeout=DEADLINE_S)
        assert server.objects["log"].data == b"last words\n"


def test_a_failure_at_the_end_is_printed(tmp_path: Path) -> None:
    program = (
        "import logging, os, hflush.logging\n"
        f"handler = hflush.logging.Handler({str(tmp_path / 'd' / 'log')!r}, 'w', atomic=True)\n"
        "logging.getLogger().addHandler(handler)\n"
        "logging.error('last words')\n"
        "import shutil\n"
        f"shutil.rmtree({str(tmp_path / 'd')!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        timeout=DEADLINE_S,
        capture_output=True,
        text=True,
    )
    assert "FileNotFoundError" in done.stderr
