"""Debian in a directory: another release's compilers, and a machine that has nothing installed.

A root is made by debootstrap and entered by chroot, which both ask for root. What it is made of
comes from where this machine's own packages come from.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from devkit import machine
from devkit.console import StepFailed, step
from devkit.paths import CACHE

KEPT_S = 30 * 24 * 3600  # after that a release that moves is fetched anew
_SETTINGS = ("Acquire::http", "Acquire::https", "Acquire::Check-", "Acquire::Retries")
# What this machine trusts; and what its administrator has added, which Java lists once more.
_CERTIFICATES = Path("etc/ssl/certs/ca-certificates.crt")
_ADDED_CERTIFICATES = Path("usr/local/share/ca-certificates")


def root(suite: str, packages: Sequence[str], *, name: str) -> Path:
    """Return a root of that release with these packages, made first unless a recent one is there.

    Raises machine.NotInstalled where this user cannot make one, StepFailed where it failed.
    """
    directory = CACHE / f"debian-{name}"
    stamp = directory / "hflush-root"
    wanted = " ".join([suite, *packages])
    if _age_s(stamp) < KEPT_S and stamp.read_text() == wanted:
        return directory
    if os.geteuid() != 0:
        raise machine.NotInstalled("a Debian root is made by debootstrap and chroot: run as root")
    machine.require([machine.DEBOOTSTRAP])
    shutil.rmtree(directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    _debootstrap(suite, directory)
    if packages:
        apt_get(directory, "install", "-y", "--no-install-recommends", *packages)
    stamp.write_text(wanted)
    return directory


def inside(directory: Path, command: Sequence[object]) -> list[object]:
    """Return the command that runs a command inside a root."""
    return ["chroot", directory, *command]


def output(directory: Path, *command: str) -> str:
    """Return what a command inside a root prints."""
    return _output(*(str(word) for word in inside(directory, command)))


def apt_get(directory: Path, *arguments: str) -> None:
    command = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", *arguments]
    title = f"apt-get {' '.join(arguments[:1])} in {directory.name}"
    step(title, inside(directory, command), log=f"{directory.name}-apt")


def _debootstrap(suite: str, directory: Path) -> None:
    command = ["debootstrap", "--variant=minbase", "--include=ca-certificates", suite, directory]
    title = f"Debian {suite} in a directory"
    try:
        step(title, [*command, *_mirror()], log=f"{directory.name}-debootstrap")
    except StepFailed:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    (directory / "etc/apt/apt.conf.d/hflush").write_text(_apt_settings())
    added = Path("/", _ADDED_CERTIFICATES)
    if added.is_dir():
        shutil.copytree(added, directory / _ADDED_CERTIFICATES, dirs_exist_ok=True)
    title = f"certificates of {directory.name}"
    step(
        title,
        inside(directory, ["/usr/sbin/update-ca-certificates"]),
        log=f"{directory.name}-certificates",
    )
    shutil.copy(Path("/", _CERTIFICATES), directory / _CERTIFICATES)


def _mirror() -> list[str]:
    """Where this machine's packages come from, if it is a Debian; else debootstrap's own choice."""
    listed = _output("apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN)")
    origins = (line.split() for line in listed.splitlines())
    return [uri for uri, *origin in origins if origin == ["Debian"] and "security" not in uri][:1]


def _apt_settings() -> str:
    """How this machine's apt reaches its servers, and what it asks of them."""
    lines = _output("apt-config", "dump", "Acquire").splitlines()
    return "".join(f"{line}\n" for line in lines if line.startswith(_SETTINGS))


def _output(*command: str) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")
