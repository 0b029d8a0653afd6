"""The logs of Spark's streaming queries: offsets, commits, and the files of sources and sinks."""

from __future__ import annotations

import errno
import logging
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, cast

from .. import paths
from ..configuration import Configuration
from ..errors import CorruptLogError, unsupported
from ..general_keys import KEYS
from ..keys import Reader
from .compaction import SUFFIX, Batches
from .entries import (
    CommitMetadata,
    Entry,
    FileEntry,
    OffsetMap,
    OffsetSeq,
    SinkFileStatus,
    dump_commit,
    dump_offsets,
    load_commit,
    load_offsets,
)
from .lines import joined, split
from .log import MetadataLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..namespace import Conf
    from ..paths import StrPath
    from ..status import FileStatus

__all__ = [
    "SINK_METADATA",
    "CommitLog",
    "CompactibleFileStreamLog",
    "FileStreamSinkLog",
    "FileStreamSourceLog",
    "OffsetSeqLog",
    "SparkLog",
]

SINK_METADATA = "_spark_metadata"

_VERSION = 1
_RETAINED = "spark.sql.streaming.minBatchesToRetain"

T = TypeVar("T")
EntryT = TypeVar("EntryT", bound=Entry)

_log = logging.getLogger(__name__)


class SparkLog(MetadataLog[T]):
    """A log in one of Spark's formats, whose errors name the damaged file.

    Reading raises :class:`hflush.CorruptLogError` for a file that is not what Spark writes.
    """

    def _loaded(self, path: str, stored: bytes) -> T:
        try:
            return super()._loaded(path, stored)
        except ValueError as wrong:
            name = self.manager.filesystem._named(path)
            raise CorruptLogError(errno.EIO, f"corrupt log file: {wrong}", name) from wrong


class OffsetSeqLog(SparkLog[OffsetSeq | OffsetMap]):
    """The offsets of a query's batches, written before a batch runs: ``offsets`` of a checkpoint.

    Parameters
    ----------
    path : str or os.PathLike
        The directory ``offsets``; made by the first :meth:`add`.
    conf : mapping, optional
        As for :meth:`CheckpointFileManager.create`.
    retries : int
        As for :class:`MetadataLog`.

    Notes
    -----
    Holds :class:`OffsetSeq` or :class:`OffsetMap`. Source: Spark's OffsetSeqLog, versions 1 and 2.
    """

    __module__ = "hflush.checkpoint"

    def __init__(self, path: StrPath, conf: Conf = None, *, retries: int = 0) -> None:
        super().__init__(
            path, conf, serialize=dump_offsets, deserialize=load_offsets, retries=retries
        )


class CommitLog(SparkLog[CommitMetadata]):
    """Which batches of a query are complete: ``commits`` of a checkpoint.

    Parameters are those of :class:`OffsetSeqLog`.

    Notes
    -----
    Source: Spark's CommitLog, versions 1 to 3.
    """

    __module__ = "hflush.checkpoint"

    def __init__(self, path: StrPath, conf: Conf = None, *, retries: int = 0) -> None:
        super().__init__(
            path, conf, serialize=dump_commit, deserialize=load_commit, retries=retries
        )


