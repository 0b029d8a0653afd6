"""How S3 behaves where stores differ: the options of contract §3."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from .keys import MAX_OBJECT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .settings import Settings

__all__ = ["OPTIONS", "contract_options"]

OPTIONS: Mapping[str, object] = MappingProxyType(
    {
        "is-case-sensitive": True,
        "is-blobstore": True,
        "create-visibility-delayed": True,
        "create-overwrites-directory": False,
        "create-file-under-file-allowed": False,
        "supports-append": False,
        "supports-hflush": False,
        "supports-hsync": False,
        "metadata_updated_on_hsync": False,
        "rename-creates-dest-dirs": True,
        "rename-overwrites-dest": False,
        "rename-returns-false-if-dest-exists": False,
        "rename-returns-false-if-source-missing": False,
        "rename-remove-dest-if-empty-dir": True,
        "supports-atomic-rename": False,
        "supports-atomic-directory-delete": False,
        "supports-block-locality": False,
        "supports-concat": False,
        "supports-seek": True,
        "rejects-seek-past-eof": True,
        "supports-seek-on-closed-file": True,
        "supports-available-on-closed-file": False,
        "supports-positioned-readable": True,
        "supports-strict-exceptions": True,
        "supports-unix-permissions": False,
        "supports-settimes": False,
        "supports-getfilestatus": True,
        "supports-file-reference": False,
        "supports-content-check": False,
        "supports-unbuffer": True,
        "supports-multipartuploader": True,
        "supports-native-copy": True,
        "vector-io-overlapping-ranges": False,
        "vector-io-early-eof-check": True,
        "vector-io-buffers-sliced": False,
        "max-path": 1024,
        "max-filesize": MAX_OBJECT,
        "test.root-tests-enabled": False,
        "test.random-seek-count": 10,
        "supports-dropbehind": False,
        "supports-abort": True,
        "downgrade-syncable": False,
        "flush-makes-visible": False,
        "sync-on-close": True,
        "hsync-covers-all-blocks": False,
        "create-check-at": "commit",
        "conditional-create": None,
        "single-writer": False,
        "open-file-visible": False,
        "partial-data-on-crash": "previous object or nothing",
        "write-granularity": 0,
        "finalize-consumes-upload-id": True,
        "consistency-interval": 0,
        "mtime-granularity": "s",
        "mtime-clock": "store",
        "etags": True,
        "etags-preserved-in-rename": False,
        "checksum-verified-on-read": False,
    }
)


def contract_options(settings: Settings, conditional_create: bool | None) -> Mapping[str, object]:
    """Return them with what the settings of a bucket change."""
    is_fast = "create" in settings.performance
    writing = settings.writing
    return MappingProxyType(
        {
            **OPTIONS,
            "create-file-under-file-allowed": is_fast,
            "create-overwrites-directory": is_fast,
            "max-filesize": writing.max_bytes,
            "supports-multipartuploader": settings.has_uploads,
            "downgrade-syncable": settings.downgrades,
            "conditional-create": conditional_create,
            "max-write-window": writing.window_bytes,
        }
    )
