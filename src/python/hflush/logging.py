"""Handler: log records in a file of any store, each as durable as its level asks for.

    handler = hflush.logging.Handler("hdfs://nn:8020/logs/job.log", hsync_level=logging.WARNING)
    logging.getLogger().addHandler(handler)

Notes
-----
Source: ``logging.FileHandler``, whose arguments and messages these are; contract HFLUSH, HSYNC.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
import weakref
from itertools import islice
from typing import TYPE_CHECKING, cast

from . import _core, opening, paths
from .capabilities import APPEND, CREATE_IN_CLOSE, HSYNC
from .configuration import Configuration
from .errors import StreamClosedError, without_passwords
from .filesystem import FileSystem, call_first_at_end

if TYPE_CHECKING:
    from typing import Any, Literal

    from .namespace import Conf
    from .output import FSDataOutputStream
    from .paths import StrPath

__all__ = ["Handler"]


class Handler(logging.Handler):
    """A handler that writes each record to a stream of hflush, followed by `terminator`.

    Parameters
    ----------
    url : str or os.PathLike
        As for :func:`hflush.create`. A relative name of a local file is taken when the handler is
        made: a later ``os.chdir`` makes no difference.
    mode : str
        ``a`` appends, and makes the file if there is none; ``w`` replaces it; ``x`` wants a new
        one. On stores that cannot append (S3), ``w`` or ``x``.
    encoding, errors : str or None
        As for the built-in ``open()``; by default characters that `encoding` lacks are escaped.
    delay : bool
        Whether the file is opened by the first record only. Use it in a ``dictConfig`` that is
        called while other threads run: that would open the file under logging's lock.
    hflush_level, hsync_level : int or str
        From which level on readers see a record, and it is on disk, when the logging call returns.
        What is below `hflush_level` is handed on in larger pieces. A store that cannot
        (``has_capability("hsync")`` is False) shows the records when the handler is closed.
    conf : mapping, optional
        Hadoop keys, as for :func:`hflush.create`.
    **options
        As for ``FileSystem.create`` and ``append``. ``close_on_exception`` is ``publish`` by
        default: the log of a job that fails is wanted most.

    Attributes
    ----------
    terminator : str
        What follows each record: a newline.

    Raises
    ------
    ValueError, TypeError, OSError
        As :func:`hflush.open`, and for levels that logging does not know.

    Notes
    -----
    Logging calls raise nothing: a record that cannot be written goes to :meth:`handleError`, which
    prints the failure and the record. A stream that has failed is closed, and a record that comes
    10 s later opens the file again, to append. So does a record that comes after :meth:`close`,
    which ``logging.config.dictConfig`` calls of every handler. A handler that is still open when
    the process ends, be it dropped, is closed first of all, and a failure of that is printed:
    ``logging.shutdown()`` would swallow it. Threads write side by side, and share what they wait
    for. While one opens or closes the file, others wait up to a minute. What formatting a record
    logs is before it. What writing it logs is behind it, up to eight records: more of them go to
    :meth:`handleError`. A forked child cannot write to its parent's stream.
    """

    terminator = "\n"

    def __init__(
        self,
        url: StrPath,
        mode: Literal["a", "w", "x"] = "a",
        encoding: str | None = "utf-8",
        errors: str | None = "backslashreplace",
        delay: bool = False,
        *,
        hflush_level: int | str = logging.NOTSET,
        hsync_level: int | str = logging.ERROR,
        conf: Conf = None,
        **options: Any,
    ) -> None:
        if mode not in ("a", "w", "x"):
            raise ValueError(f"mode must be 'a', 'w' or 'x', not {mode!r}")
        encoding = opening.resolved(encoding)
        opening.check_text(encoding, errors)
        self.url = _lasting(paths.as_text(url), conf)
        self._mode = mode
        self._mark = "".encode(encoding)  # of byte order: at the start of a file only
        self._encoding = opening.without_mark(encoding)
        self._errors = errors or "strict"
        self._levels = (_level(hflush_level), _level(hsync_level))
        self._conf = conf
        self._options = {"close_on_exception": "publish", **options}
        # Guards the fields below, to change. Not held while a file is opened or closed: imports and
        # records of that take logging's lock, whose holder may want this one. One thread does it,
        # and others wait for that one.
        self._turns = threading.Condition()
        self._changer = 0  # the thread that opens or closes the file, without a lock
        self._stream: FSDataOutputStream | None = None  # None while one does
        self._process = os.getpid()  # which has opened it
        self._is_closed = False  # close() was called since the file began to be opened
        self._opens_again = True  # after close(), too
        self._refused: OSError | None = None  # why the file could not be opened
        self._opens_at = 0.0  # then it is tried again, in seconds of time.monotonic()
        self._inside = _Inside()
        if not delay:
            self._settle(self._open())
        super().__init__()  # from now on logging may close it

    def handle(self, record: logging.LogRecord) -> bool | logging.LogRecord:  # type: ignore[override]
        """Write a record unless a filter drops it; no lock is held while a write or sync waits."""
        passed: bool | logging.LogRecord = self.filter(record)
        if passed:
            self.emit(passed if isinstance(passed, logging.LogRecord) else record)
        return passed

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; what fails goes to :meth:`handleError`."""
        try:
            text = self.format(record) + self.terminator  # which may log, too
            line = text.encode(self._encoding, self._errors)
        except Exception:
            self.handleError(record)
            return
        if self._inside.later is not None:  # it is about the record that is being written
            self._inside.later.append((record, line))
            return
        self._inside.later = later = [(record, line)]
        try:
            for one, line in islice(later, _MOST_LATER):  # these may cause others, without end
                self._write_or_report(one, line)
            for one, _ in later[_MOST_LATER:]:
                self._refuse(one)
        finally:
            self._inside.later = None

    def _write_or_report(self, record: logging.LogRecord, line: bytes) -> None:
        try:
            self._write(line, record.levelno)
        except Exception:
            self.handleError(record)

    def _refuse(self, record: logging.LogRecord) -> None:
        try:
            message = "emit: too many records are logged while one is written"
            raise OSError(errno.ELOOP, message, self.url)
        except OSError:
            self.handleError(record)

    def _write(self, line: bytes, level: int) -> None:
        stream = self._stream or self._reopened()
        try:
            try:
                stream.write(line)
            except StreamClosedError:  # by close(), which another thread has called
                stream = self._reopened()
                stream.write(line)
            visible, durable = self._levels
            if level >= min(visible, durable) and stream.has_capability(HSYNC):
                try:
                    (stream.hsync if level >= durable else stream.hflush)()
                except StreamClosedError:  # by close(), again: what was written is in the file
                    if stream._state != "closed":
                        raise
                    if level >= durable:
                        stream = self._reopened()
                        stream.hsync()
        finally:
            if stream._state != "open":
                self._drop(stream)
            elif self._is_closed:  # while the file was opened
                self.close()

    def _open(self) -> FSDataOutputStream:
        appends = FileSystem.get(self.url, self._conf).has_path_capability(self.url, APPEND)
        opened = opening.open(self.url, self._mode + "b", conf=self._conf, **self._options)
        stream = cast("FSDataOutputStream", opened)
        self._process = os.getpid()
        self._mode = "a"  # from now on it is our file
        if not appends or stream.has_capability(CREATE_IN_CLOSE):
            self._opens_again = False
        if self._mark and stream.tell() == 0:
            stream.write(self._mark)
        if self not in _handlers:
            _handlers.add(self)
            call_first_at_end(_close_all)  # before the store, which is loaded by now, ends streams
        return stream

    def _reopened(self) -> FSDataOutputStream:
        """Return the stream, which this thread opens, or waits for."""
        with self._turns:
            self._turns.wait_for(lambda: not self._changer or self._is_over(), _WAIT_S)
            if self._stream is not None:
                return self._stream
            if self._is_over():
                raise StreamClosedError(errno.EBADF, "emit: the handler is closed", self.url)
            if self._changer:
                message = "emit: another thread opens or closes the file"
                raise TimeoutError(errno.ETIMEDOUT, message, self.url)
            if self._refused is not None and time.monotonic() < self._opens_at:
                raise self._refused.with_traceback(None)  # it would grow by each record
            self._changer, self._is_closed = threading.get_ident(), False
        stream = None
        try:
            stream = self._open()
        except OSError as refused:
            self._pause(refused)
            raise
        finally:
            self._settle(stream)
        return stream

    def _is_over(self) -> bool:
        """Whether no record opens the file: for good, or while this thread itself closes it."""
        is_own = self._changer == threading.get_ident()  # its closing logs, or a signal handler
        return self._is_closed and (is_own or not self._opens_again)

    def _drop(self, failed: FSDataOutputStream) -> None:
        """End a stream that has failed, which the caller reports."""
        with self._turns:
            if self._stream is not failed or self._process != os.getpid():
                return  # in a forked child the file is the parent's
            self._stream, self._changer = None, threading.get_ident()
        try:
            failed.close()
        except OSError as why:
            self._pause(why)
        finally:
            self._settle(None)

    def _settle(self, stream: FSDataOutputStream | None) -> None:
        """Let other threads go on, with what this one has opened."""
        with self._turns:
            self._stream, self._changer = stream, 0
            (_writing.discard if stream is None else _writing.add)(self)
            self._turns.notify_all()

    def _at_fork_reinit(self) -> None:
        """In a forked child, called by logging: the threads that change anything are not here."""
        super()._at_fork_reinit()  # type: ignore[misc]
        self._turns, self._changer = threading.Condition(), 0

    def _pause(self, why: OSError) -> None:
        self._refused = why
        self._opens_at = time.monotonic() + _PAUSE_S

    def flush(self) -> None:
        """Make all records visible, or hand them on where the store cannot."""
        stream = self._stream
        if stream is not None and not stream.closed:
            (stream.hflush if stream.has_capability(HSYNC) else stream.flush)()

    def close(self) -> None:
        """Publish the file, in one attempt. A later record opens it again, to append.

        It is refused where nothing can be appended (S3, checksum sidecars, ``atomic``), and when
        the process ends. If another thread is opening the file, that one closes it.

        Raises
        ------
        OSError
            The first failure, with path.
        """
        super().close()
        with self._turns:
            self._is_closed = True
            stream, self._stream = self._stream, None
            if stream is not None:
                self._changer = threading.get_ident()
        if stream is not None:
            try:
                stream.close()
            finally:  # within a write it is refused: who writes closes it
                self._settle(stream if stream._state == "open" else None)

    def __repr__(self) -> str:
        level = logging.getLevelName(self.level)
        return f"<hflush.logging.Handler {without_passwords(str(self.url))!r} ({level})>"


