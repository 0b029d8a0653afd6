"""Measure, and render: see the package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

from reliability import doors, report  # noqa: E402
from reliability.cases import CASES  # noqa: E402
from reliability.load import measuring as load  # noqa: E402
from reliability.load.running import CLIENTS as CLIENTS_OF_HDFS  # noqa: E402
from reliability.measuring import COLUMNS, measure  # noqa: E402
from reliability.spark import measuring as spark_kills  # noqa: E402

ROUNDS = range(12)  # each load with each replication
EVENTS = 44  # in each: 528
KILLS = 16


def main() -> None:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    parser = argparse.ArgumentParser(prog="reliability", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure, into docs/reliability.json, and render")
    run.add_argument("--client", action="append", choices=COLUMNS, help="this one only")
    run.add_argument("--case", action="append", choices=[case.id for case in CASES])
    run.add_argument("--doors", action="store_true", help="the doors only")
    hdfs = commands.add_parser("hdfs", help="clusters under load, into docs/reliability-hdfs.json")
    hdfs.add_argument("--client", action="append", choices=CLIENTS_OF_HDFS, help="this one only")
    hdfs.add_argument("--seed", action="append", type=int, help="its round only")
    hdfs.add_argument("--events", type=int, default=EVENTS, help="in each round")
    spark = commands.add_parser("spark", help="killed drivers, into docs/reliability-spark.json")
    spark.add_argument("--kills", type=int, default=KILLS, help="in each case, of each sink")
    spark.add_argument("--seed", type=int, default=1)
    commands.add_parser("render", help="docs/reliability.md from docs/reliability.json")
    options = parser.parse_args()
    if options.command == "run" and not options.client and not options.case:
        doors.measure()
    if options.command == "run" and not options.doors:
        columns = options.client or COLUMNS
        cases = [case for case in CASES if not options.case or case.id in options.case]
        for measured in measure(columns, cases):
            report.publish(measured)
    is_right = True
    if options.command == "hdfs":
        clients = options.client or list(CLIENTS_OF_HDFS)
        is_right = load.measure(options.seed or ROUNDS, clients, options.events)
    if options.command == "spark":
        is_right = spark_kills.measure(options.kills, options.seed)
    report.render()
    sys.exit(not is_right)


if __name__ == "__main__":
    main()