class CompactibleFileStreamLog(SparkLog[list[EntryT]], Generic[EntryT]):
    """A log of files whose batches are compacted: one of them in so many repeats all before it.

    Parameters
    ----------
    path : str or os.PathLike
        The directory; made by the first :meth:`add`.
    conf : mapping, optional
        As for :meth:`CheckpointFileManager.create`, and Spark's keys of the log:
        ``spark.sql.streaming.minBatchesToRetain``, and those that the class names.
    retries : int
        As for :class:`MetadataLog`.

    Notes
    -----
    A log goes on with the compact interval that its files show: the configured one counts where
    there are none. Nothing is cached, the interval neither: every :meth:`add` lists the directory.
    Source: Spark's CompactibleFileStreamLog; contract CKPT-15 to CKPT-19, CKPT-25.
    """

    __module__ = "hflush.checkpoint"

    _keys: ClassVar[str]
    _entry: ClassVar[type[Entry]]

    def __init__(self, path: StrPath, conf: Conf = None, *, retries: int = 0) -> None:
        super().__init__(
            path, conf, serialize=_dump, deserialize=self._load_entries, retries=retries
        )
        keys = Reader(Configuration.of(conf), KEYS)
        self._configured = keys.number(f"{self._keys}.compactInterval")
        self._deletes = keys.flag(f"{self._keys}.deletion")
        self._cleanup_delay = keys.seconds(f"{self._keys}.cleanupDelay")
        self._retained = keys.number(_RETAINED)

    # --- writing ---

    def add(self, batch_id: int, data: Iterable[EntryT]) -> bool:
        """Store the files of a batch, unless it is stored already.

        Parameters
        ----------
        batch_id : int
            0 or more. The batches that its readers need must be there: all back to the last
            compact file.
        data : iterable
            The entries of its files; there may be none.

        Returns
        -------
        bool
            True: this call stored it. False: it was stored before, in a file of its own or within
            a compact one, and is unchanged.

        Raises
        ------
        ConcurrentWriterError
            Another writer stored it during this call.
        FileNotFoundError
            Batches before it are missing: a log with a gap cannot be read any more.
        CorruptLogError
            A file that was to be compacted is damaged; or the one that has the batch is, of which
            readers see nothing.
        ValueError, TypeError
            `batch_id` is negative or not an int; an entry must not be written.
        NotDurableError
            It is stored, but may not survive a failure of the machine.
        OSError
            It could not be written in the attempts that `retries` allows; it is not stored.
        """
        self._path(batch_id)  # refuses what is no id
        entries = list(data)
        for entry in entries:
            self._check(entry, batch_id)
        batches = self._batches()
        if self._has(batches, batch_id):
            return False
        if missing := batches.missing(batches.before(batch_id)):
            raise self._gap(missing, f"batch {batch_id} cannot follow")
        if batches.compacts(batch_id):
            try:
                earlier = self._read(map(batches.name, batches.before(batch_id)))
            except FileNotFoundError:
                if self._has(self._batches(), batch_id):
                    return False  # another writer has compacted them, and removed what it read
                raise
            entries = self._retained_of(earlier + entries)
        name = batches.name(batch_id)
        self._store(paths.child(self.manager.path, name), _dump(entries))
        if self._deletes and (expired := batches.expired(batch_id, self._retained)):
            self._remove_old(expired)
        return True

    def rebuild(self, batch_id: int) -> bool:
        """Write a compact file that is missing again, from the files of its batches, which stay.

        Parameters
        ----------
        batch_id : int
            The batch of the compact file.

        Returns
        -------
        bool
            True: this call wrote it. False: it is there.

        Raises
        ------
        FileNotFoundError
            A file of a batch back to the compact file before it is missing.
        ValueError
            Readers would miss another compact file then: the distance between two of them is the
            compact interval of a log.
        CorruptLogError, ConcurrentWriterError, OSError
            As for :meth:`add`.
        """
        self._path(batch_id)
        batches = self._batches()
        name = f"{batch_id}{SUFFIX}"
        if name in batches.names:
            return False
        parts = batches.parts(batch_id)
        if parts is None:
            raise self._gap([str(batch_id)], f"{name} cannot be made without all files before it")
        missing = batches.missing(batches.needed(max(batches.ids)))
        then = Batches.as_spark(batches.names, self._configured).missing_with(name)
        if lost := [other for other in then if other not in missing]:
            raise ValueError(f"{name} would change the compact interval: {lost[0]} would be missed")
        entries = self._retained_of(self._read(parts))
        self._store(paths.child(self.manager.path, name), _dump(entries))
        return True

    def purge(self, threshold: int) -> None:  # noqa: ARG002
        """Raise :class:`io.UnsupportedOperation`: the log removes what is replaced by itself."""
        raise unsupported("purge", "a log that is compacted", self.manager.path)

    def purge_after(self, threshold: int) -> None:
        """Raise :class:`io.UnsupportedOperation`, as :meth:`purge` does."""
        self.purge(threshold)

    # --- reading ---

    @property
    def compact_interval(self) -> int:
        """How many batches there are from one compact file to the next."""
        return self._batches().interval

    def get(self, batch_id: int) -> list[EntryT] | None:
        """Return the entries in the file of a batch, None if there is none.

        A compact file has those of the earlier batches, too.
        """
        self._path(batch_id)
        name = self._batches().file(batch_id)
        if name is None:
            return None
        path = paths.child(self.manager.path, name)
        stored = self._stored(path)
        return None if stored is None else self._loaded(path, stored)

    def get_latest_batch_id(self) -> int | None:
        """Return the highest id that is stored, or None; no file is read."""
        return self._batches().latest

    def all_files(self) -> list[EntryT]:
        """Return the entries of all batches, the oldest first, without those that are dropped.

        Raises
        ------
        FileNotFoundError
            A file is missing, so that entries would be.
        CorruptLogError
            A file is damaged.
        """
        batches = self._batches()
        while batches.latest is not None:
            needed = batches.needed(batches.latest)
            if missing := batches.missing(needed):
                raise self._gap(missing, f"batch {batches.latest} cannot be read")
            try:
                return self._retained_of(self._read(map(batches.name, needed)))
            except FileNotFoundError:
                later = self._batches()
                if later.last_compacted <= batches.last_compacted:
                    raise
                batches = later  # compacted and removed meanwhile
        return []

    def batch_ids(self) -> list[int]:
        """Return the ids that have a file, ascending."""
        return self._batches().ids

    # --- what the logs differ in ---

    @abstractmethod
    def _check(self, entry: EntryT, batch_id: int) -> None:
        """Raise ValueError for an entry that must not be written."""

    def _retained_of(self, entries: list[EntryT]) -> list[EntryT]:
        """Return the entries without those that are dropped."""
        return entries

    # --- files ---

    def _files(self) -> list[FileStatus]:
        try:
            found = self.manager.list(self.manager.path)
        except FileNotFoundError:
            return []
        return [status for status in found if status.is_file]

    def _batches(self) -> Batches:
        names = (paths.basename(status.path) for status in self._files())
        return Batches.of(names, self._configured)

    def _has(self, batches: Batches, batch_id: int) -> bool:
        """Whether a batch is stored; raises CorruptLogError if its file is damaged."""
        name = batches.holder(batch_id)
        if name is None:
            return False
        path = paths.child(self.manager.path, name)
        stored = self._stored(path)
        if stored is not None:  # else it was compacted and removed meanwhile
            self._loaded(path, stored)
        return True

    def _read(self, names: Iterable[str]) -> list[EntryT]:
        entries: list[EntryT] = []
        for name in names:
            path = paths.child(self.manager.path, name)
            stored = self._stored(path)
            if stored is None:
                raise self._gap([name], "it was removed while it was to be read")
            entries += self._loaded(path, stored)
        return entries

    def _load_entries(self, content: bytes) -> list[EntryT]:
        _, lines = split(content, _VERSION)
        load = cast("Callable[[str, int], EntryT]", self._entry.load)
        return [load(text, number) for number, text in enumerate(lines, 2)]

    def _gap(self, missing: Sequence[str], consequence: str) -> FileNotFoundError:
        named = ", ".join(missing[:20]) + (", …" if len(missing) > 20 else "")
        return FileNotFoundError(
            errno.ENOENT, f"missing from the log: {named}: {consequence}", self.manager.path
        )

    def _remove_old(self, names: Iterable[str]) -> None:
        """Remove those that are old enough; the batch is stored, so failures are only logged."""
        newest = time.time() - self._cleanup_delay
        try:
            found = {paths.basename(status.path): status for status in self._files()}
            for name in names:
                if name in found and found[name].modification_time / 1000 <= newest:
                    self.manager.delete(paths.child(self.manager.path, name))
        except OSError as failure:
            _log.warning("files that are not needed any more stay behind: %s", failure)


