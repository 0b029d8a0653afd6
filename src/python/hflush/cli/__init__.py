"""The command ``hflush``: write, read and look after files of any store.

Exit codes: 0, 1 for a failure (``hflush: <operation>: <path>: <reason>`` on standard error), 2 for
wrong usage, 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import signal
import sys
import threading
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from .. import paths, transfer
from .._version import __version__
from ..capabilities import ABORTABLE
from ..configuration import Configuration
from ..errors import InvalidPathError, unsupported, without_passwords
from ..filesystem import FileSystem
from ..globbing import expand_braces
from ..options import Rename
from . import checkpoints
from .arguments import key_value, seconds
from .output import STANDARD_OUTPUT, complain, emit, flush, mode, owners, say, time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..status import FileStatus, LeaseRecovery

__all__ = ["main"]

_COPY_BYTES = 1 << 20
_NS_PER_S = 1_000_000_000
_FOLLOW_INTERVAL_S = 0.2
_STANDARD_INPUT = "standard input"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process unless given.
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as ended:  # argparse has said why
        return int(ended.code or 0)
    try:
        with _interrupted_by(signal.SIGHUP, signal.SIGTERM):
            conf = Configuration.of(dict(arguments.conf))
            code = arguments.run(arguments, conf) or 0
            flush()
    except KeyboardInterrupt as interrupt:
        _complain(getattr(interrupt, "__notes__", ()))  # of what it has left
        (number,) = interrupt.args or (signal.SIGINT,)
        return 128 + int(number)
    except (OSError, ValueError, ImportError) as failure:
        if isinstance(failure, BrokenPipeError) and failure.filename == STANDARD_OUTPUT:
            return 1  # the reader has seen enough
        given = getattr(arguments, "path", "")
        _report(arguments, failure, given if isinstance(given, str) else ", ".join(given))
        return 1
    return int(code)


@contextlib.contextmanager
def _interrupted_by(*numbers: int) -> Iterator[None]:
    """Let signals that would end the process at once interrupt it as Ctrl-C does, the first one."""
    is_main = threading.current_thread() is threading.main_thread()  # others cannot set handlers
    taken = [one for one in numbers if is_main and signal.getsignal(one) is signal.SIG_DFL]

    def set_all(handler: Any) -> None:
        for one in taken:
            signal.signal(one, handler)

    def interrupt(number: int, _frame: object) -> None:
        set_all(signal.SIG_IGN)  # timeout(1) sends two
        raise KeyboardInterrupt(number)

    try:
        set_all(interrupt)
        yield
    finally:
        set_all(signal.SIG_DFL)


def _report(arguments: argparse.Namespace, failure: Exception, path: str) -> None:
    """Write the line about a failure, and its notes; `path` is for one that names none."""
    named = getattr(failure, "filename", None)
    if named is None:
        named = path
    reason = getattr(failure, "strerror", None) or str(failure)
    line = f"hflush: {arguments.operation}: {named}: {reason}"
    _complain((line, *getattr(failure, "__notes__", ())))


def _complain(lines: Iterable[str]) -> None:
    for said in lines:
        complain(without_passwords(said))


def _each(
    arguments: argparse.Namespace, paths: Iterable[str], act: Callable[[str], int | None]
) -> int:
    """Do it to every path, also after one that fails, which is reported; return the exit code."""
    code = 0
    for path in paths:
        try:
            code = act(path) or code
        except (OSError, ValueError) as failure:  # noqa: PERF203
            if getattr(failure, "filename", None) == STANDARD_OUTPUT:
                raise
            _report(arguments, failure, path)
            code = 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hflush", description="Files of local and Hadoop stores.")
    parser.add_argument(
        "-D",
        dest="conf",
        action="append",
        default=[],
        type=key_value,
        metavar="key=value",
        help="set a Hadoop key",
    )
    parser.add_argument("--version", action="version", version=f"hflush {__version__}")
    operations = parser.add_subparsers(dest="operation", required=True, metavar="operation")

    def operation(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        sub = operations.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        return sub

    put = operation("put", _put, "Write a file from a local file, or from standard input (-).")
    put.add_argument("source", help="a local file, or - for standard input")
    put.add_argument("path", help="where to; into a directory if it ends with /")
    put.add_argument("--sync", action="store_true", help="sync it to disk before it is closed")
    put.add_argument(
        "--atomic", action="store_true", help="publish it whole and on disk, or not at all"
    )
    put.add_argument(
        "--overwrite",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="replace a file that is there, unless --no-overwrite is said",
    )
    cat = operation("cat", _cat, "Write files to standard output.")
    cat.add_argument("path", nargs="+")
    ls = operation("ls", _ls, "List a directory or what matches a pattern.")
    ls.add_argument("path")
    ls.add_argument("-r", "--recursive", action="store_true", help="list all files below")
    tail = operation("tail", _tail, "Write the last kilobyte of a file to standard output.")
    tail.add_argument("path")
    tail.add_argument("-f", "--follow", action="store_true", help="and what is appended later")
    stat = operation("stat", _stat, "Show what is known about a path.")
    stat.add_argument("path")
    mv = operation("mv", _mv, "Move a file or a directory; nothing is replaced.")
    mv.add_argument("path")
    mv.add_argument("target", help="its new name, or a directory to move it into")
    rm = operation(
        "rm",
        _rm,
        "Remove files and links, and directories with -r. A path that is not there is a pattern.",
    )
    rm.add_argument("path", nargs="+")
    rm.add_argument("-r", "--recursive", action="store_true", help="with everything in them")
    rm.add_argument(
        "-f",
        "--force",
        action="store_true",
        help="ignore missing ones, and patterns that match nothing",
    )
    rm.add_argument(
        "--skip-trash",
        action="store_true",
        help="remove them also where fs.trash.interval keeps them in the trash for a time",
    )
    mkdir = operation("mkdir", _mkdir, "Make directories and their missing parents.")
    mkdir.add_argument("path", nargs="+")
    checksum = operation("checksum", _checksum, "Show the checksum of a file's content.")
    checksum.add_argument("path")
    _add_care(operation)
    return parser


def _add_care(operation: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the operations that look after what writers have left, and measure."""
    lease = operation("recover-lease", _recover_lease, "Close a file whose writer is gone.")
    lease.add_argument("path")
    lease.add_argument(
        "--wait",
        type=seconds,
        metavar="time",
        default="1m",
        help="for how long to wait until the file is closed, as 30s or 10m (default: %(default)s; "
        "0: not at all); one that stays open is a failure",
    )
    uploads = operation(
        "uploads",
        _uploads,
        "List the multipart uploads below a path; on local files and HDFS those that were begun "
        "with this path as the base, and none of other bases below it.",
    )
    uploads.add_argument("path")
    uploads.add_argument("--abort", action="store_true", help="abort them")
    uploads.add_argument(
        "--older-than",
        type=seconds,
        metavar="time",
        help="only older ones, as 1d, 12h or 30m (default: all); s3 needs it to abort",
    )
    vacuum = operation(
        "vacuum", _vacuum, "Finish or clean up what killed Spark jobs have left below a path."
    )
    vacuum.add_argument("path")
    vacuum.add_argument(
        "--older-than",
        type=seconds,
        metavar="time",
        default="7d",
        help="remove what jobs have left that did nothing for so long, as 12h (default: "
        "%(default)s); on S3: all uploads below the path that were begun so long ago, of other "
        "programs, too",
    )
    vacuum.add_argument(
        "--give-up",
        type=int,
        metavar="number",
        help="take back this commit, which an error has named, if it cannot be carried out",
    )
    times = operation("times", _times, "Measure the times that a store gives to files.")
    times.add_argument("path")
    checkpoints.add_operations(
        operation("checkpoint", None, "Look into the checkpoint of a Spark query, or a sink's log.")
    )


