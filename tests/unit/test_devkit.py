"""The development command: what it leaves running, what its runs have, what a build asks for."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path

import pytest
from devkit import benching, native, parts, sources, testing
from devkit.outcome import FLAKY_MOST, Row, add_junit, summarize, timed
from support.waiting import DEADLINE_S, wait_until

ROOT = Path(__file__).resolve().parents[2]

# A command that starts a process of its own, tells its number and lasts.
LASTING = 'sleep 600 & echo $! > "$0.partial" && mv "$0.partial" "$0"; wait'
WAYS = {
    "a quiet step": "console.step('lasting', command, log='test-lasting')",
    "a step that shows itself": "console.stream(command)",
    "steps side by side": (
        "console.side_by_side(lambda log: console.step('', command, log=log), ['test'])"
    ),
    "what runs beside": "(console.beside(command, log='test-lasting'), signal.pause())",
}
PROGRAM = """
import os, signal, subprocess, sys, threading
from devkit import commands, console
command = ["sh", "-c", sys.argv[1], sys.argv[2]]
{before}
sys.exit(commands.guarded(lambda: {way} and 0))
"""


# Sends the signal when something is started, but not known yet; tells the number of a process.
SIGNALLED = """
def signalled(self, *arguments, start={starts}, **options):
    start(self, *arguments, **options)
    open(sys.argv[2], "w").write(str(getattr(self, "pid", 0)))
    os.kill(os.getpid(), signal.SIGTERM)
{starts} = signalled
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_an_end_by_a_signal_is_the_end_of_what_was_started(
    way: str, number: signal.Signals, tmp_path: Path
):
    told = tmp_path / "process"
    process = run_steps(way, LASTING, told)
    try:
        wait_until(told.exists, "the step runs")
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == 128 + number
    finally:
        process.kill()
        process.wait()
    wait_until_gone(told)


@pytest.mark.parametrize(
    ("way", "starts"),
    [
        *((way, "subprocess.Popen.__init__") for way in WAYS),
        ("steps side by side", "threading.Thread.start"),
    ],
)
def test_a_signal_that_comes_while_a_step_starts(way: str, starts: str, tmp_path: Path):
    told = tmp_path / "process"
    process = run_steps(way, "sleep 600", told, before=SIGNALLED.format(starts=starts))
    try:
        assert process.wait(DEADLINE_S) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.wait()
    wait_until_gone(told)


def run_steps(way: str, command: str, told: Path, before: str = "") -> subprocess.Popen[bytes]:
    code = PROGRAM.format(way=WAYS[way], before=before)
    return subprocess.Popen(
        [sys.executable, "-c", code, command, told],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools")},
        stdout=subprocess.DEVNULL,
    )


def wait_until_gone(told: Path) -> None:
    lasting = Path("/proc", told.read_text().strip())
    wait_until(lambda: not lasting.exists(), "what the step started has ended")


def test_every_test_is_in_a_part_of_the_full_run():
    """Those of tests/integration by their marks, without which they are refused (support/marks)."""
    tests = ROOT / "tests"
    places = {file.relative_to(tests).parts[0] for file in tests.rglob("test_*.py")}
    in_parts = {place for name in parts.OF_FULL for place in parts.PYTEST[name].places}
    assert places - in_parts == {"radosgw"}  # by hand
    assert set(testing.OF_GATE) < set(testing.OF_FULL)


