"""Trials for docs/reliability-spark.json."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reliability.spark import page
from reliability.spark.job import BATCHES, HFLUSH, OLD, ROWS, rows_of_batch, written_in
from reliability.spark.judge import Verdict, is_old_or_new, moment, verdict

HERE = Path(__file__).resolve().parent
SPARK = "Spark's own"
SINKS = (HFLUSH, SPARK)
KILLED = ("append", "overwrite", "stream")
SECOND = "second"
# Of trials: ended how, a listing or a vacuum showed neither old nor new rows, and after the run
# that came next so many rows were lost or doubled, in so many trials.
COUNTED = ("kills", "not_reached", "listed_neither", "neither", "lost", "doubled", "wrong")
QUIET = HERE.parents[2] / "demo" / "log4j2.properties"


def environment() -> dict[str, str]:
    """Return the variables of processes that use hflush, of these sources."""
    return os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(QUIET.parent),
        "PYTHONPATH": os.pathsep.join(
            str(HERE.parents[2] / part) for part in ("src/python", "tools")
        ),
    }


class Driver:
    """A process with a Spark, whose workers and JVM are in its process group."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, HERE / "job.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
            start_new_session=True,
            env=environment(),
        )

    def order(self, *words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")

    def answer(self) -> str:
        """Return its next line; empty if it has died."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def ask(self, *words: str) -> str:
        self.order(*words)
        return self.answer()

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Measurement:
    """The trials of one sink, each in the process that the one before it has left."""

    def __init__(self, sink: str, seed: int, directory: Path) -> None:
        self._sink = "hflush" if sink == HFLUSH else "spark"
        self._random = random.Random(seed)
        self._directory = directory
        self._driver = Driver()

    def close(self) -> None:
        self._driver.kill()

    def trials(self, case: str, count: int) -> dict[str, Any]:
        """Kill so many drivers in this case; how many trials ended in which way."""
        usual = self._usual(case)
        seen = dict.fromkeys(COUNTED, 0)
        for number in range(count):
            place = self._place(f"{case}{number}", case)
            assert self._driver.ask("prepare", *place) == "done"
            assert self._driver.ask("write", *place) == "begun"
            time.sleep(usual * moment(number, self._random.random()))
            self._driver.kill()
            has_ended = self._driver.answer() == "done"
            self._driver = Driver()
            seen["not_reached" if has_ended else "kills"] += 1
            if case == "overwrite" and not has_ended:
                self._look_at(place, seen)
            if not has_ended:
                self._write(place)
            self._count(self._verdict(case, place), seen)
            print(f"  {self._sink} {case} {number}: {seen}")
        return seen

    def _look_at(self, place: Sequence[str], seen: dict[str, int]) -> None:
        """Count what a killed overwrite has left: in a listing, and after hflush's vacuum."""
        if not self._shows_old_or_new(place):
            seen["listed_neither"] += 1
        if self._sink == HFLUSH:
            self._vacuum(place)
            seen["neither"] += not self._shows_old_or_new(place)

    def _shows_old_or_new(self, place: Sequence[str]) -> bool:
        return is_old_or_new(self._rows(place), range(-OLD, 0), range(ROWS))

    def _vacuum(self, place: Sequence[str]) -> None:
        """Run `hflush vacuum`, as a user who finds a killed job does."""
        command = [sys.executable, "-m", "hflush.cli", "vacuum", written_in(place[-1])]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment())

    def second_query(self) -> dict[str, Any]:
        """Let a second query write to the path of a first one."""
        place = self._place(SECOND, SECOND)
        assert self._driver.ask("prepare", *place) == "done"
        assert self._driver.ask("write", *place) == "begun"
        answer = self._driver.answer()
        # It begins anew and reads all files: those that the first one has seen, too.
        first = [row for number in range(BATCHES) for row in rows_of_batch(number)]
        second = [row for number in range(2 * BATCHES) for row in rows_of_batch(number)]
        refused = answer.startswith("refused")
        found = verdict(self._rows(place), first if refused else first + second)
        return {"refused": refused, "lost": found.lost, "doubled": found.doubled}

    def _usual(self, case: str) -> float:
        """Return how many seconds a write takes, the second one of a process that has written."""
        took = 0.0
        for number in range(2):
            place = self._place(f"usual-{case}{number}", case)
            assert self._driver.ask("prepare", *place) == "done"
            began = time.monotonic()
            self._write(place)
            took = time.monotonic() - began
        return took

    def _write(self, place: Sequence[str]) -> None:
        assert self._driver.ask("write", *place) == "begun"
        assert (answer := self._driver.answer()) == "done", answer

    def _rows(self, place: Sequence[str]) -> list[int]:
        rows: list[int] = json.loads(self._driver.ask("rows", *place))
        return rows

    def _verdict(self, case: str, place: Sequence[str]) -> Verdict:
        expected = {
            "append": range(-OLD, ROWS),
            "overwrite": range(ROWS),
            "stream": range(ROWS // BATCHES * BATCHES),
        }[case]
        return verdict(self._rows(place), expected)

    def _count(self, found: Verdict, seen: dict[str, int]) -> None:
        seen["lost"] += found.lost
        seen["doubled"] += found.doubled
        seen["wrong"] += not found.is_right

    def _place(self, name: str, case: str) -> tuple[str, str, str]:
        directory = self._directory / f"{self._sink}-{name}"
        directory.mkdir()
        return case, self._sink, str(directory)


def measure(kills: int, seed: int) -> bool:
    """Run and publish all trials; whether hflush kept its promises in all."""
    seen: dict[str, Any] = {}
    for sink in SINKS:
        with tempfile.TemporaryDirectory(prefix="spark-kills-") as directory:
            measurement = Measurement(sink, seed, Path(directory))
            try:
                seen[sink] = {case: measurement.trials(case, kills) for case in KILLED}
                seen[sink][SECOND] = measurement.second_query()
            finally:
                measurement.close()
    page.publish(seen, seed)
    ours = seen[HFLUSH]
    return not any(
        ours[case].get(what)
        for case in (*KILLED, SECOND)
        for what in ("lost", "doubled", "neither")
    )
