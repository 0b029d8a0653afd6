"""Interrupting the main thread while it waits, as Ctrl-C does."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from support.waiting import DEADLINE_S, Task, wait_until


def scheduling(native_id: int) -> tuple[str, str]:
    """Return the kernel's state letter of a thread of this process, and its run times so far."""
    thread = Path(f"/proc/self/task/{native_id}")
    state = thread.joinpath("stat").read_text().rpartition(")")[2].split()[0]
    return state, thread.joinpath("schedstat").read_text()


def waits_in_kernel(native_id: int) -> bool:
    """Whether the thread sleeps, and has not run between two looks."""
    first = scheduling(native_id)
    return first[0] == "S" and first == scheduling(native_id)


def interrupt_main_thread() -> Task:
    """Send SIGINT to this process's main thread once it waits."""

    def watch() -> None:
        wait_until(lambda: waits_in_kernel(os.getpid()), "the main thread waits in the kernel")
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)

    return Task(watch)


def interrupted(call: Callable[[], object]) -> None:
    """Make a call in the main thread and interrupt it while it waits: expect KeyboardInterrupt."""
    about_to_call = threading.Event()

    def interrupt() -> None:
        assert about_to_call.wait(DEADLINE_S)
        interrupt_main_thread().result()

    interrupting = Task(interrupt)
    try:
        about_to_call.set()
        call()
    finally:
        interrupting.result()