# --- operations ----------------------------------------------------------------------------------


def _put(arguments: argparse.Namespace, conf: Configuration) -> None:
    if arguments.path.endswith("/"):  # into the directory, as its file
        name = paths.basename(arguments.source)
        if name in ("", "-"):
            raise IsADirectoryError(errno.EISDIR, "name the file, too", arguments.path)
        arguments.path += name
    fs = FileSystem.get(arguments.path, conf)
    # An atomic file is on disk when it appears, and has no hsync.
    syncs = arguments.sync and not arguments.atomic
    store = _store_of(fs, arguments.path)
    if syncs and not store._fixed_options().get("supports-hsync", True):
        raise unsupported("--sync (--atomic does more)", store.store_name, arguments.path)
    with _input(arguments.source) as source:
        if store._is_local:
            _refuse_itself(fs, arguments.path, source)
        create = partial(
            fs.create, arguments.path, overwrite=arguments.overwrite, atomic=arguments.atomic
        )
        with transfer.whole(
            create,
            fs,
            fs._resolve(arguments.path),
            keeps_mode=not arguments.atomic,
            keeps_part=arguments.source == "-",  # a pipe is not there to be sent again
        ) as out:
            while part := _read(source, arguments.source):
                out.write(part)
            if syncs and not out.has_capability(ABORTABLE):  # which is synced when it is closed
                out.hsync()


