"""Running steps: what runs, for how long, and the tail of its log when it fails.

A command is a sequence of words; other objects, such as paths, are made strings.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TypeVar

from devkit.paths import LOGS, ROOT

TAIL_LINES = 40
TICK_S = 0.2
QUIET_TICK_S = 30.0  # between lines, without a terminal to redraw
GRACE_S = 10.0
OUT_OF_TIME = 124  # an exit code

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

T = TypeVar("T")
R = TypeVar("R")

_called_off = threading.Event()  # steps that threads wait for are to end
_starting = threading.Event()  # the main thread starts something: signals wait until it is known
_waiting: list[int] = []  # such signals


class Ended(KeyboardInterrupt):
    """A signal asked for the end. Code that waits for a step ends the step on its way out."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def end_on_signals() -> None:
    """Have the signals that end a program raise Ended, once, so that nothing is left running."""

    def end(number: int, _frame: object) -> None:
        # The way out is not disturbed. SIG_IGN would be inherited by a step that starts even now.
        for each in _ENDING:
            signal.signal(each, lambda *_: None)
        if not _starting.is_set():
            raise Ended(number)
        _waiting.append(number)

    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup and shells want it
            signal.signal(number, end)


class StepFailed(Exception):
    """A step ended badly. The reason has been printed already."""

    def __init__(self, title: str, code: int, output: str) -> None:
        super().__init__(f"{title}: exit code {code}")
        self.code = code
        self.output = output


def say(text: str = "") -> None:
    print(text, flush=True)


def heading(text: str) -> None:
    say(f"\n\033[1m── {text}\033[0m" if sys.stdout.isatty() else f"\n== {text}")


def step(
    title: str,
    command: Sequence[object],
    *,
    log: str,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> str:
    """Run a quiet command and return what it printed; its log is build/log/<log>.log.

    Raises StepFailed.
    """
    path, started = LOGS / f"{log}.log", time.monotonic()
    code, text = _logged(title, command, path, env, timeout_s)
    if code:
        say(f"   {title}: FAILED after {elapsed(started)}; the whole log is {_shown(path)}")
        say(_indented(text.splitlines()[-TAIL_LINES:]))
        raise StepFailed(title, code, text)
    say(f"   {title}: {elapsed(started)}")
    return text


def beside(command: Sequence[object], *, log: str) -> subprocess.Popen[bytes]:
    """Start a command that runs beside the steps; it ends with us.

    The step that needs its result finds out whether it succeeded.
    """
    path = LOGS / f"{log}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as sink:
        return _start(command, None, stdout=sink)


def join(title: str, process: subprocess.Popen[bytes], *, log: str) -> None:
    """Wait for what runs beside the steps."""
    started = time.monotonic()
    _wait_with_ticks(process, title, LOGS / f"{log}.log", started, None)
    say(f"   {title}: {elapsed(started)}")


def side_by_side(
    work: Callable[[T], R], items: Iterable[T], *, at_a_time: int | None = None
) -> list[R]:
    """Do work that consists of steps for each item, in this order, some at a time.

    As many as there are processors, unless `at_a_time` says. An interruption ends it all.
    """
    try:
        with ThreadPoolExecutor(at_a_time or os.cpu_count()) as pool:
            try:
                with _signals_wait():
                    results = pool.map(work, items)
                return list(results)
            except BaseException:
                _called_off.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        _called_off.clear()


def stream(
    command: Sequence[object],
    *,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> int:
    """Run a command that shows its own progress, and return its exit code (or OUT_OF_TIME)."""
    process = _start(command, env)
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        say(f"   out of time after {timeout_s:.0f} s")
        _end(process)
        return OUT_OF_TIME
    except KeyboardInterrupt:
        _end(process)
        raise


def transcript(
    title: str,
    command: Sequence[object],
    *,
    log: str,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> int:
    """Run a command beside others, show all that it printed when it has ended; as stream() else."""
    code, text = _logged(title, command, LOGS / f"{log}.log", env, timeout_s)
    say(text)
    if code == OUT_OF_TIME:
        say(f"   {title}: out of time after {timeout_s:.0f} s")
    return code


def _logged(
    title: str,
    command: Sequence[object],
    path: Path,
    env: Mapping[str, str] | None,
    timeout_s: float | None,
) -> tuple[int, str]:
    """Run a command whose output goes to a log; return its exit code and what it printed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with path.open("wb") as sink:
        process = _start(command, env, stdout=sink)
        code = _wait_with_ticks(process, title, path, started, timeout_s)
    return code, path.read_text(errors="replace")


def elapsed(started: float) -> str:
    seconds = time.monotonic() - started
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def _start(
    command: Sequence[object], env: Mapping[str, str] | None, stdout: IO[bytes] | None = None
) -> subprocess.Popen[bytes]:
    with _signals_wait():
        # A session of its own, so that the end of a step is the end of all it started.
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT if stdout else None,
            start_new_session=True,
        )
        atexit.register(_end, process)  # what nothing waits for ends with us, too
    _be_nice(process, os.nice(0))
    return process


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """Have a signal raise Ended at the end of the block, when what was started is known."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals raise nothing here
        return
    _starting.set()
    try:
        yield
    finally:
        _starting.clear()
        if _waiting:
            raise Ended(_waiting[0])


def _be_nice(process: subprocess.Popen[bytes], niceness: int) -> None:
    """Where sessions compete, and not processes, a new one does not inherit the niceness."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{process.pid}/autogroup").write_text(str(niceness))


def _wait_with_ticks(
    process: subprocess.Popen[bytes],
    title: str,
    path: Path,
    started: float,
    timeout_s: float | None,
) -> int:
    terminal = sys.stdout.isatty()
    next_line_at = started + QUIET_TICK_S
    try:
        while True:
            try:
                return process.wait(TICK_S)
            except subprocess.TimeoutExpired:
                now = time.monotonic()
            if terminal:
                _redraw(f"   {title}: {elapsed(started)}  {_last_line(path)}")
            elif now >= next_line_at:
                say(f"   {title}: {elapsed(started)} so far; {_last_line(path)}")
                next_line_at = now + QUIET_TICK_S
            if _called_off.is_set():
                _end(process)
                return 130
            if timeout_s is not None and now - started > timeout_s:
                _end(process)
                return OUT_OF_TIME
    except KeyboardInterrupt:
        _end(process)
        raise
    finally:
        if terminal:
            _redraw("")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a step and what it started, unless it has ended: politely, then not."""
    if process.returncode is not None:
        return  # its number may be another's by now
    for sign, grace_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, sign)
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            pass
        return


def _redraw(text: str) -> None:
    width = os.get_terminal_size().columns - 1
    sys.stdout.write("\r\033[K" + text[:width])
    sys.stdout.flush()


def _last_line(path: Path) -> str:
    with path.open("rb") as source:
        source.seek(max(0, path.stat().st_size - 400))
        lines = source.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")[:120]


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"      {line}" for line in lines)


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT))
