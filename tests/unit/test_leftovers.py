"""A test that fails leaves nothing to the next one: tests of tests, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.waiting import DEADLINE_S

TESTS = """
class Stream:
    def __init__(self):
        self.me = self  # only a collector finds it

    def __del__(self):
        raise RuntimeError("a stream was left open")

def test_that_fails():
    stream = Stream()
    try:
        raise KeyError("first")
    except KeyError as error:
        raise AssertionError("no") from error

def test_innocent():
    import gc
    gc.collect()
"""


def test_what_a_failed_test_leaves_is_in_its_own_report(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir=.", "-W", "error"]
    ended = subprocess.run(
        [*command, "-p", "support.leftovers"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(Path(__file__).parents[1]),
        },
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert "1 failed, 1 passed" in ended.stdout, ended.stdout
    assert "a stream was left open" in ended.stdout
