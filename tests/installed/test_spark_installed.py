"""Spark with hflush as users install it: a wheel, a packed environment, a server of Spark Connect.

Slow: a wheel is built, and pip makes environments. `./dev test spark-installed`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600 * PATIENCE)]

ROOT = Path(__file__).resolve().parents[2]
JOB = Path(__file__).with_name("job.py")
NEWEST, OLDEST = "4.3.*", "4.1.*"
ROWS = 1000
STREAMED = sorted(f"{letter} {number}" for letter in "ab" for number in range(3))

Environment = Callable[..., Path]


def run(*command: object, **variables: str) -> str:
    """Run a program that knows nothing of this repository; what it printed."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        [str(word) for word in command],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-8000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``pip install`` makes of this repository."""
    directory = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", directory, ROOT)
    (made,) = directory.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Makes an environment with the wheel, its extras (such as ``[spark]``), and other packages."""

    def make(name: str, extras: str, *packages: str) -> Path:
        made = tmp_path_factory.mktemp("environment") / name
        run(sys.executable, "-m", "venv", made)
        run(made / "bin/python", "-m", "pip", "install", "-q", f"{wheel}{extras}", *packages)
        return made

    return make


@pytest.fixture(scope="module")
def newest(environment: Environment) -> Path:
    """The newest Spark, also with what Spark Connect needs."""
    return environment("newest", "[spark]", f"pyspark[connect]=={NEWEST}", "venv-pack")


def is_right(said: Mapping[str, Any], version: str, driver: Path) -> bool:
    """Whether a job has written what it should, with the installed hflush."""
    assert said["spark"].startswith(version.removesuffix("*"))
    assert Path(said["driver"]).is_relative_to(driver)
    assert (said["rows"], said["sum"]) == (ROWS, ROWS * (ROWS - 1) // 2)
    assert said["streamed"] == STREAMED
    assert said["batches"] == ["0", "1", "2"]
    return True


def last_line(printed: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


@pytest.mark.parametrize("version", [NEWEST, OLDEST])
def test_a_wheel(version: str, newest: Path, environment: Environment, tmp_path: Path) -> None:
    """The data source is found without a word in the job, on each Spark that has its interface."""
    there = newest if version == NEWEST else environment("oldest", "[spark]", f"pyspark=={OLDEST}")
    python = there / "bin/python"
    said = last_line(run(python, JOB, tmp_path, PYSPARK_PYTHON=str(python)))
    assert is_right(said, version, there)
    (place,) = said["workers"]
    assert place.startswith(f"{there} ")
    assert said["options"] == ""


def test_a_server_of_spark_connect(newest: Path, tmp_path: Path) -> None:
    """The server writes; its client has no configuration of Hadoop's, and says so."""
    python = newest / "bin/python"
    said = last_line(run(python, JOB, tmp_path, "local[2]", PYSPARK_PYTHON=str(python)))
    assert is_right(said, NEWEST, newest)
    assert "Spark Connect" in said["options"]


def test_a_packed_environment(newest: Path, environment: Environment, tmp_path: Path) -> None:
    """``--archives``: the executors, which are processes of their own, have only what is packed."""
    workers = environment("workers", "", "pyarrow", "venv-pack")
    archive = tmp_path / "environment.tar.gz"
    run(workers / "bin/venv-pack", "-q", "-p", workers, "-o", archive)
    submit = [newest / "bin/spark-submit", "--master", "local-cluster[2,1,1024]"]
    printed = run(
        *submit,
        "--archives",
        f"{archive}#environment",
        JOB,
        tmp_path,
        PYSPARK_PYTHON="./environment/bin/python",
        PYSPARK_DRIVER_PYTHON=str(newest / "bin/python"),
    )
    said = last_line(printed)
    assert is_right(said, NEWEST, newest)
    assert len(said["workers"]) in (1, 2)  # each executor unpacks it
    assert all("/environment" in place.split()[0] for place in said["workers"])
