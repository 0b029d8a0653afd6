"""Other machines than this one: an emulated aarch64, and a Debian that has nothing installed."""

from __future__ import annotations

import os
import shutil
import socket
import sysconfig
from pathlib import Path

from devkit import debian, machine
from devkit.building import build
from devkit.console import StepFailed, step, stream
from devkit.outcome import Row, add_doctest
from devkit.paths import BUILD, ROOT

EMULATED_TIMEOUT_S = 1200
COMMAND_TIMEOUT_S = 3600
_PORTABLE = ("CURL", "DOCTEST", "OPENSSL", "PROTOZERO")
_INSIDE = Path("hflush")
# Settings of pip and others in this machine's environment hold in the root, too.
_CARRIED = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "GOPROXY", "GOFLAGS")


def aarch64(row: Row) -> None:
    """Run the C++ tests of the checksums under an emulator: they try that machine's kernel."""
    machine.require(machine.FOR_AARCH64)
    headers = _portable_headers(BUILD / "aarch64-headers")
    places = [f"-D{name}_INCLUDE_DIR={headers}" for name in _PORTABLE]
    directory = build("aarch64", "hflush_crc_tests", settings=places)
    command = ["qemu-aarch64", directory / "hflush_crc_tests"]
    try:
        said = step(
            "hflush_crc_tests (aarch64)", command, log="cpp-aarch64", timeout_s=EMULATED_TIMEOUT_S
        )
    except StepFailed as failure:
        add_doctest(row, failure.output)
        if not row.failed:
            raise
    else:
        add_doctest(row, said)


def _portable_headers(directory: Path) -> Path:
    """Copy the headers that are alike for every machine from among this machine's own."""
    shutil.rmtree(directory, ignore_errors=True)
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    for name in map(str.lower, _PORTABLE):
        for place in (Path("/usr/include", name), Path("/usr/include", multiarch, name)):
            if place.is_dir():
                shutil.copytree(place, directory / name, dirs_exist_ok=True)
    return directory


def debian13(row: Row) -> None:
    """Run the README's two commands as a newcomer does: Debian 13 and its Python, nothing else.

    They run on the last commit.
    """
    root = debian.root("trixie", ["python3"], name="newcomer")
    # As an installed Debian has it: Spark looks the machine's own name up.
    (root / "etc" / "hosts").write_text(f"127.0.0.1 localhost {socket.gethostname()}\n")
    inside = root / _INSIDE
    shutil.rmtree(inside, ignore_errors=True)
    step(
        "this commit, in there",
        ["git", "clone", "--quiet", "--no-hardlinks", ROOT, inside],
        log="debian13-clone",
    )
    for command in ("demo", "test"):
        code = stream(_as_newcomer(root, command), timeout_s=COMMAND_TIMEOUT_S)
        if code:
            row.fail(f"./dev {command}: exit code {code}")
        else:
            row.passed += 1


def _as_newcomer(root: Path, command: str) -> list[object]:
    """With the kernel's file systems, in a mount namespace that ends with the command."""
    mounts = "mount -t proc proc $0/proc && mount --rbind /dev $0/dev && mount --rbind /sys $0/sys"
    names = [name for name in os.environ if name.upper().startswith(_CARRIED)]
    carried = [f"{name}={os.environ[name]}" for name in names]
    own = ["HOME=/root", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG=C.UTF-8"]
    words = debian.inside(Path("$0"), ["env", "-i", "-C", f"/{_INSIDE}", '"$@"'])
    script = f"{mounts} && exec {' '.join(map(str, words))}"
    return ["unshare", "--mount", "sh", "-c", script, root, *own, *carried, "./dev", command]
