"""The shell of the machine: does its actions on a file system, and answers with the results."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import re
import time
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from ... import paths
from ...errors import note
from ...filesystem import FileSystem
from . import machine as m
from .layout import columns_of, is_hidden, misfit, same_partition
from .log import CommitLog
from .records import Found, Mode
from .reports import NO_REPORT, Report
from .staging import Staging, acts_late, for_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ...namespace import Conf
    from ...status import FileStatus
    from .records import Intent, Job, Record, StagedFile
    from .staging import Attempt

__all__ = ["WEEK_S", "Committer", "LostFilesError"]

# What did nothing for so long is no job at work.
WEEK_S = 7 * 24 * 3600.0
CONTROL = "_hflush"
QUERY = "query"
SUCCESS = "_SUCCESS"
SPARKS_LOG = "_spark_metadata"
# Summaries that other writers of Parquet leave: Spark takes the columns of all files from them.
_SUMMARIES = ("_metadata", "_common_metadata")
_STAGING = "staging"
_PAGE = 1000  # entries of a listing that a store gives at once
# With a random part: no two files ever get such a name, nor do those of Spark's own writers.
_UNIQUE_NAME = re.compile(r"part-\d{5,}-.+-[0-9a-f]{12}-c\d{3,}\.[\w.]+")

_log = logging.getLogger(__name__)


class LostFilesError(FileNotFoundError):
    """Files that were staged are neither there nor published: the commit cannot be completed."""

    __module__ = "hflush.spark.commit"


class Committer:
    """Commits files to one destination.

    Parameters
    ----------
    destination : str
        The URL of a directory; it need not exist.
    conf : mapping, optional
        As for :meth:`hflush.FileSystem.get`.

    Attributes
    ----------
    filesystem : FileSystem
        Where the destination is.
    path : str
        The destination: absolute, in the store.
    control : str
        The URL of ``_hflush`` in it.
    declares : bool
        Whether it has begun to write an intent: where that has failed, it may be there later.

    Notes
    -----
    Any number of processes may commit to one destination. Everything but the published files is in
    ``_hflush`` in it, which readers of Spark skip as a hidden name.
    """

    __module__ = "hflush.spark.commit"

    def __init__(self, destination: str, conf: Conf = None) -> None:
        self.filesystem = FileSystem.get(destination, conf)
        self.path = self.filesystem._resolve(destination)
        control = paths.child(self.path, CONTROL)
        # The log gets a URL: without one, it would look for the path in fs.defaultFS.
        self.control = self.filesystem.make_qualified(control)
        self.log = CommitLog(f"{self.control}/commits", conf)
        self.staging = Staging.of(self.filesystem, self.path, paths.child(control, _STAGING))
        self.declares = False

    @property
    def url(self) -> str:
        """The destination, qualified."""
        return self.filesystem.make_qualified(self.path)

    # --- what a writer calls ---

    def check(self) -> None:
        """Refuse a destination that readers would not read from.

        Raises
        ------
        NotADirectoryError
            It is a file.
        ValueError
            A streaming query of Spark writes there, or has begun to: its readers skip all other
            files.
        """
        if self.filesystem.is_file(self.path):
            raise NotADirectoryError(errno.ENOTDIR, "write: the path is a file", self.url)
        if self.has_batches():
            raise ValueError(
                f"{self.url} has {SPARKS_LOG}: a streaming query writes there, and readers see "
                "its files only. Write to another path; if it is empty, and there is no such query "
                "any more, remove it"
            )
        if self.filesystem.exists(self._place(f"{CONTROL}/{QUERY}")):
            raise ValueError(
                f"{self.url} has {CONTROL}/{QUERY}: a streaming query has begun there, and readers "
                "will see its files only. Write to another path; if there is no such query any "
                "more, remove that file"
            )

    def check_directories(self) -> None:
        """Refuse files where a commit or a query has its directories: nothing is known then.

        Raises
        ------
        FileNotFoundError
            There is no destination.
        NotADirectoryError
            It is a file, or what is to be a directory in it is.
        """
        if not self.filesystem.get_file_status(self.path).is_directory:
            raise NotADirectoryError(
                errno.ENOTDIR,
                "vacuum: the path is a file. Give the directory that was written to",
                self.url,
            )
        for name in (CONTROL, f"{CONTROL}/{_STAGING}", SPARKS_LOG):
            self._has_directory(name)

    def check_columns(self, job: Job, seen: m.Seen) -> tuple[str, ...] | None:
        """Refuse a job that adds to files which have other partition columns.

        The commit of a job looks at what was written down meanwhile.

        Parameters
        ----------
        job : Job
            Before anything of it is staged.
        seen : Seen
            What the log shows.

        Returns
        -------
        tuple of str or None
            Its columns as these files have them, in their case.

        Raises
        ------
        ValueError
            The message names both lists of columns.
        OSError
            The store refuses.
        """
        if job.partition_by is None or not job.mode.keeps:
            return job.partition_by
        if job.identity is not None and seen.last is not None and seen.last.has(job.identity):
            return job.partition_by  # it is committed, and adds nothing
        there = self.columns(seen)
        if there is not None and not job.fits(there):
            raise self._misfit(job, there)
        return job.partition_by if there is None else there

    def columns(self, seen: m.Seen) -> tuple[str, ...] | None:
        """Return the partition columns of the files that are there; None: not known, or no file is.

        Where no commit has written these down a page of a listing shows them, and a file in the
        first of the directories that name some.
        """
        there = seen.partition_by
        return columns_of(self._some_visible()) if there is None else there

    def has_batches(self) -> bool:
        """Whether a streaming query has written here: its log is what readers go by."""
        return self._has_directory(SPARKS_LOG)

    def start(self, job: Job) -> m.Outcome:
        """Tell, before anything is staged, whether a commit of a job would take it.

        With the modes CREATE and IGNORE an intent that a killed writer has left is carried out
        first. With the others nothing is looked at.

        Returns
        -------
        Outcome
            CLEAN: it would, as far as is known now. REPLAYED: an earlier run with its identity was
            committed. IGNORED or REFUSED: there are files.

        Raises
        ------
        LostFilesError
            The intent has lost files.
        OSError
            The store refuses.
        """
        if job.mode not in (Mode.CREATE, Mode.IGNORE):
            return m.Outcome.CLEAN
        return self._run(m.JobStart(job)).outcome

    def prepare(self, job: Job) -> None:
        """Make room for a job, once, before its tasks begin."""
        self.staging.prepare(job)

    def attempt(self, job: Job, name: str) -> Attempt:
        """Make room for one attempt of a task; `name` is never used again."""
        return self.staging.attempt(job, name)

    def commit(self, job: Job, files: Sequence[StagedFile], report: Report = NO_REPORT) -> m.End:
        """Show all files together, or recognise that an earlier run has done it.

        Afterwards it drops what jobs have staged that did nothing for a week, if a listing shows
        some (not on S3). That this fails is a line in the log.

        Parameters
        ----------
        job : Job
            As it was prepared.
        files : sequence of StagedFile
            What the attempts have staged that won; all others are dropped.
        report : Report, optional
            What they did, for the record.

        Raises
        ------
        LostFilesError
            Staged files are gone; nothing of the job was published, or the message says how to
            give it up.
        ValueError
            Another job has committed files with other partition columns meanwhile; or a streaming
            query has begun here. Nothing of this one was published.
        OSError
            The store refuses. If an intent is written by then, the next commit or
            :func:`.vacuum` carries it out; else nothing was published. ``EBUSY``: the files that
            are there have to be listed, and other commits came during each of 20 listings; nothing
            was published, and the same files can be committed later.
        """
        end = self._run(m.JobCommit(job, tuple(files), report))
        if end.outcome is m.Outcome.MISFIT:
            raise self._misfit(job, end.columns)
        self._sweep_what_is_old()
        return end

    def abort(self, job: Job, files: Iterable[StagedFile], *, after_commit: bool = False) -> bool:
        """Drop what a job has staged, unless its intent is written: then it will happen.

        Parameters
        ----------
        job : Job
            Which does nothing any more.
        files : iterable of StagedFile
            Those that are known.
        after_commit : bool
            Another process may have tried to write its intent. On a store that may do that later
            everything stays, for the commit or a sweep.

        Returns
        -------
        bool
            False: its intent is written, or may be.
        """
        if self.log.has_open(job):
            _log.warning(
                "the commit of job %s to %s is declared and will be carried out by the next "
                "write, or by: hflush vacuum %s",
                job.id,
                self.url,
                self.url,
            )
            return False
        if after_commit and acts_late(self.filesystem, self.path):
            _log.info("%s: job %s came to its commit: what is staged stays", self.url, job.id)
            return False
        self.staging.discard(job, tuple(files))
        return True

    def roll_forward(self) -> m.End:
        """Carry out the intent that a writer left, if there is one."""
        return self._run(m.RollForward())

    def waiting(self, number: int) -> Intent:
        """Return the intent of a commit that waits to be completed; ValueError: it does not."""
        seen = self.log.look()
        if seen.unfinished is None or number != seen.next_number:
            others = "none does" if seen.unfinished is None else f"commit {seen.next_number} does"
            raise ValueError(f"{self.url}: commit {number} does not wait to be completed: {others}")
        return seen.unfinished

    def give_up(self, number: int) -> None:
        """Take back a commit that is declared and cannot be completed.

        What it has staged goes first. A file that is not at its place by then never comes there:
        no process can complete the commit any more, nor remove what it replaces. Then those files
        go that it has published, and its intent. Whatever fails, it can be done again.

        Raises
        ------
        ValueError
            It does not wait to be completed; or files that it replaces are gone; or all of its own
            are there. Nothing was taken back.
        OSError
            The store refuses.
        """
        intent = self.waiting(number)
        refusal = f"{self.url}: commit {number} cannot be given up"
        is_there = for_all(self._is_there, intent.removes)
        gone = [path for path, there in zip(intent.removes, is_there, strict=True) if not there]
        if gone:
            raise ValueError(
                f"{refusal}, as a file that it replaces is gone: {self._place(gone[0])}. Put it "
                f"back; or choose which files stay, and remove {self.log.path}/{number}.intent"
            )
        self.staging.discard(intent.job, intent.files)
        there = self._lengths([file.path for file in intent.files])
        if len(there) == len(intent.files):
            raise ValueError(
                f"{refusal}, as all of its files are there: mend what stops it, and complete it "
                f"by: hflush vacuum {self.url}"
            )
        # One of another length is not its own, nor is one that was there before.
        own = {file.path for file in intent.files if there.get(file.path) == file.length}
        self._remove(tuple(own - set(intent.removes)), {})
        self.log.withdraw(number)

    def sweep(self, older_than: float) -> int:
        """Drop what jobs have staged that did nothing for so many seconds; return how much."""
        self.log.sweep(older_than)
        following = self.log.look().unfinished
        kept = set() if following is None else {following.job.id}
        return self.staging.sweep(older_than, kept)

    def visible(self, directories: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Return the paths of the files that readers see, relative to the destination.

        Parameters
        ----------
        directories : tuple of str, optional
            Only those in these partitions, in whatever case the columns of each are named.
        """
        wanted = ("",) if directories is None else self._spellings(directories)
        at_once = self.filesystem._lists_trees
        below = self._visible_in_tree if at_once else self._visible_below
        return tuple(sorted({path for directory in wanted for path in below(directory)}))

    def result(self) -> tuple[str, ...]:
        """Return the files of the last result, relative to the destination.

        That is of all commits up to one: never a part of one, nor old files beside new ones. It
        writes nothing: who may only read can call it.

        Raises
        ------
        OSError
            The store refuses. ``EBUSY``: commits that remove files came during each of 20 listings.
        """
        found = self._run(m.Reading()).paths
        return tuple(path for path in found if paths.basename(path) not in _SUMMARIES)

    def remove(self, path: str, older_than: float) -> bool:
        """Remove a file that readers see, if it was not modified for so many seconds."""
        place = self._place(path)
        try:
            modified = self.filesystem.get_file_status(place).modification_time_ns / 1e9
        except FileNotFoundError:
            return False
        if time.time() - modified < older_than:
            return False
        self._remove_file(place)
        return True

    # --- the machine's actions ---

    def _run(self, machine: m.RollForward | m.Reading) -> m.End:
        action, seen = machine.start(), m.Seen(None, None)
        while not isinstance(action, m.End):
            try:
                event = self._do(action)
            except OSError as failure:
                if isinstance(action, (m.Publish, m.Remove, m.Finish)):
                    number = seen.next_number
                    stuck = f"commit {number} is declared: each write here tries to complete it"
                    note(failure, f"{stuck}. {self._giving_up(number)}")
                raise
            if isinstance(event, m.Seen):
                seen = event
            action = machine.on(event)
        if action.outcome is m.Outcome.LOST:
            raise self._lost(action)
        if action.outcome is m.Outcome.OVERTAKEN:
            raise OSError(
                errno.EBUSY,
                f"commits: each of {m.MAX_LISTINGS} listings of the files was overtaken by others, "
                f"who are at commit {action.number}: what is there was never seen whole. Try again "
                "when fewer write here; what a killed driver has left is carried out by: "
                f"hflush vacuum {self.url}",
                self.url,
            )
        if action.outcome is m.Outcome.UNKNOWN:
            raise OSError(
                errno.ETIMEDOUT,
                f"commit {action.number} was declared, then this process slept while hundreds of "
                "others were carried out: whether it is one of them is not known any more",
                self.url,
            )
        return action

    def _do(self, action: m.Action) -> m.Event:
        if isinstance(action, m.Look):
            return self.log.look()
        if isinstance(action, m.Verify):
            missing = self.staging.missing(action.job, action.files)
            if missing:
                return m.Lost(missing)
            self.staging.make_directories(action.files)  # while nothing is declared
            return m.Verified()
        if isinstance(action, m.Survey):
            return m.Surveyed(self.visible(action.directories))
        if isinstance(action, m.Declare):
            self.staging.check_removal(action.intent.removes)
            if action.number == 0:
                self._begin()
            intent = self._with_what_is_found(action.intent)
            self.declares = True
            self.declares = self.log.declare(action.number, intent)
            return m.Declared() if self.declares else m.Taken()
        if isinstance(action, m.Withdraw):
            self.log.withdraw(action.number)
            return m.Withdrawn()
        if isinstance(action, m.Publish):
            return self._publish(action.intent)
        return self._conclude(action)

    def _begin(self) -> None:
        """Show that jobs write here, and only then look whether a query does: it does likewise.

        So of a job and a query that begin at one time both are never accepted.
        """
        is_first = self.log.make()
        try:
            self.check()
        except BaseException:
            if is_first:
                self.log.unmake()
            raise

    def _with_what_is_found(self, intent: Intent) -> Intent:
        """Add what the files are like that it removes: it may be carried out much later."""
        removes = intent.removes
        shared = [path for path in removes if not _UNIQUE_NAME.fullmatch(paths.basename(path))]

        def found_now(path: str) -> Found | None:
            with contextlib.suppress(OSError):  # such as of a link to itself, which can go
                return self._found(path)
            return None

        found = for_all(found_now, shared)
        return replace(intent, found=tuple(file for file in found if file is not None))

    def _conclude(self, action: m.Action) -> m.Event:
        if isinstance(action, m.Remove):
            self._remove(action.paths, {file.path: file for file in action.found})
            return m.Removed()
        if isinstance(action, m.Finish):
            self._mark(action.record)
            self.log.finish(action.record)
            return m.Finished()
        if isinstance(action, m.Clean):
            try:
                self.staging.discard(action.job, ())
                self.log.clean(action.number)
            except OSError as failure:  # what is over stays until a vacuum
                _log.warning("%s: commit %d is done, but: %s", self.url, action.number, failure)
            return m.Cleaned()
        assert isinstance(action, m.Discard), action
        try:
            self.staging.discard(action.job, action.files)
        except OSError as failure:  # how the job ends is known without
            _log.warning("%s: what job %s has staged stays: %s", self.url, action.job.id, failure)
        return m.Discarded()

    def _publish(self, intent: Intent) -> m.Event:
        done = for_all(lambda file: self.staging.publish(intent.job, file), intent.files)
        lost = [file.path for file, ok in zip(intent.files, done, strict=True) if not ok]
        if lost:
            return m.Lost(tuple(lost))
        # The record that follows is on disk: so have to be the names that it vouches for.
        files = [self._place(file.path) for file in intent.files]
        above = {parent for place in files for parent in self._parents(place)}
        # One entry of each directory: to sync it is to sync the directory.
        for entry in {paths.parent(entry): entry for entry in (*files, *above)}.values():
            self.filesystem._sync_entry(entry)
        return m.Published()

    def _remove(self, removed: tuple[str, ...], found: Mapping[str, Found]) -> None:
        def remove(path: str) -> None:
            if path in found and self._found(path) not in (found[path], None):
                _log.warning(
                    "%s: %s was written after it was to be removed, and stays", self.url, path
                )
            else:
                self._remove_file(self._place(path))

        for_all(remove, removed)
        places = [self._place(path) for path in removed]
        # Directories of partitions that are empty now, the deepest first. What a link leads to is
        # not looked at when the link is removed: it may have the new files.
        above = {parent for place in places for parent in self._parents(place)}
        for directory in sorted(above, key=paths.depth, reverse=True):
            if self.filesystem._is_link(directory):
                continue
            try:
                self.filesystem.delete(directory)
            except OSError as failure:
                if failure.errno != errno.ENOTEMPTY:  # a mount or another user's; it has no rows
                    _log.warning("%s: the directory of a partition stays: %s", self.url, failure)

    def _found(self, path: str) -> Found | None:
        """Return what a file is like now; None if it is not there."""
        try:
            status = self.filesystem.get_file_status(self._place(path))
        except FileNotFoundError:
            return None
        return Found(path, status.modification_time_ns, status.length)

    def _remove_file(self, place: str) -> None:
        self.filesystem.delete(place)
        for beside in self.filesystem._side_files(place):
            self.filesystem.delete(beside)

    def _parents(self, place: str) -> Iterator[str]:
        directory = paths.parent(place)
        while directory != self.path and paths.is_under(directory, self.path):
            yield directory
            directory = paths.parent(directory)

    # --- small things ---

    def _has_directory(self, name: str) -> bool:
        place = self._place(name)
        try:
            status = self.filesystem.get_file_status(place)
        except FileNotFoundError:
            return False
        if not status.is_directory:
            raise NotADirectoryError(
                errno.ENOTDIR,
                "commits: this is a file, where there has to be a directory. Move it away",
                self.filesystem.make_qualified(place),
            )
        return True

    def _sweep_what_is_old(self) -> None:
        try:
            if self.staging.has_idle(WEEK_S):
                self.sweep(WEEK_S)
        except Exception as failure:  # the commit is done
            _log.warning("%s: what killed jobs have left stays: %s", self.url, failure)

    def _place(self, path: str) -> str:
        return paths.child(self.path, path) if path else self.path

    def _spellings(self, directories: Iterable[str]) -> Iterator[str]:
        """Return these partitions' directories that are there, in each case of their columns."""
        wanted = {same_partition(directory) for directory in directories}
        above = {one[:end] for one in wanted for end, sign in enumerate(one) if sign == "/"}
        level = [""]
        while level:
            yield from (path for path in level if same_partition(path) in wanted)
            level = [
                below
                for path in level
                if path == "" or same_partition(path) in above
                for below, status in self._entries(path, by_page=False)
                if status.is_directory
            ]

    def _visible_below(self, directory: str, *, by_page: bool = False) -> Iterator[str]:
        """Walk what Spark's readers walk."""
        for path, status in self._entries(directory, by_page=by_page):
            if status.is_directory:
                yield from self._visible_below(path, by_page=by_page)
            else:
                yield path

    def _visible_in_tree(self, directory: str) -> Iterator[str]:
        """Return the same of a listing of all that is below, which has what is hidden, too."""
        top = self._place(directory)
        try:
            found = self.filesystem.list_files(top, recursive=True)
        except FileNotFoundError:
            return
        for status in found:
            path = self.filesystem._store_path(status)
            *above, name = path[len(top) :].lstrip("/").split("/")
            if _is_seen(name, status) and not any(map(is_hidden, above)):
                yield path[len(self.path) :].lstrip("/")

    def _some_visible(self) -> Iterator[str]:
        """Return files of the destination, and one of each partition directory in it, by a page."""
        for path, status in islice(self._entries("", by_page=True), _PAGE):
            if status.is_file:
                yield path
            elif "=" in path:
                yield from islice(self._visible_below(path, by_page=True), 1)

    def _entries(self, directory: str, *, by_page: bool) -> Iterator[tuple[str, FileStatus]]:
        """Return what Spark's readers see in a directory; paths are relative to the destination."""
        fs = self.filesystem
        listed = fs.list_status_iterator if by_page else fs.list_status
        try:
            found: Iterable[FileStatus] = listed(self._place(directory))
        except FileNotFoundError:
            return
        for status in found:
            name = paths.basename(fs._store_path(status))
            if _is_seen(name, status):
                yield f"{directory}/{name}" if directory else name, fs._met(status)

    def _mark(self, record: Record) -> None:
        """Write the marker, with what was counted. Readers need not see it: best effort."""
        document = {
            "name": "hflush",
            "commit": record.number,
            "job": record.job.id,
            "mode": record.job.mode.value,
            "files": record.files,
            "rows": record.rows,
            "bytes": record.length,
            "removed": record.removed,
            "tasks": len(record.report.tasks),
            "syncs": record.report.syncs,
            "stalls": record.report.stalls,
            "byTask": record.report.by_task(),
        }
        lines = (f"{json.dumps(name)}: {_compact(value)}" for name, value in document.items())
        text = "{\n " + ",\n ".join(lines) + "\n}\n"
        place = paths.child(self.path, SUCCESS)
        try:
            with self.filesystem.create(place, atomic=True) as stream:
                stream.write(text.encode("ascii"))
        except OSError as failure:  # the files are published all the same
            _log.warning("%s: the files are published, but not %s: %s", self.url, SUCCESS, failure)

    def _lost(self, end: m.End) -> LostFilesError:
        first, count = self._place(end.paths[0]), len(end.paths)
        reason = f"commit: {count} of the staged files are gone; nothing was published"
        if end.number is not None:
            reason = (
                f"commit {end.number} is declared, but {count} of its files are neither staged nor "
                f"published. {self._giving_up(end.number)}"
            )
        return LostFilesError(errno.ENOENT, reason, self.filesystem.make_qualified(first))

    def _misfit(self, job: Job, there: tuple[str, ...]) -> ValueError:
        other_way = "replace all files by mode('overwrite'), or write to another path"
        return misfit(self.url, there, job.partition_by or (), other_way)

    def _giving_up(self, number: int) -> str:
        return f"To give it up: hflush vacuum --give-up {number} {self.url}"

    def _lengths(self, files: Sequence[str]) -> dict[str, int]:
        """Return which of these files are there, and how long they are."""
        lengths = zip(files, for_all(self._length, files), strict=True)
        return {path: length for path, length in lengths if length is not None}

    def _length(self, path: str) -> int | None:
        try:
            status = self.filesystem.get_file_status(self._place(path))
        except FileNotFoundError:
            return None
        return None if status.is_directory else status.length

    def _is_there(self, path: str) -> bool:
        """Whether something has this name, if only a link that leads to nothing."""
        place = self._place(path)
        return self.filesystem._is_link(place) or self.filesystem.exists(place)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _is_seen(name: str, status: FileStatus) -> bool:
    """Whether Spark's readers see what has a name: no hidden ones, but Parquet's summaries."""
    return not is_hidden(name) or (name in _SUMMARIES and status.is_file)
