"""Operations that only some stores have: arguments are checked here; other stores refuse them."""

# ruff: noqa: ARG002 - operations that refuse take all arguments

from __future__ import annotations

import errno

from . import capabilities, options, paths
from .errors import unsupported
from .listing import Listing
from .status import FsStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from .paths import StrPath
    from .status import FileChecksum, FileStatus, FsServerDefaults, LeaseRecovery
    from .streams import FSDataInputStream
    from .trash import Trash

__all__ = ["OptionalOperations"]

_NO_LIMIT = (1 << 63) - 1  # Java's Long.MAX_VALUE


class OptionalOperations(Listing):
    """The operations that :attr:`contract_options` and :meth:`has_path_capability` announce."""

    # Whether list_multipart_uploads knows how old uploads are: ask what _store_at returns.
    _dates_uploads = False

    # --- the store and its parts ---

    def get_status(self, path: StrPath | None = None) -> FsStatus:
        """Return how full the store is; where it has several parts, the one that `path` is in.

        A store that knows no limit, as S3, answers as Hadoop does: the greatest number there is,
        of which nothing is used.

        Parameters
        ----------
        path : str or os.PathLike, optional
            The working directory if left out. It need not exist.
        """
        return self._fs_status(self.working_directory if path is None else self._resolve(path))

    def _fs_status(self, path: str) -> FsStatus:
        return FsStatus(_NO_LIMIT, 0, _NO_LIMIT)

    def get_server_defaults(self) -> FsServerDefaults:
        """Return the values that the store uses where the caller gives none."""
        raise self._unsupported("get_server_defaults")

    def get_default_block_size(self, path: StrPath | None = None) -> int:
        """Return the block size in bytes that new files get; `path` need not exist."""
        return self.get_server_defaults().block_size

    def get_enclosing_root(self, path: StrPath) -> str:
        """Return the directory within which rename works for `path`, which need not exist.

        On HDFS that is the root of the encryption zone, else ``/``.
        """
        return self._enclosing_root(self._resolve(path))

    def _enclosing_root(self, path: str) -> str:
        return "/"

    def get_delegation_token(self, renewer: str) -> Any:
        """Return a token with which others may act as this user; on HDFS."""
        raise self._unsupported("get_delegation_token")

    def renew_delegation_token(self, token: Any) -> float:
        """Prolong a token; return until when it is good, in seconds since the epoch; on HDFS."""
        raise self._unsupported("renew_delegation_token")

    def cancel_delegation_token(self, token: Any) -> None:
        """End a token; on HDFS."""
        raise self._unsupported("cancel_delegation_token")

    def msync(self) -> None:
        """Make sure that later reads of this client see at least everything done before."""
        self._msync()

    def _msync(self) -> None:
        raise self._unsupported("msync")

    def set_safe_mode(self, action: str) -> bool:
        """Ask for or change the safe mode of the store, in which nothing can be changed.

        Parameters
        ----------
        action : str
            ``get``; for a privileged user also ``enter``, ``leave`` and ``force_exit``.

        Returns
        -------
        bool
            Whether it is in safe mode now.
        """
        return self._set_safe_mode(action)

    def _set_safe_mode(self, action: str) -> bool:
        raise self._unsupported("set_safe_mode")

    # --- attributes of files ---

    def get_file_checksum(self, path: StrPath, length: int | None = None) -> FileChecksum:
        """Return a checksum of the content of a file.

        Its ``algorithm`` says which: the CRC-32 of the content, verified as it is read (local files
        with sidecars); Java's, from the sums that DataNodes keep, by ``dfs.checksum.combine.mode``
        (HDFS): ``MD5MD5CRC`` depends on the sizes of blocks and chunks, ``COMPOSITE_CRC`` on the
        content only; on S3 ``COMPOSITE-CRC32C`` where the store keeps one of the whole object, else
        ``ETAG``, which only tells whether an object has been replaced.

        Parameters
        ----------
        path : str or os.PathLike
            The file; on HDFS one that no client is writing.
        length : int, optional
            Of so many bytes at its front, of all unless given; of less than all on HDFS alone.

        Raises
        ------
        FileNotFoundError, NotAFileError, ValueError
            It is missing; it is a directory; `length` is negative.
        ChecksumError
            The content does not match its sidecar.
        OSError
            On HDFS: it is being written, or its blocks are summed in different ways.
        """
        resolved = self._resolve(path)
        if length is None:
            return self._file_checksum(resolved)
        front = options.whole("length", length)
        if front < 0:
            raise ValueError(f"length={front} is negative")
        return self._front_checksum(resolved, front)

    def _file_checksum(self, path: str) -> FileChecksum:
        raise self._unsupported("get_file_checksum", path)

    def _front_checksum(self, path: str, length: int) -> FileChecksum:
        """Return that of the whole file, if it is no longer: stores keep no other."""
        if length >= self._status(path).length:
            return self._file_checksum(path)
        raise self._unsupported("get_file_checksum with a length", path)

    def set_times(self, path: StrPath, modification_time: int = -1, access_time: int = -1) -> None:
        """Set times, in milliseconds since the epoch; -1 leaves one as it is.

        Raises
        ------
        FileNotFoundError
            Nothing is there.
        ValueError
            The store cannot keep the time: local files keep nanoseconds in 64 bits, HDFS no time
            before the epoch.
        """
        modified = options.whole("modification_time", modification_time)
        accessed = options.whole("access_time", access_time)
        self._set_times(self._resolve_to_change(path), modified, accessed)

    def _set_times(self, path: str, modification_time: int, access_time: int) -> None:
        raise self._unsupported("set_times", path)

    def set_permission(self, path: StrPath, permission: int) -> None:
        """Set the mode bits exactly; no umask is applied.

        HDFS keeps bits up to 0o1777. Objects of S3 have none: nothing is changed.

        Raises
        ------
        FileNotFoundError
            Nothing is there.
        ValueError
            `permission` is not within 0 and 0o7777.
        """
        mode = options.as_permission(permission)
        self._set_permission(self._resolve_to_change(path), mode)

    def _set_permission(self, path: str, permission: int) -> None:
        raise self._unsupported("set_permission", path)

    def set_owner(self, path: StrPath, owner: str | None = None, group: str | None = None) -> None:
        """Set owner and group by name; None leaves one as it is.

        Objects of S3 belong to the bucket's owner: nothing is changed.

        Raises
        ------
        FileNotFoundError
            Nothing is there.
        PermissionError
            Only a privileged user may give files away.
        TypeError
            A name is not text.
        """
        options.check_principal("owner", owner)
        options.check_principal("group", group)
        self._set_owner(self._resolve_to_change(path), owner, group)

    def _set_owner(self, path: str, owner: str | None, group: str | None) -> None:
        raise self._unsupported("set_owner", path)

    def set_replication(self, path: StrPath, replication: int) -> bool:
        """Set how many copies the store keeps; it makes or removes them in the background.

        Returns
        -------
        bool
            False for a directory, and where nothing is.

        Raises
        ------
        ValueError
            `replication` is not above 0.
        OSError
            It is outside the limits of the store.
        """
        copies = options.whole("replication", replication)
        return self._set_replication(self._resolve_to_change(path), copies)

    def _set_replication(self, path: str, replication: int) -> bool:
        raise self._unsupported("set_replication", path)

    def set_write_checksum(self, write: bool) -> None:
        """Choose whether this instance writes checksums of new files.

        On local files: without a sidecar (a stale one is removed) a file is written as raw, hflush
        and hsync work, and nothing is verified on read.
        """
        self._set_write_checksum(options.flag("write", write))

    def _set_write_checksum(self, write: bool) -> None:
        raise self._unsupported("set_write_checksum")

    def set_verify_checksum(self, verify: bool) -> None:
        """Choose whether this instance verifies what it reads."""
        self._set_verify_checksum(options.flag("verify", verify))

    def _set_verify_checksum(self, verify: bool) -> None:
        raise self._unsupported("set_verify_checksum")

    # --- changing files ---

    def truncate(self, path: StrPath, length: int) -> bool:
        """Cut a file to its first `length` bytes.

        Returns
        -------
        bool
            True: done. False (hdfs): the last block is being shortened, and until
            :meth:`is_file_closed` no client can write the file.

        Raises
        ------
        ValueError
            `length` is negative, or more than the file has. Nothing was changed.
        FileNotFoundError, IsADirectoryError
            It is missing; it is a directory.
        """
        resolved = self._resolve_to_change(path)
        return self._truncate(resolved, options.file_length(length))

    def _truncate(self, path: str, length: int) -> bool:
        raise self._unsupported("truncate", path)

    def concat(self, path: StrPath, sources: Sequence[StrPath]) -> None:
        """Move the contents of `sources` to the end of a file, in order; they vanish.

        Parameters
        ----------
        path : str or os.PathLike
            The file that grows.
        sources : sequence of str or os.PathLike
            Closed files in the same directory, none empty, with blocks of at most its size.

        Raises
        ------
        ValueError
            There are no sources, or one is not as described. Nothing was changed.
        FileNotFoundError, OSError
            One is missing; one is a directory, or the file itself.
        """
        if capabilities.CONCAT not in self.path_capabilities:
            raise self._refuse("concat", path)
        if isinstance(sources, (str, bytes)):
            raise TypeError(f"sources must be a sequence of paths, not {type(sources).__name__}")
        target = self._resolve_to_change(path)
        resolved = [self._resolve_to_change(source) for source in sources]
        if not resolved:
            raise ValueError("concat needs a source")
        if target in resolved:
            raise OSError(errno.EINVAL, "concat: a source is the target itself", target)
        self._concat(target, resolved)

    def _concat(self, path: str, sources: list[str]) -> None:
        raise self._unsupported("concat", path)

    def copy(self, src: StrPath, dst: StrPath, *, overwrite: bool = False) -> None:
        """Let the store copy a file or tree; the bytes do not pass through this process.

        Parameters
        ----------
        src, dst : str or os.PathLike
            From and to: `dst` is the name itself.
        overwrite : bool
            Replace what is there. Each file is replaced in one step, a tree is not.

        Raises
        ------
        FileNotFoundError
            The source is missing.
        FileExistsError
            The destination exists and may not be replaced, or is a directory and the source is
            not, or the other way round.
        OSError
            The destination is the source, or below it; the store refuses.
        """
        options.flag("overwrite", overwrite)
        self._copy(self._resolve_to_change(src), self._resolve_to_change(dst), overwrite)

    def _copy(self, source: str, target: str, overwrite: bool) -> None:
        raise self._unsupported("copy", source)

    def get_trash(self, path: StrPath = "/") -> Trash:
        """Return the trash of this user for what is at `path`.

        ``fs.trash.interval`` (minutes; 0, the default, switches it off) says when it expires: that
        of the NameNode on HDFS, which also empties it. That of local files, ``.Trash`` in the home
        directory, is emptied by ``checkpoint`` and ``expunge`` of what is returned.
        """
        trash = self._trash(self._resolve(path))
        if trash is None:
            raise self._refuse("get_trash", path)
        return trash

    def move_to_trash(self, path: StrPath) -> bool:
        """Move a file or a directory to the user's trash, which is emptied later.

        Returns
        -------
        bool
            False, and nothing is changed, if the trash is switched off (``fs.trash.interval`` is
            0) or `path` is in it already.

        Raises
        ------
        FileNotFoundError
            Nothing is there.
        OSError
            `path` is a directory that the trash is in; it is a link, and the trash is on another
            volume (``EXDEV``); it cannot be moved.
        """
        trash = self._trash(self._resolve(path))
        if trash is None:
            raise self._refuse("move_to_trash", path)
        return trash.move(path)

    def _trash(self, path: str) -> Trash | None:
        """Return the trash for what is at a path; None if the store has none."""
        return None

    # --- links and path handles ---

    def create_symlink(self, target: StrPath, link: StrPath, create_parent: bool = False) -> None:
        """Create a symbolic link, where :attr:`supports_symlinks`.

        Parameters
        ----------
        target : str or os.PathLike
            The target, which need not exist. A relative one is kept, and is relative to the link's
            directory.
        link : str or os.PathLike
            The link.
        create_parent : bool
            Make the link's missing parents.

        Raises
        ------
        FileExistsError, FileNotFoundError, ParentNotDirectoryError
            `link` exists; it has no parent; an ancestor is a file.
        ValueError
            `target` is in another file system.

        Notes
        -----
        Source: Hadoop's FileContext.createSymlink; contract EXTRA-9.
        """
        options.flag("create_parent", create_parent)
        location = paths.parse(target)
        if location.scheme is not None and not self._accepts(location):
            raise ValueError(f"wrong file system: {paths.as_text(target)!r} is not in {self.uri}")
        self._create_symlink(location.path, self._resolve_to_change(link), create_parent)

    def _create_symlink(self, target: str, link: str, create_parent: bool) -> None:
        raise self._unsupported("create_symlink", link)

    def get_link_target(self, path: StrPath) -> str:
        """Return the target of a symbolic link, as it was given.

        Raises
        ------
        FileNotFoundError, OSError
            Nothing is there; it is not a link (``EINVAL``).
        """
        return self._link_target(self._resolve(path))

    def _link_target(self, path: str) -> str:
        raise self._unsupported("get_link_target", path)

    def get_file_link_status(self, path: StrPath) -> FileStatus:
        """Return the status of a symbolic link itself, of anything else as `get_file_status`.

        Raises
        ------
        FileNotFoundError
            Nothing is there.
        """
        return self._link_status(self._resolve(path))

    def _link_status(self, path: str) -> FileStatus:
        return self._status(path)

    @property
    def supports_symlinks(self) -> bool:
        """Whether symbolic links can be created here. Existing local ones are followed."""
        return capabilities.SYMLINKS in self.path_capabilities

    def get_path_handle(
        self, status: FileStatus, changed: bool = False, moved: bool = False
    ) -> bytes:
        """Return an opaque, serialisable reference to a file: exact unless asked otherwise.

        Parameters
        ----------
        status : FileStatus
            The file, as it was seen.
        changed, moved : bool
            Whether the reference stays valid when the file's content changes, when it is moved.

        Raises
        ------
        io.UnsupportedOperation
            The store has no handles; `moved` is asked of a local file, which cannot be found again.
        """
        if capabilities.PATH_HANDLES not in self.path_capabilities:
            raise self._refuse("get_path_handle", status.path)
        from .handles import check_status

        check_status(status)
        self._store_path(status)  # is it of this file system?
        is_moved = options.flag("moved", moved)
        return self._path_handle(status, options.flag("changed", changed), is_moved)

    def _path_handle(self, status: FileStatus, changed: bool, moved: bool) -> bytes:
        raise self._unsupported("get_path_handle", status.path)

    def open_path_handle(
        self, handle: bytes, *, buffer_size: int | str | None = None
    ) -> FSDataInputStream:
        """Open what a path handle refers to.

        Raises
        ------
        InvalidPathHandleError
            The file is gone, or was moved or changed and the handle does not allow that.
        ValueError
            `handle` was not made by :meth:`get_path_handle`.
        """
        return self._open_path_handle(handle, buffer_size)

    def _open_path_handle(self, handle: bytes, buffer_size: int | str | None) -> FSDataInputStream:
        raise self._unsupported("open_path_handle")

    # --- leases and damage ---

    def list_corrupt_file_blocks(self, path: StrPath) -> Iterator[str]:
        """Return the paths of files below `path` that have blocks without any good replica.

        Raises
        ------
        PermissionError
            Only a privileged user may ask.
        """
        return self._corrupt_files(self._resolve(path))

    def _corrupt_files(self, path: str) -> Iterator[str]:
        raise self._unsupported("list_corrupt_file_blocks", path)

    def recover_lease(
        self,
        path: StrPath,
        wait: float = 0.0,
        progress: Callable[[LeaseRecovery], object] | None = None,
    ) -> bool:
        """Close a file whose writer is gone.

        What the writer's ``hflush`` or ``hsync`` acknowledged is kept. Until the file is closed
        no client can write it.

        Parameters
        ----------
        path : path-like
            The file.
        wait : float, optional
            For how many seconds to wait until the file is closed (``math.inf``: for ever). The
            server is asked each second whether it is, and to recover the file again after ten
            seconds, then more seldom; one that is restarting is waited for, too. Without, the
            server is asked once: call this again only after some 10 seconds.
        progress : callable, optional
            Called about once a second while this waits, with a
            :class:`hflush.status.LeaseRecovery`: its ``waits_for`` names the block and
            the servers that hold it. An exception of it ends the wait and comes out.

        Returns
        -------
        bool
            True: the file is closed, or was since this was called, and its next writer has it.
            False: it is being closed in the background.

        Raises
        ------
        FileNotFoundError, NotAFileError
            It is missing; it is a directory.
        ValueError
            `wait` is negative.
        OSError
            The server cannot be asked, also not until the end of `wait`.
        """
        if not wait >= 0:
            raise ValueError(f"wait={wait} must not be negative")
        return self._recover_lease(self._resolve_to_change(path), wait, progress)

    def _recover_lease(
        self,
        path: str,
        wait: float,
        progress: Callable[[LeaseRecovery], object] | None,
    ) -> bool:
        raise self._unsupported("recover_lease", path)

    def is_file_closed(self, path: StrPath) -> bool:
        """Whether no client is writing a file.

        Raises
        ------
        FileNotFoundError, NotAFileError
            It is missing; it is a directory.
        """
        return self._is_file_closed(self._resolve(path))

    def _is_file_closed(self, path: str) -> bool:
        raise self._unsupported("is_file_closed", path)

    # --- uploads ---

    def create_multipart_uploader(self, base: StrPath) -> Any:
        """Return an object that uploads files below `base` in parts, from several processes.

        See :mod:`hflush.multipart`.
        """
        return self._multipart_uploader(self._resolve_to_change(base))

    def _multipart_uploader(self, base: str) -> Any:
        raise self._unsupported("create_multipart_uploader", base)

    def list_multipart_uploads(self, prefix: StrPath = "/") -> Sequence[Any]:
        """Return the uploads to files at and below a path that were begun and have not ended.

        They are invisible; their parts take paid space until they are completed or aborted.
        """
        return self._multipart_uploads(self._resolve(prefix))

    def _multipart_uploads(self, path: str) -> Sequence[Any]:
        raise self._unsupported("list_multipart_uploads", path)

    def abort_multipart_uploads(self, prefix: StrPath, older_than: float = 0.0) -> int:
        """Abort uploads at and below a path that are older than so many seconds; return how many.

        Aborting an upload that is still being written makes its writer fail: choose an age above
        that of the longest job.

        Raises
        ------
        ValueError
            `older_than` is negative.
        OSError
            The store refuses. The other uploads were tried, too.
        """
        if not older_than >= 0:
            raise ValueError(f"older_than={older_than} must not be negative")
        return self._abort_multipart_uploads(self._resolve(prefix), older_than)

    def _abort_multipart_uploads(self, path: str, older_than: float) -> int:
        raise self._unsupported("abort_multipart_uploads", path)

    def _refuse(self, operation: str, path: StrPath | None = None) -> Exception:
        return self._unsupported(operation, None if path is None else self._resolve(path))

    def _unsupported(self, operation: str, path: str | None = None) -> Exception:
        """Return the refusal of an operation that the store does not have."""
        named = None if path is None else self._named(path)
        return unsupported(operation, self.store_name, named)
