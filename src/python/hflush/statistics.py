"""Counts and times of a stream: five read-only maps, as Hadoop's IOStatistics.

Names match ``[a-z][a-z0-9_]+`` and appear in one map only. Counters are events or bytes. For each
timed operation (``op_hflush``, ``op_hsync``, ``op_close``, …), called ``op_x`` here, there is a
counter of that name and, in milliseconds as floats, ``minimums["op_x_duration_min"]``,
``means["op_x_duration_mean"]`` and ``maximums["op_x_duration_max"]``; minimum and maximum are -1
until the operation was done once.

Source: Hadoop's IOStatistics specification.
"""

from __future__ import annotations

from types import MappingProxyType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias

    Flat: TypeAlias = Mapping[str, int]

__all__ = ["IOStatistics", "MeanStatistic", "aggregate"]

UNSET = -1.0  # a minimum or maximum of nothing (Hadoop: MIN_UNSET_VALUE)
_NS_PER_MS = 1e6
_KINDS = ("counters", "gauges", "minimums", "maximums", "means")


class MeanStatistic:
    """A mean, kept as the number of samples and their sum so that means can be added.

    Attributes
    ----------
    samples : int
        How many.
    sum : float
        Their sum, in the unit of the statistic (milliseconds for durations).
    """

    __slots__ = ("samples", "sum")

    def __init__(self, samples: int = 0, sum: float = 0.0) -> None:
        self.samples = samples
        self.sum = sum

    def mean(self) -> float:
        """Return the mean; 0.0 without samples."""
        return self.sum / self.samples if self.samples else 0.0

    def __add__(self, other: MeanStatistic) -> MeanStatistic:
        return MeanStatistic(self.samples + other.samples, self.sum + other.sum)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MeanStatistic):
            return NotImplemented
        return (self.samples, self.sum) == (other.samples, other.sum)

    def __hash__(self) -> int:
        return hash((self.samples, self.sum))

    def __repr__(self) -> str:
        return f"MeanStatistic(samples={self.samples}, sum={self.sum}, mean={self.mean()})"


class _Values:
    """The five maps at one moment."""

    __slots__ = _KINDS

    def __init__(self) -> None:
        self.counters: dict[str, int] = {}
        self.gauges: dict[str, int] = {}
        self.minimums: dict[str, float] = {}
        self.maximums: dict[str, float] = {}
        self.means: dict[str, MeanStatistic] = {}


class IOStatistics:
    """The statistics of one stream, or of several together.

    Each access to a map reads the current values, without waiting for I/O that is under way, also
    after close, failure and abort. :meth:`snapshot` keeps the values of one moment; pickling does
    so too.

    Notes
    -----
    Source: Hadoop's IOStatistics specification; contract STATS-1 to STATS-11.
    """

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], _Values]) -> None:
        self._read = read

    @property
    def counters(self) -> Mapping[str, int]:
        """Events and bytes, never negative."""
        return MappingProxyType(self._read().counters)

    @property
    def gauges(self) -> Mapping[str, int]:
        """Levels that rise and fall."""
        return MappingProxyType(self._read().gauges)

    @property
    def minimums(self) -> Mapping[str, float]:
        """The smallest value seen, or -1."""
        return MappingProxyType(self._read().minimums)

    @property
    def maximums(self) -> Mapping[str, float]:
        """The largest value seen, or -1."""
        return MappingProxyType(self._read().maximums)

    @property
    def means(self) -> Mapping[str, MeanStatistic]:
        """Means with their number of samples."""
        return MappingProxyType(self._read().means)

    def snapshot(self) -> IOStatistics:
        """Return the values of this moment, which no longer change."""
        values = self._read()
        return IOStatistics(lambda: values)

    def to_dict(self) -> dict[str, dict[str, object]]:
        """Return plain dictionaries by kind; a mean is ``{"samples": n, "sum": s}``."""
        values = self._read()
        plain: dict[str, dict[str, object]] = {
            kind: dict(getattr(values, kind)) for kind in _KINDS[:-1]
        }
        plain["means"] = {
            name: {"samples": m.samples, "sum": m.sum} for name, m in values.means.items()
        }
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Mapping[str, object]]) -> IOStatistics:
        """Return the inverse of :meth:`to_dict`."""
        values = _Values()
        for kind in _KINDS[:-1]:
            getattr(values, kind).update(plain.get(kind, {}))
        for name, mean in plain.get("means", {}).items():
            values.means[name] = MeanStatistic(**mean)  # type: ignore[arg-type]
        return cls(lambda: values)

    def to_json(self) -> str:
        """Return :meth:`to_dict` as JSON text."""
        import json

        return json.dumps(self.to_dict(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> IOStatistics:
        """Return the inverse of :meth:`to_json`."""
        import json

        return cls.from_dict(json.loads(text))

    def __reduce__(self) -> tuple[Callable[..., IOStatistics], tuple[object, ...]]:
        return IOStatistics.from_dict, (self.to_dict(),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IOStatistics):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = self._read()
        parts = [
            f"{name}={value}"
            for kind in _KINDS[:2]
            for name, value in sorted(getattr(values, kind).items())
        ]
        parts += [
            f"{name}={mean.mean():.3f}ms/{mean.samples}"
            for name, mean in sorted(values.means.items())
        ]
        return f"<IOStatistics {' '.join(parts)}>"


def live(flat: Callable[[], Flat]) -> IOStatistics:
    """Return statistics that read a flat snapshot of the native core at each access."""
    return IOStatistics(lambda: _from_flat(flat()))


def aggregate(statistics: Iterable[IOStatistics]) -> IOStatistics:
    """Return the sum of several: counters and gauges add, extremes combine, means are weighted."""
    total = _Values()
    for one in statistics:
        values = one._read()
        for name, count in values.counters.items():
            total.counters[name] = total.counters.get(name, 0) + count
        for name, level in values.gauges.items():
            total.gauges[name] = total.gauges.get(name, 0) + level
        for name, low in values.minimums.items():
            total.minimums[name] = _combine(min, total.minimums.get(name, UNSET), low)
        for name, high in values.maximums.items():
            total.maximums[name] = _combine(max, total.maximums.get(name, UNSET), high)
        for name, mean in values.means.items():
            total.means[name] = total.means.get(name, MeanStatistic()) + mean
    return IOStatistics(lambda: total)


def _combine(choose: Callable[[float, float], float], a: float, b: float) -> float:
    if a == UNSET:
        return b
    return a if b == UNSET else choose(a, b)


def _from_flat(flat: Flat) -> _Values:
    """Return the five maps of the core's flat names.

    A plain one is a counter; ``op.samples``, which counts too, ``op.sum_ns``, ``op.min_ns`` and
    ``op.max_ns`` time op.
    """
    values = _Values()
    for name, value in flat.items():
        operation, dot, part = name.partition(".")
        if not dot:
            values.counters[name] = values.counters.get(name, 0) + value
        elif part == "samples":
            values.counters[operation] = values.counters.get(operation, 0) + value
            total_ms = flat[f"{operation}.sum_ns"] / _NS_PER_MS
            low = flat[f"{operation}.min_ns"] / _NS_PER_MS if value else UNSET
            high = flat[f"{operation}.max_ns"] / _NS_PER_MS if value else UNSET
            values.means[f"{operation}_duration_mean"] = MeanStatistic(value, total_ms)
            values.minimums[f"{operation}_duration_min"] = low
            values.maximums[f"{operation}_duration_max"] = high
    return values
