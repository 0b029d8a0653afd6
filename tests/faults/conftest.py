"""Fixtures of the tests on a scripted S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import hflush
    from support.s3_ways import Way
    from support.scripted_s3 import ScriptedS3


@pytest.fixture
def s3(s3_way: Way) -> Iterator[ScriptedS3]:
    """A store of one bucket, asked in each of our ways."""
    with s3_way.server() as server:
        yield server


@pytest.fixture
def s3_fs(s3: ScriptedS3) -> Iterator[hflush.FileSystem]:
    """An impatient file system on it."""
    from support.s3_writers import file_system

    with file_system(s3) as fs:
        yield fs
