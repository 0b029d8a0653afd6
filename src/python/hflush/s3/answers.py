"""Whose an answer is: the store's own has a code of S3's, or headers of its own.

A gateway or a proxy that finds no server behind it answers 404 as well. That says nothing of what
the store has.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .. import _core

__all__ = ["check", "code_of", "failure_of", "is_gone", "is_marked"]

_GONE = frozenset(("NoSuchKey", "NoSuchUpload", "NoSuchVersion"))


def code_of(error: OSError | None) -> str:
    """Return S3's code of a failure; empty where the answer had no document of S3's."""
    return getattr(error, "remote_class", "")


def is_gone(response: _core.S3Response) -> bool:
    """Whether the store says that the object or the upload is not there."""
    return response.status == 404 and code_of(response.error) in _GONE


def is_marked(response: _core.S3Response) -> bool:
    """Whether a header is one of S3's: what a proxy answers to HEAD has none."""
    return any(name.startswith("x-amz-") for name in response.headers)


def failure_of(response: _core.S3Response) -> OSError | None:
    """Return what there is to raise: FileNotFoundError for what the store does not have alone."""
    error = response.error
    if error is None or response.status != 404 or code_of(error):
        return error
    message = f"{error.strerror}. Is there a proxy in between, which does not find the store?"
    foreign = OSError(errno.EIO, message, error.filename)
    foreign.__cause__ = error
    return foreign


def check(response: _core.S3Response) -> None:
    """Raise what there is to raise."""
    if (failure := failure_of(response)) is not None:
        raise failure
