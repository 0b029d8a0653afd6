"""Transactions of fsspec: files that are written one by one, and appear together at the end.

Each is written aside, or uploaded, and is stored whole when the program closes it.
The end of the transaction takes one step for each: a rename, or the request that completes an
upload. Several are under way at once, none before every file has been closed.
"""

from __future__ import annotations

import enum
import errno
import os
import threading
from typing import TYPE_CHECKING, Any, Protocol

from fsspec.transaction import Transaction  # type: ignore[import-untyped]

from .._core import take_pending
from ..capabilities import HSYNC
from ..errors import StreamClosedError, attach, note
from ..output import FSDataOutputStream
from ..workers import Workers
from ..write_only import AbortResult, end
from .files import DISCARDED, FsspecFile, OutputOver

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]
    from typing_extensions import Buffer

__all__ = ["Deferred", "HeldFile", "TransactionFile", "WriteTransaction", "dropped"]

_THREADS = 16


class Deferred(Protocol):
    """How one file of a transaction is kept until it is published."""

    stream: FSDataOutputStream

    def seal(self) -> None:
        """Store every written byte so that one step can publish the file."""

    def publish(self) -> None:
        """Publish the file by that step."""

    def discard(self) -> OSError | None:
        """Remove everything; return the failure, if any."""


def dropped(path: str) -> OSError:
    """Return the refusal to publish what is not there: aborted, also by who closed its store."""
    return OSError(errno.ECANCELED, "commit: the file was dropped", path)


class HeldFile:
    """An atomic stream that stays open: its bytes are on disk when it is sealed."""

    def __init__(self, stream: FSDataOutputStream) -> None:
        self.stream = stream

    def seal(self) -> None:
        """Put every byte on disk, under its temporary name."""
        FSDataOutputStream.write(self.stream, b"")  # is refused within a write, as hsync is not
        if FSDataOutputStream.has_capability(self.stream, HSYNC):
            FSDataOutputStream.hsync(self.stream)  # the stream's own would refuse
        else:
            self.stream.flush()

    def publish(self) -> None:
        """Rename."""
        self.stream._publish()
        if self.stream._state != "closed":
            raise dropped(self.stream.path)

    def discard(self) -> OSError | None:
        """Remove the temporary file."""
        return self.stream.abort().cleanup_exception


class State(enum.Enum):
    """The states of a file of a transaction."""

    OPEN = "open"
    SEALED = "closed, not published yet"
    PUBLISHED = "published"
    DISCARDED = DISCARDED


class TransactionFile(FsspecFile, OutputOver):
    """A file that :meth:`close` does not publish: :meth:`commit` does, :meth:`discard` drops it.

    fsspec's transactions call them; with ``autocommit=False`` the program does. An
    exception that leaves the ``with`` block, or brings about :meth:`close`, drops the file.
    """

    def __init__(self, deferred: Deferred, fs: AbstractFileSystem, name: str) -> None:
        self._deferred = deferred
        self._stream = deferred.stream
        self._opened_as = (fs, name, None, {})
        self._state = State.OPEN
        self._older = deferred.stream._older
        self._process = os.getpid()
        self._lock = threading.RLock()

    # --- ending ---

    def close(self) -> None:
        """Declare the file complete: nothing more can be written. A second call is a no-op.

        Raises
        ------
        OSError
            Some bytes could not be written. The file is not published.
        BaseException
            The exception that is being handled: as :meth:`hflush.FSDataOutputStream.close`.
        """
        pending = take_pending()  # first of all: looking up an attribute would clear it
        end(self, pending, self._older, self._seal, self._abandon)

    def _abandon(self) -> bool:
        """Drop an open file, and wait for nothing; return whether it was one."""
        if self._state is not State.OPEN:
            return False
        self._state = State.DISCARDED
        return self._stream._abandon()

    @property
    def _is_inherited(self) -> bool:
        """Whether this is a forked child: the parent publishes the file, or drops it."""
        return self._process != os.getpid()

    def _seal(self) -> None:
        if self._is_inherited:
            self._state = State.DISCARDED
            return
        with self._lock:
            if self._state is not State.OPEN:
                return
            try:
                self._deferred.seal()
            except BaseException as failure:
                if not self._stream._has_refused(failure):
                    self._drop(failure)
                raise
            self._state = State.SEALED

    def commit(self) -> None:
        """Publish a file that was closed.

        Raises
        ------
        ValueError
            It is still open: a wrapper may hold bytes back.
        OSError
            It was dropped; it was opened before a fork; the store refuses.
        """
        if self._is_inherited:
            message = "commit: the file was opened before fork, by another process"
            raise StreamClosedError(errno.EBADF, message, self.path)
        with self._lock:
            if self._state is State.PUBLISHED:
                return
            if self._state is State.OPEN:
                raise ValueError(f"commit: {self.path} is still open: close it first")
            if self._state is State.DISCARDED:
                raise dropped(self.path)
            try:
                self._deferred.publish()
            except BaseException as failure:
                if not self._stream._has_refused(failure):
                    self._drop(failure)
                raise
            self._state = State.PUBLISHED

    def discard(self) -> None:
        """Drop the file: the path keeps its content. After :meth:`commit` a no-op.

        Raises
        ------
        OSError
            The temporary file could not be removed.
        """
        if self._is_inherited:
            return
        with self._lock:
            if self._state in (State.PUBLISHED, State.DISCARDED):
                return
            self._state = State.DISCARDED
            left = self._deferred.discard()
        if left is not None:
            raise left

    def abort(self) -> AbortResult:
        """Drop the file, and return what happened: as :meth:`hflush.FSDataOutputStream.abort`."""
        already = self._state in (State.PUBLISHED, State.DISCARDED)
        try:
            self.discard()
        except OSError as failure:
            return AbortResult(already, failure)
        return AbortResult(already)

    def _drop(self, failure: BaseException) -> None:
        """Remove everything of a file that has failed."""
        self._state = State.DISCARDED
        left = self._deferred.discard()
        if left is not None:
            attach(failure, left)

    # --- the stream below ---

    def write(self, b: Buffer, /) -> int:
        """Append bytes; returns how many: all."""
        self._check_open("write")
        return self._stream.write(b)

    def flush(self) -> None:
        """Hand bytes to the next layer; promises nothing."""
        if self._state is State.OPEN:
            self._stream.flush()

    def hflush(self) -> None:
        """Refuse, as an atomic stream: nothing is visible before the file is published."""
        self._check_open("hflush")
        self._stream.hflush()

    def hsync(self, end_block: bool = False) -> None:
        """Refuse, as :meth:`hflush`."""
        self._check_open("hsync")
        self._stream.hsync(end_block)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._stream.tell()

    @property
    def closed(self) -> bool:
        """Whether nothing can be written any more."""
        return self._state is not State.OPEN

    @property
    def _condition(self) -> str:
        return self._state.value

    def _check_open(self, operation: str) -> None:
        if self._state is not State.OPEN:
            message = f"{operation}: stream is {self._state.value}"
            raise StreamClosedError(errno.EBADF, message, self.path)

    def __repr__(self) -> str:
        return f"<hflush.fsspec.{type(self).__name__} {self.path!r} {self._state.value}>"


