"""The demo, run as a user runs it: a Spark job whose executors write through hflush."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c
import pyarrow.parquet as pq
import pytest
from integration.hadoop import CHECKSUM_EXCEPTION, Hadoop, raises_java
from support.minidfs import Hdfs

DEMO = Path(__file__).resolve().parents[2] / "demo" / "flights.py"
TIMEOUT_S = 240
ROWS = 20_000
PARTITIONS = 4
JOURNAL_EVERY = 50
JOURNAL_WRITERS = 4
VICTIM = PARTITIONS // 2

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(2 * TIMEOUT_S)]


@dataclass(frozen=True)
class Run:
    """A finished run of the demo."""

    out: Path
    code: int
    text: str

    @property
    def manifest(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.out / "_flights.json").read_text())
        return content

    def row(self, encoding: str) -> list[str]:
        """The line of the table about a directory: files, rows, bytes, MB/s, hflush, …"""
        lines = [line.split() for line in self.text.splitlines()]
        return next(cells[1:] for cells in lines if cells[:1] == [encoding] and len(cells) == 11)

    def files(self, encoding: str) -> list[Path]:
        return sorted((self.out / f"flights.{encoding}").iterdir())


def demo(out: Path, *arguments: str, scheme: str = "file") -> Run:
    finished = run_demo("--out", f"{scheme}://{out}", *arguments)
    return Run(out, finished.returncode, finished.stdout)


def run_demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(DEMO), "--master", "local[2]", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        check=False,
    )


def size_options() -> Iterator[str]:
    yield from ("--rows", str(ROWS), "--partitions", str(PARTITIONS))
    yield from ("--journal-every", str(JOURNAL_EVERY))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One whole run, whose task raises half-way."""
    return demo(tmp_path_factory.mktemp("demo") / "out", *size_options())


