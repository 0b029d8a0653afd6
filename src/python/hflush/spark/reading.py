"""The files of one result, for readers that come while something writes."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from ..checkpoint import FileStreamSinkLog
from .commit import Committer
from .commit.committer import SPARKS_LOG
from .urls import absolute, below

if TYPE_CHECKING:
    from ..namespace import Conf

__all__ = ["files"]


def files(url: str, conf: Conf = None) -> list[str]:
    """Return the files that are to be read of a directory: one result, whatever is being written.

    Parameters
    ----------
    url : str
        What batch jobs or a streaming query have written to.
    conf : mapping, optional
        As for :meth:`hflush.FileSystem.get`.

    Returns
    -------
    list of str
        URLs, sorted. Of batch jobs, with the scheme of `url`, or of ``fs.defaultFS``: what is
        visible, without what an unfinished commit has added to it or, once all of that is there,
        without what it is going to remove. Of a query: what its log lists.

    Raises
    ------
    FileNotFoundError
        There is no such directory.
    NotADirectoryError
        It is a file, or ``_spark_metadata`` in it is.
    ValueError
        An intent, a record or the log is damaged; the message names its file.
    OSError
        The store refuses. ``EBUSY``: while it listed, files were removed, 20 times.

    Notes
    -----
    It writes nothing, and finishes nothing. An overwrite that comes later removes the files of the
    list: a reader that is slower fails with FileNotFoundError, and asks again.

    Source: docs/spark.md.

    Examples
    --------
    >>> spark.read.option("basePath", url).parquet(*files(url))  # doctest: +SKIP
    """
    committer = Committer(url, conf)
    filesystem = committer.filesystem
    if not filesystem.get_file_status(committer.path).is_directory:
        raise NotADirectoryError(errno.ENOTDIR, "files: the path is a file", committer.url)
    if not committer.has_batches():
        listed = committer.result()
        if not committer.has_batches():  # else a query has begun, whose files may be among them
            above = absolute(url, conf).rstrip("/")
            return [f"{above}/{path}" for path in listed]
    log = FileStreamSinkLog(below(filesystem, committer.path, SPARKS_LOG), conf)
    return sorted(file.path for file in log.all_files())
