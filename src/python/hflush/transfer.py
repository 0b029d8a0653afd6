"""Copying and moving files and trees from one file system to another."""

# ruff: noqa: PTH114, PTH115, PTH116

from __future__ import annotations

import contextlib
import errno
import os
import stat
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from .capabilities import ABORTABLE
from .errors import LeaseLostError, attach, note
from .paths import basename, child, is_under, parent
from .pinning import pinned
from .status import identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .files import Files
    from .output import FSDataOutputStream
    from .status import FileStatus

__all__ = ["copy", "copy_file", "is_within", "whole"]

_BUFFER_BYTES = 1 << 20
_MAX_NAMES = 20
# Modes of what is moved, until all of it is there.
_OWN_FILE = 0o600
_OWN_DIRECTORY = 0o700
_SYNCING: set[int] = set()  # devices


def copy(
    source: Files,
    source_path: str,
    target: Files,
    target_path: str,
    *,
    delete_source: bool,
    overwrite: bool,
    is_alone: bool = False,
) -> None:
    """Copy or move a file or a tree; into `target_path` under its own name if that is a directory.

    Paths are normalised. A file that is replaced stays until its copy is whole, and if that fails:
    see :func:`whole`. What is moved is removed when all of it was copied, each file and
    directory by itself: what was not copied stays (a name that listings leave out, what is new),
    and so does what has changed since. Between local files owner, mode and times are kept as far as
    the process may and the mount can, as by a rename; no copy is open to others before its mode is.
    A file that is moved may be a directory, too, on S3: that stays, and unless the file is meant
    alone, it is an error that names it.

    Raises
    ------
    FileNotFoundError
        The source is missing.
    FileExistsError
        A file exists and may not be overwritten, or a file and a directory are in each other's way.
    PermissionError
        The store refuses; it forbids to look whether the target is a directory.
    OSError
        A tree would be copied into itself, or something in it is neither file nor directory. All
        was copied, but some of the source stayed (``ENOTEMPTY``): the message names it.

    Notes
    -----
    A note of a failure says what was copied until then. If that is no file, the directories that
    were made are removed.
    """
    source, source_path = source._behind(source_path)
    status = source._status(source_path)
    if delete_source and source_path == "/":
        message = "move: the root directory stays: move what is in it"
        raise OSError(errno.EINVAL, message, source._named(source_path))
    if _is_directory(target, target_path):
        target_path = child(target_path, basename(source_path))
    target, target_path = target._behind(target_path)
    if is_within(target, target_path, source, status) or (
        delete_source
        and is_under(target_path, source_path)
        and target._is_alias_of(source, status, target_path)
    ):
        message = f"copy of {source._named(source_path)} onto or into itself"
        raise OSError(errno.EINVAL, message, target._named(target_path))
    keeps = delete_source and source._is_local and target._is_local
    copying = _Copy(source, target, overwrite, keeps)
    try:
        copied = copying.make(status, source_path, target_path)
    except BaseException as failure:
        copying.leave(failure, target_path)
        raise
    if delete_source:
        removal = _Removal(source)
        removal.remove(copied)
        if copied.entries is None and not is_alone:
            removal.look_below(source_path)
        removal.report(source._named(source_path), target._public_name(target_path))


def copy_file(source: Files, source_path: str, target: Files, target_path: str) -> None:
    """Copy one file over whatever file is at the target.

    Raises
    ------
    FileNotFoundError
        The source is missing.
    OSError
        Both are the same file; the source is not a regular file.
    """
    source, source_path = source._behind(source_path)
    target, target_path = target._behind(target_path)
    status = source._status(source_path)
    _Copy(source, target, True).make(status, source_path, target_path)


def _is_directory(target: Files, path: str) -> bool:
    """Return whether a target is a directory, which is copied into.

    Raises
    ------
    PermissionError
        That cannot be seen: the copy could be made under another name than is meant.
    """
    try:
        return target.is_directory(path)
    except PermissionError as denied:
        message = (
            "copy: whether the target is a directory has to be known, and looking there is "
            f"forbidden (on S3 s3:ListBucket allows it; create() does without): {denied.strerror}"
        )
        raise PermissionError(denied.errno, message, denied.filename or path) from denied


