"""The command line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

from devkit import (
    benching,
    building,
    environment,
    linting,
    machine,
    mutating,
    sanitizing,
    simulating,
    testing,
)
from devkit.console import Ended, StepFailed, end_on_signals, say, stream
from devkit.paths import PYTHON, ROOT

NOT_INSTALLED = 2


def main(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code."""
    ours, extra = _split(list(arguments))
    parser = _parser()
    options = parser.parse_args(ours or ["help"])
    if options.run is None:
        parser.print_help()
        return 0
    return guarded(lambda: options.run(options, extra))


def guarded(work: Callable[[], int | None]) -> int:
    """Do the work of a command and return its exit code; a signal ends all that it started."""
    end_on_signals()
    try:
        return int(work() or 0)
    except machine.NotInstalled as missing:
        say(str(missing))
        return NOT_INSTALLED
    except StepFailed as failure:
        say(f"stopped: {failure}")
        return 1
    except Ended as ended:
        say(f"ended by {ended}")
        return 128 + ended.number


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our arguments, and those behind `--`; all but the first are the demo's."""
    if arguments[:1] == ["demo"]:
        return arguments[:1], arguments[1:]
    if "--" in arguments:
        at = arguments.index("--")
        return arguments[:at], arguments[at + 1 :]
    return arguments, []


def _add_bench_arguments(bench: argparse.ArgumentParser) -> None:
    bench.add_argument("--quick", action="store_true", help="few rounds: to try it, not to publish")
    earlier = "a built tree of an earlier commit: one more peer of HDFS's cases without faults"
    bench.add_argument("--before", type=Path, metavar="DIR", help=earlier)
    names = ", ".join(benching.sections())
    bench.add_argument("sections", nargs="*", metavar="section", help=names)


class _Command(Protocol):
    """Adds a command."""

    def __call__(
        self, name: str, run: Callable[..., object] | None, about: str
    ) -> argparse.ArgumentParser: ...


def _add_test_arguments(test: argparse.ArgumentParser) -> None:
    gate = f"the gate, if none is named: {', '.join(testing.OF_GATE)}"
    full = f"full: all of {', '.join(testing.OF_FULL)}"
    slow = f"only where they are named: {', '.join(testing.SLOW)}"
    parts = f"{gate}; {full}; {slow}; local: contract-local"
    test.add_argument("parts", nargs="*", metavar="part", help=parts)
    unchanged = "leave out what was green on the same sources"
    test.add_argument("--changed", action="store_true", help=unchanged)


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

    _add_daily(command)
    _add_measuring(command)
    _add_checking(command)
    command("docs", _docs, "write what is generated: figures, conformance, keys, locks, requests")
    command("help", None, "this text")
    return parser


def _add_daily(command: _Command) -> None:
    command(
        "demo", _demo, "run a Spark job whose executors write through hflush; takes its options"
    )
    test = command(
        "test",
        _test,
        "run the gate, everything (full), or some parts; behind --, arguments for pytest",
    )
    _add_test_arguments(test)
    build = command("build", _build, "build the extension and the C++ tests, incrementally")
    build.add_argument(
        "presets", nargs="*", metavar="preset", default=["dev"], help="of CMakePresets.json"
    )


def _add_measuring(command: _Command) -> None:
    bench = command(
        "bench", _bench, "measure against the peers, all or some sections; behind --, for pytest"
    )
    _add_bench_arguments(bench)
    reliability = command(
        "reliability",
        _reliability,
        "measure what clients do under faults, into docs/reliability.md; behind --, for it",
    )
    reliability.add_argument(
        "what",
        nargs="?",
        choices=["s3", "hdfs", "spark"],
        default="s3",
        help="s3, hdfs under load, or drivers of Spark that are killed",
    )