@pytest.fixture(scope="module")
def killed_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One onto checksummed files, whose worker is killed half-way."""
    out = tmp_path_factory.mktemp("demo") / "out"
    return demo(out, *size_options(), "--failure", "kill", scheme="file+crc")


@pytest.mark.smoke
def test_the_job_succeeds(run: Run) -> None:
    """What Spark reads back equals what was to be written: exit code 0, and no noise."""
    assert run.code == 0, run.text
    assert "OK after" in run.text
    assert "Traceback" not in run.text
    assert "ERROR" not in run.text


@pytest.mark.smoke
def test_the_table_counts_what_the_streams_did(run: Run) -> None:
    """Rows, bytes and the numbers of calls in the table are those of the job."""
    for encoding in ("parquet", "csv", "journal"):
        files, rows, size, *_ = run.row(encoding)
        assert int(files) == PARTITIONS == len(run.files(encoding)), run.text
        assert int(rows.replace(",", "")) == ROWS
        assert int(size.replace(",", "")) == sum(f.stat().st_size for f in run.files(encoding))
    syncs_of_a_writer = ROWS // PARTITIONS // JOURNAL_WRITERS // JOURNAL_EVERY
    assert run.row("parquet")[4:7:2] == ["0", str(PARTITIONS)]
    assert run.row("csv")[4:7:2] == [str(PARTITIONS), str(PARTITIONS)]
    assert int(run.row("journal")[6]) == PARTITIONS * (JOURNAL_WRITERS * syncs_of_a_writer + 1)


@pytest.mark.smoke
def test_every_file_is_what_its_task_reported(run: Run) -> None:
    """A reader that knows neither hflush nor Spark finds every row, and the reported CRC32C."""
    reported = {file["name"]: file["crc32c"] for file in run.manifest["files"]}
    stored = [file for encoding in ("parquet", "csv", "journal") for file in run.files(encoding)]
    assert {file.name: google_crc32c.value(file.read_bytes()) for file in stored} == reported
    assert sum(pq.read_metadata(file).num_rows for file in run.files("parquet")) == ROWS
    rows = 0
    for file in run.files("csv"):
        with file.open(newline="") as lines:
            rows += sum(1 for _ in csv.DictReader(lines))
    assert rows == ROWS


@pytest.mark.smoke
def test_the_failed_task_was_repeated(run: Run) -> None:
    """The task that raised half-way ran again, and nothing of its first attempt is left."""
    assert re.search(
        rf"partition {VICTIM} raised after 2,500 rows.*attempt 1 published 5,000", run.text
    )
    assert re.search(rf"swept \.part-0000{VICTIM}\.journal\.0-\w+\.attempt \([1-9]", run.text)
    attempts = {
        (file["encoding"], file["partition"]): file["attempt"] for file in run.manifest["files"]
    }
    assert [key for key, attempt in attempts.items() if attempt] == [("journal", VICTIM)]
    assert not list(run.out.rglob(".*"))


def test_damage_is_found(run: Run, tmp_path: Path) -> None:
    """The read-back finds a changed byte, a lost line, a wrong sum, a lost file, a foreign one."""
    damaged = tmp_path / "out"
    shutil.copytree(run.out, damaged)
    parquet, comma, journal = (
        sorted((damaged / f"flights.{encoding}").iterdir())
        for encoding in ("parquet", "csv", "journal")
    )
    content = comma[0].read_bytes()
    at = content.index(b",1400,")  # a distance
    comma[0].write_bytes(content[:at] + b",1401," + content[at + 6 :])
    first_line_end = journal[1].read_bytes().index(b"\n") + 1
    journal[1].write_bytes(journal[1].read_bytes()[first_line_end:])
    parquet[2].with_name(f".{parquet[2].name}.crc").write_bytes(sidecar_of_zeros(parquet[2]))
    parquet[3].unlink()
    shutil.copy(parquet[0], parquet[0].with_name("part-99999.parquet"))

    found = demo(damaged, "--verify-only")
    assert found.code == 1, found.text
    assert "csv       DIFFERENT: part-00000.csv: CRC32C is" in found.text
    assert "csv       DIFFERENT: sum(distance) is" in found.text
    assert "csv       DIFFERENT: fingerprint is" in found.text
    assert re.search(
        r"journal   DIFFERENT: part-00001.journal: [\d,]+ bytes instead of", found.text
    )
    assert "journal   DIFFERENT: rows is 19,999 instead of 20,000" in found.text
    assert "journal   DIFFERENT: records out of order is" in found.text
    assert "parquet   DIFFERENT: part-00002.parquet: Checksum error" in found.text
    assert "parquet   DIFFERENT: Spark cannot read it" in found.text
    assert "parquet   DIFFERENT: part-00003.parquet: missing" in found.text
    assert "parquet   DIFFERENT: part-99999.parquet: not a file of this job" in found.text


def test_a_killed_task_publishes_nothing(killed_run: Run) -> None:
    """A worker that died half-way leaves no file that shows; the task runs again."""
    assert killed_run.code == 0, killed_run.text
    assert re.search(
        rf"partition {VICTIM} was killed after 2,500 rows.*attempt 1 published 5,000",
        killed_run.text,
    )
    left = [path for path in killed_run.out.rglob(".*") if not path.name.endswith(".crc")]
    assert left == []


def test_sidecars_are_there_to_be_verified(killed_run: Run, hadoop: Hadoop, tmp_path: Path) -> None:
    """What Spark read back was verified against our sidecars, which no changed byte gets past."""
    java = hadoop.checksummed()
    for encoding in ("parquet", "csv", "journal"):
        names = published(killed_run, encoding)
        sidecars = [f".{name}.crc" for name in names]
        assert {file.name for file in killed_run.files(encoding)} == {*names, *sidecars}
    assert killed_run.row("journal")[4:7:2] == ["0", "0"]  # crc has no hsync, and pretends none
    damaged = tmp_path / "flights.csv"
    shutil.copytree(killed_run.out / "flights.csv", damaged)
    file = damaged / "part-00001.csv"
    assert java.read(str(file)) == file.read_bytes()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with raises_java(CHECKSUM_EXCEPTION):
        java.read(str(file))


def sidecar_of_zeros(file: Path) -> bytes:
    chunks = -(-file.stat().st_size // 512)
    return b"crc\0" + (512).to_bytes(4, "big") + bytes(4 * chunks)


def published(run: Run, encoding: str) -> list[str]:
    """The names that the manifest has for a directory."""
    return [file["name"] for file in run.manifest["files"] if file["encoding"] == encoding]


def test_on_a_cluster_of_its_own() -> None:
    """--fs hdfs starts an HDFS, writes there, and Spark's JVM finds everything equal."""
    finished = run_demo("--fs", "hdfs", "--failure", "kill", *size_options())
    assert_all_equal(finished)
    assert f"partition {VICTIM} was killed after 2,500 rows" in finished.stdout
    assert re.search(rf"swept \.part-0000{VICTIM}\.journal\.0-\w+\.attempt", finished.stdout)


def test_on_another_cluster(hdfs_cluster: Hdfs) -> None:
    """--out hdfs://… writes to a cluster that is there; what it leaves can be verified later."""
    out = f"{hdfs_cluster.url}{hdfs_cluster.root()}/out"
    assert_all_equal(run_demo("--out", out, *size_options()))
    assert_all_equal(run_demo("--out", out, "--verify-only"))


def test_on_an_object_store_of_its_own() -> None:
    """--fs s3 starts a MinIO; tasks publish by closing, so that a killed one leaves nothing."""
    finished = run_demo("--fs", "s3", "--failure", "kill", *size_options())
    assert_all_equal(finished)
    assert f"partition {VICTIM} was killed after 2,500 rows" in finished.stdout
    assert "swept" not in finished.stdout
    assert "from copies by Arrow's S3 client" in finished.stdout


def assert_all_equal(finished: subprocess.CompletedProcess[str]) -> None:
    assert finished.returncode == 0, finished.stdout
    for encoding in ("parquet", "csv", "journal"):
        assert re.search(
            rf"^{encoding} +20,000 rows, \d+ facts and {PARTITIONS} files: all equal$",
            finished.stdout,
            re.M,
        ), finished.stdout
