"""The command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from devkit import benching, building, environment, linting, machine, sanitizing, testing
from devkit.console import StepFailed, say, stream
from devkit.paths import PYTHON, ROOT

NOT_INSTALLED = 2
INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code."""
    ours, extra = _split(list(arguments))
    parser = _parser()
    options = parser.parse_args(ours or ["help"])
    if options.run is None:
        parser.print_help()
        return 0
    try:
        return int(options.run(options, extra) or 0)
    except machine.NotInstalled as missing:
        say(str(missing))
        return NOT_INSTALLED
    except StepFailed as failure:
        say(f"stopped: {failure}")
        return 1
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our arguments, and those behind `--`; all but the first are the demo's."""
    if arguments[:1] == ["demo"]:
        return arguments[:1], arguments[1:]
    if "--" in arguments:
        at = arguments.index("--")
        return arguments[:at], arguments[at + 1 :]
    return arguments, []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev", description="Everything this project can do.")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(metavar="command")

    def command(
        name: str, run: Callable[..., object] | None, about: str
    ) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=about, description=about)
        added.set_defaults(run=run)
        return added

    command(
        "demo", _demo, "run a Spark job whose executors write through hflush; takes its options"
    )
    test = command("test", _test, "run every test, or some parts; behind --, arguments for pytest")
    test.add_argument("parts", nargs="*", metavar="part", help=", ".join(testing.PARTS))
    command("build", _build, "build the extension and the C++ tests, incrementally")
    bench = command("bench", _bench, "measure against the peers; behind --, arguments for pytest")
    bench.add_argument("--quick", action="store_true", help="few rounds: to try it, not to publish")
    lint = command("lint", _lint, "check formatting, style and types in both languages")
    lint.add_argument("--fix", action="store_true", help="format, and mend what is safe to mend")
    sanitize = command("sanitize", _sanitize, "run C++ and thread tests under the sanitizers")
    sanitize.add_argument("--bounded", action="store_true", help="leave the slow tests out")
    sanitize.add_argument("kinds", nargs="*", metavar="kind", help="address, undefined, thread")
    command("docs", _docs, "write docs/performance.md, docs/conformance.md and README's figures")
    command("help", None, "this text")
    return parser


def _prepare(*extras: str) -> None:
    needs = machine.FOR_BUILD + ((machine.JAVA,) if {"test", "demo"} & set(extras) else ())
    machine.require(needs)
    environment.require(extras)


def _demo(_options: argparse.Namespace, extra: Sequence[str]) -> int:
    _prepare("demo")
    building.build("dev", "_core")
    return stream([PYTHON, ROOT / "demo", *extra], env=environment.variables())


def _test(options: argparse.Namespace, extra: Sequence[str]) -> int:
    _refuse_unknown("part", options.parts, testing.PARTS)
    _prepare("test")
    return testing.test(options.parts, extra)


def _build(_options: argparse.Namespace, _extra: Sequence[str]) -> None:
    _prepare()
    building.build("dev")


def _bench(options: argparse.Namespace, extra: Sequence[str]) -> int:
    _prepare("bench")
    building.build("dev", "_core", "hflush_ring_bench")
    return benching.bench(quick=options.quick, pytest_args=extra)


def _lint(options: argparse.Namespace, _extra: Sequence[str]) -> int:
    _prepare("lint")
    if options.fix:
        linting.fix()
        return 0
    building.build("dev", "_core")
    return linting.lint()


def _sanitize(options: argparse.Namespace, _extra: Sequence[str]) -> int:
    _refuse_unknown("kind", options.kinds, (*sanitizing.SANITIZERS, "undefined"))
    _prepare("test")
    return sanitizing.sanitize(options.kinds, bounded=options.bounded)


def _docs(_options: argparse.Namespace, _extra: Sequence[str]) -> None:
    _prepare("bench")
    benching.docs()


def _refuse_unknown(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        say(f"no such {what}: {', '.join(unknown)}; there are {', '.join(known)}")
        sys.exit(NOT_INSTALLED)
