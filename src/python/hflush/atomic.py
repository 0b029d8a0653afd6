"""Files that appear whole: written aside, under a hidden name in the same directory, then renamed.

``create(…, atomic=True)`` and ``open(…, atomic=True)`` make such streams where a store shows a file
from its beginning (local files, HDFS); on S3 every file appears whole. Files of
:mod:`hflush.checkpoint` are made in the same way.

The hidden name is ``.NAME.<32 hex digits>.atomic.tmp``. What a killed writer leaves behind is
removed by the next atomic create in that directory: see :func:`is_temporary` and the file systems'
``_sweep``.
"""

from __future__ import annotations

import enum
import errno
import logging
import os
import re
import threading
import time

from . import capabilities, paths
from .errors import NotDurableError, PathIsDirectoryError, attach, note, unsupported
from .output import FSDataOutputStream
from .status import identity
from .write_only import AbortResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar, TypeVar

    from typing_extensions import Buffer

    from .claims import Claim
    from .namespace import NameSpace
    from .options import CreateOptions

    E = TypeVar("E", bound=OSError)

__all__ = ["AtomicOutputStream", "Publication"]

_log = logging.getLogger(__name__)

_TEMPORARY = re.compile(r"\..*\.[0-9a-f]{32}\.atomic\.tmp", re.DOTALL)
_MAX_NAME_BYTES = 90  # of NAME: the hidden name, and its sidecar's, stay within eCryptfs' 143
_SWEEP_EVERY_S = 600.0
_ATTEMPTS = 10

_NOT_BEFORE_CLOSE = frozenset(
    (capabilities.HFLUSH, capabilities.HSYNC, capabilities.END_BLOCK, capabilities.PERSIST)
)
_OF_PUBLICATION = frozenset((capabilities.ABORTABLE, capabilities.CREATE_IN_CLOSE))


def temporary_name(path: str) -> str:
    """Return a new hidden name beside `path`."""
    name = paths.basename(path)
    while len(name.encode("utf-8", "surrogatepass")) > _MAX_NAME_BYTES:
        name = name[:-1]
    return paths.child(paths.parent(path), f".{name}.{os.urandom(16).hex()}.atomic.tmp")


def is_temporary(name: str) -> bool:
    """Whether a file of this name was written aside by an atomic create."""
    return _TEMPORARY.fullmatch(name) is not None


class Publication:
    """One file on its way: written under a temporary name, then renamed to its path.

    Parameters
    ----------
    filesystem : FileSystem
        Where both names are.
    temporary, path : str
        The names, in one directory.
    overwrite : bool
        Whether a file at the path is replaced; otherwise the rename is refused.
    durable : bool
        The new name is on disk when :meth:`publish` returns. The bytes are if the stream syncs
        them when it is closed (``sync_on_close``).
    """

    def __init__(
        self,
        filesystem: NameSpace,
        temporary: str,
        path: str,
        overwrite: bool,
        *,
        durable: bool = True,
    ) -> None:
        self.filesystem = filesystem
        self.temporary = temporary
        self.path = path
        self.overwrite = overwrite
        self.own = 0  # the store's id of the file that is written, where it has one
        self._durable = durable

    def publish(self) -> None:
        """Rename.

        Raises
        ------
        FileExistsError
            A file exists and must not be replaced.
        NotDurableError
            It is renamed, but the name may not survive a failure of the machine.
        """
        try:
            self._rename_or_see()
            if self._durable:
                self.filesystem._sync_entry(self.path)
        except BaseException as failure:
            is_interrupt = not isinstance(failure, OSError) or failure.filename is None
            if is_interrupt:
                self._note_outcome(failure)
            raise

    def _rename_or_see(self) -> None:
        """Rename; where its answer is lost, or a second one's, see whose file is there."""
        try:
            self._rename()
        except (NotDurableError, PermissionError):
            raise
        except OSError as failure:
            is_of_store = failure.filename is not None  # else a signal handler's
            if self.own == 0 or not is_of_store or not _is_published(self, self.own, failure):
                raise

    def _rename(self) -> None:
        self.filesystem._rename_exact(self.temporary, self.path, self.overwrite)

    def _note_outcome(self, interrupt: BaseException) -> None:
        """Add a note to what came into :meth:`publish` from outside, unless nothing is published.

        If the temporary file is gone, it was renamed; if it could be removed, it never will be.
        """
        try:
            is_renamed = not self.discard()
        except OSError as failure:
            note(interrupt, f"whether '{self.path}' is published is not known: {failure}")
        else:
            if is_renamed:
                note(interrupt, f"published all the same: '{self.path}'")

    def discard(self) -> bool:
        """Remove the temporary file; return whether it was still there."""
        return self.filesystem._discard(self.temporary)


