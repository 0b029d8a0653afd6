"""What hflush says becomes a part of Spark's log.

A Python worker has no JVM. What it writes to its standard error is in the executor's, where Spark's
log is, too; of Python's loggers only warnings get there. The steps of a data source that Spark runs
beside the driver are such workers. Where ``spark.sql.pyspark.worker.logging.enabled`` is set, Spark
collects Python's log itself, for the table function ``python_worker_logs()``.
"""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LEVELS", "logged"]

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL + 1,
}
# As Spark's own lines begin, unless a cluster has another pattern.
_LINES = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%y/%m/%d %H:%M:%S")


@contextmanager
def logged(level: str) -> Iterator[None]:
    """Let lines of this level and above reach the log of Spark while a block runs.

    Parameters
    ----------
    level : str
        A name of :data:`LEVELS`.

    Notes
    -----
    A worker's process is used again: the logger ``hflush`` is left as it was found. If the root
    logger has a handler, which is Spark's collector or the user's, the lines go there.
    """
    logger = logging.getLogger("hflush")
    before = logger.level
    handler: logging.Handler | None = None
    if not logger.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_LINES)
        logger.addHandler(handler)
    logger.setLevel(LEVELS[level])
    try:
        yield
    finally:
        logger.setLevel(before)
        if handler is not None:
            logger.removeHandler(handler)
