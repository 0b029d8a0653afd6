"""Shared by all Python tests: the contract's markers and the fixture `store`.

support/conformance.py explains the markers `rule` and `stores`, support/stores.py what `store`
offers, support/peer.py second clients. A test directory needs nothing else to take part.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = ["support.conformance", "support.below_shim"]

os.environ.pop("HADOOP_CONF_DIR", None)  # a machine's own Hadoop configuration is no part of a test


@pytest.fixture
def store(
    request: pytest.FixtureRequest, tmp_path: Path, _second_clients: None
) -> Iterator[object]:
    """One of the stores, with a fresh root directory (support.stores.Store)."""
    from support.stores import STORES

    store = STORES[request.param](str(tmp_path))
    yield store
    store.release()


@pytest.fixture(scope="session")
def _second_clients() -> Iterator[None]:
    yield
    from support.stores import Store

    Store.release_shared()
