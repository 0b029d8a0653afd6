"""A process that ends while threads of it wait for a server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from support.c_library import c_library
from support.waiting import DEADLINE_S

# At exit the interpreter is gone for a second before the process is: exit handlers of C come later
# than Python's end. The threads look for signals meanwhile, which takes an interpreter.
PROGRAM = """
import ctypes, sys, threading, hflush
fs = hflush.FileSystem.new_instance(sys.argv[1], {})
for _ in range(8):
    threading.Thread(target=fs.exists, args=("/file",), daemon=True).start()
sys.stdin.readline()
libc = ctypes.CDLL(None)
libc.on_exit(ctypes.cast(libc.sleep, ctypes.c_void_p), None)  # is given the exit code: one second
sys.exit(1)
"""


def test_threads_that_wait_outlive_the_interpreter() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE_S)
        command = [sys.executable, "-c", PROGRAM, f"hdfs://127.0.0.1:{server.getsockname()[1]}"]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(DEADLINE_S)
                assert connection.recv(1)  # the call is sent, and not answered
                process.communicate(b"\n", timeout=DEADLINE_S)
            assert process.returncode == 1


IN_A_THREAD = "main_in_a_thread.c"
LATE = """
import sys, hflush
fs = hflush.FileSystem.new_instance(sys.argv[1], {"ipc.client.connect.max.retries": "1"})
class Late:
    def __del__(self, fs=fs):
        fs.exists("/file")
late = Late()
"""


def test_a_call_while_another_thread_than_the_first_ends_the_interpreter() -> None:
    """As where a host has started Python in a thread of its own. The call waits, and ends."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]  # nobody listens there any more
    run = subprocess.run(
        [sys.executable, "-c", LATE, f"hdfs://127.0.0.1:{port}"],
        env={**os.environ, "LD_PRELOAD": str(c_library(Path(__file__).with_name(IN_A_THREAD)))},
        timeout=DEADLINE_S,
        check=False,
    )
    assert run.returncode == 0
