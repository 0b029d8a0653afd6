"""The configuration keys of HDFS: docs/hdfs-client.md shows the table."""

from __future__ import annotations

from ..configuration import listed, parse_time, parse_whole
from ..credentials import Token
from ..keys import (
    BOOL,
    INT32_MAX,
    LONGEST_S,
    Key,
    Kind,
    choice,
    mapped,
    names,
    number,
    size,
    text,
    time,
    time_text,
)
from ..options import MAX_REPLICATION

__all__ = ["DEFAULT_PORT", "KEYS", "KNOWN_KEYS", "USER"]

DEFAULT_PORT = 8020
UINT32_MAX = (1 << 32) - 1
USER = "hflush.hdfs.user"
REAL_USER = "hflush.hdfs.real-user"
CREDENTIALS = "hflush.hdfs.credentials"


def _pauses(value: str) -> list[tuple[float, int]]:
    parts = names("").read(value)
    pauses = [
        (parse_time(pause), parse_whole(attempts))
        for pause, attempts in zip(parts[::2], parts[1::2], strict=True)
    ]
    if not pauses or any(pause < 0 or attempts < 1 for pause, attempts in pauses):
        raise ValueError
    return pauses


def _pauses_text(pauses: list[tuple[float, int]]) -> str:
    return ",".join(f"{time_text(pause)},{attempts}" for pause, attempts in pauses)


def _protections(value: str) -> list[str]:
    words: list[str] = names("").read(value.lower())
    if not words or not set(words) <= {"authentication", "integrity", "privacy"}:
        raise ValueError
    return words


_COUNT = number(0)
_TIME = time()
_ANY = (-INT32_MAX - 1, INT32_MAX)
_TIMEOUT = time(zero=LONGEST_S)  # 0: none
_CHECKSUMS = ("CRC32C", "CRC32", "NULL")
_CHECKSUM = Kind(
    ", ".join(_CHECKSUMS),
    f"one of {', '.join(_CHECKSUMS)}",
    lambda text: text.upper() if text.upper() in _CHECKSUMS else _CHECKSUMS[0],
    remark=lambda text: "" if text.upper() in _CHECKSUMS else f"{_CHECKSUMS[0]} is used",
)
_REPLACEMENT = mapped({"DEFAULT": "DEFAULT", "NEVER": "NEVER", "ALWAYS": "ALWAYS"})
_PROTECTIONS = Kind(
    "names", "of authentication, integrity and privacy, by commas", _protections, ",".join
)
_PAUSES = Kind(
    "time,number,…", "pairs of a time and attempts, such as 10000,6", _pauses, _pauses_text
)

_TOKENS = Kind(
    "secret",
    "tokens of Hadoop in base64, by commas",
    lambda value: [Token.from_url_string(one) for one in names("").read(value)],
)

_SERVERS = "Which servers, and who we are"
_RPC = "RPC"
_RETRIES = "Retries and failover"
_LEASES = "Leases and server defaults"
_WRITING = "Writing"
_READING = "Reading"
_NAMES = "Name space"

