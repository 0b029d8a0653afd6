"""Interrupting the main thread while it waits, as Ctrl-C does."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from support.waiting import Task, wait_until


def scheduling(native_id: int) -> tuple[str, str]:
    """Return the kernel's state letter of a thread of this process, and its run times so far."""
    thread = Path(f"/proc/self/task/{native_id}")
    state = thread.joinpath("stat").read_text().rpartition(")")[2].split()[0]
    return state, thread.joinpath("schedstat").read_text()


def waits_in_kernel(native_id: int) -> bool:
    """Whether the thread sleeps, and has not run between two looks."""
    first = scheduling(native_id)
    return first[0] == "S" and first == scheduling(native_id)


def interrupt_main_thread_when_it_waits() -> Task:
    """Send SIGINT to this process's main thread once it waits in the kernel."""

    def watch() -> None:
        wait_until(lambda: waits_in_kernel(os.getpid()), "the main thread waits in the kernel")
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)

    return Task(watch)
