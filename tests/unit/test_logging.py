"""hflush.logging.Handler: records in a file, as durable as their levels ask for."""

from __future__ import annotations

import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hflush.logging import Handler
from support.scripted_s3 import BUCKET, ScriptedS3


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


def test_what_is_logged_about_a_record_is_behind_it(log: logging.Logger, tmp_path: Path) -> None:
    class Chatty(Handler):
        def format(self, record: logging.LogRecord) -> str:
            log.debug("about %s", record.getMessage())
            return super().format(record)

    added(log, Chatty(tmp_path / "log"))
    log.info("one")
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[:2] == ["one", "about one"]
    assert len(lines) == 9  # there is an end


def test_a_closed_handler_refuses(
    log: logging.Logger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = added(log, Handler(tmp_path / "log"))
    handler.close()
    handler.close()
    log.info("late")
    assert "the handler is closed" in capsys.readouterr().err
    assert (tmp_path / "log").read_bytes() == b""


def test_what_is_open_at_the_end_is_published(tmp_path: Path) -> None:
    program = (
        "import logging, hflush.logging\n"
        f"handler = hflush.logging.Handler({str(tmp_path / 'log')!r}, 'w', atomic=True)\n"
        "logging.getLogger().addHandler(handler)\n"
        "logging.error('last words')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert (tmp_path / "log").read_bytes() == b"last words\n"


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
        subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
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
        [sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True
    )
    assert "FileNotFoundError" in done.stderr
