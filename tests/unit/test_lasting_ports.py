"""Ports of daemons that tests stop and start again."""

from __future__ import annotations

import subprocess
import sys

from minidfs.ports import lasting_ports
from support.snippets import ROOT


def test_each_is_given_once() -> None:
    """Also to another process, while this one lives: parts of a test run are side by side."""
    code = "from minidfs.ports import lasting_ports; print(*lasting_ports(100))"
    run = [sys.executable, "-c", code]
    theirs = subprocess.run(run, cwd=ROOT / "tools", check=True, capture_output=True, text=True)
    ports = {*lasting_ports(50), *lasting_ports(50), *map(int, theirs.stdout.split())}
    assert len(ports) == 200
