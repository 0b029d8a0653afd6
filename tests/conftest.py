"""Shared by all Python tests: the contract's markers and the fixture `store`.

support/conformance.py explains the markers `rule` and `stores`, support/marks.py those by which
parts of the suite are chosen, support/leftovers.py what becomes of what a failed test leaves open,
support/stores.py what `store` offers, support/peer.py second clients, support/minidfs.py clusters
of HDFS, support/s3.py an S3 server, support/s3_ways.py how one is asked. A test directory needs
nothing else to take part.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = [
    "support.conformance",
    "support.marks",
    "support.leftovers",
    "support.below_shim",
    "support.minidfs",
    "support.s3",
    "support.s3_ways",
    "support.door_outcomes",
]

# The machine's own configuration of Hadoop and AWS must not influence tests.
for _name in [name for name in os.environ if name == "HADOOP_CONF_DIR" or name.startswith("AWS_")]:
    del os.environ[_name]
os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"

# Shells start what runs in the background with SIGINT ignored, nohup with SIGHUP, and every child
# inherits that: tests that interrupt themselves or a child would wait for ever.
for _number, _handler in {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGHUP: signal.SIG_DFL,
}.items():
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--exhaustive", action="store_true", help="run what is marked so, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--exhaustive"):
        items[:] = [item for item in items if item.get_closest_marker("exhaustive") is None]


@pytest.fixture
def store(
    request: pytest.FixtureRequest, tmp_path: Path, _second_clients: None
) -> Iterator[object]:
    """One of the stores, with a fresh root directory (support.stores.Store)."""
    from support.stores import STORES

    store = STORES[request.param].of_test(request, tmp_path)
    yield store
    store.release()


@pytest.fixture(scope="session")
def _second_clients() -> Iterator[None]:
    yield
    from support.stores import Store

    Store.release_shared()
