"""pytest plugin: what a test needs beside it, as marks by which parts of the suite are chosen.

    hdfs, s3    a cluster or a server of objects: a test that takes one, or speaks for that store
    spark       Spark or Java Hadoop: said by the file
    doors       the table of all ways to end a write, on every store: said by the file
    smoke       the one job of Spark that the gate runs

tools/devkit/parts.py chooses by them: a test of tests/integration without one would be in no part.
"""

from __future__ import annotations

import pytest

from support.conformance import named_stores

SERVERS = {
    "hdfs": ("hdfs_cluster", "hdfs_ha", "hdfs_new"),
    "s3": ("s3_server", "s3_proxy"),
}
PARTS = (*SERVERS, "spark", "doors")


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        stores = named_stores(item) or ()
        for mark, names in SERVERS.items():
            if mark in stores or not set(names).isdisjoint(fixtures):
                item.add_marker(mark)
        if item.path.parent.name == "integration" and not any(map(item.get_closest_marker, PARTS)):
            raise pytest.UsageError(f"{item.nodeid} is in no part: mark its file as {PARTS}")