def is_within(target: Files, path: str, source: Files, status: FileStatus) -> bool:
    """Return whether `path` is the source itself, or lies below it, by whatever name."""
    target, path = target._leads_to(path)
    source, source_path = source._leads_to(source._store_path(status))
    if not target._shares_files_with(source):
        return False
    # Ids alone show where names by ids of HDFS lead.
    by_id = not status.is_directory or "/.reserved/" in path
    own = status.file_id if by_id else source._loop_id(status)
    while path != source_path:
        if own:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if target._status(path).file_id == own:
                    return True
        if path == "/" or not status.is_directory:
            return False
        path = parent(path)
    return True


class _Copied(NamedTuple):
    """What was copied, as it was before that."""

    path: str
    is_link: bool
    version: tuple[object, ...]  # of a file, empty if it changed meanwhile; of a link, its text
    entries: list[_Copied] | None  # of a directory, or of what a link to one leads to

    @property
    def is_directory(self) -> bool:
        """Whether it goes by what is in it: no link to a directory does."""
        return self.entries is not None and not self.is_link


class _Copy:
    """The copy of a file or a tree."""

    def __init__(self, source: Files, target: Files, overwrite: bool, keeps: bool = False) -> None:
        self._source = source
        self._target = target
        self._overwrite = overwrite
        # The target of a move between local files, which keeps owner, mode and times.
        self._keeping: Any = target if keeps else None
        # The local files that were made, how many files of any kind, and the directories.
        self._made: dict[tuple[int, ...] | None, str] = {}
        self._files = 0
        self._new: dict[str, None] = {}

    def make(
        self, status: FileStatus, path: str, target_path: str, above: tuple[object, ...] = ()
    ) -> _Copied:
        """Copy what is at a path, `above` which are these directories; return what it was."""
        is_link = self._source._is_link(path)
        leads_to = (self._source._link_text(path),) if is_link else ()
        if status.is_directory:
            loop_id = self._source._loop_id(status)
            if (loop_id is not None and loop_id in above) or (
                is_link and is_within(self._target, target_path, self._source, status)
            ):
                message = "copy: this directory is in itself, or the target is in it, by a link"
                raise OSError(errno.ELOOP, message, self._source._named(path))
            here = (*above, loop_id)
            listed = self._source._list(path)  # before something appears in it by another name
            is_new = self._make_directory(target_path)
            entries = [
                self.make(
                    entry, self._source._store_path(entry), child(target_path, entry.name), here
                )
                for entry in listed
            ]
            if is_new and self._keeping:
                self._keeping._take_after(status, target_path, 0)
            return _Copied(path, is_link, leads_to, entries)
        if not status.is_file:
            message = f"copy: not a regular file but {status.kind}"
            raise OSError(errno.EINVAL, message, self._source._named(path))
        if is_within(self._target, target_path, self._source, status):
            raise OSError(errno.EINVAL, f"copy of {path} onto itself", target_path)
        self._check_distinct(target_path)
        length, inode = self._copy_bytes(path, target_path)
        if self._target._store_at(target_path)._is_local:
            self._made[self._target._status(target_path).file_id] = target_path
        self._files += 1
        if self._keeping:
            self._keeping._take_after(status, target_path, inode)
        version = leads_to or (_version(status) if length == status.length else ())
        return _Copied(path, is_link, version, None)

    def leave(self, failure: BaseException, path: str) -> None:
        """Add a note about what was copied before a failure; leave no tree without any file."""
        if self._files:
            name = self._target._public_name(path)
            text = f"files copied to '{name}' until then: {self._files}; none was removed"
            if path in self._new:
                text += ". That directory is new: remove it first, or a repetition goes into it"
            note(failure, text)
            return
        for made in reversed(self._new):
            with contextlib.suppress(OSError):  # useless; the failure is being raised
                self._target.delete(made)

    def _make_directory(self, path: str) -> bool:
        """Make a directory; return whether it is new."""
        is_new = parent(path) in self._new or not self._target.is_directory(path)
        if is_new and self._keeping:  # it takes after the source in the end
            self._target.mkdirs(parent(path))
            _closed_to_others(partial(self._keeping.mkdirs, path), _OWN_DIRECTORY)
        else:
            self._target.mkdirs(path)
        if is_new:
            self._new[path] = None
        return is_new

    def _create(
        self, path: str, properties: Mapping[str, str], **options: Any
    ) -> FSDataOutputStream:
        if properties:
            builder = self._target.create_file(path).overwrite(self._overwrite).recursive()
            for key, value in properties.items():
                builder.opt(key, value)
            return builder.build()
        create: Any = partial(self._target.create, path, overwrite=self._overwrite, **options)
        writer: FSDataOutputStream = (
            _closed_to_others(create, _OWN_FILE) if self._keeping else create()
        )
        return writer

    def _copy_bytes(self, path: str, target_path: str) -> tuple[int, int]:
        """Return how many there were, and the store's own name of the file, 0 if it has none."""
        length = 0
        store, own_path = self._source._behind(path)
        is_alike = type(self._target._store_at(target_path)) is type(store)
        properties = store._properties(own_path) if is_alike else {}
        create = partial(self._create, target_path, properties)
        with (
            self._source._open(path, _BUFFER_BYTES) as reader,
            whole(create, self._target, target_path, keeps_mode=not self._keeping) as writer,
        ):
            buffer = memoryview(bytearray(_BUFFER_BYTES))
            while count := reader.readinto(buffer):
                length += writer.write(buffer[:count])
            own: int = getattr(writer, "_file_id", 0)
        return length, own

    def _check_distinct(self, path: str) -> None:
        """Refuse to go on where two names are one file: by case, by a link."""
        if not self._made:
            return
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            other = self._made.get(self._target._status(path).file_id, path)
            if other != path:
                message = f"copy: {other} is the same file here, and would be replaced by this"
                raise FileExistsError(errno.EEXIST, message, path)


