"""pytest plugin: what tests/integration/test_doors.py saw, as a file for docs/reliability.md.

    outcomes    records what one door led to, on one store and kind of file

With --doors=FILE a run that has seen everything writes FILE.
"""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

LIBRARIES = ("fsspec", "pandas", "pyarrow", "zstandard")
Seen = dict[str, dict[str, dict[str, str]]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--doors", type=Path, help="where the outcomes of test_doors.py go")


@pytest.fixture(scope="session")
def _seen(request: pytest.FixtureRequest) -> Iterator[Seen]:
    seen: Seen = {}
    yield seen
    path = request.config.getoption("--doors")
    if path is not None:
        publish(seen, path)


@pytest.fixture
def outcomes(_seen: Seen) -> Callable[..., None]:
    def record(store: Any, kind: str, door: Any, endings: dict[str, str]) -> None:
        _seen.setdefault(f"{store.name} {kind}", {}).setdefault(door.title, {}).update(endings)

    return record


def publish(seen: Seen, path: Path) -> None:
    """Write what was seen, if that is all there is to see."""
    from support.doors import DOORS, ENDINGS

    columns = {f"{name} plain" for name in ("raw", "crc", "hdfs")}
    columns |= {f"{name} whole" for name in ("raw", "crc", "hdfs", "s3")}
    missing = [
        f"{column}: {door.title}: {ending}"
        for column in sorted(columns)
        for door in DOORS
        for ending in ENDINGS
        if ending not in seen.get(column, {}).get(door.title, {})
    ]
    if missing:
        raise pytest.UsageError(f"not published, {len(missing)} not seen: {missing[0]}, …")
    run = {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in LIBRARIES},
        "doors": [door.title for door in DOORS],
        "endings": list(ENDINGS),
        "seen": seen,
    }
    path.write_text(json.dumps(run, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
