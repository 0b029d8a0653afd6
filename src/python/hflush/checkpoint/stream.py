"""The stream that publishes a file of a checkpoint, and how: by a rename, or in place."""

from __future__ import annotations

import errno
import io
import logging
import os
import threading
from typing import TYPE_CHECKING, TypeVar

from .. import capabilities
from .._core import take_pending
from ..atomic import Publication
from ..errors import attach, means_file_there
from ..write_only import AbortResult, WriteOnly, end, report
from .keys import KEEP_EXISTING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import Buffer

    from ..filesystem import FileSystem
    from ..output import FSDataOutputStream
    from ..statistics import IOStatistics
    from ..status import StreamEvent
    from ..write_only import Owner

__all__ = ["CancellableFSDataOutputStream", "InPlace", "RenamedFile"]

T = TypeVar("T")

_log = logging.getLogger(__name__)


class CancellableFSDataOutputStream(WriteOnly):
    """An output stream that publishes its file on :meth:`close` and drops it on :meth:`cancel`.

    Made by :meth:`CheckpointFileManager.create_atomic`; thread-safe. Registered with
    :class:`io.BufferedIOBase`. Leaving a ``with`` block by an exception cancels, as does a
    :meth:`close` that is called because of an exception. A stream that is garbage-collected, or
    whose wrapper is, publishes nothing, with a :class:`hflush.NotPublishedWarning`, and its
    temporary file stays.
    """

    __module__ = "hflush.checkpoint"

    def __init__(self, stream: FSDataOutputStream, publication: RenamedFile | InPlace) -> None:
        self._stream = stream
        self._publication = publication
        self._older = stream._older
        self._written = stream._error_path  # of the temporary file, if there is one
        if isinstance(publication, RenamedFile):
            stream._name = publication.path  # the name in messages
            publication.own = stream._file_id
        self._process = os.getpid()
        self._turn = threading.RLock()  # of ending: a second caller waits for the outcome
        self._is_closing = False
        self._terminated = False

    # --- ending ---

    def close(self) -> None:
        """Publish, in one attempt. A second call, or one after :meth:`cancel`, is a no-op.

        A call that is made because of an exception cancels, and raises that exception again: see
        :meth:`hflush.FSDataOutputStream.close`.

        Raises
        ------
        FileExistsError
            A file exists and must not be overwritten; it is intact.
        NotDurableError
            The file is published, but the directory could not be synced.
        OSError
            Any other failure. Nothing was published, the temporary file is removed; where the store
            cannot be asked whether that is so, a note says that it is not known.
        """
        pending = take_pending()  # first of all: looking up an attribute would clear it
        end(self, pending, self._older, self._publish, self._abandon)

    def _publish(self) -> None:
        """Close, also while an exception is being handled."""
        if self._process != os.getpid():  # a forked child: the parent closes it
            self._stream._publish()
            return
        with self._turn:
            if self._is_closing:
                raise RuntimeError(f"close: reentrant call, from within a close: '{self.path}'")
            if self._terminated:
                return
            self._terminated = self._is_closing = True
            try:
                self._publication.prepare()
                self._named(self._stream._publish)
                if self._stream._state != "closed":  # who closes its file system has ended it
                    message = "close: the stream has ended without this, and is not published"
                    raise OSError(errno.ECANCELED, message, self.path)
                self._publication.publish()
            except BaseException as failure:
                if self._has_refused(failure):
                    self._terminated = False
                    raise
                self._discard(failure)
                if not self._publication.accepts(failure):
                    raise
            finally:
                self._is_closing = False

    def _has_refused(self, failure: BaseException) -> bool:
        return self._stream._has_refused(failure)

    def cancel(self) -> None:
        """Drop the written bytes; the path keeps its content. Never raises OSError.

        A temporary file that cannot be removed is logged. After :meth:`close`, failed or not, a
        no-op.
        """
        self.abort()

    def abort(self) -> AbortResult:
        """Do the same as :meth:`cancel`, and return what happened."""
        if self._process != os.getpid():  # a forked child: the parent's to drop
            return AbortResult(already_closed=True)
        with self._turn:
            if self._terminated:
                return AbortResult(already_closed=True)
            self._terminated = True
            return AbortResult(already_closed=False, cleanup_exception=self._discard(None))

    def _discard(self, failure: BaseException | None) -> OSError | None:
        if isinstance(self._publication, RenamedFile):
            self._stream._abandon()
        try:
            self._publication.discard()
        except Exception as also:
            if failure is not None:
                attach(failure, also)
            _log.warning("a temporary file stays behind: %s", also)
            return also if isinstance(also, OSError) else None
        return None

    def _abandon(self) -> bool:
        """Publish nothing, and wait for nothing; return whether it was open."""
        was_open = not self._terminated
        self._terminated = True
        return self._stream._abandon() and was_open

    def __del__(self, _report: Callable[..., None] = report) -> None:
        if self._abandon():
            _report(self, "never closed, not published")

    @property
    def _error_path(self) -> str:
        return self._publication.filesystem._named(self.path)

    # --- calls of the stream below ---

    def write(self, b: Buffer, off: int = 0, len: int | None = None) -> int:
        """Append ``b[off:off + len]``: as :class:`hflush.FSDataOutputStream` does."""
        return self._named(self._stream.write, b, off, len)

    def write_byte(self, value: int, /) -> None:
        """Append one byte: the low 8 bits of `value`."""
        self._named(self._stream.write_byte, value)

    def writelines(self, lines: Iterable[Buffer], /) -> None:
        """Write each of `lines`, unchanged."""
        self._named(self._stream.writelines, lines)

    def flush(self) -> None:
        """Hand bytes to the next layer; promises nothing."""
        self._named(self._stream.flush)

    def hflush(self) -> None:
        """Make every byte written so far visible in the temporary file."""
        self._named(self._stream.hflush)

    def hsync(self, end_block: bool = False) -> None:
        """Put every byte written so far on disk, in the temporary file; and end its block."""
        self._named(self._stream.hsync, end_block)

    def set_drop_behind(self, value: bool | None, /) -> None:
        """Pass the advice on."""
        self._named(self._stream.set_drop_behind, value)

    def _named(self, operation: Callable[..., T], *arguments: object) -> T:
        """Call the stream below; its failure names the path, and not the temporary file."""
        try:
            return operation(*arguments)
        except OSError as failure:
            if failure.filename == self._written:
                failure.filename = self._error_path
            raise

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._stream.tell()

    def get_pos(self) -> int:
        """Return the position in bytes: Hadoop's name for :meth:`tell`."""
        return self._stream.get_pos()

    def has_capability(self, name: str, /) -> bool:
        """Return what the stream below answers; but this one can be aborted, and not persisted."""
        wanted = capabilities.canonical(name)
        return wanted == capabilities.ABORTABLE or (
            wanted != capabilities.PERSIST and self._stream.has_capability(name)
        )

    def io_statistics(self) -> IOStatistics:
        """Return the statistics of the stream below."""
        return self._stream.io_statistics()

    def history(self) -> list[StreamEvent]:
        """Return what happened last to the stream below."""
        return self._stream.history()

    @property
    def closed(self) -> bool:
        """Whether nothing can be written any more."""
        return self._terminated or self._stream.closed

    @property
    def path(self) -> str:
        """Where the file will appear: absolute, in the store."""
        return self._publication.path

    @property
    def name(self) -> str:
        """The same as :attr:`path`."""
        return self.path

    @property
    def mode(self) -> str:
        """``"wb"`` or ``"xb"``: whether a file there would be replaced."""
        return "wb" if self._publication.overwrite else "xb"

    @property
    def _owner(self) -> Owner:
        return self._stream._owner

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<hflush.checkpoint.{type(self).__name__} {self.path!r} {state}>"


