"""The trash: deleted files stay in a directory of their user until they expire.

``/user/NAME/.Trash/Current/PATH`` is where a path goes; :meth:`Trash.checkpoint` gives ``Current``
a name of its time, ``yyMMddHHmmss``, and :meth:`Trash.expunge` removes those that are older than
the interval, also under Hadoop's older names, ``yyMMddHHmm``. A NameNode that has
``fs.trash.interval`` does both by itself.

Notes
-----
Source: Hadoop's TrashPolicyDefault; contract EXTRA-4.
"""

from __future__ import annotations

import errno
import logging
import time

from . import paths
from .errors import ParentNotDirectoryError
from .options import Rename

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .files import Files
    from .paths import StrPath

__all__ = ["Trash"]

TRASH = ".Trash"
CURRENT = "Current"
_CHECKPOINT = "%y%m%d%H%M%S"
_FORMATS = {12: _CHECKPOINT, 10: "%y%m%d%H%M"}  # by their length; Hadoop's older one has no seconds
_MODE = 0o700
_MAX_ATTEMPTS = 1000

_log = logging.getLogger(__name__)


class Trash:
    """The trash of one user for one directory tree, usually for all of a file system.

    Parameters
    ----------
    filesystem : Files
        The store of the files and of the trash.
    root : str
        The trash directory: absolute, in the store.
    interval : float
        Minutes after which what was moved here expires; 0 disables the trash.

    Attributes
    ----------
    root : str
        The trash directory.
    """

    def __init__(self, filesystem: Files, root: str, interval: float) -> None:
        self._filesystem = filesystem
        self.root = root
        self._interval_s = interval * 60

    @property
    def is_enabled(self) -> bool:
        """Whether files are moved to the trash."""
        return self._interval_s > 0

    def move(self, path: StrPath) -> bool:
        """Move a file or a directory to the trash, under its whole path.

        Returns
        -------
        bool
            False, and nothing is changed, if the trash is disabled or `path` is in it already.

        Raises
        ------
        FileNotFoundError
            Nothing is there.
        OSError
            The trash is below `path`; it cannot be moved.
        """
        fs = self._filesystem
        source = fs._resolve(path)
        if not self.is_enabled:
            return False
        if not fs._is_link(source):  # it goes wherever it leads
            fs.get_file_status(source)
        if paths.is_under(source, self.root):
            return False
        if paths.is_under(self.root, source):
            raise OSError(errno.EINVAL, "trash: the trash is below this path", source)
        directory = self.root + "/" + CURRENT + paths.parent(source).rstrip("/")
        for is_last in (False, True):
            directory = self._make(directory)
            try:
                self._move_into(directory, source)
                return True
            # A checkpoint has renamed the directory, or a file has come in its place.
            except (FileNotFoundError, ParentNotDirectoryError):
                if is_last:
                    raise
        raise AssertionError("unreachable")

    def _make(self, directory: str) -> str:
        """Make a directory of the trash, under another name where a file or link is in its way."""
        while True:
            obstacle = self._link_to(directory)
            if obstacle is None:
                try:
                    self._filesystem.mkdirs(directory, _MODE)
                    return directory
                except (FileExistsError, NotADirectoryError):
                    obstacle = self._obstacle(directory)
            directory = _stamped(obstacle) + directory[len(obstacle) :]

    def _link_to(self, directory: str) -> str | None:
        """Return what leads out of the trash on the way to a directory of it."""
        place = self.root
        for name in directory[len(self.root) + 1 :].split("/"):
            place = paths.child(place, name)
            if self._filesystem._is_link(place):
                return place
        return None

    def _obstacle(self, directory: str) -> str:
        """Return the file in the way of a directory."""
        while not self._filesystem.exists(directory):
            directory = paths.parent(directory)
        return directory

    def _move_into(self, directory: str, source: str) -> None:
        fs = self._filesystem
        name = paths.child(directory, paths.basename(source))
        target = name
        while True:
            try:
                fs._rename_to_trash(source, target)
                return
            except ParentNotDirectoryError:  # noqa: PERF203
                raise
            except FileExistsError:
                target = _stamped(name)
            except OSError as refusal:
                is_elsewhere = refusal.errno == errno.EXDEV and fs._is_local
                if not is_elsewhere or fs._is_link(source):  # what it leads to is not copied
                    raise
                if not fs.exists(target):
                    from .transfer import copy

                    copy(fs, source, fs, target, delete_source=True, overwrite=False)
                    return
                target = _stamped(name)

    def checkpoint(self) -> str | None:
        """Rename ``Current`` by its time; return the new directory, None if there was nothing."""
        fs, current = self._filesystem, paths.child(self.root, CURRENT)
        base = paths.child(self.root, time.strftime(_CHECKPOINT))
        for attempt in range(_MAX_ATTEMPTS):
            target = f"{base}-{attempt}" if attempt else base
            try:
                fs.rename(current, target, Rename.NONE)
                return target
            except FileExistsError:
                continue
            except FileNotFoundError:
                return None
        raise FileExistsError(errno.EEXIST, "trash: too many checkpoints of one second", base)

    def expunge(self, immediately: bool = False) -> int:
        """Remove the checkpoints that have expired, or all of them; return how many."""
        removed = 0
        try:
            found = self._filesystem.list_status(self.root)
        except FileNotFoundError:
            return 0
        for status in found:
            if status.name == CURRENT:
                continue
            made = _time_of(status.name)
            if made is None:
                _log.warning("not a checkpoint of the trash: %s", status.path)
            elif immediately or made < time.time() - self._interval_s:
                removed += self._filesystem.delete(status.path, recursive=True)
        return removed

    def __repr__(self) -> str:
        return f"<hflush.trash.{type(self).__name__} {self.root!r}>"


def _stamped(path: str) -> str:
    """Return a path with the time appended, as Hadoop makes names unique."""
    return f"{path}{time.time_ns() // 1_000_000}"


def _time_of(name: str) -> float | None:
    """Return when a checkpoint was made, None if the name is not a checkpoint's."""
    stamp, dash, attempt = name.partition("-")
    layout = _FORMATS.get(len(stamp))
    if layout is None or (dash and not attempt.isdecimal()):
        return None
    try:
        return time.mktime(time.strptime(stamp, layout))
    except ValueError:
        return None
