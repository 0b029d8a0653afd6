"""Settings of HDFS: what its keys come to, and the servers that a URL means."""

from __future__ import annotations

import base64
import errno
import os
import re
from contextlib import suppress
from io import UnsupportedOperation

from .. import _core
from ..configuration import TOKEN_FILE
from ..credentials import Credentials, Token, of_files, token_files, tokens_by_value
from ..keys import BOOL, INT64_MAX, Reader, names
from ..leaving import LeftOutError, lost_keys
from .keys import CREDENTIALS, DEFAULT_PORT, KEYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..configuration import Configuration

__all__ = ["Tokens", "of_hdfs", "packed", "read_native", "split_user", "unpacked"]

_ADDRESS = re.compile(r"(?:\[([^\s/@,?#\[\]]+)\]|([^\s/@,?#\[\]:]+))(?::([0-9]*))?")
_NUMERIC = re.compile(r"[0-9.]+|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*")
_FORM = "host:port, [ipv6]:port or the name of a nameservice, with a port from 1 to 65535"
_IDS = names("names")
_PREFETCHED_BLOCKS = 10
_DELEGATION_TOKEN = "HDFS_DELEGATION_TOKEN"
_PROVIDER = "dfs.client.failover.proxy.provider."
_MOVING_ADDRESS = ".IPFailoverProxyProvider"
# Ways to servers that are not taken here, and the values that ask for none.
_FACTORY = "hadoop.rpc.socket.factory.class"
_OTHER_WAYS = {
    f"{_FACTORY}.default": ("", "org.apache.hadoop.net.StandardSocketFactory"),
    f"{_FACTORY}.ClientProtocol": ("", "org.apache.hadoop.net.StandardSocketFactory"),
    "dfs.client.local.interfaces": ("",),
}
_CHUNK_OVERHEAD = 4 + 33  # one sum, and the largest header of a packet


def read_native(
    conf: Configuration,
    authority: str,
    user: str,
    real_user: str = "",
    tokens: Tokens | None = None,
) -> _core.HdfsSettings:
    """Return the core's settings of a file system.

    Parameters
    ----------
    conf : Configuration
        The keys.
    authority : str
        Of the URL, but for its user: a host, with a port or without, or a nameservice.
    user, real_user : str
        Who acts; for whom, empty unless it is another.
    tokens : Tokens, optional
        Those of the configuration and the process, if they are known.

    Raises
    ------
    ValueError
        A value is malformed or missing; the message names the key.
    io.UnsupportedOperation
        Servers are to authenticate us as they cannot, or to be reached in another way.
    LeftOutError
        The tokens were not sent here, and there are none.
    OSError
        A token file cannot be read; a host name that stands for several servers cannot be
        resolved.
    """
    keys = Reader(conf, KEYS)
    for key, usual in _OTHER_WAYS.items():
        if keys.given(key) not in usual:
            raise UnsupportedOperation(
                errno.ENOTSUP, f"{key} is {keys.given(key)}: connections here go the system's way"
            )
    native = _core.HdfsSettings()
    tokens = tokens or Tokens(conf)
    native.token_file = tokens.file
    native.tokens = list(tokens.last.tokens.values())
    native.user, native.real_user = user, real_user
    keys.fill(native)
    _derive(keys, native)
    _resolve(keys, authority, native)
    lost = [key for key in lost_keys(conf) if key.startswith((CREDENTIALS, "hadoop.tokens"))]
    if lost and not of_hdfs(tokens.last, native).tokens:
        raise LeftOutError(f"the token of HDFS for {authority or 'the default file system'}")
    _authenticate(keys, native)
    return native


def of_hdfs(credentials: Credentials, native: _core.HdfsSettings | None = None) -> Credentials:
    """Return the tokens of NameNodes; those alone that may be for these servers, if there are any.

    Which addresses the names of servers stand for is not asked: each may be one of them.
    """
    found = {a: t for a, t in credentials.tokens.items() if t.kind == _DELEGATION_TOKEN}
    if native is not None:
        services = {f"ha-hdfs:{native.service}"}
        services |= {f"{host.lower()}:{port}" for host, port in native.name_nodes}
        ports = {str(port) for host, port in native.name_nodes if not _NUMERIC.fullmatch(host)}
        for alias, token in [*found.items()]:
            host, _, port = token.service.rpartition(":")
            is_address = port in ports and _NUMERIC.fullmatch(host)
            if not is_address and token.service not in services:
                del found[alias]
    return Credentials(found)


