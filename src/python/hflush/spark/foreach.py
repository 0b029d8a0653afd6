"""Rows of a streaming query, in files that grow with each epoch: ``df.writeStream.foreach(…)``.

A partition has one file. Each epoch is appended to it and synced; then the point that the file has
reached (:meth:`hflush.FSDataOutputStream.persist`) is recorded beside it (:mod:`.epochs`), and so
is the empty file before its first row. An epoch that Spark runs again goes on at the point of the
epoch before it: its rows are in the file once. No attempt writes but from such a point, so that
none writes beside another one. Where files cannot grow (S3), each epoch has a file of its own,
which appears whole.

A record may be of a part: if a task fails before it has read all of its rows, Spark lets them end
in Python as if these were all. So an epoch that is recorded and runs again is written again if it
is longer. Of files of their own the longest stays.
"""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
import sys
from abc import ABC, abstractmethod
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Literal

from pyspark import SparkContext, TaskContext
from pyspark.sql import Row

from .. import capabilities, paths
from ..checkpoint import CheckpointFileManager
from ..errors import ConcurrentWriterError, StaleTokenError
from ..filesystem import FileSystem
from ..opening import append, create
from ..tokens import Token
from .commit.committer import CONTROL, QUERY, SPARKS_LOG, Committer
from .commit.strays import EPOCHS
from .epochs import NO_EPOCH, EpochLog, Recorded
from .pieces import spill_directory
from .settings import parse_conf, task_conf
from .urls import absolute, below

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..checkpoint import CancellableFSDataOutputStream
    from ..output import FSDataOutputStream

    Stream = FSDataOutputStream | CancellableFSDataOutputStream

    Encode = Callable[[Row], bytes | str]

__all__ = ["ForeachWriter", "json_line"]

Level = Literal["hflush", "hsync"]

_LEVELS = ("hflush", "hsync")
_CLOSED_S = 60.0  # for how long an empty file may take to be closed whose writer has died
_KEPT_BYTES = 8 << 20  # of rows in memory that wait; more are in a file
# As Spark writes them: JSON has no numbers for these.
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def json_line(row: Row) -> str:
    """Return a row as a line of JSON; what JSON has no type for as Python prints it.

    So times are without a zone: in that of the machine, as PySpark has them.

    Raises
    ------
    ValueError
        Two columns, or two fields of a struct, have one name: a reader would find one of them.
    """
    return json.dumps(_plain(row), default=str, separators=(",", ":")) + "\n"


def _plain(value: Any) -> Any:
    """Return a value with its rows and maps as dicts of text."""
    if isinstance(value, Row):
        fields = dict(zip(value.__fields__, map(_plain, value), strict=True))
        if len(fields) < len(value):
            twice = sorted(name for name in fields if value.__fields__.count(name) > 1)
            raise ValueError(
                f"the columns {', '.join(map(repr, twice))} are there more than once in a row, "
                "which JSON cannot hold: rename them, or give an encode of your own"
            )
        return fields
    if isinstance(value, dict):
        return {_name(key): _plain(item) for key, item in value.items()}
    if isinstance(value, float):
        return _NOT_FINITE.get(str(value), value)
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _name(key: Any) -> str | float | None:
    return key if isinstance(key, (str, int, float)) or key is None else str(key)


