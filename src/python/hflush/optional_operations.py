"""What only some stores have: refused here, with all arguments, by those that do not."""

# ruff: noqa: ARG002

from __future__ import annotations

from . import capabilities
from .listing import Listing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from .paths import StrPath
    from .status import FileChecksum, FileStatus, FsServerDefaults, FsStatus
    from .streams import FSDataInputStream
    from .trash import Trash

__all__ = ["OptionalOperations"]


class OptionalOperations(Listing):
    """The operations that :attr:`contract_options` and :meth:`has_path_capability` announce."""

    def get_trash(self, path: StrPath = "/") -> Trash:
        """Return the trash of this user for what is at `path`."""
        raise self._refuse("get_trash", path)

    def move_to_trash(self, path: StrPath) -> bool:
        """Move a file or a directory to the user's trash, from which it vanishes some time later.

        Returns
        -------
        bool
            False, and nothing is changed, if the trash is switched off (``fs.trash.interval`` is
            0) or `path` is in it already.

        Raises
        ------
        FileNotFoundError
            There is nothing.
        OSError
            `path` is a directory that the trash is in; it cannot be moved.
        """
        raise self._refuse("move_to_trash", path)

    def get_status(self, path: StrPath | None = None) -> FsStatus:
        """Return how full the store is; where it has several parts, the one that `path` is in.

        Parameters
        ----------
        path : str or os.PathLike, optional
            The working directory if left out. It need not exist.
        """
        raise self._refuse("get_status", path)

    def get_server_defaults(self) -> FsServerDefaults:
        """Return what the store uses where the caller says nothing."""
        raise self._refuse("get_server_defaults")

    def get_default_block_size(self, path: StrPath | None = None) -> int:
        """Return the block size in bytes that new files get; `path` need not exist."""
        return self.get_server_defaults().block_size

    def get_enclosing_root(self, path: StrPath) -> str:
        """Return the directory within which rename works for `path`, which need not exist."""
        self._resolve(path)
        return "/"

    def get_file_checksum(self, path: StrPath) -> FileChecksum:
        """Return a checksum of the whole content of a file."""
        raise self._refuse("get_file_checksum", path)

    def set_times(self, path: StrPath, modification_time: int = -1, access_time: int = -1) -> None:
        """Set times, in milliseconds since the epoch; -1 leaves one as it is.

        Raises
        ------
        FileNotFoundError
            There is nothing.
        """
        raise self._refuse("set_times", path)

    def set_permission(self, path: StrPath, permission: int) -> None:
        """Set the mode bits exactly; no umask is applied."""
        raise self._refuse("set_permission", path)

    def set_owner(self, path: StrPath, owner: str | None = None, group: str | None = None) -> None:
        """Set owner and group by name; None leaves one as it is."""
        raise self._refuse("set_owner", path)

    def set_replication(self, path: StrPath, replication: int) -> bool:
        """Set how many copies the store keeps."""
        raise self._refuse("set_replication", path)

    def set_write_checksum(self, write: bool) -> None:
        """Let this instance write checksums of new files, or not."""
        raise self._refuse("set_write_checksum")

    def set_verify_checksum(self, verify: bool) -> None:
        """Let this instance verify what it reads, or not."""
        raise self._refuse("set_verify_checksum")

    def truncate(self, path: StrPath, length: int) -> bool:
        """Cut a file to its first `length` bytes.

        Returns
        -------
        bool
            True: done. False (hdfs): the last block is being shortened in the background.

        Raises
        ------
        ValueError
            `length` is negative, or more than the file has.
        FileNotFoundError, IsADirectoryError
            It is missing; it is a directory.
        """
        raise self._refuse("truncate", path)

    def concat(self, path: StrPath, sources: Sequence[StrPath]) -> None:
        """Move the contents of `sources` to the end of a file; they vanish."""
        raise self._refuse("concat", path)

    def copy(self, src: StrPath, dst: StrPath, *, overwrite: bool = False) -> None:
        """Let the store copy a file or tree without its bytes passing through here."""
        raise self._refuse("copy", src)

    def create_symlink(self, target: StrPath, link: StrPath, create_parent: bool = False) -> None:
        """Create a symbolic link, where :attr:`supports_symlinks`.

        Parameters
        ----------
        target : str or os.PathLike
            What it leads to, which need not exist. A relative one is kept, and counts from where
            the link is.
        link : str or os.PathLike
            The link.
        create_parent : bool
            Make the link's missing parents.

        Raises
        ------
        FileExistsError, FileNotFoundError, ParentNotDirectoryError
            There is something at `link`; it has no parent; an ancestor is a file.
        ValueError
            `target` is in another file system.

        Notes
        -----
        Source: Hadoop's FileContext.createSymlink; contract EXTRA-9.
        """
        raise self._refuse("create_symlink", link)

    def get_link_target(self, path: StrPath) -> str:
        """Return what a symbolic link leads to, as it was given.

        Raises
        ------
        FileNotFoundError, OSError
            There is nothing; it is no link (``EINVAL``).
        """
        raise self._refuse("get_link_target", path)

    def get_file_link_status(self, path: StrPath) -> FileStatus:
        """Return the status of a symbolic link itself, of anything else as `get_file_status`.

        Raises
        ------
        FileNotFoundError
            There is nothing.
        """
        return self.get_file_status(path)

    @property
    def supports_symlinks(self) -> bool:
        """Whether symbolic links can be created here. Existing local ones are followed."""
        return capabilities.SYMLINKS in self.path_capabilities

    def get_path_handle(
        self, status: FileStatus, changed: bool = False, moved: bool = False
    ) -> bytes:
        """Return an opaque, serialisable reference to a file.

        Parameters
        ----------
        status : FileStatus
            The file, as it was seen.
        changed, moved : bool
            Whether the reference stays good when the file's content changes, when it is moved.
        """
        raise self._refuse("get_path_handle", status.path)

    def open_path_handle(
        self, handle: bytes, *, buffer_size: int | str | None = None
    ) -> FSDataInputStream:
        """Open what a path handle refers to.

        Raises
        ------
        InvalidPathHandleError
            It is gone, or has changed and may not have.
        """
        raise self._refuse("open_path_handle")

    def msync(self) -> None:
        """Let later reads of this client see at least everything done before."""
        raise self._refuse("msync")

    def list_corrupt_file_blocks(self, path: StrPath) -> Iterator[str]:
        """Return the paths of files below `path` that have corrupt blocks."""
        raise self._refuse("list_corrupt_file_blocks", path)

    def recover_lease(self, path: StrPath) -> bool:
        """Take a file from a writer that is gone; whether it is closed now."""
        raise self._refuse("recover_lease", path)

    def is_file_closed(self, path: StrPath) -> bool:
        """Whether nobody is writing a file."""
        raise self._refuse("is_file_closed", path)

    def set_safe_mode(self, action: str) -> bool:
        """Ask for or change the store's safe mode."""
        raise self._refuse("set_safe_mode")

    def create_multipart_uploader(self, base: StrPath) -> Any:
        """Return an object that uploads files below `base` in parts, from several processes."""
        raise self._refuse("create_multipart_uploader", base)

    def list_multipart_uploads(self, prefix: StrPath) -> Sequence[Any]:
        """Return the uploads under a prefix that were begun and not ended."""
        raise self._refuse("list_multipart_uploads", prefix)

    def abort_multipart_uploads(self, prefix: StrPath, older_than: float = 0.0) -> int:
        """Abort the uploads under a prefix that are older than so many seconds; how many."""
        raise self._refuse("abort_multipart_uploads", prefix)
