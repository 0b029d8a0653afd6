"""Certificates for servers on the loopback interface, and authorities that sign them."""

from __future__ import annotations

import subprocess
from pathlib import Path


def make_authority(directory: Path, name: str) -> Path:
    """An authority: NAME.pem, which is returned, and NAME.key."""
    _request(
        directory, "-x509", "-subj", f"/CN={name}", "-keyout", f"{name}.key",
        "-out", f"{name}.pem", "-addext", "basicConstraints=critical,CA:TRUE",
        "-addext", "keyUsage=critical,keyCertSign",
    )  # fmt: skip
    return directory / f"{name}.pem"


def make_certificate(directory: Path, authority: str, name: str, *, of: str) -> None:
    """A certificate of an authority, of IP:127.0.0.1 or DNS:…: NAME.pem and NAME.key."""
    _request(
        directory, "-x509", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
        "-subj", f"/CN={name}", "-addext", f"subjectAltName={of}", "-keyout", f"{name}.key",
        "-addext", "basicConstraints=critical,CA:FALSE", "-out", f"{name}.pem",
    )  # fmt: skip


def make_server_directory(directory: Path) -> Path:
    """What MinIO wants for a server on 127.0.0.1, in an empty directory; return its authority."""
    authority = make_authority(directory, "authority")
    make_certificate(directory, "authority", "server", of="IP:127.0.0.1")
    (directory / "server.pem").rename(directory / "public.crt")
    (directory / "server.key").rename(directory / "private.key")
    return authority


def _request(directory: Path, *arguments: str) -> None:
    command = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-days", "2", *arguments]
    subprocess.run(command, cwd=directory, check=True, capture_output=True)
