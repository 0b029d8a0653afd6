"""Servers that somebody starts by hand: what they say, and when they end."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path


def clean_up_when_terminated() -> None:
    """Make SIGTERM an exit, so that the files of `with` blocks go, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def until_stdin_closes(url: str, conf: Mapping[str, str], log: Path) -> int:
    """Print the URL, and what a client's configuration needs beside it; return the exit code."""
    print(url, flush=True)
    if conf:
        print(json.dumps(conf), flush=True)
    print(f"log: {log}; ends when stdin closes", file=sys.stderr, flush=True)
    try:
        sys.stdin.read()
    except KeyboardInterrupt:
        return 130
    return 0
