"""The demo: Spark jobs, and a query that is killed, whose executors write through hflush.

As a user runs it, in a process with a Spark of its own; where that shows nothing new, in this
process with the session of all tests.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import google_crc32c
import pyarrow.parquet as pq
import pytest
from integration.hadoop import CHECKSUM_EXCEPTION, Hadoop, raises_java
from integration.spark import Spark
from support.minidfs import Hdfs
from support.waiting import DEADLINE_S

DEMO = Path(__file__).resolve().parents[2] / "demo"
TIMEOUT_S = 10 * DEADLINE_S
ROWS = 4_000
PARTITIONS = 4
JOURNAL_EVERY = 50
JOURNAL_WRITERS = 4
VICTIM = PARTITIONS // 2
DAYS = 4
ENCODINGS = ("parquet", "csv", "journal")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(2 * TIMEOUT_S),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


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
        found = (self.out / f"flights.{encoding}").iterdir()
        return sorted(path for path in found if not path.name.startswith("_"))


def run_demo(*arguments: str) -> Run:
    """Run it as a user does."""
    finished = subprocess.run(
        [sys.executable, str(DEMO), "--master", "local[2]", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        check=False,
    )
    return Run(Path(), finished.returncode, finished.stdout)


class InSession:
    """Runs it in the session of the tests."""

    def __init__(self, spark: Spark, flights: ModuleType) -> None:
        self._spark = spark
        self._flights = flights

    def __call__(self, out: Path | str, *arguments: str, scheme: str = "file") -> Run:
        url = out if isinstance(out, str) else f"{scheme}://{out}"
        said = io.StringIO()
        options = ["--out", url, "--master", "local[2]", *arguments]
        # distribute() sets the last two for good.
        settings = {
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.execution.arrow.localRelationThreshold": "0",
            "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        }
        with self._spark.settings(settings), redirect_stdout(said):
            code = self._flights.main(options, self._spark.session)
        return Run(out if isinstance(out, Path) else Path(), code, said.getvalue())


@pytest.fixture(scope="module")
def demo(spark: Spark) -> Iterator[InSession]:
    sys.path.insert(0, str(DEMO))
    try:
        import engine
        import flights

        engine.ship()
        yield InSession(spark, flights)
    finally:
        sys.path.remove(str(DEMO))


def size_options() -> Iterator[str]:
    yield from ("--rows", str(ROWS), "--partitions", str(PARTITIONS))
    yield from ("--journal-every", str(JOURNAL_EVERY))


@pytest.mark.parametrize("name", ["local", "file"])
def test_local_files_have_two_names(demo: InSession, name: str) -> None:
    """Neither is a directory where the demo runs."""
    flights = demo._flights
    with flights.scratch_directory(flights.parse(["--fs", name]).fs) as out:
        assert out.startswith(f"file://{tempfile.gettempdir()}/hflush-demo-")


def test_what_is_no_file_system_is_refused(
    demo: InSession, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        demo._flights.parse(["--fs", "hfds"])
    assert "--fs hfds: it can be local, file, hdfs, s3, or a URL such" in capsys.readouterr().err


@pytest.fixture(scope="module")
def run(demo: InSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One whole run, whose task raises half-way."""
    return demo(tmp_path_factory.mktemp("demo") / "out", *size_options())


