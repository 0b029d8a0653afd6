"""The table that the demo prints: a line per directory written."""

from __future__ import annotations

import hflush

COLUMNS = (
    *("files", "rows", "bytes", "MB/s"),
    *("hflush", "mean ms", "hsync", "mean ms", "max ms", "fsyncs"),
)
WIDTHS = (5, 8, 11, 6, 7, 8, 6, 8, 8, 7)


def line(
    encoding: str, files: int, rows: int, size: int, seconds: float, streams: hflush.IOStatistics
) -> str:
    """Return what was written and how long the streams took, by their own statistics."""
    syncs = streams.counters.get("file_syncs")  # of this machine's disks
    return aligned(
        encoding,
        f"{files}",
        f"{rows:,}",
        f"{size:,}",
        f"{size / 1e6 / seconds:.1f}",
        *calls("op_hflush", streams)[:2],
        *calls("op_hsync", streams),
        "-" if syncs is None else f"{syncs:,}",
    )


def calls(operation: str, streams: hflush.IOStatistics) -> tuple[str, str, str]:
    """Return how often the streams were asked for it, and the mean and the longest time it took."""
    mean = streams.means[f"{operation}_duration_mean"]
    if mean.samples == 0:
        return "0", "-", "-"
    longest = streams.maximums[f"{operation}_duration_max"]
    return f"{mean.samples:,}", f"{mean.mean():.2f}", f"{longest:.2f}"


def aligned(first: str, *others: str) -> str:
    cells = (f"{text:>{width}}" for text, width in zip(others, WIDTHS, strict=True))
    return f"{first:<9} " + " ".join(cells)


HEADER = aligned("", *COLUMNS)
