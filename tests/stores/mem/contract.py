"""How a memory store behaves where stores differ: the options of contract §3."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["OPTIONS"]

OPTIONS: Mapping[str, object] = {
    # Visible and volatile: flush shows bytes to every reader, nothing makes them durable.
    "flush-makes-visible": True,
    "supports-hflush": False,
    "supports-hsync": False,
    "metadata_updated_on_hsync": False,
    "hsync-covers-all-blocks": False,
    "sync-on-close": False,
    "partial-data-on-crash": "nothing",
    # Files.
    "create-visibility-delayed": False,
    "open-file-visible": True,
    "create-check-at": "create",
    "conditional-create": True,
    "single-writer": False,
    "supports-abort": False,
    "supports-concat": False,
    "supports-multipartuploader": True,
    "finalize-consumes-upload-id": True,
    "supports-native-copy": False,
    "supports-dropbehind": False,
    "max-filesize": (1 << 63) - 1,
    "max-write-window": 5 << 20,
    "write-granularity": 0,
    # Names. One lock: every operation is atomic.
    "is-blobstore": False,
    "is-case-sensitive": True,
    "max-path": 4096,
    "create-file-under-file-allowed": False,
    "create-overwrites-directory": False,
    "rename-creates-dest-dirs": True,
    "rename-overwrites-dest": True,
    "rename-remove-dest-if-empty-dir": True,
    "rename-returns-false-if-dest-exists": False,
    "rename-returns-false-if-source-missing": False,
    "supports-atomic-rename": True,
    "supports-atomic-directory-delete": True,
    "consistency-interval": 0,
    "test.root-tests-enabled": False,
    # Statuses.
    "supports-getfilestatus": True,
    "supports-strict-exceptions": True,
    "supports-unix-permissions": True,
    "supports-settimes": True,
    "mtime-granularity": "ns",
    "mtime-clock": "local kernel",
    "etags": False,
    "etags-preserved-in-rename": False,
    "supports-file-reference": False,
    "supports-block-locality": False,
    # Reading.
    "supports-seek": True,
    "rejects-seek-past-eof": True,
    "supports-seek-on-closed-file": True,
    "supports-available-on-closed-file": False,
    "supports-positioned-readable": True,
    "supports-unbuffer": True,
    "supports-content-check": False,
    "checksum-verified-on-read": False,
    "vector-io-overlapping-ranges": False,
    "vector-io-early-eof-check": True,
    "vector-io-buffers-sliced": False,
    "test.random-seek-count": 100,
}
