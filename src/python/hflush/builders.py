"""The builders: they collect how a file is to be created, appended to or opened."""

from __future__ import annotations

from .options import (
    BLOCK_SIZE,
    BUFFER_SIZE,
    BYTES_PER_CHECKSUM,
    CHECKSUM_TYPE,
    PERMISSION,
    PROGRESS,
    REPLICATION,
    CreateFlag,
    Wish,
    as_callable,
    as_checksum_type,
    as_chunk_size,
    check_known,
    flag,
)
from .paths import basename

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from typing import TypeAlias, TypeVar

    from typing_extensions import Self

    from .options import Options, OptionValue
    from .status import FileStatus
    from .streams import FSDataInputStream, FSDataOutputStream

    T = TypeVar("T")
    # Functions of a file system that make a stream from a path, flags or sizes, and options.
    Build: TypeAlias = "Callable[[str, CreateFlag, Options, bool], FSDataOutputStream]"
    Open: TypeAlias = (
        "Callable[[str, int | str | None, Options, FileStatus | None], FSDataInputStream]"
    )

__all__ = ["FileBuilder", "OpenFileBuilder"]


class _Options:
    """The options that a builder collects."""

    def __init__(self) -> None:
        self._options: Options = {}

    def opt(self, key: str, value: OptionValue) -> Self:
        """Ask for an option, which is ignored where it is unknown or not supported."""
        return self._set(key, value, Wish.HINT)

    def must(self, key: str, value: OptionValue) -> Self:
        """Require an option: :meth:`build` raises ValueError where it is not supported."""
        return self._set(key, value, Wish.MUST)

    def _set(self, key: str, value: OptionValue, wish: Wish) -> Self:
        if not isinstance(key, str):
            raise TypeError(f"the key of an option must be str, not {type(key).__name__}")
        self._options[key] = (value, wish)
        return self


class FileBuilder(_Options):
    """Collects how a file is to be created or appended to; nothing happens before :meth:`build`.

    Made by ``fs.create_file(path)`` (which overwrites and makes no parents unless asked to)
    and ``fs.append_file(path)``. The last setting of a key decides its value and whether it is
    mandatory, whichever method made it.

    Notes
    -----
    Ask with :meth:`opt` and :meth:`must` instead of looking at the class of a file system.
    Source: Hadoop's output stream builder specification; contract BUILDER-1 to BUILDER-18.

    Examples
    --------
    >>> import hflush, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "part-0")
    >>> fs = hflush.FileSystem.get(path)
    >>> with fs.create_file(path).overwrite(False).permission(0o640).build() as out:
    ...     _ = out.write(b"data")
    """

    def __init__(self, build: Build, path: str, flags: CreateFlag) -> None:
        super().__init__()
        self._build = build
        self._path = path
        self._flags = flags
        self._recursive = False

    def create(self) -> Self:
        """Create the file if it is missing."""
        self._flags |= CreateFlag.CREATE
        return self

    def overwrite(self, overwrite: bool = True) -> Self:
        """Replace a file that exists, or refuse to."""
        if flag("overwrite", overwrite):
            self._flags |= CreateFlag.OVERWRITE
        else:
            self._flags &= ~CreateFlag.OVERWRITE
        return self

    def append(self) -> Self:
        """Write at the end of the file."""
        self._flags |= CreateFlag.APPEND
        return self

    def recursive(self) -> Self:
        """Make missing parent directories."""
        self._recursive = True
        return self

    def permission(self, permission: int) -> Self:
        """Set the mode bits of a new file, before the umask; TypeError for None."""
        return self._ask(PERMISSION, _not_none(permission, "permission"))

    def buffer_size(self, size: int | str) -> Self:
        """Buffer this many bytes, as a hint; 0 hands every write to the store at once."""
        return self._ask(BUFFER_SIZE, size)

    def replication(self, replication: int) -> Self:
        """Keep this many copies, on stores that keep several."""
        return self._ask(REPLICATION, replication)

    def block_size(self, size: int | str) -> Self:
        """Set the bytes per block, on stores that have blocks; ``"128m"`` is accepted."""
        return self._ask(BLOCK_SIZE, size)

    def checksum(self, type: str, bytes_per_checksum: int | None = None) -> Self:
        """Set the checksums of the file.

        Parameters
        ----------
        type : str
            ``CRC32``, ``CRC32C``, or ``NULL`` for no checksums.
        bytes_per_checksum : int, optional
            Bytes per chunk, above 0; the store's default if left out.

        Raises
        ------
        TypeError, ValueError
            The type is None or unknown, or a chunk has no bytes.
        """
        self._ask(CHECKSUM_TYPE, as_checksum_type(_not_none(type, "checksum type")))
        if bytes_per_checksum is not None:
            self._ask(BYTES_PER_CHECKSUM, as_chunk_size(bytes_per_checksum))
        return self

    def progress(self, progress: Callable[[], None]) -> Self:
        """Call `progress` from time to time; local files never do. TypeError for None."""
        return self._ask(PROGRESS, as_callable(progress))

    def _ask(self, key: str, value: OptionValue) -> Self:
        return self._set(key, value, Wish.ASKED)

    def build(self) -> FSDataOutputStream:
        """Create or open the file.

        Raises
        ------
        ValueError
            A mandatory option is unknown or not supported, or the flags contradict each other.
        OSError
            As ``fs.create`` and ``fs.append``.
        """
        return self._build(
            self._path, CreateFlag.joined(self._flags), dict(self._options), self._recursive
        )


class OpenFileBuilder(_Options):
    """Collects how a file is to be opened for reading; nothing happens before :meth:`build`.

    Made by ``fs.open_file(path)``.

    Notes
    -----
    Source: Hadoop's openFile specification; contract READ-19.
    """

    def __init__(self, open: Open, known: frozenset[str], path: str) -> None:
        super().__init__()
        self._open = open
        self._known = known
        self._path = path
        self._status: FileStatus | None = None

    def with_file_status(self, status: FileStatus | None) -> Self:
        """Pass a status that is known already; only its file name is compared with the path."""
        self._status = status
        return self

    def build(self) -> Future[FSDataInputStream]:
        """Open the file; the returned future raises the failures of opening.

        Raises
        ------
        ValueError
            A mandatory option is unknown, or the status is of a file of another name.
        """
        from concurrent.futures import Future

        check_known(self._options, self._known)
        name = basename(self._path.rstrip("/"))
        if self._status is not None and self._status.name != name:
            raise ValueError(f"the status of {self._status.path} is not that of {self._path}")
        future: Future[FSDataInputStream] = Future()
        try:
            opened = self._open(self._path, None, self._options, self._status)
            future.set_result(opened)
        except (OSError, ValueError) as error:
            future.set_exception(error)
        return future


def _not_none(value: T | None, name: str) -> T:
    if value is None:
        raise TypeError(f"{name} must not be None")
    return value
