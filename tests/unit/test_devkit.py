"""The development command: what it leaves running, where its tests run, what a build asks for."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]

# Commands that start a process of their own, tell its number and last.
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
import signal, sys
from devkit import commands, console
command = ["sh", "-c", sys.argv[1], sys.argv[2]]
sys.exit(commands.guarded(lambda: {way} and 0))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_an_end_by_a_signal_is_the_end_of_what_was_started(
    way: str, number: signal.Signals, tmp_path: Path
):
    told = tmp_path / "process"
    code = PROGRAM.format(way=WAYS[way])
    process = subprocess.Popen(
        [sys.executable, "-c", code, LASTING, told],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools")},
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(told.exists, "the step runs")
        process.send_signal(number)
        assert process.wait(timeout=60) == 128 + number
    finally:
        process.kill()
        process.wait()
    lasting = Path("/proc", told.read_text().strip())
    wait_until(lambda: not lasting.exists(), "what the step started has ended")


def test_tests_that_interrupt_pass_where_the_shell_ignores_interrupts():
    """A shell ignores SIGINT in what it starts in the background."""
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/unit/test_cli.py", "-k", "test_tail_follows"],
        cwd=ROOT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        capture_output=True,
        text=True,
        timeout=100,
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
    result = subprocess.run(
        ["cmake", "-S", ROOT, "-B", tmp_path, *(f"-D{key}={settings[key]}" for key in settings)],
        env={**os.environ, **({} if has_compiler else {"CXX": "no-such-compiler"})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode != 0
    headers = "libprotozero-dev libcurl4-openssl-dev libssl-dev python3-dev"
    wanted = headers if has_compiler else f"g++ {headers}"
    assert f"apt-get install {wanted}\n" in result.stderr
