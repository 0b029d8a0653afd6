"""Views: one name space of several file systems, by the links of a mount table, as in Hadoop."""

from __future__ import annotations

from .._on_demand import on_demand
from ..registry import Store, register

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .filesystem import ViewFileSystem

__all__ = ["ViewFileSystem"]

if not TYPE_CHECKING:  # with its first use
    __getattr__ = on_demand(__name__, {"ViewFileSystem": "hflush.viewfs.filesystem:ViewFileSystem"})


def __dir__() -> list[str]:
    return __all__


register(
    Store(
        schemes=("viewfs",),
        factory="hflush.viewfs.filesystem:ViewFileSystem",
        key_families=("fs.viewfs.",),
        keys="hflush.viewfs.keys:KEYS",
        fsspec="hflush.viewfs.fsspec:HflushViewFileSystem",
        environment=None,
    )
)
