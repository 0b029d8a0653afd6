"""The record of a partition's epochs: the name of one empty directory.

The name says which epoch was written last, and the points before and behind it. To record an epoch
is to rename that directory: of the attempts that have seen the same record one can do that. So HDFS
asks no DataNode, and a listing is all there is to read.

``_epochs/PART/NAME/`` appears at once. A writer that is killed before leaves
``_epochs/.PART.<hex>.tmp/``.
"""

from __future__ import annotations

import contextlib
import errno
import json
import uuid
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from .. import paths
from ..options import Rename
from ..tokens import Token

if TYPE_CHECKING:
    from typing import Any

    from ..filesystem import FileSystem

__all__ = ["NO_EPOCH", "EpochLog", "Recorded"]

NO_EPOCH = -1  # is recorded with the empty file
_LENGTH = "length"
# How often a directory is listed: local files may list it with neither name during a rename.
_LOOKS = 10


class Recorded(NamedTuple):
    """The epoch of a partition that was written last."""

    epoch: int
    before: Token  # where its rows begin
    end: Token

    def name(self) -> str:
        """Return it as a name: ``7,length=100+180,file_id=16391``, with + where the points differ.

        It has fewer than 200 bytes, and only what HDFS has in names.
        """
        fields = {_LENGTH: (self.before.length, self.end.length)}
        fields |= {key: (self.before.state[key], end) for key, end in self.end.state.items()}
        return ",".join([str(self.epoch), *(_field(key, *fields[key]) for key in fields)])

    @classmethod
    def parse(cls, name: str, file: Token) -> Recorded:
        """Return the inverse of :meth:`name`, for the file of a token.

        Raises
        ------
        ValueError
            It is no such name.
        """
        epoch, *fields = name.split(",")
        before: dict[str, Any] = {}
        end: dict[str, Any] = {}
        for key, _, text in (field.partition("=") for field in fields):
            values = [json.loads(unquote(value)) for value in text.split("+")]
            before[key], end[key] = values[0], values[-1]
        return cls(int(epoch), _at(before, file), _at(end, file))


def _field(key: str, before: Any, end: Any) -> str:
    values = (end,) if before == end else (before, end)
    return f"{key}=" + "+".join(quote(json.dumps(value), safe='"') for value in values)


def _at(fields: dict[str, Any], file: Token) -> Token:
    length = fields.pop(_LENGTH, None)
    if type(length) is not int or length < 0:
        raise ValueError("its length is missing, or negative")
    return Token(file.store, file.url, length, fields)


class EpochLog:
    """What is recorded of a partition, by any number of attempts.

    Parameters
    ----------
    fs : FileSystem
        Where it is.
    directory : str
        Its directory, which the first attempt makes.
    file : Token
        Any token of the partition's file.
    durable : bool
        A record is on disk when it is made.
    """

    def __init__(self, fs: FileSystem, directory: str, file: Token, *, durable: bool) -> None:
        self._fs = fs
        self._directory = fs._resolve(directory)
        self._file = file
        self._durable = durable

    def last(self) -> Recorded | None:
        """Return the epoch that was recorded last; None if there is no record.

        Raises
        ------
        OSError
            The store refuses; the directory has not one record (``EIO``).
        """
        for _ in range(_LOOKS):
            try:
                found = self._fs.list_status(self._directory)
            except FileNotFoundError:
                return None
            names = [status.name for status in found if status.is_directory]
            if len(names) == 1:
                break
        try:
            (name,) = names
            return Recorded.parse(name, self._file)
        except ValueError as odd:
            message = f"not the record of an epoch: {names or [status.name for status in found]}"
            raise OSError(errno.EIO, message, self._directory) from odd

    def holds(self, record: Recorded) -> bool:
        """Whether this is the last record, which no attempt has replaced."""
        last = self.last()
        return last is not None and last.name() == record.name()

    def begin(self, start: Token) -> None:
        """Record the empty file, unless there is a record."""
        above, part = paths.parent(self._directory), paths.basename(self._directory)
        aside = paths.child(above, f".{part}.{uuid.uuid4().hex}.tmp")
        record = paths.child(aside, Recorded(NO_EPOCH, start, start).name())
        try:
            self._fs.mkdirs(record)
            self._sync(record)
            self._fs.rename(aside, self._directory, Rename.OVERWRITE)  # not of one with a record
        except OSError:
            with contextlib.suppress(OSError):
                self._fs.delete(aside, recursive=True)
            if self.last() is None:
                raise
        for path in (self._directory, above):
            self._sync(path)

    def forget(self, record: Recorded) -> None:
        """Remove a record unless another has taken its place, and directories that are empty."""
        place = paths.child(self._directory, record.name())
        for path in (place, self._directory, paths.parent(self._directory)):
            with contextlib.suppress(OSError):
                self._fs.delete(path)

    def add(self, seen: Recorded, new: Recorded) -> bool:
        """Record an epoch in place of the one that an attempt has seen.

        Returns
        -------
        bool
            False: another one has been recorded since. Two attempts that come to the same points
            both get True.
        """
        before, after = (paths.child(self._directory, record.name()) for record in (seen, new))
        is_mine = before != after and self._rename(before, after)
        if not is_mine and not self.holds(new):
            return False
        self._sync(after)
        return True

    def _rename(self, before: str, after: str) -> bool:
        """Rename the record; False if it is not there any more."""
        try:
            self._fs.rename(before, after, Rename.OVERWRITE)
        except FileNotFoundError:
            return False
        return True

    def _sync(self, path: str) -> None:
        if self._durable:
            self._fs._sync_entry(path)