class FileStreamSinkLog(CompactibleFileStreamLog[SinkFileStatus]):
    """The files of a streaming sink: ``_spark_metadata`` in the directory that it writes.

    Readers that come through the log see its files, and no others: :meth:`add` is what makes the
    files of a batch visible, all at once.

    Parameters
    ----------
    path : str or os.PathLike
        The directory of the log, ``<output>/_spark_metadata``; made by the first :meth:`add`.
    conf : mapping, optional
        As for :meth:`CheckpointFileManager.create`, ``spark.sql.streaming.minBatchesToRetain`` and
        ``spark.sql.streaming.fileSink.log.`` with ``deletion``, ``compactInterval`` and
        ``cleanupDelay``.
    retention : float, optional
        Seconds: entries of files that were modified earlier than that are dropped from compact
        files and from :meth:`all_files`, as by the option ``retention`` of Spark's sink.
    retries : int
        As for :class:`MetadataLog`.

    Notes
    -----
    Logs of Spark before 3.1 may hold the action ``delete``: :meth:`all_files` drops what it names,
    as those versions did, and compaction drops both. Later versions take such an entry for one more
    file; therefore :meth:`add` refuses it. Source: Spark's FileStreamSinkLog.
    """

    __module__ = "hflush.checkpoint"

    _keys = "spark.sql.streaming.fileSink.log"
    _entry = SinkFileStatus

    def __init__(
        self,
        path: StrPath,
        conf: Conf = None,
        *,
        retention: float | None = None,
        retries: int = 0,
    ) -> None:
        super().__init__(path, conf, retries=retries)
        if retention is not None and retention < 0:
            raise ValueError(f"retention={retention} must not be negative")
        self._retention = retention

    def _check(self, entry: SinkFileStatus, batch_id: int) -> None:  # noqa: ARG002
        if entry.action != "add":
            raise ValueError(
                f"action={entry.action!r} of {entry.path}: readers take it for a file; only 'add' "
                "is written"
            )
        if entry.size < 0:
            raise ValueError(f"size={entry.size} of {entry.path} must not be negative")

    def _retained_of(self, entries: list[SinkFileStatus]) -> list[SinkFileStatus]:
        deleted = {entry.path for entry in entries if entry.action == "delete"}
        if deleted:
            entries = [entry for entry in entries if entry.path not in deleted]
        if self._retention is not None:
            oldest = (time.time() - self._retention) * 1000
            entries = [entry for entry in entries if entry.modification_time >= oldest]
        return entries


