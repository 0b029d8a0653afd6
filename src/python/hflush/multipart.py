"""Files made of parts that several processes write: begin, put parts in any order, complete.

Made by :meth:`hflush.FileSystem.create_multipart_uploader`, for raw local files and HDFS. The parts
of an upload are ordinary files in a hidden directory, ``.hflush-upload.<upload>/<number>.<part>``,
in the directory that the uploader was made for: all users who may write there may upload. Hadoop
and Spark ignore names that begin with a dot. :meth:`MultipartUploader.complete` joins them there
and renames the result, which is on disk, to its path in one step; so the base and the path are on
one volume. Where a store can concat (HDFS), joining moves no data.

Notes
-----
Source: Hadoop's MultipartUploader and its FileSystemMultipartUploader; contract MPU-1 to MPU-9.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import re
import uuid
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, BinaryIO

from . import capabilities, paths
from .atomic import Publication
from .errors import LeaseLostError, PathIsDirectoryError, attach
from .options import Rename
from .status import identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Protocol

    from typing_extensions import Buffer, Self

    from .filesystem import FileSystem
    from .paths import StrPath
    from .status import FileStatus
    from .streams import FSDataOutputStream

    class Resolves(Protocol):
        """What every uploader needs of its file system."""

        def _resolve(self, path: StrPath) -> str: ...
        def _resolve_to_change(self, path: StrPath) -> str: ...


__all__ = ["MultipartUploader"]

_log = logging.getLogger(__name__)

_PARTS = ".hflush-upload."  # and the upload: the directory of its parts
_ENDED = ".hflush-ended."  # the same, of one that has ended, until it is removed
_DIRECTORY = re.compile(r"\.hflush-(upload|ended)\.[0-9a-f]{32}")
_TARGET = "target"
_TAKEN = "taken"
_JOINED = "joined"
_COPY_BYTES = 1 << 20


class UploaderBelow(ABC):
    """The base of every uploader: it is for one directory, and has nothing to close.

    A store implements the functions with an underscore.
    """

    _filesystem: Resolves

    def __init__(self, filesystem: Resolves, base: str) -> None:
        self._filesystem = filesystem
        self.base = base

    def close(self) -> None:  # noqa: B027
        """Do nothing: uploads that have not ended go on. Hadoop's interface has this method."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} {self.base!r}>"

    # --- one upload ---

    def start_upload(self, path: StrPath) -> bytes:
        """Begin an upload of a file; nothing is visible at its path.

        Parameters
        ----------
        path : str or os.PathLike
            The file, at or below the base.

        Returns
        -------
        bytes
            The id of the upload: not empty.

        Raises
        ------
        ValueError
            `path` is not at or below the base.
        PathIsDirectoryError, OSError
            The path is a directory; the store refuses.
        """
        resolved = self._resolve(path)
        self._refuse_directory(resolved)
        return self._start(resolved)

    @abstractmethod
    def _start(self, path: str) -> bytes: ...

    def put_part(
        self, upload: bytes, path: StrPath, number: int, is_last: bool, data: Buffer | BinaryIO
    ) -> bytes:
        """Write one part, of any length.

        Parameters
        ----------
        upload : bytes
            From :meth:`start_upload`.
        path : str or os.PathLike
            The path the upload was begun for.
        number : int
            Where the part belongs: 1 or more, on S3 up to 10,000; gaps are allowed.
        is_last : bool
            Whether it is the last, which on S3 alone may have less than 5 MiB.
        data : bytes-like or binary file object
            The bytes; a file is read to its end and stays open.

        Returns
        -------
        bytes
            The id of the part, for :meth:`complete`. Putting a number again returns another id; on
            S3 the new part replaces the old one.

        Raises
        ------
        FileNotFoundError
            The upload is unknown, or has ended.
        ValueError, TypeError, BufferError
            `upload` is empty, is of another path, or `number` is out of range; wrong types; `data`
            is not C-contiguous.
        OSError
            The part could not be written; nothing of it is left.
        """
        del is_last  # no store here needs it before complete
        return self._put(upload, path, number, data)

    @abstractmethod
    def _put(self, upload: bytes, path: StrPath, number: int, data: Buffer | BinaryIO) -> bytes: ...

    def complete(self, upload: bytes, path: StrPath, parts: Mapping[int, bytes]) -> bytes:
        """Join the parts in ascending order of their numbers, and publish the file in one step.

        Parameters
        ----------
        upload : bytes
            From :meth:`start_upload`. Afterwards it is unknown, and parts not listed are gone.
        path : str or os.PathLike
            The path the upload was begun for; a file there is replaced.
        parts : mapping
            Number to part. Numbers start at 1, gaps are allowed.

        Returns
        -------
        bytes
            The identity of the file: a path handle (:meth:`hflush.FileSystem.open_path_handle`); on
            S3 its path and etag.

        Raises
        ------
        ValueError, TypeError
            No parts, a number below 1, one part twice, a part of another number, or an empty
            `upload`. The upload goes on.
        FileNotFoundError
            The upload is unknown or has ended, or it has no such part.
        PathIsDirectoryError
            A directory is in the way. The upload goes on.
        OSError
            The store failed. The path is as it was, or a note says that this is not known. The
            upload goes on: for this uploader alone, if the failure lasts; where joining moves no
            data, parts that were joined before the failure can only be completed together. If parts
            cannot be removed once the file is published, the logger ``hflush.multipart`` warns of
            them, and nothing is raised.

        Notes
        -----
        The file is on disk before it is visible; its name is as durable as that of any rename.
        """
        return self._complete(upload, path, parts)

    @abstractmethod
    def _complete(self, upload: bytes, path: StrPath, parts: Mapping[int, bytes]) -> bytes: ...

    def abort(self, upload: bytes, path: StrPath) -> None:
        """End an upload and drop its parts; the path is as it was.

        Raises
        ------
        ValueError
            `upload` is empty, or is of another path.
        FileNotFoundError
            The upload is unknown, or has ended.
        """
        self._abort(upload, path)

    @abstractmethod
    def _abort(self, upload: bytes, path: StrPath) -> None: ...

    # --- all uploads ---

    def abort_uploads_under_path(self, path: StrPath) -> int:
        """Abort the uploads of this base to files at and below `path`; return how many there were.

        A path above the base stands for the base; one beside it has no uploads. On local files and
        HDFS what is left of others goes, too, uncounted: of those whose completion, or abort, was
        killed, and, with `path` the base, of those whose start was, or is under way. A completion
        that is under way has published its file then, or fails with FileNotFoundError. What is
        another user's, and may not be removed, stays: the logger ``hflush.multipart`` warns of it.
        On S3 this includes uploads of other programs: see
        :meth:`hflush.FileSystem.abort_multipart_uploads`, which spares young ones.
        """
        resolved = self._filesystem._resolve(path)
        is_above = paths.is_under(self.base, resolved)
        return self._abort_under(self.base if is_above else resolved)

    @abstractmethod
    def _abort_under(self, path: str) -> int: ...

    # --- how ---

    @abstractmethod
    def _refuse_directory(self, path: str) -> None: ...

    def _resolve(self, path: StrPath) -> str:
        resolved = self._filesystem._resolve_to_change(path)
        if not paths.is_under(resolved, self.base):
            raise ValueError(f"{resolved!r} is neither {self.base!r} nor below it")
        return resolved


