"""A log of batches: one file each, stored by one writer only."""

from __future__ import annotations

import errno
from contextlib import ExitStack
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from .. import paths
from ..errors import ConcurrentWriterError, NotDurableError, attach
from .compaction import absent, number_of
from .manager import CheckpointFileManager

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..namespace import Conf
    from ..paths import StrPath
    from .stream import CancellableFSDataOutputStream

__all__ = ["MetadataLog"]

T = TypeVar("T")


class MetadataLog(Generic[T]):
    """A directory of batches: file ``N`` is batch N, complete, and stored by one writer only.

    Parameters
    ----------
    path : str or os.PathLike
        The directory; made by the first :meth:`add`.
    conf : mapping, optional
        As for :meth:`CheckpointFileManager.create`.
    serialize, deserialize : callable, optional
        Turn a batch into the bytes of its file, and back; :class:`bytes` unless given.
    retries : int
        How often :meth:`add` repeats a write that failed.

    Attributes
    ----------
    manager : CheckpointFileManager
        What writes the files.

    Notes
    -----
    Nothing is cached: every call asks the store. Thread-safe; any number of processes
    may use one directory. Names that are not decimal numbers, directories and temporary files are
    ignored. Source: Spark's HDFSMetadataLog; contract CKPT-15 to CKPT-19, CKPT-25.

    On local files a JVM looks for a file and then renames: one that appears in between is replaced.
    Therefore :meth:`add` looks again there once its batch is on disk, and has lost if another is
    stored. Two JVMs can both win.
    """

    __module__ = "hflush.checkpoint"

    def __init__(
        self,
        path: StrPath,
        conf: Conf = None,
        *,
        serialize: Callable[[T], bytes] | None = None,
        deserialize: Callable[[bytes], T] | None = None,
        retries: int = 0,
    ) -> None:
        if retries < 0:
            raise ValueError(f"retries={retries} must not be negative")
        self.manager = CheckpointFileManager._of_one_winner(path, conf)
        self._serialize = serialize if serialize is not None else _as_bytes
        self._deserialize = deserialize or cast("Callable[[bytes], T]", bytes)
        self._retries = retries

    def add(self, batch_id: int, data: T) -> bool:
        """Store a batch, unless it is stored already.

        Parameters
        ----------
        batch_id : int
            0 or more.
        data : object
            The batch, as `serialize` takes it.

        Returns
        -------
        bool
            True: this call stored it. False: it was stored before, and is unchanged.

        Raises
        ------
        ConcurrentWriterError
            Another writer stored it during this call.
        ValueError, TypeError
            `batch_id` is negative or not an int.
        NotDurableError
            It is stored, but may not survive a failure of the machine.
        OSError
            It could not be written in the attempts that `retries` allows; it is not stored.
        Exception
            What `serialize` raised; nothing was written.

        Notes
        -----
        Where publishing fails, what is at the path then decides: equal bytes are taken as this
        call's own. So of two writers of the same bytes both can get True, if one of them fails.
        """
        path = self._path(batch_id)
        if self.manager.filesystem.is_file(path):
            return False
        self._store(path, self._serialize(data))
        return True

    def _store(self, path: str, content: bytes) -> None:
        """Write the file of a batch, which was not there; raise as :meth:`add` does."""
        self.manager.mkdirs(self.manager.path)
        is_in_doubt = False  # whether an earlier attempt may have stored it
        for remaining in range(self._retries, -1, -1):
            written = None
            try:
                written = self._written(path, content)
                self._publish(written, path, content)
                return
            except NotDurableError:
                raise
            except FileExistsError as conflict:
                if self._stored(path) is None:
                    raise  # a directory is in the way, or the obstacle is gone
                if is_in_doubt and self._stored(path) == content:
                    return
                raise _lost(path) from conflict
            except OSError as failure:
                if written is not None:
                    is_in_doubt = True
                    stored = self._stored_after(path, failure)
                    if stored == content:
                        return
                    if stored is not None:
                        raise _lost(path) from failure
                if remaining == 0:
                    raise
        raise AssertionError("unreachable")

    def get(self, batch_id: int) -> T | None:
        """Return a batch, or None if it is not stored."""
        path = self._path(batch_id)
        stored = self._stored(path)
        return None if stored is None else self._loaded(path, stored)

    def _loaded(self, path: str, stored: bytes) -> T:  # noqa: ARG002
        """Return the batch that the file at `path` holds."""
        return self._deserialize(stored)

    def get_range(self, start: int | None = None, end: int | None = None) -> list[tuple[int, T]]:
        """Return batches with their ids, ascending, both ends included.

        Parameters
        ----------
        start, end : int, optional
            The first and the last id; if given, they and all ids in between must be stored.

        Raises
        ------
        ValueError
            `start` is above `end`.
        FileNotFoundError
            Ids are missing; the message names them.
        """
        if start is not None and end is not None and start > end:
            raise ValueError(f"start={start} is above end={end}")
        ids = [
            number
            for number in self.batch_ids()
            if (start is None or number >= start) and (end is None or number <= end)
        ]
        self._verify_contiguous(ids, start, end)
        batches = [(number, self.get(number)) for number in ids]
        if gone := [number for number, data in batches if data is None]:
            raise self._missing(gone)
        return cast("list[tuple[int, T]]", batches)

    def get_latest(self) -> tuple[int, T] | None:
        """Return the highest id that is stored, with its batch, or None if there is none."""
        for number in reversed(self.batch_ids()):
            data = self.get(number)
            if data is not None:
                return number, data
        return None

    def batch_ids(self) -> list[int]:
        """Return the ids that are stored, ascending."""
        try:
            found = self.manager.list(self.manager.path)
        except FileNotFoundError:
            return []
        names = [paths.basename(status.path) for status in found if status.is_file]
        return sorted(number for name in names if (number := number_of(name)) is not None)

    def purge(self, threshold: int) -> None:
        """Remove the batches with ids below `threshold`, the oldest first."""
        for number in self.batch_ids():
            if number < threshold:
                self.manager.delete(self._path(number))

    def purge_after(self, threshold: int) -> None:
        """Remove the batches with ids above `threshold`, the newest first."""
        for number in reversed(self.batch_ids()):
            if number > threshold:
                self.manager.delete(self._path(number))

    def _written(self, path: str, content: bytes) -> CancellableFSDataOutputStream:
        """Return a stream of the whole batch, which nothing but its close publishes."""
        with ExitStack() as unless_written:
            out = self.manager.create_atomic(path, overwrite_if_possible=False)
            unless_written.callback(out.cancel)
            out.write(content)
            out.flush()
            unless_written.pop_all()
        return out

    def _publish(self, out: CancellableFSDataOutputStream, path: str, content: bytes) -> None:
        out.close()
        if self.manager.is_local and self._stored(path) != content:
            raise _lost(path)  # see the notes

    def _stored(self, path: str) -> bytes | None:
        try:
            with self.manager.open(path) as stream:
                return stream.read()
        except FileNotFoundError:
            return None

    def _stored_after(self, path: str, failure: OSError) -> bytes | None:
        """Return the stored bytes after an attempt that may have stored them."""
        try:
            return self._stored(path)
        except OSError as also:
            attach(failure, also)
            raise failure from None

    def _verify_contiguous(self, ids: list[int], start: int | None, end: int | None) -> None:
        bounds = [*ids, *(bound for bound in (start, end) if bound is not None)]
        if bounds:
            missing = absent(range(min(bounds), max(bounds) + 1), ids)
            if missing:
                raise self._missing(missing)

    def _missing(self, ids: list[int]) -> FileNotFoundError:
        named = ", ".join(str(number) for number in ids[:20]) + (", …" if len(ids) > 20 else "")
        return FileNotFoundError(errno.ENOENT, f"missing batches: {named}", self.manager.path)

    def _path(self, batch_id: int) -> str:
        if not isinstance(batch_id, int) or isinstance(batch_id, bool):
            raise TypeError(f"a batch id must be int, not {type(batch_id).__name__}")
        if batch_id < 0:
            raise ValueError(f"a batch id must not be negative, as {batch_id} is")
        return paths.child(self.manager.path, str(batch_id))


def _as_bytes(data: object) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"a batch must be bytes-like, not {type(data).__name__}")
    return bytes(data)


def _lost(path: str) -> ConcurrentWriterError:
    return ConcurrentWriterError(errno.EEXIST, "another writer stored this batch first", path)
