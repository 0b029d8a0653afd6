"""Measure, and render: see the package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

from s3_clients import CLIENTS  # noqa: E402

from reliability import doors, report  # noqa: E402
from reliability.cases import CASES  # noqa: E402
from reliability.measuring import measure  # noqa: E402


def main() -> None:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    parser = argparse.ArgumentParser(prog="reliability", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure, into docs/reliability.json, and render")
    run.add_argument("--client", action="append", choices=CLIENTS, help="this one only")
    run.add_argument("--case", action="append", choices=[case.id for case in CASES])
    run.add_argument("--doors", action="store_true", help="the doors only")
    commands.add_parser("render", help="docs/reliability.md from docs/reliability.json")
    options = parser.parse_args()
    if options.command == "run" and not options.client and not options.case:
        doors.measure()
    if options.command == "run" and not options.doors:
        clients = options.client or list(CLIENTS)
        cases = [case for case in CASES if not options.case or case.id in options.case]
        for measured in measure(clients, cases):
            report.publish(measured)
    report.render()


if __name__ == "__main__":
    main()
