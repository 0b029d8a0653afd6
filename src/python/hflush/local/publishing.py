"""Whether a mount has the rename that publishes an atomic file: found out before one is written."""

# ruff: noqa: PTH108

from __future__ import annotations

import io
import logging
import os
from contextlib import suppress

from .. import _core
from ..atomic import temporary_name

__all__ = ["check"]

_log = logging.getLogger(__name__)


def check(path: str, overwrite: bool) -> None:
    """Rename an empty file between two hidden names beside `path`, as its publication would.

    Raises
    ------
    io.UnsupportedOperation
        The mount has no rename, or none that refuses to replace a file.
    """
    tried, renamed = temporary_name(path), temporary_name(path)
    os.close(os.open(tried, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        _core.RawNamespace().rename_exact(tried, renamed, overwrite)
    except io.UnsupportedOperation as lacking:
        advice = "" if overwrite else " (overwrite=True may work, and so does a plain stream)"
        message = f"an atomic file could not be published: {lacking.strerror}{advice}"
        raise io.UnsupportedOperation(lacking.errno, message, path) from lacking
    except OSError as failure:  # the rename that publishes meets it, too, or does not
        _log.debug("no rename could be tried beside %s: %s", path, failure)
    finally:
        for name in (tried, renamed):
            with suppress(OSError):
                os.unlink(name)
