"""Asked by close() before it publishes: whether the program calls it, or an accident.

Wrappers of every kind call ``close()`` while an exception is on its way through them, and
finalisers call it for objects without references. Neither means that the program has completed
the file.
"""

from __future__ import annotations

import sys
from _io import _IOBase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, TypeAlias

    Marks: TypeAlias = "tuple[dict[str, Any], ...]"

__all__ = ["finaliser_calls", "marks", "newer"]

# How an iteration ends when nothing is wrong: programs and libraries go on inside the handler.
_ENDS = (StopIteration, StopAsyncIteration)
# How far from close() a finaliser is looked for: wrappers around wrappers.
_DEPTH = 32


def marks() -> Marks:
    """Return marks of the exceptions that are being handled now.

    A mark is the exception's ``__dict__``: while it is held no other exception has the same one,
    and it keeps neither the exception nor its frames alive. The exception that was being handled
    when another was raised is the other's context.
    """
    error = sys.exc_info()[1]
    if error is None:
        return ()
    found: list[dict[str, Any]] = []
    while error is not None and not _is_among(error, found):
        found.append(error.__dict__)
        error = error.__context__
    return tuple(found)


def newer(older: Marks | None) -> BaseException | None:
    """Return the exception that is being handled now, unless it is among `older`.

    None counts if `older` is None. The end of an iteration never counts.
    """
    error = None if older is None else sys.exc_info()[1]
    if older is None or isinstance(error, _ENDS) or error is None or _is_among(error, older):
        return None
    return error


def _is_among(error: BaseException, known: Marks | list[dict[str, Any]]) -> bool:
    own = error.__dict__
    return any(own is one for one in known)


def finaliser_calls() -> bool:
    """Whether close(), which calls end(), which calls this, is called by a finaliser.

    Python's io calls ``close()`` from C, and leaves ``_finalizing`` in the object that it ends;
    all others are ``__del__`` methods, but for those that the program calls by their name.
    """
    frame = sys._getframe(2).f_back
    for _ in range(_DEPTH):
        if frame is None:
            return False
        name, caller = frame.f_code.co_name, frame.f_back
        if name == "__del__" and (caller is None or "__del__" not in caller.f_code.co_names):
            return True
        if name == "close" and _is_finalized(frame):
            return True
        frame = caller
    return False


def _is_finalized(frame: FrameType) -> bool:
    """Whether a function was called with an object of io that is being finalised."""
    code = frame.f_code
    if code.co_argcount == 0:
        return False
    first = frame.f_locals.get(code.co_varnames[0])
    # Of another object it would be a field of the program, or whatever it makes of any name.
    return _IOBase in type(first).__mro__ and getattr(first, "_finalizing", False) is True
