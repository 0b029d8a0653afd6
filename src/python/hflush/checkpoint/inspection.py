"""Looking into a checkpoint or the log of a sink, and repairing what can be repaired safely."""

from __future__ import annotations

import errno
import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from .. import paths
from ..errors import CorruptLogError
from ..filesystem import FileSystem
from ..sidecars import is_sidecar
from . import findings
from .compaction import Batches, batch_id_of
from .findings import Finding, Rebuild
from .spark_logs import (
    SINK_METADATA,
    CommitLog,
    FileStreamSinkLog,
    FileStreamSourceLog,
    OffsetSeqLog,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..namespace import Conf
    from ..paths import StrPath
    from ..status import FileStatus
    from .entries import FileEntry, SinkFileStatus

__all__ = ["Checkpoint", "Log", "Repair"]

AnyLog: TypeAlias = "OffsetSeqLog | CommitLog | FileStreamSourceLog | FileStreamSinkLog"

_OFFSETS, _COMMITS, _SOURCES, _METADATA = "offsets", "commits", "sources", "metadata"


class Log(NamedTuple):
    """One log that was found.

    Attributes
    ----------
    kind : str
        ``offsets``, ``commits``, ``source`` or ``sink``.
    path : str
        Its directory.
    log : MetadataLog
        Its reader.
    """

    kind: str
    path: str
    log: AnyLog


class Repair(NamedTuple):
    """What was done about a finding, or would be; why not, if it failed."""

    finding: Finding
    done: str
    failure: OSError | None = None


class Checkpoint:
    """The logs of a streaming query, or of a sink, wherever they are.

    Parameters
    ----------
    url : str or os.PathLike
        A checkpoint directory; a directory that a streaming sink has written; or one log itself:
        ``…/offsets``, ``…/commits``, ``…/sources/N`` or ``…/_spark_metadata``.
    conf : mapping, optional
        As for :meth:`hflush.FileSystem.get`.

    Raises
    ------
    FileNotFoundError
        There is no such directory, or no log is in it.

    Notes
    -----
    Looks at each call anew. A query that runs meanwhile can make findings that are gone a moment
    later: verify stopped queries, or verify twice.
    """

    __module__ = "hflush.checkpoint"

    def __init__(self, url: StrPath, conf: Conf = None) -> None:
        self._conf = conf
        self.filesystem = FileSystem.get(url, conf)
        self.path = self.filesystem._resolve(url)
        self.logs = list(self._found())
        if not self.logs:
            raise FileNotFoundError(
                errno.ENOENT,
                f"no log of Spark's: neither {_OFFSETS}, {_COMMITS} and {_SOURCES} nor "
                f"{SINK_METADATA} is in it",
                self.filesystem._named(self.path),
            )

    def _found(self) -> Iterator[Log]:
        there = self._directories(self.path)
        if not there.intersection((_OFFSETS, _COMMITS, _SOURCES, SINK_METADATA)):
            yield from self._named()
        for name in (_OFFSETS, _COMMITS, SINK_METADATA):
            if name in there:
                yield self._log(name, paths.child(self.path, name))
        if _SOURCES in there:
            sources = paths.child(self.path, _SOURCES)
            for number in sorted(self._directories(sources)):
                if self._is_file_source(paths.child(sources, number)):
                    yield self._log("source", paths.child(sources, number))

    def _named(self) -> Iterator[Log]:
        """Return the one log that the directory itself is, by its name."""
        name, above = paths.basename(self.path), paths.basename(paths.parent(self.path))
        if name in (_OFFSETS, _COMMITS, SINK_METADATA):
            yield self._log(name, self.path)
        elif above == _SOURCES and name.isascii() and name.isdecimal():
            yield self._log("source", self.path)

    def _log(self, kind: str, path: str) -> Log:
        url = self.filesystem.make_qualified(path)
        if kind == SINK_METADATA:
            return Log("sink", path, FileStreamSinkLog(url, self._conf))
        if kind == "source":
            return Log(kind, path, FileStreamSourceLog(url, self._conf))
        log = OffsetSeqLog if kind == _OFFSETS else CommitLog
        return Log(kind, path, log(url, self._conf))

    def _directories(self, path: str) -> set[str]:
        found = self.filesystem.list_status(path)
        return {paths.basename(self._plain(s)) for s in found if s.is_directory}

    def _plain(self, status: FileStatus) -> str:
        return self.filesystem._resolve(status.path)

    def _is_file_source(self, path: str) -> bool:
        """Whether the log of a source is one of files: other sources have their own formats."""
        for status in self.filesystem.list_status(path):
            if status.is_file and batch_id_of(paths.basename(self._plain(status))) is not None:
                try:
                    with self.filesystem.open(status.path) as stream:
                        lines = stream.read(256).split(b"\n", 1)
                except OSError:
                    return True  # verify says why it cannot be read
                return len(lines) < 2 or lines[1].startswith(b'{"path"')
        return False

    # --- what is wrong ---

    def verify(self, oldest: float = 3600.0) -> list[Finding]:
        """Return everything that is wrong, or worth a note.

        Parameters
        ----------
        oldest : float
            Seconds: the writer of a temporary file that is older is taken for dead.
        """
        found: list[Finding] = []
        for log in self.logs:
            found += self._of_log(log, oldest)
        by_kind = {log.kind: log for log in self.logs}
        if _OFFSETS in by_kind and _COMMITS in by_kind:
            offsets, commits = by_kind[_OFFSETS], by_kind[_COMMITS]
            found += findings.of_offsets_and_commits(
                offsets.path, offsets.log.batch_ids(), commits.path, commits.log.batch_ids()
            )
        if _OFFSETS in by_kind and by_kind[_OFFSETS].path != self.path:
            found += self._of_query()
        return found

    def _of_log(self, log: Log, oldest: float) -> Iterator[Finding]:
        statuses = self.filesystem.list_status(log.path)
        now = time.time()
        files = {
            paths.basename(self._plain(status)): now - status.modification_time / 1000
            for status in statuses
            if status.is_file
        }
        directories = {paths.basename(self._plain(s)) for s in statuses if s.is_directory}
        names = sorted(files, key=lambda name: (batch_id_of(name) or 0, name))
        batches = None
        if isinstance(log.log, (FileStreamSinkLog, FileStreamSourceLog)):
            batches = Batches.as_spark(files, log.log._configured)
        needed = batches.needed(batches.latest) if batches and batches.latest is not None else None
        copies = Counter(map(batch_id_of, names))
        entries: dict[str, Any] = {}  # kept of few files: a compact one can be large
        deleted: set[str] = set()
        unreadable: list[Finding] = []
        for name in names:
            number = batch_id_of(name)
            if number is None or (log.kind in (_OFFSETS, _COMMITS) and name != str(number)):
                continue
            try:
                found = self._read(log, name)
            except FileNotFoundError:
                continue  # removed meanwhile
            except OSError as failure:
                path, harmful = paths.child(log.path, name), needed is None or number in needed
                replaced = "" if harmful else "; a compact file has replaced it"
                problem = failure.strerror or str(failure)
                if not isinstance(failure, CorruptLogError):
                    problem = f"cannot be read: {problem}"
                unreadable.append(Finding(path, problem + replaced, harmful))
                continue
            entries[name] = found if copies[number] > 1 else ()
            if log.kind == "sink":
                deleted.update(entry.path for entry in found if entry.action == "delete")
        whole = {number for name in entries if (number := batch_id_of(name)) is not None}
        yield from findings.of_names(log.path, files, directories, whole, oldest)
        yield from unreadable
        if batches is None:
            yield from findings.of_gaps(log.path, log.log.batch_ids(), self._beside(log))
            return
        yield from findings.of_compact_files(log.path, batches, entries)
        if isinstance(log.log, FileStreamSinkLog):
            yield from self._of_sink(log, log.log, len(deleted))

    def _beside(self, log: Log) -> list[int]:
        """Return the batches of the commits beside offsets, or of the offsets beside commits."""
        kind = _COMMITS if log.kind == _OFFSETS else _OFFSETS
        return [number for one in self.logs if one.kind == kind for number in one.log.batch_ids()]

    def _read(self, log: Log, name: str) -> Any:
        path = paths.child(log.path, name)
        with self.filesystem.open(path) as stream:
            return log.log._loaded(path, stream.read())

    def _of_sink(self, log: Log, reader: FileStreamSinkLog, deletes: int) -> Iterator[Finding]:
        if deletes:
            problem = f"{deletes} files are deleted in the log: Spark reads them since 3.1"
            yield Finding(log.path, problem)
        try:
            live = reader.all_files()
        except OSError:
            return  # said already
        above = paths.parent(log.path)
        lengths = {
            self._plain(status): status.length
            for status in self.filesystem.list_files(above, recursive=True)
        }
        for entry in live:
            yield from findings.of_size(entry.path, entry.size, self._length(entry.path, lengths))
        known = {self._resolved(entry.path) for entry in live}
        strays = [path for path in lengths if path not in known and not _hidden(path, above)]
        if strays:
            problem = f"not in the log, so readers miss them: {len(strays)} files, as {strays[0]}"
            yield Finding(above, problem, harmful=False)

    def _resolved(self, url: str) -> str | None:
        """Return the path of a URL here; None if it is of another file system."""
        try:
            return self.filesystem._resolve(url)
        except (OSError, ValueError):
            return None

    def _length(self, url: str, lengths: dict[str, int]) -> int | OSError:
        """Return the length of a file, or why it is not known; the log can name files elsewhere."""
        path = self._resolved(url)
        if path is not None and path in lengths:
            return lengths[path]
        try:
            return FileSystem.get(url, self._conf).get_file_status(url).length
        except (OSError, ValueError) as failure:
            return failure if isinstance(failure, OSError) else OSError(errno.EINVAL, str(failure))

    def _of_query(self) -> Iterator[Finding]:
        path = paths.child(self.path, _METADATA)
        try:
            with self.filesystem.open(path) as stream:
                content = json.loads(stream.read())
        except FileNotFoundError:
            yield Finding(path, "missing: Spark gives the query a new id", harmful=False)
        except ValueError as wrong:
            yield Finding(path, f"not JSON: {wrong}")
        except OSError as failure:
            yield Finding(path, f"cannot be read: {failure.strerror or failure}")
        else:
            if not isinstance(content, dict) or not isinstance(content.get("id"), str):
                yield Finding(path, "the id of the query is missing")

    # --- repair ---

    def repair(self, oldest: float = 3600.0, *, dry_run: bool = False) -> Iterator[Repair]:
        """Do what is safe about the findings, one after the other.

        Removes temporary files of dead writers whose batch is stored, and checksums without their
        file; writes a missing compact file again, from files that stay. Nothing else: no batch is
        removed or replaced.

        Parameters
        ----------
        oldest : float
            As for :meth:`verify`.
        dry_run : bool
            Say what would be done, and do nothing.

        Yields
        ------
        Repair
            Of each finding that has a remedy.
        """
        for finding in self.verify(oldest):
            if finding.remedy is None:
                continue
            done = _described(finding)
            failure = None
            if not dry_run:
                try:
                    self._apply(finding)
                except OSError as failed:
                    failure = failed
            yield Repair(finding, done, failure)

    def _apply(self, finding: Finding) -> None:
        if isinstance(finding.remedy, Rebuild):
            for log in self.logs:
                if log.path == paths.parent(finding.path) and isinstance(
                    log.log, (FileStreamSinkLog, FileStreamSourceLog)
                ):
                    log.log.rebuild(finding.remedy.batch_id)
        elif finding.remedy is not None:
            self.filesystem.delete(finding.remedy.path)

    # --- what is in it ---

    def shown(self, batch_id: int | None = None) -> Iterator[tuple[str, list[str]]]:
        """Return the files of a batch, each with its lines.

        Parameters
        ----------
        batch_id : int, optional
            The batch. Unless given: the latest of each log, and of a log of files all live entries.
        """
        for log in self.logs:
            if batch_id is None and isinstance(log.log, (FileStreamSinkLog, FileStreamSourceLog)):
                entries: list[SinkFileStatus] | list[FileEntry] = log.log.all_files()
                yield log.path, [entry.dump() for entry in entries]
                continue
            name = self._name(log, batch_id)
            if name is None:
                continue
            path = paths.child(log.path, name)
            with self.filesystem.open(path) as stream:
                content = stream.read()
            log.log._loaded(path, content)  # which raises if it is damaged
            yield path, content.decode().split("\n")

    def _name(self, log: Log, batch_id: int | None) -> str | None:
        """Return the name of the file of a batch; None if the log has none."""
        ids = log.log.batch_ids()
        number = batch_id if batch_id is not None else max(ids, default=None)
        if number is None or number not in ids:
            return None
        if isinstance(log.log, (FileStreamSinkLog, FileStreamSourceLog)):
            return log.log._batches().file(number)
        return str(number)


def _described(finding: Finding) -> str:
    if isinstance(finding.remedy, Rebuild):
        parts = finding.remedy.parts
        return f"write {finding.remedy.path} from {parts[0]} to {parts[-1]}"
    return f"remove {finding.path}"


def _hidden(path: str, above: str) -> bool:
    """Whether readers of a directory ignore a path below it: a name begins with _ or a dot.

    A directory of a partition does not count, as in Spark, though its column's name may begin so.
    """
    rest = path[len(above) :].strip("/").split("/")
    return any(
        name.startswith(".") or is_sidecar(name) or (name.startswith("_") and "=" not in name)
        for name in rest
    )