def packed(credentials: Credentials) -> str:
    """Return tokens as the value of a key; empty if there are none."""
    if not credentials.tokens:
        return ""
    return base64.b64encode(_core.encode_credentials(credentials.tokens, {}, False)).decode()


def unpacked(text: str) -> Credentials:
    """Return what :func:`packed` has packed.

    Raises
    ------
    ValueError
        It is nothing of the kind.
    """
    try:
        tokens, _ = _core.decode_credentials(base64.b64decode(text, validate=True))
    except ValueError:
        raise ValueError(f"{CREDENTIALS} is not the base64 of a token file") from None
    return Credentials({alias: Token(*token) for alias, token in tokens.items()})


class Tokens:
    """The tokens that were sent here, else all there are.

    As for Hadoop, those by value replace those of files, and the variable's files those of the
    configuration. Which files and values there are is found out when this is made.

    Attributes
    ----------
    last : Credentials
        What they have: read when this is made, and by :meth:`read`.
    file : str
        The file that has them all, empty where there is none.

    Raises
    ------
    OSError
        A file cannot be read.
    ValueError
        It is no token file; a value is malformed.
    """

    def __init__(self, conf: Configuration) -> None:
        keys = Reader(conf, KEYS)
        sent = keys.text(CREDENTIALS)
        self._first, self._files = Credentials(), list[str]()
        if sent:
            self._first = unpacked(sent)
        else:
            by_value = keys["hadoop.tokens"] or tokens_by_value()
            self._first = Credentials({token.service: token for token in by_value})
            named = keys.names("hadoop.token.files")
            self._files = [*filter(os.path.isfile, named), *token_files()]
        self.file = self._files[0] if len(self._files) == 1 and not self._first.tokens else ""
        self.last = self._read()

    def read(self) -> Credentials:
        """Return what they have now; where a file is gone or half written, what they had last."""
        with suppress(OSError, ValueError):
            self.last = self._read()
        return self.last

    def _read(self) -> Credentials:
        found = Credentials(self._first.tokens)
        for alias, token in of_files(self._files).tokens.items():
            found.tokens.setdefault(alias, token)  # last, as the first of a service is taken
        return found


def _authenticate(keys: Reader, native: _core.HdfsSettings) -> None:
    """Set what servers are to ask for; refuse what is not there yet rather than go without."""
    key = "hadoop.security.authentication"
    method = keys.text(key).lower()
    if method == "simple":
        return
    native.rpc.requires_authentication = True
    if method != "kerberos":
        raise UnsupportedOperation(errno.ENOTSUP, f"{key} is {method}: known are simple, kerberos")
    if not any(kind == _DELEGATION_TOKEN for _, _, kind, _ in native.tokens):
        raise UnsupportedOperation(
            errno.ENOTSUP,
            f"{key} is kerberos, and there is no token of HDFS: tickets are not supported yet, "
            f"{TOKEN_FILE} is to name a file with a token",
        )
    protection = keys.text("dfs.data.transfer.protection")
    if protection:
        raise UnsupportedOperation(
            errno.ENOTSUP, f"dfs.data.transfer.protection is {protection}: not supported yet"
        )


def _derive(keys: Reader, native: _core.HdfsSettings) -> None:
    """Set what follows from several keys."""
    read, write = native.read, native.write
    if write.bytes_per_checksum + _CHUNK_OVERHEAD > write.max_packet_size:
        raise ValueError(
            "dfs.bytes-per-checksum must be so small that a chunk fits in a packet of "
            f"{write.max_packet_size} bytes (dfs.data.transfer.max.packet.size), not "
            f"{write.bytes_per_checksum}"
        )
    write.packet_size = min(write.packet_size, write.max_packet_size)
    read.prefetch_bytes = keys["dfs.client.read.prefetch.size"] or min(
        _PREFETCHED_BLOCKS * write.block_size, INT64_MAX
    )
    read.max_packet_size = write.max_packet_size
    read.socket_timeout = write.socket_timeout
    read.use_datanode_hostname = write.use_datanode_hostname


# --- servers --------------------------------------------------------------------------------------