class FileStreamSourceLog(CompactibleFileStreamLog[FileEntry]):
    """The files that a streaming file source has read: ``sources/N`` of a checkpoint.

    Parameters
    ----------
    path : str or os.PathLike
        The directory of the log, ``<checkpoint>/sources/<number>``; made by the first :meth:`add`.
    conf : mapping, optional
        As for :meth:`CheckpointFileManager.create`, ``spark.sql.streaming.minBatchesToRetain`` and
        ``spark.sql.streaming.fileSource.log.`` with ``deletion``, ``compactInterval`` and
        ``cleanupDelay``.
    retries : int
        As for :class:`MetadataLog`.

    Notes
    -----
    Source: Spark's FileStreamSourceLog.
    """

    __module__ = "hflush.checkpoint"

    _keys = "spark.sql.streaming.fileSource.log"
    _entry = FileEntry

    def get(self, batch_id: int) -> list[FileEntry] | None:
        """Return the entries of a batch, also where only a compact file has them still.

        None if the batch is not stored; a batch without files that was compacted is not found.
        """
        found = super().get(batch_id)
        if found is None:
            batches = self._batches()
            if batch_id >= batches.last_compacted:
                return None
            path = paths.child(self.manager.path, f"{batches.last_compacted}{SUFFIX}")
            stored = self._stored(path)
            own = [] if stored is None else self._of_batch(self._loaded(path, stored), batch_id)
            return own or None
        return self._of_batch(found, batch_id)

    def _check(self, entry: FileEntry, batch_id: int) -> None:
        if entry.batch_id != batch_id:
            raise ValueError(
                f"batch_id={entry.batch_id} of {entry.path} must be {batch_id}, the batch it is in"
            )

    @staticmethod
    def _of_batch(entries: Iterable[FileEntry], batch_id: int) -> list[FileEntry]:
        return [entry for entry in entries if entry.batch_id == batch_id]


def _dump(entries: Iterable[Entry]) -> bytes:
    return joined(_VERSION, (entry.dump() for entry in entries))
