"""The comparison of benchmarks (bench/interleaved.py): what is made of the rounds of contenders."""

from __future__ import annotations

import pytest
from interleaved import Target, comparison, percentile, percentile_spread

HALF = Target("peer", time_at_most=0.5)


def test_percentiles_are_interpolated():
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0, 2.0], 0.9) == pytest.approx(1.9)
    assert percentile([4.0], 0.9) == 4.0


def test_without_a_rank_the_rounds_are_compared():
    """A round that was slow for both counts as one that was not."""
    summary = comparison([1.0, 10.0, 3.0], [2.0, 20.0, 6.0], HALF)
    assert summary["kind"] == "time"
    assert summary["median"] == summary["p10"] == summary["p90"] == 0.5


def test_with_a_rank_the_percentiles_are_compared():
    """One slow event of ours in ten is not seen in the medians, and is in the 90th percentiles."""
    ours = [1.0] * 8 + [9.0, 9.0]
    peer = [4.0] * 8 + [6.0, 6.0]
    assert comparison(ours, peer, HALF, rank=0.5)["median"] == 0.25
    p90 = comparison(ours, peer, HALF, rank=0.9)
    assert p90["median"] == 1.5
    assert p90["p10"] <= p90["median"] <= p90["p90"]
    assert p90["target"] == 0.5


def test_the_spread_of_a_percentile_is_within_the_values():
    values = [float(value) for value in range(1, 12)]
    spread = percentile_spread(values, 0.5)
    assert spread["median"] == 6.0
    assert 1.0 <= spread["p10"] < 6.0 < spread["p90"] <= 11.0
