"""A program that answers each line of its stdin with a line."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def answering(program: Path, *arguments: str) -> Iterator[Callable[[str], str]]:
    """Run it; a function that says a line to it and returns the answer, without the line's end."""
    with subprocess.Popen(
        [program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def say(line: str) -> str:
            stdin.write(line + "\n")
            return stdout.readline().strip()

        yield say
