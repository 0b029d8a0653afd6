"""Tokens: what :meth:`hflush.FSDataOutputStream.persist` returns.

A token is JSON in ASCII, with a version: whose it is, the URL of the file, how many bytes it stands
for, and what its store needs to find them again. It carries no secret, so it can be stored and sent
to other processes; who holds it still needs the right to write the file.
"""

from __future__ import annotations

import errno
import json

from .errors import StaleTokenError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["Token", "not_at_its_path"]

_VERSION = 1
_KIND = "hflush.resume"


class Token:
    """A point of a stream that can be resumed.

    Parameters
    ----------
    store : str
        The ``store_name`` of the file system.
    url : str
        The file, with the authority of the file system.
    length : int
        Bytes of the file up to this point.
    state : mapping
        What the store alone understands: plain values of JSON.
    """

    __slots__ = ("length", "state", "store", "url")

    def __init__(self, store: str, url: str, length: int, state: Mapping[str, Any]) -> None:
        self.store = store
        self.url = url
        self.length = length
        self.state = state

    def __repr__(self) -> str:
        return f"<token of {self.length} bytes of {self.url} on {self.store}>"

    def pack(self) -> bytes:
        """Return it as bytes."""
        document = {
            "kind": _KIND,
            "version": _VERSION,
            "store": self.store,
            "url": self.url,
            "length": self.length,
            "state": dict(self.state),
        }
        return json.dumps(document, separators=(",", ":")).encode("ascii")

    @classmethod
    def unpack(cls, token: bytes) -> Token:
        """Return the inverse of :meth:`pack`.

        Raises
        ------
        TypeError, ValueError
            It is not bytes; it is not a token, whole, of a version that is known here.
        """
        if not isinstance(token, (bytes, bytearray, memoryview)):
            raise TypeError(f"a token must be bytes, not {type(token).__name__}")
        try:
            document = json.loads(bytes(token))
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict) or document.get("kind") != _KIND:
            raise ValueError("not a token of persist()")
        version = document.get("version")
        if type(version) is not int or version != _VERSION:
            raise ValueError(f"a token of version {version!r}; this hflush knows {_VERSION}")
        types = {"store": str, "url": str, "length": int, "state": dict}
        _check(document, {"kind": str, "version": int, **types}, "not a token of persist()")
        if document["length"] < 0:
            raise ValueError("not a token of persist(): its length is negative")
        return cls(**{name: document[name] for name in types})

    def check_state(self, types: Mapping[str, type]) -> None:
        """Refuse a state that has not exactly these fields.

        Raises
        ------
        ValueError
            A field is missing, unknown, or of another type.
        """
        _check(self.state, types, f"not a token of {self.store}")

    def stale(self, why: str) -> StaleTokenError:
        """Return the refusal of a token whose file is gone or has changed."""
        message = f"the token for {self.length} bytes of this file cannot be used: {why}"
        return StaleTokenError(errno.ESTALE, message, self.url)


def not_at_its_path(path: str) -> StaleTokenError:
    """Return the refusal of a token for a stream whose file is gone, or was replaced."""
    message = "persist: the path does not name the stream's file any more"
    return StaleTokenError(errno.ESTALE, message, path)


def _check(document: Mapping[str, Any], types: Mapping[str, type], otherwise: str) -> None:
    odd = [name for name, kind in types.items() if type(document.get(name)) is not kind]
    odd += [name for name in document if name not in types]
    if odd:
        raise ValueError(f"{otherwise}: missing, unknown or of a wrong type: {', '.join(odd)}")