class MultipartUploader(UploaderBelow):
    """Uploads files below a directory in parts. Thread-safe, and nothing is kept in memory.

    An upload is known by opaque bytes, and so is a part: they can be stored, and used by another
    uploader of the same base, also in another process. Several uploads to one path may run; the
    last to complete wins, whole. Completing or aborting ends an upload: afterwards it is unknown.

    Attributes
    ----------
    base : str
        The directory, or the one file: absolute, in the store.
    """

    _filesystem: FileSystem

    def __init__(self, filesystem: FileSystem, base: str) -> None:
        super().__init__(filesystem, base)
        self._taken: set[str] = set()  # directories of uploads that no store took back

    # --- one upload ---

    def _start(self, path: str) -> bytes:
        name = uuid.uuid4().hex
        directory = self._directory_of(path, name)
        self._filesystem.mkdirs(directory)
        with self._create(paths.child(directory, _TARGET)) as out:
            out.write(json.dumps(path).encode("ascii"))
        return name.encode("ascii")

    def _put(self, upload: bytes, path: StrPath, number: int, data: Buffer | BinaryIO) -> bytes:
        directory = self._find(upload, path)
        name = f"{_checked_number(number)}.{uuid.uuid4().hex}"
        part = paths.child(directory, name)
        out = self._create(part)
        with self._removed_on_failure(part), out:
            length = _copy(data, out)
            if self._concatenates():
                out.hsync()
        return json.dumps([name, length]).encode("ascii")

    def _complete(self, upload: bytes, path: StrPath, parts: Mapping[int, bytes]) -> bytes:
        directory = self._find(upload, path)
        resolved = self._resolve(path)
        chosen = _checked_parts(parts)
        self._refuse_directory(resolved)
        self._filesystem.mkdirs(paths.parent(resolved))
        publish = self._publish_parts if self._concatenates() else self._publish_copy
        try:
            status = publish(directory, chosen, resolved)
        except LeaseLostError as lost:  # another caller has ended the upload
            raise _unknown_upload(_name_of(directory), resolved) from lost
        try:
            self._remove(directory)
        except OSError as failure:  # not a failure: the file is published
            _log.warning("completed, but parts are left in %s: %s", directory, failure)
        status.path = self._filesystem._public_name(resolved)
        return self._filesystem.get_path_handle(status)

    def _abort(self, upload: bytes, path: StrPath) -> None:
        self._end(self._find(upload, path))

    # --- all uploads ---

    def _abort_under(self, path: str) -> int:
        aborted = 0
        for upload, target in self.uploads():
            if paths.is_under(target, path):
                with contextlib.suppress(FileNotFoundError), _others_stay():
                    self.abort(upload, target)
                    aborted += 1
        for directory in self._directories():
            with _others_stay():
                self._remove_left(directory, path)
        return aborted

    def _remove_left(self, directory: str, path: str) -> None:
        """Remove what a killed end, or start, leaves of an upload to a file at or below a path."""
        if paths.basename(directory).startswith(_ENDED):  # to whatever path
            self._drop(directory)
            return
        target = self._own_target(directory, _TAKEN)
        if target is not None:
            is_left = paths.is_under(target, path)
        else:  # perhaps one that has no path yet, which goes with all uploads of the base
            is_all = path == self.base == paths.parent(directory)
            is_left = is_all and self._own_target(directory, _TARGET) is None
        if is_left:
            self._remove(directory)

    def uploads(self) -> list[tuple[bytes, str]]:
        """Return the uploads of this base that have not ended, each with its path.

        Those of other bases, also below this one, are not looked for, and those of other users are
        left out if they may not be read.
        """
        found = []
        for directory in self._directories():
            with contextlib.suppress(PermissionError):
                target = self._own_target(directory, _TARGET)
                if target is not None:
                    found.append((_name_of(directory).encode("ascii"), target))
        return sorted(found)

    def _directories(self) -> list[str]:
        """Return where uploads are, or what is left of them; some may be of another base."""
        is_directory = self._filesystem.is_directory(self.base)
        place = self.base if is_directory else paths.parent(self.base)
        try:
            names = [paths.basename(one.path) for one in self._filesystem.list_status(place)]
        except FileNotFoundError:
            return []
        return [paths.child(place, name) for name in names if _DIRECTORY.fullmatch(name)]

    def _own_target(self, directory: str, file: str) -> str | None:
        """Return the path that a file of an upload's directory names; None if not of this base."""
        try:
            target = self._target(directory, file)
        except FileNotFoundError:
            return None
        return target if self._directory_of(target, _name_of(directory)) == directory else None

    # --- how ---

    def _directory_of(self, path: str, name: str) -> str:
        """Return the directory of an upload to a path: beside the base if that is a file."""
        place = paths.parent(self.base) if path == self.base else self.base
        return paths.child(place, f"{_PARTS}{name}")

    def _refuse_directory(self, path: str) -> None:
        if self._filesystem.is_directory(path):
            raise PathIsDirectoryError(errno.EISDIR, "upload: path is a directory", path)

    def _find(self, upload: bytes, path: StrPath) -> str:
        """Return the directory of an upload to `path`."""
        name = _decoded(upload, "an upload")
        resolved = self._resolve(path)
        directory = self._directory_of(resolved, name)
        if not (len(name) == 32 and name.isalnum()):
            raise _unknown_upload(name, resolved)
        if directory in self._taken:
            self._give_back(directory)
        try:
            target = self._target(directory)
        except FileNotFoundError:
            raise _unknown_upload(name, resolved) from None
        if target != resolved:
            raise ValueError(f"upload {name} is of {target!r}, not of {resolved!r}")
        return directory

    def _target(self, directory: str, file: str = _TARGET) -> str:
        with self._filesystem.open(paths.child(directory, file)) as stream:
            text = stream.read()
        if not text:  # begun this moment, or its writer died: its id was never returned
            raise _unknown_upload(_name_of(directory), directory)
        return str(json.loads(text))

    def _create(self, path: str) -> FSDataOutputStream:
        """Create a file in the directory of an upload: if that is gone, so is the upload."""
        try:
            return self._filesystem.create(path, overwrite=False, recursive=False)
        except FileNotFoundError as gone:
            directory = paths.parent(path)
            raise _unknown_upload(_name_of(directory), directory) from gone

    @contextlib.contextmanager
    def _removed_on_failure(self, path: str) -> Iterator[None]:
        try:
            yield
        except BaseException as failure:
            try:
                self._filesystem.delete(path)
            except OSError as also:
                attach(failure, also)
            raise

    def _concatenates(self) -> bool:
        return self._filesystem.has_path_capability(self.base, capabilities.CONCAT)

    def _publish_copy(self, directory: str, parts: list[tuple[str, int]], path: str) -> FileStatus:
        joined = _new_name(paths.child(directory, _JOINED))
        with self._removed_on_failure(joined):
            with self._create(joined) as out:
                for name, length in parts:
                    with self._filesystem.open(paths.child(directory, name)) as part:
                        copied = _copy(part, out)
                    _check_length(name, copied, length, path)
                out.hsync()
            return self._publish(directory, joined, path, Publication)

    def _publish_parts(self, directory: str, parts: list[tuple[str, int]], path: str) -> FileStatus:
        digest = hashlib.sha256(json.dumps(parts).encode("ascii")).hexdigest()
        stem = paths.child(directory, f"{_JOINED}.{digest}")
        try:
            for name, length in parts:
                found = self._filesystem.get_file_status(paths.child(directory, name)).length
                _check_length(name, found, length, path)
        except FileNotFoundError:
            joined = self._joined_before(stem, sum(length for _, length in parts))
            if joined is None:
                raise
        else:
            joined = self._concatenated(stem, [name for name, length in parts if length])
        return self._publish(directory, joined, path, _OnlyCopy)

    def _concatenated(self, stem: str, filled: list[str]) -> str:
        """Move the contents of parts to a new file: an empty one cannot be a source of concat."""
        joined = _new_name(stem)
        self._create(joined).close()
        if filled:
            directory = paths.parent(joined)
            self._filesystem.concat(joined, [paths.child(directory, name) for name in filled])
        return joined

    def _joined_before(self, stem: str, length: int) -> str | None:
        """Return the file of parts that a completion joined, and could not publish."""
        for one in self._filesystem.list_status(paths.parent(stem)):
            joined = paths.child(paths.parent(stem), paths.basename(one.path))
            if joined.startswith(stem) and one.length == length:
                return joined
        return None

    def _publish(
        self, directory: str, joined: str, path: str, kind: type[Publication]
    ) -> FileStatus:
        """Rename to the path; of several callers that complete one upload, one succeeds."""
        status = self._filesystem.get_file_status(joined)
        self._take(directory, path)
        target = self._filesystem._write_target(path)
        publication = kind(self._filesystem, joined, target, True, durable=False)
        publication.own = identity(status)
        try:
            publication.publish()
        except BaseException as failure:
            try:
                self._give_back(directory)
            except OSError as also:
                attach(failure, also)
            raise
        return status

    def _end(self, directory: str) -> None:
        self._take(directory, directory)
        self._remove(directory)

    def _take(self, directory: str, path: str) -> None:
        """Take an upload out of the others' hands, to end it: of several callers, one succeeds."""
        try:
            # Only one caller finds the target; a rename without replacing is not had everywhere.
            self._rename_in(directory, _TARGET, _TAKEN)
        except FileNotFoundError:
            raise _unknown_upload(_name_of(directory), path) from None

    def _give_back(self, directory: str) -> None:
        """Let an upload go on that could not be ended; if the store fails, its next call does."""
        self._taken.add(directory)
        with contextlib.suppress(FileNotFoundError):  # it has gone on, or was ended
            self._rename_in(directory, _TAKEN, _TARGET)
        self._taken.discard(directory)

    def _rename_in(self, directory: str, old: str, new: str) -> None:
        source, target = paths.child(directory, old), paths.child(directory, new)
        self._filesystem.rename(source, target, Rename.OVERWRITE)

    def _remove(self, directory: str) -> None:
        """Rename the directory of an ended upload, then remove it.

        A caller that still completes or puts a part then finds no directory, instead of adding
        files to one that is being emptied.
        """
        ended = paths.child(paths.parent(directory), f"{_ENDED}{_name_of(directory)}")
        with contextlib.suppress(FileNotFoundError):  # an abort of all uploads has done it
            self._filesystem.rename(directory, ended, Rename.OVERWRITE)
            self._drop(ended)

    def _drop(self, ended: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # another program removes it, too
            self._filesystem.delete(ended, recursive=True)


class _OnlyCopy(Publication):
    """Of a file that parts were moved to: instead of being removed it gets another name."""

    def discard(self) -> bool:
        """Rename the file, so that no rename on its way finds it; return whether it was there."""
        stem = self.temporary.rpartition(".")[0]
        try:
            self.filesystem._rename_exact(self.temporary, _new_name(stem), False)
        except FileNotFoundError:
            return False
        return True


@contextlib.contextmanager
def _others_stay() -> Iterator[None]:
    try:
        yield
    except PermissionError as refusal:
        _log.warning("what another user uploads, or has left, stays: %s", refusal)


def _new_name(stem: str) -> str:
    return f"{stem}.{uuid.uuid4().hex}"


def _name_of(directory: str) -> str:
    return directory.rpartition(".")[2]


def _unknown_upload(name: str, path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, f"no such upload: {name}", path)


def _decoded(handle: bytes, what: str) -> str:
    if not isinstance(handle, (bytes, bytearray, memoryview)):
        raise TypeError(f"{what} must be bytes, not {type(handle).__name__}")
    text = bytes(handle).decode("ascii", "replace")
    if not text:
        raise ValueError(f"{what} must not be empty")
    return text


def _checked_number(number: int) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"the number of a part must be int, not {type(number).__name__}")
    if number < 1:
        raise ValueError(f"the number of a part must be 1 or more, not {number}")
    return number


