"""Rounds for docs/reliability-hdfs.json, each on a cluster in a JVM of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from devkit import sources
from minidfs import Jvm, MiniCluster
from support.minidfs import Hdfs

from reliability.load import page
from reliability.load.cluster import running
from reliability.load.running import HFLUSH, run
from reliability.load.schedule import Schedule


def measure(seeds: Sequence[int], clients: Sequence[str], events: int) -> bool:
    """Run and publish the rounds of these seeds; whether hflush kept its promises in all."""
    is_right = True
    commit = sources.commit()  # before the first round changes the page
    for seed in seeds:
        schedule = Schedule.of(seed, events, hangs=True)
        print(f"seed {seed}: {schedule.shape}")
        with tempfile.TemporaryDirectory(prefix="load-") as directory, ExitStack() as stack:

            def start(
                nodes: int,
                settings: Mapping[str, str],
                name_nodes: int,
                stack: ExitStack = stack,
            ) -> Hdfs:
                jvm = stack.enter_context(Jvm())
                cluster = MiniCluster.start(
                    nodes, settings=settings, name_nodes=name_nodes, jvm=jvm
                )
                hdfs = Hdfs(cluster)
                stack.callback(hdfs.close)
                return hdfs

            (journals := Path(directory, "journals")).mkdir()
            cluster = stack.enter_context(running(schedule.shape, start, Path(directory)))
            results = run(schedule, cluster, clients, journals, print)
        for result in results:
            print(f"  {result}")
            for note in result.notes:
                print(f"    {note}")
            is_right = is_right and (result.is_right or result.client != HFLUSH)
        page.publish(schedule, results, commit)
    return is_right
