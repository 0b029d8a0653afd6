"""How HDFS behaves where stores differ: the options of contract §3."""

from __future__ import annotations

from types import MappingProxyType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["OPTIONS"]

OPTIONS: Mapping[str, object] = MappingProxyType(
    {
        "is-case-sensitive": True,
        "is-blobstore": False,
        "create-visibility-delayed": False,
        "create-overwrites-directory": False,
        "create-file-under-file-allowed": False,
        "supports-append": True,
        "supports-hflush": True,
        "supports-hsync": True,
        "metadata_updated_on_hsync": False,
        "rename-creates-dest-dirs": False,
        "rename-overwrites-dest": False,
        "rename-returns-false-if-dest-exists": True,
        "rename-returns-false-if-source-missing": True,
        "rename-remove-dest-if-empty-dir": False,
        "supports-atomic-rename": True,
        "supports-atomic-directory-delete": True,
        "supports-block-locality": True,
        "supports-concat": True,
        "supports-seek": True,
        "rejects-seek-past-eof": True,
        "supports-seek-on-closed-file": False,
        "supports-available-on-closed-file": False,
        "supports-positioned-readable": True,
        "supports-strict-exceptions": True,
        "supports-unix-permissions": True,
        "supports-settimes": True,
        "supports-getfilestatus": True,
        "supports-file-reference": True,
        "supports-content-check": True,
        "supports-unbuffer": True,
        "supports-multipartuploader": True,
        "supports-native-copy": False,
        "vector-io-overlapping-ranges": False,
        "vector-io-early-eof-check": False,
        "vector-io-buffers-sliced": False,
        "max-path": 8000,
        "max-filesize": (1 << 63) - 1,
        "test.root-tests-enabled": False,
        "test.random-seek-count": 500,
        "supports-dropbehind": True,
        "supports-abort": False,
        "downgrade-syncable": False,
        "flush-makes-visible": False,
        "sync-on-close": False,
        "hsync-covers-all-blocks": True,
        "create-check-at": "create",
        "conditional-create": True,
        "single-writer": True,
        "open-file-visible": True,
        "partial-data-on-crash": "acknowledged prefix after lease recovery",
        "write-granularity": 0,
        "finalize-consumes-upload-id": True,
        "consistency-interval": 0,
        "mtime-granularity": "ms",
        "mtime-clock": "NameNode",
        "etags": False,
        "etags-preserved-in-rename": False,
        "checksum-verified-on-read": True,
    }
)