def _closed_to_others(make: Callable[..., Any], permission: int) -> Any:
    """Make a file or directory that is its owner's alone; or with the mode that a mount gives."""
    try:
        return make(permission=permission)
    except PermissionError:  # if it has another reason, that holds here, too
        return make()


@contextlib.contextmanager
def whole(
    make: Callable[..., Any],
    target: Files,
    path: str,
    *,
    keeps_mode: bool = True,
    keeps_part: bool = False,
) -> Iterator[Any]:
    """Make a writer, and end it with the block; if that fails, no part of its file stays.

    A file that is at the target stays then: where a store shows what is being written, the new one
    is written aside, like the earlier one in owner and mode, and is on disk when it takes its
    place. That cannot be done where a local file has other names, or attributes that the new one
    does not get, may not be written to, is one that a process has open (``/dev/stdout``) or a mount
    by itself, or is in a directory where no other may be made, or its place not be taken, or on a
    mount that does not sync: it is written over, and a note of a failure says that it is gone.

    Parameters
    ----------
    make : callable
        Opens the writer; takes options of create.
    target : Files
        The file system.
    path : str
        The file.
    keeps_mode : bool
        Whether a file that is replaced hands on its owner and mode.
    keeps_part : bool
        Whether what was written stays after a failure: it is written in place then.
    """
    earlier = _earlier(target, path)
    writer = _aside(make, earlier, keeps_mode) if earlier and not keeps_part else None
    if writer is None:
        writer = make()
    made = None
    try:
        with writer:
            if not keeps_part:
                made = _identity(writer, target, path)
            yield writer
    except BaseException as failure:
        if not isinstance(failure, LeaseLostError):  # the file is another writer's
            with contextlib.suppress(OSError):  # useless; the failure is being raised
                _discard(target, path, made)
        if earlier and not writer.has_capability(ABORTABLE):
            note(failure, f"what was in '{path}' before is gone: it was written over")
        raise


class _Earlier(NamedTuple):
    """A file whose place a new one takes."""

    store: Any
    name: str  # a link to it, maybe
    path: str
    status: FileStatus


