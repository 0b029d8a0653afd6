"""A Spark of processes of its own: a master, and a worker on each of several host names.

They come from pyspark's own jars. All addresses below 127 are this machine's, so that each worker
can be a host of its own: Spark starts a speculative copy on another host only.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
from support.waiting import DEADLINE_S, wait_until

HOME = Path(pyspark.__file__).parent
MASTER = "127.0.0.1"
_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"


@contextmanager
def cluster(directory: Path, hosts: Sequence[str]) -> Iterator[str]:
    """Yield the URL of a master with a worker of one core on each host; logs are in `directory`."""
    with ExitStack() as stack:
        log = directory / "master.log"
        stack.enter_context(_running("master.Master", MASTER, log))
        wait_until(lambda: _STARTED.search(log.read_text()) is not None, "a master", 4 * DEADLINE_S)
        found = _STARTED.search(log.read_text())
        assert found is not None
        logs = [directory / f"{host}.log" for host in hosts]
        for host, log in zip(hosts, logs, strict=True):
            more = ["--cores", "1", "--memory", "1g", "--work-dir", str(directory / host)]
            stack.enter_context(_running("worker.Worker", host, log, *more, found[1]))
        for log in logs:
            wait_until(lambda log=log: _REGISTERED in log.read_text(), "a worker", 4 * DEADLINE_S)
        yield found[1]


@contextmanager
def _running(name: str, host: str, log: Path, *arguments: str) -> Iterator[None]:
    """A process of Spark's for a block."""
    environment = {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": host,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    command = [HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}"]
    ports = ["--port", "0", "--webui-port", "0"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--host", host, *ports, *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(DEADLINE_S)