class ForeachWriter:
    """Writes the rows of a streaming query as they come: for ``DataStreamWriter.foreach``.

    Parameters
    ----------
    path : str
        The URL of a directory; what is missing of it is what the driver's configuration and
        directory say. It has a file ``part-00003-<query>`` for each partition, and the
        directory ``_epochs``, which Spark's readers pass over.
    encode : callable, optional
        Takes a :class:`pyspark.sql.Row` and returns its bytes, or its text; a line of JSON unless
        given, for which names of columns have to differ; its times are in the zone of the machine.
        It is pickled.
    level : {"hflush", "hsync"}
        What an epoch has reached, at least, before it is reported to Spark as done: it is visible
        to readers, or on disk, too. Its rows are on disk in either case, since a point that the
        file has reached is recorded; the record itself may not be, on local files.
    suffix : str, optional
        The end of the names of files.
    conf : mapping, optional
        Hadoop keys, or what :func:`hflush.spark.options` returns. They are part of the query's
        plan: no secrets.

    Raises
    ------
    ValueError
        `level` is neither of the two, `suffix` has a ``/``, or ``conf`` in `conf` is not JSON.
    OSError
        There is no file system for `path`.

    Notes
    -----
    Rows are written once where Spark gives a partition of an epoch that it runs again the same
    rows, as sources that can be replayed do. A reader may see rows of an epoch that is not done
    yet; if that epoch is run again, they go and come back.

    Source: pyspark.sql.streaming.DataStreamWriter.foreach; docs/spark.md.

    Examples
    --------
    >>> writer = ForeachWriter("hdfs:///clicks", conf=options(spark))  # doctest: +SKIP
    >>> df.writeStream.foreach(writer).option("checkpointLocation", c).start()  # doctest: +SKIP
    """

    def __init__(
        self,
        path: str,
        encode: Encode = json_line,
        *,
        level: Level = "hflush",
        suffix: str = ".json",
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        if level not in _LEVELS:
            raise ValueError(f"level={level!r} must be one of {', '.join(_LEVELS)}")
        if "/" in suffix:
            raise ValueError(f"suffix={suffix!r} must not contain '/'")
        self.level = level
        self._encode = encode
        self._suffix = suffix
        self._conf = dict(conf or {})
        parse_conf(self._conf.get("conf", "{}"))
        # A client of Spark Connect knows nothing of its server: there the tasks say where it is.
        is_driver = SparkContext._active_spark_context is not None
        self.path = absolute(path, task_conf(self._conf)) if is_driver else path
        self._epoch: _Epoch | None = None

    def open(self, partition_id: int, epoch_id: int) -> bool:
        """Begin with a partition of an epoch; False if a later one is recorded.

        Raises
        ------
        OSError
            As :func:`hflush.resume` and :func:`hflush.create`.
        """
        name = f"part-{partition_id:05d}-{_query()}"
        part = _Part(self.path, name, self._suffix, task_conf(self._conf))
        self._epoch = part.begin(epoch_id, self.level)
        return not self._epoch.is_written()

    def process(self, row: Row) -> None:
        """Write a row."""
        encoded = self._encode(row)
        if self._epoch is None:
            raise ValueError("process before open")
        self._epoch.out.write(encoded.encode() if isinstance(encoded, str) else encoded)

    def close(self, error: BaseException | None) -> None:
        """End the epoch: flush and record it, or drop it where a row has failed.

        Raises
        ------
        OSError
            The rows may be missing: Spark runs the epoch again.
        """
        epoch, self._epoch = self._epoch, None
        if epoch is None:
            return
        # pyspark passes Exceptions only: a KeyboardInterrupt is on its way without being passed.
        if error is None and sys.exc_info()[1] is None:
            epoch.finish()
        else:
            epoch.drop()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_epoch": None}


class _Part:
    """The file, or the files, of a partition of a query."""

    def __init__(self, directory: str, name: str, suffix: str, conf: Mapping[str, Any]) -> None:
        self.name = name
        self.suffix = suffix
        self.conf = conf
        self.fs = FileSystem.get(directory, conf)
        self.directory = self.fs.make_qualified(directory)

    def grows(self) -> bool:
        """Whether a file can be cut and written on."""
        needed = (capabilities.APPEND, capabilities.TRUNCATE)
        return all(self.fs.has_path_capability(self.directory, name) for name in needed)

    def begin(self, epoch: int, level: Level) -> _Epoch:
        """Return an epoch of it, for one attempt."""
        if not self.grows():
            return _Whole(self, epoch)
        log = self.log(level)
        seen = log.last()
        kind = _Repeated if seen is not None and seen.epoch == epoch else _Appended
        return kind(self, epoch, log, seen)

    def check(self) -> None:
        """Refuse a directory of which readers see what the log of a query lists: not these rows."""
        for name in (SPARKS_LOG, f"{CONTROL}/{QUERY}"):
            place = self._below(name)
            if self.fs.exists(place):
                why = "readers see the files of this query only: write to another path"
                raise FileExistsError(errno.EEXIST, why, place)

    def check_columns(self) -> None:
        """Refuse a directory with files in partitions: readers leave out those beside them."""
        committer = Committer(self.directory, self.conf)
        if columns := committer.columns(committer.log.look()):
            raise ValueError(
                f"{self.directory} has files with the partition columns {list(columns)}, beside "
                "which readers would not see the files of this query: write to another path"
            )

    def _below(self, name: str) -> str:
        return below(self.fs, self.directory, name)

    def file(self, epoch: int | None = None) -> str:
        """Return the URL of its file, or of the one of an epoch."""
        of_epoch = "" if epoch is None else f"-{epoch:09d}"
        return self._below(f"{self.name}{of_epoch}{self.suffix}")

    def empty(self) -> FSDataOutputStream:
        """Make its file, or open the one that an attempt has left that died before its first row.

        Raises
        ------
        ConcurrentWriterError
            The file has rows.
        OSError
            Another attempt has it, or the store refuses.
        """
        file, fs = self.file(), self.fs
        try:
            return create(file, overwrite=False, conf=self.conf)
        except FileExistsError:
            if fs.has_path_capability(file, capabilities.LEASE_RECOVERABLE):
                fs.recover_lease(file, _CLOSED_S)
        if length := fs.get_file_status(file).length:
            message = (
                f"the file has {length} bytes, and no epoch is recorded: another attempt has just "
                "begun; else remove the file"
            )
            raise ConcurrentWriterError(errno.EBUSY, message, file)
        return append(file, conf=self.conf)

    def mark(self) -> None:
        """Show queries that rows of a ForeachWriter are here, unless one is here before."""
        self.check()
        mark = self._below(EPOCHS)
        if self.fs.exists(mark):
            return
        self.check_columns()
        self.fs.mkdirs(mark)
        try:
            self.check()  # one that has begun meanwhile may not have seen this
        except FileExistsError:
            with contextlib.suppress(OSError):
                self.fs.delete(mark)
            raise

    @property
    def store(self) -> FileSystem:
        """The file system that has its file: of a view, the one behind the link."""
        return self._place()[0]

    def _place(self) -> tuple[FileSystem, str]:
        return self.fs._leads_to(self.fs._resolve(self.file()))

    def log(self, level: Level) -> EpochLog:
        """Return what is recorded of its file."""
        logs = self._below(EPOCHS)
        store, path = self._place()
        file = Token(store.store_name, store.make_qualified(path), 0, {})
        return EpochLog(self.fs, paths.child(logs, self.name), file, durable=level == "hsync")


class _Epoch(ABC):
    """A partition of an epoch that is being written."""

    @property
    @abstractmethod
    def out(self) -> Stream:
        """The stream for its rows, opened by the first of them."""

    @abstractmethod
    def is_written(self) -> bool: ...

    @abstractmethod
    def finish(self) -> None: ...

    @abstractmethod
    def drop(self) -> None: ...


class _Appended(_Epoch):
    """It is appended to the file of its partition."""

    def __init__(self, part: _Part, epoch: int, log: EpochLog, seen: Recorded | None) -> None:
        self._part = part
        self._epoch = epoch
        self._log = log
        self._seen = seen
        self._out: FSDataOutputStream | None = None

    @property
    def out(self) -> FSDataOutputStream:
        if self._out is None:
            self._out = self._resumed()
        return self._out

    def is_written(self) -> bool:
        """Whether a later epoch is recorded, which Spark begins when it is content with this."""
        return self._seen is not None and self._seen.epoch > self._epoch

    def finish(self) -> None:
        if self.is_written():
            self._end_at(self._recorded().end)
        elif self._out is not None or self._is_torn(self._seen and self._begins()):
            self._record(self.out)

    def drop(self) -> None:
        # What it has written is cut by the attempt that comes next.
        if self._out is not None:
            with contextlib.suppress(OSError):
                self._out.close()

    def _begins(self) -> Token:
        """Return the point behind the epoch before this one."""
        return self._recorded().end

    def _recorded(self) -> Recorded:
        """Return the record that it has seen, which is that of the empty file in the first epoch.

        Raises
        ------
        ConcurrentWriterError
            In the first epoch: another attempt has recorded one since this one began.
        """
        if self._seen is None:
            found = self._log.last() or self._started()
            if found.epoch != NO_EPOCH:
                raise self._overtaken()
            self._seen = found
        return self._seen

    def _started(self) -> Recorded:
        """Make the empty file, and record it."""
        self._part.check()
        self._part.check_columns()
        with self._part.empty() as out:
            self._log.begin(Token.unpack(out.persist()))
        found = self._log.last()
        if found is None:
            raise self._overtaken()
        return found

    def _resumed(self) -> FSDataOutputStream:
        """Open the file at the end of the epoch before this one."""
        if self._recorded().epoch == NO_EPOCH:
            self._refuse_beside_a_query()
        return self._part.store._resume_unless(self._begins().pack(), self._refuse_if_overtaken)

    def _refuse_beside_a_query(self) -> None:
        """Look for a query once more, now that one would see the record."""
        try:
            self._part.check()
        except FileExistsError:
            self._log.forget(self._recorded())
            raise

    def _refuse_if_overtaken(self) -> None:
        if not self._log.holds(self._recorded()):
            raise self._overtaken()

    def _record(self, out: FSDataOutputStream) -> None:
        """Make the rows durable, record the point that the file has reached, and close it."""
        try:
            # The stream still keeps others from the file.
            self._add(out.persist())
        except BaseException:
            with contextlib.suppress(OSError):
                out.close()
            raise
        out.close()

    def _add(self, token: bytes) -> None:
        new = Recorded(self._epoch, self._begins(), Token.unpack(token))
        if not self._log.add(self._recorded(), new):
            raise self._overtaken()

    def _overtaken(self) -> ConcurrentWriterError:
        message = f"another attempt has recorded this partition since epoch {self._epoch} began"
        return ConcurrentWriterError(errno.EBUSY, message, self._part.file())

    def _end_at(self, end: Token) -> None:
        """Cut what an attempt without an end has left behind a point."""
        if self._is_torn(end):
            self._part.store._commit_unless(end.pack(), self._refuse_if_overtaken)

    def _is_torn(self, end: Token | None) -> bool:
        """Whether the file has another length than at a point, or is not closed."""
        file, fs = self._part.file(), self._part.fs
        try:
            length = fs.get_file_status(file).length
        except FileNotFoundError:
            return end is not None and end.length > 0
        if length != (end.length if end is not None else 0):
            return True
        has_leases = fs.has_path_capability(file, capabilities.LEASE_RECOVERABLE)
        return has_leases and not fs.is_file_closed(file)


class _Repeated(_Appended):
    """It is recorded. Its rows wait until all are there: then they replace fewer than they are."""

    def __init__(self, part: _Part, epoch: int, log: EpochLog, seen: Recorded | None) -> None:
        super().__init__(part, epoch, log, seen)
        # finish and drop end it
        self._kept = SpooledTemporaryFile(_KEPT_BYTES, dir=spill_directory())  # noqa: SIM115

    @property
    def out(self) -> Any:
        return self._kept

    def finish(self) -> None:
        with self._kept as kept:
            own = self._recorded()
            if kept.tell() <= own.end.length - own.before.length:
                with contextlib.suppress(StaleTokenError):  # one that replaces it has died
                    self._end_at(own.end)
                    return
            kept.seek(0)
            self._out = self._resumed()
            try:
                shutil.copyfileobj(kept, self._out)
            except BaseException:
                self.drop()
                raise
        self._record(self._out)

    def drop(self) -> None:
        self._kept.close()
        super().drop()

    def _begins(self) -> Token:
        return self._recorded().before


class _Whole(_Epoch):
    """It has a file of its own, which appears whole or not at all; of all attempts the longest."""

    def __init__(self, part: _Part, epoch: int) -> None:
        self._part = part
        self._file = part.file(epoch)
        self._manager = CheckpointFileManager._of_one_winner(part.directory, part.conf)
        self._is_again = self._manager.exists(self._file)
        self._out: CancellableFSDataOutputStream | None = None

    @property
    def out(self) -> CancellableFSDataOutputStream:
        if self._out is None:
            self._part.mark()
            self._out = self._manager.create_atomic(self._file, self._is_again)
        return self._out

    def is_written(self) -> bool:
        return False  # what is there may be a part

    def finish(self) -> None:
        if self._out is None:
            return
        if self._is_again and self._length() >= self._out.get_pos():
            self._out.cancel()
        else:  # FileExistsError: an attempt beside this one was first, with all rows or a part
            self._out.close()

    def drop(self) -> None:
        if self._out is not None:
            self._out.cancel()

    def _length(self) -> int:
        """Return the length of what an earlier attempt has left."""
        try:
            return self._manager.filesystem.get_file_status(self._file).length
        except FileNotFoundError:
            return 0


def _query() -> str:
    """Return the id of the query that the calling task is of."""
    context = TaskContext.get()
    query = context and context.getLocalProperty("sql.streaming.queryId")
    if not query:
        raise RuntimeError("open outside a task of a streaming query")
    return str(query)