def _store_of(fs: FileSystem, path: str) -> FileSystem:
    """Return what decides about a path: in a view, the file system behind the link."""
    return fs._store_at(fs._resolve(path))


def _refuse_itself(fs: FileSystem, path: str, source: BinaryIO) -> None:
    """Refuse to write a file from itself: it would be empty before it is read."""
    there = fs._status_or_none(path)
    facts = os.fstat(source.fileno())
    if there and there.is_file and there.file_id == (facts.st_dev, facts.st_ino):
        raise OSError(errno.EINVAL, "put: the source is this very file", path)


def _input(source: str) -> BinaryIO:
    if source != "-":
        return open(source, "rb")
    if sys.stdin is None:  # it was closed when Python started
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), _STANDARD_INPUT)
    return open(0, "rb", closefd=False)


def _read(source: BinaryIO, name: str) -> bytes:
    """Return the next bytes of the source, which a failure names."""
    try:
        part = source.read(_COPY_BYTES)
        if part is None:  # a lull, which is no end, of what does not block
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return part
    except OSError as failure:
        failure.filename = _STANDARD_INPUT if name == "-" else name
        raise


def _cat(arguments: argparse.Namespace, conf: Configuration) -> int:
    def write(path: str) -> None:
        with FileSystem.get(path, conf).open(path) as stream:
            while part := stream.read(_COPY_BYTES):
                emit(part)

    return _each(arguments, arguments.path, write)


def _ls(arguments: argparse.Namespace, conf: Configuration) -> None:
    fs = FileSystem.get(arguments.path, conf)
    if arguments.recursive:
        found = _files_below(fs, arguments.path)
    elif fs.exists(arguments.path):
        found = fs.list_status(arguments.path)
    else:
        found = fs.glob_status(arguments.path) or [fs.get_file_status(arguments.path)]
    for status in sorted(found, key=lambda status: status.path):
        owner, group = owners(fs, status)
        say(
            f"{mode(fs, status):10} {owner:8} {group:8} "
            f"{status.length:12} {time_of(status)} {status.path}"
        )


def _files_below(fs: FileSystem, path: str) -> list[FileStatus]:
    """Return all files below a path, or below what matches it as a pattern."""
    try:
        return list(fs.list_files(path, recursive=True))
    except FileNotFoundError:
        matches = fs.glob_status(path)
        if not matches:
            raise
    found = {match.path: match for match in matches if match.is_file}
    for match in matches:  # on S3 there may be others below a file, which a listing leaves out
        found |= {file.path: file for file in fs.list_files(match.path, recursive=True)}
    return list(found.values())


def _tail(arguments: argparse.Namespace, conf: Configuration) -> None:
    fs = FileSystem.get(arguments.path, conf)
    position = -1
    while True:
        with fs.open(arguments.path) as stream:  # an open reader may not see the file grow
            length = stream.seek(0, os.SEEK_END)
            if position < 0:
                position = max(0, length - 1024)
            elif length < position:  # it was truncated or replaced
                position = 0
            stream.seek(position)
            while part := stream.read(_COPY_BYTES):
                position += len(part)
                emit(part)
        flush()
        if not arguments.follow:
            return
        time.sleep(_FOLLOW_INTERVAL_S)


