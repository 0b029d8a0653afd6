"""The fixtures `ratio`, `ratios` and `figure`; README.md beside says how they are used."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import hflush
import pytest
from devkit import sources
from hdfs_cluster import hdfs, hdfs_on_disk, quick, wire_speed  # noqa: F401 - fixtures
from hdfs_faults import data_nodes, ha_pair, links  # noqa: F401 - fixtures
from interleaved import (
    Contender,
    Quantity,
    Race,
    Target,
    Trial,
    Trials,
    calls_for,
    comparison,
    percentile_spread,
    spread,
)
from pytest_benchmark.fixture import BenchmarkFixture
from s3_servers import far_s3, minio, minio_tls, null_s3, versitygw  # noqa: F401 - fixtures
from spark_session import (  # noqa: F401 - fixtures
    spark,
    spark_hdfs,
    spark_local,
    spark_on_disk,
    spark_s3,
)

OURS = "hflush"
QUICK_ROUNDS = 3

Work = Callable[[], object] | Contender


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--hflush-quick", action="store_true", help="few rounds: to try, not to publish"
    )
    parser.addoption(
        "--hflush-before", type=Path, help="a built tree of an earlier commit: a peer of HDFS's"
    )


def pytest_benchmark_update_machine_info(
    config: pytest.Config, machine_info: dict[str, Any]
) -> None:
    version = subprocess.run(["g++", "--version"], check=False, capture_output=True, text=True)
    machine_info["compiler"] = version.stdout.partition("\n")[0]
    machine_info["kernel"] = platform.release()
    machine_info["crc_kernel"] = hflush.crc.kernel()
    machine_info["load"] = round(os.getloadavg()[2])  # others' work is in it, too


def pytest_benchmark_update_commit_info(config: pytest.Config, commit_info: dict[str, Any]) -> None:
    """Pages do not count: those of the sections before are written by them."""
    commit_info["dirty"] = sources.has_local_changes()


@pytest.fixture
def ratio(benchmark: BenchmarkFixture, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Measure one piece of hflush's work, interleaved with its peers."""

    def measure(
        work: str,
        *,
        ours: Work,
        peers: Mapping[str, Work],
        targets: Sequence[Target] = (),
        nbytes: int | None = None,
        operations: int = 1,
        rounds: int = 15,
        calls: int | None = None,
    ) -> None:
        contenders = {OURS: _contender(ours)} | {name: _contender(p) for name, p in peers.items()}
        if request.config.getoption("--hflush-quick"):
            rounds = QUICK_ROUNDS
        if calls is None:
            calls = calls_for(contenders[OURS]) if callable(ours) else 1
        race = Race(contenders, calls, seed=work)
        benchmark.group = _group(request)
        _run(benchmark, race, contenders[OURS], rounds)
        benchmark.extra_info.update(
            work=work,
            nbytes=nbytes,
            operations=operations,
            seconds={name: spread(times) for name, times in race.seconds.items()},
            peers={name: _against(race, name, targets) for name in peers},
        )

    return measure


@pytest.fixture
def ratios(benchmark: BenchmarkFixture, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compare contenders that measure themselves, several quantities in one run."""

    def measure(
        quantities: Sequence[Quantity],
        *,
        ours: Trial,
        peers: Mapping[str, Trial],
        rounds: int = 10,
    ) -> None:
        if request.config.getoption("--hflush-quick"):
            rounds = QUICK_ROUNDS
        trials = Trials({OURS: ours, **peers}, seed=quantities[0].work)
        benchmark.group = _group(request)
        benchmark.pedantic(trials.round, rounds=rounds, warmup_rounds=1)
        entries = benchmark.extra_info.setdefault("works", [])
        for quantity in quantities:
            values = trials.values(quantity.key, without_first=1)
            entries.append(_entry(quantity, values))

    return measure


def _entry(quantity: Quantity, values: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    mine, rank = values[OURS], quantity.rank
    return {
        "work": quantity.work,
        "unit": quantity.unit,
        "nbytes": quantity.nbytes,
        "operations": quantity.operations,
        "seconds": {
            name: spread(each) if rank is None else percentile_spread(each, rank)
            for name, each in values.items()
        },
        "peers": {
            name: comparison(
                mine, each, _target(name, quantity.targets), unit=quantity.unit, rank=rank
            )
            for name, each in values.items()
            if name != OURS
        },
    }


@pytest.fixture
def figure(benchmark: BenchmarkFixture, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Record a number that is not a time: bytes, counts; `at_most` is its target.

    None is for a peer that failed.

    After `ratio` or `ratios` it adds to the (last) entry; alone it makes one, and `work` names it.
    """

    def record(
        name: str,
        value: float | None,
        unit: str,
        *,
        at_most: float | None = None,
        work: str | None = None,
    ) -> None:
        if work is not None:
            benchmark.group = _group(request)
            benchmark.extra_info["work"] = work
            benchmark.pedantic(lambda: None)
        entry = {"name": name, "value": value, "unit": unit, "target": at_most}
        works = benchmark.extra_info.get("works", [benchmark.extra_info])
        works[-1].setdefault("figures", []).append(entry)

    return record


def _group(request: pytest.FixtureRequest) -> str:
    return request.path.stem.removeprefix("test_").replace("_", "-")


def _contender(work: Work) -> Contender:
    if isinstance(work, Contender):
        return work
    return Contender(run=lambda _state: work())


def _run(benchmark: BenchmarkFixture, race: Race, ours: Contender, rounds: int) -> None:
    """Let pytest-benchmark time ours, with the peers of each round before and after it."""
    later: list[str] = []

    def before() -> tuple[tuple[object, ...], dict[str, object]]:
        order = race.order()
        at = order.index(OURS)
        later[:] = order[at + 1 :]
        for name in order[:at]:
            race.run(name)
        return (OURS, ours.setup()), {}

    def after(_name: str, state: object) -> None:
        ours.teardown(state)
        for name in later:
            race.run(name)

    benchmark.pedantic(race.timing, setup=before, teardown=after, rounds=rounds, warmup_rounds=1)
    for times in race.seconds.values():
        del times[0]  # the warm-up


def _against(race: Race, peer: str, targets: Sequence[Target]) -> dict[str, Any]:
    return comparison(race.seconds[OURS], race.seconds[peer], _target(peer, targets))


def _target(peer: str, targets: Sequence[Target]) -> Target | None:
    return next((target for target in targets if target.peer == peer), None)
