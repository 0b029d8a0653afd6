"""FSDataOutputStream: the output stream of every store."""

from __future__ import annotations

import io
import threading

from . import _core
from ._core import take_pending
from .capabilities import PERSIST, canonical
from .errors import unsupported
from .statistics import IOStatistics, live
from .write_only import AbortResult, WriteOnly, end, report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import NoReturn

    from typing_extensions import Buffer

    from .claims import Claim
    from .handling import Marks
    from .status import StreamEvent
    from .write_only import Owner

__all__ = ["FSDataOutputStream"]


class FSDataOutputStream(_core.OutputStream, WriteOnly):
    """An output stream with calls that make its bytes visible, durable and published.

    Made by :func:`hflush.create`, :func:`hflush.append`, :func:`hflush.open` and the methods of
    :class:`hflush.FileSystem`; several threads may use one at once. Registered with
    :class:`io.BufferedIOBase`: text wrappers, ``csv``, ``zipfile``, pandas, pyarrow and numpy write
    to it.

    ``write(b, off=0, len=None)`` appends ``b[off:off + len]``, in order, and returns how many bytes
    it took: all of them. `b` is any C-contiguous bytes-like object, counted in bytes, and may be
    reused on return. Concurrent writes interleave whole. No visibility and no durability is
    promised. It raises TypeError for str, None and int; IndexError for bounds outside `b`;
    BufferError for views that are not contiguous; :class:`StreamClosedError`; and the failure of
    earlier work in the background.

    Notes
    -----
    Leaving a ``with`` block by an exception aborts where abort is a capability and otherwise
    closes; the exception stays the primary one. So does a :meth:`close` that a wrapper calls
    because of an exception. A stream that is garbage-collected while open, or whose wrapper is, is
    abandoned with a :class:`hflush.NotPublishedWarning`: nothing more is published. A stream opened
    before a fork raises in the child.
    Source: Hadoop's output stream specification; docs/semantics.md.

    Examples
    --------
    >>> import hflush, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "journal")
    >>> with hflush.create(path) as out:
    ...     _ = out.write(b"record")
    ...     out.hsync()
    """

    __module__ = "hflush.streams"
    __slots__ = (
        "_held",
        "_is_persisting",
        "_mode",
        "_name",
        "_older",
        "_opened_as",
        "_owner",
        "_persisting",
    )

    # The core makes the object without __init__; the file system that asked for it binds it.
    _owner: Owner
    _mode: str
    _name: str
    _opened_as: object  # for fsspec, which has its own names of files
    _older: Marks | None
    _persisting: threading.RLock  # one thread at a time is inside persist()
    _is_persisting: bool
    _held: Claim | None  # what keeps others from the file, from the first persist() on

    def _bind(self, owner: Owner, name: str, mode: str, older: Marks | None) -> None:
        self._owner = owner
        self._name = name
        self._mode = mode
        self._older = older
        self._persisting = threading.RLock()
        self._is_persisting = False
        self._held = None

    # --- writing: write() itself is the core's, a call in between would cost more than it ---

    def write_byte(self, value: int, /) -> None:
        """Append one byte: the low 8 bits of `value`. Otherwise as ``write``."""
        super().write_byte(value)

    # flush() is the core's, too: a library may call it while an exception is pending.

    def hflush(self) -> None:
        """Make every byte whose write has returned visible to new readers anywhere.

        Returns when the store has acknowledged. Durability is not promised. Do not call it for
        every line or record, unless in a write-ahead log: each call waits for the store, and
        ``op_hflush`` of :meth:`io_statistics` shows how often.

        Raises
        ------
        io.UnsupportedOperation
            The store cannot (``has_capability("hsync")`` is False); the stream stays open.
        StreamClosedError
            The stream is not open.
        OSError
            The store failed, and so has the stream. TimeoutError and InterruptedError leave it
            open.

        Notes
        -----
        Source: Hadoop's Syncable; contract HFLUSH-1 to HFLUSH-16.
        """
        super().hflush()

    def hsync(self, end_block: bool = False) -> None:
        """Make every byte whose write has returned visible, and put it on disk: all of them.

        Concurrent calls share one sync. Do not call it for every line or record, unless in a
        write-ahead log: each call waits for a disk, and ``op_hsync`` of :meth:`io_statistics`
        shows how often.

        Parameters
        ----------
        end_block : bool, optional
            Whether the block that holds these bytes ends here, shorter than the block size: the
            next write begins another one. A block without bytes is not made. HDFS only.

        Raises
        ------
        io.UnsupportedOperation, StreamClosedError, OSError
            As :meth:`hflush`. After a failed sync nothing reports the same bytes as durable. On
            HDFS a stream stays open if no DataNode can sync an earlier block now; call again. With
            `end_block` it is unsupported also on raw files, which have no blocks
            (``has_capability("fs.hdfs.capability.end.block")`` is False): nothing is synced then.
        TypeError
            `end_block` is not a bool.

        Notes
        -----
        Source: Hadoop's Syncable, and HdfsDataOutputStream's ``SyncFlag.END_BLOCK``; contract
        HSYNC-1 to HSYNC-17.
        """
        if not isinstance(end_block, bool):
            raise TypeError(f"end_block must be bool, not {type(end_block).__name__}")
        super().hsync(end_block)

    def persist(self) -> bytes:
        """Make every byte whose write has returned recoverable, and return a token for them.

        The stream goes on. Whatever becomes of it and of its process, :func:`hflush.resume` with
        the token goes on at exactly this byte, and :func:`hflush.commit` publishes exactly these
        bytes.
        On raw local files and HDFS this is an :meth:`hsync`; on S3 it waits for the parts that are
        full, and stores what follows them, less than a part, as an object beside.

        Returns
        -------
        bytes
            The token: versioned, without secrets. It stays valid until the file is replaced,
            removed or, on S3, published or aborted. Older tokens of the stream stay valid, too.

        Raises
        ------
        io.UnsupportedOperation
            The store cannot (``has_capability(capabilities.PERSIST)`` is False); the stream stays
            open.
        StreamClosedError, OSError
            As :meth:`hsync`.
        LeaseHeldError
            On local files: another stream that can be resumed is writing the file, or any other
            one has written to it since this one was opened.
        StaleTokenError
            The path does not name the stream's file any more.

        Notes
        -----
        Source: Flink's RecoverableFsDataOutputStream; docs/semantics.md.
        """
        if not self._owner._persists(self):
            raise unsupported("persist", self._owner.store_name, self._error_path)
        with self._persisting:
            if self._is_persisting:
                name = self._error_path
                raise RuntimeError(f"persist: reentrant call, from within a persist: '{name}'")
            self._is_persisting = True
            try:
                return self._owner._persist(self)
            finally:
                self._is_persisting = False

    def set_drop_behind(self, value: bool | None, /) -> None:
        """Drop cached pages behind the writer (True), keep them (False), or do the default (None).

        Raises
        ------
        io.UnsupportedOperation
            The store cannot (``has_capability("dropbehind")`` is False); the stream stays open.
        TypeError
            Neither bool nor None.
        """
        if value is not None and not isinstance(value, bool):
            raise TypeError(f"value must be bool or None, not {type(value).__name__}")
        super().set_drop_behind(value)

    # --- ending ---

    def close(self) -> None:
        """Publish, in one attempt. A second call is a no-op.

        On return the bytes are visible to all. They are durable only after :meth:`hsync` or with
        ``sync_on_close``. It may take long and it may fail, and the stream is closed either way.

        Where abort is a capability, a call that is made while an exception newer than the stream
        (or its ``with`` block) is being handled aborts instead, and raises that exception again.
        ``hflush.close.on-exception``, set to ``publish``, switches that off.

        Raises
        ------
        OSError
            The first failure, with path; other failures are attached as notes.
        BaseException
            The exception that is being handled, with a note that nothing was published.

        Notes
        -----
        Source: Hadoop's output stream specification; contract CLOSE-1 to CLOSE-26.
        """
        pending = take_pending()  # first of all: looking up an attribute would clear it
        end(self, pending, self._older, self._publish, self._abandon)

    def _publish(self) -> None:
        """Close, also while an exception is being handled."""
        try:
            super().close()
        finally:
            if self._state not in ("open", "closing"):  # refused, or another thread's to end
                self._owner._release(self)

    def _has_refused(self, failure: BaseException) -> bool:
        """Whether close() has failed because it came within a write, and the stream goes on."""
        return isinstance(failure, RuntimeError) and self._state == "open"

    def abort(self) -> AbortResult:
        """Publish nothing more: the path keeps its content.

        Returns
        -------
        AbortResult
            Whether there was nothing left to abort, and what failed while cleaning up.

        Raises
        ------
        io.UnsupportedOperation
            Output of this store appears before close, so it cannot be taken back
            (``has_capability("fs.capability.outputstream.abortable")`` is False). The stream stays
            open.

        Notes
        -----
        Source: Hadoop's Abortable specification.
        """
        already_closed, cleanup_exception = self._abort()
        self._owner._release(self)
        return AbortResult(already_closed, cleanup_exception)

    def __del__(self, _report: Callable[..., None] = report) -> None:
        if self._abandon():
            _report(self, "never closed, not published")

    @property
    def _condition(self) -> str:
        return self._state

    # --- what it is ---

    def tell(self) -> int:
        """Return the length of the file: with append what it had before, plus the written bytes.

        Also after close.
        """
        return super().tell()

    def get_pos(self) -> int:
        """Return the position in bytes: Hadoop's name for :meth:`tell`."""
        return super().get_pos()

    def has_capability(self, name: str, /) -> bool:
        """Return whether the stream has a capability, by a name of :mod:`hflush.capabilities`.

        Case does not matter; unknown names are False; a closed stream answers, too.
        Source: Hadoop's StreamCapabilities; contract CAP-1 to CAP-12.

        Raises
        ------
        TypeError
            `name` is not a str.
        """
        wanted = canonical(name)
        if wanted == PERSIST:
            return self._owner._persists(self)
        return super().has_capability(wanted)

    @property
    def closed(self) -> bool:
        """Whether the stream is no longer open, for any reason."""
        return super().closed

    @property
    def name(self) -> str:
        """The name under which :func:`hflush.open` finds the file: a plain path if it is local."""
        return self._name

    @property
    def path(self) -> str:
        """The absolute path in the store, as in ``filename`` of errors."""
        return self._path

    @property
    def mode(self) -> str:
        """``"wb"``, ``"xb"`` or ``"ab"``."""
        return self._mode

    def io_statistics(self) -> IOStatistics:
        """Return what this stream did, also after close: see :mod:`hflush.statistics`."""
        return live(self._flat_statistics)

    def history(self) -> list[StreamEvent]:
        """Return what happened to this stream last, oldest first, also after close.

        On HDFS at most 64 lines, which blocks it wrote where, which DataNodes failed and what the
        NameNode said; elsewhere none. For people: a failure has it, too, as its ``history``.
        """
        return self._history()

    def _flat_statistics(self) -> dict[str, int]:
        flat = self._statistics()
        for name, count in self._own_statistics().items():
            flat[name] = flat.get(name, 0) + count
        return flat

    def _own_statistics(self) -> dict[str, int]:
        """Return the counters that the core does not keep."""
        return {}

    def __repr__(self) -> str:
        # Also of one that an interrupt has ended before it was bound.
        name, mode = getattr(self, "_name", self._path), getattr(self, "_mode", None)
        return f"<hflush.{type(self).__name__} {name=} {mode=} {self._state}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "an open stream cannot be pickled or copied: pickle its FileSystem and path"
        )

    def writelines(self, lines: Iterable[Buffer], /) -> None:
        """Write each of `lines`, unchanged; other threads may write between them."""
        if self.closed:
            self.write(b"")  # raises what is the matter with the stream, also if there are no lines
        for line in lines:
            self.write(line)


io.BufferedIOBase.register(FSDataOutputStream)
