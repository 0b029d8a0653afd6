# The native core, as the Python layer sees it. Users import hflush, never this module.
# Paths are absolute, normalised strings (no trailing slash, no "//", "." or ".."), surrogateescape-encoded.
# Every function raises the classes of hflush.errors; the mapping lives in src/cpp/bindings/errors.cc.
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, final

from typing_extensions import Buffer

from .status import StreamEvent

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

# Returns, and clears, an exception that was pending when the caller was called; None without one.
# To be called by a global name and first of all: looking up an attribute would clear it.
def take_pending() -> BaseException | None: ...

# Says by sys.unraisablehook that `error` was raised in `where`, and could not be raised further.
def write_unraisable(error: BaseException, where: object, /) -> None: ...

class OutputStream:
    """The stream front over any store's sink. Subclassed by hflush.FSDataOutputStream.

    Made by the create() of a name space, without __init__.
    """

    # write: METH_FASTCALL; returns the bytes accepted. TypeError, BufferError, IndexError, StreamClosedError, OSError.
    def write(self, b: Buffer, off: int = 0, len: int | None = None) -> int: ...
    # As write() of less than 32 KiB, if that does not wait; None: nothing is appended.
    def _try_write(self, b: Buffer, /) -> int | None: ...
    def write_byte(self, value: int, /) -> None: ...
    def flush(self) -> None: ...
    def hflush(self) -> None: ...
    def hsync(self, end_block: bool = False) -> None: ...
    def close(self) -> None: ...
    def _abort(self) -> tuple[bool, OSError | None]: ...  # (already_closed, cleanup_exception)
    def _abandon(
        self,
    ) -> bool: ...  # True if it was open and is now abandoned; never blocks, never raises
    def _give_up(self) -> bool: ...  # at exit: True if a close was under way, whose waits end
    def _supersede(self) -> None: ...  # abandoned, and each later call fails: LeaseLostError
    def tell(self) -> int: ...
    def get_pos(self) -> int: ...
    def has_capability(self, name: str, /) -> bool: ...
    def set_drop_behind(self, value: bool | None, /) -> None: ...
    # All but the bytes of the second value is handed over; these follow it. Nothing is written meanwhile.
    def _hand_over(self) -> tuple[int, bytes]: ...
    @property
    def _file_id(self) -> int: ...  # the store's own name of the file; 0: none
    def _history(self) -> list[StreamEvent]: ...  # oldest first
    def _statistics(
        self,
    ) -> dict[str, int]: ...  # a flat snapshot: name -> value, see hflush.statistics
    @property
    def closed(self) -> bool: ...
    @property
    def _state(self) -> str: ...  # "open", "closing", "closed", "failed", "aborted"
    @property
    def _path(self) -> str: ...

@final
class StatisticsSum:
    """What many streams did together, each added once, when it has ended. The GIL guards it."""

    def __init__(self) -> None: ...
    def add(self, stream: OutputStream, own: dict[str, int], /) -> None: ...
    def total(self) -> dict[str, int]: ...  # flat, as _statistics()

# --- reading (register_input_file.cc) --------------------------------------------------------------

@final
class InputFile:
    """Positioned reads of one open file of any store. Thread-safe; holds no position."""

    def read_into(self, position: int, out: Buffer) -> int: ...  # bytes read, 0 at end of file
    def read(self, position: int, length: int) -> bytes: ...
    def length(self) -> int: ...
    def close(self) -> None: ...
    def unbuffer(self) -> None: ...  # releases connections and what was read ahead
    # Hints, which stores without such a choice ignore; None: as configured.
    def set_drop_behind(self, value: bool | None) -> None: ...
    def set_readahead(self, bytes: int | None) -> None: ...
    def fileno(self) -> int: ...  # io.UnsupportedOperation but of local files without checksums
    def statistics(self) -> dict[str, int]: ...
    @property
    def verified(self) -> bool: ...  # every byte is compared with stored checksums

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
        self, path: str, permission: int | None, *, is_asked: bool, create_parent: bool
    ) -> None: ...  # permission: umask already applied, None: what the system gives;
    # is_asked: or the mount may have its own
    def sync_directory(self, path: str) -> bool: ...  # False: the mount syncs none
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
    def birth(self, path: str) -> int: ...  # nanoseconds since the epoch; 0: not kept
    def truncate(self, path: str, length: int) -> None: ...
    # stream_type: the OutputStream subclass to make (register_stream.cc)
    def create(
        self,
        stream_type: type[_Self],
        path: str,
        *,
        overwrite: bool,
        create_parent: bool,
        permission: int | None,
        is_asked: bool,  # else the mount may have a mode of its own
        sync_on_close: bool = False,
        append: bool = False,  # each write goes to the end, wherever that is by then
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
        permission: int | None,
        is_asked: bool,
        bytes_per_checksum: int = 512,
        sync_on_close: bool = False,
        write_checksum: bool = True,
    ) -> _Self: ...