def _checked_parts(parts: Mapping[int, bytes]) -> list[tuple[str, int]]:
    """Return the names and lengths of the parts in order."""
    if not parts:
        raise ValueError("an upload cannot be completed without parts")
    chosen = []
    for number in sorted(_checked_number(number) for number in parts):
        name, length = _part(_decoded(parts[number], "a part"))
        if name.partition(".")[0] != str(number):
            raise ValueError(f"part {name} was not put as number {number}")
        chosen.append((name, length))
    return chosen


def _part(text: str) -> tuple[str, int]:
    decoded: Any = None
    with contextlib.suppress(ValueError):
        decoded = json.loads(text)
    if not (isinstance(decoded, list) and [type(item) for item in decoded] == [str, int]):
        raise ValueError(f"not a part: {text!r}")
    name, length = decoded
    number, _, identity = name.partition(".")
    if not (number.isdecimal() and len(identity) == 32 and identity.isalnum()):
        raise ValueError(f"not a part: {text!r}")
    return name, length


def _check_length(name: str, found: int, put: int, path: str) -> None:
    if found != put:
        message = f"part {name} has {found} bytes, not the {put} that were put"
        raise OSError(errno.EIO, message, path)


def _copy(data: Buffer | BinaryIO, out: FSDataOutputStream) -> int:
    """Write all of `data`; return how many bytes it had."""
    if not hasattr(data, "read"):
        return out.write(data)
    return sum(out.write(piece) for piece in _pieces(data, _COPY_BYTES))


def _pieces(file: Any, *size: int) -> Iterator[bytes]:
    """Yield what a file has to its end, which a lull of one that does not block is not."""
    while piece := file.read(*size):
        yield piece
    if piece is None:
        name = getattr(file, "name", None)
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), name)