def _stat(arguments: argparse.Namespace, conf: Configuration) -> None:
    fs = FileSystem.get(arguments.path, conf)
    status = fs.get_file_status(arguments.path)
    owner, group = owners(fs, status)
    for name, value in (
        ("path", status.path),
        ("kind", status.kind),
        ("length", status.length),
        ("modified", time_of(status)),
        ("permission", mode(fs, status)),
        ("owner", owner),
        ("group", group),
        ("replication", status.replication),
        ("block size", status.block_size),
    ):
        say(f"{name}: {value}")


def _refuse_dots(path: str) -> None:
    """Refuse a directory that is named from within, or from below: mostly a slip."""
    if path.rstrip("/").rpartition("/")[2] in (".", ".."):
        raise OSError(errno.EINVAL, "it ends in '.' or '..': name the directory", path)


def _mv(arguments: argparse.Namespace, conf: Configuration) -> None:
    _refuse_dots(arguments.path)
    fs = FileSystem.get(arguments.path, conf)
    source, target = arguments.path, arguments.target
    if fs.is_directory(target):  # a rename would put a directory in the place of an empty one
        target = paths.child(fs._resolve(target), paths.basename(fs._resolve(source)))
    elif target.endswith("/"):
        raise FileNotFoundError(errno.ENOENT, "there is no such directory", target)
    try:
        _rename_to_new(fs, source, target)
    except OSError as refusal:
        if refusal.errno != errno.EXDEV or not fs._is_local:
            raise
        names = fs._resolve(source), fs._resolve(target)
        transfer.copy(fs, names[0], fs, names[1], delete_source=True, overwrite=False)


def _rename_to_new(fs: FileSystem, source: str, target: str) -> None:
    """Rename to a name that is free, and make its parents; replace nothing.

    The plain rename replaces on local files, also what another user makes at that moment.
    """
    if fs._is_local:
        with contextlib.suppress(FileNotFoundError, io.UnsupportedOperation):
            fs.rename(source, target, Rename.NONE)
            return
    if fs.exists(target) or not fs.rename(source, target):
        fs.rename(source, target, Rename.NONE)  # its error says what is wrong


def _rm(arguments: argparse.Namespace, conf: Configuration) -> int:
    def remove(path: str) -> int:
        _refuse_dots(path)
        fs = FileSystem.get(path, conf)
        if _remove(fs, path, arguments):
            return 0
        # Not before: a file whose name is a pattern goes alone.
        try:
            alternatives, found = expand_braces(path), fs.glob_status(path)
        except InvalidPathError:  # it is no pattern: something is not closed in it
            alternatives, found = [], []
        for alternative in alternatives:
            _refuse_dots(alternative or ".")
        matches = [status.path for status in found]
        if not matches and not arguments.force:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

        def remove_match(match: str) -> None:
            _remove(fs, match, arguments)

        return _each(arguments, matches, remove_match)

    return _each(arguments, arguments.path, remove)


def _remove(fs: FileSystem, path: str, arguments: argparse.Namespace) -> bool:
    """Remove a path, or move it to the trash; False if it is not there."""
    resolved = fs._resolve(path)
    if not arguments.recursive and not fs._is_link(resolved) and fs.is_directory(path):
        raise IsADirectoryError(errno.EISDIR, "it is a directory: use -r", path)
    if not arguments.skip_trash and _move_to_trash(fs, resolved):
        say(f"{path} is in the trash")
        return True
    if fs.delete(path, arguments.recursive):
        return True
    if resolved == "/":
        message = "the root directory stays: remove what is in it"
        raise PermissionError(errno.EPERM, message, path)
    return False


def _move_to_trash(fs: FileSystem, path: str) -> bool:
    """Move what may be removed to the trash; False if nothing is there, or the trash is off."""
    if path == "/" or not (fs._is_link(path) or fs.exists(path)):
        return False
    trash = fs._trash(path)
    return trash is not None and trash.move(path)


def _mkdir(arguments: argparse.Namespace, conf: Configuration) -> int:
    def make(path: str) -> None:
        FileSystem.get(path, conf).mkdirs(path)

    return _each(arguments, arguments.path, make)


def _checksum(arguments: argparse.Namespace, conf: Configuration) -> None:
    checksum = FileSystem.get(arguments.path, conf).get_file_checksum(arguments.path)
    is_text = checksum.algorithm == "ETAG"
    value = checksum.value.decode() if is_text else checksum.value.hex()
    say(f"{checksum.algorithm} {value} {arguments.path}")