class TestFlaky:
    @pytest.fixture(autouse=True)
    def kept(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        kept = tmp_path / "flaky.json"
        monkeypatch.setattr("devkit.outcome.FLAKY", kept)
        return kept

    def row(self, *names: str) -> Row:
        row = Row("unit", passed=10)
        for name in names:
            row.fail(name)
        return row

    def test_what_passes_alone_passes(self, kept: Path, capsys: pytest.CaptureFixture[str]):
        """Its name is told, and kept beside those of earlier runs."""
        for name in ("test_a", "test_b"):
            row = self.row(name)
            row.run_again(Row("unit", passed=1))
            assert summarize([row]) == 0
            out = capsys.readouterr().out
            assert "flaky: 1" in out
            assert f"  unit: {name}\n" in out
            assert out.endswith("11 passed, 0 failed, 0 skipped\n")
        assert [each["test"] for each in json.loads(kept.read_text())] == [
            "unit: test_a",
            "unit: test_b",
        ]

    def test_what_fails_twice_fails(self, kept: Path, capsys: pytest.CaptureFixture[str]):
        row = self.row("test_a", "test_b")
        row.run_again(self.row("test_b"))
        assert summarize([row]) == 1
        assert capsys.readouterr().out.endswith("11 passed, 1 failed, 0 skipped\n")

    def test_many_flaky_tests_are_a_failure(self, kept: Path, capsys: pytest.CaptureFixture[str]):
        row = self.row(*(f"test_{number}" for number in range(FLAKY_MOST + 1)))
        row.run_again(Row("unit"))
        assert summarize([row]) == 1
        assert f"more than {FLAKY_MOST} flaky tests" in capsys.readouterr().out

    def test_what_is_not_run_again_has_failed(self, capsys: pytest.CaptureFixture[str]):
        row = self.row("test_a", "test_b")
        row.run_again(Row("unit", passed=1))
        assert summarize([row]) == 1
        assert "1 of 2 were run again" in capsys.readouterr().out

    @pytest.mark.parametrize("code", [2, 124, -signal.SIGSEGV])
    def test_a_run_that_ended_early_fails(self, tmp_path: Path, code: int):
        """Also where a test had failed before: that it passes alone says nothing of the others."""
        report = tmp_path / "report.xml"
        report.write_text("<x><testcase classname='a' name='b'><failure/></testcase></x>")
        row = Row("unit")
        add_junit(row, report, code)
        testing._Run(tmp_path, [], shows_itself=True, records=False).once_more(row)
        assert (row.failed, row.failures[0]) == (2, "a::b")

    def test_cpp_tests_that_crash_fail(self, tmp_path: Path):
        """doctest prints its totals, and the case in which the signal came."""
        program = tmp_path / "hflush_cpp_tests"
        said = "failed: a case\ntest cases: 9 | 8 passed"
        program.write_text(f"#!/bin/sh\necho '{said}'\nkill -KILL $$\n")
        program.chmod(0o755)
        row = timed("cpp", partial(native.cpp_tests, directory=tmp_path))
        testing._Run(tmp_path, [], shows_itself=True, records=False).once_more(row)
        assert (row.failed, row.failures[0]) == (2, "a case")


def test_a_part_that_runs_nothing_fails():
    assert timed("sim", lambda row: None).failed == 1


def test_what_no_reader_has_is_not_measured_for_the_page(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sources, "digest", lambda commit=None: commit)
    ran: list[object] = []
    monkeypatch.setattr(benching, "stream", lambda command, env: ran.append(command) or 1)
    assert benching.bench(["crc"], quick=False, before=None, pytest_args=[]) == 1
    assert ran == []
    assert benching.bench(["crc"], quick=True, before=None, pytest_args=[]) == 1
    assert len(ran) == 1


def test_tests_that_interrupt_pass_where_the_shell_ignores_interrupts():
    """A shell ignores SIGINT in what it starts in the background."""
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/unit/test_cli.py", "-k", "test_tail_follows"],
        cwd=ROOT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE_S,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs CMake")
@pytest.mark.parametrize("has_compiler", [True, False])
def test_one_message_names_every_missing_package(tmp_path: Path, has_compiler: bool):
    places = [
        "/usr/include",
        f"/usr/include/{sysconfig.get_config_var('MULTIARCH')}",
        sysconfig.get_path("include"),
        *map(str, Path("/usr/include").glob("python3*")),
    ]
    settings = {
        "Python_EXECUTABLE": sys.executable,
        "CMAKE_IGNORE_PATH": ";".join(places),
    }
    configure = ["cmake", "-G", "Ninja", "-S", ROOT, "-B", tmp_path]
    result = subprocess.run(
        [*configure, *(f"-D{key}={settings[key]}" for key in settings)],
        env={**os.environ, **({} if has_compiler else {"CXX": "no-such-compiler"})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode != 0
    headers = "libprotozero-dev libcurl4-openssl-dev libssl-dev python3-dev"
    wanted = headers if has_compiler else f"g++ {headers}"
    assert f"apt-get install {wanted}\n" in result.stderr


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs CMake")
def test_other_systems_are_refused(tmp_path: Path):
    """Before a compiler says which header is missing."""
    configure = ["cmake", "-S", ROOT, "-B", tmp_path, "-DCMAKE_SYSTEM_NAME=Darwin"]
    result = subprocess.run(configure, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "hflush is for Linux, and this is Darwin" in result.stderr