def _earlier(target: Any, path: str) -> _Earlier | None:
    """Return the file at a path, unless the store keeps it until a new one is whole."""
    store, name = target._behind(path)
    if store.has_path_capability(name, ABORTABLE):
        return None
    there = store._write_target(name)
    try:
        status = store._status(there)
    except OSError:  # none, or the writer will meet it, too
        return None
    return _Earlier(store, name, there, status) if status.is_file else None


def _aside(make: Callable[..., Any], earlier: _Earlier, keeps_mode: bool) -> Any:
    """Return a writer whose file takes the place of an earlier one at its end; None: not here."""
    is_local = earlier.store._is_local
    aside = partial(make, atomic=True)
    try:
        if is_local and not _is_replaceable(earlier):
            return None
        likens = is_local and keeps_mode
        writer = _closed_to_others(aside, _OWN_FILE) if likens else aside()
    except (FileNotFoundError, PermissionError, ValueError):  # or it holds in place, too
        return None
    state = getattr(writer, "_aside", None)  # a file of a transaction has its own
    if not is_local or state is None:
        return writer
    made, own = state.publication.temporary, state.publication.own
    with contextlib.suppress(OSError):  # another file has its name
        if _syncs(made) and (not likens or _liken(made, own, earlier)):
            return writer
    writer.abort()
    return None


def _is_replaceable(earlier: _Earlier) -> bool:
    """Whether a local file may be written to, has one name, and another can take its place."""
    names = [earlier.name]
    if os.path.islink(earlier.name):
        names.append(os.readlink(earlier.name))
    facts, above, user = os.lstat(earlier.path), os.stat(parent(earlier.path)), os.geteuid()
    is_anothers = above.st_mode & stat.S_ISVTX and user not in (0, facts.st_uid, above.st_uid)
    return (
        stat.S_ISREG(facts.st_mode)
        and facts.st_nlink <= 1
        and facts.st_dev == above.st_dev
        and not is_anothers
        and os.access(earlier.path, os.W_OK)
        and not any(name.startswith(("/dev/", "/proc/")) for name in names)
    )


def _syncs(path: str) -> bool:
    """Whether the mount of a local file syncs; asked once for each."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        device = os.fstat(descriptor).st_dev
        if device not in _SYNCING:
            os.fsync(descriptor)
            _SYNCING.add(device)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _liken(made: str, inode: int, earlier: _Earlier) -> bool:
    """Give what is written aside the owner and mode of the earlier file; whether it is alike."""
    store, status = earlier.store, earlier.status

    def give(name: str) -> None:
        with contextlib.suppress(OSError):
            store._namespace.set_owner(name, status.owner, status.group)
        with contextlib.suppress(OSError):
            store._namespace.set_permission(name, status.permission)

    for beside in store._sums_of(made):
        with contextlib.suppress(OSError), pinned(beside, 0) as name:
            give(name)
    with pinned(made, inode) as name:
        give(name)
        return _traits(name) == _traits(earlier.path)


def _traits(path: str) -> tuple[object, ...]:
    """Return what is set for a local file."""
    facts = os.stat(path)
    attributes = {}
    with contextlib.suppress(OSError):  # there are none on this mount
        attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    return facts.st_uid, facts.st_gid, facts.st_mode, attributes


def _identity(writer: Any, target: Files, path: str) -> int | None:
    """Return the store's own name of a new file, 0 if it has none; None if none is there."""
    if writer.has_capability(ABORTABLE):
        return None
    own: int = getattr(writer, "_file_id", 0)
    return own or identity(target._status(path))


def _discard(target: Files, path: str, made: int | None) -> None:
    """Remove what a writer has made, behind a link if there is one; not what took its place."""
    if made is None:
        return
    store, there = target._behind(path)
    real = store._write_target(there)
    status = store._status(real)
    if status.is_file and identity(status) == made:
        store.delete(real)