def _recover_lease(arguments: argparse.Namespace, conf: Configuration) -> int:
    said = ""

    def show(recovery: LeaseRecovery) -> None:
        nonlocal said
        if recovery.waits_for != said:
            said = recovery.waits_for
            complain(f"hflush: recover-lease: {recovery}")

    fs = FileSystem.get(arguments.path, conf)
    closed = fs.recover_lease(arguments.path, arguments.wait, show)
    say("closed" if closed else "recovery goes on")
    return 0 if closed else 1


def _uploads(arguments: argparse.Namespace, conf: Configuration) -> None:
    fs = FileSystem.get(arguments.path, conf)
    age = arguments.older_than
    store = _store_of(fs, arguments.path)
    if store._dates_uploads:
        _dated_uploads(fs, arguments, age)
        return
    if age is not None:
        what = "--older-than, which asks how old an upload is,"
        raise unsupported(what, store.store_name, arguments.path)
    with fs.create_multipart_uploader(arguments.path) as uploader:
        if arguments.abort:
            say(f"{uploader.abort_uploads_under_path(arguments.path)} aborted")
            return
        for upload, path in uploader.uploads():
            say(f"{upload.decode('ascii')} {path}")


def _dated_uploads(fs: FileSystem, arguments: argparse.Namespace, age: float | None) -> None:
    if arguments.abort:
        if age is None:  # writers at work have uploads, too
            raise ValueError("--abort needs --older-than: a time longer than any job writes")
        say(f"{fs.abort_multipart_uploads(arguments.path, age)} aborted")
        return
    for upload in fs.list_multipart_uploads(arguments.path):
        if age is None or upload.age >= age:
            moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(upload.initiated))
            say(f"{moment} {upload.upload_id} {upload.path}")


def _vacuum(arguments: argparse.Namespace, conf: Configuration) -> None:
    from ..spark.commit import vacuum

    done = vacuum(arguments.path, conf, older_than=arguments.older_than, give_up=arguments.give_up)
    if done.rolled_forward is not None:
        say(f"commit {done.rolled_forward} carried out")
    if done.given_up is not None:
        say(f"commit {done.given_up} given up: its files are removed")
    say(f"{done.swept} leftovers of jobs removed")
    if done.strays:
        say(f"{done.strays} files of killed batches removed")


def _times(arguments: argparse.Namespace, conf: Configuration) -> None:
    """Measure granularity and skew of a store's times, with a temporary file."""
    fs = FileSystem.get(arguments.path, conf)
    path = f"{fs.make_qualified(arguments.path).rstrip('/')}/.hflush-times-{uuid.uuid4().hex}"
    moved = f"{path}-moved"

    def modified(at: str) -> int:
        return fs.get_file_status(at).modification_time_ns

    def effect(change: Callable[[], object], at: str) -> str:
        before = modified(path)
        time.sleep(granularity / _NS_PER_S + 0.01)  # so that a new time differs
        try:
            change()
        except (OSError, ValueError) as refusal:
            return f"refused: {getattr(refusal, 'strerror', None) or refusal}"
        return "keeps the modification time" if modified(at) == before else "changes it"

    try:
        began = time.time_ns()
        fs.create(path, recursive=False).close()  # no directory by mistake
        ended = time.time_ns()
        granularity = _granularity(modified(path))
        skew = modified(path) - (began + ended) // 2
        say(f"granularity: {granularity / _NS_PER_S:g} s")
        uncertain = (granularity + ended - began) / 2
        say(f"clock: {skew / _NS_PER_S:+.3f} s from this host's, +-{uncertain / _NS_PER_S:.3f}")
        say(f"set_permission: {effect(lambda: fs.set_permission(path, 0o600), path)}")
        say(f"set_times: {effect(lambda: fs.set_times(path, 1_000_000_000_000), path)}")
        say(f"rename: {effect(lambda: fs.rename(path, moved), moved)}")
    finally:
        fs.delete(path)
        fs.delete(moved)


def _granularity(time_ns: int) -> int:
    """Return the largest usual unit, in nanoseconds, that a time is a multiple of."""
    return next((unit for unit in (_NS_PER_S, 1_000_000, 1_000) if time_ns % unit == 0), 1)
