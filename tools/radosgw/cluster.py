"""One monitor, one store in memory and one gateway: which programs, and how they are set up."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loopback import ending_with_us

PACKAGES = ("radosgw", "ceph-mon", "ceph-osd", "ceph-common")  # of Debian
PROGRAMS = ("radosgw", "radosgw-admin", "ceph", "ceph-mon", "ceph-osd", "monmaptool")
KMS_KEY = "hflush"  # the one that objects may be encrypted with (SSE-KMS)
MEMORY = 6 << 30  # of objects, at most
STS_KEY = "hflush-sts-tests"  # sixteen characters: what session tokens are encrypted with
STEP_S = 60.0

# Without `ms mon client mode` and `auth client required` of its own the gateway waits for a key.
# What is deleted or replaced stays in memory for two hours unless the collector is set otherwise;
# a store that is full does not answer any more. Quotas are looked at once in ten minutes.
CONFIGURATION = """\
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{mon_port}]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
run dir = {directory}
log file = {directory}/$name.log
pid file =
admin socket =
mon allow pool size one = true
mon data avail crit = 1
mon max pg per osd = 1000
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0

[mon.a]
mon data = {directory}/mon

[osd.0]
osd objectstore = memstore
memstore device bytes = {memory}
osd data = {directory}/osd

[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{port}
rgw data = {directory}/rgw
ms mon client mode = crc
auth client required = none
rgw dynamic resharding = false
rgw gc obj min wait = 1
rgw gc processor period = 5
rgw gc processor max time = 5
rgw bucket quota ttl = 0
rgw bucket quota soft threshold = 0
rgw s3 auth use sts = true
rgw sts key = {sts_key}
rgw crypt require ssl = false
rgw crypt s3 kms backend = testing
rgw crypt s3 kms encryption keys = {kms_key}={kms_secret}
"""


def require_programs() -> None:
    """Raise RuntimeError, which says what is missing."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise RuntimeError(
            f"radosgw cannot be started: there is no {', '.join(missing)}; "
            f"Debian has them in {' '.join(PACKAGES)}"
        )


@dataclass(frozen=True)
class Cluster:
    """The files of a cluster, and its administrator."""

    directory: Path
    fsid: str

    @classmethod
    def lay_out(
        cls, directory: Path, port: int, mon_port: int, settings: Mapping[str, object]
    ) -> Cluster:
        """Write the configuration and the monitor's first files.

        The settings are the gateway's, over ours.
        """
        cluster = cls(directory, str(uuid.uuid4()))
        for name in ("mon", "osd", "rgw"):
            (directory / name).mkdir()
        cluster.configuration.write_text(
            CONFIGURATION.format(
                fsid=cluster.fsid,
                directory=directory,
                port=port,
                mon_port=mon_port,
                memory=MEMORY,
                sts_key=STS_KEY,
                kms_key=KMS_KEY,
                kms_secret=base64.b64encode(bytes(range(32))).decode(),
            )
            + "".join(f"{name} = {value}\n" for name, value in settings.items())
        )
        monmap = directory / "monmap"
        address = f"[v2:127.0.0.1:{mon_port}]"
        cluster.run(
            "monmaptool", "--create", "--fsid", cluster.fsid, "--addv", "a", address, monmap
        )
        cluster.run("ceph-mon", "-i", "a", "--mkfs", "--monmap", monmap)
        return cluster

    @property
    def configuration(self) -> Path:
        return self.directory / "ceph.conf"

    @property
    def environment(self) -> dict[str, str]:
        """Of this process only PATH, so no LD_PRELOAD of a sanitizer and no other Python."""
        return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.directory)}

    def command(self, program: str, *arguments: object) -> list[object]:
        return [program, "--conf", self.configuration, *arguments]

    def run(self, program: str, *arguments: object) -> str:
        """Run one step to its end; return what it printed. Raises RuntimeError with its output."""
        command = self.command(program, *arguments)
        shown = " ".join(map(str, command))
        try:
            result = subprocess.run(
                ending_with_us(command),
                env=self.environment,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=STEP_S,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise RuntimeError(f"{shown}: no end within {STEP_S:.0f} s") from late
        if result.returncode:
            raise RuntimeError(f"{shown}:\n{result.stdout}{result.stderr}")
        return result.stdout

    def add_store(self) -> None:
        """Make the store known to a monitor that runs."""
        osd = str(uuid.uuid4())
        self.run("ceph", "osd", "new", osd, 0)
        self.run("ceph-osd", "-i", 0, "--mkfs", "--osd-uuid", osd)
        self.run("ceph", "osd", "crush", "add", "osd.0", 1.0, "host=localhost", "root=default")

    def administer(self, *arguments: object) -> str:
        """One command of radosgw-admin."""
        return self.run("radosgw-admin", "--name", "client.rgw", *arguments)
