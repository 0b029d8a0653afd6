"""pytest plugin: in any test directory, @pytest.mark.shim runs a test below the fault shim.

Such a test takes the fixture `faults` (tests/faults/shim/control.py), which watches its temporary
directory, and so the root of its store, whose calls can be held at a gate, failed and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.shim.worker import Relay, Worker, in_worker

RELAY = pytest.StashKey[Relay]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "shim: runs below the fault shim, in a worker process")
    if in_worker():
        config.pluginmanager.register(Worker())
    else:
        config.stash[RELAY] = Relay(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    if RELAY in config.stash:
        config.stash[RELAY].stop()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if in_worker() or pyfuncitem.get_closest_marker("shim") is None:
        return None
    pyfuncitem.config.stash[RELAY].run(pyfuncitem.nodeid)
    return True


@pytest.fixture
def faults(tmp_path: Path) -> Iterator[object]:
    """The controls of the shim; nothing in the parent, whose test bodies do not run."""
    if not in_worker():
        yield None
        return
    from faults.shim.control import Faults

    controls = Faults()
    controls.watch(tmp_path)
    yield controls
    controls.stop()
