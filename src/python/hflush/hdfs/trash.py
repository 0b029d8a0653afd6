"""The trash of HDFS: within a tree of snapshots where nothing may be moved out of that."""

from __future__ import annotations

from .. import paths
from ..trash import TRASH, Trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..files import Files
    from ..paths import StrPath

__all__ = ["HdfsTrash"]

# What a NameNode says that has dfs.namenode.snapshot.deletion.ordered.
_REFUSED = "not under the same snapshot root"
_SNAPSHOTS = ".snapshot"


class HdfsTrash(Trash):
    """The trash of a user; `root` is not where things go that stay below their snapshots."""

    def __init__(self, filesystem: Files, root: str, interval: float, user: str) -> None:
        super().__init__(filesystem, root, interval)
        self._user = user

    def move(self, path: StrPath) -> bool:
        """Move a file or a directory to the trash: see :meth:`hflush.trash.Trash.move`."""
        try:
            return super().move(path)
        except OSError as refusal:
            root = self._root_within(path) if _REFUSED in str(refusal) else None
            if root is None:
                raise
        return Trash(self._filesystem, root, self._interval_s / 60).move(path)

    def _root_within(self, path: StrPath) -> str | None:
        """Return the trash of the tree that a path is in, which may have snapshots."""
        directory = self._filesystem._resolve(path)
        while directory != "/":
            directory = paths.parent(directory)
            if self._filesystem.exists(paths.child(directory, _SNAPSHOTS)):
                return paths.child(paths.child(directory, TRASH), self._user)
        return None
