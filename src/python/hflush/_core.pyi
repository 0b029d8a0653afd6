# The native core, as the Python layer sees it. Users import hflush, never this module.
# Paths are absolute, normalised strings (no trailing slash, no "//", "." or ".."), surrogateescape-encoded.
# Every function raises the classes of hflush.errors; the mapping lives in src/cpp/bindings/errors.cc.
from typing import TypeVar, final

from typing_extensions import Buffer

_Self = TypeVar("_Self", bound=OutputStream)

# --- checksums (register_crc.cc) -------------------------------------------------------------------

def crc32c(data: Buffer, value: int = 0) -> int: ...
def crc32(data: Buffer, value: int = 0) -> int: ...
def chunked_sums(data: Buffer, bytes_per_checksum: int = 512, kind: str = "CRC32C") -> bytes: ...
def chunked_sums_into(
    data: Buffer, out: Buffer, bytes_per_checksum: int = 512, kind: str = "CRC32C"
) -> int: ...
def combine(a: int, b: int, length_b: int, kind: str = "CRC32C") -> int: ...
def kernel() -> str: ...
def kernels() -> list[str]: ...
def crc_with_kernel(kernel: str, kind: str, data: Buffer, value: int = 0) -> int: ...

# --- streams (register_stream.cc) ------------------------------------------------------------------

@final
class OpenedStream:
    """A stream on its way from a name space's create() to the OutputStream that takes it over."""

class OutputStream:
    """The stream front over any store's sink. Subclassed by hflush.FSDataOutputStream."""

    def __init__(self, opened: OpenedStream) -> None: ...

    # write: METH_FASTCALL; returns the bytes accepted. TypeError, BufferError, IndexError, StreamClosedError, OSError.
    def write(self, b: Buffer, off: int = 0, len: int | None = None) -> int: ...
    def write_byte(self, value: int, /) -> None: ...
    def flush(self) -> None: ...
    def hflush(self) -> None: ...
    def hsync(self) -> None: ...
    def close(self) -> None: ...
    def abort_(self) -> tuple[bool, OSError | None]: ...  # (already_closed, cleanup_exception)
    def abandon_(
        self,
    ) -> bool: ...  # True if it was open and is now abandoned; never blocks, never raises
    def tell(self) -> int: ...
    def get_pos(self) -> int: ...
    def has_capability(self, name: str, /) -> bool: ...
    def set_drop_behind(self, value: bool | None, /) -> None: ...
    def statistics_(
        self,
    ) -> dict[str, int]: ...  # a flat snapshot: name -> value, see hflush.statistics
    @property
    def closed(self) -> bool: ...
    @property
    def state_(self) -> str: ...  # "open", "closing", "closed", "failed", "aborted"
    @property
    def path_(self) -> str: ...

class InputFile:
    """Positioned, verified reads of one open file. Thread-safe; holds no position."""

    def read_into(self, position: int, out: Buffer) -> int: ...  # bytes read, 0 at end of file
    def read(self, position: int, length: int) -> bytes: ...
    def length(self) -> int: ...
    def close(self) -> None: ...
    def fileno(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    @property
    def verified(self) -> bool: ...  # checksums are checked

# --- the local name space (register_local.cc) ------------------------------------------------------

@final
class LocalStatus:
    @property
    def path(self) -> str: ...
    @property
    def length(self) -> int: ...
    @property
    def kind(
        self,
    ) -> str: ...  # "file", "directory", "symlink" (dangling), "other" (pipe, socket, device)
    @property
    def mode(self) -> int: ...  # permission bits, 0o7777
    @property
    def mtime_ns(self) -> int: ...
    @property
    def atime_ns(self) -> int: ...
    @property
    def owner(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def device(self) -> int: ...
    @property
    def inode(self) -> int: ...

class _Namespace:
    # status follows symbolic links; FileNotFoundError if missing
    def status(self, path: str) -> LocalStatus: ...
    def list(
        self, path: str
    ) -> list[LocalStatus]: ...  # direct children; a file lists itself; sidecars hidden (crc)
    def mkdirs(
        self, path: str, permission: int, create_parent: bool
    ) -> None: ...  # permission: umask already applied; exact
    def delete(self, path: str, recursive: bool) -> bool: ...
    def rename(
        self, source: str, destination: str
    ) -> bool: ...  # FileSystem.rename: rules RENAME-1..13
    def rename_exact(
        self, source: str, destination: str, overwrite: bool
    ) -> None: ...  # FileContext.rename: RENAME-16..24
    def set_permission(self, path: str, permission: int) -> None: ...
    def set_owner(self, path: str, owner: str | None, group: str | None) -> None: ...
    def set_times(self, path: str, mtime_ns: int | None, atime_ns: int | None) -> None: ...
    def open(self, path: str, verify: bool) -> InputFile: ...  # NotAFileError on a directory
    def fs_status(self, path: str) -> tuple[int, int, int]: ...  # capacity, used, remaining (bytes)

@final
class RawNamespace(_Namespace):
    def __init__(self) -> None: ...
    def truncate(self, path: str, length: int) -> None: ...
    # stream_type: the OutputStream subclass to make (register_stream.cc)
    def create(
        self,
        stream_type: type[_Self],
        path: str,
        *,
        overwrite: bool,
        create_parent: bool,
        permission: int,
        sync_on_close: bool = False,
    ) -> _Self: ...
    def append(
        self, stream_type: type[_Self], path: str, *, sync_on_close: bool = False
    ) -> _Self: ...

@final
class ChecksumNamespace(_Namespace):
    def __init__(self) -> None: ...
    def create(
        self,
        stream_type: type[_Self],
        path: str,
        *,
        overwrite: bool,
        create_parent: bool,
        permission: int,
        bytes_per_checksum: int = 512,
        sync_on_close: bool = False,
        write_checksum: bool = True,
    ) -> _Self: ...
