"""The operations of a file system that other modules use: a type, nothing at run time."""

# ruff: noqa: D102 - FileSystem says what they do

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .options import Rename
from .output import FSDataOutputStream
from .paths import StrPath
from .status import FileStatus
from .streams import FSDataInputStream

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Files"]


class Files(Protocol):
    """The operations that every store has: see :class:`hflush.FileSystem`."""

    store_name: str

    def create(
        self, path: StrPath, *, overwrite: bool = True, recursive: bool = True
    ) -> FSDataOutputStream: ...

    def open(self, path: StrPath) -> FSDataInputStream: ...

    def get_file_status(self, path: StrPath) -> FileStatus: ...

    def exists(self, path: StrPath) -> bool: ...

    def is_directory(self, path: StrPath) -> bool: ...

    def list_status(self, path: StrPath) -> list[FileStatus]: ...

    def mkdirs(self, path: StrPath, permission: int | None = None) -> bool: ...

    def delete(self, path: StrPath, recursive: bool = False) -> bool: ...

    def rename(self, src: StrPath, dst: StrPath, option: Rename) -> None: ...

    # Hooks, of paths that are resolved: see NameSpace.

    _is_local: bool

    def _resolve(self, path: StrPath) -> str: ...

    def _behind(self, path: str) -> tuple[Self, str]: ...

    def _store_at(self, path: str) -> Self: ...

    def _shares_files_with(self, other: Any) -> bool: ...

    def _public_name(self, path: str) -> str: ...

    def _named(self, path: str) -> str: ...

    def _store_path(self, status: FileStatus) -> str: ...

    def _status(self, path: str) -> FileStatus: ...

    def _list(self, path: str) -> list[FileStatus]: ...

    def _open(self, path: str, buffer_size: int) -> FSDataInputStream: ...

    def _is_link(self, path: str) -> bool: ...

    def _is_being_written(self, path: str) -> bool: ...

    def _remove_files(self, files: Sequence[str]) -> list[tuple[str, OSError]]: ...

    def _remove_emptied(self, directory: str) -> list[str]: ...
