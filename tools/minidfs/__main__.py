"""A cluster by hand: prints its URL and what a client's configuration needs, until stdin closes."""

from __future__ import annotations

import argparse
import sys

from by_hand import clean_up_when_terminated, until_stdin_closes

from minidfs.cluster import MiniCluster


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m minidfs", description=__doc__)
    parser.add_argument("--datanodes", type=int, default=3)
    parser.add_argument("--namenodes", type=int, default=1)
    parser.add_argument(
        "settings", nargs="*", metavar="key=value", help="of the cluster's hdfs-site.xml"
    )
    options = parser.parse_args()
    clean_up_when_terminated()
    settings = dict(setting.split("=", 1) for setting in options.settings)
    with MiniCluster.start(
        options.datanodes, name_nodes=options.namenodes, settings=settings
    ) as cluster:
        return until_stdin_closes(cluster.url, cluster.conf, cluster.jvm.log)


if __name__ == "__main__":
    sys.exit(main())