class _Inside(threading.local):
    """Of each thread: the records that came while it writes one, with that one; None outside."""

    later: list[tuple[logging.LogRecord, bytes]] | None = None


def _lasting(url: str, conf: Conf) -> str:
    """Return a URL that means the same file when the process has changed its directory."""
    location = paths.parse(url)
    if location.scheme is not None or location.path.startswith("/"):
        return url
    default = paths.parse(Configuration.of(conf).default_file_system())
    if default.scheme not in ("file", "file+crc"):
        return url
    return f"{FileSystem.get(url, conf).working_directory}/{url}"


def _level(level: int | str) -> int:
    """Return a level as a number, as logging reads it."""
    return logging.Handler(level).level


def _close_all() -> None:
    """Publish what is open, before the stores are left, and say what fails."""
    for handler in list(_handlers):
        handler._opens_again = False
        try:
            handler.close()
        except Exception as failure:  # the others are closed all the same
            _core.write_unraisable(failure, handler)


_PAUSE_S = 10.0
_WAIT_S = 60.0  # for a thread that opens the file: it may need a lock that the waiting one has
_MOST_LATER = 9
_handlers: weakref.WeakSet[Handler] = weakref.WeakSet()
_writing: set[Handler] = set()  # these have a stream; logging keeps none that a program drops
