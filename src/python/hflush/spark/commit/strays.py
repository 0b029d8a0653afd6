"""Files of a streaming query that are in no log: killed attempts have left them, or it forgot them.

The name of a file tells its query and batch. Once the log has a batch, what it lists of it is
final: another file of that batch never gets into the log, even if it is still being written. Nor do
files of a query that is refused, which is any but the one that owns the path. The files of later
batches may, and stay, whatever their age: a query that goes on commits them, or runs their batch
again. Where there is no log readers go by the listing, and nothing is removed.
"""

from __future__ import annotations

import errno
import json
import re
from typing import TYPE_CHECKING, NamedTuple

from ... import paths
from ...checkpoint import CheckpointFileManager, FileStreamSinkLog
from ...errors import NotAFileError
from ..urls import below

if TYPE_CHECKING:
    from ...namespace import Conf
    from .committer import Committer

__all__ = [
    "EPOCHS",
    "Claim",
    "claim_of",
    "foreign_file",
    "named_after",
    "sweep_strays",
    "trace_of_jobs",
]

EPOCHS = "_epochs"  # the records of a ForeachWriter, beside its files

_NAME = re.compile(r"part-\d{5,}-([0-9a-f]{32})-b(\d+)-+\d+-[0-9a-f]{12}-c\d{3,}\.[\w.]+")


class Claim(NamedTuple):
    """Which query writes to a destination: what ``_hflush/query`` says."""

    query: str  # its id
    partition_by: tuple[str, ...] | None = None  # of its files; None: not written down

    def to_bytes(self) -> bytes:
        """Return it as JSON."""
        document = {"query": self.query, "partitionBy": self.partition_by}
        return json.dumps(document).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> Claim:
        """Return the inverse of :meth:`to_bytes`.

        Raises
        ------
        ValueError, LookupError, TypeError
            It is not that.
        """
        document = json.loads(data)
        query, columns = str(document["query"]), document.get("partitionBy")
        return cls(query, None if columns is None else tuple(map(str, columns)))


def named_after(query: str, batch: int) -> str:
    """Return the part of a file's name that tells its query and batch."""
    return f"{query.replace('-', '')}-b{batch}"


def claim_of(manager: CheckpointFileManager, path: str) -> Claim | None:
    """Return the claim in a file; None if there is no such file.

    Raises
    ------
    ValueError
        It does not name a query.
    IsADirectoryError
        It is a directory.
    """
    try:
        with manager.open(path) as stream:
            content = stream.read()
    except NotAFileError:
        raise IsADirectoryError(
            errno.EISDIR,
            "query: this is a directory, where the file that names the query has to be. "
            "Move it away",
            path,
        ) from None
    except FileNotFoundError:
        return None
    try:
        return Claim.from_bytes(content)
    except (ValueError, LookupError, TypeError):
        raise ValueError(f"{path} does not name a query: {content[:100]!r}") from None


def trace_of_jobs(manager: CheckpointFileManager, url: str) -> str:
    """Return the name that shows that others than queries have written to a path; empty: none."""
    for name in ("_SUCCESS", "_hflush/commits", EPOCHS):
        if manager.exists(below(manager.filesystem, url, name)):
            return name
    return ""


def foreign_file(committer: Committer) -> str:
    """Return a file that readers see, by a page of a listing, and no query has made; empty: none.

    Of a query there may be some without a log: killed attempts have left them.
    """
    names = ((path, paths.basename("/" + path)) for path in committer._some_visible())
    return next((path for path, name in names if _NAME.fullmatch(name) is None), "")


def sweep_strays(committer: Committer, conf: Conf, older_than: float) -> int:
    """Remove files of queries that the log does not list, nor ever will; return how many.

    Parameters
    ----------
    committer : Committer
        Of the destination.
    conf : mapping
        As for :meth:`hflush.FileSystem.get`.
    older_than : float
        In seconds. No younger file goes: a task that runs a committed batch again, which is going
        to be dropped, would fail without it.

    Raises
    ------
    ValueError, OSError
        The log cannot be read, or the store refuses.
    """
    control = committer.control
    manager = CheckpointFileManager.create(control, conf)
    claim = claim_of(manager, f"{control}/query")
    log_url = below(committer.filesystem, committer.path, "_spark_metadata")
    log = FileStreamSinkLog(log_url, conf)
    latest = log.get_latest_batch_id()
    if latest is None:  # without a log readers go by the listing: what is there are rows
        return 0
    if claim is None and not trace_of_jobs(manager, committer.url):
        return 0  # one that goes on after Spark's own sink may own it a moment later
    own = "" if claim is None else claim.query.replace("-", "")
    listed = {paths.basename(file.path) for file in log.all_files()}
    swept = 0
    for path in committer.visible():
        name = paths.basename("/" + path)
        found = _NAME.fullmatch(name)
        if found is None or name in listed or (found[1] == own and int(found[2]) > latest):
            continue
        swept += committer.remove(path, older_than)
    return swept