def split_user(authority: str) -> tuple[str, str]:
    """Return the user of an authority, empty unless it names one, and the rest.

    Raises
    ------
    ValueError
        There is a password with it, which is not shown, or an ``@`` without a user.
    """
    user, at, place = authority.rpartition("@")
    if at and (not user or ":" in user or "@" in user):
        raise ValueError(
            f"the authority of hdfs://…@{place} must be host, host:port or user@host:port, without "
            "a password"
        )
    return user, place


def _parse_address(source: str, text: str) -> tuple[str, int]:
    """Return host and port, 0 where it has none. `source` is where it was written."""
    match = _ADDRESS.fullmatch(text)
    port = int(match[3] or 0) if match else 0
    if not match or (match[3] and not 0 < port <= 65535):
        raise ValueError(f"{source} must be {_FORM}, not {text!r}")
    return match[1] or match[2], port


def _resolve(keys: Reader, authority: str, native: _core.HdfsSettings) -> None:
    source = f"the authority of hdfs://{authority}"
    if "@" in authority:
        raise ValueError(f"{source} must be without a user: HADOOP_USER_NAME says who you are")
    host, port = _parse_address(source, authority)
    moves = keys.given(_PROVIDER + host).endswith(_MOVING_ADDRESS)
    if not moves and _is_nameservice(keys, host, port):
        _resolve_nameservice(keys, host, port, native)
        return
    if not port and not moves:
        native.unknown_host_hint = (
            f"; if {host} is a nameservice, the configuration does not know it: HADOOP_CONF_DIR is "
            "to name the directory of core-site.xml and hdfs-site.xml, or conf= to have "
            "dfs.nameservices"
        )
    # Listed twice: what takes over the address is asked as the next NameNode would be.
    native.name_nodes = [(host, port or DEFAULT_PORT)] * (2 if moves else 1)
    native.service = f"{f'[{host}]' if ':' in host else host}:{port or DEFAULT_PORT}"


def _is_nameservice(keys: Reader, host: str, port: int) -> bool:
    """Whether a name is that of a nameservice: with a port it may be that of its only host, too."""
    if keys.given(_PROVIDER + host):
        return True
    has_several = bool(keys.given(f"dfs.ha.namenodes.{host}"))
    return host in keys.names("dfs.nameservices") and (has_several or port in (0, DEFAULT_PORT))


def _resolve_nameservice(keys: Reader, service: str, port: int, native: _core.HdfsSettings) -> None:
    if port not in (0, DEFAULT_PORT):
        raise ValueError(f"hdfs://{service}:{port}: {service} is a nameservice, which has no port")
    native.service = service
    ids = f"dfs.ha.namenodes.{service}"
    address = f"dfs.namenode.rpc-address.{service}"
    named = keys.read(ids, _IDS) or []
    if not named and not keys.given(address):
        raise _missing(ids, service)
    addresses = [f"{address}.{one}" for one in named] or [address]
    native.name_nodes = [_name_node(keys, key, service) for key in addresses]
    key = f"dfs.client.failover.resolve-needed.{service}"
    if keys.read(key, BOOL):
        native.name_nodes = [one for node in native.name_nodes for one in _servers(key, *node)]
    order = keys.read(f"dfs.client.failover.random.order.{service}", BOOL) if named else None
    if order is not None:
        native.rpc.random_order = order


def _name_node(keys: Reader, key: str, service: str) -> tuple[str, int]:
    """Return the NameNode of an address; some tools write ``hdfs://`` in front of it."""
    value = keys.given(key)
    if not value:
        raise _missing(key, service)
    host, port = _parse_address(key, value.removeprefix("hdfs://").removesuffix("/"))
    return host, port or DEFAULT_PORT


def _servers(key: str, host: str, port: int) -> list[tuple[str, int]]:
    """Return the servers that a name stands for: its addresses, in the order of the resolver."""
    import socket

    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as failure:
        message = f"{key}: the host name {host} cannot be resolved: {failure.strerror}"
        raise OSError(errno.EHOSTUNREACH, message) from failure
    return [(address, port) for address in dict.fromkeys(str(one[4][0]) for one in found)]


def _missing(key: str, service: str) -> ValueError:
    return ValueError(f"{key} is missing: it is needed for the nameservice {service}")
