"""What file systems say about files: plain values, comparable and picklable."""

from __future__ import annotations

TYPE_CHECKING = False

__all__ = [
    "BlockLocation",
    "ContentSummary",
    "FileChecksum",
    "FileStatus",
    "FsServerDefaults",
    "FsStatus",
]


class _Record:
    """A value whose fields are its slots."""

    __slots__: tuple[str, ...] = ()

    def _fields(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


class FileStatus(_Record):
    """One file or directory, as the store saw it when asked.

    Attributes
    ----------
    path : str
        Absolute: the name under which :func:`hflush.open` finds it.
    kind : str
        ``file``, ``directory``, ``symlink`` (one that leads nowhere) or ``other`` (pipe, socket,
        device).
    length : int
        Bytes; 0 for directories.
    replication : int
        Copies the store keeps; 1 for local files, 0 for directories.
    block_size : int
        Bytes; above 0 for files.
    modification_time, access_time : int
        Milliseconds since the epoch, UTC, as Hadoop; 0 where unknown.
    modification_time_ns, access_time_ns : int
        The same in nanoseconds, with the resolution of the store and no more.
    owner, group : str
        Names, or numbers as text where there is no name.
    permission : int
        The mode bits, at most 0o7777.
    file_id : tuple of int, or None
        What stays the same under rename: (device, inode) of local files.
    etag : str or None
        Of object stores.
    is_encrypted : bool
        Whether the store keeps it encrypted.

    Notes
    -----
    Equal if everything but the access time is equal; hashed by path.
    """

    __slots__ = (
        "access_time_ns",
        "block_size",
        "etag",
        "file_id",
        "group",
        "is_encrypted",
        "kind",
        "length",
        "modification_time_ns",
        "owner",
        "path",
        "permission",
        "replication",
    )

    def __init__(
        self,
        path: str,
        *,
        kind: str,
        length: int,
        replication: int = 1,
        block_size: int = 0,
        modification_time_ns: int = 0,
        access_time_ns: int = 0,
        owner: str = "",
        group: str = "",
        permission: int = 0o644,
        file_id: tuple[int, int] | None = None,
        etag: str | None = None,
        is_encrypted: bool = False,
    ) -> None:
        self.path = path
        self.kind = kind
        self.length = length
        self.replication = replication
        self.block_size = block_size
        self.modification_time_ns = modification_time_ns
        self.access_time_ns = access_time_ns
        self.owner = owner
        self.group = group
        self.permission = permission
        self.file_id = file_id
        self.etag = etag
        self.is_encrypted = is_encrypted

    @property
    def name(self) -> str:
        """The last element of the path."""
        return self.path.rpartition("/")[2]

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return self.kind == "file"

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return self.kind == "directory"

    @property
    def is_symlink(self) -> bool:
        """Whether it is a link that leads nowhere; others are what they lead to."""
        return self.kind == "symlink"

    @property
    def modification_time(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return self.modification_time_ns // 1_000_000

    @property
    def access_time(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return self.access_time_ns // 1_000_000

    def _fields(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__slots__ if name != "access_time_ns")

    def __hash__(self) -> int:
        return hash(self.path)


class FsStatus(_Record):
    """How full a file system is.

    Attributes
    ----------
    capacity, used, remaining : int
        Bytes; `remaining` is what this user may still write.
    """

    __slots__ = ("capacity", "remaining", "used")

    def __init__(self, capacity: int, used: int, remaining: int) -> None:
        self.capacity = capacity
        self.used = used
        self.remaining = remaining


class ContentSummary(_Record):
    """What lies below a path, itself included.

    Attributes
    ----------
    length : int
        Bytes of all files.
    file_count, directory_count : int
        How many; special files count as files.
    space_consumed : int
        Bytes of all copies.
    """

    __slots__ = ("directory_count", "file_count", "length", "space_consumed")

    def __init__(
        self, length: int, file_count: int, directory_count: int, space_consumed: int
    ) -> None:
        self.length = length
        self.file_count = file_count
        self.directory_count = directory_count
        self.space_consumed = space_consumed


class BlockLocation(_Record):
    """Where a stretch of a file lies.

    Attributes
    ----------
    offset, length : int
        Bytes.
    hosts, names : tuple of str
        Host names, and the same with ports where there are any.
    """

    __slots__ = ("hosts", "length", "names", "offset")

    def __init__(
        self, offset: int, length: int, hosts: tuple[str, ...], names: tuple[str, ...]
    ) -> None:
        self.offset = offset
        self.length = length
        self.hosts = hosts
        self.names = names


class FsServerDefaults(_Record):
    """What a store uses where the caller says nothing.

    Attributes
    ----------
    block_size, bytes_per_checksum, write_packet_size, file_buffer_size : int
        Bytes.
    replication : int
        Copies.
    checksum_type : str
        ``CRC32``, ``CRC32C`` or ``NULL``.
    """

    __slots__ = (
        "block_size",
        "bytes_per_checksum",
        "checksum_type",
        "file_buffer_size",
        "replication",
        "write_packet_size",
    )

    def __init__(
        self,
        *,
        block_size: int,
        bytes_per_checksum: int,
        write_packet_size: int,
        file_buffer_size: int,
        replication: int,
        checksum_type: str,
    ) -> None:
        self.block_size = block_size
        self.bytes_per_checksum = bytes_per_checksum
        self.write_packet_size = write_packet_size
        self.file_buffer_size = file_buffer_size
        self.replication = replication
        self.checksum_type = checksum_type


class FileChecksum(_Record):
    """A checksum of a file's content.

    Attributes
    ----------
    algorithm : str
        ``COMPOSITE-CRC32`` (the CRC-32 of the whole content), …
    value : bytes
        Big-endian.
    """

    __slots__ = ("algorithm", "value")

    def __init__(self, algorithm: str, value: bytes) -> None:
        self.algorithm = algorithm
        self.value = value
