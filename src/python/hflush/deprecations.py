"""Hadoop's old names of keys, and the names of today.

The tables are those of Hadoop's own clients: of ``Configuration``, ``HdfsConfiguration`` and
``S3AFileSystem``. A value under an old name is a value of the new ones.
"""

from __future__ import annotations

from .warn import warn_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RENAMED", "names_of_today"]

RENAMED: Mapping[str, tuple[str, ...]] = {
    # Configuration
    "dfs.df.interval": ("fs.df.interval",),
    "dfs.nfs.exports.allowed.hosts": ("nfs.exports.allowed.hosts",),
    "dfs.umaskmode": ("fs.permissions.umask-mode",),
    "fs.default.name": ("fs.defaultFS",),
    "hadoop.configured.node.mapping": ("net.topology.configured.node.mapping",),
    "topology.node.switch.mapping.impl": ("net.topology.node.switch.mapping.impl",),
    "topology.script.file.name": ("net.topology.script.file.name",),
    "topology.script.number.args": ("net.topology.script.number.args",),
    "hadoop.native.lib": ("io.native.lib.available",),
    # HdfsConfiguration
    "dfs.access.time.precision": ("dfs.namenode.accesstime.precision",),
    "dfs.backup.address": ("dfs.namenode.backup.address",),
    "dfs.backup.http.address": ("dfs.namenode.backup.http-address",),
    "dfs.balance.bandwidthPerSec": ("dfs.datanode.balance.bandwidthPerSec",),
    "dfs.block.size": ("dfs.blocksize",),
    "dfs.data.dir": ("dfs.datanode.data.dir",),
    "dfs.datanode.max.xcievers": ("dfs.datanode.max.transfer.threads",),
    "dfs.encryption.key.provider.uri": ("hadoop.security.key.provider.path",),
    "dfs.federation.nameservice.id": ("dfs.nameservice.id",),
    "dfs.federation.nameservices": ("dfs.nameservices",),
    "dfs.http.address": ("dfs.namenode.http-address",),
    "dfs.https.address": ("dfs.namenode.https-address",),
    "dfs.https.client.keystore.resource": ("dfs.client.https.keystore.resource",),
    "dfs.https.need.client.auth": ("dfs.client.https.need-auth",),
    "dfs.max-repl-streams": ("dfs.namenode.replication.max-streams",),
    "dfs.max.objects": ("dfs.namenode.max.objects",),
    "dfs.name.dir": ("dfs.namenode.name.dir",),
    "dfs.name.dir.restore": ("dfs.namenode.name.dir.restore",),
    "dfs.name.edits.dir": ("dfs.namenode.edits.dir",),
    "dfs.namenode.replication.considerLoad": ("dfs.namenode.redundancy.considerLoad",),
    "dfs.namenode.replication.considerLoad.factor": (
        "dfs.namenode.redundancy.considerLoad.factor",
    ),
    "dfs.namenode.replication.interval": ("dfs.namenode.redundancy.interval.seconds",),
    "dfs.namenode.replication.pending.timeout-sec": (
        "dfs.namenode.reconstruction.pending.timeout-sec",
    ),
    "dfs.permissions": ("dfs.permissions.enabled",),
    "dfs.permissions.supergroup": ("dfs.permissions.superusergroup",),
    "dfs.read.prefetch.size": ("dfs.client.read.prefetch.size",),
    "dfs.replication.considerLoad": ("dfs.namenode.redundancy.considerLoad",),
    "dfs.replication.interval": ("dfs.namenode.redundancy.interval.seconds",),
    "dfs.replication.min": ("dfs.namenode.replication.min",),
    "dfs.replication.pending.timeout.sec": ("dfs.namenode.reconstruction.pending.timeout-sec",),
    "dfs.safemode.extension": ("dfs.namenode.safemode.extension",),
    "dfs.safemode.threshold.pct": ("dfs.namenode.safemode.threshold-pct",),
    "dfs.secondary.http.address": ("dfs.namenode.secondary.http-address",),
    "dfs.socket.timeout": ("dfs.client.socket-timeout",),
    "dfs.write.packet.size": ("dfs.client-write-packet-size",),
    "fs.checkpoint.dir": ("dfs.namenode.checkpoint.dir",),
    "fs.checkpoint.edits.dir": ("dfs.namenode.checkpoint.edits.dir",),
    "fs.checkpoint.period": ("dfs.namenode.checkpoint.period",),
    "heartbeat.recheck.interval": ("dfs.namenode.heartbeat.recheck-interval",),
    "io.bytes.per.checksum": ("dfs.bytes-per-checksum",),
    "session.id": ("dfs.metrics.session-id",),
    "slave.host.name": ("dfs.datanode.hostname",),
    # S3AFileSystem
    "fs.s3a.committer.staging.abort.pending.uploads": ("fs.s3a.committer.abort.pending.uploads",),
    "fs.s3a.server-side-encryption-algorithm": ("fs.s3a.encryption.algorithm",),
    "fs.s3a.server-side-encryption.key": ("fs.s3a.encryption.key",),
}


def names_of_today(key: str) -> tuple[str, ...]:
    """Return the keys that a key means: itself, unless Hadoop has renamed it; says so once."""
    renamed = RENAMED.get(key)
    if renamed is None:
        return (key,)
    warn_once(f"{key} is deprecated. Instead, use {', '.join(renamed)}")
    return renamed
