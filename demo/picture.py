"""A small picture of what happened to a query: rows per batch over time, in two runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from query import Batch

WIDTH = 36


def picture(first: Sequence[Batch], killed: str, second: Sequence[Batch]) -> Iterator[str]:
    """Return its lines: the batches of the run that was killed, how, and those of the next one."""
    start = first[0].began
    longest = max(batch.rows for batch in (*first, *second))
    yield f"{'batch':>5} {'at s':>7} {'took s':>7} {'rows':>7}"
    for batch in first:
        yield line(batch, start, longest)
    yield f"{len(first):>5} {'':7} {'':7} {'':7}  x  {killed}"
    for batch in second:
        again = "  <- again, as it was in no log" if batch.number == len(first) else ""
        yield line(batch, start, longest) + again


def line(batch: Batch, start: float, longest: int) -> str:
    bar = "#" * max(1, round(WIDTH * batch.rows / longest))
    return (
        f"{batch.number:>5} {batch.began - start:>7.1f} {batch.seconds:>7.1f} {batch.rows:>7,}  "
        f"{bar}"
    )