class WriteTransaction(Transaction):  # type: ignore[misc]
    """fsspec's transaction, which publishes nothing unless every file was closed without failing.

    Where the store then refuses one, those that are not published yet are dropped, and the
    exception says which files are published.
    """

    fs: Any

    def start(self) -> None:
        """Begin: files that are opened from now on are published at the end.

        Raises
        ------
        RuntimeError
            One of this file system, of this or of another thread, has begun, and has not ended;
            this one has ended.
        """
        if self.fs is None:
            raise RuntimeError("this transaction has ended: begin another one (fs.transaction)")
        if self.fs._intrans:  # its files would be lost
            raise RuntimeError(
                "a transaction of this file system has begun: end it first, or use another "
                "instance (skip_instance_cache=True)"
            )
        super().start()
        self._process = os.getpid()

    def check_own(self, path: str) -> None:
        """Refuse a new file in a forked child: the parent, which publishes, would not know of it.

        Raises
        ------
        StreamClosedError
            Another process has begun the transaction.
        """
        if self._process != os.getpid():
            message = "open: the transaction was begun before fork, by another process"
            raise StreamClosedError(errno.EBADF, message, path)

    def complete(self, commit: bool = True) -> None:
        """End the transaction: publish, or drop, every file.

        Raises
        ------
        ValueError
            A file is still open. None was published.
        BaseException
            The first failure to publish one, or an interrupt; a note says what is published.
        """
        files: list[TransactionFile] = list(self.files)
        self.files.clear()
        self.fs._intrans = False
        self.fs._transaction = None
        self.fs = None
        try:
            if commit:
                _publish([file for file in files if file._state is not State.DISCARDED])
        except BaseException as failure:
            left = _discard(files)
            if left is not None:
                attach(failure, left)
            raise
        left = _discard(files)
        if left is not None:
            raise left

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.complete()
            return
        try:
            self.complete(commit=False)
        except OSError as also:  # the block's own exception stays the primary one
            attach(error, also)


def _publish(files: Sequence[TransactionFile]) -> None:
    still_open = [file.path for file in files if not file.closed]
    if still_open:
        raise ValueError(
            f"still open at the end of the transaction: {', '.join(still_open)}; nothing was "
            "published: close each file before"
        )
    by_name: dict[str, list[TransactionFile]] = {}  # in order: of one name the last stays
    for file in files:
        by_name.setdefault(file.path, []).append(file)
    failures: list[BaseException] = []

    def publish(same: list[TransactionFile]) -> None:
        for file in same:
            if failures:
                return
            try:
                file.commit()
            except BaseException as failure:
                failures.append(failure)

    if len(by_name) == 1:
        publish(files)  # type: ignore[arg-type]
    elif by_name:
        with Workers(_THREADS, thread_name_prefix="hflush-commit") as executor:
            try:
                list(executor.map(publish, by_name.values()))
            except BaseException as interrupt:
                failures.insert(0, interrupt)
    if failures:
        for also in failures[1:]:
            attach(failures[0], also)
        there = [file.path for file in files if file._state is State.PUBLISHED]
        count = f"{len(there)} of {len(files)}{_listed(there)}"
        note(failures[0], f"files of the transaction that are published: {count}")
        raise failures[0]


def _listed(names: Sequence[str]) -> str:
    return f" ({', '.join(names[:10])}{', …' if len(names) > 10 else ''})" if names else ""


def _discard(files: Iterable[TransactionFile]) -> OSError | None:
    """Drop the files that are not published; return the first failure, if any."""
    first: OSError | None = None
    for file in files:
        try:
            file.discard()
        except OSError as failure:  # noqa: PERF203
            if first is None:
                first = failure
            else:
                attach(first, failure)
    return first