# --- HDFS (register_hdfs.cc) ---------------------------------------------------------------------
# Paths hold no surrogates: a server would not give them back.

# Of Hadoop: identifier, password, kind, service.
_Token: TypeAlias = tuple[bytes, bytes, str, str]

def decode_credentials(file: bytes) -> tuple[dict[str, _Token], dict[str, bytes]]: ...
def encode_credentials(
    tokens: Mapping[str, _Token], secrets: Mapping[str, bytes], protobuf: bool
) -> bytes: ...
def encode_token(token: _Token) -> bytes: ...
def decode_token(bytes: bytes) -> _Token: ...

# (offset, length, hosts, names, topology paths, cached hosts, storage types, is corrupt)
_Location: TypeAlias = tuple[
    int,
    int,
    tuple[str, ...],
    tuple[str, ...],
    tuple[str, ...],
    tuple[str, ...],
    tuple[str, ...],
    bool,
]

@final
class HdfsFileStatus:
    @property
    def name(self) -> str: ...  # last component in listings, else empty
    @property
    def kind(self) -> str: ...  # "file", "directory", "symlink"
    @property
    def length(self) -> int: ...
    @property
    def permission(self) -> int: ...
    @property
    def owner(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def modification_time(self) -> int: ...  # ms
    @property
    def access_time(self) -> int: ...
    @property
    def replication(self) -> int: ...
    @property
    def block_size(self) -> int: ...
    @property
    def file_id(self) -> int: ...
    @property
    def is_encrypted(self) -> bool: ...
    @property
    def is_erasure_coded(self) -> bool: ...
    @property
    def has_acl(self) -> bool: ...
    @property
    def locations(self) -> list[_Location] | None: ...  # of located listings

class HdfsWriteOptions:
    sync_block: bool
    update_length: bool  # hsync tells the NameNode the length
    no_local_write: bool
    ignore_client_locality: bool
    favored_nodes: list[str]

@final
class HdfsAppendOptions(HdfsWriteOptions):
    def __init__(self) -> None: ...
    new_block: bool

@final
class HdfsCreateOptions(HdfsWriteOptions):
    def __init__(self) -> None: ...
    overwrite: bool
    create_parent: bool
    masked: int  # permission after the umask
    unmasked: int  # before it
    replication: int | None
    block_size: int | None
    checksum: str | None  # "CRC32", "CRC32C", "NULL"
    bytes_per_checksum: int | None
    lazy_persist: bool
    should_replicate: bool
    storage_policy: str
    ec_policy: str

@final
class HdfsRpcSettings:
    """How NameNodes are spoken to. Times are seconds, sizes bytes."""

    connect_timeout: float
    connect_retries: int
    connect_retries_on_timeouts: int
    connect_retry_interval: float
    rpc_timeout: float
    ping: bool
    ping_interval: float
    idle_time: float
    max_response_bytes: int
    max_request_bytes: int
    tcp_no_delay: bool
    requires_authentication: bool
    fallback_to_simple: bool
    protections: list[str]  # "authentication", "integrity", "privacy"
    max_failovers: int
    max_retries: int
    failover_base: float
    failover_cap: float
    failover_connect_retries: int
    failover_connect_retries_on_timeouts: int
    random_order: bool
    retry_policy_enabled: bool
    retry_policy: list[tuple[float, int]]  # pauses, and how often each

@final
class HdfsWriteSettings:
    """How files are written."""

    block_size: int
    replication: int
    checksum: str  # "CRC32", "CRC32C"
    bytes_per_checksum: int
    packet_size: int
    max_packet_size: int
    max_packets_in_flight: int
    socket_timeout: float
    socket_write_timeout: float
    send_buffer_bytes: int
    tcp_no_delay: bool
    use_datanode_hostname: bool
    block_write_retries: int
    locate_following_block_retries: int
    locate_initial_delay: float
    locate_max_delay: float
    complete_first_delay: float
    name_node_patience: float
    silence_probe: float
    excluded_nodes_expiry: float
    congestion_backoff_mean: float
    congestion_backoff_max: float
    pipeline_recovery_retries: int
    datanode_restart_timeout: float
    slow_node_threshold: int
    replace_datanode: bool
    replacement_policy: str  # "NEVER", "DEFAULT", "ALWAYS"
    replacement_best_effort: bool
    replacement_min_replication: int
    drop_behind: bool | None
    recover_lease_on_close_failure: bool

@final
class HdfsReadSettings:
    """How files are read."""

    prefetch_bytes: int
    max_block_acquire_failures: int
    retry_window: float
    last_block_length_retries: int
    last_block_length_interval: float
    max_packet_size: int
    socket_cache_capacity: int
    socket_cache_expiry: float
    cached_connection_retries: int
    drop_behind: bool | None
    readahead_bytes: int | None
    socket_timeout: float
    use_datanode_hostname: bool

@final
class HdfsSettings:
    """What a client needs to know: hflush/hdfs/settings.h, which has the defaults."""

    def __init__(self) -> None: ...
    user: str
    real_user: str  # who acts as the user; empty: the user itself
    tokens: list[_Token]  # until the file was read
    token_file: str  # HADOOP_TOKEN_FILE_LOCATION, or empty
    task_attempt: str  # part of the lease holder's name
    service: str
    name_nodes: list[tuple[str, int]]
    unknown_host_hint: str
    lease_hard_limit: float
    server_defaults_validity: float
    @property
    def rpc(self) -> HdfsRpcSettings: ...
    @property
    def write(self) -> HdfsWriteSettings: ...
    @property
    def read(self) -> HdfsReadSettings: ...

@final
class HdfsClient:
    """One user's connection to one HDFS: made at the first call, and again in a forked child."""

    def __init__(self, settings: HdfsSettings) -> None: ...
    def close(self) -> None: ...  # later calls connect again
    def statistics(self) -> dict[str, int]: ...
    # Without a service; None: the NameNode gives none.
    def delegation_token(self, renewer: str) -> _Token | None: ...
    def renew_delegation_token(self, token: _Token) -> int: ...  # milliseconds since the epoch
    def cancel_delegation_token(self, token: _Token) -> None: ...
    def status(self, path: str) -> HdfsFileStatus | None: ...
    # One page: the entries, and how many remain after them. start_after: the last name before.
    def list_page(
        self, path: str, start_after: str, located: bool
    ) -> tuple[list[HdfsFileStatus], int] | None: ...
    def mkdirs(self, path: str, masked: int, unmasked: int, create_parent: bool) -> bool: ...
    def delete(self, path: str, recursive: bool) -> bool: ...
    def rename(self, source: str, destination: str) -> bool: ...
    def rename_exact(
        self, source: str, destination: str, overwrite: bool, to_trash: bool = False
    ) -> None: ...
    def truncate(self, path: str, length: int) -> bool: ...
    def concat(self, path: str, sources: Sequence[str]) -> None: ...
    def set_permission(self, path: str, permission: int) -> None: ...
    def set_owner(self, path: str, owner: str | None, group: str | None) -> None: ...
    def set_times(self, path: str, modification_time: int, access_time: int) -> None: ...  # ms
    def set_replication(self, path: str, replication: int) -> bool: ...
    def set_storage_policy(self, path: str, policy: str) -> None: ...
    def set_quota(self, path: str, names: int | None, space: int | None) -> None: ...
    # (length, files, directories, space consumed, quota, space quota)
    def content_summary(self, path: str) -> tuple[int, int, int, int, int, int]: ...
    def block_locations(self, path: str, start: int, length: int) -> list[_Location]: ...
    def encryption_zone(self, path: str) -> str | None: ...
    def enclosing_root(self, path: str) -> str: ...
    # Pages of paths with corrupt blocks: the paths, and the cookie of the next page.
    def corrupt_files(self, path: str, cookie: str) -> tuple[list[str], str]: ...
    def last_block(self, path: str) -> tuple[str, list[str], bool] | None: ...
    def block_pool(self, path: str) -> str: ...  # of its last block; empty: it has no block
    def recover_lease(self, path: str) -> bool: ...
    def is_file_closed(self, path: str) -> bool: ...
    def fs_status(self) -> tuple[int, int, int]: ...  # capacity, used, remaining (bytes)
    def server_defaults(self) -> dict[str, Any]: ...  # the arguments of FsServerDefaults
    def set_safe_mode(self, action: int) -> bool: ...  # SafeModeActionProto
    def msync(self) -> None: ...
    # By block: (bytes, bytes per sum, sums per block, MD5 or CRC, checksum type)
    def block_checksums(
        self, path: str, length: int, composite: bool
    ) -> list[tuple[int, int, int, bytes, str]]: ...
    def create(self, stream_type: type[_Self], path: str, options: HdfsCreateOptions) -> _Self: ...
    def append(self, stream_type: type[_Self], path: str, options: HdfsAppendOptions) -> _Self: ...
    def open(self, path: str, verify: bool) -> InputFile: ...

# --- documents of S3 (register_s3_documents.cc), ValueError for what is not understood -------------

# Objects (key, size or -1, bare etag, seconds since 1970 of the modification), prefixes, the next token or
# marker, what a plus is ("blank", "itself", "" if unknown), and what is doubtful for that.
def s3_parse_objects(
    body: bytes, plus: str
) -> tuple[list[tuple[str, int, str, int, str]], list[str], str, str, str, list[str]]: ...

# Uploads (key, id, seconds since 1970 of the beginning), key and id to go on from, what is doubtful.
def s3_parse_uploads(
    body: bytes, plus: str
) -> tuple[list[tuple[str, str, float]], tuple[str, str] | None, list[str]]: ...

# Key, code and message of each that was not removed.
def s3_parse_delete_result(body: bytes) -> list[tuple[str, str, str]]: ...
def s3_parse_upload_id(body: bytes) -> str: ...
def s3_parse_etag(body: bytes, root: str) -> str: ...
def s3_delete_document(keys: Sequence[str], quiet: bool) -> bytes: ...

# --- S3 (register_s3*.cc) --------------------------------------------------------------------------

@final
class S3Settings:
    """What a client needs to know of its endpoint. Durations are seconds, sizes bytes."""

    def __init__(self) -> None: ...
    scheme: str
    host: str
    port: int  # 0: the scheme's
    base_path: str
    region: str
    follows_regions: bool
    path_style: bool
    payload_signing: str  # "auto", "always", "never"
    content_md5: bool
    checksums: bool
    insists_on_checksums: bool
    expect_continue: bool
    max_uploads: int
    connect_timeout: float
    stall_timeout: float
    complete_timeout: float
    upload_timeout: float
    request_timeout: float
    retry_limit: int
    retry_interval: float
    retry_throttle_limit: int
    retry_throttle_interval: float
    retry_deadline: float
    credentials_wait: float
    retry_5xx: bool
    verify_peer: bool
    ca_file: str
    proxy: str
    proxy_user: str
    proxy_password: str
    no_proxy: str
    user_agent: str
    max_connections: int
    idle_timeout: float
    direct: bool
    refused_extras: S3RefusedExtras | None

@final
class S3RefusedExtras:
    """What a server refuses of what requests can do without: found out and shared by its clients."""

    def __init__(self) -> None: ...

@final
class S3Call:
    """A call of a store's interface; see client.h. `path` is for messages."""

    def __init__(
        self,
        operation: str,
        method: str,
        bucket: str,
        key: str,
        path: str,
        query: Sequence[tuple[str, str]],
        headers: Sequence[tuple[str, str]],
    ) -> None: ...
    body: Buffer | None
    expect_root: str  # of the document that a good answer has
    expect_root_or_nothing: str  # the same, where the caller looks for what was done
    stall_timeout: float | None

@final
class S3Response:
    """What a call came to, after all its attempts."""

    @property
    def status(self) -> int: ...  # HTTP; 0 without a response
    @property
    def headers(self) -> dict[str, str]: ...  # names in lower case
    @property
    def body(self) -> bytes: ...
    @property
    def error(self) -> OSError | None: ...  # what there is to raise
    # "" or why it failed: hflush::s3::FailureKind in lower case ("final", "gone", ...)
    @property
    def kind(self) -> str: ...
    @property
    def ambiguous(self) -> bool: ...  # failed, but the store may have executed it
    @property
    def attempts(self) -> int: ...

@final
class S3ObjectOptions:
    """How an object is written; see s3_sink.h."""

    def __init__(self) -> None: ...
    def copy(self) -> S3ObjectOptions: ...
    bucket: str
    path: str  # for messages; empty: that of the stream
    headers: list[tuple[str, str]]
    request_headers: list[tuple[str, str]]
    verify_encryption: bool
    block_bytes: int
    uniform_parts: bool
    max_parts: int
    active_blocks: int
    buffering: str  # "memory", "disk", "adaptive"
    buffer_directories: list[str]
    memory_bytes: int
    references: bool
    @property
    def window_bytes(self) -> int: ...  # what a stream may have unacknowledged
    @property
    def max_bytes(self) -> int: ...  # what parts of these sizes make
    if_absent: bool
    if_match: str
    delayed: bool
    # An upload that was begun before goes on. ValueError unless the parts are whole ones of these sizes.
    def go_on(
        self,
        upload_id: str,
        parts: Sequence[tuple[int, str, int, int]],
        *,
        token: str,
        checksums: bool,
        full_object_checksum: bool,
    ) -> None: ...

@final
class S3Upload:
    """How an upload ended: stays after its stream. Not usable in a forked child."""

    @property
    def is_foreign(self) -> bool: ...  # begun by a process that this one was forked from
    # state ("writing", "finishing", "looking", "published", "pending", "failed", "unknown", "abandoned"), upload_id,
    # etag, version_id, size, parts [(number, etag, size, crc32c)], crc32c, has_checksums, full_object_checksum, token,
    # others [OSError], cleanup (OSError | None), cleaned_up
    def outcome(self) -> dict[str, Any]: ...
    @property
    def cleanup(self) -> OSError | None: ...  # of outcome()
    # What goes on at `offset`, up to which all was handed over: (upload_id, parts, token, has_checksums,
    # full_object_checksum, the bytes behind the parts). Waits for the parts. None: some of these bytes are not here
    # any more, ask with a newer offset.
    def keep(
        self, offset: int
    ) -> tuple[str, list[tuple[int, str, int, int]], str, bool, bool, bytes] | None: ...
    # False after `timeout` seconds.
    def wait_cleaned_up(self, timeout: float) -> bool: ...

@final
class S3ReadOptions:
    """How an object is read; see read_options.h."""

    def __init__(self) -> None: ...
    bucket: str
    key: str
    size: int
    etag: str
    version_id: str
    request_headers: list[tuple[str, str]]
    readahead_bytes: int
    window_bytes: int

@final
class BackgroundThread:
    """A daemon thread of the system, also where gevent or eventlet have replaced Python's."""

    def __init__(self) -> None: ...
    def start(self, run: Callable[[], object]) -> None: ...
    def stop(self) -> None: ...
    # Both wait at most so long, and return whether that has happened.
    def wait_stopped(self, timeout: float) -> bool: ...
    def join(self, timeout: float) -> bool: ...

@final
class S3Client:
    """Calls of one endpoint. Connects when needed, and again in a forked child."""

    def __init__(
        self, settings: S3Settings, access_key: str, secret_key: str, session_token: str
    ) -> None: ...
    def set_credentials(self, access_key: str, secret_key: str, session_token: str) -> None: ...
    # True if a store refused the newest credentials as expired: the holder of newer ones sets them.
    def wait_credentials_wanted(self, timeout: float) -> bool: ...
    # Raises only what is wrong with the arguments, and an interruption; else the response says it.
    def call(self, call: S3Call) -> S3Response: ...
    def ask(
        self, calls: Sequence[S3Call]
    ) -> list[S3Response]: ...  # several at once, without bodies
    # Whether any key begins so; the response to the question, where that takes a closer look.
    def has_keys(
        self, bucket: str, prefix: str, path: str, headers: Sequence[tuple[str, str]]
    ) -> bool | S3Response: ...
    # name: for messages; if_match: as the header has it. The options are copied, their conditions
    # do not count.
    def create(
        self,
        stream_type: type[_Self],
        path: str,
        name: str,
        options: S3ObjectOptions,
        if_absent: bool,
        if_match: str,
    ) -> tuple[_Self, S3Upload]: ...
    def open(self, path: str, options: S3ReadOptions) -> InputFile: ...
    def statistics(self) -> dict[str, int]: ...
    def close(self) -> None: ...

@final
class S3Completed:
    """How a publication ended."""

    @property
    def outcome(self) -> str: ...  # "published", "not published", "unknown"
    @property
    def etag(self) -> str: ...
    @property
    def error(self) -> OSError | None: ...  # what there is to raise
    @property
    def kind(self) -> str: ...  # of the last failure, as S3Response has it

@final
class S3UploadCalls:
    """The calls of one object's upload; see upload_calls.h. They raise as S3Client.call does."""

    def __init__(
        self, client: S3Client, key: str, options: S3ObjectOptions, token: str
    ) -> None: ...
    def create(self, *, checksums: bool) -> S3Response: ...
    def put_object(self, body: Buffer) -> S3Response: ...
    # With a CRC32C if the store keeps checksums of this upload's parts, else with an MD5.
    def upload_part(
        self, upload_id: str, number: int, body: Buffer, *, checksums: bool
    ) -> S3Response: ...
    def complete(
        self, upload_id: str, parts: Sequence[tuple[int, str, int, int]]
    ) -> S3Response: ...
    def list_parts(self, upload_id: str) -> S3Response: ...
    def abort(self, upload_id: str) -> S3Response: ...
    # Completes, and finds out whether that took place; without an id: PutObject of no bytes.
    # crc32c: of all bytes, if the store checks it; holders: "one", "equal", "first" (publication.h).
    def publish(
        self,
        upload_id: str,
        parts: Sequence[tuple[int, str, int, int]],
        *,
        checksums: bool,
        crc32c: int | None,
        holders: str,
    ) -> S3Completed: ...

S3_TOKEN_HEADER: str
S3_MIN_PART: int
S3_MAX_PART: int
S3_MAX_PARTS: int
S3_MAX_OBJECT: int

# Waits until no upload of this process has clean-up calls under way; False after `timeout` seconds.
def s3_drain(timeout: float) -> bool: ...

# What all streams and readers of S3 may hold: the least that was asked for. Returns what holds now.
def s3_limit_memory(bytes: int) -> int: ...

# What they hold, and may hold.
def s3_memory() -> tuple[int, int]: ...
def s3_is_header_name(name: str) -> bool: ...

# How the names of AWS's servers end in a region, and the end of that kind that a host's name has.
def s3_aws_suffix(region: str) -> str: ...
def s3_aws_suffix_of(host: str) -> str: ...

# How the encryption that an answer tells of differs from what was asked for; empty: in nothing.
def s3_encryption_difference(asked: list[tuple[str, str]], answered: dict[str, str]) -> str: ...
