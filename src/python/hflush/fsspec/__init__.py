"""hflush for fsspec: files, HDFS, S3 and views in pandas, pyarrow, dask, zarr, ….

Four names are registered by entry point, nothing needs to be imported: ``hflushfile``,
``hflushhdfs``, ``hflushs3`` (``hflushs3a``) and ``hflushviewfs``, each also with a plus, as in
``hflush+s3``, which xarray and universal_pathlib do not take for a protocol. :func:`register` puts
the classes in the place of fsspec's own implementations of a protocol. docs/fsspec.md says what
names, options and transactions mean.

    pandas.DataFrame(...).to_parquet("hflushhdfs://nn:8020/data/table.parquet")
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from .._on_demand import needs

try:
    import fsspec  # type: ignore[import-untyped]
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(needs(__name__, missing), name=missing.name) from missing

from .. import registry
from ..errors import UnsupportedFileSystemError
from .base import HflushFileSystem

if TYPE_CHECKING:
    from ..hdfs.fsspec import HflushHdfsFileSystem
    from ..s3.fsspec import HflushS3FileSystem
    from ..viewfs.fsspec import HflushViewFileSystem

__all__ = [
    "HflushFileSystem",
    "HflushHdfsFileSystem",
    "HflushS3FileSystem",
    "HflushViewFileSystem",
    "register",
]


if not TYPE_CHECKING:  # each store brings its own

    def __getattr__(name: str) -> Any:
        for store in registry.stores():
            if store.fsspec.endswith(f":{name}"):
                return registry.load(store.fsspec)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


def register(*protocols: str) -> None:
    """Let fsspec use hflush for these protocols, in the place of what it has.

    Parameters
    ----------
    *protocols : str
        ``file``, ``hdfs``, ``s3``, ``s3a``, ``viewfs``. Without any: ``hdfs``, ``s3`` and ``s3a``.

    Raises
    ------
    UnsupportedFileSystemError
        One is not supported. Nothing was registered.
    """
    classes = [registry.load(store.fsspec) for store in registry.stores() if store.fsspec]
    served_by = {
        name: served for served in classes for name in (*served._replaces, *served.protocol)
    }
    wanted = protocols or tuple(name for served in classes for name in served._replaces_unasked)
    refused = [protocol for protocol in wanted if protocol not in served_by]
    if refused:
        raise UnsupportedFileSystemError(
            errno.EPROTONOSUPPORT,
            f"hflush does not support {' and '.join(refused)} yet; nothing was registered "
            f"(supported: {', '.join(sorted(served_by))})",
        )
    for protocol in reversed(wanted):
        served = served_by[protocol]
        fsspec.register_implementation(protocol, served, clobber=True)
        # fsspec makes URLs with the first protocol: they lead back to this class.
        served.protocol = (protocol, *(name for name in served.protocol if name != protocol))