def _add_checking(command: _Command) -> None:
    lint = command(
        "lint",
        _lint,
        "check formatting, style and types, and that the newest compilers take it; all or some",
    )
    lint.add_argument("--fix", action="store_true", help="format, and mend what is safe to mend")
    lint.add_argument("checks", nargs="*", metavar="check", help=", ".join(linting.CHECKS))
    sanitize = command(
        "sanitize", _sanitize, "run C++ and thread tests under the sanitizers, and fuzz"
    )
    sanitize.add_argument("--bounded", action="store_true", help="leave the slow tests out")
    sanitize.add_argument(
        "kinds", nargs="*", metavar="kind", help="address, undefined, thread, fuzz"
    )
    simulate = command(
        "sim",
        _sim,
        "run the writers of HDFS in simulated worlds: fresh seeds, or these",
    )
    simulate.add_argument("--seeds", metavar="FIRST-LAST", help="the seeds to run")
    simulate.add_argument(
        "--mutants",
        nargs="*",
        metavar="NAME",
        help="the bugs in tests/cpp/sim/mutants, all or some: each has to be found",
    )
    simulate.add_argument("--replay", metavar="SEED", type=int, help="one seed, with its trace")


def _prepare(*extras: str) -> None:
    has_cluster = {"test", "demo", "bench"} & set(extras)
    needs = machine.FOR_BUILD + (machine.FOR_CLUSTER if has_cluster else ())
    machine.require(needs + (machine.FOR_TEST if "test" in extras else ()))
    environment.require(extras)


def _demo(_options: argparse.Namespace, extra: Sequence[str]) -> int:
    _prepare("demo")
    if {"hdfs", "--fs=hdfs"} & set(extra):
        environment.require_cluster()
    if {"s3", "--fs=s3"} & set(extra):
        environment.require_store()
    building.build("dev", "_core")
    return stream([PYTHON, ROOT / "demo", *extra], env=environment.variables())


def _test(options: argparse.Namespace, extra: Sequence[str]) -> int:
    _refuse_unknown("part", options.parts, (testing.FULL, *testing.NAMED))
    if options.parts and set(options.parts) <= set(testing.ELSEWHERE):
        return testing.elsewhere(options.parts)
    environment.begin_store()
    if "radosgw" in options.parts:
        machine.require(machine.FOR_RADOSGW)
    _prepare("test", "lint", "bench")
    return testing.test(options.parts, extra, only_changed=options.changed)


def _build(options: argparse.Namespace, _extra: Sequence[str]) -> None:
    _prepare()
    for preset in options.presets:
        building.build(preset)


def _bench(options: argparse.Namespace, extra: Sequence[str]) -> int:
    _refuse_unknown("section", options.sections, benching.sections())
    environment.begin_store()
    _prepare("bench")
    environment.require_cluster()
    environment.require_store()
    building.build("dev", "_core", "hflush_ring_bench", "hflush_scripted_cluster", "hflush_null_s3")
    return benching.bench(
        options.sections, quick=options.quick, before=options.before, pytest_args=extra
    )


def _reliability(options: argparse.Namespace, extra: Sequence[str]) -> int:
    _prepare("bench", "test")
    if options.what == "hdfs":
        environment.require_cluster()
    elif options.what == "s3":
        environment.require_store()
    building.build("dev", "_core")
    path = os.pathsep.join(str(ROOT / part) for part in ("tools", "tests"))
    variables = {**environment.variables(), "PYTHONPATH": path}
    command = "run" if options.what == "s3" else options.what
    return stream([PYTHON, "-m", "reliability", command, *extra], env=variables)


def _lint(options: argparse.Namespace, _extra: Sequence[str]) -> int:
    _refuse_unknown("check", options.checks, linting.CHECKS)
    _prepare("lint", "test", "bench")
    if options.fix:
        linting.fix()
        return 0
    building.build("dev", "_core")
    return linting.lint(options.checks)


def _sanitize(options: argparse.Namespace, _extra: Sequence[str]) -> int:
    _refuse_unknown("kind", options.kinds, (*sanitizing.SANITIZERS, "undefined"))
    _prepare("test")
    return sanitizing.sanitize(options.kinds, bounded=options.bounded)


def _sim(options: argparse.Namespace, _extra: Sequence[str]) -> int:
    known = sorted(path.stem for path in mutating.PATCHES.glob("*.patch"))
    _refuse_unknown("mutant", options.mutants or (), known)
    _prepare()
    if options.mutants is not None:
        return mutating.mutants(options.mutants)
    return simulating.sim(options.seeds, options.replay)


def _docs(_options: argparse.Namespace, _extra: Sequence[str]) -> None:
    _prepare("bench")
    benching.docs()


def _refuse_unknown(what: str, given: Sequence[str], known: Collection[str]) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        say(f"no such {what}: {', '.join(unknown)}; there are {', '.join(known)}")
        sys.exit(NOT_INSTALLED)
