"""Fixtures of the tests that have a JVM beside them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from integration.hadoop import Hadoop, launched
from integration.spark import Spark, started


@pytest.fixture(scope="session")
def hadoop() -> Iterator[Hadoop]:
    """Java Hadoop, started once."""
    with launched() as oracle:
        yield oracle


@pytest.fixture(scope="session")
def spark() -> Iterator[Spark]:
    """Spark with a session of two threads, started once."""
    with started() as oracle:
        yield oracle
