"""Debian packages: what is missing, and how it is installed.

Every check looks at files only, so that a machine that has all of it costs nothing.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from devkit.console import StepFailed, say, step

JAVA_LEAST = 17


class NotInstalled(Exception):
    """Something is missing and cannot be installed from here; the text says what to do."""


@dataclass(frozen=True)
class Need:
    """One thing the work needs, and the packages that bring it, best first."""

    what: str
    present: Callable[[], bool]
    packages: tuple[str, ...]


def _program(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


def _python_headers() -> bool:
    return (Path(sysconfig.get_path("include")) / "Python.h").is_file()


def _python_venv() -> bool:
    return all(importlib.util.find_spec(name) for name in ("venv", "ensurepip"))


def _header(name: str) -> Callable[[], bool]:
    places = ["/usr/include", "/usr/local/include"]
    if multiarch := sysconfig.get_config_var("MULTIARCH"):
        places.append(f"/usr/include/{multiarch}")
    return lambda: any(Path(place, name).is_file() for place in places)


def _library(name: str) -> Callable[[], bool]:
    places = ["/usr/lib", "/usr/lib64", "/usr/local/lib"]
    if multiarch := sysconfig.get_config_var("MULTIARCH"):
        places.append(f"/usr/lib/{multiarch}")
    return lambda: any(Path(place, name).exists() for place in places)


def _has_clang_sanitizers() -> bool:
    places = Path("/usr/lib").glob("llvm-*/lib/clang/*/lib/linux")
    return any(
        place.joinpath(f"libclang_rt.asan-{platform.machine()}.so").is_file() for place in places
    )


def _has_java() -> bool:
    return java_home() is not None


def _python_package(suffix: str) -> tuple[str, ...]:
    exact = f"python{sys.version_info.major}.{sys.version_info.minor}-{suffix}"
    return (exact, f"python3-{suffix}")


PYTHON = Need("Python's venv module", _python_venv, _python_package("venv"))
HEADERS = Need("Python's C headers", _python_headers, _python_package("dev"))
COMPILER = Need("a C++20 compiler", _program("g++"), ("g++",))
CMAKE = Need("CMake", _program("cmake"), ("cmake",))
CCACHE = Need("ccache", _program("ccache"), ("ccache",))
NINJA = Need("Ninja", _program("ninja"), ("ninja-build",))
DOCTEST = Need("doctest", _header("doctest/doctest.h"), ("doctest-dev",))
PROTOZERO = Need("protozero", _header("protozero/pbf_reader.hpp"), ("libprotozero-dev",))
CURL_HEADERS = Need("libcurl's headers", _header("curl/curl.h"), ("libcurl4-openssl-dev",))
CURL = Need("libcurl", _library("libcurl.so.4"), ("libcurl4", "libcurl4t64"))
SSL_HEADERS = Need("OpenSSL's headers", _header("openssl/evp.h"), ("libssl-dev",))
GIT = Need("git", _program("git"), ("git",))  # the conformance page names what it speaks of
MAVEN = Need("Maven", _program("mvn"), ("maven",))
CLANG = Need("clang", _program("clang++"), ("clang",))
CLANG_SANITIZERS = Need("clang's sanitizers", _has_clang_sanitizers, ("libclang-rt-dev",))
DEBOOTSTRAP = Need("debootstrap", _program("debootstrap"), ("debootstrap",))
CROSS_COMPILER = Need(
    "a compiler for aarch64", _program("aarch64-linux-gnu-g++"), ("g++-aarch64-linux-gnu",)
)
EMULATOR = Need("an emulator of aarch64", _program("qemu-aarch64"), ("qemu-user",))
RADOSGW = Need("Ceph's S3 gateway", _program("radosgw"), ("radosgw",))
CEPH_MONITOR = Need("Ceph's monitor", _program("ceph-mon"), ("ceph-mon",))
CEPH_STORE = Need("Ceph's object store", _program("ceph-osd"), ("ceph-osd",))
CEPH = Need("Ceph's tools", _program("ceph"), ("ceph-common",))
JAVA = Need(
    f"Java {JAVA_LEAST} or later",
    _has_java,
    ("openjdk-17-jdk-headless", "openjdk-21-jdk-headless", "default-jdk-headless"),
)

FOR_BUILD = (
    PYTHON,
    HEADERS,
    COMPILER,
    CMAKE,
    NINJA,
    CCACHE,
    DOCTEST,
    PROTOZERO,
    CURL_HEADERS,
    CURL,
    SSL_HEADERS,
)
FOR_CHECKS = (CLANG, CLANG_SANITIZERS)
FOR_CLUSTER = (JAVA, MAVEN)  # Spark needs Java, too
FOR_TEST = (GIT,)
FOR_AARCH64 = (CROSS_COMPILER, EMULATOR)
FOR_RADOSGW = (RADOSGW, CEPH_MONITOR, CEPH_STORE, CEPH)


@cache
def java_home() -> Path | None:
    """The home of a Java that Spark can run on: JAVA_HOME, the one on PATH, or any installed."""
    on_path = shutil.which("java")
    homes = [
        *([Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []),
        *([Path(on_path).resolve().parents[1]] if on_path else []),
        *sorted(Path("/usr/lib/jvm").glob("*")),
    ]
    return next((home for home in homes if _java_major(home) >= JAVA_LEAST), None)


def _java_major(home: Path) -> int:
    try:
        release = (home / "release").read_text()
    except OSError:
        return 0
    version = re.search(r'^JAVA_VERSION="(\d+)', release, re.MULTILINE)
    return int(version[1]) if version and (home / "bin" / "java").exists() else 0


def require(needs: Iterable[Need]) -> None:
    """Install what is missing. Raises NotInstalled where that is not possible."""
    missing = [need for need in needs if not need.present()]
    if not missing:
        return
    become_root = _root_prefix()
    if shutil.which("apt-get") is None or become_root is None:
        raise NotInstalled(_advice(missing))
    try:
        _install(missing, become_root)
    except StepFailed as failure:
        raise NotInstalled(_advice(missing)) from failure
    java_home.cache_clear()
    importlib.invalidate_caches()
    still = [need for need in missing if not need.present()]
    if still:
        raise NotInstalled(_advice(still))


def _install(missing: Sequence[Need], become_root: Sequence[str]) -> None:
    apt = [*become_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    refreshed = False
    if not all(any(_known(name) for name in need.packages) for need in missing):
        step("refreshing the package lists", [*apt, "update"], log="apt-update")
        refreshed = True
    packages = [_pick(need) for need in missing]
    install = [*apt, "install", "-y", "--no-install-recommends", *packages]
    title = "installing " + " ".join(packages)
    try:
        step(title, install, log="apt-install")
    except StepFailed:
        if refreshed:
            raise
        say("   the package lists may be old: once more with fresh ones")
        step("refreshing the package lists", [*apt, "update"], log="apt-update")
        step(title, install, log="apt-install")


def _pick(need: Need) -> str:
    return next((name for name in need.packages if _known(name)), need.packages[-1])


def _known(package: str) -> bool:
    """Whether the package lists have it."""
    if shutil.which("apt-cache") is None:
        return False
    found = subprocess.run(
        ["apt-cache", "policy", package], check=False, capture_output=True, text=True
    )
    return "Candidate:" in found.stdout and "Candidate: (none)" not in found.stdout


def _root_prefix() -> list[str] | None:
    """What to put before a command to run it as root; None where that cannot be."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if (
        sudo
        and subprocess.run([sudo, "-n", "true"], check=False, capture_output=True).returncode == 0
    ):
        return [sudo, "-n"]
    return None


def _advice(missing: Sequence[Need]) -> str:
    width = max(len(need.what) for need in missing)
    rows = [f"    {need.what:<{width}}  {' or '.join(need.packages)}" for need in missing]
    names = " ".join(_pick(need) for need in missing)
    return "\n".join(
        [
            "These are missing, and cannot be installed from here (what, and its Debian package):",
            *rows,
            "On Debian or Ubuntu:",
            f"    sudo apt-get update && sudo apt-get install {names}",
        ]
    )
