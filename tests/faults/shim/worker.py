"""A second pytest below the fault shim, for the tests that support/below_shim.py sends there.

The shim must be loaded before the process starts, and a test that goes wrong below it may hang or
kill its process. So the parent's pytest stays outside: it starts one worker, sends it test ids over
a pipe, and reads an outcome for each. A worker that dies fails its test; the next gets a new one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from typing import IO, Any

import pytest
from faults.shim.library import shim_library
from support.waiting import DEADLINE_S

PIPES = "HFLUSH_FAULT_WORKER"  # in a worker's environment: the descriptors of its pipes
WORKER_TIMEOUT_S = 3 * DEADLINE_S  # of a test


def in_worker() -> bool:
    return PIPES in os.environ


class Relay:
    """The parent's side."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: IO[str]
        self._replies: IO[str]
        self._output: IO[bytes]
        self._directory: tempfile.TemporaryDirectory[str]

    def run(self, nodeid: str) -> None:
        """Run one test in the worker; raise its failure or skip here."""
        if self._process is None:
            self._start()
        reply = ""
        try:
            self._requests.write(nodeid + "\n")
            self._requests.flush()
            reply = self._replies.readline()
        except BrokenPipeError:
            pass
        finally:
            if not reply:
                text = self.stop(signal.SIGABRT)  # faulthandler says where its threads are
        if not reply:
            pytest.fail(f"the worker below the fault shim died:\n{text[-8000:]}", pytrace=False)
        outcome, text = json.loads(reply)
        if outcome == "failed":
            pytest.fail(text, pytrace=False)
        if outcome == "skipped":
            pytest.skip(text)

    def stop(self, signal_number: int = signal.SIGTERM) -> str:
        """End the worker, if there is one; return what it printed."""
        if self._process is None:
            return ""
        self._process.send_signal(signal_number)
        self._process.wait()
        self._process = None
        self._requests.close()
        self._replies.close()
        self._directory.cleanup()
        with self._output as output:
            output.seek(0)
            return output.read().decode(errors="replace")

    def _start(self) -> None:
        requests_there, requests_here = os.pipe()
        replies_here, replies_there = os.pipe()
        self._output = tempfile.TemporaryFile()
        self._directory = tempfile.TemporaryDirectory(prefix="hflush-faults-")
        options = [f"--rootdir={self._config.rootpath}", "-p", "no:cacheprovider", "--capture=fd"]
        if self._config.inipath is not None:
            options += ["-c", str(self._config.inipath)]
        if self._config.pluginmanager.hasplugin("timeout"):
            options += [f"--timeout={WORKER_TIMEOUT_S}"]
        session: Any = self._config.pluginmanager.get_plugin("session")
        files = {str(item.path) for item in session.items if item.get_closest_marker("shim")}
        self._process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", "pytest", *options, *sorted(files)],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            pass_fds=(requests_there, replies_there),
            env={
                **os.environ,
                "LD_PRELOAD": os.fspath(shim_library()),
                "PYTEST_DEBUG_TEMPROOT": self._directory.name,
                PIPES: f"{requests_there},{replies_there}",
            },
        )
        os.close(requests_there)
        os.close(replies_there)
        self._requests = os.fdopen(requests_here, "w")
        self._replies = os.fdopen(replies_here, "r")


class Worker:
    """The worker's side: a pytest plugin that runs tests as they are asked for."""

    def __init__(self) -> None:
        self._reports: list[pytest.TestReport] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Any:
        items = {item.nodeid: item for item in session.items}
        requests_fd, replies_fd = (int(number) for number in os.environ[PIPES].split(","))
        with os.fdopen(requests_fd) as requests, os.fdopen(replies_fd, "w") as replies:
            for line in requests:
                self._reports.clear()
                item = items[line.rstrip("\n")]
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                replies.write(json.dumps(self._outcome()) + "\n")
                replies.flush()
        os._exit(0)  # what a session does at its end is the parent's

    def _outcome(self) -> tuple[str, str]:
        for report in self._reports:
            if report.failed:
                sections = [f"--- {title}\n{content}" for title, content in report.sections]
                return "failed", "\n".join([report.longreprtext, *sections])
        for report in self._reports:
            if report.skipped:
                return "skipped", report.longrepr[2] if isinstance(
                    report.longrepr, tuple
                ) else report.longreprtext
        return "passed", ""
