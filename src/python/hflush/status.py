"""What a file system reports about files: plain values, comparable and picklable."""

from __future__ import annotations

TYPE_CHECKING = False

__all__ = [
    "BlockLocation",
    "ContentSummary",
    "FailedNode",
    "FileChecksum",
    "FileStatus",
    "FsServerDefaults",
    "FsStatus",
    "LeaseRecovery",
    "StreamEvent",
    "identity",
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
        ``file``, ``directory``, ``symlink`` (one that leads nowhere or, in a listing,
        cannot be followed; any one of :meth:`hflush.FileSystem.get_file_link_status`) or ``other``
        (pipe, socket, device).
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
        The identity that a rename keeps: (device, inode) of local files, (inode,) of hdfs, where
        ids repeat behind a router, whose mount points may have none.
    etag : str or None
        On object stores.
    is_encrypted, is_erasure_coded, has_acl : bool
        Whether the store keeps it encrypted, or in stripes with parity; whether an ACL adds to
        the mode bits.
    block_locations : tuple of BlockLocation, or None
        Where its blocks are: only of :meth:`hflush.FileSystem.list_located_status`.

    Notes
    -----
    Equal if everything but access time and locations is equal; hashed by path.
    """

    __slots__ = (
        "access_time_ns",
        "block_locations",
        "block_size",
        "etag",
        "file_id",
        "group",
        "has_acl",
        "is_encrypted",
        "is_erasure_coded",
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
        file_id: tuple[int, ...] | None = None,
        etag: str | None = None,
        is_encrypted: bool = False,
        is_erasure_coded: bool = False,
        has_acl: bool = False,
        block_locations: tuple[BlockLocation, ...] | None = None,
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
        self.is_erasure_coded = is_erasure_coded
        self.has_acl = has_acl
        self.block_locations = block_locations

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
        """Whether it is a link: see `kind`."""
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
        return tuple(getattr(self, name) for name in self.__slots__ if name not in _NOT_COMPARED)

    def __hash__(self) -> int:
        return hash(self.path)


_NOT_COMPARED = frozenset(("access_time_ns", "block_locations"))


def identity(status: FileStatus) -> int:
    """Return the store's own name of a file, which a rename keeps; 0 if it has none."""
    return status.file_id[-1] if status.file_id else 0


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
    """Totals of a path and everything below it.

    Attributes
    ----------
    length : int
        Bytes of all files.
    file_count, directory_count : int
        How many; special files count as files.
    space_consumed : int
        Bytes of all copies.
    quota, space_quota : int
        How many files and directories, and how many bytes of all copies, there may be; -1 where
        nothing is set.
    """

    __slots__ = (
        "directory_count",
        "file_count",
        "length",
        "quota",
        "space_consumed",
        "space_quota",
    )

    def __init__(
        self,
        length: int,
        file_count: int,
        directory_count: int,
        space_consumed: int,
        quota: int = -1,
        space_quota: int = -1,
    ) -> None:
        self.length = length
        self.file_count = file_count
        self.directory_count = directory_count
        self.space_consumed = space_consumed
        self.quota = quota
        self.space_quota = space_quota


class BlockLocation(_Record):
    """Where a byte range of a file is stored.

    Attributes
    ----------
    offset, length : int
        Bytes.
    hosts, names : tuple of str
        Host names, and addresses with ports where there are any.
    topology_paths : tuple of str
        The same with their place in the network, ``/rack/address:port``; empty where unknown.
    cached_hosts : tuple of str
        Those of the hosts that keep it in memory.
    storage_types : tuple of str
        The kinds of storage: ``DISK``, ``SSD``, ``ARCHIVE``, …; empty where unknown.
    is_corrupt : bool
        No good copy is known.
    """

    __slots__ = (
        "cached_hosts",
        "hosts",
        "is_corrupt",
        "length",
        "names",
        "offset",
        "storage_types",
        "topology_paths",
    )

    def __init__(
        self,
        offset: int,
        length: int,
        hosts: tuple[str, ...],
        names: tuple[str, ...],
        *,
        topology_paths: tuple[str, ...] = (),
        cached_hosts: tuple[str, ...] = (),
        storage_types: tuple[str, ...] = (),
        is_corrupt: bool = False,
    ) -> None:
        self.offset = offset
        self.length = length
        self.hosts = hosts
        self.names = names
        self.topology_paths = topology_paths
        self.cached_hosts = cached_hosts
        self.storage_types = storage_types
        self.is_corrupt = is_corrupt


class FsServerDefaults(_Record):
    """The values that a store uses where the caller gives none.

    Attributes
    ----------
    block_size, bytes_per_checksum, write_packet_size, file_buffer_size : int
        Bytes.
    replication : int
        Copies.
    checksum_type : str
        ``CRC32``, ``CRC32C`` or ``NULL``.
    encrypt_data_transfer : bool
        Whether data travels encrypted.
    trash_interval : int
        Minutes after which the store empties the trash; 0: it does not.
    """

    __slots__ = (
        "block_size",
        "bytes_per_checksum",
        "checksum_type",
        "encrypt_data_transfer",
        "file_buffer_size",
        "replication",
        "trash_interval",
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
        encrypt_data_transfer: bool = False,
        trash_interval: int = 0,
    ) -> None:
        self.block_size = block_size
        self.bytes_per_checksum = bytes_per_checksum
        self.write_packet_size = write_packet_size
        self.file_buffer_size = file_buffer_size
        self.replication = replication
        self.checksum_type = checksum_type
        self.encrypt_data_transfer = encrypt_data_transfer
        self.trash_interval = trash_interval


class FileChecksum(_Record):
    """A checksum of a file's content.

    Attributes
    ----------
    algorithm : str
        ``COMPOSITE-CRC32`` (the CRC-32 of the whole content), ``MD5-of-0MD5-of-512CRC32C`` (hdfs:
        depends on block and chunk sizes), …
    value : bytes
        Big-endian, as Hadoop's: the MD5 form has bytes per sum (4), sums per block (8), MD5 (16).
    """

    __slots__ = ("algorithm", "value")

    def __init__(self, algorithm: str, value: bytes) -> None:
        self.algorithm = algorithm
        self.value = value


class LeaseRecovery(_Record):
    """What a call of :meth:`hflush.FileSystem.recover_lease` waits for.

    ``str()`` of it is one line for people.

    Attributes
    ----------
    path : str
        The file.
    waits_for : str
        The last block and its DataNodes, or the NameNode and what it said.
    waited : float
        Seconds so far.
    asked : int
        How often the NameNode was asked to recover the file.
    """

    __slots__ = ("asked", "path", "waited", "waits_for")

    def __init__(self, path: str, waits_for: str, waited: float, asked: int) -> None:
        self.path = path
        self.waits_for = waits_for
        self.waited = waited
        self.asked = asked

    def __str__(self) -> str:
        times = "once" if self.asked == 1 else f"{self.asked} times"
        return f"{self.path}: waiting for {self.waits_for} ({self.waited:.0f} s, asked {times})"


class StreamEvent(_Record):
    """What happened to a stream: :meth:`hflush.FSDataOutputStream.history`.

    Attributes
    ----------
    when : float
        Seconds since the epoch; of the last time.
    what : str
        For people: another version may word it otherwise.
    times : int
        How often in a row.
    """

    __slots__ = ("times", "what", "when")

    def __init__(self, when: float, what: str, times: int) -> None:
        self.when = when
        self.what = what
        self.times = times


class FailedNode(_Record):
    """A server that failed while it was to take bytes: see :class:`hflush.PipelineError`.

    Attributes
    ----------
    address : str
        Host and port, as messages name it.
    place : int
        In the pipeline of that time, from 0.
    reason : str
        What it said or did.
    offset : int
        In the file: every byte below was acknowledged by then.
    when : float
        Seconds since the epoch.
    """

    __slots__ = ("address", "offset", "place", "reason", "when")

    def __init__(self, address: str, place: int, reason: str, offset: int, when: float) -> None:
        self.address = address
        self.place = place
        self.reason = reason
        self.offset = offset
        self.when = when
