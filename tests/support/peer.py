"""A second client of a store: another process, with its own FileSystem, that runs snippets.

    peer.run("read(path)", path=p)                  # an expression: its value
    peer.run("out = fs.create(path); result = 1", path=p)   # statements: the value of `result`
    peer.begin("wait_for_it()"); …; peer.finish()   # the same in two steps

A snippet sees `hflush`, `fs` (its own instance), `read(path)` and the values passed; it may import
what a test may. What one snippet assigns, the next one sees. An exception there is raised here.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import subprocess
import sys
import traceback
from typing import IO, Any

Request = tuple[str, dict[str, Any]]
Reply = tuple[bool, Any]


class Peer:
    """The near end. Not thread-safe: owned by one test at a time."""

    def __init__(self, url: str, conf: dict[str, Any], **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        )
        self.run("connect(url, conf)", url=url, conf=conf)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def run(self, snippet: str, **values: Any) -> Any:
        """Run a snippet there and return its value, or raise its exception."""
        self.begin(snippet, **values)
        return self.finish()

    def begin(self, snippet: str, **values: Any) -> None:
        """Start a snippet there without waiting for its end."""
        assert self._process.stdin is not None
        pickle.dump((snippet, values), self._process.stdin)
        self._process.stdin.flush()

    def finish(self) -> Any:
        """Wait for the snippet that `begin` started."""
        assert self._process.stdout is not None
        succeeded, value = pickle.load(self._process.stdout)
        if not succeeded:
            raise value
        return value

    def kill(self, signal_number: int = signal.SIGKILL) -> int:
        """End the process at once, as a crash would; return its exit status."""
        self._process.send_signal(signal_number)
        status = self._process.wait()
        self._close_pipes()
        return status

    def close(self) -> int:
        """Let the process end by itself; return its exit status."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        status = self._process.wait()
        self._close_pipes()
        return status

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def evaluate(snippet: str, names: dict[str, Any]) -> Any:
    """Evaluate an expression, or execute statements and return what they assigned to `result`."""
    try:
        code = compile(snippet, "<snippet>", "eval")
    except SyntaxError:
        names.pop("result", None)
        exec(compile(snippet, "<snippet>", "exec"), names)
        return names.get("result")
    return eval(code, names)


def transportable(error: Exception) -> Exception:
    """Return the error itself if it survives pickling, else a RuntimeError that quotes it."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
    return error


def client_names() -> dict[str, Any]:
    """Return what snippets of one client see."""
    import hflush

    def connect(url: str, conf: dict[str, Any]) -> None:
        names["fs"] = hflush.FileSystem.new_instance(url, conf)

    def read(path: str) -> bytes:
        with names["fs"].open(path) as reader:
            return bytes(reader.read())

    names: dict[str, Any] = {"hflush": hflush, "connect": connect, "read": read}
    return names


class ThreadPeer(Peer):
    """A second client in a thread of this process, for a store that no other one sees.

    While it runs a snippet the interpreter switches threads often: parties of a barrier take turns.
    """

    alive = True
    SWITCH_S = 1e-5

    def __init__(self, url: str, conf: dict[str, Any]) -> None:
        self._names = client_names()
        self._usual_switch_s = sys.getswitchinterval()
        self.run("connect(url, conf)", url=url, conf=conf)

    def begin(self, snippet: str, **values: Any) -> None:
        from support.waiting import Task

        self._names.update(values)
        sys.setswitchinterval(self.SWITCH_S)
        self._task = Task(evaluate, snippet, self._names)

    def finish(self) -> Any:
        try:
            return self._task.result()
        finally:
            sys.setswitchinterval(self._usual_switch_s)

    def kill(self, signal_number: int = signal.SIGKILL) -> int:
        """End the snippet by an exception: it would go on beside all tests that follow."""
        from support.waiting import DEADLINE_S

        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self._task.ident or 0), ctypes.py_object(SystemExit)
        )
        self._task.join(DEADLINE_S)
        sys.setswitchinterval(self._usual_switch_s)
        return -signal_number

    def close(self) -> int:
        return 0


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """The far end: answer requests until their pipe closes."""
    names = client_names()
    while True:
        try:
            snippet, values = pickle.load(requests)
        except EOFError:
            return
        names.update(values)
        try:
            reply: Reply = (True, evaluate(snippet, names))
            payload = pickle.dumps(reply)
        except Exception as error:
            payload = pickle.dumps((False, transportable(error)))
        replies.write(payload)
        replies.flush()


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "wb") as replies_pipe:
        os.dup2(2, 1)  # what a snippet prints does not disturb the replies
        serve(sys.stdin.buffer, replies_pipe)
