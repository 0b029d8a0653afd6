"""``hflush checkpoint``: the logs of Spark's streaming queries and sinks, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .arguments import seconds
from .output import say

if TYPE_CHECKING:
    import argparse

    from ..checkpoint import Finding
    from ..configuration import Configuration

__all__ = ["add_operations"]


def add_operations(parser: argparse.ArgumentParser) -> None:
    """Add ``ls``, ``show``, ``verify`` and ``repair`` to the parser of ``checkpoint``."""
    parser.epilog = (
        "URL is a checkpoint, a directory that a streaming sink has written, or one log: offsets, "
        "commits, sources/N or _spark_metadata."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")

    def action(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        sub = actions.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        sub.add_argument("path", metavar="URL")
        return sub

    action("ls", _ls, "List the logs with their batches.")
    show = action("show", _show, "Show the latest batch of each log, and the live files of sinks.")
    show.add_argument("--batch", type=int, metavar="N", help="show this batch")
    verify = action(
        "verify", _verify, "Name everything that is wrong; exit code 1 if anything is harmful."
    )
    repair = action(
        "repair",
        _repair,
        "Do what is safe about it, and name the rest; removes no batch. Exit code 1 if anything "
        "harmful is left.",
    )
    repair.add_argument("--dry-run", action="store_true", help="say what would be done")
    for sub in (verify, repair):
        sub.add_argument(
            "--older-than",
            type=seconds,
            metavar="time",
            default="1h",
            help="the age from which the writer of a temporary file is taken for dead, as 30s or "
            "10m (default: %(default)s)",
        )


def _ls(arguments: argparse.Namespace, conf: Configuration) -> None:
    from ..checkpoint import Checkpoint

    for log in Checkpoint(arguments.path, conf).logs:
        ids = log.log.batch_ids()
        which = f"{ids[0]}..{ids[-1]}" if ids else "-"
        interval = getattr(log.log, "compact_interval", None)
        compacts = "" if interval is None else f" compact interval {interval}"
        say(f"{log.kind:8} {which:>12} {len(ids):8} files {log.path}{compacts}")


def _show(arguments: argparse.Namespace, conf: Configuration) -> int:
    from ..checkpoint import Checkpoint

    shown = 0
    for path, lines in Checkpoint(arguments.path, conf).shown(arguments.batch):
        shown += 1
        say(f"{path}:")
        for line in lines:
            say(f"  {line}")
    if not shown and arguments.batch is not None:
        raise ValueError(f"no log has a batch {arguments.batch}")
    return 0


def _verify(arguments: argparse.Namespace, conf: Configuration) -> int:
    from ..checkpoint import Checkpoint

    return _told(Checkpoint(arguments.path, conf).verify(arguments.older_than))


def _repair(arguments: argparse.Namespace, conf: Configuration) -> int:
    from ..checkpoint import Checkpoint

    checkpoint = Checkpoint(arguments.path, conf)
    oldest = arguments.older_than
    failed = False
    for repair in checkpoint.repair(oldest, dry_run=arguments.dry_run):
        if repair.failure is not None:
            failed = True
            say(f"failed: {repair.done}: {repair.failure.strerror or repair.failure}")
        else:
            say(f"{'would' if arguments.dry_run else 'did'}: {repair.done}")
    return _told(checkpoint.verify(oldest)) or int(failed)


def _told(found: list[Finding]) -> int:
    """Write what was found, and return the exit code."""
    for finding in found:
        say(f"{'error' if finding.harmful else 'note'}: {finding.path}: {finding.problem}")
    harmful = sum(finding.harmful for finding in found)
    say(f"{_counted(harmful, 'error')}, {_counted(len(found) - harmful, 'note')}")
    return 1 if harmful else 0


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
