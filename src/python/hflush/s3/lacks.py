"""What a server has been found to do without, or in a way of its own: found out once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _core
from .answers import code_of

if TYPE_CHECKING:
    from .settings import Endpoint

__all__ = ["Lacks", "is_refused", "lacks_of"]

_NOT_IMPLEMENTED = ("MethodNotAllowed", "NotImplemented", "NotSupported", "UnsupportedOperation")


class Lacks:
    """What is known of the server at an endpoint. Thread-safe: each is found to be so, or not yet.

    Attributes
    ----------
    listing_v2 : bool
        It has no ListObjectsV2: ListObjects is asked.
    bulk_delete : bool
        It has no DeleteObjects, or does not say what came out: objects are removed one by one.
    quiet_delete : bool
        It answers nothing to a DeleteObjects that asks for failures alone: it is asked for all.
    extras : S3RefusedExtras
        What it refuses of headers and parameters; the core finds out (``s3/call/extras.h``).
    part_copies : bool
        It has no UploadPartCopy: objects of up to 5 GiB are copied by one request.
    plus : str
        What a plus sign is in a key that it has encoded: ``"blank"``, ``"itself"``; empty: unknown.
    """

    __slots__ = ("bulk_delete", "extras", "listing_v2", "part_copies", "plus", "quiet_delete")

    def __init__(self) -> None:
        self.extras = _core.S3RefusedExtras()
        self.listing_v2 = False
        self.bulk_delete = False
        self.quiet_delete = False
        self.part_copies = False
        self.plus = ""


_known: dict[Endpoint, Lacks] = {}


def lacks_of(endpoint: Endpoint) -> Lacks:
    """Return what is known of the server there; one for all its file systems."""
    lacks = _known.setdefault(endpoint, Lacks())
    if endpoint.is_aws:
        lacks.plus = "blank"
    return lacks


def is_refused(response: _core.S3Response) -> bool:
    """Whether a server says that it does not have that operation."""
    if response.error is None:
        return False
    return response.status in (405, 501) or code_of(response.error) in _NOT_IMPLEMENTED
