"""Arguments of the command that are more than text: a malformed one is wrong usage."""

from __future__ import annotations

import argparse

from ..configuration import parse_time

__all__ = ["key_value", "seconds"]


def key_value(text: str) -> tuple[str, str]:
    """Return the two sides of ``key=value``."""
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError("key=value is expected")  # the text may be a secret
    return key, value


def seconds(text: str) -> float:
    """Return the seconds of a time such as ``30s`` or ``7d``; of a number only if it is 0."""
    if text.strip().isdecimal() and int(text) != 0:
        raise argparse.ArgumentTypeError(f"{text}: of what? {text}s, {text}m, {text}h or {text}d")
    try:
        return parse_time(text, "s")
    except ValueError as malformed:
        raise argparse.ArgumentTypeError(str(malformed)) from None
