"""A JVM with Hadoop's jars, reached through py4j."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from minidfs.jars import jars

if TYPE_CHECKING:
    from typing_extensions import Self

LOG_FORMAT = "%d{HH:mm:ss,SSS} %p %c{1} [%t]: %m%n"
# Soon up, rather than fast once warm: a benchmark gives others.
QUICK = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
STOP_TIMEOUT_S = 30


class Jvm:
    """One JVM. It ends with `stop`, with a `with` block, or with this process, however that ends.

    `java` is py4j's view of its packages: `jvm.java.org.apache.hadoop.fs.Path("/")`. The daemons'
    log is `log`. Not to be used in a forked child.
    """

    def __init__(self, options: Sequence[str] = QUICK, *, place: Path | None = None) -> None:
        """Start one; its files are below `place`, or where temporary files are."""
        self.directory = Path(tempfile.mkdtemp(prefix="minidfs-", dir=place))
        self.log = self.directory / "log"
        try:
            self._launch(options)
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise

    def _launch(self, options: Sequence[str]) -> None:
        classpath = [self._prepare(), *jars()]
        with (self.directory / "err").open("w") as errors, _nothing_preloaded():
            (port, token), self.process = _launched(
                launch_gateway(
                    classpath=os.pathsep.join(map(str, classpath)),
                    javaopts=[*options, *self._properties()],
                    java_path=None,  # JAVA_HOME, or PATH
                    die_on_exit=True,
                    redirect_stderr=errors,
                    enable_auth=True,
                    return_proc=True,
                )
            )
        self._parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
        self._gateway = JavaGateway(gateway_parameters=self._parameters)
        self.java: Any = self._gateway.jvm
        self._unused: list[str] = []  # objects to be reported to it later
        self._clients = [self._gateway._gateway_client]

    @contextmanager
    def one_thread(self) -> Iterator[Any]:
        """What `java` is, on one thread of the JVM: for Java code that keeps state by thread.

        Calls of `java` may come on any of several: a Python thread that collects garbage takes the
        connection that another one used a moment ago.
        """
        gateway = JavaGateway(gateway_parameters=self._parameters)
        self._clients.append(gateway._gateway_client)
        try:
            yield gateway.jvm
        finally:
            gateway.close()

    def _prepare(self) -> Path:
        """Make the directory that is first on the classpath.

        Its empty web applications keep each daemon from searching the largest jar for them, which
        takes longer than all the rest of its start.
        """
        web = self.directory / "web"
        for name in ("hdfs", "datanode", "secondary", "journal", "static"):
            (web / "webapps" / name).mkdir(parents=True)
        (web / "log4j.properties").write_text(
            "log4j.rootLogger=INFO,file\n"
            "log4j.appender.file=org.apache.log4j.FileAppender\n"
            f"log4j.appender.file.File={self.log}\n"
            "log4j.appender.file.layout=org.apache.log4j.PatternLayout\n"
            f"log4j.appender.file.layout.ConversionPattern={LOG_FORMAT}\n"
        )
        return web

    def _properties(self) -> list[str]:
        return [
            "-Djava.net.preferIPv4Stack=true",
            f"-Dhadoop.log.dir={self.directory}",
            f"-Dtest.build.data={self.directory}/data",
            f"-Djava.io.tmpdir={self.directory}",
        ]

    def strings(self, *values: str) -> Any:
        """A String[]: what Java's varargs are."""
        return self.array(self.java.java.lang.String, *values)

    def array(self, of: Any, *values: Any) -> Any:
        filled = self._gateway.new_array(of, len(values))
        for position, value in enumerate(values):
            filled[position] = value
        return filled

    def configuration(self, settings: dict[str, str]) -> Any:
        """Hadoop's Configuration with HDFS's defaults and these settings."""
        configuration = self.java.org.apache.hadoop.hdfs.HdfsConfiguration()
        for key, value in settings.items():
            configuration.set(key, value)
        return configuration

    def pause(self) -> None:
        """Stop all its threads where they are: sockets stay open, without answers.

        Until it goes on, py4j does not report to it the objects that Python has released.
        """
        self._gateway._gateway_client.garbage_collect_object = self._unused.append
        self.process.send_signal(signal.SIGSTOP)
        while not self._is_paused():
            time.sleep(0.001)

    def _is_paused(self) -> bool:
        tasks = Path(f"/proc/{self.process.pid}/task")
        try:
            states = [task.joinpath("stat").read_text() for task in tasks.iterdir()]
        except (FileNotFoundError, ProcessLookupError):  # a thread has ended meanwhile
            return False
        return all(state.rpartition(")")[2].split()[0] == "T" for state in states)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        client = self._gateway._gateway_client
        client.__dict__.pop("garbage_collect_object", None)
        while self._unused:
            client.garbage_collect_object(self._unused.pop())

    def stop(self) -> None:
        """End it and remove its files.

        Python may release objects of it later. py4j would log a traceback of each report that
        fails, and CPython 3.11 cannot format one in the middle of a compilation.
        """
        try:
            self._gateway.shutdown()
        finally:
            for client in self._clients:
                client.is_connected = False
        self.process.stdin.close()  # what the JVM waits for
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


@contextmanager
def _nothing_preloaded() -> Iterator[None]:
    """Hide libraries that this process preloads, such as a sanitizer, from the JVM."""
    preloaded = os.environ.pop("LD_PRELOAD", None)
    try:
        yield
    finally:
        if preloaded is not None:
            os.environ["LD_PRELOAD"] = preloaded


def _launched(result: Any) -> tuple[tuple[int, str], Any]:
    """Sort what launch_gateway returns: ((port, token), process) or (port, token, process)."""
    *connection, process = result
    port, token = connection
    return (port, token), process
