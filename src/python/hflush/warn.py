"""Warnings about settings, as Hadoop gives them: in the log, each once in a process."""

from __future__ import annotations

__all__ = ["warn_once"]

_warned: set[str] = set()


def warn_once(text: str) -> None:
    """Log a warning, unless it has been logged."""
    if text not in _warned:
        import logging  # which few need

        _warned.add(text)
        logging.getLogger("hflush.configuration").warning("%s", text)
