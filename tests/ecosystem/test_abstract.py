"""fsspec's own suite of abstract tests, on each store."""

from __future__ import annotations

import pytest
from fsspec.tests import abstract


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, place):
        return place.fs

    @pytest.fixture
    def fs_path(self, place):
        return place.name("ours")

    @pytest.fixture
    def local_path(self, tmp_path):
        return str(tmp_path / "theirs")


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass
