"""A job that is going to be killed: stages files, and dies before a call of its commit."""

from __future__ import annotations

import errno
import functools
import itertools
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import hflush
from hflush.s3 import S3FileSystem
from hflush.spark.commit import Committer, Identity, Job, Mode, StagedFile

CALLS: dict[type, tuple[str, ...]] = {
    hflush.FileSystem: (
        *("rename", "delete", "mkdirs", "create", "create_file", "open", "list_status"),
        *("list_files", "is_file", "exists", "_sync_entry"),
    ),
    hflush.FSDataOutputStream: ("write", "_publish"),
    S3FileSystem: ("complete_pending", "abort_pending"),
}
SIZE = 1000
FAILURE = "the store fails once"
RUN = Identity("nightly", 1)  # of a job whose store fails: it runs again
_ONE_AT_A_TIME = threading.RLock()


def paths_of(name: str, tasks: int = 3) -> list[str]:
    """Where the files of a job will be, one of each task."""
    return [f"k={number // 2}/{name}-{number}" for number in range(tasks)]


def content(path: str) -> bytes:
    return path.encode() * (SIZE // len(path) + 1)


def staged(
    committer: Committer, name: str, mode: Mode, tasks: int = 3, identity: Identity | None = None
) -> tuple[Job, list[StagedFile]]:
    """What the tasks of a job have done when it commits."""
    job = Job(f"job-{name}", mode, identity)
    committer.prepare(job)
    files = []
    for number, path in enumerate(paths_of(name, tasks)):
        attempt = committer.attempt(job, f"attempt-{number}")
        stream = attempt.create(path)
        stream.write(content(path))
        handle = attempt.close(stream)
        files.append(
            StagedFile(path, handle, 1, len(content(path)), hflush.crc.crc32c(content(path)))
        )
    return job, files


def counting(
    call: Callable[..., Any], calls: Iterator[int], deadly: int, victim: int = 0
) -> Callable[..., Any]:
    """The same call, but for the one before which the process dies; one at a time.

    `victim` dies with it: the JVM of the driver whose commit this is. A server may lose what it is
    asked for while its client dies (docs/spark.md, about MinIO): here it dies between two calls.
    """

    @functools.wraps(call)
    def counted(*arguments: Any, **named: Any) -> Any:
        with _ONE_AT_A_TIME:
            if next(calls) == deadly:
                if victim:
                    os.kill(victim, signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

    return counted


def failing(
    call: Callable[..., Any], calls: Iterator[int], chosen: int, *, after: bool
) -> Callable[..., Any]:
    """The same call, but for the one that fails: before it is made, or with its answer lost."""

    @functools.wraps(call)
    def counted(*arguments: Any, **named: Any) -> Any:
        if next(calls) != chosen:
            return call(*arguments, **named)
        if after:
            call(*arguments, **named)
        raise OSError(errno.EIO, FAILURE)

    return counted


@contextmanager
def through(wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Let each call of a store go through what `wrap` makes of it, for a block."""
    with ExitStack() as stack:
        for kind, names in CALLS.items():
            for name in names:
                stack.enter_context(patch.object(kind, name, wrap(getattr(kind, name))))
        yield


def struck(
    how: str, chosen: int, commit: Callable[[], object], abort: Callable[[], object] | None = None
) -> dict[str, Any]:
    """Commit while one call of the store, the `chosen` one, is the last or fails: see run().

    Returns how many calls there were, those of `abort` after a failure included, and whether the
    commit failed.
    """
    calls = itertools.count(1)
    if how == "kill":
        wrap = functools.partial(counting, calls=calls, deadly=chosen)
    else:
        wrap = functools.partial(failing, calls=calls, chosen=chosen, after=how == "fail-after")
    failed = False
    with through(wrap):
        try:
            commit()
        except OSError as failure:
            if FAILURE not in str(failure):
                raise
            failed = True
            if abort is not None:
                abort()
    return {"calls": next(calls) - 1, "failed": failed}


def run(
    url: str, conf: Any, mode: str, name: str, how: str, chosen: int, tasks: int
) -> dict[str, Any]:
    """Commit a job, at one of whose calls of the store something happens.

    Before the call it dies (`how` is ``kill``); or the call fails, before it has been made
    (``fail-before``) or after (``fail-after``): then the job is aborted, as Spark's driver does.
    Returns how many calls there were, and whether the commit failed.
    """
    committer = Committer(url, conf)
    job, files = staged(committer, name, Mode(mode), tasks, RUN if how != "kill" else None)
    return struck(
        how,
        chosen,
        lambda: committer.commit(job, files),
        lambda: committer.abort(job, files, after_commit=True),
    )


def main() -> None:
    """Run a job in a fork for each line of standard input; answer ``null`` if it died."""
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writer, json.dumps(run(*json.loads(line))).encode())
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.close(writer)
        with open(reader, "rb") as pipe:
            said = pipe.read().decode()
        _, status = os.waitpid(child, 0)
        ends = {0: said, -signal.SIGKILL: "null"}
        print(ends.get(os.waitstatus_to_exitcode(status), '"broken"'), flush=True)


if __name__ == "__main__":
    main()