KEYS = (
    Key(_SERVERS, "dfs.nameservices", names("names"),
        "names of nameservices, by commas"),
    Key(_SERVERS, "dfs.ha.namenodes.", names("names"),
        "ids of the NameNodes of a nameservice"),
    Key(_SERVERS, "dfs.namenode.rpc-address.", text("host:port"),
        "host:port of a NameNode: <nameservice>.<id>, or <nameservice> if it has only one"),
    Key(_SERVERS, "dfs.client.failover.proxy.provider.", text("class"),
        "set: the name is a nameservice; IPFailoverProxyProvider: a host whose address moves from "
        "one NameNode to the next; other values are not looked at"),
    Key(_SERVERS, "dfs.client.failover.random.order.", BOOL,
        "dfs.client.failover.random.order for one nameservice"),
    Key(_SERVERS, "dfs.client.failover.resolve-needed.", BOOL,
        "whether the host names of a nameservice's NameNodes stand for several servers each: all "
        "of their addresses, when the file system is made"),
    Key(_SERVERS, "hadoop.security.authentication", text(),
        "how servers know us: simple, or kerberos: then by a token of HADOOP_TOKEN_FILE_LOCATION, "
        "as tickets are not supported yet",
        default="simple"),
    Key(_SERVERS, "hadoop.token.files", Kind("files", "local files by commas", listed),
        "token files, besides those of HADOOP_TOKEN_FILE_LOCATION, which come before; one that is "
        "missing is passed over"),
    Key(_SERVERS, "hadoop.tokens", _TOKENS,
        "delegation tokens by value, as Hadoop spells them in base64, by commas: before those of "
        "token files; unless set: HADOOP_TOKEN"),
    Key(_SERVERS, "hadoop.security.token.service.use_ip", BOOL,
        "whether tokens name a NameNode by its address rather than its host name",
        default="true"),
    Key(_SERVERS, "ipc.client.fallback-to-simple-auth-allowed", BOOL,
        "whether a server may be talked to that does not ask who calls, although "
        "hadoop.security.authentication says that servers do",
        native="rpc.fallback_to_simple"),
    Key(_SERVERS, "dfs.data.transfer.protection", text(),
        "refused, as it is not supported yet, where hadoop.security.authentication is kerberos; "
        "else a DataNode that wants it closes the connection"),
    Key(_SERVERS, "mapreduce.task.attempt.id", text(),
        "part of the lease holder's name", native="task_attempt"),
    Key(_SERVERS, USER, text(),
        "who we are, where neither a URL (`hdfs://ann@host/`) nor a token says it; see below"),
    Key(_SERVERS, REAL_USER, text(),
        "who acts for `hflush.hdfs.user`, where that is another; set by hflush in what is sent"),
    Key(_SERVERS, CREDENTIALS, text("base64"),
        "what a token file holds, in place of the file that HADOOP_TOKEN_FILE_LOCATION names; set "
        "by hflush in what is sent with `hflush.pickle.secrets`"),
    Key(_RPC, "ipc.client.connect.timeout", _TIMEOUT,
        "how long one attempt to connect to a NameNode may take", native="rpc.connect_timeout"),
    Key(_RPC, "ipc.client.connect.max.retries", _COUNT,
        "attempts after the first one, if the NameNode refuses; one NameNode only",
        native="rpc.connect_retries"),
    Key(_RPC, "ipc.client.connect.max.retries.on.timeouts", _COUNT,
        "attempts after the first one, if connecting timed out; one NameNode only. Hadoop's "
        "default is 45: a quarter of an hour",
        native="rpc.connect_retries_on_timeouts"),
    Key(_RPC, "ipc.client.connect.retry.interval", _TIME,
        "pause between attempts to connect", native="rpc.connect_retry_interval"),
    Key(_RPC, "ipc.client.rpc-timeout.ms", time(takes_negative=True),
        "how long a call may take; 0: as long as pings get through", native="rpc.rpc_timeout"),
    Key(_RPC, "ipc.client.ping", BOOL,
        "whether to ping a NameNode that is silent while calls wait", native="rpc.ping"),
    Key(_RPC, "ipc.ping.interval", _TIMEOUT,
        "silence before a ping; without pings the timeout of a call that has none",
        native="rpc.ping_interval"),
    Key(_RPC, "ipc.client.connection.maxidletime", _TIME,
        "a connection without calls is closed after this", native="rpc.idle_time"),
    Key(_RPC, "ipc.maximum.response.length", size(0, INT32_MAX, zero=INT32_MAX),
        "longest response that is accepted", native="rpc.max_response_bytes"),
    Key(_RPC, "ipc.maximum.data.length", size(0, INT32_MAX, zero=INT32_MAX),
        "longest request that is sent", native="rpc.max_request_bytes"),
    Key(_RPC, "hadoop.rpc.protection", _PROTECTIONS,
        "how calls are protected once it is known who calls; the first that the server wants too",
        native="rpc.protections"),
    Key(_RPC, "ipc.client.tcpnodelay", BOOL,
        "TCP_NODELAY towards NameNodes", native="rpc.tcp_no_delay"),
    Key(_RETRIES, "dfs.client.failover.max.attempts", _COUNT,
        "failovers of one call", native="rpc.max_failovers"),
    Key(_RETRIES, "dfs.client.retry.max.attempts", _COUNT,
        "attempts of one call beside its failovers, in a nameservice", native="rpc.max_retries"),
    Key(_RETRIES, "dfs.client.failover.sleep.base.millis", _TIME,
        "pause before the second failover, doubled each time, +-50 % at random",
        native="rpc.failover_base"),
    Key(_RETRIES, "dfs.client.failover.sleep.max.millis", _TIME,
        "longest such pause, before the random part", native="rpc.failover_cap"),
    Key(_RETRIES, "dfs.client.failover.connection.retries", _COUNT,
        "ipc.client.connect.max.retries in a nameservice", native="rpc.failover_connect_retries"),
    Key(_RETRIES, "dfs.client.failover.connection.retries.on.timeouts", _COUNT,
        "ipc.client.connect.max.retries.on.timeouts in a nameservice",
        native="rpc.failover_connect_retries_on_timeouts"),
    Key(_RETRIES, "dfs.client.failover.random.order", BOOL,
        "whether to begin with any NameNode rather than the first", native="rpc.random_order"),
    Key(_RETRIES, "dfs.client.retry.policy.enabled", BOOL,
        "whether to repeat calls to a single NameNode that fails or is in safe mode",
        native="rpc.retry_policy_enabled"),
    Key(_RETRIES, "dfs.client.retry.policy.spec", _PAUSES,
        "pauses and how often each; +-50 % at random", native="rpc.retry_policy"),
    Key(_RETRIES, "hflush.hdfs.namenode.patience", _TIME,
        "how long a call of an open stream is repeated, from its first failure on, while no "
        "NameNode can carry it out (restart, safe mode, failover); 0: as the keys above say; "
        "our own",
        native="write.name_node_patience"),
    Key(_LEASES, "dfs.namenode.lease-hard-limit-sec", time("s"),
        "open files are given up when their lease could not be renewed for so long",
        native="lease_hard_limit"),
    Key(_LEASES, "dfs.client.server-defaults.validity.period.ms", _TIME,
        "how long the NameNode's defaults are remembered", native="server_defaults_validity"),
    Key(_WRITING, "dfs.blocksize", size(1),
        "block size of new files", native="write.block_size"),
    Key(_WRITING, "dfs.replication", number(1, MAX_REPLICATION),
        "replicas of new files", native="write.replication"),
    Key(_WRITING, "dfs.checksum.type", _CHECKSUM,
        "checksum of new files, NULL: none; another word means CRC32C, with a warning",
        native="write.checksum"),
    Key(_WRITING, "dfs.bytes-per-checksum", size(1, UINT32_MAX),
        "data bytes of one checksum; divides the block size", native="write.bytes_per_checksum"),
    Key(_WRITING, "dfs.client-write-packet-size", size(1, UINT32_MAX),
        "packet size, headers and checksums included", native="write.packet_size"),
    Key(_WRITING, "dfs.data.transfer.max.packet.size", size(1, UINT32_MAX),
        "no packet is larger, whatever dfs.client-write-packet-size says, nor taken from a "
        "DataNode if it is",
        native="write.max_packet_size"),
    Key(_WRITING, "dfs.client.write.max-packets-in-flight", number(1, UINT32_MAX),
        "packets that wait for their acknowledgement", native="write.max_packets_in_flight"),
    Key(_WRITING, "dfs.client.socket-timeout", _TIMEOUT,
        "silence of a DataNode, and how long connecting to one may take",
        native="write.socket_timeout"),
    Key(_WRITING, "dfs.datanode.socket.write.timeout", _TIMEOUT,
        "how long a DataNode may take no bytes", native="write.socket_write_timeout"),
    Key(_WRITING, "dfs.client.socket.send.buffer.size", size(0, INT32_MAX, taken=_ANY),
        "send buffer of the socket to a DataNode; 0: the system's own choice",
        native="write.send_buffer_bytes"),
    Key(_WRITING, "dfs.data.transfer.client.tcpnodelay", BOOL,
        "TCP_NODELAY towards DataNodes", native="write.tcp_no_delay"),
    Key(_WRITING, "dfs.client.use.datanode.hostname", BOOL,
        "whether to connect to DataNodes by host name", native="write.use_datanode_hostname"),
    Key(_WRITING, "dfs.client.block.write.retries", _COUNT,
        "further attempts to set up the pipeline of a new block",
        native="write.block_write_retries"),
    Key(_WRITING, "dfs.client.block.write.locateFollowingBlock.retries", _COUNT,
        "further addBlock and complete calls while the previous block is not replicated, or no "
        "DataNode can take a block",
        native="write.locate_following_block_retries"),
    Key(_WRITING, "dfs.client.block.write.locateFollowingBlock.initial.delay.ms", _TIME,
        "pause before the first of them, then doubled", native="write.locate_initial_delay"),
    Key(_WRITING, "dfs.client.block.write.locateFollowingBlock.max.delay.ms", _TIME,
        "longest such pause", native="write.locate_max_delay"),
    Key(_WRITING, "hflush.hdfs.complete.initial.delay.ms", _TIME,
        "pause before complete is asked again; our own: the block report is usually near",
        native="write.complete_first_delay"),
    Key(_WRITING, "hflush.hdfs.silence.probe", _TIME,
        "after so long a silence of a pipeline that has packets the DataNodes are asked who of "
        "them is the reason; that one leaves the pipeline; 0: only timeouts say so, as in Hadoop; "
        "our own",
        native="write.silence_probe"),
    Key(_WRITING, "dfs.client.write.exclude.nodes.cache.expiry.interval.millis", _TIME,
        "how long a DataNode is avoided after a pipeline with it failed",
        native="write.excluded_nodes_expiry"),
    Key(_WRITING, "dfs.client.congestion.backoff.mean.time", _TIME,
        "how long packets are held back, on average, when DataNodes say they are congested",
        native="write.congestion_backoff_mean"),
    Key(_WRITING, "dfs.client.congestion.backoff.max.time", _TIME,
        "how long they are held back at most", native="write.congestion_backoff_max"),
    Key(_WRITING, "dfs.client.pipeline.recovery.max-retries", _COUNT,
        "recoveries of a pipeline without an acknowledgement between them; restarts that are "
        "waited for do not count", native="write.pipeline_recovery_retries"),
    Key(_WRITING, "dfs.client.datanode-restart.timeout", time("s"),
        "how long a DataNode that restarts is waited for, if it is on this machine, or the only "
        "one, or no other can take its place", native="write.datanode_restart_timeout"),
    Key(_WRITING, "dfs.client.mark.slownode.as.badnode.threshold", _COUNT,
        "after so many acknowledgements running in which a DataNode says that it is slow, it "
        "leaves the pipeline", native="write.slow_node_threshold"),
    Key(_WRITING, "dfs.client.block.write.replace-datanode-on-failure.enable", BOOL,
        "whether another DataNode takes the place of one that failed",
        native="write.replace_datanode"),
    Key(_WRITING, "dfs.client.block.write.replace-datanode-on-failure.policy", _REPLACEMENT,
        "when: DEFAULT with three replicas or more, if half of them or fewer are left, and always "
        "after an hflush or in an append", native="write.replacement_policy"),
    Key(_WRITING, "dfs.client.block.write.replace-datanode-on-failure.best-effort", BOOL,
        "whether the stream goes on with the others where there is no other DataNode; false: it "
        "fails, except at a block's end and at the beginning of an append",
        native="write.replacement_best_effort"),
    Key(_WRITING, "dfs.client.block.write.replace-datanode-on-failure.min-replication",
        number(0, taken=_ANY),
        "with so many left the stream goes on where the NameNode has no other; 0: it fails",
        native="write.replacement_min_replication"),
    Key(_WRITING, "dfs.client.cache.drop.behind.writes", BOOL,
        "whether DataNodes drop written data from their page cache", native="write.drop_behind"),
    Key(_WRITING, "dfs.client.write.recover.lease.on.close.exception", BOOL,
        "whether a close that failed asks for lease recovery at once; works if the process lives "
        "until the NameNode has answered", native="write.recover_lease_on_close_failure"),
    Key(_READING, "dfs.client.read.prefetch.size", size(1),
        "bytes whose block locations are asked for at once; 10 blocks unless set"),
    Key(_READING, "dfs.client.max.block.acquire.failures", _COUNT,
        "how often all replicas of a block may fail before the reader does",
        native="read.max_block_acquire_failures"),
    Key(_READING, "dfs.client.retry.window.base", _TIME,
        "base of the pause before the replicas are asked again", native="read.retry_window"),
    Key(_READING, "dfs.client.retry.times.get-last-block-length", _COUNT,
        "further attempts to learn the length of a block that is being written",
        native="read.last_block_length_retries"),
    Key(_READING, "dfs.client.retry.interval-ms.get-last-block-length", _TIME,
        "pause between them", native="read.last_block_length_interval"),
    Key(_READING, "dfs.client.socketcache.capacity", number(0, UINT32_MAX),
        "connections to DataNodes that are kept for the next read",
        native="read.socket_cache_capacity"),
    Key(_READING, "dfs.client.socketcache.expiryMsec", _TIME,
        "how long they are kept", native="read.socket_cache_expiry"),
    Key(_READING, "dfs.client.cached.conn.retry", _COUNT,
        "kept connections that may turn out to be dead before a new one is made",
        native="read.cached_connection_retries"),
    Key(_READING, "dfs.client.cache.drop.behind.reads", BOOL,
        "whether DataNodes drop what was read from their page cache", native="read.drop_behind"),
    Key(_READING, "dfs.client.cache.readahead", size(0),
        "bytes that DataNodes read ahead", native="read.readahead_bytes"),
    Key(_READING, "dfs.checksum.combine.mode", choice("MD5MD5CRC", "COMPOSITE_CRC"),
        "what the checksum of a file is", default="MD5MD5CRC"),
    Key(_NAMES, "dfs.user.home.dir.prefix", text("path"), "what home directories are below",
        default="/user"),
)  # fmt: skip

# All that mean something in the families of HDFS.
KNOWN_KEYS = frozenset((*(key.name for key in KEYS), "dfs.support.append"))