class _State(enum.Enum):
    WRITING = enum.auto()
    CLOSING = enum.auto()
    ENDED = enum.auto()


class _Aside:
    """The state of an atomic stream, beside that of the stream below."""

    __slots__ = ("aborts", "claim", "path", "process", "publication", "state", "turn")

    def __init__(self, publication: Publication, path: str, claim: Claim) -> None:
        self.publication = publication
        self.path = path  # as the caller names it: maybe a link to the replaced file
        self.claim = claim
        self.process = os.getpid()
        self.turn = threading.RLock()  # of closing: a second caller waits for the outcome
        self.state = _State.WRITING
        self.aborts = 0

    def named(self, failure: E) -> E:
        """Return a failure of the temporary file with the path as its file name."""
        if failure.filename == self.publication.temporary:
            failure.filename = self.path
        return failure

    def discard(self) -> OSError | None:
        """Remove the temporary file; return the failure, if any."""
        try:
            self.publication.discard()
        except OSError as failure:
            _log.warning("a temporary file stays behind: %s", failure)
            return failure
        finally:
            self.end()
        return None

    def end(self) -> None:
        self.state = _State.ENDED
        self.claim.release()


class AtomicOutputStream(FSDataOutputStream):
    """Writes aside and publishes on close: until then the path keeps its old content.

    Its ``hflush`` and ``hsync`` are refused: readers at the path see nothing before it is closed.
    :meth:`abort` drops the written bytes, and so do an exception that leaves the ``with`` block,
    and garbage collection.
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ("_aside",)
    _aside: _Aside

    # --- ending ---

    def close(self) -> None:
        """Publish, in one attempt: sync the bytes, rename, sync the new name.

        Raises
        ------
        FileExistsError
            A file must not be replaced, and another program has made one. It is intact.
        NotDurableError
            The file is published, but its name may be lost if the machine fails now.
        OSError
            Any other failure. The path keeps its old content, the temporary file is removed; where
            the store cannot be asked whether that is so, a note says that it is not known.
        """
        super().close()

    def _publish(self) -> None:
        aside = self._aside
        if aside.process != os.getpid():  # a forked child: the parent closes it
            super()._publish()
            return
        with aside.turn:
            if aside.state is _State.CLOSING:
                raise RuntimeError(f"close: reentrant call, from within a close: '{aside.path}'")
            if aside.state is _State.ENDED:
                super()._publish()
                return
            aside.state = _State.CLOSING
            try:
                super()._publish()
                if self._state == "closed":  # not aborted by another thread
                    aside.publication.publish()
                aside.end()
            except BaseException as failure:
                if self._state == "open":  # the attempt has not begun
                    aside.state = _State.WRITING
                    raise
                left = aside.discard()
                if left is not None:
                    attach(failure, left)
                if isinstance(failure, OSError):
                    aside.named(failure)
                raise

    def abort(self) -> AbortResult:
        """Drop the written bytes: the path keeps its old content.

        Returns
        -------
        AbortResult
            Whether there was nothing left to abort, and why the temporary file could not be
            removed.
        """
        if not super()._abandon():
            already_closed, cleanup_exception = self._abort()
            return AbortResult(already_closed, cleanup_exception)
        self._aside.aborts += 1
        cleanup_exception = self._aside.discard()
        self._owner._release(self)
        return AbortResult(False, cleanup_exception)

    def _abandon(self) -> bool:
        """Drop the stream without waiting for a network; return False if it has ended already."""
        if not super()._abandon():
            return False
        aside: _Aside | None = getattr(self, "_aside", None)
        if aside is None:  # creating it has failed
            return True
        if aside.publication.filesystem._discards_dropped:
            aside.discard()
        else:  # left to a later sweep
            aside.end()
        return True

    # --- the stream below writes a file of another name ---

    def write(self, b: Buffer, off: int = 0, len: int | None = None) -> int:
        """Append ``b[off:off + len]``."""
        try:
            return super().write(b, off, len)
        except OSError as failure:
            self._aside.named(failure)
            raise

    def write_byte(self, value: int, /) -> None:
        """Append one byte."""
        try:
            super().write_byte(value)
        except OSError as failure:
            self._aside.named(failure)
            raise

    def flush(self) -> None:
        """Hand bytes to the next layer; promises nothing."""
        try:
            super().flush()
        except OSError as failure:
            self._aside.named(failure)
            raise

    def set_drop_behind(self, value: bool | None, /) -> None:
        """Pass the advice on."""
        try:
            super().set_drop_behind(value)
        except OSError as failure:
            self._aside.named(failure)
            raise

    def hflush(self) -> None:
        """Refuse: nothing can be visible at the path before close."""
        raise self._refusal("hflush")

    def hsync(self, end_block: bool = False) -> None:  # noqa: ARG002
        """Refuse: nothing can be visible at the path before close."""
        raise self._refusal("hsync")

    def persist(self) -> bytes:
        """Refuse: what a killed writer leaves of an atomic file is removed."""
        raise self._refusal("persist")

    def _refusal(self, operation: str) -> OSError:
        return unsupported(operation, "an atomic file (it appears when it is closed)", self.path)

    def has_capability(self, name: str, /) -> bool:
        """Return whether the stream has a capability: abort, but neither hflush nor hsync."""
        wanted = capabilities.canonical(name)
        if wanted in _NOT_BEFORE_CLOSE:
            return False
        return wanted in _OF_PUBLICATION or super().has_capability(name)

    @property
    def path(self) -> str:
        """Where the file will appear: absolute, in the store."""
        return self._aside.path

    def _own_statistics(self) -> dict[str, int]:
        own = dict(super()._own_statistics())
        own["op_abort"] = own.get("op_abort", 0) + self._aside.aborts
        return own


def create_aside(
    fs: NameSpace, path: str, overwrite: bool, options: CreateOptions
) -> FSDataOutputStream:
    """Open a file that appears at `path` when it is closed."""
    target = fs._write_target(path) if overwrite else path  # a link is there, wherever it leads
    _check_target(fs, path, target, overwrite)
    _sweep(fs, paths.parent(target))
    for _ in range(_ATTEMPTS):
        publication = Publication(fs, temporary_name(target), target, overwrite)
        stream = _create(fs, publication, path, options)
        publication.own = stream._file_id
        try:
            fs._check_publication(target, overwrite)
            claim = fs._claim(publication.temporary)
        except BaseException as failure:
            stream._abandon()
            publication.discard()
            if isinstance(failure, OSError) and failure.filename is not None:
                failure.filename = path  # it may have a hidden one
            raise
        if claim is not None:
            stream._aside = _Aside(publication, path, claim)
            return stream
        stream._abandon()  # a sweep was faster than the claim
        publication.discard()
    raise OSError(errno.EAGAIN, "create: other programs removed every temporary file", path)


def put_aside(stream: FSDataOutputStream, data: Buffer) -> bool:
    """Write and close a stream of :func:`create_aside`; return whether its file is at the path.

    A rename whose answer is lost may have taken place: the identity of the file at the path tells.
    """
    assert isinstance(stream, AtomicOutputStream)
    publication = stream._aside.publication
    own = stream._file_id or identity(publication.filesystem._status(publication.temporary))
    try:
        with stream:
            stream.write(data)
    except NotDurableError:
        raise
    except OSError as failure:
        is_of_store = failure.filename is not None
        if publication.own != 0 and is_of_store and isinstance(failure, FileExistsError):
            own = 0  # closing has compared them; by now its own may be another file's
        return _is_published(publication, own, failure)
    return True


def _is_published(publication: Publication, own: int, failure: OSError) -> bool:
    """Whether the file at the path is the own one; raise the failure if that is not known."""
    try:
        publication.discard()  # a rename that is still on its way has nothing to move
        status = publication.filesystem._status(publication.path)
    except FileNotFoundError:
        raise failure from None
    except OSError as also:
        note(failure, f"whether it is published all the same is not known: {also}")
        raise failure from None
    is_told = own != 0 or isinstance(failure, FileExistsError)
    if not status.is_file or not is_told:
        raise failure
    return identity(status) == own != 0


def _check_target(fs: NameSpace, path: str, target: str, overwrite: bool) -> None:
    try:
        status = fs._status(target)
    except FileNotFoundError:
        return
    if status.is_directory:
        raise PathIsDirectoryError(errno.EISDIR, "create: path is a directory", path)
    if not overwrite:
        raise FileExistsError(errno.EEXIST, "create: file exists", path)
    if not status.is_file:
        raise unsupported(
            "an atomic file in place of something that is not a file", fs.store_name, path
        )


def _create(
    fs: NameSpace, publication: Publication, path: str, options: CreateOptions
) -> AtomicOutputStream:
    try:
        stream = fs._create(publication.temporary, False, options)
    except OSError as failure:
        if failure.filename == publication.temporary:
            failure.filename = path
        raise
    if isinstance(stream, AtomicOutputStream):
        return stream
    stream._abandon()
    publication.discard()
    raise unsupported("atomic", fs.store_name, path)


def _sweep(fs: NameSpace, directory: str) -> None:
    """Remove the temporary files of dead writers in a directory, now and then. Never fails."""
    now = time.monotonic()
    last = fs._swept.get(directory)
    if last is not None and now - last < _SWEEP_EVERY_S:
        return
    if len(fs._swept) >= 1000:
        fs._swept.clear()
    fs._swept[directory] = now
    try:
        fs._sweep(directory)
    except OSError as failure:
        _log.debug("could not look for temporary files in %s: %s", directory, failure)