class _Removal:
    """Removes what was copied, entry by entry; goes on where something has to stay."""

    def __init__(self, source: Files) -> None:
        self._source = source
        self._stayed: dict[str, str] = {}  # why, by path
        self._kept: set[str] = set()  # all paths of which it is known that they stay
        self._failures: list[OSError] = []

    def remove(self, copied: _Copied) -> None:
        """Remove one entry, and what was copied of it."""
        with self._noting(copied.path):
            if self._may_go(copied, self._source._status(copied.path)):
                self._remove_files([copied.path])

    @contextlib.contextmanager
    def _noting(self, path: str) -> Iterator[None]:
        """Note what fails, and go on; that another program has removed something is fine."""
        try:
            yield
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as failure:
            self._failures.append(failure)
            self._kept.add(path)

    def _may_go(self, copied: _Copied, status: FileStatus) -> bool:
        """Whether a file, or a link, can be removed now; a directory is removed here."""
        path = copied.path
        is_link = self._source._is_link(path)
        is_directory = copied.entries is not None
        if is_link and copied.is_link:  # what it leads to may be gone already
            if copied.version == (self._source._link_text(path),):
                return True
            self._stays(path, "changed meanwhile")
        elif is_link is not copied.is_link or is_directory is not status.is_directory:
            self._stays(path, "another one by now")
        elif copied.entries is not None:
            self._remove_directory(path, copied.entries)
        elif self._source._is_being_written(path):
            self._stays(path, "being written")
        elif not copied.version or copied.version != _version(status):
            self._stays(path, "changed meanwhile")
        else:
            return True
        return False

    def _remove_directory(self, path: str, entries: list[_Copied]) -> None:
        with self._noting(path):
            for entry in entries:
                if entry.is_directory:
                    self.remove(entry)
            files = {entry.path: entry for entry in entries if not entry.is_directory}
            if files:
                self._remove_from(path, files)
            copied = [basename(entry.path) for entry in entries if entry.is_directory]
            self._keep(path, self._source._remove_emptied(path, copied))

    def _remove_from(self, directory: str, files: dict[str, _Copied]) -> None:
        """Look at each file right before it goes: what is removed before it may take hours."""
        at_once = self._source._removed_at_once()
        if at_once == 1:
            for entry in files.values():
                self.remove(entry)
            return
        listed = self._source._iterate(directory)
        while portion := list(islice(listed, at_once)):
            now = {self._source._store_path(status): status for status in portion}
            there = [(files[found], now[found]) for found in now if found in files]
            self._remove_files(
                [entry.path for entry, status in there if self._may_go(entry, status)]
            )

    def _remove_files(self, files: list[str]) -> None:
        for path, failure in self._source._remove_files(files) if files else ():
            self._failures.append(failure)
            self._kept.add(path)

    def look_below(self, path: str) -> None:
        """Note what is below the path of a file that was moved: nothing of it was copied."""
        with self._noting(path):
            self._keep(path, self._source._also_at(path))

    def _keep(self, path: str, left: list[str]) -> None:
        """Note what is left below a path."""
        for name in left:
            if name not in self._kept:
                self._stays(name, "not copied")
        if left:
            self._kept.add(path)

    def _stays(self, path: str, why: str) -> None:
        self._stayed[path] = why
        self._kept.add(path)

    def report(self, source: str, target: str) -> None:
        """Raise unless all is gone.

        Raises
        ------
        OSError
            Something stayed: the first failure to remove something, or ``ENOTEMPTY``.
        """
        first = self._failures[0] if self._failures else None
        if first is None and not self._stayed:
            return
        names = [
            f"{self._source._named(path)} ({why})"
            for path, why in islice(self._stayed.items(), _MAX_NAMES)
        ]
        if len(self._stayed) > _MAX_NAMES:
            names.append("…")
        message = f"move: copied to {target}, but not all of the source could be removed"
        if first is not None:
            message += f": {first.strerror or first}"
        if names:
            message += f"; what stayed: {', '.join(names)}"
        if first is None:
            raise OSError(errno.ENOTEMPTY, message, source)
        error = type(first)(first.errno, message, first.filename or source)
        for also in self._failures[1:_MAX_NAMES]:
            attach(error, also)
        raise error from first


def _version(status: FileStatus) -> tuple[object, ...]:
    """Return what tells one content of a file from another, as far as the store says."""
    if status.etag:
        return status.length, status.etag
    return status.length, status.modification_time_ns, status.file_id
