"""What a view hands out that takes paths later: uploaders and trashes that take those of the view.

Each is that of the store behind a link, with the paths of the view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from .. import paths
from ..errors import unsupported
from ..multipart import MultipartUploader, UploaderBelow
from ..trash import Trash

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from typing_extensions import Buffer

    from ..paths import StrPath
    from .mounts import Link, Place

    class View(Protocol):
        """What is asked of a view: see ViewFileSystem."""

        def _resolve(self, path: StrPath) -> str: ...
        def _resolve_to_change(self, path: StrPath) -> str: ...
        def _at(self, path: str) -> Place: ...
        def _below_link(self, path: str) -> Place: ...


__all__ = ["ViewMultipartUploader", "ViewTrash"]


class ViewMultipartUploader(UploaderBelow):
    """Uploads files below a directory of a view: the uploader of the store behind a link.

    Uploads and parts are the store's: also an uploader of the store itself, or of another view of
    it, knows them. What :meth:`complete` returns says where the file is in the store.
    """

    _filesystem: View

    def __init__(self, view: View, base: str, link: Link, uploader: UploaderBelow) -> None:
        super().__init__(view, base)
        self._link = link
        self._uploader = uploader

    def close(self) -> None:
        """Close the uploader of the store: uploads that have not ended go on."""
        self._uploader.close()

    # --- one upload ---

    def _start(self, path: str) -> bytes:
        return self._uploader.start_upload(self._inward(path))

    def _put(self, upload: bytes, path: StrPath, number: int, data: Buffer | BinaryIO) -> bytes:
        return self._uploader._put(upload, self._inward(path), number, data)

    def _complete(self, upload: bytes, path: StrPath, parts: Mapping[int, bytes]) -> bytes:
        return self._uploader._complete(upload, self._inward(path), parts)

    def _abort(self, upload: bytes, path: StrPath) -> None:
        self._uploader._abort(upload, self._inward(path))

    # --- all uploads ---

    def _abort_under(self, path: str) -> int:
        return self._uploader._abort_under(self._behind_link(path))

    def uploads(self) -> list[tuple[bytes, str]]:
        """Return the uploads that have not ended, each with its path in the view.

        Raises
        ------
        io.UnsupportedOperation
            The store lists them by :meth:`hflush.FileSystem.list_multipart_uploads` alone, as S3.
        """
        if not isinstance(self._uploader, MultipartUploader):
            what = "uploads of an uploader (list_multipart_uploads lists them)"
            raise unsupported(what, "the store behind the link", self.base)
        return [
            (upload, self._link.outward(path))
            for upload, path in self._uploader.uploads()
            if paths.is_under(path, self._link.base)
        ]

    # --- how ---

    def _inward(self, path: StrPath) -> str:
        return self._behind_link(self._resolve(path))

    def _behind_link(self, path: str) -> str:
        place = self._filesystem._at(path)
        if place.link != self._link:
            raise ValueError(
                f"{path!r} is behind another link than {self.base!r}: make an uploader for it"
            )
        return place.path

    def _refuse_directory(self, path: str) -> None:
        """Leave that to the uploader of the store, which is asked next."""


class ViewTrash(Trash):
    """The trash of a store behind a link, for paths of the view.

    Attributes
    ----------
    root : str
        The trash directory: absolute, in the store. No link need lead there.
    """

    def __init__(self, view: View, trash: Trash) -> None:
        super().__init__(trash._filesystem, trash.root, trash._interval_s / 60)
        self._view = view
        self._of_store = trash

    def move(self, path: StrPath) -> bool:
        """Move what is at a path of the view to the trash: see :meth:`hflush.trash.Trash.move`."""
        place = self._view._below_link(self._view._resolve(path))
        if place.store is not self._filesystem:
            raise ValueError(
                f"move to the trash: {paths.as_text(path)!r} is not in the file system of this "
                "trash: use get_trash of that path, or move_to_trash"
            )
        return self._of_store.move(place.path)
