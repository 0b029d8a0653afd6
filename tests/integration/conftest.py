"""Fixtures of the tests that have a JVM beside them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from integration.hadoop import Hadoop, launched


@pytest.fixture(scope="session")
def hadoop() -> Iterator[Hadoop]:
    """Java Hadoop, started once."""
    with launched() as oracle:
        yield oracle