io.BufferedIOBase.register(CancellableFSDataOutputStream)


class RenamedFile(Publication):
    """One temporary file of a manager on its way to a path."""

    def __init__(
        self,
        filesystem: FileSystem,
        temporary: str,
        path: str,
        *,
        overwrite: bool,
        durable: bool,
        rename: Callable[[str, str, bool], None],
    ) -> None:
        super().__init__(filesystem, temporary, path, overwrite, durable=durable)
        self._rename_by = rename

    def prepare(self) -> None:
        """Do nothing: the rename checks the path."""

    def _rename(self) -> None:
        self._rename_by(self.temporary, self.path, self.overwrite)

    def accepts(self, failure: BaseException) -> bool:  # noqa: ARG002
        """Whether an earlier file counts as this one: not here, the rename has handled that."""
        return False


class InPlace:
    """A stream that publishes at its path when it is closed.

    If a file must not be replaced, and the store cannot refuse that, the path is checked before.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        stream: FSDataOutputStream,
        *,
        overwrite: bool,
        looks: bool,
        keep_existing: bool,
    ) -> None:
        self.filesystem = filesystem
        self._stream = stream
        self._looks = looks
        self._keep_existing = keep_existing
        self.path = stream.path
        self.overwrite = overwrite

    def prepare(self) -> None:
        """Refuse to publish over a file that has appeared."""
        if self._looks and self.filesystem.exists(self.path):
            name = self.filesystem._named(self.path)
            raise FileExistsError(errno.EEXIST, "close: path exists", name)

    def publish(self) -> None:
        """Do nothing: closing the stream has published the file."""

    def accepts(self, failure: BaseException) -> bool:
        """Whether an earlier file counts as this one."""
        kept = self._keep_existing and means_file_there(failure)
        if kept:
            _log.info("%s exists and is kept, as %s asks", self.path, KEEP_EXISTING)
        return kept

    def discard(self) -> None:
        """Abort; raise the failure of the clean-up."""
        left = self._stream.abort().cleanup_exception
        if left is not None:
            raise left