@pytest.fixture(scope="module")
def killed_run(demo: InSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One onto checksummed files, whose worker is killed half-way."""
    out = tmp_path_factory.mktemp("demo") / "out"
    return demo(out, *size_options(), "--failure", "kill", scheme="file+crc")


@pytest.mark.smoke
def test_the_table_counts_what_the_streams_did(run: Run) -> None:
    """Rows, bytes and the numbers of calls in the table are those of the job."""
    assert_all_equal(run)
    for encoding in ENCODINGS:
        files, rows, size, *_ = run.row(encoding)
        assert int(files) == PARTITIONS == len(run.files(encoding)), run.text
        assert int(rows.replace(",", "")) == ROWS
        assert int(size.replace(",", "")) == sum(f.stat().st_size for f in run.files(encoding))
    syncs_of_a_writer = ROWS // PARTITIONS // JOURNAL_WRITERS // JOURNAL_EVERY
    for encoding in ("parquet", "csv"):
        assert run.row(encoding)[4:7:2] == ["0", str(PARTITIONS)]
    assert int(run.row("journal")[6]) == PARTITIONS * (JOURNAL_WRITERS * syncs_of_a_writer + 1)


@pytest.mark.smoke
def test_every_file_is_what_was_reported(run: Run) -> None:
    """A reader that knows neither hflush nor Spark finds every row, and the reported CRC32C."""
    reported = {file["name"]: file["crc32c"] for file in run.manifest["files"]}
    stored = [file for encoding in ENCODINGS for file in run.files(encoding)]
    assert {file.name: google_crc32c.value(file.read_bytes()) for file in stored} == reported
    assert sum(pq.read_metadata(file).num_rows for file in run.files("parquet")) == ROWS
    rows = 0
    for file in run.files("csv"):
        with file.open(newline="") as lines:
            rows += sum(1 for _ in csv.DictReader(lines))
    assert rows == ROWS


@pytest.mark.smoke
def test_the_failed_tasks_were_repeated(run: Run) -> None:
    """Those that raised half-way ran again, and nothing of their first attempts is left."""
    raised = rf"partition {VICTIM} raised after 500 rows, as asked; Spark repeated it: "
    assert re.search(raised + "its 1,000 rows were committed once", run.text), run.text
    assert "nothing of the first attempt was ever visible; vacuum removed 0 leftovers" in run.text
    assert re.search(raised + "attempt 1 published 1,000", run.text)
    assert re.search(rf"swept \.part-0000{VICTIM}\.journal\.0-\w+\.attempt \(\d", run.text)
    assert not list(run.out.rglob(".*"))
    assert not list(run.out.glob("flights.*/_hflush/staging/*"))


def test_damage_is_found(demo: InSession, run: Run, tmp_path: Path) -> None:
    """The read-back finds a changed byte, a lost line, a wrong sum, a lost file, a foreign one."""
    damaged = tmp_path / "out"
    shutil.copytree(run.out, damaged)
    parquet, comma, journal = (Run(damaged, 0, "").files(encoding) for encoding in ENCODINGS)
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
    for difference in (
        f"csv       DIFFERENT: {comma[0].name}: CRC32C is",
        "csv       DIFFERENT: sum(distance) is",
        "csv       DIFFERENT: fingerprint is",
        "journal   DIFFERENT: rows is 3,999 instead of 4,000",
        "journal   DIFFERENT: records out of order is",
        f"parquet   DIFFERENT: {parquet[2].name}: Checksum error",
        "parquet   DIFFERENT: Spark cannot read it",
        f"parquet   DIFFERENT: {parquet[3].name}: missing",
        "parquet   DIFFERENT: part-99999.parquet: not a file of this job",
    ):
        assert difference in found.text
    assert re.search(
        r"journal   DIFFERENT: part-00001.journal: [\d,]+ bytes instead of", found.text
    )


def test_killed_tasks_publish_nothing(killed_run: Run) -> None:
    """Workers that died half-way leave no file that shows; their tasks run again."""
    assert_all_equal(killed_run)
    killed = rf"partition {VICTIM} was killed after 500 rows, as asked; Spark repeated it: "
    assert re.search(killed + "its 1,000 rows were committed once", killed_run.text)
    assert re.search(killed + "attempt 1 published 1,000", killed_run.text)
    left = [path for path in killed_run.out.rglob(".*") if not path.name.endswith(".crc")]
    assert left == []


def test_sidecars_are_there_to_be_verified(killed_run: Run, hadoop: Hadoop, tmp_path: Path) -> None:
    """What Spark read back was verified against our sidecars, which no changed byte gets past."""
    java = hadoop.checksummed()
    for encoding in ENCODINGS:
        names = published(killed_run, encoding)
        sidecars = [f".{name}.crc" for name in names]
        found = {file.name for file in killed_run.files(encoding)} - {"._SUCCESS.crc"}
        assert found == {*names, *sidecars}
    assert killed_run.row("journal")[4:7:2] == ["0", "0"]  # crc has no hsync, and pretends none
    damaged = tmp_path / "flights.csv"
    shutil.copytree(killed_run.out / "flights.csv", damaged)
    file = damaged / published(killed_run, "csv")[0]
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


def test_on_a_cluster(demo: InSession, hdfs_cluster: Hdfs) -> None:
    """--out hdfs://… writes to a cluster that is there; what it leaves can be verified later."""
    out = f"{hdfs_cluster.url}{hdfs_cluster.root()}/out"
    assert_all_equal(demo(out, *size_options()))
    assert_all_equal(demo(out, "--verify-only"))


def test_on_an_object_store_of_its_own() -> None:
    """--fs s3 starts a MinIO; a user's own run, without noise."""
    finished = run_demo("--fs", "s3", "--failure", "kill", *size_options())
    assert_all_equal(finished)
    assert f"partition {VICTIM} was killed after 500 rows" in finished.text
    assert "swept" not in finished.text
    assert "from copies by Arrow's S3 client" in finished.text


def assert_all_equal(finished: Run) -> None:
    assert finished.code == 0, finished.text
    assert "OK after" in finished.text
    assert not re.search("Traceback|ERROR", finished.text), finished.text
    for encoding in ENCODINGS:
        assert re.search(
            rf"^{encoding} +4,000 rows, \d+ facts and {PARTITIONS} files: all equal$",
            finished.text,
            re.M,
        ), finished.text


# --- the stream ---


def test_a_query_that_is_killed_writes_each_row_once(demo: InSession, hdfs_cluster: Hdfs) -> None:
    """Killed in a batch, started again; another one is refused."""
    out = f"{hdfs_cluster.url}{hdfs_cluster.root()}/stream"
    assert_drawn(demo(out, "--stream", "--days", str(DAYS)))


def test_a_query_to_an_object_store_of_its_own() -> None:
    """And a Spark of its own, as a user has."""
    assert_drawn(run_demo("--stream", "--fs", "s3", "--days", str(DAYS)))


def assert_drawn(finished: Run) -> None:
    """The picture has each day once, and the kill between the runs."""
    assert finished.code == 0, finished.text
    assert not re.search("Traceback|ERROR|DIFFERENT", finished.text), finished.text
    lines = finished.text.splitlines()
    drawn = lines[next(i for i, line in enumerate(lines) if line.startswith("batch")) + 1 :]
    marks = [re.match(r" +(\d+) .* (x|#+)(  | *$)(.*)", line) for line in drawn[: DAYS + 1]]
    assert [int(mark[1]) for mark in marks if mark] == [0, 1, 2, 2, 3]
    killed, again = marks[2], marks[3]
    assert killed is not None
    assert again is not None
    assert (killed[2], killed[4].strip()) == (
        "x",
        "kill -9: 1 file of it written, none in the log",
    )
    assert again[4].strip() == "<- again, as it was in no log"
    assert re.search(r"a second query on the path: hflush\.spark\.ForeignQueryError", finished.text)
    assert "no reader saw: 1; vacuum removed 1\n" in finished.text
    assert "read back by Spark: 3,614 rows, each once, all facts equal" in finished.text
