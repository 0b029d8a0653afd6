"""Ours against peers, in turn and in one run: the only comparison that a busy machine allows.

In every round each contender runs once, in an order drawn anew, so that what disturbs the machine
disturbs all of them. A round gives one ratio per peer; the median and the spread of those are the
result. Nothing here asserts a time: a missed target is reported, not hidden and not fatal.
"""

from __future__ import annotations

import gc
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter
from typing import Any

LEAST_SECONDS = 0.002  # what one timing should take at least, where calls may be repeated
MOST_CALLS = 100_000
MEMORY_UNITS = ("B", "KiB", "MiB")
RESAMPLES = 1000


def _nothing(_state: object = None) -> None:
    return None


@dataclass(frozen=True)
class Contender:
    """One way to do the work.

    `run` is timed and is given what `setup` returned; `setup` and `teardown` are not timed and run
    once a round.
    """

    run: Callable[[Any], object]
    setup: Callable[[], Any] = _nothing
    teardown: Callable[[Any], object] = _nothing


@dataclass(frozen=True)
class Target:
    """What is asked of the median ratio to a peer; exactly one of the two.

    speed_at_least=2.0    twice as fast as the peer, or faster
    time_at_most=0.45     at most 0.45 of the peer's time
    """

    peer: str
    speed_at_least: float | None = None
    time_at_most: float | None = None

    def __post_init__(self) -> None:
        if (self.speed_at_least is None) == (self.time_at_most is None):
            raise ValueError("a target names speed_at_least or time_at_most, and not both")


class Race:
    """The times of all contenders over the rounds of one piece of work."""

    def __init__(self, contenders: Mapping[str, Contender], calls: int, seed: str) -> None:
        self._contenders = contenders
        self._calls = calls
        self._random = random.Random(seed)
        self.seconds: dict[str, list[float]] = {name: [] for name in contenders}

    def order(self) -> list[str]:
        """Draw the order of one round."""
        names = list(self._contenders)
        self._random.shuffle(names)
        return names

    def run(self, name: str) -> None:
        """One timing of one contender, set up and cleaned up."""
        contender = self._contenders[name]
        state = contender.setup()
        try:
            self.timing(name, state)
        finally:
            contender.teardown(state)

    def timing(self, name: str, state: object) -> None:
        """One timing of one contender, and nothing around it."""
        run = self._contenders[name].run
        collecting = gc.isenabled()
        gc.disable()
        started = perf_counter()
        for _ in repeat(None, self._calls):
            run(state)
        seconds = perf_counter() - started
        if collecting:
            gc.enable()
        self.seconds[name].append(seconds / self._calls)


@dataclass(frozen=True)
class Quantity:
    """One line of the report that comes out of a trial.

    key        the name under which the contenders' answers give it; less is better
    work       the line
    unit       what the number counts, where that is not the seconds that the work took
    nbytes     moved by the work, operations: done by it, as for `ratio`
    rank       0.9: each round is one event, and the 90th percentiles of all rounds are compared;
               without one, the rounds' ratios are
    """

    key: str
    work: str
    targets: Sequence[Target] = ()
    unit: str = ""
    nbytes: int | None = None
    operations: int = 1
    rank: float | None = None


# One contender's way to do the work once; the answer has every quantity that is asked for.
Trial = Callable[[], Mapping[str, float]]


class Trials:
    """What contenders that measure themselves have answered, over the rounds of one work."""

    def __init__(self, trials: Mapping[str, Trial], seed: str) -> None:
        self._trials = trials
        self._random = random.Random(seed)
        self._answers: dict[str, list[Mapping[str, float]]] = {name: [] for name in trials}

    def round(self) -> None:
        """Each contender once, in an order drawn anew."""
        names = list(self._trials)
        self._random.shuffle(names)
        for name in names:
            self._answers[name].append(self._trials[name]())

    def values(self, key: str, *, without_first: int) -> dict[str, list[float]]:
        """One quantity of every contender, by rounds."""
        return {
            name: [answer[key] for answer in answers[without_first:]]
            for name, answers in self._answers.items()
        }


def calls_for(contender: Contender) -> int:
    """How many calls make one timing long enough to be read."""
    state = contender.setup()
    try:
        calls = 1
        while calls < MOST_CALLS:
            started = perf_counter()
            for _ in repeat(None, calls):
                contender.run(state)
            if perf_counter() - started >= LEAST_SECONDS:
                break
            calls *= 4
        return min(calls, MOST_CALLS)
    finally:
        contender.teardown(state)


def comparison(
    ours: Sequence[float],
    peer: Sequence[float],
    target: Target | None,
    *,
    unit: str = "",
    rank: float | None = None,
) -> dict[str, Any]:
    """Summarize the ratios of two contenders' rounds, in the sense the target speaks of.

    Without a target: as speed, or, if the quantity has a unit, as consumption. With a rank, the
    ratio is that of the contenders' percentiles, and its spread that of resampled rounds.
    """
    used = unit != "" if target is None else target.time_at_most is not None
    above, below = (ours, peer) if used else (peer, ours)
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    summary = spread(ratios) if rank is None else _ratio_of_percentiles(above, below, rank)
    return {
        "kind": ("memory" if unit in MEMORY_UNITS else "time") if used else "speed",
        **summary,
        "of_bests": min(above) / min(below),
        "target": None if target is None else target.time_at_most or target.speed_at_least,
        "rounds": ratios,
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, and the 10th and 90th percentiles."""
    if len(values) < 2:
        return dict.fromkeys(("median", "p10", "p90"), values[0])
    tenths = statistics.quantiles(values, n=10, method="inclusive")
    return {"median": statistics.median(values), "p10": tenths[0], "p90": tenths[-1]}


def percentile(values: Sequence[float], rank: float) -> float:
    """The value at a rank from 0 to 1, interpolated."""
    ordered = sorted(values)
    place = rank * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def percentile_spread(values: Sequence[float], rank: float) -> dict[str, float]:
    """The percentile in the place of the median, and where it lies if rounds are drawn again."""
    draws = random.Random(len(values))
    again = [
        percentile(draws.choices(values, k=len(values)), rank) for _ in repeat(None, RESAMPLES)
    ]
    return {**spread(again), "median": percentile(values, rank)}


def _ratio_of_percentiles(
    above: Sequence[float], below: Sequence[float], rank: float
) -> dict[str, float]:
    rounds = list(zip(above, below, strict=True))
    draws = random.Random(len(rounds))

    def ratio(drawn: Sequence[tuple[float, float]]) -> float:
        return percentile([a for a, _ in drawn], rank) / percentile([b for _, b in drawn], rank)

    again = [ratio(draws.choices(rounds, k=len(rounds))) for _ in repeat(None, RESAMPLES)]
    return {**spread(again), "median": ratio(rounds)}
