"""A process that ends while threads of it wait for a server."""

from __future__ import annotations

import socket
import subprocess
import sys

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
